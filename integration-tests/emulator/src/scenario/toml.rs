//! Reads TOML scenarios. The parser keeps the places of all values and continues after errors.

mod section;

use std::collections::BTreeSet;
use std::path::Path;

use ::toml::de::DeTable;
use brasserie_worker_fetch::{Preemption, Profile, ReportPolicy};

use super::problems::{NumberRange, ScenarioProblem, ScenarioProblems};
use super::{
    CPU, Cards, Deadlines, Dispatch, Estimate, Excuse, Job, JobSupply, MOST_INSTANCES, Policy,
    Scenario, ScenarioPromise, Scheduler, ServerCheck, Supply, Version, Worker,
};
use crate::availability::OnOff;
use section::{Section, SectionReader, line_of};

/// Default duration in seconds.
const DURATION: f64 = 86_400.0;
/// Default step in seconds, and below: default speed of a CPU in operations per second.
const DELTA: f64 = 60.0;
const FLOPS: f64 = 1e9;

pub(super) fn read(path: &Path) -> Result<Scenario, ScenarioProblems> {
    parse(path, &super::text_of(path)?)
}

pub(super) fn parse(path: &Path, text: &str) -> Result<Scenario, ScenarioProblems> {
    let (table, errors) = DeTable::parse_recoverable(text);
    let mut problems = ScenarioProblems::new(path);
    for error in &errors {
        let place = || {
            let Some(span) = error.span() else {
                return (0, String::new());
            };
            let line = line_of(text, span.start);
            // The parser's other messages name their subject.
            let key = match error.message() {
                "duplicate key" => text.get(span).unwrap_or_default(),
                _ => "",
            };
            (line, key.to_owned())
        };
        problems.at_place(place, error.message());
    }
    problems.none_or(())?;
    let mut reader = SectionReader::new(path, text);
    let mut root = Section::root(table.get_ref());
    let scenario = scenario(&mut reader, &mut root, super::name_of(path));
    root.finish(&mut reader);
    reader.problems.none_or(scenario)
}

fn scenario(reader: &mut SectionReader<'_>, root: &mut Section<'_, '_>, name: String) -> Scenario {
    let mut profile = match root.choice(
        reader,
        "profile",
        &[("cluster", true), ("volunteer", false)],
    ) {
        Some(false) => Profile::VOLUNTEER,
        Some(true) | None => Profile::CLUSTER,
    };
    let about = root.text(reader, "about").unwrap_or_default();
    let duration = root.span(reader, "duration", NumberRange::STEP);
    let delta = root.span(reader, "delta", NumberRange::STEP);
    let seed = root.whole(reader, "seed").unwrap_or(1);
    let worker = match root.section(reader, "worker") {
        Some(mut section) => {
            let worker = worker(reader, &mut section);
            section.finish(reader);
            worker
        }
        None => {
            let text = "missing: `[worker]` says at least how many `cpus` there are";
            reader.problems.add(ScenarioProblem::of_all(text));
            worker(reader, &mut Section::empty("worker"))
        }
    };
    let policy = match root.section(reader, "policy") {
        Some(mut section) => {
            let policy = policy(reader, &mut section, &mut profile);
            section.finish(reader);
            policy
        }
        None => policy(reader, &mut Section::empty("policy"), &mut profile),
    };
    let excuses = excuses(reader, root);
    let sections = root.sections(reader, "scheduler");
    if sections.is_empty() {
        let text = "missing: each `[[scheduler]]` is one that the worker is attached to";
        reader.problems.add(ScenarioProblem::of_all(text));
    }
    let mut names = BTreeSet::new();
    let mut schedulers = Vec::new();
    for mut section in sections {
        let copies = section.instances(reader, "copies").unwrap_or(1);
        let one = scheduler(reader, &mut section, &worker, &mut names);
        section.finish(reader);
        schedulers.extend((1..=copies).map(|copy| Scheduler {
            name: match copy {
                1 => one.name.clone(),
                _ => format!("{} {copy}", one.name),
            },
            ..one.clone()
        }));
    }
    Scenario {
        name,
        about: about.trim().to_owned(),
        duration: duration.unwrap_or(DURATION),
        delta: delta.unwrap_or(DELTA),
        seed,
        schedulers,
        excuses,
        profile,
        worker,
        policy,
    }
}

