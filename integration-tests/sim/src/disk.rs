//! A scheduler's data directory. Synced records survive a crash; unsynced ones may be lost. One process at a time holds its lock.

use std::collections::VecDeque;

use brasserie_common::RecordSeq;
use brasserie_common::sabotage::{self, Sabotage};
use brasserie_scheduler_core::{Durable, Record};

use crate::event_log::SchedulerPlace;

/// The directory is in use. A second scheduler must not even read it (R1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("scheduler place {} holds the directory", holder.0)]
pub struct Locked {
    pub holder: SchedulerPlace,
}

/// One data directory.
#[derive(Clone, Debug, Default)]
pub struct Directory {
    durable: Durable,
    /// Records that the holder wrote and that are not synced.
    tail: VecDeque<(RecordSeq, Record)>,
    /// The last synced record of the present holder.
    synced: RecordSeq,
    holder: Option<SchedulerPlace>,
    /// The identity of the file, which changes with a loss or a restored backup.
    store: u32,
}

impl Directory {
    /// Returns the identity of the store, which differs from every earlier one in its place, like an inode.
    pub fn store(&self) -> u32 {
        self.store
    }

    /// Returns the content that survives any crash.
    pub fn durable(&self) -> &Durable {
        &self.durable
    }

    pub fn holder(&self) -> Option<SchedulerPlace> {
        self.holder
    }

    /// Returns the last synced record of the present holder.
    pub fn synced(&self) -> RecordSeq {
        self.synced
    }

    /// Returns the last record that was written, synced or not.
    pub fn written(&self) -> RecordSeq {
        self.tail.back().map_or(self.synced, |(seq, _)| *seq)
    }

    pub fn unsynced(&self) -> impl Iterator<Item = &(RecordSeq, Record)> {
        self.tail.iter()
    }

    /// Takes the lock and reads the content.
    pub fn open(&mut self, place: SchedulerPlace) -> Result<Durable, Locked> {
        if sabotage::on(Sabotage::ShareDirectory) {
            self.crash(0);
        }
        if let Some(holder) = self.holder {
            return Err(Locked { holder });
        }
        assert!(
            self.tail.is_empty(),
            "Invariant: a crash decides about every written record"
        );
        self.holder = Some(place);
        self.synced = RecordSeq::default();
        Ok(self.durable.clone())
    }

    pub fn write(&mut self, seq: RecordSeq, record: Record) {
        assert_eq!(
            seq,
            self.written().next(),
            "Invariant: a core numbers its records one after another"
        );
        self.tail.push_back((seq, record));
    }

    /// Makes everything up to `up_to` durable.
    pub fn sync(&mut self, up_to: RecordSeq) {
        while let Some((seq, record)) = self.tail.pop_front() {
            if seq > up_to {
                self.tail.push_front((seq, record));
                break;
            }
            self.durable.apply(&record);
            self.synced = seq;
        }
    }

    /// Ends the holder. The first `kept` unsynced records had reached the disk. Returns the number of lost records.
    pub fn crash(&mut self, kept: usize) -> usize {
        let kept = self.tail.get(kept.wrapping_sub(1)).map(|(seq, _)| *seq);
        if let Some(up_to) = kept {
            self.sync(up_to);
        }
        self.holder = None;
        let lost = self.tail.len();
        self.tail.clear();
        lost
    }

    /// Loses the whole content.
    pub fn lose(&mut self) {
        self.replace(Durable::default());
    }

    /// Restores an old copy.
    pub fn restore(&mut self, backup: Durable) {
        self.replace(backup);
    }

    fn replace(&mut self, durable: Durable) {
        assert_eq!(
            self.holder, None,
            "Invariant: nobody exchanges the directory of a living scheduler"
        );
        self.durable = durable;
        self.store += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use brasserie_scheduler_core::ClusterId;
    use std::time::Duration;

    fn hold_back(secs: u64) -> Record {
        Record::HoldBack {
            wait: Duration::from_secs(secs),
        }
    }

    #[test]
    fn a_crash_takes_what_is_not_synced() {
        let mut directory = Directory::default();
        directory.open(SchedulerPlace(0)).unwrap();
        assert_eq!(
            directory.open(SchedulerPlace(1)),
            Err(Locked {
                holder: SchedulerPlace(0)
            })
        );
        directory.write(RecordSeq(1), hold_back(1));
        directory.sync(RecordSeq(1));
        directory.write(RecordSeq(2), hold_back(2));
        directory.write(RecordSeq(3), hold_back(3));
        assert_eq!(directory.written(), RecordSeq(3));
        assert_eq!(directory.crash(1), 1);
        assert_eq!(directory.durable().hold_back, Duration::from_secs(2));
        assert_eq!(directory.durable().cluster, None::<ClusterId>);
        assert!(directory.open(SchedulerPlace(1)).is_ok());
    }
}
