//! Tests of the audit log with real files: what a line says, rotation, pages, crashes, and disks that are full or do not answer.

use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use brasserie_common::access::{Identity, IdentityProof, Role, TokenNumber};
use brasserie_common::{Shard, WallTime};
use serde_json::json;
use tempfile::TempDir;

use super::*;

/// Far longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begin.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn ana() -> Principal {
    submitter("ana", 7)
}

fn submitter(owner: &str, token: u64) -> Principal {
    let from = SocketAddr::from(([10, 0, 0, 1], 5));
    Principal::Authenticated(Arc::new(Identity {
        token: Some(TokenNumber(token)),
        owner: Some(owner.into()),
        ..Identity::new(Role::Submitter, IdentityProof::Token, from)
    }))
}

fn open(folder: &Path) -> Audit {
    Audit::open_with(folder.to_owned(), Sizes::keeping(128 << 20), MOST_WAITING)
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

fn pause(audit: &Audit, job: &str) {
    let line = audit.call(&ana(), "pauseJob").on("job", job);
    line.end(Outcome::Ok, None);
}

/// Returns all lines that match, page by page.
fn lines(audit: &Audit, query: PageQuery) -> Vec<Value> {
    let (mut query, mut lines) = (query, Vec::new());
    loop {
        let page = audit.page(&query).expect("a page");
        let read = page.lines.iter().map(|line| serde_json::from_str(line));
        lines.extend(read.map(|line| line.expect("JSON")));
        query.after = Some(page.read_to);
        if !page.has_more {
            return lines;
        }
    }
}

fn all(audit: &Audit) -> Vec<Value> {
    lines(audit, PageQuery::default())
}

fn names(lines: &[Value]) -> Vec<&str> {
    lines
        .iter()
        .filter_map(|line| line["name"].as_str())
        .collect()
}

#[test]
fn a_line_says_who_has_done_what_and_no_secret() {
    let folder = folder();
    let audit = open(folder.path());
    let mut line = audit.call(&ana(), "submitJob").on("job", "copy");
    line.changed(None, Some(json!({ "version": 2 })));
    let before = r#"{"priority": 1, "command": ["a"], "owner": "ana"}"#;
    let after = r#"{"priority": 3, "command": ["b", "geheim"], "owner": "ana"}"#;
    line.texts(Some(before.into()), Some(after.into()));
    line.end(Outcome::Ok, None);
    let at = SocketAddr::from(([127, 0, 0, 1], 9));
    let line = audit.call(&Principal::Unauthenticated(at), "killTask");
    let line = line.on("task", "copy").node("n1");
    line.end(Outcome::Refused, Some(&"it\ndoes not run"));
    drop(audit.call(&ana(), "pauseJob").on("job", "lost"));
    audit.own("start", None);
    audit.close();
    let written = all(&audit);
    let mut first = written[0].clone();
    let time = first["time"].take();
    assert!(
        time.as_str()
            .is_some_and(|time| time.len() == 24 && time.ends_with('Z'))
    );
    let digests = ["before", "after"].map(|side| first[side]["digest"].take());
    assert!(digests[0] != digests[1] && digests[0].as_str().is_some_and(|hex| hex.len() == 32));
    assert_eq!(
        first,
        json!({
            "number": 1, "time": null, "who": "submitter `ana` at 10.0.0.1:5", "role": "submitter", "owner": "ana",
            "token": "0000000000000007", "from": "10.0.0.1:5", "what": "submitJob", "object": "job", "name": "copy", "outcome": "ok",
            "before": { "digest": null, "priority": 1 },
            "after": { "digest": null, "priority": 3, "version": 2, "changed": ["command", "priority"] },
        })
    );
    assert_eq!(written[1]["who"], "unauthenticated at 127.0.0.1:9");
    assert_eq!(
        (&written[1]["node"], &written[1]["outcome"]),
        (&json!("n1"), &json!("refused"))
    );
    assert!(!written[1]["why"].as_str().expect("a reason").contains('\n'));
    assert_eq!(
        (&written[2]["name"], &written[2]["outcome"]),
        (&json!("lost"), &json!("failed"))
    );
    assert_eq!(written[3]["who"], "this scheduler");
    let file = folder.path().join("audit.log");
    assert!(
        !fs::read_to_string(&file)
            .expect("the file")
            .contains("geheim")
    );
    let mode = fs::metadata(&file).expect("the file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn refusals_of_one_caller_do_not_fill_the_log_and_do_not_hide_those_of_another() {
    let folder = folder();
    let audit = open(folder.path());
    let delete = |by: &Principal, outcome: Result<(), &str>| {
        audit.call(by, "deleteJob").on("job", "j").end_as(&outcome);
    };
    for _ in 0..1000 {
        delete(&ana(), Err("there is no such job"));
        let line = audit.call(&ana(), "certify");
        line.end_certificate(&Ok::<(), String>(()));
        let line = audit.call(&ana(), "revokeWorker").on("worker", "w1");
        line.end_repeated(Outcome::Ok, Some(&"it was revoked already"));
    }
    delete(&submitter("bob", 8), Err("there is no such job"));
    for _ in 0..30 {
        delete(&ana(), Ok(()));
    }
    audit.write_overdue(Clock.now() + PATIENCE * 2);
    audit.close();
    let lines = all(&audit);
    let count = |what: &str, owner: &str, outcome: &str| {
        let are = |line: &&Value| {
            line["what"] == what && line["owner"] == owner && line["outcome"] == outcome
        };
        lines.iter().filter(are).count()
    };
    assert_eq!(count("deleteJob", "ana", "refused"), 20);
    assert_eq!(count("deleteJob", "bob", "refused"), 1);
    assert_eq!(count("deleteJob", "ana", "ok"), 30);
    assert_eq!(count("certify", "ana", "ok"), 20);
    assert_eq!(count("revokeWorker", "ana", "ok"), 20);
    let by = json!({ "caller": "0000000000000007" });
    let rest = lines.iter().filter(|line| line["suppressed"] == 980);
    let rest: Vec<_> = rest.map(|line| (&line["what"], &line["after"])).collect();
    let whats = ["refusedCalls", "certify", "revokeWorker"].map(Value::from);
    assert_eq!(rest, whats.each_ref().map(|what| (what, &by)));
    // A refused change says nothing about its caller.
    assert!(audit.0.refusals.counts().is_empty());
}

#[test]
fn a_caller_that_changes_without_a_pause_is_made_to_wait_and_no_change_lacks_a_line() {
    let folder = folder();
    let sizes = Sizes {
        file_bytes: 100_000,
        files: 2,
    };
    let audit = Audit::open_with(folder.path().to_owned(), sizes, MOST_WAITING);
    let mut made = 0;
    let refused = wait_for("the refusal of a change", || {
        let may = audit.may_change(&ana(), "pauseJob");
        if may.is_ok() {
            pause(&audit, "copy");
            made += 1;
        }
        may.err()
    });
    let why = refused.to_string();
    assert!(
        why.contains("too many changes by this caller: try again in"),
        "{why}"
    );
    // Others make changes, and this caller still sees all, and may end its token.
    let open = Principal::Unauthenticated(SocketAddr::from(([127, 0, 0, 1], 9)));
    for (by, what) in [
        (&submitter("bob", 8), "pauseJob"),
        (&ana(), "getJobs"),
        (&ana(), "revokeToken"),
        (&open, "pauseJob"),
    ] {
        assert_eq!(audit.may_change(by, what), Ok(()), "{what} by {by}");
    }
    audit.close();
    let lines = all(&audit);
    let count = |outcome: &str| {
        let are = |line: &&Value| line["what"] == "pauseJob" && line["outcome"] == outcome;
        lines.iter().filter(are).count()
    };
    assert_eq!((count("ok"), count("refused")), (made, 1));
}

#[test]
fn the_files_that_are_kept_are_those_that_a_reader_opens() {
    for (bytes, files) in [
        (0, 2),
        (128 << 20, 8),
        (MOST_KEPT, writer::MOST_FILES),
        (u64::MAX, writer::MOST_FILES),
    ] {
        assert_eq!(Sizes::keeping(bytes).files, files);
    }
}

#[test]
fn files_are_rotated_and_pages_go_through_all_that_are_kept() {
    let folder = folder();
    let sizes = Sizes {
        file_bytes: 4000,
        files: 3,
    };
    let audit = Audit::open_with(folder.path().to_owned(), sizes, MOST_WAITING);
    let mut followed = Vec::new();
    let mut place = None;
    for job in 0..200 {
        pause(&audit, &format!("j{job}"));
        // A follower misses nothing, also when the file that it reads is renamed.
        wait_for("the line", || {
            let query = PageQuery {
                after: place,
                ..PageQuery::default()
            };
            let page = audit.page(&query).expect("a page");
            place = Some(page.read_to);
            let got = !page.lines.is_empty();
            followed.extend(page.lines);
            got.then_some(())
        });
    }
    assert_eq!(followed.len(), 200);
    let names = fs::read_dir(folder.path()).expect("the folder");
    let names = names.map(|file| file.expect("a file").file_name());
    let mut files: Vec<OsString> = names.collect();
    files.sort();
    assert_eq!(files, ["audit.log", "audit.log.1", "audit.log.2"]);
    let kept = all(&audit);
    let numbers: Vec<u64> = kept
        .iter()
        .filter_map(|line| line["number"].as_u64())
        .collect();
    assert!(
        numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]),
        "{numbers:?}"
    );
    assert!(
        numbers.len() < 200 && numbers.last() == Some(&200),
        "{numbers:?}"
    );
    // A reader whose file is not kept any more goes on with the oldest one.
    let query = PageQuery {
        after: Some(Place {
            file: 1,
            offset: 99,
        }),
        ..PageQuery::default()
    };
    assert_eq!(lines(&audit, query).len(), kept.len());
    // The numbers go on after a restart, also if the last file is empty.
    audit.close();
    drop(audit);
    let log = folder.path().join("audit.log");
    fs::write(&log, "").expect("emptied");
    let last = fs::read_to_string(folder.path().join("audit.log.1")).expect("the file");
    let last = last
        .lines()
        .last()
        .and_then(|line| writer::number(line.as_bytes()));
    let audit = Audit::open_with(folder.path().to_owned(), sizes, MOST_WAITING);
    pause(&audit, "next");
    audit.close();
    let all = all(&audit);
    assert_eq!(
        all.last().expect("a line")["number"].as_u64(),
        last.map(|last| last + 1)
    );
}

