//! Tests the files on the disk: their content, their times, and which are kept.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant, SystemTime};

use brasserie_common::{InvocationId, JobName, NodeName};
use flate2::read::MultiGzDecoder;
use proptest::prelude::*;

use super::*;
use crate::logs::LogRoom;

/// The longest wait; only a failing test reaches it.
const PATIENCE: Duration = Duration::from_secs(60);
/// The largest number of bytes that one run may have waiting.
const SHARE: usize = 2 << 20;
const BLOCK: u64 = 4096;
const DAY: Duration = Duration::from_secs(86_400);

type Told = Receiver<(Stream, Written)>;

fn open(dir: &Path, max_bytes: u64) -> OutputStore {
    let retention = Retention {
        max_age: DAY,
        max_bytes,
    };
    let dir = dir.to_owned();
    OutputStore::open(OutputConfig { dir, retention }).expect("a folder of our own")
}

fn start(store: &OutputStore, dir: &Path, job: &str, number: i64) -> (RunOutput, Told) {
    let job = JobName::try_from(job).expect("a name");
    let node = NodeName::try_from("node").expect("a name");
    let files = files_of(dir, InvocationId::new(1, number), &job, &node);
    let (sender, told) = mpsc::channel();
    let run = store.run(files, move |stream, written| {
        sender
            .send((stream, written.clone()))
            .expect("the test listens");
    });
    (run, told)
}

/// Returns all readable bytes, and an error if the file is incomplete.
fn read(path: &Path) -> (Vec<u8>, io::Result<usize>) {
    let mut bytes = Vec::new();
    let result =
        File::open(path).and_then(|file| MultiGzDecoder::new(file).read_to_end(&mut bytes));
    (bytes, result)
}

fn whole(path: &Path) -> Vec<u8> {
    let (bytes, result) = read(path);
    result.expect("whole members");
    bytes
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Returns all files below a folder.
fn files_in(dir: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        match entry.path().is_dir() {
            true => found.extend(files_in(&entry.path())),
            false => drop(found.insert(entry.path())),
        }
    }
    found
}

/// Returns bytes that no compressor makes smaller.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    (0..length.div_ceil(8)).flat_map(|_| next()).collect()
}

integration_tests_properties::properties! {
    24;

    #[test]
    fn what_was_printed_is_in_the_files_as_it_was(
        chunks in proptest::collection::vec((any::<bool>(), proptest::collection::vec(any::<u8>(), 0..300), 1usize..3000), 0..12)
    ) {
        let dir = tempfile::tempdir().expect("a folder");
        let store = open(dir.path(), 1 << 30);
        let (run, told) = start(&store, dir.path(), "job", 7);
        let files = run.files().clone();
        let mut printed: Streams<Vec<u8>> = Streams::default();
        for (on_stderr, bytes, times) in chunks {
            let stream = if on_stderr { Stream::Stderr } else { Stream::Stdout };
            let bytes = bytes.repeat(times);
            run.append(stream, &bytes);
            printed[stream.index()].extend_from_slice(&bytes);
        }
        drop(run);
        drop(store);
        let told: Vec<_> = told.iter().collect();
        let mut want = Vec::new();
        for stream in Stream::ALL {
            let (file, printed) = (&files[stream.index()], &printed[stream.index()]);
            prop_assert_eq!(file.exists(), !printed.is_empty());
            if !printed.is_empty() {
                prop_assert!(&whole(file) == printed);
                let compressed = fs::metadata(file).expect("it is there").len();
                want.push((stream, Written { file: file.clone(), bytes: printed.len() as u64, compressed, lost: 0, why: None }));
            }
        }
        prop_assert_eq!(told, want);
    }
}

#[test]
fn a_file_is_whole_while_its_task_prints_and_a_cut_takes_the_last_member_only() {
    let dir = tempfile::tempdir().expect("a folder");
    let store = open(dir.path(), 1 << 30);
    let (run, _told) = start(&store, dir.path(), "job", 1);
    let file = run.files()[0].clone();
    let mut lengths = Vec::new();
    for line in ["first\n", "second\n"] {
        run.append(Stream::Stdout, line.as_bytes());
        wait_until(
            "what was printed is on the disk while the task lives",
            || {
                let (bytes, result) = read(&file);
                // A read during a write may end within a member.
                bytes.ends_with(line.as_bytes()) && result.is_ok()
            },
        );
        lengths.push(fs::metadata(&file).expect("it is there").len());
    }
    let bytes = fs::read(&file).expect("it is there");
    for cut in lengths[0]..lengths[1] {
        let cut_off = dir.path().join("cut.gz");
        let cut = usize::try_from(cut).expect("short");
        fs::write(&cut_off, &bytes[..cut]).expect("written");
        let (read, _) = read(&cut_off);
        assert!(read.starts_with(b"first\n"), "cut at {cut}: {read:?}");
    }
}

