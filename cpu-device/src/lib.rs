//! The CPU device: a stand-in for the CUDA runtime whose kernels run on fibers.
