//! `GET /admin/payments/{order_id}`: every attempt and refund of one order.

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use serde::Serialize;
use service_kit::database::{self, STORE_TIMEOUT};
use uuid::Uuid;

use crate::routes::{Error, Services};
use crate::store::operator::{self, AttemptView, RefundView};

#[derive(Serialize)]
pub(super) struct Body {
    attempts: Vec<AttemptView>,
    refunds: Vec<RefundView>,
}

pub(super) async fn handle(
    State(services): State<Services>,
    order_id: Result<Path<Uuid>, PathRejection>,
) -> Result<Json<Body>, Error> {
    let Path(order_id) = order_id.map_err(|_| Error::NotFound)?;
    database::with_timeout(STORE_TIMEOUT, async {
        let mut connection = database::acquire(&services.pool).await?;
        let attempts = operator::attempts_of(&mut connection, order_id).await?;
        let refunds = operator::refunds_of(&mut connection, order_id).await?;
        if attempts.is_empty() && refunds.is_empty() {
            return Err(Error::NotFound);
        }
        Ok(Json(Body { attempts, refunds }))
    })
    .await
}
