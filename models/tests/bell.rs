//! A post and a sleep that begin at the same time.

use ginrs_models::bell_over_loom::{Fault, sleep_and_post};

#[test]
fn nobody_sleeps_on_what_is_posted() {
    loom::model(|| sleep_and_post(1, Fault::None));
    loom::model(|| sleep_and_post(2, Fault::None));
}

/// The checker finds what it is there for.
#[test]
#[should_panic(expected = "asleep, and 1 were posted")]
fn a_poster_without_its_fence_is_found() {
    loom::model(|| sleep_and_post(1, Fault::OfPoster));
}

#[test]
#[should_panic(expected = "asleep, and 1 were posted")]
fn a_sleeper_without_its_fence_is_found() {
    loom::model(|| sleep_and_post(1, Fault::OfSleeper));
}
