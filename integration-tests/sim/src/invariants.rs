//! The laws of the system: statements that must hold after every step, whatever fails. Each file of this folder has one law and states it
//! in its header.
//!
//! Names such as R18 and B4 in the headers are rules and invariants of `thrift/PROTOCOL.md`.
//!
//! Each law sees every [`Happening`] in order, with the true time and a view of the whole world, and keeps the state that it needs. A law
//! matches only the happenings that can break it or that it must know, so a new kind of happening does not touch the laws.

mod accepted_once;
mod acknowledged_after_sync;
mod acknowledged_is_kept;
mod answered_once;
mod as_configured;
mod backoff;
mod begins_once;
mod bindings_go_forward;
mod calls_are_bounded;
#[cfg(test)]
mod cores;
mod dead_by_silence;
mod deleted_stays_deleted;
mod denied_never_starts;
mod drains_quietly;
mod ends_are_not_undone;
mod every_viable_set;
mod explain_is_true;
mod fences_increase;
mod final_stays_final;
mod first_health_after_echo;
mod forgotten_is_gone;
mod fresh_belief;
mod gates_hold;
mod given_away_is_dead;
mod granted_was_sent;
mod healthy_starts;
mod heartbeats_are_bounded;
mod idle_is_fed;
mod joins_in_time;
mod left_in_one_commit;
mod limits_of_time;
mod lists_what_it_has;
mod lost_is_lost;
mod must_die_is_final;
mod never_twice;
mod no_status_in_new;
mod nothing_unseen;
mod obedience;
mod one_scheduler_a_directory;
mod only_the_missing_expire;
mod orphans_end;
mod own_record_first;
mod predecessor_is_dead;
mod recorded_before_healthy;
mod records_add_up;
mod requests_are_answered;
mod running_before_sent;
mod running_until_acknowledged;
mod safety_backoff;
mod sent_once;
mod sets_are_true;
mod sets_go_forward;
mod settled_after_wait;
mod stale_is_earlier;
#[cfg(test)]
pub(crate) mod trial;
mod unknown_tasks_hold_back;
mod wait_ends_rightly;
mod wait_is_kept;
mod within_credit;
mod within_limits;
mod within_machines;
mod within_processors;
mod worker_gives_up_first;
mod zombies_end;

use std::fmt;

use brasserie_common::Time;

use crate::event_log::Happening;
use crate::view::World;

/// One law.
pub trait Law {
    /// The unique short name of the law, which is the name of its file. Injected bugs and reports use it.
    fn name(&self) -> &'static str;

    /// The law in one sentence.
    fn statement(&self) -> &'static str;

    /// Checks the happening. `when` is the world's true time and never goes back.
    fn observe(
        &mut self,
        when: Time,
        happening: &Happening,
        world: &World<'_>,
    ) -> Result<(), Violation>;

    /// Checks the whole run once it is over.
    fn finish(&mut self, when: Time, world: &World<'_>) -> Result<(), Violation> {
        let _ = (when, world);
        Ok(())
    }
}

/// A broken law.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{law}: {what}")]
pub struct Violation {
    pub law: &'static str,
    pub what: String,
}

impl Violation {
    pub fn new(law: &'static str, what: impl fmt::Display) -> Self {
        Violation {
            law,
            what: what.to_string(),
        }
    }
}

/// All laws, each in its initial state.
pub struct Laws {
    laws: Vec<Box<dyn Law>>,
}

impl Laws {
    /// Returns every law.
    pub fn all() -> Self {
        Laws { laws: registry() }
    }

    /// Returns no laws, to measure their cost or to trace runs that break one.
    pub fn none() -> Self {
        Laws { laws: Vec::new() }
    }

    /// Removes the laws with these names, to search beyond a law that is known to be broken.
    pub fn without(mut self, names: &[String]) -> Self {
        self.laws
            .retain(|law| !names.iter().any(|name| name == law.name()));
        self
    }

    /// Returns the name and statement of each law.
    pub fn statements(&self) -> impl Iterator<Item = (&'static str, &'static str)> + '_ {
        self.laws.iter().map(|law| (law.name(), law.statement()))
    }

    /// Passes a happening to each law. Stops at the first broken law.
    pub fn observe(
        &mut self,
        when: Time,
        happening: &Happening,
        world: &World<'_>,
    ) -> Result<(), Violation> {
        for law in &mut self.laws {
            law.observe(when, happening, world)?;
        }
        Ok(())
    }

    pub fn finish(&mut self, when: Time, world: &World<'_>) -> Result<(), Violation> {
        for law in &mut self.laws {
            law.finish(when, world)?;
        }
        Ok(())
    }
}

