//! ncclCommWindowRegister and ncclCommWindowDeregister (spec host 2.7, 2.9).

use super::agree::{self, Said};
use super::memory::{Held, SymMemory};
use super::obtain::{self, Proposal};
use super::registry::{Place, State, UserRange, Window};
use super::table::WindowTable;
use crate::comm::Comm;
use crate::config;
use crate::device::{DevPtr, graveyard};
use crate::error::Result;
use crate::gin::Registered;
use crate::layout::{NCCL_GIN_MAX_CONTEXTS, NCCL_WIN_COLL_SYMMETRIC, NCCL_WIN_REQUIRED_ALIGNMENT, ncclWindow_vidmem};
use crate::{bail, info, log};
use std::sync::Arc;

/// True unless NCCL_WIN_ENABLE=0: windows and device communicators can be made.
pub fn supported() -> bool {
    config::int("NCCL_WIN_ENABLE") != 0
}

/// Collective over the communicator: makes `bytes` at `ptr` a window; its handle, a device address. `ptr` must lie in
/// ncclMemAlloc memory, a multiple of 4096 bytes from its start, at the same offset and with the same size on every rank.
///
/// NULL or no bytes: 0, without talking to anyone. Where one rank's call is wrong, all ranks get the reason.
pub fn register(comm: &Comm, ptr: DevPtr, bytes: usize, flags: i32) -> Result<DevPtr> {
    if ptr == 0 || bytes == 0 {
        return Ok(0);
    }
    if !supported() {
        return Ok(match config::int("NCCL_LOCAL_REGISTER") {
            0 => 0,
            _ => comm.register_buffer(ptr as usize, bytes) as DevPtr,
        });
    }
    comm.ready()?;
    graveyard::sweep();
    let mut turn = comm.windows.turn.lock();
    turn.registrations += 1;
    let what = format!("window register #{}", turn.registrations);
    let plan = Plan::new(comm, ptr, bytes, flags);
    let said = plan.as_ref().map(Plan::said).map_err(Clone::clone);
    let all = agree::round(comm, &what, said)?;
    agree::compare(&what, &all, |i| FIELDS[i].into(), show)?;
    let plan = plan?;
    let place = comm.windows.state.lock().place(plan.mem_offset, bytes as u64);
    let (made, _offer) = match plan.memory {
        Known::Held(memory) => (add_user(&mut comm.windows.state.lock(), memory), None),
        Known::New(proposal) => {
            let (held, offer) = proposal.obtain(&all);
            (held.map(|held| adopt(&mut comm.windows.state.lock(), held)), Some(offer))
        }
    };
    let user = UserRange { base: ptr, bytes: bytes as u64, symmetric: flags & NCCL_WIN_COLL_SYMMETRIC != 0 };
    let made = made.and_then(|memory| add(comm, &memory, place, Some(user)));
    let status = made.as_ref().map(drop).map_err(Clone::clone);
    if let Err(error) = agree::done(comm, &format!("{what}, end"), status) {
        if let Ok(win) = made {
            // The caller wants the reason why there is no window.
            remove(comm, win).unwrap_or_else(|left| log::error(&left));
        }
        return Err(error);
    }
    let win = made?;
    info!(REG, "{} {what}: {bytes} bytes at {ptr:#x}, {:#x} into its allocation: window {win:#x}", comm.tag(), place.start);
    Ok(win)
}

/// What this rank's call means.
struct Plan<'a> {
    bytes: usize,
    flags: i32,
    mem_offset: u64,
    memory: Known<'a>,
}

/// Memory that has windows already, or is new to this communicator.
enum Known<'a> {
    Held(Arc<SymMemory>),
    New(Proposal<'a>),
}

/// In a window's padding where its memory is this rank's own GPU's (include/ginrs_device/marker.h): its copy engine sees what a
/// kernel has released to the GPU.
const MARKER_GPU: u32 = 0x3252_5347;

/// Names of the words that must agree.
const FIELDS: [&str; 7] =
    ["size", "offset in the allocation", "flags", "memory", obtain::AGREED[0], obtain::AGREED[1], obtain::AGREED[2]];

