//! What the machine allows: asked before it answers with a killed process.
#![forbid(unsafe_code)]

use crate::bail;
use crate::error::Result;
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Allocations below this are not checked against the memory that is left: reading /proc would cost more than they do.
const WORTH_CHECKING: usize = 64 << 20;

/// An error if `bytes` surely do not fit into what the machine and the control group have left.
pub fn check_memory(bytes: usize) -> Result<()> {
    if bytes < WORTH_CHECKING {
        return Ok(());
    }
    if let Some(left) = machine_left()
        && bytes as u64 > left
    {
        bail!(
            UnhandledCudaError,
            23,
            "no memory for an allocation | {bytes} bytes asked, {left} bytes left on this machine | fix: ask for less or end \
             other programs"
        );
    }
    if let Some((limit, used)) = cgroup()
        && bytes as u64 > limit.saturating_sub(used)
    {
        bail!(
            UnhandledCudaError,
            23,
            "no memory for an allocation | {bytes} bytes asked, memory.max {limit} of which {used} used | fix: raise the \
             container's memory limit or ask for less"
        );
    }
    Ok(())
}

/// An error if a file may not have so many bytes: what the system answers with is a signal that ends the process without a word.
pub fn check_file(bytes: u64) -> Result<()> {
    if let Some(most) = getrlimit(Resource::Fsize).current.filter(|&most| most < bytes) {
        bail!(
            UnhandledCudaError,
            23,
            "no memory for an allocation | {bytes} bytes, which count as a file's: those may have {most} | fix: raise the file size limit (ulimit -f)"
        );
    }
    Ok(())
}

fn machine_left() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.trim().trim_end_matches("kB").trim().parse::<u64>().ok()? * 1024)
}

/// Limit and reclaimable-free use of our control group (version 2), if it has a limit.
fn cgroup() -> Option<(u64, u64)> {
    let path = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = path.lines().find_map(|line| line.strip_prefix("0::"))?.trim_start_matches('/').to_owned();
    let folder = std::path::Path::new("/sys/fs/cgroup").join(path);
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).ok();
    let limit = read("memory.max")?.trim().parse().ok()?;
    let current: u64 = read("memory.current")?.trim().parse().ok()?;
    let cache = read("memory.stat")?.lines().find_map(|l| l.strip_prefix("inactive_file ")?.parse::<u64>().ok()).unwrap_or(0);
    Some((limit, current.saturating_sub(cache)))
}

/// Runs `open`; when the soft limit of descriptors is reached, raises it to the hard one and tries once more.
pub fn with_descriptors<T>(mut open: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    match open() {
        Err(Errno::MFILE) => {
            let limit = getrlimit(Resource::Nofile);
            setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })?;
            open()
        }
        result => result,
    }
}

/// Bytes of memory in this machine.
pub fn total_memory() -> u64 {
    let info = rustix::system::sysinfo();
    info.totalram as u64 * u64::from(info.mem_unit)
}
