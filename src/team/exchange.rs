//! How ranks get at each other's physical memory: the same object within a process, a descriptor over the bootstrap's
//! socket from another process of this machine, nothing from another machine.

use super::{Said, Team};
use crate::bail;
use crate::device::{Device, Physical};
use crate::error::Result;
use crate::sync::{Mutex, PerProcess};
use std::collections::BTreeMap;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What ranks of this process offer each other, by (communicator, rank, key).
type Offers = BTreeMap<(u64, u32, u64), Arc<dyn Physical>>;
static OFFERS: PerProcess<Mutex<Offers>> = PerProcess::new();

/// [`crate::device::Memory::import`] or [`crate::device::Memory::import_shared`].
pub(crate) type Import = fn(&dyn Device, OwnedFd, usize) -> Result<Arc<dyn Physical>>;

/// Memory that the other ranks may take, until this is dropped.
pub(crate) struct Offer<'a> {
    team: &'a Team,
    key: u64,
    published: bool,
}

impl<'a> Offer<'a> {
    /// Makes `mine` available; the others learn the key from [`Offer::words`] in a round.
    pub fn new(team: &'a Team, mine: &Arc<dyn Physical>) -> Result<Self> {
        let key = team.offers.fetch_add(1, Ordering::Relaxed) + 1;
        let me = &team.peers[team.rank as usize];
        let published = team.peers.iter().any(|peer| peer.machine == me.machine && peer.process != me.process);
        if published {
            team.bootstrap.publish(key, mine.export()?);
        }
        OFFERS.lock().insert((team.hash, team.rank, key), mine.clone());
        Ok(Self { team, key, published })
    }

    /// What the others need to take it.
    pub fn words(&self, mine: &Arc<dyn Physical>) -> [u64; 2] {
        [self.key, mine.bytes() as u64]
    }

    /// Every rank's memory, by world rank; `import` takes what another process sent. `words` are the offers of all ranks.
    /// Ends when all have been taken here, so the offer must stand until a later round has passed.
    pub fn take_all(
        &self,
        mine: &Arc<dyn Physical>,
        words: &[[u64; 2]],
        import: Import,
    ) -> Result<Vec<Option<Arc<dyn Physical>>>> {
        let mut all = Vec::with_capacity(words.len());
        for (rank, &words) in (0..).zip(words) {
            all.push(if rank == self.team.rank { Some(mine.clone()) } else { self.team.take(rank, words, import)? });
        }
        Ok(all)
    }
}

/// Descriptors that the other ranks of this machine may fetch, with [`Team::take`], until this is dropped.
pub(crate) struct Lent {
    team: Arc<Team>,
    keys: Range<u64>,
}

impl Lent {
    /// The others learn the keys some other way.
    pub fn new(team: &Arc<Team>, fds: Vec<OwnedFd>) -> Self {
        let count = fds.len() as u64;
        let first = team.offers.fetch_add(count, Ordering::Relaxed) + 1;
        let keys = first..first + count;
        keys.clone().zip(fds).for_each(|(key, fd)| team.bootstrap.publish(key, fd));
        Self { team: team.clone(), keys }
    }

    /// The key of the first; those of the others follow, in their order.
    pub fn first(&self) -> u64 {
        self.keys.start
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.keys.end - self.keys.start
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.keys.clone().for_each(|key| self.team.bootstrap.withdraw(key));
    }
}

impl Team {
    /// The memory of rank `rank`, another one, whose offer is `words`; `None` on another machine.
    pub(crate) fn take(&self, rank: u32, [key, bytes]: [u64; 2], import: Import) -> Result<Option<Arc<dyn Physical>>> {
        let (me, peer) = (&self.peers[self.rank as usize], &self.peers[rank as usize]);
        if peer.process == me.process {
            match OFFERS.lock().get(&(self.hash, rank, key)) {
                Some(physical) => Ok(Some(physical.clone())),
                None => {
                    bail!(InternalError, 53, "memory of rank {rank} is gone | offer {key} of this process | fix: report this")
                }
            }
        } else if peer.machine == me.machine {
            let fd = self.bootstrap.fetch(&peer.fd_address()?, rank, key)?;
            Ok(Some(import(&*self.device, fd, bytes as usize).map_err(|error| error.by(rank))?))
        } else {
            Ok(None)
        }
    }
}

impl Drop for Offer<'_> {
    fn drop(&mut self) {
        if self.published {
            self.team.bootstrap.withdraw(self.key);
        }
        OFFERS.lock().remove(&(self.team.hash, self.team.rank, self.key));
    }
}

/// The offers in every rank's own words, from word `at` on.
pub(crate) fn offers_of(all: &[Said], at: usize) -> Result<Vec<[u64; 2]>> {
    let mut offers = Vec::with_capacity(all.len());
    for (rank, said) in all.iter().enumerate() {
        match said.own.get(at..).and_then(|words| words.first_chunk::<2>()) {
            Some(words) => offers.push(*words),
            None => bail!(RemoteError, 53, "rank {rank} offered no memory | fix: load the same libginrs on every rank"),
        }
    }
    Ok(offers)
}
