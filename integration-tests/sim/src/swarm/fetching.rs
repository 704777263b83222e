//! Draws the workers that request work, their policies, and whether slots are processors.

use brasserie_worker_core::Profile;

use super::Swarm;
use crate::dice::Dice;
use crate::event_log::WorkerPlace;

/// The runs in which workers request work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fetchers {
    /// Some workers, or all, in every run.
    Always,
    /// No worker in any run.
    Never,
    /// All workers in some runs, some workers in others.
    #[default]
    Mixed,
}

/// Whether workers request work.
#[derive(Clone, Debug, PartialEq)]
pub enum Fetching {
    Nobody,
    Some(WorkFetching),
}

/// How workers request work.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkFetching {
    /// Whether the worker of each place requests work.
    pub who: Vec<bool>,
    pub profile: Profile,
    /// The slots of workers are their processors. They bound execution on a worker, not what is sent there.
    pub slots_are_cpus: bool,
}

impl Fetching {
    pub fn of(&self, place: WorkerPlace) -> Option<&WorkFetching> {
        match self {
            Fetching::Nobody => None,
            Fetching::Some(own) => {
                let asks = own.who.get(usize::from(place.0)).copied();
                asks.unwrap_or(false).then_some(own)
            }
        }
    }
}

/// Runs per thousand in which workers request work, with [`Fetchers::Mixed`].
const MIXED: u32 = 350;

impl Swarm {
    pub(super) fn fetch_work(mut self, dice: &mut Dice, fetchers: Fetchers) -> Self {
        let is_chosen = dice.per_mille(MIXED);
        let asks = match fetchers {
            Fetchers::Always => true,
            Fetchers::Never => false,
            Fetchers::Mixed => is_chosen,
        };
        if asks {
            let all = dice.per_mille(600);
            let mut who: Vec<bool> = self
                .places
                .iter()
                .map(|_| all || dice.per_mille(500))
                .collect();
            // One worker or more requests work.
            if let Some(first) = who.first_mut() {
                *first = true;
            }
            self.fetching = Fetching::Some(WorkFetching {
                who,
                profile: draw_profile(dice),
                slots_are_cpus: dice.per_mille(700),
            });
        }
        self
    }
}

fn pick(dice: &mut Dice, of: &[f64]) -> f64 {
    dice.pick(of).copied().unwrap_or(0.0)
}

/// Draws one of the two profiles, with waits of which a run of an hour or two holds many.
fn draw_profile(dice: &mut Dice) -> Profile {
    let usual = match dice.per_mille(500) {
        true => Profile {
            linger: pick(dice, &[0.0, 5.0, 120.0]),
            rpc_backoff_max: pick(dice, &[5.0, 60.0]),
            ..Profile::CLUSTER
        },
        false => Profile {
            rpc_backoff_min: 2.0,
            rpc_backoff_max: 120.0,
            list_fetch_interval: 300.0,
            pair_backoff_min: 5.0,
            fetch_time: 3.0,
            fetch_period: 20.0,
            rec_half_life: 3600.0,
            time_slice: 30.0,
            ..Profile::VOLUNTEER
        },
    };
    Profile {
        pair_backoff_max: pick(dice, &[5.0, 20.0, 60.0]),
        work_buffer_min: pick(dice, &[0.0, 2.0, 10.0, 200.0]),
        work_buffer_additional: pick(dice, &[0.0, 5.0, 20.0, 1000.0]),
        // Each periodic accounting step costs simulation time.
        schedule_period: pick(dice, &[1.0, 10.0, 30.0]),
        driver_period: pick(dice, &[0.5, 3.0]),
        ..usual
    }
}
