//! Prepares the start of a task's process: program, arguments, environment, working directory, descriptors. Explains failures with
//! messages on which a user can act.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ffi::{CString, OsStr};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use brasserie_common::Arguments;
use brasserie_common::task::is_variable;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::unistd::fchown;

use super::accounts::{Accounts, ChosenRights, WHO};
use super::environment::{DEVICE_ORDER, VISIBLE_DEVICES, without, without_cards};
use super::folders::{Folders, WorkingDir};
use super::launch::{Account, LaunchStep, Refused};
use super::refusals::{StartFailure, c_string};
use super::{PassedEnvironment, SpawnRequest, TaskMarks};
use crate::marker::{self, Marker};
use crate::variables::KEPT_FOR_VARIABLE;

/// The largest JSON argument that `BRASSERIE_ARGUMENT` repeats, in bytes. Arguments and environment share one kernel limit, and one
/// string may have at most 128 KiB, so this leaves room for the name and for the rest of the environment.
pub const ARGUMENT_IN_ENVIRONMENT_LIMIT: usize = 100 * 1024;

/// Descriptors that every task gets: `/dev/null` for stdin, and the number that its status pipe will have.
///
/// Both are opened once and kept. Because the number is occupied, no pipe of ours can ever have it. So `dup2` onto it in a child cannot
/// overwrite another of the child's descriptors; 0 to 2 are always open in a Rust program.
pub(super) struct Reserved {
    pub null: OwnedFd,
    status: OwnedFd,
}

impl Reserved {
    pub(super) fn new() -> io::Result<Self> {
        let null: OwnedFd = File::open("/dev/null")?.into();
        let status = null.try_clone()?;
        Ok(Reserved { null, status })
    }

    pub(super) fn status_number(&self) -> RawFd {
        self.status.as_raw_fd()
    }
}

/// The parts of a child's start that all tasks share.
pub(super) struct Commands {
    folders: Folders,
    environment: Environment,
    /// The environments of tasks with other users, by user name. Two users may have the same number.
    environments: HashMap<String, Environment>,
    path: Vec<PathBuf>,
    status_path: String,
    /// The marker of this worker, if tasks carry the mark of their scheduler.
    marker: Option<Marker>,
}

/// The variables that pass to all tasks of a user.
struct Environment {
    usual: Vec<CString>,
    /// The variables for a task that has GPUs of its own.
    with_cards: Vec<CString>,
}

impl Environment {
    fn new(usual: Vec<CString>) -> Self {
        Environment {
            with_cards: without_cards(&usual),
            usual,
        }
    }
}

/// The strings of one start.
#[derive(Debug)]
pub(super) struct Prepared {
    pub program: CString,
    pub argv: Vec<CString>,
    pub environment: Vec<CString>,
    pub working_dir: WorkingDir,
}

impl Commands {
    pub(super) fn new(
        data_dir: &Path,
        status_number: RawFd,
        passed: &PassedEnvironment,
        (accounts, marks): (&Accounts, TaskMarks),
    ) -> io::Result<Self> {
        let folders = Folders::open(data_dir, accounts)?;
        let environment = passed.entries(std::env::vars_os());
        let environments = accounts.environments();
        let environments = environments
            .map(|(user, own)| {
                let own = Environment::new(of_user(&environment, own));
                (user.to_owned(), own)
            })
            .collect();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::split_paths(&path)
            .filter(|folder| folder.is_absolute())
            .collect();
        let status_path = format!("/dev/fd/{status_number}");
        Ok(Commands {
            folders,
            environment: Environment::new(environment),
            environments,
            path,
            status_path,
            marker: match marks {
                TaskMarks::None => None,
                TaskMarks::OfSchedulers => marker::marker(),
            },
        })
    }

