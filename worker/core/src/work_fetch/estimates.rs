//! How long tasks take: what their job says, else what its tasks took before, else a guess.

use std::collections::BTreeMap;

use brasserie_common::work::DEFAULT_ESTIMATE;

use super::amounts::amount;
use super::types::AssociationIndex;

/// No estimate is shorter, and no task has less left while it runs: what is queued is never nothing.
const SHORTEST: f64 = 0.001;
/// How much of an estimate a task changes.
const WEIGHT: f64 = 0.1;
/// A task that takes so much longer than estimated is believed at once: too little work hurts less than a missed deadline.
const JUMP: f64 = 1.1;
/// So many jobs are remembered. One is a hundred bytes, and a worker has seldom more than some dozens that run again.
const MOST_JOBS: usize = 10_000;

/// What a task has shown of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// Seconds of run time that it has had.
    pub elapsed: f64,
    /// The part of it that was done, and after how many seconds, if it tells.
    pub done: Option<(f64, f64)>,
}

/// What is left of a task of this estimate, of which nobody knows better: never nothing, as it still runs.
pub fn remaining(estimate: f64, progress: Progress) -> f64 {
    let elapsed = amount(progress.elapsed);
    let whole = whole(amount(estimate).max(SHORTEST), elapsed, progress.done);
    amount(whole - elapsed).max(SHORTEST)
}

/// How long all of it takes.
fn whole(estimate: f64, elapsed: f64, done: Option<(f64, f64)>) -> f64 {
    let (done, told_after) = done.map_or((0.0, 0.0), |(done, after)| (amount(done), amount(after)));
    if done >= 1.0 {
        return elapsed;
    }
    if done <= 0.0 {
        // As if its length had no memory: longer than it has run, however long that is. Near nothing this is the estimate.
        return if elapsed > 0.0 {
            elapsed / -(-elapsed / estimate).exp_m1()
        } else {
            estimate
        };
    }
    let by_progress = told_after / done;
    if elapsed > estimate {
        by_progress
    } else {
        done * by_progress + (1.0 - done) * estimate
    }
}

/// What jobs of schedulers took.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Estimates {
    learned: BTreeMap<Key, Learned>,
    /// The same, the one that was longest not used first.
    by_use: BTreeMap<u64, Key>,
    uses: u64,
}

type Key = (AssociationIndex, u32);

#[derive(Clone, Copy, Debug, PartialEq)]
struct Learned {
    seconds: f64,
    used: u64,
}

/// What of a job outlives its worker.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SavedEstimate {
    pub association: AssociationIndex,
    pub job: u32,
    pub seconds: f64,
}

impl Estimates {
    /// As they were saved; of too many, the last.
    pub fn restored(saved: impl IntoIterator<Item = SavedEstimate>) -> Self {
        let mut estimates = Estimates::default();
        for one in saved {
            if amount(one.seconds) > 0.0 {
                estimates.set((one.association, one.job), one.seconds);
            }
        }
        estimates
    }

    /// The one that was longest not used first.
    pub fn save(&self) -> Vec<SavedEstimate> {
        let saved = self.by_use.values().filter_map(|key| {
            self.learned.get(key).map(|learned| SavedEstimate {
                association: key.0,
                job: key.1,
                seconds: learned.seconds,
            })
        });
        saved.collect()
    }

    /// Of a task that has not begun. `given` is what its job says.
    pub fn estimate(&mut self, association: AssociationIndex, job: u32, given: Option<f64>) -> f64 {
        let given = given.map_or(0.0, amount);
        if given > 0.0 {
            return given.max(SHORTEST);
        }
        let key = (association, job);
        match self.learned.get(&key).map(|learned| learned.seconds) {
            Some(seconds) => {
                self.set(key, seconds);
                seconds
            }
            None => DEFAULT_ESTIMATE,
        }
    }

    /// The same of what is known already: nothing is used by it.
    pub fn expected(&self, association: AssociationIndex, job: u32, given: Option<f64>) -> f64 {
        let given = given.map_or(0.0, amount);
        if given > 0.0 {
            return given.max(SHORTEST);
        }
        let learned = self.learned.get(&(association, job));
        learned.map_or(DEFAULT_ESTIMATE, |learned| learned.seconds)
    }

    /// A task of the job has run well, so long.
    pub fn learn(&mut self, association: AssociationIndex, job: u32, took: f64) {
        let took = amount(took).max(SHORTEST);
        let key = (association, job);
        let seconds = match self.learned.get(&key) {
            Some(before) if took <= JUMP * before.seconds => {
                (1.0 - WEIGHT) * before.seconds + WEIGHT * took
            }
            Some(_) | None => took,
        };
        self.set(key, seconds);
    }

