//! Runs task processes: starts them without copying this process, watches them without polling, kills them with
//! everything in their process group, and says how they ended.
//!
//! One thread supervises all tasks of a worker over one epoll: a pidfd and three pipes a task. Nothing is polled per
//! task and no task has a thread. [`ProcessRunner`] is the handle: its calls only queue, and results come through a
//! [`TaskSink`] on the supervising thread.
//!
//! What a task finds when it starts:
//!
//! * argv: the command, then (`arguments: append`) node name, `/dev/fd/N` for its status, JSON argument. The program is
//!   executed directly, without a shell; a name without `/` is looked up in the absolute folders of `PATH`.
//! * working directory: the one that the job names, else `<data dir>/jobs/<job>`, the name percent-encoded. A relative program path
//!   starts there.
//! * stdin is `/dev/null`; stdout and stderr go to the log; descriptor `N` takes status lines. All other descriptors of
//!   the worker are closed on exec.
//! * what [`PassedEnvironment`] lets through of the worker's environment, plus `BRASSERIE_JOB`, `BRASSERIE_NODE`, `BRASSERIE_NODE_LABEL` (the node's
//!   name without its parent's), `BRASSERIE_PATH_TO_NODE` (a JSON array, root first, since names may contain any separator), `BRASSERIE_STATUS` (the `/dev/fd/N` path), `BRASSERIE_ARGUMENT` (the
//!   JSON argument, left out above [`ARGUMENT_IN_ENVIRONMENT_LIMIT`]), `BRASSERIE_INVOCATION` (start time, a colon, 16
//!   hexadecimal digits) and, if the scheduler gives one, `BRASSERIE_FENCE` (a decimal number).
//! * no blocked and no ignored signals, and a session of its own, so a process group too, whatever `process_group_leader` says: a
//!   kill must reach the task's children too. It has no terminal: a Ctrl-C in the worker's reaches the worker only, which then ends
//!   its tasks, and no task types into it.
//!
//! * the limit of open files that the worker was started with, whatever it raised its own to, and the limits that it asks for.
//! * with `user` the rights of that user, if [`Accounts`] has him: user, group and all groups of the user, no way to others, the
//!   variables that say who one is, pipes that belong to him, and as working directory `<data dir>/users/<uid>/<job>`, his alone.
//!
//! A process is made by a clone that borrows this process's memory until its program runs, so that the size of this process
//! does not matter; where the machine does not allow that, by `posix_spawn`.
//!
//! The parent death signal is not set: the kernel ties it to the *thread* that started the child. What outlives a worker that is
//! killed with `kill -9` is the business of the keeper around the worker. What leaves its process group is ended with its task
//! where the runner may adopt orphans ([`Orphans`]), and elsewhere by the keeper when the worker ends.

mod accounts;
mod command;
mod ending;
mod environment;
mod events;
mod folders;
mod launch;
mod marks;
mod pipes;
mod rate;
mod refusals;
mod runner;
mod spawn;
mod strays;
mod supervisor;
mod task;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use brasserie_common::{
    Ending, Fence, InvocationId, JobName, NodeName, ReportedStatus, Story, TaskSubprocessOptions,
    Time,
};
use brasserie_common_runtime::PinnedFile;
use brasserie_worker_core::AssociationIndex;

use crate::groups::{GroupsConfig, Meter};
use crate::logs::LogStore;
use crate::options::Retention;

pub(crate) use accounts::Rights;
pub use accounts::{Accounts, AccountsError, AllowedUser};
pub use command::ARGUMENT_IN_ENVIRONMENT_LIMIT;
pub use environment::PassedEnvironment;
pub(crate) use marks::LimitMarks;
pub use runner::{KillError, ProcessRunner, SpawnError, StartError};
pub use strays::Orphans;

/// One run of one task: a kill names it completely, so that it never hits a newer run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RunKey {
    pub invocation: InvocationId,
    pub job: JobName,
    pub node: NodeName,
}

/// What the runner needs to know of its worker.
#[derive(Clone, Debug)]
pub struct RunnerConfig {
    /// Jobs work in `jobs/` below it; made absolute when the runner starts.
    pub data_dir: PathBuf,
    /// Named in every event.
    pub worker_host: String,
    pub logs: Arc<LogStore>,
    /// How long and how much of the output is kept that tasks have in files, in `output/` below the data directory.
    pub output: Retention,
    /// Where tasks get control groups; `None`: those that ask for any are refused.
    pub groups: Option<GroupsConfig>,
    /// What of this process's environment tasks get.
    pub environment: PassedEnvironment,
    /// The limit of open files that tasks start with; `None`: that of this process.
    pub descriptors: Option<DescriptorLimit>,
    /// Who ends what leaves its task's process group.
    pub orphans: Orphans,
    /// Of several schedulers, whether tasks are marked with theirs.
    pub marks: Marks,
    /// Whose rights tasks may have instead of this process's.
    pub accounts: Accounts,
    /// Without these no task starts.
    pub pinned: Vec<PinnedFile>,
}

