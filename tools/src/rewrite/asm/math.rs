//! Arithmetic on one value each: which instruction is which expression. `None`: not one of them.

/// The C++ expression for `opcode` on arguments of C++ type `kind`; `modifiers` are those before the type.
pub fn expression(opcode: &str, modifiers: &[&str], kind: &str, arguments: &[String]) -> Option<String> {
    let real = matches!(kind, "float" | "double");
    let signed = real || kind.starts_with("::std::int");
    // Rounding to nearest is what the CPU does; approximations are allowed to be exact, and subnormals to stay.
    if real && !modifiers.iter().all(|m| matches!(*m, "rn" | "approx" | "ftz" | "full")) {
        return None;
    }
    let wide = matches!(kind, "::std::uint64_t" | "::std::int64_t" | "double");
    let library = |name: &str| Some(format!("{kind}(__builtin_{name}{}({}))", if wide { "" } else { "f" }, arguments.join(", ")));
    match (opcode, arguments) {
        ("ex2", [_]) if real => library("exp2"),
        ("lg2", [_]) if real => library("log2"),
        ("sqrt", [_]) if real => library("sqrt"),
        ("tanh", [_]) if real => library("tanh"),
        ("sin", [_]) if real => library("sin"),
        ("cos", [_]) if real => library("cos"),
        ("abs", [_]) if real => library("fabs"),
        ("min", [_, _]) if real => library("fmin"),
        ("max", [_, _]) if real => library("fmax"),
        ("fma", [_, _, _]) | ("mad", [_, _, _]) if real => library("fma"),
        ("rcp", [a]) if real => Some(format!("1 / {a}")),
        ("rsqrt", [a]) if real => Some(format!("1 / __builtin_sqrt{}({a})", if wide { "" } else { "f" })),
        ("div", [a, b]) if real => Some(format!("{a} / {b}")),
        ("add", [a, b]) if real => Some(format!("{a} + {b}")),
        ("sub", [a, b]) if real => Some(format!("{a} - {b}")),
        ("mul", [a, b]) if real => Some(format!("{a} * {b}")),
        ("mul", [a, b]) if modifiers == ["lo"] => Some(format!("{kind}({a} * {b})")),
        ("mad", [a, b, c]) if modifiers == ["lo"] => Some(format!("{kind}({a} * {b} + {c})")),
        ("min", [a, b]) if modifiers.is_empty() => Some(format!("({a} < {b} ? {a} : {b})")),
        ("max", [a, b]) if modifiers.is_empty() => Some(format!("({a} < {b} ? {b} : {a})")),
        ("neg", [a]) if signed && modifiers.is_empty() => Some(format!("{kind}(-{a})")),
        ("abs", [a]) if modifiers.is_empty() => Some(format!("({a} < 0 ? {kind}(-{a}) : {a})")),
        ("not", [a]) if !real && modifiers.is_empty() => Some(format!("{kind}(~{a})")),
        ("popc", [a]) if !real && modifiers.is_empty() => Some(format!("::std::uint32_t(__builtin_popcountll({a}))")),
        ("clz", [a]) if !real && modifiers.is_empty() => {
            let spare = if wide { 0 } else { 32 };
            Some(format!("::std::uint32_t({a} == 0 ? {} : __builtin_clzll({a}) - {spare})", 64 - spare))
        }
        _ => None,
    }
}
