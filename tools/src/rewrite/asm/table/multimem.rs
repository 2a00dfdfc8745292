//! `multimem.ld_reduce`, `.st` and `.red` (`ginrs_cpu/multimem.h`). Other forms trap if they are reached: programs choose them at
//! run time.

use super::{PTX, Translator, c_type};

const MULTIMEM: &str = "::ginrs_cpu::multimem::";

/// What the modifiers after the first say.
struct Form<'a> {
    order: &'a str,
    operation: Option<&'a str>,
    wide: bool,
    lanes: usize,
    kind: &'a str,
}

impl<'a> Form<'a> {
    fn of(modifiers: &'a [String]) -> Option<Self> {
        let (kind, rest) = modifiers.split_last()?;
        let mut form = Self { order: "weak", operation: None, wide: false, lanes: 1, kind };
        for modifier in rest {
            match modifier.as_str() {
                order @ ("weak" | "relaxed" | "acquire" | "release") => form.order = order,
                "cta" | "cluster" | "gpu" | "sys" | "global" => {}
                operation @ ("add" | "min" | "max" | "and" | "or" | "xor") => form.operation = Some(operation),
                "acc::f32" => form.wide = true,
                "v2" => form.lanes = 2,
                "v4" => form.lanes = 4,
                "v8" => form.lanes = 8,
                _ => return None,
            }
        }
        form.is_in_isa().then_some(form)
    }

    /// Types, operations and vectors as the PTX ISA joins them.
    fn is_in_isa(&self) -> bool {
        let operation = self.operation.unwrap_or("add");
        let (operations, lanes): (&[&str], &[usize]) = match self.kind {
            "b32" | "b64" => (&["and", "or", "xor"], &[1]),
            "u32" | "s32" | "u64" | "s64" => (&["add", "min", "max"], &[1]),
            "f16" | "bf16" => (&["add", "min", "max"], &[1, 2, 4, 8]),
            "f16x2" | "bf16x2" => (&["add", "min", "max"], &[1, 2, 4]),
            "f32" => (&["add"], &[1, 2, 4]),
            "f64" => (&["add"], &[1]),
            _ => return false,
        };
        let known = self.operation.is_none() || operations.contains(&operation);
        known && lanes.contains(&self.lanes) && (!self.wide || operation == "add" && self.kind.contains("f16"))
    }

    /// The class of multimem.h.
    fn class(&self) -> String {
        match self.kind {
            "f16" => format!("{MULTIMEM}Halves<::ginrs_cpu::Fp16, 1>"),
            "bf16" => format!("{MULTIMEM}Halves<::ginrs_cpu::Bf16, 1>"),
            "f16x2" => format!("{MULTIMEM}Halves<::ginrs_cpu::Fp16, 2>"),
            "bf16x2" => format!("{MULTIMEM}Halves<::ginrs_cpu::Bf16, 2>"),
            kind => format!("{MULTIMEM}Plain<{}>", c_type(kind).unwrap_or_default()),
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
        let form = Form::of(modifiers).ok_or_else(|| self.unknown())?;
        let (class, order) = (form.class(), format!("{PTX}Order::{}", form.order));
        let wanted = match what.as_str() {
            "st" => form.operation.is_none(),
            "ld_reduce" | "red" => form.operation.is_some(),
            _ => false,
        };
        let values = self.vector(if what == "ld_reduce" { 0 } else { 1 })?;
        if !wanted || values.len() != form.lanes || self.instruction.operands.len() != 2 {
            return Err(self.unknown());
        }
        let place = format!("\"{}\", {}", self.instruction.text, self.here());
        let operation = format!("{MULTIMEM}Op::{}_", form.operation.unwrap_or_default());
        if what == "ld_reduce" {
            let names: Option<Vec<String>> = values.iter().map(|value| self.register(value)).collect();
            let names = names.ok_or_else(|| self.unknown())?.join(", ");
            return Ok(format!("{MULTIMEM}ld_reduce<{class}, {operation}, {order}>({place}, {}, {names})", self.address(1)?));
        }
        let kind = c_type(form.kind).ok_or_else(|| self.unknown())?;
        let values = values.iter().map(|value| self.value_of(value, kind)).collect::<Result<Vec<_>, _>>()?.join(", ");
        let call = if what == "st" { format!("st<{class}, {order}>") } else { format!("red<{class}, {operation}>") };
        Ok(format!("{MULTIMEM}{call}({place}, {}, {values})", self.address(0)?))
    }
}

#[cfg(test)]
mod tests {
    use super::Form;

    fn known(modifiers: &str) -> bool {
        Form::of(&modifiers.split('.').map(str::to_string).collect::<Vec<_>>()).is_some()
    }

    #[test]
    fn the_forms_are_those_of_the_isa() {
        for form in [
            "relaxed.sys.global.add.f32",
            "weak.global.add.v4.f32",
            "relaxed.sys.global.add.acc::f32.v4.bf16x2",
            "acquire.gpu.global.min.v8.f16",
            "global.max.s64",
            "relaxed.sys.global.and.b32",
            "relaxed.sys.global.v4.f32",
            "add.f64",
        ] {
            assert!(known(form), "{form}");
        }
        for form in [
            "min.f32",
            "add.b32",
            "and.u32",
            "add.v8.f32",
            "add.v2.u32",
            "add.acc::f32.f32",
            "min.acc::f32.f16",
            "add.v4.e4m3x4",
            "odd.add.f32",
        ] {
            assert!(!known(form), "{form}");
        }
    }
}
