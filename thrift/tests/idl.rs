//! Tests that the interface and its description change together.

use std::fs;
use std::path::Path;

/// FNV-1a. The digest guards against forgetting, not against forgery.
fn digest(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[test]
fn the_idl_changes_with_its_description_only() {
    let room = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files: Vec<_> = fs::read_dir(room.join("idl"))
        .expect("the IDL is in the source tree")
        .map(|entry| entry.expect("a folder that can be read").path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "thrift"))
        .collect();
    files.sort();
    let texts: Vec<_> = files
        .iter()
        .map(|file| fs::read_to_string(file).expect("a text"))
        .collect();
    assert_eq!(texts.len(), 6, "{files:?}");
    let line = format!("IDL digest: {:016x}", digest(texts.concat().bytes()));
    let description = fs::read_to_string(room.join("PROTOCOL.md")).expect("the description");
    assert!(
        description.lines().any(|other| other == line),
        "the files in thrift/idl changed: describe the change in thrift/PROTOCOL.md and put this line there:\n{line}"
    );
}
