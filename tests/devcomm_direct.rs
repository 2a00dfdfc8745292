//! Device communicators with direct GIN contexts: who gets them, their words in the flat space, ids and zeroing.

mod common;

use common::hang_limit::HANG_LIMIT;
use common::{load, processes, read, store, threads, with_settings};
use ginrs::comm::Comm;
use ginrs::devcomm::{Requirements, create, destroy};
use ginrs::error::{Code, Error};
use ginrs::layout::{ncclDevComm, ncclGinProxyGpuCtx_t};
use std::time::Instant;

/// `ginrsGinExt` as the headers read it (include/ginrs_device/marker.h).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Extension {
    magic: u64,
    version: u32,
    hint_mask: u32,
    pointers: [u64; 5],
    flags: u32,
    stride: u32,
    signals: u64,
    largest: u64,
    ids: [u32; 2],
    refusal: u64,
    own: [u64; 3],
}

const FLAG: u32 = 1;

fn context(dc: &ncclDevComm, c: usize) -> (ncclGinProxyGpuCtx_t, Extension) {
    (read(dc.ginHandles[c]), read(dc.ginHandles[c] + 64))
}

/// Address of signal `id` of LSA rank `rank`, as a put of a direct context reckons it.
fn signal(dc: &ncclDevComm, c: usize, rank: u32, id: u32) -> u64 {
    let ext = context(dc, c).1;
    ext.signals + (u64::from(rank * ext.stride) << 32) + 8 * u64::from(dc.ginSignalBase + id)
}

fn counter(dc: &ncclDevComm, c: usize, id: u32) -> u64 {
    context(dc, c).0.counters + 8 * u64::from(dc.ginCounterBase + id)
}

fn wish(direct: bool) -> Requirements {
    Requirements { gin_signal_count: 3, gin_counter_count: 2, direct, ..Requirements::default() }
}

fn ids(dc: &ncclDevComm) -> [u32; 2] {
    [dc.ginSignalBase, dc.ginCounterBase]
}

fn everyone_adds_to_everyone_and_reused_ids_start_at_zero(comm: &Comm) {
    let dc = create(&comm.devcomms, &comm.windows, &wish(true)).unwrap().dev_comm;
    assert_eq!((dc.ginTypes, dc.ginContextCount), ([2; 4], 4));
    for c in 0..4 {
        let (abi, ext) = context(&dc, c);
        let version = ginrs::layout::GIN_EXT_VERSION;
        assert_eq!((ext.version, ext.flags, ext.largest, ext.ids), (version, FLAG, 256 << 10, [65536, 65536]));
        assert_eq!(abi.signals + 8 * u64::from(dc.ginSignalBase), signal(&dc, c, comm.team.rank, 0));
    }
    // Rank r leaves its mark in word r % 3 of every rank, as its kernels would; words of one context are no other's.
    for (c, peer) in (0..4).flat_map(|c| (0..comm.team.n_ranks).map(move |peer| (c, peer))) {
        store(signal(&dc, c, peer, comm.team.rank % 3), 100 * c as u64 + u64::from(comm.team.rank));
        store(counter(&dc, c, 1), 7);
    }
    comm.team.bootstrap.barrier("written").unwrap();
    for (c, from) in (0..4).flat_map(|c| (0..comm.team.n_ranks.min(3)).map(move |from| (c, from))) {
        let last = (0..comm.team.n_ranks).filter(|rank| rank % 3 == from).map(|rank| 100 * c as u64 + u64::from(rank));
        assert!(last.into_iter().any(|value| value == load(signal(&dc, c, comm.team.rank, from))), "context {c}, from {from}");
    }
    comm.team.bootstrap.barrier("read").unwrap();
    destroy(&comm.devcomms, &comm.windows, &dc).unwrap();
    let again = create(&comm.devcomms, &comm.windows, &wish(true)).unwrap().dev_comm;
    assert_eq!(ids(&again), ids(&dc));
    for c in 0..4 {
        assert!((0..3).all(|id| load(signal(&again, c, comm.team.rank, id)) == 0) && load(counter(&again, c, 1)) == 0);
    }
    destroy(&comm.devcomms, &comm.windows, &again).unwrap();
}

#[test]
fn thread_ranks() {
    threads(4, |comm| everyone_adds_to_everyone_and_reused_ids_start_at_zero(comm));
}

#[test]
fn process_ranks() {
    processes("process_ranks", 3, 1, |comm| everyone_adds_to_everyone_and_reused_ids_start_at_zero(comm));
}

#[test]
fn both_kinds_stand_side_by_side_with_ids_of_their_own() {
    threads(2, |comm| {
        let [direct, proxied] =
            [true, false].map(|direct| create(&comm.devcomms, &comm.windows, &wish(direct)).unwrap().dev_comm);
        assert!((0..4).all(|c| context(&direct, c).1.flags == FLAG && context(&proxied, c).1.flags == 0));
        assert_eq!((ids(&direct), ids(&proxied)), ([0, 0], [0, 0]));
        let more = [true, false].map(|direct| create(&comm.devcomms, &comm.windows, &wish(direct)).unwrap().dev_comm);
        assert_eq!(more.each_ref().map(ids), [[3, 2], [3, 2]]);
        // Each gives back what it has: a direct one frees nothing of the proxied ones.
        destroy(&comm.devcomms, &comm.windows, &direct).unwrap();
        let [next_direct, next_proxied] =
            [true, false].map(|direct| create(&comm.devcomms, &comm.windows, &wish(direct)).unwrap().dev_comm);
        assert_eq!((ids(&next_direct), ids(&next_proxied)), ([0, 0], [6, 4]));
        for dc in [proxied, more[0], more[1], next_direct, next_proxied] {
            destroy(&comm.devcomms, &comm.windows, &dc).unwrap();
        }
        assert!(comm.devcomms.is_empty());
    });
}

