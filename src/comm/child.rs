//! Communicators made of another: split and shrink. A child has links, windows, GIN contexts and proxy work of its own, whatever
//! splitShare and shrinkShare say: sharing would give kernels the parent's rank numbers.
//!
//! ```text
//! split   all ranks of the parent tell each other colour and key; the first of each colour opens a meeting point; all ranks
//!         hear that every one is open, or who could not; then each colour meets
//! shrink  the ranks that are left meet at a point that follows from the parent's secret and the list of the others: it needs
//!         nothing of a rank that is gone, nor anything of the parent that an abort ends
//! ```
//! While ranks are waited for, one that has left the parent or died ends the wait, by name.

use super::Comm;
use super::create::{Request, create};
use crate::bootstrap::{Bootstrap, Cancel, DEAD, LEFT, UniqueId};
use crate::error::{Code, Error, Result};
use crate::process::random;
use crate::sync::Mutex;
use crate::team::Config;
use crate::{bail, info};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// NCCL_SPLIT_NOCOLOR.
pub const NO_COLOR: i32 = -1;

/// What a rank says in a split; it travels as it stands here.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
struct Wish {
    color: i32,
    key: i32,
    /// Of its meeting point, if it is the first of its colour.
    nonce: [u8; 16],
}

impl Wish {
    /// What a rank says whose own call is wrong: the others would wait for it.
    fn refusal(error: &Error) -> Vec<u8> {
        [Self { color: NO_COLOR, key: 0, nonce: [0; 16] }.as_bytes(), error.text.as_bytes()].concat()
    }

    fn decode(rank: usize, bytes: &[u8]) -> Result<Self> {
        if let Some((_, text)) = bytes.split_at_checked(24).filter(|(_, text)| !text.is_empty()) {
            let text = format!("rank {rank} cannot split: {}", String::from_utf8_lossy(text));
            return Err(Error::new(Code::RemoteError, 38, text).by(rank as u32));
        }
        match Self::read_from_bytes(bytes) {
            Ok(wish) => Ok(wish),
            Err(_) => bail!(
                RemoteError,
                18,
                "rank {rank} sent a wrong split | {} bytes, 24 expected | fix: load the same libginrs on every rank",
                bytes.len()
            ),
        }
    }
}

/// Parent ranks of one colour, in the child's order: by key, equal keys by parent rank.
fn members(wishes: &[Wish], color: i32) -> Vec<u32> {
    let mut members: Vec<u32> = (0..wishes.len() as u32).filter(|&rank| wishes[rank as usize].color == color).collect();
    members.sort_by_key(|&rank| (wishes[rank as usize].key, rank));
    members
}

/// ncclCommSplit: collective over all ranks of `parent`. None for a rank without a colour. A rank whose `config` is an error takes part
/// all the same, so that the others hear of it.
pub fn split(parent: &Arc<Comm>, color: i32, key: i32, config: Result<Config>) -> Result<Option<Arc<Comm>>> {
    let cancel = Cancel::new();
    parent.making_child(&cancel, || {
        let beside = meet_beside(parent, &cancel)?;
        let all = beside.as_ref().unwrap_or(&parent.team.bootstrap);
        let own = Wish { color, key, nonce: random()? };
        let said = all.allgather("split", &config.as_ref().map_or_else(Wish::refusal, |_| own.as_bytes().to_vec()))?;
        let config = config?;
        let wishes = said.iter().enumerate().map(|(rank, bytes)| Wish::decode(rank, bytes)).collect::<Result<Vec<_>>>()?;
        let members = members(&wishes, color);
        let id = (color != NO_COLOR).then(|| {
            let nonce = u128::from_le_bytes(wishes[members[0] as usize].nonce);
            parent.team.bootstrap.id_of_child(&format!("split {color} {nonce:032x}"), members[0])
        });
        let _named = id.as_ref().map(|id| named(parent, id, &members)).transpose()?;
        let opened = match &id {
            Some(id) if members[0] == parent.team.rank => id.listen(),
            _ => Ok(()),
        };
        let told = opened.err().map_or(String::new(), |e| e.to_string());
        let open = all.allgather("split meeting points", told.as_bytes()).and_then(|said| all_opened(&said));
        if let (Err(error), Some(id)) = (&open, &id) {
            id.withdraw(error);
        }
        open?;
        id.map(|id| child(parent, id, members, config, &cancel)).transpose()
    })
}

