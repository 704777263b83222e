//! Who is asked for work, and for how much.
//!
//! A [`Survey`] is made of what is known now: why some cannot be asked, and in which order the others come. Then it is chosen: nobody is
//! asked before a type of processors will run dry within the low water mark, but who is asked then is asked for as much as reaches the
//! high water mark, and for other types that are below that, too. On a cluster a scheduler is asked as well whose own part runs dry.
//!
//! Schedulers differ from the volunteers' projects in that they answer when they have looked for work. Until then nobody else is asked for
//! the same types, or both would give it. There are no tasks here that run beside all others, no cards that one scheduler may use and
//! another may not, and no operator asks a scheduler by hand for more than it would be asked for anyway.

use brasserie_common::Time;

use super::amounts::{DAY, TOLERANCE, amount};
use super::credit::Credit;
use super::job_sched::Preemption;
use super::outlook::{Outlook, PairOutlook};
use super::priority::Priorities;
use super::profile::{FirstAsked, Profile};
use super::rec::update_average;
use super::types::{
    Association, AssociationIndex, Associations, PerType, ProcessorType, Processors, Task,
};

mod demand;
mod own_part;
mod reasons;

pub use demand::{Demand, FetchRequest};
pub use reasons::{AssociationReason, PairReason, most_unacknowledged};

use reasons::Reasons;

/// All that the choice depends on.
#[derive(Clone, Copy, Debug)]
pub struct Grounds<'a> {
    pub now: Time,
    pub profile: &'a Profile,
    pub preemption: Preemption,
    pub processors: &'a Processors,
    pub associations: &'a Associations,
    /// By association. One of which nothing is known is not asked.
    pub sources: &'a [Source],
    /// What each association got lately.
    pub rec: &'a [f64],
    /// All that are here and have not ended.
    pub tasks: &'a [Task],
    /// What is expected of these tasks at `now`.
    pub outlook: &'a Outlook,
    /// Who was asked for this type and has not said yet what it found.
    pub outstanding: &'a PerType<Option<AssociationIndex>>,
}

/// What is known of a scheduler beside its tasks.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// By the operator, or since it would not give anything: the worker is not healthy there, or it knows no requests.
    pub suspended: bool,
    /// It is to be read anew who its members are.
    pub list_pending: bool,
    /// The operator wants none, or the worker is about to end.
    pub no_more_work: bool,
    /// Tasks that have ended, which it was told and has not acknowledged.
    pub unacknowledged: usize,
    pub min_rpc_time: Time,
    /// How many times as long as it reckons its tasks run ([`Estimates::correction`](super::Estimates::correction)).
    pub correction: f64,
    /// A task of the scheduler has succeeded ([`Estimates::is_tried`](super::Estimates::is_tried)).
    pub is_tried: bool,
    pub of_type: PerType<SourcePair>,
}

/// What is known of a scheduler and a type of processors.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SourcePair {
    /// It said that no job of its own uses the type.
    pub no_apps: bool,
    pub backed_off_until: Time,
    /// The backoff began because the scheduler's tasks would have missed their deadlines.
    pub turned_down: bool,
    /// If there is one, that counts no longer than something of this stands.
    pub credit: Option<Credit>,
}

impl Source {
    /// Of one that nothing speaks against.
    pub fn new(processors: &Processors) -> Self {
        Source {
            suspended: false,
            list_pending: false,
            no_more_work: false,
            unacknowledged: 0,
            min_rpc_time: Time::ZERO,
            correction: 1.0,
            is_tried: true,
            of_type: processors.table(&SourcePair::default()),
        }
    }

    /// That is fewer than all for which no reason speaks: one that is only full has its part of what is to be shared.
    fn can_be_asked(&self, now: Time) -> bool {
        let refuses = self.suspended || self.list_pending || self.no_more_work;
        !refuses && self.min_rpc_time <= now
    }
}

