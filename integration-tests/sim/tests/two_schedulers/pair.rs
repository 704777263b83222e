//! The world of one worker and its schedulers.

mod worker;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use brasserie_common::worker::PROTOCOL_VERSION;
use brasserie_common::{
    CallId, CallOutcome, InvocationId, MachinePortLock, RecordSeq, RequestId, ServiceAddress,
    Shard, TaskKey, Time, Timeouts, WallTime, WorkerDescription, WorkerId,
};
use brasserie_common_config::{Config, NodeSource, ParseOptions, parse};
use brasserie_scheduler_core::{
    Answer, Call, CallReply as SchedulerReply, Options as SchedulerOptions, Query,
};
use brasserie_scheduler_engine::{NodeTable, NodeTableBuilder};
use brasserie_worker_core::{
    AssociationIndex, AssociationOptions, Event, MemberList, Options, Profile, WorkFetch, Worker,
};
use integration_tests_sim::disk::Directory;
use integration_tests_sim::event_log::{Ask, CallTag, DirectoryId, SchedulerPlace};
use integration_tests_sim::hosts::ToScheduler;
use integration_tests_sim::hosts::scheduler::{SchedulerHost, SchedulerInput, SchedulerOutput};
use integration_tests_sim::hosts::worker::EventArrival;

/// The delay of one message.
const DELAY: Duration = Duration::from_millis(2);
/// Unix seconds of the wall clocks at the beginning.
const BEGINNING: i64 = 1_000_000;
pub const CPUS: usize = 4;
pub const HALF_LIFE: Duration = Duration::from_secs(600);

const TIMEOUTS: Timeouts = Timeouts {
    heartbeat_grace_period: secs(3),
    healthcheck_period: secs(3),
    healthcheck_grace_period: secs(3),
    lose_unhealthy_worker_after: secs(20),
    worker_check_interval: secs(1),
    unsure_if_running_check_initial_period: secs(2),
    suicide_backoff_safety_margin: secs(4),
    suicide_task_kill_wait: secs(1),
};

pub const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

#[derive(Debug)]
enum Due {
    ToScheduler {
        which: usize,
        call: CallId,
        request: ToScheduler,
    },
    /// The outcome of a call of this scheduler's process.
    Known {
        which: usize,
        generation: u32,
        call: CallId,
        outcome: CallOutcome<SchedulerReply>,
    },
    Synced {
        which: usize,
        generation: u32,
        up_to: RecordSeq,
    },
    ToWorker {
        which: usize,
        generation: u32,
        call: CallId,
        message: Call,
    },
    Hear(Box<Event>),
    End {
        key: TaskKey,
        invocation: InvocationId,
        how: End,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Finished,
    Killed,
}

/// The owner of a process, and the time since which it executes.
#[derive(Clone, Copy, Debug)]
pub struct Process {
    pub which: usize,
    pub since: Time,
}

struct Post {
    host: SchedulerHost,
    directory: Directory,
    config: Arc<Config>,
    nodes: Arc<NodeTable>,
    /// The worker's call that each open request answers.
    calls: BTreeMap<CallTag, CallId>,
    last_tag: u32,
}

struct Asked {
    which: usize,
    generation: u32,
    call: CallId,
    ask: Ask,
}

pub struct Pair {
    pub now: Time,
    posts: Vec<Post>,
    pub worker: Worker,
    queue: BTreeMap<(Time, u64), Due>,
    last: u64,
    requests: BTreeMap<RequestId, Asked>,
    pub processes: BTreeMap<InvocationId, Process>,
    /// Processor seconds that each scheduler's tasks have used.
    pub used: Vec<f64>,
    /// The number of tasks that the worker ended, by scheduler.
    pub killed: Vec<usize>,
    pub busy: usize,
    task_takes: Duration,
}

/// Returns a job on this many nodes.
fn work(nodes: usize, keys: &str) -> (Arc<Config>, Arc<NodeTable>) {
    let names: Vec<String> = (0..nodes).map(|n| format!(r#""n{n}": []"#)).collect();
    let text = format!(
        r#"{{"bistro_settings": {{"nodes": {{"levels": ["l"], "node_sources": [{{"source": "manual", "prefs": {{{}}}}}]}},
            "resources": {{}}}}, "bistro_job->j0": {{"owner": "o", "command": ["x"]{keys}}}}}"#,
        names.join(", ")
    );
    let parsed = parse(&text, ParseOptions::default()).expect("a good text");
    let mut table = NodeTableBuilder::new("instance", &parsed.config);
    for source in &parsed.config.node_sources {
        if let NodeSource::Manual(list) = source {
            table.add_manual(list).expect("good nodes");
        }
    }
    (Arc::new(parsed.config), Arc::new(table.finish()))
}

