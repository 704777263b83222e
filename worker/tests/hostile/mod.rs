//! Tests hostile tasks: the worker survives, the task's end explains what happened, and nothing is left behind.

mod output;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use brasserie_thrift::generated::common::{
    CGroupOptions, KillMethod, KillRequest, ResourceLimit, TaskPhysicalResources,
    TaskSubprocessOptions,
};
use brasserie_worker::groups::mounts::{parse_membership, parse_mounts};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::DONE_BITS;
use super::fake::{Stage, children_of, is_alive, pid_in, until_dead};
use super::hang::{HangingFile, until_it_hangs};

/// The default kill wait of a worker's end, and a second.
const KILL_WAIT_AND_A_SECOND: Duration = Duration::from_secs(6);
/// The longest wait of any test; only a failing one reaches it.
const PATIENCE: Duration = Duration::from_secs(30);
/// The pause between two scans of many processes.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// Closes the status pipe, whose number may have more digits than `dash` accepts.
const CLOSE_STATUS: &str = r#"eval "exec ${BRASSERIE_STATUS#/dev/fd/}>&-""#;

fn at_once() -> KillRequest {
    KillRequest {
        method: Some(KillMethod::KILL),
        kill_wait_ms: None,
        reason: None,
    }
}

fn bash(script: &str) -> Vec<String> {
    ["bash", "-c", script, "bash"].map(str::to_owned).to_vec()
}

fn job_file(dir: &Path, name: &str) -> PathBuf {
    dir.join("jobs/job").join(name)
}

/// Checks that the worker still works: a task succeeds.
async fn serves(stage: &mut Stage, node: &str) {
    let task = stage.task("job", node);
    stage.run(&task, "true").await.expect("accepted");
    let status = stage.end_of(&task).await;
    assert!(status.contains(DONE_BITS), "{status}");
}

/// Ends the worker by SIGTERM, and checks its exit code.
async fn end(stage: Stage) {
    kill(stage.keeper(), Signal::SIGTERM).expect("sent");
    assert_eq!(stage.code().await, Some(0));
}

fn resident_bytes(process: Pid) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("it lives");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok());
    number.expect("a number of kB") * 1024
}

