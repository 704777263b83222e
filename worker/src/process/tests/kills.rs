//! Tests kills: each method, stubborn children, whole groups, and descendants that hold pipes.

use brasserie_common::{EndedBy, Fault, KillMethod, KillRequest, ReportedStatus};

use super::*;
use crate::process::supervisor::ends::LINGER;

fn request(method: KillMethod, wait: Duration) -> KillRequest {
    KillRequest { method, wait }
}

/// Starts a script and waits until it reports that it is ready.
fn start(bench: &Bench, text: &str, from: StatusFrom) -> RunKey {
    let request = script(text, from);
    let key = request.key.clone();
    bench.runner.spawn(request).expect("accepted");
    bench.await_line(&key, "ready");
    key
}

const POLITE: &str = "echo ready; exec sleep 1000";
const STUBBORN: &str = "trap '' TERM; echo ready; while :; do sleep 1000; done";
/// Longer than any test may take.
const LONG: Duration = Duration::from_secs(3600);

#[test]
fn each_method_ends_a_task_and_costs_no_retry() {
    let mut bench = Bench::new();
    for (text, method, wait, signal, signalled) in [
        (
            POLITE,
            KillMethod::Term,
            Duration::ZERO,
            15,
            Signalled::Term,
        ),
        (POLITE, KillMethod::Kill, LONG, 9, Signalled::Kill),
        (POLITE, KillMethod::TermWaitKill, LONG, 15, Signalled::Term),
        (
            POLITE,
            KillMethod::TermWaitKill,
            Duration::ZERO,
            9,
            Signalled::Kill,
        ),
        (
            STUBBORN,
            KillMethod::TermWaitKill,
            Duration::from_millis(50),
            9,
            Signalled::Kill,
        ),
        (
            STUBBORN,
            KillMethod::TermWaitKill,
            Duration::ZERO,
            9,
            Signalled::Kill,
        ),
    ] {
        for from in [StatusFrom::Auto, StatusFrom::Pipe, StatusFrom::ExitCode] {
            let key = start(&bench, text, from);
            bench
                .runner
                .kill(&key, request(method, wait), EndedBy::Operator)
                .expect("known");
            let end = bench.end(&key);
            assert_eq!(
                ran(&end).story.ending,
                Ending::Signalled(signal),
                "{text} {method:?}"
            );
            assert_eq!(ran(&end).signalled, signalled);
            assert_eq!(end.story.ended_by, Some(EndedBy::Operator));
            assert_eq!(end.story.fault, Fault::Nobody);
            assert_eq!(
                end.status.bits(),
                ReportedStatus::incomplete_backoff("").bits()
            );
        }
    }
}

#[test]
fn the_cause_of_a_kill_decides_the_fault_and_the_retry() {
    let mut bench = Bench::new();
    for by in EndedBy::ALL {
        let key = start(&bench, POLITE, StatusFrom::Auto);
        let at_once = request(KillMethod::Kill, Duration::ZERO);
        bench.runner.kill(&key, at_once, by).expect("known");
        let end = bench.end(&key);
        assert_eq!(
            (end.story.ended_by, end.story.fault),
            (Some(by), by.fault())
        );
        let status = match by.fault() {
            Fault::Task => ReportedStatus::error_backoff(""),
            Fault::Nobody | Fault::Worker | Fault::System => ReportedStatus::incomplete_backoff(""),
        };
        assert_eq!(end.status.bits(), status.bits(), "{by:?}");
        let text = end.status.exception().expect("it says why");
        assert!(text.contains(&by.to_string()), "{text}");
    }
}

#[test]
fn the_wait_counts_from_the_request_and_the_shortest_wins() {
    let mut bench = Bench::new();
    let key = start(&bench, STUBBORN, StatusFrom::Auto);
    let asked = Instant::now();
    bench
        .runner
        .kill(
            &key,
            request(KillMethod::TermWaitKill, Duration::from_millis(300)),
            EndedBy::Deadline,
        )
        .expect("known");
    // A later, longer wait must not postpone the end.
    bench
        .runner
        .kill(
            &key,
            request(KillMethod::TermWaitKill, LONG),
            EndedBy::Operator,
        )
        .expect("known");
    let end = bench.end(&key);
    assert_eq!(end.story.ended_by, Some(EndedBy::Deadline));
    assert!(
        asked.elapsed() >= Duration::from_millis(300),
        "{:?}",
        asked.elapsed()
    );
}

