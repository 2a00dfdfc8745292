//! Waits of NVIDIA's own device headers. They tell nobody what they wait for, so a hang in them would say nothing, and look like work.
//! Each function that waits gets the caller's line, as those of our headers have it, and says what it is and waits for
//! (`ginrs_cpu/foreign.h`); those that look at signals say at which. What is named here are declared names and the layout of the ABI; a
//! function that a version declares in another way is left as it is.

use std::ops::Range;

use super::Unit;
use super::scope::Scope;

/// A member function, by the header that declares it: `nccl_device/FILE.h`, defined in `nccl_device/impl/FILE__funcs.h`. In the texts `$1` is the
/// name of its second parameter, `$S1` and `$C1` are where the signal or the counter of that number stands.
struct Function {
    file: &'static str,
    name: &'static str,
    /// Whose it is, kind (GINRS_CPU_CALL_), context and id.
    call: &'static str,
    /// Whether it waits still, which it writes to `wait`.
    waits: &'static str,
    /// At what it looks.
    says: &'static str,
}

const SIGNAL: &str = "::ginrs_cpu::owner_of(this->comm), GINRS_CPU_CALL_SIGNAL, this->contextId, uint32_t($1)";
const READ: &str = "::ginrs_cpu::owner_of(this->comm), GINRS_CPU_CALL_SIGNAL, this->contextId, uint32_t($0)";
const COUNTER: &str = "::ginrs_cpu::owner_of(this->comm), GINRS_CPU_CALL_COUNTER, this->contextId, uint32_t($1)";
const READ_COUNTER: &str = "::ginrs_cpu::owner_of(this->comm), GINRS_CPU_CALL_COUNTER, this->contextId, uint32_t($0)";
const FLUSH: &str = "::ginrs_cpu::owner_of(this->comm), GINRS_CPU_CALL_FLUSH, this->contextId, 0";
const LLA2A: &str = "::ginrs_cpu::owner_of(this->comm), GINRS_CPU_CALL_LLA2A, 0, this->slotsOffset";
const LSA_BARRIER: &str = "::ginrs_cpu::owner_of(this->comm), GINRS_CPU_CALL_LSA_BARRIER, 0, uint32_t(this->index)";
const GIN_BARRIER: &str = "nullptr, GINRS_CPU_CALL_GIN_BARRIER, this->net.contextId, uint32_t(this->index)";
const BARRIER: &str = "nullptr, GINRS_CPU_CALL_BARRIER, 0, 0";
/// Not by itself: not at all, or in others of these that it calls.
const NOT: &str = "";
/// A parameter, also of our own headers (`ginrs_device/call.cuh`).
const CALLER: &str = "ginrsFile";

const FUNCTIONS: &[Function] = &[
    Function {
        file: "gin",
        name: "readSignal",
        call: READ,
        waits: NOT,
        says: "::ginrs_cpu::awaits(*this, $0, ::ginrs_cpu::value_of($S0)); ::ginrs_cpu::reads(*this, ::ginrs_cpu::value_of($S0));",
    },
    Function {
        file: "gin",
        name: "readCounter",
        call: READ_COUNTER,
        waits: NOT,
        says: "::ginrs_cpu::counts(*this, $0); ::ginrs_cpu::reads(*this, ::ginrs_cpu::value_of($C0));",
    },
    Function { file: "gin", name: "resetSignal", call: READ, waits: NOT, says: "::ginrs_cpu::awaits(*this, $0, 0);" },
    Function {
        file: "gin",
        name: "waitSignal",
        call: SIGNAL,
        waits: "::ginrs_cpu::reaches(wait, $S1, $2, $3, ::ginrs_cpu::kWord)",
        says: "::ginrs_cpu::awaits(*this, $1, $2);",
    },
    Function {
        file: "gin",
        name: "waitSignalMeetShadow",
        call: SIGNAL,
        waits: "::ginrs_cpu::reaches(wait, $S1, *this->getSignalShadowPtr($1), $2, ::ginrs_cpu::kWord)",
        says: "::ginrs_cpu::awaits(*this, $1, *this->getSignalShadowPtr($1));",
    },
    Function {
        file: "gin",
        name: "waitSignalFollowShadow",
        call: SIGNAL,
        waits: "::ginrs_cpu::reaches(wait, $S1, *this->getSignalShadowPtr($1) + $2, $5, ::ginrs_cpu::kWord)",
        says: "::ginrs_cpu::awaits(*this, $1, *this->getSignalShadowPtr($1) + $2);",
    },
    // It looks at all 64 bits of a counter, however many it is told.
    Function {
        file: "gin",
        name: "waitCounter",
        call: COUNTER,
        waits: "::ginrs_cpu::reaches(wait, $C1, $2, 64, ::ginrs_cpu::kWord)",
        says: "::ginrs_cpu::counts(*this, $1);",
    },
    Function { file: "gin", name: "flush", call: FLUSH, waits: "::ginrs_cpu::finishes(wait, this->_makeCtx())", says: "" },
    Function { file: "barrier", name: "sync", call: BARRIER, waits: NOT, says: "" },
    Function { file: "gin_barrier", name: "sync", call: GIN_BARRIER, waits: NOT, says: "" },
    Function { file: "lsa_barrier", name: "sync", call: LSA_BARRIER, waits: NOT, says: "" },
    Function { file: "lsa_barrier", name: "wait", call: LSA_BARRIER, waits: "::ginrs_cpu::comes(wait, *this)", says: "" },
    Function { file: "ll_a2a", name: "recv", call: LLA2A, waits: NOT, says: "" },
    Function { file: "ll_a2a", name: "recvReduce", call: LLA2A, waits: NOT, says: "" },
    Function { file: "ll_a2a", name: "recvUnrolled", call: LLA2A, waits: "::ginrs_cpu::arrive(wait)", says: "" },
];

