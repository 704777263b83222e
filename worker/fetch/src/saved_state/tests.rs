//! Tests of the saved state: written states are read back, only broken parts are lost, and no text does any harm.

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
use super::super::rpc_policy::{SavedRpc, SavedWait};
use super::super::types::{ProcessorKind, Processors};
use super::*;

fn member(port: u16) -> ServiceAddress {
    ServiceAddress {
        host: "scheduler".into(),
        port,
    }
}

/// Generates a span in whole milliseconds.
fn span() -> impl Strategy<Value = Duration> {
    (0_u64..1 << 40).prop_map(Duration::from_millis)
}

/// Generates an amount with an exact decimal representation.
fn number() -> impl Strategy<Value = f64> {
    (0_u32..1 << 30).prop_map(|eighths| f64::from(eighths) / 8.0)
}

fn above_nothing() -> impl Strategy<Value = f64> {
    number().prop_map(|number| number + 0.125)
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

fn told(warnings: &[SavedWarning]) -> Vec<String> {
    warnings.iter().map(SavedWarning::to_string).collect()
}

/// Reads the text of a state in which each first text is replaced by the second one.
fn with(pairs: &[(&str, &str)]) -> (SavedState, Vec<String>) {
    let mut text = one().to_text();
    for (from, to) in pairs {
        assert_eq!(text.matches(from).count(), 1, "{from} in {text}");
        text = text.replace(from, to);
    }
    let (state, warnings) = SavedState::read(&text);
    (state, told(&warnings))
}

#[test]
fn what_is_broken_loses_only_itself() {
    let scheduler = "scheduler:7";
    type Change = fn(&mut SavedScheduler);
    let rows: [(&str, &str, &str, Change); 8] = [
        (
            "\"left_ms\": 1500",
            "\"left_ms\": -1",
            "`schedulers.scheduler:7.wait.left_ms` of the saved state is -1, and not a whole number up to 18446744073709551615; it is left out",
            |saved| saved.contact.rpc.wait = None,
        ),
        (
            "\"rpc_failed\"",
            "\"bad mood\"",
            "`schedulers.scheduler:7.wait.cause` of the saved state is `bad mood`, and not a word that is known; it is left out",
            |saved| saved.contact.rpc.wait = None,
        ),
        (
            "\"failures\": 3",
            "\"failures\": [3]",
            "`schedulers.scheduler:7.failures` of the saved state is a list, and not a whole number up to 4294967295; it is left out",
            |saved| saved.contact.rpc.failures = 0,
        ),
        (
            "\"wish\": \"init\"",
            "\"wish\": \"manager\"",
            "`schedulers.scheduler:7.wish` of the saved state is `manager`, and not a word that is known; it is left out",
            |saved| saved.contact.rpc.wish = None,
        ),
        (
            "\"interval_secs\": 8.0",
            "\"interval_secs\": null",
            "`schedulers.scheduler:7.pairs[0].interval_secs` of the saved state is null, and not a number of 0 or more; it is left out",
            |saved| saved.contact.pairs[0].interval = 0.0,
        ),
        (
            "\"port\": 7",
            "\"port\": 70000",
            "`schedulers.scheduler:7.members[0].port` of the saved state is 70000, and not a whole number up to 65535; it is left out",
            |saved| saved.contact.members.clear(),
        ),
        (
            "\"correction\": 0.5",
            "\"corection\": 0.5",
            "`schedulers.scheduler:7.corection` of the saved state is unknown, and left out",
            |saved| saved.correction = 1.0,
        ),
        (
            "\"rec\": 2.5",
            "\"rec\": -2.5",
            "`schedulers.scheduler:7.rec` of the saved state is -2.5, and not a number of 0 or more; it is left out",
            |saved| saved.rec.average = 0.0,
        ),
    ];
    for (from, to, warning, change) in rows {
        let (state, warnings) = with(&[(from, to)]);
        assert_eq!(warnings[0], warning);
        let mut expected = one();
        change(expected.schedulers.get_mut(scheduler).unwrap());
        assert_eq!(state, expected, "{to}");
    }
    let (state, warnings) = with(&[("\"secs\": 5.0", "\"secs\": 0")]);
    assert_eq!(
        warnings,
        ["`jobs[0]` of the saved state lacks what it needs, and is left out"]
    );
    let expected = SavedState {
        jobs: vec![job_called("index", 60.0)],
        ..one()
    };
    assert_eq!(state, expected);
}

#[test]
fn what_is_no_state_is_nothing() {
    for (text, warning) in [
        ("", "the saved state is no JSON: EOF while parsing a value"),
        (
            "{",
            "the saved state is no JSON: EOF while parsing an object",
        ),
        ("[]", "the saved state is no object, and left out"),
        (
            "{}",
            "`version` of the saved state is none, and 1 is what this worker reads",
        ),
        (
            "{\"version\": 2, \"at_ms\": 5}",
            "`version` of the saved state is 2, and 1 is what this worker reads",
        ),
    ] {
        let (state, warnings) = SavedState::read(text);
        assert_eq!((state.schedulers.len(), state.jobs.len()), (0, 0));
        assert!(told(&warnings)[0].starts_with(warning), "{warnings:?}");
    }
    // The nesting is deeper than in any real state.
    let deep = "[".repeat(100_000);
    assert_eq!(SavedState::read(&deep).1.len(), 1);
    let long = " ".repeat((64 << 20) + 1);
    assert_eq!(
        told(&SavedState::read(&long).1),
        ["the saved state has more than 67108864 bytes, and none of it is read"]
    );
}

#[test]
fn neither_a_text_nor_its_warnings_grow_without_bound() {
    let mut state = one();
    state.jobs = (0..MOST_JOBS + 5)
        .map(|number| job_called(&number.to_string(), 1.0))
        .collect();
    state.jobs[7].name = "\u{1}".repeat(MOST_NAME_BYTES);
    let text = state.to_text();
    let (again, warnings) = SavedState::read(&text);
    assert_eq!(warnings, []);
    // Only the last jobs are written, and none before the one that is too long.
    assert_eq!(again.jobs, state.jobs[8..]);
    let unknown: Vec<_> = (0..500).map(|number| format!("\"x{number}\": 0")).collect();
    let text = format!("{{\"version\": 1, \"at_ms\": 0, {}}}", unknown.join(", "));
    let warnings = told(&SavedState::read(&text).1);
    assert_eq!(warnings.len(), 100);
    assert_eq!(warnings[99], "the saved state has more that is left out");
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
    // The same holds for a state without its time.
    let (state, warnings) = with(&[("\"at_ms\": 1000000", "\"at_ms\": \"noon\"")]);
    assert_eq!(warnings.len(), 1);
    assert_eq!(
        state.aged(WallTime::from_secs(1002)).schedulers[scheduler],
        back
    );
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

/// Generates JSON with the keys of a state and arbitrary values.
fn nonsense() -> impl Strategy<Value = Value> {
    let keys = [
        "version",
        "at_ms",
        "schedulers",
        "jobs",
        "wait",
        "left_ms",
        "cause",
        "count",
        "members",
        "host",
        "port",
        "pairs",
        "processors",
        "interval_secs",
        "no_apps",
        "rec",
        "correction",
        "secs",
        "name",
        "wish",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        Just(Value::from(1)),
        ".{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 6, move |inner| {
        let key = select(keys.to_vec()).prop_map(str::to_owned);
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map(key, inner, 0..6)
                .prop_map(|parts| Value::Object(parts.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

integration_tests_properties::properties! {
    256;

    #[test]
    fn what_is_written_is_read(state in state()) {
        let (read, warnings) = SavedState::read(&state.to_text());
        prop_assert_eq!(warnings, vec![]);
        prop_assert_eq!(read, state);
    }

    #[test]
    fn no_text_does_harm(
        text in prop_oneof![corrupted(), ".{0,200}", nonsense().prop_map(|value| value.to_string())],
        now in any::<i64>(),
    ) {
        let (state, _) = SavedState::read(&text);
        // The accepted parts are valid: they can be aged, written and read again without a warning.
        let aged = state.aged(WallTime::from_millis(now));
        for saved in aged.schedulers.values() {
            prop_assert!(saved.correction > 0.0 && saved.correction.is_finite());
            prop_assert!(saved.rec.average >= 0.0 && saved.rec.age.is_finite());
        }
        let (_, warnings) = SavedState::read(&aged.to_text());
        prop_assert_eq!(warnings, vec![]);
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
