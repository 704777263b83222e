//! Parses `limits`, `user` and `group`: the resource limits and the rights of a task's processes.

use std::collections::BTreeMap;

use brasserie_common::{AccountName, Bound, Limited, ProcessLimit, TaskSubprocessOptions};
use serde_json::{Map, Value, json};

use crate::coerce::set;
use crate::keys::{Key, Shape};
use crate::read::{At, Notes, suggest};
use crate::tree::{Value as Node, quote};

pub(crate) const LIMITS_KEY: Key = Key::new(
    "limits",
    Shape::Named("LIMIT", names, &ONE),
    "Limits of the kernel on each process of a task, by the names of `prlimit`.",
);
pub(crate) const USER_KEY: Key = Key::new(
    "user",
    Shape::Name,
    "The user whose rights a task has, by name or number. The worker must allow the user.",
);
pub(crate) const GROUP_KEY: Key = Key::new(
    "group",
    Shape::Name,
    "The group of a task that has a `user`: a group of the user, or one that the worker allows.",
);

const ONE: Shape = Shape::Either(&[BOUND, Shape::Fields(BOTH)]);
const BOUND: Shape = Shape::Either(&[
    Shape::Integer(0, i64::MAX),
    Shape::Words(|| vec![Bound::UNLIMITED]),
]);
const BOTH: &[Key] = &[
    Key::required("soft", BOUND, "The limit that applies."),
    Key::required(
        "hard",
        BOUND,
        "The value up to which a process may raise `soft`.",
    ),
];

const HELP: &str =
    "a number, \"unlimited\", or both limits, as in {\"soft\": 1024, \"hard\": \"unlimited\"}";

fn names() -> Vec<&'static str> {
    Limited::ALL.map(Limited::as_str).to_vec()
}

/// Reads limits by name, on top of the inherited ones.
pub(crate) fn limits(at: &At, limits: &mut BTreeMap<Limited, ProcessLimit>, notes: &mut Notes) {
    if !at.expect_object(notes) {
        return;
    }
    for entry in at.entries() {
        match Limited::parse(entry.key()) {
            Some(limited) => {
                if let Some(limit) = limit(&entry, notes) {
                    let earlier = limits.insert(limited, limit);
                    if limited == Limited::Locks && earlier != Some(limit) {
                        let help = "Linux ignores this limit, and workers mark processes by it; remove the key";
                        notes.warning(entry.key_problem("has no effect").help(help));
                    }
                }
            }
            // An unknown limit is an error, unlike other unknown keys, because a task must not run without a requested limit.
            None => notes.error(
                entry
                    .key_problem("there is no such limit")
                    .value(quote(entry.key()))
                    .help(known(entry.key())),
            ),
        }
    }
}

fn known(word: &str) -> String {
    let nearest = suggest(word, Limited::ALL.map(Limited::as_str));
    match nearest.starts_with("did") {
        true => format!("{nearest} (known: {})", Limited::NAMES),
        false => format!("known are {}", Limited::NAMES),
    }
}

fn limit(at: &At, notes: &mut Notes) -> Option<ProcessLimit> {
    if at.as_object().is_none() {
        return bound(at, notes).map(ProcessLimit::both);
    }
    at.check_keys(BOTH, notes);
    let soft = at.required("soft", HELP, notes);
    let hard = at.required("hard", HELP, notes);
    let (soft, hard) = (soft?, hard?);
    let (low, high) = (bound(&soft, notes), bound(&hard, notes));
    let (low, high) = (low?, high?);
    let limit = ProcessLimit::new(low, high);
    if limit.is_none() {
        let text = format!("{low} is above the hard limit, {high}");
        notes.error(soft.problem(text).help("lower it, or raise `hard`"));
    }
    limit
}

fn bound(at: &At, notes: &mut Notes) -> Option<Bound> {
    if at.as_str() == Some(Bound::UNLIMITED) {
        return Some(Bound::Unlimited);
    }
    let is_amount = match &at.node.value {
        Node::Number(_) | Node::Bool(_) | Node::Unread => true,
        Node::String(text) => text
            .trim()
            .starts_with(|c: char| c.is_ascii_digit() || "+-".contains(c)),
        Node::Null | Node::Array(_) | Node::Object(_) => false,
    };
    if is_amount {
        let amount = at.integer(0..=i64::MAX, notes)?;
        return u64::try_from(amount).ok().map(Bound::At);
    }
    notes.error(at.expected("a limit").help(HELP));
    None
}

/// Reads the user and the group. A job's own `user` does not inherit a group.
pub(crate) fn account(at: &At, options: &mut TaskSubprocessOptions, notes: &mut Notes) {
    if let Some(at) = at.get("user") {
        let user = at.name(notes).and_then(account_name);
        if user.is_some() {
            options.group = None;
        }
        set(&mut options.user, user.map(Some));
    }
    let Some(at) = at.get("group") else {
        return;
    };
    if options.user.is_none() {
        let help = "name a `user` beside it; without one a task runs as its worker does";
        notes.error(at.key_problem("a group alone cannot be had").help(help));
        return;
    }
    let group = at.name(notes).and_then(account_name);
    set(&mut options.group, group.map(Some));
}

/// Returns a valid account name.
fn account_name(text: String) -> Option<AccountName> {
    AccountName::try_from(text).ok()
}

pub(crate) fn export(options: &TaskSubprocessOptions, out: &mut Map<String, Value>) {
    if !options.limits.is_empty() {
        let limits = options.limits.iter();
        let limits: Map<String, Value> = limits
            .map(|(limited, limit)| (limited.as_str().to_owned(), shown(*limit)))
            .collect();
        out.insert("limits".to_owned(), Value::Object(limits));
    }
    for (key, name) in [("user", &options.user), ("group", &options.group)] {
        if let Some(name) = name {
            out.insert(key.to_owned(), json!(name.as_str()));
        }
    }
}

/// Returns the limit as a config has it.
fn shown(limit: ProcessLimit) -> Value {
    let bound = |bound| match bound {
        Bound::At(amount) => json!(amount),
        Bound::Unlimited => json!(Bound::UNLIMITED),
    };
    match limit.soft() == limit.hard() {
        true => bound(limit.soft()),
        false => json!({"soft": bound(limit.soft()), "hard": bound(limit.hard())}),
    }
}
