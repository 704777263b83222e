//! Tests of both forms of scenarios, and of their error messages.

use std::fs;

use proptest::prelude::*;

use super::*;

fn parse(text: &str) -> Result<Scenario, Problems> {
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

fn repository() -> std::path::PathBuf {
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

/// The default is that of BOINC's simulator, in both forms.
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
    let state = "<client_state><host_info><p_ncpus>1</p_ncpus></host_info><time_stats><on_frac>0.5</on_frac></time_stats><project><project_name>p</project_name><available><frac>0.5</frac></available></project><app><name>a</name></app><app_version><app_name>a</app_name></app_version></client_state>";
    let folder = folder(&[("client_state.xml", state)]);
    let path = folder.path().join("client_state.xml");
    let of_state = Scenario::read(&path, &Overrides::default());
    let of_state = of_state.unwrap_or_else(|told| panic!("{told}"));
    for scenario in [&scenario, &of_state] {
        assert_eq!(scenario.worker.on, half);
        assert_eq!(scenario.schedulers[0].available, half);
        assert_eq!(scenario.worker.connected.mean, 3600.0);
    }
    assert_eq!((of_state.delta, of_state.seed), (60.0, 1));
    assert_eq!(of_state.schedulers[0].jobs[0].weight, 1.0);
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
        let state = path.join("client_state.xml");
        let path = if state.exists() { state } else { path };
        let scenario = Scenario::read(&path, &Overrides::default());
        let scenario = scenario.unwrap_or_else(|problems| panic!("{problems}"));
        assert!(scenario.about.len() > 40, "{}", path.display());
        count += 1;
    }
    assert!(count >= 14, "{count}");
}

#[test]
fn one_scenario_in_both_forms_is_the_same() {
    let read = |path: &str| {
        let path = repository().join(path);
        Scenario::read(&path, &Overrides::default()).unwrap_or_else(|told| panic!("{told}"))
    };
    let xml = read("sim-2007/client_state.xml");
    let toml = read("sim-2007-toml.toml");
    assert_eq!(xml.worker, toml.worker);
    assert_eq!(xml.policy, toml.policy);
    assert_eq!(xml.profile, toml.profile);
    assert_eq!(xml.schedulers, toml.schedulers);
    assert_eq!((xml.duration, xml.delta), (toml.duration, toml.delta));
}

#[test]
fn a_state_file_tells_of_queued_results() {
    let path = repository().join("save-sample/client_state.xml");
    let scenario = Scenario::read(&path, &Overrides::default()).unwrap();
    let job = &scenario.schedulers[0].jobs[0];
    assert_eq!(job.queued, 1);
    assert_eq!(job.deadline, Some(604_800.0));
    assert_eq!(job.work, 3.6e13);
    // 120.5 credits a day, where a CPU of 2.5 GFLOPS has 500.
    assert!((scenario.schedulers[0].rec - 0.241).abs() < 1e-12);
}

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

#[test]
fn every_mistake_of_all_files_is_told_at_once() {
    let state = "<client_state>\n<app><name>a</name></app>\n<host_info>\n<p_ncpus>two</p_ncpus>\n<p_fpops>-1</p_fpops>\n</host_info>\n<time_stats>\n<on_frac>0</on_frac>\n</time_stats>\n<project>\n<resource_share>many</resource_share>\n</project>\n<app_version>\n<app_name>b</app_name>\n</app_version>\n<result>\n<wu_name>w</wu_name>\n</result>\n</client_state>\n";
    let files = [
        ("client_state.xml", state),
        (
            "global_prefs.xml",
            "<global_preferences>\n<work_buf_min_days>x</work_buf_min_days>\n</global_preferences>",
        ),
        ("cc_config.xml", "<cc_config>\n<options>\n</cc_config>"),
    ];
    let folder = folder(&files);
    let path = folder.path().join("client_state.xml");
    let told = Scenario::read(&path, &Overrides::default()).unwrap_err();
    let told = told.to_string();
    for expected in [
        "client_state.xml:2: app: `<app>` stands before any `<project>`",
        "client_state.xml:4: host_info/p_ncpus: `two` is no number",
        "client_state.xml:5: host_info/p_fpops: -1 is not above 0",
        "client_state.xml:8: time_stats/on_frac: 0 is not above 0",
        "client_state.xml:10: project/master_url: missing",
        "client_state.xml:11: project/resource_share: `many` is no number",
        "client_state.xml:14: app_version/app_name: the project has no app `b`",
        "client_state.xml:17: result/wu_name: there is no workunit `w`",
        "global_prefs.xml:2: global_preferences/work_buf_min_days: `x` is no number",
        "cc_config.xml:3: is no XML",
    ] {
        assert!(told.contains(expected), "{expected}\nis not in\n{told}");
    }
    assert_eq!(told.lines().count(), 10, "{told}");
}

