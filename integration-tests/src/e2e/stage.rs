//! The temporary folder of one test: configs, data directories and logs. Starts programs on them.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use brasserie_common::Timeouts;
use brasserie_scheduler::store::MARKER_FILE;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::records::{RunRecords, WORK_SCRIPT};
use super::{
    Host, LossTime, Network, PATIENCE, Process, Program, Programs, free_port, wait_within,
};

/// Scheduler flags with every timeout of the worker protocol at its minimum.
pub const FAST_SCHEDULER: &[&str] = &[
    "--heartbeat-grace-period=1s",
    "--healthcheck-period=1s",
    "--healthcheck-grace-period=1s",
    "--lose-unhealthy-worker-after=1s",
    "--worker-check-interval=1s",
    "--caution-worker-suicide-backoff-safety-margin=1s",
    "--caution-worker-suicide-task-kill-wait=1s",
];

/// The same for workers.
pub const FAST_WORKER: &[&str] = &["--heartbeat-period=1s", "--kill-wait=1s"];

/// Returns the timeouts of [`FAST_SCHEDULER`].
pub fn fast_timeouts() -> Timeouts {
    let second = Duration::from_secs(1);
    Timeouts {
        heartbeat_grace_period: second,
        healthcheck_period: second,
        healthcheck_grace_period: second,
        lose_unhealthy_worker_after: second,
        worker_check_interval: second,
        suicide_backoff_safety_margin: second,
        suicide_task_kill_wait: second,
        ..Timeouts::default()
    }
}

/// Returns a config with the nodes `n1` to `n{nodes}` and at most `slots` tasks on each worker; with `None` the worker decides.
pub fn range_config(nodes: usize, slots: Option<usize>) -> Value {
    let mut settings = json!({
        "enabled": true,
        "nodes": { "levels": ["item"], "node_sources": [
            { "source": "range_label", "prefs": { "parent_level": "instance", "format": "n{i}", "start": 1, "end": nodes } }
        ] },
    });
    if let Some(slots) = slots {
        settings["resources"] = json!({ "worker": { "slots": { "default": 1, "limit": slots } } });
    }
    json!({ "bistro_settings": settings })
}

/// The folder of a stage for temporary files of `brasserie`.
const TEMPORARY: &str = "tmp";

/// The start parameters of a scheduler. A second start with the same value is a restart, which omits `--new-cluster` like an operator must.
#[derive(Clone, Debug)]
pub struct SchedulerSpec {
    pub config: PathBuf,
    pub data_dir: PathBuf,
    pub port: u16,
    pub http_port: u16,
    /// The address of both ports.
    pub address: Ipv4Addr,
    pub flags: Vec<String>,
}

impl SchedulerSpec {
    /// Returns the same with this flag, which replaces an earlier value.
    pub fn with(mut self, flag: &str) -> Self {
        if let Some((name, _)) = flag.split_once('=') {
            let is_other = |f: &String| f.split_once('=').is_none_or(|(n, _)| n != name);
            self.flags.retain(is_other);
        }
        self.flags.push(flag.to_owned());
        self
    }

    /// Returns the body of the scheduler's answer to an HTTP request.
    ///
    /// # Panics
    /// Panics if the scheduler does not answer.
    pub fn get(&self, path: &str) -> String {
        self.get_with_code(path).1
    }

    /// Returns the status code and the body of the scheduler's answer to an HTTP request.
    ///
    /// # Panics
    /// Panics if the scheduler does not answer.
    pub fn get_with_code(&self, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect((self.address, self.http_port)).expect("it listens");
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        let (head, body) = answer.split_once("\r\n\r\n").expect("an answer has a head");
        let code = head.split(' ').nth(1).and_then(|code| code.parse().ok());
        (code.expect("a status code"), body.to_owned())
    }

    /// Returns the address of the HTTP port. A scheduler that asks for proofs serves HTTP on its own machine only.
    fn http_address(&self) -> String {
        let is_open = self.flags.iter().any(|flag| flag == "--insecure-network");
        let address = match is_open {
            true => self.address,
            false => Ipv4Addr::LOCALHOST,
        };
        format!("{address}:{}", self.http_port)
    }

    /// Returns the flags of the next start.
    fn flags_now(&self) -> impl Iterator<Item = &String> {
        let is_used = self.data_dir.join(MARKER_FILE).exists();
        let flags = self.flags.iter();
        flags.filter(move |&flag| !(is_used && flag == "--new-cluster"))
    }
}

/// The start parameters of a worker.
#[derive(Clone, Debug)]
pub struct WorkerSpec {
    pub shard: String,
    /// The value of its flag `--scheduler`.
    pub scheduler: String,
    pub data_dir: PathBuf,
    pub flags: Vec<String>,
}

/// A program that has ended.
#[derive(Clone, Debug)]
pub struct Finished {
    pub code: Option<i32>,
    /// Standard output and standard error together.
    pub output: String,
}

