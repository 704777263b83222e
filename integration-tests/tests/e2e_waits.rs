//! Tests eight real workers, one of which dies with its keeper and never returns: how long a restarted scheduler waits for it, and how an
//! operator ends the wait.

use std::fs::File;
use std::process::Command;
use std::time::{Duration, Instant};

use integration_tests::e2e::{Client, Process, SchedulerSpec, Stage, wait_for};
use nix::sys::signal::{Signal, kill};

const DEAD: &str = "w0";
/// The time without an answer after which an operator may declare a worker dead.
const LOSS: Duration = Duration::from_secs(25);
const LOSE: &str = "--lose-unhealthy-worker-after=25s";
const SHORT_MARGIN: &str = "--caution-worker-suicide-backoff-safety-margin=1s";
/// The initial wait with this margin does not end by itself before the test is over.
const LONG_MARGIN: &str = "--caution-worker-suicide-backoff-safety-margin=3000s";

/// Returns flags with a second between heartbeats, and a reserve for a busy machine.
fn flags(lose: &str, margin: &str) -> Vec<String> {
    let flags = [
        "--heartbeat-grace-period=5s",
        "--healthcheck-period=1s",
        "--healthcheck-grace-period=5s",
        lose,
        "--worker-check-interval=1s",
        margin,
        "--caution-worker-suicide-task-kill-wait=1s",
    ];
    flags.map(str::to_owned).to_vec()
}

/// A scheduler and eight busy workers. Then worker `w0` is killed with its keeper, and the scheduler too.
struct Fleet {
    stage: Stage,
    spec: SchedulerSpec,
    _living: Vec<Process>,
    killed: Instant,
}

impl Fleet {
    fn that_lost_one(margin: &str) -> Self {
        let stage = Stage::new();
        let config = stage.write_work(400, Duration::from_millis(50));
        let spec = SchedulerSpec {
            flags: flags(LOSE, margin),
            ..stage.scheduler_spec(&config)
        };
        let mut scheduler = stage.start_scheduler(&spec.clone().with("--new-cluster"));
        let mut workers: Vec<Process> = (0..8)
            .map(|n| stage.start_worker(&stage.worker_spec(&format!("w{n}"), &spec)))
            .collect();
        // A worker that starts before the scheduler listens joins a second later.
        Client::new(spec.port).wait_healthy(8);
        wait_for("tasks on all workers", || {
            (stage.records().runs.len() >= 40).then_some(())
        });
        let mut dead = workers.remove(0);
        dead.kill_with_keeper();
        scheduler.kill_program();
        let killed = Instant::now();
        // Fulfils the operator's promise that none of its tasks is alive. Without a scheduler, the other workers' tasks end and no new ones
        // start.
        wait_for("the last tasks to end", || {
            stage.alive().is_empty().then_some(())
        });
        Fleet {
            stage,
            spec,
            _living: workers,
            killed,
        }
    }

    /// Restarts the scheduler, and waits until the seven workers are back.
    fn restart(&self) -> Process {
        let scheduler = self.stage.start_scheduler(&self.spec);
        Client::new(self.spec.port).wait_healthy(7);
        scheduler
    }

    fn starts(&self) -> usize {
        self.stage.records().starts().values().sum()
    }

    fn initial_wait(&self) -> Option<String> {
        let client = Client::new(self.spec.port);
        wait_for("the status", || client.status()).initial_wait
    }

    fn forget(&self, more: &[&str]) -> (Option<i32>, String) {
        let address = format!("{}:{}", self.spec.address, self.spec.port);
        let command = ["worker", "forget", DEAD, "--scheduler", &address];
        let finished = self.stage.brasserie(&[&command[..], more].concat());
        (finished.code, finished.output)
    }

    /// Runs `worker forget` on a terminal, where a user types this text; then the input ends.
    fn forget_on_terminal(&self, typed: &str) -> (Option<i32>, String) {
        let address = format!("{}:{}", self.spec.address, self.spec.port);
        let arguments = ["worker", "forget", DEAD, "--scheduler", &address];
        let program = self.stage.brasserie_command(&arguments);
        let file = program.get_program().to_str().expect("a plain path");
        let mut script = Command::new("script");
        script.args(["--quiet", "--return", "--command"]);
        script.arg(format!("{file} {}", arguments.join(" ")));
        script.arg("/dev/null");
        let input = File::open(self.stage.write("typed", typed)).expect("written");
        script.stdin(input);
        let finished = self.stage.finish("script", script);
        (finished.code, finished.output)
    }

    fn finish(&self) {
        Client::new(self.spec.port).wait_all_done();
        let records = self.stage.records();
        assert!(records.overlaps.is_empty(), "{:?}", records.overlaps);
        assert_eq!(records.starts().len(), 400);
    }
}

