//! The calls by which people see and forget outputs.

use std::sync::Arc;
use std::time::Duration;

use brasserie_common::{JobName, NodeName, Principal, RecordSeq, ReportedStatus};
use brasserie_scheduler_core::{
    Answer, ConfigOrigin, Event, HoldId, HoldState, JobChange, JobChanged, JobRefusal,
    NeededOutputs, OutputCursor, OutputHold, OutputList, OutputPage, OutputState, Query, Record,
    Reply,
};

use super::{Run, Store, explain, extract_both, pass, start, starts, two_jobs};
use crate::support::{Script, options, worker};

fn answer(script: &Script, job: &str, node: &str, page: (Option<OutputCursor>, usize)) -> Answer {
    let named = |name: &str| Some(name.to_owned()).filter(|name| !name.is_empty());
    let query = Query::Outputs(OutputList {
        job: named(job),
        node: named(node),
        after: page.0,
        limit: page.1,
    });
    script.scheduler.answer(script.now, &query)
}

fn page(script: &Script, job: &str, node: &str) -> OutputPage {
    match answer(script, job, node, (None, 100)) {
        Answer::Outputs(page) => page,
        other => panic!("a page, not {other:?}"),
    }
}

fn names(page: &OutputPage) -> Vec<String> {
    let outputs = page.outputs.iter();
    outputs
        .map(|one| format!("{}/{}/{}", one.task.job, one.task.node, one.output.path))
        .collect()
}

pub(super) fn forget(
    script: &mut Script,
    job: &str,
    nodes: &[&str],
    needed: NeededOutputs,
) -> (Option<RecordSeq>, Result<JobChanged, JobRefusal>) {
    let nodes = nodes.iter().map(|node| NodeName::try_from(*node));
    let request = script.request();
    script.event(Event::ChangeJob {
        request,
        from: Principal::Own,
        job: JobName::try_from(job).expect("a name"),
        change: JobChange::ForgetOutputs {
            nodes: nodes.collect::<Result<_, _>>().expect("names"),
            needed,
        },
    });
    match script.reply_to(request) {
        (after, Reply::JobChanged(changed)) => (after, changed),
        other => panic!("a change of a job, not {other:?}"),
    }
}

fn refusal(script: &mut Script, job: &str, nodes: &[&str]) -> String {
    match forget(script, job, nodes, NeededOutputs::Keep) {
        (None, Err(refusal)) => refusal.to_string(),
        other => panic!("a refusal, not {other:?}"),
    }
}

/// Ends `extract` on both nodes, and `join` and `sum`.
pub fn all_done(keep: &str) -> (Script, Store) {
    let mut script = Script::with_config(two_jobs(keep));
    let mut store = Store::join(&mut script, "a", 1);
    extract_both(&mut script, &mut store);
    for (job, node) in [("join", "n0"), ("join", "n1"), ("sum", "instance")] {
        let run = start(&mut script, job, node);
        store.done(&mut script, &run, &[]);
    }
    (script, store)
}

#[test]
fn outputs_are_listed_with_their_holders_page_by_page() {
    let mut script = Script::with_config(two_jobs(""));
    let empty = page(&script, "", "");
    assert_eq!(empty.outputs, []);
    let why = empty.why_empty.expect("a reason");
    assert!(why.contains("no task has left outputs"), "{why}");
    let mut store = Store::join(&mut script, "a", 1);
    extract_both(&mut script, &mut store);
    let all = page(&script, "", "");
    let expected = [
        "extract/n0/stats/",
        "extract/n0/table",
        "extract/n1/stats/",
        "extract/n1/table",
    ];
    assert_eq!(names(&all), expected);
    assert_eq!((&all.next, &all.why_empty), (&None, &None));
    let [one, ..] = &all.outputs[..] else {
        panic!("four outputs");
    };
    assert_eq!((one.copies, one.state), (1, OutputState::Available));
    let holders = one.holders.iter().map(|holder| holder.shard.as_str());
    assert!(holders.eq(["a"]));
    assert_eq!(names(&page(&script, "extract", "n1")), expected[2..]);
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let Answer::Outputs(page) = answer(&script, "extract", "", (after, 3)) else {
            panic!("a page");
        };
        assert_eq!(page.sets.len(), 1, "each page has the sets of its jobs");
        found.extend(names(&page));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(found, expected);
    let after = Some(OutputCursor {
        task: all.outputs[0].task.clone(),
        path: all.outputs[0].output.path.clone(),
    });
    let Answer::Outputs(rest) = answer(&script, "extract", "n0", (after, 3)) else {
        panic!("a page");
    };
    assert_eq!(names(&rest), expected[1..2]);
}

