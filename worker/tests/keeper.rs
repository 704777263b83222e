//! The keeper with real processes: whatever ends the program or the keeper, nothing that they started stays alive.
//!
//! This program plays all parts, so it has no test harness: started without [`ROLE`] it runs the cases below, with it it is
//! the program to be kept.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use brasserie_worker::keeper::{become_keeper_or_continue, marker};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::{Pid, getpid, getppid};

const ROLE: &str = "KEEPER_TEST_ROLE";
/// What is promised: the kill wait is over, and a second.
const PROMISE: Duration = Duration::from_secs(1);
/// For things that happen at once unless the machine is very busy.
const SOON: Duration = Duration::from_secs(10);

type Case = (&'static str, fn());

const CASES: [Case; 6] = [
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
];

fn main() -> ExitCode {
    if let Ok(role) = std::env::var(ROLE) {
        become_keeper_or_continue().expect("kept");
        return play(&role);
    }
    // What `cargo test` passes: a filter, and flags that a harness would take.
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
        other => panic!("no role {other}"),
    }
}

/// Starts a task, a grandchild in a session of its own, and an orphan of that kind; tells all ids.
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
        let me = std::env::current_exe().expect("this file");
        let mut keeper = Command::new(me)
            .args(arguments)
            .env(ROLE, role)
            .stdout(Stdio::piped())
            .spawn()
            .expect("started");
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
