//! Jobs: those of the config file, those submitted through the API, paused and cancelled ones, and the one configuration that they make
//! together.

mod change;
mod combined;
mod file;
mod refusal;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hasher;
use std::sync::Arc;

use brasserie_common::fingerprint::Shape;
use brasserie_common::{Hold, JobName, RecordSeq};
use brasserie_common_config::{
    Config, ConfigErrors, InputNodes, InputSource, JobConfig, JobInput, ParseOptions, ParsedJob,
    Place, Problem, Shared, parse_job,
};
use combined::{CombinedConfig, File};
use file::FileSource;

use crate::nodes::{SourceNodes, has_same_nodes};
use crate::owners::Owner;
use crate::record::{Durable, JobVersion, SavedJob, until_synced};

pub use change::{
    ExpectedVersion, HoldId, HoldState, JobChange, JobChanged, NeededOutputs, OutputHold,
};
pub use file::{ConfigInForce, ConfigOrigin, FileText, ReadBy, SourceInForce};
pub use refusal::JobRefusal;

/// The most bytes of one job's text. A filter that names ten thousand nodes takes a third of it, and the store writes it within a
/// millisecond.
pub const MAX_JOB_BYTES: usize = 1024 * 1024;
/// The most API jobs: twice the largest number that any user is known to have.
pub const MAX_SAVED_JOBS: usize = 65_536;
/// The most bytes of the texts of all API jobs. The texts are kept beside the parsed jobs, which are no longer than they are.
const MAX_SAVED_BYTES: usize = 256 * 1024 * 1024;
/// The most nodes that one request names: more than a person types, and 16 MiB of ids with all waiting bulk changes. For more nodes, a
/// caller sends several requests or changes all nodes.
pub const MAX_NAMED_NODES: usize = 4096;
/// Limit for paused and cancelled jobs. Pauses of jobs in the config file outlive these jobs, so the limit for jobs is not enough.
pub const MAX_HELD_JOBS: usize = MAX_SAVED_JOBS;

/// An API job under the settings in force.
#[derive(Clone, Debug)]
struct Given {
    saved: SavedJob,
    /// The parsed job. Absent before there are settings.
    read: Option<Shared<JobConfig>>,
}

/// A change that permits tasks to start, and so takes effect only once its record is durable.
#[derive(Clone, Debug)]
enum Awaited {
    Save(Box<Given>),
    Resume,
    /// A deletion. Until it is durable, no config file may have a job of that name.
    Deletion,
}

/// The file's configuration, which has a job that was also submitted through the API. Its sources are not read before it is in force.
#[derive(Clone, Debug)]
struct RefusedFile {
    file: File,
    warnings: Vec<String>,
    origin: ConfigOrigin,
    /// The first of those jobs.
    taken: JobName,
}

/// Whether the engine has the configuration that the jobs make.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum EngineConfigState {
    #[default]
    Current,
    Changed,
}

/// The scheduler's knowledge of jobs, except of their tasks.
///
/// A change that stops tasks (a pause, a deletion) takes effect at once, before its record is durable. A change that permits tasks to start
/// takes effect afterwards. So no task runs because of a change that a crash undoes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Jobs {
    /// The last good config file.
    file: Option<File>,
    file_warnings: Vec<String>,
    source: FileSource,
    refused: Option<RefusedFile>,
    given: BTreeMap<JobName, Given>,
    /// The bytes of the texts in `given`.
    given_bytes: usize,
    combined: CombinedConfig,
    held: BTreeMap<JobName, Hold>,
    awaited: BTreeMap<RecordSeq, (JobName, Awaited)>,
    last_version: JobVersion,
    in_force: EngineConfigState,
}

impl Jobs {
    pub(crate) fn new(durable: &Durable) -> Self {
        let mut jobs = Jobs {
            held: durable.held.clone(),
            last_version: durable.last_job_version,
            source: FileSource::new(durable.config.clone()),
            ..Jobs::default()
        };
        for (name, saved) in &durable.jobs {
            let saved = saved.clone();
            jobs.put(name.clone(), Given { saved, read: None });
        }
        jobs
    }

    fn put(&mut self, name: JobName, given: Given) {
        self.combined.mark_changed(&name);
        self.given_bytes += given.saved.text.len();
        if let Some(before) = self.given.insert(name, given) {
            self.given_bytes -= before.saved.text.len();
        }
    }

    fn take_out(&mut self, name: &JobName) {
        self.combined.mark_changed(name);
        if let Some(before) = self.given.remove(name) {
            self.given_bytes -= before.saved.text.len();
        }
    }

