//! Tests hanging and failing resources with real programs: standard error, the disk, `/proc`, the resolver, single threads. In each case a
//! scheduler is killed and restarted, or a worker is stopped. No task may run twice at once, as locks in the kernel show, and no program
//! may end.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use brasserie_thrift::generated::brasserie::{
    BrasserieExplainTaskArgs, BrasserieExplainTaskResult,
};
use integration_tests::e2e::{
    Client, HangingDisk, Process, SchedulerSpec, SilentResolver, SmallDisk, Stage, StoppedThreads,
    UnreadLog, WorkerSpec, hide_proc, wait_for, warn_not_run, with_own_proc,
};
use nix::sys::signal::Signal;
use nix::unistd::Pid;

/// The name of the threads of a program's runtime, one of which runs the driver.
const RUNTIME: &str = "tokio-rt-worker";
const FOR_EVER: Duration = Duration::from_secs(1000);
/// Number of tasks, as many as one worker runs.
const TASKS: usize = 2;
/// Long enough for a restart of the scheduler on a busy machine, but not longer, because each case waits for the loss of a worker.
const TIMES: [&str; 3] = [
    "--heartbeat-grace-period=3s",
    "--healthcheck-grace-period=3s",
    "--lose-unhealthy-worker-after=3s",
];

/// A scheduler and two workers, of which the first one runs all tasks.
struct Case<'a> {
    stage: &'a Stage,
    spec: SchedulerSpec,
    one: WorkerSpec,
    two: WorkerSpec,
    /// Starts a program under this name.
    start: &'a dyn Fn(&str, Command) -> Process,
}

impl<'a> Case<'a> {
    /// Creates a case. `containment` is that of the first worker.
    fn new(
        stage: &'a Stage,
        containment: &str,
        start: &'a dyn Fn(&str, Command) -> Process,
    ) -> Self {
        let config = stage.write_work(TASKS, FOR_EVER);
        let mut spec = stage.scheduler_spec(&config).with("--new-cluster");
        for flag in TIMES {
            spec = spec.with(flag);
        }
        let worker = |name| stage.worker_spec(name, &spec);
        let mut one = worker("one");
        one.flags.push(format!("--contain={containment}"));
        Case {
            one,
            two: worker("two"),
            stage,
            spec,
            start,
        }
    }

    fn start_scheduler(&self) -> Process {
        (self.start)("scheduler", self.stage.scheduler_command(&self.spec))
    }

    fn start_worker(&self, spec: &WorkerSpec) -> Process {
        (self.start)(&spec.shard, self.stage.worker_command(spec))
    }

    /// Starts the scheduler, a worker that runs all tasks, and one that runs none.
    fn begin(&self) -> [Process; 3] {
        let scheduler = self.start_scheduler();
        let one = self.start_worker(&self.one);
        wait_for("all tasks to run", || {
            (self.stage.records().runs.len() == TASKS).then_some(())
        });
        let two = self.start_worker(&self.two);
        Client::new(self.spec.port).wait_healthy(2);
        [scheduler, one, two]
    }

    /// Makes the resource hang while the workers can continue. Kills the scheduler, then stops the worker.
    fn play(&self, hang: impl FnOnce(&Process)) {
        let [mut scheduler, one, two] = self.begin();
        hang(&one);
        scheduler.kill_program();
        scheduler = self.start_scheduler();
        let client = Client::new(self.spec.port);
        client.wait_healthy(2);
        client.wait_until("the tasks to be known", |status| {
            let running = status.jobs.iter().flatten().filter_map(|job| job.running);
            status.initial_wait.is_none() && running.sum::<i64>() == TASKS as i64
        });
        assert_eq!(self.stage.alive().len(), TASKS, "the tasks go on");
        assert_eq!(self.stage.records().runs.len(), TASKS, "and none again");
        self.stage.set_pause(Duration::ZERO);
        one.signal_program(Signal::SIGSTOP);
        self.end(scheduler, one, two);
    }

    /// Makes the resource hang so that the worker that needs it cannot start tasks and is lost.
    fn play_lost(&self, fault: Fault, hang: impl FnOnce(&Process)) {
        let [mut scheduler, one, two] = self.begin();
        hang(&one);
        self.stage.set_pause(Duration::ZERO);
        match fault {
            Fault::KilledScheduler => {
                scheduler.kill_program();
                scheduler = self.start_scheduler();
            }
            Fault::StoppedWorker => one.signal_program(Signal::SIGSTOP),
        }
        self.end(scheduler, one, two);
    }

