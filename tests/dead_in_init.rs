//! A rank that ends in the last round of its communicator's creation, where the collectives are made: no rank's init succeeds.

mod common;

use common::{processes, with_settings};
use ginrs::bootstrap::{Cancel, UniqueId};
use ginrs::comm::create::{Request, create};
use ginrs::comm::{Comm, finish};
use ginrs::device;
use ginrs::fault::{self, Fault, Which};
use ginrs::team::Config;
use std::ffi::CString;
use std::process::Command;

/// As much of libginrs_cpu.so as set-up looks for; nothing is launched.
const KERNELS: &str = r#"
#define ZERO(name) int name(void) { return 0; }
int cudaEventCreateWithFlags(void** event) { static char made; *event = &made; return 0; }
int cudaDeviceGetAttribute(int* value) { *value = 512; return 0; }
ZERO(ginrs_cpu_collectives_launch_v1) ZERO(cudaEventDestroy) ZERO(cudaEventQuery) ZERO(cudaEventRecord) ZERO(cudaStreamWaitEvent)
ZERO(cudaStreamCreateWithFlags) ZERO(cudaStreamDestroy) ZERO(cudaStreamQuery)
ZERO(cudaStreamGetId) ZERO(cudaStreamGetCaptureInfo) ZERO(cudaGetLastError)
"#;

/// Compiles them and loads them for every later dlsym.
fn load_kernels() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let pid = std::process::id();
    let (source, object) = (folder.join(format!("kernels-{pid}.c")), folder.join(format!("kernels-{pid}.so")));
    std::fs::write(&source, KERNELS).unwrap();
    let compiled = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&object).arg(&source).status();
    assert!(compiled.expect("a C compiler: apt-get install gcc").success());
    let path = CString::new(object.to_str().unwrap()).unwrap();
    // SAFETY: a library of our own without constructors.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
    assert!(!handle.is_null());
    for path in [source, object] {
        std::fs::remove_file(path).unwrap();
    }
}

/// The round in which the collectives' device communicator is begun.
const ROUND: &str = "collectives";

/// Both ranks of `control` join anew; what each has of it.
fn again(control: &Comm, step: &str, fault: Option<Fault>) -> ginrs::error::Result<std::sync::Arc<Comm>> {
    let own = if control.team.rank == 0 { UniqueId::create().unwrap().bytes().to_vec() } else { Vec::new() };
    let ids = control.team.bootstrap.allgather(step, &own).unwrap();
    let ids = vec![UniqueId::from_bytes(ids[0][..].try_into().unwrap()).unwrap()];
    let (device, cancel) = (device::current().unwrap(), Cancel::new());
    fault::plant(fault);
    create(Request { ids, n_ranks: 2, rank: control.team.rank, config: Config::default(), device, origin: None, cancel })
}

fn named(name: &str) -> Which {
    Which::Named(name.into())
}

#[test]
fn a_rank_that_fails_in_the_last_round_of_init_fails_every_init() {
    let name = "a_rank_that_fails_in_the_last_round_of_init_fails_every_init";
    with_settings(name, &[("GINRS_TIMEOUT", "60"), ("NCCL_DEBUG", "NONE")], || {
        // Before any communicator: a process has kernels or has none.
        load_kernels();
        processes(name, 2, 1, |control| {
            let whole = again(control, "a whole one", None).unwrap();
            control.team.bootstrap.barrier("made").unwrap();
            finish::destroy(whole);
            // The survivor's exchange has failed a second before its abort hears of that.
            let fault = if control.team.rank == 0 { Fault::Slow(named("failure")) } else { Fault::Fail(named(ROUND)) };
            let made = again(control, "one that fails", Some(fault));
            let struck = fault::plant(None);
            let error = made.map(|_| ()).expect_err("init succeeded though a rank failed in it");
            let wanted = if control.team.rank == 0 { "failure" } else { ROUND };
            assert_eq!(struck.as_deref(), Some(wanted), "{error}");
            control.team.bootstrap.barrier("failed").unwrap();
        });
    });
}

#[test]
fn a_rank_that_ends_in_the_last_round_of_init_fails_every_init() {
    let name = "a_rank_that_ends_in_the_last_round_of_init_fails_every_init";
    common::set_up();
    let Ok(spec) = std::env::var("GINRS_TEST_RANK") else {
        let id = UniqueId::create().unwrap();
        let hex: String = id.bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        let start = |rank: u32| {
            let mut rank_of_it = Command::new(std::env::current_exe().unwrap());
            rank_of_it.args(["--exact", name, "--nocapture"]).env("GINRS_TEST_RANK", format!("{rank}/{hex}"));
            rank_of_it.envs([("GINRS_TIMEOUT", "60"), ("NCCL_DEBUG", "NONE")]).spawn().unwrap()
        };
        let [survivor, victim] = [0, 1].map(start).map(|mut rank| rank.wait().unwrap());
        assert!(survivor.success());
        assert_eq!(victim.code(), Some(1), "it did not end at that round");
        return;
    };
    load_kernels();
    let (rank, hex) = spec.split_once('/').unwrap();
    let bytes: Vec<u8> = (0..256).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect();
    let (rank, ids) = (rank.parse().unwrap(), vec![UniqueId::from_bytes(&bytes.try_into().unwrap()).unwrap()]);
    device::set_current(rank as i32).unwrap();
    let (device, cancel) = (device::current().unwrap(), Cancel::new());
    fault::plant(Some(if rank == 0 { Fault::Slow(named("failure")) } else { Fault::Exit(named(ROUND)) }));
    let made = create(Request { ids, n_ranks: 2, rank, config: Config::default(), device, origin: None, cancel });
    // A panic ends with another status than the planted end.
    let error = made.map(|_| ()).expect_err("init succeeded though a rank died in it");
    assert_eq!((error.code, error.culprit), (ginrs::error::Code::RemoteError, Some(1)), "{error}");
}
