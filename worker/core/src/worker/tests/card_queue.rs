//! Tests of tasks whose GPUs the worker chooses: they wait for GPUs, get them as they begin, and are not overtaken forever.

use brasserie_common::resources::{GpuInfo, UsablePhysicalResources};
use brasserie_common::{CardAmount, CardNeed, CardsWanted, GpuShare, RefusalCode, ReportedStatus};
use brasserie_worker_fetch::Profile;

use crate::effect::{Call, Effect};
use crate::machine::MOST_OVERTAKEN;
use crate::worker::rig::*;
use crate::{Event, RunTask, WorkFetch};

/// Returns a worker with four processors, and GPUs of these models.
fn rig(models: &[&str]) -> Rig {
    let work_fetch = WorkFetch::new(Profile::CLUSTER, 1);
    let mut rig = Rig::with(|options| options.work_fetch = Some(work_fetch)).join();
    rig.hear(machine(models));
    rig
}

fn machine(models: &[&str]) -> Event {
    let gpus = models.iter().enumerate().map(|(at, model)| GpuInfo {
        name: (*model).to_owned(),
        pci_bus_id: format!("c{at}"),
        cuda_device: format!("GPU-{at}"),
        ..GpuInfo::default()
    });
    Event::UsableResources(UsablePhysicalResources {
        cpu_cores: 8.0,
        gpus: gpus.collect(),
        ..UsablePhysicalResources::default()
    })
}

const WHOLE: CardAmount = CardAmount::Whole(1);
const HALF: CardAmount = CardAmount::Part(500);

/// Returns a task that may be queued and needs this amount of any GPU.
fn wants(node: &str, number: i64, amount: CardAmount) -> RunTask {
    let mut run = run(1, 0, task(node, number));
    run.task.work.bufferable = true;
    run.task.work.est_duration = Some(0.1);
    run.task.gpus_wanted = Some(CardsWanted {
        need: CardNeed::new(amount, [].into()),
        counts_as: None,
    });
    run
}

fn at_once(run: RunTask) -> RunTask {
    let mut run = run;
    run.task.work.bufferable = false;
    run
}

/// Returns the started tasks, each with the GPUs that it sees.
fn begun(effects: &[Effect]) -> Vec<String> {
    let begun = effects.iter().filter_map(|effect| match effect {
        Effect::Spawn { run, cuda_devices } => {
            let node = &run.task.node;
            assert_eq!(run.task.gpus_wanted, None);
            Some(format!("{node} {}", cuda_devices.join(",")))
        }
        _ => None,
    });
    begun.collect()
}

fn ends(rig: &mut Rig, node: &str, number: i64) -> Vec<String> {
    begun(&rig.end(node, number, ReportedStatus::done()))
}

fn share(device: &str, milli: u32) -> GpuShare {
    let device = device.into();
    GpuShare { device, milli }
}

#[test]
fn one_card_is_had_by_one_after_the_other() {
    let mut rig = rig(&["A"]);
    assert_eq!(begun(&rig.run(wants("a", 1, WHOLE))), ["a GPU-0"]);
    for (node, number) in [("b", 2), ("c", 3)] {
        assert_eq!(rig.run(wants(node, number, WHOLE)), [accepted()]);
    }
    let listed = rig.own().running_tasks();
    assert_eq!(listed[0].gpus, [share("c0", 1000)]);
    assert_eq!(listed[0].gpus_wanted, None);
    // No GPUs are chosen yet for a queued task.
    assert_eq!(listed[1].gpus, []);
    assert_eq!(listed[1].gpus_wanted, wants("b", 2, WHOLE).task.gpus_wanted);
    assert_eq!(ends(&mut rig, "a", 1), ["b GPU-0"]);
    assert_eq!(rig.own().running_tasks()[0].gpus, [share("c0", 1000)]);
    // A queued task that is killed holds no GPU.
    rig.kill(1, "c", 3);
    assert_eq!(rig.worker.queued_tasks(), 0);
    assert_eq!(ends(&mut rig, "b", 2), [""; 0]);
    assert_eq!(begun(&rig.run(wants("d", 4, HALF))), ["d GPU-0"]);
}

#[test]
fn who_may_not_wait_gets_cards_at_once_or_is_refused() {
    let mut rig = rig(&["A", "B"]);
    let first = at_once(wants("a", 1, CardAmount::Whole(2)));
    assert_eq!(begun(&rig.run(first)), ["a GPU-0,GPU-1"]);
    let (code, text) = refusal(&rig.run(at_once(wants("b", 2, HALF))));
    assert_eq!(code, RefusalCode::Busy);
    let said = "cannot have its GPUs: it needs 0.5 of a GPU, and there is not as much free";
    assert!(text.contains(said), "{text}");
    // A task that needs more than the machine can ever provide is refused, too.
    let (code, text) = refusal(&rig.run(wants("c", 3, CardAmount::Whole(3))));
    assert_eq!(code, RefusalCode::Busy);
    assert!(text.contains("and there is never as much here"), "{text}");
}

