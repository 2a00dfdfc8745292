//! Kernels of a program that puts are loaded when their module is, not at their first launch.
//!
//! A lazy load waits until no kernel runs, and keeps back every copy that is asked for behind it: a kernel that waits for a put, a
//! first launch, and the proxy's copy for that put never end. CUDA reads CUDA_MODULE_LOADING when it is initialised, so it must be set
//! before the program's first CUDA call: when this library is loaded. A value that the user set stays.
//!
//! A program without kernels that put is left as it is: all kernels of PyTorch and its libraries are 1.3 GB of each GPU and 4 to 6 s of
//! each start (docs/results/gpu-pytorch.md). Who calls ncclDevCommCreate has such kernels.

use crate::{hint, info};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

const VARIABLE: &CStr = c"CUDA_MODULE_LOADING";

extern "C" fn ask_for_eager_loading() {
    // SAFETY: terminated constants. This runs in the loader, as other libraries' constructors that set variables do; a thread that reads
    // the environment meanwhile is the risk that every setenv has.
    unsafe {
        if libc::getenv(VARIABLE.as_ptr()).is_null() && makes_device_communicators() {
            libc::setenv(VARIABLE.as_ptr(), c"EAGER".as_ptr(), 0);
        }
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = ask_for_eager_loading;

/// Says once that kernels load lazily (W027), for who makes the first copy that kernels wait for.
pub fn tell_of_lazy_loading() {
    static TOLD: AtomicBool = AtomicBool::new(false);
    if TOLD.load(Relaxed) || TOLD.swap(true, Relaxed) {
        return;
    }
    let is_wished = std::env::var_os("CUDA_MODULE_LOADING").is_some();
    let text = format!(
        "GINRS-W027 kernels are loaded at their first launch | CUDA_MODULE_LOADING {} | that keeps back the copies of puts until no kernel \
         runs, and kernels that wait for them wait for ever | fix: set CUDA_MODULE_LOADING=EAGER before the program's first CUDA call, or \
         launch each kernel once before one that waits",
        if is_wished { "is set so" } else { "is not set" }
    );
    if is_wished { info!(INIT, "{text}") } else { hint!("{text}") }
}

/// Whether an object of this process calls ncclDevCommCreate. Not PyTorch: its symmetric memory works with loads and stores.
fn makes_device_communicators() -> bool {
    let mut seen = Seen { objects: 0, calls: false };
    // SAFETY: `see` gets `seen`, for the time of the call.
    unsafe { libc::dl_iterate_phdr(Some(see), (&raw mut seen).cast()) };
    seen.calls
}

struct Seen {
    objects: usize,
    calls: bool,
}

unsafe extern "C" fn see(object: *mut libc::dl_phdr_info, _: usize, seen: *mut c_void) -> c_int {
    // SAFETY: the loader's record of an object, which is mapped as its headers say, and our `seen`.
    unsafe {
        let (object, seen) = (&*object, &mut *seen.cast::<Seen>());
        // The program is the first. A library that is linked into it statically is there for its calls.
        let is_program = seen.objects == 0;
        seen.objects += 1;
        let headers = std::slice::from_raw_parts(object.dlpi_phdr, object.dlpi_phnum.into());
        let at = |header: &libc::Elf64_Phdr| object.dlpi_addr as usize + header.p_vaddr as usize;
        let is_ours = headers.iter().any(|header| {
            let code = ask_for_eager_loading as *const () as usize;
            header.p_type == libc::PT_LOAD && (at(header)..at(header) + header.p_memsz as usize).contains(&code)
        });
        let name = CStr::from_ptr(object.dlpi_name).to_bytes();
        let is_pytorch = name.rsplit(|&byte| byte == b'/').next().is_some_and(|file| file.starts_with(b"libtorch"));
        let dynamic = headers.iter().find(|header| header.p_type == libc::PT_DYNAMIC);
        seen.calls = match dynamic {
            _ if is_ours => is_program,
            Some(dynamic) if !is_pytorch => calls(object.dlpi_addr as usize, at(dynamic) as *const [usize; 2]),
            _ => false,
        };
        seen.calls.into()
    }
}

/// Tags of a dynamic section.
mod tag {
    pub const END: usize = 0;
    pub const PLT_BYTES: usize = 2;
    pub const STRINGS: usize = 5;
    pub const SYMBOLS: usize = 6;
    pub const RELA: usize = 7;
    pub const RELA_BYTES: usize = 8;
    pub const PLT: usize = 23;
}

/// Entry of a table of relocations (Elf64_Rela).
#[repr(C)]
struct Relocation {
    offset: u64,
    /// The symbol's number in the upper half.
    info: u64,
    addend: i64,
}

/// Whether a relocation of the object names ncclDevCommCreate: there is one for each function that it takes from elsewhere.
///
/// # Safety
/// `base` and `dynamic` are those of an object that is mapped.
unsafe fn calls(base: usize, dynamic: *const [usize; 2]) -> bool {
    let mut found = [0; tag::PLT + 1];
    // SAFETY: the section ends with a zero tag, and its tables lie in the object. glibc writes addresses into it; where it may not, they
    // count from the base.
    unsafe {
        for [tag, value] in (0..).map(|i| *dynamic.add(i)).take_while(|entry| entry[0] != tag::END) {
            if let Some(place) = found.get_mut(tag) {
                *place = value;
            }
        }
        let address = |tag: usize| if found[tag] < base { base + found[tag] } else { found[tag] };
        let (symbols, strings) = (address(tag::SYMBOLS) as *const libc::Elf64_Sym, address(tag::STRINGS) as *const c_char);
        [(tag::RELA, tag::RELA_BYTES), (tag::PLT, tag::PLT_BYTES)].into_iter().filter(|&(_, bytes)| found[bytes] > 0).any(
            |(table, bytes)| {
                let all = std::slice::from_raw_parts(address(table) as *const Relocation, found[bytes] / size_of::<Relocation>());
                all.iter()
                    .map(|one| (one.info >> 32) as usize)
                    .filter(|&symbol| symbol != 0)
                    .any(|symbol| CStr::from_ptr(strings.add((*symbols.add(symbol)).st_name as usize)) == c"ncclDevCommCreate")
            },
        )
    }
}
