//! `ncclConfig_t` as callers of any 2.x version pass it, and what a communicator keeps of it (spec host 6.5).

use crate::bail;
use crate::error::Result;
use crate::layout::{NCCL_CONFIG_MAGIC, NCCL_CONFIG_UNDEF_INT, NCCL_VERSION_CODE, ncclConfig_t};
use crate::team::config::{Config, MOST_CTAS};

/// The config struct with every field undefined.
fn undefined() -> ncclConfig_t {
    const UNDEF: i32 = NCCL_CONFIG_UNDEF_INT;
    ncclConfig_t {
        size: size_of::<ncclConfig_t>(),
        magic: NCCL_CONFIG_MAGIC,
        version: NCCL_VERSION_CODE as u32,
        blocking: UNDEF,
        cgaClusterSize: UNDEF,
        minCTAs: UNDEF,
        maxCTAs: UNDEF,
        netName: std::ptr::null(),
        splitShare: UNDEF,
        trafficClass: UNDEF,
        commName: std::ptr::null(),
        collnetEnable: UNDEF,
        CTAPolicy: UNDEF,
        shrinkShare: UNDEF,
        nvlsCTAs: UNDEF,
        nChannelsPerNetPeer: UNDEF,
        nvlinkCentricSched: UNDEF,
    }
}

/// Bytes that every version of the struct has: size, magic, version.
const HEAD: usize = 16;

/// Copies as much of the caller's struct as both sides know, and forgets fields newer than the version it names.
///
/// # Safety
/// `at` is NULL or points to a readable config whose `size` field is right.
unsafe fn read(at: *const ncclConfig_t) -> Result<ncclConfig_t> {
    let mut own = undefined();
    if at.is_null() {
        return Ok(own);
    }
    if !at.is_aligned() {
        bail!(InvalidArgument, 65, "config is misaligned | ncclConfig_t | {at:p} | fix: use NCCL_CONFIG_INITIALIZER");
    }
    // SAFETY: every version of the struct begins with these; readable by the contract above.
    let (size, magic, version) = unsafe { ((*at).size, (*at).magic, (*at).version) };
    if magic != NCCL_CONFIG_MAGIC || size < HEAD {
        bail!(
            InvalidArgument,
            65,
            "config is not initialised | ncclConfig_t | magic 0x{magic:08x}, must be 0x{NCCL_CONFIG_MAGIC:08x}; size {size}, at \
             least {HEAD} | fix: begin with ncclConfig_t config = NCCL_CONFIG_INITIALIZER"
        );
    }
    // SAFETY: the caller's struct has `size` readable bytes, ours has its own size; both begin with the same fields.
    unsafe {
        std::ptr::copy_nonoverlapping(at.cast::<u8>(), (&raw mut own).cast::<u8>(), size.min(size_of::<ncclConfig_t>()));
    }
    forget_newer_fields(&mut own, version);
    Ok(own)
}

/// A program compiled against an older header may leave garbage where that header had no field.
fn forget_newer_fields(own: &mut ncclConfig_t, version: u32) {
    let blank = undefined();
    if version < 21400 {
        own.blocking = blank.blocking;
    }
    if version < 21700 {
        own.cgaClusterSize = blank.cgaClusterSize;
        own.minCTAs = blank.minCTAs;
        own.maxCTAs = blank.maxCTAs;
        own.netName = blank.netName;
    }
    if version < 22500 {
        own.trafficClass = blank.trafficClass;
    }
    if version < 22700 {
        own.collnetEnable = blank.collnetEnable;
        own.CTAPolicy = blank.CTAPolicy;
        own.shrinkShare = blank.shrinkShare;
        own.nvlsCTAs = blank.nvlsCTAs;
    }
    if version < 22800 {
        own.nChannelsPerNetPeer = blank.nChannelsPerNetPeer;
        own.nvlinkCentricSched = blank.nvlinkCentricSched;
    }
}

fn defined(value: i32) -> Option<i32> {
    (value != NCCL_CONFIG_UNDEF_INT).then_some(value)
}

/// A defined value outside `range` is refused.
fn checked(name: &str, value: i32, range: std::ops::RangeInclusive<i32>) -> Result<Option<i32>> {
    match defined(value) {
        Some(value) if !range.contains(&value) => bail!(
            InvalidArgument,
            65,
            "config value is out of range | ncclConfig_t.{name} | {value}, must be {} to {} | fix: correct it or leave it undefined",
            range.start(),
            range.end()
        ),
        other => Ok(other),
    }
}

