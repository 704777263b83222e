//! Tests the store of files with real files and disks.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions, Permissions};
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use brasserie_common::access::{Identity, IdentityProof, Role};
use brasserie_common::{Artifact, ArtifactForm};
use brasserie_common_config::{Config, ParseOptions, parse_bytes};
use brasserie_scheduler_core::files::ConfiguredFile;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use super::folder::Look;
use super::uploads::PutProgress;
use super::*;
use crate::inbox::{Lanes, lanes};

const CAPACITY: u64 = 1 << 20;

/// The files of a scheduler with a folder for its configuration.
struct Bench {
    root: TempDir,
    files: Files,
    folder: ConfigFolder,
    in_force: InForce,
    /// Keeps the driver's side of the inbox.
    _lanes: Lanes,
    _directory: DataDir,
}

impl Bench {
    fn new(names: &[&str]) -> Bench {
        let root = tempfile::tempdir().expect("a folder");
        fs::create_dir(root.path().join("conf")).expect("a folder");
        Bench::on(root, names)
    }

    fn on(root: TempDir, names: &[&str]) -> Bench {
        let directory = DataDir::open(&root.path().join("data")).expect("a data directory");
        let (inbox, lanes) = lanes();
        let namespace = ArtifactNamespace::try_from("c1").expect("a name");
        let files = Files::open(
            &directory,
            &namespace,
            (CAPACITY, UploadAccess::Open),
            inbox,
        )
        .expect("a store");
        let place = (None, root.path().join("conf"));
        let folder = ConfigFolder::new(files.clone(), place, CancellationToken::new());
        Bench {
            root,
            folder,
            files,
            in_force: InForce::given(Arc::new(config(names))),
            _lanes: lanes,
            _directory: directory,
        }
    }

    /// Starts anew on the same folders.
    fn restart(self, names: &[&str]) -> Bench {
        let Bench {
            root,
            files,
            folder,
            _directory,
            ..
        } = self;
        drop((files, folder, _directory));
        Bench::on(root, names)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join("conf").join(name)
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, content).expect("written");
    }

    fn look(&mut self) -> bool {
        self.folder.look(&self.in_force)
    }

    fn configured(&self) -> BTreeMap<Arc<str>, ConfiguredFile> {
        self.files.known().configured
    }

    fn why(&self, name: &str) -> String {
        match self.configured().get(name) {
            Some(ConfiguredFile::Unusable(why)) => why.clone(),
            other => panic!("{name} is unusable, not {other:?}"),
        }
    }

    /// Looks until nothing changes any more.
    fn settle(&mut self) {
        for _ in 0..3 {
            if self.look() {
                return;
            }
        }
        panic!("the files do not settle: {:?}", self.configured());
    }

    fn put(&self, name: &str, content: &[u8]) -> Result<PutProgress, PutRefusal> {
        self.piece(name, (content, content), (0, 0))
    }

    /// Sends a piece of a file of which the whole content is given first.
    fn piece(
        &self,
        name: &str,
        (content, bytes): (&[u8], &[u8]),
        (upload, offset): (i64, u64),
    ) -> Result<PutProgress, PutRefusal> {
        let file = (name.to_owned(), artifact(content));
        self.files
            .put(Put::new(file, (upload, offset), bytes.to_vec()), || false)
    }

    fn incoming(&self) -> usize {
        let incoming = self.root.path().join("data/files/incoming");
        fs::read_dir(incoming).expect("a folder").count()
    }
}

fn config(names: &[&str]) -> Config {
    let inputs: Vec<String> = names
        .iter()
        .map(|name| format!(r#"{{"file": "{name}", "as": "{name}"}}"#))
        .collect();
    let text = format!(
        r#"{{"bistro_settings": {{"nodes": {{"levels": [], "node_sources": []}}, "resources": {{}}}},
            "bistro_job->j": {{"command": ["/bin/true"], "inputs": [{}]}}}}"#,
        inputs.join(", ")
    );
    parse_bytes(text.as_bytes(), ParseOptions::default())
        .expect("a config")
        .config
}

fn artifact(content: &[u8]) -> Artifact {
    Artifact {
        id: ArtifactId(Sha256::digest(content).into()),
        size: content.len() as u64,
        form: ArtifactForm::File,
    }
}

fn present(content: &[u8]) -> ConfiguredFile {
    ConfiguredFile::Present(artifact(content))
}

