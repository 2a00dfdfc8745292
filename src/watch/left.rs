//! Waits of kernels on ranks that have left in good order. A host step with such a rank ends at once (E042); a kernel waits for a
//! word, and nobody may write it any more.
//!
//! What is told from what, after a rank has left (docs/internals/failure-detection.md):
//! ```text
//! a kernel says that it waits for that rank, and its process has ended    over after GONE
//! a kernel says that it waits for that rank                               over after GINRS_TIMEOUT
//! a collective or message needs a call that the rank has left without     over after SURE, GONE on a GPU
//! a kernel says that it waits, and nothing moves on any rank that is left over after GINRS_TIMEOUT
//! a kernel that says nothing runs on, and nothing moves on any rank       over after GINRS_TIMEOUT
//! ```
//! Kernels compiled with our headers say so (include/ginrs_device/marker.h). One of them that computes says nothing, so what runs counts
//! only in a program that has no such kernels.
#![forbid(unsafe_code)]

use crate::abort::Waiting;
use crate::error::{Code, Error};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long the last message of a process that has ended may be on its way. Other ranks' service threads may have little time.
const GONE: Duration = Duration::from_secs(2);
/// So long the answer to an earlier call may be on its way, for which a call that needs no other waits, too.
const SURE: Duration = Duration::from_millis(500);
/// A wait that says nothing for so long has ended: it speaks every millisecond, but the machine may be busy.
const SILENT: Duration = Duration::from_secs(2);

/// The program has kernels whose waits leave notes.
static NOTES: AtomicBool = AtomicBool::new(false);

/// Says that the program's kernels leave notes of their waits.
pub fn kernels_leave_notes() {
    NOTES.store(true, Ordering::Relaxed);
}

/// A rank that has left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Leaver {
    /// `rank 1 (pid 77)`.
    pub name: String,
    /// Its process has ended.
    pub ended: bool,
}

/// A rank of this process, now.
pub(super) struct Here {
    pub rank: u32,
    /// What its kernels said since the last look.
    pub wait: Option<Waiting>,
    /// For how long a kernel has run that says nothing.
    pub running: Option<Duration>,
    /// A call of a rank that has left is missed.
    pub lack: Option<Lack>,
}

/// A call that a rank has left without, and that a kernel of another waits for.
pub(super) struct Lack {
    /// Who has left.
    pub absent: u32,
    /// What waits, and which call that is (`calls`).
    pub call: String,
    pub text: String,
    /// How long the wait has lasted; None where it may be that of an earlier call.
    pub since: Option<Duration>,
}

/// What is seen at one look.
pub(super) struct Scene {
    /// Since the last one; time in which this process or one that is waited for stood still is none.
    pub elapsed: Duration,
    pub left: BTreeMap<u32, Leaver>,
    /// Changes when anything moves on a rank that has not left.
    pub moves: u64,
    pub here: Vec<Here>,
}

/// A wait of one rank here.
#[derive(Clone, Copy)]
struct Seen {
    wait: Waiting,
    lasts: Duration,
    silent: Duration,
    /// A line tells of it.
    told: bool,
}

/// The looks at one communicator.
#[derive(Default)]
pub(super) struct Vigil {
    left: Vec<u32>,
    moves: u64,
    still: Duration,
    waits: HashMap<u32, Seen>,
    /// A kernel of the program's has said that it waits, at some time.
    speaks: bool,
}

impl Vigil {
    /// One look. The rank here that waits in vain, and what to tell all.
    pub fn look(&mut self, scene: &Scene, patience: Duration, tag: &str) -> Option<(u32, Error)> {
        let same = self.left.iter().eq(scene.left.keys()) && self.moves == scene.moves;
        self.still = if same { self.still + scene.elapsed } else { Duration::ZERO };
        self.moves = scene.moves;
        if !same {
            self.left = scene.left.keys().copied().collect();
        }
        for here in &scene.here {
            self.note(here, scene.elapsed);
        }
        self.waits.retain(|rank, _| scene.here.iter().any(|here| here.rank == *rank));
        if scene.left.is_empty() {
            return None;
        }
        scene.here.iter().find_map(|here| Some((here.rank, self.judge(here, scene, patience, tag)?)))
    }

    /// True where the program's kernels say that they wait, or have: their silence says something, too.
    pub fn speaks(&self) -> bool {
        self.speaks || NOTES.load(Ordering::Relaxed)
    }

    /// Waits of ranks here that last for at least `time`.
    pub fn long(&self, time: Duration) -> Vec<(u32, Waiting, Duration)> {
        let long = |(rank, seen): (&u32, &Seen)| (seen.lasts >= time).then_some((*rank, seen.wait, seen.lasts));
        self.waits.iter().filter_map(long).collect()
    }