/// Where the parent's own exchanges have ended with a revoke, its ranks meet beside it.
fn meet_beside(parent: &Arc<Comm>, cancel: &Cancel) -> Result<Option<Bootstrap>> {
    if !parent.revoked_by_any() {
        return Ok(None);
    }
    let number = parent.calls.beside.fetch_add(1, Ordering::Relaxed);
    let id = parent.team.bootstrap.id_of_child(&format!("beside {number}"), 0);
    if parent.team.rank == 0 {
        id.listen()?;
    }
    let all = parent.clone();
    cancel.watch(move || absent(&all, 0..all.team.n_ranks));
    Bootstrap::join_unless(&id, parent.team.seat(), cancel).map(Some)
}

fn all_opened(said: &[Arc<[u8]>]) -> Result<()> {
    match said.iter().zip(0..).find(|(text, _)| !text.is_empty()) {
        Some((text, rank)) => {
            let text = format!("rank {rank} cannot open a meeting point | ncclCommSplit | {}", String::from_utf8_lossy(text));
            Err(Error::new(Code::RemoteError, 19, text).by(rank))
        }
        None => Ok(()),
    }
}

/// ncclCommShrink: collective over the ranks of `parent` that are not in `excluded`, which is sorted and has no rank twice.
pub fn shrink(parent: &Arc<Comm>, excluded: &[u32], config: Config, abort: bool) -> Result<Arc<Comm>> {
    let cancel = Cancel::new();
    parent.making_child(&cancel, || {
        if abort {
            end_operations(parent);
        }
        let (members, label) = next_shrink(parent, excluded);
        let id = parent.team.bootstrap.id_of_child(&label, members[0]);
        let _named = named(parent, &id, &members)?;
        if members[0] == parent.team.rank {
            id.listen()?;
        }
        // Shown to the others; short where the list is long.
        parent.team.watch.set_step(&format!("{SHRINK}{:08x}: {label}", crc32fast::hash(label.as_bytes())));
        let made = child(parent, id, members, config, &cancel);
        match &made {
            // The step stays: the others are to find the same. It counts alike on all of them, whatever their lists were.
            Err(error) if error.id == FIT => {
                *parent.calls.shrunk.lock().entry(excluded.to_vec()).or_insert(1) -= 1;
                parent.calls.misfits.fetch_add(1, Ordering::Relaxed);
            }
            _ => parent.team.watch.set_step(""),
        }
        made
    })
}

/// Who stays, and what they call the place where they meet.
fn next_shrink(parent: &Comm, excluded: &[u32]) -> (Vec<u32>, String) {
    let members = (0..parent.team.n_ranks).filter(|rank| excluded.binary_search(rank).is_err()).collect();
    let mut shrunk = parent.calls.shrunk.lock();
    let number = shrunk.entry(excluded.to_vec()).or_default();
    *number += 1;
    (members, format!("shrink {number}.{} without {excluded:?}", parent.calls.misfits.load(Ordering::Relaxed)))
}

/// This rank's call of ncclCommShrink is wrong, or its group has dropped it: it counts as one, and the others hear of it where they meet.
pub fn decline_shrink(parent: &Comm, excluded: &[u32], error: &Error) {
    let (members, label) = next_shrink(parent, excluded);
    let id = parent.team.bootstrap.id_of_child(&label, members[0]);
    if members[0] == parent.team.rank
        && let Err(untold) = id.listen()
    {
        return info!(INIT, "{} the others do not hear that this rank cannot shrink: {untold}", parent.team.tag());
    }
    let rank = members.iter().take_while(|&&rank| rank != parent.team.rank).count() as u32;
    parent.team.bootstrap.decline_child(&id, members[0], rank, error);
}

/// This rank's list is wrong, so it knows no place where the others meet: those who wait for it see what it says of itself, until its
/// next call.
pub fn decline_list(parent: &Comm, error: &Error) {
    parent.calls.misfits.fetch_add(1, Ordering::Relaxed);
    parent.team.watch.set_step(&format!("{SHRINK}with a wrong list: {error}"));
}

