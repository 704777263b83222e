//! A plain scheduler: names everywhere, and a full scan for each question. It is slow, and simple enough to be trusted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use brasserie_common::resources::NodeResources;
use brasserie_common::status::StoredStatus;
use brasserie_common::{Card, GpuShare, Time};
use brasserie_common_config::{Config, JobConfig, LevelId, PhysicalKind, ResourceLimit};

use crate::{NodeTable, NodesOwner, Row, WorkerResources};

pub(super) type Key = (String, String);

#[derive(Clone, Debug, Default)]
pub(super) struct Plain {
    pub(super) config: Option<Arc<Config>>,
    pub(super) nodes: Option<Arc<NodeTable>>,
    pub(super) nodes_owner: NodesOwner,
    pub(super) statuses: BTreeMap<Key, StoredStatus>,
    pub(super) waits: BTreeMap<Key, Time>,
    pub(super) held: BTreeSet<Key>,
    pub(super) barrier: Option<Time>,
    pub(super) running: BTreeMap<Key, PlainRun>,
    pub(super) workers: BTreeMap<String, (WorkerResources, bool)>,
    /// Requests of pull workers, by shard.
    pub(super) asked: BTreeMap<String, Asked>,
    /// Learned run times, by job.
    pub(super) learned: BTreeMap<String, f64>,
}

/// The request of a pull worker.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    /// Whether it wants tasks that may be queued, and others: on the CPU, on GPUs of model A, and on GPUs of model B.
    pub(super) may: [[bool; 2]; 3],
    /// Whether it chooses GPUs itself, so that those in use do not count.
    pub(super) chooses_cards: bool,
    /// Estimated delay in seconds.
    pub(super) delay: f64,
    /// The longest estimate of a task with a deadline that is in time there; tasks on GPUs are exempt.
    pub(super) longest: f64,
}

/// The resources of a running task.
#[derive(Clone, Debug)]
pub(super) struct PlainRun {
    pub(super) charges: Vec<NodeResources>,
    pub(super) shard: String,
    pub(super) gpus: Vec<GpuShare>,
}

impl Asked {
    fn may_on(&self, model: &str, job: &JobConfig) -> bool {
        match model {
            "A" => self.may[1][usize::from(!job.bufferable)],
            "B" => self.may[2][usize::from(!job.bufferable)],
            _ => false,
        }
    }
}

impl Plain {
    pub(super) fn chooses_cards(&self, shard: &str) -> bool {
        self.asked
            .get(shard)
            .is_some_and(|asked| asked.chooses_cards)
    }

    pub(super) fn card_used(&self, shard: &str, device: &str) -> u64 {
        let there = self.running.values().filter(|run| run.shard == shard);
        let shares = there.flat_map(|run| &run.gpus);
        let of_card = shares.filter(|share| *share.device == *device);
        of_card.map(|share| u64::from(share.milli)).sum()
    }

    /// Returns the needed thousandths of GPUs in all, and the whole GPUs of certain models among them.
    pub(super) fn cards_needed(config: &Config, job: &JobConfig) -> (u32, BTreeMap<String, u32>) {
        let mut entries = config.physical_resources.iter();
        let Some(entry) = entries.find(|e| e.kind == PhysicalKind::GpuCard) else {
            return (0, BTreeMap::new());
        };
        let slots = f64::from(job.resources[entry.logical_resource.index()]);
        let all = (slots * entry.multiply_logical_by * 1000.0).round() as u32;
        let of_models = config.resources.iter().zip(&job.resources);
        let named = of_models.filter_map(|(resource, amount)| {
            let model = resource.name.strip_prefix("GPU: ")?;
            (*amount > 0).then(|| (model.to_owned(), *amount as u32))
        });
        (all, named.collect())
    }

    /// Returns whether a worker has the GPUs for a task. One that lists none has enough for any task.
    fn has_cards(
        &self,
        config: &Config,
        shard: &str,
        worker: &WorkerResources,
        job: &JobConfig,
    ) -> bool {
        let (all, named) = Plain::cards_needed(config, job);
        let free = |card: &&Card| match self.chooses_cards(shard) {
            true => 1000,
            false => 1000_u64.saturating_sub(self.card_used(shard, &card.device)),
        };
        if worker.cards.is_empty() {
            return true;
        }
        // A task that may use any GPU gets one of the requested models, unless the worker chooses.
        let asked = self.asked.get(shard).filter(|asked| !asked.chooses_cards);
        let asked = asked.filter(|_| named.is_empty());
        let is_asked_for = |card: &&Card| asked.is_none_or(|asked| asked.may_on(&card.model, job));
        let cards: Vec<&Card> = worker.cards.iter().filter(is_asked_for).collect();
        if all < 1000 && named.is_empty() {
            return all == 0 || cards.iter().any(|card| free(card) >= u64::from(all));
        }
        let unused: Vec<&Card> = cards
            .into_iter()
            .filter(|card| free(card) == 1000)
            .collect();
        let of_model = |model: &str| unused.iter().filter(|c| *c.model == *model).count();
        let total = named.values().sum::<u32>().max(all / 1000);
        named
            .iter()
            .all(|(model, n)| of_model(model) >= *n as usize)
            && unused.len() >= total as usize
    }

