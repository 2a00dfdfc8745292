//! What ginrs-run and its helper on another machine (`ginrs-run --serve`) say to each other, over the standard streams of ssh: a byte
//! for the kind, four for the length, the fields.

use super::output::Stream;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::{Arc, Mutex};

/// Before everything else that the helper says: what comes instead was printed by the shell there.
pub const GREETING: &[u8; 10] = b"ginrs-run\n";

/// Both ends must be of one version: the frames are not told apart by any other number.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// More than a program's arguments and environment, or a line, can have.
const LARGEST: usize = 16 << 20;

/// A part of the job, for one machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Which machine of the job this is, from 0.
    pub host: u32,
    /// Its first rank, its number of ranks, and that of all.
    pub ranks: [u32; 3],
    /// For MASTER_ADDR and MASTER_PORT.
    pub master: (String, u16),
    /// `--devices`; 0: not said.
    pub devices: u32,
    /// `--grace` in milliseconds.
    pub grace: u32,
    /// Its ranks write what they do, and the helper sends it.
    pub timeline: bool,
    /// Where to run.
    pub folder: OsString,
    /// `NAME=VALUE` each.
    pub environment: Vec<OsString>,
    /// The program and its arguments.
    pub program: Vec<OsString>,
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// The helper is there: its version, and a port that is free there.
    Hello(String, u16),
    /// What it is to do.
    Start(Share),
    /// A line of a rank.
    Line(Stream, u32, Vec<u8>),
    /// A line of the helper's own.
    Say(String),
    /// The first failure there; the helper ends its other ranks.
    Failed(i32, String),
    /// All its ranks have ended, and this is their status.
    Ended(i32),
    /// A signal for its ranks.
    Signal(i32),
    /// A rank asks rank 0 for the unique id: a connection of this number.
    Open(u64),
    /// Its bytes.
    Data(u64, Vec<u8>),
    /// It is over.
    Close(u64),
    /// The helper is still there.
    Beat,
    /// A piece of a file of a timeline, by its name; an empty one is the end.
    File(String, Vec<u8>),
}

/// Fields, one behind the other.
#[derive(Default)]
struct Fields(Vec<u8>);

impl Fields {
    fn number(mut self, number: u64) -> Self {
        self.0.extend(number.to_le_bytes());
        self
    }

    fn bytes(mut self, bytes: &[u8]) -> Self {
        self = self.number(bytes.len() as u64);
        self.0.extend(bytes);
        self
    }

    fn list(self, list: &[OsString]) -> Self {
        list.iter().fold(self.number(list.len() as u64), |fields, item| fields.bytes(item.as_bytes()))
    }
}

/// Reads them; None where they are not what they should be.
struct Taker<'a>(&'a [u8]);

impl<'a> Taker<'a> {
    fn number(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*number))
    }

    fn small<T: TryFrom<u64>>(&mut self) -> Option<T> {
        self.number()?.try_into().ok()
    }

    fn signed(&mut self) -> Option<i32> {
        i32::try_from(self.number()?.cast_signed()).ok()
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let count = self.small()?;
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }

    fn text(&mut self) -> Option<String> {
        Some(String::from_utf8_lossy(self.bytes()?).into_owned())
    }

    fn word(&mut self) -> Option<OsString> {
        Some(OsString::from_vec(self.bytes()?.to_vec()))
    }

    fn list(&mut self) -> Option<Vec<OsString>> {
        (0..self.number()?).map(|_| self.word()).collect()
    }
}

impl Frame {
    fn encode(&self) -> Vec<u8> {
        let fields = Fields::default();
        let signed = |n: &i32| i64::from(*n).cast_unsigned();
        let (kind, fields) = match self {
            Frame::Hello(version, port) => (0, fields.bytes(version.as_bytes()).number((*port).into())),
            Frame::Start(share) => {
                let Share { host, ranks, master, devices, grace, timeline, folder, environment, program } = share;
                let fields = ranks.iter().fold(fields.number((*host).into()), |fields, &n| fields.number(n.into()));
                let fields = fields.bytes(master.0.as_bytes()).number(master.1.into()).number((*devices).into());
                let fields = fields.number((*grace).into()).number((*timeline).into());
                (1, fields.bytes(folder.as_bytes()).list(environment).list(program))
            }
            Frame::Line(stream, rank, line) => {
                (2, fields.number((*stream == Stream::Error).into()).number((*rank).into()).bytes(line))
            }
            Frame::Say(text) => (3, fields.bytes(text.as_bytes())),
            Frame::Failed(status, text) => (4, fields.number(signed(status)).bytes(text.as_bytes())),
            Frame::Ended(status) => (5, fields.number(signed(status))),
            Frame::Signal(number) => (6, fields.number(signed(number))),
            Frame::Open(id) => (7, fields.number(*id)),
            Frame::Data(id, bytes) => (8, fields.number(*id).bytes(bytes)),
            Frame::Close(id) => (9, fields.number(*id)),
            Frame::Beat => (10, fields),
            Frame::File(name, bytes) => (11, fields.bytes(name.as_bytes()).bytes(bytes)),
        };
        let mut bytes = vec![kind];
        bytes.extend((fields.0.len() as u32).to_le_bytes());
        bytes.extend(fields.0);
        bytes
    }

