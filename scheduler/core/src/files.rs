//! The files that jobs name as inputs by `file`: what the shell knows of them, and which one a job gets. The shell reads and keeps them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use brasserie_common::{Artifact, ArtifactId};

/// All files that jobs may have as inputs. The initial value knows none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownFiles {
    /// The folder of the configuration in force, for people.
    pub folder: Arc<str>,
    /// The files that the configuration in force names, by their paths. A path that is not here was not looked up yet.
    pub configured: BTreeMap<Arc<str>, ConfiguredFile>,
    /// The files that people have uploaded, by their names.
    pub uploaded: BTreeMap<Arc<str>, Artifact>,
    /// The artifacts that files of the configuration were when they were last read.
    pub earlier: BTreeSet<ArtifactId>,
    /// The artifacts of which the scheduler has a copy, also those of former files.
    pub stored: BTreeSet<ArtifactId>,
    pub uploads: UploadAccess,
}

/// Whether people can upload files to the scheduler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UploadAccess {
    #[default]
    Open,
    /// The scheduler of a `brasserie run` has no address that people know.
    None,
}

/// A file below the folder of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfiguredFile {
    /// It is being read for the first time, or because it has changed.
    Reading,
    Present(Artifact),
    Absent,
    /// It is there and cannot be an input. The text is for people.
    Unusable(String),
}

/// The origin of a job, which decides where its files are looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobOrigin {
    /// Its files are below the folder of the configuration, or else uploaded.
    ConfigFile,
    /// Its files are uploaded: a submitted job has no folder.
    Submitted,
}

/// The reason why a job cannot have a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LackingFile {
    #[error("the scheduler is reading the file `{path}` of the config file's folder")]
    Unread { path: String },
    #[error("the file `{path}` in the config file's folder {folder} cannot be an input: {why}")]
    Unusable {
        path: String,
        folder: Arc<str>,
        why: String,
    },
    #[error(
        "there is no file `{path}` in the config file's folder {folder}, and none was uploaded under this name. Put it there, or run \
         `brasserie artifact put FILE --name {path}`"
    )]
    Absent { path: String, folder: Arc<str> },
    #[error("there is no file `{path}` in the config file's folder {folder}: put it there")]
    AbsentInRun { path: String, folder: Arc<str> },
    #[error(
        "no file was uploaded under the name `{path}`, and a submitted job has no folder. Run `brasserie artifact put FILE --name {path}`"
    )]
    NotUploaded { path: String },
    #[error(
        "the scheduler's copy of the uploaded file `{path}` is lost or damaged. Run `brasserie artifact put FILE --name {path}` again"
    )]
    CopyLost { path: String },
}

/// Returns the name under which a file is known: the path in `file` without the `./` that it may begin with.
pub fn known_name(path: &str) -> &str {
    path.strip_prefix("./").unwrap_or(path)
}

impl KnownFiles {
    /// Returns the artifact that a job gets for the path in `file`.
    pub(crate) fn find(&self, path: &str, origin: JobOrigin) -> Result<Artifact, LackingFile> {
        let path = known_name(path);
        if self.is_configured(path, origin) {
            return self.find_configured(path);
        }
        let name = || path.to_owned();
        match (self.uploaded.get(path), origin) {
            (Some(artifact), _) if self.has(artifact.id) => Ok(*artifact),
            (Some(_), _) => Err(LackingFile::CopyLost { path: name() }),
            (None, JobOrigin::Submitted) => Err(LackingFile::NotUploaded { path: name() }),
            (None, JobOrigin::ConfigFile) => Err(self.absent(name())),
        }
    }

    /// Returns whether the path means the file in the config file's folder for a job of this origin, and no uploaded one.
    pub(crate) fn is_configured(&self, path: &str, origin: JobOrigin) -> bool {
        match origin {
            JobOrigin::ConfigFile => self.configured.get(path) != Some(&ConfiguredFile::Absent),
            JobOrigin::Submitted => false,
        }
    }

    fn absent(&self, path: String) -> LackingFile {
        let folder = Arc::clone(&self.folder);
        match self.uploads {
            UploadAccess::Open => LackingFile::Absent { path, folder },
            UploadAccess::None => LackingFile::AbsentInRun { path, folder },
        }
    }

    /// Returns the file with this path in the config file's folder.
    pub(crate) fn find_configured(&self, path: &str) -> Result<Artifact, LackingFile> {
        let (path, folder) = (path.to_owned(), Arc::clone(&self.folder));
        match self.configured.get(&*path) {
            Some(ConfiguredFile::Present(artifact)) if self.has(artifact.id) => Ok(*artifact),
            // The shell reads a file again whose copy is lost.
            Some(ConfiguredFile::Present(_) | ConfiguredFile::Reading) | None => {
                Err(LackingFile::Unread { path })
            }
            Some(ConfiguredFile::Absent) => Err(self.absent(path)),
            Some(ConfiguredFile::Unusable(why)) => {
                let why = why.clone();
                Err(LackingFile::Unusable { path, folder, why })
            }
        }
    }

