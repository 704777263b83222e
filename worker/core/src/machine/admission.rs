//! Decides whether a task can begin now, must wait, or is refused, and chooses its GPUs.

use std::sync::Arc;

use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::{CardConflict, CardUse, CardsWanted, GpuShare, RefusalCode, RunningTask};
use brasserie_worker_fetch::AssociationIndex;

use super::{Machine, Queueing, WHOLE_CPU, cpus_of};
use crate::effect::Refusal;

/// The reason why a task cannot begin now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// The worker's limit of descriptors or processes is reached; names the limit.
    TooManyTasks(String),
    /// Its GPUs are in use, or the machine can never provide them.
    Cards(CardConflict),
    /// All processors are busy. This holds up only tasks that may be queued.
    Processors,
}

impl Obstacle {
    /// Returns whether the obstacle can disappear when other tasks begin and end.
    pub(crate) fn is_temporary(&self) -> bool {
        match self {
            Obstacle::TooManyTasks(_) | Obstacle::Processors => true,
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

    pub(crate) fn into_refusal(self, task: &RunningTask) -> Refusal {
        let message = match self {
            Obstacle::TooManyTasks(limit) => format!("it runs as many tasks as it can: {limit}"),
            Obstacle::Cards(conflict) => format!(
                "task `{}` on `{}` cannot have its GPUs: {conflict}",
                task.job, task.node
            ),
            Obstacle::Processors => "all of its processors are busy".to_owned(),
        };
        Refusal::new(RefusalCode::Busy, message)
    }
}

/// When an accepted task begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Begin {
    /// The task begins at once, with these GPUs.
    Now(Vec<GpuShare>),
    /// The task begins when it is its turn.
    Later,
}

impl Machine {
    /// Returns whether the task begins now or waits. Refuses it if it can do neither.
    pub(crate) fn admit(&self, of: AssociationIndex, task: &RunningTask) -> Result<Begin, Refusal> {
        let may_wait = self.may_wait(task);
        // Queued tasks and tasks that were stopped in favour of others come before this one. But a task that can never run here is refused
        // at once.
        let others_wait = self.queue.len() > 0 || self.stopped > 0;
        match self.can_begin(of, task) {
            Err(obstacle) if !may_wait || !obstacle.is_temporary() => {
                Err(obstacle.into_refusal(task))
            }
            Ok(cards) if !may_wait || !others_wait => Ok(Begin::Now(cards)),
            Ok(_) | Err(_) => Ok(Begin::Later),
        }
    }

    fn may_wait(&self, task: &RunningTask) -> bool {
        match self.queueing {
            Queueing::ForSlots => false,
            Queueing::IfPermitted => task.work.bufferable && !task.is_healthcheck(),
        }
    }

    /// Returns whether the task could not begin even if all processors were idle.
    pub(crate) fn is_held_back(&self, of: AssociationIndex, task: &RunningTask) -> bool {
        match self.can_begin(of, task) {
            Err(Obstacle::TooManyTasks(_) | Obstacle::Cards(_)) => true,
            Err(Obstacle::Processors) | Ok(_) => false,
        }
    }

    /// Returns the GPUs with which the task can begin now. Checks the limit of tasks, because older schedulers do not know it and may send
    /// more.
    pub(crate) fn can_begin(
        &self,
        of: AssociationIndex,
        task: &RunningTask,
    ) -> Result<Vec<GpuShare>, Obstacle> {
        let most = self.most_tasks.as_ref();
        if let Some(most) = most.filter(|_| !task.is_healthcheck())
            && self.live_but_healthchecks >= most.most.get() as usize
        {
            return Err(Obstacle::TooManyTasks(most.to_string()));
        }
        let cards = self.cards_for(of, task).map_err(Obstacle::Cards)?;
        match self.may_wait(task) && !self.has_processors_for(task) {
            true => Err(Obstacle::Processors),
            false => Ok(cards),
        }
    }

    /// Returns whether enough processors are free, by the rule of the policies. A task of the CPU begins while any CPU is free, even if it
    /// uses more, because many CPUs are rarely free at once. A GPU is worth more than a CPU, so a task with GPUs may exceed the CPUs by one.
    fn has_processors_for(&self, task: &RunningTask) -> bool {
        if sabotage::on(Sabotage::BeginWithoutProcessors) {
            return true;
        }
        let busy = self.busy_cpus;
        match task.takes_cards() {
            false => self.has_free_processors(),
            true => busy == 0 || busy + cpus_of(task) <= self.all_cpus + WHOLE_CPU,
        }
    }

    /// Returns the GPUs with which a task can begin now. A scheduler that has chosen the GPUs may have outdated data, as after a GPU has
    /// failed. A task that is refused for that loses nothing: it may run elsewhere, or later.
    fn cards_for(
        &self,
        of: AssociationIndex,
        task: &RunningTask,
    ) -> Result<Vec<GpuShare>, CardConflict> {
        match &task.gpus_wanted {
            Some(wanted) if task.gpus.is_empty() => self.choose_cards(of, task, wanted),
            Some(_) | None => {
                let has = |device: &str| self.cards.iter().any(|card| *card.device == *device);
                self.card_use.check(&task.gpus, has)?;
                let reserved = self.reserved_from(of, task);
                let mut own = task.gpus.iter();
                match own.find(|share| reserved.contains(&share.device)) {
                    Some(share) => Err(CardConflict::Kept(share.device.clone())),
                    None => Ok(task.gpus.clone()),
                }
            }
        }
    }

    fn choose_cards(
        &self,
        of: AssociationIndex,
        task: &RunningTask,
        CardsWanted { need, counts_as }: &CardsWanted,
    ) -> Result<Vec<GpuShare>, CardConflict> {
        let mut used = match sabotage::on(Sabotage::ChooseCardsBlindly) {
            true => CardUse::default(),
            false => self.card_use.clone(),
        };
        used.take_all_of(&self.reserved_from(of, task));
        let model = counts_as.as_deref();
        if let Some(chosen) = need.pack_of(model, &self.cards, &used) {
            return Ok(chosen);
        }
        Err(match need.pack(&self.cards, &CardUse::default()) {
            Some(_) => CardConflict::InUse(need.clone()),
            None => CardConflict::TooFew(need.clone()),
        })
    }

    /// Returns the GPUs that are reserved for another task.
    fn reserved_from(&self, of: AssociationIndex, task: &RunningTask) -> Vec<Arc<str>> {
        let is_own = self.queue.reserver().is_some_and(|reserver| {
            let (whose, key) = reserver;
            *whose == of && key.job == task.job && key.node == task.node
        });
        match is_own || !task.takes_cards() {
            true => Vec::new(),
            false => self.queue.reserved(&self.cards, &self.card_use),
        }
    }
}
