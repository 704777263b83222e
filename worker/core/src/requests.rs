//! The scheduler's calls: their effects, and the reasons for which they are refused.

use std::collections::VecDeque;
use std::hash::Hasher;
use std::sync::Arc;

use brasserie_common::fingerprint::Shape;
use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::{
    Health, InvocationId, Kill, NodeName, RefusalCode, ReportedStatus, RunningTask, SchedulerId,
    SequenceNumber, TaskKey, WorkerId,
};

use crate::association::{Association, Binding, with_reason};
use crate::effect::{ExitReason, Refusal, Reply};
use crate::event::RunTask;
use crate::invocations::Familiarity;
use crate::limits::Limits;
use crate::piece::Piece;
use crate::queue::{Begin, NeverBegins};
use crate::reports::{Kind, MAX_NOT_RUNNING};
use crate::suicide::Life;
use crate::tasks::{HEALTHCHECK_NODES, MAX_TASKS, Stage, Task};
use crate::turn::Turn;

/// The number of accepted healthchecks to remember. At most one arrives a second, so they span more than the longest life of a message.
const MAX_HEALTHCHECKS_SEEN: usize = 1024;

/// The last accepted healthchecks. A repeated one would count as fresh on the worker and not on the scheduler, so the worker would believe
/// in its health for longer. The id of a healthcheck is only a second, so scheduler and node count, too.
#[derive(Clone, Debug, Default)]
pub(crate) struct HealthchecksSeen(VecDeque<(SchedulerId, NodeName, InvocationId)>);

impl HealthchecksSeen {
    fn contains(&self, run: &RunTask) -> bool {
        self.0.iter().any(|(scheduler, node, invocation)| {
            *scheduler == run.scheduler
                && *node == run.task.node
                && *invocation == run.task.invocation
        })
    }

    fn remember(&mut self, run: &RunTask) {
        if self.0.len() == MAX_HEALTHCHECKS_SEEN {
            self.0.pop_front();
        }
        self.0
            .push_back((run.scheduler, run.task.node.clone(), run.task.invocation));
    }

    /// Writes the state for fingerprints.
    pub(crate) fn shape<H: Hasher>(&self, s: &mut Shape<'_, H>) {
        s.each(&self.0, |s, (scheduler, node, invocation)| {
            s.scheduler(*scheduler);
            s.put(node);
            s.healthcheck(*invocation);
        });
    }
}

fn refuse<T>(code: RefusalCode, message: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal {
        code,
        message: message.into(),
    })
}

/// Whether another association has an open run of the same task and invocation. The shell could not tell the two runs apart. Two schedulers
/// draw the same invocation for their healthchecks of the same second, and for other tasks only by error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Elsewhere {
    Unknown,
    Open,
}

impl Elsewhere {
    fn check(self) -> Result<(), Refusal> {
        match self {
            Elsewhere::Unknown => Ok(()),
            Elsewhere::Open => refuse(
                RefusalCode::Duplicate,
                "a run of the same task and invocation is open here for another scheduler",
            ),
        }
    }
}

impl Association {
    pub(crate) fn get_running_tasks(
        &mut self,
        worker: WorkerId,
        scheduler: Option<SchedulerId>,
    ) -> Result<Reply, Refusal> {
        self.check_not_dying()?;
        self.check_worker(worker)?;
        match scheduler {
            Some(scheduler) => {
                if !sabotage::on(Sabotage::BindBackwards) {
                    self.check_not_outdated(scheduler)?;
                }
                self.newest = Some(scheduler);
                self.binding = Binding::To(scheduler);
            }
            None => self.bind_unnamed(),
        }
        self.hurry();
        Ok(Reply::RunningTasks(self.tasks.listing()))
    }

    /// Binds the worker to a peer that knows only the original interface. This is the scheduler whose heartbeat answers count, or the one
    /// that is about to answer its first heartbeat.
    fn bind_unnamed(&mut self) {
        let associated = self.scheduler();
        self.binding = match associated {
            Some(scheduler) if !self.heartbeats.is_in_flight() && associated >= self.newest => {
                Binding::To(scheduler)
            }
            Some(_) | None => Binding::WhoeverAnswers(associated.max(self.binding.bound())),
        };
    }

