//! A window of the library's own in host memory: GIN puts from it and into it, and its rank's kernels see their own part alone.
#![forbid(unsafe_code)]

use super::Windows;
use crate::device::DevPtr;
use crate::error::Result;
use crate::gin::Prepared;
use crate::log;
use crate::team::{Said, Team, compare};

/// Where it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostWindow {
    /// Its handle.
    pub window: DevPtr,
    /// This rank's part.
    pub at: DevPtr,
}

impl Windows {
    /// Collective, once GIN is active: `bytes` of it on every rank, until the communicator goes. Where one rank has no such memory all
    /// get its reason.
    pub(crate) fn make_host(&self, what: &str, bytes: usize) -> Result<HostWindow> {
        let _turn = self.turn.lock();
        let team = self.team();
        let held = self.symmetric.host(bytes);
        let place = self.state.lock().place(0, bytes as u64);
        let proposed = held.and_then(|held| {
            let gin = self.gin().map(|gin| gin.prepare(&held.memory.physical, 0, place.bytes)).transpose()?;
            Ok((held, gin))
        });
        let said = proposed
            .as_ref()
            .map_err(Clone::clone)
            .map(|(_, gin)| Said { agreed: vec![place.bytes], own: gin.iter().flat_map(Prepared::own).collect() });
        let all = team.round(what, said)?;
        compare(what, &all, |_| "size of the window".into(), |_, value| value.to_string())?;
        let made = proposed.and_then(|(held, gin)| {
            let memory = self.symmetric.adopt(held);
            let gin = gin.map(|gin| |team: &Team, place| gin.register(team, &memory, place, &all, 0));
            let window = self.add(&memory, place, None, gin)?;
            Ok(HostWindow { window, at: memory.address() })
        });
        let closed = team.done(&format!("{what}, end"), &made);
        if let (Err(_), Ok(made)) = (&closed, &made) {
            self.remove(made.window).unwrap_or_else(|left| log::error(&left));
        }
        closed.and(made)
    }
}
