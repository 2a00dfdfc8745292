//! The bounds are those at which each case ends in seconds; larger cases run under shuttle.

use ginrs_models::over_loom::{CREDIT_RELAXED, Case, SOUND, TAKE_RELAXED, hand_over};
use ginrs_models::over_shuttle;

fn loom(bound: Option<usize>, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = bound;
    builder.max_branches = 100_000;
    builder.check(model);
}

const CASE: Case = Case { producers: 1, puts: 3, slots: 2, start: u32::MAX - 1, abort: false };

/// Every order of three puts of two words through two slots, across the wrap of the index.
#[test]
fn one_producer_unbounded() {
    loom(None, || hand_over::<2, SOUND>(CASE));
}

#[test]
fn one_producer_of_whole_descriptors() {
    loom(Some(2), || hand_over::<8, SOUND>(CASE));
}

#[test]
fn two_producers() {
    loom(Some(2), || hand_over::<8, SOUND>(Case { producers: 2, puts: 1, ..CASE }));
}

#[test]
fn an_abort_at_any_point() {
    loom(Some(2), || hand_over::<2, SOUND>(Case { puts: 2, slots: 1, abort: true, ..CASE }));
}

/// The checker finds what it is there for.
#[test]
#[should_panic(expected = "payload of put")]
fn a_planted_relaxed_look_is_found() {
    loom(Some(2), || hand_over::<2, TAKE_RELAXED>(CASE));
}

#[test]
#[should_panic(expected = "counter before index")]
fn a_planted_relaxed_credit_is_found() {
    loom(Some(2), || hand_over::<2, CREDIT_RELAXED>(Case { puts: 1, ..CASE }));
}

#[test]
fn random_schedules_of_larger_cases() {
    let case = over_shuttle::Case { producers: 2, puts: 2, slots: 3, start: 0, abort: false };
    shuttle::check_random(move || over_shuttle::hand_over::<8, SOUND>(case), 20_000);
    shuttle::check_random(move || over_shuttle::hand_over::<8, SOUND>(over_shuttle::Case { puts: 3, slots: 2, ..case }), 10_000);
    shuttle::check_pct(
        move || over_shuttle::hand_over::<8, SOUND>(over_shuttle::Case { abort: true, slots: 1, ..case }),
        10_000,
        3,
    );
}
