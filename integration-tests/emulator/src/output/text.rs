//! Writes results as text.

use std::fmt::Write as _;

use crate::outcome::{Outcome, SchedulerOutcome};

/// Returns the figures on one line, like BOINC's simulator: wasted fraction, idle fraction, share violation, monotony, RPCs per job.
pub fn figures_line(outcome: &Outcome) -> String {
    let figures = &outcome.figures;
    format!(
        "wf {:.6} if {:.6} sv {:.6} m {:.6} r {:.6}\n",
        figures.wasted,
        figures.idle,
        figures.share_violation,
        figures.monotony,
        figures.rpcs_per_job
    )
}

pub fn results(outcome: &Outcome) -> String {
    let figures = &outcome.figures;
    let totals = &outcome.totals;
    let mut text = format!("{}\n", outcome.scenario);
    if !outcome.about.is_empty() {
        text += &format!("{}\n", outcome.about);
    }
    text += &format!(
        "\n{} of simulated time, seed {}\n\n",
        span(outcome.duration),
        outcome.seed
    );
    let idle = format!(
        "{} could not be helped, as there was nothing to do",
        percent(outcome.allowed_idle)
    );
    for (name, value, why) in [
        (
            "wasted fraction",
            figures.wasted,
            "in tasks that were reported too late",
        ),
        ("idle fraction", figures.idle, idle.as_str()),
        (
            "share violation",
            figures.share_violation,
            "what schedulers got beside their shares; 0 to 2",
        ),
        (
            "monotony",
            figures.monotony,
            "how long schedulers waited for their turns; 0 to 1",
        ),
        (
            "RPCs per job",
            figures.rpcs_per_job,
            "half the contacts for each task; 1: one fetches and one reports each",
        ),
    ] {
        text += &format!("{name:<16} {value:>9.6}  {why}\n");
    }
    text += &format!(
        "\n{} tasks, {} contacts, {} more that nobody answered\n",
        totals.jobs, totals.contacts, totals.failed_contacts
    );
    text += &format!(
        "{:.6e} of {:.6e} operations at peak speed were used\n",
        totals.used, totals.could
    );
    for scheduler in &outcome.schedulers {
        text += &scheduler_text(scheduler, outcome);
    }
    text
}

fn scheduler_text(scheduler: &SchedulerOutcome, outcome: &Outcome) -> String {
    let shares: f64 = outcome.schedulers.iter().map(|it| it.share).sum();
    let due = if shares > 0.0 {
        scheduler.share / shares
    } else {
        0.0
    };
    let mut text = format!(
        "\n{}: got {} of what was used, {} was due\n",
        scheduler.name,
        percent(scheduler.got),
        percent(due)
    );
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "  operations: {:.6e} used, {:.6e} wasted",
        scheduler.used, scheduler.wasted
    );
    let _ = writeln!(
        text,
        "  tasks: {} came, {} met their deadlines or have none, {} missed them, {} failed, {} are late and not reported, {} more were refused",
        scheduler.jobs,
        scheduler.met,
        scheduler.missed,
        scheduler.failed,
        scheduler.overdue,
        scheduler.refused
    );
    let _ = writeln!(
        text,
        "  contacts: {}, {} of them for work in vain; {} more that it did not answer",
        scheduler.contacts, scheduler.in_vain, scheduler.failed_contacts
    );
    text
}

/// Returns the header of [`summary_row`]s.
pub fn summary_head(width: usize) -> String {
    format!(
        "{:<width$} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>7} {:>7}\n",
        "scenario",
        "wasted",
        "idle",
        "allowed",
        "shares",
        "monotony",
        "RPCs/job",
        "tasks",
        "missed"
    )
}

/// Returns a run's figures on one line.
pub fn summary_row(name: &str, outcome: &Outcome, width: usize) -> String {
    let figures = &outcome.figures;
    let missed: u64 = outcome.schedulers.iter().map(|it| it.missed).sum();
    format!(
        "{name:<width$} {:>8.5} {:>8.5} {:>8.5} {:>8.5} {:>8.5} {:>8.5} {:>7} {missed:>7}\n",
        figures.wasted,
        figures.idle,
        outcome.allowed_idle,
        figures.share_violation,
        figures.monotony,
        figures.rpcs_per_job,
        outcome.totals.jobs,
    )
}

pub fn percent(part: f64) -> String {
    format!("{:.2} %", part * 100.0)
}

/// Formats a span in its two largest units.
pub fn span(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    let units = [(86_400, "d"), (3600, "h"), (60, "m"), (1, "s")];
    let mut left = whole;
    let parts = units.iter().filter_map(|(length, unit)| {
        let count = left / length;
        left %= length;
        (count > 0).then(|| format!("{count}{unit}"))
    });
    let parts: Vec<String> = parts.take(2).collect();
    match parts.is_empty() {
        true => "0s".to_owned(),
        false => parts.join(" "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_two_units() {
        assert_eq!(span(0.2), "0s");
        assert_eq!(span(59.6), "1m");
        assert_eq!(span(3661.0), "1h 1m");
        assert_eq!(span(864_000.0), "10d");
    }
}
