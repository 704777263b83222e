//! The steps that can happen next in a small world, and their execution.

use std::fmt;
use std::time::Duration;

use brasserie_common::sabotage::{self, Sabotage};

use super::packets::{Packet, PacketContent};
use super::{BOTH, FIRST, Pace, SECOND, SmallWorld};
use crate::event_log::{SchedulerPlace, WorkerPlace};
use crate::search::settings::{Choice, Second, TaskExit, TasksCome};

impl SmallWorld {
    /// Returns all steps that can happen now, in a fixed order.
    pub fn choices(&self) -> Vec<Choice> {
        let mut choices = Vec::new();
        self.packet_choices(&mut choices);
        self.scheduler_choices(&mut choices);
        self.worker_choices(&mut choices);
        for (at, process) in self.processes.iter().enumerate() {
            if process.dies_by.is_some() {
                choices.push(Choice::End(at, TaskExit::Killed));
                continue;
            }
            choices.push(Choice::End(at, TaskExit::Done));
            if self.budget.failures > 0 {
                choices.push(Choice::End(at, TaskExit::Error));
            }
        }
        let may_pass = self.budget.delays > 0 || !self.is_something_under_way();
        if self.budget.leaps > 0 && may_pass {
            choices.extend(self.settings.leaps.iter().map(|secs| Choice::Leap(*secs)));
        }
        choices
    }

    fn packet_choices(&self, choices: &mut Vec<Choice>) {
        for (at, packet) in self.packets.iter().enumerate() {
            if !self.is_blocked(packet) {
                choices.push(Choice::Deliver(at));
                let is_request = !matches!(packet, Packet::Back { .. });
                if is_request && self.budget.duplicates > 0 {
                    choices.push(Choice::Duplicate(at));
                }
            }
            if self.budget.drops > 0 {
                choices.push(Choice::Drop(at));
            }
            // Giving up a call that already has an answer equals losing that answer.
            let is_request = !matches!(packet, Packet::Back { .. });
            if is_request && self.budget.breaks > 0 && self.is_awaited(packet.tag()) {
                choices.push(Choice::GiveUp(at));
            }
        }
    }

    fn scheduler_choices(&self, choices: &mut Vec<Choice>) {
        for place in BOTH {
            if self.scheduler(place).core().is_some() {
                let unsynced = self.unsynced(place);
                if unsynced > 0 {
                    choices.push(Choice::Sync(place));
                }
                if self.budget.scheduler_crashes > 0 {
                    choices
                        .extend((0..=unsynced).map(|kept| Choice::CrashScheduler { place, kept }));
                }
            }
        }
        if self.may_start_scheduler(FIRST) {
            choices.push(Choice::StartScheduler(FIRST));
            if self.backup.is_some() {
                choices.push(Choice::StartOnBackup);
            }
            if self.budget.losses > 0 {
                choices.push(Choice::StartOnNothing);
            }
        }
        let is_let_in = match self.settings.second {
            // R1: the lock keeps the second scheduler out unless the first is gone, and then it would act like the first.
            Second::SameDirectory => sabotage::on(Sabotage::ShareDirectory),
            Second::OwnDirectory => true,
        };
        if self.budget.second_schedulers > 0 && is_let_in && self.may_start_scheduler(SECOND) {
            choices.push(Choice::StartSecond);
        }
        if self.settings.tasks_come == TasksCome::ByChoice && !self.has_config {
            choices.push(Choice::Submit);
        }
        if self.budget.backups > 0 {
            choices.push(Choice::Backup);
        }
    }

    fn worker_choices(&self, choices: &mut Vec<Choice>) {
        for at in 0..self.workers.len() {
            let place = WorkerPlace(at as u16);
            let is_alive = self.worker(place).core().is_some();
            if is_alive && self.budget.worker_kills > 0 {
                choices.push(Choice::KillWorker(place));
                if self.budget.keeper_kills > 0 {
                    choices.push(Choice::KillWorkerAndKeeper(place));
                }
            }
            if self.budget.worker_starts > 0 && self.may_start_worker(place) {
                choices.push(Choice::StartWorker(place));
            }
            if is_alive && self.budget.reroutes > 0 {
                choices.push(Choice::Reroute(place));
            }
            if self.budget.forgets > 0 && self.may_forget(place) {
                choices.push(Choice::Forget(place));
            }
            if self.post(place).is_cut {
                choices.push(Choice::Heal(place));
            } else if is_alive && self.budget.cuts > 0 {
                choices.push(Choice::Cut(place));
            }
        }
    }

