//! Inline PTX in device code: the forms of [`table`] become C++ (`ginrs_cpu/ptx.h`), any other is an error that names it.
//! Assembly in host functions is the host's own and stays.

mod asynchronous;
mod math;
mod ptx;
mod table;

use super::Unit;
use super::compat;
use super::edit::Piece;
use super::source::{Kind, Source};
use std::ops::Range;

/// An operand of the statement: `[name] "=r"(expression)`.
#[derive(Debug)]
struct Operand {
    name: String,
    constraint: String,
    /// Bytes of the expression with its parentheses.
    expression: Range<usize>,
}

impl Operand {
    fn is_output(&self) -> bool {
        self.constraint.starts_with(['=', '+'])
    }

    /// 32-bit registers cannot hold an address of the CPU.
    fn is_narrow(&self) -> bool {
        self.constraint.ends_with(['r', 'h'])
    }
}

/// The parts of `asm volatile ("..." : outputs : inputs : clobbers)`.
struct Statement {
    template: String,
    operands: Vec<Operand>,
    /// The closing parenthesis.
    end: usize,
}

/// Rewrites every asm statement of device functions.
pub fn rewrite(unit: &mut Unit) {
    for i in unit.find(&["asm", "__asm__", "__asm"]) {
        if !unit.scopes.in_function(i) || !unit.scopes.side(i).device {
            continue;
        }
        let Some(statement) = parse(unit.source, i) else {
            unit.problem(i, "cannot make out this asm statement");
            continue;
        };
        if statement.template.trim().is_empty() && statement.operands.is_empty() {
            continue; // a compiler barrier is one on the CPU too
        }
        match translate(unit.source, i, &statement) {
            Ok(pieces) => unit.edits.replace(unit.source.span(i, statement.end), pieces),
            Err(message) => unit.edits.replace(unit.source.span(i, statement.end), vec![unavailable(unit.source, i, &message)]),
        }
    }
}

fn parse(source: &Source, start: usize) -> Option<Statement> {
    let mut at = start + 1;
    while matches!(source.word(at), "volatile" | "__volatile__" | "__volatile" | "inline") {
        at += 1;
    }
    let end = source.is(at, "(").then(|| source.mate(at)).flatten()?;
    at += 1;
    let mut template = String::new();
    while source.kind(at) == Some(Kind::Literal) && at < end {
        template += &unescape(source.word(at))?;
        at += 1;
    }
    let mut operands = Vec::new();
    let mut section = 0;
    while at < end {
        match source.word(at) {
            ":" => section += 1,
            "::" => section += 2,
            "," => {}
            _ if section == 1 || section == 2 => {
                let mut name = String::new();
                if source.is(at, "[") {
                    name = source.word(at + 1).to_string();
                    at = source.mate(at)? + 1;
                }
                // Neighbouring literals are one: "=" "r".
                let mut constraint = unescape(source.word(at))?;
                while source.kind(at + 1) == Some(Kind::Literal) {
                    at += 1;
                    constraint += &unescape(source.word(at))?;
                }
                let open = at + 1;
                let close = source.is(open, "(").then(|| source.mate(open)).flatten()?;
                operands.push(Operand { name, constraint, expression: source.span(open, close) });
                at = close;
            }
            _ if section >= 3 => {} // clobbers: every access of ours is one of memory
            _ => return None,
        }
        at += 1;
    }
    Some(Statement { template, operands, end })
}

/// An error of the compiler's, here, if this code is used: headers are full of functions that a program never calls.
fn unavailable(source: &Source, i: usize, message: &str) -> Piece {
    let message = message.replace('\\', "\\\\").replace('"', "\\\"");
    let offset = source.token(i).at.start;
    let file = &source.file(offset).name;
    if compat::chooses_at_run_time(file) {
        return format!("::ginrs_cpu_trap(\"{message}\", \"{file}\", {})", source.line(offset)).into();
    }
    let name = format!("ginrs_cpu_unavailable_{i}");
    format!("do {{ extern void {name}() __attribute__((error(\"{message}\"))); {name}(); }} while (0)").into()
}

/// What a string literal holds.
fn unescape(literal: &str) -> Option<String> {
    if let Some(raw) = literal.strip_prefix("R\"") {
        let open = raw.find('(')?;
        let close = raw.len().checked_sub(open + 2)?;
        return raw.get(open + 1..close).map(str::to_string);
    }
    let inside = literal.strip_prefix('"')?.strip_suffix('"')?;
    let mut text = String::new();
    let mut chars = inside.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next()? {
                'n' => text.push('\n'),
                't' => text.push('\t'),
                'r' => text.push('\r'),
                other => text.push(other),
            },
            c => text.push(c),
        }
    }
    Some(text)
}

/// `do { bind the operands; the instructions } while (0)`, each operand evaluated once as asm does.
fn translate(source: &Source, at: usize, statement: &Statement) -> Result<Vec<Piece>, String> {
    let offset = source.token(at).at.start;
    let place = table::Place { file: source.file(offset).name.clone(), line: source.line(offset) };
    let program = ptx::parse(&statement.template)?;
    let mut pieces: Vec<Piece> = vec!["do { ".into()];
    // Local ones: the same statement may stand in a function twice, once inlined or once more by a macro.
    if !program.targets().is_empty() {
        let labels: Vec<String> = program.targets().into_iter().map(table::label).collect();
        pieces.push(format!("__label__ {}; ", labels.join(", ")).into());
    }
    for (n, operand) in statement.operands.iter().enumerate() {
        let reference = if operand.is_output() { "&" } else { "" };
        pieces.push(format!("[[maybe_unused]] auto{reference} ginrs_{n} = ").into());
        pieces.push(Piece::Flat(operand.expression.clone()));
        pieces.push("; ".into());
    }
    let mut code = String::new();
    for (name, kind) in &program.registers {
        code += &table::register(name, kind)?;
    }
    if program.instructions.is_empty() {
        code += "__asm__ volatile(\"\" : : : \"memory\"); ";
    }
    for instruction in &program.instructions {
        for label in instruction.labels.iter().filter(|label| program.targets().contains(&label.as_str())) {
            code += &format!("{}: ", table::label(label));
        }
        if let Some(predicate) = &instruction.predicate {
            code += &format!("if ({}) ", table::predicate(predicate, &program)?);
        }
        code += &table::translate(instruction, &program, &statement.operands, &place)?;
        code += "; ";
    }
    code += "} while (0)";
    pieces.push(code.into());
    Ok(pieces)
}
