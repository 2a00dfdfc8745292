//! What wraps every export: panic boundary, trace of arguments and result, `Result` to code, WARN printed once.

use super::handles;
use crate::comm::{Comm, group, with_caller};
use crate::device::cpu::{is_in_host_function, note_call};
use crate::error::{Code, Error, Result};
use crate::fault::{self, Fault};
use crate::layout::{ncclComm_t, ncclResult_t};
use crate::panic::catch;
use crate::{bail, log, trace};
use std::fmt::Debug;
use std::sync::Arc;

/// Why an export returns something else than success.
pub enum Stop {
    /// An error that nobody has told the user yet: the boundary prints it and keeps it for ncclGetLastError.
    Say(Error),
    /// A code whose cause was already printed (by a group's thread, or when the communicator failed).
    Said(Code),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Stop::Say(error)
    }
}

/// What the body of an export returns.
pub type Outcome = std::result::Result<(), Stop>;

/// Names and values of the arguments, for the trace.
pub type Arguments<'a> = &'a [(&'static str, &'a dyn Debug)];

/// `entry!(ncclGetVersion(version) { body })`, or with a communicator that the body needs alive and usable:
/// `entry!(ncclCommRegister(comm; buff) |c| { body })`, or [`give_back`]: `entry!(ncclCommDeregister(comm; buff) give back |c| { body })`.
/// The body's last value is an [`Outcome`].
macro_rules! entry {
    ($name:ident($($arg:ident),*) $body:block) => {
        $crate::abi::entry::run(stringify!($name), &[$((stringify!($arg), &$arg as &dyn std::fmt::Debug)),*], || $body)
    };
    ($name:ident($comm:ident; $($arg:ident),*) |$c:ident| $body:block) => {
        $crate::abi::entry::run_on(
            stringify!($name),
            &[(stringify!($comm), &$comm as &dyn std::fmt::Debug), $((stringify!($arg), &$arg as &dyn std::fmt::Debug)),*],
            $comm,
            |$c| $body,
        )
    };
    ($name:ident($comm:ident; $($arg:ident),*) give back |$c:ident| $body:block) => {
        $crate::abi::entry::give_back(
            stringify!($name),
            &[(stringify!($comm), &$comm as &dyn std::fmt::Debug), $((stringify!($arg), &$arg as &dyn std::fmt::Debug)),*],
            $comm,
            |$c| $body,
        )
    };
}
pub(super) use entry;

/// Runs the body of an export that needs no communicator.
pub fn run(name: &'static str, arguments: Arguments, body: impl FnOnce() -> Outcome) -> ncclResult_t {
    finish(name, arguments, catch(name, || begin(name, body)))
}

/// What every call does first: settings are reported once per process, a planted fault strikes, and what a host function may not call is refused.
fn begin(name: &str, body: impl FnOnce() -> Outcome) -> Outcome {
    log::report();
    note_call();
    let _call = log::timeline::call(name);
    if matches!(fault::set(), Some(Fault::Panic(wanted)) if wanted == name) {
        panic!("GINRS_FAULT asks {name} to panic");
    }
    permitted(name)?;
    body()
}

/// Calls that make none of CUDA's, with any NCCL, and so are allowed where those are forbidden.
const EVERYWHERE: [&str; 17] = [
    "ncclGetVersion",
    "ncclGetUniqueId",
    "ncclGroupStart",
    "ncclGroupEnd",
    "ncclGroupSimulateEnd",
    "ncclCommCount",
    "ncclCommCuDevice",
    "ncclCommUserRank",
    "ncclCommGetAsyncError",
    "ncclCommRevoke",
    "ncclCommRegister",
    "ncclCommDeregister",
    "ncclRedOpCreatePreMulSum",
    "ncclRedOpDestroy",
    "ncclLsaBarrierCreateRequirement",
    "ncclGinBarrierCreateRequirement",
    "ncclLLA2ACreateRequirement",
];

/// Host functions of a stream call nothing of CUDA, whether or not a call needs it on the CPU device.
fn permitted(name: &str) -> Result<()> {
    if EVERYWHERE.contains(&name) || !is_in_host_function() {
        return Ok(());
    }
    // The end of a group has nothing of it to run.
    group::note(Code::UnhandledCudaError);
    bail!(
        UnhandledCudaError,
        67,
        "a call in a host function of a stream (cudaLaunchHostFunc, cudaStreamAddCallback), where CUDA forbids what it does | {name} | \
         fix: call it from a thread of your own, that the function wakes"
    )
}

