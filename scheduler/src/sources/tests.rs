//! Tests of the sources with real files and real scripts, including every kind of failure.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use brasserie_common_config::{LevelId, UnknownKeys, Zone, parse};
use brasserie_scheduler_core::SourceInForce;
use brasserie_scheduler_engine::NodeTable;

use super::config_file::Looking;
use super::script::Script;
use super::*;
use crate::inbox::{Lanes, lanes};

/// Writes a script by another process. A program that this process has open for writing while another test forks cannot be started.
fn write_script(path: &Path, text: &str) {
    let mut child = Command::new("/bin/sh")
        .args(["-c", "cat > \"$0\" && chmod 700 \"$0\""])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(text.as_bytes()).unwrap();
    drop(stdin);
    assert!(child.wait().unwrap().success());
}

fn config_text(sources: &str) -> String {
    format!(
        r#"{{"bistro_settings": {{"nodes": {{"levels": ["host", "db"], "node_sources": [{sources}]}}}}}}"#
    )
}

fn config(sources: &str) -> Arc<Config> {
    Arc::new(
        parse(&config_text(sources), Default::default())
            .unwrap()
            .config,
    )
}

const SCRIPT: &str =
    r#"{"source": "script", "prefs": {"parent_level": "host", "script": "list", "timeout": 5}}"#;
const HOSTS: &str = r#"{"source": "manual", "prefs": {"h1": [], "h2": [], "h3": []}}"#;

async fn build(sources: &str, folder: &Path) -> Result<NodeTable, String> {
    build_all(sources, folder).await.map(|built| built.table)
}

/// Builds the nodes of sources for a fixed moment in Berlin.
async fn build_all(sources: &str, folder: &Path) -> Result<BuiltNodes, String> {
    let instance = InstanceNode("top".into());
    let moment = BuildMoment {
        now: WallTime::from_secs(1_000_000_000),
        zone: Zone::named("Europe/Berlin").unwrap(),
        memory: Arc::default(),
    };
    build_nodes(config(sources), folder.to_owned(), instance, moment)
        .await
        .map_err(|error| error.to_string())
}

fn names(table: &NodeTable, level: u16) -> Vec<&str> {
    let rows = table.rows().filter(|&r| table.level(r) == LevelId(level));
    rows.map(|row| table.name(row)).collect()
}

#[tokio::test]
async fn sources_build_on_each_other_in_order() {
    let folder = tempfile::tempdir().unwrap();
    // The script runs in its folder with the parent as its only argument. Empty lines of its output are skipped.
    write_script(
        &folder.path().join("list"),
        "#!/bin/sh\npwd > where\n[ $# = 1 ] || exit 9\nprintf '%s-a\\n\\n%s-b' \"$1\" \"$1\"\n",
    );
    let range =
        r#"{"source": "range_label", "prefs": {"parent_level": "host", "start": 1, "end": 2}}"#;
    let table = build(&format!("{HOSTS}, {SCRIPT}, {range}"), folder.path()).await;
    let table = table.unwrap();
    assert_eq!(names(&table, 0), ["top"]);
    assert_eq!(names(&table, 1), ["h1", "h2", "h3"]);
    let scripted = ["h1-a", "h1-b", "h2-a", "h2-b", "h3-a", "h3-b"];
    let ranged = ["h1__1", "h1__2", "h2__1", "h2__2", "h3__1", "h3__2"];
    assert_eq!(names(&table, 2), [scripted, ranged].concat());
    let ran_in = fs::read_to_string(folder.path().join("where")).unwrap();
    let expected = fs::canonicalize(folder.path()).unwrap();
    assert_eq!(Path::new(ran_in.trim()), expected);
}

#[tokio::test]
async fn a_source_without_nodes_is_named() {
    let folder = tempfile::tempdir().unwrap();
    write_script(&folder.path().join("list"), "#!/bin/sh\n");
    let doubt = async |sources: &str| build_all(sources, folder.path()).await.unwrap().doubt;
    let nobody = SCRIPT.replace("host", "instance");
    let silent = "node source 2 gave no nodes: its script list printed no names";
    assert_eq!(
        doubt(&format!("{HOSTS}, {SCRIPT}")).await.as_deref(),
        Some(silent)
    );
    // A source without parents has no nodes because of an earlier source, so only that one is named.
    let first = "node source 1 gave no nodes: its script list printed no names";
    assert_eq!(
        doubt(&format!("{nobody}, {SCRIPT}")).await.as_deref(),
        Some(first)
    );
    assert_eq!(doubt(HOSTS).await, None);
    let empty = r#"{"source": "empty"}"#;
    assert_eq!(doubt(&format!("{empty}, {SCRIPT}")).await, None);
}

