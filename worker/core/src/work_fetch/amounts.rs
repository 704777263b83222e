//! Numbers from outside, made such that no formula of the policies can come out as infinite or as no number.

/// What nothing that is added up or weighed exceeds: so large that nobody means it, so small that products of a few are finite.
const LARGEST: f64 = 1e30;
/// Below it an amount is none: quotients of two amounts are finite.
const SMALLEST: f64 = 1e-30;

/// Amounts of processors that differ by less are the same: they are sums of parts.
pub(super) const TOLERANCE: f64 = 1e-6;
/// Seconds.
pub(super) const DAY: f64 = 86_400.0;

/// `from_outside`, if it is an amount; else the nearest that is one.
pub(super) fn amount(from_outside: f64) -> f64 {
    if from_outside >= SMALLEST {
        from_outside.min(LARGEST)
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_amounts_pass() {
        for (given, taken) in [
            (0.0, 0.0),
            (-0.0, 0.0),
            (-1.0, 0.0),
            (1.5, 1.5),
            (f64::NAN, 0.0),
            (f64::INFINITY, LARGEST),
            (f64::NEG_INFINITY, 0.0),
            (f64::MIN_POSITIVE, 0.0),
            (f64::MAX, LARGEST),
        ] {
            assert_eq!(amount(given).to_bits(), f64::to_bits(taken), "{given}");
        }
    }
}
