//! All links of a rank: dials and lets in, hands what comes to the link that it is for, sends what has gathered.
#![forbid(unsafe_code)]

use super::dial::Astray;
use super::door::Door;
use super::incoming::Incoming;
use super::memory::Memories;
use super::net::{Ended, Net};
use super::outgoing::{Outgoing, State};
use super::parting::{self, Parting};
use super::post::{Post, Posted};
use super::provider::{self, Info};
use super::retired::Retired;
use super::room::Room;
use super::sockets::Sockets;
use super::staging::{self, Copies, Landed};
use super::stalls::Stalls;
use super::wire::{self, LEFT, MESSAGE, NUMBER};
use super::{NAME, PIECE, STREAMS};
use crate::config;
use crate::device::CopyQueue;
use crate::error::{Code, Error, Result};
use crate::transport::factory::{HasLeft, Setup};
use crate::transport::{Completion, Words};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fd::OwnedFd;
use std::cell::Cell;
use std::mem::MaybeUninit;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// One connection; its place in the list is its number, and never another's.
pub(super) enum Link {
    To(Box<Outgoing>),
    From(Incoming),
    Ended,
}

/// Puts by libfabric.
pub struct Ofi {
    pub(super) rank: u32,
    pub(super) secret: [u8; 32],
    pub(super) has_left: HasLeft,
    /// By rank: whether this rank sends to it this way.
    pub(super) serves: Vec<bool>,
    /// What all ranks said: where they listen. One copy for the ranks of a process.
    pub(super) said: Arc<Vec<Words>>,
    /// By rank and stream: one more than the link's number; 0: none yet.
    pub(super) dialled: Vec<[u32; STREAMS as usize]>,
    /// By rank: the place of it that has served a link.
    pub(super) served_at: Vec<u8>,
    // Endpoints go before memory that they use.
    pub(super) links: Vec<Link>,
    pub(super) door: Option<Door>,
    pub(super) memories: Memories,
    pub(super) retired: Retired,
    pub(super) post: Post,
    pub(super) room: Room,
    /// Links with a batch.
    pub(super) batches: Vec<u32>,
    /// Links whose sender has not been told all, and when all were told last.
    pub(super) owing: Vec<u32>,
    pub(super) told: Instant,
    /// All hubs of a rank's streams have one.
    pub(super) poll: Arc<OwnedFd>,
    pub(super) sockets: Sockets,
    pub(super) stalls: Stalls,
    /// Links that have not been answered, and since when; a peer has `answer` to do that.
    pub(super) dialing: Vec<(u32, Instant)>,
    pub(super) answer: Duration,
    /// Peers that there was no way to, and for how long there may be none.
    pub(super) astray: Vec<Astray>,
    pub(super) gap: Duration,
    /// Links whose peer may have left, and for how long that may remain to be seen.
    pub(super) parting: Vec<Parting>,
    pub(super) tidings: Duration,
    /// Pieces so far.
    pub(super) taken: u64,
    /// Large puts so far that have gone from here, or come.
    pub(super) large: u64,
    /// Looks in vain in a row, and all looks.
    pub(super) idle: u32,
    pub(super) looks: u32,
    /// Somebody has asked what has landed, and not all had.
    pub(super) asked: Cell<bool>,
    pub(super) scratch: Vec<Ended>,
    /// Completions that came while it was armed, and what went wrong.
    pub(super) late: Vec<Completion>,
    pub(super) failed: Option<Error>,
    /// Most bytes of a piece.
    pub(super) piece: u64,
    /// On a GPU, links with messages that wait for room among the copies, and what has landed.
    pub(super) reading: Vec<u32>,
    pub(super) landed: Vec<Landed>,
    pub(super) stopped: bool,
}

/// What makes queues of copies.
pub(super) type Queue<'a> = &'a dyn Fn() -> Result<Box<dyn CopyQueue>>;

impl Ofi {
    /// `queue` makes queues of copies, where the CPU does not reach what is put.
    pub(super) fn new(setup: &Setup<'_>, queue: Option<Queue<'_>>) -> Result<(Self, Vec<u8>)> {
        Self::over(chosen(setup.address)?, setup, queue)
    }

    pub(super) fn over(info: Info, setup: &Setup<'_>, queue: Option<Queue<'_>>) -> Result<(Self, Vec<u8>)> {
        Self::open(info, setup, queue, (None, &Arc::new(poll()?)))
    }

