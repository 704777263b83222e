//! The only audited module with `unsafe`: clone, posix_spawn, pidfds, wait4 and close-on-exec. They have no safe wrapper with the
//! necessary features (own steps before a program starts, resource usage, raw environment blocks).
#![expect(
    unsafe_code,
    reason = "system calls without a safe wrapper; every use says why it is sound"
)]

use std::ffi::{c_char, c_int, c_long, c_void};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{fs, io};

use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;
use nix::unistd::{Pid, SysconfVar, getpid, sysconf};

use super::launch::{
    Account, Child, Handled, Launch, LaunchStep, Limit, Refused, SpawnMethod, pointers,
};
use super::{ProcessExit, Usage};

/// The child's stack until it executes its program: a few frames without buffers, even in an unoptimised build.
const CHILD_STACK_BYTES: usize = 64 * 1024;
/// The size of the kernel's signal set, in bytes.
const SIGNAL_SET_BYTES: c_long = 8;
/// The exit code of a child whose program did not start; nothing reads it.
const NOT_STARTED: c_int = 127;
/// The unit in which the kernel counts disk input and output for `rusage`, in bytes.
const BLOCK_BYTES: u64 = 512;

/// Starts children. Neither way copies the page tables of this process, so its size does not matter.
pub(super) struct Launcher {
    way: SpawnMethod,
    /// The child's stack. Its element type has the alignment that both architectures require.
    stack: Vec<u128>,
    handled: Handled,
    attributes: Attributes,
    /// The id of this process, which its children compare with their parent's.
    parent: c_long,
}

impl Launcher {
    pub(super) fn new(way: SpawnMethod) -> io::Result<Self> {
        Ok(Launcher {
            way,
            parent: c_long::from(getpid().as_raw()),
            stack: vec![0; CHILD_STACK_BYTES / size_of::<u128>()],
            handled: Handled::look(Instant::now()),
            attributes: Attributes::new()?,
        })
    }

    pub(super) fn spawn(&mut self, launch: &Launch<'_>) -> Result<Child, Refused> {
        if self.way == SpawnMethod::PosixSpawn {
            return self.attributes.spawn(launch);
        }
        match self.clone(launch) {
            Err(Refused {
                step: LaunchStep::Create,
                error: error @ (Errno::ENOSYS | Errno::EPERM | Errno::EINVAL),
            }) => {
                tracing::warn!(
                    "this machine does not let the worker clone itself ({}): tasks start by posix_spawn, without limits of \
                     their own, users and control groups, and without the marks and the death signal by which a task ends if worker and \
                     keeper are killed at once",
                    error.desc()
                );
                self.way = SpawnMethod::PosixSpawn;
                self.attributes.spawn(launch)
            }
            result => result,
        }
    }

    fn clone(&mut self, launch: &Launch<'_>) -> Result<Child, Refused> {
        let handled = self.handled.at(Instant::now());
        let argv = pointers([launch.argv, &[]]);
        let environment = pointers(launch.environment);
        let plan = SpawnPlan {
            launch,
            argv: argv.as_ptr(),
            environment: environment.as_ptr(),
            handled,
            parent: self.parent,
            failure: AtomicU64::new(0),
        };
        let dumpable = launch.account.map(|_| prctl::get_dumpable());
        let mut pidfd: c_int = -1;
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD | libc::SIGCHLD;
        let before = block_all_signals();
        // SAFETY: `plan` holds everything that `child` needs, and lives on this stack beyond the call: CLONE_VFORK keeps this thread here
        // until the child has executed its program or is dead, so nothing that `plan` borrows moves or is freed while the child uses it.
        // One child at a time uses its stack, which grows down from its end, because of `&mut self`. Every signal is blocked, so no
        // handler of this process runs in the child, which shares its memory, until the child has set all of them to their defaults.
        // `pidfd` is valid for the kernel's write.
        let pid = unsafe {
            libc::clone(
                child,
                self.stack.as_mut_ptr_range().end.cast::<c_void>(),
                flags,
                (&raw const plan).cast_mut().cast::<c_void>(),
                &raw mut pidfd,
            )
        };
        let error = Errno::last();
        restore_signals(before);
        if let Some(Ok(true)) = dumpable {
            // The child gave up its rights while it shared this memory, so the kernel hides the memory from other processes. It is no
            // longer shared.
            let _ = prctl::set_dumpable(true);
        }
        if pid < 0 {
            return Err(Refused {
                step: LaunchStep::Create,
                error,
            });
        }
        let pid = Pid::from_raw(pid);
        // SAFETY: the kernel just gave us this descriptor (close-on-exec by definition), and nothing else owns it.
        let pidfd = (pidfd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(pidfd) });
        if let Some(refused) = plan.refused() {
            // The child is dead already; this only reaps it.
            let _ = waitpid(pid, None);
            return Err(refused);
        }
        match pidfd {
            Some(pidfd) => Ok(Child { pid, pidfd }),
            // The kernel is older than 5.2 and ignores flags that it does not know.
            None => watch(pid),
        }
    }
}