/// What follows from them for everyone.
#[derive(Clone, Debug)]
pub struct Survey<'a> {
    grounds: Grounds<'a>,
    /// By association.
    reasons: Vec<Reasons>,
    fetchable: Vec<PerType<f64>>,
    /// How many tasks of each are here.
    held: Vec<u32>,
    priorities: Priorities,
    order: Vec<AssociationIndex>,
}

impl<'a> Survey<'a> {
    pub fn new(grounds: Grounds<'a>) -> Self {
        let reasons = Reasons::of_all(&grounds);
        let priorities = priorities(&grounds);
        let mut held = vec![0_u32; grounds.associations.len()];
        for task in grounds.tasks {
            if let Some(held) = held.get_mut(task.association.0) {
                *held = held.saturating_add(1);
            }
        }
        Survey {
            grounds,
            fetchable: fetchable(&grounds, &reasons),
            reasons,
            held,
            order: priorities.in_order(),
            priorities,
        }
    }

    /// The highest priority first.
    pub fn in_order(&self) -> &[AssociationIndex] {
        &self.order
    }

    /// As it is now that the queued tasks of each count against it.
    pub fn priority(&self, of: AssociationIndex) -> f64 {
        self.priorities.of(of)
    }

    /// Why it is not asked for anything.
    pub fn reason(&self, of: AssociationIndex) -> Option<AssociationReason> {
        match self.reasons.get(of.0) {
            Some(reasons) => reasons.of_association,
            None => Some(AssociationReason::Suspended),
        }
    }

    /// Why it is not asked for this, beside what speaks against all of it.
    pub fn pair_reason(&self, of: AssociationIndex, for_type: ProcessorType) -> Option<PairReason> {
        let reasons = self.reasons.get(of.0)?;
        reasons.of_type[for_type]
    }

    /// What part of the instances is its, among those that can be asked for the type.
    pub fn fetchable_share(&self, of: AssociationIndex, for_type: ProcessorType) -> f64 {
        self.fetchable.get(of.0).map_or(0.0, |all| all[for_type])
    }

    /// Returns the part of the instances that the scheduler may fill with this fetch, for messages; 0 if it is not asked for the type.
    pub fn may_have(&self, of: AssociationIndex, for_type: ProcessorType) -> f64 {
        let is_asked = self.reason(of).is_none() && self.pair_reason(of, for_type).is_none();
        match is_asked {
            true => self.fetchable_share(of, for_type),
            false => 0.0,
        }
    }

    /// Whom to ask now, if anybody.
    pub fn choose(&self) -> Option<FetchRequest> {
        let for_cards = match self.grounds.profile.first_asked {
            FirstAsked::ForIdleCards => self.choose_for(|of_type| self.is_idle_card(of_type)),
            FirstAsked::InTurn => None,
        };
        for_cards
            .or_else(|| self.choose_for(|_| true))
            .or_else(|| self.for_own_part())
    }

    fn is_idle_card(&self, of_type: ProcessorType) -> bool {
        let idle = self.grounds.outlook.of_type[of_type].idle_now;
        of_type != ProcessorType::CPU && amount(idle) > TOLERANCE
    }

    /// The first whom one of these types runs dry for.
    fn choose_for(&self, may_run_dry: impl Fn(ProcessorType) -> bool) -> Option<FetchRequest> {
        let mut found = self.grounds.processors.table(&None);
        let mut kept = self.grounds.processors.table(&false);
        for association in &self.order {
            if self.reason(*association).is_some() || self.was_asked(*association) {
                continue;
            }
            let Some(trigger) = self.trigger(*association, &mut found, &mut kept, &may_run_dry)
            else {
                continue;
            };
            let request = self.request(*association, |for_type| {
                if for_type == trigger {
                    return true;
                }
                let is_others = found[for_type].is_some_and(|found| found != *association);
                !is_others
                    && !kept[for_type]
                    && self.saturated(for_type) < self.grounds.profile.high_water()
                    && self.may_be_asked_too(*association, for_type)
            });
            if request.is_some() {
                return request;
            }
        }
        None
    }