/// Counters alone need no resource window: what tells two such communicators apart is their contexts.
#[test]
fn counters_alone_go_back_to_their_own_pool() {
    threads(2, |comm| {
        let only = |direct| Requirements { gin_counter_count: 5, direct, ..Requirements::default() };
        let [direct, proxied] =
            [true, false].map(|direct| create(&comm.devcomms, &comm.windows, &only(direct)).unwrap().dev_comm);
        assert_eq!((direct.resourceWindow, ids(&direct)), (proxied.resourceWindow, ids(&proxied)));
        destroy(&comm.devcomms, &comm.windows, &proxied).unwrap();
        assert_eq!(
            ids(&create(&comm.devcomms, &comm.windows, &only(true)).unwrap().dev_comm),
            [0, 5],
            "the direct ones are still taken"
        );
        assert_eq!(ids(&create(&comm.devcomms, &comm.windows, &only(false)).unwrap().dev_comm), [0, 0]);
        destroy(&comm.devcomms, &comm.windows, &direct).unwrap();
    });
}

#[test]
fn ranks_that_wish_differently_are_named_and_can_go_on() {
    threads(3, |comm| {
        let error = create(&comm.devcomms, &comm.windows, &wish(comm.team.rank == 1)).unwrap_err();
        assert_eq!((error.code, error.id, error.culprit), (Code::InvalidArgument, 53, Some(1)));
        for words in ["NCCL_GIN_BACKEND", "GINRS_GIN_DIRECT", "ranks 0+2 proxy", "rank 1 direct"] {
            assert!(error.text.contains(words), "{words}: {error}");
        }
        let dc = create(&comm.devcomms, &comm.windows, &wish(true)).unwrap().dev_comm;
        destroy(&comm.devcomms, &comm.windows, &dc).unwrap();
    });
}

#[test]
fn the_variable_makes_all_contexts_direct() {
    with_settings(
        "the_variable_makes_all_contexts_direct",
        &[("NCCL_GIN_BACKEND", "direct"), ("GINRS_DIRECT_LARGEST", "4096")],
        || {
            threads(2, |comm| {
                let dc = create(&comm.devcomms, &comm.windows, &wish(false)).unwrap().dev_comm;
                assert_eq!((context(&dc, 0).1.flags, context(&dc, 3).1.largest), (FLAG, 4096));
            });
        },
    );
}

#[test]
fn the_variable_keeps_them_proxied() {
    with_settings("the_variable_keeps_them_proxied", &[("NCCL_GIN_BACKEND", "proxy")], || {
        threads(2, |comm| {
            assert_eq!(context(&create(&comm.devcomms, &comm.windows, &wish(true)).unwrap().dev_comm, 0).1.flags, 0)
        });
    });
}

/// A wish is no demand: where ranks do not reach each other, contexts are proxied.
#[test]
fn a_wish_over_two_nodes_falls_back() {
    with_settings("a_wish_over_two_nodes_falls_back", &[("GINRS_FAKE_NODES", "0,0,1,1")], || {
        threads(4, |comm| {
            assert_eq!(context(&create(&comm.devcomms, &comm.windows, &wish(true)).unwrap().dev_comm, 0).1.flags, 0)
        });
    });
}

#[track_caller]
fn refused(name: &str, backend: &str, nodes: &str, check: impl Fn(&Error) + Sync) {
    with_settings(name, &[("NCCL_GIN_BACKEND", backend), ("GINRS_FAKE_NODES", nodes)], || {
        threads(2, |comm| {
            let error = create(&comm.devcomms, &comm.windows, &wish(false)).unwrap_err();
            check(&error);
            assert!(error.text.contains("NCCL_GIN_BACKEND") && !comm.team.abort.is_raised(), "{error}");
        });
    });
}

#[test]
fn a_demand_over_two_nodes_is_an_error() {
    refused("a_demand_over_two_nodes_is_an_error", "direct", "0,1", |error| {
        assert_eq!((error.code, error.id), (Code::InvalidUsage, 80));
        assert!(error.text.contains("1 of 2 ranks"), "{error}");
    });
}

#[test]
fn an_unknown_backend_is_an_error() {
    refused("an_unknown_backend_is_an_error", "nvlink", "0,0", |error| {
        assert_eq!((error.code, error.id), (Code::InvalidUsage, 82));
        assert!(error.text.contains("\"nvlink\""), "{error}");
    });
}

/// Waits of kernels on signals and counters end after an abort, also of kernels that read no abort word.
#[test]
fn an_abort_moves_the_words() {
    threads(2, |comm| {
        let dc = create(&comm.devcomms, &comm.windows, &wish(true)).unwrap().dev_comm;
        comm.team.bootstrap.barrier("made").unwrap();
        comm.team.abort.raise(Error::new(Code::InternalError, 1, "planted by a test"));
        let begin = Instant::now();
        let words: Vec<u64> = (0..4).flat_map(|c| [signal(&dc, c, comm.team.rank, 2), counter(&dc, c, 1)]).collect();
        while words.iter().any(|&word| load(word) == 0) {
            assert!(begin.elapsed() < HANG_LIMIT);
            std::thread::yield_now();
        }
        assert_eq!(load(signal(&dc, 0, comm.team.rank, 3)), 0, "nobody's");
    });
}
