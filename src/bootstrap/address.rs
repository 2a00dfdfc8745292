//! The name of a process, which is also its abstract Unix socket: how processes of one machine connect, and how all machines tell processes apart.

use crate::bail;
use crate::error::{Code, Error, Result};
use crate::fault;
use crate::process::abstract_socket;
use crate::sync::system::poll;
use rustix::event::{PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// Which process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// Nowhere: a record that was never filled.
    None,
    /// 128 random bits; on its machine and in its network namespace also the name of its abstract Unix socket.
    Abstract([u8; 16]),
}

/// Where a process serves descriptors.
pub type FdAddress = Address;

impl Address {
    /// Fixed form for records: kind, zeros, name.
    pub fn to_bytes(&self) -> [u8; 32] {
        let mut out = [0; 32];
        if let Address::Abstract(name) = self {
            out[0] = 1;
            out[16..].copy_from_slice(name);
        }
        out
    }

    /// From a record; refuses kinds that this version cannot reach.
    pub fn from_bytes(bytes: &[u8; 32]) -> Result<Self> {
        match bytes[0] {
            0 => Ok(Address::None),
            1 => Ok(Address::Abstract(bytes[16..].try_into().expect("16 bytes"))),
            kind => bail!(
                RemoteError,
                18,
                "address of an unknown kind | a peer's record | kind {kind}, this version knows 1 (this host) | fix: load the same libginrs on every rank"
            ),
        }
    }

    fn socket(&self) -> rustix::io::Result<SocketAddrUnix> {
        match self {
            Address::None => Err(Errno::DESTADDRREQ),
            // The prefix is for people who read ss -x; the name's secrecy is not relied on.
            Address::Abstract(name) => abstract_socket("ginrs", name),
        }
    }

    /// Listens here; connections wait in a queue of 4096.
    pub fn listen(&self) -> rustix::io::Result<OwnedFd> {
        let fd = stream()?;
        net::bind(&fd, &self.socket()?)?;
        net::listen(&fd, 4096)?;
        Ok(fd)
    }

    /// Connects without waiting for an answer. A full queue is retried until `until`.
    pub fn connect(&self, until: Instant) -> rustix::io::Result<OwnedFd> {
        let to = self.socket()?;
        loop {
            let fd = stream()?;
            match net::connect(&fd, &to) {
                Ok(()) => return Ok(fd),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if Instant::now() < until => std::thread::sleep(Duration::from_millis(2)),
                Err(e) => return Err(e),
            }
        }
    }
}

fn stream() -> rustix::io::Result<OwnedFd> {
    fault::step("descriptor")?;
    net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)
}

/// Lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Who is at the other end: fixed by the kernel when the connection (or the listener) was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// Process id as seen from here; 0 when it lives in a namespace that we cannot see.
    pub pid: u32,
    /// Effective user.
    pub uid: u32,
}

impl Credentials {
    /// SO_PEERCRED.
    pub fn of(socket: impl AsFd) -> std::io::Result<Self> {
        let mut found = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
        let mut length = size_of::<libc::ucred>() as libc::socklen_t;
        // SAFETY: found is a ucred and length says so; the kernel writes no more than that.
        let rc = unsafe {
            let to = (&raw mut found).cast();
            libc::getsockopt(socket.as_fd().as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, to, &mut length)
        };
        if rc != 0 {
            return Err(std::io::Error::last_os_error());
        }
        Ok(Self { pid: found.pid.max(0).unsigned_abs(), uid: found.uid })
    }

    /// True for our own user: nobody else may talk to us, root included.
    pub fn is_mine(&self) -> bool {
        self.uid == rustix::process::geteuid().as_raw()
    }
}

/// Who is at the other end of a connection, for messages and for the watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its process id: the kernel's word on this machine, its own from elsewhere.
    pub pid: u32,
    /// Where it connects from or to; None on this machine.
    pub from: Option<IpAddr>,
}

impl std::fmt::Display for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "pid {}", self.pid)?;
        self.from.map_or(Ok(()), |from| write!(f, " at {from}"))
    }
}

/// Why a step on a socket did not happen.
#[derive(Debug)]
pub enum Stopped {
    /// The other end closed.
    Closed,
    /// The deadline passed.
    Late,
    /// The system said no.
    System(Errno),
}

impl std::fmt::Display for Stopped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Stopped::Closed => f.write_str("connection closed"),
            Stopped::Late => f.write_str("no answer in time"),
            Stopped::System(e) => write!(f, "{e}"),
        }
    }
}

