//! Tests of the saved state: written states are read back exactly, other texts are refused, and no text does any harm.

use std::time::Duration;

use brasserie_common::{ServiceAddress, Time};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::super::contact_state::ContactState;
use super::super::estimates::Estimates;
use super::super::members::Members;
use super::super::pair_backoff::SavedPair;
use super::super::profile::Profile;
use super::super::reason::Wish;
use super::super::rpc_policy::{SavedRpc, SavedWait};
use super::super::types::{ProcessorKind, Processors};
use super::super::wait::WaitCause;
use super::*;

fn member(port: u16) -> ServiceAddress {
    ServiceAddress {
        host: "scheduler".into(),
        port,
    }
}

fn span() -> impl Strategy<Value = Duration> {
    (0..1_u64 << 40, 0..1_000_000_000_u32).prop_map(|(secs, nanos)| Duration::new(secs, nanos))
}

/// Generates any amount, whatever its decimal representation.
fn number() -> impl Strategy<Value = f64> {
    proptest::num::f64::POSITIVE | proptest::num::f64::ZERO | proptest::num::f64::SUBNORMAL
}

fn above_nothing() -> impl Strategy<Value = f64> {
    (1e-20..1e20_f64).prop_map(f64::sqrt)
}

fn cause() -> impl Strategy<Value = WaitCause> {
    (0_usize..5, any::<u32>()).prop_map(|(which, count)| {
        let all = [
            WaitCause::RequestDelay,
            WaitCause::RpcFailed { failures: count },
            WaitCause::ListFailed { failures: count },
            WaitCause::TaskFailed { failures: count },
            WaitCause::ListFailedAgain { readings: count },
        ];
        all[which]
    })
}

prop_compose! {
    fn rpc()(
        wait in option::of((span(), cause())),
        (next_contact, list) in (option::of(span()), option::of(span())),
        (failures, list_failures) in (any::<u32>(), any::<u32>()),
        wish in option::of(select(Wish::ALL.to_vec())),
    ) -> SavedRpc {
        let wait = wait.map(|(left, cause)| SavedWait { left, cause });
        SavedRpc { wait, next_contact, failures, list_failures, list, wish }
    }
}

prop_compose! {
    fn pair()(
        processors in ".{0,8}", interval in number(), left in option::of(span()), no_apps in any::<bool>(),
    ) -> SavedPair {
        SavedPair { processors, interval, left, no_apps }
    }
}

prop_compose! {
    fn scheduler()(
        rpc in rpc(),
        pairs in vec(pair(), 0..4),
        members in vec(any::<u16>().prop_map(member), 0..4),
        (average, age) in (number(), number()),
        correction in above_nothing(),
    ) -> SavedScheduler {
        let contact = SavedContact { rpc, pairs, members };
        SavedScheduler { contact, rec: SavedRec { average, age }, correction }
    }
}

prop_compose! {
    fn job()(
        scheduler in ".{0,8}", name in ".{0,8}", said in option::of(above_nothing()), seconds in above_nothing(),
    ) -> SavedJob {
        SavedJob { scheduler, name, said, seconds }
    }
}

prop_compose! {
    fn state()(
        at in any::<i64>(),
        schedulers in btree_map(".{0,12}", scheduler(), 0..4),
        jobs in vec(job(), 0..6),
    ) -> SavedState {
        SavedState { at: WallTime::from_millis(at), schedulers, jobs }
    }
}

fn one() -> SavedState {
    let rpc = SavedRpc {
        wait: Some(SavedWait {
            left: Duration::from_millis(1500),
            cause: WaitCause::RpcFailed { failures: 3 },
        }),
        next_contact: Some(Duration::from_secs(600)),
        failures: 3,
        list_failures: 1,
        list: Some(Duration::from_secs(1)),
        wish: Some(Wish::Init),
    };
    let pair = SavedPair {
        processors: "CPU".to_owned(),
        interval: 8.0,
        left: Some(Duration::from_secs(4)),
        no_apps: false,
    };
    let contact = SavedContact {
        rpc,
        pairs: vec![pair],
        members: vec![member(7)],
    };
    let rec = SavedRec {
        average: 2.5,
        age: 10.0,
    };
    let saved = SavedScheduler {
        contact,
        rec,
        correction: 0.5,
    };
    SavedState {
        at: WallTime::from_secs(1000),
        schedulers: [("scheduler:7".to_owned(), saved)].into(),
        jobs: vec![job_called("resize", 5.0), job_called("index", 60.0)],
    }
}