    /// Returns the passed part of the worker's environment, without the variables for the account, for GPUs, and of the job itself.
    pub(super) fn environment(
        &self,
        chosen: Option<&ChosenRights>,
        request: &SpawnRequest,
    ) -> Cow<'_, [CString]> {
        let of_user = chosen.and_then(|chosen| self.environments.get(&chosen.name));
        let environment = of_user.unwrap_or(&self.environment);
        let passed = match request.cuda_devices.is_empty() {
            true => &environment.usual,
            false => &environment.with_cards,
        };
        let own = &request.options.environment;
        match own.is_empty() {
            true => Cow::Borrowed(passed),
            false => Cow::Owned(without(passed, |name| {
                std::str::from_utf8(name).is_ok_and(|name| own.contains_key(name))
            })),
        }
    }

    /// Makes the working directory again after somebody removed it.
    pub(super) fn restore(&self, working_dir: &WorkingDir) -> Result<(), StartFailure> {
        self.folders.make(working_dir)
    }

    /// Returns the complete argument list, as logged and as executed.
    pub(super) fn arguments(&self, request: &SpawnRequest) -> Vec<String> {
        let mut all = request.command.clone();
        match request.options.arguments {
            Arguments::Append => {
                all.push(request.key.node.as_str().to_owned());
                all.push(self.status_path.clone());
                all.push(request.argument.clone());
            }
            Arguments::None => {}
        }
        all
    }

    pub(super) fn prepare(
        &mut self,
        request: &SpawnRequest,
        arguments: &[String],
        chosen: Option<&ChosenRights>,
    ) -> Result<Prepared, StartFailure> {
        let program = self.resolve(arguments.first().map_or("", String::as_str))?;
        let argv = arguments
            .iter()
            .enumerate()
            .map(|(i, text)| c_string(&format!("argument {i}"), text.as_bytes()))
            .collect::<Result<_, _>>()?;
        let environment = self.additions(request)?;
        let working_dir = match &request.options.working_directory {
            Some(path) => WorkingDir::given(path)?,
            None => self.folders.of(&request.key.job, chosen)?,
        };
        Ok(Prepared {
            program,
            argv,
            environment,
            working_dir,
        })
    }

    fn additions(&self, request: &SpawnRequest) -> Result<Vec<CString>, StartFailure> {
        let path = serde_json::to_string(&request.path_to_node).expect("names are strings");
        let invocation = request.key.invocation.to_string();
        let devices = request.cuda_devices.join(",");
        let mut values = vec![
            ("BRASSERIE_JOB", request.key.job.as_str()),
            ("BRASSERIE_NODE", request.key.node.as_str()),
            ("BRASSERIE_NODE_LABEL", label(request)),
            ("BRASSERIE_PATH_TO_NODE", path.as_str()),
            ("BRASSERIE_STATUS", self.status_path.as_str()),
            ("BRASSERIE_INVOCATION", invocation.as_str()),
        ];
        let fence = request.fence.map(|fence| fence.to_string());
        if let Some(fence) = &fence {
            values.push(("BRASSERIE_FENCE", fence));
        }
        let inputs = request.inputs.as_deref().map(Path::to_string_lossy);
        if let Some(inputs) = &inputs {
            values.push(("BRASSERIE_INPUTS", inputs));
        }
        if request.argument.len() <= ARGUMENT_IN_ENVIRONMENT_LIMIT {
            values.push(("BRASSERIE_ARGUMENT", request.argument.as_str()));
        }
        let mark = self.marker.as_ref();
        let mark = mark.map(|marker| marker.of(request.association.0));
        if let Some(mark) = &mark {
            values.push((KEPT_FOR_VARIABLE, mark));
        }
        if !devices.is_empty() {
            values.push((VISIBLE_DEVICES, &devices));
            values.push((DEVICE_ORDER, "PCI_BUS_ID"));
        }
        // The job's variables follow the worker's, because a program finds the first entry of a name.
        let own = request.options.environment.iter();
        let own = own.filter(|(name, _)| is_variable(name));
        values.extend(own.map(|(name, value)| (name.as_str(), value.as_str())));
        values
            .into_iter()
            .map(|(name, value)| c_string(name, format!("{name}={value}").as_bytes()))
            .collect()
    }

    /// Finds the program as a shell would, but ignores relative folders of `PATH`: they would be relative to a directory to which tasks
    /// can write.
    fn resolve(&self, program: &str) -> Result<CString, StartFailure> {
        if program.is_empty() {
            return Err(StartFailure::of_task(
                "the command is empty: give the job a `command`".to_owned(),
            ));
        }
        let exact = c_string("the program", program.as_bytes())?;
        if program.contains('/') {
            return Ok(exact);
        }
        let mut not_executable = None;
        for folder in &self.path {
            let candidate = folder.join(program);
            let Ok(about) = fs::metadata(&candidate) else {
                continue;
            };
            if about.is_file() && about.permissions().mode() & 0o111 != 0 {
                return c_string("the program", candidate.as_os_str().as_bytes());
            }
            not_executable.get_or_insert(candidate);
        }
        Err(StartFailure::of_task(match not_executable {
            Some(found) => format!("{} is not an executable file", found.display()),
            None => format!("{program:?} is in no folder of the worker's PATH"),
        }))
    }

    /// Returns the folders in which tasks' programs are found, with colons between them.
    pub(super) fn path_text(&self) -> String {
        let folders: Vec<&OsStr> = self.path.iter().map(|p| p.as_os_str()).collect();
        folders.join(OsStr::new(":")).to_string_lossy().into_owned()
    }
}

