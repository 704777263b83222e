//! Runs task processes: starts them without copying this process, watches them without polling, kills them with their process groups, and
//! reports their ends.
//!
//! One thread supervises all tasks of a worker over one epoll: a pidfd and three pipes per task. The thread polls no task, and no task
//! has a thread. [`ProcessRunner`] is the handle: its calls only queue, and results arrive at a [`TaskSink`] on the supervising thread.
//!
//! A task starts with:
//!
//! * argv: the command, then (`arguments: append`) node name, `/dev/fd/N` for its status, JSON argument. The program is
//!   executed directly, without a shell; a name without `/` is looked up in the absolute folders of `PATH`.
//! * working directory: the one that the job names, else `<data dir>/jobs/<job>`, the name percent-encoded. A relative program path
//!   starts there.
//! * stdin is `/dev/null`; stdout and stderr go to the log; descriptor `N` takes status lines. All other descriptors of
//!   the worker are closed on exec.
//! * environment: the worker's variables that [`PassedEnvironment`] passes, and these: `BRASSERIE_JOB`, `BRASSERIE_NODE`,
//!   `BRASSERIE_NODE_LABEL` (the node's name without its parent's), `BRASSERIE_PATH_TO_NODE` (a JSON array, root first, since names may
//!   contain any separator), `BRASSERIE_STATUS` (the `/dev/fd/N` path), `BRASSERIE_ARGUMENT` (the JSON argument, omitted above
//!   [`ARGUMENT_IN_ENVIRONMENT_LIMIT`]), `BRASSERIE_INVOCATION` (start time, a colon, 16 hexadecimal digits), `BRASSERIE_INPUTS` (the
//!   folder of the inputs of a run with artifacts) and, if the scheduler gives one, `BRASSERIE_FENCE` (a decimal number).
//! * signals: none blocked and none ignored.
//! * a session and so a process group of its own, whatever `process_group_leader` says: a kill must reach the task's children, too. The
//!   session has no terminal. A Ctrl-C in the worker's terminal reaches only the worker, which then ends its tasks, and a task cannot type
//!   into the terminal.
//! * the limit of open files with which the worker was started, even if the worker raised its own, and the limits that the task asks for.
//! * the rights of the job's `user`, if [`Accounts`] has it: user, group and all groups of the user, and no way to gain others. The
//!   variables that name the user are the user's, the pipes belong to the user, and the working directory is
//!   `<data dir>/users/<uid>/<job>`, accessible only to the user.
//!
//! The runner makes a process by a clone that borrows this process's memory until the program runs, so the size of this process does not
//! matter. If the machine does not allow that, it uses `posix_spawn`.
//!
//! A task that was started by the clone is killed by the kernel when the supervising thread ends. The keeper ends other processes that
//! outlive a worker killed with `kill -9`. A process that has left its task's process group is ended with the task if the runner may
//! adopt orphans ([`OrphanHandling`]), and otherwise by the keeper when the worker ends.

mod accounts;
mod command;
mod ending;
mod environment;
mod events;
mod folders;
mod inbox;
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
use crate::output::Retention;

pub(crate) use accounts::Rights;
pub use accounts::{Accounts, AccountsError, AllowedUser};
pub use command::ARGUMENT_IN_ENVIRONMENT_LIMIT;
pub use environment::PassedEnvironment;
pub use folders::{JOBS, USERS};
pub(crate) use folders::{PASSAGE, PRIVATE, create_folder, create_new_folder};
pub use inbox::{KillError, SpawnError};
pub(crate) use marks::LimitMarks;
pub use runner::{ProcessRunner, Runner, RunnerStartError};
pub use strays::OrphanHandling;

/// The key of one run of one task. A kill names the run completely, so it never hits a newer run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RunKey {
    pub invocation: InvocationId,
    pub job: JobName,
    pub node: NodeName,
}

