//! ncclDevCommCreate and ncclDevCommDestroy (spec host 1.3 and 1.7).

use super::registry::Record;
use super::watched::Watched;
use super::{Created, DevComms, Layout, Requirements};
use crate::device::cpu::{Race, tell_comm, tell_race};
use crate::device::{DevPtr, Kind, graveyard};
use crate::error::{Error, Result};
use crate::gin::{Announced, Asked, Backend, Gin};
use crate::layout::{
    ExtendedWindow, MARKER, MARKER_WORD, NCCL_GIN_MAX_CONTEXTS, NCCL_NET_DEVICE_GIN_GDAKI, NCCL_NET_DEVICE_GIN_PROXY,
    ncclDevComm, ncclGinBarrierHandle_t, ncclLsaBarrierHandle_t, ncclMultimemHandle_t,
};
use crate::symmetric::{AGREED, Members, multicast};
use crate::team::{Said, Team, compare};
use crate::window::{self, Activation, Proposed, Resource, Windows};
use crate::{bail, config, info, log};
use std::mem::offset_of;
use std::sync::Arc;
use zerocopy::IntoBytes;

/// Collective, with equal requirements on every rank; where they differ, or one's are wrong, all get the reason and can go on.
pub fn create(devcomms: &DevComms, windows: &Windows, reqs: &Requirements) -> Result<Created> {
    if !window::supported() {
        bail!(
            InvalidUsage,
            58,
            "no device communicators | {} | NCCL_WIN_ENABLE=0 turns symmetric memory off | fix: unset NCCL_WIN_ENABLE",
            windows.team().tag()
        );
    }
    windows.team().ready()?;
    graveyard::sweep();
    let mut turn = windows.turn.lock();
    let what = turn.next_dev_comm();
    let parts = assemble(windows, &what, reqs, Ok(()))?;
    let Parts { layout, gin, made, .. } = &parts;
    devcomms.live.lock().push(made.record);
    let waits: Vec<_> = reqs.resources.iter().map(|resource| resource.waits).collect();
    let local = made.resource.as_ref().map_or(0, |resource| resource.local);
    if let Some(Contexts { of, backend }) = gin {
        let record = &made.record;
        let words = of.kernel_words((*backend, record.contexts), record.signal_ids(), record.counter_ids());
        devcomms.release.add_words(*record, words);
    }
    devcomms.release.add(made.record, local, layout, windows.team().topo.lsa_size, &waits);
    parts.created(windows, &what, reqs)
}

/// This rank's call is wrong, or its group has dropped it: takes part all the same, so that the others hear of it. The error to tell.
pub fn decline(windows: &Windows, error: Error) -> Error {
    if !window::supported() {
        return error;
    }
    let mut turn = windows.turn.lock();
    let what = turn.next_dev_comm();
    windows.team().round(&what, Err(error)).err().expect("an error was said")
}

/// The same for the library's own kernels, which look at the abort word: it is in no list of the communicator's, and goes with
/// it. `status` is what this rank has to say of its other preparations.
pub fn create_own(windows: &Windows, what: &str, reqs: &Requirements, status: Result<()>) -> Result<Created> {
    let _turn = windows.turn.lock();
    assemble(windows, what, reqs, status)?.created(windows, what, reqs)
}

/// A device communicator on this rank, made on all.
struct Parts {
    layout: Layout,
    gin: Option<Contexts>,
    teams: Vec<DevPtr>,
    made: Made,
}

impl Parts {
    fn created(self, windows: &Windows, what: &str, reqs: &Requirements) -> Result<Created> {
        let Parts { layout, gin, teams, made } = self;
        info!(
            INIT,
            "{} {what}: {} bytes, {} LSA and {} rail barriers, {} GIN contexts{}, {} signals, {} counters",
            windows.team().tag(),
            layout.used,
            layout.n_lsa,
            layout.n_rail,
            gin.as_ref().map_or(0, |gin| gin.of.n_contexts()),
            gin.as_ref().map_or("", |gin| match gin.backend {
                Backend::Proxy => "",
                Backend::Direct => " (direct)",
                Backend::Gdaki => " (GDAKI)",
            }),
            layout.signals,
            layout.counters
        );
        Ok(Created {
            dev_comm: fill(windows, &layout, gin.as_ref(), &made)?,
            outputs: layout.entries,
            multicast: by_entry(reqs, teams),
        })
    }
}

