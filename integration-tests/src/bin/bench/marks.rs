//! Observes the first write of each task.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use integration_tests::e2e::Stage;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use crate::cluster::{BenchCluster, api_job};

/// Limit for one task, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
const SHELL: &str = "/bin/sh";

/// Receives the first writes of all tasks.
pub struct FirstWrites {
    path: PathBuf,
    arrived: Receiver<Instant>,
}

impl FirstWrites {
    pub fn new(stage: &Stage) -> Self {
        let path = stage.path("marks");
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
        FirstWrites { path, arrived }
    }

    /// Returns the command of every task, which writes one byte.
    pub fn command(&self) -> [String; 3] {
        let script = format!("printf x >> {}", self.path.display());
        [SHELL.to_owned(), "-c".to_owned(), script]
    }

    pub fn next(&self) -> Instant {
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

    /// Submits a job that starts at once. Returns the times from sending `saveJob` to its answer, when the job is durable, and to the first
    /// write of its process.
    pub fn submit(&self, cluster: &BenchCluster, number: usize) -> (Duration, Duration) {
        let job = api_job(format!("job{number}"), self.command().to_vec());
        let sent = Instant::now();
        cluster.client.save_job(job).expect("a good job is taken");
        let answered = sent.elapsed();
        (answered, self.next().duration_since(sent))
    }
}
