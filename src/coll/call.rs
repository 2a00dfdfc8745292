//! One collective call: checked when it is made, copied, and run when its group ends.

use super::buffer::check_buffer;
use super::datatype::DataType;
use super::operation::Operation;
use crate::bail;
use crate::device::{DevPtr, Device, Span, Stream};
use crate::error::Result;

/// Which collective; the numbers are those of cuda/collectives/work.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Kind {
    AllReduce = 0,
    ReduceScatter = 1,
    Reduce = 2,
    AllGather = 3,
    Broadcast = 4,
    AlltoAll = 5,
    Gather = 6,
    Scatter = 7,
}

impl Kind {
    /// Of the number that it has in kernels.
    pub fn from_number(number: u8) -> Option<Self> {
        use Kind::*;
        [AllReduce, ReduceScatter, Reduce, AllGather, Broadcast, AlltoAll, Gather, Scatter]
            .into_iter()
            .find(|kind| *kind as u8 == number)
    }

    /// The C function.
    pub fn name(self) -> &'static str {
        match self {
            Kind::AllReduce => "ncclAllReduce",
            Kind::ReduceScatter => "ncclReduceScatter",
            Kind::Reduce => "ncclReduce",
            Kind::AllGather => "ncclAllGather",
            Kind::Broadcast => "ncclBroadcast",
            Kind::AlltoAll => "ncclAlltoAll",
            Kind::Gather => "ncclGather",
            Kind::Scatter => "ncclScatter",
        }
    }

    /// True if it has a reduction.
    pub fn reduces(self) -> bool {
        matches!(self, Kind::AllReduce | Kind::ReduceScatter | Kind::Reduce)
    }

    /// True if all ranks work for one, or one for all.
    pub fn has_root(self) -> bool {
        matches!(self, Kind::Reduce | Kind::Broadcast | Kind::Gather | Kind::Scatter)
    }

    /// True if it moves other bytes between any two ranks.
    pub fn is_personal(self) -> bool {
        matches!(self, Kind::AlltoAll | Kind::Gather | Kind::Scatter)
    }

    /// How many counts of elements the two buffers of `n_ranks` hold: send, receive.
    fn parts(self, n_ranks: u64) -> (u64, u64) {
        match self {
            Kind::AllReduce | Kind::Reduce | Kind::Broadcast => (1, 1),
            Kind::AllGather | Kind::Gather => (1, n_ranks),
            Kind::ReduceScatter | Kind::Scatter => (n_ranks, 1),
            Kind::AlltoAll => (n_ranks, n_ranks),
        }
    }
}

/// A call as all ranks make it, with this rank's buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Which function.
    pub kind: Kind,
    /// What this rank gives; not looked at where the function does not use it.
    pub send: DevPtr,
    /// Where this rank's result goes; likewise.
    pub recv: DevPtr,
    /// Elements as the function counts them.
    pub count: u64,
    /// Of an element.
    pub datatype: DataType,
    /// [`Operation::NONE`] where nothing is reduced.
    pub op: Operation,
    /// 0 where there is none.
    pub root: u32,
    /// The caller's.
    pub stream: Stream,
    /// Where the program calls it (`device::cpu::line_at`).
    pub site: u64,
}

/// `value` as a rank of the communicator.
pub fn rank_of(function: &str, name: &str, value: i32, n_ranks: u32) -> Result<u32> {
    match u32::try_from(value) {
        Ok(rank) if rank < n_ranks => Ok(rank),
        _ => bail!(
            InvalidArgument,
            93,
            "{name} is no rank | {function} | {value}, the communicator has ranks 0 to {} | fix: pass one of them",
            n_ranks - 1
        ),
    }
}

/// The bytes of `count` elements, `parts` times.
pub fn bytes_of(function: &str, count: u64, datatype: DataType, parts: u64) -> Result<u64> {
    let bytes = count.checked_mul(datatype.bytes().into()).and_then(|bytes| bytes.checked_mul(parts));
    match bytes.filter(|&bytes| bytes <= i64::MAX as u64) {
        Some(bytes) => Ok(bytes),
        None => bail!(
            InvalidArgument,
            96,
            "count is too large | {function} | {count} elements of {} bytes, {parts} times: more than 2^63 bytes | fix: is a \
             negative number passed as count?",
            datatype.bytes()
        ),
    }
}

