use super::*;
use crate::coll::forced::parse;
use crate::coll::work::P2pItem;
use device::Kind::{Cpu, Cuda};

/// Of 8 GPUs of one team, and registered.
pub fn shape(kind: Kind, part: u64) -> Shape {
    let registered = true;
    Shape {
        device: Cuda,
        n_ranks: 8,
        lsa_size: 8,
        kind,
        part,
        send_registered: registered,
        recv_registered: registered,
        local: false,
        maps: false,
        switched: false,
    }
}

fn room(most: u32) -> Room {
    Room { most, least: 1 }
}

fn how(shape: Shape) -> How {
    choose(&shape, &Sizes::of(shape.device, shape.n_ranks, shape.lsa_size, room(66), false), None).how
}

#[test]
fn what_peers_touch_must_be_registered_for_direct() {
    use super::Kind::*;
    let large = 64 << 20;
    for (kind, without_send, without_recv) in [
        (AllReduce, How::Staged, How::Staged),
        (ReduceScatter, How::Staged, How::Direct),
        (Reduce, How::Staged, How::Direct),
        (AllGather, How::Direct, How::Staged),
        (Broadcast, How::Direct, How::Staged),
        (AlltoAll, How::Direct, How::Staged),
    ] {
        assert_eq!(how(shape(kind, large)), How::Direct, "{kind:?}");
        assert_eq!(how(Shape { send_registered: false, ..shape(kind, large) }), without_send, "{kind:?}");
        assert_eq!(how(Shape { recv_registered: false, ..shape(kind, large) }), without_recv, "{kind:?}");
        let teams = if kind.is_personal() { How::Staged } else { How::Buffered };
        assert_eq!(how(Shape { lsa_size: 4, ..shape(kind, large) }), teams, "{kind:?}");
        if kind.reduces() {
            assert_eq!(how(Shape { local: true, ..shape(kind, large) }), How::Staged, "{kind:?}");
        }
    }
    for kind in [Gather, Scatter] {
        assert_eq!(how(shape(kind, large)), How::Staged);
    }
}

/// Bytes that leave an LSA team, by rank: what is chosen has no more than the ring, but for messages so small that rounds count.
#[test]
fn large_calls_take_few_bytes_along_a_rail_and_small_ones_few_rounds() {
    let choice = |n_ranks, lsa_size, part| {
        let call = Shape { n_ranks, lsa_size, ..shape(Kind::AllReduce, part) };
        let choice = choose(&call, &Sizes::of(Cuda, n_ranks, lsa_size, room(66), false), None);
        (choice.how, choice.along)
    };
    assert_eq!(choice(32, 4, 1 << 20), (How::Buffered, Along::Ring));
    assert_eq!(choice(32, 4, 1 << 10), (How::Buffered, Along::Tree));
    assert_eq!(choice(8, 4, 1 << 30), (How::Buffered, Along::Tree), "as few bytes, in one round");
    assert_eq!(choice(8, 1, 1 << 20), (How::Buffered, Along::Ring), "teams of one rank");
    for (kind, n_ranks, part, wanted) in [
        (Kind::AllGather, 32, 1 << 10, Along::Tree),
        (Kind::ReduceScatter, 12, 8, Along::Tree),
        (Kind::AllGather, 8, 8, Along::Ring),
        (Kind::ReduceScatter, 32, 1 << 20, Along::Ring),
        (Kind::ReduceScatter, 4096, 8, Along::Ring),
    ] {
        let sizes = Sizes::of(Cuda, n_ranks, 4, room(66), false);
        let call = Shape { n_ranks, lsa_size: 4, ..shape(kind, part) };
        assert_eq!(choose(&call, &sizes, None).along, wanted, "{kind:?} of {part} bytes on {n_ranks}");
    }
}

