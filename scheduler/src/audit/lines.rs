//! One line of the audit log.

use std::collections::BTreeSet;
use std::sync::Arc;

use brasserie_common::access::{CallOrigin, TokenNumber};
use brasserie_common::text::printable;
use brasserie_common::{Principal, WallTime};
use brasserie_common_runtime::Clock;
use serde::Serialize;
use serde_json::{Map, Value, json};
use sha2::Digest as _;

/// The most bytes of a reason, of a name, and of each other text. Longer ones are cut: the line has the length and the digest of the whole.
const MAX_TEXT_BYTES: usize = 1000;
/// The most bytes of a line with its end. Beyond that, values before and after a change have their length and digest alone.
pub(super) const MAX_LINE_BYTES: usize = 128 << 10;
/// The bytes that a line takes in memory without its texts.
const LINE_BYTES: usize = 1024;
/// The most changed keys that a line names.
const MAX_KEYS: usize = 30;
/// The longest text that is parsed to find changed keys.
const MAX_PARSED_BYTES: usize = 1 << 20;
/// The bytes of a digest that are written: enough to tell texts apart.
const DIGEST_BYTES: usize = 16;

/// The outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Outcome {
    Ok,
    Refused,
    /// It may have had an effect or not.
    Failed,
}

/// A definition before and after its change.
#[derive(Clone, Debug)]
struct Texts {
    before: Option<Arc<str>>,
    after: Option<Arc<str>>,
}

/// A line, which the thread numbers when it writes it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Line {
    /// RFC 3339, UTC, with milliseconds.
    time: String,
    /// The caller, for people.
    who: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    /// The caller's token, or the one that it has shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shard: Option<String>,
    /// The user of this machine that has called over the local socket.
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    /// The other end of the caller's connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    /// The call, or an event of the scheduler.
    what: String,
    /// The kind of what it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    object: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<Value>,
    outcome: Outcome,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    /// Refusals of the same kind before this one that have no line.
    #[serde(skip_serializing_if = "Option::is_none")]
    suppressed: Option<u64>,
    #[serde(skip)]
    texts: Option<Texts>,
    /// The caller's shard, token or user, as far as they are proven; empty for callers without any.
    #[serde(skip)]
    caller: String,
}

impl Line {
    pub(super) fn new(from: &Principal, what: &str) -> Self {
        let (identity, shard, token) = match from {
            Principal::Authenticated(identity) => {
                (Some(identity), identity.shard.as_ref(), identity.token)
            }
            Principal::Stranger(stranger) => (None, stranger.shard.as_ref(), stranger.token),
            Principal::Unauthenticated(_) | Principal::Own => (None, None, None),
        };
        let (who, address) = match from {
            Principal::Unauthenticated(at) => {
                let at = CallOrigin::from(*at);
                (format!("unauthenticated at {at}"), Some(at))
            }
            Principal::Stranger(stranger) => {
                let at = stranger.from.clone();
                let who = match &stranger.shard {
                    Some(shard) => format!("refused worker `{shard}` at {at}"),
                    None => format!("stranger at {at}"),
                };
                (who, Some(at))
            }
            Principal::Authenticated(identity) => {
                (identity.to_string(), Some(identity.from.clone()))
            }
            Principal::Own => ("this scheduler".to_owned(), None),
        };
        let owner = identity.and_then(|identity| identity.owner.as_deref());
        let token = token.map(|token| token.to_string());
        let shard = shard.map(ToString::to_string);
        let user = match &address {
            Some(CallOrigin::Local(user)) => Some(match &user.name {
                Some(name) => name.to_string(),
                None => user.uid.to_string(),
            }),
            Some(CallOrigin::Network(_)) | None => None,
        };
        let caller = shard.as_ref().or(token.as_ref()).or(user.as_ref());
        Line {
            time: shown(Clock.wall()),
            who: bounded(&who),
            role: identity.map(|identity| identity.role.name()),
            owner: owner.map(str::to_owned),
            caller: caller.cloned().unwrap_or_default(),
            token,
            shard,
            user,
            from: address.map(|address| address.to_string()),
            what: bounded(what),
            object: None,
            name: None,
            node: None,
            before: None,
            after: None,
            outcome: Outcome::Ok,
            why: None,
            suppressed: None,
            texts: None,
        }
    }

