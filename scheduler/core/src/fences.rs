//! Fences of runs: a durable generation and a counter. Storage that refuses smaller fences is safe from a run that is still alive beside
//! its replacement, for example on a machine that was suspended.

use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::{Fence, FenceGeneration, RecordSeq, RunningTask};

use crate::record::{OWN_RECORD, Record};

/// The fences of one scheduler.
#[derive(Clone, Debug)]
pub(crate) struct Fences {
    generation: FenceGeneration,
    /// The counter of the last issued fence of `generation`; 0: none was issued.
    counter: u32,
    /// The record of the generation. No fence of the generation leaves before this record is durable.
    recorded: RecordSeq,
    /// The number of fences in a generation.
    per_generation: u32,
}

impl Fences {
    /// Creates a scheduler's first generation: above the stored one, and not before the second of the scheduler's start.
    pub(crate) fn new(stored: FenceGeneration, start_second: i64) -> Self {
        Fences {
            generation: stored.next().max(FenceGeneration::of_second(start_second)),
            counter: 0,
            recorded: OWN_RECORD,
            per_generation: Fence::MAX_COUNTER,
        }
    }

    pub(crate) fn generation(&self) -> FenceGeneration {
        self.generation
    }

    /// Returns the record of the current generation. Before it is durable, the next scheduler could issue its fences again after a crash.
    pub(crate) fn recorded(&self) -> RecordSeq {
        self.recorded
    }

    /// Sets how many runs share a generation.
    pub(crate) fn set_per_generation(&mut self, runs: u32) {
        self.per_generation = runs.clamp(1, Fence::MAX_COUNTER);
    }

    /// Issues the fence of a run that starts now, or `None` when all are used up: in the year 2106, or once a worker has reported a fence of
    /// that time. If it was the last one of its generation, the next generation begins, with the returned record, whose number is
    /// `upcoming`.
    pub(crate) fn issue(&mut self, upcoming: RecordSeq) -> (Option<Fence>, Option<Record>) {
        let fence = self.next();
        let is_used_up = self.counter >= self.per_generation;
        let raised = is_used_up.then(|| self.raise(self.generation, upcoming));
        (fence, raised.flatten())
    }

    /// Returns the next fence, or `None` if the generation has no more.
    fn next(&mut self) -> Option<Fence> {
        // The last generation is not used: no fence could be above its fences.
        if self.counter >= self.per_generation || self.generation.next() == self.generation {
            return None;
        }
        self.counter += 1;
        Some(Fence::new(self.generation, self.counter))
    }

    /// Raises the generation above every fence that a worker lists. Returns the record to write, whose number is `upcoming`.
    pub(crate) fn reported(
        &mut self,
        listed: &[RunningTask],
        upcoming: RecordSeq,
    ) -> Option<Record> {
        let highest = listed.iter().filter_map(|task| task.fence).max()?;
        let is_raised =
            self.is_exceeded_by(highest) && !sabotage::on(Sabotage::FenceNotRaisedAboveReports);
        is_raised
            .then(|| self.raise(highest.generation(), upcoming))
            .flatten()
    }

    /// Returns whether `reported` is larger than every fence that this scheduler has issued.
    fn is_exceeded_by(&self, reported: Fence) -> bool {
        match self.counter {
            0 => reported.generation() >= self.generation,
            counter => reported > Fence::new(self.generation, counter),
        }
    }

    /// Begins a generation above `above`. No task starts until its record, which has the number `upcoming`, is durable.
    fn raise(&mut self, above: FenceGeneration, upcoming: RecordSeq) -> Option<Record> {
        let generation = above.next();
        // A false report cannot lead to the last generation, which has no fences.
        if generation <= self.generation || generation.next() == generation {
            return None;
        }
        (self.generation, self.counter) = (generation, 0);
        let is_recorded = !sabotage::on(Sabotage::GenerationNotSynced);
        self.recorded = match is_recorded {
            true => upcoming,
            false => OWN_RECORD,
        };
        is_recorded.then_some(Record::FenceRaised { generation })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheduler_begins_above_the_stored_generation_and_at_its_second() {
        let first = |stored, second| Fences::new(FenceGeneration(stored), second).generation;
        assert_eq!(first(0, 1_700_000_000), FenceGeneration(1_700_000_000));
        assert_eq!(first(1_700_000_000, 1_700_000_000).0, 1_700_000_001);
        assert_eq!(first(9, -5).0, 10, "a clock before 1970");
    }

    #[test]
    fn fences_increase_until_the_generation_is_used_up() {
        let mut fences = Fences::new(FenceGeneration(6), 0);
        fences.per_generation = 2;
        let given = [fences.next(), fences.next(), fences.next()];
        let fence = |counter| Some(Fence::new(FenceGeneration(7), counter));
        assert_eq!(given, [fence(1), fence(2), None]);
        assert!(!fences.is_exceeded_by(Fence::new(FenceGeneration(7), 2)));
        assert!(fences.is_exceeded_by(Fence::new(FenceGeneration(7), 3)));
        let fresh = Fences::new(FenceGeneration(6), 0);
        assert!(fresh.is_exceeded_by(Fence::new(FenceGeneration(7), 1)));
        assert!(!fresh.is_exceeded_by(Fence::new(FenceGeneration(6), 9)));
    }
}
