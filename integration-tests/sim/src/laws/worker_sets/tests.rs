//! Hand-made histories that the laws of this module must accept, and happenings that they must catch.

use brasserie_common::WorkerSetHash;
use brasserie_scheduler_core::LeftCause;

use super::super::trial::*;
use super::*;
use crate::event_log::WaitExit;

mod settled_after_wait {
    use super::*;

    #[test]
    fn not_in_a_wait() {
        let mut trial = Trial::of(SettledAfterWait::default());
        let id = settled_set(1, 1, &[1]);
        trial
            .sees(decided(1, 1, Health::New, set(1, 1, &[1])))
            .sees(scheduler_turn())
            .sees(wait_ended(1, WaitExit::SafeWait));
        trial
            .sees(decided(1, 1, Health::New, id))
            .sees(scheduler_turn())
            .sees(waits_again(1))
            .sees(decided(1, 1, Health::New, id));
        trial.breaks(scheduler_turn(), "in its initial wait");
    }
}

mod sets_go_forward {
    use super::*;

    fn after(first: SetMark) -> Trial<SetsGoForward> {
        let mut trial = Trial::of(SetsGoForward::default());
        trial
            .sees(heartbeat_sent(1, set(0, 0, &[]), false))
            .sees(heartbeat_sent(1, first, false));
        trial
    }

    #[test]
    fn forward_also_over_the_end_of_numbers() {
        after(set(1, 5, &[1])).sees(heartbeat_sent(1, set(1, 7, &[1]), false));
        after(set(1, 5, &[1])).sees(heartbeat_sent(1, set(2, 1, &[1]), false));
        after(set(1, i64::MAX, &[1])).sees(heartbeat_sent(1, set(1, i64::MIN, &[1]), false));
    }

    #[test]
    fn never_back() {
        after(set(1, 5, &[1])).breaks(heartbeat_sent(1, set(1, 4, &[1]), false), "sends version 4");
        after(set(2, 5, &[1])).breaks(heartbeat_sent(1, set(1, 9, &[1]), false), "sends version 9");
        after(set(2, 5, &[1])).breaks(
            heartbeat_sent(1, set(2, 5, &[1, 2]), false),
            "sends version 5",
        );
    }
}

mod sets_are_true {
    use super::*;

    fn two_workers() -> Trial<SetsAreTrue> {
        let mut trial = Trial::of(SetsAreTrue::default());
        trial.sees(started(1)).sees(associated(1, 2, 1));
        trial.sees(decided(1, 1, Health::New, set(1, 1, &[1])));
        trial
            .sees(associated(1, 3, 2))
            .sees(decided(1, 1, Health::New, set(1, 2, &[1, 2])));
        trial
    }

    #[test]
    fn true_sets_pass() {
        let mut trial = two_workers();
        trial.sees(decided(1, 1, Health::New, set(1, 1, &[1])));
        trial.sees(left(1, 4, 2, LeftCause::Lost, 0));
        trial.sees(decided(1, 2, Health::MustDie, set(1, 3, &[1])));
        trial.sees(decided(1, 1, Health::Healthy, set(1, 3, &[1])));
    }

    #[test]
    fn false_ones_do_not() {
        two_workers().breaks(
            decided(1, 1, Health::New, set(1, 3, &[1, 3])),
            "no set that it ever had",
        );
        two_workers().breaks(
            decided(1, 1, Health::New, set(1, 2, &[1])),
            "stood for another set",
        );
        two_workers().breaks(
            decided(1, 2, Health::New, set(1, 1, &[1])),
            "does not contain this worker",
        );
        two_workers().breaks(
            decided(1, 1, Health::New, set(1, 3, &[1])),
            "before that of an earlier version",
        );
    }
}

mod first_health_after_echo {
    use super::*;

    #[test]
    fn the_echo_comes_first() {
        let mut trial = Trial::of(FirstHealthAfterEcho::default());
        trial
            .sees(started(1))
            .sees(associated(1, 2, 1))
            .sees(associated(1, 3, 2));
        trial.sees(heard(1, 1, set(9, 1, &[1])));
        trial.breaks(
            decided(1, 1, Health::Healthy, set(1, 2, &[1, 2])),
            "has not sent back",
        );
        trial.sees(heard(1, 1, set(1, 2, &[1, 2]))).sees(decided(
            1,
            1,
            Health::Healthy,
            set(1, 2, &[1, 2]),
        ));
    }
}

mod every_viable_set {
    use super::*;

    fn id(standing: Standing, members: &[i64]) -> WorkerSetId {
        let mut hash = WorkerSetHash::default();
        members.iter().for_each(|member| hash.add(wid(*member)));
        let (scheduler, version) = (sid(1), members.len() as i64);
        WorkerSetId {
            scheduler,
            version,
            hash,
            standing,
        }
    }

    #[test]
    fn a_set_is_viable_while_all_its_members_live_and_hold_it() {
        let pair = id(Standing::Settled, &[1, 2]);
        let three = id(Standing::Settled, &[1, 2, 3]);
        let all = [(wid(1), pair), (wid(2), pair), (wid(3), three)];
        assert_eq!(viable_without(wid(3), &all), Some(pair));
        assert_eq!(viable_without(wid(1), &all), None);
        // One member has moved on, or is dead.
        let moved = [(wid(1), three), (wid(2), pair), (wid(3), three)];
        assert_eq!(viable_without(wid(3), &moved), None);
        assert_eq!(viable_without(wid(3), &all[1..]), None);
    }

    #[test]
    fn only_settled_ids_count() {
        let waiting = id(Standing::Unsettled, &[1]);
        assert_eq!(viable_without(wid(2), &[(wid(1), waiting)]), None);
        let nothing = WorkerSetId::default();
        assert_eq!(viable_without(wid(2), &[(wid(1), nothing)]), None);
    }
}
