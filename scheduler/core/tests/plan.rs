//! Tests that a plan predicts what then happens, and that planning changes nothing.

#[expect(dead_code, reason = "other tests use the rest")]
mod support;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use brasserie_common::{
    CallOutcome, InvocationId, JobName, Principal, RecordSeq, ReportedStatus, TaskKey,
    WorkerDescription,
};
use brasserie_common_config::{Changes, Config, NodeSource};
use brasserie_scheduler_core::{
    Answer, Call, CallReply, ConfigOrigin, Durable, Event, ExpectedVersion, JobChange,
    MAX_PLANNED_NODES, Options, OrphanPlan, Plan, Proposal, ProposedInputs, ProposedNodes, Query,
    Total,
};
use brasserie_scheduler_engine::{NodeTable, NodeTableBuilder};
use integration_tests_properties::{check, place};
use proptest::prelude::*;

use support::{Script, config, one_job, options, worker};

/// The shortest time that a test lets pass.
const STEP: Duration = Duration::from_millis(1);

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn table(config: &Config) -> Arc<NodeTable> {
    let mut nodes = NodeTableBuilder::new("instance", config);
    for source in &config.node_sources {
        match source {
            NodeSource::Manual(list) => nodes.add_manual(list).expect("good nodes"),
            NodeSource::RangeLabel(range) => nodes.add_range_label(range).expect("good nodes"),
            NodeSource::Empty | NodeSource::Script(_) | NodeSource::AddTime(_) => {}
        }
    }
    Arc::new(nodes.finish())
}

fn in_force(s: &Script) -> Option<Arc<Config>> {
    match s.scheduler.answer(s.now, &Query::Config) {
        Answer::Config(config) => config,
        other => panic!("{other:?}"),
    }
}

/// Returns the nodes of a new configuration as the shell reads them: only if its sources have changed.
fn proposed(s: &Script, config: &Arc<Config>) -> ProposedNodes {
    let same = in_force(s).is_some_and(|before| {
        before.levels == config.levels && before.node_sources == config.node_sources
    });
    match same {
        true => ProposedNodes::Kept,
        false => ProposedNodes::Read(table(config)),
    }
}

fn plan_with(s: &Script, config: &Arc<Config>, nodes: ProposedNodes) -> Plan {
    let before = s.scheduler.fingerprint(s.now);
    let Answer::WhatIf(copy) = s.scheduler.answer(s.now, &Query::WhatIf) else {
        panic!("a copy");
    };
    let config = Arc::clone(config);
    let inputs = ProposedInputs::default();
    let plan = copy.plan(Proposal {
        config,
        nodes,
        inputs,
    });
    assert_eq!(
        s.scheduler.fingerprint(s.now),
        before,
        "nothing has changed"
    );
    plan
}

fn plan(s: &Script, config: &Arc<Config>) -> Plan {
    plan_with(s, config, proposed(s, config))
}

/// Loads a configuration and its nodes within one turn.
fn load(s: &mut Script, config: &Arc<Config>) {
    let nodes = proposed(s, config);
    s.scheduler.handle(
        s.now,
        Event::ConfigLoaded {
            config: Arc::clone(config),
            warnings: Vec::new(),
            origin: ConfigOrigin::Given,
        },
    );
    match nodes {
        ProposedNodes::Read(nodes) => s.event(Event::NodesLoaded {
            nodes,
            config: Arc::clone(config),
        }),
        ProposedNodes::Kept | ProposedNodes::Failed(_) => turn(s),
    }
}

fn turn(s: &mut Script) {
    s.event(Event::Persisted {
        up_to: RecordSeq::default(),
    });
}

fn submit(s: &mut Script, job: &str, text: &str) {
    let request = s.request();
    s.event(Event::ChangeJob {
        request,
        from: Principal::Own,
        job: job.try_into().expect("a name"),
        change: JobChange::Save {
            text: text.into(),
            expected: ExpectedVersion::Any,
        },
    });
}

fn accept_all(s: &mut Script) {
    while let Some((call, ..)) = s.take_call(|call| matches!(call, Call::RunTask(_))) {
        s.complete(call, CallOutcome::Done(CallReply::Empty));
    }
}

