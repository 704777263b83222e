//! The worker: it dispatches events to associations, performs what is due, and restarts associations that are over or ends the program.

use std::hash::Hasher;
use std::sync::Arc;

use brasserie_common::fingerprint::{Canon, Shape, fingerprint_of};
use brasserie_common::{CallId, CallOutcome, InvocationId, TaskKey, Time, WallTime, WorkerId};
use brasserie_worker_fetch::{AssociationIndex, SavedState};

use crate::association::Association;
use crate::config::Options;
use crate::effect::{Effect, ExitReason, Outbox, Reply};
use crate::event::{CallReply, Event, RunTask};
use crate::fetching::{Fetching, Turns, ask_for_work, choose_runs, fetches_none};
use crate::machine::Machine;
use crate::queue::begin_queued;
use crate::requests::Elsewhere;
use crate::suicide::Life;
use crate::timer::earliest;
use crate::turn::Turn;

/// A worker's side of the protocol: one association for each scheduler, and the machine that they share. To each scheduler, the worker
/// looks like one that has this scheduler only.
#[derive(Clone, Debug)]
pub struct Worker {
    associations: Vec<Association>,
    machine: Machine,
    operator: Operator,
    out: Outbox,
    /// The latest time of all calls. Time never goes back here, even if a caller passes an earlier time.
    now: Time,
}

/// Whether the operator has asked the worker to end.
///
/// ```text
///   CONTENT --drain, shutdown--> WANTS_AN_END --every association is over--> HAS_IT
///      |                                                                       ^
///      +--- the only association is over --------------------------------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Operator {
    /// An association that is over begins anew if there are others.
    Content,
    /// No association begins anew.
    WantsAnEnd,
    /// The worker has returned [`Effect::Exit`].
    HasIt,
}

impl Worker {
    pub fn new(options: Options, now: Time) -> Worker {
        let options = Arc::new(options.normalised());
        assert!(
            !options.associations.is_empty(),
            "Invariant: a worker works for somebody"
        );
        let own = options.associations.iter().cloned().enumerate();
        let associations = own.map(|(at, own)| {
            Association::new(AssociationIndex(at), Arc::clone(&options), own, now)
        });
        let fetching = options.work_fetch.as_ref();
        let fetching = fetching.map(|own| Box::new(Fetching::new(&options, own, now)));
        Worker {
            associations: associations.collect(),
            machine: Machine::new(&options.description.usable, fetching),
            operator: Operator::Content,
            out: Outbox::default(),
            now,
        }
    }

    /// Handles one event. Judges health first, so that a worker whose machine wakes up does not act on outdated health.
    pub fn handle(&mut self, now: Time, event: Event) {
        self.turn(now, Some(event));
    }

    /// Performs what is due.
    pub fn handle_timeout(&mut self, now: Time) {
        self.turn(now, None);
    }

