//! Parses the node sources and their preferences.

use std::path::PathBuf;
use std::time::Duration;

use crate::children::{PARENT_LEVEL, check_format, parent_level};
use crate::coerce::set;
use crate::keys::{INT64, Key, KeyNeed, KeyVariant, Shape, Tagged, names};
use crate::known_nodes::{Given, KnownNodes};
use crate::model::{Config, LevelId, NodeNaming, NodeSource, RangeLabel, ScriptSource};
use crate::problem::Problem;
use crate::read::{At, Notes};
use crate::{PathUse, SETTINGS, add_time, manual};

/// The children that one `range_label` may give each parent: the largest forest that the engine supports.
pub const MAX_RANGE_NODES: i64 = 10_000_000;

/// The default timeout of a script source. The source runs at startup, while an operator waits.
const SCRIPT_TIMEOUT: Duration = Duration::from_secs(60);

const SOURCE_KEYS: &[Key] = &[
    Key::required(
        "source",
        Shape::Words(source_names),
        "The kind of the source.",
    ),
    Key::new("prefs", Shape::AnyObject, "The preferences of the source."),
    Key::new(
        NAMES,
        Shape::Words(|| names(NAMINGS)),
        "The names of nodes. `path` puts the parent's name and a slash before each name. `shared` makes nodes with the same name one node.",
    ),
];
const NAMES: &str = "names";
const NAMINGS: &[(&str, NodeNaming)] = &[
    ("unique", NodeNaming::Unique),
    ("path", NodeNaming::Path),
    ("shared", NodeNaming::Shared),
];
const RANGE_KEYS: &[Key] = &[
    PARENT_LEVEL,
    Key::required("start", INT64, "The first number."),
    Key::required("end", INT64, "The last number, included."),
    Key::new(
        "format",
        Shape::Name,
        "The name of a node, with the placeholders `{parent}`, `{i}`, `{start}` and `{end}`.",
    ),
    Key::new(
        "enabled",
        Shape::Truth,
        "With `false`, no task starts on these nodes.",
    ),
];
const SCRIPT_KEYS: &[Key] = &[
    PARENT_LEVEL,
    Key::required(
        "script",
        Shape::Name,
        "The program that gets the name of a node and prints its children, one per line.",
    ),
    Key::new(
        "timeout",
        Shape::Duration,
        "The time for which the program may run.",
    ),
];

/// An array of sources.
pub(crate) const SOURCES_SHAPE: Shape = Shape::List(&Shape::Tagged(Tagged {
    keys: SOURCE_KEYS,
    tag: "source",
    body: "prefs",
    variants: || SOURCES.iter().map(variant).collect(),
}));

/// Returns the names of the supported sources.
pub(crate) fn source_names() -> Vec<&'static str> {
    let variants = SOURCES.iter().map(variant);
    variants.map(|variant| variant.name).collect()
}

