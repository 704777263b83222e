//! Tests the log store with real files: order, paging, restarts, damage, retention, a disk that refuses.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use brasserie_common::logs::{LineId, LogLine, LogQuery, LogStream};
use brasserie_common::{InvocationId, JobName, NodeName, WallTime};

use super::index::SegmentIndex;
use super::*;

/// A clock that only a test changes.
#[derive(Clone)]
struct Clock(Arc<AtomicI64>);

impl Clock {
    fn at(secs: i64) -> Self {
        Clock(Arc::new(AtomicI64::new(secs)))
    }

    fn set(&self, secs: i64) {
        self.0.store(secs, Ordering::SeqCst);
    }

    fn wall(&self) -> WallClock {
        let seconds = Arc::clone(&self.0);
        Arc::new(move || WallTime::from_secs(seconds.load(Ordering::SeqCst)))
    }
}

const START: i64 = 1_700_000_000;

fn open(dir: &Path, clock: &Clock) -> LogStore {
    open_with(LogConfig::new(dir.to_owned()), clock)
}

fn open_with(config: LogConfig, clock: &Clock) -> LogStore {
    LogStore::open(config, clock.wall()).expect("a usable folder")
}

fn job(name: &str) -> JobName {
    JobName::try_from(name).expect("a name")
}

fn node(name: &str) -> NodeName {
    NodeName::try_from(name).expect("a name")
}

fn tag(job_name: &str, node_name: &str) -> TaskTag {
    TaskTag::new(
        InvocationId::new(START, -5),
        &job(job_name),
        &node(node_name),
    )
}

fn query(stream: LogStream) -> LogQuery {
    LogQuery {
        stream,
        jobs: Vec::new(),
        nodes: Vec::new(),
        from: None,
        ascending: true,
        limit: 1_000_000,
        regex: String::new(),
        invocation: None,
    }
}

/// Returns the lines of all pages of a query, and the number of pages.
fn all(store: &LogStore, mut query: LogQuery) -> (Vec<LogLine>, usize) {
    let (mut lines, mut pages) = (Vec::new(), 0);
    loop {
        let page = store.query(&query).expect("a valid query");
        pages += 1;
        lines.extend(page.lines);
        match page.next {
            Some(next) => query.from = Some(next),
            None => return (lines, pages),
        }
    }
}

fn texts(lines: &[LogLine]) -> Vec<&str> {
    lines.iter().map(|line| line.line.as_str()).collect()
}

fn put(store: &LogStore, tag: &TaskTag, text: &str) -> LineId {
    store.append(tag, LogStream::Stdout, LinePart::Last, text.as_bytes())
}

fn segments(dir: &Path) -> Vec<PathBuf> {
    let mut found: Vec<_> = fs::read_dir(dir)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|e| e == "log"))
        .collect();
    found.sort();
    found
}

#[test]
fn lines_come_back_at_once_with_all_they_carry() {
    let dir = tempfile::tempdir().expect("a folder");
    let store = open(dir.path(), &Clock::at(START));
    let id = put(&store, &tag("job", "node"), "hello\n");
    store.append(
        &tag("job", "node"),
        LogStream::Stderr,
        LinePart::Last,
        b"\xff\n",
    );
    let (lines, _) = all(&store, query(LogStream::Stdout));
    let want = LogLine {
        job: job("job"),
        node: node("node"),
        time_secs: START,
        line: "hello\n".into(),
        id: Some(id),
        time: Some(WallTime::from_secs(START)),
        invocation: Some(InvocationId::new(START, -5)),
        ..LogLine::default()
    };
    assert_eq!(lines, [want]);
    assert_eq!(id.seconds(), START);
    let (binary, _) = all(&store, query(LogStream::Stderr));
    assert_eq!(texts(&binary), ["\u{fffd}\n"]);
    assert_eq!(binary[0].bytes.as_deref(), Some(&b"\xff\n"[..]));
    assert!(all(&store, query(LogStream::Statuses)).0.is_empty());
}

