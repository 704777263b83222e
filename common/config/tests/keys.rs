//! Tables of the default of each config key, and of the test that fails if the key has no effect. `KEYS.md` is generated from these tables and
//! from the table of keys that the parser uses.

#[path = "keys/defaults.rs"]
mod defaults;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use brasserie_common_config::{KeyRow, key_paths, key_rows};
use regex::Regex;

/// The source folders in which the tests are.
const SOURCES: &[(&str, &str)] = &[
    (
        "common/config/src/tests/no_effect.rs",
        include_str!("../src/tests/no_effect.rs"),
    ),
    (
        "common/config/src/tests/original.rs",
        include_str!("../src/tests/original.rs"),
    ),
    (
        "common/config/src/tests/inputs.rs",
        include_str!("../src/tests/inputs.rs"),
    ),
    (
        "common/config/src/tests/outputs.rs",
        include_str!("../src/tests/outputs.rs"),
    ),
    (
        "common/config/src/tests/properties.rs",
        include_str!("../src/tests/properties.rs"),
    ),
    (
        "common/config/src/tests/sample.rs",
        include_str!("../src/tests/sample.rs"),
    ),
    (
        "common/config/src/tests/values.rs",
        include_str!("../src/tests/values.rs"),
    ),
    (
        "common/config/src/cron/tests.rs",
        include_str!("../src/cron/tests.rs"),
    ),
    (
        "scheduler/engine/src/tests/add_time.rs",
        include_str!("../../../scheduler/engine/src/tests/add_time.rs"),
    ),
    (
        "scheduler/core/tests/jobs/artifacts/locality.rs",
        include_str!("../../../scheduler/core/tests/jobs/artifacts/locality.rs"),
    ),
    (
        "scheduler/core/tests/keys.rs",
        include_str!("../../../scheduler/core/tests/keys.rs"),
    ),
    (
        "common/config/src/tests/cards.rs",
        include_str!("../src/tests/cards.rs"),
    ),
    (
        "integration-tests/tests/e2e_cards.rs",
        include_str!("../../../integration-tests/tests/e2e_cards.rs"),
    ),
    (
        "integration-tests/tests/e2e_standby.rs",
        include_str!("../../../integration-tests/tests/e2e_standby.rs"),
    ),
    (
        "integration-tests/tests/e2e_limits.rs",
        include_str!("../../../integration-tests/tests/e2e_limits.rs"),
    ),
    (
        "scheduler/engine/src/tests/keys.rs",
        include_str!("../../../scheduler/engine/src/tests/keys.rs"),
    ),
    (
        "scheduler/src/sources/tests.rs",
        include_str!("../../../scheduler/src/sources/tests.rs"),
    ),
    (
        "worker/core/src/worker/tests/sessions.rs",
        include_str!("../../../worker/core/src/worker/tests/sessions.rs"),
    ),
    (
        "worker/src/groups/plan_tests.rs",
        include_str!("../../../worker/src/groups/plan_tests.rs"),
    ),
    (
        "worker/tests/groups.rs",
        include_str!("../../../worker/tests/groups.rs"),
    ),
    (
        "worker/tests/accounts.rs",
        include_str!("../../../worker/tests/accounts.rs"),
    ),
    (
        "worker/src/process/rate.rs",
        include_str!("../../../worker/src/process/rate.rs"),
    ),
    (
        "worker/src/process/tests/ends.rs",
        include_str!("../../../worker/src/process/tests/ends.rs"),
    ),
    (
        "worker/src/process/tests/output.rs",
        include_str!("../../../worker/src/process/tests/output.rs"),
    ),
    (
        "worker/src/process/tests/kills.rs",
        include_str!("../../../worker/src/process/tests/kills.rs"),
    ),
];

enum Proof {
    /// These tests together: one shows that the value reaches its consumer, one that the consumer acts on it.
    Tests(&'static [&'static str]),
    /// The key never has an effect, and this test checks that its author gets a warning.
    NoEffect(&'static str),
}
use Proof::{NoEffect, Tests};

const SETTINGS: &str = "bistro_settings";
const JOB: &str = "bistro_job->NAME";

