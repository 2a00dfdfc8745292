//! Machines that hear each other, with clocks of their own.

use super::super::machines::tests::sample;
use super::*;

const DEADLINE: Duration = Duration::from_secs(3);

/// One process for each rank of `machines`, with a clock of its own.
struct World {
    machines: Vec<Machines>,
    beats: Vec<Beats>,
    begin: Instant,
    now: Duration,
    /// Ranks that do nothing, and pairs of which neither hears the other.
    still: HashSet<usize>,
    cut: HashSet<(usize, usize)>,
    dead: Vec<(usize, u32, Duration)>,
    sent: usize,
}

impl World {
    fn new(machines: &[u64]) -> Self {
        let begin = Instant::now();
        let of = (0..machines.len()).map(|own| sample(machines, own as u8)).collect();
        let beats = machines.iter().map(|_| Beats::new(begin)).collect();
        Self {
            machines: of,
            beats,
            begin,
            now: Duration::ZERO,
            still: HashSet::new(),
            cut: HashSet::new(),
            dead: Vec::new(),
            sent: 0,
        }
    }

    fn run(&mut self, time: Duration) {
        for _ in 0..time.as_millis() / TURN.as_millis() {
            self.now += TURN;
            let now = self.begin + self.now;
            for own in (0..self.beats.len()).filter(|own| !self.still.contains(own)).collect::<Vec<_>>() {
                let turn = self.beats[own].turn(&self.machines[own], own as u32, now, DEADLINE);
                self.dead.extend(turn.dead.map(|(machine, _)| (own, machine, self.now)));
                let Some(beat) = turn.beat else { continue };
                if self.beats[own].stood_still(now) {
                    let beside = self.machines[own].at(self.machines[own].own()).ranks.clone();
                    for to in beside.into_iter().map(|to| to as usize).filter(|to| *to != own && !self.still.contains(to)) {
                        self.beats[to].heard(&beat, &self.machines[to], now);
                    }
                }
                for to in turn.to.into_iter().map(|to| to as usize) {
                    self.sent += 1;
                    if !self.still.contains(&to) && !self.cut.contains(&(own.min(to), own.max(to))) {
                        self.beats[to].heard(&beat, &self.machines[to], now);
                    }
                }
            }
        }
    }