fn description() -> WorkerDescription {
    let host: Arc<str> = "m".into();
    let mut description = WorkerDescription {
        machine_lock: MachinePortLock {
            hostname: Arc::clone(&host),
            port: 1,
        },
        address: ServiceAddress { host, port: 1 },
        heartbeat_period: secs(1),
        protocol_version: PROTOCOL_VERSION,
        ..WorkerDescription::default()
    };
    description.usable.cpu_cores = CPUS as f64;
    description
}

pub fn profile() -> Profile {
    Profile {
        rec_half_life: HALF_LIFE.as_secs_f64(),
        ..Profile::CLUSTER
    }
}

/// Returns a profile with which the estimates of scheduler and worker differ most.
pub fn large_buffer() -> Profile {
    Profile {
        work_buffer_additional: 1000.0,
        ..profile()
    }
}

impl Pair {
    pub fn new(
        shares: &[f64],
        profile: Profile,
        (task_takes, keys): (Duration, &str),
        nodes: usize,
    ) -> Self {
        let associations = shares
            .iter()
            .zip(0_i64..)
            .map(|(share, n)| AssociationOptions {
                shard: Shard::try_from(format!("shard{n}")).expect("a good name"),
                id: WorkerId::new(BEGINNING, n + 1),
                machine_lock: MachinePortLock {
                    hostname: "machine".into(),
                    port: i32::try_from(n).expect("two at most"),
                },
                share: *share,
                members: vec![ServiceAddress::default()],
                list: MemberList::Fixed,
            });
        let options = Options {
            associations: associations.collect(),
            work_fetch: Some(WorkFetch::new(profile, 1)),
            ..Options::new(description())
        };
        let posts = shares.iter().zip(0_u16..).map(|(_, n)| {
            let (config, nodes) = work(nodes, keys);
            Post {
                host: SchedulerHost::new(SchedulerPlace(n)),
                directory: Directory::default(),
                config,
                nodes,
                calls: BTreeMap::new(),
                last_tag: 0,
            }
        });
        let mut pair = Pair {
            now: Time::ZERO,
            posts: posts.collect(),
            worker: Worker::new(options, Time::ZERO),
            queue: BTreeMap::new(),
            last: 0,
            requests: BTreeMap::new(),
            processes: BTreeMap::new(),
            used: vec![0.0; shares.len()],
            killed: vec![0; shares.len()],
            busy: 0,
            task_takes,
        };
        for which in 0..shares.len() {
            pair.start(which);
        }
        pair.turn_worker(None);
        pair
    }

    fn wall(&self) -> WallTime {
        let since = self.now.since(Time::ZERO);
        WallTime::from_secs(BEGINNING) + since
    }

    fn push(&mut self, after: Duration, due: Due) {
        self.last += 1;
        self.queue.insert((self.now + after, self.last), due);
    }

    // ---- schedulers ----

    pub fn start(&mut self, which: usize) {
        let (now, wall) = (self.now, self.wall());
        let place = SchedulerPlace(u16::try_from(which).expect("two at most"));
        let post = &mut self.posts[which];
        let durable = post.directory.open(place).expect("nobody holds it");
        let options = SchedulerOptions {
            timeouts: TIMEOUTS,
            allow_bump_unhealthy_worker: false,
            startup_wait: None,
            new_cluster: true,
            call_deadline: secs(5),
            retention: brasserie_scheduler_core::Retention::UNLIMITED,
            slots: brasserie_scheduler_core::SlotStrategy::RoundRobin,
            seed: which as u64 + 1,
            work: brasserie_scheduler_core::credits::RequestPolicy::default(),
        };
        let mut out = Vec::new();
        let on = (DirectoryId(place.0), 0, durable);
        post.host
            .start(options, on, (now, wall), &mut out, &mut Vec::new());
        self.scheduler_did(which, out);
        let (config, nodes) = (
            Arc::clone(&self.posts[which].config),
            Arc::clone(&self.posts[which].nodes),
        );
        self.tell(which, SchedulerInput::Loaded { config, nodes });
    }

    pub fn stop(&mut self, which: usize) {
        let post = &mut self.posts[which];
        post.directory.crash(0);
        post.host.crash();
        for call in std::mem::take(&mut post.calls).into_values() {
            self.no_answer(call);
        }
        let association = AssociationIndex(which);
        self.turn_worker(Some(Event::ConnectionLost { association }));
    }

    fn no_answer(&mut self, call: CallId) {
        let outcome = CallOutcome::NotSent("nobody listens".to_owned());
        let event = Event::CallCompleted { call, outcome };
        self.push(DELAY, Due::Hear(Box::new(event)));
    }