    pub(super) fn on(mut self, object: &'static str, name: &str) -> Self {
        (self.object, self.name) = (Some(object), Some(bounded(name)));
        self
    }

    /// Names the node of a task.
    pub(super) fn node(mut self, node: &str) -> Self {
        self.node = Some(bounded(node));
        self
    }

    pub(super) fn changed(mut self, before: Option<Value>, after: Option<Value>) -> Self {
        (self.before, self.after) = (before.map(cut), after.map(cut));
        self
    }

    /// Adds a definition before and after its change. Only digests, and names of keys, are written.
    pub(super) fn texts(mut self, before: Option<Arc<str>>, after: Option<Arc<str>>) -> Self {
        self.texts = Some(Texts { before, after });
        self
    }

    /// Counts refusals before this one, or lines, that have no line.
    pub(super) fn suppressed(mut self, count: u64) -> Self {
        self.suppressed = (count > 0).then_some(count);
        self
    }

    /// Names the token that the caller has shown. It may not be valid, so the caller is none other for the bounds by that.
    pub(super) fn shown_token(mut self, token: Option<TokenNumber>) -> Self {
        self.token = self.token.or(token.map(|token| token.to_string()));
        self
    }

    /// Returns the caller's shard, token or user; an empty text for callers without any.
    pub(super) fn caller(&self) -> &str {
        &self.caller
    }

    /// Returns the name of what the line is about.
    pub(super) fn name(&self) -> Option<&str> {
        self.name.as_deref().filter(|name| !name.is_empty())
    }

    pub(super) fn end(mut self, outcome: Outcome, why: Option<&str>) -> Self {
        self.time = shown(Clock.wall());
        self.outcome = outcome;
        self.why = why.map(bounded);
        self
    }

    /// Replaces definitions by their digests and the names of changed keys. This takes some 10 ms for those of 1 MiB.
    pub(super) fn describe(&mut self) {
        if let Some(texts) = self.texts.take() {
            texts.describe(&mut self.before, &mut self.after);
        }
    }

    /// Returns about the number of bytes that the line takes in memory.
    pub(super) fn bytes(&self) -> usize {
        let texts = [
            Some(&self.who),
            Some(&self.what),
            self.name.as_ref(),
            self.node.as_ref(),
            self.why.as_ref(),
        ];
        let texts = texts.into_iter().flatten().map(String::len);
        let values = [&self.before, &self.after].into_iter().flatten();
        let definitions = self.texts.iter().flat_map(|texts| {
            let both = [&texts.before, &texts.after].into_iter().flatten();
            both.map(|text| text.len())
        });
        let all = texts.chain(values.map(bytes_of)).chain(definitions);
        LINE_BYTES + all.sum::<usize>()
    }

    /// Returns the line with its number, and its end: [`MAX_LINE_BYTES`] at most.
    pub(super) fn text(&self, number: u64) -> String {
        #[derive(Serialize)]
        struct Numbered<'a> {
            number: u64,
            #[serde(flatten)]
            line: &'a Line,
        }
        // Invariant: maps with texts as keys are JSON.
        let numbered = |line: &Line| {
            let text = serde_json::to_string(&Numbered { number, line });
            format!("{}\n", text.unwrap_or_default())
        };
        let mut line = self.clone();
        line.describe();
        let text = numbered(&line);
        if text.len() <= MAX_LINE_BYTES {
            return text;
        }
        line.before = line.before.map(digested);
        line.after = line.after.map(digested);
        numbered(&line)
    }
}

