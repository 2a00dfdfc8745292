use super::super::address::Peer;
use super::super::auth::Role;
use super::*;
use crate::process::ServiceFd;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::os::fd::OwnedFd;

fn root_at(own: Address) -> (Root, UniqueId) {
    let id = UniqueId::derived(Route { address: own, machine: 1, doors: Doors::default() }, &[3; 32]);
    (Root::new(&id, own), id)
}

/// A rank of process `from` comes; the link to it, and its own end.
fn admit(root: &mut Root, id: &UniqueId, rank: u32, n_ranks: u32, from: Address) -> (Arc<Link>, OwnedFd) {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (near, far) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
    let link = Link::new(ServiceFd::new(near), Peer { pid: 70 + rank, from: None }, None);
    let (role, key, pid) = (Role::Join, id.key(), 70 + rank);
    let route = Route { address: from, ..id.root() };
    root.admit(&Hello { role, key, rank, n_ranks, patience: 9, pid, firsts: 0, route }, link.clone());
    (link, far)
}

/// The process may end with its own rank's call: others heard "the root has ended" in place of the reason.
#[test]
fn the_ranks_of_the_roots_own_process_hear_last_why_it_failed() {
    let own = Address::Abstract([7; 16]);
    let (mut root, id) = root_at(own);
    let mut far: Vec<OwnedFd> = Vec::new();
    for rank in 0..200 {
        let from = if rank == 0 { own } else { Address::Abstract([8; 16]) };
        far.push(admit(&mut root, &id, rank, 300, from).1);
    }
    let has_heard = |far: &OwnedFd| poll(&mut [PollFd::new(far, PollFlags::IN)], Some(&Timespec::default())) == Ok(1);
    let unaware = std::thread::scope(|scope| {
        let (mine, others) = far.split_first().unwrap();
        let watch = scope.spawn(move || {
            while !has_heard(mine) {}
            others.iter().filter(|far| !has_heard(far)).count()
        });
        root.give_up(0, &Error::new(Code::RemoteError, 40, "one is gone"));
        watch.join().unwrap()
    });
    assert_eq!(unaware, 0);
}

#[test]
fn a_contradiction_is_named_though_who_made_it_has_gone() {
    let address = Address::Abstract([7; 16]);
    let (mut root, id) = root_at(address);
    for rank in [0, 1, 1] {
        let (link, _far) = admit(&mut root, &id, rank, 3, address);
        if root.seen.len() < root.members.len() {
            root.member_closed(&link);
        }
    }
    let verdict = root.verdict();
    assert!(verdict.text.contains("rank 1 came twice, from pid 71 and from pid 71"), "{verdict}");
    assert_eq!(verdict.culprit, Some(1));
}
