//! Tests of one worker with two schedulers, each of which sees an independent worker on the same machine.

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU32;
use std::time::Duration;

use brasserie_common::ids::HEALTHCHECK_NEW_WORKER_NODE;
use brasserie_common::resources::{GpuInfo, UsablePhysicalResources};
use brasserie_common::worker::{MachinePortLock, TaskRoom};
use brasserie_common::{
    CallId, EndedBy, GpuShare, Health, Principal, RefusalCode, ReportedStatus, RequestId,
    SequenceNumber, Shard, TaskKey, WorkerId,
};
use brasserie_worker_fetch::Profile;

use crate::effect::{Call, Effect, ExitReason, Goodbye};
use crate::worker::rig::*;
use crate::{
    Association, AssociationIndex, AssociationOptions, Event, LifeStage, MemberList, Options,
    RunTask, WorkFetch,
};

const X: AssociationIndex = AssociationIndex(0);
const Y: AssociationIndex = AssociationIndex(1);

/// The first instance of Y.
const OTHER: WorkerId = WorkerId(brasserie_common::InstanceId {
    start_time: 51,
    rand: 6,
});
/// The instance of an association that begins anew.
const ANEW: WorkerId = WorkerId(brasserie_common::InstanceId {
    start_time: 60,
    rand: 7,
});

/// A worker with associations X and Y. Scheduler 1 is X's, and scheduler 2 is Y's.
struct Pair {
    rig: Rig,
    schedulers: [Peer; 2],
    /// The number of healthchecks so far.
    checks: i64,
    /// How many heartbeats each association has sent.
    beats: [usize; 2],
    /// The GPUs in the last heartbeat of each association.
    cards: [String; 2],
}

fn lock(port: i32) -> MachinePortLock {
    let hostname = "here".into();
    MachinePortLock { hostname, port }
}

struct Peer {
    /// `None`: the scheduler is silent.
    says: Option<Health>,
}

impl Pair {
    fn new(change: impl FnOnce(&mut Options)) -> Self {
        let rig = Rig::with(|options| {
            options.associations[0].shard = Shard::try_from("x").unwrap();
            options.associations[0].machine_lock = lock(1);
            options.associations.push(AssociationOptions {
                shard: Shard::try_from("y").unwrap(),
                id: OTHER,
                machine_lock: lock(2),
                share: 0.0,
                members: Vec::new(),
                list: MemberList::Fixed,
            });
            change(options);
        });
        Pair {
            rig,
            schedulers: [Peer { says: None }, Peer { says: None }],
            checks: 0,
            beats: [0, 0],
            cards: [String::new(), String::new()],
        }
    }

    /// Returns a worker that is HEALTHY for both schedulers.
    fn joined() -> Self {
        Self::joined_with(|_| ())
    }

    fn joined_with(change: impl FnOnce(&mut Options)) -> Self {
        let mut pair = Self::new(change);
        pair.join(X);
        pair.join(Y);
        pair
    }

    fn join(&mut self, of: AssociationIndex) {
        self.schedulers[of.0].says = Some(Health::New);
        self.pass(2000);
        let request = self.fetch(of);
        assert_eq!(request, [listed(Vec::new())]);
        self.schedulers[of.0].says = Some(Health::Unhealthy);
        self.check(of, HEALTHCHECK_NEW_WORKER_NODE);
        self.schedulers[of.0].says = Some(Health::Healthy);
        self.pass(16_000);
        assert_eq!(self.own(of).health(), Health::Healthy);
    }

    fn own(&self, of: AssociationIndex) -> &Association {
        self.rig.worker.association(of)
    }

    fn id(&self, of: AssociationIndex) -> WorkerId {
        self.own(of).instance()
    }

    fn number(of: AssociationIndex) -> i64 {
        i64::try_from(of.0).unwrap() + 1
    }

    /// Returns the GPUs in the next heartbeats of each association.
    fn cards_told(&mut self) -> [String; 2] {
        self.pass(20_000);
        self.cards.clone()
    }

    fn fetch(&mut self, of: AssociationIndex) -> Vec<Effect> {
        let worker = self.id(of);
        let scheduler = Some(scheduler(Self::number(of)));
        self.hear(Event::GetRunningTasks {
            request: RequestId(9),
            from: Principal::Own,
            worker,
            scheduler,
        })
    }

