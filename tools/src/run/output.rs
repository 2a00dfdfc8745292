//! The ranks' lines, whole and in front of each its rank. One thread reads the pipes of all ranks: a limit on processes that lets
//! the ranks start lets their lines through.

use super::frame::{Channel, Frame};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// A line longer than this is printed in pieces of this size.
const LONGEST: usize = 1 << 20;

/// Which of our streams lines go to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Error,
}

/// Where a pipe stands; shared with the thread that reads it.
#[derive(Default)]
struct Said {
    /// The last line that was not blank.
    last: Vec<u8>,
    /// The pipe has closed and all of it is printed.
    done: bool,
}

/// What one pipe of a rank said last.
#[derive(Clone, Default)]
pub struct Reader(Arc<Mutex<Said>>);

impl Reader {
    fn said(&self) -> MutexGuard<'_, Said> {
        lock(&self.0)
    }

    /// True when the pipe has closed and all of it is printed.
    pub fn is_done(&self) -> bool {
        self.said().done
    }

    /// The last line that was not blank.
    pub fn last_line(&self) -> String {
        String::from_utf8_lossy(self.said().last.trim_ascii()).into_owned()
    }
}

/// A pipe on its way to the thread.
struct Pipe {
    from: File,
    stream: Stream,
    rank: usize,
    reader: Reader,
    /// What has come of the line that is not whole.
    line: Vec<u8>,
}

/// Prints lines of all ranks.
pub struct Printer {
    channel: Option<Channel>,
    ready: Arc<OwnedFd>,
    pipes: Arc<Mutex<Vec<Option<Pipe>>>>,
    lost: Arc<Mutex<Option<String>>>,
}

impl Printer {
    /// On this terminal, with or without `[rank] `.
    pub fn new(prefix: bool) -> Result<Printer, String> {
        let writer = Writer::new(prefix)?;
        let lost = writer.lost.clone();
        Self::start(None, lost, Sink::Here(writer))
    }

    /// To the ginrs-run that asked for the ranks.
    pub fn away(channel: &Channel) -> Result<Printer, String> {
        Self::start(Some(channel.clone()), Arc::default(), Sink::Away(channel.clone()))
    }

    fn start(channel: Option<Channel>, lost: Arc<Mutex<Option<String>>>, mut sink: Sink) -> Result<Printer, String> {
        // SAFETY: takes a flag only; the descriptor that it returns is nobody else's.
        let ready = unsafe {
            match libc::epoll_create1(libc::EPOLL_CLOEXEC) {
                -1 => return Err(format!("epoll: {}", io::Error::last_os_error())),
                fd => Arc::new(OwnedFd::from_raw_fd(fd)),
            }
        };
        let printer = Printer { channel, ready, pipes: Arc::default(), lost };
        let (ready, pipes) = (printer.ready.clone(), printer.pipes.clone());
        std::thread::Builder::new()
            .spawn(move || read(&ready, &pipes, &mut sink))
            .map_err(|e| format!("a thread for the ranks' lines: {e}; raise the limit on processes (ulimit -u)"))?;
        Ok(printer)
    }

    /// Prints the lines of `pipe` until it closes.
    pub fn add(&self, stream: Stream, rank: usize, pipe: OwnedFd) -> Result<Reader, String> {
        let reader = Reader::default();
        let fd = pipe.as_raw_fd();
        let mut pipes = lock(&self.pipes);
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: pipes.len() as u64 };
        pipes.push(Some(Pipe { from: pipe.into(), stream, rank, reader: reader.clone(), line: Vec::new() }));
        // SAFETY: both descriptors are open; the event is read during the call only.
        match unsafe { libc::epoll_ctl(self.ready.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &mut event) } {
            0 => Ok(reader),
            _ => Err(format!("watching its pipe: {}", io::Error::last_os_error())),
        }
    }

    /// A line of ginrs-run's own.
    pub fn say(&self, text: &str) {
        match &self.channel {
            None => crate::tell(format!("ginrs-run: {text}")),
            Some(channel) => channel.send(&Frame::Say(text.into())),
        }
    }

    /// The first failure: `status` is the job's, and `others` ranks here are to be ended, or may tell of races before.
    pub fn failed(&self, status: i32, text: &str, others: usize, tell: bool) {
        match &self.channel {
            None if others > 0 && tell => {
                self.say(&format!("{text}; the other {others} may go on until they have told of races"))
            }
            None if others > 0 => self.say(&format!("{text}; ending the other {others}")),
            None => self.say(text),
            Some(channel) => channel.send(&Frame::Failed(status, text.into())),
        }
    }

    /// Why lines could not be printed, if that was not because nobody reads them any more.
    pub fn lost(&self) -> Option<String> {
        lock(&self.lost).clone()
    }
}

