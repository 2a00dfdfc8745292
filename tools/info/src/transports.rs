//! What can carry GIN's puts: what each transport needs here, and what it says of pairs of ranks.

use crate::Report;
use crate::check::Check;
use crate::devices;
use ginrs::device::Kind;
use ginrs::inspect;
use ginrs::transport::factory::LIST;
use ginrs::transport::select::Verdict;

/// Pairs that there can be: words, and whether process, machine and reach are one.
const PAIRS: [(&str, bool, bool, bool); 4] = [
    ("ranks of one process", true, true, true),
    ("processes of one machine", false, true, true),
    ("processes of one machine whose GPUs do not reach each other", false, true, false),
    ("ranks of two machines", false, false, false),
];

pub fn checks() -> Vec<Check> {
    let device = devices::chosen();
    let here = inspect::transports(&*device).into_iter().map(|(name, here)| match here {
        Ok(()) => Check::yes(name, "has what it needs here"),
        Err(why) => Check::no(name, why),
    });
    let kind = device.kind();
    let shown = PAIRS.iter().filter(|(_, _, machine, reached)| *reached || !machine || kind == Kind::Cuda);
    let pairs = shown.map(|&(who, process, machine, reached)| {
        let verdict = inspect::verdict_of(&*device, process, machine, reached);
        of_pair(who.to_owned(), &verdict)
    });
    let asked = ginrs::config::text("GINRS_TRANSPORT").filter(|name| !name.eq_ignore_ascii_case("auto"));
    let devices = if kind == Kind::Cuda { "GPUs" } else { "the CPU device" };
    let order = match asked {
        Some(name) => format!("GINRS_TRANSPORT={name} is taken or the communicator's first use of GIN fails; between {devices}:"),
        None => format!("between {devices}, the first of the list that can is taken (GINRS_TRANSPORT names one)"),
    };
    vec![Check::note("list", "in order of preference").with(here.collect()), Check::note("choice", order).with(pairs.collect())]
}

/// Which transport serves a pair, and what the others said.
pub fn of_pair(who: String, verdict: &Verdict) -> Check {
    let refused = verdict.refused.iter().map(|(name, why)| Check::no(*name, why.as_ref())).collect();
    match verdict.chosen {
        Some((at, why)) => Check::yes(who, format!("{} ({why})", LIST[at].name())).with(refused),
        None => {
            Check::no(who, "no transport carries").fix("do what one of the reasons asks for, or run on one machine").with(refused)
        }
    }
}

pub fn report() -> Report {
    let checks = checks();
    Report {
        text: checks.iter().map(|check| check.text(0)).collect(),
        json: serde_json::json!({"transports": checks.iter().map(Check::json).collect::<Vec<_>>()}),
        status: 0,
    }
}
