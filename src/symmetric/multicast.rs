//! Teams with multicast (spec host 2.5): on GPUs one object over the memory of a team's members, with every symmetric memory at its
//! offset in the flat space; on the CPU device addresses that stand for the members' own slots of it. Byte `b` of a window stands at `base + mcOffset4K * 4096 + b`.
//!
//! Made when a device communicator first asks, kept until the communicator goes. NCCL_NVLS_ENABLE=0 turns them off: then nothing
//! here calls the driver.

use super::held::Symmetric;
use super::members::{Binding, Members, MulticastTeam};
use super::memory::SymMemory;
use crate::device::{DevPtr, Device, Multicast, Physical, Targets};
use crate::error::Result;
use crate::team::{Offer, Said, Team};
use crate::{bail, config, info};
use std::sync::Arc;

/// Alignment of the mapping. Bytes.
const ALIGN: usize = 512 << 20;

/// Err, saying `who` asked, where there is no multicast.
pub fn check(team: &Team, who: &str) -> Result<()> {
    match team.device.fans_out() && team.topo.lsa_size > 1 && config::int("NCCL_NVLS_ENABLE") != 0 {
        true => Ok(()),
        false => nvls(team, who).map(drop),
    }
}

fn nvls<'a>(team: &'a Team, who: &str) -> Result<&'a dyn Multicast> {
    let enable = config::int("NCCL_NVLS_ENABLE");
    let why = match enable {
        0 => "NCCL_NVLS_ENABLE=0 turns it off",
        _ if team.topo.lsa_size < 2 => "the LSA team has one rank",
        _ => match team.device.multicast(enable != 2) {
            Some(nvls) => return Ok(nvls),
            None => "the device has no multicast objects, which need NVSwitch",
        },
    };
    bail!(
        InvalidArgument,
        59,
        "no multicast memory (NVLS) | {}, {who} | {why} | fix: leave multimem out of the requirements",
        team.tag()
    )
}

/// Where the multicast addresses of `members` begin, if such a team was made.
pub(crate) fn base_of(symmetric: &Symmetric, members: Members) -> Option<DevPtr> {
    symmetric.state.lock().teams.iter().find(|team| team.members == members).map(|team| team.mapping.base())
}

/// Collective over the communicator, each rank with the team that it is in: the team's object, made now if it is not there.
pub(crate) fn team(symmetric: &Symmetric, what: &str, members: Members) -> Result<DevPtr> {
    let known = base_of(symmetric, members);
    let mine = object(symmetric, what, members, known.is_some());
    let said = mine.as_ref().map_err(Clone::clone).map(|offer| {
        let words = offer.as_ref().map_or([0; 2], |(offer, object)| offer.words(object));
        Said { agreed: Vec::new(), own: members.words().into_iter().chain(words).collect() }
    });
    let all = symmetric.team.round(what, said)?;
    let offer = mine?;
    let joined = alike(symmetric, what, members, &all).and_then(|()| match known {
        Some(_) => Ok(None),
        None if symmetric.team.device.fans_out() => Ok(None),
        None => join(symmetric, what, members, offer.as_ref().map(|(_, object)| object), &all).map(Some),
    });
    // Binding before the last member has joined would block or fail.
    symmetric.team.done(&format!("{what}, joined"), &joined)?;
    let made = match (joined?, known) {
        (Some(object), _) => bind_all(symmetric, what, members, object).map(Some),
        (None, None) => fan_out(symmetric, members).map(|team| Some((team, Vec::new()))),
        (None, Some(_)) => Ok(None),
    };
    symmetric.team.done(&format!("{what}, bound"), &made)?;
    if let Some((team, bindings)) = made? {
        info!(INIT, "{} multicast over {members} at {:#x}", symmetric.team.tag(), team.mapping.base());
        let mut state = symmetric.state.lock();
        state.teams.push(team);
        for (id, binding) in bindings {
            if let Some(held) = state.memories.iter_mut().find(|held| held.memory.id == id) {
                held.bindings.push(binding);
            }
        }
    }
    match base_of(symmetric, members) {
        Some(base) => Ok(base),
        None => bail!(InternalError, 86, "multicast team is gone | {} | fix: report this", symmetric.team.tag()),
    }
}

type Offered<'a> = Option<(Offer<'a>, Arc<dyn Physical>)>;

