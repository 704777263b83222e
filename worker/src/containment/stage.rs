//! The two stages between a keeper and a worker in a PID namespace. Neither starts a thread or parses an argument; both report to the
//! keeper over a pipe and end with it. The worker inherits two descriptors: the keeper's `/proc` and the pipe that ends with the keeper.
//!
//! ```text
//!   keeper --spawn--> outer: unshare, spawn inner, report its number, exit
//!      ^                 \--> inner (PID 1): wait for the keeper's byte, mount /proc, give up CAP_SYS_ADMIN, exec the worker
//!      +-- adopts inner when outer is dead: the keeper is the next subreaper above
//! ```

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, exit};

use brasserie_common_runtime::Clock;
use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl;
use nix::unistd::{Uid, close, getegid, geteuid, getpid};
use rustix::thread::{
    CapabilitySet, capabilities, clear_ambient_capability_set, configure_capability_in_ambient_set,
    remove_capability_from_bounding_set, set_capabilities,
};

use super::NamespaceMethod;
use crate::THIS_PROGRAM;
use crate::pid_namespace::{ContainmentVariable, WorkerNamespace, inode_here};
use crate::variables::{CONTAINMENT_VARIABLE, STAGE_VARIABLE};

/// The first argument of a stage, before those of its program. It does not contain a name that people use with `pkill -f`.
pub(crate) const STAGE_NAME: &str = "brasserie-stage";
/// The smallest process id to choose. Lower ids are for the first processes of a machine; the kernel does not reuse them either.
const FIRST_PID: u64 = 300;
/// Exit code of a stage that failed. The keeper reads the reason from a pipe.
pub(crate) const FAILED: i32 = 1;
/// The value of [`STAGE_VARIABLE`] for the process that ends what the last worker left running.
pub(crate) const SWEEP: &str = "sweep";

/// The instructions of a stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StageInstructions {
    Outer {
        /// Descriptor of the pipe to the keeper.
        report: u32,
        /// Descriptor of the pipe that ends with the keeper; the worker inherits it.
        life: u32,
        way: NamespaceMethod,
        why: String,
    },
    Inner {
        report: u32,
        life: u32,
        /// Descriptor of the keeper's `/proc`.
        proc: u32,
        /// Inode of the keeper's namespace.
        base: u64,
        why: String,
    },
}

