//! What a person sees while a run goes on: a bar a job on a terminal, a plain line now and then elsewhere.

use std::io::IsTerminal as _;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use brasserie_common_runtime::log_writer::FLUSH_LIMIT;
use brasserie_thrift::generated::brasserie::{ClusterStatus, JobStatus};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::waiting;
use crate::output::{complain, duration, printable};

/// Between plain lines: often enough to see that something happens, seldom enough for a log file.
const PLAIN_LINE_EVERY: Duration = Duration::from_secs(10);

/// Shows how far each job is, on a thread of its own: a terminal that is stopped makes only that thread wait.
pub(super) struct Progress {
    /// The newest status; those that the thread had no time for are skipped.
    latest: watch::Sender<ClusterStatus>,
    finished: mpsc::Receiver<()>,
}

impl Progress {
    /// Call it inside of a runtime.
    pub(super) fn start() -> Self {
        let (latest, mut news) = watch::channel(ClusterStatus::default());
        let (done, finished) = mpsc::channel();
        let runtime = Handle::current();
        let work = move || {
            let mut display = Display::new();
            while runtime.block_on(news.changed()).is_ok() {
                let status = news.borrow_and_update().clone();
                display.show(&status);
            }
            display.finish();
            // An error means that nobody waits for the end of this thread any more.
            let _ = done.send(());
        };
        // Without a thread the run has no progress bars, and goes on.
        let _ = std::thread::Builder::new()
            .name("progress".to_owned())
            .spawn(work);
        Progress { latest, finished }
    }

    pub(super) fn show(&self, status: ClusterStatus) {
        self.latest.send_replace(status);
    }

    /// Waits until the last status is shown, at most as long as for the last lines of a log.
    pub(super) fn finish(self) {
        drop(self.latest);
        let _ = self.finished.recv_timeout(FLUSH_LIMIT);
    }
}

enum Display {
    Bars {
        all: MultiProgress,
        bars: Vec<(String, ProgressBar)>,
        wait: Option<ProgressBar>,
    },
    Lines {
        last: Instant,
        wait: Option<String>,
    },
}

impl Display {
    fn new() -> Self {
        if std::io::stderr().is_terminal() {
            Display::Bars {
                all: MultiProgress::new(),
                bars: Vec::new(),
                wait: None,
            }
        } else {
            Display::Lines {
                last: Instant::now(),
                wait: None,
            }
        }
    }

    fn show(&mut self, status: &ClusterStatus) {
        let jobs = status
            .jobs
            .iter()
            .flatten()
            .filter(|job| job.enabled.unwrap_or(false));
        match self {
            Display::Bars { all, bars, wait } => {
                show_wait(all, wait, status);
                for job in jobs {
                    show_bar(all, bars, job, status.wall_time_ms.unwrap_or(0));
                }
            }
            Display::Lines { last, wait } => {
                if status.initial_wait != *wait {
                    if let Some(text) = &status.initial_wait {
                        complain!("{text}");
                    }
                    wait.clone_from(&status.initial_wait);
                }
                if last.elapsed() >= PLAIN_LINE_EVERY {
                    *last = Instant::now();
                    let texts: Vec<String> = jobs
                        .map(|job| line(job, status.wall_time_ms.unwrap_or(0)))
                        .collect();
                    complain!("{}", texts.join("; "));
                }
            }
        }
    }

    fn finish(&mut self) {
        if let Display::Bars { all, bars, wait } = self {
            for (_, bar) in bars {
                bar.abandon();
            }
            if let Some(wait) = wait.take() {
                wait.finish_and_clear();
            }
            all.set_move_cursor(false);
        }
    }
}

fn show_wait(all: &MultiProgress, wait: &mut Option<ProgressBar>, status: &ClusterStatus) {
    match (&status.initial_wait, &*wait) {
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

fn show_bar(
    all: &MultiProgress,
    bars: &mut Vec<(String, ProgressBar)>,
    job: &JobStatus,
    wall_ms: i64,
) {
    let name = job.name.clone().unwrap_or_default();
    if !bars.iter().any(|(known, _)| *known == name) {
        let bar = all.add(ProgressBar::new(0));
        let style = ProgressStyle::with_template("{prefix:>16} [{bar:32}] {pos}/{len} {msg}");
        bar.set_style(
            style
                .unwrap_or_else(|_| ProgressStyle::default_bar())
                .progress_chars("=> "),
        );
        bar.set_prefix(printable(&name));
        bars.push((name.clone(), bar));
    }
    let Some((_, bar)) = bars.iter().find(|(known, _)| *known == name) else {
        return;
    };
    let unsigned = |n: Option<i64>| u64::try_from(n.unwrap_or(0)).unwrap_or(0);
    bar.set_length(unsigned(job.total));
    bar.set_position(unsigned(job.done) + unsigned(job.failed) + unsigned(job.infeasible));
    bar.set_message(details(job, wall_ms));
}

/// `3 running, 2 failed, 1 in backoff for 4.0 s`
fn details(job: &JobStatus, wall_ms: i64) -> String {
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
        let until = job
            .next_backoff_end_ms
            .unwrap_or(wall_ms)
            .saturating_sub(wall_ms);
        let left = duration(Duration::from_millis(u64::try_from(until).unwrap_or(0)));
        parts.push(format!("{n} in backoff, the first for {left} more"));
    }
    parts.join(", ")
}

fn line(job: &JobStatus, wall_ms: i64) -> String {
    let details = details(job, wall_ms);
    let details = if details.is_empty() {
        details
    } else {
        format!(" ({details})")
    };
    let name = printable(job.name.as_deref().unwrap_or_default());
    format!(
        "{name}: {} of {} done, {} waiting{details}",
        job.done.unwrap_or(0),
        job.total.unwrap_or(0),
        waiting(job)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backoff_says_until_when() {
        let job = JobStatus {
            in_backoff: Some(2),
            next_backoff_end_ms: Some(3_000),
            running: Some(1),
            ..JobStatus::default()
        };
        assert_eq!(
            details(&job, 1_000),
            "1 running, 2 in backoff, the first for 2.0 s more"
        );
    }

    #[test]
    fn a_name_stays_in_its_line() {
        let job = JobStatus {
            name: Some("j\u{1b}[2J\nk".to_owned()),
            ..JobStatus::default()
        };
        assert_eq!(line(&job, 0), r"j\u{1b}[2J\nk: 0 of 0 done, 0 waiting");
    }
}
