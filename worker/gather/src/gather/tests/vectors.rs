//! Vectors of single rules, each a script.

use std::collections::{BTreeMap, BTreeSet};

use super::super::super::event::{GatherEvent, TransferOutcome, WantedArtifact};
use super::super::super::limits::{BusyJitter, GatherLimits};
use super::super::super::types::TransferId;
use super::super::{ArtifactWait, ArtifactWaitReason, Gather, GatherAction};
use super::script::play;
use super::*;

/// `(rule, script)`
type Vectors = &'static [(&'static str, &'static str)];

/// Failures of a design with one growing wait for the whole worker.
const FORMER_FAILURES: Vectors = &[
    (
        "a busy peer is not asked again before its mark ends, whatever else happens",
        "0 want 1.1 from p1
           > fetch p1: 1 (1024)
         5 busy p1
           > ask 1
         6 holders 1=p1
         7 want 1.2 from p1
           > ask 2
         8 holders 1=p1 2=p1
         9 want 2.3 from p2
           > fetch p2: 3 (1024)
         10 sent p2 3
           > arrived 3 for 2
         11 pressure high
         12 pressure normal
         154 tick
         155 wake
         155 tick
           > fetch p1: 1 2 (2048)",
    ),
    (
        "many events during a mark cause one request after it",
        "0 want 1.1 from p1
           > fetch p1: 1 (1024)
         5 busy p1
           > ask 1
         50 tick
         100 holders 1=p1
         149 tick
         155 tick
           > fetch p1: 1 (1024)
         156 tick
         157 holders 1=p1",
    ),
    (
        "the query leaves with the busy answer, and none follows the wait",
        "0 want 1.1 from p1
           > fetch p1: 1 (1024)
         5 busy p1
           > ask 1
         10 holders 1=p1
         155 tick
           > fetch p1: 1 (1024)
         160 sent p1 1
           > arrived 1 for 1",
    ),
    (
        "one request to a peer at a time, so one busy answer refuses all messages at once",
        "limits message=50
         0 want 1.1 size=40 from p1
           > fetch p1: 1 (40)
         0 want 1.2 size=40 from p1
         0 want 1.3 size=40 from p1
         5 busy p1
           > ask 1 2 3
         155 wake
         155 tick
           > fetch p1: 1 (40)",
    ),
    (
        "the answer to a query that changes nothing causes no query",
        "0 want 1.1 from p1
           > fetch p1: 1 (1024)
         1 busy p1
           > ask 1
         2 holders 1=p1
         3 holders 1=p1
         4 holders 1=p1",
    ),
    (
        "a busy peer of the same host does not hold up other replicas",
        "0 want 1.1 from h1 p1
           > fetch h1: 1 (1024)
         1 busy h1
           > fetch p1: 1 (1024)",
    ),
];

/// The steps of the search for an idle holder.
const STEPS: Vectors = &[
    (
        "1 and 2: the next holder of the same host is asked at once",
        "0 want 1.1 from h1 p1
           > fetch h1: 1 (1024)
         1 holders 1=h1,h2,p1
         2 busy h1
           > fetch h2: 1 (1024)",
    ),
    (
        "3 and 4: then the holders of the rack, and then the others",
        "0 want 1.1 from h1 r1 p1
           > fetch h1: 1 (1024)
         1 busy h1
           > fetch r1: 1 (1024)
         2 busy r1
           > fetch p1: 1 (1024)
         3 busy p1
           > ask 1",
    ),
    (
        "5: a near holder whose mark has ended comes before a far one",
        "0 want 1.1 from h1 p1 p2
           > fetch h1: 1 (1024)
         1 holders 1=h1,p1
         1 busy h1
           > fetch p1: 1 (1024)
         151 tick
         152 holders 1=h1,p1,p2
         153 busy p1
           > fetch h1: 1 (1024)",
    ),
    (
        "6: the scheduler is asked at once when all holders are busy, and only then",
        "0 want 1.1 from p1
           > fetch p1: 1 (1024)
         1 holders 1=p1,r1
         2 busy p1
           > fetch r1: 1 (1024)
         40 busy r1
           > ask 1",
    ),
    (
        "6: a holder that serves another request of this worker is not busy",
        "0 want 1.1 from p1
           > fetch p1: 1 (1024)
         0 want 2.2 from p2
           > fetch p2: 2 (1024)
         1 holders 1=p1,p2
         2 busy p1
         3 sent p2 2
           > arrived 2 for 2
           > fetch p2: 1 (1024)",
    ),
    (
        "6: an artifact that is wanted while all its holders are busy is asked for at once",
        "0 want 1.1 from p1
           > fetch p1: 1 (1024)
         2 busy p1
           > ask 1
         9 want 2.2 from p1
           > ask 2",
    ),
    (
        "7: a new holder in the answer is asked at once",
        "0 want 1.1 from p1
           > fetch p1: 1 (1024)
         2 busy p1
           > ask 1
         3 holders 1=p1,p2
           > fetch p2: 1 (1024)",
    ),
    (
        "8: otherwise the wait is 150 ms from the busy answer, each time",
        "0 want 1.1 from p1
           > fetch p1: 1 (1024)
         2 busy p1
           > ask 1
         4 holders 1=p1
         152 wake
         151 tick
         152 tick
           > fetch p1: 1 (1024)
         154 busy p1
           > ask 1
         156 holders 1=p1
         304 wake
         304 tick
           > fetch p1: 1 (1024)
         900 busy p1
           > ask 1
         1050 wake",
    ),
];

