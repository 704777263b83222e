//! Requests of an operator that schedulers be asked for work at once. Such a request ends only the waits that the worker set itself, after
//! failures and answers without work. It keeps the waits that a scheduler requested, and never makes the worker request more than it lacks.

use brasserie_common::work_overview::{Asks, WorkWish};
use brasserie_common::{RefusalCode, ServiceAddress, Time};
use brasserie_worker_fetch::AssociationIndex;

use super::{ENDING, Fetching, NO_REQUESTS, SchedulerView};
use crate::effect::Refusal;

impl Fetching {
    /// Asks this scheduler, or all, as soon as possible, and returns when that is. `unanswered` returns for how long a scheduler has not
    /// answered, and why.
    pub(crate) fn ask_now(
        &mut self,
        now: Time,
        schedulers: &[SchedulerView<'_>],
        scheduler: Option<&ServiceAddress>,
        unanswered: impl Fn(AssociationIndex) -> Option<String>,
    ) -> Result<Vec<WorkWish>, Refusal> {
        let is_meant =
            |one: &&SchedulerView<'_>| scheduler.is_none_or(|at| one.members.contains(at));
        let meant: Vec<&SchedulerView<'_>> = schedulers.iter().filter(is_meant).collect();
        if let (Some(scheduler), true) = (scheduler, meant.is_empty()) {
            return Err(unknown(schedulers, scheduler));
        }
        let association_states = self.association_states(schedulers);
        let mut wishes = Vec::with_capacity(meant.len());
        for one in meant {
            let takes_requests = self.takes_requests(one.index);
            let never = match (one.is_running, takes_requests) {
                (true, true) => None,
                (false, _) => Some(ENDING),
                (true, false) => Some(NO_REQUESTS),
            };
            let (ended, asks) = match never {
                Some(why) => {
                    let why = why.to_owned();
                    (Vec::new(), Asks::Never { why })
                }
                None => {
                    let ended = self.fetcher.end_waits(now, one.index);
                    let association_state = association_states
                        .get(one.index.0)
                        .copied()
                        .unwrap_or_default();
                    let asks = self.fetcher.asks(now, one.index, association_state);
                    (ended, asks_in_vain(asks, unanswered(one.index)))
                }
            };
            wishes.push(WorkWish {
                members: one.members.to_vec(),
                ended,
                asks,
            });
        }
        Ok(wishes)
    }
}

/// Adds that the scheduler does not answer. Such a scheduler is asked as usual, but sends nothing before it answers.
fn asks_in_vain(asks: Asks, unanswered: Option<String>) -> Asks {
    let Some(why) = unanswered else {
        return asks;
    };
    let left = match asks {
        Asks::Now => None,
        Asks::Later { left, .. } => left,
        Asks::Never { .. } => return asks,
    };
    let why = format!("it {why}");
    Asks::Later { left, why }
}

/// Returns the refusal of a worker that does not fetch work.
pub(crate) fn does_not_fetch() -> Refusal {
    Refusal::new(
        RefusalCode::Unspecified,
        "it takes what it is sent and asks for nothing; to have it ask for work, start it with `--work-fetch`",
    )
}

fn unknown(schedulers: &[SchedulerView<'_>], scheduler: &ServiceAddress) -> Refusal {
    let known = schedulers.iter().flat_map(|one| one.members);
    let known: Vec<String> = known.map(ToString::to_string).collect();
    Refusal::new(
        RefusalCode::Unspecified,
        format!(
            "it has no scheduler at {scheduler}; it has {}",
            known.join(", ")
        ),
    )
}
