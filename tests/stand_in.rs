//! The library beside a CUDA runtime: a stand-in for the stand-in, compiled against `ginrs_cpu/library.h` and loaded here.

#[path = "../src/hang_limit.rs"]
mod hang_limit;

use ginrs::abort::Abort;
use ginrs::device::{self, graveyard};
use ginrs::watch::Pulse;
use std::ffi::CString;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const RUNTIME: &str = r#"
#include <ginrs_cpu/library.h>
static int current, running;
static int (*step)(void*);
static void* context;
static char *noted, *forgotten, cuda[64];
static int kind_of_cuda = 2;
static int count(void) { return 3; }
static int get(void) { return current; }
static int set(int d) { current = d; return 0; }
static int kernels(int d) { return d == 1 ? running : 0; }
static void add(int d, int (*s)(void*), void* c) { step = d == 1 ? s : 0; context = c; }
static void take(int d, int (*s)(void*), void* c) { if (d == 1 && s == step && c == context) step = 0; }
static void note(void* b, size_t n, int d) { noted = d == 1 && n == (2u << 20) ? b : 0; }
static void forget(void* b) { forgotten = b; }
static int find(const void* p, void** b, size_t* n, int* k) {
  if ((char*)p < cuda || (char*)p >= cuda + sizeof cuda) return 0;
  *b = cuda; *n = sizeof cuda; *k = kind_of_cuda; return 1;
}
static int failed;
static int fail(int d) { return d == 1 ? failed : 0; }
/* As the first ones were: without what was appended. */
static const ginrsCpuRuntimeV1 table = {GINRS_CPU_RUNTIME_VERSION, offsetof(ginrsCpuRuntimeV1, wake), count, get, set, kernels, add, take, note, forget, find, fail, 0, 0, 0, 0, 0, 0};
const ginrsCpuRuntimeV1* ginrs_cpu_runtime_v1(void) { return &table; }
void test_fail(int code) { failed = code; }
void test_run(int n) { running = n; }
int test_step(int unused) { (void)unused; return step ? step(context) : -1; }
char* test_noted(int forgot) { return forgot ? forgotten : noted; }
char* test_cuda(int kind) { kind_of_cuda = kind; return cuda + 8; }
"#;

/// Compiles and loads it for every later dlsym.
fn load() -> impl Fn(&str, i32) -> usize {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (source, object) = (folder.join("stand_in.c"), folder.join("stand_in.so"));
    std::fs::write(&source, RUNTIME).unwrap();
    let include = concat!(env!("CARGO_MANIFEST_DIR"), "/cuda/cpu/include");
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-Wall", "-Werror", "-I", include, "-o"]).arg(&object).arg(&source);
    assert!(cc.status().expect("a C compiler: apt-get install gcc").success());
    let path = CString::new(object.to_str().unwrap()).unwrap();
    // SAFETY: a library of our own without constructors.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) } as usize;
    assert_ne!(handle, 0);
    move |name, argument| {
        let name = CString::new(name).unwrap();
        // SAFETY: the handle is never closed.
        let symbol = unsafe { libc::dlsym(handle as *mut _, name.as_ptr()) };
        assert!(!symbol.is_null());
        // SAFETY: every test_ function takes an int and returns nothing, an int or a pointer.
        let call: extern "C" fn(i32) -> usize = unsafe { std::mem::transmute(symbol) };
        call(argument)
    }
}

struct Falls(Arc<AtomicUsize>);

impl Drop for Falls {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn the_runtime_decides_about_devices_and_knows_memory() {
    let error = device::current().err().unwrap();
    assert!(error.id == 68 && error.text.contains("ginrs-cc"), "{error}");

    let call = load();
    assert_eq!(device::count().unwrap(), 3);
    assert!(device::get(3).err().unwrap().text.contains("this process sees 3 (0 to 2)"));
    device::set_current(1).unwrap();
    let device = device::current().unwrap();
    assert_eq!(device.ordinal(), 1);

    let base = device.alloc(100).unwrap();
    assert_eq!(call("test_noted", 0) as u64, base);
    for (kind, function) in [(2, "cudaMalloc"), (1, "cudaMallocHost"), (3, "cudaMallocManaged")] {
        let error = device.lookup(call("test_cuda", kind) as u64).err().unwrap();
        let expected = format!("{function} memory cannot be a window");
        assert!(error.text.starts_with(&expected) && error.text.contains("use ncclMemAlloc"), "{error}");
        assert_eq!((error.code as i32, error.id), (1, 52));
    }

    let moved = Arc::new(AtomicUsize::new(0));
    let counter = moved.clone();
    let guard = device.add_progress(Arc::new(move || counter.fetch_add(1, Ordering::Relaxed) == 0)).unwrap();
    assert_eq!((call("test_step", 0) as i32, call("test_step", 0) as i32), (1, 0));
    drop(guard);
    assert_eq!((call("test_step", 0) as i32, moved.load(Ordering::Relaxed)), (-1, 2));
    let _panics = device.add_progress(Arc::new(|| panic!("a step of this test")));
    assert_eq!(call("test_step", 0) as i32, 0);

    // A kernel that failed raises the aborts of its device's communicators, and of no others.
    let raised = |ordinal: i32| {
        let device = device::get(ordinal).unwrap();
        let abort = Arc::new(Abort::new(device.control(4096).unwrap()));
        (Pulse::watch(&device, &abort, 5, "comm 0x1".into(), None).unwrap(), abort)
    };
    let ((_healthy, other), (pulse, abort)) = (raised(0), raised(1));
    assert!(device.health().is_ok());
    call("test_fail", 719);
    let begin = std::time::Instant::now();
    while !abort.is_raised() {
        assert!(begin.elapsed() < hang_limit::HANG_LIMIT, "the failure is not noticed");
        std::thread::yield_now();
    }
    let cause = abort.cause().unwrap();
    assert_eq!((cause.id, cause.culprit), (84, Some(5)));
    assert!(cause.text.contains("a kernel of rank 5 failed | comm 0x1, device 1") && cause.text.contains("719"), "{cause}");
    assert!(!other.is_raised());
    drop(pulse);
    call("test_fail", 0);

    // While a kernel runs nothing goes away under it.
    let gone = Arc::new(AtomicUsize::new(0));
    call("test_run", 1);
    device.bury(Box::new(Falls(gone.clone())));
    device.free(base).unwrap();
    assert_eq!(call("test_noted", 1) as u64, base);
    // SAFETY: freed, but kept for the running kernel: what this test is about.
    assert_eq!(unsafe { std::ptr::read_volatile(base as *const u8) }, 0);
    graveyard::sweep();
    assert_eq!((gone.load(Ordering::Relaxed), graveyard::waiting()), (0, 2));
    device::get(0).unwrap().bury(Box::new(Falls(gone.clone())));
    assert_eq!(gone.load(Ordering::Relaxed), 1);
    call("test_run", 0);
    graveyard::sweep();
    assert_eq!((gone.load(Ordering::Relaxed), graveyard::waiting()), (2, 0));
}
