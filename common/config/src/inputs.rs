//! Reads `inputs`: the files that the tasks of a job need, from tasks of other jobs or from the folder of the config file.
//!
//! `input_checks` compares them with the jobs that they name, and `waits` makes the job wait for these jobs.

use std::fmt;
use std::time::Duration;

use brasserie_common::{JobName, OutputPath, OutputPathError};

use crate::PathUse;
use crate::artifacts::{InputNodes, InputPath, InputSource, JobInput, MAX_INPUTS};
use crate::coerce::set;
use crate::keys::{Key, Shape};
use crate::model::JobConfig;
use crate::outputs::{PATH, output_path};
use crate::problem::Problem;
use crate::read::{At, Notes};
use crate::tree::{Place, quote, shorten};

pub(crate) const INPUTS_KEY: Key = Key::new(
    INPUTS,
    Shape::List(&Shape::Fields(INPUT_KEYS)),
    "The files that each task finds below `$BRASSERIE_INPUTS`. The job waits for the jobs from which they come.",
);
pub(crate) const LOCALITY_WAIT_KEY: Key = Key::new(
    LOCALITY_WAIT,
    Shape::Duration,
    "The time for which a task waits for the worker with the most bytes of its inputs, at most `1h`, if another worker could start it.",
);
const INPUT_KEYS: &[Key] = &[
    Key::new(
        FROM,
        Shape::Name,
        "The job whose outputs the input is. An input has either `from` or `file`.",
    ),
    Key::new(
        NODE,
        Shape::Words(|| InputNodes::EACH.map(InputNodes::as_str).to_vec()),
        "The nodes whose tasks of the other job leave the input, relative to the node of the task.",
    ),
    Key::new(
        PATH,
        Shape::Name,
        "One output of the other job, as its `outputs` has it.",
    ),
    Key::new(
        FILE,
        Shape::Name,
        "A file or folder below the folder of the config file, or a file that `brasserie artifact put` has uploaded under this name. The path of a folder may end with `/`.",
    ),
    Key::new(
        AS,
        Shape::Name,
        "The place of the input below `$BRASSERIE_INPUTS`: the file, or the folder in which the outputs have their paths.",
    ),
];
pub(crate) const INPUTS: &str = "inputs";
pub(crate) const LOCALITY_WAIT: &str = "locality_wait";
pub(crate) const FROM: &str = "from";
pub(crate) const NODE: &str = "node";
pub(crate) const FILE: &str = "file";
pub(crate) const AS: &str = "as";

/// The longest [`LOCALITY_WAIT`]: in an hour, a worker fetches terabytes.
const MAX_LOCALITY_WAIT: Duration = Duration::from_secs(3600);

const HELP: &str =
    "as in {\"from\": \"JOB\"}, or {\"file\": \"PATH\"} for a file in the config file's folder";

/// Outputs of another job that an input names, with the places of their names in the file.
#[derive(Clone, Debug)]
pub(crate) struct NeededOutputs {
    /// The position of the input in the list of the file.
    pub position: usize,
    pub job: JobName,
    pub nodes: InputNodes,
    /// `None` for all outputs.
    pub path: Option<OutputPath>,
    pub from_place: Place,
    pub node_place: Option<Place>,
    pub path_place: Option<Place>,
}

fn locality_wait(at: &At, notes: &mut Notes) -> Option<Duration> {
    let wait = at.duration(notes)?;
    if wait > MAX_LOCALITY_WAIT {
        let text = format!("{} is too long to wait for a worker", at.node);
        notes.error(at.problem(text).help("a duration of at most 1h"));
        return None;
    }
    Some(wait)
}

/// Reads the inputs of a job. Returns the outputs that they need, also those of inputs with another mistake.
pub(crate) fn inputs(at: &At, job: &mut JobConfig, notes: &mut Notes) -> Vec<NeededOutputs> {
    let mut needed = Vec::new();
    at.report_misspelt(INPUTS, notes);
    let list = at.get(INPUTS);
    if let Some(at) = at.get(LOCALITY_WAIT) {
        set(&mut job.locality_wait, locality_wait(&at, notes));
        let is_empty = |list: &At| list.as_array().is_some_and(<[_]>::is_empty);
        if list.as_ref().is_none_or(is_empty) {
            notes.warning(
                at.key_problem(format!("has no effect: the job has no `{INPUTS}`"))
                    .help("remove the key, or list the files that its tasks need"),
            );
        }
    }
    let Some(at) = list else {
        return needed;
    };
    if !at.expect_array("inputs", notes) {
        return needed;
    }
    if let Some(excess) = at.items().nth(MAX_INPUTS) {
        let text = format!("more than {MAX_INPUTS} inputs");
        let help = "put files into one folder that is an output, or leave out `path` to get all outputs of a job";
        notes.error(excess.problem(text).help(help));
    }
    let mut extents: Vec<(usize, Place, Extent)> = Vec::new();
    for (position, item) in at.items().take(MAX_INPUTS).enumerate() {
        let Some(input) = input(&item, position, &job.name, &mut needed, notes) else {
            continue;
        };
        let Some(extent) = Extent::of(&input) else {
            continue;
        };
        match extents.iter().find(|(.., other)| other.collides(&extent)) {
            Some(earlier) => report_collision(&item, &extent, earlier, notes),
            None => {
                extents.push((position, item.place(), extent));
                job.inputs.push(input);
            }
        }
    }
    needed
}

