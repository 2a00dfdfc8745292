//! What ranks have called of a communicator: collectives in their order, messages of each pair in theirs. Equal numbers belong together on all
//! ranks. So a rank that leaves, and says how far it has come, can be told from what the others have under way: what it never called
//! waits for it without end, however long it takes; what it did call may still be on its way.
#![forbid(unsafe_code)]

use crate::bootstrap::CALLED;
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

    /// What it has called, in at most [`CALLED`] bytes.
    pub fn said(&self) -> String {
        self.0.lock().called.encode(CALLED)
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
    /// In at most `room` bytes. Behind all stands a dot.
    fn encode(&self, room: usize) -> String {
        let mut text = format!("{}\n", self.collectives);
        let is_whole = self.messages.iter().all(|(peer, (sent, received))| {
            let line = format!("{peer} {sent} {received}\n");
            let fits = text.len() + line.len() < room;
            text.push_str(if fits { &line } else { "" });
            fits
        });
        text + if is_whole && !self.uncounted { "." } else { "+" }
    }

    /// What [`Self::encode`] made; of anything else nothing is known.
    pub(super) fn decode(text: &str) -> Self {
        let numbers = |line: &str| line.split(' ').map(|word| word.parse().ok()).collect::<Option<Vec<u64>>>();
        let decode = || {
            let (first, more) = text.strip_suffix('.')?.split_once('\n')?;
            let message = |line: &str| match numbers(line)?[..] {
                [peer, sent, received] => Some((u32::try_from(peer).ok()?, (sent, received))),
                _ => None,
            };
            let messages = more.lines().map(message).collect::<Option<_>>()?;
            Some(Called { collectives: first.parse().ok()?, messages, uncounted: false })
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
    fn what_is_said_is_whole_or_unknown() {
        let calls = called(7, &[(4, true), (4, false), (9, true)]);
        let said = calls.said();
        assert_eq!(Called::decode(&said), calls.0.lock().called);
        (0..said.len()).for_each(|cut| assert!(Called::decode(&said[..cut]).uncounted, "{cut}"));
        assert!(Called::decode("7\n4 1\n.").uncounted && Called::decode("7\n4 1 2 3\n.").uncounted);
        (0..200).for_each(|peer| _ = calls.messages(false, [(peer, true)].into_iter()));
        assert!(calls.said().len() <= CALLED && Called::decode(&calls.said()).uncounted);
    }
}
