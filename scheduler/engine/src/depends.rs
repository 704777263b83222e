//! Which jobs wait for which, in an order that puts those first that others depend on.

use brasserie_common::collections::{IdMap, IdSet};
use brasserie_common::{JobId, JobName};
use brasserie_common_config::{Config, JobConfig};

use crate::engine::Engine;
use crate::statuses::job::Job;

impl Engine {
    pub(crate) fn link_dependencies(&mut self, config: &Config) {
        for i in 0..self.configured.len() {
            let id = self.configured[i];
            let Some(index) = self.jobs[id.index()].config_index else {
                continue;
            };
            let job_config = &config.jobs[index];
            for name in &job_config.depends_on {
                let on = self.link(job_config, name);
                if !self.jobs[id.index()].depends_on.contains(&on) {
                    self.jobs[id.index()].depends_on.push(on);
                    self.jobs[on.index()].dependents.push(id);
                }
            }
            for name in &job_config.run_only_after_all_nodes_are_done_for {
                let on = self.link(job_config, name);
                if self
                    .job_config(on)
                    .is_some_and(|on| !on.can_be_waited_for())
                {
                    self.config_problems.push(format!(
                        "job `{}` starts only when all of job `{name}` is done, which is disabled or has errors",
                        job_config.name
                    ));
                }
                if !self.jobs[id.index()].after_all.contains(&on) {
                    self.jobs[id.index()].after_all.push(on);
                    self.jobs[on.index()].followers.push(id);
                }
            }
        }
        self.sort_by_dependency();
    }

    /// The job of a name that another one waits for.
    fn link(&mut self, job: &JobConfig, name: &JobName) -> JobId {
        let on = self.intern_job(name);
        if self.jobs[on.index()].config_index.is_none() {
            let problem = format!(
                "job `{}` depends on `{name}`, which is not configured",
                job.name
            );
            self.config_problems.push(problem);
        }
        on
    }

    /// Kahn's algorithm from both ends: what neither end reaches is in a circle, or between two.
    fn sort_by_dependency(&mut self) {
        let mut open: Vec<JobId> = self.configured.clone();
        let mut first = Vec::new();
        let mut last = Vec::new();
        self.peel(&mut open, &mut first, |job| {
            [&job.depends_on, &job.after_all]
        });
        self.peel(&mut open, &mut last, |job| {
            [&job.dependents, &job.followers]
        });
        last.reverse();
        for job in &mut self.jobs {
            job.cyclic = false;
        }
        for &id in &open {
            self.jobs[id.index()].cyclic = true;
            self.config_problems.push(format!(
                "job `{}` depends on itself, by whatever way round",
                self.job_names.get(id.0)
            ));
        }
        self.by_dependency = [first, open, last].concat();
    }

    /// Moves jobs that lack nothing from `open` to `done`, in order.
    fn peel(
        &self,
        open: &mut Vec<JobId>,
        done: &mut Vec<JobId>,
        needs: fn(&Job) -> [&Vec<JobId>; 2],
    ) {
        let mut left: IdMap<JobId, usize> = IdMap::default();
        let members: IdSet<JobId> = open.iter().copied().collect();
        let mut users: IdMap<JobId, Vec<JobId>> = IdMap::default();
        for &id in open.iter() {
            let within = needs(&self.jobs[id.index()])
                .into_iter()
                .flatten()
                .filter(|on| members.contains(on));
            let mut count = 0;
            for on in within {
                users.entry(*on).or_default().push(id);
                count += 1;
            }
            left.insert(id, count);
        }
        let mut free: std::collections::VecDeque<JobId> =
            open.iter().copied().filter(|id| left[id] == 0).collect();
        let mut peeled: IdSet<JobId> = IdSet::default();
        while let Some(id) = free.pop_front() {
            peeled.insert(id);
            done.push(id);
            for user in users.remove(&id).unwrap_or_default() {
                if let Some(count) = left.get_mut(&user) {
                    *count -= 1;
                    if *count == 0 {
                        free.push_back(user);
                    }
                }
            }
        }
        open.retain(|id| !peeled.contains(id));
    }
}