/// True for a name that [`rewrite`] looks for.
pub fn is_trigger(word: &str) -> bool {
    FUNCTIONS.iter().any(|function| function.name == word)
}

/// Gives the functions what they say.
pub fn rewrite(unit: &mut Unit) {
    let names: Vec<&str> = FUNCTIONS.iter().map(|function| function.name).collect();
    let found = unit.find(&names);
    for function in FUNCTIONS {
        let of = |folder: &str, scope| {
            let file = format!("nccl_device/{folder}");
            let mut at =
                found.iter().copied().filter(|&i| unit.source.word(i) == function.name && is_declared(unit, i, &file, scope));
            at.next().filter(|_| at.next().is_none())
        };
        let declared = of(&format!("{}.h", function.file), Scope::Class);
        let defined = of(&format!("impl/{}__funcs.h", function.file), Scope::Namespace);
        let (Some(declared), Some(defined)) = (declared, defined) else { continue };
        let Some((parameters, body)) = parts(unit, defined) else { continue };
        let texts = [function.says, function.call, function.waits].map(|text| filled(unit, text, &parameters));
        let [Some(says), Some(call), Some(waits)] = texts else { continue };
        let waits = match waits.as_str() {
            NOT => "::ginrs_cpu::Nothing{}".into(),
            waits => format!("[&](ginrsCpuWait& wait) {{ return {waits}; }}"),
        };
        let end = |i: usize| unit.source.mate(i + 1).map(|close| unit.source.token(close).at.start);
        let (Some(in_class), Some(outside)) = (end(declared), end(defined)) else { continue };
        unit.edits.insert(in_class, format!(", const char* {CALLER} = __builtin_FILE(), int ginrsLine = __builtin_LINE()"));
        unit.edits.insert(outside, format!(", const char* {CALLER}, int ginrsLine"));
        let said = format!(" ::ginrs_cpu::Foreign ginrsForeign({call}, {CALLER}, ginrsLine, {waits}); {says}");
        unit.edits.insert(unit.source.token(body).at.end, said);
    }
}

/// Whether token `i` is the name of a function that `file` of another NCCL declares in a class, or defines outside of it.
fn is_declared(unit: &Unit, i: usize, file: &str, scope: Scope) -> bool {
    let (source, name) = (unit.source, &unit.source.file(unit.source.token(i).at.start).name);
    source.is(i + 1, "(")
        && unit.scopes.scope(i) == scope
        && (scope == Scope::Class || i > 0 && source.is(i - 1, "::"))
        && !unit.is_own(name)
        && without_detours(name).ends_with(file)
}