    /// Starts or queues a run, or refuses it. Remembers refused invocations too, because the refusal promises that they will never run.
    pub(crate) fn run_task(
        &mut self,
        turn: &mut Turn<'_>,
        mut run: RunTask,
        elsewhere: Elsewhere,
    ) -> Result<Reply, Refusal> {
        let is_healthcheck = run.task.is_healthcheck();
        let verdict = self.may_run(turn, &run, elsewhere);
        // A run with another worker's id would be refused again anyway.
        let forgets = verdict.is_err() && sabotage::on(Sabotage::ForgetRefused);
        if !is_healthcheck && run.worker == self.id() && !forgets {
            self.invocations.remember(turn.now, run.task.invocation);
        }
        let verdict = verdict.inspect_err(|why| turn.machine.refuses(self.index, why.code));
        let begin = verdict?;
        if is_healthcheck {
            self.healthchecks.remember(&run);
        }
        if run.command.is_empty() {
            run.command = self.options.worker_command.clone();
        }
        run.task.ended = None;
        // The older healthcheck of this node would answer a scheduler that is gone.
        self.drop_outdated_healthcheck(&run);
        begin.give_cards_to(&mut run.task);
        let run = Arc::new(run);
        let piece = self.piece_of(turn, &run, &begin);
        let stage = match begin {
            Begin::Now(_) => Stage::Live,
            Begin::Later => Stage::Queued {
                run: Arc::clone(&run),
                place: turn.machine.queue.next_place(),
            },
        };
        self.tasks.insert(
            turn.machine,
            (self.index, run.task.key()),
            Task {
                running: Arc::new(run.task.clone()),
                requester: run.scheduler,
                accepted_at: turn.now,
                limits: Limits::new(turn.now, &run.options, &run.task),
                stage,
                piece,
            },
        );
        match begin {
            Begin::Now(_) => self.spawn(turn, run),
            Begin::Later => {}
        }
        Ok(Reply::Empty)
    }

    /// Returns the policies' data of a task, and reports the task to the policies. `None` if the worker fetches no work.
    fn piece_of(&self, turn: &mut Turn<'_>, run: &RunTask, begin: &Begin) -> Option<Box<Piece>> {
        let fetching = turn.machine.fetching.as_mut();
        let fetching = fetching.filter(|_| !run.task.is_healthcheck())?;
        let (task, options) = (&run.task, &run.options);
        let cards = &turn.machine.cards;
        let mut piece = Piece::new(fetching, self.index, task, options, cards, turn.now);
        match begin {
            Begin::Now(_) => piece.begin(turn.now),
            Begin::Later => {}
        }
        fetching.came(turn.now, self.index, &piece);
        Some(Box::new(piece))
    }

    fn may_run(
        &mut self,
        turn: &Turn<'_>,
        run: &RunTask,
        elsewhere: Elsewhere,
    ) -> Result<Begin, Refusal> {
        let is_healthcheck = run.task.is_healthcheck();
        self.check_not_leaving()?;
        if !is_healthcheck {
            self.check_not_draining()?;
        }
        if !is_healthcheck && self.health.health() != Health::Healthy {
            let state = self.health.health().word();
            return refuse(
                RefusalCode::Unhealthy,
                format!("the worker is {state}, and only a healthy one starts tasks"),
            );
        }
        if is_healthcheck {
            self.check_healthcheck(run)?;
        } else {
            if !sabotage::on(Sabotage::NoBinding) {
                self.check_ids(run.scheduler, run.worker)?;
                self.check_bound(run.scheduler)?;
            }
            self.check_unknown(turn, run)?;
        }
        elsewhere.check()?;
        let begin = self.admit(turn.machine, &run.task)?;
        if run.command.is_empty() && self.options.worker_command.is_empty() {
            return refuse(
                RefusalCode::Unspecified,
                format!(
                    "job `{}` has no command and this worker no --worker-command: give either one",
                    run.task.job
                ),
            );
        }
        Ok(begin)
    }

    fn check_healthcheck(&self, run: &RunTask) -> Result<(), Refusal> {
        let node = run.task.node.as_str();
        if !HEALTHCHECK_NODES.contains(&node) {
            return refuse(
                RefusalCode::Unspecified,
                format!("a healthcheck cannot be on node `{node}`"),
            );
        }
        if node.is_empty() {
            self.check_ids(run.scheduler, run.worker)?;
        } else {
            // This healthcheck arrives before the scheduler's first answer.
            self.check_worker(run.worker)?;
            self.check_not_outdated(run.scheduler)?;
        }
        let blocking = self.tasks.get(&run.task.key());
        if blocking.is_some_and(|task| task.is_open() || task.requester >= run.scheduler) {
            return refuse(RefusalCode::Duplicate, "another healthcheck is not over");
        }
        if self.healthchecks.contains(run) {
            return refuse(RefusalCode::Duplicate, "this healthcheck was run before");
        }
        Ok(())
    }

