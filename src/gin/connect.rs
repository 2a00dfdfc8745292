//! GIN's set-up over a communicator (spec host 4.2): settings agreed, signal memory shared, a transport chosen for each peer.

use super::context::{self, Shape};
use super::proxy::Routes;
use super::{Gin, Parts};
use crate::device::Physical;
use crate::error::{Error, Result};
use crate::seq::Seq;
use crate::symmetric::{Place, SymMemory};
use crate::team::{PeerInfo, Said, Team, compare};
use crate::transport::loopback::Loopback;
use crate::transport::nvlink::Nvlink;
use crate::transport::select::{self, Choice, Facts, World};
use crate::transport::shm::Shm;
use crate::transport::staged::{self, Paths, Staged};
use crate::transport::{Region, Transport};
use crate::{bail, config, info};
use std::sync::Arc;

/// What every rank must have alike.
struct Settings {
    contexts: u32,
    signals: u32,
    counters: u32,
}

impl Settings {
    const NAMES: [&str; 3] = ["NCCL_GIN_NCONTEXTS", "NCCL_GIN_SIGNAL_POOL_SIZE", "NCCL_GIN_COUNTER_POOL_SIZE"];

    fn read() -> Result<Self> {
        let kind = config::int("NCCL_GIN_TYPE");
        if kind != -1 && kind != 2 {
            bail!(
                InternalError,
                30,
                "GIN type is not available | NCCL_GIN_TYPE is {kind}, this version has 2 (proxy) | fix: unset it or set it to -1 or 2"
            );
        }
        Ok(Self {
            // In the ranges of the table of settings: at most 4 contexts, the places of ginTypes and ginHandles; ids have 16 bits.
            contexts: config::int(Self::NAMES[0]) as u32,
            signals: config::int(Self::NAMES[1]) as u32,
            counters: config::int(Self::NAMES[2]) as u32,
        })
    }
}

/// Queue depth: each rank's own choice.
fn depth(n_ranks: u32, contexts: u32) -> u32 {
    const NAME: &str = "NCCL_GIN_PROXY_QUEUE_SIZE";
    let wanted = config::int(NAME);
    context::depth(n_ranks, contexts, wanted).unwrap_or_else(|default| {
        info!(INIT, "{NAME} {wanted} is not used: not a power of two from 1 to 256; using {default}");
        default
    })
}

impl Gin {
    /// Collective, the first use of GIN on a communicator. It fails on all ranks or on none.
    pub fn connect(team: &Team) -> Result<Arc<Self>> {
        let mine = Settings::read().and_then(|settings| {
            let bytes = settings.contexts as usize * settings.signals as usize * 8;
            Ok((team.device.create_shared(bytes)?, settings))
        });
        let said = |(_, of): &(Arc<dyn Physical>, Settings)| Said {
            agreed: [of.contexts, of.signals, of.counters].map(u64::from).to_vec(),
            own: Vec::new(),
        };
        let all = team.round("gin connect", mine.as_ref().map(said).map_err(Clone::clone))?;
        let (memory, settings) = mine?;
        compare("gin connect", &all, |i| Settings::NAMES[i].into(), |_, value| value.to_string())?;
        let signals = team.exchange("gin signals", Ok(memory))?;
        let facts = |(peer, memory): (&PeerInfo, &Option<Arc<dyn Physical>>)| Facts {
            process: peer.process,
            machine: peer.machine,
            mapped: memory.is_some(),
        };
        let ranks: Vec<Facts> = team.peers.iter().zip(&signals).map(facts).collect();
        let world = World { kind: team.device.kind(), asked: select::asked()?, reach: &team.topo.reach, ranks: &ranks };
        let choices = world.select(team.rank);
        let paths = paths(team, &world, choices.as_ref().map_err(Clone::clone))?;
        let built = choices.and_then(|choices| {
            for line in world.explain(team.rank, &choices) {
                info!(INIT, "GIN {line}");
            }
            build(team, &settings, signals, routes(team, &choices, paths)?)
        });
        team.done("gin connected", &built)?;
        built
    }