/// Keys of the settings, of a job, or of both, below this path, with the test for either place.
const SHARED: &[(&str, Proof)] = &[
    (
        "kill_orphan_tasks_after_sec",
        Tests(&["how_long_an_orphan_may_run"]),
    ),
    ("task_subprocess", Tests(&["how_its_output_is_read"])),
    (
        "task_subprocess.poll_ms",
        Tests(&[
            "how_its_output_is_read",
            "the_rate_limit_bursts_one_second_and_refills",
        ]),
    ),
    (
        "task_subprocess.max_log_lines_per_poll_interval",
        Tests(&[
            "how_its_output_is_read",
            "the_rate_limit_bursts_one_second_and_refills",
        ]),
    ),
    (
        "task_subprocess.max_log_bytes_per_poll_interval",
        Tests(&["how_its_output_is_read", "bytes_have_a_limit_of_their_own"]),
    ),
    (
        "task_subprocess.log_overflow",
        Tests(&[
            "how_its_output_is_read",
            "what_is_dropped_is_counted_and_told_once_a_second",
        ]),
    ),
    (
        "task_subprocess.output",
        Tests(&[
            "how_its_output_is_read",
            "output_goes_into_files_and_the_log_says_where",
        ]),
    ),
    ("task_subprocess.parent_death_signal", NoEffect(PROCESSES)),
    ("task_subprocess.process_group_leader", NoEffect(PROCESSES)),
    ("task_subprocess.use_canary_pipe", NoEffect(PROCESSES)),
    ("task_subprocess.cgroups", GROUPS),
    ("task_subprocess.cgroups.root", GROUPS),
    ("task_subprocess.cgroups.slice", GROUPS),
    ("task_subprocess.cgroups.subsystems", GROUPS),
    (
        "task_subprocess.cgroups.kill_without_freezer",
        Tests(&[
            "in_which_control_groups_it_runs",
            "without_version_two_the_freezer_or_the_pids_kill",
        ]),
    ),
    (
        "task_subprocess.cgroups.pids_max",
        Tests(&[
            "in_which_control_groups_it_runs",
            "a_fork_bomb_is_refused_its_processes_and_ends",
        ]),
    ),
    ("task_subprocess.limits", LIMITS),
    ("task_subprocess.limits.LIMIT.soft", LIMITS),
    ("task_subprocess.limits.LIMIT.hard", LIMITS),
    (
        "task_subprocess.user",
        Tests(&[
            "what_its_processes_may_use_and_whose_rights_they_have",
            "a_task_has_the_rights_of_its_user_and_no_others",
        ]),
    ),
    (
        "task_subprocess.group",
        Tests(&[
            "what_its_processes_may_use_and_whose_rights_they_have",
            "a_group_is_one_of_the_users_or_one_that_is_allowed",
        ]),
    ),
    ("kill_subprocess", Tests(&["how_a_task_is_ended"])),
    ("kill_subprocess.method", KILLS),
    ("kill_subprocess.kill_wait_ms", KILLS),
    ("kill_request", Tests(&["how_a_task_is_ended"])),
    ("kill_request.method", KILLS),
    ("kill_request.kill_wait_ms", KILLS),
];
const PROCESSES: &str = "how_processes_are_looked_after";
const GROUPS: Proof = Tests(&[
    "in_which_control_groups_it_runs",
    "the_named_slices_are_used_as_they_always_were",
]);
const LIMITS: Proof = Tests(&[
    "what_its_processes_may_use_and_whose_rights_they_have",
    "limits_hold_in_the_task",
]);
const KILLS: Proof = Tests(&[
    "how_a_task_is_ended",
    "each_method_ends_a_task_and_costs_no_retry",
]);

