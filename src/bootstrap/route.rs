//! How to reach a process, in 72 bytes, as unique ids and the root's table carry it: its name, its machine, and where it listens for
//! other machines.
#![forbid(unsafe_code)]

use super::address::Address;
use std::fmt;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Which process.
    pub address: Address,
    /// Its machine, or that of its rank, where GINRS_FAKE_MACHINES tells them apart.
    pub machine: u64,
    /// Where it listens for other machines.
    pub doors: Doors,
}

/// Size of a route, in bytes.
pub const ROUTE_BYTES: usize = 72;

/// Which of the two ways a connection takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The Unix socket of that name.
    Near(Address),
    /// One of these TCP addresses.
    Far(Doors),
}

impl Route {
    /// From a rank on `machine`. A process without TCP addresses can only be near.
    pub fn way(&self, machine: u64) -> Way {
        if self.machine == machine || self.doors.is_empty() { Way::Near(self.address) } else { Way::Far(self.doors) }
    }

    /// The bytes that travel.
    pub fn encode(&self) -> [u8; ROUTE_BYTES] {
        let mut out = [0; ROUTE_BYTES];
        let address = self.address.to_bytes();
        out[0] = address[0];
        out[1..17].copy_from_slice(&address[16..]);
        out[17..25].copy_from_slice(&self.machine.to_le_bytes());
        out[25..].copy_from_slice(&self.doors.0);
        out
    }

    /// From bytes of anybody.
    pub fn decode(bytes: &[u8; ROUTE_BYTES]) -> Option<Self> {
        // A record of an address has zeros between its kind and its name.
        let mut address = [0; 32];
        address[0] = bytes[0];
        address[16..].copy_from_slice(&bytes[1..17]);
        Some(Self {
            address: Address::from_bytes(&address).ok()?,
            machine: u64::from_le_bytes(bytes[17..25].try_into().expect("8 bytes")),
            doors: Doors::decode(bytes[25..].try_into().expect("47 bytes"))?,
        })
    }
}

/// Six IPv4 addresses, or one IPv6 address with its scope and three IPv4 addresses, or two of IPv6. `kind, port, address [, scope]` each, then
/// zeros.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Doors([u8; DOORS_BYTES]);

const DOORS_BYTES: usize = 47;

const V4: u8 = 4;
const V6: u8 = 6;
const V4_BYTES: usize = 7;
const V6_BYTES: usize = 23;

impl Doors {
    /// As many of `addresses` as fit, in their order; the first IPv6 address always: a machine without IPv4 comes by no other.
    pub fn of(addresses: impl IntoIterator<Item = SocketAddr>) -> Self {
        let (mut out, mut at) = (Self::default().0, 0);
        let addresses: Vec<SocketAddr> = addresses.into_iter().collect();
        let mut kept = if addresses.iter().any(SocketAddr::is_ipv6) { V6_BYTES } else { 0 };
        for address in addresses {
            let bytes = encode(address);
            if address.is_ipv6() {
                kept = 0;
            }
            if let Some(room) = out[..DOORS_BYTES - kept].get_mut(at..at + bytes.len()) {
                room.copy_from_slice(&bytes);
                at += bytes.len();
            }
        }
        Self(out)
    }

    /// From a record of anybody; None if it is none.
    pub fn decode(bytes: &[u8; DOORS_BYTES]) -> Option<Self> {
        let doors = Self(*bytes);
        let known: usize = doors.iter().map(|address| encode(address).len()).sum();
        bytes[known..].iter().all(|byte| *byte == 0).then_some(doors)
    }

    /// The addresses.
    pub fn iter(&self) -> impl Iterator<Item = SocketAddr> {
        let mut rest = &self.0[..];
        std::iter::from_fn(move || {
            let (address, tail) = take(rest)?;
            rest = tail;
            Some(address)
        })
    }

    /// Of all addresses, if they have one.
    pub fn family(&self) -> Option<&'static str> {
        let mut all = self.iter().map(|door| if door.is_ipv4() { "IPv4" } else { "IPv6" });
        let first = all.next()?;
        all.all(|family| family == first).then_some(first)
    }

    /// True where there is none.
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }
}

impl Default for Doors {
    fn default() -> Self {
        Self([0; DOORS_BYTES])
    }
}

fn encode(address: SocketAddr) -> Vec<u8> {
    let port = address.port().to_be_bytes();
    match address {
        SocketAddr::V4(v4) => [&[V4][..], &port, &v4.ip().octets()].concat(),
        SocketAddr::V6(v6) => [&[V6][..], &port, &v6.ip().octets(), &v6.scope_id().to_be_bytes()].concat(),
    }
}

fn take(bytes: &[u8]) -> Option<(SocketAddr, &[u8])> {
    let length = match *bytes.first()? {
        V4 => V4_BYTES,
        V6 => V6_BYTES,
        _ => return None,
    };
    let (one, rest) = bytes.split_at_checked(length)?;
    let port = u16::from_be_bytes([one[1], one[2]]);
    let address = match <[u8; 4]>::try_from(&one[3..]) {
        Ok(v4) => SocketAddr::new(IpAddr::from(v4), port),
        Err(_) => {
            let ip = <[u8; 16]>::try_from(&one[3..19]).expect("16 bytes");
            let scope = u32::from_be_bytes(one[19..].try_into().expect("4 bytes"));
            SocketAddrV6::new(ip.into(), port, 0, scope).into()
        }
    };
    Some((address, rest))
}

impl fmt::Display for Doors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self.iter().map(|address| address.to_string()).collect();
        f.write_str(if all.is_empty() { "no network address".into() } else { all.join(", ") }.as_str())
    }
}

impl fmt::Debug for Doors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Doors({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn addresses(texts: &[&str]) -> Vec<SocketAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn addresses_come_back_with_their_scope_and_what_does_not_fit_stays_away() {
        let of = |all: &[SocketAddr]| Doors::of(all.to_vec()).iter().collect::<Vec<_>>();
        let all = addresses(&["10.0.0.7:4000", "[fe80::1%3]:65535", "10.1.0.7:1", "127.0.0.1:9", "[::1]:1"]);
        assert_eq!(of(&all), all[..4]);
        assert_eq!(Doors::of(all[..2].to_vec()).to_string(), "10.0.0.7:4000, [fe80::1%3]:65535");
        let v4: Vec<_> = (1..9).map(|port| SocketAddr::from(([10, 0, 0, 7], port))).collect();
        assert_eq!(of(&v4), v4[..6]);
        assert_eq!(of(&[&v4[..], &all[1..2]].concat()), [&v4[..3], &all[1..2]].concat(), "IPv6 behind many of IPv4");
        assert_eq!((Doors::default().is_empty(), Doors::default().to_string()), (true, "no network address".into()));
    }

    proptest! {
        #[test]
        fn no_bytes_break_it(bytes in proptest::collection::vec(prop_oneof![Just(4u8), Just(6), Just(0), any::<u8>()], DOORS_BYTES)) {
            if let Some(doors) = Doors::decode(bytes[..].try_into().unwrap()) {
                prop_assert_eq!(Doors::of(doors.iter()), doors);
            }
        }
    }
}
