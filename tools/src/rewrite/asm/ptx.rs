//! The text of an asm statement as PTX instructions.

/// One instruction.
#[derive(Debug, PartialEq)]
pub struct Instruction {
    /// Labels before it.
    pub labels: Vec<String>,
    /// As written, on one line, for messages.
    pub text: String,
    /// `p` or `!p` of `@p`.
    pub predicate: Option<String>,
    /// `ld`, `st`, `fence`, ...; empty if labels end the statement.
    pub opcode: String,
    /// What follows the opcode's dots: `acquire`, `sys`, `global`, `u64`.
    pub modifiers: Vec<String>,
    /// Operands as written: `%0`, `[%1+4]`, `{%2, %3}`, `7`.
    pub operands: Vec<String>,
}

/// The instructions of one statement and the registers that it declares.
#[derive(Debug, Default, PartialEq)]
pub struct Program {
    /// Name and type of each `.reg`.
    pub registers: Vec<(String, String)>,
    /// In order.
    pub instructions: Vec<Instruction>,
}

impl Program {
    /// The type of a declared register.
    pub fn register(&self, name: &str) -> Option<&str> {
        let name = plain(name);
        self.registers.iter().find(|(known, _)| *known == name).map(|(_, kind)| kind.as_str())
    }

    /// The number of the instruction behind a label.
    pub fn label(&self, name: &str) -> Option<usize> {
        self.instructions.iter().position(|i| i.labels.iter().any(|label| label == name))
    }

    /// Labels that a branch goes to.
    pub fn targets(&self) -> Vec<&str> {
        let branches = self.instructions.iter().filter(|i| i.opcode == "bra");
        let mut targets: Vec<&str> = branches.filter_map(|i| i.operands.first()).map(String::as_str).collect();
        targets.sort_unstable();
        targets.dedup();
        targets
    }

    /// A loop around a wait at an mbarrier that does nothing else: it goes on for ever unless the phase ends.
    pub fn only_waits(&self) -> bool {
        let backwards = |(at, i): (usize, &Instruction)| {
            i.opcode == "bra" && i.operands.first().and_then(|label| self.label(label)).is_some_and(|target| target <= at)
        };
        self.instructions.iter().all(|i| matches!(i.opcode.as_str(), "bra" | "") || i.is_mbarrier_wait())
            && self.instructions.iter().enumerate().any(backwards)
    }
}

impl Instruction {
    fn is_mbarrier_wait(&self) -> bool {
        self.opcode == "mbarrier" && self.modifiers.first().is_some_and(|m| m == "try_wait" || m == "test_wait")
    }
}

/// A register's name without the `%` that it may be written with (`%%` in a template with operands).
pub fn plain(name: &str) -> String {
    name.trim_start_matches('%').replace('$', "_")
}

/// Takes the template apart.
pub fn parse(template: &str) -> Result<Program, String> {
    let mut program = Program::default();
    for statement in statements(template) {
        let text = statement.split_whitespace().collect::<Vec<_>>().join(" ");
        if let Some(registers) = text.strip_prefix(".reg") {
            let registers = registers.trim_start().strip_prefix('.').unwrap_or(registers);
            let (kind, names) = registers.split_once(' ').ok_or_else(|| unknown(&text))?;
            for name in names.split(',').map(str::trim) {
                // `r<3>` is r0, r1 and r2.
                let range = name.strip_suffix('>').and_then(|name| name.split_once('<'));
                let count = range.and_then(|(_, count)| count.parse::<usize>().ok()).filter(|&count| count <= 256);
                match (range, count) {
                    (Some((base, _)), Some(count)) => {
                        program.registers.extend((0..count).map(|n| (plain(base) + &n.to_string(), kind.to_string())));
                    }
                    _ => program.registers.push((plain(name), kind.to_string())),
                }
            }
            continue;
        }
        program.instructions.push(instruction(&text)?);
    }
    for target in program.targets() {
        if program.label(target).is_none() {
            return Err(unknown(&format!("bra {target}")));
        }
    }
    Ok(program)
}

/// The message for whatever is outside of the table.
pub fn unknown(instruction: &str) -> String {
    format!(
        "PTX instruction `{instruction}` is not available on the CPU device (docs/user/ginrs-cc.md lists the forms that are); guard it \
         with #ifndef __GINRS_CPU__"
    )
}

