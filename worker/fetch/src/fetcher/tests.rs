//! Tests of a fetcher's requests, of its reactions to answers, and of laws that hold in all histories.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use brasserie_common::work_overview::RequestState;
use brasserie_common::{WorkReply, WorkVerdict};

use super::super::reason::Wish;
use super::super::types::{ProcessorKind, ProcessorUsage, TaskStage};
use super::*;

const FIRST: AssociationIndex = AssociationIndex(0);
const SECOND: AssociationIndex = AssociationIndex(1);
const PATIENCE: Duration = Duration::from_secs(30);

fn at(seconds: f64) -> Time {
    Time::ZERO + Duration::from_secs_f64(seconds)
}

fn kind(name: &str, instances: u32) -> ProcessorKind {
    ProcessorKind {
        name: name.to_owned(),
        instances,
        relative_speed: 1.0,
        availability: 1.0,
    }
}

fn four_cpus() -> Processors {
    Processors::new(kind("CPU", 4), Vec::new())
}

fn member(port: u16) -> ServiceAddress {
    ServiceAddress {
        host: "scheduler".into(),
        port,
    }
}

fn says(request: &Request, verdict: WorkVerdict) -> WorkReply {
    WorkReply {
        seq: request.seq,
        verdicts: vec![(Processor::Cpu, verdict)],
        request_delay: Duration::ZERO,
        no_apps: Vec::new(),
        next_contact: None,
    }
}

fn association(share: f64) -> Association {
    Association {
        share,
        max_concurrent: None,
        max_concurrent_of_jobs: BTreeMap::new(),
    }
}

/// A fetcher and its input.
struct Rig {
    fetcher: Fetcher,
    now: Time,
    tasks: Vec<Task>,
    association_states: Vec<AssociationState>,
}

impl Rig {
    /// Creates a fetcher with one scheduler for each share.
    fn new(shares: &[f64]) -> Self {
        Rig::with_members(shares, 1)
    }

    fn with_members(shares: &[f64], members: u16) -> Self {
        Rig::after(&Saved::default(), shares, members)
    }

    fn after(saved: &Saved, shares: &[f64], members: u16) -> Self {
        let setup = Setup {
            profile: Profile::CLUSTER,
            preemption: Preemption::Off,
            processors: four_cpus(),
            associations: shares.iter().map(|share| association(*share)).collect(),
            members: vec![(1..=members).map(member).collect(); shares.len()],
            patience: PATIENCE,
            seed: 7,
        };
        Rig {
            fetcher: Fetcher::new(setup, Time::ZERO, saved),
            now: Time::ZERO,
            tasks: Vec::new(),
            association_states: vec![AssociationState::default(); shares.len()],
        }
    }

    fn next(&mut self) -> FetcherStep {
        let input = FetcherInput {
            now: self.now,
            computing: Computing::Allowed,
            tasks: &self.tasks,
            association_states: &self.association_states,
            unreported: &[],
        };
        self.fetcher.next(&input)
    }

    /// Advances time until the fetcher sends a request; `None` if it sends none before `end`.
    fn asks_before(&mut self, end: Time) -> Option<Request> {
        while self.now < end {
            match self.next() {
                FetcherStep::Ask(request) => return Some(request),
                FetcherStep::ReadList { association, .. } => {
                    self.fetcher.list_read(self.now, association, None);
                }
                FetcherStep::Wait { until } => {
                    assert!(until > self.now, "it waits for {until:?}");
                    self.now = until.min(end);
                }
            }
        }
        None
    }

    fn asks(&mut self) -> Request {
        let end = self.now + Duration::from_secs(600);
        self.asks_before(end).expect("it asks within ten minutes")
    }

    fn reply(&mut self, request: &Request, verdict: WorkVerdict) {
        let reply = says(request, verdict);
        self.fetcher.answered(self.now, request.association, &reply);
    }

    fn heartbeat(&mut self, request: &Request, verdict: WorkVerdict) {
        let reply = says(request, verdict);
        let to = request.association;
        self.fetcher.heartbeat_says(self.now, to, &reply);
    }

    /// Adds this many running tasks.
    fn takes(&mut self, association: AssociationIndex, tasks: usize, remaining: f64) {
        for _ in 0..tasks {
            let number = TaskNumber(self.tasks.len() as u64);
            self.takes_one(association, number, remaining);
        }
    }

