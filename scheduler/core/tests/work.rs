//! Tests of pull workers: the estimates of their tasks, the tasks that they are sent, and the rate of their requests.

#[expect(dead_code, reason = "other tests use the rest")]
mod support;

use std::sync::Arc;
use std::time::Duration;

use brasserie_common::estimate::Basis;
use brasserie_common::resources::GpuInfo;
use brasserie_common::worker::Supply;
use brasserie_common::{
    CallOutcome, CardChoice, EndedBy, Estimate, GpuShare, KnownTask, Principal, Processor,
    ReportedStatus, RunningTask, Story, WorkDemand, WorkReply, WorkRequest, WorkRequestSeq,
    WorkVerdict, WorkerDescription,
};
use brasserie_common_config::Config;
use brasserie_scheduler_core::{
    Answer, Call, CallReply, Event, Options, Proposal, ProposedInputs, ProposedNodes, Query, Reply,
    Scheduler, StatusUpdate, Total, WorkCounts,
};
use support::*;

/// A pull worker of four cores.
struct Asking {
    script: Script,
    worker: WorkerDescription,
    seq: u64,
    /// The tasks that the worker reports in its requests.
    known: Vec<KnownTask>,
    /// The delay that the worker reports, in seconds.
    delay: f64,
    /// The processors for which the worker requests work, and the side that chooses GPUs.
    of: Processor,
    cards: CardChoice,
}

impl Asking {
    fn new(config: Arc<Config>) -> Self {
        Self::with(config, |_| {})
    }

    fn with(config: Arc<Config>, change: impl Fn(&mut Options)) -> Self {
        let mut options = options();
        options.work.min_request_interval = Duration::ZERO;
        change(&mut options);
        let mut script = Script::new(options, Default::default());
        let worker = worker("w", 1, 10);
        script.join(&worker);
        script.load(config);
        // Tasks are sent by slots while the worker has requested nothing.
        Self::of(script, worker)
    }

    /// A worker that has joined and sends work requests from now on.
    fn of(script: Script, worker: WorkerDescription) -> Self {
        Asking {
            script,
            worker,
            seq: 0,
            known: Vec::new(),
            delay: 0.0,
            of: Processor::Cpu,
            cards: CardChoice::Scheduler,
        }
    }

    /// Requests work for `secs` instance-seconds. Returns the final reply and the tasks that were sent for it.
    fn ask(&mut self, secs: f64) -> (WorkReply, Vec<RunningTask>) {
        self.ask_for(WorkDemand {
            instance_secs: secs,
            estimated_delay: self.delay,
            ..WorkDemand::none(self.of.clone(), 4.0)
        })
    }

    fn ask_for(&mut self, demand: WorkDemand) -> (WorkReply, Vec<RunningTask>) {
        self.seq += 1;
        let request = self.script.request();
        let work = WorkRequest {
            worker: self.worker.id,
            scheduler: self.script.scheduler.id(),
            seq: WorkRequestSeq(self.seq),
            demands: vec![demand],
            known: Some(self.known.clone()),
            linger: Duration::from_secs(120),
            low_water: 0.0,
            cards: self.cards,
        };
        self.script.event(Event::RequestWork {
            request: Some(request),
            from: Principal::Own,
            work: Box::new(work),
        });
        let mut started = self.take_starts();
        // The script runs turns without an event until no more tasks start.
        loop {
            self.script.advance(Duration::ZERO);
            let more = self.take_starts();
            if more.is_empty() {
                break;
            }
            started.extend(more);
        }
        match self.script.reply_to(request).1 {
            Reply::Work(Ok(reply)) => (*reply, started),
            other => panic!("a request is answered as such, not {other:?}"),
        }
    }

    /// Takes and accepts all tasks that were sent.
    fn take_starts(&mut self) -> Vec<RunningTask> {
        let mut started = Vec::new();
        let is_start = |call: &Call| matches!(call, Call::RunTask(_));
        while let Some((call, message)) = self.script.take_call(is_start) {
            self.script
                .complete(call, CallOutcome::Done(CallReply::Empty));
            if let Call::RunTask(run) = message {
                started.push(run.task);
            }
        }
        let listed = started.iter().map(|task| KnownTask {
            invocation: task.invocation,
            remaining: None,
            deadline: None,
        });
        self.known.extend(listed);
        started
    }

