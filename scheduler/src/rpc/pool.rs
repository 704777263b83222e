//! Calls each worker in the dialect of its own heartbeats, because a worker of another project may understand no other.

use std::collections::HashMap;
use std::sync::Arc;

use brasserie_common::access::ShardLabel;
use brasserie_common::{Principal, ServiceAddress, WorkerDescription, WorkerId};
use brasserie_thrift::generated::brasserie::{
    BrasserieWorkerLearnCertificatesArgs, BrasserieWorkerLearnCertificatesResult, CertificateNews,
    RevokedShard,
};
use brasserie_thrift::rpc::{CallResult, ClientPool, ClientProtocol, PeerAddr};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::security::Guard;

/// Maximum remembered workers with an unusual dialect; the client pool itself remembers as many peers. Beyond the limit all are forgotten,
/// and each worker's next heartbeat adds its dialect again.
const MAX_STRANGERS: usize = 4096;
/// Maximum remembered workers of a cluster with an authority. Beyond the limit all are forgotten, and each worker's next heartbeat adds
/// itself again.
const MAX_KNOWN: usize = 65_536;

/// The connections to all workers. Clones share them.
#[derive(Clone)]
pub(crate) struct WorkerPool {
    pool: ClientPool,
    /// The peers whose dialect is not the default.
    strangers: Arc<Mutex<HashMap<PeerAddr, ClientProtocol>>>,
    /// The guard, if there is one, makes calls go inside TLS, and each worker proves its shard first.
    guard: Option<Arc<Guard>>,
    /// The workers at the addresses, by their last heartbeats; with a guard only.
    known: Arc<Mutex<HashMap<ServiceAddress, KnownWorker>>>,
}

/// A worker of a cluster with an authority.
struct KnownWorker {
    /// The shard that it has proven; `None`: it was accepted without TLS.
    proves: Option<ShardLabel>,
    instance: WorkerId,
    /// The last change of certificates that it was told of, or is just being told of.
    told: Option<u64>,
}

impl WorkerPool {
    pub(crate) fn new(pool: ClientPool, guard: Option<Arc<Guard>>) -> Self {
        WorkerPool {
            pool,
            strangers: Arc::default(),
            guard,
            known: Arc::default(),
        }
    }

    /// Records a heartbeat from a worker, and tells the worker about certificates if it does not know of the last change.
    pub(super) fn heard(
        &self,
        worker: &WorkerDescription,
        protocol: ClientProtocol,
        from: &Principal,
    ) {
        let address = &worker.address;
        self.note_dialect(address, protocol);
        let Some(guard) = &self.guard else {
            return;
        };
        let proves = match from {
            Principal::Authenticated(_) => Some(ShardLabel::of(&worker.shard)),
            Principal::Unauthenticated(_) | Principal::Stranger(_) | Principal::Own => None,
        };
        let mut known = self.known.lock();
        if known.len() >= MAX_KNOWN && !known.contains_key(address) {
            known.clear();
        }
        let former = known.get(address);
        let former = former.filter(|former| former.instance == worker.id);
        let entry = KnownWorker {
            proves,
            instance: worker.id,
            told: former.and_then(|former| former.told),
        };
        known.insert(address.clone(), entry);
        drop(known);
        self.tell(guard, address);
    }

    /// Tells all workers about each change of certificates, until the scheduler stops.
    pub(crate) async fn spread_news(self, stop: CancellationToken) {
        let Some(guard) = self.guard.clone() else {
            return;
        };
        let mut changes = guard.changes();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                changed = changes.changed() => if changed.is_err() {
                    return;
                },
            }
            let addresses: Vec<ServiceAddress> = self.known.lock().keys().cloned().collect();
            for address in addresses {
                self.tell(&guard, &address);
            }
        }
    }

    /// Tells a worker about certificates, unless it knows. A call that fails is made again after its next heartbeat.
    fn tell(&self, guard: &Guard, address: &ServiceAddress) {
        let change = *guard.changes().borrow();
        match self.known.lock().get_mut(address) {
            Some(worker) if worker.proves.is_some() && worker.told != Some(change) => {
                worker.told = Some(change);
            }
            Some(_) | None => return,
        }
        let arguments = BrasserieWorkerLearnCertificatesArgs {
            news: wire_news(guard),
        };
        let (pool, peer) = self.to(address);
        let (known, address) = (Arc::clone(&self.known), address.clone());
        pool.call_then(&peer, "learnCertificates", &arguments, move |result| {
            let result: CallResult<BrasserieWorkerLearnCertificatesResult> = result;
            let is_told = matches!(result, CallResult::Done(_));
            if let (false, Some(worker)) = (is_told, known.lock().get_mut(&address)) {
                worker.told = None;
            }
        });
    }

    fn note_dialect(&self, address: &ServiceAddress, protocol: ClientProtocol) {
        let peer = PeerAddr::new(&address.host, address.port);
        let mut strangers = self.strangers.lock();
        if protocol == ClientProtocol::default() {
            strangers.remove(&peer);
            return;
        }
        if strangers.len() >= MAX_STRANGERS && !strangers.contains_key(&peer) {
            strangers.clear();
        }
        strangers.insert(peer, protocol);
    }

    /// Returns the client pool and the peer by which to call the worker at this address.
    pub(super) fn to(&self, address: &ServiceAddress) -> (ClientPool, PeerAddr) {
        let peer = PeerAddr::new(&address.host, address.port);
        let protocol = self
            .strangers
            .lock()
            .get(&peer)
            .copied()
            .unwrap_or_default();
        let peer = match &self.guard {
            None => peer,
            Some(guard) => {
                let known = self.known.lock();
                match known.get(address).map(|worker| &worker.proves) {
                    Some(Some(shard)) => peer.proving(&guard.name_of(shard)),
                    // A worker of Bistro, which knows no TLS.
                    Some(None) => peer,
                    // Recorded by an earlier process. Its next heartbeat tells its shard.
                    None => peer.proving(&guard.name_of_workers()),
                }
            }
        };
        (self.pool.speaking(protocol), peer)
    }

    #[cfg(test)]
    fn strangers(&self) -> usize {
        self.strangers.lock().len()
    }
}

fn wire_news(guard: &Guard) -> CertificateNews {
    let (revoked, authorities) = guard.news();
    let shards = revoked.shards.into_iter();
    let shards = shards.map(|(label, before)| RevokedShard {
        shard: Some(label.as_str().to_owned()),
        issued_before: Some(before),
    });
    let authorities = authorities.into_iter().map(|hash| hash.0.to_vec());
    CertificateNews {
        shards: Some(shards.collect()),
        tokens: Some(revoked.tokens),
        authorities: Some(authorities.collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use brasserie_thrift::rpc::ClientConfig;

    #[test]
    fn memory_is_bounded_and_only_of_strangers() {
        let pool = WorkerPool::new(ClientPool::new(ClientConfig::default()), None);
        let address = |number: usize| ServiceAddress {
            host: format!("h{number}").into(),
            port: 1,
        };
        pool.note_dialect(&address(0), ClientProtocol::FramedCompact);
        assert_eq!(pool.strangers(), 0);
        pool.note_dialect(&address(0), ClientProtocol::HeaderBinary);
        assert_eq!(pool.strangers(), 1);
        pool.note_dialect(&address(0), ClientProtocol::FramedCompact);
        assert_eq!(pool.strangers(), 0);
        for number in 0..3 * MAX_STRANGERS {
            pool.note_dialect(&address(number), ClientProtocol::FramedBinary);
            assert!(pool.strangers() <= MAX_STRANGERS);
        }
    }
}
