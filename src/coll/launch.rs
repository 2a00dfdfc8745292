//! Puts collectives on their streams.

use super::agree;
use super::call::{Call, Kind};
use super::mapped::Places;
use super::one_rank;
use super::operation::Scalar;
use super::several::{self, Member, Sum};
use super::table::{self, Choice, How, Shape};
use super::work::{Buffer, CollWork, MappedWork, OP_PRE_MUL, SEVERAL_ITEMS, SEVERAL_PLACES, SeveralItem, SeveralWork};
use super::{Collectives, Ready};
use crate::device::{DevPtr, Launch, Order, Stream};
use crate::error::Result;
use crate::info;
use crate::log::timeline;
use crate::team::Team;
use crate::window::Windows;
use std::ffi::CStr;
use zerocopy::IntoBytes;

/// A checked call, and how it runs.
struct Planned<'a> {
    call: &'a Call,
    send: Buffer,
    recv: Buffer,
    shape: Shape,
    choice: Choice,
    kernel: &'static CStr,
}

/// Launches checked calls of more than 0 elements, which are one group's: those that gain by it go side by side.
pub fn run(collectives: &Collectives, windows: &Windows, calls: &[Call]) -> Result<()> {
    let team = windows.team();
    team.abort.moved();
    let ready = collectives.ready(team)?;
    let calls = &one_rank::make_calls(ready, team, calls)?[..];
    if calls.is_empty() {
        return Ok(());
    }
    let planned: Vec<Planned> = calls.iter().map(|call| Planned::new(ready, windows, call)).collect();
    if team.n_ranks > 1 && calls.iter().any(|call| call.kind == Kind::AlltoAll && call.send == call.recv) {
        collectives.say_undefined(team);
    }
    let (mut order, _launching) = collectives.begin(team, ready)?;
    let [one] = &planned[..] else {
        let members: Vec<_> = planned.iter().map(|call| call.member(team, ready)).collect();
        return several::launches(&members).iter().try_for_each(|launch| match (&launch.calls[..], members[launch.calls[0].0]) {
            (&[_, _, ..], Some(Member { kernel, .. })) => run_several(&mut order, ready, windows, kernel, &planned, launch),
            _ => planned[launch.calls[0].0].run(&mut order, ready, windows),
        });
    };
    one.run(&mut order, ready, windows)
}

