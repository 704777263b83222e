//! Ends tasks and reports their completions to their schedulers.

use brasserie_worker_fetch::TaskNumber;

use super::EmulatedWorld;
use crate::client::{TaskEnding, seconds};
use crate::outcome::{Contact, ContactKind, ContactResult};

/// Maximum number of listed contacts. Further ones are only counted.
const MOST_CONTACTS: usize = 2_000_000;

impl EmulatedWorld<'_> {
    pub(super) fn ends(&mut self, number: TaskNumber, well: bool) {
        self.set_runs(number, false);
        let how = if well {
            TaskEnding::Well
        } else {
            TaskEnding::Failed
        };
        self.client.ended(self.now, number, how);
        if self.client.reports_at_once() {
            self.to_report.push((number, well));
        }
    }

    /// Reports completions that leave at once, each in its own contact. Returns whether there were any.
    pub(super) fn report(&mut self) -> bool {
        let mut told = false;
        let waiting = std::mem::take(&mut self.to_report);
        for (number, well) in waiting {
            let Some(life) = self.lives.get(&number) else {
                continue;
            };
            let scheduler = life.scheduler;
            if !self.servers[scheduler].is_up(seconds(self.now)) {
                self.to_report.push((number, well));
                continue;
            }
            told = true;
            self.counts(
                scheduler,
                ContactKind::Report,
                ContactResult::Answered(0),
                0.0,
            );
            self.is_reported(number);
        }
        told
    }

    /// Notes that the scheduler has received the task's completion.
    pub(super) fn is_reported(&mut self, number: TaskNumber) {
        let Some(life) = self.lives.remove(&number) else {
            return;
        };
        let place = life.scheduler;
        let well = life.sent.fails_at.is_none();
        self.client.reported(place, number);
        self.servers[place].has_ended(number.0, life.sent.job, well);
        let scheduler = &mut self.schedulers[place];
        let is_late = life.sent.deadline.is_some_and(|at| seconds(self.now) > at);
        if !well {
            scheduler.failed += 1;
        } else if is_late {
            scheduler.missed += 1;
        } else {
            scheduler.met += 1;
        }
        if is_late {
            self.tally.wasted(place, life.used);
        }
    }

    /// Counts a contact and its result.
    pub(super) fn counts(
        &mut self,
        scheduler: usize,
        kind: ContactKind,
        result: ContactResult,
        request_delay: f64,
    ) {
        let at = self.elapsed();
        match result {
            ContactResult::Failed => {
                self.failed_contacts += 1;
                self.schedulers[scheduler].failed_contacts += 1;
            }
            ContactResult::Deferred | ContactResult::Answered(_) => {
                self.tally.contact();
                self.schedulers[scheduler].contacts += 1;
            }
        }
        if self.contacts.len() < MOST_CONTACTS {
            self.contacts.push(Contact {
                at,
                scheduler,
                kind,
                result,
                request_delay,
            });
        }
    }
}
