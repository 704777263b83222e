//! Tests of the record of times that schedules gave: it is written when the nodes come into force, once, before records that follow from
//! it, and no earlier.

use std::sync::Arc;
use std::time::Duration;

use brasserie_common::{RecordSeq, ReportedStatus, Time, WallTime};
use brasserie_common_config::{Config, NodeSource, ScheduleMemory, Since, Zone};
use brasserie_scheduler_core::{ConfigOrigin, Durable, Event, JobChange, Record};
use brasserie_scheduler_engine::{NodeTable, NodeTableBuilder, Row, SourceTime, TimesGiven};

use crate::reasons;
use crate::support::{EPOCH, Script, config, options, worker};

const DAY: Duration = Duration::from_secs(86_400);

/// A config with one node for each minute, which lasts for a minute.
fn each_minute(more: &str) -> Arc<Config> {
    config(&format!(
        r#"{{"bistro_settings": {{"nodes": {{"levels": ["time"], "node_sources": [{{"source": "add_time", "prefs": {{
            "parent_level": "instance", "schedule": [{{"cron": {{"epoch": {{"period": 60}}}}, "lifetime": 60}}]}}}}]}},
            "resources": {{}}}}, "bistro_job->j": {{"command": ["/bin/true"]}} {more}}}"#
    ))
}

/// Builds the node table as the shell does.
fn build(config: &Config, memory: &ScheduleMemory, now: WallTime) -> Arc<NodeTable> {
    build_beside(0, config, memory, now)
}

/// Builds a node table with `others` more nodes, which only take time.
fn build_beside(
    others: usize,
    config: &Config,
    memory: &ScheduleMemory,
    now: WallTime,
) -> Arc<NodeTable> {
    let mut nodes = NodeTableBuilder::new("top", config);
    for other in 0..others {
        let added = nodes.add_child(Row::ROOT, &format!("o{other}"), false);
        added.expect("the table has room");
    }
    let mut times = TimesGiven::default();
    for (number, source) in (1..).zip(&config.node_sources) {
        if let NodeSource::AddTime(source) = source {
            let since = Since {
                memory,
                window: DAY,
            };
            let due = source.due_since(&since, now, &Zone::utc(), &mut times.memory);
            let due = due.expect("few times");
            times
                .given_up
                .extend(due.given_up.iter().map(ToString::to_string));
            nodes.add_time(source, &due.times).expect("good nodes");
            times.next.push(SourceTime {
                source: number,
                level: source.level(),
                next: due.next,
            });
        }
    }
    times.memory.remember_absent(memory, now, DAY);
    Arc::new(nodes.finish().with_times(times))
}

fn wall(s: &Script) -> WallTime {
    WallTime::from_secs(EPOCH) + s.now.since(Time::ZERO)
}

fn load(s: &mut Script, config: &Arc<Config>) {
    s.event(Event::ConfigLoaded {
        config: Arc::clone(config),
        warnings: Vec::new(),
        origin: ConfigOrigin::Given,
    });
}

fn refresh(s: &mut Script, config: &Arc<Config>, memory: &ScheduleMemory) -> ScheduleMemory {
    let nodes = build(config, memory, wall(s));
    let memory = nodes.times().memory.clone();
    s.event(Event::NodesLoaded {
        nodes,
        config: Arc::clone(config),
    });
    // A day of nodes takes more than one turn.
    while s.scheduler.engine().is_refreshing() {
        s.advance(Duration::ZERO);
    }
    memory
}

fn given(s: &Script) -> usize {
    let is_given = |record: &&Record| matches!(record, Record::TimesGiven { .. });
    s.records.iter().filter(is_given).count()
}

#[test]
fn what_was_given_is_recorded_once_and_before_what_follows() {
    let mut s = Script::new(options(), Durable::default());
    let config = each_minute("");
    load(&mut s, &config);
    let memory = refresh(&mut s, &config, &ScheduleMemory::default());
    assert_eq!(given(&s), 1);
    assert_eq!(s.durable.schedule_memory().0.len(), 1);
    // Nothing new was given, so nothing is written.
    let memory = refresh(&mut s, &config, &memory);
    assert_eq!(given(&s), 1);
    s.advance(Duration::from_secs(60));
    refresh(&mut s, &config, &memory);
    assert_eq!(given(&s), 2);
    // A completion on a node comes after the record of its time.
    let w = worker("w", 1, 10);
    s.join(&w);
    let (call, run, _) = s.take_start();
    s.complete(
        call,
        brasserie_common::CallOutcome::Done(brasserie_scheduler_core::CallReply::Empty),
    );
    s.update(&w, &run, ReportedStatus::done())
        .1
        .expect("its end");
    let at = |is: fn(&Record) -> bool| s.records.iter().rposition(is).expect("a record");
    let times = at(|record| matches!(record, Record::TimesGiven { .. }));
    assert!(times < at(|record| matches!(record, Record::TaskEnded(_))));
}

