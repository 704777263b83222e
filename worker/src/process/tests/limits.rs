//! Tests large output, unusual output, and rate limits.

use super::*;

#[test]
fn large_output_arrives_complete_and_in_order() {
    let mut bench = Bench::new();
    let mut request = script("seq 1 20000; seq 1 100 >&2", StatusFrom::Auto);
    request.options.max_log_lines_per_poll_interval = 0;
    let key = request.key.clone();
    bench.runner.spawn(request).expect("accepted");
    assert!(bench.end(&key).status.is_done());
    let want: Vec<String> = (1..=20_000).map(|i| format!("{i}\n")).collect();
    assert!(bench.lines(LogStream::Stdout, &key) == want);
    assert_eq!(bench.lines(LogStream::Stderr, &key).len(), 100);
}

#[test]
fn a_line_without_end_is_split_and_said_so() {
    let mut bench = Bench::new();
    let end = bench.script(
        "head -c 3000000 /dev/zero | tr '\\0' x; echo; echo after",
        StatusFrom::Auto,
    );
    assert!(end.status.is_done(), "{end:?}");
    let lines = bench.lines(LogStream::Stdout, &end.key);
    assert_eq!(lines.iter().map(String::len).sum::<usize>(), 3_000_001 + 6);
    assert!(
        lines
            .iter()
            .all(|line| line.len() <= crate::logs::MAX_LINE_BYTES)
    );
    assert_eq!(lines.last().map(String::as_str), Some("after\n"));
    let events = bench.events(&end.key);
    let splits = events
        .iter()
        .filter(|event| event["event"] == "task_line_split")
        .count();
    assert_eq!(splits, 1, "{events:?}");
}

#[test]
fn binary_output_is_shown_lossily() {
    let mut bench = Bench::new();
    let end = bench.script(
        "printf 'a\\377\\000b\\n'; printf 'no newline'",
        StatusFrom::Auto,
    );
    assert_eq!(
        bench.lines(LogStream::Stdout, &end.key),
        ["a\u{fffd}\0b\n", "no newline"]
    );
}

#[test]
fn the_rate_limit_slows_output_but_not_the_status() {
    let mut bench = Bench::new();
    // The limit is 100 lines a second, and the first second's worth may be logged at once. Each line fills a page of the pipe.
    let text = "echo failed > $2; i=0; while [ $i -lt 160 ]; do printf '%05000d\\n' $i; i=$((i+1)); done; echo done > $2";
    let mut request = script(text, StatusFrom::Auto);
    request.options.max_log_lines_per_poll_interval = 1;
    let key = request.key.clone();
    let started = Instant::now();
    bench.runner.spawn(request).expect("accepted");
    let end = bench.end(&key);
    assert!(end.status.is_done(), "{end:?}");
    assert_eq!(bench.lines(LogStream::Stdout, &key).len(), 160);
    // There are 60 lines above the burst, less those that the pipe and one read hold.
    assert!(
        started.elapsed() >= Duration::from_millis(200),
        "{:?}",
        started.elapsed()
    );
}

#[test]
fn a_running_task_is_read_in_small_steps_and_a_finished_one_at_once() {
    let mut bench = Bench::new();
    // The limit allows one line an hour.
    let mut request = script("exec yes ''", StatusFrom::Auto);
    request.options.max_log_lines_per_poll_interval = 1;
    request.options.poll = Duration::from_secs(3600);
    let key = request.key.clone();
    bench.runner.spawn(request).expect("accepted");
    bench.await_line(&key, "");
    let lines = bench.lines(LogStream::Stdout, &key).len();
    assert!(lines <= 1024, "{lines} lines instead of one small read");
    let kill = brasserie_common::KillRequest::default();
    let by = brasserie_common::EndedBy::Operator;
    bench.runner.kill(&key, kill, by).expect("it runs");
    bench.end(&key);
    let lines = bench.lines(LogStream::Stdout, &key).len();
    assert!(lines > 4096, "{lines} lines of what the pipe held");
}

#[test]
fn a_background_process_that_prints_without_end_does_not_hold_its_task() {
    let mut bench = Bench::new();
    for lines in [1, 0] {
        let mut request = script("yes & echo done > $2", StatusFrom::Pipe);
        request.options.max_log_lines_per_poll_interval = lines;
        let key = request.key.clone();
        bench.runner.spawn(request).expect("accepted");
        let end = bench.end(&key);
        assert!(end.status.is_done(), "{end:?}");
    }
}

