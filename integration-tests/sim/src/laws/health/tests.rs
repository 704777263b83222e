//! Hand-made histories that the laws of this module must accept, and happenings that they must catch.

use brasserie_common::RefusalCode;

use super::super::trial::*;
use super::*;
use crate::event_log::WorkerStop;

mod healthy_starts {
    use super::*;

    #[test]
    fn both_sides_hold_the_worker_healthy() {
        let mut trial = Trial::of(HealthyStarts::default());
        trial
            .sees(heard(1, 1, set(0, 0, &[])))
            .sees(associated(1, 2, 1));
        trial
            .sees(fetched(1, 1, 1))
            .sees(answered(1, 1, Health::Healthy, set(1, 1, &[1])));
        trial
            .sees(sent(1, 1, 2, ask_run(run(1))))
            .sees(served(1, 1, ask_run(run(1)), None));
        trial.sees(left(1, 3, 1, LeftCause::Lost, 0));
        trial.breaks(sent(1, 1, 3, ask_run(run(2))), "that has left");
    }

    #[test]
    fn neither_an_unfetched_nor_an_unhealthy_one_gets_a_task() {
        let mut trial = Trial::of(HealthyStarts::default());
        trial
            .sees(associated(1, 2, 1))
            .sees(answered(1, 1, Health::Healthy, set(1, 1, &[1])));
        trial.breaks(sent(1, 1, 2, ask_run(run(1))), "not fetched");
        trial
            .sees(fetched(1, 1, 1))
            .sees(answered(1, 1, Health::Unhealthy, set(1, 1, &[1])));
        trial.breaks(sent(1, 1, 2, ask_run(run(1))), "not told to be HEALTHY");
    }

    #[test]
    fn an_answer_that_waited_for_the_disk_is_older_than_those_that_did_not() {
        let mut trial = Trial::of(HealthyStarts::default());
        let (old, new) = (set(1, 1, &[1]), set(1, 2, &[1]));
        trial.sees(associated(1, 2, 1)).sees(fetched(1, 1, 1));
        trial
            .sees(decided(1, 1, Health::Unhealthy, old))
            .sees(decided(1, 1, Health::Healthy, new))
            .sees(answered(1, 1, Health::Healthy, new))
            .sees(answered(1, 1, Health::Unhealthy, old));
        trial.sees(sent(1, 1, 2, ask_run(run(1))));
        trial
            .sees(decided(1, 1, Health::Unhealthy, new))
            .sees(answered(1, 1, Health::Unhealthy, new));
        trial.breaks(sent(1, 1, 3, ask_run(run(2))), "not told to be HEALTHY");
    }

    #[test]
    fn a_worker_that_is_not_healthy_refuses() {
        let mut trial = Trial::of(HealthyStarts::default());
        let refused = Some(RefusalCode::Unhealthy);
        let unhealthy = (1, Health::Unhealthy, 1);
        trial.sees(served_by(unhealthy, (1, 1), ask_run(run(1)), refused));
        trial.breaks(
            served_by(unhealthy, (1, 1), ask_run(run(1)), None),
            "while it is UNHEALTHY",
        );
    }
}

mod fresh_belief {
    use super::*;

    fn joined() -> Trial<FreshBelief> {
        let mut trial = Trial::of(FreshBelief::default());
        trial
            .sees(worker_started(1))
            .sees(heartbeat_sent(1, set(0, 0, &[]), false));
        trial
            .sees(heard(1, 1, set(0, 0, &[])))
            .sees(answer_heard(1, 1, Health::Healthy));
        let ask = Ask::Healthcheck {
            invocation: check(1).invocation,
            for_new_worker: false,
        };
        trial
            .sees(sent(1, 1, 1, ask))
            .sees(status_heard(1, 1, check(1), DONE));
        trial
    }

    #[test]
    fn fresh_enough() {
        let mut trial = joined();
        trial
            .at(75)
            .sees(sent(1, 1, 2, ask_run(run(1))))
            .sees(served(1, 1, ask_run(run(1)), None));
    }

    #[test]
    fn a_scheduler_that_slept() {
        let mut trial = joined();
        trial
            .at(76)
            .breaks(sent(1, 1, 2, ask_run(run(1))), "on a heartbeat of 76s ago");
        trial.at(120).sees(heard(1, 1, set(1, 1, &[1])));
        trial.at(126).breaks(
            sent(1, 1, 2, ask_run(run(1))),
            "on a healthcheck of 126s ago",
        );
    }

    #[test]
    fn a_worker_that_slept() {
        let mut trial = joined();
        trial.at(76).breaks(
            served(1, 1, ask_run(run(1)), None),
            "on a heartbeat of 76s ago",
        );
    }
}

