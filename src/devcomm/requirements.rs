//! What a device communicator must hold, and where: the walk over the requirements (spec host 1.3, step 4).

use super::release::Waits;
use crate::bail;
use crate::error::Result;
use crate::layout::{RESOURCE_HANDLE_UNIT, ginrsResource};
use sha2::{Digest, Sha256};

/// `ncclDevCommRequirements`, copied with its lists. Counts are the caller's and may be wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requirements {
    /// Entries of the user's resource list, in order.
    pub resources: Vec<Resource>,
    /// Entries of the user's team list, in order.
    pub teams: Vec<TeamRequest>,
    /// A multicast object for the LSA team.
    pub lsa_multimem: bool,
    /// Barriers that are both LSA and rail.
    pub barrier_count: i32,
    /// LSA barriers.
    pub lsa_barrier_count: i32,
    /// Rail barriers.
    pub rail_gin_barrier_count: i32,
    /// GIN also where nothing else asks for it.
    pub gin_force_enable: bool,
    /// User signals, numbers 0 and up.
    pub gin_signal_count: i32,
    /// User counters, numbers 0 and up.
    pub gin_counter_count: i32,
    /// Direct GIN contexts are wished. Compared as the backend that comes of it, not here.
    pub direct: bool,
}

/// `ncclDevResourceRequirements` without its pointers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resource {
    /// Bytes.
    pub bytes: u64,
    /// Bytes; 0 or a power of two.
    pub align: u64,
    /// Signals of its own.
    pub gin_signals: i32,
    /// Counters of its own.
    pub gin_counters: i32,
    /// What kernels wait on in it, where a helper of ours laid it out. This rank's own: not compared.
    pub waits: Option<Waits>,
}

/// `ncclTeamRequirements` without its pointers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TeamRequest {
    /// A multicast object is asked for.
    pub multimem: bool,
    /// The team as this rank has it: number of ranks, this rank's number, world ranks from one to the next.
    pub team: [i32; 3],
}

/// What one entry of the user's list gets: what its out pointers are for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outputs {
    /// Offset in the resource window / 128.
    pub buffer_handle: u32,
    /// First signal, relative to the device communicator.
    pub signal_start: u32,
    /// First counter, relative to the device communicator.
    pub counter_start: u32,
}

/// Where everything stands in the resource window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The rail barrier's buffer and first signal.
    pub rail: Outputs,
    /// Rail barriers.
    pub n_rail: u32,
    /// The LSA barrier's buffer.
    pub lsa: Outputs,
    /// LSA barriers.
    pub n_lsa: u32,
    /// The user's entries, in order.
    pub entries: Vec<Outputs>,
    /// Offset of the signal shadows. Bytes.
    pub shadows: u64,
    /// What parts are for, and where that stands, for kernels that look.
    pub parts: Vec<ginrsResource>,
    /// Offset of `parts`. Bytes.
    pub told: u64,
    /// Bytes used; 0 means that no window is needed.
    pub used: u64,
    /// All signals: the user's, the rail barriers', the entries'.
    pub signals: u32,
    /// All counters.
    pub counters: u32,
    /// The first of them, which are the user's own.
    pub asked_signals: u32,
    /// Likewise.
    pub asked_counters: u32,
}

/// Longer lists are compared by their digest: every rank's words travel to every rank.
const LISTED: usize = 256;

/// Largest resource window: what a 32-bit handle reaches. Bytes.
const LIMIT: u64 = (RESOURCE_HANDLE_UNIT as u64) << 32;

impl Requirements {
    /// Rail barriers to make.
    fn rail_barriers(&self) -> i32 {
        self.barrier_count.max(self.rail_gin_barrier_count)
    }

    /// LSA barriers to make.
    fn lsa_barriers(&self) -> i32 {
        self.barrier_count.max(self.lsa_barrier_count)
    }

    /// True if something here needs GIN, also on one node. Barriers count too: a rail barrier session reads signals.
    pub fn needs_gin(&self) -> bool {
        self.gin_force_enable
            || self.gin_signal_count != 0
            || self.gin_counter_count != 0
            || self.rail_barriers() > 0
            || self.resources.iter().any(|entry| entry.gin_signals != 0 || entry.gin_counters != 0)
    }

    /// Refuses counts below zero and alignments that are none, naming the field.
    pub fn check(&self) -> Result<()> {
        let fields = [
            ("barrierCount", self.barrier_count),
            ("lsaBarrierCount", self.lsa_barrier_count),
            ("railGinBarrierCount", self.rail_gin_barrier_count),
            ("ginSignalCount", self.gin_signal_count),
            ("ginCounterCount", self.gin_counter_count),
        ];
        let entries = self
            .resources
            .iter()
            .enumerate()
            .flat_map(|(i, entry)| [(i, "ginSignalCount", entry.gin_signals), (i, "ginCounterCount", entry.gin_counters)]);
        if let Some((name, value)) = fields.into_iter().find(|(_, value)| *value < 0) {
            bail!(
                InvalidArgument,
                58,
                "ncclDevCommRequirements.{name} is {value} | counts start at 0 | fix: zero the struct before filling it"
            );
        }
        for (i, name, value) in entries {
            if value < 0 {
                bail!(
                    InvalidArgument,
                    58,
                    "{name} of resource requirement {i} is {value} | counts start at 0 | fix: zero the struct before filling it"
                );
            }
        }
        for (i, entry) in self.resources.iter().enumerate() {
            if entry.align != 0 && !entry.align.is_power_of_two() {
                bail!(
                    InvalidArgument,
                    58,
                    "bufferAlign of resource requirement {i} is {} | fix: 0 or a power of two",
                    entry.align
                );
            }
        }
        Ok(())
    }

