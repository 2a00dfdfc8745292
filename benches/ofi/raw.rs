//! The floors: TCP streams, with a thread for each as a program would have them, and with one thread for all by epoll, as one proxy
//! thread has them; a byte over TCP and a count in an eventfd that wake a thread which sleeps.

use crate::{LARGE, LARGE_PUTS, PORT, STREAMS, TRIPS, cpu};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use std::io::{ErrorKind, Read, Write};
use std::mem::MaybeUninit;
use std::net::{IpAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// Header of the provider, number and header of the message, payload.
const FRAME: usize = 16 + 8 + 48 + 8;
const EACH: usize = (LARGE * LARGE_PUTS / STREAMS) as usize;

/// Rank 1 takes what rank 0 sends; both say MB/s and their processor time, us per MiB.
pub fn streams(rank: u32, server: IpAddr, one_thread: bool) {
    let all: Vec<TcpStream> = if rank == 1 {
        let listener = TcpListener::bind((server, PORT)).unwrap();
        (0..STREAMS).map(|_| listener.accept().unwrap().0).collect()
    } else {
        (0..STREAMS).map(|_| connect(server)).collect()
    };
    let ends = all.iter().map(|stream| stream.try_clone().unwrap()).collect();
    let (begin, used) = (Instant::now(), cpu());
    match one_thread {
        true => by_one(ends, rank == 1),
        false => by_threads(ends, rank == 1),
    }
    for mut stream in all {
        stream.set_nonblocking(false).unwrap();
        if rank == 1 { stream.write_all(&[1]).unwrap() } else { stream.read_exact(&mut [0]).unwrap() }
    }
    let rate = (LARGE * LARGE_PUTS) as f64 / begin.elapsed().as_secs_f64() / 1e6;
    println!("{rate} {}", (cpu() - used).as_secs_f64() * 1e6 / LARGE_PUTS as f64);
}

fn connect(server: IpAddr) -> TcpStream {
    loop {
        match TcpStream::connect((server, PORT)) {
            Ok(stream) => return stream,
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}

fn by_threads(streams: Vec<TcpStream>, receive: bool) {
    let carry = move |mut stream: TcpStream| {
        let mut buffer = vec![1; LARGE as usize];
        for _ in 0..LARGE_PUTS / STREAMS {
            if receive { stream.read_exact(&mut buffer).unwrap() } else { stream.write_all(&buffer).unwrap() }
        }
    };
    let threads: Vec<_> = streams.into_iter().map(|stream| std::thread::spawn(move || carry(stream))).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

fn by_one(mut streams: Vec<TcpStream>, receive: bool) {
    let poll = epoll::create(CreateFlags::CLOEXEC).unwrap();
    let flags = if receive { EventFlags::IN } else { EventFlags::OUT };
    for (i, stream) in streams.iter().enumerate() {
        stream.set_nonblocking(true).unwrap();
        epoll::add(&poll, stream, EventData::new_u64(i as u64), flags).unwrap();
    }
    let mut buffers = vec![vec![1; LARGE as usize]; streams.len()];
    let mut left = vec![EACH; streams.len()];
    while left.iter().any(|left| *left > 0) {
        let mut events = [const { MaybeUninit::uninit() }; STREAMS as usize];
        for event in &*epoll::wait(&poll, &mut events[..], None).unwrap().0 {
            let i = event.data.u64() as usize;
            // As far as the buffer reaches: puts come one behind the other.
            let at = LARGE as usize - (left[i] - 1) % LARGE as usize - 1;
            let part = &mut buffers[i][at..];
            let moved = if receive { streams[i].read(part) } else { streams[i].write(part) };
            left[i] -= moved.or_else(|error| if error.kind() == ErrorKind::WouldBlock { Ok(0) } else { Err(error) }).unwrap();
            if left[i] == 0 {
                epoll::delete(&poll, &streams[i]).unwrap();
            }
        }
    }
}

/// Rank 0 says the us of a round trip of as many bytes as an 8-byte put has on the wire: over one connection, and over one for each
/// direction, as puts go.
pub fn trips(rank: u32, server: IpAddr) {
    let pair: Vec<TcpStream> = if rank == 1 {
        let listener = TcpListener::bind((server, PORT)).unwrap();
        (0..2).map(|_| listener.accept().unwrap().0).collect()
    } else {
        (0..2).map(|_| connect(server)).collect()
    };
    pair.iter().for_each(|stream| stream.set_nodelay(true).unwrap());
    let trip = |mut to: &TcpStream, mut from: &TcpStream| {
        from.set_nonblocking(true).unwrap();
        let mut hear = || while from.read(&mut [0; 128]).is_err() {};
        let times = (0..TRIPS).map(|_| {
            let begin = Instant::now();
            if rank == 1 {
                hear();
            }
            to.write_all(&[1; FRAME]).unwrap();
            if rank == 0 {
                hear();
            }
            begin.elapsed().as_secs_f64() * 1e6
        });
        crate::median(times.collect())
    };
    let (mine, theirs) = (&pair[rank as usize], &pair[1 - rank as usize]);
    let one = trip(&pair[0], &pair[0]);
    println!("{one} {}", trip(mine, theirs));
}

/// Microseconds from a write into an eventfd to the return of another thread's wait for it in an epoll set: the median.
pub fn eventfd_wake() -> f64 {
    let event = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
    let poll = epoll::create(CreateFlags::CLOEXEC).unwrap();
    epoll::add(&poll, &event, EventData::new_u64(0), EventFlags::IN).unwrap();
    let (told, hears) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..crate::WAKES {
                epoll::wait(&poll, &mut [const { MaybeUninit::uninit() }; 1][..], None).unwrap();
                let woken = Instant::now();
                rustix::io::read(&event, &mut [0; 8]).unwrap();
                told.send(woken).unwrap();
            }
        });
        let times = (0..crate::WAKES).map(|_| {
            std::thread::sleep(crate::SLEEP);
            let begin = Instant::now();
            rustix::io::write(&event, &1u64.to_ne_bytes()).unwrap();
            hears.recv().unwrap().duration_since(begin).as_secs_f64() * 1e6
        });
        crate::median(times.collect())
    })
}
