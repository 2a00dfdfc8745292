//! GDAKI over a card that is none: commands by libibverbs and libmlx5, which are abi-tests/soft-verbs here, and the queues that these make.
//! Ranks are threads, for the card's memory is this process's. Needs GINRS_PREFIX.

use abi_tests::programs::{compiled, compiled_as, stand_in, suite_ok};
use abi_tests::{nvidia, prefix, text};
use ginrs::verbs::prm;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

const SUITE: &str = "abi-tests/twice/suite.cu";
const PROGRAMS: &[&str] = &["layout", "graphs", "several", "gin", "ginbarriers", "order", "soak"];

/// A folder with the stand-in under both names.
fn libraries() -> &'static Path {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    FOLDER.get_or_init(|| stand_in("libsoft_verbs.so", &["libibverbs.so.1", "libmlx5.so.1"])).path()
}

fn theirs() -> PathBuf {
    let mut options = nvidia("2.28.9").flags();
    options.extend(["-O1", "-DTWICE_NO_API", "-DNCCL_GIN_GDAKI_ENABLE=1"].map(String::from));
    compiled_as(SUITE, &options)
}

/// See [`suite_ok`].
#[track_caller]
fn all_ok(suite: &Path, programs: &[&str], ranks: u32, env: &[(&str, &str)]) {
    let libraries = libraries().to_str().unwrap();
    let card = [("NCCL_GIN_BACKEND", "gdaki"), ("NCCL_GIN_TYPE", "3"), ("GINRS_NIC", "card"), ("LD_LIBRARY_PATH", libraries)];
    suite_ok(suite, programs, ranks, Some("--threads"), &[env, &card].concat());
}

#[test]
fn the_suite_runs_by_commands_to_a_card() {
    let suite = compiled(SUITE);
    all_ok(&suite, PROGRAMS, 2, &[]);
    all_ok(&suite, &["gin", "order", "soak"], 3, &[("NCCL_GIN_GDAKI_NIC_HANDLER", "2"), ("SOFTVERBS_LINK", "ib")]);
    all_ok(&suite, &["gin", "order"], 2, &[("NCCL_GIN_GDAKI_QP_DEPTH", "2")]);
    all_ok(&theirs(), &["gin", "order"], 2, &[]);
}

/// Memory of GPUs, which are those of the driver's stand-in: rings, completions, signals and counters are theirs, and the card is told of them
/// by DMA-BUFs or by address. Both handlers, both header sets, and two ranks that share one.
#[test]
fn the_suite_runs_on_gpus() {
    let (ours, theirs) = (compiled(SUITE), theirs());
    let [host, kernel] = ["1", "2"].map(|handler| ("NCCL_GIN_GDAKI_NIC_HANDLER", handler));
    on_gpus_ok(&ours, &["layout", "graphs", "gin", "ginbarriers", "soak"], 2, &[kernel]);
    on_gpus_ok(&ours, &["several", "gin"], 2, &[host, ("GINRS_MOCK_DMABUF", "1")]);
    on_gpus_ok(&ours, &["gin"], 3, &[("GINRS_MOCK_DMABUF", "1"), ("SOFTVERBS_LINK", "ib")]);
    on_gpus_ok(&theirs, &["gin"], 2, &[host]);
    on_gpus_ok(&theirs, &["order"], 2, &[kernel, ("NCCL_GIN_GDAKI_QP_DEPTH", "2")]);
    on_gpus_ok(&ours, &["gin-alltoall"], 2, &[("GINRS_MOCK_DEVICES", "1"), ("GINRS_SHARE_DEVICE", "1")]);
}