impl Call {
    /// Refuses what no kernel may get: buffers that are NULL or misaligned or end behind their allocation, too many bytes, buffers that
    /// overlap in another way than in place.
    pub fn check(&self, device: &dyn Device, rank: u32, n_ranks: u32) -> Result<()> {
        let function = self.kind.name();
        let (sends, receives) = self.kind.parts(n_ranks.into());
        let part = bytes_of(function, self.count, self.datatype, 1)?;
        let send_bytes = bytes_of(function, self.count, self.datatype, sends)?;
        let recv_bytes = bytes_of(function, self.count, self.datatype, receives)?;
        if part == 0 {
            return Ok(());
        }
        let (uses_send, uses_recv) = self.uses(rank);
        for (name, at, bytes, used) in
            [("sendbuff", self.send, send_bytes, uses_send), ("recvbuff", self.recv, recv_bytes, uses_recv)]
        {
            if used {
                check_buffer(device, function, name, rank, at, bytes)?;
            }
            // Copies go by bytes; arithmetic goes by elements, and a misaligned load would cost the process its device.
            let size = u64::from(self.datatype.bytes());
            if used && self.kind.reduces() && !at.is_multiple_of(size) {
                bail!(
                    InvalidArgument,
                    94,
                    "{name} is misaligned | {function}, rank {rank} | {at:#x} is no multiple of {size}, the bytes of {:?} | fix: pass the \
                     address of an element",
                    self.datatype
                );
            }
        }
        if !(uses_send && uses_recv) || self.send + send_bytes <= self.recv || self.recv + recv_bytes <= self.send {
            return Ok(());
        }
        let (in_place, how) = match self.kind {
            Kind::AllReduce | Kind::Reduce | Kind::Broadcast => (self.send == self.recv, "sendbuff = recvbuff"),
            Kind::AllGather | Kind::Gather => {
                (self.send == self.recv + u64::from(rank) * part, "sendbuff = recvbuff + rank * count elements")
            }
            Kind::ReduceScatter | Kind::Scatter => {
                (self.recv == self.send + u64::from(rank) * part, "recvbuff = sendbuff + rank * count elements")
            }
            // NCCL leaves recvbuff undefined, and its own benchmark does it.
            Kind::AlltoAll => (self.send == self.recv, "(none, for its result would be undefined)"),
        };
        if in_place {
            return Ok(());
        }
        bail!(
            InvalidArgument,
            95,
            "buffers overlap | {function}, rank {rank} | {send_bytes} bytes from {:#x}, {recv_bytes} bytes to {:#x} | fix: part \
             them, or work in place: {how}",
            self.send,
            self.recv
        )
    }

    /// Whether this rank's send and receive buffers mean anything.
    pub fn uses(&self, rank: u32) -> (bool, bool) {
        match self.kind {
            Kind::Broadcast | Kind::Scatter => (rank == self.root, true),
            Kind::Reduce | Kind::Gather => (true, rank == self.root),
            _ => (true, true),
        }
    }

    /// Whether others touch this rank's send and receive buffers where they can: read the one, write the other (cuda/collectives/mapped.cuh).
    pub fn lends(&self, rank: u32, n_ranks: u32) -> (bool, bool) {
        let (pair, is_root) = (n_ranks == 2, rank == self.root);
        match self.kind {
            Kind::AllReduce => (true, true),
            Kind::ReduceScatter => (true, false),
            Kind::Reduce if pair => (!is_root, false),
            Kind::Reduce => (true, is_root),
            Kind::Broadcast => (is_root, !is_root && !pair),
            Kind::Scatter => (is_root, false),
            Kind::Gather => (!is_root, false),
            Kind::AllGather | Kind::AlltoAll => (false, true),
        }
    }

