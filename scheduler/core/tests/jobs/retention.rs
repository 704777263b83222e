//! Tests of retention: completions of nodes and jobs that no longer exist are forgotten after their time or beyond a number, and no others
//! are.

use std::sync::Arc;
use std::time::Duration;

use brasserie_common::status::{StatusBits, StoredStatus};
use brasserie_common::{InvocationId, NodeName, TaskKey, WallTime};
use brasserie_common_config::Config;
use brasserie_scheduler_core::{
    Durable, EndedTask, Event, ExpectedVersion, Options, Record, Retention, Trim,
};

use crate::support::{Script, config, one_job, options};
use crate::{JOB, create, delete, name, restarted};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);

fn key(node: usize) -> TaskKey {
    TaskKey {
        job: name("j"),
        node: NodeName::try_from(format!("n{node}").as_str()).expect("a name"),
    }
}

fn done() -> StoredStatus {
    StoredStatus {
        bits: StatusBits::DONE,
        time: WallTime::from_secs(1),
        backoff_seconds: 0,
        safety_seconds: 0,
        data: None,
    }
}

/// A scheduler with job `j` done on `nodes` nodes, which all exist.
fn done_on(nodes: usize, options: Options) -> Script {
    let mut durable = Durable::default();
    let end = (InvocationId::new(1, 1), done());
    for node in 0..nodes {
        durable.statuses.insert(key(node), end.clone());
    }
    let mut s = Script::new(options, durable);
    s.load(one_job(nodes, ""));
    s
}

/// A config with the same nodes, whose only job is disabled and has no completions.
fn without_the_job(nodes: usize) -> Arc<Config> {
    let names: Vec<String> = (0..nodes).map(|i| format!("\"n{i}\": []")).collect();
    config(&format!(
        r#"{{"bistro_settings": {{"nodes": {{"levels": ["l"],
            "node_sources": [{{"source": "manual", "prefs": {{{}}}}}]}}, "resources": {{}}}},
            "bistro_job->other": {{"owner": "o", "command": ["/bin/true"], "enabled": false}}}}"#,
        names.join(", ")
    ))
}

/// Lets time pass for a scheduler that has work to do now and then.
fn pass(s: &mut Script, time: Duration) {
    const STEP: Duration = Duration::from_secs(600);
    for _ in 0..time.as_secs() / STEP.as_secs() {
        s.advance(STEP);
    }
}

fn pass_seconds(s: &mut Script, seconds: usize) {
    for _ in 0..seconds {
        s.advance(SECOND);
    }
}

/// A scheduler with job `j` done on ten nodes, which keeps completions for half a minute.
fn of_a_trial() -> Script {
    let retention = Retention {
        missing_for: 32 * SECOND,
        ..Retention::default()
    };
    let options = Options {
        retention,
        ..options()
    };
    done_on(10, options)
}

fn kept(s: &Script) -> usize {
    s.durable.statuses.len()
}

#[test]
fn completions_of_a_missing_node_are_forgotten_after_their_time() {
    let mut s = done_on(10, options());
    s.load(one_job(4, ""));
    pass(&mut s, 30 * DAY);
    assert_eq!(kept(&s), 10);
    pass(&mut s, 3 * HOUR);
    assert_eq!(kept(&s), 4);
    // The tasks run again when their nodes return.
    s.load(one_job(10, ""));
    let counts = s.status().jobs[0].counts;
    assert_eq!((counts.done, counts.unstarted), (4, 6));
}

#[test]
fn completions_of_a_missing_job_are_forgotten_after_their_time() {
    let mut s = done_on(10, options());
    s.load(without_the_job(10));
    pass(&mut s, 30 * DAY);
    assert_eq!(kept(&s), 10);
    pass(&mut s, 3 * HOUR);
    assert_eq!(kept(&s), 0);
    s.load(one_job(10, ""));
    assert_eq!(s.status().jobs[0].counts.unstarted, 10);
}

/// A job that is removed from the file and returns in time, again and again, keeps its completions.
#[test]
fn the_time_of_a_job_that_came_back_begins_anew() {
    let mut s = done_on(10, options());
    for _ in 0..3 {
        s.load(without_the_job(10));
        pass(&mut s, 20 * DAY);
        assert_eq!(s.durable.missing_jobs.len(), 1);
        s.load(one_job(10, ""));
        pass(&mut s, 2 * HOUR);
        assert_eq!(s.durable.missing_jobs.len(), 0);
        s = s.restart(restarted());
        s.load(one_job(10, ""));
    }
    assert_eq!(kept(&s), 10);
    assert_eq!(s.status().jobs[0].counts.done, 10);
}

