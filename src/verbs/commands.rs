//! The commands that make a card's queues over memory of ours and connect them, and what its answers say.
#![forbid(unsafe_code)]

use super::prm::{
    CAPABILITY, CQC, Field, PATH, QPC, ads, bytes, cmd_hca_cap, cqc, create_cq, create_qp, head, opcode, qpc, roce_cap,
};

/// A reliable connection; nothing else is made.
const RC: u64 = 0;
/// No path migration: the one path is the main one.
const MIGRATED: u64 = 3;
/// No receive queue: nobody sends, peers write.
const NO_RECEIVES: u64 = 3;
/// Atomics as InfiniBand has them: 8 bytes, whole against each other on this card.
const IB_ATOMICS: u64 = 1;
/// In opt_param_mask: what the peer may do is told by this command.
const MAY_READ_ATOMIC_WRITE: u64 = 0b1110;
/// 2^30 bytes, the longest message that kernels post.
const LOG_LONGEST: u64 = 30;
/// 2^4 reads and atomics under way.
const LOG_ATOMICS: u64 = 4;
/// 0.64 ms, InfiniBand's code.
const RECEIVER_NOT_READY: u64 = 12;
/// Code of 4096 bytes.
const LARGEST_MTU: u64 = 5;
/// The device's own capabilities, as they are now, and those of RoCE.
const CAPABILITIES: [u16; 2] = [1, 4 << 1 | 1];

/// Memory that the card was told of: what its kernel driver calls it, and where in it.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// Its number.
    pub umem: u32,
    /// Byte.
    pub offset: u64,
}

/// How a peer's queue pair is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// Its number.
    pub number: u32,
    /// Port of this card that leads there, from 1.
    pub port: u8,
    /// Code of the bytes in a packet: 1 for 256 to 5 for 4096.
    pub mtu: u8,
    /// InfiniBand's local address of the peer; unused on Ethernet.
    pub lid: u16,
    /// The peer's global address: on Ethernet, and between subnets.
    pub global: Option<Global>,
    /// Service level, or Ethernet's priority.
    pub level: u8,
}

/// See [`Path::global`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Global {
    /// 16 bytes.
    pub gid: [u8; 16],
    /// Which of this port's addresses speaks.
    pub source: u8,
    /// Traffic class.
    pub class: u8,
    /// Hardware address of the next hop, on Ethernet.
    pub mac: Option<[u8; 6]>,
}

/// How long a card tries again.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Waits 4.096 us x 2^this for an answer.
    pub timeout: u8,
    /// Tries so often, at most 7.
    pub retries: u8,
}

struct Command(Vec<u8>);

impl Command {
    fn new(opcode: u16, bytes: usize) -> Self {
        Self(vec![0; bytes]).with(head::opcode, opcode)
    }

    fn with(mut self, field: Field, value: impl Into<u64>) -> Self {
        field.set(&mut self.0, value.into());
        self
    }

    fn of_queue(opcode: u16, number: u32) -> Self {
        Self::new(opcode, bytes::MODIFY).with(head::number, number)
    }
}

/// What an answer of that many bytes goes into.
pub fn answer(bytes: usize) -> Vec<u8> {
    vec![0; bytes]
}

/// Number of what was made, from the answer.
pub fn number(answer: &[u8]) -> u32 {
    head::number.get(answer) as u32
}

/// Why a command was refused, from the answer: status and syndrome, both 0 where it was done.
pub fn refusal(answer: &[u8]) -> (u8, u32) {
    (head::status.get(answer) as u8, head::syndrome.get(answer) as u32)
}

