//! What a seed draws: ranks and machines, how they are set up, what they send each other, and what goes wrong.
#![forbid(unsafe_code)]

/// Bytes that a message may have, and between the places of two.
pub const MOST: usize = 8192;

/// A small generator (splitmix64).
#[derive(Clone)]
pub struct Draw(u64);

impl Draw {
    pub fn new(seed: u64, what: u64) -> Draw {
        Draw(mixed(seed ^ mixed(what)))
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed(self.0)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// One time in `n`.
    pub fn once_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Between these, small ones as often as large ones.
    pub fn scaled(&mut self, from: u64, to: u64) -> u64 {
        let doublings = (to / from).ilog2() as u64 + 1;
        let low = from << self.below(doublings);
        (low + self.below(low)).min(to)
    }
}

fn mixed(word: u64) -> u64 {
    let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

/// Virtual nanoseconds.
pub const MILLISECOND: u64 = 1_000_000;

/// What goes wrong. Times count from the moment that the ranks begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A thread, the `which`th there is, stands still: a service that is slow, a beat or a message that is late.
    Stall { at: u64, which: u64, length: u64 },
    /// A connection between machines is cut, the `which`th there is.
    Cut { at: u64, which: u64 },
    /// A rank calls ncclCommAbort in place of its `step`th step.
    Abort { rank: u32, step: u32 },
    /// A rank never comes.
    Absent { rank: u32 },
    /// A step of the library fails: no descriptor, no memory, no thread.
    Fail { step: u64 },
}

/// What a run does wrong by itself, so that it is seen that this is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Canary {
    /// A byte of a payload is another when it is looked at.
    Payload,
    /// A signal more is waited for than comes.
    Signal,
    /// A descriptor stays open.
    Leak,
    /// Somebody fails without a fault.
    Failure,
}

impl Canary {
    pub const ALL: [Canary; 4] = [Canary::Payload, Canary::Signal, Canary::Leak, Canary::Failure];

    /// Of what its violation speaks.
    pub fn words(self) -> &'static str {
        match self {
            Canary::Payload => "was not there with its signal",
            Canary::Signal => "missing: rank 1",
            Canary::Leak => "it held",
            Canary::Failure => "failed, and nothing was wrong",
        }
    }
}

/// All that a seed has drawn.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub ranks: u32,
    /// As GINRS_FAKE_MACHINES has it; None: one.
    pub machines: Option<Vec<u32>>,
    /// GINRS_TRANSPORT.
    pub transport: Option<&'static str>,
    pub chaos: bool,
    /// Descriptors in a queue.
    pub queue: u64,
    pub contexts: u32,
    pub rounds: u32,
    /// Messages of a rank in a round, at most.
    pub messages: u64,
    /// The ranks part into so many children, and go on in these.
    pub children: u32,
    pub faults: Vec<Fault>,
    pub canary: Option<Canary>,
}

impl Plan {
    pub fn new(seed: u64) -> Plan {
        let mut draw = Draw::new(seed, 0);
        let ranks = draw.scaled(2, 8) as u32;
        let several = !draw.once_in(4);
        let machines = several.then(|| {
            let count = 2 + draw.below(u64::from(ranks.min(4)) - 1);
            // The first two are on different ones.
            (0..ranks).map(|rank| if rank < 2 { rank } else { draw.below(count) as u32 }).collect()
        });
        let transport = (!several && draw.once_in(2)).then_some("messages");
        let mut plan = Plan {
            seed,
            ranks,
            machines,
            transport,
            chaos: draw.once_in(2),
            queue: 1 << (1 + draw.below(6)),
            contexts: 1 + draw.below(4) as u32,
            rounds: 1 + draw.below(3) as u32,
            messages: draw.scaled(1, 8),
            children: if draw.once_in(2) { 1 + draw.below(2) as u32 } else { 0 },
            faults: Vec::new(),
            canary: None,
        };
        for _ in 0..draw.below(4) {
            let at = draw.scaled(10_000, 30 * MILLISECOND);
            plan.faults.push(Fault::Stall { at, which: draw.next() >> 32, length: draw.scaled(10_000, 1500 * MILLISECOND) });
        }
        let rank = draw.below(ranks.into()) as u32;
        match draw.below(8) {
            0 | 1 => plan.faults.push(Fault::Abort { rank, step: draw.below(20) as u32 }),
            2 => plan.faults.push(Fault::Absent { rank }),
            3 => plan.faults.push(Fault::Fail { step: draw.scaled(1, 200) }),
            4 | 5 if several => {
                let at = draw.scaled(10_000, 30 * MILLISECOND);
                plan.faults.push(Fault::Cut { at, which: draw.next() >> 32 });
            }
            _ => {}
        }
        plan
    }

