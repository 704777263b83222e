//! Property tests: one worker with two schedulers does for each exactly what a worker with this scheduler alone does, whatever happens to
//! either.

use std::time::Duration;

use brasserie_common::ids::HEALTHCHECK_NEW_WORKER_NODE;
use brasserie_common::{
    CallId, CallOutcome, EndedBy, Health, InvocationId, Principal, ReportedStatus, RequestId,
    SequenceNumber, Story, TaskKey, Time, WorkerId,
};
use proptest::prelude::*;

use crate::effect::{Call, Effect};
use crate::event::CallReply;
use crate::worker::rig::*;
use crate::{AssociationIndex, AssociationOptions, Event, RunTask};

#[derive(Clone, Debug)]
enum ApartStep {
    Wait(u64),
    /// Time passes without a turn of the worker.
    Sleep(u64),
    To(usize, What),
    Drain,
    Shutdown,
}

/// An event of one of the two associations. Small numbers pick from small pools.
#[derive(Clone, Debug)]
enum What {
    Asks(Ask),
    ConnectionLost,
    /// The answer to a pending call.
    Answer(usize, i64, Health),
    Acknowledge(usize),
    Fail(usize),
    End(usize),
}

/// A call of the association's scheduler.
#[derive(Clone, Debug)]
enum Ask {
    Fetch,
    Run(u8, i64, i64),
    Healthcheck(i64, bool),
    Notify(i64, u8, i64),
    Kill(u8, i64),
    Suicide,
}

fn step() -> impl Strategy<Value = ApartStep> {
    let health = prop_oneof![
        8 => Just(Health::Healthy),
        3 => Just(Health::Unhealthy),
        2 => Just(Health::New),
        1 => Just(Health::MustDie),
    ];
    let run = || (any::<u8>(), 0_i64..6, 0_i64..3);
    let ask = prop_oneof![
        3 => Just(Ask::Fetch),
        8 => run().prop_map(|(node, n, sequence)| Ask::Run(node, n, sequence)),
        4 => (0_i64..9, any::<bool>()).prop_map(|(n, first)| Ask::Healthcheck(n, first)),
        2 => run().prop_map(|(node, n, sequence)| Ask::Notify(sequence, node, n)),
        2 => run().prop_map(|(node, n, _)| Ask::Kill(node, n)),
        1 => proptest::bool::weighted(0.3)
            .prop_map(|yes| if yes { Ask::Suicide } else { Ask::Fetch }),
    ];
    let what = prop_oneof![
        20 => ask.prop_map(What::Asks),
        2 => Just(What::ConnectionLost),
        16 => (0_usize..4, 0_i64..3, health).prop_map(|(i, set, state)| What::Answer(i, set, state)),
        8 => (0_usize..4).prop_map(What::Acknowledge),
        3 => (0_usize..4).prop_map(What::Fail),
        6 => (0_usize..4).prop_map(What::End),
    ];
    prop_oneof![
        6 => (0_u64..400).prop_map(|part| ApartStep::Wait(part * part)),
        1 => (0_u64..400).prop_map(|part| ApartStep::Sleep(part * part)),
        60 => (0_usize..2, what).prop_map(|(to, what)| ApartStep::To(to, what)),
        1 => proptest::bool::weighted(0.2).prop_map(|yes| match yes {
            true => ApartStep::Drain,
            false => ApartStep::Wait(0),
        }),
        1 => proptest::bool::weighted(0.2).prop_map(|yes| match yes {
            true => ApartStep::Shutdown,
            false => ApartStep::Wait(0),
        }),
    ]
}

/// Returns the events that make an association HEALTHY.
fn joins() -> [What; 7] {
    [
        What::Answer(0, 1, Health::New),
        What::Asks(Ask::Fetch),
        What::Asks(Ask::Healthcheck(0, true)),
        What::End(0),
        What::Answer(0, 1, Health::Unhealthy),
        What::Acknowledge(0),
        What::Answer(0, 1, Health::Healthy),
    ]
}

