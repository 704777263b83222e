//! Plays workers that behave well, so that a scenario shows only what it is about.
//!
//! A fixed set of events is counted instead of shown: heartbeat answers without news, healthchecks that succeed, and, during a join, empty
//! lists of running tasks. Everything else is shown.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use brasserie_common::{CallOutcome, Health, Principal, ReportedStatus, Story, Time};
use brasserie_scheduler_core::{Call, CallReply, Event, Reply, StatusUpdate};

use crate::transcript::show_duration;
use crate::world::{Asked, World};

/// The most rounds at one moment. A joining worker needs three or four.
const MAX_ROUNDS: usize = 10;
/// The longest join of a worker: two heartbeat periods after the kill margin.
const MAX_JOIN: Duration = Duration::from_secs(120);
/// The most steps at one moment; more count as an endless loop.
const MAX_STEPS: usize = 1000;

/// The workers that behave well now, and the events counted for them.
#[derive(Default)]
pub struct Routine {
    workers: BTreeSet<String>,
    is_joining: bool,
    /// Workers whose last answer was HEALTHY.
    healthy: BTreeSet<String>,
    counts: BTreeMap<String, Counted>,
    /// Names of the calls to answer.
    pub todo: Vec<String>,
    unanswered: Unanswered,
}

/// The treatment of healthchecks and fetches of the other workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unanswered {
    #[default]
    Shown,
    Counted,
}

#[derive(Default)]
struct Counted {
    heartbeats: usize,
    healthchecks: usize,
    unanswered_checks: usize,
    unanswered_fetches: usize,
}

impl Counted {
    /// Returns the line that stands for all events that were not shown.
    fn text(&self) -> String {
        let lost = [
            (self.unanswered_checks, "healthchecks without an answer"),
            (self.unanswered_fetches, "fetches without an answer"),
        ];
        let lost = lost.iter().filter(|(count, _)| *count > 0);
        let lost: Vec<String> = lost.map(|(n, what)| format!("{n} {what}")).collect();
        if lost.is_empty() {
            format!(
                "{} heartbeats answered HEALTHY, {} healthchecks done",
                self.heartbeats, self.healthchecks
            )
        } else {
            lost.join(", ")
        }
    }
}

impl World {
    /// Returns whether a reply is routine: a heartbeat answer without news, or the acknowledgement of a healthcheck, for a worker that
    /// behaves well.
    pub fn is_routine_reply(&mut self, asked: &Asked, reply: &Reply) -> bool {
        let Asked::Heartbeat { worker } = asked else {
            return matches!(asked, Asked::Other { text } if text == ROUTINE_CHECK)
                && *reply == Reply::UpdateStatus(Ok(()));
        };
        let Reply::Heartbeat(Ok(response)) = reply else {
            return false;
        };
        if !self.routine.workers.contains(worker) {
            return false;
        }
        let is_no_news = response.worker_state == Health::Healthy
            && self
                .peers
                .get(worker)
                .is_some_and(|peer| peer.told == peer.keeps(response.worker_set));
        let is_joining = self.routine.is_joining && response.worker_state != Health::MustDie;
        if is_no_news || is_joining {
            let counted = self.routine.counts.entry(worker.clone()).or_default();
            counted.heartbeats += 1;
        }
        if response.worker_state == Health::Healthy {
            self.routine.healthy.insert(worker.clone());
        }
        is_no_news || is_joining
    }

