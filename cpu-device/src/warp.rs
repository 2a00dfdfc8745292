//! Rendezvous of a warp's lanes: the counting, without the waiting.

use crate::launch::Place;

/// What a rendezvous is for; lanes meet only for the same purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// `__syncwarp`.
    Sync,
    /// Shuffles, ballots, matches, reductions.
    Exchange,
}

/// Lanes that meet under one mask.
struct Group {
    mask: u32,
    purpose: Purpose,
    arrived: u32,
    values: [u64; 32],
    /// Where each waiting lane wants all values; NULL for a sync.
    out: [*mut u64; 32],
}

/// Lanes at one `__activemask()`.
struct Site {
    serial: u64,
    place: Place,
    lanes: u32,
    /// Polls of its lanes so far.
    polls: u32,
    /// Set when the lanes were counted; those that have not read the answer yet.
    unread: Option<u32>,
}

/// One warp of a block.
#[derive(Default)]
pub struct Warp {
    /// Lanes that exist and have not exited.
    pub live: u32,
    groups: Vec<Group>,
    sites: Vec<Site>,
    next_site: u64,
    /// Per lane: who gave a value in the last rendezvous it was woken from.
    given: [u32; 32],
}

impl Warp {
    /// Polls after which `__activemask()` no longer waits for lanes that compute.
    const PATIENCE: u32 = 100_000;

    /// Begins a block: `lanes` exist.
    pub fn reset(&mut self, lanes: u32) {
        self.live = if lanes >= 32 { u32::MAX } else { (1 << lanes) - 1 };
        self.groups.clear();
        self.sites.clear();
    }

    /// Lane `lane` arrives under `mask`. Returns the lanes to wake if that completes the rendezvous (without itself: it
    /// need not wait), else None: it must.
    ///
    /// # Safety
    /// `out` is NULL or takes 32 values until the lane is woken.
    pub unsafe fn arrive(&mut self, lane: u32, mask: u32, purpose: Purpose, value: u64, out: *mut u64) -> Option<u32> {
        let at = self.groups.iter().position(|g| g.mask == mask && g.purpose == purpose).unwrap_or_else(|| {
            self.groups.push(Group { mask, purpose, arrived: 0, values: [0; 32], out: [std::ptr::null_mut(); 32] });
            self.groups.len() - 1
        });
        let group = &mut self.groups[at];
        group.arrived |= 1 << lane;
        group.values[lane as usize] = value;
        group.out[lane as usize] = out;
        self.end_if_complete(at).map(|lanes| lanes & !(1 << lane))
    }

    /// Counts `lane` out. Returns the lanes to wake.
    pub fn exit(&mut self, lane: u32) -> u32 {
        self.live &= !(1 << lane);
        let mut woken = 0;
        for at in (0..self.groups.len()).rev() {
            woken |= self.end_if_complete(at).unwrap_or(0);
        }
        woken
    }

    /// Which lanes gave a value in the rendezvous that `lane` has just left.
    pub fn given(&self, lane: u32) -> u32 {
        self.given[lane as usize]
    }

    fn end_if_complete(&mut self, at: usize) -> Option<u32> {
        let group = &self.groups[at];
        if group.arrived & self.live != group.mask & self.live {
            return None;
        }
        let group = self.groups.swap_remove(at);
        for lane in bits(group.arrived) {
            self.given[lane] = group.arrived;
            if !group.out[lane].is_null() {
                // SAFETY: `arrive` was promised 32 values at out, and the lane has not gone on since.
                unsafe { std::ptr::copy_nonoverlapping(group.values.as_ptr(), group.out[lane], 32) };
            }
        }
        Some(group.arrived)
    }

    /// Lane `lane` reaches the `__activemask()` at `place`: joins those who wait there. Returns the group's number.
    pub fn join_site(&mut self, lane: u32, place: Place) -> u64 {
        let open = self.sites.iter_mut().find(|s| s.unread.is_none() && s.place.same_line(&place));
        if let Some(site) = open {
            site.lanes |= 1 << lane;
            return site.serial;
        }
        self.next_site += 1;
        self.sites.push(Site { serial: self.next_site, place, lanes: 1 << lane, polls: 0, unread: None });
        self.next_site
    }

