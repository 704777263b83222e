//! Earliest deadline first: the completion times of jobs that run in the order of their deadlines.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A job that takes one processor. Times are seconds from now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EdfJob {
    /// The remaining run time. NaN and negative values count as zero.
    pub remaining: f64,
    /// The deadline of the completion; infinity or NaN for none.
    pub deadline: f64,
}

/// The completion of a job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EdfEnd {
    pub completion: f64,
    pub misses: bool,
}

/// Returns the completions of jobs, in the order of `jobs`, on `processors` processors (at least 1). The next job by deadline, then by
/// position, gets the processor that is booked for the shortest time, then the first one.
pub fn edf(processors: usize, jobs: &[EdfJob]) -> Vec<EdfEnd> {
    let deadline = |job: &EdfJob| match job.deadline.is_nan() {
        true => f64::INFINITY,
        false => job.deadline,
    };
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    order.sort_by(|a, b| deadline(&jobs[*a]).total_cmp(&deadline(&jobs[*b])));
    // More processors than jobs are never booked. The bits of non-negative floats sort like the floats.
    let used = processors.clamp(1, jobs.len().max(1));
    let mut booked: BinaryHeap<Reverse<(u64, usize)>> =
        (0..used).map(|processor| Reverse((0, processor))).collect();
    let nothing = EdfEnd {
        completion: 0.0,
        misses: false,
    };
    let mut ends = vec![nothing; jobs.len()];
    for place in order {
        // Invariant: there is a processor, and each one taken is put back.
        let Reverse((until, processor)) = booked.pop().expect("a processor");
        // `max` ignores NaN.
        let completion = f64::from_bits(until) + jobs[place].remaining.max(0.0);
        booked.push(Reverse((completion.to_bits(), processor)));
        ends[place] = EdfEnd {
            completion,
            misses: completion > deadline(&jobs[place]),
        };
    }
    ends
}

/// A task that a scheduler considers sending to a worker with queued jobs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    pub job: EdfJob,
    /// The estimate fits before the task's own bound. If not, the task may still start, because the estimate may be wrong.
    pub can_be_made: bool,
}

impl Candidate {
    /// Creates the candidate for a task of `estimate` seconds that must complete within `bound` seconds.
    ///
    /// Its deadline is `low_water` seconds before the bound, but not earlier than an immediate start allows.
    pub fn new(estimate: f64, bound: f64, low_water: f64) -> Self {
        let can_be_made = estimate <= bound;
        let deadline = bound - low_water;
        Candidate {
            job: EdfJob {
                remaining: estimate,
                deadline: match can_be_made {
                    true => deadline.max(estimate),
                    false => deadline,
                },
            },
            can_be_made,
        }
    }

