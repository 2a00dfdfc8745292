//! Every step of set-up fails once: both ranks hear of it, and what was taken by then is given back.

mod common;
mod held;

use common::{all_others_sleep, processes, with_settings};
use ginrs::bootstrap::{Cancel, UniqueId};
use ginrs::comm::create::{Request, create};
use ginrs::comm::{Comm, child, finish};
use ginrs::devcomm::{self, Requirements};
use ginrs::device::{self, graveyard};
use ginrs::error::{Error, Result};
use ginrs::fault::{self, Fault, Which};
use ginrs::team::Config;
use held::{Held, held, listing, settled};
use std::sync::Arc;
use std::time::Duration;

const MIB: usize = 1 << 20;

/// Returns what is held once it has not changed over fifty reads at which all other threads slept.
fn at_rest() -> Held {
    let (mut last, mut looks) = (held(), 0);
    while looks < 50 {
        std::thread::sleep(Duration::from_millis(10));
        graveyard::sweep();
        let now = held();
        looks = if now == last { looks + u32::from(all_others_sleep()) } else { 0 };
        last = now;
    }
    last
}

fn end(comm: Arc<Comm>) {
    match comm.team.failure() {
        Some(_) => finish::abort(comm),
        None => finish::destroy(comm),
    }
}

fn join(id: &UniqueId, rank: u32, n_ranks: u32) -> Result<Arc<Comm>> {
    device::set_current(rank as i32)?;
    let (device, cancel) = (device::current()?, Cancel::new());
    create(Request { ids: vec![id.clone()], n_ranks, rank, config: Config::default(), device, origin: None, cancel })
}

/// Everything that a communicator can be asked to set up, up to the first error.
fn life(id: &UniqueId, rank: u32) -> Result<()> {
    let comm = join(id, rank, 2)?;
    let base = comm.team.device.alloc(2 * MIB);
    let lived = base.clone().and_then(|base| grow(&comm, base));
    // Only now: a rank whose last call succeeded hears of the other's failure here.
    let parted = lived.and_then(|()| comm.team.bootstrap.barrier("end of life"));
    let device = comm.team.device.clone();
    end(comm);
    if let Ok(base) = base {
        device.free(base).unwrap();
    }
    parted
}

fn grow(comm: &Arc<Comm>, base: u64) -> Result<()> {
    let first = comm.windows.register(base, MIB, 1)?;
    let plain = devcomm::create(&comm.devcomms, &comm.windows, &Requirements { lsa_barrier_count: 2, ..Default::default() })?;
    let with_gin = devcomm::create(
        &comm.devcomms,
        &comm.windows,
        &Requirements { gin_signal_count: 3, barrier_count: 1, ..Default::default() },
    )?;
    let second = comm.windows.register(base + MIB as u64, MIB, 0)?;
    let part = child::split(comm, 0, 0, Ok(Config::default()))?.expect("a child of both ranks");
    let grown = part.windows.register(base, MIB, 0).map(drop);
    end(part);
    grown?;
    devcomm::destroy(&comm.devcomms, &comm.windows, &with_gin.dev_comm)?;
    devcomm::destroy(&comm.devcomms, &comm.windows, &plain.dev_comm)?;
    comm.windows.deregister(second)?;
    comm.windows.deregister(first)
}

/// Numbers of errors that say that time was up: whoever gets one was not told.
fn is_late(error: &Error) -> bool {
    error.id == 17 || error.text.contains("GINRS_INIT_TIMEOUT") || error.text.contains("in time")
}

