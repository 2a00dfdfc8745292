//! What the library launches for collectives on GPUs, kernel for kernel, over the driver stand-in: it runs no kernels, but writes
//! them down. Needs GINRS_PREFIX (`make test` sets it).

use abi_tests::{prefix, root, run};
use std::path::{Path, PathBuf};
use std::process::Command;

/// One line of the stand-in's.
#[derive(Debug)]
struct Launch {
    kernel: String,
    blocks: (u32, u32),
    stream: String,
    parameter: Vec<u8>,
}

impl Launch {
    fn parse(line: &str) -> Self {
        let [kernel, x, y, _threads, stream, hex] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let byte = |i: usize| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap();
        Self {
            kernel: kernel.into(),
            blocks: (x.parse().unwrap(), y.parse().unwrap()),
            stream: stream.into(),
            parameter: (0..hex.len() / 2).map(byte).collect(),
        }
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.parameter[at..at + 4].try_into().unwrap())
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.parameter[at..at + 8].try_into().unwrap())
    }

    /// cuda/collectives/work.h: count, bytes of an element, kind, how, op, root.
    fn call(&self) -> (&str, u64, [u32; 5]) {
        (&self.kernel, self.u64(352), [376, 380, 384, 388, 392].map(|at| self.u32(at)))
    }
}

/// To the stand-in any bytes that begin like this are kernels.
fn fatbin(folder: &Path) -> PathBuf {
    let path = folder.join("kernels.fatbin");
    std::fs::write(&path, 0xba55_ed50u32.to_le_bytes()).unwrap();
    path
}

/// Runs the program with the stand-in as libcuda.so.1; what it launched on `rank`, in order, and what it printed.
fn launched(folder: &Path, env: &[(&str, &Path)]) -> (Vec<Launch>, String) {
    launched_by("launches", folder, env)
}

/// The same of another program of abi-tests/launches.
fn launched_by(name: &str, folder: &Path, env: &[(&str, &Path)]) -> (Vec<Launch>, String) {
    let library = std::env::current_exe().unwrap().parent().unwrap().join("libmock_cuda.so");
    let (driver, program, log) = (folder.join("driver"), folder.join("launches"), folder.join("log"));
    if !driver.exists() {
        std::fs::create_dir(&driver).unwrap();
        for name in ["libcuda.so.1", "libcuda.so"] {
            std::os::unix::fs::symlink(&library, driver.join(name)).unwrap();
        }
        let lib = prefix().join("lib");
        run(Command::new("gcc")
            .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-g", "-o"])
            .arg(&program)
            .arg(root().join(format!("abi-tests/launches/{name}.c")))
            .arg(format!("-I{}", prefix().join("include/ginrs").display()))
            .arg(format!("-L{}", lib.display()))
            .arg(format!("-L{}", driver.display()))
            .args(["-lginrs", "-lcuda", &format!("-Wl,-rpath,{}", lib.display())]));
    }
    let mut command = Command::new("timeout");
    command.args(["-s", "ABRT", "60"]).arg(&program).env("LD_LIBRARY_PATH", &driver).env_remove("GINRS_KERNELS");
    command.env("GINRS_DEVICE", "cuda").env("GINRS_MOCK_DEVICES", "2").env("GINRS_MOCK_LAUNCHES", &log).envs(env.iter().copied());
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines = std::fs::read_to_string(&log).unwrap_or_default();
    (lines.lines().map(Launch::parse).collect(), text)
}

