//! The status of a run: its bits, the texts that tasks and workers send, and the transition from an old status to a new one.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::backoff::{BackoffDuration, BackoffPolicy, FailedTries};
use crate::ids::Shard;
use crate::time::WallTime;

/// A JSON object that a task left for its next run.
pub type StatusData = Arc<Map<String, Value>>;

/// The key of a lost task's data that keeps the configured backoff.
const SAVED_BACKOFF_KEY: &str = "__bistro_saved_backoff";

/// The key of a lost task's data for the name of its worker.
const WORKER_KEY: &str = "worker_shard";

/// The key of a stored status's data for the number of consecutive errors with the same wait, if that number is not one.
const TIMES_KEY: &str = "__brasserie_backoff_times";

/// The longest status text that is parsed, and the longest that a worker reads from a task. It holds a page of data, and a million of them
/// fit into a scheduler's memory.
pub const MAX_STATUS_BYTES: usize = 64 * 1024;

/// Status bits as on the wire (`BistroTaskStatusBits`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct StatusBits(pub u16);

impl StatusBits {
    pub const EMPTY: StatusBits = StatusBits(0);
    pub const UNSTARTED: StatusBits = StatusBits(1);
    pub const RUNNING: StatusBits = StatusBits(2);
    pub const DONE: StatusBits = StatusBits(4);
    pub const INCOMPLETE: StatusBits = StatusBits(8);
    pub const FAILED: StatusBits = StatusBits(16);
    pub const ERROR: StatusBits = StatusBits(32);
    pub const USES_BACKOFF: StatusBits = StatusBits(64);
    pub const AVOIDED: StatusBits = StatusBits(128);
    pub const DISABLED: StatusBits = StatusBits(256);
    pub const DOES_NOT_ADVANCE_BACKOFF: StatusBits = StatusBits(512);
    pub const OVERWRITEABLE: StatusBits = StatusBits(1024);
    pub const HAS_SAVED_BACKOFF: StatusBits = StatusBits(2048);

    pub const fn with(self, other: StatusBits) -> StatusBits {
        StatusBits(self.0 | other.0)
    }

    pub const fn without(self, other: StatusBits) -> StatusBits {
        StatusBits(self.0 & !other.0)
    }

    /// Returns whether any bit of `other` is set.
    pub const fn has(self, other: StatusBits) -> bool {
        self.0 & other.0 != 0
    }
}

/// Exactly one of these is set in a final or running status.
const CURRENT: StatusBits = StatusBits::RUNNING
    .with(StatusBits::DONE)
    .with(StatusBits::INCOMPLETE)
    .with(StatusBits::FAILED)
    .with(StatusBits::ERROR);
const MODIFIERS: StatusBits = StatusBits::USES_BACKOFF
    .with(StatusBits::DOES_NOT_ADVANCE_BACKOFF)
    .with(StatusBits::OVERWRITEABLE);
const ERROR_BACKOFF: StatusBits = StatusBits::ERROR.with(StatusBits::USES_BACKOFF);
const INCOMPLETE_BACKOFF: StatusBits = StatusBits::INCOMPLETE
    .with(StatusBits::USES_BACKOFF)
    .with(StatusBits::DOES_NOT_ADVANCE_BACKOFF);

/// The source of a status text. A task may claim less than its worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusSource {
    /// A task. It has ended when its status is read, so RUNNING is refused, and OVERWRITEABLE belongs to the protocol.
    Task,
    /// A worker, which may also report "was not running".
    Worker,
}

/// A status from a task or a worker, or made by the scheduler. Its backoff is not computed yet.
#[derive(Clone, Debug, PartialEq)]
pub struct ReportedStatus {
    bits: StatusBits,
    data: Option<StatusData>,
}

impl ReportedStatus {
    fn of(bits: StatusBits) -> Self {
        ReportedStatus { bits, data: None }
    }

    fn with_exception(bits: StatusBits, text: &str) -> Self {
        ReportedStatus {
            bits,
            data: Some(Arc::new(object(json!({ "exception": text })))),
        }
    }

    pub fn done() -> Self {
        Self::of(StatusBits::DONE)
    }

    pub fn failed() -> Self {
        Self::of(StatusBits::FAILED)
    }

    /// Returns the status without error: the task soon runs again, and its next error starts at the first backoff step.
    pub fn incomplete() -> Self {
        Self::of(StatusBits::INCOMPLETE)
    }

    /// Returns the status of a killed run without a status of its own: the task waits, but no retry is consumed.
    pub fn incomplete_backoff(text: &str) -> Self {
        Self::with_exception(INCOMPLETE_BACKOFF, text)
    }

