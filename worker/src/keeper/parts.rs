//! Of a program with several schedulers: ends the tasks of one of them if the program should have done it, and leaves those of the
//! others alone, and the program with them. It may have been stopped, and when it goes on, it finds that they are dead. If there are no
//! others, and it does not go on, it is of no use to anybody and ended like a program with one scheduler.
//!
//! Nobody but the program itself is the parent of its tasks, so they are found as a successor finds what was left to it: by the mark
//! in their environment, by the list of process groups on disk, and by descent from whoever was found.

use std::path::{Path, PathBuf};
use std::time::Duration;

use brasserie_common::Time;
use brasserie_worker_core::AssociationIndex;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::aside;
use super::guard::{SWEEP_ROUND, say, signal_all_of};
use super::lease::Terms;
use super::{KEPT_FOR_VARIABLE, Marker, processes};
use crate::directory::{GroupList, ListedGroup, Numbers, Search};
use crate::groups::places;

/// Looks in one round, each of which may find what the last one has just started. Frozen processes start no others.
const MOST_LOOKS: usize = 20;
/// Rounds that follow each other at once. Whoever is alive after them hangs in a device or a file system.
const QUICK_ROUNDS: u32 = 50;
/// Between further ones; also how soon it is noticed if the program, in the moment in which it was stopped, was about to start another.
const SLOW_ROUND: Duration = Duration::from_secs(1);
/// How long the program may take to notice that nobody is left to end. It needs milliseconds, and more after the machine slept.
const PATIENCE: Duration = Duration::from_secs(5);

/// How far it is with the tasks of one scheduler.
///
/// ```text
/// TRUSTED --term time is over--> WARNED --kill time is over--> ENDING --new terms--> TRUSTED
///    |  ^                          |                             ^
///    |  +------- new terms --------+                             |
///    +--------------------- kill time is over -------------------+
/// ```
enum Stage {
    /// The program sees to them.
    Trusted,
    /// They were told to end.
    Warned { kill_at: Time },
    /// They are killed, in rounds, until the program says that it has noticed.
    Ending {
        search: Box<Search>,
        rounds: u32,
        /// How many the last round found.
        alive: usize,
    },
}

/// What follows from a look at all schedulers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Look again at this time, unless the terms change.
    Alive { until: Time },
    /// No scheduler has a living task, and the program did not notice.
    Hangs,
}

/// The program's silence, while no scheduler has a living task.
#[derive(Debug, Default)]
struct Silence {
    /// What the program said last.
    last_words: Vec<Terms>,
    since: Option<Time>,
}

/// The tasks of all schedulers, each by itself.
pub(super) struct Parts {
    marker: Marker,
    program: Pid,
    /// Whether the program lists groups by numbers of a namespace of its own.
    is_in_namespace: bool,
    stages: Vec<Stage>,
    silence: Silence,
}

/// What belongs to one of them.
struct Part<'a> {
    of: AssociationIndex,
    marker: &'a Marker,
    program: Pid,
    is_in_namespace: bool,
    /// Where the program noted control groups, in its data directory.
    places: Option<PathBuf>,
}

impl Parts {
    pub(super) fn new(marker: Marker, program: Pid, is_in_namespace: bool) -> Self {
        Parts {
            marker,
            program,
            is_in_namespace,
            stages: Vec::new(),
            silence: Silence::default(),
        }
    }

    /// Does what the program had to do by now and did not do.
    pub(super) fn enforce(&mut self, all: &[Terms], places: Option<PathBuf>, now: Time) -> Verdict {
        self.stages.resize_with(all.len(), || Stage::Trusted);
        let mut next = Time::NEVER;
        for (at, terms) in all.iter().enumerate() {
            let part = Part {
                of: AssociationIndex(at),
                marker: &self.marker,
                program: self.program,
                is_in_namespace: self.is_in_namespace,
                places: places.clone(),
            };
            next = next.min(part.enforce(&mut self.stages[at], *terms, now));
        }
        match self.silence.is_too_long(all, self.are_over(all), now) {
            true => Verdict::Hangs,
            false => Verdict::Alive { until: next },
        }
    }

