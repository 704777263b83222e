//! Tests of the driver's decisions for each reason, and of its waits.

use std::time::Duration;

use brasserie_common::{ServiceAddress, WorkVerdict};
use proptest::prelude::*;

use super::super::contact_state::FetchReply;
use super::super::members::Members;
use super::super::pair_backoff::{SentRequest, TypeReply};
use super::super::report::{ReportContent, ReportReason};
use super::super::rpc_policy::Terms;
use super::super::types::{ProcessorKind, ProcessorType, Processors, TaskNumber};
use super::*;

const VOLUNTEER: Profile = Profile::VOLUNTEER;

fn at(seconds: f64) -> Time {
    Time::ZERO + Duration::from_secs_f64(seconds)
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

fn address(port: u16) -> ServiceAddress {
    ServiceAddress {
        host: "scheduler".into(),
        port,
    }
}

fn terms(u: f64) -> Terms<'static> {
    Terms {
        profile: &VOLUNTEER,
        u,
    }
}

/// A scheduler as a round sees it.
#[derive(Clone, Debug)]
struct Scheduler {
    state: ContactState,
    is_suspended: bool,
    wants_no_more_work: bool,
    has_tasks: bool,
}

impl Scheduler {
    /// Returns a scheduler that has been contacted and has no wish.
    fn quiet() -> Self {
        let members = Members::new(vec![address(1)], 0.0);
        let mut state = ContactState::new(&processors(), members);
        state.begin(RpcReason::Wished(Wish::Init));
        state.rpc.replied(at(0.0), 0.0, 0.0);
        Scheduler {
            state,
            is_suspended: false,
            wants_no_more_work: false,
            has_tasks: false,
        }
    }

    fn candidate(&mut self) -> Candidate<'_> {
        Candidate {
            state: &mut self.state,
            is_suspended: self.is_suspended,
            is_absent: false,
            wants_no_more_work: self.wants_no_more_work,
            has_tasks: self.has_tasks,
        }
    }

    fn replied(&mut self, now: Time, verdict: WorkVerdict) {
        let said = TypeReply {
            verdict: Some(verdict),
            no_apps: false,
        };
        let reply = FetchReply {
            of_type: processors().table(&said),
            request_delay: 0.0,
            next_contact: 0.0,
        };
        let asked = SentRequest {
            reason: RpcReason::NeedWork,
            types: processors().table(&true),
        };
        self.state.replied(now, &asked, &reply, terms(0.5));
    }
}

/// The schedulers of a worker, and its unreported completions.
#[derive(Clone, Debug)]
struct World {
    driver: ContactDriver,
    of: Vec<Scheduler>,
    unreported: Vec<Unreported>,
    computing: Computing,
}

impl World {
    fn new(count: usize) -> Self {
        World {
            driver: ContactDriver::new(),
            of: vec![Scheduler::quiet(); count],
            unreported: Vec::new(),
            computing: Computing::Allowed,
        }
    }

    /// Returns a worker whose last round and check were just now.
    fn looked(count: usize, now: f64) -> Self {
        let mut world = World::new(count);
        let nothing = Decision::Nothing {
            until: at(now + 60.0),
        };
        assert_eq!(world.next(now, |_| None), nothing);
        world
    }

