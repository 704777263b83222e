//! Limits for numbers from outside the worker, so that no formula of the policies gives infinity or NaN.

/// Upper limit of every amount. No real amount reaches it, and the product of a few such amounts is finite.
const LARGEST: f64 = 1e30;
/// Amounts below this count as 0, so that the quotient of two amounts is finite.
const SMALLEST: f64 = 1e-30;

/// Amounts of processors that differ by less count as equal, because they are sums of fractions.
pub(super) const TOLERANCE: f64 = 1e-6;
/// One day in seconds.
pub(super) const DAY: f64 = 86_400.0;

/// Returns the valid amount that is nearest to `from_outside`.
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
