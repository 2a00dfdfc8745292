//! `ncclConfig_t` as callers of any 2.x version pass it, and what a communicator keeps of it (spec host 6.5).

use crate::error::Result;
use crate::layout::{NCCL_CONFIG_MAGIC, NCCL_CONFIG_UNDEF_INT, NCCL_VERSION_CODE, ncclConfig_t};
use crate::{bail, config, info};
use std::ffi::CStr;

/// The settings of one communicator, owned. `None` is "undefined": the library decides.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct CommConfig {
    /// False: calls that wait for peers return ncclInProgress and go on by themselves.
    pub blocking: bool,
    pub cga_cluster_size: i32,
    /// Blocks of a collective, at least and at most. Without a maximum the library leaves room for other communicators (`coll/room.rs`).
    pub min_ctas: i32,
    pub max_ctas: Option<i32>,
    pub net_name: Option<String>,
    pub split_share: bool,
    pub traffic_class: Option<i32>,
    pub comm_name: Option<String>,
    pub collnet_enable: bool,
    pub cta_policy: i32,
    pub shrink_share: bool,
    pub nvls_ctas: Option<i32>,
    pub channels_per_net_peer: Option<i32>,
    pub nvlink_centric_sched: bool,
    /// The struct was made by the headers of 2.28.3, whose device API has other structs.
    pub from_2_28_3: bool,
}

