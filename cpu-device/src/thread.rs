//! What a CUDA thread knows of itself, and the thread-local variables (shim/thread.c) through which its code reads it.

use crate::launch::{Dim3, Launch};
use crate::waits::Call;

/// `ginrsCpuThread`.
#[repr(C)]
pub struct ThreadView {
    /// threadIdx
    pub thread: Dim3,
    /// blockIdx
    pub block: Dim3,
    /// blockDim
    pub block_dim: Dim3,
    /// gridDim
    pub grid_dim: Dim3,
    /// Number in the block, x fastest.
    pub linear: u32,
    /// linear % 32
    pub lane: u32,
    /// linear / 32
    pub warp: u32,
    /// Third launch parameter.
    pub shared_bytes: u32,
    /// Ordinal of the device.
    pub device: i32,
    /// 1 if the launch asked for clusters of more than one block.
    pub clusters: u32,
    /// The innermost call of the device API that it is in; its own code writes it.
    pub call: *const Call,
}

impl ThreadView {
    /// Of thread `linear` of any block of `launch`; the block is written when the thread begins.
    pub fn of(launch: &Launch, linear: u32, device: i32) -> ThreadView {
        ThreadView {
            thread: launch.block.at(u64::from(linear)),
            block: Dim3::default(),
            block_dim: launch.block,
            grid_dim: launch.grid,
            linear,
            lane: linear % 32,
            warp: linear / 32,
            shared_bytes: launch.shared_bytes,
            device,
            clusters: u32::from(launch.clusters),
            call: std::ptr::null(),
        }
    }
}

/// `ginrsShimThread`: where an OS thread keeps its variables.
#[repr(C)]
pub struct Variables {
    current: *mut *const ThreadView,
    budget: *mut i32,
    stack_end: *mut usize,
    thread: *mut Dim3,
    block: *mut Dim3,
    block_dim: *mut Dim3,
    grid_dim: *mut Dim3,
}

unsafe extern "C" {
    fn ginrs_shim_thread(variables: *mut Variables);
}

impl Variables {
    /// Those of the calling OS thread, which alone may use them.
    pub fn of_this_thread() -> Variables {
        let mut variables = std::mem::MaybeUninit::uninit();
        // SAFETY: the shim writes all fields.
        unsafe {
            ginrs_shim_thread(variables.as_mut_ptr());
            variables.assume_init()
        }
    }

    /// A block begins.
    pub fn enter_block(&self, block: Dim3, block_dim: Dim3, grid_dim: Dim3) {
        // SAFETY: variables of the calling thread; here and below nothing else refers to them while we write.
        unsafe {
            *self.block = block;
            *self.block_dim = block_dim;
            *self.grid_dim = grid_dim;
        }
    }

    /// The thread with this view runs next, for `budget` basic blocks, on a stack that ends at `stack_end` (0: nobody is to look).
    ///
    /// # Safety
    /// The view outlives the run.
    #[inline]
    pub unsafe fn enter_thread(&self, view: *const ThreadView, budget: i32, stack_end: usize) {
        // SAFETY: as above, and the caller's.
        unsafe {
            *self.current = view;
            *self.thread = (*view).thread;
            *self.budget = budget;
            *self.stack_end = stack_end;
        }
    }

    /// What runs next is no CUDA thread.
    pub fn leave(&self) {
        // SAFETY: as above.
        unsafe {
            *self.current = std::ptr::null();
            *self.stack_end = 0;
        }
    }

    /// Whether a look found that the running thread's stack was used up, and more.
    pub fn stack_was_crossed(&self) -> bool {
        // SAFETY: as above. The mark is the shim's.
        unsafe { *self.stack_end == 1 }
    }

    /// The view of the CUDA thread that runs, NULL if none does.
    pub fn current(&self) -> *const ThreadView {
        // SAFETY: as above.
        unsafe { *self.current }
    }

    /// What is left of the budget.
    #[inline]
    pub fn budget(&self) -> i32 {
        // SAFETY: as above.
        unsafe { *self.budget }
    }

    /// Refills the budget.
    pub fn set_budget(&self, budget: i32) {
        // SAFETY: as above.
        unsafe { *self.budget = budget }
    }
}
