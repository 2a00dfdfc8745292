//! A net whose links all go through one endpoint (FI_EP_RDM): how that is made, tried and ended.

use super::FAREWELL;
use super::net::{Net, close};
use super::places::Places;
use super::rdm::{Rdm, Writes};
use super::sys::*;
use crate::error::Result;
use crate::sync::Mutex;
use std::ffi::c_int;
use std::time::{Duration, Instant};

/// How long a provider has to write to itself.
const TRIAL: Duration = Duration::from_secs(1);

impl Net {
    /// The one endpoint, with its address vector and its receives.
    pub fn open_rdm(&mut self, message: usize) -> Result<()> {
        let places = Places::new(message);
        let (mut ep, mut av): (*mut fid_ep, *mut fid_av) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: as `open`; endpoint and vector belong to the Rdm as soon as both are there.
        let mut rdm = unsafe {
            let ops = &*(*self.domain).ops;
            let mut attr: fi_av_attr = std::mem::zeroed();
            self.check("fi_av_open", (ops.av_open)(self.domain, &mut attr, &mut av, std::ptr::null_mut()))?;
            let made = (ops.endpoint)(self.domain, self.info.raw(), &mut ep, std::ptr::null_mut());
            if made != 0 {
                close(av.cast());
                return Err(self.failed("fi_endpoint", made as isize));
            }
            Rdm::own(ep, av, self.info.library(), &self.traits, places)
        };
        // SAFETY: live objects.
        unsafe {
            let (fid, cq, bind) = (&raw mut (*ep).fid, &raw mut (*self.cq).fid, (*(*ep).fid.ops).bind);
            self.check("fi_ep_bind", bind(fid, &raw mut (*av).fid, 0))?;
            self.check("fi_ep_bind", bind(fid, cq, FI_TRANSMIT | FI_RECV))?;
            self.check("fi_enable", ((*(*fid).ops).control)(fid, FI_ENABLE, std::ptr::null_mut()))?;
            rdm.address = self.name(fid, (*ep).cm)?;
            if self.traits.local {
                let (at, bytes) = (rdm.places.base(), rdm.places.total());
                rdm.places.registered(self.register_for(Some(ep), at, bytes, FI_SEND | FI_RECV, super::random_key()?)?);
            }
        }
        if let Writes::Marked { .. } = rdm.writes
            && !self.writes_to_itself(&mut rdm)?
        {
            rdm.writes = if self.traits.ordered { Writes::Ordered } else { Writes::None };
        }
        self.traits.writes = rdm.writes != Writes::None;
        self.check("fi_recv", rdm.listen() as c_int)?;
        self.own = Some(Mutex::new(rdm));
        Ok(())
    }

    /// Whether a write's data come with it: no attribute says so (cxi has messages' data alone), a write to oneself does.
    fn writes_to_itself(&self, rdm: &mut Rdm) -> Result<bool> {
        #[repr(C)]
        struct Trial {
            context: [u64; 8],
            words: [u64; 2],
        }
        const DATA: u64 = 0x5a5;
        let own = rdm.address.clone();
        let Some(own) = rdm.peer(&own) else { return Ok(false) };
        let trial = Box::into_raw(Box::new(Trial { context: [0; 8], words: [1, 0] }));
        // SAFETY: the trial stays until all of it has ended, or for ever.
        unsafe {
            let at = (&raw mut (*trial).words).cast::<u8>();
            let mr = self.register_for(Some(rdm.ep), at, 16, FI_WRITE | FI_REMOTE_WRITE, super::random_key()?)?;
            let base = if self.traits.addresses { at.expose_provenance() as u64 } else { 0 };
            let write = (*(*rdm.ep).rma).writedata;
            let (mut posted, mut seen, mut ended, mut failed) = (false, false, false, false);
            let end = Instant::now() + TRIAL;
            while !(seen && ended || failed || Instant::now() > end) {
                if !posted {
                    let context = (&raw mut (*trial).context).cast();
                    let result = write(rdm.ep, at.cast(), 8, (*mr).mem_desc, DATA, own, base + 8, (*mr).key, context);
                    (posted, failed) = (result == 0, result != 0 && result != -EAGAIN);
                }
                self.entries(|entry, error| {
                    failed |= error.is_some();
                    let mark = entry.flags & FI_REMOTE_CQ_DATA != 0;
                    (seen, ended) = (seen || mark && entry.data == DATA, ended || !mark);
                })?;
            }
            if !posted || ended {
                close(mr.cast());
                let landed = (&raw const (*trial).words[1]).read_volatile() == 1;
                drop(Box::from_raw(trial));
                return Ok(seen && ended && !failed && landed);
            }
        }
        Ok(false)
    }

    /// Ends the endpoint without connections, once what was said last has gone or nobody takes it.
    pub fn shut(&self) {
        self.settle(Rdm::sent_all);
        self.rdm().map(|mut rdm| rdm.shut());
    }

    /// Goes on until `done`, or for [`FAREWELL`].
    pub fn settle(&self, done: impl Fn(&Rdm) -> bool) {
        let end = Instant::now() + FAREWELL;
        while let Some(mut rdm) = self.rdm() {
            if done(&rdm) || rdm.ep.is_null() || Instant::now() > end {
                return;
            }
            if self.entries(|entry, error| rdm.ended(entry, error)).is_err() {
                return;
            }
            rdm.tend();
        }
    }
}
