//! Payments as callers see them.

use chrono::{DateTime, Utc};
use idempotency::{ContentHash, StoredResponse};
use serde::Serialize;
use service_kit::Problem;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::domain::{Answer, Status};
use crate::routes::error;
use crate::store::direct::Payment;
use crate::store::payments::Settled;

/// The decline code of a payment whose key was taken out of use at the provider.
const CANCELLED: &str = "cancelled";

/// The answer to a request for a direct charge.
#[derive(Debug, Serialize, ToSchema)]
pub struct Receipt<'a> {
    pub payment_id: Uuid,
    #[schema(example = "captured")]
    pub status: &'a str,
    /// In the currency's minor unit.
    pub amount: i64,
    pub currency: &'a str,
    pub payment_method: &'a str,
    pub reference: Option<&'a str>,
    /// The provider's, once the money is taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub charge_id: Option<&'a str>,
    /// The provider's reason, if it took none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decline_code: Option<&'a str>,
}

/// A direct charge with all there is to know.
#[derive(Debug, Serialize, ToSchema)]
pub struct PaymentView {
    pub payment_id: Uuid,
    /// `pending`, `unknown`, `captured` or `declined`. Of an unknown one the provider was asked and
    /// nobody was told: it may have been charged, and is asked about until that is known.
    pub status: String,
    /// In the currency's minor unit.
    pub amount: i64,
    pub currency: String,
    pub payment_method: String,
    pub reference: Option<String>,
    pub charge_id: Option<String>,
    pub decline_code: Option<String>,
    /// Why the outcome is not known.
    pub reason: Option<String>,
    /// Calls to the provider so far.
    pub tries: i32,
    /// While it is open: when the provider is asked next, at the latest.
    pub next_try_at: Option<DateTime<Utc>>,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
}

impl From<Payment> for PaymentView {
    fn from(payment: Payment) -> Self {
        let next_try_at = payment.is_open().then_some(payment.due_at);
        Self {
            payment_id: payment.id,
            status: payment.status,
            amount: payment.amount,
            currency: payment.currency,
            payment_method: payment.payment_method,
            reference: payment.reference,
            charge_id: payment.charge_id,
            decline_code: payment.decline_code,
            reason: payment.last_error,
            tries: payment.tries,
            next_try_at,
            created_at: payment.created_at,
            updated_at: payment.updated_at,
        }
    }
}

impl<'a> From<&'a Payment> for Receipt<'a> {
    fn from(payment: &'a Payment) -> Self {
        Self {
            payment_id: payment.id,
            status: &payment.status,
            amount: payment.amount,
            currency: &payment.currency,
            payment_method: &payment.payment_method,
            reference: payment.reference.as_deref(),
            charge_id: payment.charge_id.as_deref(),
            decline_code: payment.decline_code.as_deref(),
        }
    }
}

/// The answer to the caller of a direct charge that was settled just now; `None` if the provider's
/// answer settles nothing.
pub fn of_settled(settled: &Settled, answer: &Answer) -> Option<StoredResponse> {
    let code = match answer {
        Answer::Captured { charge_id } => {
            let receipt = Receipt {
                payment_id: settled.order_id,
                status: Status::Captured.as_str(),
                amount: settled.amount,
                currency: &settled.currency,
                payment_method: &settled.payment_method,
                reference: settled.reference.as_deref(),
                charge_id: Some(charge_id),
                decline_code: None,
            };
            return Some(stored(201, &receipt));
        }
        Answer::Declined { code } => code,
        Answer::Cancelled => CANCELLED,
        Answer::Absent | Answer::Refunded { .. } | Answer::Unknown { .. } => return None,
    };
    Some(declined(settled.order_id, code, &settled.correlation_id))
}

/// The same of a payment that was settled before.
pub fn of_payment(payment: &Payment) -> StoredResponse {
    if payment.charge_id.is_some() {
        return stored(201, &Receipt::from(payment));
    }
    let code = payment.decline_code.as_deref().unwrap_or(CANCELLED);
    declined(payment.id, code, &payment.correlation_id)
}

/// For a reference that names a payment already: that payment if the content is the same, else 409.
pub fn of_taken_reference(first: &Payment, content_hash: &ContentHash) -> StoredResponse {
    if first.content_hash == content_hash.as_bytes() {
        return stored(200, &Receipt::from(first));
    }
    of_problem(&error::conflict(first.id))
}

pub fn url(payment_id: Uuid) -> String {
    format!("/payments/{payment_id}")
}

/// A decline is a result: it is stored, and given again. It names the request that asked, which
/// whoever records it is not part of.
fn declined(payment_id: Uuid, code: &str, correlation_id: &str) -> StoredResponse {
    of_problem(&error::declined(payment_id, code).with("correlation_id", correlation_id))
}

fn of_problem(problem: &Problem) -> StoredResponse {
    StoredResponse {
        status: problem.status().as_u16(),
        headers: vec![(
            "content-type".to_owned(),
            service_kit::problem::CONTENT_TYPE.to_owned(),
        )],
        body: problem.body(),
    }
}

fn stored(status: u16, receipt: &Receipt<'_>) -> StoredResponse {
    let headers = vec![
        ("content-type".to_owned(), "application/json".to_owned()),
        ("location".to_owned(), url(receipt.payment_id)),
    ];
    // A struct of strings and numbers always serialises.
    let body = serde_json::to_vec(receipt).unwrap_or_default();
    StoredResponse {
        status,
        headers,
        body,
    }
}
