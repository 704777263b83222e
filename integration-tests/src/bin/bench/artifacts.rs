//! Measures transfers of artifacts between real workers: one large artifact, a folder of many small files, many small artifacts, and an
//! artifact that twenty workers want at once. The baselines move the same bytes through one socket with `socat`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use integration_tests::e2e::{Process, free_port, wait_within};
use serde_json::{Value, json};

use crate::cluster::{BenchCluster, PATIENCE, stage};
use crate::figures::{BenchReport, Figure, Samples};
use crate::marks::FirstWrites;

/// Promised parts of the baselines' speeds.
const LEAST_OF_COPY: f64 = 0.8;
const LEAST_OF_TAR: f64 = 0.5;
/// Bytes of each small file.
const SMALL: usize = 4096;
/// The outputs of one task: the most that a job may have.
const OUTPUTS: usize = 64;
/// Bytes of the artifact that many workers want, and their number.
const HOT_BYTES: usize = 64 << 20;
const HOT_WORKERS: usize = 20;
/// Promised: the origin serves fewer transfers.
const HOT_LIMIT: f64 = 18.0;
/// Prints as many random bytes as the first argument of the shell says.
const FILL: &str = "head -c \"$1\" /dev/urandom";
/// One side of a socket. The buffer is larger than the usual one, with which `socat` is slower.
const SOCAT: &str = "socat -u -b 262144";

/// A part of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TransferKind {
    /// One large artifact
    Large,
    /// A folder of small files
    Folder,
    /// Small files, each an artifact of its own
    Single,
    /// An artifact that many workers want
    Hot,
}

/// The times of one transfer, in seconds.
struct Transfer {
    /// The time of the requests, until the copies are durable.
    copied: f64,
    /// The time from the first bytes to the start of the task, which has copies of its own.
    started: f64,
}

/// The times of transfers, each with that of its baseline.
type TransferPairs = Samples<(Transfer, f64)>;

/// Measures pairs of transfers and baselines. No parts: all of them.
pub fn measure(mib: usize, files: usize, pairs: usize, parts: &[TransferKind]) -> BenchReport {
    let is_wanted = |part| parts.is_empty() || parts.contains(&part);
    let mut lines = Vec::new();
    if is_wanted(TransferKind::Large) {
        let samples = take("large", pairs, &|| large(mib), &|| copy_through_socket(mib));
        let of = |(ours, _): &(Transfer, f64)| ours.copied;
        lines.extend(figures(
            &samples,
            &format!("{mib} MiB, durable"),
            of,
            Some(LEAST_OF_COPY),
        ));
        let of = |(ours, _): &(Transfer, f64)| ours.started;
        lines.extend(figures(
            &samples,
            &format!("{mib} MiB, until the task starts"),
            of,
            None,
        ));
    }
    let of = |(ours, _): &(Transfer, f64)| ours.started;
    if is_wanted(TransferKind::Folder) {
        let samples = take("folder", pairs, &|| folder(files), &|| {
            tar_through_socket(files, Sync::No)
        });
        let what = format!("a folder of {files} files, until the task starts");
        lines.extend(figures(&samples, &what, of, Some(LEAST_OF_TAR)));
    }
    if is_wanted(TransferKind::Single) {
        let samples = take("single", pairs, &|| single(files), &|| {
            tar_through_socket(files, Sync::Yes)
        });
        let what = format!("{files} artifacts, until the task starts");
        lines.extend(figures(&samples, &what, of, Some(LEAST_OF_TAR)));
    }
    if is_wanted(TransferKind::Hot) {
        lines.extend(hot(pairs));
    }
    BenchReport::new("artifacts", "socat", lines)
}

/// Returns the time of a transfer beside its baseline, and its speed as a part of the baseline's.
fn figures(
    samples: &TransferPairs,
    what: &str,
    of: impl Fn(&(Transfer, f64)) -> f64,
    least: Option<f64>,
) -> [Figure; 2] {
    let time = samples.line(what, "s", &of);
    let ratio = samples.line("its part of the baseline's speed", "", |pair| {
        pair.1 / of(pair)
    });
    let ratio = ratio.more_is_better();
    [
        time.beside(samples.median(|(_, bare)| *bare)),
        match least {
            Some(least) => ratio.at_least(least),
            None => ratio,
        },
    ]
}

