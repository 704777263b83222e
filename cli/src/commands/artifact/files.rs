//! Fetches the list of files that jobs may name as inputs, and formats them.

use anyhow::{Result, bail};
use brasserie_common::{Artifact, ArtifactId};
use brasserie_thrift::convert::parse;
use brasserie_thrift::generated::brasserie::ListedFile;
use serde_json::{Value, json};

use super::outputs::{holder_document, workers_text};
use crate::connection::Connection;
use crate::failure::Failure;
use crate::output::printable;

/// The most jobs in a row of the table.
const MAX_SHOWN_JOBS: usize = 3;
/// The digits of a SHA-256 in the table.
const SHOWN_DIGITS: usize = 12;

/// The files of a request, from all its pages.
#[derive(Default)]
pub(super) struct FoundFiles {
    files: Vec<ListedFile>,
    cluster: String,
}

/// Fetches the file of this name, or all if it is empty.
pub(super) async fn find_files(connection: &Connection, name: &str) -> Result<FoundFiles> {
    let mut found = FoundFiles::default();
    let mut after = String::new();
    loop {
        let page = connection.file_page(name, &after).await?;
        let files = page.files.unwrap_or_default();
        let last = files.last().and_then(|file| file.name.clone());
        found.files.extend(files);
        found.cluster = page.cluster.unwrap_or_default();
        if page.has_more != Some(true) {
            return Ok(found);
        }
        match last.filter(|last| *last > after) {
            Some(last) => after = last,
            None => bail!("the scheduler reports more files, but sent none"),
        }
    }
}

impl FoundFiles {
    pub(super) fn files(&self) -> &[ListedFile] {
        &self.files
    }

    /// Returns the space of the artifacts.
    pub(super) fn cluster(&self) -> &str {
        &self.cluster
    }

    /// Returns whether one of the files is in the config file's folder.
    pub(super) fn has_configured(&self) -> bool {
        let is_configured = |file: &ListedFile| file.origin.as_deref() == Some("config");
        self.files
            .iter()
            .any(|file| is_configured(file) && file.artifact.is_some())
    }

    /// Returns the file with this name: the one in the config file's folder before an uploaded one. Errors if tasks can have none.
    pub(super) fn named(&self, name: &str) -> Result<&ListedFile> {
        if let Some(file) = self.files.iter().find(|file| file.artifact.is_some()) {
            return Ok(file);
        }
        let shown = printable(name);
        let problem = self.files.iter().find_map(|file| file.problem.as_deref());
        let message = match problem {
            Some(problem) => format!("the file `{shown}` is not there: {}", printable(problem)),
            None => format!("there is no file `{shown}`, and no job has it as an input"),
        };
        Err(Failure::new(message)
            .remedy("`brasserie artifact list` shows the files")
            .into())
    }
}

/// Returns the artifact of a file. Errors if the scheduler's answer makes no sense.
pub(super) fn artifact_of(file: &ListedFile) -> Result<Artifact> {
    let artifact = file.artifact.clone().unwrap_or_default();
    Ok(parse("getFilePage.artifact", artifact)?)
}

fn sha256_of(file: &ListedFile) -> Option<String> {
    let id = file.artifact.as_ref()?.id.clone()?.try_into().ok()?;
    Some(ArtifactId(id).to_string())
}

/// Returns the row of the table of `list`.
pub(super) fn row(file: &ListedFile) -> Vec<String> {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let size = file.artifact.as_ref().and_then(|artifact| artifact.size);
    let sha256 = sha256_of(file);
    let state = match file.artifact {
        Some(_) => "available",
        None => "missing",
    };
    vec![
        text(&file.name),
        match file.artifact {
            Some(_) => text(&file.origin),
            None => "-".to_owned(),
        },
        size.map_or_else(|| "-".to_owned(), |size| size.to_string()),
        sha256.map_or_else(
            || "-".to_owned(),
            |id| id.chars().take(SHOWN_DIGITS).collect(),
        ),
        state.to_owned(),
        jobs_text(file),
        workers_text(&file.holders, file.copies),
    ]
}

/// Names some jobs that have the file as an input, as in `a, b and 7 others`.
fn jobs_text(file: &ListedFile) -> String {
    let jobs = file.jobs.iter().flatten();
    let names: Vec<&str> = jobs.map(String::as_str).take(MAX_SHOWN_JOBS).collect();
    let total = usize::try_from(file.jobs_total.unwrap_or_default()).unwrap_or(0);
    match (names.len(), total.saturating_sub(names.len())) {
        (0, _) => "-".to_owned(),
        (_, 0) => names.join(", "),
        (_, 1) => format!("{} and 1 other", names.join(", ")),
        (_, others) => format!("{} and {others} others", names.join(", ")),
    }
}

pub(super) fn document(file: &ListedFile) -> Value {
    let workers: Vec<Value> = file.holders.iter().flatten().map(holder_document).collect();
    // A file of which the scheduler has no copy is nowhere, and has no bytes.
    let (origin, form, bytes) = match &file.artifact {
        Some(artifact) => (file.origin.as_ref(), artifact.form.as_ref(), artifact.size),
        None => (None, None, None),
    };
    json!({
        "name": file.name, "origin": origin, "form": form, "bytes": bytes, "sha256": sha256_of(file),
        "problem": file.problem, "jobs": file.jobs, "jobs_total": file.jobs_total, "copies": file.copies, "workers": workers,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_file_has_no_values() {
        let file = ListedFile {
            name: Some("x".to_owned()),
            origin: Some("config".to_owned()),
            problem: Some("it is not there".to_owned()),
            ..ListedFile::default()
        };
        let document = document(&file);
        for key in ["origin", "form", "bytes", "sha256"] {
            assert_eq!(document[key], Value::Null, "{key}");
        }
        assert_eq!(row(&file)[1..5], ["-", "-", "-", "missing"]);
    }
}
