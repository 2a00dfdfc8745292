//! Frames after the handshake: `u32 length, u8 kind, body`, little endian. Every number is checked before it is used, and
//! nothing is allocated for a length that has not arrived.
#![forbid(unsafe_code)]

use super::address::Address;
use super::auth::Key;
use super::lookout::{Beat, CALLED, Complaint, Ill};
use super::route::{Doors, ROUTE_BYTES, Route};
use crate::error::{Code, Error};
use crate::error_wire;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Longest frame between processes of a communicator, in bytes.
pub const MAX_FRAME: usize = 64 << 20;
/// Longest frame of a rank to the root, in bytes.
pub const MAX_WORD: usize = error_wire::MAX_BYTES + 64;
/// Longest name of a step, in bytes.
pub const MAX_WHAT: usize = 64;

/// One rank's part of an allgather.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The step that the rank believes it is in.
    pub what: Arc<str>,
    /// Its bytes.
    pub data: Arc<[u8]>,
}

/// One message of an exchange: the blocks of all ranks of some processes, as they stand in the circle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// The first rank of the process that sends.
    pub from: u32,
    /// Number of the exchange on this communicator.
    pub seq: u32,
    /// Round within it.
    pub round: u8,
    /// The ranks' parts.
    pub blocks: Vec<Block>,
}

/// Where a rank of another process stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Which rank.
    pub rank: u32,
    /// Number of the exchange that it is in, or was in last.
    pub seq: u32,
    /// True while it is in it.
    pub inside: bool,
    /// Name of that exchange, or of what it does now.
    pub what: String,
}

/// Where a rank is: its line in the root's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Its process.
    pub address: Address,
    /// Its process id as the root sees it; as the process itself does, where that is on another machine than the root.
    pub pid: u32,
    /// Its machine.
    pub machine: u64,
    /// Where its process listens for other machines.
    pub doors: Doors,
}

impl Endpoint {
    pub(super) fn new(route: Route, pid: u32) -> Self {
        Self { address: route.address, pid, machine: route.machine, doors: route.doors }
    }

    pub(super) fn route(&self) -> Route {
        Route { address: self.address, machine: self.machine, doors: self.doors }
    }
}

/// Everything that travels after the handshake.
#[derive(Clone, Debug, PartialEq)]
pub enum Frame {
    /// Root to rank: not all are here yet.
    Headcount { joined: u32, n_ranks: u32, missing: Vec<u32>, unauthenticated: u32 },
    /// Root to rank: it will not be, and why.
    Refused(Error),
    /// Root to one rank of each process: all are here.
    Table(Vec<Endpoint>),
    /// Root to its other ranks: that one has the table.
    Met { reader: u32 },
    /// Rank to root: it has been let in, and waits. Who dialled may have given up before it was, and have come again.
    Here,
    /// Part of an exchange.
    Blocks(Blocks),
    /// The communicator has failed; `quiescent`: by an abort of `from`, with nothing under way there.
    Poison { from: u32, quiescent: bool, cause: Error },
    /// This rank takes part no more.
    Left { rank: u32 },
    /// Where do your ranks stand?
    Probe,
    /// Here.
    Status(Vec<Standing>),
    /// Give me the descriptor that `owner` published as `key`.
    Fetch { ticket: u64, owner: u32, key: u64 },
    /// Here it is (a descriptor comes along), or there is none.
    Handed { ticket: u64, found: bool },
    /// Of one machine to another, and from there to its processes.
    Beat(Beat),
    /// The end of this rank's process is no failure; or it has ended already, and was none. What it had called; empty: not known.
    Leaving { rank: u32, ended: bool, called: String },
    /// The rank `rank` of a child of this communicator, which the receiver is to be the root of, will not join it.
    Decline { key: Key, rank: u32, cause: Error },
}

/// A cause as the other ranks should read it: whose it is stands in it.
pub(crate) fn as_remote(rank: u32, cause: &Error) -> Error {
    let culprit = cause.culprit.unwrap_or(rank);
    let named = cause.text.contains(&format!("rank {culprit}"));
    let text = if named { cause.text.clone() } else { format!("rank {rank} failed: {}", cause.text) };
    Error { code: Code::RemoteError, id: cause.id, text, culprit: Some(culprit) }
}

