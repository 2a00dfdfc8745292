//! ginrs-gdb: CUDA threads that run, and those that do not, in a process that a debugger attaches to, in a core file, and at a breakpoint.
//! `debugger/threads.cu` has a thread in each kind of wait.

use abi_tests::{prefix, root, run, text};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

const SOURCE: &str = "abi-tests/debugger/threads.cu";

/// A folder of its own, with the program in it: `-O0`, so that variables are where a debugger looks for them.
fn program() -> PathBuf {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let compile = || {
        let folder = root().join("build/debugger");
        std::fs::create_dir_all(&folder).unwrap();
        let program = folder.join("threads");
        run(Command::new(prefix().join("bin/ginrs-cc")).args(["-g", "-O0", "-o"]).arg(&program).arg(root().join(SOURCE)));
        program
    };
    PROGRAM.get_or_init(compile).clone()
}

/// `threads.cu:25`, the line with this mark.
fn at(mark: &str) -> String {
    let source = std::fs::read_to_string(root().join(SOURCE)).unwrap();
    let line =
        source.lines().position(|line| line.ends_with(&format!("// at: {mark}"))).unwrap_or_else(|| panic!("no line of {mark}"));
    format!("threads.cu:{}", line + 1)
}

fn has_gdb() -> bool {
    let has = Command::new("gdb").arg("--version").output().is_ok_and(|output| output.status.success());
    if !has {
        eprintln!("SKIPPED: there is no gdb | fix: make deps");
    }
    has
}

/// What it prints when it runs these commands on a program, a process or a core file.
fn gdb(target: &[&str], commands: &[&str]) -> String {
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "240"]).arg(prefix().join("bin/ginrs-gdb")).args(["-nx", "-batch"]).env("COLUMNS", "1000");
    for line in ["set confirm off", "set width 0"].iter().chain(commands) {
        command.args(["-ex", line]);
    }
    text(&command.args(target).stdin(Stdio::null()).output().unwrap())
}

/// The program once its threads wait; it ends when it is dropped here.
struct Waiting(Child);

