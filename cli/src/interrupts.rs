//! Delivers signals to commands that clean up before they exit. A later signal ends a run at once.

use std::io;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::Instant;

/// A terminal, `timeout` and service managers send a signal to the whole group, and the keeper passes it on once more: what
/// comes within this time is one wish.
const ONE_WISH: Duration = Duration::from_secs(1);
/// Signals that may wait to be noticed: four kinds, and the kernel merges those of one kind.
const QUEUE: usize = 16;

/// Listens from its making on; signals no longer end the process by themselves.
pub(crate) struct Interrupts {
    signals: mpsc::Receiver<()>,
    first: Option<Instant>,
}

impl Interrupts {
    pub(crate) fn listen() -> io::Result<Self> {
        let (sender, signals) = mpsc::channel(QUEUE);
        for kind in [
            SignalKind::interrupt(),
            SignalKind::terminate(),
            SignalKind::quit(),
            SignalKind::hangup(),
        ] {
            let mut stream = signal(kind)?;
            let sender = sender.clone();
            tokio::spawn(async move {
                while stream.recv().await.is_some() && sender.send(()).await.is_ok() {}
            });
        }
        Ok(Interrupts {
            signals,
            first: None,
        })
    }

    /// The next wish to end; not the echo of one.
    pub(crate) async fn next(&mut self) {
        loop {
            // The senders live as long as the runtime.
            if self.signals.recv().await.is_none() {
                std::future::pending::<()>().await;
            }
            let now = Instant::now();
            let is_echo = self
                .first
                .is_some_and(|first| now.duration_since(first) < ONE_WISH);
            if !is_echo {
                self.first = Some(now);
                return;
            }
        }
    }
}
