//! Tests of the archives of folders: their exact bytes, and the archives that are refused.

use sha2::{Digest, Sha256};

use super::*;

const PLAIN: FileMode = FileMode::Plain;

fn file(size: u64) -> EntryKind {
    EntryKind::File { size, mode: PLAIN }
}

/// An archive of entries with their contents.
fn archive(entries: &[(&str, EntryKind, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (path, kind, content) in entries {
        bytes.extend(header(path.as_bytes(), *kind));
        bytes.extend(*content);
        bytes.extend(padding(content.len() as u64));
    }
    bytes.extend(END);
    bytes
}

fn read_all(bytes: &[u8], limits: FolderLimits) -> Result<Vec<(ArchiveEntry, Vec<u8>)>, String> {
    let mut reader = ArchiveReader::new(bytes, limits);
    let mut entries = Vec::new();
    while let Some(entry) = reader.next().map_err(|error| error.to_string())? {
        let (mut content, mut buffer) = (Vec::new(), [0; 100]);
        loop {
            match reader
                .read(&mut buffer)
                .map_err(|error| error.to_string())?
            {
                0 => break,
                count => content.extend(&buffer[..count]),
            }
        }
        entries.push((entry, content));
    }
    Ok(entries)
}

fn refusal(bytes: &[u8]) -> String {
    read_all(bytes, FolderLimits::default()).expect_err("it is refused")
}

fn sample() -> Vec<u8> {
    let deep = format!("a/{}", "n".repeat(150));
    let run = EntryKind::File {
        size: 3,
        mode: FileMode::Executable,
    };
    archive(&[
        ("a", EntryKind::Folder, b""),
        (&deep, EntryKind::Folder, b""),
        (&format!("{deep}/x"), file(0), b""),
        ("a.txt", file(6), b"hello\n"),
        ("run", run, b"#!x"),
    ])
}

/// The name of each folder in each store depends on these bytes: a change of them is a new kind of artifact.
#[test]
fn the_bytes_of_an_archive_never_change() {
    let digest = |bytes: &[u8]| -> String {
        let digest = Sha256::digest(bytes);
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    };
    assert_eq!(
        digest(&sample()),
        "c950a32fe6d1d3244a8475819e38f426d61ca96e017ef874744c69202c2b7ebc"
    );
    assert_eq!(
        digest(&archive(&[])),
        "5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef"
    );
}

#[test]
fn an_archive_is_read_back() {
    let entries = read_all(&sample(), FolderLimits::default()).expect("our own form");
    let seen: Vec<(usize, usize, &[u8])> = entries
        .iter()
        .map(|(entry, content)| (entry.depth, entry.name.len(), content.as_slice()))
        .collect();
    assert_eq!(
        seen,
        [
            (0, 1, &b""[..]),
            (1, 150, b""),
            (2, 1, b""),
            (0, 5, b"hello\n"),
            (0, 3, b"#!x")
        ]
    );
    assert_eq!(read_all(&END, FolderLimits::default()), Ok(Vec::new()));
}

/// Each changed bit is refused, unless it is in a content or gives another archive in our form, such as one with another name.
#[test]
fn accepted_archives_are_in_the_one_form() {
    let bytes = sample();
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        let Ok(entries) = read_all(&changed, FolderLimits::default()) else {
            continue;
        };
        let mut path: Vec<Vec<u8>> = Vec::new();
        let mut again = Vec::new();
        for (entry, content) in entries {
            path.truncate(entry.depth);
            path.push(entry.name);
            again.extend(header(&path.join(&b'/'), entry.kind));
            again.extend(&content);
            again.extend(padding(content.len() as u64));
        }
        again.extend(END);
        assert!(again == changed, "byte {at}");
    }
}

#[test]
fn foreign_archives_are_refused() {
    let folder = EntryKind::Folder;
    for path in ["..", "a/..", ".", "/a", "a//b", "", "../x"] {
        let text = refusal(&archive(&[("a", folder, b""), (path, file(0), b"")]));
        assert!(
            text.contains("empty name") || text.contains("order"),
            "{path}: {text}"
        );
    }
    for entries in [
        [("b", file(0)), ("a", file(0))],
        [("a", file(0)), ("a", file(0))],
        [("a", file(0)), ("a/b", file(0))],
        [("a", folder), ("b/c", file(0))],
        [("a", folder), ("a", folder)],
    ] {
        let entries = entries.map(|(path, kind)| (path, kind, &b""[..]));
        assert!(refusal(&archive(&entries)).contains("order"), "{entries:?}");
    }
    let link = {
        let mut bytes = archive(&[("a", file(0), b"")]);
        bytes[..BLOCK].copy_from_slice(&block(b"a", b'2', 0, b"0000644"));
        bytes
    };
    assert!(refusal(&link).contains("neither a file nor a folder"));
    let with_setuid = {
        let mut bytes = archive(&[("a", file(0), b"")]);
        bytes[..BLOCK].copy_from_slice(&block(b"a", TYPE_FILE, 0, b"0004755"));
        bytes
    };
    assert!(refusal(&with_setuid).contains("header differs"));
    let sample = sample();
    for length in [0, 100, 512, 1500, sample.len() - 1] {
        assert!(refusal(&sample[..length]).contains("ends"), "{length}");
    }
    let longer = [sample.as_slice(), b"x"].concat();
    assert!(refusal(&longer).contains("bytes follow the end"));
    let endless = archive(&[("a", file(u64::MAX), b"abc")]);
    assert!(refusal(&endless).contains("ends within a file"));
}

#[test]
fn limits_of_folders_hold() {
    let limits = FolderLimits {
        entries: 2,
        depth: 2,
        path_bytes: 120,
    };
    let folder = EntryKind::Folder;
    let long = "n".repeat(120);
    let fits = archive(&[("a", folder, b""), ("a/b", folder, b"")]);
    assert!(read_all(&fits, limits).is_ok());
    assert!(read_all(&archive(&[(&long, folder, b"")]), limits).is_ok());
    let longer = "n".repeat(121);
    for entries in [
        &[
            ("a", folder, &b""[..]),
            ("b", folder, b""),
            ("c", folder, b""),
        ][..],
        &[
            ("a", folder, b""),
            ("a/b", folder, b""),
            ("a/b/c", folder, b""),
        ],
        &[(&longer, folder, b"")],
    ] {
        let text = read_all(&archive(entries), limits).expect_err("refused");
        assert!(text.contains("too"), "{text}");
    }
}

#[test]
fn another_reader_of_tar_finds_the_same_entries() {
    let bytes = sample();
    let mut other = tar::Archive::new(bytes.as_slice());
    let entries = other.entries().expect("an archive");
    let seen: Vec<(usize, u64, u32)> = entries
        .map(|entry| {
            let entry = entry.expect("an entry");
            let mode = entry.header().mode().expect("a mode");
            (entry.path_bytes().len(), entry.size(), mode)
        })
        .collect();
    assert_eq!(
        seen,
        [
            (2, 0, 0o755),
            (153, 0, 0o755),
            (154, 0, 0o644),
            (5, 6, 0o644),
            (3, 3, 0o755)
        ]
    );
    let large = header(b"large", file(1 << 40));
    let large = tar::Header::from_byte_slice(&large);
    assert_eq!(large.size().expect("a size"), 1 << 40);
    let empty = read_all(&large_and_sparse(), FolderLimits::default());
    assert!(
        empty
            .expect_err("no content")
            .contains("ends within a file")
    );
}

fn large_and_sparse() -> Vec<u8> {
    [header(b"large", file(1 << 40)).as_slice(), b"x"].concat()
}
