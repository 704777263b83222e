//! Reads projects with the elements that follow them: their apps, app versions, workunits and results.

use std::collections::{BTreeMap, BTreeSet};

use roxmltree::Node;

use super::fields::{Fields, line_of};
use crate::availability::OnOff;
use crate::scenario::problems::{Limits, Problems};
use crate::scenario::{Estimate, Job, Scheduler, Supply, Version, Worker};

/// Defaults of an app, if neither it nor one of its results gives a value: operations of a task, and seconds until its deadline.
const FPOPS: f64 = 3600e11;
const LATENCY_BOUND: f64 = 864_000.0;
/// Credits per day of 1e9 operations per second.
const CREDITS: f64 = 200.0;
const DEFAULT_SHARE: f64 = 100.0;
/// Maximum numbers in one file: of apps and of versions, and below of workunits and of results. No real host has more.
const MOST_APPS: usize = 1000;
const MOST_TASKS: usize = 10_000;

pub(super) fn read(root: Node<'_, '_>, problems: &mut Problems, worker: &Worker) -> Vec<Scheduler> {
    let mut projects: Vec<Project<'_>> = Vec::new();
    let counted = [
        ("app", MOST_APPS),
        ("app_version", MOST_APPS),
        ("workunit", MOST_TASKS),
        ("result", MOST_TASKS),
    ];
    for (name, most) in counted {
        let all = root.children().filter(|node| node.has_tag_name(name));
        let mut beyond = all.skip(most);
        if let Some(node) = beyond.next() {
            problems.at(line_of(node), name, format!("more than {most} of them"));
            return Vec::new();
        }
    }
    for node in root.children().filter(Node::is_element) {
        let name = node.tag_name().name();
        let part = match name {
            "project" => {
                projects.push(Project::new(node));
                continue;
            }
            "app" | "app_version" | "workunit" | "result" => node,
            _ => continue,
        };
        let Some(project) = projects.last_mut() else {
            let text = format!("`<{name}>` stands before any `<project>`");
            problems.at(line_of(node), name, text);
            continue;
        };
        match name {
            "app" => project.apps.push(part),
            "app_version" => project.versions.push(part),
            "workunit" => project.units.push(part),
            _ => project.results.push(part),
        }
    }
    let mut names = BTreeSet::new();
    let of_one = |project: &Project<'_>| project.scheduler(problems, worker, &mut names);
    projects.iter().map(of_one).collect()
}

struct Project<'a> {
    node: Node<'a, 'a>,
    apps: Vec<Node<'a, 'a>>,
    versions: Vec<Node<'a, 'a>>,
    units: Vec<Node<'a, 'a>>,
    results: Vec<Node<'a, 'a>>,
}

/// A task at the worker.
struct Queued {
    app: String,
    fpops: Option<f64>,
    latency: Option<f64>,
}

impl<'a> Project<'a> {
    fn new(node: Node<'a, 'a>) -> Self {
        Project {
            node,
            apps: Vec::new(),
            versions: Vec::new(),
            units: Vec::new(),
            results: Vec::new(),
        }
    }

    fn scheduler(
        &self,
        problems: &mut Problems,
        worker: &Worker,
        names: &mut BTreeSet<String>,
    ) -> Scheduler {
        let queued = self.queued(problems);
        let mut of_apps = BTreeSet::new();
        let jobs: Vec<Job> = self
            .apps
            .iter()
            .map(|app| self.job((*app, &mut of_apps), &queued, problems, worker))
            .collect();
        for version in &self.versions {
            let mut fields = Fields::new(*version, problems);
            let app = fields.needed_text("app_name");
            if let Some(app) = app.filter(|app| jobs.iter().all(|job| job.name != *app)) {
                fields.problem("app_name", &format!("the project has no app `{app}`"));
            }
        }
        let mut fields = Fields::new(self.node, problems);
        let is_named = fields
            .text("project_name")
            .is_some_and(|name| !name.is_empty());
        let key = if is_named {
            "project_name"
        } else {
            "master_url"
        };
        let name = fields
            .own_text(key, ("projects", names))
            .unwrap_or_default();
        let share = fields.number("resource_share", Limits::AMOUNT);
        let credits = fields.number("rec", Limits::AMOUNT).unwrap_or(0.0);
        Scheduler {
            name,
            share: share.unwrap_or(DEFAULT_SHARE),
            available: available(&mut fields),
            no_jobs_for: self.no_jobs_for(&mut fields, worker),
            max_concurrent: None,
            rec: credits / (CREDITS * worker.flops / 1e9),
            request_delay: 0.0,
            min_request_interval: 0.0,
            slots: None,
            jobs,
        }
    }

    fn no_jobs_for(&self, fields: &mut Fields<'_, '_>, worker: &Worker) -> Vec<usize> {
        let named = self.node.children();
        let named = named.filter(|node| node.has_tag_name("no_rsc_apps"));
        let mut places = Vec::new();
        for node in named {
            let name = node.text().unwrap_or_default().trim();
            match (0..worker.types()).find(|of_type| worker.type_name(*of_type) == name) {
                Some(place) => places.push(place),
                None => {
                    let text = format!("the host has no processors of the type `{name}`");
                    fields.problem("no_rsc_apps", &text);
                }
            }
        }
        places
    }

