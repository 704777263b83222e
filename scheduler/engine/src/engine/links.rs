//! Links jobs to the jobs that they wait for, and sorts them so that each comes after those it depends on.

use brasserie_common::JobId;
use brasserie_common::collections::{IdMap, IdSet};

use super::Engine;
use crate::statuses::job::Job;

impl Engine {
    /// Rebuilds the links of all jobs.
    pub(super) fn link_dependencies(&mut self) {
        for job in &mut self.jobs {
            job.depends_on.clear();
            job.dependents.clear();
            job.after_all.clear();
            job.followers.clear();
        }
        self.gates = 0;
        for id in self.configured.clone() {
            self.link(id);
        }
        self.sort_by_dependency();
    }

    /// Links a configured job to the jobs that it waits for.
    pub(super) fn link(&mut self, id: JobId) {
        let Some(config) = self.jobs[id.index()].config.clone() else {
            return;
        };
        for name in &config.depends_on {
            let on = self.intern_job(name);
            if !self.jobs[id.index()].depends_on.contains(&on) {
                self.jobs[id.index()].depends_on.push(on);
                self.jobs[on.index()].dependents.push(id);
            }
        }
        for name in &config.run_only_after_all_nodes_are_done_for {
            let on = self.intern_job(name);
            if !self.jobs[id.index()].after_all.contains(&on) {
                self.gates += 1;
                self.jobs[id.index()].after_all.push(on);
                self.jobs[on.index()].followers.push(id);
            }
        }
    }

    /// Undoes [`Engine::link`].
    pub(super) fn unlink(&mut self, id: JobId) {
        for on in std::mem::take(&mut self.jobs[id.index()].depends_on) {
            let dependents = &mut self.jobs[on.index()].dependents;
            dependents.retain(|dependent| *dependent != id);
        }
        for on in std::mem::take(&mut self.jobs[id.index()].after_all) {
            self.gates -= 1;
            let followers = &mut self.jobs[on.index()].followers;
            followers.retain(|follower| *follower != id);
        }
    }

    /// Returns messages about dependencies that cannot be met.
    pub(super) fn dependency_problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        for id in &self.configured {
            let job = &self.jobs[id.index()];
            let name = self.job_names.get(id.0);
            for on in job.depends_on.iter().chain(&job.after_all) {
                if self.jobs[on.index()].config.is_none() {
                    let on = self.job_names.get(on.0);
                    problems.push(format!(
                        "job `{name}` depends on `{on}`, which is not configured"
                    ));
                }
            }
            for on in &job.after_all {
                let config = self.jobs[on.index()].config.as_ref();
                if config.is_some_and(|config| !config.can_be_waited_for()) {
                    let on = self.job_names.get(on.0);
                    problems.push(format!(
                        "job `{name}` starts only when all of job `{on}` is done, which is disabled or has errors"
                    ));
                }
            }
        }
        let cyclic = self.configured.iter();
        let cyclic = cyclic.filter(|id| self.jobs[id.index()].cyclic);
        problems.extend(cyclic.map(|id| {
            let name = self.job_names.get(id.0);
            format!("job `{name}` depends on itself, by whatever way round")
        }));
        problems
    }

    /// Sorts with Kahn's algorithm from both ends. Jobs that neither end reaches are in a cycle, or between two.
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
        }
        self.by_dependency = [first, open, last].concat();
        self.order_has_changed();
    }

    /// Moves jobs whose needs are all met from `open` to `done`, in order.
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
