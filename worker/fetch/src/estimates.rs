//! Estimates of run times: the average of the job's earlier tasks, else what the job says, else a default.
//!
//! Once tasks of a job have succeeded, the average replaces the job's own estimate until that estimate changes. Schedulers keep to their
//! own estimates, so the worker also learns for each scheduler how much longer its tasks run than the scheduler estimates. The worker
//! converts its requests to the scheduler's seconds by this factor.

use std::collections::BTreeMap;

use brasserie_common::estimate::{SHORTEST, averaged};
use brasserie_common::work::DEFAULT_ESTIMATE;

use super::amounts::{DAY, amount};
use super::types::AssociationIndex;

/// Two estimates of a job count as equal if they differ by at most this fraction.
const SAME: f64 = 1e-9;
/// Limit of the correction, in both directions. BOINC stops at 100. Here tasks of milliseconds without an estimate count as a minute each,
/// and with a limit of 100 a worker would get a hundredth of the work that it needs.
const LARGEST_CORRECTION: f64 = 1e6;
/// Maximum learned run time in seconds, which also bounds saved values. No worker is sent a longer task.
const LONGEST: f64 = 28.0 * DAY;
/// Maximum number of jobs with learned run times. An entry is about a hundred bytes, and few workers have more than some dozens of
/// recurring jobs.
pub(super) const MOST_JOBS: usize = 10_000;

/// The progress of a running task.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TaskProgress {
    /// Run time so far, in seconds.
    pub elapsed: f64,
    /// The completed fraction and the run time in seconds at which the task reported it, if it reports progress.
    pub done: Option<(f64, f64)>,
}

/// How the elapsed time of a task changes the estimate of the rest, if the task reports no progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lengths {
    /// The rest is the estimate minus the elapsed time, because the worker learns estimates from runs of the same job. The worker so asks
    /// for the next task before the end of this one. An overdue task may end at any moment, as its scheduler also assumes.
    AsEstimated,
    /// A task that reaches its estimate has more than half of the estimate left, as in BOINC. The worker so asks for the next task at the
    /// end of this one. With several schedulers, only then is it known which one is next.
    WithoutMemory,
}

/// Returns the seconds that a running task with this estimate still needs, always above 0.
pub fn remaining(lengths: Lengths, estimate: f64, progress: TaskProgress) -> f64 {
    let elapsed = amount(progress.elapsed);
    let estimate = amount(estimate).max(SHORTEST);
    let whole = whole(lengths, estimate, elapsed, progress.done);
    amount(whole - elapsed).max(SHORTEST)
}

