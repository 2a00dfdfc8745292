//! Which process this is: its token, its machine, and whether it is the one that made something.

#![forbid(unsafe_code)]

use super::random;
use crate::bail;
use crate::error::Result;
use crate::sync::PerProcess;

/// Another one for every process, also for a forked child. Mostly random, but no secret.
pub fn token() -> [u8; 16] {
    static TOKEN: PerProcess<[u8; 16]> = PerProcess::new();
    *TOKEN.get(|| {
        random().unwrap_or_else(|_| {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
            (now.as_nanos() << 32 | u128::from(std::process::id())).to_le_bytes()
        })
    })
}

/// Equal for processes that can reach each other by abstract sockets and memfds: same boot, same network namespace.
pub fn machine() -> u64 {
    static MACHINE: PerProcess<u64> = PerProcess::new();
    *MACHINE.get(|| {
        use sha2::Digest;
        let mut hash = sha2::Sha256::new();
        hash.update(std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default());
        hash.update(
            std::fs::read_link("/proc/self/ns/net").map(|link| link.into_os_string().into_encoded_bytes()).unwrap_or_default(),
        );
        u64::from_le_bytes(hash.finalize()[..8].try_into().expect("8 bytes"))
    })
}

/// `Err(InvalidUsage, E060)` when the caller is a forked child of the process `owner` that made `what`.
pub fn check_owner(owner: u32, what: &str) -> Result<()> {
    let here = std::process::id();
    if here != owner {
        bail!(
            InvalidUsage,
            60,
            "{what} was made in process {owner} and is used in its forked child {here} | its threads did not survive fork() | pid {here} | \
             fix: create communicators after fork(), or start processes with exec"
        );
    }
    Ok(())
}
