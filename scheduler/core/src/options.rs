//! The settings of a scheduler.

use std::hash::Hasher;
use std::time::Duration;

use brasserie_common::Timeouts;
use brasserie_common::fingerprint::Shape;
use brasserie_scheduler_slots::SlotStrategy;

use crate::credits::RequestPolicy;
use crate::retention::Retention;

/// The settings of a scheduler. The shell fills them from flags.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    pub timeouts: Timeouts,
    /// A new worker instance may replace a worker that is not HEALTHY, not only one that is lost.
    pub allow_bump_unhealthy_worker: bool,
    /// The initial wait that the operator sets. `None`: the safe wait.
    pub startup_wait: Option<Duration>,
    /// The operator states that no scheduler ever ran for these workers. It counts only in a directory without a record.
    pub new_cluster: bool,
    /// The time after which a call has an unknown outcome, even if the shell reports an outcome later.
    pub call_deadline: Duration,
    /// The settings for pull workers.
    pub work: RequestPolicy,
    pub retention: Retention,
    /// The rule that turns disks into budgets of slots.
    pub slots: SlotStrategy,
    /// The seed of every random choice.
    pub seed: u64,
}

impl Options {
    /// Writes the settings that decide into a fingerprint.
    pub(crate) fn shape<H: Hasher>(&self, s: &mut Shape<'_, H>) {
        let Options {
            timeouts,
            allow_bump_unhealthy_worker,
            startup_wait,
            new_cluster,
            call_deadline,
            work,
            // Searched worlds are too short to forget completions.
            retention: _,
            slots,
            // The seed only selects streams of random numbers.
            seed: _,
        } = self;
        s.put((timeouts, allow_bump_unhealthy_worker, startup_wait));
        s.put((new_cluster, call_deadline));
        s.put(format!("{work:?} {slots:?}"));
    }
}
