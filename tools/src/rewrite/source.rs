//! The preprocessed text as tokens, each with its partner bracket and the file and line that it came from.
//!
//! Only what the rewriter needs of C++'s lexical grammar: strings (raw ones too), numbers and words are whole, `<<<` is one
//! token as in CUDA, and every `>` is a token of its own, so that `A<B<int>>` nests.

use std::ops::Range;

/// What a token is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Identifier or keyword.
    Word,
    /// Number literal.
    Number,
    /// String or character literal with its prefix.
    Literal,
    /// Punctuation.
    Mark,
}

/// A token and the bytes it covers.
#[derive(Clone, Debug)]
pub struct Token {
    /// What it is.
    pub kind: Kind,
    /// Where it is, in bytes.
    pub at: Range<usize>,
}

/// A line marker of the preprocessor: from `offset` on, the text is that of `line` of `files[file]`.
struct Marker {
    offset: usize,
    line: usize,
    file: usize,
}

/// A file that the preprocessor read.
pub struct File {
    /// Its name as the marker spells it, escapes included.
    pub name: String,
    /// Entered as a system header. Macros of system headers used elsewhere do not count: the name decides.
    pub system: bool,
}

/// The text, its tokens and its line markers.
pub struct Source {
    text: Vec<u8>,
    tokens: Vec<Token>,
    mates: Vec<Option<usize>>,
    markers: Vec<Marker>,
    files: Vec<File>,
    directives: Vec<Range<usize>>,
}

impl Source {
    /// Takes what `g++ -E` wrote.
    pub fn new(text: Vec<u8>) -> Source {
        let mut source = Source {
            text,
            tokens: Vec::new(),
            mates: Vec::new(),
            markers: Vec::new(),
            files: vec![File { name: "<no file>".into(), system: false }],
            directives: Vec::new(),
        };
        Lexer { source: &mut source, at: 0 }.run();
        source.mates = match_brackets(&source);
        source
    }

    /// The whole text.
    pub fn bytes(&self) -> &[u8] {
        &self.text
    }

    /// Number of tokens.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// True if there is nothing but space and directives.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Token `i`.
    pub fn token(&self, i: usize) -> &Token {
        &self.tokens[i]
    }

    /// The text of token `i`; empty behind the last one, so that looking ahead needs no care.
    pub fn word(&self, i: usize) -> &str {
        self.tokens.get(i).map_or("", |t| self.text_of(t.at.clone()))
    }

    /// The text of some bytes, empty if they are not UTF-8 (only strings and comments can be that).
    pub fn text_of(&self, at: Range<usize>) -> &str {
        std::str::from_utf8(&self.text[at]).unwrap_or("")
    }

    /// True if token `i` is spelled so and is no literal.
    pub fn is(&self, i: usize, word: &str) -> bool {
        self.tokens.get(i).is_some_and(|t| t.kind != Kind::Literal && &self.text[t.at.clone()] == word.as_bytes())
    }

    /// What token `i` is; None behind the last.
    pub fn kind(&self, i: usize) -> Option<Kind> {
        self.tokens.get(i).map(|t| t.kind)
    }

    /// The bracket that closes or opens the bracket at `i`.
    pub fn mate(&self, i: usize) -> Option<usize> {
        self.mates.get(i).copied().flatten()
    }

    /// Bytes from the start of token `from` to the end of token `to`.
    pub fn span(&self, from: usize, to: usize) -> Range<usize> {
        self.tokens[from].at.start..self.tokens[to].at.end
    }

    /// The `>` that closes the template bracket `<` at `i`; None if it looks like less-than.
    pub fn close_angle(&self, i: usize) -> Option<usize> {
        let mut depth = 0;
        let mut at = i;
        while at < self.len() {
            match self.word(at) {
                "<" => depth += 1,
                ">" => {
                    depth -= 1;
                    if depth == 0 {
                        return Some(at);
                    }
                }
                "(" | "[" | "{" => at = self.mate(at)?,
                ")" | "]" | "}" | ";" => return None,
                _ => {}
            }
            at += 1;
        }
        None
    }

    /// The `<` of the template bracket that the `>` at `close` ends.
    pub fn open_angle(&self, close: usize) -> Option<usize> {
        let mut depth = 0;
        let mut at = close;
        loop {
            match self.word(at) {
                ">" => depth += 1,
                "<" => {
                    depth -= 1;
                    if depth == 0 {
                        return Some(at);
                    }
                }
                ")" | "]" | "}" => at = self.mate(at)?,
                ";" | "{" | "(" | "[" | "<<<" => return None,
                _ => {}
            }
            at = at.checked_sub(1)?;
        }
    }

