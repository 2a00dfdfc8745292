//! Integer division by zero in a kernel. A GPU goes on, with all bits of the quotient set; x86-64 raises SIGFPE, whose handler
//! here writes that result and steps over the instruction. (aarch64 does not trap: the quotient is 0.)
//!
//! Of the smallest integer divided by -1, which traps too, the quotient is that integer and the remainder 0, as on a GPU.

use crate::fault::{Line, Raised, print};
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};

/// `div` or `idiv`, as decoded.
#[derive(Debug, PartialEq, Eq)]
struct Division {
    /// Bytes of the instruction.
    length: usize,
    /// Of the quotient: 8, 16, 32 or 64.
    bits: u32,
    signed: bool,
}

impl Division {
    /// Longest form: two prefixes, opcode, ModRM, SIB and 32 bits of displacement.
    const LONGEST: usize = 9;

    /// None where `code` begins with something else.
    fn decode(code: &[u8; Division::LONGEST]) -> Option<Division> {
        let mut at = 0;
        let narrow = code[at] == 0x66;
        at += usize::from(narrow);
        let rex = if code[at] & 0xf0 == 0x40 { code[at] } else { 0 };
        at += usize::from(rex != 0);
        let byte = match code[at] {
            0xf6 => true,
            0xf7 => false,
            _ => return None,
        };
        let modrm = code[at + 1];
        let signed = match modrm >> 3 & 7 {
            6 => false,
            7 => true,
            _ => return None,
        };
        let (mode, operand) = (modrm >> 6, modrm & 7);
        let has_sib = mode != 3 && operand == 4;
        let no_base = mode == 0 && if has_sib { code[at + 2] & 7 == 5 } else { operand == 5 };
        let displacement = match mode {
            1 => 1,
            2 => 4,
            _ if no_base => 4,
            _ => 0,
        };
        let bits = match (byte, rex & 8 != 0, narrow) {
            (true, ..) => 8,
            (_, true, _) => 64,
            (_, _, true) => 16,
            _ => 32,
        };
        Some(Division { length: at + 2 + usize::from(has_sib) + displacement, bits, signed })
    }

    /// What `rax` and `rdx` hold afterwards, given what they held before.
    fn result(&self, rax: u64, rdx: u64) -> (u64, u64) {
        let mask = u64::MAX >> (64 - self.bits);
        let (low, high) = if self.bits == 8 { (rax & 0xff, rax >> 8 & 0xff) } else { (rax & mask, rdx & mask) };
        let smallest = 1 << (self.bits - 1);
        let overflows = self.signed && low == smallest && high == mask;
        let (quotient, remainder) = if overflows { (smallest, 0) } else { (mask, low) };
        match self.bits {
            8 => (rax & !0xffff | remainder << 8 | quotient, rdx),
            16 => (rax & !mask | quotient, rdx & !mask | remainder),
            // Writing 32 bits clears the other 32.
            _ => (quotient, remainder),
        }
    }
}

