//! Law `own_record_first`: A scheduler instance is on the disk before it answers a heartbeat or calls a worker.
//!
//! Source: thrift/PROTOCOL.md, R2. Workers remember the instance. If the directory does not, nobody can notice that its record is stale.

use brasserie_common::{SchedulerId, Time};

use super::{Law, Violation};
use crate::event_log::Happening;
use crate::model::directories::Directories;
use crate::view::World;

const NAME: &str = "own_record_first";

#[derive(Default)]
pub struct OwnRecordFirst {
    directories: Directories,
}

impl Law for OwnRecordFirst {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statement(&self) -> &'static str {
        "A scheduler instance is on the disk before it answers a heartbeat or calls a worker."
    }

    fn observe(
        &mut self,
        when: Time,
        happening: &Happening,
        world: &World<'_>,
    ) -> Result<(), Violation> {
        self.directories.note(when, happening, world);
        match *happening {
            Happening::HeartbeatAnswered { scheduler, .. } => {
                self.judge(scheduler, "answers a heartbeat")
            }
            Happening::CallSent { scheduler, .. } => self.judge(scheduler, "calls a worker"),
            _ => Ok(()),
        }
    }
}

impl OwnRecordFirst {
    fn judge(&self, scheduler: SchedulerId, what: &str) -> Result<(), Violation> {
        let contents = self.directories.contents_of(scheduler);
        if contents.is_some_and(|c| c.synced().schedulers.contains(&scheduler)) {
            return Ok(());
        }
        Err(Violation::new(
            NAME,
            format_args!("scheduler {scheduler} {what} before its directory remembers it"),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial::*;
    use super::*;
    use crate::event_log::Ask;
    use brasserie_common::Health;

    #[test]
    fn its_own_record_comes_first() {
        let mut trial = Trial::of(OwnRecordFirst::default());
        trial.sees(started(1)).sees(wrote_start(1));
        trial.breaks(
            answered(1, 1, Health::New, set(1, 1, &[1])),
            "answers a heartbeat",
        );
        trial.breaks(sent(1, 1, 1, Ask::Fetch), "calls a worker");
        trial
            .sees(synced(1, 1))
            .sees(answered(1, 1, Health::New, set(1, 1, &[1])));
        trial.sees(sent(1, 1, 1, Ask::Fetch));
    }
}
