//! The CUDA device by itself, over the driver stand-in: its device memory is mapped at the same addresses for the host, new memory
//! is not zero, and calls fail when told to.

mod common;

use common::hang_limit::{HANG_LIMIT, hang_deadline};
use common::{load, store, with_settings};
use ginrs::device::{self, Device, Kind, MemCopy};
use ginrs::error::{Code, Error};
use std::ffi::{c_int, c_void};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const MIB: usize = 1 << 20;

/// Runs `body` in a process whose driver is the stand-in.
fn on_cuda(name: &str, settings: &[(&str, &str)], body: impl FnOnce()) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("driver");
    let library = std::env::current_exe().unwrap().parent().unwrap().join("libmock_cuda.so");
    std::fs::create_dir_all(&folder).unwrap();
    for name in ["libcuda.so", "libcuda.so.1"] {
        // Tests start at the same time, and a folder that was copied has links to where it came from.
        if std::fs::read_link(folder.join(name)).ok().as_ref() != Some(&library) {
            let link = tempfile::tempdir_in(&folder).unwrap();
            std::os::unix::fs::symlink(&library, link.path().join(name)).unwrap();
            std::fs::rename(link.path().join(name), folder.join(name)).unwrap();
        }
    }
    let mut all = vec![("GINRS_DEVICE", "cuda"), ("LD_LIBRARY_PATH", folder.to_str().unwrap())];
    all.extend(settings);
    with_settings(name, &all, body);
}

fn first() -> Arc<dyn Device> {
    let device = device::get(0).unwrap();
    assert_eq!(device.kind(), Kind::Cuda);
    device
}

/// A function of the driver, for what only the caller of the library would ask.
fn driver<F>(name: &std::ffi::CStr) -> F {
    // SAFETY: the library is loaded by the device; callers name the symbol's own type.
    unsafe {
        let library = libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW);
        let symbol = libc::dlsym(library, name.as_ptr());
        assert!(!symbol.is_null(), "{name:?}");
        std::mem::transmute_copy(&symbol)
    }
}

fn context() -> *mut c_void {
    let mut context = std::ptr::null_mut();
    let ask: unsafe extern "C" fn(*mut *mut c_void) -> c_int = driver(c"cuCtxGetCurrent");
    // SAFETY: a valid place to write to.
    assert_eq!(unsafe { ask(&mut context) }, 0);
    context
}

/// The thread's capture mode; asking sets it to global, where it is for who never touched it.
fn capture_mode() -> c_int {
    let mut mode = 0;
    let exchange: unsafe extern "C" fn(*mut c_int) -> c_int = driver(c"cuThreadExchangeStreamCaptureMode");
    // SAFETY: a valid place to read and write.
    assert_eq!(unsafe { exchange(&mut mode) }, 0);
    mode
}

#[test]
fn the_callers_context_is_as_before_on_every_path() {
    on_cuda("the_callers_context_is_as_before_on_every_path", &[("GINRS_MOCK_FAIL", "cuMemMap:3:2")], || {
        let (zero, one) = (first(), device::get(1).unwrap());
        assert!(context().is_null());
        device::set_current(1).unwrap();
        let mine = context();
        let (mut right, mut refused) = (0, 0);
        for device in [&zero, &one] {
            for _ in 0..3 {
                match device.alloc(MIB).and_then(|at| device.write(at, &[7; 8]).and(device.free(at))) {
                    Ok(()) => right += 1,
                    Err(error) => {
                        assert_eq!(error.id, 72, "{error}");
                        refused += 1;
                    }
                }
                assert_eq!((context(), capture_mode()), (mine, 0));
            }
        }
        assert_eq!((right, refused, device::current().unwrap().ordinal()), (5, 1, 1));
    });
}

#[test]
fn transfers_are_exact_at_any_length() {
    on_cuda("transfers_are_exact_at_any_length", &[], || {
        let device = first();
        let memory = device.objects(300_000).unwrap();
        assert!(memory.device().is_multiple_of(256));
        assert!((0..300_000 / 8).all(|i| load(memory.device() + 8 * i) == 0));
        // Longer than the staging buffer, and not a multiple of anything.
        let bytes: Vec<u8> = (0..200_003u32).map(|i| (i * 7 + i / 256) as u8).collect();
        device.write(memory.device() + 8, &bytes).unwrap();
        let mut back = vec![0; 200_004];
        device.read(memory.device() + 8, &mut back).unwrap();
        assert_eq!((&back[..200_003], back[200_003]), (&bytes[..], 0));
        device.zero(memory.device() + 13, 150_000).unwrap();
        device.read(memory.device() + 8, &mut back).unwrap();
        assert!(
            back[..5] == bytes[..5] && back[5..150_005].iter().all(|&b| b == 0) && back[150_005..200_003] == bytes[150_005..]
        );
        assert!(device.write(memory.device() + 4, &[1]).is_err() && device.read(memory.device() + 2, &mut back[..4]).is_err());
    });
}

