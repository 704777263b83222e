//! A short run of `chaos`, which plays real clusters under faults: a few seeds with very different plans.

use std::process::Command;

use integration_tests::e2e::{PATIENCE, wait_within, warn_not_run};

/// The plans of these seeds kill, stop and cut off programs, stall and close logs, and fill, remove and damage disks.
const SEEDS: u64 = 2;

#[test]
fn real_clusters_keep_their_promises_under_faults() {
    if !nix::unistd::geteuid().is_root() {
        return warn_not_run("chaos", &"only root may mount disks and make namespaces");
    }
    let mut child = Command::new(env!("CARGO_BIN_EXE_chaos"))
        .args(["--seed", "1", "--seeds", &SEEDS.to_string()])
        .spawn()
        .expect("the program starts");
    let status = wait_within(PATIENCE * 2 * SEEDS as u32, "the end of chaos", || {
        child.try_wait().expect("one's own child can be waited for")
    });
    assert!(status.success(), "{status}");
}
