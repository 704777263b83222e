//! The combined configuration of the file's jobs and the API jobs. Each is made from the previous one, so that a change of one job among
//! tens of thousands costs only that job.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use brasserie_common::{Hold, JobName};
use brasserie_common_config::{Config, JobConfig, Shared};

use super::Given;

/// The last combined configuration and the changes since.
#[derive(Clone, Debug, Default)]
pub(super) struct CombinedConfig {
    made: Option<LastCombined>,
    /// The configuration before `made`, and the jobs that differ in `made`. If nobody else holds it by then, the next configuration is made
    /// from it, because a copy of the list would touch each job.
    spare: Option<(Arc<Config>, BTreeSet<JobName>)>,
    /// The jobs that were submitted, deleted, paused, cancelled or resumed since `made`.
    changed: BTreeSet<JobName>,
}

#[derive(Clone, Debug)]
struct LastCombined {
    file: Arc<Config>,
    /// The jobs of the file in its order, then the API jobs by name.
    config: Arc<Config>,
}

/// A config file's configuration, and the positions of its jobs.
#[derive(Clone, Debug)]
pub(super) struct File {
    pub config: Arc<Config>,
    positions: BTreeMap<JobName, usize>,
}

impl File {
    pub(super) fn new(config: Arc<Config>) -> Self {
        let jobs = config.jobs.iter().enumerate();
        let positions = jobs.map(|(at, job)| (job.name.clone(), at)).collect();
        File { config, positions }
    }

    pub(super) fn has(&self, job: &JobName) -> bool {
        self.positions.contains_key(job)
    }

    /// Returns the same configuration, sharing equal parts with an earlier file. Later work then costs only the differences.
    pub(super) fn sharing(config: Arc<Config>, before: Option<&File>) -> Arc<Config> {
        let Some(before) = before else {
            return config;
        };
        let mut config = Arc::unwrap_or_clone(config);
        if config.node_sources == before.config.node_sources {
            config.node_sources = before.config.node_sources.clone();
        }
        for job in &mut config.jobs {
            let at = before.positions.get(&job.name);
            let known = at.and_then(|at| before.config.jobs.get(*at));
            if let Some(known) = known.filter(|known| *known == job) {
                *job = known.clone();
            }
        }
        Arc::new(config)
    }
}

impl CombinedConfig {
    /// Notes that this job has changed or was removed since the configuration was made.
    pub(super) fn mark_changed(&mut self, job: &JobName) {
        self.changed.insert(job.clone());
    }

    /// Returns the combined configuration: the jobs of `file` in its order, then the API jobs `given` by name, all with their holds. Costs
    /// only the changed jobs as long as `file` stays the same and nobody uses the configuration before the last one; otherwise copies the list. An API job that is not parsed yet is missing.
    pub(super) fn combine(
        &mut self,
        file: &File,
        given: &BTreeMap<JobName, Given>,
        held: &BTreeMap<JobName, Hold>,
    ) -> Arc<Config> {
        let changed = std::mem::take(&mut self.changed);
        let made = self.made.take();
        let made = made.filter(|made| Arc::ptr_eq(&made.file, &file.config));
        if made.is_none() {
            self.spare = None;
        }
        let config = match made {
            Some(made) => {
                let spare = self.spare.take();
                let spare = spare.and_then(|(config, names)| {
                    let config = Arc::try_unwrap(config).ok()?;
                    Some((config, names))
                });
                let (mut config, older) =
                    spare.unwrap_or_else(|| (Config::clone(&made.config), BTreeSet::new()));
                for name in changed.union(&older) {
                    put(&mut config.jobs, file, name, given.get(name), held);
                }
                self.spare = Some((made.config, changed));
                Arc::new(config)
            }
            None if given.is_empty() && held.is_empty() => Arc::clone(&file.config),
            None => {
                let mut config = Config::clone(&file.config);
                let given = given.values().filter_map(|given| given.read.clone());
                config.jobs.extend(given);
                for job in &mut config.jobs {
                    set_hold(job, held);
                }
                Arc::new(config)
            }
        };
        self.made = Some(LastCombined {
            file: Arc::clone(&file.config),
            config: Arc::clone(&config),
        });
        config
    }
}

/// Updates one job in place: sets its hold if it is in the file; else inserts, replaces or removes the API job. Keeps the order of `jobs`.
fn put(
    jobs: &mut Vec<Shared<JobConfig>>,
    file: &File,
    name: &JobName,
    given: Option<&Given>,
    held: &BTreeMap<JobName, Hold>,
) {
    if let Some(&at) = file.positions.get(name) {
        set_hold(&mut jobs[at], held);
        return;
    }
    let of_file = file.config.jobs.len();
    let at = jobs[of_file..].binary_search_by(|job| job.name.cmp(name));
    let read = given.and_then(|given| given.read.clone());
    let job = read.map(|mut job| {
        set_hold(&mut job, held);
        job
    });
    match (at, job) {
        (Ok(at), Some(job)) => jobs[of_file + at] = job,
        (Err(at), Some(job)) => jobs.insert(of_file + at, job),
        (Ok(at), None) => drop(jobs.remove(of_file + at)),
        (Err(_), None) => {}
    }
}

/// Sets the job's hold. Copies a shared job only if its hold changes.
fn set_hold(job: &mut Shared<JobConfig>, held: &BTreeMap<JobName, Hold>) {
    let hold = held.get(&job.name).copied();
    if job.hold != hold {
        job.hold = hold;
    }
}
