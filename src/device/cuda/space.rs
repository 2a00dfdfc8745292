//! Reserved addresses of a GPU, and memory mapped in them.

use super::CudaDevice;
use super::driver::{cu, driver};
use super::memory::CudaPhysical;
use crate::device::addresses::check_inside;
use crate::device::{DevPtr, Physical, Reservation, Transfers};
use crate::error::{Code, Error, Result};
use crate::sync::Mutex;
use crate::{bail, process, warn};
use cudarc::driver::sys::{CUdevice, CUmemAccessDesc};
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// CUmemAccessDesc with plain numbers.
#[repr(C)]
struct Access {
    location: c_int,
    ordinal: c_int,
    flags: c_int,
}

const _: () = assert!(size_of::<Access>() == size_of::<CUmemAccessDesc>());

/// A range of addresses; unmapped parts stay reserved.
pub struct CudaReservation {
    device: Arc<CudaDevice>,
    base: DevPtr,
    bytes: usize,
    /// What is mapped, by offset.
    mapped: Mutex<BTreeMap<usize, Arc<dyn Physical>>>,
}

impl CudaReservation {
    /// See [`crate::device::Memory::reserve`].
    pub fn new(device: Arc<CudaDevice>, bytes: usize, align: usize) -> Result<Self> {
        let granularity = device.facts.granularity;
        let Some(rounded) = bytes.max(1).checked_next_multiple_of(granularity) else {
            bail!(InvalidArgument, 25, "address space is too large | {bytes} bytes | fix: lower NCCL_WIN_STRIDE");
        };
        let mut base = 0;
        let reserved = {
            let _inside = device.context.enter()?;
            // SAFETY: a valid place to write to; the driver chooses the address.
            unsafe { cu!(cuMemAddressReserve(&mut base, rounded, align.max(granularity), 0, 0)) }
        };
        if let Err(error) = reserved {
            return Err(Error::new(
                Code::UnhandledCudaError,
                25,
                format!("address space could not be reserved | {rounded} bytes, {} | {}", device.facts.name, error.text),
            ));
        }
        Ok(Self { device, base, bytes: rounded, mapped: Mutex::default() })
    }

    /// Whose addresses they are.
    pub fn device(&self) -> &CudaDevice {
        &self.device
    }

    /// The memory that is mapped at its start.
    pub fn whole(&self) -> Option<Arc<dyn Physical>> {
        self.mapped.lock().get(&0).cloned()
    }

    /// [`Reservation::map`], and the devices in `also` may read and write it too.
    pub fn map_for(&self, offset: usize, physical: &Arc<dyn Physical>, also: &[CUdevice]) -> Result<()> {
        let Some(memory) = physical.as_any().downcast_ref::<CudaPhysical>() else {
            bail!(InternalError, 25, "memory of another kind in a GPU's address range | fix: report this");
        };
        let bytes = memory.bytes();
        check_inside(offset, bytes, self.bytes, self.device.facts.granularity)?;
        let at = self.base + offset as u64;
        let _inside = self.device.context.enter()?;
        let own = std::iter::once(&self.device.context.device);
        // CU_MEM_LOCATION_TYPE_DEVICE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE.
        let access: Vec<Access> = own.chain(also).map(|&ordinal| Access { location: 1, ordinal, flags: 3 }).collect();
        // SAFETY: the target lies inside our reservation (checked); the driver refuses a range that is mapped already.
        unsafe {
            cu!(cuMemMap(at, bytes, 0, memory.handle(), 0))?;
            if let Err(error) = cu!(cuMemSetAccess(at, bytes, access.as_ptr().cast(), access.len())) {
                if let Err(kept) = cu!(cuMemUnmap(at, bytes)) {
                    say_kept(&self.device, at, bytes, &kept);
                }
                return Err(no_access(&self.device, error));
            }
        }
        if memory.take_dirty(self.device.context.device)
            && let Err(error) = self.device.zero(at, bytes)
        {
            // SAFETY: mapped just now, and known to nobody.
            if let Err(kept) = unsafe { cu!(cuMemUnmap(at, bytes)) } {
                say_kept(&self.device, at, bytes, &kept);
            }
            return Err(error);
        }
        self.mapped.lock().insert(offset, physical.clone());
        Ok(())
    }

    fn unmap_entry(&self, offset: usize, physical: &Arc<dyn Physical>) -> Result<()> {
        // SAFETY: the range was mapped by `map_for`; that no kernel uses it is the caller's argument (it buries what may be used).
        unsafe { cu!(cuMemUnmap(self.base + offset as u64, physical.bytes())) }
    }

