//! The CUDA device over the driver stand-in (abi-tests/mock-driver): the programs of programs.rs again, their kernels on the CPU,
//! all else as on GPUs. Then what a driver may refuse (`refusals`), and ranks that die (`deaths`). Needs GINRS_PREFIX (`make test` sets it).

#[path = "cuda/deaths.rs"]
mod deaths;
#[path = "../../src/hang_limit.rs"]
mod hang_limit;
#[path = "cuda/refusals.rs"]
mod refusals;

use abi_tests::programs::{compiled, stand_in};
use abi_tests::{prefix, root, run, text};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

type Env<'a> = &'a [(&'a str, &'a str)];

const STAGED: [(&str, &str); 2] = [("GINRS_TRANSPORT", "staged"), ("GINRS_FAKE_NODES", "per-rank")];
const DIRECT: [(&str, &str); 1] = [("NCCL_GIN_BACKEND", "direct")];
// Many threads spin for few cores here: nobody is dead for that.
const FAR: [(&str, &str); 2] = [("GINRS_FAKE_MACHINES", "per-rank"), ("GINRS_HOST_DEADLINE", "30")];

/// Where this file's programs lie; kept for the whole run.
fn folder() -> &'static Path {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    FOLDER.get_or_init(|| tempfile::tempdir().unwrap()).path()
}

/// A folder with the stand-in as libcuda.so.1.
fn driver() -> &'static Path {
    static DRIVER: OnceLock<tempfile::TempDir> = OnceLock::new();
    DRIVER.get_or_init(|| stand_in("libmock_cuda.so", &["libcuda.so.1", "libcuda.so"])).path()
}

fn program(name: &str) -> PathBuf {
    compiled(&format!("abi-tests/programs/{name}.cu"))
}

/// What the stand-in takes for kernels, so that communicators have the memory of collectives, wherever the library was built.
fn kernels() -> PathBuf {
    static KERNELS: OnceLock<PathBuf> = OnceLock::new();
    let made = KERNELS.get_or_init(|| {
        let fatbin = folder().join("kernels.fatbin");
        std::fs::write(&fatbin, 0xba55_ed50u32.to_le_bytes()).unwrap();
        fatbin
    });
    made.clone()
}

/// `command` on the CUDA device with `devices` devices.
fn on_cuda(command: &mut Command, devices: u32, env: Env) {
    command
        .env("GINRS_DEVICE", "cuda")
        .env("LD_LIBRARY_PATH", driver())
        .env("GINRS_KERNELS", kernels())
        .env_remove("CUDA_VISIBLE_DEVICES");
    command.env("GINRS_MOCK_DEVICES", devices.to_string()).env("GINRS_CPU_DEVICES", devices.to_string());
    command.envs(env.iter().copied());
}

#[derive(Clone, Copy, Debug)]
enum Mode {
    Processes,
    Threads,
}
use Mode::{Processes, Threads};

fn start(program: &Path, ranks: u32, mode: Mode, env: Env) -> Output {
    let mut command = match mode {
        Processes => {
            let mut c = Command::new(prefix().join("bin/ginrs-run"));
            c.args(["-n", &ranks.to_string(), "--timeout", "240"]).arg(program);
            c
        }
        Threads => {
            let mut c = Command::new("timeout");
            c.args(["-s", "ABRT", "100"]).arg(program).args(["--threads", &ranks.to_string()]);
            c
        }
    };
    on_cuda(&mut command, ranks, env);
    command.output().expect("the program starts")
}

/// Runs `program` and wants every rank's "ok".
#[track_caller]
fn all_ok(program: &Path, ranks: u32, mode: Mode, env: Env) {
    let output = start(program, ranks, mode, env);
    let said = text(&output);
    let ok = (0..ranks).filter(|r| said.contains(&format!("rank {r} of {ranks}: ok,"))).count();
    assert!(
        output.status.success() && ok == ranks as usize,
        "{} on {ranks} {mode:?} {env:?}: {}\n{said}",
        program.display(),
        output.status
    );
}

