//! The sender's end: a socket to one peer, once there is something to send.

use super::dial::Address;
use super::{ABORTED, LEFT, NAME, failed, watch};
use crate::error::{Code, Error, Result};
use crate::transport::{Submitted, wait};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::collections::VecDeque;

/// Number of the error where a peer says what cannot be.
const NONSENSE: u16 = 78;

/// How it stands with the peer.
pub(super) enum State {
    /// Nothing was sent yet, or this rank sends nothing more.
    Idle,
    Open(OwnedFd),
    /// It has left: what is sent counts as landed.
    Left,
    /// It has aborted: nothing is taken until this rank hears of that.
    Aborted,
}

/// What goes to one peer.
pub(super) struct Outgoing {
    pub peer: u32,
    pub address: Address,
    pub state: State,
    /// Messages that have landed, and the transport's numbers of those that may not have.
    landed: u64,
    under_way: VecDeque<u64>,
    /// The socket was full; an event tells when it no longer is.
    full: bool,
}

impl Outgoing {
    pub fn new(peer: u32) -> Self {
        Self { peer, address: Address::default(), state: State::Idle, landed: 0, under_way: VecDeque::new(), full: false }
    }

    /// Messages that are not known to have landed.
    pub fn unlanded(&self) -> u64 {
        self.under_way.len() as u64
    }

    /// The number of the first of them.
    pub fn oldest(&self) -> Option<u64> {
        self.under_way.front().copied()
    }

    /// Nothing more is sent, and nobody asks what became of what was.
    pub fn end(&mut self) {
        self.state = State::Idle;
        self.under_way.clear();
    }

    /// Sends message `number` of rank `rank`, dialling first if it is the first one to this peer.
    pub fn send(&mut self, rank: u32, number: u64, poll: &OwnedFd, message: &[u8]) -> Result<Submitted> {
        if let State::Idle = self.state {
            match self.address.dial(rank) {
                Ok(None) => return Ok(Submitted::Full),
                Ok(Some(socket)) => {
                    watch(poll, &socket, self.peer.into(), EventFlags::IN)?;
                    self.state = State::Open(socket);
                }
                Err(error) => return Err(self.lost(error)),
            }
        }
        let socket = match &self.state {
            State::Open(socket) => socket,
            State::Left => return Ok(Submitted::Done),
            State::Idle | State::Aborted => return Ok(Submitted::Full),
        };
        match send(socket, message, SendFlags::NOSIGNAL) {
            Ok(_) => {
                self.under_way.push_back(number);
                Ok(Submitted::Done)
            }
            Err(Errno::AGAIN | Errno::NOBUFS | Errno::INTR) => {
                self.expect_room(poll, true)?;
                Ok(Submitted::Full)
            }
            // It may have said why before it went.
            Err(error) => match self.hear(poll) {
                Ok(_) if matches!(self.state, State::Left | State::Aborted) => self.send(rank, number, poll, message),
                Ok(_) => Err(self.lost(error)),
                Err(error) => Err(error),
            },
        }
    }

    /// Whether an event is to tell of room in the socket, too.
    fn expect_room(&mut self, poll: &OwnedFd, full: bool) -> Result<()> {
        if let State::Open(socket) = &self.state
            && full != self.full
        {
            let flags = if full { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN };
            epoll::modify(poll, socket, EventData::new_u64(self.peer.into()), flags).map_err(|error| failed("epoll", error))?;
            self.full = full;
        }
        Ok(())
    }

    /// What the peer says of what has landed.
    pub fn hear(&mut self, poll: &OwnedFd) -> Result<bool> {
        let (mut moved, mut reset) = (self.full, false);
        self.expect_room(poll, false)?;
        while let State::Open(socket) = &self.state {
            let mut word = [0; 8];
            match recv(socket, &mut word[..], RecvFlags::empty()) {
                Err(Errno::AGAIN | Errno::INTR) => break,
                Ok((8, 8)) => self.heard(u64::from_le_bytes(word))?,
                // It went with messages unread: what it said before is still here.
                Err(Errno::CONNRESET) if !reset => {
                    reset = true;
                    continue;
                }
                Ok(_) => return Err(self.lost(Errno::CONNRESET)),
                Err(error) => return Err(self.lost(error)),
            }
            moved = true;
        }
        Ok(moved)
    }

    fn heard(&mut self, word: u64) -> Result<()> {
        match word {
            LEFT => {
                self.end();
                self.state = State::Left;
            }
            ABORTED => self.state = State::Aborted,
            landed => {
                let more = wait::more_landed(NAME, NONSENSE, self.peer, landed, self.landed, self.unlanded())?;
                self.under_way.drain(..more as usize);
                self.landed = landed;
            }
        }
        Ok(())
    }

    #[cold]
    fn lost(&self, error: Errno) -> Error {
        let text = format!("a peer is gone | {NAME}, rank {} | {error} | fix: see why that rank ended", self.peer);
        Error::new(Code::RemoteError, 88, text).by(self.peer)
    }
}
