//! Shows the progress of a run: task output, and below it one bar for each job on a terminal, or plain lines elsewhere.

use std::collections::BTreeSet;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use brasserie_common::logs::LineId;
use brasserie_common::text::readable_bytes;
use brasserie_common_runtime::log_writer::FLUSH_LIMIT;
use brasserie_common_runtime::telemetry;
use brasserie_scheduler::{LACKS_INPUT, STORE_FAILS};
use brasserie_thrift::generated::brasserie::{ClusterStatus, JobStatus};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use nix::sys::statvfs::statvfs;
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

use super::output::{PrintedOutput, Printer};
use super::rate::{self, Rate};
use super::settings::ENDS_RETRIES;
use super::{next_retry, waiting_or_in_backoff};
use crate::data_dir::log_folder;
use crate::output::{duration, printable};

/// Time between two reads of task output: short enough for a person, long enough to read little each time.
const READ_EVERY: Duration = Duration::from_millis(50);
/// Shortest time between plain lines.
const PLAIN_LINE_EVERY: Duration = Duration::from_secs(10);
/// The time between plain lines is the run's age divided by this number, so that a long run does not fill a log.
const PARTS_OF_RUN: u32 = 10;
/// Longest time between plain lines: continuous integration systems kill a job after ten minutes without output.
const MAX_PLAIN_PAUSE: Duration = Duration::from_secs(300);
/// Limit for the number of bars, half of a small terminal. More jobs share one bar.
const MAX_ROWS: usize = 10;
/// Width of a bar in characters.
const BAR_WIDTH: usize = 16;
/// Limit for the characters of a job's name before its bar.
const MAX_NAME: usize = 16;

/// The input of the display thread.
#[derive(Clone, Debug, Default)]
struct Shown {
    /// `None`: the number of tasks decides, and is not known yet.
    output: Option<PrintedOutput>,
    /// The newest status; the thread may skip older ones.
    status: ClusterStatus,
    /// All messages of the run, at most a few. The thread counts those that it has printed.
    messages: Vec<String>,
    phase: RunPhase,
    /// The last line of the run; `None` while it runs, and if its logs cannot be read.
    last_line: Option<LineId>,
}

/// ```text
/// Running --the jobs have ended, or the run is interrupted--> Ending --the worker has ended--> Over
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum RunPhase {
    #[default]
    Running,
    /// Bars no longer change; tasks may still write output.
    Ending,
    /// No more output and no more messages follow.
    Over,
}

/// Shows each job's progress and prints task output on a separate thread, so that a stopped terminal blocks only that thread.
pub(super) struct ProgressDisplay {
    shown: watch::Sender<Shown>,
    /// `None` once the display thread has drawn the final bars; until then its terminal may block it.
    bars_over: Option<oneshot::Receiver<()>>,
    over: oneshot::Receiver<()>,
}

impl ProgressDisplay {
    /// Call it inside of a runtime. `output` is the choice of the command line, and `directory` the run's data directory.
    /// `endless` are the jobs without a limit of retries.
    pub(super) fn start(
        printer: Printer,
        output: Option<PrintedOutput>,
        directory: PathBuf,
        endless: BTreeSet<String>,
    ) -> Self {
        let (shown, news) = watch::channel(Shown {
            output,
            ..Shown::default()
        });
        let (tell_bars_over, bars_over) = oneshot::channel();
        let (tell_over, over) = oneshot::channel();
        let thread = Thread {
            runtime: Handle::current(),
            news,
            printer,
            display: Display::new(directory, endless),
            messages_printed: 0,
            tell_bars_over: Some(tell_bars_over),
        };
        // The run continues without a thread, but shows neither bars nor output.
        let _ = std::thread::Builder::new()
            .name("progress".to_owned())
            .spawn(move || {
                thread.run();
                tell_over.send(())
            });
        ProgressDisplay {
            shown,
            bars_over: Some(bars_over),
            over,
        }
    }