#[test]
fn files_are_read_and_read_again_when_they_have_changed() {
    let mut bench = Bench::new(&["a", "sub/b", "none"]);
    bench.write("a", "one");
    bench.write("sub/b", "two");
    assert!(bench.look());
    let known = bench.configured();
    assert_eq!(known["a"], present(b"one"));
    assert_eq!(known["sub/b"], present(b"two"));
    assert_eq!(known["none"], ConfiguredFile::Absent);
    bench.write("a", "three");
    // The file may still be written.
    assert!(!bench.look());
    assert_eq!(bench.configured()["a"], ConfiguredFile::Reading);
    assert!(bench.look());
    assert_eq!(bench.configured()["a"], present(b"three"));
    fs::remove_file(bench.path("a")).expect("removed");
    assert!(bench.look());
    assert_eq!(bench.configured()["a"], ConfiguredFile::Absent);
    bench.write("none", "four");
    assert!(!bench.look(), "it may still be written");
    assert!(bench.look());
    assert_eq!(bench.configured()["none"], present(b"four"));
}

#[test]
fn a_restart_knows_unchanged_files_without_reading_them() {
    let mut bench = Bench::new(&["a", "b"]);
    bench.write("a", "one");
    bench.write("b", "two");
    bench.settle();
    bench.put("up", b"three").expect("taken");
    let mut bench = bench.restart(&["a", "b"]);
    assert_eq!(bench.files.known().uploaded["up"], artifact(b"three"));
    // The second file has changed while nobody looked.
    bench.write("b", "four");
    assert!(!bench.look());
    assert_eq!(bench.configured()["a"], present(b"one"));
    assert_eq!(bench.configured()["b"], ConfiguredFile::Reading);
    bench.settle();
    assert_eq!(bench.configured()["b"], present(b"four"));
}

#[test]
fn a_file_that_changes_while_it_is_read_is_read_again() {
    let mut bench = Bench::new(&["log"]);
    bench.write("log", "a");
    for _ in 0..5 {
        let mut log = OpenOptions::new()
            .append(true)
            .open(bench.path("log"))
            .expect("a file");
        log.write_all(b"b").expect("written");
        bench.look();
    }
    bench.settle();
    assert_eq!(bench.configured()["log"], present(b"abbbbb"));
}

#[test]
fn links_may_lead_elsewhere_in_the_folder_but_not_out_of_it() {
    let mut bench = Bench::new(&["in", "out", "dir/passwd", "loop"]);
    bench.write("data/real", "content");
    symlink("data/real", bench.path("in")).expect("a link");
    symlink("/etc/passwd", bench.path("out")).expect("a link");
    symlink("../../../../../../etc", bench.path("dir")).expect("a link");
    symlink("loop", bench.path("loop")).expect("a link");
    assert!(bench.look());
    assert_eq!(bench.configured()["in"], present(b"content"));
    for name in ["out", "dir/passwd"] {
        let why = bench.why(name);
        assert!(
            why.contains("leads to `/etc/passwd`, outside of the config file's folder"),
            "{why}"
        );
    }
    assert!(
        bench.why("loop").contains("too many levels")
            || bench.why("loop").contains("symbolic links")
    );
}

#[test]
fn a_folder_is_one_artifact_and_changes_with_its_files() {
    let mut bench = Bench::new(&["tables"]);
    bench.write("tables/a", "one");
    bench.write("tables/deep/b", "two");
    assert!(bench.look());
    let ConfiguredFile::Present(first) = bench.configured()["tables"] else {
        panic!("{:?}", bench.configured());
    };
    assert_eq!(first.form, ArtifactForm::Folder);
    bench.write("tables/deep/b", "TWO");
    bench.settle();
    let ConfiguredFile::Present(second) = bench.configured()["tables"] else {
        panic!("{:?}", bench.configured());
    };
    assert_ne!(first.id, second.id);
}

#[test]
fn a_folder_that_is_too_deep_is_refused_and_one_that_is_not_is_read() {
    let mut bench = Bench::new(&["good", "deep", "deepest"]);
    for (name, levels) in [("good", 64), ("deep", 65), ("deepest", 1_500)] {
        let mut path = bench.path(name);
        path.extend(vec!["d"; levels]);
        fs::create_dir_all(&path).expect("a folder");
    }
    bench.settle();
    let state = &bench.configured()["good"];
    assert!(matches!(state, ConfiguredFile::Present(_)), "{state:?}");
    for name in ["deep", "deepest"] {
        let why = bench.why(name);
        assert!(
            why.contains("64 levels deep: pack it into an archive"),
            "{why}"
        );
    }
}