    fn tell(&mut self, which: usize, input: SchedulerInput) {
        let (now, wall) = (self.now, self.wall());
        let mut out = Vec::new();
        let host = &mut self.posts[which].host;
        host.turn(now, wall, &mut vec![input], &mut out, &mut Vec::new());
        self.scheduler_did(which, out);
    }

    fn scheduler_did(&mut self, which: usize, out: Vec<SchedulerOutput>) {
        let generation = self.posts[which].host.generation();
        for output in out {
            match output {
                SchedulerOutput::Record { seq, record } => {
                    let directory = &mut self.posts[which].directory;
                    directory.write(seq, record);
                    directory.sync(seq);
                    let due = Due::Synced {
                        which,
                        generation,
                        up_to: seq,
                    };
                    self.push(Duration::ZERO, due);
                }
                SchedulerOutput::Answer { tag, outcome } => {
                    let call = self.posts[which].calls.remove(&tag);
                    let call = call.expect("a call is answered once");
                    let event = Event::CallCompleted { call, outcome };
                    self.push(DELAY, Due::Hear(Box::new(event)));
                }
                SchedulerOutput::Call { call, message, .. } => {
                    let due = Due::ToWorker {
                        which,
                        generation,
                        call,
                        message,
                    };
                    self.push(DELAY, due);
                }
                SchedulerOutput::AnswerReport { .. } => panic!("no worker here has a store"),
                SchedulerOutput::Told => {}
                SchedulerOutput::Exit { reason } => panic!("scheduler {which} ends: {reason:?}"),
            }
        }
    }

    /// Returns the number of tasks that are not done.
    pub fn left_to_do(&self, which: usize) -> usize {
        let core = self.posts[which].host.core().expect("it lives");
        let query = Query::Unfinished {
            job: "j0".to_owned(),
            limit: 100_000,
        };
        match core.answer(self.now, &query) {
            Answer::Unfinished(tasks) => tasks.len(),
            other => panic!("{other:?}"),
        }
    }

    // ---- time ----

    fn step(&mut self, until: Time) -> bool {
        let queued = self.queue.keys().next().map(|(at, _)| *at);
        let schedulers = self.posts.iter().filter_map(|post| post.host.due());
        let own = self.worker.poll_timeout();
        let next = schedulers.chain(queued).chain(own).min();
        let Some(next) = next.filter(|at| *at <= until) else {
            self.now = until;
            return false;
        };
        self.now = self.now.max(next);
        if queued.is_some_and(|at| at <= self.now) {
            let (_, due) = self.queue.pop_first().expect("it is there");
            self.happen(due);
        } else if own.is_some_and(|at| at <= self.now) {
            self.turn_worker(None);
        } else {
            for which in 0..self.posts.len() {
                if self.posts[which]
                    .host
                    .due()
                    .is_some_and(|at| at <= self.now)
                {
                    self.tell(which, SchedulerInput::Wake);
                }
            }
        }
        true
    }

    fn happen(&mut self, due: Due) {
        match due {
            Due::ToScheduler {
                which,
                call,
                request,
            } => {
                let post = &mut self.posts[which];
                if post.host.core().is_none() {
                    return self.no_answer(call);
                }
                post.last_tag += 1;
                let tag = CallTag(post.last_tag);
                post.calls.insert(tag, call);
                self.tell(which, SchedulerInput::Request { tag, request });
            }
            Due::Known {
                which,
                generation,
                call,
                outcome,
            } => {
                if self.posts[which].host.generation() == generation {
                    self.tell(which, SchedulerInput::Outcome { call, outcome });
                }
            }
            Due::Synced {
                which,
                generation,
                up_to,
            } => {
                if self.posts[which].host.generation() == generation {
                    self.tell(which, SchedulerInput::Persisted(up_to));
                }
            }
            Due::ToWorker {
                which,
                generation,
                call,
                message,
            } => {
                self.last += 1;
                let request = RequestId(self.last);
                let EventArrival { ask, event, .. } = EventArrival::new(request, message);
                let asked = Asked {
                    which,
                    generation,
                    call,
                    ask,
                };
                self.requests.insert(request, asked);
                self.turn_worker(Some(event));
            }
            Due::Hear(event) => self.turn_worker(Some(*event)),
            Due::End {
                key,
                invocation,
                how,
            } => self.ends(key, invocation, how),
        }
    }

    pub fn play(&mut self, lasts: Duration) {
        let until = self.now + lasts;
        while self.step(until) {}
    }

    /// Does the same as [`Pair::play`]. Returns the processor seconds that each scheduler's tasks used meanwhile.
    pub fn used_in(&mut self, lasts: Duration) -> Vec<f64> {
        let before = self.usage();
        self.play(lasts);
        let after = self.usage();
        after.iter().zip(before).map(|(a, b)| a - b).collect()
    }
}
