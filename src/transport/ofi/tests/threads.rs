//! The contract with threads for large puts, forced on: hubs go to and fro all the time.

use super::super::spread::{Spread, When};
use super::*;

/// Every hub that has carried a large put is lent at once, and comes back soon.
const EAGER: When = When { busy: 0, period: Duration::ZERO, quiet: Duration::from_micros(300) };

/// Ranks of which those in `spread` have threads.
fn mixed(serves: &[bool], spread: impl Fn(u32) -> bool) -> Vec<Box<dyn Transport>> {
    let make = |rank| {
        with_setup(serves, rank, |setup| match spread(rank) {
            true => {
                let (made, said) = Spread::new(setup, || hub::chosen(setup.address), EAGER).unwrap();
                (Box::new(made) as Box<dyn Transport>, said)
            }
            false => {
                let (made, said) = Ofi::new(setup, None).unwrap();
                (Box::new(made) as Box<dyn Transport>, said)
            }
        })
    };
    let (mut ranks, said): (Vec<_>, Vec<_>) = (0..serves.len() as u32).map(make).unzip();
    contract::connect(ranks.iter_mut().map(|rank| &mut **rank as _), NAME, &said);
    ranks
}

#[test]
fn contract_with_threads() {
    contract::all_threaded(|serves| mixed(&serves, |_| true));
}

/// A rank need not know how many doors its peers have.
#[test]
fn contract_where_some_have_threads() {
    contract::all(|serves| mixed(&serves, |rank| rank == 0));
    contract::all_threaded(|serves| mixed(&serves, |rank| rank != 0));
}

#[test]
fn a_peer_that_goes_is_named_with_threads() {
    contract::failure(|serves| mixed(&serves, |_| true), |ranks| drop(ranks.drain(1..)));
}
