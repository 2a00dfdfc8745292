//! Which transport serves which peer, and why: the reasons are lines for NCCL_DEBUG=INFO.

use crate::bail;
use crate::error::Result;

/// What the choice depends on, of each rank.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// Random per process.
    pub process: [u8; 16],
    /// Boot id and network namespace: equal where descriptors can be passed.
    pub machine: u64,
    /// The memory is mapped here.
    pub mapped: bool,
}

/// A transport of this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Stores within the process.
    Loopback,
    /// Stores into memory of another process.
    Shm,
}

impl Choice {
    /// Name for messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Loopback => "loopback",
            Self::Shm => "shm",
        }
    }

    fn why(self) -> &'static str {
        match self {
            Self::Loopback => "same process",
            Self::Shm => "same machine, other process",
        }
    }
}

/// Chooses for every peer of `rank`; the first that cannot be reached is the error.
pub fn select(rank: u32, peers: &[Facts]) -> Result<Vec<Choice>> {
    let own = &peers[rank as usize];
    let mut choices = Vec::with_capacity(peers.len());
    for (peer, facts) in peers.iter().enumerate() {
        choices.push(match facts {
            facts if facts.machine != own.machine => bail!(
                InvalidUsage,
                35,
                "no GIN transport to a peer | rank {rank} to rank {peer} | the peer is on another machine, or in a container of its own | fix: run all ranks on one machine in one network namespace; this version has loopback and shm"
            ),
            facts if !facts.mapped => bail!(
                SystemError,
                36,
                "no GIN transport to a peer | rank {rank} to rank {peer} | its memory is not mapped here though the machine is the same | fix: look for an earlier warning"
            ),
            facts if facts.process == own.process => Choice::Loopback,
            _ => Choice::Shm,
        });
    }
    Ok(choices)
}

/// One line for each run of peers with the same choice: `rank 0 -> ranks 1-3: shm (same machine, other process)`.
pub fn explain(rank: u32, choices: &[Choice]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut first = 0;
    for run in choices.chunk_by(|a, b| a == b) {
        let last = first + run.len() - 1;
        let whom = if first == last { format!("rank {first}") } else { format!("ranks {first}-{last}") };
        lines.push(format!("rank {rank} -> {whom}: {} ({})", run[0].name(), run[0].why()));
        first = last + 1;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_choice_and_its_reason() {
        let of = |process: u8, machine| Facts { process: [process; 16], machine, mapped: true };
        let choices = select(1, &[of(1, 7), of(1, 7), of(2, 7), of(3, 7)]).unwrap();
        assert_eq!(
            explain(1, &choices),
            ["rank 1 -> ranks 0-1: loopback (same process)", "rank 1 -> ranks 2-3: shm (same machine, other process)"]
        );
        let far = select(0, &[of(1, 7), of(2, 8)]).unwrap_err();
        assert!(far.text.contains("rank 0 to rank 1") && far.text.contains("another machine"), "{far}");
        let lost = select(0, &[of(1, 7), Facts { mapped: false, ..of(2, 7) }]).unwrap_err();
        assert_eq!(lost.id, 36);
    }
}
