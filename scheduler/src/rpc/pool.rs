//! Calls each worker in the dialect of its own heartbeats, because a worker of another project may understand no other.

use std::collections::BTreeMap;
use std::sync::Arc;

use brasserie_common::access::ShardLabel;
use brasserie_common::{Principal, ServiceAddress, Shard, WorkerDescription, WorkerId};
use brasserie_thrift::generated::brasserie::{
    BrasserieWorkerLearnCertificatesArgs, BrasserieWorkerLearnCertificatesResult, CertificateNews,
    RevokedShard,
};
use brasserie_thrift::rpc::{CallResult, ClientPool, ClientProtocol, PeerAddr};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::security::Security;

/// Maximum remembered workers. Beyond the limit all are forgotten, and each worker's next heartbeat adds itself again.
const MAX_KNOWN: usize = 65_536;

/// The connections to all workers. Clones share them.
#[derive(Clone)]
pub(crate) struct WorkerPool {
    pool: ClientPool,
    /// The identity of a scheduler with an authority makes calls go inside TLS, and each worker proves first that it is the one of the shard.
    security: Option<Arc<Security>>,
    known: Arc<Mutex<KnownWorkers>>,
}

/// The last heartbeats of the shards.
#[derive(Default)]
struct KnownWorkers {
    accepted: BTreeMap<Shard, KnownWorker>,
    /// The heartbeats that the core has not judged yet. Nobody can by one of them change how an accepted worker is called.
    asking: BTreeMap<Shard, Way>,
}

/// How a worker is called.
#[derive(Clone)]
struct Way {
    address: ServiceAddress,
    protocol: ClientProtocol,
    /// Whether its heartbeat came without any proof.
    is_plain: bool,
}

struct KnownWorker {
    way: Way,
    instance: WorkerId,
    /// The last change of certificates that it was told of, or is just being told of.
    told: Option<u64>,
}

/// A heartbeat that the core has not judged yet.
pub(super) struct Heard {
    shard: Shard,
    instance: WorkerId,
    way: Way,
}

impl KnownWorkers {
    fn way(&self, shard: &Shard, address: &ServiceAddress) -> Option<&Way> {
        let accepted = self.accepted.get(shard).map(|worker| &worker.way);
        let is_there = |way: &&Way| way.address == *address;
        let accepted = accepted.filter(is_there);
        accepted.or_else(|| self.asking.get(shard).filter(is_there))
    }
}

/// Adds an entry, and forgets all others first if there are too many.
fn put<V>(map: &mut BTreeMap<Shard, V>, shard: Shard, value: V) {
    if map.len() >= MAX_KNOWN && !map.contains_key(&shard) {
        map.clear();
    }
    map.insert(shard, value);
}

impl WorkerPool {
    pub(crate) fn new(pool: ClientPool, security: Option<Arc<Security>>) -> Self {
        WorkerPool {
            pool,
            security,
            known: Arc::default(),
        }
    }

    /// Notes a heartbeat from a worker that may speak for its shard.
    pub(super) fn heard(
        &self,
        worker: &WorkerDescription,
        protocol: ClientProtocol,
        from: &Principal,
    ) -> Heard {
        let way = Way {
            address: worker.address.clone(),
            protocol,
            is_plain: from.identity().is_none(),
        };
        let shard = worker.shard.clone();
        if let Some(security) = &self.security {
            security.note_name(from, &shard);
        }
        put(&mut self.known.lock().asking, shard.clone(), way.clone());
        Heard {
            shard,
            instance: worker.id,
            way,
        }
    }

    /// Notes that the core has accepted a heartbeat, and tells the worker about certificates if it does not know of the last change.
    pub(super) fn accepted(&self, heard: Heard) {
        let Heard {
            shard,
            instance,
            way,
        } = heard;
        let mut known = self.known.lock();
        known.asking.remove(&shard);
        let former = known.accepted.get(&shard);
        let former = former.filter(|former| former.instance == instance);
        let told = former.and_then(|former| former.told);
        let worker = KnownWorker {
            way,
            instance,
            told,
        };
        put(&mut known.accepted, shard.clone(), worker);
        drop(known);
        if let Some(security) = &self.security {
            // The number is read before the news, which may be newer, and never older.
            let change = *security.news_version().borrow();
            if let Some(address) = self.note_told(&shard, change) {
                self.tell(&shard, &address, &wire_news(security, change));
            }
        }
    }

    /// Notes that the core has refused a heartbeat, or that its worker must end.
    pub(super) fn refused(&self, heard: &Heard) {
        self.known.lock().asking.remove(&heard.shard);
    }

