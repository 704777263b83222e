//! The artifacts of a job as its config declares them: the outputs that its tasks leave, and the inputs that they need.
//!
//! `outputs` and `inputs` read these from a file, and `input_checks` compares the inputs of a job with the outputs of other jobs.

use std::fmt;
use std::num::NonZeroU8;
use std::sync::Arc;
use std::time::Duration;

use brasserie_common::{JobName, OutputPath};

/// The number of outputs that a job may have. The report of a completion names each of them, with a path of up to
/// [`OutputPath::MAX_BYTES`], so that this many fit into 64 KiB and some digests. An output may be a folder with any number of files.
pub const MAX_OUTPUTS: usize = 64;

/// The number of inputs that a job may have. Each one is compared with every other one, which takes less than a millisecond for this many.
/// One input may be a folder, or all outputs of a job.
pub const MAX_INPUTS: usize = 256;

/// The number of artifacts that all inputs of a task may be. The scheduler looks each of them up several times before it starts the task,
/// and answers no heartbeat meanwhile.
pub const MAX_TASK_ARTIFACTS: usize = 65_536;

/// A file or a folder that each task of a job leaves for tasks of other jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobOutput {
    pub path: OutputPath,
    pub replicas: Replicas,
    /// Whether a task that reads the output starts only when as many workers have a copy as `replicas` says. Has no effect for a single
    /// replica.
    pub wait_for_replica: bool,
}

impl JobOutput {
    /// Returns the output that a config describes by its path alone.
    pub fn new(path: OutputPath) -> Self {
        JobOutput {
            path,
            replicas: Replicas::ONE,
            wait_for_replica: false,
        }
    }
}

/// The number of workers that keep a copy of an output, with the one on which the task ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Replicas(NonZeroU8);

impl Replicas {
    pub const ONE: Replicas = Replicas(NonZeroU8::MIN);

    /// Limit for the copies of an output. Eight copies survive the loss of seven workers. Tasks that read an output need no more, because
    /// each worker that has read it also holds a copy.
    pub const MAX: u8 = 8;

    /// Returns `None` for 0, and for a number above [`Replicas::MAX`].
    pub fn new(number: u8) -> Option<Self> {
        NonZeroU8::new(number)
            .filter(|number| number.get() <= Self::MAX)
            .map(Replicas)
    }

    pub fn get(self) -> u8 {
        self.0.get()
    }
}

/// The time for which the outputs of a run are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepOutputs {
    /// Outputs are kept until every task is done that has them as inputs.
    UntilConsumed,
    /// Outputs are kept for this long after the completion of the run; above 0.
    For(Duration),
    /// Outputs are kept as long as a client holds them.
    WhileHeld,
    Forever,
}

/// Returns a week, in which someone has time to examine a failed job and to run it again from the outputs of the jobs before it.
impl Default for KeepOutputs {
    fn default() -> Self {
        KeepOutputs::For(Duration::from_secs(7 * 24 * 60 * 60))
    }
}

/// Files that each task of a job finds below `$BRASSERIE_INPUTS`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobInput {
    pub source: InputSource,
    /// The place that the config gives the input, as [`JobInput::place`] returns it. `None` for the default.
    pub name: Option<InputPath>,
}

/// The origin of an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InputSource {
    /// Outputs of another job.
    Job {
        job: JobName,
        nodes: InputNodes,
        /// One output of the job; `None` for all of them.
        path: Option<OutputPath>,
    },
    /// A file that the scheduler sends with the job.
    File {
        /// A path below the folder of the config file.
        path: String,
    },
}

/// The nodes whose tasks of another job leave the input of a task, relative to the task's own node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InputNodes {
    #[default]
    Same,
    Parent,
    Children,
    /// Each node on which the other job runs.
    All,
}

impl InputNodes {
    pub const EACH: [InputNodes; 4] = [
        InputNodes::Same,
        InputNodes::Parent,
        InputNodes::Children,
        InputNodes::All,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            InputNodes::Same => "same",
            InputNodes::Parent => "parent",
            InputNodes::Children => "children",
            InputNodes::All => "all",
        }
    }

    /// Returns whether the outputs of each node are in a folder of their own, because a task may have those of several nodes.
    pub fn are_several(self) -> bool {
        match self {
            InputNodes::Same | InputNodes::Parent => false,
            InputNodes::Children | InputNodes::All => true,
        }
    }
}

impl JobInput {
    /// Returns the place of the input below `$BRASSERIE_INPUTS`. The place of a file is the file. The place of outputs is a folder, in which
    /// each output has its own path, below a folder for its node if [`InputNodes::are_several`].
    ///
    /// `None` if the input has no name, and the name of its job or file is no place. The parser refuses such an input.
    pub fn place(&self) -> Option<InputPath> {
        let default = || match &self.source {
            InputSource::Job { job, .. } => InputPath::new(job.as_str()),
            InputSource::File { path } => InputPath::new(path.rsplit('/').next()?),
        };
        self.name.clone().or_else(default)
    }
}

/// The place of an input below `$BRASSERIE_INPUTS`: `dims.csv`, or `geo/cities`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InputPath(Arc<str>);

impl InputPath {
    /// Returns `None` for a text that is no [`OutputPath`], or that ends with a slash.
    pub fn new(text: &str) -> Option<Self> {
        let path = OutputPath::try_from(text).ok()?;
        (!path.is_folder()).then(|| InputPath(text.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for InputPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_are_one_to_eight() {
        assert_eq!(Replicas::new(1), Some(Replicas::ONE));
        assert_eq!(Replicas::new(8).map(Replicas::get), Some(8));
        assert_eq!((Replicas::new(0), Replicas::new(9)), (None, None));
    }

    #[test]
    fn an_input_has_the_name_of_its_source_unless_it_has_its_own() {
        let place = |source: InputSource, name: Option<&str>| {
            let name = name.and_then(InputPath::new);
            JobInput { source, name }
                .place()
                .map(|place| place.to_string())
        };
        let job = |name: &str| InputSource::Job {
            job: JobName::try_from(name).expect("not empty"),
            nodes: InputNodes::All,
            path: OutputPath::try_from("stats/").ok(),
        };
        let file = |path: &str| InputSource::File {
            path: path.to_owned(),
        };
        for (source, name, expected) in [
            (job("etl/extract"), None, Some("etl/extract")),
            (job("extract"), Some("tables/raw"), Some("tables/raw")),
            (job("../extract"), None, None),
            (job("../extract"), Some("tables"), Some("tables")),
            (file("./geo/dims.csv"), None, Some("dims.csv")),
            (file("dims.csv"), Some("d"), Some("d")),
        ] {
            assert_eq!(
                place(source.clone(), name).as_deref(),
                expected,
                "{source:?}"
            );
        }
        for wrong in ["", "a/", "/a", "a/../b"] {
            assert_eq!(InputPath::new(wrong), None, "{wrong}");
        }
    }
}
