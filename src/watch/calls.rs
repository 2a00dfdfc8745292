//! What ranks have called of a communicator: collectives in their order, messages of each pair in theirs. Equal numbers belong together on all
//! ranks. So a rank that leaves, and says how far it has come, can be told from what the others have under way: what it never called
//! waits for it without end, however long it takes; what it did call may still be on its way.
#![forbid(unsafe_code)]

use crate::bootstrap::CALLED;
use crate::device::cpu::line_at;
use crate::sync::Mutex;
use std::collections::{BTreeMap, VecDeque};

/// Launches that are remembered, the newest ones. Of an older one nothing is proven.
const LAUNCHES: usize = 1024;

/// How far a rank has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Called {
    collectives: u64,
    /// By peer: sent, received.
    messages: BTreeMap<u32, (u64, u64)>,
    /// There are calls beside these: captured ones, or with more peers.
    uncounted: bool,
    /// A call was refused: what others have called may lack its own for that alone.
    refused: bool,
    /// By peer, the last message with bytes that was sent to it.
    last: BTreeMap<u32, Sent>,
}

/// A message that was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Sent {
    /// Of those to its peer.
    number: u64,
    bytes: u64,
    /// Where the program has sent it; empty: not known.
    line: String,
}

/// What one launch is for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Launched {
    /// Which one. All ranks wait for the root; for each other, where there is none.
    Collective(u64, Option<u32>),
    /// How far the messages with each of its peers have come behind it: sent, received; None where it has none.
    Messages(BTreeMap<u32, (Option<u64>, Option<u64>)>),
}

#[derive(Default)]
struct State {
    called: Called,
    /// The number of the newest launch, and the newest ones in their order.
    newest: u64,
    launches: VecDeque<Launched>,
    /// By peer, as [`Called::last`]: number, bytes, and where the program called it.
    last: BTreeMap<u32, (u64, u64, u64)>,
}

/// Of one rank on one communicator: whoever launches counts here.
#[derive(Default)]
pub struct Calls(Mutex<State>);

impl Calls {
    /// So many collectives more are launched, together. Their launch's number; 0 for captured ones, for those may be replayed at any time. `root` is that of all.
    pub fn collectives(&self, captured: bool, calls: u64, root: Option<u32>) -> u64 {
        let mut state = self.0.lock();
        state.called.collectives += calls;
        let launched = Launched::Collective(state.called.collectives, root);
        state.push(captured, launched)
    }

    /// The number of the collective that is launched next; None where there are some that are not counted.
    pub fn next(&self) -> Option<u64> {
        let state = self.0.lock();
        (!state.called.uncounted).then_some(state.called.collectives + 1)
    }

    /// The same of messages, each with its peer, and whether it is sent.
    pub fn messages(&self, captured: bool, all: impl Iterator<Item = (u32, bool)>) -> u64 {
        let mut state = self.0.lock();
        let mut launched = BTreeMap::<_, (Option<u64>, Option<u64>)>::new();
        for (peer, sends) in all {
            let (so_far, here) = (state.called.messages.entry(peer).or_default(), launched.entry(peer).or_default());
            let (so_far, here) = if sends { (&mut so_far.0, &mut here.0) } else { (&mut so_far.1, &mut here.1) };
            *so_far += 1;
            *here = Some(*so_far);
        }
        state.push(captured, Launched::Messages(launched))
    }

    /// These are about to be sent, in the order of their calls: to whom, how many bytes, and where the program calls it. To be told before
    /// [`Self::messages`] of them.
    pub fn sends(&self, all: impl Iterator<Item = (u32, u64, u64)>) {
        let mut state = self.0.lock();
        let mut numbers = BTreeMap::new();
        for (peer, bytes, site) in all {
            let so_far = state.called.messages.get(&peer).map_or(0, |(sent, _)| *sent);
            let number = numbers.entry(peer).or_insert(so_far);
            *number += 1;
            if bytes > 0 {
                state.last.insert(peer, (*number, bytes, site));
            }
        }
    }

