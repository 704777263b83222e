//! The time for which the outputs of jobs are kept: what the configuration says, and what the states of tasks mean for it.

use std::collections::BTreeSet;
use std::time::Duration;

use brasserie_common::status::StoredStatus;
use brasserie_common::{JobName, NodeId, Time, WallTime};
use brasserie_common_config::{JobConfig, KeepOutputs};
use brasserie_scheduler_artifacts::{OwnerId, Replicas, SetOwner, SetRetention, SetTerms};
use brasserie_scheduler_engine::Task;

use super::view::unknown_job;
use super::{Scheduler, View};
use crate::artifacts::{Unfinished, consumers, retention_of};
use crate::jobs::{HoldId, JobChanged, JobRefusal, OutputHold};
use crate::news::News;
use crate::record::Record;

/// The time between two looks at the tasks that may still need outputs: short beside the minute for which outputs stay after that.
const JUDGE_PERIOD: Duration = Duration::from_secs(5);

impl Scheduler {
    /// Tells the registry which jobs leave outputs and which ones read them, after a configuration has come into force.
    pub(super) fn define_output_sets(&mut self, now: Time) {
        let Some(config) = self.engine.config().cloned() else {
            return;
        };
        let clocks = self.clocks(now);
        let is_first = self.artifacts.begin_definitions();
        let mut consumers = consumers(&config, |_| true);
        let jobs = config.jobs.iter().filter(|job| !job.outputs.is_empty());
        let mut defined = BTreeSet::new();
        for job in jobs {
            let consumers = consumers.remove(&job.name).unwrap_or_default();
            let replicas = self.view().replicas(job);
            self.artifacts.set_replicas(&job.name, replicas, now);
            if is_first {
                let last_use = self.view().last_use(&job.name, &consumers);
                self.artifacts.restore_use(clocks, &job.name, last_use);
            }
            self.define_output_set(now, job, consumers);
            self.pass_on_outputs(&job.name);
            defined.insert(job.name.clone());
        }
        self.artifacts.keep_sets(self.clocks(now), &defined);
        self.artifacts.judge_at(now);
    }

    /// Defines how long the outputs of one job are kept.
    fn define_output_set(&mut self, now: Time, job: &JobConfig, consumers: BTreeSet<JobName>) {
        let terms = SetTerms {
            owner: match job.keep {
                KeepOutputs::WhileHeld => SetOwner::Session(holder_of(&job.name)),
                KeepOutputs::UntilConsumed | KeepOutputs::For(_) | KeepOutputs::Forever => {
                    SetOwner::Scheduler
                }
            },
            retention: retention_of(job.keep),
        };
        let clocks = self.clocks(now);
        self.artifacts.define(clocks, &job.name, terms, consumers);
    }

    /// Defines anew the sets of these jobs, whose holds have ended: their next outputs are held anew.
    fn define_again(&mut self, now: Time, jobs: &BTreeSet<&JobName>) {
        let Some(config) = self.engine.config().cloned() else {
            return;
        };
        let mut consumers = consumers(&config, |job| jobs.contains(job));
        for name in jobs {
            let job = self.engine.find_job(name.as_str());
            let job = job.and_then(|job| self.engine.job_config(job)).cloned();
            if let Some(job) = job.filter(|job| !job.outputs.is_empty()) {
                let consumers = consumers.remove(*name).unwrap_or_default();
                self.define_output_set(now, &job, consumers);
            }
        }
    }

    /// Forgets the outputs that nobody needs any more. Called once a turn.
    pub(super) fn judge_outputs(&mut self, now: Time) {
        if self.artifacts.next_wake().is_none_or(|due| now < due) {
            return;
        }
        self.artifacts.judge_at(now + JUDGE_PERIOD);
        let is_blind = self.engine.nodes().is_none() || self.is_settling();
        if is_blind || self.outbox.store_error().is_some() {
            return;
        }
        let clocks = self.clocks(now);
        for (job, unfinished) in self.view().unfinished_of_sets() {
            self.artifacts.set_unfinished(clocks, &job, unfinished);
        }
        let expired = self.artifacts.expire(clocks);
        if !expired.is_empty() {
            let jobs = expired.iter().map(|(job, _)| job).collect();
            self.define_again(now, &jobs);
        }
        for (job, had_outputs) in expired {
            if had_outputs {
                self.outbox
                    .persist(Record::OutputsExpired { job: job.clone() });
                self.notices.news(News::OutputsExpired { job });
            }
        }
    }

