//! What a credit allows, and what it costs: asked and told for each task, so neither may take longer than a look at a few numbers.

use brasserie_common::{Processor, Time, WorkRequestSeq};
use brasserie_scheduler_engine::{Allowance, Allowances};

use super::amounts::{Class, Piece};
use super::{Credits, Request};

/// Why no such task may be sent to a worker that asks for what it gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoCredit {
    /// It has asked for nothing of the kind, or got it.
    Spent,
    /// The task would not make its deadline there.
    Late,
}

impl Credits {
    /// Whether the task may be sent, as far as credit goes.
    pub fn eligible(&self, now: Time, piece: &Piece<'_>) -> Result<(), NoCredit> {
        if !self.are_used() {
            return Ok(());
        }
        let of_type = self.good(now).and_then(|r| r.of(piece.processor()));
        let amounts = of_type.map(|of_type| &of_type.amounts);
        let amounts = amounts.filter(|amounts| amounts.are_left_for(piece.class()));
        match amounts {
            None => Err(NoCredit::Spent),
            Some(amounts) if !amounts.makes_deadline(piece) => Err(NoCredit::Late),
            Some(_) => Ok(()),
        }
    }

    /// Whether the worker's own tasks stay in time with this one among them, if the worker told what they are. For tasks that are
    /// eligible: it goes through all of them.
    pub fn keeps_deadlines(&mut self, now: Time, piece: &Piece<'_>) -> Result<(), NoCredit> {
        let workload = self.good_mut(now).and_then(|r| r.workload.as_mut());
        match workload.is_none_or(|workload| workload.takes(piece)) {
            true => Ok(()),
            false => Err(NoCredit::Late),
        }
    }

    /// An eligible task is marked running there. Gives the request for which it is sent, if it is for one.
    pub fn spend(&mut self, now: Time, piece: &Piece<'_>) -> Option<WorkRequestSeq> {
        let request = self.good_mut(now)?;
        let of_type = request.of_mut(piece.processor())?;
        of_type.amounts.spend(piece);
        of_type.granted = of_type.granted.saturating_add(1);
        request.tasks_left = request.tasks_left.saturating_sub(1);
        if let Some(workload) = &mut request.workload {
            workload.count(piece, None);
        }
        Some(request.seq)
    }

    /// For who keeps a look-up of workers with credit: the same as [`Credits::eligible`], for all tasks of a type. `None`: for all
    /// tasks, as the worker asks for nothing. It changes with each request, with what is spent, and at [`Credits::next_change`].
    pub fn allowance(&self, now: Time, processor: &Processor) -> Option<Allowance> {
        if !self.are_used() {
            return None;
        }
        let of_type = self.good(now).and_then(|r| r.of(processor));
        Some(of_type.map_or(Allowance::NOTHING, |of_type| Allowance {
            bufferable: of_type.amounts.are_left_for(Class::Bufferable),
            immediate: of_type.amounts.are_left_for(Class::Immediate),
            instances: of_type.amounts.instances,
            instance_secs: of_type.amounts.secs,
            estimated_delay: of_type.amounts.delay,
        }))
    }

    /// The types of processors of the newest request.
    pub fn processors(&self) -> impl Iterator<Item = &Processor> {
        let types = self.newest.iter().flat_map(|newest| &newest.types);
        types.map(|of_type| &of_type.processor)
    }

    /// For placement, which looks at nothing else: all [`Credits::allowance`]s. `None`: the worker asks for nothing.
    pub fn allowances(&self, now: Time) -> Option<Allowances> {
        self.are_used().then(|| {
            let types = self.processors();
            let of_types = types.filter_map(|of| Some((of.clone(), self.allowance(now, of)?)));
            Allowances::new(of_types)
        })
    }

    fn good(&self, now: Time) -> Option<&Request> {
        let newest = self.newest.as_ref();
        newest.filter(|r| r.is_good(now) && r.tasks_left > 0)
    }

    fn good_mut(&mut self, now: Time) -> Option<&mut Request> {
        let newest = self.newest.as_mut();
        newest.filter(|r| r.is_good(now) && r.tasks_left > 0)
    }
}
