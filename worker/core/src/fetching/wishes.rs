//! Requests of an operator that schedulers be asked for work at once.

use brasserie_common::work_overview::{Asks, WorkWish};
use brasserie_common::{RefusalCode, ServiceAddress, Time};

use super::{ENDING, Fetching, NO_REQUESTS};
use crate::association::Association;
use crate::effect::Refusal;
use crate::suicide::Life;

impl Fetching {
    /// Asks this scheduler, or all, as soon as possible, and returns when that is.
    pub(crate) fn wish(
        &mut self,
        now: Time,
        associations: &[Association],
        scheduler: Option<&ServiceAddress>,
    ) -> Result<Vec<WorkWish>, Refusal> {
        let is_meant =
            |one: &&Association| scheduler.is_none_or(|at| one.whereabouts.members().contains(at));
        let meant: Vec<&Association> = associations.iter().filter(is_meant).collect();
        if let (Some(scheduler), true) = (scheduler, meant.is_empty()) {
            return Err(unknown(associations, scheduler));
        }
        let standings = self.standings(associations);
        let mut wishes = Vec::with_capacity(meant.len());
        for one in meant {
            let takes_requests = self.takes_requests[one.index.0].any();
            let never = match (one.life == Life::Running, takes_requests) {
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
                    let ended = self.fetcher.update(now, one.index);
                    let standing = standings.get(one.index.0).copied().unwrap_or_default();
                    let asks = self.fetcher.asks(now, one.index, standing);
                    (ended, asks_in_vain(now, one, asks))
                }
            };
            wishes.push(WorkWish {
                members: one.whereabouts.members().to_vec(),
                ended,
                asks,
            });
        }
        Ok(wishes)
    }
}

/// Adds that the scheduler does not answer. Such a scheduler is asked as usual, but sends nothing before it answers.
fn asks_in_vain(now: Time, association: &Association, asks: Asks) -> Asks {
    let Some(why) = association.unanswered(now) else {
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
pub(crate) fn fetches_none() -> Refusal {
    Refusal {
        code: RefusalCode::Unspecified,
        message: "it takes what it is sent and asks for nothing; to have it ask for work, start it with `--work-fetch`".to_owned(),
    }
}

fn unknown(associations: &[Association], scheduler: &ServiceAddress) -> Refusal {
    let known = associations
        .iter()
        .flat_map(|one| one.whereabouts.members());
    let known: Vec<String> = known.map(ToString::to_string).collect();
    Refusal {
        code: RefusalCode::Unspecified,
        message: format!(
            "it has no scheduler at {scheduler}; it has {}",
            known.join(", ")
        ),
    }
}