    /// What else to ask one that is talked to anyway. The caller sees to it that it may be.
    pub fn piggyback(&self, association: AssociationIndex) -> Option<FetchRequest> {
        match self.reason(association) {
            None | Some(AssociationReason::MinRpcTime) => {}
            Some(_) => return None,
        }
        if self.was_asked(association) {
            return None;
        }
        self.request(association, |for_type| {
            self.saturated(for_type) < self.grounds.profile.high_water()
                && self.may_be_asked_too(association, for_type)
                && !self.has_better_source(association, for_type)
        })
    }

    /// What to ask one of which nothing is known yet, not even how long its tasks run: one task of each type.
    pub fn initial(&self, association: AssociationIndex) -> Option<FetchRequest> {
        let known = self.grounds.associations.get(association.0)?;
        let source = self.grounds.sources.get(association.0)?;
        if source.no_more_work || has_no_share(known) || self.was_asked(association) {
            return None;
        }
        let mut demands = self.grounds.processors.table(&Demand::default());
        for for_type in self.open_types() {
            demands[for_type].secs = demand::AS_LITTLE_AS_CAN_BE;
            // Of tasks that may not wait one is sent only for an instance that is idle.
            let idle = amount(self.grounds.outlook.of_type[for_type].idle_now);
            demands[for_type].idle = idle.min(1.0);
        }
        FetchRequest::new(association, demands)
    }

    /// Returns the first type for which the scheduler must be asked, if any.
    ///
    /// Enters the scheduler in `found` for each earlier type for which it could be asked and no scheduler before it is entered. Types in
    /// `kept` belong to an earlier scheduler, which is asked when an instance is idle.
    fn trigger(
        &self,
        association: AssociationIndex,
        found: &mut PerType<Option<AssociationIndex>>,
        kept: &mut PerType<bool>,
        may_run_dry: impl Fn(ProcessorType) -> bool,
    ) -> Option<ProcessorType> {
        for for_type in self.open_types() {
            kept[for_type] |= self.waits_for_an_instance(association, for_type);
            if kept[for_type] || self.pair_reason(association, for_type).is_some() {
                continue;
            }
            found[for_type].get_or_insert(association);
            let pair = self.pair(association, for_type);
            let could_use_more =
                !self.is_limited(association) || amount(pair.limited_shortfall) > 0.0;
            let is_low = self.saturated(for_type) < self.grounds.profile.low_water()
                && !self.has_stock(association, for_type);
            // With nothing to ask for of this one, what is backed off would be asked for alone.
            if may_run_dry(for_type)
                && is_low
                && could_use_more
                && self.demand(association, for_type).secs > 0.0
            {
                return Some(for_type);
            }
        }
        None
    }

    /// Returns whether the scheduler's tasks would miss their deadlines behind the queued tasks, and no instance has been idle since. Tasks
    /// of other schedulers would go before them again.
    fn waits_for_an_instance(
        &self,
        association: AssociationIndex,
        for_type: ProcessorType,
    ) -> bool {
        let source = self.grounds.sources.get(association.0);
        source.is_some_and(|source| source.of_type[for_type].turned_down)
            && self.pair_reason(association, for_type) == Some(PairReason::BackedOff)
            && amount(self.grounds.outlook.of_type[for_type].idle_now) <= TOLERANCE
    }

    /// Returns whether a full buffer of the scheduler's tasks waits although GPUs are idle. None of these tasks fits into the idle part of
    /// a GPU, and another one may not fit either.
    fn has_stock(&self, association: AssociationIndex, for_type: ProcessorType) -> bool {
        if for_type == ProcessorType::CPU {
            return false;
        }
        let high = self.grounds.profile.high_water();
        let waiting = self.grounds.tasks.iter().filter(|task| {
            let is_its = task.association == association;
            is_its && task.usage.processor_type() == for_type && !task.stage.is_executing()
        });
        let amounts =
            waiting.map(|task| amount(task.remaining).min(high) * task.usage.of(for_type));
        amount(amounts.sum::<f64>()) >= high * self.grounds.processors.instances(for_type)
    }

