//! The law about the credit of pull workers, with its own count of the credit that is left.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use brasserie_common::work::DEFAULT_ESTIMATE;
use brasserie_common::worker::Supply;
use brasserie_common::{
    Health, InvocationId, Processor, RefusalCode, ReportedStatus, SchedulerId, StatusBits, Time,
    WorkDemand, WorkRequestSeq, WorkTerms, WorkVerdict, WorkerId,
};

use super::{Law, Moment, Verdict, law};
use crate::event_log::{Ask, Fact, Happening, OutcomeKind, RejectionKind, Run, TaskId};
use crate::hosts::worker::WorkerHost;
use crate::model::card_needs::{CardNeeds, cards, wanted_cards};
use crate::view::World;

#[cfg(test)]
mod tests;

law! {
    /// A pull worker, or one that announces requests, is sent tasks only for the newest request of its association, as long as that is valid. A
    /// bufferable task is sent while seconds or instances of its type are left, any other while idle instances are. Each task subtracts what it uses,
    /// and so does a task that was on its way when the request came. Only two events restore credit, once for each run. The first is the end of a run
    /// by itself, which leaves idle what the run took, if the worker wants that and did not know that the run was over. The second is the refusal of
    /// a task that may not be queued, by a worker that chooses GPUs and had none for it.
    ///
    /// Source: Requests for work. A credit ends with its association, its scheduler, or the worker's HEALTHY state.
    pub struct WithinCredit = "within_credit" {
        credits: BTreeMap<(SchedulerId, WorkerId), RequestedCredit>,
        /// GPUs of the run that is sent next: the model if it must be one, and the number.
        cards: Option<(Run, Option<Processor>, f64)>,
        pieces: BTreeMap<Run, WorkPiece>,
        /// Runs whose workers choose their GPUs.
        chosen_there: BTreeSet<Run>,
        /// The GPU model that each run had.
        had: BTreeMap<Run, Processor>,
        /// Runs of an association that were sent for requests whose idle processors come back, and have not given them back yet.
        took: BTreeMap<(SchedulerId, WorkerId), BTreeSet<Run>>,
        needs: CardNeeds,
        turns: u64,
    }
}

impl Law for WithinCredit {
    fn before(&mut self, happening: &Happening, now: &Moment<'_>) -> Verdict {
        self.needs.look_at(now.world.config);

        self.judge(now, happening)
    }
}

