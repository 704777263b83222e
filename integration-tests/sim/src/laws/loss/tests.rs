//! Hand-made histories that the laws of this module must accept, and happenings that they must catch.

use super::super::trial::*;
use super::*;

mod lost_is_lost {
    use super::*;

    #[test]
    fn it_hears_nothing_else() {
        let mut trial = Trial::of(LostIsLost::default());
        trial
            .sees(associated(1, 2, 1))
            .sees(answered(1, 1, Health::Healthy, set(1, 1, &[1])));
        trial.sees(left(1, 3, 1, LeftCause::Lost, 0));
        trial
            .sees(answered(1, 1, Health::MustDie, set(1, 2, &[])))
            .sees(sent(1, 1, 1, Ask::Suicide));
        // A scheduler of another directory may accept the instance; one of the same directory must not.
        trial.sees(associated(2, 2, 1));
        trial.breaks(associated(1, 4, 1), "associates it again");
        trial.sees(answered(1, 1, Health::New, set(1, 1, &[1])));
        trial.breaks(
            decided(1, 1, Health::Unhealthy, set(1, 2, &[])),
            "UNHEALTHY",
        );
        // The answer was decided before.
        trial.sees(answered(1, 1, Health::Healthy, set(1, 1, &[1])));
        trial.sees(sent(1, 1, 2, Ask::Fetch));
        trial.breaks(sent(1, 1, 3, ask_run(run(1))), "sends it a task");
    }

    #[test]
    fn a_successor_remembers() {
        let mut trial = Trial::of(LostIsLost::default());
        trial.sees(started(1)).sees(associated(1, 1, 1));
        trial.sees(left(1, 2, 1, LeftCause::DidNotReturn, 0));
        trial.sees(synced(1, 2)).sees(stopped(1)).sees(started(2));
        trial.breaks(associated(2, 1, 1), "associates it again");
        trial.sees(associated(2, 1, 2));
    }
}

mod dead_by_silence {
    use super::*;

    #[test]
    fn it_counts_from_the_last_answer() {
        let mut trial = Trial::of(DeadBySilence::default());
        let answer = || decided(1, 1, Health::Healthy, set(1, 1, &[1]));
        trial.at(100).sees(answer()).at(200).sees(answer());
        trial
            .at(895)
            .breaks(left(2, 1, 1, LeftCause::DidNotReturn, 0), "answered 695s");
        trial
            .at(896)
            .sees(left(2, 2, 1, LeftCause::DidNotReturn, 0));
        trial.sees(left(2, 3, 2, LeftCause::DidNotReturn, 0));
    }
}

mod forgotten_is_gone {
    use super::*;

    fn declared(s: i64, w: i64) -> Happening {
        Happening::WorkerDeclaredDead {
            place: crate::event_log::SchedulerPlace(0),
            scheduler: sid(s),
            worker: wid(w),
        }
    }

    #[test]
    fn the_record_is_durable_before_the_answer() {
        let mut trial = Trial::of(ForgottenIsGone::default());
        trial.sees(started(1)).sees(associated(1, 1, 1));
        trial.sees(synced(1, 1)).sees(stopped(1)).sees(started(2));
        trial.sees(left(2, 1, 1, LeftCause::Forgotten, 0));
        trial.breaks(declared(2, 1), "would have it waited for");
        trial.sees(synced(2, 1)).sees(declared(2, 1));
    }

    #[test]
    fn nothing_starts_before_the_record_is_durable() {
        let mut trial = Trial::of(ForgottenIsGone::default());
        trial.sees(started(1)).sees(associated(1, 1, 1));
        trial.sees(synced(1, 1));
        trial.sees(sent(1, 2, 1, ask_run(run(1))));
        trial.sees(left(1, 2, 1, LeftCause::Forgotten, 0));
        trial.breaks(sent(1, 2, 1, ask_run(run(2))), "take that worker back");
        trial
            .sees(synced(1, 2))
            .sees(sent(1, 2, 1, ask_run(run(2))));
    }

    #[test]
    fn one_that_has_just_answered_is_not_taken_for_dead() {
        let mut trial = Trial::of(ForgottenIsGone::default());
        trial.sees(started(1)).sees(associated(1, 1, 1));
        trial
            .at(100)
            .sees(decided(1, 1, Health::Unhealthy, set(1, 1, &[1])));
        trial
            .at(599)
            .breaks(left(1, 2, 1, LeftCause::Forgotten, 0), "which was answered");
        trial.at(601).sees(left(1, 3, 1, LeftCause::Forgotten, 0));
    }

