//! The unique id: where the root listens, and the secret that every rank must prove.
#![forbid(unsafe_code)]

use super::address::hex;
use super::auth::{self, Key, Secret};
use super::route::Route;
use crate::bail;
use crate::error::Result;
use std::fmt;
use zeroize::Zeroize;

const MAGIC: [u8; 8] = *b"ginrs-id";
const VERSION: u16 = 3;

/// What ncclGetUniqueId hands out: 128 bytes that may be copied and sent at will, and that only the job's ranks may see.
///
/// Layout: magic 0..8, version 8..10, kind at 10 (1 under NCCL_COMM_ID, 2 derived), zero at 11, pid that made it 12..16 (0 where ranks
/// make it for themselves), how to reach the root's process 16..88 ([`Route`]), secret 88..120, zero 120..124, CRC-32 of all before.
#[derive(Clone)]
pub struct UniqueId([u8; 128]);

impl UniqueId {
    pub(super) fn build(root: Route, secret: &Secret) -> Self {
        Self::encode(0, root, secret, std::process::id())
    }

    /// An id of NCCL_COMM_ID, which every rank makes for itself.
    pub(super) fn fixed(root: Route, secret: &Secret) -> Self {
        Self::encode(1, root, secret, 0)
    }

    /// An id that ranks make for themselves, of a secret that they share and a process that they all know.
    pub(super) fn derived(root: Route, secret: &Secret) -> Self {
        Self::encode(2, root, secret, 0)
    }

    fn encode(kind: u8, root: Route, secret: &Secret, pid: u32) -> Self {
        let mut bytes = [0; 128];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..10].copy_from_slice(&VERSION.to_le_bytes());
        bytes[10] = kind;
        bytes[12..16].copy_from_slice(&pid.to_le_bytes());
        bytes[16..88].copy_from_slice(&root.encode());
        bytes[88..120].copy_from_slice(secret);
        let crc = crc32fast::hash(&bytes[..124]);
        bytes[124..].copy_from_slice(&crc.to_le_bytes());
        Self(bytes)
    }

    /// Checks magic, checksum and version of what a program passed around.
    pub fn from_bytes(bytes: &[u8; 128]) -> Result<Self> {
        const FIX: &str = "fix: pass all 128 bytes that ncclGetUniqueId gave on one rank, unchanged, to every rank";
        if bytes.iter().all(|b| *b == 0) {
            bail!(InvalidArgument, 19, "unique id is all zeros | it was never filled or never received | {FIX}");
        }
        if bytes[..8] != MAGIC {
            bail!(
                InvalidArgument,
                19,
                "unique id is not one of ginrs | its first bytes are {} | {FIX}; every rank must load ginrs",
                hex(&bytes[..8])
            );
        }
        let version = u16::from_le_bytes(bytes[8..10].try_into().expect("2 bytes"));
        if version != VERSION {
            bail!(
                InvalidUsage,
                13,
                "unique id of another version | it has {version}, this library reads {VERSION} | fix: load the same libginrs on every rank"
            );
        }
        if bytes[124..] != crc32fast::hash(&bytes[..124]).to_le_bytes() {
            bail!(InvalidArgument, 19, "unique id is damaged | its checksum is wrong | {FIX}");
        }
        if Route::decode(bytes[16..88].try_into().expect("72 bytes")).is_none() {
            bail!(InvalidArgument, 19, "unique id is damaged | it names no process that can be reached | {FIX}");
        }
        Ok(Self(*bytes))
    }

    /// The ids of one communicator: [`Self::from_bytes`] of each, and each once. Under NCCL_COMM_ID all are one.
    pub fn from_all(all: &[[u8; 128]]) -> Result<Vec<Self>> {
        let mut ids = all.iter().map(Self::from_bytes).collect::<Result<Vec<_>>>()?;
        if ids.iter().all(|id| id.is_fixed() && id.0 == ids[0].0) {
            ids.truncate(1);
        }
        for (i, id) in ids.iter().enumerate() {
            if let Some(first) = ids[..i].iter().position(|other| other.key() == id.key()) {
                bail!(
                    InvalidArgument,
                    19,
                    "a unique id stands twice | ids {first} and {i} of {} | they are the same | fix: call ncclGetUniqueId once for each",
                    ids.len()
                );
            }
        }
        Ok(ids)
    }

    /// For ncclUniqueId.
    pub fn bytes(&self) -> [u8; 128] {
        self.0
    }

    /// Equal on all ranks, different for every id; no secret.
    pub fn comm_hash(&self) -> u64 {
        u64::from_le_bytes(auth::derive(&self.secret(), "hash"))
    }

    /// True for an id of NCCL_COMM_ID.
    pub(super) fn is_fixed(&self) -> bool {
        self.0[10] == 1
    }

    /// True where a rank may come before its root listens.
    pub(super) fn root_may_be_late(&self) -> bool {
        self.0[10] != 0
    }

    /// How to reach the process that serves it.
    pub(super) fn root(&self) -> Route {
        Route::decode(self.0[16..88].try_into().expect("72 bytes")).expect("checked when made")
    }

    pub(super) fn secret(&self) -> Secret {
        self.0[88..120].try_into().expect("32 bytes")
    }

    pub(super) fn key(&self) -> Key {
        auth::derive(&self.secret(), "key")
    }

    /// Which process holds its root, for messages, and how that ended, where it has.
    pub(super) fn root_process(&self) -> String {
        let root = self.root();
        let near = root.machine == crate::process::machine();
        match u32::from_le_bytes(self.0[12..16].try_into().expect("4 bytes")) {
            0 => format!("the first of the ranks that meet there, at {}", root.doors),
            pid if near => {
                let state = crate::peer_process::process_state(pid);
                format!("the process that called ncclGetUniqueId, mostly rank 0's: pid {pid}{state}")
            }
            pid => format!("the process that called ncclGetUniqueId, mostly rank 0's: pid {pid} at {}", root.doors),
        }
    }

    /// Eight digits that tell ids apart in a log.
    pub fn fingerprint(&self) -> String {
        hex(&self.key()[..4])
    }
}

