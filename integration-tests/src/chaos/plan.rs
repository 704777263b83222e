//! Draws plans of disturbances from a seed before anything starts, so that a seed always disturbs the same programs at the same times.

use std::fmt;
use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

/// Disturbances begin within this time after the workers run tasks.
const LAST_START: Duration = Duration::from_secs(24);
/// The most time that a scheduler needs to start and to answer.
const START: Duration = Duration::from_secs(3);
/// Duration of a disturbance: from less than the shortest timeout to more than the sum of all timeouts.
const DURATIONS_MS: std::ops::Range<u64> = 200..9_000;
/// Number of disturbances of a plan.
const COUNT: std::ops::RangeInclusive<u64> = 4..=9;
/// Number of simultaneous silent connections, more than a server admits.
const IDLE_CONNECTIONS: usize = 2_300;

/// A program of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Program {
    Scheduler,
    Worker(usize),
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Program::Scheduler => f.write_str("the scheduler"),
            Program::Worker(number) => write!(f, "worker {number}"),
        }
    }
}

/// A process of the cluster, as the target of signals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    Program(Program),
    /// The keeper above a worker.
    Keeper(usize),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Program(program) => program.fmt(f),
            Target::Keeper(number) => write!(f, "the keeper of worker {number}"),
        }
    }
}

/// The part that is removed from the store of a running scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorePart {
    Directory,
    Database,
    WriteAheadLog,
}

/// The direction in which packets between the scheduler and a worker are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    ToWorker,
    ToScheduler,
    Both,
}

/// One disturbance. Those with a duration end by themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DisturbanceKind {
    /// SIGKILL to all targets within microseconds.
    Kill(Vec<Target>),
    /// SIGSTOP, later SIGCONT.
    Stop(Target),
    /// Standard error is a full pipe without a reader that reads.
    StallLog(Program),
    /// The reader of standard error closes it.
    CloseLog(Program),
    /// The disk of a data directory is full.
    FillDisk(Program),
    /// The disk of a data directory is unmounted, and later mounted again with its content.
    Unmount(Program),
    /// A part of the scheduler's store is deleted while the scheduler runs. An operator then starts over with an empty directory.
    DeleteStore(StorePart),
    /// The scheduler is killed and its database file is emptied. An operator then starts over with an empty directory.
    TruncateStore,
    CutLink(usize, Direction),
    /// Silent connections to a program's port.
    IdleConnections(Program, usize),
    /// The wall clock of a program jumps by this many seconds, permanently.
    JumpClock(Program, i64),
}

impl DisturbanceKind {
    /// Returns the name of the row that counts this kind.
    pub fn name(&self) -> &'static str {
        match self {
            DisturbanceKind::Kill(targets) if targets.len() > 1 => {
                "kill -9 of several programs at once"
            }
            DisturbanceKind::Kill(_) => "kill -9",
            DisturbanceKind::Stop(_) => "SIGSTOP",
            DisturbanceKind::StallLog(_) => "stalled stderr",
            DisturbanceKind::CloseLog(_) => "closed stderr",
            DisturbanceKind::FillDisk(_) => "full disk",
            DisturbanceKind::Unmount(_) => "unmounted and remounted disk",
            DisturbanceKind::DeleteStore(_) => "deleted store",
            DisturbanceKind::TruncateStore => "damaged store",
            DisturbanceKind::CutLink(_, Direction::Both) => "cut link",
            DisturbanceKind::CutLink(..) => "link cut one way",
            DisturbanceKind::IdleConnections(..) => "idle connections",
            DisturbanceKind::JumpClock(..) => "wall-clock jump",
        }
    }

    /// Returns whether an operator must start over with an empty store afterwards.
    pub fn loses_store(&self) -> bool {
        matches!(
            self,
            DisturbanceKind::DeleteStore(_) | DisturbanceKind::TruncateStore
        )
    }
}

