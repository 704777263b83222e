//! Tests of many workers whose scheduler is away for ten minutes: after its return they come, but not all at once.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use brasserie_common::rng::{Purpose, Rng};
use brasserie_common::{ServiceAddress, WorkVerdict};

use super::super::contact_state::FetchReply;
use super::super::members::Members;
use super::super::pair_backoff::{SentRequest, TypeReply};
use super::super::rpc_policy::Terms;
use super::super::types::{PerType, ProcessorKind, ProcessorUsage, Processors};
use super::*;

const WORKERS: usize = 200;
const ONE_CPU: ProcessorUsage = ProcessorUsage {
    cpus: 1.0,
    cards: None,
};

fn at(seconds: f64) -> Time {
    Time::ZERO + Duration::from_secs_f64(seconds)
}

/// The scheduler goes away when all workers have been served once and want more work ...
fn goes() -> Time {
    at(30.0)
}

/// ... and returns after ten minutes.
fn is_back() -> Time {
    at(630.0)
}

fn processors() -> Processors {
    let cpu = ProcessorKind {
        name: "CPU".to_owned(),
        instances: 1,
        relative_speed: 1.0,
        availability: 1.0,
    };
    Processors::new(cpu, Vec::new())
}

fn of_cpu<T: Clone>(value: &T) -> PerType<T> {
    processors().table(value)
}

fn members() -> Vec<ServiceAddress> {
    let member = |port| ServiceAddress {
        host: "scheduler".into(),
        port,
    };
    vec![member(1), member(2), member(3)]
}

struct Worker {
    driver: ContactDriver,
    state: ContactState,
    works_until: Time,
}

/// The simulated workers and the requests at the scheduler.
struct Storm {
    profile: Profile,
    workers: Vec<Worker>,
    rng: Rng,
    luck: Luck,
    /// The requests that the scheduler received, with their workers.
    served: Vec<(Time, usize)>,
    /// The number of attempts without an answer.
    in_vain: usize,
}

/// Whether waits are random.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Luck {
    Random,
    /// All workers draw the same number.
    Same,
}

impl Storm {
    fn new(profile: Profile, seed: u64, luck: Luck) -> Self {
        let mut storm = Storm {
            profile,
            workers: Vec::new(),
            rng: Rng::new(seed, Purpose::Backoff),
            luck,
            served: Vec::new(),
            in_vain: 0,
        };
        for _ in 0..WORKERS {
            let members = Members::new(members(), storm.draw());
            storm.workers.push(Worker {
                driver: ContactDriver::new(),
                state: ContactState::new(&processors(), members),
                works_until: Time::ZERO,
            });
        }
        storm
    }