    /// Checks that the tasks run on the other worker after the first one and its runs have ended. The other programs still run, and end on
    /// request, even with a blocked log and with a resolver that does not answer.
    fn end(&self, mut scheduler: Process, mut one: Process, mut two: Process) {
        wait_for("the tasks to run on the other worker", || {
            (self.stage.records().finished() == TASKS).then_some(())
        });
        let records = self.stage.records();
        assert_eq!(records.overlaps, Vec::<String>::new(), "ran twice at once");
        let starts = records.starts();
        assert!(starts.values().all(|&count| count == 2), "{starts:?}");
        one.wait();
        assert_eq!((scheduler.ended(), two.ended()), (None, None), "ended");
        two.signal(Signal::SIGTERM);
        assert_eq!(two.wait().code(), Some(0), "the worker");
        scheduler.signal(Signal::SIGTERM);
        assert_eq!(scheduler.wait().code(), Some(0), "the scheduler");
    }
}

/// The weaker containment, in which a keeper finds tasks through `/proc`.
const GROUPS: &str = "process-groups";
/// The best containment that the machine allows.
const BEST: &str = "auto";

/// The fault while a resource hangs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    KilledScheduler,
    StoppedWorker,
}

impl Fault {
    /// Returns the containment for this fault, so that both are tested. If the worker is stopped, only the keeper can end its tasks.
    fn containment(self) -> &'static str {
        match self {
            Fault::KilledScheduler => BEST,
            Fault::StoppedWorker => GROUPS,
        }
    }
}

#[test]
fn a_log_that_takes_no_more_lets_no_task_run_twice() {
    let (stage, log) = (Stage::new(), UnreadLog::new());
    let start = |name: &str, command| logging_to(&stage, name, command, log.as_errors());
    Case::new(&stage, GROUPS, &start).play(|_| log.fill());
}

#[test]
fn a_log_that_nobody_reads_any_more_ends_no_program() {
    let (stage, log) = (Stage::new(), UnreadLog::new());
    let start = |name: &str, command| logging_to(&stage, name, command, log.as_errors());
    Case::new(&stage, BEST, &start).play(|_| log.close());
}

#[test]
fn a_log_on_a_full_disk_ends_no_program() {
    let stage = Stage::new();
    let start = |name: &str, command| logging_to(&stage, name, command, full_disk());
    Case::new(&stage, BEST, &start).play(|_| {});
}

#[test]
fn a_log_on_a_disk_that_fills_up_ends_no_program() {
    let stage = Stage::new();
    let disk = match SmallDisk::new(&stage.path("log-disk"), 64) {
        Ok(disk) => disk,
        Err(error) => return warn_not_run("a disk that fills up", &error),
    };
    let start = |name: &str, command| logging_to(&stage, name, command, disk.file(name).into());
    Case::new(&stage, BEST, &start).play(|_| disk.fill());
}

#[test]
fn a_disk_that_hangs_below_a_scheduler_that_is_killed_lets_no_task_run_twice() {
    let stage = Stage::new();
    let disk = HangingDisk::new(&stage.path("disk"));
    let start = |name: &str, command| start_scheduler_on(&disk, &stage, name, command);
    // No program can start on a hanging disk.
    Case::new(&stage, BEST, &start).play(|_| disk.hang());
}

#[test]
fn a_disk_that_hangs_below_a_scheduler_and_a_stopped_worker_let_no_task_run_twice() {
    let stage = Stage::new();
    let disk = HangingDisk::new(&stage.path("disk"));
    let start = |name: &str, command| start_scheduler_on(&disk, &stage, name, command);
    let case = Case::new(&stage, GROUPS, &start);
    play_unstored_loss(&case, |_| disk.hang(), |()| disk.recover());
}

#[test]
fn a_store_thread_that_is_stopped_and_a_stopped_worker_let_no_task_run_twice() {
    let stage = Stage::new();
    let start = |name: &str, command| stage.start(name, command);
    let case = Case::new(&stage, GROUPS, &start);
    let stop =
        |scheduler: &Process| StoppedThreads::new(scheduler.id(), "store").expect("may be stopped");
    play_unstored_loss(&case, stop, drop);
}

/// Plays a case in which the scheduler cannot store the loss of a worker until the resource recovers.
fn play_unstored_loss<R>(case: &Case, hang: impl FnOnce(&Process) -> R, recover: impl FnOnce(R)) {
    let stage = case.stage;
    let [scheduler, one, two] = case.begin();
    let hanging = hang(&scheduler);
    stage.set_pause(Duration::ZERO);
    one.signal_program(Signal::SIGSTOP);
    wait_for("the keeper to end the tasks", || {
        stage.alive().is_empty().then_some(())
    });
    let client = Client::new(case.spec.port);
    client.wait_until("the loss of the worker", |status| {
        let jobs = status.jobs.iter().flatten();
        jobs.filter_map(|job| job.running).sum::<i64>() == 0
    });
    client.wait_healthy(1);
    let arguments = BrasserieExplainTaskArgs {
        job: "work".to_owned(),
        node: "n1".to_owned(),
    };
    let explained: Result<BrasserieExplainTaskResult, _> = client.call("explainTask", &arguments);
    let reasons = explained.expect("an answer").result_value;
    let held = |reason: &String| reason.contains("not yet stored durably");
    assert!(reasons.iter().flatten().any(held), "{reasons:?}");
    assert_eq!(stage.records().runs.len(), TASKS, "no loss is on disk");
    recover(hanging);
    case.end(scheduler, one, two);
}

