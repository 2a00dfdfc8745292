//! Log lines in NCCL's format (being written: levels and files follow).
#[macro_export]
/// A warning.
macro_rules! warn { ($($arg:tt)+) => { $crate::log::emit_warn(file!(), line!(), format_args!($($arg)+)) }; }
#[macro_export]
/// A line for NCCL_DEBUG=INFO: `info!(INIT, "...")`.
macro_rules! info { ($subsys:ident, $($arg:tt)+) => { $crate::log::emit_info($crate::log::Subsys::$subsys, format_args!($($arg)+)) }; }
/// Names of NCCL_DEBUG_SUBSYS.
#[allow(missing_docs, clippy::upper_case_acronyms)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subsys { INIT, COLL, P2P, SHM, NET, GRAPH, TUNING, ENV, ALLOC, CALL, PROXY, NVLS, BOOTSTRAP, REG, PROFILE, RAS }
#[doc(hidden)] pub fn emit_warn(file: &str, line: u32, text: std::fmt::Arguments<'_>) { eprintln!("{file}:{line} NCCL WARN {text}"); }
#[doc(hidden)] pub fn emit_info(_: Subsys, _: std::fmt::Arguments<'_>) {}
/// Logs an error at the place that calls it.
#[track_caller] pub fn error(error: &crate::error::Error) { let at = std::panic::Location::caller(); emit_warn(at.file(), at.line(), format_args!("{error}")); }
/// The device in `[dev]` of this thread's lines.
pub fn set_device(_ordinal: i32) {}
/// ncclGetLastError.
pub fn last_error_ptr() -> *const std::ffi::c_char { c"".as_ptr() }
