//! Calls the schedulers: sends heartbeats and reports, and handles their outcomes.

use brasserie_common::ids::HEALTHCHECK_JOB;
use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::{
    CallId, CallOutcome, ReportedStatus, SchedulerId, ServiceAddress, Time, WorkerDescription,
};
use brasserie_worker_fetch::AssociationIndex;

use super::{Association, Worker};
use crate::effect::Call;
use crate::event::CallReply;
use crate::members::{AfterFailure, MembersReader};
use crate::reports::{InFlight, ReportKind};
use crate::session::{HeartbeatAnswer, HeartbeatResult};
use crate::timer::REPORT_RETRY;

impl Worker {
    /// Passes the outcome of a call to the component that made it. Drops it if the call has timed out.
    pub(super) fn call_completed(&mut self, call: CallId, outcome: CallOutcome<CallReply>) {
        if let Some(fetching) = &mut self.fetching
            && fetching.call_completed(self.now, call, &outcome)
        {
            return;
        }
        for of in self.indexes() {
            let one = &mut self.associations[of.0];
            if one.session.waits_for_heartbeat(call) {
                return match one.session.heartbeat_completed(self.now, call, outcome) {
                    HeartbeatResult::Ignored => {}
                    HeartbeatResult::Over(reason) => self.over.push((of, reason)),
                    HeartbeatResult::Counts(answer) => self.heartbeat_answered(of, *answer),
                    HeartbeatResult::Failed(after) => self.heartbeat_failed(of, after),
                };
            }
            if let Some(report) = one.reports.take(call) {
                return self.report_completed(of, report, outcome);
            }
            if one.session.waits_for_members(call) {
                if let Some((reader, read)) = one.session.member_read_completed(call, outcome) {
                    self.members_read(of, reader, read);
                }
                return;
            }
        }
    }

    pub(super) fn connection_lost(&mut self, of: AssociationIndex) {
        if let Some(one) = self.associations.get_mut(of.0) {
            one.session.connection_lost();
        }
    }

    // ---- heartbeats ----

    /// Sends a heartbeat if it is time, and abandons what has timed out.
    pub(super) fn send_heartbeat(&mut self, of: AssociationIndex) {
        let session = &mut self.associations[of.0].session;
        if let Some(after) = session.time_out_heartbeat(self.now) {
            self.heartbeat_failed(of, after);
        }
        let session = &mut self.associations[of.0].session;
        if let Some(reader) = session.time_out_member_read(self.now) {
            self.members_read(of, reader, None);
        }
        let session = &self.associations[of.0].session;
        let Some(goodbye) = session.next_heartbeat(self.now) else {
            return;
        };
        let call = Call::Heartbeat {
            worker: Box::new(self.described_to(of)),
            worker_set: session.worker_set(),
            goodbye,
        };
        let call = self.out.call(of, call);
        let session = &mut self.associations[of.0].session;
        session.heartbeat_sent(self.now, call);
    }

    /// Returns the description for a heartbeat. A scheduler that chooses GPUs knows only its own tasks. So the description omits GPUs that
    /// tasks of other schedulers use, which this scheduler would otherwise choose in vain again and again.
    fn described_to(&self, of: AssociationIndex) -> WorkerDescription {
        let one = &self.associations[of.0];
        let mut description = one.session.description().clone();
        let has_others = self.associations.len() > 1;
        if has_others && self.fetching.is_none() {
            let (own, all) = (one.tasks.card_use(), self.machine.card_use());
            let is_free = |device: &str| all.free(device) == own.free(device);
            let cards = &mut description.usable.gpus;
            cards.retain(|card| is_free(&card.pci_bus_id));
        }
        description
    }

    fn heartbeat_failed(&mut self, of: AssociationIndex, after: AfterFailure) {
        match after {
            AfterFailure::ReadList => self.read_members(of, MembersReader::Heartbeats),
            AfterFailure::TryNext => {}
        }
    }

    fn heartbeat_answered(&mut self, of: AssociationIndex, answer: HeartbeatAnswer) {
        let one = &mut self.associations[of.0];
        if let Some((scheduler, begun)) = answer.new_scheduler {
            one.associate(scheduler, begun);
        }
        if let Some(fetching) = &mut self.fetching {
            let work = answer.work.as_deref();
            fetching.heartbeat_answered(self.now, of, work, answer.request_delay);
        }
        if answer.accepts_statuses {
            one.reports.ready_all(self.now);
        }
        self.kill_all(of, answer.kill);
        if let (Some(fetching), Some(member)) = (&mut self.fetching, &answer.found_at) {
            fetching.found_at(of, member);
        }
    }

    // ---- the members of the scheduler ----

    /// Requests a read of the scheduler's current members.
    pub(super) fn read_members(&mut self, of: AssociationIndex, reader: MembersReader) {
        let session = &mut self.associations[of.0].session;
        if !session.join_member_read(reader) {
            let call = self.out.call(of, Call::ReadMembers);
            session.member_read_begun(self.now, call, reader);
        }
    }

    /// Handles the result of a read. `None` if the read failed or found no members.
    fn members_read(
        &mut self,
        of: AssociationIndex,
        reader: MembersReader,
        read: Option<Vec<ServiceAddress>>,
    ) {
        // A failed read counts as a failure only for a work fetch that waits for it.
        let counts = read.is_some() || reader == MembersReader::WorkFetch;
        if let Some(fetching) = &mut self.fetching
            && counts
        {
            fetching.list_read(self.now, of, read);
        }
    }