    /// A call of this rank was refused, or has failed.
    pub fn refused(&self) {
        self.0.lock().called.refused = true;
    }

    /// What it has called, in at most [`CALLED`] bytes.
    pub fn said(&self) -> String {
        let (mut called, last) = {
            let state = self.0.lock();
            (state.called.clone(), state.last.clone())
        };
        let named = |(peer, (number, bytes, site))| (peer, Sent { number, bytes, line: line_at(site).unwrap_or_default() });
        called.last = last.into_iter().map(named).collect();
        called.encode(CALLED)
    }

    /// What the launch of that number, else the newest one, needs of a rank that has left without having called it, and will not end
    /// without: that rank, and the calls in words. `named`: the rank that the launch is known to wait for; `own`: the one whose it is.
    pub(super) fn lack(
        &self,
        launch: Option<u64>,
        own: u32,
        named: Option<u32>,
        left: &BTreeMap<u32, Called>,
    ) -> Option<(u32, String)> {
        let state = self.0.lock();
        let back = state.newest.checked_sub(launch.unwrap_or(state.newest))? as usize;
        let launched = state.launches.len().checked_sub(back + 1).and_then(|at| state.launches.get(at))?;
        let counts = !state.called.uncounted;
        left.iter().filter(|(_, called)| counts && !called.uncounted).find_map(|(&absent, called)| {
            let named = named.map(|named| named == absent);
            Some((absent, launched.lack(own, absent, named, called)?))
        })
    }
}

impl State {
    fn push(&mut self, captured: bool, launched: Launched) -> u64 {
        if captured {
            self.called.uncounted = true;
            return 0;
        }
        if self.launches.len() == LAUNCHES {
            self.launches.pop_front();
        }
        self.launches.push_back(launched);
        self.newest += 1;
        self.newest
    }
}

impl Launched {
    /// `named`: whether it waits for `absent`, if that is known.
    fn lack(&self, own: u32, absent: u32, named: Option<bool>, called: &Called) -> Option<String> {
        match self {
            Launched::Collective(number, root) => {
                let needs = named.unwrap_or(root.is_none_or(|root| root == absent));
                (needs && *number > called.collectives).then(|| {
                    format!(
                        "that is collective {number} of the communicator, and rank {absent} has called {}",
                        called.collectives
                    )
                })
            }
            Launched::Messages(peers) => {
                let (sent, received) = peers.get(&absent)?;
                let (theirs_sent, theirs_received) = called.messages.get(&own).copied().unwrap_or_default();
                if let Some(number) = received.filter(|&number| number > theirs_sent) {
                    return Some(format!(
                        "that is message {number} from rank {absent} to rank {own}, and it has sent {theirs_sent}"
                    ));
                }
                // A message may be gone before anybody receives it; one that waits is not.
                let waits = named.unwrap_or(peers.len() == 1);
                let number = sent.filter(|&number| waits && number > theirs_received)?;
                Some(format!("that is message {number} from rank {own} to rank {absent}, which has received {theirs_received}"))
            }
        }
    }
}

impl Called {
    /// What rank `to` was sent by rank `from`, whose calls these are, and has left without having received it, as `theirs` are its; where
    /// those that were made are known.
    pub(super) fn unreceived(&self, from: u32, to: u32, theirs: &Called) -> Option<String> {
        let sent = self.last.get(&to)?;
        let received = theirs.messages.get(&from).map_or(0, |(_, received)| *received);
        if self.is_part() || theirs.is_part() || sent.number <= received {
            return None;
        }
        let Sent { number, bytes, line } = sent;
        let called = if line.is_empty() { String::new() } else { format!(" | ncclSend called by host code at {line}") };
        Some(format!(
            "{bytes} bytes that rank {from} has sent to rank {to} were never received | that is message {number} of these two, and rank {to} has \
             received {received}{called}"
        ))
    }

    fn is_part(&self) -> bool {
        self.uncounted || self.refused
    }

