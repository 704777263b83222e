//! The interface between a worker and the code that runs its tasks.

use std::time::Duration;

use brasserie_common::{EndedBy, KillRequest};

use crate::process::{
    KillError, ProcessRunner, RunKey, RunnerConfig, RunnerStartError, SpawnError, SpawnRequest,
    TaskSink,
};

/// Runs tasks. Its methods only queue and never wait. The sink receives one completion for every accepted run. Dropping the runner ends
/// all runs, waits for them, and reports their completions, too.
pub trait Runner: Send + Sync {
    fn spawn(&self, request: SpawnRequest) -> Result<(), SpawnError>;

    /// Ends exactly this run. The kill wait counts from this call.
    fn kill(&self, key: &RunKey, request: KillRequest, by: EndedBy) -> Result<(), KillError>;

    /// Stops all known processes of this run, so that others can use its resources. Does nothing if the run has none left.
    fn suspend(&self, key: &RunKey);

    /// Continues the processes that [`Runner::suspend`] stopped.
    fn resume(&self, key: &RunKey);

    /// Ends every run and accepts no others. Calls `done` once the sink has received the last completion.
    fn kill_all(&self, wait: Duration, by: EndedBy, done: Box<dyn FnOnce() + Send>);
}

/// Makes a worker's runner from its configuration and the sink of completions. It is called once.
pub type StartRunner = Box<
    dyn FnOnce(RunnerConfig, Box<dyn TaskSink>) -> Result<Box<dyn Runner>, RunnerStartError> + Send,
>;

/// Returns the runner for tasks that are processes. Only tests and measurements use others.
pub(crate) fn processes() -> StartRunner {
    Box::new(|config, sink| Ok(Box::new(ProcessRunner::start(config, sink)?)))
}

impl Runner for ProcessRunner {
    fn spawn(&self, request: SpawnRequest) -> Result<(), SpawnError> {
        ProcessRunner::spawn(self, request)
    }

    fn kill(&self, key: &RunKey, request: KillRequest, by: EndedBy) -> Result<(), KillError> {
        ProcessRunner::kill(self, key, request, by)
    }

    fn suspend(&self, key: &RunKey) {
        ProcessRunner::suspend(self, key);
    }

    fn resume(&self, key: &RunKey) {
        ProcessRunner::resume(self, key);
    }

    fn kill_all(&self, wait: Duration, by: EndedBy, done: Box<dyn FnOnce() + Send>) {
        ProcessRunner::kill_all(self, wait, by, done);
    }
}
