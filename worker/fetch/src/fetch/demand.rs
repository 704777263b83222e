//! Computes the amount of work that a scheduler is asked for. BOINC has a setting that limits requests to one task of each type, to try out
//! a machine. Here small water marks have the same effect.

use super::super::amounts::{TOLERANCE, amount};
use super::super::job_sched::Preemption;
use super::super::types::{AssociationIndex, PerType, ProcessorType};
use super::{Survey, has_no_share};

/// The smallest request in seconds, which brings one task of any length.
pub(super) const AS_LITTLE_AS_CAN_BE: f64 = 1.0;

/// The worker asks no scheduler for more than this many times its part. Without a limit, one of hundreds of schedulers fills the buffer and
/// its next turn comes days later. A lower limit splits the requests to a few schedulers and makes the requests to many smaller.
const MOST_PARTS: f64 = 8.0;

/// The requested work of one type. All numbers are finite and not negative.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Demand {
    /// Instance-seconds of work, by the scheduler's estimates.
    pub secs: f64,
    /// Instances that the work should keep busy.
    pub instances: f64,
    /// Idle instances, for tasks that may not wait at the worker.
    pub idle: f64,
    /// Seconds until a new task can start, because tasks at the worker must run first to meet their deadlines.
    pub estimated_delay: f64,
}

/// A work request to one scheduler, for at least one type.
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
    /// Returns a request to this association for the types for which `is_asked_for` holds.
    pub(super) fn request(
        &self,
        association: AssociationIndex,
        is_asked_for: impl Fn(ProcessorType) -> bool,
    ) -> Option<FetchRequest> {
        let mut demands = self.fetch_input.processors.table(&Demand::default());
        for for_type in self.open_types().filter(|of_type| is_asked_for(*of_type)) {
            demands[for_type] = self.demand(association, for_type);
        }
        FetchRequest::new(association, demands)
    }

    /// Converts seconds to the scheduler's estimates. BOINC's servers receive the correction and apply it unless it is implausible; a
    /// Brasserie scheduler does not know it.
    pub(super) fn as_it_reckons(&self, association: AssociationIndex, secs: f64) -> f64 {
        let source = self.fetch_input.sources.get(association.0);
        if source.is_some_and(|source| !source.is_tried) {
            return secs.min(AS_LITTLE_AS_CAN_BE);
        }
        let correction = source.map_or(1.0, |source| amount(source.correction));
        match correction > 0.0 {
            true => amount(secs / correction),
            false => secs,
        }
    }

    /// Returns whether the scheduler has a task for each instance but no successful completion yet. Its estimates may be wrong by any
    /// factor, so the worker fetches no buffer from it before the first successful completion. A worker that stops tasks fetches it all the
    /// same, because an urgent task need not wait for a completion there.
    pub(super) fn awaits_first_completion(
        &self,
        association: AssociationIndex,
        for_type: ProcessorType,
    ) -> bool {
        let source = self.fetch_input.sources.get(association.0);
        let used = amount(self.pair(association, for_type).used_by_all);
        self.fetch_input.preemption == Preemption::Off
            && source.is_some_and(|source| !source.is_tried)
            && used + TOLERANCE >= self.fetch_input.processors.instances(for_type)
            && amount(self.fetch_input.outlook.of_type[for_type].idle_now) <= TOLERANCE
    }

    pub(super) fn demand(&self, association: AssociationIndex, for_type: ProcessorType) -> Demand {
        if self.awaits_first_completion(association, for_type) {
            return Demand::default();
        }
        let outlook = &self.fetch_input.outlook.of_type[for_type];
        let idle = amount(outlook.idle_now);
        let Some(known) = self.fetch_input.associations.get(association.0) else {
            return Demand::default();
        };
        let estimated_delay = amount(outlook.busy);
        if has_no_share(known) {
            // The worker asks for one task for an idle instance that no other scheduler fills. It asks again if an instance is still idle.
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
        let all = self.fetch_input.processors.instances(for_type);
        let part = (all * self.fetchable_share(association, for_type)).min(all);
        let most = (MOST_PARTS * part).min(all);
        let idle = idle.min(most.max(1.0));
        let most = (most * self.fetch_input.profile.high_water()).max(AS_LITTLE_AS_CAN_BE);
        let shortfall = amount(outlook.shortfall).min(most);
        let pair = self.pair(association, for_type);
        let is_limited = self.is_limited(association);
        let (shortfall, instances) = if is_limited {
            // The scheduler's limited tasks can fill no more than the whole shortfall.
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
        // Tasks that may not wait must not exceed the scheduler's limit of running tasks.
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