#[test]
fn every_call_launches_its_kernel_with_its_arguments() {
    let folder = tempfile::tempdir().unwrap();
    let (all, text) = launched(folder.path(), &[("GINRS_KERNELS", &fatbin(folder.path()))]);
    assert!(text.contains("launches ok"), "{text}");
    for rank in 0..2u32 {
        let own: Vec<&Launch> = all.iter().filter(|launch| launch.u32(0) == rank).collect();
        assert!(own.iter().all(|launch| launch.u32(4) == 2));
        let calls: Vec<_> = own.iter().filter(|launch| launch.kernel != "ginrs_p2p").map(|launch| launch.call()).collect();
        // (kernel, count, [element, kind, how, op, root]); how: 0 LL, 1 direct, 2 staged, 3 buffered, 4 mapped.
        let expected = [
            ("ginrs_reduce_ll_f32", 5, [4, 0, 0, 2, 0]),
            ("ginrs_reduce_bf16", 3 << 20, [2, 0, 4, 9, 0]),
            ("ginrs_reduce_i32", 1 << 18, [4, 0, 1, 4, 0]),
            ("ginrs_ll", 4096, [1, 3, 0, 0, 0]),
            ("ginrs_copy", 77, [2, 4, 2, 0, 1]),
            ("ginrs_reduce_ll_f64", 100, [8, 1, 0, 6, 0]),
            ("ginrs_copy", 9, [4, 6, 2, 0, 1]),
            ("ginrs_reduce_ll_i64", 1, [8, 0, 0, 8, 0]),
        ];
        assert_eq!(calls, expected, "rank {rank}");
        // Staged, or mapped, which may become that: a block for each channel that the kernel is told of.
        for staged in [1, 4] {
            assert_eq!(own[staged].blocks, (own[staged].u32(396), 1));
        }
        // Window and offset beside the address; what a rank does not use is not there.
        let (send, recv) = (own[3].u64(200), own[3].u64(224));
        assert_eq!(send - recv, 4096 * u64::from(rank));
        assert!(own[3].u64(232) != 0 && own[3].u64(240) == 1 << 20, "window and offset of the receive buffer");
        assert_eq!(own[4].u64(200) != 0, rank == 1, "the root's send buffer alone");
        assert_eq!(f64::from_bits(own[5].u64(360)), 2.5);

        // One launch takes the group's messages, behind the all-reduce that was called between them.
        let last = own.last().unwrap();
        assert_eq!((last.kernel.as_str(), last.u32(248), last.u32(252)), ("ginrs_p2p", 3, 2));
        let item = |i: usize| (last.u64(280 + 32 * i + 8), last.u32(280 + 32 * i + 16), last.u32(280 + 32 * i + 20));
        let (peer, bytes) = (1 - rank, 1 << 20);
        assert_eq!([0, 1, 2, 3, 4].map(item), [(0, rank, 0), (80, peer, 1), (bytes, peer, 1), (0, rank, 0), (bytes, peer, 1)]);
        assert_eq!(last.blocks, (last.u32(256) * last.u32(260), 1));
        assert_ne!(own[0].stream, own[4].stream);
    }
}

/// What a launch costs the host: the driver is asked for nothing twice.
#[test]
fn a_launch_is_seven_calls_of_the_driver() {
    let folder = tempfile::tempdir().unwrap();
    let calls = folder.path().join("calls");
    let (_, text) = launched(folder.path(), &[("GINRS_KERNELS", &fatbin(folder.path())), ("GINRS_MOCK_CALLS", &calls)]);
    assert!(text.contains("launches ok"), "{text}");
    let calls = std::fs::read_to_string(calls).unwrap();
    let (thread, _) = calls.lines().find_map(|line| line.split_once(" cuLaunchKernel")).unwrap();
    let of_thread = calls.lines().filter_map(|line| line.strip_prefix(thread)?.strip_prefix(' '));
    // A kernel is looked up at its first launch.
    let names: Vec<&str> = of_thread.filter(|name| *name != "cuModuleGetFunction").collect();
    let mut rest = &names[names.iter().position(|name| *name == "cuLaunchKernel").unwrap() + 1..];
    let mut found = std::collections::BTreeSet::new();
    while let Some(begin) = rest.iter().position(|name| *name == "cuCtxGetCurrent") {
        let end =
            rest[begin + 1..].iter().position(|name| *name == "cuCtxGetCurrent").map_or(rest.len(), |next| begin + 1 + next);
        found.insert(rest[begin..end].join(" "));
        rest = &rest[end..];
    }
    // In the thread's own context and in another one; on the stream of the call before and on another one.
    for (push, pop) in [("", ""), ("cuCtxPushCurrent ", " cuCtxPopCurrent")] {
        for wait in ["", "cuStreamWaitEvent "] {
            let mode = "cuThreadExchangeStreamCaptureMode";
            let launch = format!(
                "cuCtxGetCurrent {push}{mode} cuStreamGetCaptureInfo cuStreamGetId {wait}cuLaunchKernel cuEventRecord {mode}{pop}"
            );
            assert!(found.contains(&launch), "{launch}\n{found:#?}");
        }
    }
}