    /// The lanes of group `serial` if each other live lane is in `held` (blocked or polling) or at an `__activemask()`
    /// itself, or if those have computed for very long.
    pub fn poll_site(&mut self, lane: u32, serial: u64, held: u32) -> Option<u32> {
        // A lane whose group was counted is on its way again, though it has not run yet.
        let open = self.sites.iter().filter(|site| site.unread.is_none());
        let held = open.fold(held, |held, site| held | site.lanes);
        let live = self.live;
        // All groups at once: two that wait for each other are both complete, and neither sees the other's lanes leave.
        for site in self.sites.iter_mut().filter(|site| site.unread.is_none()) {
            site.polls += u32::from(site.serial == serial);
            if live & !site.lanes & !held == 0 || site.polls > Self::PATIENCE {
                site.unread = Some(site.lanes);
            }
        }
        let at = self.sites.iter().position(|s| s.serial == serial).expect("a site lives until its last lane has read it");
        let site = &mut self.sites[at];
        let unread = site.unread? & !(1 << lane);
        let lanes = site.lanes;
        if unread == 0 {
            self.sites.swap_remove(at);
        } else {
            site.unread = Some(unread);
        }
        Some(lanes)
    }

    /// (mask, lanes that arrived) of the rendezvous that `lane` waits in.
    pub fn waits(&self, lane: u32) -> Option<(u32, u32)> {
        self.groups.iter().find(|g| g.arrived & (1 << lane) != 0).map(|g| (g.mask, g.arrived))
    }
}

/// The numbers of the bits that are set, lowest first.
pub fn bits(mut mask: u32) -> impl Iterator<Item = usize> + Clone {
    std::iter::from_fn(move || {
        (mask != 0).then(|| {
            let bit = mask.trailing_zeros() as usize;
            mask &= mask - 1;
            bit
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_exchange_and_missing_ones_count_as_arrived() {
        let mut warp = Warp::default();
        warp.reset(4); // lanes 4 to 31 do not exist
        warp.exit(3);
        let mut out = [[9u64; 32]; 3];
        let p = out.as_mut_ptr();
        // SAFETY: each lane has 32 values in `out`, which outlives the rendezvous.
        unsafe {
            assert_eq!(warp.arrive(0, u32::MAX, Purpose::Exchange, 10, (*p.add(0)).as_mut_ptr()), None);
            assert_eq!(warp.arrive(2, u32::MAX, Purpose::Exchange, 12, (*p.add(2)).as_mut_ptr()), None);
            assert_eq!(warp.arrive(1, u32::MAX, Purpose::Exchange, 11, (*p.add(1)).as_mut_ptr()), Some(0b101));
        }
        for lane in 0..3 {
            assert_eq!(out[lane as usize][..4], [10, 11, 12, 0]);
            assert_eq!(warp.given(lane), 0b111);
        }
    }

    #[test]
    fn an_exit_completes_what_waited_for_the_lane() {
        let mut warp = Warp::default();
        warp.reset(32);
        // SAFETY: a sync has no out.
        assert_eq!(unsafe { warp.arrive(0, 0b11, Purpose::Sync, 0, std::ptr::null_mut()) }, None);
        assert_eq!(warp.waits(0), Some((0b11, 0b01)));
        assert_eq!(warp.exit(5), 0);
        assert_eq!(warp.exit(1), 0b01);
    }

    #[test]
    fn active_mask_splits_by_line() {
        let mut warp = Warp::default();
        warp.reset(4);
        let (a, b) = (Place::new(std::ptr::null(), c"f".as_ptr(), 1), Place::new(std::ptr::null(), c"f".as_ptr(), 2));
        let s0 = warp.join_site(0, a);
        assert_eq!(warp.poll_site(0, s0, 0), None);
        assert_eq!(warp.join_site(1, a), s0);
        let s2 = warp.join_site(2, b);
        assert_ne!(s0, s2);
        assert_eq!(warp.poll_site(0, s0, 0b0100), None, "lane 3 is still on its way");
        warp.exit(3);
        assert_eq!(warp.poll_site(0, s0, 0), Some(0b0011));
        let again = warp.join_site(0, a);
        assert_ne!(again, s0, "a second call is a group of its own");
        assert_eq!(warp.poll_site(0, again, 0), None, "lanes 1 and 2 may go on: they were counted, and may come");
        assert_eq!(warp.poll_site(1, s0, 0), Some(0b0011));
        assert_eq!(warp.poll_site(2, s2, 0), Some(0b0100));
    }
}
