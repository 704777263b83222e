//! Tests of what a user would notice, one thing in each test.

use std::sync::Arc;

use brasserie_common::resources::{NodeResources, ResourceAmount};
use brasserie_common::{JobId, NodeId, StatusBits, Time};
use brasserie_common_config::{
    Enforcement, NodeOrder, PhysicalKind, PhysicalResource, ResourceId, ResourceLimit,
    SchedulerPolicy, WorkerSelector,
};

use super::world::*;
use crate::{
    AdoptOutcome, Eligibility, Engine, HoldBack, NodeTableBuilder, Placement, Restart, Row, Task,
    TaskState, WorkerIndex,
};

const T0: Time = Time::ZERO;

#[test]
fn a_finished_task_frees_its_slots_and_the_next_starts() {
    let resources = vec![resource("disk", HOST, 1, 1)];
    let (mut engine, worker) = engine(
        config(resources, vec![job("j")]),
        &[("h1", &["a", "b"]), ("h2", &["c"])],
    );
    let started = place_all(&mut engine, T0);
    assert_eq!(names(&engine, &started), ["j a", "j c"]);
    assert_eq!(started[0].worker, worker);
    assert!(engine.is_running(started[0].task));
    end(&mut engine, T0, started[1].task, StatusBits::DONE);
    assert_eq!(place_all(&mut engine, T0), []);
    end(&mut engine, T0, started[0].task, StatusBits::DONE);
    let next = place_all(&mut engine, T0);
    assert_eq!(names(&engine, &next), ["j b"]);
}

#[test]
fn a_task_that_never_began_frees_its_slots_and_is_as_it_was() {
    let resources = vec![resource("disk", HOST, 1, 1)];
    let (mut engine, _) = engine(config(resources, vec![job("j")]), &[("h1", &["a", "b"])]);
    let started = place_all(&mut engine, T0);
    assert_eq!(names(&engine, &started), ["j a"]);
    let (a, at_once) = (started[0].task, Restart::AtOnce);
    engine.never_began(T0, a, Some(seconds(5)), at_once);
    assert_eq!(engine.previous_status(a), None);
    let counts = engine.counts(a.job);
    assert_eq!((counts.running, counts.error), (0, 0));
    let started = place_all(&mut engine, T0);
    assert_eq!(names(&engine, &started), ["j b"], "a waits");
    // The task keeps its status.
    end(&mut engine, T0, started[0].task, StatusBits::INCOMPLETE);
    let again = place_all(&mut engine, T0);
    assert_eq!(names(&engine, &again), ["j b"]);
    engine.never_began(T0, again[0].task, None, Restart::HeldUntilReleased);
    let status = engine.previous_status(again[0].task);
    assert_eq!(status.map(|s| s.bits), Some(StatusBits::INCOMPLETE));
    assert_eq!(place_all(&mut engine, T0), [], "b is held");
    engine.release(T0, again[0].task);
    let again = place_all(&mut engine, T0);
    assert_eq!(names(&engine, &again), ["j b"]);
    engine.never_began(T0, again[0].task, Some(seconds(9)), at_once);
    engine.handle_timeout(seconds(5));
    let again = place_all(&mut engine, seconds(5));
    assert_eq!(names(&engine, &again), ["j a"]);
}

#[test]
fn round_robin_keeps_its_cursor_across_events() {
    let (mut engine, _) = engine(
        config(
            vec![resource("slots", WORKER, 1, 1)],
            vec![job("j1"), job("j2")],
        ),
        &[("h1", &["a", "b"])],
    );
    let mut order = Vec::new();
    while let Some(placement) = engine.place(T0) {
        order.extend(names(&engine, &[placement]));
        assert_eq!(engine.place(T0), None, "one slot");
        end(&mut engine, T0, placement.task, StatusBits::DONE);
    }
    assert_eq!(order, ["j1 a", "j2 a", "j1 b", "j2 b"]);
}

