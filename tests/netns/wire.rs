//! What lies between two machines, when this process does: it carries every packet, late, never, or with a reset or an end in its place. So
//! any connection between them is delayed, cut, reset or half-closed, the control plane's and libfabric's, and neither end knows of it.
#![allow(dead_code)]

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

/// What becomes of TCP segments on connections that stand.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Wrong {
    /// Both ends get a reset.
    Reset,
    /// Who would have got the segment gets an end of the connection; the other way stays open.
    End,
    /// Those with bytes in them are lost, and an end or an acknowledgement arrives.
    Hollow,
}

/// Addresses and ports as a segment has them, from either end.
type Flow = [[u8; 6]; 2];

#[derive(Default)]
struct State {
    /// Microseconds.
    late: AtomicU64,
    /// Machines from and to which nothing goes.
    lost: Mutex<Vec<(usize, usize)>>,
    wrong: Mutex<Option<Wrong>>,
    /// Longer packets are lost, and nobody is told; 0: none.
    narrow: AtomicUsize,
    /// One in so many is lost; 0: none.
    leaky: AtomicU64,
    packets: AtomicU64,
    /// The next segment of more than a few bytes names a connection that nothing goes over any more.
    forgets: AtomicBool,
    forgotten: Mutex<Option<Flow>>,
    /// Segments that were answered so.
    count: AtomicU64,
    over: AtomicBool,
}

/// More than the control plane sends at a time while all is well.
const LARGE: usize = 1200;

/// See the module. Machine `i` is 10.77.0.`i + 1` on its `eth0`.
pub struct Wire(Arc<State>);

impl Wire {
    /// Joins the network namespaces `names`, whose interfaces take packets of `mtu` bytes.
    pub fn new(names: &[String], mtu: u32) -> Result<Self, String> {
        let state = Arc::new(State::default());
        let ends = names.iter().map(|name| tun(name)).collect::<Result<Vec<File>, _>>()?;
        for (i, name) in names.iter().enumerate() {
            super::ip(&format!("-n {name} addr add 10.77.0.{}/24 dev eth0", i + 1))?;
            super::ip(&format!("-n {name} link set lo up"))?;
            super::ip(&format!("-n {name} link set eth0 mtu {mtu} up"))?;
        }
        let (mut ways, mut outs) = (Vec::new(), Vec::new());
        for end in &ends {
            let (way, packets) = mpsc::channel::<(Instant, Vec<u8>)>();
            ways.push(way);
            outs.push((end.try_clone().map_err(|e| e.to_string())?, packets));
        }
        for (mut end, packets) in outs {
            std::thread::spawn(move || {
                for (due, packet) in packets {
                    std::thread::sleep(due.saturating_duration_since(Instant::now()));
                    let _ = end.write(&packet);
                }
            });
        }
        for (from, mut end) in ends.into_iter().enumerate() {
            let (state, ways) = (state.clone(), ways.clone());
            std::thread::spawn(move || {
                let mut buffer = vec![0; 65536];
                while let Ok(length) = end.read(&mut buffer)
                    && !state.over.load(Ordering::Relaxed)
                {
                    carry(&state, &ways, from, &buffer[..length]);
                }
            });
        }
        Ok(Self(state))
    }

    /// Every packet takes so long.
    pub fn delay(&self, time: Duration) {
        self.0.late.store(time.as_micros() as u64, Ordering::Relaxed);
    }

    /// Nothing goes from one machine to another any more, or it does again.
    pub fn lose(&self, from: usize, to: usize, lost: bool) {
        let mut all = self.0.lost.lock().unwrap();
        all.retain(|way| *way != (from, to));
        if lost {
            all.push((from, to));
        }
    }

    /// Packets of more bytes are lost from now on, as where a machine on the way takes no larger ones and does not say so.
    pub fn narrow(&self, bytes: usize) {
        self.0.narrow.store(bytes, Ordering::Relaxed);
    }

    /// One packet in so many is lost from now on, without a pattern, whatever is in it.
    pub fn leak(&self, one_in: u64) {
        self.0.leaky.store(one_in, Ordering::Relaxed);
    }

    /// Of a connection that carries much nothing arrives any more, as where a firewall has forgotten it. True once it has been chosen.
    pub fn forget_one(&self) -> bool {
        let chosen = self.0.forgotten.lock().unwrap().is_some();
        self.0.forgets.store(!chosen, Ordering::Relaxed);
        chosen
    }

    /// Bytes are lost from now on, or no more.
    pub fn hollow(&self, hollow: bool) {
        *self.0.wrong.lock().unwrap() = hollow.then_some(Wrong::Hollow);
    }

    /// Until a segment or more have been answered so: new connections are let alone, and all is well again behind it.
    pub fn break_connections(&self, how: Wrong) {
        let before = self.0.count.load(Ordering::Relaxed);
        *self.0.wrong.lock().unwrap() = Some(how);
        let until = super::hang_limit::hang_deadline();
        while self.0.count.load(Ordering::Relaxed) == before {
            assert!(Instant::now() < until, "nothing to break: no segment came");
            std::thread::sleep(Duration::from_millis(1));
        }
        *self.0.wrong.lock().unwrap() = None;
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        // The threads end with their devices, which the namespaces take along.
        self.0.over.store(true, Ordering::Relaxed);
    }
}

