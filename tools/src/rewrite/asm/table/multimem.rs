//! `multimem.ld_reduce`, `.st` and `.red` (`ginrs_cpu/multimem.h`). Other forms trap if they are reached: programs choose them at
//! run time.

use super::{PTX, Translator, c_type};

const MULTIMEM: &str = "::ginrs_cpu::multimem::";

/// A narrow float's format in codec.h, its bits, and how many of them a word of this type has.
fn narrow(kind: &str) -> Option<(&'static str, usize, usize)> {
    let (name, parts) = kind.split_once('x').unwrap_or((kind, "1"));
    let (format, bits) = match name {
        "f16" => ("Fp16", 16),
        "bf16" => ("Bf16", 16),
        "e4m3" => ("E4m3", 8),
        "e5m2" => ("E5m2", 8),
        _ => return None,
    };
    let parts = parts.parse().ok().filter(|parts| bits * parts <= 32)?;
    Some((format, bits, parts))
}

/// The C++ type of a word.
fn word(kind: &str) -> Option<&'static str> {
    match narrow(kind) {
        Some((_, bits, parts)) => c_type(&format!("b{}", bits * parts)),
        None => c_type(kind),
    }
}

/// What the modifiers after the first say.
struct Form<'a> {
    order: &'a str,
    operation: Option<&'a str>,
    accumulation: Option<&'a str>,
    lanes: usize,
    kind: &'a str,
}

impl<'a> Form<'a> {
    fn of(what: &str, modifiers: &'a [String]) -> Option<Self> {
        let (kind, rest) = modifiers.split_last()?;
        let mut form = Self { order: "weak", operation: None, accumulation: None, lanes: 1, kind };
        for modifier in rest {
            match modifier.as_str() {
                order @ ("weak" | "relaxed" | "acquire" | "release") => form.order = order,
                "cta" | "cluster" | "gpu" | "sys" | "global" => {}
                operation @ ("add" | "min" | "max" | "and" | "or" | "xor") => form.operation = Some(operation),
                precision @ ("acc::f16" | "acc::f32") => form.accumulation = Some(precision),
                "v2" => form.lanes = 2,
                "v4" => form.lanes = 4,
                "v8" => form.lanes = 8,
                _ => return None,
            }
        }
        form.is_in_isa(what).then_some(form)
    }

    /// Types, operations and vectors as the PTX ISA joins them, and ptxas accepts them.
    fn is_in_isa(&self, what: &str) -> bool {
        let (operations, lanes): (&[&str], &[usize]) = match (self.kind, narrow(self.kind)) {
            ("b32" | "b64", _) => (&["and", "or", "xor"], &[1]),
            ("u32" | "s32" | "u64" | "s64", _) => (&["add", "min", "max"], &[1]),
            ("f32", _) => (&["add"], &[1, 2, 4]),
            ("f64", _) => (&["add"], &[1]),
            (_, Some((_, 16, 1))) => (&["add", "min", "max"], &[1, 2, 4, 8]),
            (_, Some((_, 8, 1))) => (&["add", "min", "max"], &[4, 8]),
            (_, Some((_, 8, 2))) => (&["add", "min", "max"], &[2, 4, 8]),
            (_, Some(_)) => (&["add", "min", "max"], &[1, 2, 4]),
            _ => return false,
        };
        let bits = narrow(self.kind).map(|(_, bits, _)| bits);
        let accumulates = match self.accumulation {
            None => true,
            Some(precision) => {
                let least = if precision == "acc::f16" { 8 } else { 16 };
                what == "ld_reduce" && self.operation == Some("add") && bits == Some(least)
            }
        };
        let known = match (what, self.operation) {
            ("st", None) => true,
            ("ld_reduce", Some(operation)) => operations.contains(&operation),
            ("red", Some(operation)) => operations.contains(&operation) && bits != Some(8),
            _ => false,
        };
        known && accumulates && lanes.contains(&self.lanes)
    }

