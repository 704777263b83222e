//! Law `within_credit`: A worker that asks for work, or says that it will, is sent tasks only for the newest request of its association, as
//! long as that is good: one that may wait there while seconds or instances of its type are left, any other while idle instances are. Each
//! takes off what it uses, so does what was on its way when the request came, and nothing gives any back, each run once, but the end of a
//! run of its own accord, which leaves idle what it took, if the worker wants that and did not know it to be over, and the refusal of one
//! that may not wait by a worker that chooses cards and had none for it.
//!
//! Source: thrift/PROTOCOL.md, Requests for work. A credit ends with its association, its scheduler, or the worker's HEALTHY state.

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
/// Requests without verdicts are answered after this time.
const ANSWER: Duration = Duration::from_secs(1);
/// How long a request without verdicts stays good.
const OPEN: Duration = Duration::from_secs(30);
/// The longest time for which a request stays good, whatever the worker asks for.
const LONGEST: Duration = Duration::from_secs(120);
/// A turn counts from the time at which it ends.
const SLACK: Duration = Duration::from_secs(1);

/// The newest request of an association.
#[derive(Debug)]
struct Credit {
    seq: WorkRequestSeq,
    heard: Time,
    turn: u64,
    linger: Duration,
    left: BTreeMap<Processor, Left>,
    /// The runs that the worker knew; `None` once the first task was sent for the request.
    known: Option<BTreeSet<InvocationId>>,
    /// A run was under way that the worker did not know. It may have covered the whole request, which then lingers.
    met_others: bool,
    /// Runs that were over when the worker counted its idle processors.
    over: BTreeSet<InvocationId>,
    /// Runs that were subtracted, because they were sent for the request or were under way.
    spent: BTreeSet<Run>,
    /// Why nothing may be sent for the request any more.
    is_over: Option<&'static str>,
    /// Why nothing may be sent for the request after this turn.
    ends: Option<&'static str>,
}

impl Credit {
    /// Returns whether another task may be sent for this request, or why not.
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

/// Returns whether the worker is alive and says in its heartbeats that it requests work.
fn asks_for_work(world: &World<'_>, worker: WorkerId) -> bool {
    let mut there = world.workers.iter().filter_map(WorkerHost::core);
    there.any(|own| own.description().id == worker && own.description().supply == Supply::AsAsked)
}

/// A run as a piece of work.
#[derive(Clone, Debug)]
struct Piece {
    /// The type of processor; `None` for GPUs of any model.
    processor: Option<Processor>,
    usage: f64,
    seconds: f64,
    may_wait: bool,
}

#[derive(Default)]
pub struct WithinCredit {
    runs: Runs,
    credits: BTreeMap<(SchedulerId, WorkerId), Credit>,
    /// GPUs of the run that is sent next: the model if it must be one, and the number.
    cards: Option<(Run, Option<Processor>, f64)>,
    pieces: BTreeMap<Run, Piece>,
    /// Runs whose workers choose their GPUs.
    chosen_there: BTreeSet<Run>,
    machines: Machines,
    /// The GPU model that each run had.
    had: BTreeMap<Run, Processor>,
    /// Runs of an association that were sent for requests whose idle processors come back, and have not given them back yet.
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

    /// Handles happenings that end credits, whatever was requested.
    fn note_ends(&mut self, happening: &Happening) {
        match happening {
            // A rejection meant for an earlier scheduler leaves the credit unchanged.
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

    /// Records the GPUs that runs take.
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
        // A request that is repeated or older changes nothing.
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

    /// Gives back the processors of a run, once. Leaves out those that the request already counts as idle, and completions that are not the
    /// task's own: such a run may never have begun.
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
            // A run that had GPUs of another model than it counted as may count as either.
            let had = self.had.get(&run).filter(|had| *had != processor);
            for processor in had.into_iter().chain([processor]) {
                if let Some(left) = credit.left.get_mut(processor) {
                    left.give_back(piece.usage);
                }
            }
        }
    }

    /// Gives back the credit of a run that certainly did not begin, because its worker had no GPUs for it. Each run counts once.
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

    /// Ends the credit. A request that came in this very turn is not affected, because the decision is older.
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
        // The scheduler deferred the request, or runs under way covered all of it, and then the request lingers.
        let known = credit.known.as_ref();
        let is_known = |task| {
            let run = self.runs.get(of.0, task);
            run.is_none_or(|(run, _)| known.is_some_and(|known| known.contains(&run.invocation)))
        };
        let knows_all = !credit.met_others && self.runs.on_worker(of.0, of.1).all(is_known);
        if known.is_some() && knows_all && verdicts.len() > 0 && verdicts.clone().all(is_put_off) {
            credit.ends.get_or_insert("it was put off");
        }
        // More tasks may follow for a type for which one was sent.
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

    /// Ends the credit of a request that does not linger. An answer within the first second has all its verdicts, but GRANTED may be
    /// reported earlier.
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
                    // If its job is gone, its scheduler has no better estimate. A later learned estimate may be smaller.
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

/// Returns whether the processors of a completed run are idle now.
fn leaves_idle(bits: StatusBits) -> bool {
    let not_its_own = ReportedStatus::incomplete_backoff("").bits();
    bits != not_its_own && !bits.has(StatusBits::OVERWRITEABLE)
}

/// Returns the seconds that the job states for a task. A learned estimate would change with each completion.
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
