//! A card that was opened: what it can, who its port is, and how things are made on it.

use super::commands::{self, Global, Path, QueuePair};
use super::events::Channel;
use super::library::{Functions, library};
use super::made::{Memory, Page, Queue, Registered, Spot, Umem};
use super::port::{Opened, Port};
use super::prm::bytes;
use super::sys::*;
use super::wishes::Wishes;
use crate::info;
use crate::sync::pid;
use std::ffi::{CStr, c_void};
use std::os::fd::AsRawFd;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What the next queue of this process is told apart by.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// A card's smallest.
const PAGE: u64 = 4096;

/// Memory that a card could not be told of: by its address, and before by a DMA-BUF.
fn untold(by_address: &str, bytes: usize, no_descriptor: &str) -> String {
    let fix = if by_address.contains("fix: ") {
        ""
    } else {
        " | fix: of a GPU's memory, modprobe nvidia-peermem or open kernel modules of the driver"
    };
    format!("{bytes:#x} bytes, not as a DMA-BUF: {no_descriptor}; by their address: {by_address}{fix}")
}

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

/// In which order what a card writes to a memory is seen there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// In that in which it was written: whoever sees a signal sees what came before it.
    Strict,
    /// In any, unless NCCL_IB_PCI_RELAXED_ORDERING is 0: payloads, behind which a signal comes that is strict.
    AsWished,
}

/// An mlx5 device that was opened for commands.
pub struct Card {
    // Before the context that it is of.
    pub(super) channel: Channel,
    opened: Opened,
    pub(super) functions: &'static Functions,
    name: String,
    pub(super) context: NonNull<ibv_context>,
    domain: NonNull<ibv_pd>,
    domain_number: u32,
    port: Port,
    wishes: Wishes,
    times: u8,
    /// Number of the queue of events that completion queues name, though none is ever asked for.
    events: u32,
    /// Whose it is: a forked child has it open, too, and makes and ends nothing on it.
    owner: u32,
}

// SAFETY: verbs may be called by any thread; the pointers are the library's and go with the card.
unsafe impl Send for Card {}
// SAFETY: as above.
unsafe impl Sync for Card {}

impl Card {
    /// The device of that name, or the first that can be used, as `wishes` say. Err: why not, and of several why each.
    pub fn open(name: Option<&str>, wishes: &Wishes) -> Result<Arc<Self>, String> {
        let functions = library().as_ref()?;
        let list = List::new(functions)?;
        let mut refused = Vec::new();
        for (found, device) in list.all() {
            if name.is_some_and(|name| name != found) {
                continue;
            }
            match Self::of_device(functions, &found, device, wishes) {
                Ok(card) => return Ok(Arc::new(card)),
                Err(why) => refused.push(format!("{found}: {why}")),
            }
        }
        match (refused.is_empty(), name) {
            (false, _) => Err(refused.join("; ")),
            (true, Some(name)) => Err(format!("verbs have no device {name} | fix: one that ginrs-info --why lists")),
            (true, None) => Err(NONE.into()),
        }
    }

    fn of_device(functions: &'static Functions, name: &str, device: *mut ibv_device, wishes: &Wishes) -> Result<Self, String> {
        // SAFETY: a device of the list, which lives.
        if !unsafe { (functions.mlx5dv_is_supported)(device) } {
            return Err("not an mlx5 device, the only kind whose queues kernels can fill".into());
        }
        let mut attributes = mlx5dv_context_attr { flags: MLX5DV_CONTEXT_FLAGS_DEVX, comp_mask: 0 };
        // SAFETY: as above; the attributes are read.
        let context = NonNull::new(unsafe { (functions.mlx5dv_open_device)(device, &mut attributes) })
            .ok_or_else(|| why("it does not open for commands (DEVX)", 0))?;
        // From here on drop closes it.
        let mut card = Opened { functions, context, domain: None, forgotten: false };
        let can = card.command("QUERY_HCA_CAP", &commands::query_capabilities(false), bytes::CAPABILITY_OUT)?;
        let lacks = commands::lacks(&can);
        if !lacks.is_empty() {
            return Err(format!("the card has no {}", lacks.join(", no ")));
        }
        let port = card.port(name, wishes)?;
        let times = match port.ethernet {
            true => {
                commands::times(&card.command("QUERY_HCA_CAP", &commands::query_capabilities(true), bytes::CAPABILITY_OUT)?)
            }
            false => 0,
        };
        let mut events = 0;
        // SAFETY: the context lives; it writes the number.
        let result = unsafe { (functions.mlx5dv_devx_query_eqn)(context.as_ptr(), 0, &mut events) };
        if result != 0 {
            return Err(why("mlx5dv_devx_query_eqn", result));
        }
        // SAFETY: the context lives.
        let domain = NonNull::new(unsafe { (functions.ibv_alloc_pd)(context.as_ptr()) }).ok_or_else(|| why("ibv_alloc_pd", 0))?;
        card.domain = Some(domain);
        let mut said = mlx5dv_pd::default();
        init(functions, MLX5DV_OBJ_PD, domain.as_ptr().cast(), (&raw mut said).cast())?;
        let (name, domain_number, owner, wishes) = (name.into(), said.pdn, pid(), wishes.clone());
        let channel = Channel::new(functions, context)?;
        Ok(Self { channel, opened: card, functions, name, context, domain, domain_number, port, wishes, times, events, owner })
    }

