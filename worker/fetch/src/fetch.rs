//! Chooses the scheduler that is asked for work, and the amount.
//!
//! A [`Survey`] is made of the current state: the reasons why schedulers cannot be asked, and the order of the others. The worker asks a
//! scheduler when a processor type will run dry within the low water mark. It then asks for enough work to reach the high water mark, also
//! for other types below that mark. On a cluster, the worker also asks a scheduler whose own part of the buffer runs dry.
//!
//! Schedulers differ from BOINC's projects in that they answer after they have searched for work. Until the answer, the worker asks no
//! other scheduler for the same types, or both would send the work. There are no tasks that run beside all others, no GPUs that one
//! scheduler may use and another may not, and no request by hand for more than the worker would ask for anyway.

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

/// The inputs of the choice.
#[derive(Clone, Copy, Debug)]
pub struct FetchInput<'a> {
    pub now: Time,
    pub profile: &'a Profile,
    pub preemption: Preemption,
    pub processors: &'a Processors,
    pub associations: &'a Associations,
    /// The schedulers by association. A scheduler without an entry is not asked.
    pub sources: &'a [Source],
    /// The recent work of each association.
    pub rec: &'a [f64],
    /// All tasks at the worker that have not ended.
    pub tasks: &'a [Task],
    /// The simulation's result for these tasks at `now`.
    pub outlook: &'a Outlook,
    /// The scheduler with an unanswered request for the type.
    pub outstanding: &'a PerType<Option<AssociationIndex>>,
}

/// The state of a scheduler, without its tasks.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// The operator has suspended the scheduler, or the scheduler sends no work: it does not count the worker as healthy, or does not know
    /// work requests.
    pub suspended: bool,
    /// The scheduler's member list must be read again.
    pub list_pending: bool,
    /// The operator wants no more work from the scheduler, or the worker is about to exit.
    pub no_more_work: bool,
    /// The number of reported completions that the scheduler has not acknowledged.
    pub unacknowledged: usize,
    pub min_rpc_time: Time,
    /// The factor by which the scheduler's tasks run longer than it estimates ([`Estimates::correction`](super::Estimates::correction)).
    pub correction: f64,
    /// A task of the scheduler has succeeded ([`Estimates::is_tried`](super::Estimates::is_tried)).
    pub is_tried: bool,
    pub of_type: PerType<SourcePair>,
}

/// The state of a scheduler and a processor type.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SourcePair {
    /// The scheduler said that none of its jobs uses the type.
    pub no_apps: bool,
    pub backed_off_until: Time,
    /// The backoff began because the scheduler's tasks would have missed their deadlines.
    pub turned_down: bool,
    /// If present, the backoff counts only as long as some of this credit is left.
    pub credit: Option<Credit>,
}

impl Source {
    /// Returns the state of a scheduler without any reason against asking it.
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

    /// Returns whether the scheduler counts when shares are compared. A scheduler that is only full has a reason against asking it, but
    /// keeps its part.
    fn can_be_asked(&self, now: Time) -> bool {
        let refuses = self.suspended || self.list_pending || self.no_more_work;
        !refuses && self.min_rpc_time <= now
    }
}

/// The reasons and the order of all schedulers, derived from [`FetchInput`].
#[derive(Clone, Debug)]
pub struct Survey<'a> {
    fetch_input: FetchInput<'a>,
    /// The reasons by association.
    reasons: Vec<Reasons>,
    fetchable: Vec<PerType<f64>>,
    /// Tasks of each association at the worker.
    held: Vec<u32>,
    priorities: Priorities,
    order: Vec<AssociationIndex>,
}

impl<'a> Survey<'a> {
    pub fn new(fetch_input: FetchInput<'a>) -> Self {
        let reasons = Reasons::of_all(&fetch_input);
        let priorities = priorities(&fetch_input);
        let mut held = vec![0_u32; fetch_input.associations.len()];
        for task in fetch_input.tasks {
            if let Some(held) = held.get_mut(task.association.0) {
                *held = held.saturating_add(1);
            }
        }
        Survey {
            fetch_input,
            fetchable: fetchable(&fetch_input, &reasons),
            reasons,
            held,
            order: priorities.in_order(),
            priorities,
        }
    }

    /// Returns the schedulers by priority, highest first.
    pub fn in_order(&self) -> &[AssociationIndex] {
        &self.order
    }

