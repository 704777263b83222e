//! Resources that hang, for programs under test: standard error, a disk, `/proc`, the resolver. None needs more than this process may
//! do, except where it says so.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::net::UdpSocket;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::fcntl::OFlag;
use nix::unistd::{Pid, pipe2};

const PRELOADED: &str = include_str!("stall/disk.c");
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
        fs::create_dir_all(folder).expect("a folder in a temporary folder");
        let (source, library) = (folder.join("disk.c"), folder.join("disk.so"));
        fs::write(&source, PRELOADED).expect("a file in a temporary folder");
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

    /// From now on, and for ever.
    ///
    /// # Panics
    /// When the temporary folder is gone.
    pub fn hang(&self) {
        fs::write(&self.switch, "").expect("a file in a temporary folder");
    }
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
    inside.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            inside.env(name, value);
        }
    }
    inside
}