impl fmt::Debug for UniqueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UniqueId({})", self.fingerprint())
    }
}

impl Drop for UniqueId {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

#[cfg(test)]
mod tests {
    use super::super::address::Address;
    use super::super::route::Doors;
    use super::*;
    use crate::process::random;

    fn root() -> Route {
        let doors = Doors::of(["10.0.0.7:4000", "[fe80::7%2]:4001"].map(|address| address.parse().unwrap()));
        Route { address: Address::Abstract([3; 16]), machine: 7, doors }
    }

    #[test]
    fn the_secret_never_shows_and_damage_does() {
        let id = UniqueId::build(root(), &[0xab; 32]);
        assert_eq!(UniqueId::from_bytes(&id.bytes()).unwrap().bytes(), id.bytes());
        assert_eq!((id.root(), id.secret()), (root(), [0xab; 32]));
        let shown = format!("{id:?}");
        assert!(shown.len() == 18 && !shown.contains("abab"), "{shown}");

        for (at, text) in [(0, "not one of ginrs"), (8, "another version"), (60, "damaged"), (127, "damaged"), (100, "damaged")] {
            let mut bytes = id.bytes();
            bytes[at] ^= 1;
            let error = UniqueId::from_bytes(&bytes).unwrap_err();
            assert!(error.text.contains(text), "{error}");
        }
        assert!(UniqueId::from_bytes(&[0; 128]).unwrap_err().text.contains("all zeros"));
    }

    #[test]
    fn ids_differ_in_everything() {
        let (a, b) = [(); 2].map(|()| UniqueId::build(root(), &random().unwrap())).into();
        assert!(a.comm_hash() != b.comm_hash() && a.key() != b.key() && a.fingerprint() != b.fingerprint());
    }
}
