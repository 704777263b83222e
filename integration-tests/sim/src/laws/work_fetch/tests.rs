//! Hand-made histories that the laws of this module must accept, and happenings that they must catch.

use brasserie_common::WorkTerms;
use brasserie_scheduler_engine::WorkerResources;

use super::super::cores::{load, new_core};
use super::super::trial::*;
use super::*;

mod granted_was_sent {
    use super::*;

    fn told(tasks: u32) -> Happening {
        Happening::WorkTold {
            place: crate::event_log::SchedulerPlace(0),
            scheduler: sid(1),
            worker: wid(1),
            seq: WorkRequestSeq(7),
            verdicts: vec![(Processor::Cpu, WorkVerdict::Granted(tasks))],
        }
    }

    fn sent_for(seq: u64) -> Happening {
        Happening::SentAsWork {
            scheduler: sid(1),
            worker: wid(1),
            run: run(1),
            terms: WorkTerms {
                request: Some(WorkRequestSeq(seq)),
                ..WorkTerms::default()
            },
        }
    }

    #[test]
    fn only_what_was_sent_for_the_request_counts() {
        let mut trial = Trial::of(GrantedWasSent::default());
        // The order of the answer and the task does not matter.
        trial.sees(told(1)).sees(sent_for(7)).sees(scheduler_turn());
        trial.sees(sent_for(6)).sees(told(2));
        trial.breaks(scheduler_turn(), "of 2 tasks for request 7, and has sent 1");
    }
}

mod lists_what_it_has {
    use super::*;

    fn asked(seq: u64) -> Happening {
        Happening::WorkAsked {
            worker: wid(1),
            scheduler: sid(1),
            seq: WorkRequestSeq(seq),
        }
    }

    fn heard(seq: u64, known: &[i64]) -> Happening {
        Happening::WorkHeard {
            scheduler: sid(1),
            worker: wid(1),
            meant: sid(1),
            seq: WorkRequestSeq(seq),
            demands: Vec::new(),
            known: Some(known.iter().map(|n| run(*n).invocation).collect()),
            over: Vec::new(),
            linger: std::time::Duration::ZERO,
        }
    }

    #[test]
    fn what_was_accepted_is_listed_until_its_end_is_acknowledged() {
        let mut trial = Trial::of(ListsWhatItHas::default());
        trial.sees(asked(1));
        trial.sees(served(1, 1, ask_run(run(1)), None));
        // The list was written before the acceptance.
        trial.sees(heard(1, &[]));
        trial.sees(asked(2)).sees(heard(2, &[1]));
        trial.sees(settled(1, 1, run(1), DONE));
        trial.sees(asked(3)).sees(heard(3, &[]));
        // An old request arrives again, unchanged.
        trial.sees(heard(2, &[1]));
        // The list contains only runs of the scheduler that receives it.
        trial.sees(served(2, 1, ask_run(run(2)), None));
        trial.sees(asked(4)).sees(heard(4, &[]));
        trial.sees(served(1, 1, ask_run(run(3)), None));
        trial.sees(asked(5));
        trial.breaks(heard(5, &[2]), "does not list run");
    }

    #[test]
    fn what_a_scheduler_counts_is_told() {
        let counts = WorkCounts {
            requests: 5,
            looked_at: 3,
            too_soon: 2,
            ..WorkCounts::default()
        };
        assert_eq!(judge(&counts), Ok(()));
        let missing_runs = 2;
        let counts = WorkCounts {
            missing_runs,
            ..counts
        };
        let violation = judge(&counts).unwrap_err();
        assert!(violation.contains("misses 2 runs"), "{violation}");
    }
}

mod idle_is_fed {
    use super::*;

    const LONGEST: Duration = Duration::from_secs(100);
    const TASK: TaskId = TaskId { job: 0, node: 0 };

    fn shard(name: &str) -> Shard {
        name.try_into().unwrap()
    }

    /// Worker 1, with this many CPUs, requests work.
    fn trial(cpus: f64) -> Trial<IdleIsFed> {
        let mut trial = Trial::of(IdleIsFed::default());
        let worker = wid(1);
        trial.sees(worker_started(1));
        trial.sees(Happening::FetchesWork { worker, cpus });
        trial
    }

    fn checks(trial: &mut Trial<IdleIsFed>, secs: u64, ready: Option<TaskId>) -> Verdict {
        let at = Time::ZERO + Duration::from_secs(secs);
        trial.law.judge(at, wid(1), ready, LONGEST)
    }

    #[test]
    fn one_task_is_ready_for_so_long_and_no_longer() {
        let mut trial = trial(1.0);
        assert_eq!(checks(&mut trial, 10, Some(TASK)), Ok(()));
        assert_eq!(checks(&mut trial, 110, Some(TASK)), Ok(()));
        let broken = checks(&mut trial, 111, Some(TASK)).unwrap_err();
        assert!(broken.contains("for 101 s"), "{broken}");
    }

    #[test]
    fn whatever_ends_it_begins_it_anew() {
        let other = TaskId { job: 0, node: 1 };
        let ends: [fn(&mut Trial<IdleIsFed>); 4] = [
            |trial| checks(trial, 60, None).unwrap(),
            |trial| checks(trial, 60, Some(TaskId { job: 0, node: 1 })).unwrap(),
            |trial| _ = trial.sees(sent(1, 1, 1, ask_run(run(1)))),
            |trial| _ = trial.sees(begins(1, 1, run(1))),
        ];
        for end in ends {
            let mut trial = trial(1.0);
            assert_eq!(checks(&mut trial, 10, Some(TASK)), Ok(()));
            end(&mut trial);
            assert_eq!(checks(&mut trial, 120, Some(TASK)), Ok(()));
        }
        // Sending one task does not restart the wait for another.
        let mut trial = trial(1.0);
        assert_eq!(checks(&mut trial, 10, Some(other)), Ok(()));
        trial.sees(sent(1, 1, 1, ask_run(run(1))));
        assert!(checks(&mut trial, 120, Some(other)).is_err());
    }

    #[test]
    fn a_worker_is_idle_while_a_whole_cpu_is() {
        let mut trial = trial(2.0);
        trial.sees(begins(1, 1, run(1)));
        assert!(trial.ask(|law, now| law.is_idle(now, wid(1))));
        trial.law.cpus.insert(run(1), 1.5);
        assert!(!trial.ask(|law, now| law.is_idle(now, wid(1))));
        assert!(!trial.ask(|law, now| law.is_idle(now, wid(2))), "nobody");
    }

    #[test]
    fn what_is_ready_is_what_would_start_there() {
        let mut core = new_core();
        load(
            &mut core,
            r#"{"bistro_settings": {"nodes": {"levels": ["l"], "node_source": "manual",
                "node_source_prefs": {"n0": []}}}, "bistro_job->j0": {"command": ["x"]}}"#,
        );
        let mut engine = core.engine().clone();
        let (own, other) = (shard("w"), shard("v"));
        for shard in [&own, &other] {
            engine.upsert_worker(
                shard,
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
        }
        let alone = || asked_for_all(&engine, &own, [&other].into_iter());
        assert!(alone().is_some_and(|alone| is_runnable(&alone, TASK)));
        assert_eq!(first_ready(alone().unwrap(), true), Some(TASK));
        assert!(!is_runnable(&engine, TASK), "nobody may get anything");
        let index = engine.find_worker("w").unwrap();
        engine.set_eligibility(index, Eligibility::Eligible);
        assert!(engine.place(Time::ZERO).is_some());
        assert!(
            asked_for_all(&engine, &own, [&other].into_iter()).is_none(),
            "nothing is left"
        );
    }
}
