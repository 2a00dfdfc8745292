//! The preprocessed text as tokens, each with its partner bracket and the file and line that it came from.
//!
//! Only what the rewriter needs of C++'s lexical grammar: strings (raw ones too), numbers and words are whole, `<<<` is one
//! token as in CUDA, and every `>` is a token of its own, so that `A<B<int>>` nests.

mod lexer;

use std::ops::Range;

use lexer::Lexer;

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
        Lexer::new(&mut source).run();
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

    /// The same, or None before the first line marker.
    pub fn file_of(&self, offset: usize) -> Option<&File> {
        self.marker(offset).map(|m| &self.files[m.file])
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
        assert_eq!(
            words(r##"f("<<<\"", R"x(")y)x", '\'', u8"a")"##),
            ["f", "(", r#""<<<\"""#, ",", r##"R"x(")y)x""##, ",", r"'\''", ",", r#"u8"a""#, ")"]
        );
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