/// Bytes that the other end's machine has not acknowledged.
pub fn unacknowledged(fd: impl AsFd) -> usize {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the request writes one int, and gets the place of one.
    let rc = unsafe { libc::ioctl(fd.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if rc == 0 { bytes.max(0).unsigned_abs() as usize } else { 0 }
}

/// The kernel repeats what nobody acknowledges after `pause` at the latest, however often it has before. Linux 6.15 and later; older ones
/// go on doubling.
pub fn set_longest_pause(fd: impl AsFd, pause: Duration) {
    const TCP_RTO_MAX_MS: libc::c_int = 44;
    let milliseconds = libc::c_int::try_from(pause.as_millis()).unwrap_or(libc::c_int::MAX).clamp(1000, 120_000);
    // SAFETY: reads one int, and gets the place and the size of one.
    unsafe {
        let (value, length) = ((&raw const milliseconds).cast(), size_of_val(&milliseconds) as libc::socklen_t);
        libc::setsockopt(fd.as_fd().as_raw_fd(), libc::IPPROTO_TCP, TCP_RTO_MAX_MS, value, length);
    }
}

/// Sends all of `bytes` before `until`.
pub fn send_all(fd: &OwnedFd, mut bytes: &[u8], until: Instant) -> std::result::Result<(), Stopped> {
    while !bytes.is_empty() {
        match net::send(fd, bytes, SendFlags::NOSIGNAL) {
            Ok(n) => bytes = &bytes[n..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => wait(fd, PollFlags::OUT, until)?,
            Err(Errno::PIPE | Errno::CONNRESET) => return Err(Stopped::Closed),
            Err(e) => return Err(Stopped::System(e)),
        }
    }
    Ok(())
}

/// Fills `into` before `until`.
pub fn receive_exact(fd: &OwnedFd, mut into: &mut [u8], until: Instant) -> std::result::Result<(), Stopped> {
    while !into.is_empty() {
        match net::recv(fd, &mut *into, RecvFlags::empty()) {
            Ok((0, _)) | Err(Errno::CONNRESET) => return Err(Stopped::Closed),
            Ok((n, _)) => into = &mut into[n..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => wait(fd, PollFlags::IN, until)?,
            Err(e) => return Err(Stopped::System(e)),
        }
    }
    Ok(())
}

/// Waits until there is room to write, or a connection that was begun has come to something; Late at `until`.
pub fn wait_writable(fd: &OwnedFd, until: Instant) -> std::result::Result<(), Stopped> {
    wait(fd, PollFlags::OUT, until)
}

/// Waits until there is something to read, or the end; Late at `until`.
pub fn wait_readable(fd: &OwnedFd, until: Instant) -> std::result::Result<(), Stopped> {
    wait(fd, PollFlags::IN, until)
}

fn wait(fd: &OwnedFd, what: PollFlags, until: Instant) -> std::result::Result<(), Stopped> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(Stopped::Late);
    }
    let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
    match poll(fd.as_fd(), what, Some(&left)) {
        Ok(false) => Err(Stopped::Late),
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(e) => Err(Stopped::System(e)),
    }
}

/// The error of a system call that the bootstrap cannot do without.
pub(super) fn system(what: &str, e: impl std::fmt::Display) -> Error {
    let pid = std::process::id();
    Error::new(
        Code::SystemError,
        24,
        format!("{what} | pid {pid} | {e} | fix: raise the limits of descriptors (ulimit -n) and processes (ulimit -u)"),
    )
}

/// Shorthand for results.
pub(super) fn or_system<T>(what: &str, result: std::result::Result<T, impl std::fmt::Display>) -> Result<T> {
    result.map_err(|e| system(what, e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hang_limit::hang_deadline;

    #[test]
    fn records_carry_addresses_and_refuse_other_kinds() {
        for address in [Address::None, Address::Abstract([7; 16])] {
            assert_eq!(Address::from_bytes(&address.to_bytes()).unwrap(), address);
        }
        assert_eq!(Address::from_bytes(&[9; 32]).unwrap_err().id, 18);
    }

    #[test]
    fn steps_end_at_their_deadline_and_at_the_other_ends_close() {
        let address = Address::Abstract(crate::process::random().unwrap());
        assert!(matches!(address.connect(Instant::now()), Err(Errno::CONNREFUSED)));
        let listener = address.listen().unwrap();
        let client = address.connect(hang_deadline()).unwrap();
        assert_eq!(Credentials::of(&client).unwrap().pid, std::process::id());
        let (mut byte, soon) = ([0], Instant::now() + Duration::from_millis(30));
        assert!(matches!(receive_exact(&client, &mut byte, soon), Err(Stopped::Late)));
        assert!(Instant::now() >= soon);
        drop(net::accept_with(&listener, SocketFlags::CLOEXEC).unwrap());
        let later = hang_deadline();
        assert!(matches!(receive_exact(&client, &mut byte, later), Err(Stopped::Closed)));
        assert!(matches!(send_all(&client, &byte, later), Err(Stopped::Closed)));
    }
}
