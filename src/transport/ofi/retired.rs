//! Memory of windows that have gone. A provider over sockets looks at a write's key when it begins and lands it as it comes: one that
//! was half received when the key was withdrawn goes on. So the memory stays until each sender has answered a question that was asked
//! behind the withdrawal: what it sent before has come by then. A sender that has gone sends nothing more.
#![forbid(unsafe_code)]

use super::hub::Link;
use super::post::Post;
use crate::device::Physical;
use std::sync::Arc;

struct Grave {
    _memory: Arc<dyn Physical>,
    /// Links and the number of the question to each.
    waits: Vec<(u32, u64)>,
}

/// All that wait.
#[derive(Default)]
pub(super) struct Retired(Vec<Grave>);

impl Retired {
    /// No key opens `memory` any more.
    pub fn add(&mut self, memory: Arc<dyn Physical>, links: &mut [Link]) {
        let ask = |link: &mut Link| if let Link::From(from) = link { Some((from.link, from.ask())) } else { None };
        let waits: Vec<(u32, u64)> = links.iter_mut().filter_map(ask).collect();
        if !waits.is_empty() {
            self.0.push(Grave { _memory: memory, waits });
        }
    }

    /// Asks, and lets go of what all have answered for.
    pub fn tend(&mut self, links: &mut [Link], post: &mut Post) {
        if self.0.is_empty() {
            return;
        }
        for link in links.iter_mut() {
            if let Link::From(from) = link {
                from.question(post);
            }
        }
        let open = |&mut (link, number): &mut (u32, u64)| matches!(&links[link as usize], Link::From(from) if !from.has_answered(number));
        self.0.retain_mut(|grave| {
            grave.waits.retain_mut(open);
            !grave.waits.is_empty()
        });
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }
}