    /// Returns the version of an API job that is in force.
    pub(crate) fn version(&self, job: &JobName) -> Option<JobVersion> {
        self.given.get(job).map(|given| given.saved.version)
    }

    /// Returns the submitter who owns an API job; `None` if none does.
    pub(crate) fn submitter(&self, job: &JobName) -> Option<&Arc<str>> {
        self.latest(job)?.saved.owner.as_ref()
    }

    /// Returns who owns a job, once all changes are durable.
    pub(crate) fn owner(&self, job: &JobName) -> Owner {
        match self.latest(job) {
            Some(given) => Owner::of(given.saved.owner.as_ref()),
            None if self.in_file(job) => Owner::ConfigFile,
            None => Owner::Gone,
        }
    }

    /// Returns the hold of a job.
    pub(crate) fn hold_of(&self, job: &JobName) -> Option<Hold> {
        self.held.get(job).copied()
    }

    /// Returns the text of an API job's last save.
    pub(crate) fn text(&self, job: &JobName) -> Option<Arc<str>> {
        let given = self.latest(job)?;
        Some(Arc::clone(&given.saved.text))
    }

    /// Returns the last save of a job, even if it is not durable yet. A further change must be based on it.
    fn latest(&self, job: &JobName) -> Option<&Given> {
        let awaited = self.awaited.values().rev();
        let saves = awaited.filter_map(|(name, awaited)| match awaited {
            Awaited::Save(given) if name == job => Some(&**given),
            Awaited::Save(_) | Awaited::Resume | Awaited::Deletion => None,
        });
        saves.chain(self.given.get(job)).next()
    }

    /// Returns whether an API job has this name, or had it until a deletion that a crash may undo.
    fn is_taken(&self, job: &JobName) -> bool {
        let mut awaited = self.awaited.values();
        let is_deletion = |(name, awaited): &(JobName, Awaited)| {
            name == job && matches!(awaited, Awaited::Deletion)
        };
        self.latest(job).is_some() || awaited.any(is_deletion)
    }

    /// Loads a config file that is valid by itself.
    pub(crate) fn load_file(
        &mut self,
        config: Arc<Config>,
        warnings: Vec<String>,
        origin: ConfigOrigin,
    ) {
        let config = File::sharing(config, self.file.as_ref());
        self.refused = Some(RefusedFile {
            taken: JobName::default(),
            file: File::new(config),
            warnings,
            origin,
        });
        self.reconsider_file();
    }

    /// Notes that the file has changed and cannot be used.
    pub(crate) fn file_failed(&mut self) {
        self.refused = None;
    }

    /// Puts the refused file in force, unless it still has a job that was also submitted through the API.
    fn reconsider_file(&mut self) {
        let Some(mut refused) = self.refused.take() else {
            return;
        };
        let mut names = refused.file.config.jobs.iter().map(|job| &job.name);
        if let Some(taken) = names.find(|name| self.is_taken(name)) {
            refused.taken = taken.clone();
            self.refused = Some(refused);
            return;
        }
        let RefusedFile {
            file,
            warnings,
            origin,
            taken: _,
        } = refused;
        let reads_alike = |before: &File| before.config.reads_jobs_as(&file.config);
        if !self.file.as_ref().is_some_and(reads_alike) {
            let awaited = self.awaited.iter_mut();
            let awaited = awaited.filter_map(|(_, (name, awaited))| match awaited {
                Awaited::Save(given) => Some((&*name, &mut **given)),
                Awaited::Resume | Awaited::Deletion => None,
            });
            for (name, given) in self.given.iter_mut().chain(awaited) {
                let read = read_again(name, &given.saved, &file.config);
                if given.read.as_deref() != Some(&read) {
                    given.read = Some(read.into());
                }
            }
        }
        self.file = Some(file);
        self.file_warnings = warnings;
        self.source.comes(origin);
        self.in_force = EngineConfigState::Changed;
    }

    /// Returns whether these nodes are for the engine. While a file is refused, nodes of other sources than those in force are not: they
    /// would belong to the refused file, and take nodes and times from the one in force.
    pub(crate) fn wants(&self, found: &SourceNodes) -> bool {
        let file = self.file.as_ref();
        self.refused.is_none()
            || file.is_some_and(|file| has_same_nodes(&file.config, &found.config))
    }

    /// Returns the config in force: the file's, or the one used instead of it.
    pub(crate) fn in_force(&self) -> Option<&ConfigInForce> {
        self.source.in_force()
    }

