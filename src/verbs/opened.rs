//! A device that this process has opened for commands: once for all communicators, for as long as one of them uses it. Commands about the
//! device itself, and what it tells (`events`).

use super::commands;
use super::events::{Channel, Mailboxes};
use super::library::{Functions, library};
use super::prm::bytes;
use super::sys::*;
use crate::sync::{Mutex, PerProcess, pid};
use std::ffi::CStr;
use std::ptr::NonNull;
use std::sync::{Arc, Weak};

/// What errno says after a call that failed, or returned it.
pub(super) fn why(what: &str, returned: i32) -> String {
    let error = match returned {
        1.. => std::io::Error::from_raw_os_error(returned),
        _ => std::io::Error::last_os_error(),
    };
    let fix = match error.raw_os_error() {
        Some(libc::ENOMEM) => " | fix: raise the limit of locked memory (ulimit -l unlimited)",
        Some(libc::EPERM | libc::EACCES) => " | fix: let this process read and write /dev/infiniband/uverbs*",
        _ => "",
    };
    format!("{what}: {error}{fix}")
}

/// The list of devices, freed at drop.
struct List<'a> {
    functions: &'a Functions,
    devices: *mut *mut ibv_device,
    n: usize,
}

impl<'a> List<'a> {
    fn new(functions: &'a Functions) -> Result<Self, String> {
        let mut n = 0;
        // SAFETY: it writes the number.
        let devices = unsafe { (functions.ibv_get_device_list)(&mut n) };
        if devices.is_null() {
            // ENOSYS: the kernel has no RDMA at all.
            return Err(match std::io::Error::last_os_error().raw_os_error() {
                Some(libc::ENOSYS) => NONE.into(),
                _ => why("ibv_get_device_list", 0),
            });
        }
        Ok(Self { functions, devices, n: n.max(0) as usize })
    }

    fn all(&self) -> impl Iterator<Item = (String, *mut ibv_device)> + '_ {
        (0..self.n).map(|at| {
            // SAFETY: the list has n entries, and lives.
            let device = unsafe { *self.devices.add(at) };
            // SAFETY: a device's name is a string that lives as long as it does.
            let name = unsafe { CStr::from_ptr((self.functions.ibv_get_device_name)(device)) };
            (name.to_string_lossy().into_owned(), device)
        })
    }
}

impl Drop for List<'_> {
    fn drop(&mut self) {
        // SAFETY: made by ibv_get_device_list; what was opened of it stays.
        unsafe { (self.functions.ibv_free_device_list)(self.devices) };
    }
}

const NONE: &str =
    "verbs have no RDMA device | fix: modprobe mlx5_ib; in a container pass /dev/infiniband (docker: --device=/dev/infiniband)";

/// Names of all RDMA devices, at least one; or why there are none.
pub fn names() -> Result<Vec<String>, String> {
    let list = List::new(library().as_ref()?)?;
    let names: Vec<String> = list.all().map(|(name, _)| name).collect();
    if names.is_empty() { Err(NONE.into()) } else { Ok(names) }
}

/// What is open of one device, if it is.
type Slot = Arc<Mutex<Weak<Opened>>>;

/// By name.
static OPEN: PerProcess<Mutex<Vec<(String, Slot)>>> = PerProcess::new();

fn slot(name: &str) -> Slot {
    let mut all = OPEN.lock();
    if let Some((_, slot)) = all.iter().find(|(known, _)| known == name) {
        return slot.clone();
    }
    let slot = Slot::default();
    all.push((name.into(), slot.clone()));
    slot
}

/// Who opened something: a forked child has it, too, and neither uses nor closes it.
#[derive(Clone, Copy)]
pub(super) struct Owner(u32);

impl Owner {
    /// This process.
    pub fn here() -> Self {
        Self(pid())
    }

    /// False in a forked child.
    pub fn is_here(self) -> bool {
        self.0 == pid()
    }
}

/// Verbs' context, closed at drop.
pub(super) struct Context {
    pub functions: &'static Functions,
    pub made: NonNull<ibv_context>,
    pub owner: Owner,
}

