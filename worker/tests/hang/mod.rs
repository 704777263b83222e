//! A file that makes a process hang in the kernel (state D): no signal ends the process, and it holds the lock of its memory.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use nix::mount::{MntFlags, umount2};
use nix::unistd::Pid;

const SERVE: &str = include_str!("serve.py");
/// A program that names itself `hangs`, prints its process id, and hangs in `mmap` of the file in its argument.
const HANG: &str = "import mmap, os, sys
open('/proc/self/comm', 'w').write('hangs')
print(os.getpid(), flush=True)
mmap.mmap(os.open(sys.argv[1], os.O_RDONLY), 4096, mmap.MAP_PRIVATE, mmap.PROT_READ)";

/// The file, in a file system that this process mounts. Dropping it lets every process continue.
pub struct HangingFile {
    server: Child,
    folder: tempfile::TempDir,
}

impl HangingFile {
    /// Mounts it. `None` on a machine that does not let this process mount a FUSE file system.
    pub fn mount() -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let mut server = Command::new("python3");
        let server = server.args(["-I", "-c", SERVE]).arg(folder.path());
        let server = server.stdout(Stdio::piped()).spawn().expect("python3");
        let mut file = HangingFile { server, folder };
        let output = file.server.stdout.take().expect("piped");
        match BufReader::new(output).lines().next() {
            Some(line) => assert_eq!(line.expect("readable"), "hangs"),
            None => {
                eprintln!("unproven here: no FUSE file system");
                return None;
            }
        }
        Some(file)
    }

    /// Returns the command line of a program that hangs.
    pub fn command(&self) -> Vec<String> {
        let file: PathBuf = self.folder.path().join("f");
        let file = file.to_str().expect("a path of letters");
        ["python3", "-I", "-c", HANG, file]
            .map(str::to_owned)
            .to_vec()
    }
}

/// Waits until a program with that command line hangs.
pub fn until_it_hangs(pid: Pid) {
    let stat = || std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it lives");
    while !stat().contains("(hangs) D ") {
        std::thread::yield_now();
    }
}

impl Drop for HangingFile {
    fn drop(&mut self) {
        // The server has already ended if the machine refuses such a file system.
        let _ = self.server.kill();
        let _ = self.server.wait();
        let _ = umount2(self.folder.path(), MntFlags::MNT_DETACH);
    }
}
