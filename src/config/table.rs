//! The table of variables, from which docs/environment.md is made.

use super::kind::Kind;
use super::verbosity::{LEVEL_NAMES, SUBSYSTEMS};
use Kind::{Checked, Fault, Flag, Name, Names, PowerOfTwo, Secret, Text, Theirs};

/// One variable.
#[derive(Debug)]
pub struct Var {
    /// Its name.
    pub name: &'static str,
    /// What it may hold, and its default.
    pub kind: Kind,
    /// What it does, in a line.
    pub doc: &'static str,
}

const fn row(name: &'static str, kind: Kind, doc: &'static str) -> Var {
    Var { name, kind, doc }
}

const ON: Kind = Flag(Some(true));
const OFF: Kind = Flag(Some(false));

const fn number(default: i64, least: i64, most: i64) -> Kind {
    Kind::Int { default: Some(default), least, most }
}

const fn unset(least: i64, most: i64) -> Kind {
    Kind::Int { default: None, least, most }
}

/// Three years in seconds: more is no time to wait, and clocks overflow at last.
const LONGEST: i64 = 100_000_000;
const INT: i64 = i32::MAX as i64;

/// Every variable that is read, by area.
pub const TABLE: &[Var] = &[
    row("NCCL_DEBUG", Name(&LEVEL_NAMES), "log level; unset: warnings only, on stderr"),
    row(
        "NCCL_DEBUG_SUBSYS",
        Names(SUBSYSTEMS),
        "subsystems whose INFO lines are printed, comma-separated; ^ in front: all but these; default INIT,BOOTSTRAP,ENV",
    ),
    row("NCCL_DEBUG_FILE", Text, "file for log lines; %h is the host name, %p the process id"),
    row(
        "NCCL_DEBUG_TIMESTAMP_FORMAT",
        Text,
        "strftime format before a line, %Nf for N digits of the second's fraction; default \"[%F %T] \"",
    ),
    row(
        "NCCL_DEBUG_TIMESTAMP_LEVELS",
        Names(&LEVEL_NAMES),
        "levels that get a timestamp, comma-separated; ^ in front: all but these; default WARN",
    ),
    row("NCCL_WARN_ENABLE_DEBUG_INFO", OFF, "1: the first warning switches the level to INFO"),
    row("NCCL_CONF_FILE", Text, "settings file instead of ~/.nccl.conf; /etc/nccl.conf is read after it"),
    row(
        "NCCL_COMM_ID",
        Checked(10),
        "fixed meeting point host:port of rank 0, an IPv6 address in brackets (`[fe80::1%eth0]:4000`), instead of a random one; a network address needs a secret",
    ),
    row(
        "NCCL_SOCKET_IFNAME",
        Checked(100),
        "interfaces where other machines may connect: names that begin so, comma-separated; = in front: exactly these; ^ in front: all \
         but these; unset: ib*, else others, else docker* and virbr*, else lo",
    ),
    row(
        "NCCL_SOCKET_FAMILY",
        Name(&["AF_INET", "AF_INET6"]),
        "only addresses of this family, where other machines may connect; unset: both",
    ),
    row("NCCL_HOSTID", Text, "name of the LSA node of this process, instead of host name and boot id"),
    row("NCCL_COMM_BLOCKING", Flag(None), "overrides config.blocking"),
    row("NCCL_CGA_CLUSTER_SIZE", unset(0, 8), "overrides config.cgaClusterSize; kept: collectives launch no clusters"),
    row(
        "NCCL_MIN_CTAS",
        unset(1, INT),
        "overrides config.minCTAs, more than 64 count as 64: blocks of a collective, at least, where it can",
    ),
    row(
        "NCCL_MAX_CTAS",
        unset(1, INT),
        "overrides config.maxCTAs, more than 64 count as 64: blocks of a launch; unset: a quarter of the GPU",
    ),
    row("NCCL_NET", Text, "overrides config.netName; no effect here"),
    row("NCCL_COMM_SPLIT_SHARE_RESOURCES", Flag(None), "overrides config.splitShare; no effect here: a child always has its own"),
    row(
        "NCCL_COMM_SHRINK_SHARE_RESOURCES",
        Flag(None),
        "overrides config.shrinkShare; no effect here: a child always has its own",
    ),
    row("NCCL_COLLNET_ENABLE", Flag(None), "overrides config.collnetEnable; no effect here"),
    row("NCCL_CTA_POLICY", unset(0, 2), "overrides config.CTAPolicy; no effect here"),
    row("NCCL_NCHANNELS_PER_NET_PEER", unset(1, 64), "overrides config.nChannelsPerNetPeer; no effect here"),
    row("NCCL_NVLINK_UTIL_CENTRIC_SCHED_ENABLE", Flag(None), "overrides config.nvlinkCentricSched; no effect here"),
    row("NCCL_WIN_ENABLE", ON, "0: windows and device communicators are refused"),
    row(
        "NCCL_WIN_STRIDE",
        number(-1, -1, (1 << 47) - (4 << 30)),
        "bytes of address space per LSA rank, rounded up to 4 GiB; -1 or 0: chosen",
    ),
    row(
        "NCCL_NVLS_ENABLE",
        number(2, 0, 2),
        "multicast memory for device communicators that ask for it: 0 refused, 2 where the device says that it has it, else also where it does not",
    ),
    row("NCCL_LOCAL_REGISTER", ON, "0: under NCCL_WIN_ENABLE=0 a window is NULL instead of a local handle"),
    row("NCCL_GIN_ENABLE", ON, "0: GIN is refused"),
    row("NCCL_GIN_TYPE", number(-1, -1, 3), "-1 chosen, 2 proxy, 3 GDAKI: by a model of a card, which is slow"),
    row(
        "NCCL_GIN_GDAKI_NIC_HANDLER",
        number(0, 0, 3),
        "who rings a card's doorbell: 0 chosen, 1 the host from a mailbox, 2 the kernel",
    ),
    row("NCCL_GIN_GDAKI_QP_DEPTH", number(128, 2, 32768), "elements of a card's send queue, rounded up to a power of two"),
    row(
        "GINRS_NIC",
        Checked(114),
        "what GDAKI's queues are on: model, or an mlx5 card by its name in ginrs-info --why, or card for the first that can be used; a card is \
         unverified (docs/user/gdaki.md)",
    ),
    row(
        "GINRS_NIC_RINGS",
        Name(&["host", "gpu"]),
        "where the model of a card has rings and completion queues: gpu: in the GPU's memory, and its copy engine fetches elements and brings \
         completions, as a card would; unset: host (docs/user/gdaki.md)",
    ),
    row(
        "NCCL_IB_DISABLE",
        OFF,
        "1: a card that GINRS_NIC asks for is refused; as the variables NCCL_IB_* below, of cards alone (docs/user/gdaki.md)",
    ),
    row(
        "NCCL_IB_HCA",
        Checked(114),
        "cards and ports that may be used: names that begin so, each with :port behind it or not, comma-separated; = in front: exactly these; ^ in \
         front: all but these; unset: all",
    ),
    row("NCCL_IB_GID_INDEX", number(-1, -1, 255), "which of a port's addresses it speaks with, -1 chosen by the next three"),
    row("NCCL_IB_ROCE_VERSION_NUM", number(2, 1, 2), "RoCE's version, where the port has addresses of both"),
    row("NCCL_IB_ADDR_FAMILY", Name(&["AF_INET", "AF_INET6"]), "family of the address, where the port has both; unset: AF_INET"),
    row("NCCL_IB_ADDR_RANGE", Checked(114), "addresses that may be used, as 10.1.0.0/16 or fd00::/8; unset: all"),
    row("NCCL_IB_TC", number(-1, -1, 255), "traffic class of packets on Ethernet, -1 is 0"),
    row("NCCL_IB_SL", number(-1, -1, 15), "service level, or priority on Ethernet, -1 is 0"),
    row("NCCL_IB_PKEY", number(0, 0, 65535), "place in the port's table of partition keys"),
    row("NCCL_IB_TIMEOUT", number(20, 0, 31), "a card waits 4.096 us x 2^this for an answer before it tries again, 0 for ever"),
    row("NCCL_IB_RETRY_CNT", number(7, 0, 7), "so often a card tries again"),
    row(
        "NCCL_IB_PCI_RELAXED_ORDERING",
        number(2, 0, 2),
        "0: payloads that a card writes arrive in order, too; 1, 2: signals alone",
    ),
    row("NCCL_DMABUF_ENABLE", ON, "0: a card is told of a GPU's memory by its address alone (nvidia-peermem), not by a DMA-BUF"),
    row(
        "GINRS_NIC_FAULT",
        Checked(113),
        "for tests, elements that the model of a card fails at: syndrome=S (0x02, 0x04, 0x13 or 0x15) and, comma-separated, op=OP (nop, write, \
         inline, add or wait), rank=R, at=N (the Nth such element, 1) or one-in=N with seed=S (docs/user/gdaki.md)",
    ),
    row(
        "NCCL_GIN_BACKEND",
        Checked(82),
        "who carries out GIN's puts: proxy, direct (the kernels, all compiled with our headers, where all ranks reach each other's \
         memory), or auto: direct for a program compiled with GINRS_GIN_DIRECT, where it can be, else proxy; or gdaki, which is NCCL_GIN_TYPE=3",
    ),
    row(
        "GINRS_DIRECT_LARGEST",
        number(256 << 10, 0, 1 << 40),
        "bytes of a put up to which a group of threads copies itself in direct contexts, and at most 512 for each thread of it; above, \
         the copy engine",
    ),
    row(
        "GINRS_PROXIED_LARGEST",
        number(32 << 10, 0, 1 << 40),
        "bytes of a put to a rank of the LSA team up to which, in proxied contexts of GPUs, a group of threads of our headers copies itself and \
         leaves the proxy the signal and the counter, and at most 512 for each thread of it; 0: the proxy moves all",
    ),
    row(
        "GINRS_COURIER",
        OFF,
        "1: on GPUs that reach each other the proxy starts a kernel of one block that makes small copies while they follow each other, with less \
         latency than the copy engine; it takes room from other kernels, and ends after 50 us without work, and every 2 ms (docs/user/gpus.md)",
    ),
    row("NCCL_GIN_NCONTEXTS", number(4, 1, 4), "GIN contexts per communicator"),
    row("NCCL_GIN_SIGNAL_POOL_SIZE", number(65536, 0, 65536), "signals per context"),
    row("NCCL_GIN_COUNTER_POOL_SIZE", number(65536, 0, 65536), "counters per context"),
    row("NCCL_GIN_PROXY_QUEUE_SIZE", PowerOfTwo(256), "descriptors per queue; -1: chosen by the number of ranks"),
    row(
        "NCCL_IGNORE_CPU_AFFINITY",
        OFF,
        "1: the proxy thread's core is chosen near its GPU without regard to this process's affinity mask",
    ),
    row("GINRS_INIT_TIMEOUT", number(120, 1, LONGEST), "seconds until a communicator must have all its ranks"),
    row("GINRS_TIMEOUT", number(300, 1, LONGEST), "seconds until a collective host step must be done by all ranks"),
    row("GINRS_WAIT_WARN", number(10, 0, LONGEST), "seconds between lines that say who is missing; 0: none"),
    row(
        "GINRS_TIMELINE",
        Text,
        "writes down what happens, a file NAME.HOST.PID-N.timeline for each process and library, of which `ginrs-run --merge` makes a trace \
         for Perfetto (docs/user/timeline.md)",
    ),
    row(
        "GINRS_TIMELINE_EVENTS",
        number(1 << 20, 64, 1 << 30),
        "events of 96 bytes that such a file may have; what does not fit is counted",
    ),
    row(
        "GINRS_HOST_DEADLINE",
        number(3, 1, LONGEST),
        "seconds after which a machine of which nothing is heard counts as dead; it is called silent at a quarter of one",
    ),
    row(
        "GINRS_FAKE_MACHINES",
        Checked(14),
        "as GINRS_FAKE_NODES: ranks with different names count as on different machines and share nothing, for tests",
    ),
    row("GINRS_FAKE_NODES", Checked(14), "LSA node of each rank, as 0,0,1,1, or per-rank: several nodes on one host, for tests"),
    row(
        "GINRS_FAKE_REACH",
        Checked(14),
        "as GINRS_FAKE_NODES: GPUs of ranks with different names count as out of each other's reach, for tests",
    ),
    row(
        "GINRS_TRANSPORT",
        Checked(77),
        "what carries GIN's puts: auto, loopback, shm, nvlink (the device's copy engine), staged (through host memory), messages \
         (sockets, on the CPU device, for tests) or ofi (libfabric: between machines)",
    ),
    row(
        "GINRS_CHAOS",
        Checked(115),
        "a seed, 0 to 2^64-1, on the CPU device: a lawful adversary between the proxy and the network reads sources late, swaps payloads, \
         delays signals and completions, and makes credits scarce (docs/user/chaos-network.md); equal on all ranks",
    ),
    row(
        "GINRS_OFI_PROVIDER",
        Text,
        "libfabric's provider between machines: verbs, efa, cxi, net or tcp (one of Ethernet's, by the version), or any other whose endpoints \
         carry messages and writes (tcp;ofi_rxm); unset: the first of those named that serves",
    ),
    row(
        "GINRS_OFI_THREADS",
        OFF,
        "1: four threads of each rank move large puts to other machines, over Ethernet and with kernels on CPUs, while its proxy thread is \
         busy with them, for which six CPUs a rank should be free: large puts gain, small ones lose (docs/results/ofi.md)",
    ),
    row(
        "GINRS_COLLECTIVE",
        Checked(92),
        "how collectives move their bytes: auto, ll, direct, buffered (between LSA teams by ring or tree, which are ways, too), staged, mapped or \
         multicast (never run on a GPU), for tests and benchmarks, also with a grid, as direct:32 or ll:8x128 (blocks x threads); a way that a call cannot take is auto for that call (docs/user/collectives.md)",
    ),
    row(
        "GINRS_MAP_BUFFERS",
        number(-1, -1, 1),
        "large collectives, sends and receives go straight between buffers that are in no window, where all ranks see them: of cudaMalloc, ncclMemAlloc and cuMemMap, in other processes \
         opened once; -1: on GPUs, and what other processes have open is at most an eighth of a GPU's memory and less where that is scarce; 1: whatever that is, also on the CPU device; 0: none \
         (docs/user/collectives.md)",
    ),
    row(
        "GINRS_KERNELS",
        Checked(90),
        "file with the collectives' GPU kernels (scripts/build-kernels.sh gpu FILE) instead of those in the library, for one that was \
         built without nvcc",
    ),
    row("GINRS_SECRET", Secret, "secret that ranks prove to each other under NCCL_COMM_ID"),
    row(
        "GINRS_SECRET_FILE",
        Checked(104),
        "file with that secret, which only this user may read; counts before GINRS_SECRET, which other processes of the user can see",
    ),
    row(
        "GINRS_ALLOW_INSECURE_COMM_ID",
        OFF,
        "1: NCCL_COMM_ID at a network address works without a secret; whoever reaches it can join",
    ),
    row("GINRS_DEVICE", Checked(68), "cpu or cuda; unset: cpu where the stand-in CUDA runtime is in the process, else cuda"),
    row(
        "GINRS_SHARE_DEVICE",
        OFF,
        "1: several ranks of a communicator may be on one GPU, for tests; their kernels must fit on it together, \
         and as threads of one process they need CUDA_DEVICE_MAX_CONNECTIONS=32: streams that share a queue of the device stand behind each other",
    ),
    row(
        "CUDA_MODULE_LOADING",
        Text,
        "read by CUDA; set to EAGER when the library is loaded with a program that calls ncclDevCommCreate, unless it is set: a kernel that \
         is loaded at its first launch waits for running kernels, and these may wait for the proxy's copies, which wait for the load (W027)",
    ),
    row(
        "CUDA_LAUNCH_BLOCKING",
        Text,
        "read by CUDA; unless it is 0 there is no GINRS_COURIER: its launches would wait for its end",
    ),
    row(
        "GINRS_FAULT",
        Fault,
        "for tests; panic:ncclX: that function panics, and returns ncclInternalError; random: the system has no random bytes; \
         fail:WHICH: that step of set-up fails; exit:WHICH: the process ends there; slow:WHICH: it takes a second; WHICH is a number (the nth step of the process) or a \
         name: memfd, descriptor, mapping, addresses, thread, failure or a round of an exchange as messages call it (\"peer info\", \
         \"devcomm create #1\")",
    ),
    row("GINRS_CPU_DEVICES", unset(1, 1024), "devices that a process sees on the CPU device; unset: LOCAL_WORLD_SIZE, else 8"),
    row("GINRS_CPU_RESIDENT", Theirs("512"), "blocks that run at the same time on a CPU device, 1 to 4096"),
    row("GINRS_CPU_STACK", Theirs("64K"), "bytes of a CUDA thread's stack on the CPU device, 16K to 64M"),
    row(
        "GINRS_CPU_STACK_GUARD",
        Theirs("unset"),
        "1: a page without access right below each of those stacks; 0: none; unset: a page below the first 4096 of them",
    ),
    row(
        "GINRS_SCHEDULE",
        Theirs("unset"),
        "a seed, 0 to 2^64-1, on the CPU device: the order in which threads of a block run, where they are stopped, in which order blocks begin, \
         and short pauses of blocks are drawn from it; with lib/ginrs/libginrs_baton.so in front, all that threads of the process do \
         (docs/user/schedules.md)",
    ),
    row(
        "GINRS_SCHEDULE_UNTIL",
        Theirs("unset"),
        "a number, with that library: so many of the seed's choices are drawn, and then none",
    ),
    row(
        "GINRS_SCHEDULE_TRACE",
        Theirs("unset"),
        "ginrs-run sets it: the file in which that library tells how many choices there were",
    ),
    row("GINRS_CXX", Text, "host compiler of ginrs-cc; default g++"),
    row(
        "LOCAL_RANK",
        number(0, 0, INT),
        "device of a process that never chose one, where no CUDA runtime is linked (set by launchers)",
    ),
    row("LOCAL_WORLD_SIZE", unset(1, INT), "processes on this host (set by launchers)"),
];

