//! How long things must last that kernels may touch.
#![forbid(unsafe_code)]

use std::any::Any;

/// When what kernels used may go.
pub trait Lifetime: Send + Sync {
    /// True when no kernel is running, as far as the device can tell without waiting: on CUDA never.
    fn idle(&self) -> bool;
    /// Drops `remains` once no kernel that runs now can touch them any more. Returns at once.
    fn bury(&self, remains: Box<dyn Any + Send>);
    /// Drops `remains`, which no kernel uses any more: the caller's caller has promised it. They have gone when it returns,
    /// unless that takes long. A device that knows for nothing whether kernels run does not rely on the promise.
    fn retire(&self, remains: Box<dyn Any + Send>) {
        self.bury(remains);
    }
}
