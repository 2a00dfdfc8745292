//! The requirement helpers of nccl_device (spec host 3.3): pure arithmetic that fills a requirement entry, whose handle
//! ncclDevCommCreate completes.

use super::entry::{entry, out};
use crate::bail;
use crate::devcomm::release::{Waits, note};
use crate::error::Result;
use crate::layout::*;
use std::ffi::c_int;
use std::ptr::{addr_of_mut, null_mut};

fn count(name: &str, value: c_int) -> Result<usize> {
    match usize::try_from(value) {
        Ok(value) => Ok(value),
        Err(_) => bail!(InvalidArgument, 62, "count is negative | {name} | {value} | fix: pass 0 or more"),
    }
}

fn empty() -> ncclDevResourceRequirements_t {
    ncclDevResourceRequirements_t {
        next: null_mut(),
        bufferSize: 0,
        bufferAlign: 0,
        outBufferHandle: null_mut(),
        ginSignalCount: 0,
        ginCounterCount: 0,
        outGinSignalStart: null_mut(),
        outGinCounterStart: null_mut(),
    }
}

/// Three words per barrier, and an inbox per barrier and rank. Bytes.
fn lsa_barrier_bytes(barriers: usize, ranks: usize) -> Result<usize> {
    match ranks.checked_add(3).and_then(|words| words.checked_mul(4)?.checked_mul(barriers)) {
        Some(bytes) => Ok(bytes),
        None => bail!(
            InvalidArgument,
            62,
            "barriers' buffer is too large | ncclLsaBarrierCreateRequirement | {barriers} barriers of {ranks} ranks | fix: pass the LSA \
             team, and one barrier per block"
        ),
    }
}

/// A header line and two banks of slots per block, 16 bytes a line. The device computes in int, so it must fit one.
fn lla2a_bytes(blocks: usize, slots: usize) -> Result<usize> {
    let bytes = (|| slots.checked_mul(2)?.checked_add(1)?.checked_mul(16)?.checked_mul(blocks))();
    match bytes {
        Some(bytes) if bytes <= c_int::MAX as usize => Ok(bytes),
        _ => bail!(
            InvalidArgument,
            62,
            "LLA2A buffer exceeds 2 GiB | ncclLLA2ACreateRequirement | {blocks} blocks of {slots} slots | fix: fewer blocks or slots"
        ),
    }
}

/// Buffer for `nBarriers` barriers among the ranks of `team`, which is an LSA team or part of one.
#[unsafe(no_mangle)]
pub extern "C" fn pncclLsaBarrierCreateRequirement(
    team: ncclTeam_t,
    nBarriers: c_int,
    outHandle: *mut ncclLsaBarrierHandle_t,
    outReq: *mut ncclDevResourceRequirements_t,
) -> ncclResult_t {
    entry!(ncclLsaBarrierCreateRequirement(team, nBarriers, outHandle, outReq) {
        let bytes = lsa_barrier_bytes(count("nBarriers", nBarriers)?, count("team.nRanks", team.nRanks)?)?;
        out("outHandle", outHandle)?;
        let request = out("outReq", outReq)?;
        // SAFETY: checked above; only these fields are written, ncclDevCommCreate writes the other.
        let handle = unsafe {
            addr_of_mut!((*outHandle).nBarriers).write(nBarriers);
            addr_of_mut!((*outHandle).bufHandle)
        };
        note(handle as usize, Waits::LsaBarrier { barriers: nBarriers as u32, members: team.nRanks as u32 });
        request.write(ncclDevResourceRequirements_t { bufferSize: bytes, bufferAlign: 4, outBufferHandle: handle, ..empty() });
        Ok(())
    })
}

/// Epochs and signals for `nBarriers` barriers over GIN among the ranks of `team`.
#[unsafe(no_mangle)]
pub extern "C" fn pncclGinBarrierCreateRequirement(
    comm: ncclComm_t,
    team: ncclTeam_t,
    nBarriers: c_int,
    outHandle: *mut ncclGinBarrierHandle_t,
    outReq: *mut ncclDevResourceRequirements_t,
) -> ncclResult_t {
    entry!(ncclGinBarrierCreateRequirement(comm, team, nBarriers, outHandle, outReq) {
        let bytes = count("nBarriers", nBarriers)? * NCCL_GIN_MAX_CONTEXTS * size_of::<u32>();
        out("outHandle", outHandle)?;
        let request = out("outReq", outReq)?;
        // SAFETY: checked above; ncclDevCommCreate writes both fields.
        let (buffer, signal) = unsafe { (addr_of_mut!((*outHandle).bufHandle), addr_of_mut!((*outHandle).signal0)) };
        request.write(ncclDevResourceRequirements_t {
            bufferSize: bytes,
            bufferAlign: 4,
            outBufferHandle: buffer,
            ginSignalCount: nBarriers,
            outGinSignalStart: signal,
            ..empty()
        });
        Ok(())
    })
}

