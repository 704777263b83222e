//! Random histories, checked against the sets that every worker process really holds, and the floor checked against its plain definition.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;

use super::*;

/// The most living workers, few enough to try every subset of them.
const MAX_LIVE: usize = 5;

#[derive(Clone, Debug)]
enum Op {
    Fresh,
    /// A heartbeat, whose answer may be lost.
    Beat {
        worker: u8,
        answer: bool,
    },
    /// A round of heartbeats in which all workers get answers.
    AllBeat,
    /// An earlier heartbeat arrives again.
    Replay(u8),
    Lose(u8),
    /// A new process with the machine lock of another one, which is dead.
    Replace(u8),
    /// The scheduler ends its wait if it may.
    Leave,
    /// The safe wait passes: every worker that does not reach the scheduler has ended itself.
    SafeWait,
    /// A witness makes the scheduler wait again.
    WaitAgain,
    Restart {
        keep_directory: bool,
        version: i8,
    },
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        2 => Just(Op::Fresh),
        14 => (any::<u8>(), prop::bool::weighted(0.7))
            .prop_map(|(worker, answer)| Op::Beat { worker, answer }),
        1 => Just(Op::AllBeat),
        1 => any::<u8>().prop_map(Op::Replay),
        1 => any::<u8>().prop_map(Op::Lose),
        1 => any::<u8>().prop_map(Op::Replace),
        6 => Just(Op::Leave),
        1 => Just(Op::SafeWait),
        1 => Just(Op::WaitAgain),
        3 => (prop::bool::weighted(0.2), any::<i8>())
            .prop_map(|(keep_directory, version)| Op::Restart { keep_directory, version }),
    ]
}

#[derive(Clone, Debug)]
struct Process {
    holds: WorkerSetId,
    /// Whether the process was once HEALTHY under a scheduler that had left its wait, so tasks may run there.
    armed: bool,
}

/// The facts in a scheduler's directory.
#[derive(Clone, Debug, Default)]
struct Directory {
    recorded: BTreeSet<WorkerId>,
    trusted: bool,
}

struct World {
    scheduler: i64,
    next_worker: i64,
    consensus: Consensus,
    live: BTreeMap<WorkerId, Process>,
    directory: Directory,
    heartbeats: Vec<(WorkerId, WorkerSetId)>,
    /// Every set of this scheduler, by serial number.
    sets: Vec<(BTreeSet<WorkerId>, Standing)>,
    /// The first and the last echoed set of every worker that ever joined.
    bounds: BTreeMap<WorkerId, (Serial, Serial)>,
    left_by_consensus: usize,
    armed_ever: usize,
}

impl World {
    fn new() -> World {
        let mut world = World {
            scheduler: 1,
            next_worker: 1,
            consensus: Consensus::new(scheduler(1)),
            live: BTreeMap::new(),
            directory: Directory::default(),
            heartbeats: Vec::new(),
            sets: Vec::new(),
            bounds: BTreeMap::new(),
            left_by_consensus: 0,
            armed_ever: 0,
        };
        world.note_set();
        world
    }

    fn is_settled(&self) -> bool {
        self.consensus.current().standing == Standing::Settled
    }

    /// Notes the present set. Each change of the set is one version.
    fn note_set(&mut self) {
        let members = self.consensus.members.keys().copied().collect();
        let step = (members, self.consensus.current().standing);
        let at = self.consensus.serial.0 as usize;
        assert!(at == self.sets.len() || at + 1 == self.sets.len());
        self.sets.truncate(at);
        self.sets.push(step);
    }

    fn pick(&self, n: u8) -> Option<WorkerId> {
        let at = usize::from(n) % self.live.len().max(1);
        self.live.keys().nth(at).copied()
    }

    fn die(&mut self, worker: WorkerId) {
        self.live.remove(&worker);
        self.directory.recorded.remove(&worker);
        if self.consensus.members.contains_key(&worker) {
            self.consensus.leave(worker);
            self.note_set();
        }
    }

    fn beat(&mut self, worker: WorkerId, answer: bool) {
        let holds = self.live[&worker].holds;
        self.heartbeats.push((worker, holds));
        self.hear(worker, holds);
        if answer {
            let given = self.consensus.current();
            let known = self.live.get_mut(&worker).expect("alive");
            known.holds = given;
        }
    }

