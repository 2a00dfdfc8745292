//! The environment variables of the CPU device, read once per process.

use crate::once::OnceLock;

/// CUDA threads that may be live in one process at a time.
pub const MAX_LIVE_THREADS: u32 = 1 << 19;
/// Threads of one block at most.
pub const MAX_BLOCK_THREADS: u32 = 1024;
/// Dynamic shared memory of a block unless `cudaFuncSetAttribute` allows more, bytes.
pub const SHARED_BYTES: usize = 48 << 10;
/// Dynamic shared memory that `cudaFuncSetAttribute` may allow, bytes.
pub const SHARED_BYTES_OPTIN: usize = 227 << 10;

/// What the environment said.
#[derive(Debug)]
pub struct Config {
    /// Devices of the process: `GINRS_CPU_DEVICES`, else `LOCAL_WORLD_SIZE`, else 8.
    pub devices: usize,
    /// Processes of the job on this machine, as its launcher says: `LOCAL_WORLD_SIZE`, else 1.
    pub processes: u32,
    /// Blocks that run at the same time on a device: `GINRS_CPU_RESIDENT`, else 512.
    pub resident: u32,
    /// Bytes of a CUDA thread's stack: `GINRS_CPU_STACK`, else 64 KiB; four times as much with AddressSanitizer, whose frames are large.
    pub stack_bytes: usize,
    /// Where a page without access lies below a stack: `GINRS_CPU_STACK_GUARD`.
    pub stack_guard: Guard,
    /// Of `GINRS_SCHEDULE`.
    pub schedule: Option<Seed>,
}

/// What schedules are drawn from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seed {
    /// The variable's value.
    pub number: u64,
    /// `RANK`, as launchers set it, else 0: ranks that are processes have schedules of their own.
    pub rank: u64,
}

/// See [`Config::stack_guard`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Guard {
    /// Unset: below the red zone of as many stacks as leaves most of the process's mappings free.
    Some,
    /// 0: nowhere.
    None,
    /// 1: in place of the red zone, of every stack.
    Exact,
}

/// The configuration of this process.
pub fn config() -> &'static Config {
    static CONFIG: OnceLock<Config> = OnceLock::new();
    let stack = || if crate::asan::present() { 256 << 10 } else { 64 << 10 };
    CONFIG.get_or_init(|| Config {
        devices: number("GINRS_CPU_DEVICES", 1, 1024).or_else(|| number("LOCAL_WORLD_SIZE", 1, 1024)).unwrap_or(8) as usize,
        processes: number("LOCAL_WORLD_SIZE", 1, 1024).unwrap_or(1) as u32,
        resident: number("GINRS_CPU_RESIDENT", 1, 4096).unwrap_or(512) as u32,
        stack_bytes: (number("GINRS_CPU_STACK", 16 << 10, 64 << 20).unwrap_or_else(stack) as usize).next_multiple_of(4096),
        stack_guard: match number("GINRS_CPU_STACK_GUARD", 0, 1) {
            None => Guard::Some,
            Some(0) => Guard::None,
            Some(_) => Guard::Exact,
        },
        schedule: seed("GINRS_SCHEDULE").map(|number| Seed { number, rank: environment("RANK").unwrap_or(0) }),
    })
}

/// The variable as a number (K, M and G are powers of 1024), or None with a line on stderr if it is something else.
pub(crate) fn number(name: &str, least: u64, most: u64) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    match parse(&text) {
        Some(n) if (least..=most).contains(&n) => Some(n),
        _ => {
            crate::error::report(&format!("{name}={text} is ignored: give a number from {least} to {most}"));
            None
        }
    }
}

fn environment(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.trim().parse().ok()
}

/// The variable as a seed, as [`number`]: GINRS_CHAOS takes the same, so no units.
fn seed(name: &str) -> Option<u64> {
    let text = std::env::var_os(name)?;
    let seed = environment(name);
    if seed.is_none() {
        let text = text.to_string_lossy();
        crate::error::report(&format!("{name}={text} is ignored: give a number from 0 to {}", u64::MAX));
    }
    seed
}

fn parse(text: &str) -> Option<u64> {
    let text = text.trim();
    let (digits, unit) = match text.as_bytes().last()? {
        b'k' | b'K' => (&text[..text.len() - 1], 1 << 10),
        b'm' | b'M' => (&text[..text.len() - 1], 1 << 20),
        b'g' | b'G' => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn sizes_are_numbers_with_a_unit() {
        assert_eq!(parse("65536"), Some(65536));
        assert_eq!(parse(" 128K "), Some(128 << 10));
        assert_eq!(parse("1g"), Some(1 << 30));
        for junk in ["", "K", "-1", "64KB", "0x10", "99999999999999999999", "18446744073709551615G"] {
            assert_eq!(parse(junk), None, "{junk}");
        }
    }
}