/// Two teams have as few bytes either way, and on the CPU device a ring has less to copy: long pieces take it, in long slots where nobody waits for a team.
#[test]
fn two_teams_of_the_cpu_device_halve_long_pieces() {
    let along = |device, lsa_size, part| {
        let call = Shape { device, n_ranks: 2 * lsa_size, lsa_size, ..shape(Kind::AllReduce, part) };
        choose(&call, &Sizes::of(device, call.n_ranks, lsa_size, room(66), false), None).along
    };
    for (device, lsa_size, part, wanted) in [
        (Cpu, 1, (1 << 20) - 1, Along::Tree),
        (Cpu, 1, 1 << 20, Along::Ring),
        (Cpu, 4, (4 << 20) - 1, Along::Tree),
        (Cpu, 4, 4 << 20, Along::Ring),
        (Cuda, 1, 1 << 30, Along::Tree),
    ] {
        assert_eq!(along(device, lsa_size, part), wanted, "{device:?}, {part} bytes on 2 by {lsa_size}");
    }
    for (lsa_size, wanted) in [(1, 256 << 10), (2, 128 << 10), (3, 64 << 10), (4, 64 << 10), (5, 64 << 10), (64, 64 << 10)] {
        assert_eq!(Sizes::of(Cpu, 2 * lsa_size, lsa_size, room(66), false).rails.payload(), wanted, "2 by {lsa_size}");
    }
}

#[test]
fn channels_do_not_fall_with_the_number_of_ranks() {
    for (n_ranks, lsa_size) in [(16, 8), (128, 8), (1024, 8), (4096, 8), (128, 1)] {
        let sizes = Sizes::of(Cuda, n_ranks, lsa_size, room(66), false);
        assert!(sizes.rails.channels >= 8 && sizes.rails.bytes >= 64 << 10, "{n_ranks} by {lsa_size}: {sizes:?}");
    }
}

#[test]
fn small_calls_of_all_ranks_need_no_registration_and_no_barrier() {
    let small = Shape { send_registered: false, recv_registered: false, ..shape(Kind::AllReduce, 8) };
    for kind in [Kind::AllReduce, Kind::ReduceScatter, Kind::Reduce, Kind::AllGather, Kind::AlltoAll] {
        assert_eq!(how(Shape { kind, ..small }), How::Ll, "{kind:?}");
        assert_eq!(how(shape(kind, 8)), How::Ll, "{kind:?}, registered");
    }
    for kind in [Kind::Broadcast, Kind::Gather, Kind::Scatter] {
        assert_eq!(how(Shape { kind, ..small }), How::Staged, "{kind:?}");
    }
    assert_eq!(how(Shape { local: true, ..small }), How::Ll);
    assert_eq!(how(Shape { lsa_size: 4, ..small }), How::Buffered);
    assert_eq!(how(Shape { n_ranks: LL_RANKS + 1, lsa_size: LL_RANKS + 1, ..small }), How::Staged);
    assert_eq!(how(Shape { part: 1 << 62, n_ranks: 5, lsa_size: 5, ..small }), How::Staged, "no wrap-around");
    let sizes = Sizes::of(Cuda, 8, 8, room(66), false);
    let most = ll_limit(Cuda) / 7;
    let of = |kind, part| (how(shape(kind, part)), how(Shape { part, kind, ..small }));
    for kind in [Kind::AllGather, Kind::AllReduce, Kind::Reduce] {
        assert_eq!((of(kind, most), of(kind, most + 1)), ((How::Ll, How::Ll), (How::Direct, How::Staged)), "{kind:?}");
    }
    for bytes in 1..=most {
        let choice = choose(&Shape { part: bytes, ..small }, &sizes, None);
        // Two slots of 8 bytes for each thread and rank, in one epoch wherever the blocks suffice.
        assert!(
            choice.threads.is_multiple_of(32) && 2 * choice.threads * 8 <= sizes.ll_slots && choice.blocks.0 <= sizes.ll_blocks,
            "{choice:?}"
        );
    }
}

