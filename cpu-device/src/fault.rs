//! What is printed when a kernel touches memory that is not there: which kernel, block and thread, before the process dies of
//! the signal as it would have.
//!
//! Nothing is allocated and no lock is taken: the fault may have come from inside of either.

use std::ffi::{c_int, c_void};
use std::fmt::Write;
use std::sync::Once;

/// Of the handler's stack: a thread whose own has overflowed has nothing left on it.
const STACK: usize = 64 << 10;

/// A line of fixed length; what does not fit is left out.
struct Line {
    bytes: [u8; 1024],
    used: usize,
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
            // SAFETY: as above; the handler has the signature that SA_SIGINFO asks for.
            unsafe {
                let mut now: libc::sigaction = std::mem::zeroed();
                if libc::sigaction(signal, std::ptr::null(), &mut now) != 0 || now.sa_sigaction != libc::SIG_DFL {
                    continue;
                }
                now.sa_sigaction = on_fault as *const () as usize;
                now.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESETHAND;
                libc::sigaction(signal, &now, std::ptr::null_mut());
            }
        }
    });
}

/// The default action is back (SA_RESETHAND): the instruction runs again, and ends the process.
extern "C" fn on_fault(_signal: c_int, info: *mut libc::siginfo_t, _context: *mut c_void) {
    let Some(block) = crate::block::current() else { return };
    // SAFETY: the kernel hands over a siginfo of a memory fault.
    let address = unsafe { (*info).si_addr() } as usize;
    let mut line = Line { bytes: [0; 1024], used: 0 };
    let _ = block.describe_fault(&mut line, address);
    // SAFETY: the bytes are initialised. A closed stderr is no reason to fail.
    unsafe { libc::write(2, line.bytes.as_ptr().cast(), line.used) };
}
