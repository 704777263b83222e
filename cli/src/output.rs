//! Output of commands: tables and durations for people, one JSON document for programs.
//!
//! All text for people is escaped on output, because names and errors come from peers. A name that could break its line is escaped where it
//! is inserted ([`printable`], [`printable_block`], [`table`]).

use std::io::{self, Write as _};
use std::sync::LazyLock;

use brasserie_common::text::{printable_json, printable_lines};
use clap::CommandFactory as _;
use serde_json::Value;

pub(crate) use brasserie_common::text::{printable, printable_block, shell_word};
pub(crate) use brasserie_common::time::readable_duration as duration;

/// The command that runs failed tasks of a run again.
const RETRY: &str = "`brasserie run` with --retry-failed";
/// The word for the reader of a command that the reader of its sentence passes on.
const ADMINISTRATOR: &str = "administrator";
/// The flags of a command that already says which scheduler it calls, or that calls none.
const NAMES_ONE: [&str; 6] = [
    "--scheduler",
    "--token-file",
    "--context",
    "--data-dir",
    "--help",
    "-h",
];

/// The last text that a command printed of one kind, so that it prints each text once until another follows.
#[derive(Default)]
pub(crate) struct LastText(String);

impl LastText {
    /// Prints the text as a complaint unless it was the last one.
    pub(crate) fn complain(&mut self, text: String) {
        if let Some(text) = self.changed(text) {
            complain!("brasserie: {text}");
        }
    }

    /// Returns the text unless it was the last one.
    pub(crate) fn changed(&mut self, text: String) -> Option<String> {
        if text == self.0 {
            return None;
        }
        self.0.clone_from(&text);
        Some(text)
    }
}

