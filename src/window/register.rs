//! ncclCommWindowRegister and ncclCommWindowDeregister (spec host 2.7, 2.9).

use super::Windows;
use super::standing::UserRange;
use crate::device::{DevPtr, graveyard};
use crate::error::Result;
use crate::gin::Prepared;
use crate::layout::{NCCL_WIN_COLL_SYMMETRIC, NCCL_WIN_REQUIRED_ALIGNMENT};
use crate::symmetric::{AGREED, Proposal, SymMemory};
use crate::team::{Said, Team, compare};
use crate::{bail, config, info, log};
use std::sync::Arc;

/// True unless NCCL_WIN_ENABLE=0: windows and device communicators can be made.
pub fn supported() -> bool {
    config::int("NCCL_WIN_ENABLE") != 0
}

impl Windows {
    /// Collective over the communicator: makes `bytes` at `ptr` a window; its handle, a device address. `ptr` must lie in
    /// ncclMemAlloc memory, a multiple of 4096 bytes from its start, at the same offset and with the same size on every rank.
    ///
    /// NULL or no bytes: 0, without talking to anyone. Where one rank's call is wrong, all ranks get the reason.
    pub fn register(&self, ptr: DevPtr, bytes: usize, flags: i32) -> Result<DevPtr> {
        self.register_checked(ptr, bytes, flags, Ok(()))
    }

    /// The same; `checked` is what the caller knows of this rank's call.
    pub fn register_checked(&self, ptr: DevPtr, bytes: usize, flags: i32, checked: Result<()>) -> Result<DevPtr> {
        if ptr == 0 || bytes == 0 {
            return checked.map(|()| 0);
        }
        if !supported() {
            return checked.map(|()| match config::int("NCCL_LOCAL_REGISTER") {
                0 => 0,
                _ => self.register_buffer(ptr as usize, bytes) as DevPtr,
            });
        }
        let team = self.team();
        team.ready()?;
        graveyard::sweep();
        let mut turn = self.turn.lock();
        turn.registrations += 1;
        let what = format!("window register #{}", turn.registrations);
        let plan = checked.and_then(|()| Plan::new(self, ptr, bytes, flags));
        let all = team.round(&what, plan.as_ref().map(Plan::said).map_err(Clone::clone))?;
        compare(&what, &all, |i| FIELDS[i].into(), show)?;
        let plan = plan?;
        let at = plan.memory.own().len();
        let place = self.state.lock().place(plan.mem_offset, bytes as u64);
        let (made, _offer) = match plan.memory {
            Known::Held(memory) => (self.symmetric.share(memory), None),
            Known::New(proposal) => {
                let (held, offer) = proposal.obtain(&all);
                (held.map(|held| self.symmetric.adopt(held)), Some(offer))
            }
        };
        let user = UserRange { base: ptr, bytes: bytes as u64, symmetric: flags & NCCL_WIN_COLL_SYMMETRIC != 0 };
        let made = made.and_then(|memory| {
            let gin = plan.gin.map(|gin| |team: &Team, place| gin.register(team, &memory, place, &all, at));
            self.add(&memory, place, Some(user), gin)
        });
        if let Err(error) = team.done(&format!("{what}, end"), &made) {
            if let Ok(win) = made {
                // The caller wants the reason why there is no window.
                self.remove(win).unwrap_or_else(|left| log::error(&left));
            }
            return Err(error);
        }
        let win = made?;
        info!(REG, "{} {what}: {bytes} bytes at {ptr:#x}, {:#x} into its allocation: window {win:#x}", team.tag(), place.start);
        Ok(win)
    }

    /// ncclCommWindowDeregister: local and at once. The caller sees to it that no rank's kernel uses the window any more.
    pub fn deregister(&self, win: DevPtr) -> Result<()> {
        if win == 0 {
            return Ok(());
        }
        if !supported() {
            return self.deregister_buffer(win as usize);
        }
        graveyard::sweep();
        let of_dev_comm = self.state.lock().windows.get(&win).is_some_and(|window| window.user.is_none());
        if of_dev_comm {
            bail!(
                InvalidArgument,
                57,
                "window belongs to a device communicator | {} | {win:#x} | fix: ncclDevCommDestroy takes it away",
                self.team().tag()
            );
        }
        self.drain()?;
        // First: who finds the byte puts into what is about to go.
        if let Some(window) = self.state.lock().windows.get(&win) {
            self.team().watch.window_gone(window.place.number);
        }
        self.remove(win)
    }
}

/// What this rank's call means.
struct Plan<'a> {
    bytes: usize,
    flags: i32,
    mem_offset: u64,
    memory: Known<'a>,
    gin: Option<Prepared>,
}

/// Memory that has windows already, or is new to this communicator.
enum Known<'a> {
    Held(Arc<SymMemory>),
    New(Proposal<'a>),
}

impl Known<'_> {
    fn own(&self) -> Vec<u64> {
        match self {
            Self::Held(_) => Vec::new(),
            Self::New(proposal) => proposal.own().to_vec(),
        }
    }
}

/// Names of the words that must agree.
const FIELDS: [&str; 7] = ["size", "offset in the allocation", "flags", "memory", AGREED[0], AGREED[1], AGREED[2]];

fn show(i: usize, value: u64) -> String {
    match (i, value) {
        (3, 0) => "registers new memory".into(),
        (3, id) => format!("registers memory {id} again"),
        (2, flags) => format!("{:#x}", flags as i32),
        (_, n) => n.to_string(),
    }
}

impl<'a> Plan<'a> {
    fn new(windows: &'a Windows, ptr: DevPtr, bytes: usize, flags: i32) -> Result<Self> {
        let symmetric = &windows.symmetric;
        let found = symmetric.team.device.lookup(ptr)?;
        let mem_offset = ptr - found.base;
        if !mem_offset.is_multiple_of(NCCL_WIN_REQUIRED_ALIGNMENT as u64) {
            bail!(
                InvalidArgument,
                52,
                "window start is misaligned | {} | {ptr:#x} is {mem_offset:#x} bytes into its allocation, must be a multiple of \
                 4096 | fix: start windows at 4 KiB boundaries of ncclMemAlloc memory",
                symmetric.team.tag()
            );
        }
        if bytes as u64 > found.bytes as u64 - mem_offset {
            bail!(
                InvalidArgument,
                55,
                "window ends behind its allocation | {} | {bytes} bytes from offset {mem_offset:#x} of an allocation of {} bytes \
                 | fix: allocate more or register less",
                symmetric.team.tag(),
                found.bytes
            );
        }
        let gin = windows.gin().map(|gin| gin.prepare(&found.physical, mem_offset, bytes as u64)).transpose()?;
        let memory = match symmetric.of(&found.physical) {
            Some(memory) => Known::Held(memory),
            None => Known::New(Proposal::new(symmetric, found.physical)?),
        };
        Ok(Self { bytes, flags, mem_offset, memory, gin })
    }

    fn said(&self) -> Said {
        let mut agreed = vec![self.bytes as u64, self.mem_offset, self.flags as u32 as u64];
        match &self.memory {
            Known::Held(memory) => agreed.push(memory.id),
            Known::New(proposal) => {
                agreed.push(0);
                agreed.extend(proposal.agreed());
            }
        }
        let mut own = self.memory.own();
        own.extend(self.gin.iter().flat_map(Prepared::own));
        Said { agreed, own }
    }
}
