//! Device communicators with GIN: contexts, ids and what is zeroed, agreed on by all ranks.

mod common;
mod kernel;

use common::{load, processes, read, store, threads, with_settings};
use ginrs::comm::Comm;
use ginrs::devcomm::{Requirements, Resource, create, destroy};
use ginrs::error::Code;
use ginrs::layout::{ncclDevComm, ncclGinProxyGpuCtx_t, ncclWindow_vidmem};

const MIB: usize = 1 << 20;

/// Address of signal `id` of context `context`, as device code computes it.
fn signal(dc: &ncclDevComm, context: usize, id: u32) -> u64 {
    read::<ncclGinProxyGpuCtx_t>(dc.ginHandles[context]).signals + 8 * u64::from(dc.ginSignalBase + id)
}

fn counter(dc: &ncclDevComm, context: usize, id: u32) -> u64 {
    read::<ncclGinProxyGpuCtx_t>(dc.ginHandles[context]).counters + 8 * u64::from(dc.ginCounterBase + id)
}

fn ids(dc: &ncclDevComm) -> (u32, i32, u32, i32) {
    (dc.ginSignalBase, dc.ginSignalCount, dc.ginCounterBase, dc.ginCounterCount)
}

#[test]
fn two_nodes_of_eight_are_the_specifications_vector() {
    let nodes = "0,0,0,0,0,0,0,0,1,1,1,1,1,1,1,1";
    with_settings("two_nodes_of_eight_are_the_specifications_vector", &[("GINRS_FAKE_NODES", nodes)], || {
        threads(16, |comm| {
            let reqs = Requirements { barrier_count: 4, gin_signal_count: 3, gin_counter_count: 2, ..Default::default() };
            let dc = create(&comm.devcomms, &comm.windows, &reqs).unwrap().dev_comm;
            let window = dc.resourceWindow_inlined;
            let local = window.lsaFlatBase + (u64::from(comm.team.rank % 8 * window.stride4G) << 32);
            assert_eq!((dc.lsaSize, dc.lsaRank, dc.nRanks), (8, comm.team.rank as i32 % 8, 16));
            assert_eq!((dc.railGinBarrier.signal0, dc.railGinBarrier.bufHandle), (3, 0));
            assert_eq!((dc.lsaBarrier.bufHandle, dc.lsaBarrier.nBarriers), (1, 4));
            assert_eq!((dc.ginSignalShadows - local, dc.ginContextCount, dc.ginTypes), (384, 4, [2; 4]));
            let second = create(&comm.devcomms, &comm.windows, &reqs).unwrap().dev_comm;
            assert_eq!((ids(&dc), ids(&second)), ((0, 7, 0, 2), (7, 7, 2, 2)));
            // Also those of the first, which is made while GIN is.
            let known = [&dc, &second].map(|dc| dc.resourceWindow_inlined.ginWins.iter().all(|win| *win != 0));
            assert_eq!(known, [true; 2]);
            assert!(dc.ginHandles.iter().all(|context| !second.ginHandles.contains(context)));
            destroy(&comm.devcomms, &comm.windows, &dc).unwrap();
            destroy(&comm.devcomms, &comm.windows, &second).unwrap();
        });
    });
}

fn reused_ids_start_at_zero(comm: &Comm) {
    let entry = Resource { bytes: 256, align: 64, gin_signals: 2, gin_counters: 1, waits: None };
    let reqs = Requirements { gin_signal_count: 1, resources: vec![entry], ..Default::default() };
    let made = create(&comm.devcomms, &comm.windows, &reqs).unwrap();
    let dc = made.dev_comm;
    assert_eq!((made.outputs[0].signal_start, made.outputs[0].counter_start), (1, 0));
    assert_eq!(ids(&dc), (0, 3, 0, 1));
    for context in 0..dc.ginContextCount as usize {
        (0..3).for_each(|id| store(signal(&dc, context, id), 99));
        store(counter(&dc, context, 0), 5);
    }
    comm.team.bootstrap.barrier("written").unwrap();
    destroy(&comm.devcomms, &comm.windows, &dc).unwrap();
    let dc = create(&comm.devcomms, &comm.windows, &reqs).unwrap().dev_comm;
    assert_eq!(ids(&dc), (0, 3, 0, 1));
    for context in 0..dc.ginContextCount as usize {
        assert!((0..3).all(|id| load(signal(&dc, context, id)) == 0) && load(counter(&dc, context, 0)) == 0);
    }
    destroy(&comm.devcomms, &comm.windows, &dc).unwrap();
}

