//! Device communicators between ranks: the 200 bytes that kernels get, and what all are told when one rank asks for other things.

mod common;

use common::{load, processes, read, store, threads, with_settings};
use ginrs::comm::Comm;
use ginrs::devcomm::{Requirements, Resource, TeamRequest, create, destroy};
use ginrs::error::{Code, Error};
use ginrs::layout::{ncclDevComm, ncclDevCommWindowTable, ncclWindow_vidmem};

const MIB: u64 = 1 << 20;

/// Bytes as a kernel gets them.
fn bytes(dc: &ncclDevComm) -> [u8; 200] {
    // SAFETY: the struct is 200 bytes without padding: every gap is a field.
    unsafe { std::mem::transmute_copy(dc) }
}

fn word(dc: &ncclDevComm, at: usize) -> u32 {
    u32::from_le_bytes(bytes(dc)[at..at + 4].try_into().unwrap())
}

fn local(dc: &ncclDevComm, rank: i32) -> u64 {
    let window = &dc.resourceWindow_inlined;
    window.lsaFlatBase + (u64::from(rank as u32 * window.stride4G) << 32)
}

fn every_field(comm: &Comm) {
    let (rank, n) = (comm.team.rank as i32, comm.team.n_ranks as i32);
    let reqs = Requirements {
        lsa_barrier_count: 16,
        resources: vec![Resource { bytes: 6432, align: 16, ..Default::default() }],
        ..Default::default()
    };
    let made = create(&comm.devcomms, &comm.windows, &reqs).unwrap();
    let dc = made.dev_comm;
    assert_eq!((dc.rank, dc.nRanks, dc.lsaRank, dc.lsaSize), (rank, n, rank, n));
    assert_eq!((word(&dc, 8), word(&dc, 20)), (ginrs::devcomm::rcp32(n as u32), ginrs::devcomm::rcp32(n as u32)));
    assert_eq!((dc.lsaBarrier.bufHandle, dc.lsaBarrier.nBarriers), (0, 16));
    assert_eq!((dc.railGinBarrier.signal0, dc.railGinBarrier.bufHandle), (0, 0));
    let barrier = (16 * 4 * (3 + n as u64)).next_multiple_of(128);
    assert_eq!(u64::from(made.outputs[0].buffer_handle) * 128, barrier);
    assert_eq!(dc.ginSignalShadows, local(&dc, rank) + (barrier + 6432).next_multiple_of(128));
    assert_eq!((dc.ginContextCount, dc.ginTypes, dc.ginHandles), (0, [0; 4], [0; 4]));
    assert_eq!((dc.ginSignalBase, dc.ginSignalCount, dc.ginCounterBase, dc.ginCounterCount), (0, 0, 0, 0));
    assert_eq!(dc.lsaMultimem.mcBasePtr, 0);
    assert_eq!((&bytes(&dc)[141..144], word(&dc, 76)), (&[0x47, 0x52, 1][..], 0x3152_5347));
    // The inlined window is the device's, but for the mark in its padding: there a window says that its size stands behind it.
    let window: ncclWindow_vidmem = read(dc.resourceWindow);
    assert_eq!(ncclWindow_vidmem { marker: ginrs::layout::MARKER_CPU, ..dc.resourceWindow_inlined }, window);
    let table: ncclDevCommWindowTable = read(dc.windowTable);
    let entry = table.entries.iter().find(|entry| entry.window == dc.resourceWindow).unwrap();
    assert_eq!((entry.base, entry.size), (0, 2 * MIB));
    assert_eq!(load(dc.windowTable + 776), 0x4d4d_4f43_5352_4e47);
    assert_eq!(load(dc.windowTable + 792), comm.team.abort.device_address());
    assert!((0..(dc.ginSignalShadows - local(&dc, rank)) / 8).all(|i| load(local(&dc, rank) + 8 * i) == 0));
    // Every rank finds every other's barrier words.
    comm.team.bootstrap.barrier("checked").unwrap();
    for peer in 0..n {
        store(local(&dc, peer) + 8 * rank as u64, rank as u64 + 1);
    }
    comm.team.bootstrap.barrier("written").unwrap();
    assert!((0..n).all(|peer| load(local(&dc, rank) + 8 * peer as u64) == peer as u64 + 1));
    comm.team.bootstrap.barrier("read").unwrap();
    // The next one over the same addresses starts from zero again.
    destroy(&comm.devcomms, &comm.windows, &dc).unwrap();
    assert_eq!(destroy(&comm.devcomms, &comm.windows, &dc).unwrap_err().id, 57);
    let again = create(&comm.devcomms, &comm.windows, &reqs).unwrap().dev_comm;
    assert!((0..64).all(|i| load(local(&again, rank) + 8 * i) == 0));
    assert_eq!(comm.windows.deregister(again.resourceWindow).unwrap_err().code, Code::InvalidArgument);
    destroy(&comm.devcomms, &comm.windows, &again).unwrap();
    assert!(comm.windows.is_empty() && comm.devcomms.is_empty());
}

