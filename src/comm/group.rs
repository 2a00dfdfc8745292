//! When collective calls run: at once, or at the outermost ncclGroupEnd (spec host 1.2 and 6.6).
//!
//! The depth is per thread. One thread may drive several ranks, whose calls wait for each other: so at the end of a group
//! creations run side by side, then the lines (one per communicator, in the order windows, device communicators, each in
//! call order) of one clique run side by side. A clique is the communicators with one hash; cliques run one after the
//! other in the order of their hashes, which is the same in every process.
//!
//! Where the communicators are non-blocking all that goes to a thread of its own (`background`), except kernels alone.

mod open;

pub use self::open::{note, open, share, shared, start};
pub use super::background::CallObserver;

use self::open::{Group, Left};
use super::background;
use crate::error::{Code, Error, Result};
use crate::panic::catch;
use crate::{bail, fault, log};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A code whose error was already printed, by whoever knew the cause.
pub type Told = std::result::Result<(), Code>;

/// Which part of a group a job belongs to, in the order in which they run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Makes a communicator, of nothing or of another.
    Create,
    /// Registers a window.
    Window,
    /// Makes a device communicator.
    DevComm,
    /// Puts kernels on streams: waits for no peer, so it runs on the calling thread.
    Launch,
    /// Likewise, behind them: a group's sends and receives go together, whichever call came first.
    PointToPoint,
}

/// One deferred call.
pub struct Job {
    /// Its part of the group.
    pub stage: Stage,
    /// Hash of its communicator; not used for creations.
    pub clique: u64,
    /// Jobs of one line run one after the other. 0 for a creation of nothing: each is a line of its own.
    pub line: u64,
    /// Of its communicator: all of a group agree.
    pub blocking: bool,
    /// For `[dev]` in the log of the thread that runs it.
    pub device: i32,
    /// Who is in progress while it runs, if its communicator is non-blocking.
    pub progress: Option<Arc<dyn CallObserver>>,
    /// The work, where it is given Ok; it prints its own error. Given an error, its group has failed before it, and it does no more than
    /// tell the other ranks, who may wait for its call; that may wait for them.
    pub run: Box<dyn FnOnce(Told) -> Told + Send>,
}

/// Runs the job now, or at the end of the calling thread's group.
pub fn submit(job: Job) -> Told {
    let Some(job) = open::put_off(job) else { return Ok(()) };
    match job.blocking || job.stage >= Stage::Launch {
        true => perform(job, Ok(())),
        false => go_on(vec![job], Ok(())),
    }
}

/// Runs the jobs of non-blocking communicators on a thread of their own.
fn go_on(jobs: Vec<Job>, before: Told) -> Told {
    let concerned = jobs.iter().filter_map(|job| job.progress.clone()).collect();
    background::start(concerned, jobs, move |jobs| run_stages(jobs, before), |jobs, code| _ = run_stages(jobs, Err(code)))
}

/// ncclGroupEnd. Err(error) if there is no group; the inner value is what the group's jobs came to.
pub fn end() -> Result<Told> {
    close(true).map(|(told, _)| told)
}

/// ncclGroupSimulateEnd: [`end`] without the kernels. Also how many launches were left out; None in an inner group.
pub fn simulate_end() -> Result<(Told, Option<usize>)> {
    close(false)
}

fn close(launch: bool) -> Result<(Told, Option<usize>)> {
    let group = match open::leave() {
        Left::Inner => return Ok((Ok(()), None)),
        Left::None => {
            bail!(
                InvalidUsage,
                66,
                "no group is open | the end of a group | depth 0 on this thread | fix: call ncclGroupStart first"
            )
        }
        Left::Outermost(group) => group,
    };
    let Group { mut jobs, failed, .. } = *group;
    if let Some(code) = failed {
        give_up(jobs, code);
        return Ok((Err(code), Some(0)));
    }
    let left_out: Vec<Job> = jobs.extract_if(.., |job| !launch && job.stage >= Stage::Launch).collect();
    Ok((run_all(jobs)?, Some(left_out.len())))
}

fn run_all(jobs: Vec<Job>) -> Result<Told> {
    if let Some(job) = jobs.iter().find(|job| job.blocking != jobs[0].blocking) {
        let (stage, code) = (job.stage, Code::InvalidArgument);
        give_up(jobs, code);
        bail!(
            InvalidArgument,
            66,
            "blocking and non-blocking communicators in one group | ncclGroupEnd | the first differing call is a {stage:?} | fix: give \
             all communicators of a group the same ncclConfig_t.blocking"
        );
    }
    let waits = jobs.iter().any(|job| !job.blocking && job.stage < Stage::Launch);
    Ok(if waits { go_on(jobs, Ok(())) } else { run_stages(jobs, Ok(())) })
}