const OF_SETTINGS: &[(&str, Proof)] = &[
    ("enabled", Tests(&["enabled"])),
    (
        "working_wait",
        Tests(&["when_an_incomplete_task_starts_again"]),
    ),
    ("idle_wait", NoEffect("waiting_while_idle")),
    ("scheduler", Tests(&["scheduler_and_priority"])),
    (
        "remote_worker_selector",
        Tests(&["remote_worker_selector_and_weight"]),
    ),
    (
        "standby",
        Tests(&["a_setting_sends_no_task_before_slots_are_free"]),
    ),
    ("backoff", Tests(&["backoff"])),
    ("nodes", Tests(&["nodes"])),
    ("nodes.levels", Tests(&["nodes"])),
    ("nodes.node_order", Tests(&["node_order"])),
    ("nodes.node_sources", Tests(&["nodes"])),
    ("nodes.node_sources[].source", Tests(&["ranges_of_nodes"])),
    ("nodes.node_sources[].prefs", Tests(&["nodes"])),
    ("nodes.node_sources[].names", Tests(&["names_of_nodes"])),
    (
        "nodes.node_sources[].prefs(manual).NODE.children",
        Tests(&["nodes"]),
    ),
    (
        "nodes.node_sources[].prefs(manual).NODE.disabled",
        Tests(&["nodes"]),
    ),
    (
        "nodes.node_sources[].prefs(range_label).parent_level",
        Tests(&["ranges_of_nodes"]),
    ),
    (
        "nodes.node_sources[].prefs(range_label).start",
        Tests(&["ranges_of_nodes"]),
    ),
    (
        "nodes.node_sources[].prefs(range_label).end",
        Tests(&["ranges_of_nodes"]),
    ),
    (
        "nodes.node_sources[].prefs(range_label).format",
        Tests(&["ranges_of_nodes"]),
    ),
    (
        "nodes.node_sources[].prefs(range_label).enabled",
        Tests(&["ranges_of_nodes"]),
    ),
    (
        "nodes.node_sources[].prefs(script).parent_level",
        Tests(&["sources_build_on_each_other_in_order"]),
    ),
    (
        "nodes.node_sources[].prefs(script).script",
        Tests(&["sources_build_on_each_other_in_order"]),
    ),
    (
        "nodes.node_sources[].prefs(script).timeout",
        Tests(&[
            "other_sources_keep_their_preferences",
            "a_script_that_hangs_is_killed_with_its_descendants",
        ]),
    ),
    (
        "nodes.node_sources[].prefs(add_time).parent_level",
        Tests(&["each_key_has_an_effect"]),
    ),
    (
        "nodes.node_sources[].prefs(add_time).format",
        Tests(&["each_key_has_an_effect"]),
    ),
    (
        "nodes.node_sources[].prefs(add_time).schedule",
        Tests(&["each_key_has_an_effect"]),
    ),
    (
        "nodes.node_sources[].prefs(add_time).schedule[].cron",
        Tests(&["each_key_has_an_effect"]),
    ),
    (
        "nodes.node_sources[].prefs(add_time).schedule[].cron.epoch",
        Tests(&["each_key_has_an_effect"]),
    ),
    (
        "nodes.node_sources[].prefs(add_time).schedule[].cron.epoch.start",
        Tests(&["each_key_has_an_effect"]),
    ),
    (
        "nodes.node_sources[].prefs(add_time).schedule[].cron.epoch.end",
        Tests(&["each_key_has_an_effect"]),
    ),
    (
        "nodes.node_sources[].prefs(add_time).schedule[].cron.epoch.period",
        Tests(&["each_key_has_an_effect"]),
    ),
    (
        "nodes.node_sources[].prefs(add_time).schedule[].cron.minute",
        Tests(&["each_key_has_an_effect"]),
    ),
    (
        "nodes.node_sources[].prefs(add_time).schedule[].cron.minute.start",
        Tests(&["each_field_selects"]),
    ),
    (
        "nodes.node_sources[].prefs(add_time).schedule[].cron.minute.end",
        Tests(&["each_field_selects"]),
    ),
    (
        "nodes.node_sources[].prefs(add_time).schedule[].cron.minute.period",
        Tests(&["each_field_selects"]),
    ),
    (
        "nodes.node_sources[].prefs(add_time).schedule[].cron.hour",
        Tests(&["each_key_has_an_effect"]),
    ),
    (
        "nodes.node_sources[].prefs(add_time).schedule[].cron.hour.start",
        Tests(&["each_field_selects"]),
    ),
    (
        "nodes.node_sources[].prefs(add_time).schedule[].cron.hour.end",
        Tests(&["each_field_selects"]),
    ),
    (
        "nodes.node_sources[].prefs(add_time).schedule[].cron.hour.period",
        Tests(&["each_field_selects"]),
    ),
    (
        "nodes.node_sources[].prefs(add_time).schedule[].cron.day_of_month",
        Tests(&["each_key_has_an_effect"]),
    ),
    (
        "nodes.node_sources[].prefs(add_time).schedule[].cron.day_of_month.start",
        Tests(&["each_field_selects"]),
    ),
    (
        "nodes.node_sources[].prefs(add_time).schedule[].cron.day_of_month.end",
        Tests(&["each_field_selects"]),
    ),
    (
        "nodes.node_sources[].prefs(add_time).schedule[].cron.day_of_month.period",
        Tests(&["each_field_selects"]),
    ),
    (
        "nodes.node_sources[].prefs(add_time).schedule[].cron.day_of_week",
        Tests(&["each_key_has_an_effect"]),
    ),
    (
        "nodes.node_sources[].prefs(add_time).schedule[].cron.day_of_week.start",
        Tests(&["each_field_selects"]),
    ),
    (
        "nodes.node_sources[].prefs(add_time).schedule[].cron.day_of_week.end",
        Tests(&["each_field_selects"]),
    ),
    (
        "nodes.node_sources[].prefs(add_time).schedule[].cron.day_of_week.period",
        Tests(&["each_field_selects"]),
    ),
    (
        "nodes.node_sources[].prefs(add_time).schedule[].cron.month",
        Tests(&["each_key_has_an_effect"]),
    ),
    (
        "nodes.node_sources[].prefs(add_time).schedule[].cron.month.start",
        Tests(&["each_field_selects"]),
    ),
    (
        "nodes.node_sources[].prefs(add_time).schedule[].cron.month.end",
        Tests(&["each_field_selects"]),
    ),
    (
        "nodes.node_sources[].prefs(add_time).schedule[].cron.month.period",
        Tests(&["each_field_selects"]),
    ),
    (
        "nodes.node_sources[].prefs(add_time).schedule[].cron.year",
        Tests(&["each_key_has_an_effect"]),
    ),
    (
        "nodes.node_sources[].prefs(add_time).schedule[].cron.year.start",
        Tests(&["each_field_selects"]),
    ),
    (
        "nodes.node_sources[].prefs(add_time).schedule[].cron.year.end",
        Tests(&["each_field_selects"]),
    ),
    (
        "nodes.node_sources[].prefs(add_time).schedule[].cron.year.period",
        Tests(&["each_field_selects"]),
    ),
    (
        "nodes.node_sources[].prefs(add_time).schedule[].cron.dst_fixes",
        Tests(&["each_daylight_saving_policy_has_an_effect"]),
    ),
    (
        "nodes.node_sources[].prefs(add_time).schedule[].cron.time_zone",
        Tests(&["each_key_has_an_effect"]),
    ),
    (
        "nodes.node_sources[].prefs(add_time).schedule[].lifetime",
        Tests(&["each_key_has_an_effect"]),
    ),
    (
        "nodes.node_sources[].prefs(add_time).schedule[].enabled_lifetime",
        Tests(&["each_key_has_an_effect"]),
    ),
    (
        "nodes.node_sources[].prefs(add_time).schedule[].tags",
        Tests(&["each_key_has_an_effect"]),
    ),
    ("nodes.node_source", Tests(&["nodes"])),
    ("nodes.node_source_prefs", Tests(&["nodes"])),
    ("node_order", Tests(&["node_order"])),
    ("level_for_tasks", Tests(&["level_for_tasks"])),
    ("resources", Tests(&["resources"])),
    ("resources.LEVEL.RESOURCE.default", Tests(&["resources"])),
    ("resources.LEVEL.RESOURCE.limit", Tests(&["resources"])),
    (
        "resources.LEVEL.RESOURCE.weight",
        Tests(&["remote_worker_selector_and_weight"]),
    ),
    (
        "worker_resources_override",
        Tests(&["resources_of_workers"]),
    ),
    (
        "worker_resources_overrides",
        Tests(&["resources_of_workers"]),
    ),
    ("physical_resources", Tests(&["resources_of_workers"])),
    (
        "physical_resources.ram_mb",
        Tests(&["resources_of_workers"]),
    ),
    (
        "physical_resources.ram_mb.logical_resource",
        Tests(&["resources_of_workers"]),
    ),
    (
        "physical_resources.ram_mb.multiply_logical_by",
        Tests(&["resources_of_workers"]),
    ),
    (
        "physical_resources.ram_mb.enforcement",
        Tests(&[
            "what_a_task_is_held_to",
            "a_memory_limit_is_enforced_and_told_with_the_peak",
        ]),
    ),
    (
        "physical_resources.ram_mb.physical_reserve_amount",
        Tests(&["resources_of_workers"]),
    ),
    (
        "physical_resources.cpu_core",
        Tests(&["resources_of_workers"]),
    ),
    (
        "physical_resources.cpu_core.logical_resource",
        Tests(&["resources_of_workers"]),
    ),
    (
        "physical_resources.cpu_core.multiply_logical_by",
        Tests(&["resources_of_workers"]),
    ),
    (
        "physical_resources.cpu_core.enforcement",
        Tests(&["what_a_task_is_held_to", "a_quota_throttles"]),
    ),
    (
        "physical_resources.cpu_core.physical_reserve_amount",
        Tests(&["resources_of_workers"]),
    ),
    (
        "physical_resources.gpu_card",
        Tests(&[
            "resources_of_workers",
            "no_card_is_taken_twice_also_if_the_scheduler_is_killed_meanwhile",
        ]),
    ),
    (
        "physical_resources.gpu_card.logical_resource",
        Tests(&["resources_of_workers"]),
    ),
    (
        "physical_resources.gpu_card.multiply_logical_by",
        Tests(&[
            "resources_of_workers",
            "needs_follow_from_slots",
            "no_card_is_taken_twice_also_if_the_scheduler_is_killed_meanwhile",
        ]),
    ),
    (
        "physical_resources.gpu_card.enforcement",
        NoEffect(MACHINES),
    ),
    (
        "physical_resources.gpu_card.physical_reserve_amount",
        Tests(&["resources_of_workers"]),
    ),
    (
        "CAUTION_exit_initial_wait_before_timestamp",
        Tests(&["the_initial_wait_ends_at_the_word_of_the_file"]),
    ),
];
const MACHINES: &str = "what_machines_offer";

