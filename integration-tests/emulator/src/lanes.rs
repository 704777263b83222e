//! Assigns individual processors to running tasks, for pictures. The policies only count processors.

use serde::Serialize;

/// A span in which a task had a processor.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Segment {
    pub row: usize,
    pub scheduler: usize,
    pub from: f64,
    pub to: f64,
}

/// The processors of all types, one row each.
#[derive(Clone, Debug)]
pub struct Lanes {
    /// The first row of each type, and the number of its rows.
    types: Vec<(usize, usize)>,
    /// The tasks on each row.
    taken: Vec<Vec<u64>>,
}

impl Lanes {
    pub fn new(instances: &[u32]) -> Self {
        let mut first = 0;
        let types = instances.iter().map(|count| {
            let count = *count as usize;
            first += count;
            (first - count, count)
        });
        Lanes {
            types: types.collect(),
            taken: vec![Vec::new(); first],
        }
    }

    /// Assigns rows to a task that starts: those with the fewest tasks.
    pub fn take(&mut self, task: u64, of_type: usize, usage: f64) -> Vec<usize> {
        let (first, count) = self.types[of_type];
        let wanted = (usage.ceil().max(1.0) as usize).min(count);
        let mut rows: Vec<usize> = (first..first + count).collect();
        rows.sort_by_key(|row| (self.taken[*row].len(), *row));
        rows.truncate(wanted);
        for row in &rows {
            self.taken[*row].push(task);
        }
        rows
    }

    pub fn free(&mut self, task: u64) {
        for takers in &mut self.taken {
            takers.retain(|taker| *taker != task);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_have_rows_of_their_own_while_there_are_some() {
        let mut lanes = Lanes::new(&[2, 1]);
        assert_eq!(lanes.take(1, 0, 1.0), [0]);
        assert_eq!(lanes.take(2, 1, 0.5), [2]);
        assert_eq!(lanes.take(3, 0, 1.0), [1]);
        lanes.free(1);
        assert_eq!(lanes.take(4, 0, 1.0), [0]);
        assert_eq!(lanes.take(5, 0, 8.0), [0, 1]);
        assert_eq!(Lanes::new(&[0]).take(1, 0, 1.0), [0; 0]);
    }
}
