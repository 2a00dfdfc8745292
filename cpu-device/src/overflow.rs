//! A CUDA thread that used more than its stack.

use crate::block::Block;
use crate::error::{Code, report};
use crate::stack::RedZone;

impl Block {
    /// The red zone below the stack of `thread` was written.
    pub(crate) fn overflow(&self, thread: u32, zone: RedZone) {
        let message = self.with_grid(|grid| {
            format!(
                "stack overflow in {}\nfix: set GINRS_CPU_STACK above {} (bytes a thread); GINRS_CPU_STACK_GUARD=1 stops at the \
                 first byte beyond",
                self.describe(thread, grid),
                crate::config::config().stack_bytes
            )
        });
        if zone == RedZone::Crossed {
            report(&format!("{message}\nanother thread's stack was overwritten: the process cannot go on"));
            std::process::abort();
        }
        self.with_grid(|grid| grid.fail(Code::LAUNCH_FAILURE, &message));
    }
}
