//! The handle of the runner for callers.

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

/// Runs tasks. Calls only queue and never wait; results arrive at the sink. Dropping it kills all running tasks and waits until the sink
/// has received their ends.
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

    /// Queues a start. From now on [`ProcessRunner::kill`] knows the key, and the sink receives the run's end once.
    pub fn spawn(&self, request: SpawnRequest) -> Result<(), SpawnError> {
        self.inbox.spawn(request)
    }

    /// Queues a kill of exactly this run; its wait counts from now. Does not wait for the death. If several kills of a run are queued,
    /// the one that ends the task first applies.
    pub fn kill(&self, key: &RunKey, request: KillRequest, by: EndedBy) -> Result<(), KillError> {
        self.inbox.kill(key, request, by)
    }

    /// Queues a stop of exactly this run: of its process group, and of all processes in its control groups, if it has any. Does not wait.
    /// Has no effect on a run that ends.
    pub fn suspend(&self, key: &RunKey) {
        self.inbox.pause(key, Stops::Now);
    }

    /// Queues the continuation of a stopped run.
    pub fn resume(&self, key: &RunKey) {
        self.inbox.pause(key, Stops::NoMore);
    }

    /// Ends every task, including those that wait for their start: TERM, and KILL after `wait` (at once if zero). No task is accepted
    /// from now on. Calls `done` on the supervising thread once the sink has received the last end.
    pub fn kill_all(&self, wait: Duration, by: EndedBy, done: impl FnOnce() + Send + 'static) {
        self.inbox.end(SupervisorCommand::KillAll {
            wait,
            by,
            asked: Instant::now(),
            done: Box::new(done),
        });
    }

    /// Returns the number of runs that were accepted and have not ended.
    pub fn running(&self) -> usize {
        self.inbox.running()
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
