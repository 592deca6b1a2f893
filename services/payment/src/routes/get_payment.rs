//! `GET /payments/{id}`: a direct charge of the caller's own.

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use service_kit::database::{self, STORE_TIMEOUT};
use service_kit::openapi_errors::{NotFound, Unauthenticated, Unavailable};
use uuid::Uuid;

use crate::routes::view::PaymentView;
use crate::routes::{Error, Services};
use crate::store::direct;

/// One of the caller's payments.
#[utoipa::path(
    get,
    path = "/payments/{id}",
    operation_id = "get_payment",
    params(("id" = Uuid, Path)),
    responses(
        (status = 200, description = "The payment as it is now", body = PaymentView),
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
