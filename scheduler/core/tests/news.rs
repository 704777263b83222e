//! Tests of the operator's log and of the problems in `status`: their texts, bounds and ends.

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use brasserie_common::story::Fault;
use brasserie_common::worker::Intake;
use brasserie_common::{
    CallOutcome, Health, InvocationId, Principal, RefusalCode, ReportedStatus, SchedulerId, Story,
    WorkerDescription, WorkerSetId,
};
use brasserie_common_config::Config;
use brasserie_scheduler_core::{
    Answer, Call, CallReply, ConfigOrigin, Event, ExpectedVersion, FileText, JobChange, NewsKind,
    Query, StatusUpdate,
};

use support::{Script, config, listed, one_job, options, worker};

const W: &str = "worker `w` on host host (instance 10:0000000000000001)";

/// The reason for the loss of a worker that is silent for 180 s.
const WHY: &str = "it was not healthy for 101 s; its last heartbeat came 2 min 56 s ago, its last good healthcheck was sent 2 min 56 s ago";

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// Returns the log lines since the last call, with their severities.
fn news(s: &mut Script) -> Vec<String> {
    let (news, dropped) = s.scheduler.take_news();
    assert_eq!(dropped, BTreeMap::new());
    let lines = news
        .iter()
        .map(|one| format!("{:?}: {one}", one.severity()));
    lines.collect()
}

#[test]
fn the_log_reports_the_states_of_a_worker_and_the_second_run_of_its_task() {
    let mut s = Script::with_config(one_job(1, ""));
    let w = worker("w", 1, 10);
    s.join(&w);
    let (call, ..) = s.take_start();
    s.complete(call, CallOutcome::Done(CallReply::Empty));
    assert_eq!(
        news(&mut s),
        [
            "Info: the initial wait is over: the cluster is new".to_owned(),
            format!("Info: {W} has joined"),
            format!("Info: {W} is healthy"),
        ]
    );
    s.advance(secs(180));
    assert_eq!(
        news(&mut s),
        [
            format!(
                "Warning: {W} is unhealthy and gets no more tasks; its last heartbeat came 76 s ago; it is lost in 100 s unless it \
                 recovers"
            ),
            format!(
                "Warning: {W} is lost: {WHY}; its 1 task (j on n0) may run again after the safety wait of 66 s, when all its processes are dead for certain"
            ),
        ]
    );
    s.advance(secs(66));
    let v = worker("v", 2, 20);
    s.join(&v);
    s.take_start();
    let lines = news(&mut s);
    let again = "Info: j on n0 runs again, on worker `v`, after worker `w` (last status: error: its worker was lost)";
    assert!(
        lines.iter().any(|line| line.starts_with(again)),
        "{lines:#?}"
    );
}

#[test]
fn the_log_names_tasks_of_a_lost_worker_up_to_a_limit() {
    let mut s = Script::with_config(one_job(30, ""));
    let mut w = worker("w", 1, 10);
    w.usable.cpu_cores = 16.0;
    s.join(&w);
    let started = s.starts().len();
    assert!(started > 12, "{started}");
    s.advance(secs(180));
    let lines = news(&mut s);
    let lost = lines.iter().find(|line| line.contains("is lost: "));
    let lost = lost.expect("it was lost");
    assert_eq!(lost.matches("j on n").count(), 10, "{lost}");
    let more = format!("its {started} tasks (j on n0, ");
    assert!(lost.contains(&more), "{lost}");
    let more = format!(", and {} more)", started - 10);
    assert!(lost.contains(&more), "{lost}");
}

#[test]
fn the_log_reports_why_a_wait_ended_and_the_caller_that_ended_it() {
    let mut s = Script::with_config(one_job(1, ""));
    let w = worker("w", 1, 10);
    s.join(&w);
    let mut s = s.restart(options());
    s.load(one_job(1, ""));
    s.advance(secs(150));
    assert_eq!(news(&mut s), [""; 0]);
    let request = s.request();
    s.event(Event::ForgetWorker {
        request,
        from: Principal::Own,
        shard: w.shard.clone(),
        confirmed: vec![w.id],
    });
    assert_eq!(
        news(&mut s),
        [
            format!(
                "Warning: an operator (from this process) has declared {W} dead, with every process of its tasks: they run again \
                 without a safety wait"
            ),
            "Info: the initial wait is over: every recorded worker instance has returned or is dead".to_owned(),
        ]
    );
}

