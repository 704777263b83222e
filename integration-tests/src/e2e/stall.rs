//! Resources that hang or fail, for programs under test: standard error, a disk, its syncs, `/proc`, the resolver, a thread. None needs
//! more than this process may do, except where it says so.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::net::UdpSocket;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::ptrace;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, pipe2};

const HANGING: &str = include_str!("stall/disk.c");
const FAILING: &str = include_str!("stall/sync.c");
/// No other program of this machine listens there.
const RESOLVER: &str = "127.0.77.53";

/// A pipe as standard error, whose reader reads nothing.
#[derive(Debug)]
pub struct UnreadLog {
    reader: RefCell<Option<File>>,
    writer: File,
}

impl UnreadLog {
    /// # Panics
    /// When there is no pipe.
    pub fn new() -> Self {
        let (reader, writer) = pipe2(OFlag::O_CLOEXEC).expect("a pipe");
        UnreadLog {
            reader: RefCell::new(Some(File::from(reader))),
            writer: File::from(writer),
        }
    }

    /// For a program; several may share it.
    ///
    /// # Panics
    /// When no descriptor is free.
    pub fn as_errors(&self) -> Stdio {
        Stdio::from(self.writer.try_clone().expect("a descriptor is free"))
    }

    /// From now on the pipe takes nothing.
    ///
    /// # Panics
    /// When it cannot be opened once more.
    pub fn fill(&self) {
        // Opened anew, since the mode of a descriptor is shared with the programs that have it.
        let mut options = File::options();
        let options = options.write(true).custom_flags(OFlag::O_NONBLOCK.bits());
        let own = options.open(format!("/proc/self/fd/{}", self.writer.as_raw_fd()));
        let mut own = own.expect("one's own pipe can be opened");
        for size in [4096, 1] {
            while own.write(&vec![b'.'; size]).is_ok() {}
        }
    }

    /// Nobody will ever read it.
    pub fn close(&self) {
        self.reader.replace(None);
    }
}

impl Default for UnreadLog {
    fn default() -> Self {
        Self::new()
    }
}

/// A disk that can be made to hang for programs, by a library that they preload.
#[derive(Debug)]
pub struct HangingDisk {
    library: PathBuf,
    switch: PathBuf,
}

impl HangingDisk {
    /// Compiles the library in this folder, for which the C compiler is there that SQLite needs.
    ///
    /// # Panics
    /// When it does not compile.
    pub fn new(folder: &Path) -> Self {
        let library = compile(folder, "disk", HANGING);
        HangingDisk {
            library,
            switch: folder.join("disk-hangs"),
        }
    }

    /// All that the program keeps below `folder` is on the disk.
    pub fn holds(&self, folder: &Path, command: &mut Command) {
        let variables: [(&str, &OsStr); 3] = [
            ("LD_PRELOAD", self.library.as_os_str()),
            ("STALL_BELOW", folder.as_os_str()),
            ("STALL_WHILE", self.switch.as_os_str()),
        ];
        command.envs(variables);
    }

    /// Lets every access hang until [`HangingDisk::recover`].
    ///
    /// # Panics
    /// When the temporary folder is gone.
    pub fn hang(&self) {
        fs::write(&self.switch, "").expect("a file in a temporary folder");
    }

    /// Calls that hang go on.
    pub fn recover(&self) {
        // A disk that does not hang has no such file.
        let _ = fs::remove_file(&self.switch);
    }
}

/// A disk of a fixed size, for programs under test, in a mount namespace that lasts as long as this value. It takes root.
#[derive(Debug)]
pub struct SmallDisk {
    /// A process that keeps the namespace.
    holder: Child,
    folder: PathBuf,
}

impl SmallDisk {
    /// Mounts a disk of so many KiB on this folder, which it creates.
    ///
    /// # Errors
    /// Where this process may not mount anything.
    ///
    /// # Panics
    /// When the folder cannot be created.
    pub fn new(folder: &Path, kib: u32) -> io::Result<Self> {
        fs::create_dir(folder).expect("a folder in a temporary folder");
        let script =
            r#"mount -t tmpfs -o "size=$1k,mode=700" none "$0" && echo mounted && exec cat"#;
        let mut holder = Command::new("unshare")
            .args(["--mount", "--propagation", "private", "sh", "-c", script])
            .arg(folder)
            .arg(kib.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut first = [0; 1];
        let mounted = holder.stdout.as_mut().map(|out| out.read(&mut first));
        let disk = SmallDisk {
            holder,
            folder: folder.to_owned(),
        };
        match mounted {
            Some(Ok(1)) => Ok(disk),
            _ => Err(io::Error::other("it cannot be mounted")),
        }
    }

    /// The command, with the disk in its place.
    pub fn command(&self, command: &Command) -> Command {
        let mut inside = Command::new("nsenter");
        let holder = self.holder.id().to_string();
        inside.args(["--mount", "--target", &holder]);
        copy_command(command, &mut inside);
        inside
    }

    /// Runs a script of the shell, to which `$0` is the disk.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn shell(&self, script: &str) -> Output {
        let mut command = Command::new("sh");
        command.args(["-c", script]).arg(&self.folder);
        self.command(&command).output().expect("nsenter is there")
    }

