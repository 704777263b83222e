//! A store on folders of the test's own, with a task's working directory.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use brasserie_common::artifact_report::DiskMedium;
use brasserie_common::{Artifact, ArtifactForm, ArtifactId, ArtifactNamespace, OutputPath};
use brasserie_common_artifacts::{
    ArtifactStore, DiskFlag, InputPlace, OpenFinding, ReceiveError, StageError, StopCheck,
    StoreOptions, TakeInError, TaskFolder, TaskUser,
};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

pub struct Bench {
    pub store: ArtifactStore,
    pub options: StoreOptions,
    pub namespace: ArtifactNamespace,
    /// The working directory of a task.
    pub task: TempDir,
    /// The folder in which tasks get inputs.
    pub inputs: TempDir,
}

impl Bench {
    /// Opens a store on these disks.
    pub fn on(disks: &[&Path]) -> Self {
        let disks = disks.iter().map(|path| DiskFlag {
            path: path.to_path_buf(),
            capacity: None,
            medium: DiskMedium::Ssd,
        });
        Bench::with(StoreOptions {
            reserve: 0,
            ..StoreOptions::new(disks.collect())
        })
    }

    pub fn with(options: StoreOptions) -> Self {
        let (store, _) = ArtifactStore::open(&options).expect("usable disks");
        Bench {
            store,
            options,
            namespace: ArtifactNamespace::try_from("one").expect("a name"),
            task: tempfile::tempdir().expect("a folder"),
            inputs: tempfile::tempdir().expect("a folder"),
        }
    }

    /// Closes the store, changes its disks, and opens it again.
    pub fn reopen_after(self, change: impl FnOnce()) -> (Self, Vec<OpenFinding>) {
        let Bench {
            store,
            options,
            namespace,
            task,
            inputs,
        } = self;
        drop(store);
        change();
        let (store, findings) = ArtifactStore::open(&options).expect("usable disks");
        let bench = Bench {
            store,
            options,
            namespace,
            task,
            inputs,
        };
        (bench, findings)
    }

    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.task.path().join(name);
        let folder = path.parent().expect("it is in the folder");
        fs::create_dir_all(folder).expect("folders");
        fs::write(&path, bytes).expect("written");
        path
    }

    /// Takes an output in, as of a task of this process's user.
    pub fn take(&self, output: &str) -> Result<Artifact, TakeInError> {
        let uid = nix::unistd::geteuid().as_raw();
        self.take_as(uid, output)
    }

    pub fn take_as(&self, uid: u32, output: &str) -> Result<Artifact, TakeInError> {
        self.take_with((uid, StopCheck::NEVER), output)
    }

    /// Takes an output in until the check stops it.
    pub fn take_until(&self, output: &str, stop: StopCheck<'_>) -> Result<Artifact, TakeInError> {
        let uid = nix::unistd::geteuid().as_raw();
        self.take_with((uid, stop), output)
    }

    fn take_with(&self, user: (u32, StopCheck<'_>), output: &str) -> Result<Artifact, TakeInError> {
        let taken = self.take_all_with(user, &[output])?;
        Ok(taken[0])
    }

    /// Takes outputs in together.
    pub fn take_all(&self, outputs: &[&str]) -> Result<Vec<Artifact>, TakeInError> {
        let uid = nix::unistd::geteuid().as_raw();
        self.take_all_with((uid, StopCheck::NEVER), outputs)
    }

    fn take_all_with(
        &self,
        (uid, stop): (u32, StopCheck<'_>),
        outputs: &[&str],
    ) -> Result<Vec<Artifact>, TakeInError> {
        let folder = File::open(self.task.path()).expect("it is there");
        let task = TaskFolder {
            folder: folder.as_fd(),
            user: TaskUser { uid, gid: uid },
            stop,
        };
        let outputs = outputs.iter().map(|output| OutputPath::try_from(*output));
        let outputs: Vec<OutputPath> = outputs.map(|path| path.expect("a path")).collect();
        self.store.take_in_all(&self.namespace, task, &outputs)
    }

    /// Takes a file with this content in.
    pub fn add(&self, content: &[u8]) -> Artifact {
        self.write("added", content);
        self.take("added").expect("there is space")
    }

    pub fn receive(&self, content: &[u8]) -> Result<(), ReceiveError> {
        let id = id_of(content);
        let mut incoming = self
            .store
            .receive(&self.namespace, id, content.len() as u64)?;
        incoming.append(content)?;
        incoming.finish()
    }

    pub fn stage(&self, artifact: &Artifact, name: &str) -> Result<PathBuf, StageError> {
        self.stage_until(artifact, name, StopCheck::NEVER)
    }

    /// Copies an artifact until the check stops it.
    pub fn stage_until(
        &self,
        artifact: &Artifact,
        name: &str,
        stop: StopCheck<'_>,
    ) -> Result<PathBuf, StageError> {
        let folder = File::open(self.inputs.path()).expect("it is there");
        let place = InputPlace {
            folder: folder.as_fd(),
            name: OsStr::new(name),
            owner: None,
            stop,
        };
        self.store.stage(&self.namespace, artifact, &place)?;
        Ok(self.inputs.path().join(name))
    }

    /// Returns the path of an artifact's file on the first disk.
    pub fn file_of(&self, id: ArtifactId) -> PathBuf {
        let hex = id.to_string();
        let content = self.options.disks[0].path.join("content");
        content
            .join(self.namespace.as_str())
            .join(&hex[..2])
            .join(hex)
    }

    /// Asserts that the disks have whole artifacts of this namespace only, and that the accounts are exact.
    pub fn assert_consistent(&self) {
        let holdings = self.store.holdings(&self.namespace);
        let mut files = 0;
        for (disk, usage) in self.options.disks.iter().zip(self.store.usage()) {
            assert_eq!(
                paths_below(&disk.path.join("incoming")),
                Vec::<PathBuf>::new()
            );
            let found = paths_below(&disk.path.join("content"));
            let found: Vec<_> = found.iter().filter(|path| path.is_file()).collect();
            let bytes: u64 = found
                .iter()
                .map(|path| path.metadata().expect("a file").len())
                .sum();
            assert_eq!(bytes, usage.used, "{usage:?}");
            files += found.len();
        }
        assert_eq!(files, holdings.len());
        for holding in holdings {
            self.store
                .check(&self.namespace, holding.id)
                .expect("it is whole");
        }
    }
}

pub fn id_of(content: &[u8]) -> ArtifactId {
    ArtifactId(Sha256::digest(content).into())
}

pub fn file_artifact(content: &[u8]) -> Artifact {
    Artifact {
        id: id_of(content),
        size: content.len() as u64,
        form: ArtifactForm::File,
    }
}

/// Returns all paths below a folder, sorted.
pub fn paths_below(folder: &Path) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let entry = entry.expect("an entry");
            if entry.file_type().expect("a type").is_dir() {
                open.push(entry.path());
            }
            paths.push(entry.path());
        }
    }
    paths.sort();
    paths
}