#[test]
fn a_run_of_the_same_name_goes_on_behind_the_first() {
    let dir = tempfile::tempdir().expect("a folder");
    for line in ["one\n", "two\n"] {
        let store = open(dir.path(), 1 << 30);
        let (run, _told) = start(&store, dir.path(), "job", 1);
        run.append(Stream::Stdout, line.as_bytes());
    }
    let files = files_in(dir.path());
    assert_eq!(files.len(), 1);
    assert_eq!(whole(files.first().expect("one")), b"one\ntwo\n");
}

#[test]
fn a_run_that_is_ahead_has_no_room_and_others_have() {
    let dir = tempfile::tempdir().expect("a folder");
    let store = open(dir.path(), 1 << 30);
    let held = store.hold_writer();
    let (greedy, told) = start(&store, dir.path(), "greedy", 1);
    let (modest, modest_told) = start(&store, dir.path(), "modest", 2);
    let piece = noise(64 << 10);
    let mut printed = 0;
    // The bytes that the writer has already taken are in addition to these, once.
    while greedy.room() == LogRoom::Free {
        greedy.append(Stream::Stdout, &piece);
        printed += piece.len();
        assert!(printed <= 2 * SHARE + piece.len(), "without bound");
    }
    // The writer may just be taking the waiting bytes.
    wait_until("no room", || {
        if greedy.room() == LogRoom::Free {
            greedy.append(Stream::Stdout, &piece);
            printed += piece.len();
        }
        greedy.room() == LogRoom::Full
    });
    assert!(store.waiting_bytes() <= SHARE + piece.len());
    assert_eq!(modest.room(), LogRoom::Free);
    modest.append(Stream::Stderr, b"a word");
    greedy.leave_out(Stream::Stdout, 5);
    drop((held, greedy, modest));
    let (_, written) = told.recv_timeout(PATIENCE).expect("told");
    assert_eq!((written.bytes, written.lost), (printed as u64 + 5, 5));
    let why = written.why.expect("it says why");
    assert!(why.contains("log_overflow"), "{why}");
    assert!(whole(&written.file) == piece.repeat(printed / piece.len()));
    let (stream, written) = modest_told.recv_timeout(PATIENCE).expect("told");
    assert_eq!((stream, written.lost), (Stream::Stderr, 0));
}

#[test]
fn what_cannot_be_written_is_told_and_hurts_nobody_else() {
    let dir = tempfile::tempdir().expect("a folder");
    let store = open(dir.path(), 1 << 30);
    // A file takes the place of the job's folder.
    fs::write(dir.path().join("blocked"), "").expect("written");
    let (blocked, told) = start(&store, dir.path(), "blocked", 1);
    let (free, free_told) = start(&store, dir.path(), "free", 2);
    blocked.append(Stream::Stdout, b"lost");
    free.append(Stream::Stdout, b"kept");
    drop((blocked, free));
    let (_, written) = told.recv_timeout(PATIENCE).expect("told");
    let Written {
        bytes,
        compressed,
        lost,
        why,
        ..
    } = written;
    assert_eq!((bytes, compressed, lost), (4, 0, 4));
    assert!(why.is_some_and(|why| why.contains("directory")));
    let (_, written) = free_told.recv_timeout(PATIENCE).expect("told");
    assert_eq!(whole(&written.file), b"kept");
}

/// Makes a file of one block, as an earlier worker would leave it.
fn leave(dir: &Path, job: &str, number: i64, age: Duration) -> PathBuf {
    let job = JobName::try_from(job).expect("a name");
    let node = NodeName::try_from("node").expect("a name");
    let [path, _] = files_of(dir, InvocationId::new(1, number), &job, &node);
    fs::create_dir_all(path.parent().expect("it has a folder")).expect("made");
    let file = File::create(&path).expect("made");
    file.set_len(10).expect("there is room");
    file.set_modified(SystemTime::now() - age).expect("ours");
    path
}

