//! The world of a scenario: a worker core with virtual time, and processes and schedulers that the scenario plays.

use std::collections::BTreeMap;
use std::time::Duration;

use brasserie_common::{
    BackoffDuration, CallId, CallOutcome, Health, InvocationId, JobName, NodeName, RequestId,
    RunningTask, SchedulerId, Shard, Time, WorkerDescription, WorkerId, WorkerSetId,
};
use brasserie_worker_core::{Association, AssociationIndex, CallReply, Event, Options, Worker};

use crate::routine::Routine;
use crate::transcript::Player;

/// The start time, which is later than every wait of the core, so that no wait begins before time 0.
const FIRST_TIME: Duration = Duration::from_secs(1000);
/// The worker under test, named w1.
pub const OWN: (i64, i64) = (50, 5);
/// Another worker instance, named w9.
pub const OTHER: (i64, i64) = (40, 9);

/// A scheduler that the scenario plays.
#[derive(Clone)]
pub struct Peer {
    pub id: SchedulerId,
    /// The version of its worker set.
    pub version: i64,
    /// The state of the worker in its last answer.
    pub state: Health,
}

pub struct World {
    pub now: Time,
    pub worker: Option<Worker>,
    pub schedulers: BTreeMap<String, Peer>,
    pub runs: BTreeMap<String, RunningTask>,
    pub calls: BTreeMap<String, CallId>,
    pub asked: BTreeMap<RequestId, String>,
    pub routine: Routine,
    pub out: Vec<String>,
    heartbeats: usize,
    reports: usize,
    requests: u64,
}

impl World {
    pub fn new() -> Self {
        World {
            now: Time::ZERO + FIRST_TIME,
            worker: None,
            schedulers: BTreeMap::new(),
            runs: BTreeMap::new(),
            calls: BTreeMap::new(),
            asked: BTreeMap::new(),
            routine: Routine::default(),
            out: Vec::new(),
            heartbeats: 0,
            reports: 0,
            requests: 0,
        }
    }

    pub fn say(&mut self, line: impl Into<String>) {
        self.out.push(line.into());
    }

    pub fn core(&mut self) -> Result<&mut Worker, String> {
        self.worker
            .as_mut()
            .ok_or_else(|| "no worker runs; `start` one".to_owned())
    }

    /// Returns the worker's only association.
    pub fn own(&mut self) -> Result<&Association, String> {
        Ok(self.core()?.association(AssociationIndex::FIRST))
    }

    pub fn own_id() -> WorkerId {
        WorkerId::new(OWN.0, OWN.1)
    }

    pub fn options() -> Result<Options, String> {
        Ok(Options::new(WorkerDescription {
            id: Self::own_id(),
            shard: Shard::try_from("a").map_err(|e| e.to_string())?,
            heartbeat_period: Duration::from_secs(15),
            ..WorkerDescription::default()
        }))
    }

    pub fn event(&mut self, event: Event) -> Result<(), String> {
        let now = self.now;
        self.core()?.handle(now, event);
        self.drain()
    }

    pub fn connection_lost(&mut self) -> Result<(), String> {
        let association = AssociationIndex::FIRST;
        self.event(Event::ConnectionLost { association })
    }

    /// Makes a turn without an event.
    pub fn look(&mut self) -> Result<(), String> {
        let now = self.now;
        self.core()?.handle_timeout(now);
        self.drain()
    }

    fn drain(&mut self) -> Result<(), String> {
        while let Some(effect) = self.core()?.poll_effect() {
            self.effect(effect)?;
        }
        Ok(())
    }

    pub fn ask(&mut self, text: &str) -> RequestId {
        self.requests += 1;
        let request = RequestId(self.requests);
        self.asked.insert(request, text.to_owned());
        request
    }

    pub fn next_heartbeat(&mut self) -> String {
        self.heartbeats += 1;
        format!("heartbeat#{}", self.heartbeats)
    }

