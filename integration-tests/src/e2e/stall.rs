//! Resources that hang or fail for programs under test: standard error, a disk, its syncs, `/proc`, the resolver, a thread. Those that need
//! root say so.

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
/// An address on which no other program of this machine listens.
const RESOLVER: &str = "127.0.77.53";

/// A pipe as standard error, whose reader does not read.
#[derive(Debug)]
pub struct UnreadLog {
    reader: RefCell<Option<File>>,
    writer: File,
}

impl UnreadLog {
    /// # Panics
    /// If no pipe can be created.
    pub fn new() -> Self {
        let (reader, writer) = pipe2(OFlag::O_CLOEXEC).expect("a pipe");
        UnreadLog {
            reader: RefCell::new(Some(File::from(reader))),
            writer: File::from(writer),
        }
    }

    /// Returns standard error for a program; several programs may share it.
    ///
    /// # Panics
    /// If no descriptor is free.
    pub fn as_errors(&self) -> Stdio {
        Stdio::from(self.writer.try_clone().expect("a descriptor is free"))
    }

    /// Fills the pipe, so that it accepts no more bytes.
    ///
    /// # Panics
    /// If it cannot be opened again.
    pub fn fill(&self) {
        // Opened again, because the mode of a descriptor is shared with the programs that have it.
        let mut options = File::options();
        let options = options.write(true).custom_flags(OFlag::O_NONBLOCK.bits());
        let own = options.open(format!("/proc/self/fd/{}", self.writer.as_raw_fd()));
        let mut own = own.expect("one's own pipe can be opened");
        for size in [4096, 1] {
            while own.write(&vec![b'.'; size]).is_ok() {}
        }
    }

    /// Closes the reading end.
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
    /// Compiles the library in this folder. The C compiler is present, because SQLite needs it.
    ///
    /// # Panics
    /// If it does not compile.
    pub fn new(folder: &Path) -> Self {
        let library = compile(folder, "disk", HANGING);
        HangingDisk {
            library,
            switch: folder.join("disk-hangs"),
        }
    }

    /// Configures the program so that all its files below `folder` are on this disk.
    pub fn holds(&self, folder: &Path, command: &mut Command) {
        let variables: [(&str, &OsStr); 3] = [
            ("LD_PRELOAD", self.library.as_os_str()),
            ("STALL_BELOW", folder.as_os_str()),
            ("STALL_WHILE", self.switch.as_os_str()),
        ];
        command.envs(variables);
    }

    /// Makes every access hang until [`HangingDisk::recover`].
    ///
    /// # Panics
    /// If the temporary folder is gone.
    pub fn hang(&self) {
        fs::write(&self.switch, "").expect("a file in a temporary folder");
    }

    /// Lets hanging calls continue.
    pub fn recover(&self) {
        // The file exists only while the disk hangs.
        let _ = fs::remove_file(&self.switch);
    }
}

/// A disk of a fixed size, for programs under test, in a mount namespace that lasts as long as this value. Needs root.
#[derive(Debug)]
pub struct SmallDisk {
    /// The process that holds the namespace.
    holder: Child,
    folder: PathBuf,
}

impl SmallDisk {
    /// Mounts a disk of `kib` KiB on this folder, which it creates.
    ///
    /// # Errors
    /// If this process may not mount.
    ///
    /// # Panics
    /// If the folder cannot be created.
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

    /// Returns the command, which sees the disk at its path.
    pub fn command(&self, command: &Command) -> Command {
        let mut inside = Command::new("nsenter");
        let holder = self.holder.id().to_string();
        inside.args(["--mount", "--target", &holder]);
        copy_command(command, &mut inside);
        inside
    }

    /// Runs a shell script, in which `$0` is the disk.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn shell(&self, script: &str) -> Output {
        let mut command = Command::new("sh");
        command.args(["-c", script]).arg(&self.folder);
        self.command(&command).output().expect("nsenter is there")
    }

    /// Fills the disk to the last byte.
    ///
    /// # Panics
    /// If no file can be created on the disk.
    pub fn fill(&self) {
        let output = self.shell("cat /dev/zero >> \"$0/filler\"; test -s \"$0/filler\"");
        assert!(output.status.success(), "{output:?}");
    }

    /// Reverts [`SmallDisk::fill`].
    ///
    /// # Panics
    /// If the disk was not filled.
    pub fn free(&self) {
        let output = self.shell("rm \"$0/filler\"");
        assert!(output.status.success(), "{output:?}");
    }

    /// Creates a file on the disk.
    ///
    /// # Panics
    /// If it cannot be created.
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
        // The holder has ended if it could not mount.
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// A disk on which syncs of one program's files can be made to fail, by a library that the program preloads. The library records the
/// content that would survive a power failure.
#[derive(Debug)]
pub struct FailingDisk {
    library: PathBuf,
    /// The prefix of the paths of all files on this disk.
    files: PathBuf,
    /// Copies of the files with their synced content.
    images: PathBuf,
    switch: PathBuf,
}

