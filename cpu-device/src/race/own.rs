//! Memory of loaded objects: static shared variables are thread-local ones of the OS thread that runs a block, `__device__` variables
//! are static.

/// First byte of a part, and the one behind it.
pub type Part = (usize, usize);

/// Of each object: thread-local memory of this OS thread, and what may be written. Asked for each block: objects come and go, and thread-local
/// memory of those that came late is made at its first use.
#[derive(Default)]
pub struct Parts {
    /// Each block has it anew.
    pub shared: Vec<Part>,
    /// All threads of the process have it.
    pub fixed: Vec<Part>,
}

impl Parts {
    /// As they are now.
    pub fn look(&mut self) {
        unsafe extern "C" fn see(object: *mut libc::dl_phdr_info, _: usize, out: *mut libc::c_void) -> i32 {
            // SAFETY: the loader's record, and our parts.
            unsafe {
                let (object, out) = (&*object, &mut *out.cast::<Parts>());
                for i in 0..usize::from(object.dlpi_phnum) {
                    let header = &*object.dlpi_phdr.add(i);
                    let (at, fixed) = (object.dlpi_tls_data as usize, object.dlpi_addr as usize + header.p_vaddr as usize);
                    let bytes = header.p_memsz as usize;
                    match header.p_type {
                        libc::PT_TLS if at != 0 => out.shared.push((at, at + bytes)),
                        libc::PT_LOAD if header.p_flags & libc::PF_W != 0 => out.fixed.push((fixed, fixed + bytes)),
                        _ => {}
                    }
                }
            }
            0
        }
        self.shared.clear();
        self.fixed.clear();
        // SAFETY: `see` gets these parts, for the time of the call.
        unsafe { libc::dl_iterate_phdr(Some(see), (&raw mut *self).cast()) };
    }
}

/// Whether one of `parts` has a byte of the page at `page`.
pub fn meet(parts: &[Part], page: usize) -> bool {
    parts.iter().any(|part| part.0 < page + super::PAGE && page < part.1)
}