    /// Returns whether this is the status of a killed run without a status of its own.
    pub fn is_incomplete_backoff(&self) -> bool {
        self.bits == INCOMPLETE_BACKOFF
    }

    /// Returns this status without its wait, for a task that ended without its own fault. Its data stays.
    pub fn into_incomplete(self) -> Self {
        ReportedStatus {
            bits: StatusBits::INCOMPLETE,
            data: self.data,
        }
    }

    pub fn error_backoff(text: &str) -> Self {
        Self::with_exception(ERROR_BACKOFF, text)
    }

    pub fn is_error_backoff(&self) -> bool {
        self.bits.has(StatusBits::ERROR) && self.bits.has(StatusBits::USES_BACKOFF)
    }

    /// Returns this status with `why` before the text of its error. Everything else stays.
    pub fn with_reason(mut self, why: &str) -> Self {
        let text = match self.exception() {
            Some(text) => format!("{why}; {text}"),
            None => why.to_owned(),
        };
        let mut data = self.data.as_deref().cloned().unwrap_or_default();
        data.insert("exception".to_owned(), json!(text));
        self.data = Some(Arc::new(data));
        self
    }

    /// Returns a worker's answer to `notifyIfTasksNotRunning`.
    pub fn was_not_running() -> Self {
        Self::of(StatusBits::ERROR.with(StatusBits::OVERWRITEABLE))
    }

    /// Returns the status of a run that its worker has returned before it began. Like "was not running", it belongs to no run.
    pub fn taken_back() -> Self {
        Self::of(StatusBits::INCOMPLETE.with(StatusBits::OVERWRITEABLE))
    }

    /// Returns the status of a run whose worker was lost or replaced. `configured` is the step that counts for the next backoff, whatever
    /// the safety wait.
    pub fn worker_lost(shard: &Shard, text: &str, configured: BackoffDuration) -> Self {
        ReportedStatus {
            bits: ERROR_BACKOFF
                .with(StatusBits::HAS_SAVED_BACKOFF)
                .with(StatusBits::OVERWRITEABLE),
            data: Some(Arc::new(object(json!({
                WORKER_KEY: shard.as_str(),
                "exception": text,
                SAVED_BACKOFF_KEY: configured.seconds,
            })))),
        }
    }

    pub fn bits(&self) -> StatusBits {
        self.bits
    }

    pub fn data(&self) -> Option<&StatusData> {
        self.data.as_ref()
    }

    pub fn is_done(&self) -> bool {
        self.bits.has(StatusBits::DONE)
    }

    /// Returns whether the run's own completion may replace this status: "was not running" and "lost", which replace nothing themselves.
    pub fn is_overwriteable(&self) -> bool {
        self.bits.has(StatusBits::OVERWRITEABLE)
    }

    /// Returns whether this is "was not running" or "taken back": it belongs to no run, has no wait and no data.
    fn says_nothing_ran(&self) -> bool {
        self.is_overwriteable() && !self.bits.has(StatusBits::USES_BACKOFF) && self.data.is_none()
    }

    /// Returns the text of the error, if the status carries one.
    pub fn exception(&self) -> Option<&str> {
        self.data.as_ref()?.get("exception")?.as_str()
    }

    /// Parses a label or a JSON object. An unreadable text becomes an error with backoff that names the problem.
    pub fn parse(text: &str, source: StatusSource) -> Self {
        Self::try_parse(text, source).unwrap_or_else(|error| {
            let shown: String = text.chars().take(300).collect();
            Self::error_backoff(&format!("cannot read the status {shown:?}: {error}"))
        })
    }

    /// Parses like [`ReportedStatus::parse`]. Errors with the reason.
    pub fn try_parse(text: &str, source: StatusSource) -> Result<Self, StatusError> {
        if let Some(bits) = label_bits(text) {
            return Ok(Self::of(bits));
        }
        if text.len() > MAX_STATUS_BYTES {
            return Err(StatusError::TooLong(text.len()));
        }
        let value: Value = serde_json::from_str(text)
            .map_err(|e| StatusError::NeitherLabelNorJson(e.to_string()))?;
        let Value::Object(mut fields) = value else {
            return Err(StatusError::NotAnObject);
        };
        let data = match fields.remove("data") {
            None => None,
            Some(Value::Object(mut data)) => {
                data.remove(SAVED_BACKOFF_KEY);
                data.remove(TIMES_KEY);
                (!data.is_empty()).then(|| Arc::new(data))
            }
            Some(_) => return Err(StatusError::DataNotAnObject),
        };
        let bits = match (fields.get("result_bits"), fields.get("result")) {
            (Some(bits), _) => valid_bits(bits, source)?,
            (None, Some(Value::String(label))) => {
                label_bits(label).ok_or_else(|| StatusError::UnknownLabel(label.clone()))?
            }
            (None, Some(_)) => return Err(StatusError::ResultNotAString),
            (None, None) => return Err(StatusError::NoResult),
        };
        Ok(ReportedStatus { bits, data })
    }

