//! Fetches the pages of outputs, and formats outputs and the sets of jobs.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, bail};
use brasserie_common::text::{counted, readable_bytes};
use brasserie_common::{Artifact, ArtifactId};
use brasserie_common_config::nearest;
use brasserie_thrift::convert::parse;
use brasserie_thrift::generated::brasserie::{ListedOutput, OutputHolder, OutputPage, OutputSet};
use serde_json::{Value, json};

use crate::connection::Connection;
use crate::failure::Failure;
use crate::output::{duration, printable};

/// The most workers in a row of the table.
const MAX_SHOWN_WORKERS: usize = 3;
/// The most paths that an error names.
const MAX_NAMED: usize = 20;

/// The outputs of a request, from all its pages.
#[derive(Default)]
pub(super) struct FoundOutputs {
    outputs: Vec<ListedOutput>,
    /// The set of each job with an output.
    sets: BTreeMap<String, OutputSet>,
    cluster: String,
    why_empty: Option<String>,
    has_more: bool,
}

/// Fetches at most `limit` outputs of all jobs, of one job, or of one task. Empty names mean all.
pub(super) async fn find(
    connection: &Connection,
    (job, node): (&str, &str),
    limit: usize,
) -> Result<FoundOutputs> {
    let mut found = FoundOutputs::default();
    let mut after = None;
    loop {
        let left = limit - found.outputs.len();
        let page = connection
            .output_page((job, node), after.clone(), left)
            .await?;
        let OutputPage {
            outputs,
            sets,
            next_page,
            cluster,
            why_empty,
        } = page;
        let is_empty = outputs.as_ref().is_none_or(Vec::is_empty);
        if next_page.is_some() && (is_empty || next_page == after) {
            bail!("the scheduler reports more outputs, but sent none");
        }
        found.outputs.extend(outputs.unwrap_or_default());
        let sets = sets.unwrap_or_default().into_iter();
        let sets = sets.map(|set| (set.job.clone().unwrap_or_default(), set));
        found.sets.extend(sets);
        found.cluster = cluster.unwrap_or_default();
        found.why_empty = found.why_empty.or(why_empty);
        found.has_more = next_page.is_some();
        if next_page.is_none() || found.outputs.len() >= limit {
            return Ok(found);
        }
        after = next_page;
    }
}

impl FoundOutputs {
    pub(super) fn outputs(&self) -> &[ListedOutput] {
        &self.outputs
    }

    pub(super) fn sets(&self) -> impl Iterator<Item = &OutputSet> {
        self.sets.values()
    }

    /// Returns the space of the artifacts at their workers.
    pub(super) fn cluster(&self) -> &str {
        &self.cluster
    }

    pub(super) fn why_empty(&self) -> Option<&str> {
        self.why_empty
            .as_deref()
            .filter(|_| self.outputs.is_empty())
    }

    pub(super) fn has_more(&self) -> bool {
        self.has_more
    }

    /// Returns the outputs with a path. The `/` at the end of a folder's path may be missing. Errors if there are none.
    pub(super) fn with_path(&self, path: &str) -> Result<Vec<&ListedOutput>> {
        let wanted = path.trim_end_matches('/');
        let own = |output: &ListedOutput| output.path.clone().unwrap_or_default();
        let is_it = |output: &&ListedOutput| own(output).trim_end_matches('/') == wanted;
        let selected: Vec<&ListedOutput> = self.outputs.iter().filter(is_it).collect();
        if selected.is_empty() {
            let mut paths: Vec<String> = self.outputs.iter().map(own).collect();
            paths.sort_unstable();
            paths.dedup();
            let rest = paths.len().saturating_sub(MAX_NAMED);
            let paths = paths.iter().take(MAX_NAMED);
            let paths: Vec<String> = paths.map(|path| format!("`{}`", printable(path))).collect();
            let more = match rest {
                0 => String::new(),
                rest => format!(" and {rest} others"),
            };
            let meant = nearest(
                path,
                self.outputs.iter().filter_map(|one| one.path.as_deref()),
            );
            let meant = meant.map(|meant| format!("; did you mean `{}`?", printable(meant)));
            let failure = Failure::new(format!(
                "there is no output `{}`{}",
                printable(path),
                meant.unwrap_or_default()
            ));
            let remedy = format!("The outputs are {}{more}", paths.join(", "));
            return Err(failure.remedy(remedy).into());
        }
        Ok(selected)
    }
}