    /// Returns the warnings about the file in force.
    pub(crate) fn file_warnings(&self) -> &[String] {
        &self.file_warnings
    }

    /// Returns why the last read file is not in force.
    pub(crate) fn refused_file(&self) -> Option<String> {
        let taken = &self.refused.as_ref()?.taken;
        let until = match self.file {
            Some(_) => "the last good configuration stays",
            None => "nothing starts",
        };
        Some(format!(
            "the config file is not in force: its job `{taken}` was also given by API, and no two jobs share a name. Take it out \
             of the file, or `brasserie job delete {taken}`; until then {until}"
        ))
    }

    /// Puts the changes in effect that have become durable.
    pub(crate) fn persisted(&mut self, up_to: RecordSeq) {
        while let Some(entry) = self.awaited.first_entry() {
            if *entry.key() > up_to {
                return;
            }
            let (name, awaited) = entry.remove();
            match awaited {
                Awaited::Save(given) => self.put(name, *given),
                Awaited::Resume => {
                    self.combined.mark_changed(&name);
                    self.held.remove(&name);
                }
                Awaited::Deletion => self.reconsider_file(),
            }
            self.in_force = EngineConfigState::Changed;
        }
    }

    /// Returns the configuration if the engine does not have it yet.
    pub(crate) fn take_changed(&mut self) -> Option<Arc<Config>> {
        let changed = std::mem::take(&mut self.in_force) == EngineConfigState::Changed;
        let file = self.file.as_ref().filter(|_| changed)?;
        Some(self.combined.combine(file, &self.given, &self.held))
    }

    /// Returns whether the job is in the file in force or in the refused file.
    fn in_file(&self, job: &JobName) -> bool {
        let waiting = self.refused.as_ref().map(|refused| &refused.file);
        self.file.iter().chain(waiting).any(|file| file.has(job))
    }

    /// Returns whether the job exists, or will exist once its save is durable or the refused file is in force.
    pub(crate) fn has(&self, job: &JobName) -> bool {
        self.latest(job).is_some() || self.in_file(job)
    }

    /// Returns every job that will exist once all changes are durable.
    fn upcoming(&self) -> BTreeMap<&str, &JobConfig> {
        let of_file = self.file.iter().flat_map(|file| &file.config.jobs);
        let awaited = self
            .awaited
            .values()
            .filter_map(|(_, awaited)| match awaited {
                Awaited::Save(given) => Some(&**given),
                Awaited::Resume | Awaited::Deletion => None,
            });
        let given = self.given.values().chain(awaited);
        let given = given.filter_map(|given| given.read.as_ref());
        of_file
            .chain(given)
            .map(|job| (job.name.as_str(), &**job))
            .collect()
    }

    /// Returns the number of API jobs without this one, and the bytes of their texts, once all changes are durable.
    fn others(&self, job: &JobName) -> (usize, usize) {
        let mut bytes = self.given_bytes;
        let own = self.given.get(job);
        bytes -= own.map_or(0, |given| given.saved.text.len());
        let mut new: BTreeSet<&JobName> = BTreeSet::new();
        for (name, awaited) in self.awaited.values().filter(|(name, _)| name != job) {
            if let Awaited::Save(given) = awaited {
                bytes += given.saved.text.len();
                if !self.given.contains_key(name) {
                    new.insert(name);
                }
            }
        }
        (
            self.given.len() - usize::from(own.is_some()) + new.len(),
            bytes,
        )
    }

    /// Returns warnings about dependencies that do not exist or will never be done. They are no errors, because the job may be submitted
    /// later.
    fn missing(&self, job: &JobConfig) -> Vec<Problem> {
        const DEPENDS_ON: &str = "depends_on";
        const AFTER_ALL: &str = "run_only_after_all_nodes_are_done_for";
        if job.waits_for().next().is_none() {
            return Vec::new();
        }
        let jobs = self.upcoming();
        // A job waits for the jobs of its inputs without a key that says so.
        let key_of = |list: &str, position: usize, on: &JobName| {
            let of_same_node = list == DEPENDS_ON;
            let is_it = |input: &JobInput| match &input.source {
                InputSource::Job { job, nodes, .. } => {
                    job == on && (*nodes == InputNodes::Same) == of_same_node
                }
                InputSource::File { .. } => false,
            };
            match job.inputs.iter().position(is_it) {
                Some(input) => format!("inputs[{input}].from"),
                None => format!("{list}[{position}]"),
            }
        };
        let problem = |key: String, message: String| Problem::new(Place::START, key, message);
        let is_missing = |on: &JobName| !jobs.contains_key(on.as_str());
        let of_same_node = job.depends_on.iter().enumerate();
        let of_same_node = of_same_node.filter(|(_, on)| is_missing(on));
        let of_same_node = of_same_node.map(|(position, on)| {
            let message = format!("there is no job `{on}`, so no task will start");
            problem(key_of(DEPENDS_ON, position, on), message)
        });
        let all = &job.run_only_after_all_nodes_are_done_for;
        let of_all = all.iter().enumerate().filter_map(|(position, on)| {
            let message = match jobs.get(on.as_str()) {
                None => format!("there is no job `{on}`, so no task will start"),
                Some(on) if !on.can_be_waited_for() => {
                    format!("job `{}` is disabled, so no task will start", on.name)
                }
                Some(_) => return None,
            };
            Some(problem(key_of(AFTER_ALL, position, on), message))
        });
        of_same_node.chain(of_all).collect()
    }