    /// Returns when [`Worker::handle_timeout`] next has something to do; always later than the last handled time.
    pub fn poll_timeout(&self) -> Option<Time> {
        let waiting = self.machine.queue.len() + self.machine.stopped();
        let fetching = self.machine.fetching.as_ref();
        let fetching = fetching.filter(|_| self.operator != Operator::HasIt);
        let own = self.associations.iter().map(|one| one.due(self.now));
        earliest(own.chain([fetching.map(|fetching| fetching.due(waiting))]))
    }

    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.out.pop()
    }

    fn turn(&mut self, now: Time, event: Option<Event>) {
        self.now = self.now.max(now);
        let mut turn = Turn {
            now: self.now,
            out: &mut self.out,
            machine: &mut self.machine,
            over: Vec::new(),
        };
        if let Some(event) = event {
            for association in &mut self.associations {
                association.judge_health(&mut turn);
            }
            hear(&mut self.associations, &mut self.operator, &mut turn, event);
        }
        advance(&mut self.associations, &mut turn);
        let over = turn.over;
        self.see_off(over);
    }

    /// Requests new instances for associations that are over, or ends the program.
    fn see_off(&mut self, over: Vec<(AssociationIndex, ExitReason)>) {
        match self.operator {
            Operator::Content if self.associations.len() > 1 => {
                for (association, _) in over {
                    let after = self.associations[association.0].instance();
                    self.out.push(Effect::NewInstance { association, after });
                }
            }
            Operator::Content => {
                if let Some((_, reason)) = over.into_iter().next() {
                    self.exit(reason);
                }
            }
            Operator::WantsAnEnd => {
                let mut lives = self.associations.iter().map(|one| &one.life);
                if lives.all(|life| *life == Life::Gone) {
                    let own = over.into_iter().next().map(|(_, reason)| reason);
                    let own = own.filter(|_| self.associations.len() == 1);
                    // An association that had to end earlier is not the reason for the end of a worker with several.
                    self.exit(own.unwrap_or(ExitReason::Shutdown));
                }
            }
            Operator::HasIt => {}
        }
    }

    fn exit(&mut self, reason: ExitReason) {
        self.operator = Operator::HasIt;
        self.out.push(Effect::Exit { reason });
    }

    /// Returns the associations in the order of [`Options::associations`].
    pub fn associations(&self) -> &[Association] {
        &self.associations
    }

    /// Returns the association with this index. Panics if there is none.
    pub fn association(&self, index: AssociationIndex) -> &Association {
        &self.associations[index.0]
    }

    /// Returns the number of living processes, healthchecks included.
    pub fn live_processes(&self) -> usize {
        let live = self.associations.iter().map(Association::live_processes);
        live.sum()
    }

    /// Returns whether this is a pull worker: it requests work and queues tasks.
    pub fn fetches_work(&self) -> bool {
        let mut associations = self.associations.iter();
        associations.any(|one| one.options.work_fetch.is_some())
    }

    /// Returns what a pull worker has learned, for a later worker in its place.
    pub fn saved_work_fetch(&self, wall: WallTime) -> Option<SavedState> {
        let fetching = self.machine.fetching.as_ref();
        fetching.map(|fetching| fetching.save(self.now, wall))
    }

    /// Returns the number of queued tasks.
    pub fn queued_tasks(&self) -> usize {
        self.machine.queue.len()
    }

    /// Writes the state into a world's hash, with ids renamed and times relative to `now`; see [`brasserie_common::fingerprint`]. Drain the
    /// effects first: pending effects are hashed without renaming.
    pub fn shape(&self, now: Time, canon: &mut Canon, hasher: &mut impl Hasher) {
        let mut shape = Shape::new(now.max(self.now), canon, hasher);
        for association in &self.associations {
            association.shape(&self.machine, &mut shape);
        }
        if self.associations.len() > 1 {
            // The life of a single association determines this value.
            shape.put(self.operator);
        }
        shape.each(self.out.iter(), |s, effect| s.put(format!("{effect:?}")));
    }

    /// Returns a hash of the state, for searches that visit each state once.
    pub fn fingerprint(&self) -> u64 {
        fingerprint_of(|canon, hasher| self.shape(self.now, canon, hasher))
    }
}

impl Operator {
    fn want_an_end(&mut self) {
        *self = match self {
            Operator::Content | Operator::WantsAnEnd => Operator::WantsAnEnd,
            Operator::HasIt => Operator::HasIt,
        };
    }
}

/// Performs everything that is due because time has passed.
fn advance(associations: &mut [Association], turn: &mut Turn<'_>) {
    for association in associations.iter_mut() {
        association.judge_health(turn);
        association.enforce_limits(turn);
    }
    match choose_runs(associations, turn) {
        Turns::Open => begin_queued(associations, turn),
        Turns::Chosen => {}
    }
    for association in associations.iter_mut() {
        association.advance_life(turn);
        association.send_heartbeat(turn);
        association.send_reports(turn);
    }
    ask_for_work(associations, turn);
}

/// Dispatches an event to one association, or to all.
fn hear(
    associations: &mut [Association],
    operator: &mut Operator,
    turn: &mut Turn<'_>,
    event: Event,
) {
    match event {
        Event::WallClock(_) => {}
        Event::GetRunningTasks { .. }
        | Event::RunTask { .. }
        | Event::NotifyIfTasksNotRunning { .. }
        | Event::RequestSuicide { .. }
        | Event::KillTask { .. } => answer(associations, turn, event),
        Event::ShowWorkFetch { request } => {
            let fetching = turn.machine.fetching.as_ref();
            let shown = fetching.map(|one| Box::new(one.overview(turn.now, associations)));
            turn.reply(request, Ok(Reply::WorkFetch(shown)));
        }
        Event::FetchWork {
            request,
            from: _,
            scheduler,
        } => {
            let reply = match &mut turn.machine.fetching {
                Some(fetching) => fetching.wish(turn.now, associations, scheduler.as_ref()),
                None => Err(fetches_none()),
            };
            turn.reply(request, reply.map(Reply::WorkWishes));
        }
        Event::CallCompleted { call, outcome } => call_completed(associations, turn, call, outcome),
        Event::ConnectionLost { association } => {
            if let Some(one) = associations.get_mut(association.0) {
                one.connection_lost();
            }
        }
        Event::NewInstance { association, id } => match associations.get_mut(association.0) {
            // The operator may have asked for the end since the instance was requested.
            Some(one) if one.life == Life::Gone && *operator == Operator::Content => {
                one.begin_anew(id, turn.now);
            }
            Some(_) | None => {}
        },
        Event::TaskStarted { .. } | Event::TaskEnded { .. } | Event::TaskSampled { .. } => {
            hear_of_process(associations, turn, event);
        }
        Event::UsableResources(usable) => {
            turn.machine.set_usable(&usable);
            if let Some(fetching) = &mut turn.machine.fetching {
                fetching.set_usable(turn.now, &usable);
            }
            for one in associations {
                one.description.usable.clone_from(&usable);
            }
        }
        Event::Drain => {
            operator.want_an_end();
            associations.iter_mut().for_each(|one| one.drain(turn));
        }
        Event::Shutdown => {
            operator.want_an_end();
            associations.iter_mut().for_each(|one| one.shut_down(turn));
        }
    }
}

