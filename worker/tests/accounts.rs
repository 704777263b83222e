//! Tests limits, users and groups of real tasks. Taking another user's rights needs root; otherwise the tests check that the worker does
//! not promise it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use brasserie_common::logs::{LogQuery, LogStream};
use brasserie_common::{
    AccountName, Arguments, Bound, EndedBy, Ending, Fault, InvocationId, JobName, KillMethod,
    KillRequest, Limited, NodeName, ProcessLimit, TaskSubprocessOptions, Time, WallTime,
};
use brasserie_worker::logs::{LogConfig, LogStore};
use brasserie_worker::process::{
    Accounts, AccountsError, AllowedUser, ProcessRunner, RunKey, Runner, RunnerConfig,
    SpawnRequest, TaskEnd,
};
use nix::sys::resource::{Resource, getrlimit};

/// The longest wait of any test; only a failing one reaches it.
const PATIENCE: Duration = Duration::from_secs(60);
/// SIGXFSZ.
const FILE_TOO_LARGE: i32 = 25;

static NEXT: AtomicI64 = AtomicI64::new(1);

struct Bench {
    runner: ProcessRunner,
    ends: Receiver<TaskEnd>,
    logs: Arc<LogStore>,
    dir: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        Bench::allowing(&[]).expect("nobody is asked for")
    }

    /// Makes a bench that allows these users. If this process cannot start tasks as other users, prints that and returns `None`.
    fn allowing(users: &[&str]) -> Option<Self> {
        let resolve = |users: &[&str]| {
            let allowed = users.iter().map(|text| AllowedUser::parse(text));
            let allowed: Vec<AllowedUser> = allowed.collect::<Result<_, _>>().expect("users");
            Accounts::resolve(&allowed)
        };
        let accounts = match resolve(users) {
            Err(error @ (AccountsError::Powerless { .. } | AccountsError::Ambient { .. })) => {
                println!("UNPROVEN on this machine: {error}");
                return None;
            }
            resolved => resolved.expect("users of this machine"),
        };
        let dir = tempfile::tempdir().expect("a folder");
        let clock = Arc::new(|| WallTime::from_secs(1_700_000_000));
        let logs = LogStore::open(LogConfig::new(dir.path().join("logs")), clock).expect("logs");
        let logs = Arc::new(logs);
        let data_dir = dir.path().join("data");
        fs::create_dir(&data_dir).expect("a folder");
        // Files that existed before must also become private.
        fs::create_dir(data_dir.join("logs")).expect("a folder");
        fs::write(data_dir.join("logs/log"), "what others said").expect("written");
        fs::write(data_dir.join("identity"), "").expect("written");
        let private = fs::Permissions::from_mode(0o700);
        fs::set_permissions(&data_dir, private).expect("set");
        // Other users must be able to reach the data directory.
        let open = fs::Permissions::from_mode(0o711);
        fs::set_permissions(dir.path(), open).expect("set");
        let config = RunnerConfig {
            accounts,
            ..RunnerConfig::new(data_dir, "here".to_owned(), Arc::clone(&logs))
        };
        let (sender, ends) = mpsc::channel();
        let sink = move |end: TaskEnd| drop(sender.send(end));
        let runner = ProcessRunner::start(config, sink).expect("a runner");
        Some(Bench {
            runner,
            ends,
            logs,
            dir,
        })
    }

    fn start(&self, script: &str, options: TaskSubprocessOptions) -> RunKey {
        self.start_command(&["/bin/sh", "-c", script], options)
    }

    fn start_command(&self, words: &[&str], options: TaskSubprocessOptions) -> RunKey {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let node = NodeName::try_from(format!("n{number}")).expect("a name");
        let key = RunKey {
            invocation: InvocationId::new(1_700_000_000, number),
            job: JobName::try_from("job").expect("a name"),
            node: node.clone(),
        };
        let request = SpawnRequest {
            fence: None,
            key: key.clone(),
            command: words.iter().map(|word| (*word).to_owned()).collect(),
            argument: "{}".to_owned(),
            path_to_node: vec![node],
            cuda_devices: Vec::new(),
            options: TaskSubprocessOptions {
                arguments: Arguments::None,
                ..options
            },
            not_after: Time::NEVER,
            association: brasserie_worker_core::AssociationIndex::FIRST,
            asked: Instant::now(),
            inputs: None,
        };
        self.runner.spawn(request).expect("accepted");
        key
    }

    fn end(&self) -> TaskEnd {
        self.ends.recv_timeout(PATIENCE).expect("it ends")
    }

    /// Runs a script. Returns its end, and the lines that it wrote.
    fn run(&self, script: &str, options: TaskSubprocessOptions) -> (TaskEnd, Vec<String>) {
        let key = self.start(script, options);
        let end = self.end();
        (end, self.lines(&key))
    }

    /// Returns the lines of a script that must succeed.
    fn lines_of(&self, script: &str, options: TaskSubprocessOptions) -> Vec<String> {
        let (end, lines) = self.run(script, options);
        assert_eq!(end.story.ending, Ending::Exited(0), "{:?}", end.story);
        lines
    }

    fn lines(&self, key: &RunKey) -> Vec<String> {
        let query = LogQuery {
            stream: LogStream::Stdout,
            jobs: vec![key.job.clone()],
            nodes: vec![key.node.clone()],
            from: None,
            ascending: true,
            limit: 1000,
            regex: String::new(),
            invocation: None,
        };
        let page = self.logs.query(&query).expect("a valid query");
        let lines = page.lines.into_iter();
        lines.map(|line| line.line.trim_end().to_owned()).collect()
    }

    fn refused(&self, options: TaskSubprocessOptions) -> (String, Fault) {
        let (end, _) = self.run("true", options);
        match end.story.ending {
            Ending::NotStarted(why) => (why, end.story.fault),
            ran => panic!("it ran: {ran:?}"),
        }
    }

    fn in_data(&self, name: &str) -> PathBuf {
        self.dir.path().join("data").join(name)
    }
}

