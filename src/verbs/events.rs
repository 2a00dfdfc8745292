//! What a card says by itself: of queue pairs and completion queues by a channel that this process made for them, of its ports and of itself
//! by the device's own. Both are descriptors that become readable; nothing here waits.
//!
//! All communicators that use a device have these two in common. Whoever looks first takes what there is and puts it into mailboxes: news of
//! a queue into its owner's, news of the device into everybody's. A mailbox has a descriptor, too, for its owner may sleep on.
//!
//! A queue is told apart by a number that it never shares with another, so news of one that has gone is no other's.

use super::card::Card;
use super::library::Functions;
use super::opened::{Context, Opened, Owner, why};
use super::sys::*;
use crate::sync::Mutex;
use rustix::event::{EventfdFlags, eventfd};
use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// What has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// To the queue with that number of [`Card::listen`]: the card's number for what, and its words.
    Queue(u64, u8, &'static str),
    /// A port has gone down, or come up.
    Port {
        /// From 1.
        number: i32,
        /// It is up.
        up: bool,
    },
    /// The card works no more.
    Device,
    /// Something that nobody here minds, by verbs' number.
    Other(u32),
}

/// The card's numbers of what befalls a queue (MLX5_EVENT_TYPE_* of the programmer's reference), and words for them.
const OF_QUEUES: [(u16, &str); 4] = [
    (0x04, "completion queue error"),
    (0x05, "queue pair fatal error"),
    (0x10, "invalid request"),
    (0x11, "access error: what a peer named is not this rank's memory, or not for it"),
];
/// Bytes of what the card writes of an event, and which of them says what it is.
const EQE: usize = 64;
const TYPE: usize = 1;

/// One of them, as the library hands it over.
#[repr(C)]
struct Written {
    cookie: u64,
    eqe: [u8; EQE],
}

impl Event {
    /// Is it for the mailbox with that number?
    fn is_for(self, number: u32) -> bool {
        match self {
            Self::Queue(whose, ..) => whose >> 32 == number.into(),
            _ => true,
        }
    }
}

/// What one communicator's rank is told of a card, until it looks.
pub(super) struct Mailbox {
    number: u32,
    news: Mutex<VecDeque<Event>>,
    /// Readable while there are news.
    bell: OwnedFd,
}

impl Mailbox {
    /// With a number that no other of this process has, nor had.
    pub fn new() -> Result<Self, String> {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|error| format!("eventfd: {error}"))?;
        Ok(Self { number: NEXT.fetch_add(1, Ordering::Relaxed), news: Mutex::new(VecDeque::new()), bell })
    }

    /// What its owner's queue `at` is called.
    pub fn of(&self, at: u32) -> u64 {
        u64::from(self.number) << 32 | u64::from(at)
    }

    fn put(&self, event: Event) {
        let mut news = self.news.lock();
        news.push_back(event);
        // Only a counter that nobody has read for 2^64 rings would be full.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    fn take(&self) -> Option<Event> {
        let mut news = self.news.lock();
        let event = news.pop_front();
        if event.is_none() {
            let _ = rustix::io::read(&self.bell, &mut [0; 8]);
        }
        event
    }
}

/// Those of all that use a device.
#[derive(Default)]
pub(super) struct Mailboxes {
    all: Vec<Arc<Mailbox>>,
    /// The device has said that it works no more: who comes now opens it anew.
    over: bool,
}

impl Mailboxes {
    /// From here on it is told what happens. Err: nothing will, for the device is over.
    fn join(&mut self, mailbox: Arc<Mailbox>) -> Result<(), String> {
        if self.over {
            return Err("it has just said that it works no more | fix: look at dmesg, and try again, which opens it anew".into());
        }
        self.all.push(mailbox);
        Ok(())
    }

    fn put(&mut self, event: Event) {
        self.over |= event == Event::Device;
        self.all.iter().filter(|mailbox| event.is_for(mailbox.number)).for_each(|mailbox| mailbox.put(event));
    }
}

/// One that has joined those of a device, until it is dropped.
pub(super) struct Told {
    pub mailbox: Arc<Mailbox>,
    of: Arc<Opened>,
}

impl Told {
    /// A new one.
    pub fn of(opened: &Arc<Opened>) -> Result<Self, String> {
        let mailbox = Arc::new(Mailbox::new()?);
        opened.mailboxes.lock().join(mailbox.clone())?;
        Ok(Self { mailbox, of: opened.clone() })
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        // A child's copy of the lock may be held by one of its parent's threads.
        if self.of.context.owner.is_here() {
            self.of.mailboxes.lock().all.retain(|mailbox| !Arc::ptr_eq(mailbox, &self.mailbox));
        }
    }
}

/// The channel for queues; gone at drop.
pub(super) struct Channel {
    made: NonNull<mlx5dv_devx_event_channel>,
    functions: &'static Functions,
    owner: Owner,
}

// SAFETY: verbs may be called by any thread; the pointer is the library's and goes with this.
unsafe impl Send for Channel {}
// SAFETY: as above.
unsafe impl Sync for Channel {}

/// From here on a read of `fd` never waits.
fn never_wait(fd: RawFd) -> Result<(), String> {
    // SAFETY: asks for flags and sets them.
    let set = unsafe {
        let flags = libc::fcntl(fd, libc::F_GETFL);
        flags >= 0 && libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK) == 0
    };
    if set { Ok(()) } else { Err(why("fcntl of a descriptor of events", 0)) }
}

