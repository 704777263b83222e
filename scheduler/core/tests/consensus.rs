//! Tests of worker sets, message by message: when a worker becomes HEALTHY, and when consensus ends the initial wait.

mod support;

use std::time::Duration;

use brasserie_common::{
    CallOutcome, Health, ReportedStatus, SchedulerId, SetDigest, Standing, WorkerDescription,
    WorkerId, WorkerSetHash, WorkerSetId,
};
use brasserie_scheduler_core::{Call, CallReply, Durable, Options};

use support::{SETTLE, Script, listed, one_job, options, worker};

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn restarted() -> Options {
    Options {
        new_cluster: false,
        ..options()
    }
}

/// Starts a new scheduler for the same workers, on an empty directory.
fn on_an_empty_directory(s: Script) -> Script {
    // The start is a second later, because two schedulers of one seed would otherwise draw the same id.
    let mut s = Script::at(restarted(), Durable::default(), s.now + secs(1));
    s.load(one_job(60, ""));
    s
}

fn many(n: usize) -> Vec<WorkerDescription> {
    (0..n)
        .map(|i| {
            let mut w = worker(&format!("w{i:02}"), i as i32, 10 + i as i64);
            w.usable.cpu_cores = 1.0;
            w
        })
        .collect()
}

/// A set id of another scheduler with these members.
fn former(members: &[&WorkerDescription], standing: Standing) -> WorkerSetId {
    let mut hash = WorkerSetHash::NOBODY;
    for member in members {
        hash.add(member.id);
    }
    WorkerSetId {
        scheduler: SchedulerId::new(5, 5),
        version: 3,
        hash,
        standing,
    }
}

/// Sends the worker's first heartbeat here, and answers the fetch of its running tasks.
fn come(s: &mut Script, w: &WorkerDescription, set: WorkerSetId) {
    s.heartbeat(w, set).expect("a free shard");
    s.answer_fetch(Vec::new());
}

fn health(s: &mut Script, w: &WorkerDescription) -> Health {
    let status = s.status();
    let found = status.workers.iter().find(|other| other.id == w.id);
    found.expect("a known worker").health
}

fn wait(s: &mut Script) -> String {
    s.status().initial_wait.expect("it waits")
}

/// Plays workers that answer every healthcheck and return each new set id at once, until no call is open. Returns the number of heartbeats.
fn settle_down(s: &mut Script, workers: &[WorkerDescription]) -> usize {
    let mut heartbeats = 0;
    while let Some((call, what)) = s.take_call(|_| true) {
        match what {
            Call::GetRunningTasks { .. } => {
                s.complete(call, CallOutcome::Done(CallReply::RunningTasks(Vec::new())));
            }
            Call::Healthcheck(run) => {
                let worker = run.worker;
                let w = workers
                    .iter()
                    .find(|w| w.id == worker)
                    .expect("one of these");
                s.complete(call, CallOutcome::Done(CallReply::Empty));
                let result = s.update(w, &run.task, ReportedStatus::done()).1;
                assert_eq!(result, Ok(()));
                let (_, before) = s.told[&worker];
                heartbeats += 1;
                if s.echo(w).worker_set != before {
                    s.echo(w);
                    heartbeats += 1;
                }
            }
            _ => s.complete(call, CallOutcome::Done(CallReply::Empty)),
        }
    }
    heartbeats
}

/// Lets time pass while known workers send their heartbeats.
fn live_on(s: &mut Script, workers: &[WorkerDescription], time: Duration) {
    let end = s.now + time;
    while s.now < end {
        s.advance(secs(10).min(end.since(s.now)));
        for w in workers {
            s.echo(w);
        }
        settle_down(s, workers);
    }
}