    /// Performs the step and everything that follows at once.
    #[expect(clippy::too_many_lines, reason = "one arm a choice")]
    pub fn apply(&mut self, choice: Choice) {
        match choice {
            Choice::Deliver(at) => {
                let packet = self.packets.remove(at);
                self.arrive(packet);
            }
            Choice::Duplicate(at) => {
                self.budget.duplicates -= 1;
                let packet = self.packets[at].clone();
                self.packets[at].nobody_waits();
                self.arrive(packet);
            }
            Choice::Drop(at) => {
                self.budget.drops -= 1;
                let packet = self.packets.remove(at);
                self.fail(packet.tag(), PacketContent::Unknown);
            }
            Choice::GiveUp(at) => {
                self.budget.breaks -= 1;
                self.fail(self.packets[at].tag(), PacketContent::Unknown);
            }
            Choice::Sync(place) => self.sync(place),
            Choice::CrashScheduler { place, kept } => {
                self.budget.scheduler_crashes -= 1;
                self.scheduler_gone(place, kept);
            }
            Choice::StartScheduler(place) => self.start_scheduler(place),
            Choice::StartOnBackup | Choice::StartOnNothing => {
                self.start_without_the_present(choice)
            }
            Choice::StartSecond => {
                self.budget.second_schedulers -= 1;
                if self.settings.second == Second::SameDirectory {
                    let shared = self.directory(FIRST).durable().clone();
                    self.directory_mut(SECOND).restore(shared);
                }
                self.start_scheduler(SECOND);
            }
            Choice::Backup => {
                self.budget.backups -= 1;
                self.backup = Some(self.directory(FIRST).durable().clone());
            }
            Choice::Submit => self.submit(),
            Choice::KillWorkerAndKeeper(place) => {
                self.budget.worker_kills -= 1;
                self.budget.keeper_kills -= 1;
                self.worker_and_keeper_gone(place);
            }
            Choice::KillWorker(place) => {
                self.budget.worker_kills -= 1;
                // A worker answers at once, so its callers wait only for packets.
                self.worker_gone(place);
            }
            Choice::StartWorker(place) => {
                self.budget.worker_starts -= 1;
                self.start_worker(place);
            }
            Choice::Reroute(place) => {
                self.budget.reroutes -= 1;
                let post = self.post_mut(place);
                post.route = SchedulerPlace(1 - post.route.0);
                self.drive_worker(place, crate::hosts::worker::WorkerInput::ConnectionLost);
            }
            Choice::Forget(place) => {
                self.budget.forgets -= 1;
                self.forget_worker(place);
            }
            Choice::Cut(place) => {
                self.budget.cuts -= 1;
                self.post_mut(place).is_cut = true;
            }
            Choice::Heal(place) => self.post_mut(place).is_cut = false,
            Choice::End(at, how) => self.process_ends(at, how),
            Choice::Leap(secs) => {
                self.budget.leaps -= 1;
                if self.is_something_under_way() {
                    self.budget.delays -= 1;
                    self.pass(Duration::from_secs(secs));
                } else {
                    self.pass_to_next(Duration::from_secs(secs));
                }
            }
        }
        self.quiesce();
    }

    /// Starts a scheduler on a directory of which the operator lost a part.
    fn start_without_the_present(&mut self, choice: Choice) {
        if choice == Choice::StartOnBackup {
            let backup = self.backup.take().unwrap_or_default();
            self.directory_mut(FIRST).restore(backup);
        } else {
            self.budget.losses -= 1;
            self.directory_mut(FIRST).lose();
        }
        self.judge.forgives();
        self.start_scheduler(FIRST);
    }

    /// Returns a readable description of the step.
    pub fn describe_choice(&self, choice: Choice) -> String {
        match choice {
            Choice::Deliver(at) => format!("{} arrives", Shown(&self.packets[at], self)),
            Choice::Duplicate(at) => format!(
                "{} arrives, and a copy stays on its way",
                Shown(&self.packets[at], self)
            ),
            Choice::Drop(at) => format!("{} is lost", Shown(&self.packets[at], self)),
            Choice::GiveUp(at) => format!(
                "the caller gives up, while {} is still on its way",
                Shown(&self.packets[at], self)
            ),
            Choice::Sync(place) => format!("the disk of scheduler place {} syncs", place.0),
            Choice::CrashScheduler { place, kept } => format!(
                "the scheduler in place {} crashes; of {} records that are not synced {kept} are kept",
                place.0,
                self.unsynced(place)
            ),
            Choice::StartScheduler(_) => "a scheduler starts".to_owned(),
            Choice::StartOnBackup => "the old copy is put back, and a scheduler starts".to_owned(),
            Choice::StartOnNothing => "the directory is lost, and a scheduler starts".to_owned(),
            Choice::StartSecond => match self.settings.second {
                Second::SameDirectory => {
                    "a second scheduler starts on the same directory".to_owned()
                }
                Second::OwnDirectory => {
                    "a second scheduler starts on an empty directory".to_owned()
                }
            },
            Choice::Submit => "the tasks are submitted".to_owned(),
            Choice::Backup => "the directory is copied".to_owned(),
            Choice::KillWorkerAndKeeper(place) => {
                format!(
                    "kill -9 of the worker in place {} and of its keeper",
                    place.0
                )
            }
            Choice::KillWorker(place) => format!("kill -9 of the worker in place {}", place.0),
            Choice::StartWorker(place) => format!("a worker starts in place {}", place.0),
            Choice::Reroute(place) => {
                format!(
                    "the worker in place {} talks to the other scheduler now",
                    place.0
                )
            }
            Choice::Forget(place) => {
                format!("an operator declares the worker in place {} dead", place.0)
            }
            Choice::Cut(place) => format!("the link of worker place {} is cut", place.0),
            Choice::Heal(place) => format!("the link of worker place {} heals", place.0),
            Choice::End(at, how) => {
                let process = &self.processes[at];
                let (task, place) = (process.task, process.place.0);
                format!("the process of {task} on worker place {place} ends: {how:?}")
            }
            Choice::Leap(secs) => format!("{secs} s pass"),
        }
    }

