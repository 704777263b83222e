//! Tests of the tasks and the answers of simulated schedulers.

use std::path::Path;

use super::*;
use crate::scenario::{START, ServerCheck};

/// Returns a scenario with two CPUs and a GPU.
fn scenario(job: &str) -> Scenario {
    let text = format!(
        "[policy]\nserver_check = \"estimated_delay\"\n[worker]\ncpus = 2\n[[worker.cards]]\nmodel = \"X\"\ncount = 1\nspeed = 10\n[[scheduler]]\nname = \"s\"\n{job}"
    );
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.toml");
    std::fs::write(&path, text).unwrap();
    let overrides = crate::scenario::Overrides::default();
    Scenario::read(Path::new(&path), &overrides).unwrap_or_else(|told| panic!("{told}"))
}

fn job(more: &str) -> Scenario {
    scenario(&format!(
        "[[scheduler.job]]\nname = \"a\"\nruns = 3600\n{more}\n"
    ))
}

fn want(secs: f64, instances: f64, idle: f64) -> Want {
    Want {
        secs,
        instances,
        idle,
        ..Want::default()
    }
}

fn asked(cpu: Want, linger: f64) -> ArrivedRequest {
    ArrivedRequest {
        wants: vec![cpu, Want::default()],
        known: Vec::new(),
        linger,
    }
}

fn ask(scenario: &Scenario, cpu: Want) -> RequestAnswer {
    let mut server = Server::new(scenario, 0, START);
    server.request(scenario, START, asked(cpu, 0.0))
}

#[test]
fn the_last_task_may_exceed_what_was_asked_for() {
    // The demand is 9000 s and two instances. Of tasks of 3600 s, three are sent.
    let answer = ask(&job(""), want(9000.0, 2.0, 0.0));
    assert_eq!(answer.sent.len(), 3);
    assert_eq!(answer.verdicts, [Some(TypeVerdict::Granted(3)), None]);
    assert_eq!(answer.no_apps, [1]);
    assert_eq!(ask(&job(""), want(3600.0, 0.0, 0.0)).sent.len(), 1);
    assert_eq!(ask(&job(""), want(1.0, 2.0, 0.0)).sent.len(), 2);
}

#[test]
fn what_may_not_wait_is_sent_for_idle_instances_only() {
    let impatient = job("bufferable = false");
    assert_eq!(ask(&impatient, want(9000.0, 2.0, 1.0)).sent.len(), 1);
    let none = ask(&impatient, want(9000.0, 2.0, 0.0));
    assert_eq!(none.verdicts[0], Some(TypeVerdict::Limited));
}

#[test]
fn for_one_request_there_are_ten_tasks_a_processor() {
    let none = job("estimate = { mean = \"1ms\" }");
    assert_eq!(ask(&none, want(9000.0, 0.0, 0.0)).sent.len(), 30);
}

#[test]
fn whoever_has_nothing_says_why() {
    let verdict = |scenario: &Scenario, cpu| ask(scenario, cpu).verdicts[0];
    let some = want(100.0, 1.0, 1.0);
    assert_eq!(verdict(&job("count = 0"), some), Some(TypeVerdict::NoWork));
    assert_eq!(
        verdict(&job("card = \"X\""), some),
        Some(TypeVerdict::NoApps)
    );
    let late = Want {
        delay: 400.0,
        ..some
    };
    assert_eq!(
        verdict(&job("deadline = 4000"), late),
        Some(TypeVerdict::Granted(1))
    );
    assert_eq!(
        verdict(&job("deadline = 3999"), late),
        Some(TypeVerdict::Deadline)
    );
    assert_eq!(verdict(&job(""), Want::default()), None);
}

#[test]
fn each_task_that_is_sent_delays_the_next() {
    // The delay grows by half an hour with each task, on two CPUs. 1800 + 3600 is too late for the second.
    let answer = ask(&job("deadline = 5000"), want(1e6, 2.0, 2.0));
    assert_eq!(answer.sent.len(), 1);
}