#[tokio::test]
async fn equal_names_under_two_parents_are_an_error_or_paths() {
    let folder = tempfile::tempdir().unwrap();
    // Each of 40 folders has 50 files of the same names.
    write_script(&folder.path().join("list"), "#!/bin/sh\nseq -f 'f%g' 50\n");
    let folders = r#"{"source": "range_label", "prefs": {"parent_level": "instance", "start": 1, "end": 40, "format": "d{i}"}}"#;
    let plain = build(&format!("{folders}, {SCRIPT}"), folder.path()).await;
    assert_eq!(
        plain.unwrap_err(),
        "node source 2: the name \"f1\" occurs twice at level `db`: under \"d1\" and under \"d2\"; set \"names\": \"path\" on the sources, which puts the parent's name and a slash before each name, or \"shared\" if it is one node with several parents"
    );
    let named = |naming: &str| {
        let script = SCRIPT.replace("\"prefs\"", &format!("\"names\": \"{naming}\", \"prefs\""));
        format!("{folders}, {script}")
    };
    let paths = build(&named("path"), folder.path()).await.unwrap();
    let paths = names(&paths, 2);
    let distinct: std::collections::BTreeSet<&str> = paths.iter().copied().collect();
    assert_eq!((paths.len(), distinct.len()), (2000, 2000));
    assert_eq!([paths[0], paths[1999]], ["d1/f1", "d40/f50"]);
    let shared = build(&named("shared"), folder.path()).await.unwrap();
    assert_eq!(names(&shared, 2).len(), 2000, "replicas of 50 nodes");
    // Sources of times have the same check.
    let times = TIMES.replace(
        "\"parent_level\": \"host\"",
        "\"parent_level\": \"host\", \"format\": \"{time}\"",
    );
    // The config shows the nodes of a manual source, but not those of a script. This clash appears only at the refresh.
    write_script(&folder.path().join("hosts"), "#!/bin/sh\nseq -f 'h%g' 3\n");
    let hosts = r#"{"source": "script", "prefs": {"parent_level": "instance", "script": "hosts"}}"#;
    let error = build(&format!("{hosts}, {times}"), folder.path())
        .await
        .unwrap_err();
    assert!(
        error.starts_with("node source 2: the name \"999997200\" occurs twice at level `db`: under \"h1\" and under \"h2\""),
        "{error}"
    );
    let times = times.replace("\"prefs\"", "\"names\": \"path\", \"prefs\"");
    let table = build(&format!("{HOSTS}, {times}"), folder.path())
        .await
        .unwrap();
    assert_eq!(
        names(&table, 2),
        ["h1/999997200", "h2/999997200", "h3/999997200"]
    );
}

const TIMES: &str = r#"{"source": "add_time", "prefs": {"parent_level": "host", "schedule": [
    {"cron": {"minute": 0, "hour": 3, "dst_fixes": ["skip", "repeat_use_both"]}, "lifetime": "3h", "tags": ["t"]}]}}"#;

#[tokio::test]
async fn times_are_nodes_until_the_clock_changes_them() {
    let folder = tempfile::tempdir().unwrap();
    // The moment is 03:46:40 in Berlin's summer time.
    let built = build_all(&format!("{HOSTS}, {TIMES}"), folder.path())
        .await
        .unwrap();
    let at_three = 1_000_000_000 - 46 * 60 - 40;
    let expected = ["h1", "h2", "h3"].map(|host| format!("{host}:{at_three}"));
    assert_eq!(names(&built.table, 2), expected);
    let last = built.table.rows().last().unwrap();
    assert_eq!(built.table.tags(last), &["t".to_owned()].into());
    assert_eq!(built.until, Some(WallTime::from_secs(at_three + 3 * 3600)));
    // The earliest change of several sources counts.
    let sooner = r#"{"source": "add_time", "prefs": {"parent_level": "host", "schedule": [{"cron": {"epoch": 1000000005}, "lifetime": 1}]}}"#;
    let built = build_all(&format!("{HOSTS}, {TIMES}, {sooner}"), folder.path()).await;
    assert_eq!(
        built.unwrap().until,
        Some(WallTime::from_secs(1_000_000_005))
    );
    assert_eq!(build_all(HOSTS, folder.path()).await.unwrap().until, None);
}

