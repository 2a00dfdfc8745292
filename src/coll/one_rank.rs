//! Communicators of one rank, as programs make them of each dimension of a mesh that has one: there is nobody to meet, and what a call gives is what it was given.
//! So a call in place does nothing, and a large one elsewhere is a copy of the driver's. Small ones are kernels, which begin sooner; so are those that
//! have a factor to apply (pre-mul-sums), and all on the CPU device, where they are held against what else touches the buffers.

use super::Ready;
use super::call::Call;
use super::rounds::Message;
use crate::device::StreamCopies;
use crate::device::{MemCopy, Stream};
use crate::error::Result;
use crate::info;
use crate::log::timeline;
use crate::team::Team;

/// From so many bytes on a copy of the driver's is faster than a kernel of ours: docs/measured/gpu-pytorch.md.
const LARGE: u64 = 16 << 20;

/// What makes copies, where the communicator has one rank. GINRS_COLLECTIVE names a way of kernels.
fn device<'a>(ready: &'a Ready, team: &Team) -> Option<&'a dyn StreamCopies> {
    ready.kernels.copies().filter(|_| team.n_ranks == 1 && ready.forced.is_none())
}

/// What it does; None: it is a kernel's.
fn of_call(call: &Call) -> Option<MemCopy> {
    let bytes = call.count * u64::from(call.datatype.bytes());
    let copy = MemCopy { from: call.send, to: call.recv, bytes };
    (!call.op.is_local() && (is_nothing(&copy) || bytes >= LARGE)).then_some(copy)
}

/// Of messages to oneself, which match, the first that is sent is the first that is received. None: they are a kernel's.
fn of_messages(messages: &[Message]) -> Option<Vec<MemCopy>> {
    let of = |sends| messages.iter().filter(move |message| message.sends == sends);
    let copies = of(true).zip(of(false)).map(|(sent, received)| MemCopy { from: sent.at, to: received.at, bytes: sent.bytes });
    let copies: Vec<_> = copies.collect();
    copies.iter().all(|copy| is_nothing(copy) || copy.bytes >= LARGE).then_some(copies)
}

fn is_nothing(copy: &MemCopy) -> bool {
    copy.from == copy.to || copy.bytes == 0
}

/// Nothing here uses what launches share, so they are in nobody's order; a failed communicator refuses them, too.
fn make(device: &dyn StreamCopies, team: &Team, what: &str, copies: &[MemCopy], stream: Stream) -> Result<()> {
    team.alive()?;
    for copy in copies {
        let how = if is_nothing(copy) { "nothing to do" } else { "one copy" };
        info!(COLL, "{} {what} of {} bytes, of one rank: {how}", team.tag(), copy.bytes);
        timeline::collective(|| format!("{what} of {} bytes, of one rank: {how}", copy.bytes));
        if !is_nothing(copy) {
            device.copy(copy, stream)?;
        }
    }
    Ok(())
}

/// Makes the calls of a group that need no kernel; the others.
pub fn make_calls(ready: &Ready, team: &Team, calls: &[Call]) -> Result<Vec<Call>> {
    let mut left = Vec::new();
    for call in calls {
        match of_call(call).zip(device(ready, team)) {
            Some((copy, device)) => make(device, team, call.kind.name(), &[copy], call.stream)?,
            None => left.push(*call),
        }
    }
    Ok(left)
}

/// Makes the messages of a group, if none needs a kernel, and they are all on one stream.
pub fn make_messages(ready: &Ready, team: &Team, messages: &[Message], streams: &[Stream]) -> Result<bool> {
    let (Some(device), &[stream]) = (device(ready, team), streams) else { return Ok(false) };
    let Some(copies) = of_messages(messages) else { return Ok(false) };
    make(device, team, "a message", &copies, stream).map(|()| true)
}

#[cfg(test)]
mod tests {
    use super::super::datatype::DataType;
    use super::super::operation::{Operation, Scalar};
    use super::super::work::OP_PRE_MUL;
    use super::*;
    use crate::coll::call::Kind as Function;

    #[test]
    fn what_is_large_or_in_place_and_has_no_factor_needs_no_kernel() {
        let call = |recv, count, op| Call {
            kind: Function::AllReduce,
            send: 1 << 32,
            recv,
            count,
            datatype: DataType::Float32,
            op,
            root: 0,
            stream: 0,
            site: 0,
        };
        let (here, there, factor) = (1 << 32, 2 << 32, Operation { code: OP_PRE_MUL, scalar: Scalar::Value(2) });
        let large = LARGE / 4;
        assert_eq!(of_call(&call(there, large, Operation::NONE)), Some(MemCopy { from: here, to: there, bytes: LARGE }));
        assert_eq!(of_call(&call(there, large - 1, Operation::NONE)), None);
        assert!(of_call(&call(here, 1, Operation::NONE)).is_some_and(|copy| is_nothing(&copy)));
        assert_eq!(of_call(&call(here, large, factor)), None);
    }

    #[test]
    fn messages_to_oneself_are_paired_in_the_order_of_their_calls() {
        let message = |sends, at, bytes| Message { sends, peer: 0, at, bytes, site: 0 };
        let large = [
            message(true, 1 << 32, LARGE),
            message(true, 2 << 32, LARGE + 1),
            message(false, 3 << 32, LARGE),
            message(false, 4 << 32, LARGE + 1),
        ];
        let found: Vec<_> =
            of_messages(&large).unwrap().iter().map(|copy| (copy.from >> 32, copy.to >> 32, copy.bytes)).collect();
        assert_eq!(found, [(1, 3, LARGE), (2, 4, LARGE + 1)]);
        let one_is_small = [message(true, 1, LARGE), message(false, 2, LARGE), message(true, 3, 8), message(false, 4, 8)];
        assert_eq!(of_messages(&one_is_small), None);
        assert_eq!(of_messages(&[message(true, 1, 0), message(false, 2, 0)]).map(|copies| copies.len()), Some(1));
    }
}