/// Returns the artifact of an output. Errors if the scheduler's answer makes no sense.
pub(super) fn artifact_of(output: &ListedOutput) -> Result<Artifact> {
    let artifact = output.artifact.clone().unwrap_or_default();
    Ok(parse("getOutputPage.artifact", artifact)?)
}

pub(super) fn is_available(output: &ListedOutput) -> bool {
    output.state.as_deref() == Some("available")
}

/// Returns the row of the table of `list`.
pub(super) fn row(output: &ListedOutput) -> Vec<String> {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let artifact = output.artifact.clone().unwrap_or_default();
    vec![
        text(&output.job),
        text(&output.node),
        text(&output.path),
        text(&artifact.form),
        artifact.size.unwrap_or_default().to_string(),
        copies_text(output),
        text(&output.state).replace('_', " "),
        workers_text(&output.holders, output.copies),
    ]
}

/// Returns the number of copies, and how many there should be if that is more.
fn copies_text(output: &ListedOutput) -> String {
    let copies = output.copies.unwrap_or_default();
    match output.replicas {
        Some(wanted) if wanted > copies => format!("{copies} of {wanted}"),
        _ => copies.to_string(),
    }
}

/// Names some workers with a copy, as in `a, b, c and 7 others`.
pub(super) fn workers_text(holders: &Option<Vec<OutputHolder>>, copies: Option<i64>) -> String {
    let holders = holders.iter().flatten();
    let mut named: Vec<&OutputHolder> = holders.filter(|holder| holder.shard.is_some()).collect();
    named.sort_unstable_by_key(|holder| &holder.shard);
    let names = named.into_iter().take(MAX_SHOWN_WORKERS).map(name_of);
    let names: Vec<String> = names.collect();
    let copies = usize::try_from(copies.unwrap_or_default()).unwrap_or(0);
    match (names.len(), copies.saturating_sub(names.len())) {
        (0, _) => "-".to_owned(),
        (_, 0) => names.join(", "),
        (_, 1) => format!("{} and 1 other", names.join(", ")),
        (_, others) => format!("{} and {others} others", names.join(", ")),
    }
}

/// Returns the name of a worker with a copy, and its state unless it is healthy, as in `w2 (unhealthy)`.
fn name_of(holder: &OutputHolder) -> String {
    let shard = holder.shard.as_deref().unwrap_or_default();
    match &holder.state {
        None => shard.to_owned(),
        Some(state) => format!("{shard} ({state})"),
    }
}

/// Returns the rows of the table of `locate`: one for each worker, or one that says that there is none.
pub(super) fn places(output: &ListedOutput) -> Vec<Vec<String>> {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let row = |worker: String, host: String, address: String| {
        vec![
            text(&output.node),
            text(&output.path),
            worker,
            host,
            address,
        ]
    };
    let holders = output.holders.iter().flatten();
    let mut rows: Vec<Vec<String>> = holders
        .map(|holder| row(name_of(holder), text(&holder.hostname), address_of(holder)))
        .collect();
    rows.sort_unstable();
    if rows.is_empty() {
        let state = text(&output.state).replace('_', " ");
        rows.push(row(format!("- ({state})"), "-".to_owned(), "-".to_owned()));
    }
    rows
}

/// Returns the address of a holder as HOST:PORT.
pub(super) fn address_of(holder: &OutputHolder) -> String {
    let address = holder.address.clone().unwrap_or_default();
    let parsed = parse::<_, brasserie_common::ServiceAddress>("getOutputPage.address", address);
    parsed.map_or_else(|_| "-".to_owned(), |address| address.to_string())
}