/// What a process with copies in two queues says of kernels that load lazily (W027), and with queues alone nothing.
fn told_of_lazy_kernels(name: &str, loading: &str, wanted: &[&str]) {
    let log = tempfile::NamedTempFile::new().unwrap();
    let settings = [("CUDA_MODULE_LOADING", loading), ("NCCL_DEBUG", "INFO"), ("NCCL_DEBUG_FILE", log.path().to_str().unwrap())];
    on_cuda(name, &settings, || {
        if std::env::var("CUDA_MODULE_LOADING").unwrap() == "unset" {
            // SAFETY: this process has one test, and no other thread yet that reads the environment.
            unsafe { std::env::remove_var("CUDA_MODULE_LOADING") };
        }
        let log = || std::fs::read_to_string(std::env::var("NCCL_DEBUG_FILE").unwrap()).unwrap();
        let devices = [first(), device::get(1).unwrap()];
        let queues = devices.each_ref().map(|device| device.copy_queue().unwrap());
        assert!(!log().contains("GINRS-W027"));
        for (device, mut queue) in devices.iter().zip(queues) {
            let at = device.alloc(MIB).unwrap();
            queue.copy(&[MemCopy { from: at, to: at + 64, bytes: 64 }]).unwrap();
            drop(queue);
            device.free(at).unwrap();
        }
        let said = log();
        let told: Vec<_> = said.lines().filter_map(|line| line.split_once(" GINRS-W027 ")).collect();
        let levels: Vec<_> = told.iter().map(|(head, _)| head.rsplit(' ').next().unwrap()).collect();
        assert_eq!(levels, wanted, "{said}");
    });
}

#[test]
fn kernels_that_load_lazily_unasked_are_told() {
    told_of_lazy_kernels("kernels_that_load_lazily_unasked_are_told", "unset", &["WARN"]);
}

#[test]
fn kernels_that_load_lazily_as_asked_are_told_to_who_asks() {
    told_of_lazy_kernels("kernels_that_load_lazily_as_asked_are_told_to_who_asks", "LAZY", &["INFO"]);
}

#[test]
fn kernels_that_are_loaded_are_not_told() {
    told_of_lazy_kernels("kernels_that_are_loaded_are_not_told", "EAGER", &[]);
}

/// Driver 580 puts what is pinned behind other pinned memory on 512 bytes: PyTorch's `item()` before the first communicator.
#[test]
fn control_memory_is_whole_pages_in_a_program_that_has_pinned_memory() {
    on_cuda("control_memory_is_whole_pages_in_a_program_that_has_pinned_memory", &[], || {
        let device = first();
        device::set_current(0).unwrap();
        let pin: unsafe extern "C" fn(*mut *mut c_void, usize, u32) -> c_int = driver(c"cuMemHostAlloc");
        let mut pinned = [std::ptr::null_mut(); 2];
        for at in &mut pinned {
            // SAFETY: a valid place to write to.
            assert_eq!(unsafe { pin(at, 512, 0) }, 0);
        }
        assert_eq!(pinned.map(|at| at.addr() % 4096), [0, 512]);
        for bytes in [1, 4096, 3 * MIB] {
            let control = device.control(bytes).unwrap();
            let at = control.device();
            assert_eq!((at % 4096, control.host().as_ptr() as u64), (0, at));
            let last = at + (bytes.next_multiple_of(4096) - 8) as u64;
            store(last, 1);
            assert_eq!((load(at), load(last)), (0, 1));
        }
    });
}

