//! Names for everything that the protocol identifies by numbers, such as w1, S2 and run#3.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use brasserie_common::{InvocationId, SchedulerId, Standing, WorkerId, WorkerSetHash, WorkerSetId};

/// The most workers of a scenario. A set is recognized by trying all sets of workers, and a scenario with more workers would be hard to
/// read.
const MAX_WORKERS: usize = 8;

/// The names of schedulers, workers and runs.
#[derive(Default)]
pub struct Names {
    schedulers: BTreeMap<SchedulerId, String>,
    workers: BTreeMap<WorkerId, String>,
    runs: BTreeMap<InvocationId, String>,
    counts: BTreeMap<&'static str, usize>,
}

impl Names {
    pub fn name_scheduler(&mut self, id: SchedulerId, name: String) {
        self.schedulers.insert(id, name);
    }

    /// Names the next scheduler of the data directory.
    pub fn next_scheduler(&mut self, id: SchedulerId) -> String {
        let name = format!("S{}", self.count("scheduler"));
        self.schedulers.insert(id, name.clone());
        name
    }

    pub fn name_worker(&mut self, id: WorkerId, name: String) -> Result<(), String> {
        if self.workers.len() >= MAX_WORKERS {
            return Err(format!("a scenario has at most {MAX_WORKERS} workers"));
        }
        match self.workers.insert(id, name) {
            None => Ok(()),
            Some(other) => Err(format!("`{other}` has this start time and rand")),
        }
    }

    pub fn name_run(&mut self, id: InvocationId, name: String) {
        self.runs.insert(id, name);
    }

    /// Returns the next name of a kind, such as `run#1` or `fetch#2`.
    pub fn next(&mut self, kind: &'static str) -> String {
        format!("{kind}#{}", self.count(kind))
    }

    fn count(&mut self, kind: &'static str) -> usize {
        let count = self.counts.entry(kind).or_default();
        *count += 1;
        *count
    }

    pub fn scheduler(&self, id: SchedulerId) -> String {
        name_of(&self.schedulers, id)
    }

    pub fn worker(&self, id: WorkerId) -> String {
        name_of(&self.workers, id)
    }

    pub fn run(&self, id: InvocationId) -> String {
        name_of(&self.runs, id)
    }

    pub fn find_scheduler(&self, name: &str) -> Result<SchedulerId, String> {
        let found = self.schedulers.iter().find(|(_, known)| *known == name);
        let (id, _) = found.ok_or_else(|| format!("no scheduler is called `{name}`"))?;
        Ok(*id)
    }

    pub fn find_worker(&self, name: &str) -> Result<WorkerId, String> {
        let found = self.workers.iter().find(|(_, known)| *known == name);
        let (id, _) = found.ok_or_else(|| format!("no worker is called `{name}`"))?;
        Ok(*id)
    }

    /// Replaces the ids in a text by names.
    pub fn in_text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        let schedulers = self
            .schedulers
            .iter()
            .map(|(id, name)| (id.to_string(), name));
        let workers = self.workers.iter().map(|(id, name)| (id.to_string(), name));
        let runs = self.runs.iter().map(|(id, name)| (id.to_string(), name));
        for (id, name) in schedulers.chain(workers).chain(runs) {
            text = text.replace(&id, name);
        }
        text
    }

    /// Returns the scheduler, version and members of a set, such as `S1/2 {w1 w2}`, and whether its scheduler was in its initial wait.
    pub fn set(&self, set: &WorkerSetId) -> String {
        if *set == WorkerSetId::default() {
            return "no set".to_owned();
        }
        let members = self.members(&set.hash);
        let members = members.unwrap_or_else(|| format!("{} unknown", set.hash.num_workers));
        let standing = match set.standing {
            Standing::Settled => "",
            Standing::Unsettled => " unsettled",
        };
        format!(
            "{}/{} {{{members}}}{standing}",
            self.scheduler(set.scheduler),
            set.version
        )
    }

    /// Returns the workers whose set has this hash.
    fn members(&self, hash: &WorkerSetHash) -> Option<String> {
        let workers: Vec<WorkerId> = self.workers.keys().copied().collect();
        (0..1_u32 << workers.len()).find_map(|chosen| {
            let members = workers
                .iter()
                .enumerate()
                .filter(|(i, _)| chosen & (1 << i) != 0)
                .map(|(_, id)| *id);
            let is_same = hash_of(members.clone()).same_set(hash);
            let names: BTreeSet<String> = members.map(|id| self.worker(id)).collect();
            is_same.then(|| names.into_iter().collect::<Vec<_>>().join(" "))
        })
    }
}

/// Returns the hash of a set as its scheduler would compute it.
pub fn hash_of(workers: impl Iterator<Item = WorkerId>) -> WorkerSetHash {
    let mut hash = WorkerSetHash::NOBODY;
    for worker in workers {
        hash.add(worker);
    }
    hash
}

fn name_of<I: Copy + Ord + Display>(names: &BTreeMap<I, String>, id: I) -> String {
    match names.get(&id) {
        Some(name) => name.clone(),
        None => format!("unknown {id}"),
    }
}