impl FailingDisk {
    /// Compiles the library in `folder`. The files whose paths begin with `files` must not exist yet.
    ///
    /// # Panics
    /// If it does not compile.
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

    /// Configures the program to keep its files on this disk.
    pub fn holds(&self, command: &mut Command) {
        let variables: [(&str, &OsStr); 4] = [
            ("LD_PRELOAD", self.library.as_os_str()),
            ("SYNC_OF", self.files.as_os_str()),
            ("SYNC_IMAGES", self.images.as_os_str()),
            ("SYNC_FAILS", self.switch.as_os_str()),
        ];
        command.envs(variables);
    }

    /// Makes each later sync fail that has data to write to a file whose path ends with `end`.
    ///
    /// # Panics
    /// If the temporary folder is gone.
    pub fn fail_syncs_of(&self, end: &str) {
        fs::write(&self.switch, end).expect("a file in a temporary folder");
    }

    /// Lets syncs succeed again. The data of failed syncs stays lost.
    ///
    /// # Panics
    /// If syncs did not fail.
    pub fn repair(&self) {
        fs::remove_file(&self.switch).expect("syncs failed");
    }

    /// Returns the number of failed syncs of the file with this name.
    pub fn failures(&self, name: &str) -> usize {
        let failures = fs::read_to_string(self.images.join("failures")).unwrap_or_default();
        failures.lines().filter(|&line| line == name).count()
    }

    /// Resets each file to its synced content. The program must have ended.
    ///
    /// # Panics
    /// If a file cannot be written.
    pub fn lose_power(&self) {
        let folder = self.files.parent().expect("a file is in a folder");
        for file in fs::read_dir(folder).expect("the folder of the files") {
            let path = file.expect("a file of the folder").path();
            let image = self.images.join(path.file_name().expect("it has a name"));
            if image.exists() {
                fs::copy(&image, &path).expect("both are in temporary folders");
            }
        }
        // No data waits for a sync after a restart of the machine.
        for file in fs::read_dir(&self.images).expect("the folder of the images") {
            let path = file.expect("a file of the folder").path();
            if path.extension() == Some(OsStr::new("dirty")) {
                fs::remove_file(path).expect("a file in a temporary folder");
            }
        }
    }
}

/// Compiles a library to preload, and returns its path. The C compiler is present, because SQLite needs it.
///
/// # Panics
/// If it does not compile.
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

/// A resolver that receives every query and answers none. Needs root.
#[derive(Debug)]
pub struct SilentResolver {
    socket: UdpSocket,
    configuration: PathBuf,
}

impl SilentResolver {
    /// # Errors
    /// If this process may not listen on the port of resolvers.
    ///
    /// # Panics
    /// If the temporary folder is gone.
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

    /// Returns whether a query has arrived since the last call.
    pub fn was_asked(&self) -> bool {
        let mut asked = false;
        while self.socket.recv(&mut [0; 512]).is_ok() {
            asked = true;
        }
        asked
    }

    /// Returns the command in a mount namespace that uses this resolver.
    pub fn command(&self, command: &Command) -> Command {
        let script = r#"mount --bind "$0" /etc/resolv.conf && exec "$@""#;
        in_own_mounts(script, &self.configuration, command)
    }
}

/// Returns the command in a mount namespace in which `/proc` can be hidden. Needs root.
pub fn with_own_proc(command: &Command) -> Command {
    in_own_mounts(r#"exec "$@""#, Path::new("sh"), command)
}

/// Hides `/proc` in the namespace of such a program.
///
/// # Panics
/// If the mount fails.
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

/// Appends the command and its environment.
fn copy_command(command: &Command, inside: &mut Command) {
    inside.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            inside.env(name, value);
        }
    }
}

/// The threads of a process that have one name, stopped by `ptrace` while the other threads run. Dropping this value lets them continue.
#[derive(Debug)]
pub struct StoppedThreads {
    _release: Vec<Sender<()>>,
}

impl StoppedThreads {
    /// Stops the threads. An ordinary user may stop threads of descendants only.
    ///
    /// # Errors
    /// If the process has no such thread, or one cannot be stopped.
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

/// Returns whether a stopped thread is in a system call, where a stalled resource would block it. Elsewhere it may hold the allocator's
/// lock, which would block all threads of its program.
fn is_in_system_call(id: Pid) -> bool {
    let call = fs::read_to_string(format!("/proc/{id}/syscall")).unwrap_or_default();
    let number = call.split_whitespace().next();
    number.is_some_and(|number| number.parse::<i64>().is_ok_and(|number| number >= 0))
}

/// Keeps a thread stopped. A thread that dies is reaped here, because only then the kernel reports the end of its process.
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
