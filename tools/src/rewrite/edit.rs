//! Changes to the text, gathered first and applied at once. An edit may move or repeat pieces of the old text, and edits
//! inside those pieces are carried out there too.

use std::cell::Cell;
use std::ops::Range;

use super::source::Source;

/// A piece of what replaces the old text.
#[derive(Clone, Debug)]
pub enum Piece {
    /// New text, without line breaks.
    New(String),
    /// Old text with the edits inside it.
    Old(Range<usize>),
    /// The same on one line: for text that moves away from its place or appears a second time.
    Flat(Range<usize>),
}

impl From<&str> for Piece {
    fn from(text: &str) -> Piece {
        Piece::New(text.into())
    }
}

impl From<String> for Piece {
    fn from(text: String) -> Piece {
        Piece::New(text)
    }
}

struct Edit {
    at: Range<usize>,
    pieces: Vec<Piece>,
}

/// All edits of one translation unit.
#[derive(Default)]
pub struct Edits {
    list: Vec<Edit>,
}

impl Edits {
    /// Replaces the bytes of `at`. Edits nest or lie apart; two that cross are a mistake of the caller.
    pub fn replace(&mut self, at: Range<usize>, pieces: Vec<Piece>) {
        self.list.push(Edit { at, pieces });
    }

    /// Puts text before the byte at `offset`.
    pub fn insert(&mut self, offset: usize, text: impl Into<String>) {
        self.replace(offset..offset, vec![Piece::New(text.into())]);
    }

    /// Removes the bytes; they become a space, so that words do not grow together.
    pub fn remove(&mut self, at: Range<usize>) {
        self.replace(at, vec![" ".into()]);
    }

    /// The new text. Every line of it still says which line of which file it came from, and what was not changed stands in the
    /// column where it stood: behind a change a line is begun anew, under the same number.
    pub fn apply(mut self, source: &Source) -> Vec<u8> {
        // Insertions before what starts there, outer before inner; a stable sort keeps the order of insertions.
        self.list.sort_by_key(|e| (e.at.start, !e.at.is_empty(), std::cmp::Reverse(e.at.end)));
        let renderer = Renderer { source, list: &self.list, lost: Cell::new(Lost::Nothing) };
        let mut out = Vec::with_capacity(source.bytes().len() * 5 / 4);
        renderer.render(0..source.bytes().len(), 0, &mut out);
        out
    }
}

/// What the text written so far no longer tells of its place.
#[derive(Clone, Copy, PartialEq)]
enum Lost {
    Nothing,
    Column,
    Line,
}

struct Renderer<'a> {
    source: &'a Source,
    list: &'a [Edit],
    lost: Cell<Lost>,
}

