//! The one loop in which a transport waits.
#![forbid(unsafe_code)]

use crate::error::{Code, Error, Result};
use std::time::{Duration, Instant};

/// What a turn of the loop came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::transport) enum Step {
    /// Nothing is under way.
    Idle,
    Moved,
    Still,
}

impl Step {
    pub fn of(moved: bool) -> Self {
        if moved { Self::Moved } else { Self::Still }
    }
}

/// Steps until nothing is under way. False if nothing moved for as long as `patience`.
pub(in crate::transport) fn wait(patience: Duration, mut step: impl FnMut() -> Result<Step>) -> Result<bool> {
    let mut since = Instant::now();
    loop {
        match step()? {
            Step::Idle => return Ok(true),
            Step::Moved => since = Instant::now(),
            Step::Still if since.elapsed() > patience => return Ok(false),
            Step::Still => {}
        }
        std::hint::spin_loop();
    }
}

/// Looks until it is `over`, no longer than `limit`, whatever moves.
pub(in crate::transport) fn within(limit: Duration, mut over: impl FnMut() -> bool) {
    let end = Instant::now() + limit;
    while !over() && Instant::now() < end {
        std::hint::spin_loop();
    }
}

/// What [`super::Transport::close`] comes to where peers have not landed all: `left` is how much, by peer.
pub(in crate::transport) fn not_landed(name: &str, left: &[(u32, u64)]) -> Error {
    let whom: Vec<String> = left.iter().map(|(peer, n)| format!("{n} to rank {peer}")).collect();
    let text = format!(
        "puts had not landed when their rank left | {name}, {} | they may be lost | fix: end kernels on all ranks before a \
         communicator is destroyed; see what keeps that rank",
        whom.join(", ")
    );
    Error { culprit: left.first().map(|(peer, _)| *peer), ..Error::new(Code::RemoteError, 87, text) }
}

/// How many more pieces have landed at `peer` than `before`, of `under_way`, if it says that `landed` have: error `number` if that
/// cannot be.
pub(in crate::transport) fn more_landed(
    name: &str,
    number: u16,
    peer: u32,
    landed: u64,
    before: u64,
    under_way: u64,
) -> Result<u64> {
    landed.checked_sub(before).filter(|more| *more <= under_way).ok_or_else(|| {
        let text = format!(
            "a peer's word makes no sense | {name}, rank {peer} | it says that {landed} messages have landed, {before} had and {under_way} were \
             under way | fix: load the same libginrs on every rank"
        );
        Error::new(Code::RemoteError, number, text).by(peer)
    })
}
