//! Hand-made histories that the laws of this module must accept, and happenings that they must catch.

use brasserie_scheduler_core::LeftCause;

use super::super::cores::{load, new_core};
use super::super::trial::*;
use super::*;
use crate::event_log::Fact;

mod no_status_in_new {
    use super::*;

    #[test]
    fn only_after_the_fetch() {
        let mut trial = Trial::of(NoStatusInNew::default());
        trial
            .sees(associated(1, 2, 1))
            .sees(status_heard(1, 1, check(1), DONE));
        trial.sees(acknowledged(1, 1, check(1), DONE));
        trial.sees(status_heard(1, 1, run(1), DONE));
        trial.breaks(acknowledged(1, 1, run(1), DONE), "which was NEW");
        trial
            .sees(fetched(1, 1, 1))
            .sees(status_heard(1, 1, run(1), DONE));
        trial.sees(acknowledged(1, 1, run(1), DONE));
        trial
            .sees(associated(1, 3, 2))
            .sees(left(1, 4, 2, brasserie_scheduler_core::LeftCause::Lost, 0))
            .sees(status_heard(1, 2, run(2), DONE))
            .sees(acknowledged(1, 2, run(2), DONE));
        trial
            .sees(associated(1, 5, 3))
            .sees(status_heard(1, 3, run(3), DONE))
            .sees(left(1, 6, 3, brasserie_scheduler_core::LeftCause::Lost, 0))
            .sees(acknowledged(1, 3, run(3), DONE));
    }
}

mod ends_are_not_undone {
    use super::*;

    fn after(
        first: (i64, StatusBits),
        then: (i64, StatusBits),
    ) -> (Trial<EndsAreNotUndone>, Happening) {
        let mut trial = Trial::of(EndsAreNotUndone::default());
        trial.sees(started(1)).sees(wrote_start(1));
        trial.ends(1, 2, run(first.0), first.1);
        let [record, end] = ended(1, 3, run(then.0), then.1);
        trial.sees(record);
        (trial, end)
    }

    #[test]
    fn what_may_follow() {
        for (first, then) in [
            ((1, LOST), (1, DONE)),
            ((1, LOST), (2, ERROR)),
            ((1, ERROR), (2, LOST)),
            ((2, LOST), (1, DONE)),
            ((1, NOT_RUNNING), (1, ERROR)),
            ((2, ERROR), (2, ERROR)),
        ] {
            let (mut trial, end) = after(first, then);
            trial.sees(end);
        }
    }

    fn forgiven(invocation: i64, bits: StatusBits, safety_seconds: u32) -> Happening {
        let end = end_written(1, 3, run(invocation), bits, safety_seconds, safety_seconds);
        let Happening::EndWritten {
            directory,
            scheduler,
            seq,
            run,
            bits,
            backoff_seconds,
            safety_seconds,
        } = end
        else {
            unreachable!("an end")
        };
        Happening::EndForgiven {
            directory,
            scheduler,
            seq,
            run,
            bits,
            backoff_seconds,
            safety_seconds,
        }
    }

    #[test]
    fn forgiving_changes_the_cost_alone() {
        let error = StatusBits::ERROR;
        for (first, then, breaks) in [
            ((1, StatusBits::FAILED), forgiven(1, error, 0), None),
            ((1, LOST), forgiven(1, LOST, 0), None),
            ((1, DONE), forgiven(1, error, 0), Some("DONE")),
            ((2, error), forgiven(1, error, 0), Some("another run's")),
            ((1, LOST), forgiven(1, error, 0), Some("true end")),
            ((1, LOST), forgiven(1, LOST, 9), Some("time to live")),
            (
                (1, error),
                forgiven(1, StatusBits::FAILED, 0),
                Some("left to forgive"),
            ),
        ] {
            let mut trial = Trial::of(EndsAreNotUndone::default());
            trial.sees(started(1)).sees(wrote_start(1));
            trial.ends(1, 2, run(first.0), first.1);
            trial.sees(wrote(1, 3, crate::event_log::Fact::Jobs));
            match breaks {
                None => {
                    trial.sees(then);
                }
                Some(text) => trial.breaks(then, text),
            }
        }
    }

