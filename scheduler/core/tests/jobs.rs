//! Tests of jobs by API next to those of the file: who owns a name, when changes take effect, and what survives a restart.

#[path = "jobs/artifacts.rs"]
mod artifacts;
#[path = "jobs/file.rs"]
mod file;
#[path = "jobs/history.rs"]
mod history;
#[path = "jobs/listing.rs"]
mod listing;
#[path = "jobs/node_errors.rs"]
mod node_errors;
mod orphans;
#[path = "jobs/owners.rs"]
mod owners;
mod refresh;
#[path = "jobs/retention.rs"]
mod retention;
mod support;
#[path = "jobs/times.rs"]
mod times;

use std::time::Duration;

use brasserie_common::status::{StatusBits, StoredStatus};
use brasserie_common::{
    CallOutcome, Hold, InvocationId, JobName, NodeName, Principal, RecordSeq, ReportedStatus,
    TaskKey, WallTime, WorkerSetId,
};
use brasserie_common_config::JobConfig;
use brasserie_scheduler_core::{
    Answer, CallReply, Durable, Event, ExpectedVersion, JobChange, JobChanged, JobRefusal,
    JobVersion, MAX_JOB_BYTES, Options, Query, Record, Reply,
};

use support::{Script, config, listed, one_job, options, worker};

/// A job without obstacles.
const JOB: &str = r#"{"owner": "ann", "command": ["/bin/true"]}"#;

fn name(job: &str) -> JobName {
    job.try_into().expect("a name")
}

fn restarted() -> Options {
    Options {
        new_cluster: false,
        ..options()
    }
}