/// Returns whether the places of two inputs collide, so that no job may have both. For tests.
#[cfg(test)]
pub(crate) fn collide(one: &JobInput, other: &JobInput) -> bool {
    match (Extent::of(one), Extent::of(other)) {
        (Some(one), Some(other)) => one.collides(&other),
        (None, _) | (_, None) => false,
    }
}

/// The part of `$BRASSERIE_INPUTS` that an input fills.
struct Extent {
    /// The names from `$BRASSERIE_INPUTS` down. `None` is the name of a node, which may be any.
    parts: Vec<Option<String>>,
    is_folder: bool,
}

impl Extent {
    /// Returns `None` for an input without a place.
    fn of(input: &JobInput) -> Option<Extent> {
        let named = |part: &str| Some(part.to_owned());
        let mut parts: Vec<Option<String>> =
            input.place()?.as_str().split('/').map(named).collect();
        let mut is_folder = false;
        match &input.source {
            InputSource::Job { nodes, path, .. } => {
                if nodes.are_several() {
                    parts.push(None);
                }
                is_folder = path.as_ref().is_none_or(OutputPath::is_folder);
                parts.extend(path.iter().flat_map(OutputPath::parts).map(named));
            }
            InputSource::File { .. } => {}
        }
        Some(Extent { parts, is_folder })
    }

    /// Returns whether one may lie in the other, or be the same.
    fn collides(&self, other: &Extent) -> bool {
        self.parts
            .iter()
            .zip(&other.parts)
            .all(|(one, other)| one.is_none() || other.is_none() || one == other)
    }
}

/// Writes the path, with `NODE` for the name of a node.
impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<&str> = self
            .parts
            .iter()
            .map(|part| part.as_deref().unwrap_or("NODE"))
            .collect();
        let end = if self.is_folder { "/" } else { "" };
        f.write_str(&shorten(&format!("{}{end}", parts.join("/"))))
    }
}

fn report_collision(
    item: &At,
    extent: &Extent,
    (position, place, earlier): &(usize, Place, Extent),
    notes: &mut Notes,
) {
    let text = format!(
        "the input's place below `$BRASSERIE_INPUTS`, `{extent}`, collides with the place of `{INPUTS}[{position}]` at {}:{}, `{earlier}`",
        place.line, place.column,
    );
    let help = format!("give one of them another place with `{AS}`");
    notes.error(item.problem(text).help(help));
}

/// Reads one input. Adds the outputs that it names to `needed`. Returns `None` after a mistake.
fn input(
    at: &At,
    position: usize,
    own_name: &JobName,
    needed: &mut Vec<NeededOutputs>,
    notes: &mut Notes,
) -> Option<JobInput> {
    if at.as_object().is_none() {
        notes.error(at.expected("an object").help(HELP));
        return None;
    }
    at.require_known_keys(INPUT_KEYS, notes);
    let name = match at.get(AS) {
        Some(at) => input_place(&at, notes).map(Some),
        None => Some(None),
    };
    let source = match (at.get(FROM), at.get(FILE)) {
        (Some(from), None) => {
            let outputs = needed_outputs(at, &from, position, notes);
            if outputs.as_ref().is_some_and(|it| it.job == *own_name) {
                let help =
                    format!("name another job; a task finds its own files without `{INPUTS}`");
                let text = "a job cannot have its own outputs as inputs";
                notes.error(from.problem(text).help(help));
                return None;
            }
            needed.extend(outputs.clone());
            outputs.and_then(|outputs| source_of(at, outputs))
        }
        (None, Some(file)) => {
            refuse_keys_of_jobs(at, notes);
            file_path(&file, notes).map(|path| InputSource::File { path })
        }
        (Some(_), Some(file)) => {
            let text = format!("an input has either `{FROM}` or `{FILE}`");
            notes.error(file.key_problem(text).help("make two inputs of it"));
            None
        }
        (None, None) => {
            report_missing_source(at, notes);
            None
        }
    };
    let input = JobInput {
        source: source?,
        name: name?,
    };
    if input.place().is_none()
        && let Some(from) = at.get(FROM)
    {
        let text = format!("{} is no path below `$BRASSERIE_INPUTS`", from.node);
        let help = format!("give the input a place with `{AS}`");
        notes.error(from.problem(text).help(help));
        return None;
    }
    Some(input)
}

