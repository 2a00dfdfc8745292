//! What was asked of the card.

use std::fmt::Write as _;
use std::io::Write as _;

/// Adds a line to SOFTVERBS_LOG.
pub fn command(name: &str, input: &[u8], answer: &[u8]) {
    let Ok(path) = std::env::var("SOFTVERBS_LOG") else { return };
    let hex = |bytes: &[u8]| {
        bytes.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
    };
    // Capabilities are long, and all alike.
    let answer = &answer[..answer.len().min(16)];
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    let _ = file.and_then(|mut file| file.write_all(format!("{name} in {} out {}\n", hex(input), hex(answer)).as_bytes()));
}

/// What SOFTVERBS_LACKS says is not there.
pub fn lacks(what: &str) -> bool {
    std::env::var("SOFTVERBS_LACKS").is_ok_and(|lacks| lacks == what)
}

/// Adds a line for a call that is no command.
pub fn called(name: &str) {
    let Ok(path) = std::env::var("SOFTVERBS_LOG") else { return };
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    let _ = file.and_then(|mut file| file.write_all(format!("# {name}\n").as_bytes()));
}
