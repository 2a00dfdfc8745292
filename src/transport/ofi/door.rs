//! Where a rank listens, and whom it lets in: each rank that sends to it, once for each stream.
#![forbid(unsafe_code)]

use super::listen::{Passive, Request};
use super::net::Net;
use super::proof::{Ends, Hello};
use super::{NAME, STREAMS, random};
use crate::error::Result;
use crate::info;
use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;

/// Places at which a rank listens, at most. All of them and a nonce go behind one byte that counts theirs.
pub(super) const PLACES: usize = 6;

/// Where a rank listens, and the nonce that is meant for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Address<'a> {
    pub nonce: [u8; 16],
    /// Each behind its length; one at the least.
    places: &'a [u8],
}

impl<'a> Address<'a> {
    /// Behind their length: what several say one after the other is a list.
    pub fn encode(nonce: &[u8; 16], places: &[Vec<u8>]) -> Vec<u8> {
        let places: Vec<u8> = places.iter().flat_map(|place| behind_its_length(place)).collect();
        behind_its_length(&[&nonce[..], &places].concat())
    }

    /// The door for `stream` in such a list: a rank has one for all streams, or one for each.
    pub fn decode(mut list: &'a [u8], stream: u32) -> Option<Self> {
        let mut doors = Vec::new();
        while !list.is_empty() {
            let (door, rest) = first(list)?;
            let (&nonce, mut places) = door.split_first_chunk()?;
            doors.push(Self { nonce, places });
            if places.is_empty() {
                return None;
            }
            while !places.is_empty() {
                // No address is longer than a sockaddr_storage.
                let (_, others) = first(places).filter(|(place, _)| (8..=128).contains(&place.len()))?;
                places = others;
            }
            list = rest;
        }
        of_stream(&doors, stream).copied()
    }

    /// The places as libfabric has them, the best first.
    pub fn places(self) -> impl Iterator<Item = &'a [u8]> {
        let mut left = self.places;
        std::iter::from_fn(move || {
            let (place, others) = first(left)?;
            left = others;
            Some(place)
        })
    }

    /// The best.
    pub fn at(self) -> &'a [u8] {
        first(self.places).map_or(&[], |(place, _)| place)
    }
}

/// What stands behind its length, and the rest.
fn first(list: &[u8]) -> Option<(&[u8], &[u8])> {
    let (bytes, rest) = list.split_first()?;
    rest.split_at_checked(usize::from(*bytes))
}

fn behind_its_length(bytes: &[u8]) -> Vec<u8> {
    [&[bytes.len() as u8], bytes].concat()
}

/// What there is once for all streams, or once for each.
pub(super) fn of_stream<T>(all: &[T], stream: u32) -> Option<&T> {
    all.get((stream as usize).checked_rem(all.len())?)
}

/// The listening endpoints.
pub(super) struct Door {
    /// By number of the place.
    passives: Vec<Passive>,
    nonce: [u8; 16],
    /// In order.
    expected: Vec<u32>,
    /// Ranks and streams that are in.
    admitted: HashSet<(u32, u32)>,
}

impl Door {
    /// For the ranks `expected`, which are in order, and `others` beside the address of `net`, where it has sockets; and the places, as libfabric has
    /// them. Of those others one may have gone meanwhile.
    pub fn open(net: &Arc<Net>, expected: Vec<u32>, others: &[IpAddr]) -> Result<(Self, Vec<Vec<u8>>)> {
        let mut passives = vec![Passive::open(net, &net.info, 0)?];
        let more = if net.traits.sockets && !net.traits.rdm { others } else { &[] };
        for address in more.iter().take(PLACES - 1) {
            match net.info.at(*address).map(|info| Passive::open(net, &info, passives.len())) {
                Some(Ok(passive)) => passives.push(passive),
                Some(Err(error)) => info!(NET, "nothing listens at {address} for {NAME}: {}", error.text),
                None => {}
            }
        }
        let at = passives.iter().map(Passive::address).collect::<Result<_>>()?;
        Ok((Self { passives, nonce: random()?, expected, admitted: HashSet::new() }, at))
    }

    /// What tells them that it is `at` these places.
    pub fn words(&self, at: &[Vec<u8>]) -> Vec<u8> {
        Address::encode(&self.nonce, at)
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
        if let Some(passive) = self.passives.get(request.place()) {
            passive.reject(request);
        }
    }
}