/// Slots of 8 payload bytes for `maxElts` elements of `maxEltSize` bytes; -1 where that does not fit an int, or either is negative.
#[unsafe(no_mangle)]
pub extern "C" fn pncclLLA2ACalcSlots(maxElts: c_int, maxEltSize: c_int) -> c_int {
    let slots = i64::from(maxElts) * ((i64::from(maxEltSize) + 7) / 8);
    let fits = maxElts >= 0 && maxEltSize >= 0;
    c_int::try_from(slots).ok().filter(|_| fits).unwrap_or(-1)
}

/// Buffer for `nBlocks` all-to-all sessions of `nSlots` slots.
#[unsafe(no_mangle)]
pub extern "C" fn pncclLLA2ACreateRequirement(
    nBlocks: c_int,
    nSlots: c_int,
    outHandle: *mut ncclLLA2AHandle_t,
    outReq: *mut ncclDevResourceRequirements_t,
) -> ncclResult_t {
    entry!(ncclLLA2ACreateRequirement(nBlocks, nSlots, outHandle, outReq) {
        let (blocks, slots) = (count("nBlocks", nBlocks)?, count("nSlots", nSlots)?);
        let bytes = lla2a_bytes(blocks, slots)?;
        out("outHandle", outHandle)?;
        let request = out("outReq", outReq)?;
        // SAFETY: checked above; only this field is written, ncclDevCommCreate writes the other.
        let handle = unsafe {
            addr_of_mut!((*outHandle).nSlots).write(nSlots as u32);
            addr_of_mut!((*outHandle).bufHandle)
        };
        note(handle as usize, Waits::Lla2a { blocks: nBlocks as u32, slots: nSlots as u32 });
        request.write(ncclDevResourceRequirements_t { bufferSize: bytes, bufferAlign: 16, outBufferHandle: handle, ..empty() });
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Spec host 1.9's sizes.
    #[test]
    fn sizes_are_those_of_the_vectors() {
        assert_eq!(lsa_barrier_bytes(16, 8).unwrap(), 704);
        assert_eq!(lsa_barrier_bytes(5, 2).unwrap(), 100);
        assert_eq!(lla2a_bytes(2, 100).unwrap(), 6432);
        assert!(lla2a_bytes(1 << 20, 1 << 20).is_err());
        assert_eq!(pncclLLA2ACalcSlots(10, 12), 20);
        assert_eq!(pncclLLA2ACalcSlots(i32::MAX, 16), -1);
        assert_eq!([(-5, -16), (-5, 16), (5, -16), (0, 8)].map(|(n, size)| pncclLLA2ACalcSlots(n, size)), [-1, -1, -1, 0]);
    }

    /// Also where overflow wraps, as in releases: products of the caller's numbers are exact or refused.
    #[test]
    fn no_product_of_counts_wraps() {
        let most = i32::MAX as usize;
        for (barriers, ranks) in [(most, most), (1 << 30, most), (most, 1 << 30), (most, 8), (most, 1), (0, most), (1, most)] {
            let exact = 4 * barriers as u128 * (3 + ranks as u128);
            match lsa_barrier_bytes(barriers, ranks) {
                Ok(bytes) => assert_eq!(bytes as u128, exact),
                Err(error) => assert!(exact > usize::MAX as u128 && error.id == 62, "{barriers} of {ranks}: {error}"),
            }
        }
        for (blocks, slots) in [(most, most), (1, most), (most, 0), (3, 1 << 25)] {
            let exact = 16 * blocks as u128 * (1 + 2 * slots as u128);
            assert_eq!(lla2a_bytes(blocks, slots).ok().map(|bytes| bytes as u128), Some(exact).filter(|n| *n <= most as u128));
        }
        let mut handle = ncclLsaBarrierHandle_t { bufHandle: 7, nBarriers: 7 };
        let mut request = empty();
        let team = ncclTeam_t { nRanks: i32::MAX, rank: 0, stride: 1 };
        assert_eq!(pncclLsaBarrierCreateRequirement(team, i32::MAX, &mut handle, &mut request), 4);
        assert_eq!((handle.nBarriers, request.bufferSize), (7, 0));
    }

    #[test]
    fn bad_arguments_are_refused_and_write_nothing() {
        let mut handle = ncclLLA2AHandle_t { bufHandle: 7, nSlots: 7 };
        let mut request = empty();
        assert_eq!(pncclLLA2ACreateRequirement(-1, 4, &mut handle, &mut request), 4);
        assert_eq!(pncclLLA2ACreateRequirement(2, 4, null_mut(), &mut request), 4);
        assert_eq!((handle.bufHandle, handle.nSlots, request.bufferSize), (7, 7, 0));
        assert_eq!(pncclLLA2ACreateRequirement(2, 100, &mut handle, &mut request), 0);
        assert_eq!((handle.bufHandle, handle.nSlots), (7, 100));
        assert_eq!((request.bufferSize, request.bufferAlign, request.outBufferHandle), (6432, 16, &raw mut handle.bufHandle));
    }
}