    /// [`Self::unmap_entry`] where nobody can be given the error.
    fn let_go(&self, offset: usize, physical: &Arc<dyn Physical>) {
        if let Err(error) = self.unmap_entry(offset, physical) {
            say_kept(&self.device, self.base + offset as u64, physical.bytes(), &error);
        }
    }
}

/// A context that has failed, or the driver at the end of the process, unmaps nothing and has let go of it all: told elsewhere, or no news.
fn say_kept(device: &CudaDevice, at: DevPtr, bytes: usize, error: &Error) {
    static TOLD: AtomicBool = AtomicBool::new(false);
    if error.id != 73 && !process::is_ending() && !TOLD.swap(true, Ordering::Relaxed) {
        warn!(
            "GINRS-E006 memory stays mapped | device {}, {bytes} bytes at {at:#x} | {} | they are lost to this process (told once) | fix: \
             report this",
            device.context.device, error.text
        );
    }
}

fn no_access(device: &CudaDevice, error: Error) -> Error {
    Error::new(
        Code::UnhandledCudaError,
        74,
        format!(
            "device {} ({}) cannot be given access to memory | {} | is it another GPU's that it does not reach by NVLink or PCIe? \
             nvidia-smi topo -p2p r shows it",
            device.context.device, device.facts.name, error.text
        ),
    )
}

impl Reservation for CudaReservation {
    fn base(&self) -> DevPtr {
        self.base
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn map(&self, offset: usize, physical: &Arc<dyn Physical>) -> Result<()> {
        self.map_for(offset, physical, &[])
    }

    /// Memory of other processes in parallel: access to it takes the driver 0.7 ms, whatever its size, and threads do not wait for
    /// each other there (three on an H200: 0.6 ms in threads, 2.2 ms one by one). Memory of this process takes 0.05 ms, less than a
    /// thread.
    fn map_all(&self, wanted: &[(usize, Arc<dyn Physical>)]) -> Result<()> {
        let map = |(offset, physical): &(usize, Arc<dyn Physical>)| self.map(*offset, physical);
        let is_slow = |i: &usize| wanted[*i].1.as_any().downcast_ref::<CudaPhysical>().is_some_and(CudaPhysical::is_foreign);
        // One of them this thread takes itself, in the end.
        let elsewhere: Vec<usize> = (0..wanted.len()).filter(is_slow).skip(1).collect();
        let mut results = vec![Ok(()); wanted.len()];
        std::thread::scope(|scope| {
            let start = |&i: &usize| (i, std::thread::Builder::new().spawn_scoped(scope, move || map(&wanted[i])));
            let threads: Vec<_> = elsewhere.iter().map(start).collect();
            for i in (0..wanted.len()).filter(|i| !elsewhere.contains(i)) {
                results[i] = map(&wanted[i]);
            }
            for (i, thread) in threads {
                results[i] = match thread {
                    Ok(thread) => {
                        thread.join().unwrap_or_else(|_| bail!(InternalError, 25, "mapping panicked | fix: report this"))
                    }
                    // A thread that could not be started leaves its part to this one.
                    Err(_) => map(&wanted[i]),
                };
            }
        });
        let failed = results.iter().find_map(|result| result.clone().err());
        let Some(error) = failed else { return Ok(()) };
        for ((offset, physical), _) in wanted.iter().zip(&results).filter(|(_, result)| result.is_ok()) {
            self.let_go(*offset, physical);
            self.mapped.lock().remove(offset);
        }
        Err(error)
    }

    fn unmap(&self, offset: usize, bytes: usize) -> Result<()> {
        let mut mapped = self.mapped.lock();
        let inside: Vec<usize> = mapped.range(offset..offset.saturating_add(bytes)).map(|(&at, _)| at).collect();
        let _inside = self.device.context.enter()?;
        for at in inside {
            self.unmap_entry(at, &mapped[&at])?;
            mapped.remove(&at);
        }
        Ok(())
    }
}

impl Drop for CudaReservation {
    fn drop(&mut self) {
        let Ok(_inside) = self.device.context.enter() else { return };
        for (&at, physical) in &*self.mapped.lock() {
            self.let_go(at, physical);
        }
        if let Ok(driver) = driver() {
            // SAFETY: the whole range is ours and nothing is mapped in it any more; whoever used addresses inside held an Arc.
            unsafe { (driver.f.cuMemAddressFree)(self.base, self.bytes) };
        }
    }
}
