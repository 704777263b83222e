//! The log of a program: lines on standard error, filtered by `BRASSERIE_LOG`, as text or as JSON objects.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::ffi::OsStr;
use std::fmt::{self, Debug};
use std::io::{self, IsTerminal};
use std::panic::PanicHookInfo;

use brasserie_common::text::{printable, printable_block, printable_json};
use tracing::field::Field;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::fmt::format::{Writer, debug_fn};

use crate::log_format::{self, LogFormat, message_line};
use crate::log_writer;

/// The environment variable with the log filter, in the syntax of tracing's filters (`debug`, `brasserie_scheduler=trace,info`).
pub const LOG_VARIABLE: &str = "BRASSERIE_LOG";

/// Environment variable that switches off colours if it is set and not empty (<https://no-color.org>).
const NO_COLOR: &str = "NO_COLOR";

/// The amount of logging without [`LOG_VARIABLE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verbosity {
    /// The level of servers: events that an operator may read later.
    Info,
    /// The level of programs that print their results to a person.
    WarningsOnly,
}

impl Verbosity {
    fn filter(self) -> &'static str {
        match self {
            Verbosity::Info => "info",
            Verbosity::WarningsOnly => "warn",
        }
    }
}

/// The reason why logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    #[error(
        "{LOG_VARIABLE} is no log filter: {0}. Write a level (`debug`) or targets (`brasserie_scheduler=debug,info`)"
    )]
    BadFilter(String),
    #[error("logging is already set up in this process")]
    AlreadySet,
}

/// Flushes the log when the program ends. Keep it in `main`, and drop it before `std::process::exit`.
#[derive(Debug)]
#[must_use = "the last lines are lost without it"]
pub struct LogGuard(());

impl Drop for LogGuard {
    fn drop(&mut self) {
        log_writer::stderr().flush(log_writer::FLUSH_LIMIT);
    }
}

/// Sends log lines and the messages of panics to standard error through a separate thread. Call it once per process.
pub fn init(default: Verbosity, format: LogFormat) -> Result<LogGuard, TelemetryError> {
    let filter = parse_filter(std::env::var(LOG_VARIABLE).ok().as_deref(), default)?;
    set_format(format);
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        // Otherwise the subscriber prints refused lines to standard error with `eprintln!`, which may wait or panic.
        .log_internal_errors(false);
    let no_color = std::env::var_os(NO_COLOR);
    let begun = match format {
        LogFormat::Text => lines
            .with_writer(|| log_writer::stderr().clone())
            .fmt_fields(debug_fn(write_field).delimited(" "))
            .with_ansi(has_colors(io::stderr().is_terminal(), no_color.as_deref()))
            .try_init(),
        LogFormat::Json => lines
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .with_span_list(false)
            .with_writer(|| JsonLines(log_writer::stderr().clone()))
            .try_init(),
    };
    begun.map_err(|_| TelemetryError::AlreadySet)?;
    Ok(LogGuard(()))
}

/// Sets the format of [`print_error`], and has the messages of panics printed in the same way. [`init`] calls it; a process without a log
/// calls it alone. Later calls have no effect.
pub fn set_format(format: LogFormat) {
    if log_format::set(format) {
        std::panic::set_hook(Box::new(log_panic));
    }
}

fn has_colors(is_terminal: bool, no_color: Option<&OsStr>) -> bool {
    is_terminal && no_color.is_none_or(OsStr::is_empty)
}

/// Queues a message for standard error, as `main` prints errors. Never waits.
pub fn print_error(message: &str) {
    log_writer::stderr().write_line(message_line(message).into_bytes());
}

/// A writer of JSON lines that escapes characters a terminal would interpret.
#[derive(Debug)]
struct JsonLines<W>(W);

