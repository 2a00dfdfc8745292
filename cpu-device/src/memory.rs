//! Memory of the devices and pinned host memory: all of it is host memory; what counts is to know what a pointer is.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::RwLock;

use crate::asan;
use crate::error::{Code, Result, refuse};
use crate::freed;
use crate::once::OnceLock;

/// What an allocation is, as `cudaMemoryType` numbers it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub enum Kind {
    /// `cudaMallocHost`, `cudaHostAlloc`, `cudaHostRegister`.
    Host = 1,
    /// `cudaMalloc` and its kin.
    Device = 2,
    /// `cudaMallocManaged`.
    Managed = 3,
}

/// Whose memory it is to free.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Origin {
    /// From `allocate`, by `posix_memalign`.
    Heap,
    /// The same, whole pages: for the race detector, which has to know whose a page is. Where AddressSanitizer is there, too.
    Pages,
    /// From `allocate`, by `mmap`, with a page behind it that is nobody's: for the race detector, which finds there what goes too far.
    Apart,
    /// From `allocate`, by `mmap`.
    Mapping,
    /// `cudaHostRegister`: the program's.
    Registered,
    /// ncclMemAlloc: libginrs'.
    Noted,
    /// cuMemMap: of cuMemCreate.
    Mapped,
}

/// One allocation.
#[derive(Clone, Copy, Debug)]
pub struct Allocation {
    /// First byte.
    pub base: usize,
    /// Bytes that were asked for.
    pub bytes: usize,
    /// What it is.
    pub kind: Kind,
    /// Its device, or the one current when it was made.
    pub device: i32,
    /// Of `cudaHostAlloc` or `cudaHostRegister`.
    pub flags: u32,
    origin: Origin,
}

struct Table {
    by_base: BTreeMap<usize, Allocation>,
    bytes: usize,
}

static TABLE: RwLock<Table> = RwLock::new(Table { by_base: BTreeMap::new(), bytes: 0 });

/// The race detector.
#[derive(Clone, Copy)]
pub struct Watcher {
    /// Memory begins or ends.
    pub changed: fn(usize, usize),
    /// Memory of a device begins: it can be written, and is nobody's yet.
    pub fill: unsafe fn(usize, usize),
    /// Where the program has called what runs now (0: not known), and its line.
    pub called_at: fn() -> usize,
    /// See [`Watcher::called_at`].
    pub line: fn(usize) -> Option<String>,
}

/// Hears of all memory.
static WATCHER: OnceLock<Watcher> = OnceLock::new();
const PAGE: usize = 4096;
/// CUDA aligns device memory at least so.
const ALIGN: usize = 256;
/// From here on an allocation is a mapping of its own, aligned to this (a granule of ncclMemAlloc and of huge pages).
const LARGE: usize = 2 << 20;

/// All memory of devices, and what [`look_at`] was told of, lies between the two; the number is another one whenever some begins or ends. For shim/race.c.
#[unsafe(no_mangle)]
static ginrs_memory_low: AtomicUsize = AtomicUsize::new(usize::MAX);
#[unsafe(no_mangle)]
static ginrs_memory_high: AtomicUsize = AtomicUsize::new(0);
#[unsafe(no_mangle)]
static ginrs_memory_changes: AtomicU64 = AtomicU64::new(1);

impl Table {
    fn add(&mut self, allocation: Allocation) {
        self.by_base.insert(allocation.base, allocation);
        if allocation.kind == Kind::Device {
            look_at(allocation.base, allocation.base + allocation.bytes);
        }
        ginrs_memory_changes.fetch_add(1, Ordering::Relaxed);
    }

    fn take(&mut self, base: usize) -> Option<Allocation> {
        ginrs_memory_changes.fetch_add(1, Ordering::Relaxed);
        self.by_base.remove(&base)
    }
}

/// From now on host threads that touch this memory are looked at, too.
pub fn look_at(low: usize, high: usize) {
    ginrs_memory_low.fetch_min(low, Ordering::Relaxed);
    ginrs_memory_high.fetch_max(high, Ordering::Relaxed);
    ginrs_memory_changes.fetch_add(1, Ordering::Relaxed);
}

/// Bytes of the machine's memory: what each device says it has.
pub fn total() -> usize {
    static TOTAL: crate::once::OnceLock<usize> = crate::once::OnceLock::new();
    // SAFETY: plain calls.
    *TOTAL.get_or_init(|| unsafe { libc::sysconf(libc::_SC_PHYS_PAGES) as usize * libc::sysconf(libc::_SC_PAGESIZE) as usize })
}

/// Bytes that no allocation of this process uses.
pub fn available() -> usize {
    total().saturating_sub(TABLE.read().bytes)
}

