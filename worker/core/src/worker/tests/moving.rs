//! Tests of a scheduler that has several addresses, or moves to another one.

use std::time::Duration;

use brasserie_common::{
    CallOutcome, Health, ReportedStatus, ServiceAddress, WorkReply, WorkVerdict,
};
use brasserie_worker_fetch::Profile;

use crate::effect::{Call, Effect};
use crate::event::CallReply;
use crate::worker::rig::*;
use crate::worker::tests::fetching::fetch_work;
use crate::{MemberList, WorkFetch};

fn members(ports: &[u16]) -> Vec<ServiceAddress> {
    let member = |port: &u16| ServiceAddress {
        host: "scheduler".into(),
        port: *port,
    };
    ports.iter().map(member).collect()
}

/// Returns a worker whose scheduler's members are in a file.
fn rig(ports: &[u16], work_fetch: Option<WorkFetch>) -> Rig {
    let rig = Rig::with(|options| {
        options.work_fetch = work_fetch;
        let own = &mut options.associations[0];
        own.members = members(ports);
        own.list = MemberList::Read {
            called: "@list".to_owned(),
        };
    });
    rig.join()
}

/// Returns the ports to which heartbeats and statuses go.
fn ports(rig: &Rig) -> (u16, u16) {
    let port = |at: Option<&ServiceAddress>| at.expect("somebody is known").port;
    let own = rig.own();
    (port(own.hears_heartbeats()), port(own.hears_statuses()))
}

/// Lets the next heartbeat fail.
fn miss(rig: &mut Rig) {
    let before = rig.beats.len();
    while rig.beats.len() == before {
        rig.wait(500);
    }
    rig.completed(rig.last_beat(), not_sent());
}

/// Returns the only read of the member list since the last call.
fn asked_who(rig: &mut Rig) -> u64 {
    let asked = std::mem::take(&mut rig.list_readings);
    let [call] = <[_; 1]>::try_from(asked).expect("one question");
    call.0
}

fn told(rig: &mut Rig, call: u64, ports: &[u16]) {
    let members = CallReply::Members(members(ports));
    rig.completed(call, CallOutcome::Done(members));
}

#[test]
fn the_next_member_hears_heartbeats_when_one_does_not_answer() {
    let mut rig = rig(&[1, 2], None);
    assert_eq!(ports(&rig), (1, 1));
    miss(&mut rig);
    assert!(rig.list_readings.is_empty(), "one is left to be tried");
    rig.wait(1_500);
    // Statuses go to the member that answered last, until another one answers.
    assert_eq!(ports(&rig), (2, 1));
    rig.heartbeat_answered(rig.last_beat(), 1, 1, Health::Healthy);
    assert_eq!(ports(&rig), (2, 2));
}

#[test]
fn a_scheduler_that_has_moved_is_found_on_its_list() {
    let mut rig = rig(&[1], None);
    miss(&mut rig);
    let call = asked_who(&mut rig);
    // Only one read is in flight, however many heartbeats fail meanwhile.
    miss(&mut rig);
    assert!(rig.list_readings.is_empty());
    told(&mut rig, call, &[7]);
    rig.wait(1_500);
    assert_eq!(ports(&rig), (7, 7));
    rig.heartbeat_answered(rig.last_beat(), 1, 1, Health::Healthy);
    assert_eq!(rig.own().heartbeat_trouble(), None);
}

#[test]
fn a_list_that_cannot_be_read_changes_nothing_and_is_read_again() {
    let mut rig = rig(&[1], None);
    let failures: [fn(&mut Rig, u64); 3] = [
        |rig, call| drop(rig.completed(call, not_sent())),
        |rig, call| told(rig, call, &[]),
        // The read times out.
        |rig, call| {
            rig.wait(10_000);
            told(rig, call, &[9]);
        },
    ];
    for fail in failures {
        miss(&mut rig);
        let call = asked_who(&mut rig);
        fail(&mut rig, call);
        rig.list_readings.clear();
        assert_eq!(ports(&rig).0, 1);
    }
}