    /// For one stream alone, or for all. What wakes it is added to `poll`.
    pub(super) fn open(
        info: Info,
        setup: &Setup<'_>,
        queue: Option<Queue<'_>>,
        (stream, poll): (Option<u32>, &Arc<OwnedFd>),
    ) -> Result<(Self, Vec<u8>)> {
        let copies = queue.map(Copies::new).transpose()?;
        let staged = queue.map(|_| staging::piece(setup.serves.len()));
        let message = staged.map_or(MESSAGE, |piece| NUMBER + wire::room(piece as usize));
        let room = Room::of(&info.traits(), staged.is_some());
        let senders = (setup.senders)(setup.rank);
        let served = setup.serves.iter().filter(|serves| **serves).count();
        let net = Net::open(info, message, room.queue, room.completions(served + senders.len()))?;
        for descriptor in net.descriptors()? {
            // 1.17's stay readable once they were: what counts is what has come since `arm`.
            epoll::add(&**poll, descriptor, EventData::new_u64(0), EventFlags::IN | EventFlags::ET).map_err(failed)?;
        }
        let (door, at) = Door::open(&net, senders, &setup.others)?;
        let sockets = Sockets::new(&net.traits, &at);
        let piece = match staged {
            Some(piece) => piece,
            None if net.traits.writes => PIECE.min(net.traits.most),
            None => wire::ALL,
        };
        let words = door.words(&at);
        let mut post = Post::new(net, setup.device, message, copies);
        if staged.is_some() {
            post.reserve(STREAMS as usize * served, room.words as usize)?;
        }
        let ofi = Self {
            rank: setup.rank,
            secret: setup.secret,
            has_left: setup.has_left.clone(),
            serves: setup.serves.clone(),
            said: Arc::default(),
            dialled: vec![[0; _]; setup.serves.len()],
            served_at: vec![0; setup.serves.len()],
            links: Vec::new(),
            door: Some(door),
            memories: Memories::new(staged.is_some(), stream),
            retired: Retired::default(),
            post,
            room,
            batches: Vec::new(),
            owing: Vec::new(),
            told: Instant::now(),
            poll: poll.clone(),
            sockets,
            stalls: Stalls::new(),
            dialing: Vec::new(),
            answer: config::seconds("GINRS_TIMEOUT"),
            astray: Vec::new(),
            gap: config::seconds("GINRS_HOST_DEADLINE"),
            parting: Vec::new(),
            tidings: parting::TIDINGS,
            taken: 0,
            large: 0,
            idle: 0,
            looks: 0,
            asked: Cell::new(false),
            scratch: Vec::new(),
            late: Vec::new(),
            failed: None,
            piece,
            reading: Vec::new(),
            landed: Vec::new(),
            stopped: false,
        };
        Ok((ofi, words))
    }

    /// Takes what has ended off the queue; true if there was any.
    pub(super) fn completions(&mut self, done: &mut Vec<Completion>) -> Result<bool> {
        let mut ended = std::mem::take(&mut self.scratch);
        let read = self.post.net.completions(|entry| ended.push(entry));
        let handled = ended.drain(..).try_for_each(|entry| self.ended(entry, done));
        self.scratch = ended;
        handled?;
        Ok(read? > 0)
    }

    fn ended(&mut self, entry: Ended, done: &mut Vec<Completion>) -> Result<()> {
        let Some(posted) = Posted::of(entry.cookie) else { return Ok(()) };
        if let Some(error) = entry.error {
            let link = match posted {
                Posted::Theirs => None,
                Posted::SentMessage(place) | Posted::CameMessage(place) => self.post.messages.link(place),
                Posted::SentWord(place) | Posted::SentLastWord(place) | Posted::CameWord(place) => self.post.word_link(place),
                Posted::Wrote(at) => self.post.writer(at),
            };
            let why = self.post.net.explain_failure(error);
            return link.map_or(Ok(()), |link| self.broke(link, why));
        }
        match posted {
            Posted::Theirs => {
                let data = entry.data.unwrap_or(0);
                self.large += 1;
                self.landed(wire::link_of(data), |from, _, memories| from.written(memories, data))
            }
            Posted::CameMessage(place) if self.is_staged() => {
                self.came(place, entry.bytes);
                Ok(())
            }
            Posted::CameMessage(place) => {
                let link = self.post.messages.link(place).unwrap_or(u32::MAX);
                self.landed(link, |from, post, memories| {
                    match entry.data {
                        Some(data) => from.written(memories, data)?,
                        None => {
                            let message = post.messages.bytes(place);
                            let bytes = entry.bytes.min(message.len());
                            from.land(memories, &message[..bytes])?;
                        }
                    }
                    post.expect_message_in(&from.endpoint, place)
                })
            }
            Posted::CameWord(place) => self.came_word(place, done),
            Posted::SentMessage(place) => {
                self.post.messages.give(place);
                Ok(())
            }
            Posted::SentWord(place) => {
                self.post.word_sent(place);
                Ok(())
            }
            Posted::SentLastWord(place) => {
                self.last_word_sent(place);
                Ok(())
            }
            Posted::Wrote(at) => {
                self.large += 1;
                done.extend(self.post.wrote(at).map(|write| (write.tag, Ok(()))));
                Ok(())
            }
        }
    }