/// Returns the estimated total run time in seconds. Unlike in BOINC, no task can declare its reported progress exact.
fn whole(lengths: Lengths, estimate: f64, elapsed: f64, done: Option<(f64, f64)>) -> f64 {
    let (done, told_after) = done.map_or((0.0, 0.0), |(done, after)| (amount(done), amount(after)));
    if done >= 1.0 {
        return elapsed;
    }
    if done <= 0.0 {
        return match lengths {
            Lengths::AsEstimated => estimate.max(elapsed),
            // This approaches the estimate as `elapsed` approaches 0.
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

/// The learned run times of all jobs, and the corrections of all schedulers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Estimates {
    learned: BTreeMap<EstimateKey, Learned>,
    /// The keys of `learned`, least recently used first.
    by_use: BTreeMap<u64, EstimateKey>,
    uses: u64,
    /// The factor by which the tasks of a scheduler run longer than it estimates.
    corrections: BTreeMap<AssociationIndex, f64>,
}

type EstimateKey = (AssociationIndex, u32);

#[derive(Clone, Copy, Debug, PartialEq)]
struct Learned {
    /// The job's own estimate at that time, in seconds.
    said: Option<f64>,
    seconds: f64,
    used: u64,
}

/// The part of a job's estimate that survives a restart of the worker.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SavedEstimate {
    pub association: AssociationIndex,
    pub job: u32,
    /// The job's own estimate at that time, in seconds.
    pub said: Option<f64>,
    pub seconds: f64,
}

impl Estimates {
    /// Restores saved estimates; of too many, the last.
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

    /// Returns all learned estimates, least recently used first.
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

    /// Returns the estimated run time of a queued task in seconds, and counts as a use of the job. `given` is the job's own estimate.
    pub fn estimate(&mut self, association: AssociationIndex, job: u32, given: Option<f64>) -> f64 {
        let key = (association, job);
        if let Some(learned) = self.learned_of(key, said(given)) {
            self.set(key, learned.said, learned.seconds);
        }
        self.expected(association, job, given)
    }

    /// Returns the same as [`estimate`](Self::estimate), but does not count as a use.
    pub fn expected(&self, association: AssociationIndex, job: u32, given: Option<f64>) -> f64 {
        let given = said(given);
        let learned = self.learned_of((association, job), given);
        learned.map_or_else(|| reckoned(given), |learned| learned.seconds)
    }

    /// Returns what was learned of the job if its own estimate is still `said`. If the job no longer has an estimate, whatever was learned
    /// holds.
    fn learned_of(&self, key: EstimateKey, said: Option<f64>) -> Option<Learned> {
        let learned = self.learned.get(&key).copied();
        learned.filter(|learned| said.is_none() || is_same(learned.said, said))
    }

    /// Learns from a task that succeeded after `took` seconds. `given` is the job's own estimate.
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
        // A scheduler uses a default for a job without an estimate. The default's error says nothing of other jobs, and the scheduler soon
        // learns a better one.
        if let Some(given) = given {
            let correction = self.corrections.get(&association).copied();
            self.set_correction(association, averaged(correction, took / given));
        }
    }

    /// Returns the factor by which the scheduler's tasks run longer than their jobs say: above 0, and 1 if unknown.
    pub fn correction(&self, association: AssociationIndex) -> f64 {
        self.corrections.get(&association).copied().unwrap_or(1.0)
    }

    /// Returns whether a task of the scheduler has ever succeeded here, so that the accuracy of its estimates is known.
    pub fn is_tried(&self, association: AssociationIndex) -> bool {
        let mut its = (self.learned).range((association, 0)..=(association, u32::MAX));
        its.next().is_some()
    }

    /// Sets a scheduler's correction to a saved value.
    pub fn set_correction(&mut self, association: AssociationIndex, correction: f64) {
        let correction = amount(correction);
        if correction > 0.0 {
            let correction = correction.clamp(1.0 / LARGEST_CORRECTION, LARGEST_CORRECTION);
            self.corrections.insert(association, correction);
        }
    }

    /// Stores an estimate as the most recently used, and removes the least recently used if there are too many.
    fn set(&mut self, key: EstimateKey, said: Option<f64>, seconds: f64) {
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

/// Returns a job's own estimate if it is a valid amount above 0.
fn said(given: Option<f64>) -> Option<f64> {
    let given = given.map(amount).filter(|given| *given > 0.0);
    given.map(|given| given.max(SHORTEST))
}

/// Returns whether two estimates of a job are equal up to the rounding of a text format.
fn is_same(one: Option<f64>, other: Option<f64>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => (one - other).abs() <= SAME * one,
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    }
}

/// Returns the estimate that the scheduler uses.
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

    fn told(elapsed: f64, done: Option<(f64, f64)>) -> TaskProgress {
        TaskProgress { elapsed, done }
    }

    #[test]
    fn what_is_left_follows_what_was_told() {
        for (estimate, elapsed, done, expected) in [
            // The task has not started.
            (60.0, 0.0, None, 60.0),
            (60.0, 0.0, Some((0.0, 0.0)), 60.0),
            // A task without reported progress has the rest of its estimate left, and after that almost nothing.
            (60.0, 45.0, None, 15.0),
            (60.0, 60.0, None, SHORTEST),
            (1.0, 1e6, None, SHORTEST),
            // Half is done in a quarter of the time: progress and estimate count half each.
            (
                100.0,
                25.0,
                Some((0.5, 25.0)),
                50.0 * 0.5 + 100.0 * 0.5 - 25.0,
            ),
            // The progress was reported earlier.
            (100.0, 30.0, Some((0.5, 25.0)), 75.0 - 30.0),
            // The task exceeds its estimate: only the progress counts.
            (100.0, 150.0, Some((0.5, 150.0)), 150.0),
            // All is done, but the task has not ended.
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
        // The learned time replaces the job's estimate until that estimate changes.
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
            // A rise of up to a tenth is averaged.
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
            // A fall counts for a tenth, a rise at once.
            (2, Some(10.0), 0.05, 0.0095),
            (2, Some(10.0), 50.0, 5.0),
            // A job without an estimate does not change the correction.
            (3, None, 0.1, 5.0),
            (2, Some(10.0), 10.0, 4.6),
            (4, Some(60.0), 6e9, LARGEST_CORRECTION),
        ] {
            estimates.learn(HERE, job, given, took);
            let error = estimates.correction(HERE) - correction;
            assert!(error.abs() < 1e-9, "{job}: {error}");
        }
        assert_eq!(estimates.correction(there), 1.0);
        // A ratio of 0.05 counts for a tenth, like any fall.
        for (took, correction) in [(60.0, 1.0), (3.0, 0.905)] {
            estimates.learn(there, 1, Some(60.0), took);
            assert!((estimates.correction(there) - correction).abs() < 1e-9);
        }
        for (set, correction) in [(0.25, 0.25), (f64::NAN, 0.25), (0.0, 0.25), (1e-20, 1e-6)] {
            estimates.set_correction(there, set);
            assert_eq!(estimates.correction(there), correction);
        }
    }

    /// A worker with one CPU asks for a minute of work of a job whose tasks take a hundred times its estimate, or a hundredth. The
    /// scheduler sends as many tasks as its estimate allows.
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

    /// Otherwise a default that is too long would scale up all requests, and well-estimated jobs would fill them.
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
        // An estimate counts as a use of the job.
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