    /// Completes a task with this status and story.
    fn end(&mut self, task: &RunningTask, status: ReportedStatus, story: Story) {
        let request = self.script.request();
        let update = StatusUpdate {
            job: task.job.clone(),
            node: task.node.clone(),
            shard: task.shard.clone(),
            invocation: task.invocation,
            next_backoff: task.next_backoff,
            gpus: task.gpus.clone(),
            status,
            story: Some(Arc::new(story)),
            outputs: Vec::new(),
            scheduler: self.script.scheduler.id(),
            worker: self.worker.id,
        };
        self.script.event(Event::UpdateStatus {
            request,
            from: Principal::Own,
            update: Box::new(update),
        });
        let answer = self.script.reply_to(request).1;
        assert_eq!(answer, Reply::UpdateStatus(Ok(())));
        self.known
            .retain(|known| known.invocation != task.invocation);
    }

    fn estimate(&mut self) -> Estimate {
        self.script.status().jobs[0].estimate
    }

    fn counts(&mut self) -> WorkCounts {
        self.script.status().work
    }

    fn explain(&mut self, node: &str) -> Vec<String> {
        let query = Query::Explain {
            job: "j".to_owned(),
            node: node.to_owned(),
        };
        match self.script.scheduler.answer(self.script.now, &query) {
            Answer::Explain(reasons) => reasons,
            other => panic!("reasons, not {other:?}"),
        }
    }
}

fn ran(seconds: f64) -> Story {
    Story {
        ran: Some(Duration::from_secs_f64(seconds)),
        // The time at the worker before the start does not count.
        starting: Duration::from_secs(1000),
        ..Story::exited(0)
    }
}

