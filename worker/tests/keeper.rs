//! Tests the keeper with real processes: whatever ends the program or the keeper, no process that they started stays alive.
//!
//! This program plays all parts, so it has no test harness. Without [`ROLE`] it runs the cases below; with it, it is the kept program.

mod hang;

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use brasserie_common::Time;
use brasserie_common::health::timeouts::KEEPER_DELAY;
use brasserie_common_runtime::Clock;
use brasserie_worker::keeper::lease::{Lease, Terms};
use brasserie_worker::{become_keeper_or_continue, marker};
use hang::{HangingFile, until_it_hangs};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, getpid, getppid, mkfifo};

const ROLE: &str = "KEEPER_TEST_ROLE";
const PLACES: &str = "KEEPER_TEST_PLACES";
/// The promised time after the end of the kill wait.
const PROMISE: Duration = Duration::from_secs(1);
/// The duration of a test's lease: longer than a busy machine needs to start a shell.
const LEASE: Duration = Duration::from_millis(700);
/// The time between SIGTERM and SIGKILL.
const KILL_WAIT: Duration = Duration::from_millis(300);
/// The time that the keeper gives a program to notice that all of its tasks are dead.
const SILENCE: Duration = Duration::from_secs(5);
/// The limit for things that happen at once unless the machine is very busy.
const SOON: Duration = Duration::from_secs(10);

type Case = (&'static str, fn());

const CASES: [Case; 21] = [
    (
        "the_program_sees_its_arguments_and_its_marker",
        arguments_arrive,
    ),
    ("the_exit_code_comes_through", the_exit_code_comes_through),
    ("kill_9_of_the_program_ends_all_descendants", killed_program),
    (
        "kill_9_of_the_keeper_reaches_the_program_as_sigterm",
        killed_keeper,
    ),
    ("signals_are_passed_on", signals_are_passed_on),
    ("pkill_by_the_programs_name_spares_the_keeper", names),
    (
        "a_stopped_program_and_its_tasks_are_dead_when_its_lease_is_over",
        stopped_program,
    ),
    (
        "a_program_that_hangs_while_it_dies_is_ended_too",
        hanging_program,
    ),
    (
        "a_lease_that_is_brought_forward_counts",
        lease_brought_forward,
    ),
    (
        "a_keeper_whose_log_is_blocked_ends_a_stopped_program_in_time",
        stopped_program_and_blocked_log,
    ),
    (
        "a_keeper_whose_log_is_blocked_ends_a_program_that_hangs_in_time",
        hanging_program_and_blocked_log,
    ),
    (
        "a_keeper_whose_log_is_blocked_ends_the_tasks_of_one_scheduler_in_time",
        one_of_two_and_blocked_log,
    ),
    (
        "a_keeper_whose_disk_hangs_ends_a_stopped_program_in_time",
        stopped_program_on_a_hanging_disk,
    ),
    (
        "a_keeper_whose_disk_hangs_ends_the_tasks_of_one_scheduler_in_time",
        one_of_two_on_a_hanging_disk,
    ),
    (
        "a_process_whose_environment_hangs_delays_no_keeper",
        one_of_two_beside_a_process_that_hangs,
    ),
    (
        "a_killed_process_that_hangs_in_the_kernel_counts_as_alive",
        task_that_hangs_in_the_kernel,
    ),
    ("a_program_that_renews_its_lease_lives", renewing_program),
    ("a_keeper_that_wakes_up_late_acts_at_once", late_keeper),
    (
        "a_stopped_program_with_two_schedulers_loses_the_tasks_of_one",
        one_of_two,
    ),
    (
        "a_program_that_hangs_while_the_time_of_both_schedulers_is_over_is_ended",
        none_of_two,
    ),
    (
        "a_program_that_notices_in_time_that_the_tasks_of_both_are_dead_lives",
        both_noticed,
    ),
];

fn main() -> ExitCode {
    if let Ok(role) = std::env::var(ROLE) {
        become_keeper_or_continue().expect("kept");
        return play(&role);
    }
    // `cargo test` passes a filter, and flags for a harness.
    let filter = std::env::args().skip(1).find(|a| !a.starts_with('-'));
    let is_listing = std::env::args().any(|a| a == "--list");
    for (name, case) in CASES {
        if is_listing {
            println!("{name}: test");
        } else if filter.as_ref().is_none_or(|f| name.contains(f.as_str())) {
            case();
            println!("test {name} ... ok");
        }
    }
    ExitCode::SUCCESS
}

// ---- the kept program ----

fn play(role: &str) -> ExitCode {
    match role {
        "arguments" => {
            let arguments: Vec<String> = std::env::args().collect();
            say(&format!("{arguments:?} {}", marker().is_some()));
            ExitCode::SUCCESS
        }
        "exit" => ExitCode::from(7),
        "tasks" => run_tasks(),
        "wait" => wait_for_term(),
        "lease" => live_on_a_lease(),
        "renew" => renew_for_a_while(),
        "two" => work_for_two(SOON * 100),
        "both" => work_for_two(Duration::ZERO),
        "task" => run_one_task(),
        other => panic!("no role {other}"),
    }
}

/// Starts a task, a grandchild in a session of its own, and an orphan in a session of its own; prints all ids.
fn run_tasks() -> ExitCode {
    let script = "sleep 1000 & echo $!; setsid sleep 1000 & echo $!; (setsid sleep 1000 & echo $!); echo $$; wait";
    let mut shell = Command::new("sh")
        .args(["-c", script])
        .env_remove("BRASSERIE_KEPT")
        .stdout(Stdio::piped())
        .spawn()
        .expect("a shell");
    let mut lines = BufReader::new(shell.stdout.take().expect("piped")).lines();
    let mut ids = vec![getpid().to_string()];
    for _ in 0..4 {
        ids.push(lines.next().expect("a line").expect("readable"));
    }
    say(&ids.join(" "));
    shell.wait().expect("waited");
    ExitCode::SUCCESS
}

/// Prints its own id, starts a task with the command line in its arguments, and never ends.
fn run_one_task() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    say(&getpid().to_string());
    let mut task = Command::new(&arguments[0]);
    let mut task = task.args(&arguments[1..]).spawn().expect("a task");
    task.wait().expect("one's own child");
    loop {
        std::thread::park();
    }
}