fn held_to(limits: &[(Limited, ProcessLimit)]) -> TaskSubprocessOptions {
    TaskSubprocessOptions {
        limits: limits.iter().copied().collect::<BTreeMap<_, _>>(),
        ..TaskSubprocessOptions::default()
    }
}

fn at(amount: u64) -> ProcessLimit {
    ProcessLimit::both(Bound::At(amount))
}

fn user(user: &str) -> TaskSubprocessOptions {
    let user = AccountName::try_from(user).expect("a name");
    TaskSubprocessOptions {
        user: Some(user),
        ..TaskSubprocessOptions::default()
    }
}

fn group(name: &str, group: &str) -> TaskSubprocessOptions {
    let group = AccountName::try_from(group).expect("a name");
    TaskSubprocessOptions {
        group: Some(group),
        ..user(name)
    }
}

/// Returns the output of `id`.
fn id(arguments: &[&str]) -> String {
    let output = Command::new("id").args(arguments).output().expect("runs");
    String::from_utf8(output.stdout)
        .expect("text")
        .trim()
        .to_owned()
}

#[test]
fn limits_hold_in_the_task() {
    let bench = Bench::new();
    let pair = ProcessLimit::new(Bound::At(70), Bound::At(90)).expect("in order");
    let options = held_to(&[
        (Limited::Nofile, pair),
        (Limited::Core, at(0)),
        (Limited::Cpu, at(7)),
        (Limited::Stack, at(1 << 20)),
    ]);
    let script = "ulimit -S -n; ulimit -H -n; ulimit -c; ulimit -t; ulimit -H -s";
    let lines = bench.lines_of(script, options);
    assert_eq!(lines, ["70", "90", "0", "7", "1024"]);
    // The next task has the worker's limits.
    let (soft, _) =
        nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE).expect("known");
    let lines = bench.lines_of("ulimit -n", TaskSubprocessOptions::default());
    assert_eq!(lines, [soft.to_string()]);
}

#[test]
fn a_task_above_its_file_size_limit_ends_by_its_own_fault() {
    let bench = Bench::new();
    let options = held_to(&[(Limited::Fsize, at(4096)), (Limited::Core, at(0))]);
    let script = "exec head -c 100000 /dev/zero > large";
    let (end, _) = bench.run(script, options);
    assert_eq!(end.story.ending, Ending::Signalled(FILE_TOO_LARGE));
    assert_eq!(end.story.fault, Fault::Task);
    let written = fs::metadata(bench.in_data("jobs/job/large")).expect("it");
    assert_eq!(written.len(), 4096);
}

#[test]
fn a_limit_that_cannot_be_had_ends_the_start_by_its_name() {
    let bench = Bench::new();
    // No process may have an unlimited number of files, whatever its rights.
    let endless = ProcessLimit::both(Bound::Unlimited);
    let (why, fault) = bench.refused(held_to(&[
        (Limited::Core, at(0)),
        (Limited::Nofile, endless),
    ]));
    let start = "the limit `nofile` cannot be unlimited: the worker's own hard limit is ";
    assert!(why.starts_with(start), "{why}");
    assert_eq!(fault, Fault::Task);
    // The same applies if root could set the limit: a job must not exceed the limits of the administrator.
    let (_, own) = getrlimit(Resource::RLIMIT_RTPRIO).expect("readable");
    if own < 99 {
        let (why, fault) = bench.refused(held_to(&[(Limited::Rtprio, at(own + 1))]));
        let start = format!("the limit `rtprio` cannot be {}: the worker's own", own + 1);
        assert!(why.starts_with(&start), "{why}");
        assert_eq!(fault, Fault::Task);
    } else {
        println!("UNPROVEN on this machine: the worker may have any real-time priority");
    }
}

