//! A stand-in for libibverbs and libmlx5 with one card, which is none: commands are read as a card reads them, and what kernels then write
//! into queues is done by the model of a card (`src/nic` of ginrs), in this process's memory alone. Ranks are threads.
//!
//! It is enough for ginrs itself and for NVIDIA's libnccl, whose IB plugin also has queue pairs to which it posts by ibv_post_send
//! (`posted`). That one asks by version: the static archive linked with `versions.map` is for it (`tests/theirs`).
//!
//! Folder with `libibverbs.so.1` and `libmlx5.so.1` linked to this library first in LD_LIBRARY_PATH, and:
//!
//! | variable | |
//! |---|---|
//! | `SOFTVERBS_LOG` | file to which each command adds a line: its name, its bytes, and those of the answer; lines with # tell of other calls, and of elements that failed |
//! | `SOFTVERBS_LACKS` | what is not there: `devices`, `mlx5`, `devx`, `cd` (WAIT elements), `port`, or `gpus` (whose memory is then told by DMA-BUF alone) |
//! | `SOFTVERBS_LINK` | `ib`: the port is InfiniBand's, else Ethernet's |
//! | `SOFTVERBS_GPU` | 1: registered memory may be a GPU's, and is copied by libcuda.so.1 |
//! | `SOFTVERBS_SYSFS` | folder like /sys/class/infiniband in which the device is said to stand |
//! | `SOFTVERBS_EVENT` | something that the card tells by itself (`events`) |
//! | `SOFTVERBS_FAULT` | elements that fail, as GINRS_NIC_FAULT of ginrs says them; their rank is 0 |
//!
//! The doorbell record is the truth: the thread that plays the card looks at records, and nobody at doorbells. Field places are those of
//! `src/verbs/prm.rs`, whose tests hold them against the published widths: a place that is wrong there is wrong here, too.
//!
//! # Safety
//! Each function takes pointers as the headers of rdma-core say. That holds for every `extern "C"` function of this crate and is not
//! repeated there.
#![allow(missing_docs, clippy::missing_safety_doc, clippy::too_many_arguments)]

#[allow(dead_code)]
#[path = "../../../src/nic/mod.rs"]
mod nic;
#[allow(dead_code)]
#[path = "../../../src/verbs/prm.rs"]
mod prm;
#[allow(dead_code)]
#[path = "../../../src/verbs/sys.rs"]
mod sys;

#[allow(dead_code)]
#[path = "../../../src/text.rs"]
mod text;

mod card;
pub mod devx;
pub mod events;
mod gpu;
pub mod layout;
mod log;
mod memory;
pub mod posted;
pub mod umem;
pub mod verbs;
mod world;
