//! Reads what all node sources with parents have in common: the level of the parents, and the format of the children's names.

use crate::keys::{Key, Shape};
use crate::levels::level;
use crate::model::{Config, LevelId};
use crate::read::{At, Notes, suggest};

pub(crate) const PARENT_LEVEL: Key = Key::required(
    "parent_level",
    Shape::Name,
    "The level whose nodes get children.",
);

/// Reads the level of the parents. The level of their children must be a configured one.
pub(crate) fn parent_level(prefs: &At, config: &Config, notes: &mut Notes) -> Option<LevelId> {
    let help = "the level whose nodes get children";
    let at = prefs.required("parent_level", help, notes)?;
    let parent = level(&at, config, notes)?;
    if parent.index() + 1 < config.worker_level().index() {
        return Some(parent);
    }
    let parents = &config.levels[..config.levels.len().saturating_sub(2)];
    let help = match parents {
        [] => "add a level to `nodes.levels`".to_owned(),
        _ => format!("levels that can have children: {}", parents.join(", ")),
    };
    let text = format!("nodes of level {} cannot have children", at.node);
    notes.error(at.problem(text).help(help));
    None
}

/// Checks a format. `known` are the words that may stand in braces; `distinct` is the word by which the children of one node differ.
pub(crate) fn check_format(
    at: &At,
    format: &str,
    known: &[&str],
    distinct: &str,
    notes: &mut Notes,
) {
    if format.is_empty() {
        notes.error(at.problem("the format is empty"));
        return;
    }
    let inner = format
        .split('{')
        .skip(1)
        .filter_map(|rest| rest.split_once('}'));
    for (word, _) in inner {
        if !known.contains(&word) {
            notes.error(
                at.problem(format!("unknown placeholder `{{{word}}}`"))
                    .help(suggest(word, known.iter().copied())),
            );
        }
    }
    let distinct = format!("{{{distinct}}}");
    if !format.contains(&distinct) {
        notes.warning(at.problem(format!(
            "without `{distinct}` all children of a node have the same name"
        )));
    }
}
