//! How long a task is taken to run: what its job says, else what its tasks took before, else a guess. Scheduler and worker learn alike.

use std::fmt;

use crate::work::DEFAULT_ESTIMATE;

/// No estimate is shorter: what is queued is never nothing.
pub const SHORTEST: f64 = 0.001;
/// None is longer: thirty years, so that sums stay finite.
pub const LONGEST: f64 = 1e9;
/// How much of an estimate a task changes, however short it was. The volunteers' system lets one of less than a tenth of its estimate
/// count for a hundredth, as it learns one factor for all jobs, of which one job may say nothing; here each job is learned of alone.
const WEIGHT: f64 = 0.1;
/// A task that takes so much longer than estimated is believed at once: too little work hurts less than a missed deadline.
const JUMP: f64 = 1.1;

/// Where an estimate comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Basis {
    /// The job says so.
    Given,
    /// Earlier tasks of the job took about so long.
    Learned,
    /// Nobody can tell.
    Default,
}

impl Basis {
    /// For programs.
    pub fn as_str(self) -> &'static str {
        match self {
            Basis::Given => "given",
            Basis::Learned => "learned",
            Basis::Default => "default",
        }
    }
}

/// As the rest of a sentence that begins with how long a task runs.
impl fmt::Display for Basis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Basis::Given => "as its job says",
            Basis::Learned => "as tasks of its job did before",
            Basis::Default => {
                "as any of which nothing is known: its job has no `est_duration`, and no task of it has ended well yet"
            }
        })
    }
}

/// How long a task is taken to run, in seconds of run time, and why.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// From [`SHORTEST`] to [`LONGEST`].
    pub seconds: f64,
    pub basis: Basis,
}

impl Estimate {
    /// `given`: by the job; `learned`: from earlier tasks. What is no time above 0 counts as not there.
    pub fn of(given: Option<f64>, learned: Option<f64>) -> Self {
        let sound = |seconds: &f64| *seconds > 0.0;
        let bases = [
            (given.filter(sound), Basis::Given),
            (learned.filter(sound), Basis::Learned),
        ];
        let first = bases.into_iter().find_map(|(s, basis)| Some((s?, basis)));
        let (seconds, basis) = first.unwrap_or((DEFAULT_ESTIMATE, Basis::Default));
        Estimate {
            seconds: within(seconds),
            basis,
        }
    }

    /// What is known, and no guess.
    pub fn known(self) -> Option<f64> {
        match self.basis {
            Basis::Given | Basis::Learned => Some(self.seconds),
            Basis::Default => None,
        }
    }
}

/// What is learned from a task that has run well, for so many seconds: an average that forgets, and that jumps up.
pub fn learned(before: Option<f64>, took: f64) -> f64 {
    averaged(before.map(within), within(took))
}

/// The average itself: more is believed at once, less by and by.
pub fn averaged(before: Option<f64>, now: f64) -> f64 {
    match before {
        Some(before) if now <= JUMP * before => (1.0 - WEIGHT) * before + WEIGHT * now,
        Some(_) | None => now,
    }
}

/// What is no number is the shortest.
fn within(seconds: f64) -> f64 {
    match seconds.is_nan() {
        true => SHORTEST,
        false => seconds.clamp(SHORTEST, LONGEST),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_job_knows_best_and_a_guess_is_last() {
        let is = |seconds, basis| Estimate { seconds, basis };
        for (given, learned, expected) in [
            (None, None, is(DEFAULT_ESTIMATE, Basis::Default)),
            (Some(5.0), Some(7.0), is(5.0, Basis::Given)),
            (None, Some(7.0), is(7.0, Basis::Learned)),
            (Some(0.0), Some(7.0), is(7.0, Basis::Learned)),
            (
                Some(f64::NAN),
                Some(-1.0),
                is(DEFAULT_ESTIMATE, Basis::Default),
            ),
            (Some(1e-9), None, is(SHORTEST, Basis::Given)),
            (Some(f64::INFINITY), None, is(LONGEST, Basis::Given)),
        ] {
            let estimate = Estimate::of(given, learned);
            assert_eq!(estimate, expected, "{given:?} {learned:?}");
            let is_guess = expected.basis == Basis::Default;
            assert_eq!(estimate.known().is_none(), is_guess);
        }
    }

    #[test]
    fn what_is_learned_falls_slowly_and_rises_at_once() {
        let mut known = None;
        for (took, expected) in [
            (100.0, 100.0),
            (50.0, 95.0),
            // Not beyond a tenth more.
            (104.0, 95.9),
            (200.0, 200.0),
            (0.0, 180.0 + SHORTEST / 10.0),
            (f64::INFINITY, LONGEST),
        ] {
            let seconds = learned(known, took);
            assert!((seconds - expected).abs() < 1e-9, "{took}: {seconds}");
            known = Some(seconds);
        }
    }

    integration_tests_properties::properties! {
        256;

        #[test]
        fn what_is_learned_is_between_what_was_seen(
            took in proptest::collection::vec(0.001_f64..1e6, 1..20),
        ) {
            let known = took.iter().fold(None, |known, took| Some(learned(known, *took)));
            let known = known.expect("something was seen");
            let least = took.iter().copied().fold(f64::INFINITY, f64::min);
            let most = took.iter().copied().fold(0.0, f64::max);
            // Averages of floats may be off by their last digits.
            prop_assert!(known >= least * (1.0 - 1e-9) && known <= most * (1.0 + 1e-9));
        }
    }
}
