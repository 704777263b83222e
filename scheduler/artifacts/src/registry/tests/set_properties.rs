//! Random histories of sets and sessions against a plain model.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::super::super::sets::{SetEnding, SetOwner, SetRetention, SetState, SetTerms};
use super::super::super::types::OwnerId;
use super::*;

const TIMEOUT: u64 = 300;
const JOBS: [&str; 3] = ["a", "b", "c"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Retention {
    UntilConsumed,
    Seconds(u64),
    Forever,
}

#[derive(Clone, Debug)]
enum Step {
    Define(usize, Option<u8>, Retention),
    Consumers(usize, bool),
    UnfinishedProducers(usize, u64),
    UnfinishedConsumers(usize, u64),
    Write(usize),
    Consume(usize),
    Delete(usize),
    Forget(usize),
    Heartbeat(u8),
    EndOwner(u8),
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let job = || 0..JOBS.len();
    let retention = prop_oneof![
        Just(Retention::UntilConsumed),
        (1..200_u64).prop_map(Retention::Seconds),
        Just(Retention::Forever),
    ];
    prop_oneof![
        3 => (job(), option::of(0..2_u8), retention).prop_map(|(j, o, r)| Step::Define(j, o, r)),
        2 => (job(), any::<bool>()).prop_map(|(job, some)| Step::Consumers(job, some)),
        // Most sets become idle now and then.
        4 => (job(), 0..2_u64).prop_map(|(job, tasks)| Step::UnfinishedProducers(job, tasks)),
        4 => (job(), 0..2_u64).prop_map(|(job, tasks)| Step::UnfinishedConsumers(job, tasks)),
        3 => job().prop_map(Step::Write),
        1 => job().prop_map(Step::Consume),
        1 => job().prop_map(Step::Delete),
        1 => job().prop_map(Step::Forget),
        3 => (0..2_u8).prop_map(Step::Heartbeat),
        1 => (0..2_u8).prop_map(Step::EndOwner),
        6 => prop_oneof![1..50_u64, 50..400_u64].prop_map(Step::Pass),
    ]
}

#[derive(Clone, Debug)]
struct ModelSet {
    owner: Option<u8>,
    retention: Retention,
    has_consumers: bool,
    producers: Option<u64>,
    consumers: Option<u64>,
    touched: u64,
    idle_since: Option<u64>,
    deleted: Option<u64>,
    is_ownerless: bool,
    is_live: bool,
}

impl ModelSet {
    fn new(now: u64) -> Self {
        ModelSet {
            owner: None,
            retention: Retention::Forever,
            has_consumers: false,
            producers: None,
            consumers: None,
            touched: now,
            idle_since: None,
            deleted: None,
            is_ownerless: false,
            is_live: true,
        }
    }

    fn is_idle(&self) -> bool {
        self.producers == Some(0) && self.consumers == Some(0)
    }

    /// Returns all times at which something would make the set expire.
    fn due(&self) -> impl Iterator<Item = u64> {
        let by_retention = match self.retention {
            Retention::UntilConsumed if self.has_consumers => self.idle_since.map(|at| at + GRACE),
            Retention::Seconds(seconds) => Some(self.touched + seconds),
            Retention::UntilConsumed | Retention::Forever => None,
        };
        let by_owner = self.is_ownerless.then_some(0);
        let by_deletion = self.deleted.map(|at| at + GRACE);
        let due = [by_retention, by_owner, by_deletion];
        let counts = self.is_live && self.is_idle();
        due.into_iter().flatten().filter(move |_| counts)
    }
}

#[derive(Clone, Debug, Default)]
struct Model {
    sets: BTreeMap<usize, ModelSet>,
    sessions: BTreeMap<u8, u64>,
}

impl Model {
    fn set(&mut self, job: usize, now: u64) -> &mut ModelSet {
        self.sets.entry(job).or_insert_with(|| ModelSet::new(now))
    }

    fn take(&mut self, step: &Step, now: u64) {
        match step {
            Step::Define(job, owner, retention) => self.define(*job, *owner, *retention, now),
            Step::Consumers(job, some) => {
                let set = self.set(*job, now);
                if set.has_consumers != *some {
                    set.idle_since = None;
                }
                set.has_consumers = *some;
            }
            Step::UnfinishedProducers(job, tasks) => self.set(*job, now).producers = Some(*tasks),
            Step::UnfinishedConsumers(job, tasks) => self.set(*job, now).consumers = Some(*tasks),
            Step::Write(job) => {
                let set = self.set(*job, now);
                (set.touched, set.is_live, set.idle_since) = (now, true, None);
            }
            Step::Consume(job) => {
                if let Some(set) = self.sets.get_mut(job) {
                    set.touched = now;
                }
            }
            Step::Delete(job) => {
                if let Some(set) = self.sets.get_mut(job) {
                    set.deleted.get_or_insert(now);
                }
            }
            Step::Forget(job) => {
                let is_ended = |set: &ModelSet| set.is_ownerless || set.deleted.is_some();
                if self.sets.get(job).is_some_and(is_ended) {
                    self.sets.remove(job);
                }
            }
            Step::Heartbeat(owner) => {
                self.sessions.insert(*owner, now);
            }
            Step::EndOwner(owner) => self.end(*owner),
            Step::Pass(_) => {}
        }
        for set in self.sets.values_mut() {
            let since = set.idle_since.unwrap_or(now);
            set.idle_since = set.is_idle().then_some(since);
        }
    }

    fn define(&mut self, job: usize, owner: Option<u8>, retention: Retention, now: u64) {
        let set = self.set(job, now);
        if set.owner != owner {
            set.is_ownerless = false;
        }
        (set.owner, set.retention, set.deleted) = (owner, retention, None);
        let is_ownerless = set.is_ownerless;
        if let Some(owner) = owner.filter(|_| !is_ownerless) {
            self.sessions.insert(owner, now);
        }
    }

    fn end(&mut self, owner: u8) {
        if self.sessions.remove(&owner).is_some() {
            let owned = self.sets.values_mut();
            for set in owned.filter(|set| set.owner == Some(owner)) {
                set.is_ownerless = true;
            }
        }
    }

    fn expire(&mut self, now: u64) -> BTreeSet<usize> {
        let silent = self.sessions.iter();
        let silent = silent.filter(|(_, last)| *last + TIMEOUT <= now);
        let silent: Vec<u8> = silent.map(|(owner, _)| *owner).collect();
        for owner in silent {
            self.end(owner);
        }
        let is_due = |set: &ModelSet| set.due().any(|due| due <= now);
        let due = self.sets.iter_mut().filter(|(_, set)| is_due(set));
        due.map(|(job, set)| {
            set.is_live = false;
            *job
        })
        .collect()
    }

    fn next_expiry(&self) -> Option<u64> {
        let sets = self.sets.values().flat_map(ModelSet::due);
        let sessions = self.sessions.values().map(|last| last + TIMEOUT);
        sets.chain(sessions).min()
    }
}

fn session(number: u8) -> OwnerId {
    OwnerId(format!("session{number}").into())
}

fn apply(registry: &mut Registry, step: &Step, at: u64) {
    let now = clocks(at);
    match step {
        Step::Define(number, owner, retention) => {
            let terms = SetTerms {
                owner: owner.map_or(SetOwner::Scheduler, |owner| {
                    SetOwner::Session(session(owner))
                }),
                retention: match retention {
                    Retention::UntilConsumed => SetRetention::UntilConsumed,
                    Retention::Seconds(seconds) => SetRetention::For(Duration::from_secs(*seconds)),
                    Retention::Forever => SetRetention::Forever,
                },
            };
            registry.define_set(&job(JOBS[*number]), terms, now);
        }
        Step::Consumers(number, some) => {
            let consumers = if *some { jobs(&["z"]) } else { jobs(&[]) };
            registry.set_consumers(&job(JOBS[*number]), consumers, now);
        }
        Step::UnfinishedProducers(number, tasks) => {
            registry.set_unfinished_producers(&job(JOBS[*number]), *tasks, now);
        }
        Step::UnfinishedConsumers(number, tasks) => {
            registry.set_unfinished_consumers(&job(JOBS[*number]), *tasks, now);
        }
        Step::Write(number) => {
            let task = key(JOBS[*number], "1");
            let outputs = vec![output("x", u8::try_from(*number).expect("few"))];
            registry.record(&task, run(1), outputs, Replicas::ONE, now);
        }
        Step::Consume(number) => registry.consumed(&key(JOBS[*number], "1"), now),
        Step::Delete(number) => registry.delete_job(&job(JOBS[*number]), now),
        Step::Forget(number) => registry.forget_job(&job(JOBS[*number]), now.time),
        Step::Heartbeat(owner) => {
            registry.owner_heartbeat(&session(*owner), now.time);
        }
        Step::EndOwner(owner) => registry.end_owner(&session(*owner), now),
        Step::Pass(_) => {}
    }
}

/// Checks the states of all sets, and that outputs count exactly while their set lives.
fn check(registry: &Registry, model: &Model) {
    registry.check();
    let lost = lost(registry);
    for (number, name) in JOBS.iter().enumerate() {
        let set = registry.set(&job(name));
        let expected = model.sets.get(&number);
        assert_eq!(set.is_some(), expected.is_some(), "{name}");
        let (Some(set), Some(expected)) = (set, expected) else {
            continue;
        };
        assert_eq!(set.state == SetState::Live, expected.is_live, "{name}");
        let is_ownerless = set.ending == Some(SetEnding::OwnerExpired);
        assert_eq!(is_ownerless, expected.is_ownerless, "{name}");
        assert_eq!(set.expires, expected.due().min().map(second), "{name}");
        let number = u8::try_from(number).expect("few");
        let counts = set.tasks == 1 && expected.is_live;
        assert_eq!(lost.contains(&number), counts, "{name}");
    }
}

integration_tests_properties::properties! {
    300;

    #[test]
    fn sets_and_sessions_expire_as_in_the_plain_model(steps in vec(step(), 1..80)) {
        let mut registry = registry(0);
        let mut model = Model::default();
        let mut now = 0;
        for step in &steps {
            if let Step::Pass(seconds) = step {
                now += seconds;
            }
            apply(&mut registry, step, now);
            model.take(step, now);
            let expired: BTreeSet<JobName> = registry.expire(clocks(now)).into_iter().collect();
            let expected = model.expire(now).into_iter();
            let expected: BTreeSet<JobName> = expected.map(|number| job(JOBS[number])).collect();
            prop_assert_eq!(expired, expected);
            prop_assert_eq!(registry.next_expiry(), model.next_expiry().map(second));
            check(&registry, &model);
        }
    }
}
