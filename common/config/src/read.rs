//! Walks a tree by key, tracks the path to each value, and collects the problems found.

use std::fmt;

use crate::problem::{Problem, is_misspelt, nearest};
use crate::tree::{Node, Object, Place, Value, quote};

/// The handling of unknown keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownKeys {
    /// A warning with the nearest known key.
    #[default]
    Warn,
    /// An error that refuses the file, also for a key in a job. A caller that chooses this wants all or nothing, and disabling a single job
    /// could end its running tasks.
    Refuse,
}

impl UnknownKeys {
    /// Returns the meaning of `--strict-config`.
    pub fn from_strict_flag(strict_config: bool) -> UnknownKeys {
        match strict_config {
            true => UnknownKeys::Refuse,
            false => UnknownKeys::Warn,
        }
    }
}

/// Limit for the errors, and for the warnings, that a file or one part of it (the settings, one job) reports. A hostile file could
/// otherwise cause a message for each of its bytes.
pub const MAX_PROBLEMS: usize = 200;

/// Problems of one kind.
#[derive(Clone, Debug, Default)]
pub(crate) struct Problems {
    pub shown: Vec<Problem>,
    /// Number of problems that `shown` omits.
    pub more: usize,
}

impl Problems {
    pub fn is_empty(&self) -> bool {
        self.shown.is_empty()
    }

    /// Adds the problems of another part of the file.
    pub fn add(&mut self, other: Problems) {
        self.shown.extend(other.shown);
        self.more += other.more;
    }

    /// Sorts the problems in file order and keeps the first [`MAX_PROBLEMS`].
    pub fn bounded(mut self) -> Problems {
        self.shown.sort_by_key(Problem::place);
        self.more += self.shown.len().saturating_sub(MAX_PROBLEMS);
        self.shown.truncate(MAX_PROBLEMS);
        self
    }

    /// Returns the shown problems. If others are omitted, the last problem says how many.
    pub fn counted(mut self) -> Vec<Problem> {
        if let Some(last) = self.shown.last()
            && self.more > 0
        {
            let text = format!("{} more problems are not shown", self.more);
            self.shown
                .push(Problem::new(last.place(), String::new(), text));
        }
        self.shown
    }
}

/// Problems of one part of a file.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    pub errors: Vec<Problem>,
    pub warnings: Vec<Problem>,
    more_errors: usize,
    more_warnings: usize,
    unknown_keys: UnknownKeys,
    /// An unknown key was met where those are refused.
    has_refused_key: bool,
}

impl Notes {
    pub fn new(unknown_keys: UnknownKeys) -> Notes {
        Notes {
            unknown_keys,
            ..Notes::default()
        }
    }

    pub fn error(&mut self, problem: Problem) {
        if problem.is_consequence {
            return;
        }
        if self.errors.len() < MAX_PROBLEMS {
            self.errors.push(problem);
        } else {
            self.more_errors += 1;
        }
    }

    pub fn warning(&mut self, problem: Problem) {
        if problem.is_consequence {
            return;
        }
        if self.warnings.len() < MAX_PROBLEMS {
            self.warnings.push(problem);
        } else {
            self.more_warnings += 1;
        }
    }

    /// Returns whether one more error would be kept; counts the error otherwise. Callers ask before they compute an expensive help text, so
    /// that a file full of mistakes is read as fast as any other.
    pub fn error_is_kept(&mut self) -> bool {
        let kept = self.errors.len() < MAX_PROBLEMS;
        if !kept {
            self.more_errors += 1;
        }
        kept
    }

    /// Returns the same for [`Notes::unknown_key`].
    pub fn unknown_key_is_kept(&mut self) -> bool {
        match self.unknown_keys {
            UnknownKeys::Refuse => {
                self.has_refused_key = true;
                self.error_is_kept()
            }
            UnknownKeys::Warn => self.warning_is_kept(),
        }
    }

    /// Returns the same for [`Notes::warning`].
    pub fn warning_is_kept(&mut self) -> bool {
        let kept = self.warnings.len() < MAX_PROBLEMS;
        if !kept {
            self.more_warnings += 1;
        }
        kept
    }

    /// Adds an error or a warning, depending on the parser's options.
    pub fn unknown_key(&mut self, problem: Problem) {
        match self.unknown_keys {
            UnknownKeys::Warn => self.warning(problem),
            UnknownKeys::Refuse => {
                self.has_refused_key = true;
                self.error(problem);
            }
        }
    }

    /// Notes an unknown key that is an error in any case, for which a strict parser refuses the whole file.
    pub fn note_refused_key(&mut self) {
        self.has_refused_key |= self.unknown_keys == UnknownKeys::Refuse;
    }

    /// Returns whether there is an unknown key for which the file is refused.
    pub fn has_refused_key(&self) -> bool {
        self.has_refused_key
    }

