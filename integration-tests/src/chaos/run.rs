//! One run: starts a cluster, applies a plan's disturbances, heals them, and returns the verdict.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::ChaosSettings;
use super::machines::ChaosMachines;
use super::plan::{self, Direction, Disturbance, DisturbanceKind, Program, StorePart, Target};
use super::testimony::{self, ShownCompletions};
use crate::e2e::{LinkEffect, Programs, Stage, range_config};

/// Number of tasks, enough to keep the workers busy throughout the plan.
const TASKS: u64 = 240;
const TASK_SECONDS: &str = "0.8";
/// Interval of checks of the programs.
const STEP: Duration = Duration::from_millis(50);
/// Interval of requests to the scheduler.
const ASK_EVERY: Duration = Duration::from_millis(300);
/// Limit for completing all tasks after the last disturbance, including the waits of the protocol, on a busy machine.
const SETTLE: Duration = Duration::from_secs(240);
/// Answers without which a run says nothing about what the scheduler showed.
const LEAST_SIGHTS: usize = 10;
/// Time within which a scheduler without its store reports that, or exits. Then the operator acts.
const OPERATOR_PATIENCE: Duration = Duration::from_secs(20);

/// The result of a run.
#[derive(Debug)]
pub struct ChaosOutcome {
    /// The names of the disturbances that took place.
    pub disturbances: Vec<&'static str>,
    pub runs: usize,
    pub took: Duration,
    /// The violated invariants; empty if there are none.
    pub violations: Vec<String>,
    /// The folder with all files, if an invariant was violated.
    pub kept: Option<std::path::PathBuf>,
}

/// Plays one seed, and passes each step to `log`. Call it in separate namespaces ([`super`]).
///
/// # Errors
/// If this machine cannot play it.
pub fn run(
    programs: Programs,
    settings: ChaosSettings,
    log: &mut dyn FnMut(&str),
) -> Result<ChaosOutcome, String> {
    let started = Instant::now();
    let stage = Stage::with(programs);
    open_to_all(&stage).map_err(|error| format!("cannot prepare the folder: {error}"))?;
    let config = write_work(&stage);
    let machines = ChaosMachines::new(&stage, &config, settings)?;
    let plan = plan::draw(settings.seed, settings.workers);
    let epoch = Arc::new(AtomicU32::new(0));
    let question = machines.on_scheduler_host(&stage.brasserie_command(&[
        "status",
        "--json",
        "--insecure-network",
        "--scheduler",
        &machines.scheduler_address(),
    ]));
    let ledger = StatusLedger::start(question, Arc::clone(&epoch));
    let mut play = Play {
        stage,
        machines,
        ledger,
        epoch,
        lasting: Vec::new(),
        violations: Vec::new(),
    };
    let mut disturbances: Vec<&str> = plan.iter().map(|d| d.kind.name()).collect();
    play.disturb(&plan, log)?;
    play.settle(log)?;
    let lines = testimony::read(&play.stage.path("work/runs"))?;
    let sights = play.ledger.end();
    play.violations.append(&mut play.machines.crashes);
    let ended = "uncertain left-overs ended by the operator";
    disturbances.extend(std::iter::repeat_n(ended, play.machines.uncertain_ended));
    play.violations
        .extend(testimony::violations(&lines, &sights, TASKS));
    if sights.len() < LEAST_SIGHTS {
        play.violations.push(format!(
            "the scheduler answered only {} times",
            sights.len()
        ));
    }
    let Play {
        stage,
        machines,
        violations,
        ..
    } = play;
    drop(machines);
    let kept = (!violations.is_empty()).then(|| stage.keep());
    Ok(ChaosOutcome {
        disturbances,
        runs: lines.iter().filter(|line| line.what == "start").count(),
        took: started.elapsed(),
        violations,
        kept,
    })
}

