//! What is printed when a kernel touches memory that is not there: which kernel, block and thread, before the process dies of
//! the signal as it would have. Installs the handler of integer divisions by zero, too.
//!
//! Nothing is allocated and no lock is taken: the fault may have come from inside of either.

use std::ffi::{c_int, c_void};
use std::fmt::Write;
use std::sync::Once;

/// Of the handler's stack: a thread whose own has overflowed has nothing left on it.
const STACK: usize = 64 << 10;

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

/// Prepares the calling block thread. A handler of the host program's (or of a sanitizer) stays.
pub fn watch() {
    static INSTALLED: Once = Once::new();
    // SAFETY: plain calls on local structs; the stack is leaked, so it lives as long as the thread.
    unsafe {
        let memory = libc::mmap(
            std::ptr::null_mut(),
            STACK,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        if memory == libc::MAP_FAILED {
            return;
        }
        let stack = libc::stack_t { ss_sp: memory, ss_flags: 0, ss_size: STACK };
        libc::sigaltstack(&stack, std::ptr::null_mut());
    }
    INSTALLED.call_once(|| {
        for signal in [libc::SIGSEGV, libc::SIGBUS] {
            install(signal, on_fault, libc::SA_RESETHAND);
        }
        #[cfg(target_arch = "x86_64")]
        install(libc::SIGFPE, crate::division::on_trap, 0);
    });
}

type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

fn install(signal: c_int, handler: Handler, flags: c_int) {
    // SAFETY: plain calls on a local struct; the handler has the signature that SA_SIGINFO asks for.
    unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(signal, std::ptr::null(), &mut now) == 0 && now.sa_sigaction == libc::SIG_DFL {
            now.sa_sigaction = handler as *const () as usize;
            now.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | flags;
            libc::sigaction(signal, &now, std::ptr::null_mut());
        }
    }
}

/// The default action is back (SA_RESETHAND): the instruction runs again, and ends the process.
extern "C" fn on_fault(_signal: c_int, info: *mut libc::siginfo_t, _context: *mut c_void) {
    let Some(block) = crate::block::current() else { return };
    // SAFETY: the kernel hands over a siginfo of a memory fault.
    let address = unsafe { (*info).si_addr() } as usize;
    let mut line = Line::new();
    let _ = write!(line, "ginrs-cpu: illegal address {address:#x} in ");
    let _ = block.describe_thread(&mut line);
    let _ = line.write_str(
        "ginrs-cpu: fix: use device memory of this device, and of other ranks only what ncclGetLsaPointer gives for ranks of the \
         LSA team (near the stack: GINRS_CPU_STACK larger); -g and gdb, or -Xcompiler -fsanitize=address, show the line\n",
    );
    print(&line);
}
