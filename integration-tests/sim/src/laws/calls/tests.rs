//! Hand-made histories that the laws of this module must accept, and happenings that they must catch.

use brasserie_common::{Health, WorkRequestSeq};

use super::super::trial::*;
use super::*;
use crate::event_log::{OutcomeKind, RejectionKind};

mod answered_once {
    use super::*;

    #[test]
    fn one_answer_each() {
        let mut trial = Trial::of(AnsweredOnce::default());
        let none = set(0, 0, &[]);
        trial.sees(heard(1, 1, none)).sees(heard(1, 1, none));
        trial
            .sees(answered(1, 1, Health::New, none))
            .sees(answered(1, 1, Health::New, none));
        trial.breaks(answered(1, 1, Health::New, none), "answers a heartbeat of");
        trial
            .sees(status_heard(1, 1, run(1), DONE))
            .sees(acknowledged(1, 1, run(1), DONE));
        trial.breaks(acknowledged(1, 1, run(1), DONE), "answers a status of");
    }

    #[test]
    fn one_outcome_each() {
        let mut trial = Trial::of(AnsweredOnce::default());
        trial.sees(sent(1, 1, 1, Ask::Fetch)).sees(fetched(1, 1, 1));
        trial.breaks(fetched(1, 1, 1), "which is not open");
        trial.sees(sent(1, 1, 2, Ask::Fetch));
        trial.breaks(sent(1, 1, 2, Ask::Suicide), "leaves twice");
        trial.sees(stopped(1));
        trial.breaks(
            over(1, 1, 2, Ask::Fetch, OutcomeKind::Done),
            "which is not open",
        );
    }
}

mod requests_are_answered {
    use super::*;

    const PLACE: SchedulerPlace = SchedulerPlace(0);

    fn asked(call: u32) -> Happening {
        Happening::WorkAnswerOwed {
            place: PLACE,
            scheduler: sid(1),
            worker: wid(1),
            seq: WorkRequestSeq(1),
            call: CallTag(call),
        }
    }

    fn answered(call: u32) -> Happening {
        Happening::WorkAnswered {
            scheduler: sid(1),
            worker: wid(1),
            call: CallTag(call),
            seq: Some(WorkRequestSeq(1)),
        }
    }

    #[test]
    fn each_has_its_answer_within_a_second() {
        let mut trial = Trial::of(RequestsAreAnswered::default());
        // The request arrives twice.
        trial.sees(asked(1)).sees(asked(1)).sees(asked(2));
        trial.at(1).sees(answered(1)).sees(answered(2));
        trial.after_millis(1001);
        trial.breaks(scheduler_turn(), "has not answered request for work");
        let mut trial = Trial::of(AnsweredOnce::default());
        trial.sees(asked(1)).sees(answered(1));
        trial.breaks(answered(1), "which is not open");
    }

    #[test]
    fn who_is_dead_or_sleeps_answers_nobody() {
        let paused = Happening::SchedulerPaused { place: PLACE };
        let resumed = || Happening::SchedulerResumed { place: PLACE };
        let mut trial = Trial::of(RequestsAreAnswered::default());
        trial.sees(asked(1)).sees(paused);
        trial.at(60).sees(resumed());
        trial.at(61).sees(scheduler_turn());
        trial.sees(asked(2)).sees(answered(1)).sees(stopped(1));
        trial.at(70).sees(scheduler_turn());
        let machine = MachineId(1);
        trial.sees(asked(3));
        trial.sees(Happening::MachineSuspended { machine });
        trial.at(90).sees(scheduler_turn());
        trial.sees(Happening::MachineWoke { machine });
        trial.at(93);
        trial.breaks(scheduler_turn(), "has not answered request for work");
    }

    #[test]
    fn heartbeats_and_statuses_do_not_wait_for_the_store_for_ever() {
        let none = set(0, 0, &[]);
        for heard in [heard(1, 1, none), status_heard(1, 1, run(1), DONE)] {
            let mut trial = Trial::of(RequestsAreAnswered::default());
            trial.sees(heard);
            trial.at(6).sees(scheduler_turn());
            trial.after_millis(100);
            trial.breaks(scheduler_turn(), "has not answered a");
        }
    }

    #[test]
    fn one_repetition_waits() {
        let mut trial = Trial::of(RequestsAreAnswered::default());
        let heard = || status_heard(1, 1, run(1), DONE);
        trial.sees(heard()).sees(scheduler_turn()).sees(heard());
        trial.sees(Happening::StatusRejected {
            place: PLACE,
            scheduler: sid(1),
            worker: wid(1),
            run: run(1),
            bits: DONE,
            why: RejectionKind::Repeated,
        });
        trial.sees(scheduler_turn());
        trial.sees(heard());
        trial.breaks(scheduler_turn(), "lets repetitions of a status");
    }
}

mod heartbeats_are_bounded {
    use super::*;

    #[test]
    fn twenty_and_no_more() {
        let mut trial = Trial::of(HeartbeatsAreBounded::default());
        for _ in 0..20 {
            trial
                .after_millis(40)
                .sees(heartbeat_sent(1, set(0, 0, &[]), false));
        }
        trial.sees(heartbeat_sent(2, set(0, 0, &[]), false));
        trial
            .after_millis(40)
            .breaks(heartbeat_sent(1, set(0, 0, &[]), false), "more than 20");
    }
}

mod calls_are_bounded {
    use super::*;

    #[test]
    fn retries_pause() {
        let mut trial = Trial::of(CallsAreBounded::default());
        for second in 0..40 {
            trial
                .at(second)
                .sees(status_sent(1, 1, run(1), DONE))
                .sees(sent(1, 1, 1, Ask::Fetch));
        }
        for _ in 0..7 {
            trial.sees(status_sent(1, 1, run(1), DONE));
        }
        trial.breaks(status_sent(1, 1, run(1), DONE), "more than 8 times");
    }

    #[test]
    fn calls_are_bounded() {
        let mut trial = Trial::of(CallsAreBounded::default());
        for tag in 0..64 {
            trial.after_millis(10).sees(sent(1, 1, tag, Ask::Suicide));
        }
        trial.sees(sent(1, 1, 65, ask_run(run(1))));
        trial.breaks(sent(1, 1, 66, Ask::Fetch), "more than 64 times");
    }
}

#[test]
fn a_rate_counts_any_span_of_its_window() {
    let mut rate = Rate::default();
    let second = Duration::from_secs(1);
    let at = |millis: u64| Time::from_nanos(millis * 1_000_000);
    for millis in [0, 100, 200] {
        assert!(!rate.exceeds(at(millis), 3, second), "{millis}");
    }
    assert!(rate.exceeds(at(999), 3, second));
    assert!(!rate.exceeds(at(1100), 3, second));
    assert!(rate.exceeds(at(1199), 3, second));
}
