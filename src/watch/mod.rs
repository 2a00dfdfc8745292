//! Who still lives: a peer that dies or aborts raises this rank's abort, with the peer named.
//!
//! Two sources: a pidfd per peer process, and a status page per rank (its last words, in sealed memory that survives it). A
//! process that ends is looked up on its page: leaving is no failure, an abort is passed on with its cause, anything else is a
//! death. Aborts do not wait for a death: they travel over the bootstrap's links at once.
//!
//! ```text
//! thread   sleeps on the pidfds, and looks around four times a second
//! group    one communicator in this process; page is what its ranks say of themselves
//! far      its ranks on other machines; beats tell that these are there, machines is who is on which
//! stops    processes that stand still
//! spells   which times of silence are worth a line
//! left     kernels that wait for ranks that have left, as judge sees them; calls is what ranks have called, signs what can be seen of kernels
//!          from outside, waits tells of waits that last
//! hang     kernels of all ranks that wait in vain; still is whether a process can go on, told are waits in words,
//!          counts what ranks have raised of each other's signals
//! asked    who asks from another terminal what is waited for
//! pulse    devices that fail
//! ```

mod asked;
mod beats;
mod calls;
mod counts;
mod far;
mod group;
mod hang;
mod judge;
mod left;
mod machines;
mod page;
mod pulse;
mod shown;
mod signs;
mod spells;
mod still;
mod stops;
mod thread;
mod told;
mod waits;

pub use calls::Calls;
pub use left::kernels_leave_notes;
pub use pulse::{Looks, Pulse};
pub use shown::CallWords;
pub use signs::{Signs, Words};

/// True once a process is ending, as far as can be seen from here.
pub type HasEnded = Box<dyn FnMut() -> bool + Send>;

use crate::abort::Abort;
use crate::bootstrap::{Bootstrap, StepSetter};
use crate::error::{Error, Result};
use group::{Group, PAGE_KEY};
pub use page::GONE;
use page::{Membership, Page};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use thread::{Event, Watcher};

/// Watches the peers of one rank; they come from the bootstrap's table. Drop stops watching; to the peers it means leaving.
pub struct Watch {
    group: Arc<Group>,
    page: Arc<Page>,
    steps: StepSetter,
    signs: Arc<Signs>,
    calls: Arc<Calls>,
    rank: u32,
    owner: u32,
}

impl Watch {
    /// Collective. From now on a peer process that ends without leaving, and a peer that aborts, raise `abort` here (RemoteError, with
    /// the culprit), and `abort` raised here is told to all peers. `machine` is equal on ranks of one machine. Those on others have neither
    /// a pidfd nor a page here: frames on links tell of them, and beats.
    pub fn start(bootstrap: &Bootstrap, abort: &Arc<Abort>, machine: u64) -> Result<Watch> {
        let watcher = Watcher::get()?;
        let (page, fd) = Page::create()?;
        let (page, rank, group) = (Arc::new(page), bootstrap.rank(), Group::of(bootstrap, watcher));
        let (signs, calls) = (Arc::new(Signs::default()), Arc::new(Calls::default()));
        group.enter(rank, page.clone(), abort, signs.clone(), calls.clone());
        let (weak, last_words, owner) = (Arc::downgrade(&group), page.clone(), std::process::id());
        let (told, shown) = (weak.clone(), page.clone());
        abort.set_teller(move |cause| {
            // A forked child has the parent's links.
            if std::process::id() == owner {
                shown.aborted(cause);
                told.upgrade().inspect(|group| group.tell_of(rank, cause));
            }
        });
        // It may have been raised before.
        abort.on_raise(move |cause| {
            last_words.aborted(cause);
            watcher.tell(Event::Raised { group: weak, rank, cause: cause.clone() });
        });
        let (steps, shown) = (bootstrap.step_setter(), page.clone());
        steps.on_step(move |step| shown.set_step(step));
        let watch = Watch { group, page, steps, signs, calls, rank, owner };
        bootstrap.publish(PAGE_KEY, fd);
        let started = (|| {
            let said = bootstrap.allgather("watch start", &machines::say(machine))?;
            watch.group.watch_all(bootstrap, &said)?;
            bootstrap.barrier("watch ready")
        })();
        if let Err(error) = &started {
            // Before the page goes: who is about to ask for it hears of this instead.
            bootstrap.poison(error);
        }
        bootstrap.withdraw(PAGE_KEY);
        started?;
        watch.page.alive();
        Ok(watch)
    }