/// The limits and the order of requests.
const LIMITS_AND_ORDER: Vectors = &[
    (
        "priority comes before distance, and distance before the number of artifacts",
        "limits transfers=0 threshold=0
         0 want 9.9 from p9
           > fetch p9: 9 (1024)
         0 want 1.1 prio=5 from h1
         0 want 1.2 prio=4 from p1
         0 want 1.3 prio=5 from r1
         0 want 1.4 prio=5 from r1
         1 sent p9 9
           > arrived 9 for 9
           > fetch p1: 2 (1024)
         2 sent p1 2
           > arrived 2 for 1
           > fetch h1: 1 (1024)
         3 sent h1 1
           > arrived 1 for 1
           > fetch r1: 3 4 (2048)",
    ),
    (
        "more artifacts come first among equally near peers",
        "limits transfers=0 threshold=0
         0 want 9.9 from p9
           > fetch p9: 9 (1024)
         0 want 1.1 from p1 p2
         0 want 1.2 from p2
         1 sent p9 9
           > arrived 9 for 9
           > fetch p2: 1 2 (2048)",
    ),
    (
        "a request has the most urgent artifacts first, then those wanted longest",
        "limits transfers=0 threshold=0
         0 want 9.9 from p9
           > fetch p9: 9 (1024)
         0 want 1.5 prio=3 from p1
         0 want 1.4 prio=3 from p1
         0 want 1.6 prio=-1 from p1
         1 sent p9 9
           > arrived 9 for 9
           > fetch p1: 6 5 4 (3072)",
    ),
    (
        "the urgency of an artifact is the best of its tasks",
        "limits transfers=0 threshold=0
         0 want 9.9 from p9
           > fetch p9: 9 (1024)
         0 want 1.1 prio=3 from p1
         0 want 2.1 prio=1 from p1
         0 want 1.2 prio=2 from p2
         1 sent p9 9
           > arrived 9 for 9
           > fetch p1: 1 (1024)",
    ),
    (
        "the urgency of a task counts as long as it wants the artifact, and may change",
        "limits transfers=0 threshold=0
         0 want 9.9 from p9
           > fetch p9: 9 (1024)
         0 want 1.1 prio=3 from p1
         0 want 2.1 prio=1 from p1
         0 want 1.2 prio=2 from p2
         0 want 3.3 prio=0 from p3
         0 want 3.3 prio=4 from p3
         0 unwant 2.1
         1 sent p9 9
           > arrived 9 for 9
           > fetch p2: 2 (1024)
         2 sent p2 2
           > arrived 2 for 1
           > fetch p1: 1 (1024)",
    ),
    (
        "a known size stays known",
        "0 want 1.1 size=70
         0 want 2.1 from p1
           > fetch p1: 1 (70)",
    ),
    (
        "artifacts that an earlier request took do not count for the place of another holder",
        "0 pressure high
         0 want 1.1 from p1 p2
         0 want 1.2 prio=4 from p2
         0 want 1.3 prio=1 from p1
         0 want 1.4 prio=1 from p1
         0 want 1.5 prio=2 from p3
         0 want 1.6 prio=3 from p3 p2
         0 want 1.7 prio=3 from p1
         0 pressure normal
           > fetch p1: 1 3 4 7 (4096)
           > fetch p3: 5 6 (2048)
           > fetch p2: 2 (1024)",
    ),
    (
        "the first artifact of a message may be larger than a message, and none follows it",
        "limits message=100
         0 pressure high
         0 want 1.1 size=500 from p1
         0 want 1.2 size=0 from p1
         1 pressure normal
           > fetch p1: 1 (500)",
    ),
    (
        "a message ends before the first artifact that does not fit",
        "limits message=100
         0 pressure high
         0 want 1.1 size=60 from p1
         0 want 1.2 size=40 from p1
         0 want 1.3 size=1 from p1
         1 pressure normal
           > fetch p1: 1 2 (100)",
    ),
    (
        "an artifact larger than all limits is fetched when nothing else is in flight",
        "limits message=100 incoming=200 transfers=1
         0 want 1.1 size=50 from p1
           > fetch p1: 1 (50)
         0 want 1.2 size=9000 prio=1 from p2
         0 want 1.3 size=1 prio=2 from p3
         5 sent p1 1
           > arrived 1 for 1
           > fetch p2: 2 (9000)
         6 sent p2 2
           > arrived 2 for 1
           > fetch p3: 3 (1)",
    ),
    (
        "the number of requests is limited from the threshold on",
        "limits transfers=1 threshold=100
         0 want 1.1 size=99 from p1
           > fetch p1: 1 (99)
         0 want 1.2 size=1 from p2
           > fetch p2: 2 (1)
         0 want 1.3 size=1 from p3
         5 sent p2 2
           > arrived 2 for 1
           > fetch p3: 3 (1)",
    ),
    (
        "an unknown size counts as 1 KiB, and the sum stays exact when the size becomes known",
        "limits incoming=1100
         0 want 1.1 from p1
           > fetch p1: 1 (1024)
         0 want 2.1 size=5000 from p1
         0 want 1.2 size=76 from p2
           > fetch p2: 2 (76)
         0 want 1.3 size=1024 from p3
         1 sent p1 1
           > arrived 1 for 1 2
           > fetch p3: 3 (1024)",
    ),
    (
        "the pressure stops new requests, and its end starts them",
        "0 pressure high
         0 want 1.1 from p1
         5 tick
         6 pressure normal
           > fetch p1: 1 (1024)
         7 pressure high
         8 sent p1 1
           > arrived 1 for 1",
    ),
];