/// Tests a directory below one that the user may not enter. The worker's rights would open it.
#[test]
fn a_directory_of_the_job_is_entered_with_the_rights_of_its_user() {
    let Some(bench) = Bench::allowing(&["nobody"]) else {
        return;
    };
    let in_directory = |path: &std::path::Path| TaskSubprocessOptions {
        working_directory: Some(path.to_str().expect("a plain name").to_owned()),
        ..user("nobody")
    };
    let closed = bench.dir.path().join("closed");
    let inside = closed.join("inside");
    fs::create_dir_all(&inside).expect("folders");
    fs::set_permissions(&inside, fs::Permissions::from_mode(0o777)).expect("set");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).expect("set");
    let (why, fault) = bench.refused(in_directory(&inside));
    assert!(
        why.ends_with("cannot be entered: Permission denied"),
        "{why}"
    );
    assert_eq!(fault, Fault::Task);
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o711)).expect("set");
    let lines = bench.lines_of("pwd", in_directory(&inside));
    assert_eq!(lines, [inside.to_str().expect("a plain name")]);
}

#[test]
fn a_task_has_the_rights_of_its_user_and_no_others() {
    let Some(bench) = Bench::allowing(&["nobody"]) else {
        return;
    };
    let secret = bench.dir.path().join("secret");
    fs::write(&secret, "secret").expect("written");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).expect("set");
    let script = format!(
        "id -u; id -g; id -G; echo $USER $LOGNAME; cat {} 2>/dev/null || echo closed; echo reopened > /dev/stdout; \
         echo mine > file && cat $PWD/file; stat -c '%U %a' .; touch {} 2>/dev/null || echo kept out; \
         cd {} && for name in jobs logs output; do ls $name 2>/dev/null || echo unseen; done; \
         cat logs/log identity 2>/dev/null || echo unread; echo done > $BRASSERIE_STATUS",
        secret.display(),
        bench.in_data("strange").display(),
        bench.in_data(".").display(),
    );
    for name in ["nobody", "65534"] {
        let key = bench.start(&script, user(name));
        let end = bench.end();
        assert!(end.status.is_done(), "{:?}", end.story);
        let (number, group) = (id(&["-u", "nobody"]), id(&["-g", "nobody"]));
        let expected = [
            number.as_str(),
            &group,
            &id(&["-G", "nobody"]),
            "nobody nobody",
            "closed",
            "reopened",
            "mine",
            "nobody 710",
            "kept out",
            "unseen",
            "unseen",
            "unseen",
            "unread",
        ];
        assert_eq!(bench.lines(&key), expected, "{name}");
    }
    // A task without `user` has the worker's user.
    let own = bench.lines_of("id -u; pwd", TaskSubprocessOptions::default());
    assert_eq!(own[0], "0");
    assert!(own[1].ends_with("data/jobs/job"), "{own:?}");
}

#[test]
fn a_group_is_one_of_the_users_or_one_that_is_allowed() {
    let Some(bench) = Bench::allowing(&["nobody:daemon,4321", "daemon"]) else {
        return;
    };
    let groups = id(&["-G", "nobody"]);
    for (asked, number) in [
        (id(&["-gn", "nobody"]), id(&["-g", "nobody"])),
        ("daemon".to_owned(), id(&["-g", "daemon"])),
        ("4321".to_owned(), "4321".to_owned()),
    ] {
        let lines = bench.lines_of("id -g; id -G", group("nobody", &asked));
        assert_eq!(lines[0], number);
        // The user's own groups are there, too.
        let all: Vec<&str> = lines[1].split(' ').collect();
        assert!(
            groups.split(' ').all(|group| all.contains(&group)),
            "{lines:?}"
        );
    }
    let (why, fault) = bench.refused(group("daemon", "root"));
    let flag = "started with --allow-user daemon:root; allowed: daemon";
    assert!(why.ends_with(flag), "{why}");
    assert_eq!(fault, Fault::Worker);
}

#[test]
fn a_user_that_is_not_allowed_is_refused_with_the_flag() {
    let (why, fault) = Bench::new().refused(user("daemon"));
    assert_eq!(
        why,
        "it asks for the user \"daemon\", for which this worker would have to be started with --allow-user daemon; no user is allowed"
    );
    // Another worker may allow it.
    assert_eq!(fault, Fault::Worker);
    if let Some(bench) = Bench::allowing(&["nobody"]) {
        let (why, _) = bench.refused(user("root"));
        assert!(why.ends_with("--allow-user root; allowed: nobody"), "{why}");
    }
}

