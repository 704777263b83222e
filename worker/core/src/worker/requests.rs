//! Serves the scheduler's calls.

use std::sync::Arc;

use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::{
    EndedBy, InvocationId, Kill, RefusalCode, ReportedStatus, RunningTask, SchedulerId,
    SequenceNumber, TaskKey, WorkerId,
};
use brasserie_worker_fetch::AssociationIndex;

use super::Worker;
use super::processes::NeverBegins;
use crate::effect::{Refusal, Reply};
use crate::event::RunTask;
use crate::machine::{Begin, Place};
use crate::reports::ReportKind;
use crate::tasks::{RunStage, WorkerTask};

fn refuse<T>(code: RefusalCode, message: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::new(code, message))
}

impl Worker {
    pub(super) fn get_running_tasks(
        &mut self,
        worker: WorkerId,
        scheduler: Option<SchedulerId>,
    ) -> Result<Reply, Refusal> {
        let of = self.meant(worker);
        let one = &mut self.associations[of.0];
        one.session.bind(worker, scheduler)?;
        Ok(Reply::RunningTasks(one.tasks.listing()))
    }

    /// Starts or queues a run, or refuses it. Remembers refused invocations too, because the refusal promises that they will never run.
    pub(super) fn run_task(&mut self, mut run: RunTask) -> Result<Reply, Refusal> {
        let of = self.meant(run.worker);
        let is_healthcheck = run.task.is_healthcheck();
        let verdict = self.may_run(of, &run);
        let session = &mut self.associations[of.0].session;
        // A run with another worker's id would be refused again anyway.
        let forgets = verdict.is_err() && sabotage::on(Sabotage::ForgetRefused);
        if !is_healthcheck && run.worker == session.id() && !forgets {
            session.remember(self.now, run.task.invocation);
        }
        let begin = verdict.inspect_err(|why| match &mut self.fetching {
            Some(fetching) if why.code == RefusalCode::Busy => fetching.refused(of),
            Some(_) | None => {}
        })?;
        if is_healthcheck {
            session.remember_healthcheck(&run);
            // The older healthcheck of this node would answer a scheduler that is gone.
            self.drop_outdated_healthcheck(of, &run);
        }
        if run.command.is_empty() {
            run.command = self.options.worker_command.clone();
        }
        run.task.ended = None;
        let may_stand_by = run.task.worker_slots.is_some();
        if begin != Begin::Later || self.fetching.is_some() {
            run.task.worker_slots = None;
        }
        match &begin {
            Begin::Now(cards) if run.task.takes_cards() => run.task.give_cards(cards.clone()),
            Begin::Now(_) | Begin::Later => {}
        }
        let queued_at = self.accept(of, Arc::new(run), &begin);
        Ok(match may_stand_by {
            true => Reply::Accepted { queued_at },
            false => Reply::Empty,
        })
    }

    /// Adds an accepted run. Returns its place if it is queued.
    fn accept(&mut self, of: AssociationIndex, run: Arc<RunTask>, begin: &Begin) -> Option<Place> {
        let fetching = self.fetching.as_mut();
        let fetching = fetching.filter(|_| !run.task.is_healthcheck());
        let pull = fetching.map(|fetching| {
            Box::new(fetching.accept(self.now, of, &run, begin, self.machine.cards()))
        });
        let key = run.task.key();
        let (stage, queued_at) = match begin {
            Begin::Now(_) => {
                self.machine.count_begin(&run.task);
                (RunStage::Live, None)
            }
            Begin::Later => {
                let run = Arc::clone(&run);
                let place = self.machine.enqueue((of, key.clone()), &run.task);
                (RunStage::Queued { run, place }, Some(place))
            }
        };
        let task = WorkerTask::new(self.now, &run, stage, pull);
        self.associations[of.0].tasks.insert(key, task);
        if let Begin::Now(_) = begin {
            self.spawn(of, run);
        }
        queued_at
    }

