//! Tests of the effects of outcomes on a contact state, and of its restoration.

use brasserie_common::WorkVerdict;
use proptest::prelude::*;

use super::super::pair_backoff::PairBackoff;
use super::super::profile::Profile;
use super::super::types::{ProcessorKind, ProcessorType, ProcessorUsage};
use super::*;

const CPU: ProcessorType = ProcessorType::CPU;
const CARDS: ProcessorType = ProcessorType(1);

fn processors() -> Processors {
    let kind = |name: &str| ProcessorKind {
        name: name.to_owned(),
        instances: 1,
        relative_speed: 1.0,
        availability: 1.0,
    };
    Processors::new(kind("CPU"), vec![kind("A100")])
}

fn at(seconds: u64) -> Time {
    Time::ZERO + Duration::from_secs(seconds)
}

fn addresses(ports: &[u16]) -> Vec<ServiceAddress> {
    let address = |&port| ServiceAddress {
        host: "scheduler".into(),
        port,
    };
    ports.iter().map(address).collect()
}

fn terms() -> Terms<'static> {
    Terms {
        profile: &Profile::VOLUNTEER,
        u: 1.0,
    }
}

fn state() -> ContactState {
    ContactState::new(&processors(), Members::new(addresses(&[1, 2]), 0.0))
}

fn asked() -> SentRequest {
    SentRequest {
        reason: RpcReason::NeedWork,
        types: processors().table(&true),
    }
}

fn reply(cpu: Option<WorkVerdict>, cards: Option<WorkVerdict>, request_delay: f64) -> FetchReply {
    let mut of_type = processors().table(&TypeReply::default());
    of_type[CPU].verdict = cpu;
    of_type[CARDS].verdict = cards;
    FetchReply {
        of_type,
        request_delay,
        next_contact: 0.0,
    }
}

#[test]
fn what_a_reply_is_as_a_whole() {
    use WorkVerdict::{Deferred, Granted, NoWork, Pending, Stale};
    for (cpu, cards, kind) in [
        (None, None, ReplyKind::Good),
        (Some(Granted(1)), None, ReplyKind::Good),
        (Some(NoWork), Some(Deferred), ReplyKind::Good),
        (Some(Deferred), None, ReplyKind::Deferral),
        (Some(Deferred), Some(Deferred), ReplyKind::Deferral),
        (Some(Stale), Some(Granted(1)), ReplyKind::Stale),
        (Some(Pending), Some(Granted(1)), ReplyKind::Pending),
        (Some(Deferred), Some(Pending), ReplyKind::Pending),
        (Some(Stale), None, ReplyKind::Stale),
    ] {
        assert_eq!(reply(cpu, cards, 0.0).kind(), kind, "{cpu:?} {cards:?}");
    }
}

#[test]
fn a_good_reply_ends_failures_and_judges_each_type() {
    let mut state = state();
    state.rpc.rpc_failed(at(0), terms());
    let good = reply(
        Some(WorkVerdict::Granted(1)),
        Some(WorkVerdict::NoWork),
        30.0,
    );
    state.replied(at(1), &asked(), &good, terms());
    assert_eq!(
        (state.rpc.failures(), state.rpc.min_rpc_time()),
        (0, at(31))
    );
    assert!(!state.pairs.of(CPU).is_backed_off(at(1)));
    assert!(state.pairs.of(CARDS).is_backed_off(at(1)));
    // The two backoffs are independent.
    assert_eq!(state.pairs.next_end(at(1)), Some(at(901)));
    state.rpc.rpc_failed(at(40), terms());
    let on_a_card = ProcessorUsage {
        cpus: 0.0,
        cards: Some((CARDS, 1.0)),
    };
    state.pairs.task_came(at(1), &on_a_card, 1.0);
    assert_eq!(state.pairs.of(CARDS), PairBackoff::default());
    assert_eq!(state.rpc.min_rpc_time(), at(160));
}

#[test]
fn a_deferral_is_obeyed_and_nothing_else() {
    let mut state = state();
    state.rpc.rpc_failed(at(0), terms());
    let later = reply(
        Some(WorkVerdict::Deferred),
        Some(WorkVerdict::Deferred),
        300.0,
    );
    state.replied(at(1), &asked(), &later, terms());
    assert_eq!(
        (state.rpc.failures(), state.rpc.min_rpc_time()),
        (1, at(301))
    );
    assert_eq!(state.pairs, PairBackoffs::new(&processors()));
    // Pending verdicts and replies to an older request change nothing.
    let before = state.clone();
    let pending = reply(Some(WorkVerdict::Pending), None, 9000.0);
    state.replied(at(2), &asked(), &pending, terms());
    assert_eq!(state, before);
    let stale = reply(Some(WorkVerdict::Stale), Some(WorkVerdict::NoWork), 9000.0);
    state.replied(at(2), &asked(), &stale, terms());
    assert_eq!(state, before);
}

#[test]
fn a_list_that_was_read_is_good_news_only_with_somebody_new() {
    let mut state = state();
    for _ in 0..10 {
        state.rpc.rpc_failed(state.rpc.min_rpc_time(), terms());
    }
    let now = state.rpc.list_due().unwrap();
    let until = state.rpc.min_rpc_time();
    state.list_read(now, Some(addresses(&[2, 1])), terms());
    assert_eq!(
        (state.rpc.failures(), state.rpc.min_rpc_time()),
        (10, until)
    );
    for (read, failures) in [(Some(Vec::new()), 11), (None, 12)] {
        state.list_read(now, read, terms());
        assert_eq!(state.rpc.failures(), failures);
        assert_eq!(state.members.addresses(), addresses(&[2, 1]));
    }
    assert_eq!(state.rpc.list_failures(), 2);
    state.list_read(now, Some(addresses(&[1, 3])), terms());
    assert_eq!(
        (state.rpc.failures(), state.rpc.is_backed_off(now)),
        (0, false)
    );
    assert_eq!(state.members.addresses(), addresses(&[1, 3]));
}

