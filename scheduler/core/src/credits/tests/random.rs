//! Random histories of an association, checked against a reference that keeps all past events and computes the credit from them.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

/// A step of a history. Amounts are eighths, so that sums are exact in any order.
#[derive(Clone, Debug)]
enum Step {
    /// A request with the next number.
    Ask {
        amounts: [[u32; 3]; 2],
        linger: u64,
        /// The number of instances for which tasks are queued, if ends of runs make instances idle.
        waiting: Option<u32>,
        /// One in this many present runs is not counted by the worker yet.
        misses: usize,
        readiness: Readiness,
    },
    /// An earlier request is repeated, or the newest.
    Again(usize),
    /// A task is ready that could be sent.
    Offer(Offer),
    EndPass {
        candidates: u64,
    },
    Clear,
    Wait(u64),
    /// The oldest run ends.
    End,
    /// The newest run never began, if it was for GPUs that its worker chooses and could not be queued.
    TurnDown,
}

#[derive(Clone, Copy, Debug)]
struct Offer {
    on_gpu: bool,
    usage: u32,
    estimate: u32,
    class: TaskClass,
}

impl Offer {
    fn amounts(self) -> [f64; 3] {
        let usage = f64::from(self.usage) / 8.0;
        [f64::from(self.estimate) * usage, usage, usage]
    }

    fn task_work(self, processors: &[Processor; 2]) -> TaskWork<'_> {
        let of = &processors[usize::from(self.on_gpu)];
        let usage = f64::from(self.usage) / 8.0;
        TaskWork::new(of, usage, f64::from(self.estimate), self.class, None)
    }
}

fn step() -> impl Strategy<Value = Step> {
    let amounts = [0_u32..50, 0..20, 0..20];
    let linger = prop_oneof![Just(0_u64), 1_u64..20, Just(500_u64)];
    let readiness = prop_oneof![5 => Just(Readiness::MayWork), 1 => Just(Readiness::MayNot)];
    let waiting = proptest::option::of(0_u32..20);
    let ask = (
        [amounts.clone(), amounts],
        linger,
        waiting,
        1_usize..4,
        readiness,
    );
    let class = prop_oneof![Just(TaskClass::Bufferable), Just(TaskClass::Immediate)];
    let offer = (any::<bool>(), 1_u32..17, 1_u32..9, class);
    prop_oneof![
        3 => ask.prop_map(|(amounts, linger, waiting, misses, readiness)| {
            Step::Ask { amounts, linger, waiting, misses, readiness }
        }),
        2 => (0_usize..4).prop_map(Step::Again),
        12 => offer.prop_map(|(on_gpu, usage, estimate, class)| {
            Step::Offer(Offer { on_gpu, usage, estimate, class })
        }),
        3 => (0_u64..2).prop_map(|candidates| Step::EndPass { candidates }),
        1 => Just(Step::Clear),
        3 => (1_u64..20_000).prop_map(Step::Wait),
        6 => Just(Step::End),
        3 => Just(Step::TurnDown),
    ]
}

/// Returns the seconds, the instances and the idle instances.
fn left_of(of_type: &OfType) -> [f64; 3] {
    let amounts = &of_type.amounts;
    [amounts.secs, amounts.instances, amounts.idle]
}

/// A past event.
#[derive(Clone, Debug)]
enum Past {
    Asked(Time, WorkRequest, Readiness, Vec<Offer>),
    Spent(Offer),
    /// The end of a run that was sent for a request whose idle instances come back.
    GaveBack(Offer),
    TurnedDown(Offer),
    Ended(Time),
    Cleared,
}

/// A run that is under way.
#[derive(Clone, Copy, Debug)]
struct Running {
    invocation: InvocationId,
    offer: Offer,
    gives_back: bool,
}

#[derive(Default)]
struct World {
    now: Time,
    credits: Credits,
    past: Vec<Past>,
    requests: Vec<WorkRequest>,
    running: Vec<Running>,
    /// The runs that were sent for the newest request, or were on their way when it came.
    taken_off: BTreeSet<InvocationId>,
    runs: i64,
}

