//! Several ids for one communicator (ncclCommInitRankScalable): the ranks are parted into consecutive blocks, and each block meets at
//! a root of its own, so that no root has to serve all.
//!
//! ```text
//! 1 a rank takes its seat in the communicator    so that whoever has the table can reach it
//! 2 it joins its block at the block's id
//! 3 the first ranks of the blocks meet           at the process of the first id, and put their blocks' tables together
//! 4 they hand the whole table to their blocks
//! ```
//! What is exchanged on the way also proves that all ranks passed the same ids and number of ranks.
#![forbid(unsafe_code)]

use super::auth::derive;
use super::cancel::Cancel;
use super::id::UniqueId;
use super::join::join;
use super::root::FIRST_RANKS;
use super::service::Service;
use super::wire::{Endpoint, Frame};
use super::{Bootstrap, Seat};
use crate::error::{Code, Error, Result};
use crate::text::listed;
use crate::{bail, config};
use sha2::{Digest, Sha256};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// How much later than the first rank of a block its other ranks lose patience: it knows more.
const SLACK: Duration = Duration::from_secs(5);

/// What all ranks must have passed alike.
#[derive(Clone, Copy, PartialEq)]
struct Call {
    n_ranks: u32,
    n_ids: u32,
    ids: [u8; 8],
}

impl Call {
    fn new(n_ranks: u32, ids: &[UniqueId]) -> Self {
        let mut hash = Sha256::new();
        ids.iter().for_each(|id| hash.update(id.key()));
        let digest: [u8; 32] = hash.finalize().into();
        Self { n_ranks, n_ids: ids.len() as u32, ids: digest[..8].try_into().expect("8 bytes") }
    }

    fn encode(&self) -> Vec<u8> {
        [&self.n_ranks.to_le_bytes()[..], &self.n_ids.to_le_bytes(), &self.ids].concat()
    }

    /// Err naming the first of `calls` that differs; they are of the ranks that `rank_of` gives.
    fn same(&self, calls: &[Arc<[u8]>], rank_of: impl Fn(u32) -> u32) -> Result<()> {
        let Some(at) = calls.iter().position(|call| call.get(..16) != Some(&self.encode()[..])) else { return Ok(()) };
        let rank = rank_of(at as u32);
        let word = |i: usize| calls[at].get(i..i + 4).map_or(0, |b| u32::from_le_bytes(b.try_into().expect("4 bytes")));
        let text = format!(
            "ranks do not fit together | ncclCommInitRankScalable | rank {rank} passed {} ids for {} ranks, another rank {} ids for {} ranks{} | fix: \
             pass the same ids in the same order and the same nranks on every rank",
            word(4),
            word(0),
            self.n_ids,
            self.n_ranks,
            if (word(0), word(4)) == (self.n_ranks, self.n_ids) { ", and the ids differ" } else { "" }
        );
        Err(Error::new(Code::InvalidArgument, 12, text).by(rank))
    }
}

/// The ranks of block `block`: the first ones have one more where the blocks cannot be equal.
fn ranks_of(block: u32, n_blocks: u32, n_ranks: u32) -> Range<u32> {
    let (each, more) = (n_ranks / n_blocks, n_ranks % n_blocks);
    let start = block * each + block.min(more);
    start..start + each + u32::from(block < more)
}

impl Bootstrap {
    /// [`Bootstrap::join_unless`] with one or several ids; each is the meeting point of a block of ranks. At most `n_ranks` ids, all
    /// different, in the same order on every rank.
    pub fn join_at(ids: &[UniqueId], seat: Seat, cancel: &Cancel) -> Result<Bootstrap> {
        let [first, _, ..] = ids else { return Self::join_unless(&ids[0], seat, cancel) };
        let id = UniqueId::derived(first.root(), &derive(&first.secret(), "scalable"));
        let port = Service::get()?.port(&id);
        let place = port.sit(seat.rank);
        let table = whole_table(ids, seat, cancel);
        match table.and_then(|table| cancel.enters(&port, seat.rank).map(|()| table)) {
            Ok(table) => {
                port.set_table(table);
                Ok(Self::at(port, place, seat.rank, seat.n_ranks))
            }
            Err(error) => {
                port.stand_up(seat.rank);
                Err(error)
            }
        }
    }
}

