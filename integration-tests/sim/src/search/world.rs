//! A small world: hosts, packets, disks, processes, and one clock for all.

mod choices;
mod lives;
mod packets;
mod shape;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::{CallId, InvocationId, TaskKey, Time, WallTime, WorkerId};
use brasserie_common_config::Config;
use brasserie_scheduler_core::Durable;
use brasserie_scheduler_engine::NodeTable;

use packets::Packet;

use super::judge::{Broken, Judge};
use super::settings::{FaultBudget, PacketClass, Second, TaskExit, TasksCome, WorldSettings};
use crate::disk::Directory;
use crate::event_log::{CallTag, Happening, Run, SchedulerPlace, WorkerPlace};
use crate::hosts::scheduler::{SchedulerHost, SchedulerInput};
use crate::hosts::worker::{WorkerHost, WorkerInput};

/// Unix seconds at [`Time::ZERO`].
const EPOCH: i64 = 1_700_000_000;
/// When worlds begin: late enough that every earlier time can be expressed.
const BEGIN: Duration = Duration::from_secs(10_000);
/// The most inputs that may follow from one choice before time advances. A world of two workers and two tasks needs fewer than a hundred;
/// more than this means a storm.
const MAX_TURNS_A_MOMENT: usize = 2000;

/// Longer than any call of a small world needs, and shorter than its leaps of time.
const CALL_DEADLINE: Duration = Duration::from_secs(3);
/// The place of the only or the first scheduler.
const FIRST: SchedulerPlace = SchedulerPlace(0);
const SECOND: SchedulerPlace = SchedulerPlace(1);
const BOTH: [SchedulerPlace; 2] = [FIRST, SECOND];

/// The party that waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Caller {
    Scheduler(SchedulerPlace),
    Worker(WorkerPlace),
}

/// A call whose caller waits for the answer.
#[derive(Clone, Copy, Debug)]
struct OpenCall {
    pub caller: Caller,
    pub call: CallId,
    /// The worker at one end of the call, whichever side calls.
    pub worker: WorkerPlace,
    pub class: PacketClass,
    /// When the caller gives up by itself. A packet still under way is then dropped: late arrivals are a fault with a budget
    /// ([`FaultBudget::breaks`]).
    pub until: Time,
}

/// The surroundings of a worker process.
#[derive(Clone, Debug)]
struct Post {
    pub is_cut: bool,
    pub last_start_time: i64,
    /// The last instance that began there.
    pub worker: Option<WorkerId>,
    pub route: SchedulerPlace,
}

/// A process of a task.
#[derive(Clone, Debug)]
struct TaskProcess {
    pub place: WorkerPlace,
    pub generation: u32,
    pub key: TaskKey,
    pub invocation: InvocationId,
    pub task: crate::event_log::TaskId,
    /// The time by which a signalled process is dead.
    pub dies_by: Option<Time>,
}

/// Whether free packets wait for a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    Chosen,
    /// Packets arrive and disks sync at once, and tasks end by themselves after a second.
    AllAtOnce,
}

/// The whole small world. The search clones it for each choice.
#[derive(Clone, Debug)]
pub struct SmallWorld {
    settings: Arc<WorldSettings>,
    now: Time,
    budget: FaultBudget,
    schedulers: Vec<SchedulerHost>,
    workers: Vec<WorkerHost>,
    posts: Vec<Post>,
    directories: Vec<Directory>,
    backup: Option<Durable>,
    processes: Vec<TaskProcess>,
    /// Packets that wait for a choice.
    packets: Vec<Packet>,
    /// Packets that arrive before anything else happens.
    express: VecDeque<Packet>,
    open: BTreeMap<CallTag, OpenCall>,
    judge: Judge,
    pace: Pace,
    config: (Arc<Config>, Arc<NodeTable>),
    /// Schedulers load the configuration when they start.
    has_config: bool,
    /// No scheduler has started yet.
    is_first: bool,
    /// The number of identities drawn so far.
    drawn: u64,
    log: Vec<Happening>,
    keeps_log: bool,
    history: Vec<(Time, Happening)>,
}

