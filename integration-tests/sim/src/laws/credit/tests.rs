//! Hand-made histories that the laws of this module must accept, and happenings that they must catch.

use brasserie_scheduler_core::LeftCause;

use super::super::trial::*;
use super::*;
use crate::event_log::WantedCards;

mod within_credit {
    use super::*;

    fn heard(seq: u64, demand: (f64, f64, f64), known: &[i64]) -> Happening {
        let (secs, instances, idle) = demand;
        Happening::WorkHeard {
            scheduler: sid(1),
            worker: wid(1),
            meant: sid(1),
            seq: WorkRequestSeq(seq),
            demands: vec![WorkDemand {
                instance_secs: secs,
                instances,
                idle,
                ..WorkDemand::none(Processor::Cpu, 4.0)
            }],
            known: Some(known.iter().map(|n| run(*n).invocation).collect()),
            over: Vec::new(),
            linger: Duration::from_secs(60),
        }
    }

    /// Sends a task of so many seconds.
    fn sent_for(seq: Option<u64>, number: i64, secs: f64, bufferable: bool) -> Happening {
        let mut run = run(number);
        run.task.node = u16::try_from(number).unwrap();
        Happening::SentAsWork {
            scheduler: sid(1),
            worker: wid(1),
            run,
            terms: WorkTerms {
                est_duration: Some(secs),
                request: seq.map(WorkRequestSeq),
                cpus: Some(1.0),
                bufferable,
                report: None,
            },
        }
    }

    fn leaves(number: i64) -> Happening {
        let mut run = run(number);
        run.task.node = u16::try_from(number).unwrap();
        sent(1, 1, u32::try_from(number).unwrap(), ask_run(run))
    }

    #[test]
    fn seconds_are_exceeded_by_less_than_one_task() {
        let mut trial = Trial::of(WithinCredit::default());
        trial.sees(heard(1, (100.0, 0.0, 0.0), &[]));
        trial.sees(sent_for(Some(1), 1, 60.0, true));
        trial.sees(sent_for(Some(1), 2, 60.0, true));
        // The same request again changes nothing.
        trial.sees(heard(1, (100.0, 0.0, 0.0), &[]));
        trial.breaks(sent_for(Some(1), 3, 60.0, true), "is left of CPU");
    }

    #[test]
    fn what_is_meant_for_another_scheduler_changes_nothing() {
        let rejected = |why| Happening::WorkRejected {
            scheduler: sid(1),
            worker: wid(1),
            why,
        };
        let mut trial = Trial::of(WithinCredit::default());
        trial.sees(heard(1, (0.0, 1.0, 0.0), &[]));
        trial.sees(rejected(RejectionKind::WrongScheduler));
        trial.sees(sent_for(Some(1), 1, 60.0, true));
        trial.sees(rejected(RejectionKind::UnknownWorker));
        trial.breaks(
            sent_for(Some(1), 2, 60.0, true),
            "of which it has not heard",
        );
    }

    #[test]
    fn who_may_not_wait_is_sent_for_what_is_idle() {
        let mut trial = Trial::of(WithinCredit::default());
        trial.sees(heard(1, (1000.0, 4.0, 1.0), &[]));
        trial.sees(sent_for(Some(1), 1, 1.0, false));
        trial.breaks(sent_for(Some(1), 2, 1.0, false), "is left of CPU");
    }

    #[test]
    fn who_asks_for_nothing_is_sent_nothing() {
        let mut trial = Trial::of(WithinCredit::default());
        trial.sees(heard(1, (0.0, 0.0, 0.0), &[]));
        trial.breaks(sent_for(Some(1), 1, 1.0, true), "is left of CPU");
        let mut trial = Trial::of(WithinCredit::default());
        trial.sees(heard(1, (1000.0, 4.0, 0.0), &[]));
        trial.breaks(sent_for(Some(1), 1, 1.0, false), "is left of CPU");
    }

    fn told(verdict: WorkVerdict) -> Happening {
        Happening::WorkTold {
            place: crate::event_log::SchedulerPlace(0),
            scheduler: sid(1),
            worker: wid(1),
            seq: WorkRequestSeq(1),
            verdicts: vec![(Processor::Cpu, verdict)],
        }
    }

    #[test]
    fn what_is_put_off_sets_no_credit() {
        let mut trial = Trial::of(WithinCredit::default());
        trial.sees(heard(1, (1000.0, 4.0, 4.0), &[]));
        trial
            .sees(told(WorkVerdict::Deferred))
            .sees(scheduler_turn());
        trial.breaks(sent_for(Some(1), 1, 1.0, true), "it was put off");
    }