#[tokio::test]
async fn what_was_missed_is_caught_up_with() {
    let folder = tempfile::tempdir().unwrap();
    let instance = InstanceNode("top".into());
    let config = config(&format!("{HOSTS}, {TIMES}"));
    let mut memory = Arc::default();
    let mut found = Vec::new();
    // Ten hours after the first refresh, the lifetime is over, but no refresh has seen the time of the night.
    for now in [1_000_000_000 - 3 * 3600, 1_000_000_000 + 10 * 3600] {
        let moment = BuildMoment {
            now: WallTime::from_secs(now),
            zone: Zone::named("Europe/Berlin").unwrap(),
            memory,
        };
        let folder = folder.path().to_owned();
        let built = build_nodes(Arc::clone(&config), folder, instance.clone(), moment).await;
        let built = built.unwrap();
        found.push(names(&built.table, 2).len());
        memory = Arc::new(built.table.times().memory.clone());
    }
    assert_eq!(found, [0, 3]);
}

#[tokio::test]
async fn too_many_times_fail_the_refresh() {
    let folder = tempfile::tempdir().unwrap();
    let long = TIMES.replace(
        "\"minute\": 0, \"hour\": 3",
        "\"minute\": {}, \"year\": {\"start\": 2001, \"end\": 2001}",
    );
    let mut config = Arc::unwrap_or_clone(config(&format!("{HOSTS}, {long}")));
    for source in &mut config.node_sources {
        if let NodeSource::AddTime(source) = source {
            source.schedule[0].lifetime = Duration::from_secs(100 * 86_400);
        }
    }
    let moment = BuildMoment {
        now: WallTime::from_secs(1_000_000_000),
        zone: Zone::utc(),
        memory: Arc::default(),
    };
    let instance = InstanceNode("top".into());
    let built = build_nodes(Arc::new(config), folder.path().to_owned(), instance, moment).await;
    assert_eq!(
        built.map(|_| ()).unwrap_err().to_string(),
        "node source 2: item 1 of the schedule has more than 100000 times within its lifetime; shorten `lifetime`, or select fewer times"
    );
}

/// Returns this configuration as one that the core has put in force.
fn accepted(config: &Arc<Config>) -> Option<InForce> {
    Some(InForce::from(SourceInForce { config, path: None }))
}

/// The next periodic refresh is an hour away, and a schedule time begins or ends each second.
#[tokio::test]
async fn the_clock_refreshes_the_nodes() {
    let folder = tempfile::tempdir().unwrap();
    let (inbox, mut lanes) = lanes();
    let each_second = r#"{"source": "add_time", "prefs": {"parent_level": "instance", "schedule": [{"cron": {"epoch": {}}, "lifetime": 2}]}}"#;
    let sources = Sources {
        inbox,
        periods: Periods {
            nodes_update: Duration::from_secs(3600),
            ..Periods::default()
        },
        instance: InstanceNode("top".into()),
        in_force: watch::channel(accepted(&config(each_second))).1,
        folder: folder.path().to_owned(),
        file: None,
        memory: SharedMemory::default(),
    };
    let stop = CancellationToken::new();
    let task = tokio::spawn(sources.run(stop.clone()));
    let mut seen = Vec::new();
    for _ in 0..2 {
        let Event::NodesLoaded { nodes, .. } = next(&mut lanes).await else {
            panic!("nodes of this moment");
        };
        seen.push(names(&nodes, 1).join(" "));
    }
    assert_ne!(seen[0], seen[1]);
    stop.cancel();
    task.await.unwrap();
}

