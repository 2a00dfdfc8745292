//! The target's end: out of the ring into device memory, then the signal, then credit.
#![forbid(unsafe_code)]

use super::ring::{Ring, SLOTS};
use crate::device::{CopyQueue, DevPtr, MemCopy};
use crate::error::{Code, Error, Result};
use crate::transport::mapped::Signal;
use crate::transport::pipeline::Pipeline;
use crate::transport::remote::{Header, Remote};
use std::time::Instant;

/// What comes from one sender.
struct Incoming {
    from: u32,
    ring: Ring,
    /// Messages read; those before `landed` are done with.
    read: u64,
    landed: u64,
    /// The batch of the newest payload.
    batch: u64,
}

impl Incoming {
    fn land(&mut self, landing: &Landing) {
        if let Some(signal) = landing.signal {
            signal.raise();
        }
        self.landed = landing.index + 1;
        self.ring.take(self.landed);
    }
}

/// A message whose payload is under way.
struct Landing {
    /// Among the receiver's senders.
    number: usize,
    index: u64,
    signal: Option<Signal>,
}

/// All of one rank's incoming messages.
pub(super) struct Receiver {
    pipeline: Pipeline<Landing>,
    senders: Vec<Incoming>,
}

impl Receiver {
    /// `rings` stand in this rank's own memory, each with its sender.
    pub fn new(queue: Box<dyn CopyQueue>, rings: Vec<(u32, Ring)>) -> Self {
        let sender = |(from, ring)| Incoming { from, ring, read: 0, landed: 0, batch: 0 };
        Self { pipeline: Pipeline::new(queue), senders: rings.into_iter().map(sender).collect() }
    }

    /// Reads what has come and starts its way into the device.
    pub fn progress(&mut self, regions: &Remote) -> Result<bool> {
        let mut moved = false;
        for number in 0..self.senders.len() {
            moved |= self.read(number, regions)?;
        }
        let senders = &mut self.senders;
        moved |= self.pipeline.progress(|landing| senders[landing.number].land(&landing))?;
        Ok(moved)
    }

    /// Until the device writes nothing more.
    pub fn drain(&mut self) -> Result<()> {
        let senders = &mut self.senders;
        self.pipeline.drain(|landing| senders[landing.number].land(&landing))
    }

    /// Tells the senders not to wait for this rank.
    pub fn close(&self) {
        self.senders.iter().for_each(|sender| sender.ring.close());
    }

    pub fn abandon(&mut self, deadline: Instant) {
        self.pipeline.abandon(deadline);
    }

    #[cfg(test)]
    pub fn memory(&self, number: usize) -> std::sync::Arc<dyn crate::device::Physical> {
        self.senders[number].ring.memory()
    }

    fn read(&mut self, number: usize, regions: &Remote) -> Result<bool> {
        let sender = &mut self.senders[number];
        let sent = sender.ring.sent();
        if sent == sender.read {
            return Ok(false);
        }
        if sent < sender.read || sent - sender.landed > SLOTS {
            let text = format!(
                "a peer's staging ring makes no sense | rank {} to this one | it says that {sent} messages were sent, {} were read and {} \
                 have landed | fix: look for writes outside of memory there; load the same libginrs on every rank",
                sender.from, sender.read, sender.landed
            );
            return Err(Error::new(Code::RemoteError, 78, text).by(sender.from));
        }
        let before = sender.read;
        while sender.read != sent {
            let index = sender.read;
            let (copy, signal) = check(sender, index, regions)?;
            let landing = Landing { number, index, signal };
            match copy {
                Some(copy) if self.pipeline.place().is_some() => sender.batch = self.pipeline.push(copy, landing),
                None if sender.landed == index => sender.land(&landing),
                None if self.pipeline.follow(sender.batch, landing) => {}
                _ => break,
            }
            sender.read += 1;
        }
        Ok(sender.read != before)
    }
}

/// What message `index` asks for, if all of it lies inside this rank's registered memory.
fn check(sender: &Incoming, index: u64, regions: &Remote) -> Result<(Option<MemCopy>, Option<Signal>)> {
    let Some(header) = sender.ring.read_header(index) else { return refuse(sender.from, index, "its header makes no sense") };
    let Header { bytes, value, target, signal } = header;
    let (to, signal) = match regions.incoming(bytes, target, signal) {
        Ok(checked) => checked,
        Err(why) => return refuse(sender.from, index, &why),
    };
    if bytes == 0 {
        return Ok((None, signal));
    }
    let from = if value.is_some() { sender.ring.device_value(index) } else { sender.ring.device_payload(index) };
    match from {
        Some(from) => Ok((Some(MemCopy { from, to: to.expose_provenance() as DevPtr, bytes }), signal)),
        None => refuse(sender.from, index, "the device does not see the staging memory"),
    }
}

#[cold]
fn refuse<T>(from: u32, index: u64, what: &str) -> Result<T> {
    let text = format!(
        "a staged message is refused | message {index} of rank {from} | {what} | fix: keep windows registered on every rank until the \
         kernels that put into them have ended"
    );
    Err(Error::new(Code::RemoteError, 78, text).by(from))
}
