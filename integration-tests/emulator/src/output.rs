//! Writes the results of runs as text, data and pictures.

pub mod chart;
pub mod csv;
pub mod text;
pub mod timeline;

use std::io::Write as _;
use std::path::Path;
use std::{fs, io};

use crate::outcome::Outcome;

/// Writes all results of a run into the folder, and creates the folder if necessary.
pub fn write(folder: &Path, outcome: &Outcome) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    fs::write(folder.join("results.txt"), text::results(outcome))?;
    fs::write(folder.join("results.json"), json(outcome)?)?;
    fs::write(folder.join("results.dat"), text::figures_line(outcome))?;
    fs::write(folder.join("series.csv"), csv::series(outcome))?;
    fs::write(folder.join("contacts.csv"), csv::contacts(outcome))?;
    fs::write(folder.join("timeline.svg"), timeline::picture(outcome))
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