    /// Whether it can be asked for this when it is asked for something else: also if it had nothing lately.
    fn may_be_asked_too(&self, association: AssociationIndex, for_type: ProcessorType) -> bool {
        match self.pair_reason(association, for_type) {
            None | Some(PairReason::BackedOff | PairReason::Follows) => true,
            Some(PairReason::NoApps | PairReason::ZeroShare | PairReason::MaxConcurrent) => false,
        }
    }

    /// Whether somebody who comes before it can be asked for this, and may have it.
    fn has_better_source(&self, association: AssociationIndex, for_type: ProcessorType) -> bool {
        let before = self.order.iter().take_while(|one| **one != association);
        let higher = before.filter(|one| self.priority(**one) > self.priority(association));
        let mut could = higher.filter(|one| self.reason(**one).is_none());
        could.any(|one| self.pair_reason(*one, for_type).is_none())
    }

    /// Until it has answered, another request would only take the place of the first.
    fn was_asked(&self, association: AssociationIndex) -> bool {
        let mut asked = self.grounds.outstanding.iter();
        asked.any(|(_, asked)| *asked == Some(association))
    }

    /// Those of which there are instances, and for which nobody was asked who has not answered.
    fn open_types(&self) -> impl Iterator<Item = ProcessorType> {
        let Grounds {
            processors,
            outstanding,
            ..
        } = self.grounds;
        processors.types().filter(move |of_type| {
            processors.instances(*of_type) > 0.0 && outstanding[*of_type].is_none()
        })
    }

    fn saturated(&self, of_type: ProcessorType) -> f64 {
        amount(self.grounds.outlook.of_type[of_type].saturated)
    }

    fn pair(&self, association: AssociationIndex, of_type: ProcessorType) -> PairOutlook {
        let outlook = self.grounds.outlook.of_association.get(association.0);
        outlook.map_or_else(PairOutlook::default, |outlook| outlook.of_type[of_type])
    }

    fn is_limited(&self, association: AssociationIndex) -> bool {
        let association = self.grounds.associations.get(association.0);
        association.is_some_and(Association::is_limited)
    }
}

fn has_no_share(association: &Association) -> bool {
    amount(association.share) == 0.0
}

/// Returns the priorities of the schedulers that can be asked for work. Queued work counts as received. As a part of the buffer it would
/// outweigh hours of received work where tasks are as long as the buffer, and shares would be violated.
fn priorities(grounds: &Grounds<'_>) -> Priorities {
    let counted: Vec<bool> = grounds
        .sources
        .iter()
        .map(|source| source.can_be_asked(grounds.now))
        .collect();
    let mut priorities = Priorities::new(grounds.associations, grounds.rec, &counted);
    for task in grounds.tasks {
        let of_type = task.usage.processor_type();
        if grounds.processors.types().any(|known| known == of_type) {
            let queued = amount(task.remaining) * amount(task.usage.peak(grounds.processors));
            let rec = update_average(0.0, 0.0, queued / DAY, grounds.profile.rec_half_life);
            priorities.count_as_got(task.association, rec);
        }
    }
    priorities
}

/// By association and type: its share among those that nothing speaks against. If there is nobody, or none of them has a share, all is
/// anybody's.
fn fetchable(grounds: &Grounds<'_>, reasons: &[Reasons]) -> Vec<PerType<f64>> {
    let shares = || grounds.associations.iter().map(|one| amount(one.share));
    let mut sums = grounds.processors.table(&0.0);
    for (share, reasons) in shares().zip(reasons) {
        for of_type in grounds.processors.types() {
            if reasons.of_association.is_none() && reasons.of_type[of_type].is_none() {
                sums[of_type] += share;
            }
        }
    }
    let of_one = |share: f64| {
        let mut all = grounds.processors.table(&1.0);
        for (of_type, sum) in sums.iter().filter(|(_, sum)| **sum > 0.0) {
            all[of_type] = share / sum;
        }
        all
    };
    shares().map(of_one).collect()
}

#[cfg(test)]
mod tests;
