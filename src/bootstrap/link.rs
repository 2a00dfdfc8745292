//! A connection whose both ends have proved themselves. Sending never blocks: what the socket does not take waits here, and
//! the service thread sends it on. So no two processes can block each other, and an abort can always be told.
#![forbid(unsafe_code)]

use super::address::{Peer, unacknowledged};
use super::auth::Seal;
use super::sealed;
use super::wire::{Frame, MAX_FRAME};
use crate::process::ServiceFd;
use crate::sync::Mutex;
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    Shutdown, recvmsg, sendmsg, shutdown,
};
use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Bytes on their way out. A descriptor goes with the first byte of its frame and never shares a send with another frame.
struct Out {
    bytes: Arc<[u8]>,
    sent: usize,
    fd: Option<Arc<OwnedFd>>,
}

#[derive(Default)]
struct Sending {
    queue: VecDeque<Out>,
    /// Epoll and this link's token in it, once the service thread has it.
    watched: Option<(BorrowedFd<'static>, u64)>,
    waits_for_room: bool,
    /// Number of the last sealed message.
    number: u64,
    finishing: bool,
    dead: bool,
}

/// One authenticated connection.
pub struct Link {
    socket: ServiceFd,
    peer: Peer,
    /// Between machines.
    seal: Option<Arc<Seal>>,
    sending: Mutex<Sending>,
}

impl Link {
    /// Takes over a connected, non-blocking socket.
    pub fn new(socket: ServiceFd, peer: Peer, seal: Option<Seal>) -> Arc<Self> {
        Arc::new(Self { socket, peer, seal: seal.map(Arc::new), sending: Mutex::default() })
    }

    /// The process at the other end.
    pub fn peer(&self) -> Peer {
        self.peer
    }

    /// What cuts the bytes that arrive here into frames.
    pub fn reader(&self) -> FrameReader {
        FrameReader { opener: self.seal.clone().map(sealed::Opener::new), ..FrameReader::default() }
    }

    /// The socket.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Queues a frame. False when the connection is gone.
    pub fn send(&self, frame: &Frame) -> bool {
        self.send_bytes(frame.encode().into(), None)
    }

    /// Queues an encoded frame, with a descriptor if one belongs to it.
    pub fn send_bytes(&self, bytes: Arc<[u8]>, fd: Option<Arc<OwnedFd>>) -> bool {
        let mut sending = self.sending.lock();
        if sending.dead || sending.finishing {
            return false;
        }
        // Descriptors pass within a machine only.
        let (bytes, fd) = match &self.seal {
            Some(seal) => (sealed::seal(seal, &mut sending.number, &bytes).into(), None),
            None => (bytes, fd),
        };
        sending.queue.push_back(Out { bytes, sent: 0, fd });
        self.flush(&mut sending);
        !sending.dead
    }

    /// Bytes that the machine at the other end may still be without, and with the end of this process would stay so: TCP drops what is under
    /// way where a socket closes before it has read all.
    pub fn under_way(&self) -> usize {
        let sending = self.sending.lock();
        if self.seal.is_none() || sending.dead {
            return 0;
        }
        sending.queue.iter().map(|out| out.bytes.len() - out.sent).sum::<usize>() + unacknowledged(self.as_fd())
    }

    /// Sends what is queued and closes then. The other end sees the close after everything else.
    pub fn finish(&self) {
        let mut sending = self.sending.lock();
        sending.finishing = true;
        self.flush(&mut sending);
    }

    /// Nobody sends on what is queued: the service thread has let go of the connection.
    pub fn closed(&self) {
        let mut sending = self.sending.lock();
        sending.dead = true;
        sending.queue.clear();
    }

    /// The service thread has put the socket into its epoll under `token`, for reading and writing.
    pub fn watched(&self, epoll: BorrowedFd<'static>, token: u64) {
        let mut sending = self.sending.lock();
        sending.watched = Some((epoll, token));
        sending.waits_for_room = true;
        self.flush(&mut sending);
    }

    /// The socket has room again.
    pub fn writable(&self) {
        self.flush(&mut self.sending.lock());
    }

