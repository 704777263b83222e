//! Plays the contacts between the worker and its schedulers.

use std::time::Duration;

use brasserie_common::{Processor, WorkReply, WorkVerdict};
use brasserie_worker_fetch::{FetcherStep, Request};

use super::EmulatedWorld;
use crate::client::{seconds, span};
use crate::outcome::{ContactKind, ContactResult};
use crate::scenario::{Dispatch, Scenario};
use crate::server::{ArrivedRequest, RequestAnswer, Sent, TaskAtWorker, TypeVerdict, Want};

impl EmulatedWorld<'_> {
    /// Makes all contacts that are due at this instant. Returns whether there were any.
    pub(super) fn talk(&mut self) -> bool {
        if !self.is.connected {
            return false;
        }
        let told = self.report();
        let came = self.schedulers_send();
        let asked = match self.client.next(self.now) {
            Some(FetcherStep::Ask(request)) => {
                self.ask(&request);
                true
            }
            Some(FetcherStep::ReadList { association, .. }) => {
                // The list is always readable and never changes.
                let place = association.0;
                let name = &self.scenario.schedulers[place].name;
                self.client.list_read(self.now, place, name);
                true
            }
            Some(FetcherStep::Wait { .. }) | None => false,
        };
        told || came || asked
    }

    /// Sends the tasks that schedulers have without a new request. Returns whether there were any.
    fn schedulers_send(&mut self) -> bool {
        let mut came = false;
        let now = seconds(self.now);
        for place in 0..self.servers.len() {
            let server = &mut self.servers[place];
            if !server.is_up(now) {
                continue;
            }
            let sent = match self.scenario.policy.dispatch {
                Dispatch::Push => server.push(self.scenario, now, &self.slots[place]),
                Dispatch::Pull => server.linger(self.scenario, now),
            };
            for sent in sent {
                came = true;
                self.sends(place, sent);
            }
        }
        came
    }

    /// Delivers a task, which the worker accepts, or refuses if it has too much work.
    fn sends(&mut self, place: usize, sent: Sent) {
        let job = &self.scenario.schedulers[place].jobs[sent.job];
        let of_type = job.versions[sent.version].of_type();
        if self.client.takes(of_type) {
            self.comes(place, sent);
        } else {
            let now = seconds(self.now);
            self.servers[place].is_refused(sent.job, now);
            self.schedulers[place].refused += 1;
        }
    }

    fn ask(&mut self, request: &Request) {
        let place = request.association.0;
        let now = seconds(self.now);
        if !self.servers[place].is_up(now) {
            self.counts(place, ContactKind::Request, ContactResult::Failed, 0.0);
            self.client.not_served(self.now, place, request.seq);
            return;
        }
        // Completions go first, because new tasks may be sent for the resources that they free.
        for number in self.client.waiting_for(place) {
            self.is_reported(number);
        }
        let asked = self.asked(request);
        let wants_work = asked.wants.iter().any(|want| want.secs > 0.0);
        let answer = self.servers[place].request(self.scenario, now, asked);
        let is_deferred = answer.verdicts.contains(&Some(TypeVerdict::Deferred));
        let result = match is_deferred {
            true => ContactResult::Deferred,
            false => ContactResult::Answered(answer.sent.len()),
        };
        if wants_work && answer.sent.is_empty() {
            self.schedulers[place].in_vain += 1;
        }
        self.counts(place, ContactKind::Request, result, answer.request_delay);
        let reply = self.reply(request, &answer);
        for sent in answer.sent {
            self.sends(place, sent);
        }
        self.client.answered(self.now, place, &reply);
    }

    fn asked(&mut self, request: &Request) -> ArrivedRequest {
        let worker = &self.scenario.worker;
        let want = |of_type: usize| {
            let name = processor(self.scenario, of_type);
            let demand = request.demands.iter().find(|it| it.processor == name);
            demand.map_or_else(Want::default, |demand| Want {
                secs: demand.instance_secs,
                instances: demand.instances,
                idle: demand.idle,
                delay: demand.estimated_delay,
                waiting: demand.waiting,
            })
        };
        let known = self.client.known(self.now, request.association.0);
        let known = known.into_iter().map(|(remaining, deadline)| TaskAtWorker {
            remaining,
            deadline,
        });
        ArrivedRequest {
            wants: (0..worker.types()).map(want).collect(),
            known: known.collect(),
            linger: request.linger.as_secs_f64(),
        }
    }

    fn reply(&self, request: &Request, answer: &RequestAnswer) -> WorkReply {
        let of_types = answer.verdicts.iter().enumerate();
        let verdicts = of_types.filter_map(|(of_type, verdict)| {
            let verdict = match (*verdict)? {
                TypeVerdict::Granted(tasks) => WorkVerdict::Granted(tasks),
                TypeVerdict::NoWork => WorkVerdict::NoWork,
                TypeVerdict::Limited => WorkVerdict::Limited,
                TypeVerdict::Deadline => WorkVerdict::Deadline,
                TypeVerdict::NoApps => WorkVerdict::NoApps,
                TypeVerdict::Deferred => WorkVerdict::Deferred,
            };
            Some((processor(self.scenario, of_type), verdict))
        });
        let no_apps = answer.no_apps.iter();
        WorkReply {
            seq: request.seq,
            verdicts: verdicts.collect(),
            request_delay: match answer.request_delay > 0.0 {
                true => span(answer.request_delay),
                false => Duration::ZERO,
            },
            no_apps: no_apps.map(|it| processor(self.scenario, *it)).collect(),
            next_contact: None,
        }
    }
}

fn processor(scenario: &Scenario, of_type: usize) -> Processor {
    match of_type {
        0 => Processor::Cpu,
        _ => Processor::Cards(scenario.worker.type_name(of_type).into()),
    }
}

/// Returns the slots of each scheduler for tasks without requests, by type: its share of the instances, rounded down. The remaining
/// instances go to the schedulers with the largest fractions, the first ones first.
pub(super) fn slots(scenario: &Scenario) -> Vec<Vec<f64>> {
    let shares: Vec<f64> = scenario.schedulers.iter().map(|it| it.share).collect();
    let sum: f64 = shares.iter().sum();
    let mut all = vec![Vec::new(); shares.len()];
    for of_type in 0..scenario.worker.types() {
        let there = f64::from(scenario.worker.instances(of_type));
        let exact = |share: &f64| {
            if sum > 0.0 {
                there * share / sum
            } else {
                there
            }
        };
        let exact: Vec<f64> = shares.iter().map(exact).collect();
        let mut whole: Vec<f64> = exact.iter().map(|it| it.floor()).collect();
        let mut order: Vec<usize> = (0..exact.len()).collect();
        order.sort_by(|one, other| {
            let lost = |at: &usize| exact[*at] - whole[*at];
            lost(other).total_cmp(&lost(one)).then(one.cmp(other))
        });
        let left = (there - whole.iter().sum::<f64>()).max(0.0).round() as usize;
        for at in order.into_iter().take(left) {
            whole[at] += 1.0;
        }
        for (slots, whole) in all.iter_mut().zip(whole) {
            slots.push(whole);
        }
    }
    for (slots, scheduler) in all.iter_mut().zip(&scenario.schedulers) {
        if let Some(most) = scheduler.slots {
            slots.iter_mut().for_each(|slots| *slots = f64::from(most));
        }
    }
    all
}