    /// Returns the errors and the warnings, each in file order.
    pub fn finish(self) -> (Problems, Problems) {
        let list = |mut shown: Vec<Problem>, more| {
            shown.sort_by_key(Problem::place);
            Problems { shown, more }
        };
        (
            list(self.errors, self.more_errors),
            list(self.warnings, self.more_warnings),
        )
    }
}

/// The path from the root to a value.
#[derive(Clone, Copy, Debug)]
enum Path<'a> {
    Root,
    Key(&'a Path<'a>, &'a str),
    Index(&'a Path<'a>, usize),
}

/// Formats a key for a path: on one line, and shortened.
pub(crate) fn show_key(key: &str) -> String {
    const SHOWN_CHARS: usize = 100;
    let mut out = String::new();
    for (index, c) in key.chars().enumerate() {
        if index == SHOWN_CHARS {
            out.push_str("...");
            break;
        }
        match c.is_control() {
            true => out.extend(c.escape_debug()),
            false => out.push(c),
        }
    }
    out
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Root => Ok(()),
            Path::Key(parent, key) => {
                if !matches!(parent, Path::Root) {
                    write!(f, "{parent}.")?;
                }
                f.write_str(&show_key(key))
            }
            Path::Index(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

/// A value with its place and path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At<'a> {
    pub node: &'a Node,
    /// The place of the key if there is one, else of the value.
    key_place: Place,
    path: Path<'a>,
}

impl<'a> At<'a> {
    pub fn root(node: &'a Node) -> At<'a> {
        At {
            node,
            key_place: node.place,
            path: Path::Root,
        }
    }

    pub fn place(&self) -> Place {
        self.node.place
    }

    /// Returns the place of the key, or of the value if there is no key.
    pub fn key_place(&self) -> Place {
        self.key_place
    }

    /// Returns the path as messages show it.
    pub fn path_text(&self) -> String {
        self.path.to_string()
    }

    /// Returns a problem with this value, whose message shows the value.
    pub fn problem(&self, message: impl Into<String>) -> Problem {
        let problem = Problem::new(self.node.place, self.path.to_string(), message.into());
        Problem {
            is_consequence: self.node.value == Value::Unread,
            ..problem.value(self.node)
        }
    }

    /// Returns a problem with the key of this value.
    pub fn key_problem(&self, message: impl Into<String>) -> Problem {
        Problem::new(self.key_place, self.path.to_string(), message.into())
    }

    /// Returns "expected X, found Y".
    pub fn expected(&self, what: &str) -> Problem {
        self.problem(format!("expected {what}, found {}", self.node))
    }

    /// Returns the key of this value in its object.
    pub fn key(&self) -> &'a str {
        match self.path {
            Path::Key(_, key) => key,
            Path::Root | Path::Index(..) => "",
        }
    }

    pub fn as_object(&self) -> Option<&'a Object> {
        match &self.node.value {
            Value::Object(object) => Some(object),
            _ => None,
        }
    }

    pub fn as_array(&self) -> Option<&'a [Node]> {
        match &self.node.value {
            Value::Array(items) => Some(items),
            _ => None,
        }
    }

    pub fn as_str(&self) -> Option<&'a str> {
        match &self.node.value {
            Value::String(s) => Some(s),
            _ => None,
        }
    }

    /// Returns the value under `key`; `None` if this is no object.
    pub fn get(&self, key: &str) -> Option<At<'_>> {
        let entry = self.as_object()?.entries.iter().find(|e| e.key == key)?;
        Some(At {
            node: &entry.node,
            key_place: entry.place,
            path: Path::Key(&self.path, &entry.key),
        })
    }

    /// Returns the entries of an object; none for other values.
    pub fn entries(&self) -> impl Iterator<Item = At<'_>> {
        let entries = self.as_object().map_or(&[][..], |o| &o.entries);
        entries.iter().map(|entry| At {
            node: &entry.node,
            key_place: entry.place,
            path: Path::Key(&self.path, &entry.key),
        })
    }

    /// Returns the items of an array; none for other values.
    pub fn items(&self) -> impl Iterator<Item = At<'_>> {
        let items = self.as_array().unwrap_or(&[]);
        items.iter().enumerate().map(|(index, node)| At {
            node,
            key_place: node.place,
            path: Path::Index(&self.path, index),
        })
    }

    /// Returns whether this is an object. Reports a problem otherwise.
    pub fn expect_object(&self, notes: &mut Notes) -> bool {
        let found = self.as_object().is_some();
        if !found {
            notes.error(self.expected("an object"));
        }
        found
    }

    /// Returns whether this is an array. Reports a problem otherwise.
    pub fn expect_array(&self, of: &str, notes: &mut Notes) -> bool {
        let found = self.as_array().is_some();
        if !found {
            notes.error(self.expected(&format!("an array of {of}")));
        }
        found
    }

    /// Reports each key that is not in `known`.
    pub fn check_keys<K: AsRef<str>>(&self, known: &[K], notes: &mut Notes) {
        let is_known = |key: &str| known.iter().any(|known| known.as_ref() == key);
        for entry in self.entries().filter(|e| !is_known(e.key())) {
            if !notes.unknown_key_is_kept() {
                continue;
            }
            let problem = entry
                .key_problem("unknown key")
                .value(quote(entry.key()))
                .help(suggest(entry.key(), known.iter().map(AsRef::as_ref)));
            notes.unknown_key(problem);
        }
    }

    /// Reports each key that is not in `known` as an error, whatever the parser's options. An object needs this if each of its keys
    /// decides which files a task gets or leaves: without a misspelt key, a job would work with other files than its author wants.
    pub fn require_known_keys<K: AsRef<str>>(&self, known: &[K], notes: &mut Notes) {
        let is_known = |key: &str| known.iter().any(|known| known.as_ref() == key);
        for entry in self.entries().filter(|e| !is_known(e.key())) {
            notes.note_refused_key();
            if notes.error_is_kept() {
                let problem = entry.key_problem("unknown key").value(quote(entry.key()));
                let names = known.iter().map(AsRef::as_ref);
                notes.error(problem.help(suggest(entry.key(), names)));
            }
        }
    }

    /// Reports a misspelt key that a job lacks as an error: without `command` the job would run the worker's default program, and without a
    /// key about artifacts its tasks would run without their data, or leave none. Returns whether there is one.
    pub fn report_misspelt(&self, key: &str, notes: &mut Notes) -> bool {
        let is_it = |entry: &At| entry.key() != key && is_misspelt(entry.key(), key);
        let entries: Vec<At> = self.entries().collect();
        let entry = entries.iter().find(|entry| is_it(entry));
        let Some(entry) = entry.filter(|_| self.get(key).is_none()) else {
            return false;
        };
        if !notes.has_refused_key() {
            let problem = entry.key_problem(format!("unknown key, and the job has no `{key}`"));
            // The error replaces the warning about the same key.
            notes.warnings.retain(|w| w.place() != problem.place());
            let help = format!("did you mean `{key}`?");
            notes.error(problem.value(quote(entry.key())).help(help));
        }
        true
    }

    /// Returns the value of a required key.
    pub fn required(&self, key: &str, help: &str, notes: &mut Notes) -> Option<At<'_>> {
        let found = self.get(key);
        if found.is_none() && self.as_object().is_some() {
            let problem = Problem::new(
                self.place(),
                Path::Key(&self.path, key).to_string(),
                "the key is missing".to_owned(),
            );
            notes.error(problem.help(help));
        }
        found
    }

    /// Returns the value under the first of several alias names. A second name is an error.
    pub fn get_alias(&self, names: &[&str], notes: &mut Notes) -> Option<At<'_>> {
        let mut found: Option<At<'_>> = None;
        for &name in names {
            match (&found, self.get(name)) {
                (None, at) => found = at,
                (Some(first), Some(second)) => notes.error(
                    second
                        .key_problem(format!("means the same as `{}`", first.key()))
                        .help("keep one of them"),
                ),
                (Some(_), None) => {}
            }
        }
        found
    }

    /// Reports the keys that occur twice in one object, here and below.
    pub fn check_duplicates(&self, notes: &mut Notes) {
        if let Some(object) = self.as_object() {
            for duplicate in &object.duplicates {
                let path = Path::Key(&self.path, &duplicate.key).to_string();
                notes.error(
                    Problem::new(duplicate.place, path, "the key occurs twice".to_owned()).help(
                        format!(
                            "the first is at {}:{}",
                            duplicate.first.line, duplicate.first.column
                        ),
                    ),
                );
            }
        }
        // Invariant: the parser bounds the depth of the tree, and so of this recursion.
        for child in self.entries() {
            child.check_duplicates(notes);
        }
        for child in self.items() {
            child.check_duplicates(notes);
        }
    }
}

/// Returns "did you mean X", or the list of all allowed words if it is short.
pub(crate) fn suggest<'a>(word: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> String {
    /// A longer list of names is no help.
    const LISTED: usize = 24;
    if let Some(known) = nearest(word, known.clone()) {
        return format!("did you mean `{known}`?");
    }
    let names: Vec<&str> = known.into_iter().collect();
    match names.len() {
        0 => "none is known".to_owned(),
        1 => format!("known is {}", names[0]),
        n if n <= LISTED => format!("known are {}", names.join(", ")),
        n => format!(
            "known are {} and {} more",
            names[..LISTED].join(", "),
            n - LISTED
        ),
    }
}
