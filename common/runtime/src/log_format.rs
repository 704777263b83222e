//! The format of what a process writes to standard error, which is the same for log lines and messages.

use std::fmt;
use std::sync::OnceLock;

use brasserie_common::text::{printable_json, printable_lines};
use serde_json::json;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};

/// The format of the log and of error messages of this process.
static FORMAT: OnceLock<LogFormat> = OnceLock::new();

/// The format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// Plain text, with colours on a terminal.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

impl LogFormat {
    /// Parses the value of `--log-format`.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            "text" => Ok(LogFormat::Text),
            "json" => Ok(LogFormat::Json),
            _ => Err("write `text` or `json`".to_owned()),
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            LogFormat::Text => "text",
            LogFormat::Json => "json",
        }
    }
}

impl fmt::Display for LogFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Sets the format of this process. Only the first call has an effect, and returns `true`.
pub(crate) fn set(format: LogFormat) -> bool {
    FORMAT.set(format).is_ok()
}

/// Formats a message outside of the log in the process's format, with a newline.
pub(crate) fn message_line(message: &str) -> String {
    match FORMAT.get().copied().unwrap_or_default() {
        LogFormat::Text => format!("{}\n", printable_lines(message)),
        LogFormat::Json => json_line(message),
    }
}

/// Formats a message like the JSON lines of the log.
pub(crate) fn json_line(message: &str) -> String {
    let mut time = String::new();
    // Formatting into a `String` cannot fail.
    let _ = SystemTime.format_time(&mut Writer::new(&mut time));
    let line = json!({ "timestamp": time, "level": "ERROR", "message": message });
    format!("{}\n", printable_json(&line.to_string()))
}
