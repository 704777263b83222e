//! Tests of pull workers that choose GPUs themselves: what happens to a task that one turns down, for which model instances are idle again,
//! and what a restarted scheduler knows of a task that waits for its GPUs.

#[expect(dead_code, reason = "other tests use the rest")]
mod support;

use std::time::Duration;

use brasserie_common::cards::{CardAmount, CardNeed, CardsWanted};
use brasserie_common::resources::GpuInfo;
use brasserie_common::worker::Supply;
use brasserie_common::{
    CallOutcome, CardChoice, GpuShare, InvocationId, KnownTask, Principal, Processor, RefusalCode,
    ReportedStatus, RunningTask, WorkDemand, WorkRequest, WorkRequestSeq, WorkVerdict,
    WorkerDescription, WorkerSetId,
};
use brasserie_scheduler_core::{Call, CallReply, Event, Reply};
use brasserie_scheduler_engine::Task;

use support::{SETTLE, Script, config, listed, options, worker};

/// Duration of the busy mark after a refusal.
const BUSY: Duration = Duration::from_millis(150);

/// Two jobs whose tasks may not be queued: those of the first take a whole GPU each, those of the second take half a GPU. The first job
/// comes first.
const JOBS: [&str; 2] = [
    r#""bistro_job->a": {"command": ["/bin/true"], "resources": {"gpu": 2}}"#,
    r#""bistro_job->b": {"command": ["/bin/true"], "resources": {"gpu": 1}}"#,
];

/// A worker that has joined, with GPUs of these models, each named by its number.
struct Choosing {
    s: Script,
    worker: WorkerDescription,
    seq: u64,
    known: Vec<InvocationId>,
}

impl Choosing {
    fn new(models: &[&str], jobs: &[&str]) -> Self {
        let mut worker = worker("w", 1, 10);
        worker.supply = Supply::AsAsked;
        let card = |(at, model): (usize, &&str)| GpuInfo {
            name: (*model).to_owned(),
            pci_bus_id: at.to_string(),
            ..GpuInfo::default()
        };
        worker.usable.gpus = models.iter().enumerate().map(card).collect();
        let mut options = options();
        options.work.min_request_interval = Duration::ZERO;
        let mut s = Script::new(options, Default::default());
        s.load(config(&format!(
            r#"{{"bistro_settings": {{"scheduler": "ranked_priority", "nodes": {{"levels": ["l"], "node_order": "original",
                "node_sources": [{{"source": "manual", "prefs": {{"n0": [], "n1": [], "n2": []}}}}]}},
                "resources": {{"worker": {{"gpu": {{"default": 1, "limit": 0}}}}}},
                "physical_resources": {{"gpu_card": {{"logical_resource": "gpu", "multiply_logical_by": 0.5}}}}}},
                {}}}"#,
            jobs.join(", ")
        )));
        s.join(&worker);
        Choosing {
            s,
            worker,
            seq: 0,
            known: Vec::new(),
        }
    }

    /// Sends a request in which these models have idle instances, with one GPU each, and no task waits. Returns the verdicts.
    fn ask(&mut self, idle: &[(&str, f64)]) -> Vec<WorkVerdict> {
        self.seq += 1;
        let demand = |(model, idle): &(&str, f64)| WorkDemand {
            idle: *idle,
            waiting: Some(0.0),
            ..WorkDemand::none(Processor::named(model), 2.0)
        };
        let known = self.known.iter().map(|invocation| KnownTask {
            invocation: *invocation,
            remaining: None,
            deadline: None,
        });
        let work = WorkRequest {
            worker: self.worker.id,
            scheduler: self.s.scheduler.id(),
            seq: WorkRequestSeq(self.seq),
            demands: idle.iter().map(demand).collect(),
            known: Some(known.collect()),
            linger: Duration::from_secs(120),
            low_water: 0.0,
            cards: CardChoice::Worker,
        };
        let request = self.s.request();
        self.s.event(Event::RequestWork {
            request: Some(request),
            from: Principal::Own,
            work: Box::new(work),
        });
        self.s.advance(Duration::ZERO);
        match self.s.reply_to(request).1 {
            Reply::Work(Ok(reply)) => reply.verdicts.into_iter().map(|(_, v)| v).collect(),
            other => panic!("a request is answered as such, not {other:?}"),
        }
    }

    fn jobs_sent(&self) -> Vec<String> {
        let sent = self.s.starts().into_iter();
        sent.map(|task| task.job.to_string()).collect()
    }

    fn accept_all(&mut self) -> Vec<RunningTask> {
        let is_start = |call: &Call| matches!(call, Call::RunTask(_));
        let mut all = Vec::new();
        while let Some((call, Call::RunTask(run))) = self.s.take_call(is_start) {
            self.s.complete(call, CallOutcome::Done(CallReply::Empty));
            self.known.push(run.task.invocation);
            all.push(run.task);
        }
        all
    }

    fn turn_down_one(&mut self) {
        let (call, ..) = self.s.take_start();
        let why = "it needs 1 whole GPU, and there is not as much free".to_owned();
        let outcome = CallOutcome::Refused(RefusalCode::Busy, why);
        self.s.complete(call, outcome);
    }

    /// Completes a task well, which had these GPUs.
    fn end(&mut self, task: &RunningTask, gpus: Vec<GpuShare>) {
        let mut task = task.clone();
        task.give_cards(gpus);
        let (_, result) = self.s.update(&self.worker, &task, ReportedStatus::done());
        assert_eq!(result, Ok(()));
        self.s.sync();
        self.s.advance(Duration::ZERO);
        self.known.retain(|known| *known != task.invocation);
    }
}

