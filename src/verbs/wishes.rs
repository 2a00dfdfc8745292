//! What NCCL_IB_* say of cards, ports, addresses and connections, as NCCL reads them.
#![forbid(unsafe_code)]

use super::commands::Patience;
use crate::config;
use std::net::{IpAddr, Ipv6Addr};

/// All of them.
#[derive(Clone, Debug)]
pub struct Wishes {
    /// NCCL_IB_HCA.
    pub(super) ports: Ports,
    /// Which of a port's addresses; None: the one that fits the next three best.
    pub(super) address: Option<u8>,
    /// RoCE's version, 1 or 2.
    version: u8,
    /// Addresses of IPv6.
    six: bool,
    range: Option<Range>,
    /// Traffic class.
    pub(super) class: u8,
    /// Service level, or Ethernet's priority.
    pub(super) level: u8,
    /// Place in the port's table of partition keys.
    pub(super) partition: u16,
    pub(super) patience: Patience,
    /// Payloads may arrive in any order among themselves.
    pub(super) relaxed: bool,
}

/// Which devices and ports: `^=name:port,...`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ports {
    not: bool,
    exact: bool,
    items: Vec<(String, Option<u8>)>,
}

impl Ports {
    fn parse(text: &str) -> Result<Self, String> {
        let (not, rest) = text.strip_prefix('^').map_or((false, text), |rest| (true, rest));
        let (exact, rest) = rest.strip_prefix('=').map_or((false, rest), |rest| (true, rest));
        let item = |item: &str| match item.split_once(':') {
            None => Ok((item.to_owned(), None)),
            Some((name, port)) => match port.parse() {
                Ok(port @ 1..) => Ok((name.to_owned(), Some(port))),
                _ => Err(format!(
                    "NCCL_IB_HCA is {text:?}: {port:?} is no port | fix: mlx5_0 or mlx5_0:1, comma-separated, ^ or = in front"
                )),
            },
        };
        let items = rest.split(',').map(str::trim).filter(|item| !item.is_empty()).map(item).collect::<Result<_, _>>()?;
        Ok(Self { not, exact, items })
    }

    /// May that port of that device be used?
    pub fn has(&self, name: &str, port: u8) -> bool {
        let named = |item: &str| if self.exact { name == item } else { name.starts_with(item) };
        let found = self.items.iter().any(|(item, of)| named(item) && of.is_none_or(|of| of == port));
        self.items.is_empty() || found != self.not
    }
}

/// Addresses that begin with the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    first: u128,
    bits: u32,
}

impl Range {
    fn parse(text: &str) -> Option<Self> {
        let (address, bits) = text.trim().split_once('/')?;
        let (address, bits): (IpAddr, u32) = (address.parse().ok()?, bits.parse().ok()?);
        let (first, ahead) = match address {
            IpAddr::V4(four) => (four.to_ipv6_mapped(), 96),
            IpAddr::V6(six) => (six, 0),
        };
        let bits = bits.checked_add(ahead).filter(|bits| *bits <= 128)?;
        Some(Self { first: first.to_bits(), bits })
    }

    fn has(self, address: Ipv6Addr) -> bool {
        let other = self.first ^ address.to_bits();
        other.checked_shr(128 - self.bits).is_none_or(|other| other == 0)
    }
}

impl Wishes {
    /// Of this process.
    pub fn read() -> Result<Self, String> {
        if config::int("NCCL_IB_DISABLE") != 0 {
            return Err("NCCL_IB_DISABLE is 1 | fix: unset it, or GINRS_NIC".into());
        }
        let range = config::text("NCCL_IB_ADDR_RANGE").map(|text| {
            Range::parse(&text)
                .ok_or_else(|| format!("NCCL_IB_ADDR_RANGE is {text:?} | fix: an address and bits, as 10.1.0.0/16 or fd00::/8"))
        });
        let narrow = |name: &str| config::int(name).max(0) as u8;
        Ok(Self {
            ports: config::text("NCCL_IB_HCA").map_or(Ok(Ports::default()), |text| Ports::parse(&text))?,
            address: u8::try_from(config::int("NCCL_IB_GID_INDEX")).ok(),
            version: narrow("NCCL_IB_ROCE_VERSION_NUM"),
            six: config::text("NCCL_IB_ADDR_FAMILY").is_some_and(|family| family.trim().eq_ignore_ascii_case("AF_INET6")),
            range: range.transpose()?,
            class: narrow("NCCL_IB_TC"),
            level: narrow("NCCL_IB_SL"),
            partition: config::int("NCCL_IB_PKEY") as u16,
            patience: Patience { timeout: narrow("NCCL_IB_TIMEOUT"), retries: narrow("NCCL_IB_RETRY_CNT") },
            relaxed: config::int("NCCL_IB_PCI_RELAXED_ORDERING") != 0,
        })
    }

    /// How far an address of RoCE, by its kind as the system calls it, is from what is asked for; None: it may not be.
    pub(super) fn distance(&self, address: [u8; 16], kind: &str) -> Option<u32> {
        let address = Ipv6Addr::from(address);
        let version = if kind == "RoCE v2" { 2 } else { 1 };
        let six = address.to_ipv4_mapped().is_none();
        let near = 2 * u32::from(version != self.version) + u32::from(six != self.six);
        self.range.is_none_or(|range| range.has(address)).then_some(near)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_and_ports_are_chosen_as_nccl_does() {
        let has = |text: &str| {
            let ports = Ports::parse(text).unwrap();
            [("mlx5_0", 1), ("mlx5_0", 2), ("mlx5_1", 1), ("mlx5_10", 1)].map(|(name, port)| ports.has(name, port))
        };
        assert_eq!(has(""), [true; 4]);
        assert_eq!(has("mlx5"), [true; 4]);
        assert_eq!(has("mlx5_1"), [false, false, true, true]);
        assert_eq!(has("=mlx5_1"), [false, false, true, false]);
        assert_eq!(has("^mlx5_1"), [true, true, false, false]);
        assert_eq!(has("^=mlx5_1, mlx5_0:2"), [true, false, false, true]);
        assert_eq!(has("mlx5_0:2,mlx5_10:1"), [false, true, false, true]);
        for wrong in ["mlx5_0:", "mlx5_0:0", "mlx5_0:x", "mlx5_0:256"] {
            assert!(Ports::parse(wrong).is_err_and(|why| why.contains("is no port")), "{wrong}");
        }
    }

    #[test]
    fn ranges_end_where_their_bits_do() {
        let has = |range: &str, address: &str| {
            let address = match address.parse().unwrap() {
                IpAddr::V4(four) => four.to_ipv6_mapped(),
                IpAddr::V6(six) => six,
            };
            Range::parse(range).unwrap().has(address)
        };
        assert!(has("10.1.0.0/16", "10.1.255.255") && !has("10.1.0.0/16", "10.2.0.0") && !has("10.1.0.0/16", "fd00::1"));
        assert!(has("10.1.2.3/32", "10.1.2.3") && !has("10.1.2.3/32", "10.1.2.2"));
        assert!(has("0.0.0.0/0", "1.2.3.4") && !has("0.0.0.0/0", "fd00::1") && has("::/0", "fd00::1") && has("::/0", "1.2.3.4"));
        assert!(has("fd00::/8", "fdff::1") && !has("fd00::/8", "fe80::1"));
        for wrong in ["10.1.0.0", "10.1.0.0/33", "fd00::/129", "10.0.0.0/4294967295", "10.1/16", "/8", "x/8", "10.1.0.0/-1"] {
            assert_eq!(Range::parse(wrong), None, "{wrong}");
        }
    }
}
