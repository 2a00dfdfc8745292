//! The requirement walk against the specification's figures (spec host 1.9) and against itself.

use super::requirements::*;
use proptest::prelude::*;

fn resource(bytes: u64, align: u64) -> Resource {
    Resource { bytes, align, ..Default::default() }
}

/// ncclLLA2ACreateRequirement and ncclLsaBarrierCreateRequirement, in bytes.
fn lla2a(blocks: u64, slots: u64) -> Resource {
    resource(blocks * (1 + 2 * slots) * 16, 16)
}

fn lsa_barrier(n: u64, ranks: u64) -> Resource {
    resource(4 * (3 * n + n * ranks), 4)
}

/// (rail handle, rail signal0), (LSA handle, count), user handles, shadows, used, signals, counters.
type Row = ((u32, u32), (u32, u32), Vec<u32>, u64, u64, u32, u32);

fn walk(reqs: &Requirements, lsa_size: u32, contexts: u32) -> Row {
    let l = reqs.layout(lsa_size, contexts, false).unwrap();
    let handles = l.entries.iter().map(|entry| entry.buffer_handle).collect();
    (
        (l.rail.buffer_handle, l.rail.signal_start),
        (l.lsa.buffer_handle, l.n_lsa),
        handles,
        l.shadows,
        l.used,
        l.signals,
        l.counters,
    )
}

#[test]
fn the_rules_table() {
    let sixteen = Requirements { lsa_barrier_count: 16, ..Default::default() };
    assert_eq!(walk(&sixteen, 8, 0), ((0, 0), (0, 16), vec![], 768, 768, 0, 0));
    let with_ll = Requirements { resources: vec![lla2a(2, 100)], ..sixteen };
    assert_eq!(with_ll.resources[0].bytes, 6432);
    assert_eq!(walk(&with_ll, 8, 0), ((0, 0), (0, 16), vec![6], 7296, 7296, 0, 0));
    let two_nodes = Requirements { barrier_count: 4, gin_signal_count: 3, gin_counter_count: 2, ..Default::default() };
    assert_eq!(walk(&two_nodes, 8, 4), ((0, 3), (1, 4), vec![], 384, 384 + 224, 7, 2));
    assert_eq!(walk(&Requirements::default(), 1, 0), ((0, 0), (0, 0), vec![], 0, 0, 0, 0));
}

#[test]
fn the_measured_table() {
    let lsa = |n| Requirements { lsa_barrier_count: n, ..Default::default() };
    assert_eq!(walk(&Requirements::default(), 2, 0), ((0, 0), (0, 0), vec![], 0, 0, 0, 0));
    assert_eq!(walk(&lsa(16), 2, 0).3, 384);
    assert_eq!(walk(&lsa(16), 1, 0).3, 256);
    let with_ll = Requirements { resources: vec![lla2a(2, 100)], ..lsa(16) };
    assert_eq!(walk(&with_ll, 2, 0), ((0, 0), (0, 16), vec![3], 6912, 6912, 0, 0));
    // Here barrierCount makes GIN active by our rule: the offsets stay, the shadows get a length.
    let mixed = Requirements {
        barrier_count: 20,
        lsa_barrier_count: 16,
        rail_gin_barrier_count: 3,
        resources: vec![lla2a(2, 100), lsa_barrier(5, 2)],
        ..Default::default()
    };
    assert_eq!(walk(&mixed, 2, 0), ((0, 0), (3, 20), vec![7, 58], 7552, 7552, 20, 0));
    assert_eq!(walk(&mixed, 2, 4), ((0, 0), (3, 20), vec![7, 58], 7552, 7552 + 4 * 20 * 8, 20, 0));
}

#[test]
fn user_signals_and_counters_are_honoured_and_numbered_in_order() {
    let entry = |gin_signals, gin_counters| Resource { bytes: 64, align: 4, gin_signals, gin_counters, waits: None };
    let reqs = Requirements {
        rail_gin_barrier_count: 2,
        gin_signal_count: 5,
        gin_counter_count: 1,
        resources: vec![entry(3, 0), entry(0, 4), entry(1, 1)],
        ..Default::default()
    };
    let layout = reqs.layout(4, 1, false).unwrap();
    assert_eq!(layout.rail.signal_start, 5);
    let starts: Vec<_> = layout.entries.iter().map(|e| (e.signal_start, e.counter_start)).collect();
    assert_eq!(starts, [(7, 1), (10, 1), (10, 5)]);
    assert_eq!((layout.signals, layout.counters), (11, 6));
}

