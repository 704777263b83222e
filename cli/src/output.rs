//! How commands print: tables for people, durations in words, one JSON document for programs.

use std::io::{self, Write as _};
use std::time::Duration;

use serde_json::Value;

/// A table without frames; columns are as wide as their widest cell. Numbers go right.
pub(crate) fn table(headers: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows
            .iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count());
        cells
            .chain([headers[column].chars().count()])
            .max()
            .unwrap_or(0)
    };
    let is_number = |column: usize| {
        let mut cells = rows.iter().filter_map(|row| row.get(column)).peekable();
        cells.peek().is_some() && cells.all(|cell| cell.chars().all(|c| c.is_ascii_digit()))
    };
    let columns: Vec<(usize, bool)> = (0..headers.len())
        .map(|c| (width(c), is_number(c)))
        .collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let cells = cells.zip(&columns).map(|(cell, &(width, is_number))| {
            if is_number {
                format!("{cell:>width$}")
            } else {
                format!("{cell:<width$}")
            }
        });
        let text = cells.collect::<Vec<_>>().join("  ");
        format!("{}\n", text.trim_end())
    };
    let mut text = line(&mut headers.iter().copied());
    for row in rows {
        text.push_str(&line(&mut row.iter().map(String::as_str)));
    }
    text
}

/// `950 ms`, `2.4 s`, `3 min 20 s`, `2 h 5 min`.
pub(crate) fn duration(d: Duration) -> String {
    let secs = d.as_secs();
    if d < Duration::from_secs(1) {
        format!("{} ms", d.as_millis())
    } else if secs < 60 {
        format!("{:.1} s", d.as_secs_f64())
    } else if secs < 3600 {
        format!("{} min {} s", secs / 60, secs % 60)
    } else {
        format!("{} h {} min", secs / 3600, secs % 3600 / 60)
    }
}

/// What others wrote must not move the cursor or change colours here.
pub(crate) fn printable(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_control() {
            true => clean.extend(c.escape_debug()),
            false => clean.push(c),
        }
    }
    clean
}

/// Prints a line on standard error, as `eprintln!` does, which panics if nobody reads it or its disk is full. A command that has nothing
/// to do meanwhile may wait here; `brasserie run` queues its lines with `telemetry::print_error`.
macro_rules! complain {
    ($($arguments:tt)*) => {
        $crate::output::print_complaint(format_args!($($arguments)*))
    };
}
pub(crate) use complain;

/// For [`complain!`].
pub(crate) fn print_complaint(text: std::fmt::Arguments<'_>) {
    // The exit code says the same, and nobody is left to complain to.
    let _ = writeln!(io::stderr(), "{text}");
}

/// Prints to standard output; a reader that went away (`| head`) is no error.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    print_on(text).map(|_: Reader| ())
}

/// Who reads standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    Listens,
    /// Nobody will ever see more.
    Gone,
}

/// As `print`, for those who have more to say.
pub(crate) fn print_on(text: &str) -> anyhow::Result<Reader> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Reader::Gone),
        Err(error) => Err(error.into()),
        Ok(()) => Ok(Reader::Listens),
    }
}

/// One document, indented.
pub(crate) fn print_json(value: &Value) -> anyhow::Result<()> {
    print(&format!("{value:#}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_align_numbers_right_and_text_left() {
        let rows = vec![
            vec!["a".to_owned(), "10".to_owned()],
            vec!["long".to_owned(), "7".to_owned()],
        ];
        assert_eq!(
            table(&["name", "n"], &rows),
            "name   n\na     10\nlong   7\n"
        );
    }

    #[test]
    fn foreign_text_moves_no_cursor() {
        let text = printable("a \u{1b}[31m\"ß\"\n");
        assert_eq!(text, "a \\u{1b}[31m\"ß\"\\n");
    }

    #[test]
    fn durations_read_well() {
        let texts: Vec<String> = [0.95, 2.44, 200.0, 7500.0]
            .map(|s| duration(Duration::from_secs_f64(s)))
            .to_vec();
        assert_eq!(texts, ["950 ms", "2.4 s", "3 min 20 s", "2 h 5 min"]);
    }
}