#[test]
fn reused_ids_start_at_zero_on_thread_ranks() {
    threads(3, |comm| reused_ids_start_at_zero(comm));
}

#[test]
fn reused_ids_start_at_zero_on_process_ranks() {
    processes("reused_ids_start_at_zero_on_process_ranks", 2, 1, |comm| reused_ids_start_at_zero(comm));
}

#[test]
fn windows_get_their_handles_when_gin_starts() {
    threads(2, |comm| {
        let base = comm.team.device.alloc(2 * MIB).unwrap();
        let early = comm.windows.register(base + 0x1000, MIB, 0).unwrap();
        assert_eq!(read::<ncclWindow_vidmem>(early).ginWins, [0; 4]);
        let lsa_only = Requirements { lsa_barrier_count: 1, ..Default::default() };
        let without = create(&comm.devcomms, &comm.windows, &lsa_only).unwrap().dev_comm;
        assert_eq!((without.ginContextCount, without.ginHandles), (0, [0; 4]));
        let with = create(&comm.devcomms, &comm.windows, &Requirements { rail_gin_barrier_count: 1, ..Default::default() })
            .unwrap()
            .dev_comm;
        assert_eq!((with.ginContextCount, ids(&with)), (4, (0, 1, 0, 0)));
        let (old, late) = (read::<ncclWindow_vidmem>(early), comm.windows.register(base, MIB, 0).unwrap());
        let new = read::<ncclWindow_vidmem>(late);
        assert!(old.ginWins[0] != 0 && old.ginWins == [old.ginWins[0]; 4]);
        assert_eq!((old.ginOffset4K, new.ginOffset4K), (1, 0));
        assert_ne!(new.ginWins, old.ginWins, "each window of a memory is bounded by itself");
        assert_ne!(with.resourceWindow_inlined.ginWins, old.ginWins);
        // GIN stays: what comes later has its contexts, whether it asks or not.
        let later = create(&comm.devcomms, &comm.windows, &lsa_only).unwrap().dev_comm;
        assert_eq!((later.ginContextCount, ids(&later)), (4, (0, 0, 0, 0)));
        for dc in [without, with, later] {
            destroy(&comm.devcomms, &comm.windows, &dc).unwrap();
        }
        for win in [early, late] {
            comm.windows.deregister(win).unwrap();
        }
        // The same memory anew: another handle than the stale one.
        let again = comm.windows.register(base, MIB, 0).unwrap();
        assert_ne!(read::<ncclWindow_vidmem>(again).ginWins, old.ginWins);
        comm.windows.deregister(again).unwrap();
    });
}

#[test]
fn an_exhausted_pool_fails_alike_and_leaves_nothing() {
    let settings = [("NCCL_GIN_SIGNAL_POOL_SIZE", "16"), ("NCCL_GIN_COUNTER_POOL_SIZE", "4"), ("NCCL_GIN_NCONTEXTS", "2")];
    with_settings("an_exhausted_pool_fails_alike_and_leaves_nothing", &settings, || {
        threads(2, |comm| {
            let want =
                |gin_signal_count, gin_counter_count| Requirements { gin_signal_count, gin_counter_count, ..Default::default() };
            // GIN that was connected for it goes with it, and is connected anew for the next one.
            assert_eq!(create(&comm.devcomms, &comm.windows, &want(17, 0)).unwrap_err().code, Code::InternalError);
            assert!(comm.windows.gin().is_none());
            let dc = create(&comm.devcomms, &comm.windows, &want(10, 0)).unwrap().dev_comm;
            assert_eq!((dc.ginContextCount, dc.ginTypes), (2, [2, 2, 0, 0]));
            for reqs in [want(7, 1), want(1, 5)] {
                assert_eq!(create(&comm.devcomms, &comm.windows, &reqs).unwrap_err().code, Code::InternalError);
            }
            let rest = create(&comm.devcomms, &comm.windows, &want(6, 4)).unwrap().dev_comm;
            assert_eq!(ids(&rest), (10, 6, 0, 4));
            destroy(&comm.devcomms, &comm.windows, &dc).unwrap();
            let again = create(&comm.devcomms, &comm.windows, &want(9, 0)).unwrap().dev_comm;
            assert_eq!(ids(&again), (0, 9, 0, 0));
            destroy(&comm.devcomms, &comm.windows, &again).unwrap();
            destroy(&comm.devcomms, &comm.windows, &rest).unwrap();
            assert!(comm.windows.is_empty());
        });
    });
}

