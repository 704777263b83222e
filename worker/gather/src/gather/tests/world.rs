//! One worker among peers that are busy, slow, lose artifacts and send bad copies, in virtual time.

use std::collections::{BTreeMap, BTreeSet};

use super::super::super::event::{GatherEvent, ReceivedCopy, TransferOutcome, WantedArtifact};
use super::super::super::limits::GatherLimits;
use super::super::super::types::{Pressure, TransferId};
use super::super::{Gather, GatherAction};
use super::*;

/// The registry lists a lost holder for so long after the loss.
const REGISTRY_LAG: Duration = Duration::from_secs(2);

/// A world before it starts.
#[derive(Clone, Debug)]
pub struct WorldPlan {
    pub seed: u64,
    pub limits: GatherLimits,
    pub peers: Vec<PeerPlan>,
    pub artifacts: Vec<ArtifactPlan>,
    /// The begin and the length of a stretch of pressure, in milliseconds.
    pub pressure: Option<(u64, u64)>,
}

#[derive(Clone, Debug)]
pub struct PeerPlan {
    /// The first letter of its name: `h`, `r` or `p`.
    pub location: char,
    pub busy: BusyPlan,
    /// The faults of its first answers.
    pub faults: Vec<Fault>,
    /// The time at which it is removed, in milliseconds, if it is no keeper.
    pub removed: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BusyPlan {
    /// Busy in every second stretch of so many milliseconds, until 5 s have passed.
    Stretches(u64),
    Always,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    Corrupt,
    Withhold,
    Break,
}

#[derive(Clone, Debug)]
pub struct ArtifactPlan {
    pub wanted_at: u64,
    pub size: Option<u64>,
    pub priority: i64,
    pub tasks: u64,
    /// The number of the peer that always has the artifact.
    pub keeper: usize,
    /// The numbers of further holders, each with the time at which it loses the artifact.
    pub others: Vec<(usize, Option<u64>)>,
    /// Whether the tasks come with the holders, or without any.
    pub is_listed: bool,
}

/// The course of events in a world.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    pub actions: Vec<(Time, GatherAction)>,
    pub arrived: BTreeMap<ArtifactId, Time>,
    /// The times of requests to each peer, and of the receipt of busy answers.
    pub requests: BTreeMap<PeerId, Vec<Time>>,
    pub refusals: BTreeMap<PeerId, Vec<Time>>,
}

enum Happening {
    Event(GatherEvent),
    Refusal(PeerId, TransferId),
    Answer(Vec<ArtifactId>),
}

struct World<'a> {
    plan: &'a WorldPlan,
    gather: Gather,
    rng: Rng,
    now: Time,
    queue: BTreeMap<(Time, u64), Happening>,
    scheduled: u64,
    served: Vec<usize>,
    history: History,
}

/// Runs a world until every artifact has arrived, or the time is over. Checks the invariants after each event.
pub fn run(plan: &WorldPlan, end: Time) -> History {
    let mut world = World {
        plan,
        gather: Gather::new(me(), plan.limits, rng(plan.seed)),
        rng: Rng::new(plan.seed, Purpose::Placement),
        now: Time::ZERO,
        queue: BTreeMap::new(),
        scheduled: 0,
        served: vec![0; plan.peers.len()],
        history: History::default(),
    };
    world.schedule_plan();
    while world.history.arrived.len() < plan.artifacts.len() && world.step(end) {}
    world.history
}

impl WorldPlan {
    pub fn name(&self, number: usize) -> String {
        format!("{}{number}", self.peers[number].location)
    }

    fn number(&self, id: &PeerId) -> usize {
        id.0[1..].parse().expect("a name ends with its number")
    }

    /// Returns whether a peer has an artifact at a time.
    fn has(&self, number: usize, id: ArtifactId, now: Time) -> bool {
        let artifact = &self.artifacts[usize::from(id.0[0])];
        let is_other = artifact.others.iter().any(|(other, lost)| {
            *other == number && lost.is_none_or(|lost| now < at(lost)) && !self.is_gone(number, now)
        });
        artifact.keeper == number || is_other
    }

    fn is_keeper(&self, number: usize) -> bool {
        self.artifacts
            .iter()
            .any(|artifact| artifact.keeper == number)
    }

    fn is_gone(&self, number: usize, now: Time) -> bool {
        let removed = self.peers[number].removed;
        !self.is_keeper(number) && removed.is_some_and(|removed| at(removed) <= now)
    }

    /// Returns the registry's entry, which lags behind losses.
    fn registered(&self, id: ArtifactId, now: Time) -> Vec<Peer> {
        let before = now - REGISTRY_LAG;
        (0..self.peers.len())
            .filter(|number| self.has(*number, id, before) && !self.is_gone(*number, now))
            .map(|number| peer(&self.name(number)))
            .collect()
    }

    fn is_busy(&self, number: usize, now: Time) -> bool {
        match self.peers[number].busy {
            BusyPlan::Always => true,
            BusyPlan::Stretches(millis) => {
                let stretch = now.as_nanos() / 1_000_000 / millis.max(1);
                now < at(5000) && stretch % 2 == 1
            }
        }
    }
}