#[test]
fn a_woken_task_that_waits_elsewhere_passes_the_slot_on() {
    // `bound` is below host h1, whose slot is freed, and needs a worker on host h1, which has none.
    let mut bound = job("bound");
    bound.level_for_host_placement = Some(HOST);
    let resources = vec![
        resource("disk", HOST, 1, 1),
        resource("slots", WORKER, 1, 9),
    ];
    let (mut engine, _) = engine(
        config(resources, vec![bound, job("free")]),
        &[("h1", &["a", "b"])],
    );
    let started = place_all(&mut engine, T0);
    assert_eq!(names(&engine, &started), ["free a"]);
    end(&mut engine, T0, started[0].task, StatusBits::DONE);
    let started = place_all(&mut engine, T0);
    assert_eq!(names(&engine, &started), ["free b"]);
    let local = engine.upsert_worker(&shard("w2"), on_host("h1"));
    engine.set_eligibility(local, Eligibility::Eligible);
    assert_eq!(place_all(&mut engine, T0), [], "the disk is taken");
    end(&mut engine, T0, started[0].task, StatusBits::DONE);
    let started = place_all(&mut engine, T0);
    assert_eq!(names(&engine, &started), ["bound a"]);
    assert_eq!(started[0].worker, local);
}

#[test]
fn a_dependent_starts_when_its_node_is_done_and_only_there() {
    let mut second = job("second");
    second.depends_on = vec![job_name("first")];
    let (mut engine, _) = engine(
        config(Vec::new(), vec![job("first"), second]),
        &[("h1", &["a", "b"])],
    );
    let first = place_all(&mut engine, T0);
    assert_eq!(names(&engine, &first), ["first a", "first b"]);
    end(&mut engine, T0, first[1].task, StatusBits::DONE);
    let next = place_all(&mut engine, T0);
    assert_eq!(names(&engine, &next), ["second b"]);
    end(&mut engine, T0, first[0].task, StatusBits::FAILED);
    assert_eq!(place_all(&mut engine, T0), []);
    let blocked = task(&mut engine, "second", "a");
    assert_eq!(engine.task_state(blocked), TaskState::Never);
    assert!(!engine.is_settled(blocked.job));
    end(&mut engine, T0, next[0].task, StatusBits::DONE);
    assert!(engine.is_settled(blocked.job));
    // An operator forgives the failure.
    engine.restate(
        T0,
        first[0].task,
        status(StatusBits::DONE),
        None,
        Restart::AtOnce,
    );
    let last = place_all(&mut engine, T0);
    assert_eq!(names(&engine, &last), ["second a"]);
}

#[test]
fn dependencies_on_themselves_or_on_nobody_never_run() {
    let mut jobs = ["a", "b", "c", "after"].map(job).to_vec();
    jobs[0].depends_on = vec![job_name("b")];
    jobs[1].depends_on = vec![job_name("a")];
    jobs[2].depends_on = vec![job_name("nobody")];
    jobs[3].depends_on = vec![job_name("a")];
    let (mut engine, _) = engine(config(Vec::new(), jobs), &[("h1", &["x"])]);
    assert_eq!(place_all(&mut engine, T0), []);
    for job in engine.jobs().collect::<Vec<_>>() {
        assert_eq!(engine.counts(job).never, 1);
        assert!(engine.is_settled(job));
    }
    assert_eq!(engine.problems().len(), 3);
    // One job of the cycle was done before the cycle existed, so the others can follow.
    let done = task(&mut engine, "a", "x");
    engine.load_status(T0, done, status(StatusBits::DONE), None);
    let started = place_all(&mut engine, T0);
    assert_eq!(names(&engine, &started), ["b x", "after x"]);
}

#[test]
fn a_backoff_ends_by_itself() {
    let (mut engine, _) = engine(config(Vec::new(), vec![job("j")]), &[("h1", &["a"])]);
    let placed = place_all(&mut engine, T0)[0];
    let bits = StatusBits::ERROR.with(StatusBits::USES_BACKOFF);
    let mut ended = status(bits);
    ended.backoff_seconds = 15;
    engine.end(T0, placed.task, ended, Some(seconds(15)), Restart::AtOnce);
    assert_eq!(engine.poll_timeout(), Some(seconds(15)));
    assert_eq!(engine.next_backoff_end(placed.task.job), Some(seconds(15)));
    assert_eq!(engine.counts(placed.task.job).in_backoff, 1);
    assert!(!engine.is_settled(placed.task.job));
    assert_eq!(engine.next_backoff(placed.task).seconds, 30);
    assert_eq!(place_all(&mut engine, seconds(14)), []);
    engine.handle_timeout(seconds(15));
    assert_eq!(engine.poll_timeout(), None);
    assert_eq!(engine.counts(placed.task.job).error, 1);
    assert_eq!(place_all(&mut engine, seconds(15)), [placed]);
}

