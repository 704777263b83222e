//! The fingerprint of a small world: a 128-bit hash of everything that decides its future, with renamed ids and unordered packets. In a
//! search of n states, the probability that two states collide is n^2 / 2^129: below 1 in 10^24 for ten million states.

use std::hash::{Hash, Hasher};

use brasserie_common::fingerprint::{Canon, Shape};
use brasserie_common::ids::InstanceId;
use brasserie_common::{
    CallOutcome, InvocationId, RefusalCode, SchedulerId, WorkerId, WorkerSetId,
};
use brasserie_scheduler_core::{
    Call, CallReply as SchedulerCallReply, Durable, EndedTask, InstanceRecord, Record, StatusUpdate,
};
use brasserie_worker_core::CallReply as WorkerCallReply;
use siphasher::sip128::{Hasher128, SipHasher13};

use super::packets::{Packet, PacketContent};
use super::{Caller, SmallWorld};
use crate::event_log::CallTag;
use crate::hosts::ToScheduler;
use crate::hosts::scheduler::{SchedulerHost, SchedulerOutput};

/// The number of the first worker's machine. Those of schedulers count from 0.
const WORKERS: u64 = 100;

type S<'a> = Shape<'a, SipHasher13>;

impl SmallWorld {
    /// Returns the fingerprint. Two worlds with one fingerprint have the same future, up to names.
    pub fn fingerprint(&self) -> u128 {
        let mut canon = Canon::new();
        let mut hasher = SipHasher13::new();
        // The position within a second matters, because ids contain whole seconds.
        (self.now.as_nanos() % 1_000_000_000).hash(&mut hasher);
        self.budget.hash(&mut hasher);
        (self.has_config, self.is_first).hash(&mut hasher);
        for (at, host) in self.schedulers.iter().enumerate() {
            canon.enter(at as u64);
            host.core().is_some().hash(&mut hasher);
            if let Some(core) = host.core() {
                core.shape(self.now, &mut canon, &mut hasher);
            }
            self.shape_scheduler_host(host, &mut canon, &mut hasher);
        }
        for (at, host) in self.workers.iter().enumerate() {
            canon.enter(WORKERS + at as u64);
            host.machine().is_some().hash(&mut hasher);
            if let Some(core) = host.machine() {
                core.shape(self.now, &mut canon, &mut hasher);
            }
            let post = &self.posts[at];
            (post.is_cut, post.route).hash(&mut hasher);
            let age = self.wall().as_secs() - post.last_start_time;
            age.clamp(-100, 1).hash(&mut hasher);
            // A dead worker is named nowhere else.
            let nameable = post.worker.filter(|_| self.budget.forgets > 0);
            Shape::new(self.now, &mut canon, &mut hasher).opt(nameable, Shape::worker);
        }
        for directory in &self.directories {
            directory.holder().hash(&mut hasher);
            let s = &mut Shape::new(self.now, &mut canon, &mut hasher);
            shape_durable(s, directory.durable());
            s.each(directory.unsynced(), |s, (_, record)| {
                shape_record(s, record);
            });
        }
        self.shape_rest(&mut canon, &mut hasher);
        self.shape_packets(&mut canon, &mut hasher);
        canon.finish(&mut hasher);
        hasher.finish128().into()
    }

    fn shape_scheduler_host(
        &self,
        host: &SchedulerHost,
        canon: &mut Canon,
        hasher: &mut SipHasher13,
    ) {
        let s = &mut Shape::new(self.now, canon, hasher);
        s.opt(host.answered(), |s, answered| {
            s.scheduler(answered.scheduler);
            s.opt(answered.previous, Shape::scheduler);
            s.time(answered.until);
            s.each(&answered.former, |s, (worker, until)| {
                s.worker(*worker);
                s.time(*until);
            });
        });
        let persisted = host.persisted();
        for (after, output) in host.waiting() {
            let left = after.0.saturating_sub(persisted.0);
            left.hash(hasher);
            match output {
                SchedulerOutput::Answer { tag, outcome } => {
                    self.shape_tag(*tag, canon, hasher);
                    let s = &mut Shape::new(self.now, canon, hasher);
                    shape_outcome(s, outcome, shape_worker_reply);
                }
                SchedulerOutput::Call { .. }
                | SchedulerOutput::Record { .. }
                | SchedulerOutput::AnswerReport { .. }
                | SchedulerOutput::Told
                | SchedulerOutput::Exit { .. } => {
                    unreachable!("Invariant: nothing but a reply waits for the disk")
                }
            }
        }
        for (request, tag) in host.requests() {
            Shape::new(self.now, canon, hasher).request(request);
            self.shape_tag(tag, canon, hasher);
        }
    }

