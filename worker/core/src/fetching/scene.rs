//! The view of the associations that the policies of a pull worker get.

use brasserie_common::{ReportPolicy, Time};
use brasserie_worker_fetch::{Computing, Scene, Standing, Task, Told, Unreported};

use super::{ENDING, Fetching, NO_REQUESTS, NOT_HEALTHY, Takes};
use crate::association::Association;
use crate::suicide::Life;

/// All tasks, the state of each association, and the completions that are held back.
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

/// Returns the held completions in the order in which the tasks ended.
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

/// Returns whether no scheduler would send anything to this association. Each turn calls this function.
pub(super) fn is_absent(association: &Association) -> bool {
    let serves = match association.life {
        Life::Running | Life::Draining { .. } => true,
        Life::Leaving { .. } | Life::Farewell { .. } | Life::Dying { .. } | Life::Gone => false,
    };
    !serves || association.scheduler().is_none() || association.is_out_of_favour()
}

/// Returns why a scheduler is not asked, or is asked in vain. The policies know only that it would send nothing, and not why.
pub(super) fn true_reason(
    now: Time,
    (association, takes): (&Association, Takes),
    said: Option<String>,
) -> Option<String> {
    let is_absent = is_absent(association);
    if association.life != Life::Running {
        return match is_absent {
            true => Some(ENDING.to_owned()),
            false => said,
        };
    }
    // All other reasons follow from this one: completions wait for the scheduler, and requests fail.
    if let Some(why) = association.unanswered(now) {
        return Some(why);
    }
    match (is_absent, takes.any()) {
        (true, _) => Some(NOT_HEALTHY.to_owned()),
        (false, false) => Some(NO_REQUESTS.to_owned()),
        (false, true) => said,
    }
}
