//! The memories that an engine's transports know: windows, each under a handle, and the signal memory.
#![forbid(unsafe_code)]

use super::context::Context;
use super::gdaki::Watch;
use super::handles::Memory;
use super::proxy::{Engine, SCAN_IDLE};
use crate::device::Physical;
use crate::error::{Code, Error, Result};
use crate::log;
use crate::transport::{Part, Region, Transport, Words};
use std::sync::Arc;
use std::time::Duration;

/// How long a rank that leaves waits for what it has sent to land.
const PATIENCE: Duration = Duration::from_secs(1);

impl Engine {
    /// Names a window to come, and lets the transports prepare it: its handle, and their words for the peers. `start` is where
    /// it starts in what descriptors count from, as in `memory`.
    pub fn prepare(&mut self, memory: &Arc<dyn Physical>, start: u64, bytes: u64) -> Result<(u64, Words)> {
        let (Memory { region: id, .. }, handle) = self.carrier.handles.insert(start, bytes)?;
        let mut words = Words::default();
        for transport in 0..self.carrier.transports.len() {
            match self.carrier.transports[transport].prepare(&Part { id, memory, start, bytes }) {
                Ok(said) => words.say(self.carrier.capabilities[transport].name, said),
                Err(error) => {
                    self.carrier.transports[..transport].iter_mut().for_each(|earlier| earlier.deregister(id));
                    let _ = self.carrier.handles.remove(handle);
                    return Err(error);
                }
            }
        }
        Ok((handle, words))
    }

    /// Makes a window known to all transports that was prepared as `handle`; its number is `region.id` from here on.
    pub fn register_prepared(&mut self, handle: u64, mut region: Region) -> Result<()> {
        match self.carrier.handles.lookup(handle) {
            Ok(memory) => region.id = memory.region,
            Err(_) => return Err(self.unknown(handle)),
        }
        self.introduce(region)
    }

    /// The same for one that needs no preparation: its handle.
    pub fn register(&mut self, mut region: Region, start: u64) -> Result<u64> {
        let (memory, handle) = self.carrier.handles.insert(start, region.bytes())?;
        region.id = memory.region;
        if let Err(error) = self.introduce(region) {
            let _ = self.carrier.handles.remove(handle);
            return Err(error);
        }
        Ok(handle)
    }

    /// Tells all transports of `region`, under the number it has; the signal memory comes this way.
    pub fn introduce(&mut self, mut region: Region) -> Result<()> {
        for transport in 0..self.carrier.transports.len() {
            if let Err(error) = self.carrier.transports[transport].register(&region) {
                self.carrier.transports[..transport].iter_mut().for_each(|earlier| earlier.deregister(region.id));
                return Err(error);
            }
        }
        region.forget_words();
        let id = region.id as usize;
        if self.regions.len() <= id {
            self.regions.resize_with(id + 1, || None);
        }
        self.regions[id] = Some(region);
        Ok(())
    }

    /// All of them.
    pub(super) fn transports(&self) -> impl Iterator<Item = &dyn Transport> {
        self.carrier.transports.iter().map(|transport| &**transport)
    }

    /// Before the thread sleeps: true if no transport has anything to do by now. An error shows at the next step.
    pub(super) fn arm(&mut self) -> bool {
        if self.watch.as_ref().is_some_and(|watch| watch.listen(&mut self.carrier)) {
            return false;
        }
        self.carrier.suspicion.is_none() && self.carrier.transports.iter_mut().all(|transport| transport.arm().unwrap_or(false))
    }

    /// Behind [`Self::arm`], while nobody else has made a step: true if kernels have posted nothing, as far as a slice of the search says,
    /// and every transport that has something to do by itself would say so.
    pub(super) fn rests(&mut self) -> bool {
        self.look_around(SCAN_IDLE);
        let carrier = &self.carrier;
        let mut transports = carrier.transports.iter().zip(&carrier.capabilities);
        let wake = transports.all(|(transport, has)| !has.polled || transport.descriptor().is_some());
        wake && carrier.pending == 0 && !carrier.abort.is_raised() && self.contexts.iter().all(Context::rests)
    }

    /// Kernels that give hints have posted something.
    pub(super) fn is_hinted(&self) -> bool {
        self.contexts.iter().any(|context| context.hints.wait())
    }

    /// Forgets a window; an operation under way in it ends the communicator.
    pub fn deregister(&mut self, handle: u64) -> Result<()> {
        let Ok(Memory { region, .. }) = self.carrier.handles.remove(handle) else {
            return Err(self.unknown(handle));
        };
        for context in &self.contexts {
            let current = context.lanes.used().filter_map(|lane| lane.current.as_ref());
            for operation in current.map(|current| &current.1).chain(&context.parts).filter(|operation| operation.uses(region)) {
                let whose = self.carrier.whose(operation.tag());
                let text =
                    format!("window deregistered while a put uses it | {whose} | fix: flush and synchronise the kernel first");
                self.carrier.stop(Error::new(Code::InvalidUsage, 51, text));
            }
        }
        for transport in &mut self.carrier.transports {
            transport.deregister(region);
        }
        // One that was prepared and no more has no place yet.
        if let Some(place) = self.regions.get_mut(region as usize) {
            *place = None;
        }
        Ok(())
    }

    fn unknown(&self, handle: u64) -> Error {
        let text = format!("GIN handle {handle:#x} is not registered | rank {} | fix: report this", self.carrier.rank);
        Error::new(Code::InternalError, 51, text)
    }

    /// The rank leaves the communicator: no step follows, and the memory of all regions may go. What was posted has been waited
    /// for; this is for what nobody waits for, such as the last signals of a barrier.
    pub fn close(&mut self) {
        let aborted = self.carrier.abort.is_raised();
        // No step may have come since.
        self.watch.iter_mut().filter(|_| aborted).for_each(Watch::end);
        let patience = if aborted { Duration::ZERO } else { PATIENCE };
        for transport in &mut self.carrier.transports {
            transport.close(patience).unwrap_or_else(|error| log::error(&error));
        }
        for id in (0..self.regions.len()).filter_map(|id| self.regions[id].take()).map(|region| region.id).collect::<Vec<_>>() {
            self.carrier.transports.iter_mut().for_each(|transport| transport.deregister(id));
        }
    }
}
