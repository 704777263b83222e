//! Law `within_credit`: A worker that asks for work, or says that it will, is sent tasks only for the newest request of its association, as long as that is good: one that may wait there while seconds or instances of its type are left, any other while idle instances are. Each takes off what it uses, so does what was on its way when the request came, and nothing gives any back but the end of a run, which leaves idle what it took, if the worker wants that, and the refusal of one that may not wait by a worker that chooses cards and had none for it.
//!
//! Source: C1 to C4 of work fetch. No credit outlives its association, its scheduler, or a moment at which the worker was not HEALTHY

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use brasserie_common::work::DEFAULT_ESTIMATE;
use brasserie_common::worker::Supply;
use brasserie_common::{
    Health, InvocationId, Processor, RefusalCode, SchedulerId, Time, WorkRequestSeq, WorkTerms,
    WorkVerdict, WorkerId,
};
use brasserie_common_config::PhysicalKind;

use super::{Law, Violation};
use crate::event_log::{
    Ask, Fact, Happening, OutcomeKind, RejectionKind, Run, TaskId, WantedCards,
};
use crate::hosts::worker::WorkerHost;
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
    /// For which it was sent.
    request: Option<WorkRequestSeq>,
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
    turns: u64,
}

impl Law for WithinCredit {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statement(&self) -> &'static str {
        "A worker that asks for work, or says that it will, is sent tasks only for the newest request of its association, as long as that is good: one that may wait there while seconds or instances of its type are left, any other while idle instances are. Each takes off what it uses, so does what was on its way when the request came, and nothing gives any back but the end of a run, which leaves idle what it took, if the worker wants that, and the refusal of one that may not wait by a worker that chooses cards and had none for it."
    }

    fn observe(
        &mut self,
        when: Time,
        happening: &Happening,
        world: &World<'_>,
    ) -> Result<(), Violation> {
        self.note_cards(happening);
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
        match happening {
            Happening::WorkHeard { .. } => self.heard(when, happening),
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
            }
            Happening::HeartbeatDecided {
                scheduler,
                worker,
                state,
                ..
            } if *state != Health::Healthy => {
                self.over((*scheduler, *worker), "its worker was not HEALTHY since");
            }
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
            Happening::EndWritten { scheduler, run, .. } => self.ended(*scheduler, *run),
            Happening::CallOver {
                scheduler,
                worker,
                ask: Ask::Run { run, .. },
                outcome: OutcomeKind::Refused(RefusalCode::Busy),
                ..
            } => self.turned_down((*scheduler, *worker), *run),
            Happening::SchedulerTurn { .. } => {
                self.turns += 1;
                for credit in self.credits.values_mut() {
                    credit.is_over = credit.is_over.or(credit.ends.take());
                }
            }
            Happening::SchedulerStopped { scheduler, .. } => {
                self.credits.retain(|(of, _), _| of != scheduler);
            }
            _ => {}
        }
        Ok(())
    }

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
        let left = demands.iter().map(|d| (d.processor.clone(), Left::of(d)));
        let credit = Credit {
            seq: *seq,
            heard: when,
            turn: self.turns,
            linger: (*linger).min(LONGEST),
            left: left.collect(),
            known: known.as_ref().map(|known| known.iter().copied().collect()),
            is_over: None,
            ends: None,
        };
        self.credits.insert(of, credit);
    }

    fn turned_down(&mut self, of: (SchedulerId, WorkerId), run: Run) {
        let piece = self.pieces.get(&run);
        let piece = piece.filter(|piece| !piece.may_wait && self.chosen_there.contains(&run));
        let credit = self.credits.get_mut(&of);
        if let Some((credit, piece)) = credit.zip(piece)
            && piece.request == Some(credit.seq)
            && let Some(left) = (piece.processor.as_ref()).and_then(|of| credit.left.get_mut(of))
        {
            left.take_back(piece.usage, piece.seconds);
        }
    }

    /// A run that was over when the worker asked may give back here what it does not there, and one that had cards of another model than it
    /// counted as may be counted as either: it is lenient.
    fn ended(&mut self, scheduler: SchedulerId, run: Run) {
        let Some((_, worker)) = self
            .runs
            .get(scheduler, run.task)
            .filter(|(r, _)| *r == run)
        else {
            return;
        };
        let credit = self.credits.get_mut(&(scheduler, worker));
        if let Some((credit, piece)) = credit.zip(self.pieces.get(&run))
            && let Some(processor) = &piece.processor
        {
            let had = self.had.get(&run).filter(|had| *had != processor);
            for processor in had.into_iter().chain([processor]) {
                if let Some(left) = credit.left.get_mut(processor) {
                    left.give_back(piece.usage);
                }
            }
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
        let nothing_comes = known.is_some() && self.runs.on_worker(of.0, of.1).all(is_known);
        if nothing_comes && verdicts.len() > 0 && verdicts.clone().all(is_put_off) {
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
        let looks_at_cards = (world.config.physical_resources.iter())
            .any(|entry| entry.kind == PhysicalKind::GpuCard);
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
        if let Some(known) = credit.known.take().filter(|_| !looks_at_cards) {
            for task in self.runs.on_worker(of.0, of.1) {
                let Some((other, _)) = self.runs.get(of.0, task) else {
                    continue;
                };
                let on_its_way = self.pieces.get(&other).filter(|_| other != run);
                let on_its_way = on_its_way.filter(|_| !known.contains(&other.invocation));
                if let Some(piece) = on_its_way
                    && let Some(left) = credit.left.get_mut(&Processor::Cpu)
                {
                    // Its job may be gone: then its scheduler knows no better. And what was learned since may be less.
                    let said = said(world, other.task).min(DEFAULT_ESTIMATE);
                    left.take(piece.usage.min(1.0), piece.seconds.min(said));
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
            request: terms.request,
            may_wait: terms.bufferable,
        }
    }
}

/// The same of one whose worker chooses them: it counts as what its scheduler says.
fn wanted_cards(wanted: &WantedCards) -> (Option<Processor>, f64) {
    let model = wanted.counts_as.as_deref();
    (
        model.map(Processor::named),
        f64::from(wanted.milli) / 1000.0,
    )
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

/// How many cards a run takes, and of which model if it must be one; `None`: none.
fn cards(charges: &[(String, i32)], gpus: &[(String, u32)]) -> Option<(Option<Processor>, f64)> {
    let milli: u32 = gpus.iter().map(|(_, milli)| milli).sum();
    if milli == 0 {
        return None;
    }
    let prefix = brasserie_common_config::CARD_PREFIX;
    let mut named = charges.iter().filter(|(_, amount)| *amount > 0);
    let model = named.find_map(|(name, _)| name.strip_prefix(prefix));
    Some((model.map(Processor::named), f64::from(milli) / 1000.0))
}

#[cfg(test)]
mod tests {
    use super::super::trial::*;
    use super::*;
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

    /// Asks for cards, of which so many are idle, and is sent a task that is to choose so many of them.
    fn of_cards(idle: f64, bufferable: bool) -> (Trial<WithinCredit>, Happening) {
        let mut asks = heard(1, (0.0, 0.0, idle), &[]);
        if let Happening::WorkHeard { demands, .. } = &mut asks {
            demands[0].processor = Processor::named("K40");
            demands[0].instances = idle;
        }
        let sends = sent_for(Some(1), 1, 60.0, bufferable);
        let Happening::SentAsWork { run, .. } = sends else {
            panic!("it is sent as work")
        };
        let wanted = WantedCards {
            milli: 1000,
            counts_as: Some("K40".to_owned()),
        };
        let mut trial = Trial::of(WithinCredit::default());
        trial.sees(asks);
        trial.sees(Happening::WantsCards { run, wanted });
        trial.sees(sends);
        let over = Happening::CallOver {
            place: crate::event_log::SchedulerPlace(0),
            scheduler: sid(1),
            worker: wid(1),
            call: crate::event_log::CallTag(1),
            ask: ask_run(run),
            outcome: OutcomeKind::Refused(RefusalCode::Busy),
        };
        (trial, over)
    }

    fn sends_another(trial: &mut Trial<WithinCredit>, bufferable: bool) -> Happening {
        let next = sent_for(Some(1), 2, 60.0, bufferable);
        if let Happening::SentAsWork { run, .. } = next {
            let wanted = WantedCards {
                milli: 1000,
                counts_as: Some("K40".to_owned()),
            };
            trial.sees(Happening::WantsCards { run, wanted });
        }
        next
    }

    #[test]
    fn who_is_turned_down_for_want_of_cards_took_nothing() {
        let (mut trial, over) = of_cards(1.0, false);
        trial.sees(over);
        let next = sends_another(&mut trial, false);
        trial.sees(next);
        let more = sends_another(&mut trial, false);
        trial.breaks(more, "is left of K40");
        // Not before, and not if it could have waited.
        let (mut trial, _) = of_cards(1.0, false);
        let next = sends_another(&mut trial, false);
        trial.breaks(next, "is left of K40");
        let (mut trial, over) = of_cards(1.0, true);
        trial.sees(over);
        let next = sends_another(&mut trial, true);
        trial.breaks(next, "is left of K40");
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