impl Renderer<'_> {
    /// Writes the old bytes of `range` with the edits from number `first` on that lie in it.
    fn render(&self, range: Range<usize>, first: usize, out: &mut Vec<u8>) {
        let mut at = range.start;
        let mut next = first + self.list[first..].partition_point(|e| e.at.start < range.start);
        while let Some(edit) = self.list.get(next).filter(|e| e.at.start < range.end) {
            let this = next;
            next += 1;
            if edit.at.start < at || edit.at.end > range.end {
                continue; // inside the edit before, or around this range
            }
            self.copy(at..edit.at.start, out);
            self.render_edit(edit, this + 1, out);
            at = edit.at.end;
        }
        self.copy(at..range.end, out);
    }

    /// Writes old text as it is, in its own place.
    fn copy(&self, range: Range<usize>, out: &mut Vec<u8>) {
        let text = &self.source.bytes()[range.clone()];
        let Some(first) = text.iter().position(|b| !matches!(b, b' ' | b'\t')) else {
            out.extend_from_slice(text);
            return;
        };
        let lost = self.lost.replace(Lost::Nothing);
        if lost == Lost::Line || lost == Lost::Column && text[first] != b'\n' {
            self.resume(range.start, out);
        }
        out.extend_from_slice(text);
    }

    /// Begins a line that continues the old one at `offset`.
    fn resume(&self, offset: usize, out: &mut Vec<u8>) {
        let text = self.source.bytes();
        let begin = text[..offset].iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
        let before = &text[begin..offset];
        let Some(file) = self.source.file_of(offset) else { return };
        if before.trim_ascii_start().starts_with(b"#") {
            return; // a directive ends with its line
        }
        out.extend_from_slice(format!("\n# {} \"{}\"\n", self.source.line(offset), file.name).as_bytes());
        out.extend(before.iter().map(|&b| if b == b'\t' { b'\t' } else { b' ' }));
    }

    fn render_edit(&self, edit: &Edit, inner: usize, out: &mut Vec<u8>) {
        for piece in &edit.pieces {
            match piece {
                Piece::New(text) => out.extend_from_slice(text.as_bytes()),
                Piece::Old(range) => {
                    self.lost.set(Lost::Column);
                    self.render(range.clone(), self.first_inside(range, inner, edit), out);
                }
                Piece::Flat(range) => {
                    let mut lines = Vec::new();
                    self.render(range.clone(), self.first_inside(range, inner, edit), &mut lines);
                    flatten(&lines, out);
                }
            }
        }
        let lines = self.source.bytes()[edit.at.clone()].contains(&b'\n');
        self.lost.set(if lines { Lost::Line } else { Lost::Column });
    }

    /// Edits of a piece within its own edit come after it in the list; a piece from elsewhere may come before.
    fn first_inside(&self, range: &Range<usize>, inner: usize, edit: &Edit) -> usize {
        if range.start >= edit.at.start { inner } else { 0 }
    }
}

/// Drops directives and line breaks.
fn flatten(lines: &[u8], out: &mut Vec<u8>) {
    for line in lines.split(|&b| b == b'\n') {
        let line = line.trim_ascii();
        if !line.starts_with(b"#") {
            out.extend_from_slice(line);
            out.push(b' ');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(text: &str, build: impl FnOnce(&mut Edits)) -> String {
        let source = Source::new(text.as_bytes().to_vec());
        let mut edits = Edits::default();
        build(&mut edits);
        String::from_utf8(edits.apply(&source)).unwrap()
    }

    #[test]
    fn edits_nest_in_moved_pieces() {
        let text = "abc(def)";
        let new = apply(text, |e| {
            e.replace(5..6, vec!["E".into()]);
            e.replace(0..8, vec![Piece::Old(4..7), "|".into(), Piece::Old(0..3)]);
            e.insert(4, "^");
        });
        assert_eq!(new, "^dEf|abc");
    }

    #[test]
    fn lines_are_resumed_after_an_edit_over_several() {
        let text = "# 1 \"a.cu\"\nab\ncd\nef\n";
        let new = apply(text, |e| e.replace(11..16, vec![Piece::Flat(14..16), Piece::Flat(11..13)]));
        assert_eq!(new, "# 1 \"a.cu\"\ncd ab \n# 2 \"a.cu\"\n  \nef\n");
    }

    #[test]
    fn what_follows_an_edit_keeps_its_column() {
        let text = "# 7 \"a.cu\"\n\tab  cd ef\n#pragma x y\n";
        let new = apply(text, |e| {
            e.replace(12..14, vec!["longer".into()]);
            e.remove(19..21);
            e.replace(30..31, vec!["long".into()]);
        });
        assert_eq!(new, "# 7 \"a.cu\"\n\tlonger\n# 7 \"a.cu\"\n\t    cd  \n#pragma long y\n");
    }

    #[test]
    fn an_insertion_survives_the_removal_of_what_follows() {
        let new = apply("a b", |e| {
            e.remove(0..1);
            e.insert(0, "x");
        });
        assert_eq!(new, "x  b");
    }

    #[test]
    fn a_piece_may_be_repeated_elsewhere() {
        let new = apply("(int x) {}", |e| {
            e.replace(1..4, vec!["long".into()]);
            e.replace(8..9, vec!["{f".into(), Piece::Flat(0..7), ";".into()]);
        });
        assert_eq!(new, "(long x) {f(long x) ;}");
    }
}
