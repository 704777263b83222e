//! Tests that a task gets exactly the GPUs it needs, never more than exist, and is refused only if no choice of GPUs fits.

use proptest::prelude::*;

use super::*;

const MODELS: [&str; 2] = ["A", "B"];

fn cards(models: &[&str]) -> Vec<Card> {
    let card = |(i, model): (usize, &&str)| Card {
        device: format!("bus{i}").into(),
        model: (*model).into(),
    };
    models.iter().enumerate().map(card).collect()
}

fn share(card: usize, milli: u32) -> GpuShare {
    let device = format!("bus{card}").into();
    GpuShare { device, milli }
}

fn need(all: CardAmount, of_models: &[(&str, u32)]) -> CardNeed {
    let of_models = of_models.iter().map(|(m, n)| ((*m).to_owned(), *n));
    CardNeed::new(all, of_models.collect())
}

fn used(shares: &[GpuShare]) -> CardUse {
    let mut used = CardUse::default();
    used.take(shares);
    used
}

#[test]
fn slots_are_amounts_by_the_decimal_that_is_written() {
    use CardAmount::{Part, Whole};
    let of = CardAmount::of_slots;
    assert_eq!(of(1, 1.0), Ok(Whole(1)));
    assert_eq!(of(3, 0.1), Ok(Part(300)), "and not 0.30000000000000004");
    assert_eq!(of(10, 0.1), Ok(Whole(1)));
    assert_eq!(of(1000, 0.001), Ok(Whole(1)));
    assert_eq!(of(999, 0.001), Ok(Part(999)));
    assert_eq!(of(8, 0.125), Ok(Whole(1)));
    assert_eq!(of(4, 2.0), Ok(Whole(8)));
    assert_eq!(of(2, 1.5), Ok(Whole(3)));
    assert_eq!(of(1_000_000, 1e-6), Ok(Whole(1)));
    assert_eq!(of(0, 0.3333), Ok(Whole(0)));
    assert_eq!(of(i32::MAX, 1.0), Ok(Whole(2_147_483_647)));
}

#[test]
fn amounts_that_no_card_has_are_errors() {
    let error = |slots, cards| CardAmount::of_slots(slots, cards).unwrap_err();
    assert_eq!(error(1, 0.0005), CardAmountError::Finer);
    assert_eq!(error(3, 0.3333), CardAmountError::Finer);
    assert_eq!(error(1, 1e-300), CardAmountError::Finer);
    assert_eq!(error(1, 0.1 + 0.2), CardAmountError::Finer);
    assert_eq!(error(3, 0.5), CardAmountError::Uneven);
    assert_eq!(error(1, 1.001), CardAmountError::Uneven);
    assert_eq!(error(1, -1.0), CardAmountError::Negative);
    assert_eq!(error(i32::MAX, 1e300), CardAmountError::TooMany);
    assert_eq!(error(i32::MAX, 1000.0), CardAmountError::TooMany);
    assert_eq!(error(1, f64::INFINITY), CardAmountError::TooMany);
}

#[test]
fn parts_fill_the_fullest_card_first_and_whole_ones_are_untouched() {
    let cards = cards(&["A", "A", "A"]);
    let some = used(&[share(1, 250), share(2, 600)]);
    let part = |milli| need(CardAmount::Part(milli), &[]).pack(&cards, &some);
    assert_eq!(part(400), Some(vec![share(2, 400)]));
    assert_eq!(part(401), Some(vec![share(1, 401)]));
    assert_eq!(part(751), Some(vec![share(0, 751)]));
    let whole = |n| need(CardAmount::Whole(n), &[]).pack(&cards, &some);
    assert_eq!(whole(1), Some(vec![share(0, 1000)]));
    assert_eq!(whole(2), None, "although 2150 are free");
    let equal = used(&[share(1, 500), share(2, 500)]);
    let half = need(CardAmount::Part(500), &[]);
    assert_eq!(half.pack(&cards, &equal), Some(vec![share(1, 500)]));
}

#[test]
fn cards_of_a_model_are_among_all() {
    let cards = cards(&["A", "B", "A", "B"]);
    let of = |all, models: &[(&str, u32)]| need(all, models).pack(&cards, &CardUse::default());
    let (a, b) = (share(0, 1000), share(1, 1000));
    let of_b = of(CardAmount::Whole(1), &[("B", 1)]);
    assert_eq!(of_b.as_deref(), Some(&[b.clone()][..]));
    assert_eq!(of(CardAmount::NONE, &[("B", 1)]), of_b);
    assert_eq!(of(CardAmount::Part(5), &[("B", 1)]), of_b);
    assert_eq!(of(CardAmount::Whole(2), &[("B", 1)]), Some(vec![a, b]));
    assert_eq!(of(CardAmount::Whole(1), &[("B", 3)]), None);
    assert_eq!(of(CardAmount::NONE, &[("C", 1)]), None);
    assert_eq!(of(CardAmount::NONE, &[("C", 0)]), Some(Vec::new()));
    assert_eq!(of(CardAmount::Whole(5), &[]), None);
}