    fn takes_one(&mut self, association: AssociationIndex, number: TaskNumber, remaining: f64) {
        let task = Task {
            number,
            association,
            job: 1,
            usage: ProcessorUsage {
                cpus: 1.0,
                cards: None,
            },
            remaining,
            received: self.now,
            deadline: None,
            stage: TaskStage::Executing { since: self.now },
        };
        self.fetcher.task_came(&task);
        self.tasks.push(task);
    }

    /// Makes the first contact with each scheduler, which brings no work.
    fn meets_all(&mut self) {
        for _ in 0..self.association_states.len() {
            let request = self.asks();
            assert_eq!(request.reason, RpcReason::Wished(Wish::Init));
            self.reply(&request, WorkVerdict::NoWork);
        }
    }
}

#[test]
fn the_first_contacts_ask_for_little_and_the_next_for_all_that_is_missing() {
    let mut rig = Rig::new(&[100.0]);
    let first = rig.asks();
    assert_eq!(first.demands[0].instance_secs, 1.0);
    assert_eq!(first.demands[0].idle, 1.0);
    rig.takes(FIRST, 1, 60.0);
    rig.reply(&first, WorkVerdict::Granted(1));
    let second = rig.asks();
    assert_eq!(second.reason, RpcReason::NeedWork);
    assert!(second.seq > first.seq);
    // One task for each of three instances, because no task has tested the estimates yet.
    assert_eq!(second.demands[0].instance_secs, 1.0);
    assert_eq!(second.demands[0].idle, 3.0);
    assert_eq!(second.demands[0].there, 4.0);
    assert_eq!(rig.now.since(Time::ZERO), Duration::from_millis(5));
    rig.reply(&second, WorkVerdict::NoWork);
    let ended = rig.tasks.pop().expect("a task");
    let well = TaskResult::Well {
        given: None,
        took: 60.0,
    };
    rig.fetcher.task_ended(rig.now, &ended, well, Leaves::Idle);
    // All four instances, up to the high water mark of half a minute.
    let third = rig.asks();
    assert_eq!(third.demands[0].instance_secs, 120.0);
}

#[test]
fn nobody_is_asked_while_enough_is_here() {
    let mut rig = Rig::new(&[100.0]);
    rig.meets_all();
    rig.takes(FIRST, 4, 3600.0);
    let end = rig.now + Duration::from_secs(300);
    assert_eq!(rig.asks_before(end), None);
}

#[test]
fn only_a_single_scheduler_may_send_later() {
    let mut alone = Rig::new(&[100.0]);
    assert_eq!(alone.asks().linger, Duration::from_secs(120));
    let mut two = Rig::new(&[100.0, 100.0]);
    assert_eq!(two.asks().linger, Duration::ZERO);
}

/// Makes a request for all four idle instances that brings no work, and returns the end of its backoff.
fn asked_in_vain(rig: &mut Rig) -> Time {
    rig.meets_all();
    let request = rig.asks();
    assert_eq!(request.demands[0].idle, 4.0);
    rig.reply(&request, WorkVerdict::NoWork);
    let pair = rig.fetcher.contacts[0].pairs.of(ProcessorType::CPU);
    pair.backed_off_until()
}

#[test]
fn what_comes_as_a_request_lingers_is_not_asked_for_again_while_more_may_come() {
    let mut rig = Rig::new(&[100.0]);
    let backed_off_until = asked_in_vain(&mut rig);
    rig.takes(FIRST, 1, 60.0);
    // Three instances are idle, and the request still covers them.
    assert_eq!(rig.asks_before(backed_off_until), None);
    // The next request comes with the next periodic check.
    let again = rig.asks();
    assert_eq!(again.demands[0].idle, 3.0);
    assert!(rig.now.since(backed_off_until) <= Duration::from_secs(5));
}

#[test]
fn what_a_lingering_request_does_not_stand_for_is_asked_for_at_once() {
    let mut rig = Rig::new(&[100.0]);
    asked_in_vain(&mut rig);
    rig.takes(FIRST, 4, 60.0);
    let begun = rig.now;
    let ended = rig.tasks.remove(0);
    let end = TaskResult::Other;
    rig.fetcher.task_stopped(rig.now, &ended);
    rig.fetcher.task_ended(rig.now, &ended, end, Leaves::Idle);
    // The idle instance exceeds the request.
    let request = rig.asks();
    assert_eq!(request.demands[0].idle, 1.0);
    assert!(rig.now.since(begun) <= Duration::from_millis(5));
    rig.reply(&request, WorkVerdict::NoWork);
    // Two requests in a row brought nothing. A scheduler that sends tasks now and then is asked less often than an unknown one.
    let pair = rig.fetcher.contacts[0].pairs.of(ProcessorType::CPU);
    assert_eq!(pair.interval(), 2.0);
}

