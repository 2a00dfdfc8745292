//! Links whose connection has ended. The peer may have left, and word of that comes on links of its own: so it is asked about, for all of
//! them at once and while everything else goes on, until that word would have come. A process that ends by exit() says nothing on the link itself.
#![forbid(unsafe_code)]

use super::hub::{Link, Ofi};
use super::outgoing::State;
use crate::error::Result;
use std::time::{Duration, Instant};

/// How long the word that a peer has left may take, behind the end of its connection.
pub(super) const TIDINGS: Duration = Duration::from_millis(100);

/// One of them, and why its connection has ended.
pub(super) struct Parting {
    link: u32,
    since: Instant,
    why: String,
}

impl Ofi {
    /// The connection of `link`, to a peer, is no more.
    pub(super) fn part(&mut self, link: u32, why: String) -> Result<()> {
        let Some(Link::To(to)) = self.links.get_mut(link as usize) else { return Ok(()) };
        if to.is_parting() {
            return Ok(());
        }
        if !to.part() {
            return Ok(());
        }
        self.parting.push(Parting { link, since: Instant::now(), why });
        self.see_partings().map(drop)
    }

    /// Before something goes to the peer of a link that counted as lost: word that it has left may have come since.
    pub(super) fn ask_again(&mut self, link: u32) {
        if let Link::To(to) = &mut self.links[link as usize]
            && to.is_gone()
            && (self.has_left)(to.peer)
        {
            to.end(&mut self.post, State::Left);
        }
    }

    /// Asks about all of them; true if any has come to its end. An error is of one alone: the others' come with the next calls.
    pub(super) fn see_partings(&mut self) -> Result<bool> {
        let (mut at, mut moved) = (0, false);
        while let Some(&Parting { link, since, .. }) = self.parting.get(at) {
            let Link::To(to) = &mut self.links[link as usize] else { unreachable!("it went to a peer") };
            let has_left = (self.has_left)(to.peer);
            if to.is_parting() && !has_left && since.elapsed() < self.tidings {
                at += 1;
                continue;
            }
            moved = true;
            let why = self.parting.remove(at).why;
            if has_left {
                to.end(&mut self.post, State::Left);
                self.late.extend(self.post.forget(link).into_iter().map(|write| (write.tag, Ok(()))));
                continue;
            }
            let lost = to.gone(&mut self.post, why);
            self.post.forget(link);
            lost?;
        }
        Ok(moved)
    }
}
