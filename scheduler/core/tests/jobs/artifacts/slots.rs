//! Places for artifacts that programs write themselves.

use std::collections::BTreeSet;
use std::time::Duration;

use brasserie_common::access::Role;
use brasserie_common::artifact_report::DiskCondition;
use brasserie_common::{Principal, Shard};
use brasserie_scheduler_core::{
    Durable, Event, NoSlots, Options, Rejection, Replication, Reply, ReservedSlots, SlotPlace,
    SlotStrategy, SlotsCall, SlotsRequest,
};

use super::{Store, pass, starts, two_jobs};
use crate::owners::{person, submitter};
use crate::support::{self, Script};

const MIB: u64 = 1 << 20;

fn wanted(artifacts: u32, replicas: Replication) -> SlotsRequest {
    SlotsRequest {
        artifacts,
        replicas,
        except: BTreeSet::new(),
        most_workers: None,
    }
}

fn request(script: &mut Script, wanted: SlotsRequest) -> Result<ReservedSlots, NoSlots> {
    request_by(script, Principal::Own, wanted)
}

fn request_by(
    script: &mut Script,
    from: Principal,
    wanted: SlotsRequest,
) -> Result<ReservedSlots, NoSlots> {
    let request = script.request();
    script.event(Event::Slots(SlotsCall::Request {
        request,
        from,
        wanted: Box::new(wanted),
    }));
    match script.reply_to(request) {
        (None, Reply::Slots(reserved)) => reserved.map(|reserved| *reserved),
        other => panic!("slots, not {other:?}"),
    }
}

fn release(script: &mut Script, reserved: &ReservedSlots) -> bool {
    release_by(script, Principal::Own, reserved).expect("nobody's reservation")
}

fn release_by(
    script: &mut Script,
    from: Principal,
    reserved: &ReservedSlots,
) -> Result<bool, Rejection> {
    let request = script.request();
    script.event(Event::Slots(SlotsCall::Release {
        request,
        from,
        scheduler: reserved.scheduler,
        reservation: reserved.reservation,
    }));
    match script.reply_to(request) {
        (None, Reply::SlotsReleased(released)) => released,
        other => panic!("a release, not {other:?}"),
    }
}

/// A scheduler whose jobs leave no outputs, and workers with this space for slots of 64 MiB.
fn cluster(slots: &[u64]) -> (Script, Vec<Store>) {
    let mut script = Script::with_config(support::one_job(1, ""));
    let stores = slots.iter().zip(1..).map(|(slots, lock)| {
        let mut store = Store::join(&mut script, &format!("w{lock}"), lock);
        store.usable = slots * 64 * MIB;
        store.report(&mut script);
        store
    });
    let stores = stores.collect();
    (script, stores)
}

#[test]
fn reservations_are_released_by_those_who_have_made_them() {
    let (mut script, _stores) = cluster(&[10]);
    let anas = request_by(&mut script, submitter("ana"), wanted(1, Replication::None));
    let anas = anas.expect("there is space");
    let nobodys = request(&mut script, wanted(1, Replication::None)).expect("there is space");
    for (owner, reserved, is_own) in [
        ("bob", &anas, false),
        ("ana", &nobodys, false),
        ("ana", &anas, true),
    ] {
        let released = release_by(&mut script, submitter(owner), reserved);
        match is_own {
            true => assert_eq!(released, Ok(true)),
            false => assert!(
                matches!(released, Err(Rejection::NotOwner(_))),
                "{owner}: {released:?}"
            ),
        }
    }
    // One that has ended may be released by everybody, without any effect.
    assert_eq!(release_by(&mut script, submitter("bob"), &anas), Ok(false));
    let operator = person(Role::Operator, None, &[]);
    assert_eq!(release_by(&mut script, operator, &nobodys), Ok(true));
}

/// The order of the reports, and the numbers of the workers, say nothing: only the measured times do.
#[test]
fn fast_disks_get_more_slots_if_the_strategy_is_aware_of_the_load() {
    let fetch_times = [3, 1, 2].map(Duration::from_millis);
    let mut counts = Vec::new();
    for name in ["round-robin", "load-aware"] {
        let options = Options {
            slots: SlotStrategy::parse(name).expect("a strategy"),
            ..support::options()
        };
        let mut script = Script::new(options, Durable::default());
        script.load(support::one_job(1, ""));
        for (fetch_time, lock) in fetch_times.into_iter().zip(1..) {
            let mut store = Store::join(&mut script, &format!("w{lock}"), lock);
            store.usable = 1000 * 64 * MIB;
            store.fetch_time = fetch_time;
            store.report(&mut script);
        }
        let reserved = request(&mut script, wanted(331, Replication::None));
        counts.push(primaries(&reserved.expect("there is space")));
    }
    let [even, aware] = <[[usize; 3]; 2]>::try_from(counts).expect("two");
    assert!(
        even.iter().all(|count| count.abs_diff(110) <= 1),
        "{even:?}"
    );
    // The groups have 1.21, 1.1 and 1 parts of 3.31.
    let expected = [100, 121, 110];
    let is_near = |(count, expected): (&usize, usize)| count.abs_diff(expected) <= 2;
    assert!(aware.iter().zip(expected).all(is_near), "{aware:?}");
}

