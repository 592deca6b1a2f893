//! The statistics of a few repeated measurements.

use serde::{Deserialize, Serialize};

use super::ratio::Better;

/// Digits that a figure keeps. Its last ones are noise, and a committed report should be readable.
const DIGITS: i32 = 5;
/// A change below this share is never worse: counts can be equal in every pair, and then have no spread.
const CHANGE_MIN: f64 = 0.01;

/// Median and extremes. `pairs` has every value in the order of measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    pub(crate) pairs: Vec<f64>,
}

impl Spread {
    /// `None` without a value.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let pairs: Vec<f64> = values.into_iter().map(rounded).collect();
        let mut sorted = pairs.clone();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 {
            sorted[middle]
        } else {
            rounded((sorted[middle - 1] + sorted[middle]) / 2.0)
        };
        Some(Self {
            median,
            min,
            max,
            pairs,
        })
    }

    /// Whether this differs from `baseline` for the worse, beyond the spread of both: each median lies outside
    /// the other's range.
    pub(crate) fn is_worse_than(&self, baseline: &Spread, better: Better) -> bool {
        let grown = self.median - baseline.median;
        let is_change = grown.abs() > CHANGE_MIN * baseline.median.abs();
        is_change
            && match better {
                Better::Higher => self.median < baseline.min && self.max < baseline.median,
                Better::Lower => self.median > baseline.max && self.min > baseline.median,
            }
    }
}

/// The value with [`DIGITS`] significant digits.
pub(crate) fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let magnitude = value.abs().log10().floor() as i32;
    let factor = 10f64.powi(DIGITS - 1 - magnitude);
    let rounded = (value * factor).round() / factor;
    // For very large or small values the factor itself is not a number that can be used.
    if rounded.is_finite() { rounded } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(values: &[f64]) -> Spread {
        Spread::of(values.iter().copied()).unwrap()
    }

    #[test]
    fn median_of_odd_and_even_counts() {
        let odd = spread(&[3.0, 1.0, 2.0]);
        assert_eq!((odd.median, odd.min, odd.max), (2.0, 1.0, 3.0));
        assert_eq!(odd.pairs, [3.0, 1.0, 2.0]);
        assert_eq!(spread(&[4.0, 1.0, 2.0, 3.0]).median, 2.5);
        assert_eq!(spread(&[7.0]).median, 7.0);
        assert!(Spread::of([]).is_none());
    }

    #[test]
    fn figures_keep_five_digits() {
        for (value, kept) in [
            (1.234_567_8, 1.2346),
            (123_456.7, 123_460.0),
            (0.000_123_456_7, 0.000_123_46),
            (-2.0, -2.0),
            (0.0, 0.0),
        ] {
            assert!((rounded(value) - kept).abs() < 1e-9, "{value}");
        }
        assert!(rounded(f64::INFINITY).is_infinite());
    }

    #[test]
    fn worse_means_beyond_the_spread_of_both() {
        let baseline = spread(&[1.0, 1.1, 1.2]);
        let worse = |values: &[f64], better| spread(values).is_worse_than(&baseline, better);
        assert!(worse(&[0.7, 0.8, 0.9], Better::Higher));
        // The median is below the baseline's range, but one pair reaches the baseline's median.
        assert!(!worse(&[0.7, 0.8, 1.1], Better::Higher));
        assert!(!worse(&[1.0, 1.05, 1.1], Better::Higher));
        assert!(!worse(&[1.4, 1.5, 1.6], Better::Higher));
        assert!(worse(&[1.4, 1.5, 1.6], Better::Lower));
        assert!(!worse(&[0.7, 0.8, 0.9], Better::Lower));
    }

    #[test]
    fn tiny_change_without_spread_is_not_worse() {
        let baseline = spread(&[100.0, 100.0]);
        assert!(!spread(&[100.5, 100.5]).is_worse_than(&baseline, Better::Lower));
        assert!(spread(&[102.0, 102.0]).is_worse_than(&baseline, Better::Lower));
    }
}
