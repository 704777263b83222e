//! The worker: the only module that sees all components. It passes each event to those that it concerns, performs what is due, and restarts
//! associations that are over or ends the program.

mod association;
mod calls;
mod processes;
mod requests;
mod work_fetch;

use std::hash::Hasher;
use std::sync::Arc;
use std::time::Duration;

use brasserie_common::fingerprint::{Canon, Shape, fingerprint_of};
use brasserie_common::resources::UsablePhysicalResources;
use brasserie_common::worker::DrainTerms;
use brasserie_common::{
    EndedBy, InvocationId, Principal, RefusalCode, RequestId, TaskKey, Time, WallTime, WorkerId,
};
use brasserie_worker_fetch::{AssociationIndex, SavedState};

use self::work_fetch::Turns;
use crate::config::Options;
use crate::effect::{Effect, ExitReason, Outbox, Refusal, Reply};
use crate::event::{DrainRequest, Event};
use crate::fetching::Fetching;
use crate::machine::{Machine, Queueing};
use crate::reports::Reports;
use crate::session::{DrainCaller, Session, Unfinished, WantedBy};
use crate::tasks::Tasks;
use crate::timer::earliest;

/// A worker's side of the protocol: one association for each scheduler, and the machine that they share. To each scheduler, the worker
/// looks like one that has this scheduler only.
#[derive(Clone, Debug)]
pub struct Worker {
    options: Arc<Options>,
    associations: Vec<Association>,
    machine: Machine,
    /// `None`: the worker does not fetch work.
    fetching: Option<Box<Fetching>>,
    /// Whether a task that stands by may be able to begin: since the last check a task has ended or the machine has changed, or at that check
    /// the worker was not HEALTHY or had too many tasks. A task is queued only if it cannot begin.
    may_begin: bool,
    operator: Operator,
    out: Outbox,
    /// Associations that came to their end in this turn.
    over: Vec<(AssociationIndex, ExitReason)>,
    /// The latest time of all calls. Time never goes back here, even if a caller passes an earlier time.
    now: Time,
}