/// The instructions of a child, and its report of a failure.
struct SpawnPlan<'a> {
    launch: &'a Launch<'a>,
    argv: *const *mut c_char,
    environment: *const *mut c_char,
    handled: &'a [c_int],
    /// The process that starts the child.
    parent: c_long,
    /// 0 without a failure, else the error's number above a step's code.
    failure: AtomicU64,
}

impl SpawnPlan<'_> {
    fn refused(&self) -> Option<Refused> {
        let failure = self.failure.load(Ordering::Relaxed);
        let error = i32::try_from(failure >> 32).expect("32 bits of which the highest is 0");
        let limits = self
            .launch
            .limits
            .iter()
            .map(|l| LaunchStep::Limit(l.resource));
        let steps = [
            LaunchStep::Join,
            LaunchStep::Lead,
            LaunchStep::Redirect,
            LaunchStep::WorkingDirectory,
            LaunchStep::Account,
            LaunchStep::Execute,
        ];
        let step = steps
            .into_iter()
            .chain(limits)
            .find(|step| step.code() == failure & u64::from(u32::MAX))
            .unwrap_or(LaunchStep::Create);
        (error != 0).then(|| Refused {
            step,
            error: Errno::from_raw(error),
        })
    }

    /// Runs in the child. It makes system calls and nothing else: no allocation, no lock, no panic, because all memory is the parent's,
    /// whose other threads go on.
    fn carry_out(&self) -> (LaunchStep, c_int) {
        let launch = self.launch;
        for group in launch.joins {
            let zero = c"0".as_ptr();
            if let Err(error) = call(
                libc::SYS_write,
                [long(group.as_raw_fd()), zero as c_long, 1, 0, 0],
            ) {
                return (LaunchStep::Join, error);
            }
        }
        // The session also makes the child the leader of a process group, and has no terminal. On the worker's own terminal, input that
        // the task types would look like the operator's.
        if let Err(error) = call(libc::SYS_setsid, [0; 5]) {
            return (LaunchStep::Lead, error);
        }
        for (source, target) in launch.redirections() {
            // Newer architectures do not have `dup2`. Source and target always differ.
            if let Err(error) = call(libc::SYS_dup3, [long(source), long(target), 0, 0, 0]) {
                return (LaunchStep::Redirect, error);
            }
        }
        for limit in launch.descriptors.iter().chain(&launch.mark) {
            let _ = limit.set();
        }
        for limit in launch.limits {
            if let Err(error) = limit.set() {
                return (LaunchStep::Limit(limit.resource), error);
            }
        }
        let enter = || {
            let path = launch.working_dir.as_ptr() as c_long;
            call(libc::SYS_chdir, [path, 0, 0, 0, 0])
        };
        // The worker's rights enter the job's own folder, because the account may not be able to reach it.
        if !launch.enters_as_account
            && let Err(error) = enter()
        {
            return (LaunchStep::WorkingDirectory, error);
        }
        for signal in self.handled {
            default_action(*signal);
        }
        restore_signals(Blocked(0));
        // The account comes late: from then on the account's other processes may signal this one, while the worker's thread waits for it.
        if let Some(account) = launch.account
            && let Err(error) = account.assume()
        {
            return (LaunchStep::Account, error);
        }
        if launch.enters_as_account
            && let Err(error) = enter()
        {
            return (LaunchStep::WorkingDirectory, error);
        }
        // The account would clear this setting, so it follows the account. The kernel kills the task when the thread that starts it ends.
        // That is the supervising thread: it ends after its last task, or with the whole process. The keeper would kill the task too, but
        // may be dead or stopped. The setting is best effort, as a task that is executed with other rights loses it.
        let arguments = [long(libc::PR_SET_PDEATHSIG), long(libc::SIGKILL), 0, 0, 0];
        let _ = call(libc::SYS_prctl, arguments);
        // If the parent died before the signal was requested, nothing will kill this process, so it exits. Nothing reads the error.
        if call(libc::SYS_getppid, [0; 5]) != Ok(self.parent) {
            return (LaunchStep::Create, libc::ESRCH);
        }
        let program = launch.program.as_ptr() as c_long;
        let (argv, environment) = (self.argv as c_long, self.environment as c_long);
        let arguments = [program, argv, environment, 0, 0];
        let error = call(libc::SYS_execve, arguments).err().unwrap_or(0);
        (LaunchStep::Execute, error)
    }
}

