//! Starts, stops, resumes, kills and ends runs.
//!
//! A pull worker stops tasks in favour of others. A stopped task keeps its process, GPUs, memory and slots at the scheduler; only its
//! processors are free. To the scheduler, it is running.

use std::sync::Arc;
use std::time::Duration;

use brasserie_common::resources::TaskPhysicalResources;
use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::{
    EndedBy, Fault, Health, InvocationId, Kill, KillMethod, LeftOutput, ReportPolicy,
    ReportedStatus, RunningTask, Story, TaskKey,
};
use brasserie_worker_fetch::AssociationIndex;

use super::Worker;
use crate::effect::Effect;
use crate::event::RunTask;
use crate::machine::{Obstacle, Place, QueueFilter};
use crate::reports::{HeldCompletion, ReportKind};
use crate::session::KillAll;
use crate::tasks::{BeforeEnd, BegunTask};

/// The reason why a queued task ends without having begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NeverBegins {
    Killed(EndedBy),
    /// The machine permanently lacks something, which the text names.
    Cannot(String),
}

/// The result of an attempt to start a queued task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tried {
    /// The task has begun, or never will.
    HasLeft,
    LacksCards,
    LacksProcessors,
    /// All other tasks lack the same.
    TooManyTasks,
}

impl Worker {
    // ---- the begin ----

    /// Starts the queued tasks for which there are resources now, in their order, whatever their schedulers.
    ///
    /// * A task whose GPUs are in use lets others overtake it, but not too often (see `machine/gpu_waiters.rs`).
    /// * A task whose GPUs are free and that lacks CPUs lets no task overtake it that needs only CPUs. Otherwise it would never find enough
    ///   of them.
    /// * A task that waits only for CPUs lets tasks overtake it that need GPUs.
    /// * A task whose GPUs are gone for good ends.
    pub(super) fn begin_queued(&mut self) {
        if self.fetching.is_none() {
            return self.begin_standby();
        }
        while let Some((of, key)) = self.machine.reserver().cloned() {
            match self.try_to_begin(of, &key) {
                Tried::HasLeft => {}
                // Other tasks may use the GPUs that are not reserved.
                Tried::LacksCards => break,
                // The reserved GPUs are free for this task, and the next free CPUs are its own, too.
                Tried::LacksProcessors | Tried::TooManyTasks => return,
            }
        }
        let mut behind = Place::MIN;
        let mut who = QueueFilter::All;
        while let Some((place, (of, key))) = self.machine.next_behind(behind, who) {
            if who == QueueFilter::All && !self.machine.has_free_processors() {
                // The scan continues with this task, which may need GPUs, too.
                who = QueueFilter::ForCards;
                continue;
            }
            if who == QueueFilter::ForCards && !self.machine.has_free_cards() {
                return;
            }
            behind = place;
            match self.try_to_begin(of, &key) {
                Tried::HasLeft | Tried::LacksCards => {}
                // Its GPUs are free and CPUs are lacking, or it needs no GPUs and no CPU is free.
                Tried::LacksProcessors => who = QueueFilter::ForCards,
                Tried::TooManyTasks => return,
            }
        }
    }

    /// Starts, in the order of their acceptance, the tasks that stand by and for which the running tasks of their scheduler leave slots. A
    /// task that needs more slots lets others overtake it.
    fn begin_standby(&mut self) {
        if !self.may_begin {
            return;
        }
        self.may_begin = false;
        let before = self.machine.queued();
        let mut behind = Place::MIN;
        while let Some((place, (of, key))) = self.machine.next_behind(behind, QueueFilter::All) {
            behind = place;
            let one = &self.associations[of.0];
            let task = one.tasks.get(&key);
            let has_slots = task.is_some_and(|task| self.has_slots_for(of, &task.running));
            if !has_slots {
                continue;
            }
            if one.session.health() != Health::Healthy {
                self.may_begin = true;
                continue;
            }
            if self.try_to_begin(of, &key) == Tried::TooManyTasks {
                self.may_begin = true;
                break;
            }
        }
        if self.machine.queued() == before {
            // Nothing uses the slots that are free, so the scheduler must know of them now.
            for one in &mut self.associations {
                one.reports.release_delayed(self.now, || 0);
            }
        }
    }

    /// Returns whether the running tasks of an association leave slots for a task. A pull worker has queues of its own instead.
    pub(super) fn has_slots_for(&self, of: AssociationIndex, task: &RunningTask) -> bool {
        self.fetching.is_some()
            || self.associations[of.0].tasks.have_slots_for(task)
            || sabotage::on(Sabotage::BeginWithoutSlots)
    }