    /// Checks that all work gets done if the world is calm from here on. Errors with the remaining work.
    pub fn probe(&self) -> Result<(), String> {
        let mut calm = self.clone();
        calm.pace = Pace::AllAtOnce;
        for post in &mut calm.posts {
            post.is_cut = false;
        }
        let waiting = std::mem::take(&mut calm.packets);
        calm.express.extend(waiting);
        let by = calm.now + Duration::from_secs(1);
        for process in &mut calm.processes {
            process.dies_by.get_or_insert(by);
        }
        calm.quiesce();
        for _ in 0..PROBES {
            let is_nobody = BOTH.iter().all(|p| calm.scheduler(*p).core().is_none());
            if is_nobody && calm.may_start_scheduler(FIRST) {
                calm.start_scheduler(FIRST);
            }
            for &place in self.settings.present {
                let place = WorkerPlace(u16::from(place));
                if calm.may_start_worker(place) {
                    calm.start_worker(place);
                }
            }
            calm.pass(PROBE_STEP);
            if calm.is_all_done() {
                return Ok(());
            }
            if let Some(broken) = calm.broken() {
                return Err(broken.0.clone());
            }
        }
        Err("TRAP: left alone in a calm world, its tasks are never done".to_owned())
    }

    /// Returns whether every task is done, no worker has anything left to report, and none obeys a scheduler that is gone.
    fn is_all_done(&self) -> bool {
        let directory = self.directory(FIRST).durable();
        let done = directory.statuses.values().filter(|(_, s)| s.is_done());
        let now = self.scheduler(FIRST).core().map(|core| core.id());
        done.count() >= usize::from(self.settings.tasks)
            && self
                .workers
                .iter()
                .filter_map(|host| host.core())
                .all(|core| {
                    // A worker that is refused because another one has its shard may be bound to any scheduler.
                    let is_obedient = core.scheduler() != now || core.bound_to() == now;
                    core.running_tasks().is_empty() && is_obedient
                })
    }
}

/// The number of checks of a calm world, one each [`PROBE_STEP`]. In a small world, 200 s cover a loss, a safe wait after it, the longest
/// safety wait and all retries several times.
const PROBES: u32 = 20;
const PROBE_STEP: Duration = Duration::from_secs(10);

struct Shown<'a>(&'a Packet, &'a SmallWorld);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let class = self
            .1
            .link_of(self.0)
            .map(|(place, class)| (place.0, class));
        let what = class.map_or("?".to_owned(), |(_, class)| format!("{class:?}"));
        match self.0 {
            Packet::ToScheduler { from, to, tag, .. } => {
                write!(
                    f,
                    "{what} #{} from worker place {} to scheduler place {}",
                    tag.0, from.0, to.0
                )
            }
            Packet::ToWorker { from, to, tag, .. } => {
                write!(
                    f,
                    "{what} #{} from scheduler place {} to worker place {}",
                    tag.0, from.0, to.0
                )
            }
            Packet::Back { tag, news } => {
                let news = match news {
                    PacketContent::ToScheduler(outcome) => short(&format!("{outcome:?}")),
                    PacketContent::ToWorker(outcome) => short(&format!("{outcome:?}")),
                    PacketContent::Unknown => "unknown".to_owned(),
                    PacketContent::NotSent => "not sent".to_owned(),
                };
                write!(f, "the answer to {what} #{} ({news})", tag.0)
            }
        }
    }
}

fn short(text: &str) -> String {
    text.chars().take(24).collect()
}