/// How many files a process may have open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DescriptorLimit {
    pub soft: u64,
    pub hard: u64,
}

impl RunnerConfig {
    /// With the defaults of `brasserie-worker`.
    pub fn new(data_dir: PathBuf, worker_host: String, logs: Arc<LogStore>) -> Self {
        RunnerConfig {
            data_dir,
            worker_host,
            logs,
            output: Retention::default(),
            environment: PassedEnvironment::USUAL,
            descriptors: None,
            groups: None,
            orphans: Orphans::Leave,
            marks: Marks::None,
            accounts: Accounts::default(),
            pinned: Vec::new(),
        }
    }
}

/// What the keeper, if it has to end the tasks of one scheduler, knows them by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Marks {
    /// There is one scheduler only, or no keeper.
    #[default]
    None,
    /// In the environment.
    OfSchedulers,
}

/// A task to start.
#[derive(Clone, Debug)]
pub struct SpawnRequest {
    pub key: RunKey,
    /// Program and leading arguments; at least one.
    pub command: Vec<String>,
    /// The JSON object that the scheduler wrote for this run.
    pub argument: String,
    /// Root first, the task's own node last.
    pub path_to_node: Vec<NodeName>,
    pub options: TaskSubprocessOptions,
    /// The cards that it may see, as `CUDA_VISIBLE_DEVICES` calls them. None: it sees all.
    pub cuda_devices: Vec<String>,
    /// It must not start later: by the clock that counts suspend, looked at when all else is ready. What was queued before the
    /// machine or this process was paused may run elsewhere by now.
    pub not_after: Time,
    /// Its fencing token, if its scheduler gives any.
    pub fence: Option<Fence>,
    /// Whose task it is.
    pub association: AssociationIndex,
    /// When the worker was asked.
    pub asked: Instant,
}

/// A task's process has begun.
#[derive(Debug)]
pub struct Began {
    /// It leads a process group with its own id.
    pub leader: nix::unistd::Pid,
    /// Its job wants it to be looked at once in this time.
    pub refresh: Duration,
    /// If it has control groups.
    pub meter: Option<Meter>,
    /// Whose task it is.
    pub association: AssociationIndex,
}

/// Where results go. Called on the supervising thread: it must not block, and may call the runner.
pub trait TaskSink: Send {
    /// The task's process was started.
    fn started(&mut self, _key: &Arc<RunKey>, _began: Began) {}

    /// A turn of the thread begins: it has reaped the first process of no run that was started and has not ended here.
    fn holds_all(&mut self) {}

    fn ended(&mut self, end: TaskEnd);
}

impl TaskSink for Box<dyn TaskSink> {
    fn started(&mut self, key: &Arc<RunKey>, began: Began) {
        (**self).started(key, began);
    }

    fn holds_all(&mut self) {
        (**self).holds_all();
    }

    fn ended(&mut self, end: TaskEnd) {
        (**self).ended(end);
    }
}

impl<F: FnMut(TaskEnd) + Send> TaskSink for F {
    fn ended(&mut self, end: TaskEnd) {
        self(end);
    }
}

/// The end of a run, reported exactly once for every accepted [`SpawnRequest`].
#[derive(Clone, Debug, PartialEq)]
pub struct TaskEnd {
    pub key: Arc<RunKey>,
    pub status: ReportedStatus,
    pub story: Story,
    pub signalled: Signalled,
    /// The status text that decided, if the task wrote one.
    pub raw_status: Option<String>,
}

/// How the direct child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessExit {
    Code(i32),
    Signal(i32),
    /// Something else in this process waited for the child: its exit is not known.
    Unknown,
}

/// What the worker itself sent to a task that was still running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Signalled {
    No,
    Term,
    Kill,
}

/// What the direct child and its reaped descendants used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub user: Duration,
    pub system: Duration,
    /// Peak resident memory of the largest of them.
    pub max_resident_bytes: u64,
    /// From and to disks.
    pub read_bytes: u64,
    pub written_bytes: u64,
}

impl std::fmt::Display for RunKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{:?} on {:?} (invocation {})",
            self.job.as_str(),
            self.node.as_str(),
            self.invocation
        )
    }
}

impl From<ProcessExit> for Ending {
    fn from(exit: ProcessExit) -> Self {
        match exit {
            ProcessExit::Code(code) => Ending::Exited(code),
            ProcessExit::Signal(signal) => Ending::Signalled(signal),
            ProcessExit::Unknown => Ending::Unknown,
        }
    }
}

impl std::fmt::Display for ProcessExit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Ending::from(*self).fmt(f)
    }
}