/// Returns the node's name as its source has it, without the parent's name and slash that `"names": "path"` adds.
fn label(request: &SpawnRequest) -> &str {
    let node = request.key.node.as_str();
    let [.., parent, _] = request.path_to_node.as_slice() else {
        return node;
    };
    let below = node.strip_prefix(parent.as_str());
    let label = below.and_then(|below| below.strip_prefix('/'));
    label.filter(|label| !label.is_empty()).unwrap_or(node)
}

/// Replaces the variables that name the user by the user's own.
fn of_user(all: &[CString], own: &[CString]) -> Vec<CString> {
    let says_who = |entry: &&CString| {
        let name = entry.to_bytes().split(|byte| *byte == b'=').next();
        WHO.iter().any(|who| name == Some(who.as_bytes()))
    };
    let others = all.iter().filter(|entry| !says_who(entry));
    others.chain(own).cloned().collect()
}

/// The pipes of one task, by [`super::pipes::PipeKind`].
pub(super) struct TaskPipes {
    pub read: [OwnedFd; 3],
    pub write: [OwnedFd; 3],
}

impl TaskPipes {
    /// Makes the pipes. They belong to the task's user, so that the task may open them again by their names below `/dev`.
    pub(super) fn new(account: Option<&Account>) -> Result<Self, Refused> {
        let refused = |step| move |error| Refused { step, error };
        let pipe = || task_pipe().map_err(refused(LaunchStep::Create));
        let (out, err, status) = (pipe()?, pipe()?, pipe()?);
        let pipes = TaskPipes {
            read: [out.0, err.0, status.0],
            write: [out.1, err.1, status.1],
        };
        if let Some(account) = account {
            for pipe in &pipes.write {
                let (user, group) = (Some(account.user), Some(account.group));
                fchown(pipe, user, group).map_err(refused(LaunchStep::Account))?;
            }
        }
        Ok(pipes)
    }
}

/// Makes a pipe whose reading end does not block, so that no task can ever stop the supervisor by draining its own pipe.
fn task_pipe() -> Result<(OwnedFd, OwnedFd), Errno> {
    let (read, write) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC)?;
    fcntl(&read, FcntlArg::F_SETFL(nix::fcntl::OFlag::O_NONBLOCK))?;
    Ok((read, write))
}
