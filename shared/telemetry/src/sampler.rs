//! Which traces are recorded. A limit makes their cost independent of the rate of requests.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use opentelemetry::trace::{Link, SpanKind, TraceId, TraceState};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::{Sampler, SamplingDecision, SamplingResult, ShouldSample};

/// Follows the caller's decision. Without a caller, records up to this many new traces per second; all of
/// them if the limit is 0.
pub(crate) fn of(per_second_max: u32) -> Sampler {
    match per_second_max {
        0 => Sampler::ParentBased(Box::new(Sampler::AlwaysOn)),
        max => Sampler::ParentBased(Box::new(Limited::new(max))),
    }
}

#[derive(Clone, Debug)]
struct Limited {
    per_second_max: u32,
    /// The start of the current second, and the traces that began in it.
    current: Arc<Mutex<(Instant, u32)>>,
}

impl Limited {
    fn new(per_second_max: u32) -> Self {
        Self {
            per_second_max,
            current: Arc::new(Mutex::new((Instant::now(), 0))),
        }
    }

    fn take(&self, now: Instant) -> bool {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if now.duration_since(current.0) >= Duration::from_secs(1) {
            *current = (now, 0);
        }
        current.1 = current.1.saturating_add(1);
        current.1 <= self.per_second_max
    }
}

impl ShouldSample for Limited {
    fn should_sample(
        &self,
        _parent: Option<&Context>,
        _trace_id: TraceId,
        name: &str,
        _kind: &SpanKind,
        _attributes: &[KeyValue],
        _links: &[Link],
    ) -> SamplingResult {
        // Probes and reads would use up the limit, and cause nothing.
        let is_taken = !name.starts_with("GET ") && self.take(Instant::now());
        SamplingResult {
            decision: match is_taken {
                true => SamplingDecision::RecordAndSample,
                false => SamplingDecision::Drop,
            },
            attributes: Vec::new(),
            trace_state: TraceState::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_counts_each_second_anew() {
        let limited = Limited::new(2);
        let start = Instant::now();
        let taken = |at: Instant| (0..4).filter(|_| limited.take(at)).count();
        assert_eq!(taken(start), 2);
        assert_eq!(taken(start + Duration::from_millis(900)), 0);
        assert_eq!(taken(start + Duration::from_millis(1_100)), 2);
    }

    #[test]
    fn reads_are_not_recorded_under_a_limit() {
        let limited = Limited::new(1);
        let decide = |name| {
            let id = TraceId::from(1);
            let sampled = limited.should_sample(None, id, name, &SpanKind::Server, &[], &[]);
            sampled.decision
        };
        assert_eq!(decide("GET /metrics"), SamplingDecision::Drop);
        assert_eq!(decide("POST /orders"), SamplingDecision::RecordAndSample);
        assert_eq!(decide("POST /orders"), SamplingDecision::Drop);
    }
}