/// A config whose job is disabled until the worker requests work.
fn held(nodes: usize, job: &str) -> Arc<Config> {
    one_job(nodes, &format!(r#"{job}, "enabled": false"#))
}

fn granted(reply: &WorkReply) -> u32 {
    match reply.verdicts[..] {
        [(Processor::Cpu, WorkVerdict::Granted(tasks))] => tasks,
        _ => 0,
    }
}

const MAY_WAIT: &str = r#", "bufferable": true"#;

/// A worker that has requested nothing yet, and a job whose tasks may be queued there.
fn ready(nodes: usize, job: &str) -> Asking {
    let job = format!("{MAY_WAIT}{job}");
    let mut asking = Asking::new(held(nodes, &job));
    asking.ask(0.0);
    asking.script.load(one_job(nodes, &job));
    asking
}

#[test]
fn how_long_tasks_take_is_learned_from_those_that_end_well() {
    let mut asking = ready(20, "");
    let is = |seconds, basis| Estimate { seconds, basis };
    assert_eq!(asking.estimate(), is(60.0, Basis::Default));
    // A hundred seconds take two tasks of a minute. The default estimate is not sent, because the worker may know better.
    let (reply, tasks) = asking.ask(100.0);
    assert_eq!((granted(&reply), tasks.len()), (2, 2));
    assert!(tasks.iter().all(|task| task.work.est_duration.is_none()));
    asking.end(&tasks[0], ReportedStatus::done(), ran(25.0));
    assert_eq!(asking.estimate(), is(25.0, Basis::Learned));
    let (reply, tasks) = asking.ask(100.0);
    assert_eq!(granted(&reply), 4);
    assert!(
        tasks
            .iter()
            .all(|task| task.work.est_duration == Some(25.0))
    );
    // A run that takes more than a tenth longer replaces the estimate at once. A shorter one counts for a tenth.
    asking.end(&tasks[0], ReportedStatus::done(), ran(40.0));
    assert_eq!(asking.estimate(), is(40.0, Basis::Learned));
    asking.end(&tasks[1], ReportedStatus::done(), ran(30.0));
    assert_eq!(asking.estimate(), is(39.0, Basis::Learned));
    // Failed tasks and killed tasks do not change the estimate.
    asking.end(&tasks[2], ReportedStatus::error_backoff(""), ran(900.0));
    let killed = Story {
        ended_by: Some(EndedBy::Operator),
        ..ran(900.0)
    };
    asking.end(&tasks[3], ReportedStatus::done(), killed);
    assert_eq!(asking.estimate(), is(39.0, Basis::Learned));
    // The estimate of the job itself takes precedence.
    let says = format!(r#"{MAY_WAIT}, "est_duration": 7"#);
    asking.script.load(one_job(20, &says));
    assert_eq!(asking.estimate(), is(7.0, Basis::Given));
    // The estimate is forgotten with the job.
    let nothing = Config {
        jobs: Vec::new(),
        ..(*one_job(20, "")).clone()
    };
    asking.script.load(Arc::new(nothing));
    asking.script.load(one_job(20, MAY_WAIT));
    assert_eq!(asking.estimate(), is(60.0, Basis::Default));
}

#[test]
fn nobody_learns_for_workers_that_never_ask() {
    let mut script = Script::with_config(one_job(3, ""));
    let worker = worker("w", 1, 10);
    script.join(&worker);
    let mut asking = Asking::of(script, worker);
    let tasks = asking.take_starts();
    asking.end(&tasks[0], ReportedStatus::done(), ran(5.0));
    assert_eq!(asking.estimate().basis, Basis::Default);
    asking.ask(0.0);
    asking.end(&tasks[1], ReportedStatus::done(), ran(5.0));
    assert_eq!(asking.estimate().basis, Basis::Learned);
}

#[test]
fn a_task_stays_away_where_it_or_another_one_would_be_late() {
    let mut asking = ready(6, r#", "deadline": 100"#);
    let tell = |asking: &mut Asking, remaining, deadline| {
        asking.known.iter_mut().for_each(|known| {
            known.remaining = Some(remaining);
            known.deadline = deadline;
        });
    };
    // The worker has four cores, and each task takes a minute. The first four are in time, and a fifth is not.
    let (reply, tasks) = asking.ask(1e6);
    assert_eq!(granted(&reply), 4);
    let late = [
        "no worker can take it now: 1 with so much to do that it would miss its deadline",
        "it is taken to run for 1m, as any of which nothing is known: its job has no `est_duration`, and no task of it has ended \
         well yet",
    ];
    assert_eq!(asking.explain("n4"), late);
    // No task is over yet.
    tell(&mut asking, 41.0, Some(100.0));
    let (reply, _) = asking.ask(1e6);
    assert_eq!(reply.verdicts, [(Processor::Cpu, WorkVerdict::Deadline)]);
    tell(&mut asking, 40.0, Some(100.0));
    let (reply, more) = asking.ask(1e6);
    assert_eq!((granted(&reply), more.len()), (2, 2));
    assert_eq!(tasks.len() + more.len(), 6);
}

#[test]
fn a_task_that_takes_longer_than_its_deadline_is_told_so() {
    let mut asking = ready(6, r#", "deadline": 20, "est_duration": 40"#);
    asking.delay = 5.0;
    let (reply, tasks) = asking.ask(1e6);
    assert_eq!(
        (reply.verdicts, tasks),
        (vec![(Processor::Cpu, WorkVerdict::Deadline)], vec![])
    );
    let late = [
        "no worker can take it now: 1 with deadlines of others to keep (it would miss its own anywhere)",
        "it is taken to run for 40s, as its job says; that is more than its `deadline` of 20s leaves it: it would \
         miss it on any worker, and is sent only where nobody else misses one for it",
    ];
    assert_eq!(asking.explain("n0"), late);
    // The task may still be sent, because an estimate may be wrong.
    asking.delay = 0.0;
    let (reply, _) = asking.ask(1e6);
    assert!(granted(&reply) > 0, "{reply:?}");
}

#[test]
fn a_worker_that_is_done_gets_at_once_what_would_have_been_late() {
    let mut asking = ready(6, r#", "deadline": 100"#);
    let (reply, tasks) = asking.ask(1e6);
    assert_eq!(granted(&reply), 4);
    assert!(asking.explain("n4")[0].contains("it would miss its deadline"));
    // The same request lingers. After twenty seconds the remaining tasks still take too long.
    asking.script.advance(Duration::from_secs(20));
    assert_eq!(asking.take_starts(), []);
    asking.end(&tasks[0], ReportedStatus::done(), ran(60.0));
    let more = asking.take_starts();
    assert_eq!(more.len(), 1);
    // A failed run is over as well, and so is one that never began.
    asking.end(
        &tasks[1],
        ReportedStatus::error_backoff("it failed"),
        ran(20.0),
    );
    let is_start = |call: &Call| matches!(call, Call::RunTask(_));
    let (call, _) = asking.script.take_call(is_start).expect("the last one");
    asking
        .script
        .complete(call, CallOutcome::NotSent("it is away".to_owned()));
    assert_eq!(asking.take_starts(), []);
    asking.script.advance(Duration::from_secs(1));
    assert_eq!(asking.take_starts().len(), 1);
}

#[test]
fn a_machine_on_which_nothing_runs_gets_nothing_back() {
    for (status, followers) in [
        (ReportedStatus::done(), 1),
        (ReportedStatus::error_backoff("it failed"), 1),
        (ReportedStatus::incomplete_backoff("the disk is full"), 0),
    ] {
        let mut asking = Asking::new(held(3, ""));
        asking.ask(0.0);
        asking.script.load(one_job(3, ""));
        let (_, tasks) = asking.ask_for(WorkDemand {
            instance_secs: 1.0,
            instances: 1.0,
            idle: 1.0,
            waiting: Some(0.0),
            ..WorkDemand::none(Processor::Cpu, 4.0)
        });
        assert_eq!(tasks.len(), 1);
        asking.end(&tasks[0], status.clone(), ran(1.0));
        assert_eq!(asking.take_starts().len(), followers, "{status:?}");
    }
}

#[test]
fn a_delay_that_is_over_holds_nothing_back() {
    let mut asking = ready(2, r#", "deadline": 80"#);
    asking.delay = 30.0;
    let (reply, _) = asking.ask(1e6);
    assert_eq!(reply.verdicts, [(Processor::Cpu, WorkVerdict::Deadline)]);
    asking.script.advance(Duration::from_secs(29));
    assert_eq!(asking.take_starts(), []);
    // The scheduler wakes by itself, although no other event occurs.
    asking.script.advance(Duration::from_secs(2));
    assert_eq!(asking.take_starts().len(), 2);
}

#[test]
fn a_plan_starts_what_is_asked_for_and_nothing_that_would_be_late() {
    let job = |nodes: usize| one_job(nodes, &format!(r#"{MAY_WAIT}, "deadline": 100"#));
    let mut asking = Asking::new(held(8, MAY_WAIT));
    asking.ask(1e6);
    let starts = |asking: &Asking| {
        let (scheduler, now) = (&asking.script.scheduler, asking.script.now);
        let Answer::WhatIf(copy) = scheduler.answer(now, &Query::WhatIf) else {
            panic!("a copy");
        };
        let proposal = Proposal {
            config: job(8),
            nodes: ProposedNodes::Kept,
            inputs: ProposedInputs::default(),
        };
        copy.plan(proposal).tasks.starts
    };
    // Each task takes a minute, on four cores. The plan starts no more than was requested.
    assert_eq!(starts(&asking), Total::Exactly(4));
    asking.ask(100.0);
    assert_eq!(starts(&asking), Total::Exactly(2));
    // The scheduler does what the plan said.
    asking.script.load(job(8));
    assert_eq!(asking.take_starts().len(), 2);
}

#[test]
fn what_was_learned_decides_who_is_late() {
    let mut asking = ready(40, r#", "deadline": 100"#);
    let (_, tasks) = asking.ask(1.0);
    asking.end(&tasks[0], ReportedStatus::done(), ran(30.0));
    // Each of the four cores runs three tasks of half a minute, one after the other.
    let (reply, _) = asking.ask(1e6);
    assert_eq!(granted(&reply), 12);
    let why = asking.explain("n39");
    assert_eq!(
        why.last().map(String::as_str),
        Some("it is taken to run for 30s, as tasks of its job did before"),
        "{why:?}"
    );
}

#[test]
fn one_request_for_many_short_tasks_is_for_all_of_them() {
    let config = one_job(5000, &format!(r#"{MAY_WAIT}, "est_duration": "1ms""#));
    let mut asking = Asking::new(Arc::new(Config {
        enabled: false,
        ..(*config).clone()
    }));
    asking.ask(0.0);
    asking.script.load(config);
    // The limit is a thousand tasks for each processor.
    let (reply, tasks) = asking.ask(1e6);
    let sent = u32::try_from(tasks.len()).expect("a few");
    assert_eq!(sent, 4000);
    // The reply does not wait for all of them.
    assert!(granted(&reply) > 0 && granted(&reply) <= sent);
}

#[test]
fn the_original_bound_of_ten_tasks_a_processor_may_be_had() {
    let config = one_job(100, &format!(r#"{MAY_WAIT}, "est_duration": "1ms""#));
    let mut asking = Asking::with(held(1, ""), |options| {
        options.work.tasks_per_processor = 10.0;
    });
    asking.ask(0.0);
    asking.script.load(config);
    assert_eq!(granted(&asking.ask(1e6).0), 40);
}

#[test]
fn who_says_that_it_asks_is_sent_nothing_before() {
    let sent = |supply| {
        let mut script = Script::new(options(), Default::default());
        let worker = WorkerDescription {
            supply,
            ..worker("w", 1, 10)
        };
        script.join(&worker);
        script.load(one_job(3, ""));
        script.advance(Duration::from_secs(20));
        let started = script.starts().len();
        let mut asking = Asking::of(script, worker);
        let explained = asking.explain("n0");
        (started, explained.join("; "))
    };
    let (started, _) = sent(Supply::AsSlotsAllow);
    assert_eq!(started, 2);
    let (started, explained) = sent(Supply::AsAsked);
    assert_eq!(started, 0);
    assert!(explained.contains("ask"), "{explained}");
}

#[test]
fn while_the_configuration_starts_nothing_that_nothing_comes_says_nothing() {
    let may_wait = one_job(3, MAY_WAIT);
    let off = Config {
        enabled: false,
        ..(*may_wait).clone()
    };
    let mut asking = ready(3, "");
    asking.script.load(Arc::new(off));
    let (reply, tasks) = asking.ask(1000.0);
    let deferred = [(Processor::Cpu, WorkVerdict::Deferred)];
    assert_eq!((&reply.verdicts[..], tasks.len()), (&deferred[..], 0));
    asking.script.load(may_wait);
    assert_eq!(granted(&asking.ask(1000.0).0), 3);
}

#[test]
fn requests_are_counted_by_what_became_of_them() {
    let mut asking = Asking::with(held(1, ""), |options| {
        options.work.min_request_interval = Duration::from_millis(100);
        options.work.max_requests_per_second = 2;
    });
    let mut expected = WorkCounts::default();
    assert_eq!(asking.counts(), expected);
    let (reply, _) = asking.ask(1.0);
    assert_eq!(reply.request_delay, Duration::from_millis(101));
    (expected.requests, expected.looked_at) = (1, 1);
    assert_eq!(asking.counts(), expected);
    let (reply, _) = asking.ask(1.0);
    let deferred = [(Processor::Cpu, WorkVerdict::Deferred)];
    assert_eq!(reply.verdicts, deferred);
    assert_eq!(reply.request_delay, Duration::from_millis(101));
    (expected.requests, expected.too_soon) = (2, 1);
    assert_eq!(asking.counts(), expected);
    asking.seq -= 1;
    asking.ask(1.0);
    (expected.requests, expected.repeated) = (3, 1);
    assert_eq!(asking.counts(), expected);
    // Two requests a second are admitted, plus the unused ones of the second before.
    for _ in 0..3 {
        asking.script.advance(Duration::from_millis(101));
        asking.ask(1.0);
    }
    expected.requests += 3;
    expected.looked_at += 2;
    expected.too_many += 1;
    assert_eq!(asking.counts(), expected);
    asking.script.advance(Duration::from_secs(1));
    asking.worker.intake = brasserie_common::worker::Intake::Draining;
    let worker = asking.worker.clone();
    asking.script.echo(&worker);
    asking.ask(1.0);
    expected.requests += 1;
    expected.not_ready += 1;
    assert_eq!(asking.counts(), expected);
}

#[test]
fn a_run_that_its_worker_has_only_just_confirmed_need_not_be_listed() {
    // The task was sent long ago. Either the answer to its start comes late, or it never came and the worker is about to deny the run.
    for outcome in [
        CallOutcome::Done(CallReply::Empty),
        CallOutcome::Unknown("cut off".to_owned()),
    ] {
        let mut asking = Asking::new(one_job(1, ""));
        let (start, ..) = asking.script.take_start();
        for _ in 0..130 {
            asking.script.advance(Duration::from_secs(5));
            let worker = asking.worker.clone();
            asking.script.echo(&worker);
            let is_check = |call: &Call| matches!(call, Call::Healthcheck(_));
            if (asking.script.calls.iter()).any(|(_, _, call)| is_check(call)) {
                asking.script.answer_healthcheck(&worker);
            }
        }
        asking.script.complete(start, outcome);
        let is_question = |call: &Call| matches!(call, Call::NotifyIfTasksNotRunning { .. });
        if let Some((question, ..)) = asking.script.take_call(is_question) {
            let heard = CallOutcome::Done(CallReply::Empty);
            asking.script.complete(question, heard);
        }
        asking.ask(0.0);
        let counts = asking.counts();
        assert_eq!((counts.looked_at, counts.missing_runs), (1, 0));
    }
}

#[test]
fn a_run_that_is_not_listed_any_more_is_told_and_nothing_else_happens() {
    let mut asking = ready(3, "");
    let (_, tasks) = asking.ask(100.0);
    assert_eq!(tasks.len(), 2);
    asking.ask(0.0);
    let counts = asking.counts();
    assert_eq!(counts.missing_runs, 0);
    let running = |scheduler: &Scheduler| scheduler.engine().running_count();
    let before = running(&asking.script.scheduler);
    let lost = asking.known.pop().expect("a run");
    asking.ask(0.0);
    assert_eq!(asking.counts().missing_runs, 1);
    assert_eq!(running(&asking.script.scheduler), before);
    let status = asking.script.status();
    let note = "its requests for work did not list 1 run that it had taken: it breaks the protocol";
    assert_eq!(status.workers[0].problems, [note]);
    let error = format!(
        "does not list 1 runs that it has taken, the first {}",
        lost.invocation
    );
    assert!(
        status.errors.iter().any(|text| text.contains(&error)),
        "{:?}",
        status.errors
    );
    // The problem is counted once: from then on the run is not one that the worker has listed.
    asking.ask(0.0);
    assert_eq!(asking.counts().missing_runs, 1);
}

#[test]
fn a_worker_that_chooses_its_cards_is_told_what_tasks_need_of_them() {
    let text = r#"{"bistro_settings": {"nodes": {"levels": ["l"], "node_order": "original",
            "node_sources": [{"source": "manual", "prefs": {"a": [], "b": [], "c": [], "d": []}}]},
        "resources": {"worker": {"gpu": {"default": 1, "limit": 0}}},
        "physical_resources": {"gpu_card": {"logical_resource": "gpu"}}},
        "bistro_job->j": {"command": ["/bin/true"], "bufferable": true, "est_duration": 1}}"#;
    let config = config(text);
    let mut asking = Asking::new(Arc::clone(&config));
    asking.worker.usable.gpus = vec![GpuInfo {
        name: "H100".to_owned(),
        pci_bus_id: "bus0".to_owned(),
        ..GpuInfo::default()
    }];
    (asking.of, asking.cards) = (Processor::named("H100"), CardChoice::Worker);
    let worker = asking.worker.clone();
    let set = Default::default();
    asking.script.heartbeat(&worker, set).expect("known");
    // The worker has requested nothing yet, so its slots limit it, and the scheduler chooses the GPU.
    let before = asking.take_starts();
    let whole = GpuShare {
        device: "bus0".into(),
        milli: 1000,
    };
    assert_eq!(before.len(), 1);
    assert_eq!(
        (&before[0].gpus[..], &before[0].gpus_wanted),
        (&[whole.clone()][..], &None)
    );
    let (reply, sent) = asking.ask(3.0);
    assert_eq!(
        reply.verdicts,
        [(Processor::named("H100"), WorkVerdict::Granted(3))]
    );
    assert_eq!(sent.len(), 3);
    for task in &sent {
        assert_eq!(task.gpus, []);
        let wanted = task.gpus_wanted.as_ref().expect("it is told");
        assert_eq!(wanted.need.amount(), 1.0);
        assert_eq!(wanted.counts_as.as_deref(), Some("H100"));
    }
}
