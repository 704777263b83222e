//! Tests real programs on a failing network: partitions in one and both directions, killed and stopped programs, two workers of one shard,
//! and links that lose, duplicate, delay and reorder packets. Every timeout is a second. Where a machine allows no network namespaces, each
//! test prints a warning and checks nothing.

use std::time::Duration;

use integration_tests::e2e::{Cluster, LinkEffect, LossTime, Percent};
use nix::sys::signal::Signal;

/// Exit code of a worker that had to end itself.
const SUICIDE: Option<i32> = Some(1);
/// Duration of a task where the fault must affect many tasks.
const SHORT: Duration = Duration::from_millis(200);

/// Checks that no node's task was started twice.
fn assert_nothing_ran_again(cluster: &Cluster) {
    let records = cluster.stage.records();
    let again: Vec<_> = records
        .starts()
        .into_iter()
        .filter(|(_, count)| *count != 1)
        .collect();
    assert!(again.is_empty(), "nothing was lost, but {again:?}");
}

#[test]
fn links_are_cut_each_way_by_itself_and_healed() {
    let test = "links are cut each way by itself and healed";
    let Some(mut cluster) = Cluster::start(test, 1, 1, Duration::ZERO, LossTime::Long) else {
        return;
    };
    cluster.add_workers(1);
    let (here, there) = (cluster.network.host(0), cluster.worker(0).host);
    let answer = || {
        let ask = cluster
            .stage
            .brasserie_command(&["status", "--insecure-network"]);
        let mut ask = cluster.network.command_on(there, &ask);
        ask.args(["--scheduler", &cluster.scheduler_address()]);
        cluster.stage.finish("brasserie", ask).code
    };
    assert_eq!(answer(), Some(0));
    for (from, to) in [(here, there), (there, here)] {
        let before = cluster.network.set_one_way(from, to, &LinkEffect::CUT);
        assert_eq!(answer(), Some(1), "{from:?} to {to:?} is cut");
        let after = cluster.network.set_one_way(from, to, &LinkEffect::GOOD);
        assert!(after.lost > before.lost, "{before:?} {after:?}");
        assert_eq!(answer(), Some(0), "{from:?} to {to:?} is healed");
    }
    cluster.finish();
}

#[test]
fn a_partition_shorter_than_the_loss_time_costs_no_task() {
    let test = "a partition shorter than the loss time";
    let Some(mut cluster) = Cluster::start(test, 2, 24, SHORT, LossTime::Long) else {
        return;
    };
    cluster.add_workers(2);
    cluster.wait_started(4);
    cluster.set_link(0, &LinkEffect::CUT);
    cluster.wait_state("w0", "unhealthy");
    // Its tasks have ended meanwhile, and it could not report them.
    cluster.set_link(0, &LinkEffect::GOOD);
    cluster.wait_state("w0", "healthy");
    assert_eq!(cluster.tend(), 0, "no worker has ended");
    cluster.wait_all_done();
    assert_nothing_ran_again(&cluster);
    cluster.finish();
}

/// Cuts a worker off in the directions `cut` while it runs tasks. Checks that it ends itself and that its tasks run elsewhere.
fn cut_off(test: &str, cut: Directions) {
    let Some(mut cluster) = Cluster::start(test, 3, 4, SHORT, LossTime::Least) else {
        return;
    };
    cluster.stage.hold();
    cluster.add_workers(2);
    cluster.wait_running(0, 2);
    cluster.wait_running(1, 2);
    let cut_off = cluster.nodes_running_on(0);
    assert_eq!(cut_off.len(), 2, "{cut_off:?}");
    cluster.add_worker("heir");

    let (here, there) = (cluster.network.host(0), cluster.worker(0).host);
    match cut {
        Directions::Both => cluster.set_link(0, &LinkEffect::CUT),
        Directions::ToWorker => drop(cluster.network.set_one_way(here, there, &LinkEffect::CUT)),
        Directions::ToScheduler => drop(cluster.network.set_one_way(there, here, &LinkEffect::CUT)),
    }
    assert_eq!(cluster.wait_end(0).code(), SUICIDE);
    let told = cluster.worker(0).process.output();
    let last = told.lines().last().unwrap_or_default();
    assert!(last.contains("ended: the scheduler has "), "{told}");
    assert!(last.contains("; every task is dead"), "{told}");
    assert_eq!(
        cluster.nodes_running_on(0).len(),
        0,
        "its tasks are dead before it is"
    );
    cluster.wait_untended("its tasks to run elsewhere", |cluster| {
        let elsewhere = cluster.nodes_running_on(2);
        cut_off.is_subset(&elsewhere).then_some(())
    });
    cluster.set_link(0, &LinkEffect::GOOD);
    cluster.wait_healthy(3);
    cluster.stage.release();
    cluster.finish();
}

#[derive(Clone, Copy)]
enum Directions {
    Both,
    ToWorker,
    ToScheduler,
}

