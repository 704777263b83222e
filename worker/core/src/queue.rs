//! Tasks that wait here until processors are free for them, whichever scheduler sent them.
//!
//! Only a worker that fetches work lets a task wait, and only one that its scheduler lets: what such a task holds elsewhere is not
//! missed meanwhile. To the scheduler it runs, from its acceptance to the acknowledgement of its end, and all that is promised of running
//! tasks holds for it.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::worker::Intake;
use brasserie_common::{
    Card, CardConflict, CardUse, EndedBy, Fault, GpuShare, InvocationId, RefusalCode,
    ReportedStatus, RunningTask, Story, TaskKey,
};

use crate::association::Association;
use crate::effect::{Effect, Refusal};
use crate::event::RunTask;
use crate::machine::Machine;
use crate::outbox::Turn;
use crate::passing::{ForCards, Scene};
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
    with_cards: ForCards,
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
        if task.takes_cards() {
            self.with_cards.insert(place, task);
        }
    }

    pub(crate) fn remove(&mut self, place: Place) {
        self.order.remove(&place);
        self.with_cards.remove(place);
    }

    /// Who has this place goes before all others.
    pub(crate) fn move_to_the_front(&mut self, place: Place) -> Place {
        let first = self.order.first_key_value();
        let new = first.map_or(place, |(first, _)| first - 1);
        if let Some(waiting) = self.order.remove(&place) {
            self.order.insert(new, waiting);
        }
        self.with_cards.replace(place, new);
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
            Whoever::WaitsForCards => self.with_cards.next_behind(place),
        };
        next.and_then(|next| Some((next, self.order.get(&next)?.clone())))
    }

    /// Who was passed so often that it keeps cards.
    pub(crate) fn keeper(&self) -> Option<(Place, &Waiting)> {
        let place = self.with_cards.keeper()?;
        Some((place, self.order.get(&place)?))
    }

    /// The cards that it keeps.
    pub(crate) fn kept_cards(&self, cards: &[Card], used: &CardUse) -> Vec<Arc<str>> {
        self.with_cards.kept(cards, used)
    }

    /// Somebody is about to begin with these cards, who does not wait any more.
    pub(crate) fn note_begin(&mut self, scene: Scene<'_>, taken: &[GpuShare]) {
        self.with_cards.note_begin(scene, taken);
    }

    /// How often one that waits for cards was passed.
    pub(crate) fn passes(&self, place: Place) -> u32 {
        self.with_cards.passes(place)
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
            Obstacle::Cards(
                CardConflict::Taken { .. } | CardConflict::InUse(_) | CardConflict::Kept(_),
            ) => true,
            Obstacle::Cards(
                CardConflict::NoSuchCard(_)
                | CardConflict::Twice(_)
                | CardConflict::NoShare { .. }
                | CardConflict::TooFew(_),
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Begin {
    /// With these cards.
    Now(Vec<GpuShare>),
    /// When it is its turn.
    Later,
}

impl Begin {
    pub(crate) fn give_cards_to(&self, task: &mut RunningTask) {
        match self {
            Begin::Now(cards) if task.takes_cards() => task.give_cards(cards.clone()),
            Begin::Now(_) | Begin::Later => {}
        }
    }
}

impl Association {
    /// Whether it begins now or waits, or why it can do neither.
    pub(crate) fn admit(&self, machine: &Machine, task: &RunningTask) -> Result<Begin, Refusal> {
        let may_wait = self.may_wait(task);
        let others_wait = !machine.queue.is_empty() || machine.stopped() > 0;
        if may_wait && others_wait {
            // Not before those who came earlier, or were stopped for others; but what can never run here does not wait for it.
            return match self.can_begin(machine, task) {
                Err(obstacle) if !obstacle.passes() => Err(obstacle.into_refusal(task)),
                Err(_) | Ok(_) => self.let_wait(machine, task),
            };
        }
        match self.can_begin(machine, task) {
            Ok(cards) => Ok(Begin::Now(cards)),
            Err(obstacle) if may_wait && obstacle.passes() => self.let_wait(machine, task),
            Err(obstacle) => Err(obstacle.into_refusal(task)),
        }
    }

    /// What waits is bounded, whatever schedulers send: more would end as late elsewhere.
    fn let_wait(&self, machine: &Machine, task: &RunningTask) -> Result<Begin, Refusal> {
        let processor = processor_of(task, &machine.cards);
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
        match self.can_begin(machine, task) {
            Err(Obstacle::Room(_) | Obstacle::Cards(_)) => true,
            Err(Obstacle::Processors) | Ok(_) => false,
        }
    }

    /// The cards with which it can begin now. A scheduler that knows how many tasks may run here sends no more, an older one does not
    /// know.
    fn can_begin(&self, machine: &Machine, task: &RunningTask) -> Result<Vec<GpuShare>, Obstacle> {
        let room = self.description.room.as_ref();
        let room = room.filter(|_| !task.is_healthcheck());
        if let Some(room) = room
            && machine.live_but_healthchecks() >= room.most.get() as usize
        {
            return Err(Obstacle::Room(room.to_string()));
        }
        let cards = self.cards_for(machine, task).map_err(Obstacle::Cards)?;
        match self.may_wait(task) && !has_processors_for(machine, task) {
            true => Err(Obstacle::Processors),
            false => Ok(cards),
        }
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

/// As it is chosen what runs: a task of the CPU begins while any CPU is free, even if it wants more, since one that wants many would
/// never find them free together; and a card is worth more than a CPU.
fn has_processors_for(machine: &Machine, task: &RunningTask) -> bool {
    let busy = machine.busy_cpus();
    if sabotage::on(Sabotage::BeginWithoutProcessors) {
        return true;
    }
    match task.takes_cards() {
        false => busy < machine.all_cpus(),
        true => busy == 0 || busy + cpus_of(task) <= machine.all_cpus() + WHOLE_CPU,
    }
}

/// Lets tasks begin for which there are processors now, in their order, whosever they are. Who waits for cards that are taken lets others
/// pass, but not too often ([`crate::passing`]). Who finds its cards free and too few CPUs beside them lets nobody pass who only wants
/// CPUs: else it would never find enough of them. Who waits for CPUs lets those pass who want cards. Whose cards are gone for good ends.
pub(crate) fn begin_queued(associations: &mut [Association], turn: &mut Turn<'_>) {
    while let Some((_, (of, key))) = turn.machine.queue.keeper() {
        let (of, key) = (*of, key.clone());
        match try_to_begin(&mut associations[of.0], turn, &key) {
            Tried::HasLeft => {}
            // Others may use the cards that are not kept for it.
            Tried::LacksCards => break,
            // They are free for it, and so are the next CPUs.
            Tried::LacksProcessors | Tried::LacksRoom => return,
        }
    }
    let mut behind = Place::MIN;
    let mut who = Whoever::Waits;
    while let Some((place, (of, key))) = turn.machine.queue.next_behind(behind, who) {
        if who == Whoever::Waits && turn.machine.busy_cpus() >= turn.machine.all_cpus() {
            // From here on: this one may want cards, too.
            who = Whoever::WaitsForCards;
            continue;
        }
        if who == Whoever::WaitsForCards && !turn.machine.has_free_cards() {
            return;
        }
        behind = place;
        match try_to_begin(&mut associations[of.0], turn, &key) {
            Tried::HasLeft | Tried::LacksCards => {}
            // Its cards are free, or it has none and no CPU is.
            Tried::LacksProcessors => who = Whoever::WaitsForCards,
            Tried::LacksRoom => return,
        }
    }
}

/// What became of one that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tried {
    /// It has begun, or never will.
    HasLeft,
    LacksCards,
    LacksProcessors,
    /// So does everybody.
    LacksRoom,
}

fn try_to_begin(association: &mut Association, turn: &mut Turn<'_>, key: &TaskKey) -> Tried {
    let task = association.tasks.get(key);
    let task = task.expect("Invariant: who waits is known");
    match association.can_begin(turn.machine, &task.running) {
        Ok(cards) => {
            let begun = association.tasks.begin(turn.machine, key, cards, turn.now);
            if let Some(run) = begun {
                association.spawn(turn, run);
            }
            Tried::HasLeft
        }
        Err(Obstacle::Room(_)) => Tried::LacksRoom,
        Err(Obstacle::Processors) => Tried::LacksProcessors,
        Err(obstacle) if obstacle.passes() => Tried::LacksCards,
        Err(obstacle) => {
            let invocation = task.running.invocation;
            let why = obstacle.into_refusal(&task.running).message;
            association.end_queued(turn, key, invocation, &NeverBegins::Cannot(why));
            Tried::HasLeft
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
