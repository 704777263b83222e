//! The part of the desk for one association: what its runs and its scheduler want, and what its report has to say.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use brasserie_common::artifact_report::{InputPeer, WaitingRun};
use brasserie_common::{
    Artifact, ArtifactHolder, ArtifactId, ArtifactNamespace, ServiceAddress, Time,
};
use brasserie_common_runtime::net::parse_peer;
use brasserie_thrift::rpc::PeerAddr;
use brasserie_worker_gather::{
    ByteCount, HostName, InputsProgress, Peer, PeerId, RackName, RunInputs, WantedArtifact,
};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;

use super::reporter::ToReport;
use super::standings::Standing;
use crate::membership::Membership;

/// The time between two reports of progress.
const PROGRESS: Duration = Duration::from_secs(1);
/// The time between two warnings that replicas do not fit.
const WARNING: Duration = Duration::from_secs(60);

/// The runs, the replicas and the reports of one association.
pub(super) struct Side {
    pub inputs: RunInputs,
    /// The namespace of the scheduler's artifacts, once a run or an answer has named it.
    pub namespace: Option<ArtifactNamespace>,
    report: UnboundedSender<ToReport>,
    /// The scheduler, which holds artifacts, too.
    standing: watch::Receiver<Standing>,
    /// The numbers of bytes of the artifacts that are wanted.
    sizes: BTreeMap<ArtifactId, u64>,
    /// The machines of their holders.
    hosts: BTreeMap<PeerId, Arc<str>>,
    /// The time of the next report of progress; `None`: nothing to report.
    progress_due: Option<Time>,
    /// The progress that was reported last.
    reported: Vec<WaitingRun>,
    /// The time of the last warning that a replica does not fit.
    warned: Option<Time>,
}

impl Side {
    pub(super) fn new(
        inputs: RunInputs,
        report: UnboundedSender<ToReport>,
        standing: watch::Receiver<Standing>,
    ) -> Self {
        Side {
            standing,
            inputs,
            namespace: None,
            report,
            sizes: BTreeMap::new(),
            hosts: BTreeMap::new(),
            progress_due: None,
            reported: Vec::new(),
            warned: None,
        }
    }

    pub(super) fn tell(&self, change: ToReport) {
        // The send fails only if the worker has already ended.
        let _ = self.report.send(change);
    }

    /// Describes an artifact that is to be fetched.
    pub(super) fn wanted<'a>(
        &mut self,
        artifact: &Artifact,
        holders: impl Iterator<Item = &'a ArtifactHolder>,
    ) -> WantedArtifact {
        self.sizes.insert(artifact.id, artifact.size);
        WantedArtifact {
            artifact: artifact.id,
            size: Some(ByteCount(artifact.size)),
            holders: self.peers(holders),
        }
    }

    /// Returns holders as the gather knows them.
    pub(super) fn peers<'a>(
        &mut self,
        holders: impl Iterator<Item = &'a ArtifactHolder>,
    ) -> Vec<Peer> {
        let scheduler = self.standing.borrow().member.clone();
        let peers: Vec<Peer> = holders.map(|holder| peer(holder, &scheduler)).collect();
        let hosts = peers
            .iter()
            .map(|peer| (peer.id.clone(), Arc::clone(&peer.host.0)));
        self.hosts.extend(hosts);
        peers
    }

    /// Returns the peer for a call: another worker, or the scheduler.
    pub(super) fn peer_addr(&self, peer: &PeerId, membership: &Membership) -> Option<PeerAddr> {
        let address = parse_peer(&peer.0).ok()?;
        Some(match address == self.standing.borrow().member {
            true => membership.scheduler(&address),
            false => membership.worker(&address),
        })
    }

    /// Returns the artifacts with their numbers of bytes, without those that are not wanted any more.
    pub(super) fn sized(&self, artifacts: Vec<ArtifactId>) -> Vec<(ArtifactId, u64)> {
        let sized = |id| Some((id, *self.sizes.get(&id)?));
        artifacts.into_iter().filter_map(sized).collect()
    }

    /// Forgets the artifacts that nothing waits for.
    pub(super) fn forget_unwanted(&mut self) {
        if self.sizes.is_empty() {
            return;
        }
        let waits = self.inputs.waits().into_iter();
        let wanted: BTreeSet<ArtifactId> = waits.map(|wait| wait.artifact).collect();
        self.sizes.retain(|id, _| wanted.contains(id));
        if wanted.is_empty() {
            self.hosts.clear();
        }
    }

    /// Returns the artifacts that are wanted.
    pub(super) fn wanted_ids(&self) -> impl Iterator<Item = ArtifactId> {
        self.sizes.keys().copied()
    }

    /// Returns the time at which something is due.
    pub(super) fn next_wake(&self) -> Option<Time> {
        let wakes = self.inputs.next_wake().into_iter();
        wakes.chain(self.progress_due).min()
    }

    /// Begins to report progress if a run waits. Inputs that arrive within the first period cause no report of their own.
    pub(super) fn watch_progress(&mut self, now: Time) {
        if self.inputs.do_runs_wait() {
            self.progress_due.get_or_insert(now + PROGRESS);
        }
    }

    pub(super) fn is_progress_due(&self, now: Time) -> bool {
        self.progress_due.is_some_and(|due| due <= now)
    }

    /// Reports the progress of the runs that wait, if it has changed.
    pub(super) fn report_progress(&mut self, waiting: Vec<WaitingRun>, now: Time) {
        self.progress_due = (!waiting.is_empty()).then_some(now + PROGRESS);
        if waiting != self.reported {
            self.tell(ToReport::Waiting(waiting.clone()));
            self.reported = waiting;
        }
    }

    /// Returns the peers for which a run waits, as a report names them.
    pub(super) fn input_peers(&self, progress: &InputsProgress) -> Vec<InputPeer> {
        let peer = |(id, busy_answers): &(PeerId, u32)| {
            Some(InputPeer {
                address: parse_peer(&id.0).ok()?,
                hostname: Arc::clone(self.hosts.get(id)?),
                busy_answers: *busy_answers,
            })
        };
        let peers = progress.peers.iter().filter_map(peer);
        peers.take(WaitingRun::MOST_PEERS).collect()
    }

    /// Warns that the store has not taken a replica, at most once in a period.
    pub(super) fn warn_of_replica(&mut self, id: ArtifactId, why: &str, now: Time) {
        if self.warned.is_none_or(|warned| warned + WARNING <= now) {
            self.warned = Some(now);
            tracing::warn!(
                "cannot keep the copy of the artifact {id} that the scheduler wants: {why}"
            );
        }
    }
}

/// Returns a holder as the gather knows it: by its address.
fn peer(holder: &ArtifactHolder, scheduler: &ServiceAddress) -> Peer {
    let address = holder.address.as_ref().unwrap_or(scheduler);
    Peer {
        id: PeerId(address.to_string().into()),
        host: HostName(Arc::clone(&holder.hostname)),
        rack: holder.rack.clone().map(RackName),
    }
}
