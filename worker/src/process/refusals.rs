//! Explains a failed start with a message on which a user can act, and decides its fault.

use std::ffi::CString;
use std::path::Path;

use brasserie_common::{Fault, Limited, TaskSubprocessOptions};
use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit};

use super::accounts::ChosenRights;
use super::launch::{LaunchStep, Limit, Refused};

/// The start that was attempted.
#[derive(Clone, Copy)]
pub(super) struct AttemptedStart<'a> {
    pub program: &'a str,
    pub options: &'a TaskSubprocessOptions,
    pub chosen: Option<&'a ChosenRights>,
}

/// The kernel's limit for one argument or environment entry, in bytes, its end included (`MAX_ARG_STRLEN`).
const KERNEL_STRING_LIMIT: usize = 128 * 1024;

/// A start that failed before or in the child, with the message for the user.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct StartFailure {
    pub why: String,
    pub fault: Fault,
}

impl StartFailure {
    /// Makes a failure whose cause is the same on every worker.
    pub(super) fn of_task(why: String) -> Self {
        let fault = Fault::Task;
        StartFailure { why, fault }
    }

    /// Makes a failure that another worker may not have.
    pub(super) fn of_worker(why: String) -> Self {
        let fault = Fault::Worker;
        StartFailure { why, fault }
    }
}

/// Converts an argument or a variable for the kernel. Errors if it is too long or contains a NUL byte.
pub(super) fn c_string(what: &str, bytes: &[u8]) -> Result<CString, StartFailure> {
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

/// Returns the message and the fault.
pub(super) fn explain(Refused { step, error }: Refused, asked: AttemptedStart<'_>) -> StartFailure {
    let what = match step {
        LaunchStep::Create | LaunchStep::Execute => return explain_program(error, asked),
        LaunchStep::Join => "its control group cannot be joined",
        LaunchStep::Lead => "its session cannot be made",
        LaunchStep::Redirect => "its descriptors cannot be put in place",
        LaunchStep::WorkingDirectory => return explain_directory(error, asked),
        LaunchStep::Limit(_) | LaunchStep::Account if error == Errno::ENOSYS => {
            let why = "this machine lets the worker start programs by posix_spawn only, which sets neither limits nor users";
            return StartFailure::of_worker(why.to_owned());
        }
        LaunchStep::Limit(resource) => return explain_limit(resource, error, asked.options),
        LaunchStep::Account => "the rights of its user cannot be taken",
    };
    StartFailure::of_worker(format!("{what}: {}", error.desc()))
}

fn explain_directory(error: Errno, asked: AttemptedStart<'_>) -> StartFailure {
    let why = error.desc();
    match &asked.options.working_directory {
        Some(path) => StartFailure::of_task(format!(
            "the job's working directory (`cwd`) {path} cannot be entered: {why}"
        )),
        None => StartFailure::of_worker(format!("its working directory cannot be entered: {why}")),
    }
}

/// Returns the failure for a limit that exceeds the worker's own. A worker that runs as root could set it, but a job's owner must not
/// exceed the limits of the machine's administrator.
pub(super) fn beyond_our_own(
    limits: &[Limit],
    options: &TaskSubprocessOptions,
) -> Option<StartFailure> {
    let is_beyond =
        |limit: &&Limit| getrlimit(limit.resource).is_ok_and(|(_, own)| limit.hard > own);
    let limit = limits.iter().find(is_beyond)?;
    Some(explain_limit(limit.resource, Errno::EPERM, options))
}

fn explain_limit(
    resource: Resource,
    error: Errno,
    options: &TaskSubprocessOptions,
) -> StartFailure {
    let mut limits = options.limits.iter();
    let Some((limited, limit)) = limits.find(|(limited, _)| kernels(**limited) == resource) else {
        let why = format!("the limit {resource:?} cannot be set: {}", error.desc());
        return StartFailure::of_task(why);
    };
    let (name, hard) = (limited.as_str(), limit.hard());
    StartFailure::of_task(match (error, getrlimit(resource)) {
        (Errno::EPERM, Ok((_, own))) => {
            let own = match own {
                Limit::INFINITY => "unlimited".to_owned(),
                own => own.to_string(),
            };
            format!(
                "the limit `{name}` cannot be {hard}: the worker's own hard limit is {own}; a worker that is to give more must be started \
                 with more"
            )
        }
        (error, _) => format!(
            "the limit `{name}` cannot be set to {hard}: {}",
            error.desc()
        ),
    })
}

/// Explains the error of making a pipe or the process, or of executing its program.
fn explain_program(error: Errno, asked: AttemptedStart<'_>) -> StartFailure {
    let (program, user) = (asked.program, asked.chosen.map(|chosen| &chosen.name));
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
        Errno::EACCES => {
            let whom = user.map_or("this worker".to_owned(), |user| format!("the user {user}"));
            format!("{program} is not an executable file, or it or a folder above it is closed to {whom}")
        }
        Errno::ENOEXEC => format!("{program} is neither a program for this machine nor a script with a `#!` line"),
        Errno::E2BIG => format!("{program}: arguments and environment together are larger than this machine allows"),
        Errno::EMFILE => "the worker has no file descriptors left: raise its limit (ulimit -n) or run fewer tasks at once".to_owned(),
        Errno::ENFILE => "the machine has no file descriptors left (fs.file-max)".to_owned(),
        Errno::EAGAIN => match (user, asked.options.limits.get(&Limited::Nproc)) {
            (Some(user), Some(limit)) => format!(
                "the user {user} has as many processes already as the task's limit `nproc` allows ({})", limit.soft()
            ),
            _ => "no more processes may be created: a limit on processes is reached (ulimit -u, pids of the control group)".to_owned(),
        },
        Errno::ENOMEM => "the machine has no memory left to start a process".to_owned(),
        other => format!("{program} cannot be executed: {}", other.desc()),
    };
    StartFailure { why, fault }
}

