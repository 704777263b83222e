//! Makes the runner of a worker.

use crate::process::{ProcessRunner, Runner, RunnerConfig, RunnerStartError, TaskSink};

/// Makes a worker's runner from its configuration and the sink of completions. It is called once.
pub type StartRunner = Box<
    dyn FnOnce(RunnerConfig, Box<dyn TaskSink>) -> Result<Box<dyn Runner>, RunnerStartError> + Send,
>;

/// Returns the runner for tasks that are processes. Only tests and measurements use others.
pub(crate) fn processes() -> StartRunner {
    Box::new(|config, sink| Ok(Box::new(ProcessRunner::start(config, sink)?)))
}
