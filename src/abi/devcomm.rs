//! Device communicators (nccl_device/core.h): the requirements are copied at the call, the results written when the creation
//! has run.

use super::deferred::{collective, submit_checked};
use super::entry::{Outcome, entry, input, nothing_yet, out};
use crate::bail;
use crate::comm::Comm;
use crate::comm::group::Stage;
use crate::devcomm::{self, Created, Outputs, Requirements, Resource, TeamRequest, release};
use crate::error::Result;
use crate::layout::*;
use crate::process::rest;
use std::ffi::c_uint;
use std::sync::Arc;

/// Longer lists are taken for circular ones.
const LONGEST_LIST: usize = 65_536;

/// Makes what kernels pass around: barriers, buffers, signals. Collective, with equal requirements on every rank; in a group
/// it runs at ncclGroupEnd, and `outDevComm` and the lists' out pointers have to live until then. The requirements
/// themselves may go at return.
///
/// # Safety
/// The lists are well formed: each `next` is NULL or the next entry.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pncclDevCommCreate(
    comm: ncclComm_t,
    reqs: *const ncclDevCommRequirements_t,
    outDevComm: *mut ncclDevComm,
) -> ncclResult_t {
    // SAFETY: the contract above.
    entry!(ncclDevCommCreate(comm; reqs, outDevComm) |c| { unsafe { create(c, reqs, outDevComm, false) } })
}

/// [`pncclDevCommCreate`] with wishes: `flags` 1 asks for direct GIN contexts, 0 for nothing. Our headers call it for programs
/// compiled with GINRS_GIN_DIRECT. All ranks must ask alike.
///
/// # Safety
/// As [`pncclDevCommCreate`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ginrsDevCommCreate(
    comm: ncclComm_t,
    reqs: *const ncclDevCommRequirements_t,
    outDevComm: *mut ncclDevComm,
    flags: c_uint,
) -> ncclResult_t {
    entry!(ginrsDevCommCreate(comm; reqs, outDevComm, flags) |c| {
        known(flags)?;
        // SAFETY: the contract above.
        unsafe { create(c, reqs, outDevComm, flags & DIRECT != 0) }
    })
}

/// The one flag of [`ginrsDevCommCreate`].
const DIRECT: c_uint = 1;

fn known(flags: c_uint) -> Result<()> {
    if flags & !DIRECT != 0 {
        bail!(
            InvalidArgument,
            62,
            "unknown flags | ginrsDevCommCreate | {flags:#x}, known: {DIRECT:#x} (direct GIN contexts) | fix: use headers and library of \
             one version"
        );
    }
    Ok(())
}

/// Refuses what other versions' headers call requirements, as far as it can be told (docs/user/abi-policy.md). Since 2.29.2 the struct
/// begins with {size, magic, version}: the magic is where ours has the low half of a pointer, and odd, so no list can be it.
fn served(reqs: &ncclDevCommRequirements_t, from_2_28_3: bool) -> Result<()> {
    let head = reqs.teamRequirementsList as u64;
    let version = match head as u32 {
        NCCL_CONFIG_MAGIC => (head >> 32) as i32,
        _ if from_2_28_3 => 22803,
        _ => return Ok(()),
    };
    bail!(
        InvalidUsage,
        69,
        "struct of another version | ncclDevCommCreate, ncclDevCommRequirements | the program was compiled with the headers of NCCL \
         {}.{}.{}, served are 2.28.7 to 2.28.9 | fix: compile it with the headers of ginrs, or run it with that NCCL's own library",
        version / 10_000,
        version / 100 % 100,
        version % 100
    )
}

/// # Safety
/// As [`pncclDevCommCreate`].
unsafe fn create(c: &Arc<Comm>, reqs: *const ncclDevCommRequirements_t, outDevComm: *mut ncclDevComm, direct: bool) -> Outcome {
    collective(|| {
        c.team.ready()?;
        let checked = input("reqs", reqs).and_then(|reqs| {
            served(reqs, c.team.config.from_2_28_3)?;
            // Not before: another version's struct may be smaller.
            nothing_yet(outDevComm);
            // SAFETY: the contract above.
            let (requirements, outs) = unsafe { copy(reqs) }?;
            out("outDevComm", outDevComm)?;
            Ok((Requirements { direct, ..requirements }, outs))
        });
        let (comm, result) = (c.clone(), outDevComm as usize);
        submit_checked(c, Stage::DevComm, checked, move |checked| {
            let (requirements, outs) = checked.map_err(|error| devcomm::decline(&comm.windows, error))?;
            // Kernels of the program's wait for each other from now on.
            let _launching = rest::launching();
            let created = devcomm::create(&comm.devcomms, &comm.windows, &requirements)?;
            // SAFETY: checked at the call; they live until the creation has run, says the C contract.
            comm.deliver(|| unsafe {
                outs.write(&created);
                (result as *mut ncclDevComm).write(created.dev_comm);
            });
            Ok(())
        })
    })
}

