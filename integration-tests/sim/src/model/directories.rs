//! The content of each data directory, computed from records alone: synced state, unsynced tail, and the last written end of each task.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use brasserie_common::{InvocationId, RecordSeq, SchedulerId, StatusBits, TaskKey, Time, WorkerId};
use brasserie_scheduler_core::Durable;

use crate::event_log::{DirectoryId, Fact, Happening, TaskId};
use crate::view::World;

/// The stored end of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    pub invocation: InvocationId,
    pub bits: StatusBits,
    pub backoff_seconds: u32,
    pub safety_seconds: u32,
    /// The time and the scheduler of the write. They are not part of the stored end.
    pub at: Time,
    pub by: SchedulerId,
}

impl Stored {
    /// Returns the completion that a happening writes, forgiven or not, with its directory and its task.
    pub fn written(when: Time, happening: &Happening) -> Option<(DirectoryId, TaskId, Stored)> {
        let (Happening::EndWritten {
            directory,
            scheduler,
            run,
            bits,
            backoff_seconds,
            safety_seconds,
            ..
        }
        | Happening::EndForgiven {
            directory,
            scheduler,
            run,
            bits,
            backoff_seconds,
            safety_seconds,
            ..
        }) = *happening
        else {
            return None;
        };
        let stored = Stored {
            invocation: run.invocation,
            bits,
            backoff_seconds,
            safety_seconds,
            at: when,
            by: scheduler,
        };
        Some((directory, run.task, stored))
    }

    pub fn is_done(&self) -> bool {
        self.bits.has(StatusBits::DONE) && !self.is_provisional()
    }

    pub fn is_failed(&self) -> bool {
        self.bits.has(StatusBits::FAILED)
    }

    /// Returns whether the end is "lost" or "was not running".
    pub fn is_provisional(&self) -> bool {
        self.bits.has(StatusBits::OVERWRITEABLE)
    }
}

/// The state that records add up to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedState {
    pub schedulers: BTreeSet<SchedulerId>,
    pub instances: BTreeSet<WorkerId>,
    pub left: BTreeSet<WorkerId>,
    pub hold_back: Duration,
    pub ends: BTreeMap<TaskId, Stored>,
    /// Deleted ends that a worker may still repeat.
    pub forgotten: BTreeMap<TaskId, Forgotten>,
    /// Deleted ends, remembered forever. A restored directory remembers only what it holds itself.
    pub deleted: BTreeMap<TaskId, InvocationId>,
    /// The last run of each task whose end expired, remembered forever.
    pub expired: BTreeMap<TaskId, InvocationId>,
}

/// A deleted end that a worker may still repeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forgotten {
    up_to: InvocationId,
    /// The worker instances that were present at the deletion and still are.
    by: BTreeSet<WorkerId>,
}

/// The change to one task in a record.
#[derive(Clone, Copy, Debug)]
enum RecordChange {
    Ended(Stored),
    /// Deletes the ends of the task up to this run.
    Deleted(InvocationId),
    /// Expires the ends of the task up to this run.
    Expired(InvocationId),
}

impl RecordedState {
    fn apply(&mut self, entry: &RecordEntry) {
        match entry.fact {
            Fact::SchedulerStarted { scheduler, wait } => {
                self.schedulers.insert(scheduler);
                self.hold_back = self.hold_back.max(wait);
            }
            Fact::WorkerAssociated { worker, .. } => {
                self.instances.insert(worker);
            }
            Fact::WorkerLeft {
                worker, hold_back, ..
            } => {
                self.instances.remove(&worker);
                self.forgotten.retain(|_, of| {
                    of.by.remove(&worker);
                    !of.by.is_empty()
                });
                self.left.insert(worker);
                self.hold_back = self.hold_back.max(hold_back);
            }
            Fact::HoldBack { wait } => self.hold_back = self.hold_back.max(wait),
            Fact::HoldBackOver => self.hold_back = Duration::ZERO,
            Fact::TaskEnded | Fact::Jobs => {}
        }
        for (task, change) in &entry.changes {
            match *change {
                RecordChange::Ended(stored) => {
                    self.ends.insert(*task, stored);
                }
                RecordChange::Deleted(up_to) => {
                    self.ends.remove(task);
                    let known = self.deleted.entry(*task).or_insert(up_to);
                    *known = (*known).max(up_to);
                    let by = self.instances.clone();
                    let up_to = match self.forgotten.get(task) {
                        Some(known) => known.up_to.max(up_to),
                        None => up_to,
                    };
                    self.forgotten.insert(*task, Forgotten { up_to, by });
                }
                RecordChange::Expired(up_to) => {
                    self.ends.remove(task);
                    let known = self.expired.entry(*task).or_insert(up_to);
                    *known = (*known).max(up_to);
                }
            }
        }
    }

