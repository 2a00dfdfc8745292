//! Multicast on the CPU device: reserved addresses, of which the stand-in is told what multimem instructions reach there.
#![forbid(unsafe_code)]

use super::{CpuReservation, runtime};
use crate::bail;
use crate::device::{DevPtr, Physical, Reservation, Targets};
use crate::error::Result;
use std::sync::Arc;

/// As GPUs align the mapping of a multicast object. Bytes.
const ALIGN: usize = 512 << 20;

/// Addresses with nothing behind them but their targets.
pub struct FanOut(CpuReservation);

impl FanOut {
    /// The targets' memory may come and go: each instruction finds what is there.
    pub fn new(targets: Targets) -> Result<Self> {
        let Some(runtime) = runtime::find() else {
            bail!(InternalError, 86, "no stand-in to tell of multicast addresses | {targets:?} | fix: report this")
        };
        let addresses = CpuReservation::new(targets.bytes as usize, ALIGN)?;
        runtime.add_multicast(addresses.base(), &targets);
        Ok(Self(addresses))
    }
}

impl Reservation for FanOut {
    fn base(&self) -> DevPtr {
        self.0.base()
    }

    fn bytes(&self) -> usize {
        self.0.bytes()
    }

    fn map(&self, offset: usize, _physical: &Arc<dyn Physical>) -> Result<()> {
        bail!(InternalError, 25, "memory in multicast addresses | offset {offset:#x} | fix: report this")
    }

    fn unmap(&self, offset: usize, bytes: usize) -> Result<()> {
        bail!(InternalError, 25, "nothing is mapped in multicast addresses | {bytes} bytes at {offset:#x} | fix: report this")
    }
}

impl Drop for FanOut {
    fn drop(&mut self) {
        if let Some(runtime) = runtime::find() {
            runtime.remove_multicast(self.0.base());
        }
    }
}
