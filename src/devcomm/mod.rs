//! Device communicators: what ncclDevCommCreate hands to kernels.

mod requirements;
#[cfg(test)]
mod vectors;

pub use requirements::{Layout, Outputs, Requirements, Resource, TeamRequest};