    /// Names the window `place` of `memory` for descriptors.
    pub fn register(self: &Arc<Self>, team: &Team, memory: &Arc<SymMemory>, place: Place) -> Result<Registered> {
        let ranks = 0..memory.peers.len() as u32;
        // What the device does not reach has no address here: staged puts need none.
        let address = |rank| match team.topo.reach.reaches(self.rank, rank) {
            true => Ok(memory.reach(&*team.device, rank)?.map(|at| at + place.start)),
            false => Ok(None),
        };
        let addresses = ranks.map(address).collect::<Result<_>>()?;
        // SAFETY: a SymMemory's addresses are mapped until its holder in the window registry goes, behind the windows over it,
        // and `place` lies in it. A Gin that stops forgets all regions.
        let region = unsafe { Region::new(place.number, place.bytes, self.rank, addresses, Box::new(memory.clone())) };
        let Some(region) = region else {
            bail!(
                SystemError,
                37,
                "memory cannot be used by GIN | memory {} of {:#x} bytes | this rank's own part is not mapped | fix: report this",
                memory.id,
                memory.bytes
            );
        };
        Ok(Registered { handle: self.register_region(region, place.start)?, gin: self.clone() })
    }
}

/// A window that descriptors can name. Dropped: descriptors that still name it abort the communicator, and nothing touches its
/// memory any more.
pub struct Registered {
    handle: u64,
    gin: Arc<Gin>,
}

impl Registered {
    /// The value for `ginWins` of every context.
    pub fn handle(&self) -> u64 {
        self.handle
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.gin.deregister(self.handle);
    }
}

/// Collective where any rank stages puts: the memories that they go through.
fn paths(team: &Team, world: &World, choices: std::result::Result<&Vec<Choice>, Error>) -> Result<Option<Paths>> {
    let senders: Vec<Vec<u32>> = (0..team.n_ranks).map(|rank| world.senders(rank)).collect();
    if senders.iter().all(Vec::is_empty) {
        return Ok(None);
    }
    let own = choices.and_then(|_| team.device.create_shared(staged::bytes(senders[team.rank as usize].len())));
    let memories = team.exchange("gin staging", own.clone())?;
    let ring = |(theirs, memory): (&Vec<u32>, Option<Arc<dyn Physical>>)| {
        Some((memory?, theirs.iter().position(|&sender| sender == team.rank)?))
    };
    let peers = senders.iter().zip(memories).map(ring).collect();
    Ok(Some(Paths { own: own?, senders: senders[team.rank as usize].clone(), peers }))
}

fn build(team: &Team, settings: &Settings, signals: Vec<Option<Arc<dyn Physical>>>, routes: Routes) -> Result<Arc<Gin>> {
    let depth = depth(team.n_ranks, settings.contexts);
    info!(
        INIT,
        "GIN {}: {} contexts of {} queues x {depth}, {} signals and {} counters each",
        team.tag(),
        settings.contexts,
        team.n_ranks,
        settings.signals,
        settings.counters
    );
    let gin = Gin::from_parts(Parts {
        device: team.device.clone(),
        rank: team.rank,
        n_contexts: settings.contexts,
        shape: Shape { n_ranks: team.n_ranks, depth, signals: settings.signals, counters: settings.counters, start: Seq(0) },
        signals,
        routes,
        abort: team.abort.clone(),
        salt: team.hash,
    })?;
    gin.start(&team.device)?;
    Ok(gin)
}

/// One transport of each kind that was chosen; `staged` also where only others stage to this rank.
fn routes(team: &Team, choices: &[Choice], mut paths: Option<Paths>) -> Result<Routes> {
    let device = &*team.device;
    let mut routes = Routes { transports: Vec::new(), by_peer: vec![0; choices.len()] };
    for kind in Choice::ALL {
        let serves: Vec<bool> = choices.iter().map(|&choice| choice == kind).collect();
        let receives = kind == Choice::Staged && paths.as_ref().is_some_and(|paths| !paths.senders.is_empty());
        if !serves.contains(&true) && !receives {
            continue;
        }
        let index = routes.transports.len() as u8;
        for (route, _) in routes.by_peer.iter_mut().zip(&serves).filter(|(_, serves)| **serves) {
            *route = index;
        }
        let transport: Box<dyn Transport> = match (kind, paths.take_if(|_| kind == Choice::Staged)) {
            (Choice::Loopback, _) => Box::new(Loopback::new(serves)),
            (Choice::Shm, _) => Box::new(Shm::new(serves)),
            (Choice::Nvlink, _) => Box::new(Nvlink::new(device, serves, || device.copy_queue())?),
            (Choice::Staged, Some(paths)) => Box::new(Staged::new(device, team.rank, paths, || device.copy_queue())?),
            (Choice::Staged, None) => bail!(InternalError, 79, "no staging memory | rank {} | fix: report this", team.rank),
        };
        routes.transports.push(transport);
    }
    Ok(routes)
}
