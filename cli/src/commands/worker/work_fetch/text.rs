//! Formats the work fetch of workers as tables for people. `json.rs` is the form for programs. The command's help (`work_fetch.rs`) explains
//! the columns, so change both together. Text from a worker passes `printable`; `table` does that for its cells.

use std::time::Duration;

use brasserie_common::work_overview::{
    AssociationOverview, Overview, PairOverview, RequestOverview, TypeOverview,
};

use super::super::asking::AskedWorker;
use crate::output::{duration, printable, table};

/// The text of an empty cell.
const NONE: &str = "-";

/// Formats one line for each worker and scheduler: the current request, and the time of the next one.
pub(super) fn all(all: &[AskedWorker]) -> String {
    let mut rows = Vec::new();
    let mut notes = String::new();
    for asked in all {
        let shard = printable(asked.shard.as_deref().unwrap_or(NONE));
        let state = printable(asked.state.as_deref().unwrap_or(NONE));
        let line = |rest: [String; 4]| [vec![shard.clone(), state.clone()], rest.into()].concat();
        match asked.answer.as_ref().map(|answer| &answer.overview) {
            Ok(Some(overview)) => {
                for one in &overview.of_association {
                    let wanted = one.request.as_ref().map(wanted);
                    rows.push(line([
                        name_of(one),
                        wanted.unwrap_or_else(|| NONE.to_owned()),
                        format!("{} of {}", percent(one.got), percent(one.share)),
                        next_request(overview, one),
                    ]));
                }
            }
            Ok(None) => rows.push(line([
                NONE.to_owned(),
                NONE.to_owned(),
                NONE.to_owned(),
                "never: it takes what it is sent".to_owned(),
            ])),
            Err(error) => {
                rows.push(line([
                    NONE.to_owned(),
                    NONE.to_owned(),
                    NONE.to_owned(),
                    "unknown: it did not answer".to_owned(),
                ]));
                notes.push_str(&format!("! {shard}: {error}\n"));
            }
        }
    }
    let headers = [
        "worker",
        "state",
        "scheduler",
        "asks for",
        "got of share",
        "next request",
    ];
    let mut text = table(&headers, &rows);
    text.push_str(&notes);
    text.push_str("\n`brasserie worker work-fetch WORKER` shows one of them in full.\n");
    text
}

/// Formats the work fetch of one worker in full.
pub(super) fn one(asked: &AskedWorker, overview: &Overview) -> String {
    let name = asked.shard.as_deref().map_or_else(
        || format!("The worker at {}", printable(&asked.address)),
        |shard| {
            format!(
                "Worker `{}` at {}",
                printable(shard),
                printable(&asked.address)
            )
        },
    );
    let mut text = format!(
        "{name} asks for work when less than {} of it is there, for up to {} (profile {}).\n\n",
        seconds(overview.low_water),
        seconds(overview.high_water),
        printable(&overview.profile)
    );
    let headers = [
        "processors",
        "instances",
        "idle",
        "saturated",
        "shortfall",
        "busy",
    ];
    let rows: Vec<Vec<String>> = overview.of_type.iter().map(type_row).collect();
    text.push_str(&table(&headers, &rows));
    text.push('\n');
    let headers = [
        "scheduler",
        "shard",
        "health",
        "priority",
        "got",
        "share",
        "executing",
        "stopped",
        "waiting",
        "unacknowledged",
        "next request",
    ];
    let all = overview.of_association.iter();
    let rows: Vec<Vec<String>> = all
        .clone()
        .map(|one| association_row(overview, one))
        .collect();
    text.push_str(&table(&headers, &rows));
    all.for_each(|one| details(one, &mut text));
    text
}

fn type_row(of: &TypeOverview) -> Vec<String> {
    vec![
        printable(&of.name),
        number(of.instances),
        number(of.idle_now),
        seconds(of.saturated),
        format!("{} instance-s", number(of.shortfall)),
        seconds(of.busy),
    ]
}

fn association_row(overview: &Overview, one: &AssociationOverview) -> Vec<String> {
    let facts = one.facts.as_ref();
    let fact = |text: Option<String>| text.unwrap_or_else(|| NONE.to_owned());
    vec![
        name_of(one),
        fact(facts.map(|facts| printable(facts.shard.as_str()))),
        fact(facts.map(|facts| facts.health.word().to_owned())),
        format!("{:.2}", one.priority),
        percent(one.got),
        percent(one.share),
        fact(facts.map(|facts| facts.executing.to_string())),
        fact(facts.map(|facts| facts.stopped.to_string())),
        fact(facts.map(|facts| facts.waiting.to_string())),
        fact(facts.map(|facts| facts.unacknowledged.to_string())),
        next_request(overview, one),
    ]
}

