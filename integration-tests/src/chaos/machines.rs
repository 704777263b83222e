//! The programs of one run, each with its own host, disk, clock and log pipe. Injects disturbances into them.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, PermissionsExt, chown};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::ChaosSettings;
use super::log_pipe::LogPipe;
use super::plan::{Program, StorePart, Target};
use crate::e2e::{FAST_SCHEDULER, FAST_WORKER, Host, Network, Process, Stage, python};

/// Large enough for a store, its log and the output of the tasks, but quickly filled.
const DISK: &str = "size=24m,mode=0755";
/// The store's file in a scheduler's directory.
const DATABASE: &str = "state.sqlite3";
/// The user of programs that do not run as root.
const NOBODY: u32 = 65_534;
/// Pause before an ended program is restarted, as in service managers.
const RESTART_PAUSE: Duration = Duration::from_millis(500);
const SCHEDULER_PORT: u16 = 6_000;
const WORKER_PORT: u16 = 6_001;
const CALL_TIMEOUTS: [&str; 3] = [
    "--thrift-connect-timeout=1s",
    "--thrift-send-timeout=1s",
    "--thrift-receive-timeout=1s",
];
/// Exit code of a worker that refuses to start, for example because it cannot tell whether processes are left over from a former worker.
const REFUSED_START: i32 = 3;
/// The text before the list of processes in the message of such a worker.
const UNCERTAIN: &str = "may be tasks of the last worker that used this directory, which was killed together with its keeper:";
const UNCERTAIN_END: &str = ". Their session has the number";
/// Shell script that redirects standard error to the pipe in its first argument, and executes the rest.
const WITH_PIPE: &str = r#"exec 2> "$0" "$@""#;

/// A program with its resources and state.
struct ChaosMachine {
    program: Program,
    host: Host,
    /// The mount point of its disk; the data directory is below.
    place: PathBuf,
    /// A second mount point of the disk, which stays when the first is unmounted.
    disk: PathBuf,
    clock: File,
    log: LogPipe,
    process: Option<Process>,
    ended: Instant,
    /// Exits by itself since the operator last acted.
    refusals: u32,
    started: Instant,
    /// Bytes of the log when the program was started.
    log_start: u64,
    /// Processes that were dead when the worker named them as uncertain left-overs. They may have ended after it looked.
    named_dead: HashSet<Pid>,
}

/// All programs of a run.
pub(super) struct ChaosMachines {
    // Declared first, so that programs end before their network is removed.
    machines: Vec<ChaosMachine>,
    network: Network,
    shim: PathBuf,
    settings: ChaosSettings,
    config: PathBuf,
    started_once: bool,
    /// The furthest that the scheduler's clock was ahead, in seconds.
    ahead: i64,
    /// Exits that no disturbance explains.
    pub(super) crashes: Vec<String>,
    /// How often the operator killed processes of which a worker could not tell whether they were tasks.
    pub(super) uncertain_ended: usize,
}

impl ChaosMachines {
    /// Creates hosts and disks. Starts no program yet.
    pub(super) fn new(
        stage: &Stage,
        config: &Path,
        settings: ChaosSettings,
    ) -> Result<Self, String> {
        let network =
            Network::new(1 + settings.workers, settings.seed).map_err(|error| error.to_string())?;
        let shim = compile_shim(stage)?;
        let mut machines = Vec::new();
        let workers = (0..settings.workers).map(Program::Worker);
        for program in std::iter::once(Program::Scheduler).chain(workers) {
            machines.push(ChaosMachine::new(stage, &network, program, settings)?);
        }
        Ok(ChaosMachines {
            machines,
            network,
            shim,
            settings,
            config: config.to_owned(),
            started_once: false,
            ahead: 0,
            crashes: Vec::new(),
            uncertain_ended: 0,
        })
    }

    pub(super) fn scheduler_address(&self) -> String {
        format!(
            "{}:{SCHEDULER_PORT}",
            self.network.address(self.machines[0].host)
        )
    }

    /// Returns a command for the scheduler's host.
    pub(super) fn on_scheduler_host(&self, command: &Command) -> Command {
        self.network.command_on(self.machines[0].host, command)
    }

