//! What a user's buffer lies in, which every launch asks the driver.

use super::CudaDevice;
use super::allocations::allocated;
use super::driver::driver;
use super::memory::POSIX_FD;
use crate::device::{DevPtr, Device, Holding, Lends};
use cudarc::driver::sys::CUpointer_attribute as Attribute;
use std::ffi::c_int;
use std::hash::{DefaultHasher, Hash, Hasher};

/// CU_MEMORYTYPE_DEVICE.
const DEVICE: u64 = 2;

/// See [`crate::device::Memory::holding`].
pub fn holding(device: &CudaDevice, ptr: DevPtr, bytes: u64) -> Option<Holding> {
    if let Some((home, holding)) = allocated(ptr) {
        return holding.filter(|_| home == device.ordinal());
    }
    let _inside = device.context.enter().ok()?;
    // Of cudaMalloc alone the driver says that cuIpcGetMemHandle takes it. Flags are bytes.
    let [plain, home, base, size, id] = attributes(
        ptr,
        [
            Attribute::CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
            Attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
            Attribute::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
            Attribute::CU_POINTER_ATTRIBUTE_RANGE_SIZE,
            Attribute::CU_POINTER_ATTRIBUTE_BUFFER_ID,
        ],
    )?;
    if home as i32 != device.ordinal() {
        return None;
    }
    match plain & 0xff {
        0 => pieces(device, ptr, bytes),
        _ => Some(Holding { base, bytes: size, id, lends: Lends::Handle }),
    }
}

/// Memory of one cuMemCreate, where it is mapped.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Piece {
    base: DevPtr,
    bytes: u64,
    id: u64,
}

/// Of memory that the program has mapped: the pieces in which `bytes` from `ptr` on lie, if they have one size, are mapped without a gap, and can be lent.
/// What the driver calls the range of such an address is the reservation, in which pieces come and go, each with an id of its own.
fn pieces(device: &CudaDevice, ptr: DevPtr, bytes: u64) -> Option<Holding> {
    let first = piece(device, ptr)?;
    let mut ids = DefaultHasher::new();
    first.id.hash(&mut ids);
    let (mut total, mut count) = (first.bytes, 1);
    while total < (ptr - first.base).checked_add(bytes)? {
        let next = piece(device, first.base + total)?;
        if count == Holding::MOST_PIECES || (next.base, next.bytes) != (first.base + total, first.bytes) {
            return None;
        }
        next.id.hash(&mut ids);
        (total, count) = (total + next.bytes, count + 1);
    }
    Some(Holding { base: first.base, bytes: total, id: ids.finish(), lends: Lends::Pieces(count) })
}

/// None where nothing is mapped, or what other processes cannot be given: memory of a pool, without a descriptor, of another GPU or of the host.
fn piece(device: &CudaDevice, at: DevPtr) -> Option<Piece> {
    let [kind, home, handles, pool, base, bytes, id] = attributes(
        at,
        [
            Attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
            Attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
            Attribute::CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES,
            Attribute::CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
            Attribute::CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR,
            Attribute::CU_POINTER_ATTRIBUTE_MAPPING_SIZE,
            Attribute::CU_POINTER_ATTRIBUTE_BUFFER_ID,
        ],
    )?;
    let lends = handles & u64::from(POSIX_FD) != 0 && pool == 0 && kind & 0xffff_ffff == DEVICE;
    (lends && home as i32 == device.ordinal() && bytes > 0).then_some(Piece { base, bytes, id })
}

/// Several in one call. What has no answer is 0.
fn attributes<const N: usize>(ptr: DevPtr, mut which: [Attribute; N]) -> Option<[u64; N]> {
    let mut values = [0u64; N];
    let mut places = values.each_mut().map(|value| (&raw mut *value).cast());
    // SAFETY: two arrays of N; no attribute asked for here is longer than 8 bytes, and shorter ones fill the low end on this little-endian host.
    let result: c_int =
        unsafe { (driver().ok()?.f.cuPointerGetAttributes)(N as _, which.as_mut_ptr(), places.as_mut_ptr(), ptr) };
    (result == 0).then_some(values)
}