#[test]
fn term_alone_leaves_a_stubborn_task_until_kill() {
    let mut bench = Bench::new();
    let text = "trap 'echo got term' TERM; echo ready; while :; do sleep 0.01; done";
    let key = start(&bench, text, StatusFrom::Auto);
    for _ in 0..3 {
        bench
            .runner
            .kill(
                &key,
                request(KillMethod::Term, Duration::ZERO),
                EndedBy::Operator,
            )
            .expect("known");
    }
    bench.await_line(&key, "got term");
    bench
        .runner
        .kill(
            &key,
            request(KillMethod::Kill, Duration::ZERO),
            EndedBy::Operator,
        )
        .expect("known");
    assert_eq!(ran(&bench.end(&key)).story.ending, Ending::Signalled(9));
    let heard = bench
        .lines(LogStream::Stdout, &key)
        .iter()
        .filter(|line| line.starts_with("got term"))
        .count();
    assert_eq!(heard, 1, "TERM is sent once");
}

#[test]
fn a_status_line_outlives_the_kill() {
    let mut bench = Bench::new();
    let key = start(
        &bench,
        "echo done > $2; echo ready; exec sleep 1000",
        StatusFrom::Auto,
    );
    bench
        .runner
        .kill(&key, KillRequest::default(), EndedBy::Operator)
        .expect("known");
    let end = bench.end(&key);
    assert!(end.status.is_done(), "{end:?}");
    assert_eq!(ran(&end).raw_status.as_deref(), Some("done"));
}

#[test]
fn a_handled_term_without_status_is_incomplete_but_a_trusted_exit_code_counts() {
    let mut bench = Bench::new();
    let text = "trap 'exit 0' TERM; echo ready; while :; do sleep 0.01; done";
    for (from, want) in [
        (
            StatusFrom::Auto,
            ReportedStatus::incomplete_backoff("").bits(),
        ),
        (StatusFrom::ExitCode, ReportedStatus::done().bits()),
    ] {
        let key = start(&bench, text, from);
        bench
            .runner
            .kill(&key, KillRequest::default(), EndedBy::Operator)
            .expect("known");
        assert_eq!(bench.end(&key).status.bits(), want);
    }
}

#[test]
fn unknown_and_ended_invocations_are_refused() {
    let mut bench = Bench::new();
    assert_eq!(
        bench
            .runner
            .kill(&key("job"), KillRequest::default(), EndedBy::Operator),
        Err(KillError::Unknown)
    );
    let end = bench.script("true", StatusFrom::Auto);
    assert_eq!(
        bench
            .runner
            .kill(&end.key, KillRequest::default(), EndedBy::Operator),
        Err(KillError::Unknown)
    );
    let running = start(&bench, POLITE, StatusFrom::Auto);
    let newer = RunKey {
        invocation: InvocationId::new(9, 9),
        ..running
    };
    assert_eq!(
        bench
            .runner
            .kill(&newer, KillRequest::default(), EndedBy::Operator),
        Err(KillError::Unknown)
    );
}

#[test]
fn a_kill_reaches_the_whole_group() {
    let mut bench = Bench::new();
    let text = "trap '' TERM; sleep 1000 & echo ready; echo child $!; wait; wait";
    let key = start(&bench, text, StatusFrom::Auto);
    let child = bench.await_line(&key, "child");
    bench
        .runner
        .kill(
            &key,
            request(KillMethod::Kill, Duration::ZERO),
            EndedBy::Operator,
        )
        .expect("known");
    bench.end(&key);
    assert_gone(child.trim_start_matches("child "));
}

/// Waits until the process is gone, or is a zombie that init has not reaped.
fn assert_gone(pid: &str) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let state = state
            .rsplit(')')
            .next()
            .unwrap_or("")
            .trim_start()
            .to_owned();
        if state.is_empty() || state.starts_with(['Z', 'X']) {
            return;
        }
        assert!(Instant::now() < deadline, "process {pid} lives: {state}");
        std::thread::yield_now();
    }
}

#[test]
fn a_grandchild_in_the_group_is_swept_and_its_last_words_are_kept() {
    let mut bench = Bench::new();
    let end = bench.script(
        "(trap '' TERM; echo from behind; exec sleep 1000) & echo child $!",
        StatusFrom::Auto,
    );
    assert!(end.status.is_done(), "{end:?}");
    assert!(
        ran(&end).story.ran < Some(Duration::from_secs(20)),
        "{:?}",
        ran(&end).story.ran
    );
    let lines = bench.lines(LogStream::Stdout, &end.key);
    assert!(lines.contains(&"from behind\n".to_owned()), "{lines:?}");
    let child = lines
        .iter()
        .find_map(|line| line.strip_prefix("child "))
        .expect("told")
        .trim()
        .to_owned();
    assert_gone(&child);
}