    /// Starts every program that is stopped, has rested, and has its disk, like a unit with `RequiresMountsFor=`. Notes the exits of
    /// programs that ended.
    pub(super) fn tend(&mut self, stage: &Stage) {
        for number in 0..self.machines.len() {
            self.note_end(number);
            let machine = &self.machines[number];
            let has_rested = machine.ended.elapsed() >= RESTART_PAUSE;
            if machine.process.is_none() && has_rested && machine.is_mounted() {
                self.start(stage, number);
            }
        }
    }

    fn note_end(&mut self, number: usize) {
        let machine = &mut self.machines[number];
        let Some(status) = machine.process.as_mut().and_then(Process::ended) else {
            return;
        };
        if is_crash(status) {
            self.crashes
                .push(format!("{} ended with {status}", machine.program));
        }
        if status.code() == Some(REFUSED_START) {
            let log = fs::read(machine.log.text_path()).unwrap_or_default();
            let since = usize::try_from(machine.log_start).unwrap_or(0);
            let text = String::from_utf8_lossy(log.get(since..).unwrap_or_default());
            let (ended, dead) = end_all(uncertain(&text));
            self.uncertain_ended += usize::from(ended);
            for pid in dead {
                if !machine.named_dead.insert(pid) {
                    let program = machine.program;
                    let text = format!("{program} does not start because of {pid}, which is dead");
                    self.crashes.push(text);
                }
            }
        }
        machine.process = None;
        machine.ended = Instant::now();
        if machine.started.elapsed() < RESTART_PAUSE * 4 && status.signal().is_none() {
            machine.refusals += 1;
        }
    }

    fn start(&mut self, stage: &Stage, number: usize) {
        let program = self.machines[number].program;
        let inner = match program {
            Program::Scheduler => self.scheduler_command(stage),
            Program::Worker(worker) => self.worker_command(stage, worker),
        };
        let machine = &mut self.machines[number];
        let file = PathBuf::from(inner.get_program());
        // If the pipe were closed, the shell of the new program would wait for a reader.
        machine.log.heal();
        machine.log_start = fs::metadata(machine.log.text_path()).map_or(0, |file| file.len());
        let mut command = Command::new("sh");
        command.args(["-c", WITH_PIPE]).arg(machine.log.path());
        if self.settings.as_user {
            let id = NOBODY.to_string();
            command.args([
                "setpriv",
                "--reuid",
                &id,
                "--regid",
                &id,
                "--clear-groups",
                "--",
            ]);
        }
        command.arg(inner.get_program()).args(inner.get_args());
        for (name, value) in inner.get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        command.env("LD_PRELOAD", &self.shim);
        command.env("CHAOS_CLOCK", machine.place.with_extension("clock"));
        let inside = self.network.command_on(machine.host, &command);
        let process = stage.start_through(&name_of(program), inside, &file);
        machine.process = Some(process);
        machine.started = Instant::now();
        self.started_once |= program == Program::Scheduler;
    }

    fn scheduler_command(&self, stage: &Stage) -> Command {
        let machine = &self.machines[0];
        let mut command = stage.scheduler_program();
        command
            .arg("--config")
            .arg(&self.config)
            .arg("--data-dir")
            .arg(machine.data_dir())
            .args(["--listen", &self.scheduler_address()])
            .args(["--http-listen", "127.0.0.1:6002"])
            .arg("--insecure-network")
            .args(FAST_SCHEDULER)
            .args(CALL_TIMEOUTS);
        if !self.started_once {
            command.arg("--new-cluster");
        }
        command
    }

    fn worker_command(&self, stage: &Stage, worker: usize) -> Command {
        let machine = &self.machines[1 + worker];
        let mut command = stage.worker_program();
        command
            .args(["--scheduler", &self.scheduler_address()])
            .args(["--shard", &format!("w{worker}")])
            .arg("--data-dir")
            .arg(machine.data_dir())
            .arg(format!(
                "--listen={}:{WORKER_PORT}",
                self.network.address(machine.host)
            ))
            .arg("--insecure-network")
            .args(FAST_WORKER)
            .args(CALL_TIMEOUTS);
        if let Some(contain) = self.settings.contain {
            command.arg(format!("--contain={}", contain.flag()));
        }
        command
    }

