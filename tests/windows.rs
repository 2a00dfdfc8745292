//! Windows between ranks: what each sees of the others, and what all are told when one is wrong.

mod common;

use common::{load, processes, read, store, threads, with_settings};
use ginrs::comm::Comm;
use ginrs::devcomm::{Requirements, create};
use ginrs::device::DevPtr;
use ginrs::device::cpu::mappings;
use ginrs::error::{Code, Error};
use ginrs::layout::ncclWindow_vidmem;

const MIB: usize = 1 << 20;

fn peer_address(win: DevPtr, lsa_peer: u32) -> DevPtr {
    let window: ncclWindow_vidmem = read(win);
    // The device's formula: the stride is added to the upper half of the address.
    window.lsaFlatBase + (u64::from(lsa_peer * window.stride4G) << 32)
}

/// Writes into every peer's window, and finds what every peer wrote.
fn everyone_writes_to_everyone(comm: &Comm, win: DevPtr, local: DevPtr) {
    let (me, n) = (u64::from(comm.team.rank), u64::from(comm.team.n_ranks));
    for peer in 0..comm.team.n_ranks {
        store(peer_address(win, peer) + 8 * me, 1000 * (me + 1) + u64::from(peer));
    }
    comm.team.bootstrap.barrier("written").unwrap();
    for from in 0..n {
        assert_eq!(load(local + 8 * from), 1000 * (from + 1) + me, "rank {me} from {from}");
        assert_eq!(load(peer_address(win, comm.team.rank) + 8 * from), 1000 * (from + 1) + me);
    }
    comm.team.bootstrap.barrier("read").unwrap();
}

fn exchange_and_sub_ranges(comm: &Comm) {
    let base = comm.team.device.alloc(3 * MIB).unwrap();
    let whole = comm.windows.register(base, 3 * MIB, 1).unwrap();
    everyone_writes_to_everyone(comm, whole, base);
    let part = comm.windows.register(base + 0x3000, 5000, 1).unwrap();
    let again = comm.windows.register(base, 64, 1).unwrap();
    let (first, second): (ncclWindow_vidmem, ncclWindow_vidmem) = (read(whole), read(part));
    assert_eq!(second.lsaFlatBase, first.lsaFlatBase + 0x3000);
    assert_eq!((first.ginOffset4K, second.ginOffset4K), (0, 3));
    assert_eq!(second.mcOffset4K, first.mcOffset4K + 3);
    assert_eq!((second.lsaRank, second.worldRank, second.stride4G), (comm.team.rank as i32, comm.team.rank as i32, 2));
    assert_eq!((second.marker, second.ginWins), (ginrs::layout::MARKER_CPU, [0; 4]));
    assert_ne!(again, whole);
    store(peer_address(part, comm.team.rank), 77);
    assert_eq!(load(base + 0x3000), 77);
    comm.team.bootstrap.barrier("checked").unwrap();
    for win in [whole, part, again] {
        comm.windows.deregister(win).unwrap();
        assert_eq!(comm.windows.deregister(win).unwrap_err().id, 57);
    }
    comm.team.device.free(base).unwrap();
}

#[test]
fn thread_ranks_reach_each_other() {
    for n in [1, 2, 5, 64] {
        threads(n, |comm| exchange_and_sub_ranges(comm));
    }
}

#[test]
fn process_ranks_reach_each_other() {
    processes("process_ranks_reach_each_other", 3, 1, |comm| exchange_and_sub_ranges(comm));
}

#[test]
fn thread_ranks_in_several_processes_reach_each_other() {
    // Two ranks of a process look at each rank of the others through one mapping.
    processes("thread_ranks_in_several_processes_reach_each_other", 2, 3, |comm| exchange_and_sub_ranges(comm));
}

#[test]
fn nothing_registered_is_no_error() {
    threads(2, |comm| {
        let base = comm.team.device.alloc(MIB).unwrap();
        assert_eq!(comm.windows.register(0, 64, 0).unwrap(), 0);
        assert_eq!(comm.windows.register(base, 0, 0).unwrap(), 0);
        comm.windows.deregister(0).unwrap();
        comm.team.device.free(base).unwrap();
    });
}

