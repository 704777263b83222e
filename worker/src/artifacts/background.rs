//! The tasks and the blocking work for artifacts, all of which end before the worker does: they use its store.

use std::future::Future;
use std::time::Duration;

use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

/// The time that blocking work gets to end with the worker. A disk that hangs keeps it for ever.
const PATIENCE: Duration = Duration::from_secs(5);

/// The handle of all background work of one worker.
#[derive(Clone, Default)]
pub(crate) struct Background {
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Background {
    /// Runs a task until it ends, or until the worker does.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = work => {}
            }
        });
    }

    /// Does blocking work on a thread for it.
    pub fn block(&self, work: impl FnOnce() + Send + 'static) {
        drop(self.tasks.spawn_blocking(work));
    }

    /// Does blocking work, and returns its result; `None` after a panic, which was printed where it happened.
    pub async fn block_for<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        self.tasks.spawn_blocking(work).await.ok()
    }

    /// Returns the owner of all work. Its drop ends all tasks too, as after a panic.
    pub fn owner(&self) -> BackgroundOwner {
        BackgroundOwner {
            background: self.clone(),
            _stop: self.stop.clone().drop_guard(),
        }
    }
}

/// The owner of the background work.
pub(crate) struct BackgroundOwner {
    background: Background,
    _stop: DropGuard,
}

impl BackgroundOwner {
    /// Ends all work, and waits for it.
    pub async fn end(self) {
        let Background { tasks, stop } = &self.background;
        stop.cancel();
        tasks.close();
        if timeout(PATIENCE, tasks.wait()).await.is_err() {
            tracing::warn!("work on artifacts does not end: a disk hangs");
        }
    }
}
