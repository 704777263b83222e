//! Runs the random properties of all crates: the same cases in each run, more on request, and a command that repeats each failure.
//!
//! Generating and shrinking values is proptest's. [`properties!`] takes the place of `proptest!` and puts its tests into a module
//! `property`, so that `cargo test property::` selects every random property of the workspace.

pub mod plan;
mod quiet;

use std::fmt::Debug;
use std::io::Write as _;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseResult, TestError, TestRng, TestRunner};

use plan::{Case, CasePlan, CaseRequest, Origin, Seed};

/// The most attempts to shrink a failing input: long histories need some thousand.
const MAX_SHRINK_ITERS: u32 = 4096;
/// A property that rejects so many inputs for each one that it accepts draws the wrong inputs.
const MAX_REJECTED_PER_CASE: u64 = 20;

/// Declares random properties, as `proptest!` does, after the number of their fixed cases.
///
/// ```text
/// integration_tests_properties::properties! {
///     100;
///
///     #[test]
///     fn sums_do_not_depend_on_the_order(a in 0..10_u32, b in 0..10_u32) {
///         prop_assert_eq!(a + b, b + a);
///     }
/// }
/// ```
#[macro_export]
macro_rules! properties {
    ($fixed:expr; $($(#[$meta:meta])* fn $name:ident($($pattern:pat in $strategy:expr),+ $(,)?) $body:block)+) => {
        mod property {
            use super::*;
            $(
                $(#[$meta])*
                fn $name() {
                    let names = ::core::stringify!($($pattern),+);
                    $crate::check($crate::place!($name), $fixed, names, ($($strategy,)+), |($($pattern,)+)| {
                        let (): () = $body;
                        ::core::result::Result::Ok(())
                    });
                }
            )+
        }
    };
}

/// The [`TestPlace`] of a test function.
#[macro_export]
macro_rules! place {
    ($name:ident) => {
        $crate::TestPlace {
            package: ::core::env!("CARGO_PKG_NAME"),
            folder: ::core::env!("CARGO_MANIFEST_DIR"),
            file: ::core::file!(),
            test: ::core::concat!(::core::module_path!(), "::", ::core::stringify!($name)),
        }
    };
}

/// The test function of a property.
#[derive(Clone, Copy, Debug)]
pub struct TestPlace {
    pub package: &'static str,
    /// Absolute path of the package.
    pub folder: &'static str,
    /// Path of the source file, relative to the workspace.
    pub file: &'static str,
    /// Path of the function, with the crate's name.
    pub test: &'static str,
}

impl TestPlace {
    /// The test's name as the test program lists it.
    fn name(&self) -> &'static str {
        self.test
            .split_once("::")
            .map_or(self.test, |(_, name)| name)
    }

    /// The file with the cases that failed once: `proptest-regressions` mirrors the package's folder, `src` left out.
    fn regressions(&self) -> PathBuf {
        let parts: Vec<&str> = self.file.split('/').collect();
        let is_package =
            |split: &usize| Path::new(self.folder).ends_with(parts[..*split].join("/"));
        let split = (0..parts.len()).rev().find(is_package).unwrap_or(0);
        let inner = parts[split..].join("/");
        let inner = inner.strip_prefix("src/").unwrap_or(&inner);
        let folder = Path::new(self.folder).join("proptest-regressions");
        folder.join(inner).with_extension("txt")
    }

    /// The command that runs one case again.
    fn repeat(&self, seed: &str) -> String {
        format!(
            "PROPERTY_SEED={seed} cargo test -p {} {}",
            self.package,
            self.name()
        )
    }

    fn plan(&self, fixed: Range<u64>) -> CasePlan {
        let kept = std::fs::read_to_string(self.regressions()).unwrap_or_default();
        let request = CaseRequest::of(|name| std::env::var(name).ok());
        let request = request.unwrap_or_else(|error| panic!("{error}"));
        CasePlan::new(&request, plan::kept_seeds(&kept), fixed)
    }

    fn print(&self, cases: &Cases) {
        println!(
            "property {}::{}: {} kept, {} fixed, {} fresh cases",
            self.package,
            self.name(),
            cases.kept,
            cases.fixed,
            cases.fresh
        );
    }

    /// Appends a fresh case that failed to the regressions file, so that each later run checks it.
    fn keep(&self, case: &Case, shrunk: &str) -> std::io::Result<PathBuf> {
        let path = self.regressions();
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let mut file = std::fs::File::options()
            .append(true)
            .create(true)
            .open(&path)?;
        let shrunk: String = shrunk.split_whitespace().collect::<Vec<_>>().join(" ");
        writeln!(file, "cc {} # shrinks to {shrunk}", case.seed)?;
        Ok(path)
    }
}

/// The accepted cases of a run, by their origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cases {
    /// A case that failed once and is kept in `proptest-regressions`.
    pub kept: u64,
    pub fixed: u64,
    pub fresh: u64,
    /// The only case, as `PROPERTY_SEED` requests.
    pub is_one: bool,
}

impl Cases {
    fn count(&mut self, origin: Origin) {
        match origin {
            Origin::Kept => self.kept += 1,
            Origin::Fixed => self.fixed += 1,
            Origin::Fresh => self.fresh += 1,
            Origin::Requested => self.is_one = true,
        }
    }
}

/// Checks a property: the kept cases, `fixed` cases that are the same in each run, and the fresh ones that the environment requests.
///
/// # Panics
///
/// Panics on the first case that fails, with its shrunk input and the command that repeats it.
pub fn check<S: Strategy>(
    place: TestPlace,
    fixed: u32,
    names: &str,
    strategy: S,
    test: impl Fn(S::Value) -> TestCaseResult,
) -> Cases {
    let config = Config {
        failure_persistence: None,
        max_shrink_iters: MAX_SHRINK_ITERS,
        ..Config::default()
    };
    let (mut cases, mut rejected) = (Cases::default(), 0);
    for case in place.plan(0..u64::from(fixed)) {
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &case.seed.0);
        let mut runner = TestRunner::new_with_rng(config.clone(), rng);
        let tree = strategy.new_tree(&mut runner).map_err(TestError::Abort);
        let (outcome, panicked_at) = quiet::panics(case.origin != Origin::Requested, || {
            tree.and_then(|tree| runner.run_one(tree, &test))
        });
        match outcome {
            Ok(true) => cases.count(case.origin),
            Ok(false) => rejected += 1,
            Err(TestError::Abort(why)) => panic!("{} draws no input: {why}", place.test),
            Err(TestError::Fail(why, value)) => {
                let why = format!("{why}{panicked_at}");
                panic!("{}", report(place, &case, &why, (names, &value)))
            }
        }
    }
    let accepted = cases.kept + cases.fixed + cases.fresh + u64::from(cases.is_one);
    assert!(
        rejected <= MAX_REJECTED_PER_CASE * accepted.max(1),
        "{} rejected {rejected} inputs and accepted {accepted}",
        place.test
    );
    place.print(&cases);
    cases
}

