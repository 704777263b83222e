//! What a worker needs of whoever runs its tasks.

use std::time::Duration;

use brasserie_common::{EndedBy, KillRequest};

use crate::process::{
    KillError, ProcessRunner, RunKey, RunnerConfig, SpawnError, SpawnRequest, StartError, TaskSink,
};

/// Runs tasks. Calls only queue and never wait. The sink hears once of the end of every run that was accepted, also of those that
/// end because the runner is dropped, which ends them all and waits for it.
pub trait Runner: Send + Sync {
    fn spawn(&self, request: SpawnRequest) -> Result<(), SpawnError>;

    /// Ends exactly this run; its wait counts from now.
    fn kill(&self, key: &RunKey, request: KillRequest, by: EndedBy) -> Result<(), KillError>;

    /// Stops the processes of this run where they stand, as far as it can tell which they are, for others; if it has none any more, nothing.
    fn suspend(&self, key: &RunKey);

    /// Lets them go on.
    fn resume(&self, key: &RunKey);

    /// Ends every run and takes none from now on. `done` is called once the sink has heard of the last one.
    fn kill_all(&self, wait: Duration, by: EndedBy, done: Box<dyn FnOnce() + Send>);
}

/// Makes a worker's runner. Called once, with where the ends of runs go.
pub type StartRunner =
    Box<dyn FnOnce(RunnerConfig, Box<dyn TaskSink>) -> Result<Box<dyn Runner>, StartError> + Send>;

/// Tasks are processes: what every worker does but those of tests.
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