/// In the order in which the other ranks run theirs, also where they have failed before.
fn run_stages(jobs: Vec<Job>, before: Told) -> Told {
    let (creations, rest): (Vec<Job>, Vec<Job>) = jobs.into_iter().partition(|job| job.stage == Stage::Create);
    let created = side_by_side(lines_of(creations), before);
    let (launches, rest): (Vec<Job>, Vec<Job>) = rest.into_iter().partition(|job| job.stage >= Stage::Launch);
    let mut cliques: BTreeMap<u64, BTreeMap<u64, Vec<Job>>> = BTreeMap::new();
    for job in rest {
        cliques.entry(job.clique).or_default().entry(job.line).or_default().push(job);
    }
    // Every clique runs, also after one failed: its other ranks, in other processes, are in their calls already.
    let mut told = created;
    for lines in cliques.into_values() {
        told = told.and(side_by_side(lines.into_values().map(in_stage_order).collect(), created));
    }
    run_line(in_stage_order(launches), told)
}

/// Creations in call order; those that one communicator takes part in come one after the other.
fn lines_of(creations: Vec<Job>) -> Vec<Vec<Job>> {
    let mut lines: Vec<Vec<Job>> = Vec::new();
    for job in creations {
        match lines.iter_mut().find(|line| job.line != 0 && line[0].line == job.line) {
            Some(line) => line.push(job),
            None => lines.push(vec![job]),
        }
    }
    lines
}

fn in_stage_order(mut line: Vec<Job>) -> Vec<Job> {
    line.sort_by_key(|job| job.stage);
    line
}

/// Runs the lines, each on its own thread (a single one here), and returns the first failure in call order.
fn side_by_side(mut lines: Vec<Vec<Job>>, before: Told) -> Told {
    if lines.len() <= 1 {
        return run_line(lines.pop().unwrap_or_default(), before);
    }
    std::thread::scope(|scope| {
        let threads: Vec<_> = lines.into_iter().map(|line| start_line(scope, line, before)).collect();
        let mut told = before;
        for thread in threads {
            // A panic was caught inside; join fails only if the thread could not say so.
            told = told.and(thread.and_then(|thread| thread.join().unwrap_or(Err(Code::InternalError))));
        }
        told
    })
}

type Running<'scope> = std::thread::ScopedJoinHandle<'scope, Told>;

fn start_line<'scope>(
    scope: &'scope std::thread::Scope<'scope, '_>,
    line: Vec<Job>,
    before: Told,
) -> std::result::Result<Running<'scope>, Code> {
    let count = line.len();
    let start = || std::thread::Builder::new().name("ginrs group".into()).spawn_scoped(scope, move || run_line(line, before));
    fault::step("thread").map_err(Into::into).and_then(|()| start()).map_err(|cause: std::io::Error| {
        let text = format!("cannot start a thread | ncclGroupEnd, {count} calls of one communicator | {cause} | fix: raise the limit of threads (ulimit -u)");
        log::error(&Error::new(Code::SystemError, 27, text));
        Code::SystemError
    })
}

/// The jobs of one communicator; the first failure drops those behind it.
fn run_line(line: Vec<Job>, before: Told) -> Told {
    line.into_iter().fold(before, |told, job| perform(job, told))
}

fn perform(job: Job, before: Told) -> Told {
    log::set_device(job.device);
    let Job { run, .. } = job;
    let ran: Result<Told> = catch("a collective call", || Ok(run(before)));
    before.and(ran.unwrap_or_else(|error| {
        log::error(&error);
        Err(error.code)
    }))
}

