//! A card as one communicator has it: which port it uses, and how things are made. The device is open once for all of them (`opened`).

use super::commands::{self, Global, Path, QueuePair};
use super::events::Told;
use super::library::Functions;
use super::made::{Memory, Page, Queue, Registered, Spot, Umem};
use super::opened::{self, Opened, refused, why};
use super::port::Port;
use super::prm::bytes;
use super::sys::*;
use super::wishes::Wishes;
use crate::info;
use std::ffi::c_void;
use std::os::fd::AsRawFd;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

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

/// In which order what a card writes to a memory is seen there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// In that in which it was written: whoever sees a signal sees what came before it.
    Strict,
    /// In any, unless NCCL_IB_PCI_RELAXED_ORDERING is 0: payloads, behind which a signal comes that is strict.
    AsWished,
}

/// Whose keys and queues go together: those of another domain are refused by the card.
struct Domain {
    made: NonNull<ibv_pd>,
    number: u32,
    opened: Arc<Opened>,
}

// SAFETY: verbs may be called by any thread; the pointer is the library's and goes with this.
unsafe impl Send for Domain {}
// SAFETY: as above.
unsafe impl Sync for Domain {}

impl Domain {
    fn new(opened: Arc<Opened>) -> Result<Self, String> {
        let (functions, context) = (opened.context.functions, opened.context.made.as_ptr());
        // SAFETY: the context lives.
        let made = NonNull::new(unsafe { (functions.ibv_alloc_pd)(context) }).ok_or_else(|| why("ibv_alloc_pd", 0))?;
        // From here on drop frees it.
        let mut domain = Self { made, number: 0, opened };
        let mut said = mlx5dv_pd::default();
        init(functions, MLX5DV_OBJ_PD, made.as_ptr().cast(), (&raw mut said).cast())?;
        domain.number = said.pdn;
        Ok(domain)
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        if self.opened.context.owner.is_here() {
            // SAFETY: everything that was made in it keeps it, so it has gone.
            unsafe { (self.opened.context.functions.ibv_dealloc_pd)(self.made.as_ptr()) };
        }
    }
}

/// What one rank of one communicator has of an mlx5 device: a domain, a port, and what it is told.
pub struct Card {
    domain: Domain,
    port: Port,
    wishes: Wishes,
    times: u8,
    pub(super) told: Told,
    /// Queues that were made.
    queues: AtomicU32,
}

impl Card {
    /// The device of that name, or the first that can be used, as `wishes` say. Err: why not, and of several why each.
    pub fn open(name: Option<&str>, wishes: &Wishes) -> Result<Arc<Self>, String> {
        opened::first(name, |opened| Self::on(opened, wishes).map(Arc::new))
    }

    /// The port is asked for each time: what it is called may have changed since the device was opened.
    fn on(opened: Arc<Opened>, wishes: &Wishes) -> Result<Self, String> {
        // First: what happens from here on is told.
        let told = Told::of(&opened)?;
        let port = opened.context.port(&opened.name, wishes)?;
        let asked = || opened.context.command("QUERY_HCA_CAP", &commands::query_capabilities(true), bytes::CAPABILITY_OUT);
        let times = if port.ethernet { commands::times(&asked()?) } else { 0 };
        let domain = Domain::new(opened)?;
        Ok(Self { domain, port, wishes: wishes.clone(), times, told, queues: AtomicU32::new(0) })
    }

    pub(super) fn opened(&self) -> &Opened {
        &self.domain.opened
    }