    /// Returns the form that a worker sends to its scheduler.
    pub fn to_wire(&self) -> String {
        let mut fields = Map::new();
        fields.insert("result_bits".to_owned(), json!(self.bits.0));
        if let Some(data) = &self.data {
            fields.insert("data".to_owned(), Value::Object((**data).clone()));
        }
        Value::Object(fields).to_string()
    }
}

/// The reason why a text is no status.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StatusError {
    #[error("it is {0} bytes long, more than {MAX_STATUS_BYTES}")]
    TooLong(usize),
    #[error("neither done, incomplete, incomplete_backoff, error_backoff, failed nor JSON: {0}")]
    NeitherLabelNorJson(String),
    #[error("the JSON is not an object")]
    NotAnObject,
    #[error("`data` is not an object")]
    DataNotAnObject,
    #[error("`result` is not a string")]
    ResultNotAString,
    #[error(
        "`result` {0:?} is none of done, incomplete, incomplete_backoff, error_backoff, failed"
    )]
    UnknownLabel(String),
    #[error("neither `result` nor `result_bits` is present")]
    NoResult,
    #[error("`result_bits` {0} is no integer of 16 bits")]
    BitsNotAnInteger(String),
    #[error("`result_bits` {0} does not name exactly one of DONE, INCOMPLETE, FAILED, ERROR")]
    NotOneResult(u16),
    #[error("`result_bits` {0} has bits that may not be reported")]
    ForbiddenBits(u16),
}

fn label_bits(label: &str) -> Option<StatusBits> {
    match label {
        "done" => Some(StatusBits::DONE),
        "incomplete" => Some(StatusBits::INCOMPLETE),
        "incomplete_backoff" => Some(INCOMPLETE_BACKOFF),
        "backoff" | "error_backoff" => Some(ERROR_BACKOFF),
        "failed" => Some(StatusBits::FAILED),
        _ => None,
    }
}

fn valid_bits(value: &Value, source: StatusSource) -> Result<StatusBits, StatusError> {
    let number = match value {
        Value::String(text) => text.parse::<u16>().ok(),
        other => other.as_u64().and_then(|n| u16::try_from(n).ok()),
    };
    let raw = number.ok_or_else(|| StatusError::BitsNotAnInteger(value.to_string()))?;
    let bits = StatusBits(raw);
    let current = StatusBits(bits.0 & CURRENT.0);
    if current.0.count_ones() != 1 || current == StatusBits::RUNNING {
        return Err(StatusError::NotOneResult(raw));
    }
    let allowed = match source {
        StatusSource::Task => MODIFIERS.without(StatusBits::OVERWRITEABLE),
        StatusSource::Worker => MODIFIERS,
    };
    if bits.without(CURRENT).without(allowed) != StatusBits::EMPTY {
        return Err(StatusError::ForbiddenBits(raw));
    }
    Ok(bits)
}

/// The last status of a task as the scheduler stores it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredStatus {
    pub bits: StatusBits,
    /// The time of its acceptance.
    pub time: WallTime,
    /// The effective wait, in seconds; at least `safety_seconds`.
    pub backoff_seconds: u32,
    /// The part of the wait that separates a lost run from its successor. It runs in full again after a restart.
    #[serde(default)]
    pub safety_seconds: u32,
    #[serde(default)]
    pub data: Option<StatusData>,
}

impl StoredStatus {
    /// Returns whether the run was killed without the task's own fault.
    pub fn is_incomplete_backoff(&self) -> bool {
        self.bits == INCOMPLETE_BACKOFF
    }

    pub fn is_done(&self) -> bool {
        self.bits.has(StatusBits::DONE)
    }

    pub fn is_failed(&self) -> bool {
        self.bits.has(StatusBits::FAILED)
    }

    /// Returns whether only the completion of the same invocation may replace this status.
    pub fn is_overwriteable(&self) -> bool {
        self.bits.has(StatusBits::OVERWRITEABLE)
    }

    pub fn uses_backoff(&self) -> bool {
        self.bits.has(StatusBits::USES_BACKOFF)
    }