    #[test]
    fn an_operators_word_ends_the_wait_for_a_lost_run() {
        let mut trial = Trial::of(EndsAreNotUndone::default());
        trial.sees(started(1)).sees(wrote_start(1));
        trial.sees(left(1, 2, 1, LeftCause::Lost, 1));
        trial.sees(end_written(1, 2, run(1), LOST, SAFE, SAFE));
        trial.sees(wrote(1, 3, crate::event_log::Fact::Jobs));
        trial.breaks(forgiven(1, StatusBits::ERROR, 0), "true end");
        trial.sees(forgiven(1, LOST, 0));
    }

    #[test]
    fn what_may_not() {
        for (first, then, text) in [
            ((1, DONE), (2, ERROR), "DONE is undone"),
            ((1, DONE), (1, LOST), "DONE is undone"),
            ((1, StatusBits::INCOMPLETE), (1, LOST), "taken back"),
            ((2, LOST), (1, ERROR), "earlier run"),
            ((2, ERROR), (1, LOST), "earlier run"),
        ] {
            let (mut trial, end) = after(first, then);
            trial.breaks(end, text);
        }
    }
}

mod final_stays_final {
    use super::*;

    #[test]
    fn an_error_may_run_again_and_done_may_not() {
        let mut trial = Trial::of(FinalStaysFinal::default());
        trial.sees(started(1)).sees(wrote_start(1));
        trial.ends(1, 2, run(1), ERROR);
        trial.sees(sent(1, 1, 1, ask_run(run(2))));
        trial.ends(1, 3, run(2), DONE);
        trial.sees(synced(1, 3)).sees(stopped(1)).sees(started(2));
        trial.breaks(sent(2, 1, 2, ask_run(run(3))), "has DONE");
    }

    #[test]
    fn what_was_never_durable_does_not_count() {
        let mut trial = Trial::of(FinalStaysFinal::default());
        trial.sees(started(1)).sees(wrote_start(1));
        trial.ends(1, 2, run(1), DONE);
        trial
            .sees(stopped(1))
            .sees(tail_lost(1, 1))
            .sees(started(2));
        trial.sees(sent(2, 1, 1, ask_run(run(2))));
    }
}

mod backoff {
    use super::*;

    #[test]
    fn not_before_its_backoff() {
        let bits = StatusBits::ERROR.with(StatusBits::USES_BACKOFF);
        let mut trial = Trial::of(Backoff::default());
        trial.sees(started(1)).sees(wrote(1, 1, Fact::TaskEnded));
        trial.sees(end_written(1, 1, run(1), bits, 15, 0));
        trial
            .at(14)
            .breaks(sent(1, 1, 1, ask_run(run(2))), "backoff of 15s");
        trial.at(15).sees(sent(1, 1, 1, ask_run(run(2))));
    }
}

mod deleted_stays_deleted {
    use super::*;

    const OF: HistoryOf = HistoryOf { job: 0, node: None };

    fn asked(s: i64) -> Happening {
        Happening::DeletionAsked {
            place: SchedulerPlace(0),
            scheduler: sid(s),
            of: OF,
        }
    }

    fn told(s: i64, deleted: u64, running: u64) -> Happening {
        Happening::DeletionAnswered {
            place: SchedulerPlace(0),
            scheduler: sid(s),
            of: OF,
            counts: DeletedCounts {
                deleted,
                running,
                maybe_alive: 0,
            },
        }
    }