fn excuses(reader: &mut SectionReader<'_>, root: &mut Section<'_, '_>) -> Vec<Excuse> {
    let sections = root.sections(reader, "excuse").into_iter();
    let excuses = sections.filter_map(|mut section| {
        let excuse = excuse(reader, &mut section);
        section.finish(reader);
        excuse
    });
    excuses.collect()
}

fn excuse(reader: &mut SectionReader<'_>, section: &mut Section<'_, '_>) -> Option<Excuse> {
    let promises = [
        ("wasted", ScenarioPromise::Wasted),
        ("idle", ScenarioPromise::Idle),
    ];
    let of = section.choice(reader, "of", &promises);
    let most = section.number(reader, "most", NumberRange::CHANCE);
    let why = section.needed_text(reader, "why");
    for key in ["of", "most"] {
        if !section.has(key) {
            let text =
                "missing: an excuse says of which promise it is, and what it comes to at most";
            section.problem(reader, key, text);
        }
    }
    Some(Excuse {
        of: of?,
        most: most?,
        why,
    })
}

fn worker(reader: &mut SectionReader<'_>, section: &mut Section<'_, '_>) -> Worker {
    let mut names = BTreeSet::from([CPU.to_owned()]);
    let cards = section.sections(reader, "cards").into_iter().map(|mut it| {
        let kinds = ("kinds of processors", &mut names);
        let cards = Cards {
            model: it.own_text(reader, "model", kinds),
            count: match it.instances(reader, "count") {
                Some(count) => count,
                // A wrong count must not cause further mistakes in jobs.
                None if it.has("count") => MOST_INSTANCES,
                None => 1,
            },
            speed: it
                .number(reader, "speed", NumberRange::POSITIVE)
                .unwrap_or(1.0),
        };
        it.finish(reader);
        cards
    });
    let cards: Vec<Cards> = cards.collect();
    let cpus = section.instances(reader, "cpus");
    if cpus == Some(0) || section.is_there() && !section.has("cpus") {
        section.problem(reader, "cpus", "a worker has one CPU at least");
    }
    Worker {
        // A wrong number of CPUs must not cause further mistakes in jobs.
        cpus: cpus.filter(|cpus| *cpus > 0).unwrap_or(MOST_INSTANCES),
        flops: section
            .number(reader, "flops", NumberRange::POSITIVE)
            .unwrap_or(FLOPS),
        cards,
        on: on_off(reader, section, "on"),
        active: on_off(reader, section, "active"),
        cards_active: on_off(reader, section, "cards_active"),
        connected: on_off(reader, section, "connected"),
    }
}

fn on_off(reader: &mut SectionReader<'_>, section: &mut Section<'_, '_>, key: &str) -> OnOff {
    let Some(mut it) = section.section(reader, key) else {
        return OnOff::ALWAYS;
    };
    let read = OnOff {
        part: it.number(reader, "part", NumberRange::PART).unwrap_or(1.0),
        mean: it
            .span(reader, "mean", NumberRange::MEAN)
            .unwrap_or(OnOff::ALWAYS.mean),
    };
    it.finish(reader);
    read
}

fn policy(
    reader: &mut SectionReader<'_>,
    section: &mut Section<'_, '_>,
    profile: &mut Profile,
) -> Policy {
    // The default check is that of all tasks for Brasserie's schedulers, and that of the delay for BOINC's.
    let own_check = match *profile == Profile::VOLUNTEER {
        true => ServerCheck::EstimatedDelay,
        false => ServerCheck::Workload,
    };
    constants(reader, section, profile);
    let dispatch = [("pull", Dispatch::Pull), ("push", Dispatch::Push)];
    let preemption = [("off", Preemption::Off), ("suspend", Preemption::Suspend)];
    let check = [
        ("estimated_delay", ServerCheck::EstimatedDelay),
        ("workload", ServerCheck::Workload),
    ];
    let edf = section.flag(reader, "edf").unwrap_or(true);
    let existing_only = section.flag(reader, "existing_jobs_only").unwrap_or(false);
    Policy {
        dispatch: section
            .choice(reader, "dispatch", &dispatch)
            .unwrap_or(Dispatch::Pull),
        linger: section
            .span(reader, "linger", NumberRange::SPAN)
            .unwrap_or(profile.linger),
        deadlines: match edf {
            true => Deadlines::EarliestFirst,
            false => Deadlines::Ignored,
        },
        preemption: section
            .choice(reader, "preemption", &preemption)
            .unwrap_or(Preemption::Off),
        server_check: section
            .choice(reader, "server_check", &check)
            .unwrap_or(own_check),
        supply: match existing_only {
            true => JobSupply::ExistingOnly,
            false => JobSupply::AsListed,
        },
        tells_progress: section.flag(reader, "tells_progress").unwrap_or(false),
    }
}

