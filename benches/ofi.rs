//! The transport ofi between two machines, which as root are two network namespaces: beside libfabric's own ping-pong on the same
//! provider, beside TCP streams written for the purpose, and beside itself with one message for each put.
//! `cargo bench -p ginrs --bench ofi`; runs take turns, so that a busy machine is the same for both sides of a ratio.

use ginrs::device::cpu::CpuDevice;
use ginrs::device::{Device, Physical};
use ginrs::transport::factory::{Factory as _, Setup, Share};
use ginrs::transport::{Part, Region, SIGNALS, Source, Submitted, Transport, Words, Work, ofi};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const ROUNDS: usize = 5;
const TRIPS: u64 = 5000;
const SMALL_PUTS: u64 = 200_000;
/// Small puts of one drain.
const DRAIN: u64 = 64;
const LARGE: u64 = 1 << 20;
const LARGE_PUTS: u64 = 1000;
const STREAMS: u64 = 4;
const BYTES: usize = 16 << 20;
const DATA: u32 = 1;
const PORT: u16 = 47_321;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    match args.get(1).map(String::as_str) {
        Some("rank") => rank(args[2].parse().unwrap(), args[3].parse().unwrap()),
        Some("streams") => streams(args[2].parse().unwrap(), args[3].parse().unwrap()),
        _ => compare(),
    }
}

// ---- The two machines.

/// Two namespaces with a cable between them, or this machine's loopback.
struct Machines {
    names: Option<[String; 2]>,
    addresses: [IpAddr; 2],
}

impl Machines {
    fn new() -> Self {
        let id = std::process::id();
        let names = ["a", "b"].map(|name| format!("ginrs-{id}-{name}"));
        let cables = ["a", "b"].map(|name| format!("gb{}{name}", id % 100_000));
        let ip = |line: &str| Command::new("ip").args(line.split(' ')).stderr(Stdio::null()).status().is_ok_and(|s| s.success());
        let ends = ["10.213.0.1", "10.213.0.2"];
        let made = names.iter().all(|name| ip(&format!("netns add {name}")))
            && ip(&format!("link add {} type veth peer name {}", cables[0], cables[1]))
            && (0..2).all(|i| {
                ip(&format!("link set {} netns {}", cables[i], names[i]))
                    && ip(&format!("-n {} addr add {}/24 dev {}", names[i], ends[i], cables[i]))
                    && ip(&format!("-n {} link set {} up", names[i], cables[i]))
                    && ip(&format!("-n {} link set lo up", names[i]))
            });
        if made {
            return Self { names: Some(names), addresses: ends.map(|end| end.parse().unwrap()) };
        }
        names.iter().for_each(|name| _ = ip(&format!("netns del {name}")));
        println!("no network namespaces here (they need root): over loopback");
        Self { names: None, addresses: ["127.0.0.1".parse().unwrap(); 2] }
    }

    fn command(&self, on: usize, program: &str) -> Command {
        match &self.names {
            None => Command::new(program),
            Some(names) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", &names[on], program]);
                command
            }
        }
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        for name in self.names.iter().flatten() {
            let _ = Command::new("ip").args(["netns", "del", name]).status();
        }
    }
}

// ---- The comparison.

