//! What was sent over a link's socket and nobody acknowledges, while the machine is heard of all the same: an MTU that differs along the
//! way loses large packets, a firewall forgets a connection, or drops those who ask for one. TCP itself tries again for a quarter of an hour, and asks for
//! two minutes. About once a second the kernel is asked of links with something under way, and of no others.

use super::hub::{Link, Ofi};
use super::outgoing::State;
use super::search::Outcome;
use super::sockets::{At, Sockets, decode};
use super::{NAME, address_of};
use crate::error::{Code, Error, Result};
use crate::transport::Words;
use crate::{config, warn};
use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::net::getpeername;
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

/// Between two looks.
const PERIOD: Duration = Duration::from_secs(1);
/// So many tries in a row without an answer are worth a line: 3 s, where the kernel begins with a pause of 0.2 s and doubles it.
const WORTH_A_LINE: u8 = 4;
/// Of one that asks for a connection, with another place to ask, so many are enough: 2 or 3 s.
const ENOUGH: u8 = 2;
/// And so many, for so long, end the link: 12.6 s. Of a network that loses a tenth of all packets both ways, 1 in 20,000 pauses comes so far.
const MOST: u8 = 6;
const LEAST: Duration = Duration::from_secs(10);
/// An answer takes so long at least before it is missed.
const ANSWER: Duration = Duration::from_millis(200);

/// What the kernel says of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Figures {
    stands: bool,
    /// For a connection that the peer's machine has not made yet. What its process says to one that stands has a deadline of its own.
    asks: bool,
    /// Segments.
    unacked: u32,
    /// Pauses in a row that have ended without progress.
    tries: u8,
    /// Since something was sent.
    sent: Duration,
    /// Segments without data that have come so far: a peer answers each try with one, if only to say what it had before. What comes with data says
    /// nothing: where large packets are lost one way alone, what the peer asks for arrives all the while.
    answers: u32,
    /// There and back.
    round_trip: Duration,
    segment: u32,
    packet: u32,
}

/// What a kernel must say: Linux 4.6 does.
const SAID: usize = std::mem::offset_of!(libc::tcp_info, tcpi_data_segs_in) + size_of::<u32>();

impl Figures {
    /// None if it is no such socket, or the kernel does not say all of it.
    fn of(socket: BorrowedFd<'_>) -> Option<Self> {
        // SAFETY: all of it may be zero.
        let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
        let mut bytes = size_of::<libc::tcp_info>() as libc::socklen_t;
        let (fd, at) = (socket.as_raw_fd(), (&raw mut info).cast());
        // SAFETY: room for as many bytes as it says, which the call fills in as far as the kernel knows them.
        let result = unsafe { libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, at, &mut bytes) };
        if result != 0 || (bytes as usize) < SAID {
            return None;
        }
        Some(Self {
            asks: info.tcpi_state == SYN_SENT,
            stands: [ESTABLISHED, CLOSE_WAIT].contains(&info.tcpi_state),
            unacked: info.tcpi_unacked,
            tries: info.tcpi_retransmits,
            sent: Duration::from_millis(info.tcpi_last_data_sent.into()),
            answers: info.tcpi_segs_in.wrapping_sub(info.tcpi_data_segs_in),
            round_trip: Duration::from_micros(info.tcpi_rtt.into()),
            segment: info.tcpi_snd_mss,
            packet: info.tcpi_pmtu,
        })
    }

    fn is_settled(&self) -> bool {
        self.unacked == 0
    }

    /// Something is tried again.
    fn is_tried(&self) -> bool {
        (self.stands || self.asks) && self.unacked > 0 && self.tries > 0
    }

    /// The last try should have been answered by now. What asks for a connection counts as nothing sent.
    fn is_late(&self) -> bool {
        self.asks || self.sent > ANSWER.max(2 * self.round_trip)
    }
}

/// As the kernel numbers them.
const ESTABLISHED: u8 = 1;
const SYN_SENT: u8 = 2;
const CLOSE_WAIT: u8 = 8;

