//! Settings: every variable that this library reads stands in [`TABLE`], and docs/environment.md is generated from it.
//!
//! The environment wins over NCCL_CONF_FILE (or ~/.nccl.conf), which wins over /etc/nccl.conf. Read once per process; a forked
//! child reads again. Numbers are NCCL's (strtoll with base 0), but what NCCL would silently take for another number is told,
//! and the default is used.
//!
//! Imports from error, sync and text. `log` prints what was read and what is wrong with it.

#![forbid(unsafe_code)]

use crate::sync::PerProcess;
use crate::text::printable;
use std::collections::BTreeMap;
use std::time::Duration;

pub mod fault;
pub mod file;
mod kind;
mod names;
mod table;
pub mod verbosity;
pub use kind::{Kind, mask};
pub use table::{TABLE, Var};

/// What was set when this process first asked.
struct Settings {
    values: BTreeMap<String, Value>,
    complaints: Vec<String>,
    /// More of them, of which the last line tells.
    untold: usize,
}

/// Complaints that are told in full: a large file that is none of settings must not keep a program from starting.
const MOST_TOLD: usize = 100;

/// Where a value comes from that no file has.
const ENVIRONMENT: &str = "environment";

/// True for names that no library but ours and NCCL would read.
fn is_ours(name: &str) -> bool {
    name.starts_with("NCCL_") || name.starts_with("GINRS_")
}

struct Value {
    text: String,
    source: String,
}

/// A number or flag of the table; its default when unset, empty or not to be meant; `i32::MIN` where that is unset.
pub fn int(name: &str) -> i64 {
    let Some(var) = table::find(name).filter(|var| var.kind.is_number()) else {
        debug_assert!(false, "{name} is no number of the table in config/table.rs");
        return 0;
    };
    settings().int(var)
}

/// A text variable of the table; None when unset or empty.
pub fn text(name: &str) -> Option<String> {
    debug_assert!(table::find(name).is_some(), "{name} is not in the table in config/table.rs");
    settings().get(name).map(str::to_owned)
}

/// An integer variable of the table that counts seconds.
pub fn seconds(name: &str) -> Duration {
    Duration::from_secs(int(name).max(0).unsigned_abs())
}

/// What was read and cannot be meant, a line each, in the form of a warning.
pub fn complaints() -> &'static [String] {
    &settings().complaints
}

/// [`complaints`] that a settings file of this text alone would give.
#[doc(hidden)]
pub fn complaints_of(text: &str) -> Vec<String> {
    Settings::load(Vec::new(), None, |_| Some(Ok(text.to_owned()))).complaints
}

/// What was set: the variable, its text as a log may show it, and where it stands.
pub fn set() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    TABLE.iter().filter_map(|var| {
        let value = settings().values.get(var.name).filter(|value| !value.text.is_empty())?;
        let shown = if var.kind == Kind::Secret { "(secret)" } else { value.text.as_str() };
        Some((var.name, shown, value.source.as_str()))
    })
}

/// Variables with NCCL's or our prefix that are set and are not of the table: known or not, they have no effect.
pub fn others() -> impl Iterator<Item = (&'static str, &'static str)> {
    let found =
        settings().values.iter().filter(|(name, value)| is_ours(name) && !value.text.is_empty() && table::find(name).is_none());
    found.map(|(name, value)| (name.as_str(), value.source.as_str()))
}

fn settings() -> &'static Settings {
    static SETTINGS: PerProcess<Settings> = PerProcess::new();
    SETTINGS.get(|| {
        let environment =
            std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.to_string_lossy().into_owned())));
        Settings::load(environment.collect(), file::of_user(), file::settings)
    })
}

impl Settings {
    fn load(
        environment: Vec<(String, String)>,
        of_user: Option<String>,
        read: impl Fn(&str) -> Option<Result<String, String>>,
    ) -> Self {
        let mut own = Self { values: BTreeMap::new(), complaints: Vec::new(), untold: 0 };
        let mut chosen_file = None;
        for (name, text) in environment {
            if name == "NCCL_CONF_FILE" && !text.is_empty() {
                chosen_file = Some(text.clone());
            }
            own.set(name, text, ENVIRONMENT);
        }
        let first = chosen_file.clone().or(of_user);
        for path in first.iter().map(String::as_str).chain(["/etc/nccl.conf"]) {
            match read(path) {
                Some(Ok(text)) => own.add_file(path, &text),
                Some(Err(e)) => own.complaints.push(format!(
                    "GINRS-W003 settings file cannot be read | {} | {e} | fix: name a plain text file",
                    printable(path, 200)
                )),
                None if chosen_file.as_deref() == Some(path) => own.complaints.push(format!(
                    "GINRS-W003 NCCL_CONF_FILE names no file | {} | not found | fix: correct the path or unset it",
                    printable(path, 200)
                )),
                None => {}
            }
        }
        own.check();
        if own.untold > 0 {
            let more = own.untold;
            own.complaints
                .push(format!("GINRS-W003 {more} more settings are wrong | {MOST_TOLD} are told | fix: see the lines before"));
        }
        own
    }