    /// Returns the text of the error, if the status carries one.
    pub fn exception(&self) -> Option<&str> {
        self.data.as_ref()?.get("exception")?.as_str()
    }

    /// Returns the worker that was lost with the run.
    pub fn lost_on(&self) -> Option<&str> {
        self.data.as_ref()?.get(WORKER_KEY)?.as_str()
    }

    fn saved_backoff(&self) -> Option<u32> {
        if !self.bits.has(StatusBits::HAS_SAVED_BACKOFF) {
            return None;
        }
        let saved = self.data.as_ref()?.get(SAVED_BACKOFF_KEY)?.as_u64()?;
        u32::try_from(saved).ok()
    }

    /// Returns whether the last run was returned by its worker before it began.
    pub fn was_taken_back(&self) -> bool {
        self.is_overwriteable() && self.bits.has(StatusBits::INCOMPLETE) && !self.uses_backoff()
    }

    /// Returns whether no run of the task has ended, because the only one was taken back.
    pub fn is_of_no_run(&self) -> bool {
        self.was_taken_back() && self.data.is_none()
    }

    /// Returns the step from which the next run's backoff is computed.
    pub fn configured_backoff(&self) -> BackoffDuration {
        if self.is_failed() {
            return BackoffDuration {
                no_more_backoffs: true,
                seconds: 0,
                times: 0,
            };
        }
        let seconds = self.saved_backoff().unwrap_or(self.backoff_seconds);
        let counted = self
            .data
            .as_ref()
            .and_then(|data| data.get(TIMES_KEY)?.as_u64());
        let counted = counted.and_then(|times| u32::try_from(times).ok());
        BackoffDuration {
            no_more_backoffs: false,
            seconds,
            times: counted.unwrap_or_else(|| u32::from(seconds != 0)),
        }
    }

    /// Returns the number of failed tries under this policy. `None` if none has failed, or if the task itself reported FAILED, which ends
    /// the count.
    pub fn failed_tries(&self, policy: &BackoffPolicy) -> Option<FailedTries> {
        let most = policy.max_tries();
        let count = match (self.is_done(), self.is_failed(), self.uses_backoff()) {
            (true, _, _) | (false, true, false) => None,
            (false, true, true) => most,
            (false, false, _) => Some(policy.tries(self.configured_backoff())),
        };
        let count = count.filter(|count| *count > 0)?;
        Some(FailedTries { count, most })
    }

    /// Returns the status that follows `old` when a run with this precomputed backoff ends as `reported`.
    pub fn after(
        old: Option<&StoredStatus>,
        reported: &ReportedStatus,
        next_backoff: BackoffDuration,
        time: WallTime,
    ) -> StoredStatus {
        let mut bits = reported.bits;
        let mut data = reported.data.clone();
        let mut backoff_seconds = 0;
        let mut times = 1;
        if let Some(old) = old.filter(|_| reported.says_nothing_ran()) {
            (bits, data) = old.carried_by(bits);
        }
        if bits.has(StatusBits::USES_BACKOFF) {
            if bits.has(StatusBits::DOES_NOT_ADVANCE_BACKOFF) {
                let previous = old.map(|o| BackoffDuration {
                    seconds: o.saved_backoff().unwrap_or(o.backoff_seconds),
                    ..o.configured_backoff()
                });
                let previous = previous.filter(|previous| previous.seconds != 0);
                // There is no previous wait, so no error has used the first one yet.
                (backoff_seconds, times) = match previous {
                    Some(previous) => (previous.seconds, previous.times),
                    None => (next_backoff.seconds, 0),
                };
            } else {
                (backoff_seconds, times) = (next_backoff.seconds, next_backoff.times);
                if next_backoff.no_more_backoffs {
                    bits = bits
                        .without(StatusBits::ERROR)
                        .without(StatusBits::INCOMPLETE)
                        .with(StatusBits::FAILED);
                }
            }
        }
        if times != 1 && !bits.has(StatusBits::FAILED) {
            let mut fields = data.as_deref().cloned().unwrap_or_default();
            fields.insert(TIMES_KEY.to_owned(), json!(times));
            data = Some(Arc::new(fields));
        }
        StoredStatus {
            bits,
            time,
            backoff_seconds,
            safety_seconds: 0,
            data,
        }
    }

