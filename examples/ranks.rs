//! Ranks as threads of one process, through the Rust API and without a kernel: windows, device communicators with GIN, host
//! exchanges, and an abort in the end. `scripts/sanitize.sh thread` runs it: libtest is not in the way here.

use ginrs::bootstrap::{Cancel, UniqueId};
use ginrs::comm::create::{Request, create};
use ginrs::comm::finish;
use ginrs::devcomm::{self, Requirements};
use ginrs::device;
use ginrs::error::Result;
use ginrs::team::Config;

const RANKS: u32 = 6;
const ROUNDS: u32 = 8;
const BYTES: usize = 1 << 20;

fn rank(id: &UniqueId, rank: u32) -> Result<()> {
    device::set_current(rank as i32)?;
    let device = device::current()?;
    let comm = create(Request {
        ids: vec![id.clone()],
        n_ranks: RANKS,
        rank,
        config: Config::default(),
        device,
        origin: None,
        cancel: Cancel::new(),
    })?;
    for round in 0..ROUNDS {
        let said = comm.team.bootstrap.allgather("numbers", &(rank * 1000 + round).to_le_bytes())?;
        for (from, bytes) in said.iter().enumerate() {
            assert_eq!(**bytes, (from as u32 * 1000 + round).to_le_bytes());
        }
        let memory = comm.team.device.alloc(BYTES)?;
        let window = comm.windows.register(memory, BYTES, 1)?;
        let wanted = Requirements { gin_signal_count: 4, barrier_count: 2, ..Requirements::default() };
        let made = devcomm::create(&comm.devcomms, &comm.windows, &wanted)?;
        comm.team.bootstrap.barrier("round")?;
        devcomm::destroy(&comm.devcomms, &comm.windows, &made.dev_comm)?;
        comm.windows.deregister(window)?;
        comm.team.device.free(memory)?;
    }
    // Rank 0 aborts where the others wait for it, or are still on their way.
    if rank == 0 {
        finish::abort(comm);
        return Ok(());
    }
    comm.team.bootstrap.barrier("a barrier that rank 0 never enters")
}

fn main() {
    // SAFETY: no other thread runs yet.
    unsafe {
        std::env::set_var("GINRS_DEVICE", "cpu");
        std::env::set_var("GINRS_CPU_DEVICES", RANKS.to_string());
    }
    let id = UniqueId::create().expect("a unique id");
    std::thread::scope(|scope| {
        for number in 0..RANKS {
            let id = &id;
            scope.spawn(move || match rank(id, number) {
                Ok(()) => assert_eq!(number, 0, "rank {number} passed a barrier without rank 0"),
                Err(error) => assert_eq!(error.culprit, Some(0), "rank {number}: {error}"),
            });
        }
    });
    println!("{RANKS} ranks, {ROUNDS} rounds: ok");
}