#[test]
fn lines_about_a_worker_are_found_by_its_name_also_where_they_have_its_hash() {
    let folder = folder();
    let audit = open(folder.path());
    let shard = |name| Shard::try_from(name).expect("a name");
    let (node, other) = ("node7.example.com", "node8.example.com");
    let named = ShardLabel::of(&shard(node));
    let hash = ShardLabel::from_label(named.as_str()).expect("a label");
    for (label, name) in [
        (named, "a"),
        (hash, "b"),
        (ShardLabel::of(&shard(other)), "c"),
    ] {
        let from = SocketAddr::from(([10, 0, 0, 1], 5));
        let by = Principal::refused_certificate(from, "", (Some(label), None));
        audit
            .call(&by, "processHeartbeat")
            .on("worker", name)
            .end(Outcome::Ok, None);
    }
    audit.close();
    for (who, found) in [(node, "a b"), (other, "c"), ("node7", "")] {
        let query = PageQuery {
            who: Some(who.to_owned()),
            ..PageQuery::default()
        };
        assert_eq!(names(&lines(&audit, query)).join(" "), found, "{who}");
    }
}

#[test]
fn pages_have_the_lines_that_are_asked_for() {
    let folder = folder();
    let audit = open(folder.path());
    pause(&audit, "a");
    let by = Principal::Own;
    audit
        .call(&by, "revokeToken")
        .on("token", "b")
        .end(Outcome::Refused, None);
    pause(&audit, "c");
    audit.close();
    let of = |query: PageQuery| names(&lines(&audit, query)).join(" ");
    let who = |who: &str| PageQuery {
        who: Some(who.to_owned()),
        ..PageQuery::default()
    };
    for name in [
        "ana",
        "submitter",
        "0000000000000007",
        "10.0.0.1",
        "10.0.0.1:5",
    ] {
        assert_eq!(of(who(name)), "a c", "{name}");
    }
    assert_eq!(of(who("this scheduler")), "b");
    assert_eq!(of(who("bob")), "");
    for what in ["revokeToken", "token", "b"] {
        let what = Some(what.to_owned());
        let query = PageQuery {
            what,
            ..PageQuery::default()
        };
        assert_eq!(of(query), "b");
    }
    let refused_only = true;
    let query = PageQuery {
        refused_only,
        ..PageQuery::default()
    };
    assert_eq!(of(query), "b");
    for (at, since, until) in [(0, "a b c", ""), (i64::MAX / 1_000_000, "", "a b c")] {
        let at = Some(WallTime::from_millis(at));
        let from = PageQuery {
            since: at,
            ..PageQuery::default()
        };
        let before = PageQuery {
            until: at,
            ..PageQuery::default()
        };
        assert_eq!((of(from).as_str(), of(before).as_str()), (since, until));
    }
}

