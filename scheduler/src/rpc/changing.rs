//! Changes by people. Each caller has a bounded number of them, and none begins once its caller is expelled.

use std::sync::Arc;

use brasserie_common::Principal;
use brasserie_thrift::rpc::Responder;

use crate::audit::{Audit, OpenLine, TooManyChanges};
use crate::inbox::Inbox;
use crate::store::QueueRoom;
use crate::turns::{Busy, Place, Turns};

/// The changes that wait for the disk on a thread at a time. Each caller has half of them, as many as may upload files at once.
const MAX_AT_ONCE: usize = 16;

/// Begins changes. Clones share the places.
#[derive(Clone)]
pub(super) struct Changing {
    inbox: Inbox,
    room: Arc<QueueRoom>,
    audit: Audit,
    turns: Turns,
}

/// A change that may go to the core: the inbox for it, the room of the store, its line in the audit log, and its place among those of its
/// caller, which lasts until it is answered.
pub(super) type OpenChange = (Inbox, Arc<QueueRoom>, OpenLine, Place);

impl Changing {
    pub(super) fn new(inbox: Inbox, room: Arc<QueueRoom>, audit: Audit) -> Self {
        Changing {
            inbox,
            room,
            audit,
            turns: Turns::new(MAX_AT_ONCE),
        }
    }

    /// Begins a change on which the core decides. Errors if too many of its caller wait for their answers, on a stalled disk for example.
    pub(super) fn begin(&self, from: &Principal, to: &Responder) -> Result<OpenChange, Busy> {
        let place = self.turns.place(from)?;
        let (inbox, room) = (self.inbox.of(to), Arc::clone(&self.room));
        Ok((inbox, room, self.line(from, to), place))
    }

    /// Makes a change in the turn of its caller, on a thread that may wait for the disk.
    pub(super) fn make(
        &self,
        from: Principal,
        to: Responder,
        work: impl FnOnce(Principal, OpenLine, Responder) + Send + 'static,
    ) {
        let own = self.clone();
        self.turns.change(to, move |to| {
            let line = own.line(&from, &to);
            work(from, line, to);
        });
    }

    /// Errors if the caller has filled its part of the audit log.
    pub(super) fn check(&self, from: &Principal, to: &Responder) -> Result<(), TooManyChanges> {
        self.audit.may_change(from, to.method())
    }

    /// Opens the line of a change in the audit log.
    pub(super) fn line(&self, from: &Principal, to: &Responder) -> OpenLine {
        self.audit.call(from, to.method())
    }
}
