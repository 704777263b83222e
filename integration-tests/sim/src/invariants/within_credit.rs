//! Law `within_credit`: A worker that asks for work, or says that it will, is sent tasks only for the newest request of its association, as long as that is good: one that may wait there while seconds or instances of its type are left, any other while idle instances are. Each takes off what it uses, so does what was on its way when the request came, and nothing gives any back, each run once, but the end of a run of its own accord, which leaves idle what it took, if the worker wants that and did not know it to be over, and the refusal of one that may not wait by a worker that chooses cards and had none for it.
//!
//! Source: C1 to C4 of work fetch. No credit outlives its association, its scheduler, or a moment at which the worker was not HEALTHY

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use brasserie_common::work::DEFAULT_ESTIMATE;
use brasserie_common::worker::Supply;
use brasserie_common::{
    Health, InvocationId, Processor, RefusalCode, ReportedStatus, SchedulerId, StatusBits, Time,
    WorkRequestSeq, WorkTerms, WorkVerdict, WorkerId,
};

use super::{Law, Violation};
use crate::event_log::{Ask, Fact, Happening, OutcomeKind, RejectionKind, Run, TaskId};
use crate::hosts::worker::WorkerHost;
use crate::model::card_needs::{CardNeeds, cards, wanted_cards};
use crate::model::drift;
use crate::model::left::Left;
use crate::model::machines::Machines;
use crate::model::runs::Runs;
use crate::view::World;

const NAME: &str = "within_credit";
/// Whoever has no verdicts by then is answered all the same.
const ANSWER: Duration = Duration::from_secs(1);
/// How long a request without verdicts stays good.
const OPEN: Duration = Duration::from_secs(30);
/// However long a worker would have its request stay good.
const LONGEST: Duration = Duration::from_secs(120);
/// A turn is judged by the time at which it ends.
const SLACK: Duration = Duration::from_secs(1);

/// The newest request of an association.
#[derive(Debug)]
struct Credit {
    seq: WorkRequestSeq,
    heard: Time,
    turn: u64,
    linger: Duration,
    left: BTreeMap<Processor, Left>,
    /// Until the first task is sent for it: what its worker knew of.
    known: Option<BTreeSet<InvocationId>>,
    /// Something was on its way that its worker did not know of: all that it asked for may have been, and then it lingers.
    met_others: bool,
    /// What was over as its worker counted its idle processors.
    over: BTreeSet<InvocationId>,
    /// Runs that were taken off, as they were sent for it or on their way.
    spent: BTreeSet<Run>,
    /// Why nothing may be sent for it any more.
    is_over: Option<&'static str>,
    /// Why nothing may be sent for it after this turn.
    ends: Option<&'static str>,
}

impl Credit {
    /// Whether something may be sent for this request, or why not.
    fn check(
        &self,
        when: Time,
        request: Option<WorkRequestSeq>,
        world: &World<'_>,
    ) -> Result<(), String> {
        let newest = self.seq.0;
        if request != Some(self.seq) {
            return Err(format!("for {request:?}, and the newest is {newest}"));
        }
        if let Some(why) = self.is_over {
            return Err(format!("for request {newest}, and {why}"));
        }
        let longest = drift::at_most(world, self.linger.max(OPEN)) + SLACK;
        match when > self.heard + longest {
            true => Err(format!("for request {newest}, whose time is over")),
            false => Ok(()),
        }
    }
}

/// Whether it says so in its heartbeats, if it is there.
fn asks_for_work(world: &World<'_>, worker: WorkerId) -> bool {
    let mut there = world.workers.iter().filter_map(WorkerHost::core);
    there.any(|own| own.description().id == worker && own.description().supply == Supply::AsAsked)
}

/// A run as a piece of work.
#[derive(Clone, Debug)]
struct Piece {
    /// `None`: cards of whichever model.
    processor: Option<Processor>,
    usage: f64,
    seconds: f64,
    may_wait: bool,
}

