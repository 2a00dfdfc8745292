//! NCCL_COMM_ID: a meeting point that everybody knows, instead of an id that one rank makes and passes on.
//!
//! Every rank derives the same id from the variable and the secret; rank 0 is the root. The variable may serve many communicators, one
//! after the other: they are counted, and the count is part of each one's secret.
//!
//! A loopback address means this machine: the ranks meet at an abstract Unix socket, where the kernel keeps other users out, also without
//! a secret. At any other address rank 0's process listens by TCP, and only a secret keeps others out: GINRS_SECRET_FILE or GINRS_SECRET.
//! So it does at a host's name that only this host takes for loopback, as Debian's /etc/hosts has it: there it listens where other
//! machines may find it by that name.
#![forbid(unsafe_code)]

use super::address::Address;
use super::auth::{Key, Secret, derive};
use super::id::UniqueId;
use super::interfaces;
use super::route::{Doors, Route};
use crate::error::{Code, Error, Result};
use crate::process::machine;
use crate::sync::{Mutex, PerProcess};
use crate::{bail, config, hint};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6, ToSocketAddrs};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// The id that `point` ("127.0.0.1:4000", "host:port", "[::1]:port") stands for.
pub(super) fn id_of(point: &str, secret: Option<&str>) -> Result<UniqueId> {
    let (point, _) = without_scope(point);
    let point = point.as_str();
    let Named { variable, value, fix } = named(point);
    let at = match point.to_socket_addrs() {
        Ok(all) => reachable(point, all.collect(), interfaces::chosen)?,
        Err(e) => bail!(InvalidArgument, 10, "{variable} is no address | {value} | {e} | fix: {fix}"),
    };
    if at.iter().all(|address| address.port() == 0) {
        bail!(
            InvalidArgument,
            10,
            "NCCL_COMM_ID has port 0 | \"{point}\" | no rank could know where rank 0 listens then | fix: choose a free port of rank 0's host"
        );
    }
    let here = at.iter().all(|address| address.ip().is_loopback());
    if !here && secret.is_none() {
        if config::int("GINRS_ALLOW_INSECURE_COMM_ID") == 0 {
            bail!(
                InvalidUsage,
                103,
                "{variable} at a network address needs a secret | {value} | whoever reaches it could join, or take rank 0's place | fix: set \
                 GINRS_SECRET_FILE to a file that only you can read, alike on all hosts, or GINRS_SECRET; GINRS_ALLOW_INSECURE_COMM_ID=1 does \
                 without"
            );
        }
        static TOLD: AtomicBool = AtomicBool::new(false);
        if !TOLD.swap(true, Ordering::Relaxed) {
            hint!(
                "GINRS-W100 whoever reaches NCCL_COMM_ID can join | \"{point}\" | GINRS_ALLOW_INSECURE_COMM_ID=1 | fix: set GINRS_SECRET_FILE \
                 on every rank"
            );
        }
    }
    let user = if here { rustix::process::geteuid().as_raw() } else { 0 };
    let mut hash = Sha256::new();
    for part in [b"ginrs comm id".as_slice(), point.as_bytes(), secret.unwrap_or_default().as_bytes(), &user.to_le_bytes()] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    let base: Secret = hash.finalize().into();
    let doors = if here { Doors::default() } else { Doors::of(at) };
    Ok(UniqueId::fixed(root_at(Address::None, doors), &base))
}

/// What the user has set to say where ranks meet, as errors have it.
pub(super) struct Named {
    pub variable: &'static str,
    pub value: String,
    fix: &'static str,
}

/// NCCL_COMM_ID, or what ginrs_bootstrap.h has made it of: torchrun's variables.
pub(super) fn named(point: &str) -> Named {
    let of = |name| std::env::var(name).unwrap_or_default();
    named_by(point, &of("MASTER_ADDR"), &of("MASTER_PORT"))
}

fn named_by(point: &str, address: &str, port: &str) -> Named {
    let host = if address.contains(':') { format!("[{address}]") } else { address.into() };
    match port.parse::<u16>().ok().and_then(|port| port.checked_add(1)) {
        Some(behind) if !address.is_empty() && point == format!("{host}:{behind}") => Named {
            variable: "MASTER_ADDR",
            value: format!("\"{address}\", ranks meet at {point} (behind MASTER_PORT)"),
            fix: "set it on every rank to a name or address of rank 0's host that this machine can resolve, or set NCCL_COMM_ID to HOST:PORT",
        },
        _ => Named {
            variable: "NCCL_COMM_ID",
            value: format!("\"{point}\""),
            fix: "set it to HOST:PORT of rank 0, an IPv6 address in brackets, or unset it",
        },
    }
}