    // ---- reports ----

    /// Sends the reports that are ready, and abandons those that have timed out.
    pub(super) fn send_reports(&mut self, of: AssociationIndex) {
        let one = &mut self.associations[of.0];
        while let Some(given_up) = one.reports.give_up(self.now) {
            one.reports.narrow();
            one.reports.wait_again(given_up.report, self.now);
            one.session
                .status_not_acknowledged(self.now, given_up.addressed);
        }
        if !one.session.is_running() {
            one.reports.release(self.now);
        }
        let standing_by = || self.machine.count_queued_of(of);
        one.reports.release_delayed(self.now, standing_by);
        if let Some(to) = one.session.addressee() {
            let deadline = self.now + self.options.call_deadline;
            one.reports.send(self.now, to, deadline, &mut self.out);
        }
    }

    /// Sends the held completions, because the worker is about to contact the scheduler.
    pub(super) fn send_held(&mut self, of: AssociationIndex) {
        self.associations[of.0].reports.release(self.now);
        self.send_reports(of);
    }

    fn report_completed(
        &mut self,
        of: AssociationIndex,
        sent: InFlight,
        outcome: CallOutcome<CallReply>,
    ) {
        let one = &mut self.associations[of.0];
        let is_not_sent = matches!(outcome, CallOutcome::NotSent(_));
        let is_acknowledged = match outcome {
            CallOutcome::Done(CallReply::Acknowledged) => true,
            CallOutcome::NotSent(_) => {
                one.reports.pause(self.now + REPORT_RETRY);
                false
            }
            CallOutcome::Done(
                CallReply::Heartbeat(_)
                | CallReply::Work(_)
                | CallReply::NoSuchCall
                | CallReply::Members(_),
            )
            | CallOutcome::Refused(..)
            | CallOutcome::Unknown(_) => false,
        };
        match is_acknowledged {
            true => one.reports.widen(),
            false => one.reports.narrow(),
        }
        let is_current = one.session.scheduler() == Some(sent.addressed)
            || sabotage::on(Sabotage::DropOnAnyAcknowledgement);
        if is_acknowledged && is_current && one.counts(sent) {
            self.acknowledged(of, sent);
        } else if is_current {
            match is_not_sent {
                // A call that was not sent costs the scheduler nothing, so the pause need not grow.
                true => one.reports.wait(sent.report, self.now + REPORT_RETRY),
                false => one.reports.wait_again(sent.report, self.now),
            }
            if !is_acknowledged {
                let addressed = sent.addressed;
                one.session.status_not_acknowledged(self.now, addressed);
            }
        } else {
            // The report is now for another instance, which has not refused it yet.
            one.reports.wait(sent.report, self.now);
        }
    }

    fn acknowledged(&mut self, of: AssociationIndex, sent: InFlight) {
        let one = &mut self.associations[of.0];
        let Some(report) = one.reports.remove(sent.report) else {
            return;
        };
        let (key, invocation) = (report.task.key(), report.task.invocation);
        match report.kind {
            ReportKind::NotRunning => {}
            ReportKind::End => {
                let task = one.tasks.forget(&key, invocation);
                let pull = task.and_then(|task| task.pull);
                if let (Some(fetching), Some(pull)) = (&mut self.fetching, pull) {
                    fetching.acknowledged(of, &pull);
                }
                if sabotage::on(Sabotage::ForgetAccepted) {
                    one.session.forget(invocation);
                }
            }
            ReportKind::Healthcheck(_) => {
                let task = one.tasks.forget(&key, invocation);
                if let Some(task) = task.filter(|_| ReportedStatus::is_done(&report.status)) {
                    let session = &mut one.session;
                    let kill = session.healthcheck_acknowledged(self.now, task.accepted_at);
                    self.kill_all(of, kill);
                }
            }
        }
    }
}

impl Association {
    /// Passes tasks and reports on to a scheduler that did not answer before. It asks about the tasks that it misses, and does not wait for
    /// healthchecks of other instances.
    fn associate(&mut self, scheduler: SchedulerId, begun: Time) {
        let dropped = self.reports.retain(|report| match report.kind {
            ReportKind::End => true,
            ReportKind::Healthcheck(requester) => requester >= scheduler,
            ReportKind::NotRunning => false,
        });
        for (key, invocation) in dropped {
            // A "not running" answer is about no run of this worker, so only healthchecks are found.
            if key.job.as_str() == HEALTHCHECK_JOB {
                self.tasks.forget(&key, invocation);
            }
        }
        self.reports.ready_all(begun);
    }

    /// Returns whether an acknowledgement counts. A completion may be forgotten only if the bound instance knows it: that instance may have
    /// fetched the running tasks just before.
    fn counts(&self, sent: InFlight) -> bool {
        let Some(report) = self.reports.get(sent.report) else {
            return false;
        };
        match report.kind {
            ReportKind::End => {
                self.session.bound_to() == Some(sent.addressed)
                    || sabotage::on(Sabotage::DropOnAnyAcknowledgement)
            }
            ReportKind::Healthcheck(_) | ReportKind::NotRunning => true,
        }
    }
}
