//! What a variable may hold, by type: one place that reads texts and says what is wrong with them.

use super::fault;
use crate::text::printable;

/// The type of a variable, its range and its default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// 0 or 1; the words that people write for them count too.
    Flag(Option<bool>),
    /// A whole number from `least` to `most`.
    Int {
        /// None: nothing is set.
        default: Option<i64>,
        /// The smallest that is taken.
        least: i64,
        /// The largest.
        most: i64,
    },
    /// A power of two from 1 to this, or -1, the default: chosen.
    PowerOfTwo(i64),
    /// One of these words, in upper or lower case; unset by default.
    Name(&'static [&'static str]),
    /// Some of these words, comma-separated; ALL, and ^ in front for all but these; unset by default.
    Names(&'static [&'static str]),
    /// What [`super::fault`] has; unset by default.
    Fault,
    /// Any text; unset by default.
    Text,
    /// Any text, which no log may show.
    Secret,
    /// Whoever needs it checks it, and fails with the error of this number.
    Checked(u16),
    /// Another library reads and checks it; its default there.
    Theirs(&'static str),
}

impl Kind {
    /// True for what [`Kind::number`] reads.
    pub fn is_number(self) -> bool {
        matches!(self, Kind::Flag(_) | Kind::Int { .. } | Kind::PowerOfTwo(_))
    }

    /// The number that counts where nothing is set or nothing that can be meant. None: unset.
    pub fn default_number(self) -> Option<i64> {
        match self {
            Kind::Flag(default) => default.map(i64::from),
            Kind::Int { default, .. } => default,
            Kind::PowerOfTwo(_) => Some(-1),
            _ => None,
        }
    }

    /// The number that `text` means; None where it cannot be meant.
    pub fn number(self, text: &str) -> Option<i64> {
        match self {
            Kind::Flag(_) => parse_int(text).filter(|n| matches!(n, 0 | 1)).or_else(|| flag_word(text).map(i64::from)),
            Kind::Int { least, most, .. } => parse_int(text).filter(|n| (least..=most).contains(n)),
            Kind::PowerOfTwo(most) => parse_int(text).filter(|&n| n == -1 || (1..=most).contains(&n) && n & (n - 1) == 0),
            _ => None,
        }
    }

    /// What is wrong with `text`, and what happens instead; None for what can be meant.
    pub fn trouble(self, text: &str) -> Option<String> {
        match self {
            Kind::Flag(_) if parse_int(text).is_none() => {
                Some(match flag_word(text) {
                    // NCCL reads a word as 0, whichever it is.
                    Some(on) => format!("is used as {}, but other libraries read it as 0", u8::from(on)),
                    None => self.ignored(),
                })
            }
            Kind::Flag(_) | Kind::Int { .. } | Kind::PowerOfTwo(_) => self.number(text).is_none().then(|| self.ignored()),
            Kind::Name(names) => (!names.iter().any(|name| name.eq_ignore_ascii_case(text.trim()))).then(|| self.ignored()),
            Kind::Names(names) => {
                let odd = items(text).find(|item| !is_all(item) && !names.iter().any(|name| name.eq_ignore_ascii_case(item)))?;
                Some(format!("has \"{}\", which is left out", printable(odd, 40)))
            }
            Kind::Fault => fault::parse(text).is_none().then(|| self.ignored()),
            Kind::Text | Kind::Secret | Kind::Checked(_) | Kind::Theirs(_) => None,
        }
    }

    fn ignored(self) -> String {
        match self.default_number() {
            Some(default) => format!("is ignored, using {default}"),
            None => "is ignored".into(),
        }
    }

    /// What it may be, for people.
    pub fn may_be(self) -> String {
        match self {
            Kind::Flag(_) => "0 or 1".into(),
            Kind::Int { least, most, .. } if most == i64::from(i32::MAX) => format!("a number from {least}"),
            Kind::Int { least, most, .. } => format!("a number from {least} to {most}"),
            Kind::PowerOfTwo(most) => format!("a power of two from 1 to {most}, or -1"),
            Kind::Name(names) => format!("one of {}", names.join(", ")),
            Kind::Names(names) => format!("some of {}, comma-separated, or ALL; ^ in front: all but these", names.join(", ")),
            Kind::Fault => fault::FORMS.into(),
            Kind::Text | Kind::Secret | Kind::Checked(_) | Kind::Theirs(_) => "text".into(),
        }
    }

