//! What numbers of errors and warnings mean: src/codes.txt.

use crate::Report;
use ginrs::codes::{self, Entry};
use serde_json::{Value, json};

pub fn report(words: &[&str]) -> Result<Report, String> {
    let find = |word: &&str| codes::find(word).ok_or_else(|| unknown(word));
    let entries: Vec<Entry> = words.iter().map(find).collect::<Result<_, _>>()?;
    let text: Vec<String> = entries.iter().map(text).collect();
    Ok(Report { text: text.join("\n"), json: entries.iter().map(value).collect(), status: 0 })
}

fn unknown(word: &str) -> String {
    let all = codes::all();
    let of = |kind: char| {
        let mut codes: Vec<&str> = all.iter().map(|entry| entry.code).filter(|code| code.starts_with(kind)).collect();
        codes.sort_unstable();
        format!("{} to {}", codes[0], codes[codes.len() - 1])
    };
    format!("there is no {:?}; errors are {}, warnings {}, with gaps: docs/errors.md has them all", word, of('E'), of('W'))
}

fn text(entry: &Entry) -> String {
    let Entry { code, section, reserved, meaning, cause, fix } = entry;
    let kept = if *reserved { ", reserved: no line has it yet" } else { "" };
    format!("{code}: {meaning}\n  where: {section}{kept}\n  cause: {cause}\n  fix: {fix}\n")
}

fn value(entry: &Entry) -> Value {
    let Entry { code, section, reserved, meaning, cause, fix } = entry;
    json!({"code": code, "section": section, "reserved": reserved, "meaning": meaning, "cause": cause, "fix": fix})
}
