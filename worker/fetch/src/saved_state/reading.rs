//! Reads a saved state part by part. A part that cannot be understood is left out with a warning that names its place.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use brasserie_common::ids::MAX_NAME_BYTES;
use brasserie_common::{ServiceAddress, WallTime};
use serde_json::{Map, Value};

use super::super::amounts::amount;
use super::super::contact_state::SavedContact;
use super::super::estimates::MOST_JOBS;
use super::super::pair_backoff::SavedPair;
use super::super::rec::SavedRec;
use super::super::rpc_policy::{SavedRpc, SavedWait};
use super::{
    MOST_OF_ONE, MOST_SCHEDULERS, SavedJob, SavedScheduler, SavedState, VERSION, read_cause,
    read_wish,
};

/// Maximum bytes of a text. A worker never writes more.
const MOST_BYTES: usize = 64 << 20;
/// Maximum number of warnings. More would tell the operator nothing new.
const MOST_WARNINGS: usize = 100;

/// A warning about a part of a saved state that is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedWarning {
    /// The path of the part.
    pub place: String,
    pub what: String,
}

impl fmt::Display for SavedWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.place {
            "" => write!(f, "the saved state {}", self.what),
            place => write!(f, "`{place}` of the saved state {}", self.what),
        }
    }
}

impl SavedState {
    /// Reads a state as far as it can be understood, and returns warnings for the rest.
    pub fn read(text: &str) -> (SavedState, Vec<SavedWarning>) {
        let mut warnings = Vec::new();
        let state = read(text, &mut warnings).unwrap_or_else(SavedState::nothing);
        (state, warnings)
    }

    /// Returns an empty state, in which nothing waits.
    fn nothing() -> Self {
        SavedState {
            at: WallTime::default(),
            schedulers: BTreeMap::new(),
            jobs: Vec::new(),
        }
    }
}

type Warnings = Vec<SavedWarning>;

fn warn(warnings: &mut Warnings, place: &str, what: impl Into<String>) {
    let (place, what) = match warnings.len() {
        MOST_WARNINGS.. => return,
        last if last + 1 == MOST_WARNINGS => {
            (String::new(), "has more that is left out".to_owned())
        }
        _ => (place.to_owned(), what.into()),
    };
    warnings.push(SavedWarning { place, what });
}

fn read(text: &str, warnings: &mut Warnings) -> Option<SavedState> {
    if text.len() > MOST_BYTES {
        let what = format!("has more than {MOST_BYTES} bytes, and none of it is read");
        warn(warnings, "", what);
        return None;
    }
    let whole: Value = match serde_json::from_str(text) {
        Ok(whole) => whole,
        Err(error) => {
            warn(
                warnings,
                "",
                format!("is no JSON: {error}; none of it is read"),
            );
            return None;
        }
    };
    let mut whole = Part::new(String::new(), &whole, warnings)?;
    let version = whole.take("version");
    if version.and_then(Value::as_u64) != Some(VERSION) {
        let is = version.map_or_else(|| "none".to_owned(), short);
        let what = format!("is {is}, and {VERSION} is what this worker reads; none of it is read");
        whole.warn("version", what);
        return None;
    }
    let at = whole.at();
    let schedulers = whole.take("schedulers");
    let jobs = whole.list("jobs", MOST_JOBS);
    whole.end();
    Some(SavedState {
        at,
        schedulers: schedulers.map_or_else(BTreeMap::new, |all| read_schedulers(all, warnings)),
        jobs: each(jobs, "jobs", warnings, read_job),
    })
}

fn read_schedulers(all: &Value, warnings: &mut Warnings) -> BTreeMap<String, SavedScheduler> {
    let mut schedulers = BTreeMap::new();
    let Value::Object(all) = all else {
        warn(warnings, "schedulers", "is no object, and left out");
        return schedulers;
    };
    for (address, saved) in all {
        let place = format!("schedulers.{}", cut(address));
        if address.len() > MAX_NAME_BYTES {
            warn(warnings, &place, "has too long a name, and is left out");
        } else if schedulers.len() == MOST_SCHEDULERS {
            let what = format!("is beyond {MOST_SCHEDULERS} schedulers, and left out");
            warn(warnings, &place, what);
        } else if let Some(part) = Part::new(place, saved, warnings) {
            schedulers.insert(address.clone(), read_scheduler(part));
        }
    }
    schedulers
}

