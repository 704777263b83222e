//! Reads the jobs that a job waits for, also for its inputs, and keeps the place of each name, for the checks across all jobs in `depends`.

use std::fmt;

use brasserie_common::JobName;

use crate::artifacts::{InputNodes, InputSource, JobInput};
use crate::inputs::{FROM, INPUTS, NeededOutputs};
use crate::keys::{Key, Shape};
use crate::model::JobConfig;
use crate::read::{At, Notes};
use crate::tree::Place;

pub(crate) const DEPENDS_ON_KEY: Key = Key::new(
    DEPENDS_ON,
    Shape::List(&Shape::Name),
    "The jobs that must be done on the same node before.",
);
pub(crate) const AFTER_ALL_KEY: Key = Key::new(
    AFTER_ALL,
    Shape::List(&Shape::Name),
    "The jobs that must be done on all of their nodes before.",
);
pub(crate) const DEPENDS_ON: &str = "depends_on";
pub(crate) const AFTER_ALL: &str = "run_only_after_all_nodes_are_done_for";

/// The place at which a job names another one for which it waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mention {
    pub place: Place,
    pub key: MentionKey,
}

/// The key that names the other job, with the position in the list of the file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MentionKey {
    /// An item of [`DEPENDS_ON`] or [`AFTER_ALL`].
    Listed(&'static str, usize),
    /// The job of an input, for which no other key says that the job waits.
    Input(usize),
}

/// Writes the key path below the job, as in `depends_on[2]`.
impl fmt::Display for MentionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MentionKey::Listed(list, position) => write!(f, "{list}[{position}]"),
            MentionKey::Input(position) => write!(f, "{INPUTS}[{position}].{FROM}"),
        }
    }
}

/// The places of the jobs for which a job waits.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mentions {
    /// The place of each name in [`JobConfig::depends_on`].
    pub depends_on: Vec<Mention>,
    /// The place of each name in [`JobConfig::run_only_after_all_nodes_are_done_for`].
    pub after_all: Vec<Mention>,
}

/// Reads the jobs for which the job waits, and adds those whose outputs it needs.
pub(crate) fn waits(
    at: &At,
    job: &mut JobConfig,
    needed: &[NeededOutputs],
    notes: &mut Notes,
) -> Mentions {
    let mut mentions = Mentions::default();
    let after_all = &mut job.run_only_after_all_nodes_are_done_for;
    for (key, names, mentions) in [
        (DEPENDS_ON, &mut job.depends_on, &mut mentions.depends_on),
        (AFTER_ALL, after_all, &mut mentions.after_all),
    ] {
        if let Some(at) = at.get(key) {
            *mentions = job_names(&at, key, names, notes);
        }
    }
    for outputs in needed {
        wait_for(outputs, job, &mut mentions);
    }
    mentions
}

/// Returns the names that a job lists itself in one of its two keys. The rest of `names` are those that reading its inputs adds, so they are
/// left out in an export.
pub(crate) fn listed<'a>(
    names: &'a [JobName],
    inputs: &[JobInput],
    is_of_key: impl Fn(InputNodes) -> bool,
) -> &'a [JobName] {
    let mut added: Vec<&JobName> = Vec::new();
    for input in inputs {
        if let InputSource::Job { job, nodes, .. } = &input.source
            && is_of_key(*nodes)
            && !added.contains(&job)
        {
            added.push(job);
        }
    }
    let reads_back = |count: &usize| {
        let (own, rest) = names.split_at(*count);
        let missing = added.iter().filter(|job| !own.contains(job));
        rest.iter().eq(missing.copied())
    };
    let least = names.len().saturating_sub(added.len());
    let count = (least..names.len()).find(reads_back);
    &names[..count.unwrap_or(names.len())]
}

/// Returns whether a job waits for the job of an input in [`DEPENDS_ON`]. Otherwise it waits in [`AFTER_ALL`].
pub(crate) fn is_of_same_node(nodes: InputNodes) -> bool {
    match nodes {
        InputNodes::Same => true,
        InputNodes::Parent | InputNodes::Children | InputNodes::All => false,
    }
}

/// Adds the job whose outputs are needed, unless it is there. A task that needs outputs of other nodes waits until the other job is done on
/// all nodes, because no list of a job has the jobs that must be done on the parent or the children of a node.
fn wait_for(outputs: &NeededOutputs, job: &mut JobConfig, mentions: &mut Mentions) {
    let (names, mentions) = match is_of_same_node(outputs.nodes) {
        true => (&mut job.depends_on, &mut mentions.depends_on),
        false => (
            &mut job.run_only_after_all_nodes_are_done_for,
            &mut mentions.after_all,
        ),
    };
    if !names.contains(&outputs.job) {
        names.push(outputs.job.clone());
        mentions.push(Mention {
            place: outputs.from_place,
            key: MentionKey::Input(outputs.position),
        });
    }
}

/// Reads job names. Returns the place of each.
fn job_names(
    at: &At,
    list: &'static str,
    names: &mut Vec<JobName>,
    notes: &mut Notes,
) -> Vec<Mention> {
    let mut mentions = Vec::new();
    if !at.expect_array("job names", notes) {
        return mentions;
    }
    for (position, item) in at.items().enumerate() {
        if let Some(name) = item.name(notes)
            && let Ok(name) = JobName::try_from(name)
        {
            names.push(name);
            mentions.push(Mention {
                place: item.place(),
                key: MentionKey::Listed(list, position),
            });
        }
    }
    mentions
}
