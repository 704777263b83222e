//! How long tasks take: what their job's tasks took before, else what the job says, else a guess.
//!
//! A job whose tasks take other than it says is believed no more until it says something else. Schedulers go on as they are told, so it is
//! learned of each, too, how much longer its tasks take than it reckons: what is asked of it is asked in its own seconds.

use std::collections::BTreeMap;

use brasserie_common::estimate::{SHORTEST, averaged};
use brasserie_common::work::DEFAULT_ESTIMATE;

use super::amounts::{DAY, amount};
use super::types::AssociationIndex;

/// What a job says is the same if it differs by no more than this part of it.
const SAME: f64 = 1e-9;
/// Tasks are never believed to take more times as long as their scheduler reckons, or a lesser part of that, than this. The volunteers'
/// system stops at a hundred; but tasks of milliseconds of which nobody says anything are reckoned as a minute each, and with a hundredth
/// of that a worker would be sent a hundredth of what it needs.
const LARGEST_CORRECTION: f64 = 1e6;
/// Seconds: no worker is sent a task of more, so it has not seen one, whatever is saved.
const LONGEST: f64 = 28.0 * DAY;
/// So many jobs are remembered. One is a hundred bytes, and a worker has seldom more than some dozens that run again.
pub(super) const MOST_JOBS: usize = 10_000;

/// What a task has shown of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// Seconds of run time that it has had.
    pub elapsed: f64,
    /// The part of it that was done, and after how many seconds, if it tells.
    pub done: Option<(f64, f64)>,
}

/// What the time that a task has had says of the rest, if it does not tell of its progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lengths {
    /// The rest is what the estimate leaves: estimates are learned here, from runs of the same job. So what is to follow a task is asked for
    /// before its end, and what has had its time ends at any moment, as its scheduler has it, too.
    AsEstimated,
    /// At its estimate a task has more than half of it before it again, as the volunteers' system reckons. What is to follow it is asked
    /// for at its end: where there are several schedulers, not before it is known whose turn it is.
    WithoutMemory,
}

/// What is left of a task of this estimate, of which nobody knows better: never nothing, as it still runs.
pub fn remaining(lengths: Lengths, estimate: f64, progress: Progress) -> f64 {
    let elapsed = amount(progress.elapsed);
    let estimate = amount(estimate).max(SHORTEST);
    let whole = whole(lengths, estimate, elapsed, progress.done);
    amount(whole - elapsed).max(SHORTEST)
}