    /// Tells all workers about each change of certificates, until the scheduler stops.
    pub(crate) async fn spread_news(self, stop: CancellationToken) {
        let Some(security) = self.security.clone() else {
            return;
        };
        let mut changes = security.news_version();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                changed = changes.changed() => if changed.is_err() {
                    return;
                },
            }
            // The number is read before the news, which may be newer, and never older.
            let change = *changes.borrow_and_update();
            let news = wire_news(&security, change);
            let shards: Vec<Shard> = self.known.lock().accepted.keys().cloned().collect();
            for shard in shards {
                if let Some(address) = self.note_told(&shard, change) {
                    self.tell(&shard, &address, &news);
                    // Heartbeats need not wait until all workers are called.
                    tokio::task::yield_now().await;
                }
            }
        }
    }

    /// Notes that the worker of a shard is being told of a change of certificates, and returns its address. Returns nothing if the worker
    /// knows of that change or a later one, or calls without a proof.
    fn note_told(&self, shard: &Shard, change: u64) -> Option<ServiceAddress> {
        let mut known = self.known.lock();
        let worker = known.accepted.get_mut(shard)?;
        let is_behind = worker.told.is_none_or(|told| told < change);
        if worker.way.is_plain || !is_behind {
            return None;
        }
        worker.told = Some(change);
        Some(worker.way.address.clone())
    }

    /// Tells the worker of a shard about certificates. A call that fails is made again after its next heartbeat.
    fn tell(
        &self,
        shard: &Shard,
        address: &ServiceAddress,
        news: &BrasserieWorkerLearnCertificatesArgs,
    ) {
        let (pool, peer) = self.to(shard, address);
        let (known, shard) = (Arc::clone(&self.known), shard.clone());
        pool.call_then(&peer, "learnCertificates", news, move |result| {
            let result: CallResult<BrasserieWorkerLearnCertificatesResult> = result;
            let is_told = matches!(result, CallResult::Done(_));
            if let (false, Some(worker)) = (is_told, known.lock().accepted.get_mut(&shard)) {
                worker.told = None;
            }
        });
    }

    /// Returns the client pool and the peer by which to call the worker of a shard at this address. With an authority, it must prove the shard,
    /// unless workers on this machine need no proof and it is one.
    pub(super) fn to(&self, shard: &Shard, address: &ServiceAddress) -> (ClientPool, PeerAddr) {
        let (protocol, is_plain) = match self.known.lock().way(shard, address) {
            Some(way) => (way.protocol, way.is_plain),
            None => (ClientProtocol::default(), false),
        };
        let peer = PeerAddr::new(&address.host, address.port);
        let peer = match &self.security {
            None => peer,
            Some(security) => match security.plain_host(&address.host).filter(|_| is_plain) {
                Some(host) => PeerAddr::new(host, address.port),
                None => peer.proving(&security.certified_name(&ShardLabel::of(shard))),
            },
        };
        (self.pool.speaking(protocol), peer)
    }
}

/// Returns the revoked certificates of workers as peers learn them.
pub(super) fn wire_revoked(shards: Vec<(ShardLabel, i64)>) -> Vec<RevokedShard> {
    let shards = shards.into_iter().map(|(label, before)| RevokedShard {
        shard: Some(label.as_str().to_owned()),
        issued_before: Some(before),
    });
    shards.collect()
}

