//! Tests of the document and its report: states, bounds and order.

use super::*;

fn job(name: &str, tasks: TaskCounts) -> JobView {
    let facts = JobFacts {
        is_enabled: true,
        nodes_loaded: true,
        tasks,
        ..JobFacts::default()
    };
    JobView {
        name: name.to_owned(),
        state: facts.state(),
        enabled: true,
        tasks,
        ..JobView::default()
    }
}

fn done(count: u64) -> TaskCounts {
    TaskCounts {
        total: count,
        done: count,
        ..TaskCounts::default()
    }
}

fn failed(count: u64) -> TaskCounts {
    TaskCounts {
        total: count,
        failed: count,
        ..TaskCounts::default()
    }
}

fn cluster(jobs: Vec<JobView>) -> ClusterView {
    let mut view = ClusterView {
        nodes_loaded: true,
        jobs_total: jobs.len() as u64,
        ..ClusterView::default()
    };
    for job in &jobs {
        view.tasks.add(&job.tasks);
        let state = job.state.as_str().to_owned();
        *view.jobs_by_state.entry(state).or_default() += 1;
    }
    view.jobs = jobs;
    view
}

fn names(view: &ClusterView) -> Vec<&str> {
    view.jobs.iter().map(|job| job.name.as_str()).collect()
}

#[test]
fn a_job_is_in_the_first_state_that_fits() {
    let mut facts = JobFacts {
        is_broken: true,
        hold: Some(Hold::Cancelled),
        is_enabled: false,
        nodes_loaded: false,
        tasks: TaskCounts {
            total: 7,
            unstarted: 1,
            running: 1,
            in_backoff: 1,
            failed: 1,
            never: 1,
            done: 1,
            error: 1,
            ..TaskCounts::default()
        },
    };
    let mut states = vec![facts.state()];
    let mut held = vec![facts.counts().held];
    let steps: [fn(&mut JobFacts); 11] = [
        |f| f.is_broken = false,
        |f| f.hold = Some(Hold::Paused),
        |f| f.hold = None,
        |f| f.is_enabled = true,
        |f| f.nodes_loaded = true,
        |f| f.tasks.running = 0,
        |f| (f.tasks.unstarted, f.tasks.error) = (0, 0),
        |f| f.tasks.in_backoff = 0,
        |f| f.tasks.failed = 0,
        |f| f.tasks.never = 0,
        |f| f.tasks.done = 0,
    ];
    for step in steps {
        step(&mut facts);
        states.push(facts.state());
        held.push(facts.counts().held);
    }
    let texts: Vec<&str> = states.iter().map(|state| state.as_str()).collect();
    let expected = [
        "broken",
        "cancelled",
        "paused",
        "disabled",
        "loading_nodes",
        "running",
        "waiting",
        "in_backoff",
        "failed",
        "never",
        "done",
        "no_tasks",
    ];
    assert_eq!(texts, expected);
    assert_eq!(held[..5], [2, 2, 2, 2, 0], "of broken to disabled jobs");
    for state in states {
        assert_eq!(serde_json::to_value(state).unwrap(), state.as_str());
    }
}

#[test]
fn a_short_list_keeps_what_needs_attention_in_its_order() {
    let jobs = vec![
        job("a", done(1)),
        job("b", failed(1)),
        job("c", done(1)),
        job("d", failed(1)),
    ];
    let mut view = cluster(jobs);
    view.keep_jobs(4);
    assert!(!view.more_jobs && view.jobs.len() == 4);
    view.keep_jobs(3);
    assert_eq!((names(&view), view.more_jobs), (vec!["a", "b", "d"], true));
    view.keep_jobs(1);
    assert_eq!(names(&view), ["b"]);
    view.keep_jobs(0);
    assert_eq!((names(&view).len(), view.jobs_total), (0, 4));
}

