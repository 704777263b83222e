//! Reads `outputs` and `keep`: the files that each task of a job leaves for other tasks, and how long they are kept.

use brasserie_common::OutputPath;
use brasserie_common::time::parse_duration;

use crate::artifacts::{JobOutput, KeepOutputs, MAX_OUTPUTS, Replicas};
use crate::coerce::{begins_with_digit, set};
use crate::keys::{Key, Shape, names};
use crate::model::JobConfig;
use crate::read::{At, Notes, suggest};
use crate::tree::{Value, quote};

pub(crate) const OUTPUTS_KEY: Key = Key::new(
    OUTPUTS,
    Shape::List(&Shape::Either(&[Shape::Name, Shape::Fields(OUTPUT_KEYS)])),
    "The files that each task leaves for tasks of other jobs: paths below its working directory, or objects with more about them. The path of a folder ends with `/`.",
);
pub(crate) const KEEP_KEY: Key = Key::new(
    KEEP,
    Shape::Either(&[Shape::Words(|| names(KEEP_WORDS)), Shape::Duration]),
    "The time for which the outputs of the job are kept after the last completion of a task that wrote or read them. `until_consumed` is until all tasks are done that have them as inputs; `while_held` is as long as `brasserie artifact hold` runs for the job.",
);
const OUTPUT_KEYS: &[Key] = &[
    Key::required(
        PATH,
        Shape::Name,
        "The path of the output below the working directory of the task. The path of a folder ends with `/`.",
    ),
    Key::new(
        REPLICAS,
        Shape::Integer(1, Replicas::MAX as i64),
        "The number of workers that keep a copy, with the one on which the task ran. The largest number of a job counts for all of its outputs.",
    ),
    Key::new(
        WAIT_FOR_REPLICA,
        Shape::Truth,
        "With `true`, a task that reads the output starts only when as many workers have a copy as `replicas` says.",
    ),
];
pub(crate) const OUTPUTS: &str = "outputs";
pub(crate) const KEEP: &str = "keep";
pub(crate) const PATH: &str = "path";
pub(crate) const REPLICAS: &str = "replicas";
pub(crate) const WAIT_FOR_REPLICA: &str = "wait_for_replica";

pub(crate) const KEEP_WORDS: &[(&str, KeepOutputs); 3] = &[
    ("until_consumed", KeepOutputs::UntilConsumed),
    ("while_held", KeepOutputs::WhileHeld),
    ("forever", KeepOutputs::Forever),
];

const PATH_HELP: &str = "as in \"table.parquet\", or \"stats/\" for a folder";

/// Whether all outputs of a job are good, so that the model has all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputsRead {
    All,
    Some,
}

/// Reads the outputs of a job, and how long they are kept.
pub(crate) fn outputs(at: &At, job: &mut JobConfig, notes: &mut Notes) -> OutputsRead {
    let list = at.get(OUTPUTS);
    let read = match &list {
        Some(list) => output_list(list, &mut job.outputs, notes),
        None if at.report_misspelt(OUTPUTS, notes) => OutputsRead::Some,
        None => OutputsRead::All,
    };
    at.report_misspelt(KEEP, notes);
    if let Some(at) = at.get(KEEP) {
        set(&mut job.keep, keep(&at, notes));
        let is_empty = match &list {
            Some(list) => list.as_array().is_some_and(<[_]>::is_empty),
            None => read == OutputsRead::All,
        };
        if is_empty {
            notes.warning(
                at.key_problem(format!("has no effect: the job has no `{OUTPUTS}`"))
                    .help("remove the key, or list the files that its tasks leave"),
            );
        }
    }
    read
}

fn output_list(at: &At, outputs: &mut Vec<JobOutput>, notes: &mut Notes) -> OutputsRead {
    if !at.expect_array("outputs", notes) {
        return OutputsRead::Some;
    }
    let mut read = OutputsRead::All;
    if let Some(excess) = at.items().nth(MAX_OUTPUTS) {
        let text = format!("more than {MAX_OUTPUTS} outputs");
        let help = "let the tasks put the files into a folder, and list the folder";
        notes.error(excess.problem(text).help(help));
        read = OutputsRead::Some;
    }
    // The position in the file of each output that was accepted.
    let mut positions: Vec<usize> = Vec::new();
    for (position, item) in at.items().take(MAX_OUTPUTS).enumerate() {
        let output = output(&item, notes);
        let output = output.inspect(|output| warn_of_pattern(&item, &output.path, notes));
        let output = output.filter(|output| {
            let overlaps = |other: &JobOutput| other.path.overlaps(&output.path);
            let other = outputs.iter().position(overlaps);
            if let Some(other) = other {
                let earlier = (&outputs[other].path, positions[other]);
                report_overlap(&item, &output.path, earlier, notes);
            }
            other.is_none()
        });
        match output {
            Some(output) => {
                outputs.push(output);
                positions.push(position);
            }
            None => read = OutputsRead::Some,
        }
    }
    read
}