fn wait_for_term() -> ExitCode {
    let mut set = SigSet::empty();
    set.add(Signal::SIGTERM);
    set.add(Signal::SIGHUP);
    set.thread_block().expect("blocked");
    say(&format!("{} {}", getpid(), getppid()));
    let signal = set.wait().expect("a signal");
    say(signal.as_str());
    ExitCode::from(5)
}

/// Starts a task that survives SIGTERM and reports it, and takes a lease. Prints the task's id, its own, and the lease's end in
/// nanoseconds. Then does what its first argument says. The task prints the id of a descendant that left its group.
fn live_on_a_lease() -> ExitCode {
    let script = "trap 'echo told' TERM; setsid sleep 1000 & echo $!; while :; do wait; done";
    let mut task = Command::new("sh");
    let task = task.args(["-c", script]).process_group(0);
    let task = task.spawn().expect("a shell").id();
    let mut lease = Lease::of_this_process().expect("opened").expect("kept");
    let now = Clock.now();
    let until = now + LEASE;
    let how = std::env::args().nth(1).expect("an argument");
    tell_places(&lease);
    match how.as_str() {
        "stop" | "stop-both" => lease.renew(0, Terms::living(until, KILL_WAIT)),
        "hang-dying" => lease.renew(0, Terms::dying(until, KILL_WAIT)),
        "hurry" => {
            lease.renew(0, Terms::living(now + SOON * 100, KILL_WAIT));
            lease.renew(0, Terms::living(until, KILL_WAIT));
        }
        other => panic!("no way {other}"),
    }
    let (me, until) = (getpid(), until.as_nanos());
    say(&format!("{task} {me} {until}"));
    match how.as_str() {
        "stop" | "hurry" => kill(getpid(), Signal::SIGSTOP).expect("stopped"),
        "stop-both" => {
            kill(getppid(), Signal::SIGSTOP).expect("stopped");
            kill(getpid(), Signal::SIGSTOP).expect("stopped");
        }
        _ => {}
    }
    // The program must not end by itself.
    loop {
        std::thread::park();
    }
}

/// Renews its lease well beyond the first end.
fn renew_for_a_while() -> ExitCode {
    let mut lease = Lease::of_this_process().expect("opened").expect("kept");
    let end = Clock.now() + LEASE * 3;
    while Clock.now() < end {
        lease.renew(0, Terms::living(Clock.now() + LEASE, KILL_WAIT));
        std::thread::yield_now();
    }
    ExitCode::from(7)
}