fn assemble(windows: &Windows, what: &str, reqs: &Requirements, status: Result<()>) -> Result<Parts> {
    let watched = Watched::offer(windows.team());
    // What earlier kernels posted is done everywhere when the round is: then ids may be zeroed for a new owner.
    let backend = Backend::choose(reqs.direct, windows.team().topo.lsa_size, windows.team().n_ranks, &windows.team().tag());
    let teams = check(windows.team(), reqs);
    // What GIN has to say ahead of its first use goes in the same round.
    let announces = wants_gin(windows, reqs) && windows.gin().is_none();
    let announced = announces.then(|| Announced::new(windows.team()));
    let said = status.and_then(|()| teams.as_ref().map_err(Clone::clone)).and_then(|teams| {
        windows.drain()?;
        let announced = announced.as_ref().map(|announced| announced.as_ref().map_err(Clone::clone)).transpose()?;
        let agreed = [backend.clone()? as u64, reqs.lsa_multimem.into(), teams.len() as u64].into_iter().chain(reqs.words());
        let agreed = agreed.chain(announced.into_iter().flat_map(Announced::agreed)).collect();
        let watched = watched.as_ref().map_err(Clone::clone)?.iter().flat_map(Watched::words);
        Ok(Said { agreed, own: announced.into_iter().flat_map(Announced::own).chain(watched).collect() })
    });
    let own = 3 + reqs.words().len();
    let all = windows.team().round(what, said)?;
    let name = |i: usize| match i {
        0 => "the GIN backend (NCCL_GIN_BACKEND, or GINRS_GIN_DIRECT where the program creates it)".into(),
        1 => "lsaMultimem".into(),
        2 => "number of team requirements with multimem".into(),
        _ if i >= own => Announced::NAMES[i - own].into(),
        _ => reqs.field(i - 3),
    };
    let show = |i, value| match (i, value) {
        (0, backend) => Backend::numbered(backend).name().into(),
        (_, value) => (value as i64).to_string(),
    };
    compare(what, &all, name, show)?;
    let watched = watched?;
    watched.iter().try_for_each(|watched| watched.join(windows.team(), &all))?;
    let teams = multicast_bases(windows, what, &teams?)?;
    let activation = announced.map(|announced| windows.begin_activation(announced?, &all)).transpose()?;
    let gin = gin_for(windows, reqs, backend?, activation.as_ref())?;
    let contexts = gin.as_ref().map_or(0, |gin| gin.of.n_contexts());
    let layout = reqs.layout(windows.team().topo.lsa_size, contexts, windows.team().device.kind() == Kind::Cpu)?;
    let made = build(windows, what, &layout, gin.as_ref(), activation)?;
    Ok(Parts { layout, gin, teams, made })
}

/// The multicast teams that are asked for: the LSA team first, if it is among them.
fn check(team: &Team, reqs: &Requirements) -> Result<Vec<Members>> {
    reqs.check()?;
    let mut teams = Vec::new();
    if reqs.lsa_multimem {
        multicast::check(team, "lsaMultimem is set")?;
        teams.push(Members::lsa(team));
    }
    for (i, request) in reqs.teams.iter().enumerate().filter(|(_, request)| request.multimem) {
        let what = format!("team requirement {i} has multimem");
        multicast::check(team, &what)?;
        teams.push(Members::of(team, &what, request.team)?);
    }
    Ok(teams)
}

/// Their bases, in that order.
fn multicast_bases(windows: &Windows, what: &str, teams: &[Members]) -> Result<Vec<DevPtr>> {
    let numbered = (1..).zip(teams);
    numbered.map(|(i, &members)| multicast::team(&windows.symmetric, &format!("{what}, multicast team {i}"), members)).collect()
}

