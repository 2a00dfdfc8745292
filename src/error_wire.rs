//! An error on its way to another process: in a frame of the bootstrap, in a round of the ranks, on a status page.
//!
//! `u8 code, u16 number, u32 culprit (all ones: none), u16 bytes of text, text`, little endian.
#![forbid(unsafe_code)]

use crate::error::{Code, Error};
use crate::text::printable;

/// Longest text that travels, in bytes: far above any of ours.
const MAX_TEXT: usize = 2000;
const HEAD: usize = 9;
/// Longest error that travels, in bytes.
pub const MAX_BYTES: usize = HEAD + MAX_TEXT;

/// The bytes that travel, at most [`MAX_BYTES`]. A text is cut where it is too long, at a character.
pub fn encode(error: &Error) -> Vec<u8> {
    let mut bytes = vec![error.code as u8];
    bytes.extend(error.id.to_le_bytes());
    bytes.extend(error.culprit.unwrap_or(u32::MAX).to_le_bytes());
    let text = &error.text[..error.text.floor_char_boundary(MAX_TEXT)];
    bytes.extend((text.len() as u16).to_le_bytes());
    bytes.extend(text.as_bytes());
    bytes
}

/// From bytes of another process; None for those of another version or a broken one. A program may print the text as it is.
pub fn decode(bytes: &[u8]) -> Option<Error> {
    let (&code, rest) = bytes.split_first()?;
    let (id, rest) = rest.split_first_chunk()?;
    let (culprit, rest) = rest.split_first_chunk()?;
    let (length, text) = rest.split_first_chunk()?;
    let culprit = Some(u32::from_le_bytes(*culprit)).filter(|&rank| rank != u32::MAX);
    let text = std::str::from_utf8(text)
        .ok()
        .filter(|text| text.len() <= MAX_TEXT && text.len() == usize::from(u16::from_le_bytes(*length)))?;
    Some(Error { code: code_of(code)?, id: u16::from_le_bytes(*id), text: printable(text, MAX_TEXT), culprit })
}

fn code_of(byte: u8) -> Option<Code> {
    use Code::*;
    [UnhandledCudaError, SystemError, InternalError, InvalidArgument, InvalidUsage, RemoteError]
        .into_iter()
        .find(|code| *code as u8 == byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_text_is_cut_at_a_character_and_shown_without_control_characters() {
        let told = |text: &str| decode(&encode(&Error::new(Code::UnhandledCudaError, 52, text))).unwrap().text;
        assert_eq!(told(&"ü".repeat(1500)).len(), MAX_TEXT);
        assert_eq!(told(&format!("x{}", "ü".repeat(1500))).len(), MAX_TEXT - 1);
        assert_eq!(told("a\nNCCL WARN b"), "a\\nNCCL WARN b");
    }

    #[test]
    fn what_no_rank_says_is_refused() {
        let good = encode(&Error::new(Code::RemoteError, 40, "").by(3));
        assert!(decode(&good).is_some());
        let with = |at: usize, byte| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            bytes
        };
        for code in [Code::Success as u8, Code::InProgress as u8, 8, 99, 255] {
            assert!(decode(&with(0, code)).is_none(), "code {code}");
        }
        for cut in 0..HEAD {
            assert!(decode(&good[..cut]).is_none(), "{cut} bytes");
        }
        assert!(decode(&[&good[..], b"x"].concat()).is_none(), "more text than there is");
        assert!(decode(&[&with(7, 1)[..], b"\xc3"].concat()).is_none(), "half a letter");
        assert!(decode(&[&good[..7], &2001u16.to_le_bytes(), &[b'x'; 2001]].concat()).is_none(), "too long");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]
        #[test]
        fn no_bytes_break_the_decoder(bytes in proptest::collection::vec(any::<u8>(), 0..80), code in 0u8..9) {
            for bytes in [bytes.clone(), [&[code][..], &bytes].concat()] {
                if let Some(error) = decode(&bytes) {
                    prop_assert_eq!(decode(&encode(&error)), Some(error));
                }
            }
        }

        #[test]
        fn every_error_arrives(code in 1u8..7, id: u16, culprit in proptest::option::of(0..u32::MAX), text in "\\PC{0,700}") {
            let error = Error { code: code_of(code).unwrap(), id, text, culprit };
            let told = decode(&encode(&error)).unwrap();
            prop_assert_eq!((told.code, told.id, told.culprit), (error.code, error.id, error.culprit));
            prop_assert!(encode(&error).len() <= MAX_BYTES && (error.text.len() > 600 || told.text == printable(&error.text, MAX_TEXT)));
        }
    }
}
