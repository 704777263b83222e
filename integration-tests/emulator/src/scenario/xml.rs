//! Reads BOINC's scenarios: a `client_state.xml`, and if they exist beside it, `global_prefs.xml`, `global_prefs_override.xml` and
//! `cc_config.xml`. Elements without a meaning for the emulation are ignored.

mod fields;
mod projects;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use brasserie_worker_core::work_fetch::{Preemption, Profile};
use roxmltree::{Document, Node};

use super::problems::{Limits, Problems};
use super::{CPU, Cards, Deadlines, Dispatch, Jobs, Policy, Scenario, ServerCheck, Worker};
use crate::availability::OnOff;
use fields::Fields;

/// The defaults of BOINC's simulator, in seconds.
const DURATION: f64 = 86_400.0;
const DELTA: f64 = 60.0;
const SEED: u64 = 1;
/// The assumed fraction of a GPU's peak speed that tasks reach.
const CARD_EFFICIENCY: f64 = 0.2;
/// The half-life in days, if the file gives none.
const DEFAULT_HALF_LIFE_DAYS: f64 = 10.0;

pub(super) fn read(path: &Path) -> Result<Scenario, Problems> {
    let state = super::text_of(path)?;
    let mut problems = Problems::new(path);
    let mut scenario = parse(path, &state, &mut problems);
    for (file, read) in [
        ("global_prefs.xml", preferences as Reading),
        ("global_prefs_override.xml", preferences),
        ("cc_config.xml", configuration),
    ] {
        let beside = beside(path, file);
        if beside.exists() {
            match super::text_of(&beside) {
                Ok(text) => {
                    let mut its = Problems::new(&beside);
                    with_root(&text, &mut its, |root, problems| {
                        read(&mut Fields::new(root, problems), &mut scenario.profile);
                    });
                    problems.join(its);
                }
                Err(unreadable) => problems.join(unreadable),
            }
        }
    }
    problems.none_or(scenario)
}

type Reading = fn(&mut Fields<'_, '_>, &mut Profile);

/// Returns the path of the file with the same prefix: `X_global_prefs.xml` belongs to `X_client_state.xml`.
fn beside(state: &Path, file: &str) -> PathBuf {
    let stem = state.file_stem().and_then(|stem| stem.to_str());
    let prefix = stem.and_then(|stem| stem.strip_suffix("client_state"));
    state.with_file_name(format!("{}{file}", prefix.unwrap_or_default()))
}

fn with_root(text: &str, problems: &mut Problems, read: impl FnOnce(Node<'_, '_>, &mut Problems)) {
    match Document::parse(text) {
        Ok(document) => read(document.root_element(), problems),
        Err(error) => {
            let line = usize::try_from(error.pos().row).unwrap_or(0);
            problems.at(line, "", format!("is no XML: {error}"));
        }
    }
}

pub(super) fn parse(path: &Path, text: &str, problems: &mut Problems) -> Scenario {
    let mut scenario = Scenario {
        name: super::name_of(path),
        about: String::new(),
        duration: DURATION,
        delta: DELTA,
        seed: SEED,
        profile: Profile::VOLUNTEER,
        worker: Worker {
            cpus: 1,
            flops: 1e9,
            cards: Vec::new(),
            on: OnOff::ALWAYS,
            active: OnOff::ALWAYS,
            cards_active: OnOff::ALWAYS,
            connected: OnOff::ALWAYS,
        },
        policy: Policy {
            dispatch: Dispatch::Pull,
            linger: 0.0,
            deadlines: Deadlines::EarliestFirst,
            preemption: Preemption::Off,
            server_check: ServerCheck::EstimatedDelay,
            supply: Jobs::AsListed,
            tells_progress: true,
        },
        schedulers: Vec::new(),
        excuses: None,
    };
    with_root(text, problems, |root, problems| {
        if !root.has_tag_name("client_state") {
            let line = fields::line_of(root);
            let text = format!("is `<{}>`, not `<client_state>`", root.tag_name().name());
            problems.at(line, "", text);
            return;
        }
        scenario.about = about(root);
        host(root, problems, &mut scenario.worker);
        scenario.schedulers = projects::read(root, problems, &scenario.worker);
    });
    scenario
}

