//! The availability over time of machines, networks and schedulers.

use crate::dice::Dice;

/// The parameters of an availability.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OnOff {
    /// Fraction of the time that it is available, in (0, 1].
    pub part: f64,
    /// Mean length of an available span, in seconds.
    pub mean: f64,
}

impl OnOff {
    pub const ALWAYS: OnOff = OnOff {
        part: 1.0,
        mean: 3600.0,
    };

    fn mean_off(self) -> f64 {
        self.mean / self.part - self.mean
    }

    fn is_always(self) -> bool {
        self.part >= 1.0
    }
}

/// One random course of an availability. Its available and unavailable spans are exponentially distributed.
#[derive(Clone, Debug)]
pub struct OnOffProcess {
    of: OnOff,
    dice: Dice,
    is_on: bool,
    /// The time of the next change, in seconds.
    until: f64,
}

impl OnOffProcess {
    pub fn new(of: OnOff, mut dice: Dice, now: f64) -> Self {
        let is_on = dice.unit() < of.part;
        let mut process = OnOffProcess {
            of,
            dice,
            is_on,
            until: now,
        };
        process.draw();
        process
    }

    /// Returns whether it is available at this time. Times must not decrease from call to call.
    pub fn at(&mut self, now: f64) -> bool {
        if self.of.is_always() {
            return true;
        }
        while self.until <= now {
            self.is_on = !self.is_on;
            self.draw();
        }
        self.is_on
    }

    fn draw(&mut self) {
        let mean = match self.is_on {
            true => self.of.mean,
            false => self.of.mean_off(),
        };
        self.until += self.dice.exponential(mean);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dice::Stream;

    fn course(part: f64, mean: f64, seed: u64) -> Vec<bool> {
        let dice = Dice::new(seed, Stream::Schedulers, 0);
        let mut process = OnOffProcess::new(OnOff { part, mean }, dice, 0.0);
        (0..200_000)
            .map(|step| process.at(f64::from(step)))
            .collect()
    }

    #[test]
    fn it_is_there_for_its_part_of_the_time() {
        for (part, mean) in [(0.8, 100.0), (0.3, 50.0), (0.99, 20.0)] {
            let course = course(part, mean, 3);
            let on = course.iter().filter(|on| **on).count();
            let seen = on as f64 / course.len() as f64;
            assert!((seen - part).abs() < 0.03, "{part}: {seen}");
        }
    }

    #[test]
    fn it_is_there_for_its_mean_at_once() {
        let course = course(0.5, 100.0, 4);
        let begins = course.windows(2).filter(|two| !two[0] && two[1]).count();
        let on = course.iter().filter(|on| **on).count();
        let mean = on as f64 / begins as f64;
        assert!((mean - 100.0).abs() < 10.0, "{mean}");
    }

    #[test]
    fn what_is_always_there_is() {
        assert!(course(1.0, 10.0, 1).iter().all(|on| *on));
    }
}
