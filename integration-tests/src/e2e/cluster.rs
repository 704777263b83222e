//! A scheduler and workers, each on its own host of a network, with one job whose tasks record their runs. Checks the invariants that hold
//! whatever happens to programs and network.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitStatus;
use std::time::Duration;

use serde_json::Value;

use super::witness::{Question, Witness};
use super::{
    Host, LinkEffect, LossTime, Network, Process, SchedulerSpec, Stage, WorkerSpec, wait_within,
    warn_not_run,
};

/// The longest chain of timeouts takes about ten seconds if each is a second. The rest is a reserve for a busy machine.
const SETTLE: Duration = Duration::from_secs(60);
/// Timeouts of calls, as short as all others here.
const CALL_TIMEOUTS: [&str; 3] = [
    "--thrift-connect-timeout=1s",
    "--thrift-send-timeout=1s",
    "--thrift-receive-timeout=1s",
];

/// A worker of a cluster.
#[derive(Debug)]
pub struct ClusterWorker {
    pub host: Host,
    pub process: Process,
    spec: WorkerSpec,
}

/// A network with a scheduler on host 0 and workers on the others.
#[derive(Debug)]
pub struct Cluster {
    // Declared first, so that programs end before their network and folder are removed.
    workers: Vec<ClusterWorker>,
    scheduler: Process,
    witness: Option<Witness>,
    pub network: Network,
    pub stage: Stage,
    spec: SchedulerSpec,
    question: Question,
    tasks: usize,
}

impl Cluster {
    /// Starts a network with a scheduler and hosts for `workers` workers, and a config with `tasks` tasks. Returns `None` and prints a
    /// warning where networks cannot be created.
    ///
    /// # Panics
    /// If the scheduler does not start.
    pub fn start(
        test: &str,
        workers: usize,
        tasks: usize,
        pause: Duration,
        loss: LossTime,
    ) -> Option<Self> {
        // Each run of a test has the same faults, and other tests have others.
        let seed = test.bytes().fold(tasks as u64, |seed, byte| {
            seed.wrapping_mul(31).wrapping_add(u64::from(byte))
        });
        let network = match Network::new(1 + workers, seed) {
            Ok(network) => network,
            Err(why) => {
                warn_not_run(&format!("{test}, which needs namespaces"), &why);
                return None;
            }
        };
        let stage = Stage::new();
        let config = stage.write_work(tasks, pause);
        let mut spec = stage
            .scheduler_spec(&config)
            .with("--new-cluster")
            .with("--insecure-network")
            .with(loss.flag());
        spec.address = network.address(network.host(0));
        spec.flags
            .extend(CALL_TIMEOUTS.iter().map(|&f| f.to_owned()));
        let scheduler = start_scheduler(&stage, &network, &spec);
        let address = format!("{}:{}", spec.address, spec.port);
        let status = [
            "status",
            "--json",
            "--insecure-network",
            "--scheduler",
            &address,
        ];
        let status = stage.brasserie_command(&status);
        let question = Question::new(&network.command_on(network.host(0), &status));
        let up = || question.ask().map(drop);
        wait_within(SETTLE, "the scheduler to be up", up);
        Some(Cluster {
            workers: Vec::new(),
            scheduler,
            witness: Some(Witness::start(question.clone())),
            network,
            stage,
            spec,
            question,
            tasks,
        })
    }

    /// Starts a worker on the next free host, and returns its number.
    pub fn add_worker(&mut self, shard: &str) -> usize {
        let number = self.workers.len();
        let host = self.network.host(number + 1);
        let mut spec = self.stage.worker_spec(shard, &self.spec);
        // Two workers of one shard are two machines.
        spec.data_dir = self.stage.path(&format!("worker-{number}"));
        let listen = format!("--listen={}:0", self.network.address(host));
        spec.flags.push(listen);
        spec.flags.push("--insecure-network".to_owned());
        spec.flags
            .extend(CALL_TIMEOUTS.iter().map(|&flag| flag.to_owned()));
        let process = start_worker(&self.stage, &self.network, host, &spec);
        self.workers.push(ClusterWorker {
            host,
            process,
            spec,
        });
        number
    }