    fn hear(&mut self, worker: WorkerId, holds: WorkerSetId) {
        if self.consensus.members.contains_key(&worker) {
            let echo = self.consensus.echo(worker, &holds);
            assert!(!matches!(echo, Echo::Wrong(_)), "{echo:?} for {holds:?}");
            if holds.scheduler == self.consensus.current().scheduler {
                let version = holds.version.wrapping_sub(self.consensus.base);
                let (_, known) = self.bounds.get_mut(&worker).expect("it has joined");
                *known = (*known).max(Serial(version.cast_unsigned()));
            }
        } else {
            self.consensus.join(worker, holds);
            self.directory.recorded.insert(worker);
            let first = self.consensus.serial;
            self.bounds.insert(worker, (first, first));
            self.note_set();
        }
    }

    fn fresh(&mut self) {
        if self.live.len() < MAX_LIVE {
            let worker = w(self.next_worker);
            self.next_worker += 1;
            let process = Process {
                holds: WorkerSetId::default(),
                armed: false,
            };
            self.live.insert(worker, process);
        }
    }

    fn leave(&mut self) {
        if self.is_settled() {
            return;
        }
        let all_back = |worker: &WorkerId| {
            self.consensus.members.contains_key(worker) || !self.live.contains_key(worker)
        };
        let by_record = self.directory.trusted && self.directory.recorded.iter().all(all_back);
        let by_consensus = !self.directory.trusted
            && matches!(self.consensus.former_set(), FormerSet::Complete(_));
        if by_consensus {
            self.left_by_consensus += 1;
        }
        if by_record || by_consensus {
            for (worker, process) in &self.live {
                let is_here = self.consensus.members.contains_key(worker);
                assert!(!process.armed || is_here, "left without {worker}");
            }
            self.settle();
        }
    }

    fn settle(&mut self) {
        self.consensus.settle();
        self.directory.trusted = true;
        self.note_set();
    }

    fn restart(&mut self, keep_directory: bool, version: i8) {
        self.scheduler += 1;
        if !keep_directory {
            self.directory = Directory::default();
        }
        self.consensus = Consensus::from_version(
            scheduler(self.scheduler),
            i64::MAX.wrapping_sub(version.into()),
        );
        self.heartbeats.clear();
        self.sets.clear();
        self.bounds.clear();
        self.note_set();
    }

    fn step(&mut self, op: &Op) {
        match *op {
            Op::Fresh => self.fresh(),
            Op::Beat { worker, answer } => {
                if let Some(worker) = self.pick(worker) {
                    self.beat(worker, answer);
                }
            }
            Op::AllBeat => {
                let all: Vec<WorkerId> = self.live.keys().copied().collect();
                for worker in all {
                    self.beat(worker, true);
                }
            }
            Op::Replay(n) => {
                let at = usize::from(n) % self.heartbeats.len().max(1);
                if let Some((worker, holds)) = self.heartbeats.get(at).copied()
                    && self.consensus.members.contains_key(&worker)
                {
                    self.hear(worker, holds);
                }
            }
            Op::Lose(n) => {
                let lost = self.pick(n);
                // A scheduler can lose only workers that it knows, and such a worker has ended itself by then.
                if let Some(lost) = lost.filter(|id| self.consensus.members.contains_key(id)) {
                    self.die(lost);
                }
            }
            Op::Replace(n) => {
                if let Some(old) = self.pick(n) {
                    self.die(old);
                    self.fresh();
                }
            }
            Op::Leave => self.leave(),
            Op::SafeWait => {
                if !self.is_settled() {
                    let known = |id: &WorkerId| self.consensus.members.contains_key(id);
                    let gone: Vec<WorkerId> =
                        self.live.keys().filter(|id| !known(id)).copied().collect();
                    for worker in gone {
                        self.die(worker);
                    }
                    self.settle();
                }
            }
            Op::WaitAgain => {
                if self.is_settled() {
                    self.consensus.unsettle();
                    self.directory.trusted = false;
                    self.note_set();
                }
            }
            Op::Restart {
                keep_directory,
                version,
            } => self.restart(keep_directory, version),
        }
        self.arm();
    }

    fn arm(&mut self) {
        if !self.is_settled() {
            return;
        }
        for (worker, process) in &mut self.live {
            if self.consensus.permits(*worker) {
                self.armed_ever += usize::from(!process.armed);
                process.armed = true;
            }
        }
    }