    /// Checks that nothing about the run, its task or a later question forbids the start.
    fn check_unknown(&mut self, turn: &Turn<'_>, run: &RunTask) -> Result<(), Refusal> {
        let task = &run.task;
        if run.sequence < self.sequence && !sabotage::on(Sabotage::SkipSequenceCheck) {
            return refuse(
                RefusalCode::OldSequence,
                format!(
                    "sequence number {} is below {}: the run may have been denied",
                    run.sequence.0, self.sequence.0
                ),
            );
        }
        let invocation = task.invocation;
        if let Some(known) = self.tasks.get(&task.key()) {
            let (job, node, other) = (&task.job, &task.node, known.running.invocation);
            let what = match known.stage {
                Stage::Queued { .. } => "waits here",
                Stage::Live => "runs",
                Stage::Ended(_) => "has ended, which is not acknowledged yet",
            };
            return refuse(
                RefusalCode::Duplicate,
                format!("task `{job}` on `{node}`: invocation {other} {what}"),
            );
        }
        match self.invocations.familiarity(turn.now, invocation) {
            Familiarity::New => {}
            Familiarity::Known => {
                return refuse(
                    RefusalCode::Duplicate,
                    format!("invocation {invocation} was accepted, refused or denied before"),
                );
            }
            Familiarity::TooOld => {
                return refuse(
                    RefusalCode::Busy,
                    format!(
                        "invocation {invocation} is older than what is remembered of past ones"
                    ),
                );
            }
        }
        if self.tasks.len() >= MAX_TASKS {
            return refuse(
                RefusalCode::Busy,
                format!("{MAX_TASKS} tasks run here or wait to be acknowledged"),
            );
        }
        Ok(())
    }

    fn drop_outdated_healthcheck(&mut self, run: &RunTask) {
        if run.task.is_healthcheck()
            && let Some(old) = self.tasks.get(&run.task.key())
        {
            let old = (run.task.key(), old.running.invocation);
            self.reports
                .retain(|report| (report.task.key(), report.task.invocation) != old);
            self.tasks.forget(&old.0, old.1);
        }
    }

    /// Queues an answer for each task that does not run. These runs never start later.
    pub(crate) fn notify_if_tasks_not_running(
        &mut self,
        turn: &mut Turn<'_>,
        tasks: Vec<RunningTask>,
        ids: (SchedulerId, WorkerId),
        sequence: SequenceNumber,
    ) -> Result<Reply, Refusal> {
        self.check_ids(ids.0, ids.1)?;
        if sequence <= self.sequence {
            return refuse(
                RefusalCode::OldSequence,
                format!(
                    "sequence number {} is not above {}",
                    sequence.0, self.sequence.0
                ),
            );
        }
        if tasks.len() > self.reports.not_running_room() {
            return refuse(
                RefusalCode::Busy,
                format!(
                    "{} tasks do not fit into the {MAX_NOT_RUNNING} answers that may wait: ask again later, or for fewer",
                    tasks.len()
                ),
            );
        }
        self.sequence = sequence;
        // The scheduler waits for news of its tasks.
        self.reports.release(turn.now);
        for task in tasks {
            self.answer_if_not_running(turn, task);
        }
        Ok(Reply::Empty)
    }

    fn answer_if_not_running(&mut self, turn: &Turn<'_>, mut task: RunningTask) {
        let known = self.tasks.get(&task.key());
        // Another run of the task does not count: the run in question was refused because of it, and the refusal was lost.
        if task.is_healthcheck()
            || known.is_some_and(|known| {
                let is_it = known.running.invocation == task.invocation;
                is_it && !(known.is_queued() && sabotage::on(Sabotage::DenyQueued))
            })
        {
            return;
        }
        if !sabotage::on(Sabotage::SkipSequenceCheck) {
            self.invocations.remember(turn.now, task.invocation);
        }
        task.ended = None;
        self.reports.add(
            turn.now,
            Arc::new(task),
            ReportedStatus::was_not_running(),
            Kind::NotRunning,
        );
    }

    pub(crate) fn request_suicide(
        &mut self,
        turn: &mut Turn<'_>,
        ids: (SchedulerId, WorkerId),
        why: Option<&str>,
    ) -> Result<Reply, Refusal> {
        self.check_not_dying()?;
        self.check_ids(ids.0, ids.1)?;
        self.why_it_ends = Some(with_reason("the scheduler has requested it", why));
        // The worker's own timers have not run out, so the full kill wait from now ends in time, as after an answer of MUST_DIE.
        let now = turn.now;
        self.die(turn, ExitReason::SuicideRequested, now);
        Ok(Reply::Empty)
    }