/// Formats a table without frames, with columns as wide as their widest cell. Numbers are aligned right. Cells are made printable.
pub(crate) fn table(headers: &[&str], rows: &[Vec<String>]) -> String {
    let clean = |row: &Vec<String>| row.iter().map(|cell| printable(cell)).collect();
    let rows: &[Vec<String>] = &rows.iter().map(clean).collect::<Vec<_>>();
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
        let cells = || rows.iter().filter_map(|row| row.get(column));
        cells().any(|cell| cell.chars().any(|c| c.is_ascii_digit()))
            && cells().all(|cell| is_count(cell))
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

/// Returns whether the cell is a number, one of several as in `1 of 2`, or `-` for none.
fn is_count(cell: &str) -> bool {
    let is_number = |text: &str| text.chars().all(|c| c.is_ascii_digit());
    cell == "-" || cell.split(" of ").all(is_number)
}

/// Formats seconds since 1970 as a date in UTC, because the machines of a cluster may have different zones.
pub(crate) fn date(seconds: i64) -> String {
    match jiff::Timestamp::from_second(seconds) {
        Ok(time) => time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
        Err(_) => format!("{seconds} seconds after 1970"),
    }
}

/// Completes advice: adds the flag that names the scheduler or a data directory, with a space before it, to each command in backticks that has
/// such a flag and does not name another scheduler, so that the command can be pasted. Leaves commands for an administrator alone, whose flags
/// are others. In the text for a run, replaces `brasserie job forgive`, which needs a scheduler that goes on.
pub(crate) fn with_flag(text: &str, flag: &str) -> String {
    let is_run = flag.starts_with(" --data-dir");
    let complete = |before: &str, part: &str| {
        let sentence = before.rsplit(". ").next().unwrap_or_default();
        match SuggestedCommand::of(part) {
            Some(command) if is_run && command.is_forgive() => RETRY.to_owned(),
            Some(command) if command.takes_flag(is_run) && !sentence.contains(ADMINISTRATOR) => {
                let (command, rest) = part.split_at(command.bytes);
                format!("`{command}{flag}{rest}`")
            }
            Some(_) | None => format!("`{part}`"),
        }
    };
    // Names may have backticks, which would change the meaning of those after them. They do so on one line at most.
    let lines = text.split('\n').map(|line| {
        let mut completed = String::new();
        let mut parts = line.split('`');
        completed.push_str(parts.next().unwrap_or_default());
        while let Some(part) = parts.next() {
            match parts.next() {
                Some(after) => {
                    let part = complete(&completed, part);
                    completed.push_str(&part);
                    completed.push_str(after);
                }
                // The last backtick has no partner.
                None => completed.push_str(&format!("`{part}")),
            }
        }
        completed
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// A command of this program in a text for people.
struct SuggestedCommand<'a> {
    words: Vec<&'a str>,
    /// The length up to the arguments of another program, a pipe or another command.
    bytes: usize,
    definition: &'static clap::Command,
}

impl<'a> SuggestedCommand<'a> {
    /// Finds the definition of a command; `None` if the text is none of this program.
    fn of(text: &'a str) -> Option<Self> {
        static PROGRAM: LazyLock<clap::Command> = LazyLock::new(crate::Cli::command);
        let ends = [" -- ", " | ", " > ", " && ", " #", "; "].into_iter();
        let bytes = ends.filter_map(|end| text.find(end)).min();
        let bytes = bytes.unwrap_or(text.len());
        let words: Vec<&str> = text[..bytes].split(' ').collect();
        let (program, arguments) = words.split_first()?;
        let mut definition: &'static clap::Command = &PROGRAM;
        let mut subcommands = arguments.iter();
        while let Some(found) = subcommands
            .next()
            .and_then(|w| definition.find_subcommand(w))
        {
            definition = found;
        }
        (*program == "brasserie").then_some(SuggestedCommand {
            words,
            bytes,
            definition,
        })
    }

    fn is_forgive(&self) -> bool {
        self.definition.get_name() == "forgive"
    }

    /// Returns whether the command takes the flags that name a scheduler, or those that name the data directory of a run, and has none yet.
    fn takes_flag(&self, is_run: bool) -> bool {
        let has = |flag: &str| {
            let mut known = self.definition.get_arguments();
            known.any(|known| known.get_id() == flag)
        };
        let names_one = self.words.iter().any(|word| {
            let flag = word.split('=').next().unwrap_or_default();
            NAMES_ONE.contains(&flag)
        });
        // `brasserie context add` has `--scheduler` too, but no `--context`.
        has("context") && (!is_run || has("data_dir")) && !names_one
    }
}

/// Prints a line on standard error. Unlike `eprintln!`, does not panic if standard error has no reader or its disk is full. May block, so
/// `brasserie run` queues its lines with `telemetry::print_error` instead.
macro_rules! complain {
    ($($arguments:tt)*) => {
        $crate::output::print_complaint(format_args!($($arguments)*))
    };
}
pub(crate) use complain;

/// Implements [`complain!`].
pub(crate) fn print_complaint(text: std::fmt::Arguments<'_>) {
    // If standard error cannot be written, only the exit code can report the failure.
    let _ = writeln!(io::stderr(), "{}", printable_lines(&text.to_string()));
}

/// Prints text for people to standard output. A closed pipe (`| head`) is no error.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    print_on(text).map(|_: OutputReader| ())
}

/// The state of the reader of standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputReader {
    Listens,
    /// The pipe is closed, so no further output is read.
    Gone,
}

/// Prints like `print`, for callers with more output.
pub(crate) fn print_on(text: &str) -> anyhow::Result<OutputReader> {
    print_raw(&printable_lines(text))
}

/// Prints text unescaped: task output, and escape sequences of this program.
pub(crate) fn print_raw(text: &str) -> anyhow::Result<OutputReader> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(OutputReader::Gone),
        Err(error) => Err(error.into()),
        Ok(()) => Ok(OutputReader::Listens),
    }
}

/// The layout of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    Indented,
    OneLine,
}

/// Prints one document, indented.
pub(crate) fn print_json(value: &Value) -> anyhow::Result<()> {
    print_raw(&json_text(value, Layout::Indented)).map(|_: OutputReader| ())
}