#[test]
fn the_report_is_bounded_and_counts_what_it_leaves_out() {
    let jobs = (0..30).map(|i| JobView {
        errors: vec!["is wrong".to_owned()],
        ..job(&format!("j{i}"), failed(1))
    });
    let worker = |i| WorkerView {
        shard: format!("w{i}"),
        state: "healthy".to_owned(),
        notes: vec!["is odd".to_owned(); 5],
        ..WorkerView::default()
    };
    let view = ClusterView {
        workers: (0..30).map(worker).collect(),
        workers_total: 40,
        jobs_total: 100,
        ..cluster(jobs.collect())
    };
    let report = view.report(10);
    assert_eq!((report.problems.len(), report.problems_left_out), (10, 21));
    assert_eq!((report.jobs.rows.len(), report.jobs_left_out), (10, 90));
    assert_eq!(
        (report.workers.rows.len(), report.workers_left_out),
        (10, 30)
    );
    assert_eq!(report.remarks.len(), 10);
}

#[test]
fn problems_name_why_nothing_starts_then_workers_then_jobs() {
    let worker = WorkerView {
        shard: "w\r".to_owned(),
        state: "unhealthy".to_owned(),
        waits_for: Some("for a heartbeat".to_owned()),
        lost_in_ms: Some(12_000),
        problems: vec!["its last healthcheck failed".to_owned()],
        ..WorkerView::default()
    };
    let broken = JobView {
        errors: vec!["has no command".to_owned()],
        ..job("broken\n", done(0))
    };
    let mut jobs = vec![broken];
    jobs.extend((0..7).map(|i| job(&format!("j{i}"), failed(2))));
    let view = ClusterView {
        nothing_starts: vec![
            "initial wait: why".to_owned(),
            "no nodes: the script failed".to_owned(),
        ],
        errors: vec![
            "the script failed".to_owned(),
            "the store is slow".to_owned(),
        ],
        workers: vec![worker],
        ..cluster(jobs)
    };
    let expected = [
        "initial wait: why",
        "no nodes: the script failed",
        "the store is slow",
        r"worker `w\r` is unhealthy, and lost in 12.0 s unless it recovers; it waits for a heartbeat",
        r"worker `w\r`: its last healthcheck failed",
        r"job `broken\n`: has no command",
        "14 tasks failed (`j0`: 2, `j1`: 2, `j2`: 2, `j3`: 2, `j4`: 2, other jobs: 4)",
    ];
    assert_eq!(view.report(100).problems, expected);
}

#[test]
fn sums_say_when_nodes_are_loading() {
    let view = cluster(vec![job("a", done(2)), job("b", failed(1))]);
    let sums = "2 jobs: 1 done, 1 failed; 3 tasks: 2 done, 1 failed.";
    assert_eq!(view.report(9).facts, [sums]);
    let loading = JobView {
        state: JobState::LoadingNodes,
        ..job("a", TaskCounts::default())
    };
    let view = ClusterView {
        nodes_loaded: false,
        ..cluster(vec![loading])
    };
    let report = view.report(9);
    let sums = "1 job: 1 loading nodes; nodes are loading, so the tasks are not counted yet.";
    assert_eq!(report.facts, [sums]);
    assert_eq!(report.jobs.rows[0][..3], ["a", "loading nodes", ""]);
}

#[test]
fn requests_for_work_are_counted_where_a_worker_asks() {
    let counts = WorkRequestsView {
        heard: 9,
        looked_at: 3,
        repeated: 1,
        not_ready: 2,
        too_soon: 2,
        too_many: 1,
        missing_runs: 4,
    };
    let view = ClusterView {
        work_requests: Some(counts),
        ..cluster(Vec::new())
    };
    let facts = view.report(9).facts;
    assert_eq!(
        facts[1..],
        [
            "Work requests: 9 received, 3 examined, 1 repeated, 2 from workers that may not get tasks, 2 too soon, 1 above the limit.",
            "Work requests did not list 4 runs that their workers had accepted."
        ]
    );
}

#[test]
fn the_size_and_growth_of_the_store_are_shown() {
    let store = StoreView {
        bytes: 276 << 20,
        free_bytes: 0,
        completions: 2_000_000,
        missing_completions: 1_999_999,
        disk_free_bytes: 1 << 30,
        growth_bytes: Some(3 << 19),
        growth_s: Some(7200),
    };
    let view = ClusterView {
        store: Some(store),
        ..cluster(Vec::new())
    };
    let line = "Store: 2000000 completions (1999999 of nodes or jobs that do not exist) in 276.0 MiB, +1.5 MiB in 2 h 0 min; 1.0 GiB of its disk \
                are free.";
    assert_eq!(view.report(9).facts[1], line);
}