fn read_scheduler(mut part: Part<'_, '_>) -> SavedScheduler {
    let rpc = SavedRpc {
        wait: part.inner("wait", read_wait),
        next_contact: part.millis("next_contact_ms"),
        failures: part.count("failures"),
        list_failures: part.count("list_failures"),
        list: part.millis("list_ms"),
        wish: part.word("wish", read_wish),
    };
    let pairs = part.each("pairs", read_pair);
    let members = part.each("members", read_member);
    let rec = SavedRec {
        average: part.amount("rec").unwrap_or(0.0),
        age: part.amount("rec_age_secs").unwrap_or(0.0),
    };
    let correction = part.amount("correction").filter(|is| *is > 0.0);
    part.end();
    SavedScheduler {
        contact: SavedContact {
            rpc,
            pairs,
            members,
        },
        rec,
        correction: correction.unwrap_or(1.0),
    }
}

fn read_wait(mut part: Part<'_, '_>) -> Option<SavedWait> {
    let left = part.millis("left_ms");
    let count = part.count("count");
    let cause = part.word("cause", |word| read_cause(word, count));
    part.needed(left.zip(cause))
        .map(|(left, cause)| SavedWait { left, cause })
}

fn read_pair(mut part: Part<'_, '_>) -> Option<SavedPair> {
    let processors = part.name("processors");
    let interval = part.amount("interval_secs").unwrap_or(0.0);
    let left = part.millis("left_ms");
    let no_apps = part.flag("no_apps");
    part.needed(processors).map(|processors| SavedPair {
        processors,
        interval,
        left,
        no_apps,
    })
}

fn read_member(mut part: Part<'_, '_>) -> Option<ServiceAddress> {
    let host = part.name("host");
    let port = part.whole("port", u64::from(u16::MAX));
    let port = port.and_then(|port| u16::try_from(port).ok());
    let member = part.needed(host.zip(port));
    member.map(|(host, port)| ServiceAddress {
        host: host.into(),
        port,
    })
}

fn read_job(mut part: Part<'_, '_>) -> Option<SavedJob> {
    let scheduler = part.name("scheduler");
    let name = part.name("name");
    let said = part.amount("said_secs").filter(|said| *said > 0.0);
    let seconds = part.amount("secs").filter(|seconds| *seconds > 0.0);
    let job = part.needed(scheduler.zip(name).zip(seconds));
    job.map(|((scheduler, name), seconds)| SavedJob {
        scheduler,
        name,
        said,
        seconds,
    })
}

/// An object whose parts are taken by name. Parts that nobody takes are unknown.
struct Part<'v, 'w> {
    place: String,
    of: &'v Map<String, Value>,
    taken: Vec<&'static str>,
    warnings: &'w mut Warnings,
}

impl<'v, 'w> Part<'v, 'w> {
    fn new(place: String, of: &'v Value, warnings: &'w mut Warnings) -> Option<Self> {
        let Value::Object(of) = of else {
            warn(warnings, &place, "is no object, and left out");
            return None;
        };
        Some(Part {
            place,
            of,
            taken: Vec::new(),
            warnings,
        })
    }

