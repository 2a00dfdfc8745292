//! Who keeps a step waiting. Ranks of this process are looked up; other processes are asked over their links.
#![forbid(unsafe_code)]

use super::address::Address;
use super::gone::Fate;
use super::port::Port;
use super::wire::{Frame, Standing};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How many processes are asked; a warning is not worth more links than that.
const MAX_ASKED: usize = 64;
/// How long an answer may take where a line is made of it, and where an error is: who is blamed must be who is missing, not who is busy.
pub const LINE: Duration = Duration::from_millis(300);
/// See there.
pub const ERROR: Duration = Duration::from_secs(2);

/// A rank that has not come to the step.
pub struct Missing {
    /// Which.
    pub rank: u32,
    /// Its name and what it does instead.
    pub state: String,
}

/// All ranks that have not entered exchange `seq`, by rank; an answer may take `patience`.
pub fn find(port: &Arc<Port>, seq: u32, patience: Duration) -> Vec<Missing> {
    let since = Instant::now();
    let mut asked: BTreeMap<u32, Address> = BTreeMap::new();
    let mut links = Vec::new();
    for (rank, entry) in (0..).zip(port.table()) {
        if entry.address != port.own_address() {
            asked.insert(rank, entry.address);
            if !links.contains(&entry.address) {
                links.push(entry.address);
            }
        }
    }
    for address in links.into_iter().take(MAX_ASKED) {
        if let Ok(link) = port.link(address, since + patience, || true) {
            link.send(&Frame::Probe);
        }
    }
    let until = Instant::now() + patience;
    let is_open = |rank: &u32| port.answer(*rank, since).is_none() && port.fate(*rank).is_none();
    while Instant::now() < until && port.failure().is_none() && asked.keys().any(is_open) {
        std::thread::sleep(Duration::from_millis(5));
    }
    let here: BTreeMap<u32, Standing> = port.standings_here().into_iter().map(|standing| (standing.rank, standing)).collect();
    let mut found = Vec::new();
    for rank in 0..port.table().len() as u32 {
        let standing = here.get(&rank).cloned().or_else(|| port.answer(rank, since));
        if let Some(why) = absence(port, rank, standing, seq) {
            found.push(Missing { rank, state: format!("{} {why}", port.name(rank)) });
        }
    }
    found
}

/// None for a rank that has come to exchange `seq`.
fn absence(port: &Port, rank: u32, standing: Option<Standing>, seq: u32) -> Option<String> {
    match standing {
        Some(standing) if seq.wrapping_sub(standing.seq) as i32 <= 0 => None,
        Some(standing) if standing.inside => Some(format!("is still in \"{}\"", standing.what)),
        Some(standing) if standing.what.is_empty() => Some("is in no collective step".into()),
        Some(standing) => Some(format!("is in \"{}\"", standing.what)),
        None => Some(match port.fate(rank) {
            Some(Fate::Left) => "has left".into(),
            Some(Fate::Lost) => "is gone".into(),
            None => format!("does not answer{}", port.process_state(rank)),
        }),
    }
}

/// For a message: the first few, and how many more.
pub fn list(missing: &[Missing]) -> String {
    let named: Vec<&str> = missing.iter().take(8).map(|missing| missing.state.as_str()).collect();
    let more = if missing.len() > 8 { format!(" and {} more", missing.len() - 8) } else { String::new() };
    named.join(", ") + &more
}