impl fmt::Display for DisturbanceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DisturbanceKind::Kill(targets) => {
                let names: Vec<String> = targets.iter().map(Target::to_string).collect();
                write!(f, "kill -9 {}", names.join(", "))
            }
            DisturbanceKind::Stop(target) => write!(f, "SIGSTOP {target}"),
            DisturbanceKind::StallLog(program) => write!(f, "stall the stderr of {program}"),
            DisturbanceKind::CloseLog(program) => write!(f, "close the stderr of {program}"),
            DisturbanceKind::FillDisk(program) => write!(f, "fill the disk of {program}"),
            DisturbanceKind::Unmount(program) => write!(f, "unmount the disk of {program}"),
            DisturbanceKind::DeleteStore(StorePart::Directory) => {
                f.write_str("delete the scheduler's directory")
            }
            DisturbanceKind::DeleteStore(StorePart::Database) => {
                f.write_str("delete the scheduler's database")
            }
            DisturbanceKind::DeleteStore(StorePart::WriteAheadLog) => {
                f.write_str("delete the scheduler's write-ahead log")
            }
            DisturbanceKind::TruncateStore => {
                f.write_str("kill -9 the scheduler and empty its database")
            }
            DisturbanceKind::CutLink(worker, Direction::ToWorker) => {
                write!(f, "lose packets to worker {worker}")
            }
            DisturbanceKind::CutLink(worker, Direction::ToScheduler) => {
                write!(f, "lose packets from worker {worker}")
            }
            DisturbanceKind::CutLink(worker, Direction::Both) => {
                write!(f, "lose packets to and from worker {worker}")
            }
            DisturbanceKind::IdleConnections(program, count) => {
                write!(f, "open {count} silent connections to {program}")
            }
            DisturbanceKind::JumpClock(program, seconds) => {
                write!(f, "move the wall clock of {program} by {seconds} s")
            }
        }
    }
}

/// A disturbance and its time, counted from the plan's start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disturbance {
    pub at: Duration,
    pub lasts: Duration,
    pub kind: DisturbanceKind,
}

impl fmt::Display for Disturbance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (at, lasts) = (self.at.as_secs_f64(), self.lasts.as_secs_f64());
        write!(f, "{at:5.1} s: {} for {lasts:.1} s", self.kind)
    }
}

/// Draws the disturbances of a seed for this number of workers, ordered by time. At most one loses the store, and it is the last.
pub fn draw(seed: u64, workers: usize) -> Vec<Disturbance> {
    let mut dice = PlanDice(ChaCha8Rng::seed_from_u64(seed));
    let count = dice.between(*COUNT.start()..COUNT.end() + 1);
    let mut plan: Vec<Disturbance> = (0..count)
        .map(|_| Disturbance {
            at: Duration::from_millis(dice.between(0..LAST_START.as_millis() as u64)),
            lasts: Duration::from_millis(dice.between(DURATIONS_MS)),
            kind: dice.kind(workers),
        })
        .collect();
    if dice.one_in(6) {
        let lasts = Duration::from_millis(dice.between(DURATIONS_MS));
        let kind = dice.loss_of_store();
        let at = scheduler_lives_from(&plan).max(LAST_START);
        plan.push(Disturbance { at, lasts, kind });
    }
    plan.sort_by_key(|disturbance| disturbance.at);
    plan
}

/// Returns a time from which the scheduler is not killed any more and has had time to start. A scheduler that starts after its whole
/// directory was deleted cannot tell the empty directory from a new one, so a store is lost only while a scheduler lives.
fn scheduler_lives_from(plan: &[Disturbance]) -> Duration {
    let kills = plan.iter().filter(|disturbance| {
        let DisturbanceKind::Kill(targets) = &disturbance.kind else {
            return false;
        };
        targets.contains(&Target::Program(Program::Scheduler))
    });
    let ends = kills.map(|kill| kill.at + kill.lasts + START);
    ends.max().unwrap_or_default()
}

struct PlanDice(ChaCha8Rng);

impl PlanDice {
    fn between(&mut self, range: std::ops::Range<u64>) -> u64 {
        range.start + self.0.next_u64() % (range.end - range.start)
    }

    fn one_in(&mut self, sides: u64) -> bool {
        self.between(0..sides) == 0
    }

    fn worker(&mut self, workers: usize) -> usize {
        self.between(0..workers as u64) as usize
    }

    fn program(&mut self, workers: usize) -> Program {
        match self.one_in(3) {
            true => Program::Scheduler,
            false => Program::Worker(self.worker(workers)),
        }
    }