#[test]
fn the_fastest_way_that_was_asked_for_is_taken() {
    let both = scenario(
        "[[scheduler.job]]\nname = \"a\"\nruns = 100\n[[scheduler.job.version]]\ncpus = 1\n[[scheduler.job.version]]\ncard = \"X\"\ncpus = 0.5\nspeed = 4\n",
    );
    let mut server = Server::new(&both, 0, START);
    let wants = vec![want(60.0, 0.0, 0.0), want(30.0, 0.0, 0.0)];
    let asked = ArrivedRequest {
        wants,
        known: Vec::new(),
        linger: 0.0,
    };
    let answer = server.request(&both, START, asked);
    let versions: Vec<usize> = answer.sent.iter().map(|it| it.version).collect();
    // Two tasks take 25 s of the GPU each, and half of that of a CPU. The rest of the CPU's minute is for the other version.
    assert_eq!(versions, [1, 1, 0]);
}

#[test]
fn a_lingering_request_is_spent_when_tasks_come() {
    let rare = scenario("[[scheduler.job]]\nname = \"a\"\nruns = 50\nevery = 10\ncount = 1\n");
    let mut server = Server::new(&rare, 0, START);
    let answer = server.request(&rare, START, asked(want(10.0, 0.0, 0.0), 120.0));
    assert_eq!(answer.verdicts[0], Some(TypeVerdict::NoWork));
    let comes = server.wakes(&rare, START);
    assert!(comes > START && comes.is_finite());
    assert_eq!(server.linger(&rare, comes - 0.001), []);
    let in_time = comes < START + 120.0;
    assert_eq!(server.linger(&rare, comes).len(), usize::from(in_time));
    assert!(in_time, "the seed was chosen for it");
    assert_eq!(server.wakes(&rare, comes), f64::INFINITY);
    // No credit is left without lingering.
    let mut server = Server::new(&rare, 0, START);
    server.request(&rare, START, asked(want(10.0, 0.0, 0.0), 0.0));
    assert_eq!(server.linger(&rare, comes), []);
}

#[test]
fn what_ends_makes_room_for_another_if_the_worker_says_what_waits() {
    let impatient = job("bufferable = false");
    for (waiting, follow) in [(None, 0), (Some(0.0), 1), (Some(1.0), 0)] {
        let mut server = Server::new(&impatient, 0, START);
        let one = Want {
            waiting,
            ..want(9000.0, 0.0, 1.0)
        };
        let first = server.request(&impatient, START, asked(one, 120.0)).sent;
        assert_eq!(first.len(), 1);
        server.has_sent(&impatient, 1, &first[0]);
        assert_eq!(server.linger(&impatient, START), []);
        server.has_ended(1, first[0].job, true);
        assert_eq!(server.linger(&impatient, START).len(), follow);
        // Each completion returns its instance only once.
        server.has_ended(1, first[0].job, true);
        assert_eq!(server.linger(&impatient, START), []);
    }
}

#[test]
fn who_comes_too_soon_is_deferred() {
    let slow = scenario("min_request_interval = 10\n[[scheduler.job]]\nname = \"a\"\nruns = 5\n");
    let mut server = Server::new(&slow, 0, START);
    let request = |server: &mut Server, at: f64| {
        server.request(&slow, START + at, asked(want(1.0, 0.0, 0.0), 0.0))
    };
    assert_eq!(request(&mut server, 0.0).sent.len(), 1);
    let soon = request(&mut server, 9.9);
    assert_eq!(soon.verdicts[0], Some(TypeVerdict::Deferred));
    // The interval plus a second is longer than the interval plus a hundredth.
    assert_eq!((soon.sent.len(), soon.request_delay), (0, 11.0));
    assert_eq!(request(&mut server, 20.9).sent.len(), 1);
}