fn keys(tasks: impl IntoIterator<Item = (JobName, String)>) -> BTreeSet<(String, String)> {
    let tasks = tasks.into_iter();
    tasks.map(|(job, node)| (job.to_string(), node)).collect()
}

/// A script with a worker that runs both tasks of `j`.
fn at_work(job: &str) -> Script {
    let mut s = Script::with_config(one_job(2, job));
    s.join(&worker("w", 1, 10));
    accept_all(&mut s);
    s
}

#[test]
fn the_configuration_in_force_changes_nothing() {
    let mut s = at_work("");
    submit(
        &mut s,
        "api",
        r#"{"command": ["/bin/true"], "enabled": false}"#,
    );
    let plan = plan(&s, &one_job(2, ""));
    assert!(plan.changes_nothing(), "{plan:#?}");
    assert_eq!(
        plan,
        Plan {
            nodes: plan.nodes.clone(),
            ..Plan::default()
        }
    );
    assert_eq!((plan.nodes.before, plan.nodes.after), (2, 2));
}

#[test]
fn failed_and_done_tasks_of_a_changed_job_stay_so_and_the_plan_says_so() {
    let mut s = Script::with_config(one_job(3, ""));
    let w = worker("w", 1, 10);
    s.join(&w);
    for end in [ReportedStatus::failed(), ReportedStatus::done()] {
        let run = s.take_call(|call| matches!(call, Call::RunTask(_)));
        let Some((call, Call::RunTask(run))) = run else {
            panic!("a start is a runTask");
        };
        s.complete(call, CallOutcome::Done(CallReply::Empty));
        s.update(&w, &run.task, end).1.expect("it runs there");
    }
    accept_all(&mut s);
    assert_eq!(plan(&s, &one_job(3, "")).notes, [""; 0]);
    let changed = plan(&s, &one_job(3, r#", "priority": 2"#));
    let told = [
        "failed tasks of changed jobs stay failed until `brasserie job forgive JOB`: 1 of `j`",
        "done tasks of changed jobs stay done until `brasserie job delete-history JOB`: 1 of `j`",
    ];
    assert_eq!(changed.notes, told);
}

#[test]
fn what_starts_is_counted_by_job_and_named() {
    let mut s = Script::with_config(config(
        r#"{"bistro_settings": {"nodes": {"levels": ["l"], "node_sources": []}, "resources": {}}}"#,
    ));
    s.join(&worker("w", 1, 10));
    // The worker has two cores, hence two slots.
    let plan = plan(&s, &one_job(5, ""));
    assert_eq!(plan.tasks.starts, Total::Exactly(2));
    let job = &plan.tasks.jobs.first[0];
    let named: Vec<&str> = job.first.iter().map(|node| node.as_str()).collect();
    assert_eq!((job.name.as_str(), job.starts), ("j", 2));
    assert_eq!(named, ["n0", "n1"]);
    assert_eq!((job.counts.running, job.counts.unstarted), (2, 3));
    assert_eq!(plan.nodes.levels[0].added.total, 5);
    assert!(!plan.changes_nothing());
    assert!(plan.notes[0].contains("until they are read"), "{plan:?}");
}

#[test]
fn what_is_killed_says_when_how_and_why_and_what_runs_on_does_too() {
    let after = r#", "kill_orphan_tasks_after_sec": 5, "kill_subprocess": {"method": "kill"}"#;
    let mut s = at_work(after);
    let plan_one_node = plan(&s, &one_job(1, after));
    let killed = &plan_one_node.tasks.killed;
    assert_eq!((killed.total, plan_one_node.tasks.left.total), (1, 0));
    let orphan = &killed.first[0];
    let kill = orphan.kill.expect("it is ended");
    assert_eq!((orphan.task.node.as_str(), orphan.already), ("n1", false));
    assert_eq!(orphan.why, "no enabled node has its name");
    assert_eq!((kill.after, kill.asked), (secs(5), 0));
    assert_eq!(kill.request.method, brasserie_common::KillMethod::Kill);
    // The settings apply to tasks of a removed job, and let them run on.
    let gone = config(
        r#"{"bistro_settings": {"nodes": {"levels": ["l"], "node_sources": []}, "resources": {}}}"#,
    );
    let plan_gone = plan(&s, &gone);
    assert_eq!(
        (plan_gone.tasks.killed.total, plan_gone.tasks.left.total),
        (0, 2)
    );
    let left = &plan_gone.tasks.left.first[0];
    assert_eq!((left.kill, left.shard.as_str()), (None, "w"));
    assert!(left.why.contains("not configured"), "{left:?}");

    // The rest of the time counts once the configuration is loaded, and a return to the former one spares the task.
    load(&mut s, &one_job(1, after));
    s.advance(secs(2));
    let again = plan(&s, &one_job(1, after));
    assert!(again.changes_nothing(), "{again:#?}");
    let kill = again.tasks.killed.first[0].kill.expect("it is ended");
    assert_eq!(kill.after, secs(3));
    let back = plan(&s, &one_job(2, after));
    assert_eq!((back.tasks.killed.total, back.tasks.spared.total), (0, 1));
    assert_eq!(back.tasks.spared.first[0].node.as_str(), "n1");
    let sooner = plan(&s, &one_job(1, r#", "kill_orphan_tasks_after_sec": true"#));
    assert!(!sooner.tasks.killed.first[0].already, "{sooner:?}");
}

#[test]
fn a_name_of_a_job_by_api_refuses_the_file() {
    let mut s = at_work("");
    submit(&mut s, "api", r#"{"command": ["/bin/true"]}"#);
    let taken = config(
        r#"{"bistro_settings": {"nodes": {"levels": ["l"], "node_sources": []}},
            "bistro_job->api": {"command": ["/bin/true"]}}"#,
    );
    let plan = plan(&s, &taken);
    assert!(
        plan.refused
            .as_deref()
            .is_some_and(|why| why.contains("`api`")),
        "{plan:?}"
    );
    assert!(!plan.changes_nothing());
    let rest = Plan {
        refused: None,
        ..plan
    };
    assert_eq!(rest, Plan::default(), "nothing of the rest happens");
}

#[test]
fn jobs_by_api_inherit_from_the_new_settings() {
    let mut s = at_work("");
    submit(
        &mut s,
        "api",
        r#"{"command": ["/bin/true"], "enabled": false}"#,
    );
    let mut other = (*one_job(2, "")).clone();
    other.kill_orphan_tasks_after = Some(secs(9));
    let plan = plan(&s, &Arc::new(other));
    let changed: Vec<&str> = plan
        .changes
        .changed
        .iter()
        .map(|(job, _)| job.as_str())
        .collect();
    assert_eq!(changed, ["api"]);
    assert_eq!(plan.changes.settings[0].key, "kill_orphan_tasks_after_sec");
}

#[test]
fn what_holds_everything_back_is_said() {
    let waits = Options {
        new_cluster: false,
        ..options()
    };
    let s = Script::new(waits, Durable::default());
    let plan_waiting = plan(&s, &one_job(2, ""));
    assert_eq!(plan_waiting.tasks.starts, Total::Exactly(0));
    assert_eq!(plan_waiting.tasks.held.len(), 1, "{plan_waiting:?}");
    assert!(
        plan_waiting.tasks.held[0].contains("initial wait"),
        "{plan_waiting:?}"
    );
    assert_eq!(plan_waiting.changes.added.len(), 1);

    let mut s = at_work(r#", "kill_orphan_tasks_after_sec": true"#);
    let mut off = (*one_job(1, "")).clone();
    off.enabled = false;
    let off = Arc::new(off);
    let plan_off = plan(&s, &off);
    assert_eq!(
        (plan_off.tasks.killed.total, plan_off.tasks.starts),
        (0, Total::Exactly(0))
    );
    assert!(
        plan_off.notes[0].contains("`enabled` is false"),
        "{plan_off:?}"
    );
    // A cancellation takes effect whatever the configuration says.
    let request = s.request();
    s.event(Event::ChangeJob {
        request,
        from: Principal::Own,
        job: "j".try_into().expect("a name"),
        change: JobChange::Cancel,
    });
    let plan_off = plan(&s, &off);
    assert_eq!(
        (plan_off.tasks.killed.total, plan_off.tasks.spared.total),
        (2, 0),
        "{plan_off:?}"
    );
}

#[test]
fn nodes_that_cannot_be_read_kill_nobody() {
    let kill = r#", "kill_orphan_tasks_after_sec": true"#;
    let s = at_work(kill);
    let failed = ProposedNodes::Failed("the script is lost".to_owned());
    let plan = plan_with(&s, &one_job(1, kill), failed);
    assert_eq!(plan.nodes_error.as_deref(), Some("the script is lost"));
    assert_eq!((plan.tasks.killed.total, plan.nodes.levels.len()), (0, 0));
}

#[test]
fn problems_that_are_new_are_told() {
    let s = at_work("");
    let lost = config(
        r#"{"bistro_settings": {"nodes": {"levels": ["l"], "node_order": "original",
            "node_sources": [{"source": "manual", "prefs": {"n0": [], "n1": []}}]},
            "resources": {"l": {"disk": {"default": 1, "limit": 1}}}},
            "bistro_job->j": {"command": ["/bin/true"]},
            "bistro_job->k": {"command": ["/bin/true"], "depends_on": ["nobody"]},
            "bistro_job->m": {"command": ["/bin/true"], "resources": {"disk": 2}}}"#,
    );
    let plan = plan(&s, &lost);
    assert_eq!(plan.problems.len(), 2, "{plan:#?}");
    assert!(plan.problems[0].contains("`nobody`"), "{plan:?}");
    assert!(plan.problems[1].contains("2 of `disk`"), "{plan:?}");
    let never: Vec<(&str, u64)> = plan
        .tasks
        .jobs
        .first
        .iter()
        .map(|job| (job.name.as_str(), job.counts.never))
        .collect();
    assert_eq!(never, [("k", 2), ("m", 2)]);
}

/// A plan does not wait for turns: nodes that have been read count as in force.
#[test]
fn nodes_on_their_way_are_planned_with() {
    const MANY: usize = 30_000;
    let ranges = |format: &str, end: usize| {
        config(&format!(
            r#"{{"bistro_settings": {{"nodes": {{"levels": ["l"], "node_order": "original", "node_sources": [{{
                "source": "range_label", "prefs": {{"parent_level": "instance", "format": "{format}", "start": 0,
                "end": {end}}}}}]}}, "kill_orphan_tasks_after_sec": 7}}, "bistro_job->j": {{
                "command": ["/bin/true"]}}}}"#
        ))
    };
    let mut s = Script::with_config(one_job(2, r#", "kill_orphan_tasks_after_sec": 7"#));
    s.join(&worker("w", 1, 10));
    accept_all(&mut s);
    let coming = ranges("m{i}", MANY);
    load(&mut s, &coming);
    let in_force = |s: &Script| s.scheduler.engine().nodes().map_or(0, |nodes| nodes.len());
    assert_eq!(in_force(&s), 3, "they are on their way");
    let same = plan(&s, &coming);
    assert_eq!((same.nodes.before, same.nodes.after), (MANY + 1, MANY + 1));
    assert_eq!(same.tasks.killed.total, 2, "{:?}", same.tasks.killed);
    assert!(same.tasks.killed.first.iter().all(|orphan| orphan.already));
    let back = plan(&s, &ranges("n{i}", 1));
    assert_eq!((back.nodes.before, back.nodes.after), (MANY + 1, 2));
    assert_eq!(
        (back.tasks.killed.total, back.tasks.spared.total),
        (0, 2),
        "n0 and n1 are nodes again"
    );
    let mut turns = 0;
    while s.scheduler.engine().is_refreshing() {
        turn(&mut s);
        turns += 1;
    }
    assert!(turns > 3, "{turns}");
    assert_eq!(in_force(&s), MANY + 2);
    let then = plan(&s, &coming);
    assert_eq!(then.tasks, same.tasks, "as it was planned");
}

#[test]
fn what_is_too_large_is_not_counted_but_compared() {
    let mut s = at_work("");
    submit(&mut s, "api", r#"{"command": ["/bin/true"]}"#);
    let large = config(&format!(
        r#"{{"bistro_settings": {{"nodes": {{"levels": ["l"], "node_sources": [{{"source": "range_label",
            "prefs": {{"parent_level": "instance", "format": "n{{i}}", "start": 0, "end": {MAX_PLANNED_NODES}}}}}]}}}},
            "bistro_job->k": {{"command": ["/bin/true"]}}}}"#
    ));
    let nodes = table(&large);
    let plan_large = plan_with(&s, &large, ProposedNodes::Read(nodes));
    let why = plan_large.not_counted.as_deref().unwrap_or_default();
    assert!(why.contains("1000001 nodes"), "{why}");
    assert_eq!(plan_large.changes.added[0].as_str(), "k");
    assert_eq!(plan_large.changes.removed[0].as_str(), "j");
    assert_eq!(
        (plan_large.nodes.before, plan_large.nodes.after),
        (2, MAX_PLANNED_NODES + 1)
    );
    assert_eq!(
        (plan_large.tasks.left.total, plan_large.tasks.killed.total),
        (2, 0)
    );
    assert!(!plan_large.changes_nothing());
}

