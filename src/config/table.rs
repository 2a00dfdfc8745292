//! The table of variables, and the names of NCCL's that have no effect here.

/// What a variable holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number, with its default.
    Int(i64),
    /// Any text; unset by default.
    Text,
    /// Text that no log may show.
    Secret,
}

/// One variable.
#[derive(Debug)]
pub struct Var {
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// What it does, in a line.
    pub doc: &'static str,
}

const fn int(name: &'static str, default: i64, doc: &'static str) -> Var {
    Var { name, kind: Kind::Int(default), doc }
}

const fn text(name: &'static str, doc: &'static str) -> Var {
    Var { name, kind: Kind::Text, doc }
}

/// Default of a number that has none.
const UNSET: i64 = i32::MIN as i64;

/// Every variable that is read, by area.
pub const TABLE: &[Var] = &[
    text("NCCL_DEBUG", "log level: NONE, VERSION, WARN, INFO, ABORT or TRACE; unset: warnings only, on stderr"),
    text(
        "NCCL_DEBUG_SUBSYS",
        "subsystems whose INFO lines are printed, comma-separated; ^ in front: all but these; default INIT,BOOTSTRAP,ENV",
    ),
    text("NCCL_DEBUG_FILE", "file for log lines; %h is the host name, %p the process id"),
    text(
        "NCCL_DEBUG_TIMESTAMP_FORMAT",
        "strftime format before a line, %Nf for N digits of the second's fraction; default \"[%F %T] \"",
    ),
    text("NCCL_DEBUG_TIMESTAMP_LEVELS", "levels that get a timestamp, comma-separated; ^ in front: all but these; default WARN"),
    int("NCCL_WARN_ENABLE_DEBUG_INFO", 0, "1: the first warning switches the level to INFO"),
    text("NCCL_CONF_FILE", "settings file instead of ~/.nccl.conf; /etc/nccl.conf is read after it"),
    text("NCCL_COMM_ID", "fixed meeting point \"127.0.0.1:port\" instead of a random one; this host only in this version"),
    text("NCCL_HOSTID", "name of the LSA node of this process, instead of host name and boot id"),
    int("NCCL_COMM_BLOCKING", UNSET, "overrides config.blocking: 0 or 1"),
    int("NCCL_CGA_CLUSTER_SIZE", UNSET, "overrides config.cgaClusterSize, at most 8; kept: collectives launch no clusters"),
    int("NCCL_MIN_CTAS", UNSET, "overrides config.minCTAs, at most 64: blocks of a collective, at least, where it can"),
    int("NCCL_MAX_CTAS", UNSET, "overrides config.maxCTAs, at most 64: blocks of a launch; unset: a quarter of the GPU"),
    text("NCCL_NET", "overrides config.netName; no effect here"),
    int("NCCL_COMM_SPLIT_SHARE_RESOURCES", UNSET, "overrides config.splitShare; no effect here: a child always has its own"),
    int("NCCL_COMM_SHRINK_SHARE_RESOURCES", UNSET, "overrides config.shrinkShare; no effect here: a child always has its own"),
    int("NCCL_COLLNET_ENABLE", UNSET, "overrides config.collnetEnable; no effect here"),
    int("NCCL_CTA_POLICY", UNSET, "overrides config.CTAPolicy, 0 to 2; no effect here"),
    int("NCCL_NCHANNELS_PER_NET_PEER", UNSET, "overrides config.nChannelsPerNetPeer, 1 to 64; no effect here"),
    int("NCCL_NVLINK_UTIL_CENTRIC_SCHED_ENABLE", UNSET, "overrides config.nvlinkCentricSched; no effect here"),
    int("NCCL_WIN_ENABLE", 1, "0: windows and device communicators are refused"),
    int("NCCL_WIN_STRIDE", -1, "bytes of address space per LSA rank, rounded up to 4 GiB; -1 or 0: chosen"),
    int(
        "NCCL_NVLS_ENABLE",
        2,
        "multicast memory for device communicators that ask for it: 0 refused, 2 where the device says that it has it, else also where it does not",
    ),
    int("NCCL_LOCAL_REGISTER", 1, "0: under NCCL_WIN_ENABLE=0 a window is NULL instead of a local handle"),
    int("NCCL_GIN_ENABLE", 1, "0: GIN is refused"),
    int("NCCL_GIN_TYPE", -1, "-1 chosen, 2 proxy; 3 (GDAKI) is refused in this version"),
    text(
        "NCCL_GIN_BACKEND",
        "who carries out GIN's puts: proxy, direct (the kernels, all compiled with our headers, where all ranks reach each other's \
         memory), or auto: direct for a program compiled with GINRS_GIN_DIRECT, where it can be, else proxy",
    ),
    int(
        "GINRS_DIRECT_LARGEST",
        512 << 10,
        "bytes of a put up to which a kernel copies itself in direct contexts; above, the copy engine",
    ),
    int("NCCL_GIN_NCONTEXTS", 4, "GIN contexts per communicator, 1 to 4"),
    int("NCCL_GIN_SIGNAL_POOL_SIZE", 65536, "signals per context"),
    int("NCCL_GIN_COUNTER_POOL_SIZE", 65536, "counters per context"),
    int("NCCL_GIN_PROXY_QUEUE_SIZE", -1, "descriptors per queue, a power of two; -1: chosen by the number of ranks"),
    int(
        "NCCL_IGNORE_CPU_AFFINITY",
        0,
        "1: the proxy thread's core is chosen near its GPU without regard to this process's affinity mask",
    ),
    int("GINRS_INIT_TIMEOUT", 120, "seconds until a communicator must have all its ranks"),
    int("GINRS_TIMEOUT", 300, "seconds until a collective host step must be done by all ranks"),
    int("GINRS_WAIT_WARN", 10, "seconds between lines that say who is missing; 0: none"),
    text("GINRS_FAKE_NODES", "LSA node of each rank, as 0,0,1,1, or per-rank: several nodes on one host, for tests"),
    text(
        "GINRS_FAKE_REACH",
        "as GINRS_FAKE_NODES: GPUs of ranks with different names count as out of each other's reach, for tests",
    ),
    text(
        "GINRS_TRANSPORT",
        "what carries GIN's puts: auto, loopback, shm, nvlink (the device's copy engine) or staged (through host memory)",
    ),
    text(
        "GINRS_COLLECTIVE",
        "how collectives move their bytes: auto, ll, direct, buffered or staged, for tests and benchmarks, also with a grid, as direct:32 or \
         ll:8x128 (blocks x threads); a way that a call cannot take is auto for that call (docs/collectives.md)",
    ),
    text(
        "GINRS_KERNELS",
        "file with the collectives' GPU kernels (scripts/build-kernels.sh gpu FILE) instead of those in the library, for one that was \
         built without nvcc",
    ),
    Var { name: "GINRS_SECRET", kind: Kind::Secret, doc: "secret that ranks prove to each other under NCCL_COMM_ID" },
    text("GINRS_DEVICE", "cpu or cuda; unset: cpu where the stand-in CUDA runtime is in the process, else cuda"),
    int(
        "GINRS_SHARE_DEVICE",
        0,
        "1: several ranks of a communicator may be on one GPU, for tests; their kernels must fit on it together",
    ),
    text(
        "CUDA_MODULE_LOADING",
        "read by CUDA; set to EAGER when the library is loaded, unless it is set: a kernel that is loaded at its first launch \
         waits for running kernels, and these may wait for the proxy's copies, which wait for the load",
    ),
    text("GINRS_FAULT", "panic:ncclX: that function panics, to test that it returns ncclInternalError"),
    int("GINRS_CPU_DEVICES", 0, "devices that a process sees on the CPU device; 0: LOCAL_WORLD_SIZE, else 8"),
    int("GINRS_CPU_RESIDENT", 512, "blocks that run at the same time on a CPU device, 1 to 4096 (read by libginrs_cpu)"),
    text("GINRS_CPU_STACK", "bytes of a CUDA thread's stack on the CPU device, 16K to 64M; default 64K (read by libginrs_cpu)"),
    int("GINRS_CPU_STACK_GUARD", 0, "1: a page without access below each of those stacks (read by libginrs_cpu)"),
    text("GINRS_CXX", "host compiler of ginrs-cc; default g++"),
    int("LOCAL_RANK", 0, "device of a process that never chose one, where no CUDA runtime is linked (set by launchers)"),
    int("LOCAL_WORLD_SIZE", 0, "processes on this host (set by launchers)"),
];

