//! CUDA's attributes that have done their work: removed, or replaced by those of g++ and clang++.

use super::Unit;
use super::declaration::{Declaration, Declared, Function};
use super::source::Source;

const REMOVED: &[&str] = &[
    "__global__",
    "__device__",
    "__host__",
    "__constant__",
    "__shared__",
    "__managed__",
    "__grid_constant__",
    "__nv_pure__",
    "__inline_hint__",
    "__device_builtin__",
    "__cudart_builtin__",
];
const REMOVED_WITH_ARGUMENTS: &[&str] =
    &["__launch_bounds__", "__cluster_dims__", "__maxnreg__", "__block_size__", "__local_maxnreg__"];

/// Removes and replaces them; also pragmas that only nvcc knows.
pub fn rewrite(unit: &mut Unit) {
    let source = unit.source;
    for i in unit.find(REMOVED) {
        unit.edits.remove(source.token(i).at.clone());
    }
    for i in unit.find(REMOVED_WITH_ARGUMENTS) {
        let end = if source.is(i + 1, "(") { source.mate(i + 1).unwrap_or(i) } else { i };
        unit.edits.remove(source.span(i, end));
    }
    for i in unit.find(&["__forceinline__"]) {
        let mut new = String::from("__attribute__((always_inline))");
        if !unit.is_lambda_attribute(i) {
            let declaration = Declaration::around(source, unit.scopes, i);
            if calls_itself(source, &declaration) {
                new.clear();
            }
            if declaration.specifier(source, "inline").is_none() {
                new.insert_str(0, "inline ");
            }
        }
        unit.edits.replace(source.token(i).at.clone(), vec![new.into()]);
    }
    for i in unit.find(&["__noinline__"]) {
        // libstdc++ writes __attribute__((__noinline__)).
        if i == 0 || !matches!(source.word(i - 1), "(" | ",") {
            unit.edits.replace(source.token(i).at.clone(), vec!["__attribute__((noinline))".into()]);
        }
    }
    for i in unit.find(&["__align__"]) {
        if let Some(close) = source.is(i + 1, "(").then(|| source.mate(i + 1)).flatten() {
            unit.edits.replace(source.token(i).at.clone(), vec!["__attribute__((aligned".into()]);
            unit.edits.replace(source.token(close).at.clone(), vec![")))".into()]);
        }
    }
    directives(unit);
}

/// nvcc takes __forceinline__ as far as it goes; always_inline on a function that calls itself is an error.
fn calls_itself(source: &Source, declaration: &Declaration) -> bool {
    let Declared::Function(Function { name, body: Some((open, close)), .. }) = &declaration.declared else { return false };
    let name = source.word(name.end - 1);
    (*open..*close).any(|i| source.is(i, name) && matches!(source.word(i + 1), "(" | "<"))
}

/// Pragmas of nvcc go; line markers of the stand-in headers say "system header", as a toolkit's would under -isystem.
fn directives(unit: &mut Unit) {
    for at in unit.source.directives() {
        let text = unit.source.text_of(at.clone());
        if let Some(pragma) = text.trim_start_matches('#').trim_start().strip_prefix("pragma ") {
            let name = pragma.trim_start();
            if ["unroll", "nounroll", "nv_", "hd_warning_disable", "diag_", "nvcc"].iter().any(|p| name.starts_with(p)) {
                unit.edits.remove(at.clone());
            }
        } else if unit.is_own(&unit.source.file((at.end + 1).min(unit.source.bytes().len())).name)
            && !text.ends_with(" 3")
            && !text.contains(" 3 ")
        {
            unit.edits.replace(at.clone(), vec![text.into(), " 3".into()]);
        }
    }
}
