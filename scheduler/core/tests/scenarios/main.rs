//! The protocol of the scheduler core as scenarios: text files that read as documentation and are compared exactly.
//!
//! The comments above the arms of `commands.rs` describe the commands, and `transcript.rs` describes the format of the files.

mod behave;
mod commands;
mod config_text;
mod index;
mod names;
mod show;
mod transcript;
mod work;
mod world;

use std::path::Path;

#[test]
fn scenarios() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    transcript::run_folder(&folder, world::World::new);
}

#[test]
fn the_index_is_complete() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    index::check_index(&folder);
}

#[test]
fn every_word_of_the_vocabulary_is_used() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let sources = [
        include_str!("commands.rs"),
        include_str!("config_text.rs"),
        include_str!("world.rs"),
        include_str!("work.rs"),
    ];
    index::check_vocabulary(&folder, &sources);
}

#[test]
fn an_index_or_vocabulary_that_is_wrong_is_refused() {
    index::check_the_checks();
}

#[test]
fn scenario_files_that_are_wrong_are_refused() {
    transcript::check_the_format_itself();
}

#[test]
fn commands_that_name_what_does_not_exist_are_refused() {
    let header = "# A title that is long enough\n# A story that is long enough\n\n";
    for (command, error) in [
        ("dance", "unknown command `dance`"),
        ("heartbeat w1", "no worker is called `w1`"),
        ("answer fetch#1 ok", "no open call is called `fetch#1`"),
        ("advance", "how long is missing"),
        ("start loudly", "`loudly` is no flag of a scheduler"),
        ("sync now", "`now` means nothing here"),
        ("status w1 run#1 done", "no worker is called `w1`"),
        (
            "set X of S1 version 1 workers",
            "no scheduler is called `S1`",
        ),
    ] {
        let text = format!("{header}{command}\n----\nnothing\n");
        let result = transcript::replay(&text, "f.txt", &mut world::World::new());
        assert_eq!(result, Err(format!("f.txt:4: `{command}`: {error}")));
    }
}