/// Gives back what the device communicator holds, at once; no kernel on any rank may use it any more.
#[unsafe(no_mangle)]
pub extern "C" fn pncclDevCommDestroy(comm: ncclComm_t, devComm: *const ncclDevComm) -> ncclResult_t {
    entry!(ncclDevCommDestroy(comm; devComm) give back |c| {
        devcomm::destroy(&c.devcomms, &c.windows, input("devComm", devComm)?)?;
        Ok(())
    })
}

/// Where one resource entry wants its results: addresses, NULL where it wants none.
#[derive(Clone, Copy, Debug)]
struct Outs {
    buffer: usize,
    signal: usize,
    counter: usize,
}

impl Outs {
    /// # Safety
    /// The non-null addresses are those of live, writable objects.
    unsafe fn write(&self, outputs: &Outputs) {
        for (at, value) in
            [(self.buffer, outputs.buffer_handle), (self.signal, outputs.signal_start), (self.counter, outputs.counter_start)]
        {
            if at != 0 {
                // SAFETY: the contract above; all three are u32 and were checked for alignment.
                unsafe { (at as *mut u32).write(value) };
            }
        }
    }
}

/// Where everything goes, in the lists' order.
#[derive(Debug, Default)]
struct Places {
    resources: Vec<Outs>,
    /// Of `ncclMultimemHandle_t`; 0 for none.
    multicast: Vec<usize>,
}

impl Places {
    /// # Safety
    /// As [`Outs::write`].
    unsafe fn write(&self, created: &Created) {
        // SAFETY: the contract above.
        self.resources.iter().zip(&created.outputs).for_each(|(out, outputs)| unsafe { out.write(outputs) });
        for (&at, base) in self.multicast.iter().zip(&created.multicast) {
            if let (true, Some(mcBasePtr)) = (at != 0, *base) {
                // SAFETY: as above; checked for alignment.
                unsafe { (at as *mut ncclMultimemHandle_t).write(ncclMultimemHandle_t { mcBasePtr }) };
            }
        }
    }
}

fn wanted<T>(name: &str, at: *mut T) -> Result<usize> {
    if !at.is_null() {
        out(name, at)?;
    }
    Ok(at as usize)
}

/// # Safety
/// As pncclDevCommCreate.
unsafe fn copy(reqs: &ncclDevCommRequirements_t) -> Result<(Requirements, Places)> {
    let mut requirements = Requirements {
        lsa_multimem: reqs.lsaMultimem != 0,
        barrier_count: reqs.barrierCount,
        lsa_barrier_count: reqs.lsaBarrierCount,
        rail_gin_barrier_count: reqs.railGinBarrierCount,
        gin_force_enable: reqs.ginForceEnable != 0,
        gin_signal_count: reqs.ginSignalCount,
        gin_counter_count: reqs.ginCounterCount,
        ..Requirements::default()
    };
    let mut outs = Places::default();
    let mut at = reqs.resourceRequirementsList;
    while !at.is_null() {
        let entry = input("resourceRequirementsList", at)?;
        requirements.resources.push(Resource {
            bytes: entry.bufferSize as u64,
            align: entry.bufferAlign as u64,
            gin_signals: entry.ginSignalCount,
            gin_counters: entry.ginCounterCount,
            waits: release::find(entry.outBufferHandle as usize, entry.bufferSize as u64),
        });
        outs.resources.push(Outs {
            buffer: wanted("outBufferHandle", entry.outBufferHandle)?,
            signal: wanted("outGinSignalStart", entry.outGinSignalStart)?,
            counter: wanted("outGinCounterStart", entry.outGinCounterStart)?,
        });
        bounded("resourceRequirementsList", outs.resources.len())?;
        at = entry.next;
    }
    let mut at = reqs.teamRequirementsList;
    while !at.is_null() {
        let entry = input("teamRequirementsList", at)?;
        let ncclTeam_t { nRanks, rank, stride } = entry.team;
        requirements.teams.push(TeamRequest { multimem: entry.multimem != 0, team: [nRanks, rank, stride] });
        outs.multicast.push(if entry.multimem != 0 { wanted("outMultimemHandle", entry.outMultimemHandle)? } else { 0 });
        bounded("teamRequirementsList", requirements.teams.len())?;
        at = entry.next;
    }
    Ok((requirements, outs))
}

