//! The reasons for which a change of a job is refused.

use brasserie_common::access::RunAs;
use brasserie_common::text::printable;
use brasserie_common::{JobName, NodeName, SchedulerId};
use brasserie_common_config::Problem;

use super::{MAX_HELD_JOBS, MAX_JOB_BYTES, MAX_NAMED_NODES, MAX_SAVED_BYTES, MAX_SAVED_JOBS};
use crate::owners::NotOwner;
use crate::record::JobVersion;
use crate::refusal::MAX_REPLY_WAIT;

/// The reason for which a job was not changed. Only after [`JobRefusal::NotDurableYet`] may it have changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JobRefusal {
    #[error("this scheduler has stepped down for the newer instance {newer}")]
    SteppedDown { newer: SchedulerId },
    #[error("the store cannot write, so no change would last: {0}")]
    StoreFails(String),
    /// The store did not confirm the change in time, so it may be made and last, or not. Every other refusal guarantees that nothing
    /// changed.
    #[error(
        "the store has not synced a record for {} s, so whether this change is made and lasts is not known; check it once \
         `brasserie status` shows no error of the store",
        MAX_REPLY_WAIT.as_secs()
    )]
    NotDurableYet,
    #[error(
        "no configuration has been loaded yet, and a job inherits its settings: try again once one is loaded"
    )]
    NoConfig,
    /// The sentence may suggest a similar job name.
    #[error("{}", with_list(.0))]
    Unknown(String),
    #[error("job `{0}` is in the config file: change it there")]
    InFile(JobName),
    #[error(
        "job `{job}` exists, with version {version}: to replace it, expect that version (`--expect-version {version}`, or `version_id` in its \
         text), or replace any version (`--replace`)"
    )]
    Exists { job: JobName, version: JobVersion },
    #[error(
        "job `{job}` has version {found}, not the expected {expected}: somebody changed it; check the change, then expect version {found}"
    )]
    Stale {
        job: JobName,
        expected: JobVersion,
        found: JobVersion,
    },
    #[error(
        "job `{job}` does not exist, so it has no version {expected}: somebody has deleted it; expect version 0 to submit it as a new job"
    )]
    Gone { job: JobName, expected: JobVersion },
    #[error("the job's text has {0} bytes; at most {MAX_JOB_BYTES} are allowed")]
    TooLong(usize),
    #[error(transparent)]
    NotOwner(#[from] NotOwner),
    #[error(
        "the tasks of `{}` may not run as `{wanted}`, because that is not granted to the token. Leave `user` and `group` out, or ask an \
         administrator for a token: `brasserie token create --role submitter --owner {} --run-as {wanted}`, and one more --run-as for each other account \
         that it shall have",
        printable(.owner), printable(.owner)
    )]
    NotGranted { wanted: RunAs, owner: String },
    /// The problems, each with its place in the text.
    #[error("the job cannot be used: {}", lines(.0))]
    Bad(Vec<Problem>),
    #[error("the job would wait for itself: {0}; remove one dependency of this cycle")]
    Circle(String),
    #[error("there are {MAX_SAVED_JOBS} submitted jobs, which is the maximum: delete some")]
    TooMany,
    #[error(
        "the texts of all submitted jobs would have more than {MAX_SAVED_BYTES} bytes, which is the maximum: delete some jobs"
    )]
    TooMuch,
    #[error("{MAX_HELD_JOBS} jobs are paused or cancelled, which is the maximum: resume some")]
    TooManyHeld,
    #[error(
        "{0} nodes are named, more than {MAX_NAMED_NODES}: name fewer at once, or none for all of the job"
    )]
    TooManyNodes(usize),
    #[error("there is no node `{0}`, and no task has run on one of that name: nothing was deleted")]
    UnknownNode(NodeName),
    /// The sentence says what has no outputs.
    #[error("nothing was forgotten: {0}")]
    NoOutputs(String),
    /// The sentence says which task needs the outputs.
    #[error("nothing was forgotten: {0}; `--force` forgets the outputs all the same")]
    OutputsNeeded(String),
    #[error(
        "the outputs of job `{0}` cannot be held: give the job `outputs`, and \"keep\": \"while_held\""
    )]
    NotHeld(JobName),
    #[error("too many jobs wait to be forgiven or forgotten: try again later")]
    TooManyForgiven,
}

fn with_list(sentence: &str) -> String {
    let end = if sentence.ends_with('?') { "" } else { ";" };
    format!("{sentence}{end} `brasserie job list` lists jobs")
}

fn lines(problems: &[Problem]) -> String {
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    lines.join("\n")
}
