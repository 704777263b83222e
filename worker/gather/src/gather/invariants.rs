//! The invariants that hold after each event, for tests.

use super::super::artifacts::Stage;
use super::super::types::{PeerId, TransferPurpose};
use super::Gather;

impl Gather {
    /// Checks the invariants of all components, those between components, and that nothing waits for ever.
    pub(crate) fn check(&self) {
        self.artifacts.check();
        self.transfers.check(&self.artifacts.in_flight());
        for transfer in self.transfers.all() {
            let peer = &transfer.peer;
            // The answer to a request of the other purpose may have set the mark.
            let is_alone = self.has_one_purpose();
            assert!(
                !is_alone || !self.marks.is_marked(peer),
                "a request to a busy {peer:?}"
            );
            assert!(*peer != self.me.id, "a request to itself");
        }
        for (artifact, _) in self.artifacts.wanted() {
            let stage = self.artifacts.stage(artifact).expect("it is wanted");
            let wake = self.next_wake();
            match stage {
                // The end of the transfer is an event.
                Stage::InFlight => {}
                Stage::Missing => assert!(wake.is_some(), "nobody asks for {artifact:?}"),
                Stage::Needed => {
                    let mut holders = self.artifacts.holders(artifact);
                    let is_waited_for = holders.any(|peer| self.is_asked(peer));
                    assert!(
                        is_waited_for || wake.is_some() || !self.may_start() || self.is_blocked(),
                        "nothing will fetch {artifact:?}"
                    );
                }
            }
        }
        self.check_that_idle_holders_are_asked();
        // A wake that is due already would be repeated without end.
        assert!(self.next_wake().is_none_or(|wake| wake > self.now));
    }

    /// Checks that only the pressure, the limits and an artifact that does not fit keep idle holders from requests. The pressure ends with
    /// an event, and the others with the end of a transfer, so one must be in flight.
    fn check_that_idle_holders_are_asked(&self) {
        let sources = self.artifacts.sources();
        let mut idle = sources.filter(|(peer, needed)| self.is_idle(peer, *needed));
        let Some((peer, _)) = idle.next() else {
            return;
        };
        match self.pressure {
            super::Pressure::High => {}
            super::Pressure::Normal => {
                assert!(
                    !self.may_start() || self.is_blocked(),
                    "{peer:?} was not asked"
                );
                assert!(self.transfers.all().next().is_some(), "limits alone wait");
            }
        }
    }

    /// Returns whether the first artifact of some idle peer does not fit beside the transfers in flight.
    fn is_blocked(&self) -> bool {
        let mut sources = self.artifacts.sources();
        sources.any(|(peer, needed)| {
            self.is_idle(peer, needed) && self.select(peer).artifacts.is_empty()
        })
    }

    fn is_asked(&self, peer: &PeerId) -> bool {
        let purposes = [TransferPurpose::Inputs, TransferPurpose::Replicas];
        purposes
            .iter()
            .any(|&purpose| self.transfers.has(peer, purpose))
    }

    /// Returns whether no replica was ever in flight.
    fn has_one_purpose(&self) -> bool {
        self.transfers.replicas_so_far() == 0
    }
}
