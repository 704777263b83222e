//! What is left of a request that lingers. As long as something of it stands, work comes as soon as its scheduler has some, and asking
//! again would bring it no sooner.

use std::time::Duration;

use brasserie_common::{Time, WorkDemand};

use super::amounts::{TOLERANCE, amount};

/// Of one scheduler and one type, counted off as the scheduler does. Instances and idle ones are the same there; seconds are not quite, as
/// both sides have their own estimates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Credit {
    until: Time,
    secs: f64,
    instances: f64,
    idle: f64,
    /// Work of the type has come since it was asked for.
    has_brought: bool,
}

impl Credit {
    /// Of what is asked for now; none, if nothing is, or if the request is over with its answer.
    pub fn of(now: Time, linger: Duration, demand: &WorkDemand) -> Option<Self> {
        let lingers = !linger.is_zero() && demand.instance_secs > 0.0;
        lingers.then(|| Credit {
            until: now + linger,
            secs: amount(demand.instance_secs),
            instances: amount(demand.instances),
            idle: amount(demand.idle),
            has_brought: false,
        })
    }

    /// A task came that uses so many instances, and as the scheduler reckons for so many seconds.
    pub fn take(&mut self, usage: f64, secs: f64) {
        let usage = amount(usage);
        self.secs -= amount(usage * amount(secs));
        self.instances -= usage;
        self.idle -= usage;
    }

    /// Whether it is good still, if anything of it is left.
    pub fn lingers(&self, now: Time) -> bool {
        self.until > now
    }

    /// It was a task of this type.
    pub fn brought(&mut self) {
        self.has_brought = true;
    }

    pub fn has_brought(&self) -> bool {
        self.has_brought
    }

    /// Whether the next task is sent by itself, whatever it is, where so many instances are idle. Such that may wait come for seconds or for
    /// instances, and others for idle ones only. What nobody is idle for may come a little later, so there an estimate is good enough.
    pub fn covers(&self, now: Time, idle: f64) -> bool {
        let stands = match idle > TOLERANCE {
            true => self.instances > TOLERANCE && self.idle > TOLERANCE,
            false => self.instances > TOLERANCE || self.secs > 0.0,
        };
        self.lingers(now) && stands
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
        // What came: seconds, in which an instance is used, and how many; whether more may come while none is idle, and while one is.
        for (secs, usage, is_covered) in [
            (0.0, 0.0, [true, true]),
            (30.0, 0.5, [true, true]),
            // What cannot wait would not come any more.
            (10.0, 1.0, [true, false]),
            (10.0, 2.0, [true, false]),
            (30.0, 2.0, [false, false]),
            // It counts as many as are left, however long they run.
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

    #[test]
    fn nothing_stands_of_what_was_not_asked_for_or_does_not_linger() {
        assert_eq!(Credit::of(at(0), Duration::from_secs(9), &nothing()), None);
        assert_eq!(Credit::of(at(0), Duration::ZERO, &demand()), None);
    }
}