#[test]
fn an_index_that_is_a_pipe_or_damaged_is_an_error_that_is_said_once() {
    for is_pipe in [true, false] {
        let root = tempfile::tempdir().expect("a folder");
        let directory = DataDir::open(&root.path().join("data")).expect("a data directory");
        let path = directory.path().join("files.json");
        match is_pipe {
            true => nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).expect("a pipe"),
            false => fs::write(&path, "{").expect("a file"),
        }
        let (told, tells) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let namespace = ArtifactNamespace::try_from("c1").expect("a name");
            let opened = Files::open(
                &directory,
                &namespace,
                (CAPACITY, UploadAccess::Open),
                lanes().0,
            );
            // Fails only if the test has ended.
            let _ = told.send(opened.err());
        });
        let error = tells.recv_timeout(Duration::from_secs(60));
        let error = anyhow::Error::from(error.expect("it does not wait").expect("no list"));
        let texts: Vec<String> = error.chain().map(ToString::to_string).collect();
        assert!(texts[0].contains("files.json"), "{texts:?}");
        for (above, source) in texts.iter().zip(&texts[1..]) {
            assert!(!above.contains(source.as_str()), "{texts:?}");
        }
    }
}

#[test]
fn a_file_beyond_the_capacity_is_refused_with_the_flag() {
    let mut bench = Bench::new(&["large", "a", "b"]);
    bench.write("large", vec![0; CAPACITY as usize + 1]);
    for name in ["a", "b"] {
        bench.write(name, name.repeat(600 << 10));
    }
    assert!(bench.look());
    assert!(
        bench.why("large").contains("--files-capacity"),
        "{}",
        bench.why("large")
    );
    assert!(matches!(
        bench.configured()["a"],
        ConfiguredFile::Present(_)
    ));
    let why = bench.why("b");
    assert!(
        why.contains("no space") && why.contains("brasserie artifact rm --file"),
        "{why}"
    );
    let refused = bench
        .put("up", &vec![1; CAPACITY as usize + 1])
        .expect_err("too large");
    assert!(
        refused.to_string().contains("--files-capacity"),
        "{refused}"
    );
    assert_eq!(bench.incoming(), 0);
}

/// Returns the number of writes to the folder in which contents arrive.
fn arrivals(bench: &Bench) -> std::time::SystemTime {
    let incoming = bench.root.path().join("data/files/incoming");
    let about = fs::metadata(incoming).expect("a folder");
    about.modified().expect("a time")
}

#[test]
fn a_folder_for_which_there_is_no_space_is_not_read() {
    let mut bench = Bench::new(&["large", "a", "b"]);
    let before = arrivals(&bench);
    for number in 0..3 {
        bench.write(&format!("large/{number}"), vec![0; 500 << 10]);
    }
    assert!(bench.look());
    let why = bench.why("large");
    assert!(why.contains("--files-capacity"), "{why}");
    assert_eq!(arrivals(&bench), before, "no byte was copied");
    bench.write("a/c", "a".repeat(600 << 10));
    bench.settle();
    assert!(matches!(
        bench.configured()["a"],
        ConfiguredFile::Present(_)
    ));
    let before = arrivals(&bench);
    bench.write("b/c", "b".repeat(600 << 10));
    bench.settle();
    let why = bench.why("b");
    assert!(why.contains("no space"), "{why}");
    assert_eq!(arrivals(&bench), before, "no byte was copied");
}

#[test]
fn a_file_that_could_not_be_read_for_long_is_read_again_later_or_when_it_has_changed() {
    let mut bench = Bench::new(&["a"]);
    bench.write("a/first", "content");
    bench.settle();
    let other = bench.path("a/other");
    fs::write(&other, "").expect("a file");
    fs::set_permissions(&other, Permissions::from_mode(0o4644)).expect("ours");
    bench.settle();
    let why = bench.why("a");
    assert!(why.contains("4644"), "{why}");
    let conf = bench.root.path().join("conf");
    // A short read is repeated at the next look.
    let state = bench.folder.look_at(&conf, "a");
    assert!(matches!(state, Look::ToRead(_)));
    bench.folder.refuse_for_an_hour(&conf, "a");
    let state = bench.folder.look_at(&conf, "a");
    assert!(matches!(state, Look::Known(ConfiguredFile::Unusable(_))));
    fs::remove_file(other).expect("removed");
    bench.settle();
    assert!(matches!(
        bench.configured()["a"],
        ConfiguredFile::Present(_)
    ));
}

