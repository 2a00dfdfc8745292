//! An mlx5 card, driven by commands: libibverbs and libmlx5 are loaded at run time, and queues are made over memory of ours, so that
//! kernels write their elements and ring.
//!
//! | file | what |
//! |---|---|
//! | `library`, `sys` | the two libraries' functions and types |
//! | `prm`, `commands` | bytes of commands and answers: pure |
//! | `opened` | a device, open once for all communicators of the process |
//! | `card` | what one communicator has of it |
//! | `port` | which port and address of it is used |
//! | `made` | what is registered and made on it |
//! | `events` | what it says by itself, and who is told |
//! | `wishes` | what NCCL_IB_* say |
//! | `survey` | which cards there are, and why one cannot be used |
//!
//! **Never run on a card.** The layouts are held against rdma-core's headers, the bytes against the card's published reference, and the
//! whole runs against libraries of the test tree that read these commands and have them done by the model (`abi-tests/soft-verbs`), as
//! NVIDIA's libnccl does; where its commands and ours differ is in docs/internals/gdaki.md.
//! docs/user/gdaki.md says what somebody with a card should run.

mod card;
mod commands;
mod events;
mod library;
mod made;
mod opened;
mod port;
pub mod prm;
mod survey;
pub mod sys;
mod wishes;

pub use card::{Card, Order};
pub use commands::State;
pub use events::Event;
pub use made::{Keys, Memory, Page, Queue, Registered, Spot, Umem};
pub use survey::{Found, survey};
pub use wishes::Wishes;
