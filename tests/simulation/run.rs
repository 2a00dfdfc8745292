//! One seed: a life without faults first, then the one that the seed has drawn, and what must be true behind it.

use crate::faults::{Faults, connections};
use crate::held::{Held, held, listing, settled};
use crate::plan::{Canary, Fault, Plan};
use crate::rank::{Rank, Stop};
use ginrs::bootstrap::UniqueId;
use ginrs::device::graveyard;
use ginrs::fault::{self, Fault as Planted, Which};
use ginrs_baton::trace;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// So long everything may take, in virtual time: more than all deadlines one behind the other.
const LONGEST: Duration = Duration::from_secs(240);

/// Longest time, in virtual time, until what has ended is closed.
const SETTLES: Duration = Duration::from_secs(20);

/// Number of the error that a rank has left.
const LEFT: u16 = 42;

/// What came of a seed.
pub struct Outcome {
    /// Faults that struck.
    pub faults: u32,
    /// Ranks that heard of a failure.
    pub failed: usize,
    pub violations: Vec<String>,
    /// What the run came to, in virtual time.
    pub took: Duration,
}

/// Runs `plan`. The process has its settings, and one thread.
pub fn run(plan: &Plan) -> Outcome {
    // What a process keeps for good is made by a life that succeeds.
    let quiet = Plan { faults: Vec::new(), canary: None, rounds: 1, ..plan.clone() };
    let (lived, _) = live(&quiet);
    let mut violations: Vec<String> = judge(&quiet, &lived);
    let before = at_rest();
    let begin = Instant::now();
    if let Some(step) = plan.faults.iter().find_map(|fault| if let Fault::Fail { step } = fault { Some(*step) } else { None }) {
        fault::plant(Some(Planted::Fail(Which::Nth(step))));
    }
    let (lived, faults) = live(plan);
    let struck = fault::plant(None);
    let _leak = (plan.canary == Some(Canary::Leak)).then(|| std::fs::File::open("/dev/null"));
    let took = begin.elapsed();
    violations.extend(judge(plan, &lived));
    if took > LONGEST {
        violations.push(format!("it took {} s", took.as_secs()));
    }
    let after = settled(before, SETTLES);
    // What fails or is cut ends all that connects at that moment. libfabric forgets who has connected and ends, or whose listener ends, before it
    // has said what for, and for how long it lives nobody can tell from outside.
    let cut = lived.iter().any(Result::is_err) || plan.faults.iter().any(|fault| matches!(fault, Fault::Cut { .. }));
    let more = after.descriptors.saturating_sub(before.descriptors);
    let forgotten = if cut { more.min(connections().len()) } else { 0 };
    if (Held { descriptors: after.descriptors - forgotten, ..after }) != before {
        violations.push(format!("it held {before:?} before and {after:?} behind: {}", listing()));
    }
    let failed = lived.iter().filter(|lived| matches!(lived, Err(Stop::Failed { .. }))).count();
    let ends = lived.iter().filter(|lived| matches!(lived, Err(Stop::Ends))).count();
    Outcome { faults: faults + u32::from(struck.is_some()) + ends as u32, failed, violations, took }
}

type Lived = Result<(), Stop>;

/// All ranks of it, on threads; and how many faults struck by themselves.
fn live(plan: &Plan) -> (Vec<Lived>, u32) {
    let faults = Arc::new(Faults::default());
    let id = UniqueId::create().expect("an id");
    let lived = std::thread::scope(|scope| {
        let (at, list) = (faults.clone(), &plan.faults);
        let striking = scope.spawn(move || at.run(list));
        let ranks: Vec<_> = (0..plan.ranks)
            .map(|rank| {
                let (plan, id) = (&plan, &id);
                let thread = std::thread::Builder::new().name(format!("rank {rank}"));
                thread.spawn_scoped(scope, move || Rank::new(plan, id, rank).run()).expect("a thread")
            })
            .collect();
        let panicked = || Err(Stop::Violation("a rank panicked".into()));
        let lived = ranks.into_iter().map(|rank| rank.join().unwrap_or_else(|_| panicked())).collect();
        faults.end();
        striking.join().expect("faults");
        lived
    });
    (lived, faults.struck.load(std::sync::atomic::Ordering::Relaxed))
}

/// What must not be.
fn judge(plan: &Plan, all: &[Lived]) -> Vec<String> {
    let mut violations = Vec::new();
    for (rank, lived) in all.iter().enumerate() {
        match lived {
            Ok(()) | Err(Stop::Ends) => {}
            Err(Stop::Violation(what)) => violations.push(what.clone()),
            Err(Stop::Failed { error, culprit }) => {
                if !plan.is_fatal() {
                    violations.push(format!("rank {rank} failed, and nothing was wrong: {error}"));
                }
                let named =
                    |who: u32| *culprit == Some(who) || error.text.contains(&format!("rank {who}")) || names(&error.text, who);
                // Who was told in a child leaves the parent, too, and may be the first to.
                let is_next = error.id == LEFT && culprit.is_some_and(|rank| all[rank as usize].is_err());
                if let Some(who) = plan.culprit().filter(|who| !named(*who) && !is_next) {
                    violations.push(format!("rank {rank} was told of {culprit:?}, it was rank {who}: {error}"));
                }
            }
        }
    }
    violations
}

/// `missing 1, 3`.
fn names(text: &str, rank: u32) -> bool {
    text.contains("missing") && text.split(|c: char| !c.is_ascii_digit()).any(|number| number.parse() == Ok(rank))
}

/// What is held when all that has ended is gone.
fn at_rest() -> Held {
    let (mut last, mut looks) = (held(), 0);
    while looks < 10 {
        std::thread::sleep(Duration::from_millis(100));
        graveyard::sweep();
        let now = held();
        looks = if now == last { looks + 1 } else { 0 };
        last = now;
    }
    last
}

/// The line that says how it went.
pub fn line(plan: &Plan, outcome: &Outcome) -> String {
    let (choices, hash, reasons) = trace::told().unwrap_or_default();
    let reasons: Vec<&str> = reasons.lines().collect();
    format!(
        "seed {}: {} faults, {} violations, {} of {} ranks failed, {} ms, {choices} choices, trace {hash:016x}{}",
        plan.seed,
        outcome.faults,
        outcome.violations.len(),
        outcome.failed,
        plan.ranks,
        outcome.took.as_millis(),
        if reasons.is_empty() { String::new() } else { format!("; another run may differ: {}", reasons.join("; ")) }
    )
}