    fn machine(&mut self, program: Program) -> &mut ChaosMachine {
        match program {
            Program::Scheduler => &mut self.machines[0],
            Program::Worker(number) => &mut self.machines[1 + number],
        }
    }

    /// Sends a signal to all targets in immediate succession. Skips programs that do not run.
    pub(super) fn signal(&mut self, targets: &[Target], signal: Signal) {
        let pids: Vec<Pid> = targets
            .iter()
            .filter_map(|target| self.pid(*target))
            .collect();
        for pid in pids {
            // The process may have ended by itself.
            let _ = kill(pid, signal);
        }
    }

    fn pid(&mut self, target: Target) -> Option<Pid> {
        let (program, is_keeper) = match target {
            Target::Program(program) => (program, false),
            Target::Keeper(number) => (Program::Worker(number), true),
        };
        let process = self.machine(program).process.as_mut()?;
        if process.ended().is_some() {
            return None;
        }
        match is_keeper {
            true => Some(process.id()),
            false => process.program_now(),
        }
    }

    pub(super) fn log(&mut self, program: Program) -> &LogPipe {
        &self.machine(program).log
    }

    /// Fills the disk to the last byte.
    pub(super) fn fill_disk(&mut self, program: Program) -> Result<(), String> {
        let machine = self.machine(program);
        let file = File::create(machine.disk.join("filler")).map_err(|e| e.to_string())?;
        let block = vec![1; 64 * 1024];
        let mut at = 0;
        for size in [block.len(), 512, 1] {
            loop {
                match file.write_at(&block[..size], at) {
                    Ok(0) => break,
                    Ok(count) => at += count as u64,
                    Err(error) if error.kind() == io::ErrorKind::StorageFull => break,
                    Err(error) => return Err(format!("cannot fill a disk: {error}")),
                }
            }
        }
        Ok(())
    }

    pub(super) fn free_disk(&mut self, program: Program) {
        // The file is missing if the disk could not even create it.
        let _ = fs::remove_file(self.machine(program).disk.join("filler"));
    }

    pub(super) fn unmount(&mut self, program: Program) {
        // A second call meanwhile finds nothing to unmount.
        let _ = umount2(&self.machine(program).place, MntFlags::MNT_DETACH);
    }

    pub(super) fn remount(&mut self, program: Program) -> Result<(), String> {
        let machine = self.machine(program);
        if machine.is_mounted() {
            return Ok(());
        }
        machine
            .bind()
            .map_err(|error| format!("cannot mount a disk again: {error}"))
    }

    pub(super) fn delete_store(&mut self, part: StorePart) {
        let data_dir = self.machines[0].data_dir();
        // The part may not exist yet, or its disk may be unmounted.
        let _ = match part {
            StorePart::Directory => fs::remove_dir_all(&data_dir),
            StorePart::Database => fs::remove_file(data_dir.join(DATABASE)),
            StorePart::WriteAheadLog => fs::remove_file(data_dir.join(format!("{DATABASE}-wal"))),
        };
    }

    pub(super) fn truncate_store(&mut self) {
        let database = self.machines[0].data_dir().join(DATABASE);
        // The file is missing if its disk is unmounted.
        let _ = File::options()
            .write(true)
            .open(database)
            .and_then(|file| file.set_len(0));
    }

    /// Returns how often the scheduler has exited by itself soon after its start.
    pub(super) fn scheduler_refusals(&self) -> u32 {
        self.machines[0].refusals
    }

    /// Acts as an operator whose store is lost. The clock is set to the furthest earlier time, because fences are now derived from it. The
    /// directory is moved away, so that the next start finds none.
    pub(super) fn start_over(&mut self) -> io::Result<()> {
        self.jump_clock(Program::Scheduler, self.ahead)?;
        self.signal(&[Target::Program(Program::Scheduler)], Signal::SIGKILL);
        let data_dir = self.machines[0].data_dir();
        let aside = data_dir.with_extension("lost");
        // The directory may be deleted already.
        let _ = fs::rename(&data_dir, aside);
        self.machines[0].refusals = 0;
        Ok(())
    }