/// Formats a time so that texts have the order of times.
pub(super) fn shown(at: WallTime) -> String {
    let time = jiff::Timestamp::from_millisecond(at.as_millis());
    let time = time.unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

/// Escapes a text, and cuts it if it is long.
fn bounded(text: &str) -> String {
    let begin = prefix(text);
    let escaped = printable(begin);
    let shown = prefix(&escaped);
    match begin.len() == text.len() && shown.len() == escaped.len() {
        true => escaped,
        false => format!("{shown}... ({} bytes, digest {})", text.len(), digest(text)),
    }
}

/// Returns the first characters of a text, of [`MAX_TEXT_BYTES`] at most.
fn prefix(text: &str) -> &str {
    let ends = text.char_indices().map(|(at, c)| at + c.len_utf8());
    let end = ends.take_while(|end| *end <= MAX_TEXT_BYTES).last();
    &text[..end.unwrap_or(0)]
}

/// Cuts a value and the texts in it, if they are long.
fn cut(value: Value) -> Value {
    let value = cut_texts(value);
    match bytes_of(&value) <= MAX_LINE_BYTES {
        true => value,
        false => digested(value),
    }
}

fn digested(value: Value) -> Value {
    let text = value.to_string();
    json!({ "bytes": text.len(), "digest": digest(&text) })
}

fn cut_texts(value: Value) -> Value {
    match value {
        Value::String(text) if text.len() > MAX_TEXT_BYTES => bounded(&text).into(),
        Value::Array(items) => items.into_iter().map(cut_texts).collect(),
        Value::Object(fields) => {
            let fields = fields.into_iter();
            fields.map(|(key, value)| (key, cut_texts(value))).collect()
        }
        other => other,
    }
}

/// Returns about the number of bytes that a value takes in memory.
fn bytes_of(value: &Value) -> usize {
    size_of::<Value>()
        + match value {
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(bytes_of).sum(),
            Value::Object(fields) => {
                let fields = fields.iter();
                fields.map(|(key, value)| key.len() + bytes_of(value)).sum()
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        }
}

impl Texts {
    /// Adds the digests of the texts, the keys that differ, and the priorities if they do. Values of other keys may be secret.
    fn describe(&self, before: &mut Option<Value>, after: &mut Option<Value>) {
        let [old, new] = [&self.before, &self.after].map(|text| text.as_deref().map(keys));
        let names: BTreeSet<&String> = old
            .iter()
            .chain(&new)
            .flatten()
            .flatten()
            .map(|(name, _)| name)
            .collect();
        let of = |side: &Option<Option<Map<String, Value>>>, name: &str| {
            side.as_ref()?.as_ref()?.get(name).cloned()
        };
        let differs = |name: &&&String| of(&old, name) != of(&new, name);
        let changed: Vec<String> = names
            .iter()
            .filter(differs)
            .map(|name| bounded(name))
            .collect();
        let is_replaced = old.is_some() && new.is_some();
        for (text, side, into) in [(&self.before, &old, before), (&self.after, &new, after)] {
            let Some(text) = text else {
                continue;
            };
            let mut shown = json!({ "digest": digest(text) });
            if is_replaced && changed.iter().any(|name| name == "priority") {
                shown["priority"] = of(side, "priority")
                    .filter(Value::is_number)
                    .unwrap_or_default();
            }
            let known = into.take().unwrap_or(Value::Null);
            if let Value::Object(known) = known {
                known
                    .into_iter()
                    .for_each(|(key, value)| shown[key] = value);
            }
            *into = Some(shown);
        }
        if let (true, Some(after)) = (is_replaced && !changed.is_empty(), after) {
            after["changed"] = changed.into_iter().take(MAX_KEYS).collect();
        }
    }
}

/// Returns the keys of a definition in JSON; `None` if it is none, or too long.
fn keys(text: &str) -> Option<Map<String, Value>> {
    let is_short = text.len() <= MAX_PARSED_BYTES;
    let parsed = is_short.then(|| serde_json::from_str(text).ok())?;
    match parsed? {
        Value::Object(keys) => Some(keys),
        _ => None,
    }
}

fn digest(text: &str) -> String {
    let hash = sha2::Sha256::digest(text.as_bytes());
    let digits = hash[..DIGEST_BYTES].iter();
    digits.map(|byte| format!("{byte:02x}")).collect()
}