/// Measures both sides, the second one first in every other pair.
fn take(
    part: &str,
    pairs: usize,
    ours: &dyn Fn() -> Transfer,
    bare: &dyn Fn() -> f64,
) -> TransferPairs {
    Samples::take(&format!("artifacts, {part}"), pairs, |pair| {
        pair.begin("workers and socat");
        let (ours, bare) = if pair.number.is_multiple_of(2) {
            let ours = ours();
            (ours, bare())
        } else {
            let bare = bare();
            (ours(), bare)
        };
        eprintln!(
            "copied {:.3} s, started {:.3} s, socat {bare:.3} s",
            ours.copied, ours.started
        );
        (ours, bare)
    })
}
fn large(mib: usize) -> Transfer {
    let bytes = mib << 20;
    transfer(
        1,
        &format!("set {bytes}; {FILL} > large"),
        &["large".to_owned()],
    )
}

fn folder(files: usize) -> Transfer {
    let script = format!(
        "set {}; mkdir d; {FILL} | split -b {SMALL} -a 5 - d/f",
        files * SMALL
    );
    transfer(1, &script, &["d/".to_owned()])
}

fn single(files: usize) -> Transfer {
    let script = format!(
        "set {}; {FILL} | split -b {SMALL} -d -a 2 - f",
        OUTPUTS * SMALL
    );
    let outputs: Vec<String> = (0..OUTPUTS).map(|number| format!("f{number:02}")).collect();
    transfer(files.div_ceil(OUTPUTS), &script, &outputs)
}

/// Has one worker make outputs with `producers` tasks, and another one use them.
fn transfer(producers: usize, script: &str, outputs: &[String]) -> Transfer {
    let cluster = Transferring::start(producers, 1, script, outputs);
    let worker = &cluster.sinks[0];
    let incoming = cluster.store(0).join("incoming");
    let began = cluster.consume(|| has_entries(&incoming).then(Instant::now));
    let started = cluster.marks.next_within(PATIENCE).duration_since(began);
    let times = wait_within(PATIENCE, "the transfer to be logged", || {
        let times = transfers(worker)
            .map(|(_, seconds)| seconds)
            .collect::<Vec<_>>();
        (!times.is_empty()).then_some(times)
    });
    Transfer {
        copied: times.iter().sum(),
        started: started.as_secs_f64(),
    }
}

fn has_entries(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some())
}

/// Returns the complete transfers that a worker has logged: the peer and the seconds of each.
fn transfers(worker: &Process) -> impl Iterator<Item = (String, f64)> {
    let log = worker.output();
    let lines: Vec<Value> = log
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    lines.into_iter().filter_map(|line| {
        let message = line["message"].as_str()?;
        let is_complete = message.starts_with("a transfer of") && message.ends_with("is complete");
        let (peer, seconds) = (line["peer"].as_str()?, line["seconds"].as_f64()?);
        is_complete.then(|| (peer.to_owned(), seconds))
    })
}

/// A cluster in which one worker has made artifacts, and others are about to get them.
struct Transferring {
    // Declared first, because fields are dropped in this order.
    sinks: Vec<Process>,
    _source: Process,
    source_address: String,
    marks: FirstWrites,
    config: Value,
    cluster: BenchCluster,
}

impl Transferring {
    /// Starts the programs, and waits until the tasks of `produce` are done and the machine is calm.
    fn start(producers: usize, sinks: usize, script: &str, outputs: &[String]) -> Self {
        let stage = stage();
        let marks = FirstWrites::new(&stage);
        let config = config(producers, script, outputs, &marks, sinks);
        let spec = crate::cluster::default_spec(&stage, &config);
        let cluster = BenchCluster::start_on(stage, spec);
        let source_address = format!("127.0.0.1:{}", free_port());
        let source = start_worker(&cluster, "source", sinks, &source_address);
        let start = |number| {
            let address = format!("127.0.0.1:{}", free_port());
            start_worker(&cluster, &format!("sink{number}"), sinks, &address)
        };
        let sinks = (0..sinks).map(start).collect();
        let expected = i64::try_from(producers).expect("a number of tasks");
        cluster
            .client
            .wait_until_within(PATIENCE, "the outputs", |status| {
                let mut jobs = status.jobs.iter().flatten();
                jobs.any(|job| job.name.as_deref() == Some("produce") && job.done == Some(expected))
            });
        nix::unistd::sync();
        Transferring {
            sinks,
            _source: source,
            source_address,
            marks,
            config,
            cluster,
        }
    }

