//! The few threads that copy files of runs.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::background::Background;

/// The number of runs whose files are copied at once: enough to keep a disk busy, few enough to leave the machine to its tasks.
const COUNT: usize = 4;

/// The threads that copy files of runs.
#[derive(Clone)]
pub(super) struct Hands {
    turns: Arc<Semaphore>,
    background: Background,
}

/// The reason why work has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Undone {
    /// The run was killed before the work had its turn.
    Stopped,
    /// The work panicked, and the panic was printed where it happened.
    Panicked,
}

impl Hands {
    pub(super) fn new(background: Background) -> Self {
        let turns = Arc::new(Semaphore::new(COUNT));
        Hands { turns, background }
    }

    /// Does blocking work when one of the threads is free.
    pub(super) async fn work<T: Send + 'static>(
        &self,
        stop: &CancellationToken,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Undone> {
        let turns = Arc::clone(&self.turns);
        // The semaphore is never closed, so the turn always comes.
        let turn = tokio::select! {
            turn = turns.acquire_owned() => turn,
            () = stop.cancelled() => return Err(Undone::Stopped),
        };
        let done = self.background.block_for(move || {
            // The turn ends with the work, also if nobody waits for it any more.
            let _turn = turn;
            work()
        });
        done.await.ok_or(Undone::Panicked)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn work_that_panics_frees_its_thread() {
        let hands = Hands::new(Background::default());
        let stop = CancellationToken::new();
        for _ in 0..2 * COUNT {
            let panicked = hands.work(&stop, || panic!("for a test")).await;
            assert_eq!(panicked, Err::<(), _>(Undone::Panicked));
        }
        assert_eq!(hands.work(&stop, || 7).await, Ok(7));
    }

    #[tokio::test]
    async fn work_of_a_killed_run_does_not_wait_for_its_turn() {
        let hands = Hands::new(Background::default());
        let (stop, other) = (CancellationToken::new(), CancellationToken::new());
        let works: Vec<_> = (0..COUNT)
            .map(|_| {
                let (end, ended) = mpsc::channel::<()>();
                let (hands, other) = (hands.clone(), other.clone());
                let work = tokio::spawn(async move {
                    // The receive fails when the test drops its end.
                    hands.work(&other, move || ended.recv().is_err()).await
                });
                (end, work)
            })
            .collect();
        while hands.turns.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        stop.cancel();
        assert_eq!(hands.work(&stop, || 7).await, Err(Undone::Stopped));
        for (end, work) in works {
            drop(end);
            assert_eq!(work.await.expect("no panic"), Ok(true));
        }
    }
}