/// What the driver does not give is done without, or named: a register that is not mapped leaves ringing to the host, unless the kernel was
/// to do it.
#[test]
fn what_a_driver_refuses_a_card_on_gpus() {
    let suite = compiled(SUITE);
    // The first is the signals' of each rank.
    let refused = ("GINRS_MOCK_FAIL", "cuMemHostRegister:3:801,cuMemHostRegister:4:801");
    on_gpus_ok(&suite, &["gin"], 2, &[refused, ("GINRS_MOCK_DMABUF", "1")]);
    let said = failing(&suite, "gin", &on_gpus(&[refused, ("NCCL_GIN_GDAKI_NIC_HANDLER", "2")]).as_refs());
    assert!(said.contains("GINRS-E114") && said.contains("NCCL_GIN_GDAKI_NIC_HANDLER=1"), "{said}");
    let said = failing(&suite, "gin", &on_gpus(&[("SOFTVERBS_LACKS", "gpus")]).as_refs());
    let why = ["GINRS-E114", "by their address", "cuMemGetHandleForAddressRange", "modprobe nvidia-peermem"];
    assert!(why.iter().all(|why| said.contains(why)), "{said}");
    let log = libraries().join("descriptors");
    let told = [("GINRS_MOCK_DMABUF", "1"), ("SOFTVERBS_LACKS", "gpus"), ("SOFTVERBS_LOG", log.to_str().unwrap())];
    on_gpus_ok(&suite, &["gin"], 2, &told);
    let log = std::fs::read_to_string(&log).unwrap();
    assert!(log.contains("# ibv_reg_dmabuf_mr") && log.contains("# mlx5dv_devx_umem_reg_ex"), "{log}");
    let said = failing(&suite, "gin", &on_gpus(&[told[0], told[1], ("NCCL_DMABUF_ENABLE", "0")]).as_refs());
    assert!(said.contains("NCCL_DMABUF_ENABLE is 0"), "{said}");
}

/// An environment.
struct Env(Vec<(String, String)>);

impl Env {
    fn as_refs(&self) -> Vec<(&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }
}

/// `env` on the driver's stand-in, which was built with this test, too.
fn on_gpus(env: &[(&str, &str)]) -> Env {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    let driver = FOLDER.get_or_init(|| stand_in("libmock_cuda.so", &["libcuda.so.1", "libcuda.so"])).path();
    let path = format!("{}:{}", libraries().display(), driver.display());
    let gpus = [("GINRS_DEVICE", "cuda"), ("GINRS_MOCK_DEVICES", "4"), ("SOFTVERBS_GPU", "1"), ("LD_LIBRARY_PATH", &path)];
    let all = gpus.iter().chain(env).map(|(name, value)| (name.to_string(), value.to_string()));
    let devices = env.iter().find(|(name, _)| *name == "GINRS_MOCK_DEVICES").map_or("4", |(_, value)| value);
    Env(all.chain([("GINRS_CPU_DEVICES".into(), devices.into())]).collect())
}

#[track_caller]
fn on_gpus_ok(suite: &Path, programs: &[&str], ranks: u32, env: &[(&str, &str)]) {
    let env = on_gpus(&[&[("NCCL_GIN_BACKEND", "gdaki"), ("NCCL_GIN_TYPE", "3"), ("GINRS_NIC", "card")], env].concat());
    suite_ok(suite, programs, ranks, Some("--threads"), &env.as_refs());
}

/// What the card was told, in order, for one rank of one context: every command was accepted, and none is there that nobody expects.
#[test]
fn the_card_hears_each_command_once_and_refuses_none() {
    let log = libraries().join("commands");
    let log = log.to_str().unwrap();
    all_ok(&compiled(SUITE), &["gin"], 2, &[("SOFTVERBS_LOG", log), ("NCCL_GIN_NCONTEXTS", "1")]);
    let said = std::fs::read_to_string(log).unwrap();
    let count = |name: &str| said.lines().filter(|line| line.starts_with(name)).count();
    // Two ranks, each with a queue and a companion for each of two peers; the suite makes one communicator with GIN, or several.
    let pairs = count("CREATE_QP");
    assert!(pairs > 0 && pairs % 8 == 0, "{pairs}");
    for name in ["CREATE_CQ", "RST2INIT_QP", "INIT2RTR_QP", "RTR2RTS_QP"] {
        assert_eq!(count(name), pairs, "{name}");
    }
    let commands = said.lines().filter(|line| !line.starts_with('#'));
    let refused: Vec<&str> = commands.filter(|line| !line.rsplit(' ').next().unwrap().starts_with("00")).collect();
    assert!(refused.is_empty() && count("unknown") == 0, "{refused:?}");
}