/// One association, with a worker that has only this one.
struct ApartAssociation {
    alone: Rig,
    id: WorkerId,
    /// Pending calls: the id at the worker alone, and the id at the pair.
    calls: Vec<(CallId, CallId)>,
    live: Vec<(TaskKey, InvocationId)>,
    /// The worker alone has exited, as the operator wanted.
    is_over: bool,
}

struct Twins {
    pair: Rig,
    sides: [ApartAssociation; 2],
    wants_an_end: bool,
    /// The start second of the last new instance.
    last_second: i64,
}

/// An effect that both must have in the same order, without the ids of calls.
#[derive(Clone, Debug, PartialEq)]
enum Deed {
    Calls(Call),
    Does(Effect),
}

impl ApartAssociation {
    fn new(id: WorkerId) -> Self {
        ApartAssociation {
            alone: Rig::with(|options| options.associations[0].id = id),
            id,
            calls: Vec::new(),
            live: Vec::new(),
            is_over: false,
        }
    }
}

impl Twins {
    fn new() -> Self {
        let other = WorkerId::new(51, 6);
        let pair = Rig::with(|options| {
            options.associations.push(AssociationOptions {
                id: other,
                ..options.associations[0].clone()
            });
        });
        Twins {
            pair,
            sides: [ApartAssociation::new(OWN), ApartAssociation::new(other)],
            wants_an_end: false,
            last_second: 51,
        }
    }

    fn step(&mut self, step: ApartStep) {
        match step {
            ApartStep::Sleep(millis) => {
                self.pair.sleep(millis);
                self.sides
                    .iter_mut()
                    .for_each(|side| side.alone.sleep(millis));
            }
            ApartStep::Wait(millis) => {
                let end = self.pair.now() + Duration::from_millis(millis);
                while let Some(at) = self.look().filter(|at| *at <= end) {
                    self.sides
                        .iter_mut()
                        .for_each(|side| side.alone.sleep_until(at));
                    self.pair.sleep_until(at);
                }
                self.sides
                    .iter_mut()
                    .for_each(|side| side.alone.sleep_until(end));
                self.pair.sleep_until(end);
                self.look();
            }
            ApartStep::Drain => self.both(&Event::Drain),
            ApartStep::Shutdown => self.both(&Event::Shutdown),
            ApartStep::To(to, what) => {
                let Some((alone, pair)) = self.event(to, what) else {
                    return;
                };
                let mut effects = [Vec::new(), Vec::new()];
                effects[to] = self.sides[to].alone.hear(alone);
                // The pair makes a turn of both associations.
                effects[1 - to] = self.sides[1 - to].look();
                let pair = self.pair.hear(pair);
                self.compare(Some(to), effects, pair);
            }
        }
    }

    /// Performs what is due at all three workers, and returns when more is due.
    fn look(&mut self) -> Option<Time> {
        let alone = self.sides.each_mut().map(ApartAssociation::look);
        let pair = self.pair.wait_until(self.pair.now());
        self.compare(None, alone, pair);
        let due = self.pair.worker.poll_timeout();
        let alone = self.sides.iter();
        let alone = alone.filter_map(|side| side.alone.worker.poll_timeout());
        assert_eq!(due, alone.min());
        due
    }

    fn both(&mut self, event: &Event) {
        self.wants_an_end = true;
        let alone = self
            .sides
            .each_mut()
            .map(|side| side.alone.hear(event.clone()));
        let pair = self.pair.hear(event.clone());
        self.compare(None, alone, pair);
    }