    /// Plays a good healthcheck.
    fn check(&mut self, of: AssociationIndex, node: &str) {
        self.checks += 1;
        let check = RunTask {
            worker: self.id(of),
            ..healthcheck(Self::number(of), self.checks, node)
        };
        let effects = self.run(check.clone());
        assert_eq!(effects, [spawned(check.clone()), accepted()]);
        let effects = self.rig.end_healthcheck(check, ReportedStatus::done());
        assert_eq!(self.serve(effects), []);
    }

    fn hear(&mut self, event: Event) -> Vec<Effect> {
        let effects = self.rig.hear(event);
        self.serve(effects)
    }

    fn run(&mut self, run: RunTask) -> Vec<Effect> {
        let effects = self.rig.run(run);
        self.serve(effects)
    }

    /// Returns a task as the association's scheduler sends it.
    fn wanted(&self, of: AssociationIndex, node: &str, invocation: i64) -> RunTask {
        RunTask {
            worker: self.id(of),
            ..run(Self::number(of), 0, task(node, invocation))
        }
    }

    fn start(&mut self, of: AssociationIndex, node: &str, invocation: i64) {
        let wanted = self.wanted(of, node, invocation);
        assert_eq!(self.run(wanted.clone()), [spawned(wanted), accepted()]);
    }

    fn end(&mut self, node: &str, run: i64) -> Vec<Effect> {
        let effects = self.rig.end(node, run, ReportedStatus::done());
        self.serve(effects)
    }

    /// Lets each scheduler answer at once unless it is silent. Returns the effects that are no calls.
    fn serve(&mut self, effects: Vec<Effect>) -> Vec<Effect> {
        let mut effects = VecDeque::from(effects);
        let mut left = Vec::new();
        while let Some(effect) = effects.pop_front() {
            let Effect::Call {
                association,
                id,
                call,
            } = effect
            else {
                left.push(effect);
                continue;
            };
            let says = self.schedulers[association.0].says;
            if let Call::Heartbeat { worker, .. } = &call {
                assert_eq!(worker.id, self.id(association));
                // The lock belongs to the association, whichever instance it has.
                let number = i32::try_from(Self::number(association)).unwrap();
                assert_eq!(worker.machine_lock, lock(number));
                self.beats[association.0] += 1;
                let cards = worker.usable.gpus.iter();
                let cards: Vec<&str> = cards.map(|card| card.pci_bus_id.as_str()).collect();
                self.cards[association.0] = cards.join(" ");
            }
            effects.extend(match (says, call) {
                (None, _) => Vec::new(),
                (Some(state), Call::Heartbeat { .. }) => {
                    let n = Self::number(association);
                    self.rig.heartbeat_answered(id.0, n, 1, state)
                }
                (Some(_), Call::UpdateStatus { .. }) => self.rig.acknowledge(id.0),
                (Some(_), Call::RequestWork { .. } | Call::ReadMembers) => Vec::new(),
            });
        }
        left
    }

    /// Moves the clock. Schedulers that are not silent answer, and send a healthcheck each minute.
    fn pass(&mut self, millis: u64) -> Vec<Effect> {
        let end = self.rig.now() + Duration::from_millis(millis);
        let mut left = Vec::new();
        loop {
            let effects = self.rig.wait(0);
            left.extend(self.serve(effects));
            let step = Duration::from_secs(1).min(end.since(self.rig.now()));
            if step.is_zero() {
                return left;
            }
            let effects = self.rig.wait(u64::try_from(step.as_millis()).unwrap());
            left.extend(self.serve(effects));
            for of in [X, Y] {
                let is_fine = self.schedulers[of.0].says == Some(Health::Healthy)
                    && self.own(of).health() == Health::Healthy
                    && self.own(of).life_stage() == LifeStage::Running;
                let seconds = self.rig.now().as_nanos() / 1_000_000_000;
                if is_fine && seconds.is_multiple_of(60) {
                    self.check(of, "");
                }
            }
        }
    }

    /// Ends Y by the silence of its scheduler, until it requests a new instance. Returns all effects.
    fn lose_y(&mut self) -> Vec<Effect> {
        self.schedulers[Y.0].says = None;
        self.pass(600_000)
    }

    fn begin_anew(&mut self, association: AssociationIndex, id: WorkerId) -> Vec<Effect> {
        self.hear(Event::NewInstance { association, id })
    }
}