#[test]
fn every_field_on_thread_ranks() {
    for n in [1, 3] {
        threads(n, |comm| every_field(comm));
    }
}

#[test]
fn every_field_on_process_ranks() {
    processes("every_field_on_process_ranks", 2, 1, |comm| every_field(comm));
}

#[test]
fn nothing_asked_for_takes_no_memory() {
    threads(2, |comm| {
        let dc = create(&comm.devcomms, &comm.windows, &Requirements::default()).unwrap().dev_comm;
        assert_eq!((dc.resourceWindow, dc.ginSignalShadows), (0, 0));
        let unmarked = ncclWindow_vidmem { marker: 0, ..dc.resourceWindow_inlined };
        assert_eq!(unmarked, ncclWindow_vidmem::default());
        assert_ne!(dc.windowTable, 0);
        destroy(&comm.devcomms, &comm.windows, &dc).unwrap();
    });
}

/// ncclFindWindow, in words: the first entry whose range holds `at`.
fn find(dc: &ncclDevComm, at: u64) -> Option<u64> {
    let mut page = dc.windowTable;
    while page != 0 {
        let table: ncclDevCommWindowTable = read(page);
        let hit = table.entries.iter().find(|e| e.base != 0 && e.size != 0 && e.window != 0 && at.wrapping_sub(e.base) < e.size);
        if let Some(entry) = hit {
            return Some(entry.window);
        }
        page = table.next;
    }
    None
}

#[test]
fn kernels_find_windows_by_address() {
    threads(2, |comm| {
        let dc =
            create(&comm.devcomms, &comm.windows, &Requirements { lsa_barrier_count: 1, ..Default::default() }).unwrap().dev_comm;
        let base = comm.team.device.alloc(MIB as usize).unwrap();
        let wins: Vec<_> = (0..50).map(|i| comm.windows.register(base + i * 4096, 4000, 0).unwrap()).collect();
        for (i, win) in wins.iter().enumerate() {
            let start = base + i as u64 * 4096;
            assert_eq!((find(&dc, start), find(&dc, start + 3999), find(&dc, start + 4000)), (Some(*win), Some(*win), None));
        }
        comm.windows.deregister(wins[40]).unwrap();
        assert_eq!((find(&dc, base + 40 * 4096), find(&dc, base + 41 * 4096)), (None, Some(wins[41])));
        comm.team.device.free(base).unwrap();
        destroy(&comm.devcomms, &comm.windows, &dc).unwrap();
    });
}