    /// The same, each wait once, and not what may be over by now.
    pub fn due(&mut self, time: Duration) -> Vec<(u32, Waiting, Duration)> {
        let due = |seen: &Seen| seen.lasts >= time && seen.silent.is_zero() && !seen.told;
        let mut all = Vec::new();
        for (rank, seen) in self.waits.iter_mut().filter(|(_, seen)| due(seen)) {
            seen.told = true;
            all.push((*rank, seen.wait, seen.lasts));
        }
        all
    }

    fn note(&mut self, here: &Here, elapsed: Duration) {
        self.speaks |= here.wait.is_some_and(|wait| !wait.is_own());
        let seen = self.waits.get(&here.rank).copied();
        let seen = match (here.wait, seen) {
            (Some(wait), Some(seen)) if seen.wait == wait => Seen { lasts: seen.lasts + elapsed, silent: Duration::ZERO, ..seen },
            (Some(wait), _) => Seen { wait, lasts: Duration::ZERO, silent: Duration::ZERO, told: false },
            (None, Some(seen)) if seen.silent + elapsed < SILENT => {
                Seen { lasts: seen.lasts + elapsed, silent: seen.silent + elapsed, ..seen }
            }
            (None, _) => {
                self.waits.remove(&here.rank);
                return;
            }
        };
        self.waits.insert(here.rank, seen);
    }

    fn judge(&self, here: &Here, scene: &Scene, patience: Duration, tag: &str) -> Option<Error> {
        let rank = here.rank;
        // What was said a while ago may be over by now.
        let seen = self.waits.get(&rank).filter(|seen| seen.silent.is_zero());
        if let Some(lack) = &here.lack
            && let Some(leaver) = scene.left.get(&lack.absent)
            && lack.since.map_or(seen.is_some_and(|seen| seen.lasts >= GONE), |since| since >= SURE)
        {
            let Lack { absent, call, text, .. } = lack;
            let text = format!("{} has left, and rank {rank} waits for it in {call} | {tag} | {text} | {FIX_CALLS}", leaver.name);
            return Some(Error::new(Code::RemoteError, 39, text).by(*absent));
        }
        if let Some(Seen { wait, lasts, .. }) = seen
            && let Some(absent) = wait.rank()
            && let Some(leaver) = scene.left.get(&absent)
            && *lasts >= if leaver.ended { GONE.min(patience) } else { patience }
        {
            let ended = if leaver.ended { ", and its process has ended" } else { "" };
            let text = format!(
                "{} has left, and rank {rank} waits for it | {tag} | {wait} of rank {rank} has lasted {:.1} s; the other destroyed its communicator{ended} | {FIX}",
                leaver.name,
                lasts.as_secs_f64()
            );
            return Some(Error::new(Code::RemoteError, 39, text).by(absent));
        }
        if self.still < patience {
            return None;
        }
        let what = match seen {
            Some(seen) if seen.lasts >= patience => format!("{} of rank {rank} lasts", seen.wait),
            _ if !self.speaks() && here.running.is_some_and(|running| running >= patience / 2) => {
                format!("a kernel of rank {rank} runs on, and most likely waits")
            }
            _ => return None,
        };
        let names: Vec<&str> = scene.left.values().take(8).map(|leaver| leaver.name.as_str()).collect();
        let more = if scene.left.len() > 8 { format!(" and {} more", scene.left.len() - 8) } else { String::new() };
        let text = format!(
            "{}{more} {} left, and rank {rank} waits | {tag} | {what}, and nothing of this communicator has moved on any rank for {} s | {FIX}, or raise GINRS_TIMEOUT",
            names.join(", "),
            if scene.left.len() == 1 { "has" } else { "have" },
            self.still.as_secs()
        );
        Some(Error::new(Code::RemoteError, 39, text).by(*scene.left.keys().next()?))
    }
}

const FIX_CALLS: &str = "fix: let every rank make the calls that the others make before it calls ncclCommDestroy";
const FIX: &str = "fix: let no rank call ncclCommDestroy before the kernels and collectives of all ranks that need it have ended";

#[cfg(test)]
mod tests {
    use super::*;

    const T: Duration = Duration::from_secs(10);
    const TICK: Duration = Duration::from_millis(250);

    fn wait(stamp: u64, kind: u64, rank: u64) -> Option<Waiting> {
        Some(Waiting::from_note(stamp << 32 | kind << 24 | rank))
    }

    fn scene(left: &[(u32, bool)], moves: u64, wait: Option<Waiting>, running: Option<Duration>) -> Scene {
        let leaver = |&(rank, ended): &(u32, bool)| (rank, Leaver { name: format!("rank {rank} (pid 7)"), ended });
        Scene {
            elapsed: TICK,
            left: left.iter().map(leaver).collect(),
            moves,
            here: vec![Here { rank: 0, wait, running, lack: None }],
        }
    }

