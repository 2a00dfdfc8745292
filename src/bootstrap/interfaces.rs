//! Which addresses of this machine other machines may connect to: NCCL_SOCKET_IFNAME and NCCL_SOCKET_FAMILY as NCCL reads them, else
//! what a network most likely reaches. Never all of them at once, as 0.0.0.0 would be.
#![forbid(unsafe_code)]

use super::fixed;
use crate::bail;
use crate::config;
use crate::error::Result;
use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// An address of an interface that is up; its port is 0.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Candidate {
    name: String,
    address: SocketAddr,
}

/// Addresses to listen at, the best first; none where nothing was asked for and nothing is up.
pub fn chosen() -> Result<Vec<SocketAddr>> {
    choose(&up(), config::text("NCCL_SOCKET_IFNAME").as_deref(), config::text("NCCL_SOCKET_FAMILY").as_deref())
}

/// All addresses of this machine that are up.
pub fn own() -> Vec<IpAddr> {
    up().into_iter().map(|candidate| candidate.address.ip()).collect()
}

/// `to`; a link-local address with this machine's number for its network, whatever another machine's is: that of the interface which
/// NCCL_COMM_ID names here, else [`scope`]'s.
pub fn scoped(to: SocketAddr) -> SocketAddr {
    match to {
        SocketAddr::V6(mut v6) if v6.ip().is_unicast_link_local() => {
            let named = fixed::interface().and_then(|(address, name)| (address == *v6.ip()).then(|| number(&name))?);
            let scope = named.or_else(|| scope(*v6.ip(), &up(), &chosen().unwrap_or_default()));
            v6.set_scope_id(scope.unwrap_or(v6.scope_id()));
            v6.into()
        }
        to => to,
    }
}

/// This machine's number of the interface `name`, which may be a number.
pub fn number(name: &str) -> Option<u32> {
    nix::net::if_::if_nametoindex(name).ok().or(name.parse().ok())
}

/// The interface that has the link-local address `to` itself, else one of those that `chosen` has, else one that has any.
fn scope(to: Ipv6Addr, up: &[Candidate], chosen: &[SocketAddr]) -> Option<u32> {
    let near = |address: &SocketAddr| match address {
        SocketAddr::V6(v6) if is_link_local(address) => Some((*v6.ip(), v6.scope_id())),
        _ => None,
    };
    let mut all = up.iter().filter_map(|candidate| near(&candidate.address));
    let own = all.clone().find(|(ip, _)| *ip == to);
    own.or_else(|| chosen.iter().find_map(near)).or_else(|| all.next()).map(|(_, scope)| scope)
}

fn up() -> Vec<Candidate> {
    let all = getifaddrs().into_iter().flatten();
    let up = all.filter(|entry| entry.flags.contains(InterfaceFlags::IFF_UP | InterfaceFlags::IFF_RUNNING));
    up.filter_map(|entry| {
        let storage = entry.address?;
        let v4 = storage.as_sockaddr_in().map(|v4| SocketAddr::from(*v4));
        let address = v4.or_else(|| storage.as_sockaddr_in6().map(|v6| SocketAddr::from(*v6)))?;
        Some(Candidate { name: entry.interface_name, address })
    })
    .collect()
}

/// NCCL's syntax: names that begin so, comma-separated; `=` in front: exactly these; `^` in front: all but these.
fn matches(spec: &str, name: &str) -> bool {
    let (not, list) = spec.strip_prefix('^').map_or((false, spec), |list| (true, list));
    let (exact, list) = list.strip_prefix('=').map_or((false, list), |list| (true, list));
    let mut items = list.split(',').map(str::trim).filter(|item| !item.is_empty());
    items.any(|item| if exact { name == item } else { name.starts_with(item) }) != not
}

/// How little another machine may expect of an interface: InfiniBand first, what only this machine sees last.
fn class(name: &str) -> u8 {
    let begins = |heads: &[&str]| heads.iter().any(|head| name.starts_with(head));
    match name {
        _ if begins(&["ib"]) => 0,
        "lo" => 3,
        _ if begins(&["docker", "virbr", "podman", "cni"]) => 2,
        _ => 1,
    }
}

fn is_link_local(address: &SocketAddr) -> bool {
    matches!(address, SocketAddr::V6(v6) if v6.ip().is_unicast_link_local())
}

fn choose(up: &[Candidate], spec: Option<&str>, family: Option<&str>) -> Result<Vec<SocketAddr>> {
    let spec = spec.map(str::trim).filter(|spec| !spec.is_empty());
    let family = family.map(|family| family.trim().to_ascii_uppercase()).filter(|family| !family.is_empty());
    let of_family = |candidate: &&Candidate| match family.as_deref() {
        Some("AF_INET") => candidate.address.is_ipv4(),
        Some("AF_INET6") => candidate.address.is_ipv6(),
        _ => true,
    };
    let mut found: Vec<&Candidate> =
        up.iter().filter(of_family).filter(|candidate| spec.is_none_or(|spec| matches(spec, &candidate.name))).collect();
    if let (Some(spec), true) = (spec, found.is_empty()) {
        let mut names: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for candidate in up {
            names.entry(&candidate.name).or_default().push(candidate.address.ip().to_string());
        }
        let list: Vec<String> = names.iter().map(|(name, ips)| format!("{name} ({})", ips.join(", "))).collect();
        let family = family.map_or(String::new(), |family| format!(" with an address of NCCL_SOCKET_FAMILY={family}"));
        let near = near(up, spec).map_or(String::new(), |near| format!(", as {near}"));
        bail!(
            InvalidUsage,
            100,
            "NCCL_SOCKET_IFNAME matches no interface that is up{family} | \"{spec}\" | up: {} | fix: name one of these{near}, or unset it",
            if list.is_empty() { "none".into() } else { list.join(" ") }
        );
    }
    // Whoever names an interface means it.
    if spec.is_none_or(|spec| spec.starts_with('^')) {
        let best = found.iter().map(|candidate| class(&candidate.name)).min();
        found.retain(|candidate| Some(class(&candidate.name)) == best);
    }
    if found.iter().any(|candidate| !is_link_local(&candidate.address)) {
        found.retain(|candidate| !is_link_local(&candidate.address));
    }
    found.sort_by_key(|candidate| candidate.address.is_ipv6());
    Ok(found.into_iter().map(|candidate| candidate.address).collect())
}

