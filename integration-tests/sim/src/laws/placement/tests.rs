//! Hand-made histories that the laws of this module must accept, and happenings that they must catch.

use brasserie_common_config::{ParseOptions, parse};
use brasserie_scheduler_engine::{Allowances, Eligibility, WorkerResources};

use super::super::cores::{load, new_core, sources_of};
use super::super::trial::*;
use super::*;

mod as_configured {
    use super::*;

    fn text(job: &str) -> String {
        format!(
            r#"{{"bistro_settings": {{"nodes": {{"levels": ["l"], "node_sources": [{{"source": "manual", "prefs":
                {{"n0": [], "n1": []}}}}]}}, "resources": {{}}}}, "bistro_job->j0": {{"owner": "o", "command": ["x"]{job}}}}}"#
        )
    }

    fn verdict(job: &str, task: TaskId) -> Option<String> {
        let (config, nodes) = sources_of(&text(job));
        why_not(task, &config, &nodes)
    }

    #[test]
    fn job_and_node_must_be_there_and_enabled() {
        assert_eq!(verdict("", TaskId { job: 0, node: 1 }), None);
        let missing_job = verdict("", TaskId { job: 1, node: 1 });
        assert!(missing_job.unwrap().contains("not configured"));
        let off = verdict(r#", "enabled": false"#, TaskId { job: 0, node: 1 });
        assert!(off.unwrap().contains("not enabled"));
        let missing_node = verdict("", TaskId { job: 0, node: 7 });
        assert!(missing_node.unwrap().contains("its node"));
        let level = verdict(
            r#", "level_for_tasks": "instance""#,
            TaskId { job: 0, node: 1 },
        );
        assert!(level.unwrap().contains("at another level"));
        let filter = r#", "filters": {"l": {"blacklist": ["n1"]}}"#;
        assert_eq!(verdict(filter, TaskId { job: 0, node: 0 }), None);
        assert!(verdict(filter, TaskId { job: 0, node: 1 }).is_some());
    }

    #[test]
    fn what_it_depends_on_must_be_done() {
        let text =
            text(r#", "depends_on": ["j1"]}, "bistro_job->j1": {"owner": "o", "command": ["x"]"#);
        let mut core = new_core();
        let (j0, j1) = (TaskId { job: 0, node: 0 }, TaskId { job: 1, node: 0 });
        let violation = judge(j1, &core).unwrap_err();
        assert!(violation.contains("nothing is configured"), "{violation}");
        load(&mut core, &text);
        assert_eq!(judge(j1, &core), Ok(()));
        let violation = judge(j0, &core).unwrap_err();
        assert!(violation.contains("`j1` is not done there"), "{violation}");
    }
}

mod gates_hold {
    use super::*;

    const LAST: TaskId = TaskId { job: 1, node: 0 };

    fn core(first: &str) -> Scheduler {
        let text = format!(
            r#"{{"bistro_settings": {{"nodes": {{"levels": ["l"], "node_sources": [{{"source": "manual", "prefs":
                {{"n0": [], "n1": [], "n2": {{"disabled": true}}}}}}]}}, "resources": {{}}}},
                "bistro_job->j0": {{"owner": "o", "command": ["x"]{first}}},
                "bistro_job->j1": {{"owner": "o", "command": ["x"], "run_only_after_all_nodes_are_done_for": ["j0"]}}}}"#
        );
        let mut core = new_core();
        load(&mut core, &text);
        core
    }

    fn on(invocation: i64, node: u16) -> Run {
        let mut run = run(invocation);
        run.task.node = node;
        run
    }

    #[test]
    fn every_node_must_be_done() {
        let core = core("");
        let mut trial = Trial::of(GatesHold::default());
        trial.sees(started(1)).sees(wrote_start(1));
        let verdict = |trial: &mut Trial<GatesHold>, task| {
            trial.ask(|law, now| law.judge(now, sid(1), task, &core))
        };
        trial.ends(1, 2, on(1, 0), DONE);
        let violation = verdict(&mut trial, LAST).unwrap_err();
        assert!(violation.contains("j0/n1 is not done"), "{violation}");
        trial.ends(1, 3, on(2, 1), DONE);
        assert_eq!(verdict(&mut trial, LAST), Ok(()));
        // Jobs that others wait for have no gate themselves.
        assert_eq!(verdict(&mut trial, TaskId { job: 0, node: 0 }), Ok(()));
        trial.sees(sent(1, 1, 1, ask_run(on(3, 2))));
        let violation = verdict(&mut trial, LAST).unwrap_err();
        assert!(violation.contains("j0/n2 runs"), "{violation}");
    }

    #[test]
    fn a_job_that_is_off_is_never_done() {
        let core = core(r#", "enabled": false"#);
        let mut trial = Trial::of(GatesHold::default());
        let verdict = trial.ask(|law, now| law.judge(now, sid(1), LAST, &core));
        let violation = verdict.unwrap_err();
        assert!(violation.contains("disabled"), "{violation}");
    }
}

