//! Communicator creation (nccl.h). Outside a group the call makes the communicator; inside, the handle is written at once and
//! lives from ncclGroupEnd on; so is that of a non-blocking one, which lives once it is no longer in progress.

use super::deferred::{collective, not_made};
use super::entry::{Outcome, Stop, entry, input, nothing_yet, out};
use super::handles::{self, Pending, Removed};
use crate::bootstrap::{Bootstrap, Cancel, UniqueId};
use crate::comm::create::{Request, create};
use crate::comm::group::{self, CallObserver, Job, Stage, Told};
use crate::comm::{Comm, finish};
use crate::device::{self, Device};
use crate::error::{Code, Error, Result};
use crate::layout::*;
use crate::team::Config;
use crate::{bail, log};
use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Joins `nranks` ranks into a communicator, on the device that is current. Collective.
#[unsafe(no_mangle)]
pub extern "C" fn pncclCommInitRank(comm: *mut ncclComm_t, nranks: c_int, commId: ncclUniqueId, rank: c_int) -> ncclResult_t {
    nothing_yet(comm);
    entry!(ncclCommInitRank(comm, nranks, rank) {
        collective(|| {
            // SAFETY: NULL is allowed.
            let config = unsafe { super::config::from_c(std::ptr::null()) };
            init_rank(comm, nranks, &[commId], rank, config)
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
    nothing_yet(comm);
    entry!(ncclCommInitRankConfig(comm, nranks, rank, config) {
        // SAFETY: the contract above.
        collective(|| init_rank(comm, nranks, &[commId], rank, unsafe { super::config::from_c(config) }))
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
            if n == 0 {
                return Ok(());
            }
            if ndev <= device::count()? {
                // SAFETY: the contract above. A longer list is refused below, and may well be a wrong number.
                (0..n).for_each(|rank| nothing_yet(unsafe { comm.add(rank) }));
            }
            let ordinals: Vec<c_int> = match devlist.is_null() {
                // The last one is asked for before a list is made of them all.
                true => device::get(ndev - 1).map(|_| (0..ndev).collect())?,
                // SAFETY: the contract above.
                false => unsafe { std::slice::from_raw_parts(devlist, n) }.to_vec(),
            };
            let devices = distinct(&ordinals)?;
            // SAFETY: the contract above.
            let config = unsafe { super::config::from_c(std::ptr::null()) }?;
            let id = UniqueId::create()?;
            group::start();
            for (rank, device) in devices.into_iter().enumerate() {
                let (n_ranks, config, cancel) = (n as u32, config.clone(), Cancel::new());
                let request = Request { ids: vec![id.clone()], n_ranks, rank: rank as u32, config, device, origin: None, cancel };
                // SAFETY: rank is below n, and comm holds n handles. A group is open: this only queues.
                let _ = defer(unsafe { comm.add(rank) }, request);
            }
            let told = group::end()?;
            if told.is_err() && !group::open() {
                // SAFETY: the contract above.
                (0..n).for_each(|rank| take_back(unsafe { &mut *comm.add(rank) }));
            }
            told.map_err(Stop::Said)
        })
    })
}

/// A rank of ncclCommInitAll, which has failed as a whole.
fn take_back(comm: &mut ncclComm_t) {
    if let Ok(Removed::Live(made)) = handles::remove(*comm, true) {
        finish::abort(made);
    }
    *comm = std::ptr::null_mut();
}

/// Joins as ncclCommInitRankConfig does, at several ids, each the meeting point of a block of consecutive ranks, so that no process
/// has to serve all ranks. All ranks pass the same `nId` ids in the same order.
///
/// # Safety
/// `commIds` holds `nId` ids, `config` is as in [`pncclCommInitRankConfig`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pncclCommInitRankScalable(
    newcomm: *mut ncclComm_t,
    nranks: c_int,
    myrank: c_int,
    nId: c_int,
    commIds: *mut ncclUniqueId,
    config: *mut ncclConfig_t,
) -> ncclResult_t {
    nothing_yet(newcomm);
    entry!(ncclCommInitRankScalable(newcomm, nranks, myrank, nId, commIds, config) {
        collective(|| {
            input("commIds", commIds)?;
            if !(1..=nranks.max(1)).contains(&nId) {
                return Err(Error::new(
                    Code::InvalidArgument,
                    62,
                    format!("number of ids is out of range | ncclCommInitRankScalable | {nId} ids for {nranks} ranks | fix: pass 1 to nranks ids"),
                )
                .into());
            }
            // SAFETY: the contract above.
            let ids = unsafe { std::slice::from_raw_parts(commIds, nId as usize) };
            // SAFETY: the contract above.
            init_rank(newcomm, nranks, ids, myrank, unsafe { super::config::from_c(config) })
        })
    })
}

fn init_rank(comm: *mut ncclComm_t, nranks: c_int, ids: &[ncclUniqueId], rank: c_int, config: Result<Config>) -> Outcome {
    let ids = UniqueId::from_all(&ids.iter().map(|id| id.internal.map(|c| c as u8)).collect::<Vec<_>>());
    let checked = (|| {
        out("comm", comm)?;
        if nranks < 1 || !(0..nranks).contains(&rank) {
            bail!(
                InvalidArgument,
                62,
                "rank is out of range | ncclCommInitRank | rank {rank} of {nranks} ranks | fix: nranks at least 1, rank 0 to nranks - 1"
            );
        }
        Ok((config?, device::current()?))
    })();
    if let (Ok(ids), Err(error)) = (&ids, &checked) {
        // The others wait for this rank.
        Bootstrap::decline(ids, rank as u32, nranks as u32, error);
    }
    let (config, device) = checked?;
    let (ids, n_ranks, rank) = (ids?, nranks as u32, rank as u32);
    let request = Request { ids, n_ranks, rank, config, device, origin: None, cancel: Cancel::new() };
    if group::open() || !request.config.blocking {
        return defer(comm, request).map_err(Stop::Said);
    }
    handles::watch_exit();
    // SAFETY: checked by `out` above. NULL until there is a communicator.
    unsafe { comm.write(std::ptr::null_mut()) };
    let handle = handles::add(create(request)?);
    // SAFETY: as above.
    unsafe { comm.write(handle) };
    Ok(())
}

/// Creates on a thread, or at the end of the group. The handle is written now: where it goes may be gone by then.
fn defer(comm: *mut ncclComm_t, request: Request) -> Told {
    handles::watch_exit();
    let (handle, pending) = handles::reserve();
    // SAFETY: the caller checked or was promised that it may be written.
    unsafe { comm.write(handle) };
    let resolve = resolver(handle, pending.clone());
    let request = Request { cancel: pending.cancel.clone(), ..request };
    group::submit(Job {
        stage: Stage::Create,
        clique: 0,
        line: 0,
        blocking: request.config.blocking,
        device: request.device.ordinal(),
        progress: Some(pending.clone()),
        run: Box::new(move |before| {
            let made = match before {
                Ok(()) => {
                    pending.begins();
                    create(request).inspect_err(|error| log::error(error))
                }
                Err(code) => {
                    let error = not_made(code);
                    Bootstrap::decline(&request.ids, request.rank, request.n_ranks, &error);
                    Err(error)
                }
            };
            let told = made.as_ref().map(|_| ()).map_err(|error| error.code);
            resolve(made);
            told
        }),
    })
}

/// What ends the creation of `handle`'s communicator. One whose handle is gone is ended as its owner wished.
fn resolver(handle: ncclComm_t, pending: Arc<Pending>) -> impl FnOnce(Result<Arc<Comm>>) + Send {
    let name = handle as usize;
    move |made| {
        if let Some(comm) = handles::resolve(name as ncclComm_t, made) {
            match pending.aborted.load(Ordering::Acquire) {
                true => finish::abort(comm),
                false => finish::destroy(comm),
            }
        }
    }
}

fn distinct(ordinals: &[c_int]) -> Result<Vec<Arc<dyn Device>>> {
    let devices = ordinals.iter().map(|&ordinal| device::get(ordinal)).collect::<Result<Vec<_>>>()?;
    let mut seen = std::collections::HashSet::new();
    if let Some(twice) = ordinals.iter().find(|&&ordinal| !seen.insert(ordinal)) {
        bail!(
            InvalidUsage,
            15,
            "Duplicate GPU detected | ncclCommInitAll | device {twice} stands twice in devlist | fix: list each device once"
        );
    }
    Ok(devices)
}
