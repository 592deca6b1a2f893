//! Responses to direct charges. They are stored under the client's idempotency key and replayed.

use axum::http::StatusCode;
use idempotency::{ContentHash, StoredResponse};
use serde::Serialize;
use service_kit::Problem;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::domain::{AttemptStatus, ProviderAnswer};
use crate::store::direct::Payment;
use crate::store::payments::SettledAttempt;

/// The decline code of a payment whose key was cancelled at the provider.
const CANCELLED: &str = "cancelled";

/// The body of the response to a direct charge.
#[derive(Debug, Serialize, ToSchema)]
pub struct PaymentSummary<'a> {
    pub payment_id: Uuid,
    #[schema(example = "captured")]
    pub status: &'a str,
    /// In the currency's minor unit.
    pub amount: i64,
    pub currency: &'a str,
    pub payment_method: &'a str,
    pub reference: Option<&'a str>,
    /// The provider's id of the charge, once the money is taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub charge_id: Option<&'a str>,
    /// The provider's reason, if the payment was declined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decline_code: Option<&'a str>,
    /// The provider's error, if the payment failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_code: Option<&'a str>,
}

/// The response to a direct charge that this answer settled; `None` if the answer settles nothing.
pub fn for_settled_attempt(
    settled: &SettledAttempt,
    answer: &ProviderAnswer,
) -> Option<StoredResponse> {
    let code = match answer {
        ProviderAnswer::Captured { charge_id }
        | ProviderAnswer::RefundedByHand { charge_id, .. } => {
            let summary = PaymentSummary {
                payment_id: settled.order_id,
                status: AttemptStatus::Captured.as_str(),
                amount: settled.amount,
                currency: &settled.currency,
                payment_method: &settled.payment_method,
                reference: settled.reference.as_deref(),
                charge_id: Some(charge_id),
                decline_code: None,
                failure_code: None,
            };
            return Some(of_summary(StatusCode::CREATED, &summary));
        }
        ProviderAnswer::Failed { code } => {
            return Some(failed(settled.order_id, code, &settled.correlation_id));
        }
        ProviderAnswer::Declined { code } => code,
        ProviderAnswer::Cancelled => CANCELLED,
        ProviderAnswer::Refunded { .. }
        | ProviderAnswer::Absent
        | ProviderAnswer::Processing
        | ProviderAnswer::KeySpent { .. }
        | ProviderAnswer::NotAccepted { .. }
        | ProviderAnswer::Unknown { .. } => return None,
    };
    Some(declined(settled.order_id, code, &settled.correlation_id))
}

/// The same response, from a payment that was settled earlier.
pub fn for_payment(payment: &Payment) -> StoredResponse {
    if payment.charge_id.is_some() {
        return of_summary(StatusCode::CREATED, &PaymentSummary::from(payment));
    }
    if let Some(code) = &payment.failure_code {
        return failed(payment.id, code, &payment.correlation_id);
    }
    let code = payment.decline_code.as_deref().unwrap_or(CANCELLED);
    declined(payment.id, code, &payment.correlation_id)
}

/// The response if the reference already belongs to a payment. With the same content it is that
/// payment, otherwise 409.
pub fn for_taken_reference(first: &Payment, content_hash: &ContentHash) -> StoredResponse {
    if first.content_hash == content_hash.as_bytes() {
        return of_summary(StatusCode::OK, &PaymentSummary::from(first));
    }
    let problem = Problem::new(
        StatusCode::CONFLICT,
        "payment_exists",
        "This reference belongs to a payment with other content. Nothing was charged.",
    );
    StoredResponse::from(&about(problem, first.id))
}

/// Names the payment, so that the client can read it.
pub fn about(problem: Problem, payment_id: Uuid) -> Problem {
    problem
        .with("payment_id", payment_id.to_string())
        .with("payment_url", payment_url(payment_id))
}

pub fn payment_url(payment_id: Uuid) -> String {
    format!("/payments/{payment_id}")
}

/// A decline is final: it is stored under the key and replayed. It carries the correlation id of
/// the client's request, because the recorder runs outside of that request.
fn declined(payment_id: Uuid, code: &str, correlation_id: &str) -> StoredResponse {
    let problem = Problem::new(
        StatusCode::PAYMENT_REQUIRED,
        "payment_declined",
        "The provider declined the payment. No money was taken, and none will be.",
    );
    let problem = about(problem, payment_id)
        .with("decline_code", code)
        .with("correlation_id", correlation_id);
    StoredResponse::from(&problem)
}

/// A definite error of the provider is final under this key, like a decline. The client can pay under a
/// new one.
fn failed(payment_id: Uuid, code: &str, correlation_id: &str) -> StoredResponse {
    let problem = Problem::new(
        StatusCode::PAYMENT_REQUIRED,
        "payment_failed",
        "The provider could not make the payment. No money was taken, and none will be. To try again, \
         use a new key and a new reference.",
    );
    let problem = about(problem, payment_id)
        .with("failure_code", code)
        .with("correlation_id", correlation_id);
    StoredResponse::from(&problem)
}

fn of_summary(status: StatusCode, summary: &PaymentSummary<'_>) -> StoredResponse {
    let headers = vec![
        ("content-type".to_owned(), "application/json".to_owned()),
        ("location".to_owned(), payment_url(summary.payment_id)),
    ];
    StoredResponse {
        status: status.as_u16(),
        headers,
        // A struct of strings and numbers always serialises.
        body: serde_json::to_vec(summary).unwrap_or_default(),
    }
}

impl<'a> From<&'a Payment> for PaymentSummary<'a> {
    fn from(payment: &'a Payment) -> Self {
        Self {
            payment_id: payment.id,
            status: payment.status.as_str(),
            amount: payment.amount,
            currency: &payment.currency,
            payment_method: &payment.payment_method,
            reference: payment.reference.as_deref(),
            charge_id: payment.charge_id.as_deref(),
            decline_code: payment.decline_code.as_deref(),
            failure_code: payment.failure_code.as_deref(),
        }
    }
}
