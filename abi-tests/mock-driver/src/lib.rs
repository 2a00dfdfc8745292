//! A stand-in for the CUDA driver library. Device memory is memfd, mapped at the same addresses for device and host, so that
//! kernels built by `ginrs-cc` run on it; streams are threads. It answers right and wrong use as driver 580 answers on an H200:
//! `tests/facts.c` asks both, `tests/facts.txt` is what the real one said.
//!
//! Folder with `libcuda.so.1` and `libcuda.so` linked to this library first in LD_LIBRARY_PATH, and:
//!
//! | variable | |
//! |---|---|
//! | `GINRS_MOCK_DEVICES` | number of devices, default 4; `CUDA_VISIBLE_DEVICES` as a list of numbers chooses among them |
//! | `GINRS_MOCK_MEMORY` | MiB that each device has, default 16384; backed only when touched |
//! | `GINRS_MOCK_NO_P2P` | 1: no device reaches another |
//! | `GINRS_MOCK_PRIVATE` | 1: device memory has no host address, as on a GPU; for programs without kernels |
//! | `GINRS_MOCK_DMABUF` | 1: mapped device memory has a DMA-BUF, which is a descriptor of its memfd |
//! | `GINRS_MOCK_MULTICAST` | 1: the devices have multicast objects, whose calls are checked and do nothing |
//! | `GINRS_MOCK_DELAY_US` | each operation of a stream starts up to that much later |
//! | `GINRS_MOCK_FAIL` | `cuMemCreate:3:2,copy:5:700`: the third cuMemCreate returns 2, the fifth asynchronous copy fails with 700; `copy:5:hang`: it never ends |
//! | `GINRS_MOCK_CALLS` | file to which each call of the driver API adds a line: `thread name` |
//! | `GINRS_MOCK_LAUNCHES` | file to which each kernel launch of the driver API adds a line; their code does not run |
//!
//! Stricter than the real one: new memory is not zero, copies of one batch run in a random order, and what may wait for all kernels
//! of a context there (frees, synchronous copies) always waits here.
//!
//! # Safety
//! Each function takes pointers as cuda.h says: NULL where refused is checked, others must be valid. That holds for every
//! `extern "C"` function of this crate and is not repeated there.
#![allow(non_snake_case, missing_docs, clippy::missing_safety_doc, clippy::too_many_arguments)]

pub mod access;
pub mod attributes;
pub mod batch;
pub mod capture;
pub mod context;
pub mod copy;
pub mod device;
pub mod entry;
pub mod error;
pub mod event;
pub mod handle;
pub mod inject;
mod ipc;
pub mod linear;
pub mod memops;
pub mod module;
pub mod multicast;
pub mod names;
pub mod pinned;
pub mod pointer;
pub mod queue;
pub mod space;
pub mod standin;
pub mod stream;
pub mod world;