    fn draw(&mut self) -> f64 {
        let random = (self.rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        match self.luck {
            Luck::Random => random,
            Luck::Same => 1.0,
        }
    }

    /// Runs the storm. All workers want work at the same instant, which is the worst case.
    fn run(mut self, end: Time) -> Self {
        let numbers = 0..self.workers.len();
        let mut due: BinaryHeap<_> = numbers
            .map(|number| Reverse((Time::ZERO, number)))
            .collect();
        while let Some(Reverse((now, number))) = due.pop() {
            if now < end {
                let next = self.look(now, number);
                due.push(Reverse((next.max(now), number)));
            }
        }
        self
    }

    /// Lets one worker decide, and returns the time of its next decision.
    fn look(&mut self, now: Time, number: usize) -> Time {
        let u = self.draw();
        let profile = self.profile.clone();
        let terms = Terms {
            profile: &profile,
            u,
        };
        let worker = &mut self.workers[number];
        let works_until = worker.works_until;
        let round = RoundInputs {
            now,
            profile: &profile,
            computing: Computing::Allowed,
            unreported: &[],
        };
        let candidate = Candidate {
            state: &mut worker.state,
            is_suspended: false,
            is_absent: false,
            wants_no_more_work: false,
            has_tasks: false,
        };
        let decision = worker.driver.next(&round, &mut [candidate], |_| {
            (works_until <= now).then_some(AssociationIndex(0))
        });
        match decision {
            Decision::Nothing { until } => return until,
            Decision::ReadList { .. } => {
                worker.state.list_read(now, Some(members()), terms);
                worker.driver.over(CheckEvent::ListRead);
            }
            Decision::Contact(contact) => {
                if now < goes() || now >= is_back() {
                    self.served.push((now, number));
                    // The first work lasts exactly until the scheduler goes away.
                    let stock = now + span(profile.high_water());
                    worker.works_until = if now < goes() { goes() } else { stock };
                    worker.replied(now, contact.reason, terms);
                } else {
                    self.in_vain += worker.try_all();
                    worker.state.rpc.rpc_failed(now, terms);
                }
                worker.driver.over(CheckEvent::ContactOver);
            }
        }
        now
    }

    /// Returns the times at which the workers were first served after the scheduler's return, sorted.
    fn first_served(&self) -> Vec<Time> {
        let mut first = vec![Time::NEVER; WORKERS];
        for &(when, number) in self.served.iter().filter(|&&(when, _)| when >= is_back()) {
            first[number] = first[number].min(when);
        }
        first.sort_unstable();
        first
    }

    /// Returns the maximum number of requests per second after the scheduler's return.
    fn peak(&self, within: Duration) -> usize {
        let mut times: Vec<Time> = self.served.iter().map(|&(when, _)| when).collect();
        times.retain(|&when| when >= is_back() && when < is_back() + within);
        times.sort_unstable();
        let second = |(place, &from): (usize, &Time)| {
            let rest = &times[place..];
            rest.partition_point(|&when| when < from + Duration::from_secs(1))
        };
        times.iter().enumerate().map(second).max().unwrap_or(0)
    }
}

impl Worker {
    fn replied(&mut self, now: Time, reason: RpcReason, terms: Terms<'_>) {
        let said = TypeReply {
            verdict: Some(WorkVerdict::Granted(1)),
            no_apps: false,
        };
        let reply = FetchReply {
            of_type: of_cpu(&said),
            request_delay: 0.0,
            next_contact: 0.0,
        };
        let asked = SentRequest {
            reason,
            types: of_cpu(&true),
        };
        self.state.replied(now, &asked, &reply, terms);
        self.state.pairs.task_came(now, &ONE_CPU, 1.0);
    }

    /// Tries each member, and returns the number of attempts. Together they count as one failure.
    fn try_all(&mut self) -> usize {
        let mut attempt = self.state.members.begin().unwrap();
        let mut tries = 1;
        while attempt.ask_next(&self.state.members).is_some() {
            tries += 1;
        }
        tries
    }
}

#[test]
fn a_cluster_comes_back_to_its_scheduler_without_a_storm() {
    let cluster = Profile::CLUSTER;
    let twice = Duration::from_secs_f64(2.0 * cluster.rpc_backoff_max);
    for seed in 0..8 {
        let storm = Storm::new(cluster.clone(), seed, Luck::Random).run(is_back() + twice);
        let first = storm.first_served();
        assert!(first[WORKERS - 1] < is_back() + twice, "seed {seed}");
        // Two hundred workers that wait for 30 to 60 s make about five requests per second. A tenth of the workers in one second is
        // acceptable.
        let peak = storm.peak(twice);
        assert!(peak <= WORKERS / 10, "seed {seed}: {peak} in a second");
        // Each failed request tries three members. About eighteen failures in ten minutes are expected, not one each half second.
        let failures = storm.in_vain / 3 / WORKERS;
        assert!((12..=25).contains(&failures), "seed {seed}: {failures}");
    }
}

#[test]
fn volunteers_come_back_within_twice_their_longest_wait() {
    let volunteer = Profile::VOLUNTEER;
    let twice = Duration::from_secs_f64(2.0 * volunteer.rpc_backoff_max);
    let storm = Storm::new(volunteer, 1, Luck::Random).run(is_back() + twice);
    assert!(storm.first_served()[WORKERS - 1] < is_back() + twice);
    let peak = storm.peak(Duration::from_secs(900));
    assert!(peak <= WORKERS / 10, "{peak} in a second");
}

#[test]
fn without_chance_it_would_be_a_storm() {
    let cluster = Profile::CLUSTER;
    let twice = Duration::from_secs_f64(2.0 * cluster.rpc_backoff_max);
    let storm = Storm::new(cluster, 1, Luck::Same).run(is_back() + twice);
    assert_eq!(storm.peak(twice), WORKERS);
}
