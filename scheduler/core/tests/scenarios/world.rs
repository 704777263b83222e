//! A scheduler core with its environment: virtual time, a store that can fail, and workers that the scenario plays.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use brasserie_common::resources::UsablePhysicalResources;
use brasserie_common::worker::{Intake, PROTOCOL_VERSION, Supply};
use brasserie_common::{
    CallId, CallOutcome, MachinePortLock, Principal, RecordSeq, RequestId, RunningTask,
    ServiceAddress, Standing, Time, Timeouts, WallTime, WorkerDescription, WorkerId, WorkerSetId,
};
use brasserie_common_config::{Config, NodeSource, ScheduleMemory, Since, Zone};
use brasserie_scheduler_core::credits::RequestPolicy;
use brasserie_scheduler_core::{
    CallReply, ConfigOrigin, Durable, Event, Options, Record, Retention, Scheduler,
};
use brasserie_scheduler_engine::{NodeTableBuilder, TimesGiven};

use crate::behave::Routine;
use crate::names::Names;
use crate::transcript::{Player, Words};

/// Wall time, in seconds, at virtual time zero.
pub const EPOCH: i64 = 1_700_000_000;
/// Longer than every deadline of the default timeouts, so that no deadline is before time zero.
const FIRST_TIME: Duration = Duration::from_secs(1000);
/// How far back schedules catch up with missed times.
const CATCH_UP: Duration = Duration::from_secs(600);
/// The time after which the core itself abandons a call.
const CALL_DEADLINE: Duration = Duration::from_secs(5);

/// When records reach the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    /// The store syncs at the end of each turn.
    SyncsAtOnce,
    /// The store syncs at the command `sync`.
    WaitsForSync,
}

/// A worker that the scenario plays.
pub struct Peer {
    pub description: WorkerDescription,
    /// The set that its next heartbeat echoes: that of the last answer that reached it.
    pub told: WorkerSetId,
    pub last_beat: Time,
    pub interface: Interface,
}

/// The parts of a set id that a worker returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interface {
    /// The worker returns all of it.
    Ours,
    /// A peer of the original interface omits the digest and the mark "settled", which it does not know.
    Original,
}

impl Peer {
    /// Returns the set as this worker stores it.
    pub fn keeps(&self, mut set: WorkerSetId) -> WorkerSetId {
        match self.interface {
            Interface::Ours => {}
            Interface::Original => {
                set.hash.digest = None;
                set.standing = Standing::Unsettled;
            }
        }
        set
    }
}

/// A call that left and that the scenario has not answered.
pub struct OpenCall {
    pub id: CallId,
    pub worker: WorkerId,
}

/// A request to the scheduler.
#[derive(Clone)]
pub enum Asked {
    Heartbeat { worker: String },
    Other { text: String },
}

/// A reply that waits for a record.
pub struct Held {
    pub request: RequestId,
    pub asked: Asked,
    pub after: RecordSeq,
    pub text: String,
    /// The worker that receives this reply, and the set in it.
    pub news: Option<(String, WorkerSetId)>,
}

pub struct World {
    pub now: Time,
    pub scheduler: Option<Scheduler>,
    pub durable: Durable,
    pub backup: Option<Durable>,
    pub unsynced: Vec<(RecordSeq, Record)>,
    pub store: Store,
    pub config: Option<Arc<Config>>,
    /// Configurations whose nodes the scenario loads later, the latest last.
    pub nodes_to_come: Vec<Arc<Config>>,
    /// Times that schedules have given, as the process knows them.
    schedule_memory: ScheduleMemory,
    /// Timeouts of the running scheduler.
    pub timeouts: Timeouts,
    pub names: Names,
    pub peers: BTreeMap<String, Peer>,
    /// Tasks by the names of their calls, such as `run#1` and `check#2`, including runs that were only listed.
    pub tasks: BTreeMap<String, RunningTask>,
    pub calls: BTreeMap<String, OpenCall>,
    pub asked: BTreeMap<RequestId, Asked>,
    pub held: Vec<Held>,
    /// Every set that a reply contained or the scenario declared.
    pub sets: BTreeMap<String, WorkerSetId>,
    pub routine: Routine,
    pub out: Vec<String>,
    requests: u64,
    starts: u64,
}