/// The bases by entry of the team list.
fn by_entry(reqs: &Requirements, bases: Vec<DevPtr>) -> Vec<Option<DevPtr>> {
    let mut bases = bases.into_iter().skip(reqs.lsa_multimem.into());
    reqs.teams.iter().map(|request| if request.multimem { bases.next() } else { None }).collect()
}

/// The contexts of a device communicator.
struct Contexts {
    of: Arc<Gin>,
    backend: Backend,
}

/// True where the requirements ask for it, or ranks are out of LSA's reach.
fn wants_gin(windows: &Windows, reqs: &Requirements) -> bool {
    let team = windows.team();
    config::int("NCCL_GIN_ENABLE") != 0 && (reqs.needs_gin() || team.topo.lsa_size < team.n_ranks)
}

/// GIN that is about to be active, or is already.
fn gin_for(
    windows: &Windows,
    reqs: &Requirements,
    backend: Backend,
    activation: Option<&Activation>,
) -> Result<Option<Contexts>> {
    if reqs.needs_gin() && !wants_gin(windows, reqs) {
        bail!(
            InternalError,
            58,
            "GIN is needed but off | {} | NCCL_GIN_ENABLE=0; barriers, signals or counters were asked for | fix: unset \
             NCCL_GIN_ENABLE",
            windows.team().tag()
        );
    }
    let Some(of) = activation.map(|activation| activation.gin().clone()).or_else(|| windows.gin()) else { return Ok(None) };
    if backend == Backend::Direct {
        of.make_direct(&windows.symmetric)?;
    } else if reqs.direct {
        info!(
            INIT,
            "{} has proxied GIN contexts though direct ones were wished: NCCL_GIN_BACKEND, or ranks out of reach",
            windows.team().tag()
        );
    }
    Ok(Some(Contexts { of, backend }))
}

/// What was made for one device communicator.
struct Made {
    record: Record,
    resource: Option<Resource>,
    /// The GIN contexts' addresses.
    contexts: Vec<DevPtr>,
}

/// Ids and memory: taken, agreed on, mapped, zeroed; given back on all ranks when one fails.
fn build(windows: &Windows, what: &str, layout: &Layout, gin: Option<&Contexts>, activation: Option<Activation>) -> Result<Made> {
    let registered = activation.as_ref().map_or(Ok(()), |activation| activation.status.clone());
    let ids = registered.and_then(|()| Ids::take(gin, layout));
    let proposal = match layout.used {
        0 => Ok(None),
        bytes => windows.propose(bytes as usize, gin.map(|gin| &gin.of)).map(Some),
    };
    let plan = ids.and_then(|ids| proposal.map(|proposal| (ids, proposal)));
    let said = plan.as_ref().map_err(Clone::clone).map(|(ids, proposal)| {
        let mut agreed = vec![ids.record.signal_base.into(), ids.record.counter_base.into()];
        agreed.extend(proposal.iter().flat_map(Proposed::agreed));
        Said { agreed, own: proposal.iter().flat_map(Proposed::own).collect() }
    });
    let what = format!("{what}, resources");
    let all = windows.team().round(&what, said)?;
    let name = |i: usize| match i {
        0 => "first signal".into(),
        1 => "first counter".into(),
        _ => AGREED[i - 2].into(),
    };
    compare(&what, &all, name, |_, value| value.to_string())?;
    activation.map(Activation::stands);
    let (ids, proposal) = plan?;
    let (resource, _offer) = match proposal {
        Some(proposal) => {
            let (made, offer) = windows.make_resource(proposal, &all);
            (made.map(Some), Some(offer))
        }
        None => (Ok(None), None),
    };
    // Before the round that lets kernels start anywhere: a signal of an earlier owner would end a wait too early.
    // The table is made now if it is not there: behind this round nothing may fail on one rank alone.
    let table = windows.table_address().map(drop);
    let status = ids.zero().and(resource.as_ref().map(drop).map_err(Clone::clone)).and(table);
    let closed = windows.team().done(&format!("{what}, end"), &status);
    if let (Err(_), Ok(Some(resource))) = (&closed, &resource) {
        windows.remove(resource.window).unwrap_or_else(|left| log::error(&left));
    }
    closed?;
    let resource = resource?;
    let (mut record, contexts) = ids.keep();
    record.window = resource.as_ref().map_or(0, |resource| resource.window);
    Ok(Made { record, resource, contexts })
}

