//! One error type. The first function that knows the cause makes it; callers pass it on.
//!
//! A message says what failed, where, what was measured and how to mend it, parted by ` | `:
//! `window start is misaligned | rank 1, window 3 | offset 0x200, must be a multiple of 4096 | fix: use ncclMemAlloc`.
//!
//! Imports from no other module.

#![forbid(unsafe_code)]

use std::fmt;

/// The result codes of `nccl.h` (spec host 6.1). `Success` never stands in an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
#[allow(missing_docs)]
pub enum Code {
    Success = 0,
    UnhandledCudaError = 1,
    SystemError = 2,
    InternalError = 3,
    InvalidArgument = 4,
    InvalidUsage = 5,
    RemoteError = 6,
    InProgress = 7,
}

/// What went wrong: a code for the caller's `switch`, a catalogue number and a sentence for the person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// What the C function returns.
    pub code: Code,
    /// Number in codes.txt; printed as `GINRS-E052`.
    pub id: u16,
    /// The message, without the number.
    pub text: String,
    /// The rank that caused it, where one did.
    pub culprit: Option<u32>,
}

impl Error {
    /// An error without a culprit rank.
    pub fn new(code: Code, id: u16, text: impl Into<String>) -> Self {
        Self { code, id, text: text.into(), culprit: None }
    }

    /// Names the rank that caused it.
    pub fn by(mut self, rank: u32) -> Self {
        self.culprit = Some(rank);
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GINRS-E{:03} {}", self.id, self.text)
    }
}

impl std::error::Error for Error {}

/// Result of everything inside the library.
pub type Result<T> = std::result::Result<T, Error>;

/// `bail!(InvalidArgument, 52, "window start ...")` returns an [`Error`].
#[macro_export]
macro_rules! bail {
    ($code:ident, $id:expr, $($arg:tt)+) => {
        return Err($crate::error::Error::new($crate::error::Code::$code, $id, format!($($arg)+)))
    };
}
