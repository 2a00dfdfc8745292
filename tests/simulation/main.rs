//! Whole communicators by seed: 2 to 8 ranks as threads of one process, on one machine or several, meet, connect, put, part and leave, under the
//! baton (the crate of that name, linked in): one thread at a time, as the seed has it, and time is virtual. The seed also draws what goes wrong.
//!
//! Nothing is lost, comes twice or comes before its payload; no wait is without end; whoever is told of a failure is told whose; nothing is left.
//!
//!     cargo test -p ginrs --test simulation                             a few dozen seeds
//!     cargo test -p ginrs --test simulation -- --seeds 10000 --from 1   many
//!     cargo test -p ginrs --test simulation -- --seed 17                one, with its plan and what the library says

#[path = "../common/mod.rs"]
mod common;
mod faults;
#[path = "../held/mod.rs"]
mod held;
mod hunt;
#[path = "../kernel/mod.rs"]
mod kernel;
mod plan;
mod rank;
mod run;
mod traffic;

use plan::{Canary, Plan};
use std::process::ExitCode;

/// Says that the process was made for one seed.
const ALONE: &str = "GINRS_TEST_ALONE";
/// Says that the plan is to be shown.
const VERBOSE: &str = "GINRS_TEST_VERBOSE";
/// In `make test`.
const SEEDS: u64 = 16;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        Some(arguments.get(at + 1).and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("{name} wants a number")))
    };
    if arguments.iter().any(|argument| argument == "--list") {
        return ExitCode::SUCCESS;
    }
    if std::env::var_os(ALONE).is_some() {
        let canary = number("--canary").map(|at| Plan::of_canary(Canary::ALL[at as usize]));
        return one(canary.unwrap_or_else(|| Plan::new(number("--seed").expect("--seed"))));
    }
    let well = match number("--seed") {
        Some(seed) => {
            let mut again = hunt::again(&["--seed", &seed.to_string()], None);
            again.env("NCCL_DEBUG", "INFO").env(VERBOSE, "1").status().expect("this program").success()
        }
        None => {
            let (first, count) = (number("--from").unwrap_or(1), number("--seeds").unwrap_or(SEEDS));
            hunt::canaries() & hunt::hunt(first, count, number("--within").unwrap_or(u64::MAX))
        }
    };
    ExitCode::from(u8::from(!well))
}

/// The one seed of this process.
fn one(plan: Plan) -> ExitCode {
    for (name, value) in plan.settings() {
        // SAFETY: there is no other thread yet.
        unsafe { std::env::set_var(name, value) };
    }
    if std::env::var_os(VERBOSE).is_some() {
        println!("{plan:?}");
    }
    // What its libraries do when they are loaded takes no turns: some sleep there, while the loader's lock keeps every other thread.
    // SAFETY: a library, by a name that ends with a zero; where it is not there the library of ours says so.
    unsafe { libc::dlopen(c"libfabric.so.1".as_ptr(), libc::RTLD_NOW) };
    ginrs_baton::baton::begin(plan.seed, u64::MAX);
    let outcome = run::run(&plan);
    if !outcome.violations.is_empty() {
        println!("{plan:?}");
    }
    outcome.violations.iter().for_each(|violation| println!("violation: {violation}"));
    println!("{}", run::line(&plan, &outcome));
    ExitCode::from(u8::from(!outcome.violations.is_empty()))
}
