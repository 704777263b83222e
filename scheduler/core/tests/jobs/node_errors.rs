//! Tests that explanations name the error of a failing node source, once.

use brasserie_scheduler_core::{ConfigOrigin, Durable, Event};

use crate::reasons;
use crate::support::{Script, config, one_job, options};

const ERROR: &str = "node source 1: the script failed";

fn fail(s: &mut Script) {
    s.event(Event::NodesFailed {
        message: ERROR.to_owned(),
    });
}

#[test]
fn explanations_name_the_source_that_fails_before_there_are_nodes() {
    let mut s = Script::new(options(), Durable::default());
    assert_eq!(
        s.status().nothing_starts,
        [
            "no configuration has been loaded yet",
            "no nodes have been loaded yet"
        ]
    );
    s.event(Event::ConfigLoaded {
        config: one_job(2, ""),
        warnings: Vec::new(),
        origin: ConfigOrigin::Given,
    });
    assert_eq!(reasons(&s, "j", ""), "no nodes have been loaded yet");
    let unknown = "no node is called `n0`; no nodes have been loaded yet";
    assert_eq!(reasons(&s, "j", "n0"), unknown);
    fail(&mut s);
    let cause = format!("no nodes have been loaded yet: {ERROR}");
    assert_eq!(reasons(&s, "j", ""), cause);
    let unknown = format!("no node is called `n0`; {cause}");
    assert_eq!(reasons(&s, "j", "n0"), unknown);
    assert_eq!(s.status().nothing_starts, [cause]);
    s.load_nodes(one_job(2, ""));
    assert_eq!(s.status().nothing_starts, [""; 0]);
    assert!(!reasons(&s, "j", "").contains(ERROR));
}

#[test]
fn a_node_without_the_names_of_its_parents_is_found() {
    let nodes = r#"{"bistro_settings": {"nodes": {"levels": ["file"], "node_sources": [
        {"source": "manual", "prefs": {"a/x.txt": [], "b/y.txt": []}}]}, "resources": {}},
        "bistro_job->j": {"command": ["/bin/true"]}}"#;
    let s = Script::with_config(config(nodes));
    let unknown = "no node is called `y.txt`; did you mean `b/y.txt`?";
    assert_eq!(reasons(&s, "j", "y.txt"), unknown);
}

#[test]
fn explanations_say_that_the_last_good_nodes_decide() {
    let mut s = Script::with_config(one_job(2, ""));
    let task = reasons(&s, "j", "n0");
    fail(&mut s);
    let older = format!("the nodes cannot be read again, so the last good nodes decide: {ERROR}");
    let job = reasons(&s, "j", "");
    assert_eq!(job.matches(&older).count(), 1, "{job}");
    let unknown = reasons(&s, "j", "n7");
    let begin = "no node is called `n7`; did you mean `n0`?; ";
    assert_eq!(unknown, format!("{begin}{older}"));
    assert_eq!(reasons(&s, "j", "n0"), task, "its node is known");
    assert_eq!(
        reasons(&s, "k", "n0"),
        "no job is called `k`; did you mean `j`?"
    );
}

#[test]
fn only_the_errors_of_its_jobs_name_a_cycle() {
    let mut s = Script::with_config(config(
        r#"{"bistro_settings": {"nodes": {"levels": ["l"], "node_sources": [
            {"source": "manual", "prefs": {"n0": []}}]}, "resources": {}},
        "bistro_job->a": {"owner": "o", "depends_on": ["b"]},
        "bistro_job->b": {"owner": "o", "run_only_after_all_nodes_are_done_for": ["a"]}}"#,
    ));
    let status = s.status();
    assert_eq!(status.errors, [""; 0]);
    let errors = status.jobs.iter().map(|job| job.errors.join("; "));
    assert!(errors.clone().count() == 2);
    for errors in errors {
        assert!(errors.contains("the job waits for itself"), "{errors}");
    }
}
