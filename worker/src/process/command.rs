//! What a task's process is started with: program, arguments, environment, working directory, descriptors; and why it
//! could not be started, in words a user can act on.

use std::collections::HashMap;
use std::ffi::{CStr, CString, OsStr};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use brasserie_common::{Arguments, Fault, JobName};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};

use super::environment::{DEVICE_ORDER, VISIBLE_DEVICES, without_cards};
use super::launch::{Refused, Step};
use super::{PassedEnvironment, SpawnRequest};
use crate::file_name::file_name;

/// Larger JSON arguments are not repeated in `BRASSERIE_ARGUMENT`: arguments and environment share one kernel limit, and
/// one string may have at most 128 KiB, so this leaves room for the name and for whatever the environment holds.
pub const ARGUMENT_IN_ENVIRONMENT_LIMIT: usize = 100 * 1024;
/// One argument or environment entry may have so many bytes, its end included (`MAX_ARG_STRLEN`).
const KERNEL_STRING_LIMIT: usize = 128 * 1024;
/// Directories that are known to exist; more jobs than this at once only cost a `mkdir` a start.
const KNOWN_DIRECTORIES: usize = 4096;

/// A start that failed before or in the child, told to the user.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct StartFailure {
    pub why: String,
    pub fault: Fault,
}

impl StartFailure {
    /// What the task asks for cannot be had anywhere.
    fn of_task(why: String) -> Self {
        let fault = Fault::Task;
        StartFailure { why, fault }
    }

    /// Another worker may have what lacks here.
    pub(super) fn of_worker(why: String) -> Self {
        let fault = Fault::Worker;
        StartFailure { why, fault }
    }
}

/// Descriptors that every task gets: `/dev/null` for stdin, and the number that its status pipe will have.
///
/// Both are opened once and kept. Holding the number means that no pipe of ours can ever have it, so that `dup2` onto it in
/// a child cannot overwrite another of the child's descriptors; 0 to 2 are always open in a Rust program.
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
    jobs_dir: PathBuf,
    environment: Vec<CString>,
    /// The same for a task that has cards of its own.
    environment_with_cards: Vec<CString>,
    path: Vec<PathBuf>,
    status_path: String,
    known: HashMap<JobName, CString>,
}

/// Strings of one start.
#[derive(Debug)]
pub(super) struct Prepared {
    pub program: CString,
    pub argv: Vec<CString>,
    pub environment: Vec<CString>,
    pub working_dir: CString,
}

impl Commands {
    pub(super) fn new(
        data_dir: &Path,
        status_number: RawFd,
        passed: &PassedEnvironment,
    ) -> io::Result<Self> {
        let jobs_dir = std::path::absolute(data_dir)?.join("jobs");
        fs::create_dir_all(&jobs_dir)?;
        let environment = passed.entries(std::env::vars_os());
        let environment_with_cards = without_cards(&environment);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::split_paths(&path)
            .filter(|folder| folder.is_absolute())
            .collect();
        let status_path = format!("/dev/fd/{status_number}");
        Ok(Commands {
            jobs_dir,
            environment,
            environment_with_cards,
            path,
            status_path,
            known: HashMap::new(),
        })
    }

    /// What of the worker's own environment passes.
    pub(super) fn environment(&self, request: &SpawnRequest) -> &[CString] {
        match request.cuda_devices.is_empty() {
            true => &self.environment,
            false => &self.environment_with_cards,
        }
    }

    /// The complete argument list, as logged and as executed.
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
    ) -> Result<Prepared, StartFailure> {
        let program = self.resolve(arguments.first().map_or("", String::as_str))?;
        let argv = arguments
            .iter()
            .enumerate()
            .map(|(i, text)| c_string(&format!("argument {i}"), text.as_bytes()))
            .collect::<Result<_, _>>()?;
        let environment = self.additions(request)?;
        let working_dir = self.working_dir(&request.key.job)?;
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
            ("BRASSERIE_PATH_TO_NODE", path.as_str()),
            ("BRASSERIE_STATUS", self.status_path.as_str()),
            ("BRASSERIE_INVOCATION", invocation.as_str()),
        ];
        if request.argument.len() <= ARGUMENT_IN_ENVIRONMENT_LIMIT {
            values.push(("BRASSERIE_ARGUMENT", request.argument.as_str()));
        }
        if !devices.is_empty() {
            values.push((VISIBLE_DEVICES, &devices));
            values.push((DEVICE_ORDER, "PCI_BUS_ID"));
        }
        values
            .into_iter()
            .map(|(name, value)| c_string(name, format!("{name}={value}").as_bytes()))
            .collect()
    }

    /// As a shell would find it, except that relative folders of `PATH` do not count: they would be looked up in a
    /// directory that tasks can write to.
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
            None => format!(
                "{program:?} is in no folder of the worker's PATH ({})",
                self.path_text()
            ),
        }))
    }

    fn path_text(&self) -> String {
        let folders: Vec<&OsStr> = self.path.iter().map(|p| p.as_os_str()).collect();
        folders.join(OsStr::new(":")).to_string_lossy().into_owned()
    }

    fn working_dir(&mut self, job: &JobName) -> Result<CString, StartFailure> {
        if let Some(known) = self.known.get(job) {
            return Ok(known.clone());
        }
        let path = self.jobs_dir.join(file_name(job.as_str()));
        create_dir(&path)?;
        let text = c_string("the working directory", path.as_os_str().as_bytes())?;
        if self.known.len() >= KNOWN_DIRECTORIES {
            self.known.clear();
        }
        self.known.insert(job.clone(), text.clone());
        Ok(text)
    }

    /// Whether a start failed because somebody removed the working directory.
    pub(super) fn lost_working_dir(working_dir: &CStr, refused: Refused) -> bool {
        refused.error == Errno::ENOENT
            && !Path::new(OsStr::from_bytes(working_dir.to_bytes())).is_dir()
    }

    pub(super) fn restore_working_dir(working_dir: &CStr) -> Result<(), StartFailure> {
        let path = Path::new(OsStr::from_bytes(working_dir.to_bytes()));
        create_dir(path)
    }
}

