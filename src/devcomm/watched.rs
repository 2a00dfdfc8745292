//! The race detector of the CPU device watches ranks that are processes of one machine as one job: they agree on memory of theirs in the
//! first round of a device communicator.
#![forbid(unsafe_code)]

use crate::device::Physical;
use crate::device::cpu::{Race, race_join, race_offer, tell_race};
use crate::error::Result;
use crate::team::{Offer, PeerInfo, Said, Team};
use std::sync::Arc;

/// Nobody watches in the process.
const NONE: u64 = 0;
/// It offers memory that is no job's yet.
const FRESH: u64 = 1;
/// Its job's.
const JOINED: u64 = 2;

/// What a rank's process offers; the others may take it until this is dropped.
pub struct Watched<'a> {
    state: u64,
    offer: Option<(Offer<'a>, Arc<dyn Physical>)>,
}

impl<'a> Watched<'a> {
    /// Of a communicator that has ranks in several processes; None: it has not, and what its ranks do is all seen here.
    pub fn offer(team: &'a Team) -> Result<Option<Self>> {
        let peers = &team.peers;
        if peers.iter().all(PeerInfo::is_here) {
            return Ok(None);
        }
        if peers.iter().any(|peer| peer.machine != peers[0].machine) {
            tell_race(Race::Far, team.rank);
        }
        let Some((fd, bytes, joined)) = race_offer() else { return Ok(Some(Self { state: NONE, offer: None })) };
        let memory = team.device.import(fd, bytes)?;
        let offer = Offer::new(team, &memory)?;
        Ok(Some(Self { state: if joined { JOINED } else { FRESH }, offer: Some((offer, memory)) }))
    }

    /// For the round.
    pub fn words(&self) -> [u64; 3] {
        let [key, bytes] = self.offer.as_ref().map_or([0; 2], |(offer, memory)| offer.words(memory));
        [self.state, key, bytes]
    }

    /// All have heard all: each takes what the first rank offers that has a job already, or the first one at all.
    pub fn join(&self, team: &Team, all: &[Said]) -> Result<()> {
        let last = |said: &Said| said.own.last_chunk::<3>().copied().unwrap_or_default();
        let offers: Vec<[u64; 3]> = all.iter().map(last).collect();
        let of = |state| offers.iter().position(|offer| offer[0] == state);
        let Some(chosen) = of(JOINED).or_else(|| of(FRESH)).filter(|_| of(NONE).is_none()) else {
            tell_race(Race::Apart, team.rank);
            return Ok(());
        };
        let [_, key, bytes] = offers[chosen];
        let own = self.offer.as_ref().filter(|_| chosen as u32 == team.rank).map(|(_, memory)| memory.clone());
        let memory = match own {
            Some(memory) => Some(memory),
            None => team.take(chosen as u32, [key, bytes], |device, fd, bytes| device.import(fd, bytes))?,
        };
        if let Some(memory) = memory {
            race_join(&memory.export()?);
        }
        Ok(())
    }
}
