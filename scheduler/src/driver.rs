//! The one task that owns the scheduler core: events in, effects out, and the clock once a turn.

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

/// Events of one lane that one turn handles: at some ten microseconds each a turn stays within milliseconds, so that
/// neither the clock that the turn has read nor the other lane gets stale.
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
    /// Runs until it is told to stop, or until the core wants the program to end, and gives back the performer, which holds the store.
    pub(crate) async fn run(mut self) -> Performer {
        // The scheduler has things to do before anything happens.
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

    /// An operator who sees only the log must learn it too.
    fn tell_why_nothing_starts(&self) {
        let status = self.scheduler.answer(self.clock.now(), &Query::Status);
        if let Answer::Status(status) = status
            && let Some(why) = status.initial_wait
        {
            tracing::warn!("{why}");
        }
    }

    /// Handles the waiting events and carries out the effects. After an error no effect may be carried out any more.
    fn turn(&mut self, first: Option<Input>) -> Result<(), Stuck> {
        let now = self.clock.now();
        self.scheduler
            .handle(now, Event::WallClock(self.clock.wall()));
        if let Some(input) = first {
            self.handle(now, input);
        }
        for _ in 0..MAX_EVENTS_PER_LANE {
            let Ok(input) = self.lanes.health.try_recv() else {
                break;
            };
            self.handle(now, input);
        }
        for _ in 0..MAX_EVENTS_PER_LANE {
            let Ok(input) = self.lanes.ordinary.try_recv() else {
                break;
            };
            self.handle(now, input);
        }
        self.scheduler.handle_timeout(now);
        if let Some(answered) = &mut self.answered {
            // A fresh time: this process may have been stopped since the turn began, and have received more since then.
            answered.cover(self.clock.now(), &self.scheduler)?;
        }
        while let Some(effect) = self.scheduler.poll_effect() {
            self.performer.perform(&self.scheduler, now, effect);
        }
        self.news.log(now, &mut self.scheduler);
        self.in_force.tell(&self.scheduler);
        self.watchdog.beat(now);
        Ok(())
    }

    fn handle(&mut self, now: Time, input: Input) {
        if let Some((request, waiter)) = input.waiter {
            self.performer.expect(request, waiter);
        }
        if let Event::Persisted { up_to } = &input.event {
            self.performer.persisted(*up_to);
        }
        self.scheduler.handle(now, input.event);
    }

    async fn sleep(&mut self) -> Woken {
        let watchdog = Some(self.watchdog.due()).filter(|&at| at < Time::NEVER);
        let wake = self.scheduler.poll_timeout();
        let wake = wake.into_iter().chain(watchdog).min();
        let clock = self.clock;
        let time = async move {
            match wake {
                // Work is left over; others run in between.
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

/// Never ends when nobody can send any more: the performer's own calls keep the lanes open, so that is only in tests.
async fn receive(lane: &mut Receiver<Input>) -> Input {
    match lane.recv().await {
        Some(input) => input,
        None => std::future::pending().await,
    }
}