    /// Run 1 has ended, and record 3 deleted its completion.
    fn deleted() -> Trial<DeletedStaysDeleted> {
        let mut trial = Trial::of(DeletedStaysDeleted::default());
        trial.sees(started(1)).sees(wrote_start(1));
        trial.ends(1, 2, run(1), DONE);
        trial.at(5).sees(asked(1)).sees(wrote(1, 3, Fact::Jobs));
        trial.sees(end_deleted(1, 3, run(1)));
        trial
    }

    #[test]
    fn it_starts_again_once_that_is_durable() {
        deleted().breaks(sent(1, 1, 1, ask_run(run(2))), "may still undo");
        let mut trial = deleted();
        trial.sees(synced(1, 3)).sees(told(1, 1, 0));
        trial.sees(sent(1, 1, 1, ask_run(run(2))));
        trial.ends(1, 4, run(2), ERROR);
    }

    #[test]
    fn an_old_end_does_not_come_back() {
        let mut trial = deleted();
        trial.sees(synced(1, 3)).sees(stopped(1)).sees(started(2));
        trial.sees(wrote_start(2)).sees(listed(1, run(1), true));
        let [record, end] = ended(2, 2, run(1), DONE);
        trial
            .sees(record)
            .breaks(end.clone(), "history was deleted");
        // A run that was alive all the time may still complete.
        trial.sees(listed(1, run(1), false)).sees(end);
    }

    #[test]
    fn a_deletion_that_a_crash_took_is_none() {
        let mut trial = deleted();
        trial.sees(stopped(1)).sees(tail_lost(1, 2));
        trial.sees(started(2)).sees(wrote_start(2));
        trial.ends(2, 2, run(1), DONE);
    }

    #[test]
    fn the_answer_comes_last_and_is_true() {
        deleted().breaks(told(1, 1, 0), "is not deleted for good");
        deleted().sees(synced(1, 3)).breaks(told(1, 2, 0), "None");
        let mut trial = Trial::of(DeletedStaysDeleted::default());
        trial.sees(started(1)).sees(wrote_start(1));
        trial.ends(1, 2, run(1), DONE);
        trial.sees(synced(1, 2)).at(5);
        trial.sees(asked(1)).sees(told(1, 0, 1));
        trial
            .sees(asked(1))
            .breaks(told(1, 0, 0), "kept their history");
        trial.breaks(told(1, 0, 0), "nobody asked");
    }
}

mod only_the_missing_expire {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn expired(s: i64, seq: u64, task: TaskId) -> Happening {
        Happening::EndExpired {
            directory: D,
            scheduler: sid(s),
            seq: RecordSeq(seq),
            task,
        }
    }

    #[test]
    fn a_completion_that_nobody_saw_missing_stays() {
        let mut trial = Trial::of(OnlyTheMissingExpire::default());
        trial.retention.missing_for = 30 * SECOND;
        trial.sees(started(1)).sees(wrote_start(1));
        let run = run(1);
        trial.ends(1, 2, run, DONE);
        trial.at(100);
        trial.breaks(expired(1, 3, run.task), "without its job or node");
        // The test enters the absence that a turn would have recorded.
        let key = (D, run.task, run.invocation);
        trial.law.missing.insert(key, Time::ZERO + 71 * SECOND);
        trial.at(99).breaks(expired(1, 3, run.task), "after 28s");
        trial.at(101).sees(expired(1, 3, run.task));
        trial.sees(wrote(1, 4, Fact::Jobs));
    }

    #[test]
    fn a_task_exists_if_its_job_and_its_node_do() {
        let mut core = new_core();
        let task = |job, node| TaskId { job, node };
        load(
            &mut core,
            r#"{"bistro_settings": {"nodes": {"levels": ["l"], "node_sources": [{"source": "manual", "prefs": {"n0": []}}]},
                "resources": {}}, "bistro_job->j0": {"owner": "o", "command": ["x"]}}"#,
        );
        assert!(exists(task(0, 0), &core));
        assert!(!exists(task(1, 0), &core) && !exists(task(0, 1), &core));
    }
}