#[test]
fn achieve_and_maintain_worker_set_consensus() {
    let (a, b, impostor) = (worker("a", 1, 10), worker("b", 2, 11), worker("c", 3, 12));
    let set = former(&[&a, &b], Standing::Settled);
    let mut s = Script::new(restarted(), Durable::default());
    s.load(one_job(1, ""));
    come(&mut s, &a, set);
    assert!(
        wait(&mut s).contains("1 of 2 workers of the former set are here"),
        "{}",
        wait(&mut s)
    );
    come(&mut s, &impostor, WorkerSetId::default());
    come(&mut s, &b, set);
    // Whether later echoes name this scheduler does not matter: consensus uses the sets that workers arrive with.
    s.echo(&a);
    s.heartbeat(&b, former(&[&b], Standing::Settled)).unwrap();
    s.advance(options().timeouts.kill_margin());
    assert!(wait(&mut s).contains("never had a scheduler"));
    s.heartbeat_with(&impostor, WorkerSetId::default(), true)
        .unwrap();
    let status = s.status();
    assert_eq!(status.initial_wait, None);
    assert_eq!(
        status.wait_ended.as_deref(),
        Some("consensus: exactly the last set of an earlier scheduler is here, 2 workers")
    );
    // The wait does not begin again for a later worker.
    come(&mut s, &worker("d", 4, 13), WorkerSetId::default());
    assert_eq!(s.status().initial_wait, None);
}

#[test]
fn no_consensus_with_empty_worker_set_id() {
    let mut s = Script::new(restarted(), Durable::default());
    s.load(one_job(1, ""));
    let a = worker("a", 1, 10);
    come(&mut s, &a, WorkerSetId::default());
    s.advance(options().timeouts.kill_margin() + secs(1));
    assert!(wait(&mut s).contains("never had a scheduler"));
    // An empty set of another scheduler does not count either.
    let mut s = Script::new(restarted(), Durable::default());
    s.load(one_job(1, ""));
    come(&mut s, &a, former(&[], Standing::Settled));
    s.advance(options().timeouts.kill_margin() + secs(1));
    assert!(wait(&mut s).contains("not the ones of the set"));
}

#[test]
fn no_consensus_without_workers() {
    let mut s = Script::new(restarted(), Durable::default());
    s.load(one_job(1, ""));
    s.advance(options().timeouts.kill_margin() + secs(1));
    assert!(wait(&mut s).contains("none has come yet"));
}

#[test]
fn history_and_worker_set_id_propagation() {
    let mut s = Script::with_config(one_job(1, ""));
    let w = many(5);
    for w in &w[..3] {
        s.join(w);
    }
    // Worker 3 arrives and is lost before another worker receives a set with it; then 4 arrives.
    come(&mut s, &w[3], WorkerSetId::default());
    s.heartbeat_with(&w[3], WorkerSetId::default(), true)
        .unwrap();
    come(&mut s, &w[4], WorkerSetId::default());
    s.answer_healthcheck(&w[4]);
    s.calls.clear();
    s.echo(&w[4]);
    assert_eq!(health(&mut s, &w[4]), Health::Unhealthy);
    // Each of workers 0, 1 and 2 is in every set that the others may hold.
    s.echo(&w[1]);
    assert_eq!(health(&mut s, &w[4]), Health::Unhealthy);
    s.echo(&w[1]);
    assert_eq!(health(&mut s, &w[4]), Health::Healthy);
    // Worker 1 is lost. Its successor must be known again, although 0 and 2 have sent nothing since.
    let successor = worker("w01", 1, 100);
    come(&mut s, &successor, WorkerSetId::default());
    s.answer_healthcheck(&successor);
    s.calls.clear();
    s.echo(&successor);
    assert_eq!(health(&mut s, &successor), Health::Unhealthy);
    s.echo(&w[4]);
    s.echo(&w[4]);
    assert_eq!(health(&mut s, &successor), Health::Healthy);
}

#[test]
fn a_worker_joins_a_running_pool_within_a_few_round_trips() {
    let mut s = Script::with_config(one_job(1, ""));
    let mut pool = many(20);
    for w in &pool {
        s.join(w);
    }
    settle_down(&mut s, &pool);
    s.advance(secs(2));
    settle_down(&mut s, &pool);
    let newcomer = worker("new", 99, 900);
    pool.push(newcomer.clone());
    s.heartbeat(&newcomer, WorkerSetId::default()).unwrap();
    let heartbeats = settle_down(&mut s, &pool);
    assert_eq!(health(&mut s, &newcomer), Health::Healthy);
    assert!(heartbeats <= 8, "{heartbeats}");
    // The newcomer is notified without delay.
    s.advance(Duration::from_millis(200));
    settle_down(&mut s, &pool);
    assert_eq!(s.echo(&newcomer).worker_state, Health::Healthy);
}