#[test]
fn the_log_reports_a_wait_that_begins_late_a_hold_back_and_a_worker_that_drains() {
    let mut s = Script::with_config(one_job(1, ""));
    news(&mut s);
    let unknown = WorkerSetId {
        scheduler: SchedulerId::new(5, 5),
        version: 3,
        ..WorkerSetId::default()
    };
    s.heartbeat(&worker("w", 1, 10), unknown).unwrap();
    let lines = news(&mut s);
    let begins = "Warning: initial wait: nothing starts for up to 4 min 56 s: a worker knew scheduler instance 5:0000000000000005, which this \
                  data directory does not remember";
    assert!(lines[0].starts_with(begins), "{lines:#?}");

    // The worker is lost before it has listed its running tasks.
    let mut s = Script::with_config(one_job(1, ""));
    let w = worker("w", 1, 10);
    s.join(&w);
    let set = s.heartbeat(&w, WorkerSetId::default()).unwrap().worker_set;
    let silent = worker("silent", 2, 20);
    s.heartbeat(&silent, set).unwrap();
    let hold_back = "Info: the hold-back is over: what ran on lost workers is dead".to_owned();
    s.advance(secs(300));
    let lines = news(&mut s);
    assert!(lines.contains(&hold_back), "{lines:#?}");

    let mut draining = worker("drains", 3, 30);
    s.join(&draining);
    news(&mut s);
    draining.intake = Intake::Draining;
    s.heartbeat(&draining, WorkerSetId::default()).unwrap();
    let drains = "Info: worker `drains` on host host (instance 30:0000000000000003) drains: it ends with its running tasks and gets no more";
    assert_eq!(news(&mut s), [drains]);
}