    /// Returns the last run whose end may be missing because it was deleted or expired.
    pub fn gone_up_to(&self, task: TaskId) -> Option<InvocationId> {
        let gone = [self.deleted.get(&task), self.expired.get(&task)];
        gone.into_iter().flatten().max().copied()
    }

    /// Returns the content of the real directory as a state.
    pub fn of(durable: &Durable, when: Time) -> RecordedState {
        let task = |key: &TaskKey| TaskId::from_names(key.job.as_str(), key.node.as_str());
        let ends = durable.statuses.iter().map(|(key, (invocation, status))| {
            let stored = Stored {
                invocation: *invocation,
                bits: status.bits,
                backoff_seconds: status.backoff_seconds,
                safety_seconds: status.safety_seconds,
                at: when,
                by: SchedulerId::default(),
            };
            (task(key), stored)
        });
        let there = |number| {
            let instances = durable.instances.iter();
            let there = instances.filter(move |(_, instance)| instance.since < number);
            there.map(|(worker, _)| *worker).collect()
        };
        let forgotten = durable.forgotten.iter().map(|(key, of)| {
            let (up_to, by) = (of.up_to, there(of.number));
            (task(key), Forgotten { up_to, by })
        });
        let forgotten: BTreeMap<_, _> = forgotten.collect();
        let deleted = forgotten.iter().map(|(task, of)| (*task, of.up_to));
        RecordedState {
            schedulers: durable.schedulers.clone(),
            instances: durable.instances.keys().copied().collect(),
            left: durable.left.keys().copied().collect(),
            hold_back: durable.hold_back,
            ends: ends.collect(),
            deleted: deleted.collect(),
            expired: BTreeMap::new(),
            forgotten,
        }
    }

    /// Compares stored content. Ignores the writer and time of ends, and what is remembered forever.
    pub fn same_as(&self, other: &RecordedState) -> bool {
        let plain = |(task, s): (&TaskId, &Stored)| {
            (
                *task,
                s.invocation,
                s.bits,
                s.backoff_seconds,
                s.safety_seconds,
            )
        };
        self.schedulers == other.schedulers
            && self.instances == other.instances
            && self.left == other.left
            && self.hold_back == other.hold_back
            && self.forgotten == other.forgotten
            && self.ends.iter().map(plain).eq(other.ends.iter().map(plain))
    }
}

#[derive(Clone, Debug)]
struct RecordEntry {
    scheduler: SchedulerId,
    seq: RecordSeq,
    fact: Fact,
    changes: Vec<(TaskId, RecordChange)>,
}

/// One directory.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    synced: RecordedState,
    tail: VecDeque<RecordEntry>,
    /// Tasks that the tail changes: the last change, and the number of changes.
    pending: BTreeMap<TaskId, (RecordChange, usize)>,
}

impl Contents {
    pub fn synced(&self) -> &RecordedState {
        &self.synced
    }

    /// Returns the last written end, durable or not.
    pub fn written_end(&self, task: TaskId) -> Option<&Stored> {
        match self.pending.get(&task) {
            Some((RecordChange::Ended(stored), _)) => Some(stored),
            Some((RecordChange::Deleted(_) | RecordChange::Expired(_), _)) => None,
            None => self.synced.ends.get(&task),
        }
    }

    /// Returns the tasks that may have an end, durable or not; [`Contents::written_end`] decides.
    pub fn ended(&self) -> impl Iterator<Item = TaskId> + '_ {
        let written = self.pending.keys();
        self.synced.ends.keys().chain(written).copied()
    }

    /// Returns the last run whose end was deleted, durably or not.
    pub fn deleted(&self, task: TaskId) -> Option<InvocationId> {
        let changes = self.tail.iter().flat_map(|entry| &entry.changes);
        let written = changes.filter_map(|(of, change)| match change {
            RecordChange::Deleted(up_to) if *of == task => Some(*up_to),
            RecordChange::Deleted(_) | RecordChange::Expired(_) | RecordChange::Ended(_) => None,
        });
        let synced = self.synced.deleted.get(&task).copied();
        written.chain(synced).max()
    }

    /// Returns whether the deletion or expiry of the task's last end is not durable yet.
    pub fn has_unsynced_deletion(&self, task: TaskId) -> bool {
        let pending = self.pending.get(&task);
        pending.is_some_and(|(change, _)| match change {
            RecordChange::Deleted(_) | RecordChange::Expired(_) => true,
            RecordChange::Ended(_) => false,
        })
    }

    fn sync(&mut self, upto: impl Fn(&RecordEntry) -> bool) {
        while self.tail.front().is_some_and(&upto) {
            let Some(entry) = self.tail.pop_front() else {
                return;
            };
            self.synced.apply(&entry);
            for (task, _) in &entry.changes {
                if let Some((_, count)) = self.pending.get_mut(task) {
                    *count -= 1;
                    if *count == 0 {
                        self.pending.remove(task);
                    }
                }
            }
        }
    }

    fn lose_tail(&mut self) {
        self.tail.clear();
        self.pending.clear();
    }
}