/// Reads the constants of the profile that a scenario may override.
fn constants(reader: &mut SectionReader<'_>, section: &mut Section<'_, '_>, profile: &mut Profile) {
    for (key, constant, range) in [
        (
            "work_buffer_min",
            &mut profile.work_buffer_min,
            NumberRange::SPAN,
        ),
        (
            "work_buffer_additional",
            &mut profile.work_buffer_additional,
            NumberRange::SPAN,
        ),
        ("fetch_time", &mut profile.fetch_time, NumberRange::SPAN),
        (
            "driver_period",
            &mut profile.driver_period,
            NumberRange::MEAN,
        ),
        ("fetch_period", &mut profile.fetch_period, NumberRange::MEAN),
        (
            "schedule_period",
            &mut profile.schedule_period,
            NumberRange::MEAN,
        ),
        (
            "rec_half_life",
            &mut profile.rec_half_life,
            NumberRange::STEP,
        ),
        ("time_slice", &mut profile.time_slice, NumberRange::STEP),
        (
            "rpc_backoff_min",
            &mut profile.rpc_backoff_min,
            NumberRange::MEAN,
        ),
        (
            "rpc_backoff_max",
            &mut profile.rpc_backoff_max,
            NumberRange::MEAN,
        ),
        (
            "pair_backoff_min",
            &mut profile.pair_backoff_min,
            NumberRange::MEAN,
        ),
        (
            "pair_backoff_max",
            &mut profile.pair_backoff_max,
            NumberRange::MEAN,
        ),
        ("report_delay", &mut profile.report_delay, NumberRange::SPAN),
        (
            "report_cushion",
            &mut profile.report_cushion,
            NumberRange::SPAN,
        ),
    ] {
        if let Some(span) = section.span(reader, key, range) {
            *constant = span;
        }
    }
    let reports = [
        ("immediate", ReportPolicy::Immediate),
        ("lazy", ReportPolicy::Lazy),
    ];
    if let Some(report) = section.choice(reader, "report", &reports) {
        profile.report = report;
    }
}

fn scheduler(
    reader: &mut SectionReader<'_>,
    section: &mut Section<'_, '_>,
    worker: &Worker,
    names: &mut BTreeSet<String>,
) -> Scheduler {
    let mut no_jobs_for = Vec::new();
    for name in section.texts(reader, "no_jobs_for") {
        match (0..worker.types()).find(|of_type| worker.type_name(*of_type) == name) {
            Some(of_type) => no_jobs_for.push(of_type),
            None => {
                let text = format!("the worker has no processors called `{name}`");
                section.problem(reader, "no_jobs_for", &text);
            }
        }
    }
    let sections = section.sections(reader, "job");
    let mut of_jobs = BTreeSet::new();
    let jobs = sections.into_iter().map(|mut section| {
        let job = job(reader, &mut section, worker, &mut of_jobs);
        section.finish(reader);
        job
    });
    Scheduler {
        jobs: jobs.collect(),
        name: section.own_text(reader, "name", ("schedulers", names)),
        share: section
            .number(reader, "share", NumberRange::AMOUNT)
            .unwrap_or(100.0),
        available: on_off(reader, section, "available"),
        no_jobs_for,
        max_concurrent: section.count(reader, "max_concurrent"),
        rec: section
            .number(reader, "rec", NumberRange::AMOUNT)
            .unwrap_or(0.0),
        request_delay: section
            .span(reader, "request_delay", NumberRange::SPAN)
            .unwrap_or(0.0),
        min_request_interval: section
            .span(reader, "min_request_interval", NumberRange::SPAN)
            .unwrap_or(0.0),
        slots: section.count(reader, "slots"),
    }
}

