//! What the card tells by itself: channels are pipes, and what is in one is what a reader gets. SOFTVERBS_EVENT has something told once, when
//! the card has done that many elements: `fatal`, `request`, `access` or `cq` of the queue of that element, `stale` of one that there is not,
//! `port-down`, `port-up` or `device`, or `gid` that nobody minds; `access,at=100`, by itself at 1. It is told, and does not happen: a queue pair
//! that broke would be heard of by its peer, too, now sooner and now later.

use crate::sys::*;
use crate::verbs::fail;
use crate::world::{World, with};
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

/// A pipe, and how its reader is known.
struct Channel {
    known: mlx5dv_devx_event_channel,
    write: c_int,
}

/// Who hears of a queue.
#[derive(Clone)]
pub struct Listener {
    write: c_int,
    cookie: u64,
    events: Vec<u16>,
}

/// MLX5_EVENT_TYPE_*.
const OF_QUEUES: [(&str, u16); 4] = [("cq", 0x04), ("fatal", 0x05), ("request", 0x10), ("access", 0x11)];
const OF_DEVICE: [(&str, u32); 4] =
    [("device", IBV_EVENT_DEVICE_FATAL), ("port-up", IBV_EVENT_PORT_ACTIVE), ("port-down", IBV_EVENT_PORT_ERR), ("gid", 18)];

/// Read end, write end.
pub fn pipe() -> [c_int; 2] {
    let mut ends = [-1; 2];
    // SAFETY: two ints to write to.
    assert_eq!(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) }, 0, "a pipe");
    ends
}

fn write(to: c_int, bytes: &[u8]) {
    // SAFETY: a buffer of that length; less than a pipe takes at once.
    unsafe { libc::write(to, bytes.as_ptr().cast(), bytes.len()) };
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlx5dv_devx_create_event_channel(_: *mut ibv_context, flags: c_int) -> *mut mlx5dv_devx_event_channel {
    if flags != 0 {
        return fail(libc::EOPNOTSUPP);
    }
    let [fd, write] = pipe();
    Box::into_raw(Box::new(Channel { known: mlx5dv_devx_event_channel { fd }, write })).cast()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlx5dv_devx_destroy_event_channel(channel: *mut mlx5dv_devx_event_channel) {
    // SAFETY: made above, of which the first field is what callers know.
    let channel = unsafe { Box::from_raw(channel.cast::<Channel>()) };
    with(|world| world.listeners.retain(|_, listener| listener.write != channel.write));
    // SAFETY: both are this channel's.
    unsafe {
        libc::close(channel.known.fd);
        libc::close(channel.write);
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlx5dv_devx_subscribe_devx_event(
    channel: *mut mlx5dv_devx_event_channel,
    object: *mut mlx5dv_devx_obj,
    bytes: u16,
    events: *mut u16,
    cookie: u64,
) -> c_int {
    // SAFETY: made above; the caller's list of that many bytes.
    let (channel, events) =
        unsafe { (&*channel.cast::<Channel>(), std::slice::from_raw_parts(events, bytes as usize / 2).to_vec()) };
    // SAFETY: an object of this library.
    let number = unsafe { crate::devx::number(object) };
    with(|world| world.listeners.insert(number, Listener { write: channel.write, cookie, events }));
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlx5dv_devx_get_event(channel: *mut mlx5dv_devx_event_channel, out: *mut c_void, bytes: usize) -> isize {
    // SAFETY: made above; the caller's buffer.
    unsafe { libc::read((*channel).fd, out, bytes) }
}

/// Waits where the descriptor does: for whoever has not made it ready for reading without, as long as nothing happens to the device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_async_event(context: *mut ibv_context, event: *mut ibv_async_event) -> c_int {
    let bytes = size_of::<ibv_async_event>();
    // SAFETY: a context of this library; the caller's struct.
    let n = unsafe { libc::read((*context).async_fd, event.cast(), bytes) };
    if n == bytes as isize {
        crate::log::called("an event of the device is taken");
        return 0;
    }
    -1
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_ack_async_event(_event: *mut ibv_async_event) {
    crate::log::called("an event of the device is acknowledged");
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_event_type_str(_event: c_int) -> *const std::ffi::c_char {
    c"an event".as_ptr()
}

/// What SOFTVERBS_EVENT says, and at which element.
fn asked() -> Option<&'static (String, u64)> {
    static ASKED: OnceLock<Option<(String, u64)>> = OnceLock::new();
    let read = || {
        let text = std::env::var("SOFTVERBS_EVENT").ok()?;
        let (what, at) = text.split_once(",at=").unwrap_or((&text, "1"));
        Some((what.to_owned(), at.parse().expect("SOFTVERBS_EVENT")))
    };
    ASKED.get_or_init(read).as_ref()
}

/// An element of that queue pair is done.
pub fn after(world: &mut World, pair: u32) {
    let Some((what, at)) = asked() else { return };
    world.elements += 1;
    if world.elements != *at {
        return;
    }
    if let Some((_, event)) = OF_DEVICE.iter().find(|(name, _)| name == what) {
        let told = [1u64.to_le_bytes(), u64::from(*event).to_le_bytes()].concat();
        world.contexts.iter().for_each(|(_, to)| write(*to, &told));
        return;
    }
    let event = OF_QUEUES.iter().find(|(name, _)| name == what).map_or(0x05, |(_, event)| *event);
    let number = if what == "cq" { world.pairs[&pair].completions } else { pair };
    let Some(listener) = world.listeners.get(&number).filter(|listener| listener.events.contains(&event)) else { return };
    let mut told = [0u8; 72];
    // Of the same owner, and none of its queues.
    let cookie = if what == "stale" { listener.cookie | u64::from(u32::MAX) } else { listener.cookie };
    told[..8].copy_from_slice(&cookie.to_le_bytes());
    told[9] = event as u8;
    write(listener.write, &told);
}