    pub(super) fn functions(&self) -> &'static Functions {
        self.opened().context.functions
    }

    fn context(&self) -> *mut ibv_context {
        self.opened().context.made.as_ptr()
    }

    pub(super) fn wishes(&self) -> &Wishes {
        &self.wishes
    }

    /// False in a forked child: what was made stays its parent's.
    pub(super) fn is_ours(&self) -> bool {
        self.opened().context.owner.is_here()
    }

    /// As verbs call it.
    pub fn name(&self) -> &str {
        &self.opened().name
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
        let handle = unsafe { (self.functions().ibv_create_ah)(self.domain.made.as_ptr(), &mut attributes) };
        if handle.is_null() {
            return Err(why(&format!("no way to {} (ibv_create_ah)", std::net::Ipv6Addr::from(gid)), 0));
        }
        let mut said = mlx5dv_ah { av: null_mut(), comp_mask: 0 };
        let found = init(self.functions(), MLX5DV_OBJ_AH, handle.cast(), (&raw mut said).cast()).map(|()| {
            // SAFETY: the handle's own, which lives until it is destroyed below.
            unsafe { (*said.av).rmac }
        });
        // SAFETY: made above, and nobody else's.
        unsafe { (self.functions().ibv_destroy_ah)(handle) };
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
        let by_descriptor = match (part.descriptor, self.functions().ibv_reg_dmabuf_mr) {
            (Ok(fd), Some(register)) => {
                // SAFETY: a DMA-BUF that has those bytes; the card's driver keeps it as long as the result.
                let made = unsafe { register(self.domain.made.as_ptr(), start as u64, bytes, first, fd.as_raw_fd(), access) };
                NonNull::new(made).ok_or_else(|| why("ibv_reg_dmabuf_mr", 0))
            }
            (found, _) => Err(found.err().map_or_else(|| "libibverbs has no ibv_reg_dmabuf_mr".into(), String::from)),
        };
        let made = by_descriptor.or_else(|no_descriptor| {
            // SAFETY: the range is there as long as `memory`, which the result keeps. The host's, or a GPU's that a driver knows.
            let made =
                unsafe { (self.functions().ibv_reg_mr_iova2)(self.domain.made.as_ptr(), part.at, bytes, first, access as u32) };
            NonNull::new(made).ok_or_else(|| untold(&why("ibv_reg_mr_iova2", 0), bytes, &no_descriptor))
        })?;
        Ok(Registered { made, card: self.clone(), _memory: memory.clone() })
    }

    /// Memory that queues may be made over.
    pub fn umem(self: &Arc<Self>, memory: &Memory, start: usize, bytes: usize) -> Result<Arc<Umem>, String> {
        let (part, access, context) = (memory.part(start, bytes)?, IBV_ACCESS_LOCAL_WRITE as u32, self.context());
        let by_descriptor = match (part.descriptor, self.functions().mlx5dv_devx_umem_reg_ex) {
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
            let made = unsafe { (self.functions().mlx5dv_devx_umem_reg)(context, part.at, bytes, access) };
            NonNull::new(made).ok_or_else(|| untold(&why("mlx5dv_devx_umem_reg", 0), bytes, &no_descriptor))
        })?;
        Ok(Arc::new(Umem { made, card: self.clone(), _memory: memory.clone() }))
    }

    /// A page whose stores ring doorbells.
    pub fn page(self: &Arc<Self>) -> Result<Arc<Page>, String> {
        // SAFETY: the context lives.
        let made = unsafe { (self.functions().mlx5dv_devx_alloc_uar)(self.context(), MLX5DV_UAR_ALLOC_TYPE_NC) };
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
        let command = commands::create_cq(log_entries, entries.place(), record.place(), page.number(), self.opened().events);
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
        let (domain, times) = (self.domain.number, self.times);
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
            (self.functions().mlx5dv_devx_obj_create)(self.context(), input, command.len(), output, answer.len())
        };
        let made = NonNull::new(made).ok_or_else(|| refused(what, 0, &answer))?;
        let number = commands::number(&answer);
        let whose = self.told.mailbox.of(self.queues.fetch_add(1, Ordering::Relaxed));
        if let Err(why) = self.listen(made, whose) {
            info!(NET, "{what}: the card tells nothing of {number:#x}: {why}");
        }
        Ok(Arc::new(Queue { made, number, whose, card: self.clone(), _on: on }))
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
