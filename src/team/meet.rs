//! The first thing that the ranks of a communicator tell each other: who they are. Compared, so that all fail or none.
#![forbid(unsafe_code)]

use super::peer::{PeerInfo, agreed_settings};
use crate::bail;
use crate::bootstrap::Bootstrap;
use crate::config;
use crate::device::Device;
use crate::error::Result;
use crate::topo::Nodes;
use std::sync::Arc;
use zerocopy::IntoBytes;

/// Every rank's record, compared: versions, settings, devices. All ranks see the same records and so the same verdict.
pub(super) fn meet(bootstrap: &Bootstrap, own: &PeerInfo, device: &dyn Device) -> Result<(Arc<Vec<PeerInfo>>, Nodes)> {
    let met = bootstrap.allgather("peer info", own.as_bytes())?.read(|records| {
        let peers = records.iter().zip(0..).map(|(bytes, rank)| PeerInfo::decode(rank, bytes)).collect::<Result<Vec<_>>>()?;
        same_version(&peers)?;
        let nodes = Nodes::new(&peers.iter().map(|peer| peer.host_hash).collect::<Vec<_>>());
        Ok((Arc::new(peers), nodes))
    })?;
    let (peers, nodes) = &*met;
    if peers.iter().any(|peer| peer.config_hash != peers[0].config_hash) {
        same_settings(&bootstrap.allgather("settings", agreed_settings(device.kind()).as_bytes())?)?;
    }
    distinct_devices(peers)?;
    Ok((peers.clone(), nodes.clone()))
}

fn same_version(peers: &[PeerInfo]) -> Result<()> {
    match peers.iter().find(|peer| peer.version != peers[0].version) {
        Some(other) => bail!(
            InvalidUsage,
            13,
            "ranks run different API versions | {} | it has {}, rank 0 has {} | fix: load the same libginrs on every rank",
            other.tag(),
            other.version,
            peers[0].version
        ),
        None => Ok(()),
    }
}

/// Names the first setting that differs, and who has which value.
fn same_settings(texts: &[Arc<[u8]>]) -> Result<()> {
    let texts: Vec<String> = texts.iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect();
    for (rank, text) in texts.iter().enumerate() {
        for (first, other) in texts[0].lines().zip(text.lines()) {
            if first != other {
                let (name, value) = first.split_once('=').unwrap_or((first, ""));
                let theirs = other.split_once('=').map_or(other, |(_, value)| value);
                bail!(
                    InvalidUsage,
                    14,
                    "a setting differs between ranks | {name} | rank 0 has \"{value}\", rank {rank} has \"{theirs}\" | fix: set {name} \
                     alike on every rank (environment, NCCL_CONF_FILE, ~/.nccl.conf, /etc/nccl.conf)"
                );
            }
        }
    }
    Ok(())
}

/// Two ranks on one device would share its memory slice and its kernels' scheduling: refused, as NVIDIA's library does, unless
/// GINRS_SHARE_DEVICE allows it.
fn distinct_devices(peers: &[PeerInfo]) -> Result<()> {
    if config::int("GINRS_SHARE_DEVICE") != 0 {
        return Ok(());
    }
    let mut seen = std::collections::HashMap::new();
    for peer in peers {
        if let Some(first) = seen.insert((peer.machine, peer.bus_id), peer) {
            bail!(
                InvalidUsage,
                15,
                "Duplicate GPU detected | {} and {} | both on device busId {:x} (ordinals {} and {}) | fix: call cudaSetDevice with \
                 another device on each rank, or give each process its own; GINRS_SHARE_DEVICE=1 allows it, for tests",
                first.tag(),
                peer.tag(),
                peer.bus_id,
                first.device,
                peer.device
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_differing_setting_is_named_with_both_values() {
        let texts = ["A=1\nB=2", "A=1\nB=2", "A=1\nB=7"].map(|text| text.as_bytes().into());
        let error = same_settings(&texts).unwrap_err();
        assert!(error.text.contains("| B | rank 0 has \"2\", rank 2 has \"7\""), "{error}");
        assert!(same_settings(&texts[..2]).is_ok());
    }
}