    pub(super) fn show(&self, status: ClusterStatus) {
        self.shown.send_modify(|shown| {
            shown.output = PrintedOutput::decided(shown.output, &status);
            shown.status = status;
        });
    }

    /// Returns the retries that the last status has left.
    pub(super) fn retries_left(&self) -> Option<Retries> {
        Retries::of(&self.shown.borrow().status)
    }

    /// Prints a message above the bars.
    pub(super) fn say(&self, message: String) {
        self.shown.send_modify(|shown| shown.messages.push(message));
    }

    /// Waits until the last status is shown, at most as long as for the last lines of a log.
    pub(super) async fn end_bars(&mut self) {
        self.shown
            .send_modify(|shown| shown.phase = RunPhase::Ending);
        self.wait_for_bars().await;
    }

    /// Waits until all task output is printed, however slow its readers are. For the bars alone, waits no longer than
    /// [`ProgressDisplay::end_bars`]. Returns the chosen output. Lines after `last_line` are of a later run in the same directory.
    pub(super) async fn finish(mut self, last_line: Option<LineId>) -> Option<PrintedOutput> {
        self.shown.send_modify(|shown| {
            shown.phase = RunPhase::Over;
            shown.last_line = last_line;
        });
        let output = self.shown.borrow().output;
        if output != Some(PrintedOutput::All) {
            self.wait_for_bars().await;
        }
        if output == Some(PrintedOutput::All) || self.bars_over.is_none() {
            // An error means that there is no thread.
            let _ = self.over.await;
        }
        output
    }

    async fn wait_for_bars(&mut self) {
        if let Some(bars_over) = &mut self.bars_over
            && timeout(FLUSH_LIMIT, bars_over).await.is_ok()
        {
            self.bars_over = None;
        }
    }
}

/// The state of the display thread.
struct Thread {
    runtime: Handle,
    news: watch::Receiver<Shown>,
    printer: Printer,
    display: Display,
    messages_printed: usize,
    /// Sends once the bars are final, then is `None`.
    tell_bars_over: Option<oneshot::Sender<()>>,
}

impl Thread {
    fn run(mut self) {
        loop {
            let news = &mut self.news;
            // `timeout` needs the runtime, so it is called inside of the future.
            let changed = async { timeout(READ_EVERY, news.changed()).await };
            let changed = self.runtime.block_on(changed);
            let is_new = match changed {
                Ok(Ok(())) => true,
                Err(_) => false,
                // The run has failed for another reason.
                Ok(Err(_)) => return,
            };
            let Shown {
                output,
                status,
                messages,
                phase,
                last_line,
            } = self.news.borrow_and_update().clone();
            self.printer.choose(output);
            self.printer.end_at(last_line);
            self.print_news();
            self.print_messages(&messages);
            match phase {
                RunPhase::Running if is_new => self.display.show(&status),
                RunPhase::Running => {}
                RunPhase::Ending | RunPhase::Over => self.end_bars(&status),
            }
            if phase == RunPhase::Over {
                while self.print_news() {}
                return;
            }
        }
    }

    /// Prints new task output. Returns whether there was any.
    fn print_news(&mut self) -> bool {
        let news = self.printer.next();
        let is_something = !news.is_empty();
        if is_something {
            let printer = &mut self.printer;
            self.display.hide_bars_for(|| printer.print(news));
        }
        is_something
    }

    fn print_messages(&mut self, messages: &[String]) {
        let new = messages.get(self.messages_printed..).unwrap_or_default();
        self.messages_printed = messages.len();
        for message in new {
            self.display
                .hide_bars_for(|| telemetry::print_error(message.trim_end()));
        }
    }

    fn end_bars(&mut self, status: &ClusterStatus) {
        if let Some(tell) = self.tell_bars_over.take() {
            self.display.show(status);
            self.display.finish();
            // An error means that the receiver no longer waits.
            let _ = tell.send(());
        }
    }
}