#[derive(Default)]
pub struct WithinCredit {
    runs: Runs,
    credits: BTreeMap<(SchedulerId, WorkerId), Credit>,
    /// Cards of the run that is sent next: of which model, if it must be one, and how many.
    cards: Option<(Run, Option<Processor>, f64)>,
    pieces: BTreeMap<Run, Piece>,
    /// Runs whose workers choose their cards.
    chosen_there: BTreeSet<Run>,
    machines: Machines,
    /// Cards of which model runs have.
    had: BTreeMap<Run, Processor>,
    /// What runs of an association, sent for requests whose idle processors come back, have not given back yet.
    took: BTreeMap<(SchedulerId, WorkerId), BTreeSet<Run>>,
    needs: CardNeeds,
    turns: u64,
}

impl Law for WithinCredit {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statement(&self) -> &'static str {
        "A worker that asks for work, or says that it will, is sent tasks only for the newest request of its association, as long as that is good: one that may wait there while seconds or instances of its type are left, any other while idle instances are. Each takes off what it uses, so does what was on its way when the request came, and nothing gives any back, each run once, but the end of a run of its own accord, which leaves idle what it took, if the worker wants that and did not know it to be over, and the refusal of one that may not wait by a worker that chooses cards and had none for it."
    }

    fn observe(
        &mut self,
        when: Time,
        happening: &Happening,
        world: &World<'_>,
    ) -> Result<(), Violation> {
        self.needs.look_at(world.config);
        let verdict = self.judge(when, happening, world);
        self.machines.note(happening);
        self.runs.note(happening);
        verdict
    }
}

impl WithinCredit {
    fn judge(
        &mut self,
        when: Time,
        happening: &Happening,
        world: &World<'_>,
    ) -> Result<(), Violation> {
        self.note_ends(happening);
        self.note_cards(happening);
        match happening {
            Happening::WorkHeard { .. } => self.heard(when, happening),
            Happening::WorkTold {
                scheduler,
                worker,
                seq,
                verdicts,
                ..
            } => self.told((*scheduler, *worker), *seq, verdicts),
            Happening::SentAsWork {
                scheduler,
                worker,
                run,
                terms,
            } => return self.sent(when, (*scheduler, *worker), (*run, terms), world),
            Happening::WorkAnswered {
                scheduler,
                worker,
                seq: Some(seq),
                ..
            } => self.answered(when, (*scheduler, *worker), *seq, world),
            Happening::CallOver {
                scheduler,
                worker,
                ask: Ask::Run { run, .. },
                outcome: OutcomeKind::Refused(RefusalCode::Busy),
                ..
            } => self.turned_down((*scheduler, *worker), *run),
            Happening::EndWritten {
                scheduler,
                run,
                bits,
                ..
            } => self.ended(*scheduler, *run, *bits),
            _ => {}
        }
        Ok(())
    }

    /// What ends credits, whatever was asked.
    fn note_ends(&mut self, happening: &Happening) {
        match happening {
            // One that was meant for an earlier scheduler leaves the credit as it is.
            Happening::WorkRejected {
                scheduler,
                worker,
                why: RejectionKind::UnknownWorker,
            }
            | Happening::AssociationBegan {
                scheduler, worker, ..
            }
            | Happening::RecordWritten {
                scheduler,
                fact: Fact::WorkerAssociated { worker, .. } | Fact::WorkerLeft { worker, .. },
                ..
            } => {
                self.credits.remove(&(*scheduler, *worker));
                self.took.remove(&(*scheduler, *worker));
            }
            Happening::HeartbeatDecided {
                scheduler,
                worker,
                state,
                ..
            } if *state != Health::Healthy => {
                self.over((*scheduler, *worker), "its worker was not HEALTHY since");
            }
            Happening::SchedulerTurn { .. } => {
                self.turns += 1;
                for credit in self.credits.values_mut() {
                    credit.is_over = credit.is_over.or(credit.ends.take());
                }
            }
            Happening::SchedulerStopped { scheduler, .. } => {
                self.credits.retain(|(of, _), _| of != scheduler);
                self.took.retain(|(of, _), _| of != scheduler);
            }
            _ => {}
        }
    }