#[test]
fn those_that_do_not_react_are_asked_in_turn_and_not_too_often() {
    let mut s = Script::with_config(one_job(1, ""));
    let pool = many(4);
    for w in &pool {
        s.join(w);
    }
    s.calls.clear();
    s.advance(secs(2));
    s.calls.clear();
    let newcomer = worker("new", 99, 900);
    come(&mut s, &newcomer, WorkerSetId::default());
    s.answer_healthcheck(&newcomer);
    s.calls.clear();
    s.echo(&newcomer);
    let asked = |s: &mut Script| {
        let mut all: Vec<WorkerId> = Vec::new();
        while let Some((_, call)) = s.take_call(|_| true) {
            if let Call::Healthcheck(run) = call {
                all.push(run.worker);
            }
        }
        all
    };
    let ids = |workers: &[WorkerDescription]| workers.iter().map(|w| w.id).collect::<Vec<_>>();
    assert_eq!(asked(&mut s), ids(&pool[..2]));
    s.advance(Duration::from_millis(100));
    assert_eq!(asked(&mut s), ids(&pool[2..]));
    s.advance(Duration::from_millis(800));
    assert_eq!(asked(&mut s), []);
    s.advance(secs(10));
    let rest = asked(&mut s).len();
    assert!((30..=44).contains(&rest), "each once a second: {rest}");
}

#[test]
fn a_pool_whose_members_come_and_go_takes_newcomers() {
    let mut s = Script::with_config(one_job(1, ""));
    let mut pool = many(10);
    for w in &pool {
        s.join(w);
    }
    for round in 0..30 {
        // Thirty workers crash right after their first heartbeat, each on its own shard again and again.
        for i in 0..30 {
            let crashing = worker(&format!("x{i}"), 500 + i, 1000 + round);
            s.heartbeat(&crashing, WorkerSetId::default()).unwrap();
            s.calls.clear();
        }
        if round % 10 == 0 {
            let newcomer = worker(&format!("new{round}"), 900 + round as i32, 900 + round);
            s.heartbeat(&newcomer, WorkerSetId::default()).unwrap();
            pool.push(newcomer);
        }
        s.advance(secs(1));
        let others = |call: &Call| {
            matches!(call, Call::Healthcheck(_) | Call::GetRunningTasks { .. })
                && !pool.iter().any(|w| w.id == call.worker())
        };
        s.calls.retain(|(_, _, call)| !others(call));
        settle_down(&mut s, &pool);
        for w in &pool {
            assert_eq!(
                health(&mut s, w),
                Health::Healthy,
                "round {round}: {}",
                w.shard
            );
        }
    }
}

#[test]
fn r09_consensus_never_overrides_a_trusted_record_that_misses_someone() {
    let mut s = Script::with_config(one_job(1, ""));
    let (a, b) = (worker("a", 1, 10), worker("b", 2, 11));
    s.join(&a);
    s.join(&b);
    let id = s.scheduler.id();
    let mut s = s.restart(restarted());
    s.load(one_job(1, ""));
    let mut set = former(&[&a], Standing::Settled);
    set.scheduler = id;
    come(&mut s, &a, set);
    s.advance(options().timeouts.kill_margin() + secs(1));
    assert!(wait(&mut s).contains("`b`"), "b is recorded");
    assert!(
        !wait(&mut s).contains("former set"),
        "nothing is said of a way that is none"
    );
    // The same workers return with the same ids, to a directory without a record.
    let mut s = on_an_empty_directory(s);
    come(&mut s, &a, set);
    s.advance(options().timeouts.kill_margin());
    assert!(s.status().wait_ended.unwrap().starts_with("consensus"));
}

#[test]
fn r09_consensus_serves_where_the_record_is_stale_and_misses_nobody() {
    let mut s = Script::with_config(one_job(1, ""));
    let (a, b) = (worker("a", 1, 10), worker("b", 2, 11));
    s.join(&b);
    // The record is an old backup: it has b, but neither a nor the scheduler that came later.
    let mut s = s.restart(restarted());
    s.load(one_job(1, ""));
    let set = former(&[&a, &b], Standing::Settled);
    come(&mut s, &a, set);
    assert!(wait(&mut s).contains("the 1 worker that this directory remembers has come back too"));
    come(&mut s, &b, set);
    assert!(wait(&mut s).contains("All 2 workers of the former set are here: it ends in 66 s"));
    s.advance(options().timeouts.kill_margin());
    assert!(s.status().wait_ended.unwrap().starts_with("consensus"));
}