/// The line of one job, or of all jobs together.
struct Row {
    job: JobStatus,
    name: String,
    rate: Rate,
    bar: Option<ProgressBar>,
}

/// The tasks that wait for a retry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Retries {
    pub tasks: u64,
    /// The time until the first of them may run again.
    pub next: Duration,
    /// The jobs of these tasks.
    pub jobs: Vec<String>,
}

impl Retries {
    /// Returns `None` if no task of an enabled job waits for a retry.
    fn of(status: &ClusterStatus) -> Option<Self> {
        let jobs = status.jobs.iter().flatten();
        let jobs: Vec<&JobStatus> = jobs
            .filter(|job| job.enabled.unwrap_or(false) && unsigned(job.in_backoff) > 0)
            .collect();
        let retries = jobs.iter().map(|job| next_retry(job, status.wall_time_ms));
        Some(Retries {
            next: retries.min()?,
            tasks: jobs.iter().map(|job| unsigned(job.in_backoff)).sum(),
            jobs: jobs.iter().filter_map(|job| job.name.clone()).collect(),
        })
    }
}

struct Display {
    /// The run's data directory.
    directory: PathBuf,
    /// The jobs without a limit of retries.
    endless: BTreeSet<String>,
    rows: Vec<Row>,
    kind: DisplayKind,
    /// Why no task starts, as last shown.
    wait: Option<WaitReason>,
}

/// A reason why no task starts.
#[derive(Clone, Debug, PartialEq, Eq)]
enum WaitReason {
    /// Workers of an earlier run may be alive.
    Initial(String),
    /// The store fails.
    Store(String),
    /// Nothing runs, and tasks lack an input, such as a file.
    Input(String),
    /// Nothing runs, and a job without a limit of retries has tasks in backoff.
    Retries,
}

impl WaitReason {
    fn of(status: &ClusterStatus, endless: &BTreeSet<String>) -> Option<Self> {
        let mut reasons = status.nothing_starts.iter().flatten();
        let store = reasons.find(|reason| reason.starts_with(STORE_FAILS));
        let store = store.map(|reason| WaitReason::Store(reason.clone()));
        let initial = || status.initial_wait.clone().map(WaitReason::Initial);
        let runs = |job: &JobStatus| unsigned(job.running) > 0;
        let is_idle = !status.jobs.iter().flatten().any(runs);
        let input = || {
            let mut errors = status.errors.iter().flatten().filter(|_| is_idle);
            let why = errors.find_map(|error| error.split_once(LACKS_INPUT))?.1;
            Some(WaitReason::Input(why.to_owned()))
        };
        store.or_else(initial).or_else(input).or_else(|| {
            let is_endless =
                |retries: &Retries| retries.jobs.iter().any(|job| endless.contains(job));
            let retries = Retries::of(status).filter(is_endless);
            retries.filter(|_| is_idle).map(|_| WaitReason::Retries)
        })
    }

    fn reason(&self) -> String {
        match self {
            WaitReason::Initial(reason) | WaitReason::Store(reason) => reason.clone(),
            WaitReason::Input(why) => format!("tasks wait for an input: {why}"),
            WaitReason::Retries => {
                format!(
                    "nothing runs until the next retry, and retries have no end: {ENDS_RETRIES}"
                )
            }
        }
    }

    /// Returns the message for a log, or for a terminal above a bar with the reason. Reads the disk of `directory`.
    fn message(&self, directory: &Path, is_terminal: bool) -> Option<String> {
        match self {
            WaitReason::Initial(_) if is_terminal => None,
            // The plain lines have the reason, and so does the bar.
            WaitReason::Input(_) | WaitReason::Retries => None,
            WaitReason::Initial(reason) => Some(reason.clone()),
            WaitReason::Store(reason) => Some(format!(
                "brasserie: the run stands still: {reason}.{}",
                room_on_disk(directory).unwrap_or_default()
            )),
        }
    }
}