    /// Bytes of this rank's send and receive buffers.
    pub fn spans(&self, n_ranks: u32) -> (u64, u64) {
        let (sends, receives) = self.kind.parts(n_ranks.into());
        let part = self.count * u64::from(self.datatype.bytes());
        (part * sends, part * receives)
    }

    /// What it reads and writes of this rank's: what is both sent and received is not changed where nothing is reduced, and others may go
    /// on reading it.
    pub fn touches(&self, rank: u32, n_ranks: u32) -> Vec<Span> {
        let ((send_bytes, recv_bytes), (uses_send, uses_recv)) = (self.spans(n_ranks), self.uses(rank));
        let mut all = Vec::with_capacity(3);
        if uses_send {
            all.push(Span { at: self.send, bytes: send_bytes, writes: false });
        }
        let (begin, end) = (self.recv, self.recv + recv_bytes);
        let stays = uses_send && !self.kind.reduces() && self.kind != Kind::AlltoAll;
        let (from, to) =
            if stays { (self.send.clamp(begin, end), (self.send + send_bytes).clamp(begin, end)) } else { (end, end) };
        for (at, end) in [(begin, from), (to, end)] {
            if uses_recv && at < end {
                all.push(Span { at, bytes: end - at, writes: true });
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::cpu::CpuDevice;

    fn call(kind: Kind, send: DevPtr, recv: DevPtr) -> Call {
        Call { kind, send, recv, count: 100, datatype: DataType::Int32, op: Operation::NONE, root: 1, stream: 0, site: 0 }
    }

    const BASE: DevPtr = 0x10_0000;

    #[test]
    fn in_place_is_what_nccl_means_by_it_and_any_other_overlap_is_refused() {
        use Kind::*;
        let part = 400;
        // Rank 1 of 4, root 1.
        let fine = [
            (AllReduce, 0, 0),
            (Reduce, 0, 0),
            (Broadcast, 0, 0),
            (AllGather, part, 0),
            (Gather, part, 0),
            (ReduceScatter, 0, part),
            (Scatter, 0, part),
            (AllGather, 4 * part, 0),
            (AlltoAll, 4 * part, 0),
            (AlltoAll, 0, 0),
        ];
        for (kind, send, recv) in fine {
            call(kind, BASE + send, BASE + recv).check(&*CpuDevice::new(0), 1, 4).unwrap();
        }
        let wrong = [
            (AllReduce, 0, 4),
            (AllReduce, 396, 0),
            (AllGather, 0, 0),
            (AllGather, 2 * part, 0),
            (Gather, 0, 0),
            (ReduceScatter, 0, 0),
            (Scatter, 0, 3 * part),
            (AlltoAll, 4 * part - 1, 0),
            (AlltoAll, 0, part),
        ];
        for (kind, send, recv) in wrong {
            let error = call(kind, BASE + send, BASE + recv).check(&*CpuDevice::new(0), 1, 4).unwrap_err();
            assert!(error.id == 95 && error.text.contains(kind.name()), "{kind:?}: {error}");
        }
    }

    #[test]
    fn what_is_sent_in_place_is_not_written_where_nothing_is_reduced() {
        use Kind::*;
        // Rank 1 of 4, root 1: the bytes that are written, from where.
        for (kind, send, recv, writes) in [
            (AllReduce, 0, 0, &[(0, 400)][..]),
            (AllReduce, 0, 800, &[(800, 400)]),
            (ReduceScatter, 0, 400, &[(400, 400)]),
            (AllGather, 400, 0, &[(0, 400), (800, 800)]),
            (AllGather, 4000, 0, &[(0, 1600)]),
            (AllGather, 0, 4000, &[(4000, 1600)]),
            (Broadcast, 0, 0, &[]),
            (Scatter, 0, 400, &[]),
            (AlltoAll, 0, 0, &[(0, 1600)]),
        ] {
            let all = call(kind, BASE + send, BASE + recv).touches(1, 4);
            let (write, read): (Vec<Span>, Vec<Span>) = all.iter().partition(|span| span.writes);
            let found: Vec<_> = write.iter().map(|span| (span.at - BASE, span.bytes)).collect();
            assert!(found == writes && read.len() == 1 && read[0].at == BASE + send, "{kind:?}: {all:?}");
        }
        // Not the root.
        let all = call(Broadcast, BASE, BASE).touches(0, 4);
        assert_eq!(all, [Span { at: BASE, bytes: 400, writes: true }]);
        assert_eq!(call(Reduce, BASE, BASE).touches(0, 4), [Span { at: BASE, bytes: 400, writes: false }]);
    }

    #[test]
    fn only_buffers_that_are_used_must_be_there() {
        use Kind::*;
        for kind in [AllReduce, ReduceScatter, AllGather, AlltoAll] {
            assert!(call(kind, 0, BASE).check(&*CpuDevice::new(0), 0, 4).unwrap_err().text.contains("sendbuff is NULL"));
            assert!(call(kind, BASE, 0).check(&*CpuDevice::new(0), 0, 4).unwrap_err().text.contains("recvbuff is NULL"));
        }
        for kind in [Reduce, Gather] {
            call(kind, BASE, 0).check(&*CpuDevice::new(0), 0, 4).unwrap();
            assert_eq!(call(kind, BASE, 0).check(&*CpuDevice::new(0), 1, 4).unwrap_err().id, 94);
        }
        for kind in [Broadcast, Scatter] {
            call(kind, 0, BASE).check(&*CpuDevice::new(0), 0, 4).unwrap();
            // What a rank other than the root passes there does not count, not even as an overlap.
            call(kind, BASE + 4, BASE).check(&*CpuDevice::new(0), 0, 4).unwrap();
            assert_eq!(call(kind, 0, BASE).check(&*CpuDevice::new(0), 1, 4).unwrap_err().id, 94);
        }
        for kind in [AllReduce, AlltoAll] {
            Call { count: 0, ..call(kind, 0, 0) }.check(&*CpuDevice::new(0), 0, 4).unwrap();
        }
        assert!(call(AllReduce, u64::MAX - 8, BASE).check(&*CpuDevice::new(0), 0, 4).unwrap_err().text.contains("is no address"));
    }

    #[test]
    fn what_is_reduced_is_aligned_to_its_elements_where_it_is_used() {
        use Kind::*;
        for kind in [AllReduce, ReduceScatter, Reduce] {
            let error = call(kind, BASE + 2, 2 * BASE).check(&*CpuDevice::new(0), 1, 4).unwrap_err();
            assert!(error.id == 94 && error.text.contains("sendbuff is misaligned"), "{kind:?}: {error}");
            assert!(
                call(kind, BASE, 2 * BASE + 1)
                    .check(&*CpuDevice::new(0), 1, 4)
                    .unwrap_err()
                    .text
                    .contains("recvbuff is misaligned")
            );
        }
        call(Reduce, BASE, 2 * BASE + 1).check(&*CpuDevice::new(0), 0, 4).unwrap();
        call(AllGather, BASE + 1, 2 * BASE + 3).check(&*CpuDevice::new(0), 1, 4).unwrap();
        Call { count: 0, ..call(AllReduce, BASE + 1, 2 * BASE) }.check(&*CpuDevice::new(0), 1, 4).unwrap();
    }

    #[test]
    fn counts_whose_bytes_overflow_are_refused() {
        for count in [u64::MAX, u64::MAX / 4, (i64::MAX as u64) / 4 / 4 + 1] {
            assert_eq!(Call { count, ..call(Kind::AllGather, BASE, BASE) }.check(&*CpuDevice::new(0), 0, 4).unwrap_err().id, 96);
        }
        assert_eq!(call(Kind::AllGather, 0, 0).spans(4), (400, 1600));
        assert_eq!(call(Kind::Scatter, 0, 0).spans(4), (1600, 400));
    }

    #[test]
    fn ranks_are_checked() {
        assert_eq!(rank_of("f", "root", 3, 4).unwrap(), 3);
        for wrong in [-1, 4, i32::MIN] {
            assert!(rank_of("f", "root", wrong, 4).unwrap_err().text.contains("ranks 0 to 3"));
        }
    }
}
