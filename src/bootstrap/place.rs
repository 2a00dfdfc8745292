//! Where a rank of this process stands: in which exchange, or what it does between them.
#![forbid(unsafe_code)]

use super::wire::{MAX_WHAT, Standing};
use crate::sync::{Mutex, OnceCell};

type OnStep = Box<dyn Fn(&str) + Send + Sync>;

/// One rank's.
pub struct Place {
    rank: u32,
    now: Mutex<Now>,
    /// Hears what the rank does now; called under the lock, so one at a time.
    on_step: OnceCell<OnStep>,
}

#[derive(Default)]
struct Now {
    seq: u32,
    inside: bool,
    what: String,
    step: String,
    /// Of a kernel, in words.
    kernel_wait: Option<String>,
}

impl Place {
    /// In no exchange yet.
    pub fn new(rank: u32) -> Self {
        Self { rank, now: Mutex::default(), on_step: OnceCell::new() }
    }

    /// The rank enters an exchange.
    pub fn enter(&self, seq: u32, what: &str) {
        let mut now = self.now.lock();
        (now.seq, now.inside) = (seq, true);
        now.what = what[..what.floor_char_boundary(MAX_WHAT)].to_owned();
        self.step_is(&now.what);
    }

    /// The rank is done with it.
    pub fn leave(&self) {
        let mut now = self.now.lock();
        now.inside = false;
        self.step_is(&now.step);
    }

    /// What the rank does between exchanges.
    pub fn set_step(&self, step: &str) {
        let mut now = self.now.lock();
        now.step = step[..step.floor_char_boundary(MAX_WHAT)].to_owned();
        self.step_is(&now.step);
    }

    /// What a kernel of the rank has waited for a while, for those who ask.
    pub fn set_kernel_wait(&self, wait: Option<String>) {
        self.now.lock().kernel_wait = wait;
    }

    /// Hears from now on what the rank does. The first hearer stays.
    pub fn on_step(&self, hears: impl Fn(&str) + Send + Sync + 'static) {
        self.on_step.get_or_init(|| Box::new(hears));
    }

    fn step_is(&self, step: &str) {
        if let Some(hears) = self.on_step.get() {
            hears(step);
        }
    }

    /// For those who ask.
    pub fn standing(&self) -> Standing {
        let now = self.now.lock();
        let between = now.kernel_wait.as_ref().filter(|_| now.step.is_empty()).unwrap_or(&now.step);
        let what = if now.inside { &now.what } else { between };
        Standing { rank: self.rank, seq: now.seq, inside: now.inside, what: what.clone() }
    }
}