    pub(super) fn wishes(&self) -> &Wishes {
        &self.wishes
    }

    /// False in a forked child: what was made stays its parent's.
    pub(super) fn is_ours(&self) -> bool {
        self.owner == pid()
    }

    /// As verbs call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Is that the port that its queues are on?
    pub fn is_port(&self, number: i32) -> bool {
        i32::from(self.port.number) == number
    }

    /// For people.
    pub fn describe(&self) -> String {
        let Port { number, ethernet, lid, mtu, .. } = self.port;
        let (kind, at) = match ethernet {
            true => ("Ethernet (RoCE)", format!("address {} of its table", self.port.index)),
            false => ("InfiniBand", format!("lid {lid:#x}")),
        };
        format!("port {number}, {kind}, packets of {} bytes, {at}", 128u32 << mtu)
    }

    /// How a peer reaches queue pair `number` of this card, as 32 bytes that [`Self::path`] reads on the peer's side.
    pub fn address(&self, number: u32) -> [u8; 32] {
        let mut bytes = [0; 32];
        bytes[..16].copy_from_slice(&self.port.gid);
        bytes[16..20].copy_from_slice(&number.to_le_bytes());
        bytes[20..22].copy_from_slice(&self.port.lid.to_le_bytes());
        bytes[22] = self.port.mtu;
        bytes[23] = self.port.ethernet.into();
        bytes
    }

    /// The way to what a peer's [`Self::address`] says.
    pub fn path(&self, peer: &[u8; 32]) -> Result<Path, String> {
        let gid: [u8; 16] = peer[..16].try_into().expect("16 bytes");
        let (number, lid) =
            (u32::from_le_bytes(peer[16..20].try_into().expect("4 bytes")), u16::from_le_bytes([peer[20], peer[21]]));
        if (peer[23] != 0) != self.port.ethernet {
            return Err("one card is on Ethernet and the other on InfiniBand | fix: GINRS_NIC names cards of one network".into());
        }
        let (port, mtu, level) = (self.port.number, self.port.mtu.min(peer[22]), self.wishes.level);
        let mut path = Path { number, port, mtu, lid, global: None, level };
        if self.port.ethernet {
            path.lid = 0;
            let mac = Some(self.next_hop(gid)?);
            path.global = Some(Global { gid, source: self.port.index, class: self.wishes.class, mac });
        }
        Ok(path)
    }

    /// The hardware address that packets to `gid` go to, which the system finds by its own tables.
    fn next_hop(&self, gid: [u8; 16]) -> Result<[u8; 6], String> {
        let (dgid, &Wishes { class, level, .. }) = (ibv_gid { raw: gid }, &self.wishes);
        let grh =
            ibv_global_route { dgid, sgid_index: self.port.index, hop_limit: 255, traffic_class: class, ..Default::default() };
        let mut attributes = ibv_ah_attr { grh, sl: level, is_global: 1, port_num: self.port.number, ..Default::default() };
        // SAFETY: the domain lives; the attributes are read.
        let handle = unsafe { (self.functions.ibv_create_ah)(self.domain.as_ptr(), &mut attributes) };
        if handle.is_null() {
            return Err(why(&format!("no way to {} (ibv_create_ah)", std::net::Ipv6Addr::from(gid)), 0));
        }
        let mut said = mlx5dv_ah { av: null_mut(), comp_mask: 0 };
        let found = init(self.functions, MLX5DV_OBJ_AH, handle.cast(), (&raw mut said).cast()).map(|()| {
            // SAFETY: the handle's own, which lives until it is destroyed below.
            unsafe { (*said.av).rmac }
        });
        // SAFETY: made above, and nobody else's.
        unsafe { (self.functions.ibv_destroy_ah)(handle) };
        found
    }

