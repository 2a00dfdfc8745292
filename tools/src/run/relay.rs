//! Ranks on several machines ask rank 0 for the unique id as they do on one: through a socket in the job's folder, as
//! include/ginrs_bootstrap.h says. On a machine without rank 0 ginrs-run listens there instead, and each connection goes through the
//! frames to rank 0's machine and into its socket. So nothing is open on any network, and who may ask is decided by ssh.

use super::frame::{Channel, Frame};
use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// How long rank 0 is waited for before a rank that asks has to ask anew, and how long a rank may take no bytes.
const PATIENCE: Duration = Duration::from_secs(2);

/// One machine's end.
pub struct Relay {
    host: u32,
    channel: Channel,
    place: OnceLock<(File, PathBuf)>,
    connections: Mutex<HashMap<u64, Sender<Vec<u8>>>>,
}

impl Relay {
    /// For machine number `host`.
    pub fn new(host: u32, channel: &Channel) -> Arc<Self> {
        Arc::new(Self { host, channel: channel.clone(), place: OnceLock::new(), connections: Mutex::default() })
    }

    /// The job's folder is there. A machine without rank 0 listens in it.
    pub fn open(self: &Arc<Self>, folder: &Path, master_port: u16) -> Result<(), String> {
        let told = |e: std::io::Error| format!("the job's folder {}: {e}", folder.display());
        let handle = File::open(folder).map_err(told)?;
        // Through the descriptor it fits into an address, however long the folder's path is.
        let path = PathBuf::from(format!("/proc/self/fd/{}/{}", handle.as_raw_fd(), name(master_port)));
        let (_, path) = self.place.get_or_init(|| (handle, path));
        if self.host == 0 {
            return Ok(());
        }
        let listener = UnixListener::bind(path).map_err(told)?;
        let own = self.clone();
        let accept = move || {
            for (number, stream) in (0..).zip(listener.incoming()) {
                match stream {
                    Ok(stream) => own.serve(u64::from(own.host) << 32 | number, Some(stream)),
                    Err(_) => std::thread::sleep(Duration::from_millis(20)), // no descriptor is free
                }
            }
        };
        std::thread::Builder::new().spawn(accept).map(drop).map_err(|e| format!("a thread: {e}; raise ulimit -u"))
    }

    /// What the other end says.
    pub fn take(self: &Arc<Self>, frame: Frame) {
        match frame {
            Frame::Open(id) if self.host == 0 => self.serve(id, None),
            Frame::Data(id, bytes) => {
                if let Some(to) = self.connections().get(&id) {
                    let _ = to.send(bytes);
                }
            }
            Frame::Close(id) => drop(self.connections().remove(&id)),
            _ => {}
        }
    }

    /// Waits until what rank 0 has answered is in the frames: its process may exit right after the last answer. A
    /// connection that it has not accepted ends within [`PATIENCE`].
    pub fn settle(&self) {
        let until = Instant::now() + 5 * PATIENCE;
        while self.host == 0 && !self.connections().is_empty() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn connections(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Sender<Vec<u8>>>> {
        self.connections.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// One connection: of a rank here that asks, or to rank 0 here for one that asks elsewhere.
    fn serve(self: &Arc<Self>, id: u64, asks: Option<UnixStream>) {
        let (to, bytes) = mpsc::channel();
        self.connections().insert(id, to);
        if asks.is_some() {
            self.channel.send(&Frame::Open(id));
        }
        let own = self.clone();
        let carry = move || {
            if let Some(stream) = asks.or_else(|| own.rank_0()) {
                own.carry(id, stream, &bytes);
            }
            if own.connections().remove(&id).is_some() {
                own.channel.send(&Frame::Close(id));
            }
        };
        if std::thread::Builder::new().spawn(carry).is_err() {
            self.connections().remove(&id);
            self.channel.send(&Frame::Close(id));
        }
    }

    fn rank_0(&self) -> Option<UnixStream> {
        let until = Instant::now() + PATIENCE;
        loop {
            match UnixStream::connect(&self.place.get()?.1) {
                Ok(stream) => return Some(stream),
                Err(_) if Instant::now() > until => return None,
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }

    /// Until either end has closed.
    fn carry(self: &Arc<Self>, id: u64, mut stream: UnixStream, bytes: &Receiver<Vec<u8>>) {
        let _ = stream.set_write_timeout(Some(PATIENCE));
        let Ok(mut from) = stream.try_clone() else { return };
        let own = self.clone();
        let read = move || {
            let mut buffer = vec![0; 64 << 10];
            while let Ok(count @ 1..) = from.read(&mut buffer) {
                own.channel.send(&Frame::Data(id, buffer[..count].to_vec()));
            }
            // Without a sender, who writes stops.
            if own.connections().remove(&id).is_some() {
                own.channel.send(&Frame::Close(id));
            }
        };
        if std::thread::Builder::new().spawn(read).is_ok() {
            while let Ok(bytes) = bytes.recv() {
                if stream.write_all(&bytes).is_err() {
                    break;
                }
            }
        }
        let _ = stream.shutdown(std::net::Shutdown::Both);
    }
}

/// The socket's name, as include/ginrs_bootstrap.h makes it of MASTER_PORT and no TORCHELASTIC_RUN_ID.
fn name(master_port: u16) -> String {
    let step = |hash: u64, byte: u64| (hash ^ byte).wrapping_mul(0x100_0000_01b3);
    let hash = master_port.to_string().bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| step(hash, byte.into()));
    format!("bootstrap-{:016x}", step(step(hash, 0), 1))
}
