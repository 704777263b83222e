//! Echoes of set ids: their evaluation, and extra healthchecks for workers whose echo a newcomer waits for.

use std::hash::Hasher;
use std::time::Duration;

use brasserie_common::fingerprint::Shape;
use brasserie_common::text::counted;
use brasserie_common::{Health, Shard, Time, WorkerDescription, WorkerId, WorkerSetId};

use super::Pool;
use super::consensus::{Echo, FormerSet, WrongEcho};

/// The number of workers that are asked at once. One answer is enough, and one of two is likely to be quick.
const WIDTH: usize = 2;
/// The time between two rounds: a few round trips, so that others are asked only when these do not answer. With [`WIDTH`] it limits the
/// extra healthchecks of the whole pool to 20 a second.
const SPACING: Duration = Duration::from_millis(100);
/// The minimum time between two requests to one worker, to spare a small pool, or one that does not react.
const PER_WORKER: Duration = Duration::from_secs(1);

/// The state of the requests for echoes, for the whole pool.
#[derive(Clone, Debug, Default)]
pub(super) struct Spreading {
    /// The time of the next round at the earliest.
    next_round: Option<Time>,
    wrong_echoes: u64,
    last_wrong_echo: Option<String>,
}

impl Spreading {
    /// Writes the state for fingerprints.
    pub(super) fn shape<H: Hasher>(&self, s: &mut Shape<'_, H>) {
        s.opt(self.next_round, Shape::deadline);
    }
}

impl Pool {
    /// Handles the set id in a heartbeat of an associated worker.
    pub(crate) fn hear_echo(&mut self, worker: &WorkerDescription, set: &WorkerSetId) {
        match self.consensus.echo(worker.id, set) {
            Echo::Wrong(why) => self.note_wrong_echo(worker, set, why),
            Echo::News | Echo::Known => {}
        }
        let current = self.set();
        let has_echoed = self.consensus.has_echoed(worker.id);
        if let Some(remote) = self.by_shard.get_mut(&worker.shard) {
            if set.scheduler == current.scheduler {
                remote.note_additions(set, &current);
            }
            if has_echoed {
                remote.note_has_heard_us();
            }
        }
    }

    /// Removes and returns the shards of the workers that were permitted to become HEALTHY since the last call.
    pub(crate) fn take_permitted(&mut self) -> Vec<Shard> {
        let granted = self.consensus.take_granted().into_iter();
        granted
            .filter_map(|worker| self.by_id.get(&worker).cloned())
            .collect()
    }

    /// Returns when to check whether a worker should be asked.
    pub(crate) fn next_spreading(&self) -> Option<Time> {
        let due = self.spreading.next_round.unwrap_or(Time::ZERO);
        self.consensus.needs_spreading().then_some(due)
    }

    /// Chooses a few workers to be asked for an extra heartbeat with its echo, if it is time and another worker waits for nothing else.
    pub(crate) fn choose_to_ask(&mut self, now: Time) -> Vec<Shard> {
        if self.next_spreading().is_none_or(|at| now < at) {
            return Vec::new();
        }
        let (by_id, by_shard) = (&self.by_id, &self.by_shard);
        let suits = |worker: WorkerId| {
            let remote = by_id.get(&worker).and_then(|shard| by_shard.get(shard));
            remote.is_some_and(|remote| {
                remote.health() == Health::Healthy && remote.may_be_asked(now, PER_WORKER)
            })
        };
        let chosen: Vec<Shard> = self
            .consensus
            .whom_to_tell(WIDTH, suits)
            .into_iter()
            .filter_map(|worker| by_id.get(&worker).cloned())
            .collect();
        let pause = if chosen.is_empty() {
            PER_WORKER
        } else {
            SPACING
        };
        self.spreading.next_round = Some(now + pause);
        for shard in &chosen {
            if let Some(remote) = self.by_shard.get_mut(shard) {
                remote.note_asked(now);
            }
        }
        chosen
    }

    /// Marks set ids as settled after the initial wait.
    pub(crate) fn settle_set(&mut self) {
        self.consensus.settle();
    }

    /// Marks set ids as unsettled, because the scheduler waits again.
    pub(crate) fn unsettle_set(&mut self) {
        self.consensus.unsettle();
    }

    /// Returns how many workers of a former scheduler's set are back.
    pub(crate) fn former_set(&self) -> FormerSet {
        self.consensus.former_set()
    }

    /// Returns a message about echoes that no worker of this scheduler would send.
    pub(crate) fn echo_problem(&self) -> Option<String> {
        let last = self.spreading.last_wrong_echo.as_ref()?;
        let count = self.spreading.wrong_echoes;
        Some(format!(
            "{} named a worker set that the worker was never given, which was ignored; the last one: {last}",
            counted(count, "heartbeat")
        ))
    }

    fn note_wrong_echo(&mut self, worker: &WorkerDescription, set: &WorkerSetId, why: WrongEcho) {
        let why = match why {
            WrongEcho::NeverGiven => "that version was not given to it",
            WrongEcho::OtherContent => "that version had another content",
            WrongEcho::Foreign => "it came with another scheduler's set, or none",
        };
        self.spreading.wrong_echoes = self.spreading.wrong_echoes.saturating_add(1);
        self.spreading.last_wrong_echo = Some(format!(
            "worker `{}`, instance {}, named version {} of scheduler instance {}: {why}",
            worker.shard, worker.id, set.version, set.scheduler
        ));
    }
}