/// Starts a program; a scheduler on the disk, which is made to work again first.
fn start_scheduler_on(
    disk: &HangingDisk,
    stage: &Stage,
    name: &str,
    mut command: Command,
) -> Process {
    if name == "scheduler" {
        disk.recover();
        disk.holds(&stage.path("scheduler"), &mut command);
    }
    stage.start(name, command)
}

#[test]
fn a_worker_in_a_namespace_whose_disk_hangs_ends_when_asked_to() {
    asked_to_end_on_a_hanging_disk(BEST);
}

#[test]
fn a_worker_whose_disk_hangs_ends_when_asked_to() {
    asked_to_end_on_a_hanging_disk(GROUPS);
}

/// Asks a worker to end on a hanging disk. Meanwhile the worker is not lost, so nothing else ends it.
fn asked_to_end_on_a_hanging_disk(containment: &str) {
    let stage = Stage::new();
    let disk = HangingDisk::new(&stage.path("disk"));
    let folder = stage.path("worker-one");
    let start = |name: &str, mut command: Command| {
        if name == "one" {
            disk.holds(&folder, &mut command);
        }
        stage.start(name, command)
    };
    let mut case = Case::new(&stage, containment, &start);
    let mut spec = stage.scheduler_spec(&case.spec.config);
    spec.flags = vec!["--new-cluster".to_owned()];
    (spec.port, spec.http_port) = (case.spec.port, case.spec.http_port);
    case.spec = spec;
    let [_scheduler, mut one, _two] = case.begin();
    disk.hang();
    one.signal(Signal::SIGTERM);
    // The keeper's exit code says that the worker did not end cleanly.
    assert_eq!(one.wait().code(), Some(1));
    assert_eq!(stage.alive(), Vec::<String>::new());
}

#[test]
fn a_disk_that_hangs_below_a_worker_and_a_killed_scheduler_let_no_task_run_twice() {
    hanging_disk(Fault::KilledScheduler);
}

#[test]
fn a_disk_that_hangs_below_a_stopped_worker_lets_no_task_run_twice() {
    hanging_disk(Fault::StoppedWorker);
}

fn hanging_disk(fault: Fault) {
    let stage = Stage::new();
    let disk = HangingDisk::new(&stage.path("disk"));
    let folder = stage.path("worker-one");
    let start = |name: &str, mut command: Command| {
        if name == "one" {
            disk.holds(&folder, &mut command);
        }
        stage.start(name, command)
    };
    Case::new(&stage, fault.containment(), &start).play_lost(fault, |_| disk.hang());
}

#[test]
fn a_worker_whose_directory_is_deleted_starts_nothing_and_says_so() {
    let stage = Stage::new();
    let start = |name: &str, command| stage.start(name, command);
    let case = Case::new(&stage, GROUPS, &start);
    case.play_lost(Fault::KilledScheduler, |one| {
        // The worker may be writing there.
        wait_for("its deletion", || {
            let _ = fs::remove_dir_all(&case.one.data_dir);
            (!case.one.data_dir.exists()).then_some(())
        });
        let what = format!("{} was deleted", case.one.data_dir.display());
        let status = Client::new(case.spec.port).wait_until("a note on the worker", |status| {
            let mut workers = status.workers.iter().flatten();
            workers.any(|worker| worker.notes.iter().flatten().any(|n| n.contains(&what)))
        });
        assert_eq!(stage.alive().len(), TASKS, "{status:?}");
        one.wait_for_output(&format!("{what} or unmounted: no task starts"));
        assert!(!case.one.data_dir.exists(), "it is not made anew");
    });
}

#[test]
fn a_hidden_proc_and_a_killed_scheduler_let_no_task_run_twice() {
    hidden_proc(Fault::KilledScheduler);
}

#[test]
fn a_hidden_proc_of_a_stopped_worker_lets_no_task_run_twice() {
    hidden_proc(Fault::StoppedWorker);
}

fn hidden_proc(fault: Fault) {
    let stage = Stage::new();
    if !nix::unistd::geteuid().is_root() {
        return warn_not_run("a hidden /proc", &"only root can hide it");
    }
    let start = |name: &str, command: Command| {
        let program = PathBuf::from(command.get_program());
        stage.start_through(name, with_own_proc(&command), &program)
    };
    Case::new(&stage, fault.containment(), &start).play_lost(fault, |one| {
        // The keeper and the program may be in different namespaces.
        for pid in [one.program(), one.id()] {
            hide_proc(pid);
        }
    });
}

