//! What is looked at of a real card beside its queues' own business: what it says by itself, and completions that no visit sees.
#![forbid(unsafe_code)]

use super::hardware::Hardware;
use super::rings::Failed;
use super::survey::{Found, Survey};
use crate::error::{Code, Error, Result};
use crate::gin::carry::{Carrier, tag};
use crate::gin::plan::Fault;
use crate::verbs::Event;
use crate::{info, warn};
use rustix::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Between two looks.
const PERIOD: Duration = Duration::from_millis(100);
/// So long the reason of a failure is looked for in a GPU's memory, before what the card itself says has to do.
const PATIENCE: Duration = Duration::from_millis(200);

/// Of one rank and communicator.
pub struct Watch {
    hardware: Arc<Hardware>,
    /// Where completions are in a GPU's memory.
    survey: Option<Survey>,
    looked: Instant,
    /// Its queues have been told to end.
    ended: bool,
}

impl Watch {
    /// Of what stands on that card.
    pub fn new(hardware: Arc<Hardware>) -> Result<Self> {
        let survey = hardware.is_apart().then(|| Survey::start(&hardware)).transpose()?;
        Ok(Self { hardware, survey, looked: Instant::now(), ended: false })
    }

    /// What the card says makes these readable.
    pub fn descriptors(&self) -> [BorrowedFd<'_>; 3] {
        self.hardware.card().descriptors()
    }

    /// A step's part: looks once in a while, and ends the queues of a communicator that was aborted.
    pub(in crate::gin) fn step(&mut self, carrier: &mut Carrier) {
        if carrier.stopped {
            self.end();
        }
        if self.looked.elapsed() >= PERIOD {
            self.looked = Instant::now();
            self.listen(carrier);
            match &self.survey {
                Some(survey) => survey.found().into_iter().for_each(|found| self.tell(found, carrier)),
                None => self.survey(carrier, |_| true),
            }
        }
    }

    /// The communicator was aborted: its queues do nothing more.
    pub(in crate::gin) fn end(&mut self) {
        if !self.ended {
            self.ended = true;
            self.hardware.end_all();
        }
    }

    /// Hears what the card has said. True if there was something.
    pub(in crate::gin) fn listen(&self, carrier: &mut Carrier) -> bool {
        let mut heard = false;
        while let Some(event) = self.hardware.card().event() {
            heard = true;
            self.hear(event, carrier);
        }
        heard
    }

    fn tell(&self, found: Found, carrier: &mut Carrier) {
        carrier.stop(match found {
            Ok((row, peer, failed)) => failure(carrier, row, peer, (self.hardware.row(row as usize).numbers(peer).0, failed)),
            Err(error) => error,
        });
    }

    /// Looks at all completions that the host reaches for a failure that counts.
    fn survey(&self, carrier: &mut Carrier, counts: impl Fn(&Failed) -> bool) {
        if carrier.stopped {
            return;
        }
        let found = self.hardware.survey().map(|found| found.filter(|(_, _, failed)| counts(failed)));
        found.transpose().into_iter().for_each(|found| self.tell(found, carrier));
    }

    #[cold]
    fn hear(&self, event: Event, carrier: &mut Carrier) {
        let name = self.hardware.card().name();
        match event {
            Event::Queue(whose, number, words) => {
                // Of a queue that has gone.
                let Some((row, peer)) = self.hardware.find(whose) else { return };
                // An element that says why says more than this.
                match &self.survey {
                    Some(survey) => {
                        let found = survey.now(PATIENCE).filter(|found| found.as_ref().is_ok_and(|found| found.2.says_why()));
                        found.into_iter().for_each(|found| self.tell(found, carrier));
                    }
                    None => self.survey(carrier, Failed::says_why),
                }
                if carrier.stopped {
                    return;
                }
                let (queue, state) = self.hardware.row(row as usize).state(peer);
                let whose = format!("rank {}, {} to rank {peer}", carrier.rank, carrier.name(row));
                carrier.stop(Error::new(
                    Code::RemoteError,
                    51,
                    format!(
                        "a card tells of a failure | {whose}, queue pair {queue:#x} | {words} (event {number:#x}), {state} | fix: look at what the \
                         kernels name, at the peer, and at dmesg"
                    ),
                ));
            }
            Event::Port { number, up: true } => info!(NET, "port {number} of {name} is up"),
            Event::Port { number, up: false } if !self.hardware.card().is_port(number) => {
                info!(NET, "port {number} of {name}, which is not used, is down");
            }
            Event::Port { number, up: false } => {
                warn!(
                    "GINRS-E116 a card's port is down | rank {}, port {number} of {name} | what is under way is tried again for a while | fix: \
                     look at the cable and the switch",
                    carrier.rank
                );
            }
            Event::Device => carrier.stop(Error::new(
                Code::SystemError,
                51,
                format!("a card works no more | rank {}, {name} | fix: look at dmesg for mlx5 lines, and reset it", carrier.rank),
            )),
            Event::Other(number) => info!(NET, "{name} tells of event {number} of verbs"),
        }
    }
}

/// Element of the context in row `index` towards `peer`, on the queue pair with that number.
pub(super) fn failure(carrier: &Carrier, index: u32, peer: u32, (queue, Failed { at, ended }): (u32, Failed)) -> Error {
    let fault = Fault::Card { opcode: ended.opcode, syndrome: ended.syndrome.unwrap_or_default() };
    fault.error(&format!("{}, queue pair {queue:#x}", carrier.whose(tag(index, peer, at))))
}