    pub(super) fn set_one_way(&self, from: Program, to: Program, link: &crate::e2e::LinkEffect) {
        let host = |program| match program {
            Program::Scheduler => self.machines[0].host,
            Program::Worker(number) => self.machines[1 + number].host,
        };
        self.network.set_one_way(host(from), host(to), link);
    }

    /// Opens silent connections to a program. They last as long as the child process.
    pub(super) fn connect_silently(
        &mut self,
        program: Program,
        count: usize,
    ) -> io::Result<Command> {
        const SCRIPT: &str = "import socket, sys, time\n\
            host, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])\n\
            held = []\n\
            while True:\n\
            \x20   try:\n\
            \x20       if len(held) < count: held.append(socket.create_connection((host, port), 1))\n\
            \x20       else: time.sleep(0.05)\n\
            \x20   except OSError: time.sleep(0.05)\n";
        let machine = self.machine(program);
        let (host, port) = match program {
            Program::Scheduler => (machine.host, SCHEDULER_PORT),
            Program::Worker(_) => (machine.host, WORKER_PORT),
        };
        let mut command = Command::new(python());
        command.args(["-I", "-c", SCRIPT, &self.network.address(host).to_string()]);
        command.args([port.to_string(), count.to_string()]);
        let mut inside = self.network.command_on(host, &command);
        inside
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Ok(inside)
    }

    pub(super) fn jump_clock(&mut self, program: Program, seconds: i64) -> io::Result<()> {
        if program == Program::Scheduler {
            self.ahead = self.ahead.max(seconds);
        }
        self.machine(program)
            .clock
            .write_all_at(&seconds.to_ne_bytes(), 0)
    }

    /// Ends every disturbance that may still last.
    pub(super) fn heal(&mut self) -> Result<(), String> {
        let programs: Vec<Program> = self
            .machines
            .iter()
            .map(|machine| machine.program)
            .collect();
        for &program in &programs {
            self.remount(program)?;
            self.free_disk(program);
            self.machine(program).log.heal();
            let mut targets = vec![Target::Program(program)];
            if let Program::Worker(number) = program {
                targets.push(Target::Keeper(number));
                self.set_one_way(Program::Scheduler, program, &crate::e2e::LinkEffect::GOOD);
                self.set_one_way(program, Program::Scheduler, &crate::e2e::LinkEffect::GOOD);
            }
            self.signal(&targets, Signal::SIGCONT);
        }
        Ok(())
    }
}

impl ChaosMachine {
    fn new(
        stage: &Stage,
        network: &Network,
        program: Program,
        settings: ChaosSettings,
    ) -> Result<Self, String> {
        let number = match program {
            Program::Scheduler => 0,
            Program::Worker(worker) => 1 + worker,
        };
        let name = name_of(program);
        let text = |error: io::Error| format!("cannot prepare {program}: {error}");
        let (place, disk) = (stage.path(&name), stage.path(&format!("{name}.disk")));
        fs::create_dir(&place).map_err(text)?;
        fs::create_dir(&disk).map_err(text)?;
        mount(
            Some("tmpfs"),
            &disk,
            Some("tmpfs"),
            MsFlags::empty(),
            Some(DISK),
        )
        .map_err(|error| format!("cannot mount a disk of its own for {program}: {error}"))?;
        if settings.as_user {
            chown(&disk, Some(NOBODY), Some(NOBODY)).map_err(text)?;
        }
        let clock_path = place.with_extension("clock");
        fs::write(&clock_path, 0_i64.to_ne_bytes()).map_err(text)?;
        fs::set_permissions(&clock_path, fs::Permissions::from_mode(0o644)).map_err(text)?;
        let clock = File::options()
            .write(true)
            .open(&clock_path)
            .map_err(text)?;
        let machine = ChaosMachine {
            program,
            host: network.host(number),
            place,
            disk,
            clock,
            log: LogPipe::new(&stage.path("logs"), &name).map_err(text)?,
            process: None,
            ended: Instant::now(),
            refusals: 0,
            started: Instant::now(),
            log_start: 0,
            named_dead: HashSet::new(),
        };
        machine.bind().map_err(text)?;
        Ok(machine)
    }

    fn data_dir(&self) -> PathBuf {
        self.place.join("data")
    }

