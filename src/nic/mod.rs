//! A model of an mlx5 card, as far as GIN's GDAKI backend needs one: pure, with no thread, no clock and no memory of its own.
//!
//! | file | what |
//! |---|---|
//! | `slot` | takes a work queue element out of the ring once all of it is to be seen |
//! | `element` | 64 bytes of it to what is to be done |
//! | `completion` | bytes of a completion queue entry |
//!
//! `gin/gdaki` gives it rings and carries out what it reads. Formats are public facts of the mlx5 interface (spec device 12.3 to 12.5);
//! all words are big-endian but keys in the tables of NCCL, which are kept swapped, and inline data.
//!
//! It is never fast and never chosen by itself: it is for kernels that need this backend where no such card is.
#![forbid(unsafe_code)]

pub mod completion;
pub mod element;
pub mod slot;
