//! What soft-verbs was asked for by commands (SOFTVERBS_LOG), field by field: names of things masked, fields that are 0 left out.

use ginrs::verbs::prm::{CQC, Field, PATH, QPC, ads, cqc, create_cq, create_qp, head, qpc};
use std::collections::BTreeMap;

/// Fields whose values name a thing, and so differ from run to run.
#[rustfmt::skip]
const NAMES: &[&str] = &[
    "number", "pd", "uar_page", "cqn_snd", "cqn_rcv", "remote_qpn", "dbr_umem_id", "cq_umem_id", "wq_umem_id", "udp_sport",
];
/// Where in a memory a thing stands: each library's own, 0 for one of several.
const PLACES: &[&str] = &["dbr_addr", "cq_umem_offset", "wq_umem_offset"];

/// Fields of a command by name.
fn layout(command: &str) -> Vec<(&'static str, Field)> {
    let within = |fields: &[(&'static str, Field)], base: usize| -> Vec<_> {
        fields.iter().map(|(name, field)| (*name, field.within(base))).collect()
    };
    let head = [("opcode", head::opcode), ("uid", head::uid), ("op_mod", head::op_mod), ("number", head::number)];
    let rest = match command {
        "CREATE_CQ" => [within(cqc::ALL, CQC), within(create_cq::ALL, 0)].concat(),
        "CREATE_QP" | "RST2INIT_QP" | "INIT2RTR_QP" | "RTR2RTS_QP" => {
            [within(qpc::ALL, QPC), within(ads::ALL, QPC + PATH), within(create_qp::ALL, 0)].concat()
        }
        _ => Vec::new(),
    };
    head.into_iter().chain(rest).collect()
}

/// One command: its fields that are not 0, and every bit that belongs to none.
fn fields(command: &str, bytes: &[u8]) -> BTreeMap<String, String> {
    let layout = layout(command);
    let mut found: BTreeMap<String, String> = layout
        .iter()
        .map(|(name, field)| (*name, field.get(bytes)))
        .filter(|(name, value)| *value != 0 && !PLACES.contains(name))
        .map(|(name, value)| (name.to_owned(), if NAMES.contains(&name) { "named".into() } else { format!("{value:#x}") }))
        .collect();
    let known = |bit: usize| layout.iter().any(|(_, field)| (field.at..field.at + field.width).contains(&bit));
    let bits = (0..8 * bytes.len()).filter(|bit| bytes[bit / 8] >> (7 - bit % 8) & 1 == 1 && !known(*bit));
    found.extend(bits.map(|bit| (format!("bit {bit:#x}"), "0x1".into())));
    found
}

/// Every command of a log, each form of it once: "CREATE_QP" is of the queues that kernels write data to, "CREATE_QP that waits" of their
/// companions.
pub fn heard(log: &str) -> BTreeMap<String, BTreeMap<String, String>> {
    let mut heard = BTreeMap::new();
    for line in log.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split(' ').collect();
        let [command, "in", hex, "out", _] = words[..] else { panic!("a line of SOFTVERBS_LOG: {line}") };
        let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("two digits");
        let bytes: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
        let fields = fields(command, &bytes);
        let waits = ["cd_master", "next_rcv_psn"].iter().any(|field| fields.contains_key(*field));
        let about = match command {
            "QUERY_HCA_CAP" => format!("{command} {}", fields["op_mod"]),
            "CREATE_QP" if waits => format!("{command} that waits"),
            _ => command.to_owned(),
        };
        let before = heard.insert(about.clone(), fields.clone());
        assert!(before.as_ref().is_none_or(|before| *before == fields), "{about} in two forms: {before:?} and {fields:?}");
    }
    heard
}

/// Both libraries beside each other, a line for each field.
pub fn beside(ours: &str, theirs: &str) -> String {
    let (ours, theirs) = (heard(ours), heard(theirs));
    let none = BTreeMap::new();
    let mut text = String::new();
    let mut commands: Vec<&String> = ours.keys().chain(theirs.keys()).collect();
    commands.sort();
    commands.dedup();
    for command in commands {
        let [ours, theirs] = [&ours, &theirs].map(|heard| heard.get(command).unwrap_or(&none));
        let mut fields: Vec<&String> = ours.keys().chain(theirs.keys()).collect();
        fields.sort();
        fields.dedup();
        for field in fields {
            let [ours, theirs] = [ours, theirs].map(|fields| fields.get(field).map_or("-", String::as_str));
            let mark = if ours == theirs { "" } else { "  differs" };
            text += format!("{command:<20} {field:<16} {ours:<18} {theirs:<18}{mark}").trim_end();
            text.push('\n');
        }
    }
    text
}
