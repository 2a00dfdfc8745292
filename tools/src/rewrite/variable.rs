//! `__device__` and `__constant__` variables: one copy per device, also where devices are threads of one process.
//!
//! `__device__ int x = 1;` becomes the master `int ginrs_cpu_master_x = 1;` and a thread_local reference `x`, which is bound
//! to the master on host threads (its address names the variable for cudaMemcpyToSymbol) and to the device's copy on
//! the threads of its blocks. Constants stay plain: all copies would be equal for ever.

use std::collections::HashSet;

use super::Unit;
use super::declaration::{Declaration, Declared, Function, Variable, top_level};
use super::edit::Piece;
use super::scope::Scope;
use super::shared::{hoist_alignment, remove};
use super::source::Source;

/// Rewrites variables with an attribute and static locals of device functions, and gives device functions and variables
/// the linkage that nvcc gives them.
pub fn rewrite(unit: &mut Unit) {
    let shared = names_seen_elsewhere(unit);
    let mut seen = HashSet::new();
    for i in unit.find(&["__device__", "__constant__", "__managed__", "static"]) {
        let source = unit.source;
        let attribute = !source.is(i, "static");
        if attribute && unit.is_lambda_attribute(i) {
            continue;
        }
        let in_function = unit.scopes.in_function(i) && unit.scopes.scope(i) != Scope::Class;
        let static_of_device = in_function && unit.scopes.side(i).device && unit.is_users(i);
        if !attribute && !static_of_device {
            continue;
        }
        let declaration = Declaration::around(source, unit.scopes, i);
        if !seen.insert(declaration.start) {
            continue;
        }
        match &declaration.declared {
            Declared::Function(function) => internal_function(unit, &declaration, function, &shared),
            Declared::Variables(variables) => per_device(unit, &declaration, variables, in_function, &shared),
            Declared::Unclear => {}
        }
    }
}

/// Names that a friend or extern declaration promised external linkage.
fn names_seen_elsewhere(unit: &Unit) -> HashSet<String> {
    let mut names = HashSet::new();
    for i in unit.find(&["__device__", "__constant__"]) {
        let declaration = Declaration::around(unit.source, unit.scopes, i);
        let friend = declaration.specifier(unit.source, "friend").is_some();
        if !friend && !declaration.is_extern(unit.source) {
            continue;
        }
        let ranges = match declaration.declared {
            Declared::Function(f) => vec![f.name],
            Declared::Variables(v) => v.into_iter().map(|v| v.name).collect(),
            Declared::Unclear => continue,
        };
        names.extend(ranges.iter().map(|r| unit.source.word(r.end - 1).to_string()));
    }
    names
}

/// Without -rdc, a device function belongs to its translation unit: two files may define different ones of one name.
fn internal_function(unit: &mut Unit, declaration: &Declaration, function: &Function, shared: &HashSet<String>) {
    let source = unit.source;
    let i = declaration.specifiers;
    let has = |word: &str| declaration.specifier(source, word).is_some();
    let linkage = ["static", "inline", "__inline__", "__forceinline__", "constexpr", "consteval", "extern", "friend"];
    if unit.options.relocatable
        || !unit.is_users(i)
        || unit.scopes.scope(i) != Scope::Namespace
        || (function.name.len() != 1 && !source.is(function.name.start, "operator"))
        || !declaration.templates.is_empty()
        || has("__host__")
        || has("__global__")
        || linkage.iter().any(|word| has(word))
        || shared.contains(source.word(function.name.start))
        || source.word(declaration.start) == "extern"
    {
        return;
    }
    unit.edits.insert(source.token(i).at.start, "static __attribute__((unused)) ");
}

/// const and constexpr variables, and managed ones, which all devices share.
fn stays_plain(unit: &Unit, declaration: &Declaration, variable: &Variable) -> bool {
    let source = unit.source;
    let has = |word: &str| declaration.specifier(source, word).is_some();
    if has("constexpr") || has("__managed__") || has("thread_local") || has("__thread") || has("typedef") {
        return true;
    }
    if variable.pointer.is_empty() {
        let function_pointer = source.is(variable.suffix.start, ")");
        return has("const") && !function_pointer;
    }
    source.is(variable.name.start - 1, "const")
}

fn per_device(unit: &mut Unit, declaration: &Declaration, variables: &[Variable], in_function: bool, shared: &HashSet<String>) {
    let source = unit.source;
    let at = declaration.specifiers;
    let has = |word: &str| declaration.specifier(source, word).is_some();
    if has("__shared__") || variables.iter().all(|v| stays_plain(unit, declaration, v)) {
        hoist_if_constant(unit, declaration);
        name_plain_ones(unit, declaration, variables);
        return;
    }
    if let Some(constant) = variables.iter().find(|v| stays_plain(unit, declaration, v)) {
        unit.problem(constant.name.start, "declare this constant apart from the variables beside it");
        return;
    }
    let in_class = unit.scopes.scope(declaration.start) == Scope::Class;
    if in_class && !has("static") {
        unit.problem(at, "a member of a class cannot be a __device__ variable unless it is static");
        return;
    }
    hoist_alignment(unit, declaration);
    if declaration.is_extern(source) || (in_class && !has("inline")) {
        declared_only(unit, declaration, variables);
        return;
    }
    let static_member = variables.iter().any(|v| v.name.len() > 1);
    if static_member && !declaration.templates.is_empty() {
        unit.problem(
            variables[0].name.start,
            "a __device__ variable of a class template must be defined inside the class, as `static inline __device__`",
        );
        return;
    }
    let alone = !unit.options.relocatable
        && !has("inline")
        && !static_member
        && declaration.templates.is_empty()
        && source.word(declaration.start) != "extern"
        && !variables.iter().any(|v| shared.contains(source.word(v.name.start)));
    let internal = has("static") || (!in_function && !in_class && alone);
    if static_member || (internal && !has("static")) {
        unit.edits.insert(source.token(at).at.start, "static ");
    }
    if in_function && !has("static") {
        unit.edits.insert(source.token(at).at.start, "static ");
    }
    let storage = match (internal || in_class || in_function, has("inline")) {
        (true, true) => "static inline thread_local ",
        (true, false) => "static thread_local ",
        (false, true) => "inline thread_local ",
        (false, false) => "thread_local ",
    };
    let mut behind: Vec<Piece> = Vec::new();
    for variable in variables {
        let name = source.text_of(source.span(variable.name.start, variable.name.end - 1)).to_string();
        let master = master_name(&name);
        unit.edits.replace(source.span(variable.name.start, variable.name.end - 1), vec![master.clone().into()]);
        let mut master = master;
        for &(open, close) in &declaration.templates {
            behind.push(" template".into());
            behind.push(Piece::Flat(source.span(open, close)));
            master += &template_arguments(unit, open, close);
        }
        let unused = if static_member { "" } else { "__attribute__((unused)) " };
        behind.push(
            format!(" {unused}{storage}decltype({master})& {name} = ::ginrs_cpu::device_variable({master}, \"{name}\");").into(),
        );
    }
    let end = source.token(declaration.end).at.clone();
    behind.insert(0, ";".into());
    unit.edits.replace(end, behind);
}

