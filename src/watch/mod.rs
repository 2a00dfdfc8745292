//! Who still lives (being written).
use crate::bootstrap::Bootstrap;
use crate::error::Result;
use crate::gin::abort::Abort;
use std::sync::Arc;
/// Watches the peers of one rank; they come from the bootstrap's table. Drop stops watching.
pub struct Watch { _private: () }
pub(crate) fn how_ended(_pid: u32) -> String { String::new() }
pub(crate) fn process_state(_pid: u32) -> String { String::new() }
#[allow(missing_docs)]
impl Watch {
    /// Collective.
    pub fn start(_bootstrap: &Bootstrap, _abort: &Arc<Abort>) -> Result<Watch> { Ok(Watch { _private: () }) }
    pub fn set_step(&self, _step: &str) {}
    pub fn leaving(&self) {}
}