/// None of the group's calls is made. Where communicators are non-blocking, their other ranks are told from a thread of its own.
fn give_up(jobs: Vec<Job>, code: Code) {
    let waits = |job: &Job| !job.blocking && job.line != 0 && job.stage < Stage::Launch;
    let (later, now): (Vec<Job>, Vec<Job>) = jobs.into_iter().partition(waits);
    let _ = run_stages(now, Err(code));
    if !later.is_empty() {
        let _ = go_on(later, Err(code));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Barrier, Mutex};

    type Record = Arc<Mutex<Vec<String>>>;

    fn job(record: &Record, stage: Stage, clique: u64, line: u64, name: &str, result: Told) -> Job {
        let (record, name) = (record.clone(), name.to_owned());
        Job {
            stage,
            clique,
            line,
            blocking: true,
            device: 0,
            progress: None,
            run: Box::new(move |before| {
                let dropped = before.err().map_or(String::new(), |code| format!(" dropped {}", code as i32));
                record.lock().unwrap().push(name + &dropped);
                result
            }),
        }
    }

    fn taken(record: &Record) -> Vec<String> {
        std::mem::take(&mut *record.lock().unwrap())
    }

    #[test]
    fn outside_a_group_a_job_runs_at_once() {
        let record = Record::default();
        assert_eq!(submit(job(&record, Stage::Window, 1, 1, "w", Err(Code::SystemError))), Err(Code::SystemError));
        assert_eq!(taken(&record), ["w"]);
        assert_eq!(end().unwrap_err().id, 66);
    }

    #[test]
    fn creations_then_cliques_by_hash_then_windows_before_devcomms_in_call_order() {
        let record = Record::default();
        start();
        start();
        for (stage, clique, name) in [
            (Stage::DevComm, 9, "d9"),
            (Stage::Window, 9, "w9a"),
            (Stage::Window, 4, "w4"),
            (Stage::Window, 9, "w9b"),
            (Stage::Create, 0, "create"),
            (Stage::DevComm, 4, "d4"),
        ] {
            submit(job(&record, stage, clique, clique, name, Ok(()))).unwrap();
        }
        assert_eq!(end().unwrap(), Ok(()));
        assert!(taken(&record).is_empty() && open());
        assert_eq!(end().unwrap(), Ok(()));
        assert_eq!(taken(&record), ["create", "w4", "d4", "w9a", "w9b", "d9"]);
        assert!(!open());
    }

    #[test]
    fn launches_come_last_in_call_order_on_the_calling_thread() {
        let record = Record::default();
        let here = std::thread::current().id();
        start();
        let calls = [(Stage::PointToPoint, 2, "p2"), (Stage::Launch, 2, "l2"), (Stage::Window, 1, "w"), (Stage::Launch, 1, "l1")];
        for (stage, line, name) in calls {
            let mut job = job(&record, stage, line, line, name, Ok(()));
            let run = job.run;
            job.run = Box::new(move |before| {
                assert!(stage < Stage::Launch || std::thread::current().id() == here);
                run(before)
            });
            submit(job).unwrap();
        }
        assert_eq!(end().unwrap(), Ok(()));
        assert_eq!(taken(&record), ["w", "l2", "l1", "p2"]);
        start();
        submit(job(&record, Stage::Launch, 1, 1, "l", Ok(()))).unwrap();
        submit(job(&record, Stage::Window, 1, 1, "w", Err(Code::SystemError))).unwrap();
        assert_eq!(end().unwrap(), Err(Code::SystemError));
        assert_eq!(taken(&record), ["w", "l dropped 2"]);
    }

    #[test]
    fn lines_of_a_clique_run_side_by_side() {
        let all = Arc::new(Barrier::new(8));
        start();
        for line in 0..8 {
            let all = all.clone();
            let mut meeting = job(&Record::default(), Stage::Window, 1, line, "", Ok(()));
            // Would wait for ever if two of them ran one after the other.
            meeting.run = Box::new(move |_| {
                all.wait();
                Ok(())
            });
            submit(meeting).unwrap();
        }
        assert_eq!(end().unwrap(), Ok(()));
    }

    #[test]
    fn the_latest_failed_call_decides_and_nothing_runs() {
        let record = Record::default();
        start();
        submit(job(&record, Stage::Create, 0, 0, "c", Ok(()))).unwrap();
        note(Code::InvalidArgument);
        note(Code::InvalidUsage);
        assert_eq!(end().unwrap(), Err(Code::InvalidUsage));
        assert_eq!(taken(&record), ["c dropped 5"]);
        start();
        assert_eq!(end().unwrap(), Ok(()), "a failed group leaves nothing behind");
    }

    #[test]
    fn a_failed_creation_drops_the_rest_and_a_panic_is_a_failure() {
        let record = Record::default();
        start();
        let mut bad = job(&record, Stage::Create, 0, 0, "c", Ok(()));
        bad.run = Box::new(|_| panic!("planted"));
        submit(bad).unwrap();
        submit(job(&record, Stage::Window, 1, 1, "w", Ok(()))).unwrap();
        assert_eq!(end().unwrap(), Err(Code::InternalError));
        assert_eq!(taken(&record), ["w dropped 3"]);
    }

    #[test]
    fn a_failure_stops_its_own_line_only() {
        let record = Record::default();
        start();
        submit(job(&record, Stage::Window, 1, 1, "a1", Err(Code::SystemError))).unwrap();
        submit(job(&record, Stage::DevComm, 1, 1, "a2", Ok(()))).unwrap();
        submit(job(&record, Stage::Window, 2, 2, "b", Ok(()))).unwrap();
        assert_eq!(end().unwrap(), Err(Code::SystemError));
        assert_eq!(taken(&record), ["a1", "a2 dropped 2", "b"]);
    }

    #[test]
    fn mixed_blocking_is_refused() {
        let record = Record::default();
        start();
        submit(job(&record, Stage::Window, 1, 1, "a", Ok(()))).unwrap();
        submit(Job { blocking: false, ..job(&record, Stage::Window, 2, 2, "b", Ok(())) }).unwrap();
        assert_eq!(end().unwrap_err().code, Code::InvalidArgument);
        // The others of a non-blocking one are told from a thread.
        while record.lock().unwrap().len() < 2 {
            std::thread::yield_now();
        }
        assert_eq!(taken(&record), ["a dropped 4", "b dropped 4"]);
    }
}