#[test]
fn a_held_task_waits_for_its_release_and_others_do_not() {
    let (mut engine, _) = engine(
        config(vec![resource("slots", WORKER, 1, 1)], vec![job("j")]),
        &[("h1", &["a", "b"])],
    );
    let first = place_all(&mut engine, T0)[0];
    engine.end(
        T0,
        first.task,
        status(StatusBits::INCOMPLETE),
        None,
        Restart::HeldUntilReleased,
    );
    let second = place_all(&mut engine, T0);
    assert_eq!(names(&engine, &second), ["j b"]);
    end(&mut engine, T0, second[0].task, StatusBits::DONE);
    assert_eq!(place_all(&mut engine, T0), []);
    engine.release(T0, first.task);
    assert_eq!(place_all(&mut engine, T0), [first]);
}

#[test]
fn what_may_run_unseen_is_held_back() {
    let (mut engine, _) = engine(config(Vec::new(), vec![job("j")]), &[("h1", &["a", "b"])]);
    engine.hold_back_unknown(HoldBack::All, seconds(5));
    assert_eq!(engine.poll_timeout(), Some(seconds(5)));
    assert_eq!(place_all(&mut engine, seconds(4)), []);
    let b = task(&mut engine, "j", "b");
    engine.hold_back_unknown(HoldBack::Tasks(&[b]), seconds(9));
    // A wait that ends before the one already set changes nothing.
    engine.load_status(T0, b, status(StatusBits::ERROR), Some(seconds(6)));
    let at_five = place_all(&mut engine, seconds(5));
    assert_eq!(names(&engine, &at_five), ["j a"]);
    assert_eq!(place_all(&mut engine, seconds(8)), []);
    let at_nine = place_all(&mut engine, seconds(9));
    assert_eq!(names(&engine, &at_nine), ["j b"]);
}

#[test]
fn statuses_may_come_before_everything_else() {
    let mut engine = Engine::new(1);
    let done = task(&mut engine, "j", "a");
    engine.load_status(T0, done, status(StatusBits::DONE), None);
    let waiting = task(&mut engine, "j", "b");
    engine.load_status(T0, waiting, status(StatusBits::ERROR), Some(seconds(3)));
    let config = config(Vec::new(), vec![job("j")]);
    let table = nodes(&config, &[("h1", &["a", "b", "c"])]);
    assert_eq!(engine.place(T0), None);
    engine.apply_nodes(T0, Arc::new(table));
    engine.apply_config(T0, Arc::new(config));
    let worker = engine.upsert_worker(&shard("w1"), on_host("m1"));
    engine.set_eligibility(worker, Eligibility::Eligible);
    let started = place_all(&mut engine, T0);
    assert_eq!(names(&engine, &started), ["j c"]);
    let started = place_all(&mut engine, seconds(3));
    assert_eq!(names(&engine, &started), ["j b"]);
}

#[test]
fn running_tasks_keep_what_they_were_charged() {
    let start = config(vec![resource("disk", HOST, 2, 4)], vec![job("j")]);
    let (mut engine, _) = engine(start, &[("h1", &["a", "b", "c"])]);
    let started = place_all(&mut engine, T0);
    assert_eq!(started.len(), 2);
    let mut free = job("free");
    free.resources = vec![0];
    let shrunk = config(vec![resource("disk", HOST, 1, 3)], vec![job("j"), free]);
    engine.apply_config(T0, Arc::new(shrunk));
    assert_eq!(
        engine.problems(),
        [
            "4 of `disk` are taken on `h1`, which has 3; nothing that needs it starts there until running tasks end"
        ]
    );
    let zero = place_all(&mut engine, T0);
    assert_eq!(names(&engine, &zero), ["free a", "free b", "free c"]);
    end(&mut engine, T0, started[0].task, StatusBits::DONE);
    let next = place_all(&mut engine, T0);
    assert_eq!(names(&engine, &next), ["j c"], "2 of 3 were still taken");
    assert_eq!(engine.problems(), [] as [&str; 0]);
}

