//! Faults that tests plant (GINRS_FAULT): a panic, a system without random bytes, or a step that fails, is slow or ends the process.
//!
//! A step takes a resource that can run out (a descriptor, memory, a mapping, a thread) or is a round of an exchange. Production code
//! says so with [`step`] where it does it; one relaxed load where nothing is planted.
//!
//! Imports from sync, config and log.

use crate::sync::{Mutex, PerProcess};
use crate::{config, hint};
use rustix::io::Errno;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

pub use config::fault::{Fault, Which};

/// The one that is set.
pub fn set() -> Option<Fault> {
    config::fault::parse(&config::text("GINRS_FAULT")?)
}

const UNREAD: u8 = 0;
const NONE: u8 = 1;
const PLANTED: u8 = 2;
/// Whether [`step`] has to look.
static STATE: AtomicU8 = AtomicU8::new(UNREAD);

struct Plan {
    fault: Option<Fault>,
    /// Steps since it was planted.
    steps: u64,
    /// The step that was struck last.
    struck: Option<String>,
}

impl Default for Plan {
    /// As set: also in a forked child.
    fn default() -> Self {
        Self { fault: set(), steps: 0, struck: None }
    }
}

static PLAN: PerProcess<Mutex<Plan>> = PerProcess::new();

/// `Err(EIO)` if the step `name`, which the caller is about to take, is to fail.
pub fn step(name: &str) -> rustix::io::Result<()> {
    match STATE.load(Ordering::Relaxed) {
        NONE => Ok(()),
        UNREAD => {
            plant(set());
            step(name)
        }
        _ => strike(name),
    }
}

#[cold]
fn strike(name: &str) -> rustix::io::Result<()> {
    let mut plan = PLAN.lock();
    plan.steps += 1;
    let (fault, n) = (plan.fault.clone(), plan.steps);
    let here = match &fault {
        Some(Fault::Fail(which) | Fault::Exit(which) | Fault::Slow(which)) => match which {
            Which::Nth(at) => *at == n,
            Which::Named(wanted) => wanted == name,
        },
        _ => false,
    };
    if !here {
        return Ok(());
    }
    plan.struck = Some(name.into());
    drop(plan);
    hint!("GINRS_FAULT strikes step {n} of this process, \"{name}\"");
    match fault {
        Some(Fault::Slow(_)) => std::thread::sleep(Duration::from_secs(1)),
        // As a process that is killed: no exit handler says goodbye.
        // SAFETY: it ends the process, and no memory of ours is touched any more.
        Some(Fault::Exit(_)) => unsafe { libc::_exit(1) },
        _ => return Err(Errno::IO),
    }
    Ok(())
}

/// From now on this fault, in place of GINRS_FAULT; None: none. Steps are counted anew. What was struck before.
pub fn plant(fault: Option<Fault>) -> Option<String> {
    let strikes = matches!(fault, Some(Fault::Fail(_) | Fault::Exit(_) | Fault::Slow(_)));
    let before = std::mem::replace(&mut *PLAN.lock(), Plan { fault, steps: 0, struck: None });
    STATE.store(if strikes { PLANTED } else { NONE }, Ordering::Relaxed);
    before.struck
}