#[test]
fn a_link_or_a_pipe_in_a_folder_is_named() {
    let mut bench = Bench::new(&["a", "b"]);
    bench.write("a/deep/file", "content");
    bench.write("b/file", "content");
    symlink("file", bench.path("a/deep/link")).expect("a link");
    mkfifo(&bench.path("b/pipe"), Mode::S_IRWXU).expect("a pipe");
    bench.settle();
    let conf = bench.root.path().join("conf");
    for (name, expected) in [
        (
            "a",
            "`a/deep/link` is a symbolic link: copy the file in its place",
        ),
        ("b", "`b/pipe` is neither a file nor a folder: remove it"),
    ] {
        assert_eq!(bench.why(name), expected);
        // The check of a configuration says the same.
        assert_eq!(input_fault(&conf, name).as_deref(), Some(expected));
    }
}

#[test]
fn an_upload_comes_in_pieces_and_a_damaged_one_changes_nothing() {
    let bench = Bench::new(&[]);
    let content: Vec<u8> = (0..200_000_u32).map(|at| at as u8).collect();
    let old = bench.put("up", b"old");
    assert_eq!(old, Ok(PutProgress::Done { size: 3 }));
    let begun = bench.piece("up", (&content, &[]), (0, 0)).expect("begun");
    let PutProgress::Wants { upload, offset: 0 } = begun else {
        panic!("{begun:?}");
    };
    let half = &content[..100_000];
    let wants = PutProgress::Wants {
        upload,
        offset: 100_000,
    };
    for _ in 0..2 {
        // The second time has no effect: its answer was lost.
        let sent = bench.piece("up", (&content, half), (upload, 0));
        assert_eq!(sent, Ok(wants));
    }
    assert_eq!(bench.files.known().uploaded["up"], artifact(b"old"));
    let mut rest = content[100_000..].to_vec();
    let other = bench.piece("other", (&content, &rest), (upload, 100_000));
    assert!(matches!(other, Err(PutRefusal::Refused(_))), "{other:?}");
    rest[5] ^= 1;
    let damaged = bench.piece("up", (&content, &rest), (upload, 100_000));
    let damaged = damaged.expect_err("damaged").to_string();
    assert!(damaged.contains("Upload it again"), "{damaged}");
    assert_eq!(bench.files.known().uploaded["up"], artifact(b"old"));
    assert_eq!(bench.incoming(), 0);
    let again = bench.put("up", &content);
    assert_eq!(again, Ok(PutProgress::Done { size: 200_000 }));
    assert_eq!(bench.files.known().uploaded["up"], artifact(&content));
    // The content is known, so nothing needs to be sent.
    let known = bench.piece("copy", (&content, &[]), (0, 0));
    assert_eq!(known, Ok(PutProgress::Done { size: 200_000 }));
}

#[test]
fn a_known_content_gets_no_name_with_another_size() {
    let bench = Bench::new(&[]);
    bench.put("up", b"old").expect("an upload");
    let wrong = Artifact {
        size: 4,
        ..artifact(b"old")
    };
    let named = ("other".to_owned(), wrong);
    let refused = bench
        .files
        .put(Put::new(named, (0, 0), Vec::new()), || false);
    let text = refused.expect_err("the size is wrong").to_string();
    assert!(text.contains("has 3 bytes, not 4"), "{text}");
}