    fn bind(&self) -> io::Result<()> {
        let none: Option<&str> = None;
        mount(Some(&self.disk), &self.place, none, MsFlags::MS_BIND, none).map_err(io::Error::from)
    }

    /// Returns whether the disk is mounted at its place. Then both paths are the same directory.
    fn is_mounted(&self) -> bool {
        use std::os::unix::fs::MetadataExt;
        let identity = |path| fs::metadata(path).map(|data| (data.dev(), data.ino())).ok();
        identity(&self.place) == identity(&self.disk)
    }
}

impl Drop for ChaosMachine {
    fn drop(&mut self) {
        self.process = None;
        // A stage with mounted disks cannot be removed. The mount namespace ends with this process.
        let _ = umount2(&self.place, MntFlags::MNT_DETACH);
        let _ = umount2(&self.disk, MntFlags::MNT_DETACH);
    }
}

fn name_of(program: Program) -> String {
    match program {
        Program::Scheduler => "scheduler".to_owned(),
        Program::Worker(number) => format!("worker-{number}"),
    }
}

/// Returns the processes that a worker names because it cannot tell whether they are tasks of its predecessor.
fn uncertain(log: &str) -> Vec<Pid> {
    let rest = log.rsplit_once(UNCERTAIN).map_or("", |(_, rest)| rest);
    let list = rest.split_once(UNCERTAIN_END).map_or("", |(list, _)| list);
    let number = |name: &str| name.split_once(" (")?.0.trim().parse().ok();
    let numbers = list.split(',').filter_map(number);
    numbers.map(Pid::from_raw).collect()
}

/// Kills these processes, as the worker's message asks an operator to. Returns whether one was alive, and those that were not.
fn end_all(pids: Vec<Pid>) -> (bool, Vec<Pid>) {
    let (alive, dead): (Vec<Pid>, Vec<Pid>) = pids.into_iter().partition(|pid| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        !stat.is_empty() && !stat.contains(") Z ")
    });
    for pid in &alive {
        // The process may have ended by itself.
        let _ = kill(*pid, Signal::SIGKILL);
    }
    (!alive.is_empty(), dead)
}

/// Returns whether the program died of its own signal, directly or as its keeper reports it, or panicked.
fn is_crash(status: ExitStatus) -> bool {
    const OWN: [Signal; 4] = [
        Signal::SIGABRT,
        Signal::SIGBUS,
        Signal::SIGSEGV,
        Signal::SIGILL,
    ];
    const PANIC: i32 = 101;
    OWN.iter().any(|&signal| {
        status.signal() == Some(signal as i32) || status.code() == Some(128 + signal as i32)
    }) || status.code() == Some(PANIC)
}

fn compile_shim(stage: &Stage) -> Result<PathBuf, String> {
    let source = stage.write("clock_shim.c", include_str!("clock_shim.c"));
    let library = stage.path("clock_shim.so");
    let mut command = Command::new("cc");
    command
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .arg(&library)
        .arg(source)
        .arg("-ldl");
    let output = command
        .output()
        .map_err(|error| format!("cannot run cc: {error}"))?;
    match output.status.success() {
        true => Ok(library),
        false => Err(format!("cc: {}", String::from_utf8_lossy(&output.stderr))),
    }
}

#[cfg(test)]
mod tests {
    use brasserie_worker::directory::LeftoverError;

    use super::*;

    #[test]
    fn the_operator_ends_the_processes_that_a_worker_names_as_uncertain() {
        let mut child = Command::new("sleep").arg("1000").spawn().expect("started");
        let pid = Pid::from_raw(i32::try_from(child.id()).expect("an id"));
        let named = vec![format!("{pid} (sleep)"), "2147483647 (sh)".to_owned()];
        let file = PathBuf::from("groups");
        let message = LeftoverError::Unclear { named, file }.to_string();
        let log = format!("INFO begins\nERROR {message}\n");
        let gone = Pid::from_raw(i32::MAX);
        assert_eq!(uncertain(&log), [pid, gone]);
        assert_eq!(end_all(uncertain(&log)), (true, vec![gone]));
        let status = child.wait().expect("waited");
        assert_eq!(status.signal(), Some(Signal::SIGKILL as i32));
        assert_eq!(uncertain("INFO begins\n"), []);
    }
}