fn new_instance(association: AssociationIndex, after: WorkerId) -> Effect {
    Effect::NewInstance { association, after }
}

fn refused_as(effects: &[Effect]) -> RefusalCode {
    refusal(effects).0
}

#[test]
fn each_scheduler_hears_of_an_instance_and_a_shard_of_its_own() {
    let mut pair = Pair::new(|_| ());
    let told: BTreeMap<_, _> = pair
        .rig
        .wait(0)
        .into_iter()
        .map(|effect| match effect {
            Effect::Call {
                association,
                call: Call::Heartbeat { worker, .. },
                ..
            } => (association, (worker.shard.to_string(), worker.id)),
            other => panic!("only heartbeats are due: {other:?}"),
        })
        .collect();
    let expected = [(X, ("x".to_owned(), OWN)), (Y, ("y".to_owned(), OTHER))];
    assert_eq!(told, BTreeMap::from(expected));
    assert_eq!(pair.own(X).share(), 100.0);
    assert_eq!(pair.own(Y).share(), 0.0);
}

#[test]
fn what_is_meant_for_one_never_touches_the_other() {
    let mut pair = Pair::joined();
    pair.start(X, "a", 1);
    pair.start(Y, "b", 2);
    let x_before = format!("{:?}", pair.own(X));
    // Y's scheduler names Y.
    assert_eq!(pair.fetch(Y), [listed(vec![task("b", 2)])]);
    let kill = |worker, n| Event::KillTask {
        request: RequestId(9),
        from: Principal::Own,
        task: key("a"),
        invocation: invocation(1),
        scheduler: scheduler(n),
        worker,
        kill: term_wait_kill(3, EndedBy::Operator),
    };
    assert_eq!(
        refused_as(&pair.hear(kill(OTHER, 2))),
        RefusalCode::WrongId,
        "no such task in Y"
    );
    let asked = pair.hear(Event::NotifyIfTasksNotRunning {
        request: RequestId(9),
        from: Principal::Own,
        tasks: vec![task("a", 1)],
        scheduler: scheduler(2),
        worker: OTHER,
        sequence: SequenceNumber(1),
    });
    assert_eq!(asked, [accepted()]);
    assert_eq!(format!("{:?}", pair.own(X)), x_before);
    // X's scheduler cannot name Y, nor Y's scheduler X.
    for (worker, n) in [(OTHER, 1), (OWN, 2)] {
        let foreign = RunTask {
            worker,
            ..run(n, 0, task("c", 3))
        };
        let (code, text) = refusal(&pair.run(foreign));
        assert!(
            matches!(code, RefusalCode::BoundTo(_)),
            "obeys another scheduler: {text}"
        );
        assert!(matches!(
            refused_as(&pair.hear(kill(worker, n))),
            RefusalCode::BoundTo(_)
        ));
        let suicide = pair.rig.suicide(n, worker);
        assert!(matches!(refused_as(&suicide), RefusalCode::BoundTo(_)));
    }
    // No association has this id.
    let nobody = WorkerId::new(3, 3);
    let (code, text) = refusal(&pair.rig.suicide(1, nobody));
    assert_eq!(code, RefusalCode::WrongId);
    assert!(text.contains(&OWN.to_string()), "{text}");
    assert_eq!(pair.rig.worker.live_processes(), 2);
}

#[test]
fn an_end_is_told_to_whose_task_it_was() {
    let mut pair = Pair::joined();
    pair.start(X, "a", 1);
    // This is another run of a task of the same name.
    pair.start(Y, "a", 2);
    pair.schedulers[Y.0].says = None;
    assert_eq!(pair.end("a", 2), []);
    assert_eq!(pair.own(Y).unacknowledged_reports(), 1);
    assert_eq!(pair.own(X).running_tasks(), [task("a", 1)]);
    assert_eq!(pair.end("a", 1), []);
    assert_eq!(pair.own(X).unacknowledged_reports(), 0);
    assert_eq!(pair.own(X).running_tasks(), []);
    assert_eq!(pair.own(Y).running_tasks().len(), 1);
}

