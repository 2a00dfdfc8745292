//! Which of a device's ports and addresses is to be used.

use super::opened::Context;
use super::sys::*;
use super::wishes::Wishes;

/// A port that is up.
#[derive(Clone, Copy)]
pub(super) struct Port {
    pub number: u8,
    pub ethernet: bool,
    pub lid: u16,
    pub mtu: u8,
    pub gid: [u8; 16],
    /// Which of the port's addresses that is.
    pub index: u8,
}

impl Context {
    /// The first port that is up, of those that may be used.
    pub fn port(&self, name: &str, wishes: &Wishes) -> Result<Port, String> {
        // mlx5 devices have one or two.
        let may: Vec<u8> = (1..=2).filter(|number| wishes.ports.has(name, *number)).collect();
        if may.is_empty() {
            return Err("NCCL_IB_HCA leaves it out | fix: unset it, or name this card there, too".into());
        }
        for number in may {
            let mut port = ibv_port_attr::default();
            // SAFETY: it writes at most the struct; the context lives.
            let result = unsafe { (self.functions.ibv_query_port)(self.made.as_ptr(), number, &mut port) };
            if result != 0 || port.state != IBV_PORT_ACTIVE {
                continue;
            }
            if wishes.partition >= port.pkey_tbl_len {
                let (asked, n) = (wishes.partition, port.pkey_tbl_len);
                return Err(format!("NCCL_IB_PKEY is {asked}, and port {number} has {n} partition keys | fix: less than that"));
            }
            let ethernet = port.link_layer == IBV_LINK_LAYER_ETHERNET;
            if ethernet && wishes.level > 7 {
                return Err(format!("NCCL_IB_SL is {}, and port {number} is Ethernet | fix: a priority, 0 to 7", wishes.level));
            }
            let (index, gid) = self.address((name, number), port.gid_tbl_len, ethernet, wishes)?;
            return Ok(Port { number, ethernet, lid: port.lid, mtu: port.active_mtu as u8, gid, index });
        }
        Err("no port of it is up | fix: look at ibv_devinfo, at the cable, and at ports in NCCL_IB_HCA".into())
    }

    /// The address that the port speaks with: on Ethernet the first of those nearest to what is asked for.
    fn address(&self, (name, port): (&str, u8), n: i32, ethernet: bool, wishes: &Wishes) -> Result<(u8, [u8; 16]), String> {
        let gid = |index: i32| {
            let mut gid = ibv_gid::default();
            // SAFETY: it writes 16 bytes; the context lives.
            let result = unsafe { (self.functions.ibv_query_gid)(self.made.as_ptr(), port, index, &mut gid) };
            (result == 0 && gid.raw != [0; 16]).then_some((index as u8, gid.raw))
        };
        if let Some(index) = wishes.address {
            return gid(index.into())
                .ok_or_else(|| format!("NCCL_IB_GID_INDEX is {index}, where port {port} has no address | fix: show_gids"));
        }
        let kind = |index: u8| {
            let path = format!("/sys/class/infiniband/{name}/ports/{port}/gid_attrs/types/{index}");
            std::fs::read_to_string(path).unwrap_or_default()
        };
        let distance = |(index, gid): (u8, [u8; 16])| match ethernet {
            true => Some((wishes.distance(gid, kind(index).trim())?, (index, gid))),
            false => Some((0, (index, gid))),
        };
        (0..n.min(256)).filter_map(gid).filter_map(distance).min().map(|(_, found)| found).ok_or_else(|| {
            format!(
                "port {port} has no address, or none in NCCL_IB_ADDR_RANGE | fix: give its interface an IP address, or unset that"
            )
        })
    }
}
