//! Waiting on the host until what kernels have posted is done: before a communicator ends, before ids are used again, before
//! a window goes.
//!
//! A kernel may leave before its last signals are on their way (a barrier's are: nothing waits for them at the sender).
#![forbid(unsafe_code)]

use super::Gin;
use crate::error::{Code, Error, Result};
use crate::{config, seq::Seq};
use std::time::{Duration, Instant};

/// What is not done.
struct Left {
    what: String,
    behind: String,
    /// The one peer that keeps it.
    culprit: Option<u32>,
}

impl Gin {
    /// Until every descriptor claimed before this call is done. Ends with the cause when the communicator is aborted, and with
    /// an error after GINRS_TIMEOUT: then a kernel claimed a slot and never wrote it.
    pub fn drain(&self) -> Result<()> {
        let (claimed, mut taken) = (self.claimed()?, None);
        let deadline = Instant::now() + config::seconds("GINRS_TIMEOUT");
        let mut pause = Duration::from_micros(1);
        loop {
            self.pump.check()?;
            let moved = self.step();
            let left = {
                let engine = self.pump.engine()?;
                engine.uncredited(&claimed).or_else(|| engine.unlanded(taken.get_or_insert_with(|| engine.taken())))
            };
            let Some(Left { what, behind, culprit }) = left else { return Ok(()) };
            if Instant::now() > deadline {
                let text = format!(
                    "posted operations are not done | rank {} -> {what} | {behind} | fix: let the kernels that use the communicator end \
                     first, or raise GINRS_TIMEOUT",
                    self.rank
                );
                return Err(Error { culprit, ..Error::new(Code::InternalError, 48, text) });
            }
            if !moved {
                std::thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(1));
            }
        }
    }
}

impl Gin {
    /// Whether all that was posted is done, and has landed. Does not wait: what cannot be looked at is not.
    pub fn is_quiet(&self) -> bool {
        let claimed = self.claimed();
        let (Ok(claimed), Some(engine)) = (claimed, self.pump.engine_now()) else { return false };
        self.card.is_none() && engine.uncredited(&claimed).or_else(|| engine.unlanded(&engine.taken())).is_none()
    }

    /// The producer index of every queue, by context and peer. Read without the engine's lock: the proxy goes on meanwhile.
    fn claimed(&self) -> Result<Vec<Vec<Seq>>> {
        let images = self.sets.lock().images();
        let claimed = images.iter().map(|images| images.claimed(&*self.device)).collect::<Result<Vec<_>>>()?;
        Ok(claimed.concat())
    }
}

impl super::proxy::Engine {
    /// A queue whose consumer index has not reached `claimed`, and by how many.
    fn uncredited(&self, claimed: &[Vec<Seq>]) -> Option<Left> {
        self.contexts.iter().zip(claimed).enumerate().find_map(|(c, (context, until))| {
            until.iter().enumerate().find_map(|(peer, until)| {
                let done = context.credited(peer as u32, *until);
                (!until.at_or_before(done)).then(|| Left {
                    what: format!("rank {peer}, {}", self.carrier.name(c as u32)),
                    behind: format!("{} claimed and not finished", until.distance(done)),
                    culprit: None,
                })
            })
        })
    }

    /// Pieces so far, by transport.
    fn taken(&self) -> Vec<u64> {
        self.carrier.transports.iter().map(|transport| transport.landing().taken).collect()
    }

    /// A transport that does not know that all of the first `taken` have landed.
    fn unlanded(&self, taken: &[u64]) -> Option<Left> {
        self.carrier.transports.iter().zip(taken).find_map(|(transport, taken)| {
            let landed = transport.landing().landed;
            (landed < *taken).then(|| {
                let left = transport.unlanded();
                let peers: Vec<String> = left.iter().map(|(peer, _)| format!("rank {peer}")).collect();
                let culprit = if let [(peer, _)] = left[..] { Some(peer) } else { None };
                let what = format!("{}, {}", peers.join(", "), transport.capabilities().name);
                Left { what, behind: format!("{} under way", taken - landed), culprit }
            })
        })
    }
}
