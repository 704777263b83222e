//! Requests that fill a scheduler's own part of the buffer while tasks of others fill the rest.
//!
//! A scheduler with a large share runs dry first, because its tasks run more often. If the worker asked only when the whole buffer runs
//! dry, only tasks of others would be left by then, and they would get this scheduler's share.

use super::super::amounts::amount;
use super::super::profile::Buffer;
use super::super::types::{Association, AssociationIndex, ProcessorType, TaskStage};
use super::demand::{Demand, FetchRequest};
use super::{Survey, has_no_share};

/// Limit of the waiting work, in buffers. The worker accepts no more.
const MOST_BUFFERS: f64 = 2.0;

impl Survey<'_> {
    /// Returns a request to a scheduler whose own tasks will run dry although the buffer as a whole is full enough. For each type, only the
    /// first scheduler in order qualifies, if its tasks fill its part of the instances for less than the low water mark. The others have
    /// had their share, and with long tasks the next one here would be theirs.
    pub(super) fn for_own_part(&self) -> Option<FetchRequest> {
        if self.fetch_input.profile.buffer == Buffer::Common {
            return None;
        }
        let mut has_first = self.fetch_input.processors.table(&false);
        let mut order = self.order.iter();
        order.find_map(|association| {
            let is_excluded = self.reason(*association).is_some()
                || self.was_asked(*association)
                || self.is_limited(*association);
            if is_excluded {
                return None;
            }
            let mut demands = self.fetch_input.processors.table(&Demand::default());
            for for_type in self.open_types() {
                let may_be_asked = self.pair_reason(*association, for_type).is_none();
                if may_be_asked && !std::mem::replace(&mut has_first[for_type], true) {
                    demands[for_type] = self.own_part(*association, for_type);
                }
            }
            FetchRequest::new(*association, demands)
        })
    }

    /// Returns the work that the scheduler's part lacks up to the high water mark; nothing if the part is filled up to the low water mark.
    /// Tasks longer than the low water mark get no part, because the next of them is best chosen when an instance is free.
    fn own_part(&self, association: AssociationIndex, for_type: ProcessorType) -> Demand {
        let profile = self.fetch_input.profile;
        let instances = self.fetch_input.processors.instances(for_type);
        let part = instances * self.part(association);
        let (low, high) = (profile.low_water(), profile.high_water());
        let here = self.work_here(association, for_type);
        let room = MOST_BUFFERS * instances * high - (here.waiting + here.others_waiting);
        let missing = (part * high - here.own).min(room);
        // If no task of another scheduler waits, the common rule of the whole buffer is enough.
        let is_fed = here.others_waiting == 0.0 || here.own >= part * low;
        let is_enough = is_fed || self.awaits_first_completion(association, for_type);
        if is_enough || here.longest > low || missing <= 0.0 {
            return Demand::default();
        }
        Demand {
            secs: self.as_it_reckons(association, missing),
            instances: 0.0,
            idle: 0.0,
            estimated_delay: amount(self.fetch_input.outlook.of_type[for_type].busy),
        }
    }

    /// Returns the scheduler's fraction of all shares. Schedulers without work count too, or the part would change with each answer.
    fn part(&self, association: AssociationIndex) -> f64 {
        let all = self.fetch_input.associations.iter();
        let all: f64 = all.map(|one| amount(one.share)).sum();
        let own = self.fetch_input.associations.get(association.0);
        match own.filter(|own| !has_no_share(own)) {
            Some(Association { share, .. }) if all > 0.0 => amount(*share) / all,
            Some(_) | None => 0.0,
        }
    }

    /// Returns the work of a type at the worker.
    fn work_here(&self, association: AssociationIndex, for_type: ProcessorType) -> Here {
        let tasks = self.fetch_input.tasks.iter();
        let mut here = Here::default();
        for task in tasks.filter(|task| task.usage.processor_type() == for_type) {
            let (usage, remaining) = (amount(task.usage.of(for_type)), amount(task.remaining));
            let waiting = match task.stage {
                TaskStage::Executing { .. } => 0.0,
                TaskStage::Queued
                | TaskStage::WaitingForInputs { .. }
                | TaskStage::Preempted { .. } => amount(usage * remaining),
            };
            here.longest = here.longest.max(remaining);
            if task.association == association {
                here.waiting += waiting;
                here.own = amount(here.own + usage * remaining);
            } else {
                here.others_waiting += waiting;
            }
        }
        here
    }
}

#[derive(Debug, Default)]
struct Here {
    /// Instance-seconds of the scheduler's tasks, and below: of those that wait, and of waiting tasks of others.
    own: f64,
    waiting: f64,
    others_waiting: f64,
    /// The longest remaining time of any task, in seconds.
    longest: f64,
}