fn job_called(name: &str, seconds: f64) -> SavedJob {
    SavedJob {
        scheduler: "scheduler:7".to_owned(),
        name: name.to_owned(),
        said: Some(30.0),
        seconds,
    }
}

/// Returns the error for a text, which is no state.
fn refused(text: &str) -> String {
    SavedState::read(text).expect_err(text).to_string()
}

#[test]
fn a_damaged_text_is_refused_with_the_place() {
    let text = one().to_text();
    for (from, to, error) in [
        (
            "\"correction\": 0.5",
            "\"correction\": null",
            "invalid type: null, expected f64 at line",
        ),
        (
            "\"correction\"",
            "\"corection\"",
            "unknown field `corection`",
        ),
        (
            "\"rpc_failed\"",
            "\"bad_mood\"",
            "unknown variant `bad_mood`",
        ),
        (
            "\"port\": 7",
            "\"port\": 70000",
            "invalid value: integer `70000`, expected u16",
        ),
        ("\"at_ms\": 1000000,", "", "missing field `at_ms`"),
    ] {
        assert_eq!(text.matches(from).count(), 1, "{from} in {text}");
        let refused = refused(&text.replace(from, to));
        let start = format!("the saved state is damaged: {error}");
        assert!(refused.starts_with(&start), "{refused}");
    }
    assert_eq!(
        refused("{"),
        "the saved state is damaged: EOF while parsing an object at line 1 column 1"
    );
    for text in [
        "",
        "[]",
        "{}",
        "[2]",
        &text[..text.len() / 2],
        &"[".repeat(100_000),
    ] {
        assert!(refused(text).starts_with("the saved state is damaged: "));
    }
}

/// A worker of an earlier or later release wrote the text. Its parts may have other names or meanings.
#[test]
fn another_version_is_refused() {
    for version in [1, 3] {
        assert_eq!(
            refused(&format!("{{\"version\": {version}, \"at_ms\": 5}}")),
            format!(
                "version {version} of the saved state is not version 2, which this worker reads"
            )
        );
    }
}

#[test]
fn a_text_does_not_grow_without_bound() {
    let mut estimates = Estimates::default();
    for job in 0..100 {
        estimates.learn(AssociationIndex(0), job, None, 5.0);
    }
    let state = SavedState::new(
        WallTime::from_secs(0),
        BTreeMap::new(),
        &estimates.save(),
        |_, job| {
            let length = if job == 7 { MOST_NAME_BYTES } else { 3 };
            Some((String::new(), "\u{1}".repeat(length)))
        },
    );
    // Only the last jobs are kept, and none before the one that is too long.
    assert_eq!(state.jobs.len(), 92);
}

#[test]
fn what_is_saved_ages() {
    let scheduler = "scheduler:7";
    let aged = |seconds| one().aged(WallTime::from_secs(seconds)).schedulers[scheduler].clone();
    let later = aged(1002);
    assert_eq!(later.contact.rpc.wait.unwrap().left, Duration::ZERO);
    let left = |saved: &SavedScheduler| saved.contact.pairs[0].left;
    assert_eq!(left(&later), Some(Duration::from_secs(2)));
    assert_eq!(later.rec.age, 12.0);
    assert_eq!(later.correction, 0.5);
    // A small correction of the clock does not count as going back.
    assert_eq!(aged(990), one().schedulers[scheduler]);
    // A larger step makes the time unknown, and nothing waits.
    let back = aged(100);
    assert_eq!((back.contact.rpc.wait, left(&back)), (None, None));
    assert_eq!(back.contact.rpc.next_contact, Some(Duration::ZERO));
    assert_eq!(back.rec.age, 10.0);
    assert_eq!(
        one().aged(WallTime::from_secs(5)).at,
        WallTime::from_secs(5)
    );
}

