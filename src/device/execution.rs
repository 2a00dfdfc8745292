//! What runs for a device: its kernels, and threads of the library that serve them.
#![forbid(unsafe_code)]

use super::Kernels;
use crate::error::Result;
use rustix::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

/// An event count: who sets `asleep`, and behind a fence finds nothing posted, may sleep on the descriptor. Kernels that post zero the
/// word and write to it.
pub struct PostBell {
    /// Nobody closes it.
    pub descriptor: BorrowedFd<'static>,
    /// Not 0: somebody sleeps.
    pub asleep: &'static AtomicU32,
}

/// Running on a device and beside it.
pub trait Execution {
    /// The kernels of the collectives, loaded at the first call; an error that says what is missing. The same answer every time.
    fn kernels(&self) -> Result<Arc<dyn Kernels>>;
    /// Err once a kernel of this process on the device has failed for good (CUDA's sticky errors). Cheap, and waits for nothing;
    /// Ok while that cannot be told.
    fn health(&self) -> Result<()>;
    /// The calling thread is the library's own and from now on works for this device alone: its calls are then cheaper.
    fn bind_thread(&self) -> Result<()> {
        Ok(())
    }
    /// CPUs that are local to the device; empty for no preference.
    fn near_cpus(&self) -> Vec<usize>;
    /// Kernels that wait look again at once: something has moved (CPU device).
    fn wake(&self) {}
    /// What kernels ring when they have posted something, as long as somebody has said that they sleep (CPU device).
    fn post_bell(&self) -> Option<PostBell> {
        None
    }
    /// `step` runs between polls of waiting kernels (CPU device); dropped guard = removed. None where kernels cannot.
    fn add_progress(&self, step: Arc<dyn Fn() -> bool + Send + Sync>) -> Option<Box<dyn Send + Sync>>;
}
