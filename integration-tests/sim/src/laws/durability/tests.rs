//! Hand-made histories that the laws of this module must accept, and happenings that they must catch.

use std::sync::Arc;

use brasserie_common::{Time, Timeouts, WallTime};
use brasserie_scheduler_core::credits::RequestPolicy;
use brasserie_scheduler_core::{Durable, LeftCause, Options, Retention};

use super::super::trial::*;
use super::*;

mod one_scheduler_a_directory {
    use super::*;

    #[test]
    fn one_after_the_other_and_forward() {
        let mut trial = Trial::of(OneSchedulerADirectory::default());
        trial
            .sees(started(1))
            .sees(wrote_start(1))
            .sees(synced(1, 1))
            .sees(stopped(1));
        trial.sees(started(2)).sees(stopped(2));
        trial.breaks(started(1), "no later than");
    }

    #[test]
    fn not_two_at_once() {
        let mut trial = Trial::of(OneSchedulerADirectory::default());
        trial.sees(started(1));
        trial.breaks(started(2), "which 1:0000000000000001 uses");
    }
}

mod own_record_first {
    use super::*;

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

mod recorded_before_healthy {
    use super::*;

    #[test]
    fn the_record_comes_first() {
        let mut trial = Trial::of(RecordedBeforeHealthy::default());
        trial
            .sees(started(1))
            .sees(wrote_start(1))
            .sees(associated(1, 2, 1));
        trial.sees(answered(1, 1, Health::New, set(1, 1, &[1])));
        trial.breaks(
            answered(1, 1, Health::Healthy, set(1, 1, &[1])),
            "sends HEALTHY to",
        );
        trial.breaks(sent(1, 1, 1, ask_run(run(1))), "sends a task to");
        trial
            .sees(synced(1, 2))
            .sees(answered(1, 1, Health::Healthy, set(1, 1, &[1])));
        trial.sees(sent(1, 1, 1, ask_run(run(1))));
    }

    #[test]
    fn an_answer_that_a_sync_holds_up_until_the_worker_has_left_is_late_but_a_task_is_not_sent() {
        let mut trial = Trial::of(RecordedBeforeHealthy::default());
        trial.sees(started(1)).sees(wrote_start(1));
        trial.sees(associated(1, 2, 1));
        trial.sees(left(1, 3, 1, LeftCause::Lost, 0));
        trial.sees(synced(1, 3));
        trial.sees(answered(1, 1, Health::Healthy, set(1, 1, &[1])));
        trial.breaks(sent(1, 1, 1, ask_run(run(1))), "sends a task to");
    }
}

mod acknowledged_after_sync {
    use super::*;

    #[test]
    fn the_disk_comes_first() {
        let mut trial = Trial::of(AcknowledgedAfterSync::default());
        trial.sees(started(1)).sees(wrote_start(1));
        trial.ends(1, 2, run(1), DONE);
        trial.sees(acknowledged(1, 1, check(1), DONE));
        trial.breaks(acknowledged(1, 1, run(1), DONE), "while the disk has None");
        trial
            .sees(synced(1, 2))
            .sees(acknowledged(1, 1, run(1), DONE));
    }

    #[test]
    fn lost_on_the_disk_is_not_its_end() {
        let mut trial = Trial::of(AcknowledgedAfterSync::default());
        trial.sees(started(1)).sees(wrote_start(1));
        trial.ends(1, 2, run(1), LOST);
        trial.sees(synced(1, 2));
        trial.ends(1, 3, run(1), DONE);
        trial.breaks(acknowledged(1, 1, run(1), DONE), "while the disk has Some");
    }
}

mod acknowledged_is_kept {
    use super::*;

    #[test]
    fn a_restart_finds_what_was_acknowledged() {
        let mut trial = Trial::of(AcknowledgedIsKept::default());
        trial.sees(started(1)).sees(wrote_start(1));
        trial.ends(1, 2, run(1), ERROR);
        trial
            .sees(synced(1, 2))
            .sees(acknowledged(1, 1, run(1), ERROR));
        trial
            .sees(stopped(1))
            .sees(started(2))
            .sees(sent(2, 1, 1, ask_run(run(2))));
    }

    #[test]
    fn an_end_that_a_crash_took_was_acknowledged_too_early() {
        let mut trial = Trial::of(AcknowledgedIsKept::default());
        trial.sees(started(1)).sees(wrote_start(1));
        trial.ends(1, 2, run(1), ERROR);
        trial
            .sees(acknowledged(1, 1, run(1), ERROR))
            .sees(stopped(1))
            .sees(tail_lost(1, 1));
        trial.breaks(started(2), "was acknowledged");
    }

    #[test]
    fn done_is_done() {
        let mut trial = Trial::of(AcknowledgedIsKept::default());
        trial
            .sees(started(1))
            .sees(acknowledged(1, 1, run(1), DONE));
        trial.breaks(
            sent(1, 1, 1, ask_run(run(2))),
            "whose DONE was acknowledged",
        );
    }
}

mod records_add_up {
    use super::*;

    fn state(bits: brasserie_common::StatusBits) -> RecordedState {
        let mut state = RecordedState::default();
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
            violation.contains("but its records add up to"),
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
            work: RequestPolicy::default(),
            retention: Retention::UNLIMITED,
            slots: brasserie_scheduler_core::SlotStrategy::RoundRobin,
            seed: 1,
        };
        let core = Scheduler::new(options, durable, Time::ZERO, WallTime::default());
        assert_eq!(shown(&state(DONE), &core), Ok(()));
        let violation = shown(&state(ERROR), &core).unwrap_err();
        assert!(violation.contains("its directory with"), "{violation}");
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
