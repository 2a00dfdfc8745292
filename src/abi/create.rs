//! Communicator creation (nccl.h). Outside a group the call makes the communicator; inside, the handle is written at once and
//! lives from ncclGroupEnd on.

use super::deferred::collective;
use super::entry::{Outcome, Stop, entry, out};
use super::types::*;
use crate::bootstrap::UniqueId;
use crate::comm::create::{Request, create};
use crate::comm::group::{self, Job, Stage};
use crate::comm::{CommConfig, handles};
use crate::device::{self, Device};
use crate::error::{Code, Error, Result};
use crate::{bail, log};
use std::ffi::c_int;
use std::sync::Arc;

/// Joins `nranks` ranks into a communicator, on the device that is current. Collective.
#[unsafe(no_mangle)]
pub extern "C" fn pncclCommInitRank(comm: *mut ncclComm_t, nranks: c_int, commId: ncclUniqueId, rank: c_int) -> ncclResult_t {
    entry!(ncclCommInitRank(comm, nranks, rank) {
        collective(|| {
            // SAFETY: NULL is allowed.
            let config = unsafe { CommConfig::from_c(std::ptr::null()) };
            init_rank(comm, nranks, &commId, rank, config)
        })
    })
}

/// As ncclCommInitRank with settings; NULL is all defaults.
///
/// # Safety
/// `config` is NULL or a config whose `size` field is right and whose strings are C strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pncclCommInitRankConfig(
    comm: *mut ncclComm_t,
    nranks: c_int,
    commId: ncclUniqueId,
    rank: c_int,
    config: *mut ncclConfig_t,
) -> ncclResult_t {
    entry!(ncclCommInitRankConfig(comm, nranks, rank, config) {
        // SAFETY: the contract above.
        collective(|| init_rank(comm, nranks, &commId, rank, unsafe { CommConfig::from_c(config) }))
    })
}

/// One communicator over `ndev` devices of this process, rank i on `devlist[i]` (NULL: device i).
///
/// # Safety
/// `comm` holds `ndev` handles, `devlist` is NULL or holds `ndev` ordinals.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pncclCommInitAll(comm: *mut ncclComm_t, ndev: c_int, devlist: *const c_int) -> ncclResult_t {
    entry!(ncclCommInitAll(comm, ndev, devlist) {
        collective(|| {
            out("comm", comm)?;
            let Ok(n) = usize::try_from(ndev) else {
                return Err(Error::new(
                    Code::InvalidArgument,
                    62,
                    format!("number of devices is negative | ncclCommInitAll | {ndev} | fix: pass the length of comm"),
                )
                .into());
            };
            let ordinals: Vec<c_int> = match devlist.is_null() {
                true => (0..ndev).collect(),
                // SAFETY: the contract above.
                false => unsafe { std::slice::from_raw_parts(devlist, n) }.to_vec(),
            };
            let devices = distinct(&ordinals)?;
            if n == 0 {
                return Ok(());
            }
            // SAFETY: the contract above.
            let config = unsafe { CommConfig::from_c(std::ptr::null()) }?;
            let id = UniqueId::create()?;
            group::start();
            for (rank, device) in devices.into_iter().enumerate() {
                let request = Request { id: id.clone(), n_ranks: n as u32, rank: rank as u32, config: config.clone(), device };
                // SAFETY: rank is below n, and comm holds n handles.
                defer(unsafe { comm.add(rank) }, request);
            }
            group::end()?.map_err(Stop::Said)
        })
    })
}

fn init_rank(comm: *mut ncclComm_t, nranks: c_int, id: &ncclUniqueId, rank: c_int, config: Result<CommConfig>) -> Outcome {
    out("comm", comm)?;
    if nranks < 1 || !(0..nranks).contains(&rank) {
        return Err(Error::new(
            Code::InvalidArgument,
            62,
            format!("rank is out of range | ncclCommInitRank | rank {rank} of {nranks} ranks | fix: nranks at least 1, rank 0 to nranks - 1"),
        )
        .into());
    }
    let config = config?;
    let id = UniqueId::from_bytes(&id.internal.map(|c| c as u8))?;
    let request = Request { id, n_ranks: nranks as u32, rank: rank as u32, config, device: device::current()? };
    if group::open() {
        defer(comm, request);
        return Ok(());
    }
    // SAFETY: checked by `out` above. NULL until there is a communicator.
    unsafe { comm.write(std::ptr::null_mut()) };
    let made = create(request)?;
    let handle = handles::reserve();
    handles::settle(handle, Ok(made));
    // SAFETY: as above.
    unsafe { comm.write(handle) };
    Ok(())
}

/// Queues a creation. The handle is written now: where it goes may be gone when the group ends.
fn defer(comm: *mut ncclComm_t, request: Request) {
    let handle = handles::reserve();
    // SAFETY: the caller checked or was promised that it may be written.
    unsafe { comm.write(handle) };
    let name = handle as usize;
    let job = Job {
        stage: Stage::Create,
        clique: 0,
        line: 0,
        blocking: request.config.blocking,
        device: request.device.ordinal(),
        run: Box::new(move || {
            let made = create(request).inspect_err(|error| log::error(error));
            let told = made.as_ref().map(|_| ()).map_err(|error| error.code);
            handles::settle(name as ncclComm_t, made);
            told
        }),
        dropped: Box::new(move |code| {
            let text = "communicator was not created | ncclGroupEnd | another call of the group failed | fix: see the error before this one";
            handles::settle(name as ncclComm_t, Err(Error::new(code, 66, text)));
        }),
    };
    // A group is open: this only queues.
    let _ = group::submit(job);
}

fn distinct(ordinals: &[c_int]) -> Result<Vec<Arc<dyn Device>>> {
    let mut seen = std::collections::HashSet::new();
    if let Some(twice) = ordinals.iter().find(|&&ordinal| !seen.insert(ordinal)) {
        bail!(
            InvalidUsage,
            15,
            "Duplicate GPU detected | ncclCommInitAll | device {twice} stands twice in devlist | fix: list each device once"
        );
    }
    ordinals.iter().map(|&ordinal| device::get(ordinal)).collect()
}