#[tokio::test]
async fn a_script_that_fails_is_named_with_its_node_and_its_last_words() {
    let folder = tempfile::tempdir().unwrap();
    let sources = format!("{HOSTS}, {SCRIPT}");
    let error = build(&sources, folder.path()).await.unwrap_err();
    assert!(
        error.contains("node source 2") && error.contains("cannot be started"),
        "{error}"
    );

    let script = folder.path().join("list");
    let text = "#!/bin/sh\n[ \"$1\" = h2 ] && { echo no such table >&2; exit 3; }\necho \"$1-x\"\n";
    write_script(&script, text);
    let error = build(&sources, folder.path()).await.unwrap_err();
    let parts = ["/list for node `h2`", "exit status: 3", "no such table"];
    assert!(parts.iter().all(|part| error.contains(part)), "{error}");
}

#[tokio::test]
async fn names_that_are_no_names_fail_the_refresh() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("list");
    let sources = format!("{HOSTS}, {SCRIPT}");
    for (program, expected) in [
        (
            "printf 'good\\nb\\377d\\n'",
            "line 2 of its output is not UTF-8",
        ),
        ("printf 'a\\0b\\n'", "NUL"),
        ("head -c 2000 /dev/zero | tr '\\0' x", "2000 bytes long"),
    ] {
        write_script(&script, &format!("#!/bin/sh\n{program}\n"));
        let error = build(&sources, folder.path()).await.unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}

/// Returns whether the process exists and is not a zombie.
fn is_running(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|text| !text.rsplit(") ").next().unwrap_or("Z").starts_with('Z'))
}

#[tokio::test]
async fn a_script_that_hangs_is_killed_with_its_descendants() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("list");
    // The script itself ends, but its child keeps the output open.
    write_script(
        &program,
        "#!/bin/sh\nsleep 1000 &\necho $! > child\necho waiting >&2\n",
    );
    let script = Script {
        program,
        folder: folder.path().to_owned(),
        timeout: Duration::from_millis(500),
    };
    let error = script
        .children_of("h".to_owned())
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("within 500ms") && error.contains(": waiting"),
        "{error}"
    );
    let child = fs::read_to_string(folder.path().join("child")).unwrap();
    // The kernel ends the child some time after the kill. The test waits for it.
    while is_running(child.trim()) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_script_that_never_stops_printing_is_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("list");
    write_script(&program, "#!/bin/sh\nexec yes\n");
    let script = Script {
        program,
        folder: folder.path().to_owned(),
        timeout: Duration::from_secs(60),
    };
    let error = script
        .children_of("h".to_owned())
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("more than 64 MiB"), "{error}");
}

#[tokio::test]
async fn commands_next_to_the_config_file_are_found_from_everywhere() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.json");
    let job = "{\"bistro_job->j\": {\"command\": [\"./x.sh\"]},";
    fs::write(&path, config_text("").replacen('{', job, 1)).unwrap();
    let mut file = ConfigFile::new(&path).unwrap();
    let config = file.check().await.unwrap().unwrap().config;
    let program = &config.job("j").unwrap().command[0];
    assert_eq!(Path::new(program), folder.path().join("x.sh"));
}

/// Returns the result of the second check of a change. The first check must not accept the change.
async fn change_of(file: &mut ConfigFile) -> Option<Result<LoadedConfig, String>> {
    assert_eq!(file.check().await, None, "seen once");
    file.check().await
}

#[tokio::test]
async fn a_config_file_is_read_again_when_it_has_changed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.json");
    let mut file = ConfigFile::new(&path).unwrap();
    let error = file.check().await.unwrap().unwrap_err();
    assert!(error.contains("c.json: cannot read it"), "{error}");
    assert_eq!(change_of(&mut file).await, None, "told once");

    fs::write(&path, config_text("")).unwrap();
    let loaded = change_of(&mut file).await.unwrap().unwrap();
    assert_eq!(loaded.config.levels, ["instance", "host", "db", "worker"]);
    assert_eq!(change_of(&mut file).await, None);

    // Editors replace files like this.
    replace(&path, &config_text("").replace("host", "\\q"));
    let error = change_of(&mut file).await.unwrap().unwrap_err();
    assert!(error.contains("c.json:1:"), "{error}");
    assert_eq!(change_of(&mut file).await, None);

    fs::write(
        &path,
        config_text("").replacen('{', "{\"bistro_job->j\": {\"command\": 7},", 1),
    )
    .unwrap();
    let loaded = change_of(&mut file).await.unwrap().unwrap();
    // The job's problem comes before the warning about missing nodes.
    let warning = &loaded.warnings[0];
    assert!(
        warning.contains("c.json:1:31: bistro_job->j.command"),
        "{warning}"
    );
    assert!(!loaded.config.job("j").unwrap().can_run());

    fs::remove_file(&path).unwrap();
    let error = change_of(&mut file).await.unwrap().unwrap_err();
    assert!(error.contains("cannot read it"), "{error}");
}