#[test]
fn a_list_without_outputs_says_why() {
    let script = Script::with_config(two_jobs(""));
    let why = |job, node| page(&script, job, node).why_empty.expect("a reason");
    let text = why("join", "");
    assert!(text.contains("has no key `outputs`"), "{text}");
    let text = why("extract", "n0");
    assert!(text.contains("has not succeeded yet"), "{text}");
    for (job, node, part) in [
        ("extrakt", "", "did you mean `extract`?"),
        ("extract", "n", "no node is called `n`; did you mean `n0`?"),
    ] {
        match answer(&script, job, node, (None, 100)) {
            Answer::Unknown(text) => assert!(text.contains(part), "{text}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_set_does_not_call_tasks_unfinished_before_the_nodes_are_loaded() {
    let (script, mut store) = all_done(r#", "keep": "1h""#);
    let mut script = script.restart(options());
    let config = two_jobs(r#", "keep": "1h""#);
    script.event(Event::ConfigLoaded {
        config: Arc::clone(&config),
        warnings: Vec::new(),
        origin: ConfigOrigin::Given,
    });
    store.worker = worker("a", 1, 200);
    script.join(&store.worker);
    store.settle(&mut script);
    let expiry = |script: &Script| page(script, "extract", "").sets[0].expiry.clone();
    let why = expiry(&script).expect_err("nothing is known of the tasks");
    assert!(why.contains("nodes are not loaded yet"), "{why}");
    script.load_nodes(config);
    pass(&mut script, Duration::from_secs(10), None);
    assert!(expiry(&script).is_ok(), "{:?}", expiry(&script));
}

#[test]
fn a_set_says_when_it_expires_or_why_not() {
    let mut script = Script::with_config(two_jobs(r#", "keep": "until_consumed""#));
    let mut store = Store::join(&mut script, "a", 1);
    extract_both(&mut script, &mut store);
    pass(&mut script, Duration::from_secs(10), None);
    let expiry = |script: &Script| page(script, "extract", "").sets[0].expiry.clone();
    let why = expiry(&script).expect_err("tasks need them");
    assert!(why.contains("tasks of job `join` may still read"), "{why}");
    let set = &page(&script, "extract", "").sets[0];
    assert_eq!((set.tasks, set.artifacts, set.bytes), (2, 4, 4));
    assert_eq!((set.copies, set.without_copy), (4, 0));
    let consumers = set.consumers.iter().map(JobName::as_str);
    assert!(consumers.eq(["join", "sum"]));
    for (job, node) in [("join", "n0"), ("join", "n1"), ("sum", "instance")] {
        let run = start(&mut script, job, node);
        store.done(&mut script, &run, &[]);
    }
    pass(&mut script, Duration::from_secs(10), None);
    let left = expiry(&script).expect("nobody needs them");
    assert!(left <= Duration::from_secs(60), "{left:?}");
    let (mut script, _store) = all_done(r#", "keep": "forever""#);
    pass(&mut script, Duration::from_secs(10), None);
    let why = expiry(&script).expect_err("they never expire");
    assert!(why.contains("forever"), "{why}");
}

#[test]
fn the_outputs_of_a_job_that_is_gone_say_why_they_expire() {
    let (mut script, _store) = all_done(r#", "keep": "forever""#);
    let ends = |script: &Script| page(script, "extract", "").sets[0].ends_because;
    assert_eq!(ends(&script), None);
    let mut config = brasserie_common_config::Config::clone(&two_jobs(""));
    config.jobs.clear();
    script.load(Arc::new(config));
    pass(&mut script, Duration::from_secs(10), None);
    let why = ends(&script).expect("the job is gone");
    assert!(why.contains("not configured any more"), "{why}");
    let left = page(&script, "extract", "").sets[0].expiry.clone();
    assert!(left.is_ok(), "{left:?}");
}

#[test]
fn forgotten_outputs_are_gone_on_disk_and_their_workers_delete_them() {
    let (mut script, mut store) = all_done("");
    pass(&mut script, Duration::from_secs(70), None);
    let (after, changed) = forget(&mut script, "extract", &["n1", "n1"], NeededOutputs::Keep);
    let one = JobChanged::OutputsForgotten {
        tasks: 1,
        outputs: 2,
    };
    assert_eq!(changed, Ok(one));
    assert!(after.is_some(), "the answer waits for the record");
    let (news, _) = script.scheduler.take_news();
    let news: Vec<String> = news.iter().map(ToString::to_string).collect();
    let asked = "had the outputs of 1 tasks of job `extract` forgotten";
    assert!(news.iter().any(|text| text.ends_with(asked)), "{news:?}");
    let forgotten = |record: &&Record| matches!(record, Record::OutputsForgotten { .. });
    assert_eq!(script.records.iter().filter(forgotten).count(), 1);
    assert_eq!(script.durable.outputs.len(), 1);
    assert_eq!(page(&script, "extract", "").outputs.len(), 2);
    let why = refusal(&mut script, "extract", &["n1"]);
    assert!(why.contains("on `n1` has no outputs"), "{why}");
    pass(&mut script, Duration::from_secs(61), None);
    assert_eq!(store.report(&mut script).unwanted.len(), 2);
    let (_, changed) = forget(&mut script, "extract", &[], NeededOutputs::Keep);
    assert!(changed.is_ok(), "{changed:?}");
    assert_eq!(script.durable.outputs.len(), 0);
    assert_eq!(starts(&script), Vec::<String>::new());
    let mut script = script.restart(options());
    script.load(two_jobs(""));
    script.join(&worker("a", 1, 200));
    assert_eq!(page(&script, "extract", "").outputs, []);
}

#[test]
fn outputs_that_a_task_needs_are_forgotten_by_force_only() {
    let mut script = Script::with_config(two_jobs(""));
    let mut store = Store::join(&mut script, "a", 1);
    extract_both(&mut script, &mut store);
    let join = start(&mut script, "join", "n0");
    let sum = start(&mut script, "sum", "instance");
    let why = refusal(&mut script, "extract", &["n0"]);
    assert!(why.contains("of job `join` on `n0` runs"), "{why}");
    assert!(why.contains("--force"), "{why}");
    let end = |script: &mut Script, store: &mut Store, run: &Run| {
        let ended = script.update(&store.worker, &run.task, ReportedStatus::incomplete());
        assert_eq!(ended.1, Ok(()));
    };
    store.done(&mut script, &join, &[]);
    let why = refusal(&mut script, "extract", &["n0"]);
    assert!(why.contains("of job `sum` on `instance` runs"), "{why}");
    end(&mut script, &mut store, &sum);
    let why = refusal(&mut script, "extract", &["n0"]);
    assert!(
        why.contains("of job `sum` on `instance` is not done"),
        "{why}"
    );
    let (_, changed) = forget(&mut script, "extract", &["n0"], NeededOutputs::Forget);
    assert!(changed.is_ok(), "{changed:?}");
    assert_eq!(script.durable.outputs.len(), 1);
    pass(&mut script, Duration::from_secs(120), None);
    let why = explain(&script, "sum", "instance").join("; ");
    assert!(
        why.contains("it waits until all of job `extract` is done"),
        "{why}"
    );
    start(&mut script, "extract", "n0");
}

#[test]
fn a_request_to_forget_names_a_job_with_outputs() {
    let mut script = Script::with_config(two_jobs(""));
    let why = refusal(&mut script, "extrakt", &[]);
    assert!(why.contains("did you mean `extract`?"), "{why}");
    let why = refusal(&mut script, "join", &[]);
    assert!(why.contains("has no key `outputs`"), "{why}");
    assert!(why.contains("nothing was forgotten"), "{why}");
}

fn hold(script: &mut Script, job: &str, hold: OutputHold) -> Result<JobChanged, JobRefusal> {
    hold_as(script, job, (hold, HoldId(None)))
}

fn hold_as(
    script: &mut Script,
    job: &str,
    (hold, holder): (OutputHold, HoldId),
) -> Result<JobChanged, JobRefusal> {
    let request = script.request();
    script.event(Event::ChangeJob {
        request,
        from: Principal::Own,
        job: JobName::try_from(job).expect("a name"),
        change: JobChange::HoldOutputs { hold, holder },
    });
    match script.reply_to(request) {
        (None, Reply::JobChanged(held)) => held,
        other => panic!("an answer that waits for no record, not {other:?}"),
    }
}

const HELD: &str = r#", "keep": "while_held""#;

#[test]
fn held_outputs_stay_for_five_minutes_after_the_last_call() {
    let (mut script, mut store) = all_done(HELD);
    for _ in 0..3 {
        pass(&mut script, Duration::from_secs(280), None);
        let sets = page(&script, "extract", "").sets;
        let left = sets[0].expiry.clone().expect("nobody holds them now");
        assert!(left <= Duration::from_secs(20), "{left:?}");
        let held = hold(&mut script, "extract", OutputHold::Continue);
        assert_eq!(held, Ok(JobChanged::OutputsHeld(HoldState::Continued)));
    }
    assert_eq!(names(&page(&script, "extract", "")).len(), 4);
    let sets = page(&script, "extract", "").sets;
    assert_eq!(sets[0].expiry, Err("they are held".to_owned()));
    pass(&mut script, Duration::from_secs(310), None);
    assert_eq!(names(&page(&script, "extract", "")), [""; 0]);
    pass(&mut script, Duration::from_secs(70), None);
    assert_eq!(store.report(&mut script).unwanted.len(), 4);
}

#[test]
fn held_outputs_are_removed_by_force_only_and_the_hold_learns_of_it() {
    let (mut script, _store) = all_done(HELD);
    let held = |script: &mut Script| hold(script, "extract", OutputHold::Continue);
    let (continued, ended) = (HoldState::Continued, HoldState::Ended);
    assert_eq!(held(&mut script), Ok(JobChanged::OutputsHeld(continued)));
    let why = refusal(&mut script, "extract", &["n0"]);
    let expected = "`brasserie artifact hold` keeps the outputs of job `extract`";
    assert!(why.contains(expected) && why.contains("--force"), "{why}");
    let (_, changed) = forget(&mut script, "extract", &["n0"], NeededOutputs::Forget);
    assert!(changed.is_ok(), "{changed:?}");
    assert_eq!(held(&mut script), Ok(JobChanged::OutputsHeld(ended)));
    assert_eq!(held(&mut script), Ok(JobChanged::OutputsHeld(continued)));
    assert_eq!(names(&page(&script, "extract", "")).len(), 2);
    // A hold that was not renewed for a while keeps nobody from it.
    pass(&mut script, Duration::from_secs(40), None);
    let (_, changed) = forget(&mut script, "extract", &[], NeededOutputs::Keep);
    assert!(changed.is_ok(), "{changed:?}");
}

#[test]
fn released_outputs_expire_when_no_task_needs_them() {
    let mut script = Script::with_config(two_jobs(HELD));
    let mut store = Store::join(&mut script, "a", 1);
    extract_both(&mut script, &mut store);
    let released = hold(&mut script, "extract", OutputHold::End);
    assert_eq!(released, Ok(JobChanged::OutputsHeld(HoldState::Ended)));
    pass(&mut script, Duration::from_secs(20), None);
    assert_eq!(names(&page(&script, "extract", "")).len(), 4);
    for (job, node) in [("join", "n0"), ("join", "n1"), ("sum", "instance")] {
        let run = start(&mut script, job, node);
        store.done(&mut script, &run, &[]);
    }
    pass(&mut script, Duration::from_secs(10), None);
    assert_eq!(names(&page(&script, "extract", "")), [""; 0]);
    let outputs = &script.durable.outputs;
    assert_eq!(outputs.len(), 0);
}

/// Outputs stay as long as one of their holds is fresh, whichever ends first.
#[test]
fn each_hold_counts_by_itself() {
    let (mut script, _) = all_done(HELD);
    let (one, other) = (HoldId(Some(1)), HoldId(Some(2)));
    let continued = Ok(JobChanged::OutputsHeld(HoldState::Continued));
    for holder in [one, other, HoldId(None)] {
        let held = hold_as(&mut script, "extract", (OutputHold::Continue, holder));
        assert_eq!(held, continued);
    }
    for holder in [HoldId(None), other, other] {
        let ended = hold_as(&mut script, "extract", (OutputHold::End, holder));
        assert_eq!(ended, continued);
        pass(&mut script, Duration::from_secs(20), None);
        assert_eq!(names(&page(&script, "extract", "")).len(), 4);
    }
    // A hold that is not renewed any more, such as that of a program that failed, keeps the outputs for its five minutes.
    let held = hold_as(&mut script, "extract", (OutputHold::Continue, other));
    assert_eq!(held, continued);
    pass(&mut script, Duration::from_secs(230), None);
    let ended = hold_as(&mut script, "extract", (OutputHold::End, one));
    assert_eq!(ended, continued);
    pass(&mut script, Duration::from_secs(60), None);
    assert_eq!(names(&page(&script, "extract", "")).len(), 4);
    pass(&mut script, Duration::from_secs(30), None);
    assert_eq!(names(&page(&script, "extract", "")), [""; 0]);
}

/// The outputs may go while a holder cannot reach the scheduler. It has to know, but only if they have gone.
#[test]
fn a_hold_that_was_cut_off_for_too_long_has_ended_once_and_begins_anew() {
    let (mut script, _) = all_done(HELD);
    let (one, other) = (HoldId(Some(1)), HoldId(Some(2)));
    let held = |script: &mut Script, holder| match hold_as(
        script,
        "extract",
        (OutputHold::Continue, holder),
    ) {
        Ok(JobChanged::OutputsHeld(held)) => held,
        answer => panic!("a hold, not {answer:?}"),
    };
    for (holder, seconds) in [(one, 0), (other, 0), (other, 200)] {
        pass(&mut script, Duration::from_secs(seconds), None);
        assert_eq!(held(&mut script, holder), HoldState::Continued);
    }
    // The other one has kept the outputs.
    pass(&mut script, Duration::from_secs(200), None);
    assert_eq!(held(&mut script, one), HoldState::Continued);
    assert_eq!(names(&page(&script, "extract", "")).len(), 4);
    pass(&mut script, Duration::from_secs(310), None);
    assert_eq!(names(&page(&script, "extract", "")), [""; 0]);
    for state in [HoldState::Ended, HoldState::Continued] {
        assert_eq!(held(&mut script, one), state);
        assert_eq!(held(&mut script, other), state);
    }
    assert_eq!(held(&mut script, HoldId(Some(3))), HoldState::Continued);
}

#[test]
fn a_hold_begins_anew_after_a_restart_and_after_it_has_ended() {
    let (script, _) = all_done(HELD);
    let mut script = script.restart(options());
    script.load(two_jobs(HELD));
    let mut store = Store::join(&mut script, "a", 1);
    pass(&mut script, Duration::from_secs(200), None);
    let held = hold(&mut script, "extract", OutputHold::Continue);
    assert_eq!(held, Ok(JobChanged::OutputsHeld(HoldState::Continued)));
    // Others may hold the outputs, and have five minutes to say so again.
    let released = hold(&mut script, "extract", OutputHold::End);
    assert_eq!(released, Ok(JobChanged::OutputsHeld(HoldState::Continued)));
    pass(&mut script, Duration::from_secs(110), None);
    assert_eq!(names(&page(&script, "extract", "")).len(), 4);
    hold(&mut script, "extract", OutputHold::End).expect("it is held");
    pass(&mut script, Duration::from_secs(10), None);
    assert_eq!(names(&page(&script, "extract", "")), [""; 0]);
    // The job is still there, so its next outputs are held like the first ones.
    let held = hold(&mut script, "extract", OutputHold::Continue);
    assert_eq!(held, Ok(JobChanged::OutputsHeld(HoldState::Continued)));
    store.settle(&mut script);
}

#[test]
fn outputs_that_are_not_held_any_more_are_not_held_again_while_tasks_need_them() {
    let mut script = Script::with_config(two_jobs(HELD));
    let mut store = Store::join(&mut script, "a", 1);
    extract_both(&mut script, &mut store);
    hold(&mut script, "extract", OutputHold::End).expect("it is held");
    for _ in 0..3 {
        pass(&mut script, Duration::from_secs(10), None);
        let held = hold(&mut script, "extract", OutputHold::Continue);
        assert_eq!(held, Ok(JobChanged::OutputsHeld(HoldState::Ended)));
    }
}

#[test]
fn only_outputs_with_that_retention_are_held() {
    let (mut script, _) = all_done("");
    for (job, text) in [
        ("extract", "\"keep\": \"while_held\""),
        ("join", "give the job `outputs`"),
        ("nobody", "no job"),
    ] {
        let refused = hold(&mut script, job, OutputHold::Continue).expect_err("no such hold");
        assert!(refused.to_string().contains(text), "{refused}");
    }
}
