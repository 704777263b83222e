//! A scheduler that behaves well without commands, so that a scenario shows only its subject.
//!
//! The transcript counts heartbeats, healthchecks and the reports of healthchecks instead of showing them. It shows all other effects.

use std::time::Duration;

use brasserie_common::{CallId, CallOutcome, Health, Time};
use brasserie_worker_core::{Call, CallReply, Event};

use crate::transcript::show_duration;
use crate::world::World;

/// The period in which the scheduler sends healthchecks.
const HEALTHCHECK_PERIOD: Duration = Duration::from_secs(60);
/// The maximum number of steps at one moment; more are a loop.
const MAX_STEPS: usize = 1000;

/// The scheduler that plays the routine, and the counts.
#[derive(Default)]
pub struct Routine {
    scheduler: Option<String>,
    state: Option<Health>,
    heartbeats: usize,
    healthchecks: usize,
    /// The number of healthchecks in the whole scenario, which gives their names.
    checks: usize,
    last_check: Option<Time>,
    /// Calls to answer.
    todo: Vec<(CallId, CallKind)>,
}

/// Whether the routine scheduler sends healthchecks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Checks {
    EachPeriod,
    None,
}

#[derive(Clone, Copy)]
enum CallKind {
    Heartbeat,
    Report,
}

impl World {
    /// Returns whether the routine answers this call. Such calls get no names, so that the names in a scenario do not depend on their
    /// number.
    pub fn is_routine_call(&self, call: &Call) -> bool {
        self.routine.scheduler.is_some()
            && match call {
                Call::Heartbeat { .. } => true,
                Call::RequestWork { .. } | Call::ReadMembers => false,
                Call::UpdateStatus { task, .. } => {
                    self.is_routine_run(&self.name_of_run(task.invocation))
                }
            }
    }

    pub fn await_routine(&mut self, id: CallId, call: &Call) {
        let kind = match call {
            Call::Heartbeat { .. } => CallKind::Heartbeat,
            Call::UpdateStatus { .. } => CallKind::Report,
            Call::RequestWork { .. } | Call::ReadMembers => return,
        };
        self.routine.todo.push((id, kind));
    }

    pub fn is_routine_run(&self, run: &str) -> bool {
        run.starts_with("routine-check")
    }

    pub fn is_routine_reply(&self, asked: &str, reply: &str) -> bool {
        asked.starts_with("routine-") && (reply == "ok" || reply == "nothing runs")
    }

    fn answer_routine_calls(&mut self) -> Result<(), String> {
        let Some(scheduler) = self.routine.scheduler.clone() else {
            return Ok(());
        };
        // While the state is held back, the heartbeat answers that carry it are, too.
        let is_held = |world: &World, kind| {
            world.routine.state.is_none() && matches!(kind, CallKind::Heartbeat)
        };
        let mut held = Vec::new();
        while let Some((call, kind)) = self.routine.todo.pop() {
            if is_held(self, kind) {
                held.push((call, kind));
                continue;
            }
            let reply = match kind {
                CallKind::Heartbeat => {
                    self.routine.heartbeats += 1;
                    let state = self.routine.state.unwrap_or(Health::Healthy);
                    CallReply::Heartbeat(Box::new(self.response(&scheduler, state)?))
                }
                CallKind::Report => CallReply::Acknowledged,
            };
            let outcome = CallOutcome::Done(reply);
            self.event(Event::CallCompleted { call, outcome })?;
        }
        self.routine.todo = held;
        Ok(())
    }

    fn routine_check(&mut self, new: &str) -> Result<(), String> {
        let Some(scheduler) = self.routine.scheduler.clone() else {
            return Ok(());
        };
        self.routine.checks += 1;
        self.routine.healthchecks += 1;
        self.routine.last_check = Some(self.now);
        let name = format!("routine-check#{}", self.routine.checks);
        self.command(&format!("healthcheck {name} from {scheduler}{new}"))?;
        self.command(&format!("end {name} done"))?;
        self.answer_routine_calls()
    }