/// From the beginning the child's messages say which ranks of the job it counts, as long as this is kept.
fn named(parent: &Comm, id: &UniqueId, members: &[u32]) -> Result<impl Sized + use<>> {
    let family: Vec<u32> = members.iter().map(|&rank| parent.team.peers[rank as usize].origin.rank).collect();
    id.made_of(&family)
}

/// How long a rank that has left may be the first that is missed here: it may have seen before this one that another has died, and ended by it.
const LEAVES_FIRST: Duration = Duration::from_millis(300);
/// Number of the error of a shrink that ends what is under way: nobody is gone because of that.
const SHRUNK: u16 = 45;

/// Err for one of `ranks` that is dead, and a little later for one that has left.
fn absent(parent: &Comm, ranks: impl Iterator<Item = u32>) -> Result<()> {
    match parent.team.bootstrap.absent(ranks.filter(|&rank| rank != parent.team.rank)) {
        Err((error, since)) if error.id != LEFT || since.elapsed() >= LEAVES_FIRST => Err(error),
        _ => Ok(()),
    }
}

/// How what a rank says of itself begins while it shrinks.
const SHRINK: &str = "ncclCommShrink ";
/// Number of the error of ranks that do not fit together.
const FIT: u16 = 12;
/// How long two ranks may be in different shrinks. Ranks may learn of a death one after the other, and come with a longer list at once.
const DIFFERENT: Duration = Duration::from_secs(3);

/// How often ranks on other machines are asked, by those they are linked with: every rank is linked with some of the others.
const ASK: Duration = Duration::from_millis(100);

/// Finds ranks that meet elsewhere because they passed another list.
struct SameList {
    /// The first of them, and since when.
    differs: Mutex<Option<(u32, Instant)>>,
    asked: Mutex<Instant>,
}

impl SameList {
    fn new() -> Self {
        Self { differs: Mutex::default(), asked: Mutex::new(Instant::now()) }
    }

    fn check(&self, parent: &Comm, members: &[u32]) -> Result<()> {
        let mut asked = self.asked.lock();
        if asked.elapsed() > ASK {
            *asked = Instant::now();
            parent.team.watch.ask_for_steps();
        }
        drop(asked);
        let own = parent.team.watch.step_of(parent.team.rank).unwrap_or_default();
        let differs = |rank: u32| {
            parent.team.watch.step_of(rank).filter(|step| step.starts_with(SHRINK) && *step != own).map(|step| (rank, step))
        };
        let Some((rank, step)) = members.iter().filter(|_| own.starts_with(SHRINK)).find_map(|&rank| differs(rank)) else {
            *self.differs.lock() = None;
            return Ok(());
        };
        let mut since = self.differs.lock();
        match *since {
            Some((other, at)) if other == rank && at.elapsed() > DIFFERENT => bail!(
                InvalidArgument,
                FIT,
                "ranks leave out different ranks | {} | rank {rank} is in \"{step}\", this rank in \"{own}\" | fix: pass the same list to \
                 ncclCommShrink on every rank that stays",
                parent.team.tag()
            ),
            Some((other, _)) if other == rank => {}
            _ => *since = Some((rank, Instant::now())),
        }
        Ok(())
    }
}

/// NCCL_SHRINK_ABORT: kernels leave before the ranks meet.
fn end_operations(parent: &Comm) {
    let text = format!(
        "ncclCommShrink with NCCL_SHRINK_ABORT was called | {} | pid {} | fix: on a rank that was left out: end this communicator",
        parent.team.tag(),
        std::process::id()
    );
    parent.team.fail(Error::new(Code::RemoteError, 45, text).by(parent.team.rank));
    parent.wait_for_kernels();
}