    fn kind(&mut self, workers: usize) -> DisturbanceKind {
        match self.between(0..15) {
            0..=2 => DisturbanceKind::Kill(vec![self.target(workers)]),
            3 | 4 => DisturbanceKind::Kill(self.several(workers)),
            5 | 6 => DisturbanceKind::Stop(self.target(workers)),
            7 => DisturbanceKind::StallLog(self.program(workers)),
            8 => DisturbanceKind::CloseLog(self.program(workers)),
            9 => DisturbanceKind::FillDisk(self.program(workers)),
            10 => DisturbanceKind::Unmount(self.program(workers)),
            11 | 12 => DisturbanceKind::CutLink(self.worker(workers), self.direction()),
            13 => DisturbanceKind::IdleConnections(self.program(workers), IDLE_CONNECTIONS),
            _ => {
                let seconds = self.between(1..200_000).cast_signed();
                let sign = if self.one_in(2) { -1 } else { 1 };
                DisturbanceKind::JumpClock(self.program(workers), sign * seconds)
            }
        }
    }

    fn target(&mut self, workers: usize) -> Target {
        match self.between(0..4) {
            0 => Target::Keeper(self.worker(workers)),
            _ => Target::Program(self.program(workers)),
        }
    }

    fn several(&mut self, workers: usize) -> Vec<Target> {
        let mut targets = Vec::new();
        if self.one_in(2) {
            targets.push(Target::Program(Program::Scheduler));
        }
        for number in 0..workers {
            let (worker, keeper) = (
                Target::Program(Program::Worker(number)),
                Target::Keeper(number),
            );
            match self.between(0..5) {
                0 => targets.push(worker),
                1 => targets.push(keeper),
                2 | 3 => targets.extend([keeper, worker]),
                _ => {}
            }
        }
        if targets.is_empty() {
            targets.push(self.target(workers));
        }
        targets
    }

    fn direction(&mut self) -> Direction {
        match self.between(0..3) {
            0 => Direction::ToWorker,
            1 => Direction::ToScheduler,
            _ => Direction::Both,
        }
    }

    fn loss_of_store(&mut self) -> DisturbanceKind {
        match self.between(0..4) {
            0 => DisturbanceKind::DeleteStore(StorePart::Directory),
            1 => DisturbanceKind::DeleteStore(StorePart::Database),
            2 => DisturbanceKind::DeleteStore(StorePart::WriteAheadLog),
            _ => DisturbanceKind::TruncateStore,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const WORKERS: usize = 3;

    #[test]
    fn a_seed_draws_one_plan_and_few_seeds_draw_every_kind() {
        assert_eq!(draw(5, WORKERS), draw(5, WORKERS));
        assert_ne!(draw(5, WORKERS), draw(6, WORKERS));
        let plans = (0..100).flat_map(|seed| draw(seed, WORKERS));
        let names: BTreeSet<&str> = plans.map(|disturbance| disturbance.kind.name()).collect();
        assert_eq!(names.len(), 13, "{names:?}");
    }

    #[test]
    fn a_worker_and_its_keeper_die_in_the_same_moment_in_some_seeds() {
        let mut plans = (0..200).flat_map(|seed| draw(seed, WORKERS));
        assert!(plans.any(|disturbance| {
            let DisturbanceKind::Kill(targets) = disturbance.kind else {
                return false;
            };
            (0..WORKERS).any(|number| {
                targets.contains(&Target::Keeper(number))
                    && targets.contains(&Target::Program(Program::Worker(number)))
            })
        }));
    }

    #[test]
    fn a_lost_store_is_the_last_disturbance_and_the_only_one_of_its_kind() {
        for seed in 0..100 {
            let plan = draw(seed, WORKERS);
            assert!(plan.is_sorted_by_key(|disturbance| disturbance.at));
            let (last, before) = plan.split_last().expect("a disturbance");
            assert!(!last.kind.loses_store() || last.at >= scheduler_lives_from(before));
            assert!(
                before
                    .iter()
                    .all(|disturbance| !disturbance.kind.loses_store())
            );
        }
    }
}
