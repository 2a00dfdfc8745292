//! The spaces of the source. The preprocessor writes one space for several and for a comment, so the columns behind them move; a
//! line that is otherwise as it stands in its file gets its own spaces back.

use std::collections::HashMap;

/// Preprocessed text with the lines of files that `read` gives spaced as there.
pub fn restore(text: Vec<u8>, mut read: impl FnMut(&str) -> Option<Vec<u8>>) -> Vec<u8> {
    let mut files: HashMap<Vec<u8>, Option<Vec<Vec<u8>>>> = HashMap::new();
    let mut out = Vec::with_capacity(text.len());
    let (mut file, mut line): (Option<Vec<u8>>, usize) = (None, 0);
    for written in text.split_inclusive(|&b| b == b'\n') {
        if let Some((number, name)) = marker(written) {
            (file, line) = (Some(name.to_vec()), number);
            out.extend_from_slice(written);
            continue;
        }
        let original = file.as_ref().and_then(|name| {
            let lines = files.entry(name.clone()).or_insert_with(|| {
                let content = std::str::from_utf8(name).ok().and_then(&mut read)?;
                Some(content.split(|&b| b == b'\n').map(without_comments).collect())
            });
            lines.as_ref()?.get(line.checked_sub(1)?)
        });
        match original.filter(|original| same_but_for_spaces(original, written)) {
            Some(original) => {
                out.extend_from_slice(original.trim_ascii_end());
                // What ends the line ends it also within a raw string.
                out.extend_from_slice(&written[written.trim_ascii_end().len()..]);
            }
            None => out.extend_from_slice(written),
        }
        line += 1;
    }
    out
}

/// `# 12 "file.cu" 2`
fn marker(line: &[u8]) -> Option<(usize, &[u8])> {
    let rest = line.strip_prefix(b"# ")?;
    let quote = rest.iter().position(|&b| b == b'"')?;
    let number = std::str::from_utf8(&rest[..quote]).ok()?.trim().parse().ok()?;
    let name = &rest[quote + 1..];
    Some((number, &name[..name.iter().position(|&b| b == b'"')?]))
}

/// The line with spaces where its comments are; one that goes on or came from the line before makes no line that matches.
fn without_comments(line: &[u8]) -> Vec<u8> {
    let mut clean = line.to_vec();
    let (mut at, mut quote) = (0, None);
    while at < clean.len() {
        match (quote, clean[at]) {
            (Some(_), b'\\') => at += 1,
            (Some(open), b) if open == b => quote = None,
            (Some(_), _) => {}
            // A digit before it: the ' of 1'000.
            (None, b'\'') if at > 0 && clean[at - 1].is_ascii_alphanumeric() => {}
            (None, b @ (b'"' | b'\'')) => quote = Some(b),
            (None, b'/') if clean[at..].starts_with(b"//") => clean[at..].fill(b' '),
            (None, b'/') if clean[at..].starts_with(b"/*") => {
                let end = clean[at + 2..].windows(2).position(|two| two == b"*/");
                let Some(end) = end.map(|end| at + 2 + end + 2) else { break };
                clean[at..end].fill(b' ');
            }
            _ => {}
        }
        at += 1;
    }
    clean
}

fn same_but_for_spaces(a: &[u8], b: &[u8]) -> bool {
    let dense = |line: &[u8]| line.iter().copied().filter(|b| !b.is_ascii_whitespace()).collect::<Vec<u8>>();
    let (a, b) = (dense(a), dense(b));
    !a.is_empty() && a == b && a[0] != b'#'
}

#[cfg(test)]
mod tests {
    use super::restore;

    fn restored(source: &str, preprocessed: &str) -> String {
        let out = restore(preprocessed.as_bytes().to_vec(), |name| (name == "a.cu").then(|| source.as_bytes().to_vec()));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_line_gets_its_spaces_and_the_room_of_its_comments_back() {
        let source = "\tint  a;   // why\nint b = /* 3 */ 4;\nf(\"a // b\",   'x');\nint c = 1'000;  int d;\n";
        let text = "# 1 \"a.cu\"\n int a;\nint b = 4;\nf(\"a // b\", 'x');\nint c = 1'000; int d;\n";
        assert_eq!(
            restored(source, text),
            "# 1 \"a.cu\"\n\tint  a;\nint b =         4;\nf(\"a // b\",   'x');\nint c = 1'000;  int d;\n"
        );
    }

    #[test]
    fn what_the_preprocessor_changed_stays_as_it_wrote_it() {
        let source = "M(x)   y;\n/* long\n   int z;  */\n#pragma  once\n";
        let text = "# 1 \"a.cu\"\nexpanded y;\n\n int z;\n# 4 \"a.cu\"\n#pragma once\n# 1 \"other.h\"\nint  q;\n";
        assert_eq!(restored(source, text), text);
    }
}
