//! What a program says about itself while it runs: lines on standard error, filtered by `BRASSERIE_LOG`.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// The variable that chooses what is logged, in the syntax of tracing's filters (`debug`, `brasserie_scheduler=trace,info`).
pub const LOG_VARIABLE: &str = "BRASSERIE_LOG";

/// How much a program logs unless [`LOG_VARIABLE`] says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verbosity {
    /// Servers: what an operator wants to read later.
    Info,
    /// Programs that speak to a person by other means.
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

/// Why logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    #[error(
        "{LOG_VARIABLE} is no log filter: {0}. Write a level (`debug`) or targets (`brasserie_scheduler=debug,info`)"
    )]
    BadFilter(String),
    #[error("logging is already set up in this process")]
    AlreadySet,
}

/// Sends log lines to standard error. Once a process.
pub fn init(default: Verbosity) -> Result<(), TelemetryError> {
    let filter = parse_filter(std::env::var(LOG_VARIABLE).ok().as_deref(), default)?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .try_init()
        .map_err(|_| TelemetryError::AlreadySet)
}

fn parse_filter(text: Option<&str>, default: Verbosity) -> Result<EnvFilter, TelemetryError> {
    let text = text.filter(|t| !t.is_empty()).unwrap_or(default.filter());
    EnvFilter::try_new(text).map_err(|e| TelemetryError::BadFilter(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

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