#[test]
fn a_scheduler_that_is_too_large_says_whom_it_would_kill() {
    let with = |job: &str| {
        config(&format!(
            r#"{{"bistro_settings": {{"nodes": {{"levels": ["l"], "node_order": "original", "node_sources": [{{
                "source": "range_label", "prefs": {{"parent_level": "instance", "format": "n{{i}}", "start": 0,
                "end": {MAX_PLANNED_NODES}}}}}]}}, "kill_orphan_tasks_after_sec": 7}}, "bistro_job->{job}": {{
                "command": ["/bin/true"]}}}}"#
        ))
    };
    let mut s = Script::with_config(one_job(2, ""));
    load(&mut s, &with("j"));
    s.join(&worker("w", 1, 10));
    accept_all(&mut s);
    let same = plan(&s, &with("j"));
    assert_eq!((same.tasks.killed.total, same.tasks.left.total), (0, 0));
    let other = plan(&s, &with("k"));
    assert!(other.not_counted.is_some(), "{other:?}");
    let killed: Vec<&str> = other
        .tasks
        .killed
        .first
        .iter()
        .map(|o| o.task.node.as_str())
        .collect();
    assert_eq!(killed, ["n0", "n1"]);
    let kill = other.tasks.killed.first[0].kill;
    assert_eq!(kill.map(|kill| kill.after), Some(secs(7)));
    let fewer = plan_with(&s, &with("j"), ProposedNodes::Failed("lost".to_owned()));
    assert_eq!(
        (fewer.tasks.killed.total, fewer.nodes_error.is_some()),
        (0, true)
    );
}

