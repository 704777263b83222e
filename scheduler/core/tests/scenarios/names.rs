//! Names for everything that protocols know by numbers: a reader sees w1, S2 and run#3.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use brasserie_common::{InvocationId, SchedulerId, Standing, WorkerId, WorkerSetHash, WorkerSetId};

/// Sets are recognised by trying all sets of so many workers; a scenario with more could not be read.
const MAX_WORKERS: usize = 8;

/// Who is called what.
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

    /// The next scheduler of the data directory.
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

    /// `run#1`, `fetch#2`: the next one of a kind.
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

    /// A text for people, with names in place of ids.
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

    /// Scheduler, version and members: `S1/2 {w1 w2}`, and whether that scheduler was in its own wait.
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

    /// The workers whose set has this hash.
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

/// The hash of a set, as its scheduler would compute it.
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