fn whole_table(ids: &[UniqueId], seat: Seat, cancel: &Cancel) -> Result<Vec<Endpoint>> {
    let Seat { rank, n_ranks, machine } = seat;
    let (n_blocks, call) = (ids.len() as u32, Call::new(n_ranks, ids));
    let ranks = |block| ranks_of(block, n_blocks, n_ranks);
    let number = (0..n_blocks).find(|&block| ranks(block).contains(&rank)).expect("blocks cover all ranks");
    let mine = ranks(number);
    let in_block = |error| name_block(error, number, n_blocks, &mine);
    let of_block = |block| ranks(block).collect::<Vec<_>>();
    let _named = ids[number as usize].made_of(&of_block(number))?;
    let joined = (|| {
        let seat = Seat { rank: rank - mine.start, n_ranks: mine.len() as u32, machine };
        let block = join(&ids[number as usize], seat, number == 0, cancel).map_err(in_block)?;
        let block = Bootstrap::at(block.0, block.1, seat.rank, seat.n_ranks);
        call.same(&block.allgather("ids", &call.encode()).map_err(in_block)?, |at| mine.start + at)?;
        Ok(block)
    })();
    let whole = match rank == mine.start {
        false => Vec::new(),
        true => {
            // Also with a failure of its block: the other blocks wait to hear of this one.
            let own = joined.as_ref().map(|block| block.port().table().to_vec()).map_err(Clone::clone);
            let firsts = UniqueId::derived(ids[0].root(), &derive(&ids[0].secret(), FIRST_RANKS));
            let _named = firsts.made_of(&(0..n_blocks).map(|block| ranks(block).start).collect::<Vec<_>>())?;
            joined.iter().for_each(|block| block.step_setter().set("meeting the first ranks of the other ids"));
            let put = put_together(&firsts, Seat { rank: number, n_ranks: n_blocks, machine }, own, call, cancel, ranks);
            put.inspect_err(|error| joined.iter().for_each(|block| block.poison(error)))?
        }
    };
    let block = joined?;
    // The first rank may wait for the other blocks for as long as any rank waits for others to join.
    let patience = config::seconds("GINRS_TIMEOUT").max(config::seconds("GINRS_INIT_TIMEOUT") + SLACK);
    let spread = block.allgather_within(patience, "table", &whole).map_err(in_block)?;
    let table = decode(&spread[0])?;
    if table.len() != n_ranks as usize || table[rank as usize].address != block.port().own_address() {
        bail!(
            RemoteError,
            18,
            "the table of all ranks is wrong | {}, rank {rank} | {} entries for {n_ranks} ranks | fix: load the same libginrs on every rank",
            block.port().tag(),
            table.len()
        );
    }
    Ok(table)
}

/// What the first rank of a block does with those of the others: the encoded table of all ranks, or the first block's failure.
fn put_together(
    id: &UniqueId,
    seat: Seat,
    own: Result<Vec<Endpoint>>,
    call: Call,
    cancel: &Cancel,
    ranks: impl Fn(u32) -> Range<u32>,
) -> Result<Vec<u8>> {
    let of_firsts = |error| name_firsts(error, &ranks, seat.n_ranks);
    let firsts = Bootstrap::join_unless(id, seat, cancel).map_err(of_firsts)?;
    let mut message = call.encode();
    message.extend(match own {
        Ok(table) => encode(table),
        Err(error) => Frame::Refused(error.clone()).encode(),
    });
    let all = firsts.allgather("blocks", &message).map_err(of_firsts)?;
    let mut table = Vec::new();
    for part in &*all {
        table.extend(decode(part.get(16..).unwrap_or_default())?);
    }
    call.same(&all, |at| ranks(at).start)?;
    Ok(encode(table))
}

fn encode(table: Vec<Endpoint>) -> Vec<u8> {
    Frame::Table(table).encode()
}

fn decode(bytes: &[u8]) -> Result<Vec<Endpoint>> {
    match bytes.get(4..).map(Frame::decode) {
        Some(Ok(Frame::Table(table))) => Ok(table),
        Some(Ok(Frame::Refused(reason))) => Err(reason),
        _ => bail!(
            RemoteError,
            18,
            "a block's table is damaged | {} bytes | fix: load the same libginrs on every rank",
            bytes.len()
        ),
    }
}

/// What an error says that is not of one block's ranks.
const FIRSTS: &str = " | the first ranks of the ids, ";