/// One life on both ranks, with rank `at` failing at its `n`th step; what came of it here. None when it has no such step.
fn one(control: &Comm, at: u32, n: u64) -> Option<String> {
    let rank = control.team.rank;
    let own = if rank == 0 { UniqueId::create().unwrap().bytes().to_vec() } else { Vec::new() };
    let ids = control.team.bootstrap.allgather(&format!("id of {at} {n}"), &own).unwrap();
    let id = UniqueId::from_bytes(ids[0][..].try_into().unwrap()).unwrap();
    fault::plant((rank == at && n > 0).then_some(Fault::Fail(Which::Nth(n))));
    let lived = life(&id, rank);
    let struck = fault::plant(None);
    if let Err(error) = &lived {
        assert!(!is_late(error), "rank {rank}, step {n} of rank {at}: {error}");
        // Nor is it told something that is not so: that links were closed by somebody else, that this is a bug.
        let wrong = error.id == 46 || error.text.contains("no such descriptor");
        assert!(!wrong, "rank {rank}, step {n} of rank {at}: {error}");
    }
    let said = [u8::from(lived.is_err()), u8::from(struck.is_some())];
    let all = control.team.bootstrap.allgather(&format!("outcome of {at} {n}"), &said).unwrap();
    let what = struck.unwrap_or_default();
    assert_eq!(all[0][0], all[1][0], "step {n} of rank {at} {what}: one rank has an error, the other none ({lived:?})");
    let strikes = all[at as usize][1] != 0;
    assert!(strikes || lived.is_ok(), "nothing was struck: {lived:?}");
    strikes.then(|| format!("step {n} of rank {at} {what}: {lived:?}"))
}

#[test]
fn a_step_that_fails_leaves_nothing_behind() {
    let name = "a_step_that_fails_leaves_nothing_behind";
    with_settings(name, &[("GINRS_TIMEOUT", "60"), ("GINRS_INIT_TIMEOUT", "60"), ("NCCL_DEBUG", "NONE")], || {
        processes(name, 2, 1, |control| {
            // What a process keeps for good is made by lives that succeed.
            (0..2).for_each(|_| assert_eq!(one(control, 0, 0), None));
            let before = at_rest();
            control.team.bootstrap.barrier("counted").unwrap();
            for at in 0..2 {
                let mut steps = 0;
                while let Some(what) = one(control, at, steps + 1) {
                    steps += 1;
                    let after = settled(before, common::hang_limit::HANG_LIMIT);
                    assert_eq!(after, before, "after {what}: {}", listing());
                    control.team.bootstrap.barrier("settled").unwrap();
                }
                assert!(steps > 30, "{steps} steps");
            }
        });
    });
}

/// The services of a process, started at first use.
#[test]
fn a_first_use_that_fails_leaves_nothing_behind() {
    let role = "GINRS_TEST_ROLE";
    common::set_up();
    match std::env::var(role).as_deref() {
        Ok(role) => {
            let id = || UniqueId::create().and_then(|id| join(&id, 0, 1));
            let mut n = 1;
            let comm = loop {
                fault::plant((role == "faulty").then_some(Fault::Fail(Which::Nth(n))));
                let made = id();
                if fault::plant(None).is_none() {
                    break made.unwrap();
                }
                made.map(end).unwrap_or_default();
                n += 1;
            };
            assert_eq!(role == "faulty", n > 4, "{n} steps");
            end(comm);
            println!("\nheld: {:?}\n{}", at_rest(), listing());
        }
        Err(_) => {
            let [clean, faulty] = ["clean", "faulty"].map(|what| {
                let mut again = std::process::Command::new(std::env::current_exe().unwrap());
                again.args(["--exact", "a_first_use_that_fails_leaves_nothing_behind", "--nocapture"]).env(role, what);
                let output = again.env("NCCL_DEBUG", "NONE").output().unwrap();
                assert!(output.status.success(), "{what}: {}", String::from_utf8_lossy(&output.stderr));
                String::from_utf8(output.stdout).unwrap()
            });
            let line = |text: &str| text.lines().find(|line| line.starts_with("held:")).unwrap().to_owned();
            assert_eq!(line(&faulty), line(&clean), "{faulty}\n{clean}");
        }
    }
}
