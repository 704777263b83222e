//! Tests copies that share their blocks, on a file system that can do so.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::bench::{Bench, id_of, on_image, set_mode};

const IMAGE_BYTES: u64 = 320 << 20;

/// The blocks of all copies are more than the file system has.
fn copies_share_blocks(place: &Path) {
    let disk = place.join("disk");
    let mut bench = Bench::on(&[&disk]);
    bench.task = tempfile::tempdir_in(place).expect("a folder");
    bench.inputs = tempfile::tempdir_in(place).expect("a folder");
    let content = vec![5; 90 << 20];
    let output = bench.write("big", &content);
    let artifact = bench.take("big").expect("the blocks exist already");
    assert_eq!(artifact.id, id_of(&content));
    let inputs = ["one", "two", "three"].map(|name| {
        let staged = bench.stage(&artifact, name);
        staged.expect("the blocks exist already")
    });
    // Each copy is a file of its own.
    fs::write(output, "changed").expect("its own file");
    set_mode(&inputs[0], 0o600);
    fs::write(&inputs[0], "changed").expect("its own file");
    bench
        .store
        .check(&bench.namespace, artifact.id)
        .expect("unchanged");
    // A damaged artifact is found in its copy.
    let file = bench.file_of(artifact.id);
    set_mode(&file, 0o600);
    let mut damaged = content;
    damaged[1 << 20] = 6;
    fs::write(&file, damaged).expect("ours");
    let error = bench.stage(&artifact, "four").expect_err("damaged");
    assert!(error.to_string().contains("another SHA-256"), "{error}");
    assert!(!bench.inputs.path().join("four").exists() && !file.exists());
    bench.assert_consistent();
}

#[test]
fn copies_share_blocks_where_the_file_system_can() {
    let make = |image: &Path| {
        let mut command = Command::new("mkfs.xfs");
        command.args(["-q", "-m", "reflink=1"]).arg(image);
        command
    };
    on_image("xfs", IMAGE_BYTES, make, |place, _| {
        copies_share_blocks(place)
    });
}