mod joins_in_time {
    use super::*;

    #[test]
    fn two_periods_and_no_more() {
        let mut trial = Trial::of(JoinsInTime::default());
        trial.sees(worker_started(1)).at(60).sees(scheduler_turn());
        trial.sees(worker_health(1, Health::New, Health::Healthy));
        trial.only_workers_fail = true;
        trial.sees(worker_started(2)).sees(worker_started(3));
        trial
            .at(64)
            .sees(worker_health(2, Health::New, Health::Healthy));
        trial.at(96).breaks(scheduler_turn(), "is not HEALTHY yet");
    }

    #[test]
    fn nobody_who_lasts_nothing_to_ask() {
        let mut trial = Trial::of(JoinsInTime::default());
        trial.only_workers_fail = true;
        trial
            .sees(worker_started(1))
            .sees(worker_health(1, Health::New, Health::Healthy))
            .sees(worker_started(2))
            .sees(worker_health(1, Health::Healthy, Health::Unhealthy))
            .at(100)
            .sees(scheduler_turn());
    }
}

mod worker_gives_up_first {
    use super::*;

    fn joined() -> Trial<WorkerGivesUpFirst> {
        let mut trial = Trial::of(WorkerGivesUpFirst::default());
        trial
            .sees(worker_started(1))
            .sees(answer_heard(1, 1, Health::Healthy));
        trial.sees(worker_health(1, Health::New, Health::Healthy));
        trial
    }

    #[test]
    fn it_is_must_die_when_it_is_lost() {
        let mut trial = joined();
        trial.sees(worker_health(1, Health::Healthy, Health::Unhealthy));
        trial
            .at(495)
            .sees(worker_health(1, Health::Unhealthy, Health::MustDie));
        trial.at(500).sees(left(1, 2, 1, LeftCause::Lost, 0));
        trial.at(900).sees(Happening::FaultsOver);
    }

    #[test]
    fn a_healthy_one_is_not_lost() {
        joined().breaks(left(1, 2, 1, LeftCause::Lost, 0), "holds itself HEALTHY");
    }

    #[test]
    fn one_that_hesitates_too_long() {
        let mut trial = joined();
        trial.sees(worker_health(1, Health::Healthy, Health::Unhealthy));
        trial.at(500).sees(left(1, 2, 1, LeftCause::Lost, 0));
        trial.at(560).sees(Happening::FaultsOver);
        trial
            .at(561)
            .breaks(Happening::FaultsOver, "still UNHEALTHY");
    }

    #[test]
    fn one_that_stands_still_is_not_asked() {
        let place = place(1);
        let mut trial = joined();
        trial.sees(Happening::WorkerPaused { place });
        trial.sees(left(1, 2, 1, LeftCause::Lost, 0));
        trial.sees(Happening::WorkerResumed { place });
        trial.breaks(left(1, 3, 1, LeftCause::Lost, 0), "holds itself HEALTHY");
    }

    #[test]
    fn one_that_is_killed_as_it_stands_still_excuses_no_successor() {
        let mut trial = joined();
        let place = place(1);
        trial
            .sees(Happening::WorkerPaused { place })
            .sees(Happening::WorkerStopped {
                place,
                worker: wid(1),
                how: WorkerStop::Killed,
            });
        // The new worker starts in the same place.
        trial
            .sees(worker_started(101))
            .sees(answer_heard(1, 101, Health::Healthy))
            .sees(worker_health(101, Health::New, Health::Healthy));
        trial.breaks(left(1, 2, 101, LeftCause::Lost, 0), "holds itself HEALTHY");
    }

    #[test]
    fn an_early_replacement_is_no_timer() {
        let mut trial = joined();
        trial.sees(Happening::ShardContested {
            place: crate::event_log::SchedulerPlace(0),
            scheduler: sid(1),
            newcomer: wid(2),
            incumbent: wid(1),
            incumbent_health: Health::Unhealthy,
            same_lock: false,
        });
        trial
            .sees(left(1, 2, 1, LeftCause::Lost, 0))
            .sees(scheduler_turn());
    }
}

mod stale_is_earlier {
    use super::*;

    #[test]
    fn the_latest_is_never_stale() {
        let mut trial = Trial::of(StaleIsEarlier::default());
        trial
            .sees(worker_started(1))
            .sees(worker_started(2))
            .sees(rejected(1, 1, RejectionKind::StaleInstance))
            .sees(rejected(1, 2, RejectionKind::ShardTaken))
            .breaks(
                rejected(1, 2, RejectionKind::StaleInstance),
                "none is later",
            );
    }
}