#[test]
fn requirements_that_differ_are_named_on_every_rank_and_all_go_on() {
    threads(3, |comm| {
        let odd = comm.team.rank == 1;
        let fails = |reqs: Requirements, code: Code, texts: &[&str]| {
            let error: Error = create(&comm.devcomms, &comm.windows, &reqs).unwrap_err();
            assert_eq!(error.code, code, "{error}");
            assert!(texts.iter().all(|text| error.text.contains(text)), "{error}");
            assert!(odd || error.culprit == Some(1), "{error}");
        };
        let resource = |bytes| Resource { bytes, align: 4, ..Default::default() };
        let with = |change: &dyn Fn(&mut Requirements)| {
            let mut reqs = Requirements { lsa_barrier_count: 2, resources: vec![resource(64)], ..Default::default() };
            if odd {
                change(&mut reqs);
            }
            reqs
        };
        fails(with(&|r| r.lsa_barrier_count = 5), Code::InvalidArgument, &["lsaBarrierCount", "ranks 0+2 2, rank 1 5"]);
        fails(
            with(&|r| r.resources[0].bytes = 65),
            Code::InvalidArgument,
            &["bufferSize of resource requirement 0", "rank 1 65"],
        );
        fails(with(&|r| r.resources.push(resource(1))), Code::InvalidArgument, &["number of resource requirements", "rank 1 2"]);
        fails(with(&|r| r.gin_signal_count = 1), Code::InvalidArgument, &["ginSignalCount", "rank 1 1"]);
        fails(with(&|r| r.gin_counter_count = -1), Code::InvalidArgument, &["ginCounterCount is -1"]);
        fails(with(&|r| r.resources[0].align = 3), Code::InvalidArgument, &["bufferAlign of resource requirement 0 is 3"]);
        fails(with(&|r| r.lsa_multimem = true), Code::InvalidArgument, &["no multicast memory (NVLS)", "lsaMultimem"]);
        fails(
            with(&|r| r.teams = vec![TeamRequest { multimem: true, team: [2, comm.team.rank as i32, 1] }]),
            Code::InvalidArgument,
            &["no multicast memory (NVLS)"],
        );
        fails(with(&|r| r.resources[0].bytes = u64::MAX), Code::InvalidArgument, &["bufferSize"]);
        let fine = Requirements { teams: vec![TeamRequest::default()], ..with(&|_| ()) };
        let dc = create(&comm.devcomms, &comm.windows, &fine).unwrap().dev_comm;
        destroy(&comm.devcomms, &comm.windows, &dc).unwrap();
    });
}

#[test]
fn more_than_the_space_fails_alike_and_leaves_nothing() {
    with_settings("more_than_the_space_fails_alike_and_leaves_nothing", &[("NCCL_WIN_STRIDE", "4096")], || {
        threads(2, |comm| {
            let reqs = Requirements { resources: vec![Resource { bytes: 5 << 30, ..Default::default() }], ..Default::default() };
            let error = create(&comm.devcomms, &comm.windows, &reqs).unwrap_err();
            assert!(error.text.contains("NCCL_WIN_STRIDE"), "{error}");
            let dc = create(&comm.devcomms, &comm.windows, &Requirements { lsa_barrier_count: 1, ..Default::default() })
                .unwrap()
                .dev_comm;
            assert_eq!(dc.resourceWindow_inlined.mcOffset4K, 0);
            destroy(&comm.devcomms, &comm.windows, &dc).unwrap();
        });
    });
}

#[test]
fn without_symmetric_memory_there_is_none() {
    with_settings("without_symmetric_memory_there_is_none", &[("NCCL_WIN_ENABLE", "0")], || {
        threads(1, |comm| {
            assert_eq!(create(&comm.devcomms, &comm.windows, &Requirements::default()).unwrap_err().code, Code::InvalidUsage)
        });
    });
}

/// The others hear of an abort at once, and of what made the program abort perhaps never.
#[test]
fn an_abort_behind_an_error_names_the_rank_where_it_began() {
    // An abort while others still set up ends their set-up.
    let all_are_up = std::sync::Barrier::new(3);
    threads(3, |comm| {
        all_are_up.wait();
        let abort = &comm.team.abort;
        if comm.team.rank == 0 {
            let told = "window register #1, end failed on rank 2 | rank 1 (pid 7) has closed its links | comm 0x1 | fix: none";
            comm.tell(Error::new(Code::RemoteError, 46, told).by(1));
            ginrs::comm::finish::abort(comm.clone());
        }
        while !abort.is_raised() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let cause = abort.cause().unwrap();
        let behind = "behind GINRS-E046 window register #1, end failed on rank 2, rank 1 (pid 7) has closed its links | fix:";
        assert!(cause.id == 41 && cause.text.contains(behind), "{cause}");
    });
}
