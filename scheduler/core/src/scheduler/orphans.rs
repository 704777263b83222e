//! Orphans: the check of running tasks after a change of the wanted tasks, and the kills of orphans.

use std::collections::BTreeSet;
use std::time::Duration;

use brasserie_common::{
    CallId, CallOutcome, EndedBy, Health, JobId, Kill, KillMethod, Shard, Time,
};
use brasserie_common_config::{Config, JobConfig};
use brasserie_scheduler_engine::Task;

use super::{Scheduler, View};
use crate::calls::{CallDraft, CallPurpose, CallReply};
use crate::orphans::OrphanKey;
use crate::orphans::wanted::{WantedTasks, changed_jobs};
use crate::runs::RunState;

/// The budget of a turn, in checks of one run. With a million runs a check takes a fraction of a microsecond, so this takes about two
/// milliseconds.
const CHECKS_A_TURN: usize = 5_000;
/// The cost of a run that is or was an orphan, in checks: it may be the only orphan of its worker, whose timers are then computed again.
const ORPHAN: usize = 10;

/// The result of a check.
#[derive(Debug, Default)]
struct Checked {
    orphans: Vec<(OrphanKey, Shard, Duration)>,
    /// The runs that were orphans and are wanted.
    wanted: Vec<(OrphanKey, Shard)>,
    /// The last checked task; `None`: the end of the range.
    up_to: Option<Task>,
}

impl Scheduler {
    /// Requires checks of the runs whose wanted state a new configuration may change. `before` is the previous configuration if its wanted
    /// tasks were known.
    pub(super) fn recheck_runs(&mut self, before: Option<&Config>) {
        let (Some(before), Some(after)) = (before, self.engine.config()) else {
            return self.orphans.recheck_all();
        };
        if before.kill_orphan_tasks_after != after.kill_orphan_tasks_after {
            return self.orphans.recheck_all();
        }
        for job in changed_jobs(before, after) {
            if let Some(job) = self.engine.find_job(job.as_str()) {
                self.orphans.recheck_job(job);
            }
        }
    }

    /// Checks the next runs. Called once a turn.
    pub(super) fn check_runs(&mut self, now: Time) {
        let mut left = CHECKS_A_TURN;
        while left > 0 && self.orphans.is_rechecking() {
            let checked = self.view().check_range(&mut left);
            let orphans = &mut self.orphans;
            orphans.note_checked(checked.up_to);
            let mut shards = BTreeSet::new();
            for (run, shard) in checked.wanted {
                orphans.forget(run);
                shards.insert(shard);
            }
            for (run, shard, delay) in checked.orphans {
                orphans.note(now, run, &shard, delay);
                shards.insert(shard);
            }
            for shard in &shards {
                self.evaluate(now, shard);
            }
        }
    }

    /// Checks a listed run that this scheduler has not placed, or had placed before the configuration changed.
    pub(super) fn check_adopted(&mut self, now: Time, run: OrphanKey, shard: &Shard) {
        if self.runs.find(run.0, run.1).is_some()
            && let Some(delay) = self.view().wanted().kill_delay(run.0)
        {
            self.orphans.note(now, run, shard, delay);
        }
    }

    /// Kills due orphans. Called once a turn, after everything else: a machine that wakes up has due orphans, and the same turn may bring
    /// the news that they are wanted again.
    pub(super) fn kill_due_orphans(&mut self, now: Time) {
        for shard in self.orphans.take_evaluated() {
            self.kill_due_orphans_of(now, &shard);
        }
    }

    /// Kills a worker's orphans that are due, as far as they are confirmed to run there.
    fn kill_due_orphans_of(&mut self, now: Time, shard: &Shard) {
        let Some(remote) = self.pool.get(shard) else {
            return;
        };
        match remote.health() {
            // The runs of the worker are not known yet, or lost.
            Health::New | Health::MustDie => return,
            Health::Healthy | Health::Unhealthy => {}
        }
        let (worker, peer) = (remote.id(), remote.address().clone());
        let runs_there = |(task, invocation): &OrphanKey| {
            let run = self.runs.find(*task, *invocation);
            run.is_some_and(|run| run.state == RunState::Running)
        };
        let due = self.orphans.due(shard, now).filter(runs_there);
        let due = due.filter(|run| self.view().may_kill(now, *run));
        let due: Vec<OrphanKey> = due.take(self.orphans.kills_left(shard)).collect();
        for run in due {
            let (task, invocation) = run;
            let kill = Kill {
                request: self.view().kill_request(task.job),
                by: self.view().killed_by(task.job),
            };
            let call = CallDraft::KillTask {
                worker,
                task,
                invocation,
                kill,
            };
            let purpose = CallPurpose::EndOrphan {
                shard: shard.clone(),
                worker,
                task,
                invocation,
            };
            let id = self.call(now, peer.clone(), call, purpose);
            self.orphans.kill_requested(now, run, id);
        }
    }

    /// Handles the outcome of a kill request.
    pub(super) fn orphan_kill_answered(
        &mut self,
        now: Time,
        shard: &Shard,
        (run, call): (OrphanKey, CallId),
        outcome: &CallOutcome<CallReply>,
    ) {
        let kill = self.view().kill_request(run.0.job);
        let kill_wait = match kill.method {
            KillMethod::TermWaitKill => kill.wait,
            KillMethod::Term | KillMethod::Kill => Duration::ZERO,
        };
        self.orphans
            .kill_answered(now, (run, shard, call), kill_wait, outcome);
        self.evaluate(now, shard);
    }
}

impl View<'_> {
    /// Returns the decision about which tasks are wanted.
    pub(super) fn wanted(&self) -> WantedTasks<'_> {
        WantedTasks::new(&self.engine, self.engine.nodes_owner())
    }

    fn check_range(&self, left: &mut usize) -> Checked {
        let mut checked = Checked::default();
        let Some((from, to)) = self.orphans.next_unchecked() else {
            return checked;
        };
        let wanted = self.wanted();
        for (task, runs) in self.runs.running_in(from..=to) {
            let delay = wanted.kill_delay(task);
            for run in runs {
                let key: OrphanKey = (task, run.invocation);
                *left = left.saturating_sub(1);
                match delay {
                    Some(delay) => checked.orphans.push((key, run.shard.clone(), delay)),
                    None if wanted.is_known_of(task.job) && self.orphans.since(key).is_some() => {
                        checked.wanted.push((key, run.shard.clone()));
                    }
                    None => continue,
                }
                *left = left.saturating_sub(ORPHAN);
            }
            if *left == 0 {
                checked.up_to = Some(task);
                break;
            }
        }
        checked
    }

    /// Returns the reason that the run's story will give.
    fn killed_by(&self, job: JobId) -> EndedBy {
        let job = self.engine.job_config(job);
        match job.is_some_and(JobConfig::is_cancelled) {
            true => EndedBy::Operator,
            false => EndedBy::Orphan,
        }
    }

    /// Checks whether the run may still be killed, because the configuration may have changed since it was found.
    fn may_kill(&self, now: Time, run: OrphanKey) -> bool {
        let since = self.orphans.since(run);
        let delay = self.wanted().kill_delay(run.0);
        since
            .zip(delay)
            .is_some_and(|(since, delay)| since + delay <= now)
    }
}
