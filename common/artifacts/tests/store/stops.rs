//! Tests of copies that a caller stops.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

use brasserie_common_artifacts::{StageError, StopCheck, TakeInError};

use crate::bench::{Bench, paths_below};

/// Bytes of several chunks.
const BYTES: usize = 3 << 20;

/// Calls an operation that is stopped at its first check, then at its second, until it succeeds. Returns the number of its checks.
fn stop_at_each_check<T, E>(
    mut operation: impl FnMut(StopCheck<'_>) -> Result<T, E>,
    mut stopped: impl FnMut(E),
) -> usize {
    for number in 0.. {
        let checks = AtomicUsize::new(0);
        let is_stopped = || checks.fetch_add(1, Ordering::Relaxed) >= number;
        match operation(StopCheck(&is_stopped)) {
            Ok(_) => return number,
            Err(error) => stopped(error),
        }
    }
    unreachable!("each operation ends")
}

#[test]
fn a_stopped_copy_leaves_nothing() {
    let disk = tempfile::tempdir().expect("a folder");
    let bench = Bench::on(&[disk.path()]);
    bench.write("folder/a", vec![1; BYTES]);
    bench.write("folder/b/c", "c");
    for (output, least) in [("file", 3), ("folder/", 5)] {
        bench.write("file", vec![2; BYTES]);
        let incoming = disk.path().join("incoming");
        let checks = stop_at_each_check(
            |stop| bench.take_until(output, stop),
            |error| {
                assert!(matches!(error, TakeInError::Stopped), "{error}");
                assert!(bench.store.holdings(&bench.namespace).is_empty());
                let left = fs::read_dir(&incoming).expect("it is there").count();
                assert_eq!(left, 0, "{output}");
            },
        );
        assert!(checks >= least, "{output}: {checks}");
        let artifact = bench.take(output).expect("it was taken before");
        let checks = stop_at_each_check(
            |stop| bench.stage_until(&artifact, "input", stop),
            |error| {
                assert!(matches!(error, StageError::Stopped), "{error}");
                assert_eq!(paths_below(bench.inputs.path()).len(), 0, "{output}");
            },
        );
        assert!(checks >= least, "{output}: {checks}");
        let staged = bench.inputs.path().join("input");
        match output {
            "file" => fs::remove_file(staged),
            _ => fs::remove_dir_all(staged),
        }
        .expect("it is there");
        let failed = bench.store.delete(&bench.namespace, [artifact.id]);
        assert!(failed.is_empty());
    }
}

/// The files of a folder are created on several threads, and all of them have ended when the copy has.
#[test]
fn a_folder_of_many_files_leaves_nothing_when_it_is_stopped() {
    let disk = tempfile::tempdir().expect("a folder");
    let bench = Bench::on(&[disk.path()]);
    for number in 0..300 {
        bench.write(&format!("folder/{}/{number}", number % 3), vec![1; 4096]);
    }
    let artifact = bench.take("folder/").expect("a folder");
    for most in [1, 7, 100, 400] {
        let checks = AtomicUsize::new(0);
        let is_stopped = || checks.fetch_add(1, Ordering::Relaxed) >= most;
        let staged = bench.stage_until(&artifact, "input", StopCheck(&is_stopped));
        assert!(matches!(staged, Err(StageError::Stopped)), "{staged:?}");
        assert_eq!(paths_below(bench.inputs.path()).len(), 0, "{most}");
    }
    let staged = bench.stage(&artifact, "input").expect("staged");
    assert_eq!(paths_below(&staged).len(), 303);
}