    /// Returns whether the scheduler has a copy of the artifact.
    pub(crate) fn has(&self, id: ArtifactId) -> bool {
        self.stored.contains(&id)
    }

    /// Returns the artifacts of all files that a job may get.
    pub(crate) fn kept(&self) -> BTreeSet<ArtifactId> {
        let configured = self.configured.values().filter_map(|file| match file {
            ConfiguredFile::Present(artifact) => Some(artifact),
            ConfiguredFile::Reading | ConfiguredFile::Absent | ConfiguredFile::Unusable(_) => None,
        });
        let all = configured.chain(self.uploaded.values());
        let all = all.map(|artifact| artifact.id);
        all.chain(self.earlier.iter().copied()).collect()
    }
}

#[cfg(test)]
mod tests {
    use brasserie_common::ArtifactForm;

    use super::*;

    fn artifact(byte: u8) -> Artifact {
        Artifact {
            id: ArtifactId([byte; 32]),
            size: 3,
            form: ArtifactForm::File,
        }
    }

    fn files(configured: Option<ConfiguredFile>, uploaded: Option<Artifact>) -> KnownFiles {
        KnownFiles {
            folder: "/conf".into(),
            configured: configured.into_iter().map(|it| ("a".into(), it)).collect(),
            earlier: BTreeSet::new(),
            uploaded: uploaded.into_iter().map(|it| ("a".into(), it)).collect(),
            stored: BTreeSet::from([artifact(1).id, artifact(2).id]),
            uploads: UploadAccess::Open,
        }
    }

    #[test]
    fn the_folder_of_the_configuration_goes_first_and_an_uploaded_file_is_the_second_place() {
        let (one, two) = (artifact(1), artifact(2));
        let both = files(Some(ConfiguredFile::Present(one)), Some(two));
        for path in ["a", "./a"] {
            assert_eq!(both.find(path, JobOrigin::ConfigFile), Ok(one));
            assert_eq!(both.find(path, JobOrigin::Submitted), Ok(two));
        }
        let absent = files(Some(ConfiguredFile::Absent), Some(two));
        assert_eq!(absent.find("a", JobOrigin::ConfigFile), Ok(two));
        assert_eq!(both.kept(), BTreeSet::from([one.id, two.id]));
    }

    #[test]
    fn a_file_that_is_there_and_cannot_be_read_is_not_replaced_by_an_uploaded_one() {
        let two = Some(artifact(2));
        let unusable = files(Some(ConfiguredFile::Unusable("why".to_owned())), two);
        let lacking = unusable.find("a", JobOrigin::ConfigFile).unwrap_err();
        assert!(
            lacking
                .to_string()
                .ends_with("/conf cannot be an input: why"),
            "{lacking}"
        );
        for unread in [None, Some(ConfiguredFile::Reading)] {
            let lacking = files(unread, two).find("a", JobOrigin::ConfigFile);
            assert!(matches!(lacking, Err(LackingFile::Unread { .. })));
        }
    }

    #[test]
    fn a_missing_file_is_named_with_the_places_and_the_remedy() {
        let none = files(Some(ConfiguredFile::Absent), None);
        let lacking = none.find("./a", JobOrigin::ConfigFile).unwrap_err();
        assert_eq!(
            lacking.to_string(),
            "there is no file `a` in the config file's folder /conf, and none was uploaded under this name. Put it there, or run \
             `brasserie artifact put FILE --name a`"
        );
        let in_run = KnownFiles {
            uploads: UploadAccess::None,
            ..none.clone()
        };
        let lacking = in_run.find("./a", JobOrigin::ConfigFile).unwrap_err();
        assert_eq!(
            lacking.to_string(),
            "there is no file `a` in the config file's folder /conf: put it there"
        );
        let lacking = none.find("a", JobOrigin::Submitted).unwrap_err();
        assert!(
            lacking
                .to_string()
                .contains("a submitted job has no folder"),
            "{lacking}"
        );
    }

    #[test]
    fn a_file_without_a_copy_is_no_input() {
        let lost = artifact(9);
        let files = files(Some(ConfiguredFile::Present(lost)), Some(lost));
        let lacking = files.find("a", JobOrigin::ConfigFile);
        assert!(matches!(lacking, Err(LackingFile::Unread { .. })));
        let lacking = files.find("a", JobOrigin::Submitted);
        assert!(matches!(lacking, Err(LackingFile::CopyLost { .. })));
    }
}
