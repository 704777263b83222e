//! The queue of tasks that wait until processors and GPUs are free, of all schedulers.
//!
//! Only a pull worker queues tasks, and only tasks whose scheduler permits it, because no other task needs their node resources meanwhile.
//! To the scheduler, a queued task is running from its acceptance to the acknowledgement of its completion, with all guarantees of a
//! running task.

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
use brasserie_worker_fetch::AssociationIndex;

use crate::association::Association;
use crate::effect::{Effect, Refusal};
use crate::event::RunTask;
use crate::machine::Machine;
use crate::passing::{ForCards, Scene};
use crate::piece::processor_of;
use crate::turn::Turn;

/// One processor, in thousandths.
pub(crate) const WHOLE_CPU: u64 = 1000;

/// More processors than any machine has.
const MOST_CPUS: u64 = 1_000_000;

/// The position of a task in the queue.
pub(crate) type Place = i64;

/// The association and the key of a queued task.
pub(crate) type Waiting = (AssociationIndex, TaskKey);

/// The queued tasks, in the order in which they begin.
///
/// Invariant: the queue holds exactly the tasks in [`Stage::Queued`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Queue {
    order: BTreeMap<Place, Waiting>,
    /// The queued tasks that need GPUs.
    with_cards: ForCards,
    last: Place,
}

/// A choice among the queued tasks: all, or those that need GPUs.
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

    /// Moves a task to the front of the queue, and returns its new position.
    pub(crate) fn move_to_the_front(&mut self, place: Place) -> Place {
        let first = self.order.first_key_value();
        let new = first.map_or(place, |(first, _)| first - 1);
        if let Some(waiting) = self.order.remove(&place) {
            self.order.insert(new, waiting);
        }
        self.with_cards.replace(place, new);
        new
    }

    /// Returns the queued tasks of one association, in order.
    pub(crate) fn in_order_of(&self, whose: AssociationIndex) -> impl Iterator<Item = &TaskKey> {
        let own = self.order.values().filter(move |(of, _)| *of == whose);
        own.map(|(_, key)| key)
    }

    /// Returns the next task behind a position.
    pub(crate) fn next_behind(&self, place: Place, who: Whoever) -> Option<(Place, Waiting)> {
        let behind = (Bound::Excluded(place), Bound::Unbounded);
        let next = match who {
            Whoever::Waits => self.order.range(behind).next().map(|(place, _)| *place),
            Whoever::WaitsForCards => self.with_cards.next_behind(place),
        };
        next.and_then(|next| Some((next, self.order.get(&next)?.clone())))
    }

    /// Returns the task that was overtaken so often that it reserves GPUs.
    pub(crate) fn keeper(&self) -> Option<(Place, &Waiting)> {
        let place = self.with_cards.keeper()?;
        Some((place, self.order.get(&place)?))
    }

    /// Returns the GPUs that this task reserves.
    pub(crate) fn kept_cards(&self, cards: &[Card], used: &CardUse) -> Vec<Arc<str>> {
        self.with_cards.kept(cards, used)
    }

    /// Records that a task, which is no longer queued, is about to begin with these GPUs.
    pub(crate) fn note_begin(&mut self, scene: Scene<'_>, taken: &[GpuShare]) {
        self.with_cards.note_begin(scene, taken);
    }

    /// Returns how often a task that waits for GPUs was overtaken.
    pub(crate) fn passes(&self, place: Place) -> u32 {
        self.with_cards.passes(place)
    }

    /// Returns the number of tasks that begin before this one.
    pub(crate) fn rank(&self, place: Place) -> usize {
        self.order.range(..place).count()
    }
}

/// The reason why a task cannot begin now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// The worker's limit of descriptors or processes is reached; names the limit.
    Room(String),
    /// Its GPUs are in use, or the machine can never provide them.
    Cards(CardConflict),
    /// All processors are busy. This holds up only tasks that may be queued.
    Processors,
}

impl Obstacle {
    /// Returns whether the obstacle can disappear when other tasks begin and end.
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

/// The reason why a queued task ends without having begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NeverBegins {
    Killed(EndedBy),
    /// The machine permanently lacks something, which the text names.
    Cannot(String),
}

