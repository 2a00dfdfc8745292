//! Sends and receives: those of one communicator in one group wait for each other's call and become one launch (or a few).

use super::Collectives;
use super::one_rank;
use super::rounds::{self, Batch, Message};
use super::work::{P2P_ITEMS, P2pItem, P2pWork};
use super::{Ready, table};
use crate::bail;
use crate::device::{DevPtr, Launch, Span, Stream};
use crate::error::Result;
use crate::info;
use crate::log::timeline;
use crate::team::Team;
use crate::window::Windows;
use zerocopy::IntoBytes;

/// What a group has gathered for one communicator.
#[derive(Default)]
pub struct Messages {
    messages: Vec<Message>,
    /// Each once, in the order of the calls.
    streams: Vec<Stream>,
}

impl Messages {
    /// None yet.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// In the order of their calls.
    pub fn all(&self) -> &[Message] {
        &self.messages
    }

    /// One more, on `stream`.
    pub fn push(&mut self, message: Message, stream: Stream) {
        self.messages.push(message);
        if !self.streams.contains(&stream) {
            self.streams.push(stream);
        }
    }

    /// Launches them all.
    pub fn run(&self, collectives: &Collectives, windows: &Windows) -> Result<()> {
        let team = windows.team();
        team.abort.moved();
        check_self(team, &self.messages)?;
        let ready = collectives.ready(team)?;
        if one_rank::make_messages(ready, team, &self.messages, &self.streams)? {
            return Ok(());
        }
        let batches = rounds::batches(team.rank, team.n_ranks, &self.messages);
        let (mut order, _launching) = collectives.begin(team, ready)?;
        let sends = self.messages.iter().filter(|message| message.sends);
        team.watch.calls().sends(sends.map(|message| (message.peer, message.bytes, message.site)));
        order.together(&self.streams, |stream, captured| {
            batches.iter().try_for_each(|batch| {
                let all = [(&batch.sends, true), (&batch.recvs, false)];
                let all = all.into_iter().flat_map(|(items, sends)| items.iter().map(move |item| (item.peer, sends)));
                let number = team.watch.calls().messages(captured, all);
                launch(team, ready, batch, stream, number, |item| place(ready, windows, team.rank, item, captured))
            })
        })
    }
}

/// Bytes of a message that may go straight to where it is received: a choice, of which 32 MiB and more were measured to gain (docs/results/gpu-pytorch.md).
const STRAIGHT: u32 = 1 << 20;

/// Where the sender's kernels see what this rank receives; 0 where they do not, or it goes by slots.
fn place(ready: &Ready, windows: &Windows, rank: u32, item: &P2pItem, captured: bool) -> DevPtr {
    let Some(maps) = ready.maps.as_ref().filter(|_| item.bytes >= STRAIGHT.into() && item.peer != rank) else { return 0 };
    maps.place(windows, item.at, item.bytes, captured)[item.peer as usize]
}

fn launch(
    team: &Team,
    ready: &Ready,
    batch: &Batch,
    stream: Stream,
    number: u64,
    place: impl Fn(&P2pItem) -> DevPtr,
) -> Result<()> {
    let straight = ready.maps.as_ref().map(|_| STRAIGHT);
    let shape = table::point_to_point(ready.device, &ready.sizes, batch, straight.map(u64::from));
    let mut items = [P2pItem::default(); P2P_ITEMS];
    let recvs = batch.recvs.iter().map(|item| P2pItem { seen: place(item), ..*item });
    for (slot, item) in items.iter_mut().zip(batch.sends.iter().copied().chain(recvs)) {
        *slot = item;
    }
    let work = P2pWork {
        comm: ready.comm,
        inbox: ready.memory.inbox,
        n_sends: batch.sends.len() as u32,
        n_recvs: batch.recvs.len() as u32,
        sets: shape.sets,
        channels: shape.channels,
        narrow: shape.narrow,
        bytes_per_channel: ready.sizes.bytes_per_channel,
        straight: straight.unwrap_or(0),
        // A gather's root: half of its blocks' threads had nothing to do, and slots waited until the others had copied.
        senders_copy: batch.sends.iter().all(|item| item.peer == team.rank).into(),
        items,
    };
    let told = work.items.iter().filter(|item| item.seen != 0).count();
    info!(
        COLL,
        "{} messages: {} sent, {} received, of which {told} wanted where they belong, {:?} blocks of {} threads",
        team.tag(),
        batch.sends.len(),
        batch.recvs.len(),
        shape.blocks,
        shape.threads
    );
    timeline::collective(|| format!("messages: {} sent, {} received", batch.sends.len(), batch.recvs.len()));
    let sides = [(&batch.sends, false), (&batch.recvs, true)];
    let span = |item: &P2pItem, writes| Span { at: item.at, bytes: item.bytes, writes };
    let touches: Vec<Span> =
        sides.into_iter().flat_map(|(items, writes)| items.iter().map(move |item| span(item, writes))).collect();
    ready.kernels.launch(&Launch {
        kernel: c"ginrs_p2p",
        parameter: work.as_bytes(),
        blocks: shape.blocks,
        threads: shape.threads,
        stream,
        call: if batch.recvs.is_empty() {
            "ncclSend"
        } else if batch.sends.is_empty() {
            "ncclRecv"
        } else {
            "ncclSend and ncclRecv"
        },
        number,
        touches: &touches,
    })
}

/// Messages to oneself must match: nobody else could end the wait.
fn check_self(team: &Team, messages: &[Message]) -> Result<()> {
    let of = |sends| messages.iter().filter(move |m| m.peer == team.rank && m.sends == sends).map(|m| m.bytes);
    let (sends, recvs) = (of(true).count(), of(false).count());
    if sends != recvs {
        bail!(
            InvalidUsage,
            98,
            "messages to oneself do not match | {} | {sends} ncclSend and {recvs} ncclRecv with its own rank as peer | fix: call both \
             in one group (ncclGroupStart, ncclGroupEnd)",
            team.tag()
        );
    }
    if let Some((i, (sent, received))) = of(true).zip(of(false)).enumerate().find(|(_, (a, b))| a != b) {
        bail!(
            InvalidUsage,
            98,
            "a message to oneself has two sizes | {}, message {i} | {sent} bytes are sent, {received} expected | fix: pass equal counts",
            team.tag()
        );
    }
    Ok(())
}