    /// A word has come to a sender. It may be here before the event that there is a connection, by which it is known whose it is.
    pub(super) fn came_word(&mut self, place: u32, done: &mut Vec<Completion>) -> Result<()> {
        let Some(Link::To(to)) = self.post.word_link(place).and_then(|link| self.links.get_mut(link as usize)) else {
            return Ok(());
        };
        if matches!(to.state, State::Dialing(_)) {
            to.early.push(place);
            return Ok(());
        }
        let word = self.post.word(place);
        if let State::Open(endpoint) = &to.state {
            self.post.expect_word_in(endpoint, place)?;
        }
        to.heard(&mut self.post, word)?;
        if word == wire::ASKED {
            to.answer(&mut self.post, self.taken)?;
            if to.has_batch() && !self.batches.contains(&to.link) {
                self.batches.push(to.link);
            }
        }
        if word == LEFT {
            // Nobody reads their sources any more.
            done.extend(self.post.forget(to.link).into_iter().map(|write| (write.tag, Ok(()))));
        }
        Ok(())
    }

    /// Something has come over `link`; `land` lands it. It says how much has landed now and then.
    pub(super) fn landed(
        &mut self,
        link: u32,
        land: impl FnOnce(&mut Incoming, &mut Post, &Memories) -> Result<()>,
    ) -> Result<()> {
        let half = self.room.window / 2;
        let Some(Link::From(from)) = self.links.get_mut(link as usize) else { return Ok(()) };
        let owed = from.owed();
        land(from, &mut self.post, &self.memories)?;
        if from.owed() >= half || from.prompted {
            from.tell(&mut self.post);
        }
        if owed == 0 {
            self.owing.push(link);
        }
        Ok(())
    }

    /// Asks the peers to tell at once what has landed: somebody waits for it.
    pub(super) fn prompt(&mut self) -> Result<()> {
        let Self { links, post, .. } = self;
        links.iter_mut().try_for_each(|link| match link {
            Link::To(to) => to.prompt(post),
            _ => Ok(()),
        })
    }

    /// Sends what has gathered; true if any went.
    pub(super) fn send(&mut self) -> Result<bool> {
        if self.batches.is_empty() {
            return Ok(false);
        }
        let before = self.batches.len();
        let Self { links, post, batches, .. } = self;
        let mut error = None;
        batches.retain(|&link| match &mut links[link as usize] {
            Link::To(to) if error.is_none() => match to.flush(post) {
                Ok(flushed) => !flushed && to.has_batch(),
                Err(why) => {
                    error = Some(why);
                    false
                }
            },
            _ => false,
        });
        error.map_or(Ok(self.batches.len() < before), Err)
    }

    /// Tells the senders why nothing more is landed, those that have not been told; to how many that may still be on its way.
    pub(super) fn end(&mut self, word: u64) -> usize {
        let Self { links, post, .. } = self;
        let senders = links.iter_mut().filter_map(|link| if let Link::From(from) = link { Some(from) } else { None });
        senders.filter_map(|from| (!from.end(post, word)).then_some(())).count()
    }

    fn last_word_sent(&mut self, place: u32) {
        self.post.word_sent(place);
        if let Some(Link::From(from)) = self.post.word_link(place).and_then(|link| self.links.get_mut(link as usize)) {
            from.last_word_sent();
        }
    }

    /// Sees last words go, and drops what comes.
    pub(super) fn words_only(&mut self) -> Result<()> {
        let mut ended = Vec::new();
        self.post.net.completions(|entry| ended.push(entry.cookie))?;
        for posted in ended.into_iter().filter_map(Posted::of) {
            if let Posted::SentLastWord(place) = posted {
                self.last_word_sent(place);
            }
        }
        Ok(())
    }

    /// Nothing comes or goes from here on, and no memory is open to peers.
    /// Copies that have been started are waited for until `deadline`.
    pub(super) fn stop(&mut self, deadline: Instant) {
        self.stopped = true;
        self.door = None;
        self.links.clear();
        if let Some(copies) = &mut self.post.copies {
            copies.abandon(deadline);
        }
        self.reading.clear();
        self.landed.clear();
        self.batches.clear();
        self.dialing.clear();
        self.astray.clear();
        self.parting.clear();
        self.owing.clear();
        self.late.clear();
        self.post.net.shut();
        self.memories.clear();
        self.retired.clear();
    }
}

/// The provider for `address`.
pub(super) fn chosen(address: IpAddr) -> Result<Info> {
    provider::choose(address).map_err(|why| {
        let fix = "install libfabric1, or see the reasons; GINRS_OFI_PROVIDER names a provider";
        Error::new(Code::SystemError, 120, format!("no network transport | {NAME} | {why} | fix: {fix}"))
    })
}

/// What wakes the sleeper.
pub(super) fn poll() -> Result<OwnedFd> {
    epoll::create(epoll::CreateFlags::CLOEXEC).map_err(failed)
}

/// Forgets what has woken the sleeper; what came before that has to be looked for behind it.
pub(super) fn forget_wakeups(poll: &OwnedFd) {
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut woken = [const { MaybeUninit::uninit() }; 2 * STREAMS as usize];
    let _ = epoll::wait(poll, &mut woken[..], Some(&now));
}

#[cold]
fn failed(error: rustix::io::Errno) -> Error {
    let text = format!("the network cannot wake anybody | {NAME}, epoll | {error} | fix: raise `ulimit -n`");
    Error::new(Code::SystemError, 121, text)
}