#[test]
fn a_lost_connection_hurries_only_whose_it_was() {
    let mut pair = Pair::joined();
    let before = pair.beats;
    pair.hear(Event::ConnectionLost { association: Y });
    assert_eq!(pair.beats, [before[0], before[1] + 1]);
    pair.hear(Event::ConnectionLost {
        association: AssociationIndex(7),
    });
    assert_eq!(pair.beats, [before[0], before[1] + 1]);
}

#[test]
fn a_silent_scheduler_costs_its_own_tasks_and_no_others() {
    let mut pair = Pair::joined();
    pair.start(X, "a", 1);
    pair.start(Y, "b", 2);
    pair.start(Y, "c", 3);
    let mut kills = pair.lose_y();
    kills.sort_by_key(|kill| format!("{kill:?}"));
    assert_eq!(kills, [kill("b", 2, 700), kill("c", 3, 700)]);
    assert_eq!(pair.own(Y).life_stage(), LifeStage::Dying);
    assert_eq!(pair.own(X).life_stage(), LifeStage::Running);
    assert_eq!(pair.own(X).health(), Health::Healthy);
    // Y waits for its own processes, not for X's.
    assert_eq!(pair.end("b", 2), []);
    assert_eq!(pair.pass(60_000), []);
    assert_eq!(pair.end("c", 3), []);
    assert_eq!(pair.pass(3000), [new_instance(Y, OTHER)]);
    assert_eq!(pair.own(Y).life_stage(), LifeStage::Gone);
    assert_eq!(pair.own(Y).tasks_may_live_until(), None);
    // Meanwhile, Y refuses tasks and X accepts them.
    assert_eq!(
        refused_as(&pair.run(pair.wanted(Y, "d", 4))),
        RefusalCode::Unhealthy
    );
    pair.start(X, "d", 5);

    assert_eq!(pair.begin_anew(Y, ANEW), []);
    assert_eq!(pair.id(Y), ANEW);
    assert_eq!(pair.own(Y).health(), Health::New);
    assert_eq!(pair.own(Y).running_tasks(), []);
    assert_eq!(pair.own(Y).unacknowledged_reports(), 0);
    assert_eq!(pair.own(Y).description().shard.as_str(), "y");
    assert_eq!(pair.own(Y).share(), 0.0);
    // A call that names the old instance is refused.
    let late = RunTask {
        worker: OTHER,
        ..run(2, 0, task("e", 6))
    };
    assert_eq!(refused_as(&pair.run(late)), RefusalCode::WrongId);
    // The new instance waits for an absent scheduler without an end.
    assert_eq!(pair.pass(1_200_000), []);
    assert_eq!(pair.own(Y).life_stage(), LifeStage::Running);
    pair.join(Y);
    pair.start(Y, "b", 7);
    assert_eq!(pair.own(X).running_tasks(), [task("a", 1), task("d", 5)]);
    assert_eq!(pair.own(X).health(), Health::Healthy);
    assert_eq!(pair.end("a", 1), []);
    assert_eq!(pair.own(X).running_tasks(), [task("d", 5)]);
}

#[test]
fn an_answer_to_the_old_instance_means_nothing_to_the_new_one() {
    let mut pair = Pair::joined();
    pair.rig.suicide(2, OTHER);
    // The goodbye waits for its answer, and times out.
    pair.schedulers[Y.0].says = None;
    let goodbye = pair.rig.wait(0);
    let last = goodbye.iter().find_map(|effect| match effect {
        Effect::Call { id, .. } => Some(*id),
        _ => None,
    });
    let mut effects = goodbye.clone();
    effects.extend(pair.rig.wait(2000));
    assert!(effects.contains(&new_instance(Y, OTHER)), "{effects:?}");
    pair.begin_anew(Y, ANEW);
    let before = format!("{:?}", pair.own(Y));
    for call in last.into_iter().chain([CallId(1), CallId(77_777)]) {
        assert_eq!(
            pair.rig.heartbeat_answered(call.0, 2, 9, Health::Healthy),
            []
        );
    }
    assert_eq!(format!("{:?}", pair.own(Y)), before);
}