#[tokio::test]
async fn every_way_of_changing_a_file_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.json");
    let levels = |text: &str| config_text("").replace("host", text);
    fs::write(&path, levels("aaaa")).unwrap();
    let mut file = ConfigFile::new(&path).unwrap();
    file.check().await.unwrap().unwrap();
    assert_eq!(change_of(&mut file).await, None);

    // The file is rewritten in place with the same length and the old modification time.
    let old = fs::metadata(&path).unwrap().modified().unwrap();
    fs::write(&path, levels("bbbb")).unwrap();
    let rewritten = fs::File::options().write(true).open(&path).unwrap();
    rewritten.set_modified(old).unwrap();
    let loaded = change_of(&mut file).await.unwrap().unwrap();
    assert_eq!(loaded.config.levels[1], "bbbb");

    // The path becomes a link, which then changes its target.
    let [one, two] = ["one", "two"].map(|name| folder.path().join(name));
    fs::write(&one, levels("cccc")).unwrap();
    fs::write(&two, levels("dddd")).unwrap();
    let point_to = |target: &Path| {
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(target, &link).unwrap();
        fs::rename(&link, &path).unwrap();
    };
    for (target, level) in [(&one, "cccc"), (&two, "dddd")] {
        point_to(target);
        let loaded = change_of(&mut file).await.unwrap().unwrap();
        assert_eq!(loaded.config.levels[1], level);
    }

    // Equal bytes are no change, also in another file.
    fs::write(&two, levels("dddd")).unwrap();
    assert_eq!(change_of(&mut file).await, None);
    replace(&path, &levels("dddd"));
    assert_eq!(change_of(&mut file).await, None);
}

#[tokio::test]
async fn a_half_written_file_is_not_believed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.json");
    fs::write(&path, config_text("")).unwrap();
    let mut file = ConfigFile::new(&path).unwrap();
    file.check().await.unwrap().unwrap();
    assert_eq!(change_of(&mut file).await, None);

    // Each part is a valid configuration by itself.
    let mut written = fs::File::create(&path).unwrap();
    let text = config_text(HOSTS).replace("host", "rack");
    for part in [text.as_bytes(), b" ", b"\n"] {
        written.write_all(part).unwrap();
        assert_eq!(file.check().await, None, "half of it");
    }
    let loaded = file.check().await.unwrap().unwrap();
    assert_eq!(loaded.config.levels[1], "rack");

    // A file that keeps changing is reported once, and accepted when it settles.
    let mut told = Vec::new();
    for _ in 0..100 {
        written.write_all(b" ").unwrap();
        told.extend(file.check().await);
    }
    assert_eq!(told.len(), 1, "{told:?}");
    let error = told.remove(0).unwrap_err();
    assert!(error.contains("changes all the time"), "{error}");
    let loaded = file.check().await.unwrap().unwrap();
    assert_eq!(loaded.config.levels[1], "rack");
}

#[tokio::test]
async fn unknown_keys_refuse_a_file_if_asked_to() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.yaml");
    let nodes = "bistro_settings:\n  nodes: {levels: [], node_source: empty}\n";
    let job = "bistro_job->j:\n  command: [x]\n";
    fs::write(&path, format!("{nodes}{job}  prio: 5\n")).unwrap();
    let mut file = ConfigFile::new(&path).unwrap();
    let loaded = file.check().await.unwrap().unwrap();
    assert!(loaded.config.job("j").unwrap().can_run());
    let warning = "c.yaml:5:3: bistro_job->j.prio: unknown key";
    assert!(
        loaded.warnings[0].contains(warning),
        "{:?}",
        loaded.warnings
    );

    let strict = |path| {
        ConfigFile::new(path)
            .unwrap()
            .with_unknown_keys(UnknownKeys::Refuse)
    };
    let error = strict(&path).check().await.unwrap().unwrap_err();
    assert!(error.contains(warning), "{error}");
    fs::write(&path, format!("{nodes}{job}")).unwrap();
    assert!(strict(&path).check().await.unwrap().is_ok());
}