const OF_JOBS: &[(&str, Proof)] = &[
    ("enabled", Tests(&["enabled"])),
    ("owner", Tests(&["an_export_says_what_is_documented"])),
    ("level_for_tasks", Tests(&["level_for_tasks"])),
    ("priority", Tests(&["scheduler_and_priority"])),
    ("resources", Tests(&["resources"])),
    (
        "config",
        Tests(&["config_of_a_job", "the_program_and_what_is_said_to_it"]),
    ),
    ("filters", Tests(&["filters"])),
    ("filters.LEVEL.whitelist", Tests(&["filters"])),
    ("filters.LEVEL.whitelist_regex", Tests(&["filters"])),
    ("filters.LEVEL.blacklist", Tests(&["filters"])),
    ("filters.LEVEL.blacklist_regex", Tests(&["filters"])),
    (
        "filters.LEVEL.tag_whitelist",
        Tests(&["filters", "jobs_run_on_the_tags_they_demand"]),
    ),
    ("filters.LEVEL.fraction_of_nodes", Tests(&["filters"])),
    ("level_for_host_placement", Tests(&["placement_on_hosts"])),
    ("host_placement", Tests(&["placement_on_hosts"])),
    ("backoff", Tests(&["backoff"])),
    ("retries", Tests(&["retries"])),
    ("retry_delay", Tests(&["retries"])),
    ("depends_on", Tests(&["depends_on"])),
    (
        "run_only_after_all_nodes_are_done_for",
        Tests(&["run_only_after_all_nodes_are_done_for"]),
    ),
    ("create_time", Tests(&["a_job_survives_its_export"])),
    ("modify_time", Tests(&["a_job_survives_its_export"])),
    (
        "command",
        Tests(&["command", "the_program_and_what_is_said_to_it"]),
    ),
    (
        "env",
        Tests(&[
            "where_and_with_what_a_task_begins",
            "a_job_sets_variables_and_the_directory",
        ]),
    ),
    (
        "cwd",
        Tests(&[
            "where_and_with_what_a_task_begins",
            "a_job_sets_variables_and_the_directory",
        ]),
    ),
    ("max_running", Tests(&["max_running"])),
    ("version_id", Tests(&["a_job_survives_its_export"])),
    (
        "errors",
        Tests(&["errors_of_an_exported_job_stay_as_they_were"]),
    ),
    (
        "status_from",
        Tests(&[
            "the_program_and_what_is_said_to_it",
            "each_final_status_rule_with_a_real_process",
        ]),
    ),
    (
        "timeout",
        Tests(&[
            "how_long_a_task_may_take",
            "a_task_is_ended_by_its_timeout_and_its_deadline",
        ]),
    ),
    (
        "deadline",
        Tests(&[
            "how_long_a_task_may_take",
            "a_task_is_ended_by_its_timeout_and_its_deadline",
        ]),
    ),
    ("est_duration", Tests(&["what_its_worker_is_told_of_it"])),
    ("bufferable", Tests(&["what_its_worker_is_told_of_it"])),
    (
        "report",
        Tests(&[
            "what_its_worker_is_told_of_it",
            "the_job_says_or_else_the_profile",
        ]),
    ),
    (
        "arguments",
        Tests(&[
            "the_program_and_what_is_said_to_it",
            "a_task_finds_arguments_environment_and_directory",
        ]),
    ),
    ("outputs", OUTPUTS),
    ("outputs[].path", OUTPUTS),
    ("outputs[].replicas", OUTPUTS),
    ("outputs[].wait_for_replica", OUTPUTS),
    (
        "keep",
        Tests(&["outputs_are_kept_for_a_week_or_as_the_job_says"]),
    ),
    ("inputs", INPUTS),
    (
        "inputs[].from",
        Tests(&["a_job_waits_for_the_jobs_of_its_inputs"]),
    ),
    (
        "inputs[].node",
        Tests(&["a_job_waits_for_the_jobs_of_its_inputs"]),
    ),
    ("inputs[].path", INPUTS),
    ("inputs[].file", INPUTS),
    ("inputs[].as", INPUTS),
    (
        "locality_wait",
        Tests(&["a_task_waits_for_the_worker_with_most_of_its_inputs"]),
    ),
];
const INPUTS: Proof = Tests(&["a_job_lists_its_inputs"]);
const OUTPUTS: Proof = Tests(&["a_job_lists_its_outputs"]);

