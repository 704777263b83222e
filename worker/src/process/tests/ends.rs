//! Tests how tasks start, their environment, and the statuses of their ends.

use std::os::unix::fs::PermissionsExt;

use brasserie_common::{EndedBy, Fault, Fence, NodeName, ReportedStatus};

use brasserie_common_runtime::Clock;

use super::*;
use brasserie_common::file_name::file_name;

#[test]
fn each_final_status_rule_with_a_real_process() {
    use StatusFrom::{Auto, ExitCode, Pipe};
    let done = ReportedStatus::done().bits();
    let failed = ReportedStatus::failed().bits();
    let error = ReportedStatus::error_backoff("").bits();
    let mut bench = Bench::new();
    for (text, from, want) in [
        ("echo done > $2; exit 3", Auto, done),
        ("printf 'done\\nfailed\\n\\n' > $2", Auto, failed),
        ("true", Auto, done),
        ("exit 3", Auto, error),
        ("kill -SEGV $$", Auto, error),
        ("true", Pipe, error),
        ("printf failed > $2", Pipe, failed),
        ("echo nonsense > $2", Pipe, error),
        ("echo failed > $2", ExitCode, done),
        ("echo done > $2; exit 1", ExitCode, error),
        ("head -c 70000 /dev/zero | tr '\\0' x > $2", Auto, error),
    ] {
        let end = bench.script(text, from);
        assert_eq!(
            end.status.bits(),
            want,
            "{text} with {from:?}: {:?}",
            end.status
        );
    }
}

#[test]
fn the_peak_of_memory_is_the_tasks_own() {
    let mut bench = Bench::new();
    let end = bench.script("exit 0", StatusFrom::Auto);
    // The kernel tells the peak of this process, from before the exec, which says nothing about the task.
    assert_eq!(ran(&end).story.peak_memory_bytes, None);
    let end = bench.script(
        "head -c 400000000 /dev/zero | tail -c 399999999 | wc -c",
        StatusFrom::Auto,
    );
    let peak = ran(&end).story.peak_memory_bytes;
    assert!(peak > Some(390_000_000), "{peak:?}");
}

#[test]
fn errors_tell_exit_signal_and_last_words() {
    let mut bench = Bench::new();
    let end = bench.script(
        "for i in 1 2 3 4 5 6 7; do echo line $i >&2; done; exit 3",
        StatusFrom::Auto,
    );
    assert_eq!(end.status.exception(), Some("the task exited with code 3"));
    assert_eq!(
        ran(&end).story.last_lines,
        ["line 3", "line 4", "line 5", "line 6", "line 7"]
    );
    assert_eq!(ran(&end).story.ending, Ending::Exited(3));
    assert_eq!(ran(&end).signalled, Signalled::No);
    assert_eq!((end.story.ended_by, end.story.fault), (None, Fault::Task));
    let end = bench.script("kill -KILL $$", StatusFrom::Auto);
    assert_eq!(
        end.status.exception(),
        Some("the task was killed by signal 9 (SIGKILL)")
    );
    let end = bench.script("true", StatusFrom::Pipe);
    assert!(
        end.status
            .exception()
            .is_some_and(|text| text.contains("could not read a status"))
    );
}