fn compare() {
    let machines = Machines::new();
    let provider = std::env::var("GINRS_OFI_PROVIDER").unwrap_or_else(|_| "net".into());
    let (mut ours, mut trips, mut rates): (Vec<[f64; 4]>, Vec<f64>, Vec<f64>) = Default::default();
    for _ in 0..ROUNDS {
        ours.push(run_ranks(&machines));
        trips.extend(run_pingpong(&machines, &provider));
        rates.push(run_streams(&machines));
    }
    let of = |i: usize| median(ours.iter().map(|run| run[i]).collect());
    let (trip, packed, single, large) = (of(0), of(1), of(2), of(3));
    println!("medians of {ROUNDS} runs in turns, provider {provider}");
    match trips.is_empty() {
        true => println!("8-byte put+signal, round trip {trip:.2} us; fi_pingpong is not here (package libfabric-bin)"),
        false => {
            let theirs = median(trips);
            println!(
                "8-byte put+signal, round trip {trip:.2} us | fi_pingpong {theirs:.2} us | + {:.2} us per hop (goal: at most 2)",
                (trip - theirs) / 2.0
            );
        }
    }
    println!(
        "64-byte puts, {DRAIN} in a drain {packed:.2} M/s | one message for each {single:.2} M/s | ratio {:.2} (goal: at least 2)",
        packed / single
    );
    let raw = median(rates);
    println!(
        "1 MiB puts, {STREAMS} contexts {large:.0} MB/s | raw TCP, {STREAMS} streams {raw:.0} MB/s | ratio {:.2} (goal: at least 0.9)",
        large / raw
    );
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

fn own() -> String {
    std::env::current_exe().unwrap().to_str().unwrap().to_owned()
}

/// Rank 0's figures: us, M/s packed, M/s single, MB/s.
fn run_ranks(machines: &Machines) -> [f64; 4] {
    let mut children: Vec<(Child, ChildStdin, BufReader<std::process::ChildStdout>)> = (0..2)
        .map(|rank| {
            let mut command = machines.command(rank, &own());
            command.args(["rank", &rank.to_string(), &machines.addresses[rank].to_string()]);
            let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
            (child, input, output)
        })
        .collect();
    // What each says of where it listens, and of its window, goes to the other.
    for _ in 0..2 {
        let said: Vec<String> = children.iter_mut().map(|(.., output)| line(output)).collect();
        for ((_, input, _), said) in children.iter_mut().zip(said.iter().rev()) {
            writeln!(input, "{said}").unwrap();
        }
    }
    let figures = line(&mut children[0].2);
    children.iter_mut().for_each(|(child, ..)| assert!(child.wait().unwrap().success()));
    let figures: Vec<f64> = figures.split_whitespace().map(|figure| figure.parse().unwrap()).collect();
    figures.try_into().unwrap()
}

fn line(from: &mut impl BufRead) -> String {
    let mut line = String::new();
    assert!(from.read_line(&mut line).unwrap() > 0, "a rank ended early");
    line.trim().to_owned()
}

/// Round trip of libfabric's own program; None where there is none.
fn run_pingpong(machines: &Machines, provider: &str) -> Option<f64> {
    let common = ["-p", provider, "-e", "msg", "-S", "8", "-I", "5000"];
    let mut server = machines.command(1, "fi_pingpong").args(common).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()?;
    std::thread::sleep(Duration::from_millis(500));
    let client = machines.command(0, "fi_pingpong").args(common).arg(machines.addresses[1].to_string()).output().ok();
    let _ = server.kill();
    let _ = server.wait();
    let text = String::from_utf8_lossy(&client?.stdout).into_owned();
    // bytes, sent, acknowledged, total, time, MB/s, us for one way, M/s
    let row: Vec<&str> = text.lines().last()?.split_whitespace().collect();
    row.get(6)?.parse::<f64>().ok().map(|one_way| 2.0 * one_way)
}

fn run_streams(machines: &Machines) -> f64 {
    let start = |rank: usize| {
        let mut command = machines.command(rank, &own());
        command.args(["streams", &rank.to_string(), &machines.addresses[1].to_string()]);
        command.stdout(Stdio::piped()).spawn().unwrap()
    };
    let mut server = start(1);
    let client = start(0).wait_with_output().unwrap();
    assert!(server.wait().unwrap().success());
    String::from_utf8(client.stdout).unwrap().trim().parse().unwrap()
}

// ---- Raw TCP.

fn streams(rank: u32, server: IpAddr) {
    if rank == 1 {
        let listener = TcpListener::bind((server, PORT)).unwrap();
        let receive = |mut stream: TcpStream| {
            let mut buffer = vec![0; LARGE as usize];
            (0..LARGE_PUTS / STREAMS).for_each(|_| stream.read_exact(&mut buffer).unwrap());
            stream.write_all(&[1]).unwrap();
        };
        let threads: Vec<_> =
            (0..STREAMS).map(|_| listener.accept().unwrap().0).map(|s| std::thread::spawn(move || receive(s))).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        return;
    }
    let connect = || loop {
        match TcpStream::connect((server, PORT)) {
            Ok(stream) => return stream,
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    };
    let streams: Vec<_> = (0..STREAMS).map(|_| connect()).collect();
    let begin = Instant::now();
    let send = |mut stream: TcpStream| {
        let buffer = vec![1; LARGE as usize];
        (0..LARGE_PUTS / STREAMS).for_each(|_| stream.write_all(&buffer).unwrap());
        stream.read_exact(&mut [0]).unwrap();
    };
    let threads: Vec<_> = streams.into_iter().map(|stream| std::thread::spawn(move || send(stream))).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    println!("{}", (LARGE * LARGE_PUTS) as f64 / begin.elapsed().as_secs_f64() / 1e6);
}

// ---- One rank.

struct Nothing;

impl Share for Nothing {
    fn offer(&self, _: &Arc<dyn Physical>) -> ginrs::error::Result<[u64; 2]> {
        unreachable!("no memory is passed")
    }
    fn take(&self, _: u32, _: [u64; 2]) -> ginrs::error::Result<Arc<dyn Physical>> {
        unreachable!("no memory is passed")
    }
}

/// Says `own` and hears what the other says.
fn exchange(rank: u32, own: &[u8]) -> Vec<Words> {
    println!("{}", own.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
    let heard = line(&mut std::io::stdin().lock());
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    let mut all = vec![own.to_vec(), heard.as_bytes().chunks(2).map(byte).collect()];
    if rank == 1 {
        all.reverse();
    }
    let named = |bytes| {
        let mut words = Words::default();
        words.say("ofi", bytes);
        words
    };
    all.into_iter().map(named).collect()
}

struct End {
    transport: Box<dyn Transport>,
    peer: u32,
    signals: Arc<dyn Physical>,
    tag: u64,
}

impl End {
    fn new(rank: u32, address: IpAddr) -> Self {
        let device: Arc<dyn Device> = CpuDevice::new(0);
        let both = |_| vec![0, 1];
        let setup =
            Setup { rank, device: &device, serves: vec![true; 2], senders: &both, share: &Nothing, secret: [7; 32], address };
        let (mut transport, said) = ofi::Factory.prepare(&setup).unwrap();
        transport.connect(&*device, &Nothing, &Arc::new(exchange(rank, &said))).unwrap();
        let [signals, data] = [(); 2].map(|()| device.create(BYTES).unwrap());
        let said = transport.prepare(&Part { id: DATA, memory: &data, start: 0, bytes: BYTES as u64 }).unwrap();
        let words = exchange(rank, &said);
        for (id, memory) in [(SIGNALS, &signals), (DATA, &data)] {
            let mut addresses = vec![None; 2];
            addresses[rank as usize] = Some(memory.host().unwrap().as_ptr() as u64);
            // SAFETY: the region keeps the memory.
            let region = unsafe { Region::new(id.into(), BYTES as u64, rank, addresses, Box::new(memory.clone())) };
            let mut region = region.unwrap().with_words(words.clone());
            region.id = id;
            transport.register(&region).unwrap();
        }
        Self { transport, peer: 1 - rank, signals, tag: 0 }
    }

    fn seen(&self, id: usize) -> u64 {
        // SAFETY: a word of the signal memory, aligned and inside.
        unsafe { AtomicU64::from_ptr(self.signals.host().unwrap().cast::<u64>().add(id).as_ptr()) }.load(Ordering::Acquire)
    }

    fn put(&mut self, context: u32, bytes: u64, signal: Option<u64>) {
        self.tag += 1;
        let at = u64::from(context) * LARGE;
        let source = Source::Region { region: DATA, offset: at };
        let signal = signal.map(|id| (id * 8, 1));
        let work = Work { tag: self.tag, context, peer: self.peer, source, bytes, target: (DATA, at + 8 * LARGE), signal };
        while self.transport.submit(&work).unwrap() == Submitted::Full {
            self.step();
        }
    }

    fn step(&mut self) {
        self.transport.progress(&mut Vec::new()).unwrap();
    }

    fn wait(&mut self, id: usize, value: u64) {
        while self.seen(id) < value {
            self.step();
        }
    }

    fn land(&mut self) {
        self.transport.flush().unwrap();
        while self.transport.landing().left() > 0 {
            self.step();
        }
    }
}

fn rank(rank: u32, address: IpAddr) {
    let mut end = End::new(rank, address);
    let mut trips = Vec::new();
    for i in 1..=TRIPS {
        let begin = Instant::now();
        if rank == 1 {
            end.wait(0, i);
        }
        end.put(0, 8, Some(0));
        end.transport.flush().unwrap();
        if rank == 0 {
            end.wait(0, i);
        }
        trips.push(begin.elapsed().as_secs_f64() * 1e6);
    }
    if rank == 1 {
        end.wait(1, 1);
        return end.transport.close(Duration::from_secs(1)).unwrap();
    }
    let mut rate = |drain: u64| {
        let begin = Instant::now();
        for i in 1..=SMALL_PUTS {
            end.put(0, 64, None);
            if i % drain == 0 {
                end.transport.flush().unwrap();
                end.step();
            }
        }
        end.land();
        SMALL_PUTS as f64 / begin.elapsed().as_secs_f64() / 1e6
    };
    let (packed, single) = (rate(DRAIN), rate(1));
    (0..STREAMS as u32).for_each(|context| end.put(context, LARGE, None));
    end.land();
    let begin = Instant::now();
    for i in 0..LARGE_PUTS {
        end.put((i % STREAMS) as u32, LARGE, Some(2));
    }
    end.land();
    let large = (LARGE * LARGE_PUTS) as f64 / begin.elapsed().as_secs_f64() / 1e6;
    println!("{} {packed} {single} {large}", median(trips));
    end.put(0, 0, Some(1));
    end.land();
    end.transport.close(Duration::from_secs(1)).unwrap();
}