    /// Commas between tokens `from` and `to` (both excluded from bracket groups) cut the range into items.
    pub fn split_commas(&self, items: Range<usize>) -> Vec<Range<usize>> {
        let mut parts = Vec::new();
        let mut start = items.start;
        let mut at = items.start;
        while at < items.end {
            match self.word(at) {
                "(" | "[" | "{" => at = self.mate(at).unwrap_or(at),
                "<" => at = self.close_angle(at).filter(|&end| end < items.end).unwrap_or(at),
                "," => {
                    parts.push(start..at);
                    start = at + 1;
                }
                _ => {}
            }
            at += 1;
        }
        if start < items.end || !parts.is_empty() {
            parts.push(start..items.end);
        }
        parts
    }

    /// Index of the first token that starts at `offset` or behind it.
    pub fn token_at(&self, offset: usize) -> usize {
        self.tokens.partition_point(|t| t.at.start < offset)
    }

    /// The file of a byte.
    pub fn file(&self, offset: usize) -> &File {
        &self.files[self.marker(offset).map_or(0, |m| m.file)]
    }

    /// The line of a byte, from 1.
    pub fn line(&self, offset: usize) -> usize {
        let (from, line) = self.marker(offset).map_or((0, 1), |m| (m.offset, m.line));
        line + self.text[from..offset].iter().filter(|&&b| b == b'\n').count()
    }

    /// `file:line` of token `i`, for messages.
    pub fn place(&self, i: usize) -> String {
        let offset = self.tokens[i].at.start;
        format!("{}:{}", self.file(offset).name, self.line(offset))
    }

    /// The directives that are left after preprocessing: line markers and pragmas, without their newline.
    pub fn directives(&self) -> &[Range<usize>] {
        &self.directives
    }

    fn marker(&self, offset: usize) -> Option<&Marker> {
        let n = self.markers.partition_point(|m| m.offset <= offset);
        n.checked_sub(1).map(|i| &self.markers[i])
    }
}

fn match_brackets(source: &Source) -> Vec<Option<usize>> {
    let mut mates = vec![None; source.len()];
    let mut open: Vec<usize> = Vec::new();
    for i in 0..source.len() {
        if source.token(i).kind != Kind::Mark {
            continue;
        }
        match source.word(i) {
            "(" | "[" | "{" => open.push(i),
            close @ (")" | "]" | "}") => {
                let want = match close {
                    ")" => "(",
                    "]" => "[",
                    _ => "{",
                };
                // Text that does not balance is the compiler's to complain about: leave the odd bracket alone.
                if let Some(at) = open.iter().rposition(|&o| source.is(o, want)) {
                    mates[open[at]] = Some(i);
                    mates[i] = Some(open[at]);
                    open.truncate(at);
                }
            }
            _ => {}
        }
    }
    mates
}

struct Lexer<'a> {
    source: &'a mut Source,
    at: usize,
}

impl Lexer<'_> {
    fn run(&mut self) {
        let mut line_start = true;
        while let Some(byte) = self.peek(0) {
            match byte {
                b'\n' => line_start = true,
                b' ' | b'\t' | b'\r' | 0x0b | 0x0c => {}
                b'#' if line_start => {
                    self.directive();
                    continue;
                }
                _ => {
                    line_start = false;
                    let start = self.at;
                    if let Some(kind) = self.token(byte) {
                        let end = self.at.min(self.source.text.len());
                        self.source.tokens.push(Token { kind, at: start..end });
                    }
                    continue;
                }
            }
            self.at += 1;
        }
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.source.text.get(self.at + ahead).copied()
    }

    fn line_end(&self) -> usize {
        let rest = &self.source.text[self.at..];
        self.at + rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len())
    }

    fn directive(&mut self) {
        let end = self.line_end();
        let at = self.at..end;
        let line = String::from_utf8_lossy(&self.source.text[at.clone()]).into_owned();
        if let Some((number, file, flags)) = parse_marker(&line) {
            let known = self.source.files.iter().position(|f| f.name == file);
            let file = known.unwrap_or_else(|| {
                self.source.files.push(File { name: file, system: flags.contains(&"3") });
                self.source.files.len() - 1
            });
            self.source.markers.push(Marker { offset: end + 1, line: number, file });
        }
        self.source.directives.push(at);
        self.at = end;
    }

    /// Moves behind the token that starts with `first`; None for a comment (`-C` keeps them).
    fn token(&mut self, first: u8) -> Option<Kind> {
        if first == b'/' && self.peek(1) == Some(b'/') {
            self.at = self.line_end();
            return None;
        }
        if first == b'/' && self.peek(1) == Some(b'*') {
            self.at += 2;
            while self.peek(0).is_some() && !(self.peek(0) == Some(b'*') && self.peek(1) == Some(b'/')) {
                self.at += 1;
            }
            self.at += 2;
            return None;
        }
        if first.is_ascii_alphabetic() || first == b'_' || first == b'$' || first >= 0x80 {
            let start = self.at;
            while self.peek(0).is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'$' || b >= 0x80) {
                self.at += 1;
            }
            let prefix = &self.source.text[start..self.at];
            return match self.peek(0) {
                Some(b'"') if prefix.ends_with(b"R") && is_prefix(&prefix[..prefix.len() - 1]) => {
                    self.raw_string();
                    Some(Kind::Literal)
                }
                Some(quote @ (b'"' | b'\'')) if is_prefix(prefix) => {
                    self.quoted(quote);
                    Some(Kind::Literal)
                }
                _ => Some(Kind::Word),
            };
        }
        if first.is_ascii_digit() || (first == b'.' && self.peek(1).is_some_and(|b| b.is_ascii_digit())) {
            self.number();
            return Some(Kind::Number);
        }
        if first == b'"' || first == b'\'' {
            self.quoted(first);
            return Some(Kind::Literal);
        }
        const LONG: [&[u8]; 12] =
            [b"<<<", b"<=>", b"...", b"->*", b"<<", b"<=", b">=", b"::", b"->", b"==", b"!=", b"&&"];
        let rest = &self.source.text[self.at..];
        self.at += LONG.iter().find(|mark| rest.starts_with(mark)).map_or(1, |mark| mark.len());
        Some(Kind::Mark)
    }

    fn quoted(&mut self, quote: u8) {
        self.at += 1;
        while let Some(byte) = self.peek(0) {
            self.at += 1;
            match byte {
                b'\\' => self.at += 1,
                b'\n' => break,
                b if b == quote => break,
                _ => {}
            }
        }
    }

    fn raw_string(&mut self) {
        self.at += 1;
        let start = self.at;
        while self.peek(0).is_some_and(|b| b != b'(') {
            self.at += 1;
        }
        let mut end = vec![b')'];
        end.extend_from_slice(&self.source.text[start..self.at]);
        end.push(b'"');
        let rest = &self.source.text[self.at..];
        let length = rest.windows(end.len()).position(|w| w == end).map_or(rest.len(), |p| p + end.len());
        self.at += length;
    }

    fn number(&mut self) {
        while let Some(byte) = self.peek(0) {
            let sign_of_exponent = matches!(byte, b'+' | b'-')
                && matches!(self.source.text[self.at - 1], b'e' | b'E' | b'p' | b'P');
            let separator = byte == b'\'' && self.peek(1).is_some_and(|b| b.is_ascii_alphanumeric());
            if !(byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'_' || separator || sign_of_exponent) {
                break;
            }
            self.at += 1;
        }
    }
}

