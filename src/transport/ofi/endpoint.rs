//! One end of a link: a connection's, or a part of the endpoint that serves all links.

use super::net::{Net, Way, close, is_away};
use super::provider::cookie;
use super::sys::*;
use crate::error::Result;
use std::ffi::c_void;
use std::sync::Arc;

/// One end of a link.
pub(super) struct Endpoint {
    net: Arc<Net>,
    /// Null: link `link` of the net's endpoint.
    ep: *mut fid_ep,
    link: u32,
}

// SAFETY: as [`Net`].
unsafe impl Send for Endpoint {}

/// A range of memory that a call sends from or receives into, with the descriptor of its registration.
#[derive(Clone, Copy)]
pub(super) struct Range {
    pub at: *mut u8,
    pub bytes: usize,
    pub descriptor: *mut c_void,
}

impl Endpoint {
    /// Of `net`, whose domain has made it.
    ///
    /// # Safety
    /// `ep` is live, and nobody else closes it.
    pub unsafe fn own(net: Arc<Net>, ep: *mut fid_ep) -> Self {
        Self { net, ep, link: 0 }
    }

    /// Link `link` of the endpoint that `net` has for all.
    pub fn over_rdm(net: Arc<Net>, link: u32) -> Self {
        Self { net, ep: std::ptr::null_mut(), link }
    }

    /// Null: see the field.
    pub fn raw(&self) -> *mut fid_ep {
        self.ep
    }

    /// What this end says of itself, apart from its proof.
    pub fn origin(&self) -> Vec<u8> {
        self.net.rdm().map_or(Vec::new(), |mut rdm| rdm.origin(self.link))
    }

    /// Asks what listens at `address`, telling it `said`; or why this machine has no way to it now: a new endpoint may have one later.
    pub fn connect(&self, address: &[u8], said: &[u8]) -> Result<Way<()>> {
        if let Some(mut rdm) = self.net.rdm() {
            rdm.dial(self.link, said);
            return Ok(Ok(()));
        }
        // SAFETY: live; the call keeps neither.
        let result = unsafe { ((*(*self.ep).cm).connect)(self.ep, address.as_ptr().cast(), said.as_ptr().cast(), said.len()) };
        if is_away(result) { Ok(Err(self.net.explain(result.into()))) } else { self.net.check("fi_connect", result).map(Ok) }
    }

    /// Where it begins, once it connects; nowhere of its own, if it is no connection.
    pub fn address(&self) -> Result<Vec<u8>> {
        if self.ep.is_null() {
            return Ok(Vec::new());
        }
        // SAFETY: a live endpoint.
        unsafe { self.net.name(&raw mut (*self.ep).fid, (*self.ep).cm) }
    }

    pub fn accept(&self, said: &[u8]) -> Result<()> {
        if let Some(mut rdm) = self.net.rdm() {
            rdm.accept(self.link, said);
            return Ok(());
        }
        // SAFETY: live; the call keeps nothing.
        let result = unsafe { ((*(*self.ep).cm).accept)(self.ep, said.as_ptr().cast(), said.len()) };
        self.net.check("fi_accept", result)
    }

    /// Somebody waits for word from the other end; true if for long. A connection says itself when it breaks.
    pub fn remind(&self) -> bool {
        self.net.rdm().is_some_and(|mut rdm| rdm.remind(self.link))
    }

    /// Takes a message into `into`, some time.
    ///
    /// # Safety
    /// The range stays as it is until that has ended or the endpoint is dropped.
    pub unsafe fn receive(&self, into: Range, number: u64) -> Result<bool> {
        if let Some(mut rdm) = self.net.rdm() {
            rdm.post(self.link, into, number);
            return Ok(true);
        }
        // SAFETY: the caller's.
        let posted =
            unsafe { ((*(*self.ep).msg).recv)(self.ep, into.at.cast(), into.bytes, into.descriptor, u64::MAX, cookie(number)) };
        self.posted("fi_recv", posted)
    }

    /// Sends `from`, more than [`Traits::inject`](super::provider::Traits::inject) bytes. False: the queue is full.
    ///
    /// # Safety
    /// As [`Self::receive`].
    pub unsafe fn send(&self, from: Range, number: u64) -> Result<bool> {
        // SAFETY: the caller's.
        let posted =
            unsafe { ((*(*self.ep).msg).send)(self.ep, from.at.cast(), from.bytes, from.descriptor, u64::MAX, cookie(number)) };
        self.posted("fi_send", posted)
    }

    /// Sends `bytes`, at most [`Traits::inject`], which are copied: nothing completes. False: the queue is full.
    pub fn inject(&self, bytes: &[u8]) -> Result<bool> {
        if let Some(mut rdm) = self.net.rdm() {
            return rdm.message(self.link, bytes).map_err(|error| self.net.failed("fi_send", error));
        }
        // SAFETY: live; the call keeps nothing.
        let posted = unsafe { ((*(*self.ep).msg).inject)(self.ep, bytes.as_ptr().cast(), bytes.len(), u64::MAX) };
        self.posted("fi_inject", posted)
    }

    /// Writes `from` to `to` of the peer's memory `key`, which is told `data`. False: the queue is full.
    ///
    /// # Safety
    /// As [`Self::receive`].
    pub unsafe fn write(&self, from: Range, data: u64, (key, to): (u64, u64), number: u64) -> Result<bool> {
        if let Some(mut rdm) = self.net.rdm() {
            // SAFETY: the caller's.
            let written = unsafe { rdm.write(self.link, from, data, (key, to), number) };
            return written.map_err(|error| self.net.failed("fi_write", error));
        }
        // SAFETY: the caller's.
        let posted = unsafe {
            let write = (*(*self.ep).rma).writedata;
            write(self.ep, from.at.cast(), from.bytes, from.descriptor, data, u64::MAX, to, key, cookie(number))
        };
        self.posted("fi_writedata", posted)
    }

    fn posted(&self, call: &str, result: isize) -> Result<bool> {
        match result {
            0 => Ok(true),
            result if result == -EAGAIN => Ok(false),
            result => Err(self.net.failed(call, result)),
        }
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        if let Some(mut rdm) = self.net.rdm() {
            rdm.close(self.link);
        }
        close(self.ep.cast());
    }
}