impl World {
    pub fn new() -> Self {
        World {
            now: Time::ZERO + FIRST_TIME,
            scheduler: None,
            durable: Durable::default(),
            backup: None,
            unsynced: Vec::new(),
            store: Store::SyncsAtOnce,
            config: None,
            nodes_to_come: Vec::new(),
            schedule_memory: ScheduleMemory::default(),
            timeouts: Timeouts::default(),
            names: Names::default(),
            peers: BTreeMap::new(),
            tasks: BTreeMap::new(),
            calls: BTreeMap::new(),
            asked: BTreeMap::new(),
            held: Vec::new(),
            sets: BTreeMap::new(),
            routine: Routine::default(),
            out: Vec::new(),
            requests: 0,
            starts: 0,
        }
    }

    pub fn wall(&self) -> WallTime {
        WallTime::from_secs(EPOCH) + self.now.since(Time::ZERO)
    }

    pub fn say(&mut self, line: impl Into<String>) {
        self.out.push(line.into());
    }

    pub fn core(&mut self) -> Result<&mut Scheduler, String> {
        self.scheduler
            .as_mut()
            .ok_or_else(|| "no scheduler runs; `start` one".to_owned())
    }

    /// Starts a new scheduler instance on the synced data.
    pub fn start(&mut self, options: Options) -> Result<(), String> {
        if self.scheduler.is_some() {
            return Err("a scheduler runs; `crash` or `restart` it".to_owned());
        }
        let (now, wall) = (self.now, self.wall());
        self.timeouts = options.timeouts;
        self.schedule_memory = self.durable.schedule_memory();
        let scheduler = Scheduler::new(options, self.durable.clone(), now, wall);
        let name = self.names.next_scheduler(scheduler.id());
        self.scheduler = Some(scheduler);
        self.say(format!("{name} starts"));
        self.turn()?;
        match self.config.clone() {
            Some(config) => self.load(config),
            None => Ok(()),
        }
    }

    /// Returns the defaults of the flags. Each instance draws other ids.
    pub fn options(&mut self) -> Options {
        self.starts += 1;
        Options {
            timeouts: Timeouts::default(),
            allow_bump_unhealthy_worker: false,
            startup_wait: None,
            new_cluster: false,
            call_deadline: CALL_DEADLINE,
            // Workers may send requests as often as they like, unless the scenario sets a limit.
            work: RequestPolicy {
                min_request_interval: Duration::ZERO,
                max_requests_per_second: 0,
                ..RequestPolicy::default()
            },
            retention: Retention::UNLIMITED,
            slots: brasserie_scheduler_core::SlotStrategy::RoundRobin,
            seed: self.starts,
        }
    }

    /// Ends the process. Everything that was not synced is lost.
    pub fn crash(&mut self) -> Result<(), String> {
        let id = self.core()?.id();
        let name = self.names.scheduler(id);
        self.scheduler = None;
        self.calls.clear();
        self.asked.clear();
        let lost: Vec<String> = std::mem::take(&mut self.unsynced)
            .into_iter()
            .map(|(seq, _)| format!("#{}", seq.0))
            .collect();
        self.say(format!("{name} is gone"));
        if !lost.is_empty() {
            self.say(format!("lost with it: {}", lost.join(", ")));
        }
        for held in std::mem::take(&mut self.held) {
            self.say(format!("never sent: {}", held.text));
        }
        Ok(())
    }

    pub fn load(&mut self, config: Arc<Config>) -> Result<(), String> {
        self.load_without_nodes(Arc::clone(&config))?;
        self.load_nodes(config)
    }

