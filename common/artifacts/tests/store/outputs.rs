//! Tests of the outputs that a task left: ordinary ones and hostile ones.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use brasserie_common::ArtifactForm;
use brasserie_common_artifacts::{OutputRefusal, TakeInError};
use nix::sys::stat::Mode;

use crate::bench::{Bench, id_of, is_root, mode_of, paths_below, set_mode};

/// The user of tasks in tests that run as root.
const TASK_USER: u32 = 4711;

fn bench() -> (tempfile::TempDir, Bench) {
    let disk = tempfile::tempdir().expect("a folder");
    let bench = Bench::on(&[disk.path()]);
    (disk, bench)
}

/// Returns the refused path and the reason.
fn refusal(bench: &Bench, output: &str) -> (String, OutputRefusal) {
    refusal_as(bench, nix::unistd::geteuid().as_raw(), output)
}

fn refusal_as(bench: &Bench, user: u32, output: &str) -> (String, OutputRefusal) {
    match bench.take_as(user, output) {
        Err(TakeInError::Output { path, why }) => (path.to_string_lossy().into_owned(), why),
        other => panic!("{output}: {other:?}"),
    }
}

#[test]
fn a_file_becomes_an_artifact_with_its_bytes() {
    let (_disk, bench) = bench();
    let big = vec![7; 3_000_000];
    bench.write("a/model.bin", &big);
    let artifact = bench.take("a/model.bin").expect("a plain file");
    assert_eq!((artifact.id, artifact.size), (id_of(&big), 3_000_000));
    assert_eq!(artifact.form, ArtifactForm::File);
    let file = bench.file_of(artifact.id);
    assert_eq!(
        (mode_of(&file), fs::read(&file).expect("ours")),
        (0o400, big)
    );
    set_mode(&bench.write("run", ""), 0o700);
    let run = bench.take("run").expect("an empty file");
    assert_eq!((run.form, run.size), (ArtifactForm::Executable, 0));
    // The same output again is no second copy.
    bench.write("b", "");
    assert_eq!(bench.take("b").expect("a file").id, run.id);
    assert_eq!(bench.store.holdings(&bench.namespace).len(), 2);
    bench.assert_consistent();
}

#[test]
fn outputs_are_taken_together_or_not_at_all() {
    let (_disk, bench) = bench();
    bench.write("a", "same");
    bench.write("b", "same");
    set_mode(&bench.write("c", "same"), 0o700);
    bench.write("d/e", "deep");
    let error = bench
        .take_all(&["a", "d/", "none"])
        .expect_err("no such file");
    assert!(error.to_string().contains("`none`"), "{error}");
    assert_eq!(bench.store.holdings(&bench.namespace), []);
    bench.assert_consistent();
    let taken = bench.take_all(&["a", "d/", "b", "c"]).expect("files");
    let forms: Vec<ArtifactForm> = taken.iter().map(|artifact| artifact.form).collect();
    let (file, run) = (ArtifactForm::File, ArtifactForm::Executable);
    assert_eq!(forms, [file, ArtifactForm::Folder, file, run]);
    assert!([0, 2, 3].iter().all(|&at| taken[at].id == id_of(b"same")));
    assert_eq!(bench.store.holdings(&bench.namespace).len(), 2);
    assert_eq!(bench.take("d/").expect("a folder"), taken[1]);
    assert_eq!(bench.take_all(&[]).expect("nothing"), []);
    bench.assert_consistent();
}