impl Default for CommConfig {
    fn default() -> Self {
        Self {
            blocking: true,
            cga_cluster_size: 4,
            min_ctas: 1,
            max_ctas: None,
            net_name: None,
            split_share: false,
            traffic_class: None,
            comm_name: None,
            collnet_enable: false,
            cta_policy: 0,
            shrink_share: false,
            nvls_ctas: None,
            channels_per_net_peer: None,
            nvlink_centric_sched: false,
            from_2_28_3: false,
        }
    }
}

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
    // Half a pointer is none.
    let has = |at: usize| size >= at + size_of::<*const std::ffi::c_char>();
    if !has(std::mem::offset_of!(ncclConfig_t, netName)) {
        own.netName = std::ptr::null();
    }
    if !has(std::mem::offset_of!(ncclConfig_t, commName)) {
        own.commName = std::ptr::null();
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

fn flag(name: &str, value: i32) -> Result<Option<bool>> {
    Ok(checked(name, value, 0..=1)?.map(|value| value == 1))
}

/// # Safety
/// `at` is NULL or a C string.
unsafe fn owned(at: *const std::ffi::c_char) -> Option<String> {
    // SAFETY: the contract above.
    (!at.is_null()).then(|| unsafe { CStr::from_ptr(at) }.to_string_lossy().into_owned())
}

impl CommConfig {
    /// Reads and checks what the caller passed, fills in defaults, and lets the environment have the last word.
    ///
    /// # Safety
    /// `at` is NULL or points to a readable config whose `size` field is right and whose strings are C strings.
    pub unsafe fn from_c(at: *const ncclConfig_t) -> Result<Self> {
        // SAFETY: the contract above.
        let raw = unsafe { read(at) }?;
        let default = Self::default();
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
        let own = Self {
            blocking: flag("blocking", raw.blocking)?.unwrap_or(default.blocking),
            cga_cluster_size: checked("cgaClusterSize", raw.cgaClusterSize, 0..=i32::MAX)?.unwrap_or(default.cga_cluster_size),
            min_ctas: checked("minCTAs", raw.minCTAs, 1..=i32::MAX)?.unwrap_or(default.min_ctas),
            max_ctas: checked("maxCTAs", raw.maxCTAs, 1..=i32::MAX)?,
            // SAFETY: the contract above.
            net_name: unsafe { owned(raw.netName) },
            split_share: flag("splitShare", raw.splitShare)?.unwrap_or(default.split_share),
            traffic_class: defined(raw.trafficClass),
            // SAFETY: the contract above.
            comm_name: unsafe { owned(raw.commName) },
            collnet_enable: flag("collnetEnable", raw.collnetEnable)?.unwrap_or(default.collnet_enable),
            cta_policy: checked("CTAPolicy", raw.CTAPolicy, 0..=2)?.unwrap_or(default.cta_policy),
            shrink_share: flag("shrinkShare", raw.shrinkShare)?.unwrap_or(default.shrink_share),
            nvls_ctas: checked("nvlsCTAs", raw.nvlsCTAs, 1..=i32::MAX)?,
            channels_per_net_peer: checked("nChannelsPerNetPeer", raw.nChannelsPerNetPeer, 1..=64)?,
            nvlink_centric_sched: flag("nvlinkCentricSched", raw.nvlinkCentricSched)?.unwrap_or(default.nvlink_centric_sched),
            from_2_28_3: raw.version == 22803,
        };
        Ok(own.with_environment())
    }

    /// The environment overrides; what it says that cannot be meant is passed over (config::report tells it).
    fn with_environment(mut self) -> Self {
        let number = |name: &str| i32::try_from(config::int(name)).ok().filter(|&value| value != NCCL_CONFIG_UNDEF_INT);
        let override_flag = |name: &str, field: &mut bool| *field = number(name).map_or(*field, |value| value == 1);
        override_flag("NCCL_COMM_BLOCKING", &mut self.blocking);
        override_flag("NCCL_COMM_SPLIT_SHARE_RESOURCES", &mut self.split_share);
        override_flag("NCCL_COMM_SHRINK_SHARE_RESOURCES", &mut self.shrink_share);
        override_flag("NCCL_COLLNET_ENABLE", &mut self.collnet_enable);
        override_flag("NCCL_NVLINK_UTIL_CENTRIC_SCHED_ENABLE", &mut self.nvlink_centric_sched);
        self.cga_cluster_size = number("NCCL_CGA_CLUSTER_SIZE").unwrap_or(self.cga_cluster_size);
        self.min_ctas = number("NCCL_MIN_CTAS").unwrap_or(self.min_ctas);
        self.max_ctas = number("NCCL_MAX_CTAS").or(self.max_ctas);
        self.cta_policy = number("NCCL_CTA_POLICY").unwrap_or(self.cta_policy);
        self.channels_per_net_peer = number("NCCL_NCHANNELS_PER_NET_PEER").or(self.channels_per_net_peer);
        self.net_name = config::text("NCCL_NET").or(self.net_name);
        self.repaired()
    }

    /// Values that are in range each and cannot be meant together, or are larger than what there is.
    fn repaired(mut self) -> Self {
        self.max_ctas = self.max_ctas.map(|max| max.min(MOST_CTAS));
        self.min_ctas = self.min_ctas.min(MOST_CTAS);
        if let Some(max) = self.max_ctas.filter(|&max| self.min_ctas > max) {
            info!(ENV, "minCTAs {} is more than maxCTAs {max}: both are {max}", self.min_ctas);
            self.min_ctas = max;
        }
        self
    }
}

/// More blocks than this a collective does not use, whatever is asked for.
const MOST_CTAS: i32 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(raw: &ncclConfig_t) -> Result<CommConfig> {
        // SAFETY: a live struct with null strings.
        unsafe { CommConfig::from_c(raw) }
    }

    #[test]
    fn null_and_undefined_give_the_defaults() {
        // SAFETY: NULL is allowed.
        assert_eq!(unsafe { CommConfig::from_c(std::ptr::null()) }.unwrap(), CommConfig::default());
        assert_eq!(parse(&undefined()).unwrap(), CommConfig::default());
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
    fn a_size_that_ends_inside_a_string_gives_no_string() {
        let garbage = 0x5a5a_5a5a_5a5a as *const std::ffi::c_char;
        for (size, raw) in
            [(34, ncclConfig_t { netName: garbage, ..undefined() }), (52, ncclConfig_t { commName: garbage, ..undefined() })]
        {
            assert_eq!(parse(&ncclConfig_t { size, ..raw }).unwrap(), CommConfig::default());
        }
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
        assert_eq!(parse(&ncclConfig_t { CTAPolicy: 2, maxCTAs: 16, ..undefined() }).unwrap().cta_policy, 2);
    }
}