impl Waiting {
    fn begin() -> Waiting {
        // Core files are wanted of it.
        let line = "ulimit -c unlimited; exec \"$0\"";
        let mut command = Command::new("bash");
        command.args(["-c", line]).arg(program()).current_dir(program().parent().unwrap());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut said).unwrap();
        assert_eq!(said, "ready\n");
        let waiting = Waiting(child);
        // A wait tells of itself once it has lasted for many turns.
        let lasts = || gdb(&["-p", &waiting.id()], &["info cuda threads"]).matches(" (has 0)").count() == 2;
        assert!((0..60).any(|_| lasts()), "{}", gdb(&["-p", &waiting.id()], &["info cuda threads"]));
        waiting
    }

    fn id(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[track_caller]
fn has(output: &str, wanted: &[&str]) {
    let missing: Vec<_> = wanted.iter().filter(|text| !output.contains(**text)).collect();
    assert!(missing.is_empty(), "no {missing:?} in\n{output}");
}

/// What is said of threads that stand still, whether they belong to a process or to a core file.
const LOOK: [&str; 18] = [
    "info cuda threads",
    "info cuda kernels",
    "info cuda blocks",
    "cuda block 0 thread (3,0,0)",
    "backtrace",
    "print value",
    "up",
    "print mine",
    "cuda block (1,0,0) thread (0,0,0)",
    "backtrace",
    "print mine",
    "cuda block 2 thread 5,1",
    "print mine",
    "print $threadIdx",
    "print $blockIdx.x",
    "cuda thread",
    "cuda off",
    "cuda thread",
];

#[track_caller]
fn shows_all(output: &str) {
    let wanted = [
        "device 0, grid (3,1,1), block (32,2,1)".into(),
        format!("launched at {}/{}", root().join("abi-tests/debugger").display(), at("launch")),
        format!("threads.cu:{} [31]", at("shuffle").trim_start_matches("threads.cu:")),
        "block (0,0,0) thread (0,0,0)-(30,0,0): in __shfl_sync at ".into(),
        "block (0,0,0) thread (0,1,0)-(31,1,0): in __syncthreads at ".into(),
        format!("{} [32]", at("barrier")),
        "block (1,0,0) thread (0,0,0): waits for signal 1 >= 1 (has 0) of context 0 at ".into(),
        at("signal"),
        format!("{} [63]", at("others")),
        "waits for signal 2 >= 3 (has 0) of context 0 at ".into(),
        "in a call for signal 2 of context 0, in __syncthreads at ".into(),
        at("group"),
        "3 blocks run, of grid (3,1,1)".into(),
        "block (2,0,0): 64 of 64 threads live, thread ".into(),
        "exchange(int) (value=3)".into(),
        "$1 = 3\n".into(),
        "$2 = 3\n".into(),
        "$3 = 1000\n".into(),
        "$4 = 2037\n".into(),
        "$5 = {x = 5, y = 1, z = 0}".into(),
        "$6 = 2\n".into(),
        "thread (5,1,0) of block (2,0,0) of kernel kernel\n".into(),
        "no CUDA thread is in focus".into(),
    ];
    has(output, &wanted.iter().map(String::as_str).collect::<Vec<_>>());
    // The one that spins is on its way or runs, as it happens.
    let spins = output.lines().find(|line| line.contains("thread (31,0,0): ")).unwrap_or_else(|| panic!("{output}"));
    assert!(spins.ends_with(&at("spin")) && (spins.contains(": runs") || spins.contains(": may go on")), "{spins}");
    assert!(!output.contains("Python Exception") && !output.contains("corrupt stack"), "{output}");
}

#[test]
fn a_process_that_hangs_is_looked_at() {
    if has_gdb() {
        let mut waiting = Waiting::begin();
        shows_all(&gdb(&["-p", &waiting.id()], &LOOK));
        // It was not disturbed: it goes on to its end.
        drop(waiting.0.stdin.take());
        assert!(waiting.0.wait().unwrap().success());
    }
}

#[test]
fn so_is_a_core_file() {
    if !has_gdb() {
        return;
    }
    let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap();
    if pattern.trim() != "core" {
        eprintln!("SKIPPED: core files go to {} here, not to the folder of the process", pattern.trim());
        return;
    }
    let mut waiting = Waiting::begin();
    let folder = program().parent().unwrap().to_owned();
    let cores = [folder.join("core"), folder.join(format!("core.{}", waiting.id()))];
    cores.iter().for_each(|core| drop(std::fs::remove_file(core)));
    run(Command::new("kill").args(["-ABRT", &waiting.id()]));
    waiting.0.wait().unwrap();
    let core = cores.iter().find(|core| core.exists()).expect("a core file");
    shows_all(&gdb(&[program().to_str().unwrap(), core.to_str().unwrap()], &LOOK));
    std::fs::remove_file(core).unwrap();
}

#[test]
fn a_breakpoint_stops_one_thread_of_one_block() {
    if !has_gdb() {
        return;
    }
    let line = at("shuffle");
    let stop = format!("break {line} if $cuda_block(0) && $cuda_thread(5)");
    let commands = [
        &stop,
        "run > /dev/null < /dev/null",
        "print $threadIdx",
        "print $blockDim",
        "cuda thread",
        "print tenfold",
        "cuda thread 3",
        "up",
        "print mine",
        "cuda block 0 thread 5",
        "backtrace",
        "continue",
    ];
    let output = gdb(&[program().to_str().unwrap()], &commands);
    let wanted = [
        "hit Breakpoint 1, exchange (value=5)",
        "$1 = {x = 5, y = 0, z = 0}",
        "$2 = {x = 32, y = 2, z = 1}",
        "thread (5,0,0) of block (0,0,0) of kernel kernel\n",
        "$3 = 50\n",
        "$4 = 3\n",
        "exchange(int) (value=5)",
        "exited normally",
    ];
    has(&output, &wanted);
}

#[test]
fn what_is_not_there_is_said() {
    if !has_gdb() {
        return;
    }
    let output = gdb(&["/bin/true"], &["info cuda threads", "cuda thread 1"]);
    has(&output, &["no libginrs_cpu.so with a table for debuggers is loaded here (yet)"]);
    let waiting = Waiting::begin();
    let commands = [
        "cuda thread 32",
        "cuda block 3",
        "cuda lane 1",
        "cuda thread x",
        "cuda thread 1,2,3,4",
        "cuda device 1 thread 0",
        "cuda",
    ];
    let output = gdb(&["-p", &waiting.id()], &commands);
    let wanted = [
        "block (0,0,0) has (32,2,1) threads, none (32,0,0)",
        "no such block runs",
        "usage: cuda [kernel N] [device N] [block X,Y,Z] [thread X,Y,Z], or cuda off",
        "`x' is no number",
        "too many numbers behind `thread'",
    ];
    has(&output, &wanted);
}
