//! The credit of a request that lingers: the part that the scheduler has not filled yet. While some credit is left, the scheduler sends
//! work as soon as it has some, and another request would bring it no sooner.

use std::time::Duration;

use brasserie_common::{Time, WorkDemand};

use super::amounts::{TOLERANCE, amount};

/// Tasks per instance after which the worker renews its request. A scheduler's default limit for one request is twice this, so the worker
/// asks again before the scheduler stops.
const MOST_PER_INSTANCE: f64 = 500.0;
/// Idle instances are grouped by age into at most this number of batches. If all batches are in use, the first is older than the patience.
const BATCHES: usize = 4;

/// The credit of one scheduler and processor type, which the worker reduces and restores as the scheduler does. The counts of instances and
/// of idle instances equal the scheduler's. The seconds only approximate it, because each side has its own estimates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Credit {
    until: Time,
    secs: f64,
    instances: f64,
    idle: f64,
    there: f64,
    /// Instances for which tasks wait at the worker. `None` if the end of a run restores no idle instance at the scheduler.
    waiting: Option<f64>,
    tasks_left: f64,
    /// The part of the idle instances that completions since the request left idle.
    awaited: Awaited,
    /// Whether work of the type has arrived since the request.
    has_brought: bool,
}

impl Credit {
    /// Returns the credit of a new request; `None` if it asks for nothing or ends with its answer.
    pub fn of(now: Time, linger: Duration, demand: &WorkDemand) -> Option<Self> {
        let lingers = !linger.is_zero() && demand.instance_secs > 0.0;
        lingers.then(|| Credit {
            until: now + linger,
            secs: amount(demand.instance_secs),
            instances: amount(demand.instances),
            idle: amount(demand.idle),
            there: amount(demand.there).max(1.0),
            waiting: demand.waiting.map(amount),
            tasks_left: (MOST_PER_INSTANCE * amount(demand.there)).max(1.0),
            awaited: Awaited::default(),
            has_brought: false,
        })
    }

    /// Subtracts a task that has arrived. `usage` is in instances, `secs` is the run time by the scheduler's estimate.
    pub fn take(&mut self, usage: f64, secs: f64) {
        let usage = amount(usage);
        self.secs -= amount(usage * amount(secs));
        self.instances -= usage;
        self.idle -= usage;
        self.tasks_left -= 1.0;
        self.awaited.take(usage);
    }

    /// Restores the instances of a completed run: waiting tasks take them first, and the rest is idle again, at most up to the number of
    /// instances. The worker waits for `patience` for the tasks that follow.
    pub fn give_back(&mut self, now: Time, usage: f64, patience: Duration) {
        let (usage, before) = (amount(usage), self.idle);
        let Some(waiting) = self.waiting.as_mut().filter(|_| self.until > now) else {
            return;
        };
        let left = (usage - *waiting).max(0.0);
        *waiting = (*waiting - usage).max(0.0);
        // Some idle instances received no task, so none will follow for this one.
        if before - self.awaited.instances() > TOLERANCE {
            return;
        }
        self.idle = before.max((before + left).min(self.there));
        let raised = self.idle.max(0.0) - before.max(0.0);
        if raised > TOLERANCE {
            self.awaited.add(now, raised, patience);
        }
    }

    /// Returns the time since which an instance is idle for which a task should have arrived.
    pub fn awaits_since(&self) -> Option<Time> {
        self.awaited.since()
    }

    /// Returns whether completions left all `idle` instances idle, so that the next tasks arrive without a request.
    pub fn brings(&self, now: Time, idle: f64) -> bool {
        let is_idle = idle > TOLERANCE && idle <= self.awaited.instances() + TOLERANCE;
        is_idle && self.covers(now, idle)
    }

    /// Returns whether the request still lingers.
    pub fn lingers(&self, now: Time) -> bool {
        self.until > now
    }

    /// Notes that work of the type has arrived.
    pub fn brought(&mut self) {
        self.has_brought = true;
    }

    pub fn has_brought(&self) -> bool {
        self.has_brought
    }