    pub fn next_report(&mut self) -> String {
        self.reports += 1;
        format!("report#{}", self.reports)
    }

    pub fn complete(&mut self, call: &str, outcome: CallOutcome<CallReply>) -> Result<(), String> {
        let call = self
            .calls
            .remove(call)
            .ok_or_else(|| format!("no open call is called `{call}`"))?;
        self.event(Event::CallCompleted { call, outcome })
    }

    pub fn scheduler(&self, name: &str) -> Result<&Peer, String> {
        self.schedulers
            .get(name)
            .ok_or_else(|| format!("no scheduler is called `{name}`"))
    }

    pub fn note_state(&mut self, scheduler: &str, state: Health) {
        if let Some(peer) = self.schedulers.get_mut(scheduler) {
            peer.state = state;
        }
    }

    pub fn run(&self, name: &str) -> Result<&RunningTask, String> {
        self.runs
            .get(name)
            .ok_or_else(|| format!("no run is called `{name}`"))
    }

    /// Creates a run and records it under this name.
    pub fn new_run(&mut self, name: &str, job: &str, node: &str) -> Result<RunningTask, String> {
        let number = i64::try_from(self.runs.len()).map_err(|e| e.to_string())? + 1;
        let text = |e: brasserie_common::ids::NameError| e.to_string();
        let task = RunningTask {
            job: JobName::try_from(job).map_err(text)?,
            node: NodeName::try_from(node).map_err(text)?,
            invocation: InvocationId::new(2000, number),
            shard: Shard::try_from("a").map_err(text)?,
            resources: Vec::new(),
            gpus: Vec::new(),
            gpus_wanted: None,
            next_backoff: BackoffDuration::default(),
            suicide_kill_wait: Duration::from_secs(5),
            physical: None,
            fence: None,
            worker_slots: None,
            outputs: Vec::new(),
            ended: None,
            story: None,
            work: Default::default(),
        };
        self.runs.insert(name.to_owned(), task.clone());
        Ok(task)
    }

    pub fn name_of_run(&self, id: InvocationId) -> String {
        let found = self.runs.iter().find(|(_, task)| task.invocation == id);
        found.map_or_else(|| format!("unknown {id}"), |(name, _)| name.clone())
    }

    pub fn name_of_scheduler(&self, id: SchedulerId) -> String {
        let found = self.schedulers.iter().find(|(_, peer)| peer.id == id);
        found.map_or_else(|| format!("unknown {id}"), |(name, _)| name.clone())
    }

    pub fn name_of_set(&self, set: &WorkerSetId) -> String {
        if *set == WorkerSetId::default() {
            return "no set".to_owned();
        }
        format!("{}/{}", self.name_of_scheduler(set.scheduler), set.version)
    }

    /// Replaces ids in a text for people by names.
    pub fn in_text(&self, text: &str) -> String {
        let own = (Self::own_id().to_string(), "w1".to_owned());
        let other = WorkerId::new(OTHER.0, OTHER.1);
        let other = (other.to_string(), "w9".to_owned());
        let schedulers = self.schedulers.iter();
        let schedulers = schedulers.map(|(name, peer)| (peer.id.to_string(), name.clone()));
        let runs = self.runs.iter();
        let runs = runs.map(|(name, task)| (task.invocation.to_string(), name.clone()));
        let all = [own, other].into_iter().chain(schedulers).chain(runs);
        all.fold(text.to_owned(), |text, (id, name)| text.replace(&id, &name))
    }
}

impl Player for World {
    fn play(&mut self, command: &str) -> Result<Vec<String>, String> {
        self.command(command)?;
        Ok(std::mem::take(&mut self.out))
    }

    fn unshown(&mut self) -> Vec<String> {
        let mut left = std::mem::take(&mut self.out);
        if let Some(core) = &mut self.worker {
            left.extend(std::iter::from_fn(|| core.poll_effect()).map(|e| format!("{e:?}")));
        }
        left
    }
}