/// Lost holders, bad copies, and the wait for a holder.
const REPLICAS: Vectors = &[
    (
        "an input does not wait for a replica of the same peer, and no request mixes both",
        "0 want 9.1 replica from p1
           > fetch p1: 1 (1024)
         1 want 9.2 replica from p1
         2 want 1.3 from p1
           > fetch p1: 3 (1024)
         3 sent p1 3
           > arrived 3 for 1",
    ),
    (
        "replicas come after inputs, a few beside them and more without",
        "limits replicas=3 beside=1
         0 pressure high
         1 want 9.1 replica from p1
         2 want 9.2 replica from p1
         3 want 9.3 replica from p1
         4 want 9.4 replica from p1
         5 want 1.5 from p1
         6 pressure normal
           > fetch p1: 5 (1024)
           > fetch p1: 1 (1024)
         7 busy p1 1
           > arrived 1 for 9
         8 unwant 1.5
         157 tick
           > fetch p1: 2 3 4 (3072)",
    ),
    (
        "the scheduler is not asked for holders of replicas, which are given up without holders",
        "0 want 9.1 replica from p1 p2
           > fetch p1: 1 (1024)
         1 busy p1
           > fetch p2: 1 (1024)
         2 busy p2
         151 tick
           > fetch p1: 1 (1024)
         152 sent p1 -1
           > corrupt p1: 1
           > fetch p2: 1 (1024)
         153 fail p2
           > missing 1 for 9 since 153",
    ),
    (
        "a task that needs a replica keeps it",
        "0 want 9.1 replica from p1
           > fetch p1: 1 (1024)
         1 want 1.1
         2 fail p1
         3 unwant 9.1
         1002 tick
           > ask 1",
    ),
];

const BUSY_IN_THE_MIDDLE: Vectors = &[(
    "what came before the busy answer is done, and the peer stays a holder of the rest",
    "0 want 1.1 from p1
       > fetch p1: 1 (1024)
     1 want 1.2 from p1
     2 want 1.3 from p1
     3 sent p1 1
       > arrived 1 for 1
       > fetch p1: 2 3 (2048)
     4 busy p1 2
       > arrived 2 for 1
       > ask 3
     154 tick
       > fetch p1: 3 (1024)",
)];

