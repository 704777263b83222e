//! The opening of all disks: the artifacts that are on them, by the names and sizes of their files, and what a person should know.
//!
//! No content is read here: a damaged artifact is found when it is used or checked.

use std::collections::BTreeSet;
use std::fs::{self, DirEntry};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use brasserie_common::{ArtifactId, ArtifactNamespace, DiskGeneration};
use thiserror::Error;

use crate::artifact_key::ArtifactKey;
use crate::disk::{DiskFolder, DiskMistake, DiskOpenError};
use crate::disk_flag::DiskFlag;

/// An observation while the store was opened, or while it placed an artifact, for the log.
#[derive(Debug, Error)]
pub enum OpenFinding {
    #[error("an artifact disk is not used: {0}")]
    Broken(DiskOpenError),
    #[error("deleted {count} partial files of an earlier worker on the artifact disk {}", path.display())]
    PartialFiles { path: PathBuf, count: u64 },
    #[error("no store has written {}; moved to {}", from.display(), to.display())]
    SetAside { from: PathBuf, to: PathBuf },
    #[error("deleted {}: another disk has the same artifact", path.display())]
    Duplicate { path: PathBuf },
    #[error("the artifact disks {} and {} are on the same file system, so they count the same free space", one.display(), other.display())]
    SameFileSystem { one: PathBuf, other: PathBuf },
    #[error("the artifact disk {} begins the generation {generation}", path.display())]
    NewGeneration {
        path: PathBuf,
        generation: DiskGeneration,
    },
}

/// A disk with its artifacts.
pub struct OpenedDisk {
    pub disk: DiskFolder,
    /// The names and sizes of artifacts that no disk before has.
    pub artifacts: Vec<(ArtifactKey, u64)>,
}

/// Opens disks one after another.
#[derive(Default)]
pub struct Opening {
    pub findings: Vec<OpenFinding>,
    known: BTreeSet<ArtifactKey>,
    generations: BTreeSet<DiskGeneration>,
    devices: Vec<(u64, PathBuf)>,
}

impl Opening {
    /// Opens a disk. Returns the error's text if the disk is broken, and errors only if a person made a mistake.
    pub fn open(&mut self, flag: &DiskFlag) -> Result<Result<OpenedDisk, String>, DiskMistake> {
        match self.try_open(flag) {
            Ok(opened) => Ok(Ok(opened)),
            Err(DiskOpenError::Mistake(mistake)) => Err(mistake),
            Err(error @ DiskOpenError::Failed { .. }) => {
                let text = error.to_string();
                self.findings.push(OpenFinding::Broken(error));
                Ok(Err(text))
            }
        }
    }

    fn try_open(&mut self, flag: &DiskFlag) -> Result<OpenedDisk, DiskOpenError> {
        let path = &flag.path;
        let failed = |error| {
            let path = path.clone();
            DiskOpenError::Failed { path, error }
        };
        let (mut disk, count) = DiskFolder::open(path)?;
        if count > 0 {
            let path = path.clone();
            self.findings
                .push(OpenFinding::PartialFiles { path, count });
        }
        for (_, other) in self
            .devices
            .iter()
            .filter(|(device, _)| *device == disk.device())
        {
            let (one, other) = (other.clone(), path.clone());
            self.findings
                .push(OpenFinding::SameFileSystem { one, other });
        }
        self.devices.push((disk.device(), path.clone()));
        let artifacts = self.scan(&disk).map_err(failed)?;
        // A disk that starts empty must not pass for the one that had artifacts, nor a copied folder for its original.
        let is_unique = |generation| !self.generations.contains(&generation);
        if artifacts.is_empty() || !disk.generation().is_some_and(is_unique) {
            disk.renew_generation().map_err(failed)?;
            if let Some(generation) = disk.generation() {
                let path = path.clone();
                self.findings
                    .push(OpenFinding::NewGeneration { path, generation });
            }
        }
        self.generations.extend(disk.generation());
        Ok(OpenedDisk { disk, artifacts })
    }

    fn scan(&mut self, disk: &DiskFolder) -> io::Result<Vec<(ArtifactKey, u64)>> {
        let mut artifacts = Vec::new();
        for (folder, name) in self.folders(disk, &disk.content_path())? {
            let Ok(namespace) = ArtifactNamespace::try_from(name.as_str()) else {
                self.set_aside(disk, &folder)?;
                continue;
            };
            for (folder, digits) in self.folders(disk, &folder)? {
                for entry in fs::read_dir(&folder)? {
                    let entry = entry?;
                    match artifact(&entry, &digits)? {
                        Some((id, size)) => {
                            let key = ArtifactKey::new(&namespace, id);
                            artifacts.extend(self.note(key, size, &entry.path())?);
                        }
                        None => self.set_aside(disk, &entry.path())?,
                    }
                }
            }
        }
        Ok(artifacts)
    }

    /// Returns the artifact unless another disk has it. A second copy would use space and never be read.
    fn note(
        &mut self,
        key: ArtifactKey,
        size: u64,
        path: &Path,
    ) -> io::Result<Option<(ArtifactKey, u64)>> {
        if self.known.insert(key.clone()) {
            return Ok(Some((key, size)));
        }
        fs::remove_file(path)?;
        let path = path.to_owned();
        self.findings.push(OpenFinding::Duplicate { path });
        Ok(None)
    }

    /// Returns the folders in a folder with their names. Sets other entries aside.
    fn folders(&mut self, disk: &DiskFolder, folder: &Path) -> io::Result<Vec<(PathBuf, String)>> {
        let mut folders = Vec::new();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            match entry.file_name().into_string() {
                Ok(name) if entry.file_type()?.is_dir() => folders.push((entry.path(), name)),
                Ok(_) | Err(_) => self.set_aside(disk, &entry.path())?,
            }
        }
        Ok(folders)
    }

    fn set_aside(&mut self, disk: &DiskFolder, path: &Path) -> io::Result<()> {
        let (from, to) = (path.to_owned(), disk.set_aside(path)?);
        self.findings.push(OpenFinding::SetAside { from, to });
        Ok(())
    }
}

/// Returns the id and the size of a file in the folder of these digits; none if no store has written it.
fn artifact(entry: &DirEntry, digits: &str) -> io::Result<Option<(ArtifactId, u64)>> {
    let metadata = entry.metadata()?;
    let name = entry.file_name();
    let id = name.to_str().and_then(|name| {
        let id: ArtifactId = name.parse().ok()?;
        // Upper-case digits would give one artifact two names.
        (id.to_string() == name && digits == &name[..2]).then_some(id)
    });
    Ok(id
        .filter(|_| metadata.is_file())
        .map(|id| (id, metadata.size())))
}