#[test]
fn large_calls_on_what_is_not_registered_are_mapped_where_ranks_tell_each_other() {
    use super::Kind::*;
    let call = |kind, part| Shape { send_registered: false, recv_registered: false, maps: true, ..shape(kind, part) };
    let least = [
        (AllReduce, 1 << 20),
        (Reduce, 1 << 20),
        (AllGather, 1 << 20),
        (AlltoAll, 1 << 20),
        (ReduceScatter, 1 << 20),
        (Gather, 128 << 20),
        (Scatter, 256 << 10),
        (Broadcast, 1 << 20),
    ];
    for (kind, least) in least {
        let parts = if matches!(kind, AllReduce | Reduce | Broadcast) { 1 } else { 8 };
        assert_eq!(how(call(kind, least / parts)), How::Mapped, "{kind:?}");
        assert_ne!(how(call(kind, least / parts - 1)), How::Mapped, "{kind:?}");
    }
    assert_eq!(
        [256 << 10, 2 << 20, (2 << 20) + 8].map(|all| how(call(Gather, all / 8))),
        [How::Mapped, How::Mapped, How::Staged]
    );
    let two = |kind, part| how(Shape { n_ranks: 2, lsa_size: 2, ..call(kind, part) });
    assert_eq!(
        (two(Broadcast, 16 << 20), two(Broadcast, (16 << 20) - 1), two(AllGather, 1 << 20), two(AllGather, (1 << 20) - 1)),
        (How::Mapped, How::Staged, How::Mapped, How::Staged)
    );
    assert_eq!(how(Shape { maps: false, ..call(AllGather, 64 << 20) }), How::Staged);
    // Also where a root has registered what others know nothing of.
    let registered = Shape { maps: true, ..shape(Reduce, 1 << 20) };
    assert_eq!(how(registered), How::Mapped);
    assert_eq!(how(Shape { part: (1 << 20) - 4, ..registered }), How::Direct);
    assert_eq!(how(Shape { maps: true, ..shape(ReduceScatter, 8 << 20) }), How::Mapped);
    let pair = |kind, part| how(Shape { n_ranks: 2, lsa_size: 2, maps: true, ..shape(kind, part) });
    assert_eq!(
        (pair(Reduce, 1 << 20), pair(Broadcast, 16 << 20), pair(AllGather, 16 << 20)),
        (How::Mapped, How::Mapped, How::Direct)
    );
    assert_eq!([(4 << 20) - 4, 4 << 20].map(|part| pair(AllReduce, part)), [How::Direct, How::Mapped]);
    assert_eq!(
        [(64 << 20) - 4, 64 << 20].map(|part| how(Shape { maps: true, ..shape(AllReduce, part) })),
        [How::Direct, How::Mapped]
    );
    assert_eq!(how(Shape { recv_registered: true, ..call(AllGather, 64 << 20) }), How::Direct);
    assert_eq!(how(Shape { local: true, ..call(AllReduce, 64 << 20) }), How::Mapped);
    assert_eq!(how(Shape { device: Cpu, ..call(AllReduce, 64 << 20) }), How::Buffered);
    // The grid is the staged one's, which may have to be gone on with.
    let sizes = Sizes::of(Cuda, 8, 8, room(66), false);
    for kind in [AllGather, AllReduce] {
        let staged = choose(&Shape { maps: false, ..call(kind, 64 << 20) }, &sizes, None);
        assert_eq!(Choice { how: How::Staged, ..choose(&call(kind, 64 << 20), &sizes, None) }, staged);
    }
    // All of its blocks have a barrier, on CPUs too.
    for (device, most) in [(Cuda, 66), (Cuda, 4), (Cpu, 16), (Cpu, 1)] {
        let sizes = Sizes::of(device, 8, 8, room(most), false);
        for kind in [AllGather, AllReduce] {
            let mapped = choose(&Shape { device, ..call(kind, 64 << 20) }, &sizes, Some(parse(Some("mapped")).unwrap().unwrap()));
            assert!(mapped.how == How::Mapped && mapped.blocks.0 * mapped.blocks.1 <= sizes.meetings(), "{mapped:?}");
        }
    }
}

