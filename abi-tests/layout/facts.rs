//! What can be said of a layout in one line, said by Rust and by a C or C++ program that is generated from the same list.

use std::collections::BTreeMap;
use std::fmt::Write;

/// Who knows a name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Where {
    /// NCCL's headers, as C and as C++.
    C,
    /// NCCL's headers, as C++ only.
    Cxx,
    /// DOCA's verbs headers, which the wheel of 2.28.7 left out.
    Doca,
    /// Plugins' headers, which no wheel has: abi-tests/layout/plugin.h is written from the specification.
    Plugin,
    /// Our headers alone.
    Ours,
}

/// One struct, union or scalar type.
pub struct Record {
    pub within: Where,
    /// As C++ writes it; C takes the same where `within` is C.
    pub name: &'static str,
    /// Size and alignment of the Rust type, where there is one.
    pub rust: Option<(usize, usize)>,
    /// Name, and offset and size in Rust where it has the field.
    pub fields: Vec<(&'static str, Option<(usize, usize)>)>,
}

/// `record!(C, "ncclTeam_t", ncclTeam_t { nRanks, rank, stride })`, or with `-` where Rust has no such type; fields behind `c:` are
/// C's alone.
macro_rules! record {
    ($within:ident, $name:literal, - { $($c:literal),* $(,)? }) => {
        Record { within: Where::$within, name: $name, rust: None, fields: vec![$(($c, None)),*] }
    };
    ($within:ident, $name:literal, $rust:ty { $($field:ident),* $(; c: $($c:literal),* $(,)?)? }) => {
        Record {
            within: Where::$within,
            name: $name,
            rust: Some((std::mem::size_of::<$rust>(), std::mem::align_of::<$rust>())),
            fields: vec![
                $((stringify!($field), Some((std::mem::offset_of!($rust, $field), bytes(|at: *const $rust| {
                    // SAFETY: the closure is never called.
                    unsafe { &raw const (*at).$field }
                })))),)*
                $($(($c, None)),*)?
            ],
        }
    };
}
pub(crate) use record;

/// Size of the field that `at` leads to.
pub fn bytes<R, F>(_at: fn(*const R) -> *const F) -> usize {
    size_of::<F>()
}

/// A constant: a C expression, and its value in Rust.
pub struct Value {
    pub within: Where,
    pub expression: String,
    pub value: i128,
}

/// `name -> what is said of it`.
pub type Facts = BTreeMap<String, String>;

/// What Rust says of those parts.
pub fn rust(records: &[Record], values: &[Value], parts: &[Where]) -> Facts {
    let mut facts = Facts::new();
    for record in records.iter().filter(|record| parts.contains(&record.within)) {
        if let Some((size, align)) = record.rust {
            facts.insert(record.name.into(), format!("{size} align {align}"));
        }
        for (field, at) in &record.fields {
            if let Some((offset, size)) = at {
                facts.insert(format!("{}.{field}", record.name), format!("{size} at {offset}"));
            }
        }
    }
    for value in values.iter().filter(|value| parts.contains(&value.within)) {
        facts.insert(value.expression.clone(), value.value.to_string());
    }
    facts
}

/// The program that says the same of the headers in `head`, and in C++ each field's type besides.
pub fn program(head: &str, records: &[Record], values: &[Value], parts: &[Where]) -> String {
    let mut text = format!("{head}\n{PROGRAM}\n");
    let mut line = |code: String| writeln!(text, "  {code}").expect("a string grows");
    for record in records.iter().filter(|record| parts.contains(&record.within)) {
        line(format!("RECORD({})", record.name));
        record.fields.iter().for_each(|(field, _)| line(format!("FIELD({}, {field})", record.name)));
    }
    for value in values.iter().filter(|value| parts.contains(&value.within)) {
        line(format!("VALUE(\"{}\", {})", value.expression.replace('"', "\\\""), value.expression));
    }
    text + "  return 0;\n}\n"
}

/// `MASK` sets one bit field of a descriptor's word and gives the word.
const PROGRAM: &str = r#"
#include <stdalign.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#define RECORD(type) printf("%s = %zu align %zu\n", #type, sizeof(type), alignof(type));
#define AT(type, field) printf("%s.%s = %zu at %zu\n", #type, #field, sizeof(((type*)0)->field), offsetof(type, field));
#ifdef __cplusplus
#include <typeinfo>
#define FIELD(type, field) AT(type, field) printf("%s.%s is %s\n", #type, #field, typeid(decltype(type::field)).name());
#define MASK(type, field) [] { type word; memset(&word, 0, sizeof word); word.field = ~0ull; return (long long)word.raw; }()
#else
#define FIELD(type, field) AT(type, field)
#endif
#define VALUE(text, expression) printf("%s = %lld\n", text, (long long)(expression));
#ifdef NCCL_CONFIG_INITIALIZER
static ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
static ncclSimInfo_t sim = NCCL_SIM_INFO_INITIALIZER;
#endif
int main(void) {"#;

/// What such a program printed: layouts and values, and types.
pub fn parse(output: &str) -> (Facts, Facts) {
    let pairs =
        |separator| output.lines().filter_map(move |line| line.split_once(separator)).map(|(a, b)| (a.to_owned(), b.to_owned()));
    (pairs(" = ").collect(), pairs(" is ").collect())
}

/// Where `right` says otherwise than `left`, or nothing.
pub fn differences(left: &Facts, right: &Facts) -> Vec<String> {
    let nothing = "nothing".to_owned();
    let pairs = left.iter().map(|(name, fact)| (name, fact, right.get(name).unwrap_or(&nothing)));
    pairs.filter(|(_, one, other)| one != other).map(|(name, one, other)| format!("{name}: {one} | {other}")).collect()
}
