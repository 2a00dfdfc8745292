//! The contract, and what is the sockets' own: strangers, peers that go, peers that write nonsense.

use super::*;
use crate::device::cpu::CpuDevice;
use crate::device::{Memory, Physical};
use crate::transport::{Source, contract};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A transport for each rank, made as a communicator makes it.
pub fn ranks(serves: Vec<bool>) -> Vec<Box<dyn Transport>> {
    let device: Arc<dyn Device> = CpuDevice::new(0);
    let all = |_| (0..serves.len() as u32).collect();
    let setup = |rank| Setup {
        rank,
        device: &device,
        serves: serves.clone(),
        senders: &all,
        share: &contract::NoShare,
        secret: [0; 32],
        others: Vec::new(),
        address: std::net::Ipv4Addr::LOCALHOST.into(),
        has_left: Arc::new(|_| false),
    };
    let made = (0..serves.len() as u32).map(|rank| factory::Factory::prepare(&Factory, &setup(rank)).unwrap());
    let (mut ranks, said): (Vec<_>, Vec<_>) = made.unzip();
    contract::connect(ranks.iter_mut().map(|rank| &mut **rank as _), NAME, &said);
    ranks
}

#[test]
fn contract() {
    contract::all(ranks);
}

#[test]
fn a_peer_that_goes_is_named() {
    contract::failure(ranks, |ranks| drop(ranks.drain(1..)));
}

/// Two ranks, with what each says of where it listens.
fn pair() -> (Vec<Messages>, Vec<Vec<u8>>) {
    let (mut ranks, said): (Vec<_>, Vec<_>) = (0..2).map(|rank| Messages::new(rank, vec![true; 2], vec![0, 1]).unwrap()).unzip();
    for rank in &mut ranks {
        rank.peers.iter_mut().flatten().for_each(|to| to.address = Address::decode(&said[to.peer as usize]).unwrap());
    }
    (ranks, said)
}

fn signal_to(peer: u32) -> Work {
    Work { tag: 1, context: 0, peer, source: Source::Inline(0), bytes: 0, target: (0, 0), signal: Some((0, 1)) }
}

/// Signals for every rank, of the test's own.
fn signals(ranks: &mut [Messages]) -> Vec<Arc<dyn Physical>> {
    let device = CpuDevice::new(0);
    let memories: Vec<_> = ranks.iter().map(|_| device.create(contract::BYTES).unwrap()).collect();
    ranks.iter_mut().for_each(|rank| rank.register(&contract::region(SIGNALS, rank.rank, &memories, false)).unwrap());
    memories
}

fn step(ranks: &mut [Messages]) -> Result<()> {
    ranks.iter_mut().try_for_each(|rank| rank.progress(&mut Vec::new()).map(drop))
}

#[test]
fn a_peer_is_dialled_when_something_is_sent() {
    let (mut ranks, _) = pair();
    let _memories = signals(&mut ranks);
    for _ in 0..10 {
        step(&mut ranks).unwrap();
    }
    assert!(ranks.iter().all(|rank| rank.incoming.is_empty()));
    assert_eq!(ranks[0].submit(&signal_to(1)).unwrap(), Submitted::Done);
    while ranks[0].landing().left() > 0 {
        step(&mut ranks).unwrap();
    }
    assert_eq!((ranks[0].incoming.len(), ranks[1].incoming.len()), (0, 1));
}

/// Who does not know the secret is let in neither first nor last, hears nothing, and keeps no rank out.
#[test]
fn strangers_stay_outside() {
    let (mut ranks, said) = pair();
    let memories = signals(&mut ranks);
    let mut wrong = said[1].clone();
    wrong[31] ^= 1;
    let liar = Address::decode(&wrong).unwrap().dial(0).unwrap().unwrap();
    let silent: Vec<_> = (0..4).map(|_| Address::decode(&said[1]).unwrap().knock().unwrap()).collect();
    for _ in 0..10 {
        step(&mut ranks).unwrap();
    }
    assert!(ranks[1].incoming.is_empty());
    ranks[0].submit(&signal_to(1)).unwrap();
    while ranks[0].landing().left() > 0 {
        step(&mut ranks).unwrap();
    }
    // The same rank twice is a stranger, too.
    let second = Address::decode(&said[1]).unwrap().dial(0).unwrap().unwrap();
    for _ in 0..10 {
        step(&mut ranks).unwrap();
    }
    assert_eq!(ranks[1].incoming.len(), 1);
    for stranger in [&liar, &second] {
        let heard = rustix::net::recv(stranger, &mut [0; 8][..], rustix::net::RecvFlags::empty());
        assert!(matches!(heard, Ok((0, 0)) | Err(Errno::CONNRESET)), "{heard:?}");
    }
    drop((silent, memories));
}

/// The target believes no message.
#[test]
fn a_message_that_cannot_be_is_refused() {
    let good = Header { bytes: 0, value: None, target: (0, 0), signal: Some((0, 1)) };
    let bad = [
        (Header { signal: Some((contract::BYTES as u64, 1)), ..good }, 0),
        (Header { signal: Some((4, 1)), ..good }, 0),
        (Header { bytes: 8, target: (77, 0), ..good }, 8),
        (Header { bytes: 8, target: (0, 0), ..good }, 8),
        (Header { bytes: 9, target: (0, 0), ..good }, 8),
        (Header { bytes: PIECE + 1, ..good }, PIECE as usize + 1),
    ];
    for (header, payload) in bad {
        let (mut ranks, _) = pair();
        let memories = signals(&mut ranks);
        let mut message: Vec<u8> = header.encode().into_iter().flat_map(u64::to_le_bytes).collect();
        message.resize(HEADER + payload, 0xee);
        let Messages { peers, poll, .. } = &mut ranks[0];
        peers[1].as_mut().unwrap().send(0, 0, poll, &message).unwrap();
        let error = (0..1000).find_map(|_| ranks[1].progress(&mut Vec::new()).err()).expect("nobody noticed");
        assert_eq!((error.id, error.culprit), (78, Some(0)), "{header:?}: {error}");
        assert_eq!(contract::word(&memories[1], 0).load(Ordering::Relaxed), 0, "{header:?}");
    }
}

/// A rank may leave with messages to it on their way: their sender is not to wait for it.
#[test]
fn nobody_waits_for_a_rank_that_has_left() {
    let (mut ranks, _) = pair();
    let _memories = signals(&mut ranks);
    ranks[0].submit(&signal_to(1)).unwrap();
    ranks[1].progress(&mut Vec::new()).unwrap();
    for _ in 0..20 {
        ranks[0].submit(&signal_to(1)).unwrap();
    }
    ranks[1].close(Duration::from_millis(10)).unwrap();
    for _ in 0..100 {
        ranks[0].progress(&mut Vec::new()).unwrap();
        assert_eq!(ranks[0].submit(&signal_to(1)).unwrap(), Submitted::Done);
    }
    assert_eq!(ranks[0].landing().left(), 0);
}
