//! For the race detector: malloc, new, mmap and their kin are functions of the CPU device that do the same and note what host code has made
//! (cpu-device/shim/heap.c), by the names that the object asks for. What the file defines itself keeps its name.

use super::Unit;
use super::scope::Scope;

const FUNCTIONS: &[&str] = &["malloc", "calloc", "realloc", "aligned_alloc", "posix_memalign", "free", "mmap", "munmap"];
/// With large offsets they are called so, and are the same.
const ALIASES: &[(&str, &str)] = &[("mmap64", "mmap")];
/// `new` and `new[]`, and what they may end with; the same of `delete`.
const NEW: ([&str; 2], [&str; 4]) =
    (["_Znw", "_Zna"], ["m", "mRKSt9nothrow_t", "mSt11align_val_t", "mSt11align_val_tRKSt9nothrow_t"]);
const DELETE: ([&str; 2], [&str; 6]) =
    (["_ZdlPv", "_ZdaPv"], ["", "m", "RKSt9nothrow_t", "St11align_val_t", "mSt11align_val_t", "St11align_val_tRKSt9nothrow_t"]);

/// True for a word that [`rewrite`] looks for.
pub fn is_trigger(word: &str) -> bool {
    word == "operator" || FUNCTIONS.contains(&word)
}

/// Puts the names before the text.
pub fn rewrite(unit: &mut Unit) {
    if !unit.options.race || unit.source.is_empty() {
        return;
    }
    let defined: Vec<&str> = unit
        .find(FUNCTIONS)
        .into_iter()
        .filter(|&i| declares(unit, i) && i > 0 && ["*", "void", "int"].iter().any(|word| unit.source.is(i - 1, word)))
        .map(|i| unit.source.word(i))
        .collect();
    // A call looks like it, and costs no more than that nothing is noted.
    let has_operators = unit
        .find(&["operator"])
        .into_iter()
        .any(|i| ["new", "delete"].iter().any(|word| unit.source.is(i + 1, word)) && declares(unit, i));
    let mut text: String = FUNCTIONS
        .iter()
        .map(|&name| (name, name))
        .chain(ALIASES.iter().copied())
        .filter(|(_, function)| !defined.contains(function))
        .map(|(name, function)| set(name, &format!("_{function}")))
        .collect();
    if !has_operators {
        let names = |(begins, ends): (&[&str], &[&str])| -> String {
            begins
                .iter()
                .flat_map(|begin| ends.iter().map(move |end| format!("{begin}{end}")))
                .map(|name| set(&name, &name))
                .collect()
        };
        text += &(names((&NEW.0, &NEW.1)) + &names((&DELETE.0, &DELETE.1)));
    }
    unit.edits.insert(unit.source.token(0).at.start, text);
}

/// Outside of functions and classes, in a file of the user's.
fn declares(unit: &Unit, i: usize) -> bool {
    unit.is_users(i) && unit.scopes.scope(i) == Scope::Namespace
}

fn set(name: &str, function: &str) -> String {
    format!(" __asm__(\".set {name}, ginrs_cpu_race{function}\");")
}
