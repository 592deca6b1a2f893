//! The percentiles of a histogram.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Percentiles {
    pub(crate) count: u64,
    pub(crate) p50_ms: f64,
    pub(crate) p95_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) max_ms: f64,
}

impl Percentiles {
    /// From a histogram of microseconds.
    pub(crate) fn of(histogram: &Histogram<u64>) -> Self {
        let ms = |quantile: f64| histogram.value_at_quantile(quantile) as f64 / 1e3;
        if histogram.is_empty() {
            return Self::default();
        }
        Self {
            count: histogram.len(),
            p50_ms: ms(0.50),
            p95_ms: ms(0.95),
            p99_ms: ms(0.99),
            max_ms: histogram.max() as f64 / 1e3,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generator::tally::histogram;

    #[test]
    fn percentiles_are_in_milliseconds_with_three_digits() {
        let mut latencies = histogram().unwrap();
        for us in (1_000..=100_000).step_by(1_000) {
            latencies.record(us).unwrap();
        }
        let percentiles = Percentiles::of(&latencies);
        assert_eq!(percentiles.count, 100);
        for (seen, expected) in [
            (percentiles.p50_ms, 50.0),
            (percentiles.p99_ms, 99.0),
            (percentiles.max_ms, 100.0),
        ] {
            assert!(
                (seen - expected).abs() <= expected / 1e3 + 0.1,
                "{seen} is not {expected}"
            );
        }
    }
}