    pub(super) fn used(&self, node: &str, resource: &str) -> i64 {
        let charges = self.running.values().flat_map(|run| &run.charges);
        charges
            .filter(|on| on.node.as_str() == node)
            .flat_map(|on| &on.resources)
            .filter(|amount| amount.name == resource)
            .map(|amount| i64::from(amount.amount))
            .sum()
    }

    fn is_full(&self, shard: &str, worker: &WorkerResources) -> bool {
        let running = self.running.values();
        let running = running.filter(|run| run.shard == shard).count();
        let room = worker.room.as_ref();
        room.is_some_and(|room| running >= room.most.get() as usize)
    }

    fn fits(
        &self,
        node: &str,
        level: LevelId,
        job: &JobConfig,
        limit_of: impl Fn(usize) -> i64,
    ) -> bool {
        let Some(config) = &self.config else {
            return false;
        };
        let mut of_level = config.resources.iter().enumerate();
        of_level.all(|(i, resource)| {
            let need = i64::from(job.resources[i]);
            resource.level != level
                || need <= 0
                || self.used(node, &resource.name) + need <= limit_of(i)
        })
    }

    fn row_could_run(&self, job: &JobConfig, row: Row) -> bool {
        let Some(config) = &self.config else {
            return false;
        };
        let limit = |i: usize| match config.resources[i].limit {
            ResourceLimit::Fixed(limit) => i64::from(limit),
            ResourceLimit::ReportedCores => i64::MAX,
        };
        let has_room = |name: &str, level| self.fits(name, level, job, limit);
        self.is_open(job, row, &has_room)
    }

    /// Returns whether the row and all rows above it are enabled, pass the filters, and have room.
    fn is_open(&self, job: &JobConfig, row: Row, has_room: &dyn Fn(&str, LevelId) -> bool) -> bool {
        let Some(nodes) = &self.nodes else {
            return false;
        };
        std::iter::successors(Some(row), |r| nodes.parent(*r)).all(|r| {
            let name = nodes.name(r);
            let level = nodes.level(r);
            let passes = job.filters.get(&level).is_none_or(|filter| {
                !filter.blacklist.iter().any(|b| b == name)
                    && (filter.whitelist.is_empty() || filter.whitelist.iter().any(|w| w == name))
            });
            nodes.enabled(r) && passes && has_room(name, level)
        })
    }

    /// Returns whether every task of the job is done and none runs.
    fn is_all_done(&self, name: &str) -> bool {
        let (Some(config), Some(nodes)) = (&self.config, &self.nodes) else {
            return false;
        };
        let Some(job) = config.job(name).filter(|job| job.can_be_waited_for()) else {
            return false;
        };
        let mut rows = nodes.rows();
        rows.all(|row| {
            let key = (name.to_owned(), nodes.name(row).to_owned());
            nodes.level(row) != job.level_for_tasks
                || self.statuses.get(&key).is_some_and(StoredStatus::is_done)
                || !self.is_open(job, row, &|_, _| true)
        }) && !self.running.keys().any(|(running, _)| running == name)
    }

    /// Returns the workers that could take the task on this row now.
    fn workers_for(&self, job: &JobConfig, row: Row) -> Vec<String> {
        let (Some(config), Some(nodes)) = (&self.config, &self.nodes) else {
            return Vec::new();
        };
        let by_level = job.level_for_host_placement.and_then(|level| {
            std::iter::successors(Some(row), |r| nodes.parent(*r))
                .find(|r| nodes.level(*r) == level)
                .map(|r| nodes.name(r).to_owned())
        });
        let host = job.host_placement.clone().or(by_level);
        let fits = |(shard, (worker, eligible)): (&String, &(WorkerResources, bool))| {
            let keys = [
                format!("{}:{}", worker.hostname, worker.port),
                worker.hostname.to_string(),
                shard.clone(),
            ];
            let replaced = keys
                .iter()
                .find_map(|k| config.worker_resources_override.get(k));
            let limit = |i: usize| {
                let id = brasserie_common_config::ResourceId(i as u16);
                let mut measures = config.physical_resources.iter();
                let cards = measures.find(|m| m.kind == PhysicalKind::GpuCard);
                let measured = cards
                    .filter(|m| m.logical_resource == id && !worker.cards.is_empty())
                    .map(|m| (worker.cards.len() as f64 / m.multiply_logical_by) as i64);
                let model = config.resources[i].name.strip_prefix("GPU: ");
                let of_model = |card: &&Card| model.is_some_and(|model| *card.model == *model);
                let more = worker.cards.iter().filter(of_model).count() as i64;
                let own = match config.resources[i].limit {
                    _ if measured.is_some() => measured.unwrap_or(0),
                    ResourceLimit::Fixed(limit) => i64::from(limit),
                    ResourceLimit::ReportedCores if worker.cpu_cores > 0.0 => {
                        (worker.cpu_cores as i64).max(1)
                    }
                    ResourceLimit::ReportedCores => i64::MAX,
                };
                let own = own + cards.map_or(0, |_| more);
                let own = replaced
                    .and_then(|r| r.get(&id))
                    .map_or(own, |a| i64::from(*a));
                let is_cpu = config.resources[i].limit == ResourceLimit::ReportedCores;
                let is_cards = cards.is_some_and(|m| m.logical_resource == id) || model.is_some();
                let chooses = is_cards
                    && cards.is_some()
                    && self.chooses_cards(shard)
                    && !worker.cards.is_empty()
                    && replaced.is_none_or(|r| r.get(&id).is_none());
                let may_wait = (is_cpu && self.asked.contains_key(shard)) || chooses;
                match may_wait && i64::from(job.resources[i]) <= own {
                    true => i64::MAX,
                    false => own,
                }
            };
            let may = *eligible
                && !self.is_full(shard, worker)
                && self.has_asked(config, shard, worker, job)
                && host.as_ref().is_none_or(|h| **h == *worker.hostname)
                && (!job.command.is_empty() || worker.has_worker_command)
                && self.fits(shard, config.worker_level(), job, limit)
                && self.has_cards(config, shard, worker, job);
            may.then(|| shard.clone())
        };
        self.workers.iter().filter_map(fits).collect()
    }

