//! Names the files of a run. Performs no input or output.

use std::path::{Path, PathBuf};

use brasserie_common::{InvocationId, JobName, NodeName};

use super::{Stream, Streams};
use brasserie_common::file_name::file_name;

/// The end of the files' names.
const SUFFIX: &str = ".gz";

/// Returns the file for each stream. Whatever the names are, the files are below the folder, and no two runs share one.
pub(crate) fn files_of(
    dir: &Path,
    invocation: InvocationId,
    job: &JobName,
    node: &NodeName,
) -> Streams<PathBuf> {
    let folder = dir
        .join(file_name(job.as_str()))
        .join(file_name(node.as_str()));
    Stream::ALL.map(|stream| folder.join(name_of(invocation, stream)))
}

fn name_of(invocation: InvocationId, stream: Stream) -> String {
    let id = invocation.0;
    let stream = stream.as_str();
    format!("{}-{:016x}.{stream}{SUFFIX}", id.start_time, id.rand)
}

/// Returns whether a file has a name from [`files_of`]. Retention removes such files, and no file that a user has put beside them.
pub(super) fn is_own(name: &str) -> bool {
    let invocation = || {
        let (id, _) = name.split_once('.')?;
        let (start, rand) = id.rsplit_once('-')?;
        let rand = u64::from_str_radix(rand, 16).ok()?;
        Some(InvocationId::new(start.parse().ok()?, rand.cast_signed()))
    };
    invocation().is_some_and(|id| {
        Stream::ALL
            .iter()
            .any(|stream| name_of(id, *stream) == name)
    })
}

#[cfg(test)]
mod tests {
    use std::path::Component;

    use proptest::prelude::*;

    use super::*;

    integration_tests_properties::properties! {
        256;

        #[test]
        fn every_run_has_files_of_its_own_below_the_folder(
            names in proptest::collection::vec(("[./~%ab]{0,100}", "[./~%ab]{0,100}", any::<i64>(), any::<i64>()), 2)
        ) {
            let dir = Path::new("/data/output");
            let files: Vec<[PathBuf; 2]> = names.iter().map(|(job, node, start, rand)| {
                let job = JobName::try_from(job.as_str()).expect("a name");
                let node = NodeName::try_from(node.as_str()).expect("a name");
                files_of(dir, InvocationId::new(*start, *rand), &job, &node)
            }).collect();
            for file in files.iter().flatten() {
                let below = file.strip_prefix(dir).expect("below the folder");
                let parts: Vec<Component<'_>> = below.components().collect();
                prop_assert_eq!(parts.len(), 3);
                for part in parts {
                    prop_assert!(matches!(part, Component::Normal(name) if name.len() <= 255), "{:?}", file);
                }
            }
            for file in files.iter().flatten() {
                let name = file.file_name().and_then(|name| name.to_str()).expect("a name");
                prop_assert!(is_own(name), "{}", name);
                prop_assert!(!is_own(&name.replace("-", "-0")) && !is_own(&format!("x{name}")), "{}", name);
            }
            prop_assert_ne!(&files[0][0], &files[0][1]);
            prop_assert_eq!(names[0] == names[1], files[0] == files[1]);
        }
    }
}