    /// Lets the tasks of `consume` start. Returns the first result of a check that runs all the time from then on.
    fn consume<T>(&self, check: impl Fn() -> Option<T>) -> T {
        let mut config = self.config.clone();
        config["bistro_job->consume"]["enabled"] = json!(true);
        self.cluster.replace_config(&config.to_string());
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(result) = check() {
                return result;
            }
            assert!(Instant::now() < until, "no transfer begins");
            std::thread::sleep(Duration::from_micros(500));
        }
    }

    fn store(&self, sink: usize) -> PathBuf {
        self.cluster
            .stage
            .path(&format!("worker-sink{sink}/artifacts"))
    }
}

/// Starts a worker that logs its transfers. One of many serves one transfer at a time, and has a host name of its own, since a worker
/// serves two of its own host then.
fn start_worker(cluster: &BenchCluster, name: &str, sinks: usize, address: &str) -> Process {
    let stage = &cluster.stage;
    let mut spec = stage.worker_spec(name, &cluster.spec);
    spec.flags.extend([
        "--log-format=json".to_owned(),
        format!("--listen={address}"),
    ]);
    if sinks > 1 {
        spec.flags.push("--artifact-transfers=1".to_owned());
    }
    let worker = stage.worker_command(&spec);
    let file = PathBuf::from(worker.get_program());
    let mut command = worker;
    if sinks > 1 {
        let mut elsewhere = Command::new("unshare");
        let script = format!("hostname {name}; exec \"$@\"");
        elsewhere.args(["--uts", "/bin/sh", "-c", &script, "sh"]);
        elsewhere.arg(&file).args(command.get_args());
        elsewhere.envs(
            command
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        );
        command = elsewhere;
    }
    command.env("BRASSERIE_LOG", "brasserie_worker::artifacts=debug,info");
    stage.start_through(name, command, &file)
}

/// Describes `producers` tasks of one worker that leave outputs. With one sink, a task there needs all of them; with more, a task on each
/// sink needs those of one producer.
fn config(
    producers: usize,
    script: &str,
    outputs: &[String],
    marks: &FirstWrites,
    sinks: usize,
) -> Value {
    let slots = |limit: usize| json!({"default": 0, "limit": limit});
    let (nodes, levels, from) = match sinks {
        1 => (producers, ("item", "instance"), "all"),
        _ => (sinks, ("instance", "item"), "parent"),
    };
    let mut limits = json!({"source": {"source": 4}});
    for sink in 0..sinks {
        limits[format!("sink{sink}")] = json!({"sink": 1});
    }
    let [shell, flag, mark] = marks.command();
    json!({
        "bistro_settings": {
            "nodes": {"levels": ["item"], "node_sources": [{"source": "range_label", "prefs": {
                "parent_level": "instance", "format": "n{i}", "start": 1, "end": nodes,
            }}]},
            "resources": {"worker": {"source": slots(0), "sink": slots(0)}},
            "worker_resources_override": limits,
        },
        "bistro_job->produce": {
            "command": ["/bin/sh", "-ec", script], "arguments": "none", "status_from": "exit_code",
            "level_for_tasks": levels.0, "resources": {"source": 1}, "outputs": outputs,
        },
        "bistro_job->consume": {
            "enabled": false,
            "command": [shell, flag, format!("{mark}; exec sleep 600")], "arguments": "none", "status_from": "exit_code",
            "level_for_tasks": levels.1, "resources": {"sink": 1}, "inputs": [{"from": "produce", "node": from}],
        },
    })
}