    /// Returns the scheduler's priority, in which its queued tasks already count.
    pub fn priority(&self, of: AssociationIndex) -> f64 {
        self.priorities.of(of)
    }

    /// Returns the reason why nothing is asked of the scheduler, if any.
    pub fn reason(&self, of: AssociationIndex) -> Option<AssociationReason> {
        match self.reasons.get(of.0) {
            Some(reasons) => reasons.of_association,
            None => Some(AssociationReason::Suspended),
        }
    }

    /// Returns the reason why this type is not asked of the scheduler, apart from reasons against the scheduler as a whole.
    pub fn pair_reason(&self, of: AssociationIndex, for_type: ProcessorType) -> Option<PairReason> {
        let reasons = self.reasons.get(of.0)?;
        reasons.of_type[for_type]
    }

    /// Returns the scheduler's share of the type's instances, among the schedulers that can be asked for the type.
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

    /// Returns the request to make now, if any.
    pub fn choose(&self) -> Option<FetchRequest> {
        let for_cards = match self.fetch_input.profile.first_asked {
            FirstAsked::ForIdleCards => self.choose_for(|of_type| self.is_idle_card(of_type)),
            FirstAsked::InTurn => None,
        };
        for_cards
            .or_else(|| self.choose_for(|_| true))
            .or_else(|| self.for_own_part())
    }

    fn is_idle_card(&self, of_type: ProcessorType) -> bool {
        let idle = self.fetch_input.outlook.of_type[of_type].idle_now;
        of_type != ProcessorType::CPU && amount(idle) > TOLERANCE
    }

    /// Returns a request to the first scheduler that must be asked for one of the types for which `may_run_dry` holds.
    fn choose_for(&self, may_run_dry: impl Fn(ProcessorType) -> bool) -> Option<FetchRequest> {
        let mut found = self.fetch_input.processors.table(&None);
        let mut kept = self.fetch_input.processors.table(&false);
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
                    && self.saturated(for_type) < self.fetch_input.profile.high_water()
                    && self.may_be_asked_too(*association, for_type)
            });
            if request.is_some() {
                return request;
            }
        }
        None
    }

    /// Returns the work to ask of a scheduler that is contacted anyway. The caller checks that the scheduler may be contacted.
    pub fn piggyback(&self, association: AssociationIndex) -> Option<FetchRequest> {
        match self.reason(association) {
            None | Some(AssociationReason::MinRpcTime) => {}
            Some(_) => return None,
        }
        if self.was_asked(association) {
            return None;
        }
        self.request(association, |for_type| {
            self.saturated(for_type) < self.fetch_input.profile.high_water()
                && self.may_be_asked_too(association, for_type)
                && !self.has_better_source(association, for_type)
        })
    }

    /// Returns the first request to a new scheduler, whose run times are unknown: one task of each type.
    pub fn initial(&self, association: AssociationIndex) -> Option<FetchRequest> {
        let known = self.fetch_input.associations.get(association.0)?;
        let source = self.fetch_input.sources.get(association.0)?;
        if source.no_more_work || has_no_share(known) || self.was_asked(association) {
            return None;
        }
        let mut demands = self.fetch_input.processors.table(&Demand::default());
        for for_type in self.open_types() {
            demands[for_type].secs = demand::AS_LITTLE_AS_CAN_BE;
            // A task that may not wait is sent only for an idle instance.
            let idle = amount(self.fetch_input.outlook.of_type[for_type].idle_now);
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
            let is_low = self.saturated(for_type) < self.fetch_input.profile.low_water()
                && !self.has_stock(association, for_type);
            // A request without a demand for this type would only ask for other types, which may be backed off.
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
        let source = self.fetch_input.sources.get(association.0);
        source.is_some_and(|source| source.of_type[for_type].turned_down)
            && self.pair_reason(association, for_type) == Some(PairReason::BackedOff)
            && amount(self.fetch_input.outlook.of_type[for_type].idle_now) <= TOLERANCE
    }

    /// Returns whether a full buffer of the scheduler's tasks waits although GPUs are idle. None of these tasks fits into the idle part of
    /// a GPU, and another one may not fit either.
    fn has_stock(&self, association: AssociationIndex, for_type: ProcessorType) -> bool {
        if for_type == ProcessorType::CPU {
            return false;
        }
        let high = self.fetch_input.profile.high_water();
        let waiting = self.fetch_input.tasks.iter().filter(|task| {
            let is_its = task.association == association;
            is_its && task.usage.processor_type() == for_type && !task.stage.is_executing()
        });
        let amounts =
            waiting.map(|task| amount(task.remaining).min(high) * task.usage.of(for_type));
        amount(amounts.sum::<f64>()) >= high * self.fetch_input.processors.instances(for_type)
    }

    /// Returns whether a request for another type may ask for this type too, even if the pair is backed off.
    fn may_be_asked_too(&self, association: AssociationIndex, for_type: ProcessorType) -> bool {
        match self.pair_reason(association, for_type) {
            None | Some(PairReason::BackedOff | PairReason::Follows) => true,
            Some(PairReason::NoApps | PairReason::ZeroShare | PairReason::MaxConcurrent) => false,
        }
    }

    /// Returns whether a scheduler of higher priority can be asked for this type.
    fn has_better_source(&self, association: AssociationIndex, for_type: ProcessorType) -> bool {
        let before = self.order.iter().take_while(|one| **one != association);
        let higher = before.filter(|one| self.priority(**one) > self.priority(association));
        let mut could = higher.filter(|one| self.reason(**one).is_none());
        could.any(|one| self.pair_reason(*one, for_type).is_none())
    }

    /// Returns whether the scheduler has an unanswered request, which a new one would replace.
    fn was_asked(&self, association: AssociationIndex) -> bool {
        let mut asked = self.fetch_input.outstanding.iter();
        asked.any(|(_, asked)| *asked == Some(association))
    }

    /// Returns the types that have instances and no unanswered request.
    fn open_types(&self) -> impl Iterator<Item = ProcessorType> {
        let FetchInput {
            processors,
            outstanding,
            ..
        } = self.fetch_input;
        processors.types().filter(move |of_type| {
            processors.instances(*of_type) > 0.0 && outstanding[*of_type].is_none()
        })
    }

    fn saturated(&self, of_type: ProcessorType) -> f64 {
        amount(self.fetch_input.outlook.of_type[of_type].saturated)
    }

    fn pair(&self, association: AssociationIndex, of_type: ProcessorType) -> PairOutlook {
        let outlook = self.fetch_input.outlook.of_association.get(association.0);
        outlook.map_or_else(PairOutlook::default, |outlook| outlook.of_type[of_type])
    }

    fn is_limited(&self, association: AssociationIndex) -> bool {
        let association = self.fetch_input.associations.get(association.0);
        association.is_some_and(Association::is_limited)
    }
}