    /// Where the pulse leaves what it sees of this rank's kernels.
    pub fn signs(&self) -> Arc<Signs> {
        self.signs.clone()
    }

    /// Where collectives and messages of this rank are counted.
    pub fn calls(&self) -> &Calls {
        &self.calls
    }

    /// Shows the collective of this number, and looks at the ranks beside this one on its machine: which one has shown another in its place, and what. So
    /// where all pairs agree, all ranks do.
    pub fn show_call(&self, number: u64, words: CallWords) -> Option<(u32, CallWords)> {
        self.page.shown().show(number, words);
        // Of two that call at once one at least sees the other's.
        fence(Ordering::SeqCst);
        self.group.beside(self.rank).into_iter().flatten().find_map(|(rank, page)| {
            let theirs = page.shown().find(number)?;
            (theirs != words).then_some((rank, theirs))
        })
    }

    /// To ask whether a rank has said that its end is no failure; it keeps nothing of the communicator.
    pub fn has_left(&self) -> Arc<dyn Fn(u32) -> bool + Send + Sync> {
        let group = Arc::downgrade(&self.group);
        Arc::new(move |rank| group.upgrade().is_some_and(|group| group.says_leaving(rank)))
    }

    /// What this rank does now, for the messages of others; at most 64 bytes.
    pub fn set_step(&self, step: &str) {
        self.steps.set(step);
    }

    /// What `rank` does now, as it says itself; None where its page cannot be read, and where it is on another machine and has not
    /// answered of late.
    pub fn step_of(&self, rank: u32) -> Option<String> {
        self.group.step_of(rank)
    }

    /// Asks the processes that this one is linked with for the steps of their ranks. The answers come by and by.
    pub fn ask_for_steps(&self) {
        if self.group.far().is_some() {
            self.group.port.ask_linked();
        }
    }

    /// This rank is about to abort, and nothing is under way on it.
    pub fn quiescent(&self) {
        self.page.quiescent();
        self.group.port.note_quiescent(self.rank);
    }

    /// To ask of a failure: where nothing was under way on the rank that caused it, what tells whether its process ends.
    pub fn quiescent_process(&self) -> impl Fn(&Error) -> Option<HasEnded> + Send + 'static {
        let group = Arc::downgrade(&self.group);
        move |cause| group.upgrade()?.quiescent_process(cause.culprit?)
    }

    /// This rank has taken away the window of this number.
    pub fn window_gone(&self, number: u64) {
        self.page.set_gone(number);
    }

    /// Where each rank says that it has, for kernels; 0: it is on another machine. As long as this stands.
    pub fn gone_windows(&self, n_ranks: u32) -> Vec<u64> {
        let pages = self.group.pages_here();
        (0..n_ranks).map(|rank| pages.get(&rank).map_or(0, |page| page.gone())).collect()
    }

    /// From now on this rank's end is no failure, unless it has failed already.
    pub fn leaving(&self) {
        self.group.show_sums(Some(self.rank));
        self.page.set_called(&self.calls.said());
        let is_first = self.page.leaving();
        match self.page.membership() {
            // The watch thread may not have come to it, and after this there is nobody left whom it could ask.
            Membership::Aborted(cause) => self.group.tell_of(self.rank, &cause),
            _ => {
                self.group.say_leaving(self.rank, &self.calls.said());
                // Whoever comes second sees the first.
                fence(Ordering::SeqCst);
                if is_first {
                    self.group.tell_unreceived(self.rank);
                }
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if self.owner != std::process::id() {
            // A forked child must not touch the parent's locks, nor its page, which is shared memory.
            std::mem::forget(self.group.clone());
            return;
        }
        self.leaving();
        self.page.over();
        self.group.exit(self.rank);
    }
}
