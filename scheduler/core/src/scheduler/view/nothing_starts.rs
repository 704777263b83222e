//! The reasons for which no task starts. These texts decide: tasks start only while the list is empty (`start_tasks`, `take_back` and the
//! answers to work requests ask for it). No text here may be mere information, and a removed text lets tasks start.

use std::time::Duration;

use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::{Shard, Time};

use crate::news::seconds;
use crate::scheduler::View;
use crate::scheduler::effect::ExitReason;
use crate::waits::initial_wait::messages::{FORGET, MAX_NAMED, StoreState, WaitContext};

/// The beginning of the sentence in [`Query::NothingStarts`] and in the cluster's status that reports a failing store.
///
/// [`Query::NothingStarts`]: crate::Query::NothingStarts
pub const STORE_FAILS: &str = "the store cannot write";

impl View<'_> {
    /// Returns why no task starts, whatever its own state. Tasks start only while the list is empty.
    pub(in crate::scheduler) fn why_nothing_starts(&self, now: Time) -> Vec<String> {
        let mut reasons = Vec::new();
        let stepped_down = self
            .stepped_down
            .map(|newer| ExitReason::SteppedDown { newer });
        reasons.extend(stepped_down.map(|reason| reason.to_string()));
        if self.engine.config().is_none() {
            reasons.push("no configuration has been loaded yet".to_owned());
        }
        if self.engine.nodes().is_none() {
            reasons.push(match self.engine.is_refreshing() {
                true => "the nodes are loaded, and come in force in a moment".to_owned(),
                false => self.no_nodes(),
            });
        }
        reasons.extend(self.wait_message(now));
        if let Some(error) = self.outbox.store_error() {
            reasons.push(format!("{STORE_FAILS}, so nothing is started: {error}"));
        } else if self.outbox.may_call() && !self.outbox.is_persisted(self.fences.recorded()) {
            reasons.push(
                "the generation of fences ($BRASSERIE_FENCE) was raised, and tasks start once that is on disk"
                    .to_owned(),
            );
        } else if !self.declarations_are_durable() {
            reasons.push(
                "an operator has declared a worker dead, and tasks start once that is on disk"
                    .to_owned(),
            );
        }
        reasons
    }

    /// Returns that there are no nodes, and the error of their source.
    pub(super) fn no_nodes(&self) -> String {
        match &self.nodes_error {
            Some(error) => format!("no nodes have been loaded yet: {error}"),
            None => "no nodes have been loaded yet".to_owned(),
        }
    }

    /// See [`InitialWait::message`](crate::waits::initial_wait::InitialWait::message).
    pub(in crate::scheduler) fn wait_message(&self, now: Time) -> Option<String> {
        let former = self.pool.former_set();
        let wait = &self.wait;
        // This function runs each turn, so the list is built only where it is needed.
        let depends_on_them = !wait.is_over() && wait.may_end(now, self.wall.as_secs(), former);
        let untold: Vec<&Shard> = match depends_on_them {
            true => self.pool.with_unknown_runs().collect(),
            false => Vec::new(),
        };
        let store = match self.outbox.store_error() {
            Some(_) => StoreState::Fails,
            None => StoreState::Works,
        };
        // The text is built only where it is shown, because this function runs each turn.
        let is_shown = wait.names_workers(!untold.is_empty());
        let forget = is_shown.then(|| self.how_to_forget(now, &untold));
        let context = WaitContext {
            former,
            untold: &untold,
            store,
            forget: forget.as_deref().unwrap_or(FORGET),
        };
        wait.message(now, &context)
    }

    /// Returns how an operator ends the wait for a worker, and from when on the scheduler accepts that.
    fn how_to_forget(&self, now: Time, untold: &[&Shard]) -> String {
        let here = untold.iter().filter_map(|shard| {
            let worker = self.pool.get(shard)?;
            Some((*shard, worker.id()))
        });
        let away = self.wait.expected().filter(|_| untold.is_empty());
        let waited_for = here.chain(away).take(MAX_NAMED);
        let waited_for: Vec<(Duration, &Shard)> = waited_for
            .map(|(shard, id)| (self.forget_accepted_in(now, shard, id), shard))
            .collect();
        let first = waited_for.iter().min();
        let when = first.map(|(left, shard)| {
            let accepts = "; the scheduler accepts this";
            let left_text = seconds(*left);
            match waited_for.len() {
                _ if left.is_zero() => format!("{accepts} for `{shard}` now"),
                1 => format!("{accepts} for `{shard}` in {left_text} if `{shard}` stays silent"),
                _ => format!(
                    "{accepts} for `{shard}`, for example, in {left_text} if `{shard}` stays silent"
                ),
            }
        });
        format!("{FORGET}{}", when.unwrap_or_default())
    }

    /// Returns whether the declarations of operators are durable. Until then no task starts that depends on them.
    fn declarations_are_durable(&self) -> bool {
        let recorded = self.wait.declared_dead();
        recorded.is_none_or(|seq| self.outbox.is_persisted(seq))
            || sabotage::on(Sabotage::StartBeforeForgetIsDurable)
    }
}
