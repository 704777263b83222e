//! Tests the artifacts of tasks with real workers, each for a minimal scheduler of its own: outputs are taken, and inputs come from peers.

mod peers;
mod progress;
mod replicas;

use std::fs;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::fake::{PATIENCE, Stage};
use brasserie_common::ReportedStatus;
use brasserie_thrift::generated::common::{
    Artifact, ArtifactHolder, KillRequest, RunningTask, TaskArtifacts, TaskInput, TaskOutput,
    TaskSubprocessOptions,
};
use brasserie_thrift::generated::scheduler::{
    ArtifactCopy, ArtifactsAnswer, ArtifactsReport, ListingWanted,
};
use brasserie_thrift::generated::worker::{
    ArtifactPiece, ArtifactPieces, ArtifactRange, BistroWorkerFetchArtifactsArgs,
    BistroWorkerFetchArtifactsResult,
};
use brasserie_thrift::rpc::{
    CallResult, ClientConfig, ClientPool, IncomingCall, Limits, PeerAddr, Server, Service,
};
use nix::sys::signal::{Signal, kill};
use rustix::fs::{Mode, OFlags};
use sha2::{Digest, Sha256};
use tempfile::TempDir;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

const CLUSTER: &str = "cluster";
/// The text of an output of half a megabyte, larger than any buffer on its way.
const BIG: &str = "i=0; while [ $i -lt 5000 ]; do echo \"line $i of a text that is long enough to count, and counts\"; i=$((i+1)); done";

/// A worker with its scheduler and its data directory.
struct Place {
    stage: Stage,
    dir: TempDir,
    /// The number of runs, each of which has a node of its own.
    runs: usize,
}

impl Place {
    async fn open() -> Place {
        Place::open_with(|_| Vec::new()).await
    }

    /// Opens a place whose worker has the flags that follow from its data directory.
    async fn open_with(flags: impl FnOnce(&Path) -> Vec<String>) -> Place {
        let dir = tempfile::tempdir().expect("a folder");
        let flags = flags(dir.path());
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let mut stage = Stage::open(dir.path(), &flags).await;
        stage.change(|scene| scene.artifacts = Some(answer()));
        stage.join().await;
        let runs = 0;
        Place { stage, dir, runs }
    }

    /// Starts a task that leaves these outputs.
    async fn leave(&mut self, script: &str, outputs: &[&str]) -> RunningTask {
        self.run(script, wants(outputs, vec![], vec![])).await
    }

    async fn run(&mut self, script: &str, artifacts: TaskArtifacts) -> RunningTask {
        self.runs += 1;
        let task = self.stage.task("job", &format!("node {}", self.runs));
        let command = ["/bin/sh", "-ec", script, "sh"].map(str::to_owned).to_vec();
        let options = TaskSubprocessOptions {
            status_from: Some("exit_code".to_owned()),
            artifacts: Some(artifacts),
            ..TaskSubprocessOptions::default()
        };
        let started = self.stage.run_with(&task, command, options).await;
        started.expect("the worker accepts it");
        task
    }

    /// Waits for the end of a run, and returns its status and its outputs.
    async fn end(&mut self, task: &RunningTask) -> (String, Vec<TaskOutput>) {
        let update = self.stage.last_update(task).await;
        let outputs = update.running_task.outputs.unwrap_or_default();
        (update.status, outputs)
    }

    /// Runs a task that ends well, and returns its only output.
    async fn make(&mut self, script: &str, output: &str) -> Artifact {
        let task = self.leave(script, &[output]).await;
        let (status, outputs) = self.end(&task).await;
        let [output] = &outputs[..] else {
            panic!("{status}: {outputs:?}");
        };
        output.artifact.clone().expect("it is named")
    }

    /// Returns this worker as a holder.
    async fn holder(&mut self) -> ArtifactHolder {
        let worker = self.stage.worker().await;
        ArtifactHolder {
            address: worker.addr,
            hostname: worker.machine_lock.expect("a lock").hostname,
            rack: None,
        }
    }