    /// Registers `bytes` from `start` on of `memory`: behind its keys the first has address `first`, and the order is that.
    pub fn register(
        self: &Arc<Self>,
        memory: &Memory,
        start: usize,
        bytes: usize,
        (first, order): (u64, Order),
    ) -> Result<Registered, String> {
        let part = memory.part(start, bytes)?;
        if !(part.at.addr() as u64 ^ first).is_multiple_of(PAGE) {
            // A card maps pages, so an address lies where it lies in its page.
            return Err(format!(
                "memory at {:p} cannot have address {first:#x}: another place in a page | fix: NCCL_GIN_SIGNAL_POOL_SIZE a multiple of 512",
                part.at
            ));
        }
        let relaxed = if order == Order::AsWished && self.wishes.relaxed { IBV_ACCESS_RELAXED_ORDERING } else { 0 };
        let peers = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
        let access = IBV_ACCESS_LOCAL_WRITE | peers | relaxed;
        let by_descriptor = match (part.descriptor, self.functions.ibv_reg_dmabuf_mr) {
            (Ok(fd), Some(register)) => {
                // SAFETY: a DMA-BUF that has those bytes; the card's driver keeps it as long as the result.
                let made = unsafe { register(self.domain.as_ptr(), start as u64, bytes, first, fd.as_raw_fd(), access) };
                NonNull::new(made).ok_or_else(|| why("ibv_reg_dmabuf_mr", 0))
            }
            (found, _) => Err(found.err().map_or_else(|| "libibverbs has no ibv_reg_dmabuf_mr".into(), String::from)),
        };
        let made = by_descriptor.or_else(|no_descriptor| {
            // SAFETY: the range is there as long as `memory`, which the result keeps. The host's, or a GPU's that a driver knows.
            let made = unsafe { (self.functions.ibv_reg_mr_iova2)(self.domain.as_ptr(), part.at, bytes, first, access as u32) };
            NonNull::new(made).ok_or_else(|| untold(&why("ibv_reg_mr_iova2", 0), bytes, &no_descriptor))
        })?;
        Ok(Registered { made, card: self.clone(), _memory: memory.clone() })
    }

    /// Memory that queues may be made over.
    pub fn umem(self: &Arc<Self>, memory: &Memory, start: usize, bytes: usize) -> Result<Arc<Umem>, String> {
        let (part, access, context) = (memory.part(start, bytes)?, IBV_ACCESS_LOCAL_WRITE as u32, self.context.as_ptr());
        let by_descriptor = match (part.descriptor, self.functions.mlx5dv_devx_umem_reg_ex) {
            (Ok(fd), Some(register)) => {
                let mut of = mlx5dv_devx_umem_in {
                    addr: std::ptr::without_provenance_mut(start),
                    size: bytes,
                    access,
                    // Pages of any size from 4 KiB on.
                    pgsz_bitmap: !(PAGE - 1),
                    comp_mask: MLX5DV_UMEM_MASK_DMABUF,
                    dmabuf_fd: fd.as_raw_fd(),
                };
                // SAFETY: as in `register`.
                NonNull::new(unsafe { register(context, &mut of) }).ok_or_else(|| why("mlx5dv_devx_umem_reg_ex", 0))
            }
            (found, _) => Err(found.err().map_or_else(|| "libmlx5 has no mlx5dv_devx_umem_reg_ex".into(), String::from)),
        };
        let made = by_descriptor.or_else(|no_descriptor| {
            // SAFETY: as in `register`.
            let made = unsafe { (self.functions.mlx5dv_devx_umem_reg)(context, part.at, bytes, access) };
            NonNull::new(made).ok_or_else(|| untold(&why("mlx5dv_devx_umem_reg", 0), bytes, &no_descriptor))
        })?;
        Ok(Arc::new(Umem { made, card: self.clone(), _memory: memory.clone() }))
    }