/// Starts a task for each of two schedulers, each with a descendant that shed its marks and its session. Takes a short lease for the
/// second scheduler and one that is `longer` for the first. Prints its own id, those of the four processes, and the end of the second
/// lease, and stops. When it continues, it gives up the expired leases and reports that. If both leases were short, it ends when the
/// keeper would have ended it.
fn work_for_two(longer: Duration) -> ExitCode {
    let marker = std::env::var("BRASSERIE_KEPT").expect("kept");
    let script = "trap '' TERM; env -i \"$(command -v setsid)\" sleep 1000 & echo $!; while :; do wait; done";
    let mut ids = vec![getpid().to_string()];
    let mut tasks = Vec::new();
    for of in 0..2 {
        let mut task = Command::new("sh")
            .args(["-c", script])
            .env("BRASSERIE_KEPT_FOR", format!("{marker}:{of}"))
            .process_group(0)
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell");
        let mut lines = BufReader::new(task.stdout.take().expect("piped")).lines();
        ids.push(task.id().to_string());
        ids.push(lines.next().expect("a line").expect("readable"));
        tasks.push((task, lines));
    }
    let mut lease = Lease::of_this_process().expect("opened").expect("kept");
    tell_places(&lease);
    lease.tell_schedulers(2).expect("told");
    let until = Clock.now() + LEASE;
    lease.renew(0, Terms::living(until + longer, KILL_WAIT));
    lease.renew(1, Terms::living(until, KILL_WAIT));
    say(&format!("{} {}", ids.join(" "), until.as_nanos()));
    kill(getpid(), Signal::SIGSTOP).expect("stopped");
    lease.renew(1, Terms::NONE);
    if longer.is_zero() {
        lease.renew(0, Terms::NONE);
    }
    say("on");
    if longer.is_zero() {
        // The case depends on the program's life.
        std::thread::sleep(SILENCE + PROMISE);
        return ExitCode::from(7);
    }
    loop {
        std::thread::park();
    }
}

/// Stores the path of the file that lists control groups, if the case has one.
fn tell_places(lease: &Lease) {
    if let Some(file) = std::env::var_os(PLACES) {
        lease.tell_places(Path::new(&file)).expect("told");
    }
}

fn say(line: &str) {
    println!("{line}");
    std::io::stdout().flush().expect("flushed");
}

// ---- the cases ----

struct Kept {
    keeper: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Kept {
    fn start(role: &str, arguments: &[&str]) -> Self {
        Kept::start_logging(role, arguments, Stdio::inherit())
    }

    /// Starts a program whose data directory hangs: opening a FIFO without a writer blocks.
    fn start_on_hanging_disk(role: &str, arguments: &[&str]) -> (Self, tempfile::TempDir) {
        let folder = tempfile::tempdir().expect("a folder");
        for file in ["cgroups", "groups"] {
            mkfifo(&folder.path().join(file), Mode::S_IRWXU).expect("a FIFO");
        }
        let mut command = Kept::command(role, arguments);
        command.env(PLACES, folder.path().join("cgroups"));
        (Kept::of(command), folder)
    }

    fn command(role: &str, arguments: &[&str]) -> Command {
        let me = std::env::current_exe().expect("this file");
        let mut command = Command::new(me);
        command.args(arguments).env(ROLE, role);
        command
    }

    fn start_logging(role: &str, arguments: &[&str], log: Stdio) -> Self {
        let mut command = Kept::command(role, arguments);
        command.stderr(log);
        Kept::of(command)
    }

    fn of(mut command: Command) -> Self {
        let mut keeper = command.stdout(Stdio::piped()).spawn().expect("started");
        let lines = BufReader::new(keeper.stdout.take().expect("piped")).lines();
        Kept { keeper, lines }
    }

    fn line(&mut self) -> String {
        self.lines.next().expect("a line").expect("readable")
    }

    fn ids(&mut self) -> Vec<Pid> {
        let line = self.line();
        line.split(' ')
            .map(|id| Pid::from_raw(id.parse().expect("an id")))
            .collect()
    }

    fn keeper_id(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.keeper.id()).expect("an id"))
    }

    fn code(mut self) -> Option<i32> {
        self.keeper.wait().expect("it ends").code()
    }
}

