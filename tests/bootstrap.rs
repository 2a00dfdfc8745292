//! The bootstrap through its public face: ranks as threads of this process, and strangers at the door.

mod common;

use common::hang_limit::HANG_LIMIT;
use ginrs::bootstrap::{Bootstrap, Cancel, Seat, UniqueId};
use ginrs::error::{Code, Error, Result};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Tests that load the machine or measure time run one at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Runs `body` on `n` threads, one a rank; results by rank.
fn ranks<T: Send>(n: u32, body: impl Fn(u32) -> T + Sync) -> Vec<T> {
    std::thread::scope(|scope| {
        let body = &body;
        let start = |rank| std::thread::Builder::new().stack_size(256 << 10).spawn_scoped(scope, move || body(rank)).unwrap();
        let threads: Vec<_> = (0..n).map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn gather_and_check(boot: &Bootstrap, n: u32) {
    for turn in 0..3u8 {
        // Sizes differ by rank and include 0.
        let part = |rank: u32| vec![turn ^ rank as u8; (rank as usize * 7 + turn as usize) % 50];
        let all = boot.allgather("test gather", &part(boot.rank())).unwrap();
        assert_eq!(all.len(), n as usize);
        for (rank, bytes) in (0..).zip(all.iter()) {
            assert_eq!(**bytes, part(rank), "part of rank {rank} on rank {}", boot.rank());
        }
        boot.barrier("test barrier").unwrap();
    }
}

#[test]
fn any_number_of_ranks_meets_and_gathers() {
    let _alone = alone();
    for n in [1, 2, 3, 5, 7, 16, 64, 256] {
        let id = UniqueId::create().unwrap();
        let hashes = ranks(n, |rank| {
            let boot = Bootstrap::join(&id, rank, n).unwrap();
            assert_eq!((boot.rank(), boot.n_ranks()), (rank, n));
            gather_and_check(&boot, n);
            boot.comm_hash()
        });
        assert!(hashes.iter().all(|hash| *hash == id.comm_hash()));
    }
}

#[test]
fn a_thousand_ranks_fit_into_one_process() {
    let _alone = alone();
    // It takes three seconds of one core, which at load 200 take longer than GINRS_INIT_TIMEOUT's 120.
    let settings = [("GINRS_INIT_TIMEOUT", "900"), ("GINRS_TIMEOUT", "900")];
    common::with_settings("a_thousand_ranks_fit_into_one_process", &settings, || {
        let id = UniqueId::create().unwrap();
        let start = Instant::now();
        ranks(1024, |rank| {
            let boot = Bootstrap::join(&id, rank, 1024).unwrap();
            let all = boot.allgather("test gather", &rank.to_le_bytes()).unwrap();
            assert!((0..).zip(all.iter()).all(|(rank, bytes): (u32, _)| **bytes == rank.to_le_bytes()));
        });
        println!("1024 ranks joined and gathered in {:?}", start.elapsed());
    });
}

#[test]
fn a_barrier_holds_everybody_back() {
    let id = UniqueId::create().unwrap();
    let arrived = AtomicU32::new(0);
    ranks(7, |rank| {
        let boot = Bootstrap::join(&id, rank, 7).unwrap();
        for turn in 1..=20 {
            arrived.fetch_add(1, Ordering::SeqCst);
            boot.barrier("test barrier").unwrap();
            assert!(arrived.load(Ordering::SeqCst) >= 7 * turn);
            boot.barrier("test barrier").unwrap();
        }
    });
}

/// Joins that must fail, on every rank, in time, and the texts they fail with. `last` comes when the others have joined: who comes within the
/// time in which the root hears further claims is not to decide who differs from most.
fn all_refused(claims: &[(u32, u32)], last: usize) -> Vec<Error> {
    let id = UniqueId::create().unwrap();
    let (start, machine) = (Instant::now(), ginrs::process::machine());
    let waiting: Arc<Vec<AtomicU32>> = Arc::new(claims.iter().map(|_| AtomicU32::new(0)).collect());
    let results: Vec<Result<()>> = ranks(claims.len() as u32, |i| {
        let ((rank, n_ranks), cancel, all) = (claims[i as usize], Cancel::new(), waiting.clone());
        // Asked a third time it has joined, and waits.
        while i as usize == last && (0..).zip(&*all).any(|(i, asked)| i != last && asked.load(Ordering::Relaxed) < 3) {
            std::thread::yield_now();
        }
        cancel.watch(move || {
            all[i as usize].fetch_add(1, Ordering::Relaxed);
            Ok(())
        });
        Bootstrap::join_unless(&id, Seat { rank, n_ranks, machine }, &cancel).map(drop)
    });
    assert!(start.elapsed() < HANG_LIMIT, "{:?}", start.elapsed());
    results.into_iter().map(|result| result.unwrap_err()).collect()
}

#[test]
fn every_rank_is_told_which_rank_does_not_fit() {
    let _alone = alone();
    let pid = std::process::id();
    for (claims, last, culprit, text) in [
        (&[(0, 4), (1, 4), (2, 4), (3, 8)][..], 3, 3, "rank 3 (pid"),
        (&[(0, 9), (1, 4), (2, 4), (3, 4)][..], 0, 0, "says nRanks is 9, 3 other(s) say 4"),
        (&[(0, 4), (1, 4), (1, 4), (3, 4)][..], 2, 1, "rank 1 came twice"),
        (&[(0, 4), (1, 4), (2, 4), (7, 4)][..], 3, 7, "is out of range, nRanks is 4"),
        (&[(0, u32::MAX), (1, u32::MAX)][..], 1, 0, "out of range"),
        (&[(0, 3), (5, u32::MAX), (1, 3)][..], 1, 5, "rank 5 (pid"),
    ] {
        for error in all_refused(claims, last) {
            assert_eq!((error.id, error.culprit, error.code), (12, Some(culprit), Code::InvalidArgument), "{error}");
            assert!(error.text.contains(text) && error.text.contains("fix:") && error.text.contains(&pid.to_string()), "{error}");
        }
    }
}

#[test]
fn a_rank_in_another_step_is_named_on_every_rank() {
    let id = UniqueId::create().unwrap();
    ranks(5, |rank| {
        let boot = Bootstrap::join(&id, rank, 5).unwrap();
        let what = if rank == 3 { "devcomm create #2" } else { "window register #2" };
        let error = boot.allgather(what, &[rank as u8]).unwrap_err();
        assert_eq!((error.id, error.culprit), (16, Some(3)), "{error}");
        assert!(error.text.contains("is in \"devcomm create #2\"; the others are in \"window register #2\""), "{error}");
        // All failed in step: the communicator can go on.
        gather_and_check(&boot, 5);
    });
}

#[test]
fn a_failure_ends_pending_and_later_exchanges_of_all() {
    let id = UniqueId::create().unwrap();
    ranks(4, |rank| {
        let boot = Bootstrap::join(&id, rank, 4).unwrap();
        if rank == 2 {
            std::thread::sleep(Duration::from_millis(50));
            boot.poison(&Error::new(Code::SystemError, 23, "no memory for windows"));
        }
        for _ in 0..2 {
            let error = boot.barrier("test barrier").unwrap_err();
            assert_eq!((error.code, error.id, error.culprit), (Code::RemoteError, 23, Some(2)));
            assert_eq!(error.text, "rank 2 failed: no memory for windows");
        }
    });
}

#[test]
fn a_rank_that_has_left_ends_the_waits_for_it() {
    let id = UniqueId::create().unwrap();
    ranks(3, |rank| {
        let boot = Bootstrap::join(&id, rank, 3).unwrap();
        if rank == 1 {
            return;
        }
        let error = boot.barrier("test barrier").unwrap_err();
        assert_eq!((error.id, error.culprit), (42, Some(1)), "{error}");
    });
}

#[test]
fn ranks_that_wait_hear_of_one_that_cannot_join_unless_it_calls_again() {
    let wrong = Error::new(Code::InvalidArgument, 65, "no ncclConfig_t");
    let id = UniqueId::create().unwrap();
    let begin = Instant::now();
    let told = ranks(3, |rank| match rank {
        2 => {
            Bootstrap::decline(std::slice::from_ref(&id), rank, 3, &wrong);
            None
        }
        _ => Bootstrap::join(&id, rank, 3).err(),
    });
    for error in told.into_iter().take(2) {
        let error = error.expect("two of three cannot meet");
        let pid = std::process::id();
        assert!(error.text.starts_with(&format!("rank 2 (pid {pid}) cannot join: no ncclConfig_t")), "{error}");
        assert_eq!((error.code, error.id, error.culprit), (Code::RemoteError, 65, Some(2)));
    }
    assert!(begin.elapsed() < HANG_LIMIT, "{:?}", begin.elapsed());
    // Nobody waits yet, and the second call is right.
    let id = UniqueId::create().unwrap();
    Bootstrap::decline(std::slice::from_ref(&id), 9, 3, &wrong);
    let joined = ranks(3, |rank| Bootstrap::join(&id, rank, 3).map(drop));
    assert!(joined.iter().all(Result::is_ok), "{joined:?}");
}

/// Of a shrink with a wrong list on uneven machines, ranks that are not linked with the wrong one saw only the end of the first that had
/// seen it: "rank 0 is gone". So was a rank whose own call was ended.
#[test]
fn ranks_that_wait_hear_what_one_that_goes_has_seen_or_was_told() {
    let seen = Error::new(Code::InvalidArgument, 12, "ranks leave out different ranks");
    let told = Error::new(Code::RemoteError, 41, "ncclCommAbort was called");
    let heard = Error::new(Code::RemoteError, 41, "rank 0 failed: ncclCommAbort was called").by(0);
    let machine = ginrs::process::machine();
    for (sees, own, others) in [(true, &seen, &seen), (false, &told, &heard)] {
        let id = UniqueId::create().unwrap();
        // Rank 2 never comes.
        let errors = ranks(2, |rank| {
            let cancel = Cancel::new();
            let (again, cause, asked) = (Arc::downgrade(&cancel), own.clone(), AtomicU32::new(0));
            cancel.watch(move || {
                // Two questions come before it has joined, the others while it waits.
                if rank != 0 || asked.fetch_add(1, Ordering::Relaxed) != 20 {
                    return Ok(());
                }
                if sees {
                    return Err(cause.clone());
                }
                again.upgrade().into_iter().for_each(|cancel| cancel.cancel(cause.clone()));
                Ok(())
            });
            Bootstrap::join_unless(&id, Seat { rank, n_ranks: 3, machine }, &cancel).err()
        });
        assert_eq!(errors, [Some(own.clone()), Some(others.clone())]);
    }
}

#[test]
fn descriptors_pass_between_ranks_of_a_process() {
    let id = UniqueId::create().unwrap();
    ranks(3, |rank| {
        let boot = Bootstrap::join(&id, rank, 3).unwrap();
        boot.publish(9, std::fs::File::open("/dev/null").unwrap().into());
        boot.barrier("published").unwrap();
        for owner in 0..3 {
            boot.fetch(&boot.fd_address(), owner, 9).unwrap();
            let error = boot.fetch(&boot.fd_address(), owner, 10).unwrap_err();
            assert_eq!((error.id, error.culprit), (43, Some(owner)));
        }
        boot.barrier("fetched").unwrap();
        boot.withdraw(9);
        assert_eq!(boot.fetch(&boot.fd_address(), rank, 9).unwrap_err().id, 43);
        boot.barrier("withdrawn").unwrap();
    });
}

#[test]
fn an_id_serves_once_and_a_wrong_one_not_at_all() {
    let id = UniqueId::create().unwrap();
    ranks(2, |rank| drop(Bootstrap::join(&id, rank, 2).unwrap()));
    let error = Bootstrap::join(&id, 0, 2).err().unwrap();
    let told = error.text.contains("for one communicator only") || error.text.contains("has all its ranks");
    assert!(error.id == 19 && told, "{error}");

    // The right address with another secret: the root must not let it in, and the others must not notice.
    let id = UniqueId::create().unwrap();
    let mut forged = id.bytes();
    forged[88] ^= 1;
    let crc = crc32fast::hash(&forged[..124]);
    forged[124..].copy_from_slice(&crc.to_le_bytes());
    let forged = UniqueId::from_bytes(&forged).unwrap();
    let error = Bootstrap::join(&forged, 1, 2).err().unwrap();
    assert!(error.id == 19 && error.text.contains("pass the id of this communicator"), "{error}");
    ranks(2, |rank| gather_and_check(&Bootstrap::join(&id, rank, 2).unwrap(), 2));
}

/// The name of the root's socket, from the documented layout of the id.
fn door(id: &UniqueId) -> SocketAddr {
    let name: String = id.bytes()[17..33].iter().map(|b| format!("{b:02x}")).collect();
    SocketAddr::from_abstract_name(format!("ginrs-{name}")).unwrap()
}

#[test]
fn hostile_strangers_do_not_keep_ranks_out() {
    let _alone = alone();
    use std::io::Write;
    let id = UniqueId::create().unwrap();
    let door = door(&id);
    let mut strangers = Vec::new();
    let mut garbage = vec![0xa5u8; 4096];
    garbage[..8].copy_from_slice(b"GINB\x06\x00\x01\x00");
    for i in 0..1000 {
        let mut stranger = UnixStream::connect_addr(&door).unwrap();
        stranger.set_nonblocking(true).unwrap();
        // Silent, half a greeting, a greeting with a wrong key, noise, a huge length; some close at once.
        let words: &[u8] = match i % 6 {
            0 => &[],
            1 => &garbage[..50],
            2 => &garbage[..164],
            3 => &garbage[8..],
            4 => &[0xff; 64],
            _ => continue,
        };
        let _ = stranger.write(words);
        strangers.push(stranger);
    }
    let start = Instant::now();
    ranks(8, |rank| gather_and_check(&Bootstrap::join(&id, rank, 8).unwrap(), 8));
    println!("8 ranks joined among {} strangers in {:?}", strangers.len(), start.elapsed());
    assert!(start.elapsed() < HANG_LIMIT, "{:?}", start.elapsed());
}

#[test]
fn a_replayed_greeting_and_proof_open_nothing() {
    use std::io::{Read, Write};
    // A relay between an honest rank and the root records what the rank sends.
    let id = UniqueId::create().unwrap();
    let mut through = id.bytes();
    through[17..33].fill(0x5e);
    let crc = crc32fast::hash(&through[..124]);
    through[124..].copy_from_slice(&crc.to_le_bytes());
    let through = UniqueId::from_bytes(&through).unwrap();
    let listener = std::os::unix::net::UnixListener::bind_addr(&door(&through)).unwrap();
    let relay = || {
        let (mut rank, _) = listener.accept()?;
        let mut root = UnixStream::connect_addr(&door(&id))?;
        let (mut hello, mut challenge, mut proof) = ([0; 164], [0; 56], [0; 16]);
        rank.read_exact(&mut hello)?;
        root.write_all(&hello)?;
        root.read_exact(&mut challenge)?;
        rank.write_all(&challenge)?;
        rank.read_exact(&mut proof)?;
        // The record is played to the same root before the honest proof arrives.
        let mut thief = UnixStream::connect_addr(&door(&id))?;
        thief.write_all(&hello)?;
        thief.read_exact(&mut challenge)?;
        thief.write_all(&proof)?;
        assert_eq!(thief.read(&mut [0; 16])?, 0, "the root must drop a replayed proof");
        root.write_all(&proof)?;
        // The welcome, and what the rank says behind it: length and kind of a frame.
        root.read_exact(&mut proof)?;
        rank.write_all(&proof)?;
        let mut here = [0; 5];
        rank.read_exact(&mut here)?;
        root.write_all(&here)?;
        let mut table = Vec::new();
        root.read_to_end(&mut table)?;
        rank.write_all(&table)
    };
    let recorded = std::thread::scope(|scope| {
        let honest = scope.spawn(|| Bootstrap::join(&through, 0, 1));
        let mut begun = Instant::now();
        while let Err(error) = relay() {
            // Each end hangs up on one that is mute for 2 s, as this may be on a busy machine: the rank dials again.
            assert!(begun.elapsed() > Duration::from_secs(2), "{error}");
            begun = Instant::now();
        }
        honest.join().unwrap().unwrap().n_ranks()
    });
    assert_eq!(recorded, 1);
}
