//! Variables: what they are, and what is wrong with them.

use crate::Report;
use ginrs::{config, inspect};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What is set: name, value, where.
pub fn set() -> Vec<(&'static str, &'static str, &'static str)> {
    // The library sets it when it is loaded, and reads its settings later.
    const LOADING: &str = "CUDA_MODULE_LOADING";
    let began = std::fs::read("/proc/self/environ").unwrap_or_default();
    let users = began.split(|&byte| byte == 0).any(|line| line.starts_with(b"CUDA_MODULE_LOADING="));
    let origin = |name, origin| if name == LOADING && !users { "ginrs, when it is loaded" } else { origin };
    config::set().map(|(name, value, from)| (name, value, origin(name, from))).collect()
}

pub fn report() -> Report {
    let set: BTreeMap<_, _> = set().into_iter().map(|(name, value, origin)| (name, (value, origin))).collect();
    let mut text = String::new();
    let mut rows = Vec::new();
    for var in config::TABLE {
        let (default, may_be) = (var.kind.default_text(), var.kind.may_be());
        let (value, origin) = set.get(var.name).map_or((None, "default"), |(value, origin)| (Some(*value), *origin));
        let shown = match value {
            Some(value) => format!("{value:?} (from {origin}; default {default})"),
            None if default == "unset" => "unset".into(),
            None => format!("{default} (default)"),
        };
        text += &format!("{}: {shown}\n  {}: {}\n", var.name, may_be, var.doc);
        rows.push(
            json!({"name": var.name, "value": value, "origin": origin, "default": default, "may_be": may_be, "meaning": var.doc}),
        );
    }
    let others: Vec<_> = config::others().collect();
    if !others.is_empty() {
        text += "\nset, without effect here:\n";
        text += &others.iter().map(|(name, origin)| format!("{name} (from {origin})\n")).collect::<String>();
    }
    let others: Vec<Value> = others.iter().map(|(name, origin)| json!({"name": name, "origin": origin})).collect();
    Report { text, json: json!({"variables": rows, "without_effect": others}), status: 0 }
}

/// What the library would complain about, a line each: warnings, then what calls would fail with.
pub fn complaints() -> Vec<String> {
    let refused = inspect::refused_settings();
    config::complaints().iter().cloned().chain(refused.iter().map(|error| error.to_string())).collect()
}

pub fn lint() -> Report {
    let found = complaints();
    let json = found.iter().map(|line| {
        let rest = line.strip_prefix("GINRS-").unwrap_or(line);
        let (code, what) = rest.split_once(' ').unwrap_or(("", rest));
        let (what, fix) = what.rsplit_once(" | fix: ").map_or((what, None), |(what, fix)| (what, Some(fix)));
        json!({"code": code, "what": what, "fix": fix})
    });
    let text = match found.len() {
        0 => "no variable is unknown or has a value that cannot be meant\n".into(),
        _ => found.iter().map(|line| format!("{line}\n")).collect(),
    };
    Report { json: json!({"complaints": json.collect::<Value>()}), text, status: u8::from(!found.is_empty()) }
}
