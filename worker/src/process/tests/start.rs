//! Tests that both ways of making a process do the same, and name the cause of a failure.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{Gid, Uid, geteuid};

use super::super::launch::{Account, Child, Launch, LaunchStep, Limit, Refused, SpawnMethod};
use super::super::spawn::{self, Launcher};

const WAYS: [SpawnMethod; 2] = [SpawnMethod::Clone, SpawnMethod::PosixSpawn];

/// One start of a shell script, with optional features.
#[derive(Default)]
struct Trial<'a> {
    program: &'a str,
    working_dir: Option<&'a str>,
    joins: Vec<File>,
    descriptors: Option<Limit>,
    limits: Vec<Limit>,
    account: Option<Account>,
}

impl Trial<'_> {
    /// Returns the script's output, or the reason why it did not start.
    fn run(&self, way: SpawnMethod, script: &str) -> Result<String, Refused> {
        let (null, (read, write)) = (
            File::open("/dev/null").expect("it"),
            nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).expect("a pipe"),
        );
        let reserved: OwnedFd = null.try_clone().expect("a number").into();
        let c = |text: &str| std::ffi::CString::new(text).expect("no NUL");
        let program = match self.program {
            "" => "/bin/sh",
            other => other,
        };
        let (program, dir) = (c(program), c(self.working_dir.unwrap_or("/")));
        let argv = [c("sh"), c("-c"), c(script)];
        let environment = [c("A=1")];
        let joins: Vec<_> = self.joins.iter().map(AsFd::as_fd).collect();
        let launch = Launch {
            program: &program,
            argv: &argv,
            environment: [&environment, &[]],
            working_dir: &dir,
            enters_as_account: false,
            stdin: null.as_fd(),
            stdout: write.as_fd(),
            stderr: write.as_fd(),
            status: write.as_fd(),
            status_number: std::os::fd::AsRawFd::as_raw_fd(&reserved),
            joins: &joins,
            descriptors: self.descriptors,
            mark: None,
            limits: &self.limits,
            account: self.account.as_ref(),
        };
        let mut launcher = Launcher::new(way).expect("a launcher");
        let Child { pid, pidfd } = launcher.spawn(&launch)?;
        drop(write);
        let mut text = String::new();
        File::from(read).read_to_string(&mut text).expect("text");
        let mut polled = [nix::poll::PollFd::new(
            pidfd.as_fd(),
            nix::poll::PollFlags::POLLIN,
        )];
        nix::poll::poll(&mut polled, nix::poll::PollTimeout::NONE).expect("its end");
        spawn::reap(pid).expect("it is dead");
        Ok(text)
    }
}

#[test]
fn both_ways_start_with_clean_signals_own_group_and_nothing_else_open() {
    // The test harness may have passed descriptors on.
    spawn::close_inherited_on_exec().expect("set");
    let script = "grep -E '^Sig(Blk|Ign)' /proc/self/status; ls /proc/self/fd | wc -l; pwd; echo $A; \
                  test $(ps -o pgid= -p $$) -eq $$ -a $(ps -o sid= -p $$) -eq $$ && echo leads";
    let hidden = SigSet::from_iter([Signal::SIGUSR1, Signal::SIGTERM]);
    hidden.thread_block().expect("blocked");
    let texts = WAYS.map(|way| Trial::default().run(way, script).expect("started"));
    hidden.thread_unblock().expect("unblocked");
    for text in &texts {
        let masks = text.lines().take(2).map(|l| l.split_whitespace().nth(1));
        for mask in masks.flatten() {
            let mask = u64::from_str_radix(mask, 16).expect("hexadecimal");
            // The C library leaves its two reserved signals ignored, 32 and 33, which no program can use otherwise.
            assert_eq!(mask & 0x7fff_ffff, 0, "{text}");
        }
        // The descriptors are stdin, stdout, stderr, status, and the listed folder.
        assert!(text.ends_with("\n5\n/\n1\nleads\n"), "{text}");
    }
    let mask = SigSet::thread_get_mask().expect("readable");
    assert!(!mask.contains(Signal::SIGTERM) && !mask.contains(Signal::SIGUSR2));
}

#[test]
fn what_stops_a_start_is_named_with_its_step() {
    let missing = Trial {
        program: "/does/not/exist",
        ..Default::default()
    };
    let nowhere = Trial {
        working_dir: Some("/does/not/exist"),
        ..Default::default()
    };
    for way in WAYS {
        let refused = missing.run(way, "").expect_err("no program");
        assert_eq!(
            (refused.step, refused.error),
            (LaunchStep::Execute, Errno::ENOENT)
        );
        let refused = nowhere.run(way, "").expect_err("no folder");
        assert_eq!(refused.error, Errno::ENOENT);
    }
    let refused = nowhere.run(SpawnMethod::Clone, "").expect_err("no folder");
    assert_eq!(refused.step, LaunchStep::WorkingDirectory);
    let unjoinable = Trial {
        joins: vec![File::open("/dev/null").expect("for reading")],
        ..Default::default()
    };
    let refused = unjoinable
        .run(SpawnMethod::Clone, "")
        .expect_err("not writable");
    assert_eq!(
        (refused.step, refused.error),
        (LaunchStep::Join, Errno::EBADF)
    );
    let upside_down = Trial {
        limits: vec![Limit {
            resource: Resource::RLIMIT_CORE,
            soft: 2,
            hard: 1,
        }],
        ..Default::default()
    };
    let refused = upside_down
        .run(SpawnMethod::Clone, "")
        .expect_err("soft above hard");
    let step = LaunchStep::Limit(Resource::RLIMIT_CORE);
    assert_eq!((refused.step, refused.error), (step, Errno::EINVAL));
    let refused = upside_down
        .run(SpawnMethod::PosixSpawn, "")
        .expect_err("cannot");
    assert_eq!((refused.step, refused.error), (step, Errno::ENOSYS));
}