/// NCCL's other variables, without the prefix: known, without effect here, so no warning.
const OTHERS: &str = "ALGO ALLOC_P2P_NET_LL_BUFFERS BUFFSIZE CHECK_POINTERS CHECKS_DISABLE CHUNK_SIZE \
    COLLNET_NODE_THRESHOLD CREATE_THREAD_CONTEXT CROSS_NIC CUMEM_ENABLE \
    CUMEM_HOST_ENABLE DMABUF_ENABLE ENV_PLUGIN GDR_FLUSH_DISABLE GDRCOPY_ENABLE GDRCOPY_FIFO_ENABLE GDRCOPY_FLUSH_ENABLE \
    GDRCOPY_SYNC_ENABLE GIN_ERROR_QUERY_SEC GIN_GDAKI_NIC_HANDLER GIN_GDAKI_QP_DEPTH GIN_PLUGIN GRAPH_DUMP_FILE GRAPH_FILE GRAPH_MIXING_SUPPORT \
    GRAPH_REGISTER IB_ADAPTIVE_ROUTING IB_ADDR_FAMILY IB_ADDR_RANGE IB_AR_THRESHOLD IB_CUDA_SUPPORT IB_DATA_DIRECT IB_DISABLE IB_ECE_ENABLE \
    IB_FIFO_TC IB_GID_INDEX IB_HCA IB_MERGE_NICS IB_MERGE_VFS IB_MQP_RETRY_ALL IB_MQP_RETRY_CNT IB_MQP_RETRY_SLEEP_MSEC \
    IB_PCI_RELAXED_ORDERING IB_PKEY IB_QPS_PER_CONNECTION IB_RETRY_CNT IB_RETURN_ASYNC_EVENTS IB_ROCE_VERSION_NUM IB_ROUTABLE_FLID_GID_INDEX \
    IB_SL IB_SPLIT_DATA_ON_QPS IB_TC IB_TIMEOUT IB_USE_INLINE IB_WARN_RAIL_LOCAL IGNORE_DISABLED_P2P L1_SHARED_MEMORY_CARVEOUT \
    LAUNCH_MODE LAUNCH_ORDER_IMPLICIT LL_BUFFSIZE LL128_BUFFSIZE MAX_NCHANNELS MAX_NRINGS MAX_P2P_NCHANNELS \
    MIN_NCHANNELS MIN_NRINGS MIN_P2P_NCHANNELS MNNVL_CLIQUE_ID MNNVL_ENABLE MNNVL_RAIL_PER_HOST MNNVL_SCATTER_NETS_ENABLE MNNVL_UUID \
    NET_DISABLE_INTRA NET_FORCE_FLUSH NET_FORCE_MERGE NET_GDR_C2C NET_GDR_LEVEL NET_GDR_READ NET_MERGE_LEVEL \
    NET_PLUGIN NET_PLUGIN_REF_COUNT NET_SHARED_BUFFERS NET_SHARED_COMMS NETDEVS_POLICY NSOCKS_PERTHREAD NTHREADS NVB_DISABLE \
    NVLS_CHUNKSIZE NVLS_NCHANNELS NVLSTREE_MAX_CHUNKSIZE OOB_NET_ENABLE OOB_NET_IFNAME P2P_DIRECT_DISABLE P2P_DISABLE P2P_LEVEL \
    P2P_LL_THRESHOLD P2P_NET_CHUNKSIZE P2P_NVL_CHUNKSIZE P2P_PCI_CHUNKSIZE P2P_READ_ENABLE P2P_USE_CUDA_MEMCPY PROFILER_PLUGIN \
    PROGRESS_APPENDOP_FREQ PROTO PROXY_CPUSET PROXY_DUMP_SIGNAL PXN_C2C PXN_DISABLE RAS_ADDR RAS_ENABLE RAS_TIMEOUT_FACTOR RUNTIME_CONNECT \
    SET_CPU_STACK_SIZE SET_STACK_SIZE SET_THREAD_NAME SHM_DISABLE SHM_LOCALITY SHM_USE_CUDA_MEMCPY SHM_MEMCPY_MODE SINGLE_PROC_MEM_REG_ENABLE \
    SINGLE_RING_THRESHOLD SOCKET_FAMILY SOCKET_IFNAME SOCKET_INLINE SOCKET_MIN_TASKSIZE SOCKET_NTHREADS SOCKET_RCVBUF SOCKET_RETRY_CNT \
    SOCKET_RETRY_SLEEP_MSEC SOCKET_SNDBUF SYM_CTAS SYM_KERNEL THREAD_THRESHOLDS TOPO_DUMP_FILE TOPO_DUMP_FILE_RANK TOPO_FILE TUNER_CONFIG_FILE \
    TUNER_PLUGIN UID_STAGGER_RATE UID_STAGGER_THRESHOLD UNPACK_DOUBLE_NCHANNELS WORK_ARGS_BYTES WORK_FIFO_BYTES HOME INCLUDE_DIR LIB LIB_DIR LIBRARY ROOT ROOT_DIR \
    VERSION";