    fn ill(&self, here: usize, rank: u32) -> Option<Ill> {
        self.beats[here].ill(rank, &self.machines[here], self.begin + self.now).map(|(ill, _)| ill)
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn each_machine_sends_to_log_n_others_ten_times_a_second() {
    for (n, each) in [(2, 1), (3, 2), (8, 3), (9, 4)] {
        let mut world = World::new(&(0..n).collect::<Vec<_>>());
        world.run(10 * SECOND);
        let beats = world.sent as f64 / 10.0 / n as f64;
        assert!((9.0..=10.5).contains(&(beats / f64::from(each))), "{n}: {beats} a second");
        assert!(world.dead.is_empty() && world.beats.iter().all(|beats| beats.complaints.is_empty()));
    }
    let mut one = World::new(&[5, 5, 5]);
    one.run(SECOND);
    assert_eq!(one.sent, 0);
}

#[test]
fn a_silent_machine_is_known_to_all_and_dead_at_the_deadline() {
    for n in [2, 3, 8, 13] {
        let mut world = World::new(&(0..n).collect::<Vec<_>>());
        world.run(SECOND);
        world.still.insert(1);
        world.run(Duration::from_millis(1200));
        for here in (0..n as usize).filter(|here| *here != 1) {
            assert_eq!((world.ill(here, 1), world.ill(here, 0)), (Some(Ill::Silent), None), "{n}: on {here}");
        }
        assert!(world.dead.is_empty());
        world.run(2 * SECOND);
        let (_, machine, at) = world.dead[0];
        let lasted = at - SECOND;
        assert!(machine == 1 && lasted >= DEADLINE - BEAT && lasted < DEADLINE + 2 * BEAT, "{n}: {lasted:?}");
    }
}

/// Each first beat was left out, and the time before the first turn counted: of a communicator that others had just made, a machine was
/// "silent for 0.6 s" where nothing was wrong.
#[test]
fn a_machine_that_is_still_setting_up_is_not_silent() {
    for late in [1, 2] {
        let mut world = World::new(&[0, 1, 2, 3]);
        let hearers = world.beats[0].hearers(&world.machines[0], 0, world.begin);
        assert_eq!(hearers, Some(vec![1, 2]));
        world.now = 10 * SECOND;
        world.still.insert(late);
        world.run(TURN);
        assert_eq!(world.sent, 6, "everybody's first turn is a beat");
        world.run(SECOND);
        assert!(world.beats.iter().all(|beats| beats.complaints.is_empty()));
        world.still.clear();
        world.run(3 * SECOND);
        assert!(world.dead.is_empty() && world.beats.iter().all(|beats| beats.complaints.is_empty()));
    }
    // One that never speaks is dead at the deadline all the same.
    let mut world = World::new(&[0, 1]);
    world.still.insert(1);
    world.run(2 * SECOND);
    assert_eq!((world.ill(0, 1), world.dead.len()), (Some(Ill::Silent), 0));
    world.run(SECOND + TURN);
    assert_eq!(world.dead[0].1, 1);
}

#[test]
fn a_pause_of_two_seconds_ends_nothing_and_is_over_soon() {
    let mut world = World::new(&[0, 1, 2, 3]);
    world.run(SECOND);
    world.still.insert(2);
    world.run(2 * SECOND);
    world.still.clear();
    world.run(3 * SECOND);
    assert!(world.dead.is_empty() && (0..4).all(|here| world.ill(here, 2).is_none()));
}

#[test]
fn who_stood_still_itself_blames_nobody() {
    let mut world = World::new(&[0, 1]);
    world.run(SECOND);
    let now = world.begin + world.now + 10 * SECOND;
    let turn = world.beats[0].turn(&world.machines[0], 0, now, DEADLINE);
    assert_eq!(turn.dead, None);
}

#[test]
fn both_ends_of_a_cut_end_it() {
    let mut world = World::new(&[0, 1, 2]);
    world.run(SECOND);
    world.cut.insert((0, 1));
    world.run(4 * SECOND);
    let blames: HashSet<(usize, u32)> = world.dead.iter().map(|(here, machine, _)| (*here, *machine)).collect();
    assert_eq!(blames, HashSet::from([(0, 1), (1, 0)]));
}

/// Rank 0, which spoke for its machine, is stopped, and rank 1 beside it has seen that.
fn stopped_speaker() -> World {
    let mut world = World::new(&[0, 0, 1, 2]);
    world.run(SECOND);
    world.still.insert(0);
    world.run(Duration::from_millis(500));
    world.beats[1].stopped = vec![(0, SECOND)];
    world
}

#[test]
fn a_stopped_speaker_is_spoken_for_and_said_to_be_stopped() {
    let mut world = stopped_speaker();
    world.run(5 * SECOND);
    assert!(world.dead.is_empty());
    assert_eq!([2, 3].map(|here| world.ill(here, 0)), [Some(Ill::Stopped); 2]);
    world.still.clear();
    world.beats[1].stopped.clear();
    world.run(2 * SECOND);
    assert!(world.dead.is_empty() && [2, 3].map(|here| world.ill(here, 0)) == [None; 2]);
}

/// Its neighbour sees a moment later that it goes on, and had gone on to listen and to speak for it meanwhile.
#[test]
fn a_speaker_that_goes_on_is_believed_at_once() {
    let mut world = stopped_speaker();
    world.run(2 * SECOND);
    world.still.clear();
    for looked in [false, true] {
        if looked {
            world.beats[1].stopped.clear();
        }
        for _ in 0..5 {
            world.run(TURN);
            let blamed = |here: usize| world.beats[here].ills(world.begin + world.now).len();
            // One that had it from a third may take a beat more.
            let late = !looked && world.now < Duration::from_millis(3700);
            assert!((1..4).all(|here| blamed(here) == 0 || late), "{:?}: {:?}", world.now, [0, 1, 2, 3].map(blamed));
        }
    }
    world.run(2 * SECOND);
    assert!(world.dead.is_empty() && (0..4).all(|here| world.beats[here].complaints.is_empty()));
}

#[test]
fn who_stood_still_knows_that_it_may_not_have_heard() {
    let mut world = World::new(&[0, 1]);
    world.run(SECOND);
    let stood = |world: &World| world.beats[0].stood_still(world.begin + world.now);
    assert!(!stood(&world));
    world.still.insert(0);
    world.run(SECOND);
    assert!(stood(&world));
    world.still.clear();
    world.run(SECOND);
    assert!(stood(&world), "what lasts is told again within this");
    world.run(TURN);
    assert!(!stood(&world));
}

#[test]
fn a_machine_whose_ranks_have_left_is_missed_by_nobody() {
    let mut world = World::new(&[0, 1, 1, 2]);
    world.run(SECOND);
    world.still.extend([1, 2]);
    world.beats.iter_mut().for_each(|beats| assert!(beats.leaves(1) && beats.leaves(2) && !beats.leaves(1)));
    world.run(5 * SECOND);
    assert!(world.dead.is_empty() && world.ill(0, 1).is_none());
}

#[test]
fn movement_on_one_machine_is_known_on_all_and_only_once() {
    let mut world = World::new(&[0, 1, 2, 3, 4]);
    world.run(2 * SECOND);
    assert!(world.beats.iter().all(|beats| beats.moves == 0));
    world.beats[3].moved(world.begin + world.now);
    world.run(2 * SECOND);
    assert_eq!(world.beats.iter().map(|beats| beats.moves).collect::<Vec<_>>(), [1, 1, 1, 0, 1]);
}
