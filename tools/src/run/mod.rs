//! ginrs-run: starts the ranks of a job, on this machine or on others, and ends them together.
//!
//! [`args`] understands the command line, [`rank`] starts one process, [`output`] prints its lines, [`job`] waits for their ends
//! and for [`signals`], `folder` is the job's own. For other machines [`hosts`] shares the ranks out, and [`remote`] starts a helper on each over [`rsh`], [`serve`], which
//! runs its share as a job of its own; the two speak in [`frame`]s. [`ask`] has ranks say what they wait for. [`waits`] does from another
//! terminal, and finds the job among all [`processes`]. [`timeline`] asks for what they did. [`explore`] runs the
//! job under many seeds, [`shrink`] finds what one needs to fail, [`replay`] has it run exactly again. [`check`] is `--check`, which does all of it; [`finding`] reads what a run says of a mistake. [`relay`] brings rank 0's unique id from machine to machine.

pub mod args;
pub mod ask;
pub mod check;
pub mod explore;
pub mod finding;
mod folder;
pub mod frame;
pub mod hosts;
pub mod job;
pub mod output;
pub mod processes;
pub mod rank;
pub mod relay;
pub mod remote;
pub mod replay;
pub mod rsh;
pub mod serve;
pub mod shrink;
pub mod signals;
pub mod timeline;
pub mod waits;

use args::{Asked, Options};
use std::ffi::OsString;

/// Runs ginrs-run with these arguments (without the program's name); the exit status.
pub fn main(arguments: Vec<OsString>) -> i32 {
    let mut options = match Options::parse(arguments) {
        Ok(Asked::Run(options)) => *options,
        Ok(Asked::Serve) => return serve::serve(),
        Ok(Asked::Waits(pid)) => return waits::waits(pid),
        Ok(Asked::Merge(wanted, files)) => {
            return status(wanted.create().and_then(|out| out.map_or(Ok(0), |out| out.merge(&files))));
        }
        Ok(Asked::Help) => return crate::answer("ginrs-run", args::HELP),
        Ok(Asked::Version) => return crate::answer("ginrs-run", format!("ginrs-run {}\n", env!("CARGO_PKG_VERSION"))),
        Err(message) => {
            crate::tell(format!("ginrs-run: {message}; see ginrs-run --help"));
            return 2;
        }
    };
    if let Err(message) = if options.race { check::can_race(&options) } else { Ok(()) } {
        crate::tell(format!("ginrs-run: {message}"));
        return 2;
    }
    if let Some(limit) = options.check {
        // 1 is a failure of the program, 2 of this.
        return check::check(&options, limit).unwrap_or_else(|message| failed(&message, 2));
    }
    if let Some(count) = options.explore {
        return status(explore::explore(&options, count));
    }
    if let Some(seed) = options.seed {
        options.exports.extend(explore::Under::BOTH.settings(seed).map(Into::into));
    }
    let run = if options.hosts.is_empty() { job::run } else { remote::run };
    status(replay::with_baton(options, run))
}

fn status(outcome: Result<i32, String>) -> i32 {
    outcome.unwrap_or_else(|message| failed(&message, 1))
}

fn failed(message: &str, status: i32) -> i32 {
    crate::tell(format!("ginrs-run: {message}"));
    status
}