mod explain_is_true {
    use super::*;

    const TASK: TaskId = TaskId { job: 0, node: 0 };

    fn core() -> Scheduler {
        let mut core = new_core();
        load(
            &mut core,
            r#"{"bistro_settings": {"nodes": {"levels": ["l"], "node_source": "manual",
                "node_source_prefs": {"n0": []}}}, "bistro_job->j0": {"command": ["x"]}}"#,
        );
        core
    }

    /// Returns an engine with one worker that has room for one task.
    fn with_worker(core: &Scheduler, eligibility: Eligibility) -> Engine {
        let mut engine = core.engine().clone();
        let shard = "w".try_into().unwrap();
        let worker = engine.upsert_worker(
            &shard,
            WorkerResources {
                takes_standby: false,
                hostname: "host".into(),
                port: 1,
                cpu_cores: 1.0,
                memory_mb: 0.0,
                cards: Vec::new(),
                has_worker_command: false,
                room: None,
            },
        );
        engine.set_eligibility(worker, eligibility);
        engine
    }

    #[test]
    fn what_starts_is_runnable_without_itself() {
        let mut engine = with_worker(&core(), Eligibility::Eligible);
        assert!(engine.place(Time::ZERO).is_some());
        assert_eq!(judge_start(&engine, Time::ZERO, TASK), Ok(()));
        let worker = engine.find_worker("w").unwrap();
        engine.set_eligibility(worker, Eligibility::Ineligible);
        let violation = judge_start(&engine, Time::ZERO, TASK).unwrap_err();
        assert!(violation.contains("although explain says"), "{violation}");
        let stranger = TaskId { job: 7, node: 0 };
        assert!(judge_start(&engine, Time::ZERO, stranger).is_err());
    }

    #[test]
    fn what_a_worker_asked_for_is_spent_by_what_starts() {
        let mut engine = with_worker(&core(), Eligibility::Eligible);
        assert!(engine.place(Time::ZERO).is_some());
        let worker = engine.find_worker("w").unwrap();
        engine.set_allowances(worker, Some(Allowances::default()));
        assert_eq!(judge_start(&engine, Time::ZERO, TASK), Ok(()));
    }

    #[test]
    fn what_does_not_start_is_not_runnable() {
        let core = core();
        assert_eq!(judge_rest(&core, Time::ZERO), Ok(()));
        let mut engine = with_worker(&core, Eligibility::Eligible);
        assert_eq!(without_reason(&engine, Time::ZERO).count(), 1);
        assert!(engine.place(Time::ZERO).is_some());
        assert_eq!(without_reason(&engine, Time::ZERO).count(), 0);
    }
}

mod orphans_end {
    use super::*;

    const BY: i64 = 1;

