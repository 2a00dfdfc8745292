//! The table: which PTX instruction becomes which C++ of `ginrs_cpu/ptx.h`.

mod memory;
mod multimem;

use super::Operand;
use super::ptx::{Instruction, Program, plain, split, unknown};

/// Where the statement stands; goes into deadlock reports.
pub struct Place {
    /// As the line marker spells it.
    pub file: String,
    /// From 1.
    pub line: usize,
}

pub const PTX: &str = "::ginrs_cpu::ptx::";

/// The local variable for `.reg .type name`.
pub fn register(name: &str, kind: &str) -> Result<String, String> {
    let kind = if kind == "pred" { "bool" } else { c_type(kind).ok_or_else(|| unknown(&format!(".reg .{kind} {name}")))? };
    if !name.chars().all(|c| c.is_alphanumeric() || c == '_') {
        return Err(unknown(&format!(".reg {name}")));
    }
    Ok(format!("[[maybe_unused]] {kind} ginrs_r_{name} = {{}}; "))
}

/// The condition of `@p`.
pub fn predicate(predicate: &str, program: &Program) -> Result<String, String> {
    let (not, name) = predicate.strip_prefix('!').map_or(("", predicate), |name| ("!", name));
    match program.register(name) {
        Some("pred") => Ok(format!("{not}ginrs_r_{}", plain(name))),
        _ => Err(unknown(&format!("@{predicate}"))),
    }
}

/// The C++ type of a PTX type that registers hold.
fn c_type(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "b8" | "u8" => "::std::uint8_t",
        "s8" => "::std::int8_t",
        "b16" | "u16" | "f16" | "bf16" => "::std::uint16_t",
        "s16" => "::std::int16_t",
        "b32" | "u32" | "f16x2" | "bf16x2" => "::std::uint32_t",
        "s32" => "::std::int32_t",
        "b64" | "u64" => "::std::uint64_t",
        "s64" => "::std::int64_t",
        "f32" => "float",
        "f64" => "double",
        _ => return None,
    })
}

pub struct Translator<'a> {
    pub instruction: &'a Instruction,
    pub program: &'a Program,
    operands: &'a [Operand],
    place: &'a Place,
}

/// The C++ label of a PTX label.
pub fn label(name: &str) -> String {
    format!("ginrs_l_{}", plain(name))
}

/// The C++ expression for one instruction, or the message that names it.
pub fn translate(instruction: &Instruction, program: &Program, operands: &[Operand], place: &Place) -> Result<String, String> {
    Translator { instruction, program, operands, place }.run()
}