    /// What runs take of cards.
    fn note_cards(&mut self, happening: &Happening) {
        match happening {
            Happening::WantsCards { run, wanted } => {
                self.chosen_there.insert(*run);
                let (of, cards) = wanted_cards(wanted);
                self.cards = Some((*run, of, cards));
            }
            Happening::Charged {
                run, charges, gpus, ..
            } => {
                let is_known = |(known, ..): &(Run, Option<Processor>, f64)| known == run;
                let chosen = cards(charges, gpus).map(|(of, cards)| (*run, of, cards));
                self.cards = chosen.or(self.cards.take().filter(is_known));
            }
            Happening::HasCards { worker, run, gpus } => {
                let machine = self.machines.get(*worker);
                let first = machine.zip(gpus.first());
                let model = first.and_then(|(machine, (device, _))| machine.devices.get(device));
                if let Some(model) = model {
                    self.had.insert(*run, Processor::named(model));
                }
            }
            _ => {}
        }
    }

    fn heard(&mut self, when: Time, happening: &Happening) {
        let Happening::WorkHeard {
            scheduler,
            worker,
            meant,
            seq,
            demands,
            known,
            over,
            linger,
        } = happening
        else {
            return;
        };
        let of = (*scheduler, *worker);
        let newest = self.credits.get(&of).map(|credit| credit.seq);
        // What was heard already, or is older, sets nothing.
        if meant != scheduler || newest.is_some_and(|newest| newest >= *seq) {
            return;
        }
        let knows = |task| {
            let known = known.as_ref();
            let run = self.runs.get(of.0, task);
            run.is_none_or(|(run, _)| known.is_some_and(|known| known.contains(&run.invocation)))
        };
        let met_others = !self.runs.on_worker(of.0, of.1).all(knows);
        let left = demands.iter().map(|d| (d.processor.clone(), Left::of(d)));
        let credit = Credit {
            seq: *seq,
            heard: when,
            turn: self.turns,
            linger: (*linger).min(LONGEST),
            left: left.collect(),
            known: known.as_ref().map(|known| known.iter().copied().collect()),
            met_others,
            over: over.iter().copied().collect(),
            spent: BTreeSet::new(),
            is_over: None,
            ends: None,
        };
        self.credits.insert(of, credit);
    }

    /// Each run once, and not what is idle in the request already, nor what was not the task's own end: such a run may never have begun.
    fn ended(&mut self, scheduler: SchedulerId, run: Run, bits: StatusBits) {
        let running = self.runs.get(scheduler, run.task);
        let Some((_, worker)) = running.filter(|(running, _)| *running == run) else {
            return;
        };
        let of = (scheduler, worker);
        let has_taken = (self.took.get_mut(&of)).is_some_and(|took| took.remove(&run));
        if let Some((credit, piece)) = self.credits.get_mut(&of).zip(self.pieces.remove(&run))
            && has_taken
            && leaves_idle(bits)
            && !credit.over.contains(&run.invocation)
            && let Some(processor) = &piece.processor
        {
            // One that had cards of another model than it counted as may be counted as either.
            let had = self.had.get(&run).filter(|had| *had != processor);
            for processor in had.into_iter().chain([processor]) {
                if let Some(left) = credit.left.get_mut(processor) {
                    left.give_back(piece.usage);
                }
            }
        }
    }

    /// That it did not begin is certain, as its worker had no cards for it: what was spent for it is there again, once.
    fn turned_down(&mut self, of: (SchedulerId, WorkerId), run: Run) {
        if let Some(took) = self.took.get_mut(&of) {
            took.remove(&run);
        }
        let credit = self.credits.get_mut(&of);
        if let Some(credit) = credit
            && credit.spent.remove(&run)
            && self.chosen_there.contains(&run)
            && let Some(piece) = self.pieces.get(&run).filter(|piece| !piece.may_wait)
            && let Some(processor) = &piece.processor
            && let Some(left) = credit.left.get_mut(processor)
        {
            left.take_back(piece.usage, piece.seconds);
        }
    }

    /// What came in this very turn is not over by what was decided before it.
    fn over(&mut self, of: (SchedulerId, WorkerId), why: &'static str) {
        let turns = self.turns;
        let credit = self.credits.get_mut(&of);
        if let Some(credit) = credit.filter(|credit| credit.turn < turns) {
            credit.is_over.get_or_insert(why);
        }
    }