/// Measures an artifact that many workers want at once.
fn hot(pairs: usize) -> Vec<Figure> {
    let script = format!("set {HOT_BYTES}; {FILL} > hot");
    let samples = Samples::take("artifacts, hot", pairs, |pair| {
        pair.begin("twenty workers");
        let cluster = Transferring::start(1, HOT_WORKERS, &script, &["hot".to_owned()]);
        let stores = (0..HOT_WORKERS).map(|sink| cluster.store(sink).join("incoming"));
        let stores: Vec<PathBuf> = stores.collect();
        let has_begun = || stores.iter().any(|store| has_entries(store));
        let began = cluster.consume(|| has_begun().then(Instant::now));
        let starts = (0..HOT_WORKERS).map(|_| cluster.marks.next_within(PATIENCE));
        let last = starts.max().expect("there are workers");
        let all = wait_within(PATIENCE, "the transfers to be logged", || {
            let all: Vec<(String, f64)> = cluster.sinks.iter().flat_map(transfers).collect();
            (all.len() >= HOT_WORKERS).then_some(all)
        });
        let by_origin = all
            .iter()
            .filter(|(peer, _)| *peer == cluster.source_address)
            .count();
        (last.duration_since(began).as_secs_f64(), by_origin as f64)
    });
    let what = format!("{HOT_WORKERS} workers that want {} MiB", HOT_BYTES >> 20);
    vec![
        samples
            .line(format!("{what}: transfers by the origin"), "", |(_, by)| {
                *by
            })
            .at_most(HOT_LIMIT - 1.0),
        samples.line(
            format!("{what}: until the last task starts"),
            "s",
            |(time, _)| *time,
        ),
    ]
}

/// Whether a baseline ends when its copies are durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sync {
    No,
    Yes,
}

/// Copies a file through a socket, and syncs the copy. Returns the seconds.
fn copy_through_socket(mib: usize) -> f64 {
    let stage = stage();
    let bytes = mib << 20;
    run(&format!(
        "set {bytes}; {FILL} > {}; sync",
        stage.path("from").display()
    ));
    let (from, to) = (stage.path("from"), stage.path("to"));
    through_socket(
        |socket| format!("{SOCAT} OPEN:{} {socket}", from.display()),
        |socket| format!("{SOCAT} {socket} CREATE:{to}; sync {to}", to = to.display()),
    )
}

/// Moves a folder of small files through a socket with `tar`, and syncs the copies if `sync` says so. Returns the seconds.
fn tar_through_socket(files: usize, sync: Sync) -> f64 {
    let stage = stage();
    let (from, to) = (stage.path("from"), stage.path("to"));
    let (bytes, folder) = (files * SMALL, from.display());
    run(&format!(
        "set {bytes}; mkdir {folder} {}; {FILL} | split -b {SMALL} -a 5 - {folder}/f; sync",
        to.display()
    ));
    through_socket(
        |socket| format!("tar -cf - -C {folder} . | {SOCAT} - {socket}"),
        |socket| {
            let sync = match sync {
                Sync::No => String::new(),
                Sync::Yes => format!("; sync -f {}", to.display()),
            };
            format!("{SOCAT} {socket} - | tar -xf - -C {}{sync}", to.display())
        },
    )
}

/// Runs the shell commands of both sides of a socket, and returns the seconds until both have ended.
fn through_socket(send: impl Fn(&str) -> String, receive: impl Fn(&str) -> String) -> f64 {
    let port = free_port();
    let listen = format!("TCP-LISTEN:{port},bind=127.0.0.1,reuseaddr");
    let mut receiver = shell(&receive(&listen));
    let listens = format!("0100007F:{port:04X} 00000000:0000 0A");
    wait_within(PATIENCE, "socat", || {
        let table = fs::read_to_string("/proc/net/tcp").unwrap_or_default();
        table.contains(&listens).then_some(())
    });
    let began = Instant::now();
    run(&send(&format!("TCP:127.0.0.1:{port}")));
    let status = receiver.wait().expect("one's own child can be waited for");
    assert!(status.success(), "the receiving side: {status}");
    began.elapsed().as_secs_f64()
}

fn run(script: &str) {
    let status = shell(script)
        .wait()
        .expect("one's own child can be waited for");
    assert!(status.success(), "{script}: {status}");
}

fn shell(script: &str) -> Child {
    let mut command = Command::new("/bin/bash");
    command
        .args(["-o", "pipefail", "-ec", script])
        .stdin(Stdio::null());
    command.spawn().expect("bash")
}