/// The first member makes the object and offers it to the others.
fn object<'a>(symmetric: &'a Symmetric, what: &str, members: Members, known: bool) -> Result<Offered<'a>> {
    if known || members.first != symmetric.team.rank || symmetric.team.device.fans_out() {
        return Ok(None);
    }
    let space = symmetric.space()?;
    let object = nvls(&symmetric.team, what)?.create_object(members.count, space.stride() as usize)?;
    Ok(Some((Offer::new(&symmetric.team, &object)?, object)))
}

/// All members must have said the same.
fn alike(symmetric: &Symmetric, what: &str, members: Members, all: &[Said]) -> Result<()> {
    match members.ranks().find(|&rank| all[rank as usize].own.get(..3) != Some(&members.words())) {
        None => Ok(()),
        Some(rank) => bail!(
            InvalidArgument,
            85,
            "ranks of a multicast team ask for different ones | {}, {what} | here {members}; rank {rank} has (first, count, step) {:?} | fix: \
             list the same teams in the same order on all their members",
            symmetric.team.tag(),
            all[rank as usize].own.get(..3)
        ),
    }
}

fn join(
    symmetric: &Symmetric,
    what: &str,
    members: Members,
    own: Option<&Arc<dyn Physical>>,
    all: &[Said],
) -> Result<Arc<dyn Physical>> {
    let object = match (own, all[members.first as usize].own.get(3..).and_then(|words| words.first_chunk::<2>())) {
        (Some(own), _) => own.clone(),
        (None, Some(&words)) => {
            let theirs = symmetric.team.take(members.first, words, |device, fd, bytes| device.import(fd, bytes))?;
            match theirs {
                Some(object) => object,
                None => {
                    bail!(
                        InvalidUsage,
                        85,
                        "multicast team over machines | {}, {what} | fix: leave multimem out",
                        symmetric.team.tag()
                    )
                }
            }
        }
        (None, None) => {
            bail!(RemoteError, 53, "rank {} offered no multicast object | fix: load the same libginrs", members.first)
        }
    };
    nvls(&symmetric.team, what)?.join(&*object)?;
    Ok(object)
}

/// Addresses that stand for the members' slots of the flat space.
fn fan_out(symmetric: &Symmetric, members: Members) -> Result<MulticastTeam> {
    let space = symmetric.space()?;
    let slot = u64::from(members.first - symmetric.team.topo.lsa_first);
    let mapping = symmetric.team.device.fan_out(Targets {
        first: space.base() + slot * space.stride(),
        step: u64::from(members.stride) * space.stride(),
        count: members.count,
        bytes: space.stride(),
    })?;
    Ok(MulticastTeam { members, mapping, object: None })
}

/// Maps the object and puts all memory that there is in it.
fn bind_all(
    symmetric: &Symmetric,
    what: &str,
    members: Members,
    object: Arc<dyn Physical>,
) -> Result<(MulticastTeam, Vec<(u64, Binding)>)> {
    nvls(&symmetric.team, what)?;
    let mapping = symmetric.team.device.reserve(object.bytes(), ALIGN)?;
    mapping.map(0, &object)?;
    let team = MulticastTeam { members, mapping, object: Some(object.clone()) };
    let memories: Vec<Arc<SymMemory>> = symmetric.state.lock().memories.iter().map(|held| held.memory.clone()).collect();
    let bind =
        |memory: &Arc<SymMemory>| Ok((memory.id, bind(&symmetric.team.device, &object, memory.big_offset, &memory.physical)?));
    let bindings = memories.iter().map(bind).collect::<Result<_>>()?;
    Ok((team, bindings))
}

/// Puts new memory into every team's object; empty without teams.
pub(super) fn bind_new(symmetric: &Symmetric, at: u64, memory: &Arc<dyn Physical>) -> Result<Vec<Binding>> {
    let objects: Vec<_> = symmetric.state.lock().teams.iter().filter_map(|team| team.object.clone()).collect();
    objects.iter().map(|object| bind(&symmetric.team.device, object, at, memory)).collect()
}

fn bind(device: &Arc<dyn Device>, object: &Arc<dyn Physical>, at: u64, memory: &Arc<dyn Physical>) -> Result<Binding> {
    let Some(nvls) = device.multicast(true) else { bail!(InternalError, 86, "no multicast on this device | fix: report this") };
    nvls.bind(&**object, at, &**memory)?;
    Ok(Binding { device: device.clone(), object: object.clone(), at, bytes: memory.bytes() })
}