    /// Returns the file of an artifact in the store.
    fn file(&self, artifact: &Artifact) -> PathBuf {
        let name = hex(artifact.id.as_deref().expect("an id"));
        let content = self.dir.path().join("artifacts/content").join(CLUSTER);
        content.join(&name[..2]).join(name)
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn answer() -> ArtifactsAnswer {
    ArtifactsAnswer {
        cluster: Some(CLUSTER.to_owned()),
        ..ArtifactsAnswer::default()
    }
}

fn wants(outputs: &[&str], inputs: Vec<TaskInput>, holders: Vec<ArtifactHolder>) -> TaskArtifacts {
    TaskArtifacts {
        cluster: Some(CLUSTER.to_owned()),
        inputs: Some(inputs),
        holders: Some(holders),
        outputs: Some(outputs.iter().map(|path| (*path).to_owned()).collect()),
    }
}

fn input(path: &str, artifact: &Artifact, holders: &[i32]) -> TaskInput {
    TaskInput {
        path: Some(path.to_owned()),
        artifact: Some(artifact.clone()),
        holders: Some(holders.to_vec()),
    }
}

fn runs_left(dir: &Path) -> usize {
    fs::read_dir(dir.join("runs")).map_or(0, |all| all.count())
}

/// Waits until the folders of all runs are deleted, which happens after their ends.
async fn until_no_run_is_left(place: &Place) {
    let deleted = async {
        while runs_left(place.dir.path()) > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, deleted)
        .await
        .expect("nothing is left of a run");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outputs_of_a_successful_run_are_in_the_store_before_its_end_is_reported() {
    let mut place = Place::open().await;
    let script = "mkdir -p stats/deep; echo one > stats/deep/a; : > stats/b; echo hello > table; chmod +x table";
    let task = place.leave(script, &["table", "stats/"]).await;
    let (status, outputs) = place.end(&task).await;
    assert!(status.contains("result_bits"), "{status}");
    let [table, stats] = &outputs[..] else {
        panic!("{status}: {outputs:?}");
    };
    let artifact = table.artifact.as_ref().expect("it is named");
    assert_eq!(artifact.id.as_deref(), Some(&Sha256::digest("hello\n")[..]));
    assert_eq!(
        (artifact.size, artifact.form.as_deref()),
        (Some(6), Some("executable"))
    );
    assert_eq!(
        fs::read(place.file(artifact)).expect("it is there"),
        b"hello\n"
    );
    let folder = stats.artifact.as_ref().expect("it is named");
    assert_eq!(folder.form.as_deref(), Some("folder"));
    let archive = fs::read(place.file(folder)).expect("it is there");
    assert_eq!(folder.id.as_deref(), Some(&Sha256::digest(archive)[..]));
    // The scheduler hears of the disk that has them.
    let generation = table.generation.clone();
    let scene = place
        .stage
        .until("report of both", |scene| {
            scene
                .reports
                .iter()
                .flat_map(|report| report.stored.iter().flatten())
                .count()
                == 2
        })
        .await;
    let last = scene.reports.last().expect("one at least");
    let disks = last.disks.as_ref().expect("one");
    assert_eq!(
        (disks[0].generation.clone(), disks[0].artifacts),
        (generation, Some(2))
    );
    // The folder of the run is deleted after its end.
    until("an empty folder", || runs_left(place.dir.path()) == 0).await;
}

/// Makes folders in folders, more than any recursion survives and deeper than any path leads.
fn nest(top: &Path) {
    let open = |at: BorrowedFd<'_>, name: &Path| {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::openat(at, name, flags, Mode::empty()).expect("a folder")
    };
    let mut at = open(rustix::fs::CWD, top);
    for _ in 0..16_000 {
        rustix::fs::mkdirat(&at, "d", Mode::RWXU).expect("a free name");
        at = open(at.as_fd(), Path::new("d"));
    }
}

async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let waited = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, waited).await.expect(what);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_deepest_folders_of_a_task_end_neither_the_worker_nor_its_successor() {
    let mut place = Place::open().await;
    let script = "mkdir o; echo x > o/x; mkfifo go; read line < go";
    let task = place.leave(script, &["o/"]).await;
    let runs = place.dir.path().join("runs");
    let work = || {
        let run = fs::read_dir(&runs).ok()?.next()?.ok()?;
        let work = run.path().join("work");
        work.join("go").exists().then_some(work)
    };
    until("the task", || work().is_some()).await;
    let work = work().expect("it was there");
    nest(&work);
    fs::write(work.join("go"), "\n").expect("the task reads it");
    let (status, outputs) = place.end(&task).await;
    assert_eq!(outputs.len(), 1, "{status}");
    until("an empty folder", || runs_left(place.dir.path()) == 0).await;
    // The worker is still the same one.
    place.make("echo x > out", "out").await;
    let Place { stage, dir, .. } = place;
    let (worker, keeper) = (stage.worker_process(), stage.keeper());
    for process in [worker, keeper] {
        kill(process, Signal::SIGKILL).expect("killed");
    }
    stage.code().await;
    fs::create_dir_all(runs.join("old/work")).expect("a folder");
    nest(&runs.join("old/work"));
    let mut stage = Stage::open(dir.path(), &[]).await;
    stage.join().await;
    until("the folders of the earlier worker", || {
        runs_left(dir.path()) == 0
    })
    .await;
}

/// Something at the place of an artifact in the store is moved away, and the task that makes the artifact is done.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn junk_at_the_place_of_an_output_is_set_aside() {
    let mut place = Place::open().await;
    let artifact = place.make("echo x > out", "out").await;
    let file = place.file(&artifact);
    fs::remove_file(&file).expect("it was there");
    fs::create_dir_all(file.join("junk")).expect("a folder");
    assert_eq!(place.make("echo x > out", "out").await, artifact);
    assert_eq!(fs::read(&file).expect("it is there"), b"x\n");
    let aside = place.dir.path().join("artifacts/set-aside/1/junk");
    assert!(aside.is_dir());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_output_that_is_missing_or_hostile_is_an_error_that_names_it() {
    let mut place = Place::open().await;
    for (script, output, expected) in [
        ("true", "table", "`table`"),
        ("ln -s /etc/passwd table", "table", "symbolic link"),
        ("mkdir d; ln -s /etc d/e", "d/", "symbolic link"),
        ("mkfifo table", "table", "pipe"),
        ("mkdir table", "table", "folder"),
        ("ln -s /etc d", "d/passwd", "symbolic link"),
    ] {
        let task = place.leave(script, &[output]).await;
        let (status, outputs) = place.end(&task).await;
        assert!(status.contains(expected), "{script}: {status}");
        assert_eq!(outputs, [], "{script}");
    }
    // The folder itself may be anything by then.
    let script = "cd ..; rm -r work; mkfifo work";
    let task = place.leave(script, &["table"]).await;
    let (status, outputs) = place.end(&task).await;
    assert!(status.contains("cannot take the output"), "{status}");
    assert_eq!(outputs, []);
    let failed = place.leave("echo x > table; exit 3", &["table"]).await;
    let (status, outputs) = place.end(&failed).await;
    assert_eq!(outputs, [], "a failed run leaves nothing: {status}");
}

/// A file of another run, or an old one, would count as the output.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_with_outputs_in_a_shared_directory_does_not_start() {
    let mut place = Place::open().await;
    let shared = tempfile::tempdir().expect("a folder");
    fs::write(shared.path().join("table"), "old").expect("it is written");
    let task = place.stage.task("job", "node");
    let options = TaskSubprocessOptions {
        status_from: Some("exit_code".to_owned()),
        working_directory: Some(shared.path().to_string_lossy().into_owned()),
        artifacts: Some(wants(&["table"], vec![], vec![])),
        ..TaskSubprocessOptions::default()
    };
    let command = vec!["/bin/true".to_owned()];
    let started = place.stage.run_with(&task, command, options).await;
    started.expect("the worker accepts it");
    let (status, outputs) = place.end(&task).await;
    assert!(status.contains("remove the `cwd`"), "{status}");
    assert_eq!(outputs, []);
}