fn alive(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|text| !text.contains(") Z "))
}

fn gone_within(pids: &[Pid], limit: Duration) -> bool {
    let start = Instant::now();
    while pids.iter().any(|pid| alive(*pid)) {
        if start.elapsed() > limit {
            return false;
        }
        std::thread::yield_now();
    }
    true
}

fn arguments_arrive() {
    let odd = ["", "a b", "100% \u{e9}", "--flag=\n"];
    let mut kept = Kept::start("arguments", &odd);
    // Debug output has no raw newline, so it is one line.
    let line = kept.line();
    for argument in odd {
        assert!(line.contains(&format!("{argument:?}")), "{line}");
    }
    assert!(line.ends_with("true"), "the marker is there: {line}");
    assert_eq!(kept.code(), Some(0));
}

fn the_exit_code_comes_through() {
    assert_eq!(Kept::start("exit", &[]).code(), Some(7));
}

fn killed_program() {
    let mut kept = Kept::start("tasks", &[]);
    let ids = kept.ids();
    assert!(ids.iter().all(|pid| alive(*pid)));
    kill(ids[0], Signal::SIGKILL).expect("killed");
    assert!(gone_within(&ids, PROMISE), "all of {ids:?} are gone");
    assert_eq!(kept.code(), Some(128 + 9));
}

fn killed_keeper() {
    let mut kept = Kept::start("wait", &[]);
    let ids = kept.ids();
    assert_eq!(ids[1], kept.keeper_id());
    kill(ids[1], Signal::SIGKILL).expect("killed");
    assert_eq!(kept.line(), "SIGTERM");
    assert!(gone_within(&ids[..1], SOON));
    assert_eq!(kept.code(), None);
}

fn signals_are_passed_on() {
    let mut kept = Kept::start("wait", &[]);
    kept.ids();
    kill(kept.keeper_id(), Signal::SIGHUP).expect("sent");
    assert_eq!(kept.line(), "SIGHUP");
    assert_eq!(kept.code(), Some(5));
}

fn names() {
    let mut kept = Kept::start("wait", &["--data-dir", "/var/lib/brasserie-worker"]);
    let ids = kept.ids();
    let command = |pid: Pid| std::fs::read_to_string(format!("/proc/{pid}/cmdline")).expect("read");
    assert!(command(ids[0]).contains("/var/lib/brasserie-worker"));
    assert_eq!(command(ids[1]), "brasserie-keeper\0");
    let short = |pid: Pid| std::fs::read_to_string(format!("/proc/{pid}/comm")).expect("read");
    assert_eq!(short(ids[1]), "brasserie-keepe\n");
    assert!(short(ids[0]).starts_with("keeper-"), "{}", short(ids[0]));
    kill(ids[0], Signal::SIGTERM).expect("sent");
    assert_eq!(kept.code(), Some(5));
}

/// A full pipe, and its reader.
struct FullPipe {
    reader: File,
    writer: File,
}

impl FullPipe {
    fn new() -> Self {
        let (reader, writer) = nix::unistd::pipe2(OFlag::O_CLOEXEC).expect("a pipe");
        let size = fcntl(&writer, FcntlArg::F_SETPIPE_SZ(4096)).expect("a small pipe");
        let mut writer = File::from(writer);
        let filling = vec![b'.'; usize::try_from(size).expect("a size")];
        writer.write_all(&filling).expect("there is room");
        FullPipe {
            reader: File::from(reader),
            writer,
        }
    }

    fn as_log(&self) -> Stdio {
        Stdio::from(self.writer.try_clone().expect("a descriptor is free"))
    }

    /// Returns whether the pipe is still full because nothing was read.
    fn is_full(&self) -> bool {
        let mut fds = [PollFd::new(self.writer.as_fd(), PollFlags::POLLOUT)];
        let has_room = poll(&mut fds, PollTimeout::ZERO).expect("polled") > 0;
        let mut fds = [PollFd::new(self.reader.as_fd(), PollFlags::POLLIN)];
        !has_room && poll(&mut fds, PollTimeout::ZERO).expect("polled") == 1
    }
}

/// A program with a lease.
struct Leased {
    kept: Kept,
    pids: Vec<Pid>,
    until: Time,
}

impl Leased {
    fn start(how: &str) -> Self {
        Leased::of(Kept::start("lease", &[how]))
    }

