//! The truth table of the health model.

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