    /// Seconds until it is told, of 30.
    fn told(vigil: &mut Vigil, at: impl Fn(u32) -> Scene) -> Option<(f64, Error)> {
        (0..120).find_map(|n| {
            let (rank, error) = vigil.look(&at(n), T, "comm 0x1")?;
            assert_eq!((rank, error.id), (0, 39));
            Some((f64::from(n) / 4.0, error))
        })
    }

    #[test]
    fn a_wait_for_a_rank_whose_process_has_ended_is_told_soon() {
        let (after, error) = told(&mut Vigil::default(), |n| scene(&[(1, true)], n.into(), wait(5, 2, 1), None)).unwrap();
        assert!((2.0..3.0).contains(&after), "{after}");
        assert!(
            error.text.starts_with("rank 1 (pid 7) has left, and rank 0 waits for it") && error.culprit == Some(1),
            "{error}"
        );
        let (after, _) = told(&mut Vigil::default(), |n| scene(&[(1, false)], n.into(), wait(5, 2, 1), None)).unwrap();
        assert!((10.0..11.0).contains(&after), "{after}");
    }

    #[test]
    fn a_wait_for_one_who_is_there_or_for_anybody_is_told_when_nothing_moves() {
        for kind in [0, 1, 2, 3] {
            let still = |_| scene(&[(1, true)], 7, wait(5, kind, 2), None);
            let (after, _) = told(&mut Vigil::default(), still).unwrap();
            assert!((10.0..11.0).contains(&after), "{after}");
            let moving = |n: u32| scene(&[(1, true)], (n / 30).into(), wait(5, kind, 2), None);
            assert!(told(&mut Vigil::default(), moving).is_none());
            let others = |n: u32| scene(&[(1, true)], 7, wait((n / 30).into(), kind, 2), None);
            assert!(told(&mut Vigil::default(), others).is_none(), "a kernel that waits again and again goes on");
            assert!(told(&mut Vigil::default(), |_| scene(&[], 7, wait(5, kind, 2), Some(T))).is_none(), "nobody has left");
        }
    }

    #[test]
    fn a_busy_machine_may_keep_a_wait_from_speaking_for_a_while() {
        let (after, _) =
            told(&mut Vigil::default(), |n| scene(&[(1, false)], 7, wait(5, 0, 0).filter(|_| n % 5 == 0), None)).unwrap();
        assert!((10.0..12.0).contains(&after), "{after}");
        let ended = |n| scene(&[(1, false)], 7, wait(5, 0, 0).filter(|_| n < 20), None);
        assert!(told(&mut Vigil::default(), ended).is_none());
    }

    #[test]
    fn a_long_wait_is_due_once_while_all_ranks_are_there() {
        let mut vigil = Vigil::default();
        let mut due = |n: u32, stamp: u64| {
            vigil.look(&scene(&[], n.into(), wait(stamp, 2, 1), None), T, "");
            assert_eq!(vigil.long(T / 2).len(), usize::from(n % 100 > 19), "{n}");
            vigil.due(T).len()
        };
        assert_eq!((0..100).map(|n| due(n, 5)).sum::<usize>(), 1);
        // The next one.
        assert_eq!((100..139).map(|n| due(n, 6)).sum::<usize>(), 0);
        assert_eq!((139..160).map(|n| due(n, 6)).sum::<usize>(), 1);
    }

    #[test]
    fn what_runs_counts_only_where_no_kernel_ever_spoke() {
        let silent = |_| scene(&[(1, false)], 7, None, Some(T));
        let (after, error) = told(&mut Vigil::default(), silent).unwrap();
        assert!((10.0..11.0).contains(&after) && error.text.contains("most likely waits"), "{error}");
        let mut vigil = Vigil::default();
        vigil.look(&scene(&[], 7, wait(3, 0, 0), None), T, "");
        assert!(told(&mut vigil, silent).is_none());
        // The library's own kernels are compiled with our headers in any program.
        let mut vigil = Vigil::default();
        vigil.look(&scene(&[], 7, wait(3, 0x84, 1), None), T, "");
        assert!(told(&mut vigil, silent).is_some());
        assert!(told(&mut Vigil::default(), |_| scene(&[(1, false)], 7, None, Some(TICK))).is_none(), "short kernels");
    }

    #[test]
    fn a_second_leave_gives_the_rest_new_time() {
        let left = |n| if n < 30 { vec![(1, false)] } else { vec![(1, false), (2, false)] };
        let (after, error) = told(&mut Vigil::default(), |n| scene(&left(n), 7, wait(5, 0, 0), None)).unwrap();
        assert!(
            (17.0..18.5).contains(&after) && error.text.contains("rank 1 (pid 7), rank 2 (pid 7) have left"),
            "{after} {error}"
        );
    }
}