    /// Returns whether the next task arrives without a request, whatever its kind, while `idle` instances are idle. Tasks that may wait are
    /// sent for seconds or instances, other tasks only for idle instances. An estimate is good enough if no instance is idle, because the
    /// task may then come a little later. It is also good enough for awaited tasks, because their absence is soon noticed.
    pub fn covers(&self, now: Time, idle: f64) -> bool {
        let awaited = self.awaited.instances();
        let stands = match idle > TOLERANCE {
            true if awaited > TOLERANCE => {
                let for_those_that_wait = self.instances > TOLERANCE || self.secs > 0.0;
                for_those_that_wait && self.idle > idle - TOLERANCE
            }
            true => self.instances > TOLERANCE && self.idle > TOLERANCE,
            false => self.instances > TOLERANCE || self.secs > 0.0,
        };
        self.lingers(now) && self.tasks_left > 0.0 && stands
    }
}

/// Instances that completions left idle and for which no task has arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Awaited {
    /// The oldest batch first; empty batches last.
    batches: [Batch; BATCHES],
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Batch {
    /// The time at which the first instance became idle. The others followed within a third of the patience.
    since: Time,
    instances: f64,
}

impl Batch {
    fn is_used(&self) -> bool {
        self.instances > TOLERANCE
    }
}

impl Awaited {
    /// Records `instances` that are idle from `now` on.
    fn add(&mut self, now: Time, instances: f64, patience: Duration) {
        let length = patience / (BATCHES as u32 - 1);
        let used = self.batches.iter().filter(|batch| batch.is_used()).count();
        let last = self.batches.get_mut(used.saturating_sub(1));
        if let Some(last) = last.filter(|last| last.is_used())
            && (used == BATCHES || now < last.since + length)
        {
            last.instances += instances;
        } else if let Some(next) = self.batches.get_mut(used) {
            *next = Batch {
                since: now,
                instances,
            };
        }
    }

    /// Removes `instances` for which tasks have arrived, the longest idle first.
    fn take(&mut self, mut instances: f64) {
        for batch in &mut self.batches {
            let part = batch.instances.min(instances);
            batch.instances -= part;
            instances -= part;
        }
        self.batches.sort_by_key(|batch| !batch.is_used());
    }

    fn instances(&self) -> f64 {
        let used = self.batches.iter().filter(|batch| batch.is_used());
        used.map(|batch| batch.instances).sum()
    }

    /// Returns the time since which the first instance is idle.
    fn since(&self) -> Option<Time> {
        let first = self.batches.first().filter(|first| first.is_used());
        first.map(|first| first.since)
    }
}

#[cfg(test)]
mod tests {
    use brasserie_common::Processor;

    use super::*;

    fn nothing() -> WorkDemand {
        WorkDemand::none(Processor::Cpu, 4.0)
    }

    fn demand() -> WorkDemand {
        WorkDemand {
            instance_secs: 60.0,
            instances: 2.0,
            idle: 1.0,
            ..nothing()
        }
    }

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn it_is_counted_off_and_ends() {
        let linger = Duration::from_secs(120);
        let whole = Credit::of(at(0), linger, &demand()).unwrap();
        // Each row: seconds and usage of a task that arrived, and whether the credit covers another task with no and with one idle
        // instance.
        for (secs, usage, is_covered) in [
            (0.0, 0.0, [true, true]),
            (30.0, 0.5, [true, true]),
            // A task that may not wait would not arrive any more.
            (10.0, 1.0, [true, false]),
            (10.0, 2.0, [true, false]),
            (30.0, 2.0, [false, false]),
            // The credit lasts for the instances that are left, however long their tasks run.
            (9e9, 0.5, [true, true]),
            (f64::NAN, f64::NAN, [true, true]),
            (f64::INFINITY, f64::INFINITY, [false, false]),
        ] {
            let mut credit = whole;
            credit.take(usage, secs);
            let covers = [0.0, 1.0].map(|idle| credit.covers(at(119), idle));
            assert_eq!(covers, is_covered, "{secs} {usage}");
            assert!(!credit.covers(at(120), 0.0) && !credit.covers(at(120), 1.0));
        }
    }

    const PATIENCE: Duration = Duration::from_millis(90);

    /// Returns a credit for idle instances alone, of four instances, while tasks wait for `waiting` of them.
    fn standing(idle: f64, waiting: Option<f64>) -> Credit {
        let demand = WorkDemand {
            instance_secs: 1000.0,
            instances: 0.0,
            idle,
            waiting,
            ..nothing()
        };
        Credit::of(at(0), Duration::from_secs(120), &demand).unwrap()
    }