    fn of(mut kept: Kept) -> Self {
        // The lines of the program and of the task arrive in any order.
        let (one, two) = (kept.line(), kept.line());
        let (line, descendant) = match one.contains(' ') {
            true => (one, two),
            false => (two, one),
        };
        let (pids, until) = line.rsplit_once(' ').expect("several words");
        let pids = pids.split(' ').chain([descendant.as_str()]);
        let pids = pids.map(|id| id.parse().expect("an id"));
        Leased {
            kept,
            pids: pids.map(Pid::from_raw).collect(),
            until: Time::from_nanos(until.parse().expect("a time")),
        }
    }

    /// Waits until all processes are dead. None may die before the end of the lease. All must be dead when a scheduler relies on it: a
    /// second after the keeper's delay, which is for the machine.
    fn is_over_in_time(&self) {
        let by = self.until + KILL_WAIT + KEEPER_DELAY + PROMISE;
        loop {
            let alive = self.pids.iter().filter(|pid| alive(**pid)).count();
            // The time is taken after the check, so that a pause of this test does no harm.
            let now = Clock.now();
            if alive == 0 {
                assert!(now > self.until, "killed too early");
                break;
            }
            assert!(now <= by, "{alive} of {:?} are still alive", self.pids);
            std::thread::yield_now();
        }
    }
}

fn stopped_program() {
    let mut leased = Leased::start("stop");
    assert!(leased.pids.iter().all(|pid| alive(*pid)));
    assert_eq!(leased.kept.line(), "told");
    assert!(Clock.now() > leased.until, "told too early");
    leased.is_over_in_time();
    assert_eq!(leased.kept.code(), Some(1));
}

fn hanging_program() {
    let mut leased = Leased::start("hang-dying");
    leased.is_over_in_time();
    // The program itself had to send SIGTERM.
    assert!(leased.kept.lines.next().is_none());
    assert_eq!(leased.kept.code(), Some(1));
}

fn lease_brought_forward() {
    let leased = Leased::start("hurry");
    leased.is_over_in_time();
    assert_eq!(leased.kept.code(), Some(1));
}

fn stopped_program_and_blocked_log() {
    let pipe = FullPipe::new();
    let mut leased = Leased::of(Kept::start_logging("lease", &["stop"], pipe.as_log()));
    assert_eq!(leased.kept.line(), "told");
    leased.is_over_in_time();
    // The program's last line is lost; it ends anyway.
    assert_eq!(leased.kept.code(), Some(1));
    assert!(pipe.is_full());
}

fn hanging_program_and_blocked_log() {
    let pipe = FullPipe::new();
    let leased = Leased::of(Kept::start_logging("lease", &["hang-dying"], pipe.as_log()));
    leased.is_over_in_time();
    assert_eq!(leased.kept.code(), Some(1));
    assert!(pipe.is_full());
}

fn stopped_program_on_a_hanging_disk() {
    let (kept, _disk) = Kept::start_on_hanging_disk("lease", &["stop"]);
    let mut leased = Leased::of(kept);
    assert_eq!(leased.kept.line(), "told");
    leased.is_over_in_time();
    assert_eq!(leased.kept.code(), Some(1));
}

fn one_of_two_on_a_hanging_disk() {
    let (kept, _disk) = Kept::start_on_hanging_disk("two", &[]);
    tasks_of_one_end(kept);
}

fn one_of_two_beside_a_process_that_hangs() {
    let Some(file) = HangingFile::mount() else {
        return;
    };
    // This process belongs to none of the tasks.
    let arguments = file.command();
    let mut stranger = Command::new(&arguments[0]);
    stranger.args(&arguments[1..]);
    let mut stranger = Kept::of(stranger);
    until_it_hangs(stranger.ids()[0]);
    tasks_of_one_end(Kept::start("two", &[]));
    drop(file);
    stranger.code();
}