impl Channel {
    /// A new one of `context`.
    pub fn new(context: &Context) -> Result<Self, String> {
        let Context { functions, made: device, owner } = *context;
        // SAFETY: the context lives; no flags, so that what the card writes comes along.
        let made = NonNull::new(unsafe { (functions.mlx5dv_devx_create_event_channel)(device.as_ptr(), 0) });
        let channel = Self { made: made.ok_or_else(|| why("mlx5dv_devx_create_event_channel", 0))?, functions, owner };
        never_wait(channel.fd())?;
        Ok(channel)
    }

    fn fd(&self) -> RawFd {
        // SAFETY: the library's struct, which lives until it is destroyed.
        unsafe { self.made.as_ref() }.fd
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        if !self.owner.is_here() {
            return;
        }
        // SAFETY: made once; queues that were listened to by it have gone, or are heard no more.
        unsafe { (self.functions.mlx5dv_devx_destroy_event_channel)(self.made.as_ptr()) };
    }
}

impl Context {
    /// From here on its news are asked for without waiting for them.
    pub fn never_wait(&self) -> Result<(), String> {
        never_wait(self.fd())
    }

    /// The device's own descriptor.
    fn fd(&self) -> RawFd {
        // SAFETY: the library's struct, which lives until it is closed.
        unsafe { self.made.as_ref() }.async_fd
    }
}

impl Card {
    /// What becomes readable when something has happened.
    pub fn descriptors(&self) -> [BorrowedFd<'_>; 3] {
        let Opened { context, channel, .. } = self.opened();
        // SAFETY: the context's own, which lives as long as it does, and the card keeps that; so does the channel's.
        let [device, queues] = [context.fd(), channel.fd()].map(|fd| unsafe { BorrowedFd::borrow_raw(fd) });
        [device, queues, self.told.mailbox.bell.as_fd()]
    }

    /// From here on news of `object` comes as [`Event::Queue`] with that number.
    pub(super) fn listen(&self, object: NonNull<mlx5dv_devx_obj>, number: u64) -> Result<(), String> {
        let mut events = OF_QUEUES.map(|(event, _)| event);
        // SAFETY: the object lives, and both arguments say how long the list is.
        let result = unsafe {
            (self.functions().mlx5dv_devx_subscribe_devx_event)(
                self.opened().channel.made.as_ptr(),
                object.as_ptr(),
                size_of_val(&events) as u16,
                events.as_mut_ptr(),
                number,
            )
        };
        if result == 0 { Ok(()) } else { Err(why("mlx5dv_devx_subscribe_devx_event", result)) }
    }

    /// The next thing that has happened; None: nothing has.
    pub fn event(&self) -> Option<Event> {
        self.opened().hand_out();
        self.told.mailbox.take()
    }
}

impl Opened {
    /// All that has happened goes to those whom it concerns, in order: one at a time does this.
    fn hand_out(&self) {
        let mut mailboxes = self.mailboxes.lock();
        while let Some(event) = self.news_of_queues().or_else(|| self.news_of_device()) {
            mailboxes.put(event);
        }
    }

    /// It has said that it works no more: also if nobody has looked since.
    pub fn is_over(&self) -> bool {
        self.hand_out();
        self.mailboxes.lock().over
    }

    fn news_of_queues(&self) -> Option<Event> {
        let mut told = MaybeUninit::<Written>::zeroed();
        // SAFETY: it writes at most those bytes.
        let n = unsafe {
            (self.channel.functions.mlx5dv_devx_get_event)(
                self.channel.made.as_ptr(),
                told.as_mut_ptr().cast(),
                size_of::<Written>(),
            )
        };
        if n < size_of::<u64>() as isize {
            return None;
        }
        // SAFETY: all bits are values of it, and all were written or are zero.
        let Written { cookie, eqe } = unsafe { told.assume_init() };
        let words = OF_QUEUES.iter().find(|(event, _)| *event == eqe[TYPE].into()).map_or("an event", |(_, words)| words);
        Some(Event::Queue(cookie, eqe[TYPE], words))
    }

    fn news_of_device(&self) -> Option<Event> {
        let mut event = MaybeUninit::<ibv_async_event>::zeroed();
        // SAFETY: it writes at most the struct.
        if unsafe { (self.context.functions.ibv_get_async_event)(self.context.made.as_ptr(), event.as_mut_ptr()) } != 0 {
            return None;
        }
        // SAFETY: written just now. Whoever gets one has to say so, or the library waits where what it is about is destroyed.
        let event = unsafe {
            (self.context.functions.ibv_ack_async_event)(event.as_mut_ptr());
            event.assume_init()
        };
        let number = event.element as i32;
        Some(match event.event_type {
            IBV_EVENT_PORT_ACTIVE => Event::Port { number, up: true },
            IBV_EVENT_PORT_ERR => Event::Port { number, up: false },
            IBV_EVENT_DEVICE_FATAL => Event::Device,
            other => Event::Other(other),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_joined_is_told_and_nobody_joins_what_is_over() {
        let boxes = [(); 3].map(|()| Arc::new(Mailbox::new().unwrap()));
        let mut all = Mailboxes::default();
        let taken = || boxes.each_ref().map(|mailbox| std::iter::from_fn(|| mailbox.take()).collect::<Vec<_>>());
        let down = Event::Port { number: 1, up: false };
        all.put(down);
        all.join(boxes[0].clone()).unwrap();
        all.join(boxes[1].clone()).unwrap();
        let queue = Event::Queue(boxes[1].of(7), 5, "fatal");
        [down, queue, Event::Device].into_iter().for_each(|event| all.put(event));
        assert!(all.join(boxes[2].clone()).unwrap_err().contains("opens it anew"));
        assert_eq!(taken(), [vec![down, Event::Device], vec![down, queue, Event::Device], vec![]]);
    }
}
