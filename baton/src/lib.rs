//! libginrs_baton.so: one thread of the process at a time, and which one a seed says.
//!
//! It is preloaded (`ginrs-run --seed`, `--explore`) and stands in front of the system's functions at which threads wait, wake each other or ask
//! what time it is. Where libginrs_cpu.so is in the process and GINRS_SCHEDULE has a seed, each of them is a point at which the
//! [`choose`]r says who goes on; elsewhere, and in a forked child, they are the system's.
//!
//! [`baton`] hands over, [`state`] knows who waits for what, [`trace`] tells what was chosen, [`watchdog`] sees to what is not seen here.
//! In front of the system: [`threads`], [`locks`], [`meetings`], [`time`], [`files`], [`system`];
//! [`next`] is what stands behind. [`hooks`] is what libginrs and
//! libginrs_cpu ask for, by name.

pub mod baton;
pub mod choose;
pub mod files;
pub mod hooks;
pub mod locks;
pub mod meetings;
pub mod next;
pub mod state;
pub mod system;
pub mod threads;
pub mod time;
pub mod trace;
pub mod watchdog;