/// Tasks put these paths into shell commands and formats.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_paths_of_a_run_have_plain_names() {
    let mut place = Place::open().await;
    let task = place
        .leave("printf \"$PWD $BRASSERIE_INPUTS\" > paths", &["paths"])
        .await;
    let (status, outputs) = place.end(&task).await;
    let artifact = outputs.first().and_then(|output| output.artifact.as_ref());
    let file = place.file(artifact.expect(&status));
    let paths = fs::read_to_string(file).expect("it is there");
    let runs = place.dir.path().join("runs");
    for path in paths.split(' ') {
        let below = Path::new(path).strip_prefix(&runs).expect("it is below");
        let below = below.to_str().expect("plain text");
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-/".contains(c);
        assert!(below.chars().all(is_plain), "{paths}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inputs_come_from_a_peer_to_where_the_task_looks_for_them() {
    let (mut maker, mut user) = (Place::open().await, Place::open().await);
    let file = maker.make(&format!("{{ {BIG}; }} > out"), "out").await;
    let folder = maker.make("mkdir -p f/g; echo deep > f/g/h", "f/").await;
    let holder = maker.holder().await;
    let inputs = vec![
        input("make/n%20/out", &file, &[0]),
        input("make/f/", &folder, &[0]),
        input("again", &file, &[0]),
    ];
    let script = "cd \"$BRASSERIE_INPUTS\"; cmp make/n%20/out again; wc -c < again; cat make/f/g/h; cp -r . \"$OLDPWD/got\"";
    let task = user
        .run(script, wants(&["got/"], inputs, vec![holder]))
        .await;
    let (status, outputs) = user.end(&task).await;
    assert_eq!(outputs.len(), 1, "{status}");
    assert_eq!(
        fs::read(user.file(&file)).expect("it was fetched"),
        fs::read(maker.file(&file)).expect("it was made")
    );
    // The worker is a holder now, and says so.
    user.stage
        .until("report of the copies", |scene| {
            let stored = scene
                .reports
                .iter()
                .flat_map(|report| report.stored.iter().flatten());
            stored
                .filter(|copy| copy.id == file.id || copy.id == folder.id)
                .count()
                == 2
        })
        .await;
}

/// The inputs of a run are copied on several threads. One that cannot be copied ends the run, with its error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_inputs_are_copied_and_one_that_cannot_be_ends_the_run() {
    let mut place = Place::open().await;
    let script = "for i in $(seq 30); do echo $i > $i; done";
    let paths: Vec<String> = (1..=30).map(|number| number.to_string()).collect();
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let task = place.leave(script, &paths).await;
    let (status, outputs) = place.end(&task).await;
    assert_eq!(outputs.len(), 30, "{status}");
    let input_of = |output: &TaskOutput| {
        let path = output.path.as_deref().expect("a path");
        let artifact = output.artifact.as_ref().expect("it is named");
        input(&format!("{}/{path}", path.len()), artifact, &[])
    };
    let mut inputs: Vec<TaskInput> = outputs.iter().map(input_of).collect();
    let script =
        "cd \"$BRASSERIE_INPUTS\"; cat 1/* 2/* | sort -n | uniq | wc -l > \"$OLDPWD/count\"";
    let task = place
        .run(script, wants(&["count"], inputs.clone(), vec![]))
        .await;
    let (status, outputs) = place.end(&task).await;
    let count = outputs[0].artifact.as_ref().expect("it is named");
    assert_eq!(
        count.id.as_deref(),
        Some(&Sha256::digest("30\n")[..]),
        "{status}"
    );
    // No bytes of an archive.
    inputs[17].artifact.as_mut().expect("it is named").form = Some("folder".to_owned());
    inputs[17].path = Some("folder/".to_owned());
    let task = place.run("true", wants(&[], inputs, vec![])).await;
    let (status, _) = place.end(&task).await;
    assert!(
        status.contains("is not the archive of a folder"),
        "{status}"
    );
    until_no_run_is_left(&place).await;
}

