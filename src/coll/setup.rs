//! What a communicator's collectives stand on, made with the communicator: a send between two ranks needs nobody else then.

use super::mapped::{self, Maps};
use super::room::Room;
use super::sizes::{Sizes, Slots};
use super::table::How;
use super::work::{Inbox, MAPPED_BOARD};
use super::{Collectives, Memory, Ready, forced};
use crate::devcomm::{self, Requirements, Resource};
use crate::device::{DevPtr, Kernels};
use crate::error::{Code, Error, Result};
use crate::layout::ncclLLA2AHandle_t;
use crate::symmetric::multicast;
use crate::sync::Mutex;
use crate::team::{Said, Team};
use crate::window::{self, HostWindow, Windows};
use crate::{config, hint, info};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes of a line of counts in the inbox.
const LINE: u64 = 128;

/// Collective: makes the device communicator, the LL buffer and the inbox of the collectives. Where they cannot be, on any rank,
/// no rank has them: collectives then say why, and the communicator serves everything else.
///
/// Err only when the communicator has failed.
pub fn prepare(collectives: &Collectives, windows: &Windows) -> Result<()> {
    let team = windows.team();
    let made = kernels(team).and_then(|kernels| make(windows, kernels));
    if let Err(error) = &made {
        team.alive()?;
        say(team, error);
    }
    collectives.ready.get_or_init(|| made);
    Ok(())
}

/// A communicator that was to have collectives and has none is a warning, once in a process. One of a library that has no kernels for
/// them, or where they are off, is as it was built or asked for.
fn say(team: &Team, error: &Error) {
    static TOLD: AtomicBool = AtomicBool::new(false);
    let text = format!("{} has no collectives: {error}", team.tag());
    let meant = matches!(error.id, OFF | NO_KERNELS);
    match meant || TOLD.swap(true, Ordering::Relaxed) {
        true => info!(INIT, "{text}"),
        false => hint!("{text}; everything else works (told once)"),
    }
}

/// Numbers of errors: collectives were switched off, there are no kernels for them.
const OFF: u16 = 92;
const NO_KERNELS: u16 = 90;

/// This rank's kernels; an error, on all ranks, where one has none. It waits for nobody: all know it from the peers' records.
fn kernels(team: &Team) -> Result<Arc<dyn Kernels>> {
    let own = team.device.kernels()?;
    if let Some(peer) = team.peers.iter().find(|peer| peer.kernel_blocks == 0) {
        return Err(Error::new(
            Code::InvalidUsage,
            90,
            format!(
                "no collectives: a rank has no kernels for them | {} | see its own message at NCCL_DEBUG=INFO | fix: load the same libginrs \
                 on every rank, built with nvcc",
                peer.tag()
            ),
        )
        .by(peer.rank));
    }
    let one_team = team.topo.lsa_size == team.n_ranks;
    let off = if !window::supported() {
        "NCCL_WIN_ENABLE=0"
    } else if !one_team && config::int("NCCL_GIN_ENABLE") == 0 {
        "NCCL_GIN_ENABLE=0, and not all ranks are in one LSA team"
    } else {
        return Ok(own);
    };
    Err(Error::new(
        Code::InvalidUsage,
        92,
        format!("collectives are off | the communicator was made with {off} | they stand on windows and GIN | fix: unset it"),
    ))
}

/// True if all LSA teams are on machines of their own: then a network carries what goes between them, from and into host memory.
fn is_apart(team: &Team) -> bool {
    let mut teams = HashMap::new();
    let of = |rank: u32| rank / team.topo.lsa_size;
    team.topo.lsa_size < team.n_ranks
        && team.peers.iter().all(|peer| *teams.entry(peer.machine).or_insert(of(peer.rank)) == of(peer.rank))
}

/// Collective: whether all ranks have multicast memory; where one was asked for it and has none, it tells why.
fn have_switch(team: &Team) -> Result<bool> {
    let own = multicast::check(team, "GINRS_COLLECTIVE=multicast").inspect_err(|error| info!(COLL, "{error}")).is_ok();
    let all = team.round("whether all have multicast memory", Ok(Said { agreed: Vec::new(), own: vec![own.into()] }))?;
    Ok(all.iter().all(|said| said.own == [1]))
}