    /// Returns this status with a wait of at least `safety_seconds`, because a run of the task may be alive for as long. The backoff step
    /// stays.
    pub fn waiting_at_least(mut self, safety_seconds: u32) -> StoredStatus {
        if safety_seconds <= self.safety_seconds {
            return self;
        }
        let is_saved = self.is_done() || self.bits.has(StatusBits::HAS_SAVED_BACKOFF);
        if safety_seconds > self.backoff_seconds && !is_saved {
            let mut data = self.data.as_deref().cloned().unwrap_or_default();
            data.insert(SAVED_BACKOFF_KEY.to_owned(), json!(self.backoff_seconds));
            self.data = Some(Arc::new(data));
            self.bits = self.bits.with(StatusBits::HAS_SAVED_BACKOFF);
        }
        self.safety_seconds = safety_seconds;
        self.backoff_seconds = self.backoff_seconds.max(safety_seconds);
        self
    }

    /// Returns this status with at most `safety_seconds` of its safety wait. The configured wait stays.
    pub fn with_safety_of(&self, safety_seconds: u32) -> StoredStatus {
        StoredStatus {
            backoff_seconds: self.saved_backoff().unwrap_or(self.backoff_seconds),
            safety_seconds: 0,
            ..self.clone()
        }
        .waiting_at_least(safety_seconds)
    }

    /// Returns this status without the costs of failures: only DONE is final, and the next error takes the first backoff step. The safety
    /// wait of a lost run stays. `None` if there is nothing to forgive.
    pub fn forgiven(&self) -> Option<StoredStatus> {
        if self.is_done() {
            return None;
        }
        let mut bits = self.bits;
        if self.is_failed() {
            bits = bits.without(StatusBits::FAILED).with(StatusBits::ERROR);
        }
        let mut data = self.data.clone();
        let counts = |data: &StatusData| data.contains_key(TIMES_KEY);
        if bits.has(StatusBits::HAS_SAVED_BACKOFF) || data.as_ref().is_some_and(counts) {
            let mut fields = data.as_deref().cloned().unwrap_or_default();
            fields.remove(TIMES_KEY);
            if bits.has(StatusBits::HAS_SAVED_BACKOFF) {
                fields.insert(SAVED_BACKOFF_KEY.to_owned(), json!(0));
            }
            data = (!fields.is_empty()).then(|| Arc::new(fields));
        }
        let forgiven = StoredStatus {
            bits,
            time: self.time,
            backoff_seconds: 0,
            safety_seconds: 0,
            data,
        }
        .waiting_at_least(self.safety_seconds);
        (forgiven != *self).then_some(forgiven)
    }

    /// Returns this status with a text of its error. The next status drops the text again.
    pub fn explained(mut self, why: &str) -> Self {
        let mut data = self.data.as_deref().cloned().unwrap_or_default();
        data.insert("exception".to_owned(), json!(why));
        self.data = Some(Arc::new(data));
        self
    }

    /// Returns bits and data of a provisional status that keeps this one's step and data: nothing ran, so the next run equals the one
    /// before.
    fn carried_by(&self, bits: StatusBits) -> (StatusBits, Option<StatusData>) {
        let mut data = self.data.as_deref().cloned().unwrap_or_default();
        data.remove(SAVED_BACKOFF_KEY);
        // The text belongs to another run.
        data.remove("exception");
        let configured = self.configured_backoff().seconds;
        if configured == 0 {
            data.remove(TIMES_KEY);
            return (bits, (!data.is_empty()).then(|| Arc::new(data)));
        }
        data.insert(SAVED_BACKOFF_KEY.to_owned(), json!(configured));
        (
            bits.with(StatusBits::HAS_SAVED_BACKOFF),
            Some(Arc::new(data)),
        )
    }

    /// Returns the JSON that the next run receives as `prev_status` and that people see.
    pub fn to_json(&self) -> Value {
        let mut fields = Map::new();
        fields.insert("result_bits".to_owned(), json!(self.bits.0));
        if let Some(data) = &self.data {
            fields.insert("data".to_owned(), Value::Object((**data).clone()));
        }
        fields.insert("time".to_owned(), json!(self.time.as_secs()));
        if self.uses_backoff() && self.backoff_seconds != 0 {
            fields.insert("backoff_duration".to_owned(), json!(self.backoff_seconds));
        }
        Value::Object(fields)
    }

    /// Returns one word for people.
    pub fn label(&self) -> &'static str {
        if self.is_done() {
            "done"
        } else if self.is_failed() {
            "failed"
        } else if self.bits.has(StatusBits::INCOMPLETE) {
            "incomplete"
        } else {
            "error"
        }
    }
}

impl fmt::Display for StoredStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())?;
        match self.exception() {
            Some(text) => write!(f, ": {text}"),
            None => Ok(()),
        }
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests;
