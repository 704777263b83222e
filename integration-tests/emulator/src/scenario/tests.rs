//! Tests of scenarios and of their error messages.

use std::fs;
use std::path::PathBuf;

use proptest::prelude::*;

use super::*;

fn parse(text: &str) -> Result<Scenario, ScenarioProblems> {
    toml::parse(Path::new("x.toml"), text)
}

fn problems_of(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

const SMALL: &str = r#"
[worker]
cpus = 2
[[scheduler]]
name = "one"
[[scheduler.job]]
name = "a"
runs = "10s"
"#;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios")
}

#[test]
fn what_is_not_said_has_its_default() {
    let scenario = parse(SMALL).unwrap();
    assert_eq!((scenario.duration, scenario.delta), (86_400.0, 60.0));
    assert_eq!((scenario.seed, START), (1, 3600.0));
    assert_eq!(scenario.profile, Profile::CLUSTER);
    assert_eq!(scenario.policy.dispatch, Dispatch::Pull);
    assert_eq!(scenario.policy.linger, 120.0);
    let job = &scenario.schedulers[0].jobs[0];
    assert_eq!((job.weight, job.work), (1.0, 10.0 * scenario.worker.flops));
    assert_eq!(job.supply, Supply::Endless);
    let exact = Estimate::Normal {
        mean: job.work,
        deviation: 0.0,
    };
    assert_eq!(job.estimate, exact);
}

/// The default is that of BOINC's simulator.
#[test]
fn where_only_a_part_of_the_time_is_given_a_time_on_is_an_hour() {
    let half = OnOff {
        part: 0.5,
        mean: 3600.0,
    };
    let text = SMALL
        .replace("cpus = 2", "cpus = 2\non = { part = 0.5 }")
        .replace("\"one\"", "\"one\"\navailable = { part = 0.5 }");
    let scenario = parse(&text).unwrap();
    assert_eq!(scenario.worker.on, half);
    assert_eq!(scenario.schedulers[0].available, half);
    assert_eq!(scenario.worker.connected.mean, 3600.0);
}

#[test]
fn every_mistake_is_told_at_once_with_its_line_and_key() {
    let text = r#"duration = "soon"
profile = "planetary"
[worker]
cpus = 0
on = { part = 1.5, mena = "1h" }
[policy]
linger = true
[[scheduler]]
share = -1
no_jobs_for = ["abacus"]
[[scheduler.job]]
name = "a"
card = "A100"
count = 2.5
"#;
    let told = problems_of(text);
    let expected = [
        "x.toml:1: duration: must be a span",
        "x.toml:2: profile: `planetary` is none of `cluster`, `volunteer`",
        "x.toml:4: worker.cpus: a worker has one CPU at least",
        "x.toml:5: worker.on.mena: is no key here; those are mean, part",
        "x.toml:5: worker.on.part: 1.5 is not above 0 and at most 1",
        "x.toml:7: policy.linger: must be a span",
        "x.toml:8: scheduler[0].name: missing",
        "x.toml:9: scheduler[0].share: -1 is not at least 0",
        "x.toml:10: scheduler[0].no_jobs_for: the worker has no processors called `abacus`",
        "x.toml:11: scheduler[0].job[0].runs: missing",
        "x.toml:13: scheduler[0].job[0].card: the worker has no cards of the model `A100`",
        "x.toml:14: scheduler[0].job[0].count: must be a whole number",
    ];
    assert_eq!(told.lines().count(), expected.len(), "{told}");
    for (line, expected) in told.lines().zip(expected) {
        assert!(line.starts_with(expected), "{line}\nis not {expected}");
    }
}

