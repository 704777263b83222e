//! Ends the tasks of one of a program's several schedulers if the program should have done so. It leaves the program and the tasks of the
//! other schedulers alone. If the program was only stopped, it finds these tasks dead when it continues. If no scheduler has living tasks
//! and the program does not continue, the keeper ends it like a program with one scheduler.
//!
//! The program is the parent of its tasks, so the keeper finds them as a successor finds leftover processes: by the mark in their
//! environment, by the list of process groups on disk, and by descent from processes that were found.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use brasserie_common::Time;
use brasserie_worker_core::AssociationIndex;
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::blocking;
use super::lease::Terms;
use super::rounds::{SLOW_ROUND, round_pause, signal_all_of};
use super::say;
use crate::directory::{GroupList, LeftoverError, ListedGroup, Numbers, Search};
use crate::groups::places;
use crate::marker::Marker;
use crate::proc_table::{self, environments::Environments};

/// The time that the program gets to notice that no task is left. It needs milliseconds, and more after the machine slept.
const PATIENCE: Duration = Duration::from_secs(5);

/// The stage of the tasks of one scheduler.
///
/// ```text
/// TRUSTED --term time is over--> WARNED --kill time is over--> ENDING --new terms--> TRUSTED
///    |  ^                          |                             ^
///    |  +------- new terms --------+                             |
///    +--------------------- kill time is over -------------------+
/// ```
enum TrustStage {
    /// The program handles them.
    Trusted,
    /// They were sent SIGTERM.
    Warned { kill_at: Time },
    /// They are killed, in rounds, until the program's new terms show that it has noticed.
    Ending {
        search: Box<Search>,
        rounds: u32,
        /// The number of processes that the last round found.
        alive: usize,
    },
}

/// The result of a check of all schedulers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeaseVerdict {
    /// The next check is due at this time, unless the terms change.
    Alive { until: Time },
    /// No scheduler has a living task, and the program did not notice.
    Hangs,
}

/// The time without new terms, while no scheduler has a living task.
#[derive(Debug, Default)]
struct Silence {
    /// The last terms of the program.
    last_words: Vec<Terms>,
    since: Option<Time>,
}

/// The tasks of all schedulers, each scheduler handled independently.
pub(super) struct Parts {
    marker: Marker,
    program: Pid,
    /// Whether the program lists groups by numbers of a namespace of its own.
    is_in_namespace: bool,
    schedulers: Vec<WatchedScheduler>,
    silence: Silence,
}

/// One scheduler, and the keeper's progress with its tasks.
struct WatchedScheduler {
    stage: TrustStage,
    environments: Environments,
}

/// The properties of one scheduler's tasks.
struct SchedulerPart {
    of: AssociationIndex,
    program: Pid,
    is_in_namespace: bool,
    /// The file in the program's data directory that lists the locations of control groups.
    places: Option<PathBuf>,
}

impl Parts {
    pub(super) fn new(marker: Marker, program: Pid, is_in_namespace: bool) -> Self {
        Parts {
            marker,
            program,
            is_in_namespace,
            schedulers: Vec::new(),
            silence: Silence::default(),
        }
    }

    /// Performs the actions that the program has failed to perform in time.
    pub(super) fn enforce(
        &mut self,
        all: &[Terms],
        places: Option<PathBuf>,
        now: Time,
    ) -> LeaseVerdict {
        for at in self.schedulers.len()..all.len() {
            self.schedulers.push(WatchedScheduler {
                stage: TrustStage::Trusted,
                environments: Environments::with(self.marker.entry_of(at)),
            });
        }
        let mut next = Time::NEVER;
        for (at, terms) in all.iter().enumerate() {
            let part = SchedulerPart {
                of: AssociationIndex(at),
                program: self.program,
                is_in_namespace: self.is_in_namespace,
                places: places.clone(),
            };
            next = next.min(part.enforce(&mut self.schedulers[at], *terms, now));
        }
        match self.silence.is_too_long(all, self.are_over(all), now) {
            true => LeaseVerdict::Hangs,
            false => LeaseVerdict::Alive { until: next },
        }
    }

    /// Returns whether the time of every scheduler that has terms is over, and none of its tasks is alive. A scheduler without terms has
    /// no tasks. If a task does not die, the program is not to blame for the lack of new terms.
    fn are_over(&self, all: &[Terms]) -> bool {
        let schedulers = all.iter().zip(&self.schedulers);
        let mut with_terms = schedulers
            .filter(|(terms, _)| **terms != Terms::NONE)
            .peekable();
        with_terms.peek().is_some()
            && with_terms.all(|(_, one)| matches!(one.stage, TrustStage::Ending { alive: 0, .. }))
    }
}

