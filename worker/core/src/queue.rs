//! Tasks that wait here until processors are free for them, whichever scheduler sent them.
//!
//! Only a worker that fetches work lets a task wait, and only one that its scheduler lets: what such a task holds elsewhere is not
//! missed meanwhile. To the scheduler it runs, from its acceptance to the acknowledgement of its end, and all that is promised of running
//! tasks holds for it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::worker::Intake;
use brasserie_common::{
    CardConflict, EndedBy, Fault, InvocationId, RefusalCode, ReportedStatus, RunningTask, Story,
    TaskKey,
};

use crate::association::Association;
use crate::effect::{Effect, Refusal};
use crate::event::RunTask;
use crate::machine::Machine;
use crate::outbox::Turn;
use crate::piece::processor_of;
use crate::work_fetch::AssociationIndex;

/// A processor, in the thousandths that are counted.
pub(crate) const WHOLE_CPU: u64 = 1000;

/// More than any machine has.
const MOST_CPUS: u64 = 1_000_000;

/// Where a task stands in the queue.
pub(crate) type Place = i64;

/// Whose task waits, and which.
pub(crate) type Waiting = (AssociationIndex, TaskKey);

/// Who waits, in the order in which they begin. Invariant: exactly the tasks that are [`Stage::Queued`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Queue {
    order: BTreeMap<Place, Waiting>,
    /// Of these, those who want cards.
    with_cards: BTreeSet<Place>,
    last: Place,
}

/// Who of those that wait is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whoever {
    Waits,
    WaitsForCards,
}

impl Queue {
    pub(crate) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    pub(crate) fn next_place(&mut self) -> Place {
        self.last += 1;
        self.last
    }

    pub(crate) fn insert(&mut self, place: Place, waiting: Waiting, task: &RunningTask) {
        self.order.insert(place, waiting);
        if !task.gpus.is_empty() {
            self.with_cards.insert(place);
        }
    }

    pub(crate) fn remove(&mut self, place: Place) {
        self.order.remove(&place);
        self.with_cards.remove(&place);
    }

    /// Who has this place goes before all others.
    pub(crate) fn move_to_the_front(&mut self, place: Place) -> Place {
        let first = self.order.first_key_value();
        let new = first.map_or(place, |(first, _)| first - 1);
        if let Some(waiting) = self.order.remove(&place) {
            self.order.insert(new, waiting);
        }
        if self.with_cards.remove(&place) {
            self.with_cards.insert(new);
        }
        new
    }

    /// Those of one association.
    pub(crate) fn in_order_of(&self, whose: AssociationIndex) -> impl Iterator<Item = &TaskKey> {
        let own = self.order.values().filter(move |(of, _)| *of == whose);
        own.map(|(_, key)| key)
    }

    /// Who is next behind a place.
    pub(crate) fn next_behind(&self, place: Place, who: Whoever) -> Option<(Place, Waiting)> {
        let behind = (Bound::Excluded(place), Bound::Unbounded);
        let next = match who {
            Whoever::Waits => self.order.range(behind).next().map(|(place, _)| *place),
            Whoever::WaitsForCards => self.with_cards.range(behind).next().copied(),
        };
        next.and_then(|next| Some((next, self.order.get(&next)?.clone())))
    }

    /// How many begin before this one.
    pub(crate) fn rank(&self, place: Place) -> usize {
        self.order.range(..place).count()
    }
}

/// What keeps a task from beginning now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// The machine's limits of descriptors or processes; with which.
    Room(String),
    /// Its cards are in use, or it can never have them.
    Cards(CardConflict),
    /// All processors are busy, which only those mind that may wait.
    Processors,
}

impl Obstacle {
    /// Whether it may be gone later, with nothing changed but what runs.
    fn passes(&self) -> bool {
        match self {
            Obstacle::Room(_) | Obstacle::Processors => true,
            Obstacle::Cards(CardConflict::Taken { .. }) => true,
            Obstacle::Cards(
                CardConflict::NoSuchCard(_) | CardConflict::Twice(_) | CardConflict::NoShare { .. },
            ) => false,
        }
    }