/// Runs the child until it executes its program.
extern "C" fn child(plan: *mut c_void) -> c_int {
    // SAFETY: `Launcher::clone` passes a plan that outlives this child's use of our memory.
    let plan = unsafe { &*plan.cast::<SpawnPlan<'_>>() };
    let (step, error) = plan.carry_out();
    let error = u64::from(error.unsigned_abs());
    plan.failure
        .store(error << 32 | step.code(), Ordering::Relaxed);
    // SAFETY: ends this process, without any of the parent's handlers for its own end.
    unsafe { libc::_exit(NOT_STARTED) }
}

impl Limit {
    fn set(&self) -> Result<c_long, c_int> {
        let limit = libc::rlimit64 {
            rlim_cur: self.soft,
            rlim_max: self.hard,
        };
        let limit = (&raw const limit) as c_long;
        call(
            libc::SYS_prlimit64,
            [0, self.resource as c_long, limit, 0, 0],
        )
    }
}

impl Account {
    /// Changes the rights by direct system calls: the functions of the C library would change all threads of the parent.
    fn assume(&self) -> Result<c_long, c_int> {
        let (user, group) = (
            c_long::from(self.user.as_raw()),
            c_long::from(self.group.as_raw()),
        );
        // `Gid` is a transparent wrapper of the kernel's 32 bits.
        let groups = self.groups.as_ptr() as c_long;
        let count = c_long::try_from(self.groups.len()).unwrap_or(c_long::MAX);
        call(libc::SYS_setgroups, [count, groups, 0, 0, 0])?;
        call(libc::SYS_setresgid, [group, group, group, 0, 0])?;
        call(
            libc::SYS_prctl,
            [long(libc::PR_SET_NO_NEW_PRIVS), 1, 0, 0, 0],
        )?;
        call(libc::SYS_setresuid, [user, user, user, 0, 0])
    }
}

fn long(number: c_int) -> c_long {
    c_long::from(number)
}

/// Makes a system call. Returns its result, or the number of its error.
fn call(number: c_long, [a, b, c, d, e]: [c_long; 5]) -> Result<c_long, c_int> {
    // SAFETY: the callers pass plain numbers, and pointers to NUL-terminated strings, null-terminated arrays or structs of the kernel's
    // layout that outlive the call. In a child, the number of an error is stored where the waiting thread of this process has its own.
    match unsafe { libc::syscall(number, a, b, c, d, e) } {
        -1 => Err(Errno::last_raw()),
        result => Ok(result),
    }
}

/// The signals that a thread blocks.
#[derive(Clone, Copy)]
struct Blocked(u64);

/// Blocks all signals, including those that the C library reserves and does not block in its own functions.
fn block_all_signals() -> Blocked {
    let (all, mut before) = (u64::MAX, 0_u64);
    let (set, old) = ((&raw const all) as c_long, (&raw mut before) as c_long);
    // Only wrong arguments cause errors.
    let _ = call(
        libc::SYS_rt_sigprocmask,
        [long(libc::SIG_SETMASK), set, old, SIGNAL_SET_BYTES, 0],
    );
    Blocked(before)
}

fn restore_signals(Blocked(before): Blocked) {
    let set = (&raw const before) as c_long;
    let _ = call(
        libc::SYS_rt_sigprocmask,
        [long(libc::SIG_SETMASK), set, 0, SIGNAL_SET_BYTES, 0],
    );
}

fn default_action(signal: c_int) {
    // All zero is the default without flags, in any order of the kernel's fields.
    let default = [0_u64; 4];
    let action = default.as_ptr() as c_long;
    let arguments = [long(signal), action, 0, SIGNAL_SET_BYTES, 0];
    let _ = call(libc::SYS_rt_sigaction, arguments);
}

/// The attributes of every child: own session, no blocked signal, every signal at its default.
struct Attributes(libc::posix_spawnattr_t);

impl Attributes {
    fn new() -> Result<Self, Errno> {
        let mut attributes = MaybeUninit::<libc::posix_spawnattr_t>::uninit();
        // SAFETY: the pointer is valid for writes; the call initialises what it points to.
        check(unsafe { libc::posix_spawnattr_init(attributes.as_mut_ptr()) })?;
        // SAFETY: the call above succeeded. Moving the value is sound: it is plain data in the libraries we support
        // (glibc, musl), and nothing keeps its address.
        let mut this = Attributes(unsafe { attributes.assume_init() });
        let (mut none, mut all) = (
            MaybeUninit::<libc::sigset_t>::uninit(),
            MaybeUninit::<libc::sigset_t>::uninit(),
        );
        // SAFETY: both pointers are valid for writes, and these calls cannot fail on valid pointers.
        let (none, all) = unsafe {
            libc::sigemptyset(none.as_mut_ptr());
            libc::sigfillset(all.as_mut_ptr());
            (none.assume_init(), all.assume_init())
        };
        let masks = libc::POSIX_SPAWN_SETSIGMASK | libc::POSIX_SPAWN_SETSIGDEF;
        let masks = libc::c_short::try_from(masks).expect("two low bits");
        let flags = masks | libc::POSIX_SPAWN_SETSID;
        // SAFETY: `this.0` is initialised, the signal sets live across the calls, which copy them.
        unsafe {
            check(libc::posix_spawnattr_setflags(&raw mut this.0, flags))?;
            check(libc::posix_spawnattr_setsigmask(
                &raw mut this.0,
                &raw const none,
            ))?;
            check(libc::posix_spawnattr_setsigdefault(
                &raw mut this.0,
                &raw const all,
            ))?;
        }
        Ok(this)
    }

    /// Starts a child. The error's step is an estimate, because `posix_spawn` does not report it.
    fn spawn(&self, launch: &Launch<'_>) -> Result<Child, Refused> {
        let at = |step| move |error| Refused { step, error };
        if !launch.joins.is_empty() {
            return Err(at(LaunchStep::Join)(Errno::ENOSYS));
        }
        if let Some(limit) = launch.limits.first() {
            return Err(at(LaunchStep::Limit(limit.resource))(Errno::ENOSYS));
        }
        if launch.account.is_some() {
            return Err(at(LaunchStep::Account)(Errno::ENOSYS));
        }
        let actions = Actions::new(launch).map_err(at(LaunchStep::Create))?;
        let argv = pointers([launch.argv, &[]]);
        let environment = pointers(launch.environment);
        let mut pid: libc::pid_t = 0;
        // SAFETY: all pointers are valid for the call: the program and every entry are NUL-terminated strings borrowed from
        // `launch`, both arrays end in a null pointer, actions and attributes are initialised.
        let result = unsafe {
            libc::posix_spawn(
                &raw mut pid,
                launch.program.as_ptr(),
                &raw const actions.0,
                &raw const self.0,
                argv.as_ptr(),
                environment.as_ptr(),
            )
        };
        check(result).map_err(at(LaunchStep::Execute))?;
        watch(Pid::from_raw(pid))
    }
}

impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: initialised in `new`, destroyed once. The result is always 0.
        unsafe { libc::posix_spawnattr_destroy(&raw mut self.0) };
    }
}