/// The association of the worker with one scheduler. A worker with several schedulers has one for each, and each scheduler sees an
/// independent worker.
#[derive(Clone, Debug)]
pub struct Association {
    session: Session,
    tasks: Tasks,
    reports: Reports,
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
            let index = AssociationIndex(at);
            Association::new(Session::new(index, Arc::clone(&options), own, now))
        });
        let fetching = options.work_fetch.as_ref();
        let fetching = fetching.map(|own| Box::new(Fetching::new(&options, own, now)));
        let queueing = match fetching {
            Some(_) => Queueing::IfPermitted,
            None => Queueing::ForSlots,
        };
        Worker {
            associations: associations.collect(),
            machine: Machine::new(&options.description, queueing),
            fetching,
            may_begin: false,
            operator: Operator::Content,
            out: Outbox::default(),
            over: Vec::new(),
            now,
            options,
        }
    }

    /// Handles one event: passes it to the components that it concerns, then performs what is due. Judges health first, so that a worker
    /// whose machine wakes up does not act on outdated health.
    pub fn handle(&mut self, now: Time, event: Event) {
        self.now = self.now.max(now);
        self.indexes().for_each(|of| self.judge_health(of));
        match event {
            Event::WallClock(_) => {}
            Event::GetRunningTasks {
                request,
                from: _,
                worker,
                scheduler,
            } => self.answer(request, |own| own.get_running_tasks(worker, scheduler)),
            Event::RunTask { request, run, .. } => self.answer(request, |own| own.run_task(*run)),
            Event::NotifyIfTasksNotRunning {
                request,
                from: _,
                tasks,
                scheduler,
                worker,
                sequence,
            } => self.answer(request, |own| {
                own.notify_if_tasks_not_running(tasks, (scheduler, worker), sequence)
            }),
            Event::RequestSuicide {
                request,
                from: _,
                scheduler,
                worker,
                why,
            } => self.answer(request, |own| own.request_suicide((scheduler, worker), why)),
            Event::KillTask {
                request,
                task,
                invocation,
                scheduler,
                worker,
                kill,
                from: _,
            } => self.answer(request, |own| {
                own.kill_task((task, invocation), (scheduler, worker), kill)
            }),
            Event::ShowWorkFetch { request } => self.answer(request, |own| Ok(own.show_fetching())),
            Event::FetchWork {
                request, scheduler, ..
            } => self.answer(request, |own| own.fetch_work(scheduler.as_ref())),
            Event::CallCompleted { call, outcome } => self.call_completed(call, outcome),
            Event::ConnectionLost { association } => self.connection_lost(association),
            Event::NewInstance { association, id } => self.begin_anew(association, id),
            Event::TaskStarted { task, invocation } => self.task_started(&task, invocation),
            Event::TaskEnded {
                task,
                invocation,
                status,
                story,
            } => self.end_run((&task, invocation), (status, *story)),
            Event::OutputsTaken { run, outputs } => self.outputs_taken((&run.0, run.1), outputs),
            Event::TaskSampled {
                task,
                invocation,
                physical,
            } => self.task_sampled(&task, invocation, physical),
            Event::UsableResources(usable) => self.set_usable(&usable),
            Event::RequestDrain {
                request,
                from,
                drain,
            } => self.answer(request, |own| own.request_drain(from, drain)),
            Event::Drain => self.drain(&WantedBy::Signal, None),
            Event::Shutdown => self.shut_down(),
        }
        self.handle_timeout(now);
    }

    fn answer(
        &mut self,
        request: RequestId,
        reply: impl FnOnce(&mut Self) -> Result<Reply, Refusal>,
    ) {
        let reply = reply(self);
        self.out.reply(request, reply);
    }

    /// Performs everything that is due because time has passed. [`Worker::handle`] calls it after each event.
    pub fn handle_timeout(&mut self, now: Time) {
        self.now = self.now.max(now);
        for of in self.indexes() {
            self.judge_health(of);
            self.enforce_limits(of);
        }
        match self.choose_runs() {
            Turns::Open => self.begin_queued(),
            Turns::Chosen => {}
        }
        for of in self.indexes() {
            self.advance_life(of);
            self.send_heartbeat(of);
            self.send_reports(of);
        }
        self.ask_for_work();
        self.see_off();
    }

    /// Returns when [`Worker::handle_timeout`] next has something to do; always later than the last handled time.
    pub fn poll_timeout(&self) -> Option<Time> {
        let waiting = self.machine.queued() + self.machine.stopped();
        let fetching = self.fetching.as_ref();
        let fetching = fetching.filter(|_| self.operator != Operator::HasIt);
        let own = self.associations.iter().map(|one| one.due(self.now));
        earliest(own.chain([fetching.map(|fetching| fetching.due(waiting))]))
    }

    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.out.pop()
    }

    fn indexes(&self) -> impl Iterator<Item = AssociationIndex> + use<> {
        (0..self.associations.len()).map(AssociationIndex)
    }

    /// Returns the association with this worker id, or else the first one, which refuses the call.
    fn meant(&self, worker: WorkerId) -> AssociationIndex {
        let mut associations = self.associations.iter();
        let named = associations.position(|one| one.session.id() == worker);
        AssociationIndex(named.unwrap_or(0))
    }

    /// Returns the association that has this run open. At most one has.
    fn whose_run(&self, task: &TaskKey, invocation: InvocationId) -> Option<AssociationIndex> {
        let mut associations = self.associations.iter();
        let at = associations.position(|one| one.tasks.is_open(task, invocation));
        at.map(AssociationIndex)
    }

    fn set_usable(&mut self, usable: &UsablePhysicalResources) {
        self.machine.set_usable(usable);
        self.may_begin = true;
        if let Some(fetching) = &mut self.fetching {
            fetching.set_usable(self.now, usable);
        }
        for one in &mut self.associations {
            one.session.set_usable(usable);
        }
    }

    // ---- the ends of associations ----

    fn judge_health(&mut self, of: AssociationIndex) {
        let kill = self.associations[of.0].session.judge_health(self.now);
        self.kill_all(of, kill);
    }

    fn request_drain(&mut self, from: Principal, drain: DrainRequest) -> Result<Reply, Refusal> {
        let DrainRequest {
            shard,
            instance,
            terms: DrainTerms { deadline, reason },
        } = drain;
        let own = self.associations.iter();
        let own = own.map(|one| (one.description().shard.as_str(), one.instance()));
        if !own.clone().any(|own| own == (shard.as_str(), instance)) {
            let own: Vec<String> = own
                .map(|(own, instance)| format!("`{own}`, instance {instance}"))
                .collect();
            let why = format!(
                "this is worker {}, and not `{shard}`, instance {instance}",
                own.join(" and ")
            );
            return Err(Refusal::new(RefusalCode::WrongId, why));
        }
        let caller = DrainCaller { from, reason };
        self.drain(&WantedBy::Call(caller), deadline);
        let running = self.associations.iter().map(|one| one.facts().running);
        Ok(Reply::Draining(running.sum()))
    }

    fn drain(&mut self, by: &WantedBy, deadline: Option<Duration>) {
        self.operator.want_an_end();
        for of in self.indexes() {
            let session = &mut self.associations[of.0].session;
            if session.drain(self.now, by.clone(), deadline) {
                self.end_all_queued(of, EndedBy::Shutdown);
            }
        }
    }

    fn shut_down(&mut self) {
        self.operator.want_an_end();
        for of in self.indexes() {
            let kill = self.associations[of.0].session.shut_down(self.now);
            self.kill_all(of, kill);
        }
    }

    /// Advances the life of an association as far as its processes and reports allow.
    fn advance_life(&mut self, of: AssociationIndex) {
        let one = &mut self.associations[of.0];
        let kill = one.session.end_draining(self.now, one.unfinished());
        self.kill_all(of, kill);
        let one = &mut self.associations[of.0];
        let over = one.session.advance_life(self.now, one.unfinished());
        self.over.extend(over.map(|reason| (of, reason)));
    }

    /// Begins an association anew that is over.
    fn begin_anew(&mut self, of: AssociationIndex, id: WorkerId) {
        // The operator may have asked for the end since the instance was requested.
        if let Some(one) = self.associations.get_mut(of.0)
            && one.session.is_gone()
            && self.operator == Operator::Content
        {
            *one = Association::new(one.session.anew(id, self.now));
        }
    }

    /// Requests new instances for associations that are over, or ends the program.
    fn see_off(&mut self) {
        let over = std::mem::take(&mut self.over);
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
                if self.associations.iter().all(|one| one.session.is_gone()) {
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

    // ---- getters ----

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
        self.fetching.is_some()
    }

    /// Returns what a pull worker has learned, for a later worker in its place.
    pub fn saved_work_fetch(&self, wall: WallTime) -> Option<SavedState> {
        let fetching = self.fetching.as_ref();
        fetching.map(|fetching| fetching.save(self.now, wall))
    }

    /// Returns the number of queued tasks.
    pub fn queued_tasks(&self) -> usize {
        self.machine.queued()
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

impl Association {
    fn new(session: Session) -> Self {
        Association {
            session,
            tasks: Tasks::default(),
            reports: Reports::default(),
        }
    }

    fn unfinished(&self) -> Unfinished {
        Unfinished {
            has_processes: self.tasks.live() > 0,
            has_reports: self.reports.are_tasks_pending(),
        }
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