/// Conflicts between two places of a file are reported together with all other mistakes.
#[test]
fn names_are_each_told_at_their_second_place() {
    let text = r#"[worker]
cpus = 2
[[worker.cards]]
model = "A100"
[[worker.cards]]
model = "A100"
[[worker.cards]]
model = "CPU"
[[excuse]]
of = "idle"
most = 2
why = " "
[[scheduler]]
name = "a"
[[scheduler.job]]
name = "b"
runs = 1
[[scheduler.job]]
name = "b"
runs = 1
[[scheduler]]
name = "a"
[[scheduler.job]]
name = "b"
runs = 1
"#;
    let told = problems_of(text);
    let expected = [
        "x.toml:6: worker.cards[1].model: two kinds of processors are called `A100`",
        "x.toml:8: worker.cards[2].model: two kinds of processors are called `CPU`",
        "x.toml:11: excuse[0].most: 2 is not at least 0 and at most 1",
        "x.toml:12: excuse[0].why: must not be empty",
        "x.toml:19: scheduler[0].job[1].name: two jobs of one scheduler are called `b`",
        "x.toml:22: scheduler[1].name: two schedulers are called `a`",
    ];
    assert_eq!(told.lines().collect::<Vec<_>>(), expected);
}

/// No scheduler sends a task that does not fit into an empty worker.
#[test]
fn a_job_that_needs_more_than_the_worker_has_is_a_mistake() {
    let worker = "[worker]\ncpus = 2\ncards = [{ model = \"A100\", count = 3 }, { model = \"none of it\", count = 0 }]\n";
    let job = |keys: &str| {
        let scheduler =
            "[[scheduler]]\nname = \"one\"\n[[scheduler.job]]\nname = \"a\"\nruns = 1\n";
        format!("{worker}{scheduler}{keys}\n")
    };
    for fits in [
        "cpus = 2",
        "card = \"A100\"\ncards = 3\ncpus = 2",
        "card = \"none of it\"",
    ] {
        assert!(parse(&job(fits)).is_ok(), "{fits}");
    }
    let told = problems_of(&job("cpus = 2.5"));
    let expected =
        "x.toml:9: scheduler[0].job[0].cpus: no such task would be sent: the worker has 2\n";
    assert_eq!(told, expected);
    let told = problems_of(&job(
        "[[scheduler.job.version]]\ncard = \"A100\"\ncards = 4\n[[scheduler.job.version]]\ncpus = 8",
    ));
    let expected = "x.toml:11: scheduler[0].job[0].version[0].cards: no such task would be sent: the worker has 3
x.toml:13: scheduler[0].job[0].version[1].cpus: no such task would be sent: the worker has 2
";
    assert_eq!(told, expected);
}

#[test]
fn a_wrong_number_of_processors_is_one_mistake() {
    for (wrong, expected) in [
        (
            "1000000000",
            "1000000000 is more than 4096 processors of one type",
        ),
        ("5000", "5000 is more than 4096 processors of one type"),
        ("0", "a worker has one CPU at least"),
        ("-1", "must be a whole number, 0 at least"),
        ("\"four\"", "must be a whole number, 0 at least"),
    ] {
        let text = SMALL.replace("cpus = 2", &format!("cpus = {wrong}"));
        let text = format!("{text}cpus = 3\n");
        assert_eq!(
            problems_of(&text),
            format!("x.toml:3: worker.cpus: {expected}\n")
        );
        let cards = format!("cpus = 2\ncards = [{{ model = \"A100\", count = {wrong} }}]");
        let text = SMALL.replace("cpus = 2", &cards);
        let text = format!("{text}card = \"A100\"\ncards = 2\n");
        if wrong != "0" {
            let expected = format!("x.toml:4: worker.cards[0].count: {expected}\n");
            assert_eq!(problems_of(&text), expected);
        }
    }
}

#[test]
fn large_numbers_are_told_in_short() {
    for (share, expected) in [
        ("1e300", "1e300 is not at least 0 and at most 1e30"),
        ("-0.5", "-0.5 is not at least 0 and at most 1e30"),
        ("-1e-9", "-1e-9 is not at least 0 and at most 1e30"),
    ] {
        let text = SMALL.replace("\"one\"", &format!("\"one\"\nshare = {share}"));
        let expected = format!("x.toml:6: scheduler[0].share: {expected}\n");
        assert_eq!(problems_of(&text), expected);
    }
}

#[test]
fn a_key_that_stands_twice_is_told_by_its_name() {
    let twice = SMALL.replace("cpus = 2", "cpus = 2\nflops = 1\ncpus = 3");
    assert_eq!(problems_of(&twice), "x.toml:5: cpus: duplicate key\n");
    let told = problems_of(&format!("{SMALL}[worker]\nflops = 3\n"));
    assert_eq!(told, "x.toml:9: worker: duplicate key\n");
}

