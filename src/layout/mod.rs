//! The `repr(C)` twins of what C sees, with its names (spec host, appendix A). Every layout is asserted where it stands.
//!
//! Device addresses are plain `u64`, C `bool` is `u8` (a caller's garbage must stay a value), enums are integers and
//! checked where they enter. Padding that the library marks has a field of its own.
#![forbid(unsafe_code)]
#![allow(non_camel_case_types, non_snake_case, missing_docs)]

mod device;
mod extension;
mod host;
mod nic;

pub use device::*;
pub use extension::*;
pub use host::*;
pub use nic::*;

// Kernels read the bytes as they stand here.
const _: () = assert!(cfg!(target_endian = "little"), "CUDA's hosts are little endian");

/// Fails the build where size, alignment or an offset differs from the C header.
macro_rules! layout {
    ($t:ty, $size:expr, $align:expr $(, $field:ident @ $at:expr)* $(,)?) => {
        const _: () = {
            assert!(size_of::<$t>() == $size, concat!("size of ", stringify!($t)));
            assert!(align_of::<$t>() == $align, concat!("alignment of ", stringify!($t)));
            $(assert!(std::mem::offset_of!($t, $field) == $at, concat!("offset of ", stringify!($t), ".", stringify!($field)));)*
        };
    };
}
pub(crate) use layout;
