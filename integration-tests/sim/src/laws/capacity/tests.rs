//! Hand-made histories that the laws of this module must accept, and happenings that they must catch.

use brasserie_common::InvocationId;
use brasserie_common_config::{ParseOptions, parse};
use brasserie_scheduler_core::LeftCause;

use super::super::trial::*;
use super::*;
use crate::event_log::MachineSize;

mod within_limits {
    use super::*;

    fn config() -> Config {
        let text = r#"{"bistro_settings": {"nodes": {"levels": ["l"]}, "resources": {
            "worker": {"slots": {"default": 1, "limit": 2}}, "l": {"lock": {"default": 1, "limit": 1}}}},
            "bistro_job->j0": {"owner": "o", "command": ["x"]}, "bistro_job->j1": {"owner": "o", "command": ["x"]}}"#;
        parse(text, ParseOptions::default()).unwrap().config
    }

    fn of(job: u16, node: u16) -> Run {
        let mut one = run(i64::from(job * 10 + node));
        (one.task.job, one.task.node) = (job, node);
        one
    }

    #[test]
    fn a_worker_and_a_node_fill_up() {
        let (config, mut law, model) = (config(), WithinLimits::default(), Model::default());
        let (s, w) = (sid(1), wid(1));
        assert_eq!(law.start(&model, s, w, of(0, 0), &config), Ok(()));
        let violation = law.start(&model, s, wid(2), of(1, 0), &config).unwrap_err();
        assert!(
            violation.contains("Node(0) has 2 of 1 `lock`"),
            "{violation}"
        );
        law.give_back(s, of(1, 0));
        assert_eq!(law.start(&model, s, w, of(0, 1), &config), Ok(()));
        let violation = law.start(&model, s, w, of(0, 2), &config).unwrap_err();
        assert!(violation.contains("has 3 of 2 `slots`"), "{violation}");
    }

    #[test]
    fn a_worker_gets_no_more_than_it_can_run() {
        let (config, mut law, mut model) = (config(), WithinLimits::default(), Model::default());
        model.machines.note(&Happening::WorkerDeclared {
            worker: wid(1),
            size: MachineSize {
                most_tasks: Some(1),
                ..Default::default()
            },
        });
        assert_eq!(law.start(&model, sid(1), wid(1), of(0, 0), &config), Ok(()));
        let violation = law
            .start(&model, sid(1), wid(1), of(0, 1), &config)
            .unwrap_err();
        let text = "can run 1 tasks, and has got 2";
        assert!(violation.contains(text), "{violation}");
    }

    #[test]
    fn a_job_runs_no_more_tasks_than_it_allows() {
        let text = r#"{"bistro_settings": {"nodes": {"levels": ["l"]}, "resources": {}},
            "bistro_job->j0": {"owner": "o", "command": ["x"], "max_running": 2}}"#;
        let config = parse(text, ParseOptions::default()).unwrap().config;
        let (s, mut law, model) = (sid(1), WithinLimits::default(), Model::default());
        assert_eq!(law.start(&model, s, wid(1), of(0, 0), &config), Ok(()));
        // The next run of a lost task, and a task of another job, do not count as further tasks of this job.
        let again = Run {
            invocation: InvocationId::new(99, 0),
            ..of(0, 0)
        };
        assert_eq!(law.start(&model, s, wid(2), again, &config), Ok(()));
        assert_eq!(law.start(&model, s, wid(2), of(1, 0), &config), Ok(()));
        // A task of another scheduler does not count; an adopted one does.
        assert_eq!(law.start(&model, sid(2), wid(1), of(0, 2), &config), Ok(()));
        law.take(s, wid(1), of(0, 1));
        let violation = law.start(&model, s, wid(1), of(0, 2), &config).unwrap_err();
        let text = "3 tasks of its job run, and its `max_running` is 2";
        assert!(violation.contains(text), "{violation}");
        law.give_back(s, of(0, 1));
        law.give_back(s, of(0, 2));
        assert_eq!(law.start(&model, s, wid(1), of(0, 3), &config), Ok(()));
    }

    #[test]
    fn who_chooses_cards_has_tasks_wait_for_them_unless_some_are_reserved() {
        let with = |reserve: &str| {
            let text = format!(
                r#"{{"bistro_settings": {{"nodes": {{"levels": ["l"]}}, "resources": {{
                "worker": {{"gpu": {{"default": 0, "limit": 0}}, "GPU: K40": {{"default": 0, "limit": 0}}}}}},
                "physical_resources": {{"gpu_card": {{"logical_resource": "gpu"{reserve}}}}}}},
                "bistro_job->j0": {{"owner": "o", "command": ["x"], "resources": {{"gpu": 1}}}},
                "bistro_job->j1": {{"owner": "o", "command": ["x"], "resources": {{"GPU: K40": 1}}}}}}"#
            );
            parse(&text, ParseOptions::default()).unwrap().config
        };
        let mut model = Model::default();
        let devices = ["0", "1"].map(|device| (device.to_owned(), "K40".to_owned()));
        model.machines.note(&Happening::WorkerDeclared {
            worker: wid(1),
            size: MachineSize {
                cards: [("K40".to_owned(), 2)].into(),
                devices: devices.into(),
                ..Default::default()
            },
        });
        let asking = || WithinLimits {
            asking: [(sid(1), wid(1))].into(),
            ..WithinLimits::default()
        };
        let starts = |law: &mut WithinLimits, config: &Config, job, node| {
            law.start(&model, sid(1), wid(1), of(job, node), config)
        };
        let (config, mut law) = (with(""), asking());
        for node in 0..5 {
            assert_eq!(starts(&mut law, &config, 0, node), Ok(()));
            assert_eq!(starts(&mut law, &config, 1, node), Ok(()));
        }
        let (config, mut law) = (with(r#", "physical_reserve_amount": 1"#), asking());
        for node in 0..5 {
            assert_eq!(starts(&mut law, &config, 1, node), Ok(()));
        }
        assert_eq!(starts(&mut law, &config, 0, 0), Ok(()));
        let violation = starts(&mut law, &config, 0, 1).unwrap_err();
        assert!(violation.contains("has 2 of 1 `gpu`"), "{violation}");
    }

    #[test]
    fn no_card_is_promised_twice() {
        let (config, mut law, model) = (config(), WithinLimits::default(), Model::default());
        for (job, milli) in [(0, 600), (1, 500)] {
            let share = ("card".to_owned(), milli);
            law.gpus.insert(of(job, job), vec![share]);
        }
        let (s, w) = (sid(1), wid(1));
        assert_eq!(law.start(&model, s, w, of(0, 0), &config), Ok(()));
        // A GPU of the same name on another machine is another GPU.
        assert_eq!(law.start(&model, s, wid(2), of(1, 1), &config), Ok(()));
        law.give_back(s, of(1, 1));
        let violation = law.start(&model, s, w, of(1, 1), &config).unwrap_err();
        let text = "1100 thousandths of card `card` of worker";
        assert!(violation.starts_with(text), "{violation}");
    }

    #[test]
    fn an_end_gives_back_and_an_adopted_run_counts() {
        let mut trial = Trial::of(WithinLimits::default());
        trial.sees(sent(1, 1, 1, ask_run(run(1))));
        assert_eq!(trial.law.taken[&(sid(1), Where::Worker(wid(1)))].len(), 1);
        trial.ends(1, 2, run(1), ERROR);
        assert_eq!(trial.law.taken[&(sid(1), Where::Worker(wid(1)))].len(), 0);
        trial.sees(begins(1, 1, run(2))).sees(fetched(1, 1, 2));
        assert_eq!(trial.law.taken[&(sid(1), Where::Worker(wid(1)))].len(), 1);
        // A worker that has left has no tasks that count.
        trial.sees(begins(2, 2, run(3)));
        trial
            .sees(left(1, 4, 2, LeftCause::Lost, 0))
            .sees(fetched(1, 2, 3));
        let taken_from =
            |law: &WithinLimits, at| law.taken.get(&(sid(1), at)).map_or(0, BTreeSet::len);
        assert_eq!(taken_from(&trial.law, Where::Worker(wid(2))), 0);
        // Neither has a worker that leaves in the turn in which its list arrives.
        trial.sees(begins(3, 3, of(1, 1))).sees(fetched(1, 3, 4));
        assert_eq!(taken_from(&trial.law, Where::Everywhere), 2);
        trial.sees(left(1, 5, 3, LeftCause::Lost, 0));
        assert_eq!(taken_from(&trial.law, Where::Worker(wid(3))), 0);
        assert_eq!(taken_from(&trial.law, Where::Everywhere), 1);
    }
}