#[test]
fn memory_that_comes_back_is_zero_again() {
    on_cuda("memory_that_comes_back_is_zero_again", &[], || {
        let device = first();
        let dirty = |at: u64| (0..512).for_each(|i| store(at + 8 * i, u64::MAX));
        let clean = |at: u64| (0..512).all(|i| load(at + 8 * i) == 0);
        let (object, control) = (device.objects(4096).unwrap(), device.control(4096).unwrap());
        let (at, host) = (object.device(), control.host().as_ptr() as u64);
        dirty(at);
        dirty(host);
        drop((object, control));
        let (object, control) = (device.objects(4096).unwrap(), device.control(1).unwrap());
        assert_eq!((object.device(), control.host().as_ptr() as u64, control.device()), (at, host, host));
        assert!(clean(at) && clean(host));
        let physical = device.create(3 * MIB).unwrap();
        let space = device.reserve(8 * MIB, 512 * MIB).unwrap();
        assert_eq!((physical.bytes(), space.base() % (512 * MIB) as u64), (4 * MIB, 0));
        space.map(2 * MIB, &physical).unwrap();
        assert!((0..4 * MIB as u64 / 8).all(|i| load(space.base() + 2 * MIB as u64 + 8 * i) == 0));
        assert!(space.map(2 * MIB, &physical).is_err() && space.map(6 * MIB, &physical).is_err());
        space.unmap(2 * MIB, 4 * MIB).unwrap();
        space.map(4 * MIB, &physical).unwrap();
    });
}

#[test]
fn an_allocation_is_one_object_and_freed_once() {
    on_cuda("an_allocation_is_one_object_and_freed_once", &[], || {
        let device = first();
        let at = device.alloc(3 * MIB).unwrap();
        let (found, again) = (device.lookup(at + 5).unwrap(), device.lookup(at + 4 * MIB as u64 - 1).unwrap());
        assert_eq!((found.base, found.bytes), (at, 4 * MIB));
        assert_eq!(found.physical.key(), again.physical.key());
        // The host's memory stands in the same lists.
        let own: Vec<u64> = (0..16).map(|_| device.lookup(device.alloc(8).unwrap()).unwrap().physical.key()).collect();
        let host: Vec<u64> = (0..16).map(|_| device.create_shared(8).unwrap().key()).collect();
        assert!(!host.iter().any(|key| own.contains(key)), "{host:?} {own:?}");
        let inside = device.free(at + 8).unwrap_err();
        assert!(inside.code == Code::InvalidArgument && inside.text.contains("0x8 bytes inside"), "{inside}");
        device.free(at).unwrap();
        assert_eq!(device.free(at).unwrap_err().id, 62);
        let refused = |what: &str, error: Error| {
            assert_eq!((error.code, error.id), (Code::UnhandledCudaError, 52));
            assert!(error.text.starts_with(what), "{error}");
        };
        let local = 0u64;
        refused("host memory", device.lookup(&raw const local as u64).err().unwrap());
        let pinned = device.control(8).unwrap();
        refused("cudaMallocHost memory", device.lookup(pinned.device()).err().unwrap());
    });
}

#[test]
fn a_full_device_says_how_full() {
    on_cuda("a_full_device_says_how_full", &[("GINRS_MOCK_MEMORY", "64")], || {
        let error = first().alloc(65 * MIB).unwrap_err();
        assert_eq!((error.code, error.id), (Code::UnhandledCudaError, 72));
        assert!(error.text.contains("free") && error.text.contains(&format!("{} bytes", 66 * MIB)), "{error}");
        // What is on its way out is waited for.
        struct Slow(Option<Arc<dyn device::Physical>>);
        impl Drop for Slow {
            fn drop(&mut self) {
                std::thread::sleep(Duration::from_millis(20));
                self.0.take();
            }
        }
        let device = first();
        device.bury(Box::new(Slow(Some(device.create(40 * MIB).unwrap()))));
        device.create(40 * MIB).unwrap();
    });
}

/// Until ticket `mark` is reached; the error that ends it otherwise.
fn reached(queue: &mut dyn device::CopyQueue, mark: u64) -> Result<(), Error> {
    let begin = Instant::now();
    while queue.finished()? < mark {
        assert!(begin.elapsed() < HANG_LIMIT, "ticket {mark} is never reached");
    }
    Ok(())
}

