//! What C holds of a communicator: a number that looks like a pointer and is never one.
//!
//! Numbers are never reused, so a destroyed handle stays known as destroyed, and garbage is known as garbage.
#![forbid(unsafe_code)]

use crate::bootstrap::Cancel;
use crate::comm::group::{CallObserver, Told};
use crate::comm::{Comm, finish};
use crate::error::{Code, Error, Result};
use crate::layout::ncclComm_t;
use crate::sync::{Mutex, PerProcess};
use crate::{bail, process};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Not a canonical address on any 64-bit machine: following it faults at once.
const TAG: u64 = 0x6772_7300_0000_0000;
/// Low bits stay clear, as in a pointer.
const SHIFT: u32 = 4;

enum Referent {
    /// It is being created, or a group will.
    Pending(Arc<Pending>),
    /// Usable.
    Live(Arc<Comm>),
    /// Creation failed; waits for ncclCommAbort or ncclCommDestroy.
    Failed(Error),
}

/// A creation that has not ended.
pub struct Pending {
    /// Its way out.
    pub cancel: Arc<Cancel>,
    /// It has begun: it waits for nothing that this process still has to call.
    pub begun: AtomicBool,
    /// Its handle was aborted.
    pub aborted: AtomicBool,
}

/// What this process made. A forked child has a table of its own: a thread of its parent may have held the lock.
struct Table {
    entries: HashMap<u64, Referent>,
    /// Numbers up to this one are from before the fork,
    inherited: u64,
    /// by this process or one that it was forked from.
    parent: u32,
}

/// The latest number.
static LAST: AtomicU64 = AtomicU64::new(0);
/// The process that took it.
static MAKER: AtomicU32 = AtomicU32::new(0);

fn with<T>(f: impl FnOnce(&mut Table) -> T) -> T {
    static TABLE: PerProcess<Mutex<Table>> = PerProcess::new();
    let new =
        || Table { entries: HashMap::new(), inherited: LAST.load(Ordering::Acquire), parent: MAKER.load(Ordering::Acquire) };
    f(&mut TABLE.get(|| Mutex::new(new())).lock())
}

impl Table {
    /// A handle's number, if it is one of this process.
    fn serial_of(&self, handle: ncclComm_t) -> Result<u64> {
        let serial = serial_of(handle, LAST.load(Ordering::Acquire))?;
        if serial <= self.inherited {
            process::check_owner(self.parent, &format!("communicator 0x{:x}", handle as u64))?;
        }
        Ok(serial)
    }

    fn state(&self, handle: ncclComm_t) -> Result<&Referent> {
        let serial = self.serial_of(handle)?;
        self.entries.get(&serial).ok_or_else(|| destroyed(serial))
    }
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
        Code::InvalidArgument,
        63,
        format!(
            "communicator already destroyed | ncclComm_t | 0x{:x} | fix: do not use it after ncclCommDestroy or ncclCommAbort",
            handle_of(serial) as u64
        ),
    )
}

fn insert(state: Referent) -> ncclComm_t {
    with(|table| {
        let serial = LAST.fetch_add(1, Ordering::AcqRel) + 1;
        MAKER.store(std::process::id(), Ordering::Release);
        table.entries.insert(serial, state);
        handle_of(serial)
    })
}

/// From now on the end of the process says goodbye for communicators that nobody destroyed.
pub fn watch_exit() {
    process::watch_exit(|status| finish::goodbye(status, all()));
}

/// A handle for a communicator that does not exist yet.
pub fn reserve() -> (ncclComm_t, Arc<Pending>) {
    let pending = Arc::new(Pending { cancel: Cancel::new(), begun: AtomicBool::new(false), aborted: AtomicBool::new(false) });
    (insert(Referent::Pending(pending.clone())), pending)
}

/// A handle for one that does.
pub fn add(comm: Arc<Comm>) -> ncclComm_t {
    insert(Referent::Live(comm))
}

/// The reserved handle's creation ended. Gives the communicator back if the handle was destroyed or aborted meanwhile.
pub fn resolve(handle: ncclComm_t, result: Result<Arc<Comm>>) -> Option<Arc<Comm>> {
    with(|table| {
        let serial = table.serial_of(handle).unwrap_or(0);
        let Some(state) = table.entries.get_mut(&serial) else { return result.ok() };
        *state = match result {
            Ok(comm) => Referent::Live(comm),
            Err(error) => Referent::Failed(error),
        };
        None
    })
}

/// Every communicator of this process that lives.
fn all() -> Vec<Arc<Comm>> {
    let live = |state: &Referent| if let Referent::Live(comm) = state { Some(comm.clone()) } else { None };
    with(|table| table.entries.values().filter_map(live).collect())
}

