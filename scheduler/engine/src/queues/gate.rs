//! Gates of jobs that wait until other jobs are done as a whole. Each job has one gate, so that a change costs one step, not one for each
//! task.

use crate::types::TaskState;

/// Whether the jobs may start that wait until all of a job is done. For a job that waits for several, the worst of their gates.
///
/// ```text
///   Open  <---- its last task is done / gets a node, is forgiven ---->  Closed
///   either  <---- a task fails or cannot run, the job is disabled / the reverse ---->  Hopeless
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Gate {
    /// Every task is done, and none runs.
    #[default]
    Open,
    /// Some task is not done, and each of them may still become done.
    Closed,
    /// Some task cannot become done unless the configuration, the nodes or the workers change, or a person acts.
    Hopeless,
}

/// States of tasks that may run later.
pub(crate) const WAITING: [TaskState; 4] = [
    TaskState::Unstarted,
    TaskState::Incomplete,
    TaskState::Error,
    TaskState::InBackoff,
];
/// States of tasks that count and cannot become done.
pub(crate) const HOPELESS: [TaskState; 2] = [TaskState::Failed, TaskState::Never];