#[test]
fn charges_name_the_path_and_then_the_worker() {
    let resources = vec![
        resource("disk", HOST, 2, 4),
        resource("lock", DB, 1, 1),
        resource("slots", WORKER, 1, 9),
    ];
    let (mut engine, worker) = engine(config(resources, vec![job("j")]), &[("h1", &["a"])]);
    let placed = place_all(&mut engine, T0)[0];
    let on = |node: &str, name: &str, amount| NodeResources {
        node: node_name(node),
        resources: vec![ResourceAmount {
            name: name.to_owned(),
            amount,
        }],
    };
    let charges = [
        on("h1", "disk", 2),
        on("a", "lock", 1),
        on("w1", "slots", 1),
    ];
    assert_eq!(engine.charges(placed.task), charges);
    let path: Vec<_> = engine.path(placed.task);
    assert_eq!(path, ["root", "h1", "a"].map(node_name));
    // Another engine adopts the task from these charges.
    let (mut other, _) = self::engine(engine.config().unwrap().as_ref().clone(), &[("h1", &["a"])]);
    assert_eq!(
        other.adopt_running(placed.task, worker, &charges, (&[], None)),
        AdoptOutcome::Adopted
    );
    assert_eq!(other.charges(placed.task), charges);
    assert_eq!(
        other.adopt_running(placed.task, worker, &charges, (&[], None)),
        AdoptOutcome::AlreadyRunning(worker)
    );
    assert_eq!(place_all(&mut other, T0), []);
}

#[test]
fn foreign_charges_are_adopted_and_shown() {
    let (mut engine, worker) = engine(config(Vec::new(), vec![job("j")]), &[("h1", &["a"])]);
    let task = task(&mut engine, "gone", "nowhere");
    let charges = [NodeResources {
        node: node_name("h1"),
        resources: vec![ResourceAmount {
            name: "tape".to_owned(),
            amount: 7,
        }],
    }];
    let said = "gone on nowhere holds 7 of `tape` on `h1`, but no such resource is configured";
    assert_eq!(
        engine.adopt_running(task, worker, &charges, (&[], None)),
        AdoptOutcome::AdoptedWithUnknownCharges(vec![said.to_owned()])
    );
    assert_eq!(engine.problems(), [said]);
    assert_eq!(
        engine.adopt_running(
            Task {
                job: JobId(0),
                node: task.node
            },
            WorkerIndex(77),
            &charges,
            (&[], None)
        ),
        AdoptOutcome::UnknownWorker
    );
    end(&mut engine, T0, task, StatusBits::DONE);
    assert_eq!(engine.problems(), [] as [&str; 0]);
}

#[test]
fn ids_from_nowhere_do_nothing() {
    let (mut engine, _) = engine(config(Vec::new(), vec![job("j")]), &[("h1", &["a"])]);
    let nobody = Task {
        job: JobId(900),
        node: NodeId(900),
    };
    engine.load_status(T0, nobody, status(StatusBits::DONE), None);
    end(&mut engine, T0, nobody, StatusBits::DONE);
    engine.hold(nobody);
    engine.release(T0, nobody);
    engine.set_eligibility(WorkerIndex(900), Eligibility::Eligible);
    engine.remove_worker(WorkerIndex(900));
    assert_eq!(engine.job_name(nobody.job).as_str(), "");
    assert_eq!(engine.path(nobody).len(), 1);
    assert!(!engine.explain(T0, nobody).is_empty());
    assert_eq!(engine.task_state(nobody), TaskState::Disabled);
    assert_eq!(engine.histogram(nobody.job, 5), []);
    assert_eq!(engine.tasks(nobody.job).count(), 0);
    assert_eq!(place_all(&mut engine, T0).len(), 1);
}

#[test]
fn replicas_are_one_task_and_share_slots() {
    let resources = vec![resource("lock", HOST, 1, 1)];
    let config = config(resources, vec![job("j")]);
    let (mut engine, _) = engine(config, &[("h1", &["a", "x"]), ("h2", &["x", "b"])]);
    let started = place_all(&mut engine, T0);
    assert_eq!(names(&engine, &started), ["j a", "j x"]);
    assert_eq!(engine.path(started[1].task)[1].as_str(), "h2");
    assert_eq!(engine.counts(started[0].task.job).total, 3);
    end(&mut engine, T0, started[0].task, StatusBits::DONE);
    assert_eq!(place_all(&mut engine, T0), [], "x runs already");
    end(&mut engine, T0, started[1].task, StatusBits::DONE);
    let last = place_all(&mut engine, T0);
    assert_eq!(names(&engine, &last), ["j b"]);
}

#[test]
fn disabled_branches_and_avoided_nodes_do_not_run() {
    let mut picky = job("j");
    picky.filters.insert(DB, blacklist(&["b"]));
    let config = config(Vec::new(), vec![picky]);
    let mut builder = NodeTableBuilder::new("root", &config);
    let on = builder.add_child(Row::ROOT, "on", true).unwrap();
    let off = builder.add_child(Row::ROOT, "off", false).unwrap();
    for (parent, name, enabled) in [
        (on, "a", true),
        (on, "b", true),
        (on, "c", false),
        (off, "d", true),
    ] {
        builder.add_child(parent, name, enabled).unwrap();
    }
    let (mut engine, _) = engine(config, &[]);
    engine.apply_nodes(T0, Arc::new(builder.finish()));
    let started = place_all(&mut engine, T0);
    assert_eq!(names(&engine, &started), ["j a"]);
    let counts = engine.counts(started[0].task.job);
    assert_eq!((counts.total, counts.avoided, counts.disabled), (1, 1, 2));
    end(&mut engine, T0, started[0].task, StatusBits::DONE);
    assert!(engine.is_settled(started[0].task.job));
}