#[test]
fn unasked_there_is_as_much_as_there_are_slots_for() {
    let both = scenario(
        "[[scheduler.job]]\nname = \"a\"\nruns = 5\ncount = 5\n[[scheduler.job]]\nname = \"b\"\nruns = 5\ncard = \"X\"\ncount = 5\n",
    );
    let mut server = Server::new(&both, 0, START);
    let sent = server.push(&both, START, &[2.0, 1.0]);
    assert_eq!(sent.len(), 3);
    for (number, sent) in sent.iter().enumerate() {
        server.has_sent(&both, number as u64, sent);
    }
    assert_eq!(server.push(&both, START, &[2.0, 1.0]), []);
    server.has_ended(0, sent[0].job, true);
    assert_eq!(server.push(&both, START, &[2.0, 1.0]).len(), 1);
}

#[test]
fn what_has_failed_is_there_again() {
    let one = job("count = 1");
    let mut server = Server::new(&one, 0, START);
    let some = || asked(want(1.0, 0.0, 0.0), 0.0);
    assert_eq!(server.request(&one, START, some()).sent.len(), 1);
    assert_eq!(server.request(&one, START, some()).sent.len(), 0);
    server.has_ended(1, 0, false);
    assert_eq!(server.request(&one, START, some()).sent.len(), 1);
    server.has_ended(2, 0, true);
    assert_eq!(server.request(&one, START, some()).sent.len(), 0);
}

#[test]
fn who_is_full_is_left_alone_for_a_moment() {
    let one = scenario("slots = 9\n[[scheduler.job]]\nname = \"a\"\nruns = 5\ncount = 1\n");
    let mut server = Server::new(&one, 0, START);
    let sent = server.push(&one, START, &[1.0, 0.0]);
    assert_eq!(sent.len(), 1);
    server.is_refused(sent[0].job, START);
    assert_eq!(server.push(&one, START + 0.149, &[1.0, 0.0]), []);
    assert_eq!(server.push(&one, START + 0.15, &[1.0, 0.0]).len(), 1);
}

fn known(remaining: f64, deadline: f64) -> TaskAtWorker {
    TaskAtWorker {
        remaining,
        deadline: Some(deadline),
    }
}

#[test]
fn the_workload_is_looked_at_if_the_scenario_says_so() {
    let mut scenario = job("deadline = 4000");
    scenario.policy.server_check = ServerCheck::Workload;
    let mut server = Server::new(&scenario, 0, START);
    let asked = ArrivedRequest {
        known: vec![known(3600.0, 3900.0), known(3600.0, 3900.0)],
        ..asked(want(10.0, 0.0, 0.0), 0.0)
    };
    let answer = server.request(&scenario, START, asked);
    assert_eq!(answer.verdicts[0], Some(TypeVerdict::Deadline));
    // A task for which the low water mark before its deadline is impossible is sent if it can start immediately, as the scheduler does.
    let low_water = scenario.profile.low_water();
    assert!(4000.0 - low_water > 3600.0);
    scenario.schedulers[0].jobs[0].deadline = Some(3600.0 + low_water / 2.0);
    for (busy, sent) in [(1, 1), (2, 0)] {
        let asked = ArrivedRequest {
            known: vec![known(1800.0, 3600.0); busy],
            ..super::tests::asked(want(1.0, 0.0, 0.0), 0.0)
        };
        let mut server = Server::new(&scenario, 0, START);
        let answer = server.request(&scenario, START, asked);
        assert_eq!(answer.sent.len(), sent, "{busy}");
    }
}

#[test]
fn the_same_seed_has_the_same_tasks() {
    let varied = job("varies = 600\nestimate = { spread = 600 }\nfails = 0.5");
    let sent = || ask(&varied, want(9000.0, 2.0, 0.0)).sent;
    assert_eq!(sent(), sent());
    let works: Vec<f64> = sent().iter().map(|it| it.work).collect();
    assert!(works[0] != works[1], "{works:?}");
}