#[test]
fn a_daemon_that_left_the_group_cannot_hang_the_task() {
    let mut bench = Bench::new();
    let end = bench.script(
        "setsid sleep 1000 & echo child $!; sleep 0.1",
        StatusFrom::Auto,
    );
    assert!(end.status.is_done(), "{end:?}");
    let events = bench.events(&end.key);
    assert!(
        events
            .iter()
            .any(|event| event["event"] == "task_pipe_error"),
        "{events:?}"
    );
    let lines = bench.lines(LogStream::Stdout, &end.key);
    let child: i32 = lines[0]
        .trim()
        .trim_start_matches("child ")
        .parse()
        .expect("a pid");
    // The test ends the process itself, because this runner does not end orphans.
    let _ = nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(child),
        nix::sys::signal::Signal::SIGKILL,
    );
}

#[test]
fn a_background_process_without_pipes_ends_with_its_task() {
    let mut bench = Bench::new();
    // The script needs bash, because dash closes one-digit descriptors only.
    let text = r#"eval "sleep 1000 </dev/null >/dev/null 2>&1 ${BRASSERIE_STATUS#/dev/fd/}>&- &"; echo child $!"#;
    let request = command(&["bash", "-c", text]);
    let key = request.key.clone();
    bench.runner.spawn(request).expect("accepted");
    assert!(
        ran(&bench.end(&key)).story.ran < Some(LINGER),
        "no pipe was held"
    );
    let lines = bench.lines(LogStream::Stdout, &key);
    assert_gone(lines[0].trim().trim_start_matches("child "));
}

#[test]
fn kill_all_ends_running_and_waiting_tasks_and_tells() {
    let mut bench = Bench::new();
    let stubborn = start(&bench, STUBBORN, StatusFrom::Auto);
    let polite = start(&bench, POLITE, StatusFrom::Auto);
    let (sender, all_gone) = mpsc::channel();
    bench.runner.kill_all(
        Duration::from_millis(50),
        EndedBy::Suicide,
        Box::new(move || sender.send(()).expect("somebody waits")),
    );
    all_gone.recv_timeout(PATIENCE).expect("told");
    assert_eq!(ran(&bench.end(&polite)).signalled, Signalled::Term);
    assert_eq!(ran(&bench.end(&stubborn)).signalled, Signalled::Kill);
    assert_eq!(bench.runner.running(), 0);
}

#[test]
fn dropping_the_runner_kills_and_reports() {
    let bench = Bench::new();
    let key = start(&bench, STUBBORN, StatusFrom::Auto);
    let Bench {
        runner, ends, dir, ..
    } = bench;
    drop(runner);
    let end = ends.try_recv().expect("reported before the drop returned");
    assert_eq!((&*end.key, ran(&end).signalled), (&key, Signalled::Kill));
    drop(dir);
}

/// Returns the kernel's letter for the state of a process: `T` if it is stopped.
fn state(pid: &str) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it is there");
    let (_, behind_the_name) = stat.rsplit_once(')').expect("a name in brackets");
    behind_the_name.trim().chars().next().expect("a letter")
}

fn await_state(pid: &str, is_right: impl Fn(char) -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_right(state(pid)) {
        assert!(Instant::now() < deadline, "its state stays {}", state(pid));
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_stopped_task_stands_still_with_its_children_goes_on_and_hears_of_its_end() {
    let mut bench = Bench::new();
    let text = "sleep 1000 & echo $$ $! > pids; echo ready; wait";
    let key = start(&bench, text, StatusFrom::ExitCode);
    let pids = bench.dir().join("jobs").join(key.job.as_str()).join("pids");
    let pids = std::fs::read_to_string(pids).expect("it was written");
    let pids: Vec<&str> = pids.split_whitespace().collect();
    let all = |is_right: fn(char) -> bool| pids.iter().for_each(|pid| await_state(pid, is_right));
    bench.runner.suspend(&key);
    all(|state| state == 'T');
    bench.runner.resume(&key);
    all(|state| state != 'T');
    bench.runner.suspend(&key);
    all(|state| state == 'T');
    // A stopped task would never receive TERM alone.
    let term = request(KillMethod::Term, Duration::ZERO);
    bench
        .runner
        .kill(&key, term, EndedBy::Operator)
        .expect("it runs");
    assert_eq!(bench.end(&key).signalled, Signalled::Term);
    // Suspending a run that has ended has no effect.
    bench.runner.suspend(&key);
    bench.runner.resume(&key);
}