    fn into_refusal(self, task: &RunningTask) -> Refusal {
        let message = match self {
            Obstacle::Room(room) => format!("it runs as many tasks as it can: {room}"),
            Obstacle::Cards(conflict) => format!(
                "task `{}` on `{}` cannot have its cards: {conflict}",
                task.job, task.node
            ),
            Obstacle::Processors => "all of its processors are busy".to_owned(),
        };
        Refusal {
            code: RefusalCode::Busy,
            message,
        }
    }
}

/// Why a task ends that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NeverBegins {
    Killed(EndedBy),
    /// This machine lacks something for good, in these words.
    Cannot(String),
}

/// What an accepted task does first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begin {
    Now,
    /// When it is its turn.
    Later,
}

impl Association {
    /// Whether it begins now or waits, or why it can do neither.
    pub(crate) fn admit(&self, machine: &Machine, task: &RunningTask) -> Result<Begin, Refusal> {
        let may_wait = self.may_wait(task);
        if may_wait && !machine.queue.is_empty() {
            // Not before those who came earlier; but what can never run here does not wait for it.
            return match self.obstacle(machine, task) {
                Some(obstacle) if !obstacle.passes() => Err(obstacle.into_refusal(task)),
                Some(_) | None => self.let_wait(machine, task),
            };
        }
        match self.obstacle(machine, task) {
            None => Ok(Begin::Now),
            Some(obstacle) if may_wait && obstacle.passes() => self.let_wait(machine, task),
            Some(obstacle) => Err(obstacle.into_refusal(task)),
        }
    }

    /// What waits is bounded, whatever schedulers send: more would end as late elsewhere.
    fn let_wait(&self, machine: &Machine, task: &RunningTask) -> Result<Begin, Refusal> {
        let processor = processor_of(task, &self.description.usable);
        match &machine.fetching {
            Some(fetching) if !fetching.may_wait(&processor) => Err(Refusal {
                code: RefusalCode::Busy,
                message: format!(
                    "so much work waits for {processor} that this would wait too long"
                ),
            }),
            Some(_) | None => Ok(Begin::Later),
        }
    }

    fn may_wait(&self, task: &RunningTask) -> bool {
        self.options.work_fetch.is_some() && task.work.bufferable && !task.is_healthcheck()
    }

    /// Whether it could not begin however few processors were busy.
    pub(crate) fn is_held_back(&self, machine: &Machine, task: &RunningTask) -> bool {
        match self.obstacle(machine, task) {
            Some(Obstacle::Room(_) | Obstacle::Cards(_)) => true,
            Some(Obstacle::Processors) | None => false,
        }
    }

    /// A scheduler that knows how many tasks may run here sends no more, an older one does not know.
    fn obstacle(&self, machine: &Machine, task: &RunningTask) -> Option<Obstacle> {
        let room = self.description.room.as_ref();
        let room = room.filter(|_| !task.is_healthcheck());
        if let Some(room) = room
            && machine.live_but_healthchecks() >= room.most.get() as usize
        {
            return Some(Obstacle::Room(room.to_string()));
        }
        if let Err(conflict) = self.check_cards(machine, task) {
            return Some(Obstacle::Cards(conflict));
        }
        let is_busy = self.may_wait(task) && !self.has_processors_for(machine, task);
        is_busy.then_some(Obstacle::Processors)
    }

    /// As it is chosen what runs: a task of the CPU begins while any CPU is free, even if it wants more, since one that wants many would
    /// never find them free together; and a card is worth more than a CPU.
    fn has_processors_for(&self, machine: &Machine, task: &RunningTask) -> bool {
        let busy = machine.busy_cpus();
        if sabotage::on(Sabotage::BeginWithoutProcessors) {
            return true;
        }
        match task.gpus.is_empty() {
            true => busy < self.all_cpus(),
            false => busy == 0 || busy + cpus_of(task) <= self.all_cpus() + WHOLE_CPU,
        }
    }

    fn has_idle_processors(&self, machine: &Machine) -> bool {
        machine.busy_cpus() < self.all_cpus()
    }

