//! A readable history, with one line per happening and short names for instances; and a hash that compares two histories.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::hash::{BuildHasher, Hasher};

use brasserie_common::Time;
use brasserie_common::collections::SeededState;

use crate::event_log::Happening;

/// Writes lines and names each instance by its kind and order of appearance: `scheduler1`, `worker4`, `run17`.
#[derive(Debug, Default)]
pub struct Trace {
    names: BTreeMap<String, String>,
    counts: BTreeMap<&'static str, u32>,
}

/// The beginnings of ids in `Debug` output, and their short names.
const KINDS: [(&str, &str); 3] = [
    ("SchedulerId(InstanceId { ", "scheduler"),
    ("WorkerId(InstanceId { ", "worker"),
    ("InvocationId(InstanceId { ", "run"),
];
const END: &str = " })";

impl Trace {
    pub fn line(&mut self, when: Time, happening: &Happening) -> String {
        let text = self.short(&format!("{happening:?}"));
        let millis = when.as_nanos() / 1_000_000;
        let (secs, millis) = (millis / 1000, millis % 1000);
        format!("{:>7}.{millis:03}  {text}", secs)
    }

    /// Returns the text with short names in place of instances printed by `Debug`.
    pub fn short(&mut self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((at, prefix, kind)) = next_id(rest) {
            let Some(length) = rest[at..].find(END) else {
                break;
            };
            let id = &rest[at + prefix.len()..at + length];
            out.push_str(&rest[..at]);
            out.push_str(self.name(kind, id));
            rest = &rest[at + length + END.len()..];
        }
        out.push_str(rest);
        out
    }

    fn name(&mut self, kind: &'static str, id: &str) -> &str {
        let counts = &mut self.counts;
        self.names.entry(format!("{kind} {id}")).or_insert_with(|| {
            let count = counts.entry(kind).or_insert(0);
            *count += 1;
            let mut name = String::new();
            // Writing to a String cannot fail.
            let _ = write!(name, "{kind}{count}");
            name
        })
    }
}

fn next_id(text: &str) -> Option<(usize, &'static str, &'static str)> {
    KINDS
        .iter()
        .filter_map(|(prefix, kind)| Some((text.find(prefix)?, *prefix, *kind)))
        .min()
}

/// The hash of a history.
#[derive(Debug)]
pub struct HistoryHash(<SeededState as BuildHasher>::Hasher);

impl Default for HistoryHash {
    fn default() -> Self {
        HistoryHash(SeededState::default().build_hasher())
    }
}

impl HistoryHash {
    pub fn add(&mut self, when: Time, happening: &Happening) {
        self.0.write_u64(when.as_nanos());
        self.0.write(format!("{happening:?}").as_bytes());
    }

    pub fn value(&self) -> u64 {
        self.0.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event_log::{WorkerPlace, WorkerStop};
    use brasserie_common::WorkerId;

    #[test]
    fn instances_get_short_names() {
        let mut trace = Trace::default();
        let stop = |rand| Happening::WorkerStopped {
            place: WorkerPlace(3),
            worker: WorkerId::new(5, rand),
            how: WorkerStop::Killed,
        };
        let lines: Vec<String> = [1, 2, 1]
            .map(|rand| trace.line(Time::from_nanos(1_500_000_000), &stop(rand)))
            .into();
        assert_eq!(
            lines[0],
            "      1.500  WorkerStopped { place: WorkerPlace(3), worker: worker1, how: Killed }"
        );
        assert!(lines[1].contains("worker2") && lines[2] == lines[0]);
    }
}
