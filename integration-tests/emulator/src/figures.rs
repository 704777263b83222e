//! The figures of merit: their inputs and formulas. A smaller figure is better.

use serde::Serialize;

/// The five figures of merit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    /// Fraction of the possible work that went into tasks reported after their deadlines.
    pub wasted: f64,
    /// Fraction of the possible work that was not done.
    pub idle: f64,
    /// Sum of the differences between the work that schedulers received and their shares: 0 to below 2.
    pub share_violation: f64,
    /// How long schedulers waited for their turns: 0 to 1.
    pub monotony: f64,
    /// Half the contacts for each task, so that one request and one report for each task give 1.
    pub rpcs_per_job: f64,
}

/// Floating point operations per second of all processors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Peak {
    pub cpus: f64,
    pub cards: f64,
}

/// The counts of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Tally {
    peak: Peak,
    /// The shares by scheduler.
    shares: Vec<f64>,
    /// Time in seconds that one scheduler should run before the next has its turn.
    slice: f64,
    active: f64,
    cards_active: f64,
    /// Operations at peak speed. This and the fields below up to `idle_squares` are by scheduler.
    used: Vec<f64>,
    wasted: Vec<f64>,
    /// Seconds since a task of the scheduler last ran.
    idle_for: Vec<f64>,
    idle_squares: Vec<f64>,
    contacts: u64,
    jobs: u64,
}

impl Tally {
    pub fn new(peak: Peak, shares: Vec<f64>, slice: f64) -> Self {
        let none = vec![0.0; shares.len()];
        Tally {
            peak,
            slice,
            active: 0.0,
            cards_active: 0.0,
            used: none.clone(),
            wasted: none.clone(),
            idle_for: none.clone(),
            idle_squares: none,
            shares,
            contacts: 0,
            jobs: 0,
        }
    }

    /// Adds a span in which the worker could compute, and whether its GPUs could too.
    pub fn active(&mut self, seconds: f64, cards: bool) {
        self.active += seconds;
        if cards {
            self.cards_active += seconds;
        }
    }

    /// Adds operations at peak speed that a task of this scheduler used.
    pub fn used(&mut self, scheduler: usize, operations: f64) {
        self.used[scheduler] += operations;
    }

    /// Adds operations at peak speed of a task that was reported too late.
    pub fn wasted(&mut self, scheduler: usize, operations: f64) {
        self.wasted[scheduler] += operations;
    }

    /// Adds a step in which the worker could compute; `ran` says which schedulers had a running task.
    pub fn step(&mut self, seconds: f64, ran: &[bool]) {
        let all = self.idle_for.iter_mut().zip(&mut self.idle_squares);
        for ((idle_for, squares), ran) in all.zip(ran) {
            if *ran {
                *idle_for = 0.0;
            } else {
                *idle_for += seconds;
                *squares += seconds * *idle_for * *idle_for;
            }
        }
    }

    /// Counts a contact that was answered.
    pub fn contact(&mut self) {
        self.contacts += 1;
    }

    /// Counts a task that arrived.
    pub fn job(&mut self) {
        self.jobs += 1;
    }

    pub fn contacts(&self) -> u64 {
        self.contacts
    }

    pub fn jobs(&self) -> u64 {
        self.jobs
    }

    /// Returns the used operations by scheduler.
    pub fn all_used(&self) -> &[f64] {
        &self.used
    }

    /// Returns the wasted operations by scheduler.
    pub fn all_wasted(&self) -> &[f64] {
        &self.wasted
    }

    /// Returns the operations that could have been done.
    pub fn total(&self) -> f64 {
        self.peak.cpus * self.active + self.peak.cards * self.cards_active
    }

    pub fn figures(&self) -> Figures {
        let total = self.total();
        let used: f64 = self.used.iter().sum();
        let wasted: f64 = self.wasted.iter().sum();
        Figures {
            wasted: part(wasted, total),
            idle: part((total - used).max(0.0), total),
            share_violation: self.share_violation(used),
            monotony: self.monotony(),
            rpcs_per_job: part(self.contacts as f64, 2.0 * self.jobs as f64),
        }
    }

