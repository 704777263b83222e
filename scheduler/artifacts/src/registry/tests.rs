//! Tests of the rules of the registry, with one module for each subject.

mod copies;
mod expiry;
mod listings;
mod lost;
mod model;
mod names;
mod properties;
mod set_properties;
mod world;

use std::collections::BTreeSet;
use std::time::Duration;

use brasserie_common::rng::{Purpose, Rng};
use brasserie_common::{
    Artifact, ArtifactForm, ArtifactId, DiskGeneration, InvocationId, JobName, MachinePortLock,
    NodeName, OutputPath, SetDigest, TaskKey, TaskOutput, Time, WallTime,
};

use super::super::disks::DiskAnnouncement;
use super::super::types::{Clocks, Completeness, Holder, RegistrySettings, Replicas};
use super::Registry;

/// The time after which unwanted artifacts may be deleted, and idle sets expire.
const GRACE: u64 = 60;

/// The wall clock of these tests is ahead of the other one by this.
const WALL_LEAD: i64 = 1_700_000_000;

/// Returns an id that sorts like its number. The other bytes keep sums of ids apart.
fn id(number: u8) -> ArtifactId {
    let mut rng = Rng::new(u64::from(number), Purpose::InstanceIds);
    let mut bytes: [u8; 32] = std::array::from_fn(|_| rng.next_u64().to_be_bytes()[0]);
    bytes[0] = number;
    ArtifactId(bytes)
}

fn size(number: u8) -> u64 {
    1000 + u64::from(number)
}

fn lock(worker: u8) -> MachinePortLock {
    MachinePortLock {
        hostname: format!("host{worker}").into(),
        port: 1,
    }
}

fn generation(number: u8) -> DiskGeneration {
    DiskGeneration(u128::from(number))
}

fn holder(worker: u8, disk: u8) -> Holder {
    Holder {
        lock: lock(worker),
        generation: generation(disk),
    }
}

fn job(name: &str) -> JobName {
    JobName::try_from(name).expect("a short name")
}

fn key(job_name: &str, node: &str) -> TaskKey {
    TaskKey {
        job: job(job_name),
        node: NodeName::try_from(node).expect("a short name"),
    }
}

fn run(number: i64) -> InvocationId {
    InvocationId::new(0, number)
}

fn second(seconds: u64) -> Time {
    Time::ZERO + Duration::from_secs(seconds)
}

fn clocks(seconds: u64) -> Clocks {
    Clocks {
        time: second(seconds),
        wall: WallTime::from_secs(WALL_LEAD) + Duration::from_secs(seconds),
    }
}

fn output(path: &str, number: u8) -> TaskOutput {
    TaskOutput {
        path: OutputPath::try_from(path).expect("a path"),
        artifact: Artifact {
            id: id(number),
            size: size(number),
            form: ArtifactForm::File,
        },
    }
}

fn announcement(disk: u8, ids: impl IntoIterator<Item = ArtifactId>) -> DiskAnnouncement {
    let (mut digest, mut count) = (SetDigest::EMPTY, 0);
    for id in ids {
        digest.include(id.0);
        count += 1;
    }
    DiskAnnouncement {
        generation: generation(disk),
        digest,
        count,
    }
}

/// Returns a complete registry with this many workers, each with the empty disk 0.
fn registry(workers: u8) -> Registry {
    let mut registry = Registry::new(RegistrySettings::default());
    for worker in 0..workers {
        registry.announce(&lock(worker), &[announcement(0, [])], Time::ZERO);
    }
    registry.set_completeness(Completeness::Complete, Time::ZERO);
    registry
}

/// Stores the outputs of a run at a worker and records them: `a/0` is node `0` of job `a`.
fn make(registry: &mut Registry, task: &str, outputs: &[(&str, u8)], worker: u8, at: u64) {
    make_replicated(registry, task, outputs, worker, Replicas::ONE, at);
}

fn make_replicated(
    registry: &mut Registry,
    task: &str,
    outputs: &[(&str, u8)],
    worker: u8,
    replicas: Replicas,
    at: u64,
) {
    for (_, number) in outputs {
        registry.stored(&holder(worker, 0), id(*number), second(at));
    }
    let outputs = outputs.iter().map(|(path, number)| output(path, *number));
    let invocation = run(i64::try_from(at).expect("small"));
    registry.record(
        &parse(task),
        invocation,
        outputs.collect(),
        replicas,
        clocks(at),
    );
}

fn parse(task: &str) -> TaskKey {
    let (job, node) = task.split_once('/').expect("a job and a node");
    key(job, node)
}

fn jobs(names: &[&str]) -> BTreeSet<JobName> {
    names.iter().map(|name| job(name)).collect()
}

/// Returns the numbers of the artifacts that a worker may delete.
fn unwanted(registry: &Registry, worker: u8, at: u64) -> Vec<u8> {
    let unwanted = registry.unwanted(&lock(worker), (second(at), second(at)), 100);
    unwanted.iter().map(|(_, id)| id.0[0]).collect()
}

fn lost(registry: &Registry) -> Vec<u8> {
    registry.lost().map(|id| id.0[0]).collect()
}

fn to_repeat(registry: &Registry) -> Vec<String> {
    let keys = registry.producers_of_lost();
    keys.map(|key| format!("{}/{}", key.job, key.node))
        .collect()
}

impl Registry {
    /// Checks the invariants of the components.
    fn check(&self) {
        let workers = self.disks.check();
        self.artifacts.check(&workers);
        self.sets.check();
    }
}
