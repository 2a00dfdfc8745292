//! TCP sockets of the control plane.
#![forbid(unsafe_code)]

use super::address::{Stopped, set_longest_pause, wait_writable};
use crate::{config, fault};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// How long one address may take to let us in: a wrong one (a firewall, a machine that is off) says nothing at all.
const CONNECT: Duration = Duration::from_secs(3);
/// When the kernel asks an idle peer's machine whether it is there, and how often it asks before the connection counts as gone.
const IDLE: Duration = Duration::from_secs(10);
const AGAIN: Duration = Duration::from_secs(5);
const ASKED: u32 = 3;

fn stream(family: AddressFamily) -> rustix::io::Result<OwnedFd> {
    fault::step("descriptor")?;
    net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)
}

fn family(address: &SocketAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 }
}

/// Listens at `address`, where port 0 means any; the socket, and the address with its port.
pub fn listen(address: SocketAddr) -> rustix::io::Result<(OwnedFd, SocketAddr)> {
    let fd = stream(family(&address))?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&fd, true)?;
    }
    // A port that somebody chose may still be in TIME_WAIT of a communicator before.
    sockopt::set_socket_reuseaddr(&fd, address.port() != 0)?;
    net::bind(&fd, &address)?;
    net::listen(&fd, 4096)?;
    let bound = SocketAddr::try_from(net::getsockname(&fd)?)?;
    Ok((fd, bound))
}

/// Connects to `to`, before `until`.
pub fn connect(to: SocketAddr, until: Instant) -> rustix::io::Result<OwnedFd> {
    let fd = stream(family(&to))?;
    match net::connect(&fd, &to) {
        Ok(()) => {}
        Err(Errno::INPROGRESS | Errno::INTR) => {
            match wait_writable(&fd, until.min(Instant::now() + CONNECT)) {
                Ok(()) => {}
                Err(Stopped::System(e)) => return Err(e),
                Err(_) => return Err(Errno::TIMEDOUT),
            }
            sockopt::socket_error(&fd)??;
        }
        Err(e) => return Err(e),
    }
    prepare(&fd)?;
    Ok(fd)
}

/// False where no port is left to connect to `to` from.
pub fn has_port(to: &SocketAddr) -> bool {
    let any: IpAddr = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    stream(family(to)).is_ok_and(|fd| net::bind(&fd, &SocketAddr::new(any, 0)) != Err(Errno::ADDRINUSE))
}

/// `net.ipv4.ip_local_port_range is 32768-60999`, where no port of it is free.
pub fn port_range() -> String {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let range: Vec<&str> = range.split_whitespace().collect();
    format!("net.ipv4.ip_local_port_range is {}", if range.is_empty() { "unknown".into() } else { range.join("-") })
}

/// Who is at the other end.
pub fn peer(fd: impl AsFd) -> Option<SocketAddr> {
    SocketAddr::try_from(net::getpeername(fd).ok()??).ok()
}

/// Which address of this machine it goes by.
pub fn own(fd: impl AsFd) -> Option<IpAddr> {
    SocketAddr::try_from(net::getsockname(fd).ok()?).ok().map(|address| address.ip())
}

/// Frames are small, and somebody waits for each: no Nagle. Keepalive ends the links to a machine that has vanished without a word, in 25 s
/// where the watch has not done so before. No TCP_USER_TIMEOUT: that would also end the link to a process that is stopped for a
/// while and reads nothing, which is no failure. Where the network was cut for 2 s, the kernel's doubled pauses would bring the next beat
/// after 3. None is to be longer than a third of that; kernels before 6.15 only make the first six alike, and only on a connection that
/// has lost something before, with at most three packets under way (`tests/watch_net.rs`).
pub fn prepare(fd: impl AsFd) -> rustix::io::Result<()> {
    let fd = fd.as_fd();
    set_longest_pause(fd, config::seconds("GINRS_HOST_DEADLINE") / 3);
    sockopt::set_tcp_nodelay(fd, true)?;
    sockopt::set_tcp_thin_linear_timeouts(fd, true)?;
    sockopt::set_tcp_keepidle(fd, IDLE)?;
    sockopt::set_tcp_keepintvl(fd, AGAIN)?;
    sockopt::set_tcp_keepcnt(fd, ASKED)?;
    sockopt::set_socket_keepalive(fd, true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hang_limit::hang_deadline;

    #[test]
    fn both_ends_know_each_other_and_a_closed_port_is_told() {
        for host in ["127.0.0.1:0", "[::1]:0"] {
            let Ok((listener, bound)) = listen(host.parse().unwrap()) else {
                println!("skipped: no {host}");
                continue;
            };
            let client = connect(bound, hang_deadline()).unwrap();
            assert_eq!(peer(&client), Some(bound));
            assert!(sockopt::tcp_nodelay(&client).unwrap() && sockopt::socket_keepalive(&client).unwrap());
            drop(listener);
            assert_eq!(connect(bound, hang_deadline()).unwrap_err(), Errno::CONNREFUSED);
        }
    }
}