/// Whoever aborts, and whoever is told of it: the card does nothing more for any queue, also where no step comes behind the abort.
#[test]
fn an_abort_ends_every_queue() {
    let log = libraries().join("aborted");
    let mut command = Command::new("timeout");
    command.args(["-s", "ABRT", "60"]).arg(compiled("abi-tests/programs/fault.cu")).args(["--threads", "2"]);
    command.envs([("FAULT", "abort"), ("NCCL_GIN_BACKEND", "gdaki"), ("GINRS_NIC", "card")]);
    let output = command.env("LD_LIBRARY_PATH", libraries()).env("SOFTVERBS_LOG", &log).output().expect("timeout starts");
    let said = std::fs::read_to_string(&log).expect("the library has written down commands");
    let count = |name: &str| said.lines().filter(|line| line.starts_with(name)).count();
    let (made, ended) = (count("CREATE_QP"), count("2ERR_QP"));
    assert!(made > 0 && made == ended, "{made} queue pairs, {ended} ended\n{}", text(&output));
}

/// Each operation fails with the card's word for it: all waits end, and every rank is told queue pair, operation and reason. The other rank's
/// operation to a queue pair that has broken is not answered (0x15), which is heard first now and then.
#[test]
fn a_card_that_fails_ends_the_communicator_and_is_named() {
    let suite = compiled(SUITE);
    let operations = [("write", "opcode 0x8"), ("inline", "opcode 0x8"), ("add", "opcode 0x12"), ("wait", "opcode 0xf")];
    let by_itself = operations.map(|(op, opcode)| {
        let said = failing(&suite, "gin", &[("SOFTVERBS_FAULT", &format!("syndrome=0x13,op={op},at=3"))]);
        let told =
            |parts: &[&str]| said.lines().any(|line| line.contains("GINRS-E051") && parts.iter().all(|part| line.contains(part)));
        let by_itself = told(&["queue pair 0x", opcode, "remote access error (0x13"]);
        assert!(by_itself || told(&["queue pair 0x", "transport retry counter exceeded (0x15"]), "{op}:\n{said}");
        by_itself
    });
    assert!(by_itself.iter().filter(|first| **first).count() >= 2, "{by_itself:?}");
    // In a GPU's memory a kernel that waits sees it first and traps, or else the thread that looks there.
    for handler in ["1", "2"] {
        let said = failing(
            &suite,
            "gin",
            &on_gpus(&[("SOFTVERBS_FAULT", "syndrome=0x13,op=write,at=3"), ("NCCL_GIN_GDAKI_NIC_HANDLER", handler)]).as_refs(),
        );
        let reasons = ["remote access error (0x13", "transport retry counter exceeded (0x15"];
        let named = said.contains("GINRS-E051") && reasons.iter().any(|reason| said.contains(reason));
        assert!(named || said.contains("the network card reported an error"), "{said}");
    }
}

