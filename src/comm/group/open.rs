//! The calling thread's open group: what ncclGroupStart begins, calls fill and ncclGroupEnd takes.

use super::Job;
use crate::error::Code;
use crate::sync::pid;
use std::any::Any;
use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::sync::{Arc, Weak};

/// What a group's calls have left for its end.
pub struct Group {
    depth: u32,
    owner: u32,
    /// In call order.
    pub jobs: Vec<Job>,
    /// Of the latest call in the group that failed.
    pub failed: Option<Code>,
    /// What its calls share, by key. Its jobs own it.
    shared: Vec<(usize, Weak<dyn Any + Send + Sync>)>,
}

impl Group {
    fn new() -> Box<Self> {
        Box::new(Self { depth: 0, owner: pid(), jobs: Vec::new(), failed: None, shared: Vec::new() })
    }
}

thread_local! {
    // Without a destructor: destructors of static objects and of other thread-local ones call the library, too.
    static GROUP: Cell<Option<ManuallyDrop<Box<Group>>>> = const { Cell::new(None) };
    static ENDED: Ended = const { Ended };
}

/// Drops what a thread leaves open at its end. The main thread's end is the process's: a static object may still close its group.
struct Ended;

impl Drop for Ended {
    fn drop(&mut self) {
        if rustix::thread::gettid() != rustix::process::getpid() {
            with(Option::take);
        }
    }
}

/// The calling thread's open group. One that was open at fork() is the parent's: what its calls hold is left alone.
fn with<T>(work: impl FnOnce(&mut Option<Box<Group>>) -> T) -> T {
    let group = GROUP.take().filter(|group| group.owner == pid());
    let mut group = group.map(ManuallyDrop::into_inner);
    let result = work(&mut group);
    GROUP.set(group.map(ManuallyDrop::new));
    result
}

/// ncclGroupStart.
pub fn start() {
    // Gone already at the end of a thread: nothing is left to sweep then.
    let _ = ENDED.try_with(|_| ());
    with(|group| group.get_or_insert_with(Group::new).depth += 1);
}

/// True inside a group of the calling thread.
pub fn open() -> bool {
    with(|group| group.is_some())
}

/// What a call of this group has shared as `key`.
pub fn shared<T: Any + Send + Sync>(key: usize) -> Option<Arc<T>> {
    let known = with(|group| {
        let all = &group.as_ref()?.shared;
        all.iter().find(|(other, _)| *other == key).and_then(|(_, shared)| shared.upgrade())
    })?;
    known.downcast().ok()
}

/// The calls behind this one of the same group find `what`, as long as somebody owns it. Outside a group: nothing.
pub fn share<T: Any + Send + Sync>(key: usize, what: &Arc<T>) {
    let what: Arc<dyn Any + Send + Sync> = what.clone();
    with(|group| {
        if let Some(group) = group {
            group.shared.retain(|(other, shared)| *other != key && shared.strong_count() > 0);
            group.shared.push((key, Arc::downgrade(&what)));
        }
    });
}

/// A call inside the group failed: the outermost end will say so and run nothing. Outside a group: nothing.
pub fn note(code: Code) {
    with(|group| match group {
        Some(group) if code != Code::InProgress => group.failed = Some(code),
        _ => {}
    });
}

/// Takes the job into the open group; gives it back where there is none.
pub fn put_off(job: Job) -> Option<Job> {
    with(|group| match group {
        Some(group) => {
            group.jobs.push(job);
            None
        }
        None => Some(job),
    })
}

/// What an end closes.
pub enum Left {
    /// There is no group.
    None,
    /// One within another.
    Inner,
    /// The outermost: its calls run now.
    Outermost(Box<Group>),
}

/// Closes the innermost group of the calling thread.
pub fn leave() -> Left {
    with(|group| match group {
        Some(group) if group.depth > 1 => {
            group.depth -= 1;
            Left::Inner
        }
        _ => group.take().map_or(Left::None, Left::Outermost),
    })
}

#[cfg(test)]
mod tests {
    use super::super::Stage;
    use super::*;

    #[test]
    fn what_calls_share_is_of_their_group_and_lives_with_its_owner() {
        let (one, two) = (Arc::new(1u32), Arc::new(2u32));
        share(7, &one);
        assert_eq!(shared::<u32>(7), None, "outside a group");
        start();
        share(7, &one);
        start();
        share(8, &two);
        assert_eq!(
            (shared::<u32>(7), shared::<u32>(8), shared::<u32>(9)),
            (Some(one), Some(two.clone()), None),
            "nested: the same group"
        );
        close();
        assert_eq!((shared::<u32>(7), shared::<u64>(8)), (None, None), "its owner has gone; another type");
        close();
        start();
        assert_eq!(shared::<u32>(8), None);
        close();
    }

    fn close() {
        assert!(!matches!(leave(), Left::None));
    }

    /// What a thread leaves open goes with it; at that end, too, groups open and close.
    #[test]
    fn a_group_that_a_thread_leaves_open_goes_with_it() {
        struct Late;
        impl Drop for Late {
            fn drop(&mut self) {
                start();
                assert!(open());
                close();
            }
        }
        thread_local!(static LATE: Late = const { Late });
        let owned = Arc::new(());
        let queued = Arc::downgrade(&owned);
        std::thread::spawn(move || {
            LATE.with(|_| ()); // before the group's own: it goes behind it
            start();
            let run = Box::new(move |told| {
                drop(owned);
                told
            });
            let stage = Stage::Window;
            assert!(put_off(Job { stage, clique: 1, line: 1, blocking: true, device: 0, progress: None, run }).is_none());
        })
        .join()
        .unwrap();
        assert_eq!(queued.strong_count(), 0);
    }
}