/// Variables of the CPU device and of the tools, which read them themselves.
const TOOLS: &[&str] = &["GINRS_PREFIX", "GINRS_BOOTSTRAP_TIMEOUT"];

pub(super) fn find(name: &str) -> Option<&'static Var> {
    TABLE.iter().find(|var| var.name == name)
}

/// Read by us, by our tools, or a variable of NCCL's without effect here.
pub(super) fn known(name: &str) -> bool {
    let other = name.strip_prefix("NCCL_").is_some_and(|name| OTHERS.split_whitespace().any(|other| other == name));
    other
        || find(name).is_some()
        || TOOLS.iter().any(|tool| name.starts_with(tool))
        || name.starts_with("GINRS_RUN_")
        || name.starts_with("GINRS_TEST_")
        || name.starts_with("GINRS_MOCK_")
}

/// The known name that a typing error turned into `name`, if one is near.
pub(super) fn nearest(name: &str) -> Option<String> {
    let ours = TABLE.iter().map(|var| var.name.to_owned());
    let all = ours
        .chain(TOOLS.iter().map(|tool| (*tool).to_owned()))
        .chain(OTHERS.split_whitespace().map(|other| format!("NCCL_{other}")));
    let (distance, near) = all.map(|known| (typing_distance(name.as_bytes(), known.as_bytes()), known)).min()?;
    (distance <= 1 + name.len() / 8).then_some(near)
}