pub(super) fn output_document(output: &ListedOutput) -> Value {
    let artifact = output.artifact.clone().unwrap_or_default();
    let id = artifact.id.and_then(|id| id.try_into().ok());
    let holders = output.holders.iter().flatten();
    let mut holders: Vec<&OutputHolder> = holders.collect();
    holders.sort_unstable_by_key(|holder| &holder.shard);
    let workers: Vec<Value> = holders.into_iter().map(holder_document).collect();
    json!({
        "job": output.job,
        "node": output.node,
        "path": output.path,
        "form": artifact.form,
        "bytes": artifact.size,
        "sha256": id.map(|id| ArtifactId(id).to_string()),
        "copies": output.copies,
        "replicas": output.replicas,
        "state": output.state,
        "workers": workers,
    })
}

pub(super) fn holder_document(holder: &OutputHolder) -> Value {
    json!({
        "worker": holder.shard,
        "hostname": holder.hostname,
        "address": address_of(holder),
        "worker_state": holder.state.as_deref().unwrap_or("healthy"),
    })
}

pub(super) fn set_document(set: &OutputSet) -> Value {
    json!({
        "job": set.job,
        "keep": set.keep,
        "keep_sec": set.keep_sec.map(f64::from),
        "consumers": set.consumers,
        "expires_in_ms": set.expires_in_ms,
        "kept_because": set.kept_because,
        "ends_because": set.ends_because,
        "tasks": set.tasks,
        "artifacts": set.artifacts,
        "bytes": set.bytes,
        "copies": set.copies,
        "without_copy": set.without_copy,
    })
}

