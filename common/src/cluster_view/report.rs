//! The tables and sentences of a cluster's report, which `brasserie status` and the scheduler's page share.
//!
//! This module escapes unprintable characters of names in sentences. The program that prints the report escapes sentences and cells for
//! its own format.

use std::time::Duration;

use super::{
    ClusterView, ConfigView, DiskView, JobState, JobView, LocalityView, StoreView, TransfersView,
    Urgency, WorkRequestsView, WorkerView, millis, most_urgent, with_kinds,
};
use crate::text::{printable, readable_bytes};
use crate::time::readable_duration;

const WORKER_COLUMNS: [&str; 9] = [
    "worker",
    "state",
    "running",
    "standby",
    "unsure",
    "host",
    "address",
    "heartbeat",
    "slots in use",
];
const JOB_COLUMNS: [&str; 11] = [
    "job",
    "state",
    "tasks",
    "done",
    "running",
    "waiting",
    "held",
    "backoff",
    "failed",
    "never",
    "next retry",
];
/// Largest number of jobs that one sentence names.
const MAX_NAMED: usize = 5;
/// Largest number of characters that a worker's slots take in a table, unless the first resource alone takes more.
const MAX_SLOTS_CHARS: usize = 40;

/// A cluster's state as sentences and tables. Every list is bounded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Problems that need an operator, most general first.
    pub problems: Vec<String>,
    pub problems_left_out: usize,
    /// The configuration in force, the counts of jobs and tasks, the store's size and the counts of work requests.
    pub facts: Vec<String>,
    /// One row for each worker shown; empty if no worker has connected.
    pub workers: Table,
    pub workers_left_out: u64,
    /// Operators' orders about workers, and remarks on the workers in the table.
    pub remarks: Vec<String>,
    pub jobs: Table,
    pub jobs_left_out: u64,
}

/// A table whose cells are plain text without any escaping.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    pub columns: &'static [&'static str],
    pub rows: Vec<Vec<String>>,
}

/// Returns the text with a capital first letter.
fn capitalized(text: &str) -> String {
    let mut rest = text.chars();
    let first = rest.next().map(|c| c.to_ascii_uppercase());
    first.into_iter().chain(rest).collect()
}

fn chosen<T>(all: &[T], limit: usize, urgency: impl Fn(&T) -> Urgency) -> Vec<&T> {
    let places = most_urgent(all.iter().map(urgency), limit);
    places.into_iter().map(|place| &all[place]).collect()
}

impl ClusterView {
    /// Returns the report, with at most `limit` problems, workers, remarks and jobs each.
    pub fn report(&self, limit: usize) -> Report {
        let workers = chosen(&self.workers, limit, WorkerView::urgency);
        let jobs = chosen(&self.jobs, limit, JobView::urgency);
        let mut problems = self.problems();
        let problems_left_out = problems.len().saturating_sub(limit);
        problems.truncate(limit);
        let orders = self.orders.iter().map(|order| {
            let shard = printable(&order.shard);
            format!("{shard} {}", order.clause(self.wall_time_ms))
        });
        let of_workers = workers.iter().flat_map(|worker| worker.remarks());
        let remarks = orders.chain(of_workers);
        let left_out = |total: u64, listed: usize| total.saturating_sub(listed as u64);
        Report {
            problems,
            problems_left_out,
            facts: self.facts(),
            workers_left_out: left_out(self.workers_total, workers.len()),
            remarks: remarks.take(limit).collect(),
            jobs_left_out: left_out(self.jobs_total, jobs.len()),
            workers: Table {
                columns: &WORKER_COLUMNS,
                rows: workers.iter().map(|worker| worker.cells()).collect(),
            },
            jobs: Table {
                columns: &JOB_COLUMNS,
                rows: jobs.iter().map(|job| job.cells()).collect(),
            },
        }
    }

    fn problems(&self) -> Vec<String> {
        let mut problems = self.nothing_starts.clone();
        // The reason why no task starts may contain the error that causes it.
        let is_said = |error: &&String| problems.iter().any(|why| why.ends_with(*error));
        let errors = self.errors.iter().filter(|error| !is_said(error));
        let errors: Vec<String> = errors.cloned().collect();
        problems.extend(errors);
        let of_workers = self.workers.iter();
        problems.extend(of_workers.flat_map(WorkerView::problem_sentences));
        // `errors` already has the mistakes of the config file, with their lines and columns.
        let is_new = |error: &&String| !self.errors.iter().any(|known| known.ends_with(*error));
        let broken = self.jobs.iter().flat_map(|job| {
            let name = printable(&job.name);
            let errors = job.errors.iter().filter(is_new);
            errors.map(move |error| format!("job `{name}`: {error}"))
        });
        problems.extend(broken);
        problems.extend(self.in_jobs("failed", self.tasks.failed, |job| job.tasks.failed));
        problems.extend(self.in_jobs("can never run", self.tasks.never, |job| job.tasks.never));
        problems
    }

