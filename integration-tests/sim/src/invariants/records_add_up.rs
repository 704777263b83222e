//! Law `records_add_up`: A scheduler that starts finds in its directory, and shows, what the synced records add up to.
//!
//! Source: thrift/PROTOCOL.md, R24. All durable state is a function of the records.

use brasserie_common::Time;
use brasserie_scheduler_core::Scheduler;
use brasserie_scheduler_engine::Task;

use super::{Law, Violation};
use crate::event_log::{DirectoryId, Happening};
use crate::model::directories::{Directories, State};
use crate::view::World;

const NAME: &str = "records_add_up";

#[derive(Default)]
pub struct RecordsAddUp {
    directories: Directories,
}

impl Law for RecordsAddUp {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statement(&self) -> &'static str {
        "A scheduler that starts finds in its directory, and shows, what the synced records add up to."
    }

    fn observe(
        &mut self,
        when: Time,
        happening: &Happening,
        world: &World<'_>,
    ) -> Result<(), Violation> {
        self.directories.note(when, happening, world);
        let Happening::SchedulerStarted {
            place, directory, ..
        } = *happening
        else {
            return Ok(());
        };
        let Some(expected) = self.directories.get(directory).map(|c| c.synced()) else {
            return Ok(());
        };
        if let Some(real) = world.directories.get(usize::from(directory.0)) {
            same(expected, &State::of(real.durable(), when), directory)?;
        }
        match world
            .schedulers
            .get(usize::from(place.0))
            .and_then(|host| host.core())
        {
            Some(core) => shown(expected, core),
            None => Ok(()),
        }
    }
}

fn same(expected: &State, real: &State, directory: DirectoryId) -> Result<(), Violation> {
    if expected.same_as(real) {
        return Ok(());
    }
    Err(Violation::new(
        NAME,
        format_args!(
            "directory {} holds {real:?}, but its records add up to {expected:?}",
            directory.0
        ),
    ))
}

/// Checks that the scheduler has each stored end, except ends of tasks that no job or node names any more.
fn shown(expected: &State, core: &Scheduler) -> Result<(), Violation> {
    let engine = core.engine();
    for (id, end) in &expected.ends {
        let job = engine.find_job(&format!("j{}", id.job));
        let node = engine.find_node(&format!("n{}", id.node));
        let (Some(job), Some(node)) = (job, node) else {
            return Err(Violation::new(
                NAME,
                format_args!("the scheduler does not know {id}"),
            ));
        };
        let shown = engine.previous_status(Task { job, node }).map(|s| s.bits);
        if shown != Some(end.bits) {
            return Err(Violation::new(
                NAME,
                format_args!(
                    "the scheduler has {id} with {shown:?}, its directory with {:?}",
                    end.bits
                ),
            ));
        }
    }
    for id in expected.deleted.keys() {
        let job = engine.find_job(&format!("j{}", id.job));
        let node = engine.find_node(&format!("n{}", id.node));
        let task = job.zip(node).map(|(job, node)| Task { job, node });
        let shown = task.and_then(|task| engine.previous_status(task));
        if shown.is_some() && !expected.ends.contains_key(id) {
            return Err(Violation::new(
                NAME,
                format_args!("the scheduler has {id} with {shown:?}, its directory nothing"),
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::trial::*;
    use super::*;
    use std::sync::Arc;

    use crate::event_log::TaskId;
    use crate::model::directories::Stored;
    use brasserie_common::{Timeouts, WallTime};
    use brasserie_scheduler_core::credits::Policy;
    use brasserie_scheduler_core::{Durable, Options, Retention};

    fn state(bits: brasserie_common::StatusBits) -> State {
        let mut state = State::default();
        let stored = Stored {
            invocation: run(1).invocation,
            bits,
            backoff_seconds: 0,
            safety_seconds: 0,
            at: Time::ZERO,
            by: sid(1),
        };
        state.ends.insert(TaskId { job: 0, node: 0 }, stored);
        state
    }

    #[test]
    fn a_difference_is_found() {
        assert_eq!(same(&state(DONE), &state(DONE), D), Ok(()));
        let violation = same(&state(DONE), &state(ERROR), D).unwrap_err();
        assert!(
            violation.what.contains("but its records add up to"),
            "{violation}"
        );
    }

    #[test]
    fn the_scheduler_must_show_what_is_stored() {
        let mut durable = Durable::default();
        let key = brasserie_common::TaskKey {
            job: "j0".try_into().unwrap(),
            node: "n0".try_into().unwrap(),
        };
        let status = brasserie_common::status::StoredStatus {
            bits: DONE,
            time: WallTime::default(),
            backoff_seconds: 0,
            safety_seconds: 0,
            data: None::<Arc<_>>,
        };
        durable.statuses.insert(key, (run(1).invocation, status));
        let options = Options {
            timeouts: Timeouts::default(),
            allow_bump_unhealthy_worker: false,
            startup_wait: None,
            new_cluster: false,
            call_deadline: std::time::Duration::from_secs(10),
            work: Policy::default(),
            retention: Retention::UNLIMITED,
            seed: 1,
        };
        let core = Scheduler::new(options, durable, Time::ZERO, WallTime::default());
        assert_eq!(shown(&state(DONE), &core), Ok(()));
        let violation = shown(&state(ERROR), &core).unwrap_err();
        assert!(violation.what.contains("its directory with"), "{violation}");
    }

    #[test]
    fn a_restart_passes() {
        let mut trial = Trial::of(RecordsAddUp::default());
        trial
            .sees(started(1))
            .sees(wrote_start(1))
            .sees(synced(1, 1))
            .sees(stopped(1))
            .sees(started(2));
    }
}
