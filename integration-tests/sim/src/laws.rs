//! The laws of the system: statements that must hold after every step, whatever fails. Each file of this folder has the laws of one subject.
//!
//! Names such as R18 and B4 in the documentation of a law are rules and invariants of `thrift/PROTOCOL.md`. Other names are sections of it.
//!
//! Each law sees every [`Happening`] in order, with a view of the whole world and the [`Model`] that the happenings add up to. A law keeps
//! only the state that no other law needs. It matches only the happenings that can break it or that it must know, so a new kind of
//! happening does not touch the laws.

mod artifacts;
mod calls;
mod capacity;
mod completions;
#[cfg(test)]
mod cores;
mod credit;
mod durability;
mod exclusivity;
mod health;
mod loss;
mod obedience;
mod placement;
mod runs;
mod standby;
#[cfg(test)]
pub(crate) mod trial;
mod waits;
mod work_fetch;
mod worker_sets;

use std::fmt;

use brasserie_common::Time;
use brasserie_scheduler_core::LeftCause;

use crate::event_log::{Happening, WorkerPlace};
use crate::model::Model;
use crate::view::World;

/// The verdict of a law: how the happening breaks it, if it does.
pub type Verdict = Result<(), String>;

/// The checks of one law.
pub trait Law {
    /// Checks a happening that the model does not include yet.
    fn before(&mut self, happening: &Happening, now: &Moment<'_>) -> Verdict {
        let _ = (happening, now);
        Ok(())
    }

    /// Checks a happening that the model includes.
    fn observe(&mut self, happening: &Happening, now: &Moment<'_>) -> Verdict {
        let _ = (happening, now);
        Ok(())
    }
}

/// The name and the statement of a law, which `law!` writes.
pub trait Stated: Law {
    /// The unique short name of the law. Injected bugs and reports use it.
    fn name(&self) -> &'static str;

    /// The law in a few sentences: the first paragraph of its documentation.
    fn statement(&self) -> String;
}