fn variant(&(name, kind): &(&'static str, SourceKind)) -> KeyVariant {
    let (need, shape) = match kind {
        SourceKind::Empty => (KeyNeed::Optional, Shape::Fields(&[])),
        SourceKind::Manual => (KeyNeed::Required, manual::PREFS),
        SourceKind::RangeLabel => (KeyNeed::Required, Shape::Fields(RANGE_KEYS)),
        SourceKind::Script => (KeyNeed::Required, Shape::Fields(SCRIPT_KEYS)),
        SourceKind::AddTime => (KeyNeed::Required, Shape::Fields(add_time::KEYS)),
    };
    KeyVariant { name, need, shape }
}

const RANGE_PLACEHOLDERS: &[&str] = &["parent", "i", "start", "end"];

#[derive(Clone, Copy)]
enum SourceKind {
    Empty,
    Manual,
    RangeLabel,
    Script,
    AddTime,
}

/// The keys for the kind of a source and its preferences.
const SOURCE: (&str, &str) = ("source", "prefs");
const SINGLE_SOURCE: (&str, &str) = ("node_source", "node_source_prefs");
/// The kind of source that runs a program, and the key for the program.
const SCRIPT: &str = "script";

const SOURCES: &[(&str, SourceKind)] = &[
    ("empty", SourceKind::Empty),
    ("manual", SourceKind::Manual),
    ("range_label", SourceKind::RangeLabel),
    (SCRIPT, SourceKind::Script),
    ("add_time", SourceKind::AddTime),
];

pub(crate) fn sources(nodes: &At, config: &mut Config, notes: &mut Notes) {
    let single = nodes.get("node_source");
    let at = nodes.get("node_sources");
    let none = single.is_none()
        && at
            .as_ref()
            .is_none_or(|a| a.as_array().is_some_and(<[_]>::is_empty));
    if none && nodes.as_object().is_some() && config.level_for_tasks != LevelId::INSTANCE {
        notes.warning(
            nodes
                .key_problem("there is no node source, so only the instance node exists")
                .help("name some in `nodes.node_sources`"),
        );
    }
    let mut known = KnownNodes::default();
    single_source(nodes, config, &mut known, notes);
    let Some(at) = at else {
        return;
    };
    if !at.expect_array("node sources", notes) {
        return;
    }
    for item in at.items() {
        if item.expect_object(notes) {
            item.check_keys(SOURCE_KEYS, notes);
            let mut naming = NodeNaming::default();
            if let Some(at) = item.get(NAMES) {
                set(&mut naming, at.choice(NAMINGS, notes));
            }
            let read = source(&item, SOURCE, naming, config, notes);
            add_source(&item, read, config, &mut known, notes);
        }
    }
}

/// Returns the program of each `script` source, with the warning for the case that the scheduler cannot run it.
pub(crate) fn scripts(root: &At) -> Vec<(String, PathUse, Problem)> {
    let script = |source: &At, (name_key, prefs_key): (&str, &str)| {
        let is_script = source.get(name_key)?.as_str()? == SCRIPT;
        let prefs = source.get(prefs_key).filter(|_| is_script)?;
        let at = prefs.get(SCRIPT)?;
        let script = at.as_str().filter(|script| is_path(script))?.to_owned();
        let problem = at.problem(format!("the scheduler cannot run {}", at.node));
        let help = "the scheduler's machine needs the program, whose path begins in the config file's folder if it is relative";
        Some((script, PathUse::Program, problem.help(help)))
    };
    let mut scripts = Vec::new();
    if let Some(settings) = root.get(SETTINGS)
        && let Some(nodes) = settings.get("nodes")
    {
        scripts.extend(script(&nodes, SINGLE_SOURCE));
        if let Some(sources) = nodes.get("node_sources") {
            scripts.extend(sources.items().filter_map(|at| script(&at, SOURCE)));
        }
    }
    scripts
}

/// Reads the older spelling of a single source, which comes before all others.
fn single_source(nodes: &At, config: &mut Config, known: &mut KnownNodes, notes: &mut Notes) {
    let keys = SINGLE_SOURCE;
    match (nodes.get(keys.0), nodes.get(keys.1)) {
        (None, None) => {}
        (None, Some(prefs)) => notes.warning(
            prefs
                .key_problem("has no effect without `node_source`")
                .help("name the source, in `node_source` or in `node_sources`"),
        ),
        (Some(_), _) => {
            let read = source(nodes, keys, NodeNaming::default(), config, notes);
            add_source(nodes, read, config, known, notes);
        }
    }
}

/// Adds a source that has no mistakes of its own, and reports the names that its nodes share with others.
fn add_source(
    at: &At,
    read: Option<(NodeSource, Given)>,
    config: &mut Config,
    known: &mut KnownNodes,
    notes: &mut Notes,
) {
    let Some((source, given)) = read else {
        return;
    };
    known.add(at, &source, given, config, notes);
    config.node_sources.push(source);
}

/// Reads the source that two keys of `at` describe.
fn source(
    at: &At,
    (name_key, prefs_key): (&str, &str),
    naming: NodeNaming,
    config: &Config,
    notes: &mut Notes,
) -> Option<(NodeSource, Given)> {
    let prefs = at.get(prefs_key);
    let wrong_prefs = prefs.as_ref().filter(|prefs| prefs.as_object().is_none());
    if let Some(prefs) = wrong_prefs {
        let help = r#"the source's preferences; those of `manual` are nodes with their children, as in {"a": [], "b": []}"#;
        notes.error(prefs.expected("an object").help(help));
    }
    let help = "one of empty, manual, range_label, script, add_time";
    let name = at.required(name_key, help, notes)?;
    let kind = name.choice(SOURCES, notes)?;
    if wrong_prefs.is_some() {
        return None;
    }
    // If there are no preferences, missing keys are reported at the place of the source.
    let prefs = prefs.unwrap_or(*at);
    let given = at.get(prefs_key).is_some();
    let mut places = Given::default();
    let source = match kind {
        SourceKind::Empty => {
            if given {
                prefs.check_keys::<Key>(&[], notes);
            }
            Some(NodeSource::Empty)
        }
        SourceKind::Manual if given => {
            let nodes = manual::parse(&prefs, naming, config, notes);
            nodes.map(|(nodes, given)| {
                places = given;
                NodeSource::Manual(nodes)
            })
        }
        SourceKind::Manual => {
            at.required(prefs_key, "an object of nodes and their children", notes);
            None
        }
        SourceKind::RangeLabel | SourceKind::Script | SourceKind::AddTime if !given => {
            at.required(prefs_key, "an object with the source's preferences", notes);
            None
        }
        SourceKind::RangeLabel => {
            range_label(&prefs, naming, config, notes).map(NodeSource::RangeLabel)
        }
        SourceKind::Script => script(&prefs, naming, config, notes).map(NodeSource::Script),
        SourceKind::AddTime => {
            add_time::parse(&prefs, naming, config, notes).map(NodeSource::AddTime)
        }
    };
    source.map(|source| (source, places))
}

fn range_label(
    prefs: &At,
    naming: NodeNaming,
    config: &Config,
    notes: &mut Notes,
) -> Option<RangeLabel> {
    prefs.check_keys(RANGE_KEYS, notes);
    let parent_level = parent_level(prefs, config, notes);
    let mut format = "{parent}__{i}".to_owned();
    let mut enabled = true;
    let start = prefs
        .required("start", "the first number", notes)
        .and_then(|at| at.integer(i64::MIN..=i64::MAX, notes));
    let end_at = prefs.required("end", "the last number, included", notes);
    let end = end_at
        .as_ref()
        .and_then(|at| at.integer(i64::MIN..=i64::MAX, notes));
    if let Some(at) = prefs.get("enabled") {
        set(&mut enabled, at.boolean(notes));
    }
    if let Some(at) = prefs.get("format") {
        set(&mut format, at.string(notes));
        check_format(&at, &format, RANGE_PLACEHOLDERS, "i", notes);
    }
    let (start, end, end_at) = (start?, end?, end_at?);
    let more = end.checked_sub(start);
    if start <= end && more.is_none_or(|more| more >= MAX_RANGE_NODES) {
        let text = format!("from {start} to {end} are more than {MAX_RANGE_NODES} nodes");
        notes.error(end_at.problem(text).help("use a smaller range"));
        return None;
    }
    if start > end {
        notes.warning(end_at.problem(format!("there is no number from {start} to {end}")));
    }
    Some(RangeLabel {
        parent_level: parent_level?,
        start,
        end,
        format,
        enabled,
        naming,
    })
}

fn script(
    prefs: &At,
    naming: NodeNaming,
    config: &Config,
    notes: &mut Notes,
) -> Option<ScriptSource> {
    prefs.check_keys(SCRIPT_KEYS, notes);
    let parent_level = parent_level(prefs, config, notes);
    let mut timeout = SCRIPT_TIMEOUT;
    if let Some(at) = prefs.get("timeout") {
        set(&mut timeout, at.duration(notes));
        if timeout.is_zero() {
            notes.error(at.problem("the timeout is zero").help("above 0, as in 60s"));
        }
    }
    let help = "the path of a program that prints a child a line";
    let at = prefs.required(SCRIPT, help, notes)?;
    let script = at.string(notes)?;
    if !is_path(&script) {
        notes.error(at.problem("this is no path").help(help));
        return None;
    }
    Some(ScriptSource {
        parent_level: parent_level?,
        script: PathBuf::from(script),
        timeout,
        naming,
    })
}

fn is_path(script: &str) -> bool {
    !script.is_empty() && !script.contains('\0')
}