/// All directories.
#[derive(Clone, Debug, Default)]
pub struct Directories {
    of: BTreeMap<DirectoryId, Contents>,
    used_by: BTreeMap<SchedulerId, DirectoryId>,
}

impl Directories {
    pub fn get(&self, directory: DirectoryId) -> Option<&Contents> {
        self.of.get(&directory)
    }

    /// Returns the directory of a living scheduler.
    pub fn directory_of(&self, scheduler: SchedulerId) -> Option<DirectoryId> {
        self.used_by.get(&scheduler).copied()
    }

    pub fn contents_of(&self, scheduler: SchedulerId) -> Option<&Contents> {
        self.get(self.directory_of(scheduler)?)
    }

    /// Returns the last completion of the task that a living scheduler has written, durable or not.
    pub fn written_end(&self, scheduler: SchedulerId, task: TaskId) -> Option<&Stored> {
        self.contents_of(scheduler)?.written_end(task)
    }

    fn contents(&mut self, directory: DirectoryId) -> &mut Contents {
        self.of.entry(directory).or_default()
    }

    pub fn note(&mut self, when: Time, happening: &Happening, world: &World<'_>) {
        match *happening {
            Happening::SchedulerStarted {
                directory,
                scheduler,
                ..
            } => {
                self.used_by.insert(scheduler, directory);
                // A crash reports the lost part of the tail; the rest is durable.
                self.contents(directory).sync(|_| true);
            }
            Happening::SchedulerStopped { scheduler, .. } => {
                self.used_by.remove(&scheduler);
            }
            Happening::RecordWritten {
                directory,
                scheduler,
                seq,
                ref fact,
            } => self.contents(directory).tail.push_back(RecordEntry {
                scheduler,
                seq,
                fact: fact.clone(),
                changes: Vec::new(),
            }),
            Happening::EndWritten { .. } | Happening::EndForgiven { .. } => {
                self.end_written(when, happening);
            }
            Happening::EndDeleted { directory, run, .. } => {
                let change = RecordChange::Deleted(run.invocation);
                self.written(directory, run.task, change);
            }
            Happening::EndExpired {
                directory, task, ..
            } => {
                let end = self.contents(directory).written_end(task);
                if let Some(up_to) = end.map(|end| end.invocation) {
                    self.written(directory, task, RecordChange::Expired(up_to));
                }
            }
            Happening::Synced {
                directory,
                scheduler,
                up_to,
            } => self
                .contents(directory)
                .sync(|entry| entry.scheduler != scheduler || entry.seq <= up_to),
            Happening::TailLost {
                directory,
                scheduler,
                after,
            } => {
                let contents = self.contents(directory);
                contents.sync(|entry| entry.scheduler != scheduler || entry.seq <= after);
                contents.lose_tail();
            }
            Happening::BackupRestored { directory } => self.restored(when, directory, world),
            Happening::DirectoryLost { directory } => {
                *self.contents(directory) = Contents::default()
            }
            _ => {}
        }
    }

    /// The waits count from the time at which the run ended, forgiven or not.
    fn end_written(&mut self, when: Time, happening: &Happening) {
        let Some((directory, task, new)) = Stored::written(when, happening) else {
            return;
        };
        let old = self.contents(directory).written_end(task);
        let old = old.filter(|_| matches!(happening, Happening::EndForgiven { .. }));
        let (at, by) = old.map_or((new.at, new.by), |old| (old.at, old.by));
        self.written(
            directory,
            task,
            RecordChange::Ended(Stored { at, by, ..new }),
        );
    }

    /// Takes the state from the directory itself, because no happening lists the content of an old copy.
    fn restored(&mut self, when: Time, directory: DirectoryId, world: &World<'_>) {
        let contents = self.contents(directory);
        contents.lose_tail();
        let real = world.durable(directory);
        contents.synced = real
            .map(|real| RecordedState::of(real, when))
            .unwrap_or_default();
    }

    fn written(&mut self, directory: DirectoryId, task: TaskId, change: RecordChange) {
        let contents = self.contents(directory);
        let Some(entry) = contents.tail.back_mut() else {
            return;
        };
        entry.changes.push((task, change));
        let pending = contents.pending.entry(task).or_insert((change, 0));
        *pending = (change, pending.1 + 1);
    }
}