    fn job(
        &self,
        (app, names): (Node<'a, 'a>, &mut BTreeSet<String>),
        queued: &[Queued],
        problems: &mut Problems,
        worker: &Worker,
    ) -> Job {
        let mut fields = Fields::new(app, problems);
        let apps = ("apps of one project", names);
        let name = fields.own_text("name", apps).unwrap_or_default();
        let own: Vec<&Queued> = queued.iter().filter(|one| one.app == name).collect();
        let told = fields.number("fpops_est", Limits::POSITIVE);
        let work = told.or_else(|| own.iter().find_map(|one| one.fpops));
        let work = work.unwrap_or(FPOPS);
        let bound = fields.number("latency_bound", Limits::POSITIVE);
        let bound = bound.or_else(|| own.iter().find_map(|one| one.latency));
        let (mean, deviation) = match fields.child("fpops") {
            Some(node) => {
                let mut fpops = fields.of(node);
                let mean = fpops.number("mean", Limits::AMOUNT);
                let deviation = fpops.number("std_dev", Limits::AMOUNT);
                (mean.unwrap_or(work), deviation.unwrap_or(0.0))
            }
            None => (work, 0.0),
        };
        let weight = fields.number("weight", Limits::AMOUNT);
        Job {
            max_concurrent: fields.count("max_concurrent").filter(|most| *most > 0),
            versions: self.versions(&name, problems, worker),
            name,
            work,
            varies: 0.0,
            estimate: Estimate::Normal { mean, deviation },
            deadline: Some(bound.unwrap_or(LATENCY_BOUND)),
            weight: weight.unwrap_or(1.0),
            supply: Supply::Endless,
            after: 0.0,
            bufferable: true,
            fails: 0.0,
            queued: u32::try_from(own.len()).unwrap_or(u32::MAX),
        }
    }

    fn versions(&self, app: &str, problems: &mut Problems, worker: &Worker) -> Vec<Version> {
        let mut versions = Vec::new();
        for node in &self.versions {
            let mut fields = Fields::new(*node, problems);
            if fields.text("app_name").as_deref() != Some(app) {
                continue;
            }
            let cpus = fields.number("avg_ncpus", Limits::AMOUNT).unwrap_or(1.0);
            let flops = fields.number("flops", Limits::POSITIVE);
            let cards = fields.child("coproc").map(|node| {
                let mut coproc = fields.of(node);
                let model = coproc.needed_text("type");
                let count = coproc.number("count", Limits::POSITIVE).unwrap_or(1.0);
                (model, count)
            });
            // A version for GPUs that the host does not have never runs.
            let place = |model: &String| worker.cards.iter().position(|it| it.model == *model);
            let cards = match cards {
                Some((Some(model), count)) => match place(&model) {
                    Some(place) => Some((place, count)),
                    None => continue,
                },
                Some((None, _)) => continue,
                None => None,
            };
            if cards.is_none() && cpus == 0.0 {
                fields.problem(
                    "avg_ncpus",
                    "a version without a coprocessor needs some CPU",
                );
                continue;
            }
            versions.push(Version {
                cpus,
                cards,
                flops: flops.unwrap_or(worker.flops),
            });
        }
        versions
    }

    fn queued(&self, problems: &mut Problems) -> Vec<Queued> {
        let mut all = Vec::new();
        let mut units: BTreeMap<&str, Node<'_, '_>> = BTreeMap::new();
        for node in &self.units {
            let names = node.children().filter(|child| child.has_tag_name("name"));
            for name in names.filter_map(|name| name.text()) {
                units.entry(name.trim()).or_insert(*node);
            }
        }
        for node in &self.results {
            let mut result = Fields::new(*node, problems);
            let Some(unit) = result.needed_text("wu_name") else {
                continue;
            };
            const INSTANT: Limits = Limits::from(0.0, 1e12);
            let received = result.number("received_time", INSTANT);
            let deadline = result.number("report_deadline", INSTANT);
            let Some(node) = units.get(unit.as_str()) else {
                result.problem("wu_name", &format!("there is no workunit `{unit}`"));
                continue;
            };
            let mut unit = Fields::new(*node, problems);
            let Some(app) = unit.needed_text("app_name") else {
                continue;
            };
            let latency = received.zip(deadline);
            let latency = latency.map(|(received, deadline)| deadline - received);
            all.push(Queued {
                app,
                fpops: unit.number("rsc_fpops_est", Limits::POSITIVE),
                latency: latency.filter(|latency| *latency > 0.0),
            });
        }
        all
    }
}

fn available(fields: &mut Fields<'_, '_>) -> OnOff {
    let Some(node) = fields.child("available") else {
        return OnOff::ALWAYS;
    };
    let mut available = fields.of(node);
    let part = available.number("frac", Limits::PART);
    let mean = available.number("lambda", Limits::MEAN);
    OnOff {
        part: part.unwrap_or(1.0),
        mean: mean.unwrap_or(OnOff::ALWAYS.mean),
    }
}
