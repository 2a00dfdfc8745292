//! The thread "ginrs pulse": looks whether a device still works. A kernel that fails (illegal address, assert, trap) takes its
//! device's context along: nothing of this rank moves any more, but its process lives on, and its peers would wait for ever.
//!
//! One thread per GPU, since a driver call can wait for a lock; one for all CPU devices.
#![forbid(unsafe_code)]

use super::signs::{Signs, Words};
use crate::abort::Abort;
use crate::bootstrap::service_is_intact;
use crate::device::{Device, Kind};
use crate::error::{Code, Error, Result};
use crate::log;
use crate::process::{self, service_thread};
use crate::sync::{Mutex, PerProcess};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Between two looks. A look costs about a microsecond.
const PERIOD: Duration = Duration::from_millis(20);

/// One communicator's interest in its device.
#[derive(Clone)]
struct Subscriber {
    id: u64,
    device: Arc<dyn Device>,
    abort: Weak<Abort>,
    rank: u32,
    tag: String,
    looks: Option<Looks>,
}

/// What else a communicator wants looked at while its device works.
#[derive(Clone)]
pub struct Looks {
    /// Where what its words show goes.
    pub signs: Arc<Signs>,
    /// The words that its kernels wait on.
    pub words: Arc<dyn Words>,
    /// Notes which launches have ended.
    pub launches: Arc<dyn Fn(&Abort) + Send + Sync>,
}

type Subscribers = Arc<Mutex<Vec<Subscriber>>>;
/// -1 for the CPU devices.
type Key = i32;

fn all() -> &'static Mutex<HashMap<Key, Subscribers>> {
    static ALL: PerProcess<Mutex<HashMap<Key, Subscribers>>> = PerProcess::new();
    ALL.get(Mutex::default)
}

/// While it lives, the failure of a kernel of the device raises the communicator's abort.
pub struct Pulse {
    key: Key,
    id: u64,
    owner: u32,
}

impl Pulse {
    /// `tag` names the communicator in the message.
    pub fn watch(device: &Arc<dyn Device>, abort: &Arc<Abort>, rank: u32, tag: String, looks: Option<Looks>) -> Result<Self> {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let key = if device.kind() == Kind::Cpu { -1 } else { device.ordinal() };
        let id = LAST.fetch_add(1, Ordering::Relaxed);
        let subscriber = Subscriber { id, device: device.clone(), abort: Arc::downgrade(abort), rank, tag, looks };
        let mut all = all().lock();
        match all.get(&key) {
            Some(subscribers) => subscribers.lock().push(subscriber),
            None => {
                let subscribers: Subscribers = Arc::new(Mutex::new(vec![subscriber]));
                let rounds = subscribers.clone();
                // A panic in it ends the looks, and has been told.
                service_thread("ginrs pulse", move || run(key, &rounds), |_| ())?;
                all.insert(key, subscribers);
            }
        }
        Ok(Self { key, id, owner: std::process::id() })
    }
}

impl Drop for Pulse {
    fn drop(&mut self) {
        if self.owner != std::process::id() {
            return;
        }
        let gone = all().lock().get(&self.key).and_then(|subscribers| {
            let mut subscribers = subscribers.lock();
            subscribers.iter().position(|subscriber| subscriber.id == self.id).map(|at| subscribers.swap_remove(at))
        });
        // Outside the locks: the last owner of a device may be here.
        drop(gone);
    }
}

fn run(key: Key, subscribers: &Subscribers) {
    log::set_device(key.max(0));
    loop {
        std::thread::sleep(PERIOD);
        let subscribers = {
            let mut all = all().lock();
            let subscribers = subscribers.lock();
            if subscribers.is_empty() {
                all.remove(&key);
                return;
            }
            subscribers.clone()
        };
        for Subscriber { device, abort, rank, tag, looks, .. } in subscribers {
            let Some(abort) = abort.upgrade().filter(|abort| !abort.is_raised()) else { continue };
            let Some(_at_work) = process::at_work() else { return };
            if let Err(error) = device.health() {
                if !service_is_intact() {
                    // The driver's were closed with ours.
                    abort.raise(process::descriptors_lost().by(rank));
                    continue;
                }
                let said = error.text.split(" | fix:").next().unwrap_or_default();
                let text = format!(
                    "a kernel of rank {rank} failed | {tag}, device {}, pid {} | {} | fix: run that rank under compute-sanitizer, or \
                     look for its assert and trap messages",
                    device.ordinal(),
                    std::process::id(),
                    said
                );
                abort.raise(Error::new(Code::UnhandledCudaError, 84, text).by(rank));
                continue;
            }
            if let Some(Looks { signs, words, launches }) = looks {
                launches(&abort);
                signs.look(&*device, &abort, &*words);
            }
        }
    }
}