/// Defines a law: its statement, its source, its name, and the state that it keeps.
macro_rules! law {
    (
        $(#[doc = $line:literal])+
        pub struct $Law:ident = $name:literal {
            $($(#[doc = $what:literal])* $field:ident: $type:ty,)*
        }
    ) => {
        $(#[doc = $line])+
        #[derive(Default)]
        pub struct $Law {
            $($(#[doc = $what])* $field: $type,)*
        }

        impl $crate::laws::Stated for $Law {
            fn name(&self) -> &'static str {
                $name
            }

            fn statement(&self) -> String {
                let lines = [$($line),+].map(str::trim);
                let statement = lines.iter().take_while(|line| !line.is_empty());
                statement.copied().collect::<Vec<_>>().join(" ")
            }
        }
    };
}
use law;

pub use artifacts::{has_sound_copy, namespace, unnamed_copies};

/// The moment of a happening.
#[derive(Clone, Copy)]
pub struct Moment<'a> {
    /// The world's true time, which never goes back.
    pub when: Time,
    pub world: &'a World<'a>,
    pub model: &'a Model,
}

impl Moment<'_> {
    /// Returns whether the worker process of this place is or was just stopped, and so cannot read the clock. Its tasks get no excuse: the
    /// keeper kills them.
    fn cannot_read_clock(&self, place: WorkerPlace) -> bool {
        let sleepers = &self.model.sleepers;
        sleepers.is_stopped(place) || self.excused_until(place).is_some()
    }

    /// Returns the time until which processes of this place are excused; [`Time::NEVER`] while the machine sleeps, `None` if they are not.
    fn excused_until(&self, place: WorkerPlace) -> Option<Time> {
        let sleepers = &self.model.sleepers;
        sleepers.excused_until(self.when, place, self.world)
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

/// All laws, each in its initial state, and the model that they share.
pub struct Laws {
    model: Model,
    laws: Vec<Box<dyn Stated>>,
}

impl Laws {
    /// Returns every law.
    pub fn all() -> Self {
        Laws {
            model: Model::default(),
            laws: registry(),
        }
    }

    /// Returns no laws, to measure their cost or to trace runs that break one.
    pub fn none() -> Self {
        Laws {
            model: Model::default(),
            laws: Vec::new(),
        }
    }

    /// Removes the laws with these names, to search beyond a law that is known to be broken.
    pub fn without(mut self, names: &[String]) -> Self {
        self.laws
            .retain(|law| !names.iter().any(|name| name == law.name()));
        self
    }

    /// Returns the name and statement of each law.
    pub fn statements(&self) -> impl Iterator<Item = (&'static str, String)> + '_ {
        self.laws.iter().map(|law| (law.name(), law.statement()))
    }

    /// Passes a happening to each law. If it breaks several, the first one in the order of the registry counts.
    pub fn observe(
        &mut self,
        when: Time,
        happening: &Happening,
        world: &World<'_>,
    ) -> Result<(), Violation> {
        if self.laws.is_empty() {
            return Ok(());
        }
        let now = Moment {
            when,
            world,
            model: &self.model,
        };
        let before = first_broken(&mut self.laws, |law| law.before(happening, &now));
        self.model.note(when, happening, world);
        let now = Moment {
            when,
            world,
            model: &self.model,
        };
        let after = first_broken(&mut self.laws, |law| law.observe(happening, &now));
        let broken = [before, after].into_iter().flatten();
        match broken.min_by_key(|(number, _)| *number) {
            None => Ok(()),
            Some((_, violation)) => Err(violation),
        }
    }
}

/// Returns whether the tasks of a worker that left for this cause may live on, so that their next runs wait.
fn gives_away(cause: LeftCause) -> bool {
    match cause {
        LeftCause::Lost | LeftCause::Replaced => true,
        LeftCause::CleanExit | LeftCause::DidNotReturn | LeftCause::Forgotten => false,
    }
}

/// Returns the first broken law, with its number.
fn first_broken(
    laws: &mut [Box<dyn Stated>],
    mut check: impl FnMut(&mut Box<dyn Stated>) -> Verdict,
) -> Option<(usize, Violation)> {
    laws.iter_mut().enumerate().find_map(|(number, law)| {
        let what = check(law).err()?;
        Some((number, Violation::new(law.name(), what)))
    })
}

/// Returns the laws in the order in which they check each happening and in which they are printed. If several are broken at once, the most
/// informative one comes first.
fn registry() -> Vec<Box<dyn Stated>> {
    let mut laws: Vec<Box<dyn Stated>> = vec![
        Box::new(runs::SentOnce::default()),
        Box::new(runs::AcceptedOnce::default()),
        Box::new(obedience::Obedience::default()),
        Box::new(obedience::BindingsGoForward::default()),
        Box::new(obedience::MustDieIsFinal::default()),
        Box::new(loss::LostIsLost::default()),
        Box::new(loss::DeadBySilence::default()),
        Box::new(loss::ForgottenIsGone::default()),
        Box::new(runs::DeniedNeverStarts::default()),
        Box::new(health::HealthyStarts::default()),
        Box::new(health::FreshBelief::default()),
        Box::new(runs::RunningBeforeSent::default()),
        Box::new(runs::RunningUntilAcknowledged::default()),
        Box::new(exclusivity::NeverTwice::default()),
        Box::new(exclusivity::FencesIncrease::default()),
        Box::new(exclusivity::GivenAwayIsDead::default()),
        Box::new(loss::UnknownTasksHoldBack::default()),
        Box::new(health::StaleIsEarlier::default()),
        Box::new(exclusivity::NothingUnseen::default()),
        Box::new(exclusivity::ZombiesEnd::default()),
        Box::new(health::WorkerGivesUpFirst::default()),
        Box::new(exclusivity::PredecessorIsDead::default()),
        Box::new(waits::WaitIsKept::default()),
        Box::new(waits::WaitEndsRightly::default()),
        Box::new(durability::OwnRecordFirst::default()),
        Box::new(durability::RecordedBeforeHealthy::default()),
        Box::new(durability::OneSchedulerADirectory::default()),
        Box::new(loss::LeftInOneCommit::default()),
        Box::new(loss::SafetyWait::default()),
        Box::new(completions::Backoff::default()),
        Box::new(completions::FinalStaysFinal::default()),
        Box::new(completions::NoStatusInNew::default()),
        Box::new(completions::EndsAreNotUndone::default()),
        Box::new(completions::DeletedStaysDeleted::default()),
        Box::new(completions::OnlyTheMissingExpire::default()),
        Box::new(durability::AcknowledgedAfterSync::default()),
        Box::new(durability::AcknowledgedIsKept::default()),
        Box::new(durability::RecordsAddUp::default()),
        Box::new(worker_sets::SetsGoForward::default()),
        Box::new(worker_sets::SetsAreTrue::default()),
        Box::new(worker_sets::FirstHealthAfterEcho::default()),
        Box::new(worker_sets::SettledAfterWait::default()),
        Box::new(worker_sets::EveryViableSet::default()),
        Box::new(capacity::WithinLimits::default()),
        Box::new(capacity::WithinMachines::default()),
        Box::new(capacity::WithinProcessors::default()),
        Box::new(capacity::WithinStatedSlots::default()),
        Box::new(standby::TakenBackInTime::default()),
        Box::new(standby::ReturnedIsNoRun::default()),
        Box::new(credit::WithinCredit::default()),
        Box::new(work_fetch::GrantedWasSent::default()),
        Box::new(runs::BeginsOnce::default()),
        Box::new(placement::AsConfigured::default()),
        Box::new(placement::GatesHold::default()),
        Box::new(placement::ExplainIsTrue::default()),
        Box::new(placement::OrphansEnd::default()),
        Box::new(runs::LimitsOfTime::default()),
        Box::new(work_fetch::ListsWhatItHas::default()),
        Box::new(obedience::DrainsQuietly::default()),
        Box::new(calls::HeartbeatsAreBounded::default()),
        Box::new(calls::CallsAreBounded::default()),
        Box::new(health::JoinsInTime::default()),
        Box::new(work_fetch::IdleIsFed::default()),
        Box::new(calls::AnsweredOnce::default()),
        Box::new(calls::RequestsAreAnswered::default()),
    ];
    laws.extend(artifacts::all());
    laws
}
