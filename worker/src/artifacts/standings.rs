//! The facts about associations that the desk and the reports need. The driver passes them on.

use brasserie_common::{ServiceAddress, Shard, Time, WorkerId};
use brasserie_worker_core::Association;
use tokio::sync::watch;

use crate::members::statuses_to;

/// The facts of one association.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    pub shard: Shard,
    pub worker: WorkerId,
    /// The scheduler's member that receives statuses.
    pub member: ServiceAddress,
    /// `None`: there is no scheduler.
    pub tasks_may_live_until: Option<Time>,
    /// The scheduler said that jobs leave artifacts.
    pub uses_artifacts: bool,
}

impl Standing {
    fn of(association: &Association) -> Self {
        Standing {
            shard: association.description().shard.clone(),
            worker: association.instance(),
            member: statuses_to(association).clone(),
            tasks_may_live_until: association.tasks_may_live_until(),
            uses_artifacts: association.scheduler_uses_artifacts(),
        }
    }

    /// Returns whether this is still true of the association; cheaper than to compare with a new one.
    fn is_of(&self, association: &Association) -> bool {
        self.worker == association.instance()
            && self.tasks_may_live_until == association.tasks_may_live_until()
            && self.uses_artifacts == association.scheduler_uses_artifacts()
            && self.member == *statuses_to(association)
    }
}

/// The sending side, with one entry for each association.
pub(crate) struct Standings(Vec<watch::Sender<Standing>>);

impl Standings {
    pub(crate) fn of(associations: &[Association]) -> (Self, Vec<watch::Receiver<Standing>>) {
        let channels = associations
            .iter()
            .map(|one| watch::channel(Standing::of(one)));
        let (senders, receivers) = channels.unzip();
        (Standings(senders), receivers)
    }

    /// Returns a function that tells the current address of the first scheduler.
    pub(crate) fn scheduler(&self) -> impl Fn() -> ServiceAddress + Send + 'static {
        let first = self.0[0].subscribe();
        move || first.borrow().member.clone()
    }

    /// Passes on what has changed in a turn of the core.
    pub(crate) fn update(&self, associations: &[Association]) {
        for (sender, association) in self.0.iter().zip(associations) {
            if !sender.borrow().is_of(association) {
                sender.send_replace(Standing::of(association));
            }
        }
    }
}
