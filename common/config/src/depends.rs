//! Checks the jobs that wait for other jobs, on the same node or as a whole, also for their inputs. Reports unknown names, and cycles, which
//! would wait forever.

use std::collections::BTreeMap;

use brasserie_common::JobName;

use crate::jobs::Draft;
use crate::problem::{Problem, nearest};
use crate::tree::quote;
use crate::waits::{Mention, MentionKey};

/// The number of names of a cycle that a message lists.
const LISTED: usize = 10;

/// The number of interdependent jobs for which the shortest cycle of each is searched. The cost is their number times their dependencies,
/// and nobody creates more by mistake.
const TRACED: usize = 100;

/// The number of unknown names for which the nearest job is searched. A file with more has another problem.
const SUGGESTED: usize = 100;

pub(crate) fn check(drafts: &mut [Draft], levels: &[String]) {
    let by_name: BTreeMap<String, usize> = drafts
        .iter()
        .enumerate()
        .map(|(index, draft)| (draft.job.name.as_str().to_owned(), index))
        .collect();
    let edges: Vec<Vec<Option<usize>>> = drafts
        .iter()
        .map(|draft| {
            let names = draft.job.waits_for();
            names.map(|n| by_name.get(n.as_str()).copied()).collect()
        })
        .collect();
    report_unknown(drafts, &edges, &by_name);
    report_other_levels(drafts, &edges, levels);
    report_never_done(drafts, &edges);
    let component = components(&edges);
    let mut members: BTreeMap<usize, usize> = BTreeMap::new();
    for &number in &component {
        *members.entry(number).or_default() += 1;
    }
    for index in 0..drafts.len() {
        let same = |&target: &usize| component[target] == component[index];
        let inside = edges[index]
            .iter()
            .position(|e| e.as_ref().is_some_and(same));
        let Some(position) = inside else {
            continue;
        };
        let text = match members[&component[index]] {
            jobs if jobs > TRACED => {
                format!("the job waits for itself, tied up with {} others", jobs - 1)
            }
            _ => {
                let names = cycle_through(index, &edges, &component);
                format!("the job waits for itself: {}", show_cycle(&names, drafts))
            }
        };
        let help = match named(&drafts[index], position).0.key {
            MentionKey::Listed(..) => "remove one dependency of the cycle",
            MentionKey::Input(_) => {
                "a job waits for the jobs of its inputs: remove one input or dependency of the cycle"
            }
        };
        let problem = dependency_problem(&drafts[index], position, text).help(help);
        drafts[index].notes.error(problem);
    }
}

fn show_cycle(cycle: &[usize], drafts: &[Draft]) -> String {
    let name = |&index: &usize| drafts[index].job.name.as_str();
    let mut shown: Vec<&str> = cycle.iter().take(LISTED).map(name).collect();
    if cycle.len() > LISTED {
        shown.push("...");
    }
    shown.extend(cycle.first().map(name));
    shown.join(" -> ")
}

/// Returns one of the names of [`crate::JobConfig::waits_for`], with its place.
fn named(draft: &Draft, position: usize) -> (&Mention, &JobName) {
    let (job, mentions) = (&draft.job, &draft.mentions);
    match position.checked_sub(job.depends_on.len()) {
        None => (&mentions.depends_on[position], &job.depends_on[position]),
        Some(position) => {
            let name = &job.run_only_after_all_nodes_are_done_for[position];
            (&mentions.after_all[position], name)
        }
    }
}

fn dependency_problem(draft: &Draft, position: usize, text: String) -> Problem {
    let (mention, name) = named(draft, position);
    let path = format!("{}.{}", draft.key_path, mention.key);
    Problem::new(mention.place, path, text).value(quote(name.as_str()))
}

fn report_unknown(
    drafts: &mut [Draft],
    edges: &[Vec<Option<usize>>],
    by_name: &BTreeMap<String, usize>,
) {
    let mut reported = 0;
    for (draft, edges) in drafts.iter_mut().zip(edges) {
        let unknown = edges.iter().enumerate().filter(|(_, e)| e.is_none());
        for (position, _) in unknown {
            let name = named(draft, position).1.as_str().to_owned();
            let text = format!("there is no job {}, so no task will start", quote(&name));
            let mut problem = dependency_problem(draft, position, text);
            reported += 1;
            if reported <= SUGGESTED
                && let own = draft.job.name.as_str().to_owned()
                && let others = by_name.keys().map(String::as_str).filter(|job| *job != own)
                && let Some(meant) = nearest(&name, others)
            {
                problem = problem.help(format!("did you mean `{meant}`?"));
            }
            draft.notes.warning(problem);
        }
    }
}

