//! The outputs that a proposed configuration would let expire at once: their job is gone, or its `keep` is over already.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use brasserie_common::text::{counted, readable_bytes};
use brasserie_common::time::format_duration;
use brasserie_common::{JobName, Time, WallTime};
use brasserie_common_config::{Config, KeepOutputs};
use brasserie_scheduler_artifacts::SetOwner;

use super::{MAX_NAMED_JOBS, WhatIf};
use crate::artifacts::{consumers, retention_of};
use crate::scheduler::View;

/// Outputs that expire within this time as things are need no note: their grace is as long.
const SOON: Duration = Duration::from_secs(60);

/// The outputs of one job that are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptSet {
    /// The time at which they were last written or read.
    touched: WallTime,
    /// The time of their expiry without the proposed configuration, if there is one.
    expires: Option<Time>,
    /// Whether `keep` is `"while_held"`.
    is_held: bool,
    /// The different artifacts, and their bytes.
    artifacts: u64,
    bytes: u64,
}

impl View<'_> {
    /// Returns the sets with artifacts.
    pub(super) fn kept_sets(&self) -> BTreeMap<JobName, KeptSet> {
        let sets = self.artifacts.registry().sets(None);
        let kept = sets.filter(|set| set.ending.is_none() && set.totals.amount.artifacts > 0);
        let kept = kept.map(|set| {
            let kept = KeptSet {
                touched: set.touched,
                expires: set.expires,
                is_held: matches!(set.terms.owner, SetOwner::Session(_)),
                artifacts: set.totals.amount.artifacts,
                bytes: set.totals.amount.bytes,
            };
            (set.job.clone(), kept)
        });
        kept.collect()
    }
}

impl WhatIf {
    /// Returns notes about the outputs that the configuration in force, which is the proposed one, lets expire at once.
    pub(super) fn expiring_outputs(&self, kept: &BTreeMap<JobName, KeptSet>) -> Vec<String> {
        let Some(config) = self.copy.engine().config().filter(|_| !kept.is_empty()) else {
            return Vec::new();
        };
        let readers = consumers(config, |job| kept.contains_key(job));
        let soon = self.now + SOON;
        let stay = kept
            .iter()
            .filter(|(_, set)| set.expires.is_none_or(|due| due > soon));
        let notes = stay.filter_map(|(job, set)| {
            let why = self.why_expired(config, (job, set), readers.get(job))?;
            let (artifacts, bytes) = (
                counted(set.artifacts, "artifact"),
                readable_bytes(set.bytes),
            );
            Some(format!(
                "the outputs of `{job}` ({artifacts}, {bytes}) would be deleted within minutes: {why}"
            ))
        });
        let mut notes: Vec<String> = notes.collect();
        let others = notes.len().saturating_sub(MAX_NAMED_JOBS);
        notes.truncate(MAX_NAMED_JOBS);
        if others > 0 {
            let jobs = counted(others as u64, "further job");
            notes.push(format!("the outputs of {jobs} would be deleted, too"));
        }
        notes
    }

    /// Returns why outputs expire with the configuration; `None` if they are kept for now.
    fn why_expired(
        &self,
        config: &Config,
        (job, set): (&JobName, &KeptSet),
        readers: Option<&BTreeSet<JobName>>,
    ) -> Option<String> {
        let Some(of) = config.job(job.as_str()) else {
            return Some("the job would not be configured any more".to_owned());
        };
        if of.outputs.is_empty() {
            return Some("the job would have no `outputs` any more".to_owned());
        }
        // A copy without tasks knows no unfinished ones.
        let are_tasks_known = self.not_counted.is_none();
        let is_idle = || {
            let view = self.copy.view();
            let mut jobs = readers.into_iter().flatten().chain([job]);
            are_tasks_known
                && jobs.all(|job| view.count_unfinished(job, retention_of(of.keep)) == 0)
        };
        match of.keep {
            KeepOutputs::Forever => None,
            KeepOutputs::WhileHeld => (!set.is_held).then(|| {
                "`keep` would be \"while_held\", and no `brasserie artifact hold` runs for the job; one that begins within 5 minutes \
                 keeps them"
                    .to_owned()
            }),
            KeepOutputs::UntilConsumed => (readers.is_some() && is_idle()).then(|| {
                "`keep` would be \"until_consumed\", and all tasks that read them are done".to_owned()
            }),
            KeepOutputs::For(time) => {
                let is_over = set.touched + time <= self.copy.wall() && is_idle();
                is_over.then(|| {
                    let time = format_duration(time);
                    format!(
                        "`keep` would be \"{time}\", and no task has written or read them for longer"
                    )
                })
            }
        }
    }
}
