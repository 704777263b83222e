//! Carries out the decisions of the work fetch: which tasks run, and which scheduler is asked for work.

use std::collections::BTreeSet;

use brasserie_common::{ServiceAddress, TaskKey};
use brasserie_worker_fetch::{
    AssociationIndex, FetcherStep, ListReason, Request, RpcReason, TaskNumber,
};

use super::{Association, Worker};
use crate::config::MemberList;
use crate::effect::{Refusal, Reply};
use crate::fetching::{DecidedRequest, SchedulerView, WorkerMoment, does_not_fetch, unreported};
use crate::machine::Machine;
use crate::members::MembersReader;
use crate::tasks::WorkerTask;

/// Whether queued tasks may begin before the next choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turns {
    /// They begin in their order, as resources allow.
    Open,
    /// They may not: a task is stopped and may have precedence, which only the next choice decides.
    Chosen,
}

impl Worker {
    /// Chooses the running tasks and the order of queued tasks anew, if it is time.
    pub(super) fn choose_runs(&mut self) -> Turns {
        let (waiting, stopped) = (self.machine.queued(), self.machine.stopped());
        let Some(fetching) = &mut self.fetching else {
            return Turns::Open;
        };
        fetching.meet(self.now, &views(&self.associations));
        if fetching.choice_due(waiting + stopped) > self.now {
            return match stopped {
                0 => Turns::Open,
                _ => Turns::Chosen,
            };
        }
        let open = fetching.open_tasks(self.now, tasks(&self.associations));
        let held_back = held_back(&self.machine, &self.associations);
        let chosen = fetching.choose(self.now, &open, &held_back);
        for (of, key) in chosen.stop {
            self.suspend(of, &key);
        }
        for (of, key) in chosen.resume {
            self.resume(of, &key);
        }
        for (of, key) in chosen.order.into_iter().rev() {
            let tasks = &mut self.associations[of.0].tasks;
            tasks.change_place(&key, |place| self.machine.move_to_front(place));
        }
        Turns::Open
    }

    /// Sends requests for work until there is nothing more to ask for now.
    pub(super) fn ask_for_work(&mut self) {
        let Some(fetching) = &mut self.fetching else {
            return;
        };
        fetching.time_out_requests(self.now);
        for of in self.indexes() {
            let takes_requests = self
                .fetching
                .as_ref()
                .is_some_and(|one| one.takes_requests(of));
            if !takes_requests && self.associations[of.0].reports.held().len() > 0 {
                self.send_held(of);
            }
        }
        while let Some(step) = self.next_step() {
            match step {
                FetcherStep::Wait { .. } => return,
                FetcherStep::ReadList { association, why } => self.read_list(association, why),
                FetcherStep::Ask(request) => {
                    // Completions go first: they free resources that the requested tasks may need.
                    self.send_held(request.association);
                    self.request_work(request);
                }
            }
        }
    }

    fn next_step(&mut self) -> Option<FetcherStep> {
        let fetching = self.fetching.as_mut()?;
        if fetching.ask_due() > self.now {
            return None;
        }
        let open = fetching.open_tasks(self.now, tasks(&self.associations));
        Some(fetching.next_step(&WorkerMoment {
            now: self.now,
            tasks: &open.tasks,
            schedulers: &views(&self.associations),
            unreported: &unreported(held(&self.associations)),
        }))
    }

    fn read_list(&mut self, of: AssociationIndex, why: ListReason) {
        if why == ListReason::NobodyKnown(RpcReason::ResultsDue) {
            // Only requests for work need a member. Completions that are due can leave now.
            self.send_held(of);
        }
        let session = &self.associations[of.0].session;
        match session.member_list() {
            MemberList::Read { .. } => self.read_members(of, MembersReader::WorkFetch),
            MemberList::Fixed => {
                let own = session.members();
                let read = (!own.is_empty()).then(|| own.to_vec());
                if let Some(fetching) = &mut self.fetching {
                    fetching.list_read(self.now, of, read);
                }
            }
        }
    }

