//! The target's end: out of the ring into device memory, then the signal, then credit.

use super::ring::{Header, Ring, SLOTS};
use crate::bail;
use crate::device::{Copy, CopyQueue, DevPtr};
use crate::error::Result;
use crate::transport::mapped::{Signal, Span};
use crate::transport::pipeline::Pipeline;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// What comes from one sender.
struct Lane {
    from: u32,
    ring: Ring,
    /// Messages read; those before `landed` are done with.
    read: u64,
    landed: u64,
    /// The batch of the newest payload.
    batch: u64,
}

impl Lane {
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
    lane: usize,
    index: u64,
    signal: Option<Signal>,
}

/// This rank's memories, as messages may name them.
#[derive(Default)]
pub(super) struct Targets {
    pub signals: Option<Span>,
    /// By [`crate::transport::Region::name`].
    pub regions: HashMap<u64, Span>,
}

/// All of one rank's incoming messages.
pub(super) struct Receiver {
    pipeline: Pipeline<Landing>,
    lanes: Vec<Lane>,
    pub targets: Targets,
}

impl Receiver {
    /// `rings` stand in this rank's own memory, each with its sender.
    pub fn new(queue: Box<dyn CopyQueue>, rings: Vec<(u32, Ring)>) -> Self {
        let lane = |(from, ring)| Lane { from, ring, read: 0, landed: 0, batch: 0 };
        let lanes = rings.into_iter().map(lane).collect();
        Self { pipeline: Pipeline::new(queue), lanes, targets: Targets::default() }
    }

    /// Reads what has come and starts its way into the device.
    pub fn progress(&mut self) -> Result<bool> {
        let mut moved = false;
        for number in 0..self.lanes.len() {
            moved |= self.read(number)?;
        }
        let lanes = &mut self.lanes;
        moved |= self.pipeline.progress(|landing| lanes[landing.lane].land(&landing))?;
        Ok(moved)
    }

    /// Until the device writes nothing more.
    pub fn settle(&mut self, patience: Duration) -> Result<bool> {
        let lanes = &mut self.lanes;
        self.pipeline.settle(patience, |landing| lanes[landing.lane].land(&landing))
    }

    /// Tells the senders not to wait for this rank.
    pub fn close(&self) {
        self.lanes.iter().for_each(|lane| lane.ring.close());
    }

    pub fn abandon(&mut self, deadline: Instant) {
        self.pipeline.abandon(deadline);
    }

    #[cfg(test)]
    pub fn memory(&self, lane: usize) -> std::sync::Arc<dyn crate::device::Physical> {
        self.lanes[lane].ring.memory()
    }

    fn read(&mut self, number: usize) -> Result<bool> {
        let lane = &mut self.lanes[number];
        let sent = lane.ring.sent();
        if sent == lane.read {
            return Ok(false);
        }
        if sent < lane.read || sent - lane.landed > SLOTS {
            bail!(
                RemoteError,
                78,
                "a peer's staging ring makes no sense | rank {} to this one | it says that {sent} messages were sent, {} were read and {} \
                 have landed | fix: look for writes outside of memory there; load the same libginrs on every rank",
                lane.from,
                lane.read,
                lane.landed
            );
        }
        let before = lane.read;
        while lane.read != sent {
            let index = lane.read;
            let (copy, signal) = check(lane, index, &self.targets)?;
            let landing = Landing { lane: number, index, signal };
            match copy {
                Some(copy) if self.pipeline.place().is_some() => lane.batch = self.pipeline.push(copy, landing),
                None if lane.landed == index => lane.land(&landing),
                None if self.pipeline.follow(lane.batch, landing) => {}
                _ => break,
            }
            lane.read += 1;
        }
        Ok(lane.read != before)
    }
}

/// What message `index` asks for, if all of it lies inside this rank's registered memory.
fn check(lane: &Lane, index: u64, targets: &Targets) -> Result<(Option<Copy>, Option<Signal>)> {
    let Some(header) = lane.ring.read_header(index) else { return refuse(lane.from, index, "its header makes no sense") };
    let Header { bytes, value, target: (name, offset), signal } = header;
    let signal = match signal {
        None => None,
        Some((at, add)) => match targets.signals.and_then(|signals| Signal::at(signals, at, add)) {
            Some(signal) => Some(signal),
            None => return refuse(lane.from, index, &format!("there is no signal at {at:#x}")),
        },
    };
    if bytes == 0 {
        return Ok((None, signal));
    }
    let Some(to) = targets.regions.get(&name).and_then(|span| span.at(offset, bytes)) else {
        let what = format!("bytes {offset:#x} to {offset:#x}+{bytes:#x} of memory {name} are not registered here");
        return refuse(lane.from, index, &what);
    };
    let from = if value.is_some() { lane.ring.device_value(index) } else { lane.ring.device_payload(index) };
    match from {
        Some(from) => Ok((Some(Copy { from, to: to.expose_provenance() as DevPtr, bytes }), signal)),
        None => refuse(lane.from, index, "the device does not see the staging memory"),
    }
}

#[cold]
fn refuse<T>(from: u32, index: u64, what: &str) -> Result<T> {
    bail!(
        RemoteError,
        78,
        "a staged message is refused | message {index} of rank {from} | {what} | fix: keep windows registered on every rank until the \
         kernels that put into them have ended"
    )
}