#[test]
fn binary_bytes_and_pieces_survive() {
    let dir = tempfile::tempdir().expect("a folder");
    let store = open(dir.path(), &Clock::at(START));
    store.append(
        &tag("job", "node"),
        LogStream::Stdout,
        LinePart::Continued,
        b"\0\xfe",
    );
    store.append(
        &tag("job", "node"),
        LogStream::Stdout,
        LinePart::Last,
        b"\xff\n",
    );
    drop(store);
    let store = open(dir.path(), &Clock::at(START));
    let (lines, _) = all(&store, query(LogStream::Stdout));
    let pieces: Vec<_> = lines
        .iter()
        .map(|line| (line.bytes.as_deref(), line.part))
        .collect();
    assert_eq!(
        pieces,
        [
            (Some(&b"\0\xfe"[..]), LinePart::Continued),
            (Some(&b"\xff\n"[..]), LinePart::Last)
        ]
    );
}

#[test]
fn the_lines_of_one_run_can_be_asked_for() {
    let dir = tempfile::tempdir().expect("a folder");
    let store = open(dir.path(), &Clock::at(START));
    let run = |rand| InvocationId::new(START, rand);
    for i in 0..9 {
        let tag = TaskTag::new(run(i % 3), &job("job"), &node("node"));
        put(&store, &tag, &format!("{i}"));
    }
    for ascending in [true, false] {
        let (lines, _) = all(
            &store,
            LogQuery {
                invocation: Some(run(1)),
                ascending,
                ..query(LogStream::Stdout)
            },
        );
        let mut want = ["1", "4", "7"];
        if !ascending {
            want.reverse();
        }
        assert_eq!(texts(&lines), want);
        assert!(lines.iter().all(|line| line.invocation == Some(run(1))));
    }
}

/// Writes 3,000 lines of 30 tasks to several segments, so that every second of the clock has some of them.
fn many(dir: &Path, clock: &Clock) -> LogStore {
    let config = LogConfig {
        segment_bytes: 100_000,
        ..LogConfig::new(dir.to_owned())
    };
    let store = open_with(config, clock);
    for i in 0..3000 {
        clock.set(START + i / 100);
        let tag = tag(&format!("job{}", i % 3), &format!("node{}", i % 10));
        store.append(
            &tag,
            LogStream::Stdout,
            LinePart::Last,
            format!("line {i:04} {}\n", "x".repeat(100)).as_bytes(),
        );
        store.append(&tag, LogStream::Stderr, LinePart::Last, b"other\n");
    }
    store.flush();
    store
}

fn numbers(lines: &[LogLine]) -> Vec<usize> {
    lines
        .iter()
        .map(|line| line.line[5..9].parse().expect("a number"))
        .collect()
}

#[test]
fn pages_give_every_line_once_in_both_directions() {
    let dir = tempfile::tempdir().expect("a folder");
    let store = many(dir.path(), &Clock::at(START));
    assert!(
        segments(dir.path()).len() > 3,
        "the test wants several segments"
    );
    for ascending in [true, false] {
        for limit in [1_usize, 7, 100, 2999, 3000, 3001] {
            let page_limit = if limit == 1 { 250 } else { limit };
            let (lines, pages) = all(
                &store,
                LogQuery {
                    ascending,
                    limit: page_limit,
                    ..query(LogStream::Stdout)
                },
            );
            let mut want: Vec<usize> = (0..3000).collect();
            if !ascending {
                want.reverse();
            }
            assert_eq!(
                numbers(&lines),
                want,
                "ascending {ascending}, limit {page_limit}"
            );
            assert!(pages >= 3000_usize.div_ceil(page_limit));
        }
    }
}

