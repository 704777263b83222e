//! Measures the time from a submission to its process on an idle cluster. The baseline is a program that only syncs the job and starts the
//! process.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use brasserie_thrift::generated::scheduler::BistroJobConfig;
use integration_tests::e2e::{Client, Programs, Stage};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::json;

use crate::figures::{Line, Report, times_ms};

/// Promised limit for the median.
const MOST_MS: f64 = 5.0;
/// Pause between a task's first write and the next submission, so that the cluster is idle. The task's end, its record and the store's
/// pause after it take about ten milliseconds.
const REST: Duration = Duration::from_millis(25);
/// Limit for one task, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
const SHELL: &str = "/bin/sh";

/// The times of one submission.
struct Sample {
    /// Time from sending `saveJob` to its answer, when the job is durable.
    answered: Duration,
    /// Time from sending `saveJob` to the arrival of the task's own first write.
    started: Duration,
    /// Time of writing and syncing a row of that size and starting the same process, until its first write has arrived.
    bare: Duration,
}

/// Receives the first writes of all tasks.
pub struct Marks {
    path: PathBuf,
    arrived: Receiver<Instant>,
}

impl Marks {
    pub fn new(path: PathBuf) -> Self {
        mkfifo(&path, Mode::S_IRWXU).expect("a pipe in a temporary folder");
        // Opened for reading and writing, so that it never ends.
        let pipe = File::options().read(true).write(true).open(&path);
        let mut pipe = pipe.expect("one's own pipe can be opened");
        let (sender, arrived) = channel();
        std::thread::spawn(move || {
            let mut mark = [0_u8; 1];
            while pipe.read_exact(&mut mark).is_ok() {
                if sender.send(Instant::now()).is_err() {
                    return;
                }
            }
        });
        Marks { path, arrived }
    }

    /// Returns the command of every task, which writes one byte.
    pub fn command(&self) -> [String; 3] {
        let script = format!("printf x >> {}", self.path.display());
        [SHELL.to_owned(), "-c".to_owned(), script]
    }

    fn next(&self) -> Instant {
        self.next_within(PATIENCE)
    }

    pub fn next_within(&self, patience: Duration) -> Instant {
        let mark = self.arrived.recv_timeout(patience);
        mark.expect("a task that was submitted starts")
    }

    /// Discards the writes that have arrived.
    pub fn forget(&self) {
        while self.arrived.try_recv().is_ok() {}
    }
}

/// Measures sequential submissions, each of a new job on one node.
pub fn measure(submissions: usize) -> Report {
    eprintln!("submit: {submissions} submissions");
    let stage = Stage::with(Programs::this_one());
    let config = json!({ "bistro_settings": {
        "enabled": true,
        "nodes": { "levels": ["item"], "node_sources": [
            { "source": "range_label", "prefs": { "parent_level": "instance", "format": "n{i}", "start": 1, "end": 1 } }
        ] },
        "resources": { "worker": { "slots": { "default": 1, "limit": 2 } } }
    } });
    let config = stage.write("config.json", &config.to_string());
    let mut spec = stage.scheduler_spec(&config).with("--new-cluster");
    // Uses default timeouts, like users.
    spec.flags.retain(|flag| flag == "--new-cluster");
    let _scheduler = stage.start_scheduler(&spec);
    let client = Client::new(spec.port);
    let _worker = stage.start_worker(&stage.worker_spec("one", &spec));
    client.wait_healthy(1);
    let marks = Marks::new(stage.path("marks"));
    let mut rows = File::create(stage.path("rows")).expect("a file in a temporary folder");
    let samples: Vec<Sample> = (0..submissions)
        .map(|number| {
            let (answered, started) = submit(&client, &marks, number);
            std::thread::sleep(REST);
            let bare = bare_start(&mut rows, &marks);
            Sample {
                answered,
                started,
                bare,
            }
        })
        .collect();
    report(&samples)
}

/// Submits a job that starts at once. Returns the times of its answer and of its process's write.
pub fn submit(client: &Client, marks: &Marks, number: usize) -> (Duration, Duration) {
    let job = BistroJobConfig {
        name: Some(format!("job{number}")),
        enabled: Some(true),
        owner: Some("bench".to_owned()),
        command: Some(marks.command().to_vec()),
        arguments: Some("none".to_owned()),
        status_from: Some("exit_code".to_owned()),
        ..BistroJobConfig::default()
    };
    let sent = Instant::now();
    client.save_job(job).expect("a good job is taken");
    let answered = sent.elapsed();
    (answered, marks.next().duration_since(sent))
}

/// Does the minimum of any program that starts a process only once its submission is on disk.
fn bare_start(rows: &mut File, marks: &Marks) -> Duration {
    /// About the size that the store writes for a job: a page.
    const ROW: [u8; 4096] = [b'x'; 4096];
    let [program, arguments @ ..] = marks.command();
    let sent = Instant::now();
    rows.write_all(&ROW).expect("room on the disk");
    rows.sync_data().expect("a file can be synced");
    let mut child = Command::new(Path::new(&program))
        .args(arguments)
        .stdin(Stdio::null())
        .spawn()
        .expect("a shell");
    let started = marks.next().duration_since(sent);
    child.wait().expect("one's own child can be waited for");
    started
}

fn report(samples: &[Sample]) -> Report {
    let times = |of: fn(&Sample) -> Duration| times_ms(samples.iter().map(of));
    let (started, answered, bare) = (
        times(|s| s.started),
        times(|s| s.answered),
        times(|s| s.bare),
    );
    let count = samples.len();
    let lines = vec![
        Line::new(
            format!("submission to process, median of {count}"),
            "ms",
            started.at(50),
        )
        .beside(bare.at(50))
        .at_most(MOST_MS),
        Line::new("submission to process, 99 of 100", "ms", started.at(99)).beside(bare.at(99)),
        Line::new("submission to process, longest", "ms", started.at(100)).beside(bare.at(100)),
        Line::new(
            "submission to its durable answer, median",
            "ms",
            answered.at(50),
        ),
    ];
    Report::new("submit", "sync and start", lines)
}