    pub fn load_without_nodes(&mut self, config: Arc<Config>) -> Result<(), String> {
        self.config = Some(Arc::clone(&config));
        self.event(Event::ConfigLoaded {
            config,
            warnings: Vec::new(),
            origin: ConfigOrigin::Given,
        })
    }

    /// Loads the nodes that the sources of this configuration give.
    pub fn load_nodes(&mut self, config: Arc<Config>) -> Result<(), String> {
        let mut nodes = NodeTableBuilder::new("instance", &config);
        let mut times = TimesGiven::default();
        let now = self.wall();
        for source in &config.node_sources {
            match source {
                NodeSource::Manual(list) => nodes.add_manual(list).map_err(|e| e.to_string())?,
                NodeSource::AddTime(source) => {
                    let since = Since {
                        memory: &self.schedule_memory,
                        window: CATCH_UP,
                    };
                    let due = source.due_since(&since, now, &Zone::utc(), &mut times.memory);
                    let due = due.map_err(|e| e.to_string())?;
                    let given_up = due.given_up.iter().map(ToString::to_string);
                    times.given_up.extend(given_up);
                    let added = nodes.add_time(source, &due.times);
                    added.map_err(|e| e.to_string())?;
                }
                NodeSource::Empty | NodeSource::RangeLabel(_) | NodeSource::Script(_) => {}
            }
        }
        let before = &self.schedule_memory;
        times.memory.remember_absent(before, now, CATCH_UP);
        self.schedule_memory = times.memory.clone();
        self.event(Event::NodesLoaded {
            nodes: Arc::new(nodes.finish().with_times(times)),
            config,
        })
    }

    pub fn event(&mut self, event: Event) -> Result<(), String> {
        let (now, wall) = (self.now, self.wall());
        let core = self.core()?;
        core.handle(now, Event::WallClock(wall));
        core.handle(now, event);
        self.turn()
    }

    /// Runs a turn whose only event is the time.
    pub fn look(&mut self) -> Result<(), String> {
        let (now, wall) = (self.now, self.wall());
        self.core()?.handle(now, Event::WallClock(wall));
        self.turn()
    }

    fn turn(&mut self) -> Result<(), String> {
        let now = self.now;
        self.core()?.handle_timeout(now);
        while let Some(effect) = self.core()?.poll_effect() {
            self.effect(effect)?;
        }
        if self.store == Store::SyncsAtOnce && !self.unsynced.is_empty() {
            self.sync()?;
        }
        Ok(())
    }

    /// Makes every record durable, sends the replies that waited for them, and notifies the scheduler.
    pub fn sync(&mut self) -> Result<(), String> {
        let mut up_to = None;
        for (seq, record) in std::mem::take(&mut self.unsynced) {
            self.durable.apply(&record);
            up_to = Some(seq);
        }
        let Some(up_to) = up_to else {
            return Ok(());
        };
        if self.store == Store::WaitsForSync {
            self.say(format!("durable: up to #{}", up_to.0));
        }
        let (leave, stay) = std::mem::take(&mut self.held)
            .into_iter()
            .partition(|held| held.after <= up_to);
        self.held = stay;
        let leave: Vec<Held> = leave;
        for held in leave {
            if self.store == Store::WaitsForSync {
                self.say(format!("leaves now: {}", held.text));
            }
            self.deliver(held.news);
        }
        self.event(Event::Persisted { up_to })
    }

    /// Delivers a heartbeat answer to its worker.
    pub fn deliver(&mut self, news: Option<(String, WorkerSetId)>) {
        if let Some((worker, set)) = news
            && let Some(peer) = self.peers.get_mut(&worker)
        {
            peer.told = peer.keeps(set);
        }
    }

    pub fn ask(&mut self, asked: Asked) -> RequestId {
        self.requests += 1;
        let request = RequestId(self.requests);
        self.asked.insert(request, asked);
        request
    }