    fn complain(&mut self, what: impl FnOnce() -> String) {
        match self.complaints.len() < MOST_TOLD {
            true => self.complaints.push(what()),
            false => self.untold += 1,
        }
    }

    /// Empty means unset.
    fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(|value| value.text.as_str()).filter(|text| !text.is_empty())
    }

    fn int(&self, var: &Var) -> i64 {
        let read = self.get(var.name).and_then(|text| var.kind.number(text));
        read.or(var.kind.default_number()).unwrap_or(i64::from(i32::MIN))
    }

    /// The first source that names a variable wins, and the first line of a file; also with an empty value, by which what a
    /// later one says is unset.
    fn set(&mut self, name: String, text: String, source: &str) {
        self.values.entry(name).or_insert_with(|| Value { text, source: source.to_owned() });
    }

    /// NAME=VALUE lines of any length, `#` in column 0 starts a comment, nothing is trimmed. Nothing goes into the environment of
    /// the host program, so variables that others read there are told.
    fn add_file(&mut self, path: &str, text: &str) {
        for (number, line) in (1..).zip(text.lines()) {
            match line.split_once('=') {
                _ if line.is_empty() || line.starts_with('#') => {}
                Some((name, value)) if !name.is_empty() && !name.contains(char::is_whitespace) => self.set(name.to_owned(), value.to_owned(), path),
                _ => self.complain(|| format!(
                    "GINRS-W003 settings line is not NAME=VALUE | {}:{number} | \"{}\" | fix: write NAME=VALUE without spaces around the name, or # in front of a comment",
                    printable(path, 200),
                    printable(line, 80)
                )),
            }
        }
    }

    fn check(&mut self) {
        let values = std::mem::take(&mut self.values);
        for (name, Value { text, source }) in values.iter().filter(|(_, value)| !value.text.is_empty()) {
            let known = table::find(name);
            let elsewhere = known.map_or(!is_ours(name), |var| matches!(var.kind, Kind::Theirs(_)));
            if source != ENVIRONMENT && (elsewhere || name == "NCCL_CONF_FILE") {
                // A byte order mark, or small letters.
                let meant: String = name.chars().filter(char::is_ascii_graphic).collect::<String>().to_ascii_uppercase();
                let advice = match meant != *name && is_ours(&meant) && table::find(&meant).is_some() {
                    true => format!(
                        "names are as they stand in the file, to the byte | fix: write {meant}, with nothing in front of it"
                    ),
                    false => "who reads it looks into the environment | fix: export it".into(),
                };
                self.complain(|| {
                    format!(
                        "GINRS-W002 {} in a settings file has no effect | from {} | {advice}",
                        printable(name, 80),
                        printable(source, 200)
                    )
                });
                continue;
            }
            match known {
                Some(var) => {
                    if let Some(trouble) = var.kind.trouble(text) {
                        let (must, shown) = (var.kind.may_be(), printable(text, 80));
                        self.complain(|| {
                            format!("GINRS-W001 {name}=\"{shown}\" {trouble} | from {source} | fix: {must}, or unset it")
                        });
                    }
                }
                None if is_ours(name) && !names::known(name) => self.complain(|| {
                    let hint = names::nearest(name)
                        .map_or("fix: see docs/environment.md".into(), |near| format!("fix: did you mean {near}?"));
                    format!("GINRS-W002 unknown variable {} | from {source} | it has no effect | {hint}", printable(name, 80))
                }),
                None => {}
            }
        }
        self.values = values;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(environment: &[(&str, &str)], files: &[(&str, &str)]) -> Settings {
        let environment = environment.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Settings::load(environment, Some("/home/u/.nccl.conf".into()), |path| {
            files.iter().find(|(p, _)| *p == path).map(|(_, text)| Ok((*text).to_owned()))
        })
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

    /// As NCCL, whose setenv does not overwrite: what is set is set, be it empty.
    #[test]
    fn an_empty_value_keeps_what_later_sources_say_from_counting() {
        let files =
            [("/home/u/.nccl.conf", "NCCL_HOSTID=\nNCCL_DEBUG=INFO\nNCCL_DEBUG=WARN\n"), ("/etc/nccl.conf", "NCCL_HOSTID=c\n")];
        let own = load(&[], &files);
        assert_eq!((own.get("NCCL_HOSTID"), own.get("NCCL_DEBUG")), (None, Some("INFO")));
        let own = load(&[("NCCL_DEBUG", ""), ("NCCL_CONF_FILE", "")], &files);
        assert_eq!((own.get("NCCL_DEBUG"), own.complaints.len()), (None, 0), "{:?}", own.complaints);
    }

    #[test]
    fn lines_of_any_length_count_and_odd_ones_are_told() {
        let long = "x".repeat(5000);
        let text = format!(
            "NCCL_HOSTID={long}\r\nNCCL_GIN_TYPE =2\n NCCL_DEBUG=INFO\n  # a=b\n=x\nFI_PROVIDER=tcp\nGINRS_CPU_STACK=1M\nLOCAL_RANK=1\n\n# c=\nNCCL_DEBUG_FILE= a=b "
        );
        let own = load(&[], &[("/etc/nccl.conf", &text)]);
        assert_eq!(own.get("NCCL_HOSTID"), Some(&*long));
        assert_eq!((own.get("NCCL_DEBUG"), own.get("NCCL_GIN_TYPE"), own.get("LOCAL_RANK")), (None, None, Some("1")));
        assert_eq!(own.get("NCCL_DEBUG_FILE"), Some(" a=b "), "nothing is trimmed, and the first = parts");
        let all = own.complaints.join("\n");
        for part in ["nccl.conf:2 ", "nccl.conf:3 ", "nccl.conf:4 ", "nccl.conf:5 "] {
            assert!(all.contains(part), "{part} in {all}");
        }
        for part in ["GINRS-W002 FI_PROVIDER in a settings file has no effect", "GINRS-W002 GINRS_CPU_STACK in a settings file"] {
            assert!(all.contains(part), "{part} in {all}");
        }
        assert_eq!(own.complaints.len(), 6, "{all}");
        let odd = load(&[], &[("/etc/nccl.conf", "\u{feff}NCCL_DEBUG=INFO\nginrs_timeout=3\nNCCL_CONF_FILE=/x\n")])
            .complaints
            .join("\n");
        for part in [
            "GINRS-W002 \\ufeffNCCL_DEBUG in a settings file has no effect",
            "fix: write NCCL_DEBUG, with nothing in front of it",
            "fix: write GINRS_TIMEOUT, with",
            "GINRS-W002 NCCL_CONF_FILE in a settings file has no effect",
        ] {
            assert!(odd.contains(part), "{part} in {odd}");
        }
        assert!(std::env::var_os("NCCL_HOSTID").is_none(), "the program's environment is its own");
        // The same names in the environment are nobody's business here.
        assert!(load(&[("FI_PROVIDER", "tcp"), ("GINRS_CPU_STACK", "1M")], &[]).complaints.is_empty());
    }

    #[test]
    fn unknown_names_and_broken_lines_are_told_with_the_fix() {
        let own = load(
            &[
                ("NCCL_GIN_TPYE", "2"),
                ("GINRS_TRANPORT", "shm"),
                ("GINRS_RUN_ID", "/x"),
                ("NCCL_IB_HCA", "mlx5"),
                ("PATH", "/bin"),
            ],
            &[("/etc/nccl.conf", "NCCL_DEBUG\nNCCL_GIN_NCONTEXTS=two\x1b[31m\n")],
        );
        let all = own.complaints.join("\n");
        for part in [
            "GINRS-W002 unknown variable NCCL_GIN_TPYE | from environment | it has no effect | fix: did you mean NCCL_GIN_TYPE?",
            "GINRS-W002 unknown variable GINRS_TRANPORT | from environment | it has no effect | fix: did you mean GINRS_TRANSPORT?",
            "GINRS-W001 NCCL_GIN_NCONTEXTS=\"two\\x1b[31m\" is ignored, using 4 | from /etc/nccl.conf | fix: a number from 1 to 4, or unset it",
            "GINRS-W003 settings line is not NAME=VALUE | /etc/nccl.conf:1",
        ] {
            assert!(all.contains(part), "{part} in:\n{all}");
        }
        assert_eq!(own.complaints.len(), 4, "{all}");
    }

    /// Values of every row's type: what is taken, and what gets one line that names variable, value and what it may be.
    #[test]
    fn every_row_takes_what_it_may_be_and_tells_everything_else_once() {
        let text = |n: i128| n.to_string();
        for var in TABLE {
            let (good, bad): (Vec<String>, Vec<String>) = match var.kind {
                Kind::Flag(_) => (vec![text(0), text(1), " 0x1 ".into()], vec![text(-1), text(2), "maybe".into(), "1x".into()]),
                Kind::Int { least, most, .. } => {
                    let (least, most) = (i128::from(least), i128::from(most));
                    let good = vec![text(least), text(most), text((least + most) / 2)];
                    (
                        good,
                        vec![text(least - 1), text(most + 1), "true".into(), format!("{least}s"), "9".repeat(40), "1e3".into()],
                    )
                }
                Kind::PowerOfTwo(most) => {
                    let good = vec![text(-1), text(1), text(2), text(most.into())];
                    (good, vec![text(0), text(-2), text(3), text(i128::from(most) * 2), text(i64::MIN.into()), "many".into()])
                }
                Kind::Name(names) => (
                    names.iter().flat_map(|name| [(*name).to_owned(), name.to_lowercase()]).collect(),
                    vec!["verbose".into(), format!("{},{}", names[0], names[1]), "1".into(), "\n".into()],
                ),
                Kind::Names(names) => (
                    vec![names.join(","), format!("^{}", names[0].to_lowercase()), "ALL".into(), format!("{}, ", names[0])],
                    vec![
                        "verbose".into(),
                        format!("{},verbose", names[0]),
                        "^verbose".into(),
                        format!("{} {}", names[0], names[1]),
                    ],
                ),
                Kind::Fault => (
                    ["panic:ncclX", "random", "fail:1", "exit:peer info"].map(String::from).to_vec(),
                    ["panic", "1", "Random", "fail:0"].map(String::from).to_vec(),
                ),
                Kind::Text | Kind::Secret | Kind::Checked(_) | Kind::Theirs(_) => (vec!["\x1b anything".into()], vec![]),
            };
            for value in good {
                let own = load(&[(var.name, &value)], &[]);
                let chosen = var.name == "NCCL_CONF_FILE"; // which names no file here
                assert_eq!(own.complaints.len(), usize::from(chosen), "{}={value:?}: {:?}", var.name, own.complaints);
                if var.kind.is_number() {
                    assert_eq!(Some(own.int(var)), var.kind.number(&value), "{}={value:?}", var.name);
                }
            }
            for value in bad {
                let own = load(&[(var.name, &value)], &[]);
                let told = own.complaints.join("\n");
                let named = format!("GINRS-W001 {}=\"{}\" ", var.name, printable(&value, 80));
                assert!(
                    told.starts_with(&named) && told.ends_with(&format!("| fix: {}, or unset it", var.kind.may_be())),
                    "{told}"
                );
                assert_eq!(told.lines().count(), 1, "{told}");
                if var.kind.is_number() {
                    assert_eq!(own.int(var), load(&[], &[]).int(var), "{}={value:?}", var.name);
                }
            }
        }
    }

    #[test]
    fn words_for_flags_count_and_are_told() {
        let var = table::find("NCCL_GIN_ENABLE").unwrap();
        for (word, on) in [("true", 1), ("Yes", 1), ("ON", 1), ("false", 0), ("no", 0), ("Off ", 0)] {
            let own = load(&[(var.name, word)], &[]);
            assert_eq!((own.int(var), own.complaints.len()), (on, 1), "{word}");
            assert!(own.complaints[0].contains(&format!("is used as {on}, but other libraries")), "{:?}", own.complaints);
        }
    }

    /// In a process of its own: a file that blocks for ever would block this one.
    #[test]
    fn a_settings_file_that_never_ends_is_passed_over() {
        if std::env::var_os("GINRS_TEST_INNER").is_some() {
            return println!("complaints: {}", settings().complaints.join("; "));
        }
        let folder = std::env::temp_dir().join(format!("ginrs-settings-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let fifo = folder.join("fifo");
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        for path in [fifo.to_str().unwrap(), "/dev/zero", "/"] {
            let output = std::process::Command::new("timeout")
                .args(["120".as_ref(), std::env::current_exe().unwrap().as_os_str()])
                .args(["--exact", "config::tests::a_settings_file_that_never_ends_is_passed_over", "--nocapture"])
                .envs([("GINRS_TEST_INNER", "1"), ("NCCL_CONF_FILE", path)])
                .output()
                .unwrap();
            let told = String::from_utf8_lossy(&output.stdout);
            assert!(
                told.contains(&format!("GINRS-W003 settings file cannot be read | {path} | it is not a plain file")),
                "{told}"
            );
        }
        std::fs::remove_dir_all(folder).unwrap();
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
        assert!(committed == page, "docs/environment.md is stale | fix: make headers, and commit it");
    }

    /// By count: looking for near names takes its time for each.
    #[test]
    fn a_large_file_that_is_none_of_settings_is_told_in_a_hundred_lines() {
        let lines: String = (0..5_000).map(|i| format!("NCCL_NONE_{i}=1\nx\n")).collect();
        let own = load(&[], &[("/home/u/.nccl.conf", &lines)]);
        assert_eq!(own.complaints.len(), MOST_TOLD + 1);
        assert!(own.complaints[MOST_TOLD].starts_with("GINRS-W003 9900 more"), "{:?}", own.complaints.last());
    }
}