/// Returns all descendants by one scan of all processes, because each scan takes time for every process of the machine.
fn descendants(of: Pid) -> Vec<Pid> {
    let mut children: BTreeMap<i32, Vec<Pid>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").expect("/proc").flatten() {
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let parent = rest.split_ascii_whitespace().nth(1);
        let pid = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        if let (Some(parent), Some(pid)) = (parent.and_then(|p| p.parse().ok()), pid) {
            children.entry(parent).or_default().push(Pid::from_raw(pid));
        }
    }
    let mut found = vec![of];
    let mut looked = 0;
    while let Some(parent) = found.get(looked) {
        let next = children.remove(&parent.as_raw());
        looked += 1;
        found.extend(next.unwrap_or_default());
    }
    found.split_off(1)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn daemons_end_with_their_task_and_not_before() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut stage = Stage::open(dir.path(), &[]).await;
    stage.join().await;
    let worker = stage.worker_process();
    // Both processes are forked twice with sessions of their own. One holds the pipes, the other has closed them all.
    let script = format!(
        "(setsid sh -c 'echo $$ > holding; exec sleep 1000' &); \
         ({CLOSE_STATUS}; exec </dev/null >/dev/null 2>&1; setsid sh -c 'echo $$ > silent; exec sleep 1000' &); \
         until [ -s go ]; do sleep 0.05; done"
    );
    let task = stage.task("job", "node");
    stage
        .run_command(&task, bash(&script))
        .await
        .expect("accepted");
    let holding = pid_in(&job_file(dir.path(), "holding")).await;
    let silent = pid_in(&job_file(dir.path(), "silent")).await;
    for orphan in [holding, silent] {
        // The worker checks for orphans once a second; these may live as long as their task.
        let adopted = async {
            while !children_of(worker).contains(&orphan) {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, adopted)
            .await
            .expect("the worker adopts it");
    }
    tokio::time::sleep(Duration::from_millis(1200)).await;
    assert!(is_alive(holding) && is_alive(silent));
    fs::write(job_file(dir.path(), "go"), "go").expect("written");
    let status = stage.end_of(&task).await;
    assert!(status.contains(DONE_BITS), "{status}");
    assert!(
        !is_alive(holding) && !is_alive(silent),
        "they outlived their task"
    );
    serves(&mut stage, "after").await;
    assert_eq!(children_of(worker), []);
    end(stage).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_that_shed_its_session_and_environment_dies_with_its_task() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut stage = Stage::open(dir.path(), &[]).await;
    stage.join().await;
    let other = stage.task("job", "other");
    stage
        .run(&other, "exec sleep 1000")
        .await
        .expect("accepted");
    let script = format!(
        "{CLOSE_STATUS}; (exec </dev/null >/dev/null 2>&1; \
         setsid env -i sh -c '(echo $$ > shell; sh -c \"echo \\$\\$ > bare; exec sleep 1000\" &)' ); \
         until [ -s go ]; do sleep 0.05; done"
    );
    let task = stage.task("job", "node");
    // A requested limit does not remove the mark.
    let unlimited = ResourceLimit {
        name: Some("locks".to_owned()),
        soft: Some(-1),
        hard: Some(-1),
    };
    let options = TaskSubprocessOptions {
        limits: Some(vec![unlimited]),
        ..TaskSubprocessOptions::default()
    };
    stage
        .run_with(&task, bash(&script), options)
        .await
        .expect("accepted");
    let bare = pid_in(&job_file(dir.path(), "bare")).await;
    fs::write(job_file(dir.path(), "go"), "go").expect("written");
    let status = stage.end_of(&task).await;
    assert!(status.contains(DONE_BITS), "{status}");
    assert!(!is_alive(bare), "a task has ended whose daemon is alive");
    assert_eq!(stage.kill(&other, at_once()).await, None);
    stage.end_of(&other).await;
    serves(&mut stage, "after").await;
    end(stage).await;
}

/// Makes a sibling of itself, which leaves the session, and ends.
const SIBLING: &str = "\
import ctypes, os, time
CLONE_PARENT, SIGCHLD = 0x8000, 17
call = {'x86_64': 56, 'aarch64': 220}[os.uname().machine]
if ctypes.CDLL(None).syscall(call, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0) == 0:
    os.setsid()
    for fd in range(256):
        try: os.close(fd)
        except OSError: pass
    open('sibling', 'w').write('%d\\n' % os.getpid())
    time.sleep(1000)
while not os.path.exists('go'): time.sleep(0.02)
os._exit(0)
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sibling_of_a_task_dies_with_it() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut stage = Stage::open(dir.path(), &[]).await;
    stage.join().await;
    let worker = stage.worker_process();
    let task = stage.task("job", "node");
    let python = ["python3", "-I", "-c", SIBLING].map(str::to_owned);
    stage
        .run_command(&task, python.to_vec())
        .await
        .expect("accepted");
    let sibling = pid_in(&job_file(dir.path(), "sibling")).await;
    fs::write(job_file(dir.path(), "go"), "go").expect("written");
    stage.end_of(&task).await;
    assert!(!is_alive(sibling), "the task has ended, and it is alive");
    assert_eq!(children_of(worker), [], "nobody has collected it");
    end(stage).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_whose_parents_die_at_the_end_of_its_task_dies_with_it() {
    const TASKS: usize = 40;
    let dir = tempfile::tempdir().expect("a folder");
    let mut stage = Stage::open(dir.path(), &[]).await;
    stage.join().await;
    let worker = stage.worker_process();
    // Each daemon has a line of parents, which die one after the other while the worker scans for the rest of the task.
    let script = "exec </dev/null >/dev/null 2>&1; for i in 1 2 3 4 5 6 7 8; do \
                  setsid sh -c 'sh -c \"sh -c \\\"sleep 7654 & true\\\" & true\" & true' & done";
    for number in 0..TASKS {
        let task = stage.task("job", &format!("n{number}"));
        let script = format!("{CLOSE_STATUS}; {script}");
        stage
            .run_command(&task, bash(&script))
            .await
            .expect("accepted");
        stage.end_of(&task).await;
        let left = children_of(worker);
        let alive: Vec<_> = left.into_iter().filter(|pid| is_alive(*pid)).collect();
        assert_eq!(alive, [], "a task has ended, and they are alive");
    }
    end(stage).await;
}

