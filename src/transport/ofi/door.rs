//! Where a rank listens, and whom it lets in: each rank that sends to it, once for each stream.
#![forbid(unsafe_code)]

use super::listen::{Passive, Request};
use super::net::Net;
use super::proof::{Ends, Hello};
use super::{STREAMS, random};
use crate::error::Result;
use std::collections::HashSet;
use std::sync::Arc;

/// Where a rank listens, and the nonce that is meant for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Address<'a> {
    pub nonce: [u8; 16],
    /// As libfabric has it.
    pub at: &'a [u8],
}

impl<'a> Address<'a> {
    /// Behind their length: what several say one after the other is a list.
    pub fn encode(&self) -> Vec<u8> {
        let bytes = self.nonce.len() + self.at.len();
        [&[bytes as u8], &self.nonce[..], self.at].concat()
    }

    /// The door for `stream` in such a list: a rank has one for all streams, or one for each.
    pub fn decode(mut list: &'a [u8], stream: u32) -> Option<Self> {
        let mut doors = Vec::new();
        while let Some((bytes, rest)) = list.split_first() {
            let (door, rest) = rest.split_at_checked(usize::from(*bytes))?;
            let (nonce, at) = door.split_first_chunk()?;
            // No address is longer than a sockaddr_storage.
            if !(8..=128).contains(&at.len()) {
                return None;
            }
            doors.push(Self { nonce: *nonce, at });
            list = rest;
        }
        of_stream(&doors, stream).copied()
    }
}

/// What there is once for all streams, or once for each.
pub(super) fn of_stream<T>(all: &[T], stream: u32) -> Option<&T> {
    all.get((stream as usize).checked_rem(all.len())?)
}

/// The listening endpoint.
pub(super) struct Door {
    passive: Passive,
    nonce: [u8; 16],
    /// In order.
    expected: Vec<u32>,
    /// Ranks and streams that are in.
    admitted: HashSet<(u32, u32)>,
}

impl Door {
    /// For the ranks `expected`, which are in order; and where it is, as libfabric has it.
    pub fn open(net: &Arc<Net>, expected: Vec<u32>) -> Result<(Self, Vec<u8>)> {
        let passive = Passive::open(net)?;
        let at = passive.address()?;
        Ok((Self { passive, nonce: random()?, expected, admitted: HashSet::new() }, at))
    }

    /// What tells them that it is `at`.
    pub fn words(&self, at: &[u8]) -> Vec<u8> {
        Address { nonce: self.nonce, at }.encode()
    }

    /// Who that is, and its nonce, if it may come in to rank `target`; it may not again.
    pub fn admits(&mut self, target: u32, secret: &[u8; 32], request: &Request, said: &[u8]) -> Option<(Ends, [u8; 16])> {
        let hello = Hello::decode(said)?;
        let Hello { sender, stream, nonce, .. } = hello;
        let ends = Ends { secret: *secret, target_nonce: self.nonce, sender, target, stream };
        let may = self.expected.binary_search(&sender).is_ok() && stream < STREAMS && hello.proves(&ends, request.origin());
        (may && self.admitted.insert((sender, stream))).then_some((ends, nonce))
    }

    pub fn reject(&self, request: &Request) {
        self.passive.reject(request);
    }
}
