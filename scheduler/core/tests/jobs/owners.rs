//! Callers change what they own, and speak for what they are: submitters for their jobs, workers for their machines.

use std::net::SocketAddr;
use std::sync::Arc;

use brasserie_common::access::{Identity, IdentityProof, Role, RunAs};
use brasserie_common::{NodeName, Principal, WorkerDescription, WorkerSetId};
use brasserie_scheduler_core::{
    Event, ExpectedVersion, HoldId, JobChange, JobChanged, JobRefusal, NeededOutputs, OutputHold,
    Rejection, Reply,
};

use super::{JOB, change_by, create, job, name, quiet, restarted};
use crate::support::{Script, one_job, worker};

pub(super) fn person(role: Role, owner: Option<&str>, run_as: &[&str]) -> Principal {
    let accounts = run_as.iter().map(|text| RunAs::from_text(text));
    let from = SocketAddr::from(([10, 0, 0, 9], 9));
    Principal::Authenticated(Arc::new(Identity {
        owner: owner.map(Arc::from),
        run_as: accounts.map(|account| account.expect("one")).collect(),
        ..Identity::new(role, IdentityProof::Token, from)
    }))
}

pub(super) fn submitter(owner: &str) -> Principal {
    person(Role::Submitter, Some(owner), &[])
}

/// Every change of a job that the calls of submitters make.
fn all_changes() -> Vec<JobChange> {
    let text: Arc<str> = JOB.into();
    let nodes = vec![NodeName::try_from("n0").expect("a name")];
    let expected = ExpectedVersion::Any;
    let needed = NeededOutputs::Forget;
    let holder = HoldId(None);
    vec![
        JobChange::Save { text, expected },
        JobChange::Delete { expected },
        JobChange::Pause,
        JobChange::Cancel,
        JobChange::Resume,
        JobChange::Forgive,
        JobChange::ForgiveFailed,
        JobChange::DeleteHistory {
            nodes: nodes.clone(),
        },
        JobChange::ForgetOutputs { nodes, needed },
        JobChange::HoldOutputs {
            hold: OutputHold::Continue,
            holder,
        },
        JobChange::HoldOutputs {
            hold: OutputHold::End,
            holder,
        },
    ]
}

fn save_as(s: &mut Script, from: &Principal, job: &str, text: &str) -> Result<i64, JobRefusal> {
    let (text, expected) = (text.into(), ExpectedVersion::Any);
    match change_by(s, from, job, JobChange::Save { text, expected }).1? {
        JobChanged::Saved { version, .. } => Ok(version.0),
        other => panic!("{other:?}"),
    }
}

/// A cluster with a job of each kind of owner: `j` of the file, `anas`, `bobs`, and `nobodys`.
fn owned() -> Script {
    let mut s = quiet();
    save_as(&mut s, &submitter("ana"), "anas", JOB).expect("a new job");
    save_as(&mut s, &submitter("bob"), "bobs", JOB).expect("a new job");
    create(&mut s, "nobodys", JOB);
    s
}

fn is_foreign<T>(result: &Result<T, JobRefusal>) -> bool {
    matches!(result, Err(JobRefusal::NotOwner(_)))
}

#[test]
fn every_change_of_a_submitter_is_of_its_own_job() {
    for change in all_changes() {
        for (job, owner) in [
            ("anas", None),
            ("bobs", Some("owned by `bob`")),
            ("j", Some("owned by the scheduler")),
            ("nobodys", Some("owned by nobody")),
        ] {
            let mut s = owned();
            let result = change_by(&mut s, &submitter("ana"), job, change.clone()).1;
            assert_eq!(
                is_foreign(&result),
                owner.is_some(),
                "{change:?} of {job}: {result:?}"
            );
            if let (Some(owner), Err(why)) = (owner, result) {
                assert!(why.to_string().contains(owner), "{why}");
            }
            // Those who change all jobs are stopped by nothing of this, and the others by their role.
            for role in [Role::Operator, Role::Admin] {
                let from = person(role, None, &[]);
                let result = change_by(&mut owned(), &from, job, change.clone()).1;
                assert!(!is_foreign(&result), "{role} {change:?} of {job}");
            }
            let viewer = person(Role::Viewer, None, &[]);
            let result = change_by(&mut owned(), &viewer, job, change.clone()).1;
            assert!(is_foreign(&result), "{change:?} of {job}");
        }
        // The remains of a deleted job belong to nobody. Its name is free.
        let is_save = matches!(change, JobChange::Save { .. });
        let result = change_by(&mut owned(), &submitter("ana"), "gone", change).1;
        assert_eq!(is_foreign(&result), !is_save, "{result:?}");
    }
}

#[test]
fn a_submitter_kills_tasks_of_its_own_jobs_alone() {
    for (job, is_own) in [
        ("anas", true),
        ("bobs", false),
        ("j", false),
        ("gone", false),
    ] {
        let mut s = owned();
        let request = s.request();
        s.event(Event::KillTask {
            request,
            from: submitter("ana"),
            job: name(job),
            node: NodeName::try_from("n0").expect("a name"),
        });
        let is_foreign = s
            .replies
            .iter()
            .any(|(_, _, reply)| matches!(reply, Reply::KillTask(Err(Rejection::NotOwner(_)))));
        assert_eq!(is_foreign, !is_own, "{job}");
    }
}

