//! A queue of background copies that the courier shares with a copy engine.
#![forbid(unsafe_code)]

use super::{Command, Courier, LARGEST};
use crate::config;
use crate::device::{CopyQueue, MemCopy, Word};
use crate::error::{Code, Error, Result};
use crate::log;
use crate::sync::{Mutex, pid};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

/// A ticket, and what it waits for.
struct Due {
    ticket: u64,
    /// The engine's ticket.
    engine: u64,
    /// Commands that the courier has done.
    courier: u64,
}

/// Small calls go to the courier while it is there, all others to a copy engine of its own. Tickets are reached in order: each waits for the newest of
/// both. But what the two carry has no order beyond that, so a call here need **not** wait for the copies of earlier ones ([`CopyQueue::copy`]): for
/// GIN's payloads, whose order is made by signals behind tickets.
pub struct Carried {
    engine: Box<dyn CopyQueue>,
    courier: Arc<Mutex<Courier>>,
    /// The engine was given something since its newest ticket.
    unmarked: bool,
    /// Its newest ticket, and the newest that it has reached.
    engine_marked: u64,
    engine_reached: u64,
    /// Of the newest call that the courier took.
    upto: u64,
    due: VecDeque<Due>,
    marked: u64,
    reached: u64,
    /// Of one call.
    commands: Vec<Command>,
    owner: u32,
}

/// Of a copy, weighed as it is moved: in units of 16 bytes, 4 or 1, by how far its addresses are apart.
fn weight(copy: &MemCopy) -> u64 {
    let apart = copy.from ^ copy.to;
    let unit = if apart.is_multiple_of(16) {
        16
    } else if apart.is_multiple_of(4) {
        4
    } else {
        1
    };
    copy.bytes.saturating_mul(16 / unit)
}

pub(super) fn are_small(copies: &[MemCopy]) -> bool {
    copies.iter().fold(0u64, |sum, copy| sum.saturating_add(weight(copy))) <= LARGEST
}

impl Carried {
    /// Over a queue of its own and a courier that others share.
    pub fn new(engine: Box<dyn CopyQueue>, courier: Arc<Mutex<Courier>>) -> Self {
        Self {
            engine,
            courier,
            unmarked: false,
            engine_marked: 0,
            engine_reached: 0,
            upto: 0,
            due: VecDeque::new(),
            marked: 0,
            reached: 0,
            commands: Vec::new(),
            owner: pid(),
        }
    }

    /// True if the courier has taken the call's commands.
    fn give(&mut self) -> Result<bool> {
        if !self.commands.iter().all(|command| command.fits()) {
            return Ok(false);
        }
        let taken = self.courier.lock().give(&self.commands)?;
        self.upto = taken.unwrap_or(self.upto);
        Ok(taken.is_some())
    }

    fn ticket(&mut self) -> Result<u64> {
        if std::mem::take(&mut self.unmarked) {
            self.engine_marked = self.engine.mark()?;
        }
        self.marked += 1;
        self.due.push_back(Due { ticket: self.marked, engine: self.engine_marked, courier: self.upto });
        Ok(self.marked)
    }
}

impl CopyQueue for Carried {
    fn copy(&mut self, copies: &[MemCopy]) -> Result<()> {
        let small = are_small(copies);
        if small {
            self.commands.clear();
            self.commands.extend(copies.iter().map(|&copy| Command::Copy(copy)));
            if self.give()? {
                return Ok(());
            }
        }
        self.engine.copy(copies)?;
        self.unmarked = true;
        if small {
            self.courier.lock().miss();
        }
        Ok(())
    }

    fn mark(&mut self) -> Result<u64> {
        self.ticket()
    }

    fn store(&mut self, words: &[Word]) -> Result<Option<u64>> {
        self.commands.clear();
        self.commands.extend(words.iter().map(|&word| Command::Value(word)));
        if self.give()? {
            return self.ticket().map(Some);
        }
        let Some(ticket) = self.engine.store(words)? else { return Ok(None) };
        (self.engine_marked, self.unmarked) = (ticket, false);
        self.courier.lock().miss();
        self.ticket().map(Some)
    }

    fn finished(&mut self) -> Result<u64> {
        if self.due.is_empty() {
            return Ok(self.reached);
        }
        let done = self.courier.lock().look()?;
        while let Some(due) = self.due.front() {
            if due.courier > done {
                break;
            }
            if due.engine > self.engine_reached {
                self.engine_reached = self.engine.finished()?;
                if due.engine > self.engine_reached {
                    break;
                }
            }
            self.reached = due.ticket;
            self.due.pop_front();
        }
        Ok(self.reached)
    }
}

/// No copy outlives its queue: the courier's last for this one is waited for, as the engine waits for its own.
impl Drop for Carried {
    fn drop(&mut self) {
        if self.owner != pid() {
            return; // a forked child: the lock may be held by a thread that it has not
        }
        let (begin, patience) = (Instant::now(), config::seconds("GINRS_TIMEOUT"));
        // An error means that nothing is under way any more.
        while self.courier.lock().look().is_ok_and(|done| done < self.upto) {
            if begin.elapsed() > patience {
                let text = format!(
                    "the GPU does not finish | small copies of a communicator that ends | not done after {} s | fix: look at dmesg for Xid lines and at \
                     nvidia-smi",
                    patience.as_secs()
                );
                return log::error(&Error::new(Code::UnhandledCudaError, 4, text));
            }
            std::hint::spin_loop();
        }
    }
}
