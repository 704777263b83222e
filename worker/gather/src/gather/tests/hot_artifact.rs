//! A model of one artifact that every worker wants at once, against two simpler ways to wait for busy peers.
//!
//! The origin has 64 MiB, twenty workers want them, and each peer serves one other at a time. Workers that have the artifact serve it too.
//! The former ways are those of Dask: a wait that grows with each busy answer, and the same with a constant wait. Both ask the scheduler for
//! holders after the wait and then choose one at random, without a memory of busy peers.

use std::collections::{BTreeMap, BTreeSet};

use super::super::super::event::{GatherEvent, ReceivedCopy, TransferOutcome, WantedArtifact};
use super::super::super::limits::{BusyJitter, GatherLimits};
use super::super::super::types::{HostName, TransferId};
use super::super::{Gather, GatherAction};
use super::*;

const WORKERS: usize = 20;
const ORIGIN: usize = 0;
const SIZE: u64 = 64 << 20;
const SEEDS: u64 = 40;
/// The time of a message in one direction.
const LATENCY: Duration = Duration::from_micros(500);
/// The workers begin within this time.
const BEGIN: Duration = Duration::from_millis(10);

/// How a worker waits for busy peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    /// [`Gather`].
    Marks,
    /// [`Gather`] with jitter.
    UnevenMarks,
    /// 100 ms times 1.5 for each busy answer since the last success.
    Growing,
    /// 150 ms after each busy answer.
    Constant,
}

/// A step of a worker.
#[derive(Debug)]
enum Step {
    Request { to: usize, transfer: TransferId },
    Ask,
}

#[derive(Debug)]
enum Answer {
    Busy,
    Copy,
}

enum Worker {
    Marks(Box<Gather>),
    Former(Box<Former>),
}

/// A worker that waits in one of the former ways.
struct Former {
    way: Way,
    rng: Rng,
    refusals: i32,
    until: Option<Time>,
}

enum Happening {
    Begin(usize),
    Request {
        from: usize,
        to: usize,
        transfer: TransferId,
    },
    Answer(usize, TransferId, Answer),
    /// A peer has sent everything and got the acknowledgement.
    Served(usize),
    /// The scheduler has received the notice of a new holder.
    Registered(usize),
    /// The scheduler has received a query.
    Query(usize),
    Holders(usize, Vec<usize>),
}

struct Model {
    transfer_time: Duration,
    workers: Vec<Worker>,
    /// Whether each peer serves a transfer. It serves one at a time.
    serving: Vec<bool>,
    registry: BTreeSet<usize>,
    queue: BTreeMap<(Time, u64), Happening>,
    scheduled: u64,
    result: Outcome,
}

/// Counts of one run, or their sums over several.
#[derive(Clone, Copy, Debug, Default)]
struct Outcome {
    makespan: Duration,
    served_by_origin: u32,
    arrived: usize,
    requests: u32,
    queries: u32,
}

fn id(number: usize) -> PeerId {
    PeerId(number.to_string().into())
}

fn location(number: usize) -> Peer {
    Peer {
        id: id(number),
        host: HostName(number.to_string().into()),
        rack: None,
    }
}

impl Worker {
    fn new(number: usize, way: Way, seed: u64) -> Worker {
        let rng = rng(seed * 1000 + number as u64);
        let marks = |busy_jitter, rng| {
            let limits = GatherLimits {
                busy_jitter,
                ..GatherLimits::default()
            };
            Worker::Marks(Box::new(Gather::new(location(number), limits, rng)))
        };
        match way {
            Way::Marks => marks(BusyJitter::Off, rng),
            Way::UnevenMarks => marks(BusyJitter::Quarter, rng),
            Way::Growing | Way::Constant => Worker::Former(Box::new(Former {
                way,
                rng,
                refusals: 0,
                until: None,
            })),
        }
    }

    fn wake(&self) -> Option<Time> {
        match self {
            Worker::Marks(gather) => gather.next_wake(),
            Worker::Former(former) => former.until,
        }
    }

    fn begin(&mut self, now: Time) -> Vec<Step> {
        match self {
            Worker::Marks(gather) => {
                let event = GatherEvent::Wanted {
                    task: WaitingTask(1),
                    priority: Priority(0),
                    artifacts: vec![WantedArtifact {
                        artifact: artifact(1),
                        size: Some(ByteCount(SIZE)),
                        holders: vec![location(ORIGIN)],
                    }],
                };
                steps(gather, event, now)
            }
            Worker::Former(former) => former.choose(&[ORIGIN]),
        }
    }