/// A call in place is nothing, one elsewhere a copy of the driver's; the bytes are looked at by the program.
#[test]
fn one_rank_needs_a_kernel_for_factors_alone() {
    let folder = tempfile::tempdir().unwrap();
    let kernels = fatbin(folder.path());
    let (all, text) = launched_by("one_rank", folder.path(), &[("GINRS_KERNELS", &kernels)]);
    assert!(text.contains("one rank ok"), "{text}");
    let kernels: Vec<&str> = all.iter().map(|launch| launch.kernel.as_str()).collect();
    assert_eq!(kernels, ["ginrs_buffered"]);
}

/// Between teams a call with other bytes for each rank has the slots of all pairs of ranks where others have those of rails.
#[test]
fn calls_along_rails_get_the_slots_that_they_use() {
    let folder = tempfile::tempdir().unwrap();
    let teams = ("GINRS_FAKE_NODES", Path::new("0,1"));
    let (all, text) =
        launched(folder.path(), &[("GINRS_KERNELS", &fatbin(folder.path())), teams, ("GINRS_COLLECTIVE", Path::new("ring"))]);
    assert!(text.contains("launches ok"), "{text}");
    let slots = |launch: &Launch| (launch.parameter[248..296].to_vec(), launch.parameter[296..344].to_vec());
    for rank in 0..2u32 {
        let is_buffered =
            |launch: &&Launch, kind| launch.kernel == "ginrs_buffered" && launch.u32(0) == rank && launch.call().2[1] == kind;
        let of = |kind| all.iter().find(|launch| is_buffered(launch, kind)).unwrap();
        let (gather, broadcast) = (of(6), of(4));
        assert_eq!(gather.call().2, [4, 6, 3, 0, 1]);
        let (inbox, rails) = slots(broadcast);
        assert_ne!(inbox, rails);
        assert_eq!(slots(gather), (inbox.clone(), inbox));
    }
}

/// What has no such operation goes as it would: pre-mul-sums, and calls of buffers in no window.
#[test]
fn the_switch_is_asked_for_what_it_can() {
    let folder = tempfile::tempdir().unwrap();
    let asked = ("GINRS_COLLECTIVE", Path::new("multicast"));
    for (has_switch, reduces, gathers) in
        [("1", ("ginrs_multicast", 5), ("ginrs_multicast", 5)), ("0", ("ginrs_reduce_i32", 1), ("ginrs_ll", 0))]
    {
        let kernels = fatbin(folder.path());
        let env = [("GINRS_KERNELS", kernels.as_path()), asked, ("GINRS_MOCK_MULTICAST", Path::new(has_switch))];
        let (all, text) = launched(folder.path(), &env);
        assert!(text.contains("launches ok"), "{text}");
        for rank in 0..2 {
            let own: Vec<_> = all.iter().filter(|launch| launch.u32(0) == rank).map(|launch| launch.call()).collect();
            let of = |i: usize| (own[i].0, own[i].2[2]);
            assert_eq!((of(2), of(3)), (reduces, gathers), "with {has_switch}");
            assert_eq!((of(0).0, of(5).0), ("ginrs_reduce_ll_f32", "ginrs_reduce_ll_f64"));
        }
        std::fs::remove_file(folder.path().join("log")).unwrap();
    }
}

/// cuda/collectives/work.h: where rank `peer` sees the receive buffer, as a launch tells it.
fn told(launch: &Launch, peer: u32) -> u64 {
    launch.u64(680 + 8 * peer as usize)
}