/// A job of a random configuration.
#[derive(Clone, Debug)]
struct JobDraw {
    name: usize,
    off: bool,
    bad: bool,
    orphans: usize,
    depends: usize,
    disk: u8,
    below_h0: bool,
}

#[derive(Clone, Debug)]
struct ConfigDraw {
    policy: usize,
    order: usize,
    off: bool,
    slots: u8,
    disk: u8,
    orphans: usize,
    nodes: u8,
    disabled: u8,
    jobs: Vec<JobDraw>,
}

#[derive(Clone, Debug)]
struct HistoryDraw {
    first: ConfigDraw,
    second: Option<ConfigDraw>,
    /// The nodes of `second` are not loaded yet.
    unread: bool,
    last: ConfigDraw,
    workers: u8,
    fates: Vec<u8>,
    wait: u8,
    api: bool,
}

const NAMES: [&str; 4] = ["a", "b", "c", "api"];
const ORPHANS: [&str; 4] = ["false", "true", "3", "20"];

fn job_draw() -> impl Strategy<Value = JobDraw> {
    let name = prop_oneof![8 => 0..3_usize, 1 => Just(3_usize)];
    let rare = || proptest::bool::weighted(0.12);
    (
        name,
        rare(),
        rare(),
        0..5_usize,
        0..12_usize,
        0..4_u8,
        rare(),
    )
        .prop_map(
            |(name, off, bad, orphans, depends, disk, below_h0)| JobDraw {
                name,
                off,
                bad,
                orphans,
                depends,
                disk,
                below_h0,
            },
        )
}

