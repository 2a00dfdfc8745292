//! Who asks what the kernels here wait for, and ends nothing by it: `ginrs-run --waits` (tools/src/run/waits.rs). A Unix socket whose
//! abstract name has the process's id; who connects gets lines, if he is of the same user, or root, and the end.
//!
//! No signal: that would end sleeps and other calls of the program's early, and a program may have handlers of its own.
#![forbid(unsafe_code)]

use crate::info;
use crate::process::ServiceFd;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, send, socket_with, sockopt,
};
use rustix::process::geteuid;
use std::os::fd::OwnedFd;

/// Who may ask at the same time.
const BACKLOG: i32 = 16;

/// Where one asks.
pub(super) struct Ear(ServiceFd);

impl Ear {
    /// This process's. None where it cannot be had, which is no reason to fail: then nobody is answered.
    pub fn open() -> Option<Ear> {
        Self::named(&format!("ginrs-waits-{}", std::process::id()))
    }

    fn named(name: &str) -> Option<Ear> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let opened = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).and_then(|socket| {
            bind(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
            listen(&socket, BACKLOG)?;
            Ok(ServiceFd::new(socket))
        });
        opened.inspect_err(|e| info!(INIT, "ginrs-run --waits gets no answer: socket @{name}: {e}")).ok().map(Ear)
    }

    /// To wait for those who ask.
    pub fn fd(&self) -> &ServiceFd {
        &self.0
    }

    /// Gives all who have asked what there is to say; never waits.
    pub fn answer(&self, said: impl Fn() -> String) {
        if !self.0.is_intact() {
            return;
        }
        loop {
            match accept_with(self.0.as_fd(), SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(socket) => tell(&socket, &said),
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                // Nobody is left; or he is answered with the next one, when there are descriptors again.
                Err(_) => return,
            }
        }
    }
}

/// As much as the socket takes at once: an answer of some hundred KiB is whole.
fn tell(socket: &OwnedFd, said: impl Fn() -> String) {
    let may_ask = |user: rustix::process::Uid| user == geteuid() || user.is_root();
    if !sockopt::socket_peercred(socket).is_ok_and(|who| may_ask(who.uid)) {
        return;
    }
    let text = said();
    let mut left = text.as_bytes();
    while !left.is_empty() {
        match send(socket, left, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Ok(sent) => left = &left[sent..],
            Err(Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixStream};

    #[test]
    fn who_asks_gets_all_lines_and_the_end() {
        // Not the name of the watch of other tests in this process.
        let name = format!("ginrs-waits-test-{}", std::process::id());
        let ear = Ear::named(&name).expect("the name is this test's own");
        assert!(Ear::named(&name).is_none(), "the name is taken");
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let mut asking = [UnixStream::connect_addr(&address).unwrap(), UnixStream::connect_addr(&address).unwrap()];
        drop(UnixStream::connect_addr(&address).unwrap());
        let text = "wait rank 0\n".repeat(1000);
        ear.answer(|| text.clone());
        for stream in &mut asking {
            let mut got = String::new();
            stream.read_to_string(&mut got).unwrap();
            assert_eq!(got, text);
        }
        ear.answer(|| unreachable!());
    }
}
