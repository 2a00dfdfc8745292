//! What is printed when a kernel touches memory that is not there: which kernel, block and thread, before the process dies of
//! the signal as it would have.
//!
//! Until that is printed nothing is allocated and no lock is taken: the fault may have come from inside of either.

use std::ffi::{c_char, c_int, c_void};
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::block::Block;
use crate::bounds::Beside;

/// What a signal handler of ours is given.
pub struct Raised {
    /// Its number.
    pub signal: c_int,
    /// As the kernel hands it over.
    pub info: *mut libc::siginfo_t,
    /// The `ucontext_t` of the thread that was interrupted.
    pub context: *mut c_void,
}

/// A line of fixed length; what does not fit is left out.
pub(crate) struct Line {
    bytes: [u8; 1024],
    used: usize,
}

impl Line {
    pub fn new() -> Line {
        Line { bytes: [0; 1024], used: 0 }
    }
}

/// To stderr. A closed one is no reason to fail.
pub(crate) fn print(line: &Line) {
    // SAFETY: the bytes are initialised.
    unsafe { libc::write(2, line.bytes.as_ptr().cast(), line.used) };
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let room = self.bytes.len() - self.used;
        let taken = text.len().min(room);
        self.bytes[self.used..self.used + taken].copy_from_slice(&text.as_bytes()[..taken]);
        self.used += taken;
        Ok(())
    }
}

/// Says where; whoever had the signal before, or its default action, ends the process.
pub fn on_fault(raised: &Raised) -> bool {
    let Some(block) = crate::block::current() else { return false };
    // One ends the process, so the first is told whole before another. Not for ever, as that waits for another program.
    for _ in 0..LOOKS {
        if !TELLING.swap(true, Ordering::Acquire) {
            break;
        }
        std::thread::sleep(LOOK);
    }
    tell(raised, block);
    TELLING.store(false, Ordering::Release);
    false
}

static TELLING: AtomicBool = AtomicBool::new(false);
const LOOK: Duration = Duration::from_millis(1);
const LOOKS: u32 = 2000;

fn tell(raised: &Raised, block: &Block) {
    // SAFETY: the kernel hands over a siginfo of a memory fault.
    let address = unsafe { (*raised.info).si_addr() } as usize;
    let mut line = Line::new();
    let freed = crate::freed::find(address);
    let has_overflowed = block.has_overflowed(address);
    if has_overflowed {
        let _ = line.write_str("ginrs-cpu: stack overflow in ");
        let _ = block.describe_thread(&mut line);
        let _ = writeln!(
            line,
            "ginrs-cpu: fix: set GINRS_CPU_STACK above {} (bytes a thread), or use smaller arrays and less recursion in kernels",
            crate::config::config().stack_bytes
        );
    } else if crate::asan::present() {
        // It reports the address, and we follow.
        return;
    } else {
        let _ = write!(line, "ginrs-cpu: illegal address {address:#x} in ");
        let _ = block.describe_thread(&mut line);
        crate::beyond::tell(address, |beyond| {
            let _ = writeln!(line, "ginrs-cpu:   {beyond}");
        });
        if let Some((words, _)) = &freed {
            let _ = writeln!(line, "ginrs-cpu:   {words}");
        }
        let _ = line.write_str(if freed.is_some() {
            "ginrs-cpu: fix: free it when no kernel uses it any more: behind a synchronisation, or with cudaFreeAsync on the kernel's stream\n"
        } else if crate::multicast::holds(address) {
            "ginrs-cpu: this is multicast memory, which takes multimem instructions and the stores of inline PTX\n\
             ginrs-cpu: fix: load and store through ncclGetLocalPointer or ncclGetLsaPointer\n"
        } else {
            "ginrs-cpu: fix: use device memory of this device, and of other ranks only what ncclGetLsaPointer gives for ranks of \
             the LSA team; -g and gdb, or -Xcompiler -fsanitize=address, show the line\n"
        });
    }
    print(&line);
    if !has_overflowed {
        tell_line(raised, block);
        if let Some((_, called_at)) = freed {
            tell_freed(called_at);
        }
    }
}

/// As [`tell_line`], of the call that has freed what was touched.
fn tell_freed(called_at: usize) {
    let Some(found) = crate::race::users_line(called_at) else { return };
    let mut line = Line::new();
    let _ = writeln!(line, "ginrs-cpu:   freed at {found}");
    print(&line);
}

/// Last of all, as it does more than a handler should: the line, of a program with debug information.
fn tell_line(raised: &Raised, block: &Block) {
    // SAFETY: the kernel hands over the context of the thread that it has interrupted.
    let registers = unsafe { &(*raised.context.cast::<libc::ucontext_t>()).uc_mcontext };
    #[cfg(target_arch = "x86_64")]
    let pc = registers.gregs[libc::REG_RIP as usize] as usize;
    #[cfg(target_arch = "aarch64")]
    let pc = registers.pc as usize;
    let Some(found) = block.kernel_code().and_then(|kernel| crate::race::interrupted_at(pc, kernel)) else { return };
    let mut line = Line::new();
    let _ = writeln!(line, "ginrs-cpu:   touched at {found}");
    print(&line);
}

/// From now on what is known here follows each report of AddressSanitizer.
pub fn follow_reports() {
    static ONCE: parking_lot::Once = parking_lot::Once::new();
    ONCE.call_once(|| crate::asan::listen(on_report));
}

unsafe extern "C" fn on_report(_text: *const c_char) {
    let Some(address) = crate::asan::reported() else { return };
    let mut line = Line::new();
    let block = crate::block::current();
    if let Some((distance, bytes)) = block.and_then(|block| block.beside_shared(address)) {
        let side = if distance < 0 { "before" } else { "behind" };
        let distance = distance.unsigned_abs();
        let _ = writeln!(
            line,
            "ginrs-cpu: {address:#x} is {distance} bytes {side} the block's {bytes} bytes of dynamic shared memory"
        );
    } else if let Some(beside) = Beside::find(address) {
        let _ = writeln!(line, "ginrs-cpu: {address:#x} is {beside}");
    } else if block.is_some() && crate::race::is_static_shared(address) {
        let _ = writeln!(line, "ginrs-cpu: {address:#x} is beside an array in __shared__ memory of the block");
    }
    if let Some(block) = block {
        let _ = line.write_str("ginrs-cpu: touched by ");
        let _ = block.describe_thread(&mut line);
    }
    print(&line);
}