/// File actions under construction; freed on every path.
struct Actions(libc::posix_spawn_file_actions_t);

impl Actions {
    fn new(launch: &Launch<'_>) -> Result<Self, Errno> {
        let mut actions = MaybeUninit::<libc::posix_spawn_file_actions_t>::uninit();
        // SAFETY: the pointer is valid for writes; the call initialises what it points to.
        check(unsafe { libc::posix_spawn_file_actions_init(actions.as_mut_ptr()) })?;
        // SAFETY: the call above succeeded; the value is plain data with a heap pointer, so it may move.
        let mut this = Actions(unsafe { actions.assume_init() });
        for (source, target) in launch.redirections() {
            // SAFETY: `this.0` is initialised; descriptors are plain numbers to this call.
            check(unsafe {
                libc::posix_spawn_file_actions_adddup2(&raw mut this.0, source, target)
            })?;
        }
        // SAFETY: `this.0` is initialised; the path is NUL-terminated and copied by the call.
        check(unsafe {
            libc::posix_spawn_file_actions_addchdir_np(&raw mut this.0, launch.working_dir.as_ptr())
        })?;
        Ok(this)
    }
}

impl Drop for Actions {
    fn drop(&mut self) {
        // SAFETY: initialised in `new`, destroyed once. The result is always 0.
        unsafe { libc::posix_spawn_file_actions_destroy(&raw mut self.0) };
    }
}