    /// Holds the outputs of a job for a while, or ends that.
    pub(super) fn hold_outputs(
        &mut self,
        now: Time,
        job: &JobName,
        (hold, holder): (OutputHold, HoldId),
    ) -> Result<JobChanged, JobRefusal> {
        let id = self.engine.find_job(job.as_str());
        let Some(config) = id.and_then(|id| self.engine.job_config(id)) else {
            return Err(JobRefusal::Unknown(unknown_job(&self.engine, job.as_str())));
        };
        if config.keep != KeepOutputs::WhileHeld || config.outputs.is_empty() {
            return Err(JobRefusal::NotHeld(job.clone()));
        }
        let clocks = self.clocks(now);
        let owner = holder_of(job);
        let held = match hold {
            OutputHold::Continue => self.artifacts.hold(now, job, (&owner, holder)),
            OutputHold::End => self.artifacts.end_hold(clocks, job, (&owner, holder)),
        };
        self.artifacts.judge_at(now);
        Ok(JobChanged::OutputsHeld(held))
    }
}

/// Returns the session that owns the outputs of a job with `keep = "while_held"`.
fn holder_of(job: &JobName) -> OwnerId {
    OwnerId(job.as_str().into())
}

impl View<'_> {
    /// Returns on how many workers the outputs of a job should be: as many as its most wanted output.
    pub(super) fn replicas(&self, job: &JobConfig) -> Replicas {
        let counts = job.outputs.iter().map(|output| output.replicas.get());
        Replicas::new(counts.max().unwrap_or(1))
    }

    /// Returns when the outputs of a job were last written or read, by the completions of earlier schedulers. An output whose task has no
    /// known completion counts as written now.
    fn last_use(&self, job: &JobName, consumers: &BTreeSet<JobName>) -> WallTime {
        let end = |job: &JobName, node: NodeId| {
            let job = self.engine.find_job(job.as_str())?;
            self.engine.previous_status(Task { job, node })
        };
        let outputs = self.artifacts.registry().job_outputs(job);
        let written = outputs.map(|(node, _)| {
            let node = self.engine.find_node(node.as_str());
            let end = node.and_then(|node| end(job, node));
            end.map_or(self.wall, |end| end.time)
        });
        let readers = consumers.iter().flat_map(|reader| {
            let id = self.engine.find_job(reader.as_str());
            let nodes = id.map(|id| self.engine.ended_nodes(id));
            let nodes = nodes.into_iter().flatten();
            nodes.filter_map(move |node| end(reader, node))
        });
        let read = readers.filter(StoredStatus::is_done).map(|end| end.time);
        written.chain(read).max().unwrap_or(self.wall)
    }

    /// Returns, for each job with outputs, the tasks that may still make or read some.
    fn unfinished_of_sets(&self) -> Vec<(JobName, Unfinished)> {
        let sets = self.artifacts.registry().sets(None);
        let of_set = |job: &JobName, retention, consumers: &BTreeSet<JobName>| {
            let count = |job: &JobName| self.count_unfinished(job, retention);
            let unfinished = Unfinished {
                producers: count(job),
                consumers: consumers.iter().map(count).sum(),
            };
            (job.clone(), unfinished)
        };
        sets.map(|set| of_set(set.job, set.terms.retention, set.consumers))
            .collect()
    }

    /// Returns how many tasks of a job may still make or read outputs that are kept so long.
    ///
    /// Outputs that are kept until they are read wait even for tasks that failed, which an operator may forgive.
    pub(super) fn count_unfinished(&self, job: &JobName, retention: SetRetention) -> u64 {
        let Some(id) = self.engine.find_job(job.as_str()) else {
            return 0;
        };
        match retention {
            SetRetention::UntilConsumed => {
                let counts = self.engine.counts(id);
                counts.total.saturating_sub(counts.done)
            }
            SetRetention::For(_) | SetRetention::Forever => match self.engine.is_settled(id) {
                true => 0,
                false => 1,
            },
        }
    }
}
