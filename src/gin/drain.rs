//! Waiting on the host until what kernels have posted is done: before a communicator ends, before ids are used again, before
//! a window goes.
//!
//! A kernel may leave before its last signals are on their way (a barrier's are: nothing waits for them at the sender).
#![forbid(unsafe_code)]

use super::Gin;
use crate::bail;
use crate::error::Result;
use crate::{config, seq::Seq};
use std::time::{Duration, Instant};

impl Gin {
    /// Until every descriptor claimed before this call is done. Ends with the cause when the communicator is aborted, and with
    /// an error after GINRS_TIMEOUT: then a kernel claimed a slot and never wrote it.
    pub fn drain(&self) -> Result<()> {
        let claimed = self.claimed()?;
        let deadline = Instant::now() + config::seconds("GINRS_TIMEOUT");
        let mut pause = Duration::from_micros(1);
        loop {
            self.pump.check()?;
            let moved = self.step();
            let Some((context, peer, behind)) = self.pump.engine()?.unsettled(&claimed) else { return Ok(()) };
            if Instant::now() > deadline {
                bail!(
                    InternalError,
                    48,
                    "posted operations are not done | rank {} -> rank {peer}, {context} | {behind} claimed and not finished | \
                     fix: let the kernels that use the communicator end first, or raise GINRS_TIMEOUT",
                    self.rank
                );
            }
            if !moved {
                std::thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(1));
            }
        }
    }
}

impl Gin {
    /// The producer index of every queue, by context and peer. Read without the engine's lock: the proxy goes on meanwhile.
    fn claimed(&self) -> Result<Vec<Vec<Seq>>> {
        let images = self.sets.lock().images();
        let claimed = images.iter().map(|images| images.claimed(&*self.device)).collect::<Result<Vec<_>>>()?;
        Ok(claimed.concat())
    }
}

impl super::proxy::Engine {
    /// A queue whose consumer index has not reached `claimed`: context, peer, and by how many.
    fn unsettled(&self, claimed: &[Vec<Seq>]) -> Option<(String, usize, u32)> {
        self.contexts.iter().zip(claimed).enumerate().find_map(|(c, (context, until))| {
            until.iter().enumerate().find_map(|(peer, until)| {
                let done = context.settled(peer as u32);
                (!until.at_or_before(done)).then(|| (self.carrier.name(c as u32).to_owned(), peer, until.distance(done)))
            })
        })
    }
}
