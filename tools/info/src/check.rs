//! One question that the tool asks of a machine, and its answer: printed as a tree, or as JSON.

use serde_json::{Value, json};

/// What came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is there, or works.
    Yes,
    /// It is not, or does not.
    No,
    /// A fact, neither good nor bad.
    Note,
}

/// A probe.
#[derive(Clone, Debug)]
pub struct Check {
    name: String,
    answer: Answer,
    found: String,
    fix: Option<String>,
    parts: Vec<Check>,
}

impl Check {
    pub fn new(name: impl Into<String>, answer: Answer, found: impl Into<String>) -> Self {
        Self { name: name.into(), answer, found: found.into(), fix: None, parts: Vec::new() }
    }

    pub fn note(name: impl Into<String>, found: impl Into<String>) -> Self {
        Self::new(name, Answer::Note, found)
    }

    pub fn yes(name: impl Into<String>, found: impl Into<String>) -> Self {
        Self::new(name, Answer::Yes, found)
    }

    /// `why` may end in `| fix: ..`, as an error of the library does.
    pub fn no(name: impl Into<String>, why: impl Into<String>) -> Self {
        let why = why.into();
        let (found, fix) = why.rsplit_once("fix: ").unwrap_or((&why, ""));
        let check = Self::new(name, Answer::No, found.trim_end_matches([' ', '|', ';']));
        if fix.is_empty() { check } else { check.fix(fix) }
    }

    pub fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }

    pub fn with(mut self, parts: Vec<Check>) -> Self {
        self.parts = parts;
        self
    }

    /// Keys are stable: scripts read them.
    pub fn json(&self) -> Value {
        let answer = match self.answer {
            Answer::Yes => "yes",
            Answer::No => "no",
            Answer::Note => "note",
        };
        let parts: Vec<Value> = self.parts.iter().map(Check::json).collect();
        json!({"name": self.name, "answer": answer, "found": self.found, "fix": self.fix, "checks": parts})
    }

    /// A line, and what belongs to it below.
    pub fn text(&self, depth: usize) -> String {
        let mark = match self.answer {
            Answer::Yes => "yes  ",
            Answer::No => "NO   ",
            Answer::Note => "",
        };
        let indent = "  ".repeat(depth);
        let part = if self.found.is_empty() { "" } else { ": " };
        let mut text = format!("{indent}{mark}{}{part}{}\n", self.name, self.found);
        if let Some(fix) = &self.fix {
            text += &format!("{indent}     fix: {fix}\n");
        }
        text + &self.parts.iter().map(|part| part.text(depth + 1)).collect::<String>()
    }
}
