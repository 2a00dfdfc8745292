//! Communicators of one rank, as programs make them of each dimension of a mesh that has one: there is nobody to meet, and what a call gives is what it was given.
//! So a call in place does nothing, and one elsewhere is a copy of the driver's, which is as fast as a kernel of ours where that is fast, and up to three times as fast elsewhere
//! (docs/results/gpu-pytorch.md). Kernels have the calls with a factor to apply (pre-mul-sums), and all on the CPU device, where they are held against what else
//! touches the buffers.

use super::Ready;
use super::call::Call;
use super::rounds::Message;
use crate::device::StreamCopies;
use crate::device::{MemCopy, Stream};
use crate::error::Result;
use crate::info;
use crate::log::timeline;
use crate::team::Team;

/// What makes copies, where the communicator has one rank. GINRS_COLLECTIVE names a way of kernels.
fn device<'a>(ready: &'a Ready, team: &Team) -> Option<&'a dyn StreamCopies> {
    ready.kernels.copies().filter(|_| team.n_ranks == 1 && ready.forced.is_none())
}

/// What it does; None: it is a kernel's.
fn of_call(call: &Call) -> Option<MemCopy> {
    let bytes = call.count * u64::from(call.datatype.bytes());
    (!call.op.is_local()).then_some(MemCopy { from: call.send, to: call.recv, bytes })
}

/// Of messages to oneself, which match, the first that is sent is the first that is received.
fn of_messages(messages: &[Message]) -> Vec<MemCopy> {
    let of = |sends| messages.iter().filter(move |message| message.sends == sends);
    of(true).zip(of(false)).map(|(sent, received)| MemCopy { from: sent.at, to: received.at, bytes: sent.bytes }).collect()
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

/// Makes the messages of a group, if they are all on one stream.
pub fn make_messages(ready: &Ready, team: &Team, messages: &[Message], streams: &[Stream]) -> Result<bool> {
    let (Some(device), &[stream]) = (device(ready, team), streams) else { return Ok(false) };
    make(device, team, "a message", &of_messages(messages), stream).map(|()| true)
}

#[cfg(test)]
mod tests {
    use super::super::datatype::DataType;
    use super::super::operation::{Operation, Scalar};
    use super::super::work::OP_PRE_MUL;
    use super::*;
    use crate::coll::Kind;

    #[test]
    fn what_has_no_factor_needs_no_kernel() {
        let (here, there, factor) = (1 << 32, 2 << 32, Operation { code: OP_PRE_MUL, scalar: Scalar::Value(2) });
        let call = |recv, op| Call {
            kind: Kind::AllReduce,
            send: here,
            recv,
            count: 5,
            datatype: DataType::Float32,
            op,
            root: 0,
            stream: 0,
            site: 0,
        };
        assert_eq!(of_call(&call(there, Operation::NONE)), Some(MemCopy { from: here, to: there, bytes: 20 }));
        assert!(of_call(&call(here, Operation::NONE)).is_some_and(|copy| is_nothing(&copy)));
        assert_eq!(of_call(&call(here, factor)), None);
    }

    #[test]
    fn messages_to_oneself_are_paired_in_the_order_of_their_calls() {
        let message = |sends, at, bytes| Message { sends, peer: 0, at, bytes, site: 0 };
        let all = [message(true, 1, 5), message(true, 2, 0), message(false, 3, 5), message(false, 4, 0)];
        let found: Vec<_> = of_messages(&all).iter().map(|copy| (copy.from, copy.to, copy.bytes)).collect();
        assert_eq!(found, [(1, 3, 5), (2, 4, 0)]);
        assert!(is_nothing(&of_messages(&all)[1]));
    }
}