    /// Leaves no byte free.
    ///
    /// # Panics
    /// When the disk takes no file.
    pub fn fill(&self) {
        let output = self.shell("cat /dev/zero >> \"$0/filler\"; test -s \"$0/filler\"");
        assert!(output.status.success(), "{output:?}");
    }

    /// Takes back [`SmallDisk::fill`].
    ///
    /// # Panics
    /// When it was not called.
    pub fn free(&self) {
        let output = self.shell("rm \"$0/filler\"");
        assert!(output.status.success(), "{output:?}");
    }

    /// A new file on it.
    ///
    /// # Panics
    /// When it cannot be created.
    pub fn file(&self, name: &str) -> File {
        let root = PathBuf::from(format!("/proc/{}/root", self.holder.id()));
        let below = self.folder.strip_prefix("/").expect("an absolute path");
        let mut options = File::options();
        let file = options
            .create(true)
            .append(true)
            .open(root.join(below).join(name));
        file.expect("a file on the disk")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // It has ended if it could not mount anything.
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// A disk on which syncs of one program's files can be made to fail, by a library that the program preloads. It knows what a power
/// failure would leave of the files.
#[derive(Debug)]
pub struct FailingDisk {
    library: PathBuf,
    /// Each file whose path begins so is on the disk.
    files: PathBuf,
    /// Copies of the files as the disk has them.
    images: PathBuf,
    switch: PathBuf,
}

impl FailingDisk {
    /// Compiles the library in `folder`. The files whose paths begin with `files` must not exist yet.
    ///
    /// # Panics
    /// When it does not compile.
    pub fn new(folder: &Path, files: &Path) -> Self {
        let library = compile(folder, "sync", FAILING);
        let images = folder.join("images");
        fs::create_dir(&images).expect("a folder in a temporary folder");
        FailingDisk {
            library,
            files: files.to_owned(),
            images,
            switch: folder.join("syncs-fail"),
        }
    }

    /// The program keeps its files on the disk.
    pub fn holds(&self, command: &mut Command) {
        let variables: [(&str, &OsStr); 4] = [
            ("LD_PRELOAD", self.library.as_os_str()),
            ("SYNC_OF", self.files.as_os_str()),
            ("SYNC_IMAGES", self.images.as_os_str()),
            ("SYNC_FAILS", self.switch.as_os_str()),
        ];
        command.envs(variables);
    }

    /// From now on each sync fails that has something to write to a file whose path ends so.
    ///
    /// # Panics
    /// When the temporary folder is gone.
    pub fn fail_syncs_of(&self, end: &str) {
        fs::write(&self.switch, end).expect("a file in a temporary folder");
    }

    /// Syncs succeed again. What failed syncs have lost stays lost.
    ///
    /// # Panics
    /// When they did not fail.
    pub fn repair(&self) {
        fs::remove_file(&self.switch).expect("syncs failed");
    }

    /// How many syncs of the file with this name have failed.
    pub fn failures(&self, name: &str) -> usize {
        let failures = fs::read_to_string(self.images.join("failures")).unwrap_or_default();
        failures.lines().filter(|&line| line == name).count()
    }

    /// Leaves of each file what has reached the disk. The program must have ended.
    ///
    /// # Panics
    /// When a file cannot be written.
    pub fn lose_power(&self) {
        let folder = self.files.parent().expect("a file is in a folder");
        for file in fs::read_dir(folder).expect("the folder of the files") {
            let path = file.expect("a file of the folder").path();
            let image = self.images.join(path.file_name().expect("it has a name"));
            if image.exists() {
                fs::copy(&image, &path).expect("both are in temporary folders");
            }
        }
        // Nothing waits for a sync in the memory of a machine that starts.
        for file in fs::read_dir(&self.images).expect("the folder of the images") {
            let path = file.expect("a file of the folder").path();
            if path.extension() == Some(OsStr::new("dirty")) {
                fs::remove_file(path).expect("a file in a temporary folder");
            }
        }
    }
}

/// Compiles a library to preload, for which the C compiler is there that SQLite needs. Returns its path.
///
/// # Panics
/// When it does not compile.
fn compile(folder: &Path, name: &str, text: &str) -> PathBuf {
    fs::create_dir_all(folder).expect("a folder in a temporary folder");
    let source = folder.join(format!("{name}.c"));
    let library = folder.join(format!("{name}.so"));
    fs::write(&source, text).expect("a file in a temporary folder");
    let mut compile = Command::new("cc");
    compile
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .arg(&library);
    let output = compile.arg(&source).arg("-ldl").output();
    let output = output.expect("there is a C compiler");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    library
}

/// A resolver that hears every question and answers none. It takes root.
#[derive(Debug)]
pub struct SilentResolver {
    socket: UdpSocket,
    configuration: PathBuf,
}

impl SilentResolver {
    /// # Errors
    /// Where this process may not listen on the port of resolvers.
    ///
    /// # Panics
    /// When the temporary folder is gone.
    pub fn new(folder: &Path) -> io::Result<Self> {
        let socket = UdpSocket::bind((RESOLVER, 53))?;
        socket.set_nonblocking(true)?;
        let configuration = folder.join("resolv.conf");
        let text = format!("nameserver {RESOLVER}\noptions timeout:30 attempts:5\n");
        fs::write(&configuration, text).expect("a file in a temporary folder");
        Ok(SilentResolver {
            socket,
            configuration,
        })
    }

    /// Whether somebody has asked since the last look.
    pub fn was_asked(&self) -> bool {
        let mut asked = false;
        while self.socket.recv(&mut [0; 512]).is_ok() {
            asked = true;
        }
        asked
    }

    /// The command, in a mount namespace in which this is the resolver.
    pub fn command(&self, command: &Command) -> Command {
        let script = r#"mount --bind "$0" /etc/resolv.conf && exec "$@""#;
        in_own_mounts(script, &self.configuration, command)
    }
}

/// The command, in a mount namespace in which `/proc` can be hidden. It takes root.
pub fn with_own_proc(command: &Command) -> Command {
    in_own_mounts(r#"exec "$@""#, Path::new("sh"), command)
}

/// Hides `/proc` of the namespace of such a program.
///
/// # Panics
/// When it cannot be done.
pub fn hide_proc(program: Pid) {
    let status = Command::new("nsenter")
        .args(["--mount", "--target", &program.to_string()])
        .args(["mount", "-t", "tmpfs", "empty", "/proc"])
        .status();
    assert!(status.expect("nsenter is there").success());
}

fn in_own_mounts(script: &str, zero: &Path, command: &Command) -> Command {
    let mut inside = Command::new("unshare");
    inside.args(["--mount", "sh", "-c", script]).arg(zero);
    copy_command(command, &mut inside);
    inside
}

/// Appends the command, and takes over its environment.
fn copy_command(command: &Command, inside: &mut Command) {
    inside.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            inside.env(name, value);
        }
    }
}

/// The threads of a process that have one name, stopped by `ptrace` while the other threads run. They go on when this is dropped.
#[derive(Debug)]
pub struct StoppedThreads {
    _release: Vec<Sender<()>>,
}

impl StoppedThreads {
    /// Stops them. An ordinary user may do so to descendants only.
    ///
    /// # Errors
    /// The process has no such thread, or one cannot be stopped.
    pub fn new(process: Pid, name: &str) -> io::Result<Self> {
        let mut stopped = Vec::new();
        for entry in fs::read_dir(format!("/proc/{process}/task"))? {
            let entry = entry?;
            // The thread may have ended.
            let Ok(comm) = fs::read_to_string(entry.path().join("comm")) else {
                continue;
            };
            if comm.trim_end() == name {
                let id = entry.file_name().to_string_lossy().parse();
                stopped.push(stop_thread(Pid::from_raw(id.map_err(io::Error::other)?))?);
            }
        }
        match stopped.is_empty() {
            true => Err(io::Error::other(format!("no thread is called `{name}`"))),
            false => Ok(StoppedThreads { _release: stopped }),
        }
    }
}

/// Stops a thread until the sender is dropped or the thread dies. One thread makes all calls, because the kernel knows a tracer by its
/// thread.
fn stop_thread(id: Pid) -> io::Result<Sender<()>> {
    let (release, released) = channel();
    let (stopped, is_stopped) = channel();
    thread::spawn(move || {
        let stop = || -> nix::Result<()> {
            ptrace::seize(id, ptrace::Options::empty())?;
            loop {
                ptrace::interrupt(id)?;
                waitpid(id, Some(WaitPidFlag::__WALL))?;
                if is_in_system_call(id) {
                    return Ok(());
                }
                ptrace::cont(id, None)?;
                thread::yield_now();
            }
        };
        let result = stop();
        let has_stopped = result.is_ok();
        // The caller waits for the answer.
        let _ = stopped.send(result);
        if has_stopped {
            hold(id, &released);
        }
    });
    let stopped = is_stopped.recv().map_err(io::Error::other)?;
    stopped.map_err(io::Error::from)?;
    Ok(release)
}

/// Returns whether a stopped thread is in a system call, where each stall of a resource holds it up. Elsewhere it may have the lock of the
/// allocator, without which no thread of its program goes on.
fn is_in_system_call(id: Pid) -> bool {
    let call = fs::read_to_string(format!("/proc/{id}/syscall")).unwrap_or_default();
    let number = call.split_whitespace().next();
    number.is_some_and(|number| number.parse::<i64>().is_ok_and(|number| number >= 0))
}

/// Keeps a stopped thread so. A thread that dies is collected here, because the kernel reports its process as ended only then.
fn hold(id: Pid, released: &Receiver<()>) {
    let flags = WaitPidFlag::__WALL | WaitPidFlag::WNOHANG;
    loop {
        if released.recv_timeout(Duration::from_millis(10)) == Err(RecvTimeoutError::Disconnected) {
            // The thread may have died just now.
            let _ = ptrace::detach(id, None);
            return;
        }
        match waitpid(id, Some(flags)) {
            Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..)) | Err(Errno::ECHILD) => return,
            _ => {}
        }
    }
}