/// What has gone on for too long.
enum Stall {
    /// Nothing arrives at this peer.
    Over(u32, String),
    /// The place that is asked does not answer, and there are others.
    Silent(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Fine,
    WorthALine,
    Over,
}

/// `lasts`: since the first try that was not answered; `deadline`: a machine may be away for so long.
fn judge(figures: &Figures, lasts: Duration, deadline: Duration) -> Verdict {
    match figures.tries {
        _ if !figures.is_tried() || !figures.is_late() => Verdict::Fine,
        MOST.. if lasts >= deadline.max(LEAST) => Verdict::Over,
        WORTH_A_LINE.. => Verdict::WorthALine,
        _ => Verdict::Fine,
    }
}

/// See the module.
pub(super) struct Stalls {
    next: Instant,
    /// By link: since when tries are in vain, and the answers until then.
    since: HashMap<u32, (Instant, u32)>,
    /// By link to a sender: how much was said when all of it had been acknowledged.
    settled: HashMap<u32, u64>,
    /// Peers of which there was a line.
    told: HashSet<u32>,
    deadline: Duration,
}

impl Stalls {
    pub fn new() -> Self {
        let deadline = config::seconds("GINRS_HOST_DEADLINE");
        Self { next: Instant::now(), since: HashMap::new(), settled: HashMap::new(), told: HashSet::new(), deadline }
    }
}

impl Ofi {
    /// Looks, if it is time: an error ends the link whose peer it names.
    pub(super) fn look_for_stalls(&mut self) -> Result<()> {
        let now = Instant::now();
        if now < self.stalls.next {
            return Ok(());
        }
        self.stalls.next = now + PERIOD;
        let Self { links, sockets, stalls, said, .. } = self;
        let (mut silent, mut over) = (Vec::new(), None);
        for (link, end) in (0..).zip(links.iter()) {
            match stalls.look((sockets, said), link, end, self.rank, now) {
                Some(Stall::Silent(what)) => silent.push((link, what)),
                Some(Stall::Over(peer, what)) => over = over.or(Some((link, peer, what))),
                None => {}
            }
        }
        silent.into_iter().try_for_each(|(link, what)| self.not_answered(link, Outcome::Silent, what))?;
        let Some((link, peer, what)) = over else { return Ok(()) };
        let stream = match &mut self.links[link as usize] {
            Link::To(to) => {
                to.end(&mut self.post, State::Gone(what.clone()));
                self.post.forget(link);
                format!(", stream {}", to.ends.stream)
            }
            from => {
                *from = Link::Ended;
                String::new()
            }
        };
        let text = format!("the link to a peer has ended | {NAME}, rank {} to rank {peer}{stream} | {what}", self.rank);
        Err(Error::new(Code::RemoteError, 122, text).by(peer))
    }
}

impl Stalls {
    /// The link is asked for anew.
    pub fn forget(&mut self, link: u32) {
        self.since.remove(&link);
    }

    /// Once for each peer.
    pub fn tell(&mut self, own: u32, peer: u32, what: &str) {
        if self.told.insert(peer) {
            warn!("GINRS-W112 nothing that is sent to a peer arrives | {NAME}, rank {own} to rank {peer} | {what}");
        }
    }