#[test]
fn the_implied_slots_are_the_reported_cores() {
    let mut slots = resource("slots", WORKER, 1, 0);
    slots.limit = ResourceLimit::ReportedCores;
    let mut config = config(vec![slots], vec![job("j")]);
    config
        .worker_resources_override
        .insert("m3".to_owned(), [(ResourceId(0), 3)].into());
    let dbs: Vec<String> = (0..40).map(|i| format!("d{i:02}")).collect();
    let dbs: Vec<&str> = dbs.iter().map(String::as_str).collect();
    let (mut engine, four_cores) = engine(config, &[("h1", &dbs)]);
    let count = |p: &[Placement], w| p.iter().filter(|p| p.worker == w).count();
    assert_eq!(count(&place_all(&mut engine, T0), four_cores), 4);
    let mut resources = on_host("m3");
    resources.cpu_cores = 64.0;
    let replaced = engine.upsert_worker(&shard("w3"), resources);
    engine.set_eligibility(replaced, Eligibility::Eligible);
    assert_eq!(count(&place_all(&mut engine, T0), replaced), 3);
    let mut unknown = on_host("m4");
    unknown.cpu_cores = 0.0;
    let unlimited = engine.upsert_worker(&shard("w4"), unknown);
    engine.set_eligibility(unlimited, Eligibility::Eligible);
    assert_eq!(count(&place_all(&mut engine, T0), unlimited), 33);
}

#[test]
fn measured_cores_replace_a_limit() {
    let mut config = config(vec![resource("cpu", WORKER, 1, 1)], vec![job("j")]);
    config.physical_resources = vec![PhysicalResource {
        kind: PhysicalKind::CpuCore,
        logical_resource: ResourceId(0),
        multiply_logical_by: 0.5,
        enforcement: Enforcement::None,
        physical_reserve_amount: 2.5,
    }];
    // (4 - 2.5) / 0.5 = 3 slots.
    let (mut engine, _) = engine(config, &[("h1", &["a", "b", "c", "d"])]);
    assert_eq!(place_all(&mut engine, T0).len(), 3);
    let mut unknown = on_host("m2");
    unknown.cpu_cores = 0.0;
    engine.upsert_worker(&shard("w1"), unknown);
    assert_eq!(
        engine.problems(),
        [
            "3 of `cpu` are taken on `w1`, which has 1; nothing that needs it starts there until running tasks end"
        ]
    );
}

#[test]
fn selectors_spread_or_pack() {
    let run = |selector| {
        let mut config = config(vec![resource("slots", WORKER, 1, 2)], vec![job("j")]);
        config.worker_selector = selector;
        let (mut engine, w1) = engine(config, &[("h1", &["a", "b", "c"])]);
        let w2 = engine.upsert_worker(&shard("w2"), on_host("m2"));
        engine.set_eligibility(w2, Eligibility::Eligible);
        let placed = place_all(&mut engine, T0);
        placed.iter().map(|p| p.worker == w1).collect::<Vec<_>>()
    };
    assert_eq!(run(WorkerSelector::RoundRobin), [true, false, true]);
    assert_eq!(run(WorkerSelector::Busiest), [true, true, false]);
}

#[test]
fn policies_rank_draw_and_finish() {
    let run = |policy| {
        let mut jobs = ["low", "high"].map(job).to_vec();
        jobs[1].priority = 3.0;
        jobs[1].filters.insert(DB, blacklist(&[]));
        jobs[0].filters.insert(DB, blacklist(&["b", "c"]));
        let mut config = config(vec![resource("slots", WORKER, 1, 1)], jobs);
        config.policy = policy;
        let (mut engine, _) = engine(config, &[("h1", &["a", "b", "c"])]);
        let mut order = Vec::new();
        while let Some(p) = engine.place(T0) {
            order.push(engine.job_name(p.task.job).to_string());
            end(&mut engine, T0, p.task, StatusBits::DONE);
        }
        order
    };
    assert_eq!(
        run(SchedulerPolicy::RankedPriority),
        ["high", "high", "high", "low"]
    );
    assert_eq!(
        run(SchedulerPolicy::LongTail),
        ["low", "high", "high", "high"]
    );
    assert_eq!(run(SchedulerPolicy::RandomizedPriority).len(), 4);
}

