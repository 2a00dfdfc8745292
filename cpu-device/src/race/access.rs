//! One access, and whether two of them must have an order.

use super::clock::{Clock, Group};
use super::{job, names};

/// How an access is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Made {
    /// As any other.
    Plain,
    /// With a cache hint, as code polls and tells others, too: no atomic's value is missed by it.
    Hinted,
    /// By an atomic, or as whole as one.
    Whole,
    /// By an atomic compare-and-swap, which finds out whether what was read before still holds.
    Swap,
    /// By an atomic of block scope.
    Narrow,
}

impl Made {
    /// Whether it needs an order with all that the other one needs one with.
    pub fn is_as_strict_as(self, other: Made) -> bool {
        self == Made::Plain || self == other || self == Made::Hinted && other != Made::Plain
    }
}

/// One access to some of eight bytes. All zero is none.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Access {
    /// Who: the group, its thread, and how far that had come.
    pub group: Group,
    /// Thread of the group.
    pub thread: u16,
    /// See there.
    pub made: Made,
    /// A copy or fill of the CUDA API.
    pub is_copy: bool,
    /// See [`Clock`].
    pub epoch: u32,
    /// The grid, 0: a queue of puts.
    pub run: u32,
    /// Which of the eight bytes.
    pub mask: u8,
    /// It writes.
    pub writes: bool,
    /// A volatile read, as polls are: held against what puts write, which a poll does not make known.
    pub polls: bool,
    /// It reads what a put or a kernel has written.
    pub finds: bool,
    /// Of a put that lands on puts of its queue which nobody has read: the first of those; else 0.
    pub over: u32,
    /// An address of code, or [`names::PUT`] and the number of a put.
    pub place: u64,
}

/// No access.
pub const NOTHING: Access = Access {
    group: 0,
    thread: 0,
    made: Made::Plain,
    is_copy: false,
    epoch: 0,
    run: 0,
    mask: 0,
    writes: false,
    polls: false,
    finds: false,
    over: 0,
    place: 0,
};

/// What an access does knowingly.
pub fn before(old: &Access, new: &Access, clock: &Clock) -> bool {
    old.group == new.group && old.thread == new.thread
        || clock.knows(job::local(old.group), old.thread, old.epoch)
        || old.run != 0 && names::ended(job::local(old.run)) <= clock.ended
}

impl Access {
    /// Whether the two must have an order.
    pub fn conflicts(&self, other: &Access) -> bool {
        (self.writes || other.writes)
            && (!self.polls || other.lands())
            && (!other.polls || self.lands())
            && (self.is_plain() && other.is_plain() || !self.spares(other))
    }

    /// No atomic made it.
    pub fn is_plain(&self) -> bool {
        matches!(self.made, Made::Plain | Made::Hinted)
    }

    fn lands(&self) -> bool {
        self.writes && self.place & names::PUT != 0
    }

    /// One of the two is an atomic, which needs no order with the other one: a second atomic, a flag that is put, the guess before a compare-and-swap.
    fn spares(&self, other: &Access) -> bool {
        let (plain, atomic) = match (self.made, other.made) {
            (Made::Hinted, _) | (_, Made::Hinted) => return true,
            (Made::Plain, _) => (self, other),
            (_, Made::Plain) => (other, self),
            // Where one reads it waits for the other, and what it learns so is told where it counts.
            (one, two) => {
                return self.group == other.group || ![one, two].contains(&Made::Narrow) || !(self.writes && other.writes);
            }
        };
        plain.lands() || !plain.writes && atomic.made == Made::Swap
    }

    /// It has seen what atomics before it have left: those are in order with what follows it on these bytes.
    pub fn sees(&self) -> bool {
        self.polls || self.made != Made::Plain
    }

    /// Whether a later access makes it needless to keep this one, which it meets.
    pub fn is_covered(&self, new: &Access, is_ordered: bool, changed: u8) -> bool {
        self.mask & !new.mask == 0
            && match (new.is_plain(), self.sees()) {
                // Who has seen the last atomic's value is kept until the next one.
                (true, true) if !new.writes && self.mask & changed != 0 => false,
                (true, _) => (new.writes || !self.writes && is_ordered) && (!new.polls || self.polls),
                // What is plain stays, for atomics of others to be held against.
                (_, true) if self.writes => new.writes && (is_ordered || self.group == new.group && self.thread == new.thread),
                (_, true) => new.writes || (self.group, self.thread) == (new.group, new.thread),
                (_, false) => false,
            }
    }

    /// As all processes of the job know it.
    pub fn global(self) -> Access {
        let run = if self.run == 0 { 0 } else { job::global(self.run) };
        Access { group: job::global(self.group), run, place: job::global_place(self.place), ..self }
    }

    /// And as this one does.
    pub fn local(self) -> Access {
        Access { group: job::local(self.group), run: job::local(self.run), place: job::local_place(self.place), ..self }
    }
}
