//! Tests that odd files of the original are read as the original reads them, with a warning, and that unsupported parts are reported.

use super::*;

fn nodes(text: &str) -> Result<Parsed, ConfigErrors> {
    let text = format!("{{\"bistro_settings\": {{\"nodes\":\n{text}}}}}");
    parse(&text, ParseOptions::default())
}

#[test]
fn a_level_named_twice_is_one_level() {
    let parsed = nodes("{\"levels\": [\"a\", \"b\", \"a\"], \"node_source\": \"empty\"}").unwrap();
    assert_eq!(parsed.config.levels, ["instance", "a", "b", "worker"]);
    assert_eq!(
        lines(&parsed.warnings),
        [
            "2:23: bistro_settings.nodes.levels[2]: the level is named twice; the first counts; remove the other"
        ]
    );
}

#[test]
fn a_disabled_value_that_is_not_a_boolean_disables_the_node() {
    let of = |disabled: &str| {
        let parsed = nodes(&format!(
            "{{\"levels\": [\"a\"], \"node_sources\": [{{\"source\": \"manual\", \"prefs\":\n{{\"n\": {{\"disabled\": {disabled}}}}}}}]}}"
        ))
        .unwrap();
        let [NodeSource::Manual(ManualNodes { nodes, .. })] = &parsed.config.node_sources[..]
        else {
            panic!("one manual source");
        };
        (nodes[0].enabled, lines(&parsed.warnings))
    };
    for (disabled, enabled) in [
        ("true", false),
        ("\"yes\"", false),
        ("false", true),
        ("0", true),
    ] {
        assert_eq!(of(disabled), (enabled, vec![]), "{disabled}");
    }
    for (disabled, shown) in [
        ("null", "null"),
        ("\"since May\"", "\"since May\""),
        ("[]", "an empty array"),
    ] {
        let warning = format!(
            "3:20: bistro_settings.nodes.node_sources[0].prefs.n.disabled: expected true or false, found {shown}; anything else disables the node, too"
        );
        assert_eq!(of(disabled), (false, vec![warning]), "{disabled}");
    }
}

#[test]
fn no_fraction_of_the_nodes_is_all_of_them() {
    for fraction in ["0", "-0.5"] {
        let parsed = good(
            "",
            &format!(
                "\"bistro_job->x\": {{\"filters\": {{\"db\": {{\"fraction_of_nodes\": {fraction}, \"blacklist\": [\"b\"]}}}}}}"
            ),
        );
        assert_eq!(
            parsed.config.jobs[0].filters[&LevelId(2)].fraction_of_nodes,
            1.0
        );
        assert_eq!(
            lines(&parsed.warnings),
            [format!(
                "3:59: bistro_job->x.filters.db.fraction_of_nodes: {fraction} means all nodes; above 0, at most 1; a job without nodes is `\"enabled\": false`"
            )]
        );
    }
}

#[test]
fn the_older_spelling_of_a_node_source() {
    let new = nodes(
        "{\"levels\": [\"a\", \"b\"], \"node_sources\": [{\"source\": \"manual\", \"prefs\": {\"n\": [\"m\"]}}, {\"source\": \"empty\"}]}",
    );
    let old = nodes(
        "{\"levels\": [\"a\", \"b\"], \"node_source\": \"manual\", \"node_source_prefs\": {\"n\": [\"m\"]}, \"node_sources\": [{\"source\": \"empty\"}]}",
    );
    let (new, old) = (new.unwrap(), old.unwrap());
    assert_eq!(old.config, new.config);
    assert_eq!(old.warnings, []);
    let errors = |text: &str| lines(&nodes(text).unwrap_err().0);
    let path = "bistro_settings.nodes";
    assert_eq!(
        errors("{\"levels\": [\"a\"], \"node_source\": \"manual\"}"),
        [format!(
            "2:1: {path}.node_source_prefs: the key is missing; an object of nodes and their children"
        )]
    );
    assert_eq!(
        errors(
            "{\"levels\": [\"a\"], \"node_source\": \"range_label\", \"node_source_prefs\": {\"parent_level\": \"instance\", \"start\": \"a\", \"end\": 1}}"
        ),
        [format!(
            "2:108: {path}.node_source_prefs.start: expected an integer, found \"a\"; an integer from -9223372036854775808 to 9223372036854775807"
        )]
    );
}

/// Returns the problems of a job with this filter on level `db`.
fn filter_problems(pattern: &str) -> Vec<String> {
    let pattern = serde_json::json!(pattern);
    let parsed = good(
        "",
        &format!(
            "\"bistro_job->x\": {{\"filters\": {{\"db\": {{\"blacklist_regex\": {pattern}}}}}}}"
        ),
    );
    assert_eq!(
        parsed.config.jobs[0].filters.is_empty(),
        !parsed.job_problems().is_empty()
    );
    parsed
        .job_problems()
        .iter()
        .map(|p| p.message.clone())
        .collect()
}

#[test]
fn possessive_quantifiers_are_not_taken_for_something_else() {
    for (pattern, shown) in [
        ("a++", "++"),
        ("x(a*+b)", "*+"),
        ("[a+]?+|c", "?+"),
        (r"\d{2,3}+", "{2,3}+"),
        ("ü++", "++"),
    ] {
        assert_eq!(
            filter_problems(pattern),
            [format!(
                "the possessive quantifier `{shown}` is not supported"
            )],
            "{pattern}"
        );
    }
    for (pattern, shown) in [
        ("a**", "**"),
        ("a{2}{3}", "{2}{3}"),
        ("a+?+", "+?+"),
        ("a+*", "+*"),
    ] {
        assert_eq!(
            filter_problems(pattern),
            [format!("two quantifiers in a row: `{shown}`")],
            "{pattern}"
        );
    }
    for pattern in ["a+?", "(a+)+", r"a\++", "[+]+", "[a++]", "a+b+", r"\++"] {
        assert_eq!(filter_problems(pattern), [""; 0], "{pattern}");
    }
}

#[test]
fn hosts_of_a_level_that_tasks_do_not_have() {
    let warnings = |job: &str| {
        let parsed = good("", &format!("\"bistro_job->x\": {{{job}}}"));
        assert_eq!(parsed.config.jobs[0].level_for_host_placement, None);
        assert!(parsed.config.jobs[0].can_run());
        lines(&parsed.warnings)
    };
    assert_eq!(
        warnings("\"level_for_tasks\": \"host\", \"level_for_host_placement\": \"db\""),
        [
            "3:74: bistro_job->x.level_for_host_placement: has no effect: a task at level `host` has no node at level \"db\", so it runs on any host; one of instance, host, or remove the key"
        ]
    );
    assert_eq!(
        warnings("\"level_for_host_placement\": \"worker\""),
        [
            "3:47: bistro_job->x.level_for_host_placement: has no effect: a task at level `db` has no node at level \"worker\", so it runs on any host; one of instance, host, db, or remove the key"
        ]
    );
}