/// A device communicator's kernels name its own ids, or the communicator ends and no word has moved: those beside its range are
/// another's, whether they come as a signal or as a counter, and those of one that was destroyed are nobody's.
#[test]
fn ids_of_another_device_communicator_are_refused() {
    // Signals 2 to 5 and counters 2 to 3 are the second's.
    let table = [
        (Some(2), None, true),
        (Some(5), Some(3), true),
        (Some(1), None, false),
        (Some(6), None, false),
        (Some(0xffff), None, false),
        (Some(20_000), None, false),
        (None, Some(2), true),
        (None, Some(1), false),
        (None, Some(4), false),
    ];
    for (signal_id, counter_id, good) in table {
        threads(1, |comm| {
            let want =
                |gin_signal_count, gin_counter_count| Requirements { gin_signal_count, gin_counter_count, ..Default::default() };
            let [first, second, third] =
                [want(2, 2), want(4, 2), want(2, 2)].map(|reqs| create(&comm.devcomms, &comm.windows, &reqs).unwrap().dev_comm);
            assert_eq!(ids(&second), (2, 4, 2, 2));
            post(comm, &second, 1, signal_id, counter_id);
            assert_eq!(comm.team.abort.is_raised(), !good, "{signal_id:?} {counter_id:?}: {:?}", comm.team.abort.cause());
            if !good {
                let text = &comm.team.abort.cause().unwrap().text;
                assert!(text.contains("context 1") && text.contains("the device communicator has"), "{text}");
            }
            for dc in [first, third] {
                // What the abort itself adds is in the upper bits.
                let moved = |word| load(word) & 0x3f != 0;
                assert!(
                    (0..2).all(|id| !moved(signal(&dc, 1, id)) && !moved(counter(&dc, 1, id))),
                    "{signal_id:?} {counter_id:?}"
                );
            }
        });
    }
    threads(1, |comm| {
        let reqs = Requirements { gin_signal_count: 4, ..Default::default() };
        let gone = create(&comm.devcomms, &comm.windows, &reqs).unwrap().dev_comm;
        destroy(&comm.devcomms, &comm.windows, &gone).unwrap();
        post(comm, &gone, 0, Some(0), None);
        assert!(
            comm.team.abort.cause().unwrap().text.contains("signal 0, the device communicator has 0"),
            "{:?}",
            comm.team.abort.cause()
        );
    });
}

/// Contexts are a device communicator's own, and serve the next one when it goes.
#[test]
fn each_device_communicator_has_contexts_of_its_own() {
    threads(2, |comm| {
        let reqs = Requirements { gin_signal_count: 3, gin_counter_count: 1, ..Default::default() };
        let all: Vec<_> = (0..40).map(|_| create(&comm.devcomms, &comm.windows, &reqs).unwrap().dev_comm).collect();
        let mut handles: Vec<u64> = all.iter().flat_map(|dc| dc.ginHandles).collect();
        handles.sort_unstable();
        handles.dedup();
        assert_eq!(handles.len(), 160);
        comm.team.bootstrap.barrier("made").unwrap();
        for (i, dc) in all.iter().enumerate().step_by(13) {
            for context in 0..4 {
                post(comm, dc, context, Some((dc.ginSignalBase + 2) as u16), Some(dc.ginCounterBase as u16));
            }
            assert!(comm.team.abort.cause().is_none(), "device communicator {i}: {:?}", comm.team.abort.cause());
        }
        all.iter().for_each(|dc| destroy(&comm.devcomms, &comm.windows, dc).unwrap());
        let again = create(&comm.devcomms, &comm.windows, &reqs).unwrap().dev_comm;
        assert!(handles.binary_search(&again.ginHandles[0]).is_ok(), "none is made while one is free");
        post(comm, &again, 3, Some(2), Some(0));
        assert!(comm.team.abort.cause().is_none());
        destroy(&comm.devcomms, &comm.windows, &again).unwrap();
    });
}