#[test]
fn the_log_names_the_configuration_in_force_and_the_caller_that_changed_a_job() {
    let mut s = Script::with_config(one_job(1, ""));
    news(&mut s);
    s.event(Event::ConfigLoaded {
        config: one_job(1, ""),
        warnings: Vec::new(),
        origin: ConfigOrigin::File(FileText {
            path: "/etc/jobs.json".into(),
            text: "{}".into(),
        }),
    });
    assert_eq!(
        news(&mut s),
        ["Info: the configuration in /etc/jobs.json (1 jobs) is in force"]
    );
    for change in [
        JobChange::Save {
            text: Arc::from(r#"{"owner": "o", "command": ["/bin/true"]}"#),
            expected: ExpectedVersion::Any,
        },
        JobChange::Pause,
        JobChange::Resume,
        JobChange::Delete {
            expected: ExpectedVersion::Any,
        },
    ] {
        let request = s.request();
        s.event(Event::ChangeJob {
            request,
            from: Principal::Own,
            job: "own".try_into().expect("a name"),
            change,
        });
    }
    assert_eq!(
        news(&mut s),
        [
            "Info: this process submitted version 1 of job `own`",
            "Info: this process paused job `own`",
            "Info: this process resumed job `own`",
            "Info: this process deleted job `own`",
        ]
    );
}

fn refuse(s: &mut Script) {
    let (call, ..) = s.take_start();
    let refusal = CallOutcome::Refused(RefusalCode::Unhealthy, "it is unhealthy".to_owned());
    s.complete(call, refusal);
}

#[test]
fn a_refusal_before_the_worker_knows_that_it_is_healthy_is_no_problem() {
    let mut s = Script::with_config(one_job(30, ""));
    s.join(&worker("w", 1, 10));
    while !s.starts().is_empty() {
        refuse(&mut s);
    }
    assert_eq!(s.status().errors, [""; 0]);
    s.advance(secs(1));
    let (call, ..) = s.take_start();
    s.complete(call, CallOutcome::Done(CallReply::Empty));
    assert_eq!(s.status().errors, [""; 0]);
    assert!(!news(&mut s).iter().any(|line| line.contains("start")));
}

#[test]
fn refusals_that_go_on_are_one_problem_until_a_task_is_accepted() {
    let mut s = Script::with_config(one_job(3, ""));
    let w = worker("w", 1, 10);
    s.join(&w);
    for _ in 0..20 {
        while !s.starts().is_empty() {
            refuse(&mut s);
        }
        s.advance(secs(1));
    }
    let shown = s.status().errors;
    assert_eq!(shown.len(), 1, "{shown:?}");
    assert!(
        shown[0].contains(" ago: worker `w` did not start 2 tasks, the last one j on n"),
        "{shown:?}"
    );
    let logged = news(&mut s);
    let logged = logged.iter().filter(|line| line.contains("did not start"));
    assert_eq!(logged.count(), 1);
    let (call, ..) = s.take_start();
    s.complete(call, CallOutcome::Done(CallReply::Empty));
    assert_eq!(s.status().errors, [""; 0]);
}

/// Lets the worker accept the next task and report its completion.
fn end_next(s: &mut Script, w: &WorkerDescription, status: ReportedStatus, story: Story) {
    let (call, task, _) = s.take_start();
    s.complete(call, CallOutcome::Done(CallReply::Empty));
    let request = s.request();
    let update = Box::new(StatusUpdate {
        job: task.job.clone(),
        node: task.node.clone(),
        shard: task.shard.clone(),
        invocation: task.invocation,
        next_backoff: task.next_backoff,
        gpus: Vec::new(),
        status,
        story: Some(Arc::new(story)),
        outputs: Vec::new(),
        scheduler: s.scheduler.id(),
        worker: w.id,
    });
    s.event(Event::UpdateStatus {
        request,
        from: Principal::Own,
        update,
    });
}

#[test]
fn a_job_whose_tasks_get_no_process_shows_why_until_one_has_run() {
    let mut s = Script::with_config(one_job(3, ""));
    let w = worker("w", 1, 10);
    s.join(&w);
    let why = "it asks for the user \"ann\"";
    for _ in 0..2 {
        let story = Story::not_started(why, Fault::Worker, Duration::ZERO);
        end_next(&mut s, &w, ReportedStatus::incomplete_backoff(why), story);
    }
    let text = format!("0s ago: worker `w` could not start 2 tasks, the last one j on n1: {why}");
    assert_eq!(s.status().errors, [text]);
    let logged = news(&mut s);
    let logged = logged.iter().filter(|line| line.contains(why));
    assert_eq!(logged.count(), 1);
    end_next(&mut s, &w, ReportedStatus::done(), Story::exited(0));
    assert_eq!(s.status().errors, [""; 0]);
}

#[test]
fn a_task_that_fails_for_good_is_logged_and_explained_without_its_node() {
    let job = r#", "backoff": ["fail"]"#;
    let mut s = Script::with_config(one_job(1, job));
    let w = worker("w", 1, 10);
    s.join(&w);
    news(&mut s);
    end_next(
        &mut s,
        &w,
        ReportedStatus::error_backoff("bad input"),
        Story::exited(3),
    );
    let lines = news(&mut s);
    let logged = "Info: j on n0 has failed for good (failed: bad input)";
    assert_eq!(lines, [logged]);
    let mut text = r#"{"bistro_settings": {"nodes": {"levels": ["l"], "node_sources": [{"source": "manual", "prefs": {"other": []}}]},
        "resources": {}}, "bistro_job->j": {"command": ["/bin/true"]"#
        .to_owned();
    text.push_str(job);
    s.load(config(&format!("{text}}}}}")));
    let (job, node) = ("j".to_owned(), "n0".to_owned());
    let Answer::Explain(reasons) = s.scheduler.answer(s.now, &Query::Explain { job, node }) else {
        panic!("no reasons");
    };
    let failed =
        "it has failed for good (failed: bad input); `brasserie job forgive j` lets it run again";
    let gone = "there is no node `n0` at the job's level";
    assert!(
        reasons[0] == failed && reasons[1].contains(gone),
        "{reasons:?}"
    );
}

#[test]
fn a_failure_to_start_is_shown_no_longer_than_its_job_is_configured() {
    let mut s = Script::with_config(one_job(1, ""));
    let w = worker("w", 1, 10);
    s.join(&w);
    let why = "no such program";
    let story = Story::not_started(why, Fault::Worker, Duration::ZERO);
    end_next(&mut s, &w, ReportedStatus::incomplete_backoff(why), story);
    assert_eq!(s.status().errors.len(), 1);
    s.load(one_job(1, ", \"priority\": 2"));
    assert_eq!(s.status().errors.len(), 1, "the job is still configured");
    let mut none = Config::clone(&one_job(1, ""));
    none.jobs.clear();
    s.load(Arc::new(none));
    assert_eq!(s.status().errors, [""; 0]);
    s.load(one_job(1, ""));
    assert_eq!(s.status().errors, [""; 0], "a new job has no old problem");
}

#[test]
fn the_log_reports_a_task_that_runs_twice() {
    let mut s = Script::with_config(one_job(1, ""));
    for (shard, lock) in [("v", 1), ("w", 2)] {
        let w = worker(shard, lock, 10);
        s.heartbeat(&w, WorkerSetId::default())
            .expect("a free shard");
        let run = InvocationId::new(lock.into(), 1);
        s.answer_fetch(vec![listed(shard, "n0", run)]);
    }
    let error = "Error: j on n0 runs twice: on worker `v` and on worker `w`; `brasserie status` names the runs";
    assert!(news(&mut s).iter().any(|line| line == error));
}

#[test]
fn a_worker_that_must_die_receives_the_reason_and_status_shows_it() {
    let mut s = Script::with_config(one_job(1, ""));
    let w = worker("w", 1, 10);
    s.join(&w);
    s.advance(secs(180));
    let suicide = s.take_call(|call| matches!(call, Call::RequestSuicide { .. }));
    let (call, message) = suicide.expect("it is asked to end itself");
    let Call::RequestSuicide { why: told, .. } = message else {
        panic!("not {message:?}")
    };
    assert_eq!(&*told, WHY);
    s.complete(call, CallOutcome::NotSent("it hangs".to_owned()));
    let (_, set) = s.told[&w.id];
    let answer = s.heartbeat(&w, set).expect("an answer");
    assert_eq!(answer.worker_state, Health::MustDie);
    assert_eq!(answer.why_must_die.as_deref(), Some(WHY));
    let shown = s.status().workers[0].problems.join(" ");
    assert!(shown.contains(&format!("must end: {WHY}")), "{shown}");
    assert!(news(&mut s).iter().any(|line| line.contains(WHY)));
    // Another worker takes its shard.
    let v = worker("w", 2, 20);
    s.join(&v);
    let suicide =
        |call: &Call| matches!(call, Call::RequestSuicide { worker, .. } if *worker == w.id);
    while let Some((call, ..)) = s.take_call(suicide) {
        s.complete(call, CallOutcome::NotSent("it hangs".to_owned()));
    }
    let answer = s.heartbeat(&w, set).expect("an answer");
    let why = answer.why_must_die.expect("a reason");
    assert!(why.contains("has given its tasks to others"), "{why}");
    assert_eq!(s.echo(&v).why_must_die, None);
}

#[test]
fn a_worker_whose_name_is_taken_shows_as_refused() {
    let mut s = Script::with_config(one_job(1, ""));
    s.join(&worker("w", 1, 10));
    let second = worker("w", 2, 20);
    for _ in 0..3 {
        s.heartbeat(&second, WorkerSetId::default())
            .expect_err("the first one is healthy");
    }
    let shown = s.status().errors;
    assert_eq!(shown.len(), 1, "{shown:?}");
    let text = "worker `w` on host host is refused: worker instance 10:0000000000000001 holds shard `w` and is not lost";
    let shown_text = format!("0s ago: {text}");
    assert!(shown[0].starts_with(&shown_text), "{shown:?}");
    let logged = news(&mut s);
    let logged = logged.iter().filter(|line| line.contains(text));
    assert_eq!(logged.count(), 1);
}

#[test]
fn untaken_news_are_bounded() {
    let mut s = Script::with_config(one_job(1, ""));
    for life in 1..1000 {
        s.join(&worker("w", 1, 10 + life));
    }
    let request = s.request();
    s.event(Event::ChangeJob {
        request,
        from: Principal::Own,
        job: "j".try_into().expect("a name"),
        change: JobChange::Pause,
    });
    let (news, dropped) = s.scheduler.take_news();
    let dropped: Vec<NewsKind> = dropped.into_keys().collect();
    assert!(news.len() < 300, "{}", news.len());
    assert_eq!(dropped, [NewsKind::Workers]);
    // Many lines about workers do not hide a caller's request.
    let last = news.last().map(ToString::to_string);
    assert_eq!(last.as_deref(), Some("this process paused job `j`"));
}
