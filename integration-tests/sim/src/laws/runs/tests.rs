//! Hand-made histories that the laws of this module must accept, and happenings that they must catch.

use brasserie_common::{Health, RefusalCode};

use super::super::trial::*;
use super::*;
use crate::event_log::{OutcomeKind, WorkerStop};

mod sent_once {
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

mod accepted_once {
    use super::*;

    #[test]
    fn a_repeat_is_refused() {
        let mut trial = Trial::of(AcceptedOnce::default());
        trial.sees(served(1, 1, ask_run(run(1)), None));
        trial.sees(served(1, 1, ask_run(run(1)), Some(RefusalCode::Duplicate)));
        trial.sees(served(1, 1, ask_run(run(2)), None));
        trial.breaks(served(1, 1, ask_run(run(1)), None), "a second time");
    }
}

mod begins_once {
    use super::*;

    fn accepts(number: i64) -> Happening {
        served_by((1, Health::Healthy, 1), (1, 1), ask_run(run(number)), None)
    }

    fn turn() -> Happening {
        Happening::WorkerTurn { place: place(1) }
    }

    #[test]
    fn a_run_begins_once_and_only_if_it_was_accepted() {
        let mut trial = Trial::of(BeginsOnce::default());
        trial.sees(accepts(1)).sees(turn());
        trial.sees(begins(1, 1, run(1)));
        trial.breaks(begins(1, 2, run(1)), "started before");
        trial.breaks(begins(1, 3, run(2)), "did not accept");
    }

    #[test]
    fn what_was_killed_while_it_waited_begins_no_more() {
        let mut trial = Trial::of(BeginsOnce::default());
        let kill = || {
            served_by(
                (1, Health::Healthy, 1),
                (1, 1),
                Ask::Kill { run: run(1) },
                None,
            )
        };
        trial
            .sees(accepts(1))
            .sees(turn())
            .sees(kill())
            .sees(turn());
        trial.sees(turn());
        trial.breaks(begins(1, 1, run(1)), "it was killed");
        // Both happenings may belong to one turn.
        let mut trial = Trial::of(BeginsOnce::default());
        trial.sees(accepts(1)).sees(kill()).sees(turn());
        trial.sees(begins(1, 1, run(1)));
    }
}

mod denied_never_starts {
    use super::*;

    #[test]
    fn what_was_refused_stays_refused() {
        let mut trial = Trial::of(DeniedNeverStarts::default());
        trial.sees(served(
            1,
            1,
            ask_run(run(1)),
            Some(RefusalCode::OldSequence),
        ));
        trial.sees(served(1, 2, ask_run(run(1)), None));
        trial.breaks(served(1, 1, ask_run(run(1)), None), "denied before");
    }

    #[test]
    fn not_running_is_a_promise() {
        let mut trial = Trial::of(DeniedNeverStarts::default());
        trial.sees(served(1, 1, ask_run(run(1)), None));
        trial.sees(begins(1, 1, run(1))).sees(dies(1, 1, run(1)));
        trial.sees(status_sent(1, 1, run(1), NOT_RUNNING));
        trial.breaks(begins(1, 2, run(1)), "denied before");
    }

    #[test]
    fn not_running_is_true_when_it_is_said() {
        let mut trial = Trial::of(DeniedNeverStarts::default());
        trial
            .sees(served(1, 1, ask_run(run(1)), None))
            .sees(begins(1, 1, run(1)));
        trial.breaks(status_sent(1, 1, run(1), NOT_RUNNING), "but it does");
        let mut trial = Trial::of(DeniedNeverStarts::default());
        trial.breaks(begins(1, 1, run(1)), "never accepted");
    }
}

mod running_before_sent {
    use super::*;

    #[test]
    fn the_next_run_is_sent_after_an_end() {
        let mut trial = Trial::of(RunningBeforeSent::default());
        trial
            .sees(sent(1, 1, 1, ask_run(run(1))))
            .sees(scheduler_turn());
        trial.ends(1, 2, run(1), ERROR);
        trial.sees(sent(1, 2, 2, ask_run(run(2))));
        let refused = OutcomeKind::Refused(RefusalCode::Busy);
        trial.sees(over(1, 2, 2, ask_run(run(2)), refused));
        trial.sees(sent(1, 1, 3, ask_run(run(3))));
        trial.sees(over(1, 1, 3, ask_run(run(3)), OutcomeKind::Unknown));
        trial.breaks(sent(1, 2, 4, ask_run(run(4))), "has not ended");
    }

    #[test]
    fn the_schedulers_tables_must_have_it() {
        assert_eq!(judge(run(1), Some(true)), Ok(()));
        let violation = judge(run(1), Some(false)).unwrap_err();
        assert!(
            violation.contains("does not have it running"),
            "{violation}"
        );
    }
}

mod running_until_acknowledged {
    use super::*;

    #[test]
    fn listed_until_acknowledged_by_the_bound_one() {
        let mut trial = Trial::of(RunningUntilAcknowledged::default());
        trial
            .sees(bound(1, 1))
            .sees(served(1, 1, ask_run(run(1)), None));
        trial
            .sees(served(1, 1, Ask::Fetch, None))
            .sees(listed(1, run(1), false))
            .sees(worker_turn(1));
        trial.sees(settled(1, 1, run(1), DONE));
        trial
            .sees(served(1, 1, Ask::Fetch, None))
            .sees(worker_turn(1));
    }

