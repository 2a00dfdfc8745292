//! The model of a card under loom. Words behind the first segment are not written; what a slot holds there is the poison.

use ginrs_models::card_over_loom::{BELL_BELIEVED, COMPLETION_RELAXED, FREE_LATE, NO_ACQUIRE, SOUND, card};

fn loom(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.max_branches = 100_000;
    builder.check(model);
}

/// Through one and two slots, across 2^16, where entries wrap.
#[test]
fn elements_are_taken_whole_and_once() {
    loom(|| card::<SOUND>(1, 0xffff, 2));
    loom(|| card::<SOUND>(2, 0xfffe, 3));
}

#[test]
#[should_panic(expected = "payload of element")]
fn a_missing_acquire_is_found() {
    loom(|| card::<NO_ACQUIRE>(1, 7, 1));
}

#[test]
#[should_panic(expected = "entry before what it completes")]
fn a_relaxed_completion_is_found() {
    loom(|| card::<COMPLETION_RELAXED>(1, 7, 2));
}

#[test]
#[should_panic(expected = "half of element")]
fn a_doorbell_that_is_believed_is_found() {
    loom(|| card::<BELL_BELIEVED>(1, 7, 1));
}

/// The element that is written over stays away for ever.
#[test]
#[should_panic(expected = "maximum number of branches")]
fn an_entry_before_the_slot_is_free_is_found() {
    loom(|| card::<FREE_LATE>(1, 7, 2));
}