/// Says how much the outputs of a job are and until when they are kept.
pub(super) fn set_text(set: &OutputSet) -> String {
    let count = |count: Option<i64>| u64::try_from(count.unwrap_or_default()).unwrap_or(0);
    let lost = match count(set.without_copy) {
        0 => String::new(),
        lost => format!(", {lost} without a known copy"),
    };
    let keep = match (set.keep.as_deref(), set.keep_sec) {
        (Some("for"), Some(seconds)) => {
            let time = Duration::try_from_secs_f64(seconds.into()).unwrap_or(Duration::MAX);
            format!("kept for {}", duration(time))
        }
        (Some("until_consumed"), _) => "kept until they are read".to_owned(),
        (Some("while_held"), _) => "kept while `brasserie artifact hold` runs".to_owned(),
        (Some("forever"), _) => "kept forever".to_owned(),
        (keep, _) => format!(
            "kept: {}",
            printable(keep.unwrap_or("it is not known how long"))
        ),
    };
    let until = match (set.expires_in_ms, &set.kept_because) {
        (Some(left), _) => {
            let left = Duration::from_millis(u64::try_from(left).unwrap_or(0));
            let why = set.ends_because.as_deref();
            let why = why.map(|why| format!(", because {}", printable(why)));
            format!(
                "; they expire in {}{}",
                duration(left),
                why.unwrap_or_default()
            )
        }
        (None, Some(why)) if set.keep.as_deref() != Some("forever") => {
            format!("; they do not expire now: {}", printable(why))
        }
        (None, _) => String::new(),
    };
    let consumers = set.consumers.clone().unwrap_or_default();
    let readers = match consumers.is_empty() {
        true => String::new(),
        false => format!("; inputs of {}", printable(&consumers.join(", "))),
    };
    format!(
        "Outputs of job `{}`: {} with {} of {}{lost}, {keep}{until}{readers}.",
        printable(set.job.as_deref().unwrap_or_default()),
        counted(count(set.artifacts), "artifact"),
        readable_bytes(count(set.bytes)),
        counted(count(set.tasks), "task"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(path: &str, workers: &[&str], copies: i64) -> ListedOutput {
        let holder = |shard: &&str| OutputHolder {
            shard: Some((*shard).to_owned()),
            hostname: Some("h".to_owned()),
            address: None,
            state: None,
        };
        ListedOutput {
            job: Some("extract".to_owned()),
            node: Some("n0".to_owned()),
            path: Some(path.to_owned()),
            copies: Some(copies),
            holders: Some(workers.iter().map(holder).collect()),
            state: Some(if copies > 0 { "available" } else { "given_up" }.to_owned()),
            ..ListedOutput::default()
        }
    }

    #[test]
    fn a_row_counts_missing_copies() {
        let row_of = |replicas| {
            let output = output("t", &["a"], 1);
            row(&ListedOutput { replicas, ..output })[5].clone()
        };
        assert_eq!(row_of(Some(2)), "1 of 2");
        assert_eq!(row_of(Some(1)), "1");
        assert_eq!(row_of(None), "1");
    }

    #[test]
    fn a_row_names_some_workers_and_counts_the_others() {
        let workers = |output: &ListedOutput| row(output)[7].clone();
        assert_eq!(workers(&output("t", &["b", "a"], 2)), "a, b");
        assert_eq!(workers(&output("t", &["a"], 2)), "a and 1 other");
        let mut away = output("t", &["a", "b"], 2);
        for holder in away.holders.iter_mut().flatten().take(1) {
            holder.state = Some("unhealthy".to_owned());
        }
        assert_eq!(workers(&away), "a (unhealthy), b");
        assert_eq!(places(&away)[0][2], "a (unhealthy)");
        let many = output("t", &["a", "b", "c", "d"], 9);
        assert_eq!(workers(&many), "a, b, c and 6 others");
        let none = output("t", &[], 0);
        assert_eq!(row(&none)[6..], ["given up", "-"]);
        assert_eq!(places(&none)[0][2], "- (given up)");
        assert_eq!(places(&many).len(), 4);
    }

    #[test]
    fn a_path_is_found_also_without_its_slash_and_an_error_names_the_others() {
        let found = FoundOutputs {
            outputs: vec![output("stats/", &[], 0), output("table", &[], 0)],
            ..FoundOutputs::default()
        };
        for path in ["stats", "stats/"] {
            let one = found.with_path(path).expect("it is there");
            assert_eq!(one[0].path.as_deref(), Some("stats/"));
        }
        let error = found.with_path("tabel").expect_err("there is none");
        let text = crate::failure::text_of(&error);
        assert!(text.contains("there is no output `tabel`"), "{text}");
        assert!(text.contains("`stats/`, `table`"), "{text}");
    }

    #[test]
    fn a_set_says_how_long_it_is_kept_and_why() {
        let mut set = OutputSet {
            job: Some("extract".to_owned()),
            keep: Some("for".to_owned()),
            keep_sec: Some(7200.0.into()),
            consumers: Some(vec!["join".to_owned(), "sum".to_owned()]),
            expires_in_ms: Some(60_000),
            tasks: Some(2),
            artifacts: Some(1),
            bytes: Some(1 << 20),
            without_copy: Some(0),
            ..OutputSet::default()
        };
        let text = set_text(&set);
        assert!(
            text.starts_with(
                "Outputs of job `extract`: 1 artifact with 1.0 MiB of 2 tasks, kept for "
            ),
            "{text}"
        );
        assert!(text.contains("; they expire in 1 min"), "{text}");
        assert!(text.ends_with("; inputs of join, sum."), "{text}");
        (set.keep, set.keep_sec) = (Some("until_consumed".to_owned()), None);
        (set.expires_in_ms, set.without_copy) = (None, Some(1));
        set.kept_because = Some("tasks of job `join` may still read them".to_owned());
        let text = set_text(&set);
        assert!(text.contains(", 1 without a known copy, kept until they are read; they do not expire now: tasks of"), "{text}");
        (set.keep, set.expires_in_ms) = (Some("forever".to_owned()), Some(60_000));
        set.ends_because = Some("the job is gone".to_owned());
        let text = set_text(&set);
        let gone = ", kept forever; they expire in 1 min 0 s, because the job is gone; inputs of";
        assert!(text.contains(gone), "{text}");
    }
}