#[test]
fn requests_for_work_that_fail_and_fail_have_the_list_read_too() {
    let work_fetch = WorkFetch::new(Profile::CLUSTER, 1);
    let mut rig = rig(&[1], Some(work_fetch));
    rig.wait(500);
    // The operator's wishes end the backoffs in between.
    for _ in 0..10 {
        assert!(rig.list_readings.is_empty());
        let call = rig.work_requests.last().expect("it has asked").0;
        rig.completed(call.0, not_sent());
        rig.hear(fetch_work(None));
        rig.wait(20);
    }
    let call = asked_who(&mut rig);
    let asked = rig.work_requests.len();
    rig.wait(1_000);
    assert_eq!(rig.work_requests.len(), asked, "nobody is asked before");
    // A new member is asked at once.
    told(&mut rig, call, &[7]);
    rig.wait(20);
    assert_eq!(rig.work_requests.len(), asked + 1);
    // A failed read counts as a failure, and the old list stays.
    let call = rig.work_requests.last().expect("it has asked").0;
    rig.completed(call.0, not_sent());
    assert_eq!(ports(&rig), (7, 7), "nobody else is known");
}

/// Answers the last request with NO_WORK.
fn has_no_work(rig: &mut Rig) {
    let (call, request) = rig.work_requests.last().expect("it has asked").clone();
    let reply = WorkReply::same_for_all(&request, WorkVerdict::NoWork, Duration::ZERO);
    let reply = CallReply::Work(Box::new(reply));
    rig.completed(call.0, CallOutcome::Done(reply));
}

#[test]
fn work_is_asked_for_where_the_scheduler_was_found() {
    // The result does not depend on the member with which a worker would begin by itself.
    for seed in 0..8 {
        let work_fetch = WorkFetch::new(Profile::CLUSTER, seed);
        let mut rig = rig(&[1, 2, 3], Some(work_fetch));
        rig.wait(500);
        assert_eq!(rig.work_asked, [1], "its heartbeats were answered there");
        // The first two members serve no requests for a while.
        while rig.work_asked.last() != Some(&3) {
            let call = rig.work_requests.last().expect("it has asked").0;
            rig.completed(call.0, not_sent());
            rig.wait(20);
        }
        has_no_work(&mut rig);
        let moved = rig.work_asked.len();
        let beats = rig.beats.len();
        while rig.beats.len() == beats {
            rig.wait(500);
            has_no_work(&mut rig);
        }
        assert!(rig.work_asked.len() > moved, "it has asked meanwhile");
        assert!(rig.work_asked[moved..].iter().all(|to| *to == 3));
        // Another member answers a heartbeat, and gets the next request.
        rig.completed(rig.last_beat(), not_sent());
        rig.wait(1_500);
        assert_eq!(ports(&rig).0, 2);
        has_no_work(&mut rig);
        rig.heartbeat_answered(rig.last_beat(), 1, 1, Health::Healthy);
        let before = rig.work_asked.len();
        rig.hear(fetch_work(None));
        rig.wait(20);
        assert_eq!(rig.work_asked[before..], [2]);
    }
}

#[test]
fn nothing_is_sent_to_whom_the_list_does_not_name_any_more_and_no_end_is_lost() {
    let mut rig = rig(&[1, 2], None);
    rig.start("a", 1);
    let told_of_end = |effects: Vec<Effect>| {
        let mut calls = effects.into_iter().filter_map(|effect| match effect {
            Effect::Call {
                id,
                call: Call::UpdateStatus { .. },
                ..
            } => Some(id.0),
            _ => None,
        });
        calls.next()
    };
    miss(&mut rig);
    miss(&mut rig);
    let call = asked_who(&mut rig);
    let effects = rig.end("a", 1, ReportedStatus::done());
    let end = told_of_end(effects).expect("it is told at once");
    rig.completed(end, not_sent());
    assert_eq!(ports(&rig), (2, 1), "it answered last");
    told(&mut rig, call, &[7, 2]);
    assert_eq!(ports(&rig), (2, 7), "the last heartbeat went to a member");
    assert_eq!(rig.own().unacknowledged_reports(), 1);
    let effects = rig.wait(1_500);
    assert_eq!(ports(&rig), (7, 7));
    let again = told_of_end(effects).expect("it is told again");
    rig.acknowledge(again);
    assert_eq!(rig.own().unacknowledged_reports(), 0);
}
