//! The systemd units: what they start exists, what they promise the programs keep, and systemd understands each line.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use brasserie_common::time::parse_duration;

const WORKER: &str = "worker/systemd/brasserie-worker@.service";
const SCHEDULER: &str = "scheduler/systemd/brasserie-scheduler.service";

fn unit(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    fs::read_to_string(root.join(path)).expect("a unit of this repository")
}

/// What the directive is set to.
fn value(unit: &str, directive: &str) -> String {
    let prefix = format!("{directive}=");
    let mut found = unit.lines().filter_map(|line| line.strip_prefix(&prefix));
    let value = found
        .next()
        .unwrap_or_else(|| panic!("{directive} is not set"));
    assert_eq!(found.next(), None, "{directive} is set twice");
    value.to_owned()
}

#[test]
fn each_group_of_directives_says_why() {
    for path in [WORKER, SCHEDULER] {
        let text = unit(path);
        let (mut section, mut explained) = ("", 0);
        for line in text.lines() {
            match line {
                _ if line.starts_with('[') => section = line,
                _ if line.starts_with('#') && !section.is_empty() => explained += 1,
                _ => {}
            }
        }
        assert!(explained >= 12, "{path} explains {explained} things");
    }
}

#[test]
fn the_programs_know_the_flags_that_they_are_given() {
    let worker = value(&unit(WORKER), "ExecStart");
    let words: Vec<&str> = worker.split(' ').collect();
    let [program, flags @ .., rest] = words.as_slice() else {
        panic!("{worker}");
    };
    assert_eq!(*program, "/usr/bin/brasserie-worker");
    assert_eq!(*rest, "$BRASSERIE_WORKER_FLAGS");
    let example = "--scheduler=10.0.0.1:6789 --on-sigterm=drain --drain-timeout=10m";
    assert!(unit(WORKER).contains(example));
    let given = ["brasserie-worker"]
        .into_iter()
        .chain(flags.iter().copied())
        .chain(example.split(' '));
    let parsed = <brasserie_worker::config::Cli as clap::Parser>::try_parse_from(given);
    let options = parsed
        .expect("known flags")
        .into_options()
        .expect("good ones");

    // The manager waits until the last reports and the goodbye can have left.
    let patience = value(&unit(WORKER), "TimeoutStopSec").replace("min", "m");
    let patience = parse_duration(&patience).expect("a duration");
    let drain = options.drain_timeout.expect("it is given");
    assert!(patience > drain + options.kill_wait + Duration::from_secs(4));
}

#[test]
fn a_worker_is_started_as_its_keeper_and_its_processes_want_it() {
    let worker = unit(WORKER);
    for (directive, wanted) in [
        ("Type", "notify"),
        ("NotifyAccess", "all"),
        ("Delegate", "yes"),
        ("KillMode", "mixed"),
        ("Restart", "always"),
        ("RestartPreventExitStatus", "2"),
        ("OOMPolicy", "continue"),
        ("TasksMax", "infinity"),
        ("ProtectSystem", "strict"),
        ("NoNewPrivileges", "yes"),
    ] {
        assert_eq!(value(&worker, directive), wanted, "{directive}");
    }
    // The delegated groups must stay writable.
    assert!(!worker.contains("\nProtectControlGroups="));
    let scheduler = unit(SCHEDULER);
    assert_eq!(value(&scheduler, "Type"), "notify");
    assert_eq!(value(&scheduler, "RestartPreventExitStatus"), "2 3");
}

/// What systemd says of the text as a unit of that name; `None`: there is no systemd here.
fn verify(name: &str, text: &str) -> Option<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let path: PathBuf = folder.path().join(name);
    // The programs are not installed here.
    let text = text
        .replace("/usr/bin/brasserie-worker", "/bin/true")
        .replace("/usr/bin/brasserie-scheduler", "/bin/true");
    fs::write(&path, text).expect("a file");
    let output = Command::new("systemd-analyze")
        .args(["verify", "--man=no"])
        .arg(&path)
        .output()
        .ok()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let code = output.status.code();
    // It speaks of other units of the machine, too.
    let ours: Vec<&str> = said
        .lines()
        .filter(|line| line.contains("brasserie"))
        .collect();
    Some(match (code, ours.is_empty()) {
        (Some(0), true) => String::new(),
        (_, _) => format!("{code:?}: {said}"),
    })
}

#[test]
fn systemd_understands_each_line() {
    let Some(said) = verify("brasserie-worker@one.service", &unit(WORKER)) else {
        println!("unproven: there is no systemd-analyze on this machine");
        return;
    };
    assert_eq!(said, "");
    let said = verify("brasserie-scheduler.service", &unit(SCHEDULER));
    assert_eq!(said.as_deref(), Some(""));
    // It would have said so.
    let wrong = unit(SCHEDULER).replace("KillMode=mixed", "KillMode=mixd");
    let said = verify("brasserie-scheduler.service", &wrong);
    assert!(said.is_some_and(|said| said.contains("mixd")));
}