/// Kernels count from the allocation's start, also where a window begins behind it.
#[test]
fn windows_that_begin_inside_their_allocation() {
    let program = compiled("abi-tests/programs/refused.cu");
    let fine = [
        ("REFUSED", "fine"),
        ("REFUSED_ONLY", "put and signal"),
        ("NCCL_GIN_BACKEND", "gdaki"),
        ("NCCL_GIN_TYPE", "3"),
        ("GINRS_NIC", "card"),
    ];
    let gpus = on_gpus(&[&fine[..], &[("GINRS_MOCK_DMABUF", "1")]].concat());
    for env in [[&fine[..], &[("LD_LIBRARY_PATH", libraries().to_str().unwrap())]].concat(), gpus.as_refs()] {
        let mut command = Command::new("timeout");
        let output = command.args(["-s", "ABRT", "100"]).arg(&program).args(["--threads", "2"]).envs(env).output().unwrap();
        let said = text(&output);
        assert!(output.status.success() && said.matches("of 2: ok,").count() == 2, "{}\n{said}", output.status);
    }
}

/// What the card tells by itself, of a queue of this rank, of one that has gone, of its port, and of itself.
#[test]
fn what_a_card_tells_is_told() {
    let suite = compiled(SUITE);
    for (event, words) in [
        ("fatal", "queue pair fatal error (event 0x5), its state is ReadyToSend"),
        ("request", "invalid request (event 0x10)"),
        ("access", "access error: what a peer named is not this rank's memory, or not for it (event 0x11)"),
        ("cq", "completion queue error (event 0x4)"),
        ("device", "a card works no more"),
    ] {
        let said = failing(&suite, "gin", &[("SOFTVERBS_EVENT", &format!("{event},at=30"))]);
        assert!(said.contains("GINRS-E051") && said.contains(words), "{event}:\n{said}");
        assert!(event == "device" || said.contains("queue pair 0x"), "{event}:\n{said}");
    }
    let log = libraries().join("events");
    for (event, told) in [("stale", ""), ("gid", ""), ("port-up", "port 1 of mlx5_soft0 is up"), ("port-down", "GINRS-E116")] {
        let output = running(
            &suite,
            "gin",
            &[
                ("SOFTVERBS_EVENT", &format!("{event},at=30")),
                ("SOFTVERBS_LOG", log.to_str().unwrap()),
                ("NCCL_DEBUG", "INFO"),
                ("NCCL_DEBUG_SUBSYS", "NET"),
            ],
        );
        let said = text(&output);
        assert!(output.status.success() && said.contains(told), "{event}: {}\n{said}", output.status);
    }
    // The library waits for one that was taken and not acknowledged.
    let log = std::fs::read_to_string(log).unwrap();
    let [taken, acknowledged] =
        ["taken", "acknowledged"].map(|what| log.matches(&format!("event of the device is {what}")).count());
    assert!(taken >= 3 && taken == acknowledged, "{taken} {acknowledged}");
}

/// Communicators of one process have the device open once, and each its own news: of its queues it alone, of the device all. Keys of
/// another are refused: a card says so by its syndrome, the model by which key it was.
#[test]
fn communicators_share_one_card() {
    let program = compiled("abi-tests/programs/cards.cu");
    for (cards, syndrome, key) in [("signals", "(0x13", "target key 0x"), ("sink", "(0x4", "source key 0x")] {
        let card = [("GINRS_NIC", "card"), ("LD_LIBRARY_PATH", libraries().to_str().unwrap())];
        for (env, why) in [(card, syndrome), ([("NCCL_GIN_TYPE", "3"); 2], key)] {
            let mut command = Command::new("timeout");
            command.args(["-s", "ABRT", "60"]).arg(&program).args(["--threads", "2"]).envs(env);
            let output = command.envs([("CARDS", cards), ("NCCL_GIN_BACKEND", "gdaki")]).output().expect("timeout starts");
            let said = text(&output);
            assert!(output.status.success() && said.matches("of 2: ok,").count() == 2, "{cards}: {}\n{said}", output.status);
            let told = said.lines().any(|line| line.contains("GINRS-E051") && line.contains(why));
            assert!(told, "{cards}, {why}:\n{said}");
        }
    }
    for (cards, event, opened) in [("queue", "fatal", 1), ("port", "port-down", 1), ("device", "device", 2)] {
        let [log, told] = ["log", "told"].map(|what| libraries().join(format!("{cards}-{what}")));
        let mut command = Command::new("timeout");
        command.args(["-s", "ABRT", "60"]).arg(&program).args(["--threads", "2"]).envs([
            ("CARDS", cards),
            ("SOFTVERBS_EVENT", &format!("{event},at=5")),
            ("NCCL_GIN_BACKEND", "gdaki"),
            ("GINRS_NIC", "card"),
        ]);
        command
            .env("LD_LIBRARY_PATH", libraries())
            .env("SOFTVERBS_LOG", &log)
            .envs([("NCCL_DEBUG", "WARN"), ("NCCL_DEBUG_FILE", told.to_str().unwrap())]);
        let output = command.output().expect("timeout starts");
        let said = text(&output);
        assert!(output.status.success() && said.matches("of 2: ok,").count() == 2, "{cards}: {}\n{said}", output.status);
        let log = std::fs::read_to_string(&log).unwrap();
        let count = |what: &str| log.lines().filter(|line| line.starts_with(what)).count();
        assert_eq!(count("# mlx5dv_open_device"), opened, "{cards}");
        assert_eq!(count("# ibv_close_device"), opened, "{cards}");
        assert_eq!(log.lines().last().unwrap(), "# all are closed, 0 things left", "{cards}");
    }
}

