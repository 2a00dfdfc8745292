//! Whether this rank calls what the ranks beside it on its machine call: the same collectives, alike and in the same order. Told on the CPU device, where mistakes
//! are looked for (docs/user/invalid-use.md), before a kernel begins. Kernels find that calls differ, not which; and those that go different ways never meet.

use super::call::{Call, Kind};
use super::datatype::DataType;
use super::operation::name_of;
use crate::device;
use crate::device::cpu::line_at;
use crate::error::{Code, Error, Result};
use crate::team::Team;
use crate::watch::CallWords;

/// These are about to be launched, in this order. A captured one may be replayed at any time: from there on nothing is compared.
///
/// # Errors
/// E141, and the communicator has failed: another rank has called something else in the place of one of them.
pub fn check<'a>(team: &Team, captured: bool, calls: impl Iterator<Item = &'a Call>) -> Result<()> {
    if captured || team.device.kind() != device::Kind::Cpu {
        return Ok(());
    }
    let Some(first) = team.watch.calls().next() else { return Ok(()) };
    for (number, call) in (first..).zip(calls) {
        let own = words(call);
        if let Some((rank, theirs)) = team.watch.show_call(number, own) {
            let at = line_at(call.site).map_or(String::new(), |line| format!(", called by host code at {line}"));
            let text = format!(
                "ranks have called different collectives | {} | collective {number} of the communicator is {}{at}, and on rank {rank} {} | fix: call \
                 the same ones on all ranks, in the same order, with the same count, type, operation and root",
                team.tag(),
                told(own),
                told(theirs)
            );
            let error = Error::new(Code::InvalidUsage, 141, text);
            team.fail(error.clone());
            return Err(error);
        }
    }
    Ok(())
}

/// What has to be alike: where nothing is reduced, bytes.
fn words(call: &Call) -> CallWords {
    let (datatype, op) = if call.kind.reduces() { (call.datatype as u64, u64::from(call.op.code)) } else { (0, 0) };
    let bytes = call.count * u64::from(call.datatype.bytes());
    [call.kind as u64 | datatype << 8 | op << 16 | u64::from(call.root) << 32, bytes]
}

/// `ncclReduce of 64 x Float32 by ncclMax, root 1`, `ncclAllGather of 256 bytes`. Another rank's words may be anything.
fn told([what, bytes]: CallWords) -> String {
    let [kind, datatype, op, _, ..] = what.to_le_bytes();
    let (Some(kind), Some(datatype)) = (Kind::from_number(kind), DataType::from_c(datatype.into()).ok()) else {
        return format!("a call that this library does not know ({what:#x})");
    };
    let root = if kind.has_root() { format!(", root {}", what >> 32) } else { String::new() };
    match kind.reduces() {
        true => {
            let count = bytes / u64::from(datatype.bytes());
            format!("{} of {count} x {datatype:?} by {}{root}", kind.name(), name_of(op.into()))
        }
        false => format!("{} of {bytes} bytes{root}", kind.name()),
    }
}