/// Warns about dependencies between jobs of different levels. A task waits for tasks on nodes of the same name, and another level rarely
/// has such nodes.
fn report_other_levels(drafts: &mut [Draft], edges: &[Vec<Option<usize>>], levels: &[String]) {
    for (index, edges) in edges.iter().enumerate() {
        let of_same_node = drafts[index].job.depends_on.len();
        for (position, target) in edges[..of_same_node].iter().enumerate() {
            let Some(target) = *target else {
                continue;
            };
            // The levels of inputs are checked with their nodes.
            if matches!(named(&drafts[index], position).0.key, MentionKey::Input(_)) {
                continue;
            }
            let (own, other) = (
                drafts[index].job.level_for_tasks,
                drafts[target].job.level_for_tasks,
            );
            if own == other || !drafts[index].notes.warning_is_kept() {
                continue;
            }
            let text = format!(
                "the job's tasks are at level `{}`, those that they wait for at `{}`, so each waits for a node of its own name there",
                levels[own.index()],
                levels[other.index()],
            );
            let problem = dependency_problem(&drafts[index], position, text)
                .help("let both jobs have the same `level_for_tasks`");
            drafts[index].notes.warning(problem);
        }
    }
}

/// Reports jobs that wait until all of a job is done that cannot run: they would wait forever.
fn report_never_done(drafts: &mut [Draft], edges: &[Vec<Option<usize>>]) {
    for (index, edges) in edges.iter().enumerate() {
        let of_same_node = drafts[index].job.depends_on.len();
        for (position, target) in edges.iter().enumerate().skip(of_same_node) {
            let Some(target) = target.filter(|target| *target != index) else {
                continue;
            };
            let on = &drafts[target];
            let why = if !on.notes.errors.is_empty() || on.old_errors.is_some() {
                "has errors"
            } else if !on.job.enabled {
                "is disabled"
            } else {
                continue;
            };
            let name = quote(on.job.name.as_str());
            let text = format!("the job {name} {why}, so no task will start");
            if !drafts[index].notes.warning_is_kept() {
                continue;
            }
            let problem = dependency_problem(&drafts[index], position, text);
            drafts[index].notes.warning(problem);
        }
    }
}

/// Returns the shortest path from a job back to itself.
fn cycle_through(start: usize, edges: &[Vec<Option<usize>>], component: &[usize]) -> Vec<usize> {
    let mut came_from: BTreeMap<usize, usize> = BTreeMap::new();
    let mut queue = std::collections::VecDeque::from([start]);
    while let Some(at) = queue.pop_front() {
        for &next in edges[at].iter().flatten() {
            if next == start {
                let mut way = vec![at];
                let mut at = at;
                while at != start {
                    at = came_from[&at];
                    way.push(at);
                }
                way.reverse();
                return way;
            }
            if component[next] == component[start] && !came_from.contains_key(&next) {
                came_from.insert(next, at);
                queue.push_back(next);
            }
        }
    }
    vec![start]
}

/// Returns the number of each job's strongly connected component, by Tarjan's algorithm without recursion. A chain of dependencies may be
/// as long as the file.
fn components(edges: &[Vec<Option<usize>>]) -> Vec<usize> {
    const NONE: usize = usize::MAX;
    let mut component = vec![NONE; edges.len()];
    let mut order = vec![NONE; edges.len()];
    let mut low = vec![NONE; edges.len()];
    let mut open: Vec<usize> = Vec::new();
    let mut visited = 0;
    for root in 0..edges.len() {
        if order[root] != NONE {
            continue;
        }
        let mut calls: Vec<(usize, usize)> = vec![(root, 0)];
        while let Some((at, position)) = calls.pop() {
            if position == 0 {
                order[at] = visited;
                low[at] = visited;
                visited += 1;
                open.push(at);
            } else if let Some(child) = edges[at][position - 1]
                && component[child] == NONE
            {
                low[at] = low[at].min(low[child]);
            }
            match edges[at].get(position) {
                Some(&target) => {
                    calls.push((at, position + 1));
                    if let Some(target) = target
                        && order[target] == NONE
                    {
                        calls.push((target, 0));
                    }
                }
                None if low[at] == order[at] => {
                    while let Some(member) = open.pop() {
                        component[member] = at;
                        if member == at {
                            break;
                        }
                    }
                }
                None => {}
            }
        }
    }
    component
}