/// The nodes came into force a moment before the crash, and their record did not reach the disk. They are given again.
#[test]
fn what_is_not_durable_was_not_given() {
    let mut s = Script::new(options(), Durable::default());
    let config = each_minute("");
    load(&mut s, &config);
    let memory = refresh(&mut s, &config, &ScheduleMemory::default());
    let known = s.durable.schedule_memory();
    assert_eq!(known.changes_since(&memory).changed, []);
    s.sync_at_once = false;
    s.advance(Duration::from_secs(60));
    refresh(&mut s, &config, &memory);
    assert_eq!(given(&s), 2);
    let later = s.now + Duration::from_secs(600);
    let s = Script::at(options(), s.durable, later);
    let nodes = build(&config, &s.durable.schedule_memory(), wall(&s));
    // The table has the root and eleven minutes: the first minute was given and is over.
    assert_eq!(nodes.len(), 1 + 11);
}

/// Nodes on their way have given nothing, and those that newer ones replace before they are in force never do.
#[test]
fn what_is_replaced_on_its_way_was_not_given() {
    let mut s = Script::new(options(), Durable::default());
    let config = each_minute("");
    load(&mut s, &config);
    let start = wall(&s);
    let mut memory = ScheduleMemory::default();
    let mut given_by = Vec::new();
    for minute in 0..3 {
        let now = start + Duration::from_secs(60 * minute);
        let nodes = build_beside(30_000, &config, &memory, now);
        memory = nodes.times().memory.clone();
        given_by.push(memory.clone());
        s.event(Event::NodesLoaded {
            nodes,
            config: Arc::clone(&config),
        });
    }
    assert_eq!(given(&s), 0, "none is in force");
    let mut seen = vec![s.durable.schedule_memory()];
    while s.scheduler.engine().is_refreshing() {
        s.event(Event::Persisted {
            up_to: RecordSeq::default(),
        });
        let memory = s.durable.schedule_memory();
        if seen.last() != Some(&memory) {
            seen.push(memory);
        }
    }
    assert_eq!(given(&s), 2);
    let [_, first, last] = &seen[..] else {
        panic!("two were in force, one after the other: {seen:?}");
    };
    assert_eq!((first, last), (&given_by[0], &given_by[2]));
}

/// Nodes of a file that is not in force have given nothing.
#[test]
fn what_comes_of_a_file_that_is_refused_is_not_recorded() {
    let mut s = Script::with_config(config(
        r#"{"bistro_settings": {"nodes": {"levels": ["l"], "node_sources": []}, "resources": {}}}"#,
    ));
    let change = |s: &mut Script, change: JobChange| {
        let request = s.request();
        s.event(Event::ChangeJob {
            request,
            from: brasserie_common::Principal::Own,
            job: "api".try_into().expect("a name"),
            change,
        });
    };
    let expected = brasserie_scheduler_core::ExpectedVersion::Any;
    let text = "{}".into();
    change(&mut s, JobChange::Save { text, expected });
    let taken = each_minute(r#", "bistro_job->api": {}"#);
    load(&mut s, &taken);
    refresh(&mut s, &taken, &ScheduleMemory::default());
    assert_eq!(given(&s), 0, "{:?}", s.status().errors);
    change(&mut s, JobChange::Delete { expected });
    assert_eq!(given(&s), 0, "{:?}", s.status().errors);
    refresh(&mut s, &taken, &ScheduleMemory::default());
    assert_eq!(given(&s), 1);
}

#[test]
fn what_is_given_up_is_told() {
    let mut s = Script::new(options(), Durable::default());
    let config = each_minute("");
    load(&mut s, &config);
    let memory = refresh(&mut s, &config, &ScheduleMemory::default());
    s.advance(DAY + Duration::from_secs(600));
    refresh(&mut s, &config, &memory);
    let errors = s.status().errors.join("\n");
    assert!(errors.contains("10 missed times of item 1"), "{errors}");
}

#[test]
fn the_next_time_is_in_the_status_and_explains_jobs_and_nodes_that_wait_for_it() {
    let mut s = Script::new(options(), Durable::default());
    let config =
        each_minute(r#", "bistro_job->top": {"command": ["x"], "level_for_tasks": "instance"}"#);
    load(&mut s, &config);
    assert_eq!(s.status().schedules, []);
    refresh(&mut s, &config, &ScheduleMemory::default());
    let schedule = s.status().schedules.remove(0);
    assert_eq!((schedule.source, &*schedule.level), (1, "time"));
    let left = schedule.next_ms.expect("a time each minute") - wall(&s).as_millis();
    assert!((1..=60_000).contains(&left), "{left}");
    let text = schedule.next.expect("its text");
    assert!(text.ends_with("+00:00 (UTC)"), "{text}");
    let clause = format!("node source 1 gives the next nodes of level `time` on {text}, in ");
    for (job, node, tells) in [
        ("j", "", true),
        ("j", "no-such-node", true),
        ("j", "top", true),
        ("top", "", false),
        ("top", "top", false),
    ] {
        let told = reasons(&s, job, node);
        assert_eq!(told.contains(&clause), tells, "{job} {node}: {told}");
    }
    let told = reasons(&s, "j", "");
    assert!(told.starts_with("1 task: 1 waiting; "), "{told}");
    assert_eq!(reasons(&s, "nobody", ""), "no job is called `nobody`");
}