/// Both sides' variables that stay as they are: for the race detector, which takes others for the host's (cpu-device/src/race/globals.rs).
fn name_plain_ones(unit: &mut Unit, declaration: &Declaration, variables: &[Variable]) {
    let source = unit.source;
    let is_both = ["__device__", "__constant__", "__managed__"].iter().any(|word| declaration.specifier(source, word).is_some());
    for variable in variables.iter().filter(|_| unit.options.race && is_both) {
        let name = source.word(variable.name.end - 1);
        let text = format!("__asm__(\".pushsection ginrs_plain, \\\"\\\", %progbits; .asciz \\\"{name}\\\"; .popsection\"); ");
        unit.edits.insert(source.token(0).at.start, text);
    }
}

/// `static __constant__ alignas(16) const float t[4] = {...}`: plain, but alignas must come first.
fn hoist_if_constant(unit: &mut Unit, declaration: &Declaration) {
    let shared = declaration.specifier(unit.source, "__shared__").is_some();
    let attributed =
        ["__device__", "__constant__", "__managed__"].iter().any(|w| declaration.specifier(unit.source, w).is_some());
    if attributed && !shared {
        hoist_alignment(unit, declaration);
    }
}

/// `extern __device__ int x;` and `static __device__ int x;` in a class: the reference is defined elsewhere.
fn declared_only(unit: &mut Unit, declaration: &Declaration, variables: &[Variable]) {
    let source = unit.source;
    let keyword = ["extern", "static"].iter().find_map(|w| declaration.specifier(source, w));
    let Some(keyword) = keyword else { return };
    unit.edits.replace(source.token(keyword).at.clone(), vec![source.word(keyword).into(), " thread_local".into()]);
    for variable in variables {
        make_reference(unit, variable);
    }
    remove(unit, declaration, &["__thread"]);
}

/// `x` becomes `&x`, `x[4]` becomes `(&x)[4]`.
pub fn make_reference(unit: &mut Unit, variable: &Variable) {
    let source = unit.source;
    let array = source.is(variable.suffix.start, "[") && !variable.suffix.is_empty();
    unit.edits.insert(source.token(variable.name.start).at.start, if array { "(&" } else { "&" });
    if array {
        unit.edits.insert(source.token(variable.name.end).at.start, ")");
    }
}

fn master_name(name: &str) -> String {
    let plain: String = name.chars().map(|c| if c.is_alphanumeric() || c == '_' { c } else { '_' }).collect();
    format!("ginrs_cpu_master_{plain}")
}

/// The last token in the parentheses of `void (*say)(int)` and `int (&row)[4]`.
fn declarator(source: &Source, parameter: std::ops::Range<usize>) -> Option<usize> {
    let open = top_level(source, parameter).find(|&i| source.is(i, "("))?;
    let close = source.mate(open)?;
    (source.is(close + 1, "(") || source.is(close + 1, "[")).then_some(close - 1)
}

/// `<T, N, Rest...>` for the template header between `open` and `close`; those without a name get one, or
/// end the list if they have a default.
pub fn template_arguments(unit: &mut Unit, open: usize, close: usize) -> String {
    let source = unit.source;
    let mut names = Vec::new();
    for parameter in source.split_commas(open + 1..close) {
        let end = top_level(source, parameter.clone()).find(|&i| source.is(i, "=")).unwrap_or(parameter.end);
        let Some(last) = declarator(source, parameter.start..end).or((parameter.start..end).next_back()) else { break };
        let named = source.kind(last) == Some(super::source::Kind::Word)
            && last > parameter.start
            && !matches!(
                source.word(last),
                "typename" | "class" | "int" | "unsigned" | "bool" | "auto" | "long" | "char" | "size_t"
            )
            && !source.is(last - 1, "::");
        if !named {
            let default = end < parameter.end;
            if default {
                break;
            }
            let name = format!("ginrs_unnamed_{}", names.len());
            unit.edits.insert(source.token(last).at.end, format!(" {name}"));
            names.push(if source.is(last, "...") { name + "..." } else { name });
            continue;
        }
        let pack = (parameter.start..last).any(|i| source.is(i, "..."));
        names.push(format!("{}{}", source.word(last), if pack { "..." } else { "" }));
    }
    format!("<{}>", names.join(", "))
}