/// Errors of the first ranks' meeting count the ids.
fn name_firsts(error: Error, ranks: impl Fn(u32) -> Range<u32>, n_blocks: u32) -> Error {
    const NAMED: usize = 16;
    let firsts = listed((0..n_blocks).map(|block| ranks(block).start), NAMED);
    let place = format!("{FIRSTS}{firsts}, counted from 0 | ");
    let culprit = error.culprit.map(|block| ranks(block).start);
    Error { text: error.text.replacen(" | ", &place, 1), culprit, ..error }
}

/// Errors of a block count its ranks from 0.
fn name_block(error: Error, number: u32, n_blocks: u32, ranks: &Range<u32>) -> Error {
    if error.text.contains(FIRSTS) {
        return error;
    }
    let place =
        format!(" | id {number} of {n_blocks}, which ranks {} to {} meet at and count from 0 | ", ranks.start, ranks.end - 1);
    let culprit = error.culprit.map(|rank| rank + ranks.start);
    Error { text: error.text.replacen(" | ", &place, 1), culprit, ..error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_cover_all_ranks_once() {
        for n_ranks in 1..40 {
            for n_blocks in 1..=n_ranks {
                let all: Vec<u32> = (0..n_blocks).flat_map(|block| ranks_of(block, n_blocks, n_ranks)).collect();
                assert_eq!(all, (0..n_ranks).collect::<Vec<_>>());
                assert!((0..n_blocks).all(|block| !ranks_of(block, n_blocks, n_ranks).is_empty()));
            }
        }
    }

    /// Ranks as threads; what each came to.
    fn join_all(n: u32, ids: &[UniqueId], call: impl Fn(u32, &[UniqueId]) -> (u32, Vec<UniqueId>) + Sync) -> Vec<Result<usize>> {
        std::thread::scope(|scope| {
            let call = &call;
            let ranks: Vec<_> = (0..n)
                .map(|rank| {
                    scope.spawn(move || {
                        let (n_ranks, ids) = call(rank, ids);
                        let boot = Bootstrap::join_at(&ids, Seat { rank, n_ranks, machine: 1 }, &Cancel::default())?;
                        Ok(boot.allgather("hello", &rank.to_le_bytes())?.len())
                    })
                })
                .collect();
            ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
        })
    }

    #[test]
    fn every_id_serves_its_block() {
        for (n, n_ids) in [(2, 2), (5, 2), (7, 3), (6, 6)] {
            let ids: Vec<UniqueId> = (0..n_ids).map(|_| UniqueId::create().unwrap()).collect();
            let joined = join_all(n, &ids, |_, ids| (n, ids.to_vec()));
            assert!(joined.iter().all(|joined| matches!(joined, Ok(m) if *m == n as usize)), "{joined:?}");
        }
    }

    /// Who is missed in another block was told as a rank of one's own, which was there.
    #[test]
    fn errors_of_the_first_ranks_name_ranks_of_the_communicator() {
        let ranks = |block| ranks_of(block, 2, 6);
        let error = || Error::new(Code::RemoteError, 11, "not all joined | comm 0x1 | missing rank 1 | fix: look").by(1);
        let told = name_firsts(error(), ranks, 2);
        let text = "not all joined | the first ranks of the ids, 0, 3, counted from 0 | comm 0x1 | missing rank 1 | fix: look";
        assert_eq!((told.text.as_str(), told.culprit), (text, Some(3)));
        assert_eq!(name_block(told.clone(), 0, 2, &ranks(0)), told, "as the others of a block hear it");
        let of_block = name_block(error(), 1, 2, &ranks(1));
        assert!(of_block.text.contains("which ranks 3 to 5 meet at and count from 0") && of_block.culprit == Some(4));
    }

    #[test]
    fn another_id_on_one_rank_is_told_to_all() {
        let ids: Vec<UniqueId> = (0..2).map(|_| UniqueId::create().unwrap()).collect();
        let other = UniqueId::create().unwrap();
        let joined = join_all(4, &ids, |rank, ids| match rank {
            // The ids that its block does not meet at.
            3 => (4, vec![other.clone(), ids[1].clone()]),
            _ => (4, ids.to_vec()),
        });
        for error in joined.into_iter().map(|joined| joined.err().unwrap()) {
            assert!(error.text.contains("rank 3 passed") || error.text.contains("rank 2 passed"), "{error}");
        }
    }
}
