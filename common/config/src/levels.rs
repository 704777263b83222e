//! Reads the levels that a config names.

use crate::model::{Config, LevelId};
use crate::read::{At, Notes, suggest};

/// Reads the level on whose nodes a job has tasks.
pub(crate) fn task_level(at: &At, config: &Config, notes: &mut Notes) -> Option<LevelId> {
    let level = level(at, config, notes)?;
    if level == config.worker_level() {
        notes.warning(at.problem("no node is at the level `worker`, so there will be no task"));
    }
    Some(level)
}

/// Reads a known level from a value.
pub(crate) fn level(at: &At, config: &Config, notes: &mut Notes) -> Option<LevelId> {
    let name = at.string(notes)?;
    let level = config.level(&name);
    if level.is_none() && notes.error_is_kept() {
        let known = config.levels.iter().map(String::as_str);
        let help = suggest(&name, known);
        notes.error(
            at.problem(format!("there is no level {}", at.node))
                .help(help),
        );
    }
    level
}

/// Reads a known level from the key of a value.
pub(crate) fn key_level(at: &At, config: &Config, notes: &mut Notes) -> Option<LevelId> {
    let level = config.level(at.key());
    if level.is_none() && notes.error_is_kept() {
        let known = config.levels.iter().map(String::as_str);
        let help = suggest(at.key(), known);
        let name = crate::tree::quote(at.key());
        notes.error(
            at.key_problem(format!("there is no level {name}"))
                .value(name)
                .help(help),
        );
    }
    level
}
