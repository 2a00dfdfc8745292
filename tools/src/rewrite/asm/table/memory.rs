//! `ld`, `st`, `atom` and `red`.

use super::{PTX, Translator};

/// What the modifiers of a memory access say.
struct Access {
    order: &'static str,
    kind: &'static str,
    kind_name: String,
    lanes: usize,
    operation: Option<String>,
}

impl Translator<'_> {
    fn access(&self, default: &'static str) -> Result<Access, String> {
        let mut access = Access { order: default, kind: self.last_type()?, kind_name: String::new(), lanes: 1, operation: None };
        let (kind, rest) = self.instruction.modifiers.split_last().ok_or_else(|| self.unknown())?;
        access.kind_name = kind.clone();
        for modifier in rest {
            match modifier.as_str() {
                "weak" | "nc" | "ca" | "cg" | "cs" | "lu" | "wb" | "wt" | "noftz" => {}
                "cta" | "cluster" | "gpu" | "sys" | "gl" | "global" | "shared" | "shared::cta" | "shared::cluster" | "local"
                | "const" => {}
                // "Don't cache and fetch again": older code polls so.
                "volatile" | "cv" => access.order = "unsaid",
                "relaxed" | "mmio" => access.order = "relaxed",
                "acquire" => access.order = "acquire",
                "release" => access.order = "release",
                "acq_rel" => access.order = "acq_rel",
                "v2" => access.lanes = 2,
                "v4" => access.lanes = 4,
                "v8" => access.lanes = 8,
                hint if hint.starts_with("L1::") || hint.starts_with("L2::") => {}
                "add" | "and" | "or" | "xor" | "min" | "max" | "exch" | "cas" | "inc" | "dec" => {
                    access.operation = Some(modifier.clone());
                }
                _ => return Err(self.unknown()),
            }
        }
        Ok(access)
    }

    pub(super) fn load(&self) -> Result<String, String> {
        let Access { order, kind, lanes, .. } = self.access("weak")?;
        let outputs = self.vector(0)?;
        if outputs.len() != lanes {
            return Err(self.unknown());
        }
        let names: Option<Vec<String>> = outputs.iter().map(|o| self.register(o)).collect();
        let names = names.ok_or_else(|| self.unknown())?.join(", ");
        Ok(format!("{PTX}load<{kind}, {PTX}Order::{order}>({}, {names})", self.address(1)?))
    }

    pub(super) fn store(&self) -> Result<String, String> {
        let Access { order, kind, lanes, .. } = self.access("weak")?;
        let order = if order == "unsaid" { "relaxed" } else { order };
        let inputs = self.vector(1)?;
        if inputs.len() != lanes {
            return Err(self.unknown());
        }
        let values: Result<Vec<String>, String> = inputs.iter().map(|i| self.value_of(i, kind)).collect();
        let is_narrow = order != "weak" && self.has("cta");
        Ok(format!("{PTX}store<{kind}, {PTX}Order::{order}, {is_narrow}>({}, {})", self.address(0)?, values?.join(", ")))
    }

    pub(super) fn atomic(&self) -> Result<String, String> {
        let Access { order, kind, kind_name, lanes, operation } = self.access("unsaid")?;
        let operation = operation.ok_or_else(|| self.unknown())?;
        if lanes != 1 || matches!(kind_name.as_str(), "f16" | "f16x2" | "bf16" | "bf16x2") {
            return Err(self.unknown()); // their sums are not sums of integers
        }
        let returns = self.instruction.opcode == "atom";
        let first = usize::from(returns);
        let is_narrow = self.has("cta");
        let mut call = format!("{PTX}atomic_{operation}<{kind}, {PTX}Order::{order}, {is_narrow}>({}", self.address(first)?);
        let operands = self.instruction.operands.len() - usize::from(self.has("L2::cache_hint"));
        for n in first + 1..operands {
            call += &format!(", {}", self.value(n, kind)?);
        }
        call.push(')');
        if returns && self.text(0)? != "_" { Ok(format!("{}, {call})", self.set(0)?)) } else { Ok(format!("(void){call}")) }
    }
}