    /// Starts workers `w0`, `w1` and so on and waits until they are healthy.
    pub fn add_workers(&mut self, count: usize) {
        for _ in 0..count {
            self.add_worker(&format!("w{}", self.workers.len()));
        }
        self.wait_healthy(count);
    }

    pub fn worker(&self, number: usize) -> &ClusterWorker {
        &self.workers[number]
    }

    pub fn scheduler(&self) -> &Process {
        &self.scheduler
    }

    /// Sets the link between the scheduler and a worker, in both directions.
    pub fn set_link(&self, worker: usize, link: &LinkEffect) {
        self.network
            .set(self.network.host(0), self.workers[worker].host, link);
    }

    /// Kills the scheduler with SIGKILL, and starts it again in its directory.
    pub fn restart_scheduler(&mut self) {
        self.scheduler.kill_program();
        self.scheduler = start_scheduler(&self.stage, &self.network, &self.spec);
    }

    /// Kills a worker with SIGKILL, and starts it again in its directory.
    pub fn restart_worker(&mut self, number: usize) {
        self.workers[number].process.kill_program();
        self.start_again(number);
    }

    fn start_again(&mut self, number: usize) {
        let worker = &mut self.workers[number];
        worker.process = start_worker(&self.stage, &self.network, worker.host, &worker.spec);
    }

    /// Restarts the workers that have ended, like a service manager. Returns their number.
    pub fn tend(&mut self) -> usize {
        let mut ended = Vec::new();
        for (number, worker) in self.workers.iter_mut().enumerate() {
            if worker.process.ended().is_some() {
                ended.push(number);
            }
        }
        for &number in &ended {
            self.start_again(number);
        }
        ended.len()
    }

    /// Returns the scheduler's status; `None` while it does not answer.
    pub fn status(&self) -> Option<Value> {
        self.question.ask()
    }

    /// Waits until `look` returns a value, and meanwhile restarts workers that end.
    ///
    /// # Panics
    /// If the wait takes too long.
    pub fn wait<T>(&mut self, what: &str, mut look: impl FnMut(&Self) -> Option<T>) -> T {
        wait_within(SETTLE, what, || {
            self.tend();
            look(self)
        })
    }

    /// Waits like [`Cluster::wait`], without restarting workers.
    ///
    /// # Panics
    /// If the wait takes too long.
    pub fn wait_untended<T>(&self, what: &str, mut look: impl FnMut(&Self) -> Option<T>) -> T {
        wait_within(SETTLE, what, || look(self))
    }

    /// Waits until at least `count` runs have started.
    pub fn wait_started(&mut self, count: usize) {
        self.wait(&format!("{count} runs to start"), |cluster| {
            (cluster.stage.records().runs.len() >= count).then_some(())
        });
    }

    /// Waits until exactly `count` workers are healthy.
    pub fn wait_healthy(&mut self, count: usize) {
        self.wait(&format!("{count} healthy workers"), |cluster| {
            let status = cluster.status()?;
            (count_in(&status, "healthy") == count).then_some(())
        });
    }

    /// Waits, without restarts, until the scheduler shows a worker of this shard in this state.
    pub fn wait_state(&self, shard: &str, state: &str) {
        self.wait_untended(&format!("{shard} to be {state}"), |cluster| {
            let status = cluster.status()?;
            let mut workers = status["workers"].as_array()?.iter();
            workers
                .any(|w| w["shard"] == shard && is_in(w, state))
                .then_some(())
        });
    }

    /// Waits until a worker ends by itself.
    pub fn wait_end(&mut self, number: usize) -> ExitStatus {
        let process = &mut self.workers[number].process;
        wait_within(SETTLE, &format!("the end of worker {number}"), || {
            process.ended()
        })
    }

