//! The service of this process: made at first use, with the thread that runs its event loop.

use super::address::{Address, or_system};
use super::event_loop::EventLoop;
use super::service::{BELL, LISTENER, Service};
use crate::error::Result;
use crate::fault;
use crate::process::{self, ServiceFd, random};
use crate::sync::{Mutex, PerProcess};
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::io::Errno;

impl Service {
    /// The service of this process, started at first use.
    pub fn get() -> Result<&'static Service> {
        static SERVICE: PerProcess<Mutex<Option<&'static Service>>> = PerProcess::new();
        let mut slot = SERVICE.get(Mutex::default).lock();
        if let Some(service) = *slot {
            return if service.is_intact() { Ok(service) } else { Err(process::descriptors_lost()) };
        }
        process::raise_descriptor_limit();
        let what = "the bootstrap's sockets cannot be made";
        let (address, listener) = loop {
            let address = Address::Abstract(random()?);
            match address.listen() {
                // Somebody draws names as this process does.
                Err(Errno::ADDRINUSE) => {}
                socket => break (address, ServiceFd::new(or_system(what, socket)?)),
            }
        };
        or_system(what, fault::step("descriptor"))?;
        let epoll = ServiceFd::new(or_system(what, epoll::create(epoll::CreateFlags::CLOEXEC))?);
        let bell = ServiceFd::new(or_system(what, eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK))?);
        for (fd, token) in [(&bell, BELL), (&listener, LISTENER)] {
            or_system(what, epoll::add(epoll.as_fd(), fd.as_fd(), epoll::EventData::new_u64(token), epoll::EventFlags::IN))?;
        }
        let (requests, ports, doors, points) = (Mutex::default(), Mutex::default(), Mutex::default(), Mutex::default());
        let service: &'static Service = Box::leak(Box::new(Service { address, epoll, bell, requests, ports, doors, points }));
        let body = move || EventLoop::new(service, listener).run();
        process::service_thread("ginrs boot", body, move |error| service.broken(&error)).inspect_err(|_| {
            // SAFETY: it came from a Box just now, and who else had it, the thread's closures, went without being run.
            drop(unsafe { Box::from_raw(std::ptr::from_ref(service).cast_mut()) });
        })?;
        *slot = Some(service);
        Ok(service)
    }
}
