//! Prototypes of the exports, as cbindgen reads them from `src/abi`.
//!
//! cbindgen sees one strong `pncclX` per function; C also gets `ncclX`, which the link makes its weak name.

use cbindgen::{Builder, Config, DocumentationStyle, Language, Style};
use std::path::Path;

/// One C declaration.
pub struct Function {
    doc: Vec<String>,
    /// `ncclResult_t pncclX(int a)`.
    declaration: String,
}

impl Function {
    /// `X` of `pncclX`; the whole name where there is no such twin.
    pub fn stem(&self) -> &str {
        let name = self.declaration.split('(').next().unwrap_or("").rsplit([' ', '*']).next().unwrap_or("");
        name.strip_prefix("pnccl").unwrap_or(name)
    }

    /// Comment and declaration; two of them where there is a twin.
    pub fn declare(&self) -> String {
        let mut text = match self.doc.len() {
            0 => String::new(),
            1 => format!("/* {} */\n", self.doc[0]),
            _ => format!("/* {} */\n", self.doc.join("\n * ")),
        };
        if self.declaration.contains(&format!("pnccl{}", self.stem())) {
            text += &wrap(&self.declaration.replace("pnccl", "nccl"));
        }
        text + &wrap(&self.declaration) + "\n"
    }
}

/// Reads the files `src/abi/<name>.rs` in order.
pub fn read(root: &Path, names: &[&str]) -> Result<Vec<Function>, String> {
    let mut functions = Vec::new();
    for name in names {
        let path = root.join("src/abi").join(format!("{name}.rs"));
        let config = Config {
            language: Language::C,
            style: Style::Type,
            documentation: true,
            documentation_style: DocumentationStyle::C99,
            usize_is_size_t: true,
            no_includes: true,
            line_length: usize::MAX >> 1,
            ..Config::default()
        };
        let bindings = Builder::new().with_config(config).with_src(&path).generate();
        let bindings = bindings.map_err(|error| format!("{}: {error}", path.display()))?;
        let mut text = Vec::new();
        bindings.write(&mut text);
        functions.extend(parse(&String::from_utf8_lossy(&text)));
    }
    Ok(functions)
}

/// cbindgen's output: `//` lines, then a declaration on one line.
fn parse(text: &str) -> Vec<Function> {
    let (mut functions, mut doc, mut rust_only) = (Vec::new(), Vec::new(), false);
    for line in text.lines().map(str::trim) {
        if let Some(comment) = line.strip_prefix("//") {
            // From a heading on (# Safety) the comment is for Rust.
            rust_only |= comment.trim_start().starts_with('#');
            if !rust_only && !comment.trim().is_empty() {
                doc.push(comment.trim().to_owned());
            }
        } else if let Some(declaration) = line.strip_suffix(");") {
            let declaration = format!("{declaration})").replace(" **", "** ").replace(" *", "* ");
            functions.push(Function { doc: std::mem::take(&mut doc), declaration: declaration.replace("struct ", "") });
            rust_only = false;
        }
    }
    functions
}

/// At most 120 columns, continued under the first argument.
fn wrap(declaration: &str) -> String {
    let indent = declaration.find('(').map_or(0, |at| at + 1);
    let mut out = String::new();
    let mut column = 0;
    for (i, word) in declaration.split(", ").enumerate() {
        if i > 0 {
            out.push(',');
            if column + 2 + word.len() > 118 {
                out += &format!("\n{}", " ".repeat(indent));
                column = indent;
            } else {
                out.push(' ');
                column += 2;
            }
        }
        out += word;
        column += word.len();
    }
    out + ";\n"
}
