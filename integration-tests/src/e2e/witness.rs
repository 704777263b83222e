//! Watches a scheduler during a test: a task once shown as done must stay done, and must not start again.

use std::ffi::OsString;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use serde_json::Value;

use super::records::RunRecords;

/// Interval of requests. Each starts a program, so more of them would load the machine without better results.
const ASK_EVERY: Duration = Duration::from_millis(250);

/// A command `brasserie status --json`, possibly on another host.
#[derive(Clone, Debug)]
pub(super) struct Question {
    program: OsString,
    arguments: Vec<OsString>,
}

impl Question {
    pub(super) fn new(command: &Command) -> Self {
        Question {
            program: command.get_program().to_owned(),
            arguments: command.get_args().map(OsString::from).collect(),
        }
    }

    /// Returns the status; `None` if there is no answer.
    pub(super) fn ask(&self) -> Option<Value> {
        let output = Command::new(&self.program)
            .args(&self.arguments)
            .stdin(Stdio::null())
            .output();
        let output = output.ok().filter(|output| output.status.success())?;
        serde_json::from_slice(&output.stdout).ok()
    }
}

/// One answer.
#[derive(Clone, Copy, Debug)]
struct WitnessSample {
    /// The time after the answer, since the epoch by this machine's clock, as in the tasks' records.
    at: Duration,
    /// The number of done tasks.
    done: usize,
}

/// A thread that requests the status repeatedly.
#[derive(Debug)]
pub(super) struct Witness {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<WitnessSample>>>,
}

impl Witness {
    pub(super) fn start(question: Question) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut sights = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                sights.extend(question.ask().as_ref().and_then(done).map(|done| {
                    WitnessSample {
                        at: SystemTime::now()
                            .duration_since(SystemTime::UNIX_EPOCH)
                            .expect("the clock is set"),
                        done,
                    }
                }));
                std::thread::park_timeout(ASK_EVERY);
            }
            sights
        });
        Witness {
            stop,
            thread: Some(thread),
        }
    }

    /// Stops the thread, and compares its answers with the records of the tasks.
    ///
    /// # Panics
    /// If a completion was forgotten or its task started again, or if there was no answer.
    pub(super) fn check(mut self, records: &RunRecords) {
        compare(&self.end(), records);
    }

    fn end(&mut self) -> Vec<WitnessSample> {
        self.stop.store(true, Ordering::Relaxed);
        let Some(thread) = self.thread.take() else {
            return Vec::new();
        };
        thread.thread().unpark();
        thread.join().expect("the witness does not panic")
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.end();
    }
}

fn done(status: &Value) -> Option<usize> {
    // A restarted scheduler has no counts before its nodes are loaded.
    if status["nodes_loaded"] != true {
        return None;
    }
    let jobs = status["jobs"].as_array()?;
    let done: u64 = jobs.iter().filter_map(|job| job["done"].as_u64()).sum();
    usize::try_from(done).ok()
}

fn compare(sights: &[WitnessSample], records: &RunRecords) {
    assert!(
        sights.len() > 1,
        "the scheduler was hardly ever seen: {sights:?}"
    );
    for pair in sights.windows(2) {
        assert!(
            pair[0].done <= pair[1].done,
            "{} tasks were done, then only {}",
            pair[0].done,
            pair[1].done
        );
    }
    let nodes = records.starts().len();
    for sight in sights {
        let mut started_later: Vec<&str> = records
            .runs
            .iter()
            .filter(|run| run.start > sight.at)
            .map(|run| run.node.as_str())
            .collect();
        started_later.sort_unstable();
        started_later.dedup();
        assert!(
            sight.done + started_later.len() <= nodes,
            "{} of {nodes} tasks were done, and {} were started later: {started_later:?}",
            sight.done,
            started_later.len()
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::e2e::RunRecord;

    const fn at(second: u64) -> Duration {
        Duration::from_secs(second)
    }

    fn run(node: &str, start: Duration) -> RunRecord {
        RunRecord {
            node: node.to_owned(),
            invocation: format!("{node} {start:?}"),
            place: "somewhere".into(),
            start,
            end: None,
        }
    }

    fn is_refused(done: [usize; 2], runs: &[RunRecord]) -> bool {
        let sights =
            [(at(2), done[0]), (at(4), done[1])].map(|(at, done)| WitnessSample { at, done });
        let records = RunRecords {
            runs: runs.to_vec(),
            overlaps: Vec::new(),
        };
        std::panic::catch_unwind(|| compare(&sights, &records)).is_err()
    }

    #[test]
    fn what_is_done_must_stay_done_and_must_not_start_again() {
        let good = [run("a", at(1)), run("b", at(3))];
        assert!(!is_refused([1, 2], &good));
        assert!(is_refused([1, 0], &good), "forgotten");
        assert!(
            is_refused([2, 2], &good),
            "one was started after both were done"
        );
        let again = [run("a", at(1)), run("b", at(1)), run("a", at(5))];
        assert!(!is_refused([1, 1], &again), "it was not done yet");
        assert!(is_refused([1, 2], &again), "started again");
    }
}