#[test]
fn text_that_is_no_toml_is_told_with_its_lines() {
    let told = problems_of("a = \n[worker\ncpus = 1\nb = ]\n");
    assert!(told.contains("x.toml:1: "), "{told}");
    assert!(told.contains("x.toml:2: "), "{told}");
}

#[test]
fn what_is_missing_as_a_whole_is_told() {
    let told = problems_of("seed = 3\n");
    assert!(told.contains("`[worker]`"), "{told}");
    assert!(told.contains("`[[scheduler]]`"), "{told}");
}

#[test]
fn each_scenario_of_the_repository_is_right_and_says_what_it_shows() {
    let mut count = 0;
    for entry in fs::read_dir(repository()).unwrap() {
        let path = entry.unwrap().path();
        let scenario = Scenario::read(&path, &Overrides::default());
        let scenario = scenario.unwrap_or_else(|problems| panic!("{problems}"));
        assert!(scenario.about.len() > 40, "{}", path.display());
        count += 1;
    }
    assert!(count >= 14, "{count}");
}

/// Writes a scenario into a temporary folder, which the caller keeps.
fn written(text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.toml");
    fs::write(&path, text).unwrap();
    (folder, path)
}

#[test]
fn projects_without_an_app_that_could_run_are_left_out_unless_they_are_wanted() {
    let text = r#"
[worker]
cpus = 1
[[worker.cards]]
model = "none of it"
count = 0
[[scheduler]]
name = "empty"
[[scheduler]]
name = "elsewhere"
[[scheduler.job]]
name = "a"
runs = 1
card = "none of it"
[[scheduler]]
name = "here"
[[scheduler.job]]
name = "b"
runs = 1
"#;
    let (_folder, path) = written(text);
    let names = |include| {
        let overrides = Overrides {
            include_empty_projects: include,
            ..Overrides::default()
        };
        let scenario = Scenario::read(&path, &overrides).unwrap();
        let names = scenario.schedulers.into_iter().map(|it| it.name);
        names.collect::<Vec<_>>()
    };
    assert_eq!(names(false), ["here"]);
    assert_eq!(names(true), ["empty", "elsewhere", "here"]);
}

#[test]
fn what_no_machine_could_play_is_refused() {
    let read = |text: &str| {
        let (_folder, path) = written(text);
        let told = Scenario::read(&path, &Overrides::default()).unwrap_err();
        told.to_string()
    };
    let long = format!("duration = \"3000d\"\ndelta = 1{SMALL}");
    assert!(read(&long).contains("ten million steps"));
    let brief = SMALL.replace("10s", "1ms");
    assert!(read(&brief).contains("less than 0.01 s"));
    let queued = format!("{SMALL}queued = 10001\n");
    assert!(read(&queued).contains("more than 10000 tasks are queued"));
    let often = format!("duration = \"3000d\"\n{SMALL}every = 0.1\n");
    assert!(read(&often).contains("ten million tasks of one job"));
    let missing = Scenario::read(Path::new("/nowhere/x.toml"), &Overrides::default());
    assert!(missing.unwrap_err().to_string().contains("cannot be read"));
    let other = Scenario::read(Path::new("x.json"), &Overrides::default());
    assert!(other.unwrap_err().to_string().contains("`.toml` file"));
}

#[test]
fn of_very_many_mistakes_the_first_are_told_and_all_are_counted() {
    let wrong: String = (0..3000).map(|n| format!("wrong{n} = 1\n")).collect();
    let told = problems_of(&format!("{wrong}{SMALL}"));
    assert_eq!(told.lines().count(), 51, "{told}");
    assert!(told.contains("x.toml:1: wrong0: is no key here"), "{told}");
    assert!(told.ends_with("x.toml: and 2950 more\n"), "{told}");
}

integration_tests_properties::properties! {
    256;

    #[test]
    fn no_text_breaks_the_reader(text in "[ -~\n]{0,200}", number in any::<f64>()) {
        let _ = parse(&text);
        let _ = parse(&SMALL.replace("\"10s\"", &number.to_string()));
    }
}