#[test]
fn what_is_refused_is_told() {
    let taken = used(&[share(0, 700)]);
    let check = |shares: &[GpuShare]| {
        let has = |device: &str| ["bus0", "bus1"].contains(&device);
        taken.check(shares, has).map_err(|e| e.to_string())
    };
    assert_eq!(check(&[share(0, 300), share(1, 1000)]), Ok(()));
    let told = |text: &str| Err(text.to_owned());
    assert_eq!(
        check(&[share(0, 301)]),
        told("0.301 of GPU `bus0` are wanted, and 0.3 are free")
    );
    assert_eq!(check(&[share(2, 1)]), told("there is no GPU `bus2` here"));
    let twice = [share(1, 1), share(1, 1)];
    assert_eq!(check(&twice), told("it is given GPU `bus1` twice"));
    for milli in [0, 1001, u32::MAX] {
        let text = format!("{milli} thousandths of GPU `bus1` are none, or more than it has");
        assert_eq!(check(&[share(1, milli)]), Err(text));
    }
}

#[test]
fn needs_are_said_in_words() {
    let text = |all, models: &[(&str, u32)]| need(all, models).to_string();
    assert_eq!(text(CardAmount::Whole(1), &[]), "1 whole GPU");
    assert_eq!(text(CardAmount::Part(250), &[]), "0.25 of a GPU");
    assert_eq!(
        text(CardAmount::Whole(3), &[("A", 1)]),
        "1 whole GPU of `A` and 2 whole GPUs"
    );
    assert_eq!(text(CardAmount::NONE, &[("A", 2)]), "2 whole GPUs of `A`");
}

/// Returns whether any set of GPUs fits, by trying all of them.
fn could_have(need: &CardNeed, cards: &[Card], used: &CardUse) -> bool {
    if let CardAmount::Part(milli) = need.of_any {
        return cards.iter().any(|card| used.free(&card.device) >= milli);
    }
    let CardAmount::Whole(rest) = need.of_any else {
        return false;
    };
    (0_u32..1 << cards.len()).any(|set| {
        let chosen = || (0..cards.len()).filter(|i| set >> i & 1 == 1);
        let count = |model: &str| chosen().filter(|i| *cards[*i].model == *model).count();
        let named: u32 = need.of_models.values().sum();
        chosen().all(|i| used.free(&cards[i].device) == WHOLE_CARD)
            && set.count_ones() == named + rest
            && need.of_models.iter().all(|(m, n)| count(m) >= *n as usize)
    })
}

fn any_need() -> impl Strategy<Value = CardNeed> {
    let all = prop_oneof![
        (1..WHOLE_CARD).prop_map(CardAmount::Part),
        prop_oneof![Just(250), Just(500), Just(333)].prop_map(CardAmount::Part),
        (0_u32..4).prop_map(CardAmount::Whole),
    ];
    let models = (0_u32..3, 0_u32..2, any::<bool>());
    (all, models).prop_map(|(all, (a, b, plain))| match plain {
        true => need(all, &[]),
        false => need(all, &[("A", a), ("B", b)]),
    })
}