    /// Hashes the caller that waits for the answer.
    fn shape_tag(&self, tag: CallTag, canon: &mut Canon, hasher: &mut impl Hasher) {
        let Some(open) = self.open.get(&tag) else {
            return false.hash(hasher);
        };
        let machine = match open.caller {
            Caller::Scheduler(place) => u64::from(place.0),
            Caller::Worker(place) => WORKERS + u64::from(place.0),
        };
        machine.hash(hasher);
        canon.enter(machine);
        Shape::new(self.now, canon, hasher).call(open.call);
    }

    fn shape_rest(&self, canon: &mut Canon, hasher: &mut SipHasher13) {
        let s = &mut Shape::new(self.now, canon, hasher);
        s.opt(self.backup.as_ref(), shape_durable);
        let mut processes: Vec<_> = self.processes.iter().collect();
        processes.sort_by_key(|p| (p.place, p.task));
        s.each(processes, |s, p| {
            let is_own = self.worker(p.place).generation() == p.generation;
            s.put((
                p.place,
                p.task,
                is_own && self.worker(p.place).core().is_some(),
            ));
            s.invocation(p.invocation);
            s.opt(p.dies_by, Shape::deadline);
        });
        s.each(&self.judge.promises, |s, (task, promise)| {
            s.put((task, promise.done));
            s.invocation(promise.invocation);
        });
        s.each(&self.judge.over, |s, invocation| s.invocation(*invocation));
        // Later ids exceed those of earlier seconds; within this second their order is random.
        let now = InstanceId {
            start_time: self.wall().as_secs(),
            rand: i64::MIN,
        };
        s.scheduler(SchedulerId(now));
        s.worker(WorkerId(now));
        s.invocation(InvocationId(now));
        s.healthcheck(InvocationId(now));
    }

    /// Hashes packets by content, independent of their order.
    fn shape_packets(&self, canon: &mut Canon, hasher: &mut SipHasher13) {
        let mut all = Vec::with_capacity(self.packets.len());
        for packet in &self.packets {
            let mut own = SipHasher13::new();
            self.shape_packet(packet, canon, &mut own);
            all.push(own.finish128().as_u128());
        }
        all.sort_unstable();
        all.hash(hasher);
    }

    fn shape_packet(&self, packet: &Packet, canon: &mut Canon, hasher: &mut SipHasher13) {
        self.shape_tag(packet.tag(), canon, hasher);
        let s = &mut Shape::new(self.now, canon, hasher);
        match packet {
            Packet::ToScheduler {
                from, to, request, ..
            } => {
                s.put((1, from, to));
                shape_request(s, request);
            }
            Packet::ToWorker {
                from, to, message, ..
            } => {
                s.put((2, from, to));
                shape_message(s, message);
            }
            Packet::Back { news, .. } => {
                s.put(3);
                match news {
                    PacketContent::ToScheduler(outcome) => {
                        shape_outcome(s, outcome, shape_scheduler_reply)
                    }
                    PacketContent::ToWorker(outcome) => {
                        shape_outcome(s, outcome, shape_worker_reply)
                    }
                    PacketContent::Unknown => s.put(4),
                    PacketContent::NotSent => s.put(5),
                }
            }
        }
    }
}