    fn told(
        &mut self,
        of: (SchedulerId, WorkerId),
        seq: WorkRequestSeq,
        verdicts: &[(Processor, WorkVerdict)],
    ) {
        let Some(credit) = self.credits.get_mut(&of).filter(|credit| credit.seq == seq) else {
            return;
        };
        let mut verdicts = verdicts.iter().map(|(_, verdict)| verdict);
        let is_put_off = |verdict: &WorkVerdict| *verdict == WorkVerdict::Deferred;
        // It was not looked at; or all that it asked for was on its way, and then it lingers.
        let known = credit.known.as_ref();
        let is_known = |task| {
            let run = self.runs.get(of.0, task);
            run.is_none_or(|(run, _)| known.is_some_and(|known| known.contains(&run.invocation)))
        };
        let knows_all = !credit.met_others && self.runs.on_worker(of.0, of.1).all(is_known);
        if known.is_some() && knows_all && verdicts.len() > 0 && verdicts.clone().all(is_put_off) {
            credit.ends.get_or_insert("it was put off");
        }
        // Where something was sent for a type, more may follow.
        let is_final = |verdict: &WorkVerdict| match verdict {
            WorkVerdict::Pending | WorkVerdict::Granted(_) => false,
            WorkVerdict::NoWork
            | WorkVerdict::Limited
            | WorkVerdict::Deadline
            | WorkVerdict::NoApps
            | WorkVerdict::Deferred
            | WorkVerdict::Stale => true,
        };
        if verdicts.any(is_final) && credit.linger.is_zero() {
            credit.is_over.get_or_insert("it was not to linger");
        }
    }

    /// Within a second a request is answered only once it has its verdicts; GRANTED may be told before.
    fn answered(
        &mut self,
        when: Time,
        of: (SchedulerId, WorkerId),
        seq: WorkRequestSeq,
        world: &World<'_>,
    ) {
        let sooner = drift::at_least(world, ANSWER);
        let credit = self.credits.get_mut(&of);
        let credit = credit.filter(|credit| credit.seq == seq && credit.linger.is_zero());
        if let Some(credit) = credit.filter(|credit| when < credit.heard + sooner) {
            credit.ends.get_or_insert("it was not to linger");
        }
    }

    fn sent(
        &mut self,
        when: Time,
        of: (SchedulerId, WorkerId),
        (run, terms): (Run, &WorkTerms),
        world: &World<'_>,
    ) -> Result<(), Violation> {
        let broken = |what: String| {
            let (scheduler, worker) = of;
            let text = format!(
                "scheduler {scheduler} sends {} to worker {worker}, {what}",
                run.task
            );
            Err(Violation::new(NAME, text))
        };
        let piece = self.piece(run, terms);
        self.pieces.insert(run, piece.clone());
        let Some(credit) = self.credits.get_mut(&of) else {
            return match terms.request {
                None if asks_for_work(world, of.1) => {
                    broken("which asks for work, and has not yet".to_owned())
                }
                None => Ok(()),
                Some(seq) => broken(format!(
                    "for request {}, of which it has not heard in this association",
                    seq.0
                )),
            };
        };
        if let Err(why) = credit.check(when, terms.request, world) {
            return broken(why);
        }
        if let Some(known) = credit.known.take() {
            let others = self.runs.on_worker(of.0, of.1);
            let others = others.filter_map(|task| Some(self.runs.get(of.0, task)?.0));
            for other in others.filter(|other| *other != run) {
                if !known.contains(&other.invocation)
                    && let Some(piece) = self.pieces.get(&other)
                    && let Some(processor) = &piece.processor
                    && let Some(usage) = self.needs.still(other.task, (processor, piece.usage))
                    && let Some(left) = credit.left.get_mut(processor)
                {
                    // Its job may be gone: then its scheduler knows no better. And what was learned since may be less.
                    let said = said(world, other.task).min(DEFAULT_ESTIMATE);
                    left.take(usage, piece.seconds.min(said));
                    credit.spent.insert(other);
                }
            }
        }
        let Some(processor) = &piece.processor else {
            let mut all = credit.left.iter().filter(|(of, _)| **of != Processor::Cpu);
            let allowed = all.any(|(_, left)| left.allows(terms.bufferable) && !left.is_nothing());
            return match allowed {
                true => Ok(()),
                false => broken("although it has no credit left for any cards".to_owned()),
            };
        };
        let Some(left) = credit.left.get_mut(processor) else {
            return broken(format!("although it asked for nothing of {processor}"));
        };
        if !left.allows(terms.bufferable) {
            return broken(format!("although {left:?} is left of {processor}"));
        }
        left.take(piece.usage, piece.seconds);
        left.settle();
        if left.comes_back() {
            self.took.entry(of).or_default().insert(run);
        }
        credit.spent.insert(run);
        Ok(())
    }

