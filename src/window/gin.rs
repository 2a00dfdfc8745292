//! GIN of a communicator: connected at its first use (spec host 4.2) and told of all windows that exist, and of each new one.

use super::standing::{Window, gin_wins};
use super::{Windows, structs};
use crate::device::{DevPtr, Device};
use crate::error::Result;
use crate::gin::{Announced, Gin, Prepared};
use crate::log;
use crate::team::Said;
use crate::transport::Words;
use std::collections::BTreeMap;
use std::sync::Arc;

impl Windows {
    /// GIN, if it is active.
    pub fn gin(&self) -> Option<Arc<Gin>> {
        self.gin.lock().clone()
    }

    /// Collective: connects GIN with what was announced, and registers every window on this rank. The caller's next round says whether that
    /// went well.
    pub(crate) fn begin_activation(&self, announced: Announced, all: &[Said]) -> Result<Activation<'_>> {
        let mut prepared = BTreeMap::new();
        let (gin, all) = Gin::connect(self.team(), announced, all, |gin| self.prepare_all(gin, &mut prepared))?;
        let status = self.register_all(&gin, prepared, &all);
        Ok(Activation { windows: self, gin, status, stands: false })
    }

    /// Until what kernels of this rank have posted is done. Kernels may have ended with signals still on their way: nobody
    /// waits for those at the sender. After an abort nothing is left to wait for.
    pub fn drain(&self) -> Result<()> {
        match self.gin().map_or(Ok(()), |gin| gin.drain()) {
            Err(_) if self.team().failure().is_some() => Ok(()),
            result => result,
        }
    }

    /// The communicator goes: nothing of GIN moves any more.
    pub fn stop_gin(&self) {
        if let Some(gin) = self.gin() {
            gin.stop();
        }
    }

    /// The words of each window behind its number, if it has any.
    fn prepare_all(&self, gin: &Arc<Gin>, prepared: &mut BTreeMap<u64, Prepared>) -> Result<Vec<u64>> {
        let mut own = Vec::new();
        for window in self.state.lock().windows.values() {
            let window_own = gin.prepare(&window.memory.physical, window.place.start, window.place.bytes)?;
            let words = window_own.own();
            if !words.is_empty() {
                own.push(window.place.number);
                own.extend(words);
            }
            prepared.insert(window.place.number, window_own);
        }
        Ok(own)
    }

    /// Under the lock: a window that another thread takes away meanwhile takes its registration with it.
    fn register_all(&self, gin: &Arc<Gin>, mut prepared: BTreeMap<u64, Prepared>, all: &[Said]) -> Result<()> {
        let team = self.team();
        let all = (0..).zip(all).map(|(rank, said)| by_number(rank, &said.own)).collect::<Result<Vec<_>>>()?;
        let mut state = self.state.lock();
        state.windows.iter_mut().try_for_each(|(&at, window)| {
            let Some(own) = prepared.remove(&window.place.number) else { return Ok(()) };
            let words = all.iter().map(|said| said.get(&window.place.number).cloned().unwrap_or_default()).collect();
            window.gin = Some(own.register_with(team, &window.memory, window.place, words)?);
            window.tell_landing(team);
            write_gin_fields(&*team.device, at, window, gin.n_contexts())
        })
    }

    fn forget_all(&self) {
        let mut state = self.state.lock();
        for (&at, window) in &mut state.windows {
            window.gin = None;
            if let Err(error) = write_gin_fields(&*self.team().device, at, window, 0) {
                // No kernel has a context to use them with.
                log::error(&error);
            }
        }
    }
}

/// GIN that is connected, and of which not all ranks have said that it stands. Dropped: it was never there.
pub(crate) struct Activation<'a> {
    windows: &'a Windows,
    gin: Arc<Gin>,
    /// Whether this rank has given every window its handles.
    pub status: Result<()>,
    stands: bool,
}

impl Activation<'_> {
    /// All ranks have said that it went well.
    pub fn stands(mut self) -> Arc<Gin> {
        self.stands = true;
        *self.windows.gin.lock() = Some(self.gin.clone());
        self.gin.clone()
    }

    /// What contexts are made from meanwhile.
    pub fn gin(&self) -> &Arc<Gin> {
        &self.gin
    }
}

impl Drop for Activation<'_> {
    fn drop(&mut self) {
        if !self.stands {
            self.windows.forget_all();
            self.gin.stop();
        }
    }
}

/// What rank `rank` said of its windows.
fn by_number(rank: u32, mut words: &[u64]) -> Result<BTreeMap<u64, Words>> {
    let mut all = BTreeMap::new();
    while let Some((&number, rest)) = words.split_first() {
        words = rest;
        all.insert(number, Words::take(rank, &mut words)?);
    }
    Ok(all)
}

fn write_gin_fields(device: &dyn Device, at: DevPtr, window: &mut Window, contexts: u32) -> Result<()> {
    window.shadow.ginWins = gin_wins(window.gin.as_ref(), contexts);
    structs::write(device, at, &window.shadow)
}