/// Warns of a path that looks like a shell's pattern.
fn warn_of_pattern(item: &At, path: &OutputPath, notes: &mut Notes) {
    if path.as_str().contains(['*', '?', '[']) {
        let text = format!(
            "the path {} is no pattern: the task must leave a file of exactly this name",
            quote(path.as_str())
        );
        let help =
            "let the tasks put the files into a folder, and list the folder, as in \"tables/\"";
        let at_path = item.get(PATH);
        notes.warning(at_path.as_ref().unwrap_or(item).problem(text).help(help));
    }
}

/// Reports an output that is also, contains or lies in an earlier one, so that a file would belong to two artifacts.
fn report_overlap(
    item: &At,
    path: &OutputPath,
    (earlier, position): (&OutputPath, usize),
    notes: &mut Notes,
) {
    let (quoted, earlier_quoted) = (quote(path.as_str()), quote(earlier.as_str()));
    let earlier_name = format!("`{OUTPUTS}[{position}]`");
    let (text, help) = match path == earlier {
        true => (
            format!("the output {quoted} is also {earlier_name}"),
            "remove one of them",
        ),
        false => (
            format!(
                "the outputs {quoted} and {earlier_quoted} ({earlier_name}) overlap, and a file is in one output only"
            ),
            "remove one of them, or let the tasks use folders side by side",
        ),
    };
    let at_path = item.get(PATH);
    let at = at_path.as_ref().unwrap_or(item);
    notes.error(at.problem(text).help(help));
}

fn output(at: &At, notes: &mut Notes) -> Option<JobOutput> {
    match &at.node.value {
        Value::Object(_) => described_output(at, notes),
        Value::Array(_) | Value::Null => {
            let expected = at.expected("a path, or an object with a path");
            notes.error(expected.help(PATH_HELP));
            None
        }
        Value::String(_) | Value::Number(_) | Value::Bool(_) | Value::Unread => {
            output_path(at, notes).map(JobOutput::new)
        }
    }
}

fn described_output(at: &At, notes: &mut Notes) -> Option<JobOutput> {
    at.require_known_keys(OUTPUT_KEYS, notes);
    let path = at.required(PATH, PATH_HELP, notes);
    let path = path.and_then(|at| output_path(&at, notes));
    let replicas = match at.get(REPLICAS) {
        Some(at) => {
            let number = at.integer(1..=i64::from(Replicas::MAX), notes);
            number.and_then(|number| Replicas::new(u8::try_from(number).ok()?))
        }
        None => Some(Replicas::ONE),
    };
    let mut wait_for_replica = false;
    if let Some(at) = at.get(WAIT_FOR_REPLICA) {
        set(&mut wait_for_replica, at.boolean(notes));
        if wait_for_replica && replicas == Some(Replicas::ONE) {
            let text =
                format!("has no effect: the output has no second copy, as `{REPLICAS}` is 1");
            let help = format!("remove the key, or set `{REPLICAS}` to 2 or more");
            notes.warning(at.key_problem(text).help(help));
        }
    }
    Some(JobOutput {
        path: path?,
        replicas: replicas?,
        wait_for_replica,
    })
}

/// Reads the path of an output.
pub(crate) fn output_path(at: &At, notes: &mut Notes) -> Option<OutputPath> {
    let path = at.string(notes)?;
    match OutputPath::try_from(path.as_str()) {
        Ok(path) => Some(path),
        Err(error) => {
            let text = format!("{} is no path of an output: {error}", at.node);
            notes.error(at.problem(text).help(PATH_HELP));
            None
        }
    }
}

fn keep(at: &At, notes: &mut Notes) -> Option<KeepOutputs> {
    let words = KEEP_WORDS.map(|(word, _)| word);
    let is_duration = match &at.node.value {
        Value::Number(_) | Value::Unread => true,
        // An expected word is named if the text is no duration.
        Value::String(text) => {
            begins_with_digit(text) && (parse_duration(text).is_ok() || text.parse::<f64>().is_ok())
        }
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => false,
    };
    if is_duration {
        let time = at.duration(notes)?;
        if time.is_zero() {
            let help = format!("a duration above 0, or one of {}", words.join(", "));
            notes.error(
                at.problem(format!("{} keeps no output", at.node))
                    .help(help),
            );
            return None;
        }
        return Some(KeepOutputs::For(time));
    }
    let word = at.as_str().unwrap_or_default();
    let found = KEEP_WORDS.iter().find(|(name, _)| *name == word);
    if found.is_none() {
        let allowed = format!("{}, or a duration as in \"7d\"", words.join(", "));
        let nearest = suggest(word, words);
        let help = match nearest.starts_with("did") {
            true => format!("{nearest} (allowed: {allowed})"),
            false => format!("allowed: {allowed}"),
        };
        notes.error(at.expected("a duration or an allowed word").help(help));
    }
    found.map(|&(_, keep)| keep)
}