#[test]
fn names_and_pattern_select_and_never_end_paging_early() {
    let dir = tempfile::tempdir().expect("a folder");
    let store = many(dir.path(), &Clock::at(START));
    for ascending in [true, false] {
        for (jobs, nodes, regex, keep) in [
            (
                vec!["job1"],
                vec![],
                "",
                Box::new(|i: usize| i % 3 == 1) as Box<dyn Fn(usize) -> bool>,
            ),
            (
                vec![],
                vec!["node4", "node5"],
                "",
                Box::new(|i| matches!(i % 10, 4 | 5)),
            ),
            (
                vec!["job0", "job2"],
                vec!["node0"],
                "",
                Box::new(|i| i % 3 != 1 && i % 10 == 0),
            ),
            (
                vec![],
                vec![],
                "line 1[0-9]*7 x+$",
                Box::new(|i| i / 1000 == 1 && i % 10 == 7),
            ),
            (
                vec!["job2"],
                vec![],
                "2999|0002",
                Box::new(|i| i == 2 || i == 2999),
            ),
            (vec!["no such job"], vec![], "", Box::new(|_| false)),
        ] {
            let wanted = LogQuery {
                jobs: jobs.iter().map(|name| job(name)).collect(),
                nodes: nodes.iter().map(|name| node(name)).collect(),
                ascending,
                limit: 3,
                regex: regex.to_owned(),
                ..query(LogStream::Stdout)
            };
            let (lines, _) = all(&store, wanted);
            let mut want: Vec<usize> = (0..3000).filter(|i| keep(*i)).collect();
            if !ascending {
                want.reverse();
            }
            assert_eq!(
                numbers(&lines),
                want,
                "{jobs:?} {nodes:?} {regex:?} ascending {ascending}"
            );
        }
    }
}

#[test]
fn a_page_without_matches_still_leads_on() {
    let dir = tempfile::tempdir().expect("a folder");
    let store = open(dir.path(), &Clock::at(START));
    for _ in 0..50_000 {
        put(&store, &tag("job", "node"), "hay\n");
    }
    let needle = put(&store, &tag("job", "node"), "needle\n");
    let wanted = LogQuery {
        regex: "needle".to_owned(),
        ..query(LogStream::Stdout)
    };
    let first = store.query(&wanted).expect("a valid query");
    assert!(first.lines.is_empty() && first.next.is_some(), "{first:?}");
    let (lines, pages) = all(&store, wanted);
    assert_eq!(
        lines.iter().map(|line| line.id).collect::<Vec<_>>(),
        [Some(needle)]
    );
    assert!(pages >= 3, "a page looks at 20,000 lines at most");
}

#[test]
fn the_start_is_inclusive_in_both_directions() {
    let dir = tempfile::tempdir().expect("a folder");
    let clock = Clock::at(START);
    let store = open(dir.path(), &clock);
    let ids: Vec<_> = (0..5)
        .map(|i| put(&store, &tag("job", "node"), &i.to_string()))
        .collect();
    let from = |from, ascending| LogQuery {
        from: Some(from),
        ascending,
        ..query(LogStream::Stdout)
    };
    assert_eq!(texts(&all(&store, from(ids[2], true)).0), ["2", "3", "4"]);
    assert_eq!(texts(&all(&store, from(ids[2], false)).0), ["2", "1", "0"]);
    assert_eq!(
        texts(&all(&store, from(LineId::first_of_second(START + 1), false)).0),
        ["4", "3", "2", "1", "0"]
    );
    assert!(
        all(&store, from(LineId::first_of_second(START + 1), true))
            .0
            .is_empty()
    );
    assert_eq!(
        all(&store, from(ids[0], false)).1,
        1,
        "an exact last page says that it is the last"
    );
}

#[test]
fn a_page_is_bounded_in_bytes() {
    let dir = tempfile::tempdir().expect("a folder");
    let store = open(dir.path(), &Clock::at(START));
    let long = "x".repeat(MAX_LINE_BYTES);
    for _ in 0..300 {
        put(&store, &tag("job", "node"), &long);
    }
    let page = store
        .query(&query(LogStream::Stdout))
        .expect("a valid query");
    assert!(page.lines.iter().map(|line| line.line.len()).sum::<usize>() <= 9 << 20);
    assert!(page.next.is_some());
    assert_eq!(all(&store, query(LogStream::Stdout)).0.len(), 300);
}

#[test]
fn a_bad_pattern_is_refused_by_name() {
    let dir = tempfile::tempdir().expect("a folder");
    let store = open(dir.path(), &Clock::at(START));
    for regex in ["(", "a{1000}{1000}{1000}"] {
        let error = store.query(&LogQuery {
            regex: regex.to_owned(),
            ..query(LogStream::Stdout)
        });
        assert!(
            error.is_err_and(|e| e.to_string().contains(&format!("{regex:?}"))),
            "{regex}"
        );
    }
}