/// `watcher` is called with the range of each allocation from now on.
pub fn watch(watcher: Watcher) {
    let _ = WATCHER.set(watcher);
}

fn changed(base: usize, bytes: usize) {
    if let Some(watcher) = WATCHER.get() {
        (watcher.changed)(base, bytes);
    }
}

/// Makes memory. `bytes` 0 gives NULL, as CUDA does.
///
/// # Errors
/// `MemoryAllocation` when the machine has less than that, or the system refuses.
pub fn allocate(bytes: usize, kind: Kind, device: i32, flags: u32) -> Result<usize> {
    if bytes == 0 {
        return Ok(0);
    }
    if bytes > available() {
        return refuse(
            Code::MEMORY_ALLOCATION,
            &format!("{bytes} bytes asked for, {} of {} are left\nfix: allocate less", available(), total()),
        );
    }
    let watched = WATCHER.get().is_some();
    let (base, origin) = match bytes {
        // AddressSanitizer's own, with what it knows of it: who made it and freed it, and nobody has its addresses soon.
        LARGE.. if asan::present() => (heap(bytes, LARGE)?, Origin::Heap),
        _ if watched && asan::present() => (heap(bytes.next_multiple_of(PAGE), PAGE)?, Origin::Pages),
        _ if watched => (mapping(bytes, if bytes < LARGE { PAGE } else { LARGE }, Origin::Apart)?, Origin::Apart),
        LARGE.. => (mapping(bytes, LARGE, Origin::Mapping)?, Origin::Mapping),
        _ => (heap(bytes, ALIGN)?, Origin::Heap),
    };
    changed(base, bytes);
    if let Some(watcher) = WATCHER.get().filter(|_| kind == Kind::Device) {
        // SAFETY: it was made just now.
        unsafe { (watcher.fill)(base, bytes) };
    }
    let mut table = TABLE.write();
    table.add(Allocation { base, bytes, kind, device, flags, origin });
    table.bytes += bytes;
    Ok(base)
}

fn heap(bytes: usize, align: usize) -> Result<usize> {
    let mut memory: *mut c_void = std::ptr::null_mut();
    // SAFETY: the alignment is a power of two and a multiple of a pointer's size.
    if unsafe { libc::posix_memalign(&raw mut memory, align, bytes) } != 0 {
        return refuse(Code::MEMORY_ALLOCATION, &format!("{bytes} bytes: the system has no memory"));
    }
    Ok(memory as usize)
}

/// Bytes of the mapping that is made for so many.
fn mapped(bytes: usize, origin: Origin) -> usize {
    bytes.next_multiple_of(PAGE) + if origin == Origin::Apart { PAGE } else { 0 }
}

fn mapping(bytes: usize, align: usize, origin: Origin) -> Result<usize> {
    let length = mapped(bytes, origin);
    let spare = align - PAGE;
    // SAFETY: a fresh anonymous mapping; the parts before and after the aligned range are given back below.
    unsafe {
        let whole = libc::mmap(
            std::ptr::null_mut(),
            length + spare,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        );
        if whole == libc::MAP_FAILED {
            let error = std::io::Error::last_os_error();
            return refuse(Code::MEMORY_ALLOCATION, &format!("{bytes} bytes: {error}"));
        }
        let begin = whole as usize;
        let base = begin.next_multiple_of(align);
        if base > begin {
            libc::munmap(whole, base - begin);
        }
        if begin + spare > base {
            libc::munmap((base + length) as *mut c_void, begin + spare - base);
        }
        Ok(base)
    }
}

/// Frees what `allocate` made. `host`: by `cudaFreeHost`, else `cudaFree`. NULL is fine.
///
/// # Errors
/// `InvalidValue` for anything else, with what it is.
pub fn free(base: usize, host: bool) -> Result {
    if base == 0 {
        return Ok(());
    }
    let mut table = TABLE.write();
    let wrong = match table.by_base.get(&base) {
        None => Some("not the first byte of an allocation (freed twice?)"),
        Some(found) => match (found.origin, found.kind) {
            (Origin::Registered, _) => Some("registered memory\nfix: cudaHostUnregister, then free it as it was allocated"),
            (Origin::Noted, _) => Some("memory of ncclMemAlloc\nfix: ncclMemFree"),
            (Origin::Mapped, _) => Some("memory of cuMemCreate\nfix: cuMemUnmap"),
            (_, Kind::Host) if !host => Some("pinned host memory\nfix: cudaFreeHost"),
            (_, Kind::Device | Kind::Managed) if host => Some("device memory\nfix: cudaFree"),
            _ => None,
        },
    };
    if let Some(wrong) = wrong {
        drop(table);
        return refuse(Code::INVALID_VALUE, &format!("free of {base:#x}: {wrong}"));
    }
    let Some(found) = table.take(base) else { return Err(Code::INVALID_VALUE) };
    table.bytes -= found.bytes;
    drop(table);
    changed(base, found.bytes);
    // SAFETY: `allocate` made it so, and it is out of the table: nobody frees it again.
    unsafe {
        if matches!(found.origin, Origin::Heap | Origin::Pages) {
            libc::free(base as *mut c_void);
        } else if let Some(watcher) = WATCHER.get().filter(|_| found.kind == Kind::Device) {
            freed::keep(base, mapped(found.bytes, found.origin), found.bytes, (watcher.called_at)());
        } else {
            libc::munmap(base as *mut c_void, mapped(found.bytes, found.origin));
        }
    }
    Ok(())
}

