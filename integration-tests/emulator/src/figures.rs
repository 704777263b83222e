//! The figures of merit: what they are made of, and their formulas. All are the better the smaller they are.

use serde::Serialize;

/// The five.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    /// What went into tasks that were reported after their deadlines, of all that could have been done.
    pub wasted: f64,
    /// What was not done, of all that could have been.
    pub idle: f64,
    /// How far what schedulers got is from their shares: 0 to below 2.
    pub share_violation: f64,
    /// How long schedulers had to wait for their turn: 0 to 1.
    pub monotony: f64,
    /// Half the contacts for each task: one that fetches and one that reports each are 1.
    pub rpcs_per_job: f64,
}

/// Floating point operations a second of all processors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Peak {
    pub cpus: f64,
    pub cards: f64,
}

/// What is counted while it runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Tally {
    peak: Peak,
    /// By scheduler.
    shares: Vec<f64>,
    /// What one should have at once before another has its turn, in seconds.
    slice: f64,
    active: f64,
    cards_active: f64,
    /// Operations at peak speed, by scheduler.
    used: Vec<f64>,
    wasted: Vec<f64>,
    /// Since when each has not run.
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

    /// So long the worker could compute, and its cards, too.
    pub fn active(&mut self, seconds: f64, cards: bool) {
        self.active += seconds;
        if cards {
            self.cards_active += seconds;
        }
    }

    /// A task of this scheduler used so much of the peak.
    pub fn used(&mut self, scheduler: usize, operations: f64) {
        self.used[scheduler] += operations;
    }

    /// That was in vain: it was reported too late.
    pub fn wasted(&mut self, scheduler: usize, operations: f64) {
        self.wasted[scheduler] += operations;
    }

    /// A step in which the worker could compute, and who had a task that ran.
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

    /// A contact that was answered.
    pub fn contact(&mut self) {
        self.contacts += 1;
    }

    /// A task came.
    pub fn job(&mut self) {
        self.jobs += 1;
    }

    pub fn contacts(&self) -> u64 {
        self.contacts
    }

    pub fn jobs(&self) -> u64 {
        self.jobs
    }

    /// By scheduler.
    pub fn all_used(&self) -> &[f64] {
        &self.used
    }

    /// By scheduler.
    pub fn all_wasted(&self) -> &[f64] {
        &self.wasted
    }

    /// What could have been done.
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

/// 0 of nothing.
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
        // Ten seconds, in half of which the cards can work: 4 x 10 + 16 x 5.
        tally.active(5.0, true);
        tally.active(5.0, false);
        near(tally.total(), 120.0);
        tally.used(0, 30.0);
        tally.used(0, 60.0);
        tally.wasted(0, 30.0);
        let figures = tally.figures();
        near(figures.wasted, 0.25);
        near(figures.idle, 0.25);
        // More than all is done where CPUs are over-committed.
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
        // The first waits a step once: 1; the second two in a row: 1 + 4.
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