impl Translator<'_> {
    pub fn unknown(&self) -> String {
        unknown(&self.instruction.text)
    }

    fn run(&self) -> Result<String, String> {
        let modifiers: Vec<&str> = self.instruction.modifiers.iter().map(String::as_str).collect();
        match self.instruction.opcode.as_str() {
            "" => Ok("(void)0".into()),
            "bra" => Ok(format!("goto {}", label(self.text(0)?))),
            "mbarrier" | "cp" | "elect" | "mapa" => self.asynchronous(&modifiers),
            "st" if modifiers.first() == Some(&"bulk") => self.asynchronous(&modifiers),
            "ld" | "ldu" => self.load(),
            "st" => self.store(),
            "atom" | "red" => self.atomic(),
            "fence" => match modifiers.as_slice() {
                ["proxy", ..] | ["mbarrier_init", ..] => Ok(self.fence("seq_cst")),
                ["acq_rel", _] | [_] if modifiers[0] != "sc" => Ok(self.fence("acq_rel")),
                ["sc", ..] => Ok(self.fence("seq_cst")),
                ["acquire", _] => Ok(self.fence("acquire")),
                ["release", _] => Ok(self.fence("release")),
                _ => Err(self.unknown()),
            },
            "membar" => Ok(self.fence("seq_cst")),
            "bar" | "barrier" => self.barrier(&modifiers),
            "mov" | "cvta" => self.mov(),
            "cvt" if modifiers.len() == 2 => self.convert(&modifiers),
            "activemask" => Ok(format!("{}, {PTX}active_mask({}))", self.set(0)?, self.here())),
            "vote" if modifiers == ["sync", "ballot", "b32"] => self.ballot(),
            "setp" => self.compare(&modifiers),
            "selp" => {
                let kind = self.last_type()?;
                let (yes, no) = (self.value(1, kind)?, self.value(2, kind)?);
                Ok(format!("{}, {} ? {yes} : {no})", self.set(0)?, self.predicate_operand(3)?))
            }
            "and" | "or" | "xor" | "shl" | "shr" => self.arithmetic(),
            "add" | "sub" if modifiers.len() == 1 && !modifiers[0].contains('f') => self.arithmetic(),
            "add" | "sub" | "mul" | "mad" | "fma" | "div" | "min" | "max" | "neg" | "abs" | "not" | "rcp" | "sqrt" | "rsqrt"
            | "ex2" | "lg2" | "tanh" | "sin" | "cos" | "popc" | "clz" => self.math(&modifiers),
            "prmt" if modifiers == ["b32"] => {
                let word = |n| self.value(n, "::std::uint32_t");
                Ok(format!("{}, {PTX}prmt({}, {}, {}))", self.set(0)?, word(1)?, word(2)?, word(3)?))
            }
            "nanosleep" => Ok(format!("{PTX}nanosleep({})", self.value(0, "::std::uint32_t")?)),
            "trap" => Ok(format!("::ginrs_cpu_trap(\"trap\", \"{}\", {})", self.place.file, self.place.line)),
            "griddepcontrol" | "prefetch" | "prefetchu" | "setmaxnreg" | "pmevent" | "discard" | "applypriority" => {
                Ok("(void)0".into())
            }
            "multimem" => self.multimem(),
            _ => Err(self.unknown()),
        }
    }

    pub fn here(&self) -> String {
        format!("\"{}\", {}", self.place.file, self.place.line)
    }

    /// `lone`, which holds where each block is a cluster of its own; `what` traps in a launch that asks for larger ones.
    pub fn of_cluster(&self, lone: &str, what: &str) -> String {
        format!("::ginrs_cpu::of_cluster({lone}, \"{what}\", {})", self.here())
    }

    pub fn text(&self, n: usize) -> Result<&str, String> {
        self.instruction.operands.get(n).map(String::as_str).ok_or_else(|| self.unknown())
    }

    /// The C++ name of a register operand: `%0`, `%[name]` or a declared one. None for anything else.
    fn register(&self, text: &str) -> Option<String> {
        if self.program.register(text).is_some() {
            return Some(format!("ginrs_r_{}", plain(text)));
        }
        self.numbered(text).map(|n| format!("ginrs_{n}"))
    }

    fn numbered(&self, text: &str) -> Option<usize> {
        let rest = text.strip_prefix('%')?;
        if let Some(name) = rest.strip_prefix('[').and_then(|r| r.strip_suffix(']')) {
            return self.operands.iter().position(|o| o.name == name);
        }
        rest.parse().ok().filter(|&n: &usize| n < self.operands.len())
    }

    /// A register, immediate or special register as a value of type `kind`.
    fn value_of(&self, text: &str, kind: &str) -> Result<String, String> {
        if let Some(name) = self.register(text) {
            return Ok(format!("{PTX}get<{kind}>({name})"));
        }
        if let Some(special) = text.strip_prefix("%%").or_else(|| text.strip_prefix('%')) {
            return self.special(special).map(|call| format!("{PTX}get<{kind}>({call})"));
        }
        let digits = text.trim_start_matches('-').trim_end_matches('U');
        let number =
            digits.parse::<u64>().is_ok() || digits.strip_prefix("0x").is_some_and(|hex| u64::from_str_radix(hex, 16).is_ok());
        if let Some(bits) = text.strip_prefix("0f").or_else(|| text.strip_prefix("0F")) {
            return Ok(format!("{PTX}bits<float>(::std::uint32_t(0x{bits}u))"));
        }
        if number { Ok(format!("static_cast<{kind}>({}ll)", text.trim_end_matches('U'))) } else { Err(self.unknown()) }
    }

    pub fn value(&self, n: usize, kind: &str) -> Result<String, String> {
        self.value_of(self.text(n)?, kind)
    }

    /// `set(register` of operand n, to be closed by the caller.
    pub fn set(&self, n: usize) -> Result<String, String> {
        self.set_named(self.text(n)?)
    }

    pub fn set_named(&self, text: &str) -> Result<String, String> {
        let name = self.register(text).ok_or_else(|| self.unknown())?;
        Ok(format!("{PTX}set({name}"))
    }

    /// `[register + offset]` as a pointer, of the space that the instruction names.
    fn address(&self, n: usize) -> Result<String, String> {
        self.address_in(n, self.instruction.modifiers.iter().any(|m| m == "shared" || m.starts_with("shared::")))
    }

    /// The same in shared memory, or in generic and other spaces.
    pub fn address_in(&self, n: usize, shared: bool) -> Result<String, String> {
        let inside = self.text(n)?.strip_prefix('[').and_then(|t| t.strip_suffix(']')).ok_or_else(|| self.unknown())?;
        let (base, offset) = inside.split_once('+').unwrap_or((inside, "0"));
        let (base, offset) = (base.trim(), offset.trim());
        if !shared && self.numbered(base).is_some_and(|n| self.operands[n].is_narrow()) {
            return Err(format!(
                "`{}`: a 32-bit address is one of shared memory; say .shared, or use a pointer",
                self.instruction.text
            ));
        }
        let base = self.register(base).ok_or_else(|| self.unknown())?;
        let offset: i64 = offset.parse().map_err(|_| self.unknown())?;
        if shared {
            return Ok(format!("{PTX}shared({base}, {offset}, {})", self.here()));
        }
        Ok(format!("{PTX}address({base}, {offset})"))
    }

    fn fence(&self, order: &str) -> String {
        format!("{PTX}fence<{PTX}Order::{order}, {}>()", self.has("cta"))
    }

    fn vector(&self, n: usize) -> Result<Vec<String>, String> {
        let text = self.text(n)?;
        Ok(match text.strip_prefix('{').and_then(|t| t.strip_suffix('}')) {
            Some(inside) => split(inside),
            None => vec![text.to_string()],
        })
    }

    pub fn last_type(&self) -> Result<&'static str, String> {
        self.instruction.modifiers.last().and_then(|kind| c_type(kind)).ok_or_else(|| self.unknown())
    }

    fn barrier(&self, modifiers: &[&str]) -> Result<String, String> {
        let modifiers: Vec<&str> = modifiers.iter().copied().filter(|m| !matches!(*m, "cta" | "aligned")).collect();
        let id = self.value(0, "::std::uint32_t");
        let count = match self.instruction.operands.len() {
            1 => "0".to_string(),
            2 => self.value(1, "::std::uint32_t")?,
            _ => return Err(self.unknown()),
        };
        match modifiers.as_slice() {
            ["sync"] => Ok(format!("{PTX}barrier_sync({}, {count}, {})", id?, self.here())),
            ["arrive"] => Ok(format!("{PTX}barrier_arrive({}, {count}, {})", id?, self.here())),
            ["warp", "sync"] => Ok(format!("::ginrs_cpu_warp_sync({}, \"bar.warp.sync\", {})", id?, self.here())),
            _ => Err(self.unknown()),
        }
    }

    fn mov(&self) -> Result<String, String> {
        let kind = self.last_type()?;
        let (outputs, inputs) = (self.vector(0)?, self.vector(1)?);
        if self.instruction.opcode == "cvta" {
            let (to, from) = (self.has("to"), self.has("shared") || self.has("shared::cta"));
            if kind != "::std::uint64_t" {
                return Err(self.unknown());
            }
            if from {
                let turn = if to { "to_shared(reinterpret_cast<const void*>(" } else { "from_shared((" };
                return Ok(format!("{}, {PTX}{turn}{}), {}))", self.set(0)?, self.value(1, kind)?, self.here()));
            }
        }
        match (outputs.len(), inputs.len()) {
            (1, 1) => Ok(format!("{}, {})", self.set(0)?, self.value(1, kind)?)),
            // mov.b64 %0, {lo, hi} and mov.b64 {lo, hi}, %0
            (1, 2) => {
                let half = half_of(kind).ok_or_else(|| self.unknown())?;
                let (low, high) = (self.value_of(&inputs[0], half)?, self.value_of(&inputs[1], half)?);
                Ok(format!("{}, {PTX}join<{kind}>({low}, {high}))", self.set(0)?))
            }
            (2, 1) => {
                let half = half_of(kind).ok_or_else(|| self.unknown())?;
                let low = self.register(&outputs[0]).ok_or_else(|| self.unknown())?;
                let high = self.register(&outputs[1]).ok_or_else(|| self.unknown())?;
                Ok(format!("{PTX}split<{half}>({}, {low}, {high})", self.value(1, kind)?))
            }
            _ => Err(self.unknown()),
        }
    }

    fn has(&self, modifier: &str) -> bool {
        self.instruction.modifiers.iter().any(|m| m == modifier)
    }

    /// Between integers.
    fn convert(&self, modifiers: &[&str]) -> Result<String, String> {
        let whole =
            |kind: &str| c_type(kind).filter(|c| c.starts_with("::std::") && !kind.contains('f')).ok_or_else(|| self.unknown());
        let (to, from) = (whole(modifiers[0])?, whole(modifiers[1])?);
        Ok(format!("{}, static_cast<{to}>({}))", self.set(0)?, self.value(1, from)?))
    }

    fn ballot(&self) -> Result<String, String> {
        let mask = self.value(2, "::std::uint32_t")?;
        Ok(format!("{}, {PTX}ballot({mask}, {}, {}))", self.set(0)?, self.predicate_operand(1)?, self.here()))
    }

    pub fn predicate_operand(&self, n: usize) -> Result<String, String> {
        predicate(self.text(n)?, self.program).map_err(|_| self.unknown())
    }

    fn compare(&self, modifiers: &[&str]) -> Result<String, String> {
        let operator = match modifiers {
            ["eq", _] => "==",
            ["ne", _] => "!=",
            ["lt" | "lo", _] => "<",
            ["le" | "ls", _] => "<=",
            ["gt" | "hi", _] => ">",
            ["ge" | "hs", _] => ">=",
            _ => return Err(self.unknown()),
        };
        let kind = self.last_type()?;
        let target = self.predicate_operand(0)?;
        Ok(format!("{target} = {} {operator} {}", self.value(1, kind)?, self.value(2, kind)?))
    }

    fn math(&self, modifiers: &[&str]) -> Result<String, String> {
        let kind = self.last_type()?;
        let (name, before) = modifiers.split_last().ok_or_else(|| self.unknown())?;
        if name.contains("16") {
            return Err(self.unknown()); // halves travel as bits here
        }
        let arguments: Vec<String> =
            (1..self.instruction.operands.len()).map(|n| self.value(n, kind)).collect::<Result<_, _>>()?;
        let value = super::math::expression(&self.instruction.opcode, before, kind, &arguments).ok_or_else(|| self.unknown())?;
        Ok(format!("{}, {value})", self.set(0)?))
    }

    fn arithmetic(&self) -> Result<String, String> {
        let kind = self.last_type()?;
        if self.instruction.modifiers.len() != 1 || self.instruction.modifiers[0].contains('f') {
            return Err(self.unknown());
        }
        let operator = match self.instruction.opcode.as_str() {
            "add" => "+",
            "sub" => "-",
            "and" => "&",
            "or" => "|",
            "xor" => "^",
            // PTX clamps a shift by the width or more, C++ leaves it undefined.
            "shl" => {
                return Ok(format!(
                    "{}, {PTX}shl<{kind}>({}, {}))",
                    self.set(0)?,
                    self.value(1, kind)?,
                    self.value(2, "::std::uint32_t")?
                ));
            }
            _ => {
                return Ok(format!(
                    "{}, {PTX}shr<{kind}>({}, {}))",
                    self.set(0)?,
                    self.value(1, kind)?,
                    self.value(2, "::std::uint32_t")?
                ));
            }
        };
        Ok(format!("{}, static_cast<{kind}>({} {operator} {}))", self.set(0)?, self.value(1, kind)?, self.value(2, kind)?))
    }

    fn special(&self, name: &str) -> Result<String, String> {
        let (base, axis) = name.split_once('.').unwrap_or((name, ""));
        let thread = |field: &str| match axis {
            "x" | "y" | "z" => Ok(format!("::ginrs_cpu_self->{field}.{axis}")),
            _ => Err(self.unknown()),
        };
        match base {
            "tid" => thread("threadIdx"),
            "ntid" => thread("blockDim"),
            "ctaid" => thread("blockIdx"),
            "nctaid" => thread("gridDim"),
            "laneid" => Ok("::ginrs_cpu_self->lane".into()),
            "warpid" => Ok("::ginrs_cpu_self->warp".into()),
            "dynamic_smem_size" => Ok("::ginrs_cpu_self->dynamicSharedBytes".into()),
            "nwarpid" | "smid" | "nsmid" | "clock" | "clock_hi" | "clock64" | "globaltimer" | "globaltimer_lo"
            | "globaltimer_hi" | "lanemask_eq" | "lanemask_lt" | "lanemask_le" | "lanemask_gt" | "lanemask_ge" => {
                Ok(format!("{PTX}{base}()"))
            }
            "cluster_ctarank" | "cluster_ctaid" | "is_explicit_cluster" => Ok(self.of_cluster("0u", &format!("%{name}"))),
            "cluster_nctarank" | "cluster_nctaid" => Ok(self.of_cluster("1u", &format!("%{name}"))),
            _ => Err(self.unknown()),
        }
    }
}

fn half_of(kind: &str) -> Option<&'static str> {
    match kind {
        "::std::uint64_t" => Some("::std::uint32_t"),
        "::std::uint32_t" => Some("::std::uint16_t"),
        _ => None,
    }
}
