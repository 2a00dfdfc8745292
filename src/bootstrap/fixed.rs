//! NCCL_COMM_ID: a meeting point that everybody knows, instead of an id that one rank makes and passes on.
//!
//! Every rank derives the same id from the variable, GINRS_SECRET and its user; rank 0 is the root. The variable may serve
//! many communicators, one after the other: they are counted, and the count is part of name and secret. The kernel's
//! check of the user keeps other users out even where GINRS_SECRET is unset.
#![forbid(unsafe_code)]

use super::address::Address;
use super::auth::{Key, Secret, derive};
use super::id::UniqueId;
use super::route::{Doors, Route};
use crate::bail;
use crate::error::Result;
use crate::process::machine;
use crate::sync::{Mutex, PerProcess};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::net::{ToSocketAddrs, UdpSocket};

/// The id that `point` ("127.0.0.1:4000", "host:port", "[::1]:port") stands for.
pub(super) fn id_of(point: &str, secret: Option<String>) -> Result<UniqueId> {
    let resolved: Vec<_> = match point.to_socket_addrs() {
        Ok(all) => all.collect(),
        Err(e) => bail!(
            InvalidArgument,
            10,
            "NCCL_COMM_ID is no address | \"{point}\" | {e} | fix: set it to 127.0.0.1:PORT, or unset it"
        ),
    };
    // An address is of this host when a socket can be bound to it.
    if !resolved.iter().any(|address| UdpSocket::bind((address.ip(), 0)).is_ok()) {
        bail!(
            InvalidUsage,
            10,
            "NCCL_COMM_ID names another host | \"{point}\" | this version connects the ranks of one host | fix: set it to 127.0.0.1:PORT, or unset it"
        );
    }
    let mut hash = Sha256::new();
    for part in [
        b"ginrs comm id".as_slice(),
        point.as_bytes(),
        secret.unwrap_or_default().as_bytes(),
        &rustix::process::geteuid().as_raw().to_le_bytes(),
    ] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    let base: Secret = hash.finalize().into();
    Ok(UniqueId::fixed(here(Address::None), &base))
}

/// A process of this machine.
fn here(address: Address) -> Route {
    Route { address, machine: machine(), doors: Doors::default() }
}

/// Communicators that were made at a meeting point so far, or that failed to be, as this process has seen it.
type Made = Mutex<HashMap<Key, u32>>;

fn made() -> &'static Made {
    static MADE: PerProcess<Made> = PerProcess::new();
    MADE.get(Mutex::default)
}

/// One communicator at a meeting point. All its ranks have the same number, because a join ends only when all have joined, and
/// only then does the next one begin.
pub(super) struct Meeting {
    point: Key,
    number: u32,
    /// Its own id.
    pub id: UniqueId,
}

impl Meeting {
    /// The communicator that a rank of this process joins now at the point that `id` stands for.
    pub fn next(id: &UniqueId) -> Self {
        let (point, number) = (id.key(), made().lock().get(&id.key()).map_or(1, |made| made + 1));
        let secret: Secret = derive(&id.secret(), &format!("communicator {number}"));
        Self { point, number, id: UniqueId::fixed(here(Address::Abstract(derive(&secret, "root"))), &secret) }
    }

    /// The join has ended.
    pub fn over(&self) {
        let mut made = made().lock();
        let last = made.entry(self.point).or_insert(0);
        *last = self.number.max(*last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_derive_the_same_and_each_communicator_another() {
        let (a, b) = (id_of("127.0.0.1:4000", None).unwrap(), id_of("127.0.0.1:4000", None).unwrap());
        assert_eq!(a.bytes(), b.bytes());
        assert!(a.is_fixed() && UniqueId::from_bytes(&a.bytes()).unwrap().is_fixed());
        assert_ne!(a.key(), id_of("127.0.0.1:4000", Some("s".into())).unwrap().key());
        assert_ne!(a.key(), id_of("127.0.0.1:4001", None).unwrap().key());
        let first = [Meeting::next(&a), Meeting::next(&b)];
        assert_eq!(first[0].id.bytes(), first[1].id.bytes());
        first[1].over();
        let second = Meeting::next(&a);
        first[0].over();
        assert_ne!(second.id.root(), first[0].id.root());
        assert_eq!(second.id.bytes(), Meeting::next(&b).id.bytes());
    }

    #[test]
    fn another_host_is_refused() {
        assert!(id_of("192.0.2.1:4000", None).unwrap_err().text.contains("another host"));
        assert!(id_of("4000", None).unwrap_err().text.contains("no address"));
    }

    /// Anybody can compute the name of a meeting point without a secret, and listen there first.
    #[test]
    fn a_name_that_another_user_has_taken_is_told_with_who_has_it() {
        use std::io::BufRead;
        use std::os::unix::process::CommandExt;
        if let Ok(name) = std::env::var("GINRS_TEST_SQUAT") {
            let name: Vec<u8> = (0..32).step_by(2).map(|at| u8::from_str_radix(&name[at..at + 2], 16).unwrap()).collect();
            let _held = Address::Abstract(name.try_into().unwrap()).listen().unwrap();
            println!("\nlistening");
            return std::io::stdin().lines().for_each(drop);
        }
        if !rustix::process::geteuid().is_root() {
            return println!("skipped: to act as another user this test must run as root");
        }
        let id = id_of(&format!("127.0.0.1:{}", 1000 + std::process::id() % 60000), None).unwrap();
        let Address::Abstract(name) = Meeting::next(&id).id.root().address else { panic!("no name") };
        let mut squatter = std::process::Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "bootstrap::fixed::tests::a_name_that_another_user_has_taken_is_told_with_who_has_it",
                "--nocapture",
            ])
            .env("GINRS_TEST_SQUAT", super::super::address::hex(&name))
            .uid(65534)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = std::io::BufReader::new(squatter.stdout.take().unwrap()).lines().map_while(std::result::Result::ok);
        assert!(lines.any(|line| line == "listening"));
        let error = super::super::Bootstrap::join(&id, 0, 1).err().unwrap();
        drop(squatter.stdin.take());
        squatter.wait().unwrap();
        assert_eq!(error.id, 19);
        for part in ["set GINRS_SECRET", &format!("pid {} of user 65534", squatter.id())] {
            assert!(error.text.contains(part), "{error}");
        }
    }
}
