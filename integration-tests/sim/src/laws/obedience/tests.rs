//! Hand-made histories that the laws of this module must accept, and happenings that they must catch.

use brasserie_common::RefusalCode;

use super::super::trial::*;
use super::*;

mod obedience {
    use super::*;

    #[test]
    fn only_the_bound_instance_is_obeyed() {
        let mut trial = Trial::of(Obedience::default());
        trial.sees(served(1, 1, ask_run(run(1)), None));
        let of_another = (1, Health::Healthy, 2);
        trial.sees(served_by(
            of_another,
            (1, 1),
            ask_run(run(2)),
            Some(RefusalCode::WrongId),
        ));
        trial.breaks(
            served_by(of_another, (1, 1), ask_run(run(2)), None),
            "bound to scheduler 2",
        );
    }

    #[test]
    fn a_task_for_a_predecessor_is_refused() {
        let mut trial = Trial::of(Obedience::default());
        let own = (2, Health::Healthy, 1);
        trial.breaks(
            served_by(own, (1, 1), ask_run(run(1)), None),
            "was meant for",
        );
    }
}

mod bindings_go_forward {
    use super::*;

    #[test]
    fn forward_only() {
        let mut trial = Trial::of(BindingsGoForward::default());
        trial.sees(bound(1, 1)).sees(bound(1, 3)).sees(bound(2, 1));
        trial.breaks(bound(1, 2), "goes back");
    }
}

mod must_die_is_final {
    use super::*;

    #[test]
    fn no_way_back() {
        let mut trial = Trial::of(MustDieIsFinal::default());
        trial.sees(worker_health(1, Health::Healthy, Health::Unhealthy));
        trial.sees(worker_health(1, Health::Unhealthy, Health::MustDie));
        trial.breaks(served(1, 1, ask_run(run(1)), None), "while it is ending");
        trial.breaks(
            worker_health(1, Health::MustDie, Health::Unhealthy),
            "from MUST_DIE",
        );
    }

    #[test]
    fn a_goodbye_is_true() {
        let mut trial = Trial::of(MustDieIsFinal::default());
        trial.sees(begins(1, 1, run(1)));
        trial.breaks(heartbeat_sent(1, set(1, 1, &[1]), true), "while run");
        trial
            .sees(dies(1, 1, run(1)))
            .sees(heartbeat_sent(1, set(1, 1, &[1]), true));
    }
}

mod drains_quietly {
    use super::*;

    fn drains() -> Happening {
        Happening::WorkerDrains { worker: wid(1) }
    }

    #[test]
    fn nothing_more_is_accepted() {
        let mut trial = Trial::of(DrainsQuietly::default());
        trial.sees(served(1, 1, ask_run(run(1)), None));
        trial.sees(drains());
        let refused = Some(RefusalCode::Draining);
        trial.sees(served(1, 1, ask_run(run(2)), refused));
        trial.breaks(served(1, 1, ask_run(run(2)), None), "drains and accepts");
    }

    #[test]
    fn nothing_is_ended_until_that_is_wanted() {
        let killed = |by| kill_asked(1, run(1), by);
        let mut trial = Trial::of(DrainsQuietly::default());
        trial.sees(drains()).sees(killed(EndedBy::Operator));
        trial.sees(Happening::WorkerShutsDown { worker: wid(1) });
        trial.sees(killed(EndedBy::Shutdown));
        let mut trial = Trial::of(DrainsQuietly::default());
        trial.sees(drains());
        trial.breaks(killed(EndedBy::Shutdown), "only drains and ends");
    }
}