#[test]
fn groups_are_joined_by_a_zero_and_limits_hold_in_the_child_alone() {
    let mut group = tempfile::tempfile().expect("a file");
    let before = getrlimit(Resource::RLIMIT_NOFILE).expect("readable");
    let limit = |resource, value| Limit {
        resource,
        soft: value,
        hard: value,
    };
    let trial = Trial {
        joins: vec![group.try_clone().expect("a descriptor")],
        descriptors: Some(Limit {
            resource: Resource::RLIMIT_NOFILE,
            soft: 77,
            hard: before.1,
        }),
        limits: vec![
            limit(Resource::RLIMIT_CORE, 0),
            limit(Resource::RLIMIT_CPU, 33),
        ],
        ..Default::default()
    };
    let text = trial.run(SpawnMethod::Clone, "ulimit -n; ulimit -c; ulimit -t");
    assert_eq!(text.as_deref(), Ok("77\n0\n33\n"));
    assert_eq!(getrlimit(Resource::RLIMIT_NOFILE), Ok(before));
    std::io::Seek::rewind(&mut group).expect("rewound");
    let mut written = String::new();
    group.read_to_string(&mut written).expect("text");
    assert_eq!(written, "0");
    write!(group, "x").expect("still open here");
    // The other way keeps the worker's limit, and does not start a program that asks for other limits.
    let asks = Trial {
        limits: trial.limits.clone(),
        ..Default::default()
    };
    let refused = asks.run(SpawnMethod::PosixSpawn, "").expect_err("cannot");
    let step = LaunchStep::Limit(Resource::RLIMIT_CORE);
    assert_eq!((refused.step, refused.error), (step, Errno::ENOSYS));
    let other = Trial {
        descriptors: trial.descriptors,
        ..Default::default()
    };
    let text = other
        .run(SpawnMethod::PosixSpawn, "ulimit -n")
        .expect("started");
    assert_eq!(text.trim(), before.0.to_string());
}

#[test]
fn an_account_is_taken_in_the_child_alone_and_for_good() {
    let account = Account {
        user: Uid::from_raw(65_534),
        group: Gid::from_raw(65_534),
        groups: vec![Gid::from_raw(65_534), Gid::from_raw(4_321)],
    };
    let trial = Trial {
        account: Some(account),
        ..Default::default()
    };
    let script = "id -u; id -g; id -G; grep NoNewPrivs /proc/self/status";
    let result = trial.run(SpawnMethod::Clone, script);
    if !geteuid().is_root() {
        let refused = result.expect_err("only root may");
        assert_eq!(
            (refused.step, refused.error),
            (LaunchStep::Account, Errno::EPERM)
        );
        return;
    }
    let text = result.expect("started");
    assert_eq!(text, "65534\n65534\n65534 4321\nNoNewPrivs:\t1\n");
    assert!(geteuid().is_root());
    assert_eq!(nix::sys::prctl::get_dumpable(), Ok(true));
    let refused = trial.run(SpawnMethod::PosixSpawn, "").expect_err("cannot");
    assert_eq!(
        (refused.step, refused.error),
        (LaunchStep::Account, Errno::ENOSYS)
    );
}

#[test]
fn one_launcher_starts_many_that_are_signalled_as_early_as_anybody_can() {
    let mut launcher = Launcher::new(SpawnMethod::Clone).expect("a launcher");
    let null = File::options()
        .read(true)
        .write(true)
        .open("/dev/null")
        .expect("it");
    let reserved: OwnedFd = null.try_clone().expect("a number").into();
    let c = |text: &str| std::ffi::CString::new(text).expect("no NUL");
    let (program, dir, argv) = (c("/bin/true"), c("/"), [c("true")]);
    for _ in 0..300 {
        let launch = Launch {
            program: &program,
            argv: &argv,
            environment: [&[], &[]],
            working_dir: &dir,
            enters_as_account: false,
            stdin: null.as_fd(),
            stdout: null.as_fd(),
            stderr: null.as_fd(),
            status: null.as_fd(),
            status_number: std::os::fd::AsRawFd::as_raw_fd(&reserved),
            joins: &[],
            descriptors: None,
            mark: None,
            limits: &[],
            account: None,
        };
        let child = launcher.spawn(&launch).expect("started");
        nix::sys::signal::kill(child.pid, Signal::SIGTERM).expect("not reaped yet");
        let end = nix::sys::wait::waitpid(child.pid, None).expect("ours");
        let ended = matches!(end, nix::sys::wait::WaitStatus::Exited(_, 0))
            || matches!(
                end,
                nix::sys::wait::WaitStatus::Signaled(_, Signal::SIGTERM, _)
            );
        assert!(ended, "{end:?}");
    }
}
