//! Tests that the program accepts each config that a page shows, and each command line.

use clap::{Command, CommandFactory as _};
use integration_tests::e2e::Stage;

use super::{Block, blocks, commands, pages_for_users};

/// The languages of blocks. A block of one of the first three is a whole config unless its info string ends in [`FRAGMENT`].
const LANGUAGES: &[&str] = &["json", "toml", "yaml", "sh", "text"];
const CONFIG_LANGUAGES: &[&str] = &["json", "toml", "yaml"];
const FRAGMENT: &str = ",fragment";

#[test]
fn every_block_names_its_language() {
    let mut wrong = Vec::new();
    for page in pages_for_users() {
        for block in blocks(&page) {
            let language = block.info.strip_suffix(FRAGMENT);
            let known = match language {
                Some(_) => CONFIG_LANGUAGES,
                None => LANGUAGES,
            };
            if !known.contains(&language.unwrap_or(&block.info)) {
                wrong.push(format!("{}: `{}`", block.place, block.info));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "use {LANGUAGES:?}, and for parts of configs {CONFIG_LANGUAGES:?} with `{FRAGMENT}`: {wrong:#?}"
    );
}

/// The checked files are strict: a page shows no config with an unknown key, and none that causes a warning.
#[test]
fn every_config_on_a_page_is_accepted() {
    let stage = Stage::new();
    let mut count = 0;
    for block in pages_for_users().iter().flat_map(|page| blocks(page)) {
        if CONFIG_LANGUAGES.contains(&block.info.as_str()) {
            count += 1;
            let path = stage.write(&format!("{count}/config.{}", block.info), &block.text);
            let path = path.to_str().expect("temporary folders have plain names");
            let checked = stage.brasserie(&["config", "check", "--strict-config", path]);
            let is_accepted = checked.code == Some(0) && !checked.output.contains("warning:");
            assert!(is_accepted, "{}: {}", block.place, checked.output);
        }
    }
    assert!(count > 0, "no page shows a config");
}

#[test]
fn every_fragment_of_json_is_json() {
    for block in pages_for_users().iter().flat_map(|page| blocks(page)) {
        if block.info == format!("json{FRAGMENT}") {
            let parsed = serde_json::from_str::<serde_json::Value>(&block.text);
            assert!(parsed.is_ok(), "{}: {parsed:?}", block.place);
        }
    }
}

/// Returns whether a word of a command is one of the three programs.
fn is_program(word: &str) -> bool {
    let name = word.rsplit('/').next().unwrap_or(word);
    ["brasserie", "brasserie-scheduler", "brasserie-worker"].contains(&name)
}

/// Returns the command lines of the three programs in a block, without the shell around them.
fn program_lines(block: &Block) -> Vec<String> {
    let mut lines = Vec::new();
    for command in commands(block) {
        let command = command.trim_start_matches("$ ");
        let command = command.replace("cargo run --release -- ", "brasserie ");
        for part in command.split([';', '|', '>']).flat_map(|it| it.split("&&")) {
            let words: Vec<&str> = part.split_whitespace().collect();
            // `runuser -u brasserie -- timeout 5 brasserie-scheduler` runs the last of them.
            let at = match words.first() {
                Some(&"runuser") => words.iter().rposition(|word| is_program(word)),
                Some(word) if is_program(word) => Some(0),
                Some(_) | None => None,
            };
            lines.extend(at.map(|at| words[at..].join(" ")));
        }
    }
    lines
}

#[test]
fn every_command_on_a_page_is_accepted() {
    let programs: [Command; 3] = [
        brasserie::Cli::command(),
        brasserie_scheduler::config::Flags::command(),
        brasserie_worker::config::Cli::command(),
    ];
    let mut count = 0;
    for block in pages_for_users().iter().flat_map(|page| blocks(page)) {
        let is_shell = block.info == "sh" || block.text.starts_with("$ ");
        for line in program_lines(&block).iter().filter(|_| is_shell) {
            count += 1;
            let words = line.split_whitespace().map(|word| word.trim_matches('\''));
            let words: Vec<&str> = words.collect();
            let name = words[0].rsplit('/').next().unwrap_or(words[0]);
            let program = programs.iter().find(|program| program.get_name() == name);
            let program = program.expect("one of the three").clone();
            let parsed = program.try_get_matches_from(words);
            assert!(
                parsed.is_ok(),
                "{}: `{line}`: {}",
                block.place,
                parsed.unwrap_err()
            );
        }
    }
    assert!(count > 30, "the pages have only {count} command lines");
}