    fn request_work(&mut self, request: Request) {
        let Some(fetching) = &mut self.fetching else {
            return;
        };
        let of = request.association;
        let asked = DecidedRequest {
            association: of,
            seq: request.seq,
            deadline: self.now + self.options.call_deadline,
        };
        let one = &self.associations[of.0];
        let view = one.view(of);
        let Some(scheduler) = view.scheduler else {
            // A scheduler that has never answered a heartbeat gets no requests.
            return fetching.failed(self.now, asked);
        };
        let own = one.tasks.iter().map(|(_, task)| task);
        let call = fetching.call(self.now, request, (&view, scheduler), own);
        let call = self.out.call(of, call);
        fetching.sent(call, asked);
    }

    /// Returns what people see of the work fetch.
    pub(super) fn show_fetching(&self) -> Reply {
        Reply::WorkFetch(self.fetching.as_ref().map(|fetching| {
            let open = fetching.open_tasks(self.now, tasks(&self.associations));
            let moment = WorkerMoment {
                now: self.now,
                tasks: &open.tasks,
                schedulers: &views(&self.associations),
                unreported: &unreported(held(&self.associations)),
            };
            let unanswered = |of: AssociationIndex| self.unanswered(of);
            let mut overview = fetching.overview(&moment, unanswered);
            for (told, one) in overview.of_association.iter_mut().zip(&self.associations) {
                told.facts = Some(one.facts());
            }
            Box::new(overview)
        }))
    }

    /// Asks a scheduler, or all, for work now, because the operator requests it.
    pub(super) fn fetch_work(
        &mut self,
        scheduler: Option<&ServiceAddress>,
    ) -> Result<Reply, Refusal> {
        let Some(fetching) = &mut self.fetching else {
            return Err(does_not_fetch());
        };
        let (associations, now) = (&self.associations, self.now);
        let unanswered = |of: AssociationIndex| associations[of.0].session.unanswered(now);
        let wishes = fetching.ask_now(now, &views(associations), scheduler, unanswered)?;
        Ok(Reply::WorkWishes(wishes))
    }

    fn unanswered(&self, of: AssociationIndex) -> Option<String> {
        self.associations[of.0].session.unanswered(self.now)
    }
}

impl Association {
    fn view(&self, index: AssociationIndex) -> SchedulerView<'_> {
        SchedulerView {
            index,
            instance: self.session.id(),
            scheduler: self.session.scheduler(),
            members: self.session.members(),
            is_running: self.session.is_running(),
            is_absent: self.session.is_absent(),
            unacknowledged: self.reports.tasks_told(),
        }
    }
}

fn indexed(associations: &[Association]) -> impl Iterator<Item = (AssociationIndex, &Association)> {
    let all = associations.iter().enumerate();
    all.map(|(at, one)| (AssociationIndex(at), one))
}

fn views(associations: &[Association]) -> Vec<SchedulerView<'_>> {
    indexed(associations)
        .map(|(of, one)| one.view(of))
        .collect()
}

fn tasks(
    associations: &[Association],
) -> impl Iterator<Item = (AssociationIndex, &TaskKey, &WorkerTask)> {
    indexed(associations)
        .flat_map(|(of, one)| one.tasks.iter().map(move |(key, task)| (of, key, task)))
}

fn held(
    associations: &[Association],
) -> impl Iterator<Item = (AssociationIndex, &crate::reports::HeldCompletion)> {
    indexed(associations).flat_map(|(of, one)| one.reports.held().map(move |held| (of, held)))
}

/// Returns the queued tasks that could not begin whatever is chosen.
fn held_back(machine: &Machine, associations: &[Association]) -> BTreeSet<TaskNumber> {
    let waiting = tasks(associations).filter(|(_, _, task)| task.is_queued());
    let blocked = waiting.filter(|(of, _, task)| machine.is_held_back(*of, &task.running));
    let pulls = blocked.filter_map(|(_, _, task)| task.pull.as_ref());
    pulls.map(|pull| pull.number).collect()
}
