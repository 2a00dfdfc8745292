//! GIN's set-up over a communicator (spec host 4.2): settings agreed, signal memory shared, a transport chosen for each peer.

use super::gdaki::{self, Card, Hardware, Real};
use super::proxy::Routes;
use super::settings::Settings;
use super::{Gin, Parts};
use crate::abort::Beside;
use crate::device::Physical;
use crate::error::Result;
use crate::symmetric::{Place, SymMemory};
use crate::sync::Mutex;
use crate::team::{Offer, PeerInfo, Said, Team};
use crate::transport::chaos::{self, Chaos};
use crate::transport::factory::{LIST, Setup, Share};
use crate::transport::select::{self, Facts, Lacks, World};
use crate::transport::{Part, Region, SIGNALS, Transport, Words};
use crate::{bail, info};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

/// What a rank says ahead of [`Gin::connect`], in a round that its caller makes anyway.
pub(crate) struct Announced {
    memory: Arc<dyn Physical>,
    settings: Settings,
    /// For other machines, the best first; none where there are none.
    addresses: Result<Vec<IpAddr>>,
    has: u64,
    lacks: Lacks,
}

impl Announced {
    /// Names of [`Self::agreed`]'s words.
    pub const NAMES: [&str; 6] = Settings::NAMES;

    /// Of this rank. The first time in a process it may take long.
    pub fn new(team: &Team) -> Result<Self> {
        let settings = Settings::read(&*team.device)?;
        let memory = team.device.create_sparse(settings.contexts as usize * settings.signals as usize * 8)?;
        // Ranks of one machine that are told to use a network show nothing to other machines.
        let far = team.peers.iter().any(|peer| peer.machine != team.peers[team.rank as usize].machine);
        let addresses = if far { team.bootstrap.addresses_to_others() } else { Ok(Vec::new()) };
        team.watch.set_step("loading of network libraries");
        let (has, lacks) = Facts::probe(&*team.device, addresses.iter().flatten().next().copied());
        team.watch.set_step("");
        lacks.iter().for_each(|(name, why)| info!(INIT, "GIN transport not here: {name}: {why}"));
        Ok(Self { memory, settings, addresses, has, lacks })
    }

    /// Must be equal on all ranks.
    pub fn agreed(&self) -> [u64; 6] {
        self.settings.agreed()
    }

    /// This rank's own.
    pub fn own(&self) -> [u64; 2] {
        [self.has, self.addresses.iter().flatten().map(family).fold(0, |all, family| all | family)]
    }
}

/// The family of an address, as a bit.
fn family(address: &IpAddr) -> u64 {
    if address.is_ipv4() { 1 } else { 2 }
}

/// The best of `addresses` that is of a family which all ranks have, by what they said, and the others of that family. Where there is none, the best: a
/// transport that minds says who cannot reach whom.
fn reachable(addresses: &[IpAddr], all: &[Said]) -> (IpAddr, Vec<IpAddr>) {
    let common = all.iter().fold(u64::MAX, |common, said| common & said.own.get(1).copied().unwrap_or(0));
    let found = addresses.iter().find(|address| family(address) & common != 0);
    let best = found.or(addresses.first()).copied().unwrap_or(Ipv4Addr::LOCALHOST.into());
    let mut others = Vec::new();
    for address in addresses.iter().filter(|address| **address != best && family(address) == family(&best)) {
        if !others.contains(address) {
            others.push(*address);
        }
    }
    (best, others)
}

impl Gin {
    /// Collective, the first use of GIN on a communicator. It fails on all ranks or on none. `announced` is what this rank said in a round
    /// before, and `all` what all said in it: their own words begin with those of [`Announced::own`]. `windows` prepares those that there are,
    /// and its words of all ranks come back.
    pub(crate) fn connect(
        team: &Team,
        announced: Announced,
        all: &[Said],
        windows: impl FnOnce(&Arc<Self>) -> Result<Vec<u64>>,
    ) -> Result<(Arc<Self>, Arc<Vec<Said>>)> {
        let Announced { memory, settings, addresses, lacks, .. } = announced;
        let facts = |(peer, said): (&PeerInfo, &Said)| Facts {
            process: peer.process,
            machine: peer.machine,
            has: said.own.first().copied().unwrap_or(0),
        };
        let ranks: Vec<Facts> = team.peers.iter().zip(all.iter()).map(facts).collect();
        let offers = Offers { team, kept: Mutex::default() };
        let ends = select::asked().and_then(|asked| {
            let world = World { kind: team.device.kind(), asked, reach: &team.topo.reach, ranks: &ranks };
            Ends::new(team, &world, &lacks, &offers, (memory, &settings), reachable(&addresses?, all))
        });
        let said = ends.as_ref().map(|ends| Said { agreed: Vec::new(), own: ends.own.clone() });
        let heard = team.round_as("gin signals", said.map_err(Clone::clone), Heard::read)?;
        let connected = ends?.connect(team, &heard, &offers);
        let built = connected.and_then(|(connected, card)| build(team, Settings { card, ..settings }, connected));
        let built = built.and_then(|gin| windows(&gin).map(|own| (gin, own)));
        let said = built.as_ref().map(|(_, own)| Said { agreed: Vec::new(), own: own.clone() });
        // Behind it all have taken what this rank offers.
        let all = team.round("gin connected", said.map_err(Clone::clone))?;
        Ok((built?.0, all))
    }