impl StageInstructions {
    pub(super) fn encode(&self) -> String {
        match self {
            StageInstructions::Outer {
                report,
                life,
                way,
                why,
            } => {
                let way = match way {
                    NamespaceMethod::Direct => "direct",
                    NamespaceMethod::UserNamespace => "user",
                };
                format!("outer {report} {life} {way} 0 {why}")
            }
            StageInstructions::Inner {
                report,
                life,
                proc,
                base,
                why,
            } => format!("inner {report} {life} {proc} {base} {why}"),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let mut words = text.splitn(6, ' ');
        let mut word = || words.next();
        let kind = word()?;
        let (report, life) = (word()?.parse().ok()?, word()?.parse().ok()?);
        let (third, base, why) = (word()?, word()?, word()?.to_owned());
        match kind {
            "outer" => Some(StageInstructions::Outer {
                report,
                life,
                way: match third {
                    "direct" => NamespaceMethod::Direct,
                    "user" => NamespaceMethod::UserNamespace,
                    _ => return None,
                },
                why,
            }),
            "inner" => Some(StageInstructions::Inner {
                report,
                life,
                proc: third.parse().ok()?,
                base: base.parse().ok()?,
                why,
            }),
            _ => None,
        }
    }
}

/// Runs a stage and ends the process, if it was started as one; otherwise returns at once. `is_kept` says whether the parent is a
/// keeper. `sweep` receives the program's arguments, ends what the last worker left running, and returns the exit code.
pub(crate) fn play_if_asked(is_kept: bool, sweep: impl FnOnce(&[OsString]) -> i32) {
    let mut arguments = std::env::args_os();
    if arguments.next().is_none_or(|name| name != STAGE_NAME) {
        return;
    }
    let part = std::env::var(STAGE_VARIABLE).ok();
    let program: Vec<OsString> = arguments.collect();
    if part.as_deref() == Some(SWEEP) {
        exit(sweep(&program));
    }
    match part.and_then(|part| StageInstructions::parse(&part)) {
        Some(StageInstructions::Outer {
            report,
            life,
            way,
            why,
        }) if is_kept => outer(&program, report, life, way, why),
        Some(StageInstructions::Inner {
            report,
            life,
            proc,
            base,
            why,
        }) if getpid().as_raw() == 1 => inner(&program, report, life, proc, base, why),
        Some(StageInstructions::Outer { .. } | StageInstructions::Inner { .. }) | None => {
            exit(FAILED)
        }
    }
}

fn outer(program: &[OsString], report: u32, life: u32, way: NamespaceMethod, why: String) -> ! {
    let made = make_namespaces(way).and_then(|(proc, base)| {
        let part = StageInstructions::Inner {
            report,
            life,
            proc: number(&proc),
            base,
            why,
        };
        let inner = Command::new(THIS_PROGRAM)
            .arg0(STAGE_NAME)
            .args(program)
            .env(STAGE_VARIABLE, part.encode())
            .spawn();
        inner.map_err(|error| format!("no process can be started in it: {error}"))
    });
    match made {
        Ok(inner) => tell(report, &format!("pid {}", inner.id())),
        Err(error) => fail(report, &error),
    }
    exit(0)
}

/// Makes the namespaces. Returns the keeper's `/proc`, and the inode of its namespace.
fn make_namespaces(way: NamespaceMethod) -> Result<(OwnedFd, u64), String> {
    check_proc()?;
    let base = inode_here().ok_or("/proc/self/ns/pid cannot be read")?;
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(OFlag::O_DIRECTORY.bits());
    let proc = options
        .open("/proc")
        .map_err(|error| format!("/proc cannot be opened: {error}"))?;
    // The next stage and the worker inherit the descriptor.
    fcntl(&proc, FcntlArg::F_SETFD(FdFlag::empty())).map_err(|error| error.desc().to_owned())?;
    if way == NamespaceMethod::UserNamespace {
        map_the_user()?;
    }
    leave_namespaces()?;
    keep_over_exec().map_err(|error| format!("CAP_SYS_ADMIN cannot be passed on: {error}"))?;
    Ok((proc.into(), base))
}

fn check_proc() -> Result<(), String> {
    let own = fs::read_link("/proc/self").map_err(|error| format!("/proc/self: {error}"))?;
    match own == Path::new(&getpid().to_string()) {
        true => Ok(()),
        false => Err("/proc is that of another PID namespace".to_owned()),
    }
}

/// Gives the calling thread its own mounts, and its future children a PID namespace.
fn leave_namespaces() -> Result<(), String> {
    let flags = CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWNS;
    unshare(flags)
        .map_err(|error| format!("the kernel refuses the namespaces: {}", error.desc()))?;
    // Mounts of the host still appear here; mounts made here do not appear on the host.
    let flags = MsFlags::MS_REC | MsFlags::MS_SLAVE;
    mount(None::<&str>, "/", None::<&str>, flags, None::<&str>)
        .map_err(|error| format!("its mounts cannot be made its own: {}", error.desc()))
}

/// Checks whether the kernel gives this process the namespaces, on a thread that ends with them. It starts no process, so it does not
/// check whether `/proc` can be mounted there.
pub(crate) fn try_namespaces() -> Result<(), String> {
    let attempt = || check_proc().and_then(|()| leave_namespaces());
    let thread = std::thread::Builder::new().name("namespaces".to_owned());
    let thread = thread.spawn(attempt).map_err(|error| error.to_string())?;
    thread
        .join()
        .unwrap_or_else(|_| Err("the attempt failed".to_owned()))
}

/// Enters a user namespace in which only this user exists, with its own id.
fn map_the_user() -> Result<(), String> {
    let (user, group) = (geteuid(), getegid());
    unshare(CloneFlags::CLONE_NEWUSER).map_err(|error| {
        format!(
            "the kernel refuses a user namespace: {} (see user.max_user_namespaces, and what the machine's security modules forbid)",
            error.desc()
        )
    })?;
    let write = |name: &str, text: String| {
        let path = format!("/proc/self/{name}");
        fs::write(&path, text).map_err(|error| format!("{path}: {error}"))
    };
    // The kernel requires this before an unprivileged process may write `gid_map`.
    write("setgroups", "deny".to_owned())?;
    write("uid_map", format!("{user} {user} 1"))?;
    write("gid_map", format!("{group} {group} 1"))
}

/// Passes CAP_SYS_ADMIN on to the inner stage, also if the user is not root.
fn keep_over_exec() -> rustix::io::Result<()> {
    let mut sets = capabilities(None)?;
    sets.inheritable |= CapabilitySet::SYS_ADMIN;
    set_capabilities(None, sets)?;
    configure_capability_in_ambient_set(CapabilitySet::SYS_ADMIN, true)
}

fn inner(program: &[OsString], report: u32, life: u32, proc: u32, base: u64, why: String) -> ! {
    // The byte arrives once the outer stage is dead. Before that, the keeper could not wait for this process, which is not its child.
    let mut byte = [0];
    let go = File::open(format!("/proc/self/fd/{life}")).and_then(|mut life| life.read(&mut byte));
    if !matches!(go, Ok(1)) {
        exit(FAILED);
    }
    let _ = prctl::set_name(c"brasserie-stage");
    if let Err(error) = settle() {
        fail(report, &error);
    }
    let Some(own) = inode_here() else {
        fail(report, "/proc/self/ns/pid cannot be read there");
    };
    let namespace = WorkerNamespace {
        own,
        base,
        proc,
        life,
        why,
    };
    let mut command = Command::new(THIS_PROGRAM);
    if let Some(name) = program.first() {
        command.arg0(name);
    }
    command
        .args(program.iter().skip(1))
        .env_remove(STAGE_VARIABLE)
        .env(
            CONTAINMENT_VARIABLE,
            ContainmentVariable::Namespace(namespace).to_string(),
        );
    name_itself_to_the_watchdog(&mut command);
    // The report precedes the exec, since nothing can report after it. If the exec fails, the keeper sees the program exit.
    tell(report, "ready");
    let _ = close(report.cast_signed());
    let _ = command.exec();
    exit(FAILED)
}

/// Mounts `/proc` in the namespace with the host's protections, and gives CAP_SYS_ADMIN up.
fn settle() -> Result<(), String> {
    let covers = Cover::all("/proc").map_err(|error| format!("/proc/self/mountinfo: {error}"))?;
    let own = covers.options;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC | own.flags;
    let options = own.text.as_str();
    mount(Some("proc"), "/proc", Some("proc"), flags, Some(options)).map_err(|error| {
        format!(
            "/proc cannot be mounted for it: {} (an ordinary user may not if parts of /proc are covered, as by systemd's \
             ProtectKernelTunables=)",
            error.desc()
        )
    })?;
    randomise_pids();
    for cover in &covers.above {
        cover.put_back()?;
    }
    give_up().map_err(|error| {
        format!("CAP_SYS_ADMIN cannot be given up: {error} (as root that takes CAP_SETPCAP)")
    })
}

/// The mounts on `/proc` and below it. Those that hide or protect parts of it must do so for this worker, too.
#[derive(Debug)]
struct Covers {
    options: MountOptions,
    above: Vec<Cover>,
}

#[derive(Debug)]
struct MountOptions {
    flags: MsFlags,
    text: String,
}

#[derive(Debug)]
struct Cover {
    place: PathBuf,
    mounted: File,
}

impl Cover {
    fn all(root: &str) -> io::Result<Covers> {
        let mut all = Covers {
            options: MountOptions {
                flags: MsFlags::empty(),
                text: String::new(),
            },
            above: Vec::new(),
        };
        for line in fs::read_to_string("/proc/self/mountinfo")?.lines() {
            let mut words = line.split(' ');
            let (Some(place), Some(flags)) = (words.nth(4), words.next()) else {
                continue;
            };
            if place == root {
                all.options = options(flags, line.rsplit(' ').next().unwrap_or_default());
            } else if place
                .strip_prefix(root)
                .is_some_and(|rest| rest.starts_with('/'))
            {
                let place = PathBuf::from(place);
                // A mount that is gone, or itself covered, protects nothing.
                let mut options = OpenOptions::new();
                options.read(true).custom_flags(OFlag::O_PATH.bits());
                if let Ok(mounted) = options.open(&place) {
                    all.above.push(Cover { place, mounted });
                }
            }
        }
        Ok(all)
    }