fn job(
    reader: &mut SectionReader<'_>,
    section: &mut Section<'_, '_>,
    worker: &Worker,
    names: &mut BTreeSet<String>,
) -> Job {
    let alternatives = section.sections(reader, "version");
    let versions: Vec<Version> = match alternatives.is_empty() {
        true => vec![version(reader, section, worker)],
        false => alternatives
            .into_iter()
            .map(|mut section| {
                let version = version(reader, &mut section, worker);
                section.finish(reader);
                version
            })
            .collect(),
    };
    let runs = section.span(reader, "runs", NumberRange::POSITIVE);
    if runs.is_none() && !section.has("runs") {
        section.problem(reader, "runs", "missing: how long a task runs");
    }
    let runs = runs.unwrap_or(1.0);
    let varies = section
        .span(reader, "varies", NumberRange::SPAN)
        .unwrap_or(0.0);
    let flops = versions[0].flops;
    Job {
        name: section.own_text(reader, "name", ("jobs of one scheduler", names)),
        work: runs * flops,
        varies: varies * flops,
        estimate: estimate(reader, section, runs, flops),
        deadline: section.span(reader, "deadline", NumberRange::POSITIVE),
        weight: section
            .number(reader, "weight", NumberRange::AMOUNT)
            .unwrap_or(1.0),
        max_concurrent: section.count(reader, "max_concurrent"),
        supply: supply(reader, section),
        after: section
            .span(reader, "after", NumberRange::SPAN)
            .unwrap_or(0.0),
        bufferable: section.flag(reader, "bufferable").unwrap_or(true),
        fails: section
            .number(reader, "fails", NumberRange::CHANCE)
            .unwrap_or(0.0),
        queued: section.count(reader, "queued").unwrap_or(0),
        versions,
    }
}

fn version(
    reader: &mut SectionReader<'_>,
    section: &mut Section<'_, '_>,
    worker: &Worker,
) -> Version {
    let model = section.text(reader, "card");
    let count = section.number(reader, "cards", NumberRange::POSITIVE);
    let cards = model.and_then(|model| {
        let place = worker.cards.iter().position(|cards| cards.model == model);
        if place.is_none() {
            let text = format!("the worker has no cards of the model `{model}`");
            section.problem(reader, "card", &text);
        }
        place.map(|place| (place, count.unwrap_or(1.0)))
    });
    if count.is_some() && !section.has("card") {
        section.problem(reader, "cards", "`card` says of which model they are");
    }
    let cpus = section.number(reader, "cpus", NumberRange::AMOUNT);
    let cpus = cpus.unwrap_or(if cards.is_some() { 0.0 } else { 1.0 });
    if cpus == 0.0 && cards.is_none() && !section.has("card") {
        section.problem(reader, "cpus", "a task without cards needs some CPU");
    }
    // A scheduler sends only tasks that fit. Jobs for GPUs of which the worker has none are left out later instead.
    if cpus > f64::from(worker.cpus) {
        let text = format!("no such task would be sent: the worker has {}", worker.cpus);
        section.problem(reader, "cpus", &text);
    }
    if let Some((place, count)) = cards {
        let has = worker.cards[place].count;
        if has > 0 && count > f64::from(has) {
            let text = format!("no such task would be sent: the worker has {has}");
            section.problem(reader, "cards", &text);
        }
    }
    let speed = section.number(reader, "speed", NumberRange::POSITIVE);
    Version {
        cpus,
        cards,
        flops: worker.flops * speed.unwrap_or(1.0),
    }
}

fn estimate(
    reader: &mut SectionReader<'_>,
    section: &mut Section<'_, '_>,
    runs: f64,
    flops: f64,
) -> Estimate {
    if section.is_text("estimate") {
        return match section.choice(reader, "estimate", &[("unknown", ())]) {
            Some(()) | None => Estimate::Unknown,
        };
    }
    let Some(mut it) = section.section(reader, "estimate") else {
        return Estimate::Normal {
            mean: runs * flops,
            deviation: 0.0,
        };
    };
    let mean = it
        .span(reader, "mean", NumberRange::POSITIVE)
        .unwrap_or(runs);
    let factor = it
        .number(reader, "factor", NumberRange::POSITIVE)
        .unwrap_or(1.0);
    let spread = it.span(reader, "spread", NumberRange::SPAN).unwrap_or(0.0);
    it.finish(reader);
    Estimate::Normal {
        mean: mean * factor * flops,
        deviation: spread * flops,
    }
}

fn supply(reader: &mut SectionReader<'_>, section: &mut Section<'_, '_>) -> Supply {
    let every = section.span(reader, "every", NumberRange::MEAN);
    let count = section.count(reader, "count");
    match (every, count) {
        (Some(mean), count) => Supply::Every { mean, count },
        (None, Some(count)) => Supply::All { count },
        (None, None) => Supply::Endless,
    }
}