    /// Names a window to come: `bytes` from `start` on of this rank's `memory`.
    pub fn prepare(self: &Arc<Self>, memory: &Arc<dyn Physical>, start: u64, bytes: u64) -> Result<Prepared> {
        let (handle, mut words) = self.pump.engine()?.prepare(memory, start, bytes)?;
        let mut registered = Registered { handle, keys: None, gin: self.clone() };
        if let Some(card) = &self.card {
            let whose = (handle, self.rank, self.shape.n_ranks);
            let keys = gdaki::Registration::new(&*self.device, whose, card, (memory, start, bytes))?;
            words.say(gdaki::NAME, keys.words());
            registered.keys = Some(keys);
        }
        Ok(Prepared { registered, words })
    }
}

/// A window that has a name and is not registered yet. Dropped: it is forgotten.
pub struct Prepared {
    registered: Registered,
    words: Words,
}

impl Prepared {
    /// For the other ranks: nothing where no transport has anything to say.
    pub fn own(&self) -> Vec<u64> {
        if self.words.is_empty() { Vec::new() } else { self.words.encode() }
    }

    /// The window `place` of `memory`, as it was prepared, with what all ranks said: [`Self::own`] from word `at` on.
    pub(crate) fn register(
        self,
        team: &Team,
        memory: &Arc<SymMemory>,
        place: Place,
        all: &[Said],
        at: usize,
    ) -> Result<Registered> {
        let said = |(rank, said): (u32, &Said)| match said.own.get(at..) {
            None | Some([]) => Ok(Words::default()),
            Some(mut rest) => Words::take(rank, &mut rest),
        };
        let words = (0..).zip(all).map(said).collect::<Result<_>>()?;
        self.register_with(team, memory, place, words)
    }

    /// The same with the words themselves.
    pub(crate) fn register_with(
        self,
        team: &Team,
        memory: &Arc<SymMemory>,
        place: Place,
        words: Vec<Words>,
    ) -> Result<Registered> {
        let ranks = 0..memory.peers.len() as u32;
        // What the device does not reach has no address here: staged puts need none.
        let address = |rank| match team.topo.reach.reaches(team.rank, rank) {
            true => Ok(memory.reach(&*team.device, rank)?.map(|at| at + place.start)),
            false => Ok(None),
        };
        let addresses = ranks.map(address).collect::<Result<_>>()?;
        // SAFETY: a SymMemory's addresses are mapped until its holder in the window registry goes, behind the windows over it,
        // and `place` lies in it. A Gin that stops forgets all regions.
        let region = unsafe { Region::new(place.number, place.bytes, team.rank, addresses, Box::new(memory.clone())) };
        let Some(mut region) = region else {
            bail!(
                SystemError,
                37,
                "memory cannot be used by GIN | memory {} of {:#x} bytes | this rank's own part is not mapped | fix: report this",
                memory.id,
                memory.bytes
            );
        };
        region.apart = memory.is_apart();
        if let Some(keys) = &self.registered.keys {
            keys.connect(&*team.device, &words)?;
        }
        self.registered.gin.pump.engine()?.register_prepared(self.registered.handle, region.with_words(words))?;
        Ok(self.registered)
    }
}

/// A window that descriptors can name. Dropped: descriptors that still name it abort the communicator, and nothing touches its
/// memory any more.
pub struct Registered {
    handle: u64,
    /// What kernels of GDAKI know it by.
    keys: Option<gdaki::Registration>,
    gin: Arc<Gin>,
}

impl Registered {
    /// The value for `ginWins` of every context.
    pub fn handle(&self) -> u64 {
        self.keys.as_ref().map_or(self.handle, gdaki::Registration::device)
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.gin.deregister(self.handle);
    }
}