const LOSSES: Vectors = &[
    (
        "a copy that was not sent: the next holder is asked at once",
        "0 want 1.1 from h1 p1
           > fetch h1: 1 (1024)
         1 sent h1
           > fetch p1: 1 (1024)
         2 sent p1
         1002 wake",
    ),
    (
        "a part of a message: what arrived is done, the rest has lost a holder",
        "0 pressure high
         0 want 1.1 from p1
         0 want 2.2 from p1
         0 pressure normal
           > fetch p1: 1 2 (2048)
         1 sent p1 2
           > arrived 2 for 2
         1001 tick
           > ask 1
         1002 holders 1=p1
           > fetch p1: 1 (1024)",
    ),
    (
        "a corrupt copy is reported, and another holder is asked at once",
        "0 want 1.1 from h1 p1
           > fetch h1: 1 (1024)
         1 sent h1 -1
           > corrupt h1: 1
           > fetch p1: 1 (1024)
         2 sent p1 -1
           > corrupt p1: 1
         1002 tick
           > ask 1",
    ),
    (
        "a failed connection keeps the complete copies and drops the peer from every artifact",
        "0 pressure high
         0 want 1.1 from p1
         0 want 1.2 from p1 r2
         0 want 1.3 from p1
         0 unwant 1.2
         0 want 1.2 prio=9 from p1
         0 pressure normal
           > fetch p1: 1 3 2 (3072)
         1 want 4.4 from p1
         2 fail p1 1
           > arrived 1 for 1
         3 holders 2=p1
           > fetch p1: 2 (1024)
         1002 tick
           > ask 3 4",
    ),
    (
        "a removed peer holds nothing, and its transfer continues",
        "limits message=1
         0 want 1.1 from p1
           > fetch p1: 1 (1024)
         0 want 1.2 from p1 p2
           > fetch p2: 2 (1024)
         1 remove p1
         2 sent p1 1
           > arrived 1 for 1
         3 remove p2
         4 busy p2
           > ask 2
         5 holders 2=p2
         154 tick
           > fetch p2: 2 (1024)",
    ),
    (
        "a removed peer that still waits for its request is not asked",
        "0 pressure high
         0 want 1.1 from p1
         1 remove p1
         2 pressure normal
         1001 wake",
    ),
    (
        "a missing artifact is asked for after a second and then in each period",
        "0 want 1.1
         1000 wake
         1000 tick
           > ask 1
         1001 holders 1=
         16000 wake
         16000 tick
           > ask 1
         31000 tick
           > ask 1
         31001 holders 1=p1
           > fetch p1: 1 (1024)",
    ),
    (
        "after 300 s without a holder the tasks fail",
        "0 want 1.1
         0 want 2.1
         299999 tick
           > ask 1
         300000 wake
         300000 tick
           > missing 1 for 1 2 since 0
         300001 want 3.1
         301001 wake",
    ),
    (
        "a holder ends the time without a holder",
        "0 want 1.1
         299000 holders 1=p1
           > fetch p1: 1 (1024)
         299001 remove p1
         299002 busy p1
           > ask 1
         299003 holders 1=
         599002 tick
           > missing 1 for 1 since 299002",
    ),
    (
        "a wrong entry that the registry repeats does not end the time without a holder",
        "0 want 1.1 from p1
           > fetch p1: 1 (1024)
         10 sent p1
         1010 tick
           > ask 1
         1011 holders 1=p1
           > fetch p1: 1 (1024)
         1012 sent p1
         16010 wake
         299000 tick
           > ask 1
         299001 holders 1=p1
           > fetch p1: 1 (1024)
         300200 sent p1
           > missing 1 for 1 since 10",
    ),
    (
        "the scheduler is not asked for an artifact whose tasks fail now",
        "0 want 1.1 from p1
           > fetch p1: 1 (1024)
         10 sent p1
         299000 tick
           > ask 1
         299001 holders 1=p1
           > fetch p1: 1 (1024)
         299002 remove p1
         300100 busy p1
           > missing 1 for 1 since 10",
    ),
    (
        "an artifact that nobody wants any more is forgotten, and its transfer continues",
        "limits incoming=1024
         0 want 1.1 from p1
           > fetch p1: 1 (1024)
         0 want 1.2 from p2
         1 unwant 1.1
         2 unwant 3.3
         3 sent p1 1
           > arrived 1 for nobody
           > fetch p2: 2 (1024)
         4 unwant 1.2
         5 busy p2
         155 tick",
    ),
    (
        "a task may want an artifact again while its transfer continues",
        "0 want 1.1 from p1
           > fetch p1: 1 (1024)
         1 unwant 1.1
         2 want 2.1 from p2
         3 sent p1 1
           > arrived 1 for 2",
    ),
    (
        "the worker does not ask itself",
        "0 want 1.1 from me
         1000 tick
           > ask 1
         1001 holders 1=me",
    ),
    (
        "several busy holders cause one query while its answer is awaited",
        "0 want 1.1 from h1 p1
           > fetch h1: 1 (1024)
         1 busy h1
           > fetch p1: 1 (1024)
         2 busy p1
           > ask 1
         151 tick
           > fetch h1: 1 (1024)
         152 busy h1
           > fetch p1: 1 (1024)
         153 busy p1
         154 holders 1=h1,p1
         302 tick
           > fetch h1: 1 (1024)
         303 busy h1
           > fetch p1: 1 (1024)
         304 busy p1
           > ask 1",
    ),
    (
        "an answered query is repeated after 150 ms at the earliest",
        "0 want 1.1 from p1
           > fetch p1: 1 (1024)
         1 busy p1
           > ask 1
         2 holders 1=p1,p2
           > fetch p2: 1 (1024)
         3 busy p2
         151 tick
           > fetch p1: 1 (1024)
         152 busy p1
           > ask 1",
    ),
    (
        "a query without an answer counts as lost after a period",
        "0 want 1.1 from p1
           > fetch p1: 1 (1024)
         1 busy p1
           > ask 1
         14000 tick
           > fetch p1: 1 (1024)
         14001 busy p1
         15001 tick
           > fetch p1: 1 (1024)
         15002 busy p1
           > ask 1",
    ),
];