/// An answer has room for no byte more than the small file, and the empty one behind it is complete all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_small_input_and_an_empty_one_come_from_one_peer() {
    let (mut maker, mut user) = (Place::open().await, Place::open().await);
    let small = maker.make("echo small > out", "out").await;
    let empty = maker.make(": > out", "out").await;
    let holder = maker.holder().await;
    let inputs = vec![input("a", &small, &[0]), input("b", &empty, &[0])];
    let script = "cd \"$BRASSERIE_INPUTS\"; test $(cat a) = small && test -f b && ! test -s b && cp a \"$OLDPWD/got\"";
    let task = user
        .run(script, wants(&["got"], inputs, vec![holder]))
        .await;
    let (status, outputs) = user.end(&task).await;
    assert_eq!(outputs.len(), 1, "{status}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_copy_reaches_no_task_and_is_dropped_by_its_holder() {
    let mut places = Vec::new();
    for _ in 0..3 {
        places.push(Place::open().await);
    }
    let [mut one, mut other, mut user] = <[Place; 3]>::try_from(places).ok().expect("three");
    let artifact = one.make("echo sound > out", "out").await;
    let same = other.make("echo sound > out", "out").await;
    assert_eq!(artifact, same);
    let file = one.file(&artifact);
    fs::remove_file(&file).expect("it was there");
    fs::write(&file, "Sound\n").expect("a damaged copy");
    // The user asks the damaged one first, as it knows no other.
    let script = "test \"$(cat \"$BRASSERIE_INPUTS/in\")\" = sound";
    let inputs = vec![input("in", &artifact, &[0])];
    let holders = vec![one.holder().await];
    let task = user.run(script, wants(&[], inputs, holders)).await;
    one.stage
        .until("loss", |scene| {
            let gone = scene
                .reports
                .iter()
                .flat_map(|report| report.gone.iter().flatten());
            gone.filter(|copy| copy.id == artifact.id).count() > 0
        })
        .await;
    assert!(!file.exists());
    // The user asks for holders, and hears of the sound one.
    let sound = other.holder().await;
    user.stage
        .until("question", |scene| {
            scene
                .reports
                .iter()
                .any(|report| report.wanted.as_ref().is_some_and(|all| !all.is_empty()))
        })
        .await;
    user.stage.change(|scene| {
        scene.artifacts = Some(ArtifactsAnswer {
            wanted: Some(vec![
                brasserie_thrift::generated::scheduler::ArtifactHolders {
                    id: artifact.id.clone(),
                    holders: Some(vec![0]),
                },
            ]),
            holders: Some(vec![sound]),
            ..answer()
        });
    });
    let (status, _) = user.end(&task).await;
    assert!(!status.contains("exception"), "{status}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_waits_for_an_input_can_be_killed() {
    let mut place = Place::open().await;
    let nowhere = Artifact {
        id: Some(vec![7; 32]),
        size: Some(1),
        form: Some("file".to_owned()),
    };
    let inputs = vec![input("in", &nowhere, &[])];
    let task = place.run("true", wants(&[], inputs, vec![])).await;
    place
        .stage
        .until("question", |scene| {
            scene
                .reports
                .iter()
                .any(|report| report.wanted.as_ref().is_some_and(|all| !all.is_empty()))
        })
        .await;
    assert_eq!(place.stage.kill(&task, KillRequest::default()).await, None);
    let (status, _) = place.end(&task).await;
    assert!(
        status.contains("while it waited for its inputs"),
        "{status}"
    );
}

/// The run has not begun, so it goes back without a failure. Another run, which waits for another input, stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_goes_back_when_the_scheduler_says_that_its_input_is_lost() {
    let mut place = Place::open().await;
    let nowhere = |content: u8| Artifact {
        id: Some(vec![content; 32]),
        size: Some(1),
        form: Some("file".to_owned()),
    };
    let waits_for = |content| wants(&[], vec![input("in", &nowhere(content), &[])], vec![]);
    place.stage.change(|scene| {
        scene.artifacts = Some(ArtifactsAnswer {
            lost: Some(vec![vec![7; 32]]),
            ..answer()
        });
    });
    let stays = place.run("true", waits_for(8)).await;
    let task = place.run("true", waits_for(7)).await;
    let (status, _) = place.end(&task).await;
    assert_eq!(status, ReportedStatus::taken_back().to_wire());
    assert_eq!(place.stage.kill(&stays, KillRequest::default()).await, None);
    let (status, _) = place.end(&stays).await;
    assert!(status.contains("while it waited"), "{status}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_scheduler_does_not_want_is_deleted_and_the_rest_is_listed() {
    let mut place = Place::open().await;
    let (kept, dropped) = (
        place.make("echo kept > out", "out").await,
        place.make("echo dropped > out", "out").await,
    );
    let scene = place
        .stage
        .until("disk", |scene| {
            scene.reports.iter().any(|report| report.disks.is_some())
        })
        .await;
    let disks = scene.reports.last().and_then(|report| report.disks.clone());
    let generation = disks.expect("one").remove(0).generation;
    place.stage.change(|scene| {
        scene.artifacts = Some(ArtifactsAnswer {
            unwanted: Some(vec![ArtifactCopy {
                generation: generation.clone(),
                id: dropped.id.clone(),
                size: None,
            }]),
            listings: Some(vec![ListingWanted {
                generation: generation.clone(),
                listing: Some(7),
                after: None,
            }]),
            ..answer()
        });
    });
    let scene = place
        .stage
        .until("listing", |scene| {
            let pages = scene
                .reports
                .iter()
                .flat_map(|report| report.listings.iter().flatten());
            pages
                .filter(|page| page.copies.as_ref().is_some_and(|copies| copies.len() == 1))
                .count()
                > 0
        })
        .await;
    let pages = scene
        .reports
        .iter()
        .flat_map(|report| report.listings.iter().flatten());
    let page = pages.last().expect("one at least");
    assert_eq!((page.listing, page.is_last), (Some(7), Some(true)));
    assert_eq!(page.copies.as_ref().expect("one")[0].id, kept.id);
    // The copy counts until the report that it is gone.
    let is_gone = |report: &ArtifactsReport| {
        let mut gone = report.gone.iter().flatten();
        gone.any(|copy| copy.id == dropped.id)
    };
    let scene = place
        .stage
        .until("report of the deletion", |scene| {
            scene.reports.iter().any(is_gone)
        })
        .await;
    let count = |report: &ArtifactsReport| report.disks.as_ref()?.first()?.artifacts;
    let reports = scene.reports.iter();
    let counts: Vec<Option<i64>> = reports
        .skip_while(|report| count(report) != Some(2))
        .take_while(|report| !is_gone(report))
        .map(count)
        .collect();
    assert!(counts.iter().all(|count| *count == Some(2)), "{counts:?}");
    let gone = scene.reports.iter().find(|report| is_gone(report));
    assert_eq!(gone.and_then(count), Some(1));
    assert!(place.file(&kept).exists() && !place.file(&dropped).exists());
}

/// A peer that names a wrong size and sends its artifact without end.
struct Liar;

impl Service for Liar {
    fn call(&self, call: IncomingCall<'_>) {
        match call.method() {
            "fetchArtifacts" => call.serve(|args: BistroWorkerFetchArtifactsArgs, responder| {
                let piece = |range: &ArtifactRange| ArtifactPiece {
                    bytes: Some(vec![0]),
                    size: range.offset.map(|offset| offset + 2),
                };
                responder.reply(&BistroWorkerFetchArtifactsResult {
                    result_value: Some(ArtifactPieces {
                        busy: None,
                        pieces: Some(args.ranges.iter().map(piece).collect()),
                        transfer: Some(1),
                    }),
                    ex: None,
                });
            }),
            _ => call.unknown_method(),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_lies_about_sizes_is_given_up() {
    let mut place = Place::open().await;
    let server = Server::bind("127.0.0.1:0".parse().expect("an address")).await;
    let stop = CancellationToken::new();
    let server = server
        .expect("a port")
        .serve(Liar, Limits::DEFAULT, stop.clone());
    let liar = peers::holder_at(server.local_addr().port());
    let artifact = Artifact {
        id: Some(vec![7; 32]),
        size: Some(1_000_000),
        form: Some("file".to_owned()),
    };
    let inputs = vec![input("in", &artifact, &[0])];
    let task = place.run("true", wants(&[], inputs, vec![liar])).await;
    place
        .stage
        .until("question for other holders", |scene| {
            let mut wanted = scene
                .reports
                .iter()
                .flat_map(|report| report.wanted.iter().flatten());
            wanted.next().is_some()
        })
        .await;
    assert_eq!(place.stage.kill(&task, KillRequest::default()).await, None);
    place.end(&task).await;
    stop.cancel();
    server.shutdown().await;
}

/// Both sides of a transfer of many artifacts know how fast their disks are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reports_have_the_times_of_disks() {
    const FILES: usize = 260;
    let (mut maker, mut user) = (Place::open().await, Place::open().await);
    let script = format!("for i in $(seq {FILES}); do echo $i > $i; done");
    let paths: Vec<String> = (1..=FILES).map(|number| number.to_string()).collect();
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let task = maker.leave(&script, &paths).await;
    let (status, outputs) = maker.end(&task).await;
    assert_eq!(outputs.len(), FILES, "{status}");
    let artifacts = outputs.iter().map(|output| output.artifact.as_ref());
    let named = artifacts.map(|artifact| artifact.expect("it is named"));
    let inputs = paths.iter().zip(named);
    let inputs = inputs.map(|(path, artifact)| input(path, artifact, &[0]));
    let inputs = inputs.collect();
    let holder = maker.holder().await;
    let task = user.run("true", wants(&[], inputs, vec![holder])).await;
    let (status, _) = user.end(&task).await;
    assert!(status.contains("result_bits"), "{status}");
    for (place, is_read) in [(&mut maker, true), (&mut user, false)] {
        place.make("echo more > out", "out").await;
        let has_times = |report: &ArtifactsReport| {
            let disk = report.disks.iter().flatten().next();
            let times = disk.map(|disk| (disk.flush_micros, disk.fetch_micros));
            times.is_some_and(|(flush, fetch)| flush > Some(0) && (fetch > Some(0)) == is_read)
        };
        place
            .stage
            .until("report of times", |scene| {
                scene.reports.iter().any(has_times)
            })
            .await;
    }
}

/// A transfer goes on while others are refused, and one of the same host has a place of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_transfers_are_served_than_the_flag_says() {
    let mut place = Place::open_with(|_| vec!["--artifact-transfers=1".to_owned()]).await;
    let artifact = place.make("echo some bytes > out", "out").await;
    let holder = place.holder().await;
    let address = holder.address.expect("an address");
    let host = address.ip_or_host.expect("a host");
    let port = u16::try_from(address.port.expect("a port")).expect("a port");
    let peer = PeerAddr::new(&host, port);
    let pool = ClientPool::new(ClientConfig::default());
    let ask = async |transfer: i64, hostname: &str, offset: i64| {
        let arguments = BistroWorkerFetchArtifactsArgs {
            cluster: CLUSTER.to_owned(),
            ranges: vec![ArtifactRange {
                id: artifact.id.clone(),
                offset: Some(offset),
            }],
            most_bytes: 4,
            transfer,
            hostname: hostname.to_owned(),
        };
        let call =
            pool.call::<_, BistroWorkerFetchArtifactsResult>(&peer, "fetchArtifacts", &arguments);
        match call.await {
            CallResult::Done(answer) => answer.result_value.expect("an answer"),
            failed => panic!("{failed:?}"),
        }
    };
    let first = ask(0, "elsewhere", 0).await;
    let transfer = first.transfer.expect("a number");
    assert_eq!(ask(0, "another", 0).await.busy, Some(true));
    assert_eq!(ask(transfer, "elsewhere", 4).await.busy, None);
    let own = holder.hostname.expect("a name");
    assert_eq!(ask(0, &own, 0).await.busy, None);
    assert_eq!(ask(0, &own, 0).await.busy, Some(true));
    // The last byte ends the transfer.
    assert_eq!(ask(transfer, "elsewhere", 8).await.busy, None);
    assert_eq!(ask(0, &own, 0).await.busy, None);
    assert_eq!(ask(0, &own, 0).await.busy, Some(true));
    // A call that the last one has overtaken belongs to the transfer, although others have its place.
    let late = ask(transfer, "elsewhere", 4).await;
    assert_eq!((late.busy, late.transfer), (None, Some(transfer)));
    let bytes = late.pieces.expect("pieces")[0].bytes.clone();
    assert_eq!(bytes.as_deref(), Some(&b" byt"[..]));
    place.make("echo more > out", "out").await;
    let bytes_served = Some(4 + 4 + 4 + 3 + 4 + 4);
    place
        .stage
        .until("count of transfers", |scene| {
            let counters = scene
                .reports
                .last()
                .and_then(|report| report.counters.as_ref());
            counters.is_some_and(|all| {
                (all.transfers_served, all.bytes_served) == (Some(3), bytes_served)
            })
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_of_two_clusters_do_not_mix() {
    let mut place = Place::open().await;
    let nowhere = Artifact {
        id: Some(vec![7; 32]),
        size: Some(1),
        form: Some("file".to_owned()),
    };
    let waits = || wants(&[], vec![input("in", &nowhere, &[])], vec![]);
    let first = place.run("true", waits()).await;
    let other = TaskArtifacts {
        cluster: Some("another".to_owned()),
        ..waits()
    };
    let second = place.run("true", other).await;
    let (status, _) = place.end(&second).await;
    assert!(status.contains("another cluster"), "{status}");
    assert_eq!(place.stage.kill(&first, KillRequest::default()).await, None);
    place.end(&first).await;
}