impl World {
    /// Returns the amounts left of each type, computed from the past alone; `None`: there is no credit.
    fn left(&self) -> Option<[[f64; 3]; 2]> {
        let asked = self
            .past
            .iter()
            .rposition(|p| matches!(p, Past::Asked(..)))?;
        let Past::Asked(at, request, Readiness::MayWork, on_their_way) = &self.past[asked] else {
            return None;
        };
        let since = &self.past[asked + 1..];
        let mut until = *at + Duration::from_secs(30);
        let mut passes = since.iter().filter_map(|past| match past {
            Past::Ended(at) => Some(*at),
            Past::Asked(..)
            | Past::Spent(_)
            | Past::GaveBack(_)
            | Past::TurnedDown(_)
            | Past::Cleared => None,
        });
        if since.iter().any(|past| matches!(past, Past::Cleared)) {
            return None;
        }
        // The first placement that ended while the request was valid.
        if passes.any(|pass| pass <= until) {
            until = *at + request.linger;
            if request.linger.is_zero() {
                return None;
            }
        }
        if self.now > until {
            return None;
        }
        let mut left = [0, 1].map(|of: usize| {
            let demand = &request.demands[of];
            [demand.instance_secs, demand.instances, demand.idle]
        });
        let mut waiting = [0, 1].map(|of: usize| request.demands[of].waiting);
        let on_their_way = on_their_way.iter().map(|offer| Past::Spent(*offer));
        for past in on_their_way.chain(since.iter().cloned()) {
            match past {
                Past::Spent(offer) => {
                    let of_type = &mut left[usize::from(offer.on_gpu)];
                    for (left, amount) in of_type.iter_mut().zip(offer.amounts()) {
                        *left -= amount;
                    }
                }
                Past::GaveBack(offer) => {
                    let of = usize::from(offer.on_gpu);
                    let [_, usage, _] = offer.amounts();
                    if let Some(waiting) = &mut waiting[of] {
                        let theirs = usage.min(*waiting);
                        *waiting -= theirs;
                        let [_, _, idle] = &mut left[of];
                        // The worker has four instances.
                        *idle = idle.max((*idle + usage - theirs).min(4.0));
                    }
                }
                Past::TurnedDown(offer) => {
                    let of_type = &mut left[usize::from(offer.on_gpu)];
                    for (left, amount) in of_type.iter_mut().zip(offer.amounts()) {
                        *left += amount;
                    }
                    // The worker has four instances.
                    let [_, _, idle] = of_type;
                    *idle = idle.min(4.0).max(*idle - offer.amounts()[2]);
                }
                Past::Asked(..) | Past::Ended(_) | Past::Cleared => {}
            }
        }
        Some(left)
    }

