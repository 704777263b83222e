//! Tests the systemd units: their programs exist and fulfil the units' requirements, and systemd accepts each line.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use brasserie_common::time::parse_duration;
use integration_tests::e2e::{Process, Stage, WorkerSpec, children_of, wait_for, warn_not_run};
use nix::sys::signal::Signal;

const WORKER: &str = "worker/systemd/brasserie-worker@.service";
const SCHEDULER: &str = "scheduler/systemd/brasserie-scheduler.service";

fn unit(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    fs::read_to_string(root.join(path)).expect("a unit of this repository")
}

/// Returns the value of the directive.
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
    let example = "--scheduler=10.0.0.1:6789 --on-sigterm=drain --drain-timeout=10m --join-token=@/etc/brasserie/join.token";
    assert!(unit(WORKER).contains(example));
    let given = ["brasserie-worker"]
        .into_iter()
        .chain(flags.iter().copied())
        .chain(example.split(' '));
    let parsed = <brasserie_worker::config::Cli as clap::Parser>::try_parse_from(given);
    let options = parsed
        .expect("known flags")
        .into_options(Some(OsStr::new("brj1-")))
        .expect("good ones");

    // The manager waits until the last reports and the final heartbeat can have been sent.
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
        ("Restart", "on-failure"),
        ("RestartPreventExitStatus", "2 4"),
        ("OOMPolicy", "continue"),
        ("TasksMax", "infinity"),
        ("ProtectSystem", "strict"),
        ("NoNewPrivileges", "yes"),
    ] {
        assert_eq!(value(&worker, directive), wanted, "{directive}");
    }
    // The delegated control groups must stay writable.
    assert!(!worker.contains("\nProtectControlGroups="));
    let scheduler = unit(SCHEDULER);
    assert_eq!(value(&scheduler, "Type"), "notify");
    assert_eq!(value(&scheduler, "RestartPreventExitStatus"), "2 3");
}

#[test]
fn tasks_cannot_become_administrators_by_the_units() {
    let (worker, scheduler) = (unit(WORKER), unit(SCHEDULER));
    for directive in ["User", "Group"] {
        let (tasks, head) = (value(&worker, directive), value(&scheduler, directive));
        assert_eq!((&*tasks, &*head), ("brasserie-worker", "brasserie"));
    }
    let data_dir = value(&scheduler, "ExecStart");
    let data_dir = data_dir
        .split(' ')
        .find_map(|flag| flag.strip_prefix("--data-dir="));
    let hidden = format!("-{}", data_dir.expect("a data directory"));
    assert_eq!(value(&worker, "InaccessiblePaths"), hidden);
    // Soft limits: keys are in memory.
    for text in [&worker, &scheduler] {
        let cores = value(text, "LimitCORE");
        assert_eq!(cores.split(':').next(), Some("0"));
        assert!(!text.contains("--insecure-network"));
    }
    // The page makes both users.
    let page = unit("docs/src/operate/install.md");
    for user in ["brasserie", "brasserie-worker"] {
        let made = format!("/usr/sbin/nologin {user}\n");
        assert!(page.contains(&made), "{user}");
    }
}

/// A shell script that covers parts of `/proc`, like systemd for ProtectKernelTunables= and ProtectKernelLogs=.
const PROTECT: &str = "mount --make-rprivate / && mount --bind /proc/sys /proc/sys && mount -o remount,bind,ro /proc/sys && \
     mount --bind /dev/null /proc/kmsg && exec \"$@\"";

/// Converts names such as `CAP_SYS_ADMIN` to the format of `setpriv`.
fn capabilities(names: &str) -> String {
    let names = names.split(' ').filter(|name| !name.is_empty());
    let added = names.map(|name| format!(",+{}", name.trim_start_matches("CAP_").to_lowercase()));
    format!("-all{}", added.collect::<String>())
}

/// Starts a worker with the capabilities and the `/proc` of the unit; `None` if this test lacks the rights.
fn start_as_unit(
    stage: &Stage,
    user: &str,
    bounding: &str,
    ambient: &str,
    flag: &str,
) -> Option<Process> {
    if !nix::unistd::geteuid().is_root() {
        warn_not_run("the unit's settings", &"only root can imitate them");
        return None;
    }
    let program = stage.path("brasserie-worker");
    let worker = stage.worker_command(&WorkerSpec {
        shard: "one".to_owned(),
        scheduler: "127.0.0.1:1".to_owned(),
        data_dir: stage.path("data"),
        flags: vec![flag.to_owned()],
    });
    fs::copy(worker.get_program(), &program).expect("copied");
    fs::set_permissions(stage.path(""), fs::Permissions::from_mode(0o755)).expect("changed");
    fs::create_dir(stage.path("data")).expect("made");
    fs::set_permissions(stage.path("data"), fs::Permissions::from_mode(0o700)).expect("changed");
    let id: u32 = user.parse().expect("a number");
    std::os::unix::fs::chown(stage.path("data"), Some(id), Some(id)).expect("changed");
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", PROTECT, "sh", "setpriv"]);
    command.args([
        "--reuid",
        user,
        "--regid",
        user,
        "--clear-groups",
        "--no-new-privs",
    ]);
    let (bounding, ambient) = (capabilities(bounding), capabilities(ambient));
    command.args([
        "--bounding-set",
        &bounding,
        "--inh-caps",
        &ambient,
        "--ambient-caps",
        &ambient,
    ]);
    command.arg(&program).args(worker.get_args());
    Some(stage.start("worker", command))
}