/// The interface that may have been meant: it has that address, or a name that begins alike.
fn near<'a>(up: &'a [Candidate], spec: &str) -> Option<&'a str> {
    let spec = spec.trim_start_matches(['^', '=']).to_ascii_lowercase();
    let alike = |name: &str| name.to_ascii_lowercase().chars().zip(spec.chars()).take_while(|(a, b)| a == b).count();
    let has = up.iter().find(|candidate| candidate.address.ip().to_string() == spec);
    let best = || up.iter().rev().max_by_key(|candidate| alike(&candidate.name)).filter(|candidate| alike(&candidate.name) > 0);
    has.or_else(best).map(|candidate| candidate.name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Vec<Candidate> {
        let all = [
            ("lo", "127.0.0.1:0"),
            ("lo", "[::1]:0"),
            ("docker0", "172.17.0.1:0"),
            ("eth0", "10.0.0.7:0"),
            ("eth0", "[fe80::7%2]:0"),
            ("eth1", "[2001:db8::7]:0"),
        ];
        all.map(|(name, address)| Candidate { name: name.into(), address: address.parse().unwrap() }).into()
    }

    fn of(spec: Option<&str>, family: Option<&str>) -> Vec<String> {
        choose(&machine(), spec, family).unwrap().iter().map(|address| address.ip().to_string()).collect()
    }

    #[test]
    fn names_are_prefixes_or_exact_or_excluded() {
        assert_eq!(of(Some("eth"), None), ["10.0.0.7", "2001:db8::7"]);
        assert_eq!(of(Some("=eth0"), None), ["10.0.0.7"]);
        assert_eq!(of(Some("eth1,lo"), None), ["127.0.0.1", "::1", "2001:db8::7"]);
        assert_eq!(of(Some("^eth0,docker"), None), ["2001:db8::7"]);
        assert_eq!(of(Some("^eth,docker"), None), ["127.0.0.1", "::1"]);
        assert_eq!(of(Some("^=eth,docker"), None), ["10.0.0.7", "2001:db8::7"]);
    }

    #[test]
    fn what_only_this_machine_sees_comes_last_and_link_local_only_alone() {
        assert_eq!(of(None, None), ["10.0.0.7", "2001:db8::7"]);
        assert_eq!(of(None, Some("AF_INET6")), ["2001:db8::7"]);
        assert_eq!(of(Some("eth0"), Some("AF_INET6")), ["fe80::7"]);
        let bare: Vec<Candidate> = machine().into_iter().take(2).collect();
        assert_eq!(choose(&bare, None, None).unwrap().len(), 2);
        assert_eq!(choose(&[], None, None).unwrap(), []);
    }

    #[test]
    fn a_link_local_address_goes_by_the_interface_that_has_it_or_by_a_chosen_one_or_by_any() {
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        let up: Vec<Candidate> =
            ["[fe80::a%2]:0", "10.0.0.7:0", "[fe80::b%5]:0"].map(|text| Candidate { name: "x".into(), address: at(text) }).into();
        for (to, chosen, wanted) in
            [("fe80::b", "[fe80::a%2]:0", Some(5)), ("fe80::c", "[fe80::b%5]:0", Some(5)), ("fe80::c", "10.0.0.7:0", Some(2))]
        {
            assert_eq!(scope(to.parse().unwrap(), &up, &[at(chosen)]), wanted, "{to} {chosen}");
        }
        assert_eq!(scope("fe80::c".parse().unwrap(), &up[1..2], &[]), None);
    }

    #[test]
    fn a_name_that_matches_nothing_is_told_with_those_that_are_up() {
        let error = choose(&machine(), Some("=eth2"), None).unwrap_err();
        assert_eq!(error.id, 100);
        for part in ["\"=eth2\"", "docker0 (172.17.0.1)", "eth0 (10.0.0.7, fe80::7)", "as eth"] {
            assert!(error.text.contains(part), "{error}");
        }
        assert!(choose(&machine(), Some("docker"), Some("AF_INET6")).unwrap_err().text.contains("NCCL_SOCKET_FAMILY=AF_INET6"));
        for (spec, meant) in
            [("ETH0", ", as eth0,"), ("docker1", ", as docker0,"), ("10.0.0.7", ", as eth0,"), ("wlan0", "name one of these, or")]
        {
            let text = choose(&machine(), Some(spec), None).unwrap_err().text;
            assert!(text.contains(meant), "{text}");
        }
    }
}