/// Makes the folders readable, because programs may run as another user.
fn open_to_all(stage: &Stage) -> std::io::Result<()> {
    for folder in ["", "logs"] {
        fs::set_permissions(stage.path(folder), fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}

fn write_work(stage: &Stage) -> std::path::PathBuf {
    stage.write_script("work/bin/task.sh", include_str!("task.sh"));
    stage.write("work/pause", TASK_SECONDS);
    for folder in ["work", "work/locks", "work/helpers"] {
        fs::create_dir_all(stage.path(folder)).expect("a folder in a temporary folder");
        fs::set_permissions(stage.path(folder), fs::Permissions::from_mode(0o777))
            .expect("one's own folder");
    }
    let mut config = range_config(TASKS as usize, Some(2));
    config["bistro_settings"]["backoff"] = json!([1, "repeat"]);
    config["bistro_job->work"] = json!({ "owner": "chaos", "command": ["./bin/task.sh"] });
    stage.write("work/config.json", &format!("{config:#}"))
}

/// A run in progress.
struct Play {
    stage: Stage,
    machines: ChaosMachines,
    ledger: StatusLedger,
    /// Counts the lost stores. Completions shown before a loss need not last.
    epoch: Arc<AtomicU32>,
    lasting: Vec<(Instant, Lasting)>,
    violations: Vec<String>,
}

/// The state needed to end a disturbance.
enum Lasting {
    Stopped(Target),
    Log(Program),
    Full(Program),
    Unmounted(Program),
    Link(usize),
    Connections(Child),
}

impl Play {
    fn disturb(&mut self, plan: &[Disturbance], log: &mut dyn FnMut(&str)) -> Result<(), String> {
        self.wait_for_work()?;
        let began = Instant::now();
        for disturbance in plan {
            while began.elapsed() < disturbance.at {
                self.step()?;
            }
            log(&disturbance.to_string());
            self.begin(disturbance)?;
        }
        while !self.lasting.is_empty() {
            self.step()?;
        }
        Ok(())
    }

    /// Waits until the first tasks run.
    fn wait_for_work(&mut self) -> Result<(), String> {
        let began = Instant::now();
        while testimony::read(&self.stage.path("work/runs"))?.is_empty() {
            if began.elapsed() > SETTLE {
                return Err("no task ever started".to_owned());
            }
            self.step()?;
        }
        Ok(())
    }

    fn step(&mut self) -> Result<(), String> {
        std::thread::sleep(STEP);
        let now = Instant::now();
        let (over, lasting) = std::mem::take(&mut self.lasting)
            .into_iter()
            .partition(|(until, _)| *until <= now);
        self.lasting = lasting;
        let over: Vec<(Instant, Lasting)> = over;
        for (_, lasting) in over {
            self.end(lasting)?;
        }
        self.machines.tend(&self.stage);
        Ok(())
    }

    fn begin(&mut self, disturbance: &Disturbance) -> Result<(), String> {
        let lasting = match &disturbance.kind {
            DisturbanceKind::Kill(targets) => {
                self.machines.signal(targets, Signal::SIGKILL);
                None
            }
            DisturbanceKind::Stop(target) => {
                self.machines.signal(&[*target], Signal::SIGSTOP);
                Some(Lasting::Stopped(*target))
            }
            DisturbanceKind::StallLog(program) => {
                self.machines
                    .log(*program)
                    .stall()
                    .map_err(|error| error.to_string())?;
                Some(Lasting::Log(*program))
            }
            DisturbanceKind::CloseLog(program) => {
                self.machines.log(*program).close();
                Some(Lasting::Log(*program))
            }
            DisturbanceKind::FillDisk(program) => {
                self.machines.fill_disk(*program)?;
                Some(Lasting::Full(*program))
            }
            DisturbanceKind::Unmount(program) => {
                self.machines.unmount(*program);
                Some(Lasting::Unmounted(*program))
            }
            DisturbanceKind::CutLink(worker, direction) => {
                let (here, there) = (Program::Scheduler, Program::Worker(*worker));
                if *direction != Direction::ToScheduler {
                    self.machines.set_one_way(here, there, &LinkEffect::CUT);
                }
                if *direction != Direction::ToWorker {
                    self.machines.set_one_way(there, here, &LinkEffect::CUT);
                }
                Some(Lasting::Link(*worker))
            }
            DisturbanceKind::IdleConnections(program, count) => {
                let command = self.machines.connect_silently(*program, *count);
                let child = command.and_then(|mut command| command.spawn());
                Some(Lasting::Connections(
                    child.map_err(|error| error.to_string())?,
                ))
            }
            DisturbanceKind::JumpClock(program, seconds) => {
                let jumped = self.machines.jump_clock(*program, *seconds);
                jumped.map_err(|error| error.to_string())?;
                None
            }
            DisturbanceKind::DeleteStore(part) => {
                self.machines.delete_store(*part);
                self.wait_for_operator(*part)?;
                None
            }
            DisturbanceKind::TruncateStore => {
                self.machines
                    .signal(&[Target::Program(Program::Scheduler)], Signal::SIGKILL);
                self.machines.truncate_store();
                self.wait_for_operator(StorePart::Database)?;
                None
            }
        };
        if let Some(lasting) = lasting {
            self.lasting
                .push((Instant::now() + disturbance.lasts, lasting));
        }
        Ok(())
    }

    fn end(&mut self, lasting: Lasting) -> Result<(), String> {
        match lasting {
            Lasting::Stopped(target) => self.machines.signal(&[target], Signal::SIGCONT),
            Lasting::Log(program) => self.machines.log(program).heal(),
            Lasting::Full(program) => self.machines.free_disk(program),
            Lasting::Unmounted(program) => self.machines.remount(program)?,
            Lasting::Link(worker) => {
                let (here, there) = (Program::Scheduler, Program::Worker(worker));
                self.machines.set_one_way(here, there, &LinkEffect::GOOD);
                self.machines.set_one_way(there, here, &LinkEffect::GOOD);
            }
            Lasting::Connections(mut child) => {
                // The process may have ended by itself.
                let _ = child.kill();
                let _ = child.wait();
            }
        }
        Ok(())
    }

    /// Waits until a lost store is noticed: the scheduler reports an error, or refuses to start. Then the operator starts over. If only the
    /// log was deleted, a running scheduler saves its content; then nothing is lost, and the operator does nothing.
    fn wait_for_operator(&mut self, lost: StorePart) -> Result<(), String> {
        let may_be_saved = lost == StorePart::WriteAheadLog;
        let began = Instant::now();
        let mut noticed = false;
        while began.elapsed() < OPERATOR_PATIENCE && !noticed {
            self.step()?;
            noticed = self.machines.scheduler_refusals() > 0
                || !may_be_saved && self.ledger.reports_an_error();
        }
        if may_be_saved && !noticed && !self.ledger.reports_an_error() {
            return Ok(());
        }
        if !noticed {
            self.violations.push(format!(
                "a lost store was not reported within {OPERATOR_PATIENCE:?}"
            ));
        }
        // Completions of the lost store may be forgotten from here on.
        self.epoch.fetch_add(1, Ordering::SeqCst);
        self.machines
            .start_over()
            .map_err(|error| error.to_string())
    }

    /// Writes a list of all processes beside the logs, which shows why a task does not end.
    fn note_processes(&self) {
        let columns = "pid,ppid,pgid,sess,stat,wchan:24,lstart,args";
        let list = Command::new("ps").args(["-ewwo", columns]).output();
        let text = list.map_or_else(|error| error.to_string().into_bytes(), |list| list.stdout);
        // The verdict does not depend on the file.
        let _ = fs::write(self.stage.path("logs/processes"), text);
    }

    fn settle(&mut self, log: &mut dyn FnMut(&str)) -> Result<(), String> {
        log("all disturbances are over");
        self.machines.heal()?;
        let began = Instant::now();
        while self.ledger.last_done() != Some(TASKS) {
            if began.elapsed() > SETTLE {
                self.violations.push(format!(
                    "after {SETTLE:?} without disturbances {:?} of {TASKS} tasks are done; status: {}",
                    self.ledger.last_done(),
                    self.ledger.last_status()
                ));
                self.note_processes();
                return Ok(());
            }
            self.step()?;
        }
        Ok(())
    }
}

/// A thread that requests the scheduler's status, and remembers the completions that it showed.
struct StatusLedger {
    stop: Arc<AtomicBool>,
    seen: Arc<Mutex<SeenStatuses>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct SeenStatuses {
    sights: Vec<ShownCompletions>,
    last: Option<Value>,
}

impl StatusLedger {
    fn start(mut question: Command, epoch: Arc<AtomicU32>) -> Self {
        question.stdin(Stdio::null()).stderr(Stdio::null());
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::new(Mutex::new(SeenStatuses::default()));
        let (stopped, shared) = (Arc::clone(&stop), Arc::clone(&seen));
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::SeqCst) {
                // Read before the request: an answer in flight when the store is lost counts for the old store.
                let epoch = epoch.load(Ordering::SeqCst);
                let status = ask(&mut question);
                let mut seen = shared.lock().unwrap_or_else(PoisonError::into_inner);
                let done = status.as_ref().and_then(testimony::durably_done);
                seen.sights.extend(done.map(|done| ShownCompletions {
                    at: testimony::uptime(),
                    done,
                    epoch,
                }));
                seen.last = status;
                drop(seen);
                std::thread::park_timeout(ASK_EVERY);
            }
        });
        StatusLedger {
            stop,
            seen,
            thread: Some(thread),
        }
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, SeenStatuses> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn last_done(&self) -> Option<u64> {
        self.seen().last.as_ref().and_then(testimony::durably_done)
    }

    fn reports_an_error(&self) -> bool {
        let seen = self.seen();
        let errors = seen
            .last
            .as_ref()
            .and_then(|status| status["errors"].as_array());
        errors.is_some_and(|errors| !errors.is_empty())
    }

    fn last_status(&self) -> String {
        self.seen()
            .last
            .as_ref()
            .map_or_else(|| "none".to_owned(), Value::to_string)
    }

    fn end(&mut self) -> Vec<ShownCompletions> {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            thread.join().expect("the ledger's thread does not panic");
        }
        std::mem::take(&mut self.seen().sights)
    }
}

impl Drop for StatusLedger {
    fn drop(&mut self) {
        self.end();
    }
}

fn ask(question: &mut Command) -> Option<Value> {
    let output = question
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    serde_json::from_slice(&output.stdout).ok()
}
