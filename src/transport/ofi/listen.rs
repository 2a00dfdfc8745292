//! Where a rank listens, and who asks to be let in.

use super::net::{Net, close};
use super::provider::{Info, cookie};
use super::session;
use super::sys::fid_pep;
use crate::error::Result;
use std::sync::Arc;

/// A listening endpoint; none of its own where one endpoint serves all links.
pub(super) struct Passive {
    net: Arc<Net>,
    pep: *mut fid_pep,
}

// SAFETY: see `Net`.
unsafe impl Send for Passive {}

impl Passive {
    /// At the address of `info`, as place `number` of its rank.
    pub fn open(net: &Arc<Net>, info: &Info, number: usize) -> Result<Self> {
        let mut passive = Self { net: net.clone(), pep: std::ptr::null_mut() };
        if net.traits.rdm {
            return Ok(passive);
        }
        // SAFETY: live objects; the endpoint is owned from here.
        unsafe {
            let open = (*(*net.fabric).ops).passive_ep;
            net.check("fi_passive_ep", open(net.fabric, info.raw(), &mut passive.pep, cookie(number as u64)))?;
            let fid = &raw mut (*passive.pep).fid;
            net.check("fi_pep_bind", ((*(*fid).ops).bind)(fid, &raw mut (*net.eq).fid, 0))?;
            net.check("fi_listen", ((*(*passive.pep).cm).listen)(passive.pep))?;
        }
        Ok(passive)
    }

    /// Where it listens, for [`Net::endpoint`].
    pub fn address(&self) -> Result<Vec<u8>> {
        if let Some(rdm) = self.net.rdm() {
            return Ok(rdm.address.clone());
        }
        // SAFETY: a live endpoint.
        unsafe { self.net.name(&raw mut (*self.pep).fid, (*self.pep).cm) }
    }

    /// Sends a stranger away; without connections nobody answers one.
    pub fn reject(&self, request: &Request) {
        if let Request::Msg { info, .. } = request {
            // SAFETY: a live endpoint, and a request that came to it: its number says so. What becomes of the stranger is all the same.
            unsafe { ((*(*self.pep).cm).reject)(self.pep, (*info.raw()).handle, std::ptr::null(), 0) };
        }
    }
}

impl Drop for Passive {
    fn drop(&mut self) {
        close(self.pep.cast());
    }
}

/// Somebody asks for a link.
pub(super) enum Request {
    /// With a connection, as libfabric describes it, to this place of the rank.
    Msg { info: Info, place: usize },
    /// With a message: link, key and address of its sender.
    Rdm { origin: Vec<u8> },
}

impl Request {
    /// Where the connection begins; nothing where there is none.
    pub fn from(&self) -> &[u8] {
        if let Self::Msg { info, .. } = self { info.from() } else { &[] }
    }

    /// Number of the place that was asked.
    pub fn place(&self) -> usize {
        if let Self::Msg { place, .. } = self { *place } else { 0 }
    }

    /// What its proof has to cover besides.
    pub fn origin(&self) -> &[u8] {
        if let Self::Rdm { origin } = self { origin } else { &[] }
    }

    /// Link, key and address.
    pub fn parts(&self) -> Option<(u32, u64, &[u8])> {
        session::origin(self.origin())
    }
}
