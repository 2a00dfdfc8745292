//! Settings: every variable that this library reads stands in [`TABLE`], and docs/environment.md is generated from it.
//!
//! Parsed as NCCL does (spec host 4.10): the environment wins over NCCL_CONF_FILE (or ~/.nccl.conf), which wins over
//! /etc/nccl.conf; integers as strtoll with base 0. Read once per process; a forked child reads again.

use crate::process::PerProcess;
use crate::{info, warn};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

mod table;
pub use table::{Kind, TABLE, Var};

/// What was set when this process first asked.
struct Settings {
    values: BTreeMap<String, Value>,
    complaints: Vec<String>,
    reported: AtomicBool,
}

struct Value {
    text: String,
    source: String,
}

/// An integer variable of the table; its default when unset, empty or out of range.
pub fn int(name: &str) -> i64 {
    let Some(Var { kind: Kind::Int(default), .. }) = table::find(name) else {
        debug_assert!(false, "{name} is no integer of the table in config/table.rs");
        return 0;
    };
    settings().get(name).and_then(parse_int).map_or(*default, |parsed| parsed.value)
}

/// A text variable of the table; None when unset or empty.
pub fn text(name: &str) -> Option<String> {
    debug_assert!(table::find(name).is_some(), "{name} is not in the table in config/table.rs");
    settings().get(name).map(str::to_owned)
}

/// An integer variable of the table that counts seconds; below 0 counts as 0.
pub fn seconds(name: &str) -> Duration {
    Duration::from_secs(int(name).max(0).unsigned_abs())
}

/// Says once per process what was set and from where (NCCL_DEBUG=INFO), and warns of what cannot be meant.
/// Called by the first thing that a program does with the library.
pub fn report() {
    let settings = settings();
    if settings.reported.swap(true, Ordering::AcqRel) {
        return;
    }
    for complaint in &settings.complaints {
        warn!("{complaint}");
    }
    for var in TABLE {
        if let Some(value) = settings.values.get(var.name) {
            let shown = if var.kind == Kind::Secret { "(secret)" } else { &value.text };
            info!(ENV, "{} set by {} to {shown}", var.name, value.source);
        }
    }
}

fn settings() -> &'static Settings {
    static SETTINGS: PerProcess<Settings> = PerProcess::new();
    SETTINGS.get(|| {
        let environment =
            std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.to_string_lossy().into_owned())));
        let home = std::env::var("HOME").unwrap_or_default();
        Settings::load(environment.collect(), &home, |path| match std::fs::read_to_string(path) {
            Ok(text) => Some(Ok(text)),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
            Err(e) => Some(Err(e.to_string())),
        })
    })
}

impl Settings {
    fn load(environment: Vec<(String, String)>, home: &str, read: impl Fn(&str) -> Option<Result<String, String>>) -> Self {
        let mut own = Self { values: BTreeMap::new(), complaints: Vec::new(), reported: AtomicBool::new(false) };
        let mut chosen_file = None;
        for (name, text) in environment {
            if name == "NCCL_CONF_FILE" && !text.is_empty() {
                chosen_file = Some(text.clone());
            }
            own.set(name, text, "environment");
        }
        let user_file = chosen_file.clone().unwrap_or_else(|| format!("{home}/.nccl.conf"));
        for path in [user_file.as_str(), "/etc/nccl.conf"] {
            match read(path) {
                Some(Ok(text)) => own.add_file(path, &text),
                Some(Err(e)) => own.complain(format!("settings file cannot be read | {path} | {e} | fix: make it readable")),
                None if chosen_file.as_deref() == Some(path) => {
                    own.complain(format!(
                        "NCCL_CONF_FILE names no file | {path} | not found | fix: correct the path or unset it"
                    ));
                }
                None => {}
            }
        }
        own.check();
        own
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(|value| value.text.as_str())
    }

    /// The first source that names a variable wins. Empty means unset.
    fn set(&mut self, name: String, text: String, source: &str) {
        if !text.is_empty() && !self.values.contains_key(&name) {
            self.values.insert(name, Value { text, source: source.to_owned() });
        }
    }

    /// NAME=VALUE lines, `#` in column 0 starts a comment, nothing is trimmed.
    fn add_file(&mut self, path: &str, text: &str) {
        for (number, line) in (1..).zip(text.lines()) {
            match line.split_once('=') {
                _ if line.is_empty() || line.starts_with('#') => {}
                Some((name, value)) if !name.is_empty() => self.set(name.to_owned(), value.to_owned(), path),
                _ => self.complain(format!(
                    "settings line is not NAME=VALUE | {path}:{number} | \"{line}\" | fix: write NAME=VALUE or # comment"
                )),
            }
        }
    }

    fn complain(&mut self, text: String) {
        self.complaints.push(format!("GINRS-E010 {text}"));
    }

    fn check(&mut self) {
        let mut found = Vec::new();
        for (name, value) in &self.values {
            match table::find(name) {
                Some(var) => found.extend(misread(var, &value.text).map(|how| {
                    format!("{how} | {name} from {} | \"{}\" | fix: write a number, as 10 or 0x10", value.source, value.text)
                })),
                None if (name.starts_with("NCCL_") || name.starts_with("GINRS_")) && !table::known(name) => {
                    let hint = table::nearest(name)
                        .map_or("fix: see docs/environment.md".into(), |near| format!("fix: did you mean {near}?"));
                    found.push(format!("unknown variable {name} | from {} | it has no effect | {hint}", value.source));
                }
                None => {}
            }
        }
        found.into_iter().for_each(|text| self.complain(text));
    }
}