/// Replaces the file atomically, so that no reader sees half of it.
fn replace(path: &Path, text: &str) {
    let other = path.with_extension("new");
    fs::write(&other, text).unwrap();
    fs::rename(&other, path).unwrap();
}

async fn next(lanes: &mut Lanes) -> Event {
    let input = tokio::time::timeout(Duration::from_secs(60), lanes.health.recv()).await;
    input.unwrap().unwrap().event
}

#[tokio::test]
async fn failures_keep_what_was_good_and_are_retried() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.json");
    fs::write(&path, config_text(&format!("{HOSTS}, {SCRIPT}"))).unwrap();
    let mut file = ConfigFile::new(&path).unwrap();
    let config = file.check().await.unwrap().unwrap().config;
    let (inbox, mut lanes) = lanes();
    let (tell, in_force) = watch::channel(accepted(&config));
    let short = Duration::from_millis(20);
    let sources = Sources {
        inbox,
        periods: Periods {
            config_update: short,
            nodes_update: Duration::from_secs(3600),
            nodes_retry: short,
        },
        instance: InstanceNode("top".into()),
        in_force,
        folder: file.folder().to_owned(),
        file: Some(file),
        memory: SharedMemory::default(),
    };
    let stop = CancellationToken::new();
    let task = tokio::spawn(sources.run(stop.clone()));
    assert!(matches!(next(&mut lanes).await, Event::NodesFailed { .. }));
    write_script(&folder.path().join("list"), "#!/bin/sh\necho \"$1-x\"\n");
    let nodes = loop {
        match next(&mut lanes).await {
            Event::NodesLoaded { nodes, .. } => break nodes,
            Event::NodesFailed { .. } => {}
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(names(&nodes, 2), ["h1-x", "h2-x", "h3-x"]);
    // The next periodic refresh is an hour away, but a new configuration is refreshed at once.
    replace(&path, "not json");
    let failed = next(&mut lanes).await;
    assert!(matches!(failed, Event::ConfigFailed { .. }), "{failed:?}");
    replace(&path, &config_text(HOSTS));
    let Event::ConfigLoaded { config: loaded, .. } = next(&mut lanes).await else {
        panic!("a new configuration");
    };
    tell.send_replace(accepted(&loaded));
    let Event::NodesLoaded { nodes, config } = next(&mut lanes).await else {
        panic!("nodes of the new configuration");
    };
    assert!(
        Arc::ptr_eq(&config, &loaded),
        "whose nodes they are is told"
    );
    assert_eq!(names(&nodes, 2), [""; 0]);
    stop.cancel();
    task.await.unwrap();
}

#[tokio::test]
async fn scripts_run_again_only_for_other_sources() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.json");
    let script = folder.path().join("list");
    write_script(&script, "#!/bin/sh\necho run >> runs\necho \"$1-x\"\n");
    let host = r#"{"source": "manual", "prefs": {"h1": []}}"#;
    let text = config_text(&format!("{host}, {SCRIPT}"));
    fs::write(&path, &text).unwrap();
    let mut file = ConfigFile::new(&path).unwrap();
    let config = file.check().await.unwrap().unwrap().config;
    let (inbox, mut lanes) = lanes();
    let (tell, in_force) = watch::channel(accepted(&config));
    let hour = Duration::from_secs(3600);
    let sources = Sources {
        inbox,
        periods: Periods {
            config_update: Duration::from_millis(20),
            nodes_update: hour,
            nodes_retry: hour,
        },
        instance: InstanceNode("top".into()),
        in_force,
        folder: file.folder().to_owned(),
        file: Some(file),
        memory: SharedMemory::default(),
    };
    let stop = CancellationToken::new();
    let task = tokio::spawn(sources.run(stop.clone()));
    assert!(matches!(next(&mut lanes).await, Event::NodesLoaded { .. }));
    let job = "{\"bistro_job->j\": {\"owner\": \"o\"},";
    let next_config = async |lanes: &mut Lanes| {
        let Event::ConfigLoaded { config, .. } = next(lanes).await else {
            panic!("a new configuration");
        };
        config
    };
    replace(&path, &text.replacen('{', job, 1));
    tell.send_replace(accepted(&next_config(&mut lanes).await));
    replace(&path, &text.replace("h1", "h2"));
    tell.send_replace(accepted(&next_config(&mut lanes).await));
    assert!(matches!(next(&mut lanes).await, Event::NodesLoaded { .. }));
    let runs = fs::read_to_string(folder.path().join("runs")).unwrap();
    assert_eq!(runs, "run\nrun\n");
    stop.cancel();
    task.await.unwrap();
}

