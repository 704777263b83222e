//! Computes how long all instances of a processor type are taken by tasks that would miss their deadlines. BOINC takes these tasks in the
//! order in which they complete in the simulation. That order packs them worse and has no advantage, so there is no setting for it.

use std::collections::VecDeque;

/// The seconds for which each instance of one type is taken. The caller adds tasks by deadline, nearest first.
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

    /// Adds a task that takes `instances` instances for `seconds`. A task of less than one instance adds nothing, because others fit beside
    /// it.
    pub(super) fn take(&mut self, seconds: f64, instances: f64) {
        let all = self.taken.len();
        if instances < 1.0 || all == 0 {
            return;
        }
        // The cast saturates, so any larger number gives the maximum.
        let wanted = (instances.floor() as usize).min(all);
        let first = self.least_busy(wanted);
        for place in first..first + wanted {
            self.taken[place % all] += seconds;
        }
    }

    /// Returns the seconds before which no new task can start.
    pub(super) fn all_for(&self) -> f64 {
        self.taken.iter().copied().reduce(f64::min).unwrap_or(0.0)
    }

    /// Returns the first instance of the least busy window: `neighbours` adjacent instances, the last followed by the first, whose busiest
    /// instance is the least busy.
    fn least_busy(&self, neighbours: usize) -> usize {
        let all = self.taken.len();
        let of = |place: usize| self.taken[place % all];
        // The instances of the window that no later one exceeds, the busiest first.
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
            // Only whole instances count.
            (2, vec![(5.0, 0.9), (4.0, 1.9)], vec![4.0, 0.0]),
            // The least busy window of two wraps around the end.
            (
                4,
                vec![(1.0, 1.0), (9.0, 1.0), (9.0, 1.0), (2.0, 1.0), (3.0, 2.0)],
                vec![4.0, 9.0, 9.0, 5.0],
            ),
            // A task that wants more instances than there are takes all.
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

        /// Compares with a search through all windows.
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
