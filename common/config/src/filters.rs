//! Parses the filters of a job: the nodes of a level on which it runs.

use regex_syntax::ast::{self, Ast, RepetitionKind, Visitor};

use crate::coerce::set;
use crate::keys::{Key, Shape, TEXTS};
use crate::levels::key_level;
use crate::model::{Config, Filter, JobConfig};
use crate::read::{At, Notes};

pub(crate) const FILTER_KEYS: &[Key] = &[
    Key::new(
        "whitelist",
        TEXTS,
        "Selects nodes with one of these names. An empty list selects all nodes.",
    ),
    Key::new(
        "whitelist_regex",
        Shape::Text,
        "Selects nodes in whose name the regular expression matches anywhere.",
    ),
    Key::new("blacklist", TEXTS, "Removes nodes with one of these names."),
    Key::new(
        "blacklist_regex",
        Shape::Text,
        "Removes nodes in whose name the regular expression matches anywhere.",
    ),
    Key::new(
        "tag_whitelist",
        TEXTS,
        "Selects nodes with one of these tags. An empty list selects all nodes.",
    ),
    Key::new(
        "fraction_of_nodes",
        Shape::Number,
        "The part of the nodes that is selected, always the same nodes for a job.",
    ),
];

const FRACTION_HELP: &str = "above 0, at most 1; a job without nodes is `\"enabled\": false`";

/// The compiled size limit of one regular expression: far above any use for node names, and cheap.
const MAX_REGEX_BYTES: usize = 1 << 20;

/// Reads the filters of a job whose level of tasks is known.
pub(crate) fn filters(at: &At, job: &mut JobConfig, config: &Config, notes: &mut Notes) {
    if !at.expect_object(notes) {
        return;
    }
    for entry in at.entries() {
        let level = key_level(&entry, config, notes);
        let filter = filter(&entry, notes);
        let Some(level) = level else {
            continue;
        };
        if level > job.level_for_tasks && level < config.worker_level() {
            let tasks = &config.levels[job.level_for_tasks.index()];
            let text = format!("has no effect: tasks at level `{tasks}` have no node there");
            let help = "filter a level from `instance` to the tasks' one, or `worker`";
            notes.warning(entry.key_problem(text).help(help));
        }
        if level == config.worker_level()
            && let Some(at) = entry.get("tag_whitelist")
        {
            notes.warning(at.key_problem("has no effect: workers have no tags"));
        }
        // A filter that every node passes is not stored.
        if let Some(filter) = filter.filter(|f| *f != Filter::default()) {
            job.filters.insert(level, filter);
        }
    }
}

fn filter(at: &At, notes: &mut Notes) -> Option<Filter> {
    let mut filter = Filter::default();
    if !at.expect_object(notes) {
        return None;
    }
    at.check_keys(FILTER_KEYS, notes);
    for (key, list) in [
        ("whitelist", &mut filter.whitelist),
        ("blacklist", &mut filter.blacklist),
        ("tag_whitelist", &mut filter.tag_whitelist),
    ] {
        if let Some(at) = at.get(key) {
            set(list, at.strings(notes));
        }
    }
    for (key, pattern) in [
        ("whitelist_regex", &mut filter.whitelist_regex),
        ("blacklist_regex", &mut filter.blacklist_regex),
    ] {
        if let Some(at) = at.get(key) {
            set(pattern, regex(&at, notes));
        }
    }
    if let Some(at) = at.get("fraction_of_nodes") {
        let fraction = at.double(notes);
        match fraction {
            Some(fraction) if fraction > 1.0 => notes.error(
                at.problem(format!("{} is out of range", at.node))
                    .help(FRACTION_HELP),
            ),
            // The original has this behavior, so its files work the same here.
            Some(fraction) if fraction <= 0.0 => notes.warning(
                at.problem(format!("{} means all nodes", at.node))
                    .help(FRACTION_HELP),
            ),
            fraction => set(&mut filter.fraction_of_nodes, fraction),
        }
    }
    Some(filter)
}

fn regex(at: &At, notes: &mut Notes) -> Option<String> {
    let pattern = at.string(notes)?;
    let built = regex::RegexBuilder::new(&pattern)
        .size_limit(MAX_REGEX_BYTES)
        .build();
    let message = match built {
        Ok(_) => return regex_of_one_meaning(at, pattern, notes),
        // The last line contains the error; the lines before it draw an arrow to its place.
        Err(regex::Error::Syntax(text)) => {
            let last = text.lines().last().unwrap_or("a mistake");
            last.trim_start_matches("error: ").to_owned()
        }
        Err(other) => other.to_string(),
    };
    notes.error(
        at.problem(format!("no regular expression: {message}"))
            .help("Rust's syntax: Perl's without look-around and backreferences"),
    );
    None
}

/// Refuses expressions that other engines interpret in another way.
fn regex_of_one_meaning(at: &At, pattern: String, notes: &mut Notes) -> Option<String> {
    let parsed = ast::parse::Parser::new().parse(&pattern);
    let twice = parsed
        .ok()
        .and_then(|ast| ast::visit(&ast, TwiceRepeated).err());
    let Some((quantifiers, is_possessive)) = twice else {
        return Some(pattern);
    };
    let (start, end) = (quantifiers.start.offset, quantifiers.end.offset);
    let shown = pattern.get(start..end).unwrap_or_default();
    let text = match is_possessive {
        true => format!("the possessive quantifier `{shown}` is not supported"),
        false => format!("two quantifiers in a row: `{shown}`"),
    };
    let help = match is_possessive {
        true => "without the last `+` it finds the same, or more",
        false => "put what shall be repeated twice in parentheses",
    };
    notes.error(at.problem(text).help(help));
    None
}

/// Finds a repetition of a repetition. Perl's possessive `a++` never gives back characters; this engine reads it as `(a+)+`.
struct TwiceRepeated;

impl Visitor for TwiceRepeated {
    type Output = ();
    /// The two quantifiers, and whether they form a possessive one.
    type Err = (ast::Span, bool);

    fn finish(self) -> Result<(), Self::Err> {
        Ok(())
    }

    fn visit_pre(&mut self, ast: &Ast) -> Result<(), Self::Err> {
        let Ast::Repetition(outer) = ast else {
            return Ok(());
        };
        let Ast::Repetition(inner) = &*outer.ast else {
            return Ok(());
        };
        let is_possessive =
            outer.op.kind == RepetitionKind::OneOrMore && outer.greedy && inner.greedy;
        Err((
            ast::Span::new(inner.op.span.start, outer.op.span.end),
            is_possessive,
        ))
    }
}