    /// It is used, and whatever was longest not used makes room.
    fn set(&mut self, key: Key, seconds: f64) {
        self.uses += 1;
        let learned = Learned {
            seconds: amount(seconds).max(SHORTEST),
            used: self.uses,
        };
        if let Some(before) = self.learned.insert(key, learned) {
            self.by_use.remove(&before.used);
        }
        self.by_use.insert(self.uses, key);
        if self.learned.len() > MOST_JOBS
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.learned.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::num::f64::ANY;
    use proptest::prelude::*;

    use super::*;

    const HERE: AssociationIndex = AssociationIndex(0);

    fn told(elapsed: f64, done: Option<(f64, f64)>) -> Progress {
        Progress { elapsed, done }
    }

    #[test]
    fn what_is_left_follows_what_was_told() {
        let at_estimate = 1.0 / (1.0 - (-1.0_f64).exp()) - 1.0;
        for (estimate, elapsed, done, expected) in [
            // Nothing has happened.
            (60.0, 0.0, None, 60.0),
            (60.0, 0.0, Some((0.0, 0.0)), 60.0),
            // It says nothing: as if its length had no memory.
            (60.0, 60.0, None, 60.0 * at_estimate),
            (1.0, 1e6, None, SHORTEST),
            // Half is done in a quarter of the time: half is believed.
            (
                100.0,
                25.0,
                Some((0.5, 25.0)),
                50.0 * 0.5 + 100.0 * 0.5 - 25.0,
            ),
            // Told earlier.
            (100.0, 30.0, Some((0.5, 25.0)), 75.0 - 30.0),
            // Longer than estimated: all is believed.
            (100.0, 150.0, Some((0.5, 150.0)), 150.0),
            // Done, but not ended.
            (100.0, 40.0, Some((1.0, 40.0)), SHORTEST),
            (100.0, 40.0, Some((7.0, 40.0)), SHORTEST),
            (0.0, 0.0, None, SHORTEST),
        ] {
            let left = remaining(estimate, told(elapsed, done));
            let error = (left - expected).abs();
            assert!(error < 1e-9, "{estimate} {elapsed} {done:?}: {left}");
        }
    }

    #[test]
    fn a_job_that_has_just_begun_takes_its_estimate() {
        for elapsed in [1e-3, 1e-9, 1e-25] {
            let left = remaining(60.0, told(elapsed, None));
            assert!((left - 60.0).abs() < 1e-2, "{elapsed}: {left}");
        }
    }

    #[test]
    fn estimates_are_given_learned_or_guessed() {
        let mut estimates = Estimates::default();
        assert_eq!(estimates.estimate(HERE, 1, None), DEFAULT_ESTIMATE);
        assert_eq!(estimates.estimate(HERE, 1, Some(5.0)), 5.0);
        for none in [0.0, -3.0, f64::NAN] {
            assert_eq!(estimates.estimate(HERE, 1, Some(none)), DEFAULT_ESTIMATE);
        }
        estimates.learn(HERE, 1, 100.0);
        assert_eq!(estimates.estimate(HERE, 1, None), 100.0);
        assert_eq!(estimates.estimate(HERE, 1, Some(5.0)), 5.0);
        assert_eq!(estimates.estimate(HERE, 2, None), DEFAULT_ESTIMATE);
        assert_eq!(
            estimates.estimate(AssociationIndex(1), 1, None),
            DEFAULT_ESTIMATE
        );
    }

    #[test]
    fn what_is_learned_falls_slowly_and_rises_at_once() {
        let mut estimates = Estimates::default();
        for (took, learned) in [
            (100.0, 100.0),
            (50.0, 95.0),
            // Not beyond a tenth more.
            (104.0, 95.9),
            (200.0, 200.0),
            (0.0, 180.0 + SHORTEST / 10.0),
        ] {
            estimates.learn(HERE, 1, took);
            let computed = estimates.estimate(HERE, 1, None);
            assert!((computed - learned).abs() < 1e-9, "{took}: {computed}");
        }
    }

    #[test]
    fn the_job_that_was_longest_not_used_is_forgotten() {
        let mut estimates = Estimates::default();
        let last = u32::try_from(MOST_JOBS).unwrap();
        for job in 0..last {
            estimates.learn(HERE, job, 5.0);
        }
        // Asking for it uses it.
        estimates.estimate(HERE, 0, None);
        estimates.learn(HERE, last, 5.0);
        assert_eq!(estimates.estimate(HERE, 0, None), 5.0);
        assert_eq!(estimates.estimate(HERE, 1, None), DEFAULT_ESTIMATE);
        assert_eq!(estimates.estimate(HERE, last, None), 5.0);
        assert_eq!(estimates.learned.len(), MOST_JOBS);
        assert_eq!(estimates.by_use.len(), MOST_JOBS);
    }

    #[test]
    fn what_is_saved_comes_back_in_its_order() {
        let mut estimates = Estimates::default();
        for (job, took) in [(1, 10.0), (2, 20.0), (3, 30.0)] {
            estimates.learn(HERE, job, took);
        }
        estimates.estimate(HERE, 1, None);
        let saved = estimates.save();
        let jobs: Vec<_> = saved.iter().map(|one| (one.job, one.seconds)).collect();
        assert_eq!(jobs, [(2, 20.0), (3, 30.0), (1, 10.0)]);
        assert_eq!(Estimates::restored(saved.clone()).save(), saved);
        let broken = SavedEstimate {
            seconds: f64::NAN,
            ..saved[0]
        };
        assert_eq!(Estimates::restored([broken]), Estimates::default());
    }

    proptest! {
        #[test]
        fn estimates_are_above_nothing_and_finite(
            estimate in ANY, elapsed in ANY, done in proptest::option::of((ANY, ANY)),
            took in vec(ANY, 0..5), given in proptest::option::of(ANY),
        ) {
            let mut estimates = Estimates::default();
            for took in took {
                estimates.learn(HERE, 1, took);
            }
            let learned = estimates.estimate(HERE, 1, given);
            let left = remaining(estimate, told(elapsed, done));
            for seconds in [learned, left] {
                prop_assert!(seconds > 0.0 && seconds.is_finite(), "{seconds}");
            }
        }
    }
}
