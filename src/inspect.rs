//! What `ginrs-info` asks of the library beyond what its modules tell anyway. The library itself calls nothing here.
#![forbid(unsafe_code)]

use crate::bootstrap::{Bootstrap, UniqueId};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::gin::Backend;
use crate::team::{Config, Origin, Team};
use crate::topo::Reach;
use crate::transport::factory::LIST;
use crate::transport::ofi;
use crate::transport::select::{self, Facts, Verdict, World};
use crate::{coll, config, device};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

/// What the calls that need a variable would fail with, for those whose values no table tells.
pub fn refused_settings() -> Vec<Error> {
    let all = [
        // Without a driver it has another number: that is no fault of a variable.
        device::count().err().filter(|error| error.text.contains("GINRS_DEVICE=\"")),
        select::asked().err(),
        Backend::asked().err(),
        Bootstrap::addresses().err(),
        coll::forced().err(),
        config::text("NCCL_COMM_ID").and_then(|_| UniqueId::create().err()),
    ];
    all.into_iter().flatten().collect()
}

/// Where other machines would reach this one.
fn address() -> IpAddr {
    Bootstrap::address_for_others().unwrap_or(Ipv4Addr::LOCALHOST.into())
}

/// Where this process would listen for other machines, and what of libfabric carries from there.
pub fn network() -> Result<(Vec<SocketAddr>, std::result::Result<String, String>)> {
    Ok((Bootstrap::addresses()?, ofi::carrier(Bootstrap::address_for_others()?)))
}

/// Every transport by name, and whether `device` has what it needs.
pub fn transports(device: &dyn Device) -> Vec<(&'static str, std::result::Result<(), String>)> {
    LIST.iter().map(|factory| (factory.name(), factory.here(device, address()).map_err(|why| why.into_owned()))).collect()
}

/// What the transports say of a pair of ranks that both have what this one has.
pub fn verdict_of(device: &dyn Device, same_process: bool, same_machine: bool, reached: bool) -> Verdict {
    let (has, _) = Facts::probe(device, (!same_machine).then(address));
    let rank = |process: bool, machine: bool| Facts { process: [process.into(); 16], machine: machine.into(), has };
    let ranks = [rank(true, true), rank(same_process, same_machine)];
    let row = Reach::row([reached, reached]);
    let reach = Reach::from_rows(&[row.clone(), row]).unwrap_or(Reach::full());
    let world = World { kind: device.kind(), asked: select::asked().unwrap_or(None), reach: &reach, ranks: &ranks };
    let mut verdict = world.verdict(0, 1);
    // Not "rank 0 lacks": there is no rank 0 here.
    for (name, why) in &mut verdict.refused {
        if let Some(Err(lacks)) = transports(device).into_iter().find(|(other, _)| other == name).map(|(_, here)| here) {
            *why = lacks.into();
        }
    }
    verdict
}

/// The ranks of a job that have met.
pub struct Job {
    /// They.
    pub team: Team,
    asked: Option<usize>,
    facts: Vec<Facts>,
}

impl Job {
    /// Collective: the ranks meet as a communicator's do, and tell each other what their transports have.
    pub fn meet(id: &UniqueId, rank: u32, n_ranks: u32, device: Arc<dyn Device>) -> Result<Self> {
        let bootstrap = Bootstrap::join(id, rank, n_ranks)?;
        let team = Team::meet(bootstrap, Origin { rank, n_ranks }, Config::default().with_environment(), device)?;
        let (has, _) = Facts::probe(&*team.device, Some(address()));
        let has = team.bootstrap.allgather("transports", &has.to_le_bytes())?;
        let facts = team.peers.iter().zip(has.iter()).map(|(peer, has)| Facts {
            process: peer.process,
            machine: peer.machine,
            has: has[..].try_into().map_or(0, u64::from_le_bytes),
        });
        Ok(Self { facts: facts.collect(), asked: select::asked()?, team })
    }

    /// What the transports say of the way from one rank to another.
    pub fn verdict(&self, from: u32, to: u32) -> Verdict {
        let reach = &self.team.topo.reach;
        World { kind: self.team.device.kind(), asked: self.asked, reach, ranks: &self.facts }.verdict(from, to)
    }

    /// Every rank's `text`, by rank; collective.
    pub fn gather(&self, text: &str) -> Result<Vec<String>> {
        let all = self.team.bootstrap.allgather("report", text.as_bytes())?;
        Ok(all.iter().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).collect())
    }
}
