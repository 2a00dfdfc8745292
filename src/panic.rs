//! A panic is a bug of ours: it becomes an error that keeps the message, and never crosses into C or ends a thread silently.
//!
//! Imports from error.

#![forbid(unsafe_code)]

use crate::error::{Code, Error};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Catalogue number of an error that was a panic.
pub const PANIC: u16 = 1;

/// Runs `body`; a panic in it becomes an error that names `place`.
pub fn catch<T, E: From<Error>>(place: &str, body: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| {
        let text = format!(
            "a bug in ginrs | in {place} | {} | fix: please report this with the log of NCCL_DEBUG=INFO",
            text_of(&*payload)
        );
        Err(Error::new(Code::InternalError, PANIC, text).into())
    })
}

/// What a panic said.
pub fn text_of(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("panic without a message")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_of_a_panic_is_kept() {
        let error = catch::<(), Error>("ncclX", || panic!("slot {} of {}", 5, 4)).unwrap_err();
        assert_eq!(error.code, Code::InternalError);
        assert!(error.text.contains("ncclX | slot 5 of 4"), "{error}");
        assert_eq!(catch::<_, Error>("ncclX", || Ok(3)).unwrap(), 3);
    }
}