/// Returns the hold time in the list of process groups, by the clock that counts suspend.
fn held_until(data_dir: &Path) -> Duration {
    let header = fs::read(data_dir.join("groups")).unwrap_or_default();
    let nanos = header.get(8..16).and_then(|bytes| bytes.try_into().ok());
    Duration::from_nanos(nanos.map_or(0, u64::from_le_bytes))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_without_marks_whose_shell_is_dead_is_ended_before_the_next_worker_joins() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut stage = Stage::open(dir.path(), &[]).await;
    stage.join().await;
    let script =
        "env -i sleep 7777 >/dev/null 2>&1 </dev/null & echo $! > bare; echo $$ > shell; wait";
    let task = stage.task("job", "node");
    stage.run(&task, script).await.expect("accepted");
    let bare = pid_in(&job_file(dir.path(), "bare")).await;
    let shell = pid_in(&job_file(dir.path(), "shell")).await;
    let clock = nix::time::ClockId::CLOCK_BOOTTIME;
    let started = Duration::from(nix::time::clock_gettime(clock).expect("a clock"));
    let listed = async {
        // The hold time must be later by a tick of the clock that counts starts.
        while held_until(dir.path()) < started + Duration::from_millis(20) {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    tokio::time::timeout(PATIENCE, listed)
        .await
        .expect("the worker says that it holds the number");
    next_worker_ends(dir.path(), stage, [shell, bare]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_without_session_and_environment_is_ended_before_the_next_worker_joins() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut stage = Stage::open(dir.path(), &[]).await;
    stage.join().await;
    let script = "setsid env -i sh -c 'echo $$ > bare; exec sleep 7777' </dev/null >/dev/null 2>&1 & \
                  echo $$ > shell; wait";
    let task = stage.task("job", "node");
    stage.run(&task, script).await.expect("accepted");
    let bare = pid_in(&job_file(dir.path(), "bare")).await;
    let shell = pid_in(&job_file(dir.path(), "shell")).await;
    next_worker_ends(dir.path(), stage, [shell, bare]).await;
}

/// Kills a worker and its keeper at once. The kernel kills the task's shell, and the next worker in the directory kills the other
/// process.
async fn next_worker_ends(dir: &Path, stage: Stage, [shell, bare]: [Pid; 2]) {
    let (keeper, worker) = (stage.keeper(), stage.worker_process());
    let is_contained = stage.is_contained();
    kill(keeper, Signal::SIGSTOP).expect("stopped");
    for process in [worker, keeper] {
        kill(process, Signal::SIGKILL).expect("killed");
    }
    stage.code().await;
    until_dead(shell, PATIENCE).await;
    match is_contained {
        // The kernel has ended the process with the namespace.
        true => until_dead(bare, PATIENCE).await,
        false => assert!(is_alive(bare), "nobody is left who could have ended it"),
    }
    let mut next = Stage::open(dir, &[]).await;
    next.join().await;
    assert!(
        !is_alive(bare),
        "the next worker takes tasks, and one of the last worker lives"
    );
    end(next).await;
}

/// Traces a process: its parent cannot reap it after a kill before the tracer is gone. A task can do that to itself.
const TRACER: &str = "\
import ctypes, signal, sys
libc = ctypes.CDLL(None, use_errno=True)
PTRACE_SEIZE = 0x4206
if libc.ptrace(PTRACE_SEIZE, int(sys.argv[1]), None, None) != 0:
    sys.exit('cannot trace: %d' % ctypes.get_errno())
open(sys.argv[2], 'w').write('traced\\n')
signal.pause()
";

/// A tracer that ends with the test, also if the test fails.
struct Tracer(std::process::Child);

impl Drop for Tracer {
    fn drop(&mut self) {
        // The tracer may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_task_that_hangs_in_the_kernel_has_not_ended() {
    let Some(file) = HangingFile::mount() else {
        return;
    };
    let dir = tempfile::tempdir().expect("a folder");
    let mut stage = Stage::open(dir.path(), &[]).await;
    stage.join().await;
    let task = stage.task("job", "hangs");
    let script = "echo $$ > id; exec \"$@\"";
    let command = [bash(script), file.command()].concat();
    stage.run_command(&task, command).await.expect("accepted");
    let process = pid_in(&job_file(dir.path(), "id")).await;
    until_it_hangs(process);
    assert_eq!(stage.kill(&task, at_once()).await, None);
    let is_killed = || {
        let status = fs::read_to_string(format!("/proc/{process}/status")).expect("it lives");
        let pending = status.lines().find_map(|line| line.strip_prefix("ShdPnd:"));
        let pending = u64::from_str_radix(pending.expect("shown").trim(), 16).expect("a number");
        pending & 1 << (Signal::SIGKILL as u32 - 1) != 0
    };
    tokio::time::timeout(PATIENCE, async {
        while !is_killed() {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    })
    .await
    .expect("the worker kills it");
    // The worker continues, and its next report contains no end of the task.
    serves(&mut stage, "other").await;
    let is_told = stage
        .scene
        .borrow()
        .statuses
        .iter()
        .any(|told| told.running_task.invocation_id == task.invocation_id);
    assert!(!is_told, "a task has ended whose process is alive");
    drop(file);
    let status = stage.end_of(&task).await;
    assert!(!is_alive(process), "{status}");
    end(stage).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_has_not_ended_while_a_killed_process_of_it_cannot_be_collected() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut stage = Stage::open(dir.path(), &[]).await;
    stage.join().await;
    // Both are found by the mark of their task; the second has cleared its environment.
    for (node, environment) in [("marked", ""), ("bare", "env -i")] {
        let script = format!(
            "({CLOSE_STATUS}; exec </dev/null >/dev/null 2>&1; \
             setsid {environment} sh -c '(setsid sh -c \"echo \\$\\$ > {node}; exec sleep 1000\" &)' &); \
             until [ -s go-{node} ]; do sleep 0.05; done"
        );
        let task = stage.task("job", node);
        let run = stage.run_command(&task, bash(&script));
        run.await.expect("accepted");
        let stray = pid_in(&job_file(dir.path(), node)).await;
        let traced = dir.path().join(format!("traced-{node}"));
        let tracer = std::process::Command::new("python3")
            .args(["-I", "-c", TRACER, &stray.to_string()])
            .arg(&traced)
            .spawn();
        let mut tracer = Tracer(tracer.expect("python3"));
        let tracing = async {
            while !traced.exists() {
                if let Ok(Some(status)) = tracer.0.try_wait() {
                    eprintln!("unproven here: {status}");
                    return false;
                }
                tokio::time::sleep(LOOK_AGAIN).await;
            }
            true
        };
        let is_traced = tracing.await;
        fs::write(job_file(dir.path(), &format!("go-{node}")), "go").expect("written");
        if is_traced {
            tokio::time::timeout(PATIENCE, async {
                while is_alive(stray) {
                    tokio::time::sleep(LOOK_AGAIN).await;
                }
            })
            .await
            .expect("it is killed");
            // The wait is twice as long as an earlier version delayed the end at most.
            tokio::time::sleep(Duration::from_secs(2)).await;
            let ended = stage
                .scene
                .borrow()
                .statuses
                .iter()
                .any(|told| told.running_task.invocation_id == task.invocation_id);
            assert!(
                !ended,
                "a task has ended whose process is not known to be dead"
            );
        }
        drop(tracer);
        let status = stage.end_of(&task).await;
        assert!(status.contains(DONE_BITS), "{status}");
    }
    end(stage).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_9_of_a_worker_ends_its_tasks_while_its_keeper_is_stopped() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut stage = Stage::open(dir.path(), &[]).await;
    stage.join().await;
    let task = stage.task("job", "node");
    let script = "echo $$ > alone; exec env -i sleep 1000";
    stage.run(&task, script).await.expect("accepted");
    let alone = pid_in(&job_file(dir.path(), "alone")).await;
    let (keeper, worker) = (stage.keeper(), stage.worker_process());
    kill(keeper, Signal::SIGSTOP).expect("stopped");
    kill(worker, Signal::SIGKILL).expect("killed");
    until_dead(alone, PATIENCE).await;
    kill(keeper, Signal::SIGCONT).expect("it goes on");
    assert_eq!(stage.code().await, Some(128 + 9));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_stubborn_and_deaf_tasks_end_as_told() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut stage = Stage::open(dir.path(), &[]).await;
    stage.join().await;
    let [stopped, stubborn] = ["stopped", "stubborn"].map(|node| stage.task("job", node));
    let script = "sh -c 'echo $$ > frozen; kill -STOP $$' & echo $$ > stopped; kill -STOP $$; wait";
    stage.run(&stopped, script).await.expect("accepted");
    let script = "trap '' TERM; echo $$ > stubborn; while :; do sleep 1000; done";
    stage.run(&stubborn, script).await.expect("accepted");
    let mut pids = Vec::new();
    for name in ["frozen", "stopped", "stubborn"] {
        pids.push(pid_in(&job_file(dir.path(), name)).await);
    }
    let request = KillRequest {
        method: Some(KillMethod::TERM_WAIT_KILL),
        kill_wait_ms: Some(100),
        reason: None,
    };
    for task in [&stopped, &stubborn] {
        assert_eq!(stage.kill(task, request.clone()).await, None);
        let status = stage.end_of(task).await;
        assert!(status.contains("ended by the worker"), "{status}");
    }
    for pid in pids {
        assert!(!is_alive(pid), "process {pid}");
    }
    // A task without any descriptor cannot report a status; its exit still counts.
    let script = format!("{CLOSE_STATUS}; exec <&- >&- 2>&-; sleep 0.1; exit 7");
    let closed = stage.task("job", "closed");
    stage
        .run_command(&closed, bash(&script))
        .await
        .expect("accepted");
    let status = stage.end_of(&closed).await;
    assert!(status.contains("exited with code 7"), "{status}");
    serves(&mut stage, "after").await;
    end(stage).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_is_removed_fails_the_next_start_by_name_and_not_the_running_one() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut stage = Stage::open(dir.path(), &[]).await;
    stage.join().await;
    let program = dir.path().join("program");
    fs::copy("/bin/sleep", &program).expect("copied");
    let path = program.to_str().expect("UTF-8").to_owned();
    let [running, late] = ["running", "late"].map(|node| stage.task("job", node));
    // `sleep` accepts none of the added arguments, so a shell runs it.
    let script = format!("echo $$ > pid; {path} 0.3");
    stage.run(&running, &script).await.expect("accepted");
    pid_in(&job_file(dir.path(), "pid")).await;
    fs::remove_file(&program).expect("removed");
    stage
        .run_command(&late, vec![path.clone()])
        .await
        .expect("accepted");
    let status = stage.end_of(&late).await;
    assert!(
        status.contains(&format!("{path} does not exist")),
        "{status}"
    );
    stage.end_of(&running).await;
    serves(&mut stage, "after").await;
    end(stage).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn floods_neither_fill_memory_nor_hold_up_other_tasks() {
    let dir = tempfile::tempdir().expect("a folder");
    let flags = ["--log-max-size", "64M"];
    let mut stage = Stage::open(dir.path(), &flags).await;
    stage.join().await;
    let worker = stage.worker_process();
    let [line, lines] = ["line", "lines"].map(|node| stage.task("job", node));
    stage
        .run(&line, "exec cat /dev/zero")
        .await
        .expect("accepted");
    stage.run(&lines, "exec yes").await.expect("accepted");
    let until = Instant::now() + Duration::from_secs(2);
    let mut round = 0;
    while Instant::now() < until {
        round += 1;
        serves(&mut stage, &format!("between {round}")).await;
        let resident = resident_bytes(worker);
        assert!(resident < 256 << 20, "{resident} bytes");
    }
    for task in [&line, &lines] {
        assert_eq!(stage.kill(task, at_once()).await, None);
        let status = stage.end_of(task).await;
        assert!(status.contains("ended by the worker"), "{status}");
    }
    assert_eq!(children_of(worker), []);
    end(stage).await;
}

/// A group of the pids controller for the worker, removed at the end.
struct Pids(PathBuf);

impl Pids {
    /// Makes the group and moves `process` into it. `None` if this process may use no such controller: then the test proves nothing here.
    fn around(process: Pid, max: u32) -> Option<Self> {
        let name = format!("brasserie-test-{}-{process}", std::process::id());
        let path = Path::new("/sys/fs/cgroup/pids").join(name);
        fs::create_dir(&path).ok()?;
        let group = Pids(path);
        fs::write(group.0.join("cgroup.procs"), process.to_string()).ok()?;
        fs::write(group.0.join("pids.max"), max.to_string()).ok()?;
        Some(group)
    }

    fn refusals(&self) -> u64 {
        let events = fs::read_to_string(self.0.join("pids.events")).expect("readable");
        let number = events
            .strip_prefix("max ")
            .and_then(|n| n.trim().parse().ok());
        number.expect("a number")
    }

    fn members(&self) -> usize {
        let members = fs::read_to_string(self.0.join("cgroup.procs")).expect("readable");
        members.lines().count()
    }
}

impl Drop for Pids {
    fn drop(&mut self) {
        // Its members die with the stage, but the kernel may remove them a moment later.
        let until = Instant::now() + PATIENCE;
        while fs::remove_dir(&self.0).is_err() && Instant::now() < until {
            std::thread::yield_now();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fork_bomb_fills_its_group_and_is_ended_whole() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut stage = Stage::open(dir.path(), &[]).await;
    stage.join().await;
    let worker = stage.worker_process();
    let Some(pids) = Pids::around(worker, 150) else {
        eprintln!("unproven here: there is no pids controller that may be used");
        return end(stage).await;
    };
    // The bomb makes generations of daemons, each in a session of its own; the shell keeps trying for a while.
    let bomb = stage.task("job", "bomb");
    let script = "while :; do setsid sleep 1000 & done 2>/dev/null";
    stage
        .run_command(&bomb, bash(script))
        .await
        .expect("accepted");
    let full = async {
        while pids.refusals() == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, full)
        .await
        .expect("it fills the group");
    let refused = stage.task("job", "refused");
    stage.run(&refused, "true").await.expect("accepted");
    let status = stage.end_of(&refused).await;
    assert!(
        status.contains("no more processes may be created"),
        "{status}"
    );
    assert_eq!(stage.kill(&bomb, at_once()).await, None);
    let status = stage.end_of(&bomb).await;
    assert!(status.contains("ended by the worker"), "{status}");
    let alone = async {
        while pids.members() > 1 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, alone)
        .await
        .expect("all of it is dead");
    serves(&mut stage, "after").await;
    end(stage).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_9_of_a_worker_ends_a_hundred_tasks_of_three_processes_in_time() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut stage = Stage::open(dir.path(), &[]).await;
    stage.join().await;
    let worker = stage.worker_process();
    let script = "setsid env -i sleep 1000 & sleep 1000 & exec sleep 1000";
    for number in 0..100 {
        let task = stage.task("job", &number.to_string());
        stage.run(&task, script).await.expect("accepted");
    }
    let until = Instant::now() + 2 * PATIENCE;
    let mut all = descendants(worker);
    while all.len() < 300 {
        assert!(Instant::now() < until, "only {} processes", all.len());
        tokio::time::sleep(LOOK_AGAIN).await;
        all = descendants(worker);
    }
    let killed = Instant::now();
    kill(worker, Signal::SIGKILL).expect("killed");
    while all.iter().any(|pid| is_alive(*pid)) {
        all.retain(|pid| is_alive(*pid));
        let (left, since) = (all.len(), killed.elapsed());
        assert!(
            since < KILL_WAIT_AND_A_SECOND,
            "{left} alive after {since:?}"
        );
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    println!("all dead after {:?}", killed.elapsed());
    assert_eq!(stage.code().await, Some(128 + 9));
}

/// Returns the folders of a process's groups that the worker made.
fn task_groups(process: Pid) -> Vec<PathBuf> {
    let text = |name: &str| fs::read_to_string(format!("/proc/{process}/{name}"));
    let (Ok(mounts), Ok(own)) = (text("mountinfo"), text("cgroup")) else {
        return Vec::new();
    };
    let own = parse_membership(&own);
    let places = own.legacy.values().chain(&own.unified);
    let places: Vec<&String> = places.filter(|path| path.contains("/brasserie/")).collect();
    let mounts = parse_mounts(&mounts);
    let found = mounts
        .iter()
        .flat_map(|mount| places.iter().filter_map(|path| mount.locate(path)));
    found.filter(|folder| folder.is_dir()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_9_of_a_worker_ends_and_removes_the_control_groups_of_its_tasks() {
    const TASKS: usize = 8;
    let dir = tempfile::tempdir().expect("a folder");
    let mut stage = Stage::open(dir.path(), &[]).await;
    stage.join().await;
    let worker = stage.worker_process();
    let options = TaskSubprocessOptions {
        cgroup_options: Some(CGroupOptions {
            memory_limit_in_bytes: Some(256 << 20),
            pids_max: Some(50),
            ..CGroupOptions::default()
        }),
        ..TaskSubprocessOptions::default()
    };
    // One of the three processes has left the process group, the session, its parent and its environment.
    let script = "(setsid env -i sleep 1000 &) ; sleep 1000 & exec sleep 1000";
    let mut tasks = Vec::new();
    for number in 0..TASKS {
        let task = stage.task("job", &number.to_string());
        let run = stage.run_with(&task, bash(script), options.clone());
        run.await.expect("accepted");
        tasks.push(task);
    }
    let until = Instant::now() + PATIENCE;
    let groups: BTreeSet<PathBuf> = loop {
        let processes = descendants(worker);
        if processes.len() == 3 * TASKS {
            break processes.into_iter().flat_map(task_groups).collect();
        }
        let scene = stage.until("a word", |_| true).await;
        let mut told = scene.statuses.iter().map(|told| &told.status);
        if let Some(refusal) = told.find(|status| status.contains("control groups")) {
            eprintln!("unproven here: {refusal}");
            return end(stage).await;
        }
        assert!(Instant::now() < until, "{processes:?}");
        tokio::time::sleep(LOOK_AGAIN).await;
    };
    assert!(groups.len() >= 2 * TASKS, "{groups:?}");
    // The worker reports the groups' counts while the tasks run.
    let counted = async {
        loop {
            let running = stage.fetch().await;
            let mut used = running.iter().map(|task| task.physical_resources.as_ref());
            let peak = |used: &TaskPhysicalResources| {
                let (now, peak) = (used.memory_mb?.0, used.peak_memory_mb?.0);
                (0.0 < now && now <= peak && peak < 256.0).then_some(())
            };
            if used.all(|used| used.and_then(peak).is_some()) {
                return;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    let counted = tokio::time::timeout(PATIENCE, counted).await;
    counted.expect("each task's memory, now and at most, is told");

    let all = descendants(worker);
    let killed = Instant::now();
    kill(worker, Signal::SIGKILL).expect("killed");
    while let Some(left) = all.iter().find(|pid| is_alive(**pid)) {
        let since = killed.elapsed();
        assert!(
            since < KILL_WAIT_AND_A_SECOND,
            "{left} alive after {since:?}"
        );
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    assert_eq!(stage.code().await, Some(128 + 9));
    let left: Vec<&PathBuf> = groups.iter().filter(|group| group.exists()).collect();
    assert!(left.is_empty(), "{left:?}");
}