#[test]
fn ids_increase_over_restarts_and_clocks_that_go_back() {
    let dir = tempfile::tempdir().expect("a folder");
    let clock = Clock::at(START);
    let mut last = LineId(0);
    for (round, seconds) in [START, START, START - 1000, START + 1, START + 86_400, -5]
        .into_iter()
        .enumerate()
    {
        clock.set(seconds);
        let store = open(dir.path(), &clock);
        for i in 0..3 {
            let id = put(&store, &tag("job", "node"), &format!("{round}{i}"));
            assert!(id > last, "round {round}: {id:?} after {last:?}");
            last = id;
        }
    }
    let store = open(dir.path(), &clock);
    let (lines, _) = all(&store, query(LogStream::Stdout));
    assert_eq!(lines.len(), 18);
    assert!(lines.is_sorted_by_key(|line| line.id));
}

#[test]
fn ids_tell_the_millisecond_and_increase_within_it() {
    let dir = tempfile::tempdir().expect("a folder");
    let millis = Arc::new(AtomicI64::new(START * 1000 + 250));
    let clock: WallClock = {
        let millis = Arc::clone(&millis);
        Arc::new(move || WallTime::from_millis(millis.load(Ordering::SeqCst)))
    };
    let store = LogStore::open(LogConfig::new(dir.path().to_owned()), clock.clone());
    let store = store.expect("a usable folder");
    let first = LineId::first_of(WallTime::from_millis(START * 1000 + 250));
    let ids: Vec<_> = (0..3)
        .map(|_| put(&store, &tag("job", "node"), "x"))
        .collect();
    assert_eq!(ids, [first, first.next(), first.next().next()]);
    millis.fetch_sub(100, Ordering::SeqCst);
    assert_eq!(
        put(&store, &tag("job", "node"), "back"),
        LineId(first.0 + 3)
    );
    millis.fetch_add(101, Ordering::SeqCst);
    assert_eq!(
        put(&store, &tag("job", "node"), "on"),
        LineId(first.0 + (1 << 22))
    );
}

#[test]
fn lines_of_an_earlier_version_lie_before_those_of_this_one() {
    let dir = tempfile::tempdir().expect("a folder");
    let clock = Clock::at(START);
    // An earlier version has counted beyond this millisecond's first id, with more lines a second than any task writes.
    let old = LineId((START << 32) + (1 << 23));
    let mut disk = writer::Disk::open(LogConfig::new(dir.path().to_owned())).expect("usable");
    let mut frame = segment::Frame::new();
    let time = WallTime::from_secs(START);
    frame.push(
        old,
        time,
        LogStream::Stdout,
        LinePart::Last,
        &tag("job", "node"),
        b"old",
    );
    disk.write(&mut frame, time).expect("written");
    drop(disk);
    let store = open(dir.path(), &clock);
    assert_eq!(put(&store, &tag("job", "node"), "new"), old.next());
    let lines = all(&store, query(LogStream::Stdout)).0;
    assert_eq!(texts(&lines), ["old", "new"]);
}

#[test]
fn ids_increase_when_everything_older_was_dropped() {
    let dir = tempfile::tempdir().expect("a folder");
    let clock = Clock::at(START);
    let last = put(&open(dir.path(), &clock), &tag("job", "node"), "old");
    let config = LogConfig {
        retention: Duration::ZERO,
        ..LogConfig::new(dir.path().to_owned())
    };
    let mut disk = writer::Disk::open(config.clone()).expect("a usable folder");
    disk.prune_if_due(WallTime::from_secs(START + 200));
    drop(disk);
    clock.set(START - 200);
    let store = open_with(config, &clock);
    assert!(all(&store, query(LogStream::Stdout)).0.is_empty());
    assert!(put(&store, &tag("job", "node"), "new") > last);
    assert_eq!(texts(&all(&store, query(LogStream::Stdout)).0), ["new"]);
}

#[test]
fn ids_stay_positive_and_increase_beyond_2038() {
    let dir = tempfile::tempdir().expect("a folder");
    let store = open(dir.path(), &Clock::at(i64::from(i32::MAX) + 100));
    let ids: Vec<_> = (0..3)
        .map(|_| put(&store, &tag("job", "node"), "late"))
        .collect();
    assert!(ids[0].0 > 0 && ids.is_sorted() && ids[0] < ids[2]);
}