    /// One in which everything is used and nothing goes wrong but this.
    pub fn of_canary(canary: Canary) -> Plan {
        let (ranks, machines) = (3, Some(vec![0, 1, 0]));
        Plan {
            ranks,
            machines,
            transport: None,
            rounds: 2,
            messages: 8,
            faults: Vec::new(),
            canary: Some(canary),
            ..Plan::new(1)
        }
    }

    /// What every process is told, before it reads any of it.
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        let mut settings = vec![
            ("GINRS_DEVICE", "cpu".into()),
            ("GINRS_CPU_DEVICES", "8".into()),
            ("GINRS_INIT_TIMEOUT", "10".into()),
            ("GINRS_TIMEOUT", "10".into()),
            ("GINRS_WAIT_WARN", "0".into()),
            ("NCCL_GIN_NCONTEXTS", self.contexts.to_string()),
            ("NCCL_GIN_PROXY_QUEUE_SIZE", self.queue.to_string()),
            ("NCCL_SOCKET_IFNAME", "lo".into()),
            ("GINRS_OFI_PROVIDER", "tcp".into()),
        ];
        if let Some(machines) = &self.machines {
            let names: Vec<String> = machines.iter().map(u32::to_string).collect();
            settings.push(("GINRS_FAKE_MACHINES", names.join(",")));
        }
        settings.extend(self.transport.map(|name| ("GINRS_TRANSPORT", name.into())));
        if self.chaos {
            settings.push(("GINRS_CHAOS", self.seed.to_string()));
        }
        settings
    }

    /// The child of a rank.
    pub fn color(&self, rank: u32) -> i32 {
        Draw::new(self.seed, 1 << 32 | u64::from(rank)).below(self.children.into()) as i32
    }

    /// Whether any rank may fail.
    pub fn is_fatal(&self) -> bool {
        self.faults.iter().any(|fault| !matches!(fault, Fault::Stall { .. }))
    }

    /// The step in place of which `rank` aborts; 0: it never comes.
    pub fn ends(&self, rank: u32) -> Option<u32> {
        self.faults.iter().find_map(|fault| match *fault {
            Fault::Abort { rank: who, step } if who == rank => Some(step + 1),
            Fault::Absent { rank: who } if who == rank => Some(0),
            _ => None,
        })
    }

    /// Who is to blame, where that is known.
    pub fn culprit(&self) -> Option<u32> {
        (0..self.ranks).find(|rank| self.ends(*rank).is_some())
    }

    /// What `from` sends in a round of the communicator `of`, which has so many ranks.
    pub fn messages(&self, of: u64, round: u32, from: u32, ranks: u32) -> Vec<Message> {
        let mut draw = Draw::new(self.seed, (2 + of) << 40 | u64::from(round) << 20 | u64::from(from));
        (0..draw.below(self.messages + 1))
            .map(|number| Message {
                to: draw.below(ranks.into()) as u32,
                context: draw.below(self.contexts.into()) as u32,
                bytes: if draw.once_in(8) { 0 } else { draw.scaled(1, MOST as u64) as usize },
                inline: draw.once_in(6),
                add: if draw.once_in(2) { 1 } else { draw.scaled(1, 1 << 40) },
                counts: draw.once_in(3),
                content: draw.next(),
                place: number as usize,
            })
            .map(|message| if message.inline { Message { bytes: message.bytes.clamp(1, 8), ..message } } else { message })
            .collect()
    }
}

/// One put, with its signal.
#[derive(Clone, Debug)]
pub struct Message {
    pub to: u32,
    pub context: u32,
    pub bytes: usize,
    /// It travels in its descriptor.
    pub inline: bool,
    /// What the signal rises by.
    pub add: u64,
    /// It raises the sender's counter.
    pub counts: bool,
    /// Its bytes follow from it.
    pub content: u64,
    /// Among those of its sender and round.
    pub place: usize,
}

impl Message {
    pub fn byte(&self, at: usize) -> u8 {
        (self.content >> (at % 8 * 8)) as u8 ^ (at / 8) as u8
    }
}