fn show(i: usize, value: u64) -> String {
    match (i, value) {
        (3, 0) => "registers new memory".into(),
        (3, id) => format!("registers memory {id} again"),
        (2, flags) => format!("{:#x}", flags as i32),
        (_, n) => n.to_string(),
    }
}

impl<'a> Plan<'a> {
    fn new(comm: &'a Comm, ptr: DevPtr, bytes: usize, flags: i32) -> Result<Self> {
        let found = comm.device.lookup(ptr)?;
        let mem_offset = ptr - found.base;
        if !mem_offset.is_multiple_of(NCCL_WIN_REQUIRED_ALIGNMENT as u64) {
            bail!(
                InvalidArgument,
                52,
                "window start is misaligned | {} | {ptr:#x} is {mem_offset:#x} bytes into its allocation, must be a multiple of \
                 4096 | fix: start windows at 4 KiB boundaries of ncclMemAlloc memory",
                comm.tag()
            );
        }
        if bytes as u64 > found.bytes as u64 - mem_offset {
            bail!(
                InvalidArgument,
                55,
                "window ends behind its allocation | {} | {bytes} bytes from offset {mem_offset:#x} of an allocation of {} bytes \
                 | fix: allocate more or register less",
                comm.tag(),
                found.bytes
            );
        }
        let held = {
            let state = comm.windows.state.lock();
            state.memories.iter().find(|held| held.memory.physical.key() == found.physical.key()).map(|held| held.memory.clone())
        };
        let memory = match held {
            Some(memory) => Known::Held(memory),
            None => Known::New(Proposal::new(comm, found.physical)?),
        };
        Ok(Self { bytes, flags, mem_offset, memory })
    }

    fn said(&self) -> Said {
        let mut agreed = vec![self.bytes as u64, self.mem_offset, self.flags as u32 as u64];
        match &self.memory {
            Known::Held(memory) => {
                agreed.push(memory.id);
                Said { agreed, own: Vec::new() }
            }
            Known::New(proposal) => {
                agreed.push(0);
                agreed.extend(proposal.agreed());
                Said { agreed, own: proposal.own().to_vec() }
            }
        }
    }
}

/// Takes new memory in, used once.
pub(super) fn adopt(state: &mut State, mut held: Held) -> Arc<SymMemory> {
    held.uses = 1;
    let memory = held.memory.clone();
    state.memories.insert(0, held);
    memory
}

fn add_user(state: &mut State, memory: Arc<SymMemory>) -> Result<Arc<SymMemory>> {
    match state.memories.iter_mut().find(|held| Arc::ptr_eq(&held.memory, &memory)) {
        Some(held) => held.uses += 1,
        None => bail!(
            InvalidUsage,
            57,
            "memory went away while it was registered again | memory {} | fix: do not deregister its windows from another thread \
             meanwhile",
            memory.id
        ),
    }
    Ok(memory)
}

/// Gives one use back; the last one takes memory out of the flat space.
pub(crate) fn release(comm: &Comm, memory: &Arc<SymMemory>) {
    let gone = {
        let mut state = comm.windows.state.lock();
        let Some(at) = state.memories.iter().position(|held| Arc::ptr_eq(&held.memory, memory)) else { return };
        state.memories[at].uses -= 1;
        if state.memories[at].uses > 0 {
            return;
        }
        state.memories.remove(at)
    };
    // Views and then the offset go here. After an abort kernels may still be on their way out: not under their feet.
    if comm.failure().is_some() {
        comm.device.bury(Box::new(gone));
    }
}

/// Makes the window `place` over `memory`, whose use it takes over (and gives back on error). `user` is what the user
/// registered; None for a window that cannot be found by address.
pub(super) fn add(comm: &Comm, memory: &Arc<SymMemory>, place: Place, user: Option<UserRange>) -> Result<DevPtr> {
    let gin = comm.gin.lock().clone();
    let gin = gin.map(|gin| gin.register(comm, memory, place)).transpose();
    let made = gin.and_then(|gin| enter(comm, memory, place, user, gin));
    if made.is_err() {
        release(comm, memory);
    }
    made
}

