//! Rules for artifacts without a holder that may be asked: queries to the scheduler, and the end of the wait.

use brasserie_common::Time;

use super::super::action::GatherAction;
use super::super::artifacts::Stage;
use super::super::types::{ArtifactId, TransferPurpose};
use super::{Gather, Turn};

impl Gather {
    /// Gives up the artifacts that have been missing for too long, and lists the others whose query is due. A replica is given up at once:
    /// the scheduler repeats its request with the present holders.
    pub(super) fn check_missing(&mut self, turn: &mut Turn) {
        let missing: Vec<(ArtifactId, Time)> = self.artifacts.missing().collect();
        for (artifact, since) in missing {
            let is_replica = self.artifacts.purpose(artifact) == TransferPurpose::Replicas;
            if is_replica || since + self.limits.missing_timeout <= self.now {
                let tasks = self.artifacts.forget(artifact, self.now);
                turn.queries.remove(&artifact);
                turn.actions.push(GatherAction::Missing {
                    artifact,
                    tasks,
                    since,
                });
            } else if self.artifacts.next_query((artifact, since), &self.limits) <= self.now {
                turn.queries.insert(artifact);
            }
        }
    }

    /// Asks for the listed artifacts, and for those whose holders are all busy. The question leaves at once, not after the busy marks: a
    /// holder that is not known yet may be idle.
    pub(super) fn ask_for_holders(&mut self, turn: &mut Turn) {
        for &artifact in &turn.doubtful {
            if self.artifacts.stage(artifact) == Some(Stage::Needed)
                && self.artifacts.purpose(artifact) == TransferPurpose::Inputs
                && self.are_all_busy(artifact)
                && self.artifacts.query(artifact).earliest(&self.limits) <= self.now
            {
                turn.queries.insert(artifact);
            }
        }
        if turn.queries.is_empty() {
            return;
        }
        let artifacts: Vec<ArtifactId> = std::mem::take(&mut turn.queries).into_iter().collect();
        for &artifact in &artifacts {
            self.artifacts.send_query(artifact, self.now);
        }
        turn.actions.push(GatherAction::AskHolders { artifacts });
    }

    /// Returns the time of the next query for a missing artifact, or of the end of its wait.
    pub(super) fn next_missing(&self) -> Option<Time> {
        let next = |(artifact, since)| {
            let query = self.artifacts.next_query((artifact, since), &self.limits);
            query.min(since + self.limits.missing_timeout)
        };
        self.artifacts.missing().map(next).min()
    }
}