/// A refused file's name clash may last for days. Meanwhile the schedules in force must continue, and no time of the refused file may count
/// as given.
#[tokio::test]
async fn a_refused_file_leaves_the_sources_and_the_times_of_the_one_in_force() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.json");
    let each_second = |tag: &str, epoch: &str| {
        format!(
            r#"{{"source": "add_time", "prefs": {{"parent_level": "instance", "schedule": [
                {{"cron": {{"epoch": {epoch}}}, "lifetime": 2, "tags": ["{tag}"]}}]}}}}"#
        )
    };
    fs::write(&path, config_text(&each_second("old", "{}"))).unwrap();
    let mut file = ConfigFile::new(&path).unwrap();
    let config = file.check().await.unwrap().unwrap().config;
    let (inbox, mut lanes) = lanes();
    let (tell, in_force) = watch::channel(accepted(&config));
    let memory = SharedMemory::default();
    let sources = Sources {
        inbox,
        periods: Periods {
            config_update: Duration::from_millis(20),
            nodes_update: Duration::from_secs(3600),
            nodes_retry: Duration::from_secs(3600),
        },
        instance: InstanceNode("top".into()),
        in_force,
        folder: folder.path().to_owned(),
        file: Some(file),
        memory: memory.clone(),
    };
    let stop = CancellationToken::new();
    let task = tokio::spawn(sources.run(stop.clone()));
    let of_tag = |nodes: &NodeTable, tag: &str| {
        let tag = tag.to_owned();
        let mut times = nodes.rows().skip(1);
        nodes.len() > 1 && times.all(|row| nodes.tags(row).contains(&tag))
    };
    let Event::NodesLoaded { nodes, .. } = next(&mut lanes).await else {
        panic!("nodes of the first");
    };
    assert!(of_tag(&nodes, "old"));
    replace(&path, &config_text(&each_second("new", r#"{"start": 7}"#)));
    let refused = loop {
        match next(&mut lanes).await {
            Event::ConfigLoaded { config, .. } => break config,
            Event::NodesLoaded { .. } => {}
            other => panic!("{other:?}"),
        }
    };
    // The new configuration is not reported as in force.
    for _ in 0..3 {
        let Event::NodesLoaded { nodes, config: of } = next(&mut lanes).await else {
            panic!("nodes at the next second");
        };
        assert!(of_tag(&nodes, "old") && Arc::ptr_eq(&of, &config));
    }
    let items = |memory: &SharedMemory| memory.get().0.len();
    assert_eq!(
        items(&memory),
        1,
        "only times that were given count as given"
    );
    tell.send_replace(accepted(&refused));
    loop {
        let Event::NodesLoaded { nodes, config: of } = next(&mut lanes).await else {
            panic!("nodes of either");
        };
        if Arc::ptr_eq(&of, &refused) {
            assert!(of_tag(&nodes, "new"));
            break;
        }
    }
    stop.cancel();
    task.await.unwrap();
}

#[tokio::test]
async fn a_file_system_that_does_not_answer_holds_up_neither_nodes_nor_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.json");
    fs::write(&path, config_text(HOSTS)).unwrap();
    let mut file = ConfigFile::new(&path).unwrap();
    let config = file.check().await.unwrap().unwrap().config;
    file.looking = Some(Looking::at(tokio::spawn(std::future::pending())));
    let (inbox, mut lanes) = lanes();
    let (_tell, in_force) = watch::channel(accepted(&config));
    let sources = Sources {
        inbox,
        periods: Periods::default(),
        instance: InstanceNode("top".into()),
        in_force,
        folder: file.folder().to_owned(),
        file: Some(file),
        memory: SharedMemory::default(),
    };
    let stop = CancellationToken::new();
    let task = tokio::spawn(sources.run(stop.clone()));
    assert!(matches!(next(&mut lanes).await, Event::NodesLoaded { .. }));
    stop.cancel();
    task.await.unwrap();
}