#[test]
fn a_broadcast_to_several_goes_through_scratch_before_it_is_passed_on() {
    let broadcast = |part| Shape { recv_registered: false, ..shape(Kind::Broadcast, part) };
    let sizes = [(256 << 10) - 1, 256 << 10, (4 << 20) - 1, 4 << 20];
    assert_eq!(sizes.map(|part| how(broadcast(part))), [How::Staged, How::Buffered, How::Buffered, How::Staged]);
    assert_eq!(how(Shape { n_ranks: 2, lsa_size: 2, ..broadcast(1 << 20) }), How::Staged);
    assert_eq!(how(Shape { device: Cpu, ..broadcast(1 << 20) }), How::Staged);
}

#[test]
fn the_switch_is_taken_where_it_is_asked_for_and_can_be() {
    use super::Kind::*;
    let sizes = Sizes::of(Cuda, 8, 8, room(66), false);
    let with = |call: Shape| choose(&call, &sizes, parse(Some("multicast")).unwrap()).how;
    let call = |kind| Shape { switched: true, ..shape(kind, 64 << 20) };
    for kind in [AllReduce, ReduceScatter, AllGather] {
        assert_eq!((with(call(kind)), how(call(kind))), (How::Multicast, How::Direct), "{kind:?}");
        assert_eq!(with(Shape { switched: false, ..call(kind) }), How::Direct, "{kind:?}");
        let plain = Shape { send_registered: false, recv_registered: false, ..call(kind) };
        assert_ne!(with(plain), How::Multicast, "{kind:?}");
    }
    for kind in [Reduce, Broadcast, AlltoAll, Gather, Scatter] {
        assert_ne!(with(call(kind)), How::Multicast, "{kind:?}");
    }
}

#[test]
fn a_way_that_is_asked_for_is_taken_where_it_can_be() {
    let sizes = Sizes::of(Cpu, 4, 4, room(16), false);
    let call = Shape { device: Cpu, n_ranks: 4, lsa_size: 4, ..shape(Kind::AllGather, 1 << 20) };
    let with = |text| choose(&call, &sizes, parse(Some(text)).unwrap());
    assert_eq!((with("staged").how, with("ll").how, with("auto").how), (How::Staged, How::Ll, How::Direct));
    let broadcast = choose(&Shape { kind: Kind::Broadcast, ..call }, &sizes, parse(Some("ll")).unwrap());
    assert_eq!(broadcast.how, How::Direct, "it has no LL");
    assert_eq!((with("direct:1").blocks, with("direct:99").blocks), ((1, 1), (sizes.barriers, 1)));
    assert_eq!(with("staged:3x32").blocks, (3, 2));
    assert!(parse(None).unwrap().is_none());
    for wrong in ["fast", "ll:", "ll:0", "ll:8x", "ll:8x100", "direct:-1", ":4", "direct:1x32x1"] {
        assert_eq!(parse(Some(wrong)).unwrap_err().id, 92, "{wrong}");
    }
}