    pub(crate) fn kill_task(
        &mut self,
        turn: &mut Turn<'_>,
        (key, invocation): (TaskKey, InvocationId),
        ids: (SchedulerId, WorkerId),
        kill: Kill,
    ) -> Result<Reply, Refusal> {
        self.check_not_dying()?;
        self.check_ids(ids.0, ids.1)?;
        let task = self.tasks.get(&key);
        match task.filter(|task| task.running.invocation == invocation) {
            Some(task) if task.is_live() => {}
            Some(task) if task.is_queued() => {
                // A queued task has no process, so each signal ends it.
                self.end_queued(turn, &key, invocation, &NeverBegins::Killed(kill.by));
                return Ok(Reply::Empty);
            }
            Some(_) => {
                self.reports.release(turn.now);
                let TaskKey { job, node } = key;
                return refuse(
                    RefusalCode::Unspecified,
                    format!("task `{job}` on `{node}`, invocation {invocation}, has ended already"),
                );
            }
            None => {
                let TaskKey { job, node } = key;
                return refuse(
                    RefusalCode::WrongId,
                    format!("task `{job}` on `{node}`, invocation {invocation}, does not run here"),
                );
            }
        }
        self.kill(turn, key, invocation, kill);
        Ok(Reply::Empty)
    }

    fn check_not_dying(&self) -> Result<(), Refusal> {
        if self.life.is_suicide() || self.life == Life::Gone {
            return refuse(
                RefusalCode::Unhealthy,
                "the worker ends this association and kills its tasks",
            );
        }
        Ok(())
    }

    fn check_not_leaving(&self) -> Result<(), Refusal> {
        self.check_not_dying()?;
        match self.life {
            Life::Leaving { .. } | Life::Farewell { .. } => refuse(
                RefusalCode::Draining,
                "the worker was told to end, and starts nothing more",
            ),
            Life::Running | Life::Draining { .. } | Life::Dying { .. } | Life::Gone => Ok(()),
        }
    }

    /// Healthchecks are still accepted, because a worker must stay HEALTHY until its tasks have ended.
    fn check_not_draining(&self) -> Result<(), Refusal> {
        match self.life {
            Life::Draining { .. } => refuse(
                RefusalCode::Draining,
                "the worker ends with the tasks that it has, and starts none any more",
            ),
            Life::Running
            | Life::Leaving { .. }
            | Life::Farewell { .. }
            | Life::Dying { .. }
            | Life::Gone => Ok(()),
        }
    }

    fn check_worker(&self, worker: WorkerId) -> Result<(), Refusal> {
        let own = self.id();
        if worker == own {
            return Ok(());
        }
        refuse(
            RefusalCode::WrongId,
            format!("meant for worker instance {worker}, this is {own}"),
        )
    }

    /// Refuses an instance older than the newest known one: bindings only move forward.
    fn check_not_outdated(&self, scheduler: SchedulerId) -> Result<(), Refusal> {
        match self.newest {
            Some(newest) if scheduler < newest => self.refuse_scheduler(scheduler),
            Some(_) | None => Ok(()),
        }
    }

    /// Checks that the call is for this worker instance, and from the scheduler instance whose heartbeat answers count.
    fn check_ids(&self, scheduler: SchedulerId, worker: WorkerId) -> Result<(), Refusal> {
        self.check_worker(worker)?;
        self.check_not_outdated(scheduler)?;
        if self.scheduler() == Some(scheduler) {
            return Ok(());
        }
        self.refuse_scheduler(scheduler)
    }

    fn check_bound(&self, scheduler: SchedulerId) -> Result<(), Refusal> {
        if self.binding.bound() == Some(scheduler) {
            return Ok(());
        }
        self.refuse_scheduler(scheduler)
    }

    /// Refuses a call and names the scheduler instance that the worker obeys instead: a later one that it has met, or else the bound one.
    fn refuse_scheduler(&self, scheduler: SchedulerId) -> Result<(), Refusal> {
        let later = self.newest.filter(|newest| *newest > scheduler);
        let obeyed = later.or_else(|| self.binding.bound());
        let code = match obeyed.filter(|obeyed| *obeyed != scheduler) {
            Some(obeyed) => RefusalCode::BoundTo(obeyed),
            None => RefusalCode::WrongId,
        };
        let said = |id: Option<SchedulerId>| id.map_or("none".to_owned(), |id| id.to_string());
        refuse(
            code,
            format!(
                "refused scheduler instance {scheduler}: the worker is bound to {}, hears heartbeat answers of {}, and has met {} last",
                said(self.binding.bound()),
                said(self.scheduler()),
                said(self.newest),
            ),
        )
    }
}