// SAFETY: verbs may be called by any thread; the pointer is the library's and goes with this.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    /// One command about the card itself, and its answer of that many bytes.
    pub fn command(&self, what: &'static str, command: &[u8], bytes: usize) -> Result<Vec<u8>, String> {
        let mut answer = commands::answer(bytes);
        // SAFETY: both buffers are as long as said; the context lives.
        let result = unsafe {
            let (input, output) = (command.as_ptr().cast(), answer.as_mut_ptr().cast());
            (self.functions.mlx5dv_devx_general_cmd)(self.made.as_ptr(), input, command.len(), output, answer.len())
        };
        done(what, result, answer)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if self.owner.is_here() {
            // SAFETY: everything that stands on it keeps it, so it has gone.
            unsafe { (self.functions.ibv_close_device)(self.made.as_ptr()) };
        }
    }
}

/// See the head of this file.
pub(super) struct Opened {
    // Before the context that it is of.
    pub channel: Channel,
    pub context: Context,
    pub name: String,
    /// Number of the queue of events that completion queues name, though none is ever asked for.
    pub events: u32,
    /// Of all that use it.
    pub mailboxes: Mutex<Mailboxes>,
}

impl Opened {
    /// The device of that name in the list, which is opened if nobody has, or it is over.
    fn of_device(functions: &'static Functions, name: &str, device: *mut ibv_device) -> Result<Arc<Self>, String> {
        let slot = slot(name);
        // While it is held: whoever wants the same waits, and finds it.
        let mut open = slot.lock();
        if let Some(found) = open.upgrade().filter(|found| !found.is_over()) {
            return Ok(found);
        }
        let opened = Arc::new(Self::new(functions, name, device)?);
        *open = Arc::downgrade(&opened);
        Ok(opened)
    }

    fn new(functions: &'static Functions, name: &str, device: *mut ibv_device) -> Result<Self, String> {
        // SAFETY: a device of the list, which lives.
        if !unsafe { (functions.mlx5dv_is_supported)(device) } {
            return Err("not an mlx5 device, the only kind whose queues kernels can fill".into());
        }
        let mut attributes = mlx5dv_context_attr { flags: MLX5DV_CONTEXT_FLAGS_DEVX, comp_mask: 0 };
        // SAFETY: as above; the attributes are read.
        let made = NonNull::new(unsafe { (functions.mlx5dv_open_device)(device, &mut attributes) })
            .ok_or_else(|| why("it does not open for commands (DEVX)", 0))?;
        let context = Context { functions, made, owner: Owner::here() };
        let can = context.command("QUERY_HCA_CAP", &commands::query_capabilities(false), bytes::CAPABILITY_OUT)?;
        let lacks = commands::lacks(&can);
        if !lacks.is_empty() {
            return Err(format!("the card has no {}", lacks.join(", no ")));
        }
        let mut events = 0;
        // SAFETY: the context lives; it writes the number.
        let result = unsafe { (functions.mlx5dv_devx_query_eqn)(made.as_ptr(), 0, &mut events) };
        if result != 0 {
            return Err(why("mlx5dv_devx_query_eqn", result));
        }
        let channel = Channel::new(&context)?;
        context.never_wait()?;
        Ok(Self { channel, context, name: name.into(), events, mailboxes: Mutex::default() })
    }
}

/// The first device, of that name or of any, of which something can be made. Err: why not, and of several why each.
pub(super) fn first<T>(name: Option<&str>, make: impl Fn(Arc<Opened>) -> Result<T, String>) -> Result<T, String> {
    let functions = library().as_ref()?;
    let list = List::new(functions)?;
    let mut refused = Vec::new();
    for (found, device) in list.all() {
        if name.is_some_and(|name| name != found) {
            continue;
        }
        match Opened::of_device(functions, &found, device).and_then(&make) {
            Ok(made) => return Ok(made),
            Err(why) => refused.push(format!("{found}: {why}")),
        }
    }
    match (refused.is_empty(), name) {
        (false, _) => Err(refused.join("; ")),
        (true, Some(name)) => Err(format!("verbs have no device {name} | fix: one that ginrs-info --why lists")),
        (true, None) => Err(NONE.into()),
    }
}

pub(super) fn refused(what: &str, result: i32, answer: &[u8]) -> String {
    let (status, syndrome) = commands::refusal(answer);
    match status {
        0 => why(what, result),
        _ => format!("{what} is refused by the card: status {status:#x}, syndrome {syndrome:#x}"),
    }
}

pub(super) fn done(what: &str, result: i32, answer: Vec<u8>) -> Result<Vec<u8>, String> {
    match (result, commands::refusal(&answer).0) {
        (0, 0) => Ok(answer),
        _ => Err(refused(what, result, &answer)),
    }
}
