//! How many exchanges set-up takes, and what they carry: neither may grow with the number of ranks but for the logarithm of the number of
//! processes in the messages, and for each rank's own bytes.

mod common;

use common::{processes, threads};
use ginrs::comm::Comm;
use ginrs::devcomm::{Requirements, create, destroy};

/// What was counted, the most exchanges, and the most bytes of each rank's own in them.
type Bound = (&'static str, u64, u64);

/// Who adds an exchange, or bytes, says why here: across machines each exchange costs a round trip for every doubling of the processes.
const BOUNDS: [Bound; 5] = [
    ("init", 3, 200),
    ("first device communicator with GIN", 5, 300),
    ("second device communicator", 3, 200),
    ("window", 2, 120),
    ("second window", 2, 60),
];

/// Exchanges, messages and bytes of this process since the last call; nothing moves meanwhile.
fn cost(comm: &Comm, last: &mut [u64; 3]) -> [u64; 3] {
    let tally = comm.team.bootstrap.tally();
    let now = [tally.exchanges.into(), tally.messages.into(), tally.bytes];
    std::array::from_fn(|i| now[i] - std::mem::replace(&mut last[i], now[i]))
}

/// Compares what set-up costs this process, one of `n_processes` that have a rank each or all ranks, with the bounds.
fn check(comm: &Comm, n_processes: u32) {
    let mut last = [0; 3];
    let mut all = vec![cost(comm, &mut last)];
    let reqs = Requirements { gin_signal_count: 1, ..Default::default() };
    let made = [(); 2].map(|()| {
        let made = create(&comm.devcomms, &comm.windows, &reqs).unwrap().dev_comm;
        all.push(cost(comm, &mut last));
        made
    });
    let base = comm.team.device.alloc(1 << 20).unwrap();
    let windows = [(); 2].map(|()| {
        let window = comm.windows.register(base, 1 << 20, 0).unwrap();
        all.push(cost(comm, &mut last));
        window
    });
    windows.into_iter().for_each(|window| comm.windows.deregister(window).unwrap());
    made.iter().for_each(|made| destroy(&comm.devcomms, &comm.windows, made).unwrap());
    for ((what, exchanges, each), [took, messages, bytes]) in BOUNDS.into_iter().zip(all) {
        let who = format!("{what}, rank {} of {}", comm.team.rank, comm.team.n_ranks);
        assert_eq!(took, exchanges, "exchanges of {who}");
        assert_eq!(messages, took * u64::from(n_processes.next_power_of_two().ilog2()), "messages of {who}");
        let others = u64::from(n_processes - 1);
        assert!(bytes <= each * others, "{who} sent {bytes} bytes: {} for each other rank", bytes / others.max(1));
        if comm.team.rank == 0 {
            eprintln!("{who}: {took} exchanges, {messages} messages, {bytes} bytes");
        }
    }
}

#[test]
fn set_up_takes_a_fixed_number_of_exchanges_between_processes() {
    // A process that is one of the ranks finds its own test in the first line.
    for n in [2, 5, 16] {
        processes("set_up_takes_a_fixed_number_of_exchanges_between_processes", n, 1, |comm| check(comm, comm.team.n_ranks));
        if std::env::var_os(common::AS_RANKS).is_some() {
            return;
        }
    }
}

/// Ranks of one process send nothing.
#[test]
fn ranks_of_one_process_send_no_messages() {
    threads(4, |comm| {
        comm.team.bootstrap.barrier("before").unwrap();
        let before = comm.team.bootstrap.tally();
        comm.team.bootstrap.barrier("now").unwrap();
        assert_eq!((before.messages, comm.team.bootstrap.tally().messages), (0, 0));
    });
}

/// Of two processes with eight ranks each, one message carries the parts of eight.
#[test]
fn a_process_sends_once_for_all_its_ranks() {
    processes("a_process_sends_once_for_all_its_ranks", 2, 8, |comm| {
        let boot = &comm.team.bootstrap;
        boot.barrier("before").unwrap();
        let before = boot.tally();
        // Nobody's exchange is over before all have counted.
        boot.barrier("counted").unwrap();
        assert_eq!(boot.allgather("part", &[7; 100]).unwrap().len(), 16);
        let after = boot.tally();
        assert_eq!((after.messages - before.messages, after.bytes - before.bytes), (2, 800));
        boot.barrier("after").unwrap();
    });
}
