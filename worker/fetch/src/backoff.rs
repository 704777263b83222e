//! Random exponential backoff after failures. The wait doubles with each failure, and its random part keeps clients from returning all at
//! once when a server does.
//!
//! This backoff is for servers that may be down. A peer that is only full for a moment gets a short fixed pause instead, and neither counts
//! for the other.

use std::time::Duration;

use super::amounts::amount;

/// Maximum wait in seconds: spans on the wire have 32 bits, and sums of such spans do not overflow.
const LONGEST: f64 = i32::MAX as f64;

/// Returns a random backoff in seconds: between a half and all of `min` doubled `exponent` times, where the doubled value is at most `max`.
/// `u` is uniform in [0, 1].
///
/// Requests to schedulers, transfers of files and calls of account managers differ in `min`, `max` and what they count; see the tests. The
/// backoff of a scheduler and processor type has another shape ([`PairBackoff`](super::PairBackoff)).
pub fn exponential_backoff(min: f64, max: f64, exponent: u32, u: f64) -> f64 {
    // This many doublings raise even the smallest amount above any `max`, and `exp2` does not overflow.
    let doublings = exponent.min(512);
    let whole = (amount(min) * f64::from(doublings).exp2()).min(amount(max));
    whole * (0.5 + 0.5 * unit(u))
}

/// Clamps a random number to [0, 1]. NaN gives 1, the longest wait.
pub(super) fn unit(u: f64) -> f64 {
    match u {
        _ if u.is_nan() => 1.0,
        _ => u.clamp(0.0, 1.0),
    }
}

/// Converts seconds to a span of at most [`LONGEST`].
pub(super) fn span(seconds: f64) -> Duration {
    Duration::from_secs_f64(amount(seconds).min(LONGEST))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Profile;
    use super::*;

    const DAY: f64 = 86_400.0;

    /// `(exponent, from, to)`
    type Rows = &'static [(u32, f64, f64)];

    /// `exponent` is the number of failures in a row without the first one.
    const SCHEDULER: Rows = &[
        (0, 30.0, 60.0),
        (1, 60.0, 120.0),
        (2, 120.0, 240.0),
        (3, 240.0, 480.0),
        (4, 480.0, 960.0),
        (5, 960.0, 1920.0),
        (6, 1920.0, 3840.0),
        (7, 3840.0, 7680.0),
        (8, 7200.0, 14_400.0),
        (9, 7200.0, 14_400.0),
        (10, 7200.0, 14_400.0),
    ];

    /// `exponent` is the number of failures in a row.
    const FILE_TRANSFER: Rows = &[
        (1, 120.0, 240.0),
        (2, 240.0, 480.0),
        (3, 480.0, 960.0),
        (4, 960.0, 1920.0),
        (5, 1920.0, 3840.0),
        (6, 3840.0, 7680.0),
        (7, 7680.0, 15_360.0),
        (8, 10_800.0, 21_600.0),
        (9, 10_800.0, 21_600.0),
    ];

    /// `exponent` is the number of failures before this one.
    const ACCOUNT_MANAGER: Rows = &[
        (0, 300.0, 600.0),
        (1, 600.0, 1200.0),
        (2, 1200.0, 2400.0),
        (7, 38_400.0, 76_800.0),
        (8, 43_200.0, DAY),
        (50, 43_200.0, DAY),
    ];

    #[test]
    fn every_table_of_the_volunteers_system() {
        let volunteer = Profile::VOLUNTEER;
        let scheduler = (volunteer.rpc_backoff_min, volunteer.rpc_backoff_max);
        let transfer = (120.0, 21_600.0);
        for ((min, max), rows) in [
            (scheduler, SCHEDULER),
            (transfer, FILE_TRANSFER),
            ((600.0, DAY), ACCOUNT_MANAGER),
        ] {
            for &(exponent, from, to) in rows {
                let wait = |u| exponential_backoff(min, max, exponent, u);
                assert_eq!((wait(0.0), wait(1.0)), (from, to), "{min} {exponent}");
                assert_eq!(wait(0.5), (from + to) / 2.0, "{min} {exponent}");
            }
        }
    }

    #[test]
    fn nonsense_from_outside_is_still_a_wait() {
        let wait = exponential_backoff;
        assert_eq!(wait(f64::NAN, 60.0, 3, 0.5), 0.0);
        assert_eq!(wait(-1.0, 60.0, 3, 0.5), 0.0);
        assert_eq!(wait(0.0, 60.0, u32::MAX, 1.0), 0.0);
        assert_eq!(wait(1.0, f64::NEG_INFINITY, 3, 0.5), 0.0);
        assert_eq!(wait(1.0, 60.0, u32::MAX, f64::NAN), 60.0);
        assert_eq!(wait(1.0, 60.0, 1, -7.0), 1.0);
        assert_eq!(wait(1.0, 60.0, 1, f64::INFINITY), 2.0);
        assert!(wait(f64::INFINITY, f64::INFINITY, 9, 1.0).is_finite());
        assert_eq!(span(f64::INFINITY), Duration::from_secs(i32::MAX as u64));
        assert_eq!(span(f64::NAN), Duration::ZERO);
        assert_eq!(span(-3.0), Duration::ZERO);
        assert_eq!(span(1.5), Duration::from_millis(1500));
    }

    integration_tests_properties::properties! {
        256;

        #[test]
        fn a_wait_is_in_the_upper_half_of_its_whole(
            min in 0.001_f64..1e4, factor in 1.0_f64..1e6, exponent in any::<u32>(), u in 0.0_f64..=1.0,
        ) {
            let max = min * factor;
            let wait = exponential_backoff(min, max, exponent, u);
            let whole = (min * 2_f64.powi(exponent.min(900) as i32)).min(max);
            prop_assert!(wait >= whole / 2.0 && wait <= whole, "{wait} of {whole}");
            prop_assert!(wait <= max);
            // Another failure never shortens the wait for the same random number.
            let next = exponential_backoff(min, max, exponent.saturating_add(1), u);
            prop_assert!(next >= wait);
        }

        /// The function has no unit of its own. Scaling by a power of two is exact.
        #[test]
        fn a_scale_of_both_bounds_scales_the_wait(
            min in 0.001_f64..1e4, factor in 1.0_f64..1e6, exponent in any::<u32>(), u in 0.0_f64..=1.0,
            power in -10_i32..10,
        ) {
            let (max, scale) = (min * factor, 2_f64.powi(power));
            let wait = exponential_backoff(min, max, exponent, u);
            let scaled = exponential_backoff(scale * min, scale * max, exponent, u);
            prop_assert_eq!(scaled, scale * wait);
        }

        #[test]
        fn nothing_makes_it_infinite(
            min in any::<f64>(), max in any::<f64>(), exponent in any::<u32>(), u in any::<f64>(),
        ) {
            let wait = exponential_backoff(min, max, exponent, u);
            prop_assert!(wait.is_finite() && wait >= 0.0);
        }
    }

    #[test]
    fn both_halves_of_the_range_are_met() {
        let mut rng = brasserie_common::rng::Rng::new(7, brasserie_common::rng::Purpose::Backoff);
        let mut low = 0;
        for _ in 0..1000 {
            let u = (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
            let wait = exponential_backoff(60.0, 14_400.0, 3, u);
            assert!((240.0..=480.0).contains(&wait), "{wait}");
            low += u32::from(wait < 360.0);
        }
        assert!((400..600).contains(&low), "{low} of 1000 in the lower half");
    }
}
