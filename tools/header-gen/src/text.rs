//! C and Rust sources as words and brackets: enough to look names up, no more.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

pub fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Files below `folder` (or `folder` itself if it is one), sorted.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    if folder.is_file() {
        return vec![folder.to_owned()];
    }
    let mut entries: Vec<PathBuf> = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    entries.sort();
    entries.iter().flat_map(|path| files(path)).collect()
}

pub fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

pub fn words(text: &str) -> HashSet<String> {
    text.split(|c: char| !is_word(c)).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// Names that macros of this text put together: with `#define F(x) get_##x##_ptr`, F(a) is `get_a_ptr`.
pub fn pasted(code: &str) -> HashSet<String> {
    let mut names = HashSet::new();
    let code = code.replace("\\\n", " ");
    for definition in code.split("#define ").skip(1) {
        let definition = definition.lines().next().unwrap_or("");
        let Some((name, rest)) = definition.split_once('(') else { continue };
        let (Some((parameters, body)), true) = (rest.split_once(')'), rest.contains("##") && name.chars().all(is_word)) else {
            continue;
        };
        let parameters: Vec<&str> = parameters.split(',').map(str::trim).collect();
        for word in body.split(|c: char| !is_word(c) && c != '#').filter(|word| word.contains("##")) {
            let parts: Vec<&str> = word.split("##").collect();
            for at in places(&code, name) {
                let Some(arguments) = bracketed(&code[at + name.len()..]) else { continue };
                let arguments: Vec<&str> = arguments.split(',').map(str::trim).collect();
                let value = |part: &&str| {
                    parameters.iter().position(|p| p == part).and_then(|i| arguments.get(i)).unwrap_or(part).to_string()
                };
                names.insert(parts.iter().map(value).collect::<String>());
            }
        }
    }
    names
}

/// Names behind `.` or `->`.
pub fn members(text: &str) -> HashSet<String> {
    let word = |rest: &str| rest.chars().take_while(|&c| is_word(c)).collect::<String>();
    let parts = text.split('.').skip(1).chain(text.split("->").skip(1));
    // A dependent call is `session.template recv<T>()`.
    parts.map(|rest| word(rest.strip_prefix("template ").unwrap_or(rest))).filter(|name| !name.is_empty()).collect()
}

/// Every place where `name` stands as a word of its own.
pub fn places<'a>(text: &'a str, name: &'a str) -> impl Iterator<Item = usize> + 'a {
    let word = name.starts_with(is_word);
    text.match_indices(name).map(|(at, _)| at).filter(move |&at| {
        !word
            || (!text[..at].ends_with(is_word) && !text[at + name.len()..].starts_with(|c| is_word(c) && name.ends_with(is_word)))
    })
}

/// What stands between the bracket at the start of `text` and the one that closes it.
pub fn bracketed(text: &str) -> Option<&str> {
    let (open, close) = match text.chars().next()? {
        '(' => ('(', ')'),
        '{' => ('{', '}'),
        _ => return None,
    };
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        if c == open {
            depth += 1;
        } else if c == close {
            depth -= 1;
            if depth == 0 {
                return Some(&text[1..at]);
            }
        }
    }
    None
}

/// A name in a comment is no name.
pub fn without_comments(text: &str) -> String {
    let mut rest = text;
    let mut code = String::with_capacity(text.len());
    loop {
        match (rest.find("//"), rest.find("/*")) {
            (Some(line), block) if block.is_none_or(|block| line < block) => {
                code += &rest[..line];
                rest = rest[line..].find('\n').map_or("", |end| &rest[line + end..]);
            }
            (_, Some(block)) => {
                code += &rest[..block];
                code.push(' ');
                rest = rest[block..].find("*/").map_or("", |end| &rest[block + end + 2..]);
            }
            _ => return code + rest,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_pasted_with_each_argument() {
        let code = "#define F(x, y) \\\n  get_##x##_ptr(y)\n#define G(x) x\nF(a, 1) F(b, 2) G(c)\n";
        let names = pasted(code);
        assert!(names.contains("get_a_ptr") && names.contains("get_b_ptr") && !names.contains("c"), "{names:?}");
    }

    #[test]
    fn words_stand_alone_and_comments_are_gone() {
        assert_eq!(places("put putValue x_put put(", "put").collect::<Vec<_>>(), [0, 19]);
        assert_eq!(without_comments("a /* b */ c // d\ne"), "a   c \ne");
        assert_eq!(bracketed("(a(b)c) d"), Some("a(b)c"));
        assert!(members("s.template recv<T>() + p->field + q.x").is_superset(&words("recv field x")));
    }
}