    /// Returns how many tasks were sent since the newest request.
    fn sent_for_newest(&self, on_gpu: bool) -> usize {
        let since = self
            .past
            .iter()
            .rev()
            .take_while(|p| !matches!(p, Past::Asked(..)));
        let spent = |p: &&Past| matches!(p, Past::Spent(offer) if offer.on_gpu == on_gpu);
        since.filter(spent).count()
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Ask {
                amounts,
                linger,
                waiting,
                misses,
                readiness,
            } => self.ask(amounts, (*linger, *waiting), *misses, *readiness),
            Step::Again(back) => self.ask_again(*back),
            Step::Offer(offer) => self.offer(*offer),
            Step::EndPass { candidates } => {
                self.credits.end_pass(self.now, |_| found(*candidates, 0));
                self.past.push(Past::Ended(self.now));
            }
            Step::Clear => {
                self.credits.clear();
                self.past.push(Past::Cleared);
            }
            Step::Wait(millis) => self.now = self.now + Duration::from_millis(*millis),
            Step::End => {
                if !self.running.is_empty() {
                    let over = self.running.remove(0);
                    let before = self.credits.allowances(self.now);
                    let is_more = self.credits.give_back(self.now, over.invocation);
                    if over.gives_back {
                        self.past.push(Past::GaveBack(over.offer));
                    }
                    // A caller that does not react to this misses nothing.
                    assert!(is_more || self.credits.allowances(self.now) == before);
                    self.credits.ended(self.now, over.invocation);
                    // Each run gives back once.
                    let once = self.credits.clone();
                    assert!(!self.credits.give_back(self.now, over.invocation));
                    assert_eq!(self.credits, once);
                }
            }
            Step::TurnDown => self.turn_down(),
        }
        self.check();
    }

    fn turn_down(&mut self) {
        let Some(over) = self.running.pop() else {
            return;
        };
        let may = over.offer.on_gpu && over.offer.class == TaskClass::Immediate;
        let before = self.credits.clone();
        let is_taken_off = self.taken_off.remove(&over.invocation);
        assert_eq!(
            self.credits.turned_down(self.now, over.invocation),
            may && is_taken_off
        );
        if may && is_taken_off {
            self.past.push(Past::TurnedDown(over.offer));
        } else {
            assert_eq!(self.credits, before);
        }
        let once = self.credits.clone();
        assert!(!self.credits.turned_down(self.now, over.invocation));
        assert_eq!(self.credits, once);
        self.credits.ended(self.now, over.invocation);
    }

    fn ask(
        &mut self,
        amounts: &[[u32; 3]; 2],
        (linger, waiting): (u64, Option<u32>),
        misses: usize,
        readiness: Readiness,
    ) {
        let eighths = |amounts: &[u32; 3]| amounts.map(|n| f64::from(n) / 8.0);
        let (known, on_their_way): (Vec<_>, Vec<_>) = self
            .running
            .iter()
            .enumerate()
            .partition(|(place, _)| (place + 1) % (misses + 1) != 0);
        let known = known.into_iter().map(|(_, run)| KnownTask {
            invocation: run.invocation,
            remaining: None,
            deadline: None,
        });
        let demand = |processor, amounts| WorkDemand {
            waiting: waiting.map(|n| f64::from(n) / 8.0),
            ..demand(processor, eighths(amounts))
        };
        let asks = WorkRequest {
            known: Some(known.collect()),
            linger: Duration::from_secs(linger),
            cards: CardChoice::Worker,
            ..request(
                self.requests.len() as u64,
                vec![demand(CPU, &amounts[0]), demand(gpu(), &amounts[1])],
            )
        };
        self.taken_off = match readiness {
            Readiness::MayWork => (on_their_way.iter().map(|(_, run)| run.invocation)).collect(),
            Readiness::MayNot => BTreeSet::new(),
        };
        let on_their_way = on_their_way.into_iter().map(|(_, run)| run.offer);
        let past = Past::Asked(self.now, asks.clone(), readiness, on_their_way.collect());
        self.hear(&asks, readiness);
        self.past.push(past);
        self.requests.push(asks);
    }

    fn hear(&mut self, asks: &WorkRequest, readiness: Readiness) -> WorkReply {
        let processors = [CPU, gpu()];
        let known = KnownRuns::of(asks);
        let running = self.running.iter().map(|run| Sent {
            invocation: run.invocation,
            task_work: known
                .is_weighed(run.invocation)
                .then(|| run.offer.task_work(&processors)),
            acknowledged: None,
        });
        let running: Vec<_> = running.collect();
        let policy = RequestPolicy {
            max_linger: Duration::from_secs(500),
            tasks_per_processor: 1e6,
            ..patient()
        };
        let credits = &mut self.credits;
        super::hear(credits, self.now, &policy, readiness, asks, &running).0
    }

    /// Checks C4: a repeated request changes nothing.
    fn ask_again(&mut self, back: usize) {
        let Some(place) = self.requests.len().checked_sub(back + 1) else {
            return;
        };
        let asks = self.requests[place].clone();
        // Only the passage of time has an effect.
        self.credits.expire(self.now);
        let before = self.credits.clone();
        let reply = self.hear(&asks, Readiness::MayWork);
        assert_eq!(self.credits, before);
        match back {
            0 => assert_eq!(Some(reply), before.reply()),
            _ => assert!(
                reply
                    .verdicts
                    .iter()
                    .all(|(_, verdict)| *verdict == WorkVerdict::Stale)
            ),
        }
    }

    fn offer(&mut self, offer: Offer) {
        let processors = [CPU, gpu()];
        let task_work = offer.task_work(&processors);
        let eligible = eligible(&self.credits, self.now, &task_work);
        // Checks C2, C3 and C6: a task may be sent exactly if the past leaves credit for it.
        let has_room = match (self.requests.is_empty(), self.left()) {
            (true, _) => true,
            (false, None) => false,
            (false, Some(left)) => {
                let [secs, instances, idle] = left[usize::from(offer.on_gpu)];
                match offer.class {
                    TaskClass::Bufferable => secs > 0.0 || instances > 0.0,
                    TaskClass::Immediate => idle > 0.0,
                }
            }
        };
        assert_eq!(eligible.is_ok(), has_room);
        if eligible.is_err() {
            return;
        }
        self.runs += 1;
        let invocation = run(self.runs);
        let seq = self.credits.spend(self.now, (invocation, &task_work));
        assert_eq!(seq, self.requests.last().map(|asks| asks.seq));
        let comes_back = |asks: &WorkRequest| asks.demands[0].waiting.is_some();
        self.running.push(Running {
            invocation,
            offer,
            gives_back: self.requests.last().is_some_and(comes_back),
        });
        if seq.is_some() {
            self.taken_off.insert(invocation);
            self.past.push(Past::Spent(offer));
        }
    }

    fn check(&self) {
        let left = self.left();
        for (place, processor) in [CPU, gpu()].iter().enumerate() {
            let newest = self.credits.newest.as_ref();
            let kept = newest.and_then(|newest| newest.of(processor));
            if let (Some(left), Some(kept)) = (&left, kept) {
                assert_eq!(left_of(kept), left[place]);
            }
            let allowance = self.credits.allowance(self.now, processor);
            assert_eq!(allowance.is_some(), !self.requests.is_empty());
            let expected = left.map_or((false, false), |left| {
                let [secs, instances, idle] = left[place];
                (secs > 0.0 || instances > 0.0, idle > 0.0)
            });
            if let Some(allowance) = allowance {
                assert_eq!((allowance.bufferable, allowance.immediate), expected);
            }
        }
        self.check_verdicts();
    }

    /// Checks C7, and its converse: a worker that was sent a task gets the verdict GRANTED.
    fn check_verdicts(&self) {
        let Some(reply) = self.credits.reply() else {
            return;
        };
        let is_asked = |(_, demand): &(bool, &WorkDemand)| demand.wants_something();
        let asked = &self.requests.last().expect("a request").demands;
        let asked: Vec<_> = [false, true]
            .into_iter()
            .zip(asked)
            .filter(is_asked)
            .collect();
        assert_eq!(reply.verdicts.len(), asked.len());
        for ((on_gpu, demand), (processor, verdict)) in asked.into_iter().zip(&reply.verdicts) {
            assert_eq!(demand.processor, *processor);
            let sent = self.sent_for_newest(on_gpu);
            match verdict {
                WorkVerdict::Granted(tasks) => assert!(*tasks as usize == sent && sent > 0),
                _ => assert_eq!(sent, 0),
            }
        }
    }
}