fn watch(pid: Pid) -> Result<Child, Refused> {
    // No other code waits for this child, so the pid still names it.
    let pidfd = call(libc::SYS_pidfd_open, [long(pid.as_raw()), 0, 0, 0, 0]).map_err(|error| {
        end_unwatched(pid);
        Refused {
            step: LaunchStep::Create,
            error: Errno::from_raw(error),
        }
    })?;
    let pidfd = RawFd::try_from(pidfd).expect("descriptors fit their type");
    // SAFETY: the kernel just gave us this descriptor (close-on-exec by definition), and nothing else owns it.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    Ok(Child { pid, pidfd })
}

/// Ends a child that cannot be watched, and waits for it: it has only just started.
pub(super) fn end_unwatched(pid: Pid) {
    // Both calls can only fail because the child is already gone.
    let _ = kill(Pid::from_raw(-pid.as_raw()), Signal::SIGKILL);
    let _ = waitpid(pid, None);
}

/// Reaps an exited child; `None` while it runs.
pub(super) fn reap(pid: Pid) -> Option<(ProcessExit, Usage)> {
    let mut status: libc::c_int = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    loop {
        // SAFETY: both pointers are valid for writes.
        let result = unsafe {
            libc::wait4(
                pid.as_raw(),
                &raw mut status,
                libc::WNOHANG,
                usage.as_mut_ptr(),
            )
        };
        match result {
            0 => return None,
            -1 if Errno::last() == Errno::EINTR => {}
            -1 => return Some((ProcessExit::Unknown, Usage::default())),
            _ => break,
        }
    }
    // SAFETY: zeroed is a valid value of this plain struct, and the kernel filled it in.
    let usage = unsafe { usage.assume_init() };
    let exit = match libc::WIFSIGNALED(status) {
        true => ProcessExit::Signal(libc::WTERMSIG(status)),
        false => ProcessExit::Code(libc::WEXITSTATUS(status)),
    };
    let usage = Usage {
        user: duration(usage.ru_utime),
        system: duration(usage.ru_stime),
        max_resident_bytes: kib(usage.ru_maxrss).filter(|bytes| is_above_own_peak(*bytes)),
        read_bytes: u64::try_from(usage.ru_inblock).unwrap_or(0) * BLOCK_BYTES,
        written_bytes: u64::try_from(usage.ru_oublock).unwrap_or(0) * BLOCK_BYTES,
    };
    Some((exit, usage))
}

