//! Applies a configuration that differs from the former one only in jobs. The cost grows with the changes, plus a comparison for each job.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use brasserie_common::{JobId, JobName};
use brasserie_common_config::{Config, JobConfig, Shared};

use super::super::Engine;
use super::FormerJob;
use crate::pool::Group;
use crate::tasks::links::InOrder;

/// The part of the job list in which two configurations differ.
pub(super) struct JobListChange {
    /// Its range in the former list.
    range: Range<usize>,
    /// Its jobs in the new list.
    jobs: Vec<Shared<JobConfig>>,
}

impl Engine {
    /// Returns the step to a configuration; `None` if more than jobs differ, or a job is configured twice.
    pub(super) fn job_list_change(&self, config: &Config) -> Option<JobListChange> {
        let before = self.config.as_ref()?;
        let (old, new) = (&before.jobs, &config.jobs);
        if self.tasks.configured().len() != old.len() || !before.has_settings_of(config) {
            return None;
        }
        let is_same = |(a, b): &(&Shared<JobConfig>, &Shared<JobConfig>)| a.is_same(b);
        let front = old.iter().zip(new).take_while(is_same).count();
        let (old_end, new_end) = (old[front..].iter().rev(), new[front..].iter().rev());
        let back = old_end.zip(new_end).take_while(is_same).count();
        let range = front..old.len() - back;
        let jobs = &new[front..new.len() - back];
        let leaving: BTreeSet<JobId> = self.tasks.configured()[range.clone()]
            .iter()
            .copied()
            .collect();
        let mut names: BTreeSet<&JobName> = BTreeSet::new();
        let is_elsewhere =
            |id: JobId| self.tasks.job(id).config.is_some() && !leaving.contains(&id);
        for job in jobs {
            let id = self.find_job(job.name.as_str());
            if id.is_some_and(is_elsewhere) || !names.insert(&job.name) {
                return None;
            }
        }
        Some(JobListChange {
            range,
            jobs: jobs.to_vec(),
        })
    }

    pub(super) fn apply_job_list_change(&mut self, JobListChange { range, jobs }: JobListChange) {
        let Some(config) = self.config.clone() else {
            return;
        };
        let old = self.tasks.configured()[range.clone()].to_vec();
        let former = self.former_jobs(&old);
        let new: Vec<JobId> = jobs.iter().map(|job| self.intern_job(&job.name)).collect();
        self.tasks.replace(range, &new);
        let stay: BTreeSet<JobId> = new.iter().copied().collect();
        let mut touched: BTreeSet<JobId> =
            old.into_iter().filter(|id| !stay.contains(id)).collect();
        for id in &touched {
            self.remove_job(*id, &former);
        }
        for (&id, job) in new.iter().zip(&jobs) {
            let before = former.get(&id).map(|former| &former.config);
            if !before.is_some_and(|before| before.is_same(job)) {
                self.change_job(id, job, &config, before);
                touched.insert(id);
            }
        }
        let turned = self.relink(&touched, &former);
        let (mut changed, requeued) = self.affected_jobs(touched.clone(), &former);
        changed.extend(turned);
        self.rebuild_jobs(changed, &requeued);
        for &id in &touched {
            self.count_ready(id);
        }
        self.check_root();
    }

    /// Removes a job that is no longer configured.
    fn remove_job(&mut self, id: JobId, former: &BTreeMap<JobId, FormerJob>) {
        self.tasks.remove_settings(id);
        self.pool.leave(id, self.tasks.job(id).demand);
        if let Some(former) = former.get(&id) {
            self.needs.leave(id, &former.config);
        }
    }

    /// Applies a job that is new or configured differently.
    fn change_job(
        &mut self,
        id: JobId,
        job: &Shared<JobConfig>,
        config: &Config,
        before: Option<&Shared<JobConfig>>,
    ) {
        if let Some(before) = before {
            self.needs.leave(id, before);
        }
        let left = self.tasks.job(id).demand;
        self.configure_job(id, job);
        if self.join_pool(id, config) == Group::New {
            self.check_demand(id);
        }
        if before.is_some() {
            self.pool.leave(id, left);
        }
    }

    /// Updates the links between jobs. A job on which no other depends goes to the end of the order; otherwise all are sorted again.
    /// Returns the other jobs that came into a cycle or left one.
    fn relink(
        &mut self,
        touched: &BTreeSet<JobId>,
        former: &BTreeMap<JobId, FormerJob>,
    ) -> Vec<JobId> {
        let mut moved = BTreeSet::new();
        for &id in touched {
            let links = |config: &Shared<JobConfig>| {
                let JobConfig {
                    depends_on,
                    run_only_after_all_nodes_are_done_for: after_all,
                    ..
                } = &**config;
                (depends_on.clone(), after_all.clone())
            };
            let was = former.get(&id).map(|former| links(&former.config));
            let is = self.tasks.job(id).config.as_ref().map(links);
            if was != is {
                moved.insert(id);
            }
        }
        if moved.is_empty() {
            return Vec::new();
        }
        let order = match moved.iter().any(|id| former.contains_key(id)) {
            true => InOrder::Some,
            false => InOrder::None,
        };
        let mut turned = self.tasks.relink(&moved, order);
        self.expect_jobs();
        self.restart_pass();
        turned.retain(|id| !touched.contains(id));
        turned
    }
}
