//! Names of abstract Unix sockets.

#![forbid(unsafe_code)]

use crate::config;
use rustix::net::SocketAddrUnix;

/// Where a socket of that kind and name listens in its network namespace.
pub fn abstract_socket(kind: &str, name: &[u8; 16]) -> rustix::io::Result<SocketAddrUnix> {
    let name = u128::from_be_bytes(*name);
    // Runs of one seed beside each other draw the same names (`ginrs-run --seed`); each has a file for its choices, and is one process.
    let run = config::text("GINRS_SCHEDULE_TRACE").map(|file| format!("-{:08x}", crc32fast::hash(file.as_bytes())));
    SocketAddrUnix::new_abstract_name(format!("{kind}-{name:032x}{}", run.unwrap_or_default()).as_bytes())
}