fn bounded(name: &str, length: usize) -> Result<()> {
    if length > LONGEST_LIST {
        bail!(
            InvalidArgument,
            62,
            "list does not end | ncclDevCommRequirements.{name} | more than {LONGEST_LIST} entries | fix: end it with next = NULL"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::null_mut;

    fn entry(bytes: usize) -> ncclDevResourceRequirements_t {
        ncclDevResourceRequirements_t {
            next: null_mut(),
            bufferSize: bytes,
            bufferAlign: 16,
            outBufferHandle: null_mut(),
            ginSignalCount: 2,
            ginCounterCount: 3,
            outGinSignalStart: null_mut(),
            outGinCounterStart: null_mut(),
        }
    }

    fn requirements(list: *mut ncclDevResourceRequirements_t) -> ncclDevCommRequirements_t {
        ncclDevCommRequirements_t {
            resourceRequirementsList: list,
            teamRequirementsList: null_mut(),
            lsaMultimem: 0,
            barrierCount: 1,
            lsaBarrierCount: 2,
            railGinBarrierCount: 3,
            lsaLLA2ABlockCount: 0,
            lsaLLA2ASlotCount: 0,
            ginForceEnable: 7,
            ginContextCount: 0,
            ginSignalCount: 4,
            ginCounterCount: 5,
        }
    }

    /// Defect 2 of the reference: the GIN fields of the user's entries are lost.
    #[test]
    fn lists_are_copied_whole_with_their_gin_fields() {
        let (mut handle, mut signal) = (0, 0);
        let mut second = ncclDevResourceRequirements_t { outGinSignalStart: &mut signal, ..entry(32) };
        let mut first = ncclDevResourceRequirements_t { next: &mut second, outBufferHandle: &mut handle, ..entry(64) };
        // SAFETY: a well-formed list of two.
        let (copied, outs) = unsafe { copy(&requirements(&mut first)) }.unwrap();
        let resource = |bytes| Resource { bytes, align: 16, gin_signals: 2, gin_counters: 3, waits: None };
        assert_eq!(copied.resources, [resource(64), resource(32)]);
        assert!(copied.gin_force_enable && copied.gin_signal_count == 4);
        let outputs = Outputs { buffer_handle: 9, signal_start: 10, counter_start: 11 };
        // SAFETY: the out pointers above are live.
        outs.resources.iter().for_each(|out| unsafe { out.write(&outputs) });
        assert_eq!((handle, signal), (9, 10));
    }

    #[test]
    fn requirements_of_other_versions_are_refused_by_name() {
        let plain = requirements(null_mut());
        assert!(served(&plain, false).is_ok());
        let newer = ncclDevCommRequirements_t { teamRequirementsList: (22907 << 32 | 0xcafe_beef_usize) as *mut _, ..plain };
        assert!(served(&newer, false).unwrap_err().text.contains("NCCL 2.29.7"));
        assert!(served(&plain, true).unwrap_err().text.contains("NCCL 2.28.3"));
    }

    #[test]
    fn circular_lists_and_misaligned_outs_are_refused() {
        let mut circle = entry(1);
        circle.next = &mut circle;
        // SAFETY: every entry can be read.
        assert_eq!(unsafe { copy(&requirements(&mut circle)) }.unwrap_err().id, 62);
        let mut crooked = ncclDevResourceRequirements_t { outBufferHandle: 0x1001 as *mut u32, ..entry(1) };
        // SAFETY: as above.
        assert_eq!(unsafe { copy(&requirements(&mut crooked)) }.unwrap_err().id, 61);
    }
}