#[test]
fn a_rank_that_differs_is_named_on_every_rank_and_all_go_on() {
    threads(4, |comm| {
        let base = comm.team.device.alloc(4 * MIB).unwrap();
        let big = comm.team.device.alloc(8 * MIB).unwrap();
        let odd = comm.team.rank == 3;
        let says = |error: Error, code: Code, id: u16, texts: &[&str]| {
            assert_eq!((error.code, error.id), (code, id), "{error}");
            assert!(texts.iter().all(|text| error.text.contains(text)), "{error}");
            assert!(odd || error.culprit == Some(3), "{error}");
        };
        let differs = |at, bytes, flags, texts: &[&str]| {
            says(comm.windows.register(at, bytes, flags).unwrap_err(), Code::InvalidArgument, 53, texts)
        };
        differs(base, if odd { MIB } else { 2 * MIB }, 0, &["size", "ranks 0..2 2097152, rank 3 1048576"]);
        differs(base + if odd { 4096 } else { 0 }, MIB, 0, &["offset in the allocation", "rank 3 4096"]);
        differs(base, MIB, i32::from(odd), &["flags", "rank 3 0x1"]);
        differs(if odd { big } else { base }, MIB, 0, &["size of the allocation", "rank 3 8388608"]);
        let wrong = |at, bytes, code, id, text: &str| says(comm.windows.register(at, bytes, 0).unwrap_err(), code, id, &[text]);
        wrong(base + if odd { 100 } else { 0 }, MIB, Code::InvalidArgument, 52, "0x64 bytes into its allocation");
        wrong(base, if odd { 4 * MIB + 1 } else { MIB }, Code::InvalidArgument, 55, "ends behind its allocation");
        let stack = [0u64; 2];
        wrong(if odd { stack.as_ptr() as DevPtr } else { base }, 8, Code::UnhandledCudaError, 52, "use ncclMemAlloc");
        // One rank knows the memory already, the others do not: here by their own mistake.
        let win = comm.windows.register(base, MIB, 0).unwrap();
        if !odd {
            comm.windows.deregister(win).unwrap();
        }
        differs(base, MIB, 0, &["memory differs", "registers new memory", "rank 3 registers memory"]);
        if odd {
            comm.windows.deregister(win).unwrap();
        }
        let win = comm.windows.register(base, 4 * MIB, 0).unwrap();
        everyone_writes_to_everyone(comm, win, base);
        comm.windows.deregister(win).unwrap();
        for at in [base, big] {
            comm.team.device.free(at).unwrap();
        }
    });
}

#[test]
fn thread_ranks_share_one_space() {
    let before = mappings();
    threads(16, |comm| {
        let base = comm.team.device.alloc(MIB).unwrap();
        let wins: Vec<_> =
            (0..4).map(|_| comm.team.device.alloc(MIB).unwrap()).map(|at| comm.windows.register(at, MIB, 0).unwrap()).collect();
        let first: ncclWindow_vidmem = read(wins[0]);
        let bases = comm.team.bootstrap.allgather("flat base", &first.lsaFlatBase.to_le_bytes()).unwrap();
        assert!(bases.iter().all(|other| *other == bases[0]));
        // 16 ranks x 5 allocations, each mapped for its owner and once in the space, and threads' stacks: not 16 x 16 x 4.
        assert!(mappings() < before + 16 * 5 * 2 + 300, "{} mappings, {before} before", mappings());
        comm.team.bootstrap.barrier("counted").unwrap();
        for win in wins {
            comm.windows.deregister(win).unwrap();
        }
        comm.team.device.free(base).unwrap();
    });
}

fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn cycles(n_ranks: u32, rounds: usize) {
    threads(n_ranks, |comm| {
        let base = comm.team.device.alloc(4 * MIB).unwrap();
        let other = comm.team.device.alloc(MIB).unwrap();
        let mut start = None;
        for round in 0..rounds {
            let win = comm.windows.register(base, 4 * MIB, 0).unwrap();
            if round % 7 == 0 {
                let second = comm.windows.register(other, 4096, 0).unwrap();
                comm.windows.deregister(second).unwrap();
            }
            comm.windows.deregister(win).unwrap();
            if round == rounds / 10 && comm.team.rank == 0 {
                start = Some((mappings(), resident(), open_files()));
            }
        }
        if let Some((maps, bytes, files)) = start {
            assert!(mappings() <= maps + 16 && open_files() <= files + 4, "{maps} mappings, {files} files grew");
            assert!(resident() < bytes + 4 * MIB, "{bytes} bytes resident grew to {}", resident());
        }
        assert!(comm.windows.is_empty());
    });
}

#[test]
fn a_hundred_thousand_cycles_leave_nothing() {
    with_settings("a_hundred_thousand_cycles_leave_nothing", &[], || {
        cycles(1, 100_000);
        cycles(2, 2_000);
    });
}