    /// Returns whether the worker takes all tasks, or has requested such a task.
    fn has_asked(
        &self,
        config: &Config,
        shard: &str,
        worker: &WorkerResources,
        job: &JobConfig,
    ) -> bool {
        let Some(asked) = self.asked.get(shard) else {
            return true;
        };
        let (all, named) = Self::cards_needed(config, job);
        let takes_cards =
            (all > 0 || !named.is_empty()) && (!named.is_empty() || !worker.cards.is_empty());
        let given = job.est_duration.map(|est| est.as_secs_f64());
        let learned = self.learned.get(job.name.as_str()).copied();
        let takes = given.or(learned).unwrap_or(60.0);
        let is_late = job.deadline().is_some_and(|bound| {
            let needs_cards = all > 0 || !named.is_empty();
            (asked.delay > 0.0 && asked.delay + takes > bound.as_secs_f64())
                || (!needs_cards && takes > asked.longest)
        });
        let may = |model: &str| asked.may_on(model, job);
        let is_asked_for = match named.keys().next() {
            _ if !takes_cards => asked.may[0][usize::from(!job.bufferable)],
            Some(model) => may(model),
            None => worker.cards.iter().any(|card| may(&card.model)),
        };
        is_asked_for && !is_late
    }

    /// Returns how many more tasks of a job may run by `max_running`.
    pub(super) fn may_start(&self, job: Option<&JobConfig>) -> u32 {
        let limit = job.and_then(|job| Some((job.name.as_str(), job.max_running?)));
        limit.map_or(u32::MAX, |(name, most)| {
            let running = self.running.keys().filter(|(of, _)| of == name);
            most.saturating_sub(running.count() as u32)
        })
    }

    /// Returns the workers on which the task could start now; empty if it could not.
    pub(super) fn could_start(&self, now: Time, job: &JobConfig, node: &str) -> BTreeSet<String> {
        let (Some(config), Some(nodes)) = (&self.config, &self.nodes) else {
            return BTreeSet::new();
        };
        let key = (job.name.to_string(), node.to_owned());
        let status = self.statuses.get(&key);
        let hindered = !config.enabled
            || !job.can_run()
            || self.barrier.is_some_and(|until| until > now)
            || self.running.contains_key(&key)
            || self.may_start(Some(job)) == 0
            || status.is_some_and(|s| s.is_done() || s.is_failed())
            || self.waits.get(&key).is_some_and(|until| *until > now)
            || self.held.contains(&key);
        let depends = job.depends_on.iter().all(|on| {
            let on = (on.to_string(), node.to_owned());
            self.statuses.get(&on).is_some_and(StoredStatus::is_done)
                && !self.running.contains_key(&on)
        });
        let names = &job.run_only_after_all_nodes_are_done_for;
        let are_others = self.nodes_owner == NodesOwner::OtherConfig && !names.is_empty();
        if hindered
            || are_others
            || !depends
            || !names.iter().all(|on| self.is_all_done(on.as_str()))
        {
            return BTreeSet::new();
        }
        nodes
            .rows()
            .filter(|r| nodes.level(*r) == job.level_for_tasks && nodes.name(*r) == node)
            .filter(|r| self.row_could_run(job, *r))
            .flat_map(|r| self.workers_for(job, r))
            .collect()
    }

    /// Returns the first node of the job's level, in the order of the table, on which the job could start.
    pub(super) fn first(&self, now: Time, job: &JobConfig) -> Option<(String, BTreeSet<String>)> {
        let nodes = self.nodes.as_ref()?;
        nodes
            .rows()
            .filter(|r| nodes.level(*r) == job.level_for_tasks)
            .find_map(|r| {
                let workers = self.could_start(now, job, nodes.name(r));
                (!workers.is_empty()).then(|| (nodes.name(r).to_owned(), workers))
            })
    }
}
