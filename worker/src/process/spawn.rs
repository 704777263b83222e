//! The one audited place with `unsafe`: posix_spawn, pidfds, wait4 and close-on-exec, which have no safe wrapper with what
//! is needed here (a working directory, resource usage, raw environment blocks).
#![expect(
    unsafe_code,
    reason = "system calls without a safe wrapper; every use says why it is sound"
)]

use std::ffi::{CStr, CString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{ProcessExit, Usage};

/// What a child starts with. Invariant: none of the descriptors is 0, 1, 2 or `status_number`, so that no `dup2`
/// overwrites a source that a later one needs; [`super::command::Reserved`] sees to it.
pub(super) struct Launch<'a> {
    pub program: &'a CStr,
    pub argv: &'a [CString],
    /// `NAME=value` entries; the second list is appended to the first.
    pub environment: [&'a [CString]; 2],
    pub working_dir: &'a CStr,
    pub stdin: BorrowedFd<'a>,
    pub stdout: BorrowedFd<'a>,
    pub stderr: BorrowedFd<'a>,
    pub status: BorrowedFd<'a>,
    pub status_number: RawFd,
}

/// A running child that nobody else waits for.
pub(super) struct Child {
    pub pid: Pid,
    /// Readable once the child has exited.
    pub pidfd: OwnedFd,
}

/// What every child has in common: own process group, no blocked signal, every signal at its default.
pub(super) struct Attributes(libc::posix_spawnattr_t);

impl Attributes {
    pub(super) fn new() -> Result<Self, Errno> {
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
        let flags = libc::POSIX_SPAWN_SETPGROUP
            | libc::POSIX_SPAWN_SETSIGMASK
            | libc::POSIX_SPAWN_SETSIGDEF;
        let flags = libc::c_short::try_from(flags).expect("three low bits");
        // SAFETY: `this.0` is initialised, the signal sets live across the calls, which copy them.
        unsafe {
            check(libc::posix_spawnattr_setflags(&raw mut this.0, flags))?;
            check(libc::posix_spawnattr_setpgroup(&raw mut this.0, 0))?;
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
        let targets = [
            (launch.stdin, libc::STDIN_FILENO),
            (launch.stdout, libc::STDOUT_FILENO),
            (launch.stderr, libc::STDERR_FILENO),
            (launch.status, launch.status_number),
        ];
        for (source, target) in targets {
            // SAFETY: `this.0` is initialised; descriptors are plain numbers to this call.
            check(unsafe {
                libc::posix_spawn_file_actions_adddup2(&raw mut this.0, source.as_raw_fd(), target)
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

/// Starts a child. The error is that of the failing step in the child too (chdir, exec). The C library uses vfork semantics,
/// so that the size of this process does not matter.
pub(super) fn spawn(attributes: &Attributes, launch: &Launch<'_>) -> Result<Child, Errno> {
    let actions = Actions::new(launch)?;
    let argv: Vec<*mut libc::c_char> = launch
        .argv
        .iter()
        .map(|a| a.as_ptr().cast_mut())
        .chain([ptr::null_mut()])
        .collect();
    let environment: Vec<*mut libc::c_char> = launch
        .environment
        .iter()
        .copied()
        .flatten()
        .map(|e| e.as_ptr().cast_mut())
        .chain([ptr::null_mut()])
        .collect();
    let mut pid: libc::pid_t = 0;
    // SAFETY: all pointers are valid for the call: the program and every entry are NUL-terminated strings borrowed from
    // `launch`, both arrays end in a null pointer, actions and attributes are initialised. The strings are not written
    // to: the prototype's `*mut` is historical.
    check(unsafe {
        libc::posix_spawn(
            &raw mut pid,
            launch.program.as_ptr(),
            &raw const actions.0,
            &raw const attributes.0,
            argv.as_ptr(),
            environment.as_ptr(),
        )
    })?;
    let pid = Pid::from_raw(pid);
    // SAFETY: a system call on plain numbers. Nobody else waits for this child, so the pid still names it.
    let pidfd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid.as_raw(), 0) };
    if pidfd < 0 {
        let error = Errno::last();
        end_unwatched(pid);
        return Err(error);
    }
    let pidfd = RawFd::try_from(pidfd).expect("descriptors fit their type");
    // SAFETY: the kernel just gave us this descriptor (close-on-exec by definition), and nothing else owns it.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    Ok(Child { pid, pidfd })
}

/// Ends a child that cannot be watched, and waits for it: it has hardly begun.
pub(super) fn end_unwatched(pid: Pid) {
    // Both can only say that the child is already gone.
    let _ = kill(Pid::from_raw(-pid.as_raw()), Signal::SIGKILL);
    let _ = nix::sys::wait::waitpid(pid, None);
}

/// In which the kernel counts what goes to and from disks for `rusage`.
const BLOCK_BYTES: u64 = 512;

/// Collects an exited child; `None` while it runs.
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
        max_resident_bytes: u64::try_from(usage.ru_maxrss).unwrap_or(0) * 1024,
        read_bytes: u64::try_from(usage.ru_inblock).unwrap_or(0) * BLOCK_BYTES,
        written_bytes: u64::try_from(usage.ru_oublock).unwrap_or(0) * BLOCK_BYTES,
    };
    Some((exit, usage))
}

fn duration(time: libc::timeval) -> Duration {
    let micros = time.tv_sec * 1_000_000 + time.tv_usec;
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

/// Makes every descriptor from 3 on close on exec: whatever this process inherited must not leak into tasks. Our own are
/// opened so. On kernels without the call (before 5.11) inherited descriptors stay as they are.
pub(super) fn close_inherited_on_exec() -> io::Result<()> {
    // SAFETY: sets a flag on descriptors by number; no descriptor is closed.
    let result = unsafe {
        libc::syscall(
            libc::SYS_close_range,
            3_u32,
            u32::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        )
    };
    match result {
        0 => Ok(()),
        _ => match Errno::last() {
            Errno::ENOSYS | Errno::EINVAL => Ok(()),
            error => Err(error.into()),
        },
    }
}

/// A parent that ignores SIGCHLD passes that on, and the kernel would then throw our children's exit codes away.
pub(super) fn keep_children_waitable() {
    let mut current = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: a null new action only reads the present one, into memory that is valid for writes.
    let read = unsafe { libc::sigaction(libc::SIGCHLD, ptr::null(), current.as_mut_ptr()) };
    // SAFETY: zeroed is a valid value of this plain struct, and the kernel filled it in.
    let mut action = unsafe { current.assume_init() };
    if read == 0 && action.sa_sigaction == libc::SIG_IGN {
        action.sa_sigaction = libc::SIG_DFL;
        // SAFETY: the action is valid, and the default one runs no code of ours.
        unsafe { libc::sigaction(libc::SIGCHLD, &raw const action, ptr::null_mut()) };
    }
}

fn check(result: libc::c_int) -> Result<(), Errno> {
    match result {
        0 => Ok(()),
        error => Err(Errno::from_raw(error)),
    }
}
