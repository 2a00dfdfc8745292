//! libfabric's objects, each closed once, and their calls with Rust's types. One thread at a time calls all of one [`Net`], which
//! is what FI_THREAD_DOMAIN asks for.

use super::endpoint::Endpoint;
use super::failure::Failure;
use super::listen::Request;
use super::provider::{Info, Traits, cookie};
use super::rdm::Rdm;
use super::sys::*;
use crate::error::{Code, Error, Result};
use crate::sync::{Mutex, MutexGuard};
use rustix::process::{Resource, getrlimit};
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, RawFd};
use std::sync::Arc;

/// Most bytes of data that come with a connection; verbs has the least.
pub(super) const SAID: usize = 48;
/// Completions that a queue has room for at the least.
const LEAST: usize = 512;
/// Completions read at once.
const BATCH: usize = 32;

/// A provider's domain with one queue of completions; and one of events, or the endpoint that needs none.
pub(super) struct Net {
    pub traits: Traits,
    pub info: Info,
    pub fabric: *mut fid_fabric,
    pub domain: *mut fid_domain,
    pub cq: *mut fid_cq,
    pub eq: *mut fid_eq,
    pub own: Option<Mutex<Rdm>>,
}

// SAFETY: the objects belong to no thread; that only one calls them at a time is the transport's rule.
unsafe impl Send for Net {}
// SAFETY: the same.
unsafe impl Sync for Net {}

/// Something that was posted has ended, or a peer has written.
pub(super) struct Ended {
    /// The number that it was posted with; 0 for a peer's write that took no receive.
    pub cookie: u64,
    pub bytes: usize,
    /// Of a peer's write.
    pub data: Option<u64>,
    /// None: well.
    pub error: Option<Failure>,
}

/// Something has happened to a connection.
pub(super) enum Event {
    /// Somebody asks for one.
    Asks {
        request: Request,
        said: Vec<u8>,
    },
    Connected {
        link: u64,
        said: Vec<u8>,
    },
    /// The other end has gone.
    Shut {
        link: u64,
    },
    /// It never came to be.
    Refused {
        link: u64,
        why: String,
        /// There is no way to its machine, or that does not answer.
        away: bool,
    },
}

impl Net {
    /// For messages of at most `message` bytes, connections with `queue` places each way if they count, and so many unread completions.
    pub fn open(mut info: Info, message: usize, queue: Option<usize>, completions: usize) -> Result<Arc<Self>> {
        queue.into_iter().for_each(|queue| info.set_queues(queue));
        let traits = info.traits();
        let mut net = Self {
            traits,
            fabric: std::ptr::null_mut(),
            domain: std::ptr::null_mut(),
            cq: std::ptr::null_mut(),
            eq: std::ptr::null_mut(),
            own: None,
            info,
        };
        // SAFETY: each object is made from the one before it, checked; drop closes those that there are.
        unsafe {
            let attr = (*net.info.raw()).fabric_attr;
            let result = (net.info.library().fi_fabric)(attr, &mut net.fabric, std::ptr::null_mut());
            net.check("fi_fabric", result)?;
            let fabric = &*(*net.fabric).ops;
            if !net.traits.rdm {
                let mut events = fi_eq_attr { size: 256, wait_obj: FI_WAIT_FD, ..std::mem::zeroed() };
                let result = (fabric.eq_open)(net.fabric, &mut events, &mut net.eq, std::ptr::null_mut());
                net.check("fi_eq_open", result)?;
            }
            let result = (fabric.domain)(net.fabric, net.info.raw(), &mut net.domain, std::ptr::null_mut());
            net.check("fi_domain", result)?;
            let open = (*(*net.domain).ops).cq_open;
            let mut queue =
                fi_cq_attr { size: completions, format: FI_CQ_FORMAT_DATA, wait_obj: FI_WAIT_FD, ..std::mem::zeroed() };
            let mut result = open(net.domain, &mut queue, &mut net.cq, std::ptr::null_mut());
            if result != 0 && net.traits.rdm {
                // Nothing to wait on: it is looked at.
                (queue.wait_obj, net.traits.wakes) = (FI_WAIT_NONE, false);
                result = open(net.domain, &mut queue, &mut net.cq, std::ptr::null_mut());
            }
            // A card has a limit of its own, which no attribute tells. Links are made as they are used: seldom all.
            while result != 0 && queue.size > LEAST {
                queue.size /= 2;
                result = open(net.domain, &mut queue, &mut net.cq, std::ptr::null_mut());
            }
            net.check("fi_cq_open", result)?;
            if net.traits.rdm && net.traits.wakes {
                net.traits.wakes = net.descriptors().is_ok();
            }
        }
        if net.traits.rdm {
            net.open_rdm(message)?;
        }
        Ok(Arc::new(net))
    }

