//! Virtual memory management: physical memory, multicast objects, reserved addresses, and what is mapped there (`cuMemCreate`,
//! `cuMulticastCreate` and their kin). Of one process: nothing here can be shared with another one.
//! Physical memory is a memfd.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::error::{Code, Result, refuse};
use crate::memfd;
use crate::memory;
use crate::multicast;

mod object;
pub use object::Multicast;

/// What sizes, offsets and addresses are multiples of.
pub const GRANULE: usize = 2 << 20;

/// `CUmemGenericAllocationHandle`
pub type Handle = u64;

/// What a handle names.
pub enum Object {
    /// Memory of a device.
    Memory(Physical),
    /// A multicast object.
    Multicast(Multicast),
}

/// Physical memory.
pub struct Physical {
    file: OwnedFd,
    bytes: usize,
    /// Whose it is.
    pub device: i32,
}

struct Mapping {
    bytes: usize,
    handle: Handle,
    object: Arc<Object>,
    /// Of memory: what the last cuMemSetAccess granted.
    access: i32,
}

#[derive(Default)]
struct Space {
    /// With the number of references that the program holds.
    objects: HashMap<Handle, (Arc<Object>, usize)>,
    made: Handle,
    reserved: BTreeMap<usize, usize>,
    mappings: BTreeMap<usize, Mapping>,
}

static SPACE: Mutex<Option<Space>> = Mutex::new(None);

fn with<R>(act: impl FnOnce(&mut Space) -> R) -> R {
    act(SPACE.lock().get_or_insert_with(Space::default))
}

fn wrong<T>(what: &str) -> Result<T> {
    refuse(Code::INVALID_VALUE, what)
}

fn granules(what: &str, numbers: &[usize]) -> Result {
    match numbers.iter().find(|number| !number.is_multiple_of(GRANULE)) {
        Some(number) => wrong(&format!("{what}: {number:#x} is no multiple of {GRANULE:#x}\nfix: ask for the granularity first")),
        None => Ok(()),
    }
}

/// Maps `bytes` of `file` over addresses of ours, or nothing.
fn map_over(at: usize, bytes: usize, file: Option<(&OwnedFd, usize)>, protection: i32) -> Result {
    let (flags, fd, offset) = match file {
        Some((file, offset)) => (libc::MAP_SHARED, file.as_raw_fd(), offset),
        None => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE, -1, 0),
    };
    // SAFETY: the range lies in a reservation or a slab of ours, whose users vouch that nothing uses what was mapped there.
    let got = unsafe { libc::mmap(at as *mut _, bytes, protection, flags | libc::MAP_FIXED, fd, offset as libc::off_t) };
    if got == libc::MAP_FAILED { Err(Code::MEMORY_ALLOCATION) } else { Ok(()) }
}

/// Addresses without access, aligned to `align`.
fn reserve_aligned(bytes: usize, align: usize) -> Result<usize> {
    let Some(all) = bytes.checked_add(align) else { return Err(Code::MEMORY_ALLOCATION) };
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping, of which the parts before and after the aligned range are given back.
    unsafe {
        let whole = libc::mmap(std::ptr::null_mut(), all, libc::PROT_NONE, flags, -1, 0);
        if whole == libc::MAP_FAILED {
            return refuse(Code::MEMORY_ALLOCATION, &format!("{bytes} bytes of addresses: {}", std::io::Error::last_os_error()));
        }
        let (begin, base) = (whole as usize, (whole as usize).next_multiple_of(align));
        for (from, to) in [(begin, base), (base + bytes, begin + all)] {
            if to > from {
                libc::munmap(from as *mut _, to - from);
            }
        }
        Ok(base)
    }
}

impl Space {
    fn add(&mut self, object: Object) -> Handle {
        self.made += 1;
        let handle = 0x7600_0000 + self.made;
        self.objects.insert(handle, (Arc::new(object), 1));
        handle
    }

    /// The mapping that `address` is in, and where it begins.
    fn around(&self, address: usize) -> Option<(usize, &Mapping)> {
        let (&base, mapping) = self.mappings.range(..=address).next_back()?;
        (address - base < mapping.bytes).then_some((base, mapping))
    }