/// `[fe80::1%eth0]:4000` without the name of the interface, which another machine may have for another one.
fn without_scope(point: &str) -> (String, Option<&str>) {
    let parts = point.split_once('%').and_then(|(address, rest)| Some((address, rest.split_once(']')?)));
    parts.map_or((point.into(), None), |(address, (interface, port))| (format!("{address}]{port}"), Some(interface)))
}

/// The link-local address in NCCL_COMM_ID, and the interface that it names. No id has that: it is for this machine alone.
pub(super) fn interface() -> Option<(Ipv6Addr, String)> {
    let point = config::text("NCCL_COMM_ID")?;
    let (address, interface) = without_scope(&point);
    let ip = address.parse::<SocketAddrV6>().ok()?;
    Some((*ip.ip(), interface?.into()))
}

/// Of the addresses `at` that `point` has here, those that other machines may know it by, too: of its own name a host may know a loopback
/// address alone (/etc/hosts), in place of which come those that it has itself. Loopback addresses where loopback is meant, or all there is.
fn reachable(point: &str, mut at: Vec<SocketAddr>, own: impl FnOnce() -> Result<Vec<SocketAddr>>) -> Result<Vec<SocketAddr>> {
    let host = point.rsplit_once(':').map_or(point, |(host, _)| host);
    let literal = host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
    if at.iter().all(|address| address.ip().is_loopback()) && !literal && !host.to_ascii_lowercase().contains("localhost") {
        let port = at.first().map_or(0, SocketAddr::port);
        at.extend(own()?.into_iter().map(|address| SocketAddr::new(address.ip(), port)));
    }
    if at.iter().any(|address| !address.ip().is_loopback()) {
        at.retain(|address| !address.ip().is_loopback());
    }
    Ok(at)
}

/// What the ranks share under NCCL_COMM_ID, if anything.
pub(super) fn secret() -> Result<Option<String>> {
    match config::text("GINRS_SECRET_FILE") {
        Some(path) => read_secret(Path::new(&path)).map(Some),
        None => Ok(config::text("GINRS_SECRET")),
    }
}

fn read_secret(path: &Path) -> Result<String> {
    let wrong = |why: String| {
        let text = format!(
            "GINRS_SECRET_FILE cannot be used | \"{}\" | {why} | fix: a file of at most 4096 bytes of yours, that nobody else may read (chmod 600)",
            path.display()
        );
        Err(Error::new(Code::InvalidUsage, 104, text))
    };
    let open = || -> std::io::Result<_> {
        let file = File::open(path)?;
        let found = file.metadata()?;
        let mut text = String::new();
        file.take(4097).read_to_string(&mut text)?;
        Ok((found, text))
    };
    match open() {
        Err(e) => wrong(e.to_string()),
        Ok((found, _)) if !found.is_file() => wrong("it is no file".into()),
        Ok((found, _)) if found.uid() != rustix::process::geteuid().as_raw() => {
            wrong(format!("it belongs to user {}", found.uid()))
        }
        Ok((found, _)) if found.mode() & 0o077 != 0 => {
            wrong(format!("others may use it: its mode is {:o}", found.mode() & 0o777))
        }
        Ok((_, text)) if text.trim().is_empty() || text.len() > 4096 => wrong(format!("it has {} bytes", text.len())),
        Ok((_, text)) => Ok(text.trim().to_owned()),
    }
}

