//! From bytes to tokens and markers.

use super::{File, Kind, Marker, Source, Token};

/// Cuts the text of a source into tokens.
pub struct Lexer<'a> {
    source: &'a mut Source,
    at: usize,
}

impl<'a> Lexer<'a> {
    /// At the start of the text.
    pub fn new(source: &'a mut Source) -> Lexer<'a> {
        Lexer { source, at: 0 }
    }

    /// To its end.
    pub fn run(&mut self) {
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
        self.join_launch();
        const LONG: [&[u8]; 12] = [b"<<<", b"<=>", b"...", b"->*", b"<<", b"<=", b">=", b"::", b"->", b"==", b"!=", b"&&"];
        let rest = &self.source.text[self.at..];
        self.at += LONG.iter().find(|mark| rest.starts_with(mark)).map_or(1, |mark| mark.len());
        Some(Kind::Mark)
    }

    /// Some formatters write `<< <` for `<<<`, which nvcc takes: the text becomes `<<< `.
    fn join_launch(&mut self) {
        let rest = &self.source.text[self.at..];
        let spaces = rest.iter().skip(2).take_while(|&&b| b == b' ' || b == b'\t').count();
        if rest.starts_with(b"<<") && spaces > 0 && rest.get(2 + spaces) == Some(&b'<') {
            self.source.text.swap(self.at + 2, self.at + 2 + spaces);
        }
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
            let sign_of_exponent =
                matches!(byte, b'+' | b'-') && matches!(self.source.text[self.at - 1], b'e' | b'E' | b'p' | b'P');
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