/// Returns the text of the first comment.
fn about(root: Node<'_, '_>) -> String {
    let document = root.document().root();
    let comment = document.descendants().find(|node| node.is_comment());
    let text = comment.and_then(|node| node.text()).unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn host(root: Node<'_, '_>, problems: &mut Problems, worker: &mut Worker) {
    let child = |name: &str| root.children().find(|node| node.has_tag_name(name));
    match child("host_info") {
        Some(host) => host_info(&mut Fields::new(host, problems), worker),
        None => problems.at(
            fields::line_of(root),
            "client_state",
            "has no `<host_info>`",
        ),
    }
    if let Some(stats) = child("time_stats") {
        let mut stats = Fields::new(stats, problems);
        worker.on = on_off(&mut stats, "on");
        worker.active = on_off(&mut stats, "active");
        worker.cards_active = on_off(&mut stats, "gpu_active");
        worker.connected = on_off(&mut stats, "connected");
    }
}

fn host_info(host: &mut Fields<'_, '_>, worker: &mut Worker) {
    if let Some(cpus) = host.needed_instances("p_ncpus") {
        worker.cpus = cpus;
        if cpus == 0 {
            host.problem("p_ncpus", "a host has one CPU at least");
        }
    }
    if let Some(flops) = host.number("p_fpops", Limits::POSITIVE) {
        worker.flops = flops;
    }
    let Some(all) = host.child("coprocs") else {
        return;
    };
    let mut names = BTreeSet::from([CPU.to_owned()]);
    for one in all.children().filter(|node| node.has_tag_name("coproc")) {
        let mut one = host.of(one);
        let kinds = ("kinds of processors", &mut names);
        let model = one.own_text("type", kinds).unwrap_or_default();
        let count = one.needed_instances("count").unwrap_or(1);
        let peak = one.needed_number("peak_flops", Limits::POSITIVE);
        worker.cards.push(Cards {
            model,
            count,
            speed: peak.map_or(1.0, |peak| CARD_EFFICIENCY * peak / worker.flops),
        });
    }
}

fn on_off(stats: &mut Fields<'_, '_>, of: &str) -> OnOff {
    let part = stats.number(&format!("{of}_frac"), Limits::PART);
    let mean = stats.number(&format!("{of}_lambda"), Limits::MEAN);
    OnOff {
        part: part.unwrap_or(1.0),
        mean: mean.unwrap_or(OnOff::ALWAYS.mean),
    }
}

fn preferences(all: &mut Fields<'_, '_>, profile: &mut Profile) {
    const DAYS: Limits = Limits::from(0.0, 3652.0);
    if let Some(days) = all.number("work_buf_min_days", DAYS) {
        profile.work_buffer_min = days * 86_400.0;
    }
    if let Some(days) = all.number("work_buf_additional_days", DAYS) {
        profile.work_buffer_additional = days * 86_400.0;
    }
    const MINUTES: Limits = Limits::above(0.0, 5e6);
    if let Some(minutes) = all.number("cpu_scheduling_period_minutes", MINUTES) {
        profile.time_slice = minutes * 60.0;
    }
}

fn configuration(root: &mut Fields<'_, '_>, profile: &mut Profile) {
    let Some(options) = root.child("options") else {
        return;
    };
    let mut options = root.of(options);
    if let Some(days) = options.number("rec_half_life_days", Limits::from(-1e6, 3652.0)) {
        let days = if days > 0.0 {
            days
        } else {
            DEFAULT_HALF_LIFE_DAYS
        };
        profile.rec_half_life = days * 86_400.0;
    }
}