    fn put_back(&self) -> Result<(), String> {
        let from = format!("/proc/self/fd/{}", self.mounted.as_raw_fd());
        let place = &self.place;
        match mount(
            Some(from.as_str()),
            place,
            None::<&str>,
            MsFlags::MS_BIND,
            None::<&str>,
        ) {
            Ok(()) => Ok(()),
            // The path does not exist, so nothing needs to be hidden.
            Err(nix::errno::Errno::ENOENT) => Ok(()),
            Err(error) => Err(format!(
                "{} cannot be kept as it is: {}",
                place.display(),
                error.desc()
            )),
        }
    }
}

/// Returns the mount options that decide who sees what.
fn options(flags: &str, of_file_system: &str) -> MountOptions {
    let is_read_only = flags.split(',').any(|flag| flag == "ro");
    let kept = of_file_system
        .split(',')
        .filter(|option| option.starts_with("hidepid=") || option.starts_with("gid="));
    MountOptions {
        flags: match is_read_only {
            true => MsFlags::MS_RDONLY,
            false => MsFlags::empty(),
        },
        text: kept.collect::<Vec<_>>().join(","),
    }
}

/// Sets a random next process id. Otherwise each worker's first tasks would have the same ids, and programs that name temporary files by
/// their ids would collide. A kernel without that file starts with the first id.
fn randomise_pids() {
    let limit = fs::read_to_string("/proc/sys/kernel/pid_max").ok();
    let limit = limit.and_then(|text| text.trim().parse::<u64>().ok());
    if let Some(span) = limit
        .and_then(|limit| limit.checked_sub(FIRST_PID))
        .filter(|span| *span > 0)
    {
        let last = FIRST_PID + Clock.seed() % span;
        let _ = fs::write("/proc/sys/kernel/ns_last_pid", last.to_string());
    }
}

/// Gives CAP_SYS_ADMIN up for good: neither the worker nor a task can then change its namespaces or mounts, on which keeper and worker
/// rely.
fn give_up() -> rustix::io::Result<()> {
    // The bounding set comes first, as changing it needs an effective CAP_SETPCAP.
    let removed = remove_capability_from_bounding_set(CapabilitySet::SYS_ADMIN);
    if geteuid() == Uid::from_raw(0) {
        // Root would regain the capability with the next program.
        removed?;
    }
    give_up_here()
}

/// Gives CAP_SYS_ADMIN up in this process. The keeper uses it, which stays outside of the namespace or has none.
pub(crate) fn give_up_here() -> rustix::io::Result<()> {
    clear_ambient_capability_set()?;
    let mut sets = capabilities(None)?;
    for set in [
        &mut sets.effective,
        &mut sets.permitted,
        &mut sets.inheritable,
    ] {
        set.remove(CapabilitySet::SYS_ADMIN);
    }
    set_capabilities(None, sets)
}

/// Names the worker to the watchdog of a manager that watches the keeper. The worker's own process id is 1.
fn name_itself_to_the_watchdog(command: &mut Command) {
    if std::env::var_os("WATCHDOG_PID").is_some() {
        command.env("WATCHDOG_PID", "1");
    }
}

fn number(fd: &OwnedFd) -> u32 {
    fd.as_raw_fd().unsigned_abs()
}

fn tell(report: u32, line: &str) {
    // If the pipe has no reader, the keeper is dead, and the life pipe reports that.
    let pipe = OpenOptions::new()
        .write(true)
        .open(format!("/proc/self/fd/{report}"));
    let _ = pipe.and_then(|mut pipe| writeln!(pipe, "{line}"));
}

fn fail(report: u32, why: &str) -> ! {
    tell(report, &format!("failed {}", why.replace('\n', " ")));
    exit(FAILED)
}