/// `cudaHostRegister`.
///
/// # Errors
/// `HostMemoryAlreadyRegistered` if it overlaps known memory, `InvalidValue` for an empty range.
pub fn register(base: usize, bytes: usize, device: i32, flags: u32) -> Result {
    if base == 0 || bytes == 0 || base.checked_add(bytes).is_none() {
        return Err(Code::INVALID_VALUE);
    }
    let mut table = TABLE.write();
    let before = table.by_base.range(..base + bytes).next_back();
    if before.is_some_and(|(_, other)| other.base + other.bytes > base) {
        return Err(Code::HOST_MEMORY_ALREADY_REGISTERED);
    }
    table.add(Allocation { base, bytes, kind: Kind::Host, device, flags, origin: Origin::Registered });
    Ok(())
}

/// `cudaHostUnregister`.
///
/// # Errors
/// `HostMemoryNotRegistered`.
pub fn unregister(base: usize) -> Result {
    remove(base, Origin::Registered).ok_or(Code::HOST_MEMORY_NOT_REGISTERED).map(drop)
}

/// Memory of ncclMemAlloc: known, but not ours to free.
///
/// # Safety
/// It is new, and mapped.
pub unsafe fn note(base: usize, bytes: usize, device: i32) {
    if let Some(watcher) = WATCHER.get() {
        // SAFETY: the caller's.
        unsafe { (watcher.fill)(base, bytes) };
    }
    insert(base, bytes, device, Origin::Noted);
}

/// It is gone.
pub fn forget(base: usize) {
    remove(base, Origin::Noted);
}

/// Memory of cuMemCreate that is mapped: known, and freed by cuMemUnmap.
pub fn note_mapped(base: usize, bytes: usize, device: i32) {
    insert(base, bytes, device, Origin::Mapped);
}

/// It is no longer mapped.
pub fn forget_mapped(base: usize) {
    remove(base, Origin::Mapped);
}

fn insert(base: usize, bytes: usize, device: i32, origin: Origin) {
    TABLE.write().add(Allocation { base, bytes, kind: Kind::Device, device, flags: 0, origin });
}

fn remove(base: usize, origin: Origin) -> Option<Allocation> {
    let mut table = TABLE.write();
    let bytes = table.by_base.get(&base).filter(|found| found.origin == origin)?.bytes;
    changed(base, bytes);
    table.take(base)
}

/// Whether the page that begins here is known memory, all of it, or nobody's but its owner's.
pub fn is_page(address: usize) -> bool {
    let table = TABLE.read();
    let Some((_, found)) = table.by_base.range(..=address).next_back() else { return false };
    let ends = found.base + found.bytes;
    match found.origin {
        Origin::Heap | Origin::Registered => address + PAGE <= ends,
        Origin::Pages | Origin::Apart | Origin::Mapping | Origin::Noted | Origin::Mapped => address < ends,
    }
}

/// Where the allocation ends that alone has the page which begins here, or the page before.
pub fn end_in(page: usize) -> Option<usize> {
    let table = TABLE.read();
    let (_, found) = table.by_base.range(..=page).next_back()?;
    let ends = found.base + found.bytes;
    let own = match found.origin {
        Origin::Heap | Origin::Registered => return None,
        Origin::Apart => found.base + mapped(found.bytes, found.origin),
        Origin::Pages | Origin::Mapping | Origin::Noted | Origin::Mapped => ends,
    };
    (page < own).then_some(ends)
}

/// The allocation that `address` is in.
pub fn find(address: usize) -> Option<Allocation> {
    let table = TABLE.read();
    let (_, found) = table.by_base.range(..=address).next_back()?;
    (address - found.base < found.bytes).then_some(*found)
}

/// As far from an allocation an address is taken for one that was meant to be inside; nothing else is so near.
pub const NEAR: usize = ALIGN;

