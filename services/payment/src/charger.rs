//! The charger: leases due attempts and refunds, and calls the provider.
//!
//! No transaction is open during a call. If a charger dies, its lease expires. The next owner sends
//! the same key, and the provider repeats its answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use leases::{LeaseRequest, Queues, Work};
use service_kit::{crash, database};
use sqlx::PgPool;
use telemetry::{Kind, Span, metric};

use crate::domain::{AttemptStatus, Leased, ProviderAnswer, ProviderCall, ProviderLimits};
use crate::provider::{self, Call, Provider};
use crate::store::queues::Floors;
use crate::store::{payments, refunds};

/// Maximum number of attempts or refunds leased by one statement.
pub const LEASE_BATCH_MAX: usize = 200;

/// Makes the provider calls for one queue.
#[derive(Clone)]
pub struct Charger {
    pub queue: Queue,
    pub queues: Arc<ChargerQueues>,
    pub pool: PgPool,
    pub provider: Arc<dyn Provider>,
    pub limits: ProviderLimits,
}

/// Which rows a charger leases. Each queue has its own charger and its own slots, so that many calls
/// without an answer cannot delay new orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// Pending attempts: no result of a try is recorded yet.
    Fresh,
    /// Attempts whose outcome is unknown.
    Unknown,
    Refunds,
}

/// What the chargers know about their queues, each of which is one queue per principal. Wakes the
/// chargers.
#[derive(Debug)]
pub struct ChargerQueues([Arc<Queues>; 3]);

/// The provider's answer about a leased row. The span stays open until the answer is recorded.
pub struct Answered {
    pub leased: Leased,
    pub answer: ProviderAnswer,
    pub span: Span,
}

impl Work for Charger {
    type Row = Leased;
    type Output = Answered;

    async fn lease(&self, request: LeaseRequest) -> anyhow::Result<Vec<Leased>> {
        let mut connection = database::acquire(&self.pool).await.context("connecting")?;
        let floors = Floors::of(&request, self.queues.of(self.queue));
        let leased = match self.queue.attempts() {
            Some(status) => {
                payments::lease_due(&mut connection, status, &request, &floors, &self.limits).await
            }
            None => refunds::lease_due(&mut connection, &request, &floors, &self.limits).await,
        };
        leased.with_context(|| format!("leasing from {:?}", self.queue))
    }

    fn principal<'a>(&self, leased: &'a Leased) -> &'a str {
        &leased.principal
    }

    fn leased(&self) {
        crash::point(match self.queue {
            Queue::Fresh | Queue::Unknown => "charge.leased",
            Queue::Refunds => "refund.leased",
        });
    }

    async fn call(&self, leased: Leased) -> Answered {
        let name = leased.call.name();
        let mut span = Span::start(name, Kind::Client, leased.traceparent.as_deref());
        span.set("order.id", || leased.order_id.to_string());
        span.set("payment.attempt", || i64::from(leased.attempt));
        span.set("payment.try", || i64::from(leased.tries));
        span.set("idempotency.key", || leased.key());
        span.set("correlation_id", || leased.correlation_id.clone());
        metrics::gauge!(metric::CHARGES_IN_FLIGHT).increment(1);
        let started = Instant::now();
        let traceparent = span.traceparent();
        let [in_flight, answered] = call_points(&leased.call);
        let call = Call {
            leased: &leased,
            traceparent: traceparent.as_deref(),
        };
        let request = provider::make(&*self.provider, call);
        let answer = crash::during(in_flight, request).await;
        crash::point(answered);
        let answer = leased.interpret(answer, self.limits.absence_age);
        metrics::gauge!(metric::CHARGES_IN_FLIGHT).decrement(1);
        if let Some(reason) = answer.open_reason() {
            span.fail(reason.to_owned());
            tracing::info!(
                call = name, outcome = answer.name(), order_id = %leased.order_id, attempt = leased.attempt,
                tries = leased.tries, correlation_id = leased.correlation_id, reason,
                "provider call has no outcome yet"
            );
        }
        let outcome = answer.name();
        span.set("payment.outcome", || outcome);
        metrics::counter!(metric::PSP_CALLS, "call" => name, "outcome" => outcome).increment(1);
        metrics::histogram!(metric::PSP_DURATION_SECONDS, "call" => name).record(started.elapsed());
        Answered {
            leased,
            answer,
            span,
        }
    }

    /// The next owner sends the same key, so nothing needs to be recorded.
    fn expired(&self, _leased: Leased) -> Option<Answered> {
        None
    }

    fn next_try(&self, answered: &Answered) -> Option<Leased> {
        let answer = &answered.answer;
        answer
            .open_reason()
            .map(|_| answered.leased.next_try(answer))
    }
}

impl Queue {
    pub const ALL: [Self; 3] = [Self::Fresh, Self::Unknown, Self::Refunds];

    /// The status of the attempts in the queue; `None` for refunds.
    pub fn attempts(self) -> Option<AttemptStatus> {
        match self {
            Self::Fresh => Some(AttemptStatus::Pending),
            Self::Unknown => Some(AttemptStatus::Unknown),
            Self::Refunds => None,
        }
    }
}

impl ChargerQueues {
    /// `poll`: how often a charger looks for due rows if nothing wakes it.
    pub fn new(poll: Duration) -> Self {
        Self(Queue::ALL.map(|_| Arc::new(Queues::new(poll))))
    }

    pub fn of(&self, queue: Queue) -> &Arc<Queues> {
        let [fresh, unknown, refunds] = &self.0;
        match queue {
            Queue::Fresh => fresh,
            Queue::Unknown => unknown,
            Queue::Refunds => refunds,
        }
    }
}

/// The crash points during and after a call.
const fn call_points(call: &ProviderCall) -> [&'static str; 2] {
    match call {
        ProviderCall::Charge { .. } | ProviderCall::LookUpCharge => {
            ["charge.in_flight", "charge.answered"]
        }
        ProviderCall::CancelKey => ["cancel.in_flight", "cancel.answered"],
        ProviderCall::Refund { .. } | ProviderCall::LookUpRefund { .. } => {
            ["refund.in_flight", "refund.answered"]
        }
    }
}
