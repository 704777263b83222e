//! Adds the open calls to a [`fingerprint`](brasserie_common::fingerprint), by which a search recognizes a state that it has visited. A field
//! may be left out only if it decides nothing, or follows from the others.

use std::hash::Hasher;

use brasserie_common::fingerprint::Shape;

use super::{CallPurpose, Calls};

impl Calls {
    pub(crate) fn shape<H: Hasher>(&self, s: &mut Shape<'_, H>) {
        let Calls {
            // The number of the last call only names the next one, and `deadlines` follows from `open`.
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

impl CallPurpose {
    fn shape<H: Hasher>(&self, s: &mut Shape<'_, H>) {
        s.put(std::mem::discriminant(self));
        match self {
            CallPurpose::Fetch { shard, worker } => {
                s.put(shard);
                s.worker(*worker);
            }
            CallPurpose::Start {
                shard,
                worker,
                task,
                invocation,
            } => {
                s.put((shard, task));
                s.worker(*worker);
                s.invocation(*invocation);
            }
            CallPurpose::Healthcheck {
                shard,
                worker,
                invocation,
            } => {
                s.put(shard);
                s.worker(*worker);
                s.healthcheck(*invocation);
            }
            CallPurpose::Notify {
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
            CallPurpose::Suicide { shard, worker } | CallPurpose::Drain { shard, worker } => {
                s.put(shard);
                s.worker(*worker);
            }
            CallPurpose::Kill {
                worker,
                request,
                killed,
            } => {
                s.worker(*worker);
                s.request(*request);
                s.put((&killed.shard, killed.request, killed.held));
                s.invocation(killed.invocation);
            }
            CallPurpose::EndOrphan {
                shard,
                worker,
                task,
                invocation,
            }
            | CallPurpose::TakeBack {
                shard,
                worker,
                task,
                invocation,
            } => {
                s.put((shard, task));
                s.worker(*worker);
                s.invocation(*invocation);
            }
        }
    }
}