impl WithinCredit {
    fn judge(&mut self, now: &Moment<'_>, happening: &Happening) -> Verdict {
        self.note_ends(happening);
        self.note_cards(now, happening);
        match happening {
            Happening::WorkHeard { .. } => self.heard(now, happening),
            Happening::WorkTold {
                scheduler,
                worker,
                seq,
                verdicts,
                ..
            } => self.told(now, (*scheduler, *worker), *seq, verdicts),
            Happening::SentAsWork {
                scheduler,
                worker,
                run,
                terms,
            } => return self.sent(now, (*scheduler, *worker), (*run, terms)),
            Happening::WorkAnswered {
                scheduler,
                worker,
                seq: Some(seq),
                ..
            } => self.answered(now, (*scheduler, *worker), *seq),
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
            } => self.ended(now, *scheduler, *run, *bits),
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
    fn note_cards(&mut self, now: &Moment<'_>, happening: &Happening) {
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
                let machine = now.model.machines.get(*worker);
                let first = machine.zip(gpus.first());
                let model = first.and_then(|(machine, (device, _))| machine.devices.get(device));
                if let Some(model) = model {
                    self.had.insert(*run, Processor::named(model));
                }
            }
            _ => {}
        }
    }

    fn heard(&mut self, now: &Moment<'_>, happening: &Happening) {
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
            let run = now.model.runs.get(of.0, task);
            run.is_none_or(|(run, _)| known.is_some_and(|known| known.contains(&run.invocation)))
        };
        let met_others = !now.model.runs.on_worker(of.0, of.1).all(knows);
        let left = demands
            .iter()
            .map(|d| (d.processor.clone(), RemainingCredit::of(d)));
        let credit = RequestedCredit {
            seq: *seq,
            heard: now.when,
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
    fn ended(&mut self, now: &Moment<'_>, scheduler: SchedulerId, run: Run, bits: StatusBits) {
        let running = now.model.runs.get(scheduler, run.task);
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
        now: &Moment<'_>,
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
            let run = now.model.runs.get(of.0, task);
            run.is_none_or(|(run, _)| known.is_some_and(|known| known.contains(&run.invocation)))
        };
        let knows_all = !credit.met_others && now.model.runs.on_worker(of.0, of.1).all(is_known);
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
    fn answered(&mut self, now: &Moment<'_>, of: (SchedulerId, WorkerId), seq: WorkRequestSeq) {
        let sooner = now.world.at_least(ANSWER);
        let credit = self.credits.get_mut(&of);
        let credit = credit.filter(|credit| credit.seq == seq && credit.linger.is_zero());
        if let Some(credit) = credit.filter(|credit| now.when < credit.heard + sooner) {
            credit.ends.get_or_insert("it was not to linger");
        }
    }

    fn sent(
        &mut self,
        now: &Moment<'_>,
        of: (SchedulerId, WorkerId),
        (run, terms): (Run, &WorkTerms),
    ) -> Verdict {
        let broken = |what: String| {
            let (scheduler, worker) = of;
            Err(format!(
                "scheduler {scheduler} sends {} to worker {worker}, {what}",
                run.task
            ))
        };
        let piece = self.piece(run, terms);
        self.pieces.insert(run, piece.clone());
        let Some(credit) = self.credits.get_mut(&of) else {
            return match terms.request {
                None if asks_for_work(now.world, of.1) => {
                    broken("which asks for work, and has not yet".to_owned())
                }
                None => Ok(()),
                Some(seq) => broken(format!(
                    "for request {}, of which it has not heard in this association",
                    seq.0
                )),
            };
        };
        if let Err(why) = credit.check(now, terms.request) {
            return broken(why);
        }
        if let Some(known) = credit.known.take() {
            let others = now.model.runs.on_worker(of.0, of.1);
            let others = others.filter_map(|task| Some(now.model.runs.get(of.0, task)?.0));
            for other in others.filter(|other| *other != run) {
                if !known.contains(&other.invocation)
                    && let Some(piece) = self.pieces.get(&other)
                    && let Some(processor) = &piece.processor
                    && let Some(usage) = self.needs.still(other.task, (processor, piece.usage))
                    && let Some(left) = credit.left.get_mut(processor)
                {
                    // If its job is gone, its scheduler has no better estimate. A later learned estimate may be smaller.
                    let said = said(now.world, other.task).min(DEFAULT_ESTIMATE);
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

    fn piece(&mut self, run: Run, terms: &WorkTerms) -> WorkPiece {
        let cards = self.cards.take().filter(|(of, ..)| *of == run);
        let (processor, usage) = match cards {
            Some((_, of, cards)) => (of, cards),
            None => (Some(Processor::Cpu), terms.cpus.unwrap_or(1.0)),
        };
        WorkPiece {
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
    let name = task.job_name();
    let job = world
        .config
        .jobs
        .iter()
        .find(|job| job.name.as_str() == name);
    let said = job.and_then(|job| job.est_duration);
    said.map_or(0.0, |said| said.as_secs_f64())
}

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
struct RequestedCredit {
    seq: WorkRequestSeq,
    heard: Time,
    turn: u64,
    linger: Duration,
    left: BTreeMap<Processor, RemainingCredit>,
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

impl RequestedCredit {
    /// Returns whether another task may be sent for this request, or why not.
    fn check(&self, now: &Moment<'_>, request: Option<WorkRequestSeq>) -> Result<(), String> {
        let newest = self.seq.0;
        if request != Some(self.seq) {
            return Err(format!("for {request:?}, and the newest is {newest}"));
        }
        if let Some(why) = self.is_over {
            return Err(format!("for request {newest}, and {why}"));
        }
        let longest = now.world.at_most(self.linger.max(OPEN)) + SLACK;
        match now.when > self.heard + longest {
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

/// The work of a run.
#[derive(Clone, Debug)]
struct WorkPiece {
    /// The type of processor; `None` for GPUs of any model.
    processor: Option<Processor>,
    usage: f64,
    seconds: f64,
    may_wait: bool,
}

/// Tolerance for sums of floats.
const ROUNDING: f64 = 1e-6;
/// An amount below this is used up, whatever the rounding.
const USED_UP: f64 = -2.0 * ROUNDING;
/// The largest amount that rounding leaves of a sum of zero. Tasks of a millisecond may leave part of it.
const NOTHING: f64 = 1e-9;

/// The credit left for one type of processor. It is never less than the scheduler's own count.
#[derive(Clone, Copy, Debug)]
struct RemainingCredit {
    secs: f64,
    instances: f64,
    idle: f64,
    there: f64,
    /// The number of instances for which tasks wait at the worker, if completions give instances back.
    waiting: Option<f64>,
}

impl RemainingCredit {
    fn of(demand: &WorkDemand) -> Self {
        RemainingCredit {
            secs: from_the_start(demand.instance_secs),
            instances: from_the_start(demand.instances),
            idle: from_the_start(demand.idle),
            there: demand.there,
            waiting: demand.waiting,
        }
    }

    /// Returns whether completions of runs sent for this request make instances idle again.
    fn comes_back(&self) -> bool {
        self.waiting.is_some()
    }

    fn give_back(&mut self, usage: f64) {
        if let Some(waiting) = &mut self.waiting {
            let theirs = usage.min(*waiting);
            *waiting -= theirs;
            let idle = (self.idle + usage - theirs).min(self.there);
            self.idle = self.idle.max(idle);
        }
    }

    /// Returns the amount of a task that used nothing after all.
    fn take_back(&mut self, usage: f64, seconds: f64) {
        self.secs += usage * seconds;
        self.instances += usage;
        self.idle = self.idle.max((self.idle + usage).min(self.there));
    }

    fn take(&mut self, usage: f64, seconds: f64) {
        self.secs -= usage * seconds;
        self.instances -= usage;
        self.idle -= usage;
    }

    /// Clears amounts that were used up, so that float rounding does not bring them back.
    fn settle(&mut self) {
        for amount in [&mut self.secs, &mut self.instances, &mut self.idle] {
            if *amount <= NOTHING {
                *amount = amount.min(USED_UP);
            }
        }
    }

    fn allows(&self, bufferable: bool) -> bool {
        match bufferable {
            true => self.secs > -ROUNDING || self.instances > -ROUNDING,
            false => self.idle > -ROUNDING,
        }
    }

    /// Returns whether nothing was requested.
    fn is_nothing(&self) -> bool {
        self.secs <= 0.0 && self.instances <= 0.0 && self.idle <= 0.0
    }
}

/// Treats an amount that was never requested as used up, since rounding cannot have caused it.
fn from_the_start(amount: f64) -> f64 {
    match amount > 0.0 {
        true => amount,
        false => USED_UP,
    }
}