#[test]
fn failures_of_the_former_design_do_not_happen() {
    FORMER_FAILURES
        .iter()
        .for_each(|(rule, script)| play(rule, script));
}

#[test]
fn steps_of_the_search() {
    STEPS.iter().for_each(|(rule, script)| play(rule, script));
}

#[test]
fn limits_and_order() {
    LIMITS_AND_ORDER
        .iter()
        .for_each(|(rule, script)| play(rule, script));
}

#[test]
fn replicas() {
    REPLICAS
        .iter()
        .for_each(|(rule, script)| play(rule, script));
}

#[test]
fn busy_in_the_middle_of_a_transfer() {
    BUSY_IN_THE_MIDDLE
        .iter()
        .for_each(|(rule, script)| play(rule, script));
}

#[test]
fn losses_and_bad_copies() {
    LOSSES.iter().for_each(|(rule, script)| play(rule, script));
}

/// Returns a worker that wants artifact 1 from these holders, and the request that it starts.
fn wanting(holders: &[&str], limits: GatherLimits, seed: u64) -> (Gather, TransferId, PeerId) {
    let mut gather = Gather::new(me(), limits, rng(seed));
    let actions = gather.handle(want_from(holders), at(0));
    let [GatherAction::Fetch { transfer, peer, .. }] = &actions[..] else {
        panic!("{actions:?}");
    };
    (gather, *transfer, peer.clone())
}

fn want_from(holders: &[&str]) -> GatherEvent {
    GatherEvent::Wanted {
        task: WaitingTask(1),
        priority: Priority(0),
        artifacts: vec![WantedArtifact {
            artifact: artifact(1),
            size: None,
            holders: holders.iter().map(|name| peer(name)).collect(),
        }],
    }
}

fn busy(transfer: TransferId) -> GatherEvent {
    GatherEvent::TransferEnded {
        transfer,
        outcome: TransferOutcome::Busy(BTreeMap::new()),
    }
}

#[test]
fn the_thousandth_wait_is_as_long_as_the_first() {
    let (mut gather, mut transfer, _) = wanting(&["p1"], GatherLimits::default(), 1);
    for round in 0..1000 {
        let now = at(150 * round);
        gather.handle(busy(transfer), now).clear();
        gather.check();
        assert_eq!(gather.next_wake(), Some(at(150 * round + 150)));
        let actions = gather.handle(GatherEvent::TimePassed, at(150 * round + 150));
        let [GatherAction::Fetch { transfer: next, .. }] = &actions[..] else {
            panic!("round {round}: {actions:?}");
        };
        transfer = *next;
    }
}

