//! Asynchronous copies and what waits for them: `mbarrier`, `cp.async`, `cp.async.bulk`, `cp.reduce.async.bulk`, `st.bulk`, and
//! `elect.sync` and `mapa`, which stand beside them.

use super::table::{PTX, Translator};

const COUNT: &str = "::std::uint32_t";
const STATE: &str = "::std::uint64_t";
/// Copies are over when they have been issued; the compiler is not to move anything across.
const NOTHING: &str = "__asm__ volatile(\"\" : : : \"memory\")";

impl Translator<'_> {
    /// The C++ of one such instruction; `modifiers` as they stand behind its opcode.
    pub fn asynchronous(&self, modifiers: &[&str]) -> Result<String, String> {
        match self.instruction.opcode.as_str() {
            "mbarrier" => self.mbarrier(modifiers),
            "elect" if modifiers == ["sync"] => self.elect(),
            "st" => self.clear(modifiers),
            // A cluster is one block here: its rank is 0.
            "mapa" => {
                let kind = self.last_type()?;
                let trap = format!("::ginrs_cpu_trap(\"{}: the cluster has one block\", {})", self.instruction.text, self.here());
                let rank = self.of_cluster(&self.value(2, COUNT)?, "mapa");
                Ok(format!("({rank} != 0 ? {trap} : (void)0), {}, {})", self.set(0)?, self.value(1, kind)?))
            }
            _ => match modifiers {
                ["async", "bulk", rest @ ..] => self.bulk(rest),
                ["reduce", "async", "bulk", "global", "shared::cta" | "shared", "bulk_group", rest @ ..] => self.reduce(rest),
                ["async", "mbarrier", "arrive", rest @ ..] => self.arrive_after_copies(rest),
                ["async", "commit_group" | "wait_group" | "wait_all"] => Ok(NOTHING.into()),
                ["async", "ca" | "cg", "shared" | "shared::cta", "global", rest @ ..] => self.copy(rest),
                _ => Err(self.unknown()),
            },
        }
    }

    /// Operands without the cache policy, which means nothing here.
    fn count(&self, modifiers: &[&str]) -> usize {
        self.instruction.operands.len().saturating_sub(usize::from(modifiers.contains(&"L2::cache_hint")))
    }

    fn mbarrier(&self, modifiers: &[&str]) -> Result<String, String> {
        let (Some((&name, rest)), Some(&"b64")) = (modifiers.split_first(), modifiers.last()) else { return Err(self.unknown()) };
        let here = self.here();
        let known = ["expect_tx", "noComplete", "parity", "release", "acquire", "relaxed", "cta", "cluster", "b64"];
        if !rest.iter().all(|m| known.contains(m) || *m == "shared" || m.starts_with("shared::")) {
            return Err(self.unknown());
        }
        match name {
            "init" => Ok(format!("::ginrs_cpu_mbarrier_init({}, {}, {here})", self.address_in(0, true)?, self.value(1, COUNT)?)),
            "inval" => Ok(format!("::ginrs_cpu_mbarrier_inval({}, {here})", self.address_in(0, true)?)),
            "expect_tx" | "complete_tx" => {
                let sign = if name == "expect_tx" { "" } else { "-" };
                let (at, bytes) = (self.address_in(0, true)?, self.value(1, COUNT)?);
                Ok(format!("::ginrs_cpu_mbarrier_bytes({at}, {sign}::std::int64_t({bytes}), \"mbarrier.{name}\", {here})"))
            }
            "arrive" | "arrive_drop" => {
                let given = if self.instruction.operands.len() > 2 { Some(self.value(2, COUNT)?) } else { None };
                let (count, bytes) = match (rest.contains(&"expect_tx"), given) {
                    (true, Some(bytes)) => ("1".into(), bytes),
                    (true, None) => return Err(self.unknown()),
                    (false, count) => (count.unwrap_or("1".into()), "0".into()),
                };
                let how = match (name, rest.contains(&"noComplete")) {
                    ("arrive_drop", false) => 1,
                    ("arrive", true) => 2,
                    ("arrive", false) => 0,
                    _ => return Err(self.unknown()),
                };
                let call = format!("::ginrs_cpu_mbarrier_arrive({}, {count}, {bytes}, {how}, {here})", self.address_in(1, true)?);
                if self.text(0)? == "_" { Ok(format!("(void){call}")) } else { Ok(format!("{}, {call})", self.set(0)?)) }
            }
            "test_wait" | "try_wait" => {
                let parity = rest.contains(&"parity");
                let (done, at) = (self.predicate_operand(0)?, self.address_in(1, true)?);
                let until = self.value(2, if parity { COUNT } else { STATE })?;
                let for_ever = i32::from(self.program.only_waits());
                let parity = i32::from(parity);
                Ok(format!(
                    "{done} = ::ginrs_cpu_mbarrier_wait({at}, {until}, {parity}, {for_ever}, \"mbarrier.{name}\", {here})"
                ))
            }
            "pending_count" => Ok(format!("{}, {COUNT}({}))", self.set(0)?, self.value(1, STATE)?)),
            _ => Err(self.unknown()),
        }
    }

    /// `elect.sync d|p, mask`
    fn elect(&self) -> Result<String, String> {
        let (leader, me) = self.text(0)?.split_once('|').ok_or_else(|| self.unknown())?;
        let (leader, me) = (leader.trim(), me.trim());
        if self.program.register(me) != Some("pred") {
            return Err(self.unknown());
        }
        let call = format!("{PTX}elect({}, ginrs_r_{}, {})", self.value(1, COUNT)?, super::ptx::plain(me), self.here());
        if leader == "_" { Ok(format!("(void){call}")) } else { Ok(format!("{}, {call})", self.set_named(leader)?)) }
    }

    fn bulk(&self, rest: &[&str]) -> Result<String, String> {
        let count = self.count(rest);
        let end = |space: &str| space == "shared" || space == "shared::cta" || space == "shared::cluster";
        match rest {
            ["commit_group"] | ["wait_group"] | ["wait_group", "read"] | ["prefetch", ..] => Ok(NOTHING.into()),
            [to, from, "mbarrier::complete_tx::bytes", hints @ ..] if end(to) && count == 4 && only_hints(hints) => Ok(format!(
                "{PTX}bulk_load({}, {}, {}, {}, {})",
                self.address_in(0, true)?,
                self.address_in(1, end(from))?,
                self.value(2, COUNT)?,
                self.address_in(3, true)?,
                self.here()
            )),
            ["global", from, "bulk_group", hints @ ..] if end(from) && count == 3 && only_hints(hints) => Ok(format!(
                "{PTX}bulk_store({}, {}, {}, {})",
                self.address_in(0, false)?,
                self.address_in(1, true)?,
                self.value(2, COUNT)?,
                self.here()
            )),
            _ => Err(self.unknown()),
        }
    }

    fn reduce(&self, rest: &[&str]) -> Result<String, String> {
        let (kind, name) = match rest.iter().filter(|m| **m != "L2::cache_hint").collect::<Vec<_>>()[..] {
            [operation @ (&"add" | &"min" | &"max" | &"inc" | &"dec" | &"and" | &"or" | &"xor"), kind]
                if !kind.contains("16") =>
            {
                (self.last_type()?, operation)
            }
            _ => return Err(self.unknown()),
        };
        let update = format!("[](char* p, {kind} v) {{ {PTX}atomic_{name}<{kind}, {PTX}Order::relaxed>(p, v); }}");
        Ok(format!(
            "{PTX}bulk_reduce<{kind}>({}, {}, {}, {update}, {})",
            self.address_in(0, false)?,
            self.address_in(1, true)?,
            self.value(2, COUNT)?,
            self.here()
        ))
    }

    /// `cp.async [to], [from], size{, given}`
    fn copy(&self, rest: &[&str]) -> Result<String, String> {
        let count = self.count(rest);
        if !only_hints(rest) || !(3..=4).contains(&count) {
            return Err(self.unknown());
        }
        let bytes = self.value(2, COUNT)?;
        let given = if count == 4 { self.value(3, COUNT)? } else { bytes.clone() };
        let (to, from) = (self.address_in(0, true)?, self.address_in(1, false)?);
        Ok(format!("{PTX}copy_async({to}, {from}, {bytes}, {given}, {})", self.here()))
    }

    /// `cp.async.mbarrier.arrive`: the thread's copies are over. Without .noinc the phase counts one arrival more for it.
    fn arrive_after_copies(&self, rest: &[&str]) -> Result<String, String> {
        let (at, here) = (self.address_in(0, true)?, self.here());
        if rest.contains(&"noinc") {
            Ok(format!("(void)::ginrs_cpu_mbarrier_arrive({at}, 1, 0, 0, {here})"))
        } else {
            Ok(format!("::ginrs_cpu_mbarrier_bytes({at}, 0, \"cp.async.mbarrier.arrive\", {here})"))
        }
    }

    /// `st.bulk [to], size, 0`
    fn clear(&self, modifiers: &[&str]) -> Result<String, String> {
        if !modifiers[1..].iter().all(|m| matches!(*m, "weak" | "shared" | "shared::cta")) || self.text(2)? != "0" {
            return Err(self.unknown());
        }
        Ok(format!("{PTX}bulk_clear({}, {}, {})", self.address_in(0, true)?, self.value(1, STATE)?, self.here()))
    }
}

fn only_hints(modifiers: &[&str]) -> bool {
    modifiers.iter().all(|m| m.starts_with("L1::") || m.starts_with("L2::"))
}