#[test]
fn an_operator_who_declares_a_worker_dead_lets_the_fleet_go_on_at_once() {
    let fleet = Fleet::that_lost_one(LONG_MARGIN);
    let mut scheduler = fleet.restart();
    let wait = fleet.initial_wait().expect("one worker is missing");
    assert_eq!(wait.matches(": silent for").count(), 1, "{wait}");
    assert!(wait.contains(&format!("`{DEAD}`: silent for")), "{wait}");
    assert!(wait.contains("brasserie worker forget"), "{wait}");
    let starts = fleet.starts();

    let (code, output) = wait_for("the loss time since the last answer", || {
        let (code, output) = fleet.forget(&[]);
        let is_refused = output.contains("an earlier scheduler may have answered");
        (!is_refused).then_some((code, output))
    });
    let silent_for = fleet.killed.elapsed();
    assert!(silent_for + ROOM > LOSS, "{silent_for:?}");
    assert_eq!(code, Some(1), "{output}");
    assert!(
        output.contains("You promise") && output.contains("--yes"),
        "{output}"
    );
    for typed in ["no\n", ""] {
        let (code, output) = fleet.forget_on_terminal(typed);
        assert_eq!(code, Some(1), "{output}");
        assert!(output.contains("Type `yes` to promise that"), "{output}");
        assert!(output.contains("Nothing has changed"), "{output}");
    }
    assert!(
        fleet.initial_wait().is_some(),
        "nobody has promised anything"
    );
    assert_eq!(fleet.starts(), starts);

    let (code, output) = fleet.forget(&["--yes"]);
    assert_eq!(code, Some(0), "{output}");
    assert_eq!(fleet.initial_wait(), None);
    scheduler.wait_for_output("has declared worker");
    scheduler.wait_for_output("the initial wait is over");
    // The declaration is on disk.
    scheduler.kill_program();
    let _scheduler = fleet.restart();
    fleet.finish();
    let (code, output) = fleet.forget(&["--yes"]);
    assert_eq!(code, Some(0), "{output}");
    let told = format!("Worker `{DEAD}` left at 2");
    assert!(output.contains(&told), "{output}");
    assert!(output.contains("there is nothing to do"), "{output}");
}

/// The time after the last sign of life at which an operator may declare a worker dead: two seconds.
const SHORT_LOSE: &str = "--lose-unhealthy-worker-after=2s";

#[test]
fn a_scheduler_that_stood_still_takes_nobody_for_dead_at_once() {
    let stage = Stage::new();
    let config = stage.write_work(1, Duration::from_secs(60));
    let spec = SchedulerSpec {
        flags: flags(SHORT_LOSE, SHORT_MARGIN),
        ..stage.scheduler_spec(&config)
    };
    let scheduler = stage.start_scheduler(&spec.clone().with("--new-cluster"));
    let worker = stage.start_worker(&stage.worker_spec(DEAD, &spec));
    wait_for("the task", || (stage.alive().len() == 1).then_some(()));
    // The worker lives, but sends nothing meanwhile.
    let processes = [scheduler.id(), worker.id(), worker.program()];
    for process in processes {
        kill(process, Signal::SIGSTOP).expect("it runs");
    }
    let stopped = Instant::now();
    wait_for("more than the loss time", || {
        (stopped.elapsed() > Duration::from_secs(4)).then_some(())
    });
    scheduler.signal(Signal::SIGCONT);
    let address = format!("{}:{}", spec.address, spec.port);
    let forget = ["worker", "forget", DEAD, "--scheduler", &address, "--yes"];
    let finished = stage.brasserie(&forget);
    for process in processes {
        kill(process, Signal::SIGCONT).expect("it runs");
    }
    assert_eq!(finished.code, Some(1), "{}", finished.output);
    assert!(
        finished.output.contains("this scheduler stood still until"),
        "{}",
        finished.output
    );
}

/// The safe wait: 1 s + 5 s + 1 s for the last healthcheck, 25 s until the loss, and 4 s for the rest.
const SAFE_WAIT: Duration = Duration::from_secs(36);
/// How far ahead the bound of the last answer is written.
const STEP: Duration = Duration::from_secs(5);
/// A heartbeat period, and a reserve for a busy machine.
const ROOM: Duration = Duration::from_secs(8);

#[test]
fn a_wait_for_a_worker_that_never_returns_ends_in_time_across_five_restarts() {
    let fleet = Fleet::that_lost_one(SHORT_MARGIN);
    let mut restarts = 0;
    let mut scheduler = fleet.restart();
    while restarts < 5 {
        let due = Duration::from_secs(5) * (restarts + 1);
        wait_for("the next restart", || {
            (fleet.killed.elapsed() >= due).then_some(())
        });
        assert!(
            fleet.killed.elapsed() > SAFE_WAIT - ROOM || fleet.initial_wait().is_some(),
            "the worker may live"
        );
        scheduler.kill_program();
        scheduler = fleet.restart();
        restarts += 1;
    }
    let last_start = fleet.killed.elapsed();
    wait_for("the end of the wait", || {
        fleet.initial_wait().is_none().then_some(())
    });
    let ended = fleet.killed.elapsed();
    assert!(ended + ROOM > SAFE_WAIT, "{ended:?}");
    // If the wait counted from the last restart, it would last the whole safe wait from there.
    let latest = (SAFE_WAIT + STEP).max(last_start) + ROOM;
    assert!(
        ended < latest,
        "{ended:?} after the death, the last restart {last_start:?} after it"
    );
    assert!(last_start + SAFE_WAIT > latest, "it would prove nothing");
    fleet.finish();
}