    fn share_violation(&self, all: f64) -> f64 {
        let shares: f64 = self.shares.iter().sum();
        let each = self.used.iter().zip(&self.shares);
        let off = each.map(|(used, share)| (used - all * part(*share, shares)).abs());
        part(off.sum(), all)
    }

    fn monotony(&self) -> f64 {
        let n = self.shares.len() as f64;
        let roots = self.idle_squares.iter();
        let roots: f64 = roots
            .map(|squares| part(*squares, self.active).sqrt())
            .sum();
        let x = part(roots, n * self.slice * n);
        1.0 - 1.0 / (x + 1.0)
    }
}

/// Returns the quotient; 0 if `all` is 0.
fn part(of_it: f64, all: f64) -> f64 {
    if all > 0.0 { of_it / all } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(shares: &[f64]) -> Tally {
        let peak = Peak {
            cpus: 4.0,
            cards: 16.0,
        };
        Tally::new(peak, shares.to_vec(), 3600.0)
    }

    #[track_caller]
    fn near(got: f64, expected: f64) {
        assert!((got - expected).abs() < 1e-12, "{got} is not {expected}");
    }

    #[test]
    fn nothing_is_nothing() {
        assert_eq!(tally(&[]).figures(), Figures::default());
        assert_eq!(tally(&[1.0, 2.0]).figures(), Figures::default());
    }

    #[test]
    fn wasted_and_idle_are_parts_of_what_could_have_been_done() {
        let mut tally = tally(&[1.0]);
        // The worker computes for ten seconds, and its GPUs for half of them: 4 x 10 + 16 x 5.
        tally.active(5.0, true);
        tally.active(5.0, false);
        near(tally.total(), 120.0);
        tally.used(0, 30.0);
        tally.used(0, 60.0);
        tally.wasted(0, 30.0);
        let figures = tally.figures();
        near(figures.wasted, 0.25);
        near(figures.idle, 0.25);
        // Overcommitted CPUs use more than the total.
        tally.used(0, 60.0);
        near(tally.figures().idle, 0.0);
    }

    #[test]
    fn shares_are_violated_by_what_is_off() {
        let mut tally = tally(&[1.0, 3.0, 0.0]);
        tally.used(0, 40.0);
        tally.used(1, 50.0);
        tally.used(2, 10.0);
        // |40 - 25| + |50 - 75| + |10 - 0|, of 100.
        near(tally.figures().share_violation, 0.5);
    }

    #[test]
    fn all_to_who_has_hardly_a_share_is_nearly_two() {
        let mut tally = tally(&[1.0, 999.0]);
        tally.used(0, 7.0);
        near(tally.figures().share_violation, 2.0 * 0.999);
    }

    #[test]
    fn monotony_grows_with_the_square_of_waits() {
        let mut tally = tally(&[1.0, 1.0]);
        tally.active(4.0, true);
        for ran in [[true, false], [true, false], [false, true], [true, true]] {
            tally.step(1.0, &ran);
        }
        // The first scheduler waits for one step: 1; the second for two in a row: 1 + 4.
        let x = ((1.0_f64 / 4.0).sqrt() + (5.0_f64 / 4.0).sqrt()) / (2.0 * 3600.0 * 2.0);
        near(tally.figures().monotony, 1.0 - 1.0 / (x + 1.0));
    }

    #[test]
    fn steps_count_with_their_length() {
        let mut tally = tally(&[1.0]);
        tally.active(120.0, false);
        tally.step(60.0, &[false]);
        tally.step(60.0, &[false]);
        // 60 x 60^2 + 60 x 120^2.
        let squares = 60.0 * 3600.0 + 60.0 * 14_400.0;
        let x = (squares / 120.0_f64).sqrt() / 3600.0;
        near(tally.figures().monotony, 1.0 - 1.0 / (x + 1.0));
    }

    #[test]
    fn a_contact_to_fetch_and_one_to_report_each_are_one() {
        let mut tally = tally(&[1.0]);
        tally.contact();
        near(tally.figures().rpcs_per_job, 0.0);
        for _ in 0..4 {
            tally.job();
        }
        for _ in 0..7 {
            tally.contact();
        }
        near(tally.figures().rpcs_per_job, 1.0);
    }
}