    /// Formats a clause such as `3 tasks failed`, with the first [`MAX_NAMED`] jobs that have such tasks; `None` if `tasks` is 0. `of`
    /// returns the number of a job's tasks that count.
    fn in_jobs(&self, what: &str, tasks: u64, of: impl Fn(&JobView) -> u64) -> Option<String> {
        if tasks == 0 {
            return None;
        }
        let jobs: Vec<&JobView> = self.jobs.iter().filter(|job| of(job) > 0).collect();
        let named = jobs.iter().take(MAX_NAMED);
        let named: Vec<String> = named
            .map(|job| format!("`{}`: {}", printable(&job.name), of(job)))
            .collect();
        let named_tasks: u64 = jobs.iter().take(MAX_NAMED).map(|job| of(job)).sum();
        let others = match tasks.saturating_sub(named_tasks) {
            0 => String::new(),
            others => format!(", other jobs: {others}"),
        };
        let noun = if tasks == 1 { "task" } else { "tasks" };
        let jobs = match named.is_empty() {
            true => String::new(),
            false => format!(" ({}{others})", named.join(", ")),
        };
        Some(format!("{tasks} {noun} {what}{jobs}"))
    }

    fn facts(&self) -> Vec<String> {
        let mut facts = Vec::new();
        if let (None, Some(why)) = (&self.initial_wait, &self.wait_ended) {
            facts.push(format!("The initial wait is over: {why}."));
        }
        let wall = self.wall_time_ms;
        let config = self.config.as_ref();
        facts.extend(config.and_then(|config| config.sentence(wall)));
        facts.push(self.sums());
        let schedules = self.schedules.iter();
        facts.extend(schedules.map(|schedule| capitalized(&schedule.clause(wall)) + "."));
        facts.extend(self.store.as_ref().map(StoreView::sentence));
        facts.extend(self.transfers.as_ref().map(TransfersView::sentence));
        facts.extend(self.locality.as_ref().map(LocalityView::sentence));
        facts.extend(
            self.work_requests
                .iter()
                .flat_map(WorkRequestsView::sentences),
        );
        facts.extend(self.refusals());
        facts
    }

    /// Formats the refused calls, as in `Refused callers: 3 by role, 1 by shard`; `None` if there are none.
    fn refusals(&self) -> Option<String> {
        let reasons = self.refused_calls.iter();
        let reasons = reasons.map(|(reason, calls)| format!("{calls} by {}", printable(reason)));
        let reasons: Vec<String> = reasons.collect();
        let all = reasons.join(", ");
        let text = format!("Refused calls: {all}; `brasserie audit --refused` shows them.");
        (!reasons.is_empty()).then_some(text)
    }

    /// Formats the counts, as in `3 jobs: 1 running, 2 done; 30 tasks: 4 running, 26 done`.
    fn sums(&self) -> String {
        let states = self.jobs_by_state.iter();
        let states = states.map(|(word, count)| (word.replace('_', " "), *count));
        let jobs = with_kinds(self.jobs_total, "job", states);
        match self.nodes_loaded {
            true => format!("{jobs}; {}.", self.tasks.clause()),
            false => format!("{jobs}; nodes are loading, so the tasks are not counted yet."),
        }
    }
}

impl ConfigView {
    fn sentence(&self, wall_time_ms: i64) -> Option<String> {
        let path = self.path.as_ref()?;
        let kept = match self.kept {
            true => ", kept by an earlier scheduler",
            false => "",
        };
        let passed = readable_duration(millis(wall_time_ms.saturating_sub(self.since_ms)));
        Some(format!(
            "Config {}, in force for {passed}{kept}.",
            printable(path)
        ))
    }
}

impl StoreView {
    fn sentence(&self) -> String {
        let missing = match self.missing_completions {
            0 => String::new(),
            missing => format!(" ({missing} of nodes or jobs that do not exist)"),
        };
        let growth = self.growth_bytes.zip(self.growth_s);
        let growth = growth.map(|(bytes, seconds)| {
            let sign = if bytes < 0 { "-" } else { "+" };
            let over = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
            let (bytes, over) = (
                readable_bytes(bytes.unsigned_abs()),
                readable_duration(over),
            );
            format!(", {sign}{bytes} in {over}")
        });
        format!(
            "Store: {} completions{missing} in {}{}; {} of its disk are free.",
            self.completions,
            readable_bytes(self.bytes),
            growth.unwrap_or_default(),
            readable_bytes(self.disk_free_bytes)
        )
    }
}

impl TransfersView {
    /// Formats the counts, as in `12 transfers with 1.5 MiB`.
    fn clause(&self) -> String {
        let TransfersView {
            done, busy, failed, ..
        } = self;
        let bytes = readable_bytes(self.bytes);
        let noun = if *done == 1 { "transfer" } else { "transfers" };
        format!("{done} {noun} with {bytes}, {busy} answers of busy peers, {failed} failed")
    }

    fn sentence(&self) -> String {
        format!("Artifacts between workers: {}.", self.clause())
    }
}

impl LocalityView {
    fn sentence(&self) -> String {
        let all = self.hits.saturating_add(self.misses);
        format!(
            "Tasks with inputs: {} of {all} starts at a worker with half of the bytes or more.",
            self.hits
        )
    }
}