/// Runs the body of an export on a communicator: the handle is looked up, never dereferenced, and a panic fails it.
pub fn run_on(
    name: &'static str,
    arguments: Arguments,
    handle: ncclComm_t,
    body: impl FnOnce(&Arc<Comm>) -> Outcome,
) -> ncclResult_t {
    let mut found = None;
    let outcome = catch(name, || {
        begin(name, || {
            // Calls of this form do something, so in a group a handle that cannot be used is the group's failure.
            let comm =
                handles::get(handle).and_then(|comm| comm.idle().map(|()| comm)).inspect_err(|error| group::note(error.code))?;
            body(found.insert(comm))
        })
    });
    let outcome = match (outcome, found) {
        (Err(Stop::Say(error)), Some(comm)) => Err(Stop::Said(comm.tell(error))),
        (outcome, _) => outcome,
    };
    finish(name, arguments, outcome)
}

/// As [`run_on`], for what gives back a part of a communicator. One that has gone took its parts along: done, as a static object's
/// destructor may ask long after ncclCommDestroy.
pub fn give_back(
    name: &'static str,
    arguments: Arguments,
    handle: ncclComm_t,
    body: impl FnOnce(&Arc<Comm>) -> Outcome,
) -> ncclResult_t {
    if handles::is_gone(handle) {
        return run(name, arguments, || Ok(()));
    }
    run_on(name, arguments, handle, body)
}

/// The one place where an outcome becomes a code.
fn finish(name: &str, arguments: Arguments, outcome: Outcome) -> ncclResult_t {
    let code = match outcome {
        Ok(()) => Code::Success,
        Err(Stop::Said(code)) => code,
        Err(Stop::Say(error)) => {
            say(&error);
            error.code
        }
    };
    trace(name, arguments, code);
    code as ncclResult_t
}

/// Prints an error where no caller will; ncclGetLastError returns it from then on.
pub fn say(error: &Error) {
    log::error(&with_caller(error));
}

fn trace(name: &str, arguments: Arguments, code: Code) {
    trace!(CALL, "{name}({}) = {code:?}", Shown(arguments));
}

/// Formats only when the line is printed.
struct Shown<'a>(Arguments<'a>);

impl std::fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (i, (name, value)) in self.0.iter().enumerate() {
            write!(f, "{}{name} {value:?}", if i == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

/// An output pointer that may be written.
pub fn out<'a, T>(name: &str, at: *mut T) -> Result<&'a mut std::mem::MaybeUninit<T>> {
    check(name, at)?;
    // SAFETY: not NULL and aligned; that it points to writable memory for the length of the call is the C contract.
    Ok(unsafe { &mut *at.cast() })
}

/// What a call will make stands for nothing until it has: after a failure, whatever failed, `*at` is NULL (or zero), as with NCCL.
pub fn nothing_yet<T>(at: *mut T) {
    if !at.is_null() && at.is_aligned() {
        // SAFETY: writable memory for a T by the C contract; every T used here is valid with all bytes zero.
        unsafe { at.write_bytes(0, 1) };
    }
}

/// An input pointer that may be read.
pub fn input<'a, T>(name: &str, at: *const T) -> Result<&'a T> {
    check(name, at)?;
    // SAFETY: not NULL and aligned; that it points to an initialised T that nobody changes during the call is the C
    // contract, and every T used here is valid for any bytes.
    Ok(unsafe { &*at })
}

fn check<T>(name: &str, at: *const T) -> Result<()> {
    let wanted = std::any::type_name::<T>().rsplit("::").next().unwrap_or_default();
    if at.is_null() {
        bail!(InvalidArgument, 61, "argument is NULL | {name} | 0x0 | fix: pass the address of a {wanted}");
    }
    if !at.is_aligned() {
        bail!(
            InvalidArgument,
            61,
            "argument is misaligned | {name} | {at:p}, must be a multiple of {} | fix: pass the address of a {wanted}",
            align_of::<T>()
        );
    }
    Ok(())
}