/// The folder of one test. If the test fails, dropping it prints every log.
#[derive(Debug)]
pub struct Stage {
    folder: TempDir,
    programs: Programs,
    started: AtomicUsize,
}

impl Stage {
    /// Creates the stage of a test.
    pub fn new() -> Self {
        Self::with(Programs::of_this_test())
    }

    /// Creates the stage of a program that plays the others itself.
    ///
    /// # Panics
    /// If temporary files cannot be created.
    pub fn with(programs: Programs) -> Self {
        let folder = tempfile::Builder::new()
            .prefix("brasserie-e2e-")
            .tempdir()
            .expect("a temporary folder");
        for name in ["logs", TEMPORARY] {
            fs::create_dir(folder.path().join(name)).expect("a folder in it");
        }
        Stage {
            folder,
            programs,
            started: AtomicUsize::new(0),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file, and creates the folders above it.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a file is in a folder"))
            .expect("a folder in a temporary folder");
        fs::write(&path, text).expect("a file in a temporary folder");
        path
    }

    /// Writes a file that nobody else may read, as the holder of a token keeps it.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn write_secret(&self, name: &str, text: &str) -> PathBuf {
        let path = self.write(name, text);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("one's own file");
        path
    }

    /// Writes an executable script.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn write_script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.write(name, text);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))
            .expect("one's own file can be made executable");
        path
    }

    /// Writes a config with one job, `work`, on `nodes` nodes, each of which runs [`WORK_SCRIPT`] for `pause`. Creates the folder for the
    /// tasks' records.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn write_work(&self, nodes: usize, pause: Duration) -> PathBuf {
        fs::create_dir_all(self.path("work/locks")).expect("a folder in a temporary folder");
        self.set_pause(pause);
        self.write_script("work/bin/work.sh", WORK_SCRIPT);
        let mut config = range_config(nodes, Some(2));
        config["bistro_settings"]["backoff"] = json!([1, "repeat"]);
        config["bistro_job->work"] = json!({ "owner": "test", "command": ["./bin/work.sh"] });
        self.write("work/config.json", &format!("{config:#}"))
    }

    /// Sets the duration of [`Stage::write_work`] tasks that start from now on.
    pub fn set_pause(&self, pause: Duration) {
        self.write("work/pause", &pause.as_secs_f64().to_string());
    }

    /// Makes tasks of [`Stage::write_work`] wait for [`Stage::release`] before they end.
    pub fn hold(&self) {
        self.write("work/hold", "");
    }

    /// Lets held tasks end.
    ///
    /// # Panics
    /// If tasks are not held.
    pub fn release(&self) {
        fs::remove_file(self.path("work/hold")).expect("they were held");
    }

    /// Returns the records of those tasks.
    pub fn records(&self) -> RunRecords {
        RunRecords::read(&self.path("work"))
    }

    /// Returns the nodes with a living process.
    pub fn alive(&self) -> Vec<String> {
        RunRecords::alive(&self.path("work"))
    }

    /// Returns the parameters of a scheduler with the shortest timeouts on free ports.
    pub fn scheduler_spec(&self, config: &Path) -> SchedulerSpec {
        SchedulerSpec {
            config: config.to_owned(),
            data_dir: self.path("scheduler"),
            port: free_port(),
            http_port: free_port(),
            address: Ipv4Addr::LOCALHOST,
            flags: FAST_SCHEDULER.iter().map(|&flag| flag.to_owned()).collect(),
        }
    }

    /// Returns the parameters of a scheduler of a new cluster with default timeouts, like users have.
    pub fn default_spec(&self, config: &Path) -> SchedulerSpec {
        let mut spec = self.scheduler_spec(config);
        spec.flags = vec!["--new-cluster".to_owned()];
        spec
    }

    /// Returns the parameters of a scheduler of a new cluster that does not lose living workers, however busy the machine is.
    pub fn calm_spec(&self, config: &Path) -> SchedulerSpec {
        let spec = self.scheduler_spec(config).with("--new-cluster");
        spec.with(LossTime::Long.flag())
    }

    /// Returns the parameters of a worker with the shortest timeouts.
    pub fn worker_spec(&self, shard: &str, scheduler: &SchedulerSpec) -> WorkerSpec {
        WorkerSpec {
            shard: shard.to_owned(),
            scheduler: format!("{}:{}", scheduler.address, scheduler.port),
            data_dir: self.path(&format!("worker-{shard}")),
            flags: FAST_WORKER.iter().map(|&flag| flag.to_owned()).collect(),
        }
    }

    /// Returns the command of a scheduler without arguments.
    pub fn scheduler_program(&self) -> Command {
        self.programs.command(Program::Scheduler)
    }

    /// Returns the command of a worker without arguments.
    pub fn worker_program(&self) -> Command {
        self.programs.command(Program::Worker)
    }

    /// Returns the command line of a scheduler.
    pub fn scheduler_command(&self, spec: &SchedulerSpec) -> Command {
        let mut command = self.programs.command(Program::Scheduler);
        command
            .arg("--config")
            .arg(&spec.config)
            .arg("--data-dir")
            .arg(&spec.data_dir)
            .args(["--listen", &format!("{}:{}", spec.address, spec.port)])
            .args(["--http-listen", &spec.http_address()])
            .args(spec.flags_now());
        command
    }

    pub fn start_scheduler(&self, spec: &SchedulerSpec) -> Process {
        self.start("scheduler", self.scheduler_command(spec))
    }

    /// Returns the command line of a worker.
    pub fn worker_command(&self, spec: &WorkerSpec) -> Command {
        let mut command = self.programs.command(Program::Worker);
        command
            .env_remove("BRASSERIE_JOIN_TOKEN")
            .args(["--scheduler", &spec.scheduler, "--shard", &spec.shard])
            .arg("--data-dir")
            .arg(&spec.data_dir)
            .args(&spec.flags);
        command
    }

    pub fn start_worker(&self, spec: &WorkerSpec) -> Process {
        self.start(&format!("worker-{}", spec.shard), self.worker_command(spec))
    }

    /// Returns the command line of `brasserie`, without contexts of this machine's user. Its temporary folders are removed with the stage.
    pub fn brasserie_command(&self, arguments: &[&str]) -> Command {
        let mut command = self.programs.command(Program::Brasserie);
        command.args(arguments).env("TMPDIR", self.path(TEMPORARY));
        command.env("XDG_CONFIG_HOME", self.path("config"));
        for variable in ["BRASSERIE_CONTEXT", "BRASSERIE_TOKEN"] {
            command.env_remove(variable);
        }
        command
    }

    /// Starts `brasserie` and leaves it running.
    pub fn start_brasserie(&self, arguments: &[&str]) -> Process {
        self.start("brasserie", self.brasserie_command(arguments))
    }

    /// Runs `brasserie` to its end.
    pub fn brasserie(&self, arguments: &[&str]) -> Finished {
        self.finish("brasserie", self.brasserie_command(arguments))
    }

    /// Returns the output of `brasserie explain` for a task; null if there is none.
    pub fn explain(&self, spec: &SchedulerSpec, job: &str, node: &str) -> Value {
        let address = format!("{}:{}", spec.address, spec.port);
        let answer = self.brasserie(&["explain", job, node, "--json", "--scheduler", &address]);
        serde_json::from_str(&answer.output).unwrap_or_default()
    }

    /// Waits for the end of the task's first run, and returns the output of `brasserie explain`.
    pub fn explain_ended(&self, spec: &SchedulerSpec, job: &str, node: &str) -> Value {
        wait_within(PATIENCE, &format!("the end of {job}"), || {
            let document = self.explain(spec, job, node);
            (!document["last_run"].is_null()).then_some(document)
        })
    }

    /// Starts any program with its output in a log of this stage.
    pub fn start(&self, name: &str, command: Command) -> Process {
        Process::start(name, command, &self.next_log(name))
    }

    /// Starts a program like [`Stage::start`], with standard error elsewhere.
    pub fn start_with_errors(&self, name: &str, command: Command, errors: Stdio) -> Process {
        let file = PathBuf::from(command.get_program());
        let log = self.next_log(name);
        Process::start_through(name, command, &file, &log, Some(errors))
    }

    /// Starts a program like [`Stage::start`], on a host of a network.
    pub fn start_on(
        &self,
        network: &Network,
        host: Host,
        name: &str,
        command: &Command,
    ) -> Process {
        let file = PathBuf::from(command.get_program());
        let inside = network.command_on(host, command);
        Process::start_through(name, inside, &file, &self.next_log(name), None)
    }

    /// Starts a command like [`Stage::start`] that finally becomes the program in `file`.
    pub fn start_through(&self, name: &str, command: Command, file: &Path) -> Process {
        Process::start_through(name, command, file, &self.next_log(name), None)
    }

    /// Keeps the folder, and returns its path.
    pub fn keep(mut self) -> PathBuf {
        self.folder.disable_cleanup(true);
        self.folder.path().to_owned()
    }

    fn next_log(&self, name: &str) -> PathBuf {
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        self.path(&format!("logs/{number:02}-{name}.log"))
    }

    /// Runs any program to its end.
    pub fn finish(&self, name: &str, command: Command) -> Finished {
        let mut process = self.start(name, command);
        let status = process.wait();
        Finished {
            code: status.code(),
            output: process.output(),
        }
    }

    fn print_logs(&self) {
        let entries = fs::read_dir(self.path("logs"))
            .into_iter()
            .flatten()
            .flatten();
        let mut logs: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        logs.sort();
        for log in logs {
            let text = fs::read_to_string(&log).unwrap_or_default();
            eprintln!(
                "==== {} ====\n{text}",
                log.file_name().unwrap_or_default().to_string_lossy()
            );
        }
    }
}

impl Default for Stage {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.print_logs();
        }
    }
}