/// Returns sentences that say how full the disk of a run's data directory is, and what to do; `None` for an unreadable disk.
fn room_on_disk(directory: &Path) -> Option<String> {
    let disk = statvfs(directory).ok()?;
    let folder = log_folder(directory);
    let logs = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    let logs = logs.filter_map(|file| file.metadata().ok());
    let logs: u64 = logs.map(|file| file.len()).sum();
    Some(format!(
        " The disk of {} has {} of {} free; logged task output takes {} of it ({}). If the disk is full, make room there, and the run \
         goes on by itself; or end the run, and name a --data-dir on a larger disk",
        directory.display(),
        readable_bytes(disk.blocks_available() * disk.fragment_size()),
        readable_bytes(disk.blocks() * disk.fragment_size()),
        readable_bytes(logs),
        folder.display()
    ))
}

enum DisplayKind {
    Bars {
        all: MultiProgress,
        wait: Option<ProgressBar>,
    },
    Lines {
        start: Instant,
        last: Instant,
    },
}

impl Display {
    fn new(directory: PathBuf, endless: BTreeSet<String>) -> Self {
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let kind = match std::io::stderr().is_terminal() && !is_dumb {
            true => DisplayKind::Bars {
                all: MultiProgress::new(),
                wait: None,
            },
            false => DisplayKind::Lines {
                start: Instant::now(),
                last: Instant::now(),
            },
        };
        Display {
            directory,
            endless,
            rows: Vec::new(),
            kind,
            wait: None,
        }
    }

    fn show(&mut self, status: &ClusterStatus) {
        self.update_rows(status);
        self.show_wait(WaitReason::of(status, &self.endless));
        let wall_ms = status.wall_time_ms.unwrap_or(0);
        match &mut self.kind {
            DisplayKind::Bars { all, wait: _ } => {
                let lengths = self.rows.iter().map(|row| row.name.chars().count());
                let name_width = lengths.max().unwrap_or(0).min(MAX_NAME);
                for row in &mut self.rows {
                    let bar = row.bar.get_or_insert_with(|| all.add(new_bar()));
                    bar.set_message(bar_text(
                        &row.job,
                        (&row.name, name_width),
                        &row.rate,
                        wall_ms,
                    ));
                }
            }
            DisplayKind::Lines { start, last } => {
                if last.elapsed() >= plain_pause(start.elapsed()) {
                    *last = Instant::now();
                    let line = |row: &Row| line(&row.job, &row.name, &row.rate, wall_ms);
                    let mut texts: Vec<String> = self.rows.iter().map(line).collect();
                    if let Some(
                        wait @ (WaitReason::Store(_) | WaitReason::Input(_) | WaitReason::Retries),
                    ) = &self.wait
                    {
                        texts.push(wait.reason());
                    }
                    telemetry::print_error(&texts.join("; "));
                }
            }
        }
    }

    /// Shows why no task starts: on a terminal above the bars while it lasts, elsewhere once.
    fn show_wait(&mut self, wait: Option<WaitReason>) {
        let is_terminal = match &mut self.kind {
            DisplayKind::Bars { all, wait: bar } => {
                let reason = wait.as_ref().map(WaitReason::reason);
                show_reason(all, bar, reason.as_deref());
                true
            }
            DisplayKind::Lines { .. } => false,
        };
        if wait == self.wait {
            return;
        }
        let message = match (&wait, &self.wait) {
            (Some(wait @ (WaitReason::Initial(_) | WaitReason::Store(_))), _) => {
                wait.message(&self.directory, is_terminal)
            }
            (
                None | Some(WaitReason::Input(_) | WaitReason::Retries),
                Some(WaitReason::Store(_)),
            ) => Some("brasserie: the run goes on".to_owned()),
            (
                None | Some(WaitReason::Input(_) | WaitReason::Retries),
                Some(WaitReason::Initial(_) | WaitReason::Input(_) | WaitReason::Retries) | None,
            ) => None,
        };
        if let Some(message) = message {
            self.hide_bars_for(|| telemetry::print_error(&message));
        }
        self.wait = wait;
    }