fn has_no_share(association: &Association) -> bool {
    amount(association.share) == 0.0
}

/// Returns the priorities of the schedulers that can be asked for work. Queued work counts as received. As a part of the buffer it would
/// outweigh hours of received work where tasks are as long as the buffer, and shares would be violated.
fn priorities(fetch_input: &FetchInput<'_>) -> Priorities {
    let counted: Vec<bool> = fetch_input
        .sources
        .iter()
        .map(|source| source.can_be_asked(fetch_input.now))
        .collect();
    let mut priorities = Priorities::new(fetch_input.associations, fetch_input.rec, &counted);
    for task in fetch_input.tasks {
        let of_type = task.usage.processor_type();
        if fetch_input.processors.types().any(|known| known == of_type) {
            let queued = amount(task.remaining) * amount(task.usage.peak(fetch_input.processors));
            let rec = update_average(0.0, 0.0, queued / DAY, fetch_input.profile.rec_half_life);
            priorities.count_as_got(task.association, rec);
        }
    }
    priorities
}

/// Returns each association's share of each type among the schedulers without a reason against them. If no such scheduler has a share, each
/// may have all.
fn fetchable(fetch_input: &FetchInput<'_>, reasons: &[Reasons]) -> Vec<PerType<f64>> {
    let shares = || fetch_input.associations.iter().map(|one| amount(one.share));
    let mut sums = fetch_input.processors.table(&0.0);
    for (share, reasons) in shares().zip(reasons) {
        for of_type in fetch_input.processors.types() {
            if reasons.of_association.is_none() && reasons.of_type[of_type].is_none() {
                sums[of_type] += share;
            }
        }
    }
    let of_one = |share: f64| {
        let mut all = fetch_input.processors.table(&1.0);
        for (of_type, sum) in sums.iter().filter(|(_, sum)| **sum > 0.0) {
            all[of_type] = share / sum;
        }
        all
    };
    shares().map(of_one).collect()
}

#[cfg(test)]
mod tests;