/// Bytes that are no frame.
#[derive(Debug, PartialEq, Eq)]
pub struct Malformed;

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Result<&'a [u8], Malformed> {
        let (head, tail) = self.0.split_at_checked(n).ok_or(Malformed)?;
        self.0 = tail;
        Ok(head)
    }

    fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.take(1)?[0])
    }

    fn u16(&mut self) -> Result<u16, Malformed> {
        Ok(u16::from_le_bytes(self.take(2)?.try_into().expect("2 bytes")))
    }

    fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.take(4)?.try_into().expect("4 bytes")))
    }

    fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.take(8)?.try_into().expect("8 bytes")))
    }

    fn flag(&mut self) -> Result<bool, Malformed> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed),
        }
    }

    fn text(&mut self, most: usize) -> Result<&'a str, Malformed> {
        let length = self.u16()?.into();
        if length > most {
            return Err(Malformed);
        }
        std::str::from_utf8(self.take(length)?).map_err(|_| Malformed)
    }

    /// A list whose items take at least `least` bytes each: a count that cannot be true allocates nothing.
    fn list<T>(&mut self, least: usize, mut item: impl FnMut(&mut Self) -> Result<T, Malformed>) -> Result<Vec<T>, Malformed> {
        let count = self.u32()? as usize;
        if count.checked_mul(least).is_none_or(|bytes| bytes > self.0.len()) {
            return Err(Malformed);
        }
        (0..count).map(|_| item(self)).collect()
    }

    /// The rest of the frame.
    fn error(&mut self) -> Result<Error, Malformed> {
        error_wire::decode(std::mem::take(&mut self.0)).ok_or(Malformed)
    }
}

struct Writer(Vec<u8>);

impl Writer {
    fn u32(&mut self, n: u32) {
        self.0.extend(n.to_le_bytes());
    }

    fn u64(&mut self, n: u64) {
        self.0.extend(n.to_le_bytes());
    }

    fn text(&mut self, text: &str, most: usize) {
        let text = &text[..text.floor_char_boundary(most)];
        self.0.extend((text.len() as u16).to_le_bytes());
        self.0.extend(text.as_bytes());
    }

    /// Most blocks share one name: names stand once, blocks say which.
    fn blocks(&mut self, message: &Blocks) {
        for n in [message.from, message.seq] {
            self.u32(n);
        }
        self.0.push(message.round);
        let names: Vec<&str> = message.blocks.iter().map(|block| &*block.what).collect::<BTreeSet<_>>().into_iter().collect();
        self.u32(names.len() as u32);
        names.iter().for_each(|name| self.text(name, MAX_WHAT));
        self.u32(message.blocks.len() as u32);
        for block in &message.blocks {
            self.u32(names.binary_search(&&*block.what).expect("all are in it") as u32);
            self.u32(block.data.len() as u32);
            self.0.extend(&*block.data);
        }
    }
}