/// What strtoll would silently do to this text, in words; None when it is a plain number.
fn misread(var: &Var, text: &str) -> Option<String> {
    let Kind::Int(default) = var.kind else { return None };
    match parse_int(text) {
        None => Some(format!("number is out of range, using the default {default}")),
        Some(Parsed { digits: 0, .. }) => Some("not a number, read as 0".into()),
        Some(Parsed { value, rest, .. }) if !rest.trim().is_empty() => {
            Some(format!("text after a number is ignored, read as {value}"))
        }
        Some(_) => None,
    }
}

struct Parsed<'a> {
    value: i64,
    digits: usize,
    rest: &'a str,
}

/// strtoll with base 0: blanks, sign, 0x and 0 prefixes, trailing text ignored, no digits gives 0. None when out of range.
fn parse_int(text: &str) -> Option<Parsed<'_>> {
    let body = text.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '\x0b');
    let (negative, body) = match body.as_bytes().first() {
        Some(b'-') => (true, &body[1..]),
        Some(b'+') => (false, &body[1..]),
        _ => (false, body),
    };
    let hex =
        body.get(..2).is_some_and(|p| p.eq_ignore_ascii_case("0x")) && body.as_bytes().get(2).is_some_and(u8::is_ascii_hexdigit);
    let (base, body) = match body.as_bytes().first() {
        _ if hex => (16, &body[2..]),
        Some(b'0') => (8, body),
        _ => (10, body),
    };
    let digits = body.bytes().take_while(|b| (*b as char).is_digit(base)).count();
    let mut value: i64 = 0;
    for b in body[..digits].bytes() {
        let digit = i64::from((b as char).to_digit(base).expect("counted as a digit"));
        value = value.checked_mul(base.into())?;
        value = if negative { value.checked_sub(digit)? } else { value.checked_add(digit)? };
    }
    Some(Parsed { value, digits, rest: &body[digits..] })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(environment: &[(&str, &str)], files: &[(&str, &str)]) -> Settings {
        let environment = environment.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Settings::load(environment, "/home/u", |path| {
            files.iter().find(|(p, _)| *p == path).map(|(_, text)| Ok((*text).to_owned()))
        })
    }

    #[test]
    fn integers_as_strtoll_reads_them() {
        let read = |text| parse_int(text).map(|p| p.value);
        for (text, value) in [
            ("12", 12),
            ("0x1F", 31),
            ("017", 15),
            ("-3", -3),
            ("+4", 4),
            (" 5 ", 5),
            ("6x", 6),
            ("x", 0),
            ("", 0),
            ("0x", 0),
            ("08", 0),
            ("-0x10", -16),
        ] {
            assert_eq!(read(text), Some(value), "{text:?}");
        }
        assert_eq!(read("9223372036854775807"), Some(i64::MAX));
        assert_eq!(read("-9223372036854775808"), Some(i64::MIN));
        assert_eq!(read("9223372036854775808"), None);
    }

    #[test]
    fn environment_wins_then_the_users_file_then_the_systems() {
        let files = [
            ("/home/u/.nccl.conf", "# mine\nNCCL_DEBUG=INFO\nNCCL_HOSTID=b \n"),
            ("/etc/nccl.conf", "NCCL_HOSTID=c\nNCCL_GIN_ENABLE=0\n#NCCL_DEBUG=x\n"),
        ];
        let own = load(&[("NCCL_DEBUG", "WARN"), ("NCCL_WIN_STRIDE", "")], &files);
        assert_eq!(
            (own.get("NCCL_DEBUG"), own.get("NCCL_HOSTID"), own.get("NCCL_GIN_ENABLE"), own.get("NCCL_WIN_STRIDE")),
            (Some("WARN"), Some("b "), Some("0"), None)
        );
        assert!(own.complaints.is_empty(), "{:?}", own.complaints);

        let own = load(&[("NCCL_CONF_FILE", "/x")], &files);
        assert_eq!((own.get("NCCL_DEBUG"), own.get("NCCL_HOSTID")), (None, Some("c")));
        assert!(own.complaints[0].contains("/x | not found"), "{:?}", own.complaints);
    }

    #[test]
    fn what_cannot_be_meant_is_told_with_the_fix() {
        let own = load(
            &[
                ("NCCL_GIN_TPYE", "2"),
                ("NCCL_GIN_NCONTEXTS", "two"),
                ("GINRS_TIMEOUT", "30s"),
                ("NCCL_IB_HCA", "mlx5"),
                ("PATH", "/bin"),
            ],
            &[("/etc/nccl.conf", "NCCL_DEBUG\n")],
        );
        let all = own.complaints.join("\n");
        for part in [
            "NCCL_GIN_TPYE | from environment | it has no effect | fix: did you mean NCCL_GIN_TYPE?",
            "not a number, read as 0 | NCCL_GIN_NCONTEXTS",
            "read as 30 | GINRS_TIMEOUT",
            "/etc/nccl.conf:1",
        ] {
            assert!(all.contains(part), "{part} in:\n{all}");
        }
        assert_eq!(own.complaints.len(), 4, "{all}");
    }

    #[test]
    fn defaults_come_from_the_table() {
        assert_eq!(int("NCCL_GIN_SIGNAL_POOL_SIZE"), 65536);
        assert_eq!(seconds("GINRS_INIT_TIMEOUT"), Duration::from_secs(120));
        assert!(std::panic::catch_unwind(|| int("NCCL_NO_SUCH")).is_err() || !cfg!(debug_assertions));
    }

    #[test]
    fn the_page_of_settings_is_generated_from_the_table() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/environment.md");
        let page = table::page();
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(path, &page).unwrap();
        }
        let committed = std::fs::read_to_string(path).unwrap_or_default();
        assert!(committed == page, "docs/environment.md is stale: run BLESS=1 cargo test -p ginrs --lib config::");
    }
}