/// Reads and checks what the caller passed, fills in defaults, and lets the environment have the last word. Fields without an effect
/// here are checked like the others; netName and commName are not read.
///
/// # Safety
/// `at` is NULL or points to a readable config whose `size` field is right.
pub unsafe fn from_c(at: *const ncclConfig_t) -> Result<Config> {
    // SAFETY: the contract above.
    let raw = unsafe { read(at) }?;
    let most = defined(raw.maxCTAs).unwrap_or(MOST_CTAS);
    if let Some(min) = defined(raw.minCTAs)
        && min > most
    {
        bail!(
            InvalidArgument,
            65,
            "config value is out of range | ncclConfig_t.minCTAs | {min}, larger than maxCTAs {most} | fix: set maxCTAs too"
        );
    }
    let default = Config::default();
    let own = Config {
        blocking: checked("blocking", raw.blocking, 0..=1)?.map_or(default.blocking, |value| value == 1),
        min_ctas: checked("minCTAs", raw.minCTAs, 1..=i32::MAX)?.unwrap_or(default.min_ctas),
        max_ctas: checked("maxCTAs", raw.maxCTAs, 1..=i32::MAX)?,
        from_2_28_3: raw.version == 22803,
    };
    for (name, value, range) in [
        ("cgaClusterSize", raw.cgaClusterSize, 0..=i32::MAX),
        ("splitShare", raw.splitShare, 0..=1),
        ("collnetEnable", raw.collnetEnable, 0..=1),
        ("CTAPolicy", raw.CTAPolicy, 0..=2),
        ("shrinkShare", raw.shrinkShare, 0..=1),
        ("nvlsCTAs", raw.nvlsCTAs, 1..=i32::MAX),
        ("nChannelsPerNetPeer", raw.nChannelsPerNetPeer, 1..=64),
        ("nvlinkCentricSched", raw.nvlinkCentricSched, 0..=1),
    ] {
        checked(name, value, range)?;
    }
    Ok(own.with_environment())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(raw: &ncclConfig_t) -> Result<Config> {
        // SAFETY: a live struct with null strings.
        unsafe { from_c(raw) }
    }

    #[test]
    fn null_and_undefined_give_the_defaults() {
        // SAFETY: NULL is allowed.
        assert_eq!(unsafe { from_c(std::ptr::null()) }.unwrap(), Config::default());
        assert_eq!(parse(&undefined()).unwrap(), Config::default());
    }

    #[test]
    fn magic_and_size_are_checked() {
        assert_eq!(parse(&ncclConfig_t { magic: 1, ..undefined() }).unwrap_err().id, 65);
        assert!(parse(&ncclConfig_t { size: 8, ..undefined() }).is_err());
    }

    #[test]
    fn fields_beyond_the_given_size_or_version_are_not_read() {
        let garbage = ncclConfig_t { nvlinkCentricSched: 77, nChannelsPerNetPeer: 999, shrinkShare: 5, ..undefined() };
        assert!(parse(&garbage).is_err());
        assert!(parse(&ncclConfig_t { size: 64, ..garbage }).is_ok());
        assert!(parse(&ncclConfig_t { version: 22605, ..garbage }).is_ok());
        assert!(parse(&ncclConfig_t { version: 22703, ..garbage }).is_err());
        let old = ncclConfig_t { version: 21300, blocking: 9, minCTAs: -1, ..undefined() };
        assert!(parse(&old).is_ok());
    }

    #[test]
    fn values_out_of_range_are_named() {
        let cases = [
            (ncclConfig_t { blocking: 2, ..undefined() }, "blocking"),
            (ncclConfig_t { cgaClusterSize: -1, ..undefined() }, "cgaClusterSize"),
            (ncclConfig_t { minCTAs: 0, ..undefined() }, "minCTAs"),
            (ncclConfig_t { minCTAs: 8, maxCTAs: 4, ..undefined() }, "minCTAs"),
            (ncclConfig_t { CTAPolicy: 3, ..undefined() }, "CTAPolicy"),
            (ncclConfig_t { nvlsCTAs: 0, ..undefined() }, "nvlsCTAs"),
            (ncclConfig_t { nChannelsPerNetPeer: 65, ..undefined() }, "nChannelsPerNetPeer"),
            (ncclConfig_t { splitShare: -1, ..undefined() }, "splitShare"),
        ];
        for (raw, name) in cases {
            let error = parse(&raw).unwrap_err();
            assert!(error.text.contains(name), "{error}");
        }
        let capped = parse(&ncclConfig_t { minCTAs: 70, maxCTAs: 100, ..undefined() }).unwrap();
        assert_eq!((capped.min_ctas, capped.max_ctas), (64, Some(64)));
        assert_eq!(parse(&ncclConfig_t { CTAPolicy: 2, maxCTAs: 16, ..undefined() }).unwrap().max_ctas, Some(16));
    }
}
