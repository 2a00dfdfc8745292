//! NCCL 2.28.9's own headers, unmodified. They name one dependent type without `typename`, which nvcc takes and g++ and
//! clang++ refuse (the hybrid barrier instantiates it): the preprocessed text gets the word. And they hold PTX for multicast
//! and for network cards, which they choose at run time: it traps if it is ever reached.

use super::Unit;

/// The template whose member is meant.
pub const DEPENDENT_TYPE: &str = "IntSeqUpTo";

/// Says `typename` where `DEPENDENT_TYPE<...>::Type` lacks it.
pub fn patch(unit: &mut Unit) {
    let source = unit.source;
    for i in unit.find(&[DEPENDENT_TYPE]) {
        let Some(close) = source.is(i + 1, "<").then(|| source.close_angle(i + 1)).flatten() else { continue };
        let names_type = source.is(close + 1, "::") && source.is(close + 2, "Type");
        let mut first = i;
        while first >= 2 && source.is(first - 1, "::") {
            first -= 2;
        }
        let said = first > 0 && matches!(source.word(first - 1), "typename" | ":" | "struct" | "using");
        let file = &source.file(source.token(i).at.start).name;
        if names_type && !said && file.ends_with("nccl_device/utility.h") {
            unit.edits.insert(source.token(first).at.start, "typename ");
        }
    }
}

/// True for a file that chooses its PTX at run time by what the device can do.
pub fn chooses_at_run_time(file: &str) -> bool {
    file.contains("/nccl_device/")
}
