//! Commands as bytes: each field in the place that the card's reference gives it, and nothing anywhere else.

use super::*;

/// The non-zero bytes, by place.
fn set(command: &[u8]) -> Vec<(usize, u8)> {
    command.iter().copied().enumerate().filter(|(_, byte)| *byte != 0).collect()
}

#[test]
fn a_completion_queue() {
    let (entries, record) = (Memory { umem: 0x0102_0304, offset: 0x4000 }, Memory { umem: 0x0506, offset: 0x88 });
    let command = create_cq(7, entries, record, 0xabcd, 9);
    assert_eq!(command.len(), 272);
    let wanted = [
        (0, 0x04),
        // dbr_umem_valid and oi of the context, which begins at byte 16.
        (16, 0x02),
        (17, 0x02),
        (22, 0x05),
        (23, 0x06),
        (28, 7),
        (30, 0xab),
        (31, 0xcd),
        (39, 9),
        (79, 0x88),
        // cq_umem_offset, cq_umem_id, cq_umem_valid.
        (86, 0x40),
        (88, 1),
        (89, 2),
        (90, 3),
        (91, 4),
        (92, 0x80),
    ];
    assert_eq!(set(&command), wanted);
}

#[test]
fn a_queue_pair() {
    let pair = QueuePair {
        domain: 0x11,
        page: 0x22,
        completions: 0x33,
        log_depth: 7,
        ring: Memory { umem: 0x44, offset: 0x2000 },
        record: Memory { umem: 0x55, offset: 0x40 },
        waits: true,
        times: 1,
    };
    let command = create_qp(&pair);
    assert_eq!(command.len(), 272);
    // The context begins at byte 24.
    let wanted = [
        (0, 0x05),
        // pm_state 3 in bits 0x13 and 0x14.
        (24 + 2, 0x18),
        (24 + 7, 0x11),
        // log_sq_size in bits 0x51 to 0x54, ts_format in 0x58.
        (24 + 10, 7 << 3),
        (24 + 11, 0x40),
        (24 + 15, 0x22),
        (24 + 0x3e8 / 8 + 2, 0x33),
        (24 + 0x49f / 8, 0x01),
        (24 + 0x4e8 / 8 + 2, 0x33),
        (24 + 0x500 / 8 + 7, 0x40),
        (24 + 0x560 / 8, 0x03),
        (24 + 0x680 / 8, 0x10),
        (24 + 0x720 / 8 + 3, 0x55),
        (256 + 6, 0x20),
        (264 + 3, 0x44),
        (268, 0x80),
    ];
    assert_eq!(set(&command), wanted);
    let plain = create_qp(&QueuePair { waits: false, times: 0, ..pair });
    assert_eq!((plain[24 + 0x49f / 8], plain[24 + 11]), (0, 0));
}

#[test]
fn states() {
    let init = to_init(0x12_3456, 2, 0x89ab);
    assert_eq!(init.len(), 272);
    assert_eq!(
        set(&init),
        [
            (0, 5),
            (1, 2),
            (9, 0x12),
            (10, 0x34),
            (11, 0x56),
            (26, 0x18),
            (24 + 24 + 2, 0x89),
            (24 + 24 + 3, 0xab),
            (24 + (0xc0 + 0x128) / 8, 2)
        ]
    );
    let rts = to_rts(1, Patience { timeout: 20, retries: 7 });
    // log_sra_max 4, retry_count 7 and rnr_retry 7 in bits 0x388 to 0x392; ack_timeout in the first five of the path's ninth byte.
    let wanted = [(0, 5), (1, 4), (11, 1), (24 + 24 + 8, 20 << 3), (24 + 0x388 / 8, 4 << 5 | 7), (24 + 0x390 / 8, 7 << 5)];
    assert_eq!(set(&rts), wanted);
    assert_eq!(set(&to_err(0x30)), [(0, 5), (1, 7), (11, 0x30)]);
    assert_eq!(set(&query_qp(0x30)), [(0, 5), (1, 0x0b), (11, 0x30)]);
}

#[test]
fn the_way_to_a_peer() {
    let lid = Path { number: 0x99, port: 1, mtu: 5, lid: 0x1234, global: None, level: 3 };
    let command = to_rtr(7, &lid);
    let path = 24 + 24;
    let wanted = [
        (0, 5),
        (1, 3),
        (11, 7),
        (19, 0b1110),
        // mtu and log_msg_max.
        (24 + 8, 5 << 5 | 30),
        (24 + 0xa8 / 8 + 2, 0x99),
        (path + 6, 0x12),
        (path + 7, 0x34),
        (path + 0x120 / 8, 3),
        (path + 0x128 / 8, 1),
        // log_rra_max, atomic_mode; rre, rwe, rae.
        (24 + 0x488 / 8, 4 << 5 | 1),
        (24 + 0x490 / 8, 0xe0),
        (24 + 0x4a0 / 8, 12),
    ];
    assert_eq!(set(&command), wanted);
    let gid = std::array::from_fn(|at| at as u8 + 1);
    let global = Global { gid, source: 3, class: 0x68, mac: Some([0xa, 0xb, 0xc, 0xd, 0xe, 0xf]) };
    let routed = to_rtr(7, &Path { lid: 0, global: Some(global), ..lid });
    assert_eq!(routed[path + 16..path + 32], gid);
    assert_eq!((routed[path + 9], routed[path + 11]), (3, 255));
    assert_eq!(u32::from_be_bytes(routed[path + 12..path + 16].try_into().unwrap()), 0x68 << 20);
    assert_eq!(routed[path + 0x130 / 8..path + 0x130 / 8 + 6], [0xa, 0xb, 0xc, 0xd, 0xe, 0xf]);
    assert_eq!((routed[path + 5] & 0x80, routed[path + 34..path + 36].to_vec()), (0, vec![0xc0, 0x99]));
    let subnet = to_rtr(7, &Path { global: Some(Global { mac: None, ..global }), ..lid });
    assert_eq!((subnet[path + 5] & 0x80, subnet[path + 0x130 / 8]), (0x80, 0));
}

#[test]
fn answers() {
    let mut made = answer(bytes::SHORT);
    head::number.set(&mut made, 0xab_cdef);
    assert_eq!((number(&made), refusal(&made)), (0xab_cdef, (0, 0)));
    made[..8].copy_from_slice(&[3, 0, 0, 0, 0, 0x12, 0x34, 0x56]);
    assert_eq!(refusal(&made), (3, 0x12_3456));
    let mut state = answer(bytes::QUERY_QP_OUT);
    for (bits, wanted) in [(0, State::Reset), (3, State::ReadyToSend), (6, State::Error), (4, State::Other)] {
        state[24] = bits << 4;
        assert_eq!(State::of(&state), wanted);
    }
    assert_eq!(set(&query_capabilities(false)), [(0, 1), (7, 1)]);
    assert_eq!(set(&query_capabilities(true)), [(0, 1), (7, 9)]);
    let mut can = answer(bytes::CAPABILITY_OUT);
    assert_eq!((lacks(&can).len(), times(&can)), (4, 0));
    // Bits 0x21e, 0x220, 0x22c and 0x23f behind byte 16.
    (can[16 + 0x43], can[16 + 0x44], can[16 + 0x45], can[16 + 0x47]) = (0x02, 0x80, 0x08, 0x01);
    assert_eq!(lacks(&can), [] as [&str; 0]);
    can[16 + 0x45] = 0;
    assert_eq!(lacks(&can), ["WAIT elements (core-direct)"]);
    can[16 + 3] = 2;
    assert_eq!(times(&can), 1);
}
