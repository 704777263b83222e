//! The scheduler core's protocol as scenarios: text files that read as documentation and are compared exactly.
//!
//! The commands are described above the arms of `commands.rs`; the form of the files in `transcript.rs`.

mod behave;
mod commands;
mod names;
mod show;
mod transcript;
mod world;

use std::path::Path;

#[test]
fn scenarios() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    transcript::run_folder(&folder, world::World::new);
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
    ] {
        let text = format!("{header}{command}\n----\nnothing\n");
        let result = transcript::replay(&text, "f.txt", &mut world::World::new());
        assert_eq!(result, Err(format!("f.txt:4: `{command}`: {error}")));
    }
}
