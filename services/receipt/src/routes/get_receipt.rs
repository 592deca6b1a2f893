//! `GET /admin/receipts/{order_id}`: the state of an order's receipt.

use axum::Json;
use axum::extract::{Path, State};
use service_kit::database::{self, STORE_TIMEOUT};
use uuid::Uuid;

use crate::routes::{Error, Services};
use crate::store::operator::{self, LoggedMail};

pub(super) async fn handle(
    State(services): State<Services>,
    Path(order_id): Path<String>,
) -> Result<Json<LoggedMail>, Error> {
    // A malformed id cannot exist.
    let order_id: Uuid = order_id.parse().map_err(|_| Error::NotFound)?;
    let receipt = database::query_with_timeout(STORE_TIMEOUT, async {
        let mut connection = database::acquire(&services.pool).await?;
        operator::receipt_of_order(&mut connection, order_id).await
    });
    receipt.await?.map(Json).ok_or(Error::NotFound)
}