#[test]
fn a_torn_tail_is_cut_and_writing_goes_on() {
    for damage in [
        "cut in a frame",
        "cut in a header",
        "garbage",
        "flipped bit",
    ] {
        let dir = tempfile::tempdir().expect("a folder");
        let clock = Clock::at(START);
        let store = open(dir.path(), &clock);
        put(&store, &tag("job", "node"), "one\n");
        store.flush();
        let good = fs::metadata(&segments(dir.path())[0]).expect("there").len();
        put(&store, &tag("job", "node"), "two\n");
        drop(store);
        let path = &segments(dir.path())[0];
        let mut bytes = fs::read(path).expect("readable");
        let good = usize::try_from(good).expect("small");
        match damage {
            "cut in a frame" => bytes.truncate(bytes.len() - 1),
            "cut in a header" => bytes.truncate(good + 5),
            "garbage" => bytes.splice(good.., [0xa5; 100]).for_each(drop),
            _ => bytes[good + 20] ^= 1,
        }
        fs::write(path, &bytes).expect("written");
        let store = open(dir.path(), &clock);
        assert_eq!(
            texts(&all(&store, query(LogStream::Stdout)).0),
            ["one\n"],
            "{damage}"
        );
        put(&store, &tag("job", "node"), "three\n");
        assert_eq!(
            texts(&all(&store, query(LogStream::Stdout)).0),
            ["one\n", "three\n"],
            "{damage}"
        );
        drop(store);
        let store = open(dir.path(), &clock);
        assert_eq!(
            texts(&all(&store, query(LogStream::Stdout)).0),
            ["one\n", "three\n"],
            "{damage}"
        );
    }
}

#[test]
fn a_page_says_which_lines_cannot_be_read() {
    let damage: [fn(&Path); 2] = [
        |path| {
            let mut bytes = fs::read(path).expect("readable");
            bytes[20] ^= 1;
            fs::write(path, bytes).expect("written");
        },
        // A directory in place of the file fails like a broken disk.
        |path| {
            fs::remove_file(path).expect("removed");
            fs::create_dir(path).expect("made");
        },
    ];
    for damage in damage {
        let dir = tempfile::tempdir().expect("a folder");
        let store = many(dir.path(), &Clock::at(START));
        let whole = all(&store, query(LogStream::Stdout)).0;
        let path = &segments(dir.path())[0];
        damage(path);
        for ascending in [true, false] {
            let query = LogQuery {
                ascending,
                ..query(LogStream::Stdout)
            };
            let mut lines = all(&store, query).0;
            let (_, notices): (Vec<_>, Vec<_>) = lines.iter().partition(|l| l.id.is_some());
            let text = &notices.first().expect("a notice").line;
            assert!(text.contains(&path.display().to_string()), "{text}");
            lines.retain(|line| line.id.is_some());
            assert!(!lines.is_empty() && lines.len() < whole.len());
        }
        fs::remove_file(path)
            .or_else(|_| fs::remove_dir(path))
            .expect("removed");
        // Retention removes segments in the same way.
        let lines = all(&store, query(LogStream::Stdout)).0;
        assert!(lines.iter().all(|line| line.id.is_some()));
    }
}

#[test]
fn lost_or_damaged_index_files_are_rebuilt() {
    let dir = tempfile::tempdir().expect("a folder");
    let clock = Clock::at(START);
    drop(many(dir.path(), &clock));
    let found = segments(dir.path());
    let index = |path: &Path| index::SegmentIndex::path_of(path);
    let before = fs::read(index(&found[0])).expect("an index beside a sealed segment");
    fs::remove_file(index(&found[0])).expect("removed");
    fs::write(index(&found[1]), b"nonsense").expect("written");
    let store = open(dir.path(), &clock);
    assert_eq!(fs::read(index(&found[0])).expect("rebuilt"), before);
    // A query also works without the index file while the store is open.
    fs::remove_file(index(&found[0])).expect("removed");
    assert_eq!(
        numbers(&all(&store, query(LogStream::Stdout)).0),
        (0..3000).collect::<Vec<_>>()
    );
}