impl Frame {
    /// The whole frame, its length included.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer(vec![0; 4]);
        match self {
            Frame::Headcount { joined, n_ranks, missing, unauthenticated } => {
                out.0.push(1);
                [*joined, *n_ranks, *unauthenticated, missing.len() as u32]
                    .into_iter()
                    .chain(missing.iter().copied())
                    .for_each(|n| out.u32(n));
            }
            Frame::Refused(error) => {
                out.0.push(2);
                out.0.extend(error_wire::encode(error));
            }
            Frame::Table(entries) => {
                out.0.push(3);
                out.u32(entries.len() as u32);
                for entry in entries {
                    out.0.extend(entry.route().encode());
                    out.u32(entry.pid);
                }
            }
            Frame::Blocks(message) => {
                out.0.push(4);
                out.blocks(message);
            }
            Frame::Poison { from, quiescent, cause } => {
                out.0.push(5);
                out.u32(*from);
                out.0.push((*quiescent).into());
                out.0.extend(error_wire::encode(cause));
            }
            Frame::Left { rank } => {
                out.0.push(6);
                out.u32(*rank);
            }
            Frame::Probe => out.0.push(7),
            Frame::Status(all) => {
                out.0.push(8);
                out.u32(all.len() as u32);
                for standing in all {
                    out.u32(standing.rank);
                    out.u32(standing.seq);
                    out.0.push(standing.inside.into());
                    out.text(&standing.what, MAX_WHAT);
                }
            }
            Frame::Fetch { ticket, owner, key } => {
                out.0.push(9);
                out.u64(*ticket);
                out.u32(*owner);
                out.u64(*key);
            }
            Frame::Handed { ticket, found } => {
                out.0.push(10);
                out.u64(*ticket);
                out.0.push((*found).into());
            }
            Frame::Beat(beat) => {
                out.0.push(11);
                [beat.from, beat.still, beat.complaints.len() as u32].into_iter().for_each(|n| out.u32(n));
                for complaint in &beat.complaints {
                    out.0.extend([complaint.ill as u8, complaint.hops]);
                    out.u32(complaint.rank);
                    out.u32(complaint.lasts);
                }
            }
            Frame::Leaving { rank, ended, called } => {
                out.0.push(12);
                out.u32(*rank);
                out.0.push((*ended).into());
                out.text(called, CALLED);
            }
            Frame::Met { reader } => {
                out.0.push(14);
                out.u32(*reader);
            }
            Frame::Here => out.0.push(15),
            Frame::Decline { key, rank, cause } => {
                out.0.push(13);
                out.0.extend(key);
                out.u32(*rank);
                out.0.extend(error_wire::encode(cause));
            }
        }
        let length = out.0.len() as u32 - 4;
        out.0[..4].copy_from_slice(&length.to_le_bytes());
        out.0
    }

    /// From the bytes after the length.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut r = Reader(bytes);
        let frame = match r.u8()? {
            1 => {
                let (joined, n_ranks, unauthenticated) = (r.u32()?, r.u32()?, r.u32()?);
                Frame::Headcount { joined, n_ranks, unauthenticated, missing: r.list(4, Reader::u32)? }
            }
            2 => Frame::Refused(r.error()?),
            3 => Frame::Table(r.list(ROUTE_BYTES + 4, |r| {
                let route = Route::decode(r.take(ROUTE_BYTES)?.try_into().expect("72 bytes")).ok_or(Malformed)?;
                Ok(Endpoint::new(route, r.u32()?))
            })?),
            4 => {
                let (from, seq, round) = (r.u32()?, r.u32()?, r.u8()?);
                let names: Vec<Arc<str>> = r.list(2, |r| Ok(r.text(MAX_WHAT)?.into()))?;
                let blocks = r.list(8, |r| {
                    let what = names.get(r.u32()? as usize).ok_or(Malformed)?.clone();
                    let length = r.u32()? as usize;
                    Ok(Block { what, data: r.take(length)?.into() })
                })?;
                Frame::Blocks(Blocks { from, seq, round, blocks })
            }
            5 => Frame::Poison { from: r.u32()?, quiescent: r.flag()?, cause: r.error()? },
            6 => Frame::Left { rank: r.u32()? },
            7 => Frame::Probe,
            8 => Frame::Status(r.list(11, |r| {
                let (rank, seq, inside) = (r.u32()?, r.u32()?, r.flag()?);
                Ok(Standing { rank, seq, inside, what: r.text(MAX_WHAT)?.to_owned() })
            })?),
            9 => Frame::Fetch { ticket: r.u64()?, owner: r.u32()?, key: r.u64()? },
            10 => Frame::Handed { ticket: r.u64()?, found: r.flag()? },
            11 => {
                let (from, still) = (r.u32()?, r.u32()?);
                let complaints = r.list(10, |r| {
                    let (stopped, hops) = (r.flag()?, r.u8()?);
                    let ill = if stopped { Ill::Stopped } else { Ill::Silent };
                    Ok(Complaint { ill, hops, rank: r.u32()?, lasts: r.u32()? })
                })?;
                Frame::Beat(Beat { from, still, complaints })
            }
            12 => Frame::Leaving { rank: r.u32()?, ended: r.flag()?, called: r.text(CALLED)?.to_owned() },
            13 => {
                let key = r.take(16)?.try_into().expect("16 bytes");
                Frame::Decline { key, rank: r.u32()?, cause: r.error()? }
            }
            14 => Frame::Met { reader: r.u32()? },
            15 => Frame::Here,
            _ => return Err(Malformed),
        };
        if r.0.is_empty() { Ok(frame) } else { Err(Malformed) }
    }
}

#[cfg(test)]
mod tests;