/// `nccl_device/impl/../gin.h` is `nccl_device/gin.h`.
fn without_detours(name: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in name.split('/') {
        match part {
            ".." if parts.last().is_some_and(|last| *last != "..") => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

/// The parameters of the function that is named at `i`, and the `{` of its body; None where it knows its caller already, as those of our
/// headers do, wherever they lie.
fn parts(unit: &Unit, i: usize) -> Option<(Vec<Range<usize>>, usize)> {
    let source = unit.source;
    let close = source.mate(i + 1)?;
    if (i..close).any(|i| source.is(i, CALLER)) {
        return None;
    }
    let mut at = close + 1;
    while !source.is(at, "{") {
        at = match source.word(at) {
            "" | ";" => return None,
            "(" => source.mate(at)? + 1,
            _ => at + 1,
        };
    }
    Some((source.split_commas(i + 2..close), at))
}

/// `text` with the names of parameters; None where one that it needs has none.
fn filled(unit: &Unit, text: &str, parameters: &[Range<usize>]) -> Option<String> {
    let mut filled = text.to_string();
    for (nth, parameter) in parameters.iter().enumerate() {
        for (short, what) in [("S", "Signal"), ("C", "Counter")] {
            let word = format!("ncclGinCall<ncclGinApi_Get{what}Ptr>(this->_makeCtx(), this->comm.gin{what}Base + ${nth})");
            filled = filled.replace(&format!("${short}{nth}"), &word);
        }
        // A type and a name.
        let name = parameter.clone().next_back().filter(|_| parameter.len() > 1).map(|i| unit.source.word(i));
        match name.filter(|name| name.starts_with(|first: char| first.is_alphabetic() || first == '_')) {
            Some(name) => filled = filled.replace(&format!("${nth}"), name),
            None if filled.contains(&format!("${nth}")) => return None,
            None => {}
        }
    }
    (!filled.contains('$')).then_some(filled)
}

#[cfg(test)]
mod tests {
    use super::super::{Options, rewrite};

    const DECLARED: &str = "template<unsigned m> struct Gin {\n  template<class C> void waitSignal(C, unsigned signal, long least, int bits=64) const;\n};\n";
    const DEFINED: &str = "template<unsigned m> template<class C>\nvoid Gin<m>::waitSignal(C coop, unsigned s, long least, int bits) const {\n  look();\n}\n";

    fn rewritten(folder: &str, declared: &str, defined: &str) -> String {
        let text = format!("# 1 \"{folder}/impl/../gin.h\"\n{declared}# 1 \"{folder}/impl/gin__funcs.h\"\n{defined}");
        let options = Options { own_headers: vec!["/ours/".into()], ..Options::default() };
        String::from_utf8(rewrite(text.into_bytes(), &options).unwrap()).unwrap()
    }

    #[test]
    fn a_wait_of_nvidias_headers_has_the_callers_line_and_says_what_it_waits_for() {
        let text = rewritten("/theirs/nccl_device", DECLARED, DEFINED);
        assert!(
            text.contains("int bits=64, const char* ginrsFile = __builtin_FILE(), int ginrsLine = __builtin_LINE()\n"),
            "{text}"
        );
        assert!(
            text.contains("int bits, const char* ginrsFile, int ginrsLine")
                && text.contains(") const { ::ginrs_cpu::Foreign ginrsForeign("),
            "{text}"
        );
        assert!(
            text.contains(
                "this->comm.ginSignalBase + s), least, bits, ::ginrs_cpu::kWord); }); ::ginrs_cpu::awaits(*this, s, least);"
            ),
            "{text}"
        );
    }

    #[test]
    fn what_is_declared_otherwise_is_left() {
        for (folder, declared, defined) in [
            ("/ours/nccl_device", DECLARED, DEFINED),
            ("/theirs/other", DECLARED, DEFINED),
            ("/theirs/nccl_device", DECLARED, ""),
            ("/theirs/nccl_device", "", DEFINED),
            ("/theirs/nccl_device", &DECLARED.replace("};", "void waitSignal(int);\n};"), DEFINED),
            ("/theirs/nccl_device", DECLARED, &DEFINED.replace("long least", "long")),
            ("/theirs/nccl_device", DECLARED, &DEFINED.replace(", int bits", "")),
            ("/theirs/nccl_device", DECLARED, &DEFINED.replace("int bits", "int bits, const char* ginrsFile, int ginrsLine")),
        ] {
            let text = rewritten(folder, declared, defined);
            assert!(!text.contains("ginrs_cpu") && !text.contains("__builtin_FILE"), "{folder} {declared} {defined}: {text}");
        }
    }
}
