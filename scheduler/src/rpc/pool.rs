//! Calls each worker in the dialect of its own heartbeats, because a worker of another project may understand no other.

use std::collections::HashMap;
use std::sync::Arc;

use brasserie_common::access::ShardLabel;
use brasserie_common::{ServiceAddress, Shard};
use brasserie_thrift::rpc::{ClientPool, ClientProtocol, PeerAddr};
use parking_lot::Mutex;

use crate::security::Guard;

/// Maximum remembered workers with an unusual dialect; the client pool itself remembers as many peers. Beyond the limit all are forgotten,
/// and each worker's next heartbeat adds its dialect again.
const MAX_STRANGERS: usize = 4096;
/// Maximum remembered shards of addresses. Beyond the limit all are forgotten, and each worker's next heartbeat adds its own again.
const MAX_SHARDS: usize = 65_536;

/// The connections to all workers. Clones share them.
#[derive(Clone)]
pub(crate) struct WorkerPool {
    pool: ClientPool,
    /// The peers whose dialect is not the default.
    strangers: Arc<Mutex<HashMap<PeerAddr, ClientProtocol>>>,
    /// With a guard, calls go inside TLS, and each worker proves its shard first.
    guard: Option<Arc<Guard>>,
    /// The shards of the addresses, by their last heartbeats.
    shards: Arc<Mutex<HashMap<ServiceAddress, ShardLabel>>>,
}

impl WorkerPool {
    pub(crate) fn new(pool: ClientPool, guard: Option<Arc<Guard>>) -> Self {
        WorkerPool {
            pool,
            strangers: Arc::default(),
            guard,
            shards: Arc::default(),
        }
    }

    /// Records the dialect and the shard of a heartbeat from the worker at this address.
    pub(super) fn heard(&self, address: &ServiceAddress, protocol: ClientProtocol, shard: &Shard) {
        if self.guard.is_some() {
            let mut shards = self.shards.lock();
            if shards.len() >= MAX_SHARDS && !shards.contains_key(address) {
                shards.clear();
            }
            shards.insert(address.clone(), ShardLabel::of(shard));
        }
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
                let shards = self.shards.lock();
                peer.proving(&match shards.get(address) {
                    Some(shard) => guard.name_of(shard),
                    // Recorded by an earlier process. Its next heartbeat tells its shard.
                    None => guard.name_of_workers(),
                })
            }
        };
        (self.pool.speaking(protocol), peer)
    }

    #[cfg(test)]
    fn strangers(&self) -> usize {
        self.strangers.lock().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use brasserie_thrift::rpc::ClientConfig;

    #[test]
    fn memory_is_bounded_and_only_of_strangers() {
        let pool = WorkerPool::new(ClientPool::new(ClientConfig::default()), None);
        let shard = Shard::default();
        let address = |number: usize| ServiceAddress {
            host: format!("h{number}").into(),
            port: 1,
        };
        pool.heard(&address(0), ClientProtocol::FramedCompact, &shard);
        assert_eq!(pool.strangers(), 0);
        pool.heard(&address(0), ClientProtocol::HeaderBinary, &shard);
        assert_eq!(pool.strangers(), 1);
        pool.heard(&address(0), ClientProtocol::FramedCompact, &shard);
        assert_eq!(pool.strangers(), 0);
        for number in 0..3 * MAX_STRANGERS {
            pool.heard(&address(number), ClientProtocol::FramedBinary, &shard);
            assert!(pool.strangers() <= MAX_STRANGERS);
        }
    }
}
