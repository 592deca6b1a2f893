//! `GET /admin/reconciliations`: the latest reports, newest first.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use service_kit::database::{self, STORE_TIMEOUT};

use crate::routes::{Error, Services};
use crate::store::reconciliations::{self, Report};

const REPORTS_MAX: i64 = 20;

#[derive(Serialize)]
pub(super) struct Body {
    data: Vec<Report>,
}

pub(super) async fn handle(State(services): State<Services>) -> Result<Json<Body>, Error> {
    let data = database::query_with_timeout(STORE_TIMEOUT, async {
        let mut connection = database::acquire(&services.pool).await?;
        reconciliations::latest(&mut connection, REPORTS_MAX).await
    })
    .await?;
    Ok(Json(Body { data }))
}
