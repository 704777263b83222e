//! Decides when one worker of a storm makes a request.

use brasserie_common::{Processor, ServiceAddress, Time, WorkReply, WorkRequestSeq, WorkVerdict};
use brasserie_worker_fetch::{
    Association, AssociationIndex, AssociationState, Computing, Fetcher, FetcherInput, FetcherStep,
    Leaves, Preemption, ProcessorKind, ProcessorUsage, Processors, Profile, Saved, Setup, Task,
    TaskNumber, TaskResult, TaskStage,
};

use super::{RequestWait, Storm};
use crate::client::{seconds, span};

/// The only scheduler.
const IT: AssociationIndex = AssociationIndex(0);

/// Time between two requests of a worker without waits, in seconds.
const AT_ONCE: f64 = 0.5;

/// A worker's way to wait.
pub(super) enum Asker {
    /// The worker asks when its work runs short, and again each period until it gets some.
    Every {
        period: f64,
        next: Time,
    },
    Ours(Box<Ours>),
}

impl Asker {
    /// Creates the asker of a worker that starts at `begins` with a task that has `left` seconds left.
    pub fn new(
        waiting: RequestWait,
        storm: &Storm,
        seed: u64,
        (begins, left): (Time, f64),
    ) -> Self {
        let every = |period| Asker::Every {
            period,
            next: begins,
        };
        match waiting {
            RequestWait::None => every(AT_ONCE),
            RequestWait::Fixed => every(storm.fixed_retry),
            RequestWait::Ours => Asker::Ours(Box::new(Ours::new(seed, begins, left))),
        }
    }

    /// Returns whether the worker asks now. The request has then been sent.
    pub fn wants_to_ask(&mut self, now: Time, busy_until: Time) -> bool {
        match self {
            Asker::Every { next, .. } => *next <= now && runs_short(busy_until) <= now,
            Asker::Ours(ours) => ours.asks(now),
        }
    }

    /// Returns the time of the next decision.
    pub fn wakes(&self, now: Time, busy_until: Time) -> Time {
        match self {
            Asker::Every { next, .. } => (*next).max(runs_short(busy_until)),
            Asker::Ours(ours) => ours.wakes(now),
        }
    }

    pub fn failed(&mut self, now: Time) {
        match self {
            Asker::Every { period, next } => *next = now + span(*period),
            Asker::Ours(ours) => {
                let seq = ours.seq;
                ours.fetcher.not_served(now, IT, seq);
            }
        }
    }

    /// Notes a deferral. Workers with a fixed wait or none ignore its delay.
    pub fn deferred(&mut self, now: Time, delay: f64) {
        match self {
            Asker::Every { period, next } => *next = now + span(*period),
            Asker::Ours(ours) => ours.answered(now, WorkVerdict::Deferred, delay),
        }
    }

    /// Notes that a task arrived.
    pub fn served(&mut self, now: Time, task: f64, busy_until: Time) {
        match self {
            Asker::Every { next, .. } => *next = now,
            Asker::Ours(ours) => {
                ours.comes(now, task, busy_until);
                ours.answered(now, WorkVerdict::Granted(1), 0.0);
            }
        }
    }
}

/// Returns the time at which the remaining work falls below the low water mark.
fn runs_short(busy_until: Time) -> Time {
    busy_until - span(Profile::CLUSTER.low_water())
}

/// A worker with the policies of Brasserie and one CPU.
pub(super) struct Ours {
    fetcher: Fetcher,
    seq: WorkRequestSeq,
    /// The worker's tasks, with the time at which each is done.
    tasks: Vec<(Task, Time)>,
    last_number: u64,
}

impl Ours {
    fn new(seed: u64, begins: Time, left: f64) -> Self {
        let cpu = ProcessorKind {
            name: "CPU".to_owned(),
            instances: 1,
            relative_speed: 1.0,
            availability: 1.0,
        };
        let setup = Setup {
            profile: Profile::CLUSTER,
            preemption: Preemption::Off,
            processors: Processors::new(cpu, Vec::new()),
            associations: vec![Association {
                share: 100.0,
                max_concurrent: None,
                max_concurrent_of_jobs: Default::default(),
            }],
            members: vec![vec![ServiceAddress {
                host: "scheduler".into(),
                port: 1,
            }]],
            patience: span(30.0),
            seed,
        };
        let mut ours = Ours {
            fetcher: Fetcher::new(setup, begins, &Saved::default()),
            seq: WorkRequestSeq::default(),
            tasks: Vec::new(),
            last_number: 0,
        };
        ours.comes(begins, left, begins);
        ours
    }

    /// Ends the tasks that are done. Returns whether the worker sends a request.
    fn asks(&mut self, now: Time) -> bool {
        while self.tasks.first().is_some_and(|(_, done)| *done <= now) {
            let (task, done) = self.tasks.remove(0);
            let took = seconds(done) - seconds(task.received);
            self.fetcher.task_stopped(done, &task);
            self.fetcher.task_ended(
                now,
                &task,
                TaskResult::Well { given: None, took },
                Leaves::Nothing,
            );
            self.fetcher.task_gone(IT, task.number);
            if let Some((next, _)) = self.tasks.first_mut() {
                next.stage = TaskStage::Executing { since: done };
            }
        }
        if self.fetcher.due() > now {
            return false;
        }
        let mut from = now;
        for (task, done) in &mut self.tasks {
            task.remaining = done.since(from).as_secs_f64().max(0.001);
            from = *done;
        }
        let tasks: Vec<Task> = self.tasks.iter().map(|(task, _)| task.clone()).collect();
        let step = self.fetcher.next(&FetcherInput {
            now,
            computing: Computing::Allowed,
            tasks: &tasks,
            association_states: &[AssociationState::default()],
            unreported: &[],
        });
        match step {
            FetcherStep::Ask(request) => {
                self.seq = request.seq;
                true
            }
            FetcherStep::ReadList { association, .. } => {
                let members = vec![ServiceAddress {
                    host: "scheduler".into(),
                    port: 1,
                }];
                self.fetcher.list_read(now, association, Some(members));
                false
            }
            FetcherStep::Wait { .. } => false,
        }
    }

    fn wakes(&self, now: Time) -> Time {
        let ends = self.tasks.first().map(|(_, done)| *done);
        self.fetcher.due().min(ends.unwrap_or(Time::NEVER)).max(now)
    }

    fn comes(&mut self, now: Time, takes: f64, busy_until: Time) {
        self.last_number += 1;
        let begins = busy_until.max(now);
        let task = Task {
            number: TaskNumber(self.last_number),
            association: IT,
            job: 0,
            usage: ProcessorUsage {
                cpus: 1.0,
                cards: None,
            },
            remaining: takes,
            received: now,
            deadline: None,
            stage: match self.tasks.is_empty() {
                true => TaskStage::Executing { since: now },
                false => TaskStage::Queued,
            },
        };
        self.fetcher.task_came(&task);
        self.tasks.push((task, begins + span(takes)));
    }

    fn answered(&mut self, now: Time, verdict: WorkVerdict, delay: f64) {
        let reply = WorkReply {
            seq: self.seq,
            verdicts: vec![(Processor::Cpu, verdict)],
            request_delay: span(delay),
            no_apps: Vec::new(),
            next_contact: None,
        };
        self.fetcher.answered(now, IT, &reply);
    }
}