    /// What is wrong with the link, if that has gone on for too long.
    fn look(
        &mut self,
        (sockets, listens): (&mut Sockets, &[Words]),
        link: u32,
        end: &Link,
        own: u32,
        now: Instant,
    ) -> Option<Stall> {
        let (peer, stream, said) = match end {
            Link::To(to) if matches!(to.state, State::Dialing(_) | State::Open(_)) => (to.peer, to.ends.stream, None),
            Link::From(from) => (from.from, 0, Some(from.said())),
            _ => {
                sockets.forget(link);
                self.since.remove(&link);
                return None;
            }
        };
        let is_quiet = match end {
            // Somebody wants to send.
            Link::To(to) if matches!(to.state, State::Dialing(_)) => false,
            Link::To(to) => to.unlanded() == 0,
            _ => self.settled.get(&link).copied().unwrap_or(0) == said.unwrap_or(0),
        };
        if is_quiet {
            self.since.remove(&link);
            return None;
        }
        let socket = match sockets.are_shared() {
            true => sockets.of_peer(address_of(listens, peer, stream).ok()?.at())?,
            false => sockets.of_link(link)?,
        };
        let figures = Figures::of(socket)?;
        if let Some(said) = said.filter(|_| figures.is_settled()) {
            self.settled.insert(link, said);
        }
        let lasts = self.in_vain(link, &figures, now)?;
        if let Link::To(to) = end
            && figures.asks
            && to.search.has_others()
        {
            return (figures.tries >= ENOUGH).then(|| Stall::Silent(asked(&figures, lasts)));
        }
        let verdict = judge(&figures, lasts, self.deadline);
        if verdict == Verdict::Fine {
            return None;
        }
        let to = getpeername(socket).ok().flatten().and_then(|to| SocketAddr::try_from(to).ok()).map(|to| to.ip());
        let what = match figures.asks {
            true => unanswered(&figures, lasts, address_of(listens, peer, stream).ok().and_then(|address| decode(address.at()))),
            false => explain(&figures, lasts, to),
        };
        if verdict == Verdict::Over {
            return Some(Stall::Over(peer, what));
        }
        self.tell(own, peer, &what);
        None
    }