/// Passes the outcome of a call to the part of the worker that made it.
fn call_completed(
    associations: &mut [Association],
    turn: &mut Turn<'_>,
    call: CallId,
    outcome: CallOutcome<CallReply>,
) {
    if let Some(fetching) = &mut turn.machine.fetching
        && fetching.call_completed(turn.now, call, &outcome)
    {
        return;
    }
    if let Some(one) = associations.iter_mut().find(|one| one.waits_for(call)) {
        one.call_completed(turn, call, outcome);
    }
}

/// Passes an event of a process to the association that has the run.
fn hear_of_process(associations: &mut [Association], turn: &mut Turn<'_>, event: Event) {
    match event {
        Event::TaskStarted { task, invocation } => {
            if let Some(one) = whose_run(associations, &task, invocation) {
                one.started(turn.now, &task, invocation);
            }
        }
        Event::TaskEnded {
            task,
            invocation,
            status,
            story,
        } => {
            if let Some(one) = whose_run(associations, &task, invocation) {
                one.task_ended(turn, &task, invocation, (status, *story));
            }
        }
        Event::TaskSampled {
            task,
            invocation,
            physical,
        } => {
            if let Some(one) = whose_run(associations, &task, invocation) {
                one.tasks.sampled(&task, invocation, physical);
            }
        }
        _ => {}
    }
}

/// Passes a scheduler's call to the association that it names, and replies.
fn answer(associations: &mut [Association], turn: &mut Turn<'_>, event: Event) {
    let (request, reply) = match event {
        Event::GetRunningTasks {
            request,
            from: _,
            worker,
            scheduler,
        } => {
            let one = meant(associations, worker);
            (request, one.get_running_tasks(worker, scheduler))
        }
        Event::RunTask {
            request,
            from: _,
            run,
        } => {
            let elsewhere = elsewhere(associations, &run);
            let one = meant(associations, run.worker);
            (request, one.run_task(turn, *run, elsewhere))
        }
        Event::NotifyIfTasksNotRunning {
            request,
            from: _,
            tasks,
            scheduler,
            worker,
            sequence,
        } => {
            let one = meant(associations, worker);
            let ids = (scheduler, worker);
            let reply = one.notify_if_tasks_not_running(turn, tasks, ids, sequence);
            (request, reply)
        }
        Event::RequestSuicide {
            request,
            from: _,
            scheduler,
            worker,
            why,
        } => {
            let one = meant(associations, worker);
            let reply = one.request_suicide(turn, (scheduler, worker), why.as_deref());
            (request, reply)
        }
        Event::KillTask {
            request,
            from: _,
            task,
            invocation,
            scheduler,
            worker,
            kill,
        } => {
            let one = meant(associations, worker);
            let run = (task, invocation);
            (request, one.kill_task(turn, run, (scheduler, worker), kill))
        }
        Event::WallClock(_)
        | Event::CallCompleted { .. }
        | Event::ConnectionLost { .. }
        | Event::NewInstance { .. }
        | Event::TaskStarted { .. }
        | Event::TaskEnded { .. }
        | Event::TaskSampled { .. }
        | Event::UsableResources(_)
        | Event::ShowWorkFetch { .. }
        | Event::FetchWork { .. }
        | Event::Drain
        | Event::Shutdown => return,
    };
    turn.reply(request, reply);
}

/// Returns the association with this worker id, or else the first one, which refuses the call.
fn meant(associations: &mut [Association], worker: WorkerId) -> &mut Association {
    let named = associations.iter().position(|one| one.id() == worker);
    &mut associations[named.unwrap_or(0)]
}

/// Returns the association that has this run open. At most one has.
fn whose_run<'a>(
    associations: &'a mut [Association],
    task: &TaskKey,
    invocation: InvocationId,
) -> Option<&'a mut Association> {
    let mut associations = associations.iter_mut();
    associations.find(|one| one.tasks.is_open(task, invocation))
}

/// Returns whether an association other than the addressed one has this run open.
fn elsewhere(associations: &[Association], run: &RunTask) -> Elsewhere {
    let (task, invocation) = (run.task.key(), run.task.invocation);
    let mut others = associations.iter().filter(|one| one.id() != run.worker);
    match others.any(|one| one.tasks.is_open(&task, invocation)) {
        true => Elsewhere::Open,
        false => Elsewhere::Unknown,
    }
}

#[cfg(test)]
mod apart;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod rig;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod two_sides;
