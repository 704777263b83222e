//! Law `accepted_once`: A run is accepted by one worker, once.
//!
//! Source: thrift/PROTOCOL.md, R18. A repeated message must not start a run twice, even after its completion was acknowledged.

use brasserie_common::collections::IdSet;
use brasserie_common::{InvocationId, Time};

use super::{Law, Violation};
use crate::event_log::{Ask, Happening};
use crate::view::World;

const NAME: &str = "accepted_once";

#[derive(Default)]
pub struct AcceptedOnce {
    accepted: IdSet<InvocationId>,
}

impl Law for AcceptedOnce {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statement(&self) -> &'static str {
        "A run is accepted by one worker, once."
    }

    fn observe(
        &mut self,
        _when: Time,
        happening: &Happening,
        _world: &World<'_>,
    ) -> Result<(), Violation> {
        let Happening::Served {
            worker,
            ask: Ask::Run { run, .. },
            refusal: None,
            ..
        } = happening
        else {
            return Ok(());
        };
        if self.accepted.insert(run.invocation) {
            return Ok(());
        }
        Err(Violation::new(
            NAME,
            format_args!(
                "worker {worker} accepts run {} of {} a second time",
                run.invocation, run.task
            ),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial::*;
    use super::*;
    use brasserie_common::RefusalCode;

    #[test]
    fn a_repeat_is_refused() {
        let mut trial = Trial::of(AcceptedOnce::default());
        trial.sees(served(1, 1, ask_run(run(1)), None));
        trial.sees(served(1, 1, ask_run(run(1)), Some(RefusalCode::Duplicate)));
        trial.sees(served(1, 1, ask_run(run(2)), None));
        trial.breaks(served(1, 1, ask_run(run(1)), None), "a second time");
    }
}
