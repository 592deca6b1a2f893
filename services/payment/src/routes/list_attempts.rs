//! `GET /admin/payments?status=unknown&limit=`: open attempts and refunds, the longest due first. Each
//! has its reason, the number of tries and the time of the next try.

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use serde::{Deserialize, Serialize};
use service_kit::database::{self, STORE_TIMEOUT};

use crate::domain::{AttemptStatus, RefundStatus};
use crate::routes::{Error, Services};
use crate::store::operator::{self, AttemptView, RefundView};

const ROWS_DEFAULT: u32 = 100;
const ROWS_MAX: u32 = 1_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Filter {
    status: Option<String>,
    limit: Option<u32>,
}

#[derive(Serialize)]
pub(super) struct Body {
    data: Vec<AttemptView>,
    /// Open refunds of the same status.
    refunds: Vec<RefundView>,
}

pub(super) async fn handle(
    State(services): State<Services>,
    filter: Result<Query<Filter>, QueryRejection>,
) -> Result<Json<Body>, Error> {
    let Query(filter) =
        filter.map_err(|_| Error::Query("Use only the parameters status and limit."))?;
    let name = filter.status.as_deref();
    let name = name.unwrap_or(AttemptStatus::Unknown.as_str());
    let (attempts, refunds) =
        open_statuses(name).ok_or(Error::Query("The status must be unknown or pending."))?;
    let limit = filter.limit.unwrap_or(ROWS_DEFAULT).clamp(1, ROWS_MAX);
    let limit = i64::from(limit);
    database::with_timeout(STORE_TIMEOUT, async {
        let mut connection = database::acquire(&services.pool).await?;
        let data = operator::open_attempts(&mut connection, attempts, limit).await?;
        let refunds = operator::open_refunds(&mut connection, refunds, limit).await?;
        Ok(Json(Body { data, refunds }))
    })
    .await
}

/// The open statuses of this name. Attempts and refunds have the same ones.
fn open_statuses(name: &str) -> Option<(AttemptStatus, RefundStatus)> {
    let attempts: AttemptStatus = name.parse().ok()?;
    let refunds: RefundStatus = name.parse().ok()?;
    (attempts.is_open() && refunds.is_open()).then_some((attempts, refunds))
}
