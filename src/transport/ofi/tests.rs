//! The contract over the provider that there is, and what is the network's own.

use super::*;
use crate::device::Physical;
use crate::device::cpu::CpuDevice;
use crate::transport::contract;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

struct Nothing;

impl Share for Nothing {
    fn offer(&self, _: &Arc<dyn Physical>) -> Result<[u64; 2]> {
        unreachable!("no memory is passed")
    }
    fn take(&self, _: u32, _: [u64; 2]) -> Result<Arc<dyn Physical>> {
        unreachable!("no memory is passed")
    }
}

/// Each rank's end, and its words.
fn ends(serves: &[bool]) -> (Vec<Ofi>, Vec<Vec<u8>>) {
    let device = CpuDevice::new(0);
    let all = |_| (0..serves.len() as u32).collect();
    let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let setup = |rank| Setup {
        rank,
        device: &*device,
        serves: serves.to_vec(),
        senders: &all,
        share: &Nothing,
        secret: [7; 32],
        address,
    };
    (0..serves.len() as u32).map(|rank| Ofi::new(&setup(rank)).unwrap()).unzip()
}

/// The same, connected as a communicator connects them.
fn ranks(serves: Vec<bool>) -> Vec<Box<dyn Transport>> {
    let (mut ranks, said) = ends(&serves);
    connect(&mut ranks, &said);
    ranks.into_iter().map(|rank| Box::new(rank) as _).collect()
}

fn connect(ranks: &mut [Ofi], said: &[Vec<u8>]) {
    let words: Vec<Words> = said
        .iter()
        .map(|said| {
            let mut words = Words::default();
            words.say(NAME, said.clone());
            words
        })
        .collect();
    let device = CpuDevice::new(0);
    ranks.iter_mut().for_each(|rank| rank.connect(&*device, &Nothing, &words).unwrap());
}

#[test]
fn contract() {
    contract::all(ranks);
}

#[test]
fn a_peer_that_goes_is_named() {
    contract::failure(ranks, |ranks| drop(ranks.drain(1..)));
}