/// Returns the number of primaries on each worker of a cluster of three.
fn primaries(reserved: &ReservedSlots) -> [usize; 3] {
    let mut counts = [0; 3];
    for (primary, _) in &reserved.slots {
        let shard = reserved.workers[primary.worker].shard.as_str();
        let number: usize = shard[1..].parse().expect("a number");
        counts[number - 1] += 1;
    }
    counts
}

#[test]
fn slots_are_within_the_space_that_other_requests_leave() {
    let (mut script, _stores) = cluster(&[6, 3, 1]);
    let first = request(&mut script, wanted(10, Replication::None)).expect("there is space");
    assert_eq!(primaries(&first), [6, 3, 1]);
    assert_eq!((first.bytes_each, first.workers.len()), (64 * MIB, 3));
    assert_eq!(first.reserved_for, Duration::from_secs(600));
    assert!(first.workers.iter().all(|worker| worker.disks.len() == 1));
    // The next request finds no space, and is spread evenly over the healthy disks.
    let second = request(&mut script, wanted(9, Replication::None)).expect("sizes are estimates");
    assert_eq!(primaries(&second), [3, 3, 3]);
    assert!(release(&mut script, &first));
    assert!(!release(&mut script, &first), "it has ended");
    assert!(release(&mut script, &second));
    let third = request(&mut script, wanted(10, Replication::None)).expect("there is space");
    assert_eq!(primaries(&third), [6, 3, 1]);
    // A reservation ends by itself.
    pass(&mut script, Duration::from_secs(601), None);
    let fourth = request(&mut script, wanted(10, Replication::None)).expect("there is space");
    assert_eq!(primaries(&fourth), [6, 3, 1]);
    assert!(!release(&mut script, &third));
}

#[test]
fn tasks_with_outputs_start_when_a_program_releases_the_space() {
    let (mut script, _stores) = cluster(&[2]);
    let two = wanted(2, Replication::None);
    let reserved = request(&mut script, two.clone()).expect("there is space");
    script.load(two_jobs(""));
    let without_outputs = starts(&script);
    assert_eq!(without_outputs.len(), 1);
    assert!(release(&mut script, &reserved));
    assert_eq!(starts(&script), [&without_outputs[0], "extract on n0"]);
    // The tasks need little. What they leave is not enough for the program.
    let reserved = request(&mut script, two).expect("sizes are estimates");
    assert!(release(&mut script, &reserved));
}

#[test]
fn second_copies_are_on_other_workers_and_in_other_racks() {
    let (mut script, mut stores) = cluster(&[20, 20, 20, 20]);
    for (store, rack) in stores.iter_mut().zip(["east", "east", "west", "west"]) {
        store.rack = Some(rack.into());
        store.report(&mut script);
    }
    let reserved = request(&mut script, wanted(8, Replication::OtherRack)).expect("there is space");
    assert_eq!(reserved.slots.len(), 8);
    let rack = |place: SlotPlace| reserved.workers[place.worker].place.rack.clone();
    for (primary, replica) in &reserved.slots {
        let replica = replica.expect("each has a second copy");
        assert_ne!(rack(*primary), rack(replica));
    }
    let except: BTreeSet<Shard> = ["w1", "w2", "nobody"]
        .into_iter()
        .map(|shard| Shard::try_from(shard).expect("a name"))
        .collect();
    let request_without = SlotsRequest {
        except: except.clone(),
        ..wanted(4, Replication::OtherWorker)
    };
    let reserved = request(&mut script, request_without).expect("two workers are left");
    for worker in &reserved.workers {
        assert!(!except.contains(&worker.shard));
    }
    let one = SlotsRequest {
        most_workers: Some(1),
        ..wanted(4, Replication::None)
    };
    let reserved = request(&mut script, one).expect("there is space");
    let used = reserved.slots.iter().map(|(primary, _)| primary.worker);
    assert_eq!(used.collect::<BTreeSet<usize>>().len(), 1);
    // The other workers are spares.
    assert_eq!(reserved.workers.len(), 4);
}

#[test]
fn a_refusal_says_why_there_are_no_slots() {
    let mut script = Script::with_config(support::one_job(1, ""));
    let why = request(&mut script, wanted(1, Replication::None)).expect_err("no worker is there");
    assert_eq!(why, NoSlots::NoReport);
    // Workers report their stores from now on.
    let mut store = Store::join(&mut script, "w1", 1);
    assert!(script.echo(&store.worker).uses_artifacts);
    let why = request(&mut script, wanted(1, Replication::OtherWorker)).expect_err("one worker");
    assert!(why.to_string().contains("only one worker"), "{why}");
    store.condition = DiskCondition::ReadError;
    store.report(&mut script);
    let why = request(&mut script, wanted(1, Replication::None)).expect_err("no disk");
    let text = why.to_string();
    assert!(
        text.contains("`w1`: none of its disks is healthy"),
        "{text}"
    );
}

#[test]
fn open_reservations_are_bounded() {
    let (mut script, _stores) = cluster(&[1]);
    let mut last = None;
    for _ in 0..1000 {
        last = Some(request(&mut script, wanted(1, Replication::None)).expect("below the bound"));
    }
    let why = request(&mut script, wanted(1, Replication::None)).expect_err("too many");
    assert_eq!(why, NoSlots::TooMany(1000));
    assert!(release(&mut script, &last.expect("there were some")));
    assert!(request(&mut script, wanted(1, Replication::None)).is_ok());
}
