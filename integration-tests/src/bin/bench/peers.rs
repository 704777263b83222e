//! Measures the same tasks through other programs that run many processes, as far as this machine has them.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::cluster::stage;
use crate::figures::{BenchReport, Figure, Samples, per_second};
use crate::spawn::{SLOTS, bare_rate, costs};

/// The script that runs processes on a local cluster of Dask. Its arguments are the number of tasks and the command.
const DASK: &str = r#"
import subprocess, sys, time
from dask.distributed import Client, LocalCluster

def task(number, command):
    return subprocess.run(command, check=True).returncode

if __name__ == "__main__":
    count, slots, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    with LocalCluster(n_workers=slots, threads_per_worker=1) as cluster, Client(cluster) as client:
        client.gather(client.map(task, range(slots), command=command, pure=False))
        began = time.monotonic()
        client.gather(client.map(task, range(count), command=command, pure=False))
        print(time.monotonic() - began)
"#;

/// The command of a kind of tasks, and how many tasks are measured.
type Load = (&'static str, &'static [&'static str], usize);

/// A program that runs many processes.
#[derive(Clone, Copy)]
struct PeerProgram {
    name: &'static str,
    /// A command that prints its version.
    version: &'static [&'static str],
    /// Runs this many commands, and returns the time that they took.
    run: fn(usize, &[&str]) -> Duration,
}

const PEERS: [PeerProgram; 4] = [
    PeerProgram {
        name: "xargs -P",
        version: &["xargs", "--version"],
        run: |count, command| in_shell(count, &format!("xargs -P {SLOTS} -I {{}}"), command),
    },
    PeerProgram {
        name: "GNU parallel",
        version: &["parallel", "--version"],
        run: |count, command| {
            in_shell(
                count,
                &format!("parallel --will-cite -j {SLOTS} -N 0"),
                command,
            )
        },
    },
    PeerProgram {
        name: "HyperQueue",
        version: &["hq", "--version"],
        run: with_hyperqueue,
    },
    PeerProgram {
        name: "Dask",
        version: &[
            "python3",
            "-c",
            "import distributed; print(distributed.__version__)",
        ],
        run: with_dask,
    },
];

/// Measures this many short tasks, and a fifth of them that sleep.
pub fn measure(tasks: usize, pairs: usize) -> BenchReport {
    let loads: [Load; 2] = [
        ("true", &["/bin/true"], tasks),
        ("sleep 0.02", &["/bin/sleep", "0.02"], tasks.div_ceil(5)),
    ];
    let (mut lines, mut notes) = (Vec::new(), Vec::new());
    let mut present = Vec::new();
    for peer in PEERS {
        match version(peer.version) {
            Some(version) => {
                notes.push(format!("{}: {version}", peer.name));
                present.push(peer);
            }
            None => notes.push(format!("{}: missing on this machine", peer.name)),
        }
    }
    for (name, command, count) in loads {
        // Tasks a second: bare, ours, and those of the peers.
        let samples = Samples::take("peers", pairs, |pair| {
            pair.begin(&format!("{name}: posix_spawn"));
            let bare = bare_rate(count, command);
            pair.begin(&format!("{name}: scheduler and worker"));
            let ours = costs(count, command).rate;
            let peers = present.iter().map(|peer| {
                pair.begin(&format!("{name}: {}", peer.name));
                per_second(count, (peer.run)(count, command))
            });
            (bare, [ours].into_iter().chain(peers).collect::<Vec<f64>>())
        });
        let bare = samples.median(|(bare, _)| *bare);
        let names = ["scheduler and worker"].into_iter();
        let names = names.chain(present.iter().map(|peer| peer.name));
        lines.extend(names.enumerate().map(|(at, peer)| {
            Figure::new(
                format!("{count} x `{name}` a second: {peer}"),
                "/s",
                samples.median(|(_, rates)| rates[at]),
            )
            .beside(bare)
            .more_is_better()
        }));
    }
    BenchReport::new("peers", "posix_spawn", lines).with_table(notes)
}

/// Returns the first line that a command prints; `None` if it fails or is missing.
fn version(command: &[&str]) -> Option<String> {
    let (program, arguments) = command.split_first()?;
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().next()?.trim().to_owned();
    output.status.success().then_some(line)
}

fn timed(mut command: Command) -> Duration {
    let began = Instant::now();
    let status = command.status().expect("the program can be started");
    assert!(status.success(), "{command:?} ended with {status}");
    began.elapsed()
}

/// Runs a program that reads one line for each process from a pipe.
fn in_shell(count: usize, program: &str, command: &[&str]) -> Duration {
    let mut shell = Command::new("/bin/sh");
    shell.args([
        "-c",
        &format!("seq {count} | {program} {}", command.join(" ")),
    ]);
    timed(shell)
}

/// Kills a server when the measurement is over.
struct HqServer(Child);

impl Drop for HqServer {
    fn drop(&mut self) {
        // The server may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn hyperqueue(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("hq");
    command.arg("--server-dir").arg(folder).args(arguments);
    command.stdout(Stdio::null());
    command
}

fn with_hyperqueue(count: usize, command: &[&str]) -> Duration {
    let stage = stage();
    let folder = stage.path("hq");
    fs::create_dir(&folder).expect("a folder of its own");
    let start = |arguments: &[&str]| {
        let child = hyperqueue(&folder, arguments).spawn();
        HqServer(child.expect("hq can be started"))
    };
    let _server = start(&["server", "start"]);
    while !hyperqueue(&folder, &["server", "info"])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
    {
        std::thread::sleep(Duration::from_millis(50));
    }
    let slots = SLOTS.to_string();
    let _worker = start(&["worker", "start", "--cpus", &slots]);
    let submit = |count: usize| {
        let tasks = format!("1-{count}");
        let mut submit = hyperqueue(&folder, &["submit", "--array", &tasks, "--wait"]);
        submit.args(["--stdout", "none", "--stderr", "none", "--"]);
        submit.args(command);
        timed(submit)
    };
    // The worker has joined when the first tasks are done.
    submit(SLOTS);
    submit(count)
}

fn with_dask(count: usize, command: &[&str]) -> Duration {
    let stage = stage();
    let script = stage.write("tasks.py", DASK);
    let output = Command::new("python3")
        .arg(script)
        .args([count.to_string(), SLOTS.to_string()])
        .args(command)
        .stderr(Stdio::inherit())
        .output()
        .expect("python3 can be started");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    let seconds: f64 = text.trim().parse().expect("the script prints its time");
    Duration::from_secs_f64(seconds)
}