    /// The mappings that fill the range without a gap and without a rest.
    fn fill(&self, at: usize, bytes: usize, what: &str) -> Result<Vec<usize>> {
        let (mut next, mut found) = (at, Vec::new());
        while next < at.saturating_add(bytes) {
            let Some(mapping) = self.mappings.get(&next) else { break };
            found.push(next);
            next += mapping.bytes;
        }
        if next == at + bytes && bytes > 0 {
            Ok(found)
        } else {
            wrong(&format!("{what}: {bytes} bytes at {at:#x} are no whole mappings"))
        }
    }
}

/// What `handle` names.
///
/// # Errors
/// `InvalidValue` for none.
pub fn find(handle: Handle) -> Result<Arc<Object>> {
    let found = with(|space| space.objects.get(&handle).map(|(object, _)| object.clone()));
    found.map_or_else(|| wrong(&format!("{handle:#x} is no handle of cuMemCreate or cuMulticastCreate (released?)")), Ok)
}

/// `cuMemCreate`
///
/// # Errors
/// `InvalidValue` for an odd size, `MemoryAllocation`.
pub fn create(bytes: usize, device: i32) -> Result<Handle> {
    granules("cuMemCreate", &[bytes])?;
    if bytes == 0 || bytes > memory::available() {
        let code = if bytes == 0 { Code::INVALID_VALUE } else { Code::MEMORY_ALLOCATION };
        return refuse(code, &format!("cuMemCreate: {bytes} bytes asked for, {} are left", memory::available()));
    }
    let file = match memfd::create(c"ginrs-cpu", bytes as u64, 0) {
        Ok(file) => file,
        Err(error) => return refuse(Code::MEMORY_ALLOCATION, &format!("cuMemCreate: {error}")),
    };
    Ok(with(|space| space.add(Object::Memory(Physical { file, bytes, device }))))
}

/// `cuMemRelease`: what is mapped or bound stays.
///
/// # Errors
/// `InvalidValue` for no handle.
pub fn release(handle: Handle) -> Result {
    find(handle)?;
    with(|space| {
        if let Some((_, held)) = space.objects.get_mut(&handle) {
            *held -= 1;
            if *held == 0 {
                space.objects.remove(&handle);
            }
        }
    });
    Ok(())
}

/// `cuMemRetainAllocationHandle`
///
/// # Errors
/// `InvalidValue` where nothing is mapped.
pub fn retain(address: usize) -> Result<Handle> {
    with(|space| {
        let Some((_, mapping)) = space.around(address) else { return wrong(&format!("nothing is mapped at {address:#x}")) };
        let (handle, object) = (mapping.handle, mapping.object.clone());
        space.objects.entry(handle).or_insert((object, 0)).1 += 1;
        Ok(handle)
    })
}

/// `cuMemAddressReserve`
///
/// # Errors
/// `InvalidValue` for an odd size or alignment, `MemoryAllocation`.
pub fn reserve(bytes: usize, align: usize) -> Result<usize> {
    granules("cuMemAddressReserve", &[bytes])?;
    if bytes == 0 || align != 0 && !align.is_power_of_two() {
        return wrong("cuMemAddressReserve: want a size above 0, and a power of two as alignment");
    }
    let base = reserve_aligned(bytes, align.max(GRANULE))?;
    with(|space| space.reserved.insert(base, bytes));
    Ok(base)
}

/// `cuMemAddressFree`
///
/// # Errors
/// `InvalidValue` unless it is a whole reservation without mappings.
pub fn free_addresses(at: usize, bytes: usize) -> Result {
    with(|space| {
        if space.reserved.get(&at) != Some(&bytes) || space.mappings.range(at..at + bytes).next().is_some() {
            return wrong(&format!(
                "cuMemAddressFree: {bytes} bytes at {at:#x} are no reservation, or something is mapped there"
            ));
        }
        space.reserved.remove(&at);
        // SAFETY: the whole of a reservation of ours.
        unsafe { libc::munmap(at as *mut _, bytes) };
        Ok(())
    })
}

