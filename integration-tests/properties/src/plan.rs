//! The cases of one run of a property, in order: kept ones, fixed ones, fresh ones.

use std::fmt;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::ops::Range;
use std::str::FromStr;
use std::time::{Duration, Instant};

/// The seed of one case: a key of ChaCha, as in proptest's own `cc` lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed(pub [u8; 32]);

impl Seed {
    /// Draws a seed that no other run has.
    fn fresh() -> Self {
        let mut bytes = [0; 32];
        for part in bytes.chunks_mut(8) {
            // The standard library's hasher starts from the system's entropy.
            let word = RandomState::new().build_hasher().finish();
            part.copy_from_slice(&word.to_le_bytes());
        }
        Seed(bytes)
    }

    /// The first 64 bits, for properties of a number.
    pub fn number(&self) -> u64 {
        let mut first = [0; 8];
        first.copy_from_slice(&self.0[..8]);
        u64::from_le_bytes(first)
    }
}

impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for Seed {
    type Err = String;

    /// Reads 64 hexadecimal digits, or a decimal number below 2^64.
    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("`{text}` is no seed: 64 hexadecimal digits, or a number below 2^64");
        if text.len() != 64 || !text.is_ascii() {
            return text.parse().map(u64::into).map_err(|_| bad());
        }
        let mut bytes = [0; 32];
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * i..2 * i + 2], 16).map_err(|_| bad())?;
        }
        Ok(Seed(bytes))
    }
}

/// Reads the `cc` lines of a file of `proptest-regressions`; other lines are comments.
pub fn kept_seeds(text: &str) -> Vec<Seed> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("cc "));
    let seeds = lines.filter_map(|line| line.split_whitespace().next()?.parse().ok());
    seeds.collect()
}

/// The requests of the environment to all properties.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CaseRequest {
    /// `PROPERTY_SEED`: only this case.
    pub only: Option<Seed>,
    /// `PROPERTY_CASES`: the most fresh cases of each property.
    pub cases: Option<u64>,
    /// `PROPERTY_SECONDS`: the time after which a property begins no fresh case.
    pub seconds: Option<u64>,
}

impl CaseRequest {
    /// Reads the variables. Errors if one of them is no number or seed.
    pub fn of(var: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let number = |name: &str| {
            let text = var(name).filter(|text| !text.is_empty());
            let parsed = text.map(|text| {
                text.parse()
                    .map_err(|_| format!("{name}: `{text}` is no number"))
            });
            parsed.transpose()
        };
        let seed = var("PROPERTY_SEED").filter(|text| !text.is_empty());
        let only = seed.map(|text| {
            text.parse()
                .map_err(|error| format!("PROPERTY_SEED: {error}"))
        });
        Ok(CaseRequest {
            only: only.transpose()?,
            cases: number("PROPERTY_CASES")?,
            seconds: number("PROPERTY_SECONDS")?,
        })
    }

    /// The most fresh cases: none unless requested, and without end if only a time is.
    fn fresh(&self) -> u64 {
        let unless_timed = if self.seconds.is_some() { u64::MAX } else { 0 };
        self.cases.unwrap_or(unless_timed)
    }
}

/// Why a case is part of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    Kept,
    Fixed,
    Fresh,
    Requested,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Origin::Kept => "kept",
            Origin::Fixed => "fixed",
            Origin::Fresh => "fresh",
            Origin::Requested => "requested",
        })
    }
}

/// One case of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    pub seed: Seed,
    pub origin: Origin,
}

/// The cases of one run of one property.
#[derive(Debug)]
pub struct CasePlan {
    /// The kept and fixed cases, in reverse order.
    known: Vec<Case>,
    fresh: u64,
    seconds: Option<u64>,
    /// Set with the first fresh case.
    until: Option<Instant>,
}

impl CasePlan {
    pub fn new(request: &CaseRequest, kept: Vec<Seed>, fixed: Range<u64>) -> Self {
        let case = |origin| move |seed| Case { seed, origin };
        let kept = kept.into_iter().map(case(Origin::Kept));
        let fixed = fixed.map(Seed::from).map(case(Origin::Fixed));
        let (known, fresh) = match request.only {
            Some(seed) => (vec![case(Origin::Requested)(seed)], 0),
            None => (kept.chain(fixed).collect::<Vec<Case>>(), request.fresh()),
        };
        CasePlan {
            known: known.into_iter().rev().collect(),
            fresh,
            seconds: request.seconds,
            until: None,
        }
    }
}

impl Iterator for CasePlan {
    type Item = Case;

    fn next(&mut self) -> Option<Case> {
        if let Some(case) = self.known.pop() {
            return Some(case);
        }
        self.fresh = self.fresh.checked_sub(1)?;
        if let Some(seconds) = self.seconds {
            let now = Instant::now();
            let until = *self.until.get_or_insert(now + Duration::from_secs(seconds));
            if now >= until {
                self.fresh = 0;
                return None;
            }
        }
        Some(Case {
            seed: Seed::fresh(),
            origin: Origin::Fresh,
        })
    }
}