    /// Whether the time of every scheduler that has terms is over, and nobody is left of its tasks. One without terms has none, and if
    /// there is somebody who does not die, it is not the program's fault that it says nothing.
    fn are_over(&self, all: &[Terms]) -> bool {
        let stages = all.iter().zip(&self.stages);
        let mut with_terms = stages
            .filter(|(terms, _)| **terms != Terms::NONE)
            .peekable();
        with_terms.peek().is_some()
            && with_terms.all(|(_, stage)| matches!(stage, Stage::Ending { alive: 0, .. }))
    }
}

/// From the numbers of the namespace whose PID 1 is `init` to those here. What has no process any more is taken off the list.
fn translate(listed: &mut Vec<ListedGroup>, init: Pid) {
    let numbers = processes::groups_below(init);
    listed.retain_mut(|one| {
        let here = numbers.get(&one.group).copied();
        one.group = here.unwrap_or(one.group);
        here.is_some()
    });
}

impl Silence {
    /// `are_over`: whether the program has something to say.
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

impl Part<'_> {
    fn enforce(&self, stage: &mut Stage, terms: Terms, now: Time) -> Time {
        if terms.first() > now {
            *stage = Stage::Trusted;
            return terms.first();
        }
        match stage {
            Stage::Trusted if now < terms.kill_at() => {
                let kill_at = terms.kill_at();
                *stage = Stage::Warned { kill_at };
                self.warn();
                return kill_at;
            }
            Stage::Warned { kill_at } if now < *kill_at => return *kill_at,
            Stage::Trusted | Stage::Warned { .. } => {
                let search = Box::new(self.search());
                *stage = Stage::Ending {
                    search,
                    rounds: 0,
                    alive: 0,
                };
            }
            Stage::Ending { .. } => {}
        }
        let Stage::Ending {
            search,
            rounds,
            alive,
        } = stage
        else {
            return Time::NEVER;
        };
        *alive = self.round(search);
        *rounds += 1;
        if *rounds == 1 {
            say(&format!(
                "{} should be dead; killing them, and no others",
                self.name()
            ));
        }
        match *alive > 0 && *rounds < QUICK_ROUNDS {
            true => now + SWEEP_ROUND,
            false => now + SLOW_ROUND,
        }
    }

    fn name(&self) -> String {
        format!("the tasks of the program's scheduler {}", self.of.0 + 1)
    }

    /// What it should be told that SIGTERM is for: as the program would have done it.
    fn warn(&self) {
        let mut search = self.search();
        let found = search.look().ok().flatten().unwrap_or_default();
        for pid in found {
            if let Some(process) = processes::find(pid).filter(|one| one.parent == self.program) {
                signal_all_of(&process, Signal::SIGTERM);
            }
        }
        say(&format!(
            "the program did not end {} when it had to (is it stopped, or does it hang?); sent them SIGTERM",
            self.name()
        ));
    }

    fn search(&self) -> Search {
        let entry = format!("{KEPT_FOR_VARIABLE}={}", self.marker.of(self.of.0));
        Search::new(Some(entry.into_bytes()), self.listed())
    }

    fn listed(&self) -> Numbers {
        let folder = self.places.as_ref().and_then(|file| file.parent());
        let folder = folder.map(Path::to_owned);
        // Without the list the marks are left.
        let all = folder.and_then(|folder| aside::run(move || GroupList::read(&folder).ok()));
        let mut listed = all.flatten().unwrap_or_default();
        listed.groups.retain(|group| group.association == self.of);
        if self.is_in_namespace {
            translate(&mut listed.groups, self.program);
            return Numbers::translated(listed);
        }
        Numbers::of_living_worker(listed)
    }

    /// Kills what is there; how many there were.
    fn round(&self, search: &mut Search) -> usize {
        if let Some(places) = &self.places {
            let (places, program, of) = (places.clone(), self.program, self.of);
            let _ = aside::run(move || places::sweep_part(&places, program, of));
        }
        search.list(self.listed());
        for _ in 0..MOST_LOOKS {
            let Ok(Some(fresh)) = search.look() else {
                break;
            };
            for pid in fresh {
                let _ = kill(pid, Signal::SIGSTOP);
            }
        }
        let alive = search.alive();
        for pid in &alive {
            let _ = kill(*pid, Signal::SIGKILL);
        }
        alive.len()
    }
}
