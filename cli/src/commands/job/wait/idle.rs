//! Says why no task of the awaited jobs runs, once for each reason.

use std::time::{Duration, Instant};

use brasserie_thrift::generated::brasserie::{ClusterStatus, JobStatus};

use super::waiting;
use crate::output::{shell_word, with_flag};

/// Time between two questions for the reason. The status of a big cluster costs its scheduler milliseconds.
const ASK_EVERY: Duration = Duration::from_secs(5);
/// Time without a running task after which the wait names the command that explains a job. Between two tasks of a job, none runs for a
/// moment.
const NAMES_COMMAND_AFTER: Duration = Duration::from_secs(9);
/// Units of durations in sentences.
const UNITS: [&str; 5] = ["ms", "s", "min", "h", "d"];

/// The time without a running task, and the reason that was printed last.
pub(super) struct Idle {
    /// The flag that names the scheduler to another command, with a space before it; empty for the default.
    flag: String,
    /// `None` while a task runs.
    since: Option<Instant>,
    asked: Option<Instant>,
    /// The last reason, without its durations.
    told: String,
}

impl Idle {
    pub(super) fn new(flag: String) -> Self {
        Idle {
            flag,
            since: None,
            asked: None,
            told: String::new(),
        }
    }

    /// Returns whether it is time to ask the scheduler why no task runs.
    pub(super) fn wants_status(&mut self, now: Instant, jobs: &[JobStatus]) -> bool {
        if jobs.iter().any(|job| job.running.unwrap_or(0) > 0) {
            self.since = None;
            self.told.clear();
            return false;
        }
        self.since.get_or_insert(now);
        let is_due = self.asked.is_none_or(|asked| now - asked >= ASK_EVERY);
        if is_due {
            self.asked = Some(now);
        }
        is_due
    }

    /// Returns the reason why no task runs, unless it was the last one.
    pub(super) fn news(
        &mut self,
        now: Instant,
        jobs: &[JobStatus],
        status: &ClusterStatus,
    ) -> Option<String> {
        let text = self.why_nothing_starts(status).or_else(|| {
            let idle_for = self.since.map(|since| now - since);
            let job = idle_for.filter(|idle_for| *idle_for >= NAMES_COMMAND_AFTER);
            job.and_then(|_| self.command_for(jobs))
        })?;
        let reason = without_durations(&text);
        if reason == self.told {
            return None;
        }
        self.told = reason;
        Some(text)
    }

    fn why_nothing_starts(&self, status: &ClusterStatus) -> Option<String> {
        let reasons = status.nothing_starts.as_ref()?;
        let text = format!("no task starts: {}", reasons.join("; "));
        (!reasons.is_empty()).then(|| with_flag(&text, &self.flag))
    }

    /// Names the command that explains the first job with waiting tasks. A held job has its reason in its progress.
    fn command_for(&self, jobs: &[JobStatus]) -> Option<String> {
        let waits = |job: &&JobStatus| job.enabled == Some(true) && waiting(job) > 0;
        let job = jobs.iter().find(waits)?;
        let name = shell_word(job.name.as_deref()?);
        let flag = &self.flag;
        Some(format!(
            "no task runs; `brasserie explain {name}{flag}` shows why"
        ))
    }
}

/// Removes the durations of a sentence, such as the time left of the initial wait, which differ each time.
fn without_durations(text: &str) -> String {
    let is_duration = |word: &&str| {
        let unit = word.trim_end_matches(|c: char| c.is_ascii_punctuation());
        word.starts_with(|c: char| c.is_ascii_digit()) || UNITS.contains(&unit)
    };
    let words = text.split(' ').filter(|word| !is_duration(word));
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(running: i64) -> JobStatus {
        JobStatus {
            name: Some("the dump".to_owned()),
            enabled: Some(true),
            running: Some(running),
            unstarted: Some(1),
            ..JobStatus::default()
        }
    }

    fn held(why: &str) -> ClusterStatus {
        ClusterStatus {
            nothing_starts: Some(vec![why.to_owned()]),
            ..ClusterStatus::default()
        }
    }

    #[test]
    fn a_reason_is_printed_once_whatever_time_is_left_of_it() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut idle = Idle::new(" --scheduler h:1".to_owned());
        let jobs = [job(0)];
        assert!(idle.wants_status(at(0), &jobs));
        assert!(!idle.wants_status(at(1), &jobs), "a moment ago");
        assert!(idle.wants_status(at(5), &jobs));
        let long = held("initial wait: nothing starts for up to 11 min 35 s: it is new");
        let told = idle.news(at(5), &jobs, &long);
        let text = "no task starts: initial wait: nothing starts for up to 11 min 35 s: it is new";
        assert_eq!(told.as_deref(), Some(text));
        let short = held("initial wait: nothing starts for up to 7.5 s: it is new");
        assert_eq!(idle.news(at(6), &jobs, &short), None);
        let other = held("no nodes; `brasserie status` shows more");
        let told = idle.news(at(7), &jobs, &other);
        let text = "no task starts: no nodes; `brasserie status --scheduler h:1` shows more";
        assert_eq!(told.as_deref(), Some(text));
    }

    #[test]
    fn jobs_that_wait_for_long_are_explained_by_another_command() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut idle = Idle::new(String::new());
        let may_start = ClusterStatus {
            nothing_starts: Some(Vec::new()),
            ..ClusterStatus::default()
        };
        let jobs = [job(0)];
        assert!(idle.wants_status(at(0), &jobs));
        assert_eq!(idle.news(at(0), &jobs, &may_start), None);
        assert!(idle.wants_status(at(10), &jobs));
        let told = idle.news(at(10), &jobs, &may_start);
        let text = "no task runs; `brasserie explain 'the dump'` shows why";
        assert_eq!(told.as_deref(), Some(text));
        assert_eq!(idle.news(at(15), &jobs, &may_start), None);
        assert!(!idle.wants_status(at(20), &[job(1)]), "a task runs");
        assert!(idle.wants_status(at(30), &jobs));
        assert_eq!(
            idle.news(at(30), &jobs, &may_start),
            None,
            "none ran for a moment"
        );
    }
}