    /// Returns the event for the worker alone, and for the pair.
    fn event(&mut self, to: usize, what: What) -> Option<(Event, Event)> {
        let side = &mut self.sides[to];
        match what {
            What::ConnectionLost => {
                let lost = |association| Event::ConnectionLost { association };
                Some((lost(AssociationIndex::FIRST), lost(AssociationIndex(to))))
            }
            What::Answer(i, version, state) => {
                let n = number(to);
                let response = Box::new(response(n, version, state));
                let outcome = CallOutcome::Done(CallReply::Heartbeat(response));
                side.completed(i, outcome)
            }
            What::Acknowledge(i) => side.completed(i, CallOutcome::Done(CallReply::Acknowledged)),
            What::Fail(i) => side.completed(i, lost()),
            What::End(_) if side.live.is_empty() => None,
            What::End(i) => {
                let (task, invocation) = side.live.swap_remove(i % side.live.len());
                let event = Event::TaskEnded {
                    task,
                    invocation,
                    status: ReportedStatus::done(),
                    story: Box::new(Story::exited(0)),
                };
                Some((event.clone(), event))
            }
            What::Asks(ask) => {
                let event = asked(ask, number(to), side.id);
                Some((event.clone(), event))
            }
        }
    }

    /// Compares the effects. `asked` is the association that a reply belongs to.
    fn compare(&mut self, asked: Option<usize>, alone: [Vec<Effect>; 2], pair: Vec<Effect>) {
        let mut expected = [Vec::new(), Vec::new()];
        let mut called = [Vec::new(), Vec::new()];
        let mut exited = [false; 2];
        for (at, effects) in alone.into_iter().enumerate() {
            for effect in effects {
                if let Effect::Exit { .. } = effect {
                    exited[at] = true;
                    continue;
                }
                let (deed, call) = deed(effect);
                expected[at].push(deed);
                called[at].extend(call);
            }
        }
        let mut done = [Vec::new(), Vec::new()];
        let mut answered = [Vec::new(), Vec::new()];
        let mut anew = Vec::new();
        let mut has_exited = false;
        for effect in pair {
            let of = match &effect {
                Effect::Reply { .. } => asked.unwrap(),
                Effect::Call { association, .. } => association.0,
                Effect::Spawn { run, .. } => self.owner(run.task.invocation),
                Effect::Kill { invocation, .. }
                | Effect::Suspend { invocation, .. }
                | Effect::Resume { invocation, .. } => self.owner(*invocation),
                Effect::NewInstance { association, after } => {
                    assert_eq!(*after, self.sides[association.0].id);
                    anew.push(association.0);
                    continue;
                }
                Effect::Exit { .. } => {
                    has_exited = true;
                    continue;
                }
            };
            if let Effect::Spawn { run, .. } = &effect {
                let run = (run.task.key(), run.task.invocation);
                self.sides[of].live.push(run);
            }
            let (deed, call) = deed(effect);
            done[of].push(deed);
            answered[of].extend(call);
        }
        assert_eq!(done, expected);
        for (side, (alone, pair)) in self.sides.iter_mut().zip(called.into_iter().zip(answered)) {
            side.calls.extend(alone.into_iter().zip(pair));
        }
        self.judge_ends(exited, &anew, has_exited);
    }

    /// Checks ends. An association that ends without the operator's wish begins anew. With the wish, the worker ends once both have ended.
    fn judge_ends(&mut self, exited: [bool; 2], anew: &[usize], has_exited: bool) {
        let before = self.sides.iter().all(|side| side.is_over);
        for at in [0, 1] {
            if !exited[at] {
                continue;
            }
            assert!(self.sides[at].live.is_empty(), "a task outlives its worker");
            assert_eq!(anew.contains(&at), !self.wants_an_end);
            match self.wants_an_end {
                true => self.sides[at].is_over = true,
                false => self.begin_anew(at),
            }
        }
        let is_over = self.sides.iter().all(|side| side.is_over);
        assert_eq!(has_exited, is_over && !before);
    }

    fn begin_anew(&mut self, at: usize) {
        self.last_second += 1;
        let id = WorkerId::new(self.last_second, 8);
        let now = self.pair.now();
        let mut side = ApartAssociation::new(id);
        side.alone.born_at(now);
        self.sides[at] = side;
        let mut alone = [Vec::new(), Vec::new()];
        alone[at] = self.sides[at].look();
        alone[1 - at] = self.sides[1 - at].look();
        let association = AssociationIndex(at);
        let pair = self.pair.hear(Event::NewInstance { association, id });
        self.compare(None, alone, pair);
    }