    #[test]
    fn what_was_on_its_way_lets_a_request_linger_even_if_it_has_ended_since() {
        let mut trial = one_runs();
        trial.sees(comes_back(2, 1.0, &[], &[]));
        ends(&mut trial, 1, StatusBits::DONE);
        let mut told = told(WorkVerdict::Deferred);
        if let Happening::WorkTold { seq, .. } = &mut told {
            *seq = WorkRequestSeq(2);
        }
        trial.sees(told).sees(scheduler_turn());
        trial.sees(sent_for(Some(2), 2, 1.0, false));
    }

    #[test]
    fn what_is_not_to_linger_is_over_with_its_verdicts() {
        let asked = || {
            let mut asks = heard(1, (1000.0, 4.0, 4.0), &[]);
            if let Happening::WorkHeard { linger, .. } = &mut asks {
                *linger = Duration::ZERO;
            }
            let mut trial = Trial::of(WithinCredit::default());
            trial.sees(asks);
            trial
        };
        let answered = || Happening::WorkAnswered {
            scheduler: sid(1),
            worker: wid(1),
            call: crate::event_log::CallTag(1),
            seq: Some(WorkRequestSeq(1)),
        };
        // Tasks that leave after the answer were placed before it.
        let mut trial = asked();
        trial
            .sees(told(WorkVerdict::Granted(1)))
            .sees(answered())
            .sees(sent_for(Some(1), 1, 1.0, true))
            .sees(scheduler_turn());
        trial.breaks(sent_for(Some(1), 2, 1.0, true), "it was not to linger");
        // An answer to a heartbeat, or one after a second, may leave before all tasks are placed.
        let mut trial = asked();
        trial
            .sees(told(WorkVerdict::Granted(1)))
            .sees(scheduler_turn());
        trial.at(1).sees(answered()).sees(scheduler_turn());
        trial.sees(sent_for(Some(1), 2, 1.0, true));
    }

    #[test]
    fn what_is_on_its_way_is_taken_off() {
        let mut trial = Trial::of(WithinCredit::default());
        trial.sees(heard(1, (0.0, 1.0, 0.0), &[]));
        trial.sees(sent_for(Some(1), 1, 60.0, true)).sees(leaves(1));
        trial.sees(heard(2, (0.0, 2.0, 0.0), &[]));
        trial.sees(sent_for(Some(2), 2, 60.0, true)).sees(leaves(2));
        trial.breaks(sent_for(Some(2), 3, 60.0, true), "is left of CPU");
        // The credit is not reduced if the worker listed the run.
        let mut trial = Trial::of(WithinCredit::default());
        trial.sees(heard(1, (0.0, 1.0, 0.0), &[]));
        trial.sees(sent_for(Some(1), 1, 60.0, true)).sees(leaves(1));
        trial.sees(heard(2, (0.0, 2.0, 0.0), &[1]));
        trial.sees(sent_for(Some(2), 2, 60.0, true)).sees(leaves(2));
        trial.sees(sent_for(Some(2), 3, 60.0, true));
    }

    /// A request that wants idle CPUs back; `over` lists runs that have ended.
    fn comes_back(seq: u64, idle: f64, known: &[i64], over: &[i64]) -> Happening {
        let mut asks = heard(seq, (0.0, 0.0, idle), known);
        if let Happening::WorkHeard {
            demands, over: of, ..
        } = &mut asks
        {
            demands[0].waiting = Some(0.0);
            *of = over.iter().map(|n| run(*n).invocation).collect();
        }
        asks
    }

    fn on_node(number: i64) -> Run {
        let mut run = run(number);
        run.task.node = u16::try_from(number).unwrap();
        run
    }

    fn ends(trial: &mut Trial<WithinCredit>, number: i64, bits: StatusBits) {
        trial.ends(1, 9, on_node(number), bits);
    }

    /// Run 1 was sent for an idle CPU, which comes back.
    fn one_runs() -> Trial<WithinCredit> {
        let mut trial = Trial::of(WithinCredit::default());
        trial.sees(comes_back(1, 1.0, &[], &[]));
        trial.sees(sent_for(Some(1), 1, 1.0, false)).sees(leaves(1));
        trial
    }

    #[test]
    fn an_end_gives_back_once() {
        let mut trial = one_runs();
        ends(&mut trial, 1, StatusBits::DONE);
        ends(&mut trial, 1, StatusBits::DONE);
        trial.sees(sent_for(Some(1), 2, 1.0, false)).sees(leaves(2));
        trial.breaks(sent_for(Some(1), 3, 1.0, false), "is left of CPU");
        // The CPU comes back to whatever request is the newest.
        let mut trial = one_runs();
        trial.sees(comes_back(2, 0.0, &[1], &[]));
        ends(&mut trial, 1, StatusBits::DONE);
        trial.sees(sent_for(Some(2), 2, 1.0, false)).sees(leaves(2));
        trial.breaks(sent_for(Some(2), 3, 1.0, false), "is left of CPU");
    }

