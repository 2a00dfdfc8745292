//! Sends and receives: those of one communicator in one group wait for each other's call and become one launch (or a few).

use super::Collectives;
use super::rounds::{self, Batch, Message};
use super::work::{P2P_ITEMS, P2pItem, P2pWork};
use super::{Ready, table};
use crate::bail;
use crate::device::{Launch, Span, Stream};
use crate::error::Result;
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
        let batches = rounds::batches(team.rank, team.n_ranks, &self.messages);
        let (mut order, _launching) = collectives.begin(team, ready)?;
        order.together(&self.streams, |stream, captured| {
            batches.iter().try_for_each(|batch| {
                let all = [(&batch.sends, true), (&batch.recvs, false)];
                let all = all.into_iter().flat_map(|(items, sends)| items.iter().map(move |item| (item.peer, sends)));
                launch(ready, batch, stream, team.watch.calls().messages(captured, all))
            })
        })
    }
}

fn launch(ready: &Ready, batch: &Batch, stream: Stream, number: u64) -> Result<()> {
    let shape = table::point_to_point(ready.device, &ready.sizes, batch);
    let mut items = [P2pItem::default(); P2P_ITEMS];
    for (slot, item) in items.iter_mut().zip(batch.sends.iter().chain(&batch.recvs)) {
        *slot = *item;
    }
    let work = P2pWork {
        comm: ready.comm,
        inbox: ready.memory.inbox,
        n_sends: batch.sends.len() as u32,
        n_recvs: batch.recvs.len() as u32,
        sets: shape.sets,
        channels: shape.channels,
        bytes_per_channel: ready.sizes.bytes_per_channel,
        pad: 0,
        items,
    };
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