impl WorkRequestsView {
    fn sentences(&self) -> Vec<String> {
        let counts = format!(
            "Work requests: {} received, {} examined, {} repeated, {} from workers that may not get tasks, {} too soon, {} above the limit.",
            self.heard, self.looked_at, self.repeated, self.not_ready, self.too_soon, self.too_many
        );
        let missing = (self.missing_runs > 0).then(|| {
            format!(
                "Work requests did not list {} runs that their workers had accepted.",
                self.missing_runs
            )
        });
        [counts].into_iter().chain(missing).collect()
    }
}

impl WorkerView {
    fn cells(&self) -> Vec<String> {
        let ago = |ms| format!("{} ago", readable_duration(millis(ms)));
        vec![
            self.shard.clone(),
            match self.silent_for_ms {
                Some(_) => format!("{}, silent", self.state),
                None => self.state.clone(),
            },
            self.running.saturating_sub(self.standby).to_string(),
            self.standby.to_string(),
            self.unsure.to_string(),
            self.hostname.clone(),
            self.address.clone(),
            self.since_heartbeat_ms.map(ago).unwrap_or_default(),
            self.slots_cell(),
        ]
    }

    /// Formats the slots, as in `cpu 3/8, gpu 1/2, 4 more`, or `cpu 3` for a resource without limit.
    fn slots_cell(&self) -> String {
        let mut cell = String::new();
        for (shown, slots) in self.slots.iter().enumerate() {
            let limit = slots.limit.map(|limit| format!("/{limit}"));
            let limit = limit.unwrap_or_default();
            let text = format!("{} {}{limit}", slots.resource, slots.in_use);
            let chars = cell.chars().count() + text.chars().count();
            if shown > 0 && chars > MAX_SLOTS_CHARS {
                let more = self.slots.len() - shown;
                return format!("{cell}, {more} more");
            }
            cell.push_str(if shown > 0 { ", " } else { "" });
            cell.push_str(&text);
        }
        cell
    }

    /// Returns the state of the worker's artifact disks, if it has any. The disks of a worker that is not healthy are not known.
    fn disks_sentence(&self) -> Option<String> {
        let is_healthy = |disk: &&DiskView| disk.state == "healthy";
        let healthy: Vec<&DiskView> = self.disks.iter().filter(is_healthy).collect();
        let usable = healthy.iter().map(|disk| disk.usable_bytes);
        let usable = readable_bytes(usable.fold(0, u64::saturating_add));
        let (healthy, all) = (healthy.len(), self.disks.len());
        (all > 0 && self.is_healthy())
            .then(|| format!("{healthy} of {all} artifact disks are healthy, with {usable} usable"))
    }

    fn waits(&self) -> Option<String> {
        let what = self.waits_for.as_ref()?;
        Some(format!("waits {what}"))
    }

    /// Returns the reason why the worker gets no tasks, if it is not healthy, and its problems.
    fn problem_sentences(&self) -> Vec<String> {
        let shard = printable(&self.shard);
        let state = (!self.is_healthy()).then(|| {
            let lost = self.lost_in_ms.map(|ms| {
                let left = readable_duration(millis(ms));
                format!(", and lost in {left} unless it recovers")
            });
            let waits = self.waits().map(|waits| format!("; it {waits}"));
            let (lost, waits) = (lost.unwrap_or_default(), waits.unwrap_or_default());
            format!("worker `{shard}` is {}{lost}{waits}", self.state)
        });
        let problems = self.problems.iter();
        let problems = problems.map(|problem| format!("worker `{shard}`: {problem}"));
        state.into_iter().chain(problems).collect()
    }

    fn remarks(&self) -> Vec<String> {
        let shard = printable(&self.shard);
        let waits = self.waits().filter(|_| self.is_healthy());
        let asked = self.asked.as_ref().map(|asked| asked.text.clone());
        let sentences = waits.into_iter().chain(asked);
        let sentences = sentences.map(|text| format!("{shard} {text}"));
        let is_some = |transfers: &&TransfersView| **transfers != TransfersView::default();
        let transfers = self.transfers.as_ref().filter(is_some);
        let transfers = transfers.map(TransfersView::clause);
        let notes = self.notes.iter().cloned().chain(self.disks_sentence());
        let notes = notes.chain(transfers);
        let notes = notes.map(|note| format!("{shard}: {note}"));
        sentences.chain(notes).collect()
    }
}

impl JobView {
    fn cells(&self) -> Vec<String> {
        let tasks = &self.tasks;
        let retry = self
            .next_backoff_end_in_ms
            .map(|ms| format!("in {}", readable_duration(millis(ms))));
        let count = |count: u64| match self.state {
            JobState::LoadingNodes => String::new(),
            _ => count.to_string(),
        };
        vec![
            self.name.clone(),
            self.state.as_str().replace('_', " "),
            count(tasks.total),
            count(tasks.done),
            count(tasks.running),
            count(tasks.waiting()),
            count(tasks.held),
            count(tasks.in_backoff),
            count(tasks.failed),
            count(tasks.never),
            retry.unwrap_or_default(),
        ]
    }
}