#[test]
fn the_first_submitter_owns_a_job_also_after_others_replace_it_and_after_a_restart() {
    let mut s = owned();
    let operator = person(Role::Operator, None, &[]);
    save_as(&mut s, &operator, "anas", r#"{"owner": "eve"}"#).expect("a new version");
    // The text claims nothing that the token does not say.
    assert_eq!(job(&s, "anas").expect("a job").owner, "ana");
    assert!(is_foreign(&save_as(&mut s, &submitter("bob"), "anas", JOB)));
    let mut s = s.restart(restarted());
    s.load(one_job(1, r#", "enabled": false"#));
    assert!(is_foreign(&save_as(&mut s, &submitter("bob"), "anas", JOB)));
    assert!(is_foreign(&save_as(
        &mut s,
        &submitter("ana"),
        "nobodys",
        JOB
    )));
    let status = s.status();
    let owners = status
        .jobs
        .iter()
        .map(|job| (job.name.as_str(), job.owner.as_deref()));
    let owners: Vec<_> = owners.collect();
    assert_eq!(
        owners,
        [
            ("j", None),
            ("anas", Some("ana")),
            ("bobs", Some("bob")),
            ("nobodys", None)
        ]
    );
    // A deleted job's name is free.
    let deleted = JobChange::Delete {
        expected: ExpectedVersion::Any,
    };
    change_by(&mut s, &submitter("ana"), "anas", deleted)
        .1
        .expect("deleted");
    save_as(&mut s, &submitter("bob"), "anas", JOB).expect("a new job");
    assert!(is_foreign(&save_as(&mut s, &submitter("ana"), "anas", JOB)));
}

#[test]
fn a_submitter_without_an_owner_owns_nothing() {
    let nameless = person(Role::Submitter, None, &[]);
    let refused = save_as(&mut owned(), &nameless, "new", JOB).expect_err("a refusal");
    assert!(refused.to_string().contains("names no owner"), "{refused}");
}

#[test]
fn accounts_are_granted_to_tokens() {
    let settings = r#", "enabled": false"#;
    let text = |user: &str| format!(r#"{{"command": ["/bin/true"], "task_subprocess": {user}}}"#);
    let (batch, data) = (
        r#"{"user": "batch"}"#,
        r#"{"user": "batch", "group": "data"}"#,
    );
    for (from, account, is_good) in [
        (person(Role::Submitter, Some("ana"), &[]), batch, false),
        (
            person(Role::Submitter, Some("ana"), &["batch"]),
            batch,
            true,
        ),
        (
            person(Role::Submitter, Some("ana"), &["batch"]),
            data,
            false,
        ),
        (
            person(Role::Submitter, Some("ana"), &["batch:data"]),
            data,
            true,
        ),
        (
            person(Role::Submitter, Some("ana"), &["batch:data"]),
            batch,
            false,
        ),
        (person(Role::Submitter, Some("ana"), &[]), "{}", true),
        (person(Role::Operator, None, &[]), data, true),
        (person(Role::Admin, None, &[]), data, true),
        (Principal::Own, data, true),
    ] {
        let mut s = Script::with_config(one_job(1, settings));
        let saved = save_as(&mut s, &from, "x", &text(account));
        assert_eq!(saved.is_ok(), is_good, "{from} {account}: {saved:?}");
        if let Err(why) = saved {
            let why = why.to_string();
            assert!(why.contains("--owner ana --run-as batch"), "{why}");
        }
    }
}

#[test]
fn a_healthy_worker_is_not_replaced_by_one_of_another_machine_that_names_its_lock() {
    let at = |ip: [u8; 4]| {
        let (proof, from) = (IdentityProof::Certificate, SocketAddr::from((ip, 7)));
        Principal::Authenticated(Arc::new(Identity::new(Role::Worker, proof, from)))
    };
    let (own, thief) = (at([10, 0, 0, 1]), at([10, 0, 0, 2]));
    let mut s = Script::with_config(one_job(1, r#", "enabled": false"#));
    s.caller = own.clone();
    s.join(&worker("w", 1, 10));
    // The same machine lock and a later start: on its machine, that proves that the former instance is dead.
    let later = worker("w", 1, 99);
    let elsewhere = WorkerDescription {
        shard: "other".try_into().expect("a name"),
        ..later.clone()
    };
    s.caller = thief;
    for claim in [&later, &elsewhere] {
        let refused = s.heartbeat(claim, WorkerSetId::default());
        assert!(
            matches!(refused, Err(Rejection::OtherMachine { .. })),
            "{refused:?}"
        );
    }
    assert_eq!(s.status().workers[0].id, worker("w", 1, 10).id);
    assert!(
        s.status()
            .errors
            .iter()
            .any(|error| error.contains("brasserie worker revoke w"))
    );
    s.caller = own;
    s.heartbeat(&later, WorkerSetId::default())
        .expect("its successor");
    assert_eq!(s.status().workers[0].id, later.id);
}
