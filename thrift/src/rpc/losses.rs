//! Reports broken connections, the first sign of a peer's restart, long before the next call to the peer is due.

use std::sync::Arc;

use tokio::sync::watch;

use super::client::Peer;

/// The side that ended a connection of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndedBy {
    /// The connection was unused, or the pool is gone.
    Us,
    /// The peer closed the connection, it broke, or it was closed because the peer was silent or did not read.
    Peer,
}

/// The sender that notifies every [`ConnectionLosses`] of one peer.
#[derive(Debug, Default)]
pub(super) struct LossSignal(watch::Sender<()>);

impl LossSignal {
    /// Notes that a connection has ended. The pool already opens another one for the next call.
    pub(super) fn ended(&self, by: EndedBy) {
        match by {
            EndedBy::Us => {}
            EndedBy::Peer => {
                self.0.send_replace(());
            }
        }
    }
}

/// A watcher for connections to one peer that the peer or an error has ended since the watcher was created. It opens no connection and
/// keeps no pool alive. Several losses are merged into one.
pub struct ConnectionLosses {
    seen: watch::Receiver<()>,
    /// Prevents the pool from forgetting the peer.
    _peer: Arc<Peer>,
}

impl ConnectionLosses {
    pub(super) fn new(peer: Arc<Peer>) -> Self {
        ConnectionLosses {
            seen: peer.losses.0.subscribe(),
            _peer: peer,
        }
    }

    /// Waits until a connection has been lost since the last report; waits forever if no connection is lost any more. A connection closed
    /// because it was unused is not lost. Cancel safe: a dropped future reports nothing.
    pub async fn next(&mut self) {
        let told = self.seen.changed().await;
        told.expect("the peer, which is held here, keeps the other end");
    }
}