    /// In at most `room` bytes. Behind all that is counted stands a dot, and behind that what was sent last, as far as there is room.
    fn encode(&self, room: usize) -> String {
        let mut text = format!("{}\n", self.collectives);
        let mut push = |line: &str| {
            let fits = text.len() + line.len() < room - 1;
            text.push_str(if fits { line } else { "" });
            fits
        };
        let mut messages = self.messages.iter();
        let is_whole = messages.all(|(peer, (sent, received))| push(&format!("{peer} {sent} {received}\n")));
        if self.uncounted || !is_whole {
            return text + "+";
        }
        text.push_str(if self.refused { ".!" } else { "." });
        for (peer, Sent { number, bytes, line }) in self.last.iter().filter(|_| !self.refused) {
            let line = format!("{peer} {number} {bytes} {line}\n");
            text.push_str(if text.len() + line.len() <= room { &line } else { "" });
        }
        text
    }

    /// What [`Self::encode`] made; of anything else nothing is known.
    pub(super) fn decode(text: &str) -> Self {
        let numbers = |line: &str| line.split(' ').map(|word| word.parse().ok()).collect::<Option<Vec<u64>>>();
        let decode = || {
            let (counted, sent) = text.split_once('.')?;
            let (first, more) = counted.split_once('\n')?;
            let last = |line: &str| {
                let mut words = line.splitn(4, ' ');
                let (peer, number, bytes) =
                    (words.next()?.parse().ok()?, words.next()?.parse().ok()?, words.next()?.parse().ok()?);
                Some((peer, Sent { number, bytes, line: words.next()?.to_owned() }))
            };
            let message = |line: &str| match numbers(line)?[..] {
                [peer, sent, received] => Some((u32::try_from(peer).ok()?, (sent, received))),
                _ => None,
            };
            let messages = more.lines().map(message).collect::<Option<_>>()?;
            let (refused, last) = (sent.starts_with('!'), sent.lines().filter_map(last).collect());
            Some(Called { collectives: first.parse().ok()?, messages, uncounted: false, refused, last })
        };
        decode().unwrap_or(Called { uncounted: true, ..Called::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(rank: u32, calls: &Calls) -> BTreeMap<u32, Called> {
        BTreeMap::from([(rank, Called::decode(&calls.said()))])
    }

    fn called(collectives: u32, messages: &[(u32, bool)]) -> Calls {
        let calls = Calls::default();
        (0..collectives).for_each(|_| _ = calls.collectives(false, 1, None));
        messages.iter().for_each(|&message| _ = calls.messages(false, [message].into_iter()));
        calls
    }

    #[test]
    fn what_the_leaver_has_called_is_not_missed() {
        let (here, gone) = (called(3, &[]), left(1, &called(2, &[])));
        for named in [None, Some(1)] {
            assert_eq!(here.lack(Some(2), 0, named, &gone), None);
            let (rank, text) = here.lack(Some(3), 0, named, &gone).unwrap();
            assert_eq!((rank, text.as_str()), (1, "that is collective 3 of the communicator, and rank 1 has called 2"));
        }
        assert_eq!(here.lack(Some(3), 0, Some(2), &gone), None, "it waits for one who is there");
        assert!(here.lack(None, 0, None, &gone).is_some(), "the newest");
        assert_eq!(here.lack(Some(4), 0, None, &gone), None);
        assert_eq!(here.lack(Some(0), 0, None, &gone), None);
        let rooted = here.collectives(false, 1, Some(2));
        assert_eq!(here.lack(Some(rooted), 0, None, &gone), None, "its root may be late");
        assert!(here.lack(Some(rooted), 0, Some(1), &gone).is_some());
    }

    #[test]
    fn messages_count_for_each_pair() {
        let here = called(0, &[(1, false), (2, false), (1, false), (1, true), (1, true)]);
        let gone = left(1, &called(9, &[(0, true), (2, true), (0, false)]));
        let lack = |launch| here.lack(Some(launch), 0, None, &gone).map(|(_, text)| text);
        assert_eq!((lack(1), lack(2), lack(4)), (None, None, None));
        assert_eq!(lack(3).unwrap(), "that is message 2 from rank 1 to rank 0, and it has sent 1");
        assert_eq!(lack(5).unwrap(), "that is message 2 from rank 0 to rank 1, which has received 1");
        let both = here.messages(false, [(2, true), (1, true)].into_iter());
        assert_eq!(lack(both), None, "it may wait for rank 2");
        assert!(here.lack(Some(both), 0, Some(1), &gone).is_some());
    }

    #[test]
    fn captured_calls_and_unknown_ones_prove_nothing() {
        let (here, gone) = (called(3, &[]), called(1, &[]));
        assert_eq!(gone.collectives(true, 1, None), 0);
        assert_eq!(here.lack(Some(3), 0, None, &left(1, &gone)), None);
        assert_eq!(here.lack(Some(3), 0, None, &BTreeMap::from([(1, Called::decode(""))])), None);
        here.collectives(true, 1, None);
        assert_eq!(here.lack(Some(3), 0, None, &left(1, &called(1, &[]))), None);
    }

    #[test]
    fn old_launches_are_forgotten() {
        let here = called(LAUNCHES as u32 + 1, &[]);
        let gone = left(1, &called(0, &[]));
        assert_eq!(here.lack(Some(1), 0, None, &gone), None);
        assert!(here.lack(Some(2), 0, None, &gone).is_some());
    }

    #[test]
    fn a_message_that_its_receiver_has_left_without_is_named() {
        let here = called(0, &[]);
        let send = |sizes: &[u64]| {
            here.sends(sizes.iter().map(|&bytes| (1, bytes, 0)));
            here.messages(false, sizes.iter().map(|_| (1, true)));
        };
        let told = |received: usize| {
            let theirs = Called::decode(&called(0, &vec![(0, false); received]).said());
            Called::decode(&here.said()).unreceived(0, 1, &theirs)
        };
        send(&[0]);
        assert_eq!(told(0), None, "nothing is lost of a message without bytes");
        send(&[7, 9, 0]);
        assert!(told(2).unwrap().starts_with(
            "9 bytes that rank 0 has sent to rank 1 were never received | that is message 3 of these two, and rank 1 has received 2"
        ));
        assert_eq!((told(3), told(4)), (None, None));
        assert_eq!(
            Called::decode("0\n1 1 0\n.1 1 8 a b.cu:7\n").unreceived(0, 1, &Called::default()).unwrap().split(" | ").last(),
            Some("ncclSend called by host code at a b.cu:7")
        );
        let theirs = called(0, &[]);
        theirs.refused();
        assert_eq!(
            Called::decode(&here.said()).unreceived(0, 1, &Called::decode(&theirs.said())),
            None,
            "it would have, perhaps"
        );
        here.refused();
        assert_eq!(told(0), None);
        let theirs = called(0, &[]);
        theirs.messages(true, [(0, false)].into_iter());
        assert_eq!(Called::decode("0\n1 1 0\n.1 1 8 \n").unreceived(0, 1, &Called::decode(&theirs.said())), None, "by a graph");
    }

    #[test]
    fn what_is_said_is_whole_or_unknown() {
        let calls = called(7, &[(4, true), (4, false), (9, true)]);
        let said = calls.said();
        assert_eq!(Called::decode(&said), calls.0.lock().called);
        (0..said.len()).for_each(|cut| assert!(Called::decode(&said[..cut]).uncounted, "{cut}"));
        assert!(Called::decode("7\n4 1\n.").uncounted && Called::decode("7\n4 1 2 3\n.").uncounted);
        calls.sends((0..40).map(|peer| (peer, 8, 0)));
        let said = calls.said();
        let known = Called::decode(&said);
        assert!(
            !known.uncounted && known.last.len() == 40 && known.last[&39] == Sent { number: 1, bytes: 8, line: String::new() }
        );
        (0..200).for_each(|peer| _ = calls.messages(false, [(peer, true)].into_iter()));
        assert!(calls.said().len() <= CALLED && Called::decode(&calls.said()).uncounted);
    }
}