    fn all_cpus(&self) -> u64 {
        let cores = self.description.usable.cpu_cores;
        // A float cast saturates, and what is no number is 0: then there is one, as a machine that reports nothing has some.
        ((cores * WHOLE_CPU as f64) as u64).max(WHOLE_CPU)
    }

    pub(crate) fn spawn(&self, turn: &mut Turn<'_>, run: Arc<RunTask>) {
        turn.effect(Effect::Spawn {
            cuda_devices: self.cuda_devices(&run.task),
            run,
        });
    }

    /// Ends a task that waits; one that is killed, as if its process had been killed before it wrote a status.
    pub(crate) fn end_queued(
        &mut self,
        turn: &mut Turn<'_>,
        key: &TaskKey,
        invocation: InvocationId,
        why: &NeverBegins,
    ) {
        let Some(task) = self.tasks.get(key) else {
            return;
        };
        let waited = turn.now.since(task.accepted_at);
        let (by, fault, text) = match why {
            NeverBegins::Killed(by) => {
                let text = format!("ended by the worker as {by} before it began");
                (Some(*by), by.fault(), text)
            }
            NeverBegins::Cannot(why) => (None, Fault::Worker, format!("it never began: {why}")),
        };
        let mut story = Story::not_started(&text, fault, Duration::ZERO);
        story.waited = waited;
        story.ended_by = by;
        let mut status = ReportedStatus::by_fault(fault, &text);
        if self.description.intake == Intake::Draining && status.is_incomplete_backoff() {
            // It has lost nothing yet, and may run elsewhere at once.
            status = status.into_incomplete();
        }
        self.task_ended(turn, key, invocation, (status, story));
    }

    /// All of them: none of them begins here any more.
    pub(crate) fn end_all_queued(&mut self, turn: &mut Turn<'_>, by: EndedBy) {
        let own = turn.machine.queue.in_order_of(self.index);
        let keys: Vec<TaskKey> = own.cloned().collect();
        for key in keys {
            let invocation = self.tasks.get(&key).map(|task| task.running.invocation);
            if let Some(invocation) = invocation {
                self.end_queued(turn, &key, invocation, &NeverBegins::Killed(by));
            }
        }
    }
}

/// Lets tasks begin for which there are processors now, in their order, whosever they are. Who waits for cards that are taken lets others
/// pass. Who finds its cards free and too few CPUs beside them lets nobody pass who only wants CPUs: else it would never find enough of
/// them. Who waits for CPUs lets those pass who want cards. Whose cards are gone for good ends.
pub(crate) fn begin_queued(associations: &mut [Association], turn: &mut Turn<'_>) {
    let mut behind = Place::MIN;
    let mut who = Whoever::Waits;
    while let Some((place, (of, key))) = turn.machine.queue.next_behind(behind, who) {
        let association = &mut associations[of.0];
        if who == Whoever::Waits && !association.has_idle_processors(turn.machine) {
            // From here on: this one may want cards, too.
            who = Whoever::WaitsForCards;
            continue;
        }
        behind = place;
        let task = association.tasks.get(&key);
        let task = task.expect("Invariant: who waits is known");
        match association.obstacle(turn.machine, &task.running) {
            None => {
                if let Some(run) = association.tasks.begin(turn.machine, &key, turn.now) {
                    association.spawn(turn, run);
                }
            }
            Some(Obstacle::Room(_)) => return,
            // Its cards are free, or it has none and no CPU is.
            Some(Obstacle::Processors) => who = Whoever::WaitsForCards,
            Some(obstacle) if obstacle.passes() => {}
            Some(obstacle) => {
                let invocation = task.running.invocation;
                let why = obstacle.into_refusal(&task.running).message;
                association.end_queued(turn, &key, invocation, &NeverBegins::Cannot(why));
            }
        }
    }
}

/// What it keeps busy, in thousandths of a processor; a whole one, if nobody says.
pub(crate) fn cpus_of(task: &RunningTask) -> u64 {
    // A float cast saturates; no task counts as more than any machine has, so that sums stay far from their end.
    task.work.cpus.map_or(WHOLE_CPU, |cpus| {
        ((cpus * WHOLE_CPU as f64) as u64).min(MOST_CPUS * WHOLE_CPU)
    })
}
