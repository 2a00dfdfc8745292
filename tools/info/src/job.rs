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
    fn ginrs_info_rank(rank: *mut c_int, ranks: *mut c_int) -> c_int;
    fn ginrs_info_share(bytes: *mut u8, count: usize) -> c_int;
}

/// None outside of a job. Collective: all ranks of a job come here.
pub fn meet() -> Result<Option<Met>, String> {
    let (mut rank, mut ranks) = (0, 1);
    // SAFETY: valid places to write to; this thread is the only one that calls.
    if unsafe { ginrs_info_rank(&mut rank, &mut ranks) } != 0 {
        return Err("the launcher's variables name no rank: the line above has them".into());
    }
    if ranks < 2 {
        return Ok(None);
    }
    let (rank, ranks) = (rank as u32, ranks as u32);
    let id = unique_id(rank)?;
    let device = devices::chosen();
    let lacks: Vec<Value> =
        inspect::transports(&*device).into_iter().filter_map(|(name, here)| here.err().map(|why| json!([name, why]))).collect();
    let job = inspect::Job::meet(&id, rank, ranks, device).map_err(|error| error.to_string())?;
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
    Ok(Some(Met { rank, check: Check::note("job", found).with(parts), status: u8::from(unserved) }))
}

/// Under NCCL_COMM_ID every rank makes the same; else rank 0's goes to all.
fn unique_id(rank: u32) -> Result<UniqueId, String> {
    let create = || UniqueId::create().map_err(|error| error.to_string());
    if ginrs::config::text("NCCL_COMM_ID").is_some() {
        return create();
    }
    let id = if rank == 0 { Some(create()?) } else { None };
    let mut bytes = id.as_ref().map_or([0; 128], UniqueId::bytes);
    // SAFETY: as many bytes as are said.
    if unsafe { ginrs_info_share(bytes.as_mut_ptr(), bytes.len()) } != 0 {
        return Err("the ranks do not meet: the line above says why".into());
    }
    id.map_or_else(|| UniqueId::from_bytes(&bytes).map_err(|error| error.to_string()), Ok)
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