#[test]
fn who_may_have_forgotten_a_request_is_asked_again_when_a_task_has_come() {
    type Happens = fn(&mut Rig);
    let all: [Happens; 3] = [
        |rig| rig.fetcher.out_of_favour(FIRST),
        |rig| rig.fetcher.reset(FIRST),
        |rig| rig.now = rig.now + Duration::from_secs(120),
    ];
    for happens in all {
        for before in [true, false] {
            let mut rig = Rig::new(&[100.0]);
            asked_in_vain(&mut rig);
            if before {
                rig.takes(FIRST, 1, 600.0);
            }
            happens(&mut rig);
            if !before {
                rig.takes(FIRST, 1, 600.0);
            }
            rig.fetcher.check(CheckEvent::IdleProcessors);
            let begun = rig.now;
            rig.asks();
            assert!(rig.now.since(begun) <= Duration::from_millis(5));
        }
    }
}

#[test]
fn whoever_waited_as_a_request_stood_waits_no_longer_when_it_does_not() {
    type Happens = fn(&mut Rig);
    let all: [Happens; 3] = [
        |rig| rig.fetcher.out_of_favour(FIRST),
        |rig| rig.fetcher.task_refused(FIRST),
        |rig| rig.fetcher.reset(FIRST),
    ];
    for happens in all {
        let mut rig = Rig::new(&[100.0]);
        let until = asked_in_vain(&mut rig);
        assert!(rig.now < until);
        happens(&mut rig);
        rig.fetcher.check(CheckEvent::Reconnected);
        let begun = rig.now;
        rig.asks();
        assert!(rig.now.since(begun) <= Duration::from_millis(5));
        // If the request brings nothing again, the next wait is longer.
        assert!(
            rig.fetcher.contacts[0]
                .pairs
                .of(ProcessorType::CPU)
                .interval()
                > 0.0
        );
    }
}

/// A lingering request is lost with the worker instance that made it. Requests to several schedulers do not linger.
#[test]
fn a_worker_of_one_scheduler_asks_at_once_after_a_restart() {
    for (shares, asks) in [(&[100.0][..], true), (&[100.0, 100.0], false)] {
        let mut rig = Rig::new(shares);
        asked_in_vain(&mut rig);
        let saved = rig.fetcher.save(rig.now);
        let next = Rig::after(&saved, shares, 1);
        let pair = next.fetcher.contacts[0].pairs.of(ProcessorType::CPU);
        assert_eq!(
            (pair.is_backed_off(next.now), pair.interval() > 0.0),
            (!asks, true)
        );
    }
}

#[test]
fn a_request_that_was_not_looked_at_stands_for_nothing() {
    let mut rig = Rig::new(&[100.0]);
    let backed_off_until = asked_in_vain(&mut rig);
    rig.now = backed_off_until;
    let deferred = rig.asks();
    rig.reply(&deferred, WorkVerdict::Deferred);
    rig.takes(FIRST, 1, 60.0);
    let pair = rig.fetcher.contacts[0].pairs.of(ProcessorType::CPU);
    assert_eq!((pair.interval(), pair.credit()), (0.0, None));
}

#[test]
fn an_answer_to_another_request_means_nothing() {
    let mut rig = Rig::new(&[100.0]);
    let request = rig.asks();
    let other = Request {
        seq: WorkRequestSeq(request.seq.0 + 1),
        ..request.clone()
    };
    rig.reply(&other, WorkVerdict::Granted(1));
    assert_eq!(rig.next(), FetcherStep::Wait { until: Time::NEVER });
    rig.reply(&request, WorkVerdict::Granted(1));
    assert!(rig.asks().seq > request.seq);
}

