//! What began and ended, as spans.

use super::job::{Job, Process, Rank, Word};
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use timeline::{Event, Kind};

/// The rank of a wait's note where it is for no single one.
const NOBODY: u64 = 0xff_ffff;

/// What a span is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Call,
    Launch,
    Kernel,
    Block,
    Put,
    Wait,
    Move,
    /// What the user was told.
    Warning,
}

impl What {
    /// As pictures call it.
    pub fn name(self) -> &'static str {
        match self {
            What::Call => "call",
            What::Launch => "launch",
            What::Kernel => "kernel",
            What::Block => "block",
            What::Put => "put",
            What::Wait => "wait",
            What::Move => "move",
            What::Warning => "warning",
        }
    }
}

/// Where a span is drawn.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Row {
    Host(u32),
    Kernels,
    Blocks,
    /// Puts and waits of a block.
    Block(u64),
    Proxy,
}

/// Something that lasts.
#[derive(Debug)]
pub struct Span {
    pub what: What,
    pub process: usize,
    /// None: of the process.
    pub device: Option<u64>,
    pub row: Row,
    pub name: String,
    pub from: u64,
    pub to: u64,
    pub more: Map<String, Value>,
    pub rank: Option<Rank>,
    pub peer: Option<u32>,
    pub bytes: u64,
    /// Of a wait: what it waits for. Of a put by a kernel, and of a move: what it raises.
    pub word: Option<Word>,
    /// Of a put that the proxy moves, and of that move: slot and index.
    pub slot: Option<(u64, u64)>,
    /// Of a launch and a kernel: the launch's number.
    pub launch: Option<u64>,
    /// Of a move: when the payload had landed and the signal was next.
    pub moved: Option<u64>,
}

impl Span {
    /// The user's line.
    pub fn at(&self) -> &str {
        self.more.get("at").and_then(Value::as_str).unwrap_or("")
    }

    /// It is what moves a put's bytes: the proxy's move, or stores of the kernel.
    pub fn carries(&self) -> bool {
        self.what == What::Move || self.what == What::Put && self.slot.is_none()
    }
}

struct Maker<'a> {
    index: usize,
    process: &'a Process,
    /// By grid: its kernel, device.
    grids: HashMap<u64, (String, u64)>,
    /// By thread: the span of a collective that it launches next.
    next: HashMap<u32, usize>,
    /// By number of the launch.
    collectives: HashMap<u64, String>,
    spans: Vec<Span>,
}

/// All spans.
pub fn pair(job: &Job) -> Vec<Span> {
    let of = |(index, process)| {
        let mut maker =
            Maker { index, process, grids: HashMap::new(), next: HashMap::new(), collectives: HashMap::new(), spans: Vec::new() };
        maker.make();
        maker.spans
    };
    job.processes.iter().enumerate().flat_map(of).collect()
}