/// How long all of it takes. No task can say that what it tells of its progress is exact, as some of volunteers' do.
fn whole(lengths: Lengths, estimate: f64, elapsed: f64, done: Option<(f64, f64)>) -> f64 {
    let (done, told_after) = done.map_or((0.0, 0.0), |(done, after)| (amount(done), amount(after)));
    if done >= 1.0 {
        return elapsed;
    }
    if done <= 0.0 {
        return match lengths {
            Lengths::AsEstimated => estimate.max(elapsed),
            // Near nothing this is the estimate.
            Lengths::WithoutMemory if elapsed > 0.0 => elapsed / -(-elapsed / estimate).exp_m1(),
            Lengths::WithoutMemory => estimate,
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
    /// How many times as long as reckoned the tasks of a scheduler run.
    corrections: BTreeMap<AssociationIndex, f64>,
}

type Key = (AssociationIndex, u32);

#[derive(Clone, Copy, Debug, PartialEq)]
struct Learned {
    /// What the job said of them.
    said: Option<f64>,
    seconds: f64,
    used: u64,
}

/// What of a job outlives its worker.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SavedEstimate {
    pub association: AssociationIndex,
    pub job: u32,
    /// What the job said then.
    pub said: Option<f64>,
    pub seconds: f64,
}

impl Estimates {
    /// As they were saved; of too many, the last.
    pub fn restored(saved: impl IntoIterator<Item = SavedEstimate>) -> Self {
        let mut estimates = Estimates::default();
        for one in saved {
            if amount(one.seconds) > 0.0 {
                let said = said(one.said);
                let seconds = one.seconds.min(LONGEST);
                estimates.set((one.association, one.job), said, seconds);
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
                said: learned.said,
                seconds: learned.seconds,
            })
        });
        saved.collect()
    }

    /// Of a task that has not begun. `given` is what its job says.
    pub fn estimate(&mut self, association: AssociationIndex, job: u32, given: Option<f64>) -> f64 {
        let key = (association, job);
        if let Some(learned) = self.learned_of(key, said(given)) {
            self.set(key, learned.said, learned.seconds);
        }
        self.expected(association, job, given)
    }

    /// The same, and nothing is used by it.
    pub fn expected(&self, association: AssociationIndex, job: u32, given: Option<f64>) -> f64 {
        let given = said(given);
        let learned = self.learned_of((association, job), given);
        learned.map_or_else(|| reckoned(given), |learned| learned.seconds)
    }

    /// What holds of a job that says this. Of one that says nothing any more it is all that there is.
    fn learned_of(&self, key: Key, said: Option<f64>) -> Option<Learned> {
        let learned = self.learned.get(&key).copied();
        learned.filter(|learned| said.is_none() || is_same(learned.said, said))
    }

    /// A task of the job, which said `given`, has run well, so long.
    pub fn learn(
        &mut self,
        association: AssociationIndex,
        job: u32,
        given: Option<f64>,
        took: f64,
    ) {
        let took = amount(took).max(SHORTEST);
        let given = said(given);
        let key = (association, job);
        let before = self.learned.get(&key);
        let before = before.filter(|before| is_same(before.said, given));
        let seconds = averaged(before.map(|before| before.seconds), took);
        self.set(key, given, seconds);
        // What is reckoned where nothing is said is a guess, which says nothing of other jobs, and is soon learned better by the scheduler.
        if let Some(given) = given {
            let correction = self.corrections.get(&association).copied();
            self.set_correction(association, averaged(correction, took / given));
        }
    }

    /// How many times as long as their scheduler reckons, by what jobs say, the tasks of it run; above 0, and 1 where nothing is known.
    pub fn correction(&self, association: AssociationIndex) -> f64 {
        self.corrections.get(&association).copied().unwrap_or(1.0)
    }

    /// Returns whether a task of the scheduler has ever succeeded here, so that the accuracy of its estimates is known.
    pub fn is_tried(&self, association: AssociationIndex) -> bool {
        let mut its = (self.learned).range((association, 0)..=(association, u32::MAX));
        its.next().is_some()
    }

    /// As it was before a restart.
    pub fn set_correction(&mut self, association: AssociationIndex, correction: f64) {
        let correction = amount(correction);
        if correction > 0.0 {
            let correction = correction.clamp(1.0 / LARGEST_CORRECTION, LARGEST_CORRECTION);
            self.corrections.insert(association, correction);
        }
    }

    /// It is used, and whatever was longest not used makes room.
    fn set(&mut self, key: Key, said: Option<f64>, seconds: f64) {
        self.uses += 1;
        let learned = Learned {
            said,
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

/// What a job says, if it is an estimate.
fn said(given: Option<f64>) -> Option<f64> {
    let given = given.map(amount).filter(|given| *given > 0.0);
    given.map(|given| given.max(SHORTEST))
}

/// Whether a job says the same still, or again after what it said went through a text.
fn is_same(one: Option<f64>, other: Option<f64>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => (one - other).abs() <= SAME * one,
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    }
}

/// What the scheduler goes by.
fn reckoned(said: Option<f64>) -> f64 {
    said.unwrap_or(DEFAULT_ESTIMATE)
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
        for (estimate, elapsed, done, expected) in [
            // Nothing has happened.
            (60.0, 0.0, None, 60.0),
            (60.0, 0.0, Some((0.0, 0.0)), 60.0),
            // It says nothing: the rest of its estimate, and after that any moment.
            (60.0, 45.0, None, 15.0),
            (60.0, 60.0, None, SHORTEST),
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
            let left = remaining(Lengths::AsEstimated, estimate, told(elapsed, done));
            let error = (left - expected).abs();
            assert!(error < 1e-9, "{estimate} {elapsed} {done:?}: {left}");
        }
    }

    #[test]
    fn a_job_that_has_just_begun_takes_its_estimate() {
        let both = [Lengths::AsEstimated, Lengths::WithoutMemory];
        for (elapsed, lengths) in [1e-3, 1e-9, 1e-25]
            .into_iter()
            .zip(both.into_iter().cycle())
        {
            let left = remaining(lengths, 60.0, told(elapsed, None));
            assert!((left - 60.0).abs() < 1e-2, "{elapsed}: {left}");
        }
    }

    #[test]
    fn without_memory_half_of_a_task_is_left_at_its_estimate() {
        for (elapsed, whole) in [(60.0, 94.918_602), (30.0, 76.244_822)] {
            let left = remaining(Lengths::WithoutMemory, 60.0, told(elapsed, None));
            assert!((left - (whole - elapsed)).abs() < 1e-4, "{elapsed}: {left}");
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
        estimates.learn(HERE, 1, None, 100.0);
        assert_eq!(estimates.estimate(HERE, 1, None), 100.0);
        assert_eq!(estimates.estimate(HERE, 1, Some(5.0)), 5.0);
        // What its tasks took, and not what it says; but if it says something else, that.
        estimates.learn(HERE, 1, Some(5.0), 500.0);
        assert_eq!(estimates.estimate(HERE, 1, Some(5.0)), 500.0);
        assert_eq!(estimates.estimate(HERE, 1, Some(600.0)), 600.0);
        assert_eq!(estimates.estimate(HERE, 1, None), 500.0);
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
            estimates.learn(HERE, 1, None, took);
            let computed = estimates.estimate(HERE, 1, None);
            assert!((computed - learned).abs() < 1e-9, "{took}: {computed}");
        }
    }

    #[test]
    fn how_far_a_scheduler_is_wrong_is_learned_of_all_its_tasks() {
        let mut estimates = Estimates::default();
        let there = AssociationIndex(1);
        assert_eq!(estimates.correction(HERE), 1.0);
        for (job, given, took, correction) in [
            (1, Some(60.0), 0.6, 0.01),
            // By a tenth down, and up at once.
            (2, Some(10.0), 0.05, 0.0095),
            (2, Some(10.0), 50.0, 5.0),
            // Nobody has said anything that could be wrong.
            (3, None, 0.1, 5.0),
            (2, Some(10.0), 10.0, 4.6),
            (4, Some(60.0), 6e9, LARGEST_CORRECTION),
        ] {
            estimates.learn(HERE, job, given, took);
            let error = estimates.correction(HERE) - correction;
            assert!(error.abs() < 1e-9, "{job}: {error}");
        }
        assert_eq!(estimates.correction(there), 1.0);
        // A twentieth counts for a tenth, as all that is shorter does.
        for (took, correction) in [(60.0, 1.0), (3.0, 0.905)] {
            estimates.learn(there, 1, Some(60.0), took);
            assert!((estimates.correction(there) - correction).abs() < 1e-9);
        }
        for (set, correction) in [(0.25, 0.25), (f64::NAN, 0.25), (0.0, 0.25), (1e-20, 1e-6)] {
            estimates.set_correction(there, set);
            assert_eq!(estimates.correction(there), correction);
        }
    }

    /// A worker with one CPU asks for a minute of work of a job whose tasks take a hundred times what it says, or a hundredth; the scheduler
    /// sends as many as it takes for that.
    #[test]
    fn a_job_that_is_wrong_by_a_factor_of_a_hundred_neither_starves_nor_floods() {
        for (given, takes) in [(0.1, 10.0), (10.0, 10.0), (1000.0, 10.0), (60.0, 0.001)] {
            let mut estimates = Estimates::default();
            estimates.learn(HERE, 1, Some(given), takes);
            let wanted = 60.0;
            let asked = wanted / estimates.correction(HERE);
            let sent = (asked / given).ceil();
            let queued = sent * estimates.estimate(HERE, 1, Some(given));
            assert!(
                (wanted..=wanted + 2.0 * takes).contains(&queued),
                "{given}: {queued}"
            );
        }
    }

    /// Else all that is asked for would be more by as much as a guess was too long, and come of jobs that are estimated well.
    #[test]
    fn short_tasks_of_which_nothing_was_said_do_not_flood_a_worker_with_others() {
        let mut estimates = Estimates::default();
        for _ in 0..3 {
            estimates.learn(HERE, 1, None, 0.1);
        }
        assert_eq!(estimates.correction(HERE), 1.0);
        assert!((estimates.estimate(HERE, 1, None) - 0.1).abs() < 1e-9);
    }

    #[test]
    fn the_job_that_was_longest_not_used_is_forgotten() {
        let mut estimates = Estimates::default();
        let last = u32::try_from(MOST_JOBS).unwrap();
        for job in 0..last {
            estimates.learn(HERE, job, None, 5.0);
        }
        // Asking for it uses it.
        estimates.estimate(HERE, 0, None);
        estimates.learn(HERE, last, None, 5.0);
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
            estimates.learn(HERE, job, None, took);
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

    integration_tests_properties::properties! {
        256;

        #[test]
        fn estimates_are_above_nothing_and_finite(
            estimate in ANY, elapsed in ANY, done in proptest::option::of((ANY, ANY)),
            took in vec((proptest::option::of(ANY), ANY), 0..5), given in proptest::option::of(ANY),
        ) {
            let mut estimates = Estimates::default();
            for (given, took) in took {
                estimates.learn(HERE, 1, given, took);
            }
            let correction = estimates.correction(HERE);
            let learned = estimates.estimate(HERE, 1, given);
            let left = remaining(Lengths::AsEstimated, estimate, told(elapsed, done));
            for seconds in [learned, left, correction] {
                prop_assert!(seconds > 0.0 && seconds.is_finite(), "{seconds}");
            }
        }
    }
}