    /// The endpoint, where there is one for all links.
    pub fn rdm(&self) -> Option<MutexGuard<'_, Rdm>> {
        self.own.as_ref().map(Mutex::lock)
    }

    pub fn check(&self, call: &str, result: c_int) -> Result<()> {
        if result == 0 { Ok(()) } else { Err(self.failed(call, result as isize)) }
    }

    #[cold]
    pub fn failed(&self, call: &str, result: isize) -> Error {
        let locked = getrlimit(Resource::Memlock).current.map_or("unlimited".into(), |bytes| format!("{bytes} bytes"));
        let fix = match -result as c_int {
            libc::EAFNOSUPPORT => {
                "this machine has no address of the peer's family: give it one, or set NCCL_SOCKET_FAMILY on all ranks to one that all have".into()
            }
            _ => format!(
                "see the reason; `ulimit -n` and `ulimit -l` ({locked}) are the usual ones; GINRS_OFI_PROVIDER takes another provider"
            ),
        };
        let text = format!(
            "libfabric fails | provider {} on {}, {call} | {} | fix: {fix}",
            self.traits.name,
            self.traits.device,
            self.explain(result as i64)
        );
        Error::new(Code::SystemError, 121, text)
    }

    pub fn explain(&self, error: i64) -> String {
        self.info.library().explain(error)
    }

    /// Readable when there may be something to do, after [`Self::arm`] said so.
    pub fn descriptors(&self) -> Result<Vec<BorrowedFd<'_>>> {
        let fd = |fid: *mut fid| {
            let mut fd: RawFd = -1;
            // SAFETY: a live object that was opened with a descriptor to wait on.
            let result = unsafe { ((*(*fid).ops).control)(fid, FI_GETWAIT, (&raw mut fd).cast()) };
            self.check("FI_GETWAIT", result)?;
            // SAFETY: it is open as long as the object, which goes with self.
            Ok(unsafe { BorrowedFd::borrow_raw(fd) })
        };
        self.queues().into_iter().map(fd).collect()
    }

    /// What can be waited on.
    fn queues(&self) -> Vec<*mut fid> {
        let queues = if self.traits.wakes { vec![self.cq.cast(), self.eq.cast()] } else { Vec::new() };
        queues.into_iter().filter(|queue: &*mut fid| !queue.is_null()).collect()
    }

    /// True if it may be slept on the descriptors.
    pub fn arm(&self) -> bool {
        let mut queues = self.queues();
        let still = self.traits.wakes && self.rdm().is_none_or(|rdm| rdm.is_still());
        // SAFETY: live objects; the call keeps none of the pointers.
        still && unsafe { ((*(*self.fabric).ops).trywait)(self.fabric, queues.as_mut_ptr(), queues.len() as c_int) == 0 }
    }

    /// What has ended, handed to `each`; how many, or how much else has moved.
    pub fn completions(&self, mut each: impl FnMut(Ended)) -> Result<usize> {
        let Some(mut rdm) = self.rdm() else {
            return self.entries(|entry, error| {
                let data = (entry.flags & FI_REMOTE_CQ_DATA != 0 && error.is_none()).then_some(entry.data);
                each(Ended { cookie: entry.op_context.addr() as u64, bytes: entry.len, data, error });
            });
        };
        let mut moved = self.entries(|entry, error| rdm.ended(entry, error))? + usize::from(rdm.tend());
        while let Some(ended) = rdm.next_ready() {
            each(ended);
            moved += 1;
        }
        Ok(moved)
    }

    /// The queue's entries, with their errors.
    pub fn entries(&self, mut each: impl FnMut(&fi_cq_data_entry, Option<Failure>)) -> Result<usize> {
        let mut entries = [const { MaybeUninit::<fi_cq_data_entry>::uninit() }; BATCH];
        // SAFETY: room for so many entries of the format that the queue was opened with.
        let count = unsafe { ((*(*self.cq).ops).read)(self.cq, entries.as_mut_ptr().cast(), entries.len()) };
        if count == -EAGAIN || count == 0 {
            return Ok(0);
        }
        if count == -EAVAIL {
            // SAFETY: all of it may be zero; the call fills it in.
            let mut entry: fi_cq_err_entry = unsafe { std::mem::zeroed() };
            // SAFETY: room for an entry of this and later versions.
            let read = unsafe { ((*(*self.cq).ops).readerr)(self.cq, &mut entry, 0) };
            if read == -EAGAIN {
                return Ok(0);
            }
            if read < 0 {
                return Err(self.failed("fi_cq_readerr", read));
            }
            let (op_context, flags) = (entry.op_context, entry.flags);
            each(
                &fi_cq_data_entry { op_context, flags, len: 0, buf: std::ptr::null_mut(), data: 0 },
                Some(Failure { error: entry.err, own: entry.prov_errno }),
            );
            return Ok(1);
        }
        if count < 0 {
            return Err(self.failed("fi_cq_read", count));
        }
        // SAFETY: the call has filled in so many.
        entries[..count as usize].iter().for_each(|entry| each(unsafe { entry.assume_init_ref() }, None));
        Ok(count as usize)
    }

    /// The next event of a connection.
    pub fn event(&self) -> Result<Option<Event>> {
        if let Some(mut rdm) = self.rdm() {
            return Ok(rdm.next_event());
        }
        #[repr(C)]
        struct Room {
            entry: fi_eq_cm_entry,
            said: [u8; 4 * SAID],
        }
        // SAFETY: all of it may be zero; the call fills in what there is.
        let (mut kind, mut room): (u32, Room) = unsafe { (0, std::mem::zeroed()) };
        // SAFETY: the room is as large as it says.
        let read = unsafe { ((*(*self.eq).ops).read)(self.eq, &mut kind, (&raw mut room).cast(), size_of::<Room>(), 0) };
        if read == -EAGAIN {
            return Ok(None);
        }
        if read == -EAVAIL {
            return self.refusal();
        }
        if read < 0 {
            return Err(self.failed("fi_eq_read", read));
        }
        let bytes = (read as usize).saturating_sub(size_of::<fi_eq_cm_entry>()).min(room.said.len());
        let said = room.said[..bytes].to_vec();
        // SAFETY: of these events, which come of our objects while they live, the entry has the object.
        let link = || unsafe { (*room.entry.fid).context.addr() as u64 };
        Ok(match kind {
            FI_CONNREQ => {
                // SAFETY: the request's info is ours.
                let info = unsafe { Info::own(room.entry.info, self.info.library()) };
                Some(Event::Asks { request: Request::Msg { info, place: link() as usize }, said })
            }
            FI_CONNECTED => Some(Event::Connected { link: link(), said }),
            FI_SHUTDOWN => Some(Event::Shut { link: link() }),
            _ => None,
        })
    }

    fn refusal(&self) -> Result<Option<Event>> {
        // SAFETY: all of it may be zero; the call fills it in.
        let mut entry: fi_eq_err_entry = unsafe { std::mem::zeroed() };
        // SAFETY: live queue, room for an entry.
        let read = unsafe { ((*(*self.eq).ops).readerr)(self.eq, &mut entry, 0) };
        if read < 0 || entry.fid.is_null() {
            return Ok(None);
        }
        // SAFETY: an error of one of our objects, which live as long as their events can come.
        let link = unsafe { (*entry.fid).context.addr() as u64 };
        let away = is_away(-entry.err) || entry.err == libc::ETIMEDOUT;
        Ok(Some(Event::Refused { link, why: self.explain(entry.err.into()), away }))
    }

    /// An endpoint whose events bear `link`, to be connected to `address`; or why this machine has no way there for now.
    pub fn caller(self: &Arc<Self>, address: &[u8], link: u64) -> Result<Way<Endpoint>> {
        if self.traits.rdm {
            return self.line(address, None, link).map(Ok);
        }
        let to = self.info.to(address, self.traits.sockets).ok_or_else(|| self.failed("fi_dupinfo", -(libc::ENOMEM as isize)))?;
        match self.open_endpoint(&to, link) {
            Err(result) if is_away(result) => Ok(Err(self.explain(result.into()))),
            opened => self.bound(opened).map(Ok),
        }
    }

    /// An endpoint whose events bear `link`, out of somebody's request.
    pub fn called(self: &Arc<Self>, request: &Request, link: u64) -> Result<Endpoint> {
        match request {
            Request::Msg { info, .. } => self.bound(self.open_endpoint(info, link)),
            _ => {
                let (theirs, key, address) = request.parts().unwrap_or_default();
                self.line(address, Some((theirs, key)), link)
            }
        }
    }

    /// A part of the endpoint that serves all links.
    fn line(self: &Arc<Self>, address: &[u8], asks: Option<(u32, u64)>, link: u64) -> Result<Endpoint> {
        let mut rdm = self.rdm().expect("an endpoint for all");
        let peer = rdm.peer(address).ok_or_else(|| self.failed("fi_av_insert", -(libc::EINVAL as isize)))?;
        rdm.open(link as u32, peer, asks)?;
        drop(rdm);
        Ok(Endpoint::over_rdm(self.clone(), link as u32))
    }

    fn open_endpoint(self: &Arc<Self>, info: &Info, link: u64) -> std::result::Result<Endpoint, c_int> {
        let mut ep = std::ptr::null_mut();
        // SAFETY: a live domain and info; the endpoint is owned from here.
        match unsafe { ((*(*self.domain).ops).endpoint)(self.domain, info.raw(), &mut ep, cookie(link)) } {
            // SAFETY: it was made a moment ago.
            0 => Ok(unsafe { Endpoint::own(self.clone(), ep) }),
            result => Err(result),
        }
    }

    /// One that can be connected.
    fn bound(&self, opened: std::result::Result<Endpoint, c_int>) -> Result<Endpoint> {
        let endpoint = opened.map_err(|result| self.failed("fi_endpoint", result as isize))?;
        let ep = endpoint.raw();
        // SAFETY: it lives, and so do the queues.
        unsafe {
            let (fid, ops) = (&raw mut (*ep).fid, &*(*ep).fid.ops);
            self.check("fi_ep_bind", (ops.bind)(fid, &raw mut (*self.eq).fid, 0))?;
            self.check("fi_ep_bind", (ops.bind)(fid, &raw mut (*self.cq).fid, FI_TRANSMIT | FI_RECV))?;
            self.check("fi_enable", (ops.control)(fid, FI_ENABLE, std::ptr::null_mut()))?;
        }
        Ok(endpoint)
    }
}