    fn next(
        &mut self,
        now: f64,
        choose: impl FnOnce(&[Candidate<'_>]) -> Option<AssociationIndex>,
    ) -> Decision {
        let round = RoundInputs {
            now: at(now),
            profile: &VOLUNTEER,
            computing: self.computing,
            unreported: &self.unreported,
        };
        let mut of: Vec<Candidate<'_>> = self.of.iter_mut().map(Scheduler::candidate).collect();
        self.driver.next(&round, &mut of, choose)
    }

    fn over(&mut self) {
        self.driver.over(CheckEvent::ContactOver);
    }

    fn end(&mut self, of: usize, ended: f64) {
        self.unreported.push(Unreported {
            association: AssociationIndex(of),
            task: TaskNumber(self.unreported.len() as u64),
            told: ReportContent::End,
            policy: None,
            ended: at(ended),
            deadline: None,
        });
    }
}

fn unasked(_: &[Candidate<'_>]) -> Option<AssociationIndex> {
    panic!("no work may be fetched in this round");
}

fn choose(place: usize) -> impl FnOnce(&[Candidate<'_>]) -> Option<AssociationIndex> {
    move |_| Some(AssociationIndex(place))
}

fn until(seconds: f64) -> Decision {
    Decision::Nothing { until: at(seconds) }
}

/// Returns the scheduler, the reason and the work of a contact.
fn contact(decision: Decision) -> Option<(usize, RpcReason, RequestedWork)> {
    match decision {
        Decision::Contact(contact) => Some((contact.association.0, contact.reason, contact.work)),
        Decision::Nothing { .. } | Decision::ReadList { .. } => None,
    }
}

fn wished(place: usize, wish: Wish) -> Option<(usize, RpcReason, RequestedWork)> {
    Some((place, RpcReason::Wished(wish), RequestedWork::Piggyback))
}

#[test]
fn the_order_of_reasons_one_operation_at_a_time() {
    let mut world = World::new(6);
    world.of[5].state.rpc.ask(Wish::Init);
    world.end(3, 0.0);
    for _ in 0..10 {
        let state = &mut world.of[1].state;
        state.rpc.rpc_failed(at(0.0), terms(1.0));
    }
    let list = Decision::ReadList {
        association: AssociationIndex(1),
        why: ListReason::Failures,
    };
    let now = 4000.0;
    assert_eq!(world.next(now, unasked), list);
    assert_eq!(world.driver.in_progress(), Some(AssociationIndex(1)));
    // An operation in progress keeps others from starting.
    let never = Decision::Nothing { until: Time::NEVER };
    assert_eq!(world.next(now + 100.0, unasked), never);
    world.of[1].state.list_read(at(now), None, terms(1.0));
    world.driver.over(CheckEvent::ListRead);
    assert_eq!(
        contact(world.next(now + 100.0, unasked)),
        wished(5, Wish::Init)
    );
    world.of[5].replied(at(now + 100.0), WorkVerdict::Granted(1));
    world.over();
    // Rounds are five seconds apart.
    assert_eq!(world.next(now + 100.1, unasked), until(now + 105.0));
    let overdue = Overdue {
        association: AssociationIndex(3),
        reason: ReportReason::Delay,
        task: TaskNumber(0),
    };
    let report = Contact {
        association: AssociationIndex(3),
        reason: RpcReason::ResultsDue,
        work: RequestedWork::Piggyback,
        overdue: Some(overdue),
    };
    assert_eq!(world.next(now + 105.0, unasked), Decision::Contact(report));
    world.unreported.clear();
    world.over();
    let fetch = (2, RpcReason::NeedWork, RequestedWork::Chosen);
    assert_eq!(contact(world.next(now + 110.0, choose(2))), Some(fetch));
}

#[test]
fn checks_are_a_minute_apart_unless_something_happens() {
    let mut world = World::new(1);
    assert_eq!(world.driver.requested(), Some(CheckEvent::Start));
    assert_eq!(world.next(0.0, |_| None), until(60.0));
    assert_eq!(world.driver.requested(), None);
    assert_eq!(world.next(30.0, unasked), until(60.0));
    // The first event is remembered.
    world.driver.request_check(CheckEvent::TaskEnded);
    world.driver.request_check(CheckEvent::User);
    assert_eq!(world.driver.requested(), Some(CheckEvent::TaskEnded));
    assert_eq!(world.next(31.0, |_| None), until(91.0));
    assert_eq!(world.driver.requested(), None);
    // Rounds are five seconds apart, whatever happens.
    world.driver.request_check(CheckEvent::IdleProcessors);
    assert_eq!(world.next(32.0, unasked), until(36.0));
    assert_eq!(world.next(36.0, |_| None), until(96.0));
    let fetch = Some((0, RpcReason::NeedWork, RequestedWork::Chosen));
    assert_eq!(contact(world.next(96.0, choose(0))), fetch);
    world.of[0].replied(at(97.0), WorkVerdict::Granted(1));
    world.over();
    assert_eq!(world.driver.requested(), Some(CheckEvent::ContactOver));
    assert_eq!(world.next(97.0, unasked), until(101.0));
    assert_eq!(world.next(101.0, |_| None), until(161.0));
}

#[test]
fn what_each_wish_heeds() {
    for wish in Wish::ALL {
        for (is_suspended, is_backed_off) in [(false, false), (false, true), (true, false)] {
            let mut world = World::looked(2, 0.0);
            let scheduler = &mut world.of[1];
            scheduler.is_suspended = is_suspended;
            if is_backed_off {
                scheduler.state.rpc.rpc_failed(at(0.0), terms(0.0));
            }
            scheduler.state.rpc.ask(wish);
            let expected = match (wish.heeds_suspension() && is_suspended, is_backed_off) {
                (true, _) => None,
                (false, true) if wish.heeds_backoff() => None,
                _ => wished(1, wish),
            };
            let decision = world.next(10.0, unasked);
            assert_eq!(
                contact(decision),
                expected,
                "{wish:?} {is_suspended} {is_backed_off}"
            );
            if expected.is_none() {
                assert_eq!(decision, until(60.0), "{wish:?}");
            }
        }
    }
}

#[test]
fn the_user_waits_for_what_the_scheduler_has_asked_for() {
    let mut world = World::looked(1, 0.0);
    world.of[0].state.rpc.replied(at(0.0), 50.0, 0.0);
    world.of[0].state.update(at(1.0));
    assert_eq!(world.next(10.0, unasked), until(50.0));
    assert_eq!(contact(world.next(50.0, unasked)), wished(0, Wish::User));
}

#[test]
fn the_user_goes_before_all_backoffs() {
    let mut world = World::looked(1, 0.0);
    world.of[0].replied(at(0.0), WorkVerdict::NoWork);
    world.of[0].state.rpc.rpc_failed(at(0.0), terms(1.0));
    world.of[0].state.rpc.ask(Wish::User);
    assert!(
        world.of[0]
            .state
            .pairs
            .of(ProcessorType::CPU)
            .is_backed_off(at(5.0))
    );
    assert_eq!(contact(world.next(5.0, unasked)), wished(0, Wish::User));
    assert!(
        !world.of[0]
            .state
            .pairs
            .of(ProcessorType::CPU)
            .is_backed_off(at(5.0))
    );
    // A failed contact is not repeated for the user's wish.
    world.of[0].state.rpc.rpc_failed(at(6.0), terms(1.0));
    world.over();
    assert_eq!(world.of[0].state.rpc.wish(), None);
    assert_eq!(world.next(10.0, |_| None), until(70.0));
}

#[test]
fn the_scheduler_is_talked_to_when_it_wants() {
    let mut world = World::looked(1, 0.0);
    world.of[0].state.rpc.replied(at(0.0), 30.0, 20.0);
    assert_eq!(world.next(20.0, unasked), until(30.0));
    assert_eq!(
        contact(world.next(30.0, unasked)),
        wished(0, Wish::Scheduler)
    );
    // The scheduler's wish is repeated after the backoff.
    world.of[0].state.rpc.rpc_failed(at(31.0), terms(0.0));
    world.over();
    assert_eq!(world.next(35.0, |_| None), until(91.0));
    assert_eq!(
        contact(world.next(91.0, unasked)),
        wished(0, Wish::Scheduler)
    );

    for (has_tasks, is_suspended) in [(false, false), (true, true), (true, false)] {
        let mut world = World::looked(1, 0.0);
        world.of[0].state.rpc.replied(at(0.0), 0.0, 20.0);
        world.of[0].wants_no_more_work = true;
        world.of[0].has_tasks = has_tasks;
        world.of[0].is_suspended = is_suspended;
        let expected = (has_tasks && !is_suspended).then_some(wished(0, Wish::Scheduler));
        assert_eq!(contact(world.next(20.0, unasked)), expected.flatten());
    }
}

#[test]
fn the_list_is_read_at_once_and_later_only_when_its_time_comes() {
    let mut world = World::looked(1, 0.0);
    for _ in 0..10 {
        world.of[0].state.rpc.rpc_failed(at(1.0), terms(1.0));
    }
    let list = Decision::ReadList {
        association: AssociationIndex(0),
        why: ListReason::Failures,
    };
    world.of[0].is_suspended = true;
    assert_eq!(world.next(5.0, unasked), until(60.0));
    world.of[0].is_suspended = false;
    assert_eq!(world.next(10.0, unasked), list);
    for _ in 0..3 {
        world.of[0].state.list_read(at(11.0), None, terms(1.0));
    }
    world.driver.over(CheckEvent::ListRead);
    world.computing = Computing::Suspended;
    assert_eq!(world.next(15.0, unasked), until(86_411.0));
    // No scheduler is asked for work while its list must be read.
    world.computing = Computing::Allowed;
    assert_eq!(world.next(86_400.0, choose(0)), until(86_411.0));
    assert_eq!(world.next(86_411.0, unasked), list);
    let found = vec![address(1), address(2)];
    world.of[0]
        .state
        .list_read(at(86_412.0), Some(found), terms(1.0));
    world.driver.over(CheckEvent::ListRead);
    let fetch = Some((0, RpcReason::NeedWork, RequestedWork::Chosen));
    assert_eq!(contact(world.next(86_416.0, choose(0))), fetch);
}

#[test]
fn a_scheduler_that_nobody_knows_is_looked_for_first() {
    for wish in [Wish::User, Wish::Init] {
        let reason = RpcReason::Wished(wish);
        let list = Decision::ReadList {
            association: AssociationIndex(0),
            why: ListReason::NobodyKnown(reason),
        };
        let mut world = World::looked(1, 0.0);
        world.of[0].state.members.forget();
        world.of[0].state.rpc.ask(wish);
        assert_eq!(world.next(5.0, unasked), list);
        // The list is empty: the user's wish is dropped, and the first contact is tried after the backoff.
        world.of[0]
            .state
            .list_read(at(6.0), Some(Vec::new()), terms(0.0));
        world.driver.over(CheckEvent::ListRead);
        let decision = world.next(66.0, |_| None);
        assert_eq!(decision == list, wish == Wish::Init);
        // The list has a member: the contact for the wish follows.
        let mut world = World::looked(1, 0.0);
        world.of[0].state.members.forget();
        world.of[0].state.rpc.ask(wish);
        assert_eq!(world.next(5.0, unasked), list);
        world.of[0]
            .state
            .list_read(at(6.0), Some(vec![address(1)]), terms(0.0));
        world.driver.over(CheckEvent::ListRead);
        assert_eq!(contact(world.next(10.0, unasked)), wished(0, wish));
    }
    // A fetch also reads an unknown list first.
    let mut world = World::new(1);
    world.of[0].state.members.forget();
    let list = Decision::ReadList {
        association: AssociationIndex(0),
        why: ListReason::NobodyKnown(RpcReason::NeedWork),
    };
    assert_eq!(world.next(5.0, choose(0)), list);
}

#[test]
fn who_does_not_compute_reports_all_the_same() {
    let mut world = World::new(1);
    world.computing = Computing::Suspended;
    assert_eq!(
        world.next(0.0, unasked),
        Decision::Nothing { until: Time::NEVER }
    );
    world.end(0, 10.0);
    let due = at(3610.0) + Duration::from_nanos(1);
    assert_eq!(world.next(10.0, unasked), Decision::Nothing { until: due });
    let report = Some((0, RpcReason::ResultsDue, RequestedWork::Piggyback));
    assert_eq!(contact(world.next(3611.0, unasked)), report);
    // A report that becomes due between two checks waits for the second one.
    let mut world = World::looked(1, 4000.0);
    world.computing = Computing::Suspended;
    world.end(0, 10.0);
    assert_eq!(world.next(4005.0, unasked), until(4060.0));
    assert_eq!(contact(world.next(4060.0, unasked)), report);
}

#[test]
fn a_choice_cannot_break_a_backoff() {
    let mut world = World::new(2);
    world.of[0].state.rpc.replied(at(0.0), 100.0, 0.0);
    assert_eq!(world.next(1.0, choose(0)), until(61.0));
    world.of[1].is_suspended = true;
    assert_eq!(world.next(61.0, choose(1)), until(100.0));
    // A choice of an unknown scheduler does nothing.
    world.driver.request_check(CheckEvent::User);
    assert_eq!(world.next(70.0, choose(9)), until(100.0));
    // The end of the backoff causes a check, however recent the last one was.
    world.driver.request_check(CheckEvent::User);
    assert_eq!(world.next(98.0, |_| None), until(103.0));
    let fetch = Some((0, RpcReason::NeedWork, RequestedWork::Chosen));
    assert_eq!(contact(world.next(103.0, choose(0))), fetch);
}

#[test]
fn the_next_scheduler_is_asked_as_soon_as_one_has_nothing() {
    let mut world = World::new(2);
    let choose = |of: &[Candidate<'_>], now: f64| {
        let pair = |of: &Candidate<'_>| of.state.pairs.of(ProcessorType::CPU);
        let place = of.iter().position(|of| !pair(of).is_backed_off(at(now)))?;
        Some(AssociationIndex(place))
    };
    let fetch = |place| Some((place, RpcReason::NeedWork, RequestedWork::Chosen));
    assert_eq!(contact(world.next(0.0, |of| choose(of, 0.0))), fetch(0));
    world.of[0].replied(at(1.0), WorkVerdict::NoWork);
    world.over();
    assert_eq!(contact(world.next(5.0, |of| choose(of, 5.0))), fetch(1));
    world.of[1].replied(at(5.0), WorkVerdict::NoWork);
    world.over();
    assert_eq!(world.next(10.0, |of| choose(of, 10.0)), until(70.0));
}

/// A random event.
#[derive(Clone, Debug)]
enum Step {
    Look,
    Event,
    Ask(usize, Wish),
    Suspend(usize, bool),
    NoMoreWork(usize),
    End(usize),
    Computing(Computing),
    TaskFailed(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let place = 0_usize..3;
    prop_oneof![
        6 => Just(Step::Look),
        2 => Just(Step::Event),
        2 => (place.clone(), 0_usize..3).prop_map(|(place, wish)| Step::Ask(place, Wish::ALL[wish])),
        1 => (place.clone(), any::<bool>()).prop_map(|(place, is)| Step::Suspend(place, is)),
        1 => place.clone().prop_map(Step::NoMoreWork),
        3 => place.clone().prop_map(Step::End),
        1 => Just(Step::Computing(Computing::Suspended)),
        2 => Just(Step::Computing(Computing::Allowed)),
        1 => place.prop_map(Step::TaskFailed),
    ]
}

impl World {
    fn step(&mut self, step: &Step, now: f64) {
        match *step {
            Step::Look => {}
            Step::Event => self.driver.request_check(CheckEvent::TaskEnded),
            Step::Ask(place, wish) => self.of[place].state.rpc.ask(wish),
            Step::Suspend(place, is) => self.of[place].is_suspended = is,
            Step::NoMoreWork(place) => self.of[place].wants_no_more_work ^= true,
            Step::End(place) => self.end(place, now),
            Step::Computing(computing) => self.computing = computing,
            Step::TaskFailed(place) => self.of[place].state.rpc.rpc_failed(at(now), terms(0.4)),
        }
    }

    /// Ends the operation in progress as a success or a failure.
    fn settle(&mut self, decision: Decision, now: f64, is_good: bool) {
        match decision {
            Decision::Nothing { .. } => return,
            Decision::ReadList { association, .. } => {
                let read = is_good.then(|| vec![address(1), address(2)]);
                let state = &mut self.of[association.0].state;
                state.list_read(at(now), read, terms(0.7));
            }
            Decision::Contact(contact) => {
                let scheduler = &mut self.of[contact.association.0];
                match is_good {
                    true => {
                        scheduler.replied(at(now), WorkVerdict::NoWork);
                        scheduler.state.rpc.replied(at(now), 20.0, 500.0);
                        self.unreported
                            .retain(|end| end.association != contact.association);
                    }
                    false => scheduler.state.rpc.rpc_failed(at(now), terms(0.1)),
                }
            }
        }
        self.over();
    }

    /// Checks the laws of a decision.
    fn judge(&self, before: &World, decision: Decision, now: f64) {
        let Decision::Contact(contact) = decision else {
            return;
        };
        let then = &before.of[contact.association.0];
        let is_user = contact.reason == RpcReason::Wished(Wish::User);
        assert!(
            is_user || !then.state.rpc.is_backed_off(at(now)),
            "{contact:?}"
        );
        let goes_suspended = match contact.reason {
            RpcReason::Wished(wish) => !wish.heeds_suspension(),
            RpcReason::ResultsDue | RpcReason::NeedWork => false,
        };
        assert!(goes_suspended || !then.is_suspended, "{contact:?}");
        let is_fetch = contact.reason == RpcReason::NeedWork;
        assert!(!is_fetch || before.computing == Computing::Allowed);
        assert_eq!(
            contact.overdue.is_some(),
            contact.reason == RpcReason::ResultsDue
        );
    }
}

integration_tests_properties::properties! {
    256;

    #[test]
    fn nothing_means_nothing_until_then(
        steps in proptest::collection::vec((step(), 0_u32..90, any::<bool>(), any::<bool>()), 1..60),
        looks in proptest::collection::vec(0.0_f64..1.0, 4),
    ) {
        let mut world = World::new(3);
        let mut now = 0.0;
        let mut began = -5.0;
        for (step, passed, is_good, wants_work) in steps {
            now += f64::from(passed);
            world.step(&step, now);
            let before = world.clone();
            let decision = world.next(now, |of| {
                let place = of.iter().position(|of| !of.state.rpc.is_backed_off(at(now)))?;
                wants_work.then_some(AssociationIndex(place))
            });
            world.judge(&before, decision, now);
            let Decision::Nothing { until } = decision else {
                prop_assert!(now - began >= 5.0, "two operations within a period");
                began = now;
                world.settle(decision, now, is_good);
                continue;
            };
            prop_assert!(until > at(now));
            // A round before `until` does nothing and returns the same time.
            let last = until.min(at(now + 1e6));
            for look in &looks {
                let early = at(now) + last.since(at(now)).mul_f64(*look);
                let found = world.clone().next(early.since(Time::ZERO).as_secs_f64(), unasked);
                prop_assert_eq!(found, decision, "at {:?}", early);
            }
        }
    }
}