    fn update_rows(&mut self, status: &ClusterStatus) {
        if !status.nodes_loaded.unwrap_or(false) {
            return;
        }
        let now = Instant::now();
        let jobs = rows_of(status);
        for (at, job) in jobs.into_iter().enumerate() {
            let (ended, name) = (ended(&job), job.name.clone().unwrap_or_default());
            match self.rows.get_mut(at) {
                // The jobs of a run never change, and neither does their order.
                Some(row) => {
                    row.rate.note(now, ended);
                    row.job = job;
                }
                None => self.rows.push(Row {
                    job,
                    name: printable(&name),
                    rate: Rate::new(now, ended),
                    bar: None,
                }),
            }
        }
    }

    /// Calls `print` while the bars are hidden.
    fn hide_bars_for(&self, print: impl FnOnce()) {
        match &self.kind {
            DisplayKind::Bars { all, .. } => all.suspend(print),
            DisplayKind::Lines { .. } => print(),
        }
    }

    fn finish(&mut self) {
        for bar in self.rows.iter().filter_map(|row| row.bar.as_ref()) {
            bar.abandon();
        }
        if let DisplayKind::Bars { all, wait } = &mut self.kind {
            if let Some(wait) = wait.take() {
                wait.finish_and_clear();
            }
            all.set_move_cursor(false);
        }
    }
}

/// Returns the time from one plain line to the next, in a run of this age.
pub(crate) fn plain_pause(age: Duration) -> Duration {
    (age / PARTS_OF_RUN).clamp(PLAIN_LINE_EVERY, MAX_PLAIN_PAUSE)
}

/// Returns the enabled jobs, or one job with the sums of all if they are more than [`MAX_ROWS`].
fn rows_of(status: &ClusterStatus) -> Vec<JobStatus> {
    let jobs = status.jobs.iter().flatten();
    let enabled: Vec<&JobStatus> = jobs.filter(|job| job.enabled.unwrap_or(false)).collect();
    if enabled.len() <= MAX_ROWS {
        return enabled.into_iter().cloned().collect();
    }
    let mut all = JobStatus {
        name: Some(format!("all {} jobs", enabled.len())),
        ..JobStatus::default()
    };
    for job in enabled {
        let counts = [
            (&mut all.total, job.total),
            (&mut all.unstarted, job.unstarted),
            (&mut all.running, job.running),
            (&mut all.done, job.done),
            (&mut all.incomplete, job.incomplete),
            (&mut all.error, job.error),
            (&mut all.in_backoff, job.in_backoff),
            (&mut all.failed, job.failed),
            (&mut all.infeasible, job.infeasible),
        ];
        for (sum, count) in counts {
            *sum = Some(sum.unwrap_or(0) + count.unwrap_or(0));
        }
        let ends = [all.next_backoff_end_ms, job.next_backoff_end_ms];
        all.next_backoff_end_ms = ends.into_iter().flatten().min();
    }
    vec![all]
}

fn unsigned(n: Option<i64>) -> u64 {
    u64::try_from(n.unwrap_or(0)).unwrap_or(0)
}

/// Returns the number of tasks that are done or have failed for good.
pub(crate) fn ended(job: &JobStatus) -> u64 {
    unsigned(job.done) + unsigned(job.failed)
}

/// Shows the reason why no task starts in a bar above the others; `None` removes the bar.
fn show_reason(all: &MultiProgress, wait: &mut Option<ProgressBar>, reason: Option<&str>) {
    match (reason, &*wait) {
        (Some(text), Some(bar)) => bar.set_message(printable(text)),
        (Some(text), None) => {
            let bar = all.insert(0, ProgressBar::new_spinner());
            bar.set_message(printable(text));
            *wait = Some(bar);
        }
        (None, Some(bar)) => {
            bar.finish_and_clear();
            *wait = None;
        }
        (None, None) => {}
    }
}

