//! Law `sent_once`: runTask is sent once for each invocation id, and no id is used again by any scheduler.
//!
//! Source: thrift/PROTOCOL.md, B3. A repeated call could start a run that has ended or was denied.

use brasserie_common::collections::IdSet;
use brasserie_common::{InvocationId, Time};

use super::{Law, Violation};
use crate::event_log::{Ask, Happening};
use crate::view::World;

const NAME: &str = "sent_once";

#[derive(Default)]
pub struct SentOnce {
    sent: IdSet<InvocationId>,
}

impl Law for SentOnce {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statement(&self) -> &'static str {
        "runTask is sent once for each invocation id, and no id is used again by any scheduler."
    }

    fn observe(
        &mut self,
        _when: Time,
        happening: &Happening,
        _world: &World<'_>,
    ) -> Result<(), Violation> {
        let Happening::CallSent {
            scheduler,
            ask: Ask::Run { run, .. },
            ..
        } = happening
        else {
            return Ok(());
        };
        if self.sent.insert(run.invocation) {
            return Ok(());
        }
        Err(Violation::new(
            NAME,
            format_args!(
                "scheduler {scheduler} sends run {} of {}, whose id was sent before",
                run.invocation, run.task
            ),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial::*;
    use super::*;
    #[test]
    fn an_id_is_sent_once() {
        let mut trial = Trial::of(SentOnce::default());
        trial
            .sees(sent(1, 1, 1, ask_run(run(1))))
            .sees(sent(1, 1, 2, ask_run(run(2))));
        trial.breaks(sent(2, 2, 3, ask_run(run(1))), "was sent before");
    }
}
