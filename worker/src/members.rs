//! The members of a scheduler to which an association speaks.

use brasserie_common::ServiceAddress;
use brasserie_worker_core::Association;

/// Returns the scheduler's member that receives heartbeats.
pub(crate) fn heartbeats_to(association: &Association) -> &ServiceAddress {
    let member = association.hears_heartbeats();
    member.expect("Invariant: a worker starts with a member of each scheduler, and none is forgotten for nobody")
}

pub(crate) fn statuses_to(association: &Association) -> &ServiceAddress {
    let member = association.hears_statuses();
    member.expect("Invariant: as of heartbeats")
}
