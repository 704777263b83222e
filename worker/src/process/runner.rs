//! The interface between a worker and the code that runs its tasks, and the handle of the runner of processes.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use brasserie_common::{EndedBy, KillRequest};

use super::inbox::{Inbox, KillError, SpawnError, Stops, SupervisorCommand};
use super::supervisor::Supervisor;
use super::{RunKey, RunnerConfig, SpawnRequest, TaskSink};

/// The reason why the runner could not start.
#[derive(Debug, thiserror::Error)]
#[error("cannot set up task processes in {data_dir}: {source}")]
pub struct RunnerStartError {
    pub data_dir: std::path::PathBuf,
    pub source: io::Error,
}

/// Runs tasks. Its methods only queue and never wait. The sink receives one completion for every accepted run. Dropping the runner ends
/// all runs, waits for them, and reports their completions, too.
pub trait Runner: Send + Sync {
    /// Queues a start. From now on [`Runner::kill`] knows the key, and the sink receives the run's end once.
    fn spawn(&self, request: SpawnRequest) -> Result<(), SpawnError>;

    /// Ends exactly this run. The kill wait counts from this call. If several kills of a run are queued, the one that ends the task first
    /// applies.
    fn kill(&self, key: &RunKey, request: KillRequest, by: EndedBy) -> Result<(), KillError>;

    /// Stops all known processes of this run, so that others can use its resources. Does nothing if the run has none left.
    fn suspend(&self, key: &RunKey);

    /// Continues the processes that [`Runner::suspend`] stopped.
    fn resume(&self, key: &RunKey);

    /// Ends every run and accepts no others. Calls `done` once the sink has received the last completion.
    fn kill_all(&self, wait: Duration, by: EndedBy, done: Box<dyn FnOnce() + Send>);
}

/// Runs tasks as processes. Dropping it kills all running tasks and waits until the sink has received their ends.
#[derive(Debug)]
pub struct ProcessRunner {
    inbox: Arc<Inbox>,
    thread: Option<JoinHandle<()>>,
}

impl ProcessRunner {
    /// Starts the supervising thread. Descriptors that this process inherited become close-on-exec.
    pub fn start(
        config: RunnerConfig,
        sink: impl TaskSink + 'static,
    ) -> Result<Self, RunnerStartError> {
        let data_dir = config.data_dir.clone();
        let error = |source| RunnerStartError {
            data_dir: data_dir.clone(),
            source,
        };
        let inbox = Arc::new(Inbox::new().map_err(error)?);
        let supervisor =
            Supervisor::new(config, Box::new(sink), Arc::clone(&inbox)).map_err(error)?;
        let thread = std::thread::Builder::new()
            .name("task-supervisor".to_owned())
            .spawn(move || supervisor.run());
        Ok(ProcessRunner {
            inbox,
            thread: Some(thread.map_err(error)?),
        })
    }

    /// Returns the number of runs that were accepted and have not ended.
    pub fn running(&self) -> usize {
        self.inbox.running()
    }
}

impl Runner for ProcessRunner {
    fn spawn(&self, request: SpawnRequest) -> Result<(), SpawnError> {
        self.inbox.spawn(request)
    }

    fn kill(&self, key: &RunKey, request: KillRequest, by: EndedBy) -> Result<(), KillError> {
        self.inbox.kill(key, request, by)
    }

    /// Stops the process group of the run, and all processes in its control groups, if it has any. Has no effect on a run that ends.
    fn suspend(&self, key: &RunKey) {
        self.inbox.pause(key, Stops::Now);
    }

    fn resume(&self, key: &RunKey) {
        self.inbox.pause(key, Stops::NoMore);
    }

    /// Ends also the tasks that wait for their start: TERM, and KILL after `wait` (at once if zero). Calls `done` on the supervising thread.
    fn kill_all(&self, wait: Duration, by: EndedBy, done: Box<dyn FnOnce() + Send>) {
        self.inbox.end(SupervisorCommand::KillAll {
            wait,
            by,
            asked: Instant::now(),
            done,
        });
    }
}

impl Drop for ProcessRunner {
    fn drop(&mut self) {
        self.inbox.end(SupervisorCommand::Stop);
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
        {
            // A supervisor that panicked printed the reason where it happened.
            let _ = thread.join();
        }
    }
}