fn is_prefix(word: &[u8]) -> bool {
    matches!(word, b"" | b"L" | b"u" | b"U" | b"u8")
}

/// `# 12 "file" 1 3` or `#line 12 "file"`.
fn parse_marker(line: &str) -> Option<(usize, String, Vec<&str>)> {
    let rest = line.trim_start_matches('#').trim_start();
    let rest = rest.strip_prefix("line ").unwrap_or(rest);
    let (number, rest) = rest.split_once(' ')?;
    let number = number.parse().ok()?;
    let rest = rest.trim_start().strip_prefix('"')?;
    let close = rest.rfind('"')?;
    Some((number, rest[..close].to_string(), rest[close + 1..].split_whitespace().collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let source = Source::new(text.as_bytes().to_vec());
        (0..source.len()).map(|i| source.word(i).to_string()).collect()
    }

    #[test]
    fn tokens_of_a_launch() {
        assert_eq!(words("k<A<B>>>(1'000, 0x1p-3)"), ["k", "<", "A", "<", "B", ">", ">", ">", "(", "1'000", ",", "0x1p-3", ")"]);
        assert_eq!(words("k<<<1,2>>>(a<<b)"), ["k", "<<<", "1", ",", "2", ">", ">", ">", "(", "a", "<<", "b", ")"]);
    }

    #[test]
    fn literals_hide_what_they_hold() {
        assert_eq!(words(r##"f("<<<\"", R"x(")y)x", '\'', u8"a")"##), [
            "f", "(", r#""<<<\"""#, ",", r##"R"x(")y)x""##, ",", r"'\''", ",", r#"u8"a""#, ")"
        ]);
    }

    #[test]
    fn places_follow_markers() {
        let source = Source::new(b"# 7 \"a.cu\"\nint a;\n# 1 \"/usr/x.h\" 1 3\nint b;\n\n# 9 \"a.cu\" 2\n\nint c;\n".to_vec());
        assert_eq!(source.place(0), "a.cu:7");
        assert_eq!(source.place(3), "/usr/x.h:1");
        assert!(source.file(source.token(3).at.start).system);
        assert_eq!(source.place(6), "a.cu:10");
        assert!(!source.file(source.token(6).at.start).system);
    }

    #[test]
    fn brackets_match_and_odd_ones_are_left() {
        let source = Source::new(b"f(a[1], {2}) ] (".to_vec());
        assert_eq!(source.mate(1), Some(11 - 1));
        assert_eq!(source.mate(source.len() - 1), None);
        assert_eq!(source.mate(source.len() - 2), None);
    }

    #[test]
    fn commas_split_outside_of_brackets() {
        let source = Source::new(b"int a = f(1, 2), std::pair<int, int> b, C c = {1, 2}".to_vec());
        assert_eq!(source.split_commas(0..source.len()).len(), 3);
    }
}