fn shape_request(s: &mut S<'_>, request: &ToScheduler) {
    match request {
        ToScheduler::Heartbeat {
            worker,
            set,
            goodbye,
        } => {
            s.put((&worker.shard, &worker.machine_lock, worker.address.port));
            s.worker(worker.id);
            s.set(*set);
            s.put(format!("{goodbye:?}"));
        }
        ToScheduler::Work(work) => s.put(format!("{work:?}")),
        ToScheduler::Artifacts(report) => s.put(format!("{report:?}")),
        ToScheduler::Status(update) => {
            let StatusUpdate {
                job,
                node,
                shard,
                invocation,
                next_backoff,
                status,
                gpus,
                // No decision depends on the story.
                story: _,
                // No job of a searched world has outputs.
                outputs: _,
                scheduler,
                worker,
            } = &**update;
            s.put((job, node, shard));
            s.invocation(*invocation);
            s.put((next_backoff.no_more_backoffs, next_backoff.seconds));
            s.reported(status);
            s.put(gpus);
            s.scheduler(*scheduler);
            s.worker(*worker);
        }
    }
}

fn shape_message(s: &mut S<'_>, message: &Call) {
    s.put(std::mem::discriminant(message));
    match message {
        Call::GetRunningTasks { scheduler, worker }
        | Call::RequestSuicide {
            scheduler,
            worker,
            // No decision depends on the reason.
            why: _,
        } => {
            s.scheduler(*scheduler);
            s.worker(*worker);
        }
        Call::Drain {
            shard,
            worker,
            why: _,
        } => {
            s.put(shard);
            s.worker(*worker);
        }
        Call::RunTask(run) | Call::Healthcheck(run) => {
            s.running_task(&run.task);
            s.scheduler(run.scheduler);
            s.worker(run.worker);
            s.put(run.sequence.0);
        }
        Call::NotifyIfTasksNotRunning {
            tasks,
            scheduler,
            worker,
            sequence,
        } => {
            s.each(tasks, |s, task| s.running_task(task));
            s.scheduler(*scheduler);
            s.worker(*worker);
            s.put(sequence.0);
        }
        Call::KillTask {
            task,
            scheduler,
            worker,
            kill,
        } => {
            s.running_task(task);
            s.scheduler(*scheduler);
            s.worker(*worker);
            s.put(kill);
        }
    }
}

fn shape_outcome<R>(s: &mut S<'_>, outcome: &CallOutcome<R>, reply: impl FnOnce(&mut S<'_>, &R)) {
    s.put(std::mem::discriminant(outcome));
    match outcome {
        CallOutcome::Done(done) => reply(s, done),
        CallOutcome::Refused(RefusalCode::BoundTo(scheduler), _) => {
            s.put(true);
            s.scheduler(*scheduler);
        }
        CallOutcome::Refused(code, _) => s.put((false, std::mem::discriminant(code))),
        // These texts are for people.
        CallOutcome::NotSent(_) | CallOutcome::Unknown(_) => {}
    }
}

fn shape_scheduler_reply(s: &mut S<'_>, reply: &SchedulerCallReply) {
    match reply {
        SchedulerCallReply::Empty => s.put(0),
        SchedulerCallReply::Accepted { queued_at } => s.put((1, queued_at)),
        SchedulerCallReply::RunningTasks(tasks) => s.each(tasks, |s, task| s.running_task(task)),
    }
}

fn shape_worker_reply(s: &mut S<'_>, reply: &WorkerCallReply) {
    match reply {
        WorkerCallReply::Work(reply) => s.put(format!("{reply:?}")),
        WorkerCallReply::NoSuchCall => s.put(9_u8),
        WorkerCallReply::Members(members) => s.put(format!("{members:?}")),
        WorkerCallReply::Acknowledged => s.put(0),
        WorkerCallReply::Heartbeat(response) => {
            s.scheduler(response.scheduler);
            s.put((response.worker_state, response.not_healthy_for));
            let set: WorkerSetId = response.worker_set;
            s.set(set);
        }
    }
}