    fn flush(&self, sending: &mut Sending) {
        while let Some(out) = sending.queue.front_mut() {
            match send_some(self.as_fd(), out) {
                Ok(n) => {
                    out.sent += n;
                    out.fd = None;
                    if out.sent == out.bytes.len() {
                        sending.queue.pop_front();
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => {
                    sending.dead = true;
                    sending.queue.clear();
                }
            }
        }
        if sending.queue.is_empty() && sending.finishing && !sending.dead {
            sending.dead = true;
            // What was sent still arrives; our reading end closes too, so the service thread lets go of the link.
            let _ = shutdown(self.as_fd(), Shutdown::Both);
        }
        let wants_room = !sending.queue.is_empty();
        if let Some((epoll, token)) = sending.watched
            && wants_room != sending.waits_for_room
        {
            sending.waits_for_room = wants_room;
            let what = if wants_room { epoll::EventFlags::IN | epoll::EventFlags::OUT } else { epoll::EventFlags::IN };
            let _ = epoll::modify(epoll, self.as_fd(), epoll::EventData::new_u64(token), what);
        }
    }
}

fn send_some(socket: BorrowedFd<'_>, out: &Out) -> rustix::io::Result<usize> {
    let rest = [IoSlice::new(&out.bytes[out.sent..])];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds = out.fd.as_ref().map(|fd| [fd.as_fd()]);
    if let Some(fds) = &fds {
        control.push(SendAncillaryMessage::ScmRights(fds));
    }
    sendmsg(socket, &rest, &mut control, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)
}

/// Descriptors that came in and were not asked for yet; more than this is an attack.
const MAX_FDS: usize = 256;

/// Cuts what arrives into frames.
#[derive(Default)]
pub struct FrameReader {
    opener: Option<sealed::Opener>,
    bytes: Vec<u8>,
    /// None for one that this process had no room for.
    fds: VecDeque<Option<OwnedFd>>,
}

/// How a read ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Ended {
    /// Nothing more for now.
    Drained,
    /// The other end closed, or the kernel gave up with that error.
    Closed(Option<Errno>),
    /// What came is no frame; the connection must go.
    Malformed,
}

impl FrameReader {
    /// Reads what is there and gives whole frames, each with its descriptor, to `take`. `most` bounds a frame, in bytes.
    pub fn read(&mut self, socket: BorrowedFd<'_>, most: usize, mut take: impl FnMut(Frame, Option<OwnedFd>)) -> Ended {
        let mut buffer = vec![0; 64 << 10];
        // A sender that never stops must not keep the service thread from the others: it comes back to this socket later.
        for _ in 0..16 {
            match self.receive(socket, &mut buffer) {
                Ok(0) => return Ended::Closed(None),
                Ok(n) => match &mut self.opener {
                    None => self.bytes.extend_from_slice(&buffer[..n]),
                    Some(opener) => {
                        if !opener.open(&buffer[..n], &mut self.bytes) {
                            return Ended::Malformed;
                        }
                    }
                },
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => return Ended::Drained,
                Err(Errno::PROTO) => return Ended::Malformed,
                Err(e) => return Ended::Closed(Some(e)),
            }
            if self.cut(most, &mut take).is_err() {
                return Ended::Malformed;
            }
        }
        Ended::Drained
    }

    fn receive(&mut self, socket: BorrowedFd<'_>, buffer: &mut [u8]) -> rustix::io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let got = recvmsg(socket, &mut [IoSliceMut::new(buffer)], &mut control, flags)?;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = message {
                self.fds.extend(fds.map(Some));
            }
        }
        // One comes with each message, and the kernel drops it where the limit of open files is reached.
        if got.flags.contains(ReturnFlags::CTRUNC) {
            self.fds.push_back(None);
        }
        if self.fds.len() > MAX_FDS {
            return Err(Errno::PROTO);
        }
        Ok(got.bytes)
    }

    fn cut(&mut self, most: usize, take: &mut impl FnMut(Frame, Option<OwnedFd>)) -> Result<(), super::wire::Malformed> {
        let mut at = 0;
        while let Some(head) = self.bytes[at..].first_chunk::<4>() {
            let length = u32::from_le_bytes(*head) as usize;
            if length > most.min(MAX_FRAME) {
                return Err(super::wire::Malformed);
            }
            let Some(body) = self.bytes.get(at + 4..at + 4 + length) else { break };
            let frame = Frame::decode(body)?;
            // Descriptors arrive in the order of their frames, no later than the frame's first byte.
            let fd = match &frame {
                Frame::Handed { found: true, .. } => self.fds.pop_front().ok_or(super::wire::Malformed)?,
                _ => None,
            };
            take(frame, fd);
            at += 4 + length;
        }
        self.bytes.drain(..at);
        if self.bytes.is_empty() && self.bytes.capacity() > 1 << 20 {
            self.bytes = Vec::new();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    fn pair() -> (Arc<Link>, OwnedFd) {
        let (a, b) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None).unwrap();
        (Link::new(ServiceFd::new(a), Peer { pid: 0, from: None }, None), b)
    }

    #[test]
    fn frames_and_descriptors_arrive_in_order_though_the_socket_fills_up() {
        let (link, far) = pair();
        let big = Frame::Poison {
            from: 1,
            quiescent: false,
            cause: crate::error::Error::new(crate::error::Code::RemoteError, 40, "x".repeat(2000)),
        };
        for n in 0..500 {
            assert!(link.send(&big));
            let fd = std::fs::File::open(if n % 2 == 0 { "/dev/null" } else { "/dev/zero" }).unwrap();
            assert!(link.send_bytes(Frame::Handed { ticket: n, found: true }.encode().into(), Some(Arc::new(fd.into()))));
        }
        link.finish();
        assert!(!link.send(&big));
        let (mut reader, mut next) = (FrameReader::default(), 0);
        loop {
            let ended = reader.read(far.as_fd(), MAX_FRAME, |frame, fd| match frame {
                Frame::Handed { ticket, .. } => {
                    let fd = fd.unwrap();
                    let path = std::fs::read_link(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&fd))).unwrap();
                    assert_eq!((ticket, path.to_str().unwrap()), (next, if next % 2 == 0 { "/dev/null" } else { "/dev/zero" }));
                    next += 1;
                }
                other => assert!(fd.is_none() && other == big),
            });
            match ended {
                Ended::Drained => link.writable(),
                other => break assert_eq!(other, Ended::Closed(None)),
            }
        }
        assert_eq!(next, 500);
    }

    #[test]
    fn a_huge_length_and_a_missing_descriptor_end_the_connection() {
        let (link, far) = pair();
        link.send_bytes(u32::MAX.to_le_bytes().to_vec().into(), None);
        assert_eq!(FrameReader::default().read(far.as_fd(), MAX_FRAME, |_, _| {}), Ended::Malformed);
        let (link, far) = pair();
        link.send(&Frame::Handed { ticket: 1, found: true });
        assert_eq!(FrameReader::default().read(far.as_fd(), MAX_FRAME, |_, _| {}), Ended::Malformed);
    }
}