#[test]
fn a_program_that_is_closed_to_the_user_says_to_whom() {
    let Some(bench) = Bench::allowing(&["nobody"]) else {
        return;
    };
    let program = bench.dir.path().join("program");
    fs::write(&program, "#!/bin/sh\n").expect("written");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).expect("set");
    bench.start_command(&[program.to_str().expect("text")], user("nobody"));
    let story = bench.end().story;
    let Ending::NotStarted(why) = &story.ending else {
        panic!("{story:?}");
    };
    assert!(why.ends_with("is closed to the user nobody"), "{why}");
    assert_eq!(story.fault, Fault::Task);
}

/// No other test in this file may use this user, because the processes of all its tasks count together.
#[test]
fn a_user_has_no_more_processes_than_the_limit_says() {
    let Some(bench) = Bench::allowing(&["games"]) else {
        return;
    };
    let few = |most| TaskSubprocessOptions {
        limits: [(Limited::Nproc, at(most))].into_iter().collect(),
        ..user("games")
    };
    // The script waits for its children: those that the machine's first process reaps late would count until then.
    let script = "trap 'kill $all; wait' EXIT; for i in 1 2 3 4 5; do sleep 1000 & all=\"$all $!\"; echo $i; done";
    let (end, lines) = bench.run(script, few(4));
    assert_ne!(end.story.ending, Ending::Exited(0), "{:?}", end.story);
    assert_eq!(lines, ["1", "2", "3"]);
    let refused = |line: &String| line.to_lowercase().contains("fork");
    assert!(end.story.last_lines.iter().any(refused), "{:?}", end.story);
    // The rest of the task has ended with it, so that the next task has room.
    assert_eq!(bench.lines_of("echo alone", few(1)), ["alone"]);
    // The user is at its limit before the task's program runs.
    let waits = bench.start("echo here; exec sleep 1000", user("games"));
    let deadline = Instant::now() + PATIENCE;
    while bench.lines(&waits).is_empty() {
        assert!(Instant::now() < deadline, "it never ran");
        std::thread::yield_now();
    }
    let (why, fault) = bench.refused(few(0));
    let text =
        "the user games has as many processes already as the task's limit `nproc` allows (0)";
    assert_eq!((why.as_str(), fault), (text, Fault::Worker));
    // The worker can end a task of another user.
    let request = KillRequest {
        method: KillMethod::Term,
        wait: Duration::ZERO,
    };
    let killed = bench.runner.kill(&waits, request, EndedBy::Operator);
    killed.expect("it runs");
    assert_eq!(bench.end().story.ending, Ending::Signalled(15));
}

#[test]
fn users_have_folders_of_their_own_for_one_job() {
    let Some(bench) = Bench::allowing(&["nobody", "daemon"]) else {
        return;
    };
    for name in ["nobody", "daemon"] {
        let number = id(&["-u", name]);
        let lines = bench.lines_of("echo mine > file; pwd", user(name));
        let folder = bench.in_data(&format!("users/{number}/job"));
        assert_eq!(lines, [folder.display().to_string()]);
        let found = fs::metadata(&folder).expect("it");
        assert_eq!(
            (found.uid().to_string(), found.mode() & 0o777),
            (number, 0o710)
        );
        assert!(folder.join("file").exists());
    }
    // A removed folder is created again, for the same user.
    let number = id(&["-u", "daemon"]);
    fs::remove_dir_all(bench.in_data("users")).expect("removed");
    bench.lines_of("echo mine > file", user("daemon"));
    assert!(bench.in_data(&format!("users/{number}/job/file")).exists());
}

#[test]
fn no_folder_is_taken_from_anybody_and_no_link_is_followed() {
    let Some(bench) = Bench::allowing(&["nobody", "daemon"]) else {
        return;
    };
    let number = |name: &str| id(&["-u", name]).parse::<u32>().expect("a number");
    let folder = |name: &str| bench.in_data(&format!("users/{}/job", number(name)));
    let others = folder("nobody");
    fs::create_dir_all(&others).expect("made");
    chown(&others, Some(number("daemon")), None).expect("given away");
    let (why, fault) = bench.refused(user("nobody"));
    assert!(why.contains("it belongs to the user "), "{why}");
    assert_eq!(fault, Fault::Worker);
    assert_eq!(fs::metadata(&others).expect("it").uid(), number("daemon"));
    // The link leads to a folder of the worker.
    let own = bench.in_data("own");
    fs::create_dir(&own).expect("made");
    fs::create_dir_all(folder("daemon").parent().expect("one")).expect("made");
    symlink(&own, folder("daemon")).expect("a link");
    let (why, _) = bench.refused(user("daemon"));
    assert!(why.contains("not a directory"), "{why}");
    assert_eq!(fs::metadata(&own).expect("it").uid(), 0);
}