#[test]
fn uploads_are_few_and_one_without_calls_leaves_nothing() {
    let bench = Bench::new(&[]);
    let contents: Vec<Vec<u8>> = (0..13_u8).map(|at| vec![at; 70_000]).collect();
    let at = |port: u16| Principal::Unauthenticated(SocketAddr::from(([10, 0, 0, 1], port)));
    let begin = |from: &Principal, content: &[u8]| {
        let file = ("up".to_owned(), artifact(content));
        let put = Put::new(file, (0, 0), content[..66_000].to_vec());
        bench.files.put(put.by(from.clone()), || false)
    };
    // The local socket is not kept from its uploads, nor another caller from the other half.
    let callers = [at(1), at(2), Principal::Own];
    for (from, own) in callers.iter().zip(contents.chunks(4)) {
        for content in own {
            let begun = begin(from, content);
            assert!(matches!(begun, Ok(PutProgress::Wants { .. })), "{begun:?}");
        }
        let refused = begin(from, &contents[12]);
        assert_eq!(refused, Err(PutRefusal::Busy), "four of each");
    }
    assert_eq!(begin(&at(3), &contents[12]), Err(PutRefusal::Busy));
    assert_eq!(bench.incoming(), 12);
    let later = Instant::now() + Duration::from_secs(61);
    bench.files.0.uploads.lock().end_idle(later);
    assert_eq!(bench.incoming(), 0);
    let piece = bench.piece("up", (&contents[0], &contents[0][66_000..]), (1, 66_000));
    let piece = piece.expect_err("it is over").to_string();
    assert!(piece.contains("begin it again"), "{piece}");
}

#[test]
fn names_that_lead_elsewhere_are_refused() {
    let bench = Bench::new(&[]);
    for name in [
        "",
        "/etc/passwd",
        "../up",
        "a/../b",
        "a//b",
        "folder/",
        "a\nb",
        "./a",
    ] {
        let refused = bench.put(name, b"content").expect_err(name).to_string();
        assert!(refused.contains("is no name of a file"), "{refused}");
    }
    bench.put("a/b", b"content").expect("a good name");
}

/// Uploads a file of one piece for a caller.
fn put_by(bench: &Bench, from: &Principal, name: &str, content: &[u8]) -> Result<(), PutRefusal> {
    let file = (name.to_owned(), artifact(content));
    let put = Put::new(file, (0, 0), content.to_vec()).by(from.clone());
    bench.files.put(put, || false).map(|_| ())
}

#[test]
fn an_uploaded_file_is_replaced_and_removed_by_its_owner_alone() {
    let of = |role: Role, owner: Option<&str>| {
        let from = SocketAddr::from(([10, 0, 0, 1], 1));
        Principal::Authenticated(Arc::new(Identity {
            owner: owner.map(Arc::from),
            ..Identity::new(role, IdentityProof::Token, from)
        }))
    };
    let (ana, bob) = (
        of(Role::Submitter, Some("ana")),
        of(Role::Submitter, Some("bob")),
    );
    let operator = of(Role::Operator, None);
    let bench = Bench::new(&[]);
    put_by(&bench, &ana, "anas", b"one").expect("a new name");
    put_by(&bench, &operator, "nobodys", b"one").expect("a new name");
    // The file of an owner stays its own, whoever else replaces it.
    put_by(&bench, &operator, "anas", b"two").expect("an operator");
    let bench = bench.restart(&[]);
    for (from, name, is_own) in [
        (&bob, "anas", false),
        (&ana, "nobodys", false),
        (&ana, "anas", true),
    ] {
        let put = put_by(&bench, from, name, b"three");
        assert_eq!(put.is_ok(), is_own, "{name}: {put:?}");
        assert_eq!(
            bench.files.check_owner(from, name).is_ok(),
            is_own,
            "{name}"
        );
        if !is_own {
            assert!(matches!(put, Err(PutRefusal::NotOwner(_))), "{put:?}");
            bench
                .files
                .remove(from, name, || false)
                .expect_err("a refusal");
        }
    }
    assert_eq!(bench.files.remove(&ana, "anas", || false), Ok(true));
    put_by(&bench, &bob, "anas", b"four").expect("a free name");
    bench
        .files
        .remove(&ana, "anas", || false)
        .expect_err("a refusal");
    // Another caller cannot go on with an upload.
    let content = vec![7; 70_000];
    let file = ("begun".to_owned(), artifact(&content));
    let first = Put::new(file.clone(), (0, 0), content[..66_000].to_vec()).by(ana);
    let Ok(PutProgress::Wants { upload, offset }) = bench.files.put(first, || false) else {
        panic!("the upload goes on");
    };
    let rest = Put::new(file, (upload, offset), content[66_000..].to_vec()).by(bob);
    let refused = bench
        .files
        .put(rest, || false)
        .expect_err("a refusal")
        .to_string();
    assert!(refused.contains("begin it again"), "{refused}");
}