#[test]
fn a_scheduler_that_wants_its_worker_dead_gets_another_instance() {
    let mut pair = Pair::joined();
    pair.start(X, "a", 1);
    pair.start(Y, "b", 2);
    let effects = pair.rig.suicide(2, OTHER);
    assert_eq!(pair.serve(effects), [kill("b", 2, 700), accepted()]);
    let mut effects = pair.end("b", 2);
    effects.extend(pair.pass(3000));
    assert_eq!(effects, [new_instance(Y, OTHER)]);
    // The request leaves once, and only its first answer counts.
    assert_eq!(pair.pass(3000), []);
    pair.begin_anew(Y, ANEW);
    pair.begin_anew(Y, WorkerId::new(70, 1));
    assert_eq!(pair.id(Y), ANEW);
    pair.begin_anew(X, WorkerId::new(70, 1));
    assert_eq!(pair.id(X), OWN, "who has not ended does not begin anew");
    pair.join(Y);
    // The next end requests another instance.
    pair.rig.suicide(2, ANEW);
    assert_eq!(pair.pass(3000), [new_instance(Y, ANEW)]);
    assert_eq!(pair.own(X).running_tasks(), [task("a", 1)]);
}

#[test]
#[should_panic(expected = "each instance begins in a later second")]
fn no_second_begins_two_instances() {
    let mut pair = Pair::joined();
    pair.rig.suicide(2, OTHER);
    pair.pass(3000);
    pair.begin_anew(Y, WorkerId::new(OTHER.0.start_time, 99));
}

#[test]
fn the_room_is_the_machines() {
    let mut pair = Pair::joined_with(|options| {
        options.description.room = Some(TaskRoom {
            most: NonZeroU32::new(2).unwrap(),
            limited_by: "a test".into(),
        });
    });
    pair.start(X, "a", 1);
    pair.start(X, "b", 2);
    for of in [X, Y] {
        let refused = pair.run(pair.wanted(of, "c", 3 + Pair::number(of)));
        assert_eq!(refused_as(&refused), RefusalCode::Busy);
    }
    // Healthchecks do not count.
    pair.check(Y, "");
    pair.end("a", 1);
    pair.start(Y, "c", 6);
}

#[test]
fn the_cards_are_the_machines() {
    let card = |bus: &str| GpuInfo {
        pci_bus_id: bus.to_owned(),
        ..GpuInfo::default()
    };
    let mut pair = Pair::joined_with(|options| {
        options.description.usable.gpus = vec![card("0"), card("1")];
    });
    let whole = |run: RunTask, bus: &str| {
        let mut run = run;
        run.task.gpus = vec![GpuShare {
            device: bus.into(),
            milli: 1000,
        }];
        run
    };
    let of_x = whole(pair.wanted(X, "a", 1), "0");
    assert!(matches!(
        pair.run(of_x)[..],
        [Effect::Spawn { .. }, Effect::Reply { reply: Ok(_), .. }]
    ));
    let of_y = whole(pair.wanted(Y, "a", 2), "0");
    assert_eq!(refused_as(&pair.run(of_y)), RefusalCode::Busy);
    // The next heartbeat of Y omits the GPU, so that its scheduler does not choose it.
    assert_eq!(pair.cards_told(), ["0 1", "1"]);
    let of_y = whole(pair.wanted(Y, "a", 3), "1");
    assert!(matches!(
        pair.run(of_y)[..],
        [Effect::Spawn { .. }, Effect::Reply { reply: Ok(_), .. }]
    ));
    pair.end("a", 1);
    assert_eq!(pair.cards_told(), ["0", "0 1"]);
    let of_y = whole(pair.wanted(Y, "b", 4), "0");
    assert!(matches!(
        pair.run(of_y)[..],
        [Effect::Spawn { .. }, Effect::Reply { reply: Ok(_), .. }]
    ));
}

/// Returns a pair with one processor that fetches work.
fn fetching() -> Pair {
    let mut pair = Pair::joined_with(|options| {
        options.work_fetch = Some(WorkFetch::new(Profile::CLUSTER, 1));
    });
    pair.hear(Event::UsableResources(UsablePhysicalResources {
        cpu_cores: 1.0,
        ..UsablePhysicalResources::default()
    }));
    pair
}

fn may_wait(pair: &Pair, of: AssociationIndex, node: &str, number: i64) -> RunTask {
    let mut wanted = pair.wanted(of, node, number);
    wanted.task.work.bufferable = true;
    wanted.task.work.est_duration = Some(5.0);
    wanted
}

