//! Estimates of a task's run time: the value in its job, else an average of earlier runs, else a default. Scheduler and worker compute the
//! same averages.

use std::fmt;

use crate::work::DEFAULT_ESTIMATE;

/// The shortest estimate in seconds, so that queued tasks never count as nothing.
pub const SHORTEST: f64 = 0.001;
/// The longest estimate in seconds: about thirty years, so that sums stay finite.
pub const LONGEST: f64 = 1e9;
/// The weight of the newest run in an average, however short the run was. BOINC gives a run of less than a tenth of its estimate a weight
/// of a hundredth, because BOINC learns one factor for all jobs. Here each job has its own average.
const WEIGHT: f64 = 0.1;
/// A run that took this many times its estimate replaces the estimate at once: too little work is better than a missed deadline.
const JUMP: f64 = 1.1;

/// The source of an estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Basis {
    /// The job states it.
    Given,
    /// Earlier tasks of the job took about that long.
    Learned,
    /// Nothing is known.
    Default,
}

impl Basis {
    /// Returns the name in documents for programs.
    pub fn as_str(self) -> &'static str {
        match self {
            Basis::Given => "given",
            Basis::Learned => "learned",
            Basis::Default => "default",
        }
    }
}

/// Formats the basis as the rest of a sentence that begins with the run time.
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

/// An estimated run time, and its source.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Seconds, from [`SHORTEST`] to [`LONGEST`].
    pub seconds: f64,
    pub basis: Basis,
}

impl Estimate {
    /// Chooses the estimate. `given`: stated by the job; `learned`: from earlier tasks. Values that are not above 0 are ignored.
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

    /// Returns the estimate unless it is only a default.
    pub fn known(self) -> Option<f64> {
        match self.basis {
            Basis::Given | Basis::Learned => Some(self.seconds),
            Basis::Default => None,
        }
    }
}

/// Returns the new average after a successful run of `took` seconds.
pub fn learned(before: Option<f64>, took: f64) -> f64 {
    averaged(before.map(within), within(took))
}

/// Returns the new average. Longer times count at once, shorter ones gradually.
pub fn averaged(before: Option<f64>, now: f64) -> f64 {
    match before {
        Some(before) if now <= JUMP * before => (1.0 - WEIGHT) * before + WEIGHT * now,
        Some(_) | None => now,
    }
}

/// Limits `seconds` to the allowed range. NaN gives the shortest.
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
            // A value within a tenth above the average is averaged.
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
            // Float averages may be off in the last digits.
            prop_assert!(known >= least * (1.0 - 1e-9) && known <= most * (1.0 + 1e-9));
        }
    }
}