#[test]
fn every_method() {
    let api = program("api");
    for ranks in [1, 2, 3, 4] {
        all_ok(&api, ranks, Threads, &[]);
    }
    for ranks in [1, 2, 4] {
        all_ok(&api, ranks, Processes, &[]);
    }
}

/// PyTorch's symmetric memory ends so: on GPUs it is told to who asks, and on the CPU device always.
#[test]
fn memory_that_is_freed_under_a_window() {
    let freed = program("freed");
    let told = |env: Env| {
        let output = start(&freed, 2, Threads, env);
        let said = text(&output);
        assert!(output.status.success() && said.matches(" of 2: ok,").count() == 2, "{env:?}:\n{said}");
        (said.matches("GINRS-W024 memory is freed that a window stands on").count(), said.matches("NCCL WARN").count())
    };
    let (cpu, asks) = (("GINRS_DEVICE", "cpu"), [("NCCL_DEBUG", "INFO"), ("NCCL_DEBUG_SUBSYS", "ALLOC")]);
    assert_eq!((told(&[]), told(&asks)), ((0, 0), (2, 0)));
    assert_eq!((told(&[cpu]), told(&[cpu, ("MENDED", "1")])), ((2, 2), (0, 0)));
}

#[test]
fn puts_by_the_kernels_themselves() {
    let direct =
        [("NCCL_GIN_BACKEND", "direct"), ("TORTURE", "blocks=4 threads=64 coop=cta strip=65536 largest=5000 rounds=2 seed=25")];
    for mode in [Processes, Threads] {
        all_ok(&program("api"), 3, mode, &direct);
        all_ok(&program("torture"), 4, mode, &direct);
    }
}

/// Of a small put the proxy sees the signal alone, unless it is told to move all, or by what.
#[test]
fn small_payloads_are_stored_by_kernels() {
    let ring = compiled("abi-tests/timelines/ring.cu");
    let moved = |env: Env| -> Vec<u64> {
        let file = folder().join("ring.json");
        let mut command = Command::new(prefix().join("bin/ginrs-run"));
        command.args(["-n", "2", "--timeout", "240", "--timeline"]).arg(&file).arg(&ring);
        on_cuda(&mut command, 2, env);
        let said = text(&command.output().unwrap());
        assert!(said.contains("rank 0: ok") && said.contains("rank 1: ok"), "{env:?}: {said}");
        let trace: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        let events = trace["traceEvents"].as_array().unwrap();
        events.iter().filter(|event| event["cat"] == "move").map(|event| event["args"]["bytes"].as_u64().unwrap()).collect()
    };
    assert_eq!(moved(&[]), [0; 12]);
    for env in [("GINRS_PROXIED_LARGEST", "0"), ("GINRS_PROXIED_LARGEST", "63"), ("GINRS_TRANSPORT", "nvlink")] {
        assert_eq!(moved(&[env]), [64; 12], "{env:?}");
    }
}

/// A launch that never gets to run, as on a GPU without room: all goes by the copy engine.
#[test]
fn a_courier_that_gets_no_room() {
    let courier = [("GINRS_COURIER", "1"), ("GINRS_TRANSPORT", "nvlink")];
    all_ok(&program("api"), 2, Processes, &courier);
    all_ok(&program("api"), 3, Threads, &courier);
}

#[test]
fn copies_that_take_their_time() {
    let slow = ("GINRS_MOCK_DELAY_US", "300");
    all_ok(&program("api"), 2, Processes, &[slow]);
    all_ok(&program("moe"), 3, Threads, &[slow]);
}

#[test]
fn nodes_by_rank() {
    all_ok(&program("api"), 4, Threads, &[("GINRS_FAKE_NODES", "0,0,1,1")]);
    all_ok(&program("api"), 4, Processes, &[("GINRS_FAKE_NODES", "0,0,1,1")]);
    all_ok(&program("moe"), 3, Processes, &[("GINRS_FAKE_NODES", "per-rank")]);
}