#[test]
fn what_makes_all_of_them_begin_anew() {
    let backed_off = || {
        let mut state = state();
        let empty = reply(Some(WorkVerdict::NoWork), Some(WorkVerdict::NoWork), 5000.0);
        state.replied(at(0), &asked(), &empty, terms());
        state
    };
    let mut state = backed_off();
    state.rpc.rpc_failed(at(0), terms());
    state.update(at(1));
    assert_eq!(state.pairs.next_end(at(1)), None);
    // The scheduler's delay stays.
    assert_eq!(
        (state.rpc.min_rpc_time(), state.rpc.wish()),
        (at(5000), Some(Wish::User))
    );

    let mut state = backed_off();
    state.begin(RpcReason::Wished(Wish::Scheduler));
    assert!(state.pairs.of(CPU).is_backed_off(at(1)));
    state.begin(RpcReason::Wished(Wish::User));
    assert!(!state.pairs.of(CPU).is_backed_off(at(1)));

    let mut state = backed_off();
    state.clock_went_back(at(1));
    assert_eq!(state.pairs.next_end(at(1)), None);
    assert!(!state.rpc.is_backed_off(at(1)));
    assert_eq!(state.rpc.next_rpc_time(), Some(at(1)));
}

#[test]
fn time_away_counts_unless_the_clock_went_back() {
    let wall = WallTime::from_secs;
    assert_eq!(away(wall(100), wall(160)), Some(Duration::from_secs(60)));
    assert_eq!(away(wall(100), wall(40)), Some(Duration::ZERO));
    assert_eq!(away(wall(100), wall(39)), None);

    let mut state = state();
    let empty = reply(Some(WorkVerdict::NoWork), None, 500.0);
    let empty = FetchReply {
        next_contact: 7000.0,
        ..empty
    };
    state.replied(at(1000), &asked(), &empty, terms());
    let saved = state.save(at(1100), &processors());
    let restore = |away| {
        let saved = saved.clone().after(Duration::from_secs(away));
        ContactState::restore(at(5), &processors(), terms().profile, &saved, 0.7)
    };
    let restored = restore(50);
    assert_eq!(restored.rpc.min_rpc_time(), at(5 + 350));
    assert_eq!(restored.rpc.next_rpc_time(), Some(at(5 + 6850)));
    assert_eq!(restored.pairs.next_end(at(5)), Some(at(5 + 750)));
    assert_eq!(restored.members, Members::new(addresses(&[1, 2]), 0.7));
    let restored = restore(1_000_000);
    assert!(!restored.rpc.is_backed_off(at(5)));
    assert_eq!(restored.rpc.next_rpc_time(), Some(at(5)));
    assert_eq!(restored.pairs.next_end(at(5)), None);
    // The interval survives.
    assert_eq!(restored.pairs.of(CPU).interval(), 600.0);
}

#[test]
fn people_read_each_backoff_by_its_name() {
    let mut state = state();
    let mut empty = reply(Some(WorkVerdict::NoWork), None, 500.0);
    empty.of_type[CARDS].no_apps = true;
    state.replied(at(1000), &asked(), &empty, terms());
    state.begin(RpcReason::NeedWork);
    state.rpc.rpc_failed(at(1000), terms());
    state.members.forget();
    state.rpc.begin(RpcReason::Wished(Wish::Init));
    state.rpc.deferred(at(1000), 0.0, terms().profile);
    assert_eq!(
        state.explain(at(1000), &processors()),
        [
            "minimum RPC time: 500s from now: requested by the scheduler",
            "RPC pending: first contact",
            "scheduler list: nobody is known, it is read before any RPC",
            "CPU: backed off, 15m from now: asked for work of that type and did not get any (backoff interval 10m)",
            "A100: the scheduler has no jobs that use it",
            "A100: backed off, 15m from now: asked for work of that type and did not get any (backoff interval 10m)",
        ]
    );
}

integration_tests_properties::properties! {
    256;

    #[test]
    fn a_restart_at_once_changes_nothing(
        steps in proptest::collection::vec((0_u8..7, 0_u64..20_000), 0..40), started in 0_u64..1_000_000,
    ) {
        let mut state = state();
        let mut now = at(0);
        for (step, passed) in steps {
            now = now + Duration::from_secs(passed);
            match step {
                0 => state.rpc.rpc_failed(now, terms()),
                1 => state.list_read(now, None, terms()),
                2 => state.list_read(now, Some(addresses(&[1, 2, 3])), terms()),
                3 => state.replied(now, &asked(), &reply(Some(WorkVerdict::NoWork), None, 60.0), terms()),
                4 => state.replied(now, &asked(), &reply(None, Some(WorkVerdict::Limited), 0.0), terms()),
                5 => state.replied(now, &asked(), &reply(Some(WorkVerdict::Granted(1)), None, 0.0), terms()),
                _ => state.rpc.ask(Wish::Scheduler),
            }
        }
        let saved = state.save(now, &processors());
        let restored = ContactState::restore(at(started), &processors(), terms().profile, &saved, 0.0);
        prop_assert_eq!(restored.save(at(started), &processors()), saved.clone());
        prop_assert_eq!(saved.clone().after(Duration::ZERO), saved);
        prop_assert_eq!(
            restored.explain(at(started), &processors()),
            state.explain(now, &processors())
        );
    }
}