/// The largest peak of this process's own resident memory that is known. It only grows.
static OWN_PEAK_BYTES: AtomicU64 = AtomicU64::new(0);

/// Returns whether the peak of a child is more than that of this process. A child begins with the peak that this process has at its start,
/// from before the exec. `getrusage` of this process would not do: it includes what this process itself has inherited so.
fn is_above_own_peak(bytes: u64) -> bool {
    let limit = |own: u64| own + *PEAK_ERROR_BYTES;
    if bytes <= limit(OWN_PEAK_BYTES.load(Ordering::Relaxed)) {
        return false;
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let own = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let own = own.and_then(|own| own.trim().strip_suffix(" kB")?.parse().ok());
    // No peak is known to be the child's own if the value is missing.
    let own = own.and_then(kib).unwrap_or(u64::MAX / 2);
    OWN_PEAK_BYTES.fetch_max(own, Ordering::Relaxed);
    bytes > limit(own)
}

/// The largest error of two readings of the kernel's counters of resident memory, which add up the differences of all processors only from
/// time to time (`percpu_counter_batch` in `lib/percpu_counter.c`). Every end of a task needs it, so it is determined once.
static PEAK_ERROR_BYTES: LazyLock<u64> = LazyLock::new(|| {
    let of = |name, usual| {
        let value = sysconf(name).ok().flatten();
        value.and_then(|n| u64::try_from(n).ok()).unwrap_or(usual)
    };
    let processors = of(SysconfVar::_NPROCESSORS_ONLN, 1);
    2 * processors * of(SysconfVar::PAGE_SIZE, 4096) * (2 * processors).max(32)
});

fn kib(count: c_long) -> Option<u64> {
    u64::try_from(count).ok()?.checked_mul(1024)
}

fn duration(time: libc::timeval) -> Duration {
    let micros = time.tv_sec * 1_000_000 + time.tv_usec;
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

/// Makes every descriptor from 3 on close on exec, so that descriptors that this process inherited do not leak into tasks. Its own are
/// opened so. On kernels without the call (before 5.11) inherited descriptors stay as they are.
pub(super) fn close_inherited_on_exec() -> io::Result<()> {
    let (all, flag) = (
        c_long::from(u32::MAX),
        c_long::from(libc::CLOSE_RANGE_CLOEXEC),
    );
    match call(libc::SYS_close_range, [3, all, flag, 0, 0]).map_err(Errno::from_raw) {
        Ok(_) | Err(Errno::ENOSYS | Errno::EINVAL) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Resets SIGCHLD. A parent that ignores it passes that on, and the kernel would then discard the children's exit codes.
pub(super) fn keep_children_waitable() {
    let (mut action, chld) = ([0_u64; 4], long(libc::SIGCHLD));
    let old = (&raw mut action) as c_long;
    let read = call(libc::SYS_rt_sigaction, [chld, 0, old, SIGNAL_SET_BYTES, 0]);
    // The handler is the first field on all machines.
    if read.is_ok() && action[0] == libc::SIG_IGN as u64 {
        default_action(libc::SIGCHLD);
    }
}

fn check(result: libc::c_int) -> Result<(), Errno> {
    match result {
        0 => Ok(()),
        error => Err(Errno::from_raw(error)),
    }
}
