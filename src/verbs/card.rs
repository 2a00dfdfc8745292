//! A card that was opened: what it can, who its port is, and how things are made on it.

use super::commands::{self, Global, Path, QueuePair};
use super::library::{Functions, library};
use super::made::{Memory, Page, Queue, Registered, Umem};
use super::prm::bytes;
use super::sys::*;
use std::ffi::{CStr, c_void};
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

/// What errno says after a call that failed, or returned it.
fn why(what: &str, returned: i32) -> String {
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

/// A port that is up.
#[derive(Clone, Copy)]
struct Port {
    number: u8,
    ethernet: bool,
    lid: u16,
    mtu: u8,
    gid: [u8; 16],
    /// Which of the port's addresses that is.
    index: u8,
}

/// An mlx5 device that was opened for commands.
pub struct Card {
    pub(super) functions: &'static Functions,
    name: String,
    context: NonNull<ibv_context>,
    domain: NonNull<ibv_pd>,
    domain_number: u32,
    port: Port,
    times: u8,
    /// Number of the queue of events that completion queues name, though none is ever asked for.
    events: u32,
}

// SAFETY: verbs may be called by any thread; the pointers are the library's and go with the card.
unsafe impl Send for Card {}
// SAFETY: as above.
unsafe impl Sync for Card {}

impl Card {
    /// The device of that name, or the first that can be used. Err: why not, and of several why each.
    pub fn open(name: Option<&str>) -> Result<Arc<Self>, String> {
        let functions = library().as_ref()?;
        let list = List::new(functions)?;
        let mut refused = Vec::new();
        for (found, device) in list.all() {
            if name.is_some_and(|name| name != found) {
                continue;
            }
            match Self::of_device(functions, &found, device) {
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

    fn of_device(functions: &'static Functions, name: &str, device: *mut ibv_device) -> Result<Self, String> {
        // SAFETY: a device of the list, which lives.
        if !unsafe { (functions.mlx5dv_is_supported)(device) } {
            return Err("not an mlx5 device, the only kind whose queues kernels can fill".into());
        }
        let mut attributes = mlx5dv_context_attr { flags: MLX5DV_CONTEXT_FLAGS_DEVX, comp_mask: 0 };
        // SAFETY: as above; the attributes are read.
        let context = NonNull::new(unsafe { (functions.mlx5dv_open_device)(device, &mut attributes) })
            .ok_or_else(|| why("it does not open for commands (DEVX)", 0))?;
        // From here on drop closes it.
        let mut card = Opened { functions, context, domain: None };
        let can = card.command("QUERY_HCA_CAP", &commands::query_capabilities(false), bytes::CAPABILITY_OUT)?;
        let lacks = commands::lacks(&can);
        if !lacks.is_empty() {
            return Err(format!("the card has no {}", lacks.join(", no ")));
        }
        let port = card.port(name)?;
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
        // What it would close is the card's now.
        std::mem::forget(card);
        Ok(Self { functions, name: name.into(), context, domain, domain_number: said.pdn, port, times, events })
    }

    /// As verbs call it.
    pub fn name(&self) -> &str {
        &self.name
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
        let mut path = Path { number, port: self.port.number, mtu: self.port.mtu.min(peer[22]), lid, global: None, level: 0 };
        if self.port.ethernet {
            path.lid = 0;
            let mac = Some(self.next_hop(gid)?);
            path.global = Some(Global { gid, source: self.port.index, class: 0, mac });
        }
        Ok(path)
    }

    /// The hardware address that packets to `gid` go to, which the system finds by its own tables.
    fn next_hop(&self, gid: [u8; 16]) -> Result<[u8; 6], String> {
        let grh =
            ibv_global_route { dgid: ibv_gid { raw: gid }, sgid_index: self.port.index, hop_limit: 255, ..Default::default() };
        let mut attributes = ibv_ah_attr { grh, is_global: 1, port_num: self.port.number, ..Default::default() };
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

    /// Registers a part of `memory`: addresses behind its keys are counted from `start`.
    pub fn register(self: &Arc<Self>, memory: &Memory, start: usize, bytes: usize) -> Result<Registered, String> {
        let at = memory.part(start, bytes)?;
        let access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
        // SAFETY: the range is mapped as long as `memory`, which the result keeps.
        let made = unsafe { (self.functions.ibv_reg_mr_iova2)(self.domain.as_ptr(), at, bytes, 0, access as u32) };
        let made = NonNull::new(made).ok_or_else(|| why(&format!("ibv_reg_mr_iova2 of {bytes:#x} bytes"), 0))?;
        Ok(Registered { made, card: self.clone(), _memory: memory.clone() })
    }

    /// Memory that queues may be made over.
    pub fn umem(self: &Arc<Self>, memory: &Memory, start: usize, bytes: usize) -> Result<Arc<Umem>, String> {
        let at = memory.part(start, bytes)?;
        // SAFETY: as in `register`.
        let made =
            unsafe { (self.functions.mlx5dv_devx_umem_reg)(self.context.as_ptr(), at, bytes, IBV_ACCESS_LOCAL_WRITE as u32) };
        let made = NonNull::new(made).ok_or_else(|| why(&format!("mlx5dv_devx_umem_reg of {bytes:#x} bytes"), 0))?;
        Ok(Arc::new(Umem { made, card: self.clone(), _memory: memory.clone() }))
    }

    /// A page whose stores ring doorbells.
    pub fn page(self: &Arc<Self>) -> Result<Arc<Page>, String> {
        // SAFETY: the context lives.
        let made = unsafe { (self.functions.mlx5dv_devx_alloc_uar)(self.context.as_ptr(), MLX5DV_UAR_ALLOC_TYPE_NC) };
        let made = NonNull::new(made).ok_or_else(|| why("mlx5dv_devx_alloc_uar", 0))?;
        Ok(Arc::new(Page { made, card: self.clone() }))
    }

    /// A completion queue of `1 << log_entries` entries at `entries` of `umem`, its record at `record`.
    pub fn completions(
        self: &Arc<Self>,
        umem: &Arc<Umem>,
        page: &Arc<Page>,
        log_entries: u32,
        at: [u64; 2],
    ) -> Result<Arc<Queue>, String> {
        let [entries, record] = at.map(|at| umem.at(at));
        let command = commands::create_cq(log_entries, entries, record, page.number(), self.events);
        self.make("CREATE_CQ", &command, umem, page, None)
    }

    /// A queue pair whose elements are at `at[0]` of `umem` and its record at `at[1]`; `waits`: it may hold WAIT elements.
    pub fn pair(
        self: &Arc<Self>,
        umem: &Arc<Umem>,
        page: &Arc<Page>,
        completions: &Arc<Queue>,
        (log_depth, waits): (u32, bool),
        at: [u64; 2],
    ) -> Result<Arc<Queue>, String> {
        let [ring, record] = at.map(|at| umem.at(at));
        let (domain, times) = (self.domain_number, self.times);
        let pair =
            QueuePair { domain, page: page.number(), completions: completions.number, log_depth, ring, record, waits, times };
        self.make("CREATE_QP", &commands::create_qp(&pair), umem, page, Some(completions.clone()))
    }

    fn make(
        self: &Arc<Self>,
        what: &'static str,
        command: &[u8],
        umem: &Arc<Umem>,
        page: &Arc<Page>,
        completions: Option<Arc<Queue>>,
    ) -> Result<Arc<Queue>, String> {
        let mut answer = commands::answer(bytes::SHORT);
        // SAFETY: both buffers are as long as said; the context lives.
        let made = unsafe {
            let (input, output) = (command.as_ptr().cast(), answer.as_mut_ptr().cast());
            (self.functions.mlx5dv_devx_obj_create)(self.context.as_ptr(), input, command.len(), output, answer.len())
        };
        let made = NonNull::new(made).ok_or_else(|| refused(what, 0, &answer))?;
        let number = commands::number(&answer);
        Ok(Arc::new(Queue { made, number, card: self.clone(), _on: (umem.clone(), page.clone(), completions) }))
    }
}

impl Drop for Card {
    fn drop(&mut self) {
        // SAFETY: everything that was made on them keeps the card, so it has gone.
        unsafe {
            (self.functions.ibv_dealloc_pd)(self.domain.as_ptr());
            (self.functions.ibv_close_device)(self.context.as_ptr());
        }
    }
}

/// A card that is being asked what it can.
struct Opened<'a> {
    functions: &'a Functions,
    context: NonNull<ibv_context>,
    domain: Option<NonNull<ibv_pd>>,
}

impl Opened<'_> {
    fn command(&self, what: &'static str, command: &[u8], bytes: usize) -> Result<Vec<u8>, String> {
        let mut answer = commands::answer(bytes);
        // SAFETY: both buffers are as long as said; the context lives.
        let result = unsafe {
            let (input, output) = (command.as_ptr().cast(), answer.as_mut_ptr().cast());
            (self.functions.mlx5dv_devx_general_cmd)(self.context.as_ptr(), input, command.len(), output, answer.len())
        };
        done(what, result, answer)
    }

    /// The first port that is up.
    fn port(&self, name: &str) -> Result<Port, String> {
        // mlx5 devices have one or two.
        for number in 1..=2 {
            let mut port = ibv_port_attr::default();
            // SAFETY: it writes at most the struct; the context lives.
            let result = unsafe { (self.functions.ibv_query_port)(self.context.as_ptr(), number, &mut port) };
            if result != 0 || port.state != IBV_PORT_ACTIVE {
                continue;
            }
            let ethernet = port.link_layer == IBV_LINK_LAYER_ETHERNET;
            let (index, gid) = self.address(name, number, port.gid_tbl_len, ethernet)?;
            return Ok(Port { number, ethernet, lid: port.lid, mtu: port.active_mtu as u8, gid, index });
        }
        Err("no port of it is up | fix: look at ibv_devinfo, and at the cable".into())
    }

    /// The address that the port speaks with: RoCE v2's over IPv4 if it has one, else RoCE v2's, else the first.
    fn address(&self, name: &str, port: u8, n: i32, ethernet: bool) -> Result<(u8, [u8; 16]), String> {
        let gid = |index: i32| {
            let mut gid = ibv_gid::default();
            // SAFETY: it writes 16 bytes; the context lives.
            let result = unsafe { (self.functions.ibv_query_gid)(self.context.as_ptr(), port, index, &mut gid) };
            (result == 0 && gid.raw != [0; 16]).then_some((index as u8, gid.raw))
        };
        let kind = |index: u8| {
            let path = format!("/sys/class/infiniband/{name}/ports/{port}/gid_attrs/types/{index}");
            std::fs::read_to_string(path).unwrap_or_default()
        };
        let all: Vec<(u8, [u8; 16])> = (0..n.min(256)).filter_map(gid).collect();
        let rank = |(index, gid): &&(u8, [u8; 16])| match ethernet && kind(*index).trim() == "RoCE v2" {
            true if gid[..12] == [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff] => 0,
            true => 1,
            false => 2,
        };
        all.iter()
            .min_by_key(rank)
            .copied()
            .ok_or_else(|| format!("port {port} has no address | fix: give its interface an IP address"))
    }
}

impl Drop for Opened<'_> {
    fn drop(&mut self) {
        // SAFETY: nothing else stands on them.
        unsafe {
            if let Some(domain) = self.domain {
                (self.functions.ibv_dealloc_pd)(domain.as_ptr());
            }
            (self.functions.ibv_close_device)(self.context.as_ptr());
        }
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