    fn owner(&self, invocation: InvocationId) -> usize {
        // The first scheduler draws odd numbers, as in `asked`.
        usize::from((invocation.0.start_time + invocation.0.rand) % 2 == 0)
    }
}

impl ApartAssociation {
    fn look(&mut self) -> Vec<Effect> {
        self.alone.wait_until(self.alone.now())
    }

    fn completed(
        &mut self,
        which: usize,
        outcome: CallOutcome<CallReply>,
    ) -> Option<(Event, Event)> {
        if self.calls.is_empty() {
            return None;
        }
        let (alone, pair) = self.calls.remove(which % self.calls.len());
        let completed = |call| Event::CallCompleted {
            call,
            outcome: outcome.clone(),
        };
        Some((completed(alone), completed(pair)))
    }
}

/// Returns the number of the side's scheduler.
fn number(side: usize) -> i64 {
    i64::try_from(side).unwrap() + 1
}

fn asked(ask: Ask, n: i64, worker: WorkerId) -> Event {
    let (request, from) = (RequestId(9), Principal::Own);
    let scheduler_id = scheduler(n);
    let node = |n: u8| ["a", "b", "c"][usize::from(n % 3)];
    // The two schedulers draw different invocations.
    let own = |i: i64| i * 2 + n;
    match ask {
        Ask::Fetch => Event::GetRunningTasks {
            request,
            from,
            worker,
            scheduler: Some(scheduler_id),
        },
        Ask::Run(at, i, sequence) => {
            let mut run = run(n, sequence, task(node(at), own(i)));
            run.worker = worker;
            run.options.deadline = (i == 2).then_some(Duration::from_secs(7));
            let run = Box::new(run);
            Event::RunTask { request, from, run }
        }
        Ask::Healthcheck(i, first) => {
            let node = if first {
                HEALTHCHECK_NEW_WORKER_NODE
            } else {
                ""
            };
            let run = Box::new(RunTask {
                worker,
                ..healthcheck(n, own(i), node)
            });
            Event::RunTask { request, from, run }
        }
        Ask::Notify(sequence, at, i) => Event::NotifyIfTasksNotRunning {
            request,
            from,
            tasks: vec![task(node(at), own(i))],
            scheduler: scheduler_id,
            worker,
            sequence: SequenceNumber(sequence),
        },
        Ask::Kill(at, i) => Event::KillTask {
            request,
            from,
            task: key(node(at)),
            invocation: invocation(own(i)),
            scheduler: scheduler_id,
            worker,
            kill: term_wait_kill(3, EndedBy::Operator),
        },
        Ask::Suicide => Event::RequestSuicide {
            request,
            from,
            scheduler: scheduler_id,
            worker,
            why: None,
        },
    }
}

fn deed(effect: Effect) -> (Deed, Option<CallId>) {
    match effect {
        Effect::Call { id, call, .. } => (Deed::Calls(call), Some(id)),
        other => (Deed::Does(other), None),
    }
}

integration_tests_properties::properties! {
    400;

    #[test]
    fn one_worker_for_two_schedulers_is_two_workers(
        joined in (proptest::bool::weighted(0.8), proptest::bool::weighted(0.8)),
        steps in proptest::collection::vec(step(), 0..150),
    ) {
        let mut twins = Twins::new();
        twins.step(ApartStep::Wait(0));
        for at in [(joined.0, 0), (joined.1, 1)].into_iter().filter_map(|(yes, at)| yes.then_some(at)) {
            for what in joins() {
                twins.step(ApartStep::To(at, what));
            }
            prop_assert_eq!(twins.pair.worker.associations()[at].health(), Health::Healthy);
        }
        for step in steps {
            twins.step(step);
        }
        let live: usize = twins.sides.iter().map(|side| side.live.len()).sum();
        prop_assert_eq!(twins.pair.worker.live_processes(), live);
    }
}