/// Returns the source of an input whose `from` and `node` are good, unless its `path` is not.
fn source_of(at: &At, outputs: NeededOutputs) -> Option<InputSource> {
    let NeededOutputs {
        job, nodes, path, ..
    } = outputs;
    let is_good = path.is_some() || at.get(PATH).is_none();
    is_good.then_some(InputSource::Job { job, nodes, path })
}

/// Reads `from`, `node` and `path`. Returns `None` if it is not clear which tasks are meant.
fn needed_outputs(at: &At, from: &At, position: usize, notes: &mut Notes) -> Option<NeededOutputs> {
    let job = from
        .name(notes)
        .and_then(|name| JobName::try_from(name).ok());
    let (node_at, path_at) = (at.get(NODE), at.get(PATH));
    let nodes = match &node_at {
        Some(at) => at.choice(&InputNodes::EACH.map(|it| (it.as_str(), it)), notes),
        None => Some(InputNodes::default()),
    };
    let path = path_at.as_ref().and_then(|at| output_path(at, notes));
    Some(NeededOutputs {
        position,
        job: job?,
        nodes: nodes?,
        path,
        from_place: from.place(),
        node_place: node_at.map(|at| at.place()),
        path_place: path_at.map(|at| at.place()),
    })
}

fn refuse_keys_of_jobs(at: &At, notes: &mut Notes) {
    for key in [NODE, PATH] {
        if let Some(at) = at.get(key) {
            let text = format!("`{key}` has no meaning beside `{FILE}`");
            let help = format!("remove the key, or name a job in `{FROM}` in place of the file");
            notes.error(at.key_problem(text).help(help));
        }
    }
}

/// Reports an input without `from` and `file`, unless an unknown key is reported that may have been meant.
fn report_missing_source(at: &At, notes: &mut Notes) {
    let is_known = |key: &str| INPUT_KEYS.iter().any(|known| known.name == key);
    if at.entries().all(|entry| is_known(entry.key())) {
        let text = format!("the input has neither `{FROM}` nor `{FILE}`");
        notes.error(at.problem(text).help(HELP));
    }
}

fn input_place(at: &At, notes: &mut Notes) -> Option<InputPath> {
    let text = at.string(notes)?;
    let place = InputPath::new(&text);
    if place.is_none() {
        let why = path_fault(&text, "an input", "`$BRASSERIE_INPUTS`").unwrap_or_default();
        let text = format!("{} is no place of an input: {why}", at.node);
        notes.error(at.problem(text).help("as in \"tables\""));
    }
    place
}

/// Reads the path of a file in the config file's folder.
fn file_path(at: &At, notes: &mut Notes) -> Option<String> {
    let path = at.string(notes)?;
    match file_fault(&path) {
        None => Some(without_slash(&path).to_owned()),
        Some(why) => {
            let text = format!("{} is no file of an input: {why}", at.node);
            notes.error(
                at.problem(text)
                    .help("as in \"dims.csv\", or \"tables/\" for a folder"),
            );
            None
        }
    }
}

/// Returns the path of a file or folder as it is known: a folder may be written with a slash at its end, as in the paths of outputs.
fn without_slash(path: &str) -> &str {
    path.strip_suffix('/').unwrap_or(path)
}

fn file_fault(path: &str) -> Option<String> {
    let below = path.strip_prefix("./").unwrap_or(path);
    path_fault(without_slash(below), "the file", "the config file's folder")
}

/// Returns why the text is no path of a file below a folder.
fn path_fault(text: &str, file: &str, folder: &str) -> Option<String> {
    let fault = match OutputPath::try_from(text) {
        Ok(path) if path.is_folder() => format!("the path of {file} has no `/` at its end"),
        Ok(_) => return None,
        Err(OutputPathError::Empty) => format!("{file} needs a name"),
        Err(OutputPathError::Absolute) => {
            format!("{file} is below {folder}, so its path does not begin with `/`")
        }
        Err(OutputPathError::Part) => format!(
            "{file} is below {folder}, so its path has no empty part and no part `.` or `..`"
        ),
        Err(OutputPathError::TooLong) => {
            let most = OutputPath::MAX_BYTES;
            format!("the path of {file} has {most} bytes at most")
        }
        Err(OutputPathError::ControlCharacter) => {
            format!("the path of {file} has no control characters")
        }
    };
    Some(fault)
}

/// Returns the files of a job's inputs, each with the warning for the case that this machine does not have it. The fault that the caller finds
/// says what to do.
pub(crate) fn input_files(at: &At) -> Vec<(String, PathUse, Problem)> {
    let mut files = Vec::new();
    let Some(at) = at.get(INPUTS) else {
        return files;
    };
    for item in at.items().take(MAX_INPUTS) {
        let Some(file) = item.get(FILE) else {
            continue;
        };
        if let Some(path) = file.as_str()
            && file_fault(path).is_none()
        {
            let text = format!("the tasks wait for the file {}", quote(path));
            let problem = file.problem(text);
            files.push((path.to_owned(), PathUse::InputFile, problem));
        }
    }
    files
}