#[test]
fn a_full_space_names_the_variable_and_frees_again() {
    // 4 GiB per rank is the least; an allocation of one byte takes 2 MiB of addresses and 4 KiB of memory.
    with_settings("a_full_space_names_the_variable_and_frees_again", &[("NCCL_WIN_STRIDE", "1")], || {
        threads(1, |comm| {
            let memory: Vec<_> = (0..2049).map(|_| comm.team.device.alloc(1).unwrap()).collect();
            let wins: Vec<_> = memory[..2048].iter().map(|at| comm.windows.register(*at, 1, 0).unwrap()).collect();
            assert_eq!(read::<ncclWindow_vidmem>(wins[0]).stride4G, 1);
            let error = comm.windows.register(memory[2048], 1, 0).unwrap_err();
            assert!(error.id == 56 && error.text.contains("raise NCCL_WIN_STRIDE"), "{error}");
            comm.windows.deregister(wins[700]).unwrap();
            let win = comm.windows.register(memory[2048], 1, 0).unwrap();
            assert_eq!(read::<ncclWindow_vidmem>(win).mcOffset4K, 700 * 512);
        });
    });
}

#[test]
fn teams_are_the_nodes() {
    with_settings("teams_are_the_nodes", &[("GINRS_FAKE_NODES", "0,0,1,1")], || {
        threads(4, |comm| {
            let base = comm.team.device.alloc(MIB).unwrap();
            let win = comm.windows.register(base, MIB, 0).unwrap();
            let window: ncclWindow_vidmem = read(win);
            assert_eq!((window.lsaRank, window.worldRank), (comm.team.rank as i32 % 2, comm.team.rank as i32));
            let partner = (comm.team.rank % 2) ^ 1;
            store(peer_address(win, partner), u64::from(comm.team.rank) + 10);
            comm.team.bootstrap.barrier("written").unwrap();
            assert_eq!(load(base), u64::from(comm.team.rank ^ 1) + 10);
            let bases = comm.team.bootstrap.allgather("flat base", &window.lsaFlatBase.to_le_bytes()).unwrap();
            assert!(bases[0] == bases[1] && bases[2] == bases[3] && bases[0] != bases[2]);
            comm.windows.deregister(win).unwrap();
        });
    });
}

fn without_symmetric_memory(local: bool) {
    threads(1, |comm| {
        let base = comm.team.device.alloc(MIB).unwrap();
        let win = comm.windows.register(base + 1, 100, 0).unwrap();
        assert_eq!(win != 0, local);
        comm.windows.deregister(win).unwrap();
        assert_eq!(comm.windows.deregister(win).is_err(), local);
    });
}

#[test]
fn without_symmetric_memory_a_window_is_a_local_handle() {
    with_settings("without_symmetric_memory_a_window_is_a_local_handle", &[("NCCL_WIN_ENABLE", "0")], || {
        without_symmetric_memory(true)
    });
}

#[test]
fn without_local_registration_either_it_is_nothing() {
    let settings = [("NCCL_WIN_ENABLE", "0"), ("NCCL_LOCAL_REGISTER", "0")];
    with_settings("without_local_registration_either_it_is_nothing", &settings, || without_symmetric_memory(false));
}

#[test]
fn windows_outlive_the_allocation_and_the_owner() {
    threads(2, |comm| {
        let base = comm.team.device.alloc(MIB).unwrap();
        let win = comm.windows.register(base, MIB, 0).unwrap();
        comm.team.device.free(base).unwrap();
        comm.team.bootstrap.barrier("freed").unwrap();
        if comm.team.rank == 0 {
            comm.windows.deregister(win).unwrap();
        }
        comm.team.bootstrap.barrier("one deregistered").unwrap();
        if comm.team.rank == 1 {
            store(peer_address(win, 0), 5);
            assert_eq!(load(peer_address(win, 0)), 5);
            comm.windows.deregister(win).unwrap();
        }
    });
}

#[test]
fn after_an_abort_nothing_new_but_everything_can_be_given_back() {
    // Not the communicator's: the abort of the one could end the other's.
    let both = std::sync::Barrier::new(2);
    threads(2, |comm| {
        let base = comm.team.device.alloc(MIB).unwrap();
        let win = comm.windows.register(base, MIB, 0).unwrap();
        both.wait();
        comm.team.abort.raise(Error::new(Code::RemoteError, 40, "a rank of this test died"));
        for _ in 0..2 {
            let error = comm.windows.register(base, MIB, 0).unwrap_err();
            assert_eq!((error.code, error.id), (Code::RemoteError, 40));
        }
        assert_eq!(create(&comm.devcomms, &comm.windows, &Requirements::default()).unwrap_err().id, 40);
        // What kernels on their way out may read stays as it is.
        let before: ncclWindow_vidmem = read(win);
        comm.windows.deregister(win).unwrap();
        assert_eq!(read::<ncclWindow_vidmem>(win), before);
        comm.team.device.free(base).unwrap();
    });
}