/// What `program`, two processes, launches where buffers in no window are to be mapped, and what it prints.
fn mapped_by(program: &str) -> (Vec<Launch>, String) {
    let folder = tempfile::tempdir().unwrap();
    let mapped = ("GINRS_COLLECTIVE", Path::new("mapped"));
    let (all, text) = launched_by(program, folder.path(), &[("GINRS_KERNELS", &fatbin(folder.path())), mapped]);
    assert!(text.contains(&format!("{program} ok")), "{text}");
    (all, text)
}

/// A launch tells where both ranks see its buffer: at the same place of what the other one has opened, and not of memory that was freed. What was
/// freed is let go of while the communicator lives.
#[test]
fn memory_is_lent_to_the_other_process_from_its_second_call_on() {
    let (all, text) = mapped_by("mapped");
    for rank in 0..2u32 {
        let own: Vec<&Launch> = all.iter().filter(|launch| launch.u32(0) == rank).collect();
        assert!(own.iter().all(|launch| launch.kernel == "ginrs_copy" && launch.call().2[2] == 4), "{own:?}");
        let recv = |launch: &Launch| launch.u64(224);
        // The second round's memory is at the first one's addresses: its first call tells nothing of what was there.
        assert_eq!(recv(own[0]), recv(own[32]), "{text}");
        for round in 0..2 {
            let calls = &own[32 * round..][..32];
            for (i, launch) in calls.iter().enumerate() {
                let [here, there] = [rank, 1 - rank].map(|rank| told(launch, rank));
                let seen = here == recv(launch) && there % (2 << 20) == 4096;
                assert!(seen || (here, there) == (0, 0), "round {round}, call {i}: {here:#x} {there:#x}");
                // What is opened in the background is there for a later call, at the latest for the eighth.
                assert!(if i < 1 { !seen } else { seen || i < 7 }, "round {round}, call {i}: {here:#x} {there:#x}");
            }
        }
        let steps: Vec<&str> = text.lines().filter(|line| line.starts_with(&format!("rank {rank} step"))).collect();
        let opened = |step: usize| -> u32 {
            let line = steps[step].rsplit_once(", ").unwrap().1;
            line.split_once(' ').unwrap().0.parse().unwrap()
        };
        // One mapping each of the rank's own that are lent and of the other's: of the first rounds' and of what was freed last none.
        assert_eq!([7, 15, 16, 17, 18].map(opened), [2, 2, 64 + 64, 0, 0], "{text}");
    }
}

/// The same of memory that the program has mapped in pieces: one loan of both pieces in which a buffer lies, and another when one of them is exchanged. What
/// cannot be lent, or is not of one size, is told to nobody.
#[test]
fn mapped_pieces_are_lent_together() {
    let (all, text) = mapped_by("pieces");
    for rank in 0..2u32 {
        let own: Vec<&Launch> = all.iter().filter(|launch| launch.u32(0) == rank).collect();
        assert!(own.len() == 32 + 32 + 12 + 12 && own.iter().all(|launch| launch.kernel == "ginrs_copy"), "{own:?}");
        for (i, launch) in own.iter().enumerate() {
            let (here, there) = (told(launch, rank), told(launch, 1 - rank));
            let (lent, call) = if i < 64 { (true, i % 32) } else { (false, i) };
            let seen = here == launch.u64(224) && there % (2 << 20) == 1 << 20;
            assert!(seen || (here, there) == (0, 0), "call {i}: {here:#x} {there:#x}");
            assert!(if !lent || call < 1 { !seen } else { seen || call < 7 }, "call {i}: {here:#x} {there:#x}");
        }
    }
    assert_eq!(text.matches(": 0 mappings more than at first").count(), 2, "{text}");
}

#[test]
fn without_kernels_a_collective_says_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let fake = folder.path().join("fake");
    std::fs::write(&fake, "no kernels").unwrap();
    for (path, part) in [(fake, "no fatbin"), (folder.path().join("nowhere"), "cannot read the kernels")] {
        let (all, text) = launched(folder.path(), &[("GINRS_KERNELS", &path)]);
        assert!(all.is_empty() && text.contains("GINRS-E090") && text.contains(part), "{text}");
        assert!(text.contains("ncclGroupEnd(): 5"), "communicator and windows were made before: {text}");
    }
}