    /// Plays all steps by which a scheduler makes a worker HEALTHY that has just started.
    pub fn join(&mut self, scheduler: &str) -> Result<(), String> {
        self.begin(scheduler)?;
        let mut open = self
            .calls
            .keys()
            .filter(|name| name.starts_with("heartbeat"));
        let first = open.next().cloned();
        let first = first.ok_or_else(|| "no heartbeat is open".to_owned())?;
        let response = self.response(scheduler, Health::New)?;
        let answer = CallReply::Heartbeat(Box::new(response));
        // The answer to the second heartbeat waits until everything else is done.
        self.routine.state = None;
        self.complete(&first, CallOutcome::Done(answer))?;
        let id = self.scheduler(scheduler)?.id;
        self.fetch("routine-fetch", Some(id), Self::own_id())?;
        self.routine_check(" new-worker")?;
        self.routine.state = Some(Health::Healthy);
        self.answer_routine_calls()?;
        self.note_state(scheduler, Health::Healthy);
        let worker = self.own()?;
        let (health, set) = (worker.health(), worker.worker_set());
        if health != Health::Healthy {
            return Err(format!("it does not become HEALTHY: {:?}", self.out));
        }
        let set = self.name_of_set(&set);
        self.say(format!("HEALTHY with {scheduler}, set {set}"));
        self.end_routine();
        Ok(())
    }

    fn begin(&mut self, scheduler: &str) -> Result<(), String> {
        self.scheduler(scheduler)?;
        self.routine.scheduler = Some(scheduler.to_owned());
        (self.routine.heartbeats, self.routine.healthchecks) = (0, 0);
        Ok(())
    }

    fn end_routine(&mut self) {
        self.routine.scheduler = None;
        self.routine.todo.clear();
    }

    /// Moves the clock. The scheduler, if one is named, repeats its last answer and sends healthchecks.
    pub fn advance(
        &mut self,
        d: Duration,
        scheduler: Option<&str>,
        checks: Checks,
    ) -> Result<(), String> {
        let Some(scheduler) = scheduler else {
            return self.pass(d);
        };
        self.begin(scheduler)?;
        let state = self.scheduler(scheduler)?.state;
        self.routine.state = Some(state);
        let last_check = self.routine.last_check;
        if checks == Checks::None {
            self.routine.last_check = None;
        }
        self.pass(d)?;
        let (beats, done) = (self.routine.heartbeats, self.routine.healthchecks);
        let state = state.as_str();
        self.say(format!(
            "meanwhile {scheduler}: {beats} heartbeats answered {state}, {done} healthchecks done"
        ));
        self.routine.last_check = self.routine.last_check.or(last_check);
        self.end_routine();
        Ok(())
    }

    /// Handles each timer when it is due, and stamps new output with the time.
    fn pass(&mut self, d: Duration) -> Result<(), String> {
        let (began, end) = (self.now, self.now + d);
        let mut steps = 0;
        loop {
            let shown = self.out.len();
            let check = self.next_check();
            let timer = self.core()?.poll_timeout();
            let next = timer.into_iter().chain(check).min();
            let Some(at) = next.filter(|at| *at <= end) else {
                break;
            };
            steps = if at <= self.now { steps + 1 } else { 0 };
            if steps > MAX_STEPS {
                return Err("the worker does not come to rest".to_owned());
            }
            self.now = self.now.max(at);
            self.look()?;
            self.answer_routine_calls()?;
            if check.is_some_and(|at| at <= self.now) {
                self.routine_check("")?;
            }
            self.stamp(shown, began);
        }
        let shown = self.out.len();
        self.now = end;
        self.look()?;
        self.answer_routine_calls()?;
        self.stamp(shown, began);
        Ok(())
    }

    fn next_check(&self) -> Option<Time> {
        self.routine.scheduler.as_ref()?;
        Some(self.routine.last_check? + HEALTHCHECK_PERIOD)
    }

    /// Adds the time to the output from this line on.
    fn stamp(&mut self, from: usize, began: Time) {
        if self.out.len() > from {
            let at = format!("after {}:", show_duration(self.now.since(began)));
            if !self.out[..from].contains(&at) {
                self.out.insert(from, at);
            }
        }
    }
}