impl World<'_> {
    fn schedule(&mut self, time: Time, happening: Happening) {
        self.scheduled += 1;
        self.queue.insert((time, self.scheduled), happening);
    }

    fn schedule_plan(&mut self) {
        let plan = self.plan;
        for (number, wish) in (0_u8..).zip(&plan.artifacts) {
            let id = artifact(number);
            let holders = match wish.is_listed {
                true => plan.registered(id, at(0)),
                false => Vec::new(),
            };
            for task in 0..wish.tasks {
                let event = GatherEvent::Wanted {
                    task: WaitingTask(task),
                    priority: Priority(wish.priority + task.cast_signed()),
                    artifacts: vec![WantedArtifact {
                        artifact: id,
                        size: wish.size.map(ByteCount),
                        holders: holders.clone(),
                    }],
                };
                self.schedule(at(wish.wanted_at), Happening::Event(event));
            }
        }
        for number in (0..plan.peers.len()).filter(|number| !plan.is_keeper(*number)) {
            if let Some(removed) = plan.peers[number].removed {
                let id = plan.name(number).as_str().into();
                let event = GatherEvent::PeerRemoved { peer: id };
                self.schedule(at(removed), Happening::Event(event));
            }
        }
        if let Some((begin, length)) = plan.pressure {
            let change = |pressure| Happening::Event(GatherEvent::PressureChanged(pressure));
            self.schedule(at(begin), change(Pressure::High));
            self.schedule(at(begin + length), change(Pressure::Normal));
        }
    }

    /// Performs the next event or wake; none before `end` is left if it returns false.
    fn step(&mut self, end: Time) -> bool {
        let queued = self.queue.first_key_value().map(|((time, _), _)| *time);
        let wake = self.gather.next_wake();
        let Some(next) = queued.into_iter().chain(wake).min() else {
            return false;
        };
        if next > end {
            return false;
        }
        self.now = next;
        let event = match self.queue.first_entry() {
            Some(entry) if entry.key().0 == next => match entry.remove() {
                Happening::Event(event) => event,
                Happening::Refusal(peer, transfer) => {
                    self.history.refusals.entry(peer).or_default().push(next);
                    let outcome = TransferOutcome::Busy(BTreeMap::new());
                    GatherEvent::TransferEnded { transfer, outcome }
                }
                Happening::Answer(ids) => {
                    let entry = |id| (id, self.plan.registered(id, next));
                    let holders = ids.into_iter().map(entry).collect();
                    GatherEvent::HoldersRefreshed { holders }
                }
            },
            Some(_) | None => GatherEvent::TimePassed,
        };
        let actions = self.gather.handle(event, next);
        self.gather.check();
        for action in actions {
            self.perform(&action);
            self.history.actions.push((next, action));
        }
        true
    }

    fn perform(&mut self, action: &GatherAction) {
        match action {
            GatherAction::Fetch {
                transfer,
                peer,
                artifacts,
                ..
            } => self.request(*transfer, peer, artifacts),
            GatherAction::AskHolders { artifacts } => {
                let delay = self.delay(100);
                self.schedule(self.now + delay, Happening::Answer(artifacts.clone()));
            }
            GatherAction::Arrived { artifact, .. } => {
                let repeated = self.history.arrived.insert(*artifact, self.now);
                assert_eq!(repeated, None, "{artifact:?} arrived twice");
            }
            GatherAction::Missing { .. } | GatherAction::ReportCorrupt { .. } => {}
        }
    }

    /// Answers a request after a random time, so that answers of different peers overtake each other.
    fn request(&mut self, transfer: TransferId, peer: &PeerId, artifacts: &[ArtifactId]) {
        let requests = self.history.requests.entry(peer.clone()).or_default();
        requests.push(self.now);
        let number = self.plan.number(peer);
        if self.plan.is_busy(number, self.now) {
            let delay = self.delay(30);
            let refusal = Happening::Refusal(peer.clone(), transfer);
            return self.schedule(self.now + delay, refusal);
        }
        let faults = &self.plan.peers[number].faults;
        let fault = faults.get(self.served[number]).copied();
        self.served[number] += 1;
        let mut copies: BTreeMap<ArtifactId, ReceivedCopy> = artifacts
            .iter()
            .filter(|id| self.plan.has(number, **id, self.now))
            .map(|id| (*id, ReceivedCopy::Valid))
            .collect();
        let outcome = match fault.unwrap_or(Fault::None) {
            Fault::None => TransferOutcome::Answered(copies),
            Fault::Corrupt => {
                copies
                    .values_mut()
                    .for_each(|copy| *copy = ReceivedCopy::Corrupt);
                TransferOutcome::Answered(copies)
            }
            Fault::Withhold => {
                copies.pop_last();
                TransferOutcome::Answered(copies)
            }
            Fault::Break => {
                copies.pop_last();
                TransferOutcome::ConnectionFailed(copies)
            }
        };
        let event = GatherEvent::TransferEnded { transfer, outcome };
        let delay = self.delay(300);
        self.schedule(self.now + delay, Happening::Event(event));
    }

    /// Returns a random time up to so many milliseconds.
    fn delay(&mut self, most: usize) -> Duration {
        Duration::from_micros(1 + self.rng.below(most * 1000) as u64)
    }
}

/// Returns how many answers of keepers have a fault.
pub fn faulty_answers(plan: &WorldPlan) -> usize {
    let keepers: BTreeSet<usize> = plan.artifacts.iter().map(|a| a.keeper).collect();
    let faults = keepers.into_iter().map(|k| plan.peers[k].faults.len());
    faults.sum()
}