#[test]
fn a_verdict_that_is_not_known_is_asked_for_again_and_given_up_in_the_end() {
    let mut rig = Rig::new(&[100.0]);
    let begun = rig.now;
    let request = rig.asks();
    rig.reply(&request, WorkVerdict::Pending);
    let mut repeats = 0;
    let mut next = rig.asks();
    while next.seq == request.seq {
        repeats += 1;
        assert_eq!(next, request);
        rig.reply(&next, WorkVerdict::Pending);
        next = rig.asks();
    }
    assert_eq!(repeats, 29);
    // The timeout counts like a deferral: the next request waits for the fetch period.
    assert_eq!(rig.now, begun + PATIENCE + Duration::from_secs(5));
    assert!(next.seq > request.seq);
}

#[test]
fn a_heartbeat_brings_the_verdict() {
    let mut rig = Rig::new(&[100.0]);
    let request = rig.asks();
    // The verdict of the call itself is not known yet, so a pending verdict by heartbeat is ignored.
    rig.heartbeat(&request, WorkVerdict::Pending);
    assert_eq!(rig.next(), FetcherStep::Wait { until: Time::NEVER });
    rig.reply(&request, WorkVerdict::Pending);
    rig.heartbeat(&request, WorkVerdict::NoWork);
    let next = rig.asks();
    assert!(next.seq > request.seq);
}

#[test]
fn who_had_nothing_while_all_were_busy_is_asked_once_one_is_idle() {
    let mut rig = Rig::new(&[100.0]);
    rig.meets_all();
    rig.fetcher.estimates.learn(FIRST, 0, None, 5.0);
    // All instances are busy, but the buffer is below the low water mark.
    rig.takes(FIRST, 4, 5.0);
    let request = rig.asks();
    assert_eq!(request.demands[0].idle, 0.0);
    rig.reply(&request, WorkVerdict::NoWork);
    let begun = rig.now;
    let busy = rig.asks_before(begun + Duration::from_millis(400));
    assert_eq!(busy, None, "the backoff holds while nothing is idle");
    let ended = rig.tasks.pop().expect("a task");
    rig.fetcher
        .task_ended(rig.now, &ended, TaskResult::Other, Leaves::Idle);
    let now = rig.now;
    let next = rig.asks_before(now + Duration::from_millis(20));
    let next = next.expect("it asks at once");
    assert_eq!(next.demands[0].idle, 1.0);
    // An instance was idle at this request, so only time ends the backoff, which is longer than the first one.
    rig.reply(&next, WorkVerdict::NoWork);
    let ended = rig.tasks.pop().expect("a task");
    rig.fetcher
        .task_ended(rig.now, &ended, TaskResult::Other, Leaves::Idle);
    let now = rig.now;
    let again = rig.asks_before(now + Duration::from_millis(950));
    assert_eq!(again, None);
}

#[test]
fn another_instance_of_a_scheduler_has_nothing_to_do_with_what_the_former_had() {
    let interval = |is_another| {
        let mut rig = Rig::new(&[100.0]);
        rig.meets_all();
        for _ in 0..8 {
            let request = rig.asks();
            rig.reply(&request, WorkVerdict::NoWork);
        }
        match is_another {
            true => rig.fetcher.scheduler_replaced(rig.now, FIRST),
            false => rig.fetcher.reset(FIRST),
        }
        // No request lingers in either case, so the scheduler is asked.
        let soon = rig.now + Duration::from_secs(6);
        let request = rig.asks_before(soon).expect("a request");
        rig.reply(&request, WorkVerdict::NoWork);
        rig.fetcher.contacts[0]
            .pairs
            .of(ProcessorType::CPU)
            .interval()
    };
    assert_eq!(interval(true), Profile::CLUSTER.pair_backoff_min);
    assert_eq!(interval(false), Profile::CLUSTER.pair_backoff_max);
}

#[test]
fn an_acknowledgement_counts_if_too_many_were_missing() {
    let mut rig = Rig::new(&[100.0]);
    rig.meets_all();
    let far = rig.now + Duration::from_secs(100);
    rig.association_states[0].unacknowledged = 9;
    assert_eq!(rig.asks_before(far), None);
    rig.association_states[0].unacknowledged = 8;
    rig.fetcher.task_gone(FIRST, TaskNumber(1));
    let now = rig.now;
    let next = rig.asks_before(now + Duration::from_millis(20));
    assert!(next.is_some(), "it asks at once");
}