integration_tests_properties::properties! {
    400;

    #[test]
    fn credit_is_what_was_asked_for_less_what_was_sent(steps in proptest::collection::vec(step(), 1..120)) {
        let mut world = World::default();
        for step in &steps {
            world.step(step);
        }
    }

    #[test]
    fn requests_for_seconds_are_exceeded_by_less_than_one_task(
        secs in 1_u32..500,
        tasks in proptest::collection::vec((1_u32..9, 1_u32..50), 1..60),
    ) {
        let mut credits = Credits::default();
        take(&mut credits, at(0), &request(1, vec![demand(CPU, [f64::from(secs), 0.0, 0.0])]));
        let (mut sent, mut last) = (0.0, 0.0);
        for (usage, estimate) in tasks {
            let usage = f64::from(usage) / 8.0;
            let task_work = TaskWork::new(&CPU, usage, f64::from(estimate), TaskClass::Bufferable, None);
            if eligible(&credits, at(0), &task_work).is_ok() {
                credits.spend(at(0), (run(9), &task_work));
                last = usage * f64::from(estimate);
                sent += last;
            }
        }
        prop_assert!(sent - last < f64::from(secs));
    }

    /// Checks C1.
    #[test]
    fn between_two_requests_amounts_only_fall_but_for_what_ends(steps in proptest::collection::vec(step(), 1..120)) {
        let mut world = World::default();
        for step in &steps {
            let amounts = |world: &World| {
                let newest = world.credits.newest.as_ref()?;
                let amounts = newest.types.iter().flat_map(left_of);
                Some((newest.seq, amounts.collect::<Vec<_>>()))
            };
            let before = amounts(&world);
            let over = match step {
                Step::End => world.running.first().copied(),
                Step::TurnDown => world.running.last().copied(),
                _ => None,
            };
            world.step(step);
            // The amounts that the run took: the idle instances of its type, if it ended; all of them, if it never began.
            let rises = |place: usize| match over {
                Some(run) if place / 3 != usize::from(run.offer.on_gpu) => 0.0,
                Some(run) if matches!(step, Step::TurnDown) || place % 3 == 2 => run.offer.amounts()[place % 3],
                Some(_) | None => 0.0,
            };
            if let (Some((seq, before)), Some((same, after))) = (before, amounts(&world))
                && seq == same
            {
                let mut pairs = before.iter().zip(&after).enumerate();
                prop_assert!(pairs.all(|(place, (before, after))| *after <= before + rises(place)));
                let asked = &world.requests.last().expect("it was asked").demands;
                let asked: Vec<f64> = asked.iter().flat_map(|d| [d.instance_secs, d.instances, d.idle.max(4.0)]).collect();
                prop_assert!(after.iter().zip(&asked).all(|(left, asked)| left <= asked));
            }
        }
    }
}