impl SmallWorld {
    /// Creates the world at the point where the search begins.
    pub fn new(settings: &WorldSettings) -> Self {
        let places = settings.places.len();
        let mut world = SmallWorld {
            now: Time::ZERO + BEGIN,
            budget: settings.budget,
            schedulers: [FIRST, SECOND]
                .map(|place| match settings.keeps_answered {
                    true => SchedulerHost::new(place).with_memory(),
                    false => SchedulerHost::new(place),
                })
                .into(),
            workers: (0..places)
                .map(|at| WorkerHost::new(WorkerPlace(at as u16)))
                .collect(),
            posts: vec![
                Post {
                    is_cut: false,
                    last_start_time: 0,
                    worker: None,
                    route: FIRST,
                };
                places
            ],
            directories: vec![Directory::default(), Directory::default()],
            backup: None,
            processes: Vec::new(),
            packets: Vec::new(),
            express: VecDeque::new(),
            open: BTreeMap::new(),
            judge: Judge::new(settings.second == Second::OwnDirectory),
            pace: Pace::AllAtOnce,
            config: settings.config(),
            has_config: settings.tasks_come == TasksCome::AtOnce,
            is_first: true,
            drawn: 0,
            log: Vec::new(),
            keeps_log: false,
            history: Vec::new(),
            settings: Arc::new(settings.clone()),
        };
        if settings.settle == 0 {
            world.pace = Pace::Chosen;
        }
        world.start_scheduler(FIRST);
        for &place in settings.present {
            world.start_worker(WorkerPlace(u16::from(place)));
        }
        world.quiesce();
        world.pass(Duration::from_secs(settings.settle));
        world.pace = Pace::Chosen;
        if settings.tasks_come == TasksCome::WhenSettled {
            world.submit();
        }
        world.quiesce();
        for choice in settings.opening {
            world.apply(*choice);
        }
        world
    }

    pub fn broken(&self) -> Option<&Broken> {
        self.judge.broken.as_ref()
    }

    pub fn now(&self) -> Time {
        self.now
    }

    /// Returns the happenings since [`SmallWorld::keep_log`].
    pub fn history(&self) -> &[(Time, Happening)] {
        &self.history
    }

    pub fn keep_log(&mut self) {
        self.keeps_log = true;
    }

    fn wall(&self) -> WallTime {
        WallTime::from_secs(EPOCH) + self.now.since(Time::ZERO)
    }

    fn scheduler(&self, place: SchedulerPlace) -> &SchedulerHost {
        &self.schedulers[usize::from(place.0)]
    }

    fn worker(&self, place: WorkerPlace) -> &WorkerHost {
        &self.workers[usize::from(place.0)]
    }

    fn post(&self, place: WorkerPlace) -> &Post {
        &self.posts[usize::from(place.0)]
    }

    fn post_mut(&mut self, place: WorkerPlace) -> &mut Post {
        &mut self.posts[usize::from(place.0)]
    }

    fn directory(&self, place: SchedulerPlace) -> &Directory {
        &self.directories[usize::from(place.0)]
    }

    fn directory_mut(&mut self, place: SchedulerPlace) -> &mut Directory {
        &mut self.directories[usize::from(place.0)]
    }

    /// Returns whether a crash may still lose unsynced records.
    fn syncs_by_choice(&self) -> bool {
        self.pace == Pace::Chosen
            && self.budget.scheduler_crashes > 0
            && !self.settings.syncs_at_once
    }

    fn sync(&mut self, place: SchedulerPlace) {
        let up_to = self.directory(place).written();
        self.directory_mut(place).sync(up_to);
        self.drive_scheduler(place, SchedulerInput::Persisted(up_to));
    }

    fn drive_scheduler(&mut self, place: SchedulerPlace, input: SchedulerInput) {
        let (now, wall) = (self.now, self.wall());
        let mut out = Vec::new();
        let host = &mut self.schedulers[usize::from(place.0)];
        host.turn(now, wall, &mut vec![input], &mut out, &mut self.log);
        self.scheduler_outputs(place, out);
    }

    fn drive_worker(&mut self, place: WorkerPlace, input: WorkerInput) {
        let (now, wall) = (self.now, self.wall());
        let mut out = Vec::new();
        let host = &mut self.workers[usize::from(place.0)];
        host.turn(now, wall, &mut vec![input], &mut out, &mut self.log);
        self.worker_outputs(place, out);
    }

