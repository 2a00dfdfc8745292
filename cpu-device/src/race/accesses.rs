//! Plain accesses of a block's threads: which of them are looked at, and what is told of them.

use std::sync::Arc;

use super::report::{self, Place};
use super::shadow::{self, Access, PAGE, Page};
use super::windows::flat;
use super::{Worker, foreign, job, lines, own, page_of, sides, windows};

/// Pages that an OS thread has used lately.
pub const CACHED: usize = 512;
/// Lines of code that an OS thread has told other processes of lately.
pub const SITES: usize = 64;

/// A page by its number; nothing: not watched.
pub struct Cached {
    key: usize,
    page: Option<Arc<Page>>,
    /// Of shared memory.
    is_own: bool,
    /// Of a host thread's stack.
    is_hosts: bool,
    /// Of memory that processes share.
    is_shared: bool,
}

impl Worker {
    pub(super) fn access(&mut self, at: usize, bytes: usize, [writes, polls]: [bool; 2], place: u64) {
        if (self.stack.0..self.stack.1).contains(&at) {
            return;
        }
        self.catch_up(self.current);
        let generation = windows::generation();
        if generation != self.generation {
            self.cache.fill_with(|| None);
            self.generation = generation;
        }
        for (at, bytes) in shadow::pieces(at, bytes) {
            let key = at / PAGE;
            let slot = (key ^ key >> 9) % CACHED;
            if self.cache[slot].as_ref().is_none_or(|cached| cached.key != key) {
                self.cache[slot] = Some(self.page(key));
            }
            if self.cache[slot].as_ref().is_some_and(|cached| cached.is_hosts && !polls) && crate::memory::find(at).is_none() {
                report::wrong_side(place, report::Side::Kernel { writes, at, group: self.group, thread: self.current });
                continue;
            }
            if self.cache[slot].as_ref().is_some_and(|cached| cached.is_shared) {
                self.tell();
                self.tell_site(place);
            }
            let Some(Cached { page: Some(page), is_own, .. }) = &self.cache[slot] else { continue };
            // No put lands in shared memory.
            if *is_own && (polls || !self.is_shared(at)) {
                continue;
            }
            let actor = &self.actors[self.current as usize];
            let new = Access {
                group: self.group,
                thread: self.current,
                epoch: actor.epoch,
                run: self.run,
                writes,
                polls,
                place,
                ..shadow::NOTHING
            };
            shadow::note(page, at, bytes, new, &actor.clock, |at, old| {
                let place = if *is_own { Place::Shared } else { Place::At(flat(at)) };
                if !actor.is_settled(&new, &old) {
                    report::found(place, new, old, &actor.clock, Some(&self.weakly));
                }
            });
        }
    }

    /// The block touches memory that other processes share.
    pub(super) fn tell(&mut self) {
        if !self.is_told && job::is_joined() {
            foreign::tell_block(self.group);
            self.is_told = true;
        }
    }

    pub(super) fn tell_site(&mut self, place: u64) {
        let told = &mut self.sites[(place ^ place >> 6) as usize % SITES];
        if *told != place {
            *told = place;
            foreign::tell_site(place, lines::module_of);
        }
    }

    fn is_shared(&self, at: usize) -> bool {
        self.parts.shared.iter().chain(&self.dynamic).any(|part| (part.0..part.1).contains(&at))
    }

    fn page(&mut self, key: usize) -> Cached {
        let page = key * PAGE;
        if own::meet(&self.parts.shared, page) || own::meet(&self.dynamic, page) {
            let page = self.own.entry(key).or_insert_with(|| Arc::new(Page::new())).clone();
            return Cached { key, page: Some(page), is_own: true, is_hosts: false, is_shared: false };
        }
        let is_watched = own::meet(&self.parts.fixed, page) || windows::is_watched(page);
        let is_hosts = !is_watched && sides::is_hosts(page);
        let page = is_watched.then(|| page_of(page).0);
        let is_shared = page.as_ref().is_some_and(|page| matches!(**page, Page::Job(_)));
        Cached { key, page, is_own: false, is_hosts, is_shared }
    }
}
