//! Word of connections that broke: the first sign that a peer restarts, long before the next call to it is due.

use std::sync::Arc;

use tokio::sync::watch;

use super::client::Peer;

/// Who ended a connection of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndedBy {
    /// Nobody used it, or the pool is gone.
    Us,
    /// The peer closed it, it broke, or it was given up because the peer was silent or did not read.
    Peer,
}

/// Told on the other side of every [`ConnectionLosses`] of one peer.
#[derive(Debug, Default)]
pub(super) struct LossSignal(watch::Sender<()>);

impl LossSignal {
    /// A connection has ended; the pool opens another one for the next call already.
    pub(super) fn ended(&self, by: EndedBy) {
        match by {
            EndedBy::Us => {}
            EndedBy::Peer => {
                self.0.send_replace(());
            }
        }
    }
}

/// The connections to one peer that its side, or an error, has ended since this was made. Opens none itself, keeps no pool
/// alive, and holds one fact however many connections break.
pub struct ConnectionLosses {
    seen: watch::Receiver<()>,
    /// While it is held, the pool does not forget the peer.
    _peer: Arc<Peer>,
}

impl ConnectionLosses {
    pub(super) fn new(peer: Arc<Peer>) -> Self {
        ConnectionLosses {
            seen: peer.losses.0.subscribe(),
            _peer: peer,
        }
    }

    /// Waits until a connection has been lost that was not told before; for ever when there are no more connections. One that
    /// ended for want of use was not lost. Dropped before its end, it has told nothing.
    pub async fn next(&mut self) {
        let told = self.seen.changed().await;
        told.expect("the peer, which is held here, keeps the other end");
    }
}