/// A clock that goes back while the worker is away has the same effect as one that the worker notices later.
#[test]
fn a_clock_that_went_back_is_the_same_before_and_after() {
    let kind = ProcessorKind {
        name: "CPU".to_owned(),
        instances: 4,
        relative_speed: 1.0,
        availability: 1.0,
    };
    let processors = Processors::new(kind, Vec::new());
    let now = Time::from_nanos(5_000_000_000);
    let restore = |saved: &SavedContact| {
        let mut state = ContactState::restore(now, &processors, &Profile::VOLUNTEER, saved, 0.5);
        state.members = Members::new(Vec::new(), 0.5);
        state
    };
    let saved = one().schedulers["scheduler:7"].contact.clone();
    let mut told_after = restore(&saved);
    told_after.clock_went_back(now);
    let told_before = restore(&saved.after_clock_went_back());
    let saved = |state: &ContactState| state.save(now, &processors);
    assert_eq!(saved(&told_before), saved(&told_after));
}

#[test]
fn jobs_go_by_their_names() {
    let names = ["index", "resize", "gone"];
    let addresses = ["other:1", "scheduler:7"];
    let mut estimates = Estimates::default();
    for (job, took) in [(0, 60.0), (2, 1.0), (1, 5.0)] {
        estimates.learn(AssociationIndex(1), job, Some(30.0), took);
    }
    let state = SavedState::new(
        WallTime::from_secs(0),
        BTreeMap::new(),
        &estimates.save(),
        |of, job| {
            let name = names[job as usize];
            (name != "gone").then(|| (addresses[of.0].to_owned(), name.to_owned()))
        },
    );
    let expected = [job_called("index", 60.0), job_called("resize", 5.0)];
    assert_eq!(state.jobs, expected);
    // The returned worker has the scheduler at index 0 and other job numbers, and one job is gone.
    let numbered = state.estimates(|scheduler, name| {
        assert_eq!(scheduler, "scheduler:7");
        (name == "resize").then_some((AssociationIndex(0), 44))
    });
    let mut again = Estimates::restored(numbered);
    assert_eq!(again.estimate(AssociationIndex(0), 44, Some(30.0)), 5.0);
    assert_eq!(again.save().len(), 1);
}

/// Generates the text of a state with some changed bytes.
fn corrupted() -> impl Strategy<Value = String> {
    let changes = vec(
        (any::<prop::sample::Index>(), any::<u8>(), any::<bool>()),
        1..8,
    );
    (state(), changes).prop_map(|(state, changes)| {
        let mut bytes = state.to_text().into_bytes();
        for (at, byte, removes) in changes {
            if bytes.is_empty() {
                break;
            }
            let at = at.index(bytes.len());
            match removes {
                true => drop(bytes.remove(at)),
                false => bytes[at] = byte,
            }
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

integration_tests_properties::properties! {
    256;

    #[test]
    fn what_is_written_is_read(state in state()) {
        prop_assert_eq!(SavedState::read(&state.to_text()).expect("it was written"), state);
    }

    #[test]
    fn no_text_does_harm(text in prop_oneof![corrupted(), ".{0,200}"], now in any::<i64>()) {
        // Accepted parts can be aged, written and read again.
        if let Ok(state) = SavedState::read(&text) {
            let aged = state.aged(WallTime::from_millis(now));
            prop_assert!(SavedState::read(&aged.to_text()).is_ok());
        }
    }

    /// The waits of any state file are limited to those that a profile can make.
    #[test]
    fn waits_have_the_bounds_of_the_profile(state in state()) {
        let kind = ProcessorKind { name: String::new(), instances: 1, relative_speed: 1.0, availability: 1.0 };
        let processors = Processors::new(kind, Vec::new());
        let profile = Profile::CLUSTER;
        for saved in state.schedulers.values() {
            let now = Time::ZERO;
            let contact = ContactState::restore(now, &processors, &profile, &saved.contact, 0.5);
            let wait = contact.rpc.min_rpc_time().since(now);
            prop_assert!(wait <= Duration::from_secs(2 * 86_400));
            let pair = contact.pairs.next_end(now).unwrap_or(now).since(now);
            prop_assert!(pair <= Duration::from_secs(90));
        }
    }
}