/// Letters to add, drop, change or swap with their neighbour until `a` is `b`.
fn typing_distance(a: &[u8], b: &[u8]) -> usize {
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    rows[0] = (0..=b.len()).collect();
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let change = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = change.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = least;
        }
    }
    rows[a.len()][b.len()]
}

/// docs/environment.md.
#[cfg(test)]
pub(super) fn page() -> String {
    let mut page = String::from(
        "# Environment variables\n\nGenerated from src/config/table.rs (`BLESS=1 cargo test -p ginrs --lib config::`): do not edit.\n\n\
         The environment wins over the file that NCCL_CONF_FILE names (else ~/.nccl.conf), which wins over /etc/nccl.conf. Lines there are\n\
         NAME=VALUE, with # comments. Numbers may be decimal, 0x.. or 0.. (octal). An empty value counts as unset. A name that starts with\n\
         NCCL_ or GINRS_ and is not known gets one warning. NCCL's variables that are not listed are accepted and have no effect.\n\n\
         | name | default | meaning |\n|---|---|---|\n",
    );
    for var in TABLE {
        let default = match var.kind {
            Kind::Int(n) if n == i64::from(i32::MIN) => "unset".into(),
            Kind::Int(n) => n.to_string(),
            Kind::Text | Kind::Secret => "unset".into(),
        };
        page += &format!("| {} | {default} | {} |\n", var.name, var.doc);
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_once_and_typing_errors_find_them() {
        for (i, var) in TABLE.iter().enumerate() {
            assert!(TABLE[..i].iter().all(|other| other.name != var.name), "{} stands twice", var.name);
            assert!(
                !var.name.strip_prefix("NCCL_").is_some_and(|n| OTHERS.split_whitespace().any(|o| o == n)),
                "{} is also in OTHERS",
                var.name
            );
        }
        assert_eq!(nearest("NCCL_DEBGU").as_deref(), Some("NCCL_DEBUG"));
        assert_eq!(nearest("GINRS_TIMEOUTS").as_deref(), Some("GINRS_TIMEOUT"));
        assert_eq!(nearest("NCCL_COMPLETELY_OTHER"), None);
        assert_eq!(typing_distance(b"kitten", b"sitting"), 3);
    }
}