/// True for a communicator of this process that was destroyed or aborted.
pub fn is_gone(handle: ncclComm_t) -> bool {
    with(|table| table.serial_of(handle).is_ok_and(|serial| !table.entries.contains_key(&serial)))
}

/// The communicator of a handle that may be used.
pub fn get(handle: ncclComm_t) -> Result<Arc<Comm>> {
    with(|table| match table.state(handle)? {
        Referent::Live(comm) => Ok(comm.clone()),
        Referent::Failed(error) => Err(error.clone()),
        Referent::Pending(pending) => Err(pending.not_ready(handle)),
    })
}

impl CallObserver for Pending {
    fn begins(&self) {
        self.begun.store(true, Ordering::Release);
    }

    // What it came to stands in the table.
    fn ends(self: Arc<Self>, _: Told) {}
}

impl Pending {
    fn not_ready(&self, handle: ncclComm_t) -> Error {
        let (why, fix) = match self.begun.load(Ordering::Acquire) {
            true => {
                ("its creation is in progress", "ask ncclCommGetAsyncError until it says something else, or call ncclCommAbort")
            }
            false => ("its creation waits for ncclGroupEnd", "use it after ncclGroupEnd"),
        };
        let text = format!("communicator is not ready | ncclComm_t 0x{:x} | {why} | fix: {fix}", handle as u64);
        Error::new(Code::InvalidArgument, 64, text)
    }
}

/// What ncclCommGetAsyncError tells of a handle.
pub enum Status {
    /// Its creation has not ended.
    Pending,
    /// Usable, failed or not.
    Live(Arc<Comm>),
    /// Its creation failed.
    Failed(Error),
}

/// The state of a handle that is known.
pub fn status(handle: ncclComm_t) -> Result<Status> {
    with(|table| {
        Ok(match table.state(handle)? {
            Referent::Pending(_) => Status::Pending,
            Referent::Live(comm) => Status::Live(comm.clone()),
            Referent::Failed(error) => Status::Failed(error.clone()),
        })
    })
}

/// What a handle stood for that was taken out.
pub enum Removed {
    /// A communicator.
    Live(Arc<Comm>),
    /// One that is being created.
    Pending(Arc<Pending>),
    /// Nothing: its creation had failed.
    Failed,
}

/// Takes the handle out: from now on it is "already destroyed". One whose creation a group has not begun stays, unless `abort`; whoever
/// makes it finds both the handle gone and why.
pub fn remove(handle: ncclComm_t, abort: bool) -> Result<Removed> {
    with(|table| {
        let serial = table.serial_of(handle)?;
        match table.state(handle)? {
            Referent::Pending(pending) if !abort && !pending.begun.load(Ordering::Acquire) => {
                return Err(pending.not_ready(handle));
            }
            Referent::Pending(pending) => pending.aborted.store(abort, Ordering::Release),
            _ => {}
        }
        Ok(match table.entries.remove(&serial) {
            Some(Referent::Live(comm)) => Removed::Live(comm),
            Some(Referent::Pending(pending)) => Removed::Pending(pending),
            _ => Removed::Failed,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn garbage_pending_failed_and_destroyed_are_told_apart() {
        assert_eq!(get(std::ptr::null_mut()).err().unwrap().id, 61);
        for garbage in [1, 0x10, 0x7fff_dead_beef, u64::MAX, TAG, TAG | 1 << 40] {
            assert_eq!(get(garbage as ncclComm_t).err().unwrap().id, 62, "0x{garbage:x}");
        }
        let (handle, pending) = reserve();
        assert!(get(handle).err().unwrap().text.contains("waits for ncclGroupEnd"));
        assert!(remove(handle, false).is_err());
        pending.begun.store(true, Ordering::Release);
        assert!(get(handle).err().unwrap().text.contains("in progress"));
        assert!(resolve(handle, Err(Error::new(Code::RemoteError, 40, "rank 1 died"))).is_none());
        assert_eq!(get(handle).err().unwrap().id, 40);
        assert!(matches!(remove(handle, false), Ok(Removed::Failed)));
        assert_eq!(get(handle).err().unwrap().id, 63);
        assert!(is_gone(handle) && !is_gone(std::ptr::null_mut()) && !is_gone(TAG as ncclComm_t));
        assert_eq!(remove(handle, true).err().unwrap().id, 63);
        let (next, _) = reserve();
        assert_ne!(next as u64, handle as u64);
        let Ok(Removed::Pending(pending)) = remove(next, true) else {
            panic!("an abort ends a creation that waits for its group")
        };
        assert!(pending.aborted.load(Ordering::Acquire), "stands when the handle is gone: its maker looks then");
    }
}