/// An offer, its words, and what is offered.
type Kept<'a> = (Offer<'a>, [u64; 2], Arc<dyn Physical>);

/// Memory that this rank passes to the others while they connect.
struct Offers<'a> {
    team: &'a Team,
    kept: Mutex<Vec<Kept<'a>>>,
}

impl Share for Offers<'_> {
    fn offer(&self, memory: &Arc<dyn Physical>) -> Result<[u64; 2]> {
        let offer = Offer::new(self.team, memory)?;
        let words = offer.words(memory);
        self.kept.lock().push((offer, words, memory.clone()));
        Ok(words)
    }

    fn take(&self, rank: u32, offer: [u64; 2]) -> Result<Arc<dyn Physical>> {
        let kept = self.kept.lock();
        if let Some((.., own)) = kept.iter().find(|(_, words, _)| rank == self.team.rank && *words == offer) {
            return Ok(own.clone());
        }
        match self.team.take(rank, offer, |device, fd, bytes| device.import_shared(fd, bytes))? {
            Some(memory) => Ok(memory),
            None => bail!(
                SystemError,
                36,
                "a peer's memory cannot be mapped | rank {} to rank {rank} | it is on another machine | fix: look for an earlier warning",
                self.team.rank
            ),
        }
    }
}

/// This rank's ends of its transports, and what it says of them to the others.
struct Ends {
    signals: Arc<dyn Physical>,
    routes: Routes,
    card: Option<Card>,
    /// On a real card.
    hardware: Option<Hardware>,
    own: Vec<u64>,
}

/// The same with what the others said.
struct Connected {
    routes: Routes,
    signals: Vec<Option<Arc<dyn Physical>>>,
    words: Arc<Vec<Words>>,
}

impl Ends {
    /// One of each kind that this rank sends or receives by.
    fn new(
        team: &Team,
        world: &World,
        lacks: &Lacks,
        offers: &Offers,
        (signals, settings): (Arc<dyn Physical>, &Settings),
        (address, others): (IpAddr, Vec<IpAddr>),
    ) -> Result<Self> {
        let by_peer = world.select(team.rank, lacks)?;
        world.explain(team.rank).iter().for_each(|line| info!(INIT, "GIN {line}"));
        let mut routes = Routes { transports: Vec::new(), by_peer: vec![0; by_peer.len()] };
        let mut connection = Words::default();
        let to_me: Vec<Option<usize>> = (0..team.n_ranks).map(|peer| world.chosen(peer, team.rank)).collect();
        for (at, factory) in LIST.iter().enumerate() {
            let serves: Vec<bool> = by_peer.iter().map(|&chosen| chosen == at).collect();
            let senders = |rank| world.senders(at, rank);
            if !serves.contains(&true) && !to_me.contains(&Some(at)) {
                continue;
            }
            for (route, _) in routes.by_peer.iter_mut().zip(&serves).filter(|(_, serves)| **serves) {
                *route = routes.transports.len() as u8;
            }
            let setup = Setup {
                rank: team.rank,
                device: &team.device,
                serves,
                senders: &senders,
                share: offers,
                secret: team.bootstrap.secret_of("transports"),
                address,
                others: others.clone(),
                has_left: team.watch.has_left(),
            };
            let (transport, words) = factory.prepare(&setup)?;
            connection.say(factory.name(), words);
            routes.transports.push(match settings.chaos {
                Some(seed) => Box::new(Chaos::new(transport, seed, team.rank)) as Box<dyn Transport>,
                None => transport,
            });
        }
        let card = settings.card.clone();
        let hardware = match &card {
            Some(made @ Card { real: Some(Real::Open(card)), .. }) => {
                let shape = settings.shape(team.rank, team.n_ranks);
                Some(Hardware::new(&team.device, card, made, (settings.contexts, shape), &signals)?)
            }
            _ => None,
        };
        connection.say(gdaki::NAME, hardware.as_ref().map_or(Vec::new(), Hardware::words));
        let part = Part { id: SIGNALS, memory: &signals, start: 0, bytes: signals.bytes() as u64 };
        let mut region = Words::default();
        for transport in &mut routes.transports {
            region.say(transport.capabilities().name, transport.prepare(&part)?);
        }
        let own = [offers.offer(&signals)?.to_vec(), connection.encode(), region.encode()].concat();
        Ok(Self { signals, routes, card, hardware, own })
    }