#[test]
fn randomized_priority_draws_in_proportion() {
    let mut jobs = ["low", "high"].map(job).to_vec();
    jobs[1].priority = 3.0;
    let mut config = config(vec![resource("slots", WORKER, 1, 1)], jobs);
    config.policy = SchedulerPolicy::RandomizedPriority;
    let (mut engine, _) = engine(config, &[("h1", &["a"])]);
    let mut high = 0;
    for _ in 0..2000 {
        let placed = engine.place(T0).unwrap();
        high += u32::from(engine.job_name(placed.task.job).as_str() == "high");
        end(&mut engine, T0, placed.task, StatusBits::INCOMPLETE);
    }
    // The expected number is 1500; 100 are more than five standard deviations.
    assert!((1400..1600).contains(&high), "{high}");
}

#[test]
fn node_orders_start_the_first_first() {
    let run = |order| {
        let mut config = config(Vec::new(), vec![job("j")]);
        config.node_order = order;
        let (mut engine, _) = engine(config, &[("h1", &["c", "a", "b"])]);
        let placed = place_all(&mut engine, T0);
        names(&engine, &placed).join(" ")
    };
    assert_eq!(run(NodeOrder::Original), "j c j a j b");
    assert_eq!(run(NodeOrder::Lexicographic), "j a j b j c");
    let mut random: Vec<_> = run(NodeOrder::Random)
        .split(' ')
        .map(str::to_owned)
        .collect();
    random.sort();
    assert_eq!(random, ["a", "b", "c", "j", "j", "j"]);
}

#[test]
fn a_lost_shard_keeps_its_charges_until_its_tasks_end() {
    let (mut engine, w1) = engine(
        config(vec![resource("slots", WORKER, 1, 1)], vec![job("j")]),
        &[("h1", &["a", "b"])],
    );
    let placed = place_all(&mut engine, T0);
    engine.remove_worker(w1);
    assert_eq!(engine.running_on(placed[0].task), Some(w1));
    let back = engine.upsert_worker(&shard("w1"), on_host("m1"));
    assert_eq!(back, w1);
    assert_eq!(place_all(&mut engine, T0), [], "not eligible");
    engine.set_eligibility(back, Eligibility::Eligible);
    assert_eq!(place_all(&mut engine, T0), [], "its slot is taken");
    end(&mut engine, T0, placed[0].task, StatusBits::DONE);
    assert_eq!(place_all(&mut engine, T0).len(), 1);
}

#[test]
fn indexes_of_workers_that_are_gone_are_used_again() {
    let (mut engine, w1) = engine(config(Vec::new(), vec![job("j")]), &[("h1", &["a"])]);
    engine.remove_worker(w1);
    for i in 0..100 {
        let worker = engine.upsert_worker(&shard(&format!("other{i}")), on_host("m"));
        assert_eq!(worker, w1);
        engine.remove_worker(worker);
    }
    assert_eq!(engine.find_worker("other99"), None);
}

#[test]
fn needs_beyond_every_limit_are_never() {
    let mut greedy = job("greedy");
    greedy.resources = vec![9];
    let mut wide = job("wide");
    wide.resources = vec![0, 9];
    let mut bare = job("bare");
    bare.command.clear();
    let resources = vec![
        resource("disk", HOST, 0, 4),
        resource("slots", WORKER, 1, 4),
    ];
    let config = config(resources, vec![greedy, wide, bare]);
    let (mut engine, w1) = engine(config, &[("h1", &["a"])]);
    let mut commandless = on_host("m1");
    commandless.has_worker_command = false;
    assert_eq!(engine.upsert_worker(&shard("w1"), commandless), w1);
    assert_eq!(place_all(&mut engine, T0), []);
    for job in engine.jobs().collect::<Vec<_>>() {
        assert_eq!(engine.counts(job).never, 1);
        assert!(engine.is_settled(job));
    }
    // A worker with a command joins.
    let w2 = engine.upsert_worker(&shard("w2"), on_host("m2"));
    engine.set_eligibility(w2, Eligibility::Eligible);
    let placed = place_all(&mut engine, T0);
    assert_eq!(names(&engine, &placed), ["bare a"]);
    assert_eq!(placed[0].worker, w2);
}