#[test]
fn a_content_without_a_name_is_deleted_after_a_while() {
    let bench = Bench::new(&[]);
    bench.put("up", b"old").expect("taken");
    bench.put("up", b"new").expect("taken");
    let (old, now) = (artifact(b"old").id, Instant::now());
    assert!(bench.files.unnamed_since(now).is_empty());
    assert!(
        bench.files.known().stored.contains(&old),
        "running tasks have it"
    );
    let due = bench.files.unnamed_since(now + GRACE);
    assert_eq!(due, [old].into());
    // It gets a name again before it is deleted.
    bench.put("again", b"old").expect("taken");
    bench.files.delete_unnamed(vec![old]);
    assert!(bench.files.known().stored.contains(&old));
    assert_eq!(
        bench.files.remove(&Principal::Own, "again", || false),
        Ok(true)
    );
    assert_eq!(
        bench.files.remove(&Principal::Own, "again", || false),
        Ok(false)
    );
    bench.files.delete_unnamed(vec![old]);
    assert_eq!(bench.files.known().stored, [artifact(b"new").id].into());
}

#[test]
fn a_damaged_copy_is_dropped_and_a_file_of_the_folder_is_read_again() {
    let mut bench = Bench::new(&["a"]);
    bench.write("a", "content");
    bench.settle();
    let id = artifact(b"content").id;
    let copy = format!("data/files/content/c1/{}/{id}", &id.to_string()[..2]);
    fs::remove_file(bench.root.path().join(copy)).expect("the copy");
    assert!(
        bench
            .files
            .0
            .store
            .check(&bench.files.0.namespace, id)
            .is_err()
    );
    assert!(!bench.files.known().stored.contains(&id));
    bench.settle();
    assert!(bench.files.known().stored.contains(&id));
}

/// Returns the options of a mount of a small file system.
fn on_full_disk(test: fn(&Path)) {
    use nix::mount::{MntFlags, MsFlags, mount, umount2};
    use nix::sched::{CloneFlags, unshare};
    let thread = std::thread::spawn(move || {
        let root = tempfile::tempdir().expect("a folder");
        let mounted = unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_FS)
            .and_then(|()| {
                mount(
                    None::<&str>,
                    "/",
                    None::<&str>,
                    MsFlags::MS_REC | MsFlags::MS_PRIVATE,
                    None::<&str>,
                )
            })
            .and_then(|()| {
                let options = Some("size=1m,mode=700");
                mount(
                    Some("tmpfs"),
                    root.path(),
                    Some("tmpfs"),
                    MsFlags::empty(),
                    options,
                )
            });
        match mounted {
            Ok(()) => {
                test(root.path());
                let _ = umount2(root.path(), MntFlags::MNT_DETACH);
            }
            Err(error) => eprintln!("unproven: a full disk cannot be made here: {error}"),
        }
    });
    thread.join().expect("the disk's part went well");
}

#[test]
fn a_full_disk_is_an_error_for_people_and_no_crash() {
    on_full_disk(|disk| {
        let root = tempfile::tempdir_in(disk).expect("a folder");
        fs::create_dir(root.path().join("conf")).expect("a folder");
        let mut bench = Bench::on(root, &["a"]);
        bench.write("a", vec![1; 1000]);
        let filler = disk.join("filler");
        let filled = fs::write(&filler, vec![0; 2 << 20]);
        assert!(filled.is_err(), "the disk is full");
        bench.look();
        let why = bench.why("a");
        assert!(
            why.contains("make space") || why.contains("Check the disk"),
            "{why}"
        );
        let refused = bench
            .put("up", &[2; 1000])
            .expect_err("no space")
            .to_string();
        assert!(refused.contains("space"), "{refused}");
        fs::remove_file(filler).expect("removed");
        bench.settle();
        assert_eq!(bench.configured()["a"], present(&[1; 1000]));
        bench.put("up", &[2; 1000]).expect("there is space");
    });
}

#[test]
fn a_plan_finds_the_files_that_are_not_in_the_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("here"), "").expect("it is written");
    symlink("/etc/passwd", folder.path().join("outside")).expect("a link");
    let config = config(&["here", "gone", "outside"]);
    let absent = absent_files(&config, folder.path());
    // A file that is there and cannot be an input is another problem.
    assert_eq!(absent, [Arc::from("gone")].into());
}
