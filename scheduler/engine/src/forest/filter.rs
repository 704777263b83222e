//! Compiled filters of jobs, which say on which nodes of a level a job runs.

use std::collections::BTreeSet;

use brasserie_common::collections::SeededSet;
use brasserie_common_config::{Filter, JobConfig, LevelId};
use regex::{Regex, RegexBuilder};

/// The most memory of one compiled expression: generous for lists of host names, and far below what a hostile expression could ask for.
const MAX_REGEX_BYTES: usize = 4 << 20;

/// The reason why a filter cannot be used. The job then runs on no node of the level.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FilterError {
    #[error("job `{job}`, filter of level {level}: `{key}` is no regular expression: {message}")]
    Regex {
        job: String,
        level: usize,
        key: &'static str,
        message: String,
    },
}

/// One level's conditions; all must hold.
#[derive(Clone, Debug)]
pub(crate) struct CompiledFilter {
    whitelist: SeededSet<String>,
    whitelist_regex: Option<Regex>,
    blacklist: SeededSet<String>,
    blacklist_regex: Option<Regex>,
    /// Tags of which a node needs at least one; empty: all nodes pass.
    tags: SeededSet<String>,
    /// Fraction of nodes that pass; `None`: all nodes.
    fraction: Option<f64>,
    broken: bool,
}

impl CompiledFilter {
    fn new(filter: &Filter) -> Result<Self, (&'static str, String)> {
        let compile = |key, text: &str| {
            if text.is_empty() {
                return Ok(None);
            }
            RegexBuilder::new(text)
                .size_limit(MAX_REGEX_BYTES)
                .build()
                .map(Some)
                .map_err(|e| (key, e.to_string()))
        };
        let fraction = filter.fraction_of_nodes;
        Ok(CompiledFilter {
            whitelist: filter.whitelist.iter().cloned().collect(),
            whitelist_regex: compile("whitelist_regex", &filter.whitelist_regex)?,
            blacklist: filter.blacklist.iter().cloned().collect(),
            blacklist_regex: compile("blacklist_regex", &filter.blacklist_regex)?,
            tags: filter.tag_whitelist.iter().cloned().collect(),
            fraction: (fraction > 0.0 && fraction < 1.0).then_some(fraction),
            broken: false,
        })
    }

    fn broken() -> Self {
        CompiledFilter {
            whitelist: SeededSet::default(),
            whitelist_regex: None,
            blacklist: SeededSet::default(),
            blacklist_regex: None,
            tags: SeededSet::default(),
            fraction: None,
            broken: true,
        }
    }

    /// Returns whether the result depends on the job's name.
    pub(crate) fn is_per_job(&self) -> bool {
        self.fraction.is_some()
    }

    /// Returns whether a node of this name with these tags passes.
    pub(crate) fn passes(&self, job: &str, name: &str, tags: &BTreeSet<String>) -> bool {
        let has_tag = self.tags.is_empty() || tags.iter().any(|tag| self.tags.contains(tag));
        has_tag && self.passes_name(job, name)
    }

    /// Returns whether a worker's host passes. Hosts have no tags, so required tags do not apply.
    pub(crate) fn passes_name(&self, job: &str, name: &str) -> bool {
        !self.broken
            && (self.whitelist.is_empty() || self.whitelist.contains(name))
            && self
                .whitelist_regex
                .as_ref()
                .is_none_or(|r| r.is_match(name))
            && !self.blacklist.contains(name)
            && !self
                .blacklist_regex
                .as_ref()
                .is_some_and(|r| r.is_match(name))
            && self.fraction.is_none_or(|f| in_fraction(f, job, name))
    }
}

/// All filters of one job.
#[derive(Clone, Debug, Default)]
pub(crate) struct JobFilters {
    by_level: Vec<(LevelId, CompiledFilter)>,
}

impl JobFilters {
    pub(crate) fn new(job: &JobConfig) -> (Self, Vec<FilterError>) {
        let mut errors = Vec::new();
        let mut by_level = Vec::new();
        for (&level, filter) in &job.filters {
            let compiled = CompiledFilter::new(filter).unwrap_or_else(|(key, message)| {
                errors.push(FilterError::Regex {
                    job: job.name.to_string(),
                    level: level.index(),
                    key,
                    message,
                });
                CompiledFilter::broken()
            });
            by_level.push((level, compiled));
        }
        (JobFilters { by_level }, errors)
    }

    pub(crate) fn at(&self, level: LevelId) -> Option<&CompiledFilter> {
        self.by_level
            .iter()
            .find(|(l, _)| *l == level)
            .map(|(_, f)| f)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_level.is_empty()
    }
}

/// Returns whether a node is in a job's fraction of all nodes. Smaller fractions are subsets of larger ones. The hash must never change, or
/// a new version of this program would move running experiments to other nodes.
fn in_fraction(fraction: f64, job: &str, node: &str) -> bool {
    // The factor is 2^64. The product is below it, because the fraction is below 1.
    let bound = fraction * 18_446_744_073_709_551_616.0;
    (stable_hash(job, node) as f64) < bound
}

/// Hashes the node's name, a zero byte and the job's name with FNV-1a, then applies the finisher of SplitMix64, because FNV's high bits
/// hardly depend on the last bytes.
fn stable_hash(job: &str, node: &str) -> u64 {
    let bytes = node.bytes().chain([0]).chain(job.bytes());
    let fnv = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let mut z = fnv.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests;
