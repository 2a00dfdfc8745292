//! The contract where windows are apart from the CPU, and what is the copies' own.

use super::tests::{connect, ends};
use super::*;
use crate::device::cpu::CpuDevice;
use crate::device::{CopyQueue, Physical, Transfers};
use crate::transport::contract;
use crate::transport::contract::apart::{Apart, Reaching};
use crate::transport::delayed::Delayed;
use std::sync::Arc;

fn ranks(serves: Vec<bool>, queue: &dyn Fn() -> Result<Box<dyn CopyQueue>>) -> Vec<Box<dyn Transport>> {
    let (mut ranks, said) = ends(&serves, Some(queue));
    connect(&mut ranks, &said);
    ranks.into_iter().map(|rank| Box::new(rank) as _).collect()
}

fn at_once() -> Result<Box<dyn CopyQueue>> {
    Ok(Box::new(Reaching(CpuDevice::new(0).copy_queue()?)))
}

fn apart(_: u32, memory: Arc<dyn Physical>) -> Arc<dyn Physical> {
    Arc::new(Apart(memory))
}

#[test]
fn contract_at_once() {
    contract::all_seen(|serves| ranks(serves, &at_once), apart);
}

#[test]
fn contract_late_and_out_of_order() {
    for seed in [4, 0x5eed_0007] {
        let late = || Ok(Box::new(Reaching(Box::new(Delayed::new(seed)))) as _);
        contract::all_seen(|serves| ranks(serves, &late), apart);
    }
}

/// Every second rank's windows are host memory.
#[test]
fn contract_of_mixed_windows() {
    let seen: [contract::Seen; 2] = [
        |rank, memory| if rank % 2 == 0 { apart(rank, memory) } else { memory },
        |rank, memory| if rank % 2 == 1 { apart(rank, memory) } else { memory },
    ];
    for seen in seen {
        contract::all_seen(|serves| ranks(serves, &|| Ok(Box::new(Reaching(Box::new(Delayed::new(6)))))), seen);
    }
}

#[test]
fn a_peer_that_goes_is_named() {
    contract::failure(|serves| ranks(serves, &at_once), |ranks| drop(ranks.drain(1..)));
}
