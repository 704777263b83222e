//! The driver: the only task that owns the scheduler core. It passes events in and effects out, and reads the clock once a turn.

use std::iter;

use brasserie_common::Time;
use brasserie_common_runtime::{Clock, Watchdog};
use brasserie_scheduler_core::{Answer, Event, Query, Scheduler};
use tokio::sync::mpsc::Receiver;
use tokio_util::sync::CancellationToken;

use crate::answered::{AnsweredFile, Stuck};
use crate::inbox::{Input, Lanes};
use crate::news::NewsLog;
use crate::perform::Performer;
use crate::sources::TellInForce;

/// Maximum events of one lane in one turn. An event takes some ten microseconds, so a turn stays within milliseconds. Then neither the time
/// that the turn has read nor the other lane gets stale.
const MAX_EVENTS_PER_LANE: usize = 256;

pub(crate) struct Driver {
    pub(crate) scheduler: Scheduler,
    pub(crate) lanes: Lanes,
    pub(crate) performer: Performer,
    pub(crate) in_force: TellInForce,
    pub(crate) answered: Option<AnsweredFile>,
    pub(crate) news: NewsLog,
    pub(crate) clock: Clock,
    pub(crate) stop: CancellationToken,
    pub(crate) watchdog: Watchdog,
}

/// Why the driver woke up.
enum Woken {
    Stop,
    Input(Input),
    Time,
}

impl Driver {
    /// Runs until it is stopped or the core wants the program to end. Returns the performer, which holds the store.
    pub(crate) async fn run(mut self) -> Performer {
        // The core has effects before the first event.
        if let Err(stuck) = self.turn(None) {
            tracing::error!("{stuck}");
            return self.performer;
        }
        self.tell_why_nothing_starts();
        while self.performer.exit().is_none() {
            let first = match self.sleep().await {
                Woken::Stop => return self.performer,
                Woken::Input(input) => Some(input),
                Woken::Time => None,
            };
            if let Err(stuck) = self.turn(first) {
                tracing::error!("{stuck}");
                break;
            }
        }
        self.performer
    }

    /// Logs why no task starts yet, for an operator who sees only the log.
    fn tell_why_nothing_starts(&self) {
        let status = self.scheduler.answer(self.clock.now(), &Query::Status);
        if let Answer::Status(status) = status
            && let Some(why) = status.initial_wait
        {
            tracing::warn!("{why}");
        }
    }

    /// Handles pending events and performs the effects. After an error no effect may be performed any more.
    fn turn(&mut self, first: Option<Input>) -> Result<(), Stuck> {
        let now = self.clock.now();
        self.scheduler
            .handle(now, Event::WallClock(self.clock.wall()));
        let health = iter::from_fn(|| self.lanes.health.try_recv().ok());
        let ordinary = iter::from_fn(|| self.lanes.ordinary.try_recv().ok());
        let inputs = first
            .into_iter()
            .chain(health.take(MAX_EVENTS_PER_LANE))
            .chain(ordinary.take(MAX_EVENTS_PER_LANE));
        for Input { event, waiter, .. } in inputs.filter(|input| !input.is_void()) {
            if let Some((request, waiter)) = waiter {
                self.performer.await_answer(request, waiter);
            }
            if let Event::Persisted { up_to } = &event {
                self.performer.persisted(*up_to);
            }
            self.scheduler.handle(now, event);
        }
        self.scheduler.handle_timeout(now);
        if let Some(answered) = &mut self.answered {
            // Reads the clock again: this process may have been stopped since the turn began, and have received more since then.
            answered.cover(self.clock.now(), &self.scheduler)?;
        }
        while let Some(effect) = self.scheduler.poll_effect() {
            self.performer.perform(now, effect);
        }
        self.news.log(now, &mut self.scheduler);
        self.in_force.tell(&self.scheduler);
        self.watchdog.beat(now);
        Ok(())
    }

    async fn sleep(&mut self) -> Woken {
        let watchdog = Some(self.watchdog.due()).filter(|&at| at < Time::NEVER);
        let wake = self.scheduler.poll_timeout();
        let wake = wake.into_iter().chain(watchdog).min();
        let clock = self.clock;
        let time = async move {
            match wake {
                // Work is left over. Yielding lets other tasks run in between.
                Some(at) if at <= clock.now() => tokio::task::yield_now().await,
                Some(at) => clock.sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.stop.cancelled() => Woken::Stop,
            input = receive(&mut self.lanes.health) => Woken::Input(input),
            input = receive(&mut self.lanes.ordinary) => Woken::Input(input),
            () = time => Woken::Time,
        }
    }
}

/// Returns the next input. Waits forever if the lane is closed; only tests close it, because the performer's own calls keep the lanes open.
async fn receive(lane: &mut Receiver<Input>) -> Input {
    match lane.recv().await {
        Some(input) => input,
        None => std::future::pending().await,
    }
}