/// What NCCL_IB_* say is in the commands; what cannot be meant is told.
#[test]
fn settings_of_infiniband_arrive_in_commands() {
    let suite = compiled(SUITE);
    let log = libraries().join("settings");
    let settings = [
        ("NCCL_IB_HCA", "=mlx5_soft0:1"),
        ("NCCL_IB_GID_INDEX", "2"),
        ("NCCL_IB_TC", "106"),
        ("NCCL_IB_SL", "3"),
        ("NCCL_IB_PKEY", "5"),
        ("NCCL_IB_TIMEOUT", "14"),
        ("NCCL_IB_RETRY_CNT", "4"),
        ("SOFTVERBS_LOG", log.to_str().unwrap()),
    ];
    all_ok(&suite, &["gin-alltoall"], 2, &settings);
    let said = std::fs::read_to_string(&log).unwrap();
    let path = |field: prm::Field| field.within(prm::QPC + prm::PATH);
    for (command, field, value) in [
        ("RST2INIT_QP", path(prm::ads::pkey_index), 5),
        ("INIT2RTR_QP", path(prm::ads::tclass), 106),
        ("INIT2RTR_QP", path(prm::ads::dscp), 106 >> 2),
        ("INIT2RTR_QP", path(prm::ads::eth_prio), 3),
        ("INIT2RTR_QP", path(prm::ads::sl), 0),
        ("INIT2RTR_QP", path(prm::ads::src_addr_index), 2),
        ("RTR2RTS_QP", path(prm::ads::ack_timeout), 14),
        ("RTR2RTS_QP", prm::qpc::retry_count.within(prm::QPC), 4),
    ] {
        let found: Vec<u64> =
            said.lines().filter_map(|line| line.strip_prefix(command)).map(|line| field.get(&input(line))).collect();
        assert!(!found.is_empty() && found.iter().all(|found| *found == value), "{command} {field:?}: {found:?}");
    }
    // Windows without order, signals in order; or all in order.
    let [relaxed, strict] = ["access 0x10000f", "access 0xf"].map(|access| format!("registered with {access}\n"));
    assert!(said.contains(&relaxed) && said.contains(&strict), "{said}");
    std::fs::remove_file(&log).unwrap();
    all_ok(
        &suite,
        &["gin-alltoall"],
        2,
        &[("NCCL_IB_PCI_RELAXED_ORDERING", "0"), ("NCCL_IB_ADDR_RANGE", "10.0.0.0/24"), settings[7]],
    );
    let said = std::fs::read_to_string(&log).unwrap();
    assert!(!said.contains(&relaxed) && said.contains(&strict), "{said}");
    for (name, value, why) in [
        ("NCCL_IB_DISABLE", "1", "NCCL_IB_DISABLE is 1"),
        ("NCCL_IB_HCA", "^mlx5", "NCCL_IB_HCA leaves it out"),
        ("NCCL_IB_HCA", "mlx5_soft0:2", "no port of it is up"),
        ("NCCL_IB_HCA", "mlx5_soft0:x", "\"x\" is no port"),
        ("NCCL_IB_GID_INDEX", "1", "NCCL_IB_GID_INDEX is 1, where port 1 has no address"),
        ("NCCL_IB_ADDR_RANGE", "10.0.1.0/24", "none in NCCL_IB_ADDR_RANGE"),
        ("NCCL_IB_ADDR_RANGE", "10.0.0.0", "NCCL_IB_ADDR_RANGE is"),
        ("NCCL_IB_SL", "8", "NCCL_IB_SL is 8, and port 1 is Ethernet"),
        ("NCCL_IB_PKEY", "128", "port 1 has 128 partition keys"),
    ] {
        let said = failing(&suite, "gin", &[(name, value)]);
        assert!(said.contains("GINRS-E114") && said.contains(why), "{name}={value}:\n{said}");
    }
}