    fn decode(kind: u8, bytes: &[u8]) -> Option<Frame> {
        let mut take = Taker(bytes);
        let frame = match kind {
            0 => Frame::Hello(take.text()?, take.small()?),
            1 => Frame::Start(Share {
                host: take.small()?,
                ranks: [take.small()?, take.small()?, take.small()?],
                master: (take.text()?, take.small()?),
                devices: take.small()?,
                grace: take.small()?,
                timeline: take.number()? != 0,
                folder: take.word()?,
                environment: take.list()?,
                program: take.list()?,
            }),
            2 => {
                let stream = if take.number()? == 0 { Stream::Out } else { Stream::Error };
                Frame::Line(stream, take.small()?, take.bytes()?.to_vec())
            }
            3 => Frame::Say(take.text()?),
            4 => Frame::Failed(take.signed()?, take.text()?),
            5 => Frame::Ended(take.signed()?),
            6 => Frame::Signal(take.signed()?),
            7 => Frame::Open(take.number()?),
            8 => Frame::Data(take.number()?, take.bytes()?.to_vec()),
            9 => Frame::Close(take.number()?),
            10 => Frame::Beat,
            11 => Frame::File(take.text()?, take.bytes()?.to_vec()),
            _ => return None,
        };
        take.0.is_empty().then_some(frame)
    }

    /// The next one; None at the end of the stream.
    pub fn read(from: &mut impl Read) -> io::Result<Option<Frame>> {
        let broken = || io::Error::new(io::ErrorKind::InvalidData, "not a message of ginrs-run");
        let mut head = [0; 5];
        if from.read(&mut head[..1])? == 0 {
            return Ok(None);
        }
        from.read_exact(&mut head[1..])?;
        let [kind, length @ ..] = head;
        let length = u32::from_le_bytes(length) as usize;
        if length > LARGEST {
            return Err(broken());
        }
        let mut bytes = vec![0; length];
        from.read_exact(&mut bytes)?;
        Frame::decode(kind, &bytes).map(Some).ok_or_else(broken)
    }
}

/// The way to the other end, for any thread. What it no longer takes is lost: the other direction tells of its end.
#[derive(Clone)]
pub struct Channel(Arc<Mutex<Option<File>>>);

impl Channel {
    /// Over this pipe.
    pub fn new(to: impl Into<File>) -> Self {
        Self(Arc::new(Mutex::new(Some(to.into()))))
    }

    /// Sends one message, whole.
    pub fn send(&self, frame: &Frame) {
        self.raw(&frame.encode());
    }

    /// Sends bytes as they are.
    pub fn raw(&self, bytes: &[u8]) {
        if let Some(to) = self.0.lock().unwrap_or_else(|e| e.into_inner()).as_mut() {
            let _ = to.write_all(bytes);
        }
    }

    /// Nothing more is said: the other end reads its end.
    pub fn close(&self) {
        self.0.lock().unwrap_or_else(|e| e.into_inner()).take();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_comes_back_and_none_that_is_cut() {
        let share = Share {
            host: 1,
            ranks: [4, 2, 6],
            master: ("node".into(), 4000),
            grace: 2000,
            timeline: true,
            folder: OsString::from_vec(b"/caf\xe9".to_vec()),
            environment: vec!["A=b c".into(), "B=".into()],
            program: vec!["./p".into(), String::new().into()],
            ..Share::default()
        };
        let all = [
            Frame::Hello("1.2".into(), 65535),
            Frame::Start(share),
            Frame::Line(Stream::Error, 7, b"a\0\n".to_vec()),
            Frame::Say("x".into()),
            Frame::Failed(-1, "why".into()),
            Frame::Ended(i32::MAX),
            Frame::Signal(15),
            Frame::Open(u64::MAX),
            Frame::Data(3, vec![0; 100]),
            Frame::Close(0),
            Frame::Beat,
            Frame::File("rank.7.timeline".into(), vec![0, 9]),
        ];
        for frame in all {
            let bytes = frame.encode();
            assert_eq!(Frame::read(&mut &bytes[..]).unwrap(), Some(frame.clone()));
            for cut in 1..bytes.len() {
                assert!(Frame::read(&mut &bytes[..cut]).is_err(), "{frame:?} cut to {cut}");
            }
            let mut longer = bytes[5..].to_vec();
            longer.push(0);
            assert_eq!(Frame::decode(bytes[0], &longer), None);
        }
        assert_eq!(Frame::read(&mut &[][..]).unwrap(), None);
        assert!(Frame::read(&mut &[5, 255, 255, 255, 255][..]).is_err());
        assert!(Frame::read(&mut &[200, 0, 0, 0, 0][..]).is_err());
        // A list that claims more than there is takes no memory for it.
        assert_eq!(Frame::decode(1, &[255; 64]), None);
    }
}
