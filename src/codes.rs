//! What the numbers of errors and warnings mean: `codes.txt` as a table, from which docs/errors.md is made and `ginrs-info explain`
//! answers. The library itself only prints the numbers.
//!
//! Imports from no other module: header-gen compiles this file, too.

#![forbid(unsafe_code)]

/// The text that the table is made of.
const TEXT: &str = include_str!("codes.txt");

/// What one number means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// `E052` or `W001`, as lines have it behind `GINRS-`.
    pub code: &'static str,
    /// The part of the library that it comes from: a heading of docs/errors.md.
    pub section: &'static str,
    /// No line of the library has this number yet.
    pub reserved: bool,
    /// What failed, or what is odd.
    pub meaning: &'static str,
    /// Why, mostly.
    pub cause: &'static str,
    /// What mends it.
    pub fix: &'static str,
}

/// All of them, in the order of the page. Panics where codes.txt is not as its head describes: a test reads it.
pub fn all() -> Vec<Entry> {
    read(TEXT).unwrap_or_else(|broken| panic!("src/codes.txt, {broken}"))
}

/// The entry of `E052`, `e52`, `GINRS-E052`.
pub fn find(code: &str) -> Option<Entry> {
    let code = code.trim().to_ascii_uppercase();
    let (kind, number) = code.strip_prefix("GINRS-").unwrap_or(&code).split_at_checked(1)?;
    let number: u16 = number.parse().ok().filter(|_| number.bytes().all(|b| b.is_ascii_digit()))?;
    let code = format!("{kind}{number:03}");
    all().into_iter().find(|entry| entry.code == code)
}

fn read(text: &'static str) -> Result<Vec<Entry>, String> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut section = "";
    let mut lines = (1..).zip(text.lines().map(str::trim_end)).filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    while let Some((at, line)) = lines.next() {
        if let Some(heading) = line.strip_prefix("== ") {
            section = heading;
            continue;
        }
        let (code, meaning) = line.split_once(' ').filter(|(code, _)| is_code(code)).ok_or(format!("line {at}: not a code"))?;
        let mut field = |name: &str| {
            let next = lines.next().and_then(|(_, line)| line.strip_prefix(name)?.strip_prefix(": "));
            next.ok_or(format!("line {at}: {code} lacks its line `{name}: ..`"))
        };
        let (cause, fix) = (field("cause")?, field("fix")?);
        let (reserved, meaning) = meaning.strip_prefix("reserved ").map_or((false, meaning), |meaning| (true, meaning));
        if entries.iter().any(|entry| entry.code == code) || section.is_empty() {
            return Err(format!("line {at}: {code} stands twice, or in no section"));
        }
        entries.push(Entry { code, section, reserved, meaning, cause, fix });
    }
    Ok(entries)
}

fn is_code(word: &str) -> bool {
    word.len() == 4 && word.starts_with(['E', 'W']) && word[1..].bytes().all(|b| b.is_ascii_digit())
}

/// docs/errors.md.
pub fn page() -> String {
    let mut page = String::from(
        "# Errors\n\nGenerated from src/codes.txt (`make headers`): do not edit.\n\n\
         Every WARN line carries a number, as `GINRS-E052`. What each means and what mends it; the line itself has the values, and\n\
         `ginrs-info explain E052` says this on a terminal. Lines with E tell of a call that failed; lines with W of something that\n\
         goes on, and are no call's error.\n",
    );
    let all = all();
    for part in all.chunk_by(|a, b| a.section == b.section) {
        let what = if part[0].code.starts_with('W') { "what is odd" } else { "what failed" };
        page += &format!("\n## {}\n| id | {what} | usual cause | fix |\n|---|---|---|---|\n", part[0].section);
        for Entry { code, reserved, meaning, cause, fix, .. } in part {
            let kept = if *reserved { " (reserved: no line has it yet)" } else { "" };
            page += &format!("| {code} | {meaning}{kept} | {cause} | {fix} |\n");
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_found_however_it_is_written() {
        let entry = find("E052").unwrap();
        assert_eq!(entry.meaning, "a pointer cannot be a window");
        for written in ["e52", " GINRS-E052 ", "ginrs-e0052"] {
            assert_eq!(find(written), Some(entry), "{written}");
        }
        for none in ["", "E", "052", "E999", "X052", "E-52", "E+52", "GINRS-", "Ä52", "E99999"] {
            assert_eq!(find(none), None, "{none}");
        }
    }

    #[test]
    fn what_is_no_table_is_told_by_its_line() {
        for (text, told) in [
            ("== A\nE001 x\ncause: y\n", "line 2: E001 lacks its line `fix: ..`"),
            ("== A\nE001 x\nfix: y\n", "line 2: E001 lacks its line `cause: ..`"),
            ("== A\n\nsomething\n", "line 3: not a code"),
            ("E001 x\ncause: y\nfix: z\n", "line 1: E001 stands twice, or in no section"),
            ("== A\nE001 x\ncause: y\nfix: z\nE001 x\ncause: y\nfix: z\n", "line 5: E001 stands twice, or in no section"),
        ] {
            assert_eq!(read(text), Err(told.to_owned()), "{text}");
        }
        let reserved = read("# c\n== A\nE150 reserved x\ncause: y\nfix: z\n").unwrap();
        assert!(reserved[0].reserved && reserved[0].meaning == "x");
    }

    #[test]
    fn no_text_breaks_the_pages_tables() {
        for entry in all() {
            let texts = [entry.meaning, entry.cause, entry.fix];
            assert!(texts.iter().all(|text| !text.is_empty() && !text.contains('|')), "{entry:?}");
        }
    }
}
