//! How long all instances of a type are taken by tasks whose deadlines are in danger. Those of the volunteers' system come in the order in
//! which they end in the simulation, which packs them worse and shows nothing else: so there is no setting for that.

use std::collections::VecDeque;

/// The instances of one type, each with the seconds that it is taken for. To be fed with the task whose deadline is first, first.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct BusyTimes {
    taken: Vec<f64>,
}

impl BusyTimes {
    pub(super) fn new(instances: usize) -> Self {
        BusyTimes {
            taken: vec![0.0; instances],
        }
    }

    /// A task that takes `instances` of them so long. One that takes less than a whole instance leaves room for others, and takes none.
    pub(super) fn take(&mut self, seconds: f64, instances: f64) {
        let all = self.taken.len();
        if instances < 1.0 || all == 0 {
            return;
        }
        // A cast of what is larger than any number of instances gives the largest of them.
        let wanted = (instances.floor() as usize).min(all);
        let first = self.least_busy(wanted);
        for place in first..first + wanted {
            self.taken[place % all] += seconds;
        }
    }

    /// Nothing new can begin earlier.
    pub(super) fn all_for(&self) -> f64 {
        self.taken.iter().copied().reduce(f64::min).unwrap_or(0.0)
    }

    /// Where so many neighbours begin, the last followed by the first, of which the busiest is the least busy; the first such place.
    fn least_busy(&self, neighbours: usize) -> usize {
        let all = self.taken.len();
        let of = |place: usize| self.taken[place % all];
        // Those of the window that nobody behind them exceeds, from the busiest down.
        let mut falling: VecDeque<usize> = VecDeque::new();
        let mut best = (0, f64::INFINITY);
        for end in 0..all + neighbours - 1 {
            while falling.back().is_some_and(|last| of(*last) <= of(end)) {
                falling.pop_back();
            }
            falling.push_back(end);
            let Some(first) = (end + 1).checked_sub(neighbours) else {
                continue;
            };
            while falling.front().is_some_and(|place| *place < first) {
                falling.pop_front();
            }
            let busiest = falling.front().map_or(0.0, |place| of(*place));
            if busiest < best.1 {
                best = (first, busiest);
            }
        }
        best.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn fed(instances: usize, tasks: &[(f64, f64)]) -> BusyTimes {
        let mut busy = BusyTimes::new(instances);
        for (seconds, wanted) in tasks {
            busy.take(*seconds, *wanted);
        }
        busy
    }

    #[test]
    fn each_takes_the_least_busy() {
        for (instances, tasks, taken) in [
            (2, vec![], vec![0.0, 0.0]),
            (2, vec![(5.0, 1.0)], vec![5.0, 0.0]),
            (2, vec![(5.0, 1.0), (3.0, 1.0), (3.0, 1.0)], vec![5.0, 6.0]),
            // Parts of instances are ignored, whole ones of them count.
            (2, vec![(5.0, 0.9), (4.0, 1.9)], vec![4.0, 0.0]),
            // The window of two that is least busy goes around the end.
            (
                4,
                vec![(1.0, 1.0), (9.0, 1.0), (9.0, 1.0), (2.0, 1.0), (3.0, 2.0)],
                vec![4.0, 9.0, 9.0, 5.0],
            ),
            // More than there are are all.
            (3, vec![(5.0, 100.0), (1.0, 1e30)], vec![6.0; 3]),
            (0, vec![(5.0, 1.0)], vec![]),
        ] {
            let busy = fed(instances, &tasks);
            assert_eq!(busy.taken, taken, "{tasks:?}");
            let least = taken.into_iter().reduce(f64::min).unwrap_or(0.0);
            assert_eq!(busy.all_for(), least);
        }
    }

    integration_tests_properties::properties! {
        256;

        #[test]
        fn fewer_tasks_than_instances_leave_one_free(
            instances in 1_usize..12, seconds in vec(0.1..100.0_f64, 0..12),
        ) {
            let tasks: Vec<_> = seconds.iter().map(|seconds| (*seconds, 1.0)).collect();
            let all_for = fed(instances, &tasks).all_for();
            prop_assert_eq!(all_for > 0.0, tasks.len() >= instances);
        }

        /// Against trying each window.
        #[test]
        fn the_window_is_the_least_busy(taken in vec(0_u32..5, 1..12), wanted in 1_usize..12) {
            let taken: Vec<_> = taken.into_iter().map(f64::from).collect();
            let wanted = wanted.min(taken.len());
            let busiest = |first: usize| {
                let window = (first..first + wanted).map(|place| taken[place % taken.len()]);
                window.fold(0.0, f64::max)
            };
            let least = (0..taken.len()).map(busiest).fold(f64::INFINITY, f64::min);
            let expected = (0..taken.len()).find(|first| busiest(*first) == least);
            let busy = BusyTimes { taken: taken.clone() };
            prop_assert_eq!(Some(busy.least_busy(wanted)), expected);
        }
    }
}
