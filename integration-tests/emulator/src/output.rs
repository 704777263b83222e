//! Writes the results of runs as text, JSON and CSV.

pub mod text;

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::{fs, io};

use crate::outcome::{ContactKind, ContactResult, Outcome};

/// Writes all results of a run into the folder, and creates the folder if necessary.
pub fn write(folder: &Path, outcome: &Outcome) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    fs::write(folder.join("results.txt"), text::results(outcome))?;
    fs::write(folder.join("results.json"), json(outcome)?)?;
    fs::write(folder.join("results.dat"), text::figures_line(outcome))?;
    fs::write(folder.join("series.csv"), series(outcome))?;
    fs::write(folder.join("contacts.csv"), contacts(outcome))
}

pub fn json<T: serde::Serialize + ?Sized>(of: &T) -> io::Result<String> {
    let mut text = serde_json::to_string_pretty(of)?;
    text.push('\n');
    Ok(text)
}

/// Prints to standard output. A reader that has closed the pipe (`| head`) is no error.
pub fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => done,
    }
}

/// Returns the time series, one line for each sample and scheduler.
fn series(outcome: &Outcome) -> String {
    let mut text =
        "seconds,scheduler,rec,priority,tasks,queued_seconds,instances,shortfall_seconds\n"
            .to_owned();
    for sample in &outcome.series {
        for (scheduler, glance) in outcome.schedulers.iter().zip(&sample.schedulers) {
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "{},{},{},{},{},{},{},{}",
                rounded(sample.at),
                quoted(&scheduler.name),
                glance.rec,
                glance.priority,
                glance.tasks,
                rounded(glance.queued),
                glance.usage,
                rounded(sample.shortfall)
            );
        }
    }
    text
}

/// Returns the contacts, one line each.
fn contacts(outcome: &Outcome) -> String {
    let mut text = "seconds,scheduler,kind,result,tasks,request_delay_seconds\n".to_owned();
    for contact in &outcome.contacts {
        let kind = match contact.kind {
            ContactKind::Request => "request",
            ContactKind::Report => "report",
        };
        let (result, tasks) = match contact.result {
            ContactResult::Failed => ("failed", 0),
            ContactResult::Deferred => ("deferred", 0),
            ContactResult::Answered(tasks) => ("answered", tasks),
        };
        let name = quoted(&outcome.schedulers[contact.scheduler].name);
        let (at, delay) = (rounded(contact.at), contact.request_delay);
        let _ = writeln!(text, "{at},{name},{kind},{result},{tasks},{delay}");
    }
    text
}

/// Rounds to milliseconds.
fn rounded(seconds: f64) -> f64 {
    (seconds * 1000.0).round() / 1000.0
}

/// Quotes a field by the rules of RFC 4180.
pub fn quoted(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_break_a_table_is_quoted() {
        assert_eq!(quoted("plain"), "plain");
        assert_eq!(quoted("a,b"), "\"a,b\"");
        assert_eq!(quoted("say \"x\""), "\"say \"\"x\"\"\"");
    }
}
