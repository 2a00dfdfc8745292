//! The declaration around an attribute such as `__shared__`: function or variable, its names, its parts.
//!
//! Found by its tokens and not in a parse tree: the trees that the CUDA grammar makes of `extern __shared__
//! __align__(16) char s[]` are full of errors, the tokens are not.

use std::ops::Range;

use super::scope::{Scope, Scopes};
use super::source::{Kind, Source};

/// A declared variable; all ranges are of tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct Variable {
    /// The name with its qualifiers: `S<T>::x`.
    pub name: Range<usize>,
    /// What follows the name up to the initializer: `[4][2]`, or the `)(int)` of a function pointer.
    pub suffix: Range<usize>,
    /// The initializer with its `=`, `{` or `(`; empty if there is none.
    pub init: Range<usize>,
    /// `*` or `&` between the specifiers and the name.
    pub pointer: Range<usize>,
}

/// A function declarator.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// The name as written: `f`, `S::f`, `f<int>`.
    pub name: Range<usize>,
    /// Its parentheses.
    pub params: (usize, usize),
    /// The braces of its body; None for a declaration.
    pub body: Option<(usize, usize)>,
}

/// What is declared.
#[derive(Clone, Debug, PartialEq)]
pub enum Declared {
    /// One function.
    Function(Function),
    /// One or more variables.
    Variables(Vec<Variable>),
    /// Neither could be made out.
    Unclear,
}

/// A declaration and the tokens that it covers.
#[derive(Clone, Debug)]
pub struct Declaration {
    /// Its first token.
    pub start: usize,
    /// First token behind `template <...>`, `extern "C"` and standard attributes.
    pub specifiers: usize,
    /// Its last token: `;`, or `)` where a body follows.
    pub end: usize,
    /// The `<` and `>` of each template header, outermost first.
    pub templates: Vec<(usize, usize)>,
    /// What it declares.
    pub declared: Declared,
}

impl Declaration {
    /// The declaration that token `i` is a specifier of.
    pub fn around(source: &Source, scopes: &Scopes, i: usize) -> Declaration {
        let start = first_token(source, scopes, i);
        let mut templates = Vec::new();
        let mut at = start;
        loop {
            if source.is(at, "template") && source.is(at + 1, "<") {
                let Some(close) = source.close_angle(at + 1) else { break };
                templates.push((at + 1, close));
                at = close + 1;
            } else if source.is(at, "extern") && source.kind(at + 1) == Some(Kind::Literal) {
                at += 2;
            } else if source.is(at, "[") && source.is(at + 1, "[") {
                at = source.mate(at).map_or(at + 1, |close| close + 1);
            } else {
                break;
            }
        }
        let (declared, end) = Declarators { source, at }.parse();
        Declaration { start, specifiers: at, end, templates, declared }
    }

    /// Tokens of the specifiers: from behind the template headers to the first name.
    pub fn specifier_tokens(&self) -> Range<usize> {
        let end = match &self.declared {
            Declared::Function(f) => f.name.start,
            Declared::Variables(v) => v.first().map_or(self.end, |v| v.name.start),
            Declared::Unclear => self.end,
        };
        self.specifiers..end
    }

    /// The token of a specifier such as `static`, outside of all brackets.
    pub fn specifier(&self, source: &Source, word: &str) -> Option<usize> {
        top_level(source, self.specifier_tokens()).find(|&i| source.is(i, word))
    }

    /// `extern` that is no linkage specification.
    pub fn is_extern(&self, source: &Source) -> bool {
        self.specifier(source, "extern").is_some()
    }
}

/// Tokens of a range outside of all brackets.
pub fn top_level(source: &Source, range: Range<usize>) -> impl Iterator<Item = usize> {
    let mut at = range.start;
    std::iter::from_fn(move || {
        if at >= range.end {
            return None;
        }
        let this = at;
        at = match source.word(this) {
            "(" | "[" | "{" => source.mate(this).map_or(this + 1, |m| m + 1),
            "<" => source.close_angle(this).map_or(this + 1, |m| m + 1),
            _ => this + 1,
        };
        Some(this)
    })
}