/// A heartbeat of a stranger is enough to make the record stale, so this must not drop the workers in it.
#[test]
fn r09_consensus_without_somebody_of_a_stale_record_ends_no_wait() {
    let mut s = Script::with_config(one_job(1, ""));
    let (a, b) = (worker("a", 1, 10), worker("b", 2, 11));
    s.join(&b);
    let mut s = s.restart(restarted());
    s.load(one_job(1, ""));
    come(&mut s, &a, former(&[&a], Standing::Settled));
    s.advance(options().timeouts.kill_margin() + secs(1));
    assert!(s.status().initial_wait.is_some());
    // Its successor shows that b is dead.
    come(&mut s, &worker("b", 2, 12), WorkerSetId::default());
    s.heartbeat_with(&worker("b", 2, 12), WorkerSetId::default(), true)
        .unwrap();
    assert!(s.status().wait_ended.unwrap().starts_with("consensus"));
}

#[test]
fn r10_ids_given_during_a_wait_do_not_count_for_consensus() {
    let (a, b) = (worker("a", 1, 10), worker("b", 2, 11));
    // An earlier scheduler waits and knows only a.
    let mut s = Script::new(restarted(), Durable::default());
    s.load(one_job(1, ""));
    come(&mut s, &a, former(&[&a, &b], Standing::Settled));
    let (_, unsettled) = s.told[&a.id];
    assert_eq!(unsettled.standing, Standing::Unsettled);
    let mut s = on_an_empty_directory(s);
    come(&mut s, &a, unsettled);
    s.advance(options().timeouts.kill_margin() + secs(1));
    assert!(wait(&mut s).contains("was still waiting"));
    // A scheduler that has left its wait says so, with another version of the set.
    let mut s = Script::new(restarted(), Durable::default());
    s.load(one_job(1, ""));
    come(&mut s, &a, WorkerSetId::default());
    let before = s.echo(&a).worker_set;
    settle_down(&mut s, std::slice::from_ref(&a));
    live_on(
        &mut s,
        std::slice::from_ref(&a),
        options().timeouts.min_safe_wait(),
    );
    let after = s.echo(&a).worker_set;
    assert_eq!(
        (after.standing, after.version),
        (Standing::Settled, before.version + 1)
    );
    assert_eq!(after.hash, before.hash);
}

#[test]
fn r10_a_scheduler_that_waits_again_says_so() {
    let mut s = Script::with_config(one_job(1, ""));
    let a = worker("a", 1, 10);
    s.join(&a);
    let before = s.echo(&a).worker_set;
    assert_eq!(before.standing, Standing::Settled);
    let b = worker("b", 2, 11);
    s.heartbeat(&b, former(&[&b], Standing::Settled)).unwrap();
    assert!(s.status().initial_wait.is_some());
    assert_eq!(s.echo(&a).worker_set.standing, Standing::Unsettled);
}

#[test]
fn r11_consensus_ends_no_wait_before_the_kill_margin() {
    let a = worker("a", 1, 10);
    let mut s = Script::new(restarted(), Durable::default());
    s.load(one_job(1, ""));
    come(&mut s, &a, former(&[&a], Standing::Settled));
    let margin = options().timeouts.kill_margin();
    assert_eq!(margin, secs(66));
    let start = s.now;
    s.advance(margin - Duration::from_nanos(1));
    assert!(wait(&mut s).contains("All 1 workers of the former set are here"));
    // The scheduler wakes by itself.
    assert_eq!(s.scheduler.poll_timeout(), Some(start + margin));
    s.advance(Duration::from_nanos(1));
    assert!(s.status().wait_ended.unwrap().starts_with("consensus"));
}

#[test]
fn consensus_waits_for_running_tasks_to_be_known() {
    let a = worker("a", 1, 10);
    let mut s = Script::new(restarted(), Durable::default());
    s.load(one_job(1, ""));
    s.advance(options().timeouts.kill_margin());
    s.heartbeat(&a, former(&[&a], Standing::Settled)).unwrap();
    assert!(wait(&mut s).contains("reported running tasks"));
    let running = listed("a", "n0", brasserie_common::InvocationId::new(3, 3));
    s.answer_fetch(vec![running]);
    let status = s.status();
    assert_eq!(status.initial_wait, None);
    assert_eq!(status.jobs[0].counts.running, 1);
    assert!(s.starts().is_empty());
}