/// When an accepted task begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Begin {
    /// The task begins at once, with these GPUs.
    Now(Vec<GpuShare>),
    /// The task begins when it is its turn.
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
    /// Returns whether the task begins now or waits. Refuses it if it can do neither.
    pub(crate) fn admit(&self, machine: &Machine, task: &RunningTask) -> Result<Begin, Refusal> {
        let may_wait = self.may_wait(task);
        let others_wait = !machine.queue.is_empty() || machine.stopped() > 0;
        if may_wait && others_wait {
            // Queued tasks and tasks that were stopped in favour of others come before this one. But a task that can never run here is
            // refused at once.
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

    /// Queues the task unless too much work waits. The bound is needed because tasks beyond it would complete as late elsewhere.
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

    /// Returns whether the task could not begin even if all processors were idle.
    pub(crate) fn is_held_back(&self, machine: &Machine, task: &RunningTask) -> bool {
        match self.can_begin(machine, task) {
            Err(Obstacle::Room(_) | Obstacle::Cards(_)) => true,
            Err(Obstacle::Processors) | Ok(_) => false,
        }
    }

    /// Returns the GPUs with which the task can begin now. Checks the limit of tasks, because older schedulers do not know it and may send
    /// more.
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

    /// Ends a queued task. A killed one ends as if its process had been killed before it wrote a status.
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
            // The task has lost nothing, and may run elsewhere at once.
            status = status.into_incomplete();
        }
        self.task_ended(turn, key, invocation, (status, story));
    }

    /// Ends all queued tasks of this association.
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

/// Returns whether enough processors are free, by the rule of the policies. A task of the CPU begins while any CPU is free, even if it uses
/// more, because many CPUs are rarely free at once. A GPU is worth more than a CPU, so a task with GPUs may exceed the CPUs by one.
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

/// Starts the queued tasks for which there are resources now, in their order, whatever their schedulers.
///
/// * A task whose GPUs are in use lets others overtake it, but not too often (see [`crate::passing`]).
/// * A task whose GPUs are free and that lacks CPUs lets no task overtake it that needs only CPUs. Otherwise it would never find enough of
///   them.
/// * A task that waits only for CPUs lets tasks overtake it that need GPUs.
/// * A task whose GPUs are gone for good ends.
pub(crate) fn begin_queued(associations: &mut [Association], turn: &mut Turn<'_>) {
    while let Some((_, (of, key))) = turn.machine.queue.keeper() {
        let (of, key) = (*of, key.clone());
        match try_to_begin(&mut associations[of.0], turn, &key) {
            Tried::HasLeft => {}
            // Other tasks may use the GPUs that are not reserved.
            Tried::LacksCards => break,
            // The reserved GPUs are free for this task, and the next free CPUs are its own, too.
            Tried::LacksProcessors | Tried::LacksRoom => return,
        }
    }
    let mut behind = Place::MIN;
    let mut who = Whoever::Waits;
    while let Some((place, (of, key))) = turn.machine.queue.next_behind(behind, who) {
        if who == Whoever::Waits && turn.machine.busy_cpus() >= turn.machine.all_cpus() {
            // The scan continues with this task, which may need GPUs, too.
            who = Whoever::WaitsForCards;
            continue;
        }
        if who == Whoever::WaitsForCards && !turn.machine.has_free_cards() {
            return;
        }
        behind = place;
        match try_to_begin(&mut associations[of.0], turn, &key) {
            Tried::HasLeft | Tried::LacksCards => {}
            // Its GPUs are free and CPUs are lacking, or it needs no GPUs and no CPU is free.
            Tried::LacksProcessors => who = Whoever::WaitsForCards,
            Tried::LacksRoom => return,
        }
    }
}

/// The result of an attempt to start a queued task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tried {
    /// The task has begun, or never will.
    HasLeft,
    LacksCards,
    LacksProcessors,
    /// All other tasks lack the same.
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

/// Returns the thousandths of a processor that the task uses. The default is one processor.
pub(crate) fn cpus_of(task: &RunningTask) -> u64 {
    // A float cast saturates. No task counts as more than any machine has, so that sums do not overflow.
    task.work.cpus.map_or(WHOLE_CPU, |cpus| {
        ((cpus * WHOLE_CPU as f64) as u64).min(MOST_CPUS * WHOLE_CPU)
    })
}