#[test]
fn the_next_times_of_schedules_are_shown() {
    let schedule = |source, next_ms| ScheduleView {
        source,
        level: "night".to_owned(),
        next_ms,
        next: next_ms.map(|_| "Tue 2026-11-24 03:00 +01:00 (Europe/Berlin)".to_owned()),
    };
    let view = ClusterView {
        wall_time_ms: 10_000,
        schedules: vec![
            schedule(2, Some(10_810_000)),
            schedule(3, Some(4_000)),
            schedule(4, None),
        ],
        ..cluster(Vec::new())
    };
    assert_eq!(
        view.report(9).facts[1..],
        [
            "Node source 2 gives the next nodes of level `night` on Tue 2026-11-24 03:00 +01:00 (Europe/Berlin), in 3 h 0 min.",
            "Node source 3 was due to give nodes of level `night` on Tue 2026-11-24 03:00 +01:00 (Europe/Berlin), 6.0 s ago.",
            "Node source 4 gives no more nodes of level `night`: its schedule has no later time.",
        ]
    );
}

#[test]
fn the_state_of_a_worker_without_heartbeats_says_that_it_is_silent() {
    let worker = |silent_for_ms| WorkerView {
        state: "healthy".to_owned(),
        silent_for_ms,
        ..WorkerView::default()
    };
    let view = ClusterView {
        workers: vec![worker(None), worker(Some(31_000))],
        ..cluster(Vec::new())
    };
    let rows = view.report(9).workers.rows;
    assert_eq!((&*rows[0][1], &*rows[1][1]), ("healthy", "healthy, silent"));
}

#[test]
fn a_worker_that_drains_needs_no_person() {
    let worker = WorkerView {
        shard: "w".to_owned(),
        state: DRAINING.to_owned(),
        waits_for: Some("for its tasks".to_owned()),
        ..WorkerView::default()
    };
    assert_eq!(worker.urgency(), Urgency::Running);
    let view = ClusterView {
        workers: vec![worker],
        ..cluster(Vec::new())
    };
    let report = view.report(9);
    assert_eq!(report.workers.rows[0][1], "draining");
    assert_eq!(report.remarks, ["w waits for its tasks"]);
}

#[test]
fn the_artifact_disks_of_a_worker_are_a_remark() {
    let disk = |state: &str, mib: u64| DiskView {
        state: state.to_owned(),
        usable_bytes: mib << 20,
        ..DiskView::default()
    };
    let view = ClusterView {
        workers: vec![WorkerView {
            shard: "w".to_owned(),
            state: "healthy".to_owned(),
            disks: vec![disk("healthy", 5), disk("io hang", 100), disk("healthy", 7)],
            ..WorkerView::default()
        }],
        ..cluster(Vec::new())
    };
    let expected = "w: 2 of 3 artifact disks are healthy, with 12.0 MiB usable";
    assert_eq!(view.report(9).remarks, [expected]);
    // Nobody knows the disks of a worker that does not answer.
    let mut away = view;
    away.workers[0].state = "unhealthy".to_owned();
    assert_eq!(away.report(9).remarks, [""; 0]);
}

#[test]
fn the_transfers_of_artifacts_are_a_fact_and_a_remark() {
    let transfers = TransfersView {
        done: 12,
        bytes: 3 << 20,
        busy: 2,
        failed: 1,
    };
    let worker = |shard: &str, transfers| WorkerView {
        shard: shard.to_owned(),
        state: "healthy".to_owned(),
        transfers: Some(transfers),
        ..WorkerView::default()
    };
    let view = ClusterView {
        workers: vec![
            worker("w", transfers.clone()),
            worker("idle", TransfersView::default()),
        ],
        transfers: Some(transfers),
        locality: Some(LocalityView { hits: 3, misses: 1 }),
        ..cluster(Vec::new())
    };
    let report = view.report(9);
    let clause = "12 transfers with 3.0 MiB, 2 answers of busy peers, 1 failed";
    assert_eq!(report.remarks, [format!("w: {clause}")]);
    let starts = "Tasks with inputs: 3 of 4 starts at a worker with half of the bytes or more.";
    let facts = [
        format!("Artifacts between workers: {clause}."),
        starts.to_owned(),
    ];
    assert_eq!(report.facts[1..], facts);
}