    #[test]
    fn the_word_of_another_scheduler_settles_nothing() {
        let mut trial = Trial::of(RunningUntilAcknowledged::default());
        trial
            .sees(bound(1, 2))
            .sees(served(2, 1, ask_run(run(1)), None));
        trial.sees(settled(1, 1, run(1), DONE));
        trial.sees(served(2, 1, Ask::Fetch, None));
        trial.breaks(worker_turn(1), "does not list");
    }

    #[test]
    fn what_lives_has_not_ended() {
        let mut trial = Trial::of(RunningUntilAcknowledged::default());
        trial
            .sees(begins(1, 1, run(1)))
            .sees(served(1, 1, Ask::Fetch, None));
        trial.breaks(listed(1, run(1), true), "but it lives");
    }
}

mod limits_of_time {
    use super::*;

    fn limited(timeout: Option<u64>, deadline: Option<u64>) -> Happening {
        Happening::Limited {
            place: place(1),
            worker: wid(1),
            run: run(1),
            timeout: timeout.map(Duration::from_secs),
            deadline: deadline.map(Duration::from_secs),
        }
    }

    fn heard() -> Happening {
        Happening::StartHeard {
            worker: wid(1),
            run: run(1),
        }
    }

    #[test]
    fn a_timeout_counts_from_the_process() {
        let mut trial = Trial::of(LimitsOfTime::default());
        trial.at(1).sees(limited(Some(10), None));
        trial.at(50).sees(heard());
        trial.at(60).sees(kill_asked(1, run(1), EndedBy::Timeout));
        trial.breaks(kill_asked(1, run(1), EndedBy::Timeout), "again");
        let mut trial = Trial::of(LimitsOfTime::default());
        trial.at(1).sees(limited(Some(10), None));
        trial.at(50).sees(heard());
        trial.at(59);
        trial.breaks(kill_asked(1, run(1), EndedBy::Timeout), "too early");
    }

    #[test]
    fn a_deadline_counts_from_the_acceptance() {
        let mut trial = Trial::of(LimitsOfTime::default());
        trial.at(1).sees(limited(Some(100), Some(10)));
        trial.at(5).sees(heard());
        trial.at(11).sees(kill_asked(1, run(1), EndedBy::Deadline));
        trial.at(500).sees(dies(1, 1, run(1)));
        let mut trial = Trial::of(LimitsOfTime::default());
        trial.at(1).sees(limited(None, Some(10)));
        trial.at(11).sees(dies(1, 1, run(1)));
        trial.at(500).sees(scheduler_turn());
    }

    #[test]
    fn who_is_over_time_is_asked_to_end() {
        let mut trial = Trial::of(LimitsOfTime::default());
        trial.at(1).sees(limited(Some(10), Some(20)));
        trial.at(2).sees(heard());
        trial.at(13).sees(scheduler_turn());
        trial.at(14);
        trial.breaks(scheduler_turn(), "run on after its time was over");
    }

    #[test]
    fn a_wish_to_end_it_does_not_stop_the_clock() {
        let mut trial = Trial::of(LimitsOfTime::default());
        trial.at(1).sees(limited(None, Some(10)));
        trial.at(2).sees(kill_asked(1, run(1), EndedBy::Operator));
        trial.at(13);
        trial.breaks(scheduler_turn(), "run on after its time was over");
        let mut trial = Trial::of(LimitsOfTime::default());
        trial.at(1).sees(limited(None, Some(10)));
        trial.at(2).sees(kill_asked(1, run(1), EndedBy::Suicide));
        trial.at(500).sees(scheduler_turn());
    }

    #[test]
    fn a_worker_that_stands_still_is_excused_until_it_goes_on() {
        let mut trial = Trial::of(LimitsOfTime::default());
        trial.at(1).sees(limited(None, Some(10)));
        trial
            .at(2)
            .sees(Happening::WorkerPaused { place: place(1) });
        trial.at(100).sees(scheduler_turn());
        trial
            .at(200)
            .sees(Happening::WorkerResumed { place: place(1) });
        trial.at(202);
        trial.breaks(scheduler_turn(), "run on after its time was over");
    }

    #[test]
    fn who_has_no_limit_is_not_ended_for_one() {
        let mut trial = Trial::of(LimitsOfTime::default());
        trial.breaks(kill_asked(1, run(1), EndedBy::Deadline), "does not have");
        let mut trial = Trial::of(LimitsOfTime::default());
        trial.at(1).sees(limited(None, Some(10)));
        trial.breaks(kill_asked(1, run(1), EndedBy::Timeout), "does not have");
    }

    #[test]
    fn the_gone_need_not_be_ended_but_may() {
        let mut trial = Trial::of(LimitsOfTime::default());
        trial.at(1).sees(limited(Some(10), None));
        trial.at(2).sees(dies(1, 1, run(1)));
        trial.at(3).sees(heard());
        trial.at(13).sees(kill_asked(1, run(1), EndedBy::Timeout));
        trial.at(500).sees(scheduler_turn());
    }

    #[test]
    fn the_dead_end_nobody() {
        let mut trial = Trial::of(LimitsOfTime::default());
        trial.at(1).sees(limited(None, Some(10)));
        trial.sees(Happening::WorkerStopped {
            place: place(1),
            worker: wid(1),
            how: WorkerStop::Killed,
        });
        trial.at(100).sees(scheduler_turn());
    }
}