impl<'a> Planned<'a> {
    fn new(ready: &Ready, windows: &Windows, call: &'a Call) -> Self {
        let team = windows.team();
        let (send, recv) = buffers(windows, call);
        let switched = is_switched(ready, call, &send, &recv);
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
            switched,
        };
        let choice = table::choose(&shape, &ready.sizes, ready.forced);
        let kernel = match choice.how {
            How::Buffered => c"ginrs_buffered",
            How::Multicast => c"ginrs_multicast",
            How::Ll if call.kind.reduces() => call.datatype.reduce_ll_kernel(),
            How::Ll => c"ginrs_ll",
            _ if call.kind.reduces() => call.datatype.reduce_kernel(),
            _ => c"ginrs_copy",
        };
        Self { call, send, recv, shape, choice, kernel }
    }

    /// As one of several in a launch; None where it has to go alone.
    fn member(&self, team: &Team, ready: &Ready) -> Option<Member> {
        let (datatype, Choice { how, blocks: (blocks, rows), most, .. }) = (self.call.datatype, self.choice);
        let kernel = match how {
            How::Ll if self.call.kind.reduces() => datatype.several_reduce_ll_kernel()?,
            How::Ll => c"ginrs_several_ll",
            How::Mapped | How::Staged if self.call.kind.reduces() => datatype.several_reduce_kernel()?,
            How::Mapped | How::Staged => c"ginrs_several_copy",
            How::Direct | How::Buffered | How::Multicast => return None,
        };
        // A kernel that has mapped calls may have others, too: they keep to the same.
        let calls = match ready.maps {
            Some(_) if how != How::Ll => SEVERAL_PLACES / (2 * team.n_ranks as usize),
            _ => SEVERAL_ITEMS,
        };
        // A factor is told for one call alone.
        let is_sum = how == How::Mapped && self.call.kind == Kind::Reduce && self.call.op.code != OP_PRE_MUL;
        let sum = is_sum.then_some(Sum { root: self.call.root, n_ranks: team.n_ranks, op: self.call.op.code });
        Some(Member { kernel, rows, bytes: self.shape.of_team(), blocks, room: most, calls: calls.min(SEVERAL_ITEMS), sum })
    }

    fn work(&self, ready: &Ready) -> CollWork {
        let Self { call, choice, .. } = self;
        let personal = call.kind.is_personal() && choice.how == How::Buffered;
        let (scalar, scalar_at) = self.scalar();
        CollWork {
            comm: ready.comm,
            send: self.send,
            recv: self.recv,
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
            blocks: choice.blocks.0,
            scratch: ready.memory.scratch,
            piece_bytes: ready.sizes.piece,
            along: choice.along as u32,
            cut_bytes: ready.sizes.cut,
            first: 0,
            datatype: call.datatype.code(),
        }
    }

    fn scalar(&self) -> (u64, DevPtr) {
        match self.call.op.scalar {
            Scalar::Value(bits) => (bits, 0),
            Scalar::At(at) => (0, at),
        }
    }

    fn root(&self) -> Option<u32> {
        self.call.kind.has_root().then_some(self.call.root)
    }

    /// Where other ranks see its buffers, if they are to be told; and says how it runs, with so many blocks and so many calls beside it.
    fn places(
        &self,
        ready: &Ready,
        windows: &Windows,
        captured: bool,
        (blocks, beside): ((u32, u32), &str),
    ) -> Option<(Places, Places)> {
        let (team, Self { call, choice, .. }) = (windows.team(), self);
        let places = ready.maps.as_ref().filter(|_| choice.how == How::Mapped).map(|maps| maps.places(windows, call, captured));
        let (reads, writes) = call.lends(team.rank, team.n_ranks);
        let rails = choice.how == How::Buffered && ready.lsa_size < team.n_ranks;
        let along = match &places {
            Some((send, recv)) if (!reads || send[0] != 0) && (!writes || recv[0] != 0) => " and told".to_owned(),
            Some(_) => " and not told".to_owned(),
            None if rails => format!(" by {:?}", choice.along),
            None => String::new(),
        };
        info!(
            COLL,
            "{} {} {} x {:?}: {:?}{along}, {blocks:?} blocks of {} threads{beside}",
            team.tag(),
            call.kind.name(),
            call.count,
            call.datatype,
            choice.how,
            choice.threads
        );
        timeline::collective(|| {
            format!("{} of {} x {:?}: {:?}{along}{beside}", call.kind.name(), call.count, call.datatype, choice.how)
        });
        places
    }

    /// Alone.
    fn run(&self, order: &mut Order, ready: &Ready, windows: &Windows) -> Result<()> {
        let (team, Self { call, choice, .. }) = (windows.team(), self);
        let work = self.work(ready);
        order.next(call.stream, |captured| {
            agree::check(team, captured, [*call].into_iter())?;
            let places = self.places(ready, windows, captured, (choice.blocks, ""));
            let (send, recv) = places.unwrap_or_default();
            let board = ready.maps.as_ref().map_or(0, |maps| maps.board);
            // One kernel has these three. Direct and Staged use no exchanged addresses.
            let mapped = MappedWork { coll: work, send, recv, board, pad: 0 };
            let parameter = match choice.how {
                How::Direct | How::Staged | How::Mapped => mapped.as_bytes(),
                How::Ll | How::Buffered | How::Multicast => work.as_bytes(),
            };
            ready.kernels.launch(&Launch {
                kernel: self.kernel,
                parameter,
                blocks: choice.blocks,
                threads: choice.threads,
                stream: call.stream,
                call: call.kind.name(),
                number: team.watch.calls().collectives(captured, 1, self.root()),
                touches: &call.touches(team.rank, team.n_ranks),
            })
        })
    }
}