    /// The default, for people.
    pub fn default_text(self) -> String {
        match self {
            Kind::Theirs(default) => default.into(),
            _ => self.default_number().map_or("unset".into(), |n| n.to_string()),
        }
    }

    #[cfg(test)]
    pub(super) fn else_text(self) -> String {
        match self {
            Kind::Text | Kind::Secret => String::new(),
            Kind::Checked(number) => format!("E{number:03}"),
            Kind::Theirs(_) => "a line of libginrs_cpu".into(),
            _ => "W001".into(),
        }
    }
}

fn flag_word(text: &str) -> Option<bool> {
    let is = |words: [&str; 4]| words.iter().any(|word| word.eq_ignore_ascii_case(text.trim()));
    match text {
        _ if is(["true", "yes", "on", "y"]) => Some(true),
        _ if is(["false", "no", "off", "n"]) => Some(false),
        _ => None,
    }
}

/// The words of a list, without the ^ in front.
fn items(list: &str) -> impl Iterator<Item = &str> {
    list.strip_prefix('^').unwrap_or(list).split(',').map(str::trim).filter(|item| !item.is_empty())
}

fn is_all(item: &str) -> bool {
    item.eq_ignore_ascii_case("ALL")
}

/// The bits of a list's words, by their place in `names`; `default` where none of them is known.
pub fn mask(list: &str, names: &[&str], default: u32) -> u32 {
    let bit = |item: &str| match names.iter().position(|name| name.eq_ignore_ascii_case(item)) {
        Some(at) => 1 << at,
        None => u32::from(is_all(item)) * u32::MAX,
    };
    match items(list).fold(0, |bits, item| bits | bit(item)) {
        0 => default,
        bits if list.starts_with('^') => !bits,
        bits => bits,
    }
}

/// A whole number as strtoll reads it with base 0 (blanks, a sign, 0x and 0 prefixes); None for anything else, as text behind
/// it or more than 64 bits.
fn parse_int(text: &str) -> Option<i64> {
    let body = text.trim();
    let (negative, body) = match body.as_bytes().first()? {
        b'-' => (true, &body[1..]),
        b'+' => (false, &body[1..]),
        _ => (false, body),
    };
    let (base, digits) = match body.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &body[2..]),
        [b'0', _, ..] => (8, &body[1..]),
        _ => (10, body),
    };
    // from_str_radix takes a sign of its own.
    if !digits.bytes().all(|b| (b as char).is_digit(base)) {
        return None;
    }
    let size = i128::from_str_radix(digits, base).ok()?;
    i64::try_from(if negative { -size } else { size }).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_whole_and_have_nothing_behind_them() {
        for (text, value) in [
            ("12", 12),
            ("0x1F", 31),
            ("017", 15),
            ("-3", -3),
            ("+4", 4),
            (" 5 ", 5),
            ("0", 0),
            ("-0x10", -16),
            ("9223372036854775807", i64::MAX),
            ("-9223372036854775808", i64::MIN),
        ] {
            assert_eq!(parse_int(text), Some(value), "{text:?}");
        }
        for text in ["", " ", "x", "6x", "0x", "08", "1.5", "1e3", "--1", "+-1", "0x-1", "9223372036854775808", "٣", "1 2"] {
            assert_eq!(parse_int(text), None, "{text:?}");
        }
        assert_eq!(parse_int(&"9".repeat(100)), None);
    }

    #[test]
    fn lists_of_names_and_their_negation() {
        let names = ["A", "B", "C"];
        assert_eq!(mask("a,C", &names, 9), 0b101);
        assert_eq!(mask("^ B ", &names, 9), !0b010);
        assert_eq!(mask("all", &names, 9), u32::MAX);
        assert_eq!(mask("x,b", &names, 9), 0b010);
        for nothing in ["x", "^x", "", ",", "^"] {
            assert_eq!(mask(nothing, &names, 9), 9, "{nothing:?}");
        }
    }
}
