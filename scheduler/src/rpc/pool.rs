//! Calls each worker in the dialect of its own heartbeats, because a worker of another project may understand no other.

use std::collections::HashMap;
use std::sync::Arc;

use brasserie_common::ServiceAddress;
use brasserie_thrift::rpc::{ClientPool, ClientProtocol, PeerAddr};
use parking_lot::Mutex;

/// Maximum remembered workers with an unusual dialect; the client pool itself remembers as many peers. Beyond the limit all are forgotten,
/// and each worker's next heartbeat adds its dialect again.
const MAX_STRANGERS: usize = 4096;

/// The connections to all workers. Clones share them.
#[derive(Clone)]
pub(crate) struct WorkerPool {
    pool: ClientPool,
    /// The peers whose dialect is not the default.
    strangers: Arc<Mutex<HashMap<PeerAddr, ClientProtocol>>>,
}

impl WorkerPool {
    pub(crate) fn new(pool: ClientPool) -> Self {
        WorkerPool {
            pool,
            strangers: Arc::default(),
        }
    }

    /// Records the dialect of a heartbeat from the worker at this address.
    pub(super) fn heard(&self, address: &ServiceAddress, protocol: ClientProtocol) {
        let peer = peer(address);
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
        let peer = peer(address);
        let protocol = self
            .strangers
            .lock()
            .get(&peer)
            .copied()
            .unwrap_or_default();
        (self.pool.speaking(protocol), peer)
    }

    #[cfg(test)]
    fn strangers(&self) -> usize {
        self.strangers.lock().len()
    }
}

fn peer(address: &ServiceAddress) -> PeerAddr {
    PeerAddr::new(&address.host, address.port)
}

#[cfg(test)]
mod tests {
    use super::*;
    use brasserie_thrift::rpc::ClientConfig;

    #[test]
    fn memory_is_bounded_and_only_of_strangers() {
        let pool = WorkerPool::new(ClientPool::new(ClientConfig::default()));
        let address = |number: usize| ServiceAddress {
            host: format!("h{number}").into(),
            port: 1,
        };
        pool.heard(&address(0), ClientProtocol::FramedCompact);
        assert_eq!(pool.strangers(), 0);
        pool.heard(&address(0), ClientProtocol::HeaderBinary);
        assert_eq!(pool.strangers(), 1);
        pool.heard(&address(0), ClientProtocol::FramedCompact);
        assert_eq!(pool.strangers(), 0);
        for number in 0..3 * MAX_STRANGERS {
            pool.heard(&address(number), ClientProtocol::FramedBinary);
            assert!(pool.strangers() <= MAX_STRANGERS);
        }
    }
}
