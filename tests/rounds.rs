//! How many exchanges set-up takes, and what they carry: neither may grow with the number of ranks but for the logarithm of it in the
//! messages, and for each rank's own bytes.

mod common;

use common::threads;
use ginrs::comm::Comm;
use ginrs::devcomm::{Requirements, create, destroy};
use std::sync::Mutex;

/// Exchanges, messages and bytes since the last call.
fn cost(comm: &Comm, last: &mut [u64; 3]) -> [u64; 3] {
    let tally = comm.team.bootstrap.tally();
    let now = [tally.exchanges.into(), tally.messages.into(), tally.bytes];
    std::array::from_fn(|i| now[i] - std::mem::replace(&mut last[i], now[i]))
}

/// Of rank 0 among `n`: init, first device communicator with GIN, another, a window, another.
fn costs(n: u32) -> [[u64; 3]; 5] {
    let found = Mutex::new([[0; 3]; 5]);
    threads(n, |comm| {
        let mut last = [0; 3];
        let mut all = [cost(comm, &mut last); 5];
        let reqs = Requirements { gin_signal_count: 1, ..Default::default() };
        let [first, second] = [1, 2].map(|step| {
            let made = create(&comm.devcomms, &comm.windows, &reqs).unwrap().dev_comm;
            all[step] = cost(comm, &mut last);
            made
        });
        let base = comm.team.device.alloc(1 << 20).unwrap();
        let windows = [3, 4].map(|step| {
            let window = comm.windows.register(base, 1 << 20, 0).unwrap();
            all[step] = cost(comm, &mut last);
            window
        });
        windows.into_iter().for_each(|window| comm.windows.deregister(window).unwrap());
        [first, second].iter().for_each(|made| destroy(&comm.devcomms, &comm.windows, made).unwrap());
        if comm.team.rank == 0 {
            *found.lock().unwrap() = all;
        }
    });
    found.into_inner().unwrap()
}

#[test]
fn set_up_takes_a_fixed_number_of_exchanges() {
    let two = costs(2);
    eprintln!("2 ranks: {two:?}");
    for n in [5, 16] {
        let more = costs(n);
        eprintln!("{n} ranks: {more:?}");
        for (what, (two, more)) in two.into_iter().zip(more).enumerate() {
            assert_eq!(two[0], more[0], "exchanges of step {what} among {n} ranks");
            assert_eq!(more[1], more[0] * u64::from(n.next_power_of_two().ilog2()), "messages of step {what} among {n} ranks");
            // All but the own part of what an allgather carries.
            assert!(
                more[2] <= two[2] * u64::from(n - 1),
                "bytes of step {what}: {} among {n} ranks, {} among 2",
                more[2],
                two[2]
            );
        }
    }
    // Who adds an exchange says why here: across machines each costs a round trip for every doubling of the ranks.
    assert_eq!(two.map(|step| step[0]), [3, 7, 3, 2, 2]);
}
