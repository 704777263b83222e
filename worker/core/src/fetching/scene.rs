//! What the policies of a worker that fetches work are shown of its associations.

use brasserie_common::{ReportPolicy, Time};

use super::Fetching;
use crate::association::Association;
use crate::suicide::Life;
use crate::work_fetch::{Computing, Scene, Standing, Task, Told, Unreported};

/// All tasks, how each association is, and the ends that are held back.
pub(super) type Looks<'a> = (&'a [Task], &'a [Standing], &'a [Unreported]);

impl Fetching {
    pub(super) fn standings(&self, associations: &[Association]) -> Vec<Standing> {
        let all = associations.iter().zip(&self.takes_requests);
        all.map(|(association, takes)| {
            let standing = standing(association);
            Standing {
                is_absent: standing.is_absent || !takes.any(),
                ..standing
            }
        })
        .collect()
    }
}

pub(super) fn scene<'a>(
    now: Time,
    associations: &[Association],
    (tasks, standings, unreported): Looks<'a>,
) -> Scene<'a> {
    let mut lives = associations.iter().map(|one| &one.life);
    let computes = lives.any(|life| *life == Life::Running);
    Scene {
        now,
        computing: match computes {
            true => Computing::Allowed,
            false => Computing::Suspended,
        },
        tasks,
        standings,
        unreported,
    }
}

/// The ends that are held back, in the order in which they ended.
pub(super) fn unreported(associations: &[Association]) -> Vec<Unreported> {
    let own = associations.iter().flat_map(|association| {
        let held = association.reports.held();
        held.map(|held| Unreported {
            association: association.index,
            task: held.task,
            told: Told::End,
            policy: Some(ReportPolicy::Lazy),
            ended: held.ended,
            deadline: held.deadline,
        })
    });
    let mut ends: Vec<Unreported> = own.collect();
    ends.sort_by_key(|end| end.ended);
    ends
}

fn standing(association: &Association) -> Standing {
    Standing {
        is_suspended: false,
        is_absent: is_absent(association),
        wants_no_more_work: association.life != Life::Running,
        unacknowledged: association.reports.tasks_told(),
    }
}

/// Whether there is nobody who would send anything. It is asked at each turn.
pub(super) fn is_absent(association: &Association) -> bool {
    let serves = match association.life {
        Life::Running | Life::Draining { .. } => true,
        Life::Leaving { .. } | Life::Farewell { .. } | Life::Dying { .. } | Life::Gone => false,
    };
    !serves || association.scheduler().is_none() || association.is_out_of_favour()
}