/// Returns each path of the table with its test.
fn rows() -> Vec<(String, &'static Proof)> {
    let settings = OF_SETTINGS.iter().chain(SHARED);
    let settings = settings.map(|(path, proof)| (format!("{SETTINGS}.{path}"), proof));
    let jobs = OF_JOBS.iter().chain(SHARED);
    let jobs = jobs.map(|(path, proof)| (format!("{JOB}.{path}"), proof));
    settings.chain(jobs).collect()
}

/// Returns the file of a test.
fn file_of(test: &str) -> &'static str {
    let pattern = format!(r"#\[(tokio::)?test\]\s*(#\[expect\([^\]]*\)\]\s*)?(async )?fn {test}\(");
    let pattern = Regex::new(&pattern).expect("a pattern of words");
    let mut found = SOURCES.iter().filter(|(_, text)| pattern.is_match(text));
    match (found.next(), found.next()) {
        (Some((file, _)), None) => file,
        (None, _) => panic!("no source that is looked at has the test {test}"),
        (Some((one, _)), Some((other, _))) => panic!("{test} is in {one} and in {other}"),
    }
}

#[test]
fn each_key_has_a_row_and_each_row_a_key() {
    let keys: BTreeSet<String> = key_paths().into_iter().collect();
    let rows: Vec<String> = rows().into_iter().map(|(path, _)| path).collect();
    let unique: BTreeSet<String> = rows.iter().cloned().collect();
    assert_eq!(unique.len(), rows.len(), "a key has two rows");
    let missing: Vec<&String> = keys.difference(&unique).collect();
    let excess: Vec<&String> = unique.difference(&keys).collect();
    assert!(
        missing.is_empty() && excess.is_empty(),
        "without a row: {missing:#?}\nwithout a key: {excess:#?}"
    );
}