    /// Passes the happenings to the judge.
    fn tell(&mut self) {
        for happening in std::mem::take(&mut self.log) {
            self.judge.observe(&happening);
            if self.keeps_log {
                self.history.push((self.now, happening));
            }
        }
    }

    /// Performs all steps of this moment that need no choice.
    fn quiesce(&mut self) {
        for _ in 0..MAX_TURNS_A_MOMENT {
            self.tell();
            if !self.next_at_once() {
                return;
            }
        }
        panic!(
            "a storm in the small world `{}`: {MAX_TURNS_A_MOMENT} turns in one moment",
            self.settings.name
        );
    }

    fn next_at_once(&mut self) -> bool {
        if let Some(packet) = self.express.pop_front() {
            self.arrive(packet);
            return true;
        }
        for at in 0..self.schedulers.len() {
            let place = self.schedulers[at].place();
            let directory = self.directory(place);
            let behind = directory.written() != directory.synced();
            if behind && sabotage::on(Sabotage::AcknowledgeBeforeSync) {
                let up_to = directory.written();
                if self.scheduler(place).persisted() < up_to {
                    self.drive_scheduler(place, SchedulerInput::Persisted(up_to));
                    return true;
                }
            }
            if behind && !self.syncs_by_choice() {
                self.sync(place);
                return true;
            }
            if self.schedulers[at].due().is_some_and(|due| due <= self.now) {
                self.drive_scheduler(place, SchedulerInput::Wake);
                return true;
            }
        }
        for at in 0..self.workers.len() {
            if self.workers[at].due().is_some_and(|due| due <= self.now) {
                self.drive_worker(self.workers[at].place(), WorkerInput::Wake);
                return true;
            }
        }
        let now = self.now;
        let dead = |p: &TaskProcess| p.dies_by.is_some_and(|by| by <= now);
        if let Some(at) = self.processes.iter().position(dead) {
            self.process_ends(at, TaskExit::Killed);
            return true;
        }
        false
    }

    /// Advances time by `lasts`. Steps that are due meanwhile happen in order.
    fn pass(&mut self, lasts: Duration) {
        self.go_on(lasts, |_| false);
    }

    /// Advances time by `lasts`, or until there is a choice that comes before any time.
    fn pass_to_next(&mut self, lasts: Duration) {
        self.go_on(lasts, SmallWorld::is_something_under_way);
    }

    fn go_on(&mut self, lasts: Duration, is_enough: impl Fn(&SmallWorld) -> bool) {
        let until = self.now + lasts;
        self.quiesce();
        while let Some(at) = self.next_timer().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.give_up_late_calls();
            self.quiesce();
            if is_enough(self) {
                return;
            }
        }
        self.now = until;
        self.give_up_late_calls();
        self.quiesce();
    }

    /// Returns whether a packet could arrive or a record could reach the disk.
    fn is_something_under_way(&self) -> bool {
        // A packet that no caller waits for may take any time.
        let arrives = |packet: &Packet| self.is_awaited(packet.tag()) && !self.is_blocked(packet);
        let syncs = |place| self.scheduler(place).core().is_some() && self.unsynced(place) > 0;
        self.packets.iter().any(arrives) || BOTH.into_iter().any(syncs)
    }

    fn give_up_late_calls(&mut self) {
        let now = self.now;
        let packets = &mut self.packets;
        self.open.retain(|tag, open| {
            let is_late = open.until <= now;
            if is_late {
                packets.retain(|packet| packet.tag() != *tag);
            }
            !is_late
        });
    }

    fn next_timer(&self) -> Option<Time> {
        let schedulers = self.schedulers.iter().filter_map(SchedulerHost::due);
        let workers = self.workers.iter().filter_map(WorkerHost::due);
        let processes = self.processes.iter().filter_map(|p| p.dies_by);
        schedulers.chain(workers).chain(processes).min()
    }

    fn alive(&self, run: Run) -> usize {
        self.processes.iter().filter(|p| p.task == run.task).count()
    }

    /// Returns the number of records that a crash would lose now.
    fn unsynced(&self, place: SchedulerPlace) -> usize {
        self.directory(place).unsynced().count()
    }
}