/// A cluster with a worker and a disabled job `j`.
fn quiet() -> Script {
    let mut s = Script::with_config(one_job(1, r#", "enabled": false"#));
    s.join(&worker("w", 1, 10));
    s
}

fn change(
    s: &mut Script,
    job: &str,
    change: JobChange,
) -> (Option<RecordSeq>, Result<JobChanged, JobRefusal>) {
    change_by(s, &Principal::Own, job, change)
}

fn change_by(
    s: &mut Script,
    from: &Principal,
    job: &str,
    change: JobChange,
) -> (Option<RecordSeq>, Result<JobChanged, JobRefusal>) {
    let request = s.request();
    s.event(Event::ChangeJob {
        request,
        from: from.clone(),
        job: name(job),
        change,
    });
    match s.reply_to(request) {
        (after, Reply::JobChanged(result)) => (after, result),
        (_, other) => panic!("a wish is answered as such, not {other:?}"),
    }
}

fn save(
    s: &mut Script,
    job: &str,
    text: &str,
    expected: ExpectedVersion,
) -> Result<i64, JobRefusal> {
    let text = text.into();
    match change(s, job, JobChange::Save { text, expected }).1 {
        Ok(JobChanged::Saved { version, .. }) => Ok(version.0),
        Ok(other) => panic!("{other:?}"),
        Err(refusal) => Err(refusal),
    }
}

fn create(s: &mut Script, job: &str, text: &str) -> i64 {
    save(s, job, text, ExpectedVersion::Nothing).expect("a new job")
}

fn delete(s: &mut Script, job: &str, expected: ExpectedVersion) -> Result<JobChanged, JobRefusal> {
    change(s, job, JobChange::Delete { expected }).1
}

fn exactly(version: i64) -> ExpectedVersion {
    ExpectedVersion::Exactly(JobVersion(version))
}

fn started(s: &Script) -> Vec<String> {
    let starts = s.starts();
    starts.iter().map(|task| task.job.to_string()).collect()
}

fn job(s: &Script, job: &str) -> Option<JobConfig> {
    match s.scheduler.answer(s.now, &Query::Config) {
        Answer::Config(config) => config.expect("a configuration").job(job).cloned(),
        other => panic!("{other:?}"),
    }
}

fn reasons(s: &Script, job: &str, node: &str) -> String {
    let (job, node) = (job.to_owned(), node.to_owned());
    match s.scheduler.answer(s.now, &Query::Explain { job, node }) {
        Answer::Explain(reasons) => reasons.join("; "),
        Answer::Unknown(text) => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_saved_job_runs_and_is_known_once_its_record_is_durable_and_no_sooner() {
    let mut s = quiet();
    s.sync_at_once = false;
    let text = JOB.into();
    let expected = ExpectedVersion::Nothing;
    let (after, result) = change(&mut s, "api", JobChange::Save { text, expected });
    assert!(result.is_ok(), "{result:?}");
    assert!(after.is_some(), "the answer waits for the record");
    s.advance(Duration::from_secs(1));
    assert_eq!((started(&s), job(&s, "api")), (Vec::new(), None));
    s.sync();
    assert_eq!(started(&s), ["api"]);
    let saved = job(&s, "api").unwrap();
    assert_eq!((saved.owner.as_str(), saved.version_id), ("ann", 1));
    assert_eq!(saved.create_time, saved.modify_time);
    assert!(saved.create_time >= support::EPOCH);
}

#[test]
fn a_change_that_rests_on_another_version_is_refused() {
    let mut s = quiet();
    assert_eq!(create(&mut s, "api", JOB), 1);
    let (job, version) = (name("api"), JobVersion(1));
    assert_eq!(
        save(&mut s, "api", JOB, ExpectedVersion::Nothing),
        Err(JobRefusal::Exists { job, version })
    );
    assert_eq!(save(&mut s, "api", JOB, exactly(1)), Ok(2));
    let stale = |expected, found| JobRefusal::Stale {
        job: name("api"),
        expected: JobVersion(expected),
        found: JobVersion(found),
    };
    assert_eq!(save(&mut s, "api", JOB, exactly(1)), Err(stale(1, 2)));
    // The text that `getJob` returned can be saved again as it is.
    let with_version = r#"{"version_id": 2, "create_time": 5, "command": ["/bin/true"]}"#;
    let as_text_says = ExpectedVersion::AsTextSays;
    assert_eq!(save(&mut s, "api", with_version, as_text_says), Ok(3));
    assert_eq!(
        save(&mut s, "api", with_version, as_text_says),
        Err(stale(2, 3))
    );
    let exists = save(&mut s, "api", JOB, as_text_says);
    assert!(
        matches!(exists, Err(JobRefusal::Exists { .. })),
        "{exists:?}"
    );
    assert_eq!(save(&mut s, "api", JOB, ExpectedVersion::Any), Ok(4));
    assert_eq!(delete(&mut s, "api", exactly(3)), Err(stale(3, 4)));
    delete(&mut s, "api", exactly(4)).expect("a deletion");
    let gone = JobRefusal::Gone {
        job: name("api"),
        expected: JobVersion(4),
    };
    assert_eq!(save(&mut s, "api", JOB, exactly(4)), Err(gone));
    // No version number occurs twice, neither after a deletion nor after a restart.
    assert_eq!(create(&mut s, "api", JOB), 6);
    delete(&mut s, "api", ExpectedVersion::Any).unwrap();
    let mut s = s.restart(restarted());
    s.load(one_job(1, ""));
    assert_eq!(create(&mut s, "api", JOB), 8);
}

#[test]
fn a_save_that_is_on_its_way_to_the_disk_counts() {
    let mut s = quiet();
    s.sync_at_once = false;
    assert_eq!(create(&mut s, "api", JOB), 1);
    let again = save(&mut s, "api", JOB, ExpectedVersion::Nothing);
    assert!(matches!(again, Err(JobRefusal::Exists { .. })), "{again:?}");
    assert_eq!(
        save(&mut s, "api", r#"{"owner": "eve"}"#, exactly(1)),
        Ok(2)
    );
    s.sync();
    assert_eq!(job(&s, "api").unwrap().owner, "eve");
    // A deletion overtakes a save that is not durable yet.
    assert_eq!(save(&mut s, "api", JOB, exactly(2)), Ok(3));
    delete(&mut s, "api", exactly(3)).expect("a deletion");
    s.sync();
    assert_eq!(job(&s, "api"), None);
    assert_eq!(s.durable.jobs.len(), 0);
}

#[test]
fn pauses_and_deletions_stop_at_once_and_resuming_waits_for_the_disk() {
    let mut s = Script::with_config(one_job(1, ""));
    let paused = |s: &mut Script| change(s, "j", JobChange::Pause);
    s.sync_at_once = false;
    assert!(paused(&mut s).0.is_some());
    s.sync();
    s.sync_at_once = true;
    s.join(&worker("w", 1, 10));
    assert_eq!(started(&s), Vec::<String>::new());
    assert!(
        reasons(&s, "j", "n0").contains("paused"),
        "{}",
        reasons(&s, "j", "n0")
    );
    assert_eq!(s.status().jobs[0].hold, Some(Hold::Paused));
    s.sync_at_once = false;
    let (after, result) = change(&mut s, "j", JobChange::Resume);
    let resumed = JobChanged::Resumed {
        before: Some(Hold::Paused),
    };
    assert_eq!((after.is_some(), result), (true, Ok(resumed)));
    s.advance(Duration::from_secs(1));
    assert_eq!(started(&s), Vec::<String>::new());
    // The job is paused again before its resumption is durable, so it never runs.
    assert!(paused(&mut s).1.is_ok());
    s.sync();
    assert_eq!(started(&s), Vec::<String>::new());
    change(&mut s, "j", JobChange::Resume).1.unwrap();
    s.sync();
    assert_eq!(started(&s), ["j"]);

    let mut s = quiet();
    create(&mut s, "api", r#"{"enabled": false}"#);
    assert_eq!(save(&mut s, "api", JOB, exactly(1)), Ok(2));
    assert_eq!(started(&s), ["api"]);
    let mut s = Script::with_config(one_job(1, r#", "enabled": false"#));
    create(&mut s, "api", JOB);
    s.sync_at_once = false;
    delete(&mut s, "api", ExpectedVersion::Any).unwrap();
    // The deletion takes effect before it is durable.
    assert_eq!(job(&s, "api"), None);
    // A crash before the deletion is durable undoes it, and no caller was told that it succeeded.
    let s = s.restart(restarted());
    assert_eq!(s.durable.jobs.len(), 1);
}

#[test]
fn jobs_and_pauses_survive_a_restart_and_a_deletion_ends_a_pause() {
    let mut s = quiet();
    create(&mut s, "api", JOB);
    create(&mut s, "other", JOB);
    change(&mut s, "other", JobChange::Pause).1.unwrap();
    change(&mut s, "j", JobChange::Pause).1.unwrap();
    let mut s = s.restart(restarted());
    s.load(one_job(1, ""));
    let jobs: Vec<_> = s.status().jobs;
    let seen: Vec<_> = jobs
        .iter()
        .map(|job| {
            (
                job.name.as_str(),
                job.hold.is_some(),
                job.version.map(|v| v.0),
            )
        })
        .collect();
    assert_eq!(
        seen,
        [
            ("j", true, None),
            ("api", false, Some(1)),
            ("other", true, Some(2))
        ]
    );
    delete(&mut s, "other", ExpectedVersion::Any).unwrap();
    create(&mut s, "other", JOB);
    assert_eq!(job(&s, "other").unwrap().hold, None);
}

#[test]
fn no_two_jobs_share_a_name() {
    let mut s = quiet();
    let in_file = JobRefusal::InFile(name("j"));
    let taken = save(&mut s, "j", JOB, ExpectedVersion::Any);
    assert_eq!(taken, Err(in_file.clone()));
    assert_eq!(delete(&mut s, "j", ExpectedVersion::Any), Err(in_file));
    let nobody = JobRefusal::Unknown("no job is called `nobody`".to_owned());
    for wish in [JobChange::Pause, JobChange::Resume, JobChange::Forgive] {
        assert_eq!(change(&mut s, "nobody", wish).1, Err(nobody.clone()));
    }
    assert_eq!(delete(&mut s, "nobody", ExpectedVersion::Any), Err(nobody));
    let misspelt = change(&mut s, "jj", JobChange::Pause).1.unwrap_err();
    assert_eq!(
        misspelt.to_string(),
        "no job is called `jj`; did you mean `j`? `brasserie job list` lists jobs"
    );
    assert!(save(&mut s, "__BISTRO_HEALTH_CHECK__", JOB, ExpectedVersion::Any).is_err());
    assert!(save(&mut s, "", JOB, ExpectedVersion::Any).is_err());
}

/// A file with levels of its own, so that the nodes of the former file do not fit it.
const FILE_WITH_API: &str = r#"{"bistro_settings": {"nodes": {"levels": ["other"],
    "node_sources": [{"source": "manual", "prefs": {"x": [], "y": []}}]}, "resources": {}},
    "bistro_job->api": {"owner": "file", "command": ["/bin/true"]}}"#;

#[test]
fn a_file_that_takes_the_name_of_a_job_by_api_waits_for_its_deletion() {
    let mut s = quiet();
    create(&mut s, "api", JOB);
    let levels = |s: &Script| s.scheduler.source_in_force().unwrap().config.levels.clone();
    let before = levels(&s);
    s.load(config(FILE_WITH_API));
    assert_eq!(levels(&s), before, "its sources are not wanted");
    let errors = s.status().errors.join("\n");
    assert!(
        errors.contains("`api`") && errors.contains("last good"),
        "{errors}"
    );
    assert_eq!(job(&s, "api").unwrap().owner, "ann");
    assert!(job(&s, "j").is_some(), "the last good file stays");
    assert!(reasons(&s, "api", "x").contains("no node"), "and its nodes");
    s.sync_at_once = false;
    delete(&mut s, "api", ExpectedVersion::Any).unwrap();
    // A crash may still undo the deletion.
    assert_eq!(job(&s, "api"), None);
    assert_eq!(levels(&s), before);
    s.sync_at_once = true;
    s.sync();
    assert_eq!(levels(&s)[1], "other");
    s.load_nodes(config(FILE_WITH_API));
    let errors = s.status().errors;
    assert_eq!(errors.len(), 1, "of the run of the deleted job: {errors:?}");
    assert!(
        errors[0].contains("nodes that are gone (`api`: 1)"),
        "{errors:?}"
    );
    assert_eq!(job(&s, "api").unwrap().owner, "file");
    assert!(job(&s, "j").is_none());
    assert_eq!(started(&s).iter().filter(|job| *job == "api").count(), 2);
    let taken = save(&mut s, "api", JOB, ExpectedVersion::Any);
    assert_eq!(taken, Err(JobRefusal::InFile(name("api"))));
}

#[test]
fn a_file_without_the_name_takes_the_place_of_one_that_waits() {
    let mut s = quiet();
    create(&mut s, "api", JOB);
    s.load(config(FILE_WITH_API));
    s.load(one_job(2, ""));
    assert_eq!(s.status().errors, Vec::<String>::new());
    assert_eq!(job(&s, "api").unwrap().owner, "ann");
    assert!(job(&s, "j").unwrap().enabled);
    // The waiting file is forgotten.
    delete(&mut s, "api", ExpectedVersion::Any).unwrap();
    assert!(job(&s, "api").is_none() && job(&s, "j").is_some());
}

#[test]
fn at_a_start_a_file_that_takes_the_name_starts_nothing_and_can_be_mended() {
    let mut s = quiet();
    create(&mut s, "api", JOB);
    let mut s = s.restart(restarted());
    s.load(config(FILE_WITH_API));
    assert!(s.status().errors.join("\n").contains("`api`"));
    assert!(s.scheduler.source_in_force().is_none() && !s.status().nodes_loaded);
    assert!(matches!(
        save(&mut s, "new", JOB, ExpectedVersion::Any),
        Err(JobRefusal::NoConfig)
    ));
    delete(&mut s, "api", ExpectedVersion::Any).unwrap();
    assert_eq!(job(&s, "api").unwrap().owner, "file");
    assert!(s.scheduler.source_in_force().is_some());
    s.load_nodes(config(FILE_WITH_API));
    assert!(s.status().nodes_loaded);
}

#[test]
fn what_a_job_leaves_out_follows_the_settings() {
    let mut s = quiet();
    let with = |settings: &str| {
        config(&format!(
            r#"{{"bistro_settings": {{"nodes": {{"levels": ["l"], "node_sources": []}}, {settings}}}}}"#
        ))
    };
    s.load(with(
        r#""resources": {"l": {"disk": {"default": 1, "limit": 3}}}, "backoff": [7, "fail"]"#,
    ));
    create(&mut s, "api", r#"{"resources": {"disk": 2}}"#);
    assert_eq!(job(&s, "api").unwrap().backoff.values(), [7]);
    s.load(with(
        r#""resources": {"l": {"disk": {"default": 1, "limit": 3}}}, "backoff": [8, "fail"]"#,
    ));
    assert_eq!(job(&s, "api").unwrap().backoff.values(), [8]);
    // A resource that is gone disables the job, and the error names it.
    s.load(with(r#""backoff": [8, "fail"]"#));
    let broken = job(&s, "api").unwrap();
    assert!(!broken.can_run());
    assert!(broken.errors[0].contains("disk"), "{:?}", broken.errors);
    assert_eq!(broken.version_id, 1);
    s.load(with(
        r#""resources": {"l": {"disk": {"default": 1, "limit": 3}}}"#,
    ));
    assert!(job(&s, "api").unwrap().can_run());
}

#[test]
fn a_text_that_makes_no_job_changes_nothing_and_says_why() {
    let mut s = quiet();
    create(&mut s, "api", JOB);
    let mut refused = |job: &str, text: &str| {
        save(&mut s, job, text, ExpectedVersion::Any)
            .unwrap_err()
            .to_string()
    };
    let text = refused("api", "{\n \"priority\": \"high\", \"command\": \"x\"}");
    assert!(text.contains("2:14: priority"), "{text}");
    assert!(text.contains("2:33: command"), "all at once: {text}");
    assert!(refused("api", "{").contains(" 1:"));
    let text = refused("api", r#"{"command": ["./bin/x"]}"#);
    assert!(text.contains("whole path"), "{text}");
    let text = refused("api", r#"{"errors": ["old"]}"#);
    assert!(text.contains("exported with errors"), "{text}");
    let long = format!("{{\"owner\": \"{}\"}}", "x".repeat(MAX_JOB_BYTES));
    assert!(refused("api", &long).contains("at most"));
    let text = refused("api", r#"{"depends_on": ["api"]}"#);
    assert!(text.contains("api -> api"), "{text}");
    create(&mut s, "b", r#"{"depends_on": ["api"]}"#);
    create(&mut s, "c", r#"{"depends_on": ["j", "b"]}"#);
    let circle = save(&mut s, "api", r#"{"depends_on": ["c"]}"#, exactly(1));
    let way = "api -> c -> b -> api".to_owned();
    assert_eq!(circle, Err(JobRefusal::Circle(way)));
    let all = r#"{"run_only_after_all_nodes_are_done_for": ["c"]}"#;
    let way = "api -> c -> b -> api".to_owned();
    let circle = save(&mut s, "api", all, exactly(1));
    assert_eq!(circle, Err(JobRefusal::Circle(way)));
    assert_eq!(job(&s, "api").unwrap().owner, "ann");
    assert_eq!(s.durable.last_job_version, JobVersion(3));
}

#[test]
fn unknown_keys_and_dependencies_are_told_and_harm_nothing() {
    let mut s = quiet();
    let text = r#"{"comand": [], "command": ["x"], "depends_on": ["later", "j"]}"#.into();
    let expected = ExpectedVersion::Nothing;
    let saved = change(&mut s, "api", JobChange::Save { text, expected }).1;
    let Ok(JobChanged::Saved { warnings, .. }) = saved else {
        panic!("{saved:?}")
    };
    let warnings: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(
        warnings[0].contains("did you mean `command`?"),
        "{warnings:?}"
    );
    assert!(
        warnings[1].contains("depends_on[0]: there is no job `later`"),
        "{warnings:?}"
    );
    let text = r#"{"command": ["x"], "inputs": [{"file": "f"}, {"from": "later"}, {"from": "gone", "node": "all"}]}"#.into();
    let expected = ExpectedVersion::Nothing;
    let saved = change(&mut s, "reader", JobChange::Save { text, expected }).1;
    let Ok(JobChanged::Saved { warnings, .. }) = saved else {
        panic!("{saved:?}")
    };
    let warnings: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "1:1: inputs[1].from: there is no job `later`, so no task will start",
            "1:1: inputs[2].from: there is no job `gone`, so no task will start",
        ]
    );
    create(&mut s, "off", r#"{"enabled": false}"#);
    let key = "run_only_after_all_nodes_are_done_for";
    let text = format!(r#"{{"command": ["x"], "{key}": ["api", "later", "off"]}}"#).into();
    let expected = ExpectedVersion::Nothing;
    let saved = change(&mut s, "last", JobChange::Save { text, expected }).1;
    let Ok(JobChanged::Saved { warnings, .. }) = saved else {
        panic!("{saved:?}")
    };
    let warnings: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            format!("1:1: {key}[1]: there is no job `later`, so no task will start"),
            format!("1:1: {key}[2]: job `off` is disabled, so no task will start"),
        ]
    );
}

#[test]
fn a_job_as_a_whole_names_the_jobs_on_which_it_depends_until_they_are_done() {
    let mut s = quiet();
    create(&mut s, "first", r#"{"command": ["x"]}"#);
    let text = r#"{"command": ["x"], "depends_on": ["first", "later"]}"#.into();
    let expected = ExpectedVersion::Nothing;
    assert!(
        change(&mut s, "second", JobChange::Save { text, expected })
            .1
            .is_ok()
    );
    let why = reasons(&s, "second", "");
    let begin = "each task waits until job";
    let first = format!("{begin} `first` is done on the task's node; job `first` has 1 task: 1 ");
    assert!(why.contains(&first), "{why}");
    let later = format!("{begin} `later` is done on the task's node; no such job is configured");
    assert!(why.contains(&later), "{why}");
    assert!(!reasons(&s, "first", "").contains(begin));
}

#[test]
fn what_can_never_start_is_told_and_taken() {
    let mut s = quiet();
    let text = r#"{"command": ["x"], "resources": {"slots": 9}, "filters": {"l": {"blacklist_regex": "."}}}"#;
    let expected = ExpectedVersion::Nothing;
    let save = JobChange::Save {
        text: text.into(),
        expected,
    };
    let Ok(JobChanged::Saved { warnings, .. }) = change(&mut s, "big", save).1 else {
        panic!("it is taken")
    };
    let warnings: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(
        warnings[0].contains("it needs 9 of `slots`, and `w` has 2"),
        "{warnings:?}"
    );
    assert!(
        warnings[1].contains("none is enabled and passes its filters"),
        "{warnings:?}"
    );
    assert!(job(&s, "big").is_some());
}

#[test]
fn nothing_changes_while_the_store_cannot_write() {
    let mut s = quiet();
    s.event(Event::StoreFailed {
        message: "the disk is full".to_owned(),
    });
    let wish = JobChange::Pause;
    let refused = change(&mut s, "j", wish.clone()).1.unwrap_err();
    assert!(
        refused.to_string().contains("the disk is full"),
        "{refused}"
    );
    assert_eq!(s.status().jobs[0].hold, None);
    s.event(Event::StoreRecovered);
    let paused = JobChanged::Paused { before: None };
    assert_eq!(change(&mut s, "j", wish).1, Ok(paused));
}

/// A cluster in which `j` on `n0` has failed for good, durably.
fn failed() -> Script {
    let mut s = Script::with_config(one_job(1, ""));
    let w = worker("w", 1, 10);
    s.join(&w);
    let (call, task, _) = s.take_start();
    s.complete(call, CallOutcome::Done(CallReply::Empty));
    assert_eq!(s.update(&w, &task, ReportedStatus::failed()).1, Ok(()));
    assert_eq!(started(&s), Vec::<String>::new());
    s
}

fn forgive(s: &mut Script) -> (Option<RecordSeq>, u64) {
    forgive_by(s, JobChange::Forgive)
}

fn forgive_by(s: &mut Script, wish: JobChange) -> (Option<RecordSeq>, u64) {
    match change(s, "j", wish) {
        (after, Ok(JobChanged::Forgiven { tasks })) => (after, tasks),
        other => panic!("{other:?}"),
    }
}

fn forgiven_records(s: &Script) -> Vec<usize> {
    let forgiven = s.records.iter().filter_map(|record| match record {
        Record::TasksForgiven { tasks } => Some(tasks.len()),
        _ => None,
    });
    forgiven.collect()
}

#[test]
fn a_forgiven_task_runs_again_once_that_is_durable() {
    let mut s = failed();
    s.sync_at_once = false;
    let (after, tasks) = forgive(&mut s);
    assert_eq!((after.is_some(), tasks), (true, 1));
    s.advance(Duration::from_secs(60));
    assert_eq!(started(&s), Vec::<String>::new());
    assert!(
        reasons(&s, "j", "n0").contains("durably"),
        "{}",
        reasons(&s, "j", "n0")
    );
    let mut kept = Durable::default();
    for record in &s.records {
        kept.apply(record);
    }
    s.sync();
    s.advance(Duration::from_secs(1));
    assert!(
        s.durable
            .statuses
            .values()
            .all(|(_, status)| !status.is_failed())
    );
    assert_eq!(kept, s.durable);
    // The task is forgiven already, so the answer waits for nothing.
    assert_eq!(forgive(&mut s), (None, 0));
    // The task stays forgiven after a restart.
    let mut s = s.restart(restarted());
    s.load(one_job(1, ""));
    let text = reasons(&s, "j", "n0");
    assert!(!text.contains("failed for good"), "{text}");
}

#[test]
fn a_repeat_of_a_forgiven_end_is_acknowledged_with_it_and_changes_nothing() {
    let mut s = Script::with_config(one_job(1, ""));
    let w = worker("w", 1, 10);
    s.join(&w);
    let (call, task, _) = s.take_start();
    s.complete(call, CallOutcome::Done(CallReply::Empty));
    s.sync_at_once = false;
    let (end, _) = s.update(&w, &task, ReportedStatus::failed());
    // The completion is not durable yet, so the task is held until the later record.
    let (forgiven, tasks) = forgive(&mut s);
    assert_eq!(tasks, 1);
    assert!(forgiven > end);
    assert_eq!(
        s.update(&w, &task, ReportedStatus::failed()),
        (forgiven, Ok(()))
    );
    s.event(Event::Persisted {
        up_to: end.unwrap(),
    });
    assert_eq!(started(&s), Vec::<String>::new());
    s.event(Event::Persisted {
        up_to: forgiven.unwrap(),
    });
    assert_eq!(started(&s), ["j"]);
}

#[test]
fn forgiving_failed_tasks_leaves_backoffs_of_others_alone() {
    let mut s = Script::with_config(one_job(2, r#", "backoff": [100, "repeat"]"#));
    let w = worker("w", 1, 10);
    s.join(&w);
    for status in [ReportedStatus::failed(), ReportedStatus::error_backoff("x")] {
        let (call, task, _) = s.take_start();
        s.complete(call, CallOutcome::Done(CallReply::Empty));
        assert_eq!(s.update(&w, &task, status).1, Ok(()));
    }
    let counts = |s: &mut Script| {
        let counts = s.status().jobs[0].counts;
        (counts.failed, counts.in_backoff, counts.running)
    };
    assert_eq!(counts(&mut s), (1, 1, 0));
    let (after, tasks) = forgive_by(&mut s, JobChange::ForgiveFailed);
    assert_eq!((after.is_some(), tasks), (true, 1));
    assert_eq!(started(&s), ["j"]);
    assert_eq!(counts(&mut s), (0, 1, 1));
    assert_eq!(forgive_by(&mut s, JobChange::ForgiveFailed), (None, 0));
    assert_eq!(forgive_by(&mut s, JobChange::Forgive).1, 1);
    assert_eq!(counts(&mut s), (0, 0, 2));
}

#[test]
fn a_backoff_ends_when_it_is_forgiven_and_begins_anew() {
    let mut s = Script::with_config(one_job(1, r#", "backoff": [100, 200, "repeat"]"#));
    let w = worker("w", 1, 10);
    s.join(&w);
    for _ in 0..2 {
        let (call, task, _) = s.take_start();
        assert_eq!(task.next_backoff.seconds, 100);
        s.complete(call, CallOutcome::Done(CallReply::Empty));
        let error = ReportedStatus::error_backoff("no");
        assert_eq!(s.update(&w, &task, error).1, Ok(()));
        assert_eq!(started(&s), Vec::<String>::new());
        assert_eq!(forgive(&mut s).1, 1);
        assert_eq!(started(&s), ["j"]);
    }
}

#[test]
fn what_keeps_a_lost_run_and_its_successor_apart_is_not_forgiven() {
    for backoff in [r#", "backoff": ["fail"]"#, r#", "backoff": [1, "repeat"]"#] {
        let mut s = Script::with_config(one_job(1, backoff));
        s.join(&worker("w", 1, 10));
        let (call, _, _) = s.take_start();
        s.complete(call, CallOutcome::Done(CallReply::Empty));
        let lost = |s: &Script| {
            s.records.iter().find_map(|record| match record {
                Record::WorkerLeft { tasks, .. } => Some(tasks[0].status.clone()),
                _ => None,
            })
        };
        while lost(&s).is_none() {
            s.advance(Duration::from_secs(1));
        }
        let status = lost(&s).unwrap();
        assert!(status.safety_seconds > 10, "{status:?}");
        assert_eq!(status.is_failed(), backoff.contains("[\"fail\"]"));
        s.advance(Duration::from_secs(5));
        assert_eq!(forgive(&mut s).1, 1);
        let (_, stored) = s.durable.statuses.values().next().unwrap();
        assert!(stored.is_overwriteable() && !stored.is_failed());
        assert_eq!(stored.safety_seconds, status.safety_seconds);
        let text = reasons(&s, "j", "n0");
        assert!(text.contains("it may start again in"), "{text}");
        // The wait ends not a second before the least safety wait.
        s.advance(Duration::from_secs(u64::from(status.safety_seconds) - 7));
        assert!(reasons(&s, "j", "n0").contains("it may start again in"));
        s.advance(Duration::from_secs(7));
        let text = reasons(&s, "j", "n0");
        assert!(!text.contains("it may start again in"), "{text}");
    }
}

#[test]
fn a_running_task_keeps_its_status_until_it_ends() {
    let s = failed();
    // The worker reports that another scheduler has started the task again.
    let mut s = s.restart(restarted());
    s.load(one_job(1, ""));
    let w = worker("w", 1, 10);
    let set = WorkerSetId::default();
    s.heartbeat(&w, set).unwrap();
    let again = listed("w", "n0", InvocationId::new(i64::MAX, 1));
    s.answer_fetch(vec![again]);
    assert_eq!(forgive(&mut s), (None, 0));
    assert_eq!(forgiven_records(&s), [] as [usize; 0]);
}

#[test]
fn many_tasks_are_forgiven_in_slices_each_after_the_one_before_is_durable() {
    const NODES: usize = 2500;
    let mut durable = Durable::default();
    for i in 0..NODES {
        let key = TaskKey {
            job: name("j"),
            node: NodeName::try_from(format!("n{i}")).unwrap(),
        };
        let failed = StoredStatus {
            bits: StatusBits::FAILED,
            time: WallTime::from_secs(support::EPOCH),
            backoff_seconds: 0,
            safety_seconds: 0,
            data: None,
        };
        durable
            .statuses
            .insert(key, (InvocationId::new(1, 1), failed));
    }
    let mut s = Script::new(restarted(), durable);
    s.load(one_job(NODES, ""));
    s.sync_at_once = false;
    let requests = [s.request(), s.request()];
    for request in requests {
        s.event(Event::ChangeJob {
            request,
            from: Principal::Own,
            job: name("j"),
            change: JobChange::Forgive,
        });
    }
    assert_eq!(forgiven_records(&s), [1024]);
    s.sync();
    assert_eq!(forgiven_records(&s), [1024, 1024]);
    assert!(s.replies.is_empty());
    s.sync();
    assert_eq!(forgiven_records(&s), [1024, 1024, 452]);
    let (after, first) = s.reply_to(requests[0]);
    assert!(after.is_some());
    assert_eq!(
        first,
        Reply::JobChanged(Ok(JobChanged::Forgiven { tasks: 2500 }))
    );
    s.sync();
    let (_, second) = s.reply_to(requests[1]);
    assert_eq!(
        second,
        Reply::JobChanged(Ok(JobChanged::Forgiven { tasks: 0 }))
    );
    assert!(
        s.durable
            .statuses
            .values()
            .all(|(_, status)| !status.is_failed())
    );
}