/// A completion queue of `1 << log_entries` entries of 64 bytes at `entries`, which may overrun: nobody says what was read.
pub fn create_cq(log_entries: u32, entries: Memory, record: Memory, page: u32, events: u32) -> Vec<u8> {
    let field = |field: Field| field.within(CQC);
    Command::new(opcode::CREATE_CQ, bytes::CREATE)
        .with(field(cqc::oi), 1u8)
        .with(field(cqc::log_cq_size), log_entries)
        .with(field(cqc::uar_page), page)
        .with(field(cqc::c_eqn), events)
        .with(field(cqc::dbr_umem_valid), 1u8)
        .with(field(cqc::dbr_umem_id), record.umem)
        .with(field(cqc::dbr_addr), record.offset)
        .with(create_cq::cq_umem_valid, 1u8)
        .with(create_cq::cq_umem_id, entries.umem)
        .with(create_cq::cq_umem_offset, entries.offset)
        .0
}

/// What a queue pair is made of.
#[derive(Clone, Copy, Debug)]
pub struct QueuePair {
    /// Protection domain.
    pub domain: u32,
    /// Doorbell page.
    pub page: u32,
    /// Completion queue of what it sends; nothing is received.
    pub completions: u32,
    /// `1 << log_depth` elements of 64 bytes at `ring`.
    pub log_depth: u32,
    /// See there.
    pub ring: Memory,
    /// 8 bytes, of which the second half counts what was posted.
    pub record: Memory,
    /// May hold WAIT elements.
    pub waits: bool,
    /// Code of the format of times.
    pub times: u8,
}

/// A queue pair for writes and atomics.
pub fn create_qp(pair: &QueuePair) -> Vec<u8> {
    let field = |field: Field| field.within(QPC);
    Command::new(opcode::CREATE_QP, bytes::CREATE)
        .with(field(qpc::st), RC)
        .with(field(qpc::pm_state), MIGRATED)
        .with(field(qpc::pd), pair.domain)
        .with(field(qpc::uar_page), pair.page)
        .with(field(qpc::cqn_snd), pair.completions)
        .with(field(qpc::cqn_rcv), pair.completions)
        .with(field(qpc::log_sq_size), pair.log_depth)
        .with(field(qpc::rq_type), NO_RECEIVES)
        .with(field(qpc::ts_format), pair.times)
        .with(field(qpc::cd_master), pair.waits)
        .with(field(qpc::dbr_umem_valid), 1u8)
        .with(field(qpc::dbr_umem_id), pair.record.umem)
        .with(field(qpc::dbr_addr), pair.record.offset)
        .with(create_qp::wq_umem_valid, 1u8)
        .with(create_qp::wq_umem_id, pair.ring.umem)
        .with(create_qp::wq_umem_offset, pair.ring.offset)
        .0
}

/// Reset to INIT.
pub fn to_init(number: u32, port: u8, partition: u16) -> Vec<u8> {
    Command::of_queue(opcode::RST2INIT_QP, number)
        .with(qpc::pm_state.within(QPC), MIGRATED)
        .with(ads::vhca_port_num.within(QPC + PATH), port)
        .with(ads::pkey_index.within(QPC + PATH), partition)
        .0
}

/// INIT to ready to receive: the peer is known, and what it may do.
pub fn to_rtr(number: u32, path: &Path) -> Vec<u8> {
    let (field, way) = (|field: Field| field.within(QPC), |field: Field| field.within(QPC + PATH));
    let command = Command::of_queue(opcode::INIT2RTR_QP, number)
        .with(create_qp::opt_param_mask, MAY_READ_ATOMIC_WRITE)
        .with(field(qpc::mtu), u64::from(path.mtu).min(LARGEST_MTU))
        .with(field(qpc::log_msg_max), LOG_LONGEST)
        .with(field(qpc::remote_qpn), path.number)
        .with(field(qpc::log_rra_max), LOG_ATOMICS)
        .with(field(qpc::atomic_mode), IB_ATOMICS)
        .with(field(qpc::rre), 1u8)
        .with(field(qpc::rwe), 1u8)
        .with(field(qpc::rae), 1u8)
        .with(field(qpc::min_rnr_nak), RECEIVER_NOT_READY)
        .with(way(ads::vhca_port_num), path.port)
        .with(way(ads::rlid), path.lid);
    let Some(global) = path.global else { return command.with(way(ads::sl), path.level).0 };
    let half = |at: usize| u64::from_be_bytes(global.gid[at..at + 8].try_into().expect("8 bytes"));
    let command = command
        .with(way(ads::rgid_high), half(0))
        .with(way(ads::rgid_low), half(8))
        .with(way(ads::src_addr_index), global.source)
        .with(way(ads::hop_limit), 255u8)
        .with(way(ads::tclass), global.class);
    match global.mac {
        // Ethernet has the address alone, a priority in place of a level, and on RoCE v2 IP's class in the packet; a source port tells streams apart.
        Some(mac) => {
            let mac = mac.iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
            command
                .with(way(ads::rmac), mac)
                .with(way(ads::eth_prio), path.level)
                .with(way(ads::dscp), global.class >> 2)
                .with(way(ads::udp_sport), 0xc000u16 | path.number as u16 & 0x3fff)
                .0
        }
        None => command.with(way(ads::grh), 1u8).with(way(ads::sl), path.level).0,
    }
}

