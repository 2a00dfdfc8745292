//! What C holds of a communicator: a number that looks like a pointer and is never one.
//!
//! Numbers are never reused, so a destroyed handle stays known as destroyed, and garbage is known as garbage.

use super::Comm;
use crate::abi::types::ncclComm_t;
use crate::error::{Error, Result};
use crate::{bail, process};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// Not a canonical address on any 64-bit machine: following it faults at once.
const TAG: u64 = 0x6772_7300_0000_0000;
/// Low bits stay clear, as in a pointer.
const SHIFT: u32 = 4;

enum State {
    /// A group will create it.
    Pending,
    /// Usable.
    Live(Arc<Comm>),
    /// Creation failed; waits for ncclCommAbort or ncclCommDestroy.
    Failed(Error),
}

struct Entry {
    state: State,
    /// Process that made it.
    owner: u32,
}

struct Table {
    last: u64,
    entries: HashMap<u64, Entry>,
}

static TABLE: Mutex<Option<Table>> = Mutex::new(None);

fn with<T>(f: impl FnOnce(&mut Table) -> T) -> T {
    f(TABLE.lock().get_or_insert_with(|| Table { last: 0, entries: HashMap::new() }))
}

fn handle_of(serial: u64) -> ncclComm_t {
    (TAG | serial << SHIFT) as ncclComm_t
}

/// The handle's number, and why it is not one.
fn serial_of(handle: ncclComm_t, last: u64) -> Result<u64> {
    let value = handle as u64;
    let serial = (value & !TAG) >> SHIFT;
    if handle.is_null() {
        bail!(InvalidArgument, 61, "communicator is NULL | ncclComm_t | 0x0 | fix: pass what ncclCommInitRank gave");
    }
    if value != handle_of(serial) as u64 || serial == 0 || serial > last {
        bail!(InvalidArgument, 62, "not a communicator | ncclComm_t | 0x{value:x} | fix: pass what ncclCommInitRank gave");
    }
    Ok(serial)
}

fn destroyed(serial: u64) -> Error {
    Error::new(
        crate::error::Code::InvalidArgument,
        63,
        format!(
            "communicator already destroyed | ncclComm_t | 0x{:x} | fix: do not use it after ncclCommDestroy or ncclCommAbort",
            handle_of(serial) as u64
        ),
    )
}

/// A handle for a communicator that does not exist yet.
pub fn reserve() -> ncclComm_t {
    with(|table| {
        table.last += 1;
        let entry = Entry { state: State::Pending, owner: std::process::id() };
        table.entries.insert(table.last, entry);
        handle_of(table.last)
    })
}

/// The reserved handle's creation ended.
pub fn settle(handle: ncclComm_t, result: Result<Arc<Comm>>) {
    with(|table| {
        let serial = serial_of(handle, table.last).unwrap_or(0);
        if let Some(entry) = table.entries.get_mut(&serial) {
            entry.state = match result {
                Ok(comm) => State::Live(comm),
                Err(error) => State::Failed(error),
            };
        }
    });
}

/// The communicator of a handle that may be used.
pub fn get(handle: ncclComm_t) -> Result<Arc<Comm>> {
    with(|table| {
        let serial = serial_of(handle, table.last)?;
        let entry = table.entries.get(&serial).ok_or_else(|| destroyed(serial))?;
        process::check_owner(entry.owner, &format!("communicator 0x{:x}", handle as u64))?;
        match &entry.state {
            State::Live(comm) => Ok(comm.clone()),
            State::Failed(error) => Err(error.clone()),
            State::Pending => bail!(
                InvalidArgument,
                64,
                "communicator is not ready | ncclComm_t 0x{:x} | its creation waits for ncclGroupEnd | fix: use it after ncclGroupEnd",
                handle as u64
            ),
        }
    })
}

/// What ncclCommGetAsyncError tells of a handle.
pub enum Status {
    /// Its creation has not run.
    Pending,
    /// Usable, failed or not.
    Live(Arc<Comm>),
    /// Its creation failed.
    Failed(Error),
}

/// The state of a handle that is known.
pub fn status(handle: ncclComm_t) -> Result<Status> {
    with(|table| {
        let serial = serial_of(handle, table.last)?;
        Ok(match &table.entries.get(&serial).ok_or_else(|| destroyed(serial))?.state {
            State::Pending => Status::Pending,
            State::Live(comm) => Status::Live(comm.clone()),
            State::Failed(error) => Status::Failed(error.clone()),
        })
    })
}

/// Takes the handle out: from now on it is "already destroyed". `None` if its creation failed or a forked child owns only
/// a copy of it.
pub fn remove(handle: ncclComm_t) -> Result<Option<Arc<Comm>>> {
    with(|table| {
        let serial = serial_of(handle, table.last)?;
        match table.entries.get(&serial) {
            None => return Err(destroyed(serial)),
            Some(entry) => {
                process::check_owner(entry.owner, &format!("communicator 0x{:x}", handle as u64))?;
                if let State::Pending = entry.state {
                    bail!(
                        InvalidArgument,
                        64,
                        "communicator is not ready | ncclComm_t 0x{:x} | its creation waits for ncclGroupEnd | fix: end the group first",
                        handle as u64
                    );
                }
            }
        }
        match table.entries.remove(&serial).map(|entry| entry.state) {
            Some(State::Live(comm)) => Ok(Some(comm)),
            _ => Ok(None),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;

    #[test]
    fn garbage_pending_failed_and_destroyed_are_told_apart() {
        assert_eq!(get(std::ptr::null_mut()).err().unwrap().id, 61);
        for garbage in [1, 0x10, 0x7fff_dead_beef, u64::MAX, TAG, TAG | 1 << 40] {
            assert_eq!(get(garbage as ncclComm_t).err().unwrap().id, 62, "0x{garbage:x}");
        }
        let handle = reserve();
        assert_eq!(get(handle).err().unwrap().id, 64);
        assert!(remove(handle).is_err());
        settle(handle, Err(Error::new(Code::RemoteError, 40, "rank 1 died")));
        assert_eq!(get(handle).err().unwrap().id, 40);
        assert!(remove(handle).unwrap().is_none());
        assert_eq!(get(handle).err().unwrap().id, 63);
        assert_eq!(remove(handle).err().unwrap().id, 63);
        assert_ne!(reserve() as u64, handle as u64);
    }
}
