//! The machine: who it is, its limits, its network.

use crate::check::Check;
use ginrs::inspect;
use rustix::process::{Resource, getrlimit};
use std::ffi::CStr;
use std::net::IpAddr;

fn line(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

pub fn identity() -> Check {
    let system = rustix::system::uname();
    let namespace = std::fs::read_link("/proc/self/ns/net").map(|link| link.display().to_string()).unwrap_or_default();
    Check::note(
        "machine",
        format!("{:016x}: ranks with the same boot and network namespace share memory", ginrs::process::machine()),
    )
    .with(vec![
        Check::note("host", system.nodename().to_string_lossy()),
        Check::note("boot", line("/proc/sys/kernel/random/boot_id")),
        Check::note("network namespace", namespace),
        Check::note("kernel", system.release().to_string_lossy()),
        Check::note("user", rustix::process::geteuid().as_raw().to_string()),
    ])
}

pub fn limits() -> Check {
    // What each is asked for, by name of ulimit; below `least` something ordinary fails.
    let rows = [
        (Resource::Nofile, "-n, open files", 1024, "links, memory and pipes of ranks"),
        (Resource::Memlock, "-l, locked memory", 0, "pinned staging memory of GPUs, registered memory of NICs"),
        (Resource::Nproc, "-u, processes and threads", 1024, "service and proxy threads"),
        (Resource::As, "-v, address space", 64 << 30, "each LSA rank takes at least 4 GiB of addresses"),
    ];
    let mut checks: Vec<Check> = Vec::new();
    for (resource, name, least, what) in rows {
        let hard = getrlimit(resource).maximum;
        let soft = getrlimit(resource).current;
        let words = |limit: Option<u64>| limit.map_or("unlimited".into(), |n| n.to_string());
        let found = format!("{} (hard {}): {what}", words(soft), words(hard));
        let name = format!("ulimit {name}");
        // The library raises the soft limit of open files itself.
        let counts = if resource == Resource::Nofile { hard } else { soft };
        checks.push(match counts.is_some_and(|n| n < least) {
            true => Check::no(name, found).fix(format!("raise it to {least} and more")),
            false => Check::yes(name, found),
        });
    }
    // Of RDMA cards alone: TCP and shared memory lock nothing.
    if getrlimit(Resource::Memlock).current.is_some_and(|n| n < 96 << 20) {
        let fix = "RDMA cards need more: ulimit -l unlimited, in a container --ulimit memlock=-1";
        checks[1] = checks[1].clone().fix(fix);
    }
    checks.push(Check::note("/dev/shm", "not used: shared memory has no name and no size limit of its own"));
    let maps = line("/proc/sys/vm/max_map_count");
    checks.push(Check::note("vm.max_map_count", maps));
    Check::note("limits", "").with(checks)
}

/// What the library listens at, by NCCL_SOCKET_IFNAME and NCCL_SOCKET_FAMILY, and what carries from there.
pub fn network() -> Check {
    let interfaces = interfaces();
    let list = interfaces.iter().map(|(name, address, up)| {
        let state = if *up { "up" } else { "down" };
        let kind = if address.is_loopback() { ", this machine alone" } else { "" };
        Check::note(name, format!("{address}, {state}{kind}"))
    });
    let list: Vec<Check> = list.collect();
    let (chosen, carrier) = match inspect::network() {
        Ok(both) => both,
        Err(error) => return Check::no("network", error.to_string()).with(list),
    };
    let words: Vec<String> = chosen.iter().map(|address| address.ip().to_string()).collect();
    let network = match chosen.iter().any(|address| !address.ip().is_loopback()) {
        true => Check::yes("network", format!("other machines connect to {}, any free port (TCP)", words.join(", "))),
        false => {
            Check::no("network", "no interface but loopback is up, or NCCL_SOCKET_IFNAME and NCCL_SOCKET_FAMILY leave no other")
                .fix("bring one up, or name it, to run on several machines")
        }
    };
    let carrier = match carrier {
        Ok(carrier) => Check::yes("libfabric", format!("{carrier} (GINRS_OFI_PROVIDER names another)")),
        Err(why) => Check::no("libfabric", why),
    };
    network.with([vec![carrier], list].concat())
}

/// Name, address and whether it is up, of each address of this network namespace.
fn interfaces() -> Vec<(String, IpAddr, bool)> {
    let mut found = Vec::new();
    let mut list = std::ptr::null_mut();
    // SAFETY: writes the head of a list that is ours until freeifaddrs.
    if unsafe { libc::getifaddrs(&mut list) } != 0 {
        return found;
    }
    let mut next = list;
    // SAFETY: the list's elements stay as they are until freeifaddrs; each ends in NULL or in the next.
    while let Some(entry) = unsafe { next.as_ref() } {
        next = entry.ifa_next;
        // SAFETY: NULL, or an address of the family that it begins with.
        let Some(address) = (unsafe { entry.ifa_addr.as_ref() }) else { continue };
        let ip: IpAddr = match i32::from(address.sa_family) {
            // SAFETY: an AF_INET address is a sockaddr_in, whose bytes are in the order of the network.
            libc::AF_INET => IpAddr::from(unsafe { (*entry.ifa_addr.cast::<libc::sockaddr_in>()).sin_addr.s_addr }.to_ne_bytes()),
            // SAFETY: likewise.
            libc::AF_INET6 => IpAddr::from(unsafe { (*entry.ifa_addr.cast::<libc::sockaddr_in6>()).sin6_addr.s6_addr }),
            _ => continue,
        };
        // SAFETY: a terminated name.
        let name = unsafe { CStr::from_ptr(entry.ifa_name) }.to_string_lossy().into_owned();
        found.push((name, ip, entry.ifa_flags & libc::IFF_UP as u32 != 0));
    }
    // SAFETY: what getifaddrs made, once.
    unsafe { libc::freeifaddrs(list) };
    found
}