#[test]
fn all_members_are_tried_before_the_request_has_failed() {
    let mut rig = Rig::with_members(&[100.0], 3);
    let mut asked = BTreeSet::new();
    let first = rig.asks();
    asked.insert(first.to.port);
    for _ in 0..2 {
        rig.fetcher.not_served(rig.now, FIRST, first.seq);
        let next = rig.asks();
        assert_eq!((next.seq, rig.now), (first.seq, Time::ZERO));
        asked.insert(next.to.port);
    }
    assert_eq!(asked.len(), 3);
    rig.fetcher.not_served(rig.now, FIRST, first.seq);
    let again = rig.asks();
    assert!(again.seq > first.seq);
    // The backoff is a half to all of twice the minimum, and then the next check follows.
    let waited = rig.now.since(Time::ZERO).as_secs_f64();
    assert!((1.0..=2.5).contains(&waited), "{waited}");
}

#[test]
fn when_one_has_nothing_the_next_is_asked() {
    let mut rig = Rig::new(&[100.0, 100.0]);
    rig.meets_all();
    rig.takes(FIRST, 1, 1.0);
    rig.takes(SECOND, 1, 1.0);
    let first = rig.asks();
    rig.reply(&first, WorkVerdict::NoWork);
    let second = rig.asks();
    assert_ne!(first.association, second.association);
    assert!(rig.now.since(Time::ZERO) < Duration::from_secs(5));
}

#[test]
fn no_other_is_asked_for_what_one_has_not_said_yet() {
    let mut rig = Rig::new(&[100.0, 100.0]);
    rig.meets_all();
    rig.takes(FIRST, 1, 1.0);
    rig.takes(SECOND, 1, 1.0);
    let first = rig.asks();
    rig.reply(&first, WorkVerdict::Pending);
    for _ in 0..20 {
        let next = rig.asks();
        assert_eq!(next.seq, first.seq);
        rig.reply(&next, WorkVerdict::Pending);
    }
}

#[test]
fn one_that_lingers_says_what_waits_here() {
    let waiting = |request: &Request| request.demands[0].waiting;
    let mut alone = Rig::new(&[100.0]);
    alone.meets_all();
    alone.fetcher.estimates.learn(FIRST, 0, None, 1.0);
    alone.takes(FIRST, 6, 1.0);
    for task in &mut alone.tasks[4..] {
        task.stage = TaskStage::Queued;
    }
    let request = alone.asks();
    assert_eq!(waiting(&request), Some(2.0));
    // A worker with two schedulers asks the next one instead of waiting for a task after a completion.
    let mut two = Rig::new(&[100.0, 100.0]);
    assert_eq!(waiting(&two.asks()), None);
}

#[test]
fn who_is_absent_is_not_asked_and_asked_at_once_when_it_is_back() {
    let mut rig = Rig::new(&[100.0]);
    rig.association_states[0].is_absent = true;
    let end = at(300.0);
    assert_eq!(rig.asks_before(end), None);
    rig.association_states[0].is_absent = false;
    rig.fetcher.check(CheckEvent::Reconnected);
    rig.asks();
    assert_eq!(rig.now, end);
}

#[test]
fn a_new_association_is_asked_anew_under_a_higher_number() {
    let mut rig = Rig::new(&[100.0]);
    let before = rig.asks();
    rig.fetcher.reset(FIRST);
    let after = rig.asks();
    assert!(after.seq > before.seq);
    // The wish of the unanswered request stays.
    assert_eq!(after.reason, before.reason);
    rig.reply(&before, WorkVerdict::Granted(1));
    assert_eq!(rig.next(), FetcherStep::Wait { until: Time::NEVER });
}

#[test]
fn other_processors_are_asked_for_when_they_come() {
    let mut rig = Rig::new(&[100.0]);
    rig.meets_all();
    rig.takes(FIRST, 4, 3600.0);
    let end = rig.now + Duration::from_secs(60);
    assert_eq!(rig.asks_before(end), None);
    let with_card = Processors::new(kind("CPU", 4), vec![kind("H100", 1)]);
    rig.fetcher.set_processors(rig.now, with_card);
    let request = rig.asks();
    let wants = |place: usize| request.demands[place].wants_something();
    assert_eq!((wants(0), wants(1)), (false, true));
    assert_eq!(
        request.demands[1].processor,
        Processor::Cards("H100".into())
    );
}