    #[test]
    fn what_is_idle_already_or_never_ran_or_was_sent_for_nothing_gives_nothing_back() {
        let mut trial = one_runs();
        trial.sees(comes_back(2, 1.0, &[1], &[1]));
        ends(&mut trial, 1, StatusBits::DONE);
        trial.sees(sent_for(Some(2), 2, 1.0, false)).sees(leaves(2));
        trial.breaks(sent_for(Some(2), 3, 1.0, false), "is left of CPU");
        let never_ran = [
            ReportedStatus::incomplete_backoff("no room").bits(),
            StatusBits::ERROR.with(StatusBits::OVERWRITEABLE),
        ];
        for bits in never_ran {
            let mut trial = one_runs();
            ends(&mut trial, 1, bits);
            trial.breaks(sent_for(Some(1), 2, 1.0, false), "is left of CPU");
        }
        // The request of that time did not want CPUs back.
        let mut trial = Trial::of(WithinCredit::default());
        trial.sees(heard(1, (0.0, 0.0, 1.0), &[]));
        trial.sees(sent_for(Some(1), 1, 1.0, false)).sees(leaves(1));
        trial.sees(comes_back(2, 0.0, &[1], &[]));
        ends(&mut trial, 1, StatusBits::DONE);
        trial.breaks(sent_for(Some(2), 2, 1.0, false), "is left of CPU");
    }

    /// Sends a task that is to choose one K40.
    fn chooses(trial: &mut Trial<WithinCredit>, number: i64, bufferable: bool) -> Happening {
        let wanted = WantedCards {
            milli: 1000,
            counts_as: Some("K40".to_owned()),
        };
        let run = on_node(number);
        trial.sees(Happening::WantsCards { run, wanted });
        sent_for(Some(1), number, 60.0, bufferable)
    }

    /// The worker requested one card, and a task that takes it was sent.
    fn takes_the_card(bufferable: bool) -> Trial<WithinCredit> {
        let mut asks = heard(1, (0.0, 1.0, 1.0), &[]);
        if let Happening::WorkHeard { demands, .. } = &mut asks {
            demands[0].processor = Processor::named("K40");
        }
        let mut trial = Trial::of(WithinCredit::default());
        trial.sees(asks);
        let sends = chooses(&mut trial, 1, bufferable);
        trial.sees(sends).sees(leaves(1));
        trial
    }

    #[test]
    fn who_is_turned_down_for_want_of_cards_took_nothing() {
        let is_over = |outcome| over(1, 1, 1, ask_run(on_node(1)), outcome);
        let busy = || is_over(OutcomeKind::Refused(RefusalCode::Busy));
        let mut trial = takes_the_card(false);
        trial.sees(busy()).sees(busy());
        let next = chooses(&mut trial, 2, false);
        trial.sees(next).sees(leaves(2));
        let more = chooses(&mut trial, 3, false);
        trial.breaks(more, "is left of K40");
        let mut trial = takes_the_card(false);
        let next = chooses(&mut trial, 2, false);
        trial.breaks(next, "is left of K40");
        // Other outcomes are no refusal for lack of GPUs.
        for (bufferable, outcome) in [
            (true, OutcomeKind::Refused(RefusalCode::Busy)),
            (false, OutcomeKind::Refused(RefusalCode::Unhealthy)),
            (false, OutcomeKind::Unknown),
        ] {
            let mut trial = takes_the_card(bufferable);
            trial.sees(is_over(outcome));
            let next = chooses(&mut trial, 2, bufferable);
            trial.breaks(next, "is left of K40");
        }
    }

    #[test]
    fn credit_ends_with_health_time_and_association() {
        let asked = || {
            let mut trial = Trial::of(WithinCredit::default());
            trial.at(10).sees(heard(1, (0.0, 9.0, 9.0), &[]));
            trial.sees(scheduler_turn());
            trial
        };
        let sick = decided(1, 1, Health::Unhealthy, set(1, 1, &[1]));
        asked()
            .sees(sick)
            .breaks(sent_for(Some(1), 1, 1.0, true), "was not HEALTHY since");
        asked()
            .at(100)
            .breaks(sent_for(Some(1), 1, 1.0, true), "whose time is over");
        let gone = left(1, 4, 1, LeftCause::Lost, 0);
        asked()
            .sees(gone)
            .breaks(sent_for(Some(1), 1, 1.0, true), "of which it has not heard");
        // A worker that never asked in this association gets what the slots allow, whatever it did before.
        asked().breaks(sent_for(None, 1, 1.0, true), "the newest is 1");
        let gone = left(1, 4, 1, LeftCause::Lost, 0);
        asked().sees(gone).sees(sent_for(None, 1, 1.0, true));
    }
}