#[test]
fn retention_by_size_drops_whole_old_segments() {
    let dir = tempfile::tempdir().expect("a folder");
    let clock = Clock::at(START);
    drop(many(dir.path(), &clock));
    let total: u64 = segments(dir.path())
        .iter()
        .map(|path| fs::metadata(path).expect("there").len())
        .sum();
    let config = LogConfig {
        segment_bytes: 100_000,
        max_bytes: total / 2,
        ..LogConfig::new(dir.path().to_owned())
    };
    let store = open_with(config, &clock);
    put(&store, &tag("job", "node"), "line 3000\n");
    store.flush();
    // Dropping the store waits for the writer, which prunes in its first turn.
    drop(store);
    let left: u64 = segments(dir.path())
        .iter()
        .map(|path| fs::metadata(path).expect("there").len())
        .sum();
    assert!(left <= total / 2 + 1000, "{left} of {total}");
    let store = open(dir.path(), &clock);
    let kept = numbers(&all(&store, query(LogStream::Stdout)).0);
    assert!(kept.len() > 500, "{}", kept.len());
    assert!(kept.is_sorted() && kept.last() == Some(&3000));
    assert!(
        kept.windows(2).all(|pair| pair[1] == pair[0] + 1),
        "whole segments, oldest first"
    );
}

/// A name such as `cafe.log` is a hexadecimal number, and the last segment of the folder is cut to its whole lines.
#[test]
fn files_of_a_user_in_the_folder_are_neither_cut_nor_removed() {
    let dir = tempfile::tempdir().expect("a folder");
    let clock = Clock::at(START);
    let names = [
        "cafe.log",
        "1.log",
        "7FFFFFFFFFFFFFFF.log",
        "-1.log",
        "notes.log",
    ];
    for name in names {
        fs::write(dir.path().join(name), "notes\n").expect("written");
    }
    for config in [
        LogConfig::new(dir.path().to_owned()),
        LogConfig {
            retention: Duration::ZERO,
            ..LogConfig::new(dir.path().to_owned())
        },
    ] {
        let store = open_with(config, &clock);
        put(&store, &tag("job", "node"), "a line\n");
        store.flush();
        clock.set(START + 10);
    }
    for name in names {
        let text = fs::read_to_string(dir.path().join(name));
        assert_eq!(text.expect(name), "notes\n", "{name}");
    }
}

#[test]
fn retention_by_age_drops_what_is_too_old_even_if_little() {
    let dir = tempfile::tempdir().expect("a folder");
    let clock = Clock::at(START);
    let config = LogConfig {
        retention: Duration::from_secs(3000),
        ..LogConfig::new(dir.path().to_owned())
    };
    for seconds in [0, 200, 3150] {
        clock.set(START + seconds);
        let store = open_with(config.clone(), &clock);
        put(&store, &tag("job", "node"), &format!("at {seconds}"));
    }
    let store = open_with(config, &clock);
    assert_eq!(
        texts(&all(&store, query(LogStream::Stdout)).0),
        ["at 200", "at 3150"]
    );
}

#[test]
fn a_refusing_disk_stops_logging_only_and_the_loss_is_declared() {
    let dir = tempfile::tempdir().expect("a folder");
    let logs = dir.path().join("logs");
    let store = open(&logs, &Clock::at(START));
    // A missing folder prevents new segments for every user, including root.
    fs::remove_dir(&logs).expect("removed");
    put(&store, &tag("job", "node"), "lost\n");
    put(&store, &tag("job", "node"), "lost too\n");
    store.flush();
    let health = store.health();
    assert_eq!(health.dropped_lines, 2);
    assert!(health.error.is_some());
    assert_eq!(store.room(&Share::default()), LogRoom::Free);
    fs::create_dir(&logs).expect("created");
    put(&store, &tag("job", "node"), "kept\n");
    store.flush();
    assert_eq!(
        store.health(),
        LogHealth {
            dropped_lines: 2,
            error: None
        }
    );
    assert_eq!(texts(&all(&store, query(LogStream::Stdout)).0), ["kept\n"]);
    let (events, _) = all(&store, query(LogStream::Statuses));
    let event: serde_json::Value = serde_json::from_str(&events[0].line).expect("JSON");
    assert_eq!(
        (&event["event"], &event["lines"]),
        (&"log_lines_dropped".into(), &2.into())
    );
}

