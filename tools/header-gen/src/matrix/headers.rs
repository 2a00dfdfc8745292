//! What the installed headers declare: words, the bodies of structs, and the parameters of functions.

use crate::text::{bracketed, files, is_word, pasted, places, read, without_comments, words};
use std::collections::HashSet;
use std::path::Path;

pub struct Headers {
    /// Path below include/, and the code without comments.
    files: Vec<(String, String)>,
    words: HashSet<String>,
}

impl Headers {
    /// nccl.h, nccl_device.h and nccl_device/; our own headers have no name of NCCL's.
    pub fn read(root: &Path) -> Result<Self, String> {
        let include = root.join("include");
        let mut found = Vec::new();
        for path in ["nccl.h", "nccl_device.h", "nccl_device"].iter().flat_map(|name| files(&include.join(name))) {
            let name = path.strip_prefix(&include).unwrap_or(&path).display().to_string();
            // Nothing of it on a GPU, and the caller's line on the CPU device (ginrs_device/call.cuh): not NCCL's.
            found.push((name, without_comments(&read(&path)?).replace(" GINRS_CALLER_DEFAULT", "")));
        }
        let words = found.iter().flat_map(|(_, code)| words(code).into_iter().chain(pasted(code))).collect();
        Ok(Self { files: found, words })
    }

    pub fn has(&self, word: &str) -> bool {
        self.words.contains(word)
    }

    /// The section of the page for a name that is not a struct: where it is defined as a macro, an enumerator or a type.
    pub fn section_of(&self, name: &str) -> Option<String> {
        let defined = |code: &str| {
            places(code, name).any(|at| {
                let before = code[..at].trim_end();
                let after = code[at + name.len()..].trim_start();
                before.ends_with("#define")
                    || (before.ends_with(['{', ',']) && after.starts_with(['=', ',', '}']))
                    || (after.starts_with(';') && line_of(code, at).contains("typedef"))
                    || (before.ends_with("using") && after.starts_with('='))
                    || (before.ends_with('}') && after.starts_with(';'))
            })
        };
        self.files.iter().find(|(_, code)| defined(code)).map(|(path, _)| section(path))
    }

    /// Where a struct or union is defined and what its body says. `X_t` may stand for the struct `X`.
    pub fn body(&self, name: &str) -> Option<(String, &str)> {
        let name = name.split('<').next().unwrap_or(name).rsplit("::").next().unwrap_or(name);
        let plain = name.strip_suffix("_t").unwrap_or(name);
        self.files.iter().find_map(|(path, code)| {
            let body = named_body(code, name).or_else(|| named_body(code, plain)).or_else(|| typedef_body(code, name));
            body.map(|body| (section(path), body))
        })
    }

    /// The parameter types of every declaration of `name`, in the struct `owner` if there is one.
    pub fn shapes(&self, owner: Option<&str>, name: &str) -> Vec<String> {
        let of = |code: &str| -> Vec<String> {
            let lists = places(code, name).filter_map(|at| bracketed(code[at + name.len()..].trim_start()).map(shape));
            lists.collect()
        };
        match owner {
            Some(owner) => self.body(owner).map(|(_, body)| of(body)).unwrap_or_default(),
            None => self.files.iter().flat_map(|(_, code)| of(code)).collect(),
        }
    }
}

fn line_of(code: &str, at: usize) -> &str {
    let start = code[..at].rfind(['\n', ';']).map_or(0, |end| end + 1);
    &code[start..at]
}

/// `struct X {`, `struct X : Base {`.
fn named_body<'a>(code: &'a str, name: &str) -> Option<&'a str> {
    places(code, name).find_map(|at| {
        let before = code[..at].trim_end();
        if !(before.ends_with("struct") || before.ends_with("union")) {
            return None;
        }
        let after = &code[at + name.len()..];
        let head = &after[..after.find(['{', ';', '('])?];
        let open = after[head.len()..].starts_with('{') && (head.trim().is_empty() || head.trim().starts_with(':'));
        open.then(|| bracketed(&after[head.len()..])).flatten()
    })
}

/// `typedef struct {...} X;`
fn typedef_body<'a>(code: &'a str, name: &str) -> Option<&'a str> {
    let at = places(code, name).find(|&at| code[..at].trim_end().ends_with('}') && code[at + name.len()..].starts_with(';'))?;
    let close = code[..at].trim_end().len() - 1;
    let mut depth = 0;
    for (i, c) in code[..=close].char_indices().rev() {
        depth += match c {
            '}' => 1,
            '{' => -1,
            _ => 0,
        };
        if depth == 0 {
            return Some(&code[i + 1..close]);
        }
    }
    None
}

