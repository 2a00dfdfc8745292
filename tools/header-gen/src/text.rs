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