#[test]
fn a_partition_longer_than_the_loss_time_moves_the_tasks() {
    cut_off("a partition longer than the loss time", Directions::Both);
}

#[test]
fn a_worker_that_hears_nothing_ends_itself_although_it_is_heard() {
    cut_off("a worker that hears nothing", Directions::ToWorker);
}

#[test]
fn a_worker_that_is_not_heard_ends_itself_although_it_hears() {
    cut_off("a worker that is not heard", Directions::ToScheduler);
}

#[test]
fn a_flapping_partition_ends_in_all_done() {
    let test = "a flapping partition";
    // Enough tasks for all rounds on most machines.
    let tasks = 160;
    let Some(mut cluster) = Cluster::start(test, 3, tasks, SHORT, LossTime::Least) else {
        return;
    };
    cluster.add_workers(3);
    for round in 0..8 {
        let worker = round % 3;
        cluster.set_link(worker, &LinkEffect::CUT);
        let before = cluster.network.packets().lost;
        // A few packets a round: sometimes within a call, sometimes for several heartbeats.
        let packets = 2 << (round % 4);
        cluster.wait("packets to be lost", |cluster| {
            (cluster.network.packets().lost >= before + packets).then_some(())
        });
        cluster.set_link(worker, &LinkEffect::GOOD);
        let finished = cluster.stage.records().finished();
        cluster.wait("another task to end", |cluster| {
            let now = cluster.stage.records().finished();
            (now > finished || now >= tasks).then_some(())
        });
    }
    cluster.finish();
}

#[test]
fn a_scheduler_killed_during_a_short_partition_waits_for_the_worker_it_cannot_hear() {
    let test = "a scheduler killed during a short partition";
    let Some(mut cluster) = Cluster::start(test, 2, 8, SHORT, LossTime::Long) else {
        return;
    };
    cluster.stage.hold();
    cluster.add_workers(2);
    cluster.wait_running(0, 2);
    cluster.wait_running(1, 2);
    cluster.set_link(0, &LinkEffect::CUT);
    cluster.restart_scheduler();
    cluster.wait_state("w1", "healthy");
    let status = cluster.status().expect("the scheduler answers");
    let why = status["initial_wait"].as_str().unwrap_or_default();
    assert!(why.contains("`w0`"), "{why}");
    cluster.set_link(0, &LinkEffect::GOOD);
    cluster.stage.release();
    cluster.wait_all_done();
    assert_nothing_ran_again(&cluster);
    let status = cluster.status().expect("the scheduler answers");
    let why = status["wait_ended"].as_str().unwrap_or_default();
    assert!(!why.contains("safe wait"), "it ended because {why}");
    cluster.finish();
}

#[test]
fn a_scheduler_killed_during_a_long_partition_runs_the_tasks_elsewhere() {
    let test = "a scheduler killed during a long partition";
    let Some(mut cluster) = Cluster::start(test, 3, 4, SHORT, LossTime::Least) else {
        return;
    };
    cluster.stage.hold();
    cluster.add_workers(2);
    cluster.wait_running(0, 2);
    cluster.wait_running(1, 2);
    let cut_off = cluster.nodes_running_on(0);
    cluster.set_link(0, &LinkEffect::CUT);
    cluster.restart_scheduler();
    cluster.add_worker("heir");
    assert_eq!(cluster.wait_end(0).code(), SUICIDE);
    cluster.wait_untended("its tasks to run elsewhere", |cluster| {
        let elsewhere = cluster.nodes_running_on(2);
        cut_off.is_subset(&elsewhere).then_some(())
    });
    cluster.set_link(0, &LinkEffect::GOOD);
    cluster.stage.release();
    cluster.finish();
}

#[test]
fn a_scheduler_that_is_stopped_for_a_while_goes_on() {
    let test = "a scheduler that is stopped for a while";
    let Some(mut cluster) = Cluster::start(test, 2, 16, SHORT, LossTime::Long) else {
        return;
    };
    cluster.add_workers(2);
    cluster.wait_started(4);
    cluster.scheduler().signal_program(Signal::SIGSTOP);
    cluster.wait_untended("what runs to end", |cluster| {
        let records = cluster.stage.records();
        (records.finished() == records.runs.len()).then_some(())
    });
    cluster.scheduler().signal_program(Signal::SIGCONT);
    cluster.wait_all_done();
    assert_nothing_ran_again(&cluster);
    cluster.finish();
}

#[test]
fn a_scheduler_that_is_stopped_for_longer_than_everything_goes_on_with_new_workers() {
    let test = "a scheduler that is stopped for longer than everything";
    let Some(mut cluster) = Cluster::start(test, 2, 12, SHORT, LossTime::Least) else {
        return;
    };
    cluster.stage.hold();
    cluster.add_workers(2);
    cluster.wait_running(0, 2);
    cluster.wait_running(1, 2);
    cluster.scheduler().signal_program(Signal::SIGSTOP);
    for worker in 0..2 {
        assert_eq!(cluster.wait_end(worker).code(), SUICIDE);
    }
    assert_eq!(cluster.stage.alive(), Vec::<String>::new());
    cluster.stage.release();
    cluster.scheduler().signal_program(Signal::SIGCONT);
    cluster.finish();
}