    fn try_to_begin(&mut self, of: AssociationIndex, key: &TaskKey) -> Tried {
        let tasks = &mut self.associations[of.0].tasks;
        let task = tasks.get(key);
        let task = task.expect("Invariant: who waits is known");
        match self.machine.can_begin(of, &task.running) {
            Ok(cards) => {
                if let (Some(fetching), Some(pull)) = (&mut self.fetching, &task.pull) {
                    fetching.left_queue(pull);
                }
                let begun = tasks.begin(self.now, key, cards, self.machine.cards());
                if let Some(BegunTask {
                    running,
                    run,
                    place,
                }) = begun
                {
                    self.machine.dequeue(place);
                    self.machine.count_begin(&running);
                    self.spawn(of, run);
                }
                Tried::HasLeft
            }
            Err(Obstacle::TooManyTasks(_)) => Tried::TooManyTasks,
            Err(Obstacle::Processors) => Tried::LacksProcessors,
            Err(obstacle) if obstacle.is_temporary() => Tried::LacksCards,
            Err(obstacle) => {
                let invocation = task.running.invocation;
                let why = obstacle.into_refusal(&task.running).message;
                self.end_queued(of, key, invocation, &NeverBegins::Cannot(why));
                Tried::HasLeft
            }
        }
    }

    /// Requests the process of a run that begins.
    pub(super) fn spawn(&mut self, of: AssociationIndex, run: Arc<RunTask>) {
        let session = &self.associations[of.0].session;
        let cuda_devices = session.cuda_devices(&run.task);
        self.out.push(Effect::Spawn { run, cuda_devices });
    }

    /// Starts the timeout of a run, because its process exists.
    pub(super) fn task_started(&mut self, key: &TaskKey, invocation: InvocationId) {
        if let Some(of) = self.whose_run(key, invocation) {
            let tasks = &mut self.associations[of.0].tasks;
            tasks.record_process(self.now, key, invocation);
        }
    }

    pub(super) fn task_sampled(
        &mut self,
        key: &TaskKey,
        invocation: InvocationId,
        physical: TaskPhysicalResources,
    ) {
        if let Some(of) = self.whose_run(key, invocation) {
            let tasks = &mut self.associations[of.0].tasks;
            tasks.record_sample(key, invocation, physical);
        }
    }

    pub(super) fn outputs_taken(
        &mut self,
        run: (&TaskKey, InvocationId),
        outputs: Vec<LeftOutput>,
    ) {
        if let Some(of) = self.whose_run(run.0, run.1) {
            let tasks = &mut self.associations[of.0].tasks;
            tasks.record_outputs(run, outputs);
        }
    }

    // ---- stops and kills ----

    /// Stops the task's process in favour of others.
    pub(super) fn suspend(&mut self, of: AssociationIndex, key: &TaskKey) {
        let tasks = &mut self.associations[of.0].tasks;
        let pull = tasks.get(key).and_then(|task| task.stoppable());
        if let (Some(fetching), Some(pull)) = (&mut self.fetching, pull) {
            fetching.stopped(self.now, of, pull);
        }
        if let Some(running) = tasks.suspend(self.now, key) {
            self.machine.count_stop(&running);
            self.out.push(Effect::Suspend {
                task: key.clone(),
                invocation: running.invocation,
            });
        }
    }

    /// Resumes the task's process.
    pub(super) fn resume(&mut self, of: AssociationIndex, key: &TaskKey) {
        let tasks = &mut self.associations[of.0].tasks;
        if let Some(running) = tasks.resume(self.now, key) {
            self.machine.count_resume(&running);
            self.out.push(Effect::Resume {
                task: key.clone(),
                invocation: running.invocation,
            });
        }
    }

    /// Kills a run. Resumes a stopped process before the signal, because a stopped process does not handle it. Other tasks keep the
    /// processors that they got in its place.
    pub(super) fn kill(
        &mut self,
        of: AssociationIndex,
        key: TaskKey,
        invocation: InvocationId,
        kill: Kill,
    ) {
        match kill.request.method {
            // The task may ignore TERM and continue, so it counts as executing again.
            KillMethod::Term => self.resume(of, &key),
            KillMethod::TermWaitKill | KillMethod::Kill => {}
        }
        let tasks = &mut self.associations[of.0].tasks;
        if tasks.record_kill(self.now, &key, invocation) {
            self.out.push(Effect::Resume {
                task: key.clone(),
                invocation,
            });
        }
        self.out.push(Effect::Kill {
            task: key,
            invocation,
            kill,
        });
    }

    /// Ends all queued tasks, and kills each process with one request. The shell times the kill wait, so no request is repeated.
    pub(super) fn kill_all(&mut self, of: AssociationIndex, kill: Option<KillAll>) {
        let Some(all) = kill else {
            return;
        };
        self.end_all_queued(of, all.by);
        let tasks = self.associations[of.0].tasks.iter();
        let kills: Vec<(TaskKey, InvocationId, Kill)> = tasks
            .filter(|(_, task)| task.is_live())
            .map(|(key, task)| {
                let running = &task.running;
                let kill = all.kill(self.now, running.suicide_kill_wait);
                (key.clone(), running.invocation, kill)
            })
            .collect();
        for (key, invocation, kill) in kills {
            self.kill(of, key, invocation, kill);
        }
    }