    /// The class of multimem.h.
    fn class(&self) -> String {
        match narrow(self.kind) {
            Some((format, _, parts)) => format!("{MULTIMEM}Narrow<::ginrs_cpu::{format}, {parts}>"),
            None => format!("{MULTIMEM}Plain<{}>", c_type(self.kind).unwrap_or_default()),
        }
    }
}

impl Translator<'_> {
    pub(super) fn multimem(&self) -> Result<String, String> {
        self.known_multimem().or_else(|_| {
            let text = &self.instruction.text;
            Ok(format!("::ginrs_cpu_trap(\"{text}: this form is not available on the CPU device\", {})", self.here()))
        })
    }

    fn known_multimem(&self) -> Result<String, String> {
        let (what, modifiers) = self.instruction.modifiers.split_first().ok_or_else(|| self.unknown())?;
        let form = Form::of(what, modifiers).ok_or_else(|| self.unknown())?;
        let (class, order) = (form.class(), format!("{PTX}Order::{}", form.order));
        let values = self.vector(if what == "ld_reduce" { 0 } else { 1 })?;
        if values.len() != form.lanes || self.instruction.operands.len() != 2 {
            return Err(self.unknown());
        }
        let place = format!("\"{}\", {}", self.instruction.text, self.here());
        let operation = format!("{MULTIMEM}Op::{}_", form.operation.unwrap_or_default());
        if what == "ld_reduce" {
            let names: Option<Vec<String>> = values.iter().map(|value| self.register(value)).collect();
            let names = names.ok_or_else(|| self.unknown())?.join(", ");
            return Ok(format!("{MULTIMEM}ld_reduce<{class}, {operation}, {order}>({place}, {}, {names})", self.address(1)?));
        }
        let kind = word(form.kind).ok_or_else(|| self.unknown())?;
        let values = values.iter().map(|value| self.value_of(value, kind)).collect::<Result<Vec<_>, _>>()?.join(", ");
        let call = if what == "st" { format!("st<{class}, {order}>") } else { format!("red<{class}, {operation}, {order}>") };
        Ok(format!("{MULTIMEM}{call}({place}, {}, {values})", self.address(0)?))
    }
}

#[cfg(test)]
mod tests {
    use super::Form;

    fn known(form: &str) -> bool {
        let (what, modifiers) = form.split_once('.').unwrap();
        Form::of(what, &modifiers.split('.').map(str::to_string).collect::<Vec<_>>()).is_some()
    }

    #[test]
    fn the_forms_are_those_of_the_isa() {
        for form in [
            "red.relaxed.sys.global.add.f32",
            "ld_reduce.weak.global.add.v4.f32",
            "ld_reduce.relaxed.sys.global.add.acc::f32.v4.bf16x2",
            "ld_reduce.acquire.gpu.global.min.v8.f16",
            "red.global.max.s64",
            "red.relaxed.sys.global.and.b32",
            "st.relaxed.sys.global.v4.f32",
            "red.add.f64",
            "ld_reduce.relaxed.sys.global.add.acc::f16.v4.e4m3x4",
            "ld_reduce.add.e5m2x4",
            "ld_reduce.max.v8.e5m2",
            "ld_reduce.min.v2.e4m3x2",
            "st.relaxed.sys.global.v8.e4m3x2",
        ] {
            assert!(known(form), "{form}");
        }
        for form in [
            "red.min.f32",
            "red.add.b32",
            "red.and.u32",
            "red.add.v8.f32",
            "red.add.v2.u32",
            "ld_reduce.add.acc::f32.f32",
            "ld_reduce.min.acc::f32.f16",
            "red.add.acc::f32.f16x2",
            "ld_reduce.add.v8.e4m3x4",
            "ld_reduce.add.e4m3",
            "ld_reduce.add.e5m2x2",
            "ld_reduce.add.acc::f32.e4m3x4",
            "ld_reduce.add.acc::f16.f16x2",
            "ld_reduce.min.acc::f16.e4m3x4",
            "red.add.v4.e4m3x4",
            "red.odd.add.f32",
            "st.add.f32",
            "ld_reduce.f32",
            "odd.add.f32",
        ] {
            assert!(!known(form), "{form}");
        }
    }
}
