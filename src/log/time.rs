//! Timestamps: strftime, and `%3f` for the first three digits of the second's fraction.

use std::time::{SystemTime, UNIX_EPOCH};

/// The time now, in the local zone, as `format` says. Longer than 255 bytes gives nothing, as in C.
pub(super) fn stamp(format: &str) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    render(format, now.as_secs() as libc::time_t, now.subsec_nanos())
}

fn render(format: &str, seconds: libc::time_t, nanos: u32) -> String {
    let Ok(format) = std::ffi::CString::new(with_fraction(format, nanos)) else { return String::new() };
    let mut out = [0u8; 256];
    // SAFETY: tm is plain data that localtime_r fills; strftime writes at most 256 bytes and returns how many before the NUL.
    let length = unsafe {
        let mut local = std::mem::zeroed();
        if libc::localtime_r(&seconds, &mut local).is_null() {
            return String::new();
        }
        libc::strftime(out.as_mut_ptr().cast(), out.len(), format.as_ptr(), &local)
    };
    String::from_utf8_lossy(&out[..length]).into_owned()
}

/// Replaces each %1f..%9f; everything else is strftime's.
fn with_fraction(format: &str, nanos: u32) -> String {
    let digits = format!("{nanos:09}");
    let mut out = String::new();
    let mut rest = format;
    while let Some(at) = rest.find('%') {
        out += &rest[..at];
        let tail = &rest[at..];
        let bytes = tail.as_bytes();
        if let (Some(n @ b'1'..=b'9'), Some(b'f')) = (bytes.get(1), bytes.get(2)) {
            out += &digits[..usize::from(n - b'0')];
            rest = &tail[3..];
        } else {
            let taken = tail.chars().take(2).map(char::len_utf8).sum();
            out += &tail[..taken];
            rest = &tail[taken..];
        }
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_are_ours_and_the_rest_is_strftimes() {
        assert_eq!(with_fraction("%T.%3f %%3f %6f%", 1_234_567), "%T.001 %%3f 001234%");
        assert_eq!(render("%Y %%", 86400 * 200, 0), "1970 %");
        assert_eq!(stamp("[%F %T] ").len(), 22);
    }
}
