//! Arrays of atomics in memory that kernels also see.

use crate::device::{ControlMemory, DeviceMemory, Physical};
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Types that any bits are a value of, that zeroed memory holds, and that are only accessed atomically.
///
/// # Safety
/// The implementor upholds exactly that.
pub unsafe trait Words: Sync {}
// SAFETY: an atomic integer.
unsafe impl Words for AtomicU32 {}
// SAFETY: an atomic integer.
unsafe impl Words for AtomicU64 {}
// SAFETY: an array of them.
unsafe impl<T: Words, const N: usize> Words for [T; N] {}

/// Asks for the cache line of `item`, which will be read soon. A hint to the CPU, nothing else.
#[inline]
pub fn prefetch<T>(item: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: prefetching reads nothing and never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(item).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = item;
}

#[derive(Clone)]
enum Memory {
    Control(Arc<ControlMemory>),
    Physical(#[allow(dead_code)] Arc<dyn Physical>),
    Device(#[allow(dead_code)] Arc<DeviceMemory>),
}

/// A slice of `T` that keeps its memory alive.
pub struct Shared<T: Words> {
    at: NonNull<T>,
    len: usize,
    device: u64,
    memory: Memory,
}

// SAFETY: T is Sync and only handed out by shared reference; the memory itself is Send and Sync.
unsafe impl<T: Words> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Words> Sync for Shared<T> {}

impl<T: Words> Shared<T> {
    /// `len` items from the start of `memory`, which must be that large.
    pub fn new(memory: ControlMemory, len: usize) -> Self {
        Self::part(&Arc::new(memory), 0, len)
    }

    /// The same from byte `offset` on, which is aligned for an item.
    pub fn part(memory: &Arc<ControlMemory>, offset: usize, len: usize) -> Self {
        let end = len.checked_mul(size_of::<T>()).and_then(|bytes| bytes.checked_add(offset));
        assert!(end.is_some_and(|end| end <= memory.bytes()) && offset.is_multiple_of(align_of::<T>()));
        // SAFETY: offset is within the memory, as just checked.
        let at = unsafe { memory.host().add(offset) };
        Self { at: at.cast(), len, device: memory.device() + offset as u64, memory: Memory::Control(memory.clone()) }
    }

    /// `len` items from byte `offset` of `physical`; None where host or kernels do not see it as it is, or it is too small.
    pub fn of_physical(physical: &Arc<dyn Physical>, offset: usize, len: usize) -> Option<Self> {
        let end = len.checked_mul(size_of::<T>())?.checked_add(offset)?;
        if end > physical.bytes() || !offset.is_multiple_of(align_of::<T>()) {
            return None;
        }
        // SAFETY: offset is within the mapping, as just checked.
        let at = unsafe { physical.host()?.add(offset) };
        let device = physical.device_address()? + offset as u64;
        Some(Self { at: at.cast(), len, device, memory: Memory::Physical(physical.clone()) })
    }

    /// `len` items from the start of `physical`, for hosts alone.
    pub fn of_host(physical: &Arc<dyn Physical>, len: usize) -> Option<Self> {
        let at = physical.host().filter(|_| len.checked_mul(size_of::<T>()).is_some_and(|bytes| bytes <= physical.bytes()))?;
        Some(Self { at: at.cast(), len, device: 0, memory: Memory::Physical(physical.clone()) })
    }

    /// The same of `memory`.
    pub fn of_device(memory: &Arc<DeviceMemory>, offset: usize, len: usize) -> Option<Self> {
        let end = len.checked_mul(size_of::<T>())?.checked_add(offset)?;
        if end > memory.bytes() || !offset.is_multiple_of(align_of::<T>()) {
            return None;
        }
        // SAFETY: offset is within the memory, as just checked.
        let at = unsafe { memory.host()?.add(offset) };
        Some(Self { at: at.cast(), len, device: memory.device() + offset as u64, memory: Memory::Device(memory.clone()) })
    }

    /// The host memory that the items begin.
    pub fn control(&self) -> Option<Arc<ControlMemory>> {
        match &self.memory {
            Memory::Control(memory) if memory.host() == self.at.cast() => Some(memory.clone()),
            _ => None,
        }
    }

    /// Address of the first item for kernels.
    pub fn device(&self) -> u64 {
        self.device
    }
}

impl<T: Words> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self { memory: self.memory.clone(), ..*self }
    }
}

impl<T: Words> Deref for Shared<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: constructors checked size (and alignment: memory is page-aligned, offset a multiple of T's); the memory
        // lives as long as self; any bits are a T, and all accesses by others are atomic.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.len) }
    }
}
