//! Reads the tables after a commit whose response was lost.

use std::sync::Arc;
use std::time::Duration;

use service_kit::database;
use sqlx::PgPool;

use crate::store::intake::{NewOrder, Placement};
use crate::store::orders;

/// Longest time for the read, including a new connection.
const READ_BACK_TIMEOUT: Duration = Duration::from_secs(2);

/// Looks once, over another connection, for the orders of a batch that ended in this error. `None`
/// does not mean "not stored": the store may be unreachable, or may still be committing. The client
/// learns the outcome when it retries.
pub(super) async fn find_placements(
    pool: &PgPool,
    orders: &[Arc<NewOrder>],
    error: &database::Error,
) -> Vec<Option<Placement>> {
    if error.is_outcome_unknown() {
        match database::query_with_timeout(READ_BACK_TIMEOUT, read(pool, orders)).await {
            Ok(found) => return found,
            Err(error) => tracing::warn!(%error, "outcome of the orders is unknown"),
        }
    }
    vec![None; orders.len()]
}

async fn read(pool: &PgPool, orders: &[Arc<NewOrder>]) -> sqlx::Result<Vec<Option<Placement>>> {
    let mut connection = database::acquire(pool).await?;
    let mut placements = Vec::with_capacity(orders.len());
    for order in orders {
        let found = orders::find(&mut connection, &order.principal.id, order.id).await?;
        placements.push(found.map(|_| match order.claim {
            // The id was generated for this request, so this commit stored the order, and with it
            // the key and the response.
            Some(_) => Placement::Placed,
            // The client chose the id, so the order may be older than this request.
            None => Placement::Known,
        }));
    }
    Ok(placements)
}
