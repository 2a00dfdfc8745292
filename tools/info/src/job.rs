//! The ranks of a job: where each is, what it lacks, and what serves every pair.

use crate::check::Check;
use crate::{devices, transports};
use ginrs::bootstrap::UniqueId;
use ginrs::inspect;
use serde_json::{Value, json};
use std::ffi::c_int;

/// What one rank has to say of the job.
pub struct Met {
    pub rank: u32,
    pub check: Check,
    pub status: u8,
}

unsafe extern "C" {
    /// tools/info/src/launcher.c, over include/ginrs_bootstrap.h.
    fn ginrs_info_rank(rank: *mut c_int, ranks: *mut c_int, local: *mut c_int) -> c_int;
    fn ginrs_info_id(id: *mut [u8; 128]) -> c_int;
}

/// A rank that knows who it is and where all meet.
pub struct Seat {
    rank: u32,
    ranks: u32,
    local: c_int,
    id: UniqueId,
}

/// None outside of a job. Collective, and before the library has read its settings: it may have to set NCCL_COMM_ID.
pub fn seat() -> Result<Option<Seat>, String> {
    let (mut rank, mut ranks, mut local) = (0, 1, 0);
    // SAFETY: valid places to write to; this thread is the only one that calls.
    if unsafe { ginrs_info_rank(&mut rank, &mut ranks, &mut local) } != 0 {
        return Err("the launcher's variables name no rank: the line above has them".into());
    }
    if ranks < 2 {
        return Ok(None);
    }
    let mut bytes = [0; 128];
    // SAFETY: an ncclUniqueId is 128 bytes; this thread is the only one that calls.
    if unsafe { ginrs_info_id(&mut bytes) } != 0 {
        return Err("the ranks do not meet: the line above says why".into());
    }
    let id = UniqueId::from_bytes(&bytes).map_err(|error| error.to_string())?;
    Ok(Some(Seat { rank: rank as u32, ranks: ranks as u32, local, id }))
}

/// Collective: all ranks of the job.
pub fn meet(seat: &Seat) -> Result<Met, String> {
    let Seat { rank, ranks, local, ref id } = *seat;
    let device = devices::of_rank(local);
    let lacks: Vec<Value> =
        inspect::transports(&*device).into_iter().filter_map(|(name, here)| here.err().map(|why| json!([name, why]))).collect();
    let job = inspect::Job::meet(id, rank, ranks, device).map_err(|error| error.to_string())?;
    let own = json!({"host": rustix::system::uname().nodename().to_string_lossy(), "lacks": lacks}).to_string();
    let told = job.gather(&own).map_err(|error| error.to_string())?;
    let told: Vec<Value> = told.iter().map(|text| serde_json::from_str(text).unwrap_or_default()).collect();
    let mut unserved = false;
    let mut parts = Vec::new();
    for (from, told) in (0..ranks).zip(&told) {
        parts.push(of_rank(&job, from, told));
    }
    for from in 0..ranks {
        let verdicts: Vec<_> = (0..ranks).map(|to| job.verdict(from, to)).collect();
        unserved |= verdicts.iter().any(|verdict| verdict.chosen.is_none());
        let mut first = 0;
        // Runs of peers of which the same is true.
        for run in verdicts.chunk_by(|a, b| a == b) {
            let last = first + run.len() - 1;
            let whom = if first == last { format!("rank {first}") } else { format!("ranks {first} to {last}") };
            parts.push(transports::of_pair(format!("rank {from} to {whom}"), &run[0]));
            first = last + 1;
        }
    }
    let topo = &job.team.topo;
    let found = format!("{ranks} ranks, {} nodes, {} ranks in each LSA team", topo.n_nodes, topo.lsa_size);
    Ok(Met { rank, check: Check::note("job", found).with(parts), status: u8::from(unserved) })
}

fn of_rank(job: &inspect::Job, rank: u32, told: &Value) -> Check {
    let peer = &job.team.peers[rank as usize];
    let host = told["host"].as_str().unwrap_or("?");
    let node = job.team.topo.node_of[rank as usize];
    let found = format!(
        "{host}, pid {}, device {} (bus id {:x}), machine {:016x}, node {node}",
        peer.pid, peer.device, peer.bus_id, peer.machine
    );
    let lacks = told["lacks"].as_array().into_iter().flatten();
    let lacks = lacks.map(|lack| Check::no(lack[0].as_str().unwrap_or("?"), lack[1].as_str().unwrap_or("?")));
    Check::note(format!("rank {rank}"), found).with(lacks.collect())
}