/// Signals and counters taken from the pools, given back at drop unless kept.
struct Ids<'a> {
    gin: Option<&'a Contexts>,
    record: Record,
    contexts: Vec<DevPtr>,
}

impl<'a> Ids<'a> {
    /// Nothing without GIN; bases are 0 where the count is.
    fn take(gin: Option<&'a Contexts>, layout: &Layout) -> Result<Self> {
        let mut ids = Self { gin, record: Record::default(), contexts: Vec::new() };
        if let Some(Contexts { of, backend }) = gin {
            if layout.signals > 0 {
                ids.record.signal_base = of.alloc_signals(*backend, layout.signals)?;
                ids.record.signals = layout.signals;
            }
            if layout.counters > 0 {
                ids.record.counter_base = of.alloc_counters(*backend, layout.counters)?;
                ids.record.counters = layout.counters;
            }
            // These know the ids: one device communicator's kernels do not move another's words.
            let asked = Asked {
                signals: ids.record.signal_base..ids.record.signal_base + layout.asked_signals,
                counters: ids.record.counter_base..ids.record.counter_base + layout.asked_counters,
            };
            ids.contexts = of.take_contexts(*backend, ids.record.signal_ids(), ids.record.counter_ids(), asked)?;
            ids.record.contexts = ids.contexts[0];
        }
        Ok(ids)
    }

    fn zero(&self) -> Result<()> {
        match self.gin {
            Some(Contexts { of, backend }) => of.zero(*backend, self.record.signal_ids(), self.record.counter_ids()),
            None => Ok(()),
        }
    }

    fn keep(mut self) -> (Record, Vec<DevPtr>) {
        self.gin = None;
        (self.record, std::mem::take(&mut self.contexts))
    }
}

impl Drop for Ids<'_> {
    fn drop(&mut self) {
        if let Some(gin) = self.gin {
            give_back(&gin.of, gin.backend, &self.record);
        }
    }
}

fn give_back(gin: &Gin, backend: Backend, record: &Record) {
    gin.give_back_contexts(record.contexts);
    if record.signals > 0 {
        gin.free_signals(backend, record.signal_base, record.signals);
    }
    if record.counters > 0 {
        gin.free_counters(backend, record.counter_base, record.counters);
    }
}