    /// Returns the kind of a call that a worker which behaves well will answer, if it is such a call.
    pub fn routine_kind(&self, worker: &str, call: &Call) -> Option<&'static str> {
        if !self.routine.workers.contains(worker) {
            return None;
        }
        match call {
            Call::Healthcheck(_) => Some("routine-check"),
            Call::GetRunningTasks { .. } if self.routine.is_joining => Some("routine-fetch"),
            Call::GetRunningTasks { .. }
            | Call::RunTask(_)
            | Call::NotifyIfTasksNotRunning { .. }
            | Call::RequestSuicide { .. }
            | Call::Drain { .. }
            | Call::KillTask { .. } => None,
        }
    }

    /// Counts a call that gets no answer, if such calls are only counted. Returns whether it did.
    pub fn is_counted_unanswered(&mut self, worker: &str, call: &Call) -> bool {
        let is_shown = self.routine.unanswered == Unanswered::Shown;
        if is_shown || self.routine.workers.contains(worker) {
            return false;
        }
        let counted = self.routine.counts.entry(worker.to_owned());
        match call {
            Call::Healthcheck(_) => counted.or_default().unanswered_checks += 1,
            Call::GetRunningTasks { .. } => counted.or_default().unanswered_fetches += 1,
            Call::RunTask(_)
            | Call::NotifyIfTasksNotRunning { .. }
            | Call::RequestSuicide { .. }
            | Call::Drain { .. }
            | Call::KillTask { .. } => return false,
        }
        true
    }

    fn answer_routine_calls(&mut self) -> Result<(), String> {
        while let Some(name) = self.routine.todo.pop() {
            let open = self.calls.remove(&name).ok_or("the call is open")?;
            let reply = if name.starts_with("routine-fetch") {
                CallReply::RunningTasks(Vec::new())
            } else {
                CallReply::Empty
            };
            self.complete(open.id, CallOutcome::Done(reply))?;
            if name.starts_with("routine-check") {
                let worker = self.names.worker(open.worker);
                let counted = self.routine.counts.entry(worker.clone()).or_default();
                counted.healthchecks += 1;
                self.report(&worker, &name, ReportedStatus::done(), ROUTINE_CHECK)?;
            }
        }
        Ok(())
    }

    /// Sends `updateStatus` as the worker would.
    pub fn report(
        &mut self,
        worker: &str,
        run: &str,
        status: ReportedStatus,
        asked: &str,
    ) -> Result<(), String> {
        let id = self.peer(worker)?.description.id;
        let scheduler = self.core()?.id();
        self.report_as(id, scheduler, run, (status, None), asked)
    }

    pub fn report_as(
        &mut self,
        worker: brasserie_common::WorkerId,
        scheduler: brasserie_common::SchedulerId,
        run: &str,
        (status, story): (ReportedStatus, Option<Arc<Story>>),
        asked: &str,
    ) -> Result<(), String> {
        let task = self.tasks.get(run);
        let task = task.ok_or_else(|| format!("no run is called `{run}`"))?;
        let update = Box::new(StatusUpdate {
            story,
            job: task.job.clone(),
            node: task.node.clone(),
            shard: task.shard.clone(),
            invocation: task.invocation,
            next_backoff: task.next_backoff,
            gpus: task.gpus.clone(),
            status,
            outputs: Vec::new(),
            scheduler,
            worker,
        });
        let request = self.ask(Asked::Other {
            text: asked.to_owned(),
        });
        self.event(Event::UpdateStatus {
            request,
            from: Principal::Own,
            update,
        })
    }

    fn beat(&mut self, worker: &str) -> Result<(), String> {
        let peer = self.peer(worker)?;
        let (description, told) = (peer.description.clone(), peer.told);
        self.heartbeat(worker, description, told, false)?;
        self.answer_routine_calls()
    }

    /// Lets these workers do everything that makes them HEALTHY, with no running tasks.
    pub fn join(&mut self, workers: &[&str]) -> Result<(), String> {
        let began = self.now;
        self.routine = Routine {
            workers: workers.iter().map(|&w| w.to_owned()).collect(),
            is_joining: true,
            ..Routine::default()
        };
        while !self.have_joined() {
            for _ in 0..MAX_ROUNDS {
                self.routine.healthy.clear();
                for worker in workers {
                    self.beat(worker)?;
                }
                if self.have_joined() {
                    break;
                }
            }
            if self.have_joined() {
                break;
            }
            if self.now > began + MAX_JOIN {
                let lines = std::mem::take(&mut self.out);
                return Err(format!("they do not become HEALTHY: {lines:#?}"));
            }
            self.pass(Duration::from_secs(1))?;
        }
        let took = self.now.since(began);
        let took = if took.is_zero() {
            String::new()
        } else {
            format!(" after {}", show_duration(took))
        };
        let told = self.peer(workers[0])?.told;
        let set = self.names.set(&told);
        self.say(format!("HEALTHY{took}: {}; set {set}", workers.join(" ")));
        self.routine = Routine::default();
        Ok(())
    }

    fn have_joined(&self) -> bool {
        self.routine.healthy == self.routine.workers
    }

    /// Lets time pass while these workers send their heartbeats and answer their healthchecks.
    pub fn advance(
        &mut self,
        d: Duration,
        unanswered: Unanswered,
        workers: &[&str],
    ) -> Result<(), String> {
        self.routine = Routine {
            workers: workers.iter().map(|&w| w.to_owned()).collect(),
            unanswered,
            ..Routine::default()
        };
        self.pass(d)?;
        let routine = std::mem::take(&mut self.routine);
        for (worker, counted) in routine.counts {
            self.say(format!("meanwhile {worker}: {}", counted.text()));
        }
        Ok(())
    }

    /// Serves every timer and heartbeat when it is due, and shows when there was output.
    fn pass(&mut self, d: Duration) -> Result<(), String> {
        let (began, end) = (self.now, self.now + d);
        let mut steps = 0;
        loop {
            let shown = self.out.len();
            let next_beat = self.next_beat();
            let timer = self.core()?.poll_timeout();
            let next = timer
                .into_iter()
                .chain(next_beat.as_ref().map(|(at, _)| *at))
                .min();
            let Some(at) = next.filter(|at| *at <= end) else {
                break;
            };
            steps = if at <= self.now { steps + 1 } else { 0 };
            if steps > MAX_STEPS {
                return Err("the scheduler does not come to rest".to_owned());
            }
            self.now = self.now.max(at);
            self.look()?;
            self.answer_routine_calls()?;
            if let Some((at, worker)) = next_beat
                && at <= self.now
            {
                self.beat(&worker)?;
            }
            self.stamp(shown, began);
        }
        let shown = self.out.len();
        self.now = end;
        self.look()?;
        self.stamp(shown, began);
        Ok(())
    }

    /// Returns when the first of the well-behaved workers sends its next heartbeat. A joining worker sends heartbeats in rounds instead.
    fn next_beat(&self) -> Option<(Time, String)> {
        let workers = self
            .routine
            .workers
            .iter()
            .filter(|_| !self.routine.is_joining);
        let peers = workers.filter_map(|name| Some((name, self.peers.get(name)?)));
        peers
            .map(|(name, peer)| {
                let due = peer.last_beat + peer.description.heartbeat_period;
                (due, name.clone())
            })
            .min()
    }

    /// Adds a line with the time before the output from index `from` on.
    fn stamp(&mut self, from: usize, began: Time) {
        if self.out.len() > from {
            let at = format!("after {}:", show_duration(self.now.since(began)));
            if !self.out[..from].contains(&at) {
                self.out.insert(from, at);
            }
        }
    }
}

/// The text that identifies the acknowledgement of a healthcheck which is only counted.
const ROUTINE_CHECK: &str = "a healthcheck that is only counted";
