//! Bytes that nobody can guess.

#![forbid(unsafe_code)]

use crate::bail;
use crate::error::Result;
use crate::fault::{self, Fault};

/// N of them; E007 where the system has none, for without them no secret is one.
pub fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    let planted = fault::set() == Some(Fault::Random);
    match getrandom::fill(&mut bytes) {
        Ok(()) if !planted => Ok(bytes),
        failed => {
            let why = failed.err().map_or("GINRS_FAULT asks for it".into(), |e| e.to_string());
            bail!(
                SystemError,
                7,
                "the system gives no random bytes | pid {} | getrandom and /dev/urandom: {why} | fix: let the sandbox allow one of them",
                std::process::id()
            )
        }
    }
}
