//! Accesses of a block's threads: which of them are looked at, and what is told of them.

use std::sync::Arc;

use super::report;
use super::shadow::{self, Access, Made, PAGE, Page};
use super::sides::{Hosts, OnPage};
use super::touched::Place;
use super::windows::flat;
use super::wrong::Side;
use super::{Worker, foreign, job, lines, own, page_of, unwritten, whereabouts, windows};

/// Pages that an OS thread has used lately.
pub const CACHED: usize = 512;
/// Lines of code that an OS thread has told other processes of lately.
pub const SITES: usize = 64;

/// A page by its number; nothing: not watched.
pub struct Cached {
    key: usize,
    page: Option<Arc<Page>>,
    /// Where what the program has made ends in it; nothing may be touched from there on.
    end: usize,
    /// Of shared memory.
    is_own: bool,
    /// What of it may be the host's alone.
    hosts: OnPage,
    /// Of memory that processes share.
    is_shared: bool,
}

fn slot(key: usize) -> usize {
    (key ^ key >> 9) % CACHED
}

impl Worker {
    /// One of the running thread, from here on.
    pub(super) fn now(&self, writes: bool, place: usize) -> Access {
        let epoch = self.actors[self.current as usize].epoch;
        Access { group: self.group, thread: self.current, epoch, run: self.run, writes, place: place as u64, ..shadow::NOTHING }
    }

    pub(super) fn access(&mut self, at: usize, bytes: usize, new: Access) {
        if (self.stack.0..self.stack.1).contains(&at) {
            return;
        }
        self.catch_up(self.current);
        self.look_at_memory();
        let is_use = unwritten::is_use(&new, bytes);
        for (at, bytes) in shadow::pieces(at, bytes) {
            if let Some((place, old)) = self.note(at, bytes, new) {
                self.found(place, new, old);
            }
            // SAFETY: the page is one that is watched, so it is there.
            if is_use && self.is_devices(at) && unsafe { unwritten::stands_at(at, bytes) } {
                self.reads_unwritten(at, bytes, new.place as usize);
            }
        }
    }

    /// The two have no order, if it is not one that the thread is going to know.
    pub(super) fn found(&self, place: Place, new: Access, old: Access) {
        let actor = &self.actors[self.current as usize];
        if !actor.is_settled(&new, &old) {
            report::found(place, new, old, &actor.clock, Some(&self.weakly));
        }
    }

    /// Other memory is watched than before.
    #[inline]
    pub(super) fn look_at_memory(&mut self) {
        let generation = windows::generation();
        if generation != self.generation {
            self.cache.fill_with(|| None);
            self.generation = generation;
        }
    }

    /// Whether the page of the last access is watched, and no block's own.
    #[inline]
    fn is_devices(&self, at: usize) -> bool {
        let key = at / PAGE;
        self.cache[slot(key)].as_ref().is_some_and(|cached| cached.key == key && cached.page.is_some() && !cached.is_own)
    }

    /// Notes an access within a page; an older one that it has no order with.
    #[inline]
    pub(super) fn note(&mut self, at: usize, bytes: usize, new: Access) -> Option<(Place, Access)> {
        let key = at / PAGE;
        let slot = slot(key);
        if self.cache[slot].as_ref().is_none_or(|cached| cached.key != key) {
            self.cache[slot] = Some(self.page(key));
        }
        if let Some(cached) = self.cache[slot].as_ref().filter(|cached| at + bytes > cached.end) {
            let (what, group, thread) = (whereabouts::behind(at.max(cached.end)), self.group, self.current);
            report::wrong_side(new.place, Side::Behind { writes: new.writes, what, group, thread });
            return None;
        }
        let is_plain = !new.polls && new.made == Made::Plain;
        if let Some(cached) = &self.cache[slot]
            && let Some(of) = cached.hosts.at(at).filter(|of| is_plain || !matches!(of, Hosts::Stack))
        {
            if !self.actor().is_copying {
                let side = Side::Kernel { writes: new.writes, at, of, group: self.group, thread: self.current };
                report::wrong_side(new.place, side);
            }
            return None;
        }
        if self.cache[slot].as_ref().is_some_and(|cached| cached.is_shared) {
            self.tell();
            self.tell_site(new.place);
        }
        let Some(Cached { page: Some(page), is_own, .. }) = &self.cache[slot] else { return None };
        if *is_own && !self.is_shared(at) {
            return None;
        }
        if *is_own && let Some(offset) = self.beyond_asked(at, bytes) {
            let (writes, bytes, group, thread) = (new.writes, self.asked, self.group, self.current);
            report::wrong_side(new.place, Side::Shared { writes, offset, bytes, group, thread });
            return None;
        }
        let mut found = None;
        shadow::note(page, at, bytes, new, &self.actors[self.current as usize].clock, |at, old| {
            found = Some((if *is_own { Place::Shared } else { Place::At(flat(at)) }, old));
        });
        found
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

    /// Where in dynamic shared memory these bytes begin, if the launch has not asked for all of them.
    fn beyond_asked(&self, at: usize, bytes: usize) -> Option<usize> {
        let &(begin, _) = self.dynamic.iter().find(|part| (part.0..part.1).contains(&at))?;
        (at - begin + bytes > self.asked).then_some(at - begin)
    }

    fn is_shared(&self, at: usize) -> bool {
        self.parts.shared.iter().chain(&self.dynamic).any(|part| (part.0..part.1).contains(&at))
    }

    fn page(&mut self, key: usize) -> Cached {
        let page = key * PAGE;
        if own::meet(&self.parts.shared, page) || own::meet(&self.dynamic, page) {
            let page = self.own.entry(key).or_insert_with(|| Arc::new(Page::new())).clone();
            return Cached { key, page: Some(page), end: usize::MAX, is_own: true, hosts: OnPage::Nothing, is_shared: false };
        }
        let is_fixed = own::meet(&self.parts.fixed, page);
        let is_watched = is_fixed || windows::is_watched(page);
        let hosts = if is_watched && !is_fixed { OnPage::Nothing } else { OnPage::look(page, is_fixed) };
        let page = is_watched.then(|| page_of(page).0);
        let is_shared = page.as_ref().is_some_and(|page| matches!(**page, Page::Job(_)));
        let end = whereabouts::end_in(key * PAGE).unwrap_or(usize::MAX);
        Cached { key, page, end, is_own: false, hosts, is_shared }
    }
}