/// Returns the capabilities and the `/proc/sys` of the worker below the keeper, according to the kernel.
fn worker_under(keeper: &Process) -> (String, String) {
    let below = wait_for("the worker", || children_of(keeper.id()).pop());
    let status = fs::read_to_string(format!("/proc/{below}/status")).expect("it runs");
    let mounts = fs::read_to_string(format!("/proc/{below}/mountinfo")).expect("it runs");
    let sys = mounts.lines().rfind(|line| line.contains(" /proc/sys "));
    (status, sys.unwrap_or_default().to_owned())
}

#[test]
fn a_worker_has_its_namespace_under_the_settings_of_the_unit_and_keeps_no_capability() {
    let worker = unit(WORKER);
    let stage = Stage::new();
    let (bounding, ambient) = (
        value(&worker, "CapabilityBoundingSet"),
        value(&worker, "AmbientCapabilities"),
    );
    let flag = "--contain=auto";
    let Some(mut keeper) = start_as_unit(&stage, "65534", &bounding, &ambient, flag) else {
        return;
    };
    keeper.wait_for_output("containment: pid-namespace");
    let (status, sys) = worker_under(&keeper);
    for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        assert!(
            status.contains(&format!("{set}:\t0000000000000000\n")),
            "{status}"
        );
    }
    assert!(sys.contains(" ro,"), "it may write to /proc/sys: {sys}");
    keeper.signal(Signal::SIGTERM);
    assert_eq!(keeper.wait().code(), Some(0));
}

#[test]
fn without_a_namespace_no_task_inherits_the_capability_of_the_unit() {
    let worker = unit(WORKER);
    let stage = Stage::new();
    let (bounding, ambient) = (
        value(&worker, "CapabilityBoundingSet"),
        value(&worker, "AmbientCapabilities"),
    );
    let flag = "--contain=process-groups";
    let Some(mut keeper) = start_as_unit(&stage, "65534", &bounding, &ambient, flag) else {
        return;
    };
    keeper.wait_for_output("containment: process-groups");
    let (status, _) = worker_under(&keeper);
    for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        assert!(
            status.contains(&format!("{set}:\t0000000000000000\n")),
            "{status}"
        );
    }
    keeper.signal(Signal::SIGTERM);
    assert_eq!(keeper.wait().code(), Some(0));
}

#[test]
fn a_worker_of_root_has_its_namespace_under_the_drop_in_of_the_unit() {
    let worker = unit(WORKER);
    let stage = Stage::new();
    let prefix = "#     CapabilityBoundingSet=";
    let more = worker.lines().find_map(|line| line.strip_prefix(prefix));
    // systemd joins the sets of a unit and its drop-in.
    let bounding = format!(
        "{} {}",
        value(&worker, "CapabilityBoundingSet"),
        more.expect("a drop-in")
    );
    let ambient = value(&worker, "AmbientCapabilities");
    let flag = "--contain=pid-namespace";
    let Some(mut keeper) = start_as_unit(&stage, "0", &bounding, &ambient, flag) else {
        return;
    };
    keeper.wait_for_output("containment: pid-namespace");
    let (status, sys) = worker_under(&keeper);
    let bits = status
        .lines()
        .find_map(|line| line.strip_prefix("CapBnd:\t"));
    let bits = bits.and_then(|bits| u64::from_str_radix(bits, 16).ok());
    assert_eq!(
        bits.expect("it is told") >> 21 & 1,
        0,
        "CAP_SYS_ADMIN: {status}"
    );
    assert!(sys.contains(" ro,"), "it may write to /proc/sys: {sys}");
    keeper.signal(Signal::SIGTERM);
    assert_eq!(keeper.wait().code(), Some(0));
}

/// The kernel refuses to mount `/proc` in a user namespace where parts of it are covered.
#[test]
fn a_namespace_that_cannot_be_had_is_an_error_or_a_reason() {
    for (flag, code, said) in [
        (
            "--contain=pid-namespace",
            Some(2),
            "/proc cannot be mounted",
        ),
        ("--contain=auto", None, "containment: process-groups"),
    ] {
        let stage = Stage::new();
        let Some(mut keeper) = start_as_unit(&stage, "65534", "", "", flag) else {
            return;
        };
        keeper.wait_for_output(said);
        if code.is_none() {
            keeper.wait_for_output("the worker takes calls");
            keeper.signal(Signal::SIGTERM);
        }
        assert_eq!(
            keeper.wait().code(),
            code.or(Some(0)),
            "{}",
            keeper.output()
        );
    }
}

/// Returns systemd's complaints about the text as a unit of this name; `None` if systemd is not installed.
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
    // systemd also reports other units of the machine.
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
    // Checks that systemd reports a wrong line.
    let wrong = unit(SCHEDULER).replace("KillMode=mixed", "KillMode=mixd");
    let said = verify("brasserie-scheduler.service", &wrong);
    assert!(said.is_some_and(|said| said.contains("mixd")));
}
