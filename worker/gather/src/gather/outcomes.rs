//! Rules for the outcome of a request to a peer.

use std::collections::BTreeMap;
use std::time::Duration;

use brasserie_common::sabotage::{self, Sabotage};

use super::super::action::GatherAction;
use super::super::artifacts::{LossCause, Stage};
use super::super::event::{ReceivedCopy, TransferOutcome};
use super::super::limits::BusyJitter;
use super::super::transfers::Transfer;
use super::super::types::{ArtifactId, TransferId};
use super::{Gather, Turn};

impl Gather {
    pub(super) fn end_transfer(
        &mut self,
        transfer: TransferId,
        outcome: TransferOutcome,
        turn: &mut Turn,
    ) {
        let Some(transfer) = self.transfers.end(transfer) else {
            return;
        };
        match outcome {
            TransferOutcome::Answered(copies) => self.accept(&transfer, &copies, turn),
            TransferOutcome::Busy(copies) => self.mark_busy(transfer, &copies, turn),
            TransferOutcome::ConnectionFailed(copies) => {
                self.accept(&transfer, &copies, turn);
                self.drop_peer(&transfer.peer, LossCause::Failed, turn);
            }
        }
    }

    /// Takes the valid copies. The peer is no holder of the artifacts of which it gave no valid copy.
    fn accept(
        &mut self,
        transfer: &Transfer,
        copies: &BTreeMap<ArtifactId, ReceivedCopy>,
        turn: &mut Turn,
    ) {
        let peer = &transfer.peer;
        for &artifact in &transfer.batch.artifacts {
            match copies.get(&artifact) {
                Some(ReceivedCopy::Valid) => {
                    let tasks = self.artifacts.forget(artifact, self.now);
                    turn.actions.push(GatherAction::Arrived { artifact, tasks });
                    continue;
                }
                Some(ReceivedCopy::Corrupt) => turn.actions.push(GatherAction::ReportCorrupt {
                    peer: peer.clone(),
                    artifact,
                }),
                None => {}
            }
            self.artifacts
                .drop_holder(artifact, peer, LossCause::Failed, self.now);
            self.artifacts.end_transfer(artifact, self.now);
            turn.doubtful.insert(artifact);
        }
    }

    /// Takes the copies that came before the busy answer, and marks the peer. It stays a holder of the others, and every artifact that
    /// waits for it may now have busy holders only.
    fn mark_busy(
        &mut self,
        mut transfer: Transfer,
        copies: &BTreeMap<ArtifactId, ReceivedCopy>,
        turn: &mut Turn,
    ) {
        let until = self.now + self.mark_length();
        let is_copied = |artifact: &mut ArtifactId| copies.contains_key(artifact);
        let copied = transfer.batch.artifacts.extract_if(.., is_copied).collect();
        let rest = std::mem::replace(&mut transfer.batch.artifacts, copied);
        self.accept(&transfer, copies, turn);
        for artifact in rest {
            if sabotage::on(Sabotage::LoseRefusedTransfer) {
                continue;
            }
            self.artifacts.end_transfer(artifact, self.now);
            // The peer was removed meanwhile. The scheduler is asked at once, as if the peer were a busy holder.
            if self.artifacts.stage(artifact) == Some(Stage::Missing)
                && self.artifacts.query(artifact).earliest(&self.limits) <= self.now
            {
                turn.queries.insert(artifact);
            }
        }
        let waiting: Vec<ArtifactId> = self.artifacts.needed(&transfer.peer).collect();
        for &artifact in &waiting {
            self.artifacts.count_busy(artifact, &transfer.peer);
        }
        turn.doubtful.extend(waiting);
        self.marks.mark(transfer.peer, until);
    }

    fn mark_length(&mut self) -> Duration {
        let whole = self.limits.busy_mark;
        match self.limits.busy_jitter {
            BusyJitter::Off => whole,
            BusyJitter::Quarter => {
                let half = usize::try_from((whole / 2).as_nanos()).unwrap_or(usize::MAX);
                let part = self.rng.below(half);
                whole / 4 * 3 + Duration::from_nanos(part as u64)
            }
        }
    }
}