fn first_token(source: &Source, scopes: &Scopes, i: usize) -> usize {
    let in_function = scopes.in_function(i) && scopes.scope(i) != Scope::Class;
    let mut at = i;
    while at > 0 {
        match source.word(at - 1) {
            ";" | "{" | "(" | "[" | "," => break,
            "}" => match source.mate(at - 1) {
                // `struct { int a; } __shared__ s;`
                Some(open) if class_body(source, open) => at = open,
                _ => break,
            },
            ")" | "]" => at = source.mate(at - 1).unwrap_or(at - 1),
            ">" => at = source.open_angle(at - 1).unwrap_or(at - 1),
            ":" if in_function || matches!(source.word(at.wrapping_sub(2)), "public" | "private" | "protected") => break,
            "else" | "do" => break,
            _ => at -= 1,
        }
    }
    at
}

fn class_body(source: &Source, open: usize) -> bool {
    (0..open).rev().map(|i| source.word(i)).take_while(|w| !matches!(*w, ";" | "{" | "}" | ")" | "=")).any(is_class_key)
}

fn is_class_key(word: &str) -> bool {
    matches!(word, "struct" | "class" | "union" | "enum")
}

/// Words whose parentheses are their own and no parameter list.
fn takes_parentheses(word: &str) -> bool {
    matches!(
        word,
        "__attribute__"
            | "__attribute"
            | "alignas"
            | "_Alignas"
            | "__align__"
            | "__declspec"
            | "decltype"
            | "typeof"
            | "__typeof__"
            | "__typeof"
            | "explicit"
            | "noexcept"
            | "requires"
            | "__launch_bounds__"
            | "__cluster_dims__"
            | "__maxnreg__"
            | "__block_size__"
            | "__underlying_type"
    )
}

struct Declarators<'a> {
    source: &'a Source,
    at: usize,
}

