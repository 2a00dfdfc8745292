//! Which of libfabric's providers carries, and why not the others.

use super::library::{Functions, library};
use super::starting;
use super::sys::*;
use super::wire::MESSAGE;
use crate::config;
use crate::sync::{Mutex, PerProcess};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::{CStr, CString, c_int, c_void};
use std::net::IpAddr;

/// In order of preference: cards, then Ethernet. `net` is what 1.17 calls the provider that later versions have as `tcp`.
const ORDER: [&str; 5] = ["verbs", "efa", "cxi", "net", "tcp"];
/// Those whose links are sockets of the system, alone or under another (`tcp;ofi_rxm`): nothing that libfabric says tells.
const SOCKETS: [&str; 4] = ["net", "tcp", "udp", "sockets"];

/// What libfabric says of a provider, an address and its limits; owned.
pub(super) struct Info {
    raw: *mut fi_info,
    library: &'static Functions,
}

// SAFETY: plain data on the heap, which only its owner touches.
unsafe impl Send for Info {}
// SAFETY: the same; methods that write take it by `&mut`.
unsafe impl Sync for Info {}

impl Info {
    /// Takes over what libfabric has given.
    ///
    /// # Safety
    /// `raw` is a live fi_info that nobody else frees.
    pub unsafe fn own(raw: *mut fi_info, library: &'static Functions) -> Self {
        Self { raw, library }
    }

    pub fn raw(&self) -> *mut fi_info {
        self.raw
    }

    pub fn library(&self) -> &'static Functions {
        self.library
    }

    fn copy(&self) -> Option<Self> {
        // SAFETY: a copy of a live info, which is checked.
        let raw = unsafe { (self.library.fi_dupinfo)(self.raw) };
        (!raw.is_null()).then_some(Self { raw, library: self.library })
    }

    /// The same for a connection to `address`, as the peer said it; over sockets from where the system has a way there: the address that others
    /// come by may be on another network than that.
    pub fn to(&self, address: &[u8], sockets: bool) -> Option<Self> {
        let copy = self.copy()?;
        // SAFETY: the copy's own.
        unsafe {
            let info = &mut *copy.raw;
            replace(&mut info.dest_addr, &mut info.dest_addrlen, address)?;
            if sockets {
                replace(&mut info.src_addr, &mut info.src_addrlen, &[])?;
            }
        }
        Some(copy)
    }

    /// The same to listen at another `address` of this machine, of its family.
    pub fn at(&self, address: IpAddr) -> Option<Self> {
        let copy = self.copy()?;
        // SAFETY: the copy's own.
        unsafe {
            let info = &mut *copy.raw;
            replace(&mut info.src_addr, &mut info.src_addrlen, &sockaddr(address))?;
        }
        Some(copy)
    }

    /// Where a request comes from.
    pub fn from(&self) -> &[u8] {
        // SAFETY: an address of so many bytes, or none; it lives as long as the info.
        unsafe {
            let info = &*self.raw;
            if info.dest_addr.is_null() { &[] } else { std::slice::from_raw_parts(info.dest_addr.cast(), info.dest_addrlen) }
        }
    }

    /// Queues of a connection have so many places each way, not as many as the provider likes: 384 of verbs', for each of which its queue
    /// of completions keeps room.
    pub fn set_queues(&mut self, places: usize) {
        // SAFETY: fi_getinfo fills in all attributes; this one's own.
        unsafe {
            (*(*self.raw).tx_attr).size = places;
            (*(*self.raw).rx_attr).size = places;
        }
    }

    pub fn traits(&self) -> Traits {
        // SAFETY: fi_getinfo fills in all attributes.
        unsafe {
            let (info, domain, ep) = (&*self.raw, &*(*self.raw).domain_attr, &*(*self.raw).ep_attr);
            let name = CStr::from_ptr((*info.fabric_attr).prov_name).to_string_lossy().into_owned();
            let rdm = ep.kind == FI_EP_RDM;
            let order = FI_ORDER_WAW | FI_ORDER_SAW | FI_ORDER_SAS;
            Traits {
                device: CStr::from_ptr(domain.name).to_string_lossy().into_owned(),
                rdm,
                ordered: (*info.tx_attr).msg_order & (*info.rx_attr).msg_order & order == order,
                marks: domain.cq_data_size,
                writes: true,
                wakes: true,
                bind: domain.mr_mode & FI_MR_ENDPOINT != 0,
                enable: domain.mr_mode & (FI_MR_ENDPOINT | FI_MR_RMA_EVENT) != 0,
                keys: u64::MAX >> (64 - 8 * domain.mr_key_size.clamp(1, 8)),
                most: ep.max_msg_size as u64,
                local: domain.mr_mode & FI_MR_LOCAL != 0,
                addresses: domain.mr_mode & FI_MR_VIRT_ADDR != 0,
                wide: rdm || domain.cq_data_size >= 8,
                receives: info.mode & FI_RX_CQ_DATA != 0,
                inject: if rdm { usize::MAX } else { (*info.tx_attr).inject_size },
                internet: [FI_SOCKADDR_IN, FI_SOCKADDR_IN6].contains(&info.addr_format),
                sockets: name.split(';').any(|part| SOCKETS.contains(&part)),
                name,
            }
        }
    }
}

