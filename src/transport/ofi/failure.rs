//! What libfabric says of an operation that has not ended well.

use super::net::Net;
use std::ffi::{CStr, c_int};

/// Why something has not ended well: libfabric's number, and the provider's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub error: c_int,
    pub own: c_int,
}

impl Net {
    /// What both numbers mean. Of cards the first is EIO, whatever the reason.
    pub fn explain_failure(&self, failure: Failure) -> String {
        let general = self.explain(failure.error.into());
        // SAFETY: a live queue; it is given no buffer and returns static text, or none.
        let own = unsafe {
            let text = ((*(*self.cq).ops).strerror)(self.cq, failure.own, std::ptr::null(), std::ptr::null_mut(), 0);
            text.as_ref().map(|text| CStr::from_ptr(text).to_string_lossy())
        };
        match own.filter(|own| !own.is_empty() && !general.starts_with(&**own)) {
            Some(own) => format!("{general}: {own} ({})", failure.own),
            None => general,
        }
    }
}
