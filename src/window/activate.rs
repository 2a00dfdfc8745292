//! The first use of GIN on a communicator (spec host 4.2): connect, then tell it of all memory that exists.

use super::agree;
use super::register::rewrite_gin_fields;
use crate::comm::Comm;
use crate::error::Result;
use crate::gin::Gin;
use std::sync::Arc;

/// Collective. The communicator's GIN, connected now if it was not; registers known memory newest first and gives every
/// window its handles. When it fails on one rank it fails on all, and a later call tries again.
pub fn activate_gin(comm: &Comm) -> Result<Arc<Gin>> {
    if let Some(gin) = comm.gin.lock().as_ref() {
        return Ok(gin.clone());
    }
    let gin = Gin::connect(comm)?;
    let memories: Vec<_> = comm.windows.state.lock().memories.iter().map(|held| held.memory.clone()).collect();
    let mut registered = Ok(());
    for memory in &memories {
        match gin.register(comm, memory) {
            Ok(handle) => *memory.gin.lock() = Some(handle),
            Err(error) => {
                registered = Err(error);
                break;
            }
        }
    }
    if let Err(error) = agree::done(comm, "gin activation", registered) {
        for memory in &memories {
            if let Some(handle) = memory.gin.lock().take() {
                gin.deregister(handle);
            }
        }
        gin.stop();
        return Err(error);
    }
    *comm.gin.lock() = Some(gin.clone());
    rewrite_gin_fields(comm)?;
    Ok(gin)
}
