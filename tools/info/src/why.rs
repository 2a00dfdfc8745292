//! The decision tree: this machine, and in a job every pair of ranks.

use crate::Report;
use crate::check::Check;
use crate::{devices, job, machine, settings, transports};
use ginrs::device::Kind;
use serde_json::json;

pub fn report() -> Result<Report, String> {
    let seat = job::seat()?;
    let (checks, job) = (checks(), seat.as_ref().map(job::meet).transpose()?);
    // One rank prints for all.
    if job.as_ref().is_some_and(|job| job.rank != 0) {
        return Ok(Report { text: String::new(), json: json!({}), status: 0 });
    }
    let (mut all, status) = (checks, job.as_ref().map_or(0, |job| job.status));
    all.extend(job.into_iter().map(|job| job.check));
    Ok(Report {
        text: all.iter().map(|check| check.text(0)).collect(),
        json: json!({"version": env!("CARGO_PKG_VERSION"), "checks": all.iter().map(Check::json).collect::<Vec<_>>()}),
        status,
    })
}

fn checks() -> Vec<Check> {
    let version = format!("{}, NCCL {}", env!("CARGO_PKG_VERSION"), ginrs::layout::NCCL_VERSION_CODE);
    vec![
        Check::note("ginrs", version),
        settings(),
        machine::identity(),
        machine::limits(),
        machine::network(),
        Check::note("devices", "").with(devices::checks()),
        Check::note("transports", "").with(transports::checks()),
        backends(),
    ]
}

fn settings() -> Check {
    let complaint = |line: &String| {
        let (code, what) = line.split_once(' ').unwrap_or(("", line));
        Check::no(code, what)
    };
    let found: Vec<Check> = settings::complaints().iter().map(complaint).collect();
    let set = settings::set();
    let set = set.iter().map(|(name, value, origin)| Check::note(format!("{name}={value}"), format!("from {origin}")));
    let set: Vec<Check> = set.collect();
    match found.is_empty() {
        true => Check::yes("settings", format!("{} set, nothing wrong with them", set.len())).with(set),
        false => Check::no("settings", "what ginrs-info lint-env says, too").with(found.into_iter().chain(set).collect()),
    }
}

/// Who carries out GIN's puts.
fn backends() -> Check {
    let reach = match devices::chosen().kind() {
        Kind::Cpu => "where all ranks are on one machine",
        Kind::Cuda => "where all GPUs reach each other's memory",
    };
    let direct = "compile all kernels with ginrs's headers and GINRS_GIN_DIRECT, or set NCCL_GIN_BACKEND=direct";
    Check::note("backends", "").with(vec![
        Check::yes("proxy", "always: a thread of the library carries puts by the transports above"),
        Check::note("direct", format!("{reach}: kernels store and signal themselves")).fix(direct),
        Check::note("GDAKI", "by a model of a card, which is slow and never chosen").fix("NCCL_GIN_TYPE=3").with(vec![cards()]),
    ])
}

/// mlx5 cards, whose queues kernels would fill.
fn cards() -> Check {
    const UNVERIFIED: &str = "for GINRS_NIC, on the CPU device: written, and never run on a card (docs/user/gdaki.md)";
    match ginrs::verbs::survey() {
        Err(why) => Check::no("cards", why),
        Ok(all) => Check::note("cards", UNVERIFIED).with(
            all.into_iter()
                .map(|card| match card.usable {
                    Ok(what) => Check::yes(card.name, what),
                    Err(why) => Check::no(card.name, why),
                })
                .collect(),
        ),
    }
}
