//! Fingerprints of one worker.

use std::hash::Hasher;

use brasserie_common::RecordSeq;
use brasserie_common::fingerprint::Shape;

use super::{Departure, Fetch, Remote};
use crate::record::until_synced;

impl Remote {
    pub(crate) fn shape<H: Hasher>(&self, s: &mut Shape<'_, H>, persisted: RecordSeq) {
        let Remote {
            description,
            index,
            model,
            initial_set,
            is_known_elsewhere,
            has_heard_us,
            recorded_by,
            is_recorded,
            timeouts,
            // The tasks' deleted completions include it.
            since: _,
            sequence,
            fetch,
            healthchecks,
            busy_until,
            starting,
            told,
            poked,
            asked,
            wake,
            said_goodbye,
            begun_anew,
            left,
            forgotten_at,
            // Only shown.
            unreached: _,
            taken_back: _,
            additions: _,
            falls: _,
            credits,
            barred,
            // It is the same in all simulated heartbeats: none.
            machine: _,
        } = self;
        // The engine covers the resources.
        s.worker(description.id);
        s.put((&description.shard, &description.machine_lock));
        s.put((&description.address, description.heartbeat_period));
        s.put((
            index,
            is_known_elsewhere,
            is_recorded,
            said_goodbye,
            has_heard_us,
        ));
        s.put((timeouts, sequence, starting, barred));
        // Only whether it happened at all counts.
        s.put(*begun_anew > 0);
        model.shape(s);
        s.set(*initial_set);
        s.opt(*asked, Shape::time);
        s.put(until_synced(*recorded_by, persisted));
        match fetch {
            Fetch::Due(at) => s.deadline(*at),
            Fetch::InFlight(call) => s.call(*call),
            Fetch::Done => s.put(u8::MAX),
        }
        healthchecks.shape(s);
        s.opt(*busy_until, Shape::deadline);
        for news in [told, poked] {
            s.opt(*news, |s, (health, set)| {
                s.put(health);
                s.set(set);
            });
        }
        credits.shape(s);
        s.opt(*wake, Shape::deadline);
        s.opt(left.as_ref(), shape_departure);
        s.opt(*forgotten_at, Shape::deadline);
    }
}

fn shape_departure<H: Hasher>(s: &mut Shape<'_, H>, left: &Departure) {
    let Departure {
        at: _,
        heard_at,
        runs,
        // The reason decides nothing.
        why: _,
    } = left;
    s.time_if(*heard_at);
    s.each(runs, |s, (task, invocation)| {
        s.put(task);
        s.invocation(*invocation);
    });
}