pub(super) fn find(name: &str) -> Option<&'static Var> {
    TABLE.iter().find(|var| var.name == name)
}

/// docs/environment.md.
#[cfg(test)]
pub(super) fn page() -> String {
    let mut page = String::from(
        "# Environment variables\n\nGenerated from src/config/table.rs (`make headers`): do not edit.\n\n\
         The environment wins over the file that NCCL_CONF_FILE names (else ~/.nccl.conf), which wins over /etc/nccl.conf. Lines there are\n\
         NAME=VALUE, of any length, the first of a name counts; # in the first column begins a comment, and nothing is trimmed. A settings file is a plain\n\
         file of at most 1 MiB. Its values go nowhere but to ginrs, never into the program's environment: a line for another library (FI_*) is told, W002.\n\
         Numbers may be decimal, 0x.. or 0.. (octal). An empty value counts as unset, also where a later file has another. NCCL's variables that are not listed are accepted and have no effect.\n\n\
         **A value that cannot be meant** is told once, in one line. Where the last column says W001 it is a warning, and the default is used:\n\
         the variable tunes, switches or reports. Where it has another number, the call that needs the value fails with that error: the\n\
         variable chooses what is used or who meets, and anything else than what was asked for would be a surprise. A name that starts with\n\
         NCCL_ or GINRS_ and is not known has no effect and gets one warning, W002; a settings file or a line of it that cannot be read, W003.\n\n\
         | name | may be | default | meaning | else |\n|---|---|---|---|---|\n",
    );
    for var in TABLE {
        let kind = var.kind;
        page += &format!("| {} | {} | {} | {} | {} |\n", var.name, kind.may_be(), kind.default_text(), var.doc, kind.else_text());
    }
    page
}
