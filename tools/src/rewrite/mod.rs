//! Turns preprocessed CUDA C++ into C++ that g++ and clang++ compile for the CPU device.
//!
//! Every change is an edit of the text; what needs none passes byte by byte, and line markers stay true, so the compiler's
//! messages and the debugger show the user's own lines. Declarations are found by tokens ([`declaration`], [`scope`]),
//! the callee of a launch in the tree of tree-sitter-cuda ([`launch`]), which is where tokens are not enough.

pub mod asm;
pub mod attribute;
pub mod compat;
pub mod declaration;
pub mod edit;
pub mod foreign;
pub mod heap;
pub mod kernel;
pub mod launch;
pub mod scope;
pub mod shared;
pub mod source;
pub mod unsupported;
pub mod variable;

use edit::Edits;
use scope::Scopes;
use source::{Kind, Source};

/// What the rewriter has to know of the command line.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// `-rdc=true`: device functions and variables may be shared between translation units.
    pub relocatable: bool,
    /// Folders of the stand-in headers: their regions become system headers and keep their statics.
    pub own_headers: Vec<String>,
    /// For the race detector: shared memory of a launch is bound anew by each thread, for no thread may do so for another.
    pub race: bool,
    /// For AddressSanitizer: arrays in shared memory get bytes around them that are nobody's.
    pub address: bool,
}

/// Something that cannot be compiled for the CPU device.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// `file:line`.
    pub place: String,
    /// What and why.
    pub message: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: error: {}", self.place, self.message)
    }
}

/// One translation unit while it is rewritten.
pub struct Unit<'a> {
    /// Its text.
    pub source: &'a Source,
    /// Its braces.
    pub scopes: &'a Scopes,
    /// From the command line.
    pub options: &'a Options,
    /// What is to change.
    pub edits: Edits,
    /// What went wrong.
    pub problems: Vec<Problem>,
    /// Indices of the tokens that some pass looks for.
    triggers: Vec<usize>,
}

impl Unit<'_> {
    /// Tokens spelled as one of `words`, in order. Only words that [`is_trigger`] knows are found.
    pub fn find(&self, words: &[&str]) -> Vec<usize> {
        self.triggers.iter().copied().filter(|&i| words.contains(&self.source.word(i))).collect()
    }

    /// Reports a problem at token `i`.
    pub fn problem(&mut self, i: usize, message: impl Into<String>) {
        self.problems.push(Problem { place: self.source.place(i), message: message.into() });
    }

    /// True for an attribute between the `]` and the `(` of a lambda.
    pub fn is_lambda_attribute(&self, i: usize) -> bool {
        let first = (0..=i).rev().take_while(|&at| self.source.word(at).starts_with("__")).last();
        first.is_some_and(|at| at > 0 && self.source.is(at - 1, "]") && !self.source.is(at - 2, "]"))
    }

    /// True for the user's files: neither system headers nor the stand-in headers.
    pub fn is_users(&self, i: usize) -> bool {
        let offset = self.source.token(i).at.start;
        let file = self.source.file(offset);
        !file.system && !self.is_own(&file.name)
    }

    /// True for the name of a stand-in header.
    pub fn is_own(&self, file: &str) -> bool {
        self.options.own_headers.iter().any(|folder| file.starts_with(folder.as_str()))
    }
}

fn is_trigger(source: &Source, i: usize) -> bool {
    match source.kind(i) {
        Some(Kind::Word) => {
            let word = source.word(i);
            matches!(word, "asm" | "static" | compat::DEPENDENT_TYPE)
                || word.starts_with("__") && word.ends_with("__")
                || word == "__asm"
                || unsupported::is_trigger(word)
                || foreign::is_trigger(word)
                || heap::is_trigger(word)
        }
        Some(Kind::Mark) => source.is(i, "<<<"),
        _ => false,
    }
}

/// Rewrites the preprocessed text of one `.cu` file; on failure, all problems in the order of the text.
pub fn rewrite(text: Vec<u8>, options: &Options) -> Result<Vec<u8>, Vec<Problem>> {
    let source = Source::new(text);
    let scopes = Scopes::new(&source);
    let triggers = (0..source.len()).filter(|&i| is_trigger(&source, i)).collect();
    let mut unit = Unit { source: &source, scopes: &scopes, options, edits: Edits::default(), problems: Vec::new(), triggers };
    unsupported::check(&mut unit);
    compat::patch(&mut unit);
    foreign::rewrite(&mut unit);
    shared::rewrite(&mut unit);
    variable::rewrite(&mut unit);
    kernel::rewrite(&mut unit);
    launch::rewrite(&mut unit);
    asm::rewrite(&mut unit);
    attribute::rewrite(&mut unit);
    heap::rewrite(&mut unit);
    let Unit { edits, problems, .. } = unit;
    if problems.is_empty() { Ok(edits.apply(&source)) } else { Err(problems) }
}