fn config_draw() -> impl Strategy<Value = ConfigDraw> {
    let off = proptest::bool::weighted(0.06);
    let jobs = proptest::collection::vec(job_draw(), 0..4);
    let disabled = prop_oneof![2 => Just(0_u8), 1 => any::<u8>()];
    (
        (0..4_usize, 0..3_usize, off, 1..5_u8),
        (1..4_u8, 0..4_usize, any::<u8>(), disabled),
        jobs,
    )
        .prop_map(
            |((policy, order, off, slots), (disk, orphans, nodes, disabled), jobs)| ConfigDraw {
                policy,
                order,
                off,
                slots,
                disk,
                orphans,
                nodes,
                disabled,
                jobs,
            },
        )
}

fn history_draw() -> impl Strategy<Value = HistoryDraw> {
    let second = proptest::option::of(config_draw());
    let fates = proptest::collection::vec(0..6_u8, 0..16);
    (
        (config_draw(), second, proptest::bool::weighted(0.2)),
        (config_draw(), 0..3_u8, fates, 0..8_u8, any::<bool>()),
    )
        .prop_map(
            |((first, second, unread), (last, workers, fates, wait, api))| HistoryDraw {
                first,
                second,
                unread,
                last,
                workers,
                fates,
                wait,
                api,
            },
        )
}

