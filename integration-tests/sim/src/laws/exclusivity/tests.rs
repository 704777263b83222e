//! Hand-made histories that the laws of this module must accept, and happenings that they must catch.

use brasserie_scheduler_core::LeftCause;

use super::super::trial::*;
use super::*;
use crate::event_log::{MachineId, WorkerStop};

mod never_twice {
    use super::*;

    #[test]
    fn one_after_the_other_is_fine_and_together_is_not() {
        let mut trial = Trial::of(NeverTwice::default());
        trial.sees(begins(1, 1, run(1))).sees(dies(1, 1, run(1)));
        trial.sees(begins(2, 2, run(2)));
        trial
            .sees(begins(1, 3, check(1)))
            .sees(begins(2, 4, check(1)));
        trial.breaks(begins(1, 5, run(3)), "j0/n0 runs twice");
    }

    #[test]
    fn nothing_is_promised_with_two_schedulers_on_copies() {
        let mut trial = Trial::of(NeverTwice::default());
        trial.contract = Contract::Obedience;
        trial.sees(begins(1, 1, run(1))).sees(begins(2, 2, run(2)));
    }

    #[test]
    fn a_machine_that_slept_gets_the_time_to_end_its_tasks_and_no_more() {
        let mut trial = Trial::of(NeverTwice::default());
        let machine = MachineId(7);
        trial.sees(Happening::WorkerInstalled {
            place: place(1),
            machine,
        });
        trial.sees(begins(1, 1, run(1)));
        trial.sees(Happening::MachineSuspended { machine });
        trial.at(900).sees(begins(2, 2, run(2)));
        trial.at(1000).sees(Happening::MachineWoke { machine });
        trial.at(1005).sees(Happening::FaultsOver);
        trial.at(1009).breaks(Happening::FaultsOver, "runs twice");
    }
}

mod nothing_unseen {
    use super::*;

    #[test]
    fn who_runs_the_task_is_known_or_nobody_does() {
        let mut trial = Trial::of(NothingUnseen::default());
        trial.sees(begins(1, 1, run(1))).sees(dies(1, 1, run(1)));
        trial.sees(sent(1, 2, 1, ask_run(run(2))));
        trial.sees(begins(1, 2, run(2)));
        trial.breaks(sent(1, 2, 2, ask_run(run(3))), "has not fetched");
    }

    #[test]
    fn a_fetch_of_another_instance_is_no_sight() {
        let mut trial = Trial::of(NothingUnseen::default());
        trial
            .sees(fetched(1, 1, 1))
            .sees(begins(1, 1, run(1)))
            .sees(stopped(1));
        trial.breaks(sent(2, 2, 2, ask_run(run(2))), "has not fetched");
    }
}

mod given_away_is_dead {
    use super::*;

    fn bumped() -> Trial<GivenAwayIsDead> {
        let mut trial = Trial::of(GivenAwayIsDead::default());
        trial.sees(worker_started(1)).sees(worker_started(2));
        trial.sees(left(1, 5, 1, LeftCause::Lost, 1));
        trial.sees(end_written(1, 5, run(1), ERROR, 0, 60));
        trial
    }

    #[test]
    fn its_tasks_wait_for_its_end() {
        bumped().breaks(sent(1, 2, 1, ask_run(run(1))), "is not ending itself");
        let mut trial = bumped();
        let mut other = run(2);
        other.task.node += 1;
        trial.sees(sent(1, 2, 1, ask_run(other)));
        trial.sees(worker_health(1, Health::Unhealthy, Health::MustDie));
        trial.sees(sent(1, 2, 1, ask_run(run(1))));
    }

    #[test]
    fn a_record_that_a_crash_took_gave_nothing_away() {
        let mut trial = bumped();
        trial.sees(tail_lost(1, 4));
        trial.sees(sent(2, 2, 1, ask_run(run(1))));
    }
}

mod zombies_end {
    use super::*;

    #[test]
    fn a_zombie_must_end_within_the_backoff_of_its_task() {
        let mut trial = Trial::of(ZombiesEnd::default());
        trial.sees(begins(1, 1, run(1)));
        trial.at(100).sees(left(1, 2, 1, LeftCause::Lost, 1));
        trial.sees(end_written(1, 2, run(1), LOST, SAFE, SAFE));
        trial
            .at(150)
            .sees(begins(1, 2, run(2)))
            .sees(dies(1, 1, run(1)));
        trial.at(166).sees(Happening::FaultsOver);
        trial.at(167).breaks(Happening::FaultsOver, "lives on");
    }

    #[test]
    fn a_longer_wait_gives_more_time_and_a_forgotten_loss_forgives() {
        let mut trial = Trial::of(ZombiesEnd::default());
        trial.sees(begins(1, 1, run(1)));
        trial.sees(left(1, 2, 1, LeftCause::Lost, 1));
        trial.sees(end_written(1, 2, run(1), LOST, 696, 696));
        trial.at(690).sees(Happening::FaultsOver);
        trial.sees(tail_lost(1, 1));
        trial.at(2000).sees(Happening::FaultsOver);
        trial.sees(left(2, 2, 1, LeftCause::DidNotReturn, 0));
        trial.at(2001).breaks(Happening::FaultsOver, "lives on");
    }
}

mod predecessor_is_dead {
    use super::*;

    fn killed(w: i64) -> Happening {
        Happening::WorkerStopped {
            place: place(w % 100),
            worker: wid(w),
            how: WorkerStop::Killed,
        }
    }

    #[test]
    fn nothing_is_left_behind() {
        let mut trial = Trial::of(PredecessorIsDead::default());
        trial
            .sees(begins(1, 1, run(1)))
            .sees(heartbeat_sent(1, set(0, 0, &[]), false));
        trial
            .sees(killed(1))
            .sees(dies(1, 1, run(1)))
            .sees(heartbeat_sent(101, set(0, 0, &[]), false));
        trial.sees(begins(101, 2, run(2))).sees(killed(101));
        trial.breaks(
            heartbeat_sent(201, set(0, 0, &[]), false),
            "of its predecessor",
        );
    }
}

mod fences_increase {
    use super::*;

    fn begins_with(n: i64, generation: u32, counter: u32) -> Happening {
        Happening::Fenced {
            run: run(n),
            fence: Fence::new(FenceGeneration(generation), counter),
        }
    }

    fn sends(s: i64, n: i64) -> Happening {
        sent(
            s,
            1,
            u32::try_from(n).unwrap(),
            Ask::Run {
                run: run(n),
                sequence: Default::default(),
            },
        )
    }

    #[test]
    fn fences_of_a_task_go_up() {
        let mut trial = Trial::of(FencesIncrease::default());
        trial.sees(begins_with(1, 5, 1)).sees(begins_with(2, 5, 2));
        trial.sees(begins_with(3, 6, 1));
        trial.breaks(begins_with(4, 6, 1), "after run");
        trial.breaks(begins_with(5, 5, 9), "after run");
    }

    #[test]
    fn a_lost_directory_excuses_what_nobody_listed_and_no_clock_tells() {
        let mut trial = Trial::of(FencesIncrease::default());
        trial.sees(started(1)).sees(sends(1, 1));
        trial.sees(begins_with(1, 9, 1));
        trial.sees(Happening::DirectoryLost { directory: D });
        trial.sees(started(4)).sees(sends(4, 2));
        trial.sees(begins_with(2, 4, 1));
        // This scheduler began in a later second than that generation.
        trial.sees(started(5)).sees(sends(5, 3));
        trial.breaks(begins_with(3, 4, 1), "after run");
    }
}