#[test]
fn gin_is_needed_by_anything_that_waits_on_a_signal() {
    let none = Requirements { lsa_barrier_count: 4, resources: vec![resource(64, 4)], ..Default::default() };
    assert!(!none.needs_gin());
    let some = [
        Requirements { barrier_count: 1, ..none.clone() },
        Requirements { rail_gin_barrier_count: 1, ..none.clone() },
        Requirements { gin_force_enable: true, ..none.clone() },
        Requirements { gin_signal_count: 1, ..none.clone() },
        Requirements { gin_counter_count: 1, ..none.clone() },
        Requirements { resources: vec![Resource { gin_signals: 1, ..Default::default() }], ..none.clone() },
        Requirements { resources: vec![Resource { gin_counters: 1, ..Default::default() }], ..none.clone() },
    ];
    assert!(some.iter().all(Requirements::needs_gin));
}

#[test]
fn wrong_values_are_named() {
    let says = |reqs: Requirements, text: &str| {
        let error = reqs.layout(2, 4, false).unwrap_err();
        assert!(error.text.contains(text), "{error}");
    };
    says(Requirements { lsa_barrier_count: -1, ..Default::default() }, "lsaBarrierCount is -1");
    says(Requirements { gin_signal_count: i32::MIN, ..Default::default() }, "ginSignalCount is -2147483648");
    says(Requirements { resources: vec![resource(1, 48)], ..Default::default() }, "bufferAlign of resource requirement 0 is 48");
    says(Requirements { resources: vec![resource(0, 0), resource(u64::MAX, 0)], ..Default::default() }, "too large");
    says(Requirements { resources: vec![resource(1, 0), resource(1, 1 << 63)], ..Default::default() }, "too large");
    says(Requirements { barrier_count: i32::MAX, gin_signal_count: 1, ..Default::default() }, "too many signals");
    let entry = Resource { gin_counters: -2, ..Default::default() };
    says(Requirements { resources: vec![entry], ..Default::default() }, "ginCounterCount of resource requirement 0 is -2");
}

#[test]
fn every_word_that_must_agree_has_a_name() {
    let reqs = Requirements { resources: vec![Resource::default(); 2], ..Default::default() };
    assert_eq!(reqs.words().len(), 15);
    assert_eq!(reqs.field(4), "ginSignalCount");
    assert_eq!(reqs.field(12), "bufferAlign of resource requirement 1");
    let long = |last| Requirements {
        resources: [vec![Resource::default(); 999], vec![resource(last, 0)]].concat(),
        ..Default::default()
    };
    assert_eq!((long(1).words().len(), long(1).field(8)), (11, "digest of the resource requirements".into()));
    assert_eq!(long(1).words(), long(1).words());
    assert_ne!(long(1).words(), long(2).words());
}

proptest! {
    #[test]
    fn buffers_are_aligned_and_do_not_overlap(
        rail in 0i32..50, lsa in 0i32..50, lsa_size in 1u32..65,
        list in prop::collection::vec((0u64..5000, 0u32..14), 0..12),
    ) {
        let resources: Vec<_> = list.iter().map(|&(bytes, shift)| resource(bytes, 1 << shift)).collect();
        let reqs = Requirements { rail_gin_barrier_count: rail, lsa_barrier_count: lsa, resources, ..Default::default() };
        let layout = reqs.layout(lsa_size, 4, false).unwrap();
        let mut end = 0;
        let sizes = [rail as u64 * 16, lsa as u64 * 4 * (3 + u64::from(lsa_size))];
        let builtin = [(layout.rail, sizes[0], 128), (layout.lsa, sizes[1], 128)];
        let users = layout.entries.iter().zip(&reqs.resources).map(|(out, r)| (*out, r.bytes, r.align.max(128)));
        for (out, bytes, align) in builtin.into_iter().chain(users) {
            let start = u64::from(out.buffer_handle) * 128;
            prop_assert!(start >= end && start % align == 0 && start - end < align);
            end = start + bytes;
        }
        prop_assert!(layout.shadows >= end && layout.shadows - end < 128 && layout.shadows.is_multiple_of(128));
        prop_assert_eq!(layout.used, layout.shadows + 4 * 8 * u64::from(layout.signals));
    }
}
