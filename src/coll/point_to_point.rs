//! Sends and receives: those of one communicator in one group wait for each other's call and become one launch (or a few).

use super::rounds::{self, Batch, Message};
use super::work::{P2P_ITEMS, P2pItem, P2pWork, Parameter};
use super::{Ready, table};
use crate::bail;
use crate::comm::{Comm, group};
use crate::device::{DevPtr, Launch, Stream};
use crate::error::Result;
use crate::sync::Mutex;
use std::sync::Arc;

/// What a group has gathered for one communicator.
#[derive(Default)]
struct Gathered {
    messages: Vec<Message>,
    /// Each once, in the order of the calls.
    streams: Vec<Stream>,
}

impl Gathered {
    fn push(&mut self, message: Message, stream: Stream) {
        self.messages.push(message);
        if !self.streams.contains(&stream) {
            self.streams.push(stream);
        }
    }
}

/// The sends and receives of one communicator in one group.
pub struct PointToPoint {
    comm: Arc<Comm>,
    gathered: Mutex<Gathered>,
}

impl PointToPoint {
    /// Notes a message. `Some` for the first of its group: the caller sees to it that [`PointToPoint::run`] is called when the
    /// group ends.
    pub fn add(comm: &Arc<Comm>, message: Message, stream: Stream) -> Option<Arc<Self>> {
        let key = Arc::as_ptr(comm) as usize;
        if let Some(known) = group::shared::<Self>(key) {
            known.gathered.lock().push(message, stream);
            return None;
        }
        let new = Arc::new(Self { comm: comm.clone(), gathered: Mutex::default() });
        new.gathered.lock().push(message, stream);
        group::share(key, &new);
        Some(new)
    }

    /// Launches them all.
    pub fn run(&self) -> Result<()> {
        let comm = &*self.comm;
        comm.alive()?;
        comm.abort.moved();
        let Gathered { messages, streams } = std::mem::take(&mut *self.gathered.lock());
        check_self(comm, &messages)?;
        let ready = comm.collectives.ready(comm)?;
        let batches = rounds::batches(comm.rank, comm.n_ranks, &messages);
        ready.order.lock().together(&streams, |stream| batches.iter().try_for_each(|batch| launch(ready, batch, stream)))
    }
}

fn launch(ready: &Ready, batch: &Batch, stream: Stream) -> Result<()> {
    let shape = table::point_to_point(ready.device, &ready.sizes, batch);
    let mut items = [P2pItem::default(); P2P_ITEMS];
    for (slot, item) in items.iter_mut().zip(batch.sends.iter().chain(&batch.recvs)) {
        *slot = *item;
    }
    let work = P2pWork {
        comm: ready.comm,
        inbox: ready.inbox,
        n_sends: batch.sends.len() as u32,
        n_recvs: batch.recvs.len() as u32,
        groups: shape.groups,
        channels: shape.channels,
        items,
    };
    ready.kernels.launch(&Launch {
        kernel: c"ginrs_p2p",
        parameter: work.bytes(),
        blocks: shape.blocks,
        threads: shape.threads,
        stream,
    })
}

/// A buffer that a kernel will read or write.
pub fn check_buffer(function: &str, name: &str, rank: u32, at: DevPtr, bytes: u64) -> Result<()> {
    if at == 0 && bytes > 0 {
        bail!(InvalidArgument, 94, "{name} is NULL | {function}, rank {rank} | {bytes} bytes | fix: pass device memory");
    }
    if at.checked_add(bytes).is_none() {
        bail!(InvalidArgument, 94, "{name} is no address | {function}, rank {rank} | {at:#x} | fix: pass device memory");
    }
    Ok(())
}

/// Messages to oneself must match: nobody else could end the wait.
fn check_self(comm: &Comm, messages: &[Message]) -> Result<()> {
    let of = |sends| messages.iter().filter(move |m| m.peer == comm.rank && m.sends == sends).map(|m| m.bytes);
    let (sends, recvs) = (of(true).count(), of(false).count());
    if sends != recvs {
        bail!(
            InvalidUsage,
            98,
            "messages to oneself do not match | {} | {sends} ncclSend and {recvs} ncclRecv with its own rank as peer | fix: call both \
             in one group (ncclGroupStart, ncclGroupEnd)",
            comm.tag()
        );
    }
    if let Some((i, (sent, received))) = of(true).zip(of(false)).enumerate().find(|(_, (a, b))| a != b) {
        bail!(
            InvalidUsage,
            98,
            "a message to oneself has two sizes | {}, message {i} | {sent} bytes are sent, {received} expected | fix: pass equal counts",
            comm.tag()
        );
    }
    Ok(())
}