/// The text before the first table.
const INTRO: &str = "# Config keys

This page lists every key of a config, with its type, its default and its meaning. `brasserie config schema` prints the same as a JSON Schema, and the
guide explains the keys with examples.

A heading is the path of an object, and its table lists the keys of this object. The following parts of a path stand for others:

* `NAME` is the name of a job.
* `LEVEL`, `RESOURCE`, `NODE` and `LIMIT` are names of levels, resources, nodes and limits.
* `[]` is each item of a list.
* `prefs(KIND)` is the key `prefs` of a node source of this kind.

| type | values |
|---|---|
| boolean | `true` or `false`; also `\"yes\"` or `\"no\"`, `\"on\"` or `\"off\"`, and 1 or 0 |
| integer, number | a number, or a text that contains one |
| text | a text, a number or a boolean |
| duration | a number of seconds, or a text with a unit: `\"500ms\"`, `\"30s\"`, `\"5m\"`, `\"2h\"`, `\"1d\"` |
| boolean or duration | `false` is never, `true` is at once, and a duration is the time until then |
| milliseconds | a whole number of milliseconds, or a text with a unit |
| list of waits | waits of at least one second, each a number of seconds or a text with a unit. The last item is `\"repeat\"` or `\"fail\"` |
| `a`, `b` | one of these texts |