/// The ranks `members` of `parent` meet at `id`, in this order. An error's culprit is the parent's rank, whoever saw it.
fn child(parent: &Arc<Comm>, id: UniqueId, members: Vec<u32>, config: Config, cancel: &Arc<Cancel>) -> Result<Arc<Comm>> {
    let rank = place(&members, parent.team.rank).expect("the caller is a member");
    let n_ranks = members.len() as u32;
    let failed = parent.team.failure().is_some();
    let members: Arc<[u32]> = members.into();
    let (family, of_family, same_list) = (parent.clone(), members.clone(), SameList::new());
    cancel.watch(move || {
        let present = absent(&family, of_family.iter().copied());
        let present = present.map_err(|gone| to_blame(gone, family.team.failure(), failed, &of_family));
        let fits = present.and_then(|()| same_list.check(&family, &of_family));
        fits.map_err(|error| renumbered(error, |rank| place(&of_family, rank)))
    });
    let (device, origin) = (parent.team.device.clone(), Some(parent.team.origin));
    let made = create(Request { ids: vec![id], n_ranks, rank, config, device, origin, cancel: cancel.clone() });
    // Who ends the call itself speaks of the parent.
    let made = made.map_err(|error| match cancel.own() {
        Err(own) if own == error => own,
        _ => renumbered(error, |rank| members.get(rank as usize).copied()),
    })?;
    if failed {
        parent.outlived();
    }
    Ok(made)
}

/// What ends the meeting of `members`, of whom one is `gone`: it may have gone because of what has happened to another that was to come, and of whose end
/// nothing else is known here yet. What had `failed` the parent before the call is that only where it was a death.
fn to_blame(gone: Error, cause: Option<&Error>, failed: bool, members: &[u32]) -> Error {
    let of_one = |cause: &&Error| cause.culprit.is_none_or(|rank| members.contains(&rank)) && cause.id != SHRUNK;
    let is_death = |cause: &&Error| cause.culprit.is_some() && DEAD.contains(&cause.id);
    cause.filter(of_one).filter(|cause| !failed || is_death(cause)).cloned().unwrap_or(gone)
}

/// The child's number of the parent's `rank`.
fn place(members: &[u32], rank: u32) -> Option<u32> {
    members.iter().position(|&member| member == rank).map(|place| place as u32)
}

/// With the culprit's number in another communicator, if it has one there.
fn renumbered(error: Error, number: impl FnOnce(u32) -> Option<u32>) -> Error {
    Error { culprit: error.culprit.and_then(number), ..error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_are_ordered_by_key_and_ties_by_parent_rank() {
        let wish = |color, key| Wish { color, key, nonce: [3; 16] };
        let wishes = [wish(0, 5), wish(-7, 0), wish(0, -1), wish(NO_COLOR, 0), wish(0, 5), wish(-7, 0)];
        assert_eq!(members(&wishes, 0), [2, 0, 4]);
        assert_eq!(members(&wishes, -7), [1, 5]);
        assert_eq!(members(&wishes, 8), []);
        for (rank, wish) in wishes.iter().enumerate() {
            assert_eq!(Wish::decode(rank, wish.as_bytes()).unwrap(), *wish);
        }
        assert_eq!(Wish::decode(4, &[0; 23]).unwrap_err().id, 18);
        let told = Wish::decode(4, &Wish::refusal(&Error::new(Code::InvalidArgument, 65, "no config"))).unwrap_err();
        assert_eq!((told.text.as_str(), told.culprit), ("rank 4 cannot split: no config", Some(4)));
        let of_child = |rank| renumbered(told.clone(), |_| place(&[4, 0, 2], rank)).culprit;
        assert_eq!((of_child(4), of_child(2), of_child(1)), (Some(0), Some(2), None));
        assert_eq!(all_opened(&["", "no"].map(|told| told.as_bytes().into())).unwrap_err().culprit, Some(1));
    }

    /// Once in 400 rounds of `make chaos` on two machines a split behind a death named one that had left.
    #[test]
    fn who_left_for_a_death_is_not_blamed_for_it() {
        let error = |id, rank| Error::new(Code::RemoteError, id, "").by(rank);
        let blamed = |cause: Option<&Error>, failed| to_blame(error(LEFT, 2), cause, failed, &[0, 1, 2]).culprit;
        for id in DEAD {
            assert_eq!([false, true].map(|failed| blamed(Some(&error(id, 1)), failed)), [Some(1); 2]);
            assert_eq!([false, true].map(|failed| blamed(Some(&error(id, 3)), failed)), [Some(2); 2], "nobody waits for it here");
        }
        assert_eq!(
            [false, true].map(|failed| blamed(Some(&error(23, 1)), failed)),
            [Some(1), Some(2)],
            "it may come all the same"
        );
        assert_eq!([false, true].map(|failed| blamed(Some(&error(SHRUNK, 1)), failed)), [Some(2); 2]);
        assert_eq!(blamed(None, true), Some(2));
    }
}
