//! Plans of jobs whose inputs are not there: the tasks that make lost outputs run again first, and a missing file is named.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use brasserie_common_config::Config;
use brasserie_scheduler_core::{
    Answer, NeededOutputs, Plan, Proposal, ProposedInputs, ProposedNodes, Query, Total,
};

use super::calls::{all_done, forget};
use super::{Store, extract_both, pass, two_jobs};
use crate::support::{Script, config};

pub(super) fn plan(script: &Script, config: &Arc<Config>, absent: &[&str]) -> Plan {
    let ask = |query: &Query| script.scheduler.answer(script.now, query);
    let (Answer::WhatIf(copy), Answer::InputsForPlan(inputs)) = (
        ask(&Query::WhatIf),
        ask(&Query::InputsForPlan(Arc::clone(config))),
    ) else {
        panic!("a copy and tasks");
    };
    copy.plan(Proposal {
        config: Arc::clone(config),
        nodes: ProposedNodes::Kept,
        inputs: ProposedInputs {
            absent: absent.iter().map(|name| Arc::from(*name)).collect(),
            ..inputs
        },
    })
}

/// Returns the jobs of which tasks start, with their number and the first node.
pub(super) fn rows(plan: &Plan) -> BTreeSet<String> {
    let rows = plan.tasks.jobs.first.iter();
    rows.map(|job| format!("{} {} {}", job.name, job.starts, job.first[0]))
        .collect()
}

#[test]
fn a_plan_lets_tasks_run_again_whose_outputs_are_gone_before_those_that_need_them() {
    let both = two_jobs("");
    let mut first = Config::clone(&both);
    first.jobs.truncate(1);
    let mut script = Script::with_config(Arc::new(first));
    let mut store = Store::join(&mut script, "a", 1);
    extract_both(&mut script, &mut store);
    let found = plan(&script, &both, &[]);
    // The worker has two slots.
    let expected = ["join 1 n0", "sum 1 instance"].map(str::to_owned);
    assert_eq!(rows(&found), expected.into());
    assert_eq!(found.notes, [""; 0]);
    let (_, forgotten) = forget(&mut script, "extract", &["n0"], NeededOutputs::Keep);
    forgotten.expect("nobody needs them");
    let found = plan(&script, &both, &[]);
    let expected = ["extract 1 n0", "join 1 n1"].map(str::to_owned);
    assert_eq!(rows(&found), expected.into());
    assert_eq!(found.tasks.starts, Total::Exactly(2));
    let [note] = &found.notes[..] else {
        panic!("{:?}", found.notes);
    };
    assert!(
        note.starts_with("1 done task of `extract` would run again first"),
        "{note}"
    );
    // The scheduler does what the plan said.
    script.load(both);
    let started: Vec<String> = super::starts(&script);
    assert!(started.contains(&"join on n1".to_owned()), "{started:?}");
    assert!(!started.contains(&"join on n0".to_owned()), "{started:?}");
}

#[test]
fn a_plan_names_a_missing_file_and_starts_no_task_that_waits_for_it() {
    let nodes = r#""nodes": {"levels": ["l"], "node_order": "original", "node_sources": [{"source": "manual", "prefs": {"n0": [], "n1": []}}]}, "resources": {}"#;
    let file = |jobs: &str| config(&format!("{{\"bistro_settings\": {{{nodes}}}{jobs}}}"));
    let mut script = Script::with_config(file(""));
    let _store = Store::join(&mut script, "a", 1);
    let next = file(
        r#", "bistro_job->read": {"command": ["/bin/true"], "inputs": [{"file": "./dims.csv"}]}"#,
    );
    assert_eq!(
        rows(&plan(&script, &next, &[])),
        ["read 2 n0".to_owned()].into()
    );
    let found = plan(&script, &next, &["dims.csv"]);
    assert_eq!(rows(&found), BTreeSet::new());
    let [note] = &found.notes[..] else {
        panic!("{:?}", found.notes);
    };
    assert!(
        note.starts_with("the tasks of `read` would wait for the file `dims.csv`"),
        "{note}"
    );
}

/// Returns the notes of a plan in which `extract` has this key, or does not exist if it is `None`, 70 seconds after all tasks were done.
fn notes_with(present: &str, proposed: Option<&str>) -> Vec<String> {
    let (mut script, _store) = all_done(present);
    pass(&mut script, Duration::from_secs(70), None);
    let config = match proposed {
        Some(keep) => two_jobs(keep),
        None => {
            let mut config = Config::clone(&two_jobs(present));
            config.jobs.clear();
            Arc::new(config)
        }
    };
    let notes = plan(&script, &config, &[]).notes.into_iter();
    notes.filter(|note| note.contains("outputs")).collect()
}

#[test]
fn a_plan_names_the_outputs_that_it_would_let_expire() {
    const FOREVER: &str = r#", "keep": "forever""#;
    let because = |proposed: Option<&str>| {
        let notes = notes_with(FOREVER, proposed);
        let [note] = &notes[..] else {
            panic!("{proposed:?}: {notes:?}");
        };
        let begin = "the outputs of `extract` (4 artifacts, 4 B) would be deleted within minutes: ";
        let why = note.strip_prefix(begin);
        why.unwrap_or_else(|| panic!("{note}")).to_owned()
    };
    assert!(because(None).contains("not be configured any more"));
    let short = because(Some(r#", "keep": "20s""#));
    assert!(short.contains("`keep` would be \"20s\""), "{short}");
    let consumed = because(Some(r#", "keep": "until_consumed""#));
    assert!(consumed.contains("\"until_consumed\""), "{consumed}");
    let held = because(Some(r#", "keep": "while_held""#));
    assert!(held.contains("brasserie artifact hold"), "{held}");
    // Nothing is said of outputs that stay, or that expire in the next minute whatever the plan does.
    for stays in [FOREVER, r#", "keep": "1h""#] {
        assert_eq!(notes_with(FOREVER, Some(stays)), [""; 0], "{stays}");
    }
    assert_eq!(notes_with(r#", "keep": "90s""#, None), [""; 0]);
}