/// Returns the laws in the order in which they check each happening and in which they are printed. If several are broken at once, the most
/// informative one comes first.
fn registry() -> Vec<Box<dyn Law>> {
    vec![
        Box::new(sent_once::SentOnce::default()),
        Box::new(accepted_once::AcceptedOnce::default()),
        Box::new(obedience::Obedience),
        Box::new(bindings_go_forward::BindingsGoForward::default()),
        Box::new(must_die_is_final::MustDieIsFinal::default()),
        Box::new(lost_is_lost::LostIsLost::default()),
        Box::new(dead_by_silence::DeadBySilence::default()),
        Box::new(forgotten_is_gone::ForgottenIsGone::default()),
        Box::new(denied_never_starts::DeniedNeverStarts::default()),
        Box::new(healthy_starts::HealthyStarts::default()),
        Box::new(fresh_belief::FreshBelief::default()),
        Box::new(running_before_sent::RunningBeforeSent::default()),
        Box::new(running_until_acknowledged::RunningUntilAcknowledged::default()),
        Box::new(never_twice::NeverTwice::default()),
        Box::new(fences_increase::FencesIncrease::default()),
        Box::new(given_away_is_dead::GivenAwayIsDead::default()),
        Box::new(unknown_tasks_hold_back::UnknownTasksHoldBack::default()),
        Box::new(stale_is_earlier::StaleIsEarlier::default()),
        Box::new(nothing_unseen::NothingUnseen::default()),
        Box::new(zombies_end::ZombiesEnd::default()),
        Box::new(worker_gives_up_first::WorkerGivesUpFirst::default()),
        Box::new(predecessor_is_dead::PredecessorIsDead::default()),
        Box::new(wait_is_kept::WaitIsKept::default()),
        Box::new(wait_ends_rightly::WaitEndsRightly::default()),
        Box::new(own_record_first::OwnRecordFirst::default()),
        Box::new(recorded_before_healthy::RecordedBeforeHealthy::default()),
        Box::new(one_scheduler_a_directory::OneSchedulerADirectory::default()),
        Box::new(left_in_one_commit::LeftInOneCommit::default()),
        Box::new(safety_backoff::SafetyBackoff::default()),
        Box::new(backoff::Backoff::default()),
        Box::new(final_stays_final::FinalStaysFinal::default()),
        Box::new(no_status_in_new::NoStatusInNew::default()),
        Box::new(ends_are_not_undone::EndsAreNotUndone::default()),
        Box::new(deleted_stays_deleted::DeletedStaysDeleted::default()),
        Box::new(only_the_missing_expire::OnlyTheMissingExpire::default()),
        Box::new(acknowledged_after_sync::AcknowledgedAfterSync::default()),
        Box::new(acknowledged_is_kept::AcknowledgedIsKept::default()),
        Box::new(records_add_up::RecordsAddUp::default()),
        Box::new(sets_go_forward::SetsGoForward::default()),
        Box::new(sets_are_true::SetsAreTrue::default()),
        Box::new(first_health_after_echo::FirstHealthAfterEcho::default()),
        Box::new(settled_after_wait::SettledAfterWait::default()),
        Box::new(every_viable_set::EveryViableSet::default()),
        Box::new(within_limits::WithinLimits::default()),
        Box::new(within_machines::WithinMachines::default()),
        Box::new(within_processors::WithinProcessors::default()),
        Box::new(within_credit::WithinCredit::default()),
        Box::new(granted_was_sent::GrantedWasSent::default()),
        Box::new(begins_once::BeginsOnce::default()),
        Box::new(as_configured::AsConfigured),
        Box::new(gates_hold::GatesHold::default()),
        Box::new(explain_is_true::ExplainIsTrue::default()),
        Box::new(orphans_end::OrphansEnd::default()),
        Box::new(limits_of_time::LimitsOfTime::default()),
        Box::new(lists_what_it_has::ListsWhatItHas::default()),
        Box::new(drains_quietly::DrainsQuietly::default()),
        Box::new(heartbeats_are_bounded::HeartbeatsAreBounded::default()),
        Box::new(calls_are_bounded::CallsAreBounded::default()),
        Box::new(joins_in_time::JoinsInTime::default()),
        Box::new(idle_is_fed::IdleIsFed::default()),
        Box::new(answered_once::AnsweredOnce::default()),
        Box::new(requests_are_answered::RequestsAreAnswered::default()),
    ]
}