    /// Places everything, for LSA teams of `lsa_size` and `contexts` GIN contexts (0 if GIN is inactive). `tells`: kernels look at what
    /// parts are for.
    pub fn layout(&self, lsa_size: u32, contexts: u32, tells: bool) -> Result<Layout> {
        self.check()?;
        let (n_rail, n_lsa) = (self.rail_barriers() as u64, self.lsa_barriers() as u64);
        let mut walk = Walk { at: 0, signals: self.gin_signal_count as u64, counters: self.gin_counter_count as u64 };
        // One epoch per rail barrier and context.
        let rail = walk.place(n_rail * 16, 0, n_rail, 0)?;
        // Three words per LSA barrier, and an inbox for each member.
        let lsa = walk.place(n_lsa * 4 * (3 + u64::from(lsa_size)), 4, 0, 0)?;
        let entries = self
            .resources
            .iter()
            .map(|entry| walk.place(entry.bytes, entry.align, entry.gin_signals as u64, entry.gin_counters as u64))
            .collect::<Result<_>>()?;
        let shadows = walk.place(0, 0, 0, 0).map(|_| walk.at)?;
        walk.grow(u64::from(contexts) * walk.signals * 8)?;
        let asked = self.resources.iter().map(|entry| (entry.bytes, entry.gin_signals as u32));
        let asked = std::iter::once((n_rail * 16, n_rail as u32)).chain(asked).zip(std::iter::once(&rail).chain(&entries));
        let part = |((bytes, signals), at): ((u64, u32), &Outputs)| ginrsResource {
            bytes,
            bufHandle: at.buffer_handle,
            signal0: at.signal_start,
            signals,
            pad: 0,
        };
        let parts: Vec<ginrsResource> = asked.map(part).filter(|_| tells && walk.at > 0).collect();
        let told = match parts.len() {
            0 => walk.at,
            n => {
                u64::from(walk.place((n * size_of::<ginrsResource>()) as u64, 8, 0, 0)?.buffer_handle)
                    * RESOURCE_HANDLE_UNIT as u64
            }
        };
        Ok(Layout {
            parts,
            told,
            rail,
            n_rail: n_rail as u32,
            lsa,
            n_lsa: n_lsa as u32,
            entries,
            shadows,
            used: walk.at,
            signals: walk.signals as u32,
            counters: walk.counters as u32,
            asked_signals: self.gin_signal_count as u32,
            asked_counters: self.gin_counter_count as u32,
        })
    }

    /// All that must be equal on every rank, as numbers; [`Requirements::field`] names them.
    pub fn words(&self) -> Vec<u64> {
        let number = |n: i32| i64::from(n) as u64;
        let mut words = vec![
            number(self.barrier_count),
            number(self.lsa_barrier_count),
            number(self.rail_gin_barrier_count),
            self.gin_force_enable.into(),
            number(self.gin_signal_count),
            number(self.gin_counter_count),
            self.resources.len() as u64,
        ];
        let entries = self.resources.iter();
        let entries = entries.flat_map(|e| [e.bytes, e.align, number(e.gin_signals), number(e.gin_counters)]);
        if self.resources.len() <= LISTED {
            words.extend(entries);
        } else {
            let mut digest = Sha256::new();
            entries.for_each(|word| digest.update(word.to_le_bytes()));
            words.extend(digest.finalize().as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)));
        }
        words
    }

    /// What word `i` of [`Requirements::words`] is called.
    pub fn field(&self, i: usize) -> String {
        const FIELDS: [&str; 7] = [
            "barrierCount",
            "lsaBarrierCount",
            "railGinBarrierCount",
            "ginForceEnable",
            "ginSignalCount",
            "ginCounterCount",
            "number of resource requirements",
        ];
        const ENTRY: [&str; 4] = ["bufferSize", "bufferAlign", "ginSignalCount", "ginCounterCount"];
        match FIELDS.get(i) {
            Some(name) => (*name).into(),
            None if self.resources.len() > LISTED => "digest of the resource requirements".into(),
            None => format!("{} of resource requirement {}", ENTRY[(i - FIELDS.len()) % 4], (i - FIELDS.len()) / 4),
        }
    }
}

struct Walk {
    at: u64,
    signals: u64,
    counters: u64,
}

impl Walk {
    fn place(&mut self, bytes: u64, align: u64, signals: u64, counters: u64) -> Result<Outputs> {
        let align = align.max(RESOURCE_HANDLE_UNIT as u64);
        let aligned = self.at.checked_next_multiple_of(align).unwrap_or(u64::MAX);
        self.at = aligned;
        // Checked before the cast: a handle counts units of 128 bytes in 32 bits.
        self.grow(bytes)?;
        let outputs = Outputs {
            buffer_handle: (aligned / RESOURCE_HANDLE_UNIT as u64) as u32,
            signal_start: self.signals as u32,
            counter_start: self.counters as u32,
        };
        self.signals += signals;
        self.counters += counters;
        if self.signals.max(self.counters) > i32::MAX as u64 {
            bail!(
                InvalidArgument,
                58,
                "too many signals or counters | {} and {} | fix: ask for fewer",
                self.signals,
                self.counters
            );
        }
        Ok(outputs)
    }

    fn grow(&mut self, bytes: u64) -> Result<()> {
        self.at = self.at.saturating_add(bytes);
        if self.at >= LIMIT {
            bail!(
                InvalidArgument,
                58,
                "resource buffers are too large | more than {} GiB in all | fix: ask for less",
                LIMIT >> 30
            );
        }
        Ok(())
    }
}
