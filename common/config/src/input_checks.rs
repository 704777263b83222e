//! Checks the inputs of each job against the jobs from which they come: their outputs, the levels of their tasks, and whether they run.
//!
//! `depends` reports jobs that do not exist, and cycles.

use std::collections::{BTreeMap, BTreeSet};

use brasserie_common::OutputPath;

use crate::artifacts::{InputNodes, KeepOutputs, MAX_TASK_ARTIFACTS};
use crate::inputs::{FROM, INPUTS, NODE, NeededOutputs};
use crate::jobs::{Draft, JOB_PREFIX};
use crate::model::{Config, LevelId, NodeNaming, NodeSource};
use crate::outputs::{KEEP, OUTPUTS, OutputsRead, PATH};
use crate::problem::Problem;
use crate::read::{At, suggest};
use crate::tree::{Place, quote};

/// The number of unknown outputs for which the nearest one is searched. A file with more has another problem.
const SUGGESTED: usize = 100;

pub(crate) fn check(drafts: &mut [Draft], levels: &[String]) {
    if drafts.iter().all(|draft| draft.needed_outputs.is_empty()) {
        return;
    }
    let by_name: BTreeMap<String, usize> = drafts
        .iter()
        .enumerate()
        .map(|(index, draft)| (draft.job.name.as_str().to_owned(), index))
        .collect();
    let mut suggestions = SUGGESTED;
    for index in 0..drafts.len() {
        let needed = std::mem::take(&mut drafts[index].needed_outputs);
        for outputs in &needed {
            let Some(&other) = by_name.get(outputs.job.as_str()) else {
                continue;
            };
            let check = Check {
                own: &drafts[index],
                outputs,
                other: &drafts[other],
                levels,
            };
            let problems = [check.level(), check.outputs(&mut suggestions)];
            for problem in problems.into_iter().flatten() {
                drafts[index].notes.error(problem);
            }
        }
    }
}

/// Returns warnings about inputs that may never be there, and about outputs that are kept for readers that do not exist. Only `config
/// check` prints them, because submitted jobs may have the outputs as inputs, and a job may be disabled for a while.
pub(crate) fn questionable(root: &At, drafts: &[Draft], levels: &[String]) -> Vec<Problem> {
    let by_name = by_name(drafts);
    let mut read: BTreeSet<&str> = BTreeSet::new();
    let mut found = Vec::new();
    for own in drafts {
        for outputs in &own.needed_outputs {
            read.insert(outputs.job.as_str());
            if let Some(&other) = by_name.get(outputs.job.as_str()) {
                let check = Check {
                    own,
                    outputs,
                    other,
                    levels,
                };
                found.extend(check.never_made());
            }
        }
    }
    let unread = drafts.iter().filter(|draft| {
        let job = &draft.job;
        let is_left = !job.outputs.is_empty() && job.keep == KeepOutputs::UntilConsumed;
        is_left && !read.contains(job.name.as_str())
    });
    found.extend(unread.filter_map(|draft| {
        let at = root.get(&format!("{JOB_PREFIX}{}", draft.job.name))?;
        let at = at.get(KEEP)?;
        let text = "no job of the file has these outputs as inputs, so they are kept for ever";
        let help = format!("name the job in `{INPUTS}` of another one, or keep the outputs for a time, as in \"7d\"");
        Some(at.problem(text).help(help))
    }));
    found
}

fn by_name(drafts: &[Draft]) -> BTreeMap<&str, &Draft> {
    let named = drafts.iter().map(|draft| (draft.job.name.as_str(), draft));
    named.collect()
}

/// The check of one input of a job.
struct Check<'a> {
    own: &'a Draft,
    outputs: &'a NeededOutputs,
    /// The job from which the input comes.
    other: &'a Draft,
    levels: &'a [String],
}

