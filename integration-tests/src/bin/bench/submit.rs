//! Measures the time from a submission to its process on an idle cluster. The baseline is a program that only syncs the job and starts the
//! process.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use integration_tests::e2e::range_config;

use crate::cluster::{BareStore, BenchCluster};
use crate::figures::{BenchReport, Figure, times_ms};
use crate::marks::FirstWrites;

/// Promised limit for the median.
const MOST_MS: f64 = 5.0;
/// Pause between a task's first write and the next submission, so that the cluster is idle. The task's end, its record and the store's
/// pause after it take about ten milliseconds.
const REST: Duration = Duration::from_millis(25);

/// The times of one submission.
struct SubmitSample {
    /// Time from sending `saveJob` to its answer, when the job is durable.
    answered: Duration,
    /// Time from sending `saveJob` to the arrival of the task's own first write.
    started: Duration,
    /// Time of writing and syncing a row of that size and starting the same process, until its first write has arrived.
    bare: Duration,
}

/// Measures sequential submissions, each of a new job on one node.
pub fn measure(submissions: usize) -> BenchReport {
    eprintln!("submit: {submissions} submissions");
    let cluster = BenchCluster::start(&range_config(1, Some(2)));
    let _worker = cluster.start_worker("one");
    cluster.client.wait_healthy(1);
    let marks = FirstWrites::new(&cluster.stage);
    let mut store = BareStore::new(&cluster.stage);
    let samples: Vec<SubmitSample> = (0..submissions)
        .map(|number| {
            let (answered, started) = marks.submit(&cluster, number);
            std::thread::sleep(REST);
            let bare = bare_start(&mut store, &marks);
            SubmitSample {
                answered,
                started,
                bare,
            }
        })
        .collect();
    report(&samples)
}

/// Does the minimum of any program that starts a process only once its submission is on disk.
fn bare_start(store: &mut BareStore, marks: &FirstWrites) -> Duration {
    let [program, arguments @ ..] = marks.command();
    let sent = Instant::now();
    store.save();
    let mut child = Command::new(Path::new(&program))
        .args(arguments)
        .stdin(Stdio::null())
        .spawn()
        .expect("a shell");
    let started = marks.next().duration_since(sent);
    child.wait().expect("one's own child can be waited for");
    started
}

fn report(samples: &[SubmitSample]) -> BenchReport {
    let times = |of: fn(&SubmitSample) -> Duration| times_ms(samples.iter().map(of));
    let (started, answered, bare) = (
        times(|s| s.started),
        times(|s| s.answered),
        times(|s| s.bare),
    );
    let count = samples.len();
    let lines = vec![
        Figure::new(
            format!("submission to process, median of {count}"),
            "ms",
            started.at(50),
        )
        .beside(bare.at(50))
        .at_most(MOST_MS),
        Figure::new("submission to process, 99 of 100", "ms", started.at(99)).beside(bare.at(99)),
        Figure::new("submission to process, longest", "ms", started.at(100)).beside(bare.at(100)),
        Figure::new(
            "submission to its durable answer, median",
            "ms",
            answered.at(50),
        ),
    ];
    BenchReport::new("submit", "sync and start", lines)
}
