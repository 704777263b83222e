//! The runner itself: which cases it runs, and what it prints of a failure.

use std::cell::RefCell;

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use super::*;

const KEPT: &str = "# a comment\ncc 359fca17a36b841d2d272f85760c852bb08d4ffe1a022f9c8e4de874d5501390 # shrinks to n = 1\n";

fn place() -> TestPlace {
    TestPlace {
        package: "some-package",
        folder: "/nowhere/some/package",
        file: "some/package/src/tests/random.rs",
        test: "some_package::tests::random::property::holds",
    }
}

fn origins(request: &CaseRequest) -> Vec<Origin> {
    let plan = CasePlan::new(request, plan::kept_seeds(KEPT), 0..2);
    plan.map(|case| case.origin).collect()
}

#[test]
fn only_kept_and_fixed_cases_run_unless_more_are_requested() {
    let known = [Origin::Kept, Origin::Fixed, Origin::Fixed];
    assert_eq!(origins(&CaseRequest::default()), known);
    let cases = Some(2);
    let more = CaseRequest {
        cases,
        ..CaseRequest::default()
    };
    assert_eq!(origins(&more), [&known[..], &[Origin::Fresh; 2]].concat());
    let seconds = Some(0);
    let in_no_time = CaseRequest {
        seconds,
        ..CaseRequest::default()
    };
    assert_eq!(origins(&in_no_time), known);
    let only = Some(Seed::from(7));
    assert_eq!(origins(&CaseRequest { only, ..more }), [Origin::Requested]);
}

#[test]
fn fixed_cases_are_the_same_and_fresh_ones_are_not() {
    let cases = |cases| {
        let request = CaseRequest {
            cases: Some(cases),
            ..CaseRequest::default()
        };
        CasePlan::new(&request, Vec::new(), 0..3).collect::<Vec<Case>>()
    };
    assert_eq!(cases(0), cases(0));
    assert_ne!(cases(1), cases(1));
    assert_ne!(cases(2)[3], cases(2)[4]);
}

#[test]
fn variables_are_numbers_and_seeds() {
    let request = |name: &'static str, value: &'static str| {
        CaseRequest::of(move |asked| (asked == name).then(|| value.to_owned()))
    };
    assert_eq!(
        request("PROPERTY_CASES", "16").map(|r| r.cases),
        Ok(Some(16))
    );
    assert_eq!(request("PROPERTY_SECONDS", "").map(|r| r.seconds), Ok(None));
    let seed = request("PROPERTY_SEED", "12").map(|r| r.only.map(|seed| seed.number()));
    assert_eq!(seed, Ok(Some(12)));
    let text = "359fca17a36b841d2d272f85760c852bb08d4ffe1a022f9c8e4de874d5501390".to_owned();
    assert_eq!(text.parse::<Seed>().map(|seed| seed.to_string()), Ok(text));
    for (name, value) in [("PROPERTY_CASES", "many"), ("PROPERTY_SEED", "0x12")] {
        let error = request(name, value).expect_err("neither number nor seed");
        assert!(error.contains(name) && error.contains(value), "{error}");
    }
}

#[test]
fn regressions_mirror_the_package() {
    let of = |file| TestPlace { file, ..place() }.regressions();
    let root = "/nowhere/some/package/proptest-regressions";
    assert_eq!(
        of("some/package/src/tests/random.rs"),
        Path::new(root).join("tests/random.txt")
    );
    assert_eq!(
        of("some/package/tests/plan.rs"),
        Path::new(root).join("tests/plan.txt")
    );
}

#[test]
fn a_failure_is_shrunk_and_says_how_to_repeat_it() {
    let failing = |n: u32| match n < 1000 {
        true => Ok(()),
        false => Err(TestCaseError::fail("too much")),
    };
    let checked = catch_unwind(|| check(place(), 50, "n", any::<u32>(), failing));
    let panic = checked.expect_err("numbers above 1000 are frequent");
    let text = panic.downcast_ref::<String>().expect("a message");
    assert!(
        text.contains("too much\nminimal input: n = 1000\n"),
        "{text}"
    );
    let (_, rest) = text.split_once("PROPERTY_SEED=").expect("a command");
    let (seed, command) = rest.split_once(' ').expect("a command");
    assert_eq!(
        command,
        "cargo test -p some-package tests::random::property::holds"
    );
    let seed: Seed = seed.parse().expect("a seed");
    let fixed = CasePlan::new(&CaseRequest::default(), Vec::new(), 0..50);
    assert!(fixed.into_iter().any(|case| case.seed == seed));
}

#[test]
fn a_panic_is_a_failure_and_tells_its_place() {
    let failing = |n: u32| {
        assert!(n < 1000, "too much");
        Ok(())
    };
    let checked = catch_unwind(|| check(place(), 50, "n", any::<u32>(), failing));
    let panic = checked.expect_err("numbers above 1000 are frequent");
    let text = panic.downcast_ref::<String>().expect("a message");
    assert!(
        text.contains("too much at integration-tests/properties/src/tests.rs:"),
        "{text}"
    );
    assert!(text.contains("minimal input: n = 1000\n"), "{text}");
}

#[test]
fn a_fresh_failure_is_kept() {
    let folder = std::env::temp_dir().join(format!("properties-{}", std::process::id()));
    let package = folder.join("some/package");
    std::fs::create_dir_all(&package).expect("a temporary folder");
    let place = TestPlace {
        folder: package.to_string_lossy().into_owned().leak(),
        ..place()
    };
    let case = Case {
        seed: Seed::from(3),
        origin: Origin::Fresh,
    };
    let text = report(place, &case, "too much", ("n", &5));
    let kept = std::fs::read_to_string(place.regressions()).expect("the line was added");
    std::fs::remove_dir_all(&folder).expect("it is there");
    assert!(
        text.contains(&place.regressions().display().to_string()),
        "{text}"
    );
    assert_eq!(plan::kept_seeds(&kept), [case.seed]);
    assert!(kept.contains("# shrinks to n = 5"), "{kept}");
}

#[test]
fn a_property_that_rejects_nearly_all_inputs_fails() {
    let rejecting = |n: u32| match n {
        0 => Ok(()),
        _ => Err(TestCaseError::reject("not 0")),
    };
    catch_unwind(|| check(place(), 50, "n", any::<u32>(), rejecting))
        .expect_err("nothing was tested");
}

#[test]
fn numbers_are_checked_in_order() {
    let seen = RefCell::new(Vec::new());
    check_seeds(place(), 1..4, |number| seen.borrow_mut().push(number));
    assert_eq!(seen.into_inner()[..3], [1, 2, 3]);
}

crate::properties! {
    20;

    #[test]
    fn the_macro_binds_patterns(a in 0..10_u32, (b, _) in (0..10_u32, any::<bool>())) {
        prop_assert_eq!(a + b, b + a);
    }
}