/// Returns the kernel's name of the limit.
pub(super) fn kernels(limited: Limited) -> Resource {
    match limited {
        Limited::As => Resource::RLIMIT_AS,
        Limited::Core => Resource::RLIMIT_CORE,
        Limited::Cpu => Resource::RLIMIT_CPU,
        Limited::Data => Resource::RLIMIT_DATA,
        Limited::Fsize => Resource::RLIMIT_FSIZE,
        Limited::Locks => Resource::RLIMIT_LOCKS,
        Limited::Memlock => Resource::RLIMIT_MEMLOCK,
        Limited::Msgqueue => Resource::RLIMIT_MSGQUEUE,
        Limited::Nice => Resource::RLIMIT_NICE,
        Limited::Nofile => Resource::RLIMIT_NOFILE,
        Limited::Nproc => Resource::RLIMIT_NPROC,
        Limited::Rss => Resource::RLIMIT_RSS,
        Limited::Rtprio => Resource::RLIMIT_RTPRIO,
        Limited::Rttime => Resource::RLIMIT_RTTIME,
        Limited::Sigpending => Resource::RLIMIT_SIGPENDING,
        Limited::Stack => Resource::RLIMIT_STACK,
    }
}

#[cfg(test)]
mod tests {
    use brasserie_common::{Bound, ProcessLimit};

    use super::*;

    fn text(step: LaunchStep, error: Errno, options: &TaskSubprocessOptions) -> StartFailure {
        let asked = AttemptedStart {
            program: "/p",
            options,
            chosen: None,
        };
        explain(Refused { step, error }, asked)
    }

    #[test]
    fn a_machine_that_cannot_make_its_own_children_says_what_it_cannot_do() {
        let options = TaskSubprocessOptions::default();
        for step in [LaunchStep::Account, LaunchStep::Limit(Resource::RLIMIT_CPU)] {
            let failure = text(step, Errno::ENOSYS, &options);
            assert!(
                failure
                    .why
                    .ends_with("by posix_spawn only, which sets neither limits nor users"),
                "{failure:?}"
            );
            // Another machine may be able to.
            assert_eq!(failure.fault, Fault::Worker);
        }
    }

    #[test]
    fn a_limit_is_named_as_the_job_names_it() {
        let mut options = TaskSubprocessOptions::default();
        let limit = ProcessLimit::both(Bound::At(9));
        options.limits.insert(Limited::Memlock, limit);
        let step = LaunchStep::Limit(Resource::RLIMIT_MEMLOCK);
        let failure = text(step, Errno::EINVAL, &options);
        let why = "the limit `memlock` cannot be set to 9: Invalid argument";
        assert_eq!((failure.why.as_str(), failure.fault), (why, Fault::Task));
    }

    #[test]
    fn the_kernels_limits_are_all_different() {
        let kernels: std::collections::HashSet<i32> =
            Limited::ALL.map(|limited| kernels(limited) as i32).into();
        assert_eq!(kernels.len(), Limited::ALL.len());
    }
}