#[test]
fn copies_are_there_when_their_ticket_is_reached() {
    on_cuda("copies_are_there_when_their_ticket_is_reached", &[("GINRS_MOCK_DELAY_US", "200")], || {
        let (here, there) = (first(), device::get(1).unwrap());
        assert!(here.reaches(there.bus_id()) && here.reaches(here.bus_id()));
        let (from, far) = (here.alloc(MIB).unwrap(), there.create(MIB).unwrap());
        let space = here.reserve(2 * MIB, 2 * MIB).unwrap();
        space.map(0, &far).unwrap();
        let mut queue = here.copy_queue().unwrap();
        assert_eq!(queue.finished().unwrap(), 0);
        for round in 1..=20u64 {
            (0..64).for_each(|i| store(from + 8 * i, round * 100 + i));
            let part = |i: u64, bytes| MemCopy { from: from + 8 * i, to: space.base() + 8 * i, bytes };
            let copies: Vec<MemCopy> = (0..64).map(|i| part(i, 8)).collect();
            match round % 3 {
                0 => queue.copy(&copies).unwrap(),
                1 => copies.iter().for_each(|copy| queue.copy(&[*copy]).unwrap()),
                _ => queue.copy(&[part(0, 0), part(0, 256), part(32, 256)]).unwrap(),
            }
            let mark = queue.mark().unwrap();
            assert_eq!(mark, round);
            reached(&mut *queue, mark).unwrap();
            assert!((0..64).all(|i| load(space.base() + 8 * i) == round * 100 + i), "round {round}");
        }
        // One that is still under way when the queue goes.
        queue.copy(&[MemCopy { from, to: space.base(), bytes: MIB as u64 }]).unwrap();
        queue.mark().unwrap();
    });
}

#[test]
fn a_failed_copy_is_an_error_and_no_ticket() {
    on_cuda("a_failed_copy_is_an_error_and_no_ticket", &[("GINRS_MOCK_FAIL", "copy:1:700")], || {
        let device = first();
        let at = device.alloc(MIB).unwrap();
        let mut queue = device.copy_queue().unwrap();
        let ended = (|| {
            queue.copy(&[MemCopy { from: at, to: at + 4096, bytes: 8 }])?;
            let mark = queue.mark()?;
            reached(&mut *queue, mark)
        })();
        let error = ended.unwrap_err();
        assert_eq!((error.code, error.id), (Code::UnhandledCudaError, 73), "{error}");
    });
}

#[test]
fn shared_words_are_one_memory_for_all_who_import_it() {
    on_cuda("shared_words_are_one_memory_for_all_who_import_it", &[], || {
        let device = first();
        let mine = device.create_shared(5000).unwrap();
        let theirs = device.import_shared(mine.export().unwrap(), mine.bytes()).unwrap();
        let (a, b) = (mine.host().unwrap().as_ptr() as u64, theirs.host().unwrap().as_ptr() as u64);
        store(b + 64, 9);
        assert_eq!((load(a + 64), mine.device_address().is_some(), theirs.device_address()), (9, true, None));
        // Memory of its own is no reservation's.
        assert!(device.reserve(2 * MIB, 2 * MIB).unwrap().map(0, &mine).is_err());
    });
}

#[test]
fn the_driver_forgets_shared_words_that_have_gone() {
    on_cuda("the_driver_forgets_shared_words_that_have_gone", &[], || {
        let device = first();
        let mine = device.create_shared(8).unwrap();
        // Keeps the pages mapped, so that nothing else comes to stand there.
        let _theirs = device.import_shared(mine.export().unwrap(), mine.bytes()).unwrap();
        let at = mine.host().unwrap().as_ptr().cast::<c_void>();
        let retain: unsafe extern "C" fn(*mut *mut c_void, c_int) -> c_int = driver(c"cuDevicePrimaryCtxRetain");
        let enter: unsafe extern "C" fn(*mut c_void) -> c_int = driver(c"cuCtxSetCurrent");
        let flags: unsafe extern "C" fn(*mut u32, *mut c_void) -> c_int = driver(c"cuMemHostGetFlags");
        let mut context = std::ptr::null_mut();
        // SAFETY: valid places to write to, the context that it gave, and an address that it only asks about.
        unsafe { assert_eq!((retain(&mut context, 0), enter(context), flags(&mut 0, at)), (0, 0, 0)) };
        drop(mine);
        device.retire(Box::new(()));
        // SAFETY: as above.
        assert_ne!(unsafe { flags(&mut 0, at) }, 0, "still registered");
    });
}

#[test]
fn what_is_retired_has_gone_and_what_is_buried_goes() {
    on_cuda("what_is_retired_has_gone_and_what_is_buried_goes", &[], || {
        struct Gone(Arc<AtomicBool>);
        impl Drop for Gone {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Release);
            }
        }
        let device = first();
        let (retired, buried) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        device.retire(Box::new(Gone(retired.clone())));
        assert!(retired.load(Ordering::Acquire));
        device.bury(Box::new(Gone(buried.clone())));
        let begin = Instant::now();
        while !buried.load(Ordering::Acquire) {
            assert!(begin.elapsed() < HANG_LIMIT);
        }
        assert!(!device.idle());
    });
}