#[test]
fn a_declaration_that_is_lost_is_made_again() {
    let dir = tempfile::tempdir().expect("a folder");
    let logs = dir.path().join("logs");
    let mut config = LogConfig::new(logs.clone());
    // Each batch begins a segment, which cannot be created while the folder is missing.
    config.segment_bytes = 1;
    let store = open_with(config, &Clock::at(START));
    let mut writer = store.hold_writer();
    let away = dir.path().join("away");
    let mut put_and_flush = |text: &str| {
        put(&store, &tag("job", "node"), text);
        writer.flush();
        store.health().dropped_lines
    };
    fs::rename(&logs, &away).expect("moved");
    assert_eq!(put_and_flush("lost\n"), 1);
    fs::rename(&away, &logs).expect("moved back");
    // The loss is declared in a batch that is also lost, with one more line.
    assert_eq!(put_and_flush("kept\n"), 1);
    fs::rename(&logs, &away).expect("moved");
    assert_eq!(put_and_flush("lost too\n"), 2);
    fs::rename(&away, &logs).expect("moved back");
    assert_eq!(put_and_flush("kept too\n"), 2);
    drop(writer);
    let (events, _) = all(&store, query(LogStream::Statuses));
    let lines: u64 = events
        .iter()
        .map(|event| serde_json::from_str(&event.line).expect("JSON"))
        .map(|event: serde_json::Value| event["lines"].as_u64().expect("a number"))
        .sum();
    assert_eq!(lines, 2);
}

#[test]
fn an_unusable_folder_is_named() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("file");
    fs::write(&file, b"").expect("written");
    let error = LogStore::open(LogConfig::new(file.join("logs")), Clock::at(START).wall());
    assert!(error.is_err_and(|e| e.to_string().contains("file/logs")));
}

/// Writes long lines until the store has no room. Returns their number.
fn fill(store: &LogStore, share: &mut Share) -> usize {
    let line = [b'x'; MAX_LINE_BYTES];
    let tag = tag("job", "node");
    let mut count = 0;
    while store.room(share) == LogRoom::Free {
        store
            .batch(&tag, share)
            .append(LogStream::Stdout, LinePart::Last, &line);
        count += 1;
        assert!(count < 1000, "there is a limit");
    }
    count
}

#[test]
fn a_writer_that_is_behind_says_so_and_still_takes_lines() {
    let dir = tempfile::tempdir().expect("a folder");
    let store = open(dir.path(), &Clock::at(START));
    let held = store.hold_writer();
    let mut share = Share::default();
    let count = fill(&store, &mut share);
    assert_eq!(count, (2 << 20) / MAX_LINE_BYTES, "the limit of one task");
    // The task has used its share of the memory; other tasks have not.
    assert_eq!(store.room(&Share::default()), LogRoom::Free);
    let mut hogs = [Share::default(); 9];
    let more: usize = hogs.iter_mut().map(|share| fill(&store, share)).sum();
    assert!(
        count + more <= (9 << 20) / MAX_LINE_BYTES,
        "all together: 8 MiB and one read"
    );
    let mut quiet = Share::default();
    assert_eq!(
        store.room(&quiet),
        LogRoom::Free,
        "one read is left for the quiet"
    );
    store.batch(&tag("job", "node"), &mut quiet).append(
        LogStream::Stdout,
        LinePart::Last,
        b"a word\n",
    );
    assert_eq!(store.room(&quiet), LogRoom::Full);
    put(&store, &tag("job", "node"), "one more\n");
    drop(held);
    store.flush();
    for share in [share, quiet, hogs[0]] {
        assert_eq!(store.room(&share), LogRoom::Free);
    }
    let lines = all(&store, query(LogStream::Stdout)).0;
    assert_eq!(lines.len(), count + more + 2);
}