#[test]
fn a_line_that_a_crash_cut_off_takes_no_other_with_it() {
    let folder = folder();
    let audit = open(folder.path());
    pause(&audit, "a");
    audit.close();
    let log = folder.path().join("audit.log");
    let text = fs::read_to_string(&log).expect("the file");
    fs::write(&log, format!("{text}{}", &text[..40])).expect("written");
    let audit = open(folder.path());
    pause(&audit, "b");
    audit.close();
    let text = fs::read_to_string(&log).expect("the file");
    let read: Vec<_> = text.lines().map(serde_json::from_str::<Value>).collect();
    let numbers: Vec<_> = read.iter().flatten().map(|line| &line["number"]).collect();
    assert_eq!((read.len(), numbers), (3, vec![&json!(1), &json!(2)]));
}

#[test]
fn a_disk_that_takes_no_lines_is_a_problem_and_loses_none_that_has_a_place() {
    let folder = folder();
    let log = folder.path().join("audit.log");
    // No file can be opened there.
    fs::create_dir(&log).expect("a folder");
    let audit = open(folder.path());
    pause(&audit, "a");
    let problem = wait_for("the problem", || audit.0.state.problem(Instant::now()));
    assert!(
        problem.contains("cannot be written") && problem.contains("audit.log"),
        "{problem}"
    );
    pause(&audit, "b");
    fs::remove_dir(&log).expect("removed");
    wait_for("the lines", || {
        (names(&all(&audit)) == ["a", "b"]).then_some(())
    });
    wait_for("the end of the problem", || {
        audit
            .0
            .state
            .problem(Instant::now())
            .is_none()
            .then_some(())
    });
}