/// Ready to receive to ready to send.
pub fn to_rts(number: u32, patience: Patience) -> Vec<u8> {
    let field = |field: Field| field.within(QPC);
    Command::of_queue(opcode::RTR2RTS_QP, number)
        .with(field(qpc::log_sra_max), LOG_ATOMICS)
        .with(field(qpc::retry_count), patience.retries.min(7))
        .with(field(qpc::rnr_retry), 7u8)
        .with(ads::ack_timeout.within(QPC + PATH), patience.timeout.min(31))
        .0
}

/// To the state in which a queue pair does nothing, and completes what it has with an error.
pub fn to_err(number: u32) -> Vec<u8> {
    Command::new(opcode::TO_ERR_QP, bytes::SHORT).with(head::number, number).0
}

/// Which state it is in, for [`State::of`].
pub fn query_qp(number: u32) -> Vec<u8> {
    Command::new(opcode::QUERY_QP, bytes::SHORT).with(head::number, number).0
}

/// Of a queue pair, by the card's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Just made.
    Reset = 0,
    /// Knows its port.
    Init = 1,
    /// Takes what peers write.
    ReadyToReceive = 2,
    /// And sends.
    ReadyToSend = 3,
    /// Does nothing any more.
    Error = 6,
    /// One that is not used here.
    Other = 15,
}

impl State {
    /// From [`query_qp`]'s answer.
    pub fn of(answer: &[u8]) -> Self {
        let found = qpc::state.within(QPC).get(answer);
        let all = [Self::Reset, Self::Init, Self::ReadyToReceive, Self::ReadyToSend, Self::Error];
        all.into_iter().find(|state| *state as u64 == found).unwrap_or(Self::Other)
    }
}

/// Asks what the card can: its own, or of RoCE.
pub fn query_capabilities(of_roce: bool) -> Vec<u8> {
    Command::new(opcode::QUERY_HCA_CAP, bytes::SHORT).with(head::op_mod, CAPABILITIES[usize::from(of_roce)]).0
}

/// What the card lacks of what is needed, from its answer.
pub fn lacks(answer: &[u8]) -> Vec<&'static str> {
    let needed = [
        (cmd_hca_cap::rc, "reliable connections"),
        (cmd_hca_cap::atomic, "atomics"),
        (cmd_hca_cap::cq_oi, "completion queues that may overrun"),
        (cmd_hca_cap::cd, "WAIT elements (core-direct)"),
    ];
    needed.into_iter().filter(|(field, _)| field.within(CAPABILITY).get(answer) == 0).map(|(_, what)| what).collect()
}

/// The format of times that queue pairs are to have, from the answer about RoCE: the card's own where it has a choice, else the first.
pub fn times(answer: &[u8]) -> u8 {
    u8::from(roce_cap::qp_ts_format.within(CAPABILITY).get(answer) != 0)
}

#[cfg(test)]
mod tests;