    /// A page whose stores ring doorbells.
    pub fn page(self: &Arc<Self>) -> Result<Arc<Page>, String> {
        // SAFETY: the context lives.
        let made = unsafe { (self.functions.mlx5dv_devx_alloc_uar)(self.context.as_ptr(), MLX5DV_UAR_ALLOC_TYPE_NC) };
        let made = NonNull::new(made).ok_or_else(|| why("mlx5dv_devx_alloc_uar", 0))?;
        Ok(Arc::new(Page { made, card: self.clone() }))
    }

    /// A completion queue of `1 << log_entries` entries at `entries`, its record at `record`.
    pub fn completions(
        self: &Arc<Self>,
        page: &Arc<Page>,
        log_entries: u32,
        [entries, record]: [Spot; 2],
    ) -> Result<Arc<Queue>, String> {
        let command = commands::create_cq(log_entries, entries.place(), record.place(), page.number(), self.events);
        self.make("CREATE_CQ", &command, ([entries.umem, record.umem], page.clone(), None))
    }

    /// A queue pair whose elements are at `ring` and its record at `record`; `waits`: it may hold WAIT elements.
    pub fn pair(
        self: &Arc<Self>,
        page: &Arc<Page>,
        completions: &Arc<Queue>,
        (log_depth, waits): (u32, bool),
        [ring, record]: [Spot; 2],
    ) -> Result<Arc<Queue>, String> {
        let (domain, times) = (self.domain_number, self.times);
        let places = (ring.place(), record.place());
        let pair = QueuePair {
            domain,
            page: page.number(),
            completions: completions.number,
            log_depth,
            ring: places.0,
            record: places.1,
            waits,
            times,
        };
        self.make("CREATE_QP", &commands::create_qp(&pair), ([ring.umem, record.umem], page.clone(), Some(completions.clone())))
    }

    fn make(
        self: &Arc<Self>,
        what: &'static str,
        command: &[u8],
        on: ([Arc<Umem>; 2], Arc<Page>, Option<Arc<Queue>>),
    ) -> Result<Arc<Queue>, String> {
        let mut answer = commands::answer(bytes::SHORT);
        // SAFETY: both buffers are as long as said; the context lives.
        let made = unsafe {
            let (input, output) = (command.as_ptr().cast(), answer.as_mut_ptr().cast());
            (self.functions.mlx5dv_devx_obj_create)(self.context.as_ptr(), input, command.len(), output, answer.len())
        };
        let made = NonNull::new(made).ok_or_else(|| refused(what, 0, &answer))?;
        let (number, whose) = (commands::number(&answer), NEXT.fetch_add(1, Ordering::Relaxed));
        if let Err(why) = self.listen(made, whose) {
            info!(NET, "{what}: the card tells nothing of {number:#x}: {why}");
        }
        Ok(Arc::new(Queue { made, number, whose, card: self.clone(), _on: on }))
    }
}

impl Drop for Card {
    fn drop(&mut self) {
        // Everything that was made on it keeps it, so it has gone.
        self.opened.forgotten = !self.is_ours();
        self.channel.forgotten = !self.is_ours();
    }
}

/// What mlx5 has of the verbs object at `object`, of that kind, goes to `out`, which is of that kind, too.
fn init(functions: &Functions, kind: u64, object: *mut c_void, out: *mut c_void) -> Result<(), String> {
    let (none, pair) = (mlx5dv_pair { object: null_mut(), out: null_mut() }, mlx5dv_pair { object, out });
    let of = |wanted: u64| if kind == wanted { pair } else { none };
    let (ah, pd) = (of(MLX5DV_OBJ_AH), of(MLX5DV_OBJ_PD));
    let mut both = mlx5dv_obj { qp: none, cq: none, srq: none, rwq: none, dm: none, ah, pd };
    // SAFETY: of these the one of `kind` is read, and written to.
    let result = unsafe { (functions.mlx5dv_init_obj)(&mut both, kind) };
    if result == 0 { Ok(()) } else { Err(why("mlx5dv_init_obj", result)) }
}

fn refused(what: &str, result: i32, answer: &[u8]) -> String {
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