#[test]
fn jitter_spreads_marks_over_a_quarter_to_both_sides_and_is_off_by_default() {
    let length = |jitter, seed| {
        let limits = GatherLimits {
            busy_jitter: jitter,
            ..GatherLimits::default()
        };
        let (mut gather, transfer, _) = wanting(&["p1"], limits, seed);
        gather.handle(busy(transfer), at(0)).clear();
        let wake = gather.next_wake().expect("a mark ends");
        wake.since(Time::ZERO).as_micros()
    };
    let lengths: BTreeSet<u128> = (0..200)
        .map(|seed| length(BusyJitter::Quarter, seed))
        .collect();
    let (least, most) = (*lengths.first().unwrap(), *lengths.last().unwrap());
    assert!((112_500..117_000).contains(&least), "{least}");
    assert!((183_000..=187_500).contains(&most), "{most}");
    assert!(lengths.len() > 190);
    assert!((0..20).all(|seed| length(BusyJitter::default(), seed) == 150_000));
}

#[test]
fn equal_peers_are_chosen_by_the_seed() {
    let names = ["p1", "p2", "p3", "p4"];
    let mut chosen: BTreeMap<PeerId, u32> = BTreeMap::new();
    for seed in 0..400 {
        let choice = |seed| wanting(&names, GatherLimits::default(), seed).2;
        assert_eq!(choice(seed), choice(seed));
        *chosen.entry(choice(seed)).or_default() += 1;
    }
    assert!(
        chosen.len() == names.len() && chosen.values().all(|count| (60..140).contains(count)),
        "{chosen:?}"
    );
}

#[test]
fn late_and_repeated_outcomes_have_no_effect() {
    let (mut gather, first, _) = wanting(&["p1"], GatherLimits::default(), 1);
    assert_eq!(gather.handle(busy(first), at(1)).len(), 1);
    assert_eq!(gather.handle(busy(first), at(100)), []);
    assert_eq!(gather.handle(busy(TransferId(77)), at(100)), []);
    assert_eq!(gather.next_wake(), Some(at(151)));
    assert_eq!(gather.handle(GatherEvent::TimePassed, at(151)).len(), 1);
    // The second request to the same peer is not ended by the outcome of the first.
    assert_eq!(gather.handle(busy(first), at(152)), []);
    assert_eq!(gather.waits()[0].reason, ArtifactWaitReason::InFlight);
    gather.check();
}

#[test]
fn waits_are_reported_with_their_reasons() {
    let (mut gather, transfer, _) = wanting(&["p1"], GatherLimits::default(), 1);
    let wait = |reason| ArtifactWait {
        artifact: artifact(1),
        since: at(0),
        reason,
    };
    assert_eq!(gather.waits(), [wait(ArtifactWaitReason::InFlight)]);
    gather.handle(busy(transfer), at(5)).clear();
    assert_eq!(gather.waits(), [wait(ArtifactWaitReason::HoldersBusy)]);
    let pressure = GatherEvent::PressureChanged(super::super::Pressure::High);
    gather.handle(pressure, at(155)).clear();
    assert_eq!(gather.waits(), [wait(ArtifactWaitReason::Queued)]);
    let removed = GatherEvent::PeerRemoved { peer: "p1".into() };
    gather.handle(removed, at(160)).clear();
    assert_eq!(gather.waits(), [wait(ArtifactWaitReason::NoHolder)]);
    let task = WaitingTask(1);
    let artifacts = vec![artifact(1)];
    let unwanted = GatherEvent::NotWanted { task, artifacts };
    gather.handle(unwanted, at(170)).clear();
    assert_eq!(gather.waits(), []);
    assert_eq!(gather.next_wake(), None);
}

#[test]
fn a_wait_begins_with_the_first_of_the_present_tasks() {
    let (mut gather, _, _) = wanting(&["p1"], GatherLimits::default(), 1);
    let unwanted = |task| GatherEvent::NotWanted {
        task: WaitingTask(task),
        artifacts: vec![artifact(1)],
    };
    gather.handle(want_from(&[]), at(20)).clear();
    assert_eq!(gather.waits()[0].since, at(0));
    gather.handle(unwanted(1), at(30)).clear();
    assert_eq!(gather.waits(), []);
    gather.handle(want_from(&[]), at(50)).clear();
    assert_eq!(gather.waits()[0].since, at(50));
}

#[test]
fn time_does_not_run_backwards() {
    let (mut gather, transfer, _) = wanting(&["p1"], GatherLimits::default(), 1);
    gather.handle(GatherEvent::TimePassed, at(1000)).clear();
    gather.handle(busy(transfer), at(10)).clear();
    assert_eq!(gather.next_wake(), Some(at(1150)));
}
