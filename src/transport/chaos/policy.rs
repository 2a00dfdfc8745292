//! What is drawn from a seed: when each operation of a lane is read, lands, signals and is told.
//!
//! Every lane (context and peer) of a rank has a stream of numbers of its own, so the k-th operation of a queue meets the same fate
//! whenever it comes and whatever other queues do. A context of a rank has a mood, which its lanes share: where all is a little late
//! all the time, nothing is ever very late beside something that is not.
#![forbid(unsafe_code)]

use std::time::Duration;

/// More bytes of a payload are not kept beside their source: they are read when they go.
pub(super) const COPY: u64 = 64 << 10;

/// Numbers that a seed determines: splitmix64.
#[derive(Clone, Debug)]
pub(super) struct Draws(u64);

impl Draws {
    /// `of`: whose; streams of different owners have nothing to do with each other.
    pub fn new(seed: u64, of: &[u64]) -> Self {
        let mut draws = Self(seed);
        for &word in of {
            draws.0 = draws.next() ^ word;
        }
        draws
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// From 0 to `n` - 1.
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    /// Mostly none or short, now and then up to `most` microseconds.
    fn delay(&mut self, most: u64) -> u64 {
        match self.below(8) {
            0..3 => 0,
            3..7 => self.below(most / 8 + 1),
            _ => self.below(most + 1),
        }
    }
}

/// Of one context of one rank. The delays are the longest, in microseconds.
#[derive(Clone, Copy, Debug)]
struct Mood {
    /// Of eight payloads that may be, so many are read at once.
    copies: u64,
    /// Until a payload is read where it stands, its completion waiting.
    read: u64,
    /// Until a payload lands that was read at once.
    land: u64,
    /// Of eight of those, so many stay away until a signal behind them goes, or [`Policy::STALE`] is over.
    stale: u64,
    signal: u64,
    /// Of a completion, behind what it tells.
    tell: u64,
    /// Operations of a lane under way before no more are taken.
    window: usize,
    /// Of eight operations, so many are refused at first.
    refused: u64,
}

/// What becomes of one operation, counted from when it is taken. A signal waits for its payloads whatever this says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fate {
    /// Its source is read at once, and is reusable.
    pub copied: bool,
    /// Then its bytes land from the last on.
    pub backward: bool,
    /// And its halves so long after each other.
    pub gap: Duration,
    /// Until its payload goes.
    pub land: Duration,
    /// Until its signal goes.
    pub signal: Duration,
    /// Until its completion is told; zero: none is needed, where nothing else is waited for.
    pub tell: Duration,
    /// So often it is offered in vain before.
    pub refused: u32,
}

/// What one rank draws.
#[derive(Clone, Debug)]
pub(super) struct Policy {
    seed: u64,
    rank: u64,
    /// Of a delay.
    unit: Duration,
    pauses: Draws,
    /// One in so many looks begins a pause; 0: none.
    pause: u64,
}

/// The stream of one lane.
pub(super) struct Stream {
    draws: Draws,
    mood: Mood,
    unit: Duration,
}

impl Policy {
    /// Units that a payload which nobody signals may stay away. No lawful program waits for it, but the end of its window does.
    const STALE: u64 = 60_000;

    /// `unit`: a microsecond, or less for tests.
    pub fn new(seed: u64, rank: u32, unit: Duration) -> Self {
        let mut pauses = Draws::new(seed, &[u64::from(rank), 1]);
        let pause = pauses.pick(&[0, 0, 2000, 20_000]);
        Self { seed, rank: u64::from(rank), unit, pauses, pause }
    }

    /// Of the operations of `context` to `peer`.
    pub fn stream(&self, context: u32, peer: u32) -> Stream {
        let mut of_context = Draws::new(self.seed, &[self.rank, 2, u64::from(context)]);
        let mood = Mood {
            copies: of_context.pick(&[0, 2, 4, 6, 8]),
            read: of_context.pick(&[0, 100, 1000, 3000]),
            land: of_context.pick(&[0, 50, 500, 3000]),
            stale: of_context.pick(&[0, 4, 8]),
            signal: of_context.pick(&[0, 50, 500, 3000]),
            tell: of_context.pick(&[0, 0, 50, 1000]),
            window: of_context.pick(&[1, 2, 4, 64, usize::MAX, usize::MAX]),
            refused: of_context.pick(&[0, 0, 1, 4]),
        };
        let draws = Draws::new(self.seed, &[self.rank, 3, u64::from(context), u64::from(peer)]);
        Stream { draws, mood, unit: self.unit }
    }

    /// Asked at every look: how long the rank does nothing from now on.
    pub fn pause(&mut self) -> Option<Duration> {
        let begins = self.pause > 0 && self.pauses.below(self.pause) == 0;
        begins.then(|| self.unit * self.pauses.below(3000) as u32)
    }
}

impl Stream {
    /// Of the next operation.
    pub fn fate(&mut self) -> Fate {
        let Self { draws, mood, unit } = self;
        let copied = draws.below(8) < mood.copies;
        let stale = draws.below(8) < mood.stale;
        let land = match copied {
            true if stale => Policy::STALE / 2 + draws.below(Policy::STALE / 2),
            true => draws.delay(mood.land),
            false => draws.delay(mood.read),
        };
        let (signal, tell) = (draws.delay(mood.signal), draws.delay(mood.tell));
        let refused = if draws.below(8) < mood.refused { 1 + draws.below(3) as u32 } else { 0 };
        let time = |units: u64| *unit * units as u32;
        let backward = draws.below(2) == 0;
        let gap = time(draws.delay(1000));
        Fate { copied, backward, gap, land: time(land), signal: time(signal), tell: time(tell), refused }
    }

    /// Operations under way before no more are taken.
    pub fn window(&self) -> usize {
        self.mood.window
    }
}

/// The depth of a rank's queues: credits are scarce, or not.
pub fn depth(seed: u64, rank: u32, most: u32) -> u32 {
    Draws::new(seed, &[u64::from(rank), 4]).pick(&[1, 2, 4, 16, most]).min(most)
}