    fn piece(&mut self, run: Run, terms: &WorkTerms) -> Piece {
        let cards = self.cards.take().filter(|(of, ..)| *of == run);
        let (processor, usage) = match cards {
            Some((_, of, cards)) => (of, cards),
            None => (Some(Processor::Cpu), terms.cpus.unwrap_or(1.0)),
        };
        Piece {
            processor,
            usage,
            seconds: terms.est_duration.unwrap_or(DEFAULT_ESTIMATE),
            may_wait: terms.bufferable,
        }
    }
}

/// Whether what a run took is idle now.
fn leaves_idle(bits: StatusBits) -> bool {
    let not_its_own = ReportedStatus::incomplete_backoff("").bits();
    bits != not_its_own && !bits.has(StatusBits::OVERWRITEABLE)
}

/// Seconds that a task takes, where its job says so: else they change with each one that ends.
fn said(world: &World<'_>, task: TaskId) -> f64 {
    let name = format!("j{}", task.job);
    let job = world
        .config
        .jobs
        .iter()
        .find(|job| job.name.as_str() == name);
    let said = job.and_then(|job| job.est_duration);
    said.map_or(0.0, |said| said.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::super::trial::*;
    use super::*;
    use crate::event_log::WantedCards;
    use brasserie_common::WorkDemand;
    use brasserie_scheduler_core::LeftCause;

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

    /// A task of so many seconds.
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
        // What a heartbeat is answered, or who has waited for a second, may be told before all is placed.
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
        // Unless its worker counts it.
        let mut trial = Trial::of(WithinCredit::default());
        trial.sees(heard(1, (0.0, 1.0, 0.0), &[]));
        trial.sees(sent_for(Some(1), 1, 60.0, true)).sees(leaves(1));
        trial.sees(heard(2, (0.0, 2.0, 0.0), &[1]));
        trial.sees(sent_for(Some(2), 2, 60.0, true)).sees(leaves(2));
        trial.sees(sent_for(Some(2), 3, 60.0, true));
    }

    /// Wants idle CPUs back that were taken; these runs are listed as over.
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
        for happening in ended(1, 9, on_node(number), bits) {
            trial.sees(happening);
        }
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
        // To whatever its worker asked meanwhile.
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
        // Nobody wanted it back as it was sent.
        let mut trial = Trial::of(WithinCredit::default());
        trial.sees(heard(1, (0.0, 0.0, 1.0), &[]));
        trial.sees(sent_for(Some(1), 1, 1.0, false)).sees(leaves(1));
        trial.sees(comes_back(2, 0.0, &[1], &[]));
        ends(&mut trial, 1, StatusBits::DONE);
        trial.breaks(sent_for(Some(2), 2, 1.0, false), "is left of CPU");
    }

    /// A task is to choose one K40.
    fn chooses(trial: &mut Trial<WithinCredit>, number: i64, bufferable: bool) -> Happening {
        let wanted = WantedCards {
            milli: 1000,
            counts_as: Some("K40".to_owned()),
        };
        let run = on_node(number);
        trial.sees(Happening::WantsCards { run, wanted });
        sent_for(Some(1), number, 60.0, bufferable)
    }

    /// One card was asked for, and a task sent that takes it.
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
        // Nor was it turned down for that otherwise.
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
        // Who never asked in this association gets what there are slots for, who did nothing else.
        asked().breaks(sent_for(None, 1, 1.0, true), "the newest is 1");
        let gone = left(1, 4, 1, LeftCause::Lost, 0);
        asked().sees(gone).sees(sent_for(None, 1, 1.0, true));
    }
}