    fn answered(&mut self, transfer: TransferId, answer: &Answer, now: Time) -> Vec<Step> {
        match self {
            Worker::Marks(gather) => {
                let outcome = match answer {
                    Answer::Busy => TransferOutcome::Busy(BTreeMap::new()),
                    Answer::Copy => TransferOutcome::Answered(BTreeMap::from([(
                        artifact(1),
                        ReceivedCopy::Valid,
                    )])),
                };
                steps(
                    gather,
                    GatherEvent::TransferEnded { transfer, outcome },
                    now,
                )
            }
            Worker::Former(former) => former.answered(answer, now),
        }
    }

    fn learn(&mut self, holders: &[usize], now: Time) -> Vec<Step> {
        match self {
            Worker::Marks(gather) => {
                let peers = holders.iter().copied().map(location).collect();
                let holders = BTreeMap::from([(artifact(1), peers)]);
                steps(gather, GatherEvent::HoldersRefreshed { holders }, now)
            }
            Worker::Former(former) => former.choose(holders),
        }
    }

    fn wake_up(&mut self, now: Time) -> Vec<Step> {
        match self {
            Worker::Marks(gather) => steps(gather, GatherEvent::TimePassed, now),
            Worker::Former(former) => {
                former.until = None;
                vec![Step::Ask]
            }
        }
    }
}

fn steps(gather: &mut Gather, event: GatherEvent, now: Time) -> Vec<Step> {
    let actions = gather.handle(event, now);
    gather.check();
    let step = |action| match action {
        GatherAction::Fetch { transfer, peer, .. } => Some(Step::Request {
            to: peer.0.parse().expect("a peer is a number"),
            transfer,
        }),
        GatherAction::AskHolders { .. } => Some(Step::Ask),
        GatherAction::Arrived { .. } => None,
        GatherAction::Missing { .. } | GatherAction::ReportCorrupt { .. } => {
            panic!("{action:?}")
        }
    };
    actions.into_iter().filter_map(step).collect()
}

impl Former {
    fn choose(&mut self, holders: &[usize]) -> Vec<Step> {
        let to = holders[self.rng.below(holders.len())];
        let transfer = TransferId(0);
        vec![Step::Request { to, transfer }]
    }

    fn answered(&mut self, answer: &Answer, now: Time) -> Vec<Step> {
        match answer {
            Answer::Copy => self.refusals = 0,
            Answer::Busy => {
                self.refusals += 1;
                let seconds = match self.way {
                    Way::Growing => 0.1 * 1.5_f64.powi(self.refusals),
                    Way::Constant | Way::Marks | Way::UnevenMarks => 0.15,
                };
                self.until = Some(now + Duration::from_secs_f64(seconds));
            }
        }
        Vec::new()
    }
}

impl Model {
    fn new(way: Way, transfer_time: Duration, seed: u64) -> Model {
        let peers = 0..=WORKERS;
        let mut model = Model {
            transfer_time,
            workers: peers.clone().map(|n| Worker::new(n, way, seed)).collect(),
            serving: peers.map(|_| false).collect(),
            registry: BTreeSet::from([ORIGIN]),
            queue: BTreeMap::new(),
            scheduled: 0,
            result: Outcome::default(),
        };
        let mut rng = Rng::new(seed, Purpose::Placement);
        for number in 1..=WORKERS {
            let begin = Duration::from_nanos(rng.below(BEGIN.as_nanos() as usize) as u64);
            model.schedule(Time::ZERO + begin, Happening::Begin(number));
        }
        model
    }

    fn run(mut self) -> Outcome {
        while self.result.arrived < WORKERS {
            let wakes = (0..).zip(&self.workers);
            let wake = wakes
                .filter_map(|(number, w)| Some((w.wake()?, number)))
                .min();
            let queued = self.queue.first_key_value().map(|((time, _), _)| *time);
            match (wake, queued) {
                (Some((now, number)), queued) if queued.is_none_or(|time| now < time) => {
                    let steps = self.workers[number].wake_up(now);
                    self.perform(number, steps, now);
                }
                (_, Some(_)) => {
                    let ((now, _), happening) = self.queue.pop_first().expect("one is queued");
                    self.happen(happening, now);
                }
                (_, None) => panic!("{} workers wait for ever", WORKERS - self.result.arrived),
            }
        }
        self.result
    }

    fn schedule(&mut self, time: Time, happening: Happening) {
        self.scheduled += 1;
        self.queue.insert((time, self.scheduled), happening);
    }

