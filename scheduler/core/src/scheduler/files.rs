//! Accepts the files that jobs name as inputs, and lists them with the jobs that have them and the workers with copies.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use brasserie_common::{Artifact, ArtifactId, ArtifactNamespace, JobName, Time};
use brasserie_common_config::InputSource;

use super::event::FileList;
use super::view::outputs::OutputHolder;
use super::{Scheduler, View};
use crate::files::{JobOrigin, KnownFiles, known_name};

/// The most files of one page: a page takes a few milliseconds of a turn.
pub const MAX_LISTED_FILES: usize = 1000;
/// The most jobs that are listed with a file.
const MAX_JOBS: usize = 20;
/// The most workers that are listed with a file.
const MAX_HOLDERS: usize = 8;

/// One page of files, in the order of their names.
#[derive(Clone, Debug, PartialEq)]
pub struct FilePage {
    pub namespace: ArtifactNamespace,
    pub files: Vec<ListedFile>,
    /// Whether others follow.
    pub has_more: bool,
}

/// One file of a page. A name may have two: the one of the config file's folder, and the uploaded one.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedFile {
    pub name: Arc<str>,
    pub origin: FileOrigin,
    /// The content, or why tasks cannot have it.
    pub content: Result<Artifact, String>,
    /// Some of the jobs that have it as an input, and how many there are.
    pub jobs: Vec<JobName>,
    pub jobs_total: usize,
    /// The known copies of workers, each on another disk.
    pub copies: usize,
    /// Some of the workers with a copy.
    pub holders: Vec<OutputHolder>,
}

/// The place of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileOrigin {
    /// The folder of the configuration.
    ConfigFolder,
    Uploaded,
}

impl FileOrigin {
    pub fn as_str(self) -> &'static str {
        match self {
            FileOrigin::ConfigFolder => "config",
            FileOrigin::Uploaded => "uploaded",
        }
    }
}

impl Scheduler {
    /// Handles [`Event::FilesKnown`](super::event::Event::FilesKnown). Running tasks keep the files with which they have started.
    pub(super) fn files_known(&mut self, now: Time, files: Arc<KnownFiles>) {
        self.artifacts.set_files(now, files);
        self.pin_more_inputs(now);
    }
}

impl View<'_> {
    pub(super) fn read_artifacts(&self, ids: &[ArtifactId]) -> BTreeSet<ArtifactId> {
        self.artifacts.read_by_runs(ids)
    }

    /// Returns one page of files.
    pub(super) fn list_files(&self, list: &FileList) -> FilePage {
        let mut all = self.files_of_jobs();
        let uploaded = self.artifacts.files().uploaded.keys();
        for name in uploaded {
            let key = (Arc::clone(name), FileOrigin::Uploaded);
            all.entry(key).or_default();
        }
        let after = list.after.as_deref();
        let wanted = list.name.as_deref();
        let mut rest = all.into_iter().filter(|((name, _), _)| {
            after.is_none_or(|after| **name > *after)
                && wanted.is_none_or(|wanted| **name == *wanted)
        });
        let limit = list.limit.clamp(1, MAX_LISTED_FILES);
        let mut page: Vec<_> = rest.by_ref().take(limit).collect();
        let mut next = rest.next();
        // Both files of a name are on the same page.
        let last = page.last().map(|((name, _), _)| Arc::clone(name));
        if let Some(file) = next.take_if(|((name, _), _)| last.as_ref() == Some(name)) {
            page.push(file);
            next = rest.next();
        }
        let files = page
            .into_iter()
            .map(|((name, origin), jobs)| self.listed_file(name, origin, jobs));
        FilePage {
            namespace: self.artifacts.namespace().clone(),
            files: files.collect(),
            has_more: next.is_some(),
        }
    }

    /// Returns the files that jobs have as inputs, with these jobs.
    fn files_of_jobs(&self) -> BTreeMap<(Arc<str>, FileOrigin), BTreeSet<JobName>> {
        let mut all: BTreeMap<(Arc<str>, FileOrigin), BTreeSet<JobName>> = BTreeMap::new();
        let files = self.artifacts.files();
        let jobs = self.engine.config().into_iter();
        for job in jobs.flat_map(|config| &config.jobs) {
            let origin = self.inputs().origin(&job.name);
            for input in &job.inputs {
                let InputSource::File { path } = &input.source else {
                    continue;
                };
                let name = known_name(path);
                let place = match origin {
                    JobOrigin::ConfigFile if files.is_configured(name, origin) => {
                        FileOrigin::ConfigFolder
                    }
                    JobOrigin::ConfigFile if !files.uploaded.contains_key(name) => {
                        FileOrigin::ConfigFolder
                    }
                    JobOrigin::ConfigFile | JobOrigin::Submitted => FileOrigin::Uploaded,
                };
                let jobs = all.entry((name.into(), place)).or_default();
                jobs.insert(job.name.clone());
            }
        }
        all
    }

    fn listed_file(
        &self,
        name: Arc<str>,
        origin: FileOrigin,
        jobs: BTreeSet<JobName>,
    ) -> ListedFile {
        let files = self.artifacts.files();
        let content = match origin {
            FileOrigin::ConfigFolder => files.find_configured(&name),
            FileOrigin::Uploaded => files.find(&name, JobOrigin::Submitted),
        };
        let id = content.as_ref().ok().map(|artifact| artifact.id);
        let (copies, holders) = match id {
            Some(id) => (
                self.artifacts.registry().holders(id).count(),
                self.output_holders(id, MAX_HOLDERS),
            ),
            None => (0, Vec::new()),
        };
        ListedFile {
            name,
            origin,
            content: content.map_err(|lacking| lacking.to_string()),
            jobs_total: jobs.len(),
            jobs: jobs.into_iter().take(MAX_JOBS).collect(),
            copies,
            holders,
        }
    }
}