#[test]
fn a_task_finds_arguments_environment_and_directory() {
    let mut bench = Bench::new();
    let text = r#"
        printf '%s\n' "$1" "$2" "$3" "$PWD" "$BRASSERIE_JOB" "$BRASSERIE_NODE" "$BRASSERIE_PATH_TO_NODE" \
            "$BRASSERIE_STATUS" "$BRASSERIE_ARGUMENT" "$BRASSERIE_INVOCATION" "${BRASSERIE_FENCE-none}"
        read line || echo no input
        ps -o pgid= -p $$ | tr -d ' ' | grep -qx $$ && echo leads its group
        echo done > $BRASSERIE_STATUS"#;
    let end = bench.script(text, StatusFrom::Pipe);
    assert!(end.status.is_done(), "{end:?}");
    let lines = bench.lines(LogStream::Stdout, &end.key);
    let lines: Vec<_> = lines.iter().map(|line| line.trim_end()).collect();
    let status_path = lines[1];
    assert!(status_path.starts_with("/dev/fd/"), "{status_path}");
    let dir = bench.dir().join("jobs/job");
    let invocation = end.key.invocation.to_string();
    let node = end.key.node.as_str();
    let path = format!(r#"["root","{node}"]"#);
    let want = [
        node,
        status_path,
        r#"{"id":"job"}"#,
        dir.to_str().expect("plain"),
        "job",
        node,
        &path,
        status_path,
        r#"{"id":"job"}"#,
        &invocation,
        "none",
        "no input",
        "leads its group",
    ];
    assert_eq!(lines, want);
}

#[test]
fn a_task_finds_its_nodes_name_without_the_parents() {
    let mut bench = Bench::new();
    for (path, label) in [
        (&["top", "in/d1", "in/d1/a/b.txt"][..], "a/b.txt"),
        (&["top", "in/d1", "in/d10"], "in/d10"),
        (&["top", "d", "d/"], "d/"),
        (&["d/a"], "d/a"),
    ] {
        let mut request = script("echo \"$BRASSERIE_NODE_LABEL\"", StatusFrom::ExitCode);
        let name = |name: &&str| NodeName::try_from(*name).expect("a name");
        request.path_to_node = path.iter().map(name).collect();
        request.key.node = request.path_to_node[path.len() - 1].clone();
        let key = request.key.clone();
        bench.runner.spawn(request).expect("accepted");
        bench.end(&key);
        let said = bench.lines(LogStream::Stdout, &key).concat();
        assert_eq!(said, format!("{label}\n"));
    }
}

#[test]
fn a_job_sets_variables_and_the_directory() {
    let mut bench = Bench::new();
    let mut said = |text: &str, set: &[(&str, &str)], directory: Option<&str>| {
        let mut request = script(text, StatusFrom::ExitCode);
        let set = set
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        request.options.environment = set.collect();
        request.options.working_directory = directory.map(str::to_owned);
        let key = request.key.clone();
        bench.runner.spawn(request).expect("accepted");
        let end = bench.end(&key);
        (bench.lines(LogStream::Stdout, &key).concat(), end.status)
    };
    let text = "echo \"$A\" \"$PATH\" $(env | grep -c ^PATH=) \"$BRASSERIE_JOB\"; pwd";
    let set = [
        ("A", "b = c"),
        ("PATH", "/bin:/usr/bin"),
        ("BRASSERIE_JOB", "none"),
    ];
    let (lines, status) = said(text, &set, Some("/usr"));
    assert_eq!(lines, "b = c /bin:/usr/bin 1 job\n/usr\n");
    assert!(status.is_done());
    let (lines, status) = said("echo here", &[], Some("/no/such/folder"));
    assert_eq!(lines, "");
    assert!(status.is_error_backoff(), "the fault of its job");
    assert_eq!(
        status.exception(),
        Some(
            "cannot start: the job's working directory (`cwd`) /no/such/folder cannot be entered: No such file or directory"
        )
    );
}

#[test]
fn a_task_finds_its_fence() {
    let mut bench = Bench::new();
    let mut request = script("echo fence $BRASSERIE_FENCE", StatusFrom::ExitCode);
    request.fence = Fence::from_wire(3_651_720_445_263_380_482);
    let key = request.key.clone();
    bench.runner.spawn(request).expect("accepted");
    bench.end(&key);
    let said = bench.lines(LogStream::Stdout, &key).concat();
    assert_eq!(said, "fence 3651720445263380482\n");
}

#[test]
fn a_task_with_cards_is_told_which_and_others_are_told_nothing() {
    let mut bench = Bench::new();
    let text =
        "echo ${CUDA_VISIBLE_DEVICES-unset} ${CUDA_DEVICE_ORDER-unset}; env | grep -c ^CUDA_";
    let mut told = |cuda_devices: &[&str]| {
        let mut request = script(text, StatusFrom::ExitCode);
        request.cuda_devices = cuda_devices.iter().map(|&name| name.to_owned()).collect();
        let key = request.key.clone();
        bench.runner.spawn(request).expect("accepted");
        bench.end(&key);
        bench.lines(LogStream::Stdout, &key).concat()
    };
    assert_eq!(told(&["GPU-1", "3"]), "GPU-1,3 PCI_BUS_ID\n2\n");
    assert_eq!(told(&[]), "unset unset\n0\n");
}

#[test]
fn no_descriptor_of_the_worker_leaks_and_signals_are_reset() {
    let mut bench = Bench::new();
    let text = "ls /proc/$$/fd; exec grep -E '^Sig(Blk|Ign)' /proc/self/status";
    let end = bench.script(text, StatusFrom::Auto);
    let lines = bench.lines(LogStream::Stdout, &end.key);
    let lines: Vec<_> = lines.iter().map(|line| line.trim_end()).collect();
    let (descriptors, signals) = lines.split_at(lines.len() - 2);
    assert_eq!(
        descriptors.len(),
        4,
        "stdin, stdout, stderr, status: {descriptors:?}"
    );
    // Signals 32 and 33 belong to the C library, which leaves them ignored in every child of posix_spawn.
    let masks = signals
        .iter()
        .map(|line| u64::from_str_radix(&line[8..], 16).expect("a mask") & !0x1_8000_0000);
    assert_eq!(masks.collect::<Vec<_>>(), [0, 0]);
}

#[test]
fn large_arguments_leave_the_environment() {
    let mut bench = Bench::new();
    let mut request = script("echo ${#3} ${BRASSERIE_ARGUMENT-none}", StatusFrom::Auto);
    request.argument = "x".repeat(ARGUMENT_IN_ENVIRONMENT_LIMIT + 1);
    let key = request.key.clone();
    bench.runner.spawn(request).expect("accepted");
    assert!(bench.end(&key).status.is_done());
    assert_eq!(bench.lines(LogStream::Stdout, &key), ["102401 none\n"]);
    let mut request = script("true", StatusFrom::Auto);
    request.argument = "x".repeat(128 * 1024);
    let key = request.key.clone();
    bench.runner.spawn(request).expect("accepted");
    assert!(failure(&bench.end(&key)).contains("131072 bytes"));
}

#[test]
fn events_tell_the_life_in_order() {
    let mut bench = Bench::new();
    let end = bench.script("echo done > $2", StatusFrom::Auto);
    let events = bench.events(&end.key);
    let names: Vec<_> = events
        .iter()
        .map(|event| event["event"].as_str().unwrap_or("?"))
        .collect();
    assert_eq!(
        names,
        [
            "running",
            "process_exited",
            "task_pipes_closed",
            "got_status"
        ]
    );
    for event in &events {
        assert_eq!(event["invocation_start_time"], 1_700_000_000);
        assert_eq!(event["invocation_rand"], end.key.invocation.0.rand);
        assert_eq!(event["invocation"], end.key.invocation.to_string());
        assert_eq!(event["worker_host"], "here");
    }
    assert_eq!(events[0]["command"].as_array().map(Vec::len), Some(7));
    assert_eq!(events[1]["message"], "exited with code 0");
    for at in [2, 3] {
        assert_eq!(events[at]["raw_status"], "done");
    }
    assert_eq!(events[3]["status"]["result_bits"], 4);
    let end = bench.script("exit 0", StatusFrom::Auto);
    let events = bench.events(&end.key);
    assert_eq!(events[2]["event"], "task_pipes_closed");
    assert_eq!(events[2].get("raw_status"), None, "none is known");
}

#[test]
fn programs_are_found_in_path_and_failures_name_the_cause() {
    let mut bench = Bench::new();
    let folder = bench.dir().to_owned();
    let file = |name: &str, text: &str, mode: u32| {
        let path = folder.join(name);
        std::fs::write(&path, text).expect("written");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("set");
        path.to_str().expect("plain").to_owned()
    };
    let plain = file("plain", "text", 0o644);
    let odd = file("odd", "\u{1}\u{2}no program", 0o755);
    let orphan = file("orphan", "#!/no/such/interpreter\n", 0o755);
    for (program, want) in [
        ("true", None),
        (
            "no-such-program-anywhere",
            Some("is in no folder of the worker's PATH"),
        ),
        ("/no/such/program", Some("/no/such/program does not exist")),
        ("", Some("the command is empty")),
        (plain.as_str(), Some("is not an executable file")),
        (odd.as_str(), Some("neither a program for this machine")),
        (orphan.as_str(), Some("the interpreter in its first line")),
        ("a\0b", Some("contains a NUL byte")),
    ] {
        let request = command(&[program]);
        let key = request.key.clone();
        bench.runner.spawn(request).expect("accepted");
        let end = bench.end(&key);
        match want {
            None => assert!(end.status.is_done(), "{program}: {end:?}"),
            Some(want) => {
                assert!(failure(&end).contains(want), "{program}: {}", failure(&end));
                let path = std::env::var("PATH").expect("a text");
                assert!(!failure(&end).contains(&path), "{}", failure(&end));
                assert_eq!(end.status.bits(), ReportedStatus::error_backoff("").bits());
                assert!(
                    end.status
                        .exception()
                        .is_some_and(|text| text.contains(want))
                );
                let events = bench.events(&key);
                assert_eq!(
                    events.last().map(|e| e["event"].clone()),
                    Some("task_failed_to_start".into())
                );
            }
        }
    }
}

#[test]
fn refused_requests_change_nothing() {
    let mut bench = Bench::new();
    assert_eq!(bench.runner.spawn(command(&[])), Err(SpawnError::NoCommand));
    let request = command(&["sleep", "1000"]);
    bench.runner.spawn(request.clone()).expect("accepted");
    assert_eq!(
        bench.runner.spawn(request.clone()),
        Err(SpawnError::AlreadyRunning)
    );
    assert_eq!(bench.runner.running(), 1);
    let (sender, all_gone) = mpsc::channel();
    bench.runner.kill_all(
        Duration::ZERO,
        EndedBy::Shutdown,
        Box::new(move || sender.send(()).expect("somebody waits")),
    );
    all_gone.recv_timeout(PATIENCE).expect("told");
    assert_eq!(bench.runner.running(), 0);
    assert_eq!(
        bench.runner.spawn(command(&["true"])),
        Err(SpawnError::Ending)
    );
    assert_eq!(ran(&bench.end(&request.key)).signalled, Signalled::Kill);
}

#[test]
fn working_directories_stay_below_the_data_directory() {
    let long = "ü".repeat(300);
    let mut bench = Bench::new();
    for name in ["../x", &long] {
        let mut request = script("pwd", StatusFrom::Auto);
        request.key = key(name);
        let key = request.key.clone();
        bench.runner.spawn(request).expect("accepted");
        assert!(bench.end(&key).status.is_done());
        let folder = bench.dir().join("jobs").join(file_name(key.job.as_str()));
        assert_eq!(
            bench.lines(LogStream::Stdout, &key),
            [format!("{}\n", folder.display())]
        );
    }
}

#[test]
fn a_removed_working_directory_comes_back() {
    let mut bench = Bench::new();
    assert!(bench.script("true", StatusFrom::Auto).status.is_done());
    std::fs::remove_dir_all(bench.dir().join("jobs")).expect("removed");
    let end = bench.script("echo here", StatusFrom::Auto);
    assert!(end.status.is_done(), "{end:?}");
    assert_eq!(bench.lines(LogStream::Stdout, &end.key), ["here\n"]);
}

#[test]
fn what_waited_for_too_long_does_not_start_and_loses_no_retry() {
    let mut bench = Bench::new();
    let mut late = script("echo ran", StatusFrom::Auto);
    // The situation is that of a machine that slept while the start was queued.
    late.not_after = Clock.now();
    let key = late.key.clone();
    bench.runner.spawn(late).expect("accepted");
    let end = bench.end(&key);
    assert!(failure(&end).contains("paused"), "{end:?}");
    assert_eq!(end.story.fault, Fault::Worker);
    let retried = brasserie_common::ReportedStatus::incomplete_backoff("");
    assert_eq!(end.status.bits(), retried.bits());
    assert_eq!(bench.lines(LogStream::Stdout, &key).len(), 0);
    let mut early = script("echo ran", StatusFrom::Auto);
    early.not_after = Clock.now() + PATIENCE;
    let key = early.key.clone();
    bench.runner.spawn(early).expect("accepted");
    assert!(bench.end(&key).status.is_done());
}

#[test]
fn nothing_starts_in_a_data_directory_that_has_lost_its_path() {
    let mut bench = Bench::new();
    let (dir, away) = (bench.dir().to_owned(), bench.dir().with_extension("away"));
    std::fs::rename(&dir, &away).expect("renamed");
    for _ in 0..2 {
        let end = bench.script("true", StatusFrom::ExitCode);
        let why = format!("{} was deleted or unmounted", dir.display());
        assert_eq!(end.story.ending, Ending::NotStarted(why));
        assert_eq!(end.story.fault, Fault::Worker);
        assert!(!dir.exists(), "it is not made anew");
    }
    std::fs::rename(&away, &dir).expect("renamed back");
    let end = bench.script("true", StatusFrom::ExitCode);
    assert!(end.status.is_done(), "{end:?}");
}
