//! Tests that the scheduler tries a worker which refuses every task again and again, at a steady pace and without end, whatever else
//! happens. It never does so sooner than 150 ms after a refusal.

#[expect(dead_code, reason = "other tests use the rest")]
mod support;

use std::time::Duration;

use proptest::prelude::*;

use brasserie_common::{CallId, CallOutcome, RefusalCode, Time, WorkerDescription};
use brasserie_scheduler_core::Call;

use support::{Script, config, worker};

/// Duration of the busy mark after a refusal.
const PAUSE: Duration = Duration::from_millis(150);
/// How long the worker refuses tasks.
const SPAN: Duration = Duration::from_secs(60);

/// A cluster with `tasks` ready tasks, of which a worker may have `slots`.
fn cluster(tasks: usize, slots: usize) -> Script {
    let nodes: Vec<String> = (0..tasks).map(|node| format!("\"n{node}\": []")).collect();
    Script::with_config(config(&format!(
        r#"{{"bistro_settings": {{"nodes": {{"levels": ["l"], "node_order": "original",
            "node_sources": [{{"source": "manual", "prefs": {{{}}}}}]}},
            "resources": {{"worker": {{"slots": {{"default": 1, "limit": {slots}}}}}}}}},
            "bistro_job->j": {{"owner": "o", "command": ["/bin/true"]}}}}"#,
        nodes.join(", ")
    )))
}

/// A worker that refuses tasks, and the tasks that it was sent.
struct Refusing {
    s: Script,
    worker: WorkerDescription,
    /// Time that a refusal takes.
    latency: Duration,
    open: Vec<(Time, CallId)>,
    /// Times at which it was sent a task.
    sent: Vec<Time>,
}

impl Refusing {
    fn new(s: Script, latency: Duration) -> Self {
        Refusing {
            s,
            worker: worker("a", 1, 10),
            latency,
            open: Vec::new(),
            sent: Vec::new(),
        }
    }

    /// Refuses the tasks that were sent, as soon as `latency` allows.
    fn refuse(&mut self) {
        loop {
            let is_start = |call: &Call| matches!(call, Call::RunTask(_));
            while let Some((call, ..)) = self.s.take_call(is_start) {
                self.sent.push(self.s.now);
                self.open.push((self.s.now + self.latency, call));
            }
            let due = self.open.iter().position(|(at, _)| *at <= self.s.now);
            let Some(due) = due else {
                return;
            };
            let (_, call) = self.open.remove(due);
            let why = "all of its processors are busy".to_owned();
            self.s
                .complete(call, CallOutcome::Refused(RefusalCode::Busy, why));
        }
    }

    /// Runs until `SPAN` after the first start has passed. Each of the heartbeats makes the scheduler check for tasks to start.
    fn run(&mut self, heartbeats: &[Duration]) {
        self.s.join(&self.worker);
        self.refuse();
        let begin = self.sent[0];
        let mut heartbeats = heartbeats.iter().map(|after| begin + *after).peekable();
        while self.s.now < begin + SPAN {
            let wakes = [
                self.s.scheduler.poll_timeout(),
                self.open.iter().map(|(at, _)| *at).min(),
                heartbeats.peek().copied(),
            ];
            let wakes = wakes.into_iter().flatten().min();
            let next = wakes.unwrap_or(Time::NEVER).min(begin + SPAN);
            let step = next.max(self.s.now).since(self.s.now);
            self.s.advance(step);
            if heartbeats.next_if(|at| *at <= self.s.now).is_some() {
                self.s.echo(&self.worker);
            }
            self.refuse();
        }
    }
}

integration_tests_properties::properties! {
    48;

    #[test]
    fn who_refuses_is_asked_once_a_pause_and_never_given_up(
        tasks in 1_usize..6,
        slots in 1_usize..4,
        latency in prop_oneof![Just(0_u64), 1_u64..400],
        mut heartbeats in proptest::collection::vec(0_u64..60_000, 20..200),
    ) {
        // Regular heartbeats keep the worker from being lost.
        heartbeats.extend((0..6).map(|tenth| tenth * 10_000));
        heartbeats.sort_unstable();
        let heartbeats: Vec<Duration> = heartbeats.into_iter().map(Duration::from_millis).collect();
        let latency = Duration::from_millis(latency);
        let mut refusing = Refusing::new(cluster(tasks, slots), latency);
        refusing.run(&heartbeats);
        let mut rounds = refusing.sent.clone();
        rounds.dedup();
        for pair in rounds.windows(2) {
            prop_assert!(pair[1].since(pair[0]) >= PAUSE + latency, "{pair:?}");
        }
        // The number of rounds follows from the time, and the tasks of each round from the slots.
        let most = 1 + SPAN.as_millis() / (PAUSE + latency).as_millis();
        prop_assert_eq!(rounds.len() as u128, most);
        prop_assert_eq!(refusing.sent.len() as u128, most * tasks.min(slots) as u128);
    }
}

#[test]
fn one_task_is_refused_401_times_a_minute_at_most() {
    let mut refusing = Refusing::new(cluster(1, 1), Duration::ZERO);
    let each_ten_seconds: Vec<_> = (0..6)
        .map(|tenth| Duration::from_secs(10 * tenth))
        .collect();
    refusing.run(&each_ten_seconds);
    assert_eq!(refusing.sent.len(), 401);
    let gaps = refusing.sent.windows(2).map(|pair| pair[1].since(pair[0]));
    assert_eq!(gaps.min(), Some(PAUSE));
}