#[test]
fn the_digest_tells_sets_apart_that_the_sums_do_not() {
    let a = worker("a", 1, 10);
    let mut set = former(&[&a], Standing::Settled);
    set.hash.digest = Some(SetDigest::from_be_bytes([1; 32]));
    let mut s = Script::new(restarted(), Durable::default());
    s.load(one_job(1, ""));
    come(&mut s, &a, set);
    s.advance(options().timeouts.kill_margin() + secs(1));
    assert!(wait(&mut s).contains("not the ones of the set"));
}

#[test]
fn r12_first_health_is_withheld_while_somebody_could_end_a_wait_without_the_newcomer() {
    let mut s = Script::with_config(one_job(4, ""));
    let (a, b) = (worker("a", 1, 10), worker("b", 2, 11));
    s.join(&a);
    s.calls.clear();
    let alone = s.told[&a.id].1;
    // Worker b lacks only that a knows of it.
    come(&mut s, &b, WorkerSetId::default());
    s.answer_healthcheck(&b);
    for _ in 0..3 {
        assert_eq!(s.echo(&b).worker_state, Health::Unhealthy);
    }
    s.advance(SETTLE);
    assert!(s.starts().iter().all(|task| task.shard != b.shard));
    // If the scheduler and its directory were lost now, a alone would end the wait.
    let mut other = Script::at(restarted(), Durable::default(), s.now + secs(1));
    other.load(one_job(1, ""));
    come(&mut other, &a, alone);
    other.advance(options().timeouts.kill_margin());
    assert!(other.status().wait_ended.unwrap().starts_with("consensus"));
    // A worker that waits for nothing else is not lost because of this.
    for _ in 0..20 {
        s.heartbeat(&a, alone).unwrap();
        s.echo(&b);
        s.advance(secs(10));
        while let Some((call, what)) = s.take_call(|c| matches!(c, Call::Healthcheck(_))) {
            let Call::Healthcheck(run) = what else {
                panic!("a healthcheck")
            };
            let w = if run.worker == a.id { &a } else { &b };
            s.complete(call, CallOutcome::Done(CallReply::Empty));
            s.update(w, &run.task, ReportedStatus::done()).1.unwrap();
        }
    }
    assert_eq!(health(&mut s, &b), Health::Unhealthy);
    // Worker a reports that it knows b.
    s.echo(&a);
    assert_eq!(health(&mut s, &b), Health::Healthy);
}

#[test]
fn fifty_workers_on_an_empty_directory_leave_by_consensus_right_after_the_kill_margin() {
    let mut s = Script::with_config(one_job(60, ""));
    let pool = many(50);
    for w in &pool {
        s.join(w);
    }
    // All workers hold the same id after one round of heartbeats.
    for w in &pool {
        s.echo(w);
    }
    let told = s.told.clone();
    let mut s = on_an_empty_directory(s);
    let start = s.now;
    for (i, w) in pool.iter().enumerate() {
        let (_, set) = told[&w.id];
        s.heartbeat(w, set).unwrap();
        settle_down(&mut s, &pool);
        let expected = format!("{} of 50 workers of the former set are here", i + 1);
        if i < 49 {
            assert!(wait(&mut s).contains(&expected), "{}", wait(&mut s));
        }
    }
    assert!(wait(&mut s).contains("All 50 workers of the former set are here"));
    let margin = options().timeouts.kill_margin();
    live_on(&mut s, &pool, margin - secs(6));
    assert!(s.status().initial_wait.is_some() && s.starts().is_empty());
    let rest = (start + margin).since(s.now);
    s.advance(rest);
    assert!(s.status().wait_ended.unwrap().starts_with("consensus"));
    assert_eq!(s.now, start + margin);
    s.advance(SETTLE);
    assert_eq!(s.starts().len(), 50, "at once, on every worker");
    let (_, first, _) = s.take_start();
    assert!(pool.iter().any(|w| w.shard == first.shard));
}