/// Formats what failed, with which input, and how to repeat it. Keeps a fresh case.
fn report(place: TestPlace, case: &Case, why: &str, (names, value): (&str, &impl Debug)) -> String {
    let (test, origin, repeat) = (
        place.test,
        case.origin,
        place.repeat(&case.seed.to_string()),
    );
    let kept = match case.origin {
        Origin::Kept | Origin::Fixed | Origin::Requested => String::new(),
        Origin::Fresh => match place.keep(case, &format!("{names} = {value:?}")) {
            Ok(path) => format!(
                "\nIts line was added to {}: commit it with the fix.",
                path.display()
            ),
            Err(error) => format!(
                "\nAdd the line `cc {}` to {} ({error}).",
                case.seed,
                place.regressions().display()
            ),
        },
    };
    format!(
        "{test} failed in a {origin} case: {why}\nminimal input: {names} = {value:#?}\nTo repeat it: {repeat}{kept}"
    )
}

/// Checks a property of a number: the fixed ones, and the fresh ones that the environment requests.
///
/// # Panics
///
/// Repeats the panic of the test on the first number that fails, after it prints the command that repeats the case.
pub fn check_seeds(place: TestPlace, fixed: Range<u64>, test: impl Fn(u64)) {
    let mut cases = Cases::default();
    for case in place.plan(fixed) {
        let number = case.seed.number();
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| test(number))) {
            let (test, origin) = (place.test, case.origin);
            eprintln!(
                "{test} failed in a {origin} case\nTo repeat it: {}",
                place.repeat(&number.to_string())
            );
            resume_unwind(panic);
        }
        cases.count(case.origin);
    }
    place.print(&cases);
}

impl From<u64> for Seed {
    fn from(number: u64) -> Self {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&number.to_le_bytes());
        Seed(bytes)
    }
}

#[cfg(test)]
mod tests;