fn shape_durable(s: &mut S<'_>, durable: &Durable) {
    let Durable {
        cluster,
        schedulers,
        instances,
        left,
        hold_back,
        jobs,
        last_job_version,
        held,
        config,
        times,
        statuses,
        forgotten,
        // No world of the search has artifacts.
        outputs: _,
        // No operator of a searched world gives orders about workers.
        orders: _,
        answered: _,
        is_a_backup,
        // Searched worlds are too short for completions to expire.
        observed: _,
        missing: _,
        missing_jobs: _,
        // The order of generations equals the order of the runs.
        fence_generation: _,
        // No job of a searched world has outputs.
    } = durable;
    s.put(is_a_backup);
    s.put(cluster.is_some());
    s.each(schedulers, |s, id| s.scheduler(*id));
    s.each(instances, |s, (id, instance)| {
        s.worker(*id);
        shape_instance(s, instance);
    });
    s.each(left.keys(), |s, id| s.worker(*id));
    s.put(hold_back);
    s.each(jobs, |s, (name, saved)| {
        s.put((name, saved.version, &saved.text));
    });
    s.put((last_job_version, held, times));
    s.opt(config.as_ref(), |s, kept| s.put((&kept.path, &kept.text)));
    s.each(statuses, |s, (key, (invocation, status))| {
        s.put((&key.job, &key.node));
        s.invocation(*invocation);
        s.stored(status);
    });
    s.each(forgotten, |s, (key, of)| {
        s.put((&key.job, &key.node, of.number));
        s.invocation(of.up_to);
    });
}

fn shape_instance(s: &mut S<'_>, instance: &InstanceRecord) {
    let InstanceRecord {
        shard,
        machine_lock,
        heartbeat_period: _,
        timeouts,
        since,
    } = instance;
    s.put((shard, machine_lock, timeouts, since));
}

fn shape_record(s: &mut S<'_>, record: &Record) {
    s.put(std::mem::discriminant(record));
    match record {
        Record::SchedulerStarted {
            cluster: _,
            scheduler,
            wait,
            // Only the fact that it waits for the disk matters, as in a scheduler.
            generation: _,
        } => {
            s.scheduler(*scheduler);
            s.put(wait);
        }
        Record::WorkerAssociated { worker, instance } => {
            s.worker(*worker);
            shape_instance(s, instance);
        }
        Record::WorkerLeft {
            worker,
            cause: _,
            wall: _,
            tasks,
            hold_back,
        } => {
            s.worker(*worker);
            s.each(tasks, shape_end);
            s.put(hold_back);
        }
        Record::HoldBack { wait } => s.put(wait),
        Record::HoldBackOver | Record::FenceRaised { .. } => {}
        Record::TaskEnded(task) => shape_end(s, task),
        Record::JobSaved { job, saved } => s.put((job, saved.version, &saved.text)),
        Record::JobDeleted { job, version } => s.put((job, version)),
        Record::JobHeld { job, hold } => s.put((job, hold)),
        Record::JobResumed { job } => s.put(job),
        Record::TasksForgiven { tasks } => s.each(tasks, shape_end),
        Record::HistoryDeleted { number, tasks } => {
            s.put(number);
            s.each(tasks, |s, task| {
                s.put((&task.job, &task.node));
                s.invocation(task.up_to);
            });
        }
        Record::HistoryTrimmed(trim) => s.put(format!("{trim:?}")),
        Record::OutputsExpired { job } => s.put(job),
        Record::OutputsForgotten { job, nodes } => s.put((job, nodes)),
        Record::WorkerOrdered { shard, order } => s.put((shard, format!("{order:?}"))),
        Record::ConfigKept { config } => s.put((&config.path, &config.text)),
        Record::TimesGiven { changed, forgotten } => s.put((changed, forgotten)),
    }
}

fn shape_end(s: &mut S<'_>, task: &EndedTask) {
    s.put((&task.job, &task.node));
    s.invocation(task.invocation);
    s.stored(&task.status);
}