/// Its struct and its entry in the table.
fn enter(comm: &Comm, memory: &Arc<SymMemory>, place: Place, user: Option<UserRange>, gin: Option<Registered>) -> Result<DevPtr> {
    let contexts = comm.gin.lock().as_ref().map_or(0, |gin| gin.n_contexts());
    let mut state = comm.windows.state.lock();
    let State { windows, table, structs, space, .. } = &mut *state;
    let Some((space, _)) = space else { bail!(InternalError, 57, "window without a flat space | fix: report this") };
    let offset = memory.big_offset + place.start;
    let shadow = ncclWindow_vidmem {
        winHost: memory.id,
        lsaFlatBase: space.base() + offset,
        lsaRank: comm.topo.lsa_rank as i32,
        worldRank: comm.rank as i32,
        stride4G: (space.stride() >> 32) as u32,
        mcOffset4K: (offset >> 12) as u32,
        ginOffset4K: (place.start >> 12) as u32,
        marker: if memory.on_gpu { MARKER_GPU } else { 0 },
        ginWins: gin_wins(gin.as_ref(), contexts),
    };
    let device = &*comm.device;
    let table = table_of(table, comm)?;
    let at = structs.put(device, &shadow, place.bytes)?;
    let base = user.map_or(0, |user| user.base);
    let entry = match table.insert(device, base, place.bytes, at) {
        Ok(entry) => entry,
        Err(error) => {
            structs.take_back(device, at).unwrap_or_else(|left| log::error(&left));
            return Err(error);
        }
    };
    windows.insert(at, Window { gin, memory: memory.clone(), place, shadow, entry, user });
    Ok(at)
}

/// The table, made at first use.
pub(super) fn table_of<'t>(table: &'t mut Option<WindowTable>, comm: &Comm) -> Result<&'t mut WindowTable> {
    if table.is_none() {
        *table = Some(WindowTable::new(&*comm.device, &comm.abort)?);
    }
    Ok(table.as_mut().expect("made above"))
}

/// `ginWins`: the window's handle in each context that there is.
pub(super) fn gin_wins(gin: Option<&Registered>, contexts: u32) -> [u64; NCCL_GIN_MAX_CONTEXTS] {
    let handle = gin.map_or(0, Registered::handle);
    std::array::from_fn(|context| if context < contexts as usize { handle } else { 0 })
}

/// Takes a window away, whoever made it. Local and at once.
///
/// An error of the device is told, and takes nothing back: the window is gone and its memory given back all the same.
pub(super) fn remove(comm: &Comm, win: DevPtr) -> Result<()> {
    let mut cleared = Ok(());
    let window = {
        let mut state = comm.windows.state.lock();
        let Some(window) = state.windows.remove(&win) else {
            bail!(
                InvalidArgument,
                57,
                "unknown window | {} | {win:#x} is no window of this communicator | fix: pass what ncclCommWindowRegister gave, \
                 once",
                comm.tag()
            );
        };
        let State { table, structs, .. } = &mut *state;
        // As in `release`: a kernel that an abort released may still read them.
        if comm.failure().is_none() {
            let entry = table.as_mut().map_or(Ok(()), |table| table.remove(&*comm.device, window.entry));
            cleared = entry.and(structs.take_back(&*comm.device, win));
        }
        window
    };
    let Window { gin, memory, .. } = window;
    drop(gin);
    release(comm, &memory);
    cleared
}

/// ncclCommWindowDeregister: local and at once. The caller sees to it that no rank's kernel uses the window any more.
pub fn deregister(comm: &Comm, win: DevPtr) -> Result<()> {
    if win == 0 {
        return Ok(());
    }
    if !supported() {
        return comm.deregister_buffer(win as usize);
    }
    graveyard::sweep();
    let of_dev_comm = comm.windows.state.lock().windows.get(&win).is_some_and(|window| window.user.is_none());
    if of_dev_comm {
        bail!(
            InvalidArgument,
            57,
            "window belongs to a device communicator | {} | {win:#x} | fix: ncclDevCommDestroy takes it away",
            comm.tag()
        );
    }
    comm.drain()?;
    remove(comm, win)
}
