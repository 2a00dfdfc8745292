//! Hand-overs under model checkers. `queue.rs`, the proxy's queue, is one text over both: loom explores every order that the C11
//! memory model allows within its bounds, shuttle random schedules of larger cases. `card.rs` is the model of a card under loom,
//! `bell.rs` how kernels wake the proxy thread.

/// Under loom.
pub mod over_loom {
    use loom as runtime;
    include!("queue.rs");
}

/// Under shuttle, which knows schedules but no weak memory.
pub mod over_shuttle {
    use shuttle as runtime;
    include!("queue.rs");
}

/// The model of a card, under loom.
pub mod card_over_loom {
    use loom as runtime;
    include!("card.rs");
}

/// How kernels wake the proxy thread, under loom.
pub mod bell_over_loom {
    include!("bell.rs");
}
