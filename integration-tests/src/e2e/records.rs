//! The records that tasks write about themselves, the only evidence of a task that ran twice.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::DirEntryExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The program of a task. It holds a lock that the kernel releases only when every process of the task is dead. So a second run at the same
/// time is detected even if the first one's worker was killed. It records its start and end.
///
/// Arguments: node, status pipe, JSON. The script works in the folder above its own. It sleeps for the seconds in the file `pause` there,
/// then waits while there is a file `hold`.
pub const WORK_SCRIPT: &str = r#"#!/bin/sh
set -u
node=$1 status=$2 place=$PWD
cd "$(dirname "$0")/.."
exec 9> "locks/$node"
record() { echo "$1 $node $BRASSERIE_INVOCATION $(date +%s%N) $place" >> runs; }
flock -n 9 || record overlap
record start
echo "working on $node"
sleep "$(cat pause)"
while [ -e hold ]; do sleep 0.1; done
record end
echo done > "$status"
"#;

/// One run of one task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRecord {
    pub node: String,
    pub invocation: String,
    /// The working directory, which is below its worker's data directory.
    pub place: PathBuf,
    /// The start since the epoch, by this machine's clock.
    pub start: Duration,
    /// The end; `None` if the run was killed or still lasts.
    pub end: Option<Duration>,
}

/// All runs, ordered by start.
#[derive(Clone, Debug, Default)]
pub struct RunRecords {
    pub runs: Vec<RunRecord>,
    /// Runs that found another process of the same task alive.
    pub overlaps: Vec<String>,
}

impl RunRecords {
    /// Reads the records of tasks that ran [`WORK_SCRIPT`] in this folder.
    ///
    /// # Panics
    /// If a record has another format.
    pub fn read(folder: &Path) -> Self {
        let text = fs::read_to_string(folder.join("runs")).unwrap_or_default();
        let mut records = RunRecords::default();
        // A line that is still being written has no line feed.
        for line in text
            .split_inclusive('\n')
            .filter_map(|line| line.strip_suffix('\n'))
        {
            let words: Vec<&str> = line.split(' ').collect();
            let [what, node, invocation, time, place] = words[..] else {
                panic!("a strange record: {line}")
            };
            let time = Duration::from_nanos(time.parse().expect("`date +%s%N` prints a number"));
            match what {
                "start" => records.runs.push(RunRecord {
                    node: node.to_owned(),
                    invocation: invocation.to_owned(),
                    place: PathBuf::from(place),
                    start: time,
                    end: None,
                }),
                "end" => {
                    let run = records
                        .runs
                        .iter_mut()
                        .find(|run| run.invocation == invocation);
                    run.expect("a run starts before it ends").end = Some(time);
                }
                "overlap" => records.overlaps.push(format!("{node} {invocation}")),
                other => panic!("a strange record: {other}"),
            }
        }
        records
    }

    /// Returns the number of starts of each node's task.
    pub fn starts(&self) -> BTreeMap<&str, usize> {
        let mut starts = BTreeMap::new();
        for run in &self.runs {
            *starts.entry(run.node.as_str()).or_insert(0) += 1;
        }
        starts
    }

    /// Returns the nodes with a living process, according to the kernel's locks.
    ///
    /// # Panics
    /// If the kernel's locks cannot be read.
    pub fn alive(folder: &Path) -> Vec<String> {
        // Trying to take the locks would disturb tasks that start at that moment.
        let read = || fs::read_to_string("/proc/locks").expect("the kernel tells its locks");
        // The kernel lists its locks a page at a time. If a lock is released between two pages, the first lock of the second page is
        // omitted. So one reading may lack a held lock.
        let readings = [read(), read(), read()];
        let lines = readings.iter().flat_map(|locks| locks.lines());
        let held: BTreeSet<u64> = lines.filter_map(locked_inode).collect();
        let entries = fs::read_dir(folder.join("locks"));
        entries
            .into_iter()
            .flatten()
            .flatten()
            .filter(|entry| held.contains(&entry.ino()))
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect()
    }

    /// Returns the number of runs that ended.
    pub fn finished(&self) -> usize {
        self.runs.iter().filter(|run| run.end.is_some()).count()
    }
}

/// Returns the inode in a line such as `1: FLOCK  ADVISORY  WRITE 708 fe:01:13 0 EOF`. Lines of waiting processes have an arrow.
fn locked_inode(line: &str) -> Option<u64> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [_, "FLOCK", _, "WRITE", _, file, ..] = words[..] else {
        return None;
    };
    file.rsplit(':').next()?.parse().ok()
}