#[test]
fn who_was_healthy_in_the_wait_gets_nothing_while_a_former_set_could_do_without_it() {
    let mut s = Script::new(restarted(), Durable::default());
    s.load(one_job(2, ""));
    let (a, b) = (worker("a", 1, 10), worker("b", 2, 11));
    s.join(&a);
    assert_eq!(health(&mut s, &a), Health::Healthy);
    // Worker b arrives late with a set of only itself, and receives no answer.
    let alone = std::slice::from_ref(&a);
    live_on(&mut s, alone, options().timeouts.min_safe_wait() - secs(10));
    let set = former(&[&b], Standing::Settled);
    s.heartbeat(&b, set).unwrap();
    s.answer_fetch(Vec::new());
    s.answer_healthcheck(&b);
    s.heartbeat(&b, set).unwrap();
    s.calls.clear();
    s.advance(secs(10));
    assert_eq!(
        s.status().wait_ended.as_deref(),
        Some("the safe wait is over")
    );
    s.echo(&a);
    s.advance(SETTLE);
    assert_eq!(health(&mut s, &a), Health::Healthy);
    assert!(s.starts().is_empty());
    // Worker b has received an answer.
    s.echo(&b);
    s.advance(SETTLE);
    assert!(!s.starts().is_empty());
}

#[test]
fn wrong_echoes_are_counted_and_shown() {
    let mut s = Script::with_config(one_job(1, ""));
    let a = worker("a", 1, 10);
    s.join(&a);
    let (_, known) = s.told[&a.id];
    let mut same_version = known;
    same_version.hash.num_workers = 7;
    let never_given = WorkerSetId {
        version: known.version + 5,
        ..known
    };
    for wrong in [same_version, never_given] {
        s.heartbeat(&a, wrong).unwrap();
    }
    assert_eq!(health(&mut s, &a), Health::Healthy);
    let errors = s.status().errors.join("\n");
    assert!(
        errors.contains("2 heartbeats named a worker set that the worker was never given"),
        "{errors}"
    );
    // A lost worker may name any set.
    s.advance(secs(300));
    assert_eq!(health(&mut s, &a), Health::MustDie);
    for wrong in [known, same_version, never_given] {
        let answer = s.heartbeat(&a, wrong).unwrap();
        assert_eq!(answer.worker_state, Health::MustDie);
    }
}

#[test]
fn a_startup_wait_that_is_too_short_is_shown_while_it_matters() {
    let warning = |wait: u64| {
        let mut s = Script::new(
            Options {
                startup_wait: Some(secs(wait)),
                ..restarted()
            },
            Durable::default(),
        );
        s.load(one_job(1, ""));
        let first = s.status().errors.join("\n");
        s.advance(options().timeouts.min_safe_wait());
        assert_eq!(s.status().errors, [] as [String; 0]);
        first
    };
    let (gap, safe) = (
        options().timeouts.max_healthcheck_gap().as_secs(),
        options().timeouts.min_safe_wait().as_secs(),
    );
    assert!(warning(gap - 1).contains("every healthy worker shows itself"));
    assert!(warning(gap).contains("shorter than the safe wait"));
    assert!(warning(safe - 1).contains("shorter than the safe wait"));
    assert_eq!(warning(safe), "");
}

#[test]
fn an_operators_wait_is_not_cut_short_by_consensus() {
    let a = worker("a", 1, 10);
    let long = options().timeouts.min_safe_wait() * 2;
    let mut s = Script::new(
        Options {
            startup_wait: Some(long),
            ..restarted()
        },
        Durable::default(),
    );
    s.load(one_job(1, ""));
    come(&mut s, &a, former(&[&a], Standing::Settled));
    s.advance(options().timeouts.kill_margin() + secs(1));
    assert!(s.status().initial_wait.is_some());
    assert!(!wait(&mut s).contains("former set"));
}

#[test]
fn a_new_worker_names_the_silent_ones_for_which_it_waits() {
    let mut s = Script::with_config(one_job(1, ""));
    s.join(&worker("a", 1, 100));
    s.advance(Duration::from_secs(90));
    let b = worker("b", 2, 100);
    s.join(&b);
    s.echo(&b);
    let status = s.status().workers;
    let new = status
        .iter()
        .find(|one| one.id == b.id)
        .expect("it is here");
    assert_ne!(new.health, Health::Healthy);
    let why = new.waits_for.as_deref().expect("it waits");
    let expected = "set with it. It waits for silent workers (`a`), until they are lost, in ";
    assert!(why.contains(expected), "{why}");
}