fn task_that_hangs_in_the_kernel() {
    let Some(file) = HangingFile::mount() else {
        return;
    };
    let arguments = file.command();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut command = Kept::command("task", &arguments);
    command.stderr(Stdio::piped());
    let mut kept = Kept::of(command);
    let log = kept.keeper.stderr.take().expect("piped");
    let (program, task) = (kept.ids()[0], kept.ids()[0]);
    until_it_hangs(task);
    kill(program, Signal::SIGKILL).expect("killed");
    let complaint = format!("do not die: {task} ");
    let mut log = BufReader::new(log).lines();
    let complains = log.any(|line| line.expect("readable").contains(&complaint));
    assert!(complains, "the keeper has ended");
    // Each round ends with a wait: 50 at the quick pace, and a dozen with growing pauses. Five seconds at the quick pace would have up to
    // 500.
    let waits = waits_of(kept.keeper_id());
    assert!(waits < 120, "{waits} waits");
    assert!(alive(task));
    assert_eq!(kept.keeper.try_wait().expect("waited"), None);
    drop(file);
    assert_eq!(kept.code(), Some(128 + 9));
    assert!(!alive(task));
}

/// Returns the number of waits of the keeper's main thread.
fn waits_of(process: Pid) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("it lives");
    let prefix = "voluntary_ctxt_switches:";
    let count = status.lines().find_map(|line| line.strip_prefix(prefix));
    count.expect("counted").trim().parse().expect("a number")
}

fn renewing_program() {
    assert_eq!(Kept::start("renew", &[]).code(), Some(7));
}

fn late_keeper() {
    let leased = Leased::start("stop-both");
    while Clock.now() <= leased.until + KILL_WAIT + KEEPER_DELAY {
        std::thread::yield_now();
    }
    // The keeper cannot help in this case.
    assert!(leased.pids.iter().all(|pid| alive(*pid)));
    kill(leased.kept.keeper_id(), Signal::SIGCONT).expect("sent");
    assert!(gone_within(&leased.pids, PROMISE));
    assert_eq!(leased.kept.code(), Some(1));
}

/// Returns the processes of a program with two schedulers (itself, and the task of each with a descendant), and the end of the second
/// lease.
fn with_two(kept: &mut Kept) -> (Vec<Pid>, Time) {
    let line = kept.line();
    let (ids, until) = line.rsplit_once(' ').expect("several words");
    let ids = ids.split(' ').map(|id| id.parse().expect("an id"));
    let ids = ids.map(Pid::from_raw).collect();
    (ids, Time::from_nanos(until.parse().expect("a time")))
}

/// Waits until these processes are dead, whose lease ends at `until`.
fn lost_in_time(lost: &[Pid], until: Time) {
    while lost.iter().any(|pid| alive(*pid)) {
        // The time is taken after the check, so that a pause of this test does no harm.
        let now = Clock.now();
        let by = until + KILL_WAIT + KEEPER_DELAY + PROMISE;
        assert!(now <= by, "some of {lost:?} are still alive");
        std::thread::yield_now();
    }
    assert!(Clock.now() > until, "killed too early");
}

fn one_of_two() {
    tasks_of_one_end(Kept::start("two", &[]));
}

fn one_of_two_and_blocked_log() {
    let pipe = FullPipe::new();
    tasks_of_one_end(Kept::start_logging("two", &[], pipe.as_log()));
    assert!(pipe.is_full());
}

fn tasks_of_one_end(mut kept: Kept) {
    let (ids, until) = with_two(&mut kept);
    let (spared, lost) = ids.split_at(3);
    lost_in_time(lost, until);
    // The program and the task of the other scheduler live.
    assert!(spared.iter().all(|pid| alive(*pid)), "{spared:?}");
    kill(ids[0], Signal::SIGCONT).expect("sent");
    assert_eq!(kept.line(), "on");
    assert!(spared.iter().all(|pid| alive(*pid)), "{spared:?}");
    kill(ids[0], Signal::SIGKILL).expect("killed");
    assert!(gone_within(&ids, SOON), "all of {ids:?} are gone");
    assert_eq!(kept.code(), Some(128 + 9));
}

fn none_of_two() {
    let mut kept = Kept::start("both", &[]);
    let (ids, until) = with_two(&mut kept);
    lost_in_time(&ids[1..], until);
    assert!(gone_within(&ids[..1], SILENCE + SOON), "it hangs for ever");
    assert!(Clock.now() > until + KILL_WAIT + SILENCE, "ended too early");
    assert_eq!(kept.code(), Some(1));
}

fn both_noticed() {
    let mut kept = Kept::start("both", &[]);
    let (ids, until) = with_two(&mut kept);
    lost_in_time(&ids[1..], until);
    kill(ids[0], Signal::SIGCONT).expect("sent");
    assert_eq!(kept.line(), "on");
    assert_eq!(kept.code(), Some(7));
}
