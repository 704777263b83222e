//! Parses requests for pages of outputs, and renders the pages.

use std::fmt::Display;

use brasserie_common::{Health, JobName, NodeName, OutputPath, TaskKey};
use brasserie_common_config::KeepOutputs;
use brasserie_scheduler_core::{
    ListedOutput, ListedSet, OutputCursor, OutputHolder, OutputList, OutputPage,
};
use brasserie_thrift::generated::brasserie as wire;

/// Parses the request for a page. The error is a message about what is wrong with it.
pub(super) fn list(args: wire::BrasserieGetOutputPageArgs) -> Result<OutputList, String> {
    if args.job.is_empty() && !args.node.is_empty() {
        let why = "a node is given without a job; a task is a job on a node";
        return Err(why.to_owned());
    }
    let after = args.after.map(cursor).transpose()?;
    Ok(OutputList {
        job: Some(args.job).filter(|job| !job.is_empty()),
        node: Some(args.node).filter(|node| !node.is_empty()),
        after,
        limit: usize::try_from(args.limit)
            .ok()
            .filter(|limit| *limit > 0)
            .unwrap_or(usize::MAX),
    })
}

fn cursor(cursor: wire::OutputCursor) -> Result<OutputCursor, String> {
    let invalid =
        |what: &str, error: &dyn Display| format!("the {what} of `after` is invalid: {error}");
    let job = JobName::try_from(cursor.job.unwrap_or_default());
    let node = NodeName::try_from(cursor.node.unwrap_or_default());
    let path = OutputPath::try_from(cursor.path.unwrap_or_default());
    Ok(OutputCursor {
        task: TaskKey {
            job: job.map_err(|error| invalid("job", &error))?,
            node: node.map_err(|error| invalid("node", &error))?,
        },
        path: path.map_err(|error| invalid("path", &error))?,
    })
}

pub(super) fn page(page: OutputPage) -> wire::OutputPage {
    wire::OutputPage {
        outputs: Some(page.outputs.into_iter().map(output).collect()),
        sets: Some(page.sets.into_iter().map(set).collect()),
        next_page: page.next.map(|next| wire::OutputCursor {
            job: Some(next.task.job.as_str().to_owned()),
            node: Some(next.task.node.as_str().to_owned()),
            path: Some(next.path.as_str().to_owned()),
        }),
        cluster: Some(page.namespace.as_str().to_owned()),
        why_empty: page.why_empty,
    }
}

fn output(output: ListedOutput) -> wire::ListedOutput {
    wire::ListedOutput {
        job: Some(output.task.job.as_str().to_owned()),
        node: Some(output.task.node.as_str().to_owned()),
        path: Some(output.output.path.as_str().to_owned()),
        artifact: Some(output.output.artifact.into()),
        copies: count(output.copies),
        replicas: count(output.replicas.get()),
        holders: Some(output.holders.into_iter().map(holder).collect()),
        state: Some(output.state.as_str().to_owned()),
    }
}

pub(super) fn holder(holder: OutputHolder) -> wire::OutputHolder {
    wire::OutputHolder {
        shard: Some(holder.shard.as_str().to_owned()),
        hostname: Some(holder.hostname.to_string()),
        address: Some(holder.address.into()),
        state: (holder.health != Health::Healthy).then(|| holder.health.word().to_owned()),
    }
}

fn set(set: ListedSet) -> wire::OutputSet {
    let (keep, keep_sec) = match set.keep {
        KeepOutputs::UntilConsumed => ("until_consumed", None),
        KeepOutputs::For(time) => ("for", Some(time.as_secs_f64().into())),
        KeepOutputs::WhileHeld => ("while_held", None),
        KeepOutputs::Forever => ("forever", None),
    };
    let (expires_in_ms, kept_because) = match set.expiry {
        Ok(left) => (count(left.as_millis()), None),
        Err(why) => (None, Some(why)),
    };
    let consumers = set.consumers.iter();
    wire::OutputSet {
        job: Some(set.job.as_str().to_owned()),
        keep: Some(keep.to_owned()),
        keep_sec,
        consumers: Some(consumers.map(|job| job.as_str().to_owned()).collect()),
        expires_in_ms,
        kept_because,
        ends_because: set.ends_because.map(str::to_owned),
        tasks: count(set.tasks),
        artifacts: count(set.artifacts),
        bytes: count(set.bytes),
        copies: count(set.copies),
        without_copy: count(set.without_copy),
    }
}

/// Saturates, like the other counts of answers.
pub(super) fn count(count: impl TryInto<i64>) -> Option<i64> {
    Some(count.try_into().unwrap_or(i64::MAX))
}