impl Check<'_> {
    /// Returns a problem with the value of a key of the input.
    fn problem(&self, key: &str, place: Place, text: String) -> Problem {
        let (job, position) = (&self.own.key_path, self.outputs.position);
        Problem::new(place, format!("{job}.{INPUTS}[{position}].{key}"), text)
    }

    fn other_name(&self) -> String {
        quote(self.other.job.name.as_str())
    }

    /// Returns the problem that the other job does not run on some nodes of the input. `depends` reports a job that runs nowhere, if the
    /// whole of that job has to be done.
    fn never_made(&self) -> Option<Problem> {
        let (own, other) = (&self.own.job, &self.other.job);
        let is_of_one_task = match self.outputs.nodes {
            InputNodes::Same => true,
            InputNodes::Parent => false,
            InputNodes::Children | InputNodes::All => return None,
        };
        let name = self.other_name();
        let place = self.outputs.from_place;
        if is_of_one_task && !other.enabled {
            let text = format!("the job {name} is disabled, so it leaves no outputs");
            let help = format!("enable {name}, or disable this job, too");
            return Some(self.problem(FROM, place, text).help(help));
        }
        let has_filter = |(level, filter)| own.filters.get(level) == Some(filter);
        if other.filters.iter().all(has_filter) {
            return None;
        }
        let text = format!(
            "the job {name} has `filters` that this job does not have: a task waits for ever if they leave out the node of its input"
        );
        let help = format!("give both jobs the same `filters`, if {name} runs on fewer nodes");
        Some(self.problem(FROM, place, text).help(help))
    }

    /// Returns the problem that the other job has no tasks on the nodes that the input names.
    fn level(&self) -> Option<Problem> {
        let (own, other) = (self.own.job.level_for_tasks, self.other.job.level_for_tasks);
        let on = match self.outputs.nodes {
            InputNodes::Same => "the same node",
            InputNodes::Parent => "the parent of such a node",
            InputNodes::Children => "a child of such a node",
            InputNodes::All => return None,
        };
        let fitting = nodes_between(own, other);
        if fitting == self.outputs.nodes {
            return None;
        }
        let level = |id: LevelId| &self.levels[id.index()];
        let text = format!(
            "the job's tasks are on nodes of level `{}`, and no task of {} is on {on}: its tasks are at level `{}`",
            level(own),
            self.other_name(),
            level(other),
        );
        let (key, place) = match self.outputs.node_place {
            Some(place) => (NODE, place),
            None => (FROM, self.outputs.from_place),
        };
        let fitting = quote(fitting.as_str());
        let help =
            format!("set `{NODE}` to {fitting}, or change `level_for_tasks` of one of the jobs");
        Some(self.problem(key, place, text).help(help))
    }

    /// Returns the problem that the other job does not have the outputs. If one of its outputs has an error, that may be the meant one.
    fn outputs(&self, suggestions: &mut usize) -> Option<Problem> {
        let other = self.other;
        if other.outputs_read == OutputsRead::Some || other.old_errors.is_some() {
            return None;
        }
        let name = self.other_name();
        if other.job.outputs.is_empty() {
            let text = format!("the job {name} has no `{OUTPUTS}`");
            let help = format!("list the files that its tasks leave in `{OUTPUTS}` of {name}");
            let place = self.outputs.from_place;
            return Some(self.problem(FROM, place, text).help(help));
        }
        let path = self.outputs.path.as_ref()?;
        let known = other.job.outputs.iter().map(|output| &output.path);
        if known.clone().any(|output| output == path) {
            return None;
        }
        let text = format!("the job {name} has no output {}", quote(path.as_str()));
        let place = self.outputs.path_place?;
        let problem = self.problem(PATH, place, text);
        if let Some(same) = known.clone().find(|output| output.overlaps(path))
            && same.parts().eq(path.parts())
        {
            let what = match same.is_folder() {
                true => "a folder, whose path ends with `/`",
                false => "a file, whose path does not end with `/`",
            };
            return Some(problem.help(format!("did you mean `{same}`? It is {what}")));
        }
        Some(match suggestions.checked_sub(1) {
            Some(left) => {
                *suggestions = left;
                problem.help(suggest(path.as_str(), known.map(|output| output.as_str())))
            }
            None => problem,
        })
    }
}

/// Returns the nodes on which tasks at level `other` are, seen from a task at level `own`.
fn nodes_between(own: LevelId, other: LevelId) -> InputNodes {
    if own == other {
        InputNodes::Same
    } else if other.0 + 1 == own.0 {
        InputNodes::Parent
    } else if own.0 + 1 == other.0 {
        InputNodes::Children
    } else {
        InputNodes::All
    }
}

/// Returns a warning for each job whose tasks would have more inputs than they may, as far as the file alone determines the nodes.
pub(crate) fn too_many(drafts: &[Draft], config: &Config) -> Vec<Problem> {
    let nodes = least_nodes(config);
    let by_name = by_name(drafts);
    let outputs_of = |needed: &NeededOutputs| {
        let other = by_name.get(needed.job.as_str());
        let Some(other) = other.filter(|_| needed.nodes == InputNodes::All) else {
            return 0;
        };
        let is_wanted =
            |path: &OutputPath| needed.path.as_ref().is_none_or(|wanted| wanted == path);
        let outputs = other.job.outputs.iter();
        let outputs = outputs.filter(|output| is_wanted(&output.path)).count();
        let nodes = nodes.get(&other.job.level_for_tasks).copied();
        // A filter may leave any number of nodes.
        let nodes = nodes.filter(|_| other.job.filters.is_empty());
        nodes.unwrap_or(0).saturating_mul(outputs)
    };
    let warning = |draft: &Draft| {
        let counts: Vec<usize> = draft.needed_outputs.iter().map(outputs_of).collect();
        let all = counts.iter().copied().fold(0, usize::saturating_add);
        let (at, _) = counts.iter().enumerate().max_by_key(|(_, count)| **count)?;
        let largest = draft.needed_outputs.get(at)?;
        let text = format!(
            "the inputs of a task are {all} artifacts, and at most {MAX_TASK_ARTIFACTS} are possible, so no task of the job ever starts"
        );
        let path = format!("{}.{INPUTS}[{}].{FROM}", draft.key_path, largest.position);
        let help = "name one output in `path`, or let the tasks of the other job leave a folder in place of many files";
        let problem = Problem::new(largest.from_place, path, text).help(help.to_owned());
        (all > MAX_TASK_ARTIFACTS).then_some(problem)
    };
    drafts.iter().filter_map(warning).collect()
}

/// Returns the number of enabled nodes of each level that the file alone determines. More may come at run time.
fn least_nodes(config: &Config) -> BTreeMap<LevelId, usize> {
    let mut counts = BTreeMap::from([(LevelId::INSTANCE, 1)]);
    for source in config.node_sources.iter() {
        match source {
            NodeSource::Manual(manual) if manual.naming != NodeNaming::Shared => {
                for node in manual.nodes.iter().filter(|node| node.enabled) {
                    *counts.entry(node.level).or_default() += 1;
                }
            }
            NodeSource::RangeLabel(range)
                if range.naming != NodeNaming::Shared && range.enabled =>
            {
                let parents = counts.get(&range.parent_level).copied().unwrap_or(0);
                let children = range.end.saturating_sub(range.start).saturating_add(1);
                let children = usize::try_from(children).unwrap_or(0);
                let count: &mut usize =
                    counts.entry(LevelId(range.parent_level.0 + 1)).or_default();
                *count = count.saturating_add(parents.saturating_mul(children));
            }
            _ => {}
        }
    }
    counts
}
