//! Hand-made histories that the laws of this module must accept, and happenings that they must catch.

use super::super::trial::*;
use super::*;

mod wait_is_kept {
    use super::*;

    #[test]
    fn nothing_before_the_end_of_the_wait() {
        let mut trial = Trial::of(WaitIsKept::default());
        trial
            .sees(sent(1, 1, 1, ask_run(run(1))))
            .sees(wait_ended(1, WaitExit::SafeWait))
            .sees(scheduler_turn());
        trial
            .sees(sent(1, 1, 2, ask_run(run(2))))
            .sees(scheduler_turn());
        trial.sees(sent(2, 1, 3, ask_run(run(3))));
        trial.breaks(scheduler_turn(), "in its initial wait");
    }
}

mod wait_ends_rightly {
    use super::*;

    /// Scheduler 2 on a directory where scheduler 1 recorded worker 1.
    fn second() -> Trial<WaitEndsRightly> {
        let mut trial = Trial::of(WaitEndsRightly::default());
        trial
            .sees(started(1))
            .sees(wrote_start(1))
            .sees(associated(1, 2, 1))
            .sees(synced(1, 2));
        trial.sees(stopped(1)).at(1000).sees(started(2));
        trial
    }

    #[test]
    fn the_record_must_be_complete_and_trusted() {
        let mut trial = second();
        trial.breaks(
            wait_ended(2, WaitExit::RecordComplete),
            "neither back nor dead",
        );
        trial
            .sees(heard(2, 1, set(1, 1, &[1])))
            .sees(fetched(2, 1, 1));
        trial.sees(wait_ended(2, WaitExit::RecordComplete));
        trial.sees(heard(2, 1, set(9, 1, &[1])));
        trial.breaks(wait_ended(2, WaitExit::RecordComplete), "stale");
    }

    #[test]
    fn consensus_neither_overrules_a_record_nor_ends_before_the_kill_margin() {
        let mut trial = second();
        trial
            .at(1500)
            .breaks(wait_ended(2, WaitExit::Consensus), "the record is trusted");
        let mut trial = Trial::of(WaitEndsRightly::default());
        trial.sees(started(1));
        trial
            .at(65)
            .breaks(wait_ended(1, WaitExit::Consensus), "may still be killing");
        let of_nine = settled_set(9, 2, &[1, 2]);
        trial.sees(heard(1, 1, of_nine)).sees(associated(1, 2, 1));
        trial
            .at(66)
            .breaks(wait_ended(1, WaitExit::Consensus), "not the members of");
        trial.sees(heard(1, 2, of_nine)).sees(associated(1, 3, 2));
        trial.sees(wait_ended(1, WaitExit::Consensus));
        trial.sees(heard(1, 3, set(9, 2, &[1, 2])));
        trial.sees(associated(1, 4, 3));
        trial.breaks(wait_ended(1, WaitExit::Consensus), "a set that counts");
    }

    #[test]
    fn a_safe_wait_takes_its_time_and_a_new_cluster_knows_nobody() {
        let mut trial = second();
        trial
            .at(1695)
            .breaks(wait_ended(2, WaitExit::SafeWait), "only 695s");
        trial.at(1696).sees(wait_ended(2, WaitExit::SafeWait));
        trial.breaks(wait_ended(2, WaitExit::NewCluster), "has a record");
        let mut trial = Trial::of(WaitEndsRightly::default());
        trial.sees(started(1)).sees(heard(1, 1, set(0, 0, &[])));
        trial.sees(wait_ended(1, WaitExit::NewCluster));
        trial.sees(heard(1, 2, set(9, 1, &[2])));
        trial.breaks(
            wait_ended(1, WaitExit::NewCluster),
            "knows an earlier scheduler",
        );
    }
}