#[test]
fn the_time_of_a_job_goes_on_after_a_restart() {
    let mut s = done_on(10, options());
    s.load(without_the_job(10));
    pass(&mut s, 20 * DAY);
    s = s.restart(restarted());
    s.load(without_the_job(10));
    pass(&mut s, 9 * DAY);
    assert_eq!(kept(&s), 10);
    pass(&mut s, DAY + 12 * HOUR);
    assert_eq!(kept(&s), 0);
}

#[test]
fn completions_of_a_job_by_api_are_kept_until_it_has_been_deleted_for_long() {
    let mut s = done_on(10, options());
    s.load(without_the_job(10));
    create(&mut s, "j", JOB);
    pass(&mut s, 40 * DAY);
    assert_eq!(kept(&s), 10);
    delete(&mut s, "j", ExpectedVersion::Any).expect("it is there");
    pass(&mut s, 29 * DAY);
    assert_eq!(kept(&s), 10);
    pass(&mut s, DAY + 3 * HOUR);
    assert_eq!(kept(&s), 0);
}

#[test]
fn completions_of_a_job_are_kept_while_it_is_saved() {
    let mut s = of_a_trial();
    s.load(without_the_job(10));
    pass_seconds(&mut s, 33);
    assert_eq!(kept(&s), 10);
    s.sync_at_once = false;
    create(&mut s, "j", JOB);
    pass_seconds(&mut s, 3);
    s.sync();
    assert_eq!(kept(&s), 10);
}

#[test]
fn completions_of_missing_jobs_are_bounded_by_count() {
    let retention = Retention {
        max_missing: 3,
        ..Retention::default()
    };
    let mut s = done_on(
        10,
        Options {
            retention,
            ..options()
        },
    );
    s.load(without_the_job(10));
    pass(&mut s, 2 * DAY);
    assert_eq!(kept(&s), 10);
    pass(&mut s, DAY + 12 * HOUR);
    assert_eq!(kept(&s), 3);
}

/// A node that returns, and has a completion before the next check, is not old at its next absence.
#[test]
fn a_completion_ends_the_notes_of_its_node_and_job() {
    let mut durable = Durable::default();
    let task = key(0);
    durable.apply(&Record::HistoryTrimmed(Box::new(Trim {
        observed: 100,
        missing: vec![task.node.clone()],
        missing_jobs: vec![task.job.clone()],
        ..Trim::default()
    })));
    assert_eq!((durable.missing.len(), durable.missing_jobs.len()), (1, 1));
    durable.apply(&Record::TaskEnded(EndedTask {
        job: task.job,
        node: task.node,
        invocation: InvocationId::new(1, 2),
        status: done(),
        story: None,
        outputs: Vec::new(),
    }));
    assert_eq!((durable.missing.len(), durable.missing_jobs.len()), (0, 0));
}

#[test]
fn completions_of_nodes_that_exist_are_kept_for_ever() {
    let retention = Retention {
        missing_for: HOUR,
        max_missing: 0,
    };
    let mut s = done_on(
        10,
        Options {
            retention,
            ..options()
        },
    );
    pass(&mut s, 10 * DAY);
    assert_eq!(kept(&s), 10);
}

#[test]
fn the_time_of_a_node_that_came_back_begins_anew() {
    let mut s = done_on(10, options());
    for _ in 0..3 {
        s.load(one_job(4, ""));
        pass(&mut s, 20 * DAY);
        s.load(one_job(10, ""));
        pass(&mut s, 2 * HOUR);
        s = s.restart(restarted());
        s.load(one_job(10, ""));
    }
    assert_eq!(kept(&s), 10);
}

/// A source may list a host only while it is up, between two scans.
#[test]
fn a_node_that_is_listed_for_minutes_a_day_is_kept() {
    let mut s = done_on(10, options());
    for days in [1; 40].into_iter().chain([20, 20]) {
        s.load(one_job(4, ""));
        pass(&mut s, days * DAY);
        s.load(one_job(10, ""));
        // The next scheduler must not know the absence that is over.
        if days == 20 {
            s.load(one_job(4, ""));
            s = s.restart(restarted());
        }
    }
    assert_eq!(kept(&s), 10);
}

