//! Texts of others (variables, files, messages of other processes) as they may stand in one line of a log.
//!
//! Imports from no other module.

#![forbid(unsafe_code)]

/// `text` with every character escaped that would move the cursor, colour the terminal, turn the direction of letters or begin
/// another line, so that nobody can write lines of a log but the library. At most `most` bytes, and `...` where it was cut.
pub fn printable(text: &str, most: usize) -> String {
    let mut out = String::with_capacity(text.len().min(most));
    for letter in text.chars() {
        let before = out.len();
        match letter {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            _ if letter.is_control() => out += &format!("\\x{:02x}", u32::from(letter)),
            '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}' => {
                out += &format!("\\u{:04x}", u32::from(letter))
            }
            _ => out.push(letter),
        }
        if out.len() > most {
            out.truncate(before);
            while out.len() + 3 > most && out.pop().is_some() {}
            out.push_str("...");
            break;
        }
    }
    out
}

/// The first `most` of a list, with commas, and `..` where it was cut.
pub fn listed(items: impl IntoIterator<Item = impl ToString>, most: usize) -> String {
    let mut items = items.into_iter();
    let mut shown: Vec<String> = items.by_ref().take(most).map(|item| item.to_string()).collect();
    shown.extend(items.next().map(|_| "..".into()));
    shown.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_ends_where_it_is_said_to() {
        let shown = [0, 1, 2, 3].map(|items| listed(0..items, 2));
        assert_eq!(shown, ["", "0", "0, 1", "0, 1, .."]);
    }

    #[test]
    fn nothing_in_it_moves_a_terminal_and_it_is_no_longer_than_asked() {
        assert_eq!(printable("rank 3 | größe 4 µs", 99), "rank 3 | größe 4 µs");
        assert_eq!(printable("a\nNCCL WARN b\r\t\x1b[2J\u{9b}m\u{7f}\0", 99), "a\\nNCCL WARN b\\r\\t\\x1b[2J\\x9bm\\x7f\\x00");
        assert_eq!(printable("x\u{202e}y\u{2028}", 99), "x\\u202ey\\u2028");
        for most in 3..40 {
            for text in ["\x1b".repeat(20), "ä".repeat(30), "x".repeat(39)] {
                let shown = printable(&text, most);
                assert!(shown.len() <= most, "{shown} of {most}");
                assert_eq!(
                    shown.ends_with("..."),
                    !text.chars().map(|c| if c.is_control() { 4 } else { c.len_utf8() }).sum::<usize>().le(&most)
                );
            }
        }
    }
}