#[test]
fn a_worker_that_is_stopped_for_a_while_goes_on() {
    let test = "a worker that is stopped for a while";
    let Some(mut cluster) = Cluster::start(test, 2, 24, SHORT, LossTime::Long) else {
        return;
    };
    cluster.add_workers(2);
    cluster.wait_started(4);
    cluster.worker(0).process.signal_program(Signal::SIGSTOP);
    cluster.wait_state("w0", "unhealthy");
    cluster.worker(0).process.signal_program(Signal::SIGCONT);
    cluster.wait_all_done();
    assert_eq!(cluster.tend(), 0, "no worker has ended");
    assert_nothing_ran_again(&cluster);
    cluster.finish();
}

#[test]
fn the_tasks_of_a_worker_that_is_stopped_for_long_are_dead_before_they_run_elsewhere() {
    let test = "a worker that is stopped for longer than its loss time";
    let Some(mut cluster) = Cluster::start(test, 3, 4, SHORT, LossTime::Least) else {
        return;
    };
    cluster.stage.hold();
    cluster.add_workers(2);
    cluster.wait_running(0, 2);
    cluster.wait_running(1, 2);
    let stopped = cluster.nodes_running_on(0);
    cluster.add_worker("heir");
    cluster.worker(0).process.signal_program(Signal::SIGSTOP);
    cluster.wait_untended("its tasks to run elsewhere", |cluster| {
        let elsewhere = cluster.nodes_running_on(2);
        stopped.is_subset(&elsewhere).then_some(())
    });
    // The keeper may have ended the worker already.
    if !cluster.has_ended(0) {
        cluster.worker(0).process.signal_program(Signal::SIGCONT);
    }
    assert!(!cluster.wait_end(0).success(), "it must not go on");
    cluster.stage.release();
    cluster.finish();
}

#[test]
fn restart_storms_lose_nothing() {
    let test = "restart storms";
    let Some(mut cluster) = Cluster::start(test, 4, 80, SHORT, LossTime::Least) else {
        return;
    };
    cluster.add_workers(4);
    for round in 0..4 {
        let started = cluster.stage.records().runs.len();
        cluster.wait_started(started + 4);
        cluster.restart_worker(0);
        cluster.restart_worker(1);
        cluster.restart_scheduler();
        cluster.restart_worker(2);
        cluster.restart_worker(3);
        if round % 2 == 0 {
            // Some workers restart twice, before the scheduler can have seen them all.
            cluster.restart_worker(0);
            cluster.restart_scheduler();
        }
    }
    cluster.finish();
}

#[test]
fn of_two_workers_of_one_shard_one_works_and_the_other_succeeds_it() {
    let test = "two workers of one shard";
    let Some(mut cluster) = Cluster::start(test, 2, 2, SHORT, LossTime::Least) else {
        return;
    };
    cluster.stage.hold();
    cluster.add_worker("twin");
    cluster.wait_running(0, 2);
    let first = cluster.nodes_running_on(0);
    cluster.add_worker("twin");
    let newcomer = &cluster.worker(1).process;
    newcomer.wait_for_output("holds shard `twin` and is not lost");
    assert_eq!(cluster.nodes_running_on(0), first, "the first one works on");
    assert_eq!(cluster.nodes_started_on(1).len(), 0);
    // The second worker asks again with each heartbeat, and is accepted when the first one is lost.
    cluster.set_link(0, &LinkEffect::CUT);
    cluster.wait("the second one to run the first one's tasks", |cluster| {
        first.is_subset(&cluster.nodes_running_on(1)).then_some(())
    });
    cluster.set_link(0, &LinkEffect::GOOD);
    cluster.stage.release();
    cluster.finish();
}

#[test]
fn links_that_lose_double_delay_and_reorder_break_nothing() {
    let test = "bad links";
    let Some(mut cluster) = Cluster::start(test, 3, 90, SHORT, LossTime::Least) else {
        return;
    };
    let bad = LinkEffect {
        loss: Percent(5),
        doubling: Percent(5),
        delay: Duration::ZERO..=Duration::from_millis(40),
    };
    for number in 1..4 {
        let (here, there) = (cluster.network.host(0), cluster.network.host(number));
        cluster.network.set(here, there, &bad);
    }
    for number in 0..3 {
        cluster.add_worker(&format!("w{number}"));
    }
    cluster.wait_all_done();
    let packets = cluster.network.packets();
    assert!(
        packets.lost > 10 && packets.doubled > 10 && packets.reordered > 10,
        "{packets:?}"
    );
    cluster.finish();
}