    /// Returns a circle of dependencies from the job back to itself, if it were saved so.
    fn circle(&self, job: &JobConfig) -> Option<Vec<JobName>> {
        job.waits_for().next()?;
        let jobs = self.upcoming();
        let mut came_from: BTreeMap<&JobName, &JobName> = BTreeMap::new();
        let mut open: Vec<(&JobName, &JobName)> = Vec::new();
        open.extend(job.waits_for().map(|on| (on, &job.name)));
        while let Some((at, from)) = open.pop() {
            if *at == job.name {
                let mut way = vec![at.clone(), from.clone()];
                let mut last = from;
                while let Some(&before) = came_from.get(last) {
                    way.push(before.clone());
                    last = before;
                }
                way.reverse();
                return Some(way);
            }
            if came_from.contains_key(at) {
                continue;
            }
            came_from.insert(at, from);
            let further = jobs.get(at.as_str()).map(|job| job.waits_for());
            open.extend(further.into_iter().flatten().map(|on| (on, at)));
        }
        None
    }
}

fn parse(name: &JobName, text: &str, config: &Config) -> Result<ParsedJob, ConfigErrors> {
    parse_job(name, text, config, ParseOptions::default())
}

/// Sets a job's version, times and owner, whatever its text says.
fn stamp(job: &mut JobConfig, saved: &SavedJob) {
    job.version_id = saved.version.0;
    job.create_time = saved.created.as_secs();
    job.modify_time = saved.modified.as_secs();
    // The text of a submitter's job cannot name another owner.
    if let Some(owner) = &saved.owner {
        job.owner = owner.as_ref().to_owned();
    }
}

/// Parses a job again that was valid under other settings. Errors under the present settings disable it.
fn read_again(name: &JobName, saved: &SavedJob, config: &Config) -> JobConfig {
    let mut job = match parse(name, &saved.text, config) {
        Ok(parsed) => parsed.job,
        Err(errors) => {
            let nothing = parse(name, "{}", config);
            let mut job = nothing
                .expect("Invariant: a name that was taken before is one, and a job may say nothing")
                .job;
            job.errors = errors.0.iter().map(Problem::to_string).collect();
            job
        }
    };
    stamp(&mut job, saved);
    job
}

impl Jobs {
    pub(crate) fn shape<H: Hasher>(&self, s: &mut Shape<'_, H>, persisted: RecordSeq) {
        let Jobs {
            // The file and the fields below make the engine's configuration.
            file: _,
            file_warnings: _,
            source,
            refused,
            given,
            // These follow from other fields.
            given_bytes: _,
            combined: _,
            held,
            awaited,
            last_version,
            in_force,
        } = self;
        s.opt(refused.as_ref(), |s, refused| {
            let RefusedFile {
                file,
                warnings: _,
                origin,
                taken: _,
            } = refused;
            s.put((format!("{:?}", file.config), format!("{origin:?}")));
        });
        source.shape(s);
        s.each(given, |s, (name, given)| {
            s.put(name);
            given.shape(s);
        });
        s.each(held, |s, held| s.put(held));
        s.each(awaited, |s, (seq, (name, awaited))| {
            s.put((until_synced(*seq, persisted), name));
            match awaited {
                Awaited::Save(given) => given.shape(s),
                Awaited::Resume => s.put(false),
                Awaited::Deletion => s.put(true),
            }
        });
        s.put((last_version, *in_force == EngineConfigState::Changed));
    }
}

impl Given {
    /// The times of the job are omitted, because they are only shown.
    fn shape<H: Hasher>(&self, s: &mut Shape<'_, H>) {
        s.put((self.saved.version, &self.saved.text, &self.saved.owner));
    }
}