    #[test]
    fn what_an_end_leaves_idle_is_covered_until_something_comes_for_it() {
        let mut credit = standing(0.0, Some(0.0));
        for second in 0..100 {
            assert!(!credit.covers(at(second), 1.0));
            credit.give_back(at(second), 1.0, PATIENCE);
            assert!(credit.covers(at(second), 1.0) && credit.brings(at(second), 1.0));
            assert!(!credit.covers(at(second), 2.0), "one is not two");
            assert_eq!(credit.awaits_since(), Some(at(second)));
            credit.take(1.0, 1.0);
            assert_eq!(credit.awaits_since(), None);
        }
    }

    /// Follows the scheduler's own accounting, which has tests of the same cases.
    #[test]
    fn no_more_comes_back_than_the_scheduler_gives() {
        // Waiting tasks take returned instances first, including a task that was sent since and waits.
        let mut credit = standing(0.0, Some(1.0));
        credit.take(1.0, 1.0);
        for (end, is_covered) in [(1, false), (2, false), (3, true)] {
            credit.give_back(at(end), 1.0, PATIENCE);
            assert_eq!(credit.covers(at(end), 1.0), is_covered, "{end}");
        }
        // The credit never exceeds the number of instances.
        let mut credit = standing(0.0, Some(0.0));
        for _ in 0..9 {
            credit.give_back(at(0), 1.0, PATIENCE);
        }
        assert!(credit.covers(at(0), 4.0) && !credit.covers(at(0), 5.0));
        // Nothing returns for a request that does not say what waits, or that no longer lingers.
        for (waiting, end) in [(None, 0), (Some(0.0), 120)] {
            let mut credit = standing(0.0, waiting);
            credit.give_back(at(end), 1.0, PATIENCE);
            assert!(!credit.covers(at(0), 1.0));
        }
    }

    #[test]
    fn where_nothing_came_for_what_was_idle_nothing_is_awaited() {
        let mut credit = standing(2.0, Some(0.0));
        credit.take(1.0, 1.0);
        credit.give_back(at(0), 1.0, PATIENCE);
        assert_eq!(credit.awaits_since(), None);
        assert!(!credit.brings(at(0), 1.0));
        credit.take(1.0, 1.0);
        credit.give_back(at(1), 1.0, PATIENCE);
        assert_eq!(credit.awaits_since(), Some(at(1)));
    }

    #[test]
    fn a_request_is_relied_on_for_so_many_tasks() {
        let mut credit = standing(0.0, Some(0.0));
        for task in 0..=2000 {
            credit.give_back(at(1), 1.0, PATIENCE);
            assert_eq!(credit.covers(at(1), 1.0), task < 2000, "{task}");
            credit.take(1.0, 0.1);
        }
    }

    #[test]
    fn nothing_stands_of_what_was_not_asked_for_or_does_not_linger() {
        assert_eq!(Credit::of(at(0), Duration::from_secs(9), &nothing()), None);
        assert_eq!(Credit::of(at(0), Duration::ZERO, &demand()), None);
    }

    fn ms(millis: u64) -> Time {
        Time::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn tasks_are_for_the_instances_that_are_idle_longest() {
        let mut awaited = Awaited::default();
        assert_eq!((awaited.since(), awaited.instances()), (None, 0.0));
        for (now, instances) in [(0, 1.0), (29, 1.0), (30, 0.5), (70, 2.0)] {
            awaited.add(ms(now), instances, PATIENCE);
        }
        assert_eq!((awaited.since(), awaited.instances()), (Some(ms(0)), 4.5));
        for (came, since, left) in [
            (1.5, Some(ms(0)), 3.0),
            (0.5, Some(ms(30)), 2.5),
            (0.5, Some(ms(70)), 2.0),
            (9.0, None, 0.0),
        ] {
            awaited.take(came);
            assert_eq!((awaited.since(), awaited.instances()), (since, left));
        }
    }

    #[test]
    fn the_age_of_the_oldest_instance_is_never_too_low_and_little_too_high() {
        // One instance in forty receives no task; completions and tasks go on for the others.
        let mut awaited = Awaited::default();
        let mut ends: Vec<u64> = Vec::new();
        for now in 0..400 {
            awaited.add(ms(now), 1.0, PATIENCE);
            ends.push(now);
            if now % 40 != 0 {
                awaited.take(1.0);
                ends.remove(0);
            }
            let since = awaited.since().expect("one is awaited");
            let oldest = ms(ends[0]);
            assert!(since <= oldest && oldest < since + PATIENCE / 3, "{now}");
            assert_eq!(awaited.instances(), ends.len() as f64);
        }
    }
}