impl Drop for Info {
    fn drop(&mut self) {
        // SAFETY: `own`'s caller gave it away.
        unsafe { (self.library.fi_freeinfo)(self.raw) };
    }
}

/// How a provider wants it.
#[derive(Clone, Debug)]
pub(super) struct Traits {
    pub name: String,
    /// A network interface or card.
    pub device: String,
    /// One endpoint serves all links (FI_EP_RDM); else each link is a connection.
    pub rdm: bool,
    /// A message comes behind the writes and messages before it.
    pub ordered: bool,
    /// Bytes of data that may come with a write, if any do.
    pub marks: usize,
    /// A target can learn that a write has landed. If not, all goes in messages.
    pub writes: bool,
    /// There is something to wait on.
    pub wakes: bool,
    /// Registered memory is bound to the endpoint; and has to be enabled.
    pub bind: bool,
    pub enable: bool,
    /// Which bits of a key it takes.
    pub keys: u64,
    /// Most bytes of a write or a message.
    pub most: u64,
    /// What is sent lies in registered memory, too.
    pub local: bool,
    /// Writes name virtual addresses of the target, not offsets.
    pub addresses: bool,
    /// What a target is told of a write has 8 bytes; else 4.
    pub wide: bool,
    /// A write with data takes a receive at the target.
    pub receives: bool,
    /// Its connections are sockets of the system.
    pub sockets: bool,
    /// Its addresses are those of IP.
    pub internet: bool,
    /// A message of at most so many bytes is copied by the call that sends it, and nothing completes.
    pub inject: usize,
}

/// By address and GINRS_OFI_PROVIDER.
type Answers = HashMap<(IpAddr, Option<String>), Info>;
static ANSWERS: PerProcess<Mutex<Answers>> = PerProcess::new();

/// The first that can, on the interface that has `address`; or why none. libfabric is asked once for all ranks of the process.
pub(super) fn choose(address: IpAddr) -> Result<Info, String> {
    let mut answers = ANSWERS.get(Mutex::default).lock();
    let info = match answers.entry((address, config::text("GINRS_OFI_PROVIDER"))) {
        Entry::Occupied(known) => known.into_mut(),
        Entry::Vacant(place) => place.insert(ask_all(address)?),
    };
    info.copy().ok_or_else(|| "no memory".into())
}

fn ask_all(address: IpAddr) -> Result<Info, String> {
    library().as_ref().map_err(Clone::clone)?;
    match config::text("GINRS_OFI_PROVIDER") {
        Some(name) => among(&[&name], address).map_err(|why| format!("{why}; GINRS_OFI_PROVIDER allows no other: unset it")),
        None => among(&ORDER, address),
    }
}

/// The same of `names`: with connections if it has them.
pub(super) fn among(names: &[&str], address: IpAddr) -> Result<Info, String> {
    let library = library().as_ref().map_err(Clone::clone)?;
    let mut refused = Vec::new();
    for name in names {
        let why = match ask(library, name, address, FI_EP_MSG) {
            Ok(info) => return Ok(info),
            Err(why) => why,
        };
        match ask(library, name, address, FI_EP_RDM) {
            Ok(info) => return Ok(info),
            Err(other) if why == other => refused.push(format!("{name}: {why}")),
            Err(other) => refused.push(format!("{name}: with connections {why}, without {other}")),
        }
    }
    Err(format!("libfabric has no provider for {address}: {}", refused.join("; ")))
}

fn ask(library: &'static Functions, name: &str, address: IpAddr, kind: c_int) -> Result<Info, String> {
    let found = look(library, name, Some(address), kind);
    if kind == FI_EP_MSG || found.is_ok() {
        return found;
    }
    // Some cards have addresses of their own kind; one with an IP address is on another interface than was asked for.
    let other = look(library, name, None, kind).map_err(|_| found.as_ref().err().cloned().unwrap_or_default())?;
    // SAFETY: a live info.
    let format = unsafe { (*other.raw).addr_format };
    if [FI_SOCKADDR_IN, FI_SOCKADDR_IN6].contains(&format) { found } else { Ok(other) }
}