/// Returns a bar that consists of text only, cut to the width of the terminal.
fn new_bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{wide_msg}");
    ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// Formats a bar, as in `convert [=======>        ] 70/150, 12.0/s, 6.7 s left, 3 running`. Names are padded to the same width.
fn bar_text(
    job: &JobStatus,
    (name, name_width): (&str, usize),
    rate: &Rate,
    wall_ms: i64,
) -> String {
    let total = unsigned(job.total);
    let over = ended(job) + unsigned(job.infeasible);
    let filled = match total {
        0 => BAR_WIDTH,
        total => usize::try_from(over.min(total) * BAR_WIDTH as u64 / total).unwrap_or(0),
    };
    let mut bar = "=".repeat(filled);
    if filled < BAR_WIDTH {
        bar.push('>');
    }
    let name: String = name.chars().take(name_width).collect();
    let counts = format!("{name:>name_width$} [{bar:BAR_WIDTH$}] {over}/{total}");
    let parts = speed(job, rate).into_iter().chain(details(job, wall_ms));
    [counts]
        .into_iter()
        .chain(parts)
        .collect::<Vec<_>>()
        .join(", ")
}

/// Returns the rate and the time left, as in `12.0/s` and `6.7 s left`; empty if no task is left. The time is unknown if all tasks that are
/// left are in backoff: the waits decide it, and not the rate.
pub(crate) fn speed(job: &JobStatus, rate: &Rate) -> Vec<String> {
    let left = unsigned(job.total).saturating_sub(ended(job) + unsigned(job.infeasible));
    let Some(per_second) = rate.per_second().filter(|_| left > 0) else {
        return Vec::new();
    };
    let only_waits = unsigned(job.in_backoff) >= left;
    let time = rate.time_for(left).filter(|_| !only_waits);
    let time = time.map(|time| format!("{} left", duration(time)));
    [rate::text(per_second)].into_iter().chain(time).collect()
}

/// Returns the counts of states, as in `3 running`, `2 failed` and `1 in backoff, the first for 4.0 s more`.
fn details(job: &JobStatus, wall_ms: i64) -> Vec<String> {
    let mut parts = Vec::new();
    let mut part = |n: Option<i64>, word: &str| {
        if let Some(n) = n.filter(|&n| n > 0) {
            parts.push(format!("{n} {word}"));
        }
    };
    part(job.running, "running");
    part(job.failed, "failed");
    part(job.infeasible, "can never run");
    if let Some(n) = job.in_backoff.filter(|&n| n > 0) {
        let left = duration(next_retry(job, Some(wall_ms)));
        parts.push(format!("{n} in backoff, the first for {left} more"));
    }
    parts
}

