//! The status of workers for people.

use brasserie_common::cluster_view::SlotsView;
use brasserie_common::worker::Intake;
use brasserie_common::{Health, Time};

use super::WorkerStatus;
use crate::pool::remote::Remote;
use crate::pool::status::Condition;
use crate::scheduler::View;

impl View<'_> {
    pub(in crate::scheduler) fn worker_status(
        &self,
        now: Time,
        worker: &Remote,
        slots: Vec<SlotsView>,
    ) -> WorkerStatus {
        let (running, unsure) = self.runs.counts_on(worker.shard());
        let room = worker.description().room.as_ref();
        let full = room.filter(|room| running >= room.most.get() as usize);
        let Condition {
            silent_for,
            waits_for,
            lost_in,
            problems,
            notes,
        } = self.pool.condition(now, &self.options.timeouts, worker);
        WorkerStatus {
            shard: worker.shard().clone(),
            hostname: worker.description().machine_lock.hostname.clone(),
            address: worker.address().clone(),
            id: worker.id(),
            health: worker.health(),
            drains: worker.description().intake == Intake::Draining,
            running,
            unsure,
            begun_anew: worker.begun_anew(),
            since_heartbeat: worker.last_heartbeat().map(|at| now.since(at)),
            silent_for,
            waits_for: waits_for.or_else(|| {
                let is_asked = worker.health() == Health::Healthy;
                let room = full.filter(|_| is_asked)?;
                Some(format!("for one of its tasks to end: it runs {room}"))
            }),
            lost_in,
            problems,
            notes,
            asked: self.asked(now, worker),
            containment: worker.description().containment.clone(),
            slots,
        }
    }
}
