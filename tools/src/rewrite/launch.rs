//! `kernel<<<grid, block, shared, stream>>>(arguments)` becomes `(Launch(...), kernel(arguments))`: the left side says how the
//! kernel that is called next is to be launched.

use std::collections::HashMap;

use tree_sitter::{Node, Parser, Tree};

use super::Unit;
use super::edit::Piece;
use super::source::Kind;

/// Rewrites every launch. One that cannot be made out is a problem, so that no `<<<` reaches the compiler.
pub fn rewrite(unit: &mut Unit) {
    let mut trees = Trees::default();
    for open in unit.find(&["<<<"]) {
        let source = unit.source;
        let Some(close) = closing(unit, open) else {
            unit.problem(open, "`<<<` without its `>>>`");
            continue;
        };
        let arguments = close + 1;
        let Some(end) = source.is(arguments, "(").then(|| source.mate(arguments)).flatten() else {
            unit.problem(open, "a launch `<<<...>>>` needs its arguments in parentheses behind it");
            continue;
        };
        let Some(callee) = trees.callee(unit, open).or_else(|| callee_by_tokens(unit, open)) else {
            unit.problem(open, "cannot make out what is launched in front of `<<<`");
            continue;
        };
        let side = unit.scopes.side(open);
        if side.device && !side.host {
            unit.problem(open, "a launch in device code (dynamic parallelism) is not available on the CPU device");
            continue;
        }
        let offset = source.token(open).at.start;
        let mut pieces: Vec<Piece> =
            vec![format!("(::ginrs_cpu::Launch(\"{}\", {}, ", source.file(offset).name, source.line(offset)).into()];
        // `>>>` is three tokens, the last of which is `close`.
        pieces.push(Piece::Flat(source.token(open).at.end..source.token(close - 2).at.start));
        pieces.push("), ".into());
        pieces.push(Piece::Old(source.token(callee).at.start..source.token(open).at.start));
        pieces.push(Piece::Old(source.span(arguments, end)));
        pieces.push(")".into());
        unit.edits.replace(source.span(callee, end), pieces);
    }
}

/// The last `>` of the first `>>>` outside of brackets.
fn closing(unit: &Unit, open: usize) -> Option<usize> {
    let source = unit.source;
    let mut at = open + 1;
    while at < source.len() {
        match source.word(at) {
            "(" | "[" | "{" => at = source.mate(at)?,
            ")" | "]" | "}" | ";" | "<<<" => return None,
            "<" => {
                // Template arguments: `<<<blocks<A<B>>(n), 1>>>`. A `>` that has three in a row ends the launch instead.
                if let Some(end) = source.close_angle(at).filter(|&end| !ends_launch(unit, end) && !ends_launch(unit, end - 1)) {
                    at = end;
                }
            }
            ">" if ends_launch(unit, at) => return Some(at + 2),
            _ => {}
        }
        at += 1;
    }
    None
}

fn ends_launch(unit: &Unit, at: usize) -> bool {
    let source = unit.source;
    // Some formatters write `>> >`, which nvcc takes.
    (at..at + 3).all(|i| source.is(i, ">")) && (at..at + 2).any(|i| source.token(i).at.end == source.token(i + 1).at.start)
}

/// Trees of the functions that hold launches.
#[derive(Default)]
struct Trees {
    known: HashMap<(usize, usize), Option<Tree>>,
}

impl Trees {
    /// First token of the launched expression, as the tree has it; None where the tree has errors there.
    fn callee(&mut self, unit: &Unit, open: usize) -> Option<usize> {
        let (first, last) = unit.scopes.function(open)?;
        let span = unit.source.span(first, last);
        let tree = self.known.entry((first, last)).or_insert_with(|| parse(unit, span.clone())).as_ref()?;
        let offset = unit.source.token(open).at.start - span.start + PREFIX.len();
        let mut node = tree.root_node().descendant_for_byte_range(offset, offset + 3)?;
        while node.kind() != "call_expression" || node.child_by_field_name("function")?.end_byte() > offset {
            node = node.parent()?;
        }
        let function = node.child_by_field_name("function")?;
        if !is_launch(node) || function.has_error() {
            return None;
        }
        Some(unit.source.token_at(function.start_byte() - PREFIX.len() + span.start))
    }
}

fn is_launch(node: Node) -> bool {
    (0..node.child_count()).filter_map(|i| node.child(i)).any(|child| child.kind() == "kernel_call_syntax")
}

/// In front of a function's body, so that it parses as one.
const PREFIX: &str = "void f() ";

fn parse(unit: &Unit, span: std::ops::Range<usize>) -> Option<Tree> {
    let mut text = PREFIX.as_bytes().to_vec();
    text.extend_from_slice(&unit.source.bytes()[span.clone()]);
    for directive in unit.source.directives() {
        if directive.start >= span.start && directive.end <= span.end {
            text[directive.start - span.start + PREFIX.len()..directive.end - span.start + PREFIX.len()].fill(b' ');
        }
    }
    let mut parser = Parser::new();
    parser.set_language(&tree_sitter_cuda::LANGUAGE.into()).ok()?;
    parser.parse(text, None)
}

/// The same by walking back over names, template arguments, calls and subscripts.
fn callee_by_tokens(unit: &Unit, open: usize) -> Option<usize> {
    let source = unit.source;
    let mut at = open;
    loop {
        match source.word(at.checked_sub(1)?) {
            ">" => at = source.open_angle(at - 1)?,
            ")" | "]" => {
                at = source.mate(at - 1)?;
                let before = at.checked_sub(1)?;
                if matches!(source.word(before), ")" | "]" | ">") || is_name(unit, before) {
                    continue;
                }
                return Some(at);
            }
            _ if is_name(unit, at - 1) => {
                at -= 1;
                while at > 0 && matches!(source.word(at - 1), "::" | "template") {
                    at -= 1;
                }
                match source.word(at.wrapping_sub(1)) {
                    "." | "->" => at -= 1,
                    ">" if source.is(at, "::") => {}
                    _ if source.is(at, "::") && at > 0 && is_name(unit, at - 1) => {}
                    _ => return Some(at),
                }
            }
            _ => return None,
        }
    }
}

fn is_name(unit: &Unit, i: usize) -> bool {
    unit.source.kind(i) == Some(Kind::Word)
        && !matches!(
            unit.source.word(i),
            "return" | "else" | "do" | "if" | "while" | "for" | "switch" | "case" | "throw" | "co_return"
        )
}