fn make(windows: &Windows, kernels: Arc<dyn Kernels>) -> Result<Ready> {
    let team = windows.team();
    let device = team.device.kind();
    let forced = forced::forced()?;
    let room = Room::of(&team.peers)?;
    let one_team = team.topo.lsa_size == team.n_ranks;
    let lsa_size = team.topo.lsa_size;
    let hosted = is_apart(team);
    let sizes = Sizes::of(device, team.n_ranks, lsa_size, room, hosted);
    let Sizes { pairs, sums, rails, .. } = sizes;
    // Its bytes as ncclLLA2ACreateRequirement counts them: per block a header, and two banks of slots.
    let ll_bytes = 16 * u64::from(sizes.ll_blocks) * (1 + 2 * u64::from(sizes.ll_slots));
    let buffer = |bytes, gin_signals| Resource { bytes, align: LINE, gin_signals, ..Resource::default() };
    // Of slots that GIN alone carries there are none in it where they lie in host memory.
    let inbox = |slots: &Slots, near: bool| buffer(slots.lines() * LINE + if near || !hosted { slots.total() } else { 0 }, 0);
    let outbox = |slots: &Slots| buffer(if hosted { 0 } else { slots.total() }, 2 * slots.lines() as i32);
    let mut resources = vec![inbox(&pairs, lsa_size > 1), buffer(u64::from(sizes.barriers) * sizes.scratch(lsa_size), 0)];
    // LL and sums are for one LSA team, outgoing slots and signals for several.
    match one_team {
        true => resources.extend([buffer(ll_bytes, 0), inbox(&sums, true)]),
        false => resources.extend([outbox(&pairs), inbox(&rails, false), outbox(&rails)]),
    }
    let maps = mapped::wanted(team, forced.map(|forced| forced.how));
    if maps {
        resources.push(buffer(MAPPED_BOARD * u64::from(sizes.meetings()), 0));
    }
    let board = resources.len() - 1;
    let switched = one_team && forced.is_some_and(|forced| forced.how == How::Multicast) && have_switch(team)?;
    let requirements =
        Requirements { resources, lsa_barrier_count: sizes.meetings() as i32, lsa_multimem: switched, ..Requirements::default() };
    let order = kernels.order();
    let made = devcomm::create_own(windows, "collectives", &requirements, order.as_ref().map(drop).map_err(Clone::clone))?;
    let handle = |i: usize| made.outputs[i].buffer_handle;
    let units = |bytes: u64| (bytes / LINE) as u32;
    let carried = match hosted {
        true => Some(windows.make_host("collectives' slots", (2 * (pairs.total() + rails.total())) as usize)?),
        false => None,
    };
    // Where GIN carries slots, and the incoming and outgoing ones in it; `before` bytes are others' in host memory.
    let far = |slots: &Slots, inbox: usize, outbox: usize, before: u64| match &carried {
        _ if one_team => (0, 0, 0, 0),
        Some(HostWindow { window, at }) => (*window, *at, units(before), units(before + slots.total())),
        None => {
            let own = &made.dev_comm.resourceWindow_inlined;
            let local = own.lsaFlatBase + ((own.lsaRank as u64 * u64::from(own.stride4G)) << 32);
            (made.dev_comm.resourceWindow, local, handle(inbox) + units(slots.lines() * LINE), handle(outbox))
        }
    };
    let placed =
        |slots: Slots, inbox: usize, outbox: usize, (window, base, incoming, outgoing): (DevPtr, DevPtr, u32, u32)| Inbox {
            window,
            base,
            incoming,
            outgoing,
            handle: handle(inbox),
            rings: slots.rings,
            channels: slots.channels,
            slots: slots.slots,
            slot_bytes: slots.bytes,
            signal0: if one_team { 0 } else { made.outputs[outbox].signal_start },
        };
    let memory = Memory {
        inbox: placed(pairs, 0, 2, far(&pairs, 0, 2, 0)),
        rails: if one_team {
            placed(sums, 3, 3, far(&sums, 3, 3, 0))
        } else {
            placed(rails, 3, 4, far(&rails, 3, 4, 2 * pairs.total()))
        },
        scratch: handle(1),
        ll: ncclLLA2AHandle_t { bufHandle: if one_team { handle(2) } else { 0 }, nSlots: sizes.ll_slots },
    };
    let window = made.dev_comm.resourceWindow_inlined.lsaFlatBase;
    let maps = maps.then(|| Maps::new(team, handle(board), window)).transpose()?;
    Ok(Ready { kernels, order: Mutex::new(order?), device, comm: made.dev_comm, memory, lsa_size, sizes, maps, forced })
}