pub fn mode_of(path: &Path) -> u32 {
    let metadata = fs::symlink_metadata(path).expect("it exists");
    metadata.permissions().mode() & 0o7777
}

pub fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("our own");
}

/// Returns whether this process is root. Prints why a test proves nothing otherwise.
pub fn is_root(test: &str) -> bool {
    let is_root = nix::unistd::geteuid().is_root();
    if !is_root {
        eprintln!("unproven: {test} needs root");
    }
    is_root
}

/// A file system that only the thread which mounted it sees, and those that this thread starts. Dropping it unmounts it.
pub struct Mounted<'a>(&'a Path);

impl<'a> Mounted<'a> {
    pub fn new(
        source: &str,
        place: &'a Path,
        kind: &str,
        options: Option<&str>,
    ) -> nix::Result<Self> {
        let none = None::<&str>;
        unshare(CloneFlags::CLONE_NEWNS)?;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
        mount(Some(source), place, Some(kind), MsFlags::empty(), options)?;
        Ok(Mounted(place))
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        // The end of the thread unmounts it too, but its folder could not be deleted before.
        let _ = umount2(self.0, MntFlags::MNT_DETACH);
    }
}

/// Runs a test on a file system in a file, which `make` formats. Prints why the test proves nothing if this machine cannot mount it.
pub fn on_image(
    kind: &'static str,
    bytes: u64,
    make: fn(&Path) -> Command,
    test: fn(&Path, &Path),
) {
    let thread = std::thread::spawn(move || {
        let folder = tempfile::tempdir().expect("a folder");
        let (place, image) = (folder.path().join("mounted"), folder.path().join("image"));
        fs::create_dir(&place).expect("a folder");
        let file = File::create(&image).expect("a file");
        file.set_len(bytes).expect("a sparse file");
        match mount_image(kind, &image, &place, make) {
            Ok(_mounted) => test(&place, &image),
            Err(error) => eprintln!("unproven: no {kind} file system can be mounted here: {error}"),
        }
    });
    thread.join().expect("the disk's part went well");
}

fn mount_image<'a>(
    kind: &str,
    image: &Path,
    place: &'a Path,
    make: fn(&Path) -> Command,
) -> Result<Mounted<'a>, String> {
    let run = |command: &mut Command| {
        let output = command
            .output()
            .map_err(|error| format!("{command:?}: {error}"))?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
            false => Err(format!(
                "{command:?}: {}",
                String::from_utf8_lossy(&output.stderr)
            )),
        }
    };
    run(&mut make(image))?;
    let device = run(Command::new("losetup")
        .args(["--find", "--show"])
        .arg(image))?;
    let mounted = Mounted::new(&device, place, kind, None);
    // The device goes with its mount.
    run(Command::new("losetup").args(["--detach", &device]))?;
    mounted.map_err(|error| error.to_string())
}