/// Translates numbers of the namespace whose PID 1 is `init` into those of this one. Groups without a process leave the list.
fn translate(listed: &mut Vec<ListedGroup>, init: Pid) {
    let numbers = proc_table::groups_below(init);
    listed.retain_mut(|one| {
        let here = numbers.get(&one.group).copied();
        one.group = here.unwrap_or(one.group);
        here.is_some()
    });
}

impl Silence {
    /// Returns whether the program has been silent for too long. `are_over` says whether it must send new terms.
    fn is_too_long(&mut self, words: &[Terms], are_over: bool, now: Time) -> bool {
        if !are_over || self.last_words != words {
            self.last_words = words.to_vec();
            self.since = None;
        }
        if !are_over {
            return false;
        }
        let since = *self.since.get_or_insert(now);
        since + PATIENCE <= now
    }
}

impl SchedulerPart {
    fn enforce(&self, watched: &mut WatchedScheduler, terms: Terms, now: Time) -> Time {
        let WatchedScheduler {
            stage,
            environments,
        } = watched;
        if terms.first() > now {
            *stage = TrustStage::Trusted;
            return terms.first();
        }
        match stage {
            TrustStage::Trusted if now < terms.kill_at() => {
                let kill_at = terms.kill_at();
                *stage = TrustStage::Warned { kill_at };
                self.warn(environments);
                return kill_at;
            }
            TrustStage::Warned { kill_at } if now < *kill_at => return *kill_at,
            TrustStage::Trusted | TrustStage::Warned { .. } => {
                let search = Box::new(self.search());
                *stage = TrustStage::Ending {
                    search,
                    rounds: 0,
                    alive: 0,
                };
            }
            TrustStage::Ending { .. } => {}
        }
        let TrustStage::Ending {
            search,
            rounds,
            alive,
        } = stage
        else {
            return Time::NEVER;
        };
        *alive = self.round(search, environments);
        *rounds += 1;
        if *rounds == 1 {
            say(&format!(
                "{} should be dead by now; killing only these tasks",
                self.name()
            ));
        }
        // The program may have been about to start another task when it was stopped, so the rounds continue.
        now + match *alive {
            0 => SLOW_ROUND,
            _ => round_pause(*rounds),
        }
    }

    fn name(&self) -> String {
        format!("the tasks of the worker's scheduler {}", self.of.0 + 1)
    }

    /// Sends SIGTERM to the program's children among the tasks, as the program would have done.
    fn warn(&self, environments: &mut Environments) {
        let mut search = self.search();
        let until = Instant::now() + blocking::LIMIT;
        terminate_children(self.program, search.look(&mut |_| Vec::new()));
        terminate_children(
            self.program,
            search.look(&mut |unknown| environments.find(unknown, until)),
        );
        say(&format!(
            "the worker did not end {} in time (it may be stopped, or hang); sent them SIGTERM",
            self.name()
        ));
    }

    fn search(&self) -> Search {
        Search::new(self.listed())
    }

    fn listed(&self) -> Numbers {
        let folder = self.places.as_ref().and_then(|file| file.parent());
        let folder = folder.map(Path::to_owned);
        // If the list cannot be read, only the marks show the tasks.
        let all = folder.and_then(|folder| blocking::run(move || GroupList::read(&folder).ok()));
        let mut listed = all.flatten().unwrap_or_default();
        listed.groups.retain(|group| group.association == self.of);
        if self.is_in_namespace {
            translate(&mut listed.groups, self.program);
            return Numbers::translated(listed);
        }
        Numbers::of_living_worker(listed)
    }

    /// Kills the tasks that it finds, first those that it finds without reading an environment. Returns their number.
    fn round(&self, search: &mut Search, environments: &mut Environments) -> usize {
        if let Some(places) = &self.places {
            let (places, program, of) = (places.clone(), self.program, self.of);
            let _ = blocking::run(move || places::sweep_part(&places, program, of));
        }
        search.list(self.listed());
        // If /proc is unreadable, only processes from an earlier round are known.
        let _ = search.freeze(&mut |_| Vec::new());
        let known = search.kill().len();
        let until = Instant::now() + blocking::LIMIT;
        let _ = search.freeze(&mut |unknown| environments.find(unknown, until));
        known.max(search.kill().len())
    }
}

fn terminate_children(program: Pid, found: Result<Option<Vec<Pid>>, LeftoverError>) {
    for pid in found.ok().flatten().unwrap_or_default() {
        if let Some(process) = proc_table::find(pid).filter(|one| one.parent == program) {
            signal_all_of(&process, Signal::SIGTERM);
        }
    }
}
