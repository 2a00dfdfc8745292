//! What one access does wrong by itself, in words.

use super::lines::line_of;
use super::report::who;
use super::sides::Hosts;
use super::unwritten;

/// A pointer that is not for whoever uses it.
pub enum Side {
    /// Memory of a device, by a host thread.
    Host {
        /// Else it reads.
        writes: bool,
        /// What the memory is.
        what: String,
    },
    /// Pinned memory of a copy that is queued, by a host thread.
    Early {
        /// Else it reads.
        writes: bool,
        /// Where the copy is called.
        copy: u64,
    },
    /// What is not aligned to its type, by a kernel.
    Misaligned {
        /// Else it reads.
        writes: bool,
        /// The address.
        at: usize,
        /// Of the type.
        bytes: usize,
        /// Its block.
        group: u32,
        /// Its thread.
        thread: u16,
    },
    /// Memory of the host alone, by a kernel.
    Kernel {
        /// Else it reads.
        writes: bool,
        /// The address.
        at: usize,
        /// What it is.
        of: Hosts,
        /// Its block.
        group: u32,
        /// Its thread.
        thread: u16,
    },
    /// Dynamic shared memory that the launch has not asked for, by a kernel.
    Shared {
        /// Else it reads.
        writes: bool,
        /// From its beginning.
        offset: usize,
        /// What the launch has asked for.
        bytes: usize,
        /// Its block.
        group: u32,
        /// Its thread.
        thread: u16,
    },
    /// What lies behind the end of an allocation or a window, by a kernel.
    Behind {
        /// Else it reads.
        writes: bool,
        /// Where that is.
        what: String,
        /// Its block.
        group: u32,
        /// Its thread.
        thread: u16,
    },
    /// Memory of a device that nobody has written, by a kernel.
    Unwritten {
        /// The address by which it is known.
        at: usize,
        /// How many of it.
        bytes: usize,
        /// Its block.
        group: u32,
        /// Its thread.
        thread: u16,
    },
}

impl Side {
    /// With what mends it; `line` has made the access.
    pub fn text(&self, line: &str) -> String {
        let does = |writes: bool| if writes { "written" } else { "read" };
        match self {
            Side::Host { writes, what } => format!(
                "a device pointer is used on the host at {line}: {what}, {} there by a host thread\n  \
                 fix: copy it with cudaMemcpy, or use cudaMallocManaged or cudaMallocHost",
                does(*writes)
            ),
            Side::Early { writes, copy } => {
                let copy = line_of(*copy).map(|line| format!(" at {line}")).unwrap_or_default();
                format!(
                    "pinned memory is {} by a host thread at {line}, and the copy that is called{copy} is not done\n  \
                     fix: wait for the copy before: cudaStreamSynchronize, cudaEventSynchronize",
                    does(*writes)
                )
            }
            Side::Misaligned { writes, at, bytes, group, thread } => format!(
                "a misaligned address is used in a kernel at {line}: {at:#x}, {} as {bytes} bytes by {}\n  \
                 fix: align it to the size of its type, or move the bytes one by one: a GPU ends the kernel here",
                does(*writes),
                who(*group, *thread)
            ),
            Side::Kernel { writes, at, of, group, thread } => format!(
                "a host pointer is used in a kernel at {line}: {at:#x} is {}, {} there by {}\n  \
                 fix: pass it by value, or copy it to memory of cudaMalloc, or use cudaMallocManaged",
                of.text(*at),
                does(*writes),
                who(*group, *thread)
            ),
            Side::Behind { writes, what, group, thread } => format!(
                "memory behind the end is {} at {line}: {what}, by {}\n  \
                 fix: look at the index, the count and the size that was asked for, which is in bytes",
                does(*writes),
                who(*group, *thread)
            ),
            Side::Shared { writes, offset, bytes, group, thread } => format!(
                "shared memory that the launch does not have is {} at {line}: byte {offset} of {bytes} bytes of dynamic shared memory, by {}\n  \
                 fix: launch with as much as the kernel uses (the third of <<<..>>>, in bytes)",
                does(*writes),
                who(*group, *thread)
            ),
            Side::Unwritten { at, bytes, group, thread } => format!(
                "memory that nobody has written is read at {line}: {bytes} bytes by {}\n  {}\n  \
                 fix: read where it was written, and no more than that, or set it before (cudaMemset): new memory may hold anything",
                who(*group, *thread),
                unwritten::place(*at)
            ),
        }
    }
}
