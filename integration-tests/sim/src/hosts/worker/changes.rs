//! The visible changes of a worker process after a turn.

use brasserie_worker_core::LifeStage;

use super::WorkerTurn;
use crate::event_log::Happening;

impl WorkerTurn<'_> {
    pub(super) fn note_changes(&mut self) {
        let (place, worker) = (self.place, self.process.id);
        let health = self.process.own().health();
        if health != self.process.health {
            self.log.push(Happening::WorkerHealth {
                place,
                worker,
                from: self.process.health,
                to: health,
            });
            self.process.health = health;
        }
        let bound = self.process.own().bound_to();
        if bound != self.process.bound {
            self.log.push(Happening::WorkerBound {
                place,
                worker,
                to: bound,
            });
            self.process.bound = bound;
        }
        let life = self.process.own().life_stage();
        if life == LifeStage::Draining && self.process.life != life {
            self.log.push(Happening::WorkerDrains { worker });
        }
        self.process.life = life;
    }
}