/// A descriptor of one byte to this rank itself with these absolute ids, as a kernel of `dc` posts it; until it is done or refused.
fn post(comm: &Comm, dc: &ncclDevComm, context: usize, signal: Option<u16>, counter: Option<u16>) {
    use ginrs::gin::descriptor::{Descriptor, SignalOp, Source};
    // SAFETY: contexts live as long as the communicator.
    let kernel = unsafe { kernel::Kernel::attach(dc.ginHandles[context]) };
    let source = Source::Memory { handle: 0, offset: 0 };
    let signal = signal.map(|id| (id, SignalOp::Add(3)));
    let put = Descriptor { bytes: 0, source, dst_handle: 0, dst_offset: 0, signal, counter };
    assert!(kernel.post(comm.team.rank, &put, std::thread::yield_now));
    let claimed = kernel.claimed(comm.team.rank);
    let end = common::hang_limit::hang_deadline();
    while !kernel.flushed(comm.team.rank, claimed) {
        assert!(std::time::Instant::now() < end);
        std::thread::yield_now();
    }
}

/// What a kernel claimed and never wrote holds a destroy up; then the device communicator stands, and the call may come again.
#[test]
fn a_destroy_that_cannot_end_takes_nothing() {
    with_settings("a_destroy_that_cannot_end_takes_nothing", &[("GINRS_TIMEOUT", "3")], || {
        threads(1, |comm| {
            let reqs = Requirements { gin_signal_count: 4, lsa_barrier_count: 1, ..Default::default() };
            let dc = create(&comm.devcomms, &comm.windows, &reqs).unwrap().dev_comm;
            let windows = comm.windows.len();
            // SAFETY: a context of a device communicator that stands.
            let kernel = unsafe { kernel::Kernel::attach(dc.ginHandles[1]) };
            let index = kernel.claim(0);
            for _ in 0..2 {
                assert_eq!(destroy(&comm.devcomms, &comm.windows, &dc).unwrap_err().id, 48);
                assert_eq!((comm.windows.len(), comm.devcomms.len()), (windows, 1));
            }
            kernel.write(0, index, &[3, 1, 1, 1, 1, 1, 1, 1]);
            destroy(&comm.devcomms, &comm.windows, &dc).unwrap();
            assert!(comm.windows.is_empty() && comm.devcomms.is_empty());
            assert_eq!(destroy(&comm.devcomms, &comm.windows, &dc).unwrap_err().id, 57);
            assert_eq!(ids(&create(&comm.devcomms, &comm.windows, &reqs).unwrap().dev_comm), (0, 4, 0, 0));
        });
    });
}

#[test]
fn ranks_that_destroyed_in_another_order_are_told() {
    threads(2, |comm| {
        let reqs = Requirements { gin_signal_count: 4, ..Default::default() };
        let [a, b] = [0, 1].map(|_| create(&comm.devcomms, &comm.windows, &reqs).unwrap().dev_comm);
        let (kept, gone) = if comm.team.rank == 0 { (a, b) } else { (b, a) };
        destroy(&comm.devcomms, &comm.windows, &gone).unwrap();
        let error = create(&comm.devcomms, &comm.windows, &reqs).unwrap_err();
        assert!(error.id == 53 && error.text.contains("first signal differs | rank 0 4, rank 1 0"), "{error}");
        destroy(&comm.devcomms, &comm.windows, &kept).unwrap();
        let dc = create(&comm.devcomms, &comm.windows, &reqs).unwrap().dev_comm;
        assert_eq!(ids(&dc), (0, 4, 0, 0));
        destroy(&comm.devcomms, &comm.windows, &dc).unwrap();
    });
}

#[test]
fn gin_switched_off_is_an_error_only_where_it_is_needed() {
    let settings = [("NCCL_GIN_ENABLE", "0"), ("GINRS_FAKE_NODES", "0,1")];
    with_settings("gin_switched_off_is_an_error_only_where_it_is_needed", &settings, || {
        threads(2, |comm| {
            let error =
                create(&comm.devcomms, &comm.windows, &Requirements { barrier_count: 1, ..Default::default() }).unwrap_err();
            assert!(error.code == Code::InternalError && error.text.contains("NCCL_GIN_ENABLE=0"), "{error}");
            let dc = create(&comm.devcomms, &comm.windows, &Requirements { lsa_barrier_count: 1, ..Default::default() })
                .unwrap()
                .dev_comm;
            assert_eq!(dc.ginContextCount, 0);
            destroy(&comm.devcomms, &comm.windows, &dc).unwrap();
        });
    });
}