    fn secs(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    fn at(n: u64) -> Time {
        Time::ZERO + secs(n)
    }

    fn says(settings: &str, job: &str) -> Result<Duration, Unjust> {
        let text = format!(
            r#"{{"bistro_settings": {{"nodes": {{"levels": ["l"], "node_sources": [{{"source": "manual", "prefs":
                {{"n0": [], "n1": {{"disabled": true}}}}}}]}}, "resources": {{}}{settings}}}{job}}}"#
        );
        let config = parse(&text, ParseOptions::default()).unwrap().config;
        delay(run(1).task, &config)
    }

    #[test]
    fn the_configuration_says_what_is_wanted_and_for_how_long() {
        let after = |n: u64| format!(r#", "kill_orphan_tasks_after_sec": {n}"#);
        let job = |number: u32, keys: &str| {
            format!(r#", "bistro_job->j{number}": {{"owner": "o", "command": ["x"]{keys}}}"#)
        };
        let off = |keys: &str| job(0, &format!(r#", "enabled": false{keys}"#));
        assert_eq!(says(&after(3), &job(0, "")), Err(Unjust::IsWanted));
        assert_eq!(says(&after(3), &job(7, "")), Ok(secs(3)));
        assert_eq!(says("", &job(7, "")), Err(Unjust::MayStay));
        assert_eq!(says(&after(3), &off("")), Ok(secs(3)));
        assert_eq!(says(&after(3), &off(&after(9))), Ok(secs(9)));
        assert_eq!(says("", &off("")), Err(Unjust::MayStay));
    }

    #[test]
    fn a_kill_is_just_late_enough_and_rare() {
        let fault = |orphan: UnwantedRun, n: u64, delay| {
            let fault = orphan.fault(at(n), delay, |wait| wait);
            fault.unwrap_or_default().to_owned()
        };
        let fresh = UnwantedRun::since(at(100));
        assert!(fault(fresh, 500, Err(Unjust::IsWanted)).contains("it is wanted"));
        assert!(fault(fresh, 500, Err(Unjust::MayStay)).contains("for ever"));
        assert!(fault(fresh, 119, Ok(secs(20))).contains("before its delay"));
        assert_eq!(fault(fresh, 120, Ok(secs(20))), "");
        let asked = |kills| UnwantedRun {
            kills,
            last: Some(at(200)),
            ..fresh
        };
        for (kills, pause) in [(0, 10), (1, 10), (2, 20), (4, 80), (40, 2560)] {
            let early = fault(asked(kills), 200 + pause - 1, Ok(secs(0)));
            assert!(early.contains("without a pause"), "{kills}: {early}");
            assert_eq!(fault(asked(kills), 200 + pause, Ok(secs(0))), "", "{kills}");
        }
    }

    #[test]
    fn an_orphan_is_asked_in_time_if_it_can_be() {
        let by = sid(BY);
        let mut law = OrphansEnd::default();
        let mut look = |n: u64, wanted, delay| {
            law.look(at(n), (by, wanted), vec![(run(1), delay)], |wait| wait);
            law.orphans.get(&(by, run(1))).copied()
        };
        assert!(look(1, WantedNodes::Known, Err(Unjust::IsWanted)).is_none());
        let first = look(5, WantedNodes::NotKnown, Ok(secs(20))).unwrap();
        assert_eq!((first.since, first.deadline), (at(5), None));
        let known = look(8, WantedNodes::Known, Ok(secs(20))).unwrap();
        assert_eq!(known.since, at(5));
        assert_eq!(known.deadline, Some(at(28) + SLACK));
        let runs = |reach| BTreeMap::from([(run(1), reach)]);
        assert_eq!(law.judge(at(34), by, &runs(Reach::CanBeAsked)), Ok(()));
        assert_eq!(law.judge(at(35), by, &runs(Reach::CannotBeAsked)), Ok(()));
        let violation = law.judge(at(42), by, &runs(Reach::CanBeAsked));
        assert!(violation.unwrap_err().contains("not asked to end"));
        assert_eq!(law.judge(at(43), by, &BTreeMap::new()), Ok(()));
        assert_eq!(law.judge(at(99), by, &runs(Reach::CanBeAsked)), Ok(()));
    }
}
