//! The tasks that a credit permits, and their cost. Both are computed for each task, so neither may take longer than a check of a few
//! numbers.

use brasserie_common::{InvocationId, Processor, Time, WorkRequestSeq};
use brasserie_scheduler_engine::{Allowance, Allowances, Due, Judged};

use super::turned_down::{Revocable, Sending};
use super::{Counted, CreditRequest, Credits, Relief, TaskClass, TaskWork, Took};

impl Credits {
    /// Returns whether the worker's tasks keep their deadlines with one more for its CPUs, if it reports their remaining times. The check
    /// visits all of the tasks, so it is made only for tasks that may be sent otherwise.
    pub fn keeps_deadlines(&mut self, now: Time, due: Due) -> Judged {
        let workload = self.good_mut(now).and_then(|r| r.workload.as_mut());
        workload.map_or(Judged::UNSEEN, |workload| workload.judge(now, due))
    }

    /// Charges a permitted task that was marked running. Returns the request for which it is sent, if there is one.
    pub fn spend(
        &mut self,
        now: Time,
        (run, task_work): (InvocationId, &TaskWork<'_>),
    ) -> Option<WorkRequestSeq> {
        let request = self.good_mut(now)?;
        let since = request.age(now);
        let of_type = request.of_mut(task_work.processor())?;
        of_type.amounts.spend(task_work, since);
        of_type.granted = of_type.granted.saturating_add(1);
        let comes_back = of_type.amounts.waiting.is_some();
        let may_be_turned_down = request.may_be_turned_down(task_work);
        request.tasks_left = request.tasks_left.saturating_sub(1);
        request.count(now, (run, task_work), None);
        let seq = request.seq;
        if comes_back {
            let (processor, usage) = (task_work.processor().clone(), task_work.usage());
            let counted = Counted::Here;
            let took = Took {
                processor,
                usage,
                counted,
            };
            self.took.insert(run, took);
        }
        if may_be_turned_down {
            let took = Revocable::new(task_work, Sending::ForNewest);
            self.revocable.insert(run, took);
        }
        Some(seq)
    }

    /// Notes that a run that is about to end had processors of this type. They become idle again, if its worker counted the run. A run that
    /// only the scheduler charged keeps its charged type.
    pub fn ran_on(&mut self, run: InvocationId, processor: Processor) {
        if let Some(took) = self.took.get_mut(&run) {
            match took.counted {
                Counted::Here => {}
                Counted::ByItsWorker => took.processor = processor,
            }
        }
    }

    /// Returns the idle instances of a run that has ended at its worker. Returns whether tasks may be sent for them now.
    pub fn give_back(&mut self, now: Time, run: InvocationId) -> bool {
        let Some(took) = self.took.remove(&run) else {
            return false;
        };
        let Took {
            processor, usage, ..
        } = took;
        let request = self.good_mut(now);
        let of_type = request.and_then(|request| request.of_mut(&processor));
        of_type.is_some_and(|of_type| of_type.amounts.give_back(usage))
    }

    /// Drops a run that is over or never began. Its worker may then have time for tasks that would have been late.
    pub fn ended(&mut self, now: Time, run: InvocationId) -> Relief {
        self.took.remove(&run);
        self.revocable.remove(&run);
        let Some(request) = self.good_mut(now) else {
            return Relief::Nothing;
        };
        match &mut request.workload {
            Some(workload) => workload.drop(now, run),
            // There were too many tasks to simulate, and before that some may have been refused as late.
            None => Relief::MoreTime,
        }
    }

    /// Returns which tasks of a type may be sent. `None`: all, because the worker is no pull worker. The result changes with each request,
    /// with each spent task, and at [`Credits::next_change`]. Its delay changes in steps of a second, so that it changes seldom.
    pub fn allowance(&self, now: Time, processor: &Processor) -> Option<Allowance> {
        if !self.are_used() {
            return None;
        }
        let request = self.good(now);
        let of_type = request.and_then(|r| r.of(processor));
        let tells_all = request.is_some_and(|r| r.workload.is_some() && r.explains_delay);
        let is_simulated = tells_all && *processor == Processor::Cpu;
        Some(of_type.map_or(Allowance::NOTHING, |of_type| Allowance {
            bufferable: of_type.amounts.are_left_for(TaskClass::Bufferable),
            immediate: of_type.amounts.are_left_for(TaskClass::Immediate),
            instances: of_type.amounts.instances,
            instance_secs: of_type.amounts.secs,
            estimated_delay: match is_simulated {
                true => 0.0,
                false => {
                    request.map_or(0.0, |request| of_type.amounts.delay_left(request.age(now)))
                }
            },
        }))
    }

    /// Iterates over the types of processors of the newest request.
    pub fn processors(&self) -> impl Iterator<Item = &Processor> {
        let types = self.newest.iter().flat_map(|newest| &newest.types);
        types.map(|of_type| &of_type.processor)
    }

    /// Returns all [`Credits::allowance`]s, the only input of placement. `None`: the worker is no pull worker.
    pub fn allowances(&self, now: Time) -> Option<Allowances> {
        self.are_used().then(|| {
            let types = self.processors();
            let of_types = types.filter_map(|of| Some((of.clone(), self.allowance(now, of)?)));
            let cards = self.newest.as_ref().map(|newest| newest.cards);
            let all = Allowances::new(of_types).by(self.newest_seq());
            all.with_cards(cards.unwrap_or_default())
        })
    }

    fn good(&self, now: Time) -> Option<&CreditRequest> {
        let newest = self.newest.as_ref();
        newest.filter(|r| r.is_good(now) && r.tasks_left > 0)
    }

    fn good_mut(&mut self, now: Time) -> Option<&mut CreditRequest> {
        let newest = self.newest.as_mut();
        newest.filter(|r| r.is_good(now) && r.tasks_left > 0)
    }
}