fn create_dir(path: &Path) -> Result<(), StartFailure> {
    fs::create_dir_all(path).map_err(|e| {
        let path = path.display();
        StartFailure::of_worker(format!("cannot create the working directory {path}: {e}"))
    })
}

fn c_string(what: &str, bytes: &[u8]) -> Result<CString, StartFailure> {
    if bytes.len() >= KERNEL_STRING_LIMIT {
        let length = bytes.len();
        return Err(StartFailure::of_task(format!(
            "{what} has {length} bytes; Linux takes at most {} in one string",
            KERNEL_STRING_LIMIT - 1
        )));
    }
    CString::new(bytes).map_err(|_| {
        StartFailure::of_task(format!(
            "{what} contains a NUL byte, which no program can receive"
        ))
    })
}

/// The cause in words, from what a start did not get past.
pub(super) fn explain(Refused { step, error }: Refused, program: &str) -> StartFailure {
    let what = match step {
        Step::Create | Step::Execute => return explain_program(error, program),
        Step::Join => "its control group cannot be joined",
        Step::Lead => "its process group cannot be made",
        Step::Redirect => "its descriptors cannot be put in place",
        Step::WorkingDirectory => "its working directory cannot be entered",
        Step::Limit(_) | Step::Account if error == Errno::ENOSYS => {
            let why = "this machine lets the worker start programs by posix_spawn only, which sets neither limits nor users";
            return StartFailure::of_worker(why.to_owned());
        }
        Step::Limit(resource) => {
            let why = format!("the limit {resource:?} cannot be set: {}", error.desc());
            return StartFailure::of_task(why);
        }
        Step::Account => "the rights of its user cannot be taken",
    };
    StartFailure::of_worker(format!("{what}: {}", error.desc()))
}

/// From the error of a pipe, of making the process, or of executing its program.
fn explain_program(error: Errno, program: &str) -> StartFailure {
    let fault = match error {
        Errno::EMFILE | Errno::EAGAIN => Fault::Worker,
        Errno::ENFILE | Errno::ENOMEM => Fault::System,
        _ => Fault::Task,
    };
    let why = match error {
        Errno::ENOENT if Path::new(program).exists() => {
            format!("{program} exists, but the interpreter in its first line or its dynamic loader does not")
        }
        Errno::ENOENT => format!("{program} does not exist"),
        Errno::EACCES => format!("{program} is not an executable file, or a folder above it is closed to this worker"),
        Errno::ENOEXEC => format!("{program} is neither a program for this machine nor a script with a `#!` line"),
        Errno::E2BIG => format!("{program}: arguments and environment together are larger than this machine allows"),
        Errno::EMFILE => "the worker has no file descriptors left: raise its limit (ulimit -n) or run fewer tasks at once".to_owned(),
        Errno::ENFILE => "the machine has no file descriptors left (fs.file-max)".to_owned(),
        Errno::EAGAIN => "no more processes may be created: a limit on processes is reached (ulimit -u, pids of the control group)".to_owned(),
        Errno::ENOMEM => "the machine has no memory left to start a process".to_owned(),
        other => format!("{program} cannot be executed: {}", other.desc()),
    };
    StartFailure { why, fault }
}

/// A pipe whose reading end does not block, so that no task can ever stop the supervisor by draining its own pipe.
pub(super) fn task_pipe() -> Result<(OwnedFd, OwnedFd), Refused> {
    let refused = |error| Refused {
        step: Step::Create,
        error,
    };
    let (read, write) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).map_err(refused)?;
    fcntl(&read, FcntlArg::F_SETFL(nix::fcntl::OFlag::O_NONBLOCK)).map_err(refused)?;
    Ok((read, write))
}