mod within_machines {
    use super::*;

    fn config() -> Config {
        let text = r#"{"bistro_settings": {"nodes": {"levels": ["l"]},
            "resources": {"worker": {"mem": {"default": 0, "limit": 1}, "GPU: K40": {"default": 0, "limit": 0}}},
            "physical_resources": {"ram_mb": {"logical_resource": "mem", "multiply_logical_by": 512, "physical_reserve_amount": 300}}}}"#;
        parse(text, ParseOptions::default()).unwrap().config
    }

    fn verdict(memory_mb: u32, charges: &[(&str, i32)]) -> Option<String> {
        let mut trial = Trial::of(WithinMachines::default());
        let cards = [("K40".to_owned(), 1)].into();
        trial.sees(Happening::WorkerDeclared {
            worker: wid(1),
            size: MachineSize {
                memory_mb,
                cards,
                ..MachineSize::default()
            },
        });
        for (n, (name, amount)) in (1..).zip(charges) {
            trial.sees(Happening::Charged {
                worker: wid(1),
                run: run(n),
                charges: vec![((*name).to_owned(), *amount)],
                gpus: Vec::new(),
            });
            trial.sees(begins(1, u32::try_from(n).unwrap(), run(n)));
        }
        let verdict = trial.law.judge(&trial.model, wid(1), &config());
        verdict.err()
    }

    #[test]
    fn live_tasks_fit_into_the_machine() {
        assert_eq!(verdict(1324, &[("mem", 1), ("mem", 1)]), None);
        let text = verdict(1323, &[("mem", 1), ("mem", 1)]).unwrap();
        assert!(text.contains("was charged 1024"), "{text}");
        assert_eq!(verdict(0, &[("mem", 9)]), None);
        assert_eq!(verdict(0, &[("GPU: K40", 1)]), None);
        let text = verdict(0, &[("GPU: K40", 1), ("GPU: K40", 1)]).unwrap();
        assert!(text.contains("1 of `GPU: K40`"), "{text}");
    }

    #[test]
    fn no_more_tasks_live_than_the_worker_can_run() {
        let mut trial = Trial::of(WithinMachines::default());
        trial.sees(Happening::WorkerDeclared {
            worker: wid(1),
            size: MachineSize {
                most_tasks: Some(2),
                ..MachineSize::default()
            },
        });
        trial.sees(begins(1, 1, run(1))).sees(begins(1, 2, run(2)));
        assert_eq!(trial.law.judge_room(&trial.model, wid(1)), Ok(()));
        // Another worker has its own memory.
        assert_eq!(trial.law.judge_room(&trial.model, wid(2)), Ok(()));
        trial.model.executions.note(&begins(1, 3, run(3)));
        let violation = trial.law.judge_room(&trial.model, wid(1)).unwrap_err();
        assert!(violation.contains("can run 2 tasks, and 3 live there"));
        trial.model.executions.note(&dies(1, 3, run(3)));
        assert_eq!(trial.law.judge_room(&trial.model, wid(1)), Ok(()));
    }

    #[test]
    fn what_has_ended_counts_no_more() {
        let mut trial = Trial::of(WithinMachines::default());
        trial.sees(Happening::Charged {
            worker: wid(1),
            run: run(1),
            charges: vec![("mem".to_owned(), 2)],
            gpus: Vec::new(),
        });
        trial.sees(begins(1, 1, run(1)));
        assert_eq!(trial.law.taken(&trial.model, wid(1), "mem"), 2);
        trial.sees(dies(1, 1, run(1)));
        assert_eq!(trial.law.taken(&trial.model, wid(1), "mem"), 0);
    }

    /// Checks tasks of so many half cards each that live together, with the GPUs that they received.
    fn verdict_on_cards(tasks: &[(i32, &[(&str, u32)])]) -> Option<String> {
        let text = r#"{"bistro_settings": {"nodes": {"levels": ["l"]},
            "resources": {"worker": {"gpu": {"default": 0, "limit": 0}}},
            "physical_resources": {"gpu_card": {"logical_resource": "gpu", "multiply_logical_by": 0.5}}}}"#;
        let config = parse(text, ParseOptions::default()).unwrap().config;
        let (mut law, mut model) = (WithinMachines::default(), Model::default());
        model.machines.note(&Happening::WorkerDeclared {
            worker: wid(1),
            size: MachineSize {
                devices: ["a", "b"]
                    .map(|card| (card.to_owned(), "K40".to_owned()))
                    .into(),
                ..MachineSize::default()
            },
        });
        let mut verdict = Ok(());
        for (n, (slots, given)) in (1..).zip(tasks) {
            let gpus = given
                .iter()
                .map(|(device, milli)| ((*device).to_owned(), *milli));
            law.gpus.insert(run(n), gpus.collect());
            let charges = vec![("gpu".to_owned(), *slots)];
            law.charges.insert(run(n), charges);
            model
                .executions
                .note(&begins(1, u32::try_from(n).unwrap(), run(n)));
            verdict = verdict.and(law.judge_cards(&model, wid(1), run(n), &config));
        }
        verdict.err()
    }

    #[test]
    fn no_card_is_given_twice_and_none_is_kept_back() {
        let (half_a, half_b, a): (&[_], &[_], &[_]) =
            (&[("a", 500)], &[("b", 500)], &[("a", 1000)]);
        assert_eq!(
            verdict_on_cards(&[(1, half_a), (1, half_a), (1, half_b)]),
            None
        );
        let twice = verdict_on_cards(&[(2, a), (1, half_a)]).unwrap();
        assert!(twice.ends_with("1500 of card `a` thousandths"), "{twice}");
        let less = verdict_on_cards(&[(2, half_a)]).unwrap();
        assert!(less.ends_with("got 500 of 1000 thousandths"), "{less}");
        let strange = verdict_on_cards(&[(1, &[("c", 500)])]).unwrap();
        assert!(strange.contains("card `c`"), "{strange}");
    }

    #[test]
    fn cards_are_whole_and_of_their_model() {
        let pieces = verdict_on_cards(&[(2, &[("a", 500), ("b", 500)])]).unwrap();
        assert!(pieces.contains("got pieces"), "{pieces}");
        assert_eq!(verdict_on_cards(&[(4, &[("a", 1000), ("b", 1000)])]), None);
        let models = [("a", "K40"), ("b", "H100")].map(|(a, b)| (a.to_owned(), b.to_owned()));
        let models = models.into();
        let mut law = WithinMachines::default();
        law.charges
            .insert(run(1), vec![("GPU: H100".to_owned(), 1)]);
        law.gpus.insert(run(1), vec![("b".to_owned(), 1000)]);
        assert_eq!(law.judge_shape(wid(1), run(1), &models), Ok(()));
        law.gpus.insert(run(1), vec![("a".to_owned(), 1000)]);
        let other = law.judge_shape(wid(1), run(1), &models).unwrap_err();
        assert!(other.contains("got 0 of 1 H100s"), "{other}");
    }
}

mod within_processors {
    use super::*;

    fn sent_as(number: i64, bufferable: bool, cpus: f64) -> Happening {
        Happening::SentAsWork {
            scheduler: sid(1),
            worker: wid(1),
            run: run(number),
            terms: WorkTerms {
                cpus: Some(cpus),
                bufferable,
                ..WorkTerms::default()
            },
        }
    }

    #[test]
    fn who_may_wait_waits_until_a_processor_is_free() {
        let mut trial = Trial::of(WithinProcessors::default());
        trial.sees(Happening::FetchesWork {
            worker: wid(1),
            cpus: 3.0,
        });
        // The last task may need more than is left; otherwise it would wait forever.
        for n in 1..=2 {
            trial.sees(sent_as(n, true, 2.0));
            trial.sees(begins(1, u32::try_from(n).unwrap(), run(n)));
        }
        // A task that may not wait was sent for an idle processor. Another law checks that.
        trial
            .sees(sent_as(3, false, 1.0))
            .sees(begins(1, 3, run(3)));
        trial.sees(dies(1, 3, run(3))).sees(sent_as(4, true, 1.0));
        trial.breaks(begins(1, 4, run(4)), "while 4 of its 3 processors are busy");
    }
}