impl Net {
    /// Where an endpoint is.
    ///
    /// # Safety
    /// `cm` are the operations of the live endpoint `fid`.
    pub unsafe fn name(&self, fid: *mut fid, cm: *const fi_ops_cm) -> Result<Vec<u8>> {
        let mut address = [0u8; 128];
        let mut bytes = address.len();
        // SAFETY: the caller's; room as it says.
        let result = unsafe { ((*cm).getname)(fid, address.as_mut_ptr().cast(), &mut bytes) };
        self.check("fi_getname", result)?;
        Ok(address[..bytes.min(address.len())].to_vec())
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        // What stands on it holds a reference, so nothing does any more.
        self.shut();
        self.own = None;
        for fid in [self.cq.cast::<fid>(), self.domain.cast(), self.eq.cast(), self.fabric.cast()] {
            close(fid);
        }
    }
}

/// Something, or why this machine has no way to a network now.
pub(super) type Way<T> = std::result::Result<T, String>;

/// Whether libfabric says with `result` that this machine has no way to a network, or no address in it. A route that is a `blackhole` gives
/// EINVAL, `prohibit` EACCES; what else is meant by those does not pass, and is told with its reason when it has lasted.
pub(super) fn is_away(result: c_int) -> bool {
    use libc::*;
    matches!(-result, ENETUNREACH | EHOSTUNREACH | ENETDOWN | EADDRNOTAVAIL | EINVAL | EACCES)
}

pub(super) fn close(fid: *mut fid) {
    if !fid.is_null() {
        // SAFETY: each object begins with its fid, and its owner closes it once.
        unsafe { ((*(*fid).ops).close)(fid) };
    }
}