fn wire_news(security: &Security, number: u64) -> BrasserieWorkerLearnCertificatesArgs {
    let (revoked, authorities) = security.certificate_news();
    let authorities = authorities.into_iter().map(|hash| hash.0.to_vec());
    let news = CertificateNews {
        shards: Some(wire_revoked(revoked.shards)),
        tokens: Some(revoked.tokens),
        authorities: Some(authorities.collect()),
        source: Some(security.source()),
        number: i64::try_from(number).ok(),
    };
    BrasserieWorkerLearnCertificatesArgs { news }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use brasserie_common::access::{Identity, IdentityProof, Role};
    use brasserie_thrift::rpc::ClientConfig;

    use super::*;
    use crate::security::PlainPeers;
    use crate::security::tests::Bench;

    fn shard(name: &str) -> Shard {
        Shard::try_from(name).expect("a shard")
    }

    fn at(host: &str) -> ServiceAddress {
        ServiceAddress {
            host: host.into(),
            port: 1,
        }
    }

    fn worker(name: &str, address: &ServiceAddress) -> WorkerDescription {
        WorkerDescription {
            shard: shard(name),
            address: address.clone(),
            ..WorkerDescription::default()
        }
    }

    fn proven(name: &str) -> Principal {
        let from = SocketAddr::from(([10, 0, 0, 9], 1));
        Principal::Authenticated(Arc::new(Identity {
            shard: Some(ShardLabel::of(&shard(name))),
            ..Identity::new(Role::Worker, IdentityProof::Certificate, from)
        }))
    }

    fn local() -> Principal {
        Principal::Unauthenticated(SocketAddr::from(([127, 0, 0, 1], 1)))
    }

    fn guarded(bench: &Bench, plain: PlainPeers) -> (WorkerPool, Arc<Security>) {
        let security = bench.security_for(plain);
        let pool = ClientPool::new(ClientConfig::default());
        (WorkerPool::new(pool, Some(Arc::clone(&security))), security)
    }

    #[tokio::test]
    async fn the_shard_of_a_call_decides_what_the_worker_must_prove() {
        let bench = Bench::new();
        let (pool, security) = guarded(&bench, PlainPeers::Strangers);
        let named = |name: &str, address: &ServiceAddress| {
            let (_, peer) = pool.to(&shard(name), address);
            peer.name().map(str::to_owned)
        };
        let wanted = |name: &str| Some(security.certified_name(&ShardLabel::of(&shard(name))));
        let (one, two) = (at("10.0.0.1"), at("10.0.0.2"));
        let compact = ClientProtocol::default();
        pool.accepted(pool.heard(&worker("w2", &two), compact, &proven("w2")));
        // A thief of the key of `w1` sends heartbeats with the address of `w2`, which the core refuses or accepts.
        let strange = ClientProtocol::HeaderBinary;
        let refused = pool.heard(&worker("w1", &two), strange, &proven("w1"));
        assert_eq!(named("w2", &two), wanted("w2"));
        pool.refused(&refused);
        pool.accepted(pool.heard(&worker("w1", &two), strange, &proven("w1")));
        assert_eq!(named("w2", &two), wanted("w2"));
        let known = pool.known.lock();
        let way = known.way(&shard("w2"), &two).expect("it is known");
        assert_eq!(way.protocol, compact);
        drop(known);
        // Calls for `w1` ask for its own proof wherever they go, also if nothing was heard from there.
        assert_eq!(named("w1", &two), wanted("w1"));
        assert_eq!(named("w1", &one), wanted("w1"));
    }

    #[tokio::test]
    async fn only_workers_on_this_machine_are_called_without_a_proof() {
        let bench = Bench::new();
        let (pool, _) = guarded(&bench, PlainPeers::Loopback);
        let compact = ClientProtocol::default();
        let called = |host: &str| {
            let address = at(host);
            pool.accepted(pool.heard(&worker("w1", &address), compact, &local()));
            let (_, peer) = pool.to(&shard("w1"), &address);
            (peer.to_string(), peer.name().is_none())
        };
        assert_eq!(called("127.0.0.1"), ("127.0.0.1:1".to_owned(), true));
        assert_eq!(called("::1"), ("[::1]:1".to_owned(), true));
        assert_eq!(called("localhost"), ("127.0.0.1:1".to_owned(), true));
        let own = brasserie_common_runtime::net::host_name().expect("a name");
        assert_eq!(called(&own), ("127.0.0.1:1".to_owned(), true));
        for elsewhere in ["10.0.0.1", "node.example", "127.0.0.1.example"] {
            assert!(!called(elsewhere).1, "{elsewhere}");
        }
        // A heartbeat that nobody has accepted changes nothing for a worker that has proven its shard.
        let address = at("127.0.0.1");
        pool.accepted(pool.heard(&worker("w1", &address), compact, &proven("w1")));
        let _asking = pool.heard(&worker("w1", &address), compact, &local());
        assert!(pool.to(&shard("w1"), &address).1.name().is_some());
    }

    #[test]
    fn memory_is_bounded() {
        let pool = WorkerPool::new(ClientPool::new(ClientConfig::default()), None);
        let address = at("h");
        for number in 0..=MAX_KNOWN {
            let heard = pool.heard(
                &worker(&format!("w{number}"), &address),
                ClientProtocol::FramedBinary,
                &local(),
            );
            if number % 2 == 0 {
                pool.accepted(heard);
            }
        }
        let known = pool.known.lock();
        assert!(known.asking.len() <= MAX_KNOWN && known.accepted.len() <= MAX_KNOWN);
    }
}