/// What the kernels rely on, for any size of communicator and of device.
#[test]
fn every_grid_fits_its_memory_and_its_device() {
    for device in [Cpu, Cuda] {
        let shapes =
            [(1, 1), (2, 2), (2, 1), (3, 1), (8, 8), (8, 4), (16, 1), (64, 8), (500, 500), (1024, 4), (4096, 4096), (4096, 8)];
        for (n_ranks, lsa_size) in shapes {
            let hosted = n_ranks > lsa_size;
            let blocks = [1, 2, 3, 4, 14, 16, 33, 40, 64, 1000];
            for (blocks, hosted) in blocks.iter().flat_map(|&blocks| [(blocks, false), (blocks, hosted)]) {
                let sizes = Sizes::of(device, n_ranks, lsa_size, room(blocks), hosted);
                let at = format!("{device:?}, {n_ranks} ranks, {blocks} blocks, hosted {hosted}: {sizes:?}");
                for slots in [sizes.pairs, sizes.rails] {
                    assert!(slots.channels >= 1 && slots.slots.is_power_of_two() && slots.bytes.is_multiple_of(128), "{at}");
                }
                assert!(sizes.piece > 0 && sizes.piece.is_multiple_of(128), "{at}");
                if n_ranks > lsa_size {
                    let most = u64::from(n_ranks / lsa_size) * u64::from(sizes.rails.payload());
                    assert!(u64::from(sizes.piece) <= most && sizes.barriers <= sizes.rails.channels, "{at}");
                }
                assert!(sizes.barriers <= blocks && sizes.ll_blocks <= blocks, "{at}");
                // With one channel, as few as the way can be played with.
                let fits = |(x, y): (u32, u32)| x * y <= blocks || (x == 1 && y > blocks);
                for kind in [Kind::AllReduce, Kind::ReduceScatter, Kind::AlltoAll, Kind::Gather] {
                    for part in [1, 1000, 1 << 16, 1 << 22, 1 << 34] {
                        let registered = (part & 1) != 0;
                        let call = Shape { send_registered: registered, recv_registered: registered, ..shape(kind, part) };
                        let choice = choose(&Shape { device, n_ranks, lsa_size, ..call }, &sizes, None);
                        let right = match choice.how {
                            How::Staged => choice.blocks.0 >= 1 && choice.most <= sizes.pairs.channels,
                            How::Ll => choice.blocks.0 <= sizes.ll_blocks,
                            How::Buffered if kind.is_personal() => choice.blocks.0 <= sizes.barriers.min(sizes.pairs.channels),
                            _ => choice.blocks.0 <= sizes.barriers,
                        };
                        assert!(right, "{at}: {choice:?}");
                        assert!(fits(choice.blocks) && fits((choice.most, choice.blocks.1)), "{at}: {choice:?}");
                        assert!(choice.blocks.0 <= choice.most, "{at}: {choice:?}");
                    }
                }
                let item = |round: u32, bytes| P2pItem { round, bytes, ..P2pItem::default() };
                for (rounds, bytes) in [(1, 8), (64, 8), (3, 1 << 30), (64, 1 << 30), (1, 0)] {
                    let batch = Batch { sends: (0..rounds).map(|round| item(round, bytes)).collect(), recvs: vec![item(0, 1)] };
                    for straight in [None, Some(1 << 20)] {
                        let choice = point_to_point(device, &sizes, &batch, straight);
                        assert!(choice.narrow <= sizes.pairs.channels, "{at}: {choice:?}");
                        assert!(
                            choice.sets >= 1 && choice.sets <= rounds && choice.channels <= sizes.pairs.channels,
                            "{at}: {choice:?}"
                        );
                        assert!(fits(choice.blocks), "{at}: {choice:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn the_programs_least_number_of_blocks_is_taken_where_the_way_has_them() {
    let sizes = Sizes::of(Cuda, 4, 4, Room { most: 32, least: 8 }, false);
    let blocks = |forced, kind, part| {
        let call = Shape { n_ranks: 4, lsa_size: 4, ..shape(kind, part) };
        choose(&call, &sizes, parse(Some(forced)).unwrap()).blocks
    };
    assert_eq!(blocks("ll", Kind::AllReduce, 8), (8, 1));
    assert_eq!(blocks("direct", Kind::AllReduce, 8), (8, 1));
    assert_eq!(blocks("buffered", Kind::AllReduce, 8), (8, 1));
    assert_eq!(blocks("staged", Kind::AlltoAll, 8), (8, 1));
    assert_eq!(blocks("direct", Kind::AlltoAll, 1 << 30), (32, 1));
}