    /// Returns whether a worker has ended and was not restarted.
    pub fn has_ended(&mut self, number: usize) -> bool {
        self.workers[number].process.ended().is_some()
    }

    /// Returns the scheduler's address for a command line.
    pub fn scheduler_address(&self) -> String {
        format!("{}:{}", self.spec.address, self.spec.port)
    }

    /// Returns the nodes whose latest run is alive on a worker, according to the kernel's locks.
    pub fn nodes_running_on(&self, number: usize) -> BTreeSet<String> {
        let folder = &self.workers[number].spec.data_dir;
        let alive = self.stage.alive();
        let mut last = BTreeMap::new();
        for run in self.stage.records().runs {
            last.insert(run.node, run.place);
        }
        let mut here = BTreeSet::new();
        for (node, place) in last {
            if place.starts_with(folder) && alive.contains(&node) {
                here.insert(node);
            }
        }
        here
    }

    /// Returns the nodes whose tasks a worker has ever started.
    pub fn nodes_started_on(&self, number: usize) -> BTreeSet<String> {
        let folder = &self.workers[number].spec.data_dir;
        let runs = self.stage.records().runs.into_iter();
        runs.filter(|run| run.place.starts_with(folder))
            .map(|run| run.node)
            .collect()
    }

    /// Waits until a worker runs exactly `count` tasks.
    pub fn wait_running(&mut self, number: usize, count: usize) {
        self.wait(&format!("{count} tasks on worker {number}"), |cluster| {
            (cluster.nodes_running_on(number).len() == count).then_some(())
        });
    }

    /// Waits until every task is done.
    pub fn wait_all_done(&mut self) {
        let tasks = self.tasks;
        self.wait("all tasks to be done", |cluster| {
            let status = cluster.status()?;
            let is_done = status["jobs"][0]["done"] == tasks;
            (status["nodes_loaded"] == true && is_done).then_some(())
        });
    }

    /// Waits until every task is done, then checks the invariants: no task ran twice at once, no completed task was forgotten or started
    /// again, and every task ended.
    ///
    /// # Panics
    /// If an invariant is violated.
    pub fn finish(mut self) {
        let tasks = self.tasks;
        self.wait_all_done();
        let records = self.stage.records();
        let witness = self.witness.take().expect("it is taken here alone");
        witness.check(&records);
        assert_eq!(records.overlaps, Vec::<String>::new(), "ran twice at once");
        let invocations: BTreeSet<&str> =
            records.runs.iter().map(|r| r.invocation.as_str()).collect();
        assert_eq!(
            invocations.len(),
            records.runs.len(),
            "one invocation was started twice: {:#?}",
            records.runs
        );
        let ended: BTreeSet<&str> = records
            .runs
            .iter()
            .filter(|run| run.end.is_some())
            .map(|run| run.node.as_str())
            .collect();
        assert_eq!(
            ended.len(),
            tasks,
            "done without an end: {:#?}",
            records.runs
        );
        assert_eq!(
            self.stage.alive(),
            Vec::<String>::new(),
            "all is done, but something runs"
        );
    }
}

fn start_scheduler(stage: &Stage, network: &Network, spec: &SchedulerSpec) -> Process {
    let command = stage.scheduler_command(spec);
    stage.start_on(network, network.host(0), "scheduler", &command)
}

fn start_worker(stage: &Stage, network: &Network, host: Host, spec: &WorkerSpec) -> Process {
    let command = stage.worker_command(spec);
    stage.start_on(network, host, &format!("worker-{}", spec.shard), &command)
}

fn is_in(worker: &Value, state: &str) -> bool {
    let own = worker["state"].as_str();
    own.is_some_and(|own| own.eq_ignore_ascii_case(state))
}

fn count_in(status: &Value, state: &str) -> usize {
    let workers = status["workers"].as_array().into_iter().flatten();
    workers.filter(|worker| is_in(worker, state)).count()
}
