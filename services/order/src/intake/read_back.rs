//! A commit without an answer: the tables say what became of it.

use std::time::Duration;

use service_kit::database;
use sqlx::PgPool;

use crate::store::intake::{NewOrder, Placement};
use crate::store::orders;

/// Longest time for the look, a fresh connection included.
const READ_BACK_TIMEOUT: Duration = Duration::from_secs(2);

/// What is there of a batch that ended in this error, asked once on another connection. `None` is not
/// "was not stored": the store may be away still, or at it still. The client's retry will tell.
pub(super) async fn look(
    pool: &PgPool,
    orders: &[NewOrder],
    error: &database::Error,
) -> Vec<Option<Placement>> {
    if error.is_outcome_open() {
        match database::query_with_timeout(READ_BACK_TIMEOUT, read(pool, orders)).await {
            Ok(found) => return found,
            Err(error) => tracing::warn!(%error, "what became of the orders is not known"),
        }
    }
    vec![None; orders.len()]
}

async fn read(pool: &PgPool, orders: &[NewOrder]) -> sqlx::Result<Vec<Option<Placement>>> {
    let mut connection = database::acquire(pool).await?;
    let mut placements = Vec::with_capacity(orders.len());
    for order in orders {
        let found = orders::find(&mut connection, &order.principal.id, order.id).await?;
        placements.push(found.map(|_| match order.claim {
            // The id was made for this request alone: it is this commit that put it there, and with
            // it the key and the answer.
            Some(_) => Placement::Placed,
            // The id is the client's own, and may have been there before.
            None => Placement::Known,
        }));
    }
    Ok(placements)
}