    #[test]
    fn nor_is_anybody_soon_after_a_pause() {
        let place = SchedulerPlace(0);
        let mut trial = Trial::of(ForgottenIsGone::default());
        trial.sees(started(1)).sees(associated(1, 1, 1));
        trial.at(1000).sees(Happening::SchedulerPaused { place });
        trial.at(1200).sees(Happening::SchedulerResumed { place });
        trial
            .at(1699)
            .breaks(left(1, 2, 1, LeftCause::Forgotten, 0), "after a pause");
        trial.at(1701).sees(left(1, 3, 1, LeftCause::Forgotten, 0));
    }

    #[test]
    fn nor_is_one_that_an_earlier_scheduler_has_just_answered() {
        let mut trial = Trial::of(ForgottenIsGone::default());
        trial.sees(started(1)).sees(associated(1, 1, 1));
        trial
            .at(100)
            .sees(decided(1, 1, Health::Healthy, set(1, 1, &[1])));
        trial.sees(stopped(1)).sees(started(2));
        trial
            .at(599)
            .breaks(left(2, 1, 1, LeftCause::Forgotten, 0), "which was answered");
        trial.at(601).sees(left(2, 2, 1, LeftCause::Forgotten, 0));
    }
}

mod unknown_tasks_hold_back {
    use super::*;

    #[test]
    fn only_what_was_fetched_or_new_holds_nothing_back() {
        let mut trial = Trial::of(UnknownTasksHoldBack::default());
        trial
            .sees(heard(2, 1, set(1, 1, &[1])))
            .sees(associated(2, 2, 1))
            .sees(fetched(2, 1, 1))
            .sees(left(2, 3, 1, LeftCause::Lost, 0));
        trial
            .sees(associated(2, 4, 2))
            .sees(left(2, 5, 2, LeftCause::Lost, 0));
        trial
            .sees(heard(2, 3, set(1, 1, &[3])))
            .sees(associated(2, 6, 3))
            .breaks(left(2, 7, 3, LeftCause::Lost, 0), "nothing is held back");
    }
}

mod left_in_one_commit {
    use super::*;

    #[test]
    fn with_every_task_and_its_wait() {
        let mut trial = Trial::of(LeftInOneCommit::default());
        trial.sees(sent(1, 1, 1, ask_run(run(1))));
        trial.sees(left(1, 2, 1, LeftCause::Lost, 1));
        trial
            .sees(end_written(1, 2, run(1), LOST, SAFE, SAFE))
            .sees(scheduler_turn());
        trial.sees(sent(1, 2, 2, ask_run(run(2))));
        trial.sees(left(1, 3, 2, LeftCause::CleanExit, 1));
        trial
            .sees(end_written(1, 3, run(2), LOST, 0, 0))
            .sees(scheduler_turn());
    }

    #[test]
    fn a_task_in_another_record_is_caught() {
        let mut trial = Trial::of(LeftInOneCommit::default());
        trial
            .sees(sent(1, 1, 1, ask_run(run(1))))
            .sees(left(1, 2, 1, LeftCause::Lost, 0));
        trial.breaks(wrote(1, 3, Fact::TaskEnded), "lacks the ends");
    }

    #[test]
    fn a_configured_backoff_is_not_enough() {
        let mut trial = Trial::of(LeftInOneCommit::default());
        trial
            .sees(sent(1, 1, 1, ask_run(run(1))))
            .sees(left(1, 2, 1, LeftCause::Lost, 1));
        trial.breaks(end_written(1, 2, run(1), LOST, 15, 0), "0 s of safety wait");
    }
}

mod safety_wait {
    use super::*;

    fn lost(trial: &mut Trial<SafetyWait>) {
        trial.sees(started(1)).sees(wrote_start(1));
        trial.at(100).sees(left(1, 2, 1, LeftCause::Lost, 1));
        trial.sees(end_written(1, 2, run(1), LOST, SAFE, SAFE));
    }

    #[test]
    fn after_the_backoff_it_runs_again_and_not_before() {
        let mut trial = Trial::of(SafetyWait::default());
        lost(&mut trial);
        trial.at(166).sees(sent(1, 2, 1, ask_run(run(2))));
        let mut trial = Trial::of(SafetyWait::default());
        lost(&mut trial);
        trial
            .at(165)
            .breaks(sent(1, 2, 1, ask_run(run(2))), "starts j0/n0 after 65s");
    }

    #[test]
    fn a_restart_counts_anew() {
        let mut trial = Trial::of(SafetyWait::default());
        lost(&mut trial);
        trial.sees(synced(1, 2)).sees(stopped(1));
        trial.at(120).sees(started(2));
        trial
            .at(170)
            .breaks(sent(2, 2, 1, ask_run(run(2))), "after 50s");
    }

    #[test]
    fn its_own_end_takes_the_wait_away() {
        let mut trial = Trial::of(SafetyWait::default());
        lost(&mut trial);
        trial.at(110).ends(1, 3, run(1), ERROR);
        trial.sees(sent(1, 2, 1, ask_run(run(2))));
    }
}
