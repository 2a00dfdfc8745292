//! The queue's hand-over under two model checkers. `queue.rs` is one text over both: loom explores every order that the C11
//! memory model allows within its bounds, shuttle random schedules of larger cases.

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