/// SIGFPE's. Anything that is no integer division of a kernel is not ours.
pub fn on_trap(raised: &Raised) -> bool {
    // SAFETY: with SA_SIGINFO the kernel hands over the thread's context, which is this handler's alone. The trapped
    // instruction is mapped; that 9 bytes from it are, too, holds as code is followed by more of it (at least a return and
    // the unwinder's end), and pages are not unmapped under a running thread.
    let stepped = unsafe {
        let registers = &mut (*raised.context.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
        let at = registers[libc::REG_RIP as usize] as *const [u8; Division::LONGEST];
        match (crate::block::current(), Division::decode(&at.read_unaligned())) {
            (Some(block), Some(division)) => {
                let (rax, rdx) =
                    division.result(registers[libc::REG_RAX as usize] as u64, registers[libc::REG_RDX as usize] as u64);
                registers[libc::REG_RAX as usize] = rax as i64;
                registers[libc::REG_RDX as usize] = rdx as i64;
                registers[libc::REG_RIP as usize] += division.length as i64;
                Some(block)
            }
            _ => None,
        }
    };
    static TOLD: AtomicBool = AtomicBool::new(false);
    match stepped {
        Some(block) if !TOLD.swap(true, Ordering::Relaxed) => {
            let mut line = Line::new();
            let _ = line.write_str("ginrs-cpu: integer division by zero in ");
            let _ = block.describe_thread(&mut line);
            let _ = line.write_str(
                "ginrs-cpu: it goes on as a GPU does, with all bits of the quotient set; told once\n\
                 ginrs-cpu: fix: check the divisor; -Xcompiler -fsanitize=integer-divide-by-zero shows the line\n",
            );
            print(&line);
        }
        _ => {}
    }
    stepped.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(bytes: &[u8]) -> Option<Division> {
        let mut code = [0x90; Division::LONGEST];
        code[..bytes.len()].copy_from_slice(bytes);
        let division = Division::decode(&code);
        if let Some(division) = &division {
            assert_eq!(division.length, bytes.len());
        }
        division
    }

    /// The encodings are what the assembler makes of the text beside them.
    #[test]
    fn every_form_of_the_operand_is_measured() {
        for (bytes, bits, signed) in [
            (&[0xf7, 0xf1][..], 32, false),                                       // div ecx
            (&[0xf7, 0xf9], 32, true),                                            // idiv ecx
            (&[0x41, 0xf7, 0xf0], 32, false),                                     // div r8d
            (&[0x48, 0xf7, 0xff], 64, true),                                      // idiv rdi
            (&[0x49, 0xf7, 0xf4], 64, false),                                     // div r12
            (&[0x66, 0xf7, 0xf1], 16, false),                                     // div cx
            (&[0x66, 0x41, 0xf7, 0xf9], 16, true),                                // idiv r9w
            (&[0x40, 0xf6, 0xf6], 8, false),                                      // div sil
            (&[0xf7, 0x36], 32, false),                                           // div dword [rsi]
            (&[0xf7, 0x75, 0xfc], 32, false),                                     // div dword [rbp-4]
            (&[0xf7, 0x34, 0x24], 32, false),                                     // div dword [rsp]
            (&[0x48, 0xf7, 0x7c, 0x24, 0x08], 64, true),                          // idiv qword [rsp+8]
            (&[0xf7, 0xb5, 0x00, 0x01, 0x00, 0x00], 32, false),                   // div dword [rbp+256]
            (&[0xf7, 0x3d, 0x10, 0x00, 0x00, 0x00], 32, true),                    // idiv dword [rip+16]
            (&[0xf7, 0x34, 0x8d, 0x10, 0x00, 0x00, 0x00], 32, false),             // div dword [rcx*4+16]
            (&[0x66, 0x42, 0xf7, 0xb4, 0x8c, 0x00, 0x01, 0x00, 0x00], 16, false), // div word [rsp+r9*4+256]
        ] {
            let division = decode(bytes).unwrap_or_else(|| panic!("{bytes:02x?}"));
            assert_eq!((division.bits, division.signed), (bits, signed), "{bytes:02x?}");
        }
        for other in [&[0x90][..], &[0xf7, 0xe1], &[0x0f, 0x0b], &[0xf2, 0x0f, 0x5e, 0xc1]] {
            assert_eq!(decode(other), None, "{other:02x?}");
        }
    }

    #[test]
    fn the_quotient_is_all_ones_and_the_remainder_the_dividend() {
        let division = |bits, signed| Division { length: 2, bits, signed };
        assert_eq!(division(32, false).result(0xdead_0000_0007, 5 << 32), (0xffff_ffff, 7));
        assert_eq!(division(64, true).result(7, 0), (u64::MAX, 7));
        assert_eq!(division(16, false).result(0xa_0007, 0xb_0000), (0xa_ffff, 0xb_0007));
        assert_eq!(division(8, false).result(0xa_0007, 3), (0xa_07ff, 3));
    }

    #[test]
    fn the_smallest_integer_by_minus_one_is_itself() {
        let division = |bits| Division { length: 2, bits, signed: true };
        assert_eq!(division(32).result(1 << 31, 0xffff_ffff), (1 << 31, 0));
        assert_eq!(division(64).result(1 << 63, u64::MAX), (1 << 63, 0));
        // Unsigned, the same registers are a quotient that does not fit: by zero.
        assert_eq!(Division { length: 2, bits: 32, signed: false }.result(1 << 31, 0xffff_ffff), (0xffff_ffff, 1 << 31));
    }
}
