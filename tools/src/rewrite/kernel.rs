//! `__global__` functions. The function keeps its name, overloads and templates, and becomes what a host thread calls: it
//! captures its parameters and queues the launch. The body moves into a lambda that every CUDA thread runs on a copy.
//!
//! So the compiler itself resolves every call `kernel<<<...>>>(...)`: deduction, conversion, default arguments, pointers.

use super::Unit;
use super::declaration::{Declaration, Declared, Function, top_level};
use super::edit::Piece;
use super::variable::template_arguments;

/// Wraps the body of every kernel.
pub fn rewrite(unit: &mut Unit) {
    for i in unit.find(&["__global__"]) {
        let declaration = Declaration::around(unit.source, unit.scopes, i);
        match &declaration.declared {
            Declared::Function(function) => {
                if let Some(body) = function.body {
                    wrap(unit, &declaration, function, body);
                }
            }
            _ => unit.problem(i, "cannot make out the function that __global__ declares"),
        }
    }
}

fn wrap(unit: &mut Unit, declaration: &Declaration, function: &Function, (open, close): (usize, usize)) {
    let source = unit.source;
    if top_level(source, function.params.0 + 1..function.params.1)
        .any(|i| source.is(i, "...") && is_c_variadic(unit, i, function))
    {
        unit.problem(function.name.start, "a __global__ function cannot take a variable argument list");
        return;
    }
    // Not inlined, so that parameters arrive whole in memory: NCCL's library keeps marks in the padding of its structs, and
    // an optimizer that sees both ends copies fields only.
    if declaration.specifier(source, "__forceinline__").is_none() {
        unit.edits.insert(source.token(declaration.specifiers).at.start, "__attribute__((noinline)) ");
    }
    let mut head: Vec<Piece> = vec!["{ ".into()];
    if let Some(first) = (open..close).find(|&i| is_function_name(source.word(i))) {
        head.push(format!("static const char* const ginrs_cpu_function = {}; ", source.word(first)).into());
        for i in (open..close).filter(|&i| is_function_name(source.word(i))) {
            unit.edits.replace(source.token(i).at.clone(), vec!["ginrs_cpu_function".into()]);
        }
    }
    head.push("typedef void (*ginrs_cpu_pointer)(".into());
    for (n, parameter) in source.split_commas(function.params.0 + 1..function.params.1).into_iter().enumerate() {
        if n > 0 {
            head.push(", ".into());
        }
        let default = top_level(source, parameter.clone()).find(|&i| source.is(i, "="));
        let end = default.unwrap_or(parameter.end);
        if end > parameter.start {
            head.push(Piece::Flat(source.span(parameter.start, end - 1)));
        }
    }
    let name = own_name(unit, declaration, function);
    head.push(
        format!(
            "); static_assert(::ginrs_cpu::parameters<ginrs_cpu_pointer>()); \
             ::ginrs_cpu::kernel<static_cast<ginrs_cpu_pointer>(&{name})"
        )
        .into(),
    );
    if let Some((first, last)) = bounds(unit, declaration, function) {
        head.extend([", ::ginrs_cpu::bound(".into(), Piece::Flat(source.span(first, last)), ")".into()]);
    }
    head.push(">([=]() mutable -> void {".into());
    unit.edits.replace(source.token(open).at.clone(), head);
    unit.edits.replace(source.token(close).at.clone(), vec!["}); }".into()]);
}

/// What `__launch_bounds__` is given: a GPU refuses larger blocks.
fn bounds(unit: &Unit, declaration: &Declaration, function: &Function) -> Option<(usize, usize)> {
    let source = unit.source;
    let attribute = (declaration.specifiers..function.name.start).find(|&i| source.is(i, "__launch_bounds__"))?;
    let (open, close) = (attribute + 1, source.mate(attribute + 1)?);
    (open + 1 < close).then_some((open + 1, close - 1))
}

fn is_function_name(word: &str) -> bool {
    matches!(word, "__func__" | "__FUNCTION__")
}

/// `...` that follows no type: `(int, ...)`.
fn is_c_variadic(unit: &Unit, i: usize, function: &Function) -> bool {
    i + 1 == function.params.1 && (i == function.params.0 + 1 || unit.source.is(i - 1, ","))
}

/// How the kernel names itself in its own body, as a template-id if it is a template.
fn own_name(unit: &mut Unit, declaration: &Declaration, function: &Function) -> String {
    let source = unit.source;
    let last = function.name.end - 1;
    let mut name = source.text_of(source.span(function.name.start, last)).replace('\n', " ");
    let params = function.params.0 + 1..function.params.1;
    let shadowed = function.name.len() == 1 && params.clone().any(|i| source.word(i) == name);
    if let Some(path) = shadowed.then(|| unit.scopes.namespace_path(function.name.start)).flatten() {
        name = path + &name;
    }
    let specialised = source.is(last, ">");
    let members = declaration.templates.len();
    // Out of its class, `template <class T> void S<T>::k()` has a header for S; a second one is k's own.
    let outer = (function.name.start..last).filter(|&i| source.is(i, "<")).count();
    if specialised || members <= outer {
        return name;
    }
    let (open, close) = declaration.templates[members - 1];
    if outer > 0 {
        let base = source.word(last);
        name.truncate(name.len() - base.len());
        name += "template ";
        name += base;
    }
    name + &template_arguments(unit, open, close)
}