    /// Checks that, if the directory were lost now, no subset of the living workers would make a scheduler end its wait without a worker
    /// that may run tasks.
    fn check_subsets(&self) {
        let live: Vec<(&WorkerId, &Process)> = self.live.iter().collect();
        for subset in 1_u32..1 << live.len() {
            let is_in = |at: usize| subset & (1 << at) != 0;
            let one = live[subset.trailing_zeros() as usize].1.holds;
            let all = live
                .iter()
                .enumerate()
                .all(|(at, (_, process))| !is_in(at) || process.holds == one);
            if !all || one == WorkerSetId::default() {
                continue;
            }
            let mut fresh = Consensus::new(scheduler(i64::MAX));
            for (at, (worker, process)) in live.iter().enumerate() {
                if is_in(at) {
                    fresh.join(**worker, process.holds);
                }
            }
            if !matches!(fresh.former_set(), FormerSet::Complete(_)) {
                continue;
            }
            for (at, (worker, process)) in live.iter().enumerate() {
                assert!(
                    is_in(at) || !process.armed,
                    "{worker} is missing from {subset:b} of {live:#?}"
                );
            }
        }
    }

    /// Checks that the floor is not above the earliest settled version with a living member that each member may still hold.
    fn check_floor(&self) {
        let c = &self.consensus;
        let viable = self
            .sets
            .iter()
            .enumerate()
            .position(|(at, (members, standing))| {
                *standing == Standing::Settled
                    && members.iter().any(|id| c.members.contains_key(id))
                    && members
                        .iter()
                        .all(|id| self.bounds[id].1 <= Serial(at as u64))
            });
        let highest = viable.map_or(c.serial, |at| Serial(at as u64));
        assert!(c.floor <= highest, "{:?} above {highest:?}", c.floor);
    }

    /// Returns the least transitive closure, with explicit sets: it starts from the lower bound of one worker, and continues with the lower
    /// bounds of all members of that set, alive or not.
    fn closure(&self) -> Option<Serial> {
        let closures = self.consensus.members.keys().map(|id| {
            let mut bound = self.bounds[id].1;
            loop {
                let (members, _) = &self.sets[bound.0 as usize];
                let next = members.iter().map(|id| self.bounds[id].1).max();
                match next.filter(|next| *next > bound) {
                    Some(next) => bound = next,
                    None => return bound,
                }
            }
        });
        closures.min()
    }
}

integration_tests_properties::properties! {
    400;

    #[test]
    fn no_consensus_can_form_without_somebody_who_may_run_tasks(ops in proptest::collection::vec(op(), 1..60)) {
        let mut world = World::new();
        for op in &ops {
            world.step(op);
            world.check_subsets();
            world.check_floor();
        }
    }

    #[test]
    fn the_floor_is_the_least_transitive_closure(ops in proptest::collection::vec(op(), 1..80)) {
        let mut world = World::new();
        world.settle();
        for op in &ops {
            match op {
                Op::Leave | Op::SafeWait | Op::WaitAgain | Op::Restart { .. } => {}
                Op::Fresh | Op::Beat { .. } | Op::AllBeat | Op::Replay(_) | Op::Lose(_) | Op::Replace(_) => world.step(op),
            }
            if let Some(closure) = world.closure() {
                prop_assert_eq!(world.consensus.floor, closure);
            }
        }
    }
}

/// A case too rare for random histories: a worker is permitted during the wait, and a set without it still exists when the wait ends.
#[test]
fn what_the_wait_permitted_is_not_safe_beside_a_foreigner() {
    let beat = |worker, answer| Op::Beat { worker, answer };
    let mut world = World::new();
    let restart = Op::Restart {
        keep_directory: false,
        version: 0,
    };
    let before = [Op::SafeWait, Op::Fresh, beat(0, true), restart];
    let after = [
        Op::Fresh,
        beat(1, true),
        beat(1, true),
        beat(0, false),
        Op::SafeWait,
    ];
    for op in before.iter().chain(&after) {
        world.step(op);
        world.check_subsets();
    }
    assert!(!world.live[&w(2)].armed);
    for op in [beat(0, true), beat(0, true)] {
        world.step(&op);
        world.check_subsets();
    }
    assert!(world.live[&w(2)].armed);
}

/// Checks that the histories reach the states in which the rules matter.
#[test]
fn histories_form_consensus_and_arm_workers() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut consensus, mut armed) = (0, 0);
    for _ in 0..1000 {
        let tree = proptest::collection::vec(op(), 60)
            .new_tree(&mut runner)
            .expect("a history");
        let mut world = World::new();
        for op in &tree.current() {
            world.step(op);
        }
        consensus += world.left_by_consensus;
        armed += world.armed_ever;
    }
    assert!(consensus > 50 && armed > 500, "{consensus} {armed}");
}