/// A generated file may have a job only while it is in use, between two scans.
#[test]
fn a_job_that_is_configured_for_minutes_a_day_is_kept() {
    let mut s = done_on(10, options());
    for day in 0..40 {
        s.load(without_the_job(10));
        pass(&mut s, DAY);
        s.load(one_job(10, ""));
        pass(&mut s, HOUR / 12);
        if day == 20 {
            s.load(without_the_job(10));
            s = s.restart(restarted());
        }
    }
    assert_eq!(kept(&s), 10);
    assert_eq!(s.status().jobs[0].counts.done, 10);
}

#[test]
fn nothing_ages_while_a_source_fails() {
    let mut s = done_on(10, options());
    s.load(one_job(4, ""));
    pass(&mut s, 29 * DAY);
    s.event(Event::NodesFailed {
        message: "no source".to_owned(),
    });
    pass(&mut s, 20 * DAY);
    assert_eq!(kept(&s), 10);
    s.load(one_job(4, ""));
    pass(&mut s, DAY + 12 * HOUR);
    assert_eq!(kept(&s), 4);
}

#[test]
fn the_time_goes_on_after_a_restart_and_stands_still_without_nodes() {
    let mut s = done_on(10, options());
    s.load(one_job(4, ""));
    pass(&mut s, 20 * DAY);
    s = s.restart(restarted());
    s.event(Event::NodesFailed {
        message: "no source".to_owned(),
    });
    pass(&mut s, 20 * DAY);
    assert_eq!(kept(&s), 10);
    s.load(one_job(4, ""));
    pass(&mut s, 9 * DAY);
    assert_eq!(kept(&s), 10);
    pass(&mut s, DAY + 12 * HOUR);
    assert_eq!(kept(&s), 4);
}

/// A clock that jumps, and a machine that sleeps, make no node old.
#[test]
fn time_that_no_scheduler_has_seen_does_not_count() {
    let mut s = done_on(10, options());
    s.load(one_job(4, ""));
    pass(&mut s, DAY);
    s.now = s.now + 100 * DAY;
    s.clock_is_ahead = 100 * DAY;
    pass(&mut s, DAY);
    assert_eq!(kept(&s), 10);
}

/// A scheduler with a short retention was stopped for minutes.
#[test]
fn a_pause_counts_for_little_of_a_short_retention() {
    let mut s = of_a_trial();
    s.load(one_job(4, ""));
    pass_seconds(&mut s, 5);
    s.now = s.now + 300 * SECOND;
    pass_seconds(&mut s, 5);
    assert_eq!(kept(&s), 10);
    pass_seconds(&mut s, 30);
    assert_eq!(kept(&s), 4);
}

#[test]
fn of_too_many_those_that_have_been_missing_longest_are_forgotten_first_but_none_at_once() {
    let retention = Retention {
        max_missing: 3,
        ..Retention::default()
    };
    let mut s = done_on(
        10,
        Options {
            retention,
            ..options()
        },
    );
    s.load(one_job(8, ""));
    pass(&mut s, DAY);
    s.load(one_job(4, ""));
    pass(&mut s, 2 * DAY);
    assert_eq!(kept(&s), 10, "a weekend is no reason");
    pass(&mut s, 12 * HOUR);
    assert!(!s.durable.statuses.contains_key(&key(8)) && !s.durable.statuses.contains_key(&key(9)));
    assert_eq!(kept(&s), 8);
    pass(&mut s, DAY);
    assert_eq!(kept(&s), 7);
}

/// A completion is forgotten on disk before its task may start again.
#[test]
fn completions_are_forgotten_in_slices_that_are_durable() {
    const NODES: usize = 3000;
    let mut s = done_on(NODES, options());
    s.load(one_job(1, ""));
    pass(&mut s, 30 * DAY);
    assert_eq!(kept(&s), NODES);
    s.sync_at_once = false;
    pass(&mut s, 12 * HOUR);
    let trims = |s: &Script| {
        let trims = s.records.iter().filter_map(|record| match record {
            Record::HistoryTrimmed(trim) => Some(trim.expired.len()),
            _ => None,
        });
        trims.filter(|expired| *expired > 0).collect::<Vec<_>>()
    };
    assert_eq!(trims(&s).len(), 1);
    assert!(trims(&s)[0] < 2048);
    for _ in 0..20 {
        s.sync();
        s.advance(Duration::from_secs(1));
    }
    assert_eq!(trims(&s).iter().sum::<usize>(), NODES - 1);
    assert_eq!(kept(&s), 1);
}