/// Calls and copies that hang in the driver stand-in.
fn hangs() -> u64 {
    // SAFETY: the library stays loaded, and the function takes nothing.
    unsafe {
        let library = libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD);
        let hangs = libc::dlsym(library, c"ginrs_mock_hangs".as_ptr());
        assert!(!hangs.is_null());
        std::mem::transmute::<*mut c_void, extern "C" fn() -> u64>(hangs)()
    }
}

/// The newest warning.
fn warned() -> String {
    // SAFETY: a static buffer that always holds a NUL.
    unsafe { std::ffi::CStr::from_ptr(ginrs::log::last_error_ptr()) }.to_string_lossy().into_owned()
}

#[test]
fn a_copy_that_never_ends_is_an_error_in_time_and_the_next_one_does_not_wait_again() {
    // Whoever tries another fails in another way.
    let settings = [("GINRS_MOCK_FAIL", "copy:3:hang,cuMemcpyHtoDAsync:4:700"), ("GINRS_TIMEOUT", "5")];
    on_cuda("a_copy_that_never_ends_is_an_error_in_time_and_the_next_one_does_not_wait_again", &settings, || {
        let device = first();
        let memory = device.objects(64).unwrap();
        let error = (0..3).find_map(|_| device.write(memory.device(), &[1; 8]).err()).unwrap();
        assert_eq!((error.code, error.id), (Code::UnhandledCudaError, 4), "{error}");
        assert_eq!(device.write(memory.device(), &[1; 8]).unwrap_err().id, 4);
        assert_eq!(device.zero(memory.device(), 8).unwrap_err().id, 4);
        assert!(device.health().is_ok(), "slow is not broken");
    });
}

#[test]
fn the_end_of_a_copy_queue_waits_for_a_copy_that_never_ends_only_so_long() {
    let settings = [("GINRS_MOCK_FAIL", "copy:2:hang"), ("GINRS_TIMEOUT", "1")];
    on_cuda("the_end_of_a_copy_queue_waits_for_a_copy_that_never_ends_only_so_long", &settings, || {
        let device = first();
        let memory = device.objects(64).unwrap();
        let mut queue = device.copy_queue().unwrap();
        queue.copy(&[MemCopy { from: memory.device(), to: memory.device() + 32, bytes: 8 }]).unwrap();
        drop(queue);
        assert!(warned().contains("GINRS-E004"), "{}", warned());
    });
}

#[test]
fn a_failed_device_is_told_while_a_copy_is_under_way() {
    let settings = [("GINRS_MOCK_FAIL", "copy:2:hang,copy:3:700"), ("GINRS_TIMEOUT", "30")];
    on_cuda("a_failed_device_is_told_while_a_copy_is_under_way", &settings, || {
        let device = first();
        let memory = device.objects(64).unwrap();
        let (at, slow) = (memory.device(), device.clone());
        let writer = std::thread::spawn(move || slow.write(at, &[1; 8]));
        let end = hang_deadline();
        while hangs() == 0 {
            assert!(Instant::now() < end, "the writer's copy does not begin");
            std::thread::yield_now();
        }
        let mut queue = device.copy_queue().unwrap();
        queue.copy(&[MemCopy { from: at, to: at + 32, bytes: 8 }]).unwrap();
        let begin = Instant::now();
        while device.health().is_ok() && begin.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(device.health().err().map(|error| error.id), Some(73));
        assert!(writer.join().unwrap().is_err());
    });
}

#[test]
fn a_driver_that_does_not_say_who_reaches_whom_is_told() {
    let settings = [("GINRS_MOCK_FAIL", "cuDeviceCanAccessPeer:1:999"), ("GINRS_MOCK_DEVICES", "2")];
    on_cuda("a_driver_that_does_not_say_who_reaches_whom_is_told", &settings, || {
        let (one, two) = (first(), device::get(1).unwrap());
        assert!(!one.reaches(two.bus_id()));
        assert!(warned().contains("GINRS-E003") && warned().contains("host memory"), "{}", warned());
        assert!(one.reaches(two.bus_id()));
    });
}

#[test]
fn memory_that_stays_mapped_is_told() {
    on_cuda("memory_that_stays_mapped_is_told", &[("GINRS_MOCK_FAIL", "cuMemUnmap:1:1")], || {
        let device = first();
        let at = device.alloc(MIB).unwrap();
        device.free(at).unwrap();
        assert!(warned().contains("GINRS-E006"), "{}", warned());
    });
}
