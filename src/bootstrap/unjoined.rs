//! Why a rank could not join: what it says of the root that it did not get to.
#![forbid(unsafe_code)]

use super::dial::NoLink;
use super::fdpass::{NETWORK, PORTS};
use super::id::UniqueId;
use super::interfaces;
use super::port::Port;
use crate::config;
use crate::error::{Code, Error};
use crate::process::machine;
use std::net::IpAddr;

/// `; 172.17.0.1 is this machine's own ..`, where an address of the root's leads every machine to itself; else nothing.
pub(super) fn astray(id: &UniqueId) -> String {
    let root = id.root();
    let there: Vec<IpAddr> = root.doors.iter().map(|door| door.ip()).collect();
    match () {
        // Also what `id_of` makes of a loopback address alone.
        _ if id.is_fixed() && there.is_empty() => {
            "; NCCL_COMM_ID names the machine of whoever reads it: ranks on others need an address of rank 0's host".into()
        }
        _ if !id.is_fixed() && machine() == root.machine => String::new(),
        _ => misleading(&there, &interfaces::own(), id.is_fixed()),
    }
}

fn misleading(there: &[IpAddr], own: &[IpAddr], is_fixed: bool) -> String {
    let itself = |ip: &&IpAddr| ip.is_loopback() || ip.is_unspecified() || own.contains(ip);
    match (there.iter().find(itself), is_fixed) {
        (Some(ip), false) => {
            format!(
                "; {ip} is an address of this machine, too: NCCL_SOCKET_IFNAME on every rank chooses the interface that leads to the others"
            )
        }
        // Rank 0 itself, and those beside it, are right to find it their own.
        (Some(ip), true) if ip.is_unspecified() => format!("; {ip} says to no other machine where rank 0 is"),
        _ => String::new(),
    }
}

/// Behind all patience: whoever is to listen has not come. In the same words for all ranks of a process, which print them once.
pub(super) fn nobody(id: &UniqueId, port: &Port, n_ranks: u32, why: &NoLink) -> Error {
    let (what, fix) = match why {
        NoLink::Unknown if id.is_fixed() => (
            "the meeting point is another communicator's",
            "give each job an address of its own (NCCL_COMM_ID), and all its ranks the same secret",
        ),
        _ => (
            "the first rank has not come",
            "make the same call with the same arguments on every rank, look at the output of rank 0",
        ),
    };
    let seconds = config::seconds("GINRS_INIT_TIMEOUT").as_secs();
    let text = format!(
        "{what} | {}, of {n_ranks} ranks | {why}, for {seconds} s{} | fix: {fix}, or raise GINRS_INIT_TIMEOUT",
        port.tag(),
        astray(id),
    );
    Error::new(Code::RemoteError, 11, text).by(0)
}

/// The way to it ends otherwise.
pub(super) fn unreachable(id: &UniqueId, port: &Port, rank: u32, why: &NoLink) -> Error {
    let (code, fix) = match why {
        NoLink::Nobody => (
            Code::InvalidUsage,
            "use an id for one communicator only, keep the process that called ncclGetUniqueId alive, and stay in its network namespace",
        ),
        NoLink::Unknown => (
            Code::InvalidUsage,
            "pass the id of this communicator to every rank, unchanged; use an id for one communicator only, and each rank once",
        ),
        NoLink::Unreachable(..) => (Code::RemoteError, NETWORK),
        NoLink::NoPort => (Code::SystemError, PORTS),
        NoLink::Impostor | NoLink::Late | NoLink::Dropped if id.is_fixed() => (
            Code::RemoteError,
            "another program may listen at NCCL_COMM_ID: take a port that is free, and the same secret on all ranks",
        ),
        NoLink::Dropped => (Code::RemoteError, "pass the id of this communicator to every rank, unchanged"),
        // Its name follows from NCCL_COMM_ID, where no secret is in it, and anybody may take it.
        NoLink::Foreign(_) if id.is_fixed() => (
            Code::InvalidUsage,
            "another user has taken the name of this meeting point, or another rank runs as that user: set GINRS_SECRET alike on all ranks, which makes \
             the name one that nobody can guess, and run all ranks as one user",
        ),
        NoLink::Foreign(_) => (
            Code::InvalidUsage,
            "run all ranks as one user; where they do, the process that called ncclGetUniqueId has ended and another user has taken its place: keep it alive",
        ),
        NoLink::Wire(_) => (Code::InvalidUsage, "load the same libginrs on every rank"),
        NoLink::System(_) => (Code::SystemError, "raise the limits of descriptors (ulimit -n) and memory"),
        NoLink::Impostor | NoLink::Late => (Code::RemoteError, "look at the process that called ncclGetUniqueId"),
        NoLink::Own(error) => return error.clone(),
    };
    let number = match why {
        NoLink::Wire(_) => 13,
        NoLink::Unreachable(..) => 102,
        NoLink::NoPort => 105,
        NoLink::System(_) => 24,
        _ => 19,
    };
    Error::new(
        code,
        number,
        format!(
            "the unique id's root cannot be reached | {}, rank {rank} | {why}; it is in {}{} | fix: {fix}",
            port.tag(),
            id.root_process(),
            astray(id)
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_leads_every_machine_to_itself_is_named() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let own = [ip("10.0.0.2"), ip("172.17.0.1")];
        let said = misleading(&[ip("10.0.0.1"), ip("172.17.0.1")], &own, false);
        assert!(said.contains("172.17.0.1 is an address of this machine") && said.contains("NCCL_SOCKET_IFNAME"), "{said}");
        assert!(misleading(&[ip("127.0.0.1")], &own, false).contains("127.0.0.1"));
        assert_eq!(misleading(&[ip("10.0.0.1")], &own, false), "");
        assert_eq!(misleading(&[ip("172.17.0.1")], &own, true), "", "a meeting point on this machine");
        assert!(misleading(&[ip("::")], &own, true).contains(":: says to no other machine"));
    }
}