    /// How long tries over `link` have been in vain, if they are. A process that is stopped takes nothing when its buffers are full, and its kernel
    /// answers each.
    fn in_vain(&mut self, link: u32, figures: &Figures, now: Instant) -> Option<Duration> {
        if !figures.is_tried() {
            self.since.remove(&link);
            return None;
        }
        let sent = if figures.asks { Duration::ZERO } else { figures.sent };
        let begin = || (now.checked_sub(sent).unwrap_or(now), figures.answers);
        let since = self.since.entry(link).or_insert_with(begin);
        if since.1 != figures.answers {
            *since = (now, figures.answers);
        }
        Some(now - since.0)
    }
}

fn explain(figures: &Figures, lasts: Duration, to: Option<IpAddr>) -> String {
    // What ping counts comes behind the heads of IP and of ICMP.
    let (six, heads) = if to.is_some_and(|to| to.is_ipv6()) { ("-6 ", 48) } else { ("", 28) };
    format!(
        "nothing has been acknowledged for {:.1} s, tried {} times; segments of {} bytes, path MTU {} | fix: see whether the MTU is the same all along the way \
         (`ping {six}-M do -s {} {}`), and whether a firewall drops the connection",
        lasts.as_secs_f64(),
        figures.tries,
        figures.segment,
        figures.packet,
        figures.packet.saturating_sub(heads),
        to.map_or("HOST".into(), |to| to.to_string())
    )
}

fn unanswered(figures: &Figures, lasts: Duration, door: Option<At>) -> String {
    let door = door.map_or("a peer".into(), |(ip, port)| format!("port {port} of {ip}"));
    format!(
        "{door} was {} | fix: let TCP through to all ports that ranks listen at, by \
         any firewall between the machines (docs/user/network.md, Ports); if none is in the way, see there whether the queue of that port is full (`ss -ltn`)",
        asked(figures, lasts)
    )
}

fn asked(figures: &Figures, lasts: Duration) -> String {
    let times = u32::from(figures.tries) + 1;
    format!("asked {times} times for a connection, for {:.0} s, and its machine does not answer", lasts.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// A connection whose kernel has tried so often, by its doubled pauses, and heard nothing.
    fn lost(tries: u8) -> Figures {
        let (round_trip, segment, packet) = (Duration::from_millis(1), 1448, 1500);
        Figures { stands: true, asks: false, unacked: 9, tries, sent: SECOND, answers: 70, round_trip, segment, packet }
    }

    #[test]
    fn what_nobody_acknowledges_is_told_and_then_ends_the_link() {
        use Verdict::*;
        let verdict = |tries, seconds| judge(&lost(tries), seconds * SECOND, 3 * SECOND);
        assert_eq!([verdict(0, 0), verdict(3, 2), verdict(4, 3), verdict(5, 9)], [Fine, Fine, WorthALine, WorthALine]);
        assert_eq!([verdict(6, 9), verdict(6, 12), verdict(15, 900)], [WorthALine, Over, Over]);
        assert_eq!(judge(&lost(7), 25 * SECOND, 60 * SECOND), WorthALine, "a network may be away for as long as is said");
    }

    #[test]
    fn a_peer_that_answers_is_let_alone() {
        let fine = |figures: Figures| assert_eq!(judge(&figures, 99 * SECOND, 3 * SECOND), Verdict::Fine, "{figures:?}");
        // Its answer may be under way.
        fine(Figures { sent: Duration::from_millis(100), ..lost(6) });
        fine(Figures { round_trip: SECOND, ..lost(6) });
        // Probes of a closed window are no segments.
        fine(Figures { unacked: 0, ..lost(6) });
        fine(Figures { stands: false, ..lost(6) });
    }

    #[test]
    fn who_asks_for_a_connection_and_is_not_answered_is_told() {
        let asks = |tries| Figures { stands: false, asks: true, unacked: 1, sent: Duration::ZERO, ..lost(tries) };
        let verdict = |tries, seconds| judge(&asks(tries), seconds * SECOND, 3 * SECOND);
        assert_eq!([verdict(3, 3), verdict(4, 4), verdict(6, 9), verdict(6, 10)].map(|verdict| verdict as u8), [0, 1, 1, 2]);
        // The kernel says of it when anything else was sent, which never was.
        let (mut stalls, now) = (Stalls::new(), Instant::now());
        let long_ago = Figures { sent: 1_000_000 * SECOND, ..asks(2) };
        assert_eq!(stalls.in_vain(0, &long_ago, now), Some(Duration::ZERO));
        assert_eq!(stalls.in_vain(0, &long_ago, now + 3 * SECOND), Some(3 * SECOND));
        let what = unanswered(&asks(6), 10 * SECOND, Some(("10.0.0.2".parse().unwrap(), 4711)));
        assert!(what.starts_with("port 4711 of 10.0.0.2 was asked 7 times for a connection, for 10 s, and"), "{what}");
    }

    #[test]
    fn tries_count_from_the_first_in_vain_and_anew_when_one_is_answered() {
        let (mut stalls, now) = (Stalls::new(), Instant::now());
        let mut lasts = |seconds, figures: Figures| stalls.in_vain(0, &figures, now + seconds * SECOND);
        assert_eq!(lasts(2, lost(3)), Some(SECOND));
        let just_now = Duration::from_millis(20);
        assert_eq!(lasts(4, Figures { sent: just_now, ..lost(4) }), Some(3 * SECOND), "a look right behind a try");
        assert_eq!(lasts(5, lost(4)), Some(4 * SECOND));
        // Stopped, with full buffers: its kernel answers, and that it takes nothing.
        assert_eq!(lasts(6, Figures { answers: 71, ..lost(5) }), Some(Duration::ZERO));
        assert_eq!(lasts(8, Figures { answers: 71, ..lost(5) }), Some(2 * SECOND));
        assert_eq!(lasts(9, Figures { unacked: 0, ..lost(5) }), None, "all has arrived");
        assert_eq!(lasts(11, lost(3)), Some(SECOND));
    }

    #[test]
    fn the_kernel_is_asked_of_a_socket() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let figures = Figures::of(std::os::fd::AsFd::as_fd(&stream)).unwrap();
        assert!(
            figures.stands && figures.is_settled() && figures.segment > 100 && figures.packet > figures.segment,
            "{figures:?}"
        );
        assert_eq!(Figures::of(rustix::stdio::stdin()), None);
    }

    #[test]
    fn the_line_has_what_to_try() {
        let what = |to: &str| explain(&lost(6), 12 * SECOND, to.parse().ok());
        assert!(what("10.0.0.2").contains("for 12.0 s, tried 6 times; segments of 1448 bytes, path MTU 1500 | fix"));
        assert!(
            what("10.0.0.2").contains("`ping -M do -s 1472 10.0.0.2`")
                && what("fd00::2").contains("`ping -6 -M do -s 1452 fd00::2`")
        );
    }
}
