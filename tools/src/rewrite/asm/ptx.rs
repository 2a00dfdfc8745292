//! The text of an asm statement as PTX instructions.

/// One instruction.
#[derive(Debug, PartialEq)]
pub struct Instruction {
    /// As written, on one line, for messages.
    pub text: String,
    /// `p` or `!p` of `@p`.
    pub predicate: Option<String>,
    /// `ld`, `st`, `fence`, ...
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
        self.registers.iter().find(|(known, _)| known == name).map(|(_, kind)| kind.as_str())
    }
}

/// Takes the template apart. Labels and branches have no translation.
pub fn parse(template: &str) -> Result<Program, String> {
    let mut program = Program::default();
    for statement in statements(template) {
        let text = statement.split_whitespace().collect::<Vec<_>>().join(" ");
        if let Some(registers) = text.strip_prefix(".reg") {
            let registers = registers.trim_start().strip_prefix('.').unwrap_or(registers);
            let (kind, names) = registers.split_once(' ').ok_or_else(|| unknown(&text))?;
            for name in names.split(',') {
                program.registers.push((name.trim().to_string(), kind.to_string()));
            }
            continue;
        }
        program.instructions.push(instruction(&text)?);
    }
    Ok(program)
}

/// The message for whatever is outside of the table.
pub fn unknown(instruction: &str) -> String {
    format!(
        "PTX instruction `{instruction}` is not available on the CPU device (docs/ginrs-cc.md lists the forms that are); guard it \
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
    let mut rest = text;
    let mut predicate = None;
    if let Some(guarded) = rest.strip_prefix('@') {
        let (name, instruction) = guarded.split_once(' ').ok_or_else(|| unknown(text))?;
        predicate = Some(name.to_string());
        rest = instruction.trim_start();
    }
    let (word, operands) = rest.split_once(' ').unwrap_or((rest, ""));
    let mut parts = word.split('.').map(str::to_string);
    let opcode = parts.next().unwrap_or_default();
    if opcode.is_empty() || opcode.ends_with(':') {
        return Err(unknown(text));
    }
    Ok(Instruction { text: text.to_string(), predicate, opcode, modifiers: parts.collect(), operands: split(operands) })
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
    fn labels_are_refused() {
        assert!(parse("LOOP: bra LOOP;").unwrap_err().contains("LOOP: bra LOOP"));
    }
}
