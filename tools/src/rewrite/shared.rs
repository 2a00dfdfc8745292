//! `__shared__` variables. A block is one OS thread for its whole life, so thread storage is block storage.

use std::collections::HashSet;

use super::Unit;
use super::declaration::{Declaration, Declared, Variable, top_level};
use super::scope::Scope;
use super::variable::make_reference;

/// `__shared__ T x;` becomes `static thread_local T x;`, and `extern __shared__ T s[];` a reference to the memory that the
/// launch gave the block.
pub fn rewrite(unit: &mut Unit) {
    let mut seen = HashSet::new();
    let mut outside = HashSet::new();
    for i in unit.find(&["__shared__"]) {
        let declaration = Declaration::around(unit.source, unit.scopes, i);
        if !seen.insert(declaration.start) {
            continue;
        }
        let Declared::Variables(variables) = &declaration.declared else {
            unit.problem(i, "cannot make out the variable that __shared__ declares");
            continue;
        };
        if unit.scopes.scope(i) == Scope::Class {
            unit.problem(i, "a member of a class cannot be __shared__; declare the whole object __shared__");
            continue;
        }
        if declaration.is_extern(unit.source) {
            let key = (unit.scopes.namespace_path(i), unit.source.text_of(unit.source.span(declaration.start, declaration.end)));
            if !unit.scopes.in_function(i) && !outside.insert(key) {
                // Declared again by another header: a second reference would be a redefinition.
                unit.edits.remove(unit.source.span(declaration.start, declaration.end));
                continue;
            }
            dynamic(unit, &declaration);
        } else if let Some(variable) = variables.iter().find(|v| has_initializer(unit, v)) {
            unit.problem(
                variable.name.start,
                format!(
                    "the __shared__ variable `{}` has an initializer, which no block would run; assign it in one thread and \
                     call __syncthreads()",
                    unit.source.text_of(unit.source.span(variable.name.start, variable.name.end - 1))
                ),
            );
        } else if unit.options.address && unit.scopes.in_function(i) && has_array(unit, &declaration, variables) {
            fence(unit, &declaration, variables);
        } else {
            remove(unit, &declaration, &["static"]);
            hoist_alignment(unit, &declaration);
            let start = unit.source.token(declaration.specifiers).at.start;
            unit.edits.insert(start, "static thread_local ");
            make_arrays_constant(unit, variables);
        }
    }
}

/// An array of a class's objects is zero from the start, as other variables are: without `{}` g++ makes its elements when a thread first comes
/// there, which each thread of the block would have to look for, and the race detector would see them write.
fn make_arrays_constant(unit: &mut Unit, variables: &[Variable]) {
    for variable in variables.iter().filter(|variable| unit.source.is(variable.suffix.start, "[")) {
        unit.edits.insert(unit.source.token(variable.init.end).at.start, "{}");
    }
}

/// `__attribute__((aligned(16)))` behind the name is none.
fn has_initializer(unit: &Unit, variable: &Variable) -> bool {
    let source = unit.source;
    let mut at = variable.init.start;
    while source.is(at, "__attribute__") && at < variable.init.end {
        at = source.mate(at + 1).unwrap_or(at) + 1;
    }
    at < variable.init.end
}

/// Whether one of them is an array, of a type that is not defined here (its name would be the fence's own).
fn has_array(unit: &Unit, declaration: &Declaration, variables: &[Variable]) -> bool {
    let source = unit.source;
    let defines = top_level(source, declaration.specifier_tokens()).any(|i| source.is(i, "{"));
    !defines && variables.iter().all(|v| v.name.len() == 1) && variables.iter().any(|v| source.is(v.suffix.start, "["))
}

/// `__shared__ T x[4];` becomes a member of a thread_local object, between bytes that AddressSanitizer is told are nobody's (it knows no
/// bounds of thread-local variables), and x a reference to it.
fn fence(unit: &mut Unit, declaration: &Declaration, variables: &[Variable]) {
    let source = unit.source;
    remove(unit, declaration, &["static"]);
    let fence = format!("ginrs_cpu_fence_{}", declaration.start);
    let start = source.token(declaration.specifiers).at.start;
    unit.edits.insert(start, format!("struct {fence}_t {{ alignas(32) char before[32]; "));
    let mut behind = format!(" char after[32]; }}; static thread_local {fence}_t {fence};");
    for variable in variables {
        let name = source.word(variable.name.start);
        behind += &format!(" static thread_local auto& {name} = ::ginrs_cpu::fenced({fence}).{name};");
    }
    unit.edits.insert(source.token(declaration.end).at.end, behind);
}

fn dynamic(unit: &mut Unit, declaration: &Declaration) {
    let source = unit.source;
    let Declared::Variables(variables) = &declaration.declared else { return };
    remove(unit, declaration, &["extern"]);
    // A reference has no alignment; the memory is aligned for all.
    for i in alignments(unit, declaration) {
        unit.edits.remove(source.span(i, source.mate(i + 1).unwrap_or(i)));
    }
    // Outside of functions the reference is also bound on host threads, when they first touch a thread_local of the file.
    let inside = unit.scopes.in_function(declaration.start);
    let memory = if inside { "DynamicShared" } else { "DynamicSharedOrNothing" };
    if !(inside && unit.options.race) {
        unit.edits.insert(source.token(declaration.specifiers).at.start, "static thread_local ");
    }
    for variable in variables {
        make_reference(unit, variable);
        let end = source.token(variable.suffix.end.max(variable.name.end)).at.start;
        unit.edits.insert(end, format!(" = ::ginrs_cpu::{memory}{{}}"));
    }
}

/// Removes specifiers by name.
pub fn remove(unit: &mut Unit, declaration: &Declaration, words: &[&str]) {
    for word in words {
        if let Some(i) = declaration.specifier(unit.source, word) {
            unit.edits.remove(unit.source.token(i).at.clone());
        }
    }
}

fn alignments(unit: &Unit, declaration: &Declaration) -> Vec<usize> {
    let source = unit.source;
    top_level(source, declaration.specifier_tokens())
        .filter(|&i| matches!(source.word(i), "alignas" | "__align__" | "__attribute__") && source.is(i + 1, "("))
        .collect()
}

/// `static alignas(16) char b[64]` is no C++ while `alignas(16) static char b[64]` is: moves alignas to the front.
pub fn hoist_alignment(unit: &mut Unit, declaration: &Declaration) {
    let source = unit.source;
    for i in alignments(unit, declaration) {
        if source.is(i, "alignas") {
            let at = source.span(i, source.mate(i + 1).unwrap_or(i));
            let text = source.text_of(at.clone()).replace('\n', " ") + " ";
            unit.edits.remove(at);
            unit.edits.insert(source.token(declaration.specifiers).at.start, text);
        }
    }
}