#[test]
fn the_slots_of_a_worker_fill_one_narrow_column() {
    let slots = |resource: &str, in_use, limit| SlotsView {
        resource: resource.to_owned(),
        in_use,
        limit,
    };
    let cell = |slots: &[SlotsView]| {
        let worker = WorkerView {
            slots: slots.to_vec(),
            ..WorkerView::default()
        };
        let view = ClusterView {
            workers: vec![worker],
            ..cluster(Vec::new())
        };
        view.report(9).workers.rows[0][8].clone()
    };
    assert_eq!(cell(&[]), "");
    let two = [slots("cpu", 3, Some(8)), slots("link", 2, None)];
    assert_eq!(cell(&two), "cpu 3/8, link 2");
    let long = slots(&"x".repeat(30), 0, Some(1));
    let [cpu, link] = two;
    let many = [cpu, link, long.clone(), long.clone()];
    assert_eq!(cell(&many), "cpu 3/8, link 2, 2 more");
    assert_eq!(cell(&[long]), format!("{} 0/1", "x".repeat(30)));
}

fn order(state: &str) -> OrderView {
    OrderView {
        shard: "w1".to_owned(),
        state: state.to_owned(),
        reason: "new disk".to_owned(),
        by: "10.0.0.7:81".to_owned(),
        since_ms: 40_000,
        connected: true,
        ..OrderView::default()
    }
}

#[test]
fn an_order_says_what_is_left_to_do_and_who_gave_it() {
    let given = "(by 10.0.0.7:81, 20.0 s ago: new disk)";
    let excluded = order(EXCLUDED).clause(60_000);
    assert_eq!(excluded, format!("is excluded: it gets no tasks {given}"));
    let leaving = OrderView {
        deadline_ms: Some(60_000 + 3 * 3_600_000),
        running: 2,
        only_here: 14,
        only_here_bytes: 1_288_490_189,
        ..order(DECOMMISSIONING)
    };
    let expected = format!(
        "is being decommissioned: 2 tasks run, 14 outputs (1.2 GiB) are only there; deadline in 3 h 0 min {given}"
    );
    assert_eq!(leaving.clause(60_000), expected);
    let overdue = leaving.clause(60_000 + 4 * 3_600_000);
    assert!(overdue.contains("; the deadline is over (by "), "{overdue}");
    let waits = OrderView {
        copies_wait_for: Some("no other worker has room".to_owned()),
        ..leaving.clone()
    };
    assert_eq!(
        waits.left(),
        "2 tasks run, 14 outputs (1.2 GiB) are only there: no other worker has room"
    );
    let away = OrderView {
        connected: false,
        ..leaving.clone()
    };
    assert_eq!(away.left(), "the worker is not connected");
    let unknown = OrderView {
        unknown: true,
        ..leaving
    };
    assert_eq!(unknown.left(), "its tasks and data are not known yet");
    let done = order(DECOMMISSIONED);
    assert!(done.is_over() && done.clause(60_000).contains("it stays idle until"));
    let exits = OrderView {
        exits: true,
        ..done
    };
    assert!(!exits.is_over() && exits.clause(60_000).contains("and exits"));
}

#[test]
fn orders_come_before_other_remarks_and_move_no_cursor() {
    let view = ClusterView {
        orders: vec![OrderView {
            reason: "x\u{1b}[2J\ny".to_owned(),
            ..order(EXCLUDED)
        }],
        workers: vec![WorkerView {
            shard: "w1".to_owned(),
            state: EXCLUDED.to_owned(),
            notes: vec!["a note".to_owned()],
            ..WorkerView::default()
        }],
        ..ClusterView::default()
    };
    let report = view.report(9);
    assert_eq!(report.remarks.len(), 2, "{report:?}");
    assert!(
        report.remarks[0].starts_with("w1 is excluded"),
        "{report:?}"
    );
    assert!(!report.remarks[0].contains(['\u{1b}', '\n']), "{report:?}");
    assert_eq!(report.problems, [""; 0], "an excluded worker is healthy");
}
