//! Splitting what stands in one argument or in a file of options. Bytes: names of files need not be text.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// `-Xcompiler -Wall,-Wextra` is two options; a comma behind a backslash is a comma.
pub fn commas(value: &OsStr) -> Vec<OsString> {
    let mut parts = vec![Vec::new()];
    let mut bytes = value.as_bytes().iter().copied();
    while let Some(byte) = bytes.next() {
        let part: &mut Vec<u8> = parts.last_mut().expect("never empty");
        match byte {
            b'\\' => part.extend(bytes.next()),
            // -Wl,-rpath,/x is one option to g++.
            b',' if !part.starts_with(b"-Wl") && !part.starts_with(b"-fsanitize") => parts.push(Vec::new()),
            byte => part.push(byte),
        }
    }
    parts.into_iter().flat_map(|part| words(&OsString::from_vec(part))).collect()
}

/// Splits at space outside of quotes, as a shell would; a backslash takes what follows as it is.
pub fn words(text: &OsStr) -> Vec<OsString> {
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut quote = None;
    let mut bytes = text.as_bytes().iter().copied();
    while let Some(byte) = bytes.next() {
        match (byte, quote) {
            (b'"' | b'\'', None) => {
                quote = Some(byte);
                word.get_or_insert_default();
            }
            (byte, Some(open)) if byte == open => quote = None,
            (b'\\', None | Some(b'"')) => word.get_or_insert_default().extend(bytes.next()),
            (byte, None) if byte.is_ascii_whitespace() => words.extend(word.take().map(OsString::from_vec)),
            (byte, _) => word.get_or_insert_default().push(byte),
        }
    }
    words.extend(word.map(OsString::from_vec));
    words
}

/// One word that [`words`] and a shell read back as it was.
pub fn quoted(word: &OsStr) -> Vec<u8> {
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"-_=+./,:@%".contains(b) || *b >= 0x80;
    if !word.is_empty() && word.as_bytes().iter().all(plain) {
        return word.as_bytes().to_vec();
    }
    let mut out = vec![b'"'];
    for &byte in word.as_bytes() {
        if b"\"\\$`".contains(&byte) {
            out.push(b'\\');
        }
        out.push(byte);
    }
    out.push(b'"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &[u8]) -> Vec<OsString> {
        words(OsStr::from_bytes(text))
    }

    #[test]
    fn words_end_where_a_shells_do() {
        assert_eq!(split(b"-I a  \"-I b c\"\n-DX=\\\"y\\\" 'one two'"), ["-I", "a", "-I b c", "-DX=\"y\"", "one two"]);
        assert_eq!(split(b"a\"b c\"d \"\" e"), ["ab cd", "", "e"]);
        assert_eq!(split(b" \t\n"), Vec::<OsString>::new());
        assert_eq!(split(b"caf\xe9")[0].as_bytes(), b"caf\xe9");
    }

    #[test]
    fn quoting_and_splitting_are_inverse() {
        for word in [&b"plain"[..], b"", b"a b", b"\"quoted\"", b"back\\slash", b"$HOME `x`", b"\xff\xfe", b"tab\there"] {
            assert_eq!(split(&quoted(OsStr::from_bytes(word))), [OsStr::from_bytes(word)]);
        }
    }

    #[test]
    fn commas_separate_but_in_options_that_have_their_own() {
        let parts = |text: &str| commas(OsStr::new(text));
        assert_eq!(parts("-Wall,-Wextra"), ["-Wall", "-Wextra"]);
        assert_eq!(parts("-Wl,-rpath,/x"), ["-Wl,-rpath,/x"]);
        assert_eq!(parts("-DA=1\\,2,-DB"), ["-DA=1,2", "-DB"]);
    }
}
