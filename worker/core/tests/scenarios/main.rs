//! The worker core's protocol as scenarios: text files that read as documentation and are compared exactly.
//!
//! `commands.rs` describes each command above its match arm. `transcript.rs`, which the scheduler's scenarios share, describes the file
//! format.

mod commands;
#[path = "../../../../scheduler/core/tests/scenarios/index.rs"]
mod index;
mod routine;
mod show;
#[path = "../../../../scheduler/core/tests/scenarios/transcript.rs"]
mod transcript;
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
    let sources = [include_str!("commands.rs"), include_str!("world.rs")];
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
        ("fetch from S1", "no scheduler is called `S1`"),
        ("answer report#1 ok", "no open call is called `report#1`"),
        ("end run#1 done", "no run is called `run#1`"),
        ("advance", "how long is missing"),
        ("scheduler S1 start 5 x", "`x` means nothing here"),
        ("timer", "no worker runs; `start` one"),
    ] {
        let text = format!("{header}{command}\n----\nnothing\n");
        let result = transcript::replay(&text, "f.txt", &mut world::World::new());
        assert_eq!(result, Err(format!("f.txt:4: `{command}`: {error}")));
    }
}
