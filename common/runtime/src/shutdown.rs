//! Signals that end a program: the first one requests an orderly shutdown, the second one an immediate end.

use std::io;

use nix::sys::signal::Signal;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Signals that ask a program to end. SIGHUP is among them because it means that the terminal of a manual start is gone.
const SIGNALS: [SignalKind; 4] = [
    SignalKind::terminate(),
    SignalKind::interrupt(),
    SignalKind::quit(),
    SignalKind::hangup(),
];

/// Returns the signal's name, such as `SIGTERM`.
pub fn signal_name(kind: SignalKind) -> &'static str {
    Signal::try_from(kind.as_raw_value()).map_or("a signal", Signal::as_str)
}

/// A request to end the program.
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    asked: CancellationToken,
    insisted: CancellationToken,
}

impl Shutdown {
    /// Creates a request that no signal triggers, for programs inside programs and for tests.
    pub fn manual() -> Self {
        Self::default()
    }

    /// Listens for SIGTERM, SIGINT, SIGQUIT and SIGHUP from now on; they no longer end the process by themselves.
    pub fn on_signals() -> io::Result<Self> {
        let shutdown = Self::default();
        for kind in SIGNALS {
            let mut stream = signal(kind)?;
            let shutdown = shutdown.clone();
            tokio::spawn(async move {
                while stream.recv().await.is_some() {
                    tracing::info!("received {}", signal_name(kind));
                    shutdown.request();
                }
            });
        }
        Ok(shutdown)
    }

    /// Requests the end like a signal.
    pub fn request(&self) {
        if self.asked.is_cancelled() {
            self.insisted.cancel();
        } else {
            self.asked.cancel();
        }
    }

    /// Cancelled by the first signal: shut down in order.
    pub fn asked(&self) -> &CancellationToken {
        &self.asked
    }

    /// Cancelled by the second signal: end now.
    pub fn insisted(&self) -> &CancellationToken {
        &self.insisted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::signal::raise;

    #[tokio::test]
    async fn the_first_signal_asks_and_the_second_insists() {
        let shutdown = Shutdown::on_signals().expect("signal handlers");
        raise(Signal::SIGTERM).expect("raise");
        shutdown.asked().cancelled().await;
        assert!(!shutdown.insisted().is_cancelled());
        raise(Signal::SIGHUP).expect("raise");
        shutdown.insisted().cancelled().await;
    }

    #[test]
    fn signals_have_their_usual_names() {
        let names = SIGNALS.map(signal_name);
        assert_eq!(names, ["SIGTERM", "SIGINT", "SIGQUIT", "SIGHUP"]);
    }
}