#[test]
fn expert_parallel_exchange() {
    all_ok(&program("moe"), 4, Processes, &[]);
    all_ok(&program("moe"), 4, Threads, &[]);
}

#[test]
fn torture() {
    let plan = |plan| [("TORTURE", plan), ("GINRS_MOCK_DELAY_US", "20")];
    let torture = program("torture");
    all_ok(&torture, 4, Processes, &plan("blocks=4 threads=64 coop=cta strip=65536 largest=5000 rounds=2 seed=21"));
    all_ok(&torture, 3, Threads, &plan("blocks=2 threads=96 coop=warp strip=16384 largest=700 rounds=2 seed=22"));
    all_ok(&torture, 2, Processes, &plan("blocks=2 threads=64 coop=thread strip=1024 largest=64 rounds=2 seed=23"));
    all_ok(&torture, 2, Threads, &plan("blocks=1 threads=32 coop=cta strip=20000000 largest=9000000 rounds=1 seed=24"));
}

#[test]
fn examples() {
    for example in ["02-ring", "03-gin-alltoall", "04-hybrid-alltoall", "05-lsa-allreduce", "06-ll-bcast-reduce"] {
        all_ok(&compiled(&format!("examples-c/{example}/main.cu")), 4, Processes, &[]);
    }
}

#[test]
fn one_thread_drives_all_ranks() {
    for ranks in [1, 4] {
        let mut command = Command::new("timeout");
        on_cuda(command.args(["-s", "ABRT", "60"]).arg(program("group")).arg(ranks.to_string()), ranks, &[]);
        let said = run(&mut command);
        assert!(said.contains(&format!("group of {ranks}: ok")), "{said}");
    }
}

/// Without peer access there is no LSA between ranks, and puts go by way of the host.
#[test]
fn devices_that_do_not_reach_each_other() {
    let staged = [("GINRS_MOCK_NO_P2P", "1")];
    all_ok(&program("moe"), 2, Processes, &staged);
    all_ok(&program("moe"), 3, Threads, &staged);
}

/// Ranks on different machines: device memory goes through pinned host memory and libfabric.
#[test]
fn between_machines() {
    let two = [("GINRS_FAKE_MACHINES", "0,0,1,1"), FAR[1], ("GINRS_MOCK_DELAY_US", "100")];
    for mode in [Processes, Threads] {
        all_ok(&program("sizes"), 2, mode, &FAR);
        all_ok(&program("api"), 2, mode, &FAR);
        all_ok(&program("moe"), 3, mode, &FAR);
    }
    all_ok(&program("sizes"), 4, Processes, &FAR);
    all_ok(&program("sizes"), 4, Processes, &two);
    all_ok(&program("api"), 4, Threads, &two);
    let plan = |plan| [("TORTURE", plan), ("GINRS_MOCK_DELAY_US", "20"), FAR[0], FAR[1]];
    let torture = program("torture");
    all_ok(&torture, 4, Processes, &plan("blocks=4 threads=64 coop=cta strip=65536 largest=5000 rounds=2 seed=31"));
    all_ok(&torture, 3, Threads, &plan("blocks=2 threads=96 coop=warp strip=16384 largest=700 rounds=2 seed=32"));
    all_ok(&torture, 2, Processes, &plan("blocks=1 threads=32 coop=cta strip=20000000 largest=9000000 rounds=1 seed=34"));
    for example in ["02-ring", "03-gin-alltoall", "04-hybrid-alltoall"] {
        all_ok(&compiled(&format!("examples-c/{example}/main.cu")), 4, Processes, &two);
    }
}

/// What leaves its window, or names ids of others, ends the communicator by name there, too, and nothing of it is done.
#[test]
fn between_machines_bounds_hold() {
    for refused in ["bounds", "fine"] {
        all_ok(&program("refused"), 2, Processes, &[FAR[0], FAR[1], ("REFUSED", refused), ("NCCL_DEBUG", "NONE")]);
    }
}