/// The 200 bytes that kernels get (spec host 1.5).
fn fill(windows: &Windows, layout: &Layout, gin: Option<&Contexts>, made: &Made) -> Result<ncclDevComm> {
    let (team, table) = (windows.team(), windows.table_address()?);
    tell_comm(table, team.hash);
    let mut dc = ncclDevComm {
        rank: team.rank as i32,
        nRanks: team.n_ranks as i32,
        nRanks_rcp32: rcp32(team.n_ranks),
        lsaRank: team.topo.lsa_rank as i32,
        lsaSize: team.topo.lsa_size as i32,
        lsaSize_rcp32: rcp32(team.topo.lsa_size),
        windowTable: table,
        lsaMultimem: ncclMultimemHandle_t { mcBasePtr: multicast::base_of(&windows.symmetric, Members::lsa(team)).unwrap_or(0) },
        lsaBarrier: ncclLsaBarrierHandle_t { bufHandle: layout.lsa.buffer_handle, nBarriers: layout.n_lsa as i32 },
        railGinBarrier: ncclGinBarrierHandle_t { signal0: layout.rail.signal_start, bufHandle: layout.rail.buffer_handle },
        marker: MARKER,
        ..Default::default()
    };
    if let Some(resource) = &made.resource {
        dc.resourceWindow = resource.window;
        dc.resourceWindow_inlined = resource.shadow;
        dc.ginSignalShadows = resource.local + layout.shadows;
        if team.device.kind() == Kind::Cpu {
            let field = |offset: usize, value: u64| team.device.write(resource.window + offset as u64, value.as_bytes());
            let parts = resource.local + layout.told;
            team.device.write(parts, layout.parts.as_bytes())?;
            field(offset_of!(ExtendedWindow, barrierSignals), layout.n_rail.into())?;
            // With `place`, which it has not.
            field(offset_of!(ExtendedWindow, nResources), layout.parts.len() as u64)?;
            field(offset_of!(ExtendedWindow, resources), parts)?;
        }
    }
    dc.resourceWindow_inlined.marker = MARKER_WORD;
    if gin.is_some() {
        dc.ginContextCount = made.contexts.len() as u8;
        let kind = if gin.is_some_and(|gin| gin.backend == Backend::Gdaki) {
            NCCL_NET_DEVICE_GIN_GDAKI
        } else {
            NCCL_NET_DEVICE_GIN_PROXY
        };
        for (context, &address) in made.contexts.iter().take(NCCL_GIN_MAX_CONTEXTS).enumerate() {
            dc.ginTypes[context] = kind as u8;
            dc.ginHandles[context] = address;
        }
        dc.ginSignalBase = made.record.signal_base;
        dc.ginSignalCount = layout.signals as i32;
        dc.ginCounterBase = made.record.counter_base;
        dc.ginCounterCount = layout.counters as i32;
    }
    Ok(dc)
}

/// floor((2^32-1)/x), one more for powers of two, modulo 2^32: what the device divides by.
pub fn rcp32(x: u32) -> u32 {
    (u32::MAX / x).wrapping_add(u32::from(x.is_power_of_two()))
}

/// ncclDevCommDestroy: local and at once. `dc` may be a copy; only its resource window, its id ranges and its first context are
/// read. The caller sees to it that no rank's kernel uses it any more.
pub fn destroy(devcomms: &DevComms, windows: &Windows, dc: &ncclDevComm) -> Result<()> {
    graveyard::sweep();
    let wanted = Record {
        window: dc.resourceWindow,
        signal_base: dc.ginSignalBase,
        signals: dc.ginSignalCount as u32,
        counter_base: dc.ginCounterBase,
        counters: dc.ginCounterCount as u32,
        contexts: dc.ginHandles[0],
    };
    // Should what is posted not end in time, the device communicator stands, and the call may come again.
    if devcomms.live.lock().contains(&wanted) {
        windows.drain()?;
    }
    let Some(record) = devcomms.take(&wanted) else {
        bail!(
            InvalidArgument,
            57,
            "unknown device communicator | {} | resource window {:#x}, {} signals from {} | fix: destroy each once, on the \
             communicator that made it",
            windows.team().tag(),
            dc.resourceWindow,
            dc.ginSignalCount,
            dc.ginSignalBase
        );
    };
    if let Some(gin) = windows.gin() {
        give_back(&gin, gin.backend_of(record.contexts), &record);
    }
    devcomms.release.remove(&record);
    tell_race(Race::Settled, windows.team().rank);
    match record.window {
        0 => Ok(()),
        window => windows.remove(window),
    }
}

#[cfg(test)]
mod tests {
    use super::rcp32;

    #[test]
    fn reciprocals_are_the_devices() {
        let table = [(1, 0), (2, 0x8000_0000), (3, 0x5555_5555), (4, 0x4000_0000), (8, 0x2000_0000)];
        for (x, expected) in table {
            assert_eq!(rcp32(x), expected, "{x}");
        }
    }

    #[test]
    fn the_device_divides_right_with_them() {
        // Device: q = high half of n * rcp, and one correction step; 0 means divide by 1.
        for x in 2..=200u32 {
            for n in (0..4000).chain([u32::MAX - 1, u32::MAX]) {
                let mut q = ((u64::from(n) * u64::from(rcp32(x))) >> 32) as u32;
                if n - q * x >= x {
                    q += 1;
                }
                assert_eq!(q, n / x, "{n} / {x}");
            }
        }
    }
}