/// The bytes of a command in a line of SOFTVERBS_LOG, behind its name.
fn input(line: &str) -> Vec<u8> {
    let hex = line.split(' ').nth(2).expect("in HEX");
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("two digits")).collect()
}

/// Each thing that is not there is named, by the program and by ginrs-info.
#[test]
fn what_is_not_there_is_named() {
    let suite = compiled(SUITE);
    for (lacks, why) in [
        ("devices", "no RDMA device"),
        ("mlx5", "not an mlx5 device"),
        ("devx", "does not open for commands (DEVX)"),
        ("cd", "no WAIT elements (core-direct)"),
        ("port", "no port of it is up"),
    ] {
        let said = failing(&suite, "gin", &[("SOFTVERBS_LACKS", lacks)]);
        assert!(said.contains("GINRS-E114") && said.contains(why), "{lacks}:\n{said}");
        let mut info = Command::new(prefix().join("bin/ginrs-info"));
        let output = info.arg("--why").env("SOFTVERBS_LACKS", lacks).env("LD_LIBRARY_PATH", libraries()).output().unwrap();
        assert!(text(&output).contains(why), "{lacks}:\n{}", text(&output));
    }
    let said = failing(&suite, "gin", &[("GINRS_NIC", "mlx5_9")]);
    assert!(said.contains("GINRS-E114") && said.contains("no device mlx5_9"), "{said}");
    let said = failing(&suite, "gin", &[("GINRS_NIC_FAULT", "syndrome=0x13")]);
    assert!(said.contains("GINRS-E113") && said.contains("GINRS_NIC names a real one"), "{said}");
    // The system's own, or none: there is no card either way.
    let said = failing(&suite, "gin", &[("LD_LIBRARY_PATH", "/nonexistent"), ("GINRS_NIC", "mlx5_9")]);
    assert!(said.contains("GINRS-E114") && said.contains("fix: "), "{said}");
}

/// What a program says that ends with an error, and ends.
#[track_caller]
fn failing(suite: &Path, program: &str, env: &[(&str, &str)]) -> String {
    let output = running(suite, program, env);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(1), "{env:?}: {}\n{said}", output.status);
    said
}

fn running(suite: &Path, program: &str, env: &[(&str, &str)]) -> Output {
    let mut command = Command::new("timeout");
    command.args(["-s", "ABRT", "60"]).arg(suite).args(["--threads", "2", program]);
    command.envs([("NCCL_GIN_BACKEND", "gdaki"), ("GINRS_NIC", "card")]).env("LD_LIBRARY_PATH", libraries());
    command.envs(env.iter().copied()).output().expect("timeout starts")
}