#[test]
fn links_and_special_files_are_refused_with_their_path() {
    let (disk, bench) = bench();
    let task = bench.task.path();
    bench.write("folder/sub/file", "x");
    symlink("/etc/passwd", task.join("folder/sub/link")).expect("a link");
    symlink("/etc", task.join("etc")).expect("a link");
    nix::unistd::mkfifo(&task.join("folder/sub/pipe"), Mode::S_IRWXU).expect("a pipe");
    let _socket = std::os::unix::net::UnixListener::bind(task.join("socket")).expect("a socket");
    for (output, path) in [
        ("folder/sub/link", "folder/sub/link"),
        ("folder/", "folder/sub/link"),
        ("etc/passwd", "etc"),
        ("etc/", "etc/"),
    ] {
        let (refused, why) = refusal(&bench, output);
        assert_eq!(refused, path);
        assert!(matches!(why, OutputRefusal::Link), "{why:?}");
    }
    fs::remove_file(task.join("folder/sub/link")).expect("removed");
    for (output, path) in [
        ("folder/sub/pipe", "folder/sub/pipe"),
        ("folder/", "folder/sub/pipe"),
        ("socket", "socket"),
    ] {
        let (refused, why) = refusal(&bench, output);
        assert_eq!(refused, path);
        assert!(matches!(why, OutputRefusal::Special), "{why:?}");
    }
    for (output, expected) in [
        ("none", "did not write it"),
        ("folder", "it is a folder: add `/`"),
        ("folder/sub/file/", "it is a file: remove `/`"),
        ("folder/sub/file/x", "it is a file"),
    ] {
        let (_, why) = refusal(&bench, output);
        assert!(why.to_string().contains(expected), "{output}: {why}");
    }
    assert_eq!(
        paths_below(&disk.path().join("content")),
        Vec::<&Path>::new()
    );
    bench.assert_consistent();
}

#[test]
fn names_of_tasks_cannot_change_a_terminal() {
    let (_disk, bench) = bench();
    fs::create_dir(bench.task.path().join("f")).expect("a folder");
    symlink("x", bench.task.path().join("f/\u{1b}[31m")).expect("a link");
    let text = bench.take("f/").expect_err("a link").to_string();
    assert!(
        text.contains("f/\\u{1b}[31m") && !text.contains('\u{1b}'),
        "{text}"
    );
}

#[test]
fn devices_and_special_bits_are_refused() {
    let (_disk, bench) = bench();
    let file = bench.write("special", "x");
    for mode in [0o4755, 0o2755, 0o1755] {
        set_mode(&file, mode);
        if mode_of(&file) != mode {
            eprintln!("unproven: this user cannot set the mode {mode:o}");
            continue;
        }
        let (_, why) = refusal(&bench, "special");
        assert!(
            matches!(why, OutputRefusal::SpecialBits(bits) if bits == mode),
            "{why:?}"
        );
    }
    if !is_root("a device") {
        return;
    }
    let zero = bench.task.path().join("zero");
    let kind = nix::sys::stat::SFlag::S_IFCHR;
    let made = nix::sys::stat::mknod(&zero, kind, Mode::S_IRWXU, nix::sys::stat::makedev(1, 5));
    if let Err(error) = made {
        eprintln!("unproven: devices cannot be made here: {error}");
        return;
    }
    let (_, why) = refusal(&bench, "zero");
    assert!(matches!(why, OutputRefusal::Special), "{why:?}");
}

/// A task may link or move files of others into its folder. The worker could read them, and the task could not.
#[test]
fn files_that_the_task_could_not_read_are_refused() {
    if !is_root("a file of another user") {
        return;
    }
    let (_disk, bench) = bench();
    let secret = bench.write("secret", "root's");
    set_mode(&secret, 0o640);
    fs::hard_link(&secret, bench.task.path().join("link")).expect("a hard link");
    fs::create_dir(bench.task.path().join("folder")).expect("a folder");
    fs::rename(&secret, bench.task.path().join("folder/moved")).expect("moved");
    set_mode(&bench.task.path().join("folder"), 0o755);
    for (output, path) in [
        ("link", "link"),
        ("folder/moved", "folder/moved"),
        ("folder/", "folder/moved"),
    ] {
        let (refused, why) = refusal_as(&bench, TASK_USER, output);
        assert_eq!(refused, path);
        assert!(
            matches!(
                why,
                OutputRefusal::Unreadable {
                    owner: 0,
                    mode: 0o640,
                    ..
                }
            ),
            "{why:?}"
        );
    }
    // A program of another user may write outputs for the task, as in containers.
    set_mode(&bench.task.path().join("link"), 0o644);
    bench
        .take_as(TASK_USER, "folder/")
        .expect("all users can read it");
    // Hard links of the task's own files are ordinary: package managers make them.
    let own = bench.task.path().join("own");
    fs::write(&own, "own").expect("written");
    set_mode(&own, 0o600);
    nix::unistd::chown(&own, Some(TASK_USER.into()), None).expect("root may");
    fs::hard_link(&own, bench.task.path().join("second")).expect("a hard link");
    bench.take_as(TASK_USER, "second").expect("its own file");
    set_mode(&bench.task.path().join("folder"), 0o700);
    let (refused, _) = refusal_as(&bench, TASK_USER, "folder/");
    assert_eq!(refused, "folder/");
}

