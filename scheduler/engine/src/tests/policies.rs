//! Tests that a policy of one's own sees the owner of each job, and that weights decide between workers.

use std::collections::BTreeMap;

use brasserie_common::{JobId, StatusBits, Time};
use brasserie_common_config::WorkerSelector;

use super::world::*;
use crate::Eligibility;
use crate::placement::policy::{Candidates, Policy};

const NOW: Time = Time::ZERO;

/// A policy that starts one task of each owner in turn, however many jobs each owner has.
#[derive(Clone, Debug, Default)]
struct OwnersInTurn {
    owner_of: BTreeMap<JobId, String>,
    starts: BTreeMap<String, u32>,
}

impl Policy for OwnersInTurn {
    fn pick(&mut self, candidates: &Candidates<'_>) -> Option<JobId> {
        let owner = |job| candidates.job(job).map(|j| j.owner.clone());
        let picked = candidates.iter().min_by_key(|job| {
            let starts = owner(*job).and_then(|owner| self.starts.get(&owner));
            (starts.copied().unwrap_or(0), job.0)
        })?;
        self.owner_of
            .insert(picked, owner(picked).unwrap_or_default());
        Some(picked)
    }

    fn started(&mut self, job: JobId) {
        let owner = self.owner_of.get(&job).cloned().unwrap_or_default();
        *self.starts.entry(owner).or_default() += 1;
    }

    fn cursor(&self) -> u32 {
        0
    }

    fn boxed_clone(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }
}

#[test]
fn a_policy_can_share_between_owners() {
    let mut jobs = ["a1", "a2", "a3", "b1"].map(job).to_vec();
    for job in &mut jobs {
        job.owner = job.name.as_str()[..1].to_owned();
    }
    let config = config(vec![resource("slots", WORKER, 1, 1)], jobs);
    let (mut engine, _) = engine(config, &[("h1", &["x", "y", "z"])]);
    engine.policy = Box::new(OwnersInTurn::default());
    let mut owners = String::new();
    while let Some(placed) = engine.place(NOW) {
        owners += &engine.job_name(placed.task.job).as_str()[..1];
        end(&mut engine, NOW, placed.task, StatusBits::DONE);
    }
    // The owners take turns until one has no tasks left.
    assert_eq!(owners, "abababaaaaaa");
}

#[test]
fn the_weight_of_a_resource_decides_which_worker_is_the_busiest() {
    let run = |[cpu, memory]: [i32; 2]| {
        let mut resources = vec![
            resource("cpu", WORKER, 1, 4),
            resource("memory", WORKER, 1, 4),
        ];
        resources[0].weight = cpu;
        resources[1].weight = memory;
        let mut config = config(resources, vec![job("j")]);
        config.worker_selector = WorkerSelector::Busiest;
        for (shard, amounts) in [("w1", [2, 9]), ("w2", [9, 2])] {
            let ids = ["cpu", "memory"].map(|name| config.resource(name).unwrap());
            let amounts = ids.into_iter().zip(amounts).collect();
            config
                .worker_resources_override
                .insert(shard.to_owned(), amounts);
        }
        let (mut engine, w1) = engine(config, &[("h1", &["x"])]);
        let w2 = engine.upsert_worker(&shard("w2"), on_host("m2"));
        engine.set_eligibility(w2, Eligibility::Eligible);
        let placed = place_all(&mut engine, NOW);
        assert_eq!(placed.len(), 1);
        placed[0].worker == w1
    };
    assert!(run([3, 1]), "by cpu, the first has less left");
    assert!(!run([1, 3]), "by memory, the second has");
    assert!(!run([0, 1]), "a weight of 0 counts for nothing");
}