/// Checks that the histories reach the states in which the rules matter.
#[test]
fn histories_send_and_refuse_and_linger() {
    use proptest::strategy::ValueTree as _;

    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut sent, mut lingered, mut coming, mut back, mut down) = (0, 0, 0, 0, 0);
    for _ in 0..200 {
        let steps = proptest::collection::vec(step(), 80).new_tree(&mut runner);
        let mut world = World::default();
        for step in &steps.expect("a history").current() {
            let before = world.running.len();
            let past = world.past.len();
            let idle = |world: &World| world.left().map_or(0.0, |[cpu, cards]| cpu[2] + cards[2]);
            let was_idle = idle(&world);
            world.step(step);
            let is_end = matches!(step, Step::End);
            down += usize::from(matches!(step, Step::TurnDown) && world.past.len() > past);
            back += usize::from(is_end && idle(&world) > was_idle);
            let newest = world.credits.newest.as_ref();
            let Some(newest) = newest else { continue };
            let lingers = matches!(newest.stage, RequestStage::Lingering(_));
            if world.running.len() > before {
                sent += 1;
                lingered += usize::from(lingers);
            }
            let is_coming = |of_type: &OfType| of_type.wanted == TypeDemand::Coming;
            coming += usize::from(newest.types.iter().any(is_coming));
        }
    }
    assert!(
        sent > 500 && lingered > 50 && coming > 50 && back > 50 && down > 50,
        "{sent} {lingered} {coming} {back} {down}"
    );
}