impl<W: io::Write> io::Write for JsonLines<W> {
    /// Writes one whole line: the subscriber makes one call for each.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = printable_json(&String::from_utf8_lossy(line));
        self.0.write_all(text.as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Prints the error with which a program ends: waits until standard error has accepted it, at most for the limit of a flush.
pub fn print_last_error(message: &str) {
    print_error(message);
    log_writer::stderr().flush(log_writer::FLUSH_LIMIT);
}

/// Prints a panic through the writing thread. The standard hook waits until standard error takes the message, so the program could hang
/// instead of ending.
fn log_panic(info: &PanicHookInfo<'_>) {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("<unnamed>");
    let backtrace = Backtrace::capture();
    print_last_error(&match backtrace.status() {
        BacktraceStatus::Captured => format!("thread '{name}' {info}\n{backtrace}"),
        _ => format!("thread '{name}' {info}"),
    });
}

/// Writes one field of an event. Values come from peers and files: none may move a terminal's cursor. Further lines of a message are
/// indented, so that none looks like an event of its own.
fn write_field(out: &mut Writer<'_>, field: &Field, value: &dyn Debug) -> fmt::Result {
    let value = format!("{value:?}");
    match field.name() {
        "message" => out.write_str(&printable_block(&value)),
        name => write!(out, "{name}={}", printable(&value)),
    }
}

fn parse_filter(text: Option<&str>, default: Verbosity) -> Result<EnvFilter, TelemetryError> {
    let text = text.filter(|t| !t.is_empty()).unwrap_or(default.filter());
    EnvFilter::try_new(text).map_err(|e| TelemetryError::BadFilter(e.to_string()))
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[test]
    fn values_of_events_move_no_cursor_and_forge_no_event() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let writer = Arc::clone(&lines);
        let subscriber = tracing_subscriber::fmt()
            .with_writer(move || Lines(Arc::clone(&writer)))
            .fmt_fields(debug_fn(write_field).delimited(" "))
            .with_ansi(false)
            .finish();
        let hostile = "x\u{1b}[2J\u{9b}\r\n2026-01-01 ERROR forged";
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(worker = %hostile, job = hostile, number = 7, "it says {hostile}");
        });
        let written = lines.lock().expect("no panic").clone();
        let text = String::from_utf8(written).expect("text");
        assert!(
            !text.contains(|c: char| c.is_control() && c != '\n'),
            "{text:?}"
        );
        assert!(
            text.contains("number=7") && text.contains(r"worker=x\u{1b}[2J"),
            "{text}"
        );
        assert!(
            !text
                .lines()
                .any(|line| line.starts_with("2026-01-01 ERROR")),
            "{text}"
        );
        assert_eq!(
            text.lines().count(),
            2,
            "the message alone has lines: {text}"
        );
    }

    #[test]
    fn json_lines_are_objects_without_control_characters() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let writer = Arc::clone(&lines);
        let subscriber = tracing_subscriber::fmt()
            .json()
            .flatten_event(true)
            .with_writer(move || JsonLines(Lines(Arc::clone(&writer))))
            .finish();
        let hostile = "x\u{1b}[2J\u{9b}\r\n{\"level\":\"ERROR\"}";
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(worker = %hostile, number = 7, "it says {hostile}");
        });
        let written = lines.lock().expect("no panic").clone();
        let text = String::from_utf8(written).expect("text") + &log_format::json_line(hostile);
        assert!(
            !text.contains(|c: char| c.is_control() && c != '\n'),
            "{text:?}"
        );
        let lines: Vec<serde_json::Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).expect("an object a line"))
            .collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert_eq!(lines[0]["level"], "WARN");
        assert_eq!(lines[0]["worker"], hostile);
        assert_eq!(lines[0]["number"], 7);
        assert_eq!(lines[0]["message"], format!("it says {hostile}"));
        assert_eq!(lines[1]["message"], hostile);
        for line in lines {
            let time = line["timestamp"].as_str().expect("a time");
            assert!(time.starts_with("20") && time.ends_with('Z'), "{time}");
        }
    }

    #[test]
    fn colours_need_a_terminal_and_no_no_color() {
        let colours =
            |is_terminal, no_color: Option<&str>| has_colors(is_terminal, no_color.map(OsStr::new));
        assert!(colours(true, None) && colours(true, Some("")));
        assert!(!colours(true, Some("1")) && !colours(true, Some("0")));
        assert!(!colours(false, None));
    }

    #[derive(Clone)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("no panic").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn bad_filters_are_explained_and_empty_ones_are_the_default() {
        let error = parse_filter(Some("a=b=c"), Verbosity::Info).expect_err("no filter");
        assert!(error.to_string().contains(LOG_VARIABLE), "{error}");
        for (text, default, shown) in [
            (None, Verbosity::Info, "info"),
            (Some(""), Verbosity::WarningsOnly, "warn"),
            (Some("trace"), Verbosity::Info, "trace"),
        ] {
            assert_eq!(
                parse_filter(text, default).expect("a filter").to_string(),
                shown
            );
        }
    }
}
