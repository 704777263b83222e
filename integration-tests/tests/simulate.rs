//! Tests `simulate` and `search`: they pass only if they have checked something, whatever happens to their output.

use std::process::{Command, Output};

fn simulate(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_simulate"));
    command.args(arguments);
    command
}

fn search(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_search"));
    command.args(arguments);
    command
}

fn ended(mut command: Command) -> (Option<i32>, String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().expect("the program starts");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (status.code(), text(stdout), text(stderr))
}

/// Checks that the program refuses these arguments with all these words on standard error.
#[track_caller]
fn refused(command: Command, words: &[&str]) {
    let (code, out, told) = ended(command);
    assert_eq!((code, out.as_str()), (Some(2), ""), "{told}");
    for word in words {
        assert!(told.contains(word), "`{word}` is not in\n{told}");
    }
}

#[test]
fn a_simulation_of_nothing_is_refused() {
    refused(simulate(&["--seeds", "0"]), &["--seeds", "0 is not in 1.."]);
    let no_threads = ["--threads", "0", "--seeds", "5"];
    refused(
        simulate(&no_threads),
        &["--threads", "0 is not in 1..=1024"],
    );
    refused(simulate(&["--minutes", "0"]), &["--minutes", "0 is not in"]);
    let last = u64::MAX.to_string();
    refused(
        simulate(&["--first-seed", &last]),
        &["--first-seed", "is not in"],
    );
}

#[test]
fn a_law_that_is_none_is_refused_with_those_that_there_are() {
    let words = ["no-such-law", "sent_once", "within_credit", "zombies_end"];
    refused(simulate(&["--without", "no-such-law"]), &words);
    let both = ["--no-laws", "--without", "sent_once"];
    refused(simulate(&both), &["--without"]);
    refused(simulate(&["--sabotage", "nosuch"]), &["nosuch"]);
    let (code, out, told) = ended(simulate(&["--seed", "3", "--without", "sent_once"]));
    assert_eq!(code, Some(0), "{told}");
    assert!(out.starts_with("1 seeds, "), "{out}");
}

#[test]
fn what_is_played_is_counted() {
    let (code, out, told) = ended(simulate(&["--seeds", "2", "--threads", "3"]));
    assert_eq!(code, Some(0), "{told}");
    assert!(out.starts_with("2 seeds, "), "{out}");
}

#[test]
fn a_search_of_nothing_is_refused() {
    let (code, out, _) = ended(search(&["--states", "1", "--depth", "1"]));
    assert_eq!(code, Some(0), "{out}");
    let world = out.split(':').next().expect("a first word");
    refused(
        search(&["--only", "no such world"]),
        &["no such world", world],
    );
    refused(
        search(&["--rules", "--only", "no such rule"]),
        &["rule", "R1, "],
    );
    if cfg!(not(feature = "sabotage")) {
        refused(search(&["--rules"]), &["build with --features sabotage"]);
    }
    refused(search(&["--states", "0"]), &["--states", "0 is not in 1.."]);
    refused(search(&["--depth", "0"]), &["--depth", "0 is not in 1.."]);
}

/// Simulates `| head`, which closes the pipe early.
#[test]
fn a_reader_that_is_gone_does_not_change_the_verdict() {
    let unread = |mut command: Command| {
        let (reader, writer) = std::io::pipe().expect("a pipe can be made");
        drop(reader);
        let ended = command.stdout(writer).output().expect("it starts");
        let told = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!((ended.status.code(), told.as_str()), (Some(0), ""));
    };
    unread(simulate(&["--seeds", "1", "--no-laws"]));
    unread(simulate(&["--seed", "3", "--trace", "--no-laws"]));
    unread(search(&["--states", "10"]));
}

/// A full disk is a failure, unlike a closed pipe.
#[test]
fn what_cannot_be_printed_is_told() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
    let mut command = simulate(&["--seed", "3", "--no-laws"]);
    command.stdout(full.expect("every Linux has it"));
    let ended = command.output().expect("the program starts");
    let told = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{told}");
    assert!(told.contains("cannot be written"), "{told}");
}
