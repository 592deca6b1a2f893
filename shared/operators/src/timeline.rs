//! `GET /admin/timeline/{order_id}`: what a service's own tables say about one order.
//!
//! Each service provides the reader. The route, its limits and its errors are the same for all services.

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use serde::Deserialize;
use service_kit::Problem;
use service_kit::database::{self, STORE_TIMEOUT};
use service_kit::request_error::operator_problem;
use sqlx::{Connection as _, PgConnection, PgPool};
use steps::Part;
use uuid::Uuid;

/// Keys in one request. An order has one for each attempt and refund.
const KEYS_MAX: usize = 50;

/// Reads one service's part of an order's timeline.
pub trait ReadPart: Clone + Send + Sync + 'static {
    /// Returns a part without steps if the service does not know the order. The connection is in a read-only
    /// transaction with one snapshot, so the steps are consistent.
    fn read(
        &self,
        connection: &mut PgConnection,
        query: &PartQuery,
    ) -> impl Future<Output = sqlx::Result<Part>> + Send;
}

/// The order of a request, and the provider's keys that belong to it.
#[derive(Clone, Debug)]
pub struct PartQuery {
    pub order_id: Uuid,
    /// Keys that payment sent to the provider. The provider cannot derive them from the order.
    pub keys: Vec<String>,
}

/// Reads the part of one order from one snapshot of the service's tables.
pub async fn read_part<R: ReadPart>(
    pool: &PgPool,
    reader: &R,
    query: &PartQuery,
) -> Result<Part, database::Error> {
    let part = database::query_with_timeout(STORE_TIMEOUT, async {
        let mut connection = database::acquire(pool).await?;
        let begin = "begin isolation level repeatable read read only";
        let mut tx = connection.begin_with(begin).await?;
        let part = reader.read(&mut tx, query).await?;
        tx.rollback().await?;
        Ok(part)
    });
    Ok(part.await?.finish())
}

/// The route, for [`finish`](crate::finish).
pub fn timeline<R: ReadPart>(pool: PgPool, reader: R) -> Router {
    Router::new()
        .route("/admin/timeline/{order_id}", get(handle::<R>))
        .with_state((pool, reader))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Keys {
    /// Separated by commas.
    keys: Option<String>,
}

async fn handle<R: ReadPart>(
    State((pool, reader)): State<(PgPool, R)>,
    Path(order_id): Path<String>,
    keys: Result<Query<Keys>, QueryRejection>,
) -> Result<Json<Part>, Problem> {
    // A malformed id cannot exist.
    let order_id = order_id.parse().map_err(|_| not_an_order())?;
    let Query(keys) = keys.map_err(|error| bad_query(error.body_text()))?;
    let keys = keys.keys.unwrap_or_default();
    let keys = keys.split(',').filter(|key| !key.is_empty());
    let keys: Vec<String> = keys.map(str::to_owned).collect();
    if keys.len() > KEYS_MAX {
        return Err(bad_query(format!("Send at most {KEYS_MAX} keys.")));
    }
    let query = PartQuery { order_id, keys };
    let part = read_part(&pool, &reader, &query).await;
    Ok(Json(part.map_err(operator_problem)?))
}

fn not_an_order() -> Problem {
    let detail = "The order id must be a UUID.";
    Problem::new(StatusCode::NOT_FOUND, "not_found", detail)
}

fn bad_query(detail: String) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, "invalid_query", detail)
}
