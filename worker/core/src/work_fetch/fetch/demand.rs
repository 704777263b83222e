//! How much a scheduler is asked for. There is no setting that keeps that to one task of each type, as volunteers have for trying a machine
//! out: small marks do the same.

use super::super::amounts::{TOLERANCE, amount};
use super::super::job_sched::Preemption;
use super::super::types::{AssociationIndex, PerType, ProcessorType};
use super::{Survey, has_no_share};

/// Seconds that come out as one task, whatever it takes.
pub(super) const AS_LITTLE_AS_CAN_BE: f64 = 1.0;

/// The worker asks no scheduler for more than this many times its part. Without a limit, one of hundreds of schedulers fills the buffer and its
/// next turn comes days later. A lower limit splits the requests to a few schedulers and makes the requests to many smaller.
const MOST_PARTS: f64 = 8.0;

/// What is asked for of one type. Nothing is negative, and all is finite.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Demand {
    /// Instance-seconds of work, by what the scheduler reckons that tasks take.
    pub secs: f64,
    /// Instances that the work should keep busy.
    pub instances: f64,
    /// Those that have nothing to do now: for work that cannot wait here.
    pub idle: f64,
    /// So long it takes until new work can begin, since what is here must come first to meet its deadlines.
    pub estimated_delay: f64,
}

/// What is asked of one scheduler: some work of at least one type.
#[derive(Clone, Debug, PartialEq)]
pub struct FetchRequest {
    pub association: AssociationIndex,
    pub of_type: PerType<Demand>,
}

impl FetchRequest {
    pub(super) fn new(association: AssociationIndex, of_type: PerType<Demand>) -> Option<Self> {
        let asks = of_type.iter().any(|(_, demand)| demand.secs > 0.0);
        asks.then_some(FetchRequest {
            association,
            of_type,
        })
    }

    pub fn asks_for(&self, of_type: ProcessorType) -> bool {
        self.of_type[of_type].secs > 0.0
    }
}

impl Survey<'_> {
    /// Asks this association for those types for which it is to be.
    pub(super) fn request(
        &self,
        association: AssociationIndex,
        is_asked_for: impl Fn(ProcessorType) -> bool,
    ) -> Option<FetchRequest> {
        let mut demands = self.grounds.processors.table(&Demand::default());
        for for_type in self.open_types().filter(|of_type| is_asked_for(*of_type)) {
            demands[for_type] = self.demand(association, for_type);
        }
        FetchRequest::new(association, demands)
    }

    /// The volunteers' servers are told the factor, and reckon with it unless it is beyond belief; ours know nothing of it.
    pub(super) fn as_it_reckons(&self, association: AssociationIndex, secs: f64) -> f64 {
        let source = self.grounds.sources.get(association.0);
        if source.is_some_and(|source| !source.is_tried) {
            return secs.min(AS_LITTLE_AS_CAN_BE);
        }
        let correction = source.map_or(1.0, |source| amount(source.correction));
        match correction > 0.0 {
            true => amount(secs / correction),
            false => secs,
        }
    }

    /// Returns whether the scheduler has a task for each instance but no successful completion yet. Its estimates may be wrong by any factor, so
    /// the worker fetches no buffer from it before the first successful completion. A worker that stops tasks fetches it all the same, because
    /// an urgent task need not wait for a completion there.
    pub(super) fn awaits_first_completion(
        &self,
        association: AssociationIndex,
        for_type: ProcessorType,
    ) -> bool {
        let source = self.grounds.sources.get(association.0);
        let used = amount(self.pair(association, for_type).used_by_all);
        self.grounds.preemption == Preemption::Off
            && source.is_some_and(|source| !source.is_tried)
            && used + TOLERANCE >= self.grounds.processors.instances(for_type)
            && amount(self.grounds.outlook.of_type[for_type].idle_now) <= TOLERANCE
    }

    pub(super) fn demand(&self, association: AssociationIndex, for_type: ProcessorType) -> Demand {
        if self.awaits_first_completion(association, for_type) {
            return Demand::default();
        }
        let outlook = &self.grounds.outlook.of_type[for_type];
        let idle = amount(outlook.idle_now);
        let Some(known) = self.grounds.associations.get(association.0) else {
            return Demand::default();
        };
        let estimated_delay = amount(outlook.busy);
        if has_no_share(known) {
            // One task for an instance that nobody else has work for; the next is asked for when there still is one.
            return match idle > 0.0 {
                true => Demand {
                    secs: AS_LITTLE_AS_CAN_BE,
                    instances: 1.0,
                    idle: idle.min(1.0),
                    estimated_delay,
                },
                false => Demand::default(),
            };
        }
        let all = self.grounds.processors.instances(for_type);
        let part = (all * self.fetchable_share(association, for_type)).min(all);
        let most = (MOST_PARTS * part).min(all);
        let idle = idle.min(most.max(1.0));
        let most = (most * self.grounds.profile.high_water()).max(AS_LITTLE_AS_CAN_BE);
        let shortfall = amount(outlook.shortfall).min(most);
        let pair = self.pair(association, for_type);
        let is_limited = self.is_limited(association);
        let (shortfall, instances) = if is_limited {
            // What it could use beside what others use is no more than all miss.
            let its = amount(pair.limited_shortfall);
            (its.min(shortfall), 0.0)
        } else {
            (shortfall, idle.max(part - amount(pair.used_by_all)))
        };
        let mut secs = self.as_it_reckons(association, shortfall);
        if secs == 0.0 && (shortfall > 0.0 || instances > 0.0) {
            secs = AS_LITTLE_AS_CAN_BE;
        }
        if secs == 0.0 {
            return Demand::default();
        }
        // What cannot wait here must not come in greater number than may run.
        let may_run = known.max_concurrent.map_or(f64::INFINITY, |limit| {
            f64::from(limit.saturating_sub(self.held[association.0]))
        });
        Demand {
            secs,
            instances,
            idle: idle.min(may_run),
            estimated_delay,
        }
    }
}