    fn perform(&mut self, number: usize, steps: Vec<Step>, now: Time) {
        for step in steps {
            let happening = match step {
                Step::Request { to, transfer } => {
                    self.result.requests += 1;
                    let from = number;
                    Happening::Request { from, to, transfer }
                }
                Step::Ask => {
                    self.result.queries += 1;
                    Happening::Query(number)
                }
            };
            self.schedule(now + LATENCY, happening);
        }
    }

    fn happen(&mut self, happening: Happening, now: Time) {
        match happening {
            Happening::Begin(number) => {
                let steps = self.workers[number].begin(now);
                self.perform(number, steps, now);
            }
            Happening::Request { from, to, transfer } => self.serve(from, to, transfer, now),
            Happening::Answer(number, transfer, answer) => {
                if let Answer::Copy = answer {
                    self.result.arrived += 1;
                    self.result.makespan = now.since(Time::ZERO);
                    self.schedule(now + LATENCY, Happening::Registered(number));
                }
                let steps = self.workers[number].answered(transfer, &answer, now);
                self.perform(number, steps, now);
            }
            Happening::Served(number) => self.serving[number] = false,
            Happening::Registered(number) => {
                self.registry.insert(number);
            }
            Happening::Query(number) => {
                let holders = self.registry.iter().copied().collect();
                self.schedule(now + LATENCY, Happening::Holders(number, holders));
            }
            Happening::Holders(number, holders) => {
                let steps = self.workers[number].learn(&holders, now);
                self.perform(number, steps, now);
            }
        }
    }

    fn serve(&mut self, from: usize, to: usize, transfer: TransferId, now: Time) {
        match std::mem::replace(&mut self.serving[to], true) {
            true => self.schedule(
                now + LATENCY,
                Happening::Answer(from, transfer, Answer::Busy),
            ),
            false => {
                self.result.served_by_origin += u32::from(to == ORIGIN);
                let received = now + self.transfer_time + LATENCY;
                self.schedule(received, Happening::Answer(from, transfer, Answer::Copy));
                self.schedule(received + LATENCY, Happening::Served(to));
            }
        }
    }
}

/// Returns the outcomes of all seeds.
fn outcomes(way: Way, transfer_time: Duration) -> Vec<Outcome> {
    (0..SEEDS)
        .map(|seed| Model::new(way, transfer_time, seed).run())
        .collect()
}

fn mean(outcomes: &[Outcome], value: impl Fn(&Outcome) -> f64) -> f64 {
    outcomes.iter().map(value).sum::<f64>() / outcomes.len() as f64
}

fn seconds(outcomes: &[Outcome]) -> f64 {
    mean(outcomes, |outcome| outcome.makespan.as_secs_f64())
}

/// Prints a row for each network and way: the makespan in seconds (mean, least and most of all seeds), the transfers that the origin
/// serves (mean and most), and requests and queries per arrived artifact.
#[test]
fn a_hot_artifact_spreads_like_a_tree_and_no_later_than_with_the_former_waits() {
    let workers = WORKERS as f64;
    for (network, bytes_per_second) in [("1 Gbit/s", 125e6), ("10 Gbit/s", 1.25e9)] {
        let transfer_time = Duration::from_secs_f64(SIZE as f64 / bytes_per_second);
        let mut makespans = BTreeMap::new();
        for way in [Way::Marks, Way::UnevenMarks, Way::Growing, Way::Constant] {
            let all = outcomes(way, transfer_time);
            let spans = || all.iter().map(|o| o.makespan.as_secs_f64());
            let most_served = all.iter().map(|o| o.served_by_origin).max();
            println!(
                "{network} ({transfer_time:.0?}) {way:?}: makespan {:.2} s ({:.2} to {:.2}), origin serves {:.1} (at most {}), \
                 {:.1} requests and {:.1} queries per artifact",
                seconds(&all),
                spans().fold(f64::INFINITY, f64::min),
                spans().fold(0.0, f64::max),
                mean(&all, |o| f64::from(o.served_by_origin)),
                most_served.expect("there are seeds"),
                mean(&all, |o| f64::from(o.requests) / workers),
                mean(&all, |o| f64::from(o.queries) / workers),
            );
            match way {
                Way::Marks | Way::UnevenMarks => assert!(most_served < Some(18)),
                Way::Growing | Way::Constant => {}
            }
            makespans.insert(way, seconds(&all));
        }
        for marks in [Way::Marks, Way::UnevenMarks] {
            for former in [Way::Growing, Way::Constant] {
                assert!(makespans[&marks] <= makespans[&former], "{makespans:?}");
            }
        }
    }
}