fn is_forgotten(state: &State, packet: &[u8]) -> bool {
    let end = |address: usize, port: usize| std::array::from_fn(|i| packet[if i < 4 { address + i } else { port + i - 4 }]);
    let mut flow: Flow = [end(12, 20), end(16, 22)];
    flow.sort_unstable();
    let mut forgotten = state.forgotten.lock().unwrap();
    if packet[9] == 6 && packet.len() > LARGE && state.forgets.swap(false, Ordering::Relaxed) {
        *forgotten = Some(flow);
    }
    packet[9] == 6 && *forgotten == Some(flow)
}

fn carry(state: &State, ways: &[mpsc::Sender<(Instant, Vec<u8>)>], from: usize, packet: &[u8]) {
    // IPv4 without options, from and to the machines here.
    if packet.len() < 40 || packet[0] != 0x45 {
        return;
    }
    let to = usize::from(packet[19]).wrapping_sub(1);
    let due = Instant::now() + Duration::from_micros(state.late.load(Ordering::Relaxed));
    let narrow = state.narrow.load(Ordering::Relaxed);
    if to >= ways.len() || (narrow > 0 && packet.len() > narrow) || state.lost.lock().unwrap().contains(&(from, to)) {
        return;
    }
    let number = state.packets.fetch_add(1, Ordering::Relaxed);
    let leaky = state.leaky.load(Ordering::Relaxed);
    // A multiplication spreads the numbers.
    if leaky > 0 && (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32).is_multiple_of(leaky) || is_forgotten(state, packet) {
        return;
    }
    let wrong = *state.wrong.lock().unwrap();
    match wrong.filter(|_| packet[9] == 6 && packet[33] & SYN == 0) {
        None => _ = ways[to].send((due, packet.to_vec())),
        Some(Wrong::Hollow) if packet.len() > 20 + usize::from(packet[32] >> 4) * 4 => {}
        Some(Wrong::Hollow) => _ = ways[to].send((due, packet.to_vec())),
        Some(Wrong::Reset) => {
            let (seq, ack) = (&packet[24..28], &packet[28..32]);
            _ = ways[to].send((due, segment(packet, false, seq, ack, RST | ACK)));
            _ = ways[from].send((due, segment(packet, true, ack, seq, RST | ACK)));
            state.count.fetch_add(1, Ordering::Relaxed);
        }
        Some(Wrong::End) => {
            _ = ways[to].send((due, segment(packet, false, &packet[24..28], &packet[28..32], FIN | ACK)));
            state.count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

/// A segment without data on the connection of `packet`, or the other way.
fn segment(packet: &[u8], back: bool, seq: &[u8], ack: &[u8], flags: u8) -> Vec<u8> {
    let pick = |one: std::ops::Range<usize>, other: std::ops::Range<usize>| &packet[if back { other } else { one }];
    let addresses = [pick(12..16, 16..20), pick(16..20, 12..16)].concat();
    let ports = [pick(20..22, 22..24), pick(22..24, 20..22)].concat();
    let mut ip = [&[0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0][..], &addresses].concat();
    let mut tcp = [&ports[..], seq, ack, &[0x50, flags, 0xff, 0xff, 0, 0, 0, 0]].concat();
    let sum = checksum(&ip);
    ip[10..12].copy_from_slice(&sum);
    let sum = checksum(&[&addresses[..], &[0, 6, 0, 20], &tcp].concat());
    tcp[16..18].copy_from_slice(&sum);
    [ip, tcp].concat()
}

fn checksum(bytes: &[u8]) -> [u8; 2] {
    let sum: u32 = bytes.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    (!(((sum & 0xffff) + (sum >> 16)) as u16)).to_be_bytes()
}

/// A device `eth0` in a network namespace, whose packets this process reads and writes.
fn tun(namespace: &str) -> Result<File, String> {
    let path = format!("/run/netns/{namespace}");
    let made = std::thread::spawn(move || {
        let name = File::open(&path)?;
        // SAFETY: this thread alone goes over, and it ends behind this.
        if unsafe { libc::setns(name.as_raw_fd(), libc::CLONE_NEWNET) } != 0 {
            return Err(std::io::Error::last_os_error());
        }
        let device = File::options().read(true).write(true).open("/dev/net/tun")?;
        const TUNSETIFF: libc::Ioctl = 0x4004_54ca;
        const TUN_WITHOUT_HEAD: u8 = 0x01;
        // struct ifreq: a name of 16 bytes, and flags: IFF_TUN and, in the second byte, IFF_NO_PI.
        let mut request = [0u8; 40];
        request[..4].copy_from_slice(b"eth0");
        request[16..18].copy_from_slice(&[TUN_WITHOUT_HEAD, 0x10]);
        // SAFETY: the request is a whole struct ifreq, which outlives the call.
        match unsafe { libc::ioctl(device.as_raw_fd(), TUNSETIFF, request.as_mut_ptr()) } {
            0 => Ok(device),
            _ => Err(std::io::Error::last_os_error()),
        }
    });
    made.join().expect("no panic in it").map_err(|e| format!("a TUN device: {e}"))
}