/// The allocation that `address` is in, or next to. Waits for nobody.
pub fn near(address: usize) -> Option<Allocation> {
    let table = TABLE.try_read()?;
    let below = table.by_base.range(..=address).next_back().filter(|(_, found)| address - found.base < found.bytes + NEAR);
    let above = || table.by_base.range(address..).next().filter(|(base, _)| *base - address <= NEAR);
    below.or_else(above).map(|(_, found)| *found)
}

impl Allocation {
    /// The function that made it, as far as that is known.
    pub fn function(&self) -> &'static str {
        match (self.origin, self.kind) {
            (Origin::Registered, _) => "cudaHostRegister",
            (Origin::Noted, _) => "ncclMemAlloc",
            (Origin::Mapped, _) => "cuMemCreate",
            (_, Kind::Host) => "cudaMallocHost",
            (_, Kind::Device) => "cudaMalloc",
            (_, Kind::Managed) => "cudaMallocManaged",
        }
    }

    /// Whether libginrs made it (its kind is not cudaMalloc's).
    pub fn is_noted(&self) -> bool {
        self.origin == Origin::Noted
    }
}

/// Refuses a copy or fill that begins in known memory and runs over its end, or begins at NULL.
///
/// # Errors
/// `InvalidValue`.
pub fn check_range(address: usize, bytes: usize, what: &str) -> Result {
    if bytes == 0 {
        return Ok(());
    }
    if address == 0 {
        return refuse(
            Code::INVALID_VALUE,
            &format!("{what}: the pointer is NULL\nfix: allocate it, and look at what the allocation returns"),
        );
    }
    if let Some((words, called_at)) = freed::find(address) {
        let line = WATCHER.get().and_then(|watcher| (watcher.line)(called_at));
        let by = line.map(|line| format!(" at {line}")).unwrap_or_default();
        return refuse(Code::INVALID_VALUE, &format!("{what}: {address:#x} is {words}{by}\nfix: free it behind its last use"));
    }
    match overrun(address, bytes) {
        Some(found) => refuse(
            Code::INVALID_VALUE,
            &format!(
                "{what}: {bytes} bytes at {address:#x} run over the end of an allocation of {} bytes at {:#x}\nfix: move no more than was allocated; sizes are in bytes",
                found.bytes, found.base
            ),
        ),
        None => Ok(()),
    }
}

/// The allocation that so many bytes begin in and run over the end of.
pub fn overrun(address: usize, bytes: usize) -> Option<Allocation> {
    let found = find(address)?;
    // Registered memory may be part of a larger array of the program's, and mappings may lie side by side.
    let may_go_on = matches!(found.origin, Origin::Registered | Origin::Mapped);
    (!may_go_on && found.bytes - (address - found.base) < bytes).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_into_an_allocation_finds_it() {
        for bytes in [1, 4096, LARGE - 1, LARGE, LARGE + 1, 5 << 20] {
            let base = allocate(bytes, Kind::Device, 3, 0).unwrap();
            assert_eq!(base % if bytes < LARGE { ALIGN } else { LARGE }, 0);
            // SAFETY: the first and the last byte of the allocation.
            unsafe {
                (base as *mut u8).write(1);
                ((base + bytes - 1) as *mut u8).write(2);
            }
            assert_eq!(find(base + bytes - 1).unwrap().base, base);
            assert!(find(base + bytes).is_none_or(|other| other.base != base));
            assert_eq!(check_range(base + bytes - 1, 2, "test"), Err(Code::INVALID_VALUE));
            assert_eq!(check_range(base, bytes, "test"), Ok(()));
            assert_eq!(free(base, true), Err(Code::INVALID_VALUE));
            assert_eq!(free(base, false), Ok(()));
            assert_eq!(free(base, false), Err(Code::INVALID_VALUE));
        }
        assert_eq!(allocate(usize::MAX / 2, Kind::Device, 0, 0), Err(Code::MEMORY_ALLOCATION));
    }

    #[test]
    fn registered_memory_is_the_programs() {
        let array = vec![0u8; 10_000];
        let base = array.as_ptr() as usize;
        assert_eq!(register(base, 10_000, 0, 2), Ok(()));
        assert_eq!(register(base + 100, 10, 0, 0), Err(Code::HOST_MEMORY_ALREADY_REGISTERED));
        assert_eq!(free(base, true), Err(Code::INVALID_VALUE));
        assert_eq!(find(base + 9_999).unwrap().kind, Kind::Host);
        assert_eq!(unregister(base), Ok(()));
        assert_eq!(unregister(base), Err(Code::HOST_MEMORY_NOT_REGISTERED));
    }
}
