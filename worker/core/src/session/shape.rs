//! Fingerprints of sessions.

use super::WantedBy;
use std::hash::Hasher;

use brasserie_common::fingerprint::Shape;

use super::life::Life;
use super::{Binding, Session};

impl Session {
    /// Writes the state for fingerprints, apart from the remembered runs. Omits the options, which are constant for an instance, and texts
    /// for people.
    pub(crate) fn shape<H: Hasher>(&self, s: &mut Shape<'_, H>) {
        s.worker(self.id());
        s.put((&self.description.shard, self.kill_pace));
        s.put(self.description.intake);
        s.put(self.description.usable.cpu_cores.to_bits());
        s.each(&self.description.usable.gpus, |s, card| {
            s.put((&card.pci_bus_id, &card.name));
        });
        self.shape_life(s);
        self.health.shape(s);
        s.opt(self.newest, Shape::scheduler);
        match self.binding {
            Binding::Unbound => s.put(0_u8),
            Binding::To(scheduler) => {
                s.put(1_u8);
                s.scheduler(scheduler);
            }
            Binding::WhoeverAnswers(before) => {
                s.put(2_u8);
                s.opt(before, Shape::scheduler);
            }
        }
        s.put((self.sequence, self.trouble.is_some()));
        self.heartbeats.shape(s);
    }

    /// Writes the remembered runs for fingerprints.
    pub(crate) fn shape_runs<H: Hasher>(&self, s: &mut Shape<'_, H>) {
        self.invocations.shape(s);
        self.healthchecks.shape(s);
    }

    fn shape_life<H: Hasher>(&self, s: &mut Shape<'_, H>) {
        s.put(std::mem::discriminant(&self.life));
        match &self.life {
            Life::Running | Life::Gone => {}
            Life::Draining { ends_at, by } => {
                s.opt(*ends_at, Shape::deadline);
                s.put(*by == WantedBy::Signal);
            }
            Life::Leaving {
                // Only the keeper uses this time.
                kill_by: _,
                quiet_since,
            } => s.time_if(*quiet_since),
            Life::Farewell {
                reason,
                since,
                goodbye,
            } => {
                s.put(std::mem::discriminant(reason));
                s.time(*since);
                s.opt(*goodbye, Shape::call);
            }
            Life::Dying {
                reason,
                since,
                quiet_since,
            } => {
                s.put(std::mem::discriminant(reason));
                s.time(*since);
                s.time_if(*quiet_since);
            }
        }
    }
}