fn line(job: &JobStatus, name: &str, rate: &Rate, wall_ms: i64) -> String {
    let mut parts = speed(job, rate);
    parts.extend(details(job, wall_ms));
    let details = match parts.is_empty() {
        true => String::new(),
        false => format!(" ({})", parts.join(", ")),
    };
    format!(
        "{name}: {} of {} done, {} waiting{details}",
        job.done.unwrap_or(0),
        job.total.unwrap_or(0),
        waiting_or_in_backoff(job)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn no_rate() -> Rate {
        Rate::new(Instant::now(), 0)
    }

    #[test]
    fn a_backoff_says_until_when() {
        let job = JobStatus {
            in_backoff: Some(2),
            next_backoff_end_ms: Some(3_000),
            running: Some(1),
            ..JobStatus::default()
        };
        assert_eq!(
            details(&job, 1_000).join(", "),
            "1 running, 2 in backoff, the first for 2.0 s more"
        );
    }

    #[test]
    fn retries_without_end_are_named_while_nothing_runs() {
        let job = |running| JobStatus {
            name: Some("j".to_owned()),
            enabled: Some(true),
            in_backoff: Some(2),
            next_backoff_end_ms: Some(3_000),
            running: Some(running),
            ..JobStatus::default()
        };
        let status = |running| ClusterStatus {
            jobs: Some(vec![job(running)]),
            wall_time_ms: Some(1_000),
            ..ClusterStatus::default()
        };
        let endless = BTreeSet::from(["j".to_owned()]);
        let wait = WaitReason::of(&status(0), &endless).expect("it waits");
        for way in ["--no-retry", "`retries`", "\"fail\"", "`backoff`"] {
            assert!(wait.reason().contains(way), "{}", wait.reason());
        }
        assert_eq!(WaitReason::of(&status(1), &endless), None);
        assert_eq!(WaitReason::of(&status(0), &BTreeSet::new()), None);
        let retries = Retries::of(&status(1)).expect("two tasks wait");
        assert_eq!((retries.tasks, retries.next.as_secs()), (2, 2));
    }

    #[test]
    fn a_missing_input_is_named_while_nothing_runs() {
        let status = |running| ClusterStatus {
            jobs: Some(vec![JobStatus {
                running: Some(running),
                ..JobStatus::default()
            }]),
            errors: Some(vec![
                "3s ago: read on a lacks an input: there is no file `x`".to_owned(),
            ]),
            ..ClusterStatus::default()
        };
        let wait = WaitReason::of(&status(0), &BTreeSet::new()).expect("it waits");
        let expected = "tasks wait for an input: there is no file `x`";
        assert_eq!(wait.reason(), expected);
        assert_eq!(WaitReason::of(&status(1), &BTreeSet::new()), None);
    }

    #[test]
    fn a_bar_shows_the_count_the_rate_and_the_time_left() {
        let mut job = JobStatus {
            total: Some(150),
            done: Some(68),
            failed: Some(2),
            ..JobStatus::default()
        };
        let start = Instant::now();
        let mut rate = Rate::new(start, 0);
        rate.note(start + Duration::from_secs(7), 70);
        assert_eq!(
            bar_text(&job, ("a-name-longer-than-its-room", 16), &rate, 0),
            "a-name-longer-th [=======>        ] 70/150, 10.0/s, 8.0 s left, 2 failed"
        );
        assert_eq!(
            line(&job, "j", &rate, 0),
            "j: 68 of 150 done, 0 waiting (10.0/s, 8.0 s left, 2 failed)"
        );
        job.done = Some(148);
        assert_eq!(
            bar_text(&job, ("j", 3), &rate, 0),
            "  j [================] 150/150, 2 failed"
        );
    }

    #[test]
    fn many_jobs_share_a_line() {
        let status = |jobs: i64| {
            let job = |n| JobStatus {
                name: Some(format!("j{n}\u{1b}[2J")),
                enabled: Some(true),
                total: Some(n),
                running: Some(1),
                ..JobStatus::default()
            };
            ClusterStatus {
                jobs: Some((1..=jobs).map(job).collect()),
                nodes_loaded: Some(true),
                ..ClusterStatus::default()
            }
        };
        assert_eq!(rows_of(&status(10)).len(), 10);
        let [all] = &*rows_of(&status(100)) else {
            panic!("more than one");
        };
        let name = all.name.as_deref().unwrap_or_default();
        let text = line(all, name, &no_rate(), 0);
        assert_eq!(
            text,
            "all 100 jobs: 0 of 5050 done, 0 waiting (100 running)"
        );
        let mut display = Display::new(PathBuf::new(), BTreeSet::new());
        display.update_rows(&status(1));
        assert_eq!(display.rows[0].name, r"j1\u{1b}[2J", "it stays in its line");
    }

    #[test]
    fn a_day_of_plain_lines_fills_no_log() {
        let day = Duration::from_secs(86_400);
        let (mut age, mut lines) = (Duration::ZERO, 0);
        while age < day {
            age += plain_pause(age);
            lines += 1;
        }
        assert!((100..400).contains(&lines), "{lines}");
    }
}