    fn may_run(&mut self, of: AssociationIndex, run: &RunTask) -> Result<Begin, Refusal> {
        let elsewhere = self.is_open_elsewhere(run);
        let one = &mut self.associations[of.0];
        one.session.check_start(run)?;
        one.tasks.check_key(run)?;
        one.session.check_new(self.now, run)?;
        if !run.task.is_healthcheck() {
            one.tasks.check_number()?;
        }
        if elsewhere {
            return refuse(
                RefusalCode::Duplicate,
                "a run of the same task and invocation is open here for another scheduler",
            );
        }
        let begin = match self.machine.admit(of, &run.task)? {
            // Other tasks use its slots: it was sent to stand by, or they overtook it on the way.
            Begin::Now(_) if !self.has_slots_for(of, &run.task) => Begin::Later,
            begin => begin,
        };
        if begin == Begin::Later
            && let Some(fetching) = &self.fetching
        {
            fetching.check_backlog(&run.task, self.machine.cards())?;
        }
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

    /// Returns whether an association other than the addressed one has an open run of the same task and invocation. The shell could not
    /// tell the two runs apart. Two schedulers draw the same invocation for their healthchecks of the same second, and for other tasks only
    /// by error.
    fn is_open_elsewhere(&self, run: &RunTask) -> bool {
        let (task, invocation) = (run.task.key(), run.task.invocation);
        let mut others = self.associations.iter();
        others.any(|one| one.session.id() != run.worker && one.tasks.is_open(&task, invocation))
    }

    fn drop_outdated_healthcheck(&mut self, of: AssociationIndex, run: &RunTask) {
        let one = &mut self.associations[of.0];
        if let Some(old) = one.tasks.get(&run.task.key()) {
            let old = (run.task.key(), old.running.invocation);
            one.reports
                .retain(|report| (report.task.key(), report.task.invocation) != old);
            one.tasks.forget(&old.0, old.1);
        }
    }

    /// Queues an answer for each task that does not run. These runs never start later.
    pub(super) fn notify_if_tasks_not_running(
        &mut self,
        tasks: Vec<RunningTask>,
        ids: (SchedulerId, WorkerId),
        sequence: SequenceNumber,
    ) -> Result<Reply, Refusal> {
        let of = self.meant(ids.1);
        let one = &mut self.associations[of.0];
        one.session.check_question(ids, sequence)?;
        one.reports.check_answers(tasks.len())?;
        one.session.advance_sequence(sequence);
        // The scheduler waits for news of its tasks.
        one.reports.release(self.now);
        for task in tasks {
            self.answer_if_not_running(of, task);
        }
        Ok(Reply::Empty)
    }

    fn answer_if_not_running(&mut self, of: AssociationIndex, mut task: RunningTask) {
        let one = &mut self.associations[of.0];
        let known = one.tasks.get(&task.key());
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
            one.session.remember(self.now, task.invocation);
        }
        task.ended = None;
        one.reports.add(
            self.now,
            Arc::new(task),
            ReportedStatus::was_not_running(),
            ReportKind::NotRunning,
        );
    }

    pub(super) fn request_suicide(
        &mut self,
        ids: (SchedulerId, WorkerId),
        why: Option<Arc<str>>,
    ) -> Result<Reply, Refusal> {
        let of = self.meant(ids.1);
        let session = &mut self.associations[of.0].session;
        let kill = session.request_suicide(self.now, ids, why.as_deref())?;
        self.kill_all(of, kill);
        Ok(Reply::Empty)
    }

    pub(super) fn kill_task(
        &mut self,
        (key, invocation): (TaskKey, InvocationId),
        ids: (SchedulerId, WorkerId),
        kill: Kill,
    ) -> Result<Reply, Refusal> {
        let of = self.meant(ids.1);
        let one = &mut self.associations[of.0];
        one.session.check_serves(ids)?;
        let task = one.tasks.get(&key);
        match task.filter(|task| task.running.invocation == invocation) {
            Some(task)
                if task.is_live()
                    && kill.by == EndedBy::TakeBack
                    && !sabotage::on(Sabotage::KillBegunForTakeBack) =>
            {
                let TaskKey { job, node } = key;
                return refuse(
                    RefusalCode::Unspecified,
                    format!("task `{job}` on `{node}`, invocation {invocation}, has begun"),
                );
            }
            Some(task) if task.is_live() => self.kill(of, key, invocation, kill),
            Some(task) if task.is_queued() => {
                // A queued task has no process, so each signal ends it.
                self.end_queued(of, &key, invocation, &NeverBegins::Killed(kill.by));
            }
            Some(_) => {
                one.reports.release(self.now);
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
        Ok(Reply::Empty)
    }
}