    /// Returns whether the candidate makes no job of `jobs` late or later than in `before`, the completions without it, and meets its own
    /// deadline if [`Candidate::can_be_made`].
    pub fn fits(&self, processors: usize, jobs: &[EdfJob], before: &[EdfEnd]) -> bool {
        let after = edf(processors, &[jobs, &[self.job]].concat());
        let is_late = self.can_be_made && after.last().is_some_and(|own| own.misses);
        let is_worse = |(before, after): (&EdfEnd, &EdfEnd)| {
            after.misses && (!before.misses || after.completion > before.completion)
        };
        !is_late && !before.iter().zip(&after).any(is_worse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The remaining time of a job, and its deadline.
    type Told = (f64, f64);
    type Ends = [(f64, bool)];

    fn job((remaining, deadline): Told) -> EdfJob {
        EdfJob {
            remaining,
            deadline,
        }
    }

    /// Returns when each job completes, and whether it is late.
    fn ends(processors: usize, jobs: &[Told]) -> Vec<(f64, bool)> {
        let jobs: Vec<EdfJob> = jobs.iter().copied().map(job).collect();
        let ends = edf(processors, &jobs);
        ends.iter()
            .map(|end| (end.completion, end.misses))
            .collect()
    }

    #[test]
    fn the_nearest_deadline_is_first_and_the_least_booked_processor_gets_it() {
        let cases: [(usize, &[Told], &Ends); 8] = [
            (1, &[], &[]),
            (1, &[(5.0, 5.0)], &[(5.0, false)]),
            (1, &[(5.0, 4.9)], &[(5.0, true)]),
            // Jobs run in the order of deadlines, whatever the order of the list.
            (1, &[(5.0, 20.0), (3.0, 4.0)], &[(8.0, false), (3.0, false)]),
            (
                2,
                &[(5.0, 5.0), (3.0, 6.0), (4.0, 7.0)],
                &[(5.0, false), (3.0, false), (7.0, false)],
            ),
            // Jobs with one deadline run in the order of the list.
            (1, &[(1.0, 2.0), (2.0, 2.0)], &[(1.0, false), (3.0, true)]),
            // A job runs even if its deadline is over.
            (1, &[(1.0, -1.0), (1.0, 2.0)], &[(1.0, true), (2.0, false)]),
            (
                0,
                &[(1.0, f64::INFINITY), (1.0, 1.0)],
                &[(2.0, false), (1.0, false)],
            ),
        ];
        for (processors, jobs, expected) in cases {
            assert_eq!(ends(processors, jobs), expected, "{processors} {jobs:?}");
        }
    }

    #[test]
    fn non_finite_numbers_are_harmless() {
        let nonsense = [
            (f64::NAN, 1.0),
            (-5.0, 1.0),
            (1.0, f64::NAN),
            (f64::INFINITY, 2.0),
            (1.0, 3.0),
        ];
        assert_eq!(
            ends(2, &nonsense),
            [
                (0.0, false),
                (0.0, false),
                (2.0, false),
                (f64::INFINITY, true),
                (1.0, false)
            ]
        );
    }

    #[test]
    fn a_candidate_must_not_make_others_late() {
        let two = [(10.0, 20.0), (10.0, 20.0)];
        let tight = [(10.0, 19.0), (10.0, 19.0)];
        let late = [(10.0, 5.0)];
        let ever = [(99.0, f64::INFINITY)];

        for (processors, jobs, estimate, bound, low_water, fits) in [
            // Each job has a processor, and time for the candidate remains before the deadlines.
            (2, &two[..], 10.0, 30.0, 0.0, true),
            (2, &two, 10.0, 10.0, 0.0, true),
            (2, &tight, 10.0, 15.0, 0.0, false),
            // The candidate has the earliest deadline, so it runs first and makes the second job late.
            (1, &two, 1.0, 5.0, 0.0, false),
            // A late job must not become later.
            (1, &late, 1.0, 1.0, 0.0, false),
            (1, &late, 1.0, 11.0, 0.0, true),
            (1, &late, 1.0, 11.0, 1.0, false),
            (1, &ever, 1.0, 1.0, 0.0, true),
            // No worker can meet the low water mark, so the candidate must start immediately.
            (1, &[], 10.0, 12.0, 5.0, true),
            (1, &late, 10.0, 12.0, 5.0, false),
            // The candidate is late on every worker: it may start where it makes no job late.
            (1, &[], 11.0, 10.9, 0.0, true),
            (1, &late, 11.0, 10.9, 0.0, true),
            (1, &[(1.0, 11.0)], 11.0, 10.9, 0.0, false),
        ] {
            let jobs: Vec<EdfJob> = jobs.iter().copied().map(job).collect();
            let candidate = Candidate::new(estimate, bound, low_water);
            let before = edf(processors, &jobs);
            let actual = candidate.fits(processors, &jobs, &before);
            assert_eq!(
                actual, fits,
                "{processors} {jobs:?} {estimate} {bound} {low_water}"
            );
        }
    }

    /// Computes the completions directly from the rule.
    fn plain(processors: usize, jobs: &[EdfJob]) -> Vec<EdfEnd> {
        let mut booked = vec![0.0_f64; processors];
        let mut left: Vec<usize> = (0..jobs.len()).collect();
        let mut ends = vec![None; jobs.len()];
        while !left.is_empty() {
            let mut next = 0;
            for i in 1..left.len() {
                if jobs[left[i]].deadline < jobs[left[next]].deadline {
                    next = i;
                }
            }
            let place = left.remove(next);
            let mut least = 0;
            for processor in 1..processors {
                if booked[processor] < booked[least] {
                    least = processor;
                }
            }
            booked[least] += jobs[place].remaining;
            ends[place] = Some(EdfEnd {
                completion: booked[least],
                misses: booked[least] > jobs[place].deadline,
            });
        }
        ends.into_iter().map(|end| end.expect("an end")).collect()
    }

    integration_tests_properties::properties! {
        256;

        #[test]
        fn the_simulation_equals_the_plain_rule(
            processors in 1_usize..6,
            jobs in proptest::collection::vec((0_u32..20, 0_u32..40), 0..20),
        ) {
            let jobs: Vec<EdfJob> = jobs.into_iter().map(|(r, d)| job((f64::from(r), f64::from(d)))).collect();
            prop_assert_eq!(edf(processors, &jobs), plain(processors, &jobs));
        }

        #[test]
        fn one_processor_meets_what_can_be_met(
            slices in proptest::collection::vec((1_u32..20, 0_u32..10), 0..12),
            turn in 0_usize..12,
        ) {
            // Each job is in time in this order. The algorithm must find such an order, whatever the order of the list.
            let mut end = 0.0;
            let mut jobs: Vec<EdfJob> = slices.into_iter().map(|(remaining, slack)| {
                end += f64::from(remaining);
                job((f64::from(remaining), end + f64::from(slack)))
            }).collect();
            let middle = turn % jobs.len().max(1);
            jobs.rotate_left(middle);
            prop_assert!(edf(1, &jobs).iter().all(|end| !end.misses));
        }
    }
}