#[test]
fn what_is_saved_is_there_again() {
    let mut rig = Rig::new(&[100.0, 300.0]);
    rig.meets_all();
    rig.takes(FIRST, 2, 5.0);
    rig.now = rig.now + Duration::from_secs(20);
    let ended = rig.tasks[0].clone();
    rig.fetcher.task_stopped(rig.now, &ended);
    rig.fetcher.task_ended(
        rig.now,
        &ended,
        TaskResult::Well {
            given: None,
            took: 17.0,
        },
        Leaves::Idle,
    );
    let fixed = FixedTasks {
        ending: &BTreeSet::new(),
        held_back: &BTreeSet::new(),
    };
    let tasks = rig.tasks.split_off(1);
    rig.fetcher.choose(rig.now, &tasks, fixed);
    let saved = rig.fetcher.save(rig.now);
    assert!(saved.rec[0].average > 0.0);
    assert_eq!(saved.estimates.len(), 1);
    let setup = Setup {
        profile: Profile::CLUSTER,
        preemption: Preemption::Off,
        processors: four_cpus(),
        associations: vec![association(100.0), association(300.0)],
        members: vec![vec![member(1)]; 2],
        patience: PATIENCE,
        seed: 8,
    };
    let restored = Fetcher::new(setup, rig.now, &saved);
    assert_eq!(restored.save(rig.now).rec, saved.rec);
    assert_eq!(restored.expected(FIRST, 1, None), 17.0);
    assert_eq!(restored.expected(SECOND, 1, None), 60.0);
}

#[test]
fn the_overview_says_why_nobody_is_asked() {
    let mut rig = Rig::new(&[100.0, 0.0]);
    rig.meets_all();
    let request = rig.asks();
    let input = FetcherInput {
        now: rig.now,
        computing: Computing::Allowed,
        tasks: &rig.tasks,
        association_states: &rig.association_states,
        unreported: &[],
    };
    let overview = rig.fetcher.overview(&input);
    assert_eq!(overview.of_type[0].idle_now, 4.0);
    let (asked, other) = match request.association {
        FIRST => (0, 1),
        _ => (1, 0),
    };
    let under_way = overview.of_association[asked].request.clone();
    assert!(under_way.is_some_and(|request| request.state == RequestState::InFlight));
    assert_eq!(overview.of_association[other].request, None);
    assert_eq!(overview.of_association[0].share, 1.0);
}

/// A random event of a history.
#[derive(Clone, Debug)]
enum Happening {
    Passes(f64),
    Reply(usize, u8, f64),
    Fails(usize),
    Reset(usize),
    Absent(usize, bool),
    Comes(usize, f64),
    Ends(usize),
    Update(usize),
}

fn happening() -> impl Strategy<Value = Happening> {
    let place = 0..3_usize;
    prop_oneof![
        3 => (0.0..40.0).prop_map(Happening::Passes),
        4 => (place.clone(), 0..8_u8, 0.0..20.0).prop_map(|(p, v, d)| Happening::Reply(p, v, d)),
        1 => place.clone().prop_map(Happening::Fails),
        1 => place.clone().prop_map(Happening::Reset),
        1 => (place.clone(), any::<bool>()).prop_map(|(p, is)| Happening::Absent(p, is)),
        2 => (place.clone(), 0.0..90.0).prop_map(|(p, secs)| Happening::Comes(p, secs)),
        2 => (0..50_usize).prop_map(Happening::Ends),
        1 => place.prop_map(Happening::Update),
    ]
}

fn verdict(number: u8) -> WorkVerdict {
    match number {
        0 => WorkVerdict::Granted(1),
        1 => WorkVerdict::NoWork,
        2 => WorkVerdict::Limited,
        3 => WorkVerdict::Deadline,
        4 => WorkVerdict::NoApps,
        5 => WorkVerdict::Deferred,
        6 => WorkVerdict::Stale,
        _ => WorkVerdict::Pending,
    }
}

/// The requests of a history so far.
#[derive(Default)]
struct Told {
    open: BTreeMap<usize, Request>,
    last: WorkRequestSeq,
}

