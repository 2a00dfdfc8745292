//! What of GIN the environment decides: most of it must be alike on all ranks.
#![forbid(unsafe_code)]

use super::Backend;
use super::context::{self, Shape};
use super::gdaki::{self, Card};
use crate::device::Device;
use crate::error::Result;
use crate::seq::Seq;
use crate::transport::chaos;
use crate::{bail, config, info};

/// What every rank must have alike.
pub(super) struct Settings {
    pub contexts: u32,
    pub signals: u32,
    pub counters: u32,
    /// Where contexts are GDAKI's: of all of a communicator, or of none.
    pub card: Option<Card>,
    /// The seed of GINRS_CHAOS.
    pub chaos: Option<u64>,
}

impl Settings {
    /// For messages.
    pub const NAMES: [&str; 6] = [
        "NCCL_GIN_NCONTEXTS",
        "NCCL_GIN_SIGNAL_POOL_SIZE",
        "NCCL_GIN_COUNTER_POOL_SIZE",
        "NCCL_GIN_BACKEND or NCCL_GIN_TYPE: GDAKI, and GINRS_NIC",
        "GINRS_CHAOS, whether it is set",
        chaos::NAME,
    ];

    /// Of this process, for ranks on `device`.
    pub fn read(device: &dyn Device) -> Result<Self> {
        let gdaki = Backend::asked()? == Some(Backend::Gdaki);
        let card = gdaki.then(Card::asked).transpose()?;
        let chaos = chaos::asked_of(device)?;
        if chaos.is_some() && card.as_ref().is_some_and(|card| card.real.is_some()) {
            bail!(
                InvalidUsage,
                chaos::WRONG,
                "{} cannot be on a real card | GINRS_NIC names one, which carries puts by itself | fix: unset one of them",
                chaos::NAME
            );
        }
        Ok(Self {
            // In the ranges of the table of settings: at most 4 contexts, the places of ginTypes and ginHandles; ids have 16 bits.
            contexts: config::int(Self::NAMES[0]) as u32,
            signals: config::int(Self::NAMES[1]) as u32,
            counters: config::int(Self::NAMES[2]) as u32,
            card,
            chaos,
        })
    }

    /// The values of [`Self::NAMES`].
    pub fn agreed(&self) -> [u64; 6] {
        let Settings { contexts, signals, counters, card, chaos } = self;
        let [contexts, signals, counters, card] =
            [*contexts, *signals, *counters, card.as_ref().map_or(0, Card::kind)].map(u64::from);
        [contexts, signals, counters, card, chaos.is_some().into(), chaos.unwrap_or(0)]
    }

    /// Of each context of rank `rank`.
    pub fn shape(&self, rank: u32, n_ranks: u32) -> Shape {
        let depth = match self.card {
            None => depth((rank, n_ranks), self.contexts, self.chaos),
            Some(_) => gdaki::depth(config::int("NCCL_GIN_GDAKI_QP_DEPTH")),
        };
        Shape { n_ranks, depth, signals: self.signals, counters: self.counters, start: Seq(0) }
    }
}

/// The backend that NCCL_GIN_TYPE asks for, by NCCL's numbers; None for -1.
pub fn asked_type() -> Result<Option<Backend>> {
    match config::int("NCCL_GIN_TYPE") {
        -1 => Ok(None),
        2 => Ok(Some(Backend::Proxy)),
        3 => Ok(Some(Backend::Gdaki)),
        kind => {
            bail!(InternalError, 30, "no such GIN type | NCCL_GIN_TYPE is {kind} | fix: unset it, or -1, 2 (proxy) or 3 (GDAKI)")
        }
    }
}

/// Queue depth: each rank's own choice.
fn depth((rank, n_ranks): (u32, u32), contexts: u32, chaos: Option<u64>) -> u32 {
    const NAME: &str = "NCCL_GIN_PROXY_QUEUE_SIZE";
    let wanted = match (config::int(NAME), chaos) {
        (-1, Some(seed)) => chaos::depth(seed, rank, context::depth(n_ranks, contexts, -1).unwrap_or(1)).into(),
        (wanted, _) => wanted,
    };
    context::depth(n_ranks, contexts, wanted).unwrap_or_else(|default| {
        info!(INIT, "{NAME} {wanted} is not used: not a power of two from 1 to 256; using {default}");
        default
    })
}