/// Returns the lines of all pages of a query by another process.
fn read_all(reader: &LogReader, mut query: LogQuery) -> Vec<LogLine> {
    let mut lines = Vec::new();
    loop {
        let page = reader.query(&query).expect("readable files");
        lines.extend(page.lines);
        match page.next {
            Some(next) => query.from = Some(next),
            None => return lines,
        }
    }
}

/// Returns the paths, lengths and modification times of the files in a folder.
fn stamps(dir: &Path) -> Vec<(PathBuf, u64, std::time::SystemTime)> {
    let mut found: Vec<_> = fs::read_dir(dir)
        .expect("a folder")
        .map(|entry| {
            let entry = entry.expect("an entry");
            let meta = entry.metadata().expect("its metadata");
            (entry.path(), meta.len(), meta.modified().expect("a time"))
        })
        .collect();
    found.sort();
    found
}

#[test]
fn another_process_reads_written_lines_and_changes_nothing() {
    let dir = tempfile::tempdir().expect("a folder");
    let folder = dir.path().join("logs");
    let reader = LogReader::new(folder.clone());
    assert!(read_all(&reader, query(LogStream::Stdout)).is_empty());
    assert!(!folder.exists(), "looking made the folder");

    let config = LogConfig {
        segment_bytes: 1000,
        ..LogConfig::new(folder.clone())
    };
    let store = open_with(config, &Clock::at(START));
    for i in 0..100 {
        put(
            &store,
            &tag("job", &format!("n{i}")),
            &format!("line {i}\n"),
        );
        store.flush();
    }
    assert!(segments(&folder).len() > 2, "one segment would test little");
    let index = SegmentIndex::path_of(&segments(&folder)[0]);
    fs::remove_file(&index).expect("sealed segments have an index");
    let newest = segments(&folder).pop().expect("there are some");
    let torn = [fs::read(&newest).expect("readable"), b"torn".to_vec()].concat();
    fs::write(&newest, torn).expect("writable");

    let before = stamps(&folder);
    let of_all = read_all(&reader, query(LogStream::Stdout));
    let (own, _) = all(&store, query(LogStream::Stdout));
    assert_eq!(of_all, own);
    let of_one = LogQuery {
        nodes: vec![node("n57")],
        ascending: false,
        ..query(LogStream::Stdout)
    };
    assert_eq!(texts(&read_all(&reader, of_one)), ["line 57\n"]);
    assert_eq!(stamps(&folder), before, "looking changed something");
}

#[test]
fn a_tail_reads_each_line_once_across_segments_and_unfinished_writes() {
    let dir = tempfile::tempdir().expect("a folder");
    let config = LogConfig {
        segment_bytes: 300,
        ..LogConfig::new(dir.path().to_owned())
    };
    let store = open_with(config, &Clock::at(START));
    put(&store, &tag("job", "node"), "before\n");
    store.flush();
    let mut tail = LogTail::from_end(dir.path().to_owned()).expect("readable");
    assert!(tail.next_lines().expect("readable").is_empty());

    let mut seen = Vec::new();
    for i in 0..20 {
        put(&store, &tag("job", "node"), &format!("{i}\n"));
        store.append(&tag("j", "n"), LogStream::Stderr, LinePart::Last, b"e\n");
        store.flush();
        if i % 7 == 0 {
            let newest = segments(dir.path()).pop().expect("there are some");
            let whole = fs::read(&newest).expect("readable");
            fs::write(&newest, &whole[..whole.len() - 1]).expect("writable");
            while let Ok(lines) = tail.next_lines()
                && !lines.is_empty()
            {
                seen.extend(lines);
            }
            fs::write(&newest, whole).expect("writable");
        }
    }
    loop {
        let lines = tail.next_lines().expect("readable");
        if lines.is_empty() {
            break;
        }
        seen.extend(lines);
    }
    let of = |wanted: LogStream| {
        let of = seen.iter().filter(move |(stream, _)| *stream == wanted);
        of.map(|(_, line)| line.line.clone()).collect::<Vec<_>>()
    };
    let want: Vec<String> = (0..20).map(|i| format!("{i}\n")).collect();
    assert_eq!(of(LogStream::Stdout), want);
    assert_eq!(of(LogStream::Stderr).len(), 20);
}