    fn take(&mut self, name: &'static str) -> Option<&'v Value> {
        self.taken.push(name);
        self.of.get(name)
    }

    fn place_of(&self, name: &str) -> String {
        match &*self.place {
            "" => cut(name).to_owned(),
            place => format!("{place}.{}", cut(name)),
        }
    }

    fn warn(&mut self, name: &str, what: impl Into<String>) {
        let place = self.place_of(name);
        warn(self.warnings, &place, what);
    }

    /// Reads a part with `read`, and warns if that fails. A missing part is no error.
    fn read<T>(
        &mut self,
        name: &'static str,
        wanted: &str,
        read: impl FnOnce(&'v Value) -> Option<T>,
    ) -> Option<T> {
        let there = self.take(name)?;
        let read = read(there);
        if read.is_none() {
            let what = format!("is {}, and not {wanted}; it is left out", short(there));
            self.warn(name, what);
        }
        read
    }

    fn amount(&mut self, name: &'static str) -> Option<f64> {
        let is_amount = |number: &f64| *number >= 0.0;
        self.read(name, "a number of 0 or more", |there| {
            there.as_f64().filter(is_amount).map(amount)
        })
    }

    fn whole(&mut self, name: &'static str, most: u64) -> Option<u64> {
        let wanted = format!("a whole number up to {most}");
        self.read(name, &wanted, |there| {
            there.as_u64().filter(|number| *number <= most)
        })
    }

    fn millis(&mut self, name: &'static str) -> Option<Duration> {
        self.whole(name, u64::MAX).map(Duration::from_millis)
    }

    fn count(&mut self, name: &'static str) -> u32 {
        let count = self.whole(name, u64::from(u32::MAX));
        count.map_or(0, |count| u32::try_from(count).unwrap_or(u32::MAX))
    }

    fn flag(&mut self, name: &'static str) -> bool {
        self.read(name, "true or false", Value::as_bool)
            .unwrap_or(false)
    }

    fn name(&mut self, name: &'static str) -> Option<String> {
        let wanted = format!("a text of at most {MAX_NAME_BYTES} bytes");
        self.read(name, &wanted, |there| {
            let text = there.as_str().filter(|text| text.len() <= MAX_NAME_BYTES);
            text.map(str::to_owned)
        })
    }

    fn word<T>(&mut self, name: &'static str, known: impl FnOnce(&str) -> Option<T>) -> Option<T> {
        self.read(name, "a word that is known", |there| {
            there.as_str().and_then(known)
        })
    }

    /// Reads the state's time. A state without a time is of unknown age, as if the clock had gone back since.
    fn at(&mut self) -> WallTime {
        let at = self.read("at_ms", "an instant in milliseconds", Value::as_i64);
        if at.is_none() && !self.of.contains_key("at_ms") {
            self.warn(
                "at_ms",
                "is missing: nothing that was waited for is waited for any more",
            );
        }
        at.map_or(WallTime::from_millis(i64::MAX), WallTime::from_millis)
    }

    fn inner<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(Part<'_, '_>) -> Option<T>,
    ) -> Option<T> {
        let there = self.take(name)?;
        let place = self.place_of(name);
        read(Part::new(place, there, self.warnings)?)
    }

    fn list(&mut self, name: &'static str, most: usize) -> &'v [Value] {
        let there = self.read(name, "a list", Value::as_array);
        let there = there.map_or(&[][..], Vec::as_slice);
        if there.len() > most {
            let what = format!(
                "has {} entries, of which the last {most} count",
                there.len()
            );
            self.warn(name, what);
        }
        &there[there.len().saturating_sub(most)..]
    }

    fn each<T>(
        &mut self,
        name: &'static str,
        read: impl FnMut(Part<'_, '_>) -> Option<T>,
    ) -> Vec<T> {
        let there = self.list(name, MOST_OF_ONE);
        let place = self.place_of(name);
        each(there, &place, self.warnings, read)
    }

    /// Ends the object. It is left out as a whole if `needed` is `None`.
    fn needed<T>(self, needed: Option<T>) -> Option<T> {
        if needed.is_none() {
            warn(
                self.warnings,
                &self.place,
                "lacks what it needs, and is left out",
            );
        }
        self.end();
        needed
    }

    fn end(self) {
        for (name, _) in self.of {
            if !self.taken.iter().any(|taken| taken == name) {
                let place = self.place_of(name);
                warn(self.warnings, &place, "is unknown, and left out");
            }
        }
    }
}

fn each<T>(
    all: &[Value],
    place: &str,
    warnings: &mut Warnings,
    mut read: impl FnMut(Part<'_, '_>) -> Option<T>,
) -> Vec<T> {
    let mut of_each = Vec::new();
    for (index, one) in all.iter().enumerate() {
        let part = Part::new(format!("{place}[{index}]"), one, warnings);
        of_each.extend(part.and_then(&mut read));
    }
    of_each
}

/// Describes an invalid value in a warning.
fn short(value: &Value) -> String {
    match value {
        Value::Object(_) => "an object".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::String(text) => format!("`{}`", cut(text)),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

fn cut(text: &str) -> &str {
    brasserie_common::story::cut(text, 64)
}
