//! What settings say of the card: modelled, or a real one.

use super::hardware::{self, Hardware};
use super::queues::Handler;
use crate::bail;
use crate::config;
use crate::error::Result;
use crate::nic::completion::Syndrome;
use crate::nic::element::Element;
use crate::nic::fault::{FORM, Rule};
use crate::verbs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A card, as one rank of a communicator has it.
#[derive(Clone)]
pub struct Card {
    /// Who rings; None: nobody has said.
    pub handler: Option<Handler>,
    /// The model's rings and completion queues are in the device's memory; else in the host's.
    pub apart: bool,
    /// What it is made to fail at.
    pub fault: Option<Arc<Fault>>,
    /// A real one; None: the model.
    pub real: Option<Real>,
    /// The communicator's, by which keys of the model's tables are told apart.
    pub salt: u64,
}

/// A real card, before and after it was connected with those of the peers.
#[derive(Clone)]
pub enum Real {
    /// Open.
    Open(Arc<verbs::Card>),
    /// With this rank's queues on it.
    Connected(Arc<Hardware>),
}

impl Card {
    /// The model, for tests.
    pub fn model(handler: Handler, apart: bool) -> Self {
        Self { handler: Some(handler), apart, fault: None, real: None, salt: 0 }
    }

    /// This rank's queues on a real one.
    pub fn hardware(&self) -> Option<&Arc<Hardware>> {
        match &self.real {
            Some(Real::Connected(hardware)) => Some(hardware),
            _ => None,
        }
    }

    /// What all ranks must have alike: 1 the model, 2 a real card.
    pub fn kind(&self) -> u32 {
        1 + u32::from(self.real.is_some())
    }

    /// As the settings have it.
    pub fn asked() -> Result<Self> {
        let handler = match config::int("NCCL_GIN_GDAKI_NIC_HANDLER") {
            1 => Some(Handler::Cpu),
            2 => Some(Handler::Kernel),
            3 => bail!(
                InvalidUsage,
                30,
                "no such doorbell | NCCL_GIN_GDAKI_NIC_HANDLER is 3 (BlueFlame), which queues with companions cannot have | fix: 0, 1 or 2"
            ),
            _ => None,
        };
        let rule = match config::text("GINRS_NIC_FAULT").map(|text| Rule::parse(&text)).transpose() {
            Ok(rule) => rule,
            Err(why) => bail!(InvalidUsage, 113, "no fault of a card | GINRS_NIC_FAULT: {why} | fix: {FORM}"),
        };
        // Unverified: so it is taken where it is asked for by name, and never because there is one.
        let named = config::text("GINRS_NIC").filter(|name| !name.eq_ignore_ascii_case("model"));
        if named.is_some() && rule.is_some() {
            bail!(
                InvalidUsage,
                113,
                "no fault of a card | GINRS_NIC_FAULT is for the model, and GINRS_NIC names a real one | fix: unset one of them"
            );
        }
        let real = named.map(|name| hardware::open(&name)).transpose()?.map(Real::Open);
        let apart = config::text("GINRS_NIC_RINGS").is_some_and(|place| place.eq_ignore_ascii_case("gpu"));
        let fault = rule.map(|rule| Arc::new(Fault { rule, seen: AtomicU64::new(0) }));
        Ok(Self { handler, apart, fault, real, salt: 0 })
    }
}

/// A rule, and how many of a rank's elements it has matched.
pub struct Fault {
    rule: Rule,
    seen: AtomicU64,
}

impl Fault {
    /// How this element fails, if it does. The proxy asks for each once.
    pub fn hits(&self, element: &Element, rank: u32, place: (u32, u32)) -> Option<Syndrome> {
        self.rule.hits(element, rank, place, || self.seen.fetch_add(1, Ordering::Relaxed) + 1)
    }
}