/// Both processes take device 0.
fn both_on_one_device(env: Env) -> Output {
    let mut command = Command::new(prefix().join("bin/ginrs-run"));
    let alike = format!("LOCAL_RANK=0 exec {}", program("api").display());
    command.args(["-n", "2", "--timeout", "240", "sh", "-c", &alike]);
    on_cuda(&mut command, 1, env);
    command.output().expect("ginrs-run starts")
}

#[test]
fn two_ranks_on_one_device_only_if_told_so() {
    let refused = both_on_one_device(&[]);
    assert!(!refused.status.success() && text(&refused).contains("GINRS_SHARE_DEVICE=1"), "{}", text(&refused));
    let shared = both_on_one_device(&[("GINRS_SHARE_DEVICE", "1")]);
    assert!(shared.status.success() && text(&shared).matches("of 2: ok,").count() == 2, "{}", text(&shared));
}

/// Multicast teams as far as the host goes: made once, in the right order, with all memory in them. NCCL_NVLS_ENABLE=0 means that the
/// driver is not asked.
#[test]
fn multicast_teams() {
    let has = ("GINRS_MOCK_MULTICAST", "1");
    let multicast = program("multicast");
    for mode in [Processes, Threads] {
        all_ok(&multicast, 4, mode, &[has, ("MULTICAST", "teams")]);
        all_ok(&multicast, 2, mode, &[has, ("MULTICAST", "teams")]);
        all_ok(&multicast, 2, mode, &[("MULTICAST", "refused")]);
        let fail = ("GINRS_MOCK_FAIL", "cuMulticastCreate:1:999");
        all_ok(&multicast, 2, mode, &[has, ("MULTICAST", "refused"), ("NCCL_NVLS_ENABLE", "0"), fail]);
    }
    for call in ["cuMulticastCreate:1:801", "cuMulticastAddDevice:1:801", "cuMulticastBindMem:2:1"] {
        let output = start(&multicast, 3, Threads, &[has, ("MULTICAST", "teams"), ("GINRS_MOCK_FAIL", call)]);
        let said = text(&output);
        assert!(matches!(output.status.code(), Some(1..100)) && said.contains("GINRS-E086"), "{call}: {}\n{said}", output.status);
    }
}

/// Each process sees one device, and calls it 0: as under a scheduler that sets CUDA_VISIBLE_DEVICES.
#[test]
fn one_visible_device_per_process() {
    let mut command = Command::new(prefix().join("bin/ginrs-run"));
    let own = format!("CUDA_VISIBLE_DEVICES=$((2 - RANK)) LOCAL_RANK=0 exec {}", program("api").display());
    command.args(["-n", "3", "--timeout", "240", "sh", "-c", &own]);
    on_cuda(&mut command, 3, &[]);
    let output = command.output().expect("ginrs-run starts");
    assert!(output.status.success() && text(&output).matches("of 3: ok,").count() == 3, "{}", text(&output));
}

/// A plain C program, built against the installed tree.
fn c_program(source: &str) -> PathBuf {
    let out = folder().join(Path::new(source).file_stem().unwrap());
    let prefix = prefix();
    run(Command::new("gcc")
        .args(["-std=gnu11", "-Wall", "-o"])
        .arg(&out)
        .arg(root().join(source))
        .arg(format!("-I{}", prefix.join("include/ginrs").display()))
        .arg(format!("-L{}", prefix.join("lib").display()))
        .args(["-lginrs", "-ldl", &format!("-Wl,-rpath,{}", prefix.join("lib").display())]));
    out
}

#[test]
fn nothing_disturbs_a_capture() {
    let mut command = Command::new("timeout");
    on_cuda(command.arg("240").arg(c_program("abi-tests/programs/capture.c")), 2, &[("GINRS_MOCK_PRIVATE", "1")]);
    assert_eq!(run(&mut command).trim(), "capture ok");
}