integration_tests_properties::properties! {
    256;

    #[test]
    fn cards_are_never_given_twice_and_never_withheld(
        models in proptest::collection::vec(0_usize..2, 0..6),
        steps in proptest::collection::vec((any_need(), any::<bool>(), any::<usize>()), 1..40),
    ) {
        let models: Vec<&str> = models.into_iter().map(|i| MODELS[i]).collect();
        let cards = cards(&models);
        let mut used = CardUse::default();
        let mut running: Vec<Vec<GpuShare>> = Vec::new();
        for (need, ends, which) in steps {
            if ends && !running.is_empty() {
                used.give_back(&running.swap_remove(which % running.len()));
            }
            let could = could_have(&need, &cards, &used);
            match need.pack(&cards, &used) {
                None => prop_assert!(!could, "{need} could be had"),
                Some(shares) => {
                    prop_assert!(could);
                    let has = |device: &str| cards.iter().any(|c| *c.device == *device);
                    prop_assert_eq!(used.check(&shares, has), Ok(()));
                    check_amount(&need, &cards, &shares)?;
                    used.take(&shares);
                    running.push(shares);
                }
            }
            for card in &cards {
                let of_card = running.iter().flatten().filter(|s| s.device == card.device);
                let held: Vec<u32> = of_card.map(|s| s.milli).collect();
                let sum: u32 = held.iter().sum();
                prop_assert!(sum <= WHOLE_CARD);
                prop_assert!(!held.contains(&WHOLE_CARD) || held.len() == 1);
                prop_assert_eq!(used.free(&card.device), WHOLE_CARD - sum);
            }
        }
        running.iter().for_each(|shares| used.give_back(shares));
        prop_assert_eq!(used, CardUse::default());
    }

    #[test]
    fn slots_times_cards_is_exact(slots in 0_i32..100_000, milli in 1_u32..5000) {
        let exact = u64::from(slots as u32) * u64::from(milli);
        let cards: f64 = Milli(milli).to_string().parse().unwrap();
        prop_assert_eq!(CardAmount::of_slots(slots, cards), CardAmount::of_milli(exact));
    }

    /// A task for which these GPUs are kept fits as soon as their present users have ended.
    #[test]
    fn once_the_cards_that_are_kept_are_empty_there_is_room(
        models in proptest::collection::vec(0..2_usize, 0..6),
        shares in proptest::collection::vec((0..6_usize, 1..=1000_u32), 0..8),
        need in any_need(),
    ) {
        let models: Vec<&str> = models.into_iter().map(|model| MODELS[model]).collect();
        let cards = cards(&models);
        let shares: Vec<GpuShare> = shares.into_iter().map(|(card, milli)| share(card, milli)).collect();
        let kept = need.soonest(&cards, &used(&shares));
        let mut others = shares;
        others.retain(|share| !kept.contains(&share.device));
        prop_assert_eq!(
            need.pack(&cards, &used(&others)).is_some(),
            need.pack(&cards, &CardUse::default()).is_some()
        );
        // The other GPUs are full.
        let mut full = CardUse::default();
        full.take_all_of(&kept);
        prop_assert!(kept.iter().all(|device| full.free(device) == 0));
    }
}

/// Checks that the shares are exactly the need, on GPUs of the right models.
fn check_amount(need: &CardNeed, cards: &[Card], shares: &[GpuShare]) -> Result<(), TestCaseError> {
    let given: u32 = shares.iter().map(|s| s.milli).sum();
    let named: u32 = need.of_models.values().sum();
    let wanted = match need.of_any {
        CardAmount::Part(milli) => milli,
        CardAmount::Whole(rest) => (named + rest) * WHOLE_CARD,
    };
    prop_assert_eq!(given, wanted);
    for (model, count) in &need.of_models {
        let is_of = |s: &&GpuShare| {
            let card = cards.iter().find(|c| c.device == s.device);
            card.is_some_and(|c| *c.model == **model) && s.milli == WHOLE_CARD
        };
        prop_assert!(shares.iter().filter(is_of).count() >= *count as usize);
    }
    Ok(())
}

#[test]
fn a_card_of_a_model_goes_first_if_any_will_do() {
    use CardAmount::{Part, Whole};
    let cards = cards(&["A", "B", "A"]);
    let idle = CardUse::default();
    let one = need(Whole(1), &[]);
    let of = |need: &CardNeed, model, used: &CardUse| need.pack_of(model, &cards, used);
    assert_eq!(of(&one, None, &idle), Some(vec![share(0, 1000)]));
    assert_eq!(of(&one, Some("B"), &idle), Some(vec![share(1, 1000)]));
    // Another model is used if the preferred one is not free.
    let taken = used(&[share(1, 1)]);
    assert_eq!(of(&one, Some("B"), &taken), Some(vec![share(0, 1000)]));
    let part = need(Part(500), &[]);
    assert_eq!(of(&part, Some("A"), &taken), Some(vec![share(0, 500)]));
    let three = need(Whole(3), &[]);
    assert_eq!(of(&three, Some("B"), &idle).map(|all| all.len()), Some(3));
    // A need for a certain model overrides the preference.
    let named = need(Whole(0), &[("A", 1)]);
    assert_eq!(of(&named, Some("B"), &idle), Some(vec![share(0, 1000)]));
}

#[test]
fn needs_that_no_task_has_are_none() {
    use CardAmount::{Part, Whole};
    let of = |models: &[(&str, u32)], any| {
        let models = models.iter().map(|(m, n)| ((*m).to_owned(), *n));
        CardNeed::of_parts(models.collect(), any)
    };
    for (models, any) in [
        (&[("A", 1)][..], Part(500)),
        (&[("A", 0)], Whole(1)),
        (&[("A", MAX_CARDS + 1)], Whole(0)),
        (&[], Part(0)),
        (&[], Part(1000)),
        (&[], Whole(MAX_CARDS + 1)),
    ] {
        assert_eq!(of(models, any), None);
    }
    let some = of(&[("A", 2)], Whole(1)).unwrap();
    assert_eq!(some.amount(), 3.0);
    assert_eq!(
        some.clone().into_parts(),
        ([("A".to_owned(), 2)].into(), Whole(1))
    );
    assert!(some.can_use("B"));
    assert!(!of(&[("A", 2)], Whole(0)).unwrap().can_use("B"));
}
