//! Delivers signals to commands that clean up before they exit. A signal within a second of the last delivered one counts as its repetition
//! and is dropped. The caller decides what each delivered signal ends.

use std::io;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Signals within this time count as one. A terminal, `timeout` and service managers signal the whole process group, and the keeper passes
/// the signal on once more.
const ONE_WISH: Duration = Duration::from_secs(1);
/// Capacity for signals: four kinds, and the kernel merges signals of one kind.
const QUEUE: usize = 16;

/// Receives signals from its creation on. They no longer end the process by themselves.
pub(crate) struct Interrupts {
    signals: mpsc::Receiver<()>,
    /// When the last signal was delivered.
    delivered_at: Option<Instant>,
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
            delivered_at: None,
        })
    }

    /// Waits for the next signal that is no repetition.
    pub(crate) async fn next(&mut self) {
        loop {
            // The senders live as long as the runtime.
            if self.signals.recv().await.is_none() {
                std::future::pending::<()>().await;
            }
            let now = Instant::now();
            let is_echo = self
                .delivered_at
                .is_some_and(|at| now.duration_since(at) < ONE_WISH);
            if !is_echo {
                self.delivered_at = Some(now);
                return;
            }
        }
    }
}