/// `cuMemMap`: without access. Waits for the team of a multicast object.
///
/// # Errors
/// `InvalidValue` outside of a reservation or where something is mapped, `NotSupported` for a part of an object.
pub fn map(at: usize, bytes: usize, offset: usize, handle: Handle) -> Result {
    granules("cuMemMap", &[at, bytes, offset])?;
    let object = find(handle)?;
    let whole = match &*object {
        Object::Memory(physical) => physical.bytes,
        Object::Multicast(multicast) => multicast.complete(),
    };
    with(|space| {
        let inside = space.reserved.range(..=at).next_back().is_some_and(|(base, all)| at - base + bytes <= *all);
        let taken = space.mappings.range(..at + bytes).next_back().is_some_and(|(base, other)| base + other.bytes > at);
        if bytes == 0 || !inside || taken {
            return wrong(&format!("cuMemMap: {bytes} bytes at {at:#x} are not reserved, or something is mapped there"));
        }
        if offset != 0 || bytes != whole {
            return refuse(Code::NOT_SUPPORTED, "cuMemMap: only whole allocations can be mapped, as on GPUs");
        }
        if let Object::Memory(physical) = &*object {
            map_over(at, bytes, Some((&physical.file, 0)), libc::PROT_NONE)?;
            memory::note_mapped(at, bytes, physical.device);
        }
        space.mappings.insert(at, Mapping { bytes, handle, object, access: 0 });
        Ok(())
    })
}

/// `cuMemUnmap`
///
/// # Errors
/// `InvalidValue` for what is no whole mappings.
pub fn unmap(at: usize, bytes: usize) -> Result {
    with(|space| {
        for base in space.fill(at, bytes, "cuMemUnmap")? {
            let Some(gone) = space.mappings.remove(&base) else { continue };
            match &*gone.object {
                Object::Memory(_) => memory::forget_mapped(base),
                Object::Multicast(_) => multicast::remove(base),
            }
            map_over(base, gone.bytes, None, libc::PROT_NONE)?;
        }
        Ok(())
    })
}

/// `cuMemSetAccess`: for all devices at once, as they share the process's addresses. 0: none, 1: read, 3: read and write.
///
/// # Errors
/// `InvalidValue` for what is no whole mappings.
pub fn set_access(at: usize, bytes: usize, access: i32) -> Result {
    let protection = match access {
        0 => libc::PROT_NONE,
        1 => libc::PROT_READ,
        3 => libc::PROT_READ | libc::PROT_WRITE,
        _ => return wrong(&format!("cuMemSetAccess: {access} is no access")),
    };
    with(|space| {
        for base in space.fill(at, bytes, "cuMemSetAccess")? {
            let Some(mapping) = space.mappings.get_mut(&base) else { continue };
            let before = std::mem::replace(&mut mapping.access, access);
            match &*mapping.object {
                // SAFETY: a mapping of ours; the program vouches that nothing uses it against the new access.
                Object::Memory(_) => unsafe {
                    if libc::mprotect(base as *mut _, mapping.bytes, protection) != 0 {
                        return refuse(Code::MEMORY_ALLOCATION, &format!("cuMemSetAccess: {}", std::io::Error::last_os_error()));
                    }
                },
                Object::Multicast(_) if access == 0 => multicast::remove(base),
                Object::Multicast(all) if before == 0 => all.open(base),
                Object::Multicast(_) => {}
            }
        }
        Ok(())
    })
}

/// `cuMemGetAccess`
///
/// # Errors
/// `InvalidValue` where nothing is mapped.
pub fn access(at: usize) -> Result<i32> {
    let found = with(|space| space.around(at).map(|(_, mapping)| mapping.access));
    found.map_or_else(|| wrong(&format!("cuMemGetAccess: nothing is mapped at {at:#x}")), Ok)
}

/// `cuMulticastCreate`, for a team of `wanted` devices.
///
/// # Errors
/// `InvalidValue` for an odd size or more devices than there are.
pub fn create_multicast(wanted: usize, bytes: usize) -> Result<Handle> {
    let object = Object::Multicast(Multicast::new(wanted, bytes)?);
    Ok(with(|space| space.add(object)))
}

impl Object {
    /// The multicast object that `handle` names.
    ///
    /// # Errors
    /// `InvalidValue` for memory.
    pub fn multicast(&self) -> Result<&Multicast> {
        match self {
            Object::Multicast(multicast) => Ok(multicast),
            Object::Memory(_) => wrong("the handle is of memory, not of cuMulticastCreate"),
        }
    }
}

/// `cuMulticastBindAddr`: the memory mapped at `address`, and where in it that is.
///
/// # Errors
/// `InvalidValue` where no memory is mapped.
pub fn mapped_at(address: usize) -> Result<(Arc<Object>, usize)> {
    let found = with(|space| space.around(address).map(|(base, mapping)| (mapping.object.clone(), address - base)));
    found.map_or_else(|| wrong(&format!("{address:#x} is no memory of cuMemCreate that is mapped")), Ok)
}
