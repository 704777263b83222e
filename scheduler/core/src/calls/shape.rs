//! Fingerprints of the open calls.

use std::hash::Hasher;

use brasserie_common::fingerprint::Shape;

use super::{Calls, Purpose};

impl Calls {
    pub(crate) fn shape<H: Hasher>(&self, s: &mut Shape<'_, H>) {
        let Calls {
            last: _,
            suicides,
            open,
            deadlines: _,
        } = self;
        // The reason decides nothing.
        s.each(suicides, |s, (worker, _)| s.worker(*worker));
        s.each(open, |s, (id, (deadline, purpose))| {
            s.call(*id);
            s.deadline(*deadline);
            purpose.shape(s);
        });
    }
}

impl Purpose {
    fn shape<H: Hasher>(&self, s: &mut Shape<'_, H>) {
        s.put(std::mem::discriminant(self));
        match self {
            Purpose::Fetch { shard, worker } => {
                s.put(shard);
                s.worker(*worker);
            }
            Purpose::Start {
                shard,
                worker,
                task,
                invocation,
            } => {
                s.put((shard, task));
                s.worker(*worker);
                s.invocation(*invocation);
            }
            Purpose::Healthcheck {
                shard,
                worker,
                invocation,
            } => {
                s.put(shard);
                s.worker(*worker);
                s.healthcheck(*invocation);
            }
            Purpose::Notify {
                shard,
                worker,
                tasks,
            } => {
                s.put(shard);
                s.worker(*worker);
                s.each(tasks, |s, (task, invocation)| {
                    s.put(task);
                    s.invocation(*invocation);
                });
            }
            Purpose::Suicide { worker } => s.worker(*worker),
            Purpose::Kill { request, killed } => {
                s.request(*request);
                s.put((&killed.shard, killed.request, killed.held));
                s.invocation(killed.invocation);
            }
            Purpose::EndOrphan {
                shard,
                task,
                invocation,
            } => {
                s.put((shard, task));
                s.invocation(*invocation);
            }
        }
    }
}