/// Returns a document with its newline. Escapes also the control characters that JSON permits in strings.
pub(crate) fn json_text(value: &Value, layout: Layout) -> String {
    printable_json(&match layout {
        Layout::Indented => format!("{value:#}\n"),
        Layout::OneLine => format!("{value}\n"),
    })
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
        let cells = ["10", "1 of 2", "-"].map(|cell| vec![cell.to_owned(), "x".to_owned()]);
        assert_eq!(
            table(&["n", "t"], &cells),
            "     n  t\n    10  x\n1 of 2  x\n     -  x\n"
        );
        let cells = ["-", "-"].map(|cell| vec![cell.to_owned(), "x".to_owned()]);
        assert_eq!(table(&["why", "t"], &cells), "why  t\n-    x\n-    x\n");
    }

    #[test]
    fn a_cell_stays_in_its_row_and_moves_no_cursor() {
        let rows = vec![vec!["a\u{1b}[2J\nb".to_owned(), "1".to_owned()]];
        let text = table(&["name", "n"], &rows);
        assert_eq!(text, "name           n\na\\u{1b}[2J\\nb  1\n");
    }

    #[test]
    fn a_document_moves_no_cursor_either() {
        let value = serde_json::json!({ "a": "\u{1b}\u{9b}\u{7f}\u{202e}ß" });
        let text = json_text(&value, Layout::OneLine);
        assert_eq!(text, "{\"a\":\"\\u001b\\u009b\\u007f\\u202eß\"}\n");
        let read: Value = serde_json::from_str(&text).expect("it is still JSON");
        assert_eq!(read, value);
    }

    #[test]
    fn dates_have_their_zone_and_none_is_too_far_away() {
        assert_eq!(date(1_795_436_034), "2026-11-23 12:13:54 UTC");
        assert_eq!(date(i64::MAX), format!("{} seconds after 1970", i64::MAX));
    }

    #[test]
    fn commands_get_the_flag_of_their_scheduler() {
        let text = "`brasserie job forgive JOB` does it, `brasserie status` shows it, `brasserie config check F` not; `x` neither";
        let named = "`brasserie job forgive JOB --scheduler h:1` does it, `brasserie status --scheduler h:1` shows it, \
                     `brasserie config check F` not; `x` neither";
        assert_eq!(with_flag(text, " --scheduler h:1"), named);
        assert_eq!(with_flag(named, " --scheduler h:12"), named);
        assert_eq!(with_flag(text, ""), text);
        let run = "`brasserie run` with --retry-failed does it, `brasserie status --data-dir d` shows it, \
                   `brasserie config check F` not; `x` neither";
        assert_eq!(with_flag(text, " --data-dir d"), run);
        let authority = "replace it with `brasserie ca rotate`";
        let named = "replace it with `brasserie ca rotate --context c`";
        assert_eq!(with_flag(authority, " --context c"), named);
        let changes = "`brasserie job resume`, `brasserie task kill j n`";
        assert_eq!(with_flag(changes, " --data-dir d"), changes);
        for (text, completed) in [
            ("`brasserie token --help`", "`brasserie token --help`"),
            ("`brasserie context add`", "`brasserie context add`"),
            ("`brasserie doctor`", "`brasserie doctor`"),
            ("`brasserie job`", "`brasserie job`"),
            ("`brasserie run FILE`", "`brasserie run FILE`"),
            (
                "No. Ask an administrator: `brasserie token create`. Or `brasserie status`",
                "No. Ask an administrator: `brasserie token create`. Or `brasserie status --token-file t`",
            ),
            (
                "`brasserie token create --role worker | ssh w7 brasserie-worker`",
                "`brasserie token create --role worker --token-file t | ssh w7 brasserie-worker`",
            ),
            (
                "`brasserie artifact hold j -- make`",
                "`brasserie artifact hold j --token-file t -- make`",
            ),
            (
                "`brasserie status --token-file=d`",
                "`brasserie status --token-file=d`",
            ),
        ] {
            assert_eq!(with_flag(text, " --token-file t"), completed);
        }
        let odd = "a name with `\n`brasserie status`";
        let completed = "a name with `\n`brasserie status --scheduler h:1`";
        assert_eq!(with_flag(odd, " --scheduler h:1"), completed);
    }
}