#[test]
fn a_disk_that_does_not_answer_blocks_nobody_and_lost_lines_are_counted() {
    let folder = folder();
    let audit = hanging(folder.path(), 4);
    // The thread waits for this as it would for a disk that hangs.
    let held = audit.0.state.renames.lock();
    let begin = Instant::now();
    for job in 0..1000 {
        pause(&audit, &format!("j{job}"));
    }
    assert!(begin.elapsed() < PATIENCE / 4, "{:?}", begin.elapsed());
    let much_later = Instant::now() + STALLED_AFTER;
    let problem = wait_for("the problem", || {
        let problem = audit.0.state.problem(much_later)?;
        problem.contains("has not answered").then_some(problem)
    });
    assert!(problem.contains("lines are lost"), "{problem}");
    drop(held);
    let lost = wait_for("the count of the lost lines", || {
        let lines = all(&audit);
        let lost = lines.iter().filter(|line| line["what"] == "linesLost");
        let lost: u64 = lost.filter_map(|line| line["suppressed"].as_u64()).sum();
        let written = lines
            .iter()
            .filter(|line| line["what"] == "pauseJob")
            .count() as u64;
        (lost + written == 1001).then_some(lost)
    });
    assert!(lost > 900, "{lost}");
    assert_eq!(audit.0.state.problem(Instant::now()), None);
}

#[test]
fn a_flood_of_refused_joins_has_few_lines_in_both_logs() {
    let folder = folder();
    let audit = open(folder.path());
    let stranger = Principal::stranger(SocketAddr::from(([10, 0, 0, 1], 5)), "");
    let join = || audit.call(&stranger, "join");
    let written = (0..5000).filter(|_| join().refused(RefusalReason::Join, &"no such token"));
    let written = written.count();
    assert!((20..100).contains(&written), "{written}");
}

/// Returns a log with one line, whose next ones wait while the test holds `renames`, as they would for a disk that hangs.
fn hanging(folder: &Path, most_waiting: usize) -> Audit {
    // Each batch begins another file, whose renames wait for the guard.
    let sizes = Sizes {
        file_bytes: 1,
        files: 60,
    };
    let audit = Audit::open_with(folder.to_owned(), sizes, most_waiting);
    pause(&audit, "first");
    wait_for("the first line", || (all(&audit).len() == 1).then_some(()));
    audit
}

#[test]
fn large_definitions_that_wait_take_a_bounded_number_of_bytes_and_lose_no_line() {
    let folder = folder();
    let audit = hanging(folder.path(), MOST_WAITING);
    let held = audit.0.state.renames.lock();
    let config: Arc<str> = "x".repeat(MOST_WAITING_BYTES / 2 - 2000).into();
    for name in ["a", "b", "c"] {
        let mut line = audit.call(&ana(), "planConfig").on("config", name);
        line.texts(None, Some(Arc::clone(&config)));
        line.end(Outcome::Ok, None);
    }
    pause(&audit, "d");
    let backlog = *audit.0.state.backlog.lock();
    assert_eq!(backlog.lines, 4);
    assert!(backlog.bytes <= MOST_WAITING_BYTES / 2 + 10_000);
    // The thread may have the line of the first one, and the other lines have no copy.
    assert!(Arc::strong_count(&config) <= 3);
    drop(held);
    audit.close();
    let lines = all(&audit);
    assert_eq!(names(&lines), ["first", "a", "b", "c", "d"]);
    let digests = lines[1..4].iter().map(|line| &line["after"]["digest"]);
    assert!(digests.clone().all(|digest| digest.is_string()));
    assert!(
        digests
            .clone()
            .all(|digest| *digest == lines[1]["after"]["digest"])
    );
    let backlog = *audit.0.state.backlog.lock();
    assert_eq!((backlog.lines, backlog.bytes), (0, 0));
}