#[test]
fn the_processors_and_their_queue_are_the_machines() {
    let mut pair = fetching();
    let of_x = may_wait(&pair, X, "a", 1);
    assert_eq!(pair.run(of_x.clone()), [spawned(of_x), accepted()]);
    let of_y = may_wait(&pair, Y, "b", 2);
    assert_eq!(pair.run(of_y.clone()), [accepted()]);
    let again_x = may_wait(&pair, X, "c", 3);
    assert_eq!(pair.run(again_x.clone()), [accepted()]);
    assert_eq!(pair.rig.worker.queued_tasks(), 2);
    // Tasks begin in the order of their arrival, whatever their scheduler.
    assert_eq!(pair.end("a", 1), [spawned(of_y)]);
    assert_eq!(pair.end("b", 2), [spawned(again_x)]);
    assert_eq!(pair.rig.worker.queued_tasks(), 0);
}

#[test]
fn a_queue_is_dropped_with_its_association_and_leaves_its_turn_to_others() {
    let mut pair = fetching();
    let running = may_wait(&pair, Y, "a", 1);
    pair.run(running);
    for (of, node, number) in [(Y, "b", 2), (X, "c", 3), (Y, "d", 4)] {
        let waits = may_wait(&pair, of, node, number);
        assert_eq!(pair.run(waits), [accepted()]);
    }
    let effects = pair.rig.suicide(2, OTHER);
    assert_eq!(pair.serve(effects), [kill("a", 1, 700), accepted()]);
    assert_eq!(pair.rig.worker.queued_tasks(), 1);
    let begun = may_wait(&pair, X, "c", 3);
    let mut effects = pair.end("a", 1);
    effects.extend(pair.pass(3000));
    assert_eq!(effects, [spawned(begun), new_instance(Y, OTHER)]);
}

#[test]
fn a_run_that_is_open_for_another_is_refused() {
    let mut pair = Pair::joined();
    pair.start(X, "a", 1);
    let same = pair.wanted(Y, "a", 1);
    let (code, text) = refusal(&pair.run(same.clone()));
    assert_eq!(code, RefusalCode::Duplicate);
    assert!(text.contains("another scheduler"), "{text}");
    // A refused run stays refused.
    pair.end("a", 1);
    assert_eq!(refused_as(&pair.run(same)), RefusalCode::Duplicate);
    // Another task or another run is accepted.
    pair.start(X, "a", 2);
    pair.start(Y, "b", 2);
    pair.start(Y, "a", 3);
    // Healthchecks of two schedulers may have the same id in one second. Once the first is over, the other can run.
    let check = |of: AssociationIndex, pair: &Pair| RunTask {
        worker: pair.id(of),
        ..healthcheck(Pair::number(of), 1000, "")
    };
    let (of_x, of_y) = (check(X, &pair), check(Y, &pair));
    assert_eq!(pair.run(of_x.clone()), [spawned(of_x.clone()), accepted()]);
    assert_eq!(refused_as(&pair.run(of_y.clone())), RefusalCode::Duplicate);
    let effects = pair.rig.end_healthcheck(of_x, ReportedStatus::done());
    assert_eq!(pair.serve(effects), []);
    assert_eq!(pair.run(of_y.clone()), [spawned(of_y), accepted()]);
}

#[test]
fn draining_waits_for_the_tasks_of_all() {
    let mut pair = Pair::joined();
    pair.start(X, "a", 1);
    let before = pair.beats;
    assert_eq!(pair.hear(Event::Drain), []);
    // The association without tasks says goodbye; the other one reports that it drains.
    assert_eq!(pair.pass(5000), []);
    assert_eq!(pair.own(Y).life_stage(), LifeStage::Gone);
    assert_eq!(pair.own(X).life_stage(), LifeStage::Draining);
    assert!(pair.beats[0] > before[0]);
    assert_eq!(
        refused_as(&pair.run(pair.wanted(X, "b", 2))),
        RefusalCode::Draining
    );
    let mut effects = pair.end("a", 1);
    effects.extend(pair.pass(5000));
    let reason = ExitReason::Shutdown;
    assert_eq!(effects, [Effect::Exit { reason }]);
    assert_eq!(pair.rig.next_timer(), None);
}