/// Side by side, in the order of `launch`, with so many blocks in a row each.
fn run_several(
    order: &mut Order,
    ready: &Ready,
    windows: &Windows,
    kernel: &'static CStr,
    planned: &[Planned],
    launch: &several::Launch,
) -> Result<()> {
    let (team, first, n_calls) = (windows.team(), &planned[launch.calls[0].0], launch.calls.len());
    let beside = match launch.is_for_each {
        true => format!(", one for each of {n_calls} ranks"),
        false => format!(", beside {} others", n_calls - 1),
    };
    let calls = || launch.calls.iter().map(|&(number, blocks)| (&planned[number], blocks));
    let mut streams: Vec<Stream> = Vec::new();
    calls().for_each(|(planned, _)| {
        if !streams.contains(&planned.call.stream) {
            streams.push(planned.call.stream);
        }
    });
    order.together(&streams, |stream, captured| {
        agree::check(team, captured, calls().map(|(planned, _)| planned.call))?;
        let mut work = SeveralWork {
            common: first.work(ready),
            board: ready.maps.as_ref().map_or(0, |maps| maps.board),
            n_items: n_calls as u32,
            is_for_each: launch.is_for_each.into(),
            pad: 0,
            items: [SeveralItem::default(); SEVERAL_ITEMS],
            places: [0; SEVERAL_PLACES],
        };
        let (mut columns, n) = (0, team.n_ranks as usize);
        for (item, (planned, blocks)) in calls().enumerate() {
            let (scalar, scalar_at) = planned.scalar();
            work.items[item] = SeveralItem {
                send: planned.send.at,
                recv: planned.recv.at,
                count: planned.call.count,
                scalar,
                scalar_at,
                root: planned.call.root,
                first: columns as u16,
                blocks: blocks as u16,
                kind: planned.call.kind as u8,
                how: planned.choice.how as u8,
                op: planned.call.op.code as u8,
                elt_bytes: planned.call.datatype.bytes() as u8,
                pad: 0,
            };
            columns += blocks;
            if let Some((send, recv)) = planned.places(ready, windows, captured, ((blocks, first.choice.blocks.1), &beside)) {
                let at = 2 * n * item;
                work.places[at..at + n].copy_from_slice(&send[..n]);
                work.places[at + n..at + 2 * n].copy_from_slice(&recv[..n]);
            }
        }
        if launch.is_for_each {
            all_or_none(&mut work, team.rank, n);
        }
        let root = first.root().filter(|_| calls().all(|(planned, _)| planned.root() == first.root()));
        ready.kernels.launch(&Launch {
            kernel,
            parameter: work.as_bytes(),
            blocks: (columns, first.choice.blocks.1),
            threads: calls().map(|(planned, _)| planned.choice.threads).max().unwrap_or(0),
            stream,
            call: first.call.kind.name(),
            number: team.watch.calls().collectives(captured, n_calls as u64, root),
            touches: &calls().flat_map(|(planned, _)| planned.call.touches(team.rank, team.n_ranks)).collect::<Vec<_>>(),
        })
    })
}

/// Of reductions, one for each rank as root: each rank hears of the buffer of its own alone, so all have to come to one answer whether this rank lends all that the
/// others read.
fn all_or_none(work: &mut SeveralWork, rank: u32, n_ranks: usize) {
    let place = |item: usize, root: u32| 2 * n_ranks * item + root as usize;
    let roots = work.items.map(|item| item.root);
    let lends = |(item, &root): (usize, &u32)| root == rank || work.places[place(item, root)] != 0;
    if !roots[..n_ranks].iter().enumerate().all(lends) {
        work.places.fill(0);
    } else if let Some(own) = roots[..n_ranks].iter().position(|&root| root == rank) {
        // Which only says so: a rank has its own buffer as the program passed it.
        work.places[place(own, rank)] = 1;
    }
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

/// Whether the switch can do it: it has the operation, and multicast addresses of the buffers that peers touch, in whole words. The same on
/// all ranks, as what lies in symmetric windows is.
fn is_switched(ready: &Ready, call: &Call, send: &Buffer, recv: &Buffer) -> bool {
    const WORD: u64 = 16;
    let whole = |buffer: &Buffer| buffer.window != 0 && buffer.at.is_multiple_of(WORD);
    let reachable = match call.kind {
        Kind::AllReduce => whole(send) && whole(recv),
        Kind::ReduceScatter => whole(send),
        Kind::AllGather => whole(recv),
        _ => false,
    };
    let words = (call.count * u64::from(call.datatype.bytes())).is_multiple_of(WORD);
    let has = !call.kind.reduces() || call.datatype.is_switched(call.op.code);
    ready.comm.lsaMultimem.mcBasePtr != 0 && words && reachable && has
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