#[test]
fn a_card_of_the_model_that_was_asked_for_is_taken_if_it_is_free() {
    let mut rig = rig(&["A", "B"]);
    let of = |model: &str, run: RunTask| {
        let mut run = run;
        let wanted = run.task.gpus_wanted.as_mut().unwrap();
        wanted.counts_as = Some(model.into());
        run
    };
    assert_eq!(begun(&rig.run(of("B", wants("a", 1, WHOLE)))), ["a GPU-1"]);
    assert_eq!(begun(&rig.run(of("B", wants("b", 2, WHOLE)))), ["b GPU-0"]);
    // A task that names a model gets no GPU of another model.
    let mut named = wants("c", 3, CardAmount::NONE);
    named.task.gpus_wanted = Some(CardsWanted {
        need: CardNeed::new(CardAmount::NONE, [("B".to_owned(), 1)].into()),
        counts_as: None,
    });
    assert_eq!(rig.run(named), [accepted()]);
    assert_eq!(ends(&mut rig, "b", 2), [""; 0]);
    assert_eq!(ends(&mut rig, "a", 1), ["c GPU-1"]);
}

#[test]
fn cards_that_another_scheduler_chose_are_in_use_as_well() {
    let mut rig = rig(&["A", "A"]);
    let mut chosen = run(1, 0, task("a", 1));
    chosen.task.gpus = vec![share("c0", 500)];
    assert_eq!(begun(&rig.run(chosen)), ["a GPU-0"]);
    assert_eq!(begun(&rig.run(wants("b", 2, WHOLE))), ["b GPU-1"]);
    assert_eq!(begun(&rig.run(wants("c", 3, HALF))), ["c GPU-0"]);
    assert_eq!(rig.run(wants("d", 4, HALF)), [accepted()]);
}

#[test]
fn one_whose_cards_are_gone_for_good_ends() {
    let mut rig = rig(&["A"]);
    rig.run(wants("a", 1, WHOLE));
    rig.run(wants("b", 2, WHOLE));
    let effects = rig.hear(machine(&[]));
    let ended = effects.iter().any(|effect| match effect {
        Effect::Call {
            call: Call::UpdateStatus { task, status, .. },
            ..
        } => task.node.as_str() == "b" && status.is_incomplete_backoff(),
        _ => false,
    });
    assert!(ended, "{effects:?}");
    assert_eq!(rig.worker.queued_tasks(), 0);
}

/// Returns how many tasks for half a GPU overtake a task for a whole GPU. The tasks for halves arrive without end, each as soon as another
/// one ends. The task for a whole GPU arrives when all GPUs are in use.
fn passes(mut rig: Rig, cards: usize) -> u32 {
    let mut last = 0;
    let mut live = std::collections::VecDeque::new();
    for _ in 0..2 * cards {
        last += 1;
        let node = format!("n{last}");
        assert_eq!(begun(&rig.run(wants(&node, last, HALF))).len(), 1);
        live.push_back(last);
    }
    assert_eq!(rig.run(wants("whole", 1_000_000, WHOLE)), [accepted()]);
    let mut passed = 0;
    // The loop is far longer than needed.
    for _ in 0..100 * MOST_OVERTAKEN {
        last += 1;
        rig.run(wants(&format!("n{last}"), last, HALF));
        // The policies choose again, and put tasks that fit before those that do not.
        rig.sleep(2000);
        let Some(number) = live.pop_front() else {
            break;
        };
        for one in ends(&mut rig, &format!("n{number}"), number) {
            let node = one.split(' ').next().unwrap();
            if node == "whole" {
                return passed;
            }
            live.push_back(node[1..].parse().unwrap());
            passed += 1;
        }
    }
    panic!("the one that wants a whole card was passed {passed} times")
}

#[test]
fn one_that_wants_a_whole_card_is_passed_so_often_and_no_more() {
    // The halves of a GPU end one by one, so it never becomes free by chance.
    assert_eq!(passes(rig(&["A"]), 1), MOST_OVERTAKEN);
    // The task reserves one of two GPUs. Others use the other one, until both halves of the reserved one have ended.
    let passed = passes(rig(&["A", "A"]), 2);
    assert!(
        (MOST_OVERTAKEN..MOST_OVERTAKEN + 4).contains(&passed),
        "{passed}"
    );
}

#[test]
fn who_keeps_cards_is_asked_first_and_who_may_not_wait_does_not_get_them() {
    let mut rig = rig(&["A"]);
    for number in 1..=2 {
        rig.run(wants(&format!("n{number}"), number, HALF));
    }
    rig.run(wants("whole", 100, WHOLE));
    for number in 1..=i64::from(MOST_OVERTAKEN) {
        ends(&mut rig, &format!("n{number}"), number);
        let next = at_once(wants(&format!("n{}", number + 2), number + 2, HALF));
        assert_eq!(begun(&rig.run(next)).len(), 1);
    }
    let last = i64::from(MOST_OVERTAKEN);
    ends(&mut rig, &format!("n{}", last + 1), last + 1);
    let (code, _) = refusal(&rig.run(at_once(wants("late", 200, HALF))));
    assert_eq!(code, RefusalCode::Busy);
    let last = last + 2;
    assert_eq!(ends(&mut rig, &format!("n{last}"), last), ["whole GPU-0"]);
    // The ended task reserves nothing any more.
    ends(&mut rig, "whole", 100);
    assert_eq!(begun(&rig.run(at_once(wants("next", 300, HALF)))).len(), 1);
}