#[test]
fn the_oldest_go_first_by_size_and_by_age_and_strangers_stay() {
    let dir = tempfile::tempdir().expect("a folder");
    let hour = Duration::from_secs(3600);
    let numbers = 0..30u32;
    let left: Vec<PathBuf> = numbers
        .map(|i| {
            leave(
                dir.path(),
                &format!("job {i}"),
                i.into(),
                hour - hour * i / 60,
            )
        })
        .collect();
    let old = leave(dir.path(), "old", 1, 2 * DAY);
    let stranger = dir.path().join("notes.txt");
    fs::write(&stranger, vec![0; 1 << 20]).expect("written");
    // A user has put a file beside the files of a run.
    let beside = left[29].with_file_name("results.stdout.gz");
    fs::write(&beside, vec![0; 1 << 20]).expect("written");
    let long_ago = SystemTime::now() - 99 * DAY;
    let opened = File::options().write(true).open(&beside);
    opened.expect("ours").set_modified(long_ago).expect("ours");
    // There is room for ten files. The one that is being written is the oldest of all.
    let store = open(dir.path(), 10 * BLOCK);
    let (run, _told) = start(&store, dir.path(), "new", 99);
    run.append(Stream::Stdout, &noise(100));
    // All bytes must be written first: a later write would make the file new.
    wait_until("it is written", || {
        let (bytes, result) = read(&run.files()[0]);
        result.is_ok() && bytes.len() == noise(100).len()
    });
    let far = SystemTime::now() - 9 * DAY;
    let written = File::options().write(true).open(&run.files()[0]);
    written.expect("ours").set_modified(far).expect("ours");
    let mut want: BTreeSet<PathBuf> = left[left.len() - 9..].iter().cloned().collect();
    want.extend([run.files()[0].clone(), stranger, beside]);
    wait_until("what is too much is gone, and no more", || {
        files_in(dir.path()) == want
    });
    assert!(!old.exists());
    // A file is removed a moment before its folders.
    wait_until("their folders are gone with them", || {
        fs::read_dir(dir.path()).expect("a folder").count() == want.len() - 1
    });
    drop((run, store));
    // The size allows all files, but the age does not: the last written one is nine days old.
    let store = open(dir.path(), 1 << 30);
    wait_until("what is too old is gone", || {
        files_in(dir.path()).len() == want.len() - 1
    });
    drop(store);
}

#[test]
fn what_finishes_makes_room_by_itself() {
    let dir = tempfile::tempdir().expect("a folder");
    let store = open(dir.path(), 5 * BLOCK);
    let mut last = PathBuf::new();
    for number in 0..40 {
        let (run, told) = start(&store, dir.path(), "job", number);
        run.append(Stream::Stdout, b"something");
        last.clone_from(&run.files()[0]);
        drop(run);
        let (_, written) = told.recv_timeout(PATIENCE).expect("told");
        assert_eq!(written.lost, 0);
    }
    wait_until("no more than fits is left", || {
        files_in(dir.path()).len() <= 5
    });
    assert!(last.exists());
}

#[test]
fn a_run_larger_than_all_may_be_loses_the_rest_and_is_told() {
    let dir = tempfile::tempdir().expect("a folder");
    let max = 300 * BLOCK;
    let store = open(dir.path(), max);
    let (run, told) = start(&store, dir.path(), "job", 1);
    let printed = noise(4 << 20);
    for piece in printed.chunks(64 << 10) {
        wait_until("room", || run.room() == LogRoom::Free);
        run.append(Stream::Stdout, piece);
    }
    let file = run.files()[0].clone();
    wait_until("something is written", || file.exists());
    drop(run);
    let (_, written) = told.recv_timeout(PATIENCE).expect("told");
    assert_eq!(written.bytes, printed.len() as u64);
    assert!(written.compressed <= max && written.lost > 0, "{written:?}");
    let why = written.why.expect("it says why");
    assert!(why.contains("--output-max-size"), "{why}");
    let kept = whole(&file);
    assert_eq!(kept.len() as u64, written.bytes - written.lost);
    assert!(printed.starts_with(&kept[..64 << 10]), "from the start on");
}