#[test]
fn names_of_a_state_file_are_each_told_at_their_second_place() {
    let state = "<client_state>\n<host_info><p_ncpus>5000</p_ncpus>\n<coprocs><coproc><type>A</type><count>1</count><peak_flops>1e9</peak_flops></coproc>\n<coproc><type>A</type><count>5000</count><peak_flops>1e9</peak_flops></coproc></coprocs></host_info>\n<project><project_name>p</project_name></project>\n<app><name>a</name></app>\n<app><name>a</name></app>\n<project><master_url>p</master_url></project>\n</client_state>\n";
    let folder = folder(&[("client_state.xml", state)]);
    let path = folder.path().join("client_state.xml");
    let told = Scenario::read(&path, &Overrides::default()).unwrap_err();
    let told = told.to_string();
    let expected = [
        "client_state.xml:2: host_info/p_ncpus: 5000 is more than 4096 processors of one type",
        "client_state.xml:4: coproc/count: 5000 is more than 4096 processors of one type",
        "client_state.xml:4: coproc/type: two kinds of processors are called `A`",
        "client_state.xml:7: app/name: two apps of one project are called `a`",
        "client_state.xml:8: project/master_url: two projects are called `p`",
    ];
    assert_eq!(told.lines().count(), expected.len(), "{told}");
    for (line, expected) in told.lines().zip(expected) {
        assert!(line.ends_with(expected), "{line}\nis not {expected}");
    }
}

#[test]
fn files_beside_a_state_file_have_its_prefix() {
    let state = "<client_state><host_info><p_ncpus>1</p_ncpus></host_info><project><project_name>p</project_name></project><app><name>a</name></app><app_version><app_name>a</app_name></app_version></client_state>";
    let prefs = "<global_preferences><work_buf_min_days>1</work_buf_min_days><cpu_scheduling_period_minutes>5</cpu_scheduling_period_minutes></global_preferences>";
    let over = "<global_preferences><work_buf_min_days>2</work_buf_min_days></global_preferences>";
    let config =
        "<cc_config><options><rec_half_life_days>-1</rec_half_life_days></options></cc_config>";
    let folder = folder(&[
        ("my_client_state.xml", state),
        ("my_global_prefs.xml", prefs),
        ("my_global_prefs_override.xml", over),
        ("my_cc_config.xml", config),
        ("global_prefs.xml", "not looked at"),
    ]);
    let path = folder.path().join("my_client_state.xml");
    let scenario = Scenario::read(&path, &Overrides::default());
    let scenario = scenario.unwrap_or_else(|told| panic!("{told}"));
    assert_eq!(scenario.name, "my");
    assert_eq!(scenario.profile.work_buffer_min, 172_800.0);
    assert_eq!(scenario.profile.time_slice, 300.0);
    assert_eq!(scenario.profile.rec_half_life, 864_000.0);
    let job = &scenario.schedulers[0].jobs[0];
    assert_eq!((job.work, job.deadline), (3600e11, Some(864_000.0)));
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
    let folder = folder(&[("x.toml", text)]);
    let path = folder.path().join("x.toml");
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
        let folder = folder(&[("x.toml", text)]);
        let path = folder.path().join("x.toml");
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
fn a_queued_result_of_an_app_without_a_version_is_a_mistake() {
    let state = "<client_state>\n<host_info><p_ncpus>1</p_ncpus><p_fpops>1e9</p_fpops></host_info>\n<project>\n<project_name>p</project_name>\n</project>\n<app><name>a</name></app>\n<workunit><name>w</name><app_name>a</app_name></workunit>\n<result><wu_name>w</wu_name></result>\n</client_state>\n";
    let folder = folder(&[("client_state.xml", state)]);
    let read = |include_empty_projects| {
        let overrides = Overrides {
            include_empty_projects,
            ..Overrides::default()
        };
        let path = folder.path().join("client_state.xml");
        Scenario::read(&path, &overrides).unwrap_err().to_string()
    };
    let told = read(true);
    let expected = "tasks of `a` are queued, and no version of it runs here";
    assert!(told.contains(expected), "{told}");
    assert!(read(false).contains("no scheduler has a job that could run on this worker"));
}

#[test]
fn a_state_file_of_too_many_parts_is_refused_at_the_first_of_them() {
    for (name, most) in [
        ("app", 1000),
        ("app_version", 1000),
        ("workunit", 10_000),
        ("result", 10_000),
    ] {
        let parts = format!("<{name}/>\n").repeat(most + 1);
        let state = format!("<client_state>\n<project>\n</project>\n{parts}</client_state>\n");
        let folder = folder(&[("client_state.xml", &state)]);
        let path = folder.path().join("client_state.xml");
        let told = Scenario::read(&path, &Overrides::default()).unwrap_err();
        let expected = format!(
            "client_state.xml:{}: {name}: more than {most} of them",
            most + 4
        );
        assert!(told.to_string().contains(&expected), "{told}");
    }
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
    fn no_text_breaks_a_reader(text in "[ -~\n]{0,200}", number in any::<f64>()) {
        let _ = parse(&text);
        let _ = parse(&SMALL.replace("\"10s\"", &number.to_string()));
        let mut problems = Problems::new(Path::new("x"));
        xml::parse(Path::new("x"), &text, &mut problems);
        let state = format!("<client_state><host_info><p_ncpus>{number}</p_ncpus></host_info><project/>{text}</client_state>");
        xml::parse(Path::new("x"), &state, &mut problems);
    }
}
