//! What is one per process: its identity, its descriptors, its service threads and its end.
//!
//! Imports from error, panic, sync, config, log and fault.

mod descriptors;
mod ended;
mod exit;
mod identity;
mod joinable;
mod quit;
mod random;
pub mod rest;
mod signals;
mod socket;
mod thread;

pub use descriptors::{ServiceFd, descriptors_lost, raise_descriptor_limit};
pub use ended::exit_code;
pub use exit::{AtWork, at_work, is_ending, watch_exit};
pub use identity::{check_owner, machine, token};
pub use joinable::Joinable;
pub use quit::{Asked, asked_of_waits, quit, watch_quit};
pub use random::random;
pub use signals::interval_timers;
pub use socket::abstract_socket;
pub use thread::{service_thread, thread};

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::OwnedFd;

    #[test]
    fn one_token_per_process_and_another_after_fork() {
        let mine = token();
        assert_eq!(mine, token());
        let listener = ServiceFd::new(OwnedFd::from(std::fs::File::open("/dev/null").unwrap()));
        let owner = std::process::id();
        // SAFETY: the child calls only what is safe after fork: getrandom, allocation (glibc repairs it), fcntl, _exit.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: asks about a descriptor number, open or not.
            let closed = unsafe { libc::fcntl(listener.raw(), libc::F_GETFD) } == -1;
            let told = check_owner(owner, "communicator 0x1").unwrap_err();
            let both =
                told.text.contains(&format!("process {owner}")) && told.text.contains(&format!("child {}", std::process::id()));
            let right = token() != mine && closed && told.id == 60 && both;
            // SAFETY: ends this forked child without the parent's exit handlers.
            unsafe { libc::_exit(if right { 0 } else { 1 }) };
        }
        let mut status = 0;
        // SAFETY: our own child.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0);
        assert!(check_owner(owner, "communicator").is_ok());
    }
}