fn share(device: &str, milli: u32) -> GpuShare {
    GpuShare {
        device: device.into(),
        milli,
    }
}

/// Halves of two GPUs are idle. The task that needs a whole one is sent and turned down.
fn turned_down() -> Choosing {
    let mut worker = Choosing::new(&["A", "A"], &JOBS);
    worker.ask(&[("A", 1.0)]);
    assert_eq!(worker.jobs_sent(), ["a"], "it takes all that is left");
    worker.turn_down_one();
    assert_eq!(worker.jobs_sent(), [""; 0], "it is busy for a moment");
    worker
}

#[test]
fn what_was_turned_down_leaves_its_credit_to_tasks_that_fit() {
    let mut worker = turned_down();
    worker.s.advance(BUSY);
    assert_eq!(worker.jobs_sent(), ["b", "b"]);
}

#[test]
fn what_was_turned_down_is_sent_again_when_something_has_ended_there() {
    let mut worker = turned_down();
    worker.s.advance(BUSY);
    let halves = worker.accept_all();
    // A new request alone says nothing about the free part of each GPU.
    assert_eq!(worker.ask(&[("A", 0.5)]), [WorkVerdict::Granted(1)]);
    assert_eq!(worker.jobs_sent(), ["b"]);
    worker.accept_all();
    assert_eq!(worker.ask(&[("A", 0.5)]), [WorkVerdict::Limited]);
    worker.end(&halves[0], vec![share("0", 500)]);
    assert_eq!(worker.jobs_sent(), ["a"]);
}

#[test]
fn what_was_turned_down_is_sent_again_after_a_while_if_nothing_ends() {
    let mut worker = turned_down();
    let turned_down_at = worker.s.now;
    worker.s.advance(BUSY);
    worker.accept_all();
    worker.ask(&[("A", 0.5)]);
    worker.accept_all();
    assert_eq!(worker.ask(&[("A", 1.0)]), [WorkVerdict::Limited]);
    let in_vain = Duration::from_secs(60);
    while worker.jobs_sent().is_empty() && worker.s.now.since(turned_down_at) < in_vain {
        let wake = worker.s.scheduler.poll_timeout().expect("something is due");
        worker.s.advance(wake.since(worker.s.now));
        worker.s.echo(&worker.worker.clone());
    }
    assert_eq!(worker.jobs_sent(), ["a"]);
    let after = worker.s.now.since(turned_down_at);
    assert_eq!(after.as_secs(), 5, "{after:?}");
}

#[test]
fn idle_again_is_the_model_that_a_task_had_if_its_worker_counted_it_so() {
    // The task is sent as A and finds only B free.
    for is_counted in [true, false] {
        let mut worker = Choosing::new(&["A", "B"], &JOBS[..1]);
        worker.ask(&[("A", 1.0), ("B", 0.0)]);
        let first = worker.accept_all();
        let counts_as = |task: &RunningTask| {
            let wanted = task.gpus_wanted.as_ref().expect("its worker chooses");
            wanted.counts_as.as_deref().map(str::to_owned)
        };
        assert_eq!(counts_as(&first[0]).as_deref(), Some("A"));
        if is_counted {
            worker.ask(&[("A", 0.0), ("B", 0.0)]);
            assert_eq!(worker.jobs_sent(), [""; 0]);
        }
        worker.end(&first[0], vec![share("1", 1000)]);
        let next = worker.accept_all();
        let expected = if is_counted { "B" } else { "A" };
        assert_eq!(counts_as(&next[0]).as_deref(), Some(expected));
    }
}

/// A task that waits for GPUs, as its worker lists it.
fn waiting(node: &str, start_time: i64, counts_as: &str) -> RunningTask {
    let need = CardNeed::of_parts(Default::default(), CardAmount::Whole(1));
    RunningTask {
        job: "a".try_into().expect("a name"),
        gpus_wanted: Some(CardsWanted {
            need: need.expect("a need"),
            counts_as: Some(counts_as.into()),
        }),
        ..listed("w", node, InvocationId::new(start_time, 1))
    }
}

#[test]
fn a_scheduler_started_anew_keeps_what_waiting_tasks_want() {
    let before = Choosing::new(&["A", "B"], &JOBS);
    let worker = before.worker.clone();
    let mut s = before.s.restart(options());
    let set = WorkerSetId::default();
    let told = s.heartbeat(&worker, set).expect("a free shard").worker_set;
    // The task has two runs, of which the first becomes the task's run.
    let (own, beside) = (waiting("n0", 7, "B"), waiting("n0", 8, "A"));
    s.answer_fetch(vec![own.clone(), beside.clone()]);
    s.answer_healthcheck(&worker);
    s.heartbeat(&worker, told).expect("known");
    s.advance(SETTLE);
    let wanted = |s: &Script| {
        let engine = s.scheduler.engine();
        let job = engine.find_job("a").expect("it is known");
        let node = engine.find_node("n0").expect("it is known");
        engine.gpus_wanted(Task { job, node })
    };
    assert_eq!(wanted(&s), own.gpus_wanted);
    // The run that takes its place needs what it needed itself.
    let ended = s.update(&worker, &own, ReportedStatus::failed());
    assert_eq!(ended.1, Ok(()));
    assert_eq!(wanted(&s), beside.gpus_wanted);
}
