//! Tests of the health model's truth table.

use super::*;

const GAPS: Gaps = Gaps {
    max_healthcheck: Duration::from_secs(20),
    max_heartbeat: Duration::from_secs(10),
    lose_after: Duration::from_secs(100),
};

fn at(secs: u64) -> Time {
    Time::ZERO + Duration::from_secs(secs)
}

fn unhealthy_with(heartbeat: u64, healthcheck: u64) -> HealthModel {
    let mut model = HealthModel::new(at(0));
    model.adopt(at(0), Health::Unhealthy);
    model.heartbeat(at(heartbeat));
    model.good_healthcheck(at(healthcheck));
    model
}

#[test]
fn limits_are_still_good_and_one_nanosecond_later_is_not() {
    let model = unhealthy_with(50, 50);
    assert_eq!(
        model.next(at(60), GAPS, FirstHealth::Permitted).health,
        Health::Healthy
    );
    let late = at(60) + Duration::from_nanos(1);
    assert_eq!(
        model.next(late, GAPS, FirstHealth::Permitted).health,
        Health::Unhealthy
    );
}

#[test]
fn withheld_first_health_is_unhealthy_but_never_lost_for_it() {
    let model = unhealthy_with(500, 500);
    let verdict = model.next(at(500), GAPS, FirstHealth::Withheld);
    assert_eq!(
        verdict,
        Verdict {
            health: Health::Unhealthy,
            only_withheld: true
        }
    );
    let verdict = model.next(at(511), GAPS, FirstHealth::Withheld);
    assert_eq!(
        verdict,
        Verdict {
            health: Health::MustDie,
            only_withheld: false
        }
    );
}

#[test]
fn once_healthy_permission_is_not_asked_again() {
    let mut model = unhealthy_with(50, 50);
    model.adopt(at(50), Health::Healthy);
    assert_eq!(
        model.next(at(51), GAPS, FirstHealth::Withheld).health,
        Health::Healthy
    );
}

#[test]
fn loss_takes_two_looks_after_healthy() {
    let mut model = unhealthy_with(0, 0);
    model.adopt(at(0), Health::Healthy);
    assert_eq!(
        model.next(at(1000), GAPS, FirstHealth::Permitted).health,
        Health::Unhealthy
    );
    model.adopt(at(1000), Health::Unhealthy);
    assert_eq!(
        model.next(at(1100), GAPS, FirstHealth::Permitted).health,
        Health::Unhealthy
    );
    assert_eq!(
        model.next(at(1101), GAPS, FirstHealth::Permitted).health,
        Health::MustDie
    );
}

#[test]
fn new_is_lost_after_the_loss_time_and_must_die_is_for_ever() {
    let mut model = HealthModel::new(at(0));
    assert_eq!(
        model.next(at(100), GAPS, FirstHealth::Permitted).health,
        Health::New
    );
    assert_eq!(
        model.next(at(101), GAPS, FirstHealth::Permitted).health,
        Health::MustDie
    );
    model.adopt(at(101), Health::MustDie);
    model.heartbeat(at(102));
    model.good_healthcheck(at(102));
    assert_eq!(
        model.next(at(102), GAPS, FirstHealth::Permitted).health,
        Health::MustDie
    );
}

#[test]
fn next_change_is_the_first_instant_with_another_verdict() {
    let mut model = unhealthy_with(50, 45);
    model.adopt(at(50), Health::Healthy);
    let change = model.next_change(GAPS).unwrap();
    assert_eq!(
        model
            .next(
                change - Duration::from_nanos(1),
                GAPS,
                FirstHealth::Permitted
            )
            .health,
        Health::Healthy
    );
    assert_eq!(
        model.next(change, GAPS, FirstHealth::Permitted).health,
        Health::Unhealthy
    );
}

#[test]
fn evidence_never_goes_back() {
    let mut model = unhealthy_with(50, 50);
    model.heartbeat(at(10));
    model.good_healthcheck(at(10));
    assert_eq!(
        (model.last_heartbeat(), model.last_good_healthcheck()),
        (Some(at(50)), Some(at(50)))
    );
}

/// The worker counts an acknowledged healthcheck from its acceptance, the scheduler from its sending.
#[test]
fn the_loss_is_not_counted_from_before_the_worker_can_know() {
    let lost_after = |model: &HealthModel| {
        let mut model = *model;
        let mut now = at(0);
        while model.health() != Health::MustDie {
            now = now.max(model.next_change(GAPS).expect("it changes"));
            model.adopt(now, model.next(now, GAPS, FirstHealth::Withheld).health);
        }
        now
    };
    let late = Duration::from_nanos(1);
    for has_been_healthy in [true, false] {
        let mut model = unhealthy_with(50, 20);
        if has_been_healthy {
            model.adopt(at(20), Health::Healthy);
            model.adopt(at(40), Health::Unhealthy);
        }
        let before = lost_after(&model);
        // A check no later than the known one changes nothing.
        model.acknowledged_healthcheck(at(20));
        assert_eq!(lost_after(&model), before);
        // The check was sent at 20 and accepted at 38, when it was too old already.
        model.acknowledged_healthcheck(at(38));
        let expected = if has_been_healthy { at(158) } else { at(100) };
        assert_eq!(lost_after(&model), expected + late);
        // The last heartbeat ends it earlier, because the worker knows no later one.
        model.acknowledged_healthcheck(at(190));
        let expected = if has_been_healthy { at(160) } else { at(100) };
        assert_eq!(lost_after(&model), expected + late);
        model.heartbeat(at(200));
        let expected = if has_been_healthy { at(310) } else { at(210) };
        assert_eq!(lost_after(&model), expected + late);
    }
}

/// A worker in NEW is waited for no longer than the loss time, however fresh its evidence.
#[test]
fn fresh_evidence_does_not_keep_a_new_one() {
    let mut model = HealthModel::new(at(0));
    model.heartbeat(at(99));
    model.good_healthcheck(at(99));
    model.acknowledged_healthcheck(at(99));
    let verdict = model.next(at(101), GAPS, FirstHealth::Permitted);
    assert_eq!(verdict.health, Health::MustDie);
}
