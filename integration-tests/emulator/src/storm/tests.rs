//! Tests of a storm: Brasserie's policies avoid it, and the other ways to wait cause it.

use super::*;

fn storm() -> Storm {
    Storm {
        workers: 300,
        rate_limit: 15,
        goes: 120.0,
        task: 120.0,
        outage: 300.0,
        after: 200.0,
        ..Storm::default()
    }
}

#[test]
fn ours_stay_below_the_limit_and_nobody_starves() {
    for seed in 1..3 {
        let storm = Storm { seed, ..storm() };
        let ours = play(&storm, RequestWait::Ours);
        assert!(ours.peak_rate <= 15, "{ours:?}");
        assert_eq!((ours.starved, ours.deferred), (0, 0), "{ours:?}");
        // The maximum backoff of the cluster's profile is a minute.
        assert!(ours.longest_wait <= 60.0, "{}", ours.longest_wait);
        assert!(ours.full_after.is_some());
    }
}

#[test]
fn others_come_all_at_once() {
    let storm = storm();
    let none = play(&storm, RequestWait::None);
    // All workers ask twice a second, except those that were served.
    assert!(none.peak_rate > 550, "{}", none.peak_rate);
    let fixed = play(&storm, RequestWait::Fixed);
    assert!(fixed.peak_rate > 50, "{}", fixed.peak_rate);
    assert!(fixed.deferred > 0 && none.deferred > fixed.deferred);
    // Three hundred workers are served at the maximum rate of fifteen per second.
    assert!(none.full_after.is_some_and(|full| full < 25.0));
}

#[test]
fn without_an_outage_nobody_asks_in_vain() {
    let calm = Storm {
        outage: 0.0,
        ..storm()
    };
    let ours = play(&calm, RequestWait::Ours);
    assert_eq!((ours.in_vain, ours.starved), (0, 0));
}

#[test]
fn one_seed_is_one_storm() {
    let once = play(&storm(), RequestWait::Ours);
    assert_eq!(once, play(&storm(), RequestWait::Ours));
    assert_ne!(
        once.rate,
        play(&Storm { seed: 9, ..storm() }, RequestWait::Ours).rate
    );
}

#[test]
fn the_table_and_the_rates_name_all() {
    let storm = Storm {
        workers: 5,
        ..storm()
    };
    let all = RequestWait::ALL.map(|waiting| play(&storm, waiting));
    let (table, rates) = (table(&storm, &all), rates_csv(&all));
    assert!(all.iter().all(|outcome| table.contains(&outcome.name)));
    let mut lines = rates.lines();
    let head = "second,no backoff,\"fixed retry, 5 s\",ours";
    assert_eq!(lines.next(), Some(head));
    let requests: usize = lines
        .flat_map(|line| line.split(',').skip(1))
        .map(|count| count.parse::<usize>().unwrap())
        .sum();
    let counts = all.iter().flat_map(|it| &it.rate);
    let counted: usize = counts.map(|count| *count as usize).sum();
    assert_eq!(requests, counted);
}