/// The heading for a header: impl/ and the folders below nccl_device/gin/ belong to the header that users include.
fn section(path: &str) -> String {
    if let Some(file) = path.strip_prefix("nccl_device/impl/") {
        let stem = file.split("__").next().unwrap_or(file);
        return if stem == "gin_proxy" { "nccl_device/gin/proxy/".into() } else { format!("nccl_device/{stem}.h") };
    }
    for folder in ["nccl_device/gin/gdaki/doca_gpunetio/", "nccl_device/gin/gdaki/", "nccl_device/gin/proxy/", "nccl_device/gin/"]
    {
        if path.starts_with(folder) {
            return folder.into();
        }
    }
    path.into()
}

/// `ncclWindow_t window, size_t offset = 0` as `ncclWindow_t, size_t`.
pub fn shape(parameters: &str) -> String {
    let mut parts = vec![String::new()];
    let mut depth = 0;
    for c in parameters.chars() {
        depth += match c {
            '(' | '{' | '<' | '[' => 1,
            ')' | '}' | '>' | ']' => -1,
            _ => 0,
        };
        match parts.last_mut() {
            _ if c == ',' && depth == 0 => parts.push(String::new()),
            Some(part) => part.push(c),
            None => {}
        }
    }
    parts.iter().map(|part| type_of(part)).collect::<Vec<_>>().join(", ")
}

/// A parameter without its name and default.
fn type_of(parameter: &str) -> String {
    let text = parameter.split(" =").next().unwrap_or(parameter).replace(['\n', '\\'], " ");
    let mut tokens: Vec<String> = Vec::new();
    for c in text.chars() {
        match tokens.last_mut() {
            Some(last) if is_word(c) && last.ends_with(is_word) => last.push(c),
            _ if c.is_whitespace() => tokens.push(String::new()),
            _ => tokens.push(c.to_string()),
        }
    }
    tokens.retain(|token| !token.is_empty());
    // The name: the last word, or in `T (&name)[n]` the one in the parentheses.
    let in_parentheses = tokens.windows(3).position(|w| w[0] == "(" && w[1] == "&" && w[2].starts_with(is_word)).map(|at| at + 2);
    let last = tokens.len().wrapping_sub(1);
    let at_the_end = (last > 0 && last < tokens.len() && tokens[last].starts_with(is_word) && tokens[last - 1] != ":")
        .then_some(last)
        .filter(|_| !matches!(tokens[last].as_str(), "int" | "long" | "char" | "short" | "const"));
    if let Some(at) = in_parentheses.or(at_the_end) {
        tokens.remove(at);
    }
    tokens.retain(|token| token != "struct");
    let mut out = String::new();
    for token in tokens {
        if out.ends_with(is_word) && token.starts_with(is_word) {
            out.push(' ');
        }
        out += &token;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(code: &str) -> Headers {
        let code = without_comments(code);
        Headers { words: words(&code), files: vec![("nccl_device/impl/gin__funcs.h".into(), code)] }
    }

    #[test]
    fn names_and_defaults_are_no_part_of_a_shape() {
        assert_eq!(shape("ncclWindow_t window, size_t offset = 0"), "ncclWindow_t, size_t");
        assert_eq!(shape("ncclDevComm const& comm, void const*"), "ncclDevComm const&, void const*");
        assert_eq!(
            shape("RemoteAction a = ncclGin_None{}, cuda::thread_scope s = cuda::thread_scope_device"),
            "RemoteAction, cuda::thread_scope"
        );
        assert_eq!(shape("int, T (&vals)[Max], Arg&&... arg"), "int, T(&)[Max], Arg&&...");
        assert_eq!(shape("unsigned long n, struct ncclTeam team, ncclTeamTagRail"), "unsigned long, ncclTeam, ncclTeamTagRail");
        assert_eq!(shape(""), "");
    }

    #[test]
    fn an_overload_is_there_or_not() {
        let headers =
            headers("struct A;\nstruct A : B<C> {\n  void put(int a, T b = {1, 2});\n  /* void put(int); */\n};\nvoid put(A a);");
        assert_eq!(headers.shapes(Some("A"), "put"), ["int, T"]);
        assert_eq!(headers.shapes(None, "put"), ["int, T", "A"]);
        assert!(headers.shapes(Some("B"), "put").is_empty());
    }

    #[test]
    fn structs_and_constants_are_found_by_all_their_forms() {
        let headers = headers(
            "typedef struct { int x; } A_t;\nstruct B { int y; };\nenum { ONE = 1, TWO };\n#define THREE 3\nint four = ONE;",
        );
        let body = |name| headers.body(name).map(|(section, body)| (section, body.trim().to_owned()));
        assert_eq!(body("A_t"), Some(("nccl_device/gin.h".into(), "int x;".into())));
        assert_eq!(body("B_t"), Some(("nccl_device/gin.h".into(), "int y;".into())));
        assert_eq!(body("C"), None);
        assert!(["ONE", "TWO", "THREE", "A_t"].iter().all(|name| headers.section_of(name).is_some()));
        assert!(headers.section_of("four").is_none());
    }
}
