//! Puts a collective on its stream.

use super::call::{Call, Kind};
use super::operation::Scalar;
use super::table::{self, How, Shape};
use super::work::{Buffer, CollWork, MappedWork};
use super::{Collectives, Ready};
use crate::device::{DevPtr, Launch};
use crate::error::Result;
use crate::info;
use crate::log::timeline;
use crate::team::Team;
use crate::window::Windows;
use std::ffi::CStr;
use zerocopy::IntoBytes;

/// Launches a checked call of more than 0 elements.
pub fn run(collectives: &Collectives, windows: &Windows, call: &Call) -> Result<()> {
    let team = windows.team();
    team.abort.moved();
    let ready = collectives.ready(team)?;
    let (send, recv) = buffers(windows, call);
    let switch = switch_kernel(ready, call, &send, &recv);
    let shape = Shape {
        device: ready.device,
        n_ranks: team.n_ranks,
        lsa_size: ready.lsa_size,
        kind: call.kind,
        part: call.count * u64::from(call.datatype.bytes()),
        send_registered: send.window != 0,
        recv_registered: recv.window != 0,
        local: call.op.is_local(),
        maps: ready.maps.is_some(),
        switched: switch.is_some(),
    };
    let choice = table::choose(&shape, &ready.sizes, ready.forced);
    if call.kind == Kind::AlltoAll && call.send == call.recv && team.n_ranks > 1 {
        collectives.say_undefined(team);
    }
    let (scalar, scalar_at) = match call.op.scalar {
        Scalar::Value(bits) => (bits, 0),
        Scalar::At(at) => (0, at),
    };
    let personal = call.kind.is_personal() && choice.how == How::Buffered;
    let kernel = match choice.how {
        How::Mapped if call.kind.reduces() => call.datatype.mapped_kernel(),
        How::Mapped => c"ginrs_mapped",
        How::Multicast if let Some(kernel) = switch => kernel,
        _ if personal => c"ginrs_personal",
        How::Staged if call.kind.reduces() => call.datatype.pass_kernel(),
        _ if call.kind.reduces() => call.datatype.reduce_kernel(),
        How::Ll => c"ginrs_ll",
        _ => c"ginrs_copy",
    };
    let work = CollWork {
        comm: ready.comm,
        send,
        recv,
        inbox: ready.memory.inbox,
        rails: if personal { ready.memory.inbox } else { ready.memory.rails },
        ll: ready.memory.ll,
        count: call.count,
        scalar,
        scalar_at,
        elt_bytes: call.datatype.bytes(),
        kind: call.kind as u32,
        how: choice.how as u32,
        op: call.op.code,
        root: call.root,
        channels: choice.channels,
        scratch: ready.memory.scratch,
        piece_bytes: ready.sizes.piece,
        along: choice.along as u32,
        cut_bytes: ready.sizes.cut,
    };
    let rails = choice.how == How::Buffered && ready.lsa_size < team.n_ranks;
    let along = if rails { format!(" by {:?}", choice.along) } else { String::new() };
    let touches = call.touches(team.rank, team.n_ranks);
    let root = call.kind.has_root().then_some(call.root);
    let put = |parameter: &[u8], along: &str, captured: bool| {
        info!(
            COLL,
            "{} {} {} x {:?}: {:?}{}, {:?} blocks of {} threads",
            team.tag(),
            call.kind.name(),
            call.count,
            call.datatype,
            choice.how,
            along,
            choice.blocks,
            choice.threads
        );
        timeline::collective(|| format!("{} of {} x {:?}: {:?}{along}", call.kind.name(), call.count, call.datatype, choice.how));
        ready.kernels.launch(&Launch {
            kernel,
            parameter,
            blocks: choice.blocks,
            threads: choice.threads,
            stream: call.stream,
            call: call.kind.name(),
            number: team.watch.calls().collective(captured, root),
            touches: &touches,
        })
    };
    let (mut order, _launching) = collectives.begin(team, ready)?;
    let Some(maps) = ready.maps.as_ref().filter(|_| choice.how == How::Mapped) else {
        return order.next(call.stream, |captured| put(work.as_bytes(), &along, captured));
    };
    order.next(call.stream, |captured| {
        let (send, recv) = maps.places(windows, call, captured);
        let told = MappedWork { coll: work, send, recv, board: maps.board, pad: 0 };
        let (reads, writes) = call.lends(team.rank, team.n_ranks);
        let is_seen = (!reads || send[0] != 0) && (!writes || recv[0] != 0);
        put(told.as_bytes(), if is_seen { " and told" } else { " and not told" }, captured)
    })
}

impl Collectives {
    /// At INFO: nccl-tests does it for every size of its table, and what it prints is read by programs.
    fn say_undefined(&self, team: &Team) {
        self.told_undefined.get_or_init(|| {
            info!(
                COLL,
                "{} ncclAlltoAll in place leaves recvbuff undefined, as NCCL's does | fix: receive into another buffer than sendbuff (told once)",
                team.tag()
            );
        });
    }
}

/// What has the switch do it, if it can: it has the operation, and multicast addresses of the buffers that peers touch, in whole words. The same on
/// all ranks, as what lies in symmetric windows is.
fn switch_kernel(ready: &Ready, call: &Call, send: &Buffer, recv: &Buffer) -> Option<&'static CStr> {
    const WORD: u64 = 16;
    let whole = |buffer: &Buffer| buffer.window != 0 && buffer.at.is_multiple_of(WORD);
    let reachable = match call.kind {
        Kind::AllReduce => whole(send) && whole(recv),
        Kind::ReduceScatter => whole(send),
        Kind::AllGather => whole(recv),
        _ => false,
    };
    let words = (call.count * u64::from(call.datatype.bytes())).is_multiple_of(WORD);
    match ready.comm.lsaMultimem.mcBasePtr != 0 && words && reachable {
        true if call.kind.reduces() => call.datatype.multicast_kernel(call.op.code),
        true => Some(c"ginrs_multicast"),
        false => None,
    }
}

/// This rank's buffers; those that the call does not use are null.
fn buffers(windows: &Windows, call: &Call) -> (Buffer, Buffer) {
    let team = windows.team();
    let (send_bytes, recv_bytes) = call.spans(team.n_ranks);
    let (uses_send, uses_recv) = call.uses(team.rank);
    let place = |used: bool, at: DevPtr, bytes: u64| match used {
        false => Buffer::default(),
        true => {
            let (window, offset) = windows.symmetric_at(at, bytes).unwrap_or_default();
            Buffer { at, window, offset }
        }
    };
    (place(uses_send, call.send, send_bytes), place(uses_recv, call.recv, recv_bytes))
}