fn statements(template: &str) -> Vec<String> {
    let mut text = String::new();
    let mut rest = template;
    while let Some(at) = rest.find("//").into_iter().chain(rest.find("/*")).min() {
        text += &rest[..at];
        let line = rest[at..].starts_with("//");
        let end = if line { rest[at..].find('\n') } else { rest[at..].find("*/").map(|e| e + 2) };
        rest = end.map_or("", |end| &rest[at + end..]);
    }
    text += rest;
    // Braces of a scope go, braces of a vector operand stay.
    let mut statements = vec![String::new()];
    let mut vector = 0;
    for c in text.chars() {
        let current = statements.last_mut().expect("never empty");
        match c {
            '{' if current.trim().is_empty() => {}
            '{' => {
                vector += 1;
                current.push(c);
            }
            '}' if vector > 0 => {
                vector -= 1;
                current.push(c);
            }
            '}' => {}
            ';' => statements.push(String::new()),
            c => current.push(c),
        }
    }
    statements.retain(|s| !s.trim().is_empty());
    statements
}

fn instruction(text: &str) -> Result<Instruction, String> {
    let (mut rest, mut labels) = (text, Vec::new());
    while let Some((label, behind)) = rest.split_once(':').filter(|(label, behind)| is_name(label) && !behind.starts_with(':')) {
        labels.push(label.trim().to_string());
        rest = behind.trim_start();
    }
    let text = rest;
    let mut predicate = None;
    if let Some(guarded) = rest.strip_prefix('@') {
        let (name, instruction) = guarded.split_once(' ').ok_or_else(|| unknown(text))?;
        predicate = Some(name.to_string());
        rest = instruction.trim_start();
    }
    let (word, operands) = rest.split_once(' ').unwrap_or((rest, ""));
    let mut parts = word.split('.').map(str::to_string);
    let opcode = parts.next().unwrap_or_default();
    if opcode.is_empty() && (labels.is_empty() || predicate.is_some()) {
        return Err(unknown(text));
    }
    Ok(Instruction { labels, text: text.to_string(), predicate, opcode, modifiers: parts.collect(), operands: split(operands) })
}

fn is_name(label: &str) -> bool {
    let label = label.trim();
    !label.is_empty() && label.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '$'))
}

/// Splits at commas outside of brackets.
pub fn split(operands: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut depth = 0;
    for c in operands.chars() {
        match c {
            '[' | '{' => depth += 1,
            ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        parts.last_mut().expect("never empty").push(c);
    }
    parts.iter().map(|p| p.trim().to_string()).filter(|p| !p.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_comments_and_vectors() {
        let program =
            parse("{\n .reg .pred p; // a predicate\n setp.ne.b32 p, %0, 0;\n @!p st.global.v2.u32 [%1 + 8], {%2, %3}; }")
                .unwrap();
        assert_eq!(program.register("p"), Some("pred"));
        assert_eq!(program.instructions.len(), 2);
        let store = &program.instructions[1];
        assert_eq!(store.predicate.as_deref(), Some("!p"));
        assert_eq!(store.opcode, "st");
        assert_eq!(store.modifiers, ["global", "v2", "u32"]);
        assert_eq!(store.operands, ["[%1 + 8]", "{%2, %3}"]);
    }

    #[test]
    fn a_leading_vector_operand_is_no_scope() {
        let program = parse("ld.volatile.global.v4.u32 {%0,%1,%2,%3}, [%4];").unwrap();
        assert_eq!(program.instructions[0].operands, ["{%0,%1,%2,%3}", "[%4]"]);
    }

    #[test]
    fn a_loop_that_only_waits_is_known() {
        let wait = "mbarrier.try_wait.parity.shared::cta.b64 %%p, [%0], %1;";
        let wait = |rest: &str| parse(&format!("{{ .reg .pred %%p;\n LAB_WAIT:\n {wait} {rest} }}")).unwrap();
        let program = wait("@%%p bra DONE; bra LAB_WAIT; DONE: ");
        assert_eq!(program.register("%%p"), Some("pred"));
        assert_eq!((program.label("LAB_WAIT"), program.label("DONE")), (Some(0), Some(3)));
        assert_eq!(program.targets(), ["DONE", "LAB_WAIT"]);
        assert!(program.only_waits());
        assert!(wait("@!%%p bra.uni LAB_WAIT;").only_waits());
        assert!(!wait("@%%p bra DONE; DONE:").only_waits());
        assert!(!wait("st.global.u32 [%2], 1; @!%%p bra LAB_WAIT;").only_waits());
    }

    #[test]
    fn numbered_registers_are_declared_together_and_branches_go_somewhere() {
        let program = parse(".reg .b32 r<3>, %%x; mov.u32 r2, 1;").unwrap();
        assert_eq!([program.register("r2"), program.register("r3"), program.register("%%x")], [Some("b32"), None, Some("b32")]);
        assert!(parse("bra NOWHERE;").unwrap_err().contains("bra NOWHERE"));
    }
}