/// Of this machine; of nobody's where it has network addresses, so that all ranks go by these.
fn root_at(address: Address, doors: Doors) -> Route {
    Route { address, machine: if doors.is_empty() { machine() } else { 0 }, doors }
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
        let root = root_at(Address::Abstract(derive(&secret, "root")), id.root().doors);
        Self { point, number, id: UniqueId::fixed(root, &secret) }
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
        assert_ne!(a.key(), id_of("127.0.0.1:4000", Some("s")).unwrap().key());
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
    fn a_network_address_needs_a_secret_and_is_the_same_on_every_machine() {
        assert_eq!(id_of("192.0.2.1:0", Some("s")).unwrap_err().id, 10);
        let error = id_of("192.0.2.1:4000", None).unwrap_err();
        assert!(error.id == 103 && error.text.contains("GINRS_SECRET_FILE"), "{error}");
        let id = id_of("[2001:db8::1]:4000", Some("s")).unwrap();
        let root = Meeting::next(&id).id.root();
        assert_eq!((root.machine, root.doors.to_string()), (0, "[2001:db8::1]:4000".into()));
        assert!(id_of("4000", None).unwrap_err().text.contains("NCCL_COMM_ID is no address"));
        let id = |point: &str| id_of(point, Some("s")).unwrap();
        let [lo, none] = ["[fe80::1%lo]:4000", "[fe80::1%none]:4000"].map(id);
        assert_eq!(
            (lo.root().doors.to_string(), lo.bytes() == none.bytes()),
            ("[fe80::1]:4000".into(), true),
            "no scope of others"
        );
    }

    #[test]
    fn a_point_of_torchruns_variables_is_named_by_them() {
        for (point, address, port, names) in [
            ("node0:4001", "node0", "4000", "MASTER_ADDR \"node0\", ranks meet at node0:4001 (behind MASTER_PORT)"),
            ("[fd00::1]:2", "fd00::1", "1", "MASTER_ADDR \"fd00::1\", ranks meet at [fd00::1]:2 (behind MASTER_PORT)"),
            ("node0:4000", "node0", "4000", "NCCL_COMM_ID \"node0:4000\""),
            ("b:7", "a", "6", "NCCL_COMM_ID \"b:7\""),
            (":1", "", "0", "NCCL_COMM_ID \":1\""),
            ("a:0", "a", "65535", "NCCL_COMM_ID \"a:0\""),
        ] {
            let Named { variable, value, .. } = named_by(point, address, port);
            assert_eq!(format!("{variable} {value}"), names);
        }
    }

    /// Debian gives a host's own name the address 127.0.1.1 in its /etc/hosts, which other machines cannot know.
    #[test]
    fn a_host_that_knows_itself_by_loopback_alone_goes_by_what_others_reach() {
        let at = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<SocketAddr>>();
        let own = || Ok(at(&["10.0.0.7:0", "[2001:db8::7]:0"]));
        let loopback = at(&["127.0.1.1:4000"]);
        for (point, known, gives) in [
            ("node7:4000", &loopback, at(&["10.0.0.7:4000", "[2001:db8::7]:4000"])),
            ("node7:4000", &at(&["127.0.1.1:4000", "192.0.2.9:4000"]), at(&["192.0.2.9:4000"])),
            ("127.0.1.1:4000", &loopback, loopback.clone()),
            ("localhost:4000", &at(&["127.0.0.1:4000"]), at(&["127.0.0.1:4000"])),
            ("[::1]:4000", &at(&["[::1]:4000"]), at(&["[::1]:4000"])),
        ] {
            assert_eq!(reachable(point, known.clone(), own).unwrap(), gives, "{point}");
        }
        // No network at all: this machine is all there is.
        let bare = reachable("node7:4000", loopback.clone(), || Ok(at(&["127.0.0.1:0"]))).unwrap();
        assert!(bare.iter().all(|address| address.ip().is_loopback()));
    }

    #[test]
    fn a_secret_that_others_may_read_is_none() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        assert_eq!(read_secret(&path).unwrap_err().id, 104);
        for (text, mode, told) in [("s", 0o644, "mode is 644"), ("s", 0o620, "mode is 620"), ("\n", 0o600, "1 bytes")] {
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let error = read_secret(&path).unwrap_err();
            assert!(error.text.contains(told), "{error}");
        }
        std::fs::write(&path, "between us\n").unwrap();
        assert_eq!(read_secret(&path).unwrap(), "between us");
        assert!(read_secret(folder.path()).is_err());
    }

    /// An address of this process: at 127.0.0.1 another one may use any port.
    fn dedicated(port: u16) -> String {
        let [low, middle, high, _] = std::process::id().to_le_bytes();
        format!("127.{}.{middle}.{low}:{port}", 64 + high)
    }

    /// A job that ends may still have it when the next one begins.
    #[test]
    fn rank_0_takes_the_meeting_point_as_soon_as_it_is_free() {
        let point = || id_of(&dedicated(4000), Some("between us")).unwrap();
        let other = Meeting::next(&point()).id.root().address.listen().unwrap();
        let joins = std::thread::spawn(move || super::super::Bootstrap::join(&point(), 0, 1).map(drop));
        while rustix::net::accept(&other).is_err() {
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        drop(other);
        joins.join().unwrap().unwrap();
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
        let id = id_of(&dedicated(4001), None).unwrap();
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
