//! The first use of GIN on a communicator (spec host 4.2): connect, then tell it of all windows that exist.

use super::register::gin_wins;
use super::registry::Window;
use super::{agree, structs};
use crate::comm::Comm;
use crate::device::DevPtr;
use crate::error::Result;
use crate::gin::Gin;
use crate::log;
use std::sync::Arc;

/// Collective. The communicator's GIN, connected now if it was not; registers every window and gives it its handles. When it fails on one rank it fails on all, and a later call tries again.
pub fn activate_gin(comm: &Comm) -> Result<Arc<Gin>> {
    if let Some(gin) = comm.gin.lock().as_ref() {
        return Ok(gin.clone());
    }
    let gin = Gin::connect(comm)?;
    let registered = register_all(comm, &gin);
    if let Err(error) = agree::done(comm, "gin activation", registered) {
        forget_all(comm);
        gin.stop();
        return Err(error);
    }
    *comm.gin.lock() = Some(gin.clone());
    Ok(gin)
}

/// Under the lock: a window that another thread takes away meanwhile takes its registration with it.
fn register_all(comm: &Comm, gin: &Arc<Gin>) -> Result<()> {
    let mut state = comm.windows.state.lock();
    state.windows.iter_mut().try_for_each(|(&at, window)| {
        window.gin = Some(gin.register(comm, &window.memory, window.place)?);
        write_gin_fields(comm, at, window, gin.n_contexts())
    })
}

fn forget_all(comm: &Comm) {
    let mut state = comm.windows.state.lock();
    for (&at, window) in &mut state.windows {
        window.gin = None;
        if let Err(error) = write_gin_fields(comm, at, window, 0) {
            // No kernel has a context to use them with.
            log::error(&error);
        }
    }
}

fn write_gin_fields(comm: &Comm, at: DevPtr, window: &mut Window, contexts: u32) -> Result<()> {
    window.shadow.ginWins = gin_wins(window.gin.as_ref(), contexts);
    structs::write(&*comm.device, at, &window.shadow)
}