    /// Ends each run whose time limit has expired, once.
    pub(super) fn enforce_limits(&mut self, of: AssociationIndex) {
        while let Some(expired) = self.associations[of.0].tasks.take_expired(self.now) {
            let (key, invocation, kill) = (expired.key, expired.invocation, expired.kill);
            match expired.is_queued {
                true => self.end_queued(of, &key, invocation, &NeverBegins::Killed(kill.by)),
                false => self.kill(of, key, invocation, kill),
            }
        }
    }

    // ---- the end ----

    /// Ends all queued tasks of an association.
    pub(super) fn end_all_queued(&mut self, of: AssociationIndex, by: EndedBy) {
        for key in self.machine.queued_of(of) {
            let task = self.associations[of.0].tasks.get(&key);
            if let Some(invocation) = task.map(|task| task.running.invocation) {
                self.end_queued(of, &key, invocation, &NeverBegins::Killed(by));
            }
        }
    }

    /// Ends a queued task. A killed one ends as if its process had been killed before it wrote a status.
    pub(super) fn end_queued(
        &mut self,
        of: AssociationIndex,
        key: &TaskKey,
        invocation: InvocationId,
        why: &NeverBegins,
    ) {
        let one = &self.associations[of.0];
        let Some(task) = one.tasks.get(key) else {
            return;
        };
        let (by, fault, text) = match why {
            NeverBegins::Killed(by) => {
                let stands_by = task.running.worker_slots.is_some();
                let by = match by {
                    // Its worker leaves, so the task may start elsewhere at once.
                    EndedBy::Shutdown if stands_by => &EndedBy::TakeBack,
                    by => by,
                };
                let text = format!("ended by the worker as {by} before it began");
                (Some(*by), by.fault(), text)
            }
            NeverBegins::Cannot(why) => (None, Fault::Worker, format!("it never began: {why}")),
        };
        let mut story = Story::not_started(&text, fault, Duration::ZERO);
        story.waited = self.now.since(task.accepted_at);
        story.ended_by = by;
        let mut status = ReportedStatus::by_fault(fault, &text);
        if by == Some(EndedBy::TakeBack) && !sabotage::on(Sabotage::TakeBackAdvancesBackoff) {
            status = ReportedStatus::taken_back();
        } else if one.session.is_draining() && status.is_incomplete_backoff() {
            // The task has lost nothing, and may run elsewhere at once.
            status = status.into_incomplete();
        }
        self.end_run((key, invocation), (status, story));
    }

    /// Ends a run, whose process is gone or will never exist, and reports its completion. The shell reports the end of a process once for
    /// each run; other events match no run.
    pub(super) fn end_run(
        &mut self,
        run: (&TaskKey, InvocationId),
        (status, story): (ReportedStatus, Story),
    ) {
        let Some(of) = self.whose_run(run.0, run.1) else {
            return;
        };
        let one = &mut self.associations[of.0];
        let status = match one.session.kill_by().is_some() && status.is_incomplete_backoff() {
            // The operator ended the task, which is no fault of the task. It may run elsewhere at once.
            true => status.into_incomplete(),
            false => status,
        };
        let Some(ended) = one.tasks.end(self.now, run, (status, story)) else {
            return;
        };
        let (task, status) = (ended.task, ended.status);
        self.may_begin = true;
        match ended.before {
            BeforeEnd::Queued(place) => self.machine.dequeue(place),
            BeforeEnd::Executing => self.machine.count_end(&task.running),
            BeforeEnd::Stopped => {
                self.machine.count_resume(&task.running);
                self.machine.count_end(&task.running);
            }
        }
        let may_delay = task.may_delay_report() && one.session.is_running();
        let mut held = None;
        if let (Some(fetching), Some(pull)) = (&mut self.fetching, &task.pull) {
            fetching.ended(self.now, of, (task, pull), &status);
            // An association that is ending holds nothing back.
            let holds = one.session.is_running()
                && fetching.report_policy(of, &task.running) == ReportPolicy::Lazy;
            held = holds.then_some(HeldCompletion {
                task: pull.number,
                ended: self.now,
                deadline: pull.deadline,
            });
        }
        let (running, requester) = (Arc::clone(&task.running), task.requester);
        if !running.is_healthcheck() {
            match held {
                Some(held) => one.reports.hold((running, status), held),
                None if may_delay => one.reports.delay(self.now, (running, status)),
                None => one.reports.add(self.now, running, status, ReportKind::End),
            }
        } else if one.session.is_outdated(requester) {
            // The scheduler that sent the healthcheck is gone.
            one.tasks.forget(run.0, run.1);
        } else {
            let kind = ReportKind::Healthcheck(requester);
            one.reports.add(self.now, running, status, kind);
        }
    }
}
