//! Measures the store beside `cp` and `tar`: how many megabytes a second are taken in, received and staged.
//!
//! Run it in release mode with a folder on the disk in question, and optionally the size of the file in MiB:
//!
//! ```text
//! cargo run --release -p brasserie-common-artifacts --example throughput -- /disks/1 1024
//! ```

use std::error::Error;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use brasserie_common::{Artifact, ArtifactNamespace, OutputPath};
use brasserie_common_artifacts::{
    ArtifactStore, InputPlace, StopCheck, StoreOptions, TaskFolder, TaskUser,
};

/// The size of the file without an argument.
const DEFAULT_MIB: u64 = 1024;
/// The folder: many small files, as of a source tree or of shards.
const FILES: usize = 10_000;
const FILE_BYTES: usize = 4096;
/// Bytes of one message of a transfer.
const MESSAGE: usize = 4 << 20;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let place = arguments
        .next()
        .ok_or("the first argument is a folder on the disk to measure")?;
    let mebibytes = match arguments.next() {
        Some(number) => number.parse()?,
        None => DEFAULT_MIB,
    };
    let folder = tempfile::tempdir_in(place)?;
    make_inputs(folder.path(), mebibytes)?;
    let bytes = mebibytes << 20;
    let task = folder.path().join("task");
    let store = open(&folder.path().join("one"))?;
    let other = open(&folder.path().join("other"))?;
    let namespace = ArtifactNamespace::try_from("example")?;
    measure_file(&store, &other, &namespace, &task, bytes)?;
    measure_folder(&store, &namespace, &task)
}

fn open(disk: &Path) -> Outcome<ArtifactStore> {
    let flag = disk.to_str().ok_or("the path is no text")?.parse()?;
    let (store, _) = ArtifactStore::open(&StoreOptions::new(vec![flag]))?;
    Ok(store)
}

/// Writes a file without a pattern and a folder of small files.
fn make_inputs(folder: &Path, mebibytes: u64) -> Outcome<()> {
    fs::create_dir_all(folder.join("task/many"))?;
    let mut state = 1_u64;
    let mut block = vec![0; 1 << 20];
    let mut file = File::create(folder.join("task/big"))?;
    for _ in 0..mebibytes {
        for word in block.as_chunks_mut::<8>().0 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            *word = state.to_be_bytes();
        }
        file.write_all(&block)?;
    }
    file.sync_all()?;
    for number in 0..FILES {
        let at = number * 8 % (block.len() - FILE_BYTES);
        fs::write(
            folder.join(format!("task/many/{number}")),
            &block[at..at + FILE_BYTES],
        )?;
    }
    run("sync", &[])
}

fn measure_file(
    store: &ArtifactStore,
    other: &ArtifactStore,
    namespace: &ArtifactNamespace,
    task: &Path,
    bytes: u64,
) -> Outcome<()> {
    measured("cp and sync", bytes, || {
        run(
            "cp",
            &[
                "--reflink=never".as_ref(),
                task.join("big").as_ref(),
                task.join("copy").as_ref(),
            ],
        )?;
        Ok(File::open(task.join("copy"))?.sync_all()?)
    })?;
    let artifact = measured("take in", bytes, || take_in(store, namespace, task, "big"))?;
    let reader = store.read(namespace, artifact.id)?;
    measured("read and receive", bytes, || {
        let mut incoming = other.receive(namespace, artifact.id, bytes)?;
        while incoming.received() < bytes {
            incoming.append(&reader.read_at(incoming.received(), MESSAGE)?)?;
        }
        Ok(incoming.finish()?)
    })?;
    measured("stage", bytes, || {
        stage(store, namespace, &artifact, task, "input")
    })?;
    measured("check", bytes, || Ok(store.check(namespace, artifact.id)?))
}

fn measure_folder(
    store: &ArtifactStore,
    namespace: &ArtifactNamespace,
    task: &Path,
) -> Outcome<()> {
    let bytes = (FILES * FILE_BYTES) as u64;
    let archive = task.join("archive");
    measured("tar and sync, small files", bytes, || {
        run(
            "tar",
            &[
                "-cf".as_ref(),
                archive.as_ref(),
                "-C".as_ref(),
                task.as_ref(),
                "many".as_ref(),
            ],
        )?;
        Ok(File::open(&archive)?.sync_all()?)
    })?;
    let artifact = measured("take in, small files", bytes, || {
        take_in(store, namespace, task, "many/")
    })?;
    fs::create_dir(task.join("unpacked"))?;
    measured("tar -x, small files", bytes, || {
        run(
            "tar",
            &[
                "-xf".as_ref(),
                archive.as_ref(),
                "-C".as_ref(),
                task.join("unpacked").as_ref(),
            ],
        )
    })?;
    measured("stage, small files", bytes, || {
        stage(store, namespace, &artifact, task, "inputs")
    })
}

fn measured<T>(name: &str, bytes: u64, operation: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
    let began = Instant::now();
    let result = operation()?;
    let seconds = began.elapsed().as_secs_f64();
    println!("{name:26} {:8.1} MB/s", bytes as f64 / seconds / 1e6);
    Ok(result)
}

fn take_in(
    store: &ArtifactStore,
    namespace: &ArtifactNamespace,
    task: &Path,
    output: &str,
) -> Outcome<Artifact> {
    let folder = File::open(task)?;
    let task = TaskFolder {
        folder: folder.as_fd(),
        user: TaskUser { uid: 0, gid: 0 },
        stop: StopCheck::NEVER,
    };
    Ok(store.take_in(namespace, task, &OutputPath::try_from(output)?)?)
}

fn stage(
    store: &ArtifactStore,
    namespace: &ArtifactNamespace,
    artifact: &Artifact,
    task: &Path,
    name: &str,
) -> Outcome<()> {
    let folder = File::open(task)?;
    let place = InputPlace {
        folder: folder.as_fd(),
        name: OsStr::new(name),
        owner: None,
        stop: StopCheck::NEVER,
    };
    Ok(store.stage(namespace, artifact, &place)?)
}

fn run(program: &str, arguments: &[&OsStr]) -> Outcome<()> {
    match Command::new(program).args(arguments).status()?.success() {
        true => Ok(()),
        false => Err(format!("{program} failed").into()),
    }
}