/// Formats the details that are in no table.
fn details(one: &AssociationOverview, text: &mut String) {
    let instance = one.facts.as_ref().and_then(|facts| facts.scheduler);
    let instance = instance.map_or_else(
        || "which has not answered yet".to_owned(),
        |id| format!("instance {id}"),
    );
    let members = match one.members.is_empty() {
        true => name_of(one),
        false => printable(&one.members.join(", ")),
    };
    text.push_str(&format!("\n{members}, {instance}\n"));
    if let Some(request) = &one.request {
        text.push_str(&format!("  {}\n", printable(&request.to_string())));
    }
    if let Some(reason) = &one.reason {
        text.push_str(&format!("  not asked: {}\n", printable(reason)));
    }
    for line in &one.waits {
        text.push_str(&format!("  {}\n", printable(line)));
    }
    let headers = [
        "for",
        "tasks",
        "work",
        "deadlines missed",
        "may have",
        "not asked",
    ];
    let rows: Vec<Vec<String>> = one.of_type.iter().map(pair_row).collect();
    for line in table(&headers, &rows).lines() {
        text.push_str(&format!("  {line}\n"));
    }
}

fn pair_row(pair: &PairOverview) -> Vec<String> {
    vec![
        printable(&pair.name),
        pair.runnable.to_string(),
        seconds(pair.queued),
        pair.deadlines_missed.to_string(),
        percent(pair.fetchable_share),
        printable(pair.reason.as_deref().unwrap_or(NONE)),
    ]
}

/// Names a scheduler by its first member.
fn name_of(one: &AssociationOverview) -> String {
    match one.members.as_slice() {
        [] => "nobody is known".to_owned(),
        [first] => printable(first),
        [first, rest @ ..] => format!("{} and {} more", printable(first), rest.len()),
    }
}

fn wanted(request: &RequestOverview) -> String {
    let wants = request.demands.iter().filter(|of| of.wants_something());
    let wants: Vec<String> = wants
        .map(|of| {
            let instances = number(of.instances.max(of.idle));
            let processor = printable(of.processor.as_str());
            format!(
                "{} instance-s, {instances} {processor}",
                number(of.instance_secs)
            )
        })
        .collect();
    match wants.is_empty() {
        true => "nothing".to_owned(),
        false => wants.join("; "),
    }
}

/// Formats the earliest time of the next request to the scheduler, as far as it is known.
fn next_request(overview: &Overview, one: &AssociationOverview) -> String {
    if one.request.is_some() {
        return "under way".to_owned();
    }
    let at = |left: Duration| format!("in {} at the earliest", duration(left));
    match (&one.wait, &one.reason) {
        (Some(wait), Some(reason)) => return format!("{}: {}", at(wait.left), printable(reason)),
        (Some(wait), None) => return at(wait.left),
        (None, Some(reason)) => return format!("none: {}", printable(reason)),
        (None, None) => {}
    }
    let lacks = |pair: &&PairOverview| {
        let mut types = overview.of_type.iter();
        let of_type = types.find(|of| of.name == pair.name);
        of_type.is_some_and(|of| of.saturated < overview.low_water && of.shortfall > 0.0)
    };
    let is_open = |pair: &&PairOverview| pair.reason.is_none() && pair.backoff.is_none();
    let all = one.of_type.iter();
    if all.clone().any(|pair| lacks(&pair) && is_open(&pair)) {
        return "when it is its turn".to_owned();
    }
    // A type without a shortfall is not requested when its backoff ends.
    let earliest = |backoffs: &dyn Fn(&&PairOverview) -> bool| {
        let backoffs = all.clone().filter(backoffs);
        backoffs
            .filter_map(|pair| pair.backoff.as_ref())
            .map(|wait| wait.left)
            .min()
    };
    if let Some(left) = earliest(&lacks) {
        return at(left);
    }
    if all.clone().any(|pair| is_open(&pair)) {
        return format!("below {} of work", seconds(overview.low_water));
    }
    let reason = all.clone().find_map(|pair| pair.reason.as_deref());
    match (earliest(&|_| true), reason) {
        (Some(left), _) => at(left),
        (None, Some(reason)) => format!("none: {}", printable(reason)),
        (None, None) => NONE.to_owned(),
    }
}

fn percent(part: f64) -> String {
    format!("{:.0} %", part * 100.0)
}

/// Formats an amount as `2` or `2.5`.
fn number(amount: f64) -> String {
    let rounded = (amount * 10.0).round() / 10.0;
    format!("{rounded}")
}

fn seconds(seconds: f64) -> String {
    match Duration::try_from_secs_f64(seconds) {
        Ok(span) if span.is_zero() => "0 s".to_owned(),
        Ok(span) => duration(span),
        Err(_) => "forever".to_owned(),
    }
}
