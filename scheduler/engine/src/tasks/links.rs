//! Links jobs to the jobs that they wait for, and sorts them so that each comes after those it depends on.

use std::collections::BTreeSet;

use brasserie_common::JobId;
use brasserie_common::collections::{IdMap, IdSet};

use super::Tasks;
use super::job::Job;

/// Whether some of the jobs to link are in the order of dependency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InOrder {
    Some,
    None,
}

impl Tasks {
    /// Rebuilds the links of all jobs.
    pub(crate) fn link_dependencies(&mut self) {
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

    /// Updates the links of some jobs. A job on which no other depends goes to the end of the order; otherwise all are sorted again.
    /// Returns the jobs that came into a cycle or left one.
    pub(crate) fn relink(&mut self, moved: &BTreeSet<JobId>, order: InOrder) -> Vec<JobId> {
        match order {
            InOrder::Some => self.by_dependency.retain(|id| !moved.contains(id)),
            InOrder::None => {}
        }
        for &id in moved {
            self.unlink(id);
            self.jobs[id.index()].cyclic = false;
        }
        for &id in moved {
            self.link(id);
        }
        if moved.iter().any(|id| self.job(*id).is_waited_for()) {
            let before: Vec<bool> = self.jobs.iter().map(|job| job.cyclic).collect();
            self.link_dependencies();
            let has_turned = |id: &JobId| {
                let was = before.get(id.index()).copied().unwrap_or(false);
                was != self.job(*id).cyclic
            };
            let configured = self.configured.iter().copied();
            return configured.filter(has_turned).collect();
        }
        let is_configured = |id: &JobId| self.job(*id).config.is_some();
        let last: Vec<JobId> = moved.iter().copied().filter(is_configured).collect();
        self.by_dependency.extend(last);
        Vec::new()
    }

    /// Returns configured jobs, those first that others depend on. Jobs in a cycle come in between.
    pub(crate) fn by_dependency(&self) -> &[JobId] {
        &self.by_dependency
    }

    /// Returns the configured ones of some jobs, in the order of dependency.
    pub(crate) fn in_order(&self, jobs: &BTreeSet<JobId>) -> Vec<JobId> {
        let is_configured = |id: &JobId| self.job(*id).config.is_some();
        match jobs.first() {
            Some(only) if jobs.len() == 1 => {
                let only = Some(*only).filter(is_configured);
                only.into_iter().collect()
            }
            Some(_) | None => {
                let in_order = self.by_dependency.iter().filter(|id| jobs.contains(id));
                in_order.copied().collect()
            }
        }
    }

    /// Returns whether a job waits for another one as a whole.
    pub(crate) fn has_gates(&self) -> bool {
        self.gates > 0
    }

    /// Iterates over the dependents that read more of a job's tasks than whether they are done: those outside cycles.
    pub(crate) fn dependents_in_order(&self, id: JobId) -> impl Iterator<Item = JobId> + '_ {
        let dependents = self.job(id).dependents.iter().copied();
        dependents.filter(|job| !self.job(*job).cyclic)
    }

    /// Returns these jobs and all that depend on them, task by task.
    pub(crate) fn with_dependents(&self, changed: BTreeSet<JobId>) -> BTreeSet<JobId> {
        let mut open: Vec<JobId> = changed.iter().copied().collect();
        let mut all = changed;
        while let Some(id) = open.pop() {
            let dependents = self.job(id).dependents.iter();
            open.extend(dependents.filter(|job| all.insert(**job)));
        }
        all
    }

    /// Links a configured job to the jobs that it waits for.
    fn link(&mut self, id: JobId) {
        let Some(config) = self.jobs[id.index()].config.clone() else {
            return;
        };
        for name in &config.depends_on {
            let on = self.intern(name);
            if !self.jobs[id.index()].depends_on.contains(&on) {
                self.jobs[id.index()].depends_on.push(on);
                self.jobs[on.index()].dependents.push(id);
            }
        }
        for name in &config.run_only_after_all_nodes_are_done_for {
            let on = self.intern(name);
            if !self.jobs[id.index()].after_all.contains(&on) {
                self.gates += 1;
                self.jobs[id.index()].after_all.push(on);
                self.jobs[on.index()].followers.push(id);
            }
        }
    }

    /// Undoes [`Tasks::link`].
    fn unlink(&mut self, id: JobId) {
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

    /// Returns messages about dependencies that cannot be met. The errors of a job say so themselves, such as those of a cycle.
    pub(crate) fn dependency_problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        for id in &self.configured {
            let job = &self.jobs[id.index()];
            let name = self.name(*id);
            for on in job.depends_on.iter().chain(&job.after_all) {
                if self.jobs[on.index()].config.is_none() {
                    let on = self.name(*on);
                    problems.push(format!(
                        "job `{name}` depends on `{on}`, which is not configured"
                    ));
                }
            }
            for on in &job.after_all {
                let config = self.jobs[on.index()].config.as_ref();
                if !has_errors(job) && config.is_some_and(|config| !config.can_be_waited_for()) {
                    let on = self.name(*on);
                    problems.push(format!(
                        "job `{name}` starts only when all of job `{on}` is done, which is disabled or has errors"
                    ));
                }
            }
        }
        let cyclic = self.configured.iter();
        let cyclic = cyclic.filter(|id| {
            let job = &self.jobs[id.index()];
            job.cyclic && !has_errors(job)
        });
        problems.extend(cyclic.map(|id| {
            let name = self.name(*id);
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

fn has_errors(job: &Job) -> bool {
    let config = job.config.as_ref();
    config.is_some_and(|config| !config.errors.is_empty())
}
