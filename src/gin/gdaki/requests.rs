//! From an element to work for a transport: everything that a kernel wrote is checked here, at the source.

use super::keys::{self, Table, of_table, of_window};
use super::queues::Queues;
use crate::gin::handles::{Handles, Memory};
use crate::gin::plan::{Fault, Ids, Limits, Operation, signal_offset};
use crate::nic::element::{Element, Place};
use crate::transport::{Source, Work};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of inline data that work takes.
const PART: usize = 8;

/// Whose element it is.
#[derive(Clone, Copy)]
pub struct Origin {
    /// This rank.
    pub rank: u32,
    /// The other side.
    pub peer: u32,
    /// The engine's number of the context.
    pub context: u32,
    /// Comes back with completions.
    pub tag: u64,
}

/// What there is to do. Counters are raised at once: an element stands behind what it counts. Of inline data work takes 8 bytes: others go to
/// `parts`.
pub fn request(
    element: Element,
    from: Origin,
    (queues, handles, limits): (&Queues, &Handles, &Limits),
    counters: &[AtomicU64],
    parts: &mut VecDeque<Operation>,
) -> Result<Operation, Fault> {
    let Origin { rank, peer, context, tag } = from;
    let mut work = Work { tag, context, peer, source: Source::Inline(0), bytes: 0, target: (0, 0), signal: None };
    match element {
        Element::Nop => {}
        Element::Wait { queue, .. } => {
            if !queues.may_wait_for(queue) {
                return Err(Fault::Waits { queue });
            }
        }
        Element::Write { to, from, bytes } => {
            if bytes > 0 {
                work.target = window(handles, "target", to, peer, bytes)?;
                let (region, offset) = window(handles, "source", from, rank, bytes)?;
                (work.source, work.bytes) = (Source::Region { region, offset }, bytes.into());
            }
        }
        Element::WriteInline { to, data, bytes } => {
            let (region, offset) = window(handles, "target", to, peer, bytes)?;
            let part = |at: usize, data: &[u8]| {
                let mut value = [0; PART];
                value[..data.len()].copy_from_slice(data);
                let target = (region, offset + at as u64);
                Work { source: Source::Inline(u64::from_le_bytes(value)), bytes: data.len() as u64, target, ..work }
            };
            let mut all = (0..).step_by(PART).zip(data[..bytes as usize].chunks(PART)).map(|(at, data)| part(at, data));
            let first = all.next().unwrap_or(work);
            parts.extend(all.map(Operation::of));
            work = first;
        }
        Element::FetchAdd { to, add, answer } => {
            let key = |table, owner| of_table(table, limits.number, (queues.card.salt, owner));
            if answer.key != key(Table::Sink, rank) || answer.address != 0 {
                return Err(Fault::Key { which: "source", key: answer.key });
            }
            let id = |what, ids: Ids, words: u32| match u16::try_from(to.address / 8) {
                Ok(id) if to.address.is_multiple_of(8) && u32::from(id) < words => ids.check(what, id).map(|()| id),
                _ => Err(Fault::Word { address: to.address, words }),
            };
            if to.key == key(Table::Signals, peer) {
                let id = id("signal", limits.signals, limits.pool)?;
                work.signal = Some((signal_offset(limits.number, limits.pool, id), add));
            } else if to.key == key(Table::Counters, rank) {
                let id = id("counter", limits.counters, counters.len() as u32)?;
                // Who sees the completion sees the counter.
                counters[usize::from(id)].fetch_add(add, Ordering::Release);
            } else {
                return Err(Fault::Key { which: "target", key: to.key });
            }
        }
    }
    Ok(Operation::of(work))
}

/// The region that a place lies in, and where, if all of it lies there.
fn window(handles: &Handles, which: &'static str, place: Place, rank: u32, bytes: u32) -> Result<(u32, u64), Fault> {
    let Place { address, key } = place;
    let found = keys::slot(key).and_then(|slot| handles.in_slot(slot)).filter(|(_, handle)| of_window(*handle, rank) == key);
    let Some((Memory { region, start, bytes: size }, _)) = found else { return Err(Fault::Key { which, key }) };
    let at = address.wrapping_sub(start);
    match at <= size && u64::from(bytes) <= size - at {
        true => Ok((region, at)),
        false => Err(Fault::Bounds { which, handle: key.into(), offset: at as i64, bytes: bytes.into(), size }),
    }
}