impl Maker<'_> {
    fn span(&self, what: What, row: Row, name: impl Into<String>, from: u64, to: u64) -> Span {
        let (more, name) = (Map::new(), name.into());
        let (process, to) = (self.index, to.max(from));
        let (device, rank, peer, bytes, word, slot, launch, moved) = (None, None, None, 0, None, None, None, None);
        Span { what, process, device, row, name, from, to, more, rank, peer, bytes, word, slot, launch, moved }
    }

    fn make(&mut self) {
        let mut open = HashMap::<(u32, [u64; 3]), Vec<usize>>::new();
        for event in &self.process.events {
            let w = event.words;
            let key = match event.kind {
                Kind::Call | Kind::Returned => [w[0], event.thread.into(), 0],
                Kind::Kernel | Kind::KernelEnd => [w[0], 0, 0],
                Kind::Wait | Kind::WaitEnd => [w[0], w[1], w[2]],
                _ => [w[0], w[1], 0],
            };
            let begins = |kind: Kind| (kind as u32, key);
            let ended = match event.kind {
                Kind::Returned => open.get_mut(&begins(Kind::Call)),
                Kind::KernelEnd => open.get_mut(&begins(Kind::Kernel)),
                Kind::BlockEnd => open.get_mut(&begins(Kind::Block)),
                Kind::WaitEnd => open.get_mut(&begins(Kind::Wait)),
                Kind::Done => open.get_mut(&begins(Kind::Take)),
                _ => None,
            };
            if let Some(index) = ended.and_then(Vec::pop) {
                self.spans[index].to = event.time.max(self.spans[index].from);
            } else if let (Kind::Moved, Some(&index)) = (event.kind, open.get(&begins(Kind::Take)).and_then(|all| all.last())) {
                self.spans[index].moved = Some(event.time);
            } else if let Some(span) = self.begin(event) {
                let lasts = matches!(event.kind, Kind::Call | Kind::Kernel | Kind::Block | Kind::Wait | Kind::Take);
                self.spans.push(span);
                if lasts {
                    open.entry(begins(event.kind)).or_default().push(self.spans.len() - 1);
                }
            }
        }
        for index in open.into_values().flatten() {
            self.spans[index].to = self.process.last.max(self.spans[index].from);
            self.spans[index].more.insert("ended".into(), "no: the process ended, or the file was full".into());
        }
    }

    fn begin(&mut self, event: &Event) -> Option<Span> {
        let (w, from, process) = (event.words, event.time, self.process);
        let text = |name: u64| process.text(name);
        let line = |file: u64, line: u64| format!("{}:{}", text(file), line as u32);
        Some(match event.kind {
            Kind::Call => self.span(What::Call, Row::Host(event.thread), text(w[0]), from, from),
            Kind::Told => self.span(What::Warning, Row::Host(event.thread), text(w[0]), from, from),
            Kind::Collective => {
                self.next.insert(event.thread, self.spans.len());
                self.span(What::Launch, Row::Host(event.thread), format!("launch {}", text(w[0])), from, from)
            }
            Kind::Launch => {
                let is_ours = text(w[0]).starts_with("ginrs_");
                let next = self.next.remove(&event.thread).filter(|_| is_ours);
                if let Some(span) = next.map(|index| &mut self.spans[index]) {
                    span.launch = Some(w[6]);
                    span.more.insert("kernel".into(), text(w[0]).into());
                    self.collectives.insert(w[6], span.name["launch ".len()..].into());
                    return None;
                }
                let mut span = self.span(What::Launch, Row::Host(event.thread), format!("launch {}", text(w[0])), from, from);
                span.launch = Some(w[6]);
                span.more.insert("at".into(), line(w[1], w[2]).into());
                span
            }
            Kind::Kernel => {
                self.grids.insert(w[0], (text(w[1]).into(), w[6]));
                let name = self.collectives.get(&w[7]).map_or(text(w[1]), String::as_str);
                let mut span = self.span(What::Kernel, Row::Kernels, name, from, from);
                (span.device, span.launch) = (Some(w[6]), Some(w[7]));
                span.more = object(json!({"launched at": line(w[2], w[3]), "blocks": w[4], "threads of a block": w[5]}));
                span
            }
            Kind::Block => {
                let (kernel, device) = self.grids.get(&w[0])?;
                let mut span = self.span(What::Block, Row::Blocks, format!("block {} of {kernel}", w[1]), from, from);
                span.device = Some(*device);
                span
            }
            Kind::Post => self.put(&w, from, w[7], w[8]),
            Kind::Direct => {
                let mut span = self.put(&w, from, w[8], w[9]);
                (span.bytes, span.slot) = (w[5], None);
                span.rank = span.device.and_then(|device| process.rank_on(device));
                span.more.insert("by".into(), "stores of the kernel".into());
                span.more.insert("bytes".into(), w[5].into());
                span.word = w[6].checked_sub(1).and_then(|id| process.direct(span.device?, w[9] >> 32, span.peer?, id));
                span
            }
            Kind::Wait => {
                let word = process.word(w[5], w[6]);
                let (kind, id) = (w[4] >> 32, w[9] & 0xffff_ffff);
                let name = match (kind, word) {
                    (1, _) => format!("wait for signal {id} >= {}", w[7]),
                    (2, _) => format!("wait for counter {id} >= {}", w[7]),
                    (3, _) => "flush".into(),
                    (4, _) => format!("wait for room in the queue to rank {id}"),
                    (5, _) => format!("GIN barrier {id}"),
                    (6, _) => format!("LSA barrier {id}"),
                    (7, _) if w[8] >> 24 & 0x7f == 2 => format!("LSA barrier {id} of a hybrid barrier"),
                    (7, _) => format!("GIN barrier {id} of a hybrid barrier"),
                    (8, _) => "wait for an LL all-to-all".into(),
                    _ => "wait of a collective or message".into(),
                };
                let mut span = self.at(What::Wait, &w, name, from, from);
                span.word = word;
                span.rank = process.ranks.get(&w[5]).map(|(rank, _)| *rank);
                let is_one = matches!(w[8] >> 24 & 0x7f, 1 | 2 | 4) && w[8] & NOBODY != NOBODY;
                span.peer = is_one.then_some((w[8] & NOBODY) as u32);
                span.peer.into_iter().for_each(|peer| drop(span.more.insert("for rank".into(), peer.into())));
                span
            }
            Kind::Take => {
                let (rank, device) = *process.ranks.get(&w[0])?;
                let peer = w[4] as u32;
                let mut span = self.span(What::Move, Row::Proxy, format!("{} bytes to rank {peer}", w[5]), from, from);
                (span.device, span.rank, span.peer, span.bytes) = (Some(device), Some(rank), Some(peer), w[5]);
                span.slot = Some((w[2], w[3]));
                let number = w[6].checked_sub(1);
                span.word = number.map(|number| Word { rank: Rank { rank: peer, ..rank }, is_direct: false, number });
                span.more =
                    object(json!({"bytes": w[5], "comm": format!("{:#018x}", rank.comm), "rank": rank.rank, "to rank": peer}));
                if number.is_some() {
                    span.more.insert("adds to the signal".into(), w[7].into());
                }
                span
            }
            _ => return None,
        })
    }

    /// Of a CUDA thread: the first five words say which, and at which line.
    fn at(&self, what: What, w: &[u64; 10], name: String, from: u64, to: u64) -> Span {
        let (kernel, device) = self.grids.get(&w[0]).map_or(("", None), |(name, device)| (&**name, Some(*device)));
        let mut span = self.span(what, Row::Block(w[2]), name, from, to);
        span.device = device;
        let file = self.process.text(w[3]);
        span.more = object(json!({"kernel": kernel, "block": w[2], "thread": w[1]}));
        if !file.is_empty() {
            span.more.insert("at".into(), format!("{file}:{}", w[4] as u32).into());
        }
        span
    }

    fn put(&self, w: &[u64; 10], from: u64, to: u64, whom: u64) -> Span {
        // In a barrier the peer is known to the proxy alone.
        let peer = (w[4] >> 32 == 4).then_some(whom as u32);
        let name = peer.map_or("put of a barrier or collective".into(), |peer| format!("put to rank {peer}"));
        let mut span = self.at(What::Put, w, name, from, to);
        (span.peer, span.slot) = (peer, Some((w[5], w[6])));
        span
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}