*Required* means that the object needs the key. A default in words is not a value that the key can have.
";

/// The text before the table of tests.
const TESTS: &str = "
## Tests of the keys

This table names, for each key, the test that fails if the key has no effect. If there are two tests, the first one checks that the value reaches the
program that uses it, and the second one checks what the program does with it. `cargo test -p brasserie-common-config --test keys` checks this page.

| key | test |
|---|---|
";

/// The environment variable with which the test writes the page instead of comparing it.
const BLESS_VARIABLE: &str = "BLESS";

fn put(page: &mut String, text: &str) {
    write!(page, "{text}").expect("a string takes every text");
}

/// Returns the object of a key, and the name of the key in it.
fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('.').expect("a key is in an object")
}

fn table() -> String {
    let mut page = INTRO.to_owned();
    let keys = key_rows();
    let mut objects: Vec<&str> = Vec::new();
    for key in &keys {
        let (object, _) = split(&key.path);
        if !objects.contains(&object) {
            objects.push(object);
        }
    }
    for object in objects {
        put(
            &mut page,
            &format!("\n## `{object}`\n\n| key | type | default | meaning |\n|---|---|---|---|\n"),
        );
        for key in keys.iter().filter(|key| split(&key.path).0 == object) {
            let KeyRow { value, about, .. } = key;
            let default = defaults::in_words(key);
            put(
                &mut page,
                &format!(
                    "| `{}` | {value} | {default} | {about} |\n",
                    split(&key.path).1
                ),
            );
        }
    }
    put(&mut page, TESTS);
    for (path, proof) in rows() {
        let names = |tests: &[&str]| {
            let each = tests
                .iter()
                .map(|test| format!("`{test}` in `{}`", file_of(test)));
            each.collect::<Vec<_>>().join(", ")
        };
        let cell = match proof {
            Tests(tests) => names(tests),
            NoEffect(test) => format!("has no effect, and says so: {}", names(&[test])),
        };
        put(&mut page, &format!("| `{path}` | {cell} |\n"));
    }
    page
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the test writes the page into the repository if the environment says so"
)]
fn the_page_is_what_the_table_makes() {
    let table = table();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("KEYS.md");
    if std::env::var_os(BLESS_VARIABLE).is_some() {
        std::fs::write(&path, &table).expect("the repository is writable");
    }
    assert!(
        std::fs::read_to_string(&path).expect("the page is UTF-8") == table,
        "common/config/KEYS.md is out of date; {BLESS_VARIABLE}=1 cargo test -p brasserie-common-config --test keys writes it"
    );
}

/// The guide explains the last word of each key's path.
#[test]
fn the_guide_names_each_key() {
    let guide = concat!(
        include_str!("../../../docs/src/guide/config.md"),
        include_str!("../../../docs/src/guide/schedules.md"),
        include_str!("../../../docs/src/guide/jobs.md"),
        include_str!("../../../docs/src/guide/artifacts.md"),
        include_str!("../../../docs/src/guide/limits.md"),
        include_str!("../../../docs/src/guide/gpus.md"),
        include_str!("../../../docs/src/guide/tasks.md"),
    );
    let is_named = |path: &String| {
        let word = path.rsplit('.').next().unwrap_or(path);
        guide.contains(&format!("{word}`")) || guide.contains(&format!("\"{word}\""))
    };
    let missing: Vec<String> = key_paths().into_iter().filter(|p| !is_named(p)).collect();
    assert!(missing.is_empty(), "the guide does not name {missing:#?}");
}