fn look(library: &'static Functions, name: &str, address: Option<IpAddr>, kind: c_int) -> Result<Info, String> {
    let Ok(provider) = CString::new(name) else { return Err("a name with a zero byte".into()) };
    let mut found = std::ptr::null_mut();
    // The address goes as it is: for a text libfabric asks getaddrinfo, whose lock a child of fork may find held for ever.
    // SAFETY: hints come from libfabric with all attributes; their name and address are of malloc, as those that fi_freeinfo frees.
    let error = unsafe {
        let hints = (library.fi_dupinfo)(std::ptr::null());
        if hints.is_null() {
            return Err("no memory".into());
        }
        let hints = Info::own(hints, library);
        let raw = &mut *hints.raw;
        raw.caps = FI_MSG | FI_RMA;
        let domain = &mut *raw.domain_attr;
        domain.mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
        if kind == FI_EP_MSG {
            raw.mode = FI_RX_CQ_DATA;
            let order = FI_ORDER_WAW | FI_ORDER_SAW | FI_ORDER_SAS;
            ((*raw.tx_attr).msg_order, (*raw.rx_attr).msg_order) = (order, order);
            domain.cq_data_size = 4;
        } else {
            // One that only reaches this machine (shm) is none; 1.17's crashes when it sends to a process that has gone.
            raw.caps |= FI_REMOTE_COMM;
            raw.mode = FI_CONTEXT | FI_CONTEXT2;
            domain.mr_mode |= FI_MR_ENDPOINT | FI_MR_RMA_EVENT;
            domain.resource_mgmt = FI_RM_ENABLED;
        }
        (*raw.ep_attr).kind = kind;
        (*raw.fabric_attr).prov_name = libc::strdup(provider.as_ptr());
        domain.threading = FI_THREAD_DOMAIN;
        (domain.control_progress, domain.data_progress) = (FI_PROGRESS_MANUAL, FI_PROGRESS_MANUAL);
        if let Some(address) = address {
            let source = sockaddr(address);
            let place = libc::malloc(source.len());
            if place.is_null() {
                return Err("no memory".into());
            }
            std::ptr::copy_nonoverlapping(source.as_ptr(), place.cast(), source.len());
            (raw.src_addr, raw.src_addrlen) = (place, source.len());
            raw.addr_format = if address.is_ipv4() { FI_SOCKADDR_IN } else { FI_SOCKADDR_IN6 };
        }
        starting::ask(|| (library.fi_getinfo)(VERSION, std::ptr::null(), std::ptr::null(), 0, hints.raw, &mut found))
    };
    if error != 0 || found.is_null() {
        return Err(library.explain(error.into()));
    }
    // SAFETY: fi_getinfo's results are the caller's.
    let info = unsafe { Info::own(found, library) };
    let most = info.traits().most;
    if most < (2 * MESSAGE) as u64 {
        return Err(format!("its messages have {most} bytes at most"));
    }
    Ok(info)
}

/// Puts `address` in the place of another one, none where it is empty; None where there is no memory.
///
/// # Safety
/// `at` is null or of malloc, as those that fi_freeinfo frees, and nobody else's.
unsafe fn replace(at: &mut *mut c_void, bytes: &mut usize, address: &[u8]) -> Option<()> {
    let mut place = std::ptr::null_mut();
    // SAFETY: the caller's; the new one is of malloc, too, with room for all of it.
    unsafe {
        if !address.is_empty() {
            place = libc::malloc(address.len());
            if place.is_null() {
                return None;
            }
            std::ptr::copy_nonoverlapping(address.as_ptr(), place.cast(), address.len());
        }
        libc::free(*at);
    }
    (*at, *bytes) = (place, address.len());
    Some(())
}

/// A sockaddr_in or sockaddr_in6 without a port.
fn sockaddr(address: IpAddr) -> Vec<u8> {
    let family = |family: i32| (family as u16).to_ne_bytes();
    match address {
        IpAddr::V4(v4) => [&family(libc::AF_INET)[..], &[0; 2], &v4.octets(), &[0; 8]].concat(),
        IpAddr::V6(v6) => [&family(libc::AF_INET6)[..], &[0; 6], &v6.octets(), &[0; 4]].concat(),
    }
}

/// For calls that want a pointer to give back: a number.
pub(super) fn cookie(number: u64) -> *mut c_void {
    std::ptr::without_provenance_mut(number as usize)
}
