//! The ranks' lines, whole and in front of each its rank.

use std::io::{BufRead, BufReader, Read, Write};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// A line longer than this is printed in pieces of this size.
const LONGEST: u64 = 1 << 20;

/// Which of our streams lines go to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Error,
}

/// Prints lines of all ranks; a lock keeps them whole even where both streams end in one terminal.
pub struct Printer {
    prefix: bool,
    lock: Mutex<()>,
}

impl Printer {
    /// With or without `[rank] `.
    pub fn new(prefix: bool) -> Arc<Printer> {
        Arc::new(Printer { prefix, lock: Mutex::new(()) })
    }

    fn print(&self, stream: Stream, rank: usize, line: &[u8]) {
        let mut text = Vec::with_capacity(line.len() + 8);
        if self.prefix {
            text.extend_from_slice(format!("[{rank}] ").as_bytes());
        }
        text.extend_from_slice(line);
        if !line.ends_with(b"\n") {
            text.push(b'\n');
        }
        let _whole = self.lock.lock();
        // Nobody may be reading any more (`ginrs-run ... | head`): the job goes on.
        let _ = match stream {
            Stream::Out => std::io::stdout().write_all(&text).and_then(|()| std::io::stdout().flush()),
            Stream::Error => std::io::stderr().write_all(&text),
        };
    }
}

/// What one pipe of a rank said last.
pub struct Reader {
    thread: JoinHandle<()>,
    last: Arc<Mutex<Vec<u8>>>,
}

impl Reader {
    /// Prints the lines of `pipe` until it closes.
    pub fn start(printer: &Arc<Printer>, stream: Stream, rank: usize, pipe: impl Read + Send + 'static) -> Reader {
        let printer = printer.clone();
        let last = Arc::new(Mutex::new(Vec::new()));
        let keep = last.clone();
        let thread = std::thread::spawn(move || {
            let mut pipe = BufReader::new(pipe);
            loop {
                let mut line = Vec::new();
                match pipe.by_ref().take(LONGEST).read_until(b'\n', &mut line) {
                    Ok(0) | Err(_) => break,
                    Ok(_) => printer.print(stream, rank, &line),
                }
                if !line.trim_ascii().is_empty() {
                    *keep.lock().unwrap_or_else(|e| e.into_inner()) = line;
                }
            }
        });
        Reader { thread, last }
    }

    /// True when the pipe has closed and all of it is printed.
    pub fn is_done(&self) -> bool {
        self.thread.is_finished()
    }

    /// The last line that was not blank.
    pub fn last_line(&self) -> String {
        let line = self.last.lock().unwrap_or_else(|e| e.into_inner());
        String::from_utf8_lossy(line.trim_ascii()).into_owned()
    }
}