impl Told {
    /// Checks the laws of one request.
    fn asks(&mut self, rig: &Rig, request: Request) -> Result<(), TestCaseError> {
        let place = request.association.0;
        let rpc = &rig.fetcher.contacts[place].rpc;
        prop_assert!(!rig.association_states[place].is_absent);
        match self.open.get(&place) {
            Some(open) if open.seq == request.seq => prop_assert_eq!(open, &request),
            Some(_) | None => {
                prop_assert!(request.seq > self.last);
                let is_wished = request.reason == RpcReason::Wished(Wish::User);
                prop_assert!(is_wished || !rpc.is_backed_off(rig.now));
                self.last = request.seq;
            }
        }
        for demand in &request.demands {
            for amount in [demand.instance_secs, demand.instances, demand.idle] {
                prop_assert!(amount >= 0.0 && amount.is_finite());
            }
            let others = self.open.iter().filter(|(other, _)| **other != place);
            for (_, other) in others {
                let theirs = other.demands.iter();
                let mut both = theirs.filter(|theirs| theirs.processor == demand.processor);
                let is_asked = both.any(|theirs| theirs.instance_secs > 0.0);
                prop_assert!(!is_asked || demand.instance_secs == 0.0);
            }
        }
        self.open.insert(place, request);
        Ok(())
    }
}

integration_tests_properties::properties! {
    300;

    /// A worker accepts tasks until two buffers wait, each task counted as one buffer at most. If it then still had a shortfall, it would
    /// ask without end.
    #[test]
    fn nobody_is_asked_for_what_would_be_refused(waiting in vec(0.1_f64..300.0, 8..60), runs in 0.001_f64..100.0) {
        let mut rig = Rig::new(&[100.0]);
        rig.takes(FIRST, 4, runs);
        let high = rig.fetcher.profile().high_water();
        let mut backlog = 0.0;
        for seconds in waiting {
            if backlog >= 2.0 * high * 4.0 {
                break;
            }
            backlog += seconds.min(high);
            rig.takes(FIRST, 1, seconds);
            rig.tasks.last_mut().unwrap().stage = TaskStage::Queued;
        }
        let outlook = rig.fetcher.outlook(rig.now, &rig.tasks);
        let saturated = outlook.of_type[ProcessorType::CPU].saturated;
        let is_refused = backlog >= 2.0 * high * 4.0;
        prop_assert!(!is_refused || saturated >= high, "{saturated} of {backlog}");
    }

    /// Request numbers rise in all histories, schedulers in a backoff or without an association are not asked, and no two schedulers have a
    /// request for one type.
    #[test]
    fn requests_keep_the_laws(happenings in vec(happening(), 1..60)) {
        let mut rig = Rig::new(&[100.0, 300.0, 0.0]);
        let mut told = Told::default();
        for happening in happenings {
            match happening {
                Happening::Passes(seconds) => rig.now = rig.now + Duration::from_secs_f64(seconds),
                Happening::Reply(place, number, delay) => {
                    let Some(request) = told.open.get(&place).cloned() else { continue };
                    let reply = WorkReply {
                        seq: request.seq,
                        verdicts: vec![(Processor::Cpu, verdict(number))],
                        request_delay: Duration::from_secs_f64(delay),
                        no_apps: Vec::new(),
                        next_contact: None,
                    };
                    rig.fetcher.answered(rig.now, AssociationIndex(place), &reply);
                    if verdict(number) != WorkVerdict::Pending {
                        told.open.remove(&place);
                    }
                }
                Happening::Fails(place) => {
                    let Some(request) = told.open.get(&place) else { continue };
                    let index = AssociationIndex(place);
                    rig.fetcher.not_served(rig.now, index, request.seq);
                }
                Happening::Reset(place) => {
                    rig.fetcher.reset(AssociationIndex(place));
                    told.open.remove(&place);
                }
                Happening::Absent(place, is_absent) => rig.association_states[place].is_absent = is_absent,
                Happening::Comes(place, seconds) => rig.takes(AssociationIndex(place), 1, seconds),
                Happening::Ends(place) => {
                    if place < rig.tasks.len() {
                        let task = rig.tasks.remove(place);
                        rig.fetcher.task_stopped(rig.now, &task);
                        rig.fetcher.task_ended(rig.now, &task, TaskResult::Other, Leaves::Idle);
                    }
                }
                Happening::Update(place) => {
                    rig.fetcher.end_waits(rig.now, AssociationIndex(place));
                }
            }
            // Requests that were given up or have failed are over.
            match rig.next() {
                FetcherStep::Ask(request) => {
                    let is_open = |place: &usize| rig.fetcher.outstanding[*place].is_some();
                    told.open.retain(|place, _| is_open(place));
                    told.asks(&rig, request)?;
                }
                FetcherStep::ReadList { association, .. } => rig.fetcher.list_read(rig.now, association, None),
                FetcherStep::Wait { until } => prop_assert!(until > rig.now),
            }
        }
    }
}

mod following;