impl Declarators<'_> {
    fn parse(mut self) -> (Declared, usize) {
        let source = self.source;
        let mut name: Option<Range<usize>> = None;
        let mut class_key = false;
        loop {
            let at = self.at;
            match source.word(at) {
                "" => return (Declared::Unclear, source.len().saturating_sub(1)),
                "operator" => {
                    let start = self.name_start(at, name);
                    let mut open = at + 1;
                    if source.is(open, "(") && source.is(open + 1, ")") {
                        open += 2;
                    }
                    while !matches!(source.word(open), "(" | ";" | "") {
                        open += 1;
                    }
                    return self.function(start..open, open);
                }
                "(" if source.is(at + 1, "*") || source.is(at + 1, "&") || source.is(at + 2, "::") && source.is(at + 3, "*") => {
                    return self.variables(None);
                }
                "(" => match name {
                    Some(name) if !self.starts_with_value(at + 1) => return self.function(name, at),
                    name => return self.variables(name),
                },
                "[" if source.is(at + 1, "[") => self.skip(at),
                "{" if class_key => {
                    class_key = false;
                    self.skip(at);
                }
                "[" | "=" | "," | "{" => return self.variables(name),
                ";" => return if name.is_some() { self.variables(name) } else { (Declared::Unclear, at) },
                ")" | "}" | "]" => return (Declared::Unclear, at.saturating_sub(1)),
                "<" => match source.close_angle(at) {
                    Some(close) => {
                        name = name.map(|n| n.start..close + 1);
                        self.at = close + 1;
                    }
                    None => self.at += 1,
                },
                word if takes_parentheses(word) && source.is(at + 1, "(") => self.skip(at + 1),
                word if is_class_key(word) => {
                    class_key = true;
                    self.at += 1;
                }
                _ => {
                    if source.kind(at) == Some(Kind::Word) {
                        name = Some(self.name_start(at, name)..at + 1);
                    }
                    self.at += 1;
                }
            }
        }
    }

    fn skip(&mut self, open: usize) {
        self.at = self.source.mate(open).map_or(open + 1, |close| close + 1);
    }

    /// Where the name that goes on at `at` began.
    fn name_start(&self, at: usize, name: Option<Range<usize>>) -> usize {
        match name {
            Some(name) if at > 0 && matches!(self.source.word(at - 1), "::" | "~" | "template") => name.start,
            _ if at > 0 && self.source.is(at - 1, "::") => at - 1,
            _ => at,
        }
    }

    /// `(1, 2)` after a name: an initializer and not parameters.
    fn starts_with_value(&self, at: usize) -> bool {
        matches!(self.source.kind(at), Some(Kind::Number | Kind::Literal))
            || matches!(self.source.word(at), "-" | "sizeof" | "nullptr" | "true" | "false")
    }

    fn function(self, name: Range<usize>, open: usize) -> (Declared, usize) {
        let source = self.source;
        let Some(close) = source.mate(open) else { return (Declared::Unclear, open) };
        let mut end = close;
        let mut at = close + 1;
        let body = loop {
            match source.word(at) {
                "{" => break source.mate(at).map(|end| (at, end)),
                ";" | "" | "}" | "," => {
                    end = at;
                    break None;
                }
                "(" | "[" => at = source.mate(at).unwrap_or(at),
                // A constructor's initializers: nothing behind them is asked for.
                ":" => break None,
                _ => {}
            }
            at += 1;
        };
        (Declared::Function(Function { name, params: (open, close), body }), end)
    }

    /// The declarators from the one around `self.at` on; `first` is the name before it, if it was passed already.
    fn variables(mut self, first: Option<Range<usize>>) -> (Declared, usize) {
        let source = self.source;
        let mut variables = Vec::new();
        let mut name = first;
        loop {
            let start = self.at;
            let mut suffix = None;
            if name.is_none() {
                match self.next_name() {
                    Some((found, behind)) => {
                        name = Some(found);
                        suffix = behind;
                    }
                    None => return (Declared::Unclear, start),
                }
            }
            let found = name.take().expect("set above");
            let suffix_start = suffix.unwrap_or(self.at);
            while matches!(source.word(self.at), "[" | "(") && !(source.is(self.at, "(") && suffix.is_none()) {
                self.skip(self.at);
            }
            let suffix = suffix_start..self.at;
            let init_start = self.at;
            while !matches!(source.word(self.at), "," | ";" | "" | ")" | "}") {
                match source.word(self.at) {
                    "(" | "[" | "{" => self.skip(self.at),
                    "<" => self.at = source.close_angle(self.at).map_or(self.at + 1, |close| close + 1),
                    _ => self.at += 1,
                }
            }
            let mut pointer = found.start;
            while pointer > 0 && matches!(source.word(pointer - 1), "*" | "&" | "const" | "volatile" | "__restrict__") {
                pointer -= 1;
            }
            let pointer = if (pointer..found.start).any(|i| matches!(source.word(i), "*" | "&")) { pointer } else { found.start };
            variables.push(Variable { pointer: pointer..found.start, name: found, suffix, init: init_start..self.at });
            if !source.is(self.at, ",") {
                return (Declared::Variables(variables), self.at);
            }
            self.at += 1;
        }
    }

    /// The next declarator's name; with the start of its suffix where the name is inside parentheses.
    fn next_name(&mut self) -> Option<(Range<usize>, Option<usize>)> {
        let source = self.source;
        loop {
            let at = self.at;
            match source.word(at) {
                "(" => {
                    let close = source.mate(at)?;
                    let inside = (at + 1..close).rev().find(|&i| source.kind(i) == Some(Kind::Word) && i > at + 1)?;
                    // `(*table[4])(int)`: the name is the first word behind the last `*`.
                    let star = (at + 1..close).rev().find(|&i| matches!(source.word(i), "*" | "&"))?;
                    let named = (star + 1..close).find(|&i| {
                        source.kind(i) == Some(Kind::Word) && !matches!(source.word(i), "const" | "volatile" | "__restrict__")
                    });
                    let named = named.unwrap_or(inside);
                    self.at = close + 1;
                    return Some((named..named + 1, Some(named + 1)));
                }
                word if takes_parentheses(word) && source.is(at + 1, "(") => self.skip(at + 1),
                "" | ";" | "," | "=" => return None,
                _ if source.kind(at) == Some(Kind::Word) && !matches!(source.word(at), "const" | "volatile") => {
                    self.at += 1;
                    return Some((at..at + 1, None));
                }
                _ => self.at += 1,
            }
        }
    }
}
