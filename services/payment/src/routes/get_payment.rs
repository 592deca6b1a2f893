//! `GET /payments/{id}`: one of the caller's direct charges.

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use chrono::{DateTime, Utc};
use serde::Serialize;
use service_kit::database::{self, STORE_TIMEOUT};
use service_kit::openapi_errors::{NotFound, Unauthenticated, Unavailable};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::routes::{Error, Services};
use crate::store::direct::{self, Payment};

/// Returns one of the caller's payments.
#[utoipa::path(
    get,
    path = "/payments/{id}",
    operation_id = "get_payment",
    params(("id" = Uuid, Path)),
    responses(
        (status = 200, description = "The current state of the payment", body = PaymentView),
        Unauthenticated, NotFound, Unavailable
    ),
    security(("bearer" = []))
)]
pub(super) async fn handle(
    State(services): State<Services>,
    id: Result<Path<Uuid>, PathRejection>,
    headers: HeaderMap,
) -> Result<Json<PaymentView>, Error> {
    let principal = services.authenticator.principal(&headers).await?;
    let Path(id) = id.map_err(|_| Error::NotFound)?;
    let payment = database::query_with_timeout(STORE_TIMEOUT, async {
        let mut connection = database::acquire(&services.pool).await?;
        direct::find(&mut connection, &principal.id, id).await
    })
    .await?;
    Ok(Json(payment.ok_or(Error::NotFound)?.into()))
}

/// A direct charge in full.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct PaymentView {
    payment_id: Uuid,
    /// `pending`, `unknown`, `captured`, `declined` or `failed`. `unknown`: the provider's response was
    /// lost, so there may be a charge. The service asks the provider again until the outcome is known.
    /// `failed`: the provider answered with a definite error, and took no money.
    status: &'static str,
    /// In the currency's minor unit.
    amount: i64,
    currency: String,
    payment_method: String,
    reference: Option<String>,
    charge_id: Option<String>,
    decline_code: Option<String>,
    /// The provider's error, if the payment failed.
    failure_code: Option<String>,
    /// Why the outcome is unknown.
    reason: Option<String>,
    /// Calls to the provider so far.
    tries: i32,
    /// While the payment is open: the latest time of the next call to the provider.
    next_try_at: Option<DateTime<Utc>>,
    created_at: DateTime<Utc>,
    updated_at: DateTime<Utc>,
}

impl From<Payment> for PaymentView {
    fn from(payment: Payment) -> Self {
        Self {
            payment_id: payment.id,
            status: payment.status.as_str(),
            amount: payment.amount,
            currency: payment.currency,
            payment_method: payment.payment_method,
            reference: payment.reference,
            charge_id: payment.charge_id,
            decline_code: payment.decline_code,
            failure_code: payment.failure_code,
            reason: payment.last_error,
            tries: payment.tries,
            next_try_at: payment.status.is_open().then_some(payment.due_at),
            created_at: payment.created_at,
            updated_at: payment.updated_at,
        }
    }
}