/// What a panicked thread left is still a list of pipes.
fn lock<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(|e| e.into_inner())
}

/// The thread; ends with the process.
fn read(ready: &OwnedFd, pipes: &Mutex<Vec<Option<Pipe>>>, writer: &mut Sink) {
    let mut buffer = vec![0; 64 << 10];
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; 64];
    loop {
        // SAFETY: writes at most as many events as the array has, which lives here.
        let count = unsafe { libc::epoll_wait(ready.as_raw_fd(), events.as_mut_ptr(), events.len() as i32, -1) };
        for event in &events[..count.max(0) as usize] {
            let slot = event.u64 as usize;
            // Taken out while its lines are printed: who reads us may be slow, and ranks still start.
            let Some(mut pipe) = lock(pipes)[slot].take() else { continue };
            if pipe.take(&mut buffer, writer) {
                lock(pipes)[slot] = Some(pipe);
            }
        }
    }
}

impl Pipe {
    /// Takes what is there; false when it has closed.
    fn take(&mut self, buffer: &mut [u8], writer: &mut Sink) -> bool {
        let count = match self.from.read(buffer) {
            Ok(count) => count,
            Err(e) if matches!(e.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => return true,
            Err(_) => 0,
        };
        self.line.extend_from_slice(&buffer[..count]);
        let mut line = std::mem::take(&mut self.line);
        let mut rest = &line[..];
        let whole = |rest: &[u8]| {
            let end = rest.iter().position(|&b| b == b'\n').map(|n| n + 1);
            end.or((rest.len() >= LONGEST).then_some(LONGEST)).map(|end| end.min(LONGEST))
        };
        while let Some(end) = whole(rest) {
            self.print(&rest[..end], writer);
            rest = &rest[end..];
        }
        if count == 0 && !rest.is_empty() {
            self.print(rest, writer);
            rest = &[];
        }
        let left = rest.len();
        line.drain(..line.len() - left);
        self.line = line;
        if count == 0 {
            self.reader.said().done = true;
        }
        count != 0
    }

    fn print(&self, line: &[u8], writer: &mut Sink) {
        match writer {
            Sink::Here(writer) => writer.print(self.stream, &self.rank.to_string(), line),
            Sink::Away(channel) => channel.send(&Frame::Line(self.stream, self.rank as u32, line.to_vec())),
        }
        if !line.trim_ascii().is_empty() {
            self.reader.said().last = line.to_vec();
        }
    }
}

/// Where lines go.
enum Sink {
    Here(Writer),
    Away(Channel),
}

/// Our own two streams, without a buffer in between.
pub struct Writer {
    prefix: bool,
    out: File,
    err: File,
    lost: Arc<Mutex<Option<String>>>,
}

impl Writer {
    /// With or without `[rank] `.
    pub fn new(prefix: bool) -> Result<Self, String> {
        let own = |fd: io::Result<OwnedFd>| fd.map(File::from).map_err(|e| format!("its own standard streams: {e}"));
        let out = own(io::stdout().as_fd().try_clone_to_owned())?;
        let err = own(io::stderr().as_fd().try_clone_to_owned())?;
        Ok(Self { prefix, out, err, lost: Arc::default() })
    }

    /// Why lines could not be printed, if that was not because nobody reads them any more.
    pub fn lost(&self) -> Option<String> {
        lock(&self.lost).clone()
    }

    /// One line, of this rank or host.
    pub fn print(&mut self, stream: Stream, whose: &str, line: &[u8]) {
        let mut text = Vec::with_capacity(line.len() + 8);
        if self.prefix {
            text.extend_from_slice(format!("[{whose}] ").as_bytes());
        }
        text.extend_from_slice(line);
        if !line.ends_with(b"\n") {
            text.push(b'\n');
        }
        let (to, name) = match stream {
            Stream::Out => (&mut self.out, "standard output"),
            Stream::Error => (&mut self.err, "standard error"),
        };
        match write_whole(to, &text) {
            // Nobody may be reading any more (`ginrs-run ... | head`): the job goes on.
            Err(e) if e.kind() != ErrorKind::BrokenPipe => {
                let mut lost = lock(&self.lost);
                if lost.is_none() {
                    let message = format!("{name}: {e}; lines of ranks are lost");
                    crate::tell(format!("ginrs-run: {message}; the job goes on"));
                    *lost = Some(message);
                }
            }
            _ => {}
        }
    }
}

/// write_all for a stream that others may have made non-blocking.
fn write_whole(to: &mut File, mut text: &[u8]) -> io::Result<()> {
    while !text.is_empty() {
        match to.write(text) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => text = &text[count..],
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) if e.kind() == ErrorKind::WouldBlock => std::thread::sleep(Duration::from_millis(1)),
            Err(e) => return Err(e),
        }
    }
    Ok(())
}