#[test]
fn lines_beyond_the_bytes_that_may_wait_are_lost_and_counted() {
    let state = State::default();
    assert!(state.reserve(MOST_WAITING_BYTES));
    assert!(!state.reserve(1));
    state.backlog.lock().remove(MOST_WAITING_BYTES);
    assert!(state.reserve(1));
}

#[test]
fn long_texts_are_cut_and_numbers_go_on_after_long_lines() {
    let folder = folder();
    let audit = open(folder.path());
    let long = "ä".repeat(1 << 20);
    let mut line = audit.call(&ana(), "createToken").on("token", &long);
    line.changed(None, Some(json!({ "note": long, "role": "viewer" })));
    line.end(Outcome::Refused, Some(&long));
    let mut line = audit.call(&ana(), "createToken").on("token", "many");
    line.changed(None, Some(json!({ "texts": vec!["y".repeat(900); 1000] })));
    let waiting = line.line.as_ref().map(Line::bytes);
    assert!(waiting < Some(5000), "{waiting:?}");
    line.end(Outcome::Ok, None);
    audit.close();
    let lines = all(&audit);
    let kept = |line: &Value| line.to_string().len();
    assert!(kept(&lines[0]) < 5000 && kept(&lines[1]) < 1000);
    assert_eq!(lines[0]["after"]["role"], "viewer");
    for text in [
        &lines[0]["name"],
        &lines[0]["why"],
        &lines[0]["after"]["note"],
    ] {
        let text = text.as_str().expect("a text");
        assert!(text.contains("ä... (2097152 bytes, digest "), "{text}");
    }
    assert!(lines[1]["after"]["bytes"].as_u64() > Some(900_000));
    // An earlier release has written a line of any length.
    let log = folder.path().join("audit.log");
    let mut text = fs::read_to_string(&log).expect("the file");
    text += &format!("{{\"number\":3,\"why\":\"{}\"}}\n", "z".repeat(1 << 20));
    fs::write(&log, text).expect("written");
    let audit = open(folder.path());
    pause(&audit, "next");
    audit.close();
    assert_eq!(all(&audit)[3]["number"], 4);
}

#[test]
fn an_end_with_a_full_queue_waits_for_the_disk_and_says_what_is_lost() {
    let folder = folder();
    let audit = hanging(folder.path(), 4);
    let held = audit.0.state.renames.lock();
    for job in 0..10 {
        pause(&audit, &format!("j{job}"));
    }
    // The disk stays as it is.
    assert_eq!(audit.close_within(Duration::from_millis(50)), 10);
    let (ended, has_ended) = mpsc::channel();
    let closing = audit.clone();
    let closing = std::thread::spawn(move || {
        let lost = closing.close_within(PATIENCE);
        ended.send(lost).expect("the test waits");
    });
    let early = has_ended.recv_timeout(Duration::from_millis(100));
    assert_eq!(early, Err(mpsc::RecvTimeoutError::Timeout));
    drop(held);
    assert_eq!(has_ended.recv_timeout(PATIENCE), Ok(0));
    closing.join().expect("no panic");
    let lines = all(&audit);
    let lost = lines.iter().filter_map(|line| line["suppressed"].as_u64());
    let written = names(&lines).len() as u64;
    assert_eq!(lost.sum::<u64>() + written, 11);
}

#[test]
fn a_clock_that_was_ahead_hides_no_line() {
    let folder = folder();
    let line = |number: u64, day: &str| {
        format!("{{\"number\":{number},\"time\":\"{day}T00:00:00.000Z\",\"name\":\"{day}\"}}\n")
    };
    let text = line(1, "2026-01-01") + &line(2, "2031-01-01") + &line(3, "2026-01-02");
    fs::write(folder.path().join("audit.log"), text).expect("written");
    let audit = open(folder.path());
    let query = PageQuery {
        until: Some(WallTime::from_secs(1_780_000_000)),
        ..PageQuery::default()
    };
    let found = lines(&audit, query);
    assert_eq!(names(&found), ["2026-01-01", "2026-01-02"]);
}