/// The runner's configuration.
#[derive(Clone, Debug)]
pub struct RunnerConfig {
    /// The data directory; jobs work in `jobs/` below it. The runner makes it absolute when it starts.
    pub data_dir: PathBuf,
    /// The host that every event names.
    pub worker_host: String,
    pub logs: Arc<LogStore>,
    /// The retention of task output in files, in `output/` below the data directory.
    pub output: Retention,
    /// The configuration of control groups; `None`: tasks that ask for any are refused.
    pub groups: Option<GroupsConfig>,
    /// The variables of this process's environment that tasks get.
    pub environment: PassedEnvironment,
    /// The limit of open files with which tasks start; `None`: that of this process.
    pub descriptors: Option<DescriptorLimit>,
    /// The process that ends those that leave their task's process group.
    pub orphans: OrphanHandling,
    /// Whether tasks carry the mark of their scheduler.
    pub marks: TaskMarks,
    /// The users whose rights tasks may have instead of this process's.
    pub accounts: Accounts,
    /// The files without which no task starts.
    pub pinned: Vec<PinnedFile>,
}

/// The limits on a process's number of open files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DescriptorLimit {
    pub soft: u64,
    pub hard: u64,
}

impl RunnerConfig {
    /// Returns a configuration with the defaults of `brasserie-worker`.
    pub fn new(data_dir: PathBuf, worker_host: String, logs: Arc<LogStore>) -> Self {
        RunnerConfig {
            data_dir,
            worker_host,
            logs,
            output: Retention::default(),
            environment: PassedEnvironment::USUAL,
            descriptors: None,
            groups: None,
            orphans: OrphanHandling::Leave,
            marks: TaskMarks::None,
            accounts: Accounts::default(),
            pinned: Vec::new(),
        }
    }
}

/// The marks by which the keeper recognises the tasks of one scheduler, if it has to end them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TaskMarks {
    /// No marks: there is one scheduler only, or no keeper.
    #[default]
    None,
    /// Marks in the environment.
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
    /// The path to the node: root first, the task's own node last.
    pub path_to_node: Vec<NodeName>,
    pub options: TaskSubprocessOptions,
    /// The GPUs that the task may see, by their names in `CUDA_VISIBLE_DEVICES`. Empty: it sees all.
    pub cuda_devices: Vec<String>,
    /// The latest start, by the clock that counts suspend, checked when everything else is ready. If the machine or this process was
    /// paused, a queued task may run elsewhere by now.
    pub not_after: Time,
    /// The fencing token, if the scheduler gives one.
    pub fence: Option<Fence>,
    /// The association to which the task belongs.
    pub association: AssociationIndex,
    /// The time at which the worker received the request.
    pub asked: Instant,
    /// The folder of the run's inputs, if it has artifacts.
    pub inputs: Option<PathBuf>,
}

/// The start of a task's process.
#[derive(Debug)]
pub struct Began {
    /// The leader of a process group with the same id.
    pub leader: nix::unistd::Pid,
    /// The period at which its job wants its usage measured.
    pub refresh: Duration,
    /// The reader of its control groups' counts, if it has any.
    pub meter: Option<Meter>,
    /// The association to which the task belongs.
    pub association: AssociationIndex,
}

/// The receiver of results. Its methods run on the supervising thread: they must not block, and may call the runner.
pub trait TaskSink: Send {
    /// Receives the start of the task's process.
    fn started(&mut self, _key: &Arc<RunKey>, _began: Began) {}

    /// Receives the beginning of a turn of the thread. At this time the thread has not reaped the first process of any run that has
    /// started and whose end was not reported here.
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

/// The exit of the direct child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessExit {
    Code(i32),
    Signal(i32),
    /// Something else in this process waited for the child: its exit is not known.
    Unknown,
}

/// The strongest signal that the worker itself sent to a task that was still running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Signalled {
    No,
    Term,
    Kill,
}

/// The resources that the direct child and its reaped descendants used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub user: Duration,
    pub system: Duration,
    /// Peak resident memory of the largest of them. `None` if it is not above this process's own peak, from which the kernel counts.
    pub max_resident_bytes: Option<u64>,
    /// Bytes read from disks; `written_bytes` went to disks.
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