#[test]
fn a_job_that_wants_it_loses_what_is_too_much_and_is_told() {
    let mut bench = Bench::new();
    for (lines, bytes) in [(1, 0), (0, 1000)] {
        let mut request = script("seq 100000 199999; echo done > $2", StatusFrom::Pipe);
        request.options.max_log_lines_per_poll_interval = lines;
        request.options.max_log_bytes_per_poll_interval = bytes;
        request.options.log_overflow = LogOverflow::Drop;
        let key = request.key.clone();
        bench.runner.spawn(request).expect("accepted");
        assert!(bench.end(&key).status.is_done());
        let logged = bench.lines(LogStream::Stdout, &key);
        assert!(
            logged.len() >= 100,
            "a second's worth at least, {}",
            logged.len()
        );
        assert_eq!(logged[0], "100000\n");
        let events = bench.events(&key);
        let told: Vec<_> = events
            .iter()
            .filter(|event| event["event"] == "task_lines_dropped")
            .collect();
        let sum = |what: &str| told.iter().filter_map(|e| e[what].as_u64()).sum::<u64>();
        assert_eq!(
            sum("lines") + logged.len() as u64,
            100_000,
            "each line is here or told of"
        );
        assert_eq!(sum("bytes"), 7 * sum("lines"));
        assert!(sum("lines") > 0 && told.len() < 100, "{}", told.len());
    }
}

#[test]
fn a_task_that_does_not_wait_for_a_slow_disk_ends_and_each_line_is_here_or_told_of() {
    const LINES: u64 = 400_000;
    let mut bench = Bench::new();
    let logs = Arc::clone(&bench.logs);
    let held = logs.hold_writer();
    let text = format!("seq 1 {LINES}; echo done > $2");
    let mut request = script(&text, StatusFrom::Pipe);
    request.options.max_log_lines_per_poll_interval = 0;
    request.options.log_overflow = LogOverflow::Drop;
    let key = request.key.clone();
    bench.runner.spawn(request).expect("accepted");
    // The task ends while nothing at all is written.
    assert!(bench.end(&key).status.is_done());
    assert!(bench.logs.waiting_bytes() < 4 << 20);
    drop(held);
    let logged = bench.lines(LogStream::Stdout, &key);
    let numbers = logged.iter().map(|line| line.trim_end().parse::<u64>());
    let numbers: Vec<u64> = numbers.collect::<Result<_, _>>().expect("numbers");
    assert!(numbers.is_sorted_by(|a, b| a < b), "in order, each once");
    let events = bench.events(&key);
    let told = events.iter().filter(|e| e["event"] == "task_lines_dropped");
    let told: u64 = told.filter_map(|event| event["lines"].as_u64()).sum();
    assert!(told > 0 && !numbers.is_empty());
    assert_eq!(told + numbers.len() as u64, LINES);
}

#[test]
fn many_tasks_at_once_all_end() {
    let mut bench = Bench::new();
    let keys: Vec<RunKey> = (0..200)
        .map(|_| {
            let request = script("echo out; echo err >&2; echo done > $2", StatusFrom::Pipe);
            let key = request.key.clone();
            bench.runner.spawn(request).expect("accepted");
            key
        })
        .collect();
    for key in keys {
        let end = bench.end(&key);
        assert!(end.status.is_done(), "{end:?}");
    }
    assert_eq!(bench.runner.running(), 0);
}

#[test]
fn a_task_that_drains_its_own_pipe_cannot_stop_the_worker() {
    let mut bench = Bench::new();
    let thief = script("echo ready; exec cat $2", StatusFrom::Auto);
    let key = thief.key.clone();
    bench.runner.spawn(thief).expect("accepted");
    bench.await_line(&key, "ready");
    assert!(bench.script("true", StatusFrom::Auto).status.is_done());
    bench
        .runner
        .kill(
            &key,
            brasserie_common::KillRequest::default(),
            brasserie_common::EndedBy::Operator,
        )
        .expect("known");
    bench.end(&key);
}

#[test]
fn a_log_that_is_behind_makes_tasks_wait_and_loses_nothing() {
    let mut bench = Bench::new();
    let logs = Arc::clone(&bench.logs);
    let held = logs.hold_writer();
    let mut request = script("seq 1 300000; echo done > $2", StatusFrom::Pipe);
    request.options.max_log_lines_per_poll_interval = 0;
    let key = request.key.clone();
    bench.runner.spawn(request).expect("accepted");
    let deadline = Instant::now() + PATIENCE;
    // The limit is the bytes that one task may have waiting, less the size of one line.
    while bench.logs.waiting_bytes() < (2 << 20) - 100 {
        assert!(Instant::now() < deadline, "the log never filled up");
        std::thread::yield_now();
    }
    // The task does not delay the starts, the output or the statuses of others.
    assert!(
        bench
            .script("echo quiet", StatusFrom::Auto)
            .status
            .is_done()
    );
    assert!(
        bench
            .script("echo failed > $2", StatusFrom::Pipe)
            .status
            .exception()
            .is_none()
    );
    assert_eq!(bench.runner.running(), 1);
    drop(held);
    assert!(bench.end(&key).status.is_done());
    // The count comes from the last line, since reading all of them takes long in an unoptimised build.
    let query = LogQuery {
        stream: LogStream::Stdout,
        jobs: Vec::new(),
        nodes: vec![key.node.clone()],
        from: None,
        ascending: false,
        limit: 1,
        regex: String::new(),
        invocation: None,
    };
    let page = bench.logs.query(&query).expect("a valid query");
    assert_eq!(page.lines[0].line, "300000\n");
    let first = bench
        .logs
        .query(&LogQuery {
            ascending: true,
            ..query
        })
        .expect("a valid query");
    assert_eq!(first.lines[0].line, "1\n");
}