/// Another process exchanges a folder for a link all the time. The store takes the folder's file, or refuses, and never follows the link.
#[test]
fn a_link_swapped_for_a_folder_is_never_followed() {
    let (_disk, bench) = bench();
    let outside = tempfile::tempdir().expect("a folder");
    fs::write(outside.path().join("file"), "secret").expect("written");
    bench.write("a/file", "open");
    let task = bench.task.path();
    symlink(outside.path(), task.join("b")).expect("a link");
    let done = AtomicBool::new(false);
    let (secret, open) = (id_of(b"secret"), id_of(b"open"));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let flags = nix::fcntl::RenameFlags::RENAME_EXCHANGE;
            let folder = File::open(task).expect("it is there");
            while !done.load(Ordering::Relaxed) {
                nix::fcntl::renameat2(&folder, "a", &folder, "b", flags).expect("exchanged");
            }
        });
        let mut taken = 0;
        for round in 0..2000 {
            match bench.take(if round % 2 == 0 { "a/file" } else { "b/" }) {
                Ok(artifact) => {
                    assert_ne!(artifact.id, secret);
                    taken += u32::from(artifact.id == open);
                }
                Err(TakeInError::Output { .. }) => {}
                Err(error) => panic!("{error}"),
            }
            if round > 200 && taken > 0 {
                break;
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(bench.store.find(&bench.namespace, secret), None);
    bench.assert_consistent();
}

#[test]
fn a_pipe_swapped_for_a_file_blocks_nobody() {
    let (_disk, bench) = bench();
    bench.write("a", "open");
    let task = bench.task.path();
    nix::unistd::mkfifo(&task.join("b"), Mode::S_IRWXU).expect("a pipe");
    let (stop, stopped) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let flags = nix::fcntl::RenameFlags::RENAME_EXCHANGE;
            let folder = File::open(task).expect("it is there");
            while stopped.try_recv() == Err(mpsc::TryRecvError::Empty) {
                nix::fcntl::renameat2(&folder, "a", &folder, "b", flags).expect("exchanged");
            }
        });
        for _ in 0..500 {
            if let Ok(artifact) = bench.take("a") {
                assert_eq!(artifact.id, id_of(b"open"));
            }
        }
        drop(stop);
    });
}

#[test]
fn a_file_that_changes_its_length_is_refused() {
    let (_disk, bench) = bench();
    let path = bench.write("log", vec![1; 1 << 20]);
    let (stop, stopped) = mpsc::channel::<()>();
    let refused = std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut file = File::options()
                .append(true)
                .open(path)
                .expect("it is there");
            while stopped.try_recv() == Err(mpsc::TryRecvError::Empty) {
                file.write_all(&[2; 4096]).expect("there is space");
                if file.metadata().expect("a file").size() > 64 << 20 {
                    file.set_len(1 << 20).expect("shortened");
                }
            }
        });
        let refused = (0..1000).any(|_| match bench.take("log") {
            Err(TakeInError::Output { why, .. }) => matches!(why, OutputRefusal::Changed { .. }),
            Err(error) => panic!("{error}"),
            Ok(artifact) => {
                bench.store.delete(&bench.namespace, [artifact.id]);
                false
            }
        });
        drop(stop);
        refused
    });
    assert!(refused);
    bench.assert_consistent();
}

/// A sparse file counts by its length, so a task cannot fill a disk with a file that cost it nothing.
#[test]
fn a_sparse_file_beyond_the_capacity_is_refused_before_it_is_read() {
    let (_disk, bench) = bench();
    let path = bench.write("sparse", "");
    let file = File::options().write(true).open(path).expect("it is there");
    file.set_len(1 << 42).expect("a sparse file");
    let began = std::time::Instant::now();
    let error = bench.take("sparse").expect_err("it is too large");
    assert!(
        error.to_string().contains("no space for 4.0 TiB"),
        "{error}"
    );
    bench.write("folder/x", "");
    fs::rename(
        bench.task.path().join("sparse"),
        bench.task.path().join("folder/sparse"),
    )
    .expect("moved");
    let error = bench.take("folder/").expect_err("it is too large");
    assert!(
        error.to_string().contains("no space for 4.0 TiB"),
        "{error}"
    );
    assert!(began.elapsed() < Duration::from_secs(30));
    bench.assert_consistent();
}
