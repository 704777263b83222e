//! Starts the programs that a benchmark measures as processes, and describes their nodes and jobs.

use std::fs::File;
use std::io::Write;
use std::time::{Duration, Instant};

use brasserie_thrift::generated::scheduler::BistroJobConfig;
use integration_tests::e2e::{
    Client, Process, Programs, SchedulerSpec, Stage, TestAuthority, WorkerSpec, resident_bytes,
    used_processor_time, wait_within,
};
use serde::Serialize;
use serde_json::{Value, json};

use crate::figures::{mib, per_second};
use crate::meter::Meter;

/// Limit for each step of a benchmark, on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(600);
/// Interval of status requests during a measurement, rare enough to cost nothing.
const ASK_EVERY: Duration = Duration::from_millis(200);
/// About the size that the store writes for a job: a page.
const ROW: [u8; 4096] = [b'x'; 4096];

/// Returns the folder of a benchmark, which plays all programs itself.
pub fn stage() -> Stage {
    Stage::with(Programs::this_one())
}

/// Writes the config, and returns the parameters of a scheduler of a new cluster with default timeouts, like users have.
pub fn default_spec(stage: &Stage, config: &Value) -> SchedulerSpec {
    stage.default_spec(&stage.write("config.json", &config.to_string()))
}

/// How the programs of a benchmark talk to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    Plain,
    /// They use TLS, and both sides prove who they are.
    Tls,
}

impl Transport {
    /// Returns the transports to measure in each pair.
    pub fn all(with_tls: bool) -> &'static [Transport] {
        match with_tls {
            true => &[Transport::Plain, Transport::Tls],
            false => &[Transport::Plain],
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Transport::Plain => "plain",
            Transport::Tls => "inside TLS",
        }
    }
}

/// A scheduler that runs as a process.
pub struct BenchCluster {
    // Declared first, because fields are dropped in this order.
    pub scheduler: Process,
    pub client: Client,
    pub spec: SchedulerSpec,
    pub stage: Stage,
    /// The authority of a cluster that talks inside TLS.
    authority: Option<TestAuthority>,
}

/// The costs of tasks.
pub struct TaskCosts {
    /// Tasks a second.
    pub rate: f64,
    /// Processor time for each task in microseconds, of each program without its tasks.
    pub scheduler_us: f64,
    pub worker_us: f64,
    pub scheduler_mib: f64,
    pub worker_mib: f64,
}

impl BenchCluster {
    /// Starts the scheduler of a new cluster with default timeouts.
    pub fn start(config: &Value) -> Self {
        let stage = stage();
        let spec = default_spec(&stage, config);
        Self::start_on(stage, spec)
    }

    pub fn start_on(stage: Stage, spec: SchedulerSpec) -> Self {
        Self::start_with(stage, spec, Transport::Plain)
    }

    /// Starts the scheduler of a new cluster with default timeouts, whose programs talk to each other in this way.
    pub fn start_talking(config: &Value, transport: Transport) -> Self {
        let stage = stage();
        let spec = default_spec(&stage, config);
        Self::start_with(stage, spec, transport)
    }

    fn start_with(stage: Stage, spec: SchedulerSpec, transport: Transport) -> Self {
        let authority = match transport {
            Transport::Plain => None,
            Transport::Tls => Some(TestAuthority::give(&spec)),
        };
        BenchCluster {
            scheduler: stage.start_scheduler(&spec),
            client: match &authority {
                Some(authority) => authority.client(spec.port),
                None => Client::new(spec.port),
            },
            spec,
            stage,
            authority,
        }
    }

    /// Returns the parameters of a worker with the shortest heartbeats, which is a member of the cluster.
    pub fn worker_spec(&self, shard: &str) -> WorkerSpec {
        let spec = self.stage.worker_spec(shard, &self.spec);
        match &self.authority {
            Some(authority) => authority.admit(spec),
            None => spec,
        }
    }

    /// Starts a scheduler after the end of the former one.
    pub fn restart(&mut self) {
        self.scheduler = self.stage.start_scheduler(&self.spec);
    }

    /// Starts a worker with the shortest heartbeats.
    pub fn start_worker(&self, shard: &str) -> Process {
        self.stage.start_worker(&self.worker_spec(shard))
    }

    pub fn wait_for_nodes(&self) {
        self.client.wait_until("the nodes to be loaded", |status| {
            status.nodes_loaded == Some(true)
        });
    }

    /// Waits until all `count` tasks of the first job are done. Measures from the first start to the last completion, as the scheduler saw
    /// them, so that joining does not count.
    pub fn wait_for_tasks(
        &self,
        count: usize,
        of_scheduler: &Meter,
        of_worker: &Meter,
    ) -> TaskCosts {
        let expected = i64::try_from(count).expect("a number of tasks");
        let mut asked = Instant::now();
        let elapsed = wait_within(PATIENCE, "all tasks to be done", || {
            if asked.elapsed() < ASK_EVERY {
                return None;
            }
            asked = Instant::now();
            let status = self.client.status()?;
            let job = status.jobs?.into_iter().next()?;
            (job.done == Some(expected)).then_some(job.elapsed_ms?)
        });
        let elapsed = Duration::from_millis(u64::try_from(elapsed).unwrap_or(1).max(1));
        let each = |used: Duration| used.as_secs_f64() * 1e6 / count as f64;
        TaskCosts {
            rate: per_second(count, elapsed),
            scheduler_us: each(of_scheduler.used()),
            worker_us: each(of_worker.used()),
            scheduler_mib: mib(of_scheduler.peak_bytes()),
            worker_mib: mib(of_worker.peak_bytes()),
        }
    }

    /// Returns the processor time of the scheduler's threads.
    pub fn processor_time(&self) -> Duration {
        used_processor_time(self.scheduler.id()).expect("the scheduler lives")
    }

    /// Returns the scheduler's resident memory in MiB.
    pub fn resident_mib(&self) -> f64 {
        mib(resident_bytes(self.scheduler.id()).expect("the scheduler lives"))
    }

    /// Replaces the config atomically, like an editor.
    pub fn replace_config(&self, text: &str) {
        let new = self.stage.write("config.new", text);
        std::fs::rename(new, self.stage.path("config.json")).expect("both are in one folder");
    }
}

/// Returns the number of processors of this machine.
pub fn processors() -> f64 {
    std::thread::available_parallelism().map_or(1.0, |n| n.get() as f64)
}

/// Adds a job to a config. It runs this command on each node, without arguments.
pub fn with_job(mut config: Value, name: &str, command: impl Serialize) -> Value {
    config[format!("bistro_job->{name}")] = json!({ "owner": "bench", "command": command, "arguments": "none", "status_from": "exit_code" });
    config
}

/// Returns the same job for the API.
pub fn api_job(name: String, command: Vec<String>) -> BistroJobConfig {
    BistroJobConfig {
        name: Some(name),
        enabled: Some(true),
        owner: Some("bench".to_owned()),
        command: Some(command),
        arguments: Some("none".to_owned()),
        status_from: Some("exit_code".to_owned()),
        ..BistroJobConfig::default()
    }
}

/// The baseline of a durable change: a file to which rows are written and synced.
pub struct BareStore(File);

impl BareStore {
    pub fn new(stage: &Stage) -> Self {
        BareStore(File::create(stage.path("rows")).expect("a file in a temporary folder"))
    }

    pub fn save(&mut self) {
        self.0.write_all(&ROW).expect("room on the disk");
        self.0.sync_data().expect("a file can be synced");
    }
}