impl ConfigDraw {
    /// A config of two hosts with four nodes each, some of which are left out or disabled.
    fn config(&self) -> Arc<Config> {
        let policies = [
            "roundrobin",
            "ranked_priority",
            "randomized_priority",
            "long_tail",
        ];
        let orders = ["original", "lexicographic", "random"];
        let is_in = |mask: u8, bit: usize| mask & (1 << bit) != 0;
        let below = |host: usize| {
            let nodes = (host * 4..host * 4 + 4).filter(|i| is_in(self.nodes, *i));
            let names: Vec<String> = nodes.map(|i| format!(r#""n{i}""#)).collect();
            let disabled = is_in(self.disabled, host);
            let names = names.join(", ");
            format!(r#""h{host}": {{"children": [{names}], "disabled": {disabled}}}"#)
        };
        let mut jobs: BTreeMap<&str, String> = BTreeMap::new();
        for job in &self.jobs {
            jobs.insert(NAMES[job.name], job.text());
        }
        let jobs: Vec<String> = jobs
            .iter()
            .map(|(name, text)| format!(r#", "bistro_job->{name}": {text}"#))
            .collect();
        let (policy, order) = (policies[self.policy], orders[self.order]);
        let after = ORPHANS[self.orphans];
        let (slots, disk, enabled) = (self.slots, self.disk, !self.off);
        let hosts = format!("{}, {}", below(0), below(1));
        let source = format!(r#"{{"source": "manual", "prefs": {{{hosts}}}}}"#);
        config(&format!(
            r#"{{"bistro_settings": {{"enabled": {enabled}, "scheduler": "{policy}",
                "nodes": {{"levels": ["h", "l"], "node_order": "{order}", "node_sources": [{source}]}},
                "resources": {{"h": {{"disk": {{"default": 1, "limit": {disk}}}}},
                    "worker": {{"slots": {{"default": 1, "limit": {slots}}}}}}},
                "kill_orphan_tasks_after_sec": {after}, "backoff": [1, 4, "fail"]}}{}}}"#,
            jobs.concat()
        ))
    }
}

impl JobDraw {
    fn text(&self) -> String {
        let mut keys = vec![r#""command": ["/bin/true"]"#.to_owned()];
        keys.push(format!(
            r#""enabled": {}, "priority": {}"#,
            !self.off,
            self.disk + 1
        ));
        if self.bad {
            keys.push(r#""owner": [7]"#.to_owned());
        }
        if let Some(after) = ORPHANS.get(self.orphans) {
            keys.push(format!(r#""kill_orphan_tasks_after_sec": {after}"#));
        }
        if let Some(on) = NAMES.get(self.depends).filter(|_| self.depends < self.name) {
            keys.push(format!(r#""depends_on": ["{on}"]"#));
        }
        if self.disk < 3 {
            keys.push(format!(r#""resources": {{"disk": {}}}"#, self.disk));
        }
        if self.below_h0 {
            keys.push(r#""filters": {"h": {"whitelist": ["h0"]}}"#.to_owned());
        }
        format!("{{{}}}", keys.join(", "))
    }
}

/// Tasks complete, go on running, or stay on their way to the worker, as drawn.
fn work(s: &mut Script, workers: &[WorkerDescription], fates: &[u8]) {
    for fate in fates {
        let Some((call, message)) = s.take_call(|call| matches!(call, Call::RunTask(_))) else {
            return;
        };
        let Call::RunTask(run) = message else {
            panic!("a start is a runTask");
        };
        s.complete(call, CallOutcome::Done(CallReply::Empty));
        let status = match fate {
            0 | 1 => ReportedStatus::done(),
            2 => ReportedStatus::error_backoff("bad luck"),
            3 => ReportedStatus::incomplete(),
            _ => continue,
        };
        let on = workers.iter().find(|w| w.shard == run.task.shard);
        let (_, result) = s.update(on.expect("one of them"), &run.task, status);
        result.expect("it runs there");
    }
}

/// A scheduler at some point of its life.
fn scheduler(draw: &HistoryDraw) -> Script {
    let mut s = Script::with_config(draw.first.config());
    let workers: Vec<WorkerDescription> = (0..draw.workers)
        .map(|i| worker(["w", "v"][usize::from(i)], i32::from(i) + 1, 10))
        .collect();
    for w in &workers {
        s.join(w);
    }
    if draw.api {
        submit(
            &mut s,
            "api",
            r#"{"command": ["/bin/true"], "kill_orphan_tasks_after_sec": 2}"#,
        );
    }
    let (early, late) = draw.fates.split_at(draw.fates.len() / 2);
    work(&mut s, &workers, early);
    if let Some(second) = &draw.second {
        match draw.unread {
            true => s.event(Event::ConfigLoaded {
                config: second.config(),
                warnings: Vec::new(),
                origin: ConfigOrigin::Given,
            }),
            false => load(&mut s, &second.config()),
        }
        work(&mut s, &workers, late);
    }
    // The scheduler would first ask about tasks that are on their way for too long.
    for _ in 0..draw.wait {
        accept_all(&mut s);
        s.advance(secs(1));
    }
    for w in &workers {
        s.echo(w);
    }
    accept_all(&mut s);
    s
}

/// Returns the first kill request for each run from now on, and when it leaves.
fn first_kills(s: &mut Script, within: Duration) -> BTreeMap<(TaskKey, InvocationId), Duration> {
    let start = s.now;
    let mut kills = BTreeMap::new();
    loop {
        let mut asked = Vec::new();
        while let Some((call, message)) = s.take_call(|call| matches!(call, Call::KillTask { .. }))
        {
            let Call::KillTask { task, .. } = message else {
                panic!("a kill");
            };
            let key = TaskKey {
                job: task.job,
                node: task.node,
            };
            asked.push((call, (key, task.invocation)));
        }
        for (call, run) in asked {
            kills.entry(run).or_insert(s.now.since(start));
            s.complete(call, CallOutcome::Done(CallReply::Empty));
        }
        accept_all(s);
        if s.now.since(start) >= within {
            return kills;
        }
        let next = s.scheduler.poll_timeout().unwrap_or(start + within);
        let step = next.since(s.now).clamp(STEP, secs(1));
        s.advance(step);
    }
}

/// Counts of the histories that showed each outcome.
#[derive(Debug, Default)]
struct Seen {
    refused: Cell<u32>,
    started: Cell<u32>,
    killed: Cell<u32>,
    killed_later: Cell<u32>,
    left: Cell<u32>,
    spared: Cell<u32>,
}

impl Seen {
    fn note(&self, plan: &Plan) {
        let tasks = &plan.tasks;
        let is_later = |orphan: &OrphanPlan| orphan.kill.is_some_and(|k| k.after > Duration::ZERO);
        for (count, is_so) in [
            (&self.refused, plan.refused.is_some()),
            (&self.started, tasks.starts != Total::Exactly(0)),
            (&self.killed, !tasks.killed.is_empty()),
            (&self.killed_later, tasks.killed.first.iter().any(is_later)),
            (&self.left, !tasks.left.is_empty()),
            (&self.spared, !tasks.spared.is_empty()),
        ] {
            count.set(count.get() + u32::from(is_so));
        }
    }

    fn least(&self) -> u32 {
        let counts = [
            &self.refused,
            &self.started,
            &self.killed,
            &self.killed_later,
            &self.left,
            &self.spared,
        ];
        counts.iter().map(|count| count.get()).min().unwrap_or(0)
    }
}

mod property {
    use super::*;

    #[test]
    fn what_is_planned_happens() {
        let seen = Seen::default();
        let place = place!(what_is_planned_happens);
        let cases = check(place, 400, "draw", history_draw(), |draw| {
            planned_happens(&draw, &seen)
        });
        assert!(
            seen.least() >= 5 || cases.is_one,
            "what was not looked at: {seen:?}"
        );
    }
}

fn planned_happens(draw: &HistoryDraw, seen: &Seen) -> Result<(), TestCaseError> {
    let mut s = scheduler(draw);
    let next = draw.last.config();
    let before = in_force(&s).expect("a configuration");
    let plan = plan(&s, &next);
    seen.note(&plan);
    // Earlier kill requests have no outcome yet.
    s.calls
        .retain(|(_, _, call)| !matches!(call, Call::KillTask { .. }));
    load(&mut s, &next);
    let after = in_force(&s).expect("a configuration");
    let refused = s
        .status()
        .errors
        .iter()
        .any(|e| e.contains("also given by API"));
    prop_assert_eq!(plan.refused.is_some(), refused);
    prop_assert_eq!(&plan.changes, &Changes::between(&before, &after));

    let started = s.starts();
    let started = keys(started.into_iter().map(|t| (t.job, t.node.to_string())));
    let jobs = &plan.tasks.jobs.first;
    let total: u64 = jobs.iter().map(|job| job.starts).sum();
    prop_assert_eq!(plan.tasks.starts, Total::Exactly(total));
    let planned = jobs.iter().flat_map(|job| {
        job.first
            .iter()
            .map(|node| (job.name.clone(), node.to_string()))
    });
    let planned = keys(planned);
    prop_assert_eq!(total, planned.len() as u64, "each is named");
    if !refused {
        prop_assert_eq!(started, planned);
    }
    accept_all(&mut s);

    let within = secs(25);
    let kills = first_kills(&mut s, within);
    let killed = plan.tasks.killed.first.iter().filter_map(|orphan| {
        let kill = orphan.kill?;
        Some(((orphan.task.clone(), orphan.invocation), kill))
    });
    let (asked, fresh): (BTreeMap<_, _>, BTreeMap<_, _>) =
        killed.partition(|(_, kill)| kill.asked > 0);
    if !refused {
        for (run, at) in &kills {
            if asked.contains_key(run) {
                continue;
            }
            let planned = fresh.get(run).map(|kill| kill.after);
            let is_then = |planned: Duration| planned.abs_diff(*at) <= STEP;
            prop_assert!(
                planned.is_some_and(is_then),
                "{:?} at {:?}, not {:?}",
                run,
                at,
                planned
            );
        }
        for (run, kill) in &fresh {
            prop_assert!(kill.after > within || kills.contains_key(run), "{:?}", run);
        }
    }
    Ok(())
}
