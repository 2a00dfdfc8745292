//! What loading libfabric may do to a process. And one that has no provider, or takes long to look for them: who keeps the others waiting
//! is told with what it does.

mod common;

use common::{join, processes, set_up, with_settings};
use ginrs::bootstrap::UniqueId;
use ginrs::comm::Comm;
use ginrs::devcomm::{Created, Requirements, create, destroy};
use ginrs::error::Result;
use std::ffi::CString;
use std::process::Command;

/// As much of libfabric as is called before there is a provider. If `slow`, the first search for one ends
/// when the file GINRS_TEST_GO exists.
const LIBRARY: &str = r#"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static int looks;
unsigned fi_version(void) { return 1 << 16 | 17; }
int fi_getinfo(unsigned version, const char* node, const char* service, unsigned long flags, const void* hints, void** info) {
  const char* monitor = getenv("FI_MR_CACHE_MONITOR");
  if (!monitor || strcmp(monitor, "disabled") != 0) abort(); // it would watch the program's memory
  if (SLOW && __sync_fetch_and_add(&looks, 1) == 0)
    for (int ms = 0; ms < 120000 && access(getenv("GINRS_TEST_GO"), F_OK) != 0; ms++) usleep(1000);
  return -61;
}
void fi_freeinfo(void* info) { free(info); }
void* fi_dupinfo(const void* info) {
  // All attributes at one place that is large enough for each.
  char* place = calloc(1, 4096);
  for (int i = 0; i < 5; i++) ((void**)(place + 72))[i] = place + 1024;
  return place;
}
int fi_fabric(void* attr, void** fabric, void* context) { return -38; }
const char* fi_strerror(int error) { return "No data available"; }
"#;

/// From now on that is libfabric in this process.
fn load(slow: bool) {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let pid = std::process::id();
    let (source, object) = (folder.join(format!("libfabric-{pid}.c")), folder.join(format!("libfabric-{pid}.so")));
    std::fs::write(&source, LIBRARY).unwrap();
    let slow = format!("-DSLOW={}", u8::from(slow));
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-Wl,-soname,libfabric.so.1", &slow, "-o"])
        .arg(&object)
        .arg(&source)
        .status();
    assert!(compiled.expect("a C compiler: apt-get install gcc").success());
    let path = CString::new(object.to_str().unwrap()).unwrap();
    // SAFETY: a library of our own without constructors.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    assert!(!handle.is_null());
    for path in [source, object] {
        std::fs::remove_file(path).unwrap();
    }
}

/// GIN's set-up.
fn gin(comm: &Comm) -> Result<Created> {
    create(&comm.devcomms, &comm.windows, &Requirements { gin_force_enable: true, ..Requirements::default() })
}

/// What GIN's set-up fails with on two ranks of two machines.
fn errors() -> Vec<String> {
    set_up();
    let id = UniqueId::create().unwrap();
    let error = &|rank| gin(&join(&id, rank, 2)).expect_err("there is no way").to_string();
    std::thread::scope(|scope| {
        let ranks = [0, 1].map(|rank| scope.spawn(move || error(rank)));
        ranks.map(|rank| rank.join().unwrap()).into()
    })
}

#[test]
fn no_provider_is_a_reason_on_all_ranks() {
    with_settings("no_provider_is_a_reason_on_all_ranks", &[("GINRS_FAKE_MACHINES", "0,1")], || {
        load(false);
        for error in errors() {
            assert!(
                error.contains("GINRS-E035")
                    && error.contains("ofi (rank ")
                    && error.contains(": libfabric has no provider for "),
                "{error}"
            );
        }
    });
}

/// Who has set it is told so: there is nothing to install.
#[test]
fn a_provider_that_is_none_is_told_with_its_variable() {
    let settings = [("GINRS_FAKE_MACHINES", "0,1"), ("GINRS_OFI_PROVIDER", "nope")];
    with_settings("a_provider_that_is_none_is_told_with_its_variable", &settings, || {
        for error in errors() {
            assert!(error.contains(": nope: ") && error.contains("GINRS_OFI_PROVIDER allows no other: unset it"), "{error}");
        }
    });
}

#[test]
fn who_looks_for_providers_for_long_is_said_to() {
    let name = "who_looks_for_providers_for_long_is_said_to";
    // The search of rank 0 ends after rank 1 has given it up.
    let folder = tempfile::tempdir().unwrap();
    let go = folder.path().join("go");
    let settings = [("GINRS_FAKE_MACHINES", "0,1"), ("GINRS_TIMEOUT", "8"), ("GINRS_TEST_GO", go.to_str().unwrap())];
    with_settings(name, &settings, || {
        // In processes of their own: the ranks of one share the answer.
        processes(name, 2, 1, |comm| {
            load(comm.team.rank == 0);
            comm.team.bootstrap.barrier("loaded").unwrap();
            let error = gin(comm).expect_err("there is no way");
            if comm.team.rank == 1 {
                std::fs::write(std::env::var_os("GINRS_TEST_GO").unwrap(), "").unwrap();
            }
            let text = error.to_string();
            assert!(text.contains("GINRS-E017") && text.contains("is in \"loading of network libraries\""), "{text}");
            // No more steps.
            comm.team.abort.raise(error);
        });
    });
}

/// The program's handlers stay its own: Debian's libfabric is linked with a library that takes some.
#[test]
fn no_signal_is_taken() {
    with_settings("no_signal_is_taken", &[("GINRS_FAKE_MACHINES", "0,1")], || {
        let handlers = || {
            (1..32).map(|signal| {
                // SAFETY: all of it may be zero; asked, not set.
                let mut now: libc::sigaction = unsafe { std::mem::zeroed() };
                // SAFETY: room for the answer.
                unsafe { libc::sigaction(signal, std::ptr::null(), &mut now) };
                (signal, now.sa_sigaction)
            })
        };
        let before: Vec<_> = handlers().collect();
        set_up();
        let id = UniqueId::create().unwrap();
        std::thread::scope(|scope| {
            for rank in 0..2 {
                let id = &id;
                scope.spawn(move || {
                    let comm = join(id, rank, 2);
                    destroy(&comm.devcomms, &comm.windows, &gin(&comm).unwrap().dev_comm).unwrap();
                    comm.team.bootstrap.barrier("end of test").unwrap();
                    comm.team.watch.leaving();
                });
            }
        });
        assert!(std::fs::read_to_string("/proc/self/maps").unwrap().contains("libfabric.so"), "it was not loaded");
        assert_eq!(handlers().collect::<Vec<_>>(), before);
    });
}