#[test]
fn a_supervisor_that_is_stopped_and_a_killed_scheduler_let_no_task_run_twice() {
    stopped_threads(Fault::KilledScheduler, Process::program, "task-supervisor");
}

#[test]
fn a_supervisor_of_a_stopped_worker_that_is_stopped_too_lets_no_task_run_twice() {
    stopped_threads(Fault::StoppedWorker, Process::program, "task-supervisor");
}

/// The supervisor keeps running, but renews no lease.
#[test]
fn a_driver_that_is_stopped_alone_lets_no_task_run_twice() {
    stopped_threads(Fault::KilledScheduler, Process::program, RUNTIME);
}

fn stopped_threads(fault: Fault, process: fn(&Process) -> Pid, name: &str) {
    let stage = Stage::new();
    let start = |name: &str, command| stage.start(name, command);
    let mut stopped = None;
    Case::new(&stage, fault.containment(), &start).play_lost(fault, |one| {
        stopped = Some(StoppedThreads::new(process(one), name).expect("may be stopped"));
    });
    drop(stopped);
}

#[test]
fn writers_of_logs_that_are_stopped_let_no_task_run_twice() {
    let stage = Stage::new();
    let start = |name: &str, command| stage.start(name, command);
    let mut stopped = Vec::new();
    Case::new(&stage, GROUPS, &start).play(|one| {
        for name in ["log", "log-writer", "keeper-watch"] {
            let threads = StoppedThreads::new(one.program(), name);
            stopped.push(threads.expect("may be stopped"));
        }
    });
    drop(stopped);
}

#[test]
fn a_resolver_that_does_not_answer_lets_no_task_run_twice() {
    let stage = Stage::new();
    let resolver = match SilentResolver::new(&stage.path("logs")) {
        Ok(resolver) => resolver,
        Err(error) => return warn_not_run("a silent resolver", &error),
    };
    let start = |name: &str, command: Command| {
        let program = PathBuf::from(command.get_program());
        stage.start_through(name, resolver.command(&command), &program)
    };
    let mut case = Case::new(&stage, BEST, &start);
    for worker in [&mut case.one, &mut case.two] {
        // Another scheduler with a name that each worker keeps resolving.
        let flags = ["--scheduler=nowhere.example:6789", "--insecure-network"];
        worker.flags.extend(flags.map(String::from));
    }
    case.play(|_| wait_for("a question", || resolver.was_asked().then_some(())));
}

fn logging_to(stage: &Stage, name: &str, command: Command, errors: Stdio) -> Process {
    stage.start_with_errors(name, command, errors)
}

fn full_disk() -> Stdio {
    let device = File::options().write(true).open("/dev/full");
    Stdio::from(device.expect("it is on every machine"))
}

/// Commands of `brasserie` that print something, with their exit codes for a closed pipe and for a full disk.
const PRINTING: [(&[&str], i32, i32); 6] = [
    (&["--help"], 0, 0),
    (&["no-such-command"], 2, 2),
    (&["config", "schema"], 0, 1),
    (&["config", "export", "/nowhere"], 2, 2),
    (&["run", "/nowhere"], 2, 2),
    (&["status", "--scheduler", "127.0.0.1:1"], 1, 1),
];

#[test]
fn commands_end_quietly_where_nobody_reads_and_with_an_error_on_a_full_disk() {
    let stage = Stage::new();
    for (arguments, closed, full) in PRINTING {
        let log = UnreadLog::new();
        log.close();
        let mut command = stage.brasserie_command(arguments);
        let command = command.stdin(Stdio::null());
        command.stdout(log.as_errors()).stderr(log.as_errors());
        let status = command.status().expect("it starts");
        assert_eq!(status.code(), Some(closed), "{arguments:?}, closed");
        command.stdout(full_disk()).stderr(full_disk());
        let status = command.status().expect("it starts");
        assert_eq!(status.code(), Some(full), "{arguments:?}, full");
    }
}

#[test]
fn a_run_whose_output_nobody_takes_goes_on_to_its_end() {
    let stage = Stage::new();
    let config = stage.write_work(TASKS, Duration::from_secs(1));
    let log = UnreadLog::new();
    log.fill();
    let config = config.to_str().expect("a plain name");
    let command = stage.brasserie_command(&["run", config]);
    let mut run = stage.start_with_errors("run", command, log.as_errors());
    assert_eq!(run.wait().code(), Some(0));
    assert_eq!(stage.records().finished(), TASKS);
}