    fn connect(self, team: &Team, heard: &Heard, offers: &Offers) -> Result<(Connected, Option<Card>)> {
        let Self { signals: own, mut routes, mut card, hardware, .. } = self;
        let mut signals = Vec::with_capacity(heard.offers.len());
        for (rank, &offer) in (0..).zip(&heard.offers) {
            let near = team.peers[rank as usize].machine == team.peers[team.rank as usize].machine;
            signals.push(match rank == team.rank {
                true => Some(own.clone()),
                false if near => Some(offers.take(rank, offer)?),
                false => None,
            });
        }
        for transport in &mut routes.transports {
            transport.connect(&*team.device, offers, &heard.connections)?;
        }
        if let (Some(card), Some(mut hardware)) = (&mut card, hardware) {
            hardware.connect(team.rank, &heard.connections)?;
            card.real = Some(Real::Connected(Arc::new(hardware)));
        }
        Ok((Connected { routes, signals, words: heard.regions.clone() }, card))
    }
}

/// What all ranks said of their ends: one copy for those of a process.
struct Heard {
    offers: Vec<[u64; 2]>,
    connections: Arc<Vec<Words>>,
    regions: Arc<Vec<Words>>,
}

impl Heard {
    fn read(all: Vec<Said>) -> Result<Self> {
        let (mut offers, mut connections, mut regions) = (Vec::new(), Vec::new(), Vec::new());
        for (rank, said) in (0..).zip(&all) {
            let Some((&offer, mut rest)) = said.own.split_first_chunk() else {
                bail!(RemoteError, 53, "rank {rank} offered no memory | fix: load the same libginrs on every rank");
            };
            offers.push(offer);
            connections.push(Words::take(rank, &mut rest)?);
            regions.push(Words::take(rank, &mut rest)?);
        }
        Ok(Self { offers, connections: Arc::new(connections), regions: Arc::new(regions) })
    }
}

fn build(team: &Team, settings: Settings, Connected { routes, signals, words }: Connected) -> Result<Arc<Gin>> {
    let shape = settings.shape(team.rank, team.n_ranks);
    info!(
        INIT,
        "GIN {}{}: {} contexts of {} queues x {}, {} signals and {} counters each",
        team.tag(),
        match settings.card.as_ref().map(Card::kind) {
            None => "",
            Some(1) => " by a model of a card (GDAKI)",
            Some(_) => " by a card (GDAKI)",
        },
        settings.contexts,
        team.n_ranks,
        shape.depth,
        settings.signals,
        settings.counters
    );
    if let Some(seed) = settings.chaos {
        info!(INIT, "GIN {}: {}={seed}, a lawful adversary before its transports; no direct contexts", team.tag(), chaos::NAME);
    }
    let parts = Parts {
        device: team.device.clone(),
        rank: team.rank,
        n_contexts: settings.contexts,
        shape,
        signals,
        routes,
        abort: team.abort.clone(),
        card: settings.card,
        salt: team.hash,
    };
    let gin = Gin::with_words(parts, words)?;
    gin.start(&team.device)?;
    let quiet = Arc::downgrade(&gin);
    team.abort.set_quiet(move || quiet.upgrade().is_none_or(|gin| gin.is_quiet()));
    let beside = Arc::downgrade(&gin);
    team.abort.set_beside(move |at| beside.upgrade().map_or(Beside::default(), |gin| gin.beside(at)));
    let sums = Arc::downgrade(&gin);
    team.abort.set_sums(move |may_wait| sums.upgrade()?.sums(may_wait));
    Ok(gin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_of_a_family_that_all_ranks_have() {
        let said = |families: &[u64]| -> Vec<Said> {
            families.iter().map(|families| Said { agreed: Vec::new(), own: vec![0, *families, 7] }).collect()
        };
        let both: Vec<IpAddr> = ["10.0.0.1", "10.1.0.1", "fd00::1"].map(|ip| ip.parse().unwrap()).into();
        let of = |families: &[u64]| reachable(&both, &said(families)).0.to_string();
        assert_eq!([of(&[3, 3]), of(&[3, 1]), of(&[3, 2, 3])], ["10.0.0.1", "10.0.0.1", "fd00::1"]);
        assert_eq!(of(&[1, 3, 2]), "10.0.0.1", "a transport refuses");
        assert_eq!(reachable(&[], &said(&[0, 0])), (Ipv4Addr::LOCALHOST.into(), Vec::new()));
        let twice = [&both[..], &both[..]].concat();
        assert_eq!(reachable(&twice, &said(&[3, 3])).1, both[1..2], "the others of that family, each once");
        assert!(reachable(&both, &said(&[3, 2])).1.is_empty());
    }
}