#[test]
fn shutdown_ends_all_and_waits_for_all() {
    let mut pair = Pair::joined();
    pair.start(X, "a", 1);
    pair.start(Y, "b", 2);
    let by = EndedBy::Shutdown;
    let kills = [kill_by(by, "a", 1, 5000), kill_by(by, "b", 2, 5000)];
    assert_eq!(pair.hear(Event::Shutdown), kills);
    assert_eq!(pair.end("b", 2), []);
    assert_eq!(pair.pass(60_000), []);
    assert_eq!(pair.own(Y).life_stage(), LifeStage::Gone);
    let now = [kill_by(by, "a", 1, 0)];
    assert_eq!(pair.hear(Event::Shutdown), now);
    let mut effects = pair.end("a", 1);
    effects.extend(pair.pass(5000));
    let reason = ExitReason::Shutdown;
    assert_eq!(effects, [Effect::Exit { reason }]);
}

#[test]
fn who_is_to_end_does_not_begin_anew() {
    // The new instance is requested before the operator's wish, or would be after it.
    for asked in [true, false] {
        let mut pair = Pair::joined();
        pair.start(X, "a", 1);
        pair.rig.suicide(2, OTHER);
        if asked {
            assert_eq!(pair.pass(3000), [new_instance(Y, OTHER)]);
        }
        pair.hear(Event::Shutdown);
        assert_eq!(pair.begin_anew(Y, ANEW), []);
        let mut effects = pair.end("a", 1);
        effects.extend(pair.pass(5000));
        let reason = ExitReason::Shutdown;
        assert_eq!(effects, [Effect::Exit { reason }]);
        assert_eq!(pair.begin_anew(Y, ANEW), []);
        assert_eq!(pair.own(Y).life_stage(), LifeStage::Gone);
    }
}

#[test]
fn with_nobody_left_a_wish_to_end_is_granted_at_once() {
    let mut pair = Pair::joined();
    pair.rig.suicide(1, OWN);
    pair.rig.suicide(2, OTHER);
    let mut asked = pair.pass(3000);
    asked.sort_by_key(|effect| format!("{effect:?}"));
    assert_eq!(asked, [new_instance(X, OWN), new_instance(Y, OTHER)]);
    let reason = ExitReason::Shutdown;
    assert_eq!(pair.hear(Event::Drain), [Effect::Exit { reason }]);
    assert_eq!(pair.hear(Event::Shutdown), []);
}

#[test]
fn each_goodbye_is_said_when_its_own_tasks_are_dead() {
    let mut pair = Pair::joined();
    pair.start(X, "a", 1);
    pair.start(Y, "b", 2);
    pair.rig.hear(Event::Shutdown);
    let mut effects = pair.rig.end("b", 2, ReportedStatus::done());
    // The completion is acknowledged first.
    let report = effects.iter().find_map(|effect| match effect {
        Effect::Call { id, .. } => Some(*id),
        _ => None,
    });
    effects.extend(pair.rig.acknowledge(report.unwrap().0));
    let goodbyes: Vec<AssociationIndex> = effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Call {
                association,
                call:
                    Call::Heartbeat {
                        goodbye: Goodbye::TasksAreDead,
                        ..
                    },
                ..
            } => Some(*association),
            _ => None,
        })
        .collect();
    assert_eq!(goodbyes, [Y]);
}

#[test]
fn histories_that_differ_only_in_who_is_ending_have_different_fingerprints() {
    let ended = |event: Option<Event>| {
        let mut pair = Pair::joined();
        pair.rig.suicide(2, OTHER);
        pair.pass(3000);
        if let Some(event) = event {
            pair.hear(event);
        }
        pair.rig.worker.fingerprint()
    };
    assert_ne!(ended(None), ended(Some(Event::Drain)));
    assert_eq!(ended(None), ended(None));
}

#[test]
fn keys_of_tasks_are_each_associations_own() {
    let mut pair = Pair::joined();
    pair.start(X, "a", 1);
    pair.start(Y, "a", 2);
    let mine = |of| -> Vec<TaskKey> {
        let tasks = pair.own(of).running_tasks();
        tasks.iter().map(|task| task.key()).collect()
    };
    assert_eq!(mine(X), mine(Y));
    // Each scheduler kills its own task.
    assert_eq!(
        pair.rig.kill(1, "a", 1),
        [
            Effect::Kill {
                task: key("a"),
                invocation: invocation(1),
                kill: term_wait_kill(3, EndedBy::Operator),
            },
            accepted()
        ]
    );
}