    pub fn add_peer(&mut self, name: &str, words: &mut Words<'_>) -> Result<(), String> {
        let mut description = WorkerDescription {
            shard: name.try_into().map_err(|e| format!("{e}"))?,
            machine_lock: MachinePortLock {
                hostname: "host".into(),
                port: 0,
            },
            address: ServiceAddress {
                host: name.into(),
                port: 1,
            },
            id: WorkerId::default(),
            heartbeat_period: Duration::from_secs(15),
            protocol_version: PROTOCOL_VERSION,
            usable: UsablePhysicalResources {
                cpu_cores: 2.0,
                ..UsablePhysicalResources::default()
            },
            has_worker_command: false,
            intake: Intake::Open,
            supply: Supply::AsSlotsAllow,
            room: None,
            containment: None,
            log_folder: None,
            takes_standby: false,
        };
        description.id.0.rand = i64::try_from(self.peers.len()).map_err(|e| e.to_string())? + 1;
        let mut interface = Interface::Ours;
        while let Some(key) = words.next() {
            match key {
                "cores" => {
                    description.usable.cpu_cores = words.number("a number of cores")?;
                }
                "original" => interface = Interface::Original,
                "standby" => description.takes_standby = true,
                "shard" => {
                    let shard = words.word("a shard")?;
                    description.shard = shard.try_into().map_err(|e| format!("{e}"))?;
                }
                "lock" => description.machine_lock = lock(words.word("host:port")?)?,
                "start" => description.id.0.start_time = words.number("a start time")?,
                "period" => description.heartbeat_period = words.duration("a period")?,
                "protocol" => description.protocol_version = words.number("a version")?,
                other => return Err(format!("`{other}` is nothing that workers have")),
            }
        }
        if description.machine_lock.port == 0 || description.id.0.start_time == 0 {
            return Err("a worker needs `lock host:port` and `start N`".to_owned());
        }
        self.names.name_worker(description.id, name.to_owned())?;
        let peer = Peer {
            description,
            told: WorkerSetId::default(),
            last_beat: Time::ZERO,
            interface,
        };
        self.peers.insert(name.to_owned(), peer);
        Ok(())
    }

    pub fn peer(&self, name: &str) -> Result<&Peer, String> {
        self.peers
            .get(name)
            .ok_or_else(|| format!("no worker is called `{name}`"))
    }

    pub fn heartbeat(
        &mut self,
        name: &str,
        worker: WorkerDescription,
        worker_set: WorkerSetId,
        goodbye: bool,
    ) -> Result<(), String> {
        let now = self.now;
        if let Some(peer) = self.peers.get_mut(name) {
            peer.last_beat = now;
        }
        let request = self.ask(Asked::Heartbeat {
            worker: name.to_owned(),
        });
        self.event(Event::Heartbeat {
            request,
            from: Principal::Own,
            worker: Box::new(worker),
            worker_set,
            goodbye,
        })
    }

    pub fn complete(
        &mut self,
        call: CallId,
        outcome: CallOutcome<CallReply>,
    ) -> Result<(), String> {
        self.event(Event::CallCompleted { call, outcome })
    }
}

pub fn lock(text: &str) -> Result<MachinePortLock, String> {
    let bad = || format!("`{text}` is no host:port");
    let (host, port) = text.split_once(':').ok_or_else(bad)?;
    Ok(MachinePortLock {
        hostname: host.into(),
        port: port.parse().map_err(|_| bad())?,
    })
}

impl Player for World {
    fn play(&mut self, command: &str) -> Result<Vec<String>, String> {
        self.command(command)?;
        Ok(std::mem::take(&mut self.out))
    }

    fn unshown(&mut self) -> Vec<String> {
        let mut left = std::mem::take(&mut self.out);
        if let Some(core) = &mut self.scheduler {
            left.extend(std::iter::from_fn(|| core.poll_effect()).map(|e| format!("{e:?}")));
        }
        left
    }
}
