//! Requests of workers and operators to a scheduler, and the events they become.

use brasserie_common::{
    JobName, KnownTask, NodeName, Principal, SchedulerId, TaskKey, WorkRequest, WorkerDescription,
};
use brasserie_scheduler_core::{Answer, Event, JobChange, Query};
use brasserie_worker_core::Goodbye;

use super::{RequestSubject, SchedulerTurn, ShardClaim, StatusAsked};
use crate::event_log::{CallTag, Happening, HistoryOf, Run, SetMark, TaskId};
use crate::hosts::ToScheduler;

impl SchedulerTurn<'_> {
    fn work_request(&mut self, tag: CallTag, work: Box<WorkRequest>) -> Event {
        let worker = work.worker;
        self.process.asking.insert(worker);
        let known = work.known.as_ref();
        let is_over = |task: &&KnownTask| task.remaining.is_some_and(|left| left <= 0.0);
        let over = known.into_iter().flatten().filter(is_over);
        let over = over.map(|task| task.invocation).collect();
        let known = known.map(|known| known.iter().map(|task| task.invocation).collect());
        self.log.push(Happening::WorkHeard {
            scheduler: self.process.core.id(),
            worker,
            meant: work.scheduler,
            seq: work.seq,
            demands: work.demands.clone(),
            known,
            over,
            linger: work.linger,
        });
        self.log.push(Happening::WorkAnswerOwed {
            place: self.place,
            scheduler: self.process.core.id(),
            worker,
            seq: work.seq,
            call: tag,
        });
        Event::RequestWork {
            request: Some(self.expect(RequestSubject::Work { tag, worker })),
            from: Principal::Own,
            work,
        }
    }

    pub(super) fn request(&mut self, tag: CallTag, request: ToScheduler) -> Event {
        let (place, scheduler) = (self.place, self.process.core.id());
        match request {
            ToScheduler::Heartbeat {
                worker,
                set,
                goodbye,
            } => {
                let goodbye = goodbye == Goodbye::TasksAreDead;
                self.contest(&worker);
                let knows_another = ![scheduler, SchedulerId::default()].contains(&set.scheduler);
                self.process.wait_may_have_changed |= knows_another;
                self.log.push(Happening::HeartbeatHeard {
                    place,
                    scheduler,
                    worker: worker.id,
                    shard: worker.shard.clone(),
                    set: SetMark::from(&set),
                    goodbye,
                });
                Event::Heartbeat {
                    request: self.expect(RequestSubject::Heartbeat {
                        tag,
                        held: ShardClaim {
                            shard: worker.shard.clone(),
                            worker: worker.id,
                            lock_port: worker.machine_lock.port,
                        },
                    }),
                    from: Principal::Own,
                    worker,
                    worker_set: set,
                    goodbye,
                }
            }
            ToScheduler::Work(work) => self.work_request(tag, work),
            ToScheduler::Artifacts(report) => Event::ReportArtifacts {
                request: self.expect(RequestSubject::Artifacts { tag }),
                from: Principal::Own,
                report,
            },
            ToScheduler::Status(update) => {
                let run = Run {
                    task: TaskId::from_names(update.job.as_str(), update.node.as_str()),
                    invocation: update.invocation,
                };
                let (worker, bits) = (update.worker, update.status.bits());
                self.log.push(Happening::StatusHeard {
                    place,
                    scheduler,
                    worker,
                    run,
                    bits,
                });
                Event::UpdateStatus {
                    request: self.expect(RequestSubject::Status(StatusAsked {
                        tag,
                        worker,
                        run,
                        bits,
                    })),
                    from: Principal::Own,
                    update,
                }
            }
        }
    }

    /// Reports that another instance claims a shard, for the rows of the replacement table (thrift/PROTOCOL.md, Association).
    fn contest(&mut self, newcomer: &WorkerDescription) {
        let known = self
            .process
            .incumbents
            .iter()
            .find(|held| held.shard == newcomer.shard);
        let Some(known) = known.filter(|held| held.worker != newcomer.id) else {
            return;
        };
        let (incumbent, lock) = (known.worker, known.lock_port);
        let Answer::Status(status) = self.process.core.answer(self.now, &Query::Status) else {
            return;
        };
        let mut workers = status.workers.iter();
        if let Some(held) = workers.find(|w| w.shard == newcomer.shard && w.id == incumbent) {
            self.log.push(Happening::ShardContested {
                place: self.place,
                scheduler: self.process.core.id(),
                newcomer: newcomer.id,
                incumbent,
                incumbent_health: held.health,
                same_lock: lock == newcomer.machine_lock.port,
            });
        }
    }

    pub(super) fn operator_kills(&mut self, TaskKey { job, node }: TaskKey) -> Event {
        self.log.push(Happening::OperatorWishes {
            place: self.place,
            scheduler: self.process.core.id(),
            task: TaskId::from_names(job.as_str(), node.as_str()),
        });
        Event::KillTask {
            request: self.expect(RequestSubject::Operator),
            from: Principal::Own,
            job,
            node,
        }
    }

    pub(super) fn operator_forgets(&mut self, of: HistoryOf) -> Event {
        self.log.push(Happening::DeletionAsked {
            place: self.place,
            scheduler: self.process.core.id(),
            of,
        });
        let job = JobName::try_from(format!("j{}", of.job));
        let node = of.node.map(|node| NodeName::try_from(format!("n{node}")));
        let short = "Invariant: a short name without NUL";
        Event::ChangeJob {
            request: self.expect(RequestSubject::Deletion(of)),
            from: Principal::Own,
            job: job.expect(short),
            change: JobChange::DeleteHistory {
                nodes: node.into_iter().map(|node| node.expect(short)).collect(),
            },
        }
    }
}
